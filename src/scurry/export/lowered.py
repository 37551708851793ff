"""Lowered: a forest and its plan as the tables that an exported model consists of.

In the layouts "shared8" and "shared16" a node does not hold its threshold but a number of 8 bits: which of the
thresholds of its column it compares with. A column of more than 256 thresholds becomes several columns of the same
feature. Leaves that add the same numbers are one entry of a table, which nodes refer to. Where what a node adds for all
classes always has the same sum, as probabilities have, the number of the last class follows from the others. None of it
changes an answer.

Values are what nodes add to the sums of a row, as integers. An exported model only adds whole numbers and compares
them. Two classes need a single sum, half the difference of the two; more classes have a sum each. A value ``v`` is
stored as the code ``(v - offset) / unit``, rounded. Thresholds and starting sums are converted to these units, so that
the exported model never converts codes back to values. The unit of a regressor is a power of two: its sum is the value
itself, as a fixed-point number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError, UnsupportedModelError
from scurry.export.comparisons import (
    CategorySets,
    CellTables,
    Columns,
    ExitTables,
    LeadTables,
    NodeTests,
    SentinelTables,
    StopTables,
    lower_tests,
    split_columns,
)
from scurry.forest import Forest, leaf_scores, score_threshold
from scurry.plan import (
    NEVER_ABOVE,
    NEVER_BELOW,
    CellRule,
    ExitRule,
    LeaderRule,
    Plan,
    SentinelRule,
    StepRule,
)
from scurry.plan.whole_rows import decision_score
from scurry.predictor import Predictor
from scurry.runners.cells import CellPlans, join_router

_LARGEST_SUM = 2**31 - 1
_FIXED_POINT_BITS = 29  # two less than a sum has: room for what rounding adds
_BYTES_PER_NODE, _BYTES_PER_CELL_AND_TREE = 6, 9  # about what tables of trees, and of cells, take


@dataclass(frozen=True, eq=False, kw_only=True)
class Values:
    """What each node adds to a row's sums, and how the sums are read.

    Attributes
    ----------
    kind : {"margin", "vector", "own", "vote", "value"}
        One sum for two classes; a number for every class; a number for the one class a tree serves; the class that
        gets one vote; or the value of a regressor.
    codes : int64 array of shape (n_nodes, n_codes)
        By the forest's node index.
    start : int64 array of shape (n_sums,)
    limit : int
        The smallest sum that means the second of two classes ("margin").
    offset, unit : float
        A code ``c`` stands for ``offset + unit * c``.
    is_anytime : bool
        Whether inner nodes have values too, because a row may be answered after any step.
    stop : StopTables or None
        When a row stops by itself.
    router : CellRule or None
        The tree that finds the cell of a row, where bounds of cells stop it.
    """

    kind: str
    codes: NDArray[np.int64]
    start: NDArray[np.int64]
    limit: int = 0
    offset: float = 0.0
    unit: float = 1.0
    is_anytime: bool = False
    stop: StopTables | None = None
    router: CellRule | None = None

    @property
    def fraction_bits(self) -> int:
        """A regressor's sum is its value times two to this power."""
        return -int(np.log2(self.unit))

    @property
    def n_sums(self) -> int:
        """Number of sums of a row."""
        return len(self.start)

    def labels(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class of each row by its sums of shape (n_rows, n_sums); the lowest class wins a tie.

        The answer of a regressor is its sum.
        """
        if self.kind == "value":
            return sums[:, 0]
        if self.kind == "margin":
            return (sums[:, 0] >= self.limit).astype(np.int64)
        return np.asarray(sums.argmax(axis=1), dtype=np.int64)

    def decode(self, forest: Forest, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels, or a regressor's predictions, that answers of the exported model stand for."""
        if forest.classes is not None:
            return forest.classes[answers]
        scores: NDArray[np.float64] = answers[:, None] * np.float64(self.unit)
        return forest.link_scores(scores)[:, 0]


def lower_plan(forest: Forest, plan: Plan, bits: int) -> Values:
    """Return what the nodes of `forest` add under `plan`, in codes of `bits` bits.

    This is the only place of the export that knows the classes of stop rules.
    """
    match plan.stop:
        case ExitRule() as rule:
            values = _lower_exits(forest, rule, bits)
        case LeaderRule() as rule:
            values = _lower_leads(forest, rule, bits)
        case SentinelRule() as rule:
            values = _lower_scores(forest, np.empty(0), bits, is_anytime=False)
            if len(rule.sentinels):
                stop = _lower_sentinels(forest, plan.order, rule, bits, values.fraction_bits)
                values = replace(values, stop=stop)
        case CellRule() as rule:
            values = _lower_cells(forest, rule, bits)
        case StepRule() | None:
            values = _lower_scores(forest, plan.node_weights(forest), bits, is_anytime=plan.by_step)
        case other:
            raise UnsupportedModelError(
                f"plans with a {other.TAG} are not exported as C, because a row's answer depends on other rows; export "
                "all trees with scurry.Predictor.full(forest), and rank by the values"
            )
    # The code of a vote is a class, not an amount: each tree adds 1.
    largest = np.maximum.reduceat(np.abs(values.codes).max(axis=1), forest.tree_offset[:-1]).sum()
    if values.kind != "vote" and max(int(largest) + int(np.abs(values.start).max()), abs(values.limit)) > _LARGEST_SUM:
        raise InputError(
            f"sums of {forest.n_trees} trees do not fit 32 bits in this layout; choose one with smaller values"
        )
    return values


def _lower_scores(forest: Forest, weights: NDArray[np.float64], bits: int, *, is_anytime: bool) -> Values:
    """Return the values of a forest all of whose trees count; each node counts `weights` times, once if it is empty."""
    if forest.n_classes == 1:
        raise UnsupportedModelError("a model of a single class is not exported as C: its answer is always the same")
    is_weighted, base = len(weights) > 0, forest.base_score
    if is_weighted and base.any():
        raise UnsupportedModelError(f'readout="weighted" with base scores ({base}) is not exported; use "plain"')
    if forest.aggregation == "vote" and forest.n_classes > 2 and not is_weighted:
        return replace(_count_votes(forest), is_anytime=is_anytime)
    used = np.ones(forest.n_nodes, np.bool_) if is_anytime else forest.is_leaf
    weight = weights[:, None] if is_weighted else 1.0
    if forest.classes is None:
        return replace(_lower_values(forest, weight, used, bits), is_anytime=is_anytime)
    serves_one_class = bool(forest.tree_output[0] >= 0)
    if forest.n_classes == 2 and (forest.n_outputs == 1 or not serves_one_class):
        margins, threshold = leaf_scores(forest)[:, None] * weight, score_threshold(forest)
        # Weights scale the sum of a row that has not reached its leaves, so only the sign of it keeps its meaning.
        if is_weighted and threshold != 0:
            raise UnsupportedModelError(
                'readout="weighted" needs a decision threshold of 0 to be exported; use "plain"'
            )
        is_paired = forest.n_outputs == 2
        codes, offset, unit = _quantise(forest, margins, used, bits, symmetric=is_paired, extra=abs(threshold))
        # A tie of two probabilities is the first class, a score that equals the threshold is the second.
        limit = _smallest_above((threshold - forest.n_trees * offset) / unit, strict=is_paired)
        start, kind = np.zeros(1, np.int64), "margin"
    else:
        numbers = forest.leaf_values() * weight
        codes, offset, unit = _quantise(forest, numbers, used, bits, extra=float(np.abs(base).max()))
        if not serves_one_class:
            codes[used] = _balance((numbers[used] - offset) / unit, codes[used])
        n_counted = np.bincount(forest.tree_output, minlength=len(base)) if serves_one_class else forest.n_trees
        start = np.rint((base + n_counted * offset) / unit).astype(np.int64)
        start -= start.min()  # only differences decide, and small numbers make small tables
        limit, kind = 0, "own" if serves_one_class else "vector"
    return Values(kind=kind, codes=codes, start=start, limit=limit, offset=offset, unit=unit, is_anytime=is_anytime)


def _lower_values(forest: Forest, weight: NDArray[np.float64] | float, used: NDArray[np.bool_], bits: int) -> Values:
    """Return the values of a regressor. Sums are fixed-point numbers, so the unit is a power of two."""
    if forest.n_outputs > 1:
        raise UnsupportedModelError(f"a regressor with {forest.n_outputs} outputs is not exported as C; export each")
    values = forest.value * weight / forest.score_divisor
    low, high = float(values[used].min()), float(values[used].max())
    base = float(forest.base_score[0]) / forest.score_divisor
    largest = forest.n_trees * max(-low, high) + abs(base)
    exponent = _FIXED_POINT_BITS - int(np.ceil(np.log2(largest or 1.0)))
    if bits < 32 and high > low:
        exponent = min(exponent, int(np.floor(np.log2((2**bits - 2) / (high - low)))))
    codes = np.rint(np.ldexp(values, exponent)).astype(np.int64)
    offset = int(codes[used].min()) if bits < 32 else 0
    return Values(
        kind="value",
        codes=np.where(used[:, None], codes - offset, 0),
        start=np.array([int(np.rint(np.ldexp(base, exponent))) + forest.n_trees * offset]),
        offset=float(np.ldexp(offset, -exponent)),
        unit=2.0**-exponent,
    )


def _lower_exits(forest: Forest, rule: ExitRule, bits: int) -> Values:
    """Return the values and thresholds of an early exit with two classes."""
    if rule.shuffles_rows:
        raise InputError('a plan that shuffles the trees for every row is not exported; make it with shuffle="fixed"')
    increments = rule.increments(forest).astype(np.float64)[:, None]
    codes, offset, unit = _quantise(forest, increments, forest.is_leaf, bits, integral=True)
    strict = rule.kind == "scores" and forest.n_outputs == 2
    limit = _smallest_above((rule.threshold(forest) - forest.n_trees * offset) / unit, strict=strict)

    def convert(sums: NDArray[np.int32], n_trees: NDArray[np.int64], rounding: np.ufunc) -> NDArray[np.int32]:
        # A sum of codes lacks one offset per tree.
        codes = np.clip(rounding((sums - n_trees * offset) / unit), NEVER_BELOW, NEVER_ABOVE)
        return np.where(np.isin(sums, (NEVER_BELOW, NEVER_ABOVE)), sums, codes).astype(np.int32)

    # Thresholds are rounded away from each other: where codes are coarser than the rule's units, a row continues
    # rather than stop at a sum the rule would not stop it at.
    n_trees = np.arange(forest.n_trees + 1)
    offsets = rule.piece_offset.astype(np.int64)
    n_edges = offsets[1:] - offsets[:-1]
    stop = ExitTables(
        replace(
            rule,
            lower=convert(rule.lower, n_trees, np.floor),
            upper=convert(rule.upper, n_trees, np.ceil),
            piece_edges=convert(rule.piece_edges, np.repeat(n_trees[: len(n_edges)], n_edges), np.ceil),
        )
    )
    start = np.zeros(1, np.int64)
    return Values(kind="margin", codes=codes, start=start, limit=limit, offset=offset, unit=unit, stop=stop)


def _lower_leads(forest: Forest, rule: LeaderRule, bits: int) -> Values:
    """Return the values and leads of an early exit with a score per class."""
    if rule.kind == "votes":
        values = _count_votes(forest)
    else:
        increments = rule.increments(forest).astype(np.float64)
        codes, offset, unit = _quantise(forest, increments, forest.is_leaf, bits, integral=True)
        start = rule.start(forest)
        values = Values(
            kind="own" if forest.tree_output[0] >= 0 else "vector",
            codes=codes,
            start=np.rint((start - start.min()) / unit).astype(np.int64),
            offset=offset,
            unit=unit,
        )
    lead = np.clip(np.ceil(rule.lead / values.unit), NEVER_BELOW, NEVER_ABOVE)
    stop = LeadTables(
        trees_per_round=forest.trees_per_round,
        lead=np.where(rule.lead == NEVER_ABOVE, NEVER_ABOVE, lead).astype(np.int64),
        # The second class never has more than half of the r votes.
        need=[row[: r // 2 + 1].astype(np.int64) for r, row in enumerate(rule.need)],
    )
    return replace(values, stop=stop)


def _lower_cells(forest: Forest, rule: CellRule, bits: int) -> Values:
    """Return the values of an early exit by cell, with bounds of their own: labels are those of all exported trees.

    Whatever the router is, bounds hold. It is cut so that the tables of cells take no more than those of trees.
    """
    codes, offset, unit = _quantise(
        forest, rule.increments(forest).astype(np.float64)[:, None], forest.is_leaf, bits, integral=True
    )
    threshold = (rule.sum_threshold(forest) - forest.n_trees * offset) / unit
    limit = _smallest_above(threshold, strict=forest.n_outputs == 2)
    n_cells = forest.n_nodes * _BYTES_PER_NODE // (forest.n_trees * _BYTES_PER_CELL_AND_TREE)
    router = rule.with_cells(max(1, min(n_cells, rule.n_cells)))
    joined, cells = join_router(forest, router), np.cumsum(router.left < 0) - 1
    increments = np.concatenate([codes[:, 0], np.where(router.left < 0, cells, 0)]).astype(np.int32)
    least, most = _core.bound_cells(joined.arrays, increments=increments)
    plans = CellPlans.of(least, most, limit - 1, 0)
    stop = CellTables(
        order=plans.order.astype(np.int64), lower=plans.lower.astype(np.int64), upper=plans.upper.astype(np.int64)
    )
    start = np.zeros(1, np.int64)
    return Values(
        kind="margin", codes=codes, start=start, limit=limit, offset=offset, unit=unit, stop=stop, router=router
    )


def _lower_sentinels(
    forest: Forest, order: NDArray[np.int32], rule: SentinelRule, bits: int, fraction_bits: int
) -> SentinelTables:
    """Return the lanes and tests of a plan with sentinels; a regressor's values have so many binary places."""
    if (rule.scale < 0).any():
        raise UnsupportedModelError("a plan whose estimates fall with their sums is not exported as C")
    has_squares = bool(rule.square.any())
    bits = min(bits, 16) if has_squares else bits  # squares of sums must fit 64 bits
    place = np.argsort(order)[np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offset))]
    trees = rule.sentinels.astype(np.int64)
    # Lanes by the last sentinel that reads them, so that a tree adds to the last ones. Others are left out.
    ends = np.zeros(rule.lanes.shape[1], np.int64)
    np.maximum.at(ends, rule.lane, trees)
    if rule.spread_lane >= 0:
        ends[rule.spread_lane] = trees[-1]
    kept = np.argsort(ends, kind="stable")[(ends == 0).sum() :]
    index = np.full(len(ends) + 1, -1)
    index[kept] = np.arange(len(kept))
    lanes, ends, lane, spread_lane = rule.lanes[:, kept], ends[kept], index[rule.lane], int(index[rule.spread_lane])
    n_lanes = len(kept)
    codes = np.zeros((forest.n_nodes, n_lanes), np.int64)
    low, unit = np.zeros(n_lanes, np.int64), np.ones(n_lanes, np.int64)
    for k in range(n_lanes):
        read = forest.is_leaf & (place < ends[k])
        values = lanes[read, k].astype(np.int64)
        if bits < 32 and len(values):
            low[k], span = values.min(), int(values.max() - values.min())
            unit[k] = max(1, -(-span // (2**bits - 1)))
        codes[read, k] = np.rint((values - low[k]) / unit[k])

    of_lane, of_low = unit[lane].astype(np.float64), (trees * low[lane]).astype(np.float64)
    offsets = rule.edge_offset.astype(np.int64)
    n_edges = offsets[1:] - offsets[:-1]
    at = np.repeat(np.arange(len(trees)), n_edges)
    edges = (rule.edges - of_low[at]) / of_lane[at]
    # Rounded so that a row continues where codes are too coarse to tell.
    interval = np.arange(len(edges)) + at
    opens = rule.limits[interval + 1] > rule.limits[interval]
    spread_unit, spread_low = (1, 0) if spread_lane < 0 else (unit[spread_lane], low[spread_lane])
    of_interval = np.repeat(np.arange(len(trees)), n_edges + 1)
    with np.errstate(invalid="ignore"):
        limits = np.floor((rule.limits - trees[of_interval] * float(spread_low)) / float(spread_unit))

    centre = np.rint(-of_low / of_lane).astype(np.int64)
    widest = np.maximum(np.abs(centre), np.abs(trees * (2**bits - 1) - centre)).astype(np.float64)
    squares, square_shift = _to_fixed_point(rule.square * of_lane**2 / float(spread_unit), widest**2)
    slopes = np.ldexp(rule.scale * of_lane, fraction_bits) if forest.classes is None else np.empty(0)
    largest_sum = trees * np.float64(np.abs(codes).max(initial=0) + 1)
    slope, slope_shift = _to_fixed_point(slopes, largest_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = (decision_score(forest) - rule.offset) / rule.scale if forest.n_classes == 2 else np.zeros(len(trees))
    base = np.ldexp(rule.offset + rule.scale * of_low, fraction_bits)
    return SentinelTables(
        trees=trees,
        lane=lane,
        codes=codes,
        lane_ends=ends,
        spread_lane=spread_lane,
        square=squares,
        centre=centre if has_squares else np.zeros_like(centre),
        edge_offset=rule.edge_offset.astype(np.int64),
        edge=np.where(opens, np.ceil(edges), np.floor(edges)).clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int64),
        limit=limits.clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int64),
        cut=np.ceil((sums - of_low) / of_lane).clip(NEVER_BELOW, NEVER_ABOVE).astype(np.int64),
        base=np.rint(base).astype(np.int64) if forest.classes is None else np.empty(0, np.int64),
        slope=slope,
        square_shift=square_shift,
        slope_shift=slope_shift,
    )


def _to_fixed_point(factors: NDArray[np.float64], largest: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """Return factors as 31-bit integers and the shift that they need; products with `largest` fit 62 bits."""
    if not len(factors) or not factors.any():
        return np.zeros(len(factors), np.int64), 0
    room = min(62 - float(np.log2(np.abs(factors) * largest + 1e-300).max()), 30 - float(np.log2(factors.max())))
    shift = int(np.clip(np.floor(room), 0, 62))
    return np.rint(np.ldexp(factors, shift)).astype(np.int64), shift


def _count_votes(forest: Forest) -> Values:
    codes = forest.value.argmax(axis=1)[:, None].astype(np.int64)
    return Values(kind="vote", codes=codes, start=np.zeros(forest.n_classes, np.int64))


def _quantise(
    forest: Forest,
    values: NDArray[np.float64],
    used: NDArray[np.bool_],
    bits: int,
    *,
    symmetric: bool = False,
    integral: bool = False,
    extra: float = 0.0,
) -> tuple[NDArray[np.int64], float, float]:
    """Return codes of `bits` bits for the values of `used` nodes, with their offset and unit.

    `symmetric` codes represent 0 exactly, `integral` values are left as they are where they fit, and `extra` is what
    sums must hold in addition to the values.
    """
    low, high = float(values[used].min()), float(values[used].max())
    largest = max(-low, high)
    if bits == 32:
        # Fixed point: a power of two keeps values that are short binary fractions exact.
        bound = forest.n_trees * largest + extra
        exponent = 0 if integral else _FIXED_POINT_BITS - int(np.ceil(np.log2(bound or 1.0)))
        offset, unit = 0.0, 2.0**-exponent
    elif integral and high - low <= 2**bits - 1:
        offset, unit = low, 1.0
    elif symmetric:
        # An odd number of codes, so that one of them is the middle.
        offset, unit = -largest, 2 * largest / (2**bits - 2)
    else:
        offset, unit = low, (high - low) / (2**bits - 1)
    unit = unit or 1.0  # all values are equal, and all codes 0
    codes = np.rint((values - offset) / unit).astype(np.int64)
    return np.where(used[:, None], codes, 0), offset, unit


def _balance(exact: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return codes whose sum over classes is the same in every row, if that of the exact numbers is.

    Parameters
    ----------
    exact : float64 array of shape (n_nodes, n_classes)
        Codes before rounding.
    codes : int64 array of shape (n_nodes, n_classes)
        The same rounded one by one, which is returned where the sums differ.
    """
    sums = exact.sum(axis=1)
    if exact.shape[1] < 3 or np.ptp(sums) > 1e-6 * max(abs(float(sums[0])), 1.0):
        return codes
    whole = np.floor(exact + 1e-9)
    # The classes that were rounded down most are rounded up instead, as many as are needed.
    rank = np.argsort(np.argsort(whole - exact, axis=1, kind="stable"), axis=1)
    up = rank < (np.rint(sums) - whole.sum(axis=1))[:, None]
    return np.asarray(whole + up, np.int64)


def _smallest_above(threshold: float, *, strict: bool) -> int:
    """Return the smallest whole number at (or, if strict, above) a threshold that may have been rounded."""
    nearest = np.rint(threshold)
    exact = nearest if abs(threshold - nearest) < 1e-6 else threshold
    return int(np.floor(exact)) + 1 if strict else int(np.ceil(exact))


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
        See `scurry.export.comparisons.NodeTests` for the column.
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
    def has_sets(self) -> bool:
        """Whether some nodes look for a category in a set."""
        return bool((self.column >= len(self.columns.feature)).any())

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
