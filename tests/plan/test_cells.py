"""Routers: what is refused, and what files hold."""

from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import write_container
from scurry.plan import CellRule
from support.bounded_forests import all_inputs, bounded_forest


def rule(**changes) -> CellRule:
    parts = {
        "step": 2.0**-20,
        "feature": np.array([0, 0, 1, 0, 0], np.int32),
        "threshold": np.array([0.1, 0.0, 2.0, 0.0, 0.0]),
        "default_left": np.array([1, 0, 0, 0, 0], np.uint8),
        "missing": np.array([0, 0, 2, 0, 0], np.uint8),
        "left": np.array([1, -1, 3, -1, -1], np.int32),
        "right": np.array([2, -1, 4, -1, -1], np.int32),
    }
    return CellRule(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.array([1, -1, 3, -1], np.int32)}, "a router needs"),
        ({"left": np.array([1, -1, 1, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([0, -1, 3, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([1, -1, 99, -1, -1], np.int32)}, "child of one other"),
        ({"right": np.array([2, 4, -1, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([3, -1, 1, -1, -1], np.int32)}, "after their parent"),
        ({"threshold": np.array([0.1, 0.0, np.nan, 0.0, 0.0])}, "no threshold"),
        ({"missing": np.array([0, 0, 3, 0, 0], np.uint8)}, "unknown kind of missing"),
        ({"default_left": np.array([2, 0, 0, 0, 0], np.uint8)}, "0 or 1"),
        ({"step": 0.0}, "step"),
        ({"step": np.nan}, "step"),
    ],
)
def test_damaged_routers_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        rule(**changes)


def test_too_deep_routers_are_refused():
    n = 2 * 65 + 1
    left, right = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    left[0:-1:2], right[0:-1:2] = np.arange(1, n, 2), np.arange(2, n, 2)
    zeros = {"default_left": np.zeros(n, np.uint8), "missing": np.zeros(n, np.uint8)}
    with pytest.raises(InputError, match="64 deep"):
        rule(feature=np.zeros(n, np.int32), threshold=np.zeros(n), left=left, right=right, **zeros)


def predictor_of(forest: Forest, stop: CellRule) -> Predictor:
    return Predictor(forest, Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=stop))


def test_a_rule_must_fit_the_forest():
    forest = bounded_forest(0)
    with pytest.raises(InputError, match="beyond the forest's 3"):
        predictor_of(forest, rule(feature=np.array([7, 0, 1, 0, 0], np.int32)))
    with pytest.raises(InputError, match="too small"):
        predictor_of(forest, rule(step=1e-12))
    with pytest.raises(InputError, match="two classes"):
        predictor_of(bounded_forest(0, n_classes=3), rule())
    with pytest.raises(InputError, match="averages"):
        predictor_of(bounded_forest(0, aggregation="mean"), rule())
    order = np.arange(forest.n_trees, dtype=np.int32)
    unit = scurry.plan.ScoreMap(slope=np.ones((2, 7)), intercept=np.zeros((2, 7)))
    with pytest.raises(InputError, match="score map"):
        Predictor(forest, Plan(order=order, stop=rule(), score_map=unit))


def test_any_router_gives_the_models_labels():
    """Bounds are not stored but found, so that a file cannot lie about them."""
    for seed in range(8):
        forest = bounded_forest(seed, n_trees=12, n_leaves=8, categories=seed % 2 == 0)
        rows = all_inputs(forest)
        for stop in (rule(), rule(threshold=np.array([np.inf, 0, -np.inf, 0, 0])), rule(step=0.25)):
            np.testing.assert_array_equal(predictor_of(forest, stop).predict(rows), forest.predict(rows))


def test_files_round_trip(tmp_path):
    forest = bounded_forest(4, n_trees=12, n_leaves=8)
    predictor = predictor_of(forest, rule())
    predictor.save(tmp_path / "m.scurry")
    loaded = scurry.load(tmp_path / "m.scurry")
    rows = all_inputs(forest)
    np.testing.assert_array_equal(loaded.run(rows).trees, predictor.run(rows).trees)
    for name in CellRule.ARRAYS:
        np.testing.assert_array_equal(getattr(loaded.plan.stop, name), getattr(predictor.plan.stop, name))
    assert loaded.digest == predictor.digest


def test_damaged_files_are_refused(tmp_path):
    forest = bounded_forest(4)
    predictor = predictor_of(forest, rule())
    header, arrays = predictor.to_parts()
    for name, value in (
        ("stop_left", np.array([1, -1, 3, 99, -1], np.int32)),
        ("stop_left", np.array([1, -1, 3, -1, -1], np.int64)),
        ("stop_threshold", np.full(5, np.nan)),
        ("stop_feature", np.array([-5, 0, 1, 0, 0], np.int32)),
        ("stop_missing", np.zeros((5, 1), np.uint8)),
    ):
        write_container(tmp_path / "m.scurry", "predictor", header, arrays | {name: value})
        with pytest.raises((FormatError, InputError)):
            scurry.load(tmp_path / "m.scurry").predict(all_inputs(forest))
    lacking = {name: value for name, value in arrays.items() if name != "stop_right"}
    write_container(tmp_path / "m.scurry", "predictor", header, lacking)
    with pytest.raises(FormatError):
        scurry.load(tmp_path / "m.scurry")


def test_cells_are_counted():
    assert rule().n_cells == 3
    single = rule(**{name: getattr(rule(), name)[3:4] for name in CellRule.ARRAYS})
    assert single.n_cells == 1
    assert replace(single, step=0.5).step == 0.5
