"""Pruning random forests for prediction on a budget: the paper's comparisons on the data at hand.

Forest is covertype with the paper's split sizes and 40 trees grown by entropy on all features at every split; costs are
1 for each feature. The five cost data sets have real prices, discounts for groups of tests included; they are not in
the paper. Their forests are grown without regard to cost, as the paper does for Scene15; BudgetRF regards it. The paper
prints its results as figures, so what is set beside them is who is below whom.

    python benchmarks/papers/budgetprune.py --quick
    python benchmarks/papers/budgetprune.py --repeats 3 --parts forest costs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from cost_curves import (
    Task,
    grown_points,
    kept,
    load,
    misers,
    of_points,
    pruned,
    report_curves,
    report_objectives,
    split,
)
from report import Report
from scurry.evaluation import feature_bill
from scurry.growing import BudgetedForestClassifier

SIZES = {"covertype": (36_603, 15_688, 58_101), "miniboone": (45_523, 19_510, 65_031)}
QUICK_SIZES = (3_000, 1_500, 5_000)
COST_SETS = ("heart_cleveland_cost", "thyroid_ann_cost", "pima_diabetes_cost", "hepatitis_cost", "liver_bupa_cost")
ELSEWHERE = ("miniboone", "yahoo_ltr", "scene15", "cifar10")
RIVALS = ("primal-dual", "ccp", "greedy-prune", "independent")
PARTS = ("forest", "svm", "pairs", "subset", "usage", "costs")
NAMES = {"ccp": "CCP", "greedy-prune": "GreedyPrune", "independent": "per tree"}


def main() -> None:
    arguments = _arguments()
    report = Report(
        "budgetprune",
        "Pruning random forests for prediction on a budget: the paper's comparisons",
        "The paper's split sizes; 40 trees; node errors from in-bag rows, costs from validation rows. "
        "Every method offers what it has within 20 budgets, as validation rows see them; test rows judge."
        + (f" Only {QUICK_SIZES[0]:,} training rows and 10 trees (--quick)." if arguments.quick else ""),
        ["scipy", "scikit-learn"],
    )
    excess: dict[str, Any] = {}
    if set(arguments.parts) - {"costs"}:
        _forest_parts(report, arguments, excess)
    if "costs" in arguments.parts:
        _cost_sets(report, arguments, excess)
    if excess:
        report_objectives(report, excess)
    _not_at_hand(report)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, trees and repeats")
    parser.add_argument("--repeats", type=int, default=10, help="of the cost data sets")
    parser.add_argument("--forest-repeats", type=int, default=1, help="of covertype")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    return parser.parse_args()


def _forest_task(quick: bool, seed: int, terms: dict[str, Any] | None = None) -> Task:
    data = scurry.datasets.load("covertype")
    parts = split(data.X, data.y, QUICK_SIZES if quick else SIZES["covertype"], seed)
    return Task(*parts, {} if terms is None else terms)


def _grown(task: Task, quick: bool, seed: int, **options: Any) -> scurry.Forest:
    options = {"criterion": "entropy", "random_state": seed} | options
    return BudgetedForestClassifier(10 if quick else 40, **options).fit(*task.train).forest_


def _forest_parts(report: Report, arguments: argparse.Namespace, excess: dict[str, Any]) -> None:
    if load("covertype", report) is None:
        return
    quick, prefix = arguments.quick, "budgetprune-quick" if arguments.quick else "budgetprune"
    if "forest" in arguments.parts:
        seeds = range(1 if quick else arguments.forest_repeats)
        entropy = [_figure_2b(f"{prefix}-forest-{seed}", quick, seed) for seed in seeds]
        excess["Forest, entropy"] = _joined(entropy)
        report_curves(report, "Forest, 40 trees by entropy", entropy, NAMES)
        report.say(
            "Paper, Figure 2 (b): BudgetPrune is below all others, by much; GreedyMiser is far above at high budgets."
        )
    for part, title, expected, compute in (
        ("svm", "Forest, costs by SVM weights", _FIGURE_5, _figure_5),
        ("pairs", "Forest, 40 trees by Pairs", _FIGURE_6, _figure_6),
        ("subset", "Forest, 8 features drawn at each split", _FIGURE_7, _figure_7),
    ):
        if part in arguments.parts:
            found = compute(f"{prefix}-{part}-0", quick)
            excess[title] = found["excess"]
            report_curves(report, title, [found], NAMES)
            report.say(expected)
    if "usage" in arguments.parts:
        _table_1(report, kept(f"{prefix}-usage-0", lambda: _usage(quick)))


_FIGURE_5 = (
    "Paper, Figure 5 (MiniBooNE): with costs by the weights of a linear SVM, BudgetPrune stays as good as with uniform "
    "costs and CCP drops."
)
_FIGURE_6 = "Paper, Figure 6 (b): Pairs are better at low cost, entropy at high cost."
_FIGURE_7 = (
    "Paper, Figure 7 (Scene15): drawing few features gives forests of higher accuracy and higher cost, and BudgetPrune "
    "prunes them to slightly better curves."
)


def _figure_2b(key: str, quick: bool, seed: int) -> dict[str, Any]:
    task = _forest_task(quick, seed)
    weights = (0.0, 1e-4, 3e-4, 1e-3, 3e-3)
    return _all_methods(key, task, quick, seed, (0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 10.0), weights, learning_rate=0.3)


def _all_methods(
    key: str,
    task: Task,
    quick: bool,
    seed: int,
    tolerated: Sequence[float],
    cost_weights: Sequence[float],
    learning_rate: float,
) -> dict[str, Any]:
    """Prunings of a forest grown by entropy; forests grown by entropy per cost, stopped early; and GreedyMiser."""
    found = pruned(key, _grown(task, quick, seed), task, RIVALS)
    grow = {
        f"{alpha:g}": lambda alpha=alpha: _grown(task, quick, seed, feature_costs=task.prices, alpha=alpha)
        for alpha in tolerated
    }
    sweeps = {
        "BudgetRF, stopped": grown_points(f"{key}-stopped", grow, task),
        "GreedyMiser": misers(f"{key}-miser", task, cost_weights, 15 if quick else 90, learning_rate),
    }
    found["curves"] |= {title: of_points(points, found["full_cost"]) for title, points in sweeps.items()}
    return found


def _figure_5(key: str, quick: bool) -> dict[str, Any]:
    task = _forest_task(quick, 0)
    priced = _forest_task(quick, 0, {"feature_costs": _svm_costs(*task.train)})
    return pruned(key, _grown(task, quick, 0), priced, ("ccp",))


def _svm_costs(X: NDArray[np.float32], y: NDArray[Any]) -> NDArray[np.float64]:
    """The rounded weights of a linear SVM on columns of equal norm, scaled to the number of features.

    With several classes a feature's weight is the largest of its classes'; a weight that rounds to 0 costs 1 before
    scaling, as the paper's costs begin at 1.
    """
    from sklearn.svm import LinearSVC

    norms = np.linalg.norm(X, axis=0)
    scaled = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0) * np.sqrt(len(X))
    weights = np.abs(LinearSVC(dual=False, random_state=0).fit(scaled, y).coef_).max(axis=0)
    costs = np.maximum(np.rint(40 * weights / weights.max()), 1)
    return costs * len(costs) / costs.sum()


def _figure_6(key: str, quick: bool) -> dict[str, Any]:
    task = _forest_task(quick, 0)
    return pruned(key, _grown(task, quick, 0, criterion="pairs"), task, ("ccp",))


def _figure_7(key: str, quick: bool) -> dict[str, Any]:
    task = _forest_task(quick, 0)
    return pruned(key, _grown(task, quick, 0, max_features=8), task, ("ccp", "greedy-prune"))


def _usage(quick: bool) -> dict[str, Any]:
    """Use of the feature that most rows are spared, by the cheapest pruning that errs no more on validation rows."""
    task = _forest_task(quick, 0)
    forest = _grown(task, quick, 0)
    path = scurry.prune(forest, task.validation[0])
    X_val, y_val = task.validation
    allowed = (forest.predict(X_val) != y_val).mean() + 0.001
    by_cost = np.argsort(path.costs)[:: max(1, len(path) // 60)]
    after = next(path[int(at)] for at in by_cost if (path[int(at)].predict(X_val) != y_val).mean() <= allowed)
    X, y = task.test
    bills = [feature_bill(model, X) for model in (forest, after)]
    spared = ((bills[0].uses > 0).mean(axis=0) - (bills[1].uses > 0).mean(axis=0)).argmax()
    rows = [
        [*bill.usage(int(spared)), bill.mean_cost, float((model.predict(X) != y).mean())]
        for bill, model in zip(bills, (forest, after), strict=True)
    ]
    return {"rows": rows, "feature": int(spared)}


def _table_1(report: Report, found: dict[str, Any]) -> None:
    rows = []
    for title, row in zip(("unpruned", "exact"), found["rows"], strict=True):
        rows.append([title, *[f"{share:.1%}" for share in row[:3]], f"{row[3]:.1f}", f"{row[4]:.2%}"])
    rows.append(["paper, unpruned (MiniBooNE)", "7.3%", "91.7%", "1.0%", "42.0", "6.60%"])
    rows.append(["paper, BudgetPrune (MiniBooNE)", "68.3%", "31.5%", "0.2%", "24.3", "6.70%"])
    header = ["forest", "rows that never use it", "1 to 7 times", "more often", "cost", "test error"]
    report.table(f"Table 1: use of feature {found['feature']}, the one that most rows are spared", header, rows)


def _cost_sets(report: Report, arguments: argparse.Namespace, excess: dict[str, Any]) -> None:
    quick, n_repeats = arguments.quick, 1 if arguments.quick else arguments.repeats
    prefix = "budgetprune-quick" if quick else "budgetprune"
    for name in COST_SETS:
        if load(name, report) is None:
            continue
        found = [_cost_set(f"{prefix}-{name}-{seed}", name, seed, quick) for seed in range(n_repeats)]
        excess[name] = _joined(found)
        report_curves(report, name, found, NAMES)


def _cost_set(key: str, name: str, seed: int, quick: bool) -> dict[str, Any]:
    data = scurry.datasets.load(name)
    X = np.where(np.isnan(data.X), np.nanmedian(data.X, axis=0), data.X)
    n = len(X)
    terms = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    parts = split(X, data.y, (n // 2, n // 4, n // 4), seed)
    task = Task(*parts, terms if data.groups is not None else {"feature_costs": data.feature_costs})
    weights = [0.0, *(np.geomspace(1e-4, 1e-1, 5) / task.prices.mean())]
    return _all_methods(key, task, quick, seed, (0.0, 0.05, 0.2, 0.4, 0.6, 10.0), weights, learning_rate=0.1)


def _joined(found: list[dict[str, Any]]) -> dict[str, list[float]]:
    return {name: [value for one in found for value in one["excess"][name]] for name in found[0]["excess"]}


def _not_at_hand(report: Report) -> None:
    for name in ELSEWHERE:
        load(name, report)
    report.say("Yahoo is judged by Average Precision@5: scurry.evaluation.average_precision_at(5, …).")


if __name__ == "__main__":
    main()
