"""The methods that prune: their names, and `exact_path` for errors of your own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import Progress, check_choice, check_instance, check_number, check_numbers, float_of, is_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.pruning.closure import at_lambdas, whole_path
from scurry.pruning.node_errors import adds_scores, score_errors, training_errors, with_mean_scores
from scurry.pruning.path import PruningPath, to_fraction
from scurry.pruning.problem import PruningProblem, pose
from scurry.pruning.row_charges import RowCharges
from scurry.pruning.solvers.baselines import complexity_path, error_path, greedy_prune, independent_path
from scurry.pruning.solvers.dantzig_wolfe import dantzig_wolfe
from scurry.pruning.solvers.lp import linear_program, naive_program
from scurry.pruning.solvers.primal_dual import primal_dual

_ONE_BY_ONE = {
    "exact": at_lambdas,
    "lp": linear_program,
    "primal-dual": primal_dual,
    "dantzig-wolfe": dantzig_wolfe,
    "greedy-prune": greedy_prune,
}
_ALL_AT_ONCE = {
    "exact": whole_path,
    "independent": independent_path,
    "ccp": complexity_path,
    "error-only": error_path,
}
METHODS = (
    "exact", "lp", "naive", "primal-dual", "dantzig-wolfe", "independent", "ccp", "error-only", "greedy-prune",
)  # fmt: skip
"""What `method` of `scurry.prune` accepts: the exact path, the papers' solvers of the same objective, and baselines."""


def exact_path(
    forest: Forest,
    X_val: Any,
    *,
    node_errors: Any = None,
    n_error: float | None = None,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    progress: Progress | None = None,
) -> PruningPath:
    """Return the optimal prunings for all trade-offs; node errors may be your own.

    Parameters
    ----------
    forest : Forest
    X_val : array or DataFrame of shape (n_rows, n_features)
    node_errors : array of shape (n_nodes,), optional
        What each node gets wrong when it answers alone; by default the training rows not of its majority class, or
        the squared change of scores (see `scurry.prune`).
    n_error : float, optional
        What the errors are counted on: the error term is their sum over leaves divided by ``n_error * n_trees``.
        Needed with `node_errors`.
    feature_costs, groups, group_costs, step_cost, progress
        As in `scurry.prune`.

    Returns
    -------
    PruningPath

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [1, 0], [0, 1]]}
    >>> path = exact_path(scurry.Forest.from_trees([stump]), [[0.0], [1.0]], node_errors=[5, 1, 0], n_error=10)
    >>> path.errors, path.costs, path.lambdas
    (array([0.1, 0.5]), array([1., 0.]), array([0.4]))
    """
    check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
    if node_errors is not None:
        errors, n_counted = _check_node_errors(forest, node_errors, n_error)
    elif n_error is not None:
        raise InputError("n_error goes with node_errors; without them both come from the forest", argument="n_error")
    elif adds_scores(forest):
        forest, weight = with_mean_scores(forest)
        errors, n_counted = score_errors(forest, weight)
    else:
        errors, n_counted = training_errors(forest)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    return whole_path(pose(forest, RowCharges.of(forest, X_val, costs), errors, n_counted, costs), progress)


def check_choices(errors: str, method: str, lambdas: Any) -> None:
    """Check the options of `scurry.prune` that need no data, before anything is computed."""
    check_choice("errors", errors, ("training", "validation"))
    check_choice("method", method, METHODS)
    if lambdas is None and method not in _ALL_AT_ONCE:
        raise InputError(
            f"method {method!r} solves trade-offs one by one; pass lambdas=[…], rising", argument="lambdas"
        )


def solve(
    problem: PruningProblem, method: str, lambdas: Any, progress: Progress | None, rows: NDArray[Any] | None = None
) -> PruningPath:
    """Return the prunings that a method finds; arguments as of `scurry.prune`, and the rows where they are at hand."""
    if lambdas is None:
        return _ALL_AT_ONCE[method](problem, progress)
    wanted = _check_lambdas(lambdas)
    if method == "naive":
        if rows is None:
            raise InputError('method="naive" needs the rows in memory; use "lp"', argument="method")
        return naive_program(problem, problem.forest.apply(rows), wanted, progress)
    if method in _ONE_BY_ONE:
        return _ONE_BY_ONE[method](problem, wanted, progress)
    return _ALL_AT_ONCE[method](problem, progress).best_for(wanted)


def _check_node_errors(forest: Forest, node_errors: Any, n_error: float | None) -> tuple[NDArray[np.float64], float]:
    errors = check_numbers("node_errors", node_errors)
    if errors.shape != (forest.n_nodes,):
        raise InputError(
            f"node_errors has shape {errors.shape}, expected ({forest.n_nodes},): one for every node",
            argument="node_errors",
        )
    wrong = ~np.isfinite(errors) | (errors < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"node_errors[{at}] is {errors[at]:g}; an error count is finite and 0 or more", argument="node_errors"
        )
    return errors, check_number("n_error", n_error, above=0, hint=": the rows that node_errors are counted on")


def _check_lambdas(lambdas: Any) -> Sequence[Fraction]:
    """Return lambdas as fractions; a single number is a list of one."""
    given = [lambdas] if is_number(lambdas) else list(lambdas)
    if not given:
        raise InputError("lambdas is empty; pass at least one trade-off", argument="lambdas")
    for at, lam in enumerate(given):
        if not np.isfinite(float_of(lam)) or lam < 0:
            raise InputError(f"lambdas[{at}] is {lam!r}; a trade-off is a finite number, 0 or more", argument="lambdas")
        if at and lam <= given[at - 1]:
            raise InputError(f"lambdas must rise, but lambdas[{at}] is {lam} after {given[at - 1]}", argument="lambdas")
    return [to_fraction(lam) for lam in given]
