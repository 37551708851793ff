"""What step orders are tested against: states evaluated from scratch, orders enumerated, nothing incremental."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from scurry import Forest

Levels = tuple[int, ...]


def node_path(forest: Forest, X: np.ndarray, tree: int) -> np.ndarray:
    """The node of each row after 0, 1, … steps in one tree, shape (depth + 1, n_rows)."""
    node = np.full(len(X), forest.tree_offset[tree])
    path = [node]
    rows = np.asarray(X, forest.input_dtype)
    for _ in range(int(forest.tree_depth[tree])):
        x = rows[np.arange(len(X)), np.maximum(forest.feature[node], 0)].astype(np.float64)
        child = np.where(x <= forest.threshold[node], forest.left[node], forest.right[node])
        node = np.where(forest.left[node] >= 0, child, node)
        path.append(node)
    return np.array(path)


def node_values(forest: Forest, readout: str = "plain") -> np.ndarray:
    """What each node adds, as Python sees it: fractions or one-hot votes, weighted by depth where wanted."""
    values = forest.value.copy()
    for node in range(forest.n_nodes):
        if forest.aggregation == "vote":
            values[node] = np.arange(values.shape[1]) == int(np.argmax(forest.value[node]))
    if readout == "weighted":
        for tree, depth in enumerate(forest.tree_depth):
            for node in range(forest.tree_offset[tree], forest.tree_offset[tree + 1]):
                if forest.left[node] >= 0:
                    values[node] *= ((forest.node_depth[node] + 1) / (depth + 1)) ** 2
    return values


class Oracle:
    """A forest of class fractions or votes, and labelled rows, state by state in fixed point."""

    def __init__(self, forest: Forest, X: np.ndarray, y: np.ndarray, readout: str = "plain") -> None:
        exponent = 29 - math.ceil(math.log2(forest.n_trees))
        fixed = np.floor(node_values(forest, readout) * 2.0**exponent + 0.5).astype(np.int64)
        self.y = np.asarray(y)
        self.depths: Levels = tuple(int(depth) for depth in forest.tree_depth)
        self.sums = [fixed[node_path(forest, X, tree)] for tree in range(forest.n_trees)]
        self.memory: dict[Levels, int] = {}

    def correct(self, levels: Levels) -> int:
        if levels not in self.memory:
            total = sum(sums[level] for sums, level in zip(self.sums, levels, strict=True))
            self.memory[levels] = int((total.argmax(axis=1) == self.y).sum())
        return self.memory[levels]

    def curve(self, steps) -> list[int]:
        return [self.correct(levels) for levels in states(steps, len(self.depths))]

    def all_orders(self) -> Iterator[Levels]:
        trees = [tree for tree, depth in enumerate(self.depths) for _ in range(depth)]
        return iter(sorted(set(itertools.permutations(trees))))

    def greedy(self, down: bool) -> list[int]:
        levels = [0] * len(self.depths) if down else list(self.depths)
        order = []
        while any(level < depth for level, depth in zip(levels, self.depths, strict=True)) if down else any(levels):
            best, best_correct = -1, -1
            for tree, depth in enumerate(self.depths):
                if levels[tree] == (depth if down else 0):
                    continue
                after = list(levels)
                after[tree] += 1 if down else -1
                if self.correct(tuple(after)) > best_correct:
                    best, best_correct = tree, self.correct(tuple(after))
            levels[best] += 1 if down else -1
            order.append(best)
        return order if down else order[::-1]

    def losses(self) -> np.ndarray:
        """Rows wrong in every state, shape (depth + 1 of each tree)."""
        shape = [depth + 1 for depth in self.depths]
        total = np.zeros((*[1] * len(shape), *self.sums[0].shape[1:]), np.int64)
        for tree, sums in enumerate(self.sums):
            axes = [len(sums) if k == tree else 1 for k in range(len(shape))]
            total = total + sums.reshape(*axes, *sums.shape[1:])
        return (total.argmax(axis=-1) != self.y).sum(axis=-1)


def states(steps, n_trees: int) -> list[Levels]:
    levels = [0] * n_trees
    result = [tuple(levels)]
    for tree in steps:
        levels[tree] += 1
        result.append(tuple(levels))
    return result


def least_sum(losses: np.ndarray) -> float:
    """The least sum of losses on a way from the first state to the last, both included, layer by layer of states."""
    strides = [math.prod(losses.shape[k + 1 :]) for k in range(losses.ndim)]
    levels = np.array(np.unravel_index(np.arange(losses.size), losses.shape))
    flat, layer = losses.ravel(), levels.sum(axis=0)
    best = np.full(losses.size, np.inf)
    best[0] = flat[0]
    for n_steps in range(1, int(layer.max()) + 1):
        at = np.flatnonzero(layer == n_steps)
        for k, stride in enumerate(strides):
            can = at[levels[k, at] > 0]
            best[can] = np.minimum(best[can], best[can - stride])
        best[at] += flat[at]
    return float(best[-1])
