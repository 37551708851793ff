"""Predictors with anytime plans: budgets, answers one after another, reports, files, bad input."""

import math
import threading

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import FormatError, InputError
from scurry.plan import ExitRule, StepRule
from scurry.promises import Certificate
from scurry.runners.runner import AbortFlag
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(15, random_state=0),
        RandomForestRegressor(9, random_state=0),
        GradientBoostingClassifier(n_estimators=8, random_state=0),
        HistGradientBoostingClassifier(max_iter=8, categorical_features=[0], random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn_models_are_reached_exactly(model):
    if isinstance(model, RandomForestRegressor):
        X, y = make_regression(900, 6, random_state=0)
    else:
        X, y = make_classification(900, 6, n_informative=5, n_redundant=1, n_classes=3, random_state=0)
    X = X.astype(np.float32)
    X[:, 0] = np.clip(np.round(X[:, 0] * 2) + 5, 0, 12)
    X[RNG.random(X.shape) < 0.05] = np.nan
    model.fit(np.nan_to_num(X[:300]) if isinstance(model, GradientBoostingClassifier) else X[:300], y[:300])
    rows = np.nan_to_num(X) if isinstance(model, GradientBoostingClassifier) else X
    anytime = anytime_of(scurry.from_model(model), readout="weighted")
    np.testing.assert_array_equal(anytime.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(anytime.predict(rows[:5], time_us=1e9), model.predict(rows[:5]))


def test_single_leaves_are_complete_without_a_step():
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.2, 0.8]]}
    anytime = anytime_of(Forest.from_trees([leaf, leaf], n_features=1, classes=["a", "b"]))
    out = anytime.run([[1.0]], time_us=0)
    assert out.labels.tolist() == ["b"]
    assert out.complete.all()
    assert [answer.complete for answer in anytime.stream([1.0])] == [True]


def test_stream_gives_every_answer():
    forest = complete_forest(n_trees=5, depth=4, classes=["a", "b", "c"])
    anytime, row = anytime_of(forest), RNG.normal(size=(1, 6))
    answers = list(anytime.stream(row[0]))
    assert [answer.steps for answer in answers] == list(range(21))
    assert [answer.complete for answer in answers] == [False] * 20 + [True]
    for answer in answers:
        assert answer.label == anytime.predict(row, max_steps=answer.steps)[0]
        np.testing.assert_array_equal(answer.probabilities, anytime.predict_proba(row, max_steps=answer.steps)[0])
    assert [answer.steps for answer in anytime.stream(row, every=8)] == [0, 8, 16, 20]


@pytest.mark.parametrize("every", [1, 7, 50, 64, 100, 1000])
def test_long_streams_pass_through_the_same_states(every):
    forest = complete_forest(n_trees=30, depth=7)
    anytime, row = anytime_of(forest), RNG.normal(size=(1, 6))
    for answer in anytime.stream(row, every=every):
        assert answer.complete == (answer.steps == 210)
        assert answer.label == anytime.predict(row, max_steps=answer.steps)[0]
        np.testing.assert_array_equal(answer.probabilities, anytime.predict_proba(row, max_steps=answer.steps)[0])


def test_stream_of_a_regressor():
    forest = complete_forest(n_trees=3, depth=2, n_columns=1)
    row = RNG.normal(size=(1, 6))
    answers = list(anytime_of(forest).stream(row))
    assert answers[-1].label == forest.predict(row)[0]
    assert answers[-1].probabilities is None


def test_run_reports():
    forest = complete_forest(n_trees=5, depth=4)
    steps = np.repeat([3, 1, 0, 2, 4], 4).astype(np.int32)
    out = anytime_of(forest, steps).run(RNG.normal(size=(40, 6)), max_steps=9)
    assert out.mean_steps == 9
    assert out.mean_trees == 3
    assert out.time_us is None
    assert not out.complete.any()
    assert repr(out) == "Run(n_rows=40, mean_trees=3.00, stopped_early=100.0%)"
    timed = anytime_of(forest, steps).run(RNG.normal(size=(40, 6)), time_us=1e9)
    assert timed.complete.all()
    assert (timed.time_us > 0).all()


@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_saved_and_loaded(tmp_path, readout):
    forest = complete_forest(n_trees=6, depth=5)
    anytime, rows = anytime_of(forest, readout=readout), RNG.normal(size=(60, 6))
    anytime.save(tmp_path / "any.scurry")
    loaded = scurry.load(tmp_path / "any.scurry")
    np.testing.assert_array_equal(loaded.plan.order, anytime.plan.order)
    assert loaded.plan.stop.readout == readout
    for n_steps in (0, 11, 30):
        np.testing.assert_array_equal(
            loaded.predict_proba(rows, max_steps=n_steps), anytime.predict_proba(rows, max_steps=n_steps)
        )


@pytest.mark.parametrize("readout", ["much", None, 2, ["plain"]])
def test_a_file_with_a_senseless_readout_is_refused(tmp_path, monkeypatch, readout):
    anytime = anytime_of(complete_forest(n_trees=2, depth=2))
    monkeypatch.setattr(StepRule, "to_parts", lambda self: ({"rule": "StepRule", "readout": readout}, {}))
    anytime.save(tmp_path / "any.scurry")
    with pytest.raises(FormatError, match='readout must be one of "plain", "weighted", got'):
        scurry.load(tmp_path / "any.scurry")


@pytest.mark.parametrize("steps", [[0, 0, 1], [0, 0, 1, 1, 1], [0, 0, 1, 2], [0, 0, -1, 1], []])
def test_orders_that_do_not_fit(steps):
    with pytest.raises(InputError, match="must name each of the 2 trees as often as it is deep"):
        anytime_of(complete_forest(n_trees=2, depth=2), np.array(steps, np.int32))


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"max_steps": -1}, "max_steps must be a whole number of at least 0, got -1"),
        ({"max_steps": 2.5}, "max_steps must be a whole number of at least 0, got 2.5"),
        ({"max_steps": True}, "max_steps must be a whole number"),
        ({"time_us": -0.5}, "time_us must be a number of at least 0, got -0.5"),
        ({"time_us": math.nan}, "time_us must be a number"),
        ({"time_us": "fast"}, "time_us must be a number"),
        ({"abort": threading.Event()}, "abort must be a scurry.AbortFlag, got Event"),
    ],
)
def test_senseless_budgets(budget, message):
    anytime, rows = anytime_of(complete_forest(n_trees=2, depth=2)), np.zeros((3, 6))
    for call in (anytime.predict, anytime.predict_proba, anytime.run):
        with pytest.raises(InputError, match=message):
            call(rows, **budget)


def test_budgets_of_other_plans():
    forest = complete_forest(n_trees=3, depth=2, n_columns=2)
    never = ExitRule(
        kind="votes",
        weights=np.ones(1),
        lower=np.full((1, 4), -9, np.int32),
        upper=np.full((1, 4), 9, np.int32),
    )
    for stop in (None, never):
        other = Predictor(
            forest, Plan(order=np.arange(3, dtype=np.int32), stop=stop, certificate=Certificate(method="mine"))
        )
        for budget in ({"max_steps": 3}, {"time_us": 1.0}, {"abort": AbortFlag()}):
            for call in (other.predict, other.predict_proba, other.run):
                with pytest.raises(InputError, match=r"of method 'mine'; make one with scurry\.anytime"):
                    call(np.zeros((1, 6)), **budget)
        with pytest.raises(InputError, match="stream needs a plan that can stop after any step"):
            other.stream(np.zeros(6))


def test_wrong_shapes():
    anytime = anytime_of(complete_forest(n_trees=2, depth=2))
    with pytest.raises(InputError, match="X has 5 columns, the model was trained on 6 features"):
        anytime.predict(np.zeros((3, 5)), max_steps=1)
    with pytest.raises(InputError, match="stream answers for one row, got 2"):
        anytime.stream(np.zeros((2, 6)))
    with pytest.raises(InputError, match="every must be a whole number of at least 1, got 0"):
        anytime.stream(np.zeros(6), every=0)
    with pytest.raises(InputError, match="a regressor and has no probabilities"):
        anytime_of(complete_forest(n_trees=2, depth=2, n_columns=1)).predict_proba(np.zeros((1, 6)))
    assert len(anytime.predict(np.zeros((0, 6)), max_steps=1)) == 0
    assert len(anytime.run(np.zeros((0, 6)), time_us=5).labels) == 0
