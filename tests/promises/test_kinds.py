"""Promises per class and of recall: what they say and what they accept.

The promise of accuracy: what it says and what it accepts.

The promise about values.

The promise about the top k of queries: what it says, and what it refuses.
"""

import copy
import json
import math
import pickle

import numpy as np
import pytest

from scurry.errors import FormatError, InputError
from scurry.promises import (
    Accuracy,
    Certificate,
    Labels,
    LabelsPerClass,
    Outcomes,
    Promise,
    Recall,
    TopK,
    ValueMeasurement,
    Values,
)
from scurry.promises.kinds import find_places
from scurry.stopping.guarantee import split_risk
from scurry.stopping.losses import paired_p_value


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
            ({}, "one class or more"),
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

    @pytest.mark.parametrize("n_classes", [1, 2, 5])
    def test_rows_needed_are_those_that_the_test_needs(self, n_classes):
        """Of a rare class, with rows of the others in plenty."""
        n_rows = LabelsPerClass(dict.fromkeys(range(n_classes), 0.02)).rows_needed()

        def is_enough(n_rare):
            counts = [n_rare] + [10**12] * (n_classes - 1)
            return 0.98**n_rare <= split_risk(counts, [0.02] * n_classes, 0.05)[0]

        assert is_enough(n_rows)
        assert not is_enough(n_rows - 1)
        assert n_rows == {1: 149, 2: 153, 5: 156}[n_classes]

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
        assert promise.rows_needed() == LabelsPerClass({0: 0.002, 1: 0.01}, confidence=0.9).rows_needed()

    @pytest.mark.parametrize(
        ("arguments", "wrong"),
        [
            (("yes", 0.0), "max_loss must be above 0"),
            (("yes", 1.5), "max_loss"),
            (("yes", 0.1, 0.0), "max_changed must be above 0"),
            ((["yes"], 0.1), "label must be a class"),
            ((None, 0.1), "label must be a class"),
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


def test_one_class_alone_may_be_named():
    promise = LabelsPerClass({">50K": 0.02})
    assert promise.describe() == (
        "With confidence 0.95, of new rows at most 2 % that the model labels '>50K' get another."
    )
    assert Promise.parse("1<=2%", classes=[0, 1]) == LabelsPerClass({1: 0.02})


def test_old_names_of_fields_are_read():
    recall = {"kind": "recall", "class_": "yes", "max_loss": 0.01, "max_changed": 0.001, "confidence": 0.95}
    assert Promise.from_json(recall) == Recall("yes", 0.01, 0.001)
    accuracy = {"kind": "accuracy", "max_loss": 0.1, "costs": [[0, 1], [2, 0]], "confidence": 0.95}
    assert Promise.from_json(accuracy) == Accuracy(0.1, error_costs=[[0, 1], [2, 0]])


def test_recall_of_a_class_lets_few_other_labels_change():
    assert Recall("yes", 0.01).others_rate == 0.001
    assert Recall("yes", 0.01, 0.02).others_rate == 0.02
    assert Recall("yes", 0.01).rows_needed() == 308 < Recall("yes", 0.01, 0.001).rows_needed()


def test_it_is_compared_by_value_and_stored():
    promise = Accuracy(np.float64(0.01), error_costs=np.array([[0, 1], [5, 0]]), confidence=0.9)
    assert promise == Accuracy(0.01, error_costs=[[0.0, 1.0], [5.0, 0.0]], confidence=0.9)
    assert hash(promise) == hash(Accuracy(0.01, error_costs=((0, 1), (5, 0)), confidence=0.9))
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
        ({"max_loss": 0.1, "error_costs": [[0, 1]]}, "square"),
        ({"max_loss": 0.1, "error_costs": [[0, math.inf], [1, 0]]}, "finite"),
        ({"max_loss": 0.1, "error_costs": [[2, 2], [1, 1]]}, "differ"),
        ({"max_loss": 2.0, "error_costs": [[0, 1], [2, 0]]}, "below 2"),
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
    assert "cost more" in Accuracy(0.1, error_costs=[[0, 1], [3, 0]]).describe_test("100 rows", 3, 0.07)
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
    promise = Accuracy(0.5, error_costs=[[0, 1], [10, 2]])
    mean = promise.mean(outcomes)
    assert (mean.values.tolist(), mean.full_values.tolist()) == ([1, 10, 10], [0, 2, 10])
    assert (mean.largest, mean.max_rise) == (8.0, 0.5)
    assert promise.count(outcomes) == ()
    assert Accuracy(0.1).mean(outcomes) is None


def test_one_point_is_no_points():
    assert "at most 1 point below" in Accuracy(0.01).describe()
    assert "at most 1 point on" in Accuracy(0.02).describe_test("9 rows", 0, 0.01)


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
def test_ranks_texts(text, promise):
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
