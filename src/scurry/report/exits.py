"""The story of a predictor that stops rows early.

The thresholds of an early exit: drawn, and moved apart or together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from scurry.display.thresholds import bins, envelope, leads
from scurry.forest import Forest
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, LeaderRule
from scurry.predictor import Predictor
from scurry.report.charts import Axis, Chart
from scurry.report.markup import number, percent, rounded_up, share
from scurry.report.story import BLOCK, Claim, Column, Curve, Picture, Story, TestRows, Tile, Work
from scurry.stopping.guarantee import certified_rate
from scurry.timing import Runner

_INTERVAL = 0.95


def tell(predictor: Predictor, rule: ExitRule | LeaderRule, test: TestRows) -> Story:
    """What there is to say about an early exit."""
    forest, facts = predictor.forest, predictor.plan.facts
    labels, trees, steps = _run(predictor, test.rows)
    mean_trees, changed = float(trees.mean()), test.change(labels)
    saved = share(1 - mean_trees / forest.n_trees)
    tiles = [
        Tile("trees asked per row", number(mean_trees), f"of {forest.n_trees:,}: {saved} saved"),
        Tile("labels changed", share(changed), f"{int((labels != test.full).sum()):,} of {len(test):,} test rows"),
        Tile("rows stopped early", share(float((trees < forest.n_trees).mean())), "the others asked every tree"),
    ]
    if test.y is not None:
        tiles.append(Tile("accuracy", share(test.quality(labels)), f"full model: {share(test.quality(test.full))}"))
    return Story(
        kind="Early exit",
        verdict=f"It asks {number(mean_trees)} of {forest.n_trees:,} trees per row, and answers {share(changed)} of "
        f"{len(test):,} test rows differently from the full model.",
        tiles=tiles,
        promise=str(facts.get("promise", "nothing is promised of new rows")),
        claims=[*_claims(rule, facts.get("promised_disagreement"), test, labels), *test.quality_claims(labels)],
        work=Work("trees asked", trees, forest.n_trees, "How many trees test rows needed until their label was clear."),
        picture=picture(rule, forest),
        curve=_curve(predictor, rule, test.some(BLOCK)),
        answers=labels,
        effort=[Column("trees asked", trees), Column("node tests", steps)],
        runners=[Runner("all trees, scurry", forest.predict), Runner("early exit", predictor.predict)],
        recipe=_asked(facts),
        facts=facts,
    )


def _run(predictor: Predictor, rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Labels, trees and node tests of each row, by blocks that fit into memory."""
    runs = [predictor.run(rows[at : at + BLOCK], None) for at in range(0, len(rows), BLOCK)]
    return [np.concatenate([getattr(run, name) for run in runs]) for name in ("labels", "trees", "steps")]


def _claims(rule: ExitRule | LeaderRule, bound: float | None, test: TestRows, labels: NDArray[Any]) -> list[Claim]:
    against = {"the model's": test.full}
    if rule.kind == "votes":
        against = {"the full vote's": test.full_vote} | against
    claims: list[Claim] = []
    for whose, reference in against.items():
        n_changed, n_rows = int((labels != reference).sum()), len(test)
        low, high = _interval(n_changed, n_rows)
        measured = f"{share(n_changed / n_rows)} ({share(low)} to {share(high)} with 95 % confidence)"
        what = f"labels other than {whose}"
        if claims or bound is None:
            claims.append(Claim(what, "nothing", measured))
        else:
            claims.append(Claim(what, f"at most {percent(bound)}", measured, _verdict(n_changed / n_rows, low, bound)))
    return claims


def _verdict(measured: float, low: float, bound: float) -> str:
    if measured <= bound:
        return "kept"
    return "above it, perhaps by chance" if low <= bound else "not kept on these rows"


def _interval(n_changed: int, n_rows: int) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate."""
    tail = (1 - _INTERVAL) / 2
    low = float(beta.ppf(tail, n_changed, n_rows - n_changed + 1)) if n_changed else 0.0
    return low, certified_rate(n_changed, n_rows, 1 - tail)


def _asked(facts: dict[str, Any]) -> str:
    return _recipe({name: facts[name] for name in ("max_disagreement", "confidence", "method") if name in facts})


def _recipe(asked: dict[str, Any]) -> str:
    return f"scurry.early_exit(model, X_cal, {', '.join(f'{name}={value!r}' for name, value in asked.items())})"


def _curve(predictor: Predictor, rule: ExitRule | LeaderRule, test: TestRows) -> Curve:
    """What bolder and more cautious thresholds do to the test rows, from the boldest to none at all."""
    forest, plan = predictor.forest, predictor.plan
    rules = [*(eased(rule, forest, float(factor)) for factor in FACTORS), unstopped(rule)]
    runs = [Predictor(forest, replace(plan, stop=each)).run(test.rows, None) for each in rules]
    shipped = runs[len(FACTORS) // 2]
    by_effort = {run.mean_trees: run for run in runs} | {shipped.mean_trees: shipped}
    runs = [by_effort[mean_trees] for mean_trees in sorted(by_effort)]
    promised_against = test.full if rule.kind == "scores" else test.full_vote
    n_changed = [int((run.labels != promised_against).sum()) for run in runs]
    columns = test.columns([run.labels for run in runs])
    if rule.kind == "votes":
        from_vote = Column("labels other than the full vote's", np.array(n_changed) / len(test), share)
        columns.insert(0 if test.y is None else 1, from_vote)
    confidence = plan.facts.get("confidence") or _INTERVAL
    provable = np.array([certified_rate(n, len(test), confidence) for n in n_changed])
    calls = [_recipe({"max_disagreement": rounded_up(float(rate), 2), "confidence": confidence}) for rate in provable]
    start = runs.index(shipped)
    calls[start] = _asked(plan.facts)
    return Curve(
        budget="trees asked per row",
        spent=np.array(sorted(by_effort)),
        columns=[
            *columns,
            Column(f"could be promised, from {len(test):,} rows", provable, share),
            Column("node tests per row", np.array([run.mean_steps for run in runs])),
        ],
        calls=calls,
        start=start,
        shipped=start,
        n_drawn=1 if test.y is None else 2,
        bound=plan.facts.get("promised_disagreement"),
        note=f"{family_note(rule)}, and what that does to {len(test):,} test rows. It shows what could be asked for; "
        "a promise comes from a calibration on rows of its own. A node test compares one feature with one threshold.",
    )


_BOLDEST = 1 / 16
FACTORS = np.geomspace(_BOLDEST, 1 / _BOLDEST, 41)  # the middle one leaves thresholds as they are
_ASK_EVERY_TREE = 3  # a side of ExitRule's pieces
_INT32 = np.iinfo(np.int32)


def eased(rule: ExitRule | LeaderRule, forest: Forest, factor: float) -> ExitRule | LeaderRule:
    """The rule with the distance between its thresholds times `factor`; bins of scores stop later instead."""
    if isinstance(rule, LeaderRule):
        second = np.arange(rule.need.shape[1])
        need = second + np.maximum(np.ceil(factor * (rule.need - second.astype(np.float64))), 1)
        return replace(
            rule,
            lead=_whole(np.where(rule.lead < NEVER_ABOVE, np.ceil(factor * rule.lead), NEVER_ABOVE)),
            need=_whole(np.where(rule.need < NEVER_ABOVE, need, NEVER_ABOVE)),
        )
    if rule.piece_offset.size:
        n_asked = round(forest.n_trees * max(0.0, np.log(factor) / -np.log(_BOLDEST)))
        first = rule.piece_offset[n_asked] + n_asked  # there is one piece more than edges after each tree
        stops = (np.arange(len(rule.piece_sides)) < first) & (rule.piece_sides != _ASK_EVERY_TREE)
        return replace(rule, piece_sides=np.where(stops, 0, rule.piece_sides).astype(np.uint8))
    has_lower, has_upper = rule.lower > NEVER_BELOW, rule.upper < NEVER_ABOVE
    lower, upper = rule.lower.astype(np.float64), rule.upper.astype(np.float64)
    decision = float(rule.threshold(forest))
    one_sided = np.where(has_upper, np.minimum(decision, upper - 1), np.maximum(decision, lower + 1))
    centre = np.where(has_lower & has_upper, (lower + upper) / 2, one_sided)
    return replace(
        rule,
        lower=_whole(np.where(has_lower, np.floor(centre + factor * (lower - centre)), NEVER_BELOW)),
        upper=_whole(np.where(has_upper, np.ceil(centre + factor * (upper - centre)), NEVER_ABOVE)),
    )


def unstopped(rule: ExitRule | LeaderRule) -> ExitRule | LeaderRule:
    """The rule without a stop before the last tree."""
    if isinstance(rule, LeaderRule):
        return replace(rule, lead=np.full_like(rule.lead, NEVER_ABOVE), need=np.full_like(rule.need, NEVER_ABOVE))
    lower, upper = np.full_like(rule.lower, NEVER_BELOW), np.full_like(rule.upper, NEVER_ABOVE)
    lower[:, -1], upper[:, -1] = rule.lower[:, -1], rule.upper[:, -1]
    return replace(rule, lower=lower, upper=upper, piece_sides=np.zeros_like(rule.piece_sides))


def family_note(rule: ExitRule | LeaderRule) -> str:
    """What `eased` does to the rule, as a sentence's beginning."""
    in_bins = isinstance(rule, ExitRule) and rule.piece_offset.size
    return (
        "No row stopped within more and more of the first trees"
        if in_bins
        else "The thresholds moved together and apart"
    )


def _whole(values: NDArray[np.float64]) -> NDArray[np.int32]:
    return values.clip(_INT32.min, _INT32.max).astype(np.int32)


def picture(rule: ExitRule | LeaderRule, forest: Forest) -> Picture:
    """When the rule stops a row."""
    if isinstance(rule, LeaderRule):
        return _leads(rule)
    return _bins(rule, forest) if rule.piece_offset.size else _envelope(rule, forest)


def _envelope(rule: ExitRule, forest: Forest) -> Picture:
    by_votes, trees = rule.kind == "votes", np.arange(forest.n_trees + 1)
    lower, upper = envelope(rule, forest)
    known = np.concatenate([lower[~np.isnan(lower)], upper[~np.isnan(upper)], [0.0]])
    what = "positive votes" if by_votes else "running score"
    y = Axis(what, 0, forest.n_trees) if by_votes else Axis.around(what, np.quantile(known, [0.02, 0.98]))
    chart = Chart(f"Thresholds on the {what} after each tree", Axis("trees asked", 0, forest.n_trees), y)
    for low, high in zip(lower, upper, strict=True):
        chart.staircase(trees, low, beyond=y.low, style="negative")
        chart.staircase(trees, high, beyond=y.high, style="positive")
    scale = "" if by_votes else " (0 at the decision threshold)"
    note = f"A row stops as soon as its {what}{scale} leave{'' if by_votes else 's'} the space between the lines."
    if len(lower) > 1:
        note += f" Each row draws one of {len(lower)} pairs of thresholds by lot."
    return Picture("When a row stops", chart, _sides(forest), note)


def _bins(rule: ExitRule, forest: Forest) -> Picture:
    found = bins(rule, forest)
    y = Axis.around("running score", np.concatenate([found.low, found.high, [0.0]]))
    chart = Chart("Bins of the running score that stop a row", Axis("trees asked", 0, forest.n_trees), y)
    for positive, style in ((False, "negative"), (True, "positive")):
        chosen = found.positive == positive
        chart.strips(found.trees[chosen], found.low[chosen], found.high[chosen], style)
    note = "A row stops once its running score (0 at the decision threshold) is in a coloured bin."
    return Picture("When a row stops", chart, _sides(forest), note)


def _leads(rule: LeaderRule) -> Picture:
    lead = leads(rule)
    rounds = np.arange(len(lead))
    what = "lead in votes" if rule.kind == "votes" else "lead in score"
    y = Axis.around(what, np.append(lead[~np.isnan(lead)], 0.0))
    chart = Chart(f"The {what} over the second class that stops a row", Axis("rounds of trees", 0, len(rounds) - 1), y)
    chart.staircase(rounds, lead, beyond=y.high, style="positive")
    note = f"A row stops once the leading class has this {what} over the second."
    return Picture("When a row stops", chart, [("positive", "stop: the leading class")], note)


def _sides(forest: Forest) -> list[tuple[str, str]]:
    negative, positive = ("negative", "positive") if forest.classes is None else forest.classes
    return [("positive", f"stop: {positive}"), ("negative", f"stop: {negative}")]
