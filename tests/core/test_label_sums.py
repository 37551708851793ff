"""Labels by integer sums are those of the exact sums, also where classes are nearly tied, at every instruction set."""

import numpy as np
import pytest

from scurry.forest import reference
from support.levels import LEVELS, rerun_tests
from support.strategies import complete_forest

DEPTH = 7  # more leaves than the loop of boosted models takes: trees are sliced for batches alone
WALKED_DEPTH = 8  # they are walked below their tops


def assert_same_labels(forest, n_rows=900):
    rng = np.random.default_rng(forest.n_trees)
    rows = rng.normal(size=(n_rows, forest.n_features)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.02] = np.nan
    assert forest.engine.loop == "walked"
    expected, scores = reference.predict(forest, rows), reference.scores(forest, rows)
    np.testing.assert_array_equal(forest.predict(rows), expected)
    np.testing.assert_array_equal(forest.predict(rows, n_threads=2), expected)
    for n in (1, 2, 31, 65):
        np.testing.assert_array_equal(forest.predict(rows[:n]), expected[:n])
    np.testing.assert_array_equal(forest.scores(rows), scores)  # payloads also hold what they held before
    np.testing.assert_array_equal(forest.scores(rows[:1]), scores[:1])
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))
    return expected, scores


def has_integers(forest):
    """Whether labels are told by integers of classes, whose table is in memory beside that of the leaves."""
    distinct = len(np.unique(forest.value[forest.left < 0], axis=0))
    width = forest.n_outputs if forest.n_outputs == 2 else -(-forest.n_outputs // 8) * 8
    return forest.engine.leaf_bytes > 8 * width * distinct


@pytest.mark.parametrize("depth", [DEPTH, WALKED_DEPTH])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
@pytest.mark.parametrize("n_classes", [2, 3, 8, 9, 16, 17, 33, 70])
def test_numbers_of_classes(n_classes, aggregation, depth):
    forest = complete_forest(21, depth, n_columns=n_classes, seed=n_classes, aggregation=aggregation)
    assert forest.engine.slices_large == (depth == DEPTH)
    expected, _ = assert_same_labels(forest)
    assert len(np.unique(expected)) > 1
    assert has_integers(forest) == (n_classes > 2)


@pytest.mark.parametrize("depth", [DEPTH, WALKED_DEPTH])
@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_ties_go_to_the_first_class(n_classes, depth):
    """Leaves with few different values: many sums are equal, and others differ by less than integers can tell."""
    rng = np.random.default_rng(n_classes)
    base = complete_forest(16, depth, n_columns=n_classes)
    value = rng.choice([0.0, 0.25, 0.5], base.value.shape)
    for step in (0.0, 1e-15, 1e-9, 1e-5):
        jitter = step * rng.integers(-1, 2, value.shape)
        _, scores = assert_same_labels(complete_forest(16, depth, n_columns=n_classes, value=value + jitter))
        two = np.sort(scores, axis=1)[:, -2:]
        if step == 0:
            assert (two[:, 0] == two[:, 1]).sum() > 20


@pytest.mark.parametrize("n_classes", [2, 5])
def test_sums_that_start_apart(n_classes):
    start = np.linspace(-2, 3, n_classes)
    assert_same_labels(complete_forest(9, DEPTH, n_columns=n_classes, aggregation="sum", base_score=start))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("scale", "shift"), [(1e-200, 0.0), (1e200, 0.0), (-1.0, 0.0), (1.0, -3.0), (1e-3, 1e12), (1e-12, 1.0)]
)
def test_values_of_any_size(n_classes, scale, shift):
    """Where the rounding of the source's sums is as large as the differences between leaves, there are no integers."""
    base = complete_forest(9, DEPTH, n_columns=n_classes)
    assert_same_labels(complete_forest(9, DEPTH, n_columns=n_classes, value=base.value * scale + shift), 300)


def test_more_values_than_a_payload_numbers():
    forest = complete_forest(20, 12, n_columns=2)
    assert (forest.left < 0).sum() > 65536
    assert_same_labels(forest, 300)


def test_links_whose_probabilities_decide():
    for link in ("softmax", "logistic-each"):
        forest = complete_forest(9, DEPTH, n_columns=3, aggregation="sum", link=link, label_from="probability")
        assert_same_labels(forest, 300)


@pytest.mark.parametrize("level", LEVELS)
def test_all_levels_give_the_same_labels(level):
    rerun_tests(__file__, level)
