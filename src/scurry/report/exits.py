"""The story of a predictor that stops rows early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from scurry.plan import ExitRule, LeaderRule
from scurry.predictor import Predictor
from scurry.report.figures import number, percent, rounded_up, share
from scurry.report.story import BLOCK, Claim, Column, Curve, Runner, Story, TestRows, Tile, Work
from scurry.report.thresholds import FACTORS, eased, family_note, picture, unstopped
from scurry.stopping.guarantee import certified_rate

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
