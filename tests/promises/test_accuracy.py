"""The promise of accuracy: what it says and what it accepts."""

import json
import math

import numpy as np
import pytest

from scurry.errors import InputError
from scurry.promises import Accuracy, Outcomes, Promise
from scurry.stopping.guarantee import paired_p_value


def test_it_is_compared_by_value_and_stored():
    promise = Accuracy(np.float64(0.01), costs=np.array([[0, 1], [5, 0]]), confidence=0.9)
    assert promise == Accuracy(0.01, costs=[[0.0, 1.0], [5.0, 0.0]], confidence=0.9)
    assert hash(promise) == hash(Accuracy(0.01, costs=((0, 1), (5, 0)), confidence=0.9))
    assert Promise.from_json(json.loads(json.dumps(promise.to_json()))) == promise
    assert promise != Accuracy(0.01, confidence=0.9)
    assert promise.largest_rise == 5
    assert eval(repr(promise), {"Accuracy": Accuracy}) == promise


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"max_loss": 0}, "only be proven of an exit that is better than the model"),
        ({"max_loss": -0.1}, "max_loss"),
        ({"max_loss": math.nan}, "max_loss"),
        ({"max_loss": 1.0}, r"Did you mean 0.01 \(1 points\)"),
        ({"max_loss": 0.1, "confidence": None}, "needs a confidence"),
        ({"max_loss": 0.1, "holds": "orders"}, "holds"),
        ({"max_loss": 0.1, "costs": [[0, 1]]}, "square"),
        ({"max_loss": 0.1, "costs": [[0, math.inf], [1, 0]]}, "finite"),
        ({"max_loss": 0.1, "costs": [[2, 2], [1, 1]]}, "differ"),
        ({"max_loss": 2.0, "costs": [[0, 1], [2, 0]]}, "below 2"),
    ],
)
def test_arguments_are_checked(arguments, wrong):
    with pytest.raises(InputError, match=wrong):
        Accuracy(**arguments)


def test_what_it_says():
    assert Accuracy(0.003).describe() == (
        "With confidence 0.95, on new rows accuracy is at most 0.3 points below the model's."
    )
    assert "new groups" in Accuracy(0.003).about_groups().describe()
    assert "0.27 points" in Accuracy(0.003).describe_test("100 rows", 3, 0.0027)
    assert "cost more" in Accuracy(0.1, costs=[[0, 1], [3, 0]]).describe_test("100 rows", 3, 0.07)
    assert Accuracy(0.003).max_rate is None


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99, 0.9999, 0.9999999])
@pytest.mark.parametrize("max_loss", [0.001, 0.01, 0.2])
def test_so_many_rows_without_a_change_certify_it(max_loss, confidence):
    promise = Accuracy(max_loss, confidence=confidence)
    n_rows = promise.rows_needed()
    assert paired_p_value(n_rows, 0, 0, max_loss, risk=1 - confidence) <= 1 - confidence
    assert paired_p_value(n_rows // 2, 0, 0, max_loss, risk=1 - confidence) > 1 - confidence


def test_text():
    assert Promise.parse("accuracy<=0.3%") == Accuracy(0.003)
    with pytest.raises(InputError, match="above 0"):
        Promise.parse("accuracy<=0")


def test_costs_of_answers_are_those_of_the_matrix():
    y, full, answers = (np.array(labels) for labels in (["a", "b", "b"], ["a", "b", "a"], ["b", "a", "a"]))
    outcomes = Outcomes(answers=answers, full=full, y=y, classes=("a", "b"))
    promise = Accuracy(0.5, costs=[[0, 1], [10, 2]])
    mean = promise.mean(outcomes)
    assert (mean.values.tolist(), mean.full_values.tolist()) == ([1, 10, 10], [0, 2, 10])
    assert (mean.largest, mean.max_rise) == (8.0, 0.5)
    assert promise.count(outcomes) == ()
    assert Accuracy(0.1).mean(outcomes) is None


def test_one_point_is_no_points():
    assert "at most 1 point below" in Accuracy(0.01).describe()
    assert "at most 1 point on" in Accuracy(0.02).describe_test("9 rows", 0, 0.01)
