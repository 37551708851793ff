"""The verb `prune`: pay for fewer features."""

from __future__ import annotations

from typing import Any

from scurry.checks import Progress, check_progress
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InputError
from scurry.forest import as_rows, warn_of_other_order
from scurry.predictor import read_forest
from scurry.pruning.methods import check_choices, solve
from scurry.pruning.node_errors import (
    adds_scores,
    check_truth,
    score_errors,
    training_errors,
    validation_errors,
    with_mean_scores,
)
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import RowCharges, pose
from scurry.pruning.refine import ValidationRows


def prune(
    model: Any,
    X_val: Any,
    y_val: Any = None,
    *,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    class_weight: Any = None,
    error_costs: Any = None,
    errors: str = "training",
    method: str = "exact",
    lambdas: Any = None,
    progress: Progress | None = None,
) -> PruningPath:
    """Prune a tree ensemble so that rows pay for fewer features.

    Every pruning has an error and a cost. The cost is the mean over `X_val` of what a row pays for the features that
    any tree reads. The error of a classification forest is the mean over trees of the share of rows that their leaves
    get wrong: the papers' objective. That of a regressor or a boosted model is the mean over trees of the mean squared
    change of the tree's score, compared with the model as it was given; that is not the papers' objective. The exact
    method returns every pruning that minimises error + lambda * cost for some lambda.

    Parameters
    ----------
    model : Forest, or anything `scurry.from_model` takes
        In a regressor or a boosted model, a split that becomes a leaf answers with the mean of the leaves below it.
    X_val : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Rows like those to be predicted; costs are measured on them.
    y_val : array of shape (n_rows,), optional
        Labels, or a regressor's targets. With them, ``path.at(max_cost=…)`` never returns a pruning that costs more
        than another and is not better on these rows: by wrong answers of all trees together, or by their mean squared
        error. Needed for ``errors="validation"`` of a classification forest.
    feature_costs : sequence of n_features numbers, or mapping of every feature's name to a number, optional
        Paid at a row's first use of a feature. By default 1 for each, or 0 where groups are given.
    groups : sequence of n_features group indices (-1: none), or mapping of group name to features, optional
    group_costs : sequence of n_groups numbers, or mapping of group name to number, optional
        Paid at a row's first use of any feature of the group, in addition to the feature's own cost.
    step_cost : float
        Paid for every split a row passes.
    class_weight : "balanced", or mapping of every label to a number, optional
        What an error on a row of each class costs; by default 1. "balanced" counts every class alike, however few rows
        it has. Nodes answer as before; only their errors are weighted. Of a boosted model, errors on `y_val` are.
    error_costs : array of shape (n_classes, n_classes), or mapping of label to mapping of answer to cost, optional
        What answering class j costs where class i is true: ``error_costs[i][j]``. Not together with `class_weight`.
    errors : {"training", "validation"}
        Whether a node's errors are counted on the rows it was grown on, or on `X_val` and `y_val`. Squared changes of
        scores need no `y_val`.
    method : str
        "exact"; the papers' "lp", "primal-dual" and "dantzig-wolfe" for the same objective; their "naive" program, for
        a few rows, whose answers are not always optimal; and the baselines "independent" (each tree by itself), "ccp"
        (by size), "error-only" (fewest errors, at any cost) and "greedy-prune" (feature by feature).
    lambdas : sequence of rising numbers, optional
        Trade-offs to solve, one by one. Without them, "exact", "independent", "ccp" and "error-only" return every
        pruning they find; the other methods need them. With them, these four return the best they find for each.
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
    forest = read_forest(model, X_val).as_sum("be pruned")
    for name, given in (("class_weight", class_weight), ("error_costs", error_costs)):
        if given is not None and adds_scores(forest) and (y_val is None or not forest.is_classifier):
            raise InputError(
                f"{name} weighs wrong labels, and this model is pruned by squared changes of its scores; leave it out"
                + (", or pass y_val, on which prunings are judged by labels" if forest.is_classifier else ""),
                argument=name,
            )
    weights = ErrorCosts.of_forest(forest, class_weight=class_weight, error_costs=error_costs)
    rows = as_rows(forest, X_val)
    truth = None if y_val is None else check_truth(forest, rows, y_val)
    if y_val is not None:
        warn_of_other_order(forest, X_val, y_val, rows, ("X_val", "y_val"))
    if adds_scores(forest):
        forest, weight = with_mean_scores(forest, None if errors == "training" else rows)
        node_errors, n_error = score_errors(forest, weight)
    elif errors == "training":
        node_errors, n_error = training_errors(forest, weights)
    elif y_val is None:
        raise InputError('y_val is needed for errors="validation": the labels of X_val', argument="y_val")
    else:
        node_errors, n_error = validation_errors(forest, X_val, y_val, weights)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    problem = pose(forest, RowCharges.of(forest, rows, costs), node_errors, n_error, costs)
    path = solve(problem, method, lambdas, check_progress(progress), rows)
    return path.judge_on(ValidationRows(rows, truth, costs, weights))
