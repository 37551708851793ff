"""Plan: an order of trees, a rule to stop and a certificate, and how plans lie in files.

`StopRule` is what all stop rules can say. By an `ExitRule` or a `LeaderRule` a row may stop after any tree, on one sum
or on a sum per class; by a `StepRule` after any step, whenever the budget of the caller ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_instance, check_number
from scurry.costs import FeatureCosts
from scurry.errors import FormatError, InputError
from scurry.forest import Forest, largest_scores, leaf_scores, score_step, score_threshold
from scurry.forest.files.storage import Container
from scurry.plan.regions import Band, Bins, Leads, Regions

if TYPE_CHECKING:
    from scurry.promises import Certificate

# Sums are 32-bit integers, so these thresholds are never crossed.
NEVER_BELOW = int(np.iinfo(np.int32).min)
NEVER_ABOVE = int(np.iinfo(np.int32).max)
KINDS = ("votes", "scores")
READOUTS = ("plain", "weighted")
_ROUNDED = 1e-6  # by how much probabilities may miss 1
_MOST_ROUNDED = 0.05  # of a leaf, as a share of the largest one
# The factor of `with_scaled_thresholds` at which a rule on pieces stops no row any more.
_LARGEST_FACTOR = 16.0
_KINDS: dict[str, type[StopRule]] = {}


class ExitSide(IntEnum):
    """Where a running sum leads. The native core (``core/runtime/early_exit.h``) and files use the same numbers."""

    CONTINUE = 0
    NEGATIVE = 1
    POSITIVE = 2
    FULL = 3  # evaluate every tree, whatever comes


@dataclass(frozen=True, eq=False, kw_only=True)
class StopRule(ABC):
    """What every kind of stop rule can say about itself."""

    # How files name this kind. It stays as it is when a class is renamed.
    TAG: ClassVar[str]
    ARRAYS: ClassVar[dict[str, type]] = {}
    # Whether the plan's order names the tree of each step, and a row may stop after any of them.
    by_step: ClassVar[bool] = False
    # Whether rows must be known as a whole: features cannot be bought while such a plan runs.
    needs_whole_rows: ClassVar[bool] = False
    # Whether rows are documents that are ranked within their queries.
    ranks_groups: ClassVar[bool] = False
    # Whether rows evaluate trees in the plan's order. If not, the rule has an order for each part of the inputs.
    in_plan_order: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # So that each kind can live in a module of its own; `scurry.plan` imports them all.
        if "TAG" in vars(cls):
            _KINDS[cls.TAG] = cls

    @abstractmethod
    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""

    @property
    def by_votes(self) -> bool:
        """Whether trees vote, so that a row evaluated in full gets the label of the full vote."""
        return False

    @property
    def tested_by(self) -> str:
        """How rows are tested: by "sums" or their "bins" after every tree, at "sentinels", or by bounds of "cells"."""
        return "sums"

    def mean_comparisons(self, trees: NDArray[np.integer]) -> float:
        """Return how often a row is compared with other rows, given how many trees rows evaluate."""
        return 0.0

    def node_weights(self, forest: Forest) -> NDArray[np.float64]:
        """Return how many times each node counts, shape (n_nodes,); empty if all count once."""
        return np.empty(0)

    def regions(self, forest: Forest) -> Regions | None:
        """Return where the rule stops rows, for plots; None if that cannot be drawn."""
        return None

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self | None:
        """Return the rule with `factor` times as much caution; None if it has no thresholds to move."""
        return None

    def without_stops(self) -> Self | None:
        """Return the rule without a stop before the last tree; None if it has no thresholds to move."""
        return None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays that say everything about the rule."""
        header = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in self.ARRAYS}
        return header | {"rule": self.TAG}, {f"stop_{name}": getattr(self, name) for name in self.ARRAYS}

    @staticmethod
    def from_container(container: Container, header: dict[str, Any]) -> StopRule:
        """Return the rule of a ``.scurry`` file from what `to_parts` has returned."""
        kind = _KINDS.get(str(header.get("rule")))
        if kind is None:
            raise FormatError(f"it has a stop rule of an unknown kind, {header.get('rule')!r}")
        parts: dict[str, Any] = {name: container.array(f"stop_{name}", dtype) for name, dtype in kind.ARRAYS.items()}
        parts |= {name: value for name, value in header.items() if name != "rule"}
        try:
            return kind(**parts)
        except TypeError as error:
            raise FormatError(f"its stop rule has unknown fields: {error}") from error


class Tally(Protocol):
    """The running sums of one row, whose features may be bought while they grow. The native core has its own.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

    decided: int | None

    @property
    def leading(self) -> int:
        """The class that the sums so far speak for."""
        ...

    def add(self, tree: int, node: int) -> None:
        """Add a tree that ended at a node."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SumRule(StopRule):
    """What the rules of early exits share: integer sums of votes, or of leaf scores in units of `step`.

    The integers make outcomes independent of batch size, order of rows and threads.
    """

    kind: str
    step: float = 1.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_number("step", self.step, above=0.0)

    @property
    def by_votes(self) -> bool:
        """Whether trees vote, so that a row evaluated in full gets the label of the full vote."""
        return self.kind == "votes"

    @property
    def shuffles_rows(self) -> bool:
        """Whether each row draws an order of trees of its own."""
        return False

    @property
    @abstractmethod
    def n_positions(self) -> int:
        """After how many numbers of trees, or of rounds, a row may stop; none and all of them count too."""

    def _check_sums(
        self, forest: Forest, largest: Callable[[], NDArray[np.float64]], start: NDArray[np.float64]
    ) -> None:
        """Raise an error unless all sums fit 32 bits, with the `largest` leaf of each tree, whatever their order.

        A step in which leaves are rounded to something else is an error too: the rule would stop other rows.
        """
        if self.kind == "votes":
            if forest.n_columns != forest.n_classes:
                raise InputError("the plan counts votes, and a tree of this forest has no vote for every class")
            return
        with np.errstate(over="ignore"):
            of_trees = largest() / self.step
            most = np.rint(of_trees).sum() + np.abs(start).max() / self.step
        if not most < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: some sum is more than 2^31 of them")
        rounded = np.abs(of_trees - np.rint(of_trees))
        # Beside a large base score, no step that 32 bits allow may be small enough.
        if rounded.max() > _MOST_ROUNDED * of_trees.max() and self.step > score_step(forest):
            leaf = of_trees[np.argmax(rounded)]
            raise InputError(
                f"step {self.step:g} is too large: a leaf of {leaf * self.step:.4g} would count as "
                f"{np.rint(leaf) * self.step:.4g}. Pass a step that is small beside leaves, such as 2**-20, and "
                "thresholds in units of it"
            )

    @abstractmethod
    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """Return what each node, as a leaf, adds to a row's sums; shape (n_nodes,) or (n_nodes, n_columns)."""

    @abstractmethod
    def increments_of(self, forest: Forest, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return what leaves with these values, shape (n, n_columns), add: `increments` without the nodes."""

    @abstractmethod
    def tally(self, forest: Forest, increments: NDArray[np.int32]) -> Tally:
        """Return the state of a row before its first tree; a randomised rule must be what the row drew."""

    @abstractmethod
    def regions(self, forest: Forest) -> Regions:
        """Return where the rule stops rows, in units of votes or scores, for plots."""

    @abstractmethod
    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self:
        """Return the rule with the distance between its thresholds times `factor`: above 1 is more cautious."""

    @abstractmethod
    def without_stops(self) -> Self:
        """Return the rule without a stop before the last tree."""

    def _to_grid(self, values: NDArray[np.float64], leaves: NDArray[np.bool_] | bool = True) -> NDArray[np.int32]:
        """Return `values` in grid units. Those at `leaves` must fit 32 bits; others add to no sum, and are cut."""
        with np.errstate(under="ignore"):
            units = np.rint(values / self.step)
        if np.abs(units[leaves]).max() >= NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: some score is more than 2^31 of them")
        return units.clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int32)

    @property
    def is_randomised(self) -> bool:
        """Whether rows draw something: a policy, or an order of their own."""
        return False

    def draw(self, order: NDArray[np.int32], number: int) -> tuple[NDArray[np.int32], Self]:
        """Return the order of trees and the rule, of one policy, that the row with this number follows."""
        return order, self


@dataclass(frozen=True, eq=False, kw_only=True)
class ExitRule(SumRule):
    """When a row of a two-class model may stop before all trees are evaluated.

    Every tree adds an integer to a row's sum: 1 for a positive vote ("votes"), or its leaf's score in units of `step`
    ("scores"). After ``i`` trees the row stops as negative if its sum is at most ``lower[p, i]``, as positive if it is
    at least ``upper[p, i]``, under the policy ``p`` it drew with probability ``weights[p]``. Where `piece_offset` is
    given, the sums after ``i`` trees are cut at ``piece_edges[piece_offset[i]:piece_offset[i + 1]]`` instead, and each
    interval has an `ExitSide`.

    Attributes
    ----------
    kind : {"votes", "scores"}
    step : float
        What one grid unit of the sum is worth.
    weights : float64 array of shape (n_policies,)
        Those that do not add up to 1 are divided by their sum.
    lower, upper : int32 arrays of shape (n_policies, n_trees + 1)
        Other numbers are rounded to those that stop the same rows; ``lower`` of -inf and ``upper`` of inf stop none.
    piece_offset, piece_edges, piece_sides : uint32, int32 and uint8 arrays
    shuffle : {"fixed", "row"}
        Whether all rows share the plan's order, or each draws its own.
    seed : int
        Random seed. Draws depend on the seed and the row's own values alone.
    """

    weights: NDArray[np.float64]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    piece_offset: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    piece_edges: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    piece_sides: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    shuffle: str = "fixed"
    seed: int = 0

    TAG: ClassVar[str] = "ExitRule"
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
        if self.shuffle not in ("fixed", "row") or type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise InputError(
                f'shuffle must be "fixed" or "row" and seed a whole number, got {self.shuffle!r}, {self.seed!r}'
            )
        object.__setattr__(self, "weights", np.asarray(self.weights, np.float64))
        object.__setattr__(self, "lower", _whole_thresholds("lower", self.lower, np.floor))
        object.__setattr__(self, "upper", _whole_thresholds("upper", self.upper, np.ceil))
        if self.weights.ndim != 1 or self.lower.ndim != 2 or self.lower.shape != self.upper.shape:
            raise InputError("weights, lower and upper do not fit together")
        if len(self.lower) != len(self.weights) or len(self.weights) == 0 or not (self.weights >= 0).all():
            raise InputError("every policy needs a weight and a row of thresholds")
        with np.errstate(over="ignore"):
            total = self.weights.sum()
        if not 0 < total < np.inf:
            raise InputError("weights must be finite, and one of them above 0")
        if abs(total - 1) > _ROUNDED:  # others stay as they are, to the last bit
            object.__setattr__(self, "weights", self.weights / total)
        if (crossed := self.lower >= self.upper).any():
            at = tuple(int(index) for index in np.argwhere(crossed)[0])
            raise InputError(
                f"every lower threshold must be below its upper one; at index [{at[0]}, {at[1]}] they are "
                f"{self.lower[at]} and {self.upper[at]}"
            )
        self._check_pieces()

    def _check_pieces(self) -> None:
        offset, edges, sides = self.piece_offset, self.piece_edges, self.piece_sides
        if not offset.ndim == edges.ndim == sides.ndim == 1:
            raise InputError("piece_offset, piece_edges and piece_sides must each be one list of numbers")
        n_counts = self.lower.shape[1] if offset.size else 0  # numbers of trees after which sums are cut
        fits = not offset.size or (offset[0] == 0 and offset[-1] == len(edges) and (offset[1:] >= offset[:-1]).all())
        if offset.size not in (0, n_counts + 1) or not fits or len(sides) != (len(edges) + n_counts):
            raise InputError("piece_offset, piece_edges and piece_sides do not fit together")
        falls = edges[1:] < edges[:-1]
        falls[offset[(offset > 0) & (offset < len(edges))].astype(np.int64) - 1] = False  # edges of the next count
        if falls.any():
            raise InputError("piece_edges must rise after each number of trees")
        if sides.max(initial=0) > ExitSide.FULL:
            raise InputError(f"piece_sides must be from 0 to {int(ExitSide.FULL)}, got {sides.max()}")

    @property
    def tested_by(self) -> str:
        """Bins, if it has pieces."""
        return "bins" if len(self.piece_edges) else "sums"

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes != 2:
            raise InputError(f"the plan is for two classes, the forest has {forest.n_classes}")
        if self.lower.shape[1] != forest.n_trees + 1:
            raise InputError(f"the plan has thresholds for {self.lower.shape[1] - 1} trees, not {forest.n_trees}")
        self._check_sums(forest, lambda: largest_scores(forest), np.zeros(1))
        self.threshold(forest)

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """Return what each node, as a leaf, adds to a row's sum; shape (n_nodes,)."""
        if self.kind == "votes":
            return self.increments_of(forest, forest.value)
        return self._to_grid(leaf_scores(forest), forest.is_leaf)

    def increments_of(self, forest: Forest, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return what leaves with these values add, shape (n,)."""
        if self.kind == "votes":
            positive: NDArray[np.bool_] = values.argmax(axis=1) == 1
            return positive.astype(np.int32)
        return self._to_grid(values[:, 0] if forest.n_outputs == 1 else (values[:, 1] - values[:, 0]) / 2)

    def threshold(self, forest: Forest) -> int:
        """Return the sum over all trees from which on a row is positive."""
        if self.kind == "votes":
            return forest.n_trees // 2 + 1
        units = np.rint(score_threshold(forest) / self.step)
        if not abs(units) < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: the decision threshold is more than 2^31 of them")
        return int(units)

    @property
    def shuffles_rows(self) -> bool:
        """Whether each row draws an order of trees of its own."""
        return self.shuffle == "row"

    @property
    def n_positions(self) -> int:
        """After how many numbers of trees a row may stop; none and all of them count too."""
        return int(self.lower.shape[1])

    @property
    def has_pieces(self) -> bool:
        """Whether sums are cut into pieces instead of two thresholds."""
        return bool(self.piece_offset.size)

    def side_of(self, policy: NDArray[np.int64] | int, n_trees: int, sums: NDArray[Any] | int) -> NDArray[np.uint8]:
        """Return the `ExitSide` of rows with these policies and these sums after `n_trees` trees, as an array."""
        values = np.asarray(sums)
        if self.has_pieces:
            first, last = int(self.piece_offset[n_trees]), int(self.piece_offset[n_trees + 1])
            # After each number of trees there is one piece more than edges: piece k has the index first + n_trees + k.
            piece = np.searchsorted(self.piece_edges[first:last], values, side="right")
            return np.asarray(self.piece_sides[first + n_trees + piece])
        sides = np.where(values >= self.upper[policy, n_trees], ExitSide.POSITIVE, ExitSide.CONTINUE)
        return np.where(values <= self.lower[policy, n_trees], ExitSide.NEGATIVE, sides).astype(np.uint8)

    def tally(self, forest: Forest, increments: NDArray[np.int32]) -> Tally:
        """Return the state of a row before its first tree; a randomised rule must be what the row drew."""
        return _ExitTally(forest, self, increments)

    def regions(self, forest: Forest) -> Band | Bins:
        """Return where the rule stops rows.

        Examples
        --------
        >>> import numpy as np
        >>> from scurry import Forest
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [1, 0], [0, 1]]}
        >>> rule = ExitRule(kind="votes", weights=np.ones(1), lower=np.array([[-1, -1, 0, 1]], np.int32),
        ...                 upper=np.array([[1, 2, 2, 2]], np.int32))
        >>> rule.regions(Forest.from_trees([stump] * 3)).upper.tolist()
        [[nan, nan, 2.0, 2.0]]
        """
        if self.has_pieces:
            return self._bins(forest)
        if self.kind == "votes":
            n_evaluated = np.arange(self.upper.shape[1])
            lower, upper = self.lower.astype(np.float64), self.upper.astype(np.float64)
            return Band(np.where(lower >= 0, lower, np.nan), np.where(upper <= n_evaluated, upper, np.nan))
        decision = float(self.threshold(forest))
        return Band(
            np.where(self.lower > NEVER_BELOW, (self.lower - decision) * self.step, np.nan),
            np.where(self.upper < NEVER_ABOVE, (self.upper - decision) * self.step, np.nan),
        )

    def _bins(self, forest: Forest) -> Bins:
        trees = np.repeat(np.arange(forest.n_trees + 1), np.diff(self.piece_offset))
        edges = (self.piece_edges - float(self.threshold(forest))) * self.step
        # The piece above edge k, which belongs to tree t, has the index k + t + 1 (see `side_of`).
        above = self.piece_sides[np.arange(len(edges)) + trees + 1][:-1]
        stops = (trees[1:] == trees[:-1]) & np.isin(above, (ExitSide.NEGATIVE, ExitSide.POSITIVE))
        return Bins(trees[:-1][stops], edges[:-1][stops], edges[1:][stops], above[stops] == ExitSide.POSITIVE)

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self:
        """Return the rule with the distance between its thresholds times `factor`: above 1 is more cautious.

        Pieces cannot be moved apart. Instead no row stops within the first trees; a larger `factor` means more of them.
        """
        if self.has_pieces:
            n_first = round(forest.n_trees * min(max(0.0, np.log(factor) / np.log(_LARGEST_FACTOR)), 1.0))
            is_early = np.arange(len(self.piece_sides)) < self.piece_offset[n_first] + n_first
            stops = is_early & (self.piece_sides != ExitSide.FULL)
            return replace(self, piece_sides=np.where(stops, ExitSide.CONTINUE, self.piece_sides).astype(np.uint8))
        has_lower, has_upper = self.lower > NEVER_BELOW, self.upper < NEVER_ABOVE
        lower, upper = self.lower.astype(np.float64), self.upper.astype(np.float64)
        decision = float(self.threshold(forest))
        # A threshold without a partner is scaled around the decision, as long as that lies on its inner side.
        one_sided = np.where(has_upper, np.minimum(decision, upper - 1), np.maximum(decision, lower + 1))
        centre = np.where(has_lower & has_upper, (lower + upper) / 2, one_sided)
        return replace(
            self,
            lower=to_int32(np.where(has_lower, np.floor(centre + factor * (lower - centre)), NEVER_BELOW)),
            upper=to_int32(np.where(has_upper, np.ceil(centre + factor * (upper - centre)), NEVER_ABOVE)),
        )

    def without_stops(self) -> Self:
        """Return the rule without a stop before the last tree."""
        lower, upper = np.full_like(self.lower, NEVER_BELOW), np.full_like(self.upper, NEVER_ABOVE)
        lower[:, -1], upper[:, -1] = self.lower[:, -1], self.upper[:, -1]
        return replace(self, lower=lower, upper=upper, piece_sides=np.zeros_like(self.piece_sides))

    @property
    def is_randomised(self) -> bool:
        """Whether rows draw something: a policy, or an order of their own."""
        return self.shuffles_rows or len(self.weights) > 1

    def draw(self, order: NDArray[np.int32], number: int) -> tuple[NDArray[np.int32], Self]:
        """Return the order of trees and the rule, of one policy, that the row with this number follows.

        Native code draws by a row's values. This draw is for rows whose values are not known yet: it differs for a
        single row, and has the same distribution.
        """
        if not self.is_randomised:
            return order, self
        rng = np.random.default_rng([self.seed, number])
        drawn_order = rng.permutation(order) if self.shuffles_rows else order
        policy = int(rng.choice(len(self.weights), p=self.weights / self.weights.sum()))
        drawn = slice(policy, policy + 1)
        one = replace(self, weights=np.ones(1), lower=self.lower[drawn], upper=self.upper[drawn], shuffle="fixed")
        return drawn_order, one


class _ExitTally:
    """The state of an `ExitRule` with one policy for one row."""

    def __init__(self, forest: Forest, rule: ExitRule, increments: NDArray[np.int32]) -> None:
        self.rule, self.increments = rule, increments
        self.threshold = rule.threshold(forest)
        self.total = self.n_trees = 0
        self.evaluates_all = False
        self.decided: int | None = None
        self._test()

    @property
    def leading(self) -> int:
        """The class of the vote, or of the summed scores."""
        return int(self.total >= self.threshold)

    def add(self, tree: int, node: int) -> None:
        """Add a tree that ended at a node."""
        self.total += int(self.increments[node])
        self.n_trees += 1
        self._test()

    def _test(self) -> None:
        if self.evaluates_all:
            return
        side = int(self.rule.side_of(0, self.n_trees, self.total))
        self.evaluates_all = side == ExitSide.FULL
        self.decided = {ExitSide.NEGATIVE: 0, ExitSide.POSITIVE: 1}.get(ExitSide(side))


@dataclass(frozen=True, eq=False, kw_only=True)
class LeaderRule(SumRule):
    """When a row of a model with several classes may stop: once its leading class is far enough ahead.

    A round evaluates one tree, or one tree per class where each serves a single class. After ``r`` rounds a row stops
    if the largest class sum leads the second by ``lead[r]``; for votes with `need`, if the leader has
    ``need[r, second]``.

    Attributes
    ----------
    kind : {"votes", "scores"}
    step : float
    lead : int32 array of shape (n_rounds + 1,)
    need : int32 array of shape (n_rounds + 1, n_rounds + 1) or (0, 0)
        Other numbers than whole ones are rounded up, and infinite ones stop no row.
    """

    lead: NDArray[np.int32]
    need: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))

    TAG: ClassVar[str] = "LeaderRule"
    ARRAYS: ClassVar[dict[str, type]] = {"lead": np.int32, "need": np.int32}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "lead", _whole_thresholds("lead", self.lead, np.ceil))
        object.__setattr__(self, "need", _whole_thresholds("need", self.need, np.ceil))
        if self.need.size and self.kind != "votes":
            raise InputError("need is a number of votes, which a rule on scores does not count")

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        n_rounds = forest.n_rounds
        if forest.n_classes < 2 or forest.n_outputs != forest.n_classes:
            raise InputError("the plan is for a forest with a score per class")
        if self.lead.shape != (n_rounds + 1,) or self.need.shape not in ((0, 0), (n_rounds + 1, n_rounds + 1)):
            raise InputError(f"the plan has leads for {self.lead.size - 1} rounds, not {n_rounds}")
        largest = partial(forest.most_of_trees, lambda values: np.abs(values).max(axis=1))
        self._check_sums(forest, largest, forest.base_score)

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """Return what each node, as a leaf, adds to a row's sums; shape (n_nodes, n_columns)."""
        if self.kind == "votes":
            return self.increments_of(forest, forest.value)
        return self._to_grid(forest.leaf_values(), forest.is_leaf)

    def increments_of(self, forest: Forest, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return what leaves with these values add, shape (n, n_columns)."""
        if self.kind == "votes":
            votes = np.zeros((len(values), forest.n_classes), np.int32)
            votes[np.arange(len(values)), values.argmax(axis=1)] = 1
            return votes
        return self._to_grid(values)

    @property
    def n_positions(self) -> int:
        """After how many numbers of rounds a row may stop; none and all of them count too."""
        return len(self.lead)

    def start(self, forest: Forest) -> NDArray[np.int32]:
        """Return the sums before the first tree, shape (n_classes,)."""
        return self._to_grid((0 if self.kind == "votes" else 1) * forest.base_score)

    def tally(self, forest: Forest, increments: NDArray[np.int32]) -> Tally:
        """Return the state of a row before its first tree."""
        return _LeaderTally(forest, self, increments)

    def regions(self, forest: Forest) -> Leads:
        """Return where the rule stops rows."""
        if not self.need.size:
            return Leads(np.where(self.lead < NEVER_ABOVE, self.lead * self.step, np.nan))
        rounds, second = np.arange(len(self.lead)), np.arange(self.need.shape[1], dtype=np.float64)
        is_possible = self.need + second <= rounds[:, None]
        lead = np.where(is_possible, self.need - second, np.inf).min(axis=1)
        return Leads(np.where(np.isinf(lead), np.nan, lead))

    def with_scaled_thresholds(self, forest: Forest, factor: float) -> Self:
        """Return the rule with its leads times `factor`: above 1 is more cautious."""
        second = np.arange(self.need.shape[1])
        need = second + np.maximum(np.ceil(factor * (self.need - second.astype(np.float64))), 1)
        return replace(
            self,
            lead=to_int32(np.where(self.lead < NEVER_ABOVE, np.ceil(factor * self.lead), NEVER_ABOVE)),
            need=to_int32(np.where(self.need < NEVER_ABOVE, need, NEVER_ABOVE)),
        )

    def without_stops(self) -> Self:
        """Return the rule without a stop before the last tree."""
        return replace(self, lead=np.full_like(self.lead, NEVER_ABOVE), need=np.full_like(self.need, NEVER_ABOVE))


class _LeaderTally:
    """The state of a `LeaderRule` for one row."""

    def __init__(self, forest: Forest, rule: LeaderRule, increments: NDArray[np.int32]) -> None:
        self.forest, self.rule, self.increments = forest, rule, increments
        self.sums = rule.start(forest).astype(np.int64)
        self.trees_per_round = forest.trees_per_round
        self.n_trees = 0
        self.decided: int | None = None

    @property
    def leading(self) -> int:
        """The class with the largest sum."""
        return int(self.sums.argmax())

    def add(self, tree: int, node: int) -> None:
        """Add a tree that ended at a node."""
        output = int(self.forest.tree_output[tree])
        if output < 0:
            self.sums += self.increments[node]
        else:
            self.sums[output] += self.increments[node, 0]
        self.n_trees += 1
        if self.n_trees % self.trees_per_round == 0:
            self._test(self.n_trees // self.trees_per_round)

    def _test(self, n_rounds: int) -> None:
        second, first = np.sort(self.sums)[-2:].tolist()
        if self.rule.need.size:
            stops = first >= self.rule.need[n_rounds, second]
        else:
            stops = first - second >= self.rule.lead[n_rounds]
        if stops:
            self.decided = self.leading


def to_int32(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return whole numbers as int32, those beyond its range as thresholds that are never crossed."""
    return values.clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int32)


def _whole_thresholds(
    name: str, values: NDArray[Any], toward: Callable[[NDArray[Any]], NDArray[np.float64]]
) -> NDArray[np.int32]:
    """Return thresholds of whole sums as int32: cutting fractions off would stop other rows."""
    given = np.asarray(values)
    if given.dtype == np.int32:
        return given
    if given.dtype.kind not in "iuf" or np.isnan(given).any():
        what = "NaN" if given.dtype.kind == "f" else f"{given.dtype} values"
        raise InputError(f"{name} must hold numbers, got {what}; infinity stops no row")
    return to_int32(toward(given.astype(np.float64)))


def band_rule(step: float, lower: NDArray[np.float64], upper: NDArray[np.float64], **pieces: Any) -> SumRule:
    """Return the rule on one sum of scores with these thresholds after each tree but the last, in units of `step`.

    Infinite thresholds stop no row. Where there are `pieces`, see `ExitRule`, they count instead of the thresholds.
    """
    below = to_int32(np.floor(np.pad(lower, 1, constant_values=-np.inf)))
    above = to_int32(np.ceil(np.pad(upper, 1, constant_values=np.inf)))
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=below[None], upper=above[None], **pieces)


def lead_rule(step: float, lead: NDArray[np.float64]) -> SumRule:
    """Return the rule on a score per class with these leads after each round but the last, in units of `step`."""
    return LeaderRule(kind="scores", step=step, lead=to_int32(np.ceil(np.pad(lead, 1, constant_values=np.inf))))


@dataclass(frozen=True, eq=False, kw_only=True)
class StepRule(StopRule):
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

    TAG: ClassVar[str] = "StepRule"
    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("readout", self.readout, READOUTS)

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`: it can stop any."""

    def node_weights(self, forest: Forest) -> NDArray[np.float64]:
        """Return how many times each node counts, shape (n_nodes,); empty if all count once."""
        return readout_weights(forest, self.readout)


def readout_weights(forest: Forest, readout: str) -> NDArray[np.float64]:
    """Return how many times each node counts in a read-out, shape (n_nodes,); empty if all count once."""
    if check_choice("readout", readout, READOUTS) == "plain":
        return np.empty(0)
    height = np.repeat(forest.tree_depth, np.diff(forest.tree_offset)) + 1
    return np.where(forest.is_leaf, 1.0, ((forest.node_depth + 1) / height) ** 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreMap:
    """How the full model's score is estimated for a row that stopped early.

    The partial score is that of the trees evaluated: their sum with the base score, or their mean. After ``i`` trees
    (rounds, with a LeaderRule) the estimate is ``slope[g, i] * partial + intercept[g, i]``. With two classes ``g`` is 0
    for rows that stopped with the first class and 1 for the second. With more, it is 1 for the score of the leading
    class and 0 for the others. What runs a plan holds estimates on the side of the label, so that no map can make a
    score contradict its label.

    Attributes
    ----------
    slope, intercept : float64 arrays of shape (2, n_positions)
        Slopes are not negative.
    """

    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.slope.ndim != 2 or len(self.slope) != 2 or self.slope.shape != self.intercept.shape:
            raise InputError("a score map needs slopes and intercepts of shape (2, n_positions)")
        if not (np.isfinite(self.slope).all() and np.isfinite(self.intercept).all() and (self.slope >= 0).all()):
            raise InputError("a score map needs finite intercepts, and finite slopes that are not negative")


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """An order of trees, or of steps in trees, a rule to stop, and the certificate of the pair.

    Attributes
    ----------
    order : int32 array of shape (n_trees,), or (n_steps,) with a StepRule
    stop : StopRule or None
        None evaluates every tree.
    certificate : Certificate or None
        What was promised, on which rows it was tested, and what came out.
    score_map : ScoreMap or None
        How rows that stop early get a score. None: what the trees not evaluated give on average is added.
    feature_costs : FeatureCosts or None
        What rows pay for features, where the plan was made with prices. It changes no answer.

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
    stop: StopRule | None = None
    certificate: Certificate | None = None
    score_map: ScoreMap | None = None
    feature_costs: FeatureCosts | None = None

    def __post_init__(self) -> None:
        check_instance("order", self.order, np.ndarray)
        if self.order.dtype.kind in "iu" and self.order.dtype != np.int32:
            # Numbers that int32 does not hold are no trees, and `check` says so.
            object.__setattr__(self, "order", np.clip(self.order, -1, 2**31 - 1).astype(np.int32))
        if self.stop is not None:
            check_instance("stop", self.stop, StopRule)
        if self.certificate is not None:
            from scurry.promises import Certificate

            check_instance("certificate", self.certificate, Certificate)
        if self.feature_costs is not None:
            check_instance("feature_costs", self.feature_costs, FeatureCosts)

    @classmethod
    def full(
        cls, forest: Forest, certificate: Certificate | None = None, feature_costs: FeatureCosts | None = None
    ) -> Self:
        """Return the plan that evaluates every tree of `forest`."""
        order = np.arange(forest.n_trees, dtype=np.int32)
        return cls(order=order, certificate=certificate, feature_costs=feature_costs)

    @property
    def by_step(self) -> bool:
        """Whether rows may stop after any step; `order` then names the tree of each step."""
        return self.stop is not None and self.stop.by_step

    @property
    def ranks_groups(self) -> bool:
        """Whether a row's answer depends on the other rows of its query, so that predictions need `groups`."""
        return self.stop is not None and self.stop.ranks_groups

    @property
    def exits_early(self) -> bool:
        """Whether rows may stop before every tree is evaluated, by a rule of the plan."""
        return self.stop is not None and not self.stop.by_step

    @property
    def in_plan_order(self) -> bool:
        """Whether every row evaluates trees in the plan's order; else the rule has several."""
        return self.stop is None or self.stop.in_plan_order

    @property
    def exit_rule(self) -> SumRule | None:
        """The rule by which rows exit early on sums of votes or scores, None if the plan has none."""
        return self.stop if isinstance(self.stop, SumRule) else None

    def node_weights(self, forest: Forest) -> NDArray[np.float64]:
        """Return how many times each node counts, shape (n_nodes,); empty if all count once."""
        return np.empty(0) if self.stop is None else self.stop.node_weights(forest)

    @property
    def method(self) -> str:
        """The name of the method that made the plan; "own rule" or "own order" if a caller made it."""
        if self.certificate is not None:
            return self.certificate.method
        return "own order" if self.by_step else "full" if self.stop is None else "own rule"

    def check(self, forest: Forest) -> None:
        """Raise an error unless this plan can run `forest`."""
        if self.order.dtype != np.int32:
            raise InputError(f"the plan's order must be int32, got {self.order.dtype}", argument="order")
        times = forest.tree_depth if self.by_step else np.ones(forest.n_trees, np.int32)
        if not np.array_equal(np.sort(self.order), np.repeat(np.arange(forest.n_trees), times)):
            often = "as often as it is deep" if self.by_step else "once"
            raise InputError(f"the plan's order must name each of the {forest.n_trees} trees {often}")
        if self.stop is not None:
            self.stop.check(forest)
        if self.feature_costs is not None and len(self.feature_costs.feature_costs) != forest.n_features:
            n_priced = len(self.feature_costs.feature_costs)
            raise InputError(f"the plan has prices of {n_priced} features, the forest has {forest.n_features}")
        if self.score_map is None:
            return
        if self.exit_rule is None:
            raise InputError(
                "a score map is for rows that exit early on sums of votes or scores, and the plan has no such rule"
            )
        if self.score_map.slope.shape[1] != self.exit_rule.n_positions:
            n_mapped = self.score_map.slope.shape[1]
            raise InputError(f"the score map has {n_mapped} positions, not {self.exit_rule.n_positions}")

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays from which `from_container` makes the same plan."""
        stop, arrays = (None, {}) if self.stop is None else self.stop.to_parts()
        facts = {} if self.certificate is None else self.certificate.to_json()
        header: dict[str, Any] = {"facts": facts, "stop": stop}
        if self.score_map is not None:
            header["score_map"] = True
            arrays = arrays | {"score_slope": self.score_map.slope, "score_intercept": self.score_map.intercept}
        if self.feature_costs is not None:
            header["step_cost"] = self.feature_costs.step_cost
            arrays = arrays | self.feature_costs.to_arrays()
        return header, {"plan_order": self.order} | arrays

    def to_packed_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the parts as files hold them: the certificate's quantiles of rows are an array, not text."""
        header, arrays = self.to_parts()
        if self.certificate is None or self.certificate.rows is None:
            return header, arrays
        facts = header["facts"]
        kept = {name: value for name, value in facts["rows"].items() if name != "quantiles"}
        return header | {"facts": facts | {"rows": kept}}, arrays | {"row_quantiles": self.certificate.rows.pack()}

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """Return the plan of a ``.scurry`` file."""
        with container.reading("plan"):
            header = container.field("plan", dict)
            facts, stop = header.get("facts"), header.get("stop")
            if not isinstance(facts, dict) or not isinstance(stop, dict | None):
                raise FormatError("it lacks facts or stop")
            if "row_quantiles" in container and isinstance(facts.get("rows"), dict):
                quantiles = container.packed_array("row_quantiles", ("<f4", "<f8"), 2)
                facts = facts | {"rows": facts["rows"] | {"quantiles": quantiles}}
            plan = cls(
                order=container.array("plan_order", np.int32),
                stop=None if stop is None else StopRule.from_container(container, stop),
                score_map=_score_map(container) if header.get("score_map") else None,
                feature_costs=FeatureCosts.from_container(container, header["step_cost"])
                if "step_cost" in header
                else None,
            )
        if facts:
            plan.__dict__["_facts"] = container.path, facts
            del plan.__dict__["certificate"]  # `_StoredCertificate` finds it
        return plan


class _StoredCertificate:
    """The certificate of a plan in a file, read when it is first asked for.

    Predictions need none, and to import promises takes a tenth of the time from an interpreter's start to an answer.
    """

    def __get__(self, plan: Plan | None, _: object = None) -> Certificate | None:
        """Return it; once it is there, Python finds it in the plan itself and does not ask here."""
        if plan is None:
            return None
        from scurry.promises import Certificate

        path, facts = plan.__dict__["_facts"]
        try:
            certificate = plan.__dict__["certificate"] = Certificate.from_json(facts)
        except FormatError as error:
            raise FormatError(f"{path} does not hold a sound certificate: {error}") from error
        return certificate


for _name in ("certificate",):  # after `dataclass` has read the field's default
    setattr(Plan, _name, _StoredCertificate())


def _score_map(container: Container) -> ScoreMap:
    slope, intercept = (container.array(f"score_{name}", np.float64) for name in ("slope", "intercept"))
    return ScoreMap(slope=slope, intercept=intercept)
