"""Lowered: a forest and its plan as the tables an exported model consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.export.columns import Columns, lower_tests
from scurry.export.layouts import Layout
from scurry.export.values import ExitTables, LeadTables, Values, exit_values, leader_values, step_values
from scurry.forest import Forest
from scurry.plan import ExitRule, LeaderRule, StepRule, trees_per_round
from scurry.predictor import Predictor

_MOST_NODES = {16: 2**16, 32: 2**31}
_MOST_TREES = 2**16 - 1
_MOST_COLUMNS = 2**16
_DEEPEST_IF_ELSE = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class Lowered:
    """Everything that is written. Inner nodes come first, breadth-first and tree after tree, then all leaves.

    A leaf, which has no test, so takes no more than its value, and a node is known to be one by its number.

    Attributes
    ----------
    layout : Layout
    n_features : int
    columns : Columns
    root : int64 array of shape (n_trees,)
    left, right, column : int64 arrays of shape (n_inner,)
    threshold : int16 or float32 array of shape (n_inner,)
    tree, level : int64 arrays of shape (n_nodes,)
    codes : int64 array of shape (n_nodes, n_codes)
        ``values.codes`` in this order of nodes.
    values : Values
    order : int64 array
        The tree of each step, or the trees in the order they are asked.
    output : int64 array of shape (n_trees,)
        The sum each tree adds to, where it adds to one.
    stop : ExitTables, LeadTables or None
    is_anytime : bool
        Whether `order` is one of steps.
    """

    layout: Layout
    n_features: int
    columns: Columns
    root: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    column: NDArray[np.int64]
    threshold: NDArray[Any]
    tree: NDArray[np.int64]
    level: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: Values
    order: NDArray[np.int64]
    output: NDArray[np.int64]
    stop: ExitTables | LeadTables | None
    is_anytime: bool

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    @property
    def n_nodes(self) -> int:
        """Number of nodes over all trees."""
        return len(self.level)

    @property
    def n_inner(self) -> int:
        """Number of nodes that are no leaves."""
        return len(self.left)

    @property
    def index_bits(self) -> int:
        """The width of a node index."""
        return 16 if self.n_nodes <= _MOST_NODES[16] else 32

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


def lower(pred: Predictor | Forest, layout: Layout) -> Lowered:
    """The tables of a predictor, or of a forest that runs all its trees, in a layout; raises if they do not fit it."""
    forest = pred.forest if isinstance(pred, Predictor) else pred
    rule = pred.plan.stop if isinstance(pred, Predictor) else None
    order = pred.plan.order if isinstance(pred, Predictor) else np.arange(forest.n_trees)
    values, stop = _values(forest, rule, layout)
    _check_fit(forest, values, layout, is_anytime=isinstance(rule, StepRule))
    nodes = breadth_first(forest)
    is_leaf = forest.is_leaf[nodes]
    inner = nodes[~is_leaf]
    source = np.concatenate([inner, nodes[is_leaf]])
    position = np.empty(forest.n_nodes, np.int64)
    position[source] = np.arange(forest.n_nodes)
    columns, column, threshold = lower_tests(forest, inner, quantised=not layout.float_thresholds)
    if len(columns.feature) > _MOST_COLUMNS:
        raise InputError(f"the model reads {len(columns.feature)} columns, at most {_MOST_COLUMNS} can be exported")
    return Lowered(
        layout=layout,
        n_features=forest.n_features,
        columns=columns,
        root=position[forest.tree_offset[:-1]],
        left=position[forest.left[inner]],
        right=position[forest.right[inner]],
        column=column,
        threshold=threshold,
        tree=np.searchsorted(forest.tree_offset, source, side="right") - 1,
        level=forest.node_depth[source].astype(np.int64),
        codes=values.codes[source],
        values=values,
        order=order.astype(np.int64),
        output=np.maximum(forest.tree_output, 0).astype(np.int64),
        stop=stop,
        is_anytime=isinstance(rule, StepRule),
    )


def breadth_first(forest: Forest) -> NDArray[np.int64]:
    """The forest's nodes tree by tree and level by level."""
    nodes = []
    for root in forest.tree_offset[:-1]:
        level = np.array([root], dtype=np.int64)
        while len(level):
            nodes.append(level)
            inner = level[forest.left[level] >= 0]
            level = np.column_stack([forest.left[inner], forest.right[inner]]).ravel().astype(np.int64)
    return np.concatenate(nodes)


def _values(
    forest: Forest, rule: ExitRule | LeaderRule | StepRule | None, layout: Layout
) -> tuple[Values, ExitTables | LeadTables | None]:
    match rule:
        case ExitRule():
            return exit_values(forest, rule, layout.value_bits)
        case LeaderRule():
            return leader_values(forest, rule, trees_per_round(forest), layout.value_bits)
    return step_values(forest, rule, layout.value_bits), None


def _check_fit(forest: Forest, values: Values, layout: Layout, *, is_anytime: bool) -> None:
    index_bits = 32 if layout.float_thresholds else 16
    if forest.n_nodes > _MOST_NODES[index_bits]:
        raise InputError(
            f"the forest has {forest.n_nodes:,} nodes, and layout {layout.name!r} numbers at most "
            f"{_MOST_NODES[index_bits]:,} with {index_bits} bits; prune the forest"
            + ("" if index_bits == 32 else ' or use layout="float32"')
        )
    if forest.max_depth == 0:
        raise InputError(
            "no tree of the forest has a split: it has one answer for all rows, and there is nothing to export"
        )
    if forest.n_trees > _MOST_TREES:
        raise InputError(f"the forest has {forest.n_trees:,} trees, at most {_MOST_TREES:,} can be exported")
    if layout.value_in_node and values.codes.shape[1] > 1:
        raise InputError(
            f"layout {layout.name!r} keeps one number in a node: it needs two classes, votes, or trees that serve one "
            f'class each; this forest has {values.codes.shape[1]} numbers a node, use layout="int16-uint8"'
        )
    if int(values.codes.max()) >= 2 ** min(layout.value_bits, 31):
        raise InputError(f"the forest has {forest.n_classes:,} classes, too many for layout {layout.name!r}")
    if layout.if_else and not is_anytime:
        raise InputError('layout "breadcrumb" is for plans of scurry.anytime; use "int16-uint16" for this one')
    if layout.if_else and forest.max_depth > _DEEPEST_IF_ELSE:
        raise InputError(
            f"the forest is {forest.max_depth} levels deep; if-else trees may be {_DEEPEST_IF_ELSE} levels deep, as "
            'compilers limit how far blocks are nested. Use layout="int16-uint16"'
        )
