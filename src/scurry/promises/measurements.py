"""Measurements: what plans did on the rows that certified them, one class for each kind of plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeAlias

from scurry.checks import is_number
from scurry.errors import FormatError
from scurry.formatting import format_bytes, format_number, format_share

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
            "mean cost per row": f"{format_number(self.mean_cost)}, "
            f"and {format_number(self.validation_cost)} on the rows that chose the forest",
            "most a row can pay": format_number(self.largest_cost),
            "found of each class": f"{self.recalls} {_FLATTERED}" if self.recalls else "",
            "grown as": self.candidate,
            "warning": _warn_of(self.single_label),
        }
        return {name: text for name, text in lines.items() if text}


_FLATTERED = "on the rows that chose the forest: new ones may get worse"


@dataclass(frozen=True, kw_only=True)
class BudgetMeasurement:
    """What a forest within a budget of feature costs was measured to cost and to find.

    Attributes
    ----------
    candidate : str
        How it was grown.
    cost, full_cost : float
        Mean cost per row, and that of the given estimator before pruning, of the rows that chose the forest.
    error : float
        On rows that did not grow the forest, but chose it; weighted, as asked for.
    recalls : str
        The share of each class's rows that are found, on the same rows.
    single_label : str
        The label that every row gets; empty if there are several.
    largest_paid : float or None
        The most that one of the rows pays; a budget limits their mean. None in older files.
    paid_by_class : str or None
        The mean cost of the rows of each class.
    left_out_cost : float or None
        The mean cost of rows that were left out in turn while such forests grew, where it is higher: the budget was
        compared with it. None where no rows took turns.
    """

    candidate: str
    cost: float
    full_cost: float
    error: float
    recalls: str
    single_label: str = ""
    largest_paid: float | None = None
    paid_by_class: str | None = None
    left_out_cost: float | None = None

    TAG: ClassVar[str] = "budget"

    def describe(self) -> dict[str, str]:
        """Return what was measured, by name."""
        in_turn = ""
        if self.left_out_cost is not None:
            in_turn = (
                f", which grew it too; {format_number(self.left_out_cost)} on rows left out in turn (as offers_ says)"
            )
        lines = {
            "mean cost per row": f"{format_number(self.cost)} on the rows that chose the forest{in_turn}; "
            f"the given estimator before pruning: {format_number(self.full_cost)}",
            "largest cost of a row": "" if self.largest_paid is None else format_number(self.largest_paid),
            "mean cost by class": self.paid_by_class or "",
            "found of each class": f"{self.recalls} {_FLATTERED}" if self.recalls else "",
            "weighted error": f"{self.error:.4g} {_FLATTERED}",
            "new rows": "set some apart before fit; scurry.report.write measures all of this on them",
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
    is_certified : bool or None
        Whether it passed the test of the promise, and so did all candidates before it. None if nothing was promised.
    """

    node_share: float
    split_bits: int
    n_trees: int
    n_nodes: int
    n_bytes: int
    changed: float
    accuracy: float | None = None
    is_certified: bool | None = None

    @classmethod
    def from_json(cls, data: Any) -> SizePoint:
        """Return the point that a file holds."""
        names = {one.name for one in fields(cls)}
        if not isinstance(data, Mapping) or not set(data) <= names:
            raise FormatError("its certificate has a candidate that cannot be read")
        for name, value in data.items():
            wanted = bool if name == "is_certified" else int if str(cls.__annotations__[name]) == "int" else int | float
            is_absent = value is None and name in ("accuracy", "is_certified")
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


def read_measurement(data: Any) -> Measurement | None:
    """Return the measurement that a certificate was saved with; None if it had none."""
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
        kinds_wanted = {"str": str, "str | None": str | None}.get(str(one.type))
        wanted = is_number(value) or value is None if kinds_wanted is None else isinstance(value, kinds_wanted)
        if not wanted:
            raise FormatError(f"its certificate has a measured {one.name} of the wrong type, {value!r}")
    try:
        return kind(**values)
    except TypeError as error:
        raise FormatError(f"its certificate has a measurement that cannot be read: {error}") from error


_STEP_TIMES = ("same_tree_step_ns", "other_tree_step_ns")


def steps_of_facts(facts: Mapping[str, Any]) -> StepMeasurement | None:
    """Return what files of the first version say about an anytime plan; None if it is none."""
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
