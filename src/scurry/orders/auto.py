"""Our order: beam search on a smooth score, refined by exact search in windows.

The squirrels are greedy; and they, like the Optimal Order, maximise accuracy on the ordering rows, whose last fraction
of a per cent is noise. Here a state's score is ``#right + sum of (1 + x / (1 + |x|)) / 2`` over rows, with
``x = 10 * margin / n_trees``: rows near their decision count by how near they are.

1. Beams of 16 states go down from the roots and up from the leaves.
2. Each order found is refined: runs of steps, as long as there are at most 256 states between their ends, are replaced
   by the best of all ways between the same two states.
3. Of these two and the Backward Squirrel Order the one that does best on all rows is kept.

Forests too large for that are searched with one beam, from the leaves up, on a sample of the rows (every class by its
share) and narrower if need be; its order and the Backward Squirrel Order are refined on as many rows as time allows.
The beam that goes down is left out because it falls behind where there are many trees to choose from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.orders.curves import costs_of
from scurry.orders.ordering_set import OrderingSet

STEEPNESS = 10.0
WIDTH = 16
WINDOW_STATES = 256
MAX_SWEEPS = 4
MAX_WORK = 2e10
"""Margins looked at by a beam, or by the refinement of an order; a few seconds."""
ROWS_PER_CLASS = 1000
"""Rows a sample keeps, per class, before the beam is narrowed."""


def auto(rows: OrderingSet, step_costs: tuple[float, float] = (1.0, 1.0)) -> NDArray[np.int32]:
    """The best order known without looking at all states.

    Parameters
    ----------
    rows : OrderingSet
    step_costs : tuple of two floats, default (1, 1)
        What a step costs after a step in the same tree, and after one in another tree. The mean accuracy over time is
        maximised, an abort being equally likely at any moment.

    Returns
    -------
    int32 array of shape (n_steps,)
    """
    width, sample = _effort(rows)
    everything = rows.descent()
    is_limited = width < WIDTH or len(sample) < rows.n_rows
    searched = rows.descent(sample) if is_limited else everything
    refined_on = rows.descent(_sample(rows, _n_refined(rows))) if is_limited else everything
    same_tree, other_tree = step_costs
    options = {"steepness": _steepness(rows), "same_tree": same_tree, "other_tree": other_tree}

    def beam(*, down: bool) -> NDArray[np.int32]:
        return _core.beam_order(searched, width=width, down=down, **options)

    squirrel = _core.squirrel_order(everything if rows.forest.is_classifier else searched, down=False)
    begun = [beam(down=False), squirrel if is_limited else beam(down=True)]
    found = [
        _core.refined_order(refined_on, steps, max_states=WINDOW_STATES, max_sweeps=MAX_SWEEPS, **options)
        for steps in begun
    ]
    if same_tree != other_tree:  # what is best by steps may be best by time too
        found.append(auto(rows))
    return min([*found, squirrel], key=lambda steps: mean_loss(everything, steps, step_costs))


def mean_loss(descent: _core.Descent, steps: NDArray[np.int32], step_costs: tuple[float, float]) -> float:
    """What an order loses by not answering at once as at the end, summed over its running time."""
    losses = descent.losses(steps)
    return float((losses[:-1] - losses[-1]) @ costs_of(steps, step_costs))


def _effort(rows: OrderingSet) -> tuple[int, NDArray[np.intp]]:
    """The beam's width and the rows to search on, so that forests of any size take bounded time."""
    n_classes = max(rows.forest.n_classes, 2)
    per_row = float(rows.forest.tree_depth.sum()) * rows.forest.n_trees * _n_margins(rows)
    affordable = MAX_WORK / max(per_row, 1.0)
    n_rows = min(rows.n_rows, max(ROWS_PER_CLASS * n_classes, int(affordable / WIDTH)), max(100, int(affordable)))
    return int(np.clip(affordable / n_rows, 1, WIDTH)), _sample(rows, n_rows)


def _n_refined(rows: OrderingSet) -> int:
    """How many rows the windows of an order can be searched on: one begins about every fourth step."""
    per_row = float(rows.forest.tree_depth.sum()) / 4 * WINDOW_STATES * MAX_SWEEPS * _n_margins(rows)
    return min(rows.n_rows, max(100, int(MAX_WORK / max(per_row, 1.0))))


def _n_margins(rows: OrderingSet) -> int:
    return rows.forest.n_classes if rows.forest.n_classes > 2 else 1


def _sample(rows: OrderingSet, n_rows: int) -> NDArray[np.intp]:
    """So many rows, every class by its share."""
    if n_rows == rows.n_rows:
        return np.arange(n_rows)
    by_class = np.argsort(rows.targets, kind="stable")
    return by_class[np.linspace(0, rows.n_rows - 1, n_rows).astype(np.intp)]


def _steepness(rows: OrderingSet) -> float:
    """The factor from a margin in fixed point, which counts differences twice, to x."""
    forest = rows.forest
    if forest.aggregation != "sum":
        return STEEPNESS * rows.readout.unit / (2 * forest.score_divisor)
    if not forest.is_classifier:
        return 0.0
    # Boosted scores have no natural scale: the mean of the final margins takes the place of half the trees.
    values, sums = rows.readout.values, np.tile(rows.readout.start, (rows.n_rows, 1)).astype(np.int64)
    for tree in range(forest.n_trees):
        sums += values[rows.leaves[:, tree]]
    two = np.sort(sums, axis=1)[:, -2:]
    return STEEPNESS / (4 * max(float((two[:, 1] - two[:, 0]).mean()), 1.0))
