"""Compact tables: the same answers from fewer bytes."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.export import to_c
from scurry.export.columns import NodeTests, split_columns
from scurry.export.compact import Compact, find_total, merge_leaves
from scurry.export.lowered import LAYOUTS, lower
from scurry.export.replay import find_leaves, run_trees
from scurry.export.verification import verify

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3)).astype(np.float32)
Y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(8, max_depth=7, random_state=0).fit(X[:1500], Y[:1500]))


@pytest.mark.parametrize("layout", ["shared8", "shared16"])
def test_answers_are_those_of_the_plain_layout(forest, layout):
    pred = scurry.Predictor.full(forest)
    ours = run_trees(lower(pred, LAYOUTS[layout]), X)
    plain = run_trees(lower(pred, LAYOUTS[layout.replace("shared", "int16-uint")]), X)
    np.testing.assert_array_equal(ours.sums, plain.sums)
    np.testing.assert_array_equal(ours.codes, plain.codes)


@pytest.mark.parametrize("anytime", [False, True])
def test_tables_walk_to_the_same_values(forest, anytime):
    pred = scurry.anytime(forest, X[:200], Y[:200], order="depth-ie") if anytime else scurry.Predictor.full(forest)
    lowered = lower(pred, LAYOUTS["shared16"])
    compact = Compact.of(lowered)
    x = lowered.columns.encode(X[:300])
    leaves = find_leaves(lowered, X[:300])
    for tree in range(forest.n_trees):
        for row in range(0, 300, 7):
            at = compact.root[tree]
            while at < lowered.n_inner:
                column = lowered.column[at]
                limit = compact.threshold[compact.first_threshold[column] + compact.threshold_id[at]]
                at = compact.right[at] if x[row, column] > limit else compact.left[at]
            numbers = compact.values[at if anytime else at - lowered.n_inner]
            wanted = lowered.codes[leaves[row, tree]]
            np.testing.assert_array_equal(numbers, wanted[:-1])
            assert compact.total - numbers.sum() == wanted[-1]
    assert compact.threshold_id.max() < 256


def test_leaves_with_equal_values_are_one(forest):
    lowered = lower(scurry.Predictor.full(forest), LAYOUTS["shared8"])
    number, leaves = merge_leaves(lowered)
    assert len(leaves) < (~(forest.left >= 0)).sum()
    np.testing.assert_array_equal(number[: lowered.n_inner], np.arange(lowered.n_inner))
    np.testing.assert_array_equal(
        lowered.codes[leaves][number[lowered.n_inner :] - lowered.n_inner], lowered.codes[lowered.n_inner :]
    )


def test_probabilities_have_one_sum(forest):
    for layout in ("shared8", "int16-uint16"):
        codes = lower(scurry.Predictor.full(forest), LAYOUTS[layout]).codes
        leaf = codes.any(axis=1)
        assert len(np.unique(codes[leaf].sum(axis=1))) == 1
    weighted = scurry.anytime(forest, X[:200], Y[:200], order="depth-ie", readout="weighted")
    assert find_total(lower(weighted, LAYOUTS["shared16"])) is None


def test_many_thresholds_become_several_columns():
    deep = scurry.from_model(RandomForestClassifier(12, random_state=0).fit(X, Y))
    lowered = lower(scurry.Predictor.full(deep), LAYOUTS["shared16"])
    for column in range(len(lowered.columns.feature)):
        assert len(np.unique(lowered.threshold[lowered.column == column])) <= 256
    assert len(lowered.columns.feature) > 6
    plain = lower(scurry.Predictor.full(deep), LAYOUTS["int16-uint16"])
    np.testing.assert_array_equal(lowered.columns.feature[lowered.column], plain.columns.feature[plain.column])
    np.testing.assert_array_equal(lowered.threshold, plain.threshold)
    thresholds = np.arange(70_000) % 2**16 - 2**15
    column = np.zeros(70_000, np.int64) + (np.arange(70_000) >= 2**16)
    tests = NodeTests(plain.columns, column, thresholds, plain.sets, np.zeros(70_000, bool))
    with pytest.raises(InputError, match="share_thresholds"):
        split_columns(tests)


@pytest.mark.parametrize("layout", ["shared8", "shared16"])
def test_compiled(forest, layout, tmp_path):
    export = to_c(forest, tmp_path, layout=layout)
    plain = to_c(forest, tmp_path / "plain", layout=layout.replace("shared", "int16-uint"))
    assert export.sizes.flash_bytes < 0.85 * plain.sizes.flash_bytes
    assert verify(tmp_path, X[:200]).n_mismatches == 0
