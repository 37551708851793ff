"""A predictor next to the full model on the same rows: what a promise about answers is judged by."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.promises import Audit, Cost, Labels, Outcomes, Promise, SizeMeasurement, TopK, Values
from scurry.runners.runner import Run


class Answering(Protocol):
    """What is compared: a `Predictor`, as far as it answers rows."""

    @property
    def forest(self) -> Forest:
        """What it evaluates."""
        ...

    def predict(self, X: Any, n_threads: int | None = 1, *, groups: Any = None) -> NDArray[Any]:
        """Return the answer of each row."""
        ...

    def predict_proba(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Return class probabilities."""
        ...

    def run(self, X: Any, n_threads: int | None = 1) -> Run:
        """Return answers with their scores."""
        ...


def plan_in_full(forest: Forest, plan: Plan, promise: Promise) -> Plan:
    """Return the plan that gives the answers a promise compares with: those of the model, or of the vote of all trees.

    Raises
    ------
    InputError
        If the promise is about the full vote, and the plan cannot be run to its end.
    """
    if not (isinstance(promise, Labels) and promise.against == "vote"):
        return Plan.full(forest)
    stop = None if plan.stop is None else plan.stop.without_stops()
    if stop is None:
        raise InputError("this plan cannot be run in full, so that its promise cannot be tested on rows")
    return Plan(order=plan.order, stop=stop)


def compare(
    ours: Answering,
    full: Answering,
    promise: Promise,
    rows: NDArray[Any],
    *,
    queries: NDArray[Any] | None = None,
    answers: NDArray[Any] | None = None,
    y: NDArray[Any] | None = None,
    n_threads: int | None = 1,
) -> Outcomes:
    """Return what rows get next to what the full model gives them, as far as the promise is about it.

    Parameters
    ----------
    ours, full : Answering
        The predictor, and what gives the answers of all trees.
    promise : Promise
    rows : array of shape (n_rows, n_features)
    queries : array of shape (n_rows,), optional
        For a plan that ranks the documents of queries: the query of each row.
    answers : array of shape (n_rows,), optional
        The predictor's answers, where they are known.
    y : array of shape (n_rows,), optional
        Known labels or values.
    n_threads : int or None, default 1
    """
    forest = ours.forest
    of = promise.of if isinstance(promise, Values) else ""
    known: dict[str, Any] = {}
    if of == "probability":
        known["probabilities"] = ours.predict_proba(rows, n_threads)[:, 1]
        known["full_probabilities"] = full.predict_proba(rows, n_threads)[:, 1]
    elif of == "log-odds":
        known["log_odds"] = ours.run(rows, n_threads).scores * forest.link_scale
        known["full_log_odds"] = full.run(rows, n_threads).scores * forest.link_scale
    if answers is None:
        answers = ours.predict(rows, n_threads) if queries is None else ours.predict(rows, n_threads, groups=queries)
    return Outcomes(
        answers=answers,
        full=full.predict(rows, n_threads),
        queries=queries,
        y=y,
        classes=() if forest.classes is None else tuple(forest.classes.tolist()),
        **known,
    )


def check_auditable(forest: Forest, plan: Plan, asked: Any, y: Any, groups: Any, model: Any) -> Promise:
    """Return what is to be tested, by default the promise of a plan, if answers and what else was given can test it."""
    certificate = plan.certificate
    if asked is not None:
        _check_kind(forest, plan, asked)
    promise = asked if asked is not None or certificate is None else certificate.promise
    if promise is None or isinstance(promise, Cost):
        instead = (
            "it promises what features cost, which scurry.evaluation.feature_bill measures"
            if isinstance(promise, Cost)
            else "it promises nothing; pass promise=, such as scurry.promises.Labels(0.01), to test that. "
            "scurry.report.write shows what it does on rows"
        )
        raise InputError(
            f"audit compares the answers of a predictor with what it promises about them, and {instead}",
            argument="promise",
        )
    is_compressed = certificate is not None and isinstance(certificate.measured, SizeMeasurement)
    if is_compressed != (model is not None):
        why = (
            "model is needed: a compressed forest does not hold the model that its promise compares with"
            if is_compressed
            else "model is for a predictor of scurry.compress; this one holds the model that its promise compares with"
        )
        raise InputError(why, argument="model")
    if promise.NEEDS_LABELS and y is None:
        raise InputError(f"y is needed: {type(promise).__name__} compares answers with known labels", argument="y")
    if groups is None and plan.ranks_groups:
        raise InputError("groups is needed: the query of each row, whose best are compared", argument="groups")
    if groups is None and promise.is_about_groups:
        raise InputError(
            "groups is needed: the promise is about one row of each new group, and rows of one group are no "
            "independent draws; pass the group of each row",
            argument="groups",
        )
    return promise


def _check_kind(forest: Forest, plan: Plan, promise: Any) -> None:
    """Raise an error if answers of a forest are not what a promise that was given is about."""
    if not isinstance(promise, Promise):
        raise InputError(
            f'promise must be one of scurry.promises, or a text such as "labels<=1%", got {promise!r}',
            argument="promise",
        )
    if isinstance(promise, Values):
        about = "values of a regressor" if promise.of == "value" else "probabilities of two classes"
        fits = not forest.is_classifier if promise.of == "value" else forest.n_classes == 2
    elif isinstance(promise, TopK):
        about, fits = "the top of rankings", plan.ranks_groups
    else:
        about, fits = "labels of a classifier", forest.is_classifier or isinstance(promise, Cost)
    if not fits:
        raise InputError(f"{promise!r} is about {about}, and this predictor has none", argument="promise")


def audit(
    ours: Answering,
    full: Answering,
    promise: Promise,
    rows: NDArray[Any],
    *,
    y: Any = None,
    groups: Any = None,
    n_threads: int | None = 1,
) -> Audit:
    """Return what rows show about a promise; see `scurry.Predictor.audit`."""
    from scurry.stopping.verdict import audit_outcomes, draw_one_of_each  # needs scipy, and predictions do not

    forest = ours.forest
    if len(rows) == 0:
        raise InputError("X has no rows; pass rows like those that are predicted", argument="X")
    given = {"y": None if y is None else np.asarray(y), "groups": None if groups is None else np.asarray(groups)}
    for name, values in given.items():
        if values is not None and values.shape != (len(rows),):
            raise InputError(f"{name} has shape {values.shape}, X has {len(rows)} rows", argument=name)
    labels, units = given["y"], given["groups"]
    if labels is not None and forest.is_classifier:
        # In the type of the model's classes, so that labels are compared as what they are.
        labels = np.asarray(forest.classes)[forest.codes_of(labels, "y")]
    queries = units if isinstance(promise, TopK) else None
    if units is not None and queries is None:
        chosen = draw_one_of_each(units)  # as the certificate has it
        rows, labels = rows[chosen], None if labels is None else labels[chosen]
    return audit_outcomes(promise, compare(ours, full, promise, rows, queries=queries, y=labels, n_threads=n_threads))
