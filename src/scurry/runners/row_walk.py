"""One row's way through a forest, node by node, and what an early exit makes of the nodes it ends at.

The native core walks rows whose values are all known. Here a value is asked for when a node needs it, so a row moves in
Python, one step at a time, by the same comparisons (`Forest.goes_left`) and the same integer sums (`plan`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import ExitRule, LeaderRule

NOT_ASKED = -1


class RowWalk:
    """Where a row stands in every tree.

    Parameters
    ----------
    forest : Forest
    ask : callable
        ``ask(feature)`` is the row's value as the forest compares it, or None if it cannot be had.

    Attributes
    ----------
    nodes : int32 array of shape (n_trees,)
        `NOT_ASKED` in trees that have not been begun.
    n_steps : int
        Node tests made.
    """

    def __init__(self, forest: Forest, ask: Callable[[int], float | None]) -> None:
        self.forest, self.ask = forest, ask
        self.nodes = np.full(forest.n_trees, NOT_ASKED, np.int32)
        self.n_steps = 0

    def begin(self, tree: int) -> None:
        """Stand at a tree's root, if nowhere in it yet."""
        if self.nodes[tree] == NOT_ASKED:
            self.nodes[tree] = self.forest.tree_offset[tree]

    def needs(self, tree: int) -> int | None:
        """The feature that the next step in a tree reads, None at a leaf."""
        node = self.nodes[tree]
        return None if self.forest.left[node] < 0 else int(self.forest.feature[node])

    def step(self, tree: int) -> bool:
        """Go one step down a tree; False at a leaf, and where a value cannot be had."""
        self.begin(tree)
        feature = self.needs(tree)
        if feature is None or (value := self.ask(feature)) is None:
            return False
        node = int(self.nodes[tree])
        self.nodes[tree] = (self.forest.left if self.forest.goes_left(node, value) else self.forest.right)[node]
        self.n_steps += 1
        return True

    def descend(self, tree: int) -> None:
        """Go down a tree as far as values can be had."""
        self.begin(tree)
        while self.step(tree):
            pass


class ExitTally:
    """What an `ExitRule` knows of a row.

    Attributes
    ----------
    decided : int or None
        The class with which the row stops.
    """

    def __init__(self, forest: Forest, rule: ExitRule, increments: NDArray[np.int32], policy: int) -> None:
        self.rule, self.increments, self.policy = rule, increments, policy
        self.threshold = rule.threshold(forest)
        self.total = self.n_trees = 0
        self.asks_all = False
        self.decided: int | None = None
        self._test()

    @property
    def leading(self) -> int:
        """The class of the vote, or of the summed scores."""
        return int(self.total >= self.threshold)

    def add(self, tree: int, node: int) -> None:
        """Count a tree that ended at a node."""
        self.total += int(self.increments[node])
        self.n_trees += 1
        self._test()

    def _test(self) -> None:
        if self.asks_all:
            return
        rule, at = self.rule, self.n_trees
        if len(rule.piece_offset):
            first, last = int(rule.piece_offset[at]), int(rule.piece_offset[at + 1])
            interval = int(np.searchsorted(rule.piece_edges[first:last], self.total, side="right"))
            side = int(rule.piece_sides[first + at + interval])
            self.asks_all = side == 3
            self.decided = {1: 0, 2: 1}.get(side)
        elif self.total <= rule.lower[self.policy, at]:
            self.decided = 0
        elif self.total >= rule.upper[self.policy, at]:
            self.decided = 1


class LeaderTally:
    """What a `LeaderRule` knows of a row.

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
        """Count a tree that ended at a node."""
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
