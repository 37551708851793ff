"""Requests that make no sense say what would."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.verbs.options import with_threshold
from support.calibration_rows import two_classes
from support.strategies import complete_forest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.5}, "threshold must be a probability between 0 and 1, got 1.5"),
        ({"threshold": 0.3, "method": "minimean"}, 'votes, which have no threshold; use "qwyc"'),
        ({"costs": "steps", "method": "minimean"}, 'in random order, whatever they cost; use "qwyc"'),
        ({"costs": "euros"}, 'costs must be "trees", "steps" or a number per tree'),
        ({"costs": [1.0, 2.0]}, r"costs must be one number or one per model \(31\)"),
        ({"costs": ["cheap"] * 31}, "costs must be numbers"),
    ],
)
def test_thresholds_and_costs_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_a_threshold_is_for_two_classes(three_classes):
    model, X = three_classes
    with pytest.raises(InputError, match="threshold is for two classes, the model has 3"):
        scurry.early_exit(model, X[:500], threshold=0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_disagreement": 5}, r"must be in \[0, 1\), got 5\. Did you mean 0\.05 \(5 %\)\?"),
        ({"max_disagreement": -0.1}, r"must be in \[0, 1\)"),
        ({"confidence": 95}, r"confidence must be in \(0, 1\), got 95\. Did you mean 0\.95\?"),
        ({"method": "best"}, 'method must be one of "auto", "minimax"'),
        ({"shuffle": "all"}, 'shuffle must be one of "fixed", "row"'),
        ({"keep_scores": "all"}, 'keep_scores must be None or "positive"'),
        ({"method": "minimean", "keep_scores": "positive"}, 'use method="qwyc"'),
        ({"method": "fan", "keep_scores": "positive"}, 'use method="qwyc"'),
        ({"order": "natural"}, '\'auto\' finds or draws its own order; use "qwyc" or "fan"'),
        ({"order": "natural", "method": "minimean"}, "'minimean' finds or draws its own order"),
        ({"order": "best", "method": "qwyc"}, 'order must be one of "natural", "random"'),
        ({"order": [0, 1], "method": "qwyc"}, "order must name each of the 31 models 0 to 30 once"),
        ({"order": [0, 1], "method": "fan"}, "order must name each of the 31 models 0 to 30 once"),
        ({"gamma": 2.0, "method": "qwyc"}, "gamma is for method=\"fan\", got method='qwyc'"),
        ({"gamma": -1, "method": "fan"}, "gamma must be a number of at least 0"),
        ({"bin_width": 0.1}, "bin_width is for method=\"fan\", got method='auto'"),
        ({"bin_width": 0, "method": "fan"}, "bin_width must be a number above 0"),
    ],
)
def test_arguments_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_numbers_of_any_type(forest):
    X, _ = two_classes(4000, 33)
    asked = {"max_disagreement": np.float32(0.125), "confidence": np.float32(0.5), "threshold": np.float32(0.25)}
    fast = scurry.early_exit(forest, X, random_state=0, **asked)
    same = scurry.early_exit(forest, X, max_disagreement=0.125, confidence=0.5, threshold=0.25, random_state=0)
    assert fast.digest == same.digest


def test_data_that_makes_no_sense(forest, boosted):
    X, y = two_classes(500, 15)
    with pytest.raises(InputError, match="X_cal has one row, and one part of the rows fits what the other certifies"):
        scurry.early_exit(forest, X[:1])
    with pytest.raises(InputError, match="the model knows only the class 'same'"):
        scurry.early_exit(RandomForestClassifier(2).fit(X, np.full(500, "same")), X)
    with pytest.raises(InputError, match="X_cal has no rows"):
        scurry.early_exit(forest, X[:0])
    with pytest.raises(InputError, match="X_fit has no rows; leave it out"):
        scurry.early_exit(forest, X, X_fit=X[:0])
    with pytest.raises(InputError, match=r"y_cal has shape \(3,\), X_cal has 500 rows"):
        scurry.early_exit(forest, X, y[:3])
    with pytest.raises(InputError, match="7 columns"):
        scurry.early_exit(forest, np.zeros((5, 7)))
    with pytest.raises(InputError, match=r"is a regressor; pass promise=scurry.promises.Values"):
        scurry.early_exit(RandomForestRegressor(3).fit(X, y), X)
    with pytest.raises(InputError, match='adds or averages scores; use "qwyc"'):
        scurry.early_exit(boosted, X, method="minimax")


@pytest.mark.parametrize("method", ["qwyc", "fan", "auto"])
def test_rows_of_one_class_say_which_are_missing(boosted, method):
    X, _ = two_classes(2000, 29)
    ones = X[boosted.predict(X) == 1]
    n_fit = len(ones) // 2
    with pytest.raises(
        InputError, match=rf"answers 1 to all {n_fit} rows that fit the rule.*Add rows that it answers 0"
    ):
        scurry.early_exit(boosted, ones, method=method)
    with pytest.raises(InputError, match=rf"answers 1 to all {len(ones)} rows"):
        scurry.early_exit(boosted, X, X_fit=ones, method=method)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "schwing"}, "'schwing' is for two classes, the model has 3; use \"minimixed\""),
        ({"method": "minimean", "confidence": None}, "'minimean' without a confidence is for two classes"),
        ({"method": "minimixed", "shuffle": "row"}, 'shuffle="row" is for two classes'),
        ({"method": "fan"}, 'decides between two classes, the model has 3; use "qwyc"'),
        ({"method": "qwyc", "keep_scores": "positive"}, "needs a model with two classes"),
    ],
)
def test_what_several_classes_cannot_have(three_classes, arguments, message):
    model, X = three_classes
    with pytest.raises(InputError, match=message):
        scurry.early_exit(model, X[:500], **arguments)


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.3])
def test_a_threshold_is_a_probability_whatever_the_scale_of_the_link(scale):
    forest = complete_forest(
        8, 3, 4, 1, classes=["no", "yes"], base_score=[-3.0], aggregation="sum", link="logistic", link_scale=scale
    )
    X = np.random.default_rng(0).normal(size=(500, 4))
    probability = forest.predict_proba(X)[:, 1]
    for threshold in np.quantile(probability, [0.1, 0.5, 0.9]) + 1e-9:
        labels = with_threshold(forest, float(threshold)).predict(X)
        np.testing.assert_array_equal(labels == "yes", probability >= threshold)
        assert len(set(labels)) == 2


def test_models_that_answer_with_numbers_are_told_what_to_promise():
    X, y = two_classes(50, 0)
    ranker = RandomForestRegressor(3).fit(X, y)
    with pytest.raises(
        InputError, match=r"Values\(max_error\).*ranks rows, pass promise=.*TopK\(10, 0\.01\) and groups="
    ):
        scurry.early_exit(ranker, X)


def test_a_promise_of_a_cost_leads_to_prune():
    X, y = two_classes(50, 0)
    model = RandomForestClassifier(3).fit(X, y)
    with pytest.raises(InputError, match=r"early_exit cannot promise Cost.*scurry\.prune\(.*\)\.at\(promise="):
        scurry.early_exit(model, X, promise=scurry.promises.Cost(10))


@pytest.mark.parametrize("verb", [scurry.early_exit, scurry.anytime, scurry.prune, scurry.compress])
def test_a_predictor_given_as_a_model_is_told_of_its_forest(verb):
    X, y = two_classes(50, 0)
    small = scurry.Predictor.full(scurry.from_model(RandomForestClassifier(3).fit(X, y)))
    with pytest.raises(InputError, match=r"pass its forest, predictor\.forest") as error:
        verb(small, X, y)
    assert error.value.argument == "model"
