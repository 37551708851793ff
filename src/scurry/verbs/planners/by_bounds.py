"""Early exit with certainty: a row stops once the trees that are left cannot change its label.

A tree cannot give less than its least leaf nor more than its greatest one. In a boosted model these bounds say little,
because trees answer very differently in different parts of the space. So a router divides the space into cells, and in
each cell only the leaves count that its inputs can reach. Rows are needed for nothing but the shape of the router:
cells should be small where rows are. In a forest that averages, leaves are near 0 or 1 everywhere, cells do not help,
and bounds over all inputs stop rows as soon as a majority is certain.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.promises import Certain, Certificate, ExitMeasurement
from scurry.runners import runner_of
from scurry.runners.cells import bound_leads, bound_sums, find_cells
from scurry.runners.runner import NO_LIMIT
from scurry.stopping.guarantee import Sums
from scurry.verbs.options import Calibration

_METHOD = "bounds"


def plan_by_bounds(calibration: Calibration) -> Plan:
    """Return a plan whose labels are the model's for every input; calibration rows, if any, are only measured."""
    forest, options = calibration.forest, calibration.options
    usual = {
        "method": options.method == "auto",
        "shuffle": options.shuffle == "fixed",
        "keep_scores": options.keep_scores is None,
        "costs": options.cost_unit == "trees",
    }
    for name, is_usual in usual.items():
        if not is_usual:
            raise InputError(f"{name} cannot be chosen for Certain(), which stops rows by bounds", argument=name)
    _check_decision(forest)
    plan = _plan(forest, calibration.fit_rows)
    known = {"n_fit_rows": 0 if calibration.fit_rows is None else len(calibration.fit_rows)}
    return Plan(order=plan.order, stop=plan.stop, certificate=_certificate(calibration, plan, known))


def _plan(forest: Forest, fit_rows: NDArray[np.float64] | None) -> Plan:
    if forest.n_classes > 2:
        return bound_leads(forest)
    if forest.aggregation != "sum":
        return bound_sums(forest)
    rule = find_cells(forest, fit_rows)
    return Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=rule)


def _certificate(calibration: Calibration, plan: Plan, known: dict[str, int]) -> Certificate:
    measured = None
    if calibration.sample.n_rows:
        total = calibration.sample.sums(partial(_measure, calibration.forest, plan)) / calibration.sample.n_rows
        measured = ExitMeasurement(changed=float(total[0]), mean_trees=float(total[1]))
    return calibration.certificate(_METHOD, Certain(), measured=measured, **known)


def _measure(forest: Forest, plan: Plan, rows: NDArray[Any]) -> Sums:
    """Return how many labels of rows change, and how many trees they evaluate."""
    run = runner_of(forest, plan).run(rows, 1, NO_LIMIT)
    return np.array([(run.labels != forest.predict(rows)).sum(), run.trees.sum()], np.int64)


def _check_decision(forest: Forest) -> None:
    """Raise an error if labels depend on more than the order of scores."""
    if forest.wrapper is not None and not forest.wrapper.follows_sum:
        forest.refuse_wrapper("be sure of labels before its members have answered")
    by_scores = forest.n_outputs == 1 or forest.label_from == "score" or forest.link in ("identity", "softmax")
    if not by_scores:
        raise InputError(
            f"this model takes the label with the largest probability, and its probabilities (link {forest.link!r}) "
            "round to equal numbers where scores differ, so that no bound on scores makes a label certain; promise "
            "Labels(…) instead",
            argument="promise",
        )
