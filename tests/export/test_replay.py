import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scurry
from scurry import Forest, Predictor
from scurry.errors import InputError
from scurry.export import LAYOUTS, replay
from scurry.export.lowered import lower
from scurry.forest import reference
from support.anytime_oracle import anytime_of, depth_steps, labels_of, nodes_after, scores_of
from support.strategies import adversarial_rows, forests


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forest=forests(), seed=st.integers(0, 99), layout=st.sampled_from(list(LAYOUTS)))
def test_float_thresholds_and_steps_as_an_independent_evaluator_has_them(forest, seed, layout):
    """The replay, which the C is compared with, is itself compared: nodes from the leaves up, values as floats."""
    if not forest.is_classifier or forest.max_depth == 0:
        return
    steps = np.random.default_rng(seed).permutation(depth_steps(forest)).astype(np.int32)
    pred = anytime_of(forest, steps)
    with np.errstate(over="ignore"):
        rows = adversarial_rows(forest, np.zeros((1, forest.n_features)), 40, seed).astype(np.float32)
    if layout == "int16-node8" and forest.n_classes > 2 and forest.aggregation != "vote":
        with pytest.raises(InputError, match="one number"):
            lower(pred, LAYOUTS[layout])
        return
    lowered = lower(pred, LAYOUTS[layout])
    if layout != "float32":
        rows = rows[settled(forest, rows)]
    leaves = reference.apply(forest, rows)
    for n_steps, (sums, _) in enumerate(replay.walk_steps(lowered, rows)):
        scores = scores_of(forest, nodes_after(forest, steps, n_steps, leaves))
        two = np.sort(scores, axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > 2 * lowered.values.unit
        got = forest.classes[lowered.values.labels(sums)]
        np.testing.assert_array_equal(got[clear], labels_of(forest, scores)[clear])


def settled(forest: Forest, rows: np.ndarray) -> np.ndarray:
    """Rows whose every value is either a threshold of its feature or well away from all, so that 16 bits tell them."""
    far = np.ones(len(rows), bool)
    for node in np.flatnonzero(forest.left >= 0):
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(rows[:, forest.feature[node]].astype(np.float64) - forest.threshold[node])
        far &= ~((distance > 0) & (distance < 1e-3))
    return far


def test_a_whole_forest_answers_as_the_source(cancer):
    model, X, _ = cancer
    pred = Predictor.full(scurry.from_model(model))
    codes, _, trees = replay.run_trees(lower(pred, LAYOUTS["float32"]), X.astype(np.float32))
    np.testing.assert_array_equal(codes, model.predict(X))
    assert set(trees) == {8}


def test_a_row_at_a_leaf_stays(anyt, cancer):
    lowered = lower(anyt, LAYOUTS["int16-uint16"])
    x = lowered.columns.encode(cancer[1][:5])
    leaves = np.full(5, lowered.n_nodes - 1)
    np.testing.assert_array_equal(replay.step(lowered, leaves, x), leaves)


def test_agreement_after_every_step(anyt, cancer):
    X = cancer[1].astype(np.float32)
    shares = replay.measure_agreement(anyt, lower(anyt, LAYOUTS["float32"]), X)
    np.testing.assert_array_equal(shares, np.ones(len(anyt.plan.order) + 1))
    whole = Predictor.full(anyt.forest)
    assert replay.measure_agreement(whole, lower(whole, LAYOUTS["float32"]), X).tolist() == [1.0]
