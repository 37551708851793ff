"""Floats in their order, and bisection over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry.importers.pipelines.probes import Probe, keys_of, values_of
from scurry.importers.pipelines.traces import CannotFoldError


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_keys_number_the_floats_in_their_order(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    floats = np.array([-np.inf, -1.5, -tiny, 0.0, tiny, 1.0, np.nextafter(np.ones(1, dtype), 2)[0], np.inf], dtype)
    keys = keys_of(floats)
    assert (np.diff(keys) > 0).all()
    assert keys[3] == 0
    assert keys[4] == 1
    assert keys[2] == -1
    assert keys[6] == keys[5] + 1
    assert keys_of(np.array([-0.0], dtype))[0] == 0
    np.testing.assert_array_equal(values_of(keys, dtype), floats)


@given(st.floats(allow_nan=False, width=64))
def test_keys_come_back(number):
    given = np.array([number])
    assert values_of(keys_of(given), "float64")[0] == number


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sign", [1, -1])
def test_bisection_finds_the_last_float(dtype, sign):
    """One tenth of it is at most a threshold: checked against the neighbours, which are computed directly."""
    probe = Probe(lambda X: sign * (X / X.dtype.type(10)), None, 2, {}, False, [dtype] * 2)
    thresholds = np.array([0.3, -7.0, 1e-310 if dtype == "float64" else 1e-44, 0.0, 12345.678])
    column = np.array([0, 1, 0, 1, 0])
    low, high = (np.full(5, keys_of(np.array([end], dtype))[0]) for end in (-np.inf, np.inf))

    def decide(outputs, rows, searches):
        return outputs[rows, column[searches]] <= thresholds[searches]

    last = probe.bisect(column, low, high, np.full(5, sign == 1), decide)
    here, after = values_of(last, dtype), values_of(last + 1, dtype)
    assert ((sign * (here / here.dtype.type(10)) <= thresholds) == (sign == 1)).all()
    assert ((sign * (after / here.dtype.type(10)) <= thresholds) == (sign == -1)).all()


def test_limits_are_the_numbers_that_are_taken():
    def positive_only(X):
        if (X <= 0.25).any() or np.isinf(X).any():
            raise ValueError
        return X

    low, high = Probe(positive_only, None, 1, {}, False, ["float64"]).limits(0)
    assert values_of(np.array([low]), "float64")[0] == np.nextafter(0.25, 1)
    assert values_of(np.array([high]), "float64")[0] == np.finfo(np.float64).max


def test_transformers_that_take_nothing():
    def nothing(X):
        raise ValueError

    with pytest.raises(CannotFoldError, match="refuse every ordinary number"):
        Probe(nothing, None, 1, {}, False, ["float64"])
