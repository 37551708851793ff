"""Certificate: the proof of a promise, on which rows it was tested and what came out.

It holds measurements: what a plan did on the rows that certified it, and a summary of those rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.checks import is_number
from scurry.errors import FormatError, InputError
from scurry.formatting import align, format_bytes, format_number, format_percent, format_share
from scurry.promises.promise import Labels, Promise

# How an anytime answer is made of the nodes that trees have reached.
_READOUTS = {
    "plain": "plain: all nodes reached count alike",
    "weighted": "weighted: nodes count more the closer they are to the leaves",
}


@dataclass(frozen=True, kw_only=True)
class ExitMeasurement:
    """What an early exit did on the rows that certified it.

    Attributes
    ----------
    changed : float
        Share of rows that got another label.
    mean_trees : float
        Trees evaluated per row.
    mean_cost : float or None
        Cost per row in the caller's units, where trees have costs of their own.
    vote_agreement : float or None
        Share of rows on which the vote of all trees is the model's own label. Only for rules on votes.
    full_auc, fast_auc, full_log_loss, fast_log_loss : float or None
        How good probabilities are, of the full model and of the plan: AUC (with more than two classes, the mean of
        each against the rest) and log-loss. Measured where labels were given, with a score map fitted to other rows.
    n_scored : int or None
        The calibration rows on which probabilities were measured.
    """

    changed: float
    mean_trees: float
    mean_cost: float | None = None
    vote_agreement: float | None = None
    full_auc: float | None = None
    fast_auc: float | None = None
    full_log_loss: float | None = None
    fast_log_loss: float | None = None
    n_scored: int | None = None

    TAG: ClassVar[str] = "exit"

    @property
    def spent(self) -> float:
        """What is compared between plans: the cost per row, or the trees where each costs the same."""
        return self.mean_trees if self.mean_cost is None else self.mean_cost

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {"labels changed": format_share(self.changed), "trees per row": format_number(self.mean_trees)}
        if self.mean_cost is not None:
            lines["cost per row"] = format_number(self.mean_cost)
        if self.vote_agreement is not None:
            lines["full vote gives the model's label"] = f"{format_share(self.vote_agreement)} of rows"
        return lines | _describe_scores(self)


@dataclass(frozen=True, kw_only=True)
class ValueMeasurement:
    """What an early exit that estimates values did on the rows that certified it.

    Attributes
    ----------
    beyond : float
        Share of rows whose value differs from the model's by more than the promised error.
    mean_trees : float
        Trees evaluated per row.
    mean_error, largest_error : float
        How far values are from the model's, on average over all rows and at most. Rows that did not stop early have an
        error of 0.
    caution : float
        The rule stops a row where this many times its expected error is at most the promised one.
    full_rmse, fast_rmse : float or None
        Root mean squared error of the full model and of the plan, where a regressor's targets were given.
    full_auc, fast_auc, full_log_loss, fast_log_loss : float or None
        How good probabilities are, where a classifier's labels were given.
    n_scored : int or None
        The calibration rows on which probabilities were measured.
    """

    beyond: float
    mean_trees: float
    mean_error: float
    largest_error: float
    caution: float
    full_rmse: float | None = None
    fast_rmse: float | None = None
    full_auc: float | None = None
    fast_auc: float | None = None
    full_log_loss: float | None = None
    fast_log_loss: float | None = None
    n_scored: int | None = None

    TAG: ClassVar[str] = "values"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {
            "error beyond the promised one": f"{format_share(self.beyond)} of rows",
            "error": f"{format_number(self.mean_error)} on average, {format_number(self.largest_error)} at most",
            "trees per row": format_number(self.mean_trees),
            "caution": f"a row stops once {self.caution:.3g} times its expected error is within the promised one",
        }
        if self.fast_rmse is not None and self.full_rmse is not None:
            lines["RMSE"] = f"{format_number(self.fast_rmse)}, full model {format_number(self.full_rmse)}"
        return lines | _describe_scores(self)


@dataclass(frozen=True, kw_only=True)
class StepMeasurement:
    """How good the answers of an anytime plan were on the rows its order was found on.

    Attributes
    ----------
    order, objective, readout : str
        What was asked of `scurry.anytime`; for `readout`, what was chosen.
    n_steps : int
        Tree steps until every row has the model's own answer.
    quality : {"accuracy", "mean_squared_error"}
    first, mean, last : float
        The quality before the first step, on average over all steps, and after the last.
    same_tree_step_ns, other_tree_step_ns : float or None
        Measured time of a step in the same tree as the one before, and in another; for ``objective="time"``.
    """

    order: str
    objective: str
    readout: str
    n_steps: int
    quality: str
    first: float
    mean: float
    last: float
    same_tree_step_ns: float | None = None
    other_tree_step_ns: float | None = None

    TAG: ClassVar[str] = "steps"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        show = format_share if self.quality == "accuracy" else format_number
        quality = self.quality.replace("_", " ")
        lines = {
            "order": f"{self.order}, for {self.objective}",
            "read-out": _READOUTS.get(self.readout, self.readout),
            "steps": f"{self.n_steps:,}",
            quality: f"{show(self.first)} at first, {show(self.mean)} on average, {show(self.last)} at the end",
        }
        if self.same_tree_step_ns is not None and self.other_tree_step_ns is not None:
            lines["time of a step"] = (
                f"{self.same_tree_step_ns:.3g} ns in the same tree, {self.other_tree_step_ns:.3g} ns in another"
            )
        return lines


@dataclass(frozen=True, kw_only=True)
class RankMeasurement:
    """What a plan for the k best documents did on the queries that certified it.

    Attributes
    ----------
    changed : float
        Share of queries whose k best are others than the model's.
    mean_trees : float
        Trees evaluated per document.
    mean_documents : float
        Documents per query.
    caution : float
        How many times its expected error a document must be away to leave.
    """

    changed: float
    mean_trees: float
    mean_documents: float
    caution: float

    TAG: ClassVar[str] = "ranks"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        return {
            "queries changed": format_share(self.changed),
            "trees per document": format_number(self.mean_trees),
            "documents per query": format_number(self.mean_documents),
        }


@dataclass(frozen=True, kw_only=True)
class CostMeasurement:
    """What rows pay for the features that a forest reads.

    Attributes
    ----------
    mean_cost : float
        Of the rows that certified the promise.
    validation_cost : float
        Mean cost of the rows that chose the forest, which flatters it.
    largest_cost : float
        What a row can pay at most.
    single_label : str
        The label that every row gets that chose the forest; empty if there are several.
    candidate, recalls : str
        How the forest was grown, and the share of each class's rows that it finds; empty where that is not known.
    """

    mean_cost: float
    validation_cost: float
    largest_cost: float
    single_label: str = ""
    candidate: str = ""
    recalls: str = ""

    TAG: ClassVar[str] = "cost"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {
            "cost per row": f"{format_number(self.mean_cost)}, "
            f"and {format_number(self.validation_cost)} on the rows that chose the forest",
            "most a row can pay": format_number(self.largest_cost),
            "found of each class": self.recalls,
            "grown as": self.candidate,
            "warning": _warn_of(self.single_label),
        }
        return {name: text for name, text in lines.items() if text}


@dataclass(frozen=True, kw_only=True)
class BudgetMeasurement:
    """What a forest within a budget of feature costs was measured to cost and to find.

    Attributes
    ----------
    candidate : str
        How it was grown.
    cost, full_cost : float
        Mean cost per row, and that of the given estimator before pruning.
    error : float
        On rows that did not grow the forest; weighted, as asked for.
    recalls : str
        The share of each class's rows that are found.
    single_label : str
        The label that every row gets; empty if there are several.
    """

    candidate: str
    cost: float
    full_cost: float
    error: float
    recalls: str
    single_label: str = ""

    TAG: ClassVar[str] = "budget"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {
            "cost per row": f"{format_number(self.cost)}; the given estimator before pruning: "
            f"{format_number(self.full_cost)}",
            "found of each class": self.recalls,
            "weighted error": f"{self.error:.4g}",
            "grown as": self.candidate,
            "warning": _warn_of(self.single_label),
        }
        return {name: text for name, text in lines.items() if text}


@dataclass(frozen=True, kw_only=True)
class CascadeMeasurement:
    """What a cascade did on the rows that certified it.

    Attributes
    ----------
    kept : float
        Share of rows that the cheap model answered.
    changed : float
        Share of rows whose answer is not the expensive model's; of values, those that are too far from it.
    cheap_changed : float
        The same, if the cheap model had answered all rows.
    cheap_us, expensive_us : float or None
        Microseconds per row of either model on this machine, where they were measured or given.
    """

    kept: float
    changed: float
    cheap_changed: float
    cheap_us: float | None = None
    expensive_us: float | None = None

    TAG: ClassVar[str] = "cascade"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {
            "rows kept": f"{format_share(self.kept)} got the cheap model's answer, the others were passed on",
            "answers changed": f"{format_share(self.changed)}; the cheap one alone {format_share(self.cheap_changed)}",
        }
        if self.cheap_us is not None and self.expensive_us is not None:
            mean = self.cheap_us + (1.0 - self.kept) * self.expensive_us
            lines["time per row"] = (
                f"{format_number(mean)} µs: cheap {format_number(self.cheap_us)}, expensive "
                f"{format_number(self.expensive_us)}"
            )
        return lines


@dataclass(frozen=True, kw_only=True)
class SizePoint:
    """A smaller forest that was a candidate, and what it did on the calibration rows.

    Attributes
    ----------
    node_share : float
        The share of the nodes that was to be kept; 1 where no tree and no split was left out.
    split_bits : int
        Bits of a split's number: there are at most two to the power of this distinct splits. 0 where thresholds were
        not shared.
    n_trees, n_nodes, n_bytes : int
        Of the smaller forest; bytes of its packed file.
    changed : float
        Share of rows with another label than the model's; of a regressor, with another value than promised.
    accuracy : float or None
        Share of rows answered right, where labels were given.
    is_certified : bool
        Whether it passed the test of the promise, and so did all candidates before it.
    """

    node_share: float
    split_bits: int
    n_trees: int
    n_nodes: int
    n_bytes: int
    changed: float
    accuracy: float | None = None
    is_certified: bool = False

    @classmethod
    def from_json(cls, data: Any) -> SizePoint:
        """Return the point that a file holds."""
        names = {one.name for one in fields(cls)}
        if not isinstance(data, Mapping) or not set(data) <= names:
            raise FormatError("its certificate has a candidate that cannot be read")
        for name, value in data.items():
            wanted = bool if name == "is_certified" else int if str(cls.__annotations__[name]) == "int" else int | float
            is_absent = value is None and name == "accuracy"
            if not is_absent and (not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool))):
                raise FormatError(f"its certificate has a candidate with a {name} of the wrong type, {value!r}")
        try:
            return cls(**data)
        except TypeError as error:
            raise FormatError(f"its certificate has a candidate that cannot be read: {error}") from error


@dataclass(frozen=True, kw_only=True)
class SizeMeasurement:
    """How much smaller a compressed forest is, and what it did on the rows that certified it.

    Attributes
    ----------
    n_bytes, full_bytes : int
        Bytes of its packed file, and of the model's. A predictor's file has the plan and this certificate besides.
    n_nodes, full_nodes, n_trees, full_trees : int
        Its nodes and trees, and the model's.
    changed : float
        Share of rows with another label than the model's; of a regressor, with another value than promised.
    accuracy, full_accuracy : float or None
        Share of rows answered right, and by the model, where labels were given.
    rmse, full_rmse : float or None
        Root mean squared error, and that of the model, where a regressor's targets were given.
    path : tuple of SizePoint
        The candidates, from large to small: up to the first that failed its test, and a few more.
    model : str
        The `digest` of the model that it was made of.
    """

    n_bytes: int
    full_bytes: int
    n_nodes: int
    full_nodes: int
    n_trees: int
    full_trees: int
    changed: float
    accuracy: float | None = None
    full_accuracy: float | None = None
    rmse: float | None = None
    full_rmse: float | None = None
    path: tuple[SizePoint, ...] = ()
    model: str = ""

    TAG: ClassVar[str] = "size"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        lines = {
            "packed file": f"{format_bytes(self.n_bytes)}, {self.full_bytes / self.n_bytes:.3g} times smaller than the "
            f"model's {format_bytes(self.full_bytes)}",
            "nodes": f"{self.n_nodes:,} in {self.n_trees:,} trees, {format_share(self.n_nodes / self.full_nodes)} of "
            f"the model's {self.full_nodes:,} in {self.full_trees:,}",
            "changed": f"{format_share(self.changed)} of rows",
        }
        if self.accuracy is not None and self.full_accuracy is not None:
            lines["accuracy"] = f"{format_share(self.accuracy)}, full model {format_share(self.full_accuracy)}"
        if self.rmse is not None and self.full_rmse is not None:
            lines["RMSE"] = f"{format_number(self.rmse)}, full model {format_number(self.full_rmse)}"
        return lines


def _warn_of(single_label: str) -> str:
    return f"answers {single_label} for every row" if single_label else ""


def _describe_scores(measured: ExitMeasurement | ValueMeasurement) -> dict[str, str]:
    lines: dict[str, str] = {}
    rows = "" if measured.n_scored is None else f", on {measured.n_scored:,} of the calibration rows"
    if measured.fast_auc is not None and measured.full_auc is not None:
        lines["AUC"] = f"{measured.fast_auc:.4f}, full model {measured.full_auc:.4f}{rows}"
    if measured.fast_log_loss is not None and measured.full_log_loss is not None:
        lines["log-loss"] = f"{measured.fast_log_loss:.4f}, full model {measured.full_log_loss:.4f}{rows}"
    return lines


Measurement: TypeAlias = (
    ExitMeasurement
    | ValueMeasurement
    | RankMeasurement
    | StepMeasurement
    | CostMeasurement
    | BudgetMeasurement
    | CascadeMeasurement
    | SizeMeasurement
)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSummary:
    """Quantiles of each feature over the calibration rows: enough to notice later that new rows differ.

    Attributes
    ----------
    n_rows : int
        Rows that were summarised.
    quantiles : float64 array of shape (n_features, n_quantiles)
        Equally spaced from the smallest value to the largest; NaN where every value is missing.
    missing : float64 array of shape (n_features,)
        Share of rows in which the feature is missing.
    """

    n_rows: int
    quantiles: NDArray[np.float64]
    missing: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[Any], n_quantiles: int = 21) -> Self:
        """Summarise `rows` of shape (n_rows, n_features)."""
        # In float32, so that the same rows have the same summary in whatever precision they arrive.
        values = np.asarray(rows).astype(np.float32).astype(np.float64)
        missing = np.isnan(values)
        quantiles = np.full((values.shape[1], n_quantiles), np.nan)
        for feature in np.flatnonzero(~missing.all(axis=0)):
            known = values[~missing[:, feature], feature]
            # A value of the data itself, so that infinities make no NaN and categories stay categories.
            quantiles[feature] = np.quantile(known, np.linspace(0, 1, n_quantiles), method="inverted_cdf")
        return cls(n_rows=len(values), quantiles=quantiles, missing=missing.mean(axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return the summary as an object of JSON: numbers as text, because JSON has no NaN or infinity."""
        quantiles = [[float(value).hex() for value in row] for row in self.quantiles]
        return {"n_rows": self.n_rows, "quantiles": quantiles, "missing": self.missing.tolist()}

    def packed(self) -> NDArray[Any]:
        """Return the quantiles in single precision, which those of `of` have, or as they are."""
        with np.errstate(over="ignore"):
            single = self.quantiles.astype(np.float32)
        return single if np.array_equal(single, self.quantiles, equal_nan=True) else self.quantiles

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the summary that `to_json` wrote; its quantiles may be an array, as they are in files."""
        try:
            stored = data["quantiles"]
            if not isinstance(stored, np.ndarray):
                stored = [[float.fromhex(value) for value in row] for row in stored]
            quantiles = np.array(stored, np.float64)
            missing = np.array(data["missing"], np.float64)
            if quantiles.ndim != 2 or missing.shape != quantiles.shape[:1]:
                raise ValueError("quantiles and missing do not fit together")
            return cls(n_rows=int(data["n_rows"]), quantiles=quantiles, missing=missing)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"its summary of calibration rows cannot be read: {error}") from error


UNITS = ("row", "distinct row", "group")


@dataclass(frozen=True, kw_only=True)
class GroupTest:
    """How a promise was tested on the rows of one group, such as those of a class.

    Attributes
    ----------
    group : str
        What the rows have in common.
    max_rate : float
        The share of them that may break the promise.
    n_rows, n_broken : int
        Rows that tested it, and those of them that broke it.
    confidence : float
        Of this test alone. All tests are right at once with the confidence of the promise.
    bound : float
        Upper bound on the rate of new rows of the group at this confidence (exact binomial).
    """

    group: str
    max_rate: float
    n_rows: int
    n_broken: int
    confidence: float
    bound: float

    def describe(self) -> str:
        """Return what came out, as a part of a sentence."""
        most, allowed = format_share(self.bound), format_percent(self.max_rate)
        return f"{self.n_rows:,} rows: {self.n_broken:,} changed (at most {most} of new ones, promised {allowed})"

    @classmethod
    def from_json(cls, data: Any) -> GroupTest:
        """Return the test that a file holds."""
        if not isinstance(data, Mapping) or set(data) != {f.name for f in fields(cls)}:
            raise FormatError("its certificate has a test of a group that cannot be read")
        for one in fields(cls):
            wanted = {"str": str, "int": int}.get(str(one.type), int | float)
            if not isinstance(data[one.name], wanted) or isinstance(data[one.name], bool):
                raise FormatError(f"its certificate has a test with a {one.name} of the wrong type")
        return cls(**data)


def _measured_to_json(measured: Measurement) -> dict[str, Any]:
    known = {"kind": measured.TAG} | asdict(measured)
    if known.get("n_scored", 0) is None:  # not known of older files, whose digests stay as they were
        del known["n_scored"]
    return known


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """How a plan came about, and the proof of its promise.

    Attributes
    ----------
    method : str
        Which method made the plan.
    promise : Promise or None
        What is promised. None where a plan makes no promise, such as one of `scurry.anytime`.
    n_rows : int
        Rows the promise was tested on. They had no part in the search. 0 where no test was needed or made.
    n_broken : int
        Of these rows, those that broke the promise. 0 where it is about a mean, which no single row breaks.
    unit : {"row", "distinct row", "group"}
        What `n_rows` counts: rows; different rows, where some were copies; or groups, of which one row each is tested.
    bound : float or None
        Upper bound for new rows at the promised confidence, at most what is promised: on the rate of broken rows (exact
        binomial), or on their mean cost. The plan was chosen so that it fits, so the promise itself holds with the
        confidence, not this lower figure.
    n_gained : int
        Where a promise is about right answers: rows that are answered right, or cheaper, where the model is not.
    tests : tuple of GroupTest
        Where a promise is made for several groups of rows, such as classes: the test of each.
    n_calibration_rows, n_fit_rows : int
        Rows that were given to calibrate, and rows that fitted the rule.
    n_shared_rows : int
        Calibration rows that were left out because they fitted the rule as well.
    threshold : float or None
        Probability from which on the second class is answered, where it was set by hand.
    why : str
        Why this method was chosen, where there was a choice.
    note : str
        What else a reader must know about the promise.
    recipe : str
        The call that made the plan, with every option, as Python. Empty where it is not known.
    measured : ExitMeasurement, ValueMeasurement, RankMeasurement, … or None
    rows : RowSummary or None
        Quantiles of the calibration rows.

    Examples
    --------
    >>> import scurry
    >>> measured = scurry.promises.ExitMeasurement(changed=0.001, mean_trees=12.5)
    >>> certificate = scurry.promises.Certificate(
    ...     method="qwyc", promise=scurry.promises.Labels(0.005), n_rows=4000, n_broken=4, bound=0.0023,
    ...     n_calibration_rows=8000, n_fit_rows=4000, measured=measured)
    >>> print(certificate.describe())
    promise         With confidence 0.95, at most 0.5 % of new rows get another label than the model's.
    tested on       4,000 rows that had no part in the fit: 4 broke it (at most 0.230 % of new rows)
    labels changed  0.100 %
    trees per row   12.5
    method          qwyc
    rows            8,000 for calibration, 4,000 to fit
    >>> scurry.promises.Certificate.from_json(certificate.to_json()).promise
    Labels(confidence=0.95, max_changed=0.005, against='model', holds='rows')
    """

    method: str
    promise: Promise | None = None
    n_rows: int = 0
    n_broken: int = 0
    unit: str = "row"
    bound: float | None = None
    n_gained: int = 0
    tests: tuple[GroupTest, ...] = ()
    n_calibration_rows: int = 0
    n_fit_rows: int = 0
    n_shared_rows: int = 0
    threshold: float | None = None
    why: str = ""
    note: str = ""
    recipe: str = ""
    measured: Measurement | None = None
    rows: RowSummary | None = field(default=None, repr=False)
    # The facts of a file of version 1 as they were read, so that saving it again gives the same file.
    stored: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def max_rate(self) -> float | None:
        """The largest rate that is promised for new rows; None if nothing is promised for them."""
        return None if self.promise is None else self.promise.max_rate

    @property
    def steps(self) -> StepMeasurement:
        """What was measured for an order of steps; an error for a plan of another kind."""
        if not isinstance(self.measured, StepMeasurement):
            raise InputError(f"this plan was made by {self.method!r} and has no order of steps")
        return self.measured

    @property
    def exits(self) -> ExitMeasurement | None:
        """What was measured for an early exit; None for a plan of another kind, or one that evaluates every tree."""
        return self.measured if isinstance(self.measured, ExitMeasurement) else None

    def statement(self) -> str:
        """Return what is promised in one or two sentences."""
        sentence = "Nothing is promised for new rows." if self.promise is None else self.promise.describe()
        # A promise compares with the model as it decides, and here it decides otherwise than in its own framework.
        by_hand = f"Here the model answers its second class from a probability of {self.threshold} on."
        return " ".join(filter(None, (sentence, by_hand if self.threshold is not None else "", self.note)))

    def lines(self) -> dict[str, str]:
        """Return everything a reader may want to know, by name, most important first."""
        lines = {"promise": self.statement()}
        if self.n_rows and self.promise is not None:
            units = f"{self.n_rows:,} {self.unit}s"
            lines["tested on"] = self.promise.describe_test(units, self.n_broken, self.bound)
            if self.n_gained:
                lines["tested on"] += f"; {self.n_gained:,} the other way round"
        lines |= {test.group: test.describe() for test in self.tests}
        if self.measured is not None:
            lines |= self.measured.describe()
        lines["method"] = self.method + (f": {self.why}" if self.why else "")
        if self.threshold is not None:
            lines["threshold"] = f"{self.threshold:g}"
        if self.n_calibration_rows:
            fit = f", {self.n_fit_rows:,} to fit" if self.n_fit_rows else ""
            shared = f", {self.n_shared_rows:,} left out because they fit it too" if self.n_shared_rows else ""
            lines["rows"] = f"{self.n_calibration_rows:,} for calibration{fit}{shared}"
        return lines

    def describe(self) -> str:
        """Return `lines` as a text."""
        return align(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as an object of JSON; `from_json` reads it."""
        if self.stored is not None:
            return dict(self.stored)
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NESTED}
        return known | {
            "promise": None if self.promise is None else self.promise.to_json(),
            "measured": None if self.measured is None else _measured_to_json(self.measured),
            "rows": None if self.rows is None else self.rows.to_json(),
            "tests": [asdict(test) for test in self.tests],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the certificate that `to_json` wrote, or that of the facts in a file of version 1.

        Raises
        ------
        FormatError
            If `data` is not a certificate.
        """
        if not isinstance(data, Mapping):
            raise FormatError("its certificate is not an object")
        if "measured" not in data:
            try:
                return cls._from_facts(data)
            except (InputError, TypeError, ValueError) as error:
                raise FormatError(f"its certificate cannot be read: {error}") from error
        if not set(data) <= {f.name for f in fields(cls)} - {"stored"}:
            raise FormatError("its certificate has unknown fields")
        known: dict[str, Any] = {name: value for name, value in data.items() if name not in _NESTED}
        for name, kinds in _PLAIN_TYPES.items():
            value = known.get(name)
            if (name in known or name == "method") and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise FormatError(f"its certificate has a {name} of the wrong type, {value!r}")
        if known.get("unit", "row") not in UNITS:
            raise FormatError(f"its certificate counts an unknown unit, {known['unit']!r}")
        promise, rows, tests = data.get("promise"), data.get("rows"), data.get("tests", [])
        if not isinstance(tests, list):
            raise FormatError("its certificate has tests of the wrong type")
        return cls(
            **known,
            promise=None if promise is None else Promise.from_json(promise),
            measured=_measurement(data["measured"]),
            rows=None if rows is None else RowSummary.from_json(rows),
            tests=tuple(GroupTest.from_json(test) for test in tests),
        )

    @classmethod
    def _from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Read what version 1 of the format called facts: one flat object, whose keys depended on the method."""

        def number(name: str, default: float | None = None) -> Any:
            value = facts.get(name, default)
            return value if value is None or is_number(value) else default

        promise, measured = None, None
        if is_number(facts.get("max_disagreement")) and "promise" in facts:
            by_row = facts.get("method") in ("minimax", "minimixed") and "certified_by" not in facts
            promise = Labels(
                facts["max_disagreement"],
                confidence=number("confidence"),
                against="vote" if "vote_agrees_with_model" in facts else "model",
                holds="each row" if by_row else "rows",
            )
        if is_number(facts.get("calibration_mean_trees")):
            measured = ExitMeasurement(
                changed=number("calibration_disagreement", 0.0),
                mean_trees=number("calibration_mean_trees"),
                mean_cost=number("calibration_mean_cost"),
                vote_agreement=number("vote_agrees_with_model"),
            )
        return cls(
            method=str(facts.get("method", "full")),
            promise=promise,
            n_rows=number("certified_on_rows", 0),
            n_broken=number("certified_mistakes", 0),
            n_calibration_rows=number("n_calibration_rows", number("n_rows_ordered_on", 0)),
            n_fit_rows=number("fitted_on_rows", 0),
            threshold=number("threshold"),
            why=str(facts.get("chosen_because", "")),
            measured=measured if measured is not None else _steps_of_facts(facts),
            stored=facts,
        )


_NESTED = ("promise", "measured", "rows", "tests", "stored")
_PLAIN_TYPES: dict[str, Any] = {
    "method": str,
    "n_rows": int,
    "n_broken": int,
    "unit": str,
    "bound": float | int | None,
    "n_gained": int,
    "n_calibration_rows": int,
    "n_fit_rows": int,
    "n_shared_rows": int,
    "threshold": float | int | None,
    "why": str,
    "note": str,
    "recipe": str,
}


def _measurement(data: Any) -> Measurement | None:
    if data is None:
        return None
    kinds: dict[str, type[Measurement]] = {
        kind.TAG: kind
        for kind in (
            ExitMeasurement,
            ValueMeasurement,
            RankMeasurement,
            StepMeasurement,
            CostMeasurement,
            BudgetMeasurement,
            CascadeMeasurement,
            SizeMeasurement,
        )
    }
    kind = kinds.get(str(data.get("kind"))) if isinstance(data, Mapping) else None
    if kind is None:
        raise FormatError("its certificate has a measurement of an unknown kind")
    values = {name: value for name, value in data.items() if name != "kind"}
    if kind is SizeMeasurement:
        path = values.get("path", [])
        if not isinstance(path, list | tuple):
            raise FormatError("its certificate has a path of the wrong type")
        values["path"] = tuple(SizePoint.from_json(point) for point in path)
    for one in fields(kind):
        if one.name == "path":
            continue
        # Files of older versions lack what was added later.
        value = values.get(one.name, None if one.default is MISSING else one.default)
        wanted = isinstance(value, str) if one.type == "str" else is_number(value) or value is None
        if not wanted:
            raise FormatError(f"its certificate has a measured {one.name} of the wrong type, {value!r}")
    try:
        return kind(**values)
    except TypeError as error:
        raise FormatError(f"its certificate has a measurement that cannot be read: {error}") from error


_STEP_TIMES = ("same_tree_step_ns", "other_tree_step_ns")


def _steps_of_facts(facts: Mapping[str, Any]) -> StepMeasurement | None:
    for quality in ("accuracy", "mean_squared_error"):
        if is_number(facts.get(f"mean_{quality}")) and isinstance(facts.get("n_steps"), int):
            return StepMeasurement(
                order=str(facts.get("order", "")),
                objective=str(facts.get("objective", "steps")),
                readout=str(facts.get("readout", "plain")),
                n_steps=facts["n_steps"],
                quality=quality,
                first=float(facts.get(f"first_{quality}", math.nan)),
                mean=float(facts[f"mean_{quality}"]),
                last=float(facts.get(f"last_{quality}", math.nan)),
                **{name: float(facts[name]) for name in _STEP_TIMES if facts.get(name) is not None},
            )
    return None
