"""Searches for step orders: the squirrels against a vectorised numpy implementation, the exact search, large forests.

Times are CPU seconds of one thread, the best of several runs taken in turn; memory is by how much the search raises the
peak of a process of its own. Both implementations count in the same fixed point, and must find the same order.

    python benchmarks/orders.py --quick
    python benchmarks/orders.py --parts squirrels exact
    python benchmarks/orders.py --huge     # also 10 trees of depth 8: 3.5e9 states, minutes on all cores and 6 GB
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import scurry
from report import Report
from scurry import Forest, _core, datasets
from scurry.orders import find
from scurry.orders.ordering_set import FixedPointValues, OrderingSet

SQUIRREL_CELLS = [
    ("adult", 20, 8),
    ("magic", 50, 8),
    ("satimage", 20, 8),
    ("satimage", 100, 8),
    ("letter", 10, 8),
    ("letter", 30, 8),
    ("covertype", 20, 8),
]
LARGE_CELLS = [("adult", 500, 10), ("covertype", 500, 10)]
N_LARGE_ROWS = 50_000
PARTS = ("squirrels", "large", "exact")


@dataclass(frozen=True)
class Case:
    """A forest trained on half of a dataset, and rows to order it on."""

    forest: Forest
    X: NDArray[np.float32]
    y: NDArray[Any]


def main() -> None:
    arguments = _arguments()
    n_rounds = 1 if arguments.quick else 5
    report = Report(
        "orders",
        "Searching for step orders",
        f"CPU seconds of one thread, best of {n_rounds}; forests of scikit-learn trained on half of each dataset.",
        ["scikit-learn"],
    )
    if "squirrels" in arguments.parts:
        _squirrels(report, SQUIRREL_CELLS[:2] if arguments.quick else SQUIRREL_CELLS, n_rounds)
    if "large" in arguments.parts:
        _large_forests(report, LARGE_CELLS[:1] if arguments.quick else LARGE_CELLS)
    if "exact" in arguments.parts:
        _exact(report, [("adult", 6, 8)] if arguments.quick else [("adult", 8, 8), ("letter", 7, 7)], n_threads=1)
    if arguments.huge:
        _exact(report, [("adult", 10, 8)], n_threads=len(os.sched_getaffinity(0)))
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small forests and one large one")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--huge", action="store_true", help="also the exact search over 3.5e9 states")
    return parser.parse_args()


def _case(dataset: str, n_trees: int, depth: int, *, binary: bool = False, n_rows: int | None = None) -> Case:
    data = datasets.load(dataset)
    X, y = np.nan_to_num(data.X, nan=-1.0), data.y
    if binary and len(np.unique(y)) > 2:
        labels, counts = np.unique(y, return_counts=True)
        y = y == labels[counts.argmax()]
    shuffled = np.random.default_rng(0).permutation(len(X))
    train, rest = shuffled[: len(X) // 2][:50_000], shuffled[len(X) // 2 :]
    # The search costs the same whatever rows it is given; small datasets lend their training rows to reach the number.
    order = rest[: len(X) // 4][:10_000] if n_rows is None else np.concatenate([rest, train])[:n_rows]
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X[train], y[train])
    return Case(scurry.from_model(model), X[order], y[order])


def numpy_squirrel(forest: Forest, X: NDArray[np.float32], y: NDArray[Any], *, down: bool) -> list[int]:
    """The squirrels as one writes them in numpy: every candidate's sums for all rows and classes at once."""
    values = FixedPointValues.of(forest).values
    leaves, parent = forest.apply(X), forest.parent
    targets = np.searchsorted(forest.classes, y)
    paths = []
    for tree, depth in enumerate(forest.tree_depth):
        path = [leaves[:, tree]]
        for level in range(depth, 0, -1):
            path.append(np.where(forest.node_depth[path[-1]] == level, parent[path[-1]], path[-1]))
        paths.append(path[::-1])
    levels = np.zeros(forest.n_trees, int) if down else forest.tree_depth.astype(int)
    step = 1 if down else -1
    sums = sum(values[path[level]] for path, level in zip(paths, levels, strict=True))

    def change(tree: int) -> NDArray[np.int32]:
        path, level = paths[tree], levels[tree]
        return values[path[level + step]] - values[path[level]]

    ends = forest.tree_depth if down else np.zeros(forest.n_trees, int)
    changes = {tree: change(tree) for tree in range(forest.n_trees) if levels[tree] != ends[tree]}
    order = []
    while changes:
        right = {tree: ((sums + delta).argmax(axis=1) == targets).sum() for tree, delta in changes.items()}
        best = max(right, key=lambda tree: (right[tree], -tree))
        sums += changes.pop(best)
        levels[best] += step
        if levels[best] != ends[best]:
            changes[best] = change(best)
        order.append(best)
    return order if down else order[::-1]


def _squirrels(report: Report, cells: list[tuple[str, int, int]], n_rounds: int) -> None:
    rows = []
    for dataset, n_trees, depth in cells:
        case = _case(dataset, n_trees, depth)
        for name, down in (("forward", True), ("backward", False)):
            ours_s = theirs_s = np.inf
            for _ in range(n_rounds):
                seconds, ours = _timed(
                    lambda case=case, down=down: _core.squirrel_order(
                        OrderingSet.of(case.forest, case.X, case.y).descent(), down=down
                    )
                )
                ours_s = min(ours_s, seconds)
                seconds, theirs = _timed(
                    lambda case=case, down=down: numpy_squirrel(case.forest, case.X, case.y, down=down)
                )
                theirs_s = min(theirs_s, seconds)
            same = "same" if ours.tolist() == theirs else "DIFFERENT"
            size = f"{dataset}, {n_trees} × {depth}, {len(case.X):,} rows, {case.forest.n_classes} classes"
            rows.append([size, name, f"{theirs_s:.2f}", f"{ours_s:.3f}", f"{theirs_s / ours_s:.0f} ×", same])
    report.table(
        "Squirrels, from labelled rows to the order",
        ["forest", "order", "numpy, s", "scurry, s", "ratio", "orders"],
        rows,
    )


def _large_forests(report: Report, cells: list[tuple[str, int, int]]) -> None:
    rows = []
    for dataset, n_trees, depth in cells:
        case = _case(dataset, n_trees, depth, binary=True, n_rows=N_LARGE_ROWS)
        for order in ("forward-squirrel", "backward-squirrel", "auto"):
            seconds, found = _timed(lambda case=case, order=order: find(case.forest, case.X, case.y, order=order))
            rows.append(
                [f"{dataset}, {n_trees} × {depth}, {len(case.X):,} rows", order, f"{seconds:.1f}", f"{found.nma:.4f}"]
            )
    report.table("Large forests, two classes", ["forest", "order", "s", "NMA on the ordering rows"], rows)


def _exact(report: Report, cells: list[tuple[str, int, int]], n_threads: int) -> None:
    rows = []
    for dataset, n_trees, depth in cells:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            case = _case(dataset, n_trees, depth)  # here, so that training leaves nothing for the search to use again
            said, cpu_s, wall_s, megabytes, nma = pool.apply(_search_alone, (case, n_threads))
        rows.append(
            [f"{dataset}, {n_trees} × {depth}", said, f"{cpu_s:.1f}", f"{wall_s:.1f}", f"{megabytes:.0f}", f"{nma:.4f}"]
        )
    header = ["forest", "said beforehand", "CPU s", "wall s", "MB added", "NMA"]
    report.table(f"The exact search, {n_threads} thread(s)", header, rows)


def _search_alone(case: Case, n_threads: int) -> tuple[str, float, float, float, float]:
    """Run in a process of its own: what was said, CPU and wall seconds, megabytes added, NMA."""
    find(case.forest, case.X, case.y, order="backward-squirrel")
    said: list[str] = []

    log, reports = logging.getLogger("scurry"), count()
    log.setLevel(logging.INFO)
    log.addFilter(lambda record: said.append(record.getMessage()) or True)

    def progress(n_done: int, n_total: int) -> None:
        if n_done in (0, n_total) or next(reports) % 100 == 0:
            print(f"{case.forest.n_trees} trees: {n_done / n_total:4.0%} {said[0]}", flush=True)

    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before, wall = _status_bytes("VmRSS"), time.perf_counter()
    seconds, found = _timed(
        lambda: find(case.forest, case.X, case.y, order="optimal", n_threads=n_threads, progress=progress)
    )
    wall = time.perf_counter() - wall
    return said[0], seconds, wall, (_status_bytes("VmHWM") - before) / 1e6, found.nma


def _status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
