"""Checks of single arguments: each returns the canonical type, or names the argument."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from scurry.checks import (
    check_choice,
    check_confidence,
    check_count,
    check_number,
    check_random_state,
    check_rate,
    is_missing,
    is_number,
)
from scurry.errors import InputError

NO_NUMBERS = [None, "1", True, np.True_, [1], np.array([1.0]), 1j, Decimal(1)]


def fails(check, *arguments, **options) -> str:
    """The message of a check that must fail; the error names the argument."""
    with pytest.raises(InputError) as caught:
        check(*arguments, **options)
    assert caught.value.argument == ("confidence" if check is check_confidence else arguments[0])
    assert str(caught.value).startswith(caught.value.argument)
    return str(caught.value)


def test_choice():
    assert check_choice("order", "auto", ("auto", "random")) == "auto"
    assert fails(check_choice, "order", "best", ("auto", "random")) == (
        'order must be one of "auto", "random", got \'best\''
    )
    # An unhashable or array-like value must not break the comparison itself.
    for value in (None, ["auto"], np.array(["auto", "random"]), 1):
        fails(check_choice, "order", value, ("auto", "random"))


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_count(value):
    count = check_count("n", value)
    assert (type(count), count) == (int, 3)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, np.True_, np.float64(2)])
def test_what_is_no_count(value):
    message = fails(check_count, "n", value, hint="; None is all")
    assert message == f"n must be a whole number of at least 1, got {value!r}; None is all"


def test_smallest_count():
    assert check_count("n", 0, 0) == 0
    assert "at least 5" in fails(check_count, "n", 4, 5)


@pytest.mark.parametrize("value", [0, 2, 0.5, np.float32(0.5), Fraction(1, 2), 1e300])
def test_number(value):
    number = check_number("cost", value)
    assert (type(number), number) == (float, float(value))


@pytest.mark.parametrize("value", [*NO_NUMBERS, -1e-9, np.nan, np.inf, -np.inf])
def test_what_is_no_number(value):
    assert "cost must be a number of at least 0, got" in fails(check_number, "cost", value)


def test_number_above():
    assert check_number("width", 1e-9, above=0) == 1e-9
    assert fails(check_number, "width", 0, above=0, hint=".") == "width must be a number above 0, got 0."
    assert check_number("score", -2.5, above=-3) == -2.5


@pytest.mark.parametrize("value", [0, 0.0, 0.005, np.float32(0.5), np.nextafter(1, 0)])
def test_rate(value):
    rate = check_rate("share", value)
    assert (type(rate), rate) == (float, float(value))


@pytest.mark.parametrize("value", [*NO_NUMBERS, -0.1, 1, 1.5, 100, np.nan, np.inf])
def test_what_is_no_rate(value):
    message = fails(check_rate, "share", value)
    assert "share must be in [0, 1), got" in message
    # A percentage is the likely mistake from 1 to below 100, and only there.
    assert ("Did you mean" in message) == (is_number(value) and 1 <= value < 100)


def test_rate_in_percent():
    assert fails(check_rate, "share", 5).endswith("Did you mean 0.05 (5 %)?")


def test_confidence():
    assert check_confidence(np.float64(0.95)) == 0.95
    assert fails(check_confidence, 95).endswith("Did you mean 0.95?")
    for value in (*NO_NUMBERS, 0, 1, -0.5, np.nan):
        assert "Did you mean" not in fails(check_confidence, value)


def test_random_state():
    generator = np.random.default_rng(3)
    assert check_random_state(generator) is generator
    assert check_random_state(7).random() == np.random.default_rng(7).random()
    assert check_random_state(None).random() != check_random_state(None).random()
    draws = {check_random_state(np.random.RandomState(5)).random() for _ in range(2)}
    assert len(draws) == 1
    state = np.random.RandomState(5)
    assert check_random_state(state).random() != check_random_state(state).random()


@pytest.mark.parametrize("value", ["seed", -1, 1.5])
def test_what_is_no_random_state(value):
    with pytest.raises(InputError, match="random_state must be a whole number of at least 0") as caught:
        check_random_state(value)
    assert caught.value.argument == "random_state"


def test_is_missing():
    assert all(is_missing(value) for value in (None, np.nan, np.float32("nan"), pd.NA, pd.NaT))
    assert not any(is_missing(value) for value in (0, "", "nan", False, np.inf, (np.nan,)))


def test_is_number():
    assert all(is_number(value) for value in (1, 1.5, np.nan, np.float32(1), np.int8(1), Fraction(1, 3)))
    assert not any(is_number(value) for value in NO_NUMBERS)
