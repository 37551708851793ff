"""The story of forests within budgets of feature costs: what they cost, whom they find, which features rows need."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scurry.costs import FeatureCosts
from scurry.errors import ScurryWarning
from scurry.forest import Forest
from scurry.formatting import format_number, format_percent, format_share, round_up
from scurry.pruning import Offers, PruningPath, feature_uses
from scurry.report.charts import Axis, Chart
from scurry.report.story import BLOCK, Claim, Column, Curve, Effort, Picture, Story, Table, TestRows, Tile
from scurry.timing import Runner

_N_BUDGETS = 31  # every budget is a forest that is run on the test rows
_MAX_CHANGED = 0.01  # share of labels that may change in the forest shown first


@dataclass(frozen=True, eq=False)
class _Choice:
    """A forest, what it costs on the rows it was chosen by, and the budget that buys it."""

    forest: Forest
    cost: float
    max_cost: float


def tell(subject: PruningPath | Offers, test: TestRows, max_cost: float | None = None, currency: str = "") -> Story:
    """Collect what there is to say about forests within budgets; the one within `max_cost` is shown first."""
    sample = test.thin(BLOCK)
    choices = _list_choices(subject)
    costs = subject.problem.costs if isinstance(subject, PruningPath) else subject.feature_costs

    def price(amount: float) -> str:
        return currency + format_number(round(amount, 2) if currency else amount)

    name = "path" if isinstance(subject, PruningPath) else "offers"
    curve = _measure_curve(choices, costs, sample, max_cost, name)
    shown, whole = choices[curve.start], test.forest
    paid, paid_in_full = (costs.of_rows(forest, sample.rows) for forest in (shown.forest, whole))
    labels = shown.forest.predict(test.rows, None)
    mean_paid, mean_in_full = float(paid.mean()), float(paid_in_full.mean())
    saved = format_share(1 - mean_paid / mean_in_full if mean_in_full else 0.0)  # nothing to save if all is free
    changed = format_share(test.measure_change(labels))
    tiles = [
        Tile("cost per row", price(mean_paid), f"full model: {price(mean_in_full)}"),
        Tile("labels changed", changed, f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("forests to choose from", format_number(len(choices)), "each within another budget"),
    ]
    if test.y is not None:
        ours, full = (format_share(test.measure_quality(each)) for each in (labels, test.full))
        tiles.append(Tile("accuracy", ours, f"full model: {full}"))
    # A path made at a few prices may have no pruning that changes so little.
    is_close = sample.measure_change(shown.forest.predict(sample.rows, None)) <= _MAX_CHANGED
    if max_cost is not None:
        which = f"The best forest within {price(max_cost)} per row"
    elif is_close:
        which = f"The cheapest pruning shown that changes at most {format_percent(_MAX_CHANGED)} of labels"
    else:
        which = "The pruning that changes the fewest labels"
    is_path = isinstance(subject, PruningPath)
    return Story(
        kind="Pruning" if is_path else "Feature budget",
        verdict=f"{which} saves {saved} of what test rows pay for features, and changes {changed} of labels."
        + (f" Do not use it: every test row gets the label {labels[0]}." if (labels == labels[0]).all() else ""),
        tiles=tiles,
        promise=_describe_promise(subject) if isinstance(subject, PruningPath) else _NO_PROMISE,
        claims=[
            *([_claim_optimality(subject)] if isinstance(subject, PruningPath) else []),
            *test.claim_quality(labels),
            *_claim_labels(labels),
        ],
        effort=Effort("cost", paid, float(paid_in_full.max()), "What test rows pay in the forest shown first."),
        picture=_draw_path(subject) if isinstance(subject, PruningPath) else _draw_offers(subject),
        tables=[*_tabulate_recalls(labels, test), _tabulate_features(shown.forest, costs, sample, price)],
        curve=curve,
        answers=labels,
        runners=[Runner("all trees, scurry", whole.predict), Runner("within the budget", shown.forest.predict)],
        recipe=f"scurry.prune(model, X_val, method={subject.method!r}, …).at(max_cost={shown.max_cost:g})"
        if isinstance(subject, PruningPath)
        else f"scurry.FeatureBudgetClassifier(model, max_cost={shown.max_cost:g}, …).fit(X, y)",
        settings=_list_settings(subject, costs, whole),
    )


_NO_PROMISE = (
    "Nothing for new rows. Each forest to choose from was better than all cheaper ones on rows that did not grow it."
)


def _list_choices(subject: PruningPath | Offers) -> list[_Choice]:
    """Return the forests to choose from, by rising cost."""
    judged = (
        isinstance(subject, PruningPath) and subject.validation is not None and subject.validation.codes is not None
    )
    if isinstance(subject, Offers) or judged:
        offers = subject if isinstance(subject, Offers) else subject.offers
        return [_Choice(offer.forest, offer.cost, round_up(offer.cost, 6)) for offer in offers]
    low, high = float(subject.costs.min()), float(subject.costs.max())
    vertices = np.unique(subject.costs)
    some = vertices[np.unique(np.linspace(0, len(vertices) - 1, _N_BUDGETS).round().astype(np.intp))]
    # Prunings of the path may lie close together, so evenly spaced budgets come in addition.
    budgets = np.union1d(some, np.linspace(low, high, _N_BUDGETS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScurryWarning)  # the page says so where it matters
        # Budgets have few digits, so that one copied from the page leads to the same pruning.
        found = {budget: subject.point(max_cost=budget) for budget in (round_up(float(b), 6) for b in budgets)}
    # Several budgets may lead to one pruning; the largest of them stands for it.
    by_cost = {point.cost: budget for budget, point in found.items()}
    return [_Choice(found[by_cost[cost]].forest, cost, by_cost[cost]) for cost in sorted(by_cost)]


def _measure_curve(
    choices: list[_Choice], costs: FeatureCosts, test: TestRows, max_cost: float | None, name: str
) -> Curve:
    forests = [choice.forest for choice in choices]
    columns = test.compare([forest.predict(test.rows, None) for forest in forests])
    changed = next(column for column in columns if column.name == test.change_name).values
    read = [float((feature_uses(forest, test.rows) > 0).sum(axis=1).mean()) for forest in forests]
    paid = [float(costs.of_rows(forest, test.rows).mean()) for forest in forests]
    start = int(np.argmax(changed <= max(_MAX_CHANGED, changed.min())))
    if max_cost is not None:
        start = max(int(np.searchsorted([choice.cost for choice in choices], max_cost * (1 + 1e-12), "right")) - 1, 0)
    return Curve(
        budget="mean cost per row",
        spent=np.array([choice.cost for choice in choices]),
        columns=[
            *columns,
            Column("cost per test row", np.array(paid)),
            Column("features read per row", np.array(read)),
            Column("splits kept", np.array([float((~forest.is_leaf).sum()) for forest in forests])),
        ],
        calls=[
            f"path.at(max_cost={choice.max_cost:g})" if name == "path" else f"offers_.at({choice.max_cost:g}).forest"
            for choice in choices
        ],
        start=start,
        shipped=None,
        n_drawn=1 if test.y is None else 2,
        bound=None,
        note=f"Forests from the cheapest to the most expensive, tried on {len(test):,} test rows. The budget is the "
        "mean cost of the rows they were chosen by.",
    )


def _claim_labels(labels: Any) -> list[Claim]:
    if not (labels == labels[0]).all():
        return []
    return [Claim("labels given", "nothing", f"every test row gets {labels[0]}", "one label for all rows")]


def _tabulate_recalls(labels: Any, test: TestRows) -> list[Table]:
    """Return how many rows of each class are found, here and by the full model."""
    if test.y is None:
        return []
    rows: list[list[object]] = []
    for label in np.unique(test.y):
        of_class = test.y == label
        found = [format_share(float((answers[of_class] == label).mean())) for answers in (labels, test.full)]
        rows.append([label, f"{int(of_class.sum()):,}", *found])
    return [Table("Found of each class", ["Class", "Test rows", "Found here", "Full model"], rows)]


def _tabulate_features(forest: Forest, costs: FeatureCosts, test: TestRows, price: Callable[[float], str]) -> Table:
    """Return which features rows need, most often needed first."""
    here, full = ((feature_uses(each, test.rows) > 0).mean(axis=0) for each in (forest, test.forest))
    rows: list[list[object]] = []
    for feature in np.argsort(-here, kind="stable").tolist():
        if here[feature] or full[feature]:
            group = int(costs.groups[feature])
            shared = "" if group < 0 else f" + {price(float(costs.group_costs[group]))} once for its group"
            cost = price(float(costs.feature_costs[feature])) + shared
            rows.append([forest.titles[feature], cost, format_share(here[feature]), format_share(full[feature])])
    header: list[object] = ["Feature", "Price", "Rows that need it here", "In the full model"]
    return Table("What a row needs", header, rows)


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


def _draw_offers(offers: Offers) -> Picture:
    chart = Chart(
        "Error against mean cost of every forest to choose from",
        Axis("mean cost per row", 0, float(offers.costs.max()) or 1.0),
        Axis.around("error on rows that judged them", offers.errors, format_percent),
    )
    hull = offers.hull
    chart.draw_line(np.array([one.cost for one in hull]), np.array([one.error for one in hull]), "main")
    chart.draw_dots(offers.costs, offers.errors, "large")
    grown = ", ".join(dict.fromkeys(offer.name for offer in offers))
    return Picture(
        "Error against cost", chart, [], f"Every dot is a forest; the line is their hull. Grown as: {grown}."
    )


def _list_settings(subject: PruningPath | Offers, costs: FeatureCosts, forest: Forest) -> dict[str, str]:
    names = forest.titles
    shared = [
        f"{format_number(cost)} for any of "
        + ", ".join(names[j] for j in np.flatnonzero(costs.groups == group).tolist())
        for group, cost in enumerate(costs.group_costs)
    ]
    return {
        "method": subject.method if isinstance(subject, PruningPath) else "the best of several candidates",
        "forests": f"{len(subject):,}",
        "feature costs": ", ".join(f"{name} {cost:.6g}" for name, cost in zip(names, costs.feature_costs, strict=True)),
        "costs of groups": "; ".join(shared) or "none",
        "cost of a node test": format_number(float(costs.step_cost)),
    }
