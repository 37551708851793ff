"""The promise about the top k of queries: what it says, and what it refuses."""

import numpy as np
import pytest

from scurry.errors import FormatError, InputError
from scurry.promises import Outcomes, Promise, TopK
from scurry.promises.ranks import find_places


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


def test_places_of_equal_scores_are_in_the_order_of_rows():
    places = find_places(np.array([1.0, 5.0, 2.0, 2.0, 5.0]), np.array([0, 1, 0, 0, 1]))
    assert places.tolist() == [2, 0, 0, 1, 1]


@pytest.mark.parametrize("keep", ["order", "set"])
def test_queries_are_counted_whose_best_are_others(keep):
    rng = np.random.default_rng(0)
    queries = rng.integers(0, 40, 400)
    full = rng.integers(0, 9, 400).astype(float)
    answers = full + rng.normal(scale=0.3, size=400) * (rng.random(400) < 0.1)
    n_changed = 0
    for query in np.unique(queries):
        rows = np.flatnonzero(queries == query)
        best = [rows[np.argsort(-each[rows], kind="stable")][:3].tolist() for each in (answers, full)]
        n_changed += (sorted(best[0]) != sorted(best[1])) if keep == "set" else best[0] != best[1]
    outcomes = Outcomes(answers=answers, full=full, queries=queries)
    (count,) = TopK(3, 0.1, keep=keep).count(outcomes)
    assert count[1:] == (len(np.unique(queries)), n_changed, 0.1, 0, "queries")
    assert 0 < n_changed < 40
    assert TopK(3).count(Outcomes(answers=answers, full=full)) == ()
