"""What rows pay, by walking them, and rankings by definition."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score

import scurry
from scurry.errors import InputError
from scurry.evaluation import average_precision_at, feature_bill, score_quality

X, Y = load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[::2], Y[::2]))


def walk(forest, x, trees):
    """How often a row reads each feature in some trees, node by node."""
    uses = np.zeros(forest.n_features, int)
    for tree in trees:
        node = int(forest.tree_offset[tree])
        while forest.left[node] >= 0:
            feature = forest.feature[node]
            uses[feature] += 1
            node = int((forest.left if np.float32(x[feature]) <= forest.threshold[node] else forest.right)[node])
    return uses


def test_bill_counts_each_feature_and_group_once(forest):
    terms = {"feature_costs": np.arange(13) / 3, "groups": [0] * 5 + [-1] * 8, "group_costs": [2.0]}
    bill = feature_bill(forest, X[:40], **terms)
    for x, uses, cost in zip(X[:40], bill.uses, bill.costs, strict=True):
        expected = walk(forest, x, range(8))
        np.testing.assert_array_equal(uses, expected)
        assert cost == pytest.approx(terms["feature_costs"][expected > 0].sum() + 2.0 * expected[:5].any())
    assert bill.mean_cost == pytest.approx(bill.costs.mean())
    assert feature_bill(forest, X[:40], step_cost=0.5).mean_cost == pytest.approx(
        bill.mean_features + 0.5 * bill.uses.sum(axis=1).mean()
    )


def test_bill_takes_models_and_predictors(forest):
    bill = feature_bill(scurry.Predictor.full(forest), X)
    np.testing.assert_array_equal(bill.uses, feature_bill(forest, X).uses)
    anytime = scurry.anytime(forest, X, Y, order="backward-squirrel")
    np.testing.assert_array_equal(bill.uses, feature_bill(anytime, X).uses)


@pytest.mark.parametrize("method", ["minimax", "qwyc"])
def test_early_exit_pays_for_the_trees_it_evaluates(method):
    rows, labels = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(rows[:300], labels[:300])
    fast = scurry.early_exit(model, rows[300:], max_disagreement=0.05, method=method, confidence=None)
    bill, run = feature_bill(fast, rows[:50]), fast.run(rows[:50])
    for x, uses, n_trees in zip(rows, bill.uses, run.trees, strict=False):
        np.testing.assert_array_equal(uses, walk(fast.forest, x, fast.plan.order[:n_trees]))
    lazy = fast.acquire(lambda row, feature: rows[row][feature], 50)
    np.testing.assert_array_equal(bill.costs, lazy.costs)


def test_no_rows_pay_nothing(forest):
    bill = feature_bill(forest, X[:0])
    assert repr(bill) == "FeatureBill(n_rows=0, mean_cost=0, mean_features=0)"
    assert bill.uses.shape == (0, 13)


def test_orders_by_row_are_refused():
    rows, labels = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(rows[:300], labels[:300])
    fast = scurry.early_exit(model, rows[300:], max_disagreement=0.05, method="minimax", shuffle="row")
    with pytest.raises(InputError, match="an order of its own"):
        feature_bill(fast, rows)


def test_usage_is_the_papers_table(forest):
    bill = feature_bill(forest, X)
    for feature in range(13):
        never, seldom, often = bill.usage(feature, often=2)
        assert never == (bill.uses[:, feature] == 0).mean()
        assert often == (bill.uses[:, feature] >= 3).mean()
        assert never + seldom + often == pytest.approx(1)


def average_precision_by_hand(k, hits):
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(min(k, len(hits))) if hits[i]]
    return sum(precisions) / min(k, sum(hits))


@given(
    st.integers(1, 7),
    st.lists(st.lists(st.booleans(), min_size=1, max_size=9).filter(any), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_average_precision_is_its_definition(k, queries, random):
    rows = [(hit, -place, f"q{query}") for query, hits in enumerate(queries) for place, hit in enumerate(hits)]
    random.shuffle(rows)
    expected = np.mean([average_precision_by_hand(k, hits) for hits in queries])
    assert average_precision_at(k, *zip(*rows, strict=True)) == pytest.approx(expected)


def test_average_precision_of_perfect_and_worst_rankings():
    relevant = np.array([1] * 5 + [0] * 5)
    queries = np.zeros(10)
    assert average_precision_at(5, relevant, -np.arange(10), queries) == 1
    assert average_precision_at(5, relevant, np.arange(10), queries) == 0
    values = [average_precision_at(5, relevant, np.arange(10) == first, queries) for first in (0, 9)]
    assert all(a > b for a, b in pairwise(values))


def test_queries_without_relevant_documents_do_not_count():
    assert average_precision_at(5, [1, 0, 0], [2, 1, 0], ["a", "a", "b"]) == 1
    with pytest.raises(InputError, match="no query has a relevant document"):
        average_precision_at(5, [0, 0], [1, 2], [0, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [1], [1], [1]), "k must be a whole number of at least 1, got 0"),
        ((5, [1], [1, 2], [1]), "must be lists of one length"),
        ((5, [1, 0], [1, np.nan], [1, 1]), r"scores\[1\] is NaN"),
        ((5, [1, 3], [1, 2], [1, 1]), r"relevant\[1\] is .*3.*; a document is relevant"),
    ],
)
def test_bad_rankings_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        average_precision_at(*arguments)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_judged_as_scikit_learn_does(n_classes):
    features, y = load_wine(return_X_y=True) if n_classes == 3 else load_breast_cancer(return_X_y=True)
    # Few shallow trees give many equal probabilities.
    model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(features[::3], y[::3])
    fast = scurry.early_exit(model, features, confidence=None, max_disagreement=0.2, method="qwyc")
    quality = score_quality(fast, features, y)
    for name, one in (("full", model), ("fast", fast)):
        probabilities = one.predict_proba(features)
        shown = probabilities if n_classes == 3 else probabilities[:, 1]
        expected = roc_auc_score(y, shown, multi_class="ovr")
        assert getattr(quality, f"{name}_auc") == pytest.approx(expected, abs=1e-12)
        assert getattr(quality, f"{name}_log_loss") == pytest.approx(log_loss(y, probabilities), abs=1e-12)
    assert quality.full_auc != quality.fast_auc


def test_probabilities_need_labels_of_two_classes(forest):
    full = scurry.Predictor.full(forest)
    with pytest.raises(InputError, match="one class alone"):
        score_quality(full, X, np.zeros(len(X), int))
    with pytest.raises(InputError, match="178 rows, y has 3 labels"):
        score_quality(full, X, [0, 1, 2])
    with pytest.raises(InputError, match="class"):
        score_quality(full, X, np.full(len(X), 7))
