"""Timing of engines side by side: they take turns, and the best of several rounds counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

import scurry
from cells import Task
from engines import Engine, Refused, ScurryElsewhere, build, engines_of

T = TypeVar("T")

THREADS = (1, 2)
N_SINGLE_ROWS = 256
MAX_BATCH_S = 30.0  # an engine that has taken so long for its batches leaves out the other rounds
_MAX_SETTLE_S = 1.0


@dataclass(frozen=True)
class Speed:
    """What one engine did in one cell."""

    rows_per_s: dict[int, float]  # by number of threads
    rows_per_cpu_s: float  # one thread, by CPU time, in which other work on the machine does not count
    p50_us: float
    p99_us: float
    n_changed: int


@dataclass(frozen=True)
class Effort:
    """What scurry needs before its first prediction, and the memory it then holds."""

    n_trees: int
    n_nodes: int
    max_depth: int
    import_s: float
    lowering_s: float
    node_bytes: int
    leaf_bytes: int


@dataclass(frozen=True)
class Result:
    """One cell: the speed of every engine that runs it, the reason of every one that does not, scurry's effort."""

    speeds: dict[str, Speed]
    refused: dict[str, str]
    effort: Effort | None  # None if scurry refuses
    smaller: dict[str, Speed] = field(default_factory=dict)  # scurry with smaller instruction sets, by their names


def compare(task: Task, n_repeats: int, n_row_calls: int, smaller: Sequence[str] = ()) -> Result:
    """Run the task's model on every engine, side by side, and scurry with smaller instruction sets too."""
    ready: dict[str, Engine] = {}
    changed: dict[str, int] = {}
    refused: dict[str, str] = {}
    for kind in engines_of(task.model):
        try:
            engine = build(kind, task.model)
            changed[kind.name] = _count_changed(engine, task)
            ready[kind.name] = engine
        except Refused as reason:
            refused[kind.name] = str(reason)
    for level in smaller if "scurry" in ready else ():
        ready[level] = ScurryElsewhere(task.model, level, task.batch, N_SINGLE_ROWS)
        changed[level] = _count_changed_in_batch(ready[level], task)
    batches = _race_batches(ready, task, n_repeats)
    singles = _race_single_rows(ready, task, n_repeats, n_row_calls)
    speeds = {
        name: Speed(
            {n_threads: len(task.batch) / batches[name, n_threads][0] for n_threads in THREADS},
            len(task.batch) / batches[name, 1][1],
            *singles[name],
            changed[name],
        )
        for name in ready
    }
    for level in smaller:
        if isinstance(elsewhere := ready.get(level), ScurryElsewhere):
            elsewhere.close()
    of_smaller = {level: speeds.pop(level) for level in smaller if level in speeds}
    return Result(speeds, refused, _effort(task) if "scurry" in ready else None, of_smaller)


def _effort(task: Task) -> Effort:
    imports, lowerings = [], []
    for _ in range(3):
        start = time.perf_counter()
        forest = scurry.from_model(task.model)
        imported = time.perf_counter()
        forest.predict(task.batch[:1])  # the first prediction lowers the forest
        imports.append(imported - start)
        lowerings.append(time.perf_counter() - imported)
    return Effort(
        forest.n_trees,
        forest.n_nodes,
        forest.max_depth,
        min(imports),
        min(lowerings),
        forest.engine.node_bytes,
        forest.engine.leaf_bytes,
    )


def _count_changed(engine: Engine, task: Task) -> int:
    """Held-out rows whose label differs from the source model's, in a batch or asked one by one."""
    held_out = task.batch[: len(task.expected)]
    try:
        call = engine.with_threads(1)
        changed = engine.labels(call(engine.prepare(held_out))) != task.expected
        call = engine.for_one_row()
        for at, row in enumerate(_single_rows(engine, task)):
            changed[at] |= np.ravel(engine.labels(call(row)))[0] != task.expected[at]
    except Exception as error:
        raise Refused(f"fails to predict: {error}") from error
    return int(changed.sum())


def _count_changed_in_batch(engine: Engine, task: Task) -> int:
    held_out = task.batch[: len(task.expected)]
    return int((engine.labels(engine.with_threads(1)(held_out)) != task.expected).sum())


def _single_rows(engine: Engine, task: Task) -> list[Any]:
    return [engine.prepare(task.batch[at : at + 1].copy()) for at in range(N_SINGLE_ROWS)]


def _settle() -> None:
    """Wait until this process is idle: some engines' threads spin for up to 80 ms after a batch."""
    give_up = time.perf_counter() + _MAX_SETTLE_S
    while time.perf_counter() < give_up:
        start = time.process_time()
        time.sleep(0.01)
        if time.process_time() - start < 0.0005:
            return


def _rounds(turns: Sequence[T], n_rounds: int) -> Iterator[T]:
    """Every turn once a round; each round starts with another, so that none always follows the same one."""
    for first in range(n_rounds):
        at = first % max(len(turns), 1)
        yield from (*turns[at:], *turns[:at])


def _race_batches(
    engines: Mapping[str, Engine], task: Task, n_repeats: int
) -> dict[tuple[str, int], tuple[float, float]]:
    """The shortest time of a batch in seconds, by engine and number of threads: wall, and CPU."""
    batches = {name: engine.prepare(task.batch) for name, engine in engines.items()}
    heads = {name: engine.prepare(task.batch[:64]) for name, engine in engines.items()}
    best = {(name, n_threads): (float("inf"), float("inf")) for name in engines for n_threads in THREADS}
    spent = dict.fromkeys(best, 0.0)
    for name, n_threads in _rounds(list(best), n_repeats):
        if spent[name, n_threads] > MAX_BATCH_S:
            continue
        _settle()
        wall, cpu = engines[name].time_batch(heads[name], batches[name], n_threads)
        spent[name, n_threads] += wall
        best_wall, best_cpu = best[name, n_threads]
        best[name, n_threads] = (min(best_wall, wall), min(best_cpu, cpu))
    return best


def _race_single_rows(
    engines: Mapping[str, Engine], task: Task, n_repeats: int, n_calls: int
) -> dict[str, tuple[float, float]]:
    """p50 and p99 in µs of single-row calls, each the lowest of the rounds; every call asks the next of the rows."""
    rows = {name: _single_rows(engine, task) for name, engine in engines.items()}
    best = dict.fromkeys(engines, (float("inf"), float("inf")))
    for name in _rounds(list(engines), n_repeats):
        _settle()
        p50, p99 = np.percentile(engines[name].time_rows(rows[name], n_calls), [50, 99])
        best[name] = (min(best[name][0], float(p50)), min(best[name][1], float(p99)))
    return best
