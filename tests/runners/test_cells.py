"""Bounds of cells against brute force, and labels that are the model's for every input."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import Forest, Plan, Predictor
from scurry.forest import reference
from scurry.plan import CellRule
from scurry.runners.cells import CellPlans, CellRunner, find_cells
from scurry.runners.runner import NO_LIMIT
from support.bounded_forests import all_inputs, bounded_forest

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/promises/certified.json").read_text())["cases"]


def golden_forest(case: dict) -> Forest:
    nodes = [node for tree in case["trees"] for node in tree]
    offset = np.cumsum([0, *map(len, case["trees"])])
    first = np.repeat(offset[:-1], np.diff(offset))
    feature, threshold, left, right, value = map(np.array, zip(*nodes, strict=True))
    return Forest(
        tree_offset=offset,
        feature=feature,
        threshold=threshold.astype(float),
        left=np.where(left >= 0, left + first, -1),
        right=np.where(right >= 0, right + first, -1),
        value=value[:, None].astype(float),
        n_features=case["n_features"],
        classes=[False, True],
        aggregation="sum",
        input_dtype="float64",
        decision_threshold=float(case["threshold"]),
    )


def golden_rule(n_splits: int) -> CellRule:
    """A router of no split, or of the splits at 0 of both features that the golden cells come from."""
    left, right = ([-1], [-1]) if n_splits == 0 else ([1, -1, 3, -1, -1], [2, -1, 4, -1, -1])
    n = len(left)
    return CellRule(
        step=0.5,  # sums are twice those of the golden case, so that a threshold between two of them is a whole number
        feature=np.array([0, 0, 1, 0, 0][:n], np.int32),
        threshold=np.zeros(n),
        default_left=np.zeros(n, np.uint8),
        missing=np.zeros(n, np.uint8),
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
    )


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_cells(case):
    forest = golden_forest(case)
    for n_splits, cells in ((0, case["cells"][:1]), (2, case["cells"][1:])):
        runner = CellRunner(forest, golden_rule(n_splits))
        runner._threshold, runner._slack = 2 * case["threshold"] - 1, 0  # the golden cases have no rounding
        for at, cell in enumerate(cells):
            bounds = np.column_stack([runner.plans.least[at], runner.plans.most[at]]) / 2
            assert bounds.tolist() == cell["bounds"]
            assert runner.plans.order[at].tolist() == cell["order"]
            rows = np.array(cell["rows"], float)
            _, trees, cell_of_row, positive = runner._stop(rows, 1)
            assert (cell_of_row == at).all()
            assert [[int(n), bool(label)] for n, label in zip(trees, positive, strict=True)] == cell["used"]
            one_by_one = [runner._stop(row[None], 1)[1][0] for row in rows]
            assert one_by_one == [n for n, _ in cell["used"]]


HEADERS = (
    {},
    {"input_dtype": "float64"},
    {"comparison": "<", "score_dtype": "float32"},
    {"input_dtype": "float64", "comparison": "<", "category_rounding": "trunc"},
    {"link": "logistic", "decision_threshold": 0.25},
)


def cells_of(forest: Forest, n_cells: int = 12, rows=None) -> CellRunner:
    return CellRunner(forest, find_cells(forest, rows, n_cells=n_cells))


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_those_of_all_inputs(seed, header):
    """Without zeros that are missing and without categories, bounds are not only valid but the narrowest."""
    forest = bounded_forest(seed, n_features=2, missing=False, **header)
    runner, rows = cells_of(forest), all_inputs(forest)
    _, _, cells, _ = runner._stop(rows, 1)
    values = runner.rule.increments(forest)[reference.apply(forest, rows)]
    for cell in np.unique(cells):
        np.testing.assert_array_equal(values[cells == cell].min(axis=0), runner.plans.least[cell])
        np.testing.assert_array_equal(values[cells == cell].max(axis=0), runner.plans.most[cell])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    header=st.sampled_from(HEADERS),
    categories=st.booleans(),
    n_cells=st.integers(1, 40),
)
def test_labels_are_the_models_for_every_input(seed, header, categories, n_cells):
    forest = bounded_forest(seed, categories=categories, **header)
    runner, rows = cells_of(forest, n_cells), all_inputs(forest)
    for given_rows in (rows, rows.astype(np.float32)) if forest.input_dtype == "float32" else (rows,):
        leaves = reference.apply(forest, given_rows)
        _, _trees, cells, positive = runner._stop(given_rows, 1)
        values = runner.rule.increments(forest)[leaves]
        assert (values >= runner.plans.least[cells]).all()
        assert (values <= runner.plans.most[cells]).all()
        expected = reference.labels_of(forest, reference.scores_at(forest, leaves))
        np.testing.assert_array_equal(positive, expected == 1)
        np.testing.assert_array_equal(runner.labels(given_rows, 1, NO_LIMIT), expected)


def test_rows_stop_as_soon_as_bounds_allow():
    """The native loop against the definition, row by row."""
    forest = bounded_forest(3, n_trees=25, n_leaves=9)
    runner, rows = cells_of(forest, 30), all_inputs(forest, 3000)
    sums, trees, cells, _ = runner._stop(rows, 1)
    values = runner.rule.increments(forest)[reference.apply(forest, rows)]
    _, _, order, lower, upper, _ = runner.plans
    for row in range(len(rows)):
        running = np.concatenate([[0], values[row, order[cells[row]]].cumsum()])
        stops = (running <= lower[cells[row]]) | (running >= upper[cells[row]])
        stops[-1] = True
        assert trees[row] == np.argmax(stops)
        assert sums[row] == running[trees[row]]
    assert trees.min() < trees.max()


def test_batches_threads_and_layouts_do_not_matter():
    forest = bounded_forest(5, n_trees=40, n_leaves=12, n_features=4)
    predictor = Predictor(forest, Plan(order=np.arange(40, dtype=np.int32), stop=find_cells(forest, n_cells=50)))
    rows = all_inputs(forest, 5000)
    whole = predictor.run(rows)
    for size in (1, 3, 4, 5, 63, 64, 65, 1000):
        parts = [predictor.run(rows[at : at + size]) for at in range(0, 1000, size)]
        for name in ("labels", "trees", "scores"):
            together = np.concatenate([getattr(part, name) for part in parts])[:1000]
            np.testing.assert_array_equal(together, getattr(whole, name)[:1000])
    for n_threads in (2, 5):
        np.testing.assert_array_equal(predictor.run(rows, n_threads).trees, whole.trees)
        np.testing.assert_array_equal(predictor.predict(rows, n_threads), whole.labels)
    np.testing.assert_array_equal(predictor.run(np.asfortranarray(rows)).trees, whole.trees)
    np.testing.assert_array_equal(predictor.predict(rows[::2]), whole.labels[::2])


def test_scores_and_probabilities_agree_with_labels():
    for seed, header in enumerate(({"link": "logistic"}, {"link": "logistic", "decision_threshold": 0.5})):
        forest = bounded_forest(seed + 30, n_trees=30, n_leaves=8, **header)
        predictor = Predictor(forest, Plan(order=np.arange(30, dtype=np.int32), stop=find_cells(forest, n_cells=30)))
        rows = all_inputs(forest, 4000)
        run, probabilities = predictor.run(rows), predictor.predict_proba(rows)
        positive = run.labels == 1
        assert (positive == (run.scores >= forest.decision_threshold)).all()
        limit = 1 / (1 + np.exp(-forest.decision_threshold))
        assert (probabilities[positive, 1] >= limit).all()
        assert (probabilities[~positive, 1] < limit).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_array_equal(run.scores[run.complete], forest.scores(rows)[run.complete, 0])
        np.testing.assert_array_equal(probabilities[run.complete], forest.predict_proba(rows)[run.complete])
        assert not run.complete.all()


def test_steps_count_the_router_and_the_trees_evaluated():
    forest = bounded_forest(8, n_trees=20, n_leaves=8)
    runner, rows = cells_of(forest, 20), all_inputs(forest, 500)
    run = runner.run(rows, 1, NO_LIMIT)
    depth = forest.node_depth[forest.apply(rows)]
    evaluated = runner.trees_evaluated(rows)
    np.testing.assert_array_equal(evaluated.sum(axis=1), run.trees)
    router = run.steps - (depth * evaluated).sum(axis=1)
    assert (router >= 1).all()
    assert (router <= 19).all()


def test_plans_of_a_cell():
    least, most = np.array([[-3, -1]], np.int32), np.array([[3, 2]], np.int32)
    plans = CellPlans.of(least, most, threshold=0, slack=2)
    assert plans.order.tolist() == [[0, 1]]
    assert plans.upper.tolist() == [[7, 4, 3]]
    assert plans.lower.tolist() == [[-8, -5, -3]]
    assert plans.first_open.tolist() == [2]


def test_draws_follow_covers():
    """Rows that shape a router without data: as often on each side of a split as the training rows were."""
    stump = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [[0.0], [-1.0], [1.0]],
        "cover": [100, 80, 20],
    }
    forest = Forest.from_trees([stump], classes=[0, 1], aggregation="sum")
    rows = scurry._core.draw_rows(forest.arrays, cover=forest.cover, n_rows=4000, seed=1)
    assert abs((rows[:, 0] <= 0.5).mean() - 0.8) < 0.03
    unknown = scurry._core.draw_rows(forest.arrays, cover=np.full(3, np.nan), n_rows=4000, seed=1)
    assert abs((unknown[:, 0] <= 0.5).mean() - 0.5) < 0.03
