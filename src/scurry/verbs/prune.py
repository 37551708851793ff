"""`prune` and `exact_path`: state the problem, then hand it to the method asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.pruning.baselines import complexity_path, greedy_prune, independent_path
from scurry.pruning.closure import at_lambdas, whole_path
from scurry.pruning.dantzig_wolfe import dantzig_wolfe
from scurry.pruning.lp import linear_program
from scurry.pruning.node_errors import training_errors, validation_errors
from scurry.pruning.path import Progress, PruningPath
from scurry.pruning.primal_dual import primal_dual
from scurry.pruning.problem import PruningProblem, pose
from scurry.pruning.row_charges import RowCharges

_ONE_BY_ONE = {
    "exact": at_lambdas,
    "lp": linear_program,
    "primal-dual": primal_dual,
    "dantzig-wolfe": dantzig_wolfe,
    "greedy-prune": greedy_prune,
}
_ALL_AT_ONCE = {"exact": whole_path, "independent": independent_path, "ccp": complexity_path}
METHODS = ("exact", "lp", "primal-dual", "dantzig-wolfe", "independent", "ccp", "greedy-prune")


def prune(
    model: Any,
    X_val: Any,
    y_val: Any = None,
    *,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    errors: str = "training",
    method: str = "exact",
    lambdas: Any = None,
    progress: Progress | None = None,
) -> PruningPath:
    """Prune a forest so that rows pay for fewer features.

    Every pruning has an error, the mean over trees of the rows their leaves get wrong, and a cost, the mean over
    `X_val` of what a row pays for the features it meets in any tree. The exact method returns the whole curve of
    prunings that minimise error + lambda * cost for some lambda.

    Parameters
    ----------
    model : Forest, or anything `scurry.from_model` takes
        A classification forest. Models that add up scores are refused.
    X_val : array or DataFrame of shape (n_rows, n_features)
        Rows like those to come: their costs count.
    y_val : array of shape (n_rows,), optional
        Labels, for ``errors="validation"``.
    feature_costs : sequence of n_features numbers, or mapping of every feature's name to a number, optional
        Paid at a row's first use of a feature. By default 1 for each, or 0 where groups are given.
    groups : sequence of n_features group indices (-1: none), or mapping of group name to features, optional
    group_costs : sequence of n_groups numbers, or mapping of group name to number, optional
        Paid at a row's first use of any feature of the group, besides the feature's own cost.
    step_cost : float
        Paid for every split a row passes.
    errors : {"training", "validation"}
        Count a node's errors on the rows it was grown on, or on `X_val` and `y_val`.
    method : str
        "exact"; the papers' "lp", "primal-dual" and "dantzig-wolfe" for the same objective; and the baselines
        "independent" (each tree by itself), "ccp" (by size) and "greedy-prune" (feature by feature).
    lambdas : sequence of rising numbers, optional
        Trade-offs to solve, one by one. By default the methods that can ("exact", "independent", "ccp") return every
        pruning they have; the others need them. Of "independent" and "ccp" each trade-off gets the best they have.
    progress : callable, optional
        Called as ``progress(n_done, n_total)``; an exception it raises ends the search.

    Returns
    -------
    PruningPath

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> path = scurry.prune(model, X[1::2])
    >>> path
    PruningPath(method='exact', n_prunings=15, costs=11.75 to 0, errors=0 to 0.5927)
    >>> point = path.point(max_cost=6)
    >>> point.cost, round(point.error, 4), round(point.gap, 4), point.forest.n_nodes
    (6.0, 0.1697, 0.0026, 146)
    """
    check_choices(errors, method, lambdas)
    forest = from_model(model)
    if errors == "training":
        node_errors, n_error = training_errors(forest)
    elif y_val is None:
        raise InputError('errors="validation" needs y_val, the labels of X_val', argument="y_val")
    else:
        node_errors, n_error = validation_errors(forest, X_val, y_val)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    problem = pose(forest, RowCharges.of(forest, X_val, costs), node_errors, n_error, costs)
    return solve(problem, method, lambdas, progress)


def solve(problem: PruningProblem, method: str, lambdas: Any, progress: Progress | None) -> PruningPath:
    """The prunings a method finds; arguments as of `prune`."""
    if lambdas is None:
        return _ALL_AT_ONCE[method](problem, progress)
    wanted = _rising(lambdas)
    if method in _ONE_BY_ONE:
        return _ONE_BY_ONE[method](problem, wanted, progress)
    return _ALL_AT_ONCE[method](problem, progress).best_for(wanted)


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
    """The optimal prunings for every trade-off, with errors of your own if you like.

    Parameters
    ----------
    forest : Forest
    X_val : array or DataFrame of shape (n_rows, n_features)
    node_errors : array of shape (n_nodes,), optional
        What each node gets wrong when it answers alone; by default the training rows not of its majority class.
    n_error : float, optional
        What the errors are counted on: the error term is their sum over leaves by ``n_error * n_trees``. Needed with
        `node_errors`.
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
    if node_errors is None:
        if n_error is not None:
            raise InputError("n_error goes with node_errors; without them both come from the forest")
        counted, n_error = training_errors(forest)
    else:
        counted, n_error = _given_errors(forest, node_errors, n_error)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    return whole_path(pose(forest, RowCharges.of(forest, X_val, costs), counted, n_error, costs), progress)


def _given_errors(forest: Forest, node_errors: Any, n_error: float | None) -> tuple[NDArray[np.float64], float]:
    try:
        counted = np.asarray(node_errors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"node_errors must be numbers: {error}") from error
    if counted.shape != (forest.n_nodes,):
        raise InputError(f"node_errors has shape {counted.shape}, expected ({forest.n_nodes},): one for every node")
    wrong = ~np.isfinite(counted) | (counted < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"node_errors[{at}] is {counted[at]:g}; an error count is finite and 0 or more")
    if n_error is None or not np.isfinite(n_error) or n_error <= 0:
        raise InputError(f"n_error, what node_errors are counted on, must be a positive number, got {n_error!r}")
    return counted, float(n_error)


def check_choices(errors: str, method: str, lambdas: Any) -> None:
    """Refuse what `prune` does not know."""
    check_choice("errors", errors, ("training", "validation"))
    check_choice("method", method, METHODS)
    if lambdas is None and method not in _ALL_AT_ONCE:
        raise InputError(f"method {method!r} solves trade-offs one by one; pass lambdas=[…], rising")


def _rising(lambdas: Any) -> Sequence[Fraction]:
    given = [lambdas] if isinstance(lambdas, int | float | np.number | Fraction) else list(lambdas)
    if not given:
        raise InputError("lambdas is empty; pass at least one trade-off")
    for at, lam in enumerate(given):
        if not isinstance(lam, int | float | np.number | Fraction) or not np.isfinite(float(lam)) or lam < 0:
            raise InputError(f"lambdas[{at}] is {lam!r}; a trade-off is a finite number, 0 or more")
        if at and lam <= given[at - 1]:
            raise InputError(f"lambdas must rise, but lambdas[{at}] is {lam} after {given[at - 1]}")
    return [Fraction(lam) if isinstance(lam, int | Fraction) else Fraction(float(lam)) for lam in given]
