"""Every parameter of an estimator reaches the function it stands for, and calibration rows are rows of their own."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import AnytimeClassifier, EarlyExitClassifier, FeatureBudgetClassifier
from scurry.estimators import base, classifiers, feature_budget
from support.strategies import complete_forest

# The parameters that the estimators keep for themselves.
OWN = {"estimator", "calibration_size", "n_threads", "random_state", "max_steps", "time_us", "max_cost"}
OWN |= {"candidates", "n_folds", "promise"}


class Called(Exception):
    """Raised in place of the work, with what it was asked for."""


@pytest.fixture(scope="module")
def forest():
    return complete_forest(4, 3, 4, 2)


@pytest.mark.parametrize(
    ("estimator", "function", "parameters"),
    [
        (
            EarlyExitClassifier,
            "early_exit",
            {
                "max_disagreement": 0.03,
                "method": "qwyc",
                "confidence": 0.7,
                "shuffle": "row",
                "keep_scores": "positive",
                "costs": "steps",
                "threshold": 0.45,
                "order": "random",
                "bin_width": 0.5,
                "gamma": 2.0,
            },
        ),
        (AnytimeClassifier, "anytime", {"order": "random", "objective": "time", "readout": "weighted"}),
        (
            FeatureBudgetClassifier,
            "prune",
            {
                "feature_costs": [3, 1, 4, 1],
                "groups": [0, 0, 1, 1],
                "group_costs": [2, 7],
                "step_cost": 0.25,
                "error_costs": [[0, 1], [5, 0]],
                "errors": "validation",
                "method": "ccp",
            },
        ),
    ],
    ids=["early exit", "anytime", "feature budget"],
)
def test_parameters_are_passed_on(forest, monkeypatch, estimator, function, parameters):
    others = {"class_weight"} if "error_costs" in parameters else set()  # one of the two is given
    assert OWN | others | set(parameters) >= set(estimator().get_params()), "a new parameter is missing here"
    found = {}

    def take(*arguments, **options):
        found.update(options)
        raise Called

    monkeypatch.setattr(feature_budget if function == "prune" else classifiers, function, take)
    X = np.random.default_rng(0).normal(size=(200, 4))
    with pytest.raises(Called):
        estimator(forest, random_state=0, **parameters).fit(X, np.arange(200) % 2)
    assert {name: found.get(name) for name in parameters} == parameters


@pytest.mark.parametrize("size", [0.9, 49])
def test_no_class_is_held_out_whole(size):
    labels = np.array(["often"] * 50 + ["once"])
    training, calibrating = base.split(labels, size, np.random.RandomState(0))
    assert set(labels[training]) == {"often", "once"}
    assert sorted([*training, *calibrating]) == list(range(51))


def test_copies_go_one_way():
    labels, copies = np.tile([0, 1], 30), np.arange(60) // 6 * 2 + np.tile([0, 1], 30)
    training, calibrating = base.split(labels, 0.35, np.random.RandomState(0), copies)
    assert set(copies[training]).isdisjoint(copies[calibrating])
    assert 0 < len(calibrating) < 60


def test_sample_weights_are_those_of_the_training_rows():
    seen = {}

    class Recorder(RandomForestClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.update(X=X, sample_weight=sample_weight)
            return super().fit(X, y, sample_weight)

    X = np.random.default_rng(0).random((60, 2))
    AnytimeClassifier(Recorder(2, max_depth=2), order="random", random_state=0).fit(
        X, np.arange(60) % 2, sample_weight=X[:, 0]
    )
    np.testing.assert_array_equal(seen["sample_weight"], seen["X"][:, 0])


def test_each_budget_has_its_own_predictor(forest):
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = FeatureBudgetClassifier(forest, errors="validation").fit(X, np.arange(300) % 2)
    costs = [model.cost(X, max_cost=budget).mean() for budget in (1.0, 2.0, 1.0)]
    assert costs[0] == costs[2] <= 1.0 + 1e-9
    assert costs[0] < costs[1]


def test_a_step_budget_of_the_call_beats_the_parameter(forest):
    X = np.random.default_rng(0).normal(size=(50, 4))
    model = AnytimeClassifier(forest, max_steps=2, order="random", random_state=0).fit(X, np.arange(50) % 2)
    assert (model.run(X).steps == 2).all()
    assert (model.run(X, max_steps=5).steps == 5).all()


def test_rows_that_trained_the_model_get_no_early_exit():
    """A promise was asked for, and on such rows there is none: every tree is evaluated."""
    rng = np.random.default_rng(0)
    X = rng.random((1500, 4))
    y = (X[:, 0] + rng.normal(0, 0.2, 1500) > 0.5).astype(int)
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="look like rows that trained the model"):
        fast = EarlyExitClassifier(model, max_disagreement=0.05, random_state=0).fit(X, y)
    assert fast.run(X).mean_trees == 20
    assert isinstance(fast.predictor_, scurry.Predictor)
