"""Error against feature cost: what the two pruning papers' benchmarks share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import scurry
from paper_claims import Result
from paper_pages import claim_cells
from report import RESULTS, Report, commit
from scurry import Forest, datasets
from scurry.errors import InputError, ScurryError
from scurry.evaluation import feature_bill
from scurry.growing import GreedyMiserClassifier
from scurry.pruning import PruningPath
from scurry.pruning.methods import greedy_rounds

Rows = tuple[NDArray[np.float32], NDArray[Any]]
KEPT = RESULTS / "pruning-papers"
NOTHING = (float("nan"), float("nan"))
BUDGETS = np.arange(1, 11) / 10  # shares of what the unpruned forest costs
N_GREEDY = 3  # trade-offs GreedyPrune drops features for; every round is an offer


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


def look_up(name: str) -> dict[str, Any] | None:
    """The result of an earlier computation, None if there is none."""
    path = KEPT / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return found


def kept(name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a computation, from an earlier run if there is one: long ones are done in several runs."""
    found = look_up(name)
    if found is not None:
        return found
    path, result = KEPT / f"{name}.json", compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result), encoding="utf-8")
    print(f"{name}: done at {commit()}", flush=True)
    return result


def forget(prefix: str) -> None:
    """Remove results whose names begin so."""
    for path in KEPT.glob(f"{prefix}*.json"):
        path.unlink()


def measured(forest: Forest, rows: Rows, task: Task) -> tuple[float, float]:
    """Mean cost and loss on some rows."""
    return feature_bill(forest, rows[0], **task.terms).mean_cost, task.loss(forest, rows)


def of_path(path: PruningPath, full_cost: float, task: Task, refine: bool = False) -> Curve:
    """The prunings of a path within each budget, on test rows; with `refine` also some between them, where it jumps."""
    chosen = path.spread(
        BUDGETS * full_cost, refine=refine
    )  # the same array where several budgets buy the same pruning
    forests = {id(splits): path.problem.forest_of(splits) for splits in chosen}
    points = {key: measured(forest, task.test, task) for key, forest in forests.items()}
    return Curve(*map(list, zip(*[points[id(splits)] for splits in chosen], strict=True)))


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


def pruned(forest: Forest, task: Task, methods: Sequence[str]) -> dict[str, Curve]:
    """What the exact path, its hull alone ("λ alone") and other methods offer within each budget."""
    X = task.validation[0]
    full_cost = feature_bill(forest, X, **task.terms).mean_cost
    exact = scurry.prune(forest, X, **task.terms)
    curves = {"exact": of_path(exact, full_cost, task, refine=True), "λ alone": of_path(exact, full_cost, task)}
    for method in methods:
        if method == "greedy-prune":
            inner = np.linspace(0, len(exact.lambdas) - 1, N_GREEDY + 2)[1:-1].astype(int)
            paths = [greedy_rounds(exact.problem, Fraction(float(lam))) for lam in exact.lambdas[np.unique(inner)]]
            curves[method] = of_paths(paths, full_cost, task)
        else:
            curves[method] = of_path(scurry.prune(forest, X, method=method, **task.terms), full_cost, task)
    return curves


def misers(task: Task, cost_weights: Sequence[float], rates: Sequence[float], n_rounds: int) -> list[dict[str, float]]:
    """GreedyMiser for several trade-offs and learning rates: all rounds, and fewer of the same."""
    found = []
    for weight, rate in product((*cost_weights, 1e6), rates):  # the last one buys nothing
        options = {"cost_weight": weight, "learning_rate": rate, "loss": "squared"}
        miser = GreedyMiserClassifier(n_rounds, feature_costs=task.prices, **options).fit(*task.train)
        for length in sorted({min(n_rounds // part, miser.n_estimators_) for part in (30, 10, 3, 1)} - {0}):
            forest = miser.first(length)
            found.append(point_of(forest, task, *measured(forest, task.validation, task)) | {"rate": rate})
    return found


def report_claims(report: Report, result: Result) -> None:
    """The claims of a paper as tables, item by item."""
    header = ["figure", "published", "obtained", "repeats", "interval", "verdict"]
    for item in dict.fromkeys(claim.item for claim in result.claims):
        rows = [claim_cells(claim)[:-1] for claim in result.claims if claim.item == item]
        report.table(item, header, rows)
