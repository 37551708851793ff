"""Promise and Certificate: what may change when a forest is run cheaper, and the proof that no more than that does.

A `Promise` says what may change, how much and how surely. Users make one, or the short form of a verb makes it for
them. A `Certificate` says on which rows a promise was tested and what came out; it is part of the plan and is saved
with it. Neither knows the algorithm that made the plan, and nothing that runs or shows a plan has to.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_confidence, check_number, check_rate, is_number
from scurry.errors import FormatError, InputError
from scurry.formatting import format_number, format_percent, format_share

__all__ = [
    "BudgetMeasurement",
    "Certificate",
    "Cost",
    "CostMeasurement",
    "ExitMeasurement",
    "Labels",
    "Promise",
    "RowSummary",
    "StepMeasurement",
]

AGAINST = ("model", "vote")
HOLDS = ("rows", "groups", "orders", "each row")
UNITS = ("row", "distinct row", "group")


@dataclass(frozen=True)
class Promise(ABC):
    """What may change, how much, and how surely. Base class of all kinds.

    Attributes
    ----------
    confidence : float or None
        The probability with which the promise holds for new rows, over the draw of calibration rows. With None nothing
        is promised for new rows.
    """

    _: KW_ONLY
    confidence: float | None = 0.95

    # How files name this kind. It stays as it is when a class is renamed.
    TAG: ClassVar[str]

    def __post_init__(self) -> None:
        if self.confidence is not None:
            object.__setattr__(self, "confidence", check_confidence(self.confidence))

    @property
    @abstractmethod
    def max_rate(self) -> float | None:
        """The largest rate that is promised for new rows; None if nothing is promised for them."""

    @abstractmethod
    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence.

        Parameters
        ----------
        units : str
            How many rows, or what else, it was tested on.
        n_broken : int
            How many of them broke it.
        bound : float or None
            What the test proves for new rows.
        """
        most = "" if bound is None else f" (at most {format_share(bound)} of new rows)"
        return f"{units} that had no part in the fit: {n_broken:,} broke it{most}"

    @abstractmethod
    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it."""

    def to_json(self) -> dict[str, Any]:
        """Return the promise as an object of JSON; `from_json` reads it."""
        return {"kind": self.TAG} | asdict(self)

    @staticmethod
    def from_json(data: Any) -> Promise:
        """Return the promise that `to_json` wrote.

        Raises
        ------
        FormatError
            If `data` is not a promise of a known kind.
        """
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or kind not in _KINDS:
            raise FormatError(f"it has a promise of an unknown kind, {kind!r}")
        try:
            return _KINDS[kind](**{name: value for name, value in data.items() if name != "kind"})
        except (InputError, TypeError) as error:
            raise FormatError(f"its promise cannot be read: {error}") from error


@dataclass(frozen=True)
class Labels(Promise):
    """At most a share of all rows get another label.

    Parameters
    ----------
    max_changed : float in [0, 1)
        The largest share of rows whose label may change: 0.005 is one in 200.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.
    against : {"model", "vote"}, default "model"
        Another label than whose: the model's own, or the majority vote of all trees.
    holds : {"rows", "groups", "orders", "each row"}, default "rows"
        "rows": for this predictor, over new rows. "groups": for this predictor, over one row of each new group, so that
        each group counts the same however many rows it has. "orders": over new rows, on average over random orders of
        the trees.
        "each row": for every single row, over random orders of the trees; this needs no confidence.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.Labels(0.005)
    >>> print(promise.describe())
    With confidence 0.95, at most 0.5 % of new rows get another label than the model's.
    >>> promise.rows_needed()
    598
    """

    max_changed: float
    _: KW_ONLY
    against: str = "model"
    holds: str = "rows"

    TAG: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_changed", check_rate("max_changed", self.max_changed))
        check_choice("against", self.against, AGAINST)
        check_choice("holds", self.holds, HOLDS)

    @property
    def max_rate(self) -> float | None:
        """The largest share that is promised for new rows; None if nothing is promised for them."""
        is_promised = self.confidence is not None or self.holds == "each row" or self.max_changed == 0
        return self.max_changed if is_promised else None

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        whose = "the model's" if self.against == "model" else "the full vote's"
        if self.max_changed == 0:
            return f"Every row gets {whose} label."
        at_most = f"at most {format_percent(self.max_changed)}"
        if self.holds == "each row":
            return (
                f"Each row gets another label than {whose} with probability {at_most}, over random orders of the trees."
            )
        new = "new groups, with one row of each drawn at random," if self.holds == "groups" else "new rows"
        average = ", on average over random orders of the trees" if self.holds == "orders" else ""
        if self.confidence is None:
            return (
                f"{at_most.capitalize()} of the rows that fitted the rule get another label than {whose}{average}. "
                "Nothing is promised for new rows."
            )
        return f"With confidence {self.confidence:g}, {at_most} of {new} get another label than {whose}{average}."

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it.

        No number is enough for ``max_changed=0``, which needs no rows: it holds because every tree that matters is
        evaluated.
        """
        if self.max_rate is None or self.max_changed == 0 or self.holds == "each row" or self.confidence is None:
            return 0
        # With rate max_changed, n rows are all unchanged with probability (1 - max_changed)^n.
        return math.ceil(math.log1p(-self.confidence) / math.log1p(-self.max_changed))


@dataclass(frozen=True)
class Cost(Promise):
    """New rows pay at most so much for features, on average.

    Parameters
    ----------
    max_cost : float
        The largest mean cost per row, in the unit of the feature costs.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.

    Examples
    --------
    >>> import scurry
    >>> print(scurry.promises.Cost(40).describe())
    With confidence 0.95, new rows pay at most 40 for features on average.
    """

    max_cost: float

    TAG: ClassVar[str] = "cost"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_cost", check_number("max_cost", self.max_cost))

    @property
    def max_rate(self) -> None:
        """None: a cost is no rate of rows."""
        return

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        at_most = f"at most {format_number(self.max_cost)} for features on average"
        if self.confidence is None:
            return f"The validation rows pay {at_most}. Nothing is promised for new rows."
        return f"With confidence {self.confidence:g}, new rows pay {at_most}."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        most = "" if bound is None else f": new ones pay at most {format_number(bound)} on average"
        return f"{units} that had no part in the choice of the forest{most}"

    def rows_needed(self) -> int:
        """Return 0: a forest with which no row can pay more than `max_cost` needs no rows.

        Others need the more rows the closer their mean cost is to `max_cost`.
        """
        return 0


_KINDS: dict[str, type[Promise]] = {kind.TAG: kind for kind in (Labels, Cost)}


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
    """

    changed: float
    mean_trees: float
    mean_cost: float | None = None
    vote_agreement: float | None = None
    full_auc: float | None = None
    fast_auc: float | None = None
    full_log_loss: float | None = None
    fast_log_loss: float | None = None

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
        if self.fast_auc is not None and self.full_auc is not None:
            lines["AUC"] = f"{self.fast_auc:.4f}, full model {self.full_auc:.4f}"
        if self.fast_log_loss is not None and self.full_log_loss is not None:
            lines["log-loss"] = f"{self.fast_log_loss:.4f}, full model {self.full_log_loss:.4f}"
        return lines


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
            "read-out": self.readout,
            "steps": f"{self.n_steps:,}",
            quality: f"{show(self.first)} at first, {show(self.mean)} on average, {show(self.last)} at the end",
        }
        if self.same_tree_step_ns is not None and self.other_tree_step_ns is not None:
            lines["time of a step"] = (
                f"{self.same_tree_step_ns:.3g} ns in the same tree, {self.other_tree_step_ns:.3g} ns in another"
            )
        return lines


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
    """

    mean_cost: float
    validation_cost: float
    largest_cost: float

    TAG: ClassVar[str] = "cost"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        return {
            "cost per row": f"{format_number(self.mean_cost)}, "
            f"and {format_number(self.validation_cost)} on the rows that chose the forest",
            "most a row can pay": format_number(self.largest_cost),
        }


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
        }
        return lines | ({"warning": f"answers {self.single_label} for every row"} if self.single_label else {})


Measurement: TypeAlias = ExitMeasurement | StepMeasurement | CostMeasurement | BudgetMeasurement


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

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the summary that `to_json` wrote."""
        try:
            quantiles = np.array([[float.fromhex(value) for value in row] for row in data["quantiles"]], np.float64)
            missing = np.array(data["missing"], np.float64)
            if quantiles.ndim != 2 or missing.shape != quantiles.shape[:1]:
                raise ValueError("quantiles and missing do not fit together")
            return cls(n_rows=int(data["n_rows"]), quantiles=quantiles, missing=missing)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"its summary of calibration rows cannot be read: {error}") from error


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
    measured : ExitMeasurement, StepMeasurement, CostMeasurement, BudgetMeasurement or None
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
    n_calibration_rows: int = 0
    n_fit_rows: int = 0
    n_shared_rows: int = 0
    threshold: float | None = None
    why: str = ""
    note: str = ""
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
        return f"{sentence} {self.note}".strip()

    def lines(self) -> dict[str, str]:
        """Return everything a reader may want to know, by name, most important first."""
        lines = {"promise": self.statement()}
        if self.n_rows and self.promise is not None:
            units = f"{self.n_rows:,} {self.unit}s"
            lines["tested on"] = self.promise.describe_test(units, self.n_broken, self.bound)
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
            "measured": None if self.measured is None else {"kind": self.measured.TAG} | asdict(self.measured),
            "rows": None if self.rows is None else self.rows.to_json(),
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
        promise, rows = data.get("promise"), data.get("rows")
        return cls(
            **known,
            promise=None if promise is None else Promise.from_json(promise),
            measured=_measurement(data["measured"]),
            rows=None if rows is None else RowSummary.from_json(rows),
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


_NESTED = ("promise", "measured", "rows", "stored")
_PLAIN_TYPES: dict[str, Any] = {
    "method": str,
    "n_rows": int,
    "n_broken": int,
    "unit": str,
    "bound": float | int | None,
    "n_calibration_rows": int,
    "n_fit_rows": int,
    "n_shared_rows": int,
    "threshold": float | int | None,
    "why": str,
    "note": str,
}


def _measurement(data: Any) -> Measurement | None:
    if data is None:
        return None
    kinds: dict[str, type[Measurement]] = {
        kind.TAG: kind for kind in (ExitMeasurement, StepMeasurement, CostMeasurement, BudgetMeasurement)
    }
    kind = kinds.get(str(data.get("kind"))) if isinstance(data, Mapping) else None
    if kind is None:
        raise FormatError("its certificate has a measurement of an unknown kind")
    values = {name: value for name, value in data.items() if name != "kind"}
    for one in fields(kind):
        value = values.get(one.name)
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


def align(lines: Mapping[str, str]) -> str:
    """Return names and texts as lines in two columns."""
    width = max(map(len, lines), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())
