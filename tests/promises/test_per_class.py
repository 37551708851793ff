"""Promises per class and of recall: what they say and what they accept."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

from scurry.errors import FormatError, InputError
from scurry.promises import Labels, LabelsPerClass, Promise, Recall


class TestLabelsPerClass:
    def test_it_is_compared_by_value_whatever_the_order_and_type_of_labels(self):
        promise = LabelsPerClass({"yes": 0.02, "no": 0.002})
        assert promise == LabelsPerClass({"no": 0.002, np.str_("yes"): np.float64(0.02)})
        assert promise != LabelsPerClass({"no": 0.002, "yes": 0.03})
        assert len({promise, LabelsPerClass({"no": 0.002, "yes": 0.02})}) == 1
        assert pickle.loads(pickle.dumps(promise)) == copy.deepcopy(promise) == promise
        assert eval(repr(promise), {"LabelsPerClass": LabelsPerClass}) == promise

    @pytest.mark.parametrize("labels", [("a", "b"), (0, 1), (False, True), (np.int64(3), np.int64(5)), (0.5, 1.5)])
    def test_files(self, labels):
        promise = LabelsPerClass(dict(zip(labels, (0.1, 0.2), strict=True)), confidence=0.9)
        stored = json.loads(json.dumps(promise.to_json()))
        assert Promise.from_json(stored) == promise

    @pytest.mark.parametrize(
        ("rates", "wrong"),
        [
            ({"yes": 0.0, "no": 0.1}, "the rate of class 'yes' must be above 0"),
            ({"yes": 2, "no": 0.1}, r"the rate of class 'yes' must be in .* Did you mean 0.02 \(2 %\)"),
            ({"yes": math.nan, "no": 0.1}, "the rate of class 'yes'"),
            ({"yes": 0.1}, "two classes or more"),
            ([("yes", 0.1), ("yes", 0.2)], "each once"),
            (0.1, "mapping"),
            ({math.nan: 0.1, "no": 0.1}, "mapping from classes"),
            ({None: 0.1, "no": 0.1}, "mapping from classes"),
        ],
    )
    def test_rates_are_checked(self, rates, wrong):
        with pytest.raises(InputError, match=wrong):
            LabelsPerClass(rates)

    def test_a_confidence_is_needed(self):
        with pytest.raises(InputError, match="needs a confidence"):
            LabelsPerClass({"yes": 0.1, "no": 0.1}, confidence=None)

    def test_what_it_says(self):
        promise = LabelsPerClass({0: 0.002, 1: 0.02, 2: 0.5}, confidence=0.9)
        assert promise.describe() == (
            "With confidence 0.9, of new rows at most 0.2 % that the model labels 0, 2 % that it labels 1 and 50 % "
            "that it labels 2 get another."
        )
        assert "new groups" in promise.about_groups().describe()
        assert promise.max_rate == 0.5
        n_rows = promise.rows_needed()
        assert 0.998**n_rows <= 0.1 < 0.998 ** (n_rows - 1)

    def test_damaged_files(self):
        with pytest.raises(FormatError, match="cannot be read"):
            Promise.from_json({"kind": "labels per class", "rates": [["yes", 7]], "confidence": 0.9})


class TestRecall:
    def test_what_it_says(self):
        promise = Recall("yes", 0.01, 0.002, confidence=0.9)
        assert "at most 1 % of those of class 'yes' that the model finds are lost" in promise.describe()
        assert "0.2 %" in promise.describe()
        assert promise.max_rate is None
        assert Promise.from_json(json.loads(json.dumps(promise.to_json()))) == promise
        assert promise.about_groups().holds == "groups"
        assert promise.rows_needed() == Labels(0.002, confidence=0.9).rows_needed()

    @pytest.mark.parametrize(
        ("arguments", "wrong"),
        [
            (("yes", 0.0), "max_loss must be above 0"),
            (("yes", 1.5), "max_loss"),
            (("yes", 0.1, 0.0), "max_changed must be above 0"),
            ((["yes"], 0.1), "class_ must be a label"),
            ((None, 0.1), "class_ must be a label"),
        ],
    )
    def test_arguments_are_checked(self, arguments, wrong):
        with pytest.raises(InputError, match=wrong):
            Recall(*arguments)


@pytest.mark.parametrize(
    ("text", "classes", "promise"),
    [
        ("labels<=0.5%", [], Labels(0.005)),
        ("labels <= 0.005", [], Labels(0.005)),
        ("yes<=2%,no<=0.2%", ["no", "yes"], LabelsPerClass({"yes": 0.02, "no": 0.002})),
        ("1<=2%, 0<=0.2%", [0, 1], LabelsPerClass({1: 0.02, 0: 0.002})),
        ("recall(yes)<=1%", ["no", "yes"], Recall("yes", 0.01)),
        ("recall(1) <= 1e-2", [0, 1], Recall(1, 0.01)),
    ],
)
def test_texts(text, classes, promise):
    assert Promise.parse(text, classes=classes) == promise
    assert Promise.parse(text, classes=classes, confidence=0.9).confidence == 0.9


@pytest.mark.parametrize("text", ["", "labels", "labels<0.5%", "label<=1%", "recall<=1%", "yes<=1%,no", "labels<=two"])
def test_texts_that_ask_for_nothing_known(text):
    with pytest.raises(InputError, match="promise must") as caught:
        Promise.parse(text)
    assert caught.value.argument == "promise"


@pytest.mark.parametrize("text", ["labels<=200%", "yes<=0%,no<=1%"])
def test_texts_with_rates_that_cannot_be_promised(text):
    with pytest.raises(InputError, match="must be"):
        Promise.parse(text)


def test_recall_says_which_changed_labels_it_does_not_count():
    text = Recall("yes", 0.01).describe_test("6,000 rows", 0, None)
    assert "0 got another label" not in text
    assert "labels 'yes' wrongly may change" in text


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        (">50K<=2%,<=50K<=0.2%", {">50K": 0.02, "<=50K": 0.002}),
        ("'>50K'<=2%, \"<=50K\" <= 0.2%", {">50K": 0.02, "<=50K": 0.002}),
        ("'a, b'<=2%,c<=0.01", {"a, b": 0.02, "c": 0.01}),
        ("'labels'<=2%,'<=1%,x'<=0.01", {"labels": 0.02, "<=1%,x": 0.01}),
    ],
)
def test_any_class_can_be_written(text, rates):
    assert Promise.parse(text) == LabelsPerClass(rates)


def test_any_class_can_be_recalled():
    assert Promise.parse("recall(<=50K)<=1%") == Recall("<=50K", 0.01)
    assert Promise.parse("recall('a (b), c') <= 1%") == Recall("a (b), c", 0.01)
    assert Promise.parse("recall(1)<=1%,others<=0.5%", classes=[0, 1]) == Recall(1, 0.01, 0.005)


def test_a_single_class_leads_to_recall():
    for make in (lambda: LabelsPerClass({">50K": 0.02}), lambda: Promise.parse("1<=2%", classes=[0, 1])):
        with pytest.raises(InputError, match=r"every class of the model.*Recall\("):
            make()
