"""Error against feature cost: what the two pruning papers' benchmarks share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
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
from scurry.pruning.solvers.baselines import greedy_rounds

Rows = tuple[NDArray[np.float32], NDArray[Any]]
NOTHING = (float("nan"), float("nan"))
BUDGETS = np.arange(1, 21) / 20  # shares of what the unpruned forest costs
N_GREEDY = 4  # trade-offs GreedyPrune drops features for; every round is an offer


class Curve(NamedTuple):
    """Mean cost per test row and test error of what a method offers within each budget; NaN where it has nothing."""

    costs: list[float]
    errors: list[float]


def error_rate(forest: Forest, rows: Rows) -> float:
    X, y = rows
    return float((forest.predict(X) != y).mean())


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to grow on, to price prunings on and to test on, what features cost, and what is held against a forest."""

    train: Rows
    validation: Rows
    test: Rows
    terms: Mapping[str, Any]  # feature_costs, groups, group_costs
    loss: Callable[[Forest, Rows], float] = error_rate

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
    """Mean cost and loss on some rows."""
    return feature_bill(forest, rows[0], **task.terms).mean_cost, task.loss(forest, rows)


def of_path(path: PruningPath, full_cost: float, task: Task) -> Curve:
    """What a path offers within each budget, on test rows."""
    points = []
    for budget in BUDGETS * full_cost:
        try:
            points.append(measured(path.at(max_cost=float(budget)), task.test, task))
        except InfeasibleError:
            points.append(NOTHING)
    return Curve(*map(list, zip(*points, strict=True)))


def of_paths(paths: Sequence[PruningPath], full_cost: float, task: Task) -> Curve:
    """What several paths offer together within each budget, bare roots at the least, on test rows."""
    offers = [(path, at) for path in paths for at in range(len(path))]
    costs, errors = (np.concatenate([getattr(path, name) for path in paths]) for name in ("costs", "errors"))
    best = [int(np.where(costs <= budget, errors, np.inf).argmin()) for budget in BUDGETS * full_cost * (1 + 1e-12)]
    points = {at: measured(offers[at][0][offers[at][1]], task.test, task) for at in set(best)}
    return Curve(*map(list, zip(*[points[at] for at in best], strict=True)))


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
    """Values of lambda at which an exact path's costs are spread as its vertices allow, and one beyond each end.

    A lambda is taken from inside the stretch in which its pruning is optimal.
    """
    if not len(path.lambdas):
        return [1e-3]
    wanted = np.linspace(path.costs.min(), path.costs.max(), n_points)
    inner = {int(np.abs(path.costs - cost).argmin()) for cost in wanted} - {0, len(path) - 1}
    inside = [float(np.sqrt(path.lambdas[at - 1] * path.lambdas[at])) for at in inner]
    return sorted({0.5 * float(path.lambdas[0]), *inside, 2 * float(path.lambdas[-1])})


def pruned(key: str, forest: Forest, task: Task, methods: Sequence[str], n_lambdas: int = 8) -> dict[str, Any]:
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

    def of_lambda(lam: float) -> dict[str, float]:
        path = scurry.prune(forest, X, method="primal-dual", lambdas=[lam], **task.terms)
        return point_of(path[0], task, float(path.costs[0]), float(path.errors[0]))

    def primal_dual(lambdas: list[float]) -> dict[str, Any]:
        # The last one prunes everything, so that there is an answer within every budget.
        asked = {f"{key}-primal-dual-{at}": lam for at, lam in enumerate([*lambdas, 1e6])}
        points = [kept(name, lambda lam=lam: of_lambda(lam)) for name, lam in asked.items()]
        reached = [min(point["error"] + lam * point["cost"] for point in points) for lam in lambdas]
        return {"curve": of_points(points, full_cost), "objectives": reached}

    def greedy(lambdas: list[float]) -> dict[str, Any]:
        problem = scurry.prune(forest, X, method="ccp", **task.terms).problem
        paths = [greedy_rounds(problem, Fraction(lam)) for lam in lambdas[:: max(1, len(lambdas) // N_GREEDY)]]
        reached = [min(path.objective(lam) for path in paths) for lam in lambdas]
        return {"curve": of_paths(paths, full_cost, task), "objectives": reached}

    exact = kept(f"{key}-exact", of_exact)
    curves, excess = {"exact": exact["curve"]}, {}
    for method in methods:
        if method == "primal-dual":
            found = primal_dual(exact["lambdas"])
        elif method == "greedy-prune":
            found = kept(f"{key}-greedy-rounds", lambda: greedy(exact["lambdas"]))
        else:
            found = kept(f"{key}-{method}", lambda method=method: of_method(method, exact["lambdas"]))
        curves[method] = found["curve"]
        excess[method] = [a / b - 1 for a, b in zip(found["objectives"], exact["objectives"], strict=True)]
    return {"curves": curves, "excess": excess, "unpruned": measured(forest, task.test, task), "full_cost": full_cost}


def misers(
    key: str, task: Task, cost_weights: Sequence[float], n_rounds: int, learning_rates: Sequence[float]
) -> list[dict[str, float]]:
    """GreedyMiser for several trade-offs, one that buys nothing included: all rounds, and fewer of the same."""

    def grown(cost_weight: float, learning_rate: float) -> dict[str, Any]:
        options = {"cost_weight": cost_weight, "learning_rate": learning_rate, "loss": "squared"}
        miser = GreedyMiserClassifier(n_rounds, feature_costs=task.prices, **options).fit(*task.train)
        lengths = {min(n_rounds // part, miser.n_estimators_) for part in (30, 10, 3, 1)} - {0}
        forests = [miser.first(length) for length in sorted(lengths)]
        return {"points": [point_of(forest, task, *measured(forest, task.validation, task)) for forest in forests]}

    found = []
    for weight, rate in product((*cost_weights, 1e6), learning_rates):
        one = kept(f"{key}-{weight:g}-{rate:g}-{n_rounds}", lambda weight=weight, rate=rate: grown(weight, rate))
        found += one["points"]
    return found


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


def report_curves(
    report: Report,
    title: str,
    found: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    loss: str = "test error",
) -> None:
    """A table of losses by budget, the comparison with the exact path, and a figure."""
    curves = {names.get(name, name): curve for name, curve in mean_curves(found).items()}
    cost, unpruned = np.mean([one["unpruned"] for one in found], axis=0)
    shown = [0, 2, 4, 7, 11, 15, 19]
    header = ["method", *[f"{BUDGETS[at]:.0%}" for at in shown]]
    rows = [[name, *[_number(curve.errors[at]) for at in shown]] for name, curve in curves.items()]
    report.table(f"{title}: {loss} by budget, in shares of the unpruned cost", header, rows)
    report.say(f"Unpruned: {cost:.4g} a row, {loss} {unpruned:.4f}. Repeats: {len(found)}.")
    header = ["against", "exact at or below", "mean advantage", "exact above by, at most"]
    report.table(f"{title}: budgets at which the exact path is no worse", header, comparison(curves))
    figure, ((axis,),) = subplots(1, 1, (6.4, 4.4))
    for (name, curve), style in zip(curves.items(), STYLES, strict=False):
        axis.plot(*_distinct(curve), label=name, zorder=3 if name == "exact" else 2, **style)
    axis.plot(cost, unpruned, "k*", markersize=10, label="unpruned", zorder=4)
    _finish(axis, f"{title} (mean of {len(found)})" if len(found) > 1 else title, loss)
    report.figure(file_name(title), figure)


def report_sides(report: Report, title: str, sides: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> None:
    """Methods on two forests, or with two price lists: test error within budgets in units of cost, and a figure."""
    budgets = max(found["full_cost"] for found in sides.values()) * np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0])
    rows = []
    figure, ((axis,),) = subplots(1, 1, (6.4, 4.4))
    for (side, found), line in zip(sides.items(), ("-", "--"), strict=True):
        for (method, given), style in zip(found["curves"].items(), STYLES, strict=False):
            curve, label = Curve(*given), f"{names.get(method, method)}, {side}"
            rows.append([label, *[_number(_within(curve, found["full_cost"], budget)) for budget in budgets]])
            axis.plot(*_distinct(curve), label=label, **style | {"linestyle": line})
        cost, error = found["unpruned"]
        axis.plot(cost, error, "*", color="k" if line == "-" else "0.5", markersize=10, label=f"unpruned, {side}")
        report.say(f"{title}; {side}: {cost:.4g} a row unpruned, test error {error:.4f}.")
    report.table(f"{title}: test error by budget", ["forest, method", *[f"{budget:.1f}" for budget in budgets]], rows)
    _finish(axis, title, "test error")
    report.figure(file_name(title), figure)


# The exact path is red, as in the paper. Between two offers a method has nothing better than the cheaper one.
STYLES = [
    {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.3, "drawstyle": "steps-post"}
    for color, marker in zip(("C3", "C0", "C1", "C2", "C4", "C5", "C7"), "osD^vPX", strict=True)
]


def _within(curve: Curve, full_cost: float, budget: float) -> float:
    """The error offered within a budget in units of cost."""
    at = int(np.searchsorted(BUDGETS * full_cost, budget * (1 + 1e-12), side="right")) - 1
    return curve.errors[at] if at >= 0 else float("nan")


def _distinct(curve: Curve) -> NDArray[np.float64]:
    """What is offered within some budget, each once, by cost; shape (2, n)."""
    offered = np.array(curve, float)
    return np.unique(offered[:, np.isfinite(offered).all(axis=0)], axis=1)


def _finish(axis: Any, title: str, loss: str) -> None:
    """Labels, and a view of what costs at least a tenth: a forest that asks for next to nothing dwarfs all others."""
    costs, losses = np.hstack([line.get_xydata().T for line in axis.lines])
    shown = losses[costs >= 0.1 * costs.max()]
    margin = 0.05 * (shown.max() - losses.min())
    axis.set(title=title, xlabel="mean cost per test row", ylabel=loss, xlim=(0, None))
    axis.set_ylim(losses.min() - margin, shown.max() + margin)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def file_name(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def _number(error: float) -> str:
    return f"{error:.4f}" if np.isfinite(error) else "–"


def _span(shares: Sequence[float]) -> str:
    return " to ".join(f"{round(share, 6) + 0.0:.2%}" for share in (min(shares), max(shares)))  # + 0.0: no "-0.00%"


def report_objectives(report: Report, excess: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """By how much each method's best pruning is above the exact optimum of error + lambda * cost."""
    methods = list(dict.fromkeys(method for of_task in excess.values() for method in of_task))
    rows = []
    for title, of_task in excess.items():
        cells = [_span(of_task[m]) if m in of_task else "–" for m in methods]
        rows.append([title, *cells])
    report.table("Objective above the exact optimum (least and most over the trade-offs)", ["task", *methods], rows)
    lowest = min(value for of_task in excess.values() for values in of_task.values() for value in values)
    verdict = "never" if lowest >= -1e-12 else f"SOMETIMES (by {-lowest:.3g})"
    report.say(f"The exact path is {verdict} above another method in its own objective.")
