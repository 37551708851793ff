"""The thresholds of an early exit: drawn, and moved apart or together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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
    return _pieces(rule, forest) if rule.piece_offset.size else _envelope(rule, forest)


def _names(forest: Forest) -> tuple[str, str]:
    negative, positive = ("negative", "positive") if forest.classes is None else forest.classes
    return f"stop: {negative}", f"stop: {positive}"


def _envelope(rule: ExitRule, forest: Forest) -> Picture:
    by_votes, trees = rule.kind == "votes", np.arange(forest.n_trees + 1)
    zero = 0 if by_votes else rule.threshold(forest)
    lower = np.where(rule.lower > NEVER_BELOW, (rule.lower - float(zero)) * rule.step, np.nan)
    upper = np.where(rule.upper < NEVER_ABOVE, (rule.upper - float(zero)) * rule.step, np.nan)
    if by_votes:
        lower, upper = np.where(lower < 0, np.nan, lower), np.where(upper > trees, np.nan, upper)
        y = Axis("positive votes", 0, forest.n_trees)
    else:
        known = np.concatenate([lower[~np.isnan(lower)], upper[~np.isnan(upper)], [0.0]])
        y = Axis.around("running score", np.quantile(known, [0.02, 0.98]))
    name = "positive votes after each tree" if by_votes else "running score, 0 at the decision threshold"
    chart = Chart(f"Thresholds on {name}", Axis("trees asked", 0, forest.n_trees), y)
    for low, high in zip(lower, upper, strict=True):
        chart.staircase(trees, low, beyond=y.low, style="negative")
        chart.staircase(trees, high, beyond=y.high, style="positive")
    note = f"A row stops as soon as its {name.split(',')[0].split(' after')[0]} leaves the space between the lines."
    if len(lower) > 1:
        note += f" Each row draws one of {len(lower)} pairs of thresholds by lot."
    negative, positive = _names(forest)
    return Picture("When a row stops", chart, [("positive", positive), ("negative", negative)], note)


def _pieces(rule: ExitRule, forest: Forest) -> Picture:
    zero = float(rule.threshold(forest))
    after = np.repeat(np.arange(forest.n_trees + 1), np.diff(rule.piece_offset))
    edges, sides = (rule.piece_edges - zero) * rule.step, rule.piece_sides
    # The piece above edge k, of the tree that k belongs to, has index k + tree + 1.
    above = sides[np.arange(len(edges)) + after + 1]
    has_end = np.append(after[1:] == after[:-1], False) if len(edges) else np.empty(0, np.bool_)
    end = np.append(edges[1:], 0.0) if len(edges) else edges
    y = Axis.around("running score", edges if len(edges) else [0.0])
    chart = Chart("Bins of the running score that stop a row", Axis("trees asked", 0, forest.n_trees), y)
    for side, style in ((1, "negative"), (2, "positive")):
        chosen = has_end & (above == side)
        chart.strips(after[chosen], edges[chosen], end[chosen], style)
    negative, positive = _names(forest)
    legend = [("positive", positive), ("negative", negative)]
    return Picture(
        "When a row stops",
        chart,
        legend,
        "A row stops once its running score (0 at the decision threshold) is in a coloured bin; elsewhere it goes on.",
    )


def _leads(rule: LeaderRule) -> Picture:
    rounds = np.arange(len(rule.lead))
    lead = np.where(rule.lead < NEVER_ABOVE, rule.lead * rule.step, np.nan)
    if rule.need.size:
        second = np.arange(rule.need.shape[1], dtype=np.float64)
        possible = rule.need + second <= rounds[:, None]
        lead = np.where(possible, rule.need - second, np.inf).min(axis=1)
        lead[np.isinf(lead)] = np.nan
    known = lead[~np.isnan(lead)]
    what = "lead in votes" if rule.kind == "votes" else "lead in score"
    y = Axis.around(what, np.append(known, 0.0))
    chart = Chart(f"The {what} over the second class that stops a row", Axis("rounds of trees", 0, len(rounds) - 1), y)
    chart.staircase(rounds, lead, beyond=y.high, style="positive")
    note = f"A row stops once the leading class has this {what} over the second."
    return Picture("When a row stops", chart, [("positive", "stop: the leading class")], note)
