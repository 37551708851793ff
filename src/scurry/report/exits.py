"""Stories of predictors that stop early.

Of an early exit: how many trees it evaluates, what it changes, and what other thresholds would do. Of an anytime
predictor: how good its answers are after any number of tree steps.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.formatting import format_number, format_percent, format_share, round_up
from scurry.plan import Band, Bins, Gaps, Leads, StopRule
from scurry.predictor import Predictor
from scurry.promises import Certificate, Labels, Outcomes, Promise, TopK, Values
from scurry.report.alternatives import Settings, find_alternatives, try_settings, write_promise
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
    TestRows,
    Tile,
    claim_promise,
    outcomes_of,
)
from scurry.stopping.guarantee import certified_rate
from scurry.timing import Runner

_N_COUNTED = 2_000  # rows whose node tests are counted on the curve: a few seconds


def tell_exits(predictor: Predictor, test: TestRows) -> Story:
    """Collect what there is to say about an early exit."""
    forest, certificate = predictor.forest, predictor.certificate or Certificate(method="by hand")
    rule, promise = predictor.plan.stop, certificate.promise
    assert rule is not None
    labels, trees, node_tests, scores = _run_in_blocks(predictor, test)
    probabilities = predictor.predict_proba(test.rows, None) if forest.has_probabilities else None
    outcomes = outcomes_of(test, labels, probabilities=probabilities, scores=scores)
    full_vote = test.full_vote if rule.by_votes else None
    mean_trees, what = format_number(float(trees.mean())), "document" if rule.ranks_groups else "row"
    saved = format_share(1 - float(trees.mean()) / forest.n_trees)
    stopped = format_share(float((trees < forest.n_trees).mean()))
    change, differs = _tell_change(predictor, test, outcomes)
    tiles = [
        Tile(f"trees evaluated per {what}", mean_trees, f"of {forest.n_trees:,}: {saved} saved"),
        change,
        Tile(f"{what}s stopped early", stopped, "the others evaluated every tree"),
    ]
    if test.y is not None:
        ours, full = (test.format_value(test.measure_quality(each)) for each in (labels, test.full))
        tiles.append(Tile(test.quality_name, ours, f"full model: {full}"))
    if test.y is not None and forest.is_classifier:
        for name, values, show in test.compare_classes([labels, test.full])[:1]:
            tiles.append(Tile(name, show(values[0]), f"full model: {show(values[1])}"))
    # Where labels are certain, bolder thresholds would be another promise, and more cautious ones pointless.
    is_certain = promise is not None and promise.confidence == 1.0
    settings = None if is_certain else try_settings(predictor, test)
    return Story(
        kind="Early exit",
        verdict=f"It evaluates {mean_trees} of {forest.n_trees:,} trees per {what}, and {differs}.",
        tiles=tiles,
        promise=certificate.statement(),
        claims=[
            *claim_promise(certificate, outcomes, full_vote=full_vote, judges=test.judges),
            *test.claim_quality(labels),
        ],
        effort=Effort(
            "trees evaluated",
            trees,
            forest.n_trees,
            f"Number of trees evaluated until the answer of a {what} was clear.",
        ),
        picture=_draw_rule(rule, forest) or _draw_errors(promise, outcomes, trees, forest),
        curve=None if settings is None else _measure_curve(predictor, settings),
        alternatives=() if settings is None else find_alternatives(certificate, settings),
        tests=certificate.tests,
        answers=labels,
        probabilities=probabilities,
        changed=promise.find_changed(outcomes) if isinstance(promise, TopK) else None,
        row_columns=[Column("trees evaluated", trees), Column("node tests", node_tests)],
        runners=[
            Runner("all trees, scurry", forest.predict),
            Runner("early exit", partial(_predict_first, predictor, test.groups)),
        ],
        recipe=_write_recipe(certificate),
        settings=certificate.lines(),
    )


def _run_in_blocks(
    predictor: Predictor, test: TestRows
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Return labels, trees, node tests, and scores where the promise is about log-odds."""
    promise, groups = predictor.promise, test.groups
    about_log_odds = isinstance(promise, Values) and promise.of == "log-odds"
    if groups is not None:  # a query must not be cut
        run = predictor.run(test.rows, None, groups=groups)
        return run.labels, run.trees, run.steps, None
    runs = [predictor.run(test.rows[at : at + BLOCK], None) for at in range(0, len(test), BLOCK)]
    labels, trees, steps = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("labels", "trees", "steps")
    )
    return labels, trees, steps, np.concatenate([run.scores for run in runs]) if about_log_odds else None


def _predict_first(predictor: Predictor, groups: NDArray[Any] | None, X: Any, n_threads: int) -> NDArray[Any]:
    """Predict the first of the test rows, those of a ranker within their queries."""
    return predictor.predict(X, n_threads, groups=None if groups is None else groups[: len(X)])


def _tell_change(predictor: Predictor, test: TestRows, outcomes: Outcomes) -> tuple[Tile, str]:
    """Return what changed, as a tile and as a part of a sentence."""
    changed, whole = test.format_value(test.measure_change(outcomes.answers)), f"{len(test):,} test rows"
    if test.forest.is_classifier:
        tile = Tile(test.change_name, changed, f"{int(outcomes.changed.sum()):,} of {whole}")
        return tile, f"answers {changed} of {whole} differently from the full model"
    counts = () if predictor.promise is None else predictor.promise.count(outcomes)
    if not counts:
        tile = Tile(test.change_name, changed, "test rows")
        return tile, f"its values are {changed} (root mean square) from the full model's on {whole}"
    count = counts[0]
    whole = whole if count.unit == "rows" else f"{count.n_rows:,} {count.unit}"
    tile = Tile(count.what, format_share(count.rate), f"{count.n_broken:,} of {whole}")
    return tile, f"{tile.value} of {whole} have {count.what.removeprefix(f'{count.unit} with ')}"


def _write_recipe(certificate: Certificate) -> str:
    """Return the call that made a plan; older files do not hold it, and it is put together from what they hold."""
    if certificate.recipe:
        return certificate.recipe
    promise, options = certificate.promise, dict[str, Any](method=certificate.method)
    if isinstance(promise, Labels):
        options = {"max_disagreement": promise.max_changed, "confidence": promise.confidence} | options
    if certificate.threshold is not None:
        options["threshold"] = certificate.threshold
    return f"scurry.early_exit(model, X_cal, {', '.join(f'{name}={value!r}' for name, value in options.items())})"


def _write_calls(recipe: str, promises: Sequence[Promise]) -> list[str]:
    """Return the call that asks for each promise: the one that made the plan, with another promise."""
    calls = []
    for promise in promises:
        try:
            call = ast.parse(recipe, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            call = None
        if not isinstance(call, ast.Call):  # a file may say anything
            return [recipe] * len(promises)
        others = [option for option in call.keywords if option.arg not in ("max_disagreement", "confidence", "promise")]
        asked = [ast.keyword("promise", ast.parse(write_promise(promise), mode="eval").body)]
        if isinstance(promise, Labels):  # the short form
            short = {"max_disagreement": promise.max_changed, "confidence": promise.confidence}
            asked = [ast.keyword(name, ast.Constant(value)) for name, value in short.items()]
        call.keywords = [*asked, *others]
        calls.append(ast.unparse(call))
    return calls


def _measure_curve(predictor: Predictor, settings: Settings) -> Curve:
    """Return what bolder and more cautious thresholds do to the test rows, from the boldest to none at all."""
    test, certificate = settings.test, predictor.certificate or Certificate(method="by hand")
    start = settings.own
    # Counting node tests takes longer than running the rule: fewer rows are enough for a mean.
    counted = test.thin(_N_COUNTED)
    node_tests = [each.run(counted.rows, None, groups=counted.groups).mean_steps for each in settings.predictors]
    columns = test.compare([each.answers for each in settings.outcomes])
    drawn = _find_drawn(certificate.promise, settings)
    recipe = _write_recipe(certificate)
    calls = [recipe] * len(settings.outcomes)
    if drawn is not None:
        counts = [settings.count(drawn, at)[0] for at in range(len(settings.outcomes))]
        if not (isinstance(drawn, Labels) and drawn.against == "model"):  # "labels changed" is there already
            what = counts[0].what if test.forest.is_classifier else counts[0].what.removesuffix(" from the model's")
            columns.insert(0 if test.y is None else 1, Column(what, np.array([c.rate for c in counts]), format_share))
    if drawn is not None and test.judges is not None:
        confidence = (certificate.promise and certificate.promise.confidence) or CONFIDENCE
        provable = np.array([certified_rate(each.n_broken, each.n_rows, confidence) for each in counts])
        units = f"{counts[0].n_rows:,} {counts[0].unit}"
        columns.append(Column(f"could be promised, from {units}", provable, format_share))
        asked = [drawn.with_rate(min(round_up(float(rate), 2), 0.99)) for rate in provable]
        calls = _write_calls(recipe, [each.with_confidence(confidence) for each in asked if each is not None])
    calls[start] = recipe
    what = "document" if test.groups is not None else "row"
    return Curve(
        budget=f"trees evaluated per {what}",
        spent=settings.spent,
        columns=[*columns, Column(f"node tests per {what}, on {len(counted):,} rows", np.array(node_tests))],
        calls=calls,
        start=start,
        shipped=start,
        n_drawn=1 if test.y is None else 2,
        bound=certificate.max_rate,
        note=f"What bolder and more cautious thresholds do to {len(test):,} test rows. It shows what could be "
        "promised; a promise needs a calibration on rows of its own. A node test compares one feature with one "
        "threshold.",
    )


def _find_drawn(promise: Promise | None, settings: Settings) -> Promise | None:
    """Return the promise whose rate is drawn: the plan's own if it has a single one, else that of labels."""
    if promise is not None and promise.with_rate(0.5) is not None and settings.count(promise, settings.own):
        return promise
    if not settings.test.forest.is_classifier:
        return None
    return Labels(0.0, against="model" if settings.full_vote is None else "vote")


def _draw_rule(rule: StopRule, forest: Forest) -> Picture | None:
    match rule.regions(forest):
        case Band() as band:
            return _draw_band(band, forest, by_votes=rule.by_votes)
        case Bins() as bins:
            return _draw_bins(bins, forest)
        case Leads(lead):
            return _draw_leads(lead, by_votes=rule.by_votes)
        case Gaps() as gaps:
            return _draw_gaps(gaps, forest)
        case None:
            return None


def _draw_band(band: Band, forest: Forest, *, by_votes: bool) -> Picture:
    trees = np.arange(forest.n_trees + 1)
    lower, upper = band
    known = np.concatenate([lower[~np.isnan(lower)], upper[~np.isnan(upper)], [0.0]])
    what = "positive votes" if by_votes else "running score"
    # The first thresholds are often extreme: an axis that showed them all would flatten the others.
    y = Axis(what, 0, forest.n_trees) if by_votes else Axis.around(what, np.quantile(known, [0.02, 0.98]))
    chart = Chart(f"Thresholds on the {what} after each tree", Axis("trees evaluated", 0, forest.n_trees), y)
    for low, high in zip(lower, upper, strict=True):
        chart.draw_staircase(trees, low, beyond=y.low, style="negative")
        chart.draw_staircase(trees, high, beyond=y.high, style="positive")
    scale = "" if by_votes else " (0 at the decision threshold)"
    note = f"A row stops as soon as its {what}{scale} leave{'' if by_votes else 's'} the space between the lines."
    if len(lower) > 1:
        note += f" Each row draws one of {len(lower)} pairs of thresholds at random."
    return Picture("When a row stops", chart, _name_sides(forest), note)


def _draw_bins(found: Bins, forest: Forest) -> Picture:
    ends = np.concatenate([found.low, found.high])
    known = np.append(ends[np.isfinite(ends)], 0.0)
    if np.isinf(
        ends
    ).any():  # of thresholds, the first are often extreme, and an axis for them would flatten the others
        known = np.append(np.quantile(known, [0.02, 0.98]), 0.0)
    y = Axis.around(found.score, known)
    chart = Chart(f"Bins of the {found.score} that stop a row", Axis("trees evaluated", 0, forest.n_trees), y)
    for positive, style in ((False, "negative"), (True, "positive")):
        chosen = found.positive == positive
        chart.draw_strips(found.trees[chosen], found.low[chosen], found.high[chosen], style)
    note = f"A row stops once its {found.score} (0 at the decision threshold) is in a coloured bin."
    return Picture("When a row stops", chart, _name_sides(forest), note)


def _draw_leads(lead: NDArray[np.float64], *, by_votes: bool) -> Picture:
    rounds = np.arange(len(lead))
    what = "lead in votes" if by_votes else "lead in score"
    y = Axis.around(what, np.append(lead[~np.isnan(lead)], 0.0))
    chart = Chart(f"The {what} over the second class that stops a row", Axis("rounds of trees", 0, len(rounds) - 1), y)
    chart.draw_staircase(rounds, lead, beyond=y.high, style="positive")
    note = f"A row stops once the leading class has this {what} over the second."
    return Picture("When a row stops", chart, [("positive", "stop: the leading class")], note)


def _draw_gaps(found: Gaps, forest: Forest) -> Picture:
    known = ~np.isnan(found.gap)
    trees, gap = found.trees[known], found.gap[known]
    y = Axis("gap to the k-th best", 0, float(gap.max(initial=0.0)) * 1.08 or 1.0)
    chart = Chart("The gap to the k-th best at which a document leaves", Axis("trees evaluated", 0, forest.n_trees), y)
    chart.draw_strips(trees, gap, np.full(len(gap), y.high), "positive")
    note = (
        "A document leaves its query once its estimated score is further below the k-th best than where a line begins."
    )
    return Picture("When a document leaves", chart, [("positive", "it leaves")], note)


def _draw_errors(
    promise: Promise | None, outcomes: Outcomes, trees: NDArray[np.int32], forest: Forest
) -> Picture | None:
    """Draw how far the answers of rows that stopped early are from the model's; None if nothing is promised of it."""
    errors = promise.errors(outcomes) if isinstance(promise, Values) else None
    stops = np.unique(trees[trees < forest.n_trees])
    if errors is None or not isinstance(promise, Values) or not len(stops):
        return None
    within = [float(np.quantile(errors[trees == at], 1 - promise.max_share)) for at in stops]
    share = format_percent(1 - promise.max_share)
    y = Axis("distance from the model's", 0, max(*within, promise.max_error) * 1.12)
    chart = Chart(
        f"Distance of {share} of early answers from the model's", Axis("trees evaluated", 0, forest.n_trees), y
    )
    chart.draw_strips(stops, np.zeros(len(stops)), within, "positive")
    chart.draw_guide(promise.max_error, f"promised for {share} of all rows: {format_number(promise.max_error)}")
    note = (
        f"Of the rows that stopped after so many trees, {share} are no further from the model's answer than their line "
        "reaches. Rows that evaluate every tree get the model's own."
    )
    return Picture("How far early answers are off", chart, [], note)


def _name_sides(forest: Forest) -> list[tuple[str, str]]:
    negative, positive = ("negative", "positive") if forest.classes is None else forest.classes
    return [("positive", f"stop: {positive}"), ("negative", f"stop: {negative}")]


_N_BUDGETS = 101  # one per percent of the steps
_MAX_TESTS = 10**9  # node tests spent on the curve: a few seconds
_MIN_ROWS, _MAX_ROWS = 500, 20_000  # on the curve: fewer are too coarse, more do not change the picture
_MAX_UNSETTLED = 0.01  # share of rows that may still change their answer after the budget shown first


def tell_steps(predictor: Predictor, test: TestRows) -> Story:
    """Collect what there is to say about an anytime plan."""
    n_steps, certificate = len(predictor.plan.order), predictor.certificate
    final = predictor.predict(test.rows, None)
    budgets = np.unique(np.linspace(0, n_steps, _N_BUDGETS).round().astype(np.int64))
    sample = test.thin(int(np.clip(_MAX_TESTS // (max(n_steps, 1) * len(budgets)), _MIN_ROWS, _MAX_ROWS)))
    at_budget = np.stack([predictor.predict(sample.rows, None, max_steps=int(steps)) for steps in budgets])
    settled = budgets[_find_settling(at_budget)]
    start = _find_start(at_budget)
    shown = int(budgets[start])
    answers = predictor.predict(test.rows, None, max_steps=shown)
    when = f" after {shown:,} steps"
    changed = sample.format_value(sample.measure_change(at_budget[start]))
    difference = f"the root mean squared difference from the full model is {changed}"
    if test.forest.is_classifier:
        difference = f"{changed} of labels still differ from the full model's"
    share = format_share(shown / max(n_steps, 1))
    tiles = [
        Tile("tree steps in all", format_number(n_steps), f"in {predictor.forest.n_trees:,} trees"),
        Tile("tree steps until answers are final", format_number(float(np.quantile(settled, 0.9))), "for 9 in 10 rows"),
        Tile(test.change_name + when, changed, f"{share} of the work"),
    ]
    if test.y is not None:
        ours = sample.format_value(sample.measure_quality(at_budget[start]))
        full = test.format_value(test.measure_quality(test.full))
        tiles.append(Tile(test.quality_name + when, ours, f"full model: {full}"))
    return Story(
        kind="Anytime prediction",
        verdict=f"It has an answer at any moment. After {shown:,} of {n_steps:,} steps, {difference}.",
        tiles=tiles,
        promise="There is an answer after any number of steps and at any time; after all steps it is the full model's.",
        claims=[
            Claim(
                "answers other than the model's after all steps",
                "none",
                f"{int((final != test.full).sum()):,} of {len(test):,} test rows",
                "kept" if (final == test.full).all() else "not kept",
            ),
            *(claim._replace(what=claim.what + when) for claim in test.claim_quality(answers)),
        ],
        effort=Effort("tree steps", settled, n_steps, "Steps after which the answer of a row no longer changes."),
        picture=_draw_order(predictor),
        curve=_measure_steps(predictor, sample, budgets, at_budget, start),
        answers=answers,
        probabilities=None
        if not test.forest.has_probabilities
        else predictor.predict_proba(test.rows, None, max_steps=shown),
        when=when,
        runners=[
            Runner("all trees, scurry", predictor.forest.predict),
            Runner(f"anytime, {shown:,} steps", partial(predictor.predict, max_steps=shown)),
            Runner("anytime, all steps", predictor.predict),
        ],
        recipe=_write_steps_recipe(certificate),
        settings={} if certificate is None else certificate.lines(),
    )


def _find_settling(at_budget: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each row the first budget after which its answer stays, from answers of shape (n_budgets, n_rows)."""
    differs = at_budget != at_budget[-1]
    last_change = len(at_budget) - 1 - differs[::-1].argmax(axis=0)
    first: NDArray[np.intp] = np.where(differs.any(axis=0), last_change + 1, 0)
    return first


def _find_start(at_budget: NDArray[Any]) -> int:
    """Return the first budget after which few rows have another answer than at the end."""
    # Labels come and go along the way: look for the last bad budget, not for the first good one.
    undone = (at_budget != at_budget[-1]).mean(axis=1) > _MAX_UNSETTLED
    return int(len(undone) - undone[::-1].argmax()) if undone.any() else 0


def _measure_steps(
    predictor: Predictor, test: TestRows, budgets: NDArray[np.int64], at_budget: NDArray[Any], start: int
) -> Curve:
    order = predictor.plan.order
    # A tree is entered at its first step in the order.
    is_first = np.zeros(len(order) + 1, np.int64)
    is_first[1 + np.unique(order, return_index=True)[1]] = 1
    return Curve(
        budget="tree steps per row",
        spent=budgets.astype(np.float64),
        columns=[
            *test.compare(list(at_budget)),
            Column("trees entered", is_first.cumsum()[budgets].astype(np.float64)),
            Column("share of all steps", budgets / max(len(order), 1), format_share),
        ],
        calls=[f"predictor.predict(X, max_steps={steps})" for steps in budgets],
        start=start,
        shipped=None,
        n_drawn=1 if test.y is None else 2,
        bound=None,
        note=f"A tree step goes one level down in one tree. Every budget was tried on {len(test):,} test rows.",
    )


def _draw_order(predictor: Predictor) -> Picture:
    order, n_trees = predictor.plan.order, predictor.forest.n_trees
    entered = order[np.sort(np.unique(order, return_index=True)[1])]
    rank = np.zeros(n_trees)
    rank[entered] = np.arange(1, len(entered) + 1)
    steps = np.arange(1, len(order) + 1, dtype=np.float64)
    chart = Chart("The tree of each step", Axis("tree step", 0, max(len(order), 1)), Axis("tree", 0, n_trees))
    chart.draw_dots(steps, rank[order])
    note = "The tree that goes one level down at each step; trees are numbered in the order in which they are entered."
    return Picture("Order of the steps", chart, [], note)


def _write_steps_recipe(certificate: Certificate | None) -> str:
    """Return the call that made a plan; in older files it is not written down, and is put together from its results."""
    if certificate is not None and certificate.recipe:
        return certificate.recipe
    made = None if certificate is None else certificate.steps
    options = [] if made is None else [f"{name}={getattr(made, name)!r}" for name in ("order", "objective", "readout")]
    return f"scurry.anytime({', '.join(['model', 'X_order', 'y_order', *options])})"
