"""How long answers take: runners timed side by side on this machine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from scurry.forest import thread_count

_MAX_ROWS = 20_000  # enough for a steady time per row
_ROUNDS_BATCH, _ROUNDS_ROW = 5, 100  # a single row takes microseconds, so its shortest time needs more rounds


class Runner(NamedTuple):
    """A way to get answers: a function of rows and a number of threads. `table` replaces the rows, if given."""

    name: str
    answer: Callable[[Any, int], object]
    table: Any = None


class Lap(NamedTuple):
    """A task, and the shortest time in seconds of each runner."""

    task: str
    seconds: list[float]


def measure_laps(runners: Sequence[Runner], rows: NDArray[Any]) -> list[Lap]:
    """Time runners on a batch with one thread, on a batch with all cores, and on a single row.

    Parameters
    ----------
    runners : sequence of Runner
    rows : array of shape (n_rows, n_features)

    Returns
    -------
    list of Lap
    """
    n_rows, n_cores = min(len(rows), _MAX_ROWS), thread_count(None)
    tasks = {f"{n_rows:,} rows, 1 thread": (n_rows, 1, _ROUNDS_BATCH)}
    if n_cores > 1:
        tasks[f"{n_rows:,} rows, {n_cores} threads"] = (n_rows, n_cores, _ROUNDS_BATCH)
    tasks["one row"] = (1, 1, _ROUNDS_ROW)
    laps = []
    for task, (count, n_threads, n_rounds) in tasks.items():
        runs = [_prepare(runner, rows, count, n_threads) for runner in runners]
        # Source models may ignore n_jobs and take all cores through OpenMP.
        with threadpool_limits(n_threads, "openmp"):
            laps.append(Lap(task, race(n_rounds, *runs)))
    return laps


def wrap_model(model: Any, X: Any) -> Runner:
    """Make a runner of the source model on the user's own table.

    Parameters
    ----------
    model : object with a predict method
        A shallow copy is run, whose ``n_jobs`` (if it has any) is the number of threads.
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    Runner
    """
    own = copy.copy(model)  # the user's model keeps its n_jobs

    def answer(table: Any, n_threads: int) -> object:
        if hasattr(own, "n_jobs"):
            own.n_jobs = n_threads
        return own.predict(table)

    return Runner(type(model).__name__, answer, X)


def _prepare(runner: Runner, rows: NDArray[Any], count: int, n_threads: int) -> Callable[[], object]:
    table = nw.from_native(rows if runner.table is None else runner.table, eager_only=True, pass_through=True)
    some = table[:count].to_native() if isinstance(table, nw.DataFrame) else np.asanyarray(table)[:count]
    return partial(runner.answer, some, n_threads)


def race(n_rounds: int, *runs: Callable[[], object]) -> list[float]:
    """Return the shortest time of each run in seconds.

    Parameters
    ----------
    n_rounds : int
    *runs : callable

    Returns
    -------
    list of float

    Examples
    --------
    >>> len(race(3, lambda: None, lambda: sum(range(1000))))
    2
    """
    best = [float("inf")] * len(runs)
    # Runs take turns, so that a slow moment of the machine affects all of them.
    for _ in range(n_rounds):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best
