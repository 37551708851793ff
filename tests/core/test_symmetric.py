"""Symmetric trees: the loop made for them gives the bits of the reference, at every instruction set."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scurry
from scurry import _core
from scurry.forest import reference
from support.strategies import SPECIAL, adversarial_rows, symmetric_forest

TESTS = Path(__file__).parents[1]
LEVELS = ("portable", "avx2", "avx512-plain", "avx512")
RNG = np.random.default_rng(0)


def rows_for(forest, n_rows, n_sets=0):
    rows = adversarial_rows(forest, RNG.normal(size=(100, forest.n_features)), n_rows)
    if n_sets:
        rows[:, -1] = RNG.choice(np.r_[np.arange(40), -1, 2.5, 1e9, np.nan, np.inf], n_rows)
    return rows


def assert_same_bits(forest, rows):
    with np.errstate(over="ignore"):
        inputs = (rows, rows.astype(np.float32), np.asfortranarray(rows))
    for given in inputs:
        np.testing.assert_array_equal(forest.apply(given), reference.apply(forest, given))
        expected = reference.scores(forest, given)
        np.testing.assert_array_equal(forest.scores(given), expected)
        np.testing.assert_array_equal(forest.predict(given), reference.predict(forest, given))
        for n in (1, 2, 31, 32, 63, 64, 65, 129):
            np.testing.assert_array_equal(forest.scores(given[:n]), expected[:n])
    np.testing.assert_array_equal(forest.scores(rows, n_threads=2), forest.scores(rows))


@pytest.mark.parametrize("depth", range(10))
def test_depths(depth):
    forest = symmetric_forest(17, depth, seed=depth)
    assert_same_bits(forest, rows_for(forest, 700))


@pytest.mark.parametrize("n_columns", [2, 3, 7, 8, 9, 16, 17])
def test_several_outputs(n_columns):
    forest = symmetric_forest(37, 5, n_columns=n_columns, seed=n_columns)
    assert_same_bits(forest, rows_for(forest, 300))


@pytest.mark.parametrize("n_thresholds", [1, 2, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 254, 255, 256, 400])
def test_numbers_of_thresholds(n_thresholds):
    """Above 255 a rank is no byte, and a column of ranks becomes several."""
    forest = symmetric_forest(
        n_trees=max(20, n_thresholds), depth=4, n_features=2, n_thresholds=n_thresholds, seed=n_thresholds
    )
    assert_same_bits(forest, rows_for(forest, 500))


@pytest.mark.parametrize("header", [{"input_dtype": "float64"}, {"comparison": "<"}, {"score_dtype": "float32"}])
def test_ways_to_compare_and_add(header):
    forest = symmetric_forest(25, 6, seed=5, **header)
    assert_same_bits(forest, rows_for(forest, 500))


@pytest.mark.parametrize("n_features", [1, 15, 16, 17, 32, 33, 64, 70, 150])
def test_numbers_of_features(n_features):
    forest = symmetric_forest(40, 6, n_features=n_features, seed=n_features)
    assert_same_bits(forest, rows_for(forest, 300))


@pytest.mark.parametrize("n_sets", [1, 5, 40])
def test_sets_of_categories(n_sets):
    forest = symmetric_forest(40, 5, n_features=4, n_sets=n_sets, seed=n_sets)
    assert (forest.category_set >= 0).any()
    assert_same_bits(forest, rows_for(forest, 500, n_sets))


def test_trees_that_are_nearly_symmetric_are_walked_as_others():
    """One node that asks something else, or has the missing values go elsewhere, is seen."""
    forest = symmetric_forest(6, 4, seed=1)
    inner = np.flatnonzero((forest.left >= 0) & (forest.node_depth == 2))
    for name, change in (
        ("threshold", 0.125),
        ("feature", 1),
        ("default_left", True),
        ("missing", 2),
    ):
        array = getattr(forest, name).copy()
        array[inner[0]] = change if name != "feature" else (array[inner[0]] + 1) % forest.n_features
        if name == "default_left":
            array[inner[0]] = not forest.default_left[inner[0]]
        changed = forest.replace(**{name: array})
        assert_same_bits(changed, rows_for(forest, 300))


def test_missing_rules():
    forest = symmetric_forest(30, 5, seed=9)
    for kind in (0, 1, 2):
        changed = forest.replace(missing=np.full(forest.n_nodes, kind))
        rows = rows_for(forest, 400)
        rows[RNG.random(rows.shape) < 0.3] = np.nan
        rows[RNG.random(rows.shape) < 0.1] = RNG.choice(SPECIAL)
        assert_same_bits(changed, rows)


def test_a_bias_after_the_trees():
    """A tree of one leaf adds what no question decides."""
    forest = symmetric_forest(11, 6, seed=2)
    assert forest.tree_depth[-1] == 0
    assert_same_bits(forest, rows_for(forest, 200))


def test_the_loop_is_chosen_by_the_trees():
    """One node that asks something else makes it another loop."""
    symmetric = symmetric_forest(30, 5, seed=4)
    threshold = symmetric.threshold.copy()
    threshold[np.flatnonzero(symmetric.node_depth == 3)[0]] += 1.0
    assert symmetric.engine.loop == "symmetric"
    assert symmetric.replace(threshold=threshold).engine.loop == "sliced"


@pytest.mark.parametrize("n_columns", [1, 3])
def test_exits_count_the_same_trees(n_columns):
    forest = symmetric_forest(60, 4, n_columns=n_columns, seed=n_columns)
    rows = np.random.default_rng(1).normal(size=(3000, forest.n_features)).astype(np.float32)
    fast = scurry.early_exit(forest, rows, max_disagreement=0.05, confidence=None, method="qwyc", random_state=0)
    run = fast.run(rows)
    assert run.trees.mean() < forest.n_trees
    np.testing.assert_array_equal(run.labels, fast.predict(rows))
    for row in range(0, len(rows), 97):
        assert fast.run(rows[row : row + 1]).trees[0] == run.trees[row]
    # The rule itself, on the leaves of the reference.
    rule, order = fast.plan.stop, fast.plan.order
    sums = rule.increments(forest)[reference.apply(forest, rows)][:, order].cumsum(axis=1)
    if n_columns == 1:
        stops = np.stack([rule.side_of(0, i + 1, sums[:, i]) for i in range(len(order))], axis=1) > 0
    else:
        two = np.sort(sums + rule.start(forest), axis=2)[:, :, -2:].astype(np.int64)
        stops = two[:, :, 1] - two[:, :, 0] >= rule.lead[1:]
    stops[:, -1] = True
    np.testing.assert_array_equal(run.trees, stops.argmax(axis=1) + 1)


def test_anytime_stops_inside_trees():
    forest = symmetric_forest(8, 4, seed=6)
    rows = np.random.default_rng(2).normal(size=(400, forest.n_features)).astype(np.float32)
    predictor = scurry.anytime(forest, rows, forest.predict(rows))
    np.testing.assert_array_equal(predictor.predict(rows), forest.predict(rows))
    for n_steps in (0, 3, 17):
        batch = predictor.predict(rows, max_steps=n_steps)
        single = [predictor.predict(rows[row : row + 1], max_steps=n_steps)[0] for row in range(0, 400, 23)]
        np.testing.assert_array_equal(batch[::23], single)


@pytest.mark.parametrize("level", LEVELS)
def test_all_levels_give_the_same_bits(level):
    if LEVELS.index(level) > LEVELS.index(_core.kernels()) and "SCURRY_ISA" not in os.environ:
        pytest.skip(f"this processor has no {level}")
    if "SCURRY_ISA" in os.environ:
        pytest.skip("this is one of the levels")
    environment = os.environ | {"SCURRY_ISA": level, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
