"""Predictors next to their full models, and what audits of their promises say."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_regression
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.errors import InputError, ScurryWarning
from scurry.promises import Accuracy, Certain, Labels, LabelsPerClass, Recall, TopK, Values
from scurry.stopping.guarantee import certified_rate
from support.calibration_rows import full_vote, two_classes

X, Y = two_classes(12_000, 3)
MODEL = RandomForestClassifier(21, max_depth=6, random_state=0).fit(X[:1500], Y[:1500])
CAL, RECENT = slice(1500, 6000), slice(6000, None)


@pytest.fixture(scope="module")
def fast():
    return scurry.early_exit(MODEL, X[CAL], max_disagreement=0.02)


def test_rate_and_bounds_are_those_of_the_changed_labels(fast):
    audit = fast.audit(X[RECENT])
    changed = int((fast.predict(X[RECENT]) != MODEL.predict(X[RECENT])).sum())
    assert (audit.n_rows, audit.n_broken, audit.rate) == (6000, changed, changed / 6000)
    assert audit.upper == certified_rate(changed, 6000, 0.95)
    assert audit.lower == pytest.approx(1 - certified_rate(6000 - changed, 6000, 0.95))
    assert audit.verdict == "kept"
    assert audit.promise == fast.promise


def test_few_rows_say_little_and_how_many_would_do(fast):
    few = fast.audit(X[RECENT][:40])
    assert few.verdict == "too few rows"
    assert few.rows_needed > 40


def test_rows_of_another_kind_break_the_promise(fast):
    scores = fast.run(X[RECENT]).scores
    hard = X[RECENT][np.argsort(abs(scores - 0.5))[:300]]  # rows that the model is least sure of
    assert fast.audit(hard).verdict == "broken"


def test_frames_and_labels_are_taken(fast):
    frame = pd.DataFrame(X[RECENT])
    assert fast.audit(frame, Y[RECENT]) == fast.audit(X[RECENT])
    assert fast.audit(X[RECENT], n_threads=2) == fast.audit(X[RECENT])


@pytest.mark.parametrize(
    ("promise", "n_parts"),
    [
        (LabelsPerClass({0: 0.05, 1: 0.05}), 2),
        (LabelsPerClass({1: 0.03}), 1),
        (Recall(1, 0.05, 0.05), 2),
        (Accuracy(0.02), 1),
        (Accuracy(0.1, [[0, 1], [3, 0]]), 1),
        (Values(0.1, 0.1, "probability"), 1),
        (Certain(), 1),
    ],
)
def test_every_kind_can_be_audited(promise, n_parts):
    fast = scurry.early_exit(MODEL, X[CAL], Y[CAL], promise=promise)
    audit = fast.audit(X[RECENT], Y[RECENT])
    assert len(audit.parts) == n_parts
    assert audit.verdict != "broken", str(audit)
    assert all(part.lower <= part.rate <= part.upper for part in audit.parts)


def test_accuracy_that_falls_is_noticed():
    fast = scurry.early_exit(MODEL, X[CAL], Y[CAL], promise=Accuracy(0.01))
    assert fast.audit(X[RECENT], Y[RECENT]).verdict != "broken"
    audit = fast.audit(X[RECENT], MODEL.predict(X[RECENT]))  # as if the model were always right: every change is a loss
    assert audit.verdict == "broken"
    assert audit.lower > 0.01


def test_values_and_ranks_of_a_regressor():
    # So many that they prove what a plan keeps that spends nearly all it is allowed.
    rows, target = make_regression(25_000, 6, noise=5.0, random_state=0)
    model = GradientBoostingRegressor(random_state=0).fit(rows[:2000], target[:2000])
    fast = scurry.early_exit(model, rows[2000:5000], promise=Values(20.0, 0.1))
    audit = fast.audit(rows[5000:])
    assert audit.verdict == "kept"
    assert audit.rate == (abs(fast.predict(rows[5000:]) - model.predict(rows[5000:])) > 20).mean()
    queries = np.arange(len(rows)) // 10
    ranked = scurry.early_exit(model, rows[2000:7000], groups=queries[2000:7000], promise=TopK(3, 0.1))
    with pytest.raises(InputError, match="groups is needed"):
        ranked.audit(rows[7000:9000])
    audit = ranked.audit(rows[7000:9000], groups=queries[7000:9000])
    assert audit.n_rows == 200
    assert audit.parts[0].n_rows == 200


def test_the_full_vote_is_what_methods_on_votes_are_compared_with():
    fast = scurry.early_exit(MODEL, X[CAL], method="minimean", max_disagreement=0.02)
    vote = full_vote(MODEL, X[RECENT])
    assert fast.audit(X[RECENT]).n_broken == (fast.predict(X[RECENT]) != vote).sum()


def test_calibration_rows_are_noticed(tmp_path):
    """Whatever made the plan, in any precision, and after it was saved. Nothing is said of other rows."""
    made = [
        (scurry.early_exit(MODEL, X[CAL], max_disagreement=0.02), {}),
        (scurry.early_exit(MODEL, X[CAL], method="minimean", max_disagreement=0.02), {}),
        (scurry.compress(MODEL, X[CAL], promise=Labels(0.05)), {"model": MODEL}),
    ]
    for fast, given in made:
        fast.save(tmp_path / "fast.scurry")
        for one in (fast, scurry.load(tmp_path / "fast.scurry")):
            for rows in (X[CAL], X[CAL].astype(np.float32)):
                with pytest.warns(ScurryWarning, match="these are the rows that the promise was calibrated on"):
                    one.audit(rows, **given)
            with warnings.catch_warnings():
                warnings.simplefilter("error", ScurryWarning)
                one.audit(X[RECENT], **given)
                one.audit(X[CAL][::-1][:1000], **given)  # a part of them is not known again


def test_one_row_of_each_group_is_looked_at(fast):
    groups = np.arange(6000) // 3
    audit = fast.audit(X[RECENT], groups=groups)
    assert audit.n_rows == 2000


def test_a_promise_about_groups_is_not_judged_by_rows():
    patients = np.arange(4500) // 3
    fast = scurry.early_exit(MODEL, X[CAL], max_disagreement=0.02, groups=patients)
    repeated, of_whom = np.repeat(X[RECENT][:100], 60, axis=0), np.repeat(np.arange(100), 60)
    for given in ({}, {"promise": Labels(0.05, holds="groups")}):
        with pytest.raises(InputError, match="groups is needed: the promise is about one row of each new group") as why:
            fast.audit(repeated, **given)
        assert why.value.argument == "groups"
    assert fast.audit(repeated, promise=Labels(0.05)).n_rows == 6000  # a promise about rows, which was asked for
    audit = fast.audit(repeated, groups=of_whom)
    assert (audit.n_rows, audit.verdict) == (100, "too few rows")


def test_a_compressed_forest_is_compared_with_its_model():
    small = scurry.compress(MODEL, X[CAL], promise=Labels(0.05))
    with pytest.raises(InputError, match="model is needed"):
        small.audit(X[RECENT])
    audit = small.audit(X[RECENT], model=MODEL)
    assert audit.n_broken == (small.predict(X[RECENT]) != MODEL.predict(X[RECENT])).sum()
    with pytest.raises(InputError, match="model is for a predictor of"):
        scurry.early_exit(MODEL, promise=Certain()).audit(X[RECENT], model=MODEL)


def test_what_cannot_be_audited_says_why(fast):
    with pytest.raises(InputError, match="promises nothing"):
        scurry.Predictor.full(fast.forest).audit(X[RECENT])
    with pytest.raises(InputError, match="X has no rows"):
        fast.audit(X[:0])
    with pytest.raises(InputError, match=r"y has shape \(3,\)"):
        fast.audit(X[:4], Y[:3])
    with pytest.raises(InputError, match=r"groups has shape"):
        fast.audit(X[:4], groups=[1, 2])
    priced = scurry.prune(MODEL, X[:2000], feature_costs=np.ones(X.shape[1])).at(
        promise=scurry.promises.Cost(100.0), X_cal=X[CAL]
    )
    with pytest.raises(InputError, match="promises what features cost"):
        priced.audit(X[RECENT])
    needs = scurry.early_exit(MODEL, X[CAL], Y[CAL], promise=Recall(1, 0.05, 0.05))
    with pytest.raises(InputError, match="y is needed"):
        needs.audit(X[RECENT])


def test_wrong_verdicts_are_as_rare_as_said():
    """With rates exactly at the limit, "broken" and "kept" are each said of at most 5 % of draws."""
    from scurry.promises import Outcomes
    from scurry.stopping.verdict import audit_outcomes

    rng, said = np.random.default_rng(0), []
    for _ in range(400):
        full = np.zeros(2000)
        said.append(audit_outcomes(Labels(0.02), Outcomes(answers=(rng.random(2000) < 0.02) * 1.0, full=full)).verdict)
    assert 0 < said.count("broken") <= 0.05 * 400 + 12
    assert 0 < said.count("kept") <= 0.05 * 400 + 12


def test_boosted_log_odds():
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X[:1500], Y[:1500])
    fast = scurry.early_exit(model, X[CAL], promise=Values(0.5, 0.1, "log-odds"))
    ours, full = fast.run(X[RECENT]).scores, scurry.Predictor.full(fast.forest).run(X[RECENT]).scores
    assert fast.audit(X[RECENT]).n_broken == (abs(ours - full) > 0.5).sum()
