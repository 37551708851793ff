"""The story of an anytime predictor: how good its answers are after any number of tree steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.formatting import format_number, format_share
from scurry.predictor import Predictor
from scurry.promises import Certificate
from scurry.report.markup import Axis, Chart
from scurry.report.story import Claim, Column, Curve, Effort, Picture, Story, TestRows, Tile
from scurry.timing import Runner

_N_BUDGETS = 101  # one per percent of the steps
_MAX_TESTS = 10**9  # node tests spent on the curve: a few seconds
_MIN_ROWS, _MAX_ROWS = 500, 20_000  # on the curve: fewer are too coarse, more do not change the picture
_MAX_UNSETTLED = 0.01  # share of rows that may still change their answer after the budget shown first


def tell(predictor: Predictor, test: TestRows) -> Story:
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
    difference = f"the mean squared difference from the full model is {changed}"
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
        curve=_measure_curve(predictor, sample, budgets, at_budget, start),
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
        recipe=_write_recipe(certificate),
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


def _measure_curve(
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


def _write_recipe(certificate: Certificate | None) -> str:
    """Return the call that made a plan; in older files it is not written down, and is put together from its results."""
    if certificate is not None and certificate.recipe:
        return certificate.recipe
    made = None if certificate is None else certificate.steps
    options = [] if made is None else [f"{name}={getattr(made, name)!r}" for name in ("order", "objective", "readout")]
    return f"scurry.anytime({', '.join(['model', 'X_order', 'y_order', *options])})"
