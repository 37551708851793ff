"""Plan: how to run a forest cheaper. In which order its trees are walked, and when a row may stop.

Algorithms make plans; what runs them (the native core, exports, the report) never knows which algorithm it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice
from scurry.errors import FormatError, InputError
from scurry.forest import Forest
from scurry.forest.storage import Container

NEVER_BELOW = int(np.iinfo(np.int32).min)
NEVER_ABOVE = int(np.iinfo(np.int32).max)
KINDS = ("votes", "scores")
READOUTS = ("plain", "weighted")


@dataclass(frozen=True, eq=False, kw_only=True)
class _StopRule:
    """What the two kinds of rules share: integer sums of votes, or of leaf scores in units of `step`."""

    kind: str
    step: float = 1.0

    ARRAYS: ClassVar[dict[str, type]] = {}

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if not isinstance(self.step, int | float) or not np.isfinite(self.step) or self.step <= 0:
            raise InputError(f"step must be a positive number, got {self.step!r}")

    def _in_steps(self, values: NDArray[np.float64], leaves: NDArray[np.bool_] | bool = True) -> NDArray[np.int32]:
        """`values` in units of `step`; those at `leaves` must fit 32 bits, others add to no sum and are cut to fit."""
        units = np.rint(values / self.step)
        if np.abs(units[leaves]).max() >= NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: some score is more than 2^31 of them")
        return units.clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int32)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON-able header and arrays that say everything about the rule."""
        header = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.ARRAYS}
        return header | {"rule": type(self).__name__}, {f"stop_{name}": getattr(self, name) for name in self.ARRAYS}


@dataclass(frozen=True, eq=False, kw_only=True)
class ExitRule(_StopRule):
    """When a row of a two-class model may stop before all trees are asked.

    Every tree adds an integer to a row's sum: 1 for a positive vote ("votes"), or its leaf's score in units of `step`
    ("scores"). After ``i`` trees the row stops as negative if its sum is at most ``lower[p, i]``, as positive if it is
    at least ``upper[p, i]``, under the policy ``p`` it drew with probability ``weights[p]``. Where `piece_offset` is
    given, the sums after ``i`` trees are cut at ``piece_edges[piece_offset[i]:piece_offset[i + 1]]`` instead, and each
    interval has a side: 0 go on, 1 negative, 2 positive, 3 ask every tree.

    Attributes
    ----------
    kind : {"votes", "scores"}
    step : float
        What one unit of the sum is worth.
    weights : float64 array of shape (n_policies,)
    lower, upper : int32 arrays of shape (n_policies, n_trees + 1)
    piece_offset, piece_edges, piece_sides : uint32, int32 and uint8 arrays
    shuffle : {"fixed", "row"}
        Whether all rows share the plan's order, or each draws its own.
    seed : int
        Of all draws. They depend on the seed and the row's own values alone.
    """

    weights: NDArray[np.float64]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    piece_offset: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    piece_edges: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    piece_sides: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    shuffle: str = "fixed"
    seed: int = 0

    ARRAYS: ClassVar[dict[str, type]] = {
        "weights": np.float64,
        "lower": np.int32,
        "upper": np.int32,
        "piece_offset": np.uint32,
        "piece_edges": np.int32,
        "piece_sides": np.uint8,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shuffle not in ("fixed", "row") or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise InputError(
                f'shuffle must be "fixed" or "row" and seed a whole number, got {self.shuffle!r}, {self.seed!r}'
            )
        if self.weights.ndim != 1 or self.lower.ndim != 2 or self.lower.shape != self.upper.shape:
            raise InputError("weights, lower and upper do not fit together")
        if len(self.lower) != len(self.weights) or len(self.weights) == 0 or not (self.weights >= 0).all():
            raise InputError("every policy needs a weight and a row of thresholds")
        if (self.lower >= self.upper).any():
            raise InputError("every lower threshold must be below its upper one")

    def check(self, forest: Forest) -> None:
        """Raise unless this rule can stop `forest`."""
        if forest.n_classes != 2:
            raise InputError(f"the plan is for two classes, the forest has {forest.n_classes}")
        if self.lower.shape[1] != forest.n_trees + 1:
            raise InputError(f"the plan has thresholds for {self.lower.shape[1] - 1} trees, not {forest.n_trees}")

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """What each node, as a leaf, adds to a row's sum; shape (n_nodes,)."""
        if self.kind == "votes":
            positive: NDArray[np.bool_] = forest.value.argmax(axis=1) == 1
            return positive.astype(np.int32)
        return self._in_steps(leaf_scores(forest), forest.is_leaf)

    def threshold(self, forest: Forest) -> int:
        """The sum over all trees from which on a row is positive."""
        if self.kind == "votes":
            return forest.n_trees // 2 + 1
        return int(np.rint(score_threshold(forest) / self.step))


@dataclass(frozen=True, eq=False, kw_only=True)
class LeaderRule(_StopRule):
    """When a row of a model with several classes may stop: once its leading class is far enough ahead.

    A round asks one tree, or one tree per class where each serves a single class. After ``r`` rounds a row stops if the
    largest class sum leads the second by ``lead[r]``; for votes with `need`, if the leader has ``need[r, second]``.

    Attributes
    ----------
    kind : {"votes", "scores"}
    step : float
    lead : int32 array of shape (n_rounds + 1,)
    need : int32 array of shape (n_rounds + 1, n_rounds + 1) or (0, 0)
    """

    lead: NDArray[np.int32]
    need: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))

    ARRAYS: ClassVar[dict[str, type]] = {"lead": np.int32, "need": np.int32}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.need.size and self.kind != "votes":
            raise InputError("need is a number of votes, which a rule on scores does not count")

    def check(self, forest: Forest) -> None:
        """Raise unless this rule can stop `forest`."""
        n_rounds = forest.n_rounds
        if forest.n_classes < 2 or forest.n_outputs != forest.n_classes:
            raise InputError("the plan is for a forest with a score per class")
        if self.lead.shape != (n_rounds + 1,) or self.need.shape not in ((0, 0), (n_rounds + 1, n_rounds + 1)):
            raise InputError(f"the plan has leads for {self.lead.size - 1} rounds, not {n_rounds}")

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """What each node, as a leaf, adds to a row's sums; shape (n_nodes, n_columns)."""
        if self.kind == "votes":
            votes: NDArray[np.int32] = np.eye(forest.n_classes, dtype=np.int32)[forest.value.argmax(axis=1)]
            return votes
        return self._in_steps(forest.leaf_values(), forest.is_leaf)

    def start(self, forest: Forest) -> NDArray[np.int32]:
        """Sums before the first tree, shape (n_classes,)."""
        return self._in_steps((0 if self.kind == "votes" else 1) * forest.base_score)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepRule:
    """A row may stop after any step, whenever the caller's budget ends.

    The plan's order then names the tree of each step, every tree as often as it is deep. A row answers from the nodes
    it has reached, inner ones included.

    Attributes
    ----------
    readout : {"plain", "weighted"}
        How inner nodes count. "weighted" counts one at depth ``d`` of a tree of depth ``D`` only
        ``((d + 1) / (D + 1)) ** 2`` times. Leaves always count once, so that the full answer is the model's own.
    """

    readout: str = "plain"

    ARRAYS: ClassVar[dict[str, type]] = {}

    def __post_init__(self) -> None:
        check_choice("readout", self.readout, READOUTS)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON-able header and arrays that say everything about the rule."""
        return {"rule": type(self).__name__, "readout": self.readout}, {}

    def check(self, forest: Forest) -> None:
        """Raise unless this rule can stop `forest`: it can stop any."""

    def weights(self, forest: Forest) -> NDArray[np.float64]:
        """How many times each node counts, shape (n_nodes,); empty if all count once."""
        if self.readout == "plain":
            return np.empty(0)
        height = np.repeat(forest.tree_depth, np.diff(forest.tree_offset)) + 1
        return np.where(forest.is_leaf, 1.0, ((forest.node_depth + 1) / height) ** 2)


def leaf_scores(forest: Forest) -> NDArray[np.float64]:
    """What each node adds to the score that decides between two classes, shape (n_nodes,).

    The model's own leaf value, or half the difference of what it adds to the second class and to the first.
    """
    if forest.n_classes != 2:
        raise InputError(f"scores of two classes are needed, the model has {forest.n_classes or 'none: a regressor'}")
    values = forest.leaf_values()
    if forest.n_outputs == 1:
        return values[:, 0]
    if forest.tree_output[0] >= 0:
        return np.repeat(forest.tree_output - 0.5, np.diff(forest.tree_offset)) * values[:, 0]
    return (values[:, 1] - values[:, 0]) / 2


def score_threshold(forest: Forest) -> float:
    """A row is positive iff the sum of its `leaf_scores` is at least this (ties of two probabilities aside)."""
    base = forest.base_score
    if forest.n_outputs == 2:
        return float(base[0] - base[1]) / 2
    return forest.decision_threshold * forest.score_divisor - float(base[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """An order of trees or of steps in trees, a rule to stop, and what is known about the pair.

    Attributes
    ----------
    order : int32 array of shape (n_trees,), or (n_steps,) with a StepRule
    stop : ExitRule, LeaderRule, StepRule or None
        None runs every tree.
    facts : dict
        What was asked, promised and measured when the plan was made: strings, numbers and lists.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump, stump])
    >>> scurry.Predictor(forest, scurry.Plan(order=np.array([1, 0], np.int32))).predict([[1.0]])
    array([1])
    """

    order: NDArray[np.int32]
    stop: ExitRule | LeaderRule | StepRule | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def check(self, forest: Forest) -> None:
        """Raise unless this plan can run `forest`."""
        by_step = isinstance(self.stop, StepRule)
        times = forest.tree_depth if by_step else np.ones(forest.n_trees, np.int32)
        if not np.array_equal(np.sort(self.order), np.repeat(np.arange(forest.n_trees), times)):
            often = "as often as it is deep" if by_step else "once"
            raise InputError(f"the plan's order must name each of the {forest.n_trees} trees {often}")
        if self.stop is not None:
            self.stop.check(forest)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON-able header and arrays from which `from_container` makes the same plan."""
        stop, arrays = (None, {}) if self.stop is None else self.stop.to_parts()
        return {"facts": self.facts, "stop": stop}, {"plan_order": self.order} | arrays

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """The plan of a ``.scurry`` file."""
        with container.reading("plan"):
            header = container.field("plan", dict)
            facts, stop = header.get("facts"), header.get("stop")
            if not isinstance(facts, dict) or not isinstance(stop, dict | None):
                raise FormatError("it lacks facts or stop")
            order = container.array("plan_order", np.int32)
            return cls(order=order, facts=facts, stop=None if stop is None else _stop_rule(container, stop))


def _stop_rule(container: Container, header: dict[str, Any]) -> ExitRule | LeaderRule | StepRule:
    rules: dict[str, type[ExitRule | LeaderRule | StepRule]] = {
        "ExitRule": ExitRule,
        "LeaderRule": LeaderRule,
        "StepRule": StepRule,
    }
    rule = rules.get(str(header.get("rule")))
    if rule is None:
        raise FormatError(f"it has a stop rule of an unknown kind, {header.get('rule')!r}")
    parts: dict[str, Any] = {name: container.array(f"stop_{name}", dtype) for name, dtype in rule.ARRAYS.items()}
    parts |= {name: value for name, value in header.items() if name != "rule"}
    try:
        return rule(**parts)
    except TypeError as error:
        raise FormatError(f"its stop rule has unknown fields: {error}") from error


def told(facts: Mapping[str, Any]) -> dict[str, str]:
    """What a plan says about itself, for readers: shares in percent, means with few digits.

    Examples
    --------
    >>> told({"n_calibration_rows": 8000, "max_disagreement": 0.005, "calibration_mean_trees": 5.98562})
    {'calibration rows': '8,000', 'max disagreement': '0.5 %', 'calibration mean trees': '5.986'}
    """
    return {name.removeprefix("n_").replace("_", " "): _in_words(name, value) for name, value in facts.items()}


def _in_words(name: str, value: object) -> str:
    if isinstance(value, float):
        if name.endswith(("disagreement", "accuracy")):
            return f"{100 * value:.4g} %"
        return f"{value:.4g}" if "mean" in name else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
