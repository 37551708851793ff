"""What users ask of an early exit: one set of options, and the calibration that is made of it.

Rows that a promise may be tested on are checked for what would make it false, and split by their own values.

A promise is about new rows. It is tested on calibration rows, which must be independent draws like them. Three mistakes
are easily made, and each makes a plan state something false: rows that fitted the rule certify it too, rows were copied
(by oversampling, say), or rows trained the model (`training_rows`). `scurry.stopping.guarantee` has the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import (
    RandomState,
    check_choice,
    check_confidence,
    check_number,
    check_numbers,
    check_rate,
    draw_seed,
    read_column,
)
from scurry.errors import InputError, warn
from scurry.forest import Forest, Thresholded, as_member, as_rows, warn_of_other_order
from scurry.promises import Certificate, Labels, Promise, Recall, RowSummary
from scurry.stopping.guarantee import (
    InMemory,
    Sample,
    Sums,
    certified_rate,
    find_shared,
    hash_rows,
    split_rows,
)
from scurry.stopping.scores.rule import PRESETS, check_costs
from scurry.verbs.training_rows import describe_training, find_copies


class Parts(NamedTuple):
    """Rows divided into subgroups.

    Attributes
    ----------
    names : tuple of str
    codes : int array of shape (n_rows,)
        The subgroup of each row, as an index of `names`.
    """

    names: tuple[str, ...]
    codes: NDArray[np.intp]


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckedRows:
    """Calibration rows that a promise may be tested on.

    Attributes
    ----------
    sample : Sample
    y : array of shape (n_rows,) or None
    digests : uint64 array of shape (n_rows,)
        Equal for equal rows. Empty where nothing is promised, and rows are not split.
    unit : {"row", "distinct row", "group"}
        What is an independent draw, and is counted.
    groups : int array of shape (n_rows,) or None
        The unit of each row, from 0 on; None where each row is one.
    parts : Parts or None
        The subgroup of each row, where a promise is made for each of several.
    n_shared : int
        Rows that were left out because they fitted the rule.
    left : bool array or None
        Which of the rows given are left; None if all are.
    warned : str
        Why nothing can be promised for new rows; empty if it can.
    """

    sample: Sample
    y: NDArray[Any] | None
    digests: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    unit: str = "row"
    groups: NDArray[np.intp] | None = None
    parts: Parts | None = None
    n_shared: int = 0
    left: NDArray[np.bool_] | None = None
    warned: str = ""

    @property
    def n_units(self) -> int:
        """Number of independent draws."""
        return self.sample.n_rows if self.groups is None else int(self.groups.max()) + 1

    def split(self, n_fit: int) -> tuple[Sample, NDArray[Any] | None, Sample]:
        """Return rows of `n_fit` units and their labels, to fit a rule, and one row of each other unit to test it."""
        fits, tests = self.divide(n_fit)
        return self.sample.where(fits), None if self.y is None else self.y[fits], self.sample.where(tests)

    def divide(self, n_fit: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows belong to `n_fit` units that fit a rule, and which to the others, one row of each."""
        return split_rows(self.digests, n_fit, self.groups)

    def one_of_each(self) -> Sample:
        """Return one row of each unit, to test what other rows fitted."""
        return self.sample if self.groups is None else self.split(0)[2]


def check_rows(
    forest: Forest,
    sample: Sample,
    y: NDArray[Any] | None,
    groups: Any,
    fit_rows: NDArray[Any] | None,
    parts: Parts | None = None,
) -> CheckedRows:
    """Return the rows that may test a promise, and warn of what was wrong with the others.

    Raises
    ------
    InputError
        If no row may.
    """
    codes = None if groups is None else check_groups(groups, sample.n_rows)
    digests = sample.each(partial(hash_rows, dtype=forest.input_dtype))
    warned = describe_training(forest, sample, y)
    if warned:
        warn(warned, UserWarning)
    unit, n_shared, left = "row" if codes is None else "group", 0, None
    if fit_rows is not None and (shared := find_shared(digests, hash_rows(fit_rows, forest.input_dtype))) is not None:
        # Of a group with a row that fitted the rule, none is independent of it.
        shared = shared if codes is None else np.isin(codes, codes[shared])
        n_shared, left = int(shared.sum()), ~shared
        _warn_of_shared(n_shared, len(shared))
        sample, digests, y = sample.where(~shared), digests[~shared], None if y is None else y[~shared]
        codes = None if codes is None else np.unique(codes[~shared], return_inverse=True)[1]
        parts = None if parts is None else parts._replace(codes=parts.codes[~shared])
    if codes is None and (codes := find_copies(forest, sample, digests, y, parts and parts.codes)) is not None:
        unit = "distinct row"
        warn(
            f"rows of X_cal are copies of others: {len(digests):,} rows, {codes.max() + 1:,} without copies. A "
            "copy proves nothing new, so each row counts once. Pass rows as they were before any was drawn again; if "
            "rows belong together (of one patient, say), pass groups=, and each group counts once",
            UserWarning,
        )
    return CheckedRows(
        sample=sample,
        y=y,
        digests=digests,
        unit=unit,
        groups=codes,
        parts=parts,
        n_shared=n_shared,
        left=left,
        warned=warned,
    )


def read_parts(by: Any, X_cal: Any, n_rows: int) -> Parts:
    """Return the subgroups of calibration rows: one value for each row, or the name of a column of `X_cal`."""
    prefix = f"{by}=" if isinstance(by, str) else ""
    given = read_column("by", by, X_cal)
    values, codes = _number_values("by", given, n_rows, "give rows without a subgroup a value of their own")
    return Parts(tuple(f"{prefix}{value}" for value in values.tolist()), codes)


def check_groups(groups: Any, n_rows: int, table: str = "X_cal") -> NDArray[np.intp]:
    """Return the group of each row of a table as a number from 0 on."""
    return _number_values("groups", groups, n_rows, "give rows without a group one each", table)[1]


def _number_values(
    name: str, given: Any, n_rows: int, advice: str, table: str = "X_cal"
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the different values, and for each row the index of its own."""
    array = np.asarray(given)
    if array.shape != (n_rows,):
        raise InputError(f"{name} has shape {array.shape}, {table} has {n_rows} rows", argument=name)
    is_missing = array.dtype.kind == "f" and bool(np.isnan(array).any())
    if is_missing or (array.dtype.kind == "O" and any(value is None or value != value for value in array.tolist())):
        raise InputError(f"{name} has missing values; {advice}", argument=name)
    try:
        values, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputError(f"{name} must be of one type: {error}", argument=name) from error
    return values, codes.astype(np.intp)


def _warn_of_shared(n_shared: int, n_rows: int) -> None:
    instead = "Leave X_fit out, and a part of X_cal fits the rule"
    if n_shared == n_rows:
        raise InputError(
            f"all {n_rows:,} rows of X_cal are among those of X_fit, and rows that fitted a rule cannot certify it. "
            f"{instead}",
            argument="X_fit",
        )
    warn(
        f"{n_shared:,} of {n_rows:,} rows of X_cal are among those of X_fit too, more than two independent samples of "
        f"such data share. They fitted the rule, so they are left out of its certificate. {instead}",
        UserWarning,
    )


VOTE_METHODS = ("minimax", "minimean", "minimixed", "schwing")
METHODS = ("auto", *VOTE_METHODS, "qwyc", "fan", "sentinels")
DEFAULT_RATE, DEFAULT_CONFIDENCE = 1e-3, 0.95
_ALWAYS_WRITTEN = ("max_disagreement", "method", "confidence")  # in the call that made a plan: a reader looks for them


class ExitKeywords(TypedDict, total=False):
    """The options of `ExitOptions` as keyword arguments, for functions that pass them on."""

    promise: Promise | str | None
    max_disagreement: float
    method: str
    confidence: float | None
    shuffle: str
    keep_scores: str | None
    costs: str | ArrayLike
    threshold: float | None
    order: str | ArrayLike | None
    bin_width: float | None
    gamma: float | None
    random_state: RandomState


@dataclass(frozen=True, eq=False, kw_only=True)
class ExitOptions:
    """What may be asked of an early exit. `scurry.early_exit` explains each option.

    The function, its form for files, the estimator and the command line all fill this class, so that an option is
    checked in one place and cannot be forgotten in another.
    """

    promise: Promise | None = None
    max_disagreement: float = DEFAULT_RATE
    method: str = "auto"
    confidence: float | None = DEFAULT_CONFIDENCE
    shuffle: str = "fixed"
    keep_scores: str | None = None
    costs: str | ArrayLike = "trees"
    threshold: float | None = None
    order: str | ArrayLike | None = None
    bin_width: float | None = None
    gamma: float | None = None
    random_state: RandomState = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_rate("max_disagreement", self.max_disagreement)
        if self.confidence is not None:
            check_confidence(self.confidence)
        check_choice("shuffle", self.shuffle, ("fixed", "row"))
        if self.shuffle == "row" and self.method not in VOTE_METHODS:
            raise InputError(
                f'shuffle="row" is for methods on votes ({", ".join(VOTE_METHODS)}), got method={self.method!r}',
                argument="shuffle",
            )
        if self.keep_scores not in (None, "positive"):
            raise InputError(
                f'keep_scores must be None or "positive", got {self.keep_scores!r}', argument="keep_scores"
            )
        if isinstance(self.costs, str) and self.costs not in ("trees", "steps"):
            raise InputError(
                f'costs must be "trees", "steps" or a number per tree, got {self.costs!r}', argument="costs"
            )
        self._check_search()
        if self.promise is not None:
            self._check_promise(self.promise)

    def _check_search(self) -> None:
        if self.order is not None and self.method not in ("qwyc", "fan"):
            raise InputError(
                f'method={self.method!r} finds or draws its own order; use "qwyc" or "fan"', argument="order"
            )
        if isinstance(self.order, str):
            check_choice("order", self.order, PRESETS)
        for name in ("bin_width", "gamma"):
            if getattr(self, name) is not None and self.method != "fan":
                raise InputError(f'{name} is for method="fan", got method={self.method!r}', argument=name)
        if self.bin_width is not None:
            check_number("bin_width", self.bin_width, above=0.0)
        if self.gamma is not None:
            check_number("gamma", self.gamma)

    def _check_promise(self, promise: Promise) -> None:
        if not isinstance(promise, Promise):
            raise InputError(
                f'promise must be one of scurry.promises, such as Labels(0.005), or a text such as "labels<=0.5%", got '
                f"{promise!r}",
                argument="promise",
            )
        if isinstance(promise, Labels) and (promise.against != "model" or promise.holds != "rows"):
            raise InputError(
                "leave `against` and `holds` of the promise out: they follow from the method and shuffle",
                argument="promise",
            )
        if self.max_disagreement != DEFAULT_RATE or self.confidence != DEFAULT_CONFIDENCE:
            raise InputError(
                "pass either promise, or its short form max_disagreement and confidence, not both", argument="promise"
            )

    def write_call(self, *data: str, seed: int | None) -> str:
        """Return the call of `scurry.early_exit` that asks for this, as Python.

        Parameters
        ----------
        *data : str
            The data arguments, such as "X_cal" and "X_fit=X_fit".
        seed : int or None
            What `random_state` came to; None where it does not matter.
        """
        options = {field.name: getattr(self, field.name) for field in fields(self)} | {"random_state": seed}
        if isinstance(self.promise, Labels):
            # The short form of the same promise, which makes the same plan.
            options |= {
                "promise": None,
                "max_disagreement": self.promise.max_changed,
                "confidence": self.promise.confidence,
            }
        elif self.promise is not None:
            del options["max_disagreement"], options["confidence"]
        # Every field is written unless it has its default, so that a new option cannot be forgotten.
        usual = {field.name: field.default for field in fields(self) if field.name not in _ALWAYS_WRITTEN}
        written = [f"{k}={_as_code(v)}" for k, v in options.items() if k not in usual or not _is_same(v, usual[k])]
        return f"scurry.early_exit({', '.join(['model', *data, *written])})"

    @property
    def asked(self) -> Promise:
        """The promise that is asked for."""
        if self.promise is not None:
            return self.promise
        return Labels(self.max_disagreement, confidence=self.confidence)

    @property
    def labels(self) -> Labels:
        """The promise that is asked for, where it is about the share of all labels that change."""
        return _as_labels(self.asked)

    @property
    def is_promised(self) -> bool:
        """Whether rows have to certify something."""
        return self.asked.rows_needed() > 0

    @property
    def cost_unit(self) -> str:
        """What is saved: "trees", "steps", or "cost" in units of the caller."""
        return self.costs if isinstance(self.costs, str) else "cost"


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """A forest, calibration rows and the options of an early exit, checked against each other.

    Attributes
    ----------
    forest : Forest
    rows : CheckedRows
        Calibration rows that may certify a promise.
    given : Sample
        Calibration rows before any was left out.
    fit_rows : array or None
        Rows that fit the rule, where they are not to be taken from `rows`.
    fit_y : array or None
        Their labels, where they are known.
    has_fit_rows : bool
        Whether the caller gave rows to fit the rule.
    promise : Promise
        What is asked for.
    options : ExitOptions
    costs : float64 array of shape (n_trees,) or None
        Costs of trees in units of the caller, where they were given.
    seed : int
        Seeds whatever is drawn at random.
    data : tuple of str
        The data arguments of the call, as Python.
    risk_share : float
        The part of the promise's risk that a test may take: less than 1 if several plans are tested on the same rows.
    """

    forest: Forest
    rows: CheckedRows
    given: Sample
    fit_rows: NDArray[Any] | None
    fit_y: NDArray[Any] | None = None
    promise: Promise
    options: ExitOptions
    costs: NDArray[np.float64] | None
    seed: int
    data: tuple[str, ...]
    has_fit_rows: bool
    risk_share: float = 1.0

    @classmethod
    def of(
        cls,
        forest: Forest,
        X_cal: Any,
        y_cal: Any,
        X_fit: Any,
        options: ExitOptions,
        groups: Any = None,
        by: Any = None,
        y_fit: Any = None,
    ) -> Calibration:
        """Check rows and options against the model; raise an error that says what is accepted."""
        asked = options.asked
        if asked.IS_ABOUT_CLASSES:
            check_classifier(forest, options.promise)
        if asked.NEEDS_LABELS and y_cal is None:
            raise InputError(
                f"y_cal is needed: {type(asked).__name__} compares answers with known labels; pass them, or promise "
                "Labels(…), which needs none",
                argument="y_cal",
            )
        costs = None if isinstance(options.costs, str) else check_costs(options.costs, forest.n_trees)
        if options.threshold is not None:
            forest = with_threshold(forest, options.threshold)
        if isinstance(asked, Recall) and forest.n_classes == 2:
            first, second = np.asarray(forest.classes).tolist()
            if asked.label == first and (given := options.threshold) is not None and given < 0.5:
                about = f"is about {second!r}, the second class, and the promise about {first!r}: it is answered where"
                more = f"P({first}) > {1 - given:g}. For P({first}) >= {given:g}, pass {1 - given:g}"
                warn(f"threshold={given:g} {about} {more}")
            if asked.label == first and options.keep_scores is not None:
                raise InputError(
                    f'keep_scores="positive" keeps the scores of rows of {second!r}, the second class, and the promise '
                    f"is about {first!r}; leave keep_scores out, or promise Recall({second!r}, …)",
                    argument="keep_scores",
                )
        data = _name_data(X_cal=X_cal, y_cal=y_cal, X_fit=X_fit, y_fit=y_fit, groups=groups, by=by)
        if X_cal is None:
            X_cal = InMemory(np.empty((0, forest.n_features), forest.input_dtype))
        sample = X_cal if isinstance(X_cal, Sample) else InMemory(as_rows(forest, X_cal))
        if sample.n_rows == 0 and (asked.rows_needed() or isinstance(asked, Labels)):
            raise InputError("X_cal has no rows; pass rows like those to be predicted, labels are not needed")
        y = _check_truth(forest, "cal", y_cal, sample.n_rows)
        if y is not None:
            in_memory = sample.gather() if sample.n_rows == sample.max_gathered else None
            warn_of_other_order(forest, X_cal, y_cal, in_memory, ("X_cal", "y_cal"))
        groups = read_column("groups", groups, X_cal)
        fit_rows = None if X_fit is None else as_rows(forest, X_fit)
        if y_fit is not None and fit_rows is None:
            raise InputError(
                "y_fit has the labels of X_fit, and there is none; pass both, or neither", argument="y_fit"
            )
        fit_y = None if fit_rows is None else _check_truth(forest, "fit", y_fit, len(fit_rows))
        if fit_rows is not None and len(fit_rows) == 0:
            raise InputError("X_fit has no rows; leave it out, and a part of X_cal fits the rule", argument="X_fit")
        if not options.is_promised and groups is not None:
            raise InputError("groups are for a promise, and without a confidence there is none", argument="groups")
        if groups is not None and options.shuffle == "row":
            raise InputError('groups need one order of trees for all rows: shuffle="fixed"', argument="groups")
        if by is not None and not options.is_promised:
            raise InputError("by is for a promise, and without a confidence there is none", argument="by")
        parts = None if by is None else read_parts(by, X_cal, sample.n_rows)
        rows = CheckedRows(sample=sample, y=y)
        if options.is_promised:
            rows = check_rows(forest, sample, y, groups, fit_rows, parts)
        return cls(
            forest=forest,
            rows=rows,
            given=sample,
            fit_rows=fit_rows,
            fit_y=fit_y,
            promise=asked if groups is None else asked.about_groups(),
            options=options,
            costs=costs,
            seed=draw_seed(options.random_state),
            data=data,
            has_fit_rows=fit_rows is not None,
        )

    @property
    def labels(self) -> Labels:
        """The promise, where it is about the share of all labels that change."""
        return _as_labels(self.promise)

    @property
    def risk(self) -> float:
        """The probability with which a test of a plan may be wrong."""
        return self.risk_share * (1.0 - (self.promise.confidence or 0.0))

    @property
    def sample(self) -> Sample:
        """The calibration rows that may certify a promise."""
        return self.rows.sample

    @cached_property
    def rng(self) -> np.random.Generator:
        """A generator for what the caller may draw anew with another seed."""
        return np.random.default_rng(self.seed)

    @property
    def search_rng(self) -> np.random.Generator:
        """A generator for what is certified. It is seeded from the rows, so that no other seed gives a second try."""
        return np.random.default_rng(int(self.rows.digests.sum())) if len(self.rows.digests) else self.rng

    def tree_costs(self, sample: Sample) -> NDArray[np.float64]:
        """Return what each tree costs: 1, as given, or the mean number of node tests in it; shape (n_trees,)."""
        if self.costs is not None:
            return self.costs
        if self.options.cost_unit == "trees":
            return np.ones(self.forest.n_trees)
        return sample.sums(partial(_node_tests, self.forest)) / sample.n_rows

    @cached_property
    def _row_summary(self) -> RowSummary | None:
        if self.sample.n_rows == 0:
            return None
        # An even selection of rows, the same wherever they lie. All rows that were given are known again by theirs.
        given = _select_evenly(self.given)
        checksum = RowSummary.checksum_of_selected(given, self.given.n_rows)
        return RowSummary.of(given if self.sample is self.given else _select_evenly(self.sample), checksum=checksum)

    @property
    def second_class(self) -> Any:
        """The class that `threshold` and `keep_scores` are about."""
        return np.asarray(self.forest.classes).tolist()[1]

    def certificate(
        self, method: str, promise: Promise | None, *, n_rows: int = 0, n_broken: int = 0, **known: Any
    ) -> Certificate:
        """Return the certificate of a plan by `method`.

        With `n_rows` and no `bound` among what is `known`, the bound is that of an exact binomial test.
        """
        note = known.pop("note", "")
        if promise is not None and promise.rows_needed() and self.rows.warned:
            promise, n_rows, n_broken, note = None, 0, 0, "The calibration rows look like rows that trained the model."
            for tested in ("bound", "tests", "n_gained"):
                known.pop(tested, None)
        if self.options.keep_scores is not None:
            note = f"{note} Rows of class {self.second_class!r} get their full score.".strip()
        if self.options.threshold is not None:
            answered = f"{self.second_class!r} where P({self.second_class}) >= {self.options.threshold:g}"
            note = f"Here the model answers {answered}. {note}".strip()
        if n_rows > 0 and self.promise.confidence is not None and "bound" not in known:
            known["bound"] = certified_rate(n_broken, n_rows, 1.0 - self.risk)
        # Methods on scores draw no more than an order. A seed that nobody gave is written only where it would lead to
        # another plan.
        draws = method in VOTE_METHODS or (isinstance(self.options.order, str) and self.options.order == "random")
        is_seeded = draws or isinstance(self.options.random_state, Integral)
        return Certificate(
            method=method,
            promise=promise,
            n_rows=n_rows,
            n_broken=n_broken,
            unit=self.rows.unit if n_rows else "row",
            n_calibration_rows=self.given.n_rows,
            n_shared_rows=self.rows.n_shared,
            threshold=None if self.options.threshold is None else float(self.options.threshold),
            rows=self._row_summary,
            note=note,
            recipe=self.options.write_call(*self.data, seed=self.seed if is_seeded else None),
            **known,
        )


def _select_evenly(sample: Sample) -> NDArray[Any]:
    chosen = np.zeros(sample.n_rows, np.bool_)
    chosen[RowSummary.selection(sample.n_rows, sample.max_gathered)] = True
    return sample.where(chosen).gather()


def _check_truth(forest: Forest, which: str, y: Any, n_rows: int) -> NDArray[Any] | None:
    """Return known labels or targets; they must suit the model, also where no method reads them."""
    if y is None:
        return None
    name = f"y_{which}"
    if isinstance(y, Promise | str):
        raise InputError(f"{name} must hold labels or targets, got {y!r}; pass promise={y!r}", argument=name)
    truth = np.asarray(y)
    if truth.shape != (n_rows,):
        raise InputError(f"{name} has shape {truth.shape}, X_{which} has {n_rows} rows", argument=name)
    if forest.is_classifier:
        forest.codes_of(truth, name)
        return truth
    truth = check_numbers(name, truth)
    if not np.isfinite(truth).all():
        raise InputError(f"{name} has missing or infinite values; leave out these rows, or {name}", argument=name)
    return truth


def check_classifier(forest: Forest, asked: Promise | None = None) -> None:
    """Raise an error unless labels of `forest` can be compared, as the promise asks that was passed, if any was."""
    if not forest.is_classifier:
        who = "by default early exit promises something" if asked is None else f"{type(asked).__name__} is"
        raise InputError(
            f"{who} about labels, and this model is a regressor; pass "
            'promise=scurry.promises.Values(max_error), or --promise "values<=…", with a quarter of the model\'s RMSE '
            "as max_error, say. If it ranks rows, pass promise=scurry.promises.TopK(10, 0.01) and groups=, the query "
            "of each row"
        )
    if forest.n_classes < 2:
        only = np.asarray(forest.classes).tolist()[0]
        raise InputError(f"the model knows only the class {only!r} and answers it at once; pass one of two or more")


def _as_labels(promise: Promise) -> Labels:
    if not isinstance(promise, Labels):
        raise InputError(f"this method cannot promise {promise!r}", argument="promise")
    return promise


def _name_data(**given: Any) -> tuple[str, ...]:
    return tuple(name if name == "X_cal" else f"{name}={name}" for name, value in given.items() if value is not None)


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | float | int) and bool(value == default))


def _as_code(value: Any) -> str:
    """Return an option as Python that makes it again."""
    if isinstance(value, Promise):
        return f"scurry.promises.{value!r}"
    return repr(value if isinstance(value, str) or value is None else np.asarray(value).tolist())


def _node_tests(forest: Forest, rows: NDArray[Any]) -> Sums:
    tests: Sums = forest.node_depth[forest.apply(rows)].sum(axis=0, dtype=np.int64)
    return tests


def with_threshold(forest: Forest, probability: float) -> Forest:
    """Return the same forest, which answers the second class iff its probability is at least `probability`.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.7, 0.3]]}
    >>> with_threshold(scurry.Forest.from_trees([stump]), 0.25).predict([[0.0], [1.0]])
    array([0, 1])
    """
    if not isinstance(probability, Real) or not 0 < probability < 1:
        raise InputError(f"threshold must be a probability between 0 and 1, got {probability!r}", argument="threshold")
    if forest.n_classes != 2:
        raise InputError(f"threshold is for two classes, the model has {forest.n_classes}")
    if forest.wrapper is not None:
        if not forest.wrapper.has_probabilities:
            raise InputError(f"threshold needs probabilities, and this model answers with {forest.wrapper.describe()}")
        members = (as_member(forest, np.arange(2)),)
        wrapper = Thresholded(members=members, response="probability", positive=1, threshold=float(probability))
        return forest.replace(wrapper=wrapper)
    fields: dict[str, Any] = {}
    if forest.n_outputs == 2:
        if forest.link != "identity" or forest.tree_output[0] >= 0:
            raise InputError("threshold is for models with one score, or that average probabilities; this one does not")
        fields |= {"value": forest.leaf_values()[:, 1:], "base_score": forest.base_score[1:]}
        fields["aggregation"] = "mean" if forest.aggregation == "vote" else forest.aggregation
    if forest.link not in ("identity", "logistic"):
        raise InputError(f"threshold needs probabilities, and this model's scores have the link {forest.link!r}")
    probability = float(probability)
    odds = np.log(probability / (1 - probability)) / forest.link_scale
    fields["decision_threshold"] = float(probability if forest.link == "identity" else odds)
    return forest.replace(**fields)
