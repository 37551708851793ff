"""The promise about values."""

import numpy as np
import pytest

from scurry.errors import FormatError, InputError
from scurry.promises import Certificate, Outcomes, Promise, ValueMeasurement, Values


def test_it_says_itself_in_one_sentence():
    assert Values(0.12).describe() == (
        "With confidence 0.95, the values of at most 5 % of new rows differ from the model's by more than 0.12."
    )
    assert Values(0.02, 0.01, of="probability", confidence=0.9).describe() == (
        "With confidence 0.9, the probabilities of at most 1 % of new rows differ from the model's by more than 0.02."
    )
    assert "The log-odds of at most 5 %" in Values(1, of="log-odds", confidence=None).describe()
    assert Values(1, confidence=None).describe().endswith("Nothing is promised for new rows.")
    assert "of new groups, with one row of each drawn at random, differ" in Values(1).about_groups().describe()


def test_rows_needed_certify_without_a_mistake():
    assert Values(1, 0.05).rows_needed() == 59
    assert 0.95**59 <= 0.05 < 0.95**58
    assert Values(1, 0.01, confidence=None).rows_needed() == 0
    assert Values(1, 0.01, confidence=None).max_rate is None
    assert Values(1, 0.01).max_rate == 0.01


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((0,), {}, "max_error"),
        ((-1,), {}, "max_error"),
        ((float("nan"),), {}, "max_error"),
        ((float("inf"),), {}, "max_error"),
        (("0.1",), {}, "max_error"),
        ((1, 0), {}, "max_share"),
        ((1, 5), {}, "max_share"),
        ((1,), {"of": "values"}, "of"),
        ((1,), {"of": "probability"}, "max_error"),
        ((1,), {"confidence": 95}, "confidence"),
    ],
)
def test_arguments_are_checked_when_it_is_made(arguments, options, named):
    with pytest.raises(InputError) as error:
        Values(*arguments, **options)
    assert error.value.argument == named


def test_texts_ask_for_it():
    assert Promise.parse("values<=0.02 for 95%") == Values(0.02, 0.05)
    assert Promise.parse("values <= 12") == Values(12)
    assert Promise.parse("probabilities<=0.02 for 0.99", confidence=0.9) == Values(
        0.02, 0.01, of="probability", confidence=0.9
    )
    assert Promise.parse("log-odds<=0.1 for 95 %") == Values(0.1, of="log-odds")
    for wrong in ("values<=many", "values<=0.02 for most", "values<=0 for 95%"):
        with pytest.raises(InputError):
            Promise.parse(wrong)


def test_files_keep_it_and_what_was_measured():
    measured = ValueMeasurement(beyond=0.03, mean_trees=12.5, mean_error=0.1, largest_error=2.0, caution=1.8)
    certificate = Certificate(method="sentinels", promise=Values(0.5), n_rows=100, n_broken=3, measured=measured)
    again = Certificate.from_json(certificate.to_json())
    assert again.promise == Values(0.5)
    assert again.measured == measured
    assert "0.1 on average, 2 at most" in certificate.describe()
    with pytest.raises(FormatError):
        Promise.from_json(Values(0.5).to_json() | {"max_error": -1})


def test_rows_are_counted_that_differ_by_more():
    full = np.zeros(4)
    outcomes = Outcomes(
        answers=np.array([0.0, 0.5, -0.6, 2.0]),
        full=full,
        probabilities=np.array([0.0, 0.1, 0.2, 0.3]),
        full_probabilities=full,
        log_odds=np.array([-3.0, 0.0, 0.0, 0.0]),
        full_log_odds=full,
    )
    counts = [
        Values(error, 0.1, of=of).count(outcomes)[0]
        for of, error in (("value", 0.5), ("probability", 0.25), ("log-odds", 1.0))
    ]
    assert [(count.n_rows, count.n_broken, count.max_rate) for count in counts] == [
        (4, 2, 0.1),
        (4, 1, 0.1),
        (4, 1, 0.1),
    ]
    assert counts[0].what == "values further than 0.5 from the model's"
    assert Values(0.1, of="probability").count(Outcomes(answers=full, full=full)) == ()
