"""Lowered: a forest and its plan as the tables that an exported model consists of.

In the layouts "shared8" and "shared16" a node does not hold its threshold but a number of 8 bits: which of the
thresholds of its column it compares with. A column of more than 256 thresholds becomes several columns of the same
feature. Leaves that add the same numbers are one entry of a table, which nodes refer to. Where what a node adds for all
classes always has the same sum, as probabilities have, the number of the last class follows from the others. None of it
changes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.export.columns import CategorySets, Columns, NodeTests, lower_tests, split_columns
from scurry.export.stops import CellTables, SentinelTables
from scurry.export.values import Values, lower_plan
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.runners.cells import join_router

IntArray = NDArray[np.int64]
_MAX_NODES = {16: 2**16, 32: 2**31}  # by the width of a node index
_MAX_TREES = 2**16 - 1
_MAX_COLUMNS = 2**16
_MAX_IF_ELSE_DEPTH = 100  # C99 promises 127 levels of nested blocks


@dataclass(frozen=True, eq=False, kw_only=True)
class Compact:
    """The tables that a compact layout has instead of those of `Lowered`.

    Attributes
    ----------
    root : int64 array of shape (n_trees,)
    left, right : int64 arrays of shape (n_inner,)
        Children; a leaf is the entry of its values, behind the inner nodes.
    threshold_id : int64 array of shape (n_inner,)
        Which of its column's thresholds a node has.
    threshold : int16 array of shape (n_thresholds,)
        Rising within each column, columns one after another.
    first_threshold : int64 array of shape (n_columns,)
        Where the thresholds of each column begin.
    values : int64 array of shape (n_values, n_codes)
        What inner nodes add, where they are read, and then each distinct leaf.
    total : int or None
        What the numbers of all classes add up to, where that of the last class is left out of `values`.
    """

    root: IntArray
    left: IntArray
    right: IntArray
    threshold_id: IntArray
    threshold: NDArray[Any]
    first_threshold: IntArray
    values: IntArray
    total: int | None

    @classmethod
    def of(cls, lowered: Lowered) -> Compact:
        """Return the compact tables of a lowered model."""
        entry, leaves = merge_leaves(lowered)
        first, threshold, threshold_id = _share_thresholds(lowered)
        used = np.concatenate([np.arange(lowered.n_inner), leaves]) if lowered.is_anytime else leaves
        values = lowered.codes[used]
        total = find_total(lowered)
        return cls(
            root=entry[lowered.root],
            left=entry[lowered.left],
            right=entry[lowered.right],
            threshold_id=threshold_id,
            threshold=threshold,
            first_threshold=first,
            values=values if total is None else values[:, :-1],
            total=total,
        )


def merge_leaves(lowered: Lowered) -> tuple[IntArray, IntArray]:
    """Return the number that the C gives to each node, and one leaf for each number from `n_inner` on."""
    _, first, entry = np.unique(lowered.codes[lowered.n_inner :], axis=0, return_index=True, return_inverse=True)
    number = np.concatenate([np.arange(lowered.n_inner), lowered.n_inner + entry.ravel()])
    return number, lowered.n_inner + first


def find_total(lowered: Lowered) -> int | None:
    """Return what all numbers of a node add up to, if that is the same for every node that is read."""
    if lowered.values.kind != "vector":
        return None
    read = lowered.codes if lowered.is_anytime else lowered.codes[lowered.n_inner :]
    totals = read.sum(axis=1)
    return int(totals[0]) if (totals == totals[0]).all() else None


def _share_thresholds(lowered: Lowered) -> tuple[IntArray, NDArray[Any], IntArray]:
    """Return where each column's thresholds begin, all thresholds, and the number of each node's in its column."""
    key = lowered.column * 2**17 + lowered.threshold.astype(np.int64)
    distinct, place = np.unique(key, return_inverse=True)
    column = (distinct + 2**16) // 2**17  # thresholds are int16, and may be negative
    first = np.searchsorted(column, np.arange(len(lowered.columns.feature)))
    threshold = (distinct - column * 2**17).astype(np.int16)
    return first, threshold, place.ravel() - first[lowered.column]


@dataclass(frozen=True)
class Layout:
    """How thresholds and node values are stored.

    Attributes
    ----------
    name : str
    float_thresholds : bool
        Whether thresholds and rows are float32; else both are 16-bit integers.
    value_bits : {8, 16, 32}
        Width of each number that a node adds to the sums.
    value_in_node : bool
        Whether that number is part of the node. A node can then have only one.
    if_else : bool
        Whether trees are code, which records every node it reaches. For anytime plans only.
    is_compact : bool
        Whether nodes share thresholds and leaves share values; see `scurry.export.lowered`.
    """

    name: str
    float_thresholds: bool
    value_bits: int
    value_in_node: bool = False
    if_else: bool = False
    is_compact: bool = False


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("float32", True, 32),
        Layout("int16-uint16", False, 16),
        Layout("int16-uint8", False, 8),
        Layout("int16-node8", False, 8, value_in_node=True),
        Layout("breadcrumb", False, 16, if_else=True),
        Layout("shared16", False, 16, is_compact=True),
        Layout("shared8", False, 8, is_compact=True),
    )
}


class LevelTests(NamedTuple):
    """One test for each level of each tree.

    Attributes
    ----------
    offset : int64 array of shape (n_trees + 1,)
        The tests of tree t are ``offset[t]:offset[t + 1]``, from its root.
    column, threshold : arrays
    """

    offset: NDArray[np.int64]
    column: NDArray[np.int64]
    threshold: NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lowered:
    """All tables of an exported model.

    Inner nodes come first, breadth-first and tree after tree, then all leaves. So a leaf, which has no test, takes only
    the bytes of its value, and the number of a node tells whether it is a leaf.

    Attributes
    ----------
    layout : Layout
    n_features : int
    columns : Columns
    sets : CategorySets
    root : int64 array of shape (n_trees,), or (n_trees + 1,)
        The last is that of the router, where bounds of cells stop rows.
    left, right, column : int64 arrays of shape (n_inner,)
        See `scurry.export.columns.NodeTests` for the column.
    threshold : int16 or float32 array of shape (n_inner,)
    source, tree, level : int64 arrays of shape (n_nodes,)
        The forest's node that each node is, its tree and its depth.
    cover : float64 array of shape (n_nodes,)
        The training rows that reached each node, or their weight; NaN where that is not known.
    codes : int64 array of shape (n_nodes, n_codes)
        ``values.codes`` in this order of nodes.
    values : Values
    order : int64 array
        The tree of each step of an anytime model; else the trees in the order in which they are evaluated.
    output : int64 array of shape (n_trees,)
        The sum each tree adds to, where it adds to one.
    """

    layout: Layout
    n_features: int
    columns: Columns
    sets: CategorySets
    root: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    column: NDArray[np.int64]
    threshold: NDArray[Any]
    source: NDArray[np.int64]
    cover: NDArray[np.float64]
    tree: NDArray[np.int64]
    level: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: Values
    order: NDArray[np.int64]
    output: NDArray[np.int64]

    @property
    def n_trees(self) -> int:
        """Number of trees, without a router."""
        return len(self.root) - (self.n_cells > 0)

    @property
    def n_cells(self) -> int:
        """Number of cells: the last leaves are the router's. 0 without a router."""
        return self.values.stop.n_cells if isinstance(self.values.stop, CellTables) else 0

    @property
    def lanes(self) -> SentinelTables | None:
        """The sentinels, where a row adds up lanes."""
        return self.values.stop if isinstance(self.values.stop, SentinelTables) else None

    @cached_property
    def levels(self) -> LevelTests | None:
        """The tests of trees that ask one question per level, as CatBoost's do; None if there is another tree.

        Such a tree needs no nodes: the answers to its questions are the bits of the leaf's number. Anytime models,
        which stop within trees, and those with a router keep their nodes.
        """
        if self.layout.is_compact or self.is_anytime or self.n_cells or (self.left == self.right).any():
            return None
        n_inner = np.bincount(self.tree[: self.n_inner], minlength=self.n_trees)
        depth = np.log2(n_inner + 1).astype(np.int64)
        is_leaf = np.arange(self.n_nodes) >= self.n_inner
        # Complete trees only, whose leaves come in the order of their bits, as nodes are sorted breadth-first.
        if (2**depth - 1 != n_inner).any() or (is_leaf & (self.level != depth[self.tree])).any():
            return None
        first = np.concatenate([[0], np.cumsum(n_inner)])[:-1][self.tree[: self.n_inner]]
        head = first + 2 ** self.level[: self.n_inner] - 1  # the first node of the level
        if (self.column != self.column[head]).any() or (self.threshold != self.threshold[head]).any():
            return None
        heads = np.flatnonzero(head == np.arange(self.n_inner))
        return LevelTests(np.concatenate([[0], np.cumsum(depth)]), self.column[heads], self.threshold[heads])

    @property
    def first_leaf(self) -> NDArray[np.int64]:
        """The first leaf of each tree, counted from the first of all, shape (n_trees,)."""
        n_leaves = np.bincount(self.tree[self.n_inner :], minlength=self.n_trees)[: self.n_trees]
        return np.concatenate([[0], np.cumsum(n_leaves)])[:-1]

    @property
    def max_tests(self) -> int:
        """The most node tests that a row can take, the router's included."""
        depth = np.zeros(len(self.root), np.int64)
        np.maximum.at(depth, self.tree, self.level)
        return int(depth.sum())

    @property
    def expected_rest(self) -> NDArray[np.int64]:
        """What the trees not yet evaluated are expected to add to a single sum, after each number of trees.

        Each tree adds the mean of its leaves over the training rows, where they are known.
        """
        is_leaf = np.arange(self.n_nodes) >= self.n_inner
        cover = np.where(is_leaf, np.nan_to_num(self.cover), 0.0)
        covered = np.bincount(self.tree, cover, len(self.root))
        weight = np.where(covered[self.tree] > 0, cover, is_leaf)
        mean = np.bincount(self.tree, weight * self.codes[:, 0], len(self.root)) / np.bincount(
            self.tree, weight, len(self.root)
        )
        rest: NDArray[np.float64] = np.append(mean[self.order][::-1].cumsum()[::-1], 0.0)
        return np.asarray(np.rint(rest), np.int64)

    @property
    def n_nodes(self) -> int:
        """Number of nodes over all trees."""
        return len(self.level)

    @property
    def n_inner(self) -> int:
        """Number of nodes that are not leaves."""
        return len(self.left)

    @property
    def is_anytime(self) -> bool:
        """Whether a row can be answered after any step."""
        return self.values.is_anytime

    @property
    def takes_draw(self) -> bool:
        """Whether a random number chooses one of several policies for each row."""
        return self.values.stop is not None and self.values.stop.n_policies > 1

    @property
    def index_bits(self) -> int:
        """Width of a node index."""
        return 16 if self.n_nodes <= _MAX_NODES[16] else 32

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """Maximal stretches of steps in one tree: the tree, its level before, its level after."""
        cuts = np.flatnonzero(np.diff(self.order)) + 1
        level, runs = np.zeros(self.n_trees, np.int64), []
        for steps in np.split(self.order, cuts):
            if len(steps):
                tree, before = int(steps[0]), int(level[steps[0]])
                level[tree] += len(steps)
                runs.append((tree, before, before + len(steps)))
        return runs


def lower(pred: Predictor, layout: Layout, inputs: str = "float32") -> Lowered:
    """Return the tables of a predictor in a layout; raise if they do not fit it."""
    forest = pred.forest
    forest.refuse_front("be exported")
    if forest.wrapper is not None and forest.wrapper.decides:
        forest = forest.as_sum("be exported")
    if inputs == "int16" and layout.float_thresholds:
        raise InputError(f'layout {layout.name!r} compares floats; with inputs="int16" use "int16-uint16"')
    values = lower_plan(forest, pred.plan, layout.value_bits)
    _check_fit(forest, values, layout)
    if values.router is not None:
        forest = join_router(forest, values.router)
        n_more = forest.n_nodes - len(values.codes)
        values = replace(values, codes=np.pad(values.codes, [(0, n_more), (0, 0)]))
    nodes = _sort_breadth_first(forest)
    is_leaf = forest.is_leaf[nodes]
    inner = nodes[~is_leaf]
    source = np.concatenate([inner, nodes[is_leaf]])
    position = np.empty(forest.n_nodes, np.int64)
    position[source] = np.arange(forest.n_nodes)
    tests = lower_tests(forest, inner, quantised=not layout.float_thresholds, inputs=inputs)
    if layout.is_compact:
        tests = split_columns(tests)
        _check_compact(tests, values, layout)
    if len(tests.columns.feature) * 2 > _MAX_COLUMNS:
        raise InputError(
            f"the model reads {len(tests.columns.feature)} columns, at most {_MAX_COLUMNS // 2} can be exported"
        )
    right = position[forest.right[inner]]
    match values.stop:
        case SentinelTables() as stop:
            values = replace(values, stop=replace(stop, codes=stop.codes[source]))
        case CellTables() as stop:
            # Cells are numbered as the router's leaves are here, which are the last of all.
            cells = np.argsort(np.argsort(source[-stop.n_cells :]))
            fields = {name: getattr(stop, name)[cells] for name in ("order", "lower", "upper")}
            values = replace(values, stop=replace(stop, **fields))
        case _:
            pass
    return Lowered(
        layout=layout,
        n_features=forest.n_features,
        columns=tests.columns,
        sets=tests.sets,
        root=position[forest.tree_offset[:-1]],
        left=np.where(tests.never_left, right, position[forest.left[inner]]),
        right=right,
        column=tests.column,
        threshold=tests.threshold,
        source=source,
        cover=forest.cover[source],
        tree=np.searchsorted(forest.tree_offset, source, side="right") - 1,
        level=forest.node_depth[source].astype(np.int64),
        codes=values.codes[source],
        values=values,
        order=pred.plan.order.astype(np.int64),
        output=np.maximum(forest.tree_output, 0).astype(np.int64),
    )


def _check_fit(forest: Forest, values: Values, layout: Layout) -> None:
    index_bits = 32 if layout.float_thresholds else 16
    if forest.n_nodes > _MAX_NODES[index_bits]:
        raise InputError(
            f"the forest has {forest.n_nodes:,} nodes, and layout {layout.name!r} numbers at most "
            f"{_MAX_NODES[index_bits]:,} with {index_bits} bits; prune the forest"
            + ("" if index_bits == 32 else ' or use layout="float32"')
        )
    if forest.max_depth == 0:
        raise InputError("no tree of the forest has a split: every row gets the same answer, so nothing is exported")
    if forest.n_trees > _MAX_TREES:
        raise InputError(f"the forest has {forest.n_trees:,} trees, at most {_MAX_TREES:,} can be exported")
    if layout.value_in_node and values.codes.shape[1] > 1:
        raise InputError(
            f"layout {layout.name!r} keeps one number in a node: it needs two classes, votes, or trees that serve one "
            f'class each; this forest has {values.codes.shape[1]} numbers per node, use layout="int16-uint8"'
        )
    if int(values.codes.max()) >= 2 ** min(layout.value_bits, 31):
        raise InputError(
            f"a node of the forest has a number of {int(values.codes.max()):,}, which layout {layout.name!r} does not "
            "hold; use one with wider numbers"
        )
    if layout.is_compact and isinstance(values.stop, CellTables | SentinelTables):
        raise InputError(
            f"layout {layout.name!r} does not hold plans with sentinels or cells, whose leaves differ in more than "
            'values; use "int16-uint16" or "int16-uint8"'
        )
    if layout.if_else and not values.is_anytime:
        raise InputError('layout "breadcrumb" is for plans of scurry.anytime; use "int16-uint16" for this one')
    if layout.if_else and forest.max_depth > _MAX_IF_ELSE_DEPTH:
        raise InputError(
            f"the forest is {forest.max_depth} levels deep; if-else trees may be {_MAX_IF_ELSE_DEPTH} levels deep, "
            'because compilers limit how deep blocks are nested. Use layout="int16-uint16"'
        )


def _check_compact(tests: NodeTests, values: Values, layout: Layout) -> None:
    """Raise an error unless nodes and leaves have nothing but a threshold and what they add."""
    if len(tests.sets.start) > 1 or isinstance(values.stop, SentinelTables | CellTables):
        raise InputError(
            f"layout {layout.name!r} is for numeric splits and plans without sentinels and cells; use "
            f'"int16-uint{layout.value_bits}"'
        )


def _sort_breadth_first(forest: Forest) -> NDArray[np.int64]:
    """Return the forest's nodes tree by tree and level by level."""
    nodes = []
    for root in forest.tree_offset[:-1]:
        level = np.array([root], dtype=np.int64)
        while len(level):
            nodes.append(level)
            inner = level[forest.left[level] >= 0]
            level = np.column_stack([forest.left[inner], forest.right[inner]]).ravel().astype(np.int64)
    return np.concatenate(nodes)
