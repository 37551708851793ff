"""Plan: how to run a forest cheaper. In which order its trees are asked, and when a row may stop.

Algorithms make plans; what runs them (the native core, exports, the report) never knows which algorithm it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError
from scurry.forest import Forest
from scurry.storage import Container

NEVER_BELOW = np.iinfo(np.int32).min
NEVER_ABOVE = np.iinfo(np.int32).max
KINDS = ("votes", "scores")


@dataclass(frozen=True, eq=False, kw_only=True)
class ExitRule:
    """When a row may stop before all trees are asked.

    Every tree adds an integer to a row's sum: 1 for a positive vote ("votes"), or its leaf's score in units of `step`
    ("scores"). After ``i`` trees the row stops as negative if its sum is at most ``lower[p, i]``, as positive if it is
    at least ``upper[p, i]``, under the policy ``p`` it drew with probability ``weights[p]``.

    Attributes
    ----------
    kind : {"votes", "scores"}
    weights : float64 array of shape (n_policies,)
    lower, upper : int32 arrays of shape (n_policies, n_trees + 1)
    step : float
        What one unit of the sum is worth.
    shuffle : {"fixed", "row"}
        Whether all rows share the plan's order, or each draws its own.
    seed : int
        Of all draws. They depend on the seed and the row's own values alone.
    """

    kind: str
    weights: NDArray[np.float64]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    step: float = 1.0
    shuffle: str = "fixed"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.shuffle not in ("fixed", "row"):
            raise InputError(f"no exit rule of kind {self.kind!r} with shuffle={self.shuffle!r}")
        if self.weights.ndim != 1 or self.lower.ndim != 2 or self.lower.shape != self.upper.shape:
            raise InputError("weights, lower and upper do not fit together")
        if len(self.lower) != len(self.weights) or len(self.weights) == 0 or not (self.weights >= 0).all():
            raise InputError("every policy needs a weight and a row of thresholds")
        if (self.lower >= self.upper).any():
            raise InputError("every lower threshold must be below its upper one")
        if not np.isfinite(self.step) or self.step <= 0:
            raise InputError(f"step must be positive, got {self.step}")

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """What each node, as a leaf, adds to a row's sum; shape (n_nodes,)."""
        if self.kind == "votes":
            positive: NDArray[np.bool_] = forest.value.argmax(axis=1) == 1
            return positive.astype(np.int32)
        return np.rint(leaf_scores(forest) / self.step).astype(np.int32)

    def threshold(self, forest: Forest) -> int:
        """The sum over all trees from which on a row is positive."""
        if self.kind == "votes":
            return forest.n_trees // 2 + 1
        return int(np.rint(score_threshold(forest) / self.step))


def leaf_scores(forest: Forest) -> NDArray[np.float64]:
    """What each node adds to the score that decides between two classes, shape (n_nodes,).

    The model's own leaf value, or half the difference of two class probabilities.
    """
    if forest.n_classes != 2:
        raise InputError(f"scores of two classes are needed, the model has {forest.n_classes or 'none: a regressor'}")
    if forest.n_outputs == 1:
        return forest.value[:, 0]
    return (forest.value[:, 1] - forest.value[:, 0]) / 2


def score_threshold(forest: Forest) -> float:
    """A row is positive iff the sum of its `leaf_scores` is at least this (ties of two probabilities aside)."""
    base = forest.base_score
    if forest.n_outputs == 2:
        return float(base[0] - base[1]) / 2
    rounds = 1 if forest.aggregation == "sum" else forest.n_trees
    return forest.decision_threshold * rounds - float(base[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """An order of trees, a rule to stop, and what is known about the pair.

    Attributes
    ----------
    order : int32 array of shape (n_trees,)
    stop : ExitRule or None
        None runs every tree.
    facts : dict
        What was asked, promised and measured when the plan was made: strings, numbers and lists.
    """

    order: NDArray[np.int32]
    stop: ExitRule | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def check(self, forest: Forest) -> None:
        """Raise unless this plan can run `forest`."""
        if not np.array_equal(np.sort(self.order), np.arange(forest.n_trees)):
            raise InputError(f"the plan's order must name each of the {forest.n_trees} trees once")
        if self.stop is not None and self.stop.lower.shape[1] != forest.n_trees + 1:
            raise InputError(f"the plan has thresholds for {self.stop.lower.shape[1] - 1} trees, not {forest.n_trees}")

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON-able header and arrays from which `from_container` makes the same plan."""
        header: dict[str, Any] = {"facts": self.facts, "stop": None}
        arrays: dict[str, NDArray[Any]] = {"plan_order": self.order}
        if self.stop is not None:
            header["stop"] = {name: getattr(self.stop, name) for name in ("kind", "step", "shuffle", "seed")}
            arrays |= {f"stop_{name}": getattr(self.stop, name) for name in ("weights", "lower", "upper")}
        return header, arrays

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """The plan of a ``.scurry`` file."""
        with container.reading("plan"):
            header = container.field("plan", dict)
            facts, stop = header.get("facts"), header.get("stop")
            if not isinstance(facts, dict) or not isinstance(stop, dict | None):
                raise FormatError("it lacks facts or stop")
            order = container.array("plan_order", np.int32)
            return cls(order=order, facts=facts, stop=None if stop is None else cls._stop_from(container, stop))

    @staticmethod
    def _stop_from(container: Container, header: dict[str, Any]) -> ExitRule:
        if not isinstance(header.get("step"), int | float) or not isinstance(header.get("seed"), int):
            raise FormatError("its exit rule lacks step or seed")
        return ExitRule(
            kind=str(header.get("kind")),
            step=header["step"],
            shuffle=str(header.get("shuffle")),
            seed=header["seed"],
            weights=container.array("stop_weights", np.float64),
            lower=container.array("stop_lower", np.int32),
            upper=container.array("stop_upper", np.int32),
        )
