"""How long answers take, measured here and now."""

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

_MAX_ROWS = 20_000
_ROUNDS_BATCH, _ROUNDS_ROW = 5, 100


class Runner(NamedTuple):
    """A way to get answers, to be timed: called with rows (those of the test, or a table of its own) and threads."""

    name: str
    answer: Callable[[Any, int], object]
    table: Any = None


class Lap(NamedTuple):
    """The shortest times in seconds, one for each runner, of a task."""

    task: str
    seconds: list[float]


def laps(runners: Sequence[Runner], rows: NDArray[Any]) -> list[Lap]:
    """Let runners answer a batch on one thread, on all cores, and a single row.

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
    found = []
    for task, (count, n_threads, n_rounds) in tasks.items():
        runs = [_run(runner, rows, count, n_threads) for runner in runners]
        with threadpool_limits(n_threads, "openmp"):
            found.append(Lap(task, race(n_rounds, *runs)))
    return found


def source_runner(model: Any, X: Any) -> Runner:
    """The model itself, as the user holds it, on the user's own table.

    Parameters
    ----------
    model : object with a predict method
        A shallow copy is run, whose ``n_jobs`` (if it has any) is the number of threads.
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    Runner
    """
    own = copy.copy(model)

    def answer(table: Any, n_threads: int) -> object:
        if hasattr(own, "n_jobs"):
            own.n_jobs = n_threads
        return own.predict(table)

    return Runner(type(model).__name__, answer, X)


def _run(runner: Runner, rows: NDArray[Any], count: int, n_threads: int) -> Callable[[], object]:
    table = nw.from_native(rows if runner.table is None else runner.table, eager_only=True, pass_through=True)
    some = table[:count].to_native() if isinstance(table, nw.DataFrame) else np.asanyarray(table)[:count]
    return partial(runner.answer, some, n_threads)


def race(n_rounds: int, *runs: Callable[[], object]) -> list[float]:
    """The shortest time of each run in seconds; they take turns, so that a slow moment of the machine hits all.

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
    for _ in range(n_rounds):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best
