"""Whether a plan saves time, not only trees: what running it on batches takes, as far as trees tell.

Evaluating all trees has the simplest loop, in which a tree takes the least time. Stopping rows adds work for each row
(sums, tests, rows that are moved together) and for each tree. How much that is depends on the loop: where the full
evaluation takes a fraction of a nanosecond for a row and a tree, as in CatBoost's symmetric trees, a plan that saves
four fifths of the trees may take longer. All figures here are in trees of the full evaluation: the time in which it
passes one of them. They are rounded from measurements with AVX-512 (benchmarks/plan_speed.py). Encoding rows takes the
same time with and without a plan, so that it does not matter for which of the two is faster.

Nothing is timed when a plan is made: the same rows always give the same plan. Methods on scores have the same cost per
tree in the same loop, so that the one with the fewest trees takes the least time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import Plan
from scurry.runners import runner_of
from scurry.runners.runner import NO_LIMIT
from scurry.verbs.options import Calibration

_N_ROWS = 4096  # that show how many trees rows need


@dataclass(frozen=True)
class _Work:
    """What a plan takes, in trees of the full evaluation.

    Attributes
    ----------
    per_row, per_tree : float
    again : float
        For each tree of rows that stop nowhere, whose own sums are found in the end.
    per_test : float
        For each sentinel at which the documents of a query are compared.
    """

    per_row: float
    per_tree: float
    again: float = 0.0
    per_test: float = 0.0


# By how rows are tested (`StopRule.tested_by`), and by the loop that evaluates all trees.
_WORK = {
    "sums": {"sliced": _Work(26, 1.2), "walked": _Work(4, 1.5), "symmetric": _Work(37, 5)},
    # Bins are looked up row by row after every tree.
    "bins": {"sliced": _Work(26, 26), "walked": _Work(4, 3.5), "symmetric": _Work(37, 120)},
    "sentinels": {
        "sliced": _Work(28, 1.05, again=1, per_test=12),
        "walked": _Work(5, 1.3, per_test=2),
        "symmetric": _Work(250, 10, again=16, per_test=60),
    },
    # A router, then trees that are walked (core/runtime/cell_exit.cc); a walked tree takes as long as five in slices.
    "cells": {"sliced": _Work(40, 6.5), "walked": _Work(8, 1.3), "symmetric": _Work(40, 6.5)},
}


def test_cost(forest: Forest) -> float:
    """Return what it takes to compare a document with others of its query, in trees of the full evaluation."""
    return _WORK["sentinels"][forest.engine.loop].per_test


def expected_time(forest: Forest, plan: Plan, trees: NDArray[np.integer]) -> float:
    """Return about how long a batch of rows takes, where evaluating all trees takes 1; encoding rows is left out.

    Parameters
    ----------
    forest : Forest
    plan : Plan
    trees : int array of shape (n_rows,)
        How many trees rows need by the plan.
    """
    if plan.stop is None:
        return 1.0
    work = _WORK[plan.stop.tested_by][forest.engine.loop]
    time = work.per_row + work.per_tree * float(trees.mean())
    time += work.again * forest.n_trees * float((trees == forest.n_trees).mean())
    time += work.per_test * plan.stop.mean_comparisons(trees)
    return time / forest.n_trees


def explain_speed(forest: Forest, plan: Plan, trees: NDArray[np.integer]) -> str:
    """Return what a certificate says of a plan that saves trees but no time; nothing if it saves both."""
    if plan.stop is None or expected_time(forest, plan, trees) < 1:
        return ""
    said = f"rows need {float(trees.mean()):.1f} of {forest.n_trees} trees, and evaluating all of them takes no longer"
    # Labels of cells are the model's, so that `predict` may take the faster way.
    return f"{said} in batches" + (", so that labels come from all of them" if plan.stop.tested_by == "cells" else "")


def with_speed(calibration: Calibration, plan: Plan) -> Plan:
    """Return the plan; if it is not expected to save time in batches, with a certificate that says so."""
    rows = calibration.fit_rows
    if calibration.sample.n_rows:
        chosen = np.zeros(calibration.sample.n_rows, np.bool_)
        n_chosen = min(len(chosen), _N_ROWS, calibration.sample.max_gathered)
        chosen[np.linspace(0, len(chosen) - 1, n_chosen).astype(np.intp)] = True
        rows = calibration.sample.where(chosen).gathered()
    if rows is None or not plan.exits_early or plan.certificate is None:
        return plan
    trees = runner_of(calibration.forest, plan).run(rows[:_N_ROWS], 1, NO_LIMIT).trees
    why = "; ".join(filter(None, (plan.certificate.why, explain_speed(calibration.forest, plan, trees))))
    return replace(plan, certificate=replace(plan.certificate, why=why))
