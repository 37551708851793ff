"""How forests of ensemble pruning's Table 1 are read, and how its levels are found on curves."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "papers")]

from ensemble_pruning import _is_vertex, _level, _share_at  # noqa: E402

from cost_curves import Task  # noqa: E402
from ensemble_runs import TABLE_1, cutter, judged_by, two_classes  # noqa: E402
from scurry.growing import BudgetedForestClassifier  # noqa: E402


def test_published_rows_are_read_as_printed():
    sonar = TABLE_1["sonar"]
    assert (sonar.cost, sonar.cost_deviation, sonar.errors[0], sonar.error_deviation) == (
        49.9715,
        1.1103,
        0.1539,
        0.0641,
    )
    assert sonar.shares == {"ensemble": (45.20, 16.48), "single trees": (74.31, 28.11)}
    assert sonar.deviations == {"ensemble": (3.9528, 1.7930), "single trees": (2.0425, 1.6909)}


def test_levels_are_read_from_the_cheap_end():
    curve = np.array([[10.0, 0.1], [8.0, 0.12], [6.0, 0.1], [4.0, 0.2], [0.0, 0.5]])
    assert _share_at(curve, 0.1) == (pytest.approx(60), 2)
    assert _share_at(curve, 0.15)[0] == pytest.approx(50)
    assert _share_at(curve, 0.19) == (pytest.approx(42), 3)
    assert _share_at(curve, 0.5) == (pytest.approx(0), 4)
    assert np.isnan(_share_at(curve, 0.05)[0])


def test_levels_are_relative_to_the_unpruned_error_and_never_below_it():
    assert _level(TABLE_1["sonar"], "high", 0.2, 0.0) == pytest.approx(0.2 * 0.2121 / 0.1539)
    assert _level(TABLE_1["heart_statlog"], "low", 0.2, 0.0) == 0.2
    assert _level(TABLE_1["heart_statlog"], "low", 0.2, 1.0) == pytest.approx(0.2 + 0.00756)


def test_two_classes_are_the_most_common_one_and_the_rest():
    X = np.zeros((4, 1), np.float32)
    task = Task((X, np.array([3, 1, 3, 2])), (X, np.array([3, 3, 1, 1])), (X, np.array([2, 2, 2, 3])), {})
    told = two_classes(task)
    assert told.train[1].tolist() == [True, False, True, False]
    assert told.validation[1].tolist() == [True, True, False, False]
    assert told.test[1].tolist() == [False, False, False, True]


def test_cuts_are_evenly_spaced_over_the_range_of_the_training_rows():
    cut = cutter(np.array([[0.0], [11.0]], np.float32), 10)
    assert cut(np.array([[-5.0], [0.5], [1.0], [1.5], [9.5], [99.0]], np.float32)).ravel().tolist() == [
        0,
        0,
        0,
        1,
        9,
        10,
    ]


def test_nodes_judged_by_all_rows_have_their_shares():
    X = np.arange(40, dtype=np.float32).reshape(-1, 1)
    y = (np.arange(40) >= 12).astype(int)
    forest = judged_by(BudgetedForestClassifier(3, random_state=0).fit(X, y).forest_, (X, y))
    roots = forest.tree_offset[:-1]
    assert forest.cover[roots].tolist() == [40, 40, 40]
    assert forest.value[roots].tolist() == [[0.3, 0.7]] * 3


def test_the_papers_fractional_point_is_a_vertex():
    assert _is_vertex()
