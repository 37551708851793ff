"""The expensive model: what may be passed, and how it is called."""

import numpy as np
import pytest

from scurry.cascades.expensive import Expensive, check_answers
from scurry.errors import InputError

X = np.arange(20.0).reshape(10, 2)
ROWS = np.array([1, 4, 7, 8, 9])


class Model:
    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_it_is_called_in_batches():
    sizes, done = [], []

    def call(rows):
        sizes.append(len(rows))
        return rows[:, 0]

    expensive = Expensive(call)
    found = expensive.answer(X, ROWS, 2, lambda *progress: done.append(progress))
    np.testing.assert_array_equal(found, X[ROWS, 0])
    assert sizes == [2, 2, 1]
    assert done == [(2, 5), (4, 5), (5, 5)]
    assert expensive.us_per_row > 0
    assert Expensive(call).us_per_row is None


def test_models_and_functions_answer_and_arrays_do_not():
    np.testing.assert_array_equal(Expensive(Model()).answer(X, ROWS, None), X[ROWS, 0])
    assert not Expensive(np.zeros(3)).can_answer
    assert not Expensive(None).can_answer
    assert Expensive(["a", "b"]).recorded(2, "X_cal").tolist() == ["a", "b"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_passed_on_as_frames(library):
    frame = pytest.importorskip(library).DataFrame({"a": X[:, 0], "b": X[:, 1]})
    seen = []

    def call(rows):
        seen.append(type(rows))
        return rows["a"].to_numpy()

    np.testing.assert_array_equal(Expensive(call).answer(frame, ROWS, 3), X[ROWS, 0])
    assert set(seen) == {type(frame)}


def test_answers_must_be_one_for_each_row():
    assert check_answers(np.array([["a"], ["b"]]), 2, "it").tolist() == ["a", "b"]
    assert check_answers(np.array(["a", "bc"], object), 2, "it").dtype == "<U2"
    with pytest.raises(InputError, match=r"it must have shape \(2,\), got \(3,\)"):
        check_answers([1, 2, 3], 2, "it")
    with pytest.raises(InputError, match="pass labels, not probabilities"):
        check_answers(np.ones((2, 2)), 2, "it")
