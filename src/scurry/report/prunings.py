"""Stories of smaller forests.

Of forests within budgets of feature costs: what they cost, whom they find, which features rows need. Of a compressed
forest: how much smaller it is, and what that does to its answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.costs import FeatureCosts
from scurry.errors import InputError, ScurryWarning
from scurry.forest import Forest
from scurry.formatting import format_bytes, format_number, format_percent, format_share, round_up
from scurry.predictor import Predictor
from scurry.promises import BudgetMeasurement, Certificate, Cost, CostMeasurement, SizeMeasurement
from scurry.pruning import Offers, PruningPath, feature_uses
from scurry.pruning.cost_promise import largest_cost
from scurry.report.markup import Axis, Chart
from scurry.report.story import (
    BLOCK,
    CONFIDENCE,
    Claim,
    Column,
    Curve,
    Effort,
    Picture,
    Story,
    Table,
    TestRows,
    Tile,
    claim_promise,
    judge,
    outcomes_of,
    tell_whole,
)
from scurry.stopping.losses import certified_mean
from scurry.timing import Runner

_N_BUDGETS = 31  # every budget is a forest that is run on the test rows
_MAX_CHANGED = 0.01  # share of labels that may change in the forest shown first


@dataclass(frozen=True, eq=False)
class _Choice:
    """A forest, what it costs on the rows it was chosen by, and the budget that buys it."""

    forest: Forest
    cost: float
    max_cost: float


def tell_pruning(
    subject: PruningPath | Offers, test: TestRows, max_cost: float | None = None, currency: str = ""
) -> Story:
    """Collect what there is to say about forests within budgets; the one within `max_cost` is shown first."""
    sample = test.thin(BLOCK)
    choices = _list_choices(subject)
    costs = subject.problem.costs if isinstance(subject, PruningPath) else subject.feature_costs
    price = _write_prices(currency)
    name = "path" if isinstance(subject, PruningPath) else "offers"
    curve = _measure_curve(choices, costs, sample, max_cost, name)
    shown, whole = choices[curve.start], test.forest
    paid, paid_in_full = (costs.of_rows(forest, sample.rows) for forest in (shown.forest, whole))
    labels = shown.forest.predict(test.rows, None)
    mean_paid, mean_in_full = float(paid.mean()), float(paid_in_full.mean())
    saved = format_share(1 - mean_paid / mean_in_full if mean_in_full else 0.0)  # nothing to save if all is free
    changed = test.format_value(test.measure_change(labels))
    tiles = [
        Tile("mean cost per row", price(mean_paid), f"largest {price(paid.max())}; full model: {price(mean_in_full)}"),
        Tile(test.change_name, changed, f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("forests to choose from", format_number(len(choices)), "each within another budget"),
    ]
    if test.y is not None:
        ours, full = (test.format_value(test.measure_quality(each)) for each in (labels, test.full))
        tiles.append(Tile(test.quality_name, ours, f"full model: {full}"))
    # A path made at a few prices may have no pruning that changes so little. Squared changes have no such scale.
    is_close = whole.is_classifier and sample.measure_change(shown.forest.predict(sample.rows, None)) <= _MAX_CHANGED
    if max_cost is not None:
        which = f"The best forest with a mean cost per row within {price(max_cost)}"
    elif is_close:
        which = f"The cheapest pruning shown that changes at most {format_percent(_MAX_CHANGED)} of labels"
    else:
        which = f"The pruning that changes the {'fewest labels' if whole.is_classifier else 'values least'}"
    loss = f"changes {changed} of labels" if whole.is_classifier else f"changes values by {changed} (root mean square)"
    is_path = isinstance(subject, PruningPath)
    budget = shown.max_cost if max_cost is None else max_cost  # as it was asked for
    return Story(
        kind="Pruning" if is_path else "Feature budget",
        verdict=f"{which} saves {saved} of what test rows pay for features, and {loss}." + _refuse_single(labels),
        tiles=tiles,
        promise=_describe_promise(subject) if isinstance(subject, PruningPath) else _NO_PROMISE,
        claims=[
            *([_claim_optimality(subject)] if isinstance(subject, PruningPath) else []),
            *test.claim_quality(labels),
            *_claim_labels(labels),
        ],
        effort=Effort("cost", paid, float(paid_in_full.max()), "What test rows pay in the forest shown first."),
        picture=_draw_path(subject) if isinstance(subject, PruningPath) else _draw_offers(subject),
        tables=[
            *_tabulate_recalls(labels, test),
            *_tabulate_costs(paid, sample, price),
            _tabulate_features(shown.forest, costs, sample, price),
        ],
        curve=curve,
        answers=labels,
        runners=[Runner("all trees, scurry", whole.predict), Runner("within the budget", shown.forest.predict)],
        recipe=f"scurry.prune(model, X_val, method={subject.method!r}, …).at(max_cost={budget:g})"
        if isinstance(subject, PruningPath)
        else f"scurry.FeatureBudgetClassifier(model, max_cost={budget:g}, …).fit(X, y)",
        settings=_list_settings(subject, costs, whole),
    )


_NO_PROMISE = (
    "Nothing for new rows. Each forest to choose from was better than all cheaper ones on rows that did not grow it."
)


def _list_choices(subject: PruningPath | Offers) -> list[_Choice]:
    """Return the forests to choose from, by rising cost."""
    judged = (
        isinstance(subject, PruningPath) and subject.validation is not None and subject.validation.truth is not None
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


def is_about_costs(predictor: Predictor) -> bool:
    """Return whether a predictor evaluates all trees of a forest that was made, or is used, for what features cost."""
    certificate = predictor.certificate
    made = certificate is not None and isinstance(certificate.measured, BudgetMeasurement | CostMeasurement)
    return predictor.plan.stop is None and (made or predictor.feature_costs is not None)


def tell_chosen(predictor: Predictor, test: TestRows, currency: str = "") -> Story:
    """Collect what there is to say about one forest within a budget, with its promise measured on the test rows."""
    forest, costs = predictor.forest, predictor.feature_costs
    certificate = predictor.certificate or Certificate(method="full")
    story, price = tell_whole(forest, test, certificate), _write_prices(currency)
    found = certificate.measured
    verdict = story.verdict
    claims, tables = test.claim_quality(story.answers), _tabulate_recalls(story.answers, test)
    tiles, effort = list(story.tiles), story.effort
    if costs is None:
        # Files of older versions do not hold the prices.
        if isinstance(found, CostMeasurement):
            tiles.insert(0, Tile("mean cost per row", price(found.mean_cost), "of the rows that certified it"))
            claims.append(Claim("mean cost per row", "see above", "nothing: the file does not hold the prices"))
        if isinstance(found, BudgetMeasurement):
            tiles.insert(0, Tile("mean cost per row", price(found.cost), "of the rows that judged it"))
    else:
        paid, most = _pay(forest, costs, test), largest_cost(costs, forest)
        mean = float(paid.mean())
        note = f"largest {price(paid.max())}, {price(most)} at most"
        if test.forest is not forest:
            note += f"; {test.name}: {price(float(_pay(test.forest, costs, test).mean()))}"
        tiles.insert(0, Tile("mean cost per row", price(mean), note))
        claims.insert(0, _claim_cost(certificate, paid, most, price))
        tables += [*_tabulate_costs(paid, test, price), _tabulate_features(forest, costs, test.thin(BLOCK), price)]
        effort = Effort("cost", paid, most, "What test rows pay.")
        verdict = f"Test rows pay {price(mean)} for features on average. {verdict}"
    if isinstance(found, BudgetMeasurement | CostMeasurement) and found.single_label:
        given = f"every row that chose the forest gets {found.single_label}"
        claims.append(Claim("labels given", "nothing", given, "one label for all rows"))
    if forest.is_classifier:
        claims += _claim_labels(story.answers)
        verdict += _refuse_single(story.answers)
    return replace(
        story,
        kind="Feature budget",
        verdict=verdict,
        tiles=tiles,
        promise=certificate.statement() + ("" if test.forest is not forest else f" {_ALONE}"),
        claims=claims,
        tables=tables,
        effort=effort,
        runners=[
            *([] if test.forest is forest else [Runner("the original model, scurry", test.forest.predict)]),
            Runner("this forest, scurry", forest.predict),
        ],
        recipe=_write_recipe(certificate),
    )


_ALONE = (
    "The model that this forest was made of is not part of it, so labels are compared with its own; pass "
    "model= to compare with that one."
)


def _pay(forest: Forest, costs: FeatureCosts, test: TestRows) -> NDArray[np.float64]:
    """Return what each test row pays."""
    return np.concatenate([costs.of_rows(forest, test.rows[at : at + BLOCK]) for at in range(0, len(test), BLOCK)])


def _claim_cost(
    certificate: Certificate, paid: NDArray[np.float64], most: float, price: Callable[[float], str]
) -> Claim:
    """Return what was promised next to the mean cost of the test rows, with an interval that holds for any costs."""
    values, repeats = np.unique(paid, return_counts=True)
    one_sided, mean = 1 - (1 - CONFIDENCE) / 2, float(paid.mean())
    low, high = mean, mean
    if most > 0:
        high = certified_mean(values, one_sided, max_loss=most, repeats=repeats)
        low = most - certified_mean(np.maximum(most - values, 0.0), one_sided, max_loss=most, repeats=repeats)
    interval = f"({price(low)} to {price(high)} with {format_percent(CONFIDENCE)} confidence)"
    what, measured, promise = "mean cost per row", f"{price(mean)} {interval}", certificate.promise
    if not isinstance(promise, Cost) or promise.confidence is None:
        return Claim(what, "nothing", measured)
    return Claim(what, f"at most {price(promise.max_cost)}", measured, judge(mean, low, high, promise.max_cost))


def _write_recipe(certificate: Certificate) -> str:
    found = certificate.measured
    budget = f"promise=scurry.promises.{certificate.promise}" if certificate.promise else "max_cost=…"
    if certificate.method == "feature budget" and isinstance(found, BudgetMeasurement | CostMeasurement):
        return f"scurry.FeatureBudgetClassifier(model, {budget}, …).fit(X, y): {found.candidate}"
    if isinstance(found, CostMeasurement):
        return f"scurry.prune(model, …).at({budget}, X_cal=…)"
    return "scurry.Predictor.full(scurry.from_model(model)).with_feature_costs(…)"


def _refuse_single(labels: NDArray[Any]) -> str:
    return f" Do not use it: every test row gets the label {labels[0]}." if (labels == labels[0]).all() else ""


def _write_prices(currency: str) -> Callable[[float], str]:
    def price(amount: float) -> str:
        return currency + format_number(round(amount, 2) if currency else amount)

    return price


def _claim_labels(labels: Any) -> list[Claim]:
    if not (labels == labels[0]).all():
        return []
    return [Claim("labels given", "nothing", f"every test row gets {labels[0]}", "one label for all rows")]


def _tabulate_recalls(labels: Any, test: TestRows) -> list[Table]:
    """Return how many rows of each class are found, here and by the full model."""
    if test.y is None or not test.forest.is_classifier:
        return []
    rows: list[list[object]] = []
    compared = {"Found here": labels} | ({} if labels is test.full else {test.title: test.full})
    for label in np.unique(test.y):
        of_class = test.y == label
        found = [format_share(float((answers[of_class] == label).mean())) for answers in compared.values()]
        rows.append([label, f"{int(of_class.sum()):,}", *found])
    return [Table("Found of each class", ["Class", "Test rows", *compared], rows)]


def _tabulate_costs(paid: NDArray[np.float64], test: TestRows, price: Callable[[float], str]) -> list[Table]:
    """Return what rows of each class pay: a budget limits the mean of all, and rare classes often pay more."""
    if test.y is None or not test.forest.is_classifier:
        return []
    by_class = {label: paid[test.y == label] for label in np.unique(test.y)}
    rows: list[list[object]] = [
        [label, f"{len(costs):,}", price(float(costs.mean())), price(float(costs.max()))]
        for label, costs in by_class.items()
    ]
    return [Table("Cost of each class", ["Class", "Test rows", "Mean cost", "Largest cost"], rows)]


def _tabulate_features(forest: Forest, costs: FeatureCosts, test: TestRows, price: Callable[[float], str]) -> Table:
    """Return which features rows need, most often needed first."""
    compared = {"Rows that need it here": forest} | ({} if forest is test.forest else {f"In {test.name}": test.forest})
    needs = [(feature_uses(each, test.rows) > 0).mean(axis=0) for each in compared.values()]
    rows: list[list[object]] = []
    for feature in np.argsort(-needs[0], kind="stable").tolist():
        if any(share[feature] for share in needs):
            group = int(costs.groups[feature])
            shared = "" if group < 0 else f" + {price(float(costs.group_costs[group]))} once for its group"
            cost = price(float(costs.feature_costs[feature])) + shared
            rows.append([forest.titles[feature], cost, *(format_share(share[feature]) for share in needs)])
    return Table("What a row needs", ["Feature", "Price", *compared], rows)


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


_ALONE_SMALL = (
    "The model that this forest was made of is not part of it, so nothing can be compared here; pass model= to compare "
    "with it."
)


def is_compressed(predictor: Predictor) -> bool:
    """Return whether a predictor evaluates all trees of a forest that `scurry.compress` made."""
    certificate = predictor.certificate
    return certificate is not None and isinstance(certificate.measured, SizeMeasurement)


def check_original(predictor: Predictor, model: Forest) -> None:
    """Raise an error if a compressed forest was made of another model than this one."""
    measured = None if predictor.certificate is None else predictor.certificate.measured
    if isinstance(measured, SizeMeasurement) and model.digest != measured.model:
        raise InputError(
            "model is not the one that this forest was made of, and its promise compares with that one; pass the model "
            "that scurry.compress was given",
            argument="model",
        )


def tell_size(predictor: Predictor, test: TestRows) -> Story:
    """Collect what there is to say about a compressed forest, with its promise measured on the test rows."""
    forest, certificate = predictor.forest, predictor.certificate
    assert certificate is not None
    measured = certificate.measured
    assert isinstance(measured, SizeMeasurement)
    story, is_alone = tell_whole(forest, test, certificate), test.forest is forest
    times = format_number(measured.full_bytes / measured.n_bytes)
    tiles = [
        Tile("packed file", format_bytes(measured.n_bytes), f"the model's: {format_bytes(measured.full_bytes)}"),
        Tile(
            "nodes",
            f"{forest.n_nodes:,}",
            f"{format_share(forest.n_nodes / measured.full_nodes)} of the model's {measured.full_nodes:,}",
        ),
        *story.tiles[1:],
    ]
    if not is_alone:
        change = test.format_value(test.measure_change(story.answers))
        tiles.append(Tile(test.change_name, change, f"on {len(test):,} test rows"))
    return replace(
        story,
        kind="Compressed forest",
        verdict=f"It is {times} times smaller than the model it was made of.",
        tiles=tiles,
        promise=certificate.statement() + (f" {_ALONE}" if is_alone else ""),
        claims=[] if is_alone else _claim(predictor, certificate, test, story),
        tests=certificate.tests,
        picture=_draw_sizes(measured, certificate),
        tables=[_tabulate_path(measured)],
        runners=[
            *([] if is_alone else [Runner("the original model, scurry", test.forest.predict)]),
            Runner("compressed forest, scurry", forest.predict),
        ],
    )


def _claim(predictor: Predictor, certificate: Certificate, test: TestRows, story: Story) -> list[Claim]:
    scores = None
    if predictor.forest.n_classes == 2 and predictor.forest.link == "logistic":
        scores = predictor.run(test.rows, None).scores
    outcomes = outcomes_of(test, story.answers, probabilities=story.probabilities, scores=scores)
    return [*claim_promise(certificate, outcomes, judges=test.judges), *test.claim_quality(story.answers)]


def _draw_sizes(measured: SizeMeasurement, certificate: Certificate) -> Picture | None:
    """Draw changed answers of all candidates against their sizes."""
    path = measured.path
    if len(path) < 2:
        return None
    sizes, changed = (np.array([getattr(point, name) for point in path], np.float64) for name in ("n_bytes", "changed"))
    highest = max(float(changed.max()), certificate.max_rate or 0.0) * 1.05
    chart = Chart(
        f"Share of changed answers of {len(path)} candidates against their sizes",
        Axis("bytes", 0, float(sizes.max()), format_bytes),
        Axis("changed answers", 0, highest or 1.0, format_percent),
    )
    chart.draw_line(sizes, changed, "main")
    chart.draw_dots(sizes, changed, "large")
    if certificate.max_rate is not None:
        chart.draw_guide(certificate.max_rate, "promised")
    chart.draw_marker(measured.n_bytes, measured.changed, "chosen")
    return Picture(
        "Candidates", chart, [], "Measured on the calibration rows. The circle is the forest that was chosen."
    )


def _tabulate_path(measured: SizeMeasurement) -> Table:
    has_labels = all(point.accuracy is not None for point in measured.path)
    is_promised = all(point.is_certified is not None for point in measured.path)
    more = [*(["Accuracy"] if has_labels else []), *(["Certified"] if is_promised else [])]
    header = ["Candidate", "Nodes", "Trees", "Bytes", "Changed", *more]
    rows = [
        [
            _name(point.node_share, point.split_bits),
            f"{point.n_nodes:,}",
            f"{point.n_trees:,}",
            format_bytes(point.n_bytes),
            format_share(point.changed),
            *([format_share(point.accuracy)] if point.accuracy is not None and has_labels else []),
            *(["yes" if point.is_certified else "no"] if is_promised else []),
        ]
        for point in measured.path
    ]
    return Table("Candidates on the calibration rows, from large to small", header, rows)


def _name(node_share: float, split_bits: int) -> str:
    if not split_bits:
        return "answers unchanged"
    share = "" if node_share == 1 else f"{format_number(100 * node_share)} % of nodes, "
    return f"{share}{2**split_bits:,} distinct splits"
