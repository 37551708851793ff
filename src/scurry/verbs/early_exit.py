"""`scurry.early_exit`: a predictor that asks as few trees as its promise allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scurry.checks import RandomState
from scurry.errors import InfeasibleError
from scurry.importers import from_model
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.verbs.by_scores import plan_by_scores
from scurry.verbs.by_votes import plan_by_votes
from scurry.verbs.options import Request

# Below this share of trees saved, the full evaluation's simpler loop is as fast.
_WORTH_IT = 0.9


def early_exit(
    model: Any,
    X_cal: Any,
    y_cal: Any = None,
    *,
    X_fit: Any = None,
    max_disagreement: float = 1e-3,
    method: str = "auto",
    confidence: float | None = 0.95,
    shuffle: str = "fixed",
    keep_scores: str | None = None,
    costs: str | ArrayLike = "trees",
    threshold: float | None = None,
    random_state: RandomState = None,
) -> Predictor:
    """Make a classifier stop asking trees once its label is clear enough.

    Parameters
    ----------
    model : estimator, booster, path or Forest
        Whatever `scurry.from_model` reads; a classifier.
    X_cal : array or DataFrame of shape (n_rows, n_features)
        Rows like those to be predicted, not used to train the model. Labels are not needed.
    y_cal : array of shape (n_rows,), optional
        Labels, used by ``method="fan"`` to order trees; not with `X_fit`, whose labels are not known.
    X_fit : array or DataFrame, optional
        Rows that find the order of trees and the rule to stop, so that all of `X_cal` is left to certify them. By
        default a part of `X_cal`: half of it for methods on scores, a fifth or a quarter for methods on votes. The
        model's training rows serve well for scores; trees grown on the rows they vote on are too much of one mind.
    max_disagreement : float in [0, 1)
        The largest share of rows whose label may change: 0.001 is one in a thousand.
    method : {"auto", "minimax", "minimean", "minimixed", "schwing", "qwyc", "fan"}
        "qwyc" and "fan" put thresholds on the running score. The others stop a majority vote of the trees, and promise
        agreement with the full vote; how often that is the model's own answer is in the summary. "auto" takes what
        saves most on rows it was not fitted to while agreeing with the model's own labels.
    confidence : float or None
        The promise holds on new rows with this probability; None gives the papers' in-sample rule.
    shuffle : {"fixed", "row"}
        For votes: one order of trees for the predictor, whose own mistakes certify the promise (drawn at random where
        there is no confidence to certify); or an order for each row, drawn by its values, where the promise needs fewer
        rows and running it more time.
    keep_scores : {None, "positive"}
        "positive": only rows of the first class stop early, and the others get their full score.
    costs : {"trees", "steps"} or array of shape (n_trees,)
        What a tree costs in the search for an order and in the comparison of methods: one each, the node tests that
        rows make in it, or your own figures. For methods on scores.
    threshold : float, optional
        Answer the second of two classes iff its probability is at least this, instead of as the model does; what is
        promised is agreement with the full model at this threshold. For methods on scores.
    random_state : int or Generator, optional

    Returns
    -------
    Predictor

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified on so few rows; it says what can.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = make_classification(9000, random_state=0)
    >>> model = GradientBoostingClassifier(n_estimators=60, random_state=0).fit(X[:1000], y[:1000])
    >>> fast = scurry.early_exit(model, X[1000:8000], max_disagreement=0.02, random_state=0)
    >>> run = fast.run(X[8000:])
    >>> bool((run.labels != model.predict(X[8000:])).mean() < 0.02), run.mean_trees < 40
    (True, True)
    """
    request = Request.checked(
        from_model(model),
        X_cal,
        y_cal,
        X_fit,
        method,
        random_state,
        max_disagreement=max_disagreement,
        confidence=confidence,
        shuffle=shuffle,
        keep_scores=keep_scores,
        costs=costs,
        threshold=threshold,
    )
    return calibrated(request, method)


def calibrated(request: Request, method: str) -> Predictor:
    """What was asked for, wherever the calibration rows lie."""
    if method == "auto":
        return Predictor(request.forest, _auto_plan(request))
    if method in ("qwyc", "fan"):
        return Predictor(request.forest, plan_by_scores(request, method))
    return Predictor(request.forest, plan_by_votes(request, method))


def _auto_plan(request: Request) -> Plan:
    """The cheapest plan among orders of trees, compared after certification: a search that overfits loses here."""
    plans, failures = [], []
    methods = ["natural", "qwyc"]
    may_vote = request.keep_scores is None and request.cost_unit == "trees"
    if request.forest.aggregation == "vote" and request.forest.n_classes == 2 and may_vote:
        methods.append("minimean")  # where the model itself votes, agreement with the vote is agreement with the model
    request = replace(request, n_candidates=len(methods))
    for method in methods:
        try:
            plans.append((plan_by_votes if method == "minimean" else plan_by_scores)(request, method))
        except InfeasibleError as error:
            failures.append(error)
    if not plans:
        raise failures[0]
    best = min(plans, key=_mean_cost)
    n_trees, full_cost = request.forest.n_trees, float(request.tree_costs(request.sample).sum())
    unit = request.cost_unit
    shown = ", ".join(f"{plan.facts['method']} {_mean_cost(plan):.1f}" for plan in plans)
    if _mean_cost(best) > _WORTH_IT * full_cost:
        why = f"early exit would not pay: of {full_cost:.4g} {unit} a row needs {shown}"
        facts = request.facts("full", promise="the model's own labels, always", chosen_because=why)
        return Plan(order=np.arange(n_trees, dtype=np.int32), facts=facts)
    why = f"least {unit} per row on held-out rows: {shown}"
    return replace(best, facts=best.facts | {"chosen_because": why})


def _mean_cost(plan: Plan) -> float:
    return float(plan.facts.get("calibration_mean_cost", plan.facts["calibration_mean_trees"]))
