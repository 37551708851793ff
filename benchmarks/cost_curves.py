"""Error against feature cost: what the two pruning papers' benchmarks share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import scurry
from report import RESULTS, Report, commit, subplots
from scurry import Forest, datasets
from scurry.errors import InfeasibleError, InputError, ScurryError
from scurry.evaluation import feature_bill
from scurry.growing import GreedyMiserClassifier
from scurry.pruning import PruningPath

Rows = tuple[NDArray[np.float32], NDArray[Any]]
NOTHING = (float("nan"), float("nan"))
BUDGETS = np.arange(1, 21) / 20  # shares of what the unpruned forest costs


class Curve(NamedTuple):
    """Mean cost per test row and test error of what a method offers within each budget; NaN where it has nothing."""

    costs: list[float]
    errors: list[float]


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to grow on, to price prunings on and to test on, and what features cost."""

    train: Rows
    validation: Rows
    test: Rows
    terms: Mapping[str, Any]  # feature_costs, groups, group_costs

    @property
    def prices(self) -> NDArray[np.float64]:
        """What each feature costs alone: what a grower that knows no groups is told."""
        feature_costs = np.asarray(self.terms.get("feature_costs", np.ones(self.train[0].shape[1])), np.float64)
        if "groups" not in self.terms:
            return feature_costs
        groups = np.asarray(self.terms["groups"])
        return feature_costs + np.where(groups >= 0, np.append(self.terms["group_costs"], 0.0)[groups], 0.0)


def load(name: str, report: Report) -> datasets.Dataset | None:
    """The dataset, or None and a line in the report if it is not on this machine."""
    try:
        return datasets.load(name)
    except ScurryError as error:
        report.say(f"{name}: skipped. {error}")
        return None


def split(X: NDArray[Any], y: NDArray[Any], sizes: Sequence[int], seed: int) -> list[Rows]:
    """Random disjoint parts of the rows, as many as there are sizes."""
    rows = np.random.default_rng(seed).permutation(len(y))
    ends = np.cumsum(sizes)
    if ends[-1] > len(y):
        raise InputError(f"{ends[-1]} rows are asked for, there are {len(y)}")
    return [(X[part], y[part]) for part in np.split(rows[: ends[-1]], ends[:-1])]


def kept(name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a computation, from an earlier run if there is one: long ones are done in several runs."""
    path = RESULTS / "pruning-papers" / f"{name}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result), encoding="utf-8")
    print(f"{name}: done at {commit()}", flush=True)
    return result


def measured(forest: Forest, rows: Rows, task: Task) -> tuple[float, float]:
    """Mean cost and error on some rows."""
    X, y = rows
    return feature_bill(forest, X, **task.terms).mean_cost, float((forest.predict(X) != y).mean())


def of_path(path: PruningPath, full_cost: float, task: Task) -> Curve:
    """What a path offers within each budget, on test rows."""
    points = []
    for budget in BUDGETS * full_cost:
        try:
            points.append(measured(path.at(max_cost=float(budget)), task.test, task))
        except InfeasibleError:
            points.append(NOTHING)
    return Curve(*map(list, zip(*points, strict=True)))


def of_points(points: Sequence[Mapping[str, float]], full_cost: float) -> Curve:
    """Of what a method offers, that of least error within each budget, as priced and judged before the test."""
    offered = []
    for budget in BUDGETS * full_cost * (1 + 1e-12):
        within = [point for point in points if point["cost"] <= budget]
        best = min(within, key=lambda point: (point["error"], point["cost"])) if within else None
        offered.append((best["test_cost"], best["test_error"]) if best else NOTHING)
    return Curve(*map(list, zip(*offered, strict=True)))


def point_of(forest: Forest, task: Task, cost: float, error: float) -> dict[str, float]:
    test_cost, test_error = measured(forest, task.test, task)
    return {"cost": cost, "error": error, "test_cost": test_cost, "test_error": test_error}


def grown_points(key: str, grow: Mapping[str, Callable[[], Forest]], task: Task) -> list[dict[str, float]]:
    """Forests grown with several parameters, judged by validation rows."""

    def point(name: str) -> dict[str, float]:
        forest = grow[name]()
        return point_of(forest, task, *measured(forest, task.validation, task))

    return [kept(f"{key}-{name}", lambda name=name: point(name)) for name in grow]


def trade_offs(path: PruningPath, n_points: int) -> list[float]:
    """Values of lambda over the whole range in which an exact path changes."""
    if not len(path.lambdas):
        return [1e-3]
    return np.geomspace(0.5 * path.lambdas[0], 0.999 * path.lambdas[-1], n_points).tolist()


def pruned(key: str, forest: Forest, task: Task, methods: Sequence[str], n_lambdas: int = 6) -> dict[str, Any]:
    """What methods offer within each budget, and by how much they are above the exact objective, relatively."""
    X = task.validation[0]
    full_cost = feature_bill(forest, X, **task.terms).mean_cost

    def of_exact() -> dict[str, Any]:
        path = scurry.prune(forest, X, **task.terms)
        lambdas = trade_offs(path, n_lambdas)
        optima = [path.objective(lam) for lam in lambdas]
        return {"curve": of_path(path, full_cost, task), "lambdas": lambdas, "objectives": optima}

    def of_method(method: str, lambdas: list[float]) -> dict[str, Any]:
        path = scurry.prune(forest, X, method=method, **task.terms)
        return {"curve": of_path(path, full_cost, task), "objectives": [path.objective(lam) for lam in lambdas]}

    def of_lambda(method: str, lam: float) -> dict[str, float]:
        path = scurry.prune(forest, X, method=method, lambdas=[lam], **task.terms)
        return point_of(path[0], task, float(path.costs[0]), float(path.errors[0]))

    def by_lambda(method: str, lambdas: list[float]) -> dict[str, Any]:
        # The last one prunes everything, so that there is an answer within every budget.
        asked = {f"{key}-{method}-{at}": lam for at, lam in enumerate([*lambdas, 1e6])}
        points = [kept(name, lambda lam=lam: of_lambda(method, lam)) for name, lam in asked.items()]
        reached = [min(point["error"] + lam * point["cost"] for point in points) for lam in lambdas]
        return {"curve": of_points(points, full_cost), "objectives": reached}

    exact = kept(f"{key}-exact", of_exact)
    curves, excess = {"exact": exact["curve"]}, {}
    for method in methods:
        if method in ("primal-dual", "greedy-prune"):
            found = by_lambda(method, exact["lambdas"])
        else:
            found = kept(f"{key}-{method}", lambda method=method: of_method(method, exact["lambdas"]))
        curves[method] = found["curve"]
        excess[method] = [a / b - 1 for a, b in zip(found["objectives"], exact["objectives"], strict=True)]
    return {"curves": curves, "excess": excess, "unpruned": measured(forest, task.test, task), "full_cost": full_cost}


def misers(
    key: str, task: Task, cost_weights: Sequence[float], n_estimators: int, learning_rate: float
) -> list[dict[str, float]]:
    """GreedyMiser for several trade-offs, one that buys nothing included: all rounds, and the first third of them."""
    options = {"feature_costs": task.prices, "learning_rate": learning_rate, "loss": "squared"}

    def first(cost_weight: float, n_rounds: int) -> Forest:
        return GreedyMiserClassifier(n_rounds, cost_weight=cost_weight, **options).fit(*task.train).forest_

    lengths = (n_estimators // 3, n_estimators)
    grow = {
        f"{weight:g}-{n_rounds}": lambda weight=weight, n_rounds=n_rounds: first(weight, n_rounds)
        for weight in (*cost_weights, 1e6)
        for n_rounds in lengths
    }
    return grown_points(key, grow, task)


def mean_curves(found: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """Means over repeats, budget by budget; NaN where some repeat has nothing."""
    return {
        name: Curve(*np.mean([np.array(one["curves"][name], float) for one in found], axis=0).tolist())
        for name in found[0]["curves"]
    }


def comparison(curves: Mapping[str, Curve]) -> list[list[str]]:
    """For each other method: at how many budgets the exact path errs no more, and where it errs most in excess."""
    rows, ours = [], np.array(curves["exact"].errors, float)
    for name, curve in curves.items():
        if name == "exact":
            continue
        behind = ours - np.array(curve.errors, float)
        has = np.isfinite(behind)
        worst = int(np.nanargmax(np.where(has, behind, -np.inf)))
        cells = [name, f"{(behind[has] <= 1e-12).sum()} of {has.sum()}"]
        if has.any() and behind[worst] > 1e-12:
            cells += [f"{-behind[has].mean():+.4f}", f"{behind[worst]:+.4f} at {BUDGETS[worst]:.0%}"]
        else:
            cells += [f"{-behind[has].mean():+.4f}" if has.any() else "–", "nowhere"]
        rows.append(cells)
    return rows


def report_curves(report: Report, title: str, found: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> None:
    """A table of errors by budget, the comparison with the exact path, and a figure."""
    curves = {names.get(name, name): curve for name, curve in mean_curves(found).items()}
    cost, error = np.mean([one["unpruned"] for one in found], axis=0)
    shown = [0, 2, 4, 7, 11, 15, 19]
    header = ["method", *[f"{BUDGETS[at]:.0%}" for at in shown]]
    rows = [[name, *[_number(curve.errors[at]) for at in shown]] for name, curve in curves.items()]
    report.table(f"{title}: test error by budget, in shares of the unpruned cost", header, rows)
    report.say(f"Unpruned: {cost:.4g} a row, error {error:.4f}. Repeats: {len(found)}.")
    header = ["against", "exact at or below", "mean advantage", "exact above by, at most"]
    report.table(f"{title}: budgets at which the exact path errs no more", header, comparison(curves))
    figure, ((axis,),) = subplots(1, 1, (6.4, 4.4))
    for name, curve in curves.items():
        axis.plot(curve.costs, curve.errors, marker=".", label=name, color="C3" if name == "exact" else None)
    axis.plot(cost, error, "k*", label="unpruned")
    axis.set(title=title, xlabel="mean cost per test row", ylabel="test error")
    axis.legend(fontsize="small")
    report.figure(title.lower().replace(" ", "-").replace(",", ""), figure)


def _number(error: float) -> str:
    return f"{error:.4f}" if np.isfinite(error) else "–"


def report_objectives(report: Report, excess: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """By how much each method's best pruning is above the exact optimum of error + lambda * cost."""
    methods = list(dict.fromkeys(method for of_task in excess.values() for method in of_task))
    rows = []
    for title, of_task in excess.items():
        cells = [f"{min(of_task[m]):.2%} to {max(of_task[m]):.2%}" if m in of_task else "–" for m in methods]
        rows.append([title, *cells])
    report.table("Objective above the exact optimum (least and most over the trade-offs)", ["task", *methods], rows)
    lowest = min(value for of_task in excess.values() for values in of_task.values() for value in values)
    verdict = "never" if lowest >= -1e-12 else f"SOMETIMES (by {-lowest:.3g})"
    report.say(f"The exact path is {verdict} above another method in its own objective.")
