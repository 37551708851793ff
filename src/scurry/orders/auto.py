"""Auto order: beam search on a smooth score, refined by exact search in windows.

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

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.orders.curves import cost_per_step
from scurry.orders.ordering_set import OrderingSet

STEEPNESS = 10.0
WIDTH = 16
WINDOW_STATES = 256
MAX_SWEEPS = 4
MAX_WORK = 2e10
"""Margins looked at by a beam, or by the refinement of an order; a few seconds."""
ROWS_PER_CLASS = 1000
"""Rows a sample keeps, per class, before the beam is narrowed."""


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
