"""Optimally pruning decision tree ensembles with feature cost: Table 1, published against obtained.

BudgetRF (threshold-Pairs, min-max) grows the forests, unit costs. The ensemble is pruned as a whole (exact path) or
tree by tree, for the same trade-offs, and errors and costs on test rows are averaged over repeats and folds. The paper
matches the two methods at a low and a high error level. Its forests are not ours, so its levels are kept relative to
the error of the unpruned forest, and what is compared is the cost, in percent of the unpruned cost, down to which
each method's curve stays at the level or comes back to it. The paper's forests vote; the mean of the trees' class
shares, which is how scurry reads a forest, is shown beside it.

    python benchmarks/papers/ensemble_pruning.py --quick
    python benchmarks/papers/ensemble_pruning.py --repeats 10 --datasets sonar heart_statlog
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from cost_curves import Rows, Task, kept, load, measured, split
from report import Report, subplots
from scurry import Forest
from scurry.forest import ARRAYS, HEADER
from scurry.growing import BudgetedForestClassifier
from scurry.pruning import PruningPath

LAMBDAS = np.geomspace(1e-6, 1e-1, 41)
FOREST_SIZES, QUICK_SIZES = (36_603, 15_688, 58_101), (3_000, 1_500, 5_000)
N_FOLDS = 10
LEVELS = ("low", "high")
ELSEWHERE = ("miniboone", "cifar10")


@dataclass(frozen=True)
class Published:
    """A row of Table 1: error unpruned and at the two levels, cost unpruned, costs in percent of it."""

    title: str
    n_trees: int
    cost: float
    errors: tuple[float, float, float]
    ensemble: tuple[float, float]
    individual: tuple[float, float]


TABLE_1 = {
    "covertype": Published("Forest", 40, 13.90, (0.1122, 0.1135, 0.1220), (88.10, 65.16), (93.24, 78.82)),
    "sonar": Published("Sonar", 90, 49.97, (0.1539, 0.1838, 0.2121), (45.20, 16.48), (74.31, 28.11)),
    "heart_statlog": Published("Heart", 90, 12.17, (0.1721, 0.1711, 0.1977), (73.26, 47.75), (96.20, 75.86)),
}


def main() -> None:
    arguments = _arguments()
    report = Report(
        "ensemble-pruning",
        "Optimally pruning decision tree ensembles with feature cost: published against obtained",
        f"{arguments.repeats} repeat(s) of {N_FOLDS}-fold cross-validation for Sonar and Heart, "
        f"{arguments.forest_repeats} of Forest, whose sizes are the paper's"
        + (" (--quick: 1 repeat, 3,000 rows, 10 trees)." if arguments.quick else "."),
        ["scikit-learn"],
    )
    found: dict[str, NDArray[np.float64]] = {}
    for name in arguments.datasets:
        if load(name, report) is not None:
            found[name] = _measured(name, arguments)
    if found:
        _table(report, found)
        _figure(report, found)
    for name in ELSEWHERE:
        load(name, report)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, trees and repeats")
    parser.add_argument("--repeats", type=int, default=10, help="of the cross-validations")
    parser.add_argument("--forest-repeats", type=int, default=2, help="of covertype")
    parser.add_argument("--datasets", nargs="+", default=list(TABLE_1), choices=list(TABLE_1))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = arguments.forest_repeats = 1
    return arguments


def _measured(name: str, arguments: argparse.Namespace) -> NDArray[np.float64]:
    """Mean and standard deviation over repeats; shape (2, 2, 2, 1 + n_lambdas, 2).

    The last four axes: trees joined by votes or mean; ensemble and individual pruning; unpruned and every trade-off;
    cost and error.
    """
    n_repeats = arguments.forest_repeats if name == "covertype" else arguments.repeats
    prefix = "ensemble-quick" if arguments.quick else "ensemble"
    runs = []
    for seed in range(n_repeats):
        one = kept(f"{prefix}-{name}-{seed}", lambda seed=seed: {"runs": _repeat(name, seed, arguments.quick)})
        runs += one["runs"]
    everything = np.array(runs)
    return np.stack([everything.mean(axis=0), everything.std(axis=0)])


def _repeat(name: str, seed: int, quick: bool) -> list[Any]:
    data = scurry.datasets.load(name)
    n_trees = 10 if quick else TABLE_1[name].n_trees
    if name == "covertype":
        parts = split(data.X, data.y, QUICK_SIZES if quick else FOREST_SIZES, seed)
        return [_both(Task(*parts, {}), n_trees, seed)]
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    results = []
    for fold, (train, test) in enumerate(folds.split(data.X, data.y)):
        rows: Rows = (data.X[train], data.y[train])  # too few for validation rows of their own
        results.append(_both(Task(rows, rows, (data.X[test], data.y[test]), {}), n_trees, 1000 * seed + fold))
    return results


def _both(task: Task, n_trees: int, seed: int) -> list[Any]:
    """Cost and error of a forest; axes: how trees are joined, how they are pruned, trade-off (the first unpruned)."""
    forest = BudgetedForestClassifier(n_trees, random_state=seed).fit(*task.train).forest_
    paths = [scurry.prune(forest, task.validation[0], method=method) for method in ("exact", "independent")]
    return [
        [[measured(joined(forest), task.test, task), *_by_lambda(path, joined, task)] for path in paths]
        for joined in JOINED.values()
    ]


def _by_lambda(path: PruningPath, joined: Callable[[Forest], Forest], task: Task) -> list[tuple[float, float]]:
    places = np.searchsorted(path.lambdas, LAMBDAS)
    once = {at: measured(joined(path[int(at)]), task.test, task) for at in np.unique(places)}
    return [once[at] for at in places]


def _as_votes(forest: Forest) -> Forest:
    """The same trees, asked for their majority classes instead of their class shares."""
    parts: dict[str, Any] = {name: getattr(forest, name) for name in (*ARRAYS, *HEADER)}
    return Forest(**parts | {"aggregation": "vote"}, classes=forest.classes)


JOINED: dict[str, Callable[[Forest], Forest]] = {"votes": _as_votes, "mean": lambda forest: forest}


def _share_at(curve: NDArray[np.float64], level: float) -> float:
    """The lowest cost, in percent of the unpruned one, at which the curve is at or below an error; NaN if nowhere."""
    costs, errors = curve[:, 0], curve[:, 1]
    good = np.flatnonzero(errors <= level + 1e-12)
    if not len(good):
        return float("nan")
    at = good[-1]
    if at + 1 == len(curve):
        return 100 * float(costs[at] / costs[0])
    weight = (level - errors[at]) / (errors[at + 1] - errors[at])
    return 100 * float((costs[at] + weight * (costs[at + 1] - costs[at])) / costs[0])


def _table(report: Report, found: dict[str, NDArray[np.float64]]) -> None:
    unpruned, rows = [], []
    for name, (mean, deviation) in found.items():
        paper = TABLE_1[name]
        for at, joined in enumerate(JOINED):
            (cost, error), (cost_sd, error_sd) = mean[at, 0, 0], deviation[at, 0, 0]
            cells = [f"{paper.cost:.2f}", f"{cost:.2f} ± {cost_sd:.2f}", f"{paper.errors[0]:.4f}"]
            unpruned.append([f"{paper.title}, {joined}", *cells, f"{error:.4f} ± {error_sd:.4f}"])
            rows += [_level(paper, level, joined, mean[at], error) for level in LEVELS]
    report.table("Unpruned forests", ["data", "cost, paper", "cost", "error, paper", "error"], unpruned)
    header = ["data, level", "error level", "ensemble %, paper", "ensemble %", "individual %, paper", "individual %"]
    report.table("Table 1: cost in percent of the unpruned cost", header, rows)


def _level(paper: Published, level: str, joined: str, curves: NDArray[np.float64], unpruned_error: float) -> list[str]:
    at = LEVELS.index(level)
    # Heart's low level is 0.6 % below the unpruned error: read as no loss of accuracy, since noise decides about less.
    wanted = unpruned_error * max(paper.errors[at + 1] / paper.errors[0], 1.0)
    ensemble, individual = (_share_at(curve, wanted) for curve in curves)
    cells = [f"{wanted:.4f}", f"{paper.ensemble[at]:.1f}", _percent(ensemble)]
    return [f"{paper.title}, {level}, {joined}", *cells, f"{paper.individual[at]:.1f}", _percent(individual)]


def _percent(share: float) -> str:
    return f"{share:.1f}" if np.isfinite(share) else "not reached"


def _figure(report: Report, found: dict[str, NDArray[np.float64]]) -> None:
    figure, axes = subplots(1, len(found), (4.6, 3.8))
    for axis, (name, both) in zip(axes[0], found.items(), strict=True):
        for curve, title in zip(both[0, 0], ("ensemble (exact)", "individual"), strict=True):
            axis.plot(curve[1:, 0], curve[1:, 1], marker=".", label=title)
        axis.plot(*both[0, 0, 0, 0], "k*", label="unpruned")
        axis.set(title=TABLE_1[name].title, xlabel="mean cost per row", ylabel="test error")
        axis.legend(fontsize="small")
    report.figure("table-1-curves", figure)


if __name__ == "__main__":
    main()
