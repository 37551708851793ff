"""Stops: when a row of an exported model stops by itself, as tables of whole numbers.

Each kind of stop rule has a class here, which the C tests before each tree. `find_exits` is the same test in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.plan import ExitRule, ExitSide

DRAW_BITS = 16


@dataclass(frozen=True, eq=False)
class ExitTables:
    """An early exit with two classes.

    Attributes
    ----------
    rule : ExitRule
        Thresholds and pieces, in the units of exported sums.
    """

    rule: ExitRule

    @property
    def n_policies(self) -> int:
        """Number of policies that rows are divided among at random."""
        return len(self.rule.weights)

    @property
    def policy_bounds(self) -> NDArray[np.int64]:
        """Draws from bound p - 1 up to bound p choose policy p, larger ones the last; shape (n_policies - 1,)."""
        shares = np.cumsum(self.rule.weights / self.rule.weights.sum())
        bounds: NDArray[np.int64] = np.rint(shares[:-1] * 2**DRAW_BITS).astype(np.int64)
        return bounds

    def find_exits(
        self, running: NDArray[np.int64], full_codes: NDArray[np.int64], draws: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many trees each row evaluates, and its class.

        Parameters
        ----------
        running : int64 array of shape (n_trees + 1, n_rows, n_sums)
            Sums after 0, 1, … trees.
        full_codes : int64 array of shape (n_rows,)
            Classes by all trees.
        draws : int64 array of shape (n_rows,), optional
            Random numbers that choose among the policies.
        """
        given = np.zeros(len(full_codes), np.int64) if draws is None else draws
        policy = np.searchsorted(self.policy_bounds, given % 2**DRAW_BITS, side="right")
        trees, codes = np.full(len(full_codes), len(running) - 1), full_codes.copy()
        undecided = np.ones(len(full_codes), np.bool_)
        for i, sums in enumerate(running):
            side = self.rule.side_of(policy, i, sums[:, 0])
            exits = undecided & ((side == ExitSide.NEGATIVE) | (side == ExitSide.POSITIVE))
            trees[exits], codes[exits] = i, side[exits] == ExitSide.POSITIVE
            # A row sent to every tree is never tested again, although it has no answer yet.
            undecided &= side == ExitSide.CONTINUE
        return trees, codes


@dataclass(frozen=True, eq=False, kw_only=True)
class LeadTables:
    """Leads of a `LeaderRule`, in the units of exported sums.

    Attributes
    ----------
    trees_per_round : int
    lead : int64 array of shape (n_rounds + 1,)
    need : list of int64 arrays, or empty
        Where it is not empty it replaces `lead`: after round r, ``need[r][second]`` is the number of votes the leader
        needs.
    """

    trees_per_round: int
    lead: NDArray[np.int64]
    need: list[NDArray[np.int64]]

    n_policies: ClassVar[int] = 1

    def find_exits(
        self, running: NDArray[np.int64], full_codes: NDArray[np.int64], draws: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many trees each row evaluates, and its class; arguments as in `ExitTables`."""
        trees, codes = np.full(len(full_codes), len(running) - 1), full_codes.copy()
        undecided = np.ones(len(full_codes), np.bool_)
        for r in range(len(self.lead)):
            i = r * self.trees_per_round
            second, first = np.sort(running[i], axis=1)[:, -2:].T
            stops = first >= self.need[r][second] if self.need else first - second >= self.lead[r]
            exits = undecided & stops
            trees[exits], codes[exits] = i, running[i][exits].argmax(axis=1)
            undecided &= ~stops
        return trees, codes


@dataclass(frozen=True, eq=False, kw_only=True)
class SentinelTables:
    """Estimates at sentinels, in the units of exported sums.

    A row adds up the codes of its leaves' lanes. After ``trees[j]`` trees, with the sums ``s``, it stops if
    ``s[spread_lane] - (square[j] * d * d >> square_shift) <= limit[i]`` with ``d = s[lane[j]] - centre[j]``, where
    ``i`` is the interval of ``s[lane[j]]`` between the edges of sentinel ``j``. A row that stops answers with
    ``s[lane[j]] >= cut[j]``, or as a regressor with ``base[j] + slope[j] * s[lane[j]] / 2**slope_shift``.

    Attributes
    ----------
    trees, lane : int64 arrays of shape (n_sentinels,)
    codes : int64 array of shape (n_nodes, n_lanes)
        By the forest's node index, 0 or more; later by that of exported nodes.
    lane_ends : int64 array of shape (n_lanes,)
        The number of trees after which each lane is not read any more, rising.
    spread_lane : int
        -1 for none; then the limits alone decide.
    square, centre : int64 arrays of shape (n_sentinels,)
        All 0 where spreads have no square.
    edge_offset : int64 array of shape (n_sentinels + 1,)
    edge, limit : int64 arrays
        One limit more than edges at each sentinel.
    cut : int64 array of shape (n_sentinels,)
    base, slope : int64 arrays of shape (n_sentinels,)
        Of a regressor; else empty.
    square_shift, slope_shift : int
    """

    trees: NDArray[np.int64]
    lane: NDArray[np.int64]
    codes: NDArray[np.int64]
    lane_ends: NDArray[np.int64]
    spread_lane: int
    square: NDArray[np.int64]
    centre: NDArray[np.int64]
    edge_offset: NDArray[np.int64]
    edge: NDArray[np.int64]
    limit: NDArray[np.int64]
    cut: NDArray[np.int64]
    base: NDArray[np.int64]
    slope: NDArray[np.int64]
    square_shift: int = 0
    slope_shift: int = 0

    n_policies: ClassVar[int] = 1

    @property
    def n_lanes(self) -> int:
        """Number of lanes."""
        return int(self.codes.shape[1])

    def find_exits(
        self, lane_sums: NDArray[np.int64], full_answers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the sentinel at which each row stops (-1: none), how many trees it evaluates, and its answer.

        Parameters
        ----------
        lane_sums : int64 array of shape (n_trees + 1, n_rows, n_lanes)
            Sums of lanes after 0, 1, … trees.
        full_answers : int64 array of shape (n_rows,)
            Answers by all trees.
        """
        stopped, answers = np.full(len(full_answers), -1), full_answers.copy()
        trees = np.full(len(full_answers), len(lane_sums) - 1)
        for j, n_trees in enumerate(self.trees):
            sums = lane_sums[n_trees]
            of_lane = sums[:, self.lane[j]]
            spread = sums[:, self.spread_lane] if self.spread_lane >= 0 else np.zeros_like(of_lane)
            distance = of_lane - self.centre[j]
            spread = spread - (self.square[j] * (distance * distance) >> self.square_shift)
            first, last = self.edge_offset[j], self.edge_offset[j + 1]
            interval = np.searchsorted(self.edge[first:last], of_lane, side="right")
            exits = (stopped < 0) & (spread <= self.limit[first + j + interval])
            stopped[exits], trees[exits] = j, n_trees
            answers[exits] = self.answer(j, of_lane)[exits]
        return stopped, trees, answers

    def answer(self, j: int, of_lane: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class, or the value of a regressor, of rows that stop at sentinel `j` with these sums."""
        if not len(self.slope):
            return np.asarray(of_lane >= self.cut[j]).astype(np.int64)
        product = self.slope[j] * of_lane
        # As C divides: towards 0.
        return np.asarray(self.base[j] + np.sign(product) * (np.abs(product) >> self.slope_shift))


@dataclass(frozen=True, eq=False, kw_only=True)
class CellTables:
    """Bounds that hold in cells, in the units of exported sums. The cell of a row is a leaf of one more tree.

    Attributes
    ----------
    order : int64 array of shape (n_cells, n_trees)
        In which order a row of each cell evaluates the trees.
    lower, upper : int64 arrays of shape (n_cells, n_trees + 1)
        After each number of trees, a row stops as negative at or below `lower`, as positive at or above `upper`.
    """

    order: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    n_policies: ClassVar[int] = 1

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.order)

    def find_exits(
        self, running: NDArray[np.int64], full_codes: NDArray[np.int64], cells: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many trees each row evaluates, and its class; `running` has the order of each row's cell."""
        trees, codes = np.full(len(full_codes), len(running) - 1), full_codes.copy()
        undecided = np.ones(len(full_codes), np.bool_)
        for i, sums in enumerate(running):
            below, above = sums[:, 0] <= self.lower[cells, i], sums[:, 0] >= self.upper[cells, i]
            exits = undecided & (below | above)
            trees[exits], codes[exits] = i, ~below[exits]
            undecided &= ~exits
        return trees, codes


StopTables: TypeAlias = ExitTables | LeadTables | SentinelTables | CellTables
