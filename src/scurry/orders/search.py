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
"""

from __future__ import annotations

import difflib
import time
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
from scurry.errors import InputError
from scurry.forest import Forest, thread_count
from scurry.orders.curves import cost_per_step, mean_over_time, measure_curve, nma
from scurry.orders.fixed_point import can_be_weighted
from scurry.orders.optimal import find_optimal
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.rankings import RANKINGS, find_ranked
from scurry.plan import READOUTS

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
