"""The story of a path of pruned forests."""

from __future__ import annotations

import numpy as np

from scurry.pruning import PrunedPoint, PruningPath, feature_uses
from scurry.report.charts import Axis, Chart
from scurry.report.markup import number, percent, rounded_up, share
from scurry.report.story import BLOCK, Claim, Column, Curve, Picture, Story, TestRows, Tile, Work
from scurry.timing import Runner

_N_BUDGETS = 31
_NEARLY = 0.01  # of labels may change in the pruning shown first


def tell(path: PruningPath, test: TestRows) -> Story:
    """What there is to say about a path of prunings."""
    sample = test.some(BLOCK)
    points = _points(path)
    curve = _curve(path, sample, points)
    max_cost, pruned = list(points.items())[curve.start]
    whole, costs = path.problem.forest, path.problem.costs
    paid, paid_in_full = (costs.of_rows(forest, sample.rows) for forest in (pruned.forest, whole))
    labels = pruned.forest.predict(test.rows, None)
    saved = share(1 - float(paid.mean()) / (float(paid_in_full.mean()) or 1.0))
    changed = share(test.change(labels))
    tiles = [
        Tile("cost per row", number(float(paid.mean())), f"full model: {number(float(paid_in_full.mean()))}"),
        Tile("labels changed", changed, f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("prunings on the path", number(len(path)), f"by the method {path.method}"),
    ]
    if test.y is not None:
        tiles.append(Tile("accuracy", share(test.quality(labels)), f"full model: {share(test.quality(test.full))}"))
    return Story(
        kind="Pruning",
        verdict=f"The cheapest pruning shown that changes at most {percent(_NEARLY)} of labels saves {saved} of what "
        f"test rows pay for features, and changes {changed}.",
        tiles=tiles,
        promise=_promise(path),
        claims=[_optimality(path), *test.quality_claims(labels)],
        work=Work(
            "cost", paid, float(max(paid_in_full.max(), 1e-12)), "What test rows pay in the pruning shown first."
        ),
        picture=_picture(path),
        curve=curve,
        answers=labels,
        effort=[],
        runners=[Runner("all trees, scurry", whole.predict), Runner("pruned", pruned.forest.predict)],
        recipe=f"scurry.prune(model, X_val, method={path.method!r}, …).at(max_cost={max_cost:g})",
        settings=_settings(path),
    )


def _points(path: PruningPath) -> dict[float, PrunedPoint]:
    """The best prunings found, by budgets from the least to all, those of the path among them; costs rise.

    Budgets have few digits, so that one read off the page leads to the same pruning.
    """
    low, high = float(path.costs.min()), float(path.costs.max())
    vertices = np.unique(path.costs)
    some = vertices[np.unique(np.linspace(0, len(vertices) - 1, _N_BUDGETS).round().astype(np.intp))]
    budgets = np.union1d(some, np.linspace(low, high, _N_BUDGETS))
    found = {budget: path.point(max_cost=budget) for budget in (rounded_up(float(b), 6) for b in budgets)}
    by_cost = {point.cost: budget for budget, point in found.items()}
    return {by_cost[cost]: found[by_cost[cost]] for cost in sorted(by_cost)}


def _curve(path: PruningPath, test: TestRows, points: dict[float, PrunedPoint]) -> Curve:
    forests = [point.forest for point in points.values()]
    columns = test.columns([forest.predict(test.rows, None) for forest in forests])
    changed = next(column for column in columns if column.name == test.change_name).values
    read = [float((feature_uses(forest, test.rows) > 0).sum(axis=1).mean()) for forest in forests]
    paid = [float(path.problem.costs.of_rows(forest, test.rows).mean()) for forest in forests]
    return Curve(
        budget="mean cost per row",
        spent=np.array([point.cost for point in points.values()]),
        columns=[
            *columns,
            Column("cost per test row", np.array(paid)),
            Column("features read per row", np.array(read)),
            Column("splits kept", np.array([float((~forest.is_leaf).sum()) for forest in forests])),
        ],
        calls=[f"path.at(max_cost={max_cost:g})" for max_cost in points],
        start=int(np.argmax(changed <= _NEARLY)),
        shipped=None,
        n_drawn=1 if test.y is None else 2,
        bound=None,
        note=f"Prunings from the cheapest to the dearest, tried on {len(test):,} test rows. The budget is the mean "
        "cost of the rows the path was made with.",
    )


def _promise(path: PruningPath) -> str:
    if path.method != "exact":
        return f"nothing: by the method {path.method!r} a pruning may be the best one or not"
    is_whole = len(path) > len(path.lambdas)
    prices = "whatever a unit of cost is worth in errors" if is_whole else "at the prices of a unit of cost asked for"
    return f"{prices}, no pruning of this forest is better on the rows the path was made with"


def _optimality(path: PruningPath) -> Claim:
    known = path.gaps[~np.isnan(path.gaps)]
    if not len(known):
        return Claim("distance from the best pruning", "nothing", "not known for this method")
    worst = float(known.max())
    found = "none" if worst == 0 else f"at most {number(worst)} in error + price · cost"
    measured = f"{found}: proven at {len(known):,} prices of a unit of cost, on the rows it was made with"
    if path.method != "exact":
        return Claim("distance from the best pruning", "nothing", measured)
    return Claim(
        "distance from the best pruning", "none", measured, "kept" if worst == 0 else "not the best everywhere"
    )


def _picture(path: PruningPath) -> Picture:
    by_cost = np.argsort(path.costs, kind="stable")
    costs, errors = path.costs[by_cost], path.errors[by_cost]
    chart = Chart(
        "Error against mean cost of every pruning on the path",
        Axis("mean cost per row", 0, float(costs.max()) or 1.0),
        Axis.around("mean error of the trees", errors, percent),
    )
    chart.line(costs, errors, "main")
    chart.dots(costs, errors, "large")
    note = "Every dot is a pruned forest" + ("; below the line there is none." if path.method == "exact" else ".")
    return Picture("Error against cost", chart, [], note)


def _settings(path: PruningPath) -> dict[str, str]:
    costs, forest = path.problem.costs, path.problem.forest
    names = forest.titles
    shared = [
        f"{number(cost)} for any of " + ", ".join(names[j] for j in np.flatnonzero(costs.groups == group).tolist())
        for group, cost in enumerate(costs.group_costs)
    ]
    return {
        "method": path.method,
        "prunings": f"{len(path):,}",
        "feature costs": ", ".join(f"{name} {cost:.6g}" for name, cost in zip(names, costs.feature_costs, strict=True)),
        "costs of groups": "; ".join(shared) or "none",
        "cost of a node test": number(float(costs.step_cost)),
    }
