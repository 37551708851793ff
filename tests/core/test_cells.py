"""The native parts of cells: every instruction set stops rows alike, and calls that make no sense are refused."""

import numpy as np
import pytest

import scurry
from scurry import _core
from scurry.forest import reference
from scurry.runners.cells import CellRunner, find_cells
from support.bounded_forests import all_inputs, bounded_forest
from support.levels import LEVELS, run_script

SCRIPT = """
import numpy as np, scurry
from scurry.forest import reference
from scurry.runners.cells import CellRunner
from scurry.runners.cells import find_cells
from support.bounded_forests import all_inputs, bounded_forest

print(scurry._core.kernels())
for n_features in (1, 4, 15, 17, 40, 70):
    for missing in (False, True):
        forest = bounded_forest(n_features, n_trees=30, n_leaves=12, n_features=n_features, missing=missing)
        runner, rows = CellRunner(forest, find_cells(forest, n_cells=9)), all_inputs(forest, 1200)
        sums, trees, cells, positive = runner._stop(rows, 1)
        values = runner.rule.increments(forest)[reference.apply(forest, rows)]
        plans = runner.plans
        in_order = np.take_along_axis(values, plans.order[cells], axis=1).cumsum(axis=1)
        running = np.concatenate([np.zeros((len(rows), 1), int), in_order], axis=1)
        stops = (running <= plans.lower[cells]) | (running >= plans.upper[cells])
        stops[:, -1] = True
        np.testing.assert_array_equal(trees, stops.argmax(axis=1))
        np.testing.assert_array_equal(sums, running[np.arange(len(rows)), trees])
        np.testing.assert_array_equal(positive, reference.predict(forest, rows) == 1)
        for row in range(0, len(rows), 97):  # one row alone is walked by another kernel
            assert runner._stop(rows[row : row + 1], 1)[1][0] == trees[row]
"""


@pytest.mark.parametrize("level", LEVELS)
def test_all_levels_stop_alike(level):
    run_script(SCRIPT, level)


@pytest.fixture(scope="module")
def runner():
    forest = bounded_forest(1, n_trees=8, n_leaves=6)
    return CellRunner(forest, find_cells(forest, n_cells=5))


def test_senseless_plans_are_refused(runner):
    arrays, increments, plans = runner._arrays, runner._increments, runner.plans
    right = {name: getattr(plans, name) for name in ("order", "lower", "upper", "first_open")}
    _core.CellExit(arrays, increments=increments, **right)
    named = increments.copy()
    named[-1] = 99
    for changes in (
        {"increments": increments[:-1]},
        {"increments": named},
        {"increments": np.full_like(increments, 2**30)},
        {"order": right["order"][:, :-1].copy()},
        {"order": right["order"] + 1},
        {"order": right["order"] - 1},
        {"lower": right["lower"][:-1]},
        {"upper": right["upper"][:, 1:].copy()},
        {"first_open": right["first_open"][1:]},
    ):
        with pytest.raises(ValueError, match=r"increment|router|order|cell|bits"):
            _core.CellExit(arrays, **({"increments": increments} | right | changes))


def test_senseless_searches_are_refused(runner):
    forest, increments = runner.forest, runner.rule.increments(runner.forest)
    with pytest.raises(ValueError, match="columns"):
        _core.find_router(forest.arrays, increments=increments, rows=np.zeros((2, 1)), n_cells=4, progress=None)
    with pytest.raises(ValueError, match="every node"):
        _core.find_router(forest.arrays, increments=increments[1:], rows=np.zeros((2, 3)), n_cells=4, progress=None)
    with pytest.raises(ValueError, match="every node"):
        _core.draw_rows(forest.arrays, cover=np.ones(2), n_rows=3, seed=0)
    with pytest.raises(ValueError, match="every node"):
        _core.bound_cells(runner._arrays, increments=increments)
    single = bounded_forest(1, n_trees=1)
    with pytest.raises(ValueError, match="at least two trees"):
        _core.bound_cells(single.arrays, increments=np.zeros(single.n_nodes, np.int32))
    with_sets = bounded_forest(3, n_trees=2, n_leaves=9, categories=True)
    with pytest.raises(ValueError, match="numeric splits"):
        _core.bound_cells(with_sets.arrays, increments=np.zeros(with_sets.n_nodes, np.int32))


def test_outputs_of_the_wrong_size_are_refused(runner):
    rows, three, two = np.zeros((3, 3)), np.empty(3, np.int32), np.empty(2, np.int32)
    sides = np.empty(3, np.uint8)
    for sums, trees, cells in ((two, three, three), (three, two, three), (three, three, two)):
        with pytest.raises(ValueError, match="wrong size"):
            runner._native.run(rows, sums, trees, sides, cells, 1)
    with pytest.raises(ValueError, match="columns"):
        runner._native.run(rows[:, :2].copy(), three, three, sides, three, 1)


@pytest.mark.parametrize("n_leaves", [8, 70])
def test_labels_are_the_same_whether_trees_are_saved_or_not(n_leaves):
    """All trees are evaluated where that takes less time, which depends on the trees and the number of rows."""
    forest = bounded_forest(5, n_trees=40, n_leaves=n_leaves, n_features=9)
    rows, runner = all_inputs(forest, 3000), CellRunner(forest, find_cells(forest, n_cells=30))
    expected = reference.predict(forest, rows)
    one_row = scurry.Predictor(forest, scurry.Plan(order=np.arange(40, dtype=np.int32), stop=runner.rule)).one_row()
    for size in (1, 3, 40, 3000):
        np.testing.assert_array_equal(runner.labels(rows[:size], 1, None), expected[:size])
    assert [one_row(row) for row in rows[:50]] == expected[:50].tolist()


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_splits_that_send_no_number_left(input_dtype):
    """No number is below -inf: bounds must hold for -inf, which goes right there, and routers have no such splits."""
    for seed in range(12):
        forest = bounded_forest(seed, n_trees=12, comparison="<", input_dtype=input_dtype)
        at_end = (forest.left >= 0) & (np.random.default_rng(seed).random(forest.n_nodes) < 0.4)
        forest = forest.replace(threshold=np.where(at_end, -np.inf, forest.threshold))
        rows, runner = all_inputs(forest, 2000), CellRunner(forest, find_cells(forest, n_cells=9))
        np.testing.assert_array_equal(runner._stop(rows, 1)[3], reference.predict(forest, rows) == 1)
        router = forest.replace(threshold=np.where(forest.left >= 0, -np.inf, 0.0))
        if len(router.left) > forest.tree_offset[-2] + 1:
            with pytest.raises(ValueError, match="none at -inf"):
                _core.bound_cells(router.arrays, increments=np.zeros(forest.n_nodes, np.int32))


def test_no_rows_and_no_cells_to_split(runner):
    router = _core.find_router(
        runner.forest.arrays,
        increments=runner.rule.increments(runner.forest),
        rows=np.empty((0, 3)),
        n_cells=100,
        progress=None,
    )
    assert [part.tolist() for part in router] == [[-1], [-1], [-1]]
    assert len(runner._stop(np.empty((0, 3)), 1)[0]) == 0
