"""Tallies: the running sums of one row in an early exit, and whether they stop it.

The native core keeps them for rows whose values are all known. Here they grow while features are bought, by the same
integers and the same tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import ExitRule, ExitSide, LeaderRule, Plan


class ExitTally:
    """The state of an `ExitRule` with one policy for one row.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

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


class LeaderTally:
    """The state of a `LeaderRule` for one row.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

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


Tally = ExitTally | LeaderTally


def start_tally(forest: Forest, plan: Plan, increments: NDArray[np.int32] | None) -> Tally | None:
    """Return the state of a row before its first tree; None if the plan has no early exit."""
    match plan.stop:
        case ExitRule() as rule if increments is not None:
            return ExitTally(forest, rule, increments)
        case LeaderRule() as rule if increments is not None:
            return LeaderTally(forest, rule, increments)
    return None
