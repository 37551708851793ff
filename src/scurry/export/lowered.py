"""Lowered: a forest and its plan as the tables that an exported model consists of.

A node test is always ``x[column] > threshold``. Everything else a source model knows about a feature is put into the
columns: where missing values go (a feature that sends them left at one node and right at another has two columns), and,
in the quantised layouts, the scale.

A quantised column is ``floor(x * 2**shift) - offset``, clamped. This is monotone, and shifts of a float's bits compute
it exactly. It changes a test only for values less than ``2**-shift`` above a threshold.

=================  ================================  ==========================
what               quantised                         float32
=================  ================================  ==========================
missing, left      -32768                            -FLT_MAX
finite values      -32768 … 32766                    as they are
thresholds         -32767 … 32765                    rounded down
… beyond float32   32766: only infinity is above     the float below FLT_MAX
missing, right     32767                             FLT_MAX
infinity           32767                             as it is
=================  ================================  ==========================
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, UnsupportedModelError
from scurry.export.values import Values, lower_plan
from scurry.forest import Forest
from scurry.forest.structure import MISSING_NONE, MISSING_ZERO
from scurry.predictor import Predictor

_MAX_NODES = {16: 2**16, 32: 2**31}  # by the width of a node index
_MAX_TREES = 2**16 - 1
_MAX_COLUMNS = 2**16
_MAX_SHARED, _MAX_COMPACT_COLUMNS = 2**8, 2**8  # thresholds of a column, and columns, that 8 bits number
_MAX_IF_ELSE_DEPTH = 100  # C99 promises 127 levels of nested blocks

_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_SPAN = _HIGHEST - _LOWEST - 3  # thresholds keep clear of the codes of missing values and infinity
_SHIFTS = (-126, 120)
_LARGEST_THRESHOLD = 2.0**29  # so that code and offset can be subtracted in 32 bits
_SATURATED = 2**30
_LARGEST_FLOAT = np.finfo(np.float32).max
_ALMOST_LARGEST = np.nextafter(_LARGEST_FLOAT, np.float32(0))
_MISSING_LEFT, _MISSING_RIGHT, _MISSING_IS_0 = range(3)


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
        Whether nodes share thresholds and leaves share values; see `scurry.export.compact`.
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
    root : int64 array of shape (n_trees,)
    left, right, column : int64 arrays of shape (n_inner,)
    threshold : int16 or float32 array of shape (n_inner,)
    source, tree, level : int64 arrays of shape (n_nodes,)
        The forest's node that each node is, its tree and its depth.
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
    root: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    column: NDArray[np.int64]
    threshold: NDArray[Any]
    source: NDArray[np.int64]
    tree: NDArray[np.int64]
    level: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: Values
    order: NDArray[np.int64]
    output: NDArray[np.int64]

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


def lower(pred: Predictor, layout: Layout) -> Lowered:
    """Return the tables of a predictor in a layout; raise if they do not fit it."""
    forest = pred.forest
    forest.refuse_front("be exported")
    forest.refuse_wrapper("be exported")
    values = lower_plan(forest, pred.plan, layout.value_bits)
    _check_fit(forest, values, layout)
    nodes = _sort_breadth_first(forest)
    is_leaf = forest.is_leaf[nodes]
    inner = nodes[~is_leaf]
    source = np.concatenate([inner, nodes[is_leaf]])
    position = np.empty(forest.n_nodes, np.int64)
    position[source] = np.arange(forest.n_nodes)
    columns, column, threshold = lower_tests(forest, inner, quantised=not layout.float_thresholds)
    if layout.is_compact:
        columns, column = split_columns(columns, column, threshold)
    if len(columns.feature) > _MAX_COLUMNS:
        raise InputError(f"the model reads {len(columns.feature)} columns, at most {_MAX_COLUMNS} can be exported")
    return Lowered(
        layout=layout,
        n_features=forest.n_features,
        columns=columns,
        root=position[forest.tree_offset[:-1]],
        left=position[forest.left[inner]],
        right=position[forest.right[inner]],
        column=column,
        threshold=threshold,
        source=source,
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
        raise InputError(f"the forest has {forest.n_classes:,} classes, too many for layout {layout.name!r}")
    if layout.if_else and not values.is_anytime:
        raise InputError('layout "breadcrumb" is for plans of scurry.anytime; use "int16-uint16" for this one')
    if layout.if_else and forest.max_depth > _MAX_IF_ELSE_DEPTH:
        raise InputError(
            f"the forest is {forest.max_depth} levels deep; if-else trees may be {_MAX_IF_ELSE_DEPTH} levels deep, "
            'because compilers limit how deep blocks are nested. Use layout="int16-uint16"'
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns:
    """How a row becomes the numbers that nodes compare.

    Attributes
    ----------
    feature : int64 array of shape (n_columns,)
        The feature each column reads.
    missing : float64 array of shape (n_columns,)
        What NaN becomes.
    shift, offset : int64 arrays of shape (n_columns,), or None
        Scales of the quantised layouts.
    """

    feature: NDArray[np.int64]
    missing: NDArray[np.float64]
    shift: NDArray[np.int64] | None = None
    offset: NDArray[np.int64] | None = None

    @property
    def is_quantised(self) -> bool:
        """Whether rows become 16-bit integers."""
        return self.shift is not None

    def encode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows of shape (n_rows, n_features) as int16 or float32 columns of shape (n_rows, n_columns)."""
        with np.errstate(over="ignore"):
            x = np.asarray(rows[:, self.feature], dtype=np.float32)
        if self.shift is None or self.offset is None:
            return np.where(np.isnan(x), self.missing, x).astype(np.float32)
        codes = np.clip(_scale_down(np.nan_to_num(x), self.shift) - self.offset, _LOWEST, _HIGHEST - 1)
        codes = np.where(np.isposinf(x), _HIGHEST, np.where(np.isneginf(x), _LOWEST, codes))
        return np.where(np.isnan(x), self.missing, codes).astype(np.int16)

    def move_to_grid(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows moved down to the next values that no quantisation rounds: all their tests are the source's."""
        if self.shift is None:
            return rows
        moved = rows.copy()
        for feature in np.unique(self.feature):
            shift = self.shift[self.feature == feature].min()  # the coarser grid, where two columns read the feature
            with np.errstate(under="ignore"):
                moved[:, feature] = np.ldexp(np.floor(np.ldexp(rows[:, feature].astype(np.float64), shift)), -shift)
        return moved

    def encode_thresholds(self, values: NDArray[np.float32], column: NDArray[np.int64]) -> NDArray[Any]:
        """Return float32 thresholds in the numbers of their columns."""
        # A missing value that goes right must be above every threshold, even one beyond the range of float32.
        if self.shift is None or self.offset is None:
            return np.minimum(values, _ALMOST_LARGEST)
        codes = _scale_down(values, self.shift[column]) - self.offset[column]
        return np.where(values >= _ALMOST_LARGEST, _HIGHEST - 1, codes).astype(np.int16)


def lower_tests(
    forest: Forest, nodes: NDArray[np.int64], *, quantised: bool
) -> tuple[Columns, NDArray[np.int64], NDArray[Any]]:
    """Return the columns a forest reads, and the column and threshold of each of its inner `nodes`."""
    if (forest.category_set[nodes] >= 0).any():
        raise UnsupportedModelError(
            "the model tests sets of categories, which the C export does not support; train it on numbers (one-hot or "
            "ordinal)"
        )
    if (forest.missing[nodes] == MISSING_ZERO).any():
        raise UnsupportedModelError(
            "the model takes zero as missing (zero_as_missing), which the C export does not support"
        )
    treatment = np.where(forest.default_left[nodes], _MISSING_LEFT, _MISSING_RIGHT)
    treatment = np.where(forest.missing[nodes] == MISSING_NONE, _MISSING_IS_0, treatment)
    keys, column = np.unique(forest.feature[nodes] * np.int64(3) + treatment, return_inverse=True)
    feature, treatment = keys // 3, keys % 3
    thresholds = _round_down(forest, nodes)
    if not quantised:
        missing = np.choose(treatment, [-_LARGEST_FLOAT, _LARGEST_FLOAT, 0.0])
        columns = Columns(feature=feature, missing=missing)
    else:
        scales = [_find_scale(thresholds[column == c]) for c in range(len(keys))]
        shift, offset = np.array(scales, dtype=np.int64).reshape(-1, 2).T
        missing = np.choose(treatment, [_LOWEST, _HIGHEST, np.clip(-offset, _LOWEST, _HIGHEST - 1)])
        columns = Columns(feature=feature, missing=missing.astype(np.float64), shift=shift, offset=offset)
    return columns, column, columns.encode_thresholds(thresholds, column)


def split_columns(
    columns: Columns, column: NDArray[np.int64], threshold: NDArray[Any]
) -> tuple[Columns, NDArray[np.int64]]:
    """Return columns with at most 256 distinct thresholds each, and the column of each node among them."""
    source: list[int] = []
    moved = np.zeros(len(column), np.int64)
    for one in range(len(columns.feature)):
        own = np.flatnonzero(column == one)
        rank = np.unique(threshold[own], return_inverse=True)[1] if len(own) else np.zeros(0, np.int64)
        moved[own] = len(source) + rank.ravel() // _MAX_SHARED
        source += [one] * (int(rank.max(initial=0)) // _MAX_SHARED + 1)
    if len(source) > _MAX_COMPACT_COLUMNS:
        raise InputError(
            f"the model needs {len(source)} columns of 256 thresholds, and a compact layout has at most "
            f"{_MAX_COMPACT_COLUMNS}; use another layout, or fewer thresholds: "
            "scurry.compression.share_thresholds(forest, 4096)"
        )
    arrays = {one.name: getattr(columns, one.name) for one in fields(columns)}
    chosen = {name: array[source] for name, array in arrays.items() if isinstance(array, np.ndarray)}
    return replace(columns, **chosen), moved


def _round_down(forest: Forest, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the largest float32 number that goes left at each node.

    The nearest float32 may lie above the threshold. Rows between the two would then change sides.
    """
    exact = forest.threshold[nodes]
    if not (exact >= -_LARGEST_FLOAT).all():
        raise UnsupportedModelError("a threshold is NaN or below the range of float32, which the C export cannot test")
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    too_large = rounded >= exact if forest.comparison == "<" else rounded > exact
    return np.where(too_large, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float32)


def _find_scale(thresholds: NDArray[np.float32]) -> tuple[int, int]:
    """Return the finest shift by which a column's thresholds fit 16 bits, and the offset that puts them there."""
    finite = thresholds[thresholds < _ALMOST_LARGEST].astype(np.float64)
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    largest = max(-low, high)
    # Thresholds that fit without offset and rounding stay as they are: those of whole numbers are short constants,
    # which a processor can compare without loading them.
    if 0 < largest < _HIGHEST:
        shift = min(int(np.floor(np.log2((_HIGHEST - 2) / largest))), _SHIFTS[1])
        if np.equal(np.ldexp(finite, shift) % 1, 0).all():
            return shift, 0
    shift = _SHIFTS[1]
    while shift > _SHIFTS[0]:
        bottom, top = np.floor(np.ldexp([low, high], shift))
        if top - bottom <= _SPAN and max(-bottom, top) <= _LARGEST_THRESHOLD:
            break
        shift -= 1
    return shift, int(np.floor(np.ldexp(low, shift))) - (_LOWEST + 1)


def _scale_down(x: NDArray[np.float32], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``floor(x * 2**shift)``, saturated as the C code does."""
    scaled = np.floor(np.ldexp(x.astype(np.float64), shift))
    return np.clip(scaled, -_SATURATED, _SATURATED).astype(np.int64)
