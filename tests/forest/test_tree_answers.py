"""What trees answer, against the reference: codes of labels, sides of nodes, scores, links and labels."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.errors import InputError
from scurry.forest import first_true, neighbours, reference
from scurry.forest.structure import CHOICES
from support.strategies import SPECIAL, adversarial_rows, complete_forest, forests

DOUBLES = st.floats(-1e300, 1e300)


@pytest.mark.parametrize(
    "classes",
    [[3, -1, 7], ["b", "a", "ccc"], [True, False], [0.5, -0.5, 2.0], np.array(["x", None, 3], object)],
)
def test_codes_of_labels(classes):
    classes = np.asarray(classes)
    forest = complete_forest(n_trees=1, depth=1, n_columns=len(classes), classes=classes)
    codes = np.array([1, 0, 0, len(classes) - 1])
    found = forest.codes_of(classes[codes])
    assert (found.tolist(), found.dtype) == (codes.tolist(), np.int32)
    assert forest.codes_of(classes[codes].tolist()).tolist() == codes.tolist()


def test_labels_without_a_code():
    forest = complete_forest(n_trees=1, depth=1, n_columns=2, classes=["no", "yes"])
    with pytest.raises(InputError, match="y_cal has 1 labels the model does not know: 'maybe'; its 2 classes") as error:
        forest.codes_of(["no", "maybe"], "y_cal")
    assert error.value.argument == "y_cal"
    with pytest.raises(InputError, match="y has 1 missing labels, the first in row 1"):
        forest.codes_of(np.array(["no", None], object))
    # Not every whole number is a float: 2**53 + 1 is no label here.
    large = complete_forest(n_trees=1, depth=1, n_columns=2, classes=np.array([2.0**53, 0.0]))
    with pytest.raises(InputError, match="does not know: 9007199254740993"):
        large.codes_of([2**53 + 1])


@settings(max_examples=60, deadline=None)
@given(forests())
def test_nodes_scores_and_labels_as_the_reference_has_them(forest):
    rows = adversarial_rows(forest, np.zeros((1, forest.n_features)), 20)
    with np.errstate(over="ignore"):
        compared = rows.astype(forest.input_dtype).astype(np.float64)
    leaves = reference.apply(forest, rows)
    for row, ends in zip(compared, leaves, strict=True):
        for root, end in zip(forest.tree_offset[:-1], ends, strict=True):
            node = int(root)
            while forest.left[node] >= 0:
                node = int((forest.left if forest.goes_left(node, row[forest.feature[node]]) else forest.right)[node])
            assert node == end
    np.testing.assert_array_equal(forest.leaf_values(), reference.leaf_values(forest))
    scores = forest.scores_at(leaves)
    np.testing.assert_array_equal(scores, reference.scores(forest, rows))
    np.testing.assert_array_equal(forest.decide(scores), reference.predict(forest, rows))


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("rounding", ["floor", "trunc"])
def test_sides_as_the_reference_has_them(missing, comparison, rounding):
    forest = complete_forest(
        n_trees=1,
        depth=2,
        n_columns=2,
        n_features=2,
        missing=np.full(7, missing),
        comparison=comparison,
        category_set=[-1, 0, 1, -1, -1, -1, -1],
        category_offset=[0, 1, 3],
        category_bits=[0b101, 1, 1 << 31],
        category_rounding=rounding,
        threshold=[0.0, 0, 0, 0, 0, 0, 0],
    )
    values = [*SPECIAL, float(np.float32(1e-35)), 1.1e-35, 2.0, 2.9, -0.9, 31.0, 63.0, 64.0, 1e9]
    for node in range(3):
        for x in values:
            expected = reference.goes_left(forest, np.array([node], np.int32), np.array([x]))[0]
            assert forest.goes_left(node, float(x)) == expected, (node, x)


@pytest.mark.parametrize("link", CHOICES["link"])
def test_links_as_the_reference_has_them(link):
    n = 3 if link in ("softmax", "logistic-each") else 1
    output = np.arange(6) % n
    forest = complete_forest(
        n_trees=6,
        depth=1,
        n_columns=1,
        link=link,
        link_scale=2.0,
        tree_output=output,
        aggregation="sum",
        classes=np.arange(n) if n > 1 else None,
    )
    scores = np.array([[-800.0, 0.0, 3.0], [1.0, 2.0, 800.0], [-0.5, -0.5, -0.5]])[:, :n]
    np.testing.assert_array_equal(forest.link_scores(scores), reference.link(forest, scores))
    np.testing.assert_array_equal(forest.decide(scores), reference.labels_of(forest, scores))


def test_weights_of_votes():
    votes = complete_forest(n_trees=3, depth=1, n_columns=3, aggregation="vote", seed=1)
    assert votes.vote_weights.tolist() == [1, 1, 1]
    weighted = votes.with_vote_weights([1.0, 0.0, 2.5])
    assert weighted.vote_weights.tolist() == [1.0, 0.0, 2.5]
    X = np.random.default_rng(0).normal(size=(50, votes.n_features))
    cast = np.eye(3)[votes.tree_votes(X)] * np.array([1.0, 0.0, 2.5])[:, None]
    np.testing.assert_array_equal(weighted.predict(X), votes.classes[cast.sum(axis=1).argmax(axis=1)])
    np.testing.assert_allclose(weighted.predict_proba(X), cast.sum(axis=1) / 3.5)
    # Leads that differ from leaf to leaf, a start that is not 0, and sums that are not votes.
    uneven = weighted.value.copy()
    uneven[weighted.is_leaf] *= np.linspace(1, 2, int(weighted.is_leaf.sum()))[:, None]
    assert weighted.replace(value=uneven).vote_weights is None
    assert weighted.replace(base_score=np.array([0.0, 0.1, 0.0])).vote_weights is None
    assert complete_forest(n_trees=3, depth=1, n_columns=3, aggregation="sum").vote_weights is None
    assert complete_forest(n_trees=3, depth=1, n_columns=1, classes=None).vote_weights is None
    for weights in ([1.0, 2.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0], "abc"):
        with pytest.raises(InputError, match="weights must"):
            votes.with_vote_weights(weights)
    with pytest.raises(InputError, match="have no votes"):
        weighted.with_vote_weights([1.0, 2.0, 3.0])


@given(DOUBLES)
def test_every_number_is_found(x):
    assert first_true(lambda number: number >= x, -1e300, 1e300) == x


def test_answers_that_never_change():
    assert first_true(lambda number: True, -2.0, 3.0) == -2.0
    assert first_true(lambda number: False, -2.0, 3.0) == np.nextafter(3.0, np.inf)


@given(DOUBLES)
def test_neighbours_are_next_to_each_other(x):
    found = neighbours(x, 3)
    assert len(found) == 7
    assert found[3] == x
    assert all(np.nextafter(low, np.inf) == high for low, high in pairwise(found))
