"""How long answers take: runners timed side by side on this machine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scurry.errors import require_extra
from scurry.forest import as_frame, count_rows, thread_count

_MAX_ROWS = 20_000  # enough for a steady time per row
_ROUNDS_BATCH, _ROUNDS_ROW = 5, 100  # a single row takes microseconds, so its shortest time needs more rounds
_SINGLE_ROWS, _MOST_CALLS = 200, 5_000  # different rows, one by one
_MIN_ROUNDS, _MAX_SECONDS = 2, 2.0  # of a task: the first round also pays for what is built at the first use


class Runner(NamedTuple):
    """A way to get answers: a function of rows and a number of threads. `table` replaces the user's, if given.

    `one_row` makes a function of a single row, where there is one for that.
    """

    name: str
    answer: Callable[[Any, int], object]
    table: Any = None
    one_row: Callable[[], Callable[[Any], object]] | None = None


class Lap(NamedTuple):
    """A task, and the shortest time in seconds of each runner."""

    task: str
    seconds: list[float]


def measure_laps(runners: Sequence[Runner], X: Any) -> list[Lap]:
    """Time runners on a batch with one thread, on a batch with all cores, and on a single row.

    All of them get what the user has, so that nobody's conversion is left out. A task ends after about two seconds,
    and after two rounds at least.

    Parameters
    ----------
    runners : sequence of Runner
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    list of Lap
    """
    with require_extra("fit", "timing"):
        from threadpoolctl import threadpool_limits
    n_rows, n_cores = min(count_rows(X), _MAX_ROWS), thread_count(None)
    tasks = {f"{n_rows:,} rows, 1 thread": (n_rows, 1, _ROUNDS_BATCH)}
    if n_cores > 1:
        tasks[f"{n_rows:,} rows, {n_cores} threads"] = (n_rows, n_cores, _ROUNDS_BATCH)
    tasks["one row, predict"] = (1, 1, _ROUNDS_ROW)
    laps = []
    for task, (count, n_threads, n_rounds) in tasks.items():
        runs = [_prepare(runner, X, count, n_threads) for runner in runners]
        # Source models may ignore n_jobs and take all cores through OpenMP.
        with threadpool_limits(n_threads, "openmp"):
            laps.append(Lap(task, race(n_rounds, *runs, max_seconds=_MAX_SECONDS)))
    return laps


def measure_rows(runners: Sequence[Runner], X: Any, rows: Any = None) -> list[Lap]:
    """Time runners on rows that come one by one: the median and the 99th percentile of what different rows take.

    Runners with a function of one row are timed by it, as a service would call it. Of each row the first call counts
    too, if there is time for one round only: two seconds end it.

    Parameters
    ----------
    runners : sequence of Runner
    X : array or DataFrame of shape (n_rows, n_features)
    rows : array of shape (n_rows, n_features), optional
        The same rows as functions of one row read them; by default each gets a table of one row.

    Returns
    -------
    list of Lap
    """
    with require_extra("fit", "timing"):
        from threadpoolctl import threadpool_limits
    n_rows = min(count_rows(X), _SINGLE_ROWS)
    runs = [_prepare_rows(runner, X, rows, n_rows) for runner in runners]
    taken: list[list[float]] = [[] for _ in runners]
    deadline = time.perf_counter() + _MAX_SECONDS
    with threadpool_limits(1, "openmp"):
        for first, *_ in runs:
            first()  # pays for what is built at the first use
        while not taken[0] or (time.perf_counter() < deadline and len(taken[0]) < _MOST_CALLS):
            for at in range(n_rows):
                for times, calls in zip(taken, runs, strict=True):
                    start = time.perf_counter()
                    calls[at]()
                    times.append(time.perf_counter() - start)
    by = "one_row()" if any(runner.one_row is not None for runner in runners) else "one by one"
    said = f"{by}, {n_rows:,} rows"
    return [
        Lap(f"{said}, {name}", [float(np.quantile(times, share)) for times in taken])
        for name, share in (("median", 0.5), ("p99", 0.99))
    ]


def wrap_model(model: Any) -> Runner:
    """Make a runner of the source model.

    Parameters
    ----------
    model : object with a predict method
        A shallow copy is run, whose ``n_jobs`` (if it has any) is the number of threads.

    Returns
    -------
    Runner
    """
    own = copy.copy(model)  # the user's model keeps its n_jobs

    def answer(table: Any, n_threads: int) -> object:
        if hasattr(own, "n_jobs"):
            own.n_jobs = n_threads
        return own.predict(table)

    return Runner(type(model).__name__, answer)


def _prepare(runner: Runner, X: Any, count: int, n_threads: int, start: int = 0) -> Callable[[], object]:
    return partial(runner.answer, _slice(X if runner.table is None else runner.table, start, count), n_threads)


def _prepare_rows(runner: Runner, X: Any, rows: Any, n_rows: int) -> list[Callable[[], object]]:
    if runner.one_row is None:
        return [_prepare(runner, X, 1, 1, at) for at in range(n_rows)]
    call = runner.one_row()
    return [partial(call, _slice(X, at, 1) if rows is None else rows[at]) for at in range(n_rows)]


def _slice(table: Any, start: int, count: int) -> Any:
    frame = as_frame(table)
    if frame is not None:
        return frame[start : start + count].to_native()
    return (table.tocsr() if hasattr(table, "tocsr") else np.asanyarray(table))[start : start + count]


def race(n_rounds: int, *runs: Callable[[], object], max_seconds: float = float("inf")) -> list[float]:
    """Return the shortest time of each run in seconds.

    Parameters
    ----------
    n_rounds : int
    *runs : callable
    max_seconds : float, optional
        No round begins after this time, except the first two.

    Returns
    -------
    list of float

    Examples
    --------
    >>> len(race(3, lambda: None, lambda: sum(range(1000))))
    2
    """
    best, spent = [float("inf")] * len(runs), 0.0
    # Runs take turns, so that a slow moment of the machine affects all of them.
    for n_done in range(n_rounds):
        if n_done >= _MIN_ROUNDS and spent >= max_seconds:
            break
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            best[index], spent = min(best[index], seconds), spent + seconds
    return best
