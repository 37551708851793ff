"""The story of an early exit: how many trees it evaluates, what it changes, and what other thresholds would do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.formatting import format_number, format_share, round_up
from scurry.plan import Band, Bins, Leads, SumRule
from scurry.predictor import Predictor
from scurry.promises import Certificate, Labels
from scurry.report.charts import Axis, Chart
from scurry.report.claims import claim_promise
from scurry.report.story import BLOCK, CONFIDENCE, Column, Curve, Effort, Picture, Story, TestRows, Tile
from scurry.stopping.guarantee import certified_rate
from scurry.timing import Runner

# Trees evaluated for the curve, and rows whose node tests are counted on it: a few seconds.
_MAX_TREES, _MIN_ROWS, _N_COUNTED = 300_000_000, 2_000, 2_000
# From 16 times as bold to 16 times as cautious. The middle factor is 1, so that the predictor itself is on the curve.
FACTORS = np.geomspace(1 / 16, 16, 41)


def tell(predictor: Predictor, rule: SumRule | None, test: TestRows) -> Story:
    """Collect what there is to say about an early exit; without a rule on one sum there are no thresholds to draw."""
    forest, certificate = predictor.forest, predictor.certificate or Certificate(method="by hand")
    is_classifier = forest.is_classifier
    # Where labels are certain, bolder thresholds would be another promise, and more cautious ones pointless.
    is_certain = certificate.promise is not None and certificate.promise.confidence == 1.0
    runs = [predictor.run(test.rows[at : at + BLOCK], None) for at in range(0, len(test), BLOCK)]
    labels, trees, node_tests = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("labels", "trees", "steps")
    )
    mean_trees, n_changed = format_number(float(trees.mean())), int((labels != test.full).sum())
    changed = test.format_value(test.measure_change(labels))
    saved = format_share(1 - float(trees.mean()) / forest.n_trees)
    stopped = format_share(float((trees < forest.n_trees).mean()))
    tiles = [
        Tile("trees evaluated per row", mean_trees, f"of {forest.n_trees:,}: {saved} saved"),
        Tile(test.change_name, changed, f"{n_changed:,} of {len(test):,} test rows" if is_classifier else "test rows"),
        Tile("rows stopped early", stopped, "the others evaluated every tree"),
    ]
    if test.y is not None:
        ours, full = (test.format_value(test.measure_quality(each)) for each in (labels, test.full))
        tiles.append(Tile(test.quality_name, ours, f"full model: {full}"))
    if test.y is not None and is_classifier:
        for name, values, show in test.compare_classes([labels, test.full])[:1]:
            tiles.append(Tile(name, show(values[0]), f"full model: {show(values[1])}"))
    differs = f"answers {changed} of {len(test):,} test rows differently from the full model"
    if not is_classifier:
        differs = (
            f"its values have a mean squared distance of {changed} from the full model's on {len(test):,} test rows"
        )
    return Story(
        kind="Early exit",
        verdict=f"It evaluates {mean_trees} of {forest.n_trees:,} trees per row, and {differs}.",
        tiles=tiles,
        promise=certificate.statement(),
        claims=[
            *claim_promise(
                certificate,
                test,
                labels,
                full_vote=test.full_vote if rule is not None and rule.kind == "votes" else None,
            ),
            *test.claim_quality(labels),
        ],
        effort=Effort(
            "trees evaluated", trees, forest.n_trees, "Number of trees evaluated until the answer of a row was clear."
        ),
        picture=None if rule is None else _draw_rule(rule, forest),
        curve=None if rule is None or is_certain else _measure_curve(predictor, rule, test),
        answers=labels,
        probabilities=predictor.predict_proba(test.rows, None) if is_classifier else None,
        row_columns=[Column("trees evaluated", trees), Column("node tests", node_tests)],
        runners=[Runner("all trees, scurry", forest.predict), Runner("early exit", predictor.predict)],
        recipe=_write_recipe(certificate),
        settings=certificate.lines(),
    )


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


def _write_calls(recipe: str, rates: Sequence[float], confidence: float) -> list[str]:
    """Return the call that asks for each rate: the one that made the plan, with another promise."""
    calls = []
    for rate in rates:
        try:
            call = ast.parse(recipe, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            call = None
        if not isinstance(call, ast.Call):  # a file may say anything
            return [recipe] * len(rates)
        asked = {"max_disagreement": rate, "confidence": confidence}
        others = [option for option in call.keywords if option.arg not in (*asked, "promise")]
        call.keywords = [*(ast.keyword(name, ast.Constant(value)) for name, value in asked.items()), *others]
        calls.append(ast.unparse(call))
    return calls


def _measure_curve(predictor: Predictor, rule: SumRule, test: TestRows) -> Curve:
    """Measure what bolder and more cautious thresholds do to the test rows, from the boldest to none at all."""
    forest, plan = predictor.forest, predictor.plan
    rules = [*(rule.with_scaled_thresholds(forest, float(factor)) for factor in FACTORS), rule.without_stops()]
    test = test.thin(int(np.clip(_MAX_TREES // (forest.n_trees * len(rules)), _MIN_ROWS, BLOCK)))
    tried = [Predictor(forest, replace(plan, stop=each)) for each in rules]
    runs = [each.run(test.rows, None) for each in tried]
    middle = len(FACTORS) // 2
    # Neighbouring factors may lead to the same stops. Of such runs one is kept, the predictor's own if it is there.
    by_effort = {run.mean_trees: at for at, run in enumerate(runs)} | {runs[middle].mean_trees: middle}
    kept = [by_effort[mean_trees] for mean_trees in sorted(by_effort)]
    runs, start = [runs[at] for at in kept], kept.index(middle)
    # Counting node tests takes longer than running the rule: fewer rows are enough for a mean.
    counted = test.thin(_N_COUNTED).rows
    node_tests = [tried[at].run(counted, None).mean_steps for at in kept]
    promised_against = test.full if rule.kind == "scores" else test.full_vote
    n_changed = [int((run.labels != promised_against).sum()) for run in runs]
    columns = test.compare([run.labels for run in runs])
    if rule.kind == "votes":
        from_vote = Column("labels other than the full vote's", np.array(n_changed) / len(test), format_share)
        columns.insert(0 if test.y is None else 1, from_vote)
    certificate = plan.certificate or Certificate(method="by hand")
    confidence = (certificate.promise and certificate.promise.confidence) or CONFIDENCE
    provable = np.array([certified_rate(n, len(test), confidence) for n in n_changed])
    recipe = _write_recipe(certificate)
    calls = _write_calls(recipe, [round_up(float(rate), 2) for rate in provable], confidence)
    calls[start] = recipe
    return Curve(
        budget="trees evaluated per row",
        spent=np.array(sorted(by_effort)),
        columns=[
            *columns,
            Column(f"could be promised, from {len(test):,} rows", provable, format_share),
            Column(f"node tests per row, on {len(counted):,} rows", np.array(node_tests)),
        ],
        calls=calls,
        start=start,
        shipped=start,
        n_drawn=1 if test.y is None else 2,
        bound=certificate.max_rate,
        note=f"What bolder and more cautious thresholds do to {len(test):,} test rows. It shows what could be "
        "promised; a promise needs a calibration on rows of its own. A node test compares one feature with one "
        "threshold.",
    )


def _draw_rule(rule: SumRule, forest: Forest) -> Picture:
    match rule.regions(forest):
        case Band() as band:
            return _draw_band(band, rule, forest)
        case Bins() as bins:
            return _draw_bins(bins, forest)
        case Leads(lead):
            return _draw_leads(lead, rule)


def _draw_band(band: Band, rule: SumRule, forest: Forest) -> Picture:
    by_votes, trees = rule.kind == "votes", np.arange(forest.n_trees + 1)
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
    y = Axis.around("running score", np.concatenate([found.low, found.high, [0.0]]))
    chart = Chart("Bins of the running score that stop a row", Axis("trees evaluated", 0, forest.n_trees), y)
    for positive, style in ((False, "negative"), (True, "positive")):
        chosen = found.positive == positive
        chart.draw_strips(found.trees[chosen], found.low[chosen], found.high[chosen], style)
    note = "A row stops once its running score (0 at the decision threshold) is in a coloured bin."
    return Picture("When a row stops", chart, _name_sides(forest), note)


def _draw_leads(lead: NDArray[np.float64], rule: SumRule) -> Picture:
    rounds = np.arange(len(lead))
    what = "lead in votes" if rule.kind == "votes" else "lead in score"
    y = Axis.around(what, np.append(lead[~np.isnan(lead)], 0.0))
    chart = Chart(f"The {what} over the second class that stops a row", Axis("rounds of trees", 0, len(rounds) - 1), y)
    chart.draw_staircase(rounds, lead, beyond=y.high, style="positive")
    note = f"A row stops once the leading class has this {what} over the second."
    return Picture("When a row stops", chart, [("positive", "stop: the leading class")], note)


def _name_sides(forest: Forest) -> list[tuple[str, str]]:
    negative, positive = ("negative", "positive") if forest.classes is None else forest.classes
    return [("positive", f"stop: {positive}"), ("negative", f"stop: {negative}")]
