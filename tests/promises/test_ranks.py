"""The promise about the top k of queries: what it says, and what it refuses."""

import pytest

from scurry.errors import FormatError, InputError
from scurry.promises import Promise, TopK


def test_it_says_what_may_change():
    assert TopK(10, 0.05, keep="set").describe() == (
        "With confidence 0.95, at most 5 % of new queries get another top 10 than the model's, whose order is "
        "estimated."
    )
    assert TopK(3, 0.01).describe_test("400 groups", 1, 0.0118) == (
        "400 queries that had no part in the fit: 1 broke it (at most 1.18 % of new queries)"
    )
    assert TopK(3, 0.01).about_groups() == TopK(3, 0.01)
    assert TopK(3, 0.01).max_rate == 0.01


@pytest.mark.parametrize(("rate", "confidence", "n"), [(0.01, 0.95, 299), (0.05, 0.95, 59), (0.01, 0.99, 459)])
def test_queries_needed(rate, confidence, n):
    assert TopK(10, rate, confidence=confidence).rows_needed() == n
    assert (1 - rate) ** n <= 1 - confidence < (1 - rate) ** (n - 1)


@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("top10<=1%", TopK(10, 0.01)),
        ("top 3 set <= 0.05", TopK(3, 0.05, keep="set")),
        ("  top5<=2% ", TopK(5, 0.02)),
    ],
)
def test_texts(text, promise):
    assert Promise.parse(text) == promise


def test_files():
    promise = TopK(7, 0.02, confidence=0.9, keep="set")
    assert Promise.from_json(promise.to_json()) == promise
    for wrong in ({"k": 0}, {"k": "7"}, {"keep": "all"}, {"max_changed": 2}, {"confidence": None}, {"extra": 1}):
        with pytest.raises(FormatError, match="its promise cannot be read"):
            Promise.from_json(promise.to_json() | wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be a whole number"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"max_changed": 0.0}, "not that none does"),
        ({"max_changed": 1.0}, "max_changed must be"),
        ({"keep": "best"}, "keep must be"),
        ({"confidence": None}, "needs a confidence"),
    ],
)
def test_misuse(arguments, message):
    with pytest.raises(InputError, match=message):
        TopK(**{"k": 10, "max_changed": 0.01} | arguments)
