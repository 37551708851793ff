"""The verb `scurry.early_exit`: a predictor that evaluates as few trees as its promise allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scurry.checks import RandomState
from scurry.errors import InputError
from scurry.plan import Plan
from scurry.predictor import Predictor, read_forest
from scurry.promises import Accuracy, Certain, Cost, Labels, LabelsPerClass, Promise, Recall, TopK, Values, read_promise
from scurry.verbs.options import DEFAULT_CONFIDENCE, DEFAULT_RATE, Calibration, ExitOptions
from scurry.verbs.planners.by_bounds import plan_by_bounds
from scurry.verbs.planners.by_class import plan_by_accuracy, plan_by_class
from scurry.verbs.planners.by_ranks import plan_by_ranks, rank_by_score
from scurry.verbs.planners.by_scores import (
    SCORE_METHODS,
    can_certify,
    measure_spending,
    plan_by_scores,
    split_to_choose,
    split_to_fit,
    try_sentinels,
)
from scurry.verbs.planners.by_values import as_one_sum, plan_by_values
from scurry.verbs.planners.by_votes import plan_by_votes, plan_without_rows
from scurry.verbs.planners.score_map import with_quality, with_score_map
from scurry.verbs.planners.speed import (
    certify_in_turn,
    explain_choice,
    keep_if_worth_it,
    with_speed,
)

_MANY_LOST = 0.2  # of the rows of a class, from which on a certificate tells


def early_exit(
    model: Any,
    X_cal: Any = None,
    y_cal: Any = None,
    *,
    X_fit: Any = None,
    y_fit: Any = None,
    groups: ArrayLike | None = None,
    by: str | ArrayLike | None = None,
    promise: Promise | str | None = None,
    max_disagreement: float = DEFAULT_RATE,
    method: str = "auto",
    confidence: float | None = DEFAULT_CONFIDENCE,
    shuffle: str = "fixed",
    keep_scores: str | None = None,
    costs: str | ArrayLike = "trees",
    threshold: float | None = None,
    order: str | ArrayLike | None = None,
    bin_width: float | None = None,
    gamma: float | None = None,
    random_state: RandomState = None,
) -> Predictor:
    """Make a model stop evaluating trees once its answer is clear enough.

    Parameters
    ----------
    model : estimator, booster, path or Forest
        Whatever `scurry.from_model` reads: a classifier; with the promise `Values` also a regressor, and with `TopK`
        a ranker.
    X_cal : array or DataFrame of shape (n_rows, n_features), optional
        Calibration rows: like those to be predicted, and not used to train the model. Labels are not needed. Without
        them, "minimax" and "minimixed" promise something for each row over random orders of the trees, and with
        ``confidence=None`` "minimean" and "schwing" promise nothing.
    y_cal : array of shape (n_rows,), optional
        Labels. They measure AUC and log-loss for the summary, and order the trees of ``method="fan"`` (unless there is
        `X_fit`, whose own labels do). The promises `Recall` and `Accuracy` need them.
    X_fit : array or DataFrame, optional
        Rows that find the order of trees and the rule to stop, so that all of `X_cal` is left to certify them. By
        default a part of `X_cal`: half of it for methods on scores, a fifth or a quarter for methods on votes. The
        model's training rows serve well for methods on scores. For methods on votes they do not: trees agree too much
        on the rows they were trained on. Rows of `X_cal` that are among them too are left out of the certificate. The
        promise `TopK` takes a fifth of the queries of `X_cal` nevertheless, which say how far estimates are off.
    y_fit : array of shape (n_fit_rows,), optional
        Labels of `X_fit`. Like those of `y_cal` they order the trees of ``method="fan"``; for `Accuracy` with costs of
        errors, they say how much to bet on each calibration row, which proves more with as many rows.
    groups : str or array of shape (n_rows,), optional
        The group of each row of `X_cal`, such as the patient, or the name of a column of a frame `X_cal`: where rows of
        a group are no independent draws. A group is not divided, one row of each certifies, and the promise is about a
        row of a new group. For the promise `TopK`, the query of each row: all rows of a query run together.
    by : str or array of shape (n_rows,), optional
        The subgroup of each row of `X_cal`, such as the region, or the name of a column of a frame `X_cal`. The promise
        then holds in every subgroup at once. For promises about labels that change.
    promise : Promise or str, optional
        What may change, and how surely: one of the kinds in `scurry.promises`, or its text, such as
        ``"recall(yes)<=1%"`` (see `scurry.promises.Promise.parse`), which has the confidence `confidence`. The next
        argument and `confidence` are the short form of ``scurry.promises.Labels(0.005, confidence=0.95)``; pass one or
        the other.
    max_disagreement : float in [0, 1), default 0.001
        The largest share of rows whose label may change: 0.001 is one in a thousand.
    method : {"auto", "minimax", "minimean", "minimixed", "schwing", "qwyc", "fan", "sentinels"}
        "qwyc" and "fan" put thresholds on the running score. "sentinels" stops rows after one of a few numbers of
        trees, by an estimate of the full score that was fitted for that number. It is for boosted trees with two
        classes, for values and for rankers. The estimates can more than double the size of the file. The others stop a
        majority vote of the trees, and promise
        agreement with the full vote; the summary says how often that is the model's own label. "auto" takes the method
        that saves most on a part of the fitting rows that no method was fitted to, with a promise about the model's own
        labels; if it saves less on the rows that certify, the next best is certified too.
    confidence : float or None, default 0.95
        The promise holds for new rows with this probability. None gives the papers' in-sample rule, without a promise
        for new rows.
    shuffle : {"fixed", "row"}
        For methods on votes. "fixed": one order of trees for the predictor, whose own mistakes certify the promise
        (without a confidence, an order drawn at random). "row": each row has an order of its own, drawn by its values.
        The promise is then an average over orders, not for this predictor: rows that come again always err alike. It
        needs fewer rows, and running it takes more time.
    keep_scores : {None, "positive"}
        "positive": only rows of the first class, `classes[0]`, stop early, and the others get their full score.
    costs : {"trees", "steps"} or array of shape (n_trees,)
        What a tree costs in the search for an order and in the comparison of methods: one each, the node tests that
        rows make in it, or your own figures. For methods on scores.
    threshold : float, optional
        Answer the second of two classes, `classes[1]`, iff its probability is at least this, instead of as the model
        does. The promise is then agreement with the full model at this threshold. For methods on scores.
    order : {"natural", "random", "individual-mse", "greedy-mse"} or permutation, optional
        For "qwyc" and "fan": the order of the trees (of rounds, in a boosted model with more than two classes). The
        orders by mean squared error compare running scores with labels of the fitting rows, or with the model's own
        labels where there are none; they are for two classes. By default "qwyc" searches the order together with the
        thresholds, and "fan" takes "individual-mse" with labels, "natural" without.
    bin_width : float, optional
        For "fan": the width of the bins of the running score; 0.1 by default.
    gamma : float, optional
        For "fan": the deviations beyond which a row stops. By default the smallest that keeps the limit on the fitting
        rows. Where this gamma does not keep a promise, a larger one is used.
    random_state : int, Generator, RandomState or None
        Draws orders of trees for ``shuffle="row"``, and where there is no confidence. What is certified does not depend
        on it: the rows decide which of them fit and which certify, so that no seed is luckier than another.

    Returns
    -------
    Predictor
        Its probabilities are those of scores that a `scurry.plan.ScoreMap`, fitted to `X_cal`, expects of all trees.

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified on so few rows. The message says what can.

    Warns
    -----
    UserWarning
        If rows of `X_cal` are no independent draws: they are in `X_fit`, they are copies, or they trained the model.
        The certificate counts only what may be counted; for training rows nothing is promised, and `promise` is None.
        Not all training rows are noticed: a small part of them may pass, and those of random forests with
        ``class_weight="balanced"``, of XGBoost with ``scale_pos_weight``, and of models trained with weights for rows.

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
    forest = read_forest(model, X_cal)
    options = ExitOptions(
        promise=read_promise(promise, forest.classes, confidence),
        max_disagreement=max_disagreement,
        method=method,
        # The promise that a text asks for has it.
        confidence=DEFAULT_CONFIDENCE if isinstance(promise, str) else confidence,
        shuffle=shuffle,
        keep_scores=keep_scores,
        costs=costs,
        threshold=threshold,
        order=order,
        bin_width=bin_width,
        gamma=gamma,
        random_state=random_state,
    )
    is_other_kind = not isinstance(options.asked, Labels)
    if X_cal is None and is_other_kind and options.asked.rows_needed():
        raise InputError(f"X_cal is needed: rows test what {options.asked!r} promises", argument="X_cal")
    if X_cal is not None or is_other_kind:
        return calibrate(Calibration.of(forest, X_cal, y_cal, X_fit, options, groups, by, y_fit))
    for name, given in (("y_cal", y_cal), ("X_fit", X_fit), ("y_fit", y_fit), ("groups", groups), ("by", by)):
        if given is not None:
            raise InputError(f"{name} goes with X_cal, and there is none", argument=name)
    return Predictor(forest, plan_without_rows(forest, options))


def calibrate(calibration: Calibration) -> Predictor:
    """Return the predictor that a calibration asks for, wherever its rows lie."""
    if isinstance(calibration.promise, TopK):
        return _rank(calibration)
    if isinstance(calibration.promise, Values):
        calibration = replace(calibration, forest=as_one_sum(calibration.forest))
    planner = _PLANNERS.get(type(calibration.promise))
    if planner is None:
        instead = ""
        if isinstance(calibration.promise, Cost):
            instead = "; what features cost is promised by scurry.prune(model, X, y, feature_costs=…).at(promise=…)"
        raise InputError(f"early_exit cannot promise {calibration.promise!r}{instead}", argument="promise")
    plan = with_speed(calibration, planner(calibration))
    return Predictor(calibration.forest, with_score_map(calibration, plan))


def _rank(calibration: Calibration) -> Predictor:
    """Return the predictor for the best rows of queries; of a classifier, it says what rows are ranked by."""
    classes = calibration.forest.classes
    calibration = replace(calibration, forest=rank_by_score(calibration.forest))
    plan = plan_by_ranks(calibration)
    if classes is not None and plan.certificate is not None:
        said = f"Rows are ranked by the score of class {classes[-1:].tolist()[0]!r}; answers are scores, not classes."
        plan = replace(plan, certificate=replace(plan.certificate, note=f"{plan.certificate.note} {said}".strip()))
    return Predictor(calibration.forest, plan)


def _plan_labels(calibration: Calibration) -> Plan:
    if calibration.rows.parts is not None:
        return plan_by_class(calibration)
    method = calibration.options.method
    plan = _choose_plan(calibration) if method == "auto" else _plan_by(calibration, method)[0]
    return _say_what_is_lost(calibration, plan)


def _say_what_is_lost(calibration: Calibration, plan: Plan) -> Plan:
    """Return the plan; if a class loses many of its rows, with a certificate that says so.

    A promise about all labels may be kept by giving up a rare class, which those who ask for it may not expect.
    """
    forest, sample = calibration.forest, calibration.sample
    if plan.certificate is None or not plan.exits_early or sample.max_gathered < sample.n_rows:
        return plan
    rows = sample.gather()
    full = forest.predict(rows)
    classes, counts = np.unique(full, return_counts=True)
    if len(classes) == 1:
        said = f"The model answers {classes.tolist()[0]!r} to all {len(rows):,} calibration rows."
    else:
        is_lost = full != Predictor(forest, plan).predict(rows)
        n_lost = np.array([np.count_nonzero(is_lost & (full == label)) for label in classes])
        worst = int(np.argmax(n_lost / counts))
        if n_lost[worst] <= _MANY_LOST * counts[worst]:
            return plan
        said = (
            f"Of the {counts[worst]:,} calibration rows that the model answers {classes.tolist()[worst]!r} to, "
            f"{n_lost[worst]:,} get another label; LabelsPerClass or Recall would bound that."
        )
    note = f"{plan.certificate.note} {said}".strip()
    return replace(plan, certificate=replace(plan.certificate, note=note))


def _plan_by(calibration: Calibration, method: str) -> tuple[Plan, float]:
    if method in SCORE_METHODS:
        return plan_by_scores(calibration, method)
    return plan_by_votes(calibration, method)


def _choose_plan(calibration: Calibration) -> Plan:
    """Return the plan of the method that saves most on rows that no candidate was fitted to.

    A search that overfits its rows needs wider thresholds, and loses there. The rows that choose are not those that
    certify, so that the chosen method is certified with most of the risk that the promise may take. If it then spends
    more than the next best is expected to, that one is certified too (`certify_in_turn`).
    """
    forest, options = calibration.forest, calibration.options
    methods = ["qwyc", "natural"]
    # Where the model itself votes, agreement with the full vote is agreement with the model.
    may_vote = forest.aggregation == "vote" and forest.n_classes == 2
    if may_vote and options.keep_scores is None and options.cost_unit == "trees":
        methods.append("minimean")
    if try_sentinels(forest):
        methods.append("sentinels")
    if options.is_promised:
        choosing, certifying = split_to_choose(calibration)
        spent = {method: measure_spending(_plan_by, choosing, method) for method in methods}
        plan, cost = certify_in_turn(certifying, spent, _plan_by, can_certify)
        # The rows that certify have no labels there, so that no method can look at them.
        if plan.certificate is not None and plan.certificate.method == "sentinels":
            plan = with_quality(calibration, split_to_fit(calibration)[2], plan)
        return keep_if_worth_it(calibration, plan, cost)
    plans = {method: _plan_by(calibration, method) for method in methods}
    spent = {method: cost for method, (_, cost) in plans.items()}
    best = min(spent, key=lambda method: spent[method])
    plan, cost = plans[best]
    if plan.certificate is None:
        return plan
    why = explain_choice(options.cost_unit, spent, best, "the rows that fitted them")
    return keep_if_worth_it(calibration, replace(plan, certificate=replace(plan.certificate, why=why)), cost)


# What makes a plan for each kind of promise: a function of a calibration.
_PLANNERS: dict[type[Promise], Callable[[Calibration], Plan]] = {
    Labels: _plan_labels,
    LabelsPerClass: plan_by_class,
    Recall: plan_by_class,
    Accuracy: plan_by_accuracy,
    Certain: plan_by_bounds,
    Values: plan_by_values,
}
