"""Optimal and Unoptimal Order.

Biebert, Hakert, Heider, Kuhse, Buschjäger, Chen: "Jump Like A Squirrel: Optimized Execution Step Order for Anytime
Random Forest Inference", arXiv:2603.01588, section IV-B.

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
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.errors import InfeasibleError
from scurry.orders.ordering_set import OrderingSet

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
        "optimal order: %s states, %s, about %s", f"{n_states:,}", _format_bytes(size.memory), _format_seconds(seconds)
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
        f"{_format_bytes(size.memory)}, more than max_memory = {_format_bytes(max_memory)}. {nearest}"
        'Use order="auto", whose orders come close for forests of any size'
    )


def _format_bytes(n: int) -> str:
    if n < 1000:
        return f"{n} B"
    size = n / 1000
    for unit in ("kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.1f} {unit}" if size < 10 else f"{size:.0f} {unit}" if size < 1e6 else f"{size:.1e} {unit}"


def _format_seconds(n: float) -> str:
    return f"{n:.2g} s" if n < 100 else f"{n / 60:.0f} min"
