"""An order of trees whose first few predict the sum of all, and the corrections with which they do.

Boosted trees are redundant in their own order: the first thirty say the same thing a little at a time, and their sum is
a poor guess of the full score. Two steps mend that, neither of which needs labels:

1. The order is greedy. The next tree is the one whose leaves, as a partition of the rows, explain most of what the
   trees before leave unexplained (orthogonal matching pursuit with a shrunken step and corrective sweeps).
2. At each sentinel, a number of trees at which rows may stop, the leaves of the trees so far are refitted: the estimate
   is ``slope * (their sum) + intercept`` plus a correction for each leaf, found by damped Gauss-Seidel sweeps.

Each step alone gains little; measured, the two together halve the error of the estimates.

As the full score of any row can be computed, a fit need not stay with the rows that it was given. `mix_rows` makes more
of them: each takes its values from two rows that are alike. Measured, estimates miss up to a fifth less with them.

`Leaves` are the leaves of all trees as arrays, `RowLeaves` those that rows reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.errors import InputError

FloatArray = NDArray[np.float64]
MAX_LEAVES = 1 << 16  # of a tree: rows store its leaves as uint16


class RowLeaves(NamedTuple):
    """Rows by the leaves that they reach.

    Attributes
    ----------
    leaves : uint8 or uint16 array of shape (n_trees, n_rows)
        Numbers of leaves within their trees.
    target : float64 array of shape (n_rows,)
        Full scores.
    """

    leaves: NDArray[np.uint8] | NDArray[np.uint16]
    target: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaves:
    """The leaves of all trees, tree by tree.

    Attributes
    ----------
    node : int64 array of shape (n_leaves,)
        The node that each leaf is.
    offset : int64 array of shape (n_trees + 1,)
        Where the leaves of each tree start.
    parent : int array of shape (n_nodes,)
        -1 at roots. Parents come before their children.

    Examples
    --------
    >>> leaves = Leaves.of(tree_offset=[0, 3, 4], parent=[-1, 0, 0, -1])
    >>> leaves.node.tolist(), leaves.offset.tolist()
    ([1, 2, 3], [0, 2, 3])
    >>> leaves.encode(np.array([[1, 3], [2, 3]]))
    array([[0, 1],
           [0, 0]], dtype=uint8)
    """

    node: NDArray[np.int64]
    offset: NDArray[np.int64]
    parent: NDArray[np.int64]

    @classmethod
    def of(cls, tree_offset: NDArray[np.integer], parent: NDArray[np.integer]) -> Self:
        """Find the leaves of trees, whose nodes start at `tree_offset`: they are no node's parent."""
        above = np.asarray(parent, np.int64)
        is_leaf = np.ones(len(above), np.bool_)
        is_leaf[above[above >= 0]] = False
        node = np.flatnonzero(is_leaf)
        offset = np.searchsorted(node, np.asarray(tree_offset, np.int64))
        if np.diff(offset).max(initial=0) > MAX_LEAVES:
            raise InputError(f"a tree has {np.diff(offset).max():,} leaves, at most {MAX_LEAVES:,} are possible here")
        return cls(node=node, offset=offset, parent=above)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    def encode(self, nodes: NDArray[np.integer]) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Return leaves, given as nodes of shape (n_rows, n_trees), as numbers within their trees, trees first."""
        dtype = np.uint8 if np.diff(self.offset).max(initial=0) <= 1 << 8 else np.uint16
        number = np.zeros(len(self.parent), dtype)
        number[self.node] = np.arange(len(self.node)) - np.repeat(self.offset[:-1], np.diff(self.offset))
        return np.ascontiguousarray(number[nodes].T)

    def smooth(self, totals: FloatArray, n_rows: FloatArray, prior: float) -> FloatArray:
        """Return the mean of each leaf, drawn towards its parent's as if `prior` more rows had that mean.

        Parameters
        ----------
        totals, n_rows : float64 arrays of shape (n_leaves,)
            Sums over the rows of each leaf, and how many they are.
        prior : float

        Returns
        -------
        float64 array of shape (n_leaves,)
        """
        total, count = np.zeros(len(self.parent)), np.zeros(len(self.parent))
        total[self.node], count[self.node] = totals, n_rows
        depth = _depths(self.parent)
        levels = [np.flatnonzero(depth == at) for at in range(int(depth.max()) + 1)]
        for level in levels[:0:-1]:
            np.add.at(total, self.parent[level], total[level])
            np.add.at(count, self.parent[level], count[level])
        mean = np.divide(total, count, out=np.ones_like(total), where=count > 0)  # of the roots, and so far
        for level in levels[1:]:
            mean[level] = (total[level] + prior * mean[self.parent[level]]) / (count[level] + prior)
        return mean[self.node]


def _depths(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    depth, above = np.zeros(len(parent), np.int64), parent.copy()
    while len(inside := np.flatnonzero(above >= 0)):
        depth[inside] += 1
        above[inside] = parent[above[inside]]
    return depth


_SHRINK, _N_SWEEPS = 0.5, 12
_RIDGE = 2.0  # rows that every leaf has besides its own, with a residual of 0
_SMOOTHING = 8.0  # rows by which the spread of a node is drawn towards its parent's
_N_FOLDS = 3
_FEW_STOPS = 0.01
_FEWEST_PLACED, _MOST_PLACED = 2, 9  # sentinels
# As a share, that fewer sentinels may cost: if rules were as bold (measured, they cost a third of it), and at the end.
_MORE_TREES, _MORE_TREES_AT_END = 0.16, 0.01
_LANE_COST = 0.09  # of adding a leaf to one sum more, in trees
_LARGEST_DEVIATION = 25.0  # squared and in units of the mean: one far row must not decide about a leaf


class Recipe(NamedTuple):
    """How estimates are fitted.

    Attributes
    ----------
    n_mixed : int
        Rows that are mixed for each row that is given.
    most_rows : int
        With more, fewer are mixed.
    mixed_weight : float
        Of a row that was mixed: it is less like the rows to come.
    ordered_share : float
        Of the trees, which are chosen one by one; the others follow in their own order.
    rate : float
        Share of what a leaf's rows miss by which each sweep moves it. With a larger one, corrections come closer to the
        rows that they are fitted to.
    all_spread : bool
        Where other rows find spreads, the rows that find the corrections do, too. There are more of them, and what they
        miss differs between leaves as it does for new rows.
    """

    n_mixed: int = 3
    most_rows: int = 100_000
    mixed_weight: float = 0.5
    ordered_share: float = 0.7
    rate: float = 0.15
    all_spread: bool = False


USUAL = Recipe()


@dataclass(frozen=True, eq=False, kw_only=True)
class PrefixFit:
    """Estimates of the full score after some numbers of trees. `fit_prefix` returns this.

    Attributes
    ----------
    order : int64 array of shape (n_trees,)
    sentinels : int64 array of shape (n_sentinels,)
        Rising numbers of trees, each below the number of all.
    slope, intercept : float64 arrays of shape (n_sentinels,)
    corrections : float64 array of shape (n_sentinels, n_leaves)
        What is added for each leaf; 0 in trees that come after the sentinel.
    sigma : float64 array of shape (n_sentinels,)
        Root mean square of what the estimates miss, on rows that they were not fitted to.
    spread : float64 array of shape (n_leaves,)
        How large the squared errors of a leaf's rows are, 1 on average over all rows.
    values : float64 array of shape (n_leaves,)
        What each leaf adds to the full score.
    tested : float64 array of shape (n_sentinels, n_rows)
        Estimates of rows by corrections that were not fitted to them.
    """

    order: NDArray[np.int64]
    sentinels: NDArray[np.int64]
    slope: FloatArray
    intercept: FloatArray
    corrections: FloatArray
    sigma: FloatArray
    spread: FloatArray
    values: FloatArray
    tested: FloatArray

    def estimates(self, leaves: Leaves, reached: NDArray[np.unsignedinteger]) -> Iterator[FloatArray]:
        """Yield the estimates of rows at each sentinel; `reached` has shape (n_trees, n_rows)."""
        for at, n_trees in enumerate(self.sentinels):
            lane = self.slope[at] * self.values + self.corrections[at]
            yield self.intercept[at] + _sum(leaves, lane, self.order[:n_trees], reached)


def geometric_sentinels(n_trees: int) -> NDArray[np.int64]:
    """Return 17 or fewer sentinels, close together at first: for labels, of which most are clear early.

    Examples
    --------
    >>> geometric_sentinels(200).tolist()
    [1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 34, 44, 56, 72, 92, 118, 150]
    >>> geometric_sentinels(5).tolist()
    [1, 2, 3, 4]
    """
    of_200 = np.array([1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 34, 44, 56, 72, 92, 118, 150])
    # The first few stay as they are: an easy row needs as many trees in a large model as in a small one.
    scaled = np.where(of_200 <= 8, of_200, np.rint(8 + (of_200 - 8) * (0.75 * n_trees - 8) / 142))
    rising = np.unique(scaled[(scaled >= 1) & (scaled < n_trees)]).astype(np.int64)
    return rising if n_trees > 20 else np.arange(1, n_trees)


def even_sentinels(n_trees: int) -> NDArray[np.int64]:
    """Return 13 or fewer sentinels, closer together at first: for values, of which few are clear early.

    Examples
    --------
    >>> even_sentinels(300).tolist()
    [9, 15, 24, 36, 51, 69, 90, 114, 141, 171, 204, 240, 270]
    """
    shares = np.array([0.03, 0.05, 0.08, 0.12, 0.17, 0.23, 0.3, 0.38, 0.47, 0.57, 0.68, 0.8, 0.9])
    sentinels = np.unique(np.rint(n_trees * shares).astype(np.int64))
    return sentinels[(sentinels >= 1) & (sentinels < n_trees)]


def placed_sentinels(
    sentinels: NDArray[np.int64], stops: NDArray[np.integer], *, n_trees: int, test_cost: float
) -> NDArray[np.int64]:
    """Return sentinels where rows stop, given how many stopped at each of others, and last how many did not.

    A sentinel costs all trees before it one more number per leaf, and tests. So none is left where nobody stops, but
    for two behind the last: rows that certify may turn out to be more cautious. A row evaluates up to one segment of
    trees more than it needs, which is least in sum if sentinels are as close as the root of the density of stops. There
    are as many as take the least time, within a limit of trees that is wider than what they cost in the end: rows that
    are tested less often have fewer chances to stop by mistake, so that the rule may be bolder.

    Parameters
    ----------
    sentinels : int64 array of shape (n_sentinels,)
    stops : int array of shape (n_sentinels + 1,)
    n_trees : int
        Of the model.
    test_cost : float
        What testing a row takes, in trees.

    Returns
    -------
    int64 array

    Examples
    --------
    >>> before = np.array([9, 15, 24, 36, 51, 69, 90, 114, 141])
    >>> stops = np.array([0, 0, 0, 0, 0, 24, 47, 27, 2, 0])
    >>> placed_sentinels(before, stops, n_trees=300, test_cost=6)
    array([ 74,  94, 141])
    """
    n_rows = stops.sum()
    done = np.cumsum(stops[:-1])
    used = np.flatnonzero((done > _FEW_STOPS * n_rows) & (done - stops[:-1] < (1 - _FEW_STOPS) * done[-1]))
    if len(used) == 0:
        return sentinels
    first, last = int(used[0]), int(used[-1]) + 1
    ends = np.concatenate([[0], sentinels])[first : last + 1].astype(np.float64)
    stopped = np.concatenate([[0], done])[first : last + 1]  # up to each end
    density = np.sqrt(np.maximum(stops[first:last], 1) / np.diff(ends))
    reached = np.concatenate([[0.0], np.cumsum(density * np.diff(ends))])
    candidates, spent = list[NDArray[np.int64]](), list[tuple[float, float]]()
    for n_placed in range(_FEWEST_PLACED, _MOST_PLACED + 1):
        places = np.interp(reached[-1] * np.arange(1, n_placed + 1) / n_placed, reached, ends)
        placed = np.unique(np.maximum(np.rint(places), 1)).astype(np.int64)
        upto = np.interp(placed, ends, stopped)
        stops_at = np.append(np.diff(upto, prepend=0.0), n_rows - upto[-1])
        candidates.append(placed)
        spent.append(_spend(placed, stops_at, np.arange(len(placed)), n_trees, test_cost))
    most = (1 + _MORE_TREES) * min(trees for trees, _ in spent)
    best = int(np.argmin([time if trees <= most else np.inf for trees, time in spent]))
    return np.unique(np.concatenate([candidates[best], sentinels[last : last + 2]]))


def count_needed(sentinels: NDArray[np.int64], stops: NDArray[np.integer], *, n_trees: int, test_cost: float) -> int:
    """Return how many sentinels are worth their time, given how many rows stop at each, and last how many do not.

    Rows that would stop at a later one evaluate all trees instead. They get the model's own answers, so that no
    promise is broken by that.

    Examples
    --------
    >>> count_needed(np.array([60, 80, 120, 160]), np.array([500, 480, 20, 0, 0]), n_trees=200, test_cost=6)
    3
    """
    spent = [_spend(sentinels, stops, np.arange(n_kept), n_trees, test_cost) for n_kept in range(1, len(sentinels) + 1)]
    most = (1 + _MORE_TREES_AT_END) * spent[-1][0]
    return 1 + int(np.argmin([time if trees <= most else np.inf for trees, time in spent]))


def worthwhile_sentinels(
    sentinels: NDArray[np.int64],
    stops: NDArray[np.integer],
    *,
    n_trees: int,
    test_cost: float,
    more_trees: float = 0.05,
) -> NDArray[np.intp]:
    """Return which sentinels to keep, given how many rows stop at each, and last how many do not.

    A sentinel where few rows stop takes more time than they save. Those whose absence saves most are left out one by
    one, as long as rows need hardly more trees than with all of them: a row then stops at the next.

    Parameters
    ----------
    sentinels : int64 array of shape (n_sentinels,)
    stops : int array of shape (n_sentinels + 1,)
    n_trees : int
        Of the model.
    test_cost : float
        What testing a row takes, in trees.
    more_trees : float
        Share of the trees with all sentinels that the others may cost besides.

    Returns
    -------
    int array of shape (n_kept,)

    Examples
    --------
    >>> worthwhile_sentinels(np.array([6, 10, 16, 24]), np.array([60, 5, 1, 2, 32]), n_trees=200, test_cost=12.0)
    array([0, 3])
    """
    kept = np.arange(len(sentinels))
    trees_of_all, time = _spend(sentinels, stops, kept, n_trees, test_cost)
    most = (1 + more_trees) * trees_of_all
    while len(kept) > 1:
        fewer = [np.delete(kept, at) for at in range(len(kept))]
        spent = [_spend(sentinels, stops, these, n_trees, test_cost) for these in fewer]
        times = [one if trees <= most else np.inf for trees, one in spent]
        best = int(np.argmin(times))
        if times[best] >= time:
            break
        kept, time = fewer[best], times[best]
    return kept


def _spend(
    sentinels: NDArray[np.int64], stops: NDArray[np.integer], kept: NDArray[np.intp], n_trees: int, test_cost: float
) -> tuple[float, float]:
    """Return the trees that rows need with the sentinels kept, and what they take in all; both summed over rows."""
    upto = np.cumsum(stops)
    stopped = np.diff(upto[kept], prepend=0)  # at each that is kept
    reach = upto[-1] - np.concatenate([[0], upto[kept[:-1]]])
    trees = float(stopped @ sentinels[kept] + (upto[-1] - upto[kept[-1]]) * n_trees)
    adds = np.diff(sentinels[kept], prepend=0) * np.arange(len(kept), 0, -1)  # trees times lanes
    return trees, trees + float(reach @ (test_cost + _LANE_COST * adds))


def order_trees(
    leaves: Leaves,
    rows: RowLeaves,
    weight: FloatArray,
    *,
    n_steps: int | None = None,
    exact: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Return the trees in an order in which the first few explain most of the target.

    Parameters
    ----------
    leaves : Leaves
    rows : RowLeaves
    weight : float64 array of shape (n_rows,)
    n_steps : int, optional
        How many trees are chosen; those of the usual recipe by default. The others follow in their own order.
    exact : bool
        Compute the gain of every tree at every step. By default most steps compare the twelve that gained most before,
        which is as good and ten times faster.
    progress : callable, optional

    Returns
    -------
    int64 array of shape (n_trees,)

    Examples
    --------
    >>> leaves = Leaves.of(np.array([0, 3, 6]), np.array([-1, 0, 0, -1, 3, 3]))
    >>> rows = RowLeaves(np.array([[0, 1, 0, 1], [0, 0, 1, 1]], np.uint8), np.array([0.0, 1.0, 10.0, 11.0]))
    >>> order_trees(leaves, rows, np.ones(4), n_steps=2).tolist()
    [1, 0]
    """
    n_steps = _count_steps(leaves, USUAL) if n_steps is None else n_steps
    start = rows.target - np.average(rows.target, weights=weight)
    order: NDArray[np.int64] = _core.greedy_order(
        rows.leaves,
        leaves.offset,
        weight,
        start,
        ridge=_RIDGE,
        n_steps=n_steps,
        shrink=_SHRINK,
        exact=exact,
        progress=progress,
    )[0]
    return order


def _count_steps(leaves: Leaves, recipe: Recipe) -> int:
    return int(np.ceil(recipe.ordered_share * leaves.n_trees))


def mix_rows(
    rows: NDArray[Any], reached: NDArray[np.unsignedinteger], recipe: Recipe = USUAL
) -> Iterator[NDArray[Any]]:
    """Yield rows that were made of pairs of rows, as many as there are and in their order, a few times.

    The two of a pair reach the same leaf of a tree where possible, and each value is that of one or the other. They lie
    in the same fold of `fit_prefix`, so that nothing of a row is known where its estimate is tested.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
    reached : uint8 or uint16 array of shape (n_trees, n_rows)
        The leaves that they reach.
    recipe : Recipe
        Says how many times, which are fewer where there are many rows.

    Examples
    --------
    >>> rows = np.array([[1, 10], [0, 0], [0, 0], [2, 20], [0, 0], [0, 0]])
    >>> mixed = next(mix_rows(rows, np.zeros((1, 6), np.uint8)))
    >>> set(mixed[0]) <= {1, 10, 2, 20}, mixed[1].tolist()
    (True, [0, 0])
    """
    n_trees, n_rows = reached.shape
    rng = np.random.default_rng(0)
    for _ in range(min(recipe.n_mixed, recipe.most_rows // max(n_rows, 1) - 1)):
        leaf, other = reached[rng.integers(n_trees)], np.arange(n_rows)
        for fold in range(_N_FOLDS):
            shuffled = rng.permutation(np.arange(fold, n_rows, _N_FOLDS))
            alike = shuffled[np.argsort(leaf[shuffled], kind="stable")]
            other[alike] = np.roll(alike, 1)
        # Not by np.where, which would forget that rows of a table are codes already.
        mixed = rows[other]
        np.copyto(mixed, rows, where=rng.random(rows.shape) < 0.5)
        yield mixed


def fit_prefix(
    leaves: Leaves,
    values: FloatArray,
    refit: RowLeaves,
    spread: RowLeaves | None = None,
    *,
    mixed: RowLeaves | None = None,
    sentinels: NDArray[np.int64],
    weight: FloatArray | None = None,
    order: NDArray[np.int64] | None = None,
    n_sweeps: int = _N_SWEEPS,
    recipe: Recipe = USUAL,
    progress: Progress | None = None,
) -> PrefixFit:
    """Fit an order of trees, and an estimate of the full score at each sentinel.

    Parameters
    ----------
    leaves : Leaves
    values : float64 array of shape (n_leaves,)
        What each leaf adds to the full score.
    refit : RowLeaves
        Rows that find the order and the corrections. The model's training rows serve well.
    spread : RowLeaves, optional
        Other rows, which find slopes, intercepts, `sigma` and spreads. By default each third of `refit` finds what is
        missed by corrections that the other two were fitted to, and the corrections returned are fitted to all.
    mixed : RowLeaves, optional
        More rows that find the order and the corrections, and nothing else: `refit` a few times, as `mix_rows` makes
        them. Each counts as much as the recipe says.
    sentinels : int64 array of shape (n_sentinels,)
    weight : float64 array of shape (n_rows + n_mixed,), optional
        How much each row of `refit`, and then of `mixed`, counts; 1 by default.
    order : int64 array of shape (n_trees,), optional
        By default that of `order_trees`.
    n_sweeps : int
        Sweeps over the trees at each sentinel.
    recipe : Recipe
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` while the order is found, and after every refit.

    Returns
    -------
    PrefixFit
    """
    if len(refit.target) == 0 or (spread is not None and len(spread.target) == 0):
        raise InputError("estimates are fitted to rows, and there are none")
    n_rows = len(refit.target)
    fitting = refit if mixed is None else _join(refit, mixed)
    counts = np.ones(len(fitting.target)) if weight is None else np.array(weight, np.float64)
    counts[n_rows:] *= recipe.mixed_weight
    folds = np.arange(len(fitting.target)) % n_rows % _N_FOLDS
    n_folds = 0 if spread is not None or n_rows < _N_FOLDS else _N_FOLDS
    n_total = leaves.n_trees + (1 + n_folds) * len(sentinels)
    n_done = leaves.n_trees

    def report(n_steps_done: int, n_steps: int) -> None:
        if progress is not None:
            progress(n_steps_done * leaves.n_trees // n_steps, n_total)

    def report_refit() -> None:
        nonlocal n_done
        n_done += 1
        if progress is not None:
            progress(n_done, n_total)

    if order is None:
        order = order_trees(leaves, fitting, counts, n_steps=_count_steps(leaves, recipe), progress=report)

    def correct(rows: RowLeaves, rows_weight: FloatArray, tested: RowLeaves) -> _Corrected:
        rate = recipe.rate
        return _correct(leaves, values, order, sentinels, rows, rows_weight, tested, n_sweeps, rate, report_refit)

    tested = refit if spread is None else spread
    final = correct(fitting, counts, tested)
    estimates = final.estimates
    for fold in range(n_folds):
        others, out = folds != fold, folds[:n_rows] == fold
        estimates[:, out] = correct(_where(fitting, others), counts[others], _where(refit, out)).estimates
    missed = tested.target - estimates
    reached, scaled = tested.leaves, _scale_misses(missed)
    if recipe.all_spread and spread is not None:
        reached = np.concatenate([reached, refit.leaves], axis=1)
        scaled = np.concatenate([scaled, _scale_misses(final.left[:, :n_rows])])
    return PrefixFit(
        order=order,
        sentinels=sentinels,
        slope=final.slope,
        intercept=final.intercept,
        corrections=final.corrections,
        sigma=np.sqrt(np.square(missed).mean(axis=1)),
        spread=leaf_spread(leaves, reached, scaled),
        values=values,
        tested=estimates,
    )


def _scale_misses(missed: FloatArray) -> FloatArray:
    """Return the mean over sentinels of squared misses, which are 1 on average at each but for few far rows."""
    squared = np.square(missed)
    mean = squared.mean(axis=1, keepdims=True)
    scaled = np.divide(squared, mean, out=np.zeros_like(squared), where=mean > 0)
    means: FloatArray = np.minimum(scaled, _LARGEST_DEVIATION).mean(axis=0)
    return means


class _Corrected(NamedTuple):
    slope: FloatArray
    intercept: FloatArray
    corrections: FloatArray
    left: FloatArray  # what the rows that they were fitted to miss, shape (n_sentinels, n_rows)
    estimates: FloatArray  # of the tested rows, shape (n_sentinels, n_tested_rows)


def _correct(
    leaves: Leaves,
    values: FloatArray,
    order: NDArray[np.int64],
    sentinels: NDArray[np.int64],
    refit: RowLeaves,
    weight: FloatArray,
    tested: RowLeaves,
    n_sweeps: int,
    rate: float,
    report: Callable[[], None],
) -> _Corrected:
    """Fit lines to `tested` and corrections to `refit`, and measure on `tested`."""
    n_sentinels = len(sentinels)
    slope, intercept = np.ones(n_sentinels), np.zeros(n_sentinels)
    corrections, estimates = np.zeros((n_sentinels, len(values))), np.zeros((n_sentinels, len(tested.target)))
    left = np.zeros((n_sentinels, len(refit.target)))
    sums = [np.zeros(len(rows.target)) for rows in (refit, tested)]
    done = 0
    for at, n_trees in enumerate(sentinels):
        new, done = order[done:n_trees], int(n_trees)
        for total, rows in zip(sums, (refit, tested), strict=True):
            total += _sum(leaves, values, new, rows.leaves)
        slope[at], intercept[at] = fit_line(sums[1], tested.target)
        corrections[at], left[at] = _core.refit_leaves(
            refit.leaves,
            leaves.offset,
            weight,
            refit.target - slope[at] * sums[0] - intercept[at],
            ridge=_RIDGE,
            trees=order[:n_trees],
            n_sweeps=n_sweeps,
            rate=rate,
            progress=None,
        )
        corrected = _sum(leaves, corrections[at], order[:n_trees], tested.leaves)
        estimates[at] = slope[at] * sums[1] + intercept[at] + corrected
        report()
    return _Corrected(slope, intercept, corrections, left, estimates)


def _where(rows: RowLeaves, chosen: NDArray[np.bool_]) -> RowLeaves:
    leaves: NDArray[Any] = np.ascontiguousarray(rows.leaves[:, chosen])
    return RowLeaves(leaves, rows.target[chosen])


def _join(rows: RowLeaves, others: RowLeaves) -> RowLeaves:
    leaves: NDArray[Any] = np.concatenate([rows.leaves, others.leaves], axis=1)
    return RowLeaves(leaves, np.concatenate([rows.target, others.target]))


def leaf_spread(leaves: Leaves, reached: NDArray[np.unsignedinteger], misses: FloatArray) -> FloatArray:
    """Return the mean of `misses`, one per row, over the rows of each leaf, drawn towards that of its parent.

    Returns
    -------
    float64 array of shape (n_leaves,)
    """
    totals, counts = np.zeros(len(leaves.node)), np.zeros(len(leaves.node))
    for tree, leaf in enumerate(reached):
        at = slice(*leaves.offset[tree : tree + 2])
        totals[at] = np.bincount(leaf, weights=misses, minlength=at.stop - at.start)
        counts[at] = np.bincount(leaf, minlength=at.stop - at.start)
    return leaves.smooth(totals, counts, _SMOOTHING)


def _sum(
    leaves: Leaves, lane: FloatArray, trees: NDArray[np.int64], reached: NDArray[np.unsignedinteger]
) -> FloatArray:
    """Return the sums of `lane` over the leaves that rows reach in some trees, shape (n_rows,)."""
    total = np.zeros(reached.shape[1])
    for tree in trees:
        total += lane[leaves.offset[tree] : leaves.offset[tree + 1]][reached[tree]]
    return total


def fit_line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return slope and intercept of the line through the points by least squares."""
    centred = x - x.mean()
    square = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / square if square > 0 else 1.0
    return slope, float(y.mean() - slope * x.mean())
