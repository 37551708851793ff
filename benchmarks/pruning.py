"""Exact pruning at the size of the papers' experiments, and beside their linear program.

The forest has 40 trees grown to purity on 45,523 rows of 50 features, as many as MiniBooNE's training set, and 20,000
rows pay. Seconds are CPU time, all of it on one thread; peak memory is that of the whole process, forest and rows
included. The linear program is the papers' (IP) solved by HiGHS, given more and more trees and rows until one optimum
takes it longer than the limit; exact cuts and linear program solve the same trade-off, and their optima are compared.

    python benchmarks/pruning.py
    python benchmarks/pruning.py --only path
    python benchmarks/pruning.py --only lp --limit 60 --sizes 10x500 10x1000
"""

from __future__ import annotations

import argparse
import copy
import resource
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from report import Report
from scurry.pruning import PruningPath, PruningProblem
from scurry.pruning.methods import at_lambdas, whole_path
from scurry.pruning.programs import linear_program

T = TypeVar("T")

N_TRAIN, N_ROWS, N_FEATURES, N_TREES = 45_523, 20_000, 50, 40
SIZES = ("5x250", "10x500", "10x1000", "20x1000", "20x2000", "40x2000", "40x3000", "40x4000")  # trees x validation rows
N_CUTS = 9


def main() -> None:
    arguments = _arguments()
    report = Report(
        "pruning",
        "Exact pruning",
        f"make_classification, {N_TRAIN:,} x {N_FEATURES}, {N_TREES} trees (entropy) grown to purity, unit costs, "
        f"{N_ROWS:,} rows that pay. Seconds of CPU time, one thread.",
        ["scipy", "scikit-learn"],
    )
    X, forest = _grown()
    if arguments.only in (None, "path"):
        _path(report, forest, X[N_TRAIN:])
    if arguments.only in (None, "lp"):
        _beside_the_linear_program(report, forest, X[N_TRAIN:], arguments.sizes, arguments.limit)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["path", "lp"])
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="trees x validation rows of the linear programs")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a linear program may take")
    return parser.parse_args()


def _grown() -> tuple[NDArray[np.float32], RandomForestClassifier]:
    X, y = make_classification(N_TRAIN + N_ROWS, N_FEATURES, n_informative=10, class_sep=1.55, random_state=0)
    X = X.astype(np.float32)
    model = RandomForestClassifier(N_TREES, criterion="entropy", random_state=0)
    return X, model.fit(X[:N_TRAIN], y[:N_TRAIN])


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _path(report: Report, model: RandomForestClassifier, rows: NDArray[np.float32]) -> None:
    forest = scurry.from_model(model)
    before = _peak_mb()
    calls: list[tuple[int, int]] = []
    seconds, path = _timed(lambda: scurry.prune(forest, rows, progress=lambda *at: calls.append(at)))
    problem = path.problem
    report.say(
        f"{forest.n_nodes:,} nodes, {problem.n_splits:,} splits, {len(problem.closure.item_cost):,} items with "
        f"{len(problem.closure.item_node):,} purchases."
    )
    solving, _ = _timed(lambda: whole_path(problem))
    report.table(
        "The whole exact path",
        ["s", "of which solving", "prunings", "progress calls", "peak MB", "peak MB before"],
        [
            [
                f"{seconds:.1f}",
                f"{solving:.1f}",
                f"{len(path):,}",
                f"{len(calls):,}",
                f"{_peak_mb():.0f}",
                f"{before:.0f}",
            ]
        ],
    )
    _cuts(report, path)
    _jump(report, path)


def _cuts(report: Report, path: PruningPath) -> None:
    lines = []
    for at in np.linspace(0, len(path) - 2, N_CUTS).astype(int):
        # Between two breakpoints, where the optimum is one vertex.
        lam = (path.exact_lambdas[at] + path.exact_lambdas[min(at + 1, len(path) - 2)]) / 2
        seconds, cut = _timed(lambda lam=lam: at_lambdas(path.problem, [lam]))
        lines.append([f"{float(lam):.3g}", f"{seconds:.2f}", f"{cut.costs[0]:.2f}", f"{cut.errors[0]:.4f}"])
    report.table("One cut", ["lambda", "s", "cost", "error"], lines)


def _jump(report: Report, path: PruningPath) -> None:
    at = int(np.argmax(-np.diff(path.costs)))
    dear, cheap = path.costs[at], path.costs[at + 1]
    report.say(
        f"Largest jump: cost {dear:.2f} to {cheap:.2f}, error {path.errors[at]:.4f} to {path.errors[at + 1]:.4f}."
    )
    lines = []
    for share in (0.75, 0.5, 0.25):
        budget = cheap + share * (dear - cheap)
        seconds, point = _timed(lambda budget=budget: path.point(max_cost=budget))
        figures = (budget, seconds, point.cost, point.error, point.bound, point.gap)
        lines.append([f"{figure:.4g}" for figure in figures])
    report.table("Inside it", ["max_cost", "s", "cost", "error", "bound", "gap"], lines)


def _beside_the_linear_program(
    report: Report, model: RandomForestClassifier, rows: NDArray[np.float32], sizes: Sequence[str], limit: float
) -> None:
    lines: list[list[str]] = []
    for size in sizes:
        n_trees, n_rows = map(int, size.split("x"))
        path_s, path = _timed(lambda rows=rows[:n_rows], n=n_trees: scurry.prune(_first_trees(model, n), rows))
        lam = path.exact_lambdas[len(path) // 2]
        cut_s = min(_timed(lambda lam=lam, path=path: at_lambdas(path.problem, [lam]))[0] for _ in range(3))
        lp_s, solved = _timed(lambda lam=lam, path=path: linear_program(path.problem, [lam]))
        lines.append(
            _line(size, path.problem, cut_s, path_s, lp_s, float(abs(solved.objectives[0] - path.objective(lam))))
        )
        report.say(" | ".join(lines[-1]))
        if lp_s > limit:
            break
    times = ["cut s", "whole path s", "LP s", "LP / cut", "LP / path"]
    header = ["trees x rows", "nodes", "purchases", *times, "difference"]
    report.table("One optimum: exact cut and linear program", header, lines)


def _line(size: str, problem: PruningProblem, cut_s: float, path_s: float, lp_s: float, difference: float) -> list[str]:
    counts = [f"{problem.forest.n_nodes:,}", f"{len(problem.closure.item_node):,}"]
    times = [f"{cut_s:.3f}", f"{path_s:.2f}", f"{lp_s:.1f}", f"{lp_s / cut_s:,.0f}", f"{lp_s / path_s:,.0f}"]
    return [size, *counts, *times, f"{difference:.1e}"]


def _first_trees(model: RandomForestClassifier, n_trees: int) -> RandomForestClassifier:
    """The model with its first trees only."""
    smaller = copy.copy(model)
    smaller.estimators_ = model.estimators_[:n_trees]
    return smaller


if __name__ == "__main__":
    main()
