"""Search: find a step order by name."""

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
from scurry.orders.auto import find_auto
from scurry.orders.curves import mean_over_time, measure_curve, nma
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
