"""The story of a path of pruned forests."""

from __future__ import annotations

from typing import Any

import numpy as np

from scurry.forest import Forest
from scurry.pruning import PruningPath, feature_uses
from scurry.report.charts import Axis, Chart
from scurry.report.figures import number, percent, share
from scurry.report.story import BLOCK, Claim, Column, Curve, Picture, Runner, Story, TestRows, Tile, Work

_MAX_SHOWN = 60
_NEARLY = 0.01  # of labels may change in the pruning shown first


def tell(path: PruningPath, test: TestRows) -> Story:
    """What there is to say about a path of prunings."""
    sample = test.some(BLOCK)
    shown = _shown(path)
    forests = [path[i] for i in shown]
    answers = [forest.predict(sample.rows, None) for forest in forests]
    curve = _curve(path, sample, shown, forests, answers)
    pruned = forests[curve.start]
    costs = path.problem.costs
    paid, paid_in_full = (costs.of_rows(forest, sample.rows) for forest in (pruned, path.problem.forest))
    labels, budget = pruned.predict(test.rows, None), path.costs[shown[curve.start]]
    saved = 1 - float(paid.mean()) / (float(paid_in_full.mean()) or 1.0)
    changed = share(test.change(labels))
    tiles = [
        Tile("cost per row", number(float(paid.mean())), f"all splits: {number(float(paid_in_full.mean()))}"),
        Tile("labels changed", changed, f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("prunings on the path", number(len(path)), f"by the method {path.method!r}"),
    ]
    if test.y is not None:
        tiles.append(Tile("accuracy", share(test.quality(labels)), f"all splits: {share(test.quality(test.full))}"))
    return Story(
        kind="Pruning",
        verdict=f"Of {len(path):,} prunings, the cheapest that changes at most {percent(_NEARLY)} of labels saves "
        f"{share(saved)} of what {len(sample):,} test rows pay for features, and changes {changed}.",
        tiles=tiles,
        promise="no pruning of this forest has a lower error + λ · cost, whatever the trade-off λ, on the rows the "
        "path was made with",
        claims=[_optimality(path), *test.quality_claims(labels)],
        work=Work(
            "cost", paid, float(max(paid_in_full.max(), 1e-12)), "What test rows pay in the pruning shown first."
        ),
        picture=_picture(path),
        curve=curve,
        answers=labels,
        effort=[],
        runners=[Runner("all trees, scurry", path.problem.forest.predict), Runner("pruned", pruned.predict)],
        recipe=f"scurry.prune(model, X_val, method={path.method!r}, …).at(max_cost={budget:.6g})",
        facts=_facts(path),
    )


def _shown(path: PruningPath) -> list[int]:
    """Prunings by rising cost, evenly chosen where there are many."""
    rising = np.unique(path.costs, return_index=True)[1]
    chosen = np.unique(np.linspace(0, len(rising) - 1, _MAX_SHOWN).round().astype(np.intp))
    return [int(index) for index in rising[chosen]]


def _curve(path: PruningPath, test: TestRows, shown: list[int], forests: list[Forest], answers: list[Any]) -> Curve:
    uses = [feature_uses(forest, test.rows) > 0 for forest in forests]
    columns = test.columns(answers)
    changed = next(column for column in columns if column.name == test.change_name).values
    return Curve(
        budget="mean cost per row",
        spent=path.costs[shown],
        columns=[
            *columns,
            Column("cost per test row", np.array([path.problem.costs.of_rows(f, test.rows).mean() for f in forests])),
            Column("features read per row", np.array([float(used.sum(axis=1).mean()) for used in uses])),
            Column("splits kept", np.array([float((~f.is_leaf).sum()) for f in forests])),
        ],
        calls=[f"path.at(max_cost={cost:.6g})" for cost in path.costs[shown]],
        start=int(np.argmax(changed <= _NEARLY)),
        shipped=None,
        n_drawn=1 if test.y is None else 2,
        bound=None,
        note=f"Prunings of the path from the cheapest to the dearest, tried on {len(test):,} test rows. The budget is "
        "the mean cost of the rows the path was made with.",
    )


def _optimality(path: PruningPath) -> Claim:
    known = path.gaps[~np.isnan(path.gaps)]
    if not len(known):
        return Claim("distance from the best pruning", "nothing", "not known for this method")
    worst = float(known.max())
    measured = f"at most {number(worst)} in error + λ · cost, proven at {len(known):,} trade-offs"
    return Claim(
        "distance from the best pruning", "none", measured, "kept" if worst == 0 else "not the best everywhere"
    )


def _picture(path: PruningPath) -> Picture:
    by_cost = np.argsort(path.costs, kind="stable")
    costs, errors = path.costs[by_cost], path.errors[by_cost]
    chart = Chart(
        "Error against mean cost of every pruning on the path",
        Axis("mean cost per row", 0, float(costs.max()) or 1.0),
        Axis.around("error", errors, percent),
    )
    chart.line(costs, errors, "main")
    chart.dots(costs, errors)
    note = "Upwards: the mean error of the trees. Every dot is a pruned forest; below the line there is none."
    if path.method != "exact":
        note = "Upwards: the mean error of the trees. Every dot is a pruned forest."
    return Picture("Error against cost", chart, [], note)


def _facts(path: PruningPath) -> dict[str, Any]:
    costs = path.problem.costs
    return {
        "method": path.method,
        "n_prunings": len(path),
        "feature_costs": [float(f"{cost:.6g}") for cost in costs.feature_costs],
        "groups": costs.groups.tolist(),
        "group_costs": costs.group_costs.tolist(),
        "step_cost": costs.step_cost,
    }
