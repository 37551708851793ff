"""Comparisons: what an exported model compares, columns of a row at its nodes and sums where rows stop.

A node test is ``x[column] > threshold``, or whether ``x[column]`` is in a set of categories. Everything else a source
model knows about a feature is put into the columns: where missing values go (a feature that sends them left at one node
and right at another has two columns), whether zero is missing, and, in the quantised layouts, the scale.

A quantised column is ``floor(x * 2**shift) - offset``, clamped. This is monotone, and shifts of a float's bits compute
it exactly. It changes a test only for values less than ``2**-shift`` above a threshold. Rows of 16-bit integers are
columns as they are: a whole number is above a threshold exactly if it is above the next whole number below that.

=================  ================================  ==========================
what               quantised                         float32
=================  ================================  ==========================
missing, left      -32768                            -FLT_MAX
finite values      -32768 … 32766                    as they are
thresholds         -32767 … 32765                    rounded down
… beyond float32   32766: only infinity is above     the float below FLT_MAX
missing, right     32767                             FLT_MAX
infinity           32767                             as it is
categories         0 … 32766; in no set: -1, 32767   0 … 2**24; in no set: -1
… missing, left    -2: in every set                  -2: in every set
=================  ================================  ==========================

Where a row stops by itself, sums are compared with tables of whole numbers. Each kind of stop rule has a class here,
which the C tests before each tree. `find_exits` is the same test in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import MISSING_NONE, MISSING_ZERO, ZERO, Forest
from scurry.plan import ExitRule, ExitSide

INPUTS = ("float32", "int16")
NO_CATEGORY, EVERY_CATEGORY = -1, -2
_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_SPAN = _HIGHEST - _LOWEST - 3  # thresholds keep clear of the codes of missing values and infinity
_SHIFTS = (-126, 120)
_LARGEST_THRESHOLD = 2.0**29  # so that code and offset can be subtracted in 32 bits
_SATURATED = 2**30
_LARGEST_FLOAT = np.finfo(np.float32).max
_ALMOST_LARGEST = np.nextafter(_LARGEST_FLOAT, np.float32(0))
_END_OF_CATEGORIES = 2**24  # float32 has no whole numbers without gaps beyond
_LEFT, _RIGHT, _AS_0 = range(3)  # what missing values do
_MAX_SHARED = 2**8  # thresholds of a column, and columns, that 8 bits number


class CategorySets(NamedTuple):
    """Sets of categories as bits, equal ones once.

    Attributes
    ----------
    start : int64 array of shape (n_sets + 1,)
        The words of set ``s`` are ``words[start[s]:start[s + 1]]``.
    words : uint32 array
    """

    start: NDArray[np.int64]
    words: NDArray[np.uint32]

    def contain(self, category: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each category is in the set of this index."""
        word = self.start[index] + np.maximum(category, 0) // 32
        is_known = (category >= 0) & (word < self.start[index + 1])
        bits = np.append(self.words, 0).astype(np.int64)[np.where(is_known, word, len(self.words))]
        return np.asarray((bits >> (category % 32) & 1 == 1) | (category == EVERY_CATEGORY))


class NodeTests(NamedTuple):
    """How the inner nodes of a forest compare.

    Attributes
    ----------
    columns : Columns
    column : int64 array of shape (n_inner,)
        The column each node reads; plus the number of columns, where it looks for a category in a set.
    threshold : int16 or float32 array of shape (n_inner,)
        Or the index of the set.
    sets : CategorySets
    never_left : bool array of shape (n_inner,)
        Nodes that no row of integers passes to the left.
    """

    columns: Columns
    column: NDArray[np.int64]
    threshold: NDArray[Any]
    sets: CategorySets
    never_left: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns:
    """How a row becomes the numbers that nodes compare.

    Attributes
    ----------
    feature : int64 array of shape (n_columns,)
        The feature each column reads.
    missing : float64 array of shape (n_columns,)
        What NaN becomes.
    zero_is_missing, is_category : bool arrays of shape (n_columns,)
    truncates : bool
        Whether -0.5 is category 0, because fractions are cut off; else it is none.
    shift, offset : int64 arrays of shape (n_columns,), or None
        Scales of the quantised layouts.
    is_integer : bool
        Whether rows are 16-bit integers, of which every feature is a column.
    """

    feature: NDArray[np.int64]
    missing: NDArray[np.float64]
    zero_is_missing: NDArray[np.bool_]
    is_category: NDArray[np.bool_]
    truncates: bool = False
    shift: NDArray[np.int64] | None = None
    offset: NDArray[np.int64] | None = None
    is_integer: bool = False

    @property
    def raw_type(self) -> str:
        """C type of a feature in a row: floats of quantised layouts are given by their bits."""
        return "int16_t" if self.is_integer else "uint32_t" if self.is_quantised else "float"

    @property
    def input_type(self) -> str:
        """C type of a column."""
        return "int16_t" if self.is_integer or self.is_quantised else "float"

    def to_raw(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows as the exported model takes them."""
        if self.is_integer:
            return rows.astype(np.int16)
        return rows.astype(np.float32).view(np.uint32) if self.is_quantised else rows.astype(np.float32)

    @property
    def is_quantised(self) -> bool:
        """Whether rows become 16-bit integers."""
        return self.shift is not None

    def encode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows of shape (n_rows, n_features) as int16 or float32 columns of shape (n_rows, n_columns)."""
        if self.is_integer:
            return rows[:, self.feature].astype(np.int16)
        with np.errstate(over="ignore"):
            x = np.asarray(rows[:, self.feature], dtype=np.float32)
        x = np.where(self.zero_is_missing & (np.abs(x) <= ZERO), np.float32(np.nan), x)
        if self.is_category.any():
            of_category = self._categories(x[:, self.is_category])
        if self.shift is None or self.offset is None:
            encoded = np.where(np.isnan(x), self.missing, x).astype(np.float32)
            if self.is_category.any():
                encoded[:, self.is_category] = of_category
            return encoded
        codes = np.clip(_scale_down(np.nan_to_num(x), self.shift) - self.offset, _LOWEST, _HIGHEST - 1)
        codes = np.where(np.isposinf(x), _HIGHEST, np.where(np.isneginf(x), _LOWEST, codes))
        codes = np.where(np.isnan(x), self.missing, codes).astype(np.int16)
        if self.is_category.any():
            codes[:, self.is_category] = np.minimum(of_category, _HIGHEST)
        return codes

    def _categories(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the categories of the values of category columns, negative where they are in no set or in every."""
        whole = np.trunc(x) if self.truncates else np.floor(x)
        with np.errstate(invalid="ignore"):
            known = np.isfinite(x) & (whole >= 0) & (whole < _END_OF_CATEGORIES)
        codes = np.where(known, np.abs(whole), NO_CATEGORY)  # of -0.0 too
        return np.where(np.isnan(x), self.missing[self.is_category], codes).astype(np.float64)

    def move_to_grid(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows moved down to the next values that no quantisation rounds: all their tests are the source's."""
        if self.shift is None:
            return rows
        moved = rows.copy()
        for feature in np.unique(self.feature[~self.is_category]):
            shift = self.shift[
                (self.feature == feature) & ~self.is_category
            ].min()  # the coarser grid, where two columns read the feature
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


def lower_tests(forest: Forest, nodes: NDArray[np.int64], *, quantised: bool, inputs: str = "float32") -> NodeTests:
    """Return the columns a forest reads, and how each of its inner `nodes` compares them."""
    categorical = forest.category_set[nodes] >= 0
    sets, index = _collect_sets(forest, nodes[categorical], 2**15 if quantised else _END_OF_CATEGORIES)
    if inputs == "int16":
        return _compare_integers(forest, nodes, sets, index)
    kind = forest.missing[nodes]
    treatment = np.where(forest.default_left[nodes], _LEFT, _RIGHT)
    treatment = np.where((kind == MISSING_NONE) & ~categorical, _AS_0, treatment)
    is_zero_missing = (kind == MISSING_ZERO) & ~categorical
    key = ((forest.feature[nodes] * np.int64(2) + categorical) * 2 + is_zero_missing) * 3 + treatment
    keys, column = np.unique(key, return_inverse=True)
    treatment, is_category = keys % 3, keys // 6 % 2 == 1
    shared = {
        "feature": keys // 12,
        "zero_is_missing": keys // 3 % 2 == 1,
        "is_category": is_category,
        "truncates": forest.category_rounding == "trunc",
    }
    of_category = np.where(treatment == _LEFT, EVERY_CATEGORY, NO_CATEGORY)
    thresholds = _round_down(forest, nodes)
    if not quantised:
        missing = np.choose(treatment, [-_LARGEST_FLOAT, _LARGEST_FLOAT, 0.0])
        columns = Columns(missing=np.where(is_category, of_category, missing), **shared)
    else:
        scales = [(0, 0) if is_category[c] else _find_scale(thresholds[column == c]) for c in range(len(keys))]
        shift, offset = np.array(scales, dtype=np.int64).reshape(-1, 2).T
        missing = np.choose(treatment, [_LOWEST, _HIGHEST, np.clip(-offset, _LOWEST, _HIGHEST - 1)])
        missing = np.where(is_category, of_category, missing).astype(np.float64)
        columns = Columns(missing=missing, shift=shift, offset=offset, **shared)
    threshold = columns.encode_thresholds(thresholds, column)
    threshold[categorical] = index
    column = column + np.where(categorical, len(keys), 0)
    return NodeTests(columns, column, threshold, sets, np.zeros(len(nodes), np.bool_))


def split_columns(tests: NodeTests) -> NodeTests:
    """Return tests whose columns have at most 256 distinct thresholds each, so that 8 bits tell them apart."""
    columns, n_columns = tests.columns, len(tests.columns.feature)
    source: list[int] = []
    moved = tests.column.copy()
    for one in range(n_columns):
        own = np.flatnonzero(tests.column == one)
        rank = np.unique(tests.threshold[own], return_inverse=True)[1].ravel()
        moved[own] = len(source) + rank // _MAX_SHARED
        source += [one] * (int(rank.max(initial=0)) // _MAX_SHARED + 1)
    if len(source) > _MAX_SHARED or (columns.is_integer and len(source) > n_columns):
        limit = "more than a compact layout has"
        if columns.is_integer:
            limit = f'and with inputs="int16" a compact layout has one for each of the {n_columns} features'
        raise InputError(
            f"the model needs {len(source)} columns of {_MAX_SHARED} thresholds, {limit}; {_advise(columns)}"
        )
    of_set = tests.column >= n_columns
    moved[of_set] += len(source) - n_columns
    arrays = {one.name: getattr(columns, one.name) for one in fields(columns)}
    chosen: dict[str, Any] = {name: array[source] for name, array in arrays.items() if isinstance(array, np.ndarray)}
    return tests._replace(columns=replace(columns, **chosen), column=moved)


def _advise(columns: Columns) -> str:
    """Return what to do about a model with too many thresholds for a compact layout."""
    n_columns = len(columns.feature)
    if n_columns > _MAX_SHARED:
        return "use another layout: the features alone need more columns than that, whatever their thresholds are"
    # No column has more thresholds than all features together. A feature may have several columns, which treat missing
    # values in different ways, and each column that is split takes the place of one more.
    n_spare = 0 if columns.is_integer else _MAX_SHARED - n_columns
    n_alike = int(np.bincount(columns.feature).max(initial=1))
    n_splits = max(_MAX_SHARED, n_spare * _MAX_SHARED // n_alike)
    other = ', inputs="float32"' if columns.is_integer else ""
    return f"use another layout{other}, or fewer thresholds: scurry.compression.share_thresholds(forest, {n_splits})"


def check_integers(rows: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the rows; raise unless every value is a 16-bit integer."""
    with np.errstate(invalid="ignore"):
        wrong = ~((rows == np.rint(rows)) & (rows >= _LOWEST) & (rows <= _HIGHEST))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise InputError(
            f'{name} must hold whole numbers from -32768 to 32767 for inputs="int16", but row {row} has '
            f"{rows[row, column]:g} in column {column}; leave inputs out, or train the model on scaled integers",
            argument=name,
        )
    return rows


def _compare_integers(
    forest: Forest, nodes: NDArray[np.int64], sets: CategorySets, index: NDArray[np.int64]
) -> NodeTests:
    """Return tests of integers, which have no missing values. Every one is exactly the source's."""
    categorical, exact = forest.category_set[nodes] >= 0, forest.threshold[nodes]
    at_zero = exact > 0 if forest.comparison == "<" else exact >= 0
    if ((forest.missing[nodes] == MISSING_ZERO) & ~categorical & (at_zero != forest.default_left[nodes])).any():
        raise UnsupportedModelError(
            'the model takes zero as missing (zero_as_missing), which inputs="int16" does not support; leave inputs out'
        )
    if np.isnan(exact).any():
        raise UnsupportedModelError("a threshold is NaN, which the C export cannot test")
    # The largest integer that goes left.
    whole = np.ceil(exact) - 1 if forest.comparison == "<" else np.floor(exact)
    never_left = ~categorical & (whole < _LOWEST)
    threshold = np.clip(whole, _LOWEST, _HIGHEST).astype(np.int16)
    threshold[categorical] = index
    n = forest.n_features
    columns = Columns(
        feature=np.arange(n),
        missing=np.zeros(n),
        zero_is_missing=np.zeros(n, np.bool_),
        is_category=np.zeros(n, np.bool_),
        is_integer=True,
    )
    column = forest.feature[nodes].astype(np.int64) + np.where(categorical, n, 0)
    return NodeTests(columns, column, threshold, sets, never_left)


def _collect_sets(forest: Forest, nodes: NDArray[np.int64], end: int) -> tuple[CategorySets, NDArray[np.int64]]:
    """Return the sets that nodes look into, and which of them each does; categories must be below `end`."""
    known: dict[bytes, int] = {}
    words: list[NDArray[np.uint32]] = []
    index = np.empty(len(nodes), np.int64)
    for place, set_of_node in enumerate(forest.category_set[nodes]):
        first, last = forest.category_offset[set_of_node : set_of_node + 2]
        used = np.flatnonzero(forest.category_bits[first:last])
        own = forest.category_bits[first : first + (used[-1] + 1 if len(used) else 0)]
        if len(own) * 32 > end:
            raise InputError(
                f"a set has categories of {end - 1:,} or more, which this layout does not hold; merge rare categories"
            )
        index[place] = known.setdefault(own.tobytes(), len(known))
        if len(known) > len(words):
            words.append(own)
    if len(words) > _HIGHEST:
        raise InputError(f"the model has {len(words):,} different sets of categories, {_HIGHEST:,} can be exported")
    start = np.concatenate([[0], np.cumsum([len(own) for own in words])]).astype(np.int64)
    return CategorySets(start, np.concatenate([np.empty(0, np.uint32), *words])), index


def _round_down(forest: Forest, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the largest float32 number that goes left at each node.

    The nearest float32 may lie above the threshold. Rows between the two would then change sides.
    """
    exact = np.where(forest.category_set[nodes] >= 0, 0.0, forest.threshold[nodes])
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

    def count_work(self, n_trees: int, n_sums: int) -> dict[str, int]:
        """Return how often a row that evaluates so many trees does what takes time, at most; see `c.sizes`."""
        if not self.rule.has_pieces:
            return {"bounds": n_trees + 1, "policy": self.n_policies - 1}
        return {"pieces": n_trees + 1, "piece": int(self.rule.piece_offset[n_trees + 1])}


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

    def count_work(self, n_trees: int, n_sums: int) -> dict[str, int]:
        """Return how often a row that evaluates so many trees does what takes time, at most; see `c.sizes`."""
        n_rounds = n_trees // self.trees_per_round + 1
        return {"round": n_trees + 1, "lead": n_rounds, "class": 2 * n_sums * n_rounds}


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

    def count_work(self, n_trees: int, n_sums: int) -> dict[str, int]:
        """Return how often a row that evaluates so many trees does what takes time, at most; see `c.sizes`."""
        n_passed = int(np.searchsorted(self.trees, n_trees, side="right"))
        n_lanes = self.n_lanes - np.searchsorted(self.lane_ends, np.arange(n_trees), side="right")
        return {
            "lanes": n_trees + 1,
            "lane": int(n_lanes.sum()) + self.n_lanes,
            "estimate" if len(self.slope) or self.square.any() else "sentinel": n_passed,
            "interval": int(self.edge_offset[n_passed]) if len(self.edge) else 0,
        }


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

    def count_work(self, n_trees: int, n_sums: int) -> dict[str, int]:
        """Return how often a row that evaluates so many trees does what takes time, at most; see `c.sizes`."""
        return {"cell bounds": n_trees + 1}


StopTables: TypeAlias = ExitTables | LeadTables | SentinelTables | CellTables
