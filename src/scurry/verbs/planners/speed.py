"""What plans spend: which of several is taken, and whether it saves time, not only trees.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.promises import Labels, TopK
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
        For each tree of rows that stop nowhere, whose own sums are found in the end. Most of their leaves may be known.
    per_test : float
        For each sentinel at which a document is compared with the last of the best; in a set, which also takes
        documents in, twice.
    per_stop : float
        For each sentinel at which a row is tested by itself, which counts where sentinels are chosen.
    """

    per_row: float
    per_tree: float
    again: float = 0.0
    per_test: float = 0.0
    per_stop: float = 0.0


# By how rows are tested (`StopRule.tested_by`), and by the loop that evaluates all trees.
_WORK = {
    "sums": {"sliced": _Work(100, 1.4), "walked": _Work(4, 1.5), "symmetric": _Work(37, 5)},
    # Bins are looked up row by row after every tree.
    "bins": {"sliced": _Work(100, 95), "walked": _Work(4, 3.5), "symmetric": _Work(37, 120)},
    "sentinels": {
        "sliced": _Work(30, 1.1, again=0.3, per_test=40, per_stop=6),
        "walked": _Work(5, 1.3, per_test=1.5, per_stop=1),
        "symmetric": _Work(250, 10, again=16, per_test=45, per_stop=30),
    },
    # A router, then trees that are walked (core/runtime/cell_exit.cc); a walked tree takes as long as many in slices.
    "cells": {"sliced": _Work(130, 33), "walked": _Work(8, 1.3), "symmetric": _Work(40, 6.5)},
}


def stop_cost(forest: Forest) -> float:
    """Return what it takes to test a row by itself, in trees of the full evaluation."""
    return _WORK["sentinels"][forest.engine.loop].per_stop


def test_cost(forest: Forest, promise: TopK) -> float:
    """Return what it takes to compare a document with others of its query, in trees of the full evaluation."""
    return _WORK["sentinels"][forest.engine.loop].per_test * (2 if promise.keep == "set" else 1)


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
        rows = calibration.sample.where(chosen).gather()
    if rows is None or not plan.exits_early or plan.certificate is None:
        return plan
    trees = runner_of(calibration.forest, plan).run(rows[:_N_ROWS], 1, NO_LIMIT).trees
    why = "; ".join(filter(None, (plan.certificate.why, explain_speed(calibration.forest, plan, trees))))
    return replace(plan, certificate=replace(plan.certificate, why=why))


WORTH_IT = 0.9  # below this share of trees saved, the full evaluation's simpler loop is as fast
# Sentinels come first also if they spend so much more than the best on rows that compare methods. They have one
# threshold. An order with a threshold after every tree fits its rows better, and has to be widened more on others.
_CLOSE = 1.5
# Of the risk, for the method that comes first. What is left is for the second: it is tested only if the first turns out
# to spend more than that one was expected to, but nobody knows before.
_FIRST_SHARE, _MORE = 0.8, 1.1
_COMPARING_ROWS = "rows set aside for comparing methods"


def _show(spent: Mapping[str, float]) -> str:
    return ", ".join(f"{method} {cost:.1f}" for method, cost in spent.items() if np.isfinite(cost))


def explain_choice(unit: str, spent: Mapping[str, float], best: str, where: str = _COMPARING_ROWS) -> str:
    """Return why a method was chosen, to be read after its name."""
    shown = _show(spent)
    if not shown:
        return "too few rows to compare it with others"
    if spent[best] == min(spent.values()):
        return f"it took the fewest {unit} per row on {where} ({shown})"
    # An order with a threshold after every tree fits the rows that it was made for better than those to come.
    least = f"it took few {unit} per row on {where} ({shown})"
    return f"{least}, and its one threshold fits these rows least by chance"


def keep_if_worth_it(calibration: Calibration, plan: Plan, spent: float) -> Plan:
    """Return the plan, which spends so much per row, or one that evaluates every tree if it saves too little."""
    full_cost, unit = float(calibration.tree_costs(calibration.sample).sum()), calibration.options.cost_unit
    if calibration.options.method != "auto" or plan.certificate is None:
        return plan
    if spent <= WORTH_IT * full_cost:
        return plan
    why = f"of {full_cost:.4g} {unit}, a row needs {spent:.1f} by {plan.certificate.method}"
    certificate = calibration.certificate("full", Labels(0.0), why=f"early exit would not pay; {why}")
    return Plan.full(calibration.forest, certificate)


def least_spent(spent: Mapping[str, float]) -> str:
    """Return the method that comes first: the one that spends least, or sentinels if they spend not much more."""
    best = min(spent, key=lambda method: spent[method])
    return "sentinels" if spent.get("sentinels", np.inf) <= _CLOSE * spent[best] < np.inf else best


def certify_in_turn(
    calibration: Calibration,
    spent: Mapping[str, float],
    certify: Callable[[Calibration, str], tuple[Plan, float]],
    can_certify: Callable[[Calibration], bool],
) -> tuple[Plan, float]:
    """Return the certified plan of the method that spends less on the rows that certify, of the two that seem best.

    That is not always the one that spent least on rows that compared them: an order of trees may fit rows like these
    by chance, and more so if they trained the model. So this one has most of the risk, and the second what is left. All
    that passes a test holds at once with the confidence asked for, and the better plan may be taken.

    Parameters
    ----------
    calibration : Calibration
        Its rows had no part in the comparison.
    spent : mapping of str to float
        What methods spent there; infinite where it is not known.
    certify : callable
        Returns the plan of a method, tested at the `risk` of the calibration, and what it spends per row.
    can_certify : callable
        Whether so many rows could certify anything at that risk. It must not look at what rules do to them.

    Raises
    ------
    InfeasibleError
        If no method can be certified.
    """
    first = least_spent(spent)  # the first if so few rows do not tell
    second = min((one for one in spent if one != first), key=lambda one: spent[one], default=None)
    shares = {first: _FIRST_SHARE, second: 1 - _FIRST_SHARE}
    tested = {method: replace(calibration, risk_share=share) for method, share in shares.items()}
    if second is None or spent[second] == np.inf or not can_certify(tested[second]):
        plan, cost = certify(calibration, first)
        return _say_why(calibration, plan, spent, {}), cost
    plans, certified, refused = dict[str, Plan](), dict[str, float](), list[InfeasibleError]()
    for method in (first, second):
        if method == second and certified.get(first, np.inf) <= _MORE * spent[second]:
            continue
        try:
            plans[method], certified[method] = certify(tested[method], method)
        except InfeasibleError as error:
            refused.append(error)
    if not plans:
        raise refused[0]
    best = min(certified, key=lambda one: certified[one])
    return _say_why(calibration, plans[best], spent, certified), certified[best]


def _say_why(calibration: Calibration, plan: Plan, spent: Mapping[str, float], certified: Mapping[str, float]) -> Plan:
    if plan.certificate is None or len(spent) == 1:
        return plan
    unit = calibration.options.cost_unit
    why = explain_choice(unit, spent, least_spent(spent))
    if len(certified) > 1:
        why = f"it took the fewest {unit} per row on the rows that test the promise ({_show(certified)}; on "
        why += f"{_COMPARING_ROWS}: {_show(spent)})"
    return replace(plan, certificate=replace(plan.certificate, why=why))
