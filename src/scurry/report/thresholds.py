"""The thresholds of an early exit: drawn, and moved apart or together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scurry.envelope import bins, envelope, leads
from scurry.forest import Forest
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, LeaderRule
from scurry.report.charts import Axis, Chart
from scurry.report.story import Picture

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
