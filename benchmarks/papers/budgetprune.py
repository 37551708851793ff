"""Pruning random forests for prediction on a budget: the paper's comparisons, published against obtained.

The paper prints its results as figures and says in words who is below whom, so that most claims are differences that it
says are above 0, with an interval over 10 runs. Every method offers what it has within 10 budgets, shares of the
unpruned cost, as validation rows see them; test rows judge. Forest is covertype with the paper's numbers of rows, or a
share of them. Of MiniBooNE, Yahoo and Scene15 there are no data: nomao, a ranking of thyroid patients with real
prices, and satimage with Scene15's row counts stand in for them.

Each run is kept on disk, so that one that was interrupted goes on where it was. Without ``--quick`` the claims of the
paper are stored in ``papers/results``, with as many runs as there are.

    python benchmarks/papers/budgetprune.py --quick
    python benchmarks/papers/budgetprune.py --seconds 3000

All runs take about two hours of one core; --quick takes ten seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from budgetprune_claims import make_result
from cost_curves import (
    Rows,
    Task,
    error_rate,
    forget,
    kept,
    load,
    look_up,
    measured,
    misers,
    of_points,
    point_of,
    pruned,
    report_claims,
    split,
)
from jobs import run_jobs
from report import Report
from scurry.evaluation import average_precision_at, feature_bill
from scurry.growing import BudgetedForestClassifier

N_RUNS = 10
SIZES = {"covertype": (36_603, 15_688, 58_101), "nomao": (12_062, 5_169, 17_231), "satimage": (1_500, 300, 2_685)}
FEWER = {"covertype": 1.0, "nomao": 2.5}  # --share times this is the part of a dataset's sizes that is taken
QUICK_SIZES = (1_200, 600, 1_500)
COST_SETS = ("heart_cleveland_cost", "thyroid_ann_cost", "pima_diabetes_cost", "hepatitis_cost", "liver_bupa_cost")
ELSEWHERE = ("miniboone", "yahoo_ltr", "scene15")
BATCH = 40  # patients that are ranked together
RATES = (0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True, eq=False)
class Case:
    """A forest on some rows with some prices, and the methods that are compared on it.

    Parameters
    ----------
    dataset : str
    n_trees : int
    grow : mapping
        Options of the forest.
    svm_prices : bool
        Whether features cost what a linear SVM weighs them by.
    ranks : bool
        Whether patients are ranked instead of told their class.
    with_prices : bool
        Whether the forest is grown by entropy per cost.
    miser_rounds : int
        Rounds of GreedyMiser; 0: without it.
    share : float
        Of the dataset's sizes, times the one asked for.
    """

    dataset: str
    n_trees: int = 40
    grow: Mapping[str, Any] = field(default_factory=dict)
    svm_prices: bool = False
    ranks: bool = False
    with_prices: bool = False
    miser_rounds: int = 0
    tolerated: tuple[float, ...] = (0.1, 0.4, 0.7, 1.0, 10.0)
    share: float = 1.0


_FEW = (0.2, 0.6, 1.0, 10.0)
# Most telling first.
CASES = {
    "forest": Case("covertype"),
    "forest, Pairs": Case("covertype", grow={"criterion": "pairs"}),
    "forest, SVM prices": Case("covertype", svm_prices=True),
    "nomao": Case("nomao"),
    "nomao, SVM prices": Case("nomao", svm_prices=True),
    "satimage, 3 drawn": Case("satimage", 60, {"max_features": 3}, tolerated=_FEW),
    "satimage, 18 drawn": Case("satimage", 60, {"max_features": 18}, tolerated=_FEW),
    "nomao, Pairs": Case("nomao", grow={"criterion": "pairs"}),
    "nomao, with GreedyMiser": Case("nomao", miser_rounds=1000, tolerated=()),
    "forest, with GreedyMiser": Case("covertype", miser_rounds=1000, tolerated=()),
    **{name: Case(name, miser_rounds=300, tolerated=_FEW) for name in COST_SETS},
    "ranking": Case(
        "thyroid_ann_cost",
        grow={"max_features": 400 / 519},
        ranks=True,
        with_prices=True,
        miser_rounds=300,
        tolerated=_FEW,
    ),
}
SUBSETS = (8, 18, 54)  # features drawn at each split, of covertype's 54: the best on validation rows is chosen


def main() -> None:
    arguments = _arguments()
    if arguments.quick:
        forget("budgetprune-quick-")
    report = Report(
        "budgetprune",
        "Pruning random forests for prediction on a budget: the paper's comparisons",
        f"{arguments.runs} run(s), {arguments.share:.0%} of the paper's rows of Forest, "
        f"{min(1, 2.5 * arguments.share):.0%} of nomao's."
        + (" --quick: few rows, 10 trees, 15 rounds." if arguments.quick else ""),
        ["scipy", "scikit-learn"],
        quick=arguments.quick,
    )
    datasets = {case.dataset for case in CASES.values()}
    missing = {name for name in datasets if load(name, report) is None}
    for name in ELSEWHERE:
        load(name, report)
    titles = [title for title, case in CASES.items() if case.dataset not in missing]
    others = [] if missing else list(OTHERS)
    n_quick = sum(not CASES[title].miser_rounds for title in titles)
    titles[n_quick:n_quick] = others  # before GreedyMiser, which takes longest
    jobs = [(title, seed, arguments.quick, arguments.share) for title in titles for seed in range(arguments.runs)]
    for (title, seed, *_), _, error in run_jobs(_make, jobs, 1, arguments.seconds):
        if error:
            print(f"{title}, run {seed}: {error}", flush=True)
    found: dict[str, list[dict[str, Any]]] = {title: [] for title in titles}
    for job in jobs:
        if (one := look_up(_key(*job))) is not None:
            found[job[0]].append(one)
    result = make_result(found, arguments.share, arguments.runs)
    report_claims(report, result)
    report.close()
    if not arguments.quick:
        print(f"Stored in {result.store()}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run with few rows and trees; stores no result")
    parser.add_argument("--runs", type=int, default=N_RUNS, metavar="N")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the paper's rows of covertype, and 2.5 times that of nomao"
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long, with the runs there are")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs = 1
    return arguments


def _key(title: str, seed: int, quick: bool, share: float) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in title)
    return f"budgetprune-{'quick' if quick else f'{share:g}'}-{name}-{seed}"


def _make(job: tuple[str, int, bool, float]) -> None:
    title, seed, quick, share = job
    if title in OTHERS:
        kept(_key(*job), lambda: OTHERS[title](seed, quick, share))
    else:
        kept(_key(*job), lambda: _run(CASES[title], seed, quick, share))


def _run(case: Case, seed: int, quick: bool, share: float) -> dict[str, Any]:
    """What every method offers within each budget, in one run."""
    task = _task(case, seed, quick, share)
    options = {"feature_costs": task.prices} if case.with_prices else {}
    forest = _grown(case, task, quick, seed, **options)
    full_cost = feature_bill(forest, task.validation[0], **task.terms).mean_cost
    curves = pruned(forest, task, ("ccp", "greedy-prune"))
    if case.tolerated:
        points = []
        for alpha in case.tolerated:
            stopped = _grown(case, task, quick, seed, feature_costs=task.prices, alpha=alpha)
            points.append(point_of(stopped, task, *measured(stopped, task.validation, task)))
        curves["BudgetRF"] = of_points(points, full_cost)
    found = {"curves": curves, "full_cost": full_cost, "unpruned": measured(forest, task.test, task)}
    if case.miser_rounds:
        points = _misers(case, task, quick, share, seed)
        curves["GreedyMiser"] = of_points(points, full_cost)
        found["misers"] = points
    return found


def _grown(case: Case, task: Task, quick: bool, seed: int, **options: Any) -> scurry.Forest:
    options = {"criterion": "entropy", "random_state": seed} | dict(case.grow) | options
    if options["criterion"] == "pairs" and options.get("alpha"):
        options["alpha"] = 40 * options["alpha"]  # in rows instead of nats
    return BudgetedForestClassifier(10 if quick else case.n_trees, **options).fit(*task.train).forest_


def _misers(case: Case, task: Task, quick: bool, share: float, seed: int) -> list[dict[str, float]]:
    """GreedyMiser, at the learning rate that did best on the first run's validation rows."""
    n_rounds = 15 if quick else case.miser_rounds
    weights = (0.0, 1e-3 / task.prices.mean())
    if quick:
        return misers(task, weights, RATES[1:2], n_rounds)
    name = f"budgetprune-{share:g}-rates-{case.dataset}-{case.ranks}"
    searched = kept(name, lambda: {"points": misers(task, weights[:1], RATES, n_rounds // 4)})["points"]
    best = min((point for point in searched), key=lambda point: point["error"])["rate"]
    return misers(task, weights, (best,), n_rounds)


# --- rows -------------------------------------------------------------------------------------------------------------


def _task(case: Case, seed: int, quick: bool, share: float) -> Task:
    if case.dataset not in SIZES:
        task = _priced_task(case.dataset, seed)
        return _ranked(task) if case.ranks else task
    X, y = _rows(case.dataset)
    part = case.share * min(1.0, share * FEWER.get(case.dataset, np.inf))
    sizes = QUICK_SIZES if quick else [int(part * size) for size in SIZES[case.dataset]]
    task = Task(*split(X, y, sizes, seed), {})
    return replace(task, terms={"feature_costs": _svm_costs(*task.train)}) if case.svm_prices else task


@cache
def _rows(name: str) -> Rows:
    data = scurry.datasets.load(name)
    return data.X, data.y


def _priced_task(name: str, seed: int) -> Task:
    data = scurry.datasets.load(name)
    X = np.where(np.isnan(data.X), np.nanmedian(data.X, axis=0), data.X)
    n = len(X)
    terms = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    parts = split(X, data.y, (n // 2, n // 4, n // 4), seed)
    return Task(*parts, terms if data.groups is not None else {"feature_costs": data.feature_costs})


def _ranked(task: Task) -> Task:
    """Patients in batches, of whom those who are ill come first."""
    classes, counts = np.unique(task.train[1], return_counts=True)
    healthy = classes[counts.argmax()]
    return Task(*[(X, y != healthy) for X, y in (task.train, task.validation, task.test)], task.terms, _ranking_loss)


def _ranking_loss(forest: scurry.Forest, rows: Rows) -> float:
    """What the average precision among the first 5 of each batch lacks."""
    X, ill = rows
    return 1 - average_precision_at(5, ill, forest.scores(X)[:, -1], np.arange(len(ill)) // BATCH)


def _svm_costs(X: NDArray[np.float32], y: NDArray[Any]) -> NDArray[np.float64]:
    """The rounded weights of a linear SVM on columns of equal norm, scaled to the number of features.

    With several classes a feature's weight is the largest of its classes'; a weight that rounds to 0 costs 1 before
    scaling, as the paper's costs begin at 1.
    """
    from sklearn.svm import LinearSVC

    norms = np.linalg.norm(X, axis=0)
    scaled = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0) * np.sqrt(len(X))
    weights = np.abs(LinearSVC(dual=False, random_state=0, tol=1e-2).fit(scaled, y).coef_).max(axis=0)
    costs = np.maximum(np.rint(40 * weights / weights.max()), 1)
    return costs * len(costs) / costs.sum()


# --- what is no curve -------------------------------------------------------------------------------------------------


def _subsets(seed: int, quick: bool, share: float) -> dict[str, Any]:
    """The error on validation rows of forests with several numbers of features drawn at each split."""
    case = CASES["forest"]
    task = _task(case, seed, quick, share)
    errors = [error_rate(_grown(case, task, quick, seed, max_features=k), task.validation) for k in SUBSETS]
    return {"k": list(SUBSETS), "errors": errors}


def _usage(seed: int, quick: bool, share: float) -> dict[str, Any]:
    """Use of the feature that most rows are spared, by the cheapest pruning that errs no more on validation rows."""
    case = CASES["nomao"]
    task = _task(case, seed, quick, share)
    forest = _grown(case, task, quick, seed)
    path = scurry.prune(forest, task.validation[0])
    allowed = error_rate(forest, task.validation) + 0.001
    by_cost = np.argsort(path.costs)[:: max(1, len(path) // 60)]
    after = next(path[int(at)] for at in by_cost if error_rate(path[int(at)], task.validation) <= allowed)
    bills = [feature_bill(model, task.test[0]) for model in (forest, after)]
    spared = int(((bills[0].uses > 0).mean(axis=0) - (bills[1].uses > 0).mean(axis=0)).argmax())
    rows = [
        [*bill.usage(spared), bill.mean_cost, error_rate(model, task.test)]
        for bill, model in zip(bills, (forest, after), strict=True)
    ]
    return {"rows": rows}


def _solvers(seed: int, quick: bool, share: float) -> dict[str, Any]:
    """Seconds and objectives of the linear program, of the primal-dual algorithm and of the exact path."""
    case = Case("satimage", 6)
    task = _task(case, seed, True, share)
    X = task.validation[0][: 60 if quick else 150]
    forest = BudgetedForestClassifier(6, criterion="entropy", random_state=seed).fit(*task.train).forest_
    path = scurry.prune(forest, X)
    lam = float(path.lambdas[len(path.lambdas) // 2]) * 1.001
    found: dict[str, Any] = {}
    for method in ("lp", "primal-dual", "exact"):
        start = time.process_time()
        reached = scurry.prune(forest, X, method=method, lambdas=[lam])
        found[method] = [time.process_time() - start, float(reached.objectives[0])]
    return found


OTHERS = {"features drawn": _subsets, "usage": _usage, "solvers": _solvers}


if __name__ == "__main__":
    main()
