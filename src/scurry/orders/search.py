"""Search: find a step order by name.

"auto" is a beam search on a smooth score, refined by exact search in windows.

The squirrels are greedy; and they, like the Optimal Order, maximise accuracy on the ordering rows, whose last fraction
of a per cent is noise. Here a state's score is ``#right + sum of (1 + x / (1 + |x|)) / 2`` over rows, with
``x = 10 * margin / n_trees``: rows near their decision count by how near they are.

1. Beams of 16 states go down from the roots and up from the leaves.
2. Each order found is refined: runs of steps, as long as there are at most 256 states between their ends, are replaced
   by the best of all ways between the same two states.
3. The result is the one of these two and the Backward Squirrel Order that does best on all rows.

Forests too large for that are searched with one beam, from the leaves up, on a stratified sample of the
rows, and narrower if need be; its order and the Backward Squirrel Order are refined on as many rows as time allows.
The beam that goes down is left out because it falls behind where there are many trees to choose from.

The Optimal and the Unoptimal Order are those of Biebert, Hakert, Heider, Kuhse, Buschjäger, Chen: "Jump Like A
Squirrel: Optimized Execution Step Order for Anytime Random Forest Inference", arXiv:2603.01588, section IV-B.

=================  ==============================================
in the paper       here
=================  ==============================================
t, d               ``n_trees``, ``tree_depth`` (each tree its own)
S_o                the rows and labels given to `find`
vertex, state      one level per tree
weight of an edge  rows answered wrongly in the state it leads to
=================  ==============================================

Deviations:

1. Dijkstra's algorithm is not needed: every step leads to a later state in lexicographic order, so one sweep in that
   order finds the shortest path, without a heap and with one byte per state (``core/orders/optimal.h``).
2. A tree has as many levels as it is deep, not the forest's maximum: no steps are spent below a tree's last leaf.
3. Regressors are an extension: squared errors take the place of wrong answers.

Orders from rankings of the trees go tree by tree (depth), or level by level (breadth). The rankings that squirrel
orders are compared with in Biebert et al., arXiv:2603.01588, section IV-A. With P[m, i, c] the class fractions of tree
m for row i of label y, C classes, S the trees chosen so far:

========  ==============================================================================================================
``ie``    individual error of each tree, ascending
``ea``    error ambiguity: sum over i and c of (P[m,i,c] - mean over trees)^2, plus sum over i of
          exp(-P[m,i,y] / C) / C^2 and, over c other than y, of exp(P[m,i,c] / (C (C - 1))) / (C (C - 1))^2; ascending
``re``    reduced error (Margineantu, Dietterich 1997): greedily the tree that leaves S with the fewest errors
``drep``  diversity regularised pruning (Li, Yu, Zhou 2012): best tree first, then, among the share `rho` of the other
          trees that agrees least with S, the one that leaves S with the fewest errors
``qwyc``  the order of QWYC's Algorithm 1 (Wang, Gupta, You 2021) on the scores P[m,i,1] - 1/2 with α = 0.005
========  ==============================================================================================================

Ties go to the lowest tree. Deviations:

1. Every tree is ranked; the pruning methods stop earlier.
2. ``re`` has no backfitting, as in the paper's comparison.
3. ``drep`` measures agreement as the share of rows with equal labels, which ranks two-class trees as the original's
   diff does, and counts `rho` on the trees not yet chosen.
4. ``ea`` is the formula in use for pruning forests, which adds the second derivative of the loss to the squared
   deviation (the decomposition of Jiang et al. 2017 multiplies them): it ranks trees close to the mean forest first.
5. A boosted model's tree is judged together with the base score; ``ea`` needs class fractions.
6. Regressors (an extension) have ``ie`` and ``re``, with squared errors.
"""

from __future__ import annotations

import difflib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.checks import (
    Progress,
    RandomState,
    check_choice,
    check_count,
    check_numbers,
    check_progress,
    check_random_state,
)
from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest, thread_count
from scurry.formatting import format_bytes
from scurry.orders.curves import cost_per_step, mean_over_time, measure_curve, nma
from scurry.orders.ordering_set import OrderingSet, can_be_weighted
from scurry.plan import READOUTS
from scurry.stopping import qwyc

_log = logging.getLogger("scurry")
_BLOCK_TREES, _SLICE_STATES = 3, 2**18  # as in core/orders/grid.h and core/orders/optimal.cc


@dataclass(frozen=True)
class Size:
    """What the search over all states of a forest needs.

    Attributes
    ----------
    n_states : int
    memory : int
        Bytes, as many as are in use at once if no row is ever dropped.
    """

    n_states: int
    memory: int

    @classmethod
    def of(cls, depths: NDArray[np.int32], n_rows: int, n_margins: int, *, regressor: bool, n_threads: int) -> Size:
        """Return the size for trees of these depths."""
        levels = sorted(int(depth) + 1 for depth in depths if depth > 0)
        levels = [1] * (_BLOCK_TREES + 1 - len(levels)) + levels
        n_states, n_inner = math.prod(levels), math.prod(levels[:-1])
        block = levels[-1 - _BLOCK_TREES : -1]
        loss, margins = 8 if regressor else 4, n_rows * n_margins
        rows = 8 * n_rows * len(depths)  # where they end, as they come and sorted
        # Per row and margin: what each level of each tree adds, the start and one step; two bounds for every tree.
        table = 4 * margins * (sum(levels) + 2 + (0 if regressor else 2 * (len(levels) + 1)))
        # In every thread: a slice of losses; the rows open after each tree fixed; those of a block, side by side.
        opened = (len(levels) - 1) * (8 * margins + 4 * n_rows)
        side_by_side = 0 if regressor else 4 * margins * (sum(block) + 2) + 16 * n_rows
        slice_states = max(min(n_inner, _SLICE_STATES), math.prod(block))
        of_thread = loss * slice_states + opened + side_by_side
        return cls(n_states, n_states + loss * n_inner + rows + table + n_threads * of_thread)


def find_optimal(
    ordering: OrderingSet,
    *,
    worst: bool = False,
    max_memory: int,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> NDArray[np.int32]:
    """Find the order with the largest mean accuracy on the ordering set, or with the smallest.

    Parameters
    ----------
    ordering : OrderingSet
    worst : bool, default False
        Find the Unoptimal Order.
    max_memory : int
        Bytes that may be used.
    n_threads : int, default 1
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` with numbers of states, first with 0. What the search will need is
        written to the log "scurry".

    Returns
    -------
    int32 array of shape (n_steps,)

    Raises
    ------
    InfeasibleError
        If more than `max_memory` is needed; the message names the nearest sizes that are feasible.
    """
    forest = ordering.forest
    n_margins = 1 if ordering.fixed.values.shape[1] <= 2 else ordering.fixed.values.shape[1]

    def size_of(depths: NDArray[np.int32]) -> Size:
        return Size.of(depths, ordering.n_rows, n_margins, regressor=not forest.is_classifier, n_threads=n_threads)

    size = size_of(forest.tree_depth)
    if size.memory > max_memory:
        raise InfeasibleError(_explain_refusal(forest.tree_depth, size, size_of, max_memory), achievable=size.memory)
    grid = _core.Grid(ordering.descent())
    n_states, seconds = size.n_states, grid.seconds(n_threads)
    _log.info(
        "optimal order: %s states, %s, about %s", f"{n_states:,}", format_bytes(size.memory), _format_seconds(seconds)
    )
    if progress is None:
        return grid.optimal(worst=worst, n_threads=n_threads, progress=None)
    report = progress
    report(0, n_states)
    steps = grid.optimal(
        worst=worst, n_threads=n_threads, progress=lambda share: report(round(share * n_states), n_states)
    )
    report(n_states, n_states)
    return steps


def _explain_refusal(
    depths: NDArray[np.int32], size: Size, size_of: Callable[[NDArray[np.int32]], Size], max_memory: int
) -> str:
    n_trees, deepest = len(depths), int(depths.max())
    fewer = next(n for n in range(n_trees - 1, -1, -1) if size_of(depths[:n]).memory <= max_memory or n == 0)
    shallower = next(
        d for d in range(deepest - 1, -1, -1) if size_of(np.minimum(depths, d)).memory <= max_memory or d == 0
    )
    feasible = [f"its first {fewer} trees"] if fewer else []
    feasible += [f"all {n_trees} trees cut at depth {shallower}"] if shallower else []
    nearest = f"Feasible are {' or '.join(feasible)}. " if feasible else ""
    return (
        f"the optimal order of {n_trees} trees of depth {deepest} has {size.n_states:.3g} states to look at and needs "
        f"{format_bytes(size.memory)}, more than max_memory = {format_bytes(max_memory)}. {nearest}"
        'Use order="auto", whose orders come close for forests of any size'
    )


def _format_seconds(n: float) -> str:
    return f"{n:.2g} s" if n < 100 else f"{n / 60:.0f} min"


RANKINGS = ("ie", "ea", "re", "drep", "qwyc")
QWYC_MAX_DISAGREEMENT = 0.005


def find_ranked(ordering: OrderingSet, layout: str, ranking: str) -> NDArray[np.int32]:
    """Return the order that takes ranked trees one after the other, or all of them level by level.

    Parameters
    ----------
    ordering : OrderingSet
    layout : {"depth", "breadth"}
    ranking : {"ie", "ea", "re", "drep", "qwyc"}

    Returns
    -------
    int32 array of shape (n_steps,)
    """
    trees, depths = rank(ordering, ranking), ordering.forest.tree_depth
    if layout == "depth":
        return np.repeat(trees, depths[trees]).astype(np.int32)
    levels = [trees[depths[trees] > level] for level in range(ordering.forest.max_depth)]
    return np.concatenate([*levels, np.zeros(0, np.intp)]).astype(np.int32)


def rank(ordering: OrderingSet, ranking: str) -> NDArray[np.intp]:
    """Return the trees from the most to the least important, shape (n_trees,)."""
    if not ordering.forest.is_classifier:
        return _rank_regressor(ordering, ranking)
    match ranking:
        case "ie":
            return np.argsort(_core.Squirrel(ordering.whole_trees(), down=True).look(), kind="stable")
        case "ea":
            return np.argsort(measure_ambiguity(ordering), kind="stable")
        case "re":
            return _core.squirrel_order(ordering.whole_trees(), down=True).astype(np.intp)
        case "drep":
            return rank_by_drep(ordering)
        case "qwyc":
            return rank_by_qwyc(ordering)
    raise InputError(f"ranking must be one of {', '.join(RANKINGS)}, got {ranking!r}")


def measure_ambiguity(ordering: OrderingSet) -> NDArray[np.float64]:
    """Return the error ambiguity of each tree, shape (n_trees,)."""
    if ordering.forest.aggregation == "sum" or ordering.forest.n_classes < 2:
        raise InputError("the ea ranking needs trees that answer with fractions of several classes; use ie or re")
    n_classes = ordering.forest.n_classes
    own = np.arange(ordering.n_rows), ordering.targets
    fractions, trees = ordering.forest.leaf_values(), ordering.leaves.T
    mean = np.zeros((ordering.n_rows, n_classes))
    for leaves in trees:
        mean += fractions[leaves] / len(trees)
    ambiguity = np.empty(len(trees))
    for tree, leaves in enumerate(trees):
        p = fractions[leaves]
        curvature = np.exp(p / (n_classes * (n_classes - 1))) / (n_classes * (n_classes - 1)) ** 2
        curvature[own] = np.exp(-p[own] / n_classes) / n_classes**2
        ambiguity[tree] = ((p - mean) ** 2).sum() + curvature.sum()
    return ambiguity


def rank_by_drep(ordering: OrderingSet, rho: float = 0.25) -> NDArray[np.intp]:
    """Return DREP's order of the trees, shape (n_trees,)."""
    n_trees = ordering.forest.n_trees
    answers = np.stack([_labels(ordering, ordering.fixed.start + _sums(ordering, tree)) for tree in range(n_trees)])
    squirrel = _core.Squirrel(ordering.whole_trees(), down=True)
    sums = np.tile(ordering.fixed.start, (ordering.n_rows, 1))
    remaining, chosen = np.arange(n_trees), np.zeros(0, np.intp)
    while len(remaining):
        candidates = remaining
        if len(chosen):
            agreement = (answers[remaining] == _labels(ordering, sums)).sum(axis=1)
            different = np.argsort(agreement, kind="stable")[: math.ceil(rho * len(remaining))]
            candidates = np.sort(remaining[different])
        best = candidates[np.argmin(squirrel.look()[candidates])]
        squirrel.step(int(best))
        sums += _sums(ordering, int(best))
        chosen, remaining = np.append(chosen, best), remaining[remaining != best]
    return chosen


def rank_by_qwyc(ordering: OrderingSet) -> NDArray[np.intp]:
    """Return QWYC's order of the trees, shape (n_trees,)."""
    forest = ordering.forest
    if forest.n_classes != 2:
        raise InputError(
            f"the qwyc ranking is for two classes, this model has {forest.n_classes}; use ie, ea, re or drep"
        )
    start, unit = ordering.fixed.start, ordering.fixed.unit
    sums = np.stack([_sums(ordering, tree) for tree in range(forest.n_trees)], axis=1)
    rule = qwyc(
        (sums[:, :, 1] - sums[:, :, 0]) * unit,
        max_disagreement=QWYC_MAX_DISAGREEMENT,
        decision_threshold=float(start[0] - start[1]) * unit,
        decisions=_labels(ordering, start + sums.sum(axis=1, dtype=np.int32)) == 1,
        spending="upfront",
        sides="negative-first",
    )
    return np.asarray(rule.order, dtype=np.intp)


def _rank_regressor(ordering: OrderingSet, ranking: str) -> NDArray[np.intp]:
    if ranking not in ("ie", "re"):
        raise InputError(f"the {ranking} ranking is for classifiers; a regressor's trees can be ranked by ie or re")
    forest = ordering.forest
    y = ordering.y.astype(np.float64)
    predictions = np.stack([forest.value[ordering.leaves[:, tree], 0] for tree in range(forest.n_trees)], axis=1)
    averaged = forest.aggregation != "sum"
    start = forest.base_score[0]
    if ranking == "ie":
        return np.argsort(((start + predictions - y[:, None]) ** 2).sum(axis=0), kind="stable")
    # Sums that do not change with S are computed once, so that choosing a tree takes one product per candidate.
    squares, with_y = (predictions**2).sum(axis=0), y @ predictions
    total, chosen = np.full(len(y), start), list[int]()
    while len(chosen) < forest.n_trees:
        # |(total + p) / n - y|^2 up to a constant, for every tree's p at once.
        n = len(chosen) + 1 if averaged else 1
        errors = (squares + 2 * (total @ predictions)) / n**2 - 2 * with_y / n
        errors[chosen] = np.inf
        chosen.append(int(np.argmin(errors)))
        total += predictions[:, chosen[-1]]
    return np.array(chosen, dtype=np.intp)


def _sums(ordering: OrderingSet, tree: int) -> NDArray[np.int32]:
    """Return what the leaves of one tree add to the sums, shape (n_rows, n_sums)."""
    return ordering.fixed.values[ordering.leaves[:, tree]]


def _labels(ordering: OrderingSet, sums: NDArray[np.int32]) -> NDArray[np.intp]:
    if ordering.fixed.last_class_wins_ties:
        return np.asarray(sums.shape[1] - 1 - sums[:, ::-1].argmax(axis=1), dtype=np.intp)
    return np.asarray(sums.argmax(axis=1), dtype=np.intp)


ORDERS = (
    "auto",
    "optimal",
    "unoptimal",
    "backward-squirrel",
    "forward-squirrel",
    "random",
    *(f"{layout}-{ranking}" for ranking in RANKINGS for layout in ("depth", "breadth")),
)
STEEPNESS = 10.0
WIDTH = 16
WINDOW_STATES = 256
MAX_SWEEPS = 4
MAX_WORK = 2e10  # margins looked at by a beam, or by the refinement of an order; a few seconds
ROWS_PER_CLASS = 1000  # that a sample keeps before the beam is narrowed


@dataclass(frozen=True, eq=False, repr=False)
class StepOrder:
    """An order in which to take the steps of a forest, and what it is worth.

    Attributes
    ----------
    order : str
        Its name, one of `scurry.orders.ORDERS`.
    steps : int32 array of shape (n_steps,)
        The tree in which each step is taken.
    readout : {"plain", "weighted"}
        How inner nodes count when the order runs.
    curve : float64 array of shape (n_steps + 1,)
        Accuracy on the ordering rows before the first step and after each; a regressor's mean squared error.
    seconds : float
        Duration of the search.
    """

    order: str
    steps: NDArray[np.int32]
    readout: str
    curve: NDArray[np.float64]
    seconds: float

    @property
    def nma(self) -> float:
        """Normalised mean accuracy on the ordering rows, see `scurry.orders.nma`."""
        return nma(self.curve)

    def __repr__(self) -> str:
        return f"StepOrder({self.order!r}, n_steps={len(self.steps)}, nma={self.nma:.4f}, readout={self.readout!r})"


def find(
    forest: Forest,
    X: Any,
    y: ArrayLike,
    *,
    order: str = "auto",
    readout: str = "plain",
    step_costs: tuple[float, float] | None = None,
    random_state: RandomState = None,
    max_memory: int = 8 * 2**30,
    n_threads: int | None = 1,
    progress: Progress | None = None,
) -> StepOrder:
    """Find an order of steps that makes a forest answer well however early it is stopped.

    A step moves every row one level down one tree; a row that is at a leaf already stays there. Orders are judged on
    the ordering rows, which the forest should not have been trained on.

    Parameters
    ----------
    forest : Forest
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Labels among the forest's classes, or a regressor's targets.
    order : str, default "auto"
        - "auto": close to "optimal" for forests of any size;
        - "optimal", "unoptimal": the best and the worst mean accuracy of all orders, for small forests;
        - "backward-squirrel", "forward-squirrel": greedy, from the leaves up or from the roots down;
        - "depth-…", "breadth-…" with ie, ea, re, drep or qwyc: ranked trees one by one, or level by level;
        - "random": every order equally likely.
    readout : {"plain", "weighted", "auto"}, default "plain"
        "weighted" scales inner nodes by how far down they are, ((depth + 1) / (depth of the tree + 1))². An order found
        for one read-out should be run with it. "auto" searches for both, and keeps what does better on the rows given.
    step_costs : tuple of two floats, optional
        For "auto": what a step costs after a step in the same tree and after one in another tree, in any unit; the mean
        accuracy over time is maximised instead of the mean over steps.
    random_state : int, Generator, RandomState or None
        For "random".
    max_memory : int, default 8 GiB
        For "optimal" and "unoptimal": bytes they may use.
    n_threads : int or None, default 1
        For "optimal" and "unoptimal"; None uses all cores.
    progress : callable, optional
        For "optimal" and "unoptimal": called as ``progress(n_done, n_total)`` with numbers of states, first with 0. An
        exception it raises ends the search. How much memory it needs and about how long is in the log "scurry".

    Returns
    -------
    StepOrder

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]]}
    >>> other = {**stump, "feature": [1, -1, -1]}
    >>> forest = scurry.Forest.from_trees([stump, other])
    >>> found = scurry.orders.find(forest, [[0, 0], [0, 1], [1, 1]], [0, 1, 1], order="optimal")
    >>> found.steps, found.curve.round(2)
    (array([1, 0], dtype=int32), array([0.33, 1.  , 0.67]))
    """
    if order not in ORDERS:
        near = difflib.get_close_matches(str(order), ORDERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"unknown order {order!r};{hint} Known are {', '.join(ORDERS)}")
    costs = _check_costs(order, step_costs)
    threads, max_memory = thread_count(n_threads), check_count("max_memory", max_memory)
    rng, progress = check_random_state(random_state), check_progress(progress)

    def search(ordering: OrderingSet) -> NDArray[np.int32]:
        match order:
            case "auto":
                return find_auto(ordering, costs)
            case "optimal" | "unoptimal":
                worst = order == "unoptimal"
                return find_optimal(ordering, worst=worst, max_memory=max_memory, n_threads=threads, progress=progress)
            case "backward-squirrel" | "forward-squirrel":
                return _core.squirrel_order(ordering.descent(), down=order == "forward-squirrel")
            case "random":
                trees = np.repeat(np.arange(forest.n_trees, dtype=np.int32), forest.tree_depth)
                return rng.permutation(trees)
            case _:
                return find_ranked(ordering, *order.split("-"))

    found = []
    for name in _choose_readouts(forest, readout):
        ordering = OrderingSet.of(forest, X, y, name)
        started = time.perf_counter()
        steps = search(ordering)
        seconds = time.perf_counter() - started
        steps.flags.writeable = False  # the curve belongs to these very steps
        found.append(StepOrder(order, steps, name, measure_curve(ordering, steps, X), seconds))
    return max(found, key=lambda one: mean_over_time(one.curve, one.steps, costs))


def _choose_readouts(forest: Forest, readout: str) -> tuple[str, ...]:
    check_choice("readout", readout, (*READOUTS, "auto"))
    if readout != "auto":
        return (readout,)
    return READOUTS if isinstance(forest, Forest) and can_be_weighted(forest) else ("plain",)


def _check_costs(order: str, step_costs: tuple[float, float] | None) -> tuple[float, float]:
    if step_costs is None:
        return 1.0, 1.0
    if order != "auto":
        raise InputError(f'step_costs is only used by order="auto", got order={order!r}; leave it out')
    costs = check_numbers("step_costs", step_costs)
    if costs.shape != (2,) or not np.isfinite(costs).all() or not (costs > 0).all():
        raise InputError(f"step_costs must be two positive numbers (same tree, other tree), got {step_costs!r}")
    return float(costs[0]), float(costs[1])


def find_auto(ordering: OrderingSet, step_costs: tuple[float, float] = (1.0, 1.0)) -> NDArray[np.int32]:
    """Find the best order known without looking at all states.

    Parameters
    ----------
    ordering : OrderingSet
    step_costs : tuple of two floats, default (1, 1)
        What a step costs after a step in the same tree, and after one in another tree. The mean accuracy over time is
        maximised, an abort being equally likely at any moment.

    Returns
    -------
    int32 array of shape (n_steps,)
    """
    width, sample = _choose_effort(ordering)
    everything = ordering.descent()
    is_limited = width < WIDTH or len(sample) < ordering.n_rows
    searched = ordering.descent(sample) if is_limited else everything
    refined_on = ordering.descent(_sample(ordering, _count_refined(ordering))) if is_limited else everything
    same_tree, other_tree = step_costs
    options = {"steepness": _find_steepness(ordering), "same_tree": same_tree, "other_tree": other_tree}

    def beam(*, down: bool) -> NDArray[np.int32]:
        return _core.beam_order(searched, width=width, down=down, **options)

    squirrel = _core.squirrel_order(everything if ordering.forest.is_classifier else searched, down=False)
    begun = [beam(down=False), squirrel if is_limited else beam(down=True)]
    found = [
        _core.refined_order(refined_on, steps, max_states=WINDOW_STATES, max_sweeps=MAX_SWEEPS, **options)
        for steps in begun
    ]
    if same_tree != other_tree:  # what is best by steps may be best by time too
        found.append(find_auto(ordering))
    # All rows decide, also where the search saw a sample: the answer is never worse than the squirrel on them.
    return min([*found, squirrel], key=lambda steps: mean_loss(everything, steps, step_costs))


def mean_loss(descent: _core.Descent, steps: NDArray[np.int32], step_costs: tuple[float, float]) -> float:
    """Return what an order loses by not answering at once as at the end, summed over its running time."""
    losses = descent.losses(steps)
    return float((losses[:-1] - losses[-1]) @ cost_per_step(steps, step_costs))


def _choose_effort(ordering: OrderingSet) -> tuple[int, NDArray[np.intp]]:
    """Return the beam's width and the rows to search on, so that forests of any size take bounded time."""
    n_classes = max(ordering.forest.n_classes, 2)
    per_row = float(ordering.forest.tree_depth.sum()) * ordering.forest.n_trees * _count_margins(ordering)
    affordable = MAX_WORK / max(per_row, 1.0)
    n_rows = min(ordering.n_rows, max(ROWS_PER_CLASS * n_classes, int(affordable / WIDTH)), max(100, int(affordable)))
    return int(np.clip(affordable / n_rows, 1, WIDTH)), _sample(ordering, n_rows)


def _count_refined(ordering: OrderingSet) -> int:
    """Return on how many rows the windows of an order can be searched; one begins about every fourth step."""
    per_row = float(ordering.forest.tree_depth.sum()) / 4 * WINDOW_STATES * MAX_SWEEPS * _count_margins(ordering)
    return min(ordering.n_rows, max(100, int(MAX_WORK / max(per_row, 1.0))))


def _count_margins(ordering: OrderingSet) -> int:
    return ordering.forest.n_classes if ordering.forest.n_classes > 2 else 1


def _sample(ordering: OrderingSet, n_rows: int) -> NDArray[np.intp]:
    """Return a stratified sample of `n_rows` rows."""
    if n_rows == ordering.n_rows:
        return np.arange(n_rows)
    # Equal steps through the rows sorted by class: no random state, and every class by its share.
    by_class = np.argsort(ordering.targets, kind="stable")
    return by_class[np.linspace(0, ordering.n_rows - 1, n_rows).astype(np.intp)]


def _find_steepness(ordering: OrderingSet) -> float:
    """Return the factor from a margin in fixed point, which counts differences twice, to x."""
    forest = ordering.forest
    if forest.aggregation != "sum":
        return STEEPNESS * ordering.fixed.unit / (2 * forest.score_divisor)
    if not forest.is_classifier:
        return 0.0
    # Boosted scores have no natural scale: the mean of the final margins takes the place of half the trees.
    values, sums = ordering.fixed.values, np.tile(ordering.fixed.start, (ordering.n_rows, 1)).astype(np.int64)
    for tree in range(forest.n_trees):
        sums += values[ordering.leaves[:, tree]]
    two = np.sort(sums, axis=1)[:, -2:]
    return STEEPNESS / (4 * max(float((two[:, 1] - two[:, 0]).mean()), 1.0))
