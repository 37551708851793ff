"""Kinds of promises: what each says, what it accepts, and the short form of the verbs."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError, ScurryWarning
from scurry.promises import (
    Accuracy,
    Certain,
    Certificate,
    Cost,
    Labels,
    LabelsPerClass,
    Promise,
    Recall,
    TopK,
    Values,
)
from scurry.promises.promise import read_promise
from support.calibration_rows import two_classes

X, Y = two_classes(2000, seed=0)


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:800], Y[:800])


class TestLabels:
    @pytest.mark.parametrize(
        ("arguments", "argument"),
        [
            ({"max_changed": 1.0}, "max_changed"),
            ({"max_changed": -0.1}, "max_changed"),
            ({"max_changed": math.nan}, "max_changed"),
            ({"max_changed": True}, "max_changed"),
            ({"max_changed": "0.1"}, "max_changed"),
            ({"max_changed": None}, "max_changed"),
            ({"max_changed": 0.1, "confidence": 0}, "confidence"),
            ({"max_changed": 0.1, "confidence": 1.0}, "confidence"),
            ({"max_changed": 0.1, "confidence": "high"}, "confidence"),
            ({"max_changed": 0.1, "against": "truth"}, "against"),
            ({"max_changed": 0.1, "holds": ["rows"]}, "holds"),
        ],
    )
    def test_arguments_are_checked_at_construction(self, arguments, argument):
        with pytest.raises(InputError, match=f"^{argument} must be") as caught:
            Labels(**arguments)
        assert caught.value.argument == argument

    def test_percent_instead_of_a_fraction(self):
        with pytest.raises(InputError, match=r"Did you mean 0.05 \(5 %\)\?"):
            Labels(5)
        with pytest.raises(InputError, match=r"Did you mean 0.95\?"):
            Labels(0.05, confidence=95)

    def test_it_is_frozen_and_compared_by_value(self):
        promise = Labels(np.float32(0.5))
        assert type(promise.max_changed) is float
        with pytest.raises(dataclasses.FrozenInstanceError):
            promise.max_changed = 0.1
        assert promise == Labels(0.5) != Labels(0.5, confidence=0.9)
        assert len({promise, Labels(0.5)}) == 1

    def test_options_are_keywords(self):
        with pytest.raises(TypeError):
            Labels(0.1, 0.9)
        with pytest.raises(TypeError):
            Promise()

    @pytest.mark.parametrize(
        ("promise", "sentence", "max_rate"),
        [
            (
                Labels(0.005),
                "With confidence 0.95, at most 0.5 % of new rows get another label than the model's.",
                0.005,
            ),
            (
                Labels(0.125, confidence=0.9, against="vote", holds="orders"),
                "With confidence 0.9, at most 12.5 % of new rows get another label than the full vote's, on average "
                "over random orders of the trees.",
                0.125,
            ),
            (
                Labels(0.01, confidence=None, against="vote", holds="each row"),
                "Each row gets another label than the full vote's with probability at most 1 %, over random orders of "
                "the trees.",
                0.01,
            ),
            (
                Labels(0.01, confidence=None),
                "At most 1 % of the rows that fitted the rule get another label than the model's. Nothing is promised "
                "for new rows.",
                None,
            ),
            (Labels(0, confidence=None), "Every row gets the model's label.", 0.0),
        ],
    )
    def test_it_describes_itself_in_percent(self, promise, sentence, max_rate):
        assert promise.describe() == sentence
        assert promise.max_rate == max_rate

    @pytest.mark.parametrize("rate", [0.5, 0.3, 0.05, 0.02, 0.005, 0.001])
    @pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
    def test_rows_needed(self, rate, confidence):
        n_rows = 0
        while (1 - rate) ** n_rows > 1 - confidence + 1e-12:
            n_rows += 1
        assert Labels(rate, confidence=confidence).rows_needed() == n_rows

    def test_rows_needed_for_the_usual_promise(self):
        assert Labels(0.005).rows_needed() == 598
        assert 0.995**598 <= 0.05 < 0.995**597

    def test_no_rows_are_needed_for_what_rows_do_not_certify(self):
        for promise in (Labels(0), Labels(0.1, confidence=None), Labels(0.1, holds="each row")):
            assert promise.rows_needed() == 0


class TestEarlyExit:
    def test_the_promise_and_its_short_form_are_the_same(self, model):
        settings = {"random_state": 0, "method": "qwyc"}
        promised = scurry.early_exit(model, X[800:], promise=scurry.promises.Labels(0.02), **settings)
        short = scurry.early_exit(model, X[800:], max_disagreement=0.02, **settings)
        assert promised.digest == short.digest
        assert promised.promise == Labels(0.02)
        assert promised.certificate.bound <= 0.02

    @pytest.mark.parametrize("short", [{"max_disagreement": 0.1}, {"confidence": 0.9}, {"confidence": None}])
    def test_both_forms_together_are_refused(self, model, short):
        with pytest.raises(InputError, match="either promise, or its short form") as caught:
            scurry.early_exit(model, X[800:], promise=Labels(0.02), **short)
        assert caught.value.argument == "promise"

    @pytest.mark.parametrize("promise", [0.02, "labels", Labels(0.02, against="vote"), Labels(0.02, holds="each row")])
    def test_what_is_no_promise_is_refused(self, model, promise):
        with pytest.raises(InputError, match="promise") as caught:
            scurry.early_exit(model, X[800:], promise=promise)
        assert caught.value.argument == "promise"


def test_it_is_there_after_importing_scurry():
    assert "promises" in scurry.__all__
    assert scurry.promises.Labels is Labels
    assert all(hasattr(scurry.promises, name) for name in scurry.promises.__all__)


def test_a_cost_is_written_as_a_text():
    assert Promise.parse("cost <= 40") == Cost(40)
    with pytest.raises(InputError, match="such as 'cost<=40'"):
        Promise.parse("cost<=much")


def test_only_texts_are_read():
    assert read_promise(None) is None
    assert read_promise(Labels(0.1)) == Labels(0.1)
    assert read_promise("1<=1%,0<=2%", np.array([0, 1]), 0.9) == LabelsPerClass({1: 0.01, 0: 0.02}, confidence=0.9)


def test_it_is_certain():
    promise = Certain()
    assert promise.confidence == 1.0
    assert promise.max_rate == 0.0
    assert promise.rows_needed() == 0
    assert promise.describe() == "Every possible input gets the model's label, which is proven from the trees."
    assert promise == Certain()
    assert promise != Labels(0.0)
    assert repr(promise) == "Certain()"


def test_there_is_nothing_to_choose():
    with pytest.raises(TypeError):
        Certain(confidence=0.9)


def test_json_round_trip():
    assert Certain().to_json() == {"kind": "certain"}
    assert Promise.from_json({"kind": "certain"}) == Certain()
    certificate = Certificate(method="bounds", promise=Certain())
    assert Certificate.from_json(certificate.to_json()).promise == Certain()
    assert certificate.lines()["promise"] == Certain().describe()


def test_a_text_asks_for_it():
    assert Promise.parse("certain") == Certain()
    assert Promise.parse(" certain ", confidence=0.9) == Certain()
    with pytest.raises(InputError, match="'certain'"):
        Promise.parse("certainly")


def test_groups_mean_nothing():
    with pytest.raises(InputError, match="groups"):
        Certain().about_groups()


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 1e-200])
def test_rates_too_small_to_divide_by_need_more_rows_than_there_are(rate):
    for promise in (Labels(rate), LabelsPerClass({0: rate, 1: 0.5}), Accuracy(rate), Values(0.1, rate), TopK(3, rate)):
        assert promise.rows_needed() > 10**199


def test_the_error_of_an_unknown_text_shows_every_way_to_write_one():
    with pytest.raises(InputError, match=r"'probabilities<=0\.02 for 95%'"):
        Promise.parse("nothing like it")


@pytest.mark.parametrize(
    "promise",
    [
        Labels(0.99),
        LabelsPerClass({"no": 0.01, "yes": 0.99}),
        Recall("50000+", 0.99),
        Recall("50000+", 0.01, max_changed=0.99),
        Accuracy(0.99),
        Values(0.02, 0.99),
        TopK(10, 0.99),
        "recall(50000+)<=99%",
    ],
)
def test_a_rate_that_means_what_is_kept_is_asked_about(promise):
    with pytest.warns(ScurryWarning, match=r"a rate of 0.99: .*99 .* Did you mean 0.01 \(1 %\)\?"):
        read_promise(promise)


def test_other_rates_and_promises_that_scurry_makes_itself_are_not_asked_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for promise in (Labels(0.5), Recall("yes", 0.5), Cost(40), Certain(), None, "values<=3 for 95%"):
            read_promise(promise)
        read_promise(Accuracy(5, error_costs=[[0, 1], [10, 0]]))  # a mean cost is no rate
        much = Recall("yes", 0.99)
        assert Promise.from_json(dataclasses.replace(much, confidence=0.9).to_json()).max_loss == 0.99
        much.about_groups().with_confidence(0.5)


def test_verbs_ask_about_rates_at_the_line_that_calls_them(model):
    much = Labels(0.995)
    fast = scurry.early_exit(model, X[800:], Y[800:], max_disagreement=0.1, random_state=0)
    for call in (
        lambda: scurry.early_exit(model, X[800:], promise=much, random_state=0),
        lambda: scurry.compress(model, X[800:], promise=much, X_fit=X[:800]),
        lambda: fast.audit(X[800:], promise=much),
    ):
        with pytest.warns(ScurryWarning, match="Did you mean 0.005") as caught:
            call()
        assert {str(warning.filename) for warning in caught if "Did you mean" in str(warning.message)} == {__file__}
