"""The story of a pruning path: what its pruned forests cost, and how far their answers are from the full model."""

from __future__ import annotations

import numpy as np

from scurry.formatting import format_number, format_percent, format_share, round_up
from scurry.pruning import PrunedPoint, PruningPath, feature_uses
from scurry.report.charts import Axis, Chart
from scurry.report.story import BLOCK, Claim, Column, Curve, Effort, Picture, Story, TestRows, Tile
from scurry.timing import Runner

_N_BUDGETS = 31  # every budget is a forest that is run on the test rows
_MAX_CHANGED = 0.01  # share of labels that may change in the pruning shown first


def tell(path: PruningPath, test: TestRows) -> Story:
    """Collect what there is to say about a path of prunings."""
    sample = test.thin(BLOCK)
    points = _find_points(path)
    curve = _measure_curve(path, sample, points)
    max_cost, pruned = list(points.items())[curve.start]
    whole, costs = path.problem.forest, path.problem.costs
    paid, paid_in_full = (costs.of_rows(forest, sample.rows) for forest in (pruned.forest, whole))
    labels = pruned.forest.predict(test.rows, None)
    mean_paid, mean_in_full = float(paid.mean()), float(paid_in_full.mean())
    saved = format_share(1 - mean_paid / mean_in_full if mean_in_full else 0.0)  # nothing to save if all is free
    changed = format_share(test.measure_change(labels))
    # A path made at a few prices may have no pruning that changes so little.
    is_close = sample.measure_change(pruned.forest.predict(sample.rows, None)) <= _MAX_CHANGED
    shown = f"cheapest pruning shown that changes at most {format_percent(_MAX_CHANGED)} of labels"
    tiles = [
        Tile("cost per row", format_number(mean_paid), f"full model: {format_number(mean_in_full)}"),
        Tile("labels changed", changed, f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("prunings on the path", format_number(len(path)), f"by the method {path.method}"),
    ]
    if test.y is not None:
        ours, full = (format_share(test.measure_quality(each)) for each in (labels, test.full))
        tiles.append(Tile("accuracy", ours, f"full model: {full}"))
    return Story(
        kind="Pruning",
        verdict=f"The {shown if is_close else 'pruning that changes the fewest labels'} saves {saved} of what test "
        f"rows pay for features, and changes {changed}.",
        tiles=tiles,
        promise=_describe_promise(path),
        claims=[_claim_optimality(path), *test.claim_quality(labels)],
        effort=Effort("cost", paid, float(paid_in_full.max()), "What test rows pay in the pruning shown first."),
        picture=_draw_path(path),
        curve=curve,
        answers=labels,
        runners=[Runner("all trees, scurry", whole.predict), Runner("pruned", pruned.forest.predict)],
        recipe=f"scurry.prune(model, X_val, method={path.method!r}, …).at(max_cost={max_cost:g})",
        settings=_list_settings(path),
    )


def _find_points(path: PruningPath) -> dict[float, PrunedPoint]:
    """Return the best pruning at each of some budgets, from the smallest to the largest; costs rise."""
    low, high = float(path.costs.min()), float(path.costs.max())
    vertices = np.unique(path.costs)
    some = vertices[np.unique(np.linspace(0, len(vertices) - 1, _N_BUDGETS).round().astype(np.intp))]
    # Prunings of the path may lie close together, so evenly spaced budgets come in addition.
    budgets = np.union1d(some, np.linspace(low, high, _N_BUDGETS))
    # Budgets have few digits, so that one copied from the page leads to the same pruning.
    found = {budget: path.point(max_cost=budget) for budget in (round_up(float(b), 6) for b in budgets)}
    # Several budgets may lead to one pruning; the largest of them stands for it.
    by_cost = {point.cost: budget for budget, point in found.items()}
    return {by_cost[cost]: found[by_cost[cost]] for cost in sorted(by_cost)}


def _measure_curve(path: PruningPath, test: TestRows, points: dict[float, PrunedPoint]) -> Curve:
    forests = [point.forest for point in points.values()]
    columns = test.compare([forest.predict(test.rows, None) for forest in forests])
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
        start=int(np.argmax(changed <= max(_MAX_CHANGED, changed.min()))),
        shipped=None,
        n_drawn=1 if test.y is None else 2,
        bound=None,
        note=f"Prunings from the cheapest to the most expensive, tried on {len(test):,} test rows. The budget is the "
        "mean cost of the rows the path was made with.",
    )


def _describe_promise(path: PruningPath) -> str:
    if path.method != "exact":
        return f"Nothing: by the method {path.method!r} a pruning may be the best one or not."
    is_whole = len(path) > len(path.lambdas)
    prices = "Whatever a unit of cost is worth in errors" if is_whole else "At the given prices of a unit of cost"
    return f"{prices}, no pruning of this forest is better on the rows the path was made with."


def _claim_optimality(path: PruningPath) -> Claim:
    known = path.gaps[~np.isnan(path.gaps)]
    if not len(known):
        return Claim("distance from the best pruning", "nothing", "not known for this method")
    worst = float(known.max())
    found = "none" if worst == 0 else f"at most {format_number(worst)} in error + price · cost"
    measured = f"{found}: proven at {len(known):,} prices of a unit of cost, on the rows it was made with"
    if path.method != "exact":
        return Claim("distance from the best pruning", "nothing", measured)
    return Claim(
        "distance from the best pruning", "none", measured, "kept" if worst == 0 else "not the best everywhere"
    )


def _draw_path(path: PruningPath) -> Picture:
    by_cost = np.argsort(path.costs, kind="stable")
    costs, errors = path.costs[by_cost], path.errors[by_cost]
    chart = Chart(
        "Error against mean cost of every pruning on the path",
        Axis("mean cost per row", 0, float(costs.max()) or 1.0),
        Axis.around("mean error of the trees", errors, format_percent),
    )
    chart.draw_line(costs, errors, "main")
    chart.draw_dots(costs, errors, "large")
    note = "Every dot is a pruned forest" + ("; below the line there is none." if path.method == "exact" else ".")
    return Picture("Error against cost", chart, [], note)


def _list_settings(path: PruningPath) -> dict[str, str]:
    costs, forest = path.problem.costs, path.problem.forest
    names = forest.titles
    shared = [
        f"{format_number(cost)} for any of "
        + ", ".join(names[j] for j in np.flatnonzero(costs.groups == group).tolist())
        for group, cost in enumerate(costs.group_costs)
    ]
    return {
        "method": path.method,
        "prunings": f"{len(path):,}",
        "feature costs": ", ".join(f"{name} {cost:.6g}" for name, cost in zip(names, costs.feature_costs, strict=True)),
        "costs of groups": "; ".join(shared) or "none",
        "cost of a node test": format_number(float(costs.step_cost)),
    }
