"""Error against feature cost: what the two pruning papers' benchmarks share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import scurry
from report import RESULTS, Report, commit, subplots
from scurry import Forest, datasets
from scurry.errors import InputError, ScurryError
from scurry.evaluation import feature_bill
from scurry.growing import GreedyMiserClassifier
from scurry.pruning import PruningPath

Rows = tuple[NDArray[np.float32], NDArray[Any]]
N_POINTS = 16
N_BUDGETS = 20


class Curve(NamedTuple):
    """Mean cost per test row and test error, by rising cost."""

    costs: list[float]
    errors: list[float]

    def at(self, cost: float) -> float:
        return float(np.interp(cost, self.costs, self.errors))


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


def tested(forests: Iterable[Forest], task: Task) -> Curve:
    """Cost and error of forests on the test rows; of equal costs the last counts."""
    points = dict(measured(forest, task.test, task) for forest in forests)
    costs = sorted(points)
    return Curve(costs, [points[cost] for cost in costs])


def efficient(forests: Iterable[Forest], task: Task) -> list[Forest]:
    """Those of a sweep that no other beats in both cost and error, as validation rows see it."""
    points = sorted((*measured(forest, task.validation, task), at, forest) for at, forest in enumerate(forests))
    chosen: list[Forest] = []
    least = np.inf
    for _, error, _, forest in points:
        if error < least:
            chosen.append(forest)
            least = error
    return chosen


def spread(path: PruningPath, n_points: int = N_POINTS) -> list[int]:
    """Prunings of a path, spread over its costs."""
    wanted = np.linspace(path.costs.min(), path.costs.max(), n_points)
    return sorted({int(np.abs(path.costs - cost).argmin()) for cost in wanted})


def trade_offs(path: PruningPath, n_points: int) -> list[float]:
    """Values of lambda at which an exact path's cost is spread evenly: inside the stretch of each pruning."""
    inner = [at for at in spread(path, n_points + 2) if 0 < at < len(path) - 1]
    return sorted({float(np.sqrt(path.lambdas[at - 1] * path.lambdas[at])) for at in inner})


def pruned(
    forest: Forest, task: Task, methods: Sequence[str], n_points: int = N_POINTS, n_lambdas: int = 6
) -> dict[str, Any]:
    """Test curves of pruning methods, and by how much each is above the exact objective, at most, relatively."""
    X = task.validation[0]
    exact = scurry.prune(forest, X, **task.terms)
    lambdas = trade_offs(exact, n_lambdas)
    budgets = np.linspace(exact.costs.min(), exact.costs.max(), n_points)
    curves = {"exact": tested((exact.at(max_cost=float(budget)) for budget in budgets), task)}
    excess: dict[str, list[float]] = {}
    for method in methods:
        by_lambda = method in ("primal-dual", "greedy-prune")
        path = scurry.prune(forest, X, method=method, lambdas=lambdas if by_lambda else None, **task.terms)
        curves[method] = tested((path[at] for at in spread(path, n_points)), task)
        optima = [exact.objective(lam) for lam in lambdas]
        excess[method] = [path.objective(lam) / best - 1 for lam, best in zip(lambdas, optima, strict=True)]
    unpruned = tested([forest], task)
    return {
        "curves": curves,
        "excess": excess,
        "unpruned": unpruned,
        "n_prunings": len(exact),
        "n_nodes": forest.n_nodes,
    }


def misers(task: Task, cost_weights: Sequence[float], n_estimators: int, learning_rate: float) -> Curve:
    """GreedyMiser for several trade-offs; of each all rounds, and the first half and quarter of them."""
    forests = []
    options = {"feature_costs": task.prices, "learning_rate": learning_rate, "loss": "squared"}
    for cost_weight in cost_weights:
        miser = GreedyMiserClassifier(n_estimators, cost_weight=cost_weight, **options).fit(*task.train)
        grown = miser.n_estimators_
        forests += [miser.first(n) for n in sorted({max(1, grown // 4), max(1, grown // 2), grown})]
    return tested(efficient(forests, task), task)


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of curves over repeats, at costs that all of them span."""
    low, high = max(curve.costs[0] for curve in curves), min(curve.costs[-1] for curve in curves)
    costs = np.linspace(low, max(high, low), 25)
    errors = np.mean([[curve.at(cost) for cost in costs] for curve in curves], axis=0)
    return Curve(costs.tolist(), errors.tolist())


def comparison(curves: Mapping[str, Curve], ours: str = "exact") -> list[list[str]]:
    """For each other method: at how many budgets ours errs no more, and where it errs most in excess."""
    rows = []
    for name, curve in curves.items():
        if name == ours:
            continue
        low, high = max(curve.costs[0], curves[ours].costs[0]), min(curve.costs[-1], curves[ours].costs[-1])
        budgets = np.linspace(low, high, N_BUDGETS)
        behind = np.array([curves[ours].at(cost) - curve.at(cost) for cost in budgets])
        worst = int(behind.argmax())
        rows.append(
            [
                name,
                f"{(behind <= 0).sum()} of {N_BUDGETS}",
                f"{-behind.mean():+.4f}",
                f"{behind[worst]:+.4f} at {budgets[worst]:.4g}" if behind[worst] > 0 else "nowhere",
            ]
        )
    return rows


COMPARISON = ["against", "exact at or below", "mean advantage", "exact above by, at most"]


def report_curves(report: Report, title: str, curves: Mapping[str, Curve], unpruned: Curve) -> None:
    """A table of errors at some budgets, the comparison with the exact path, and a figure."""
    full = unpruned.costs[0]
    shares = (0.15, 0.25, 0.4, 0.6, 0.8, 1.0)
    header = ["method", *[f"{share:.0%} ({share * full:.3g})" for share in shares]]
    rows = [[name, *[_error(curve, share * full) for share in shares]] for name, curve in curves.items()]
    report.table(
        f"{title}: test error by mean cost (unpruned {full:.4g}, error {unpruned.errors[0]:.4f})", header, rows
    )
    report.table(f"{title}: budgets at which the exact path errs no more", COMPARISON, comparison(curves))
    figure, ((axis,),) = subplots(1, 1, (6.4, 4.4))
    for name, curve in curves.items():
        axis.plot(curve.costs, curve.errors, marker=".", label=name, color="C3" if name == "exact" else None)
    axis.plot(*unpruned, "k*", label="unpruned")
    axis.set(title=title, xlabel="mean cost per row", ylabel="test error")
    axis.legend(fontsize="small")
    report.figure(title.lower().replace(" ", "-").replace(",", ""), figure)


def _error(curve: Curve, cost: float) -> str:
    return f"{curve.at(cost):.4f}" if curve.costs[0] <= cost * (1 + 1e-9) and cost <= curve.costs[-1] * 1.05 else "–"


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
