"""What all score rules share: widening, stoppers, stored parts.

The grid on which sums are exact, decisions that do not depend on it, and preset orders by their definitions.
"""

import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import scurry.stopping
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import read_container, write_container
from scurry.stopping import MarginFit, fan, multiclass_qwyc, preset_order, qwyc
from scurry.stopping.scores.rule import is_positive, mistake_budget, round_to_grid, snap
from support.margin_oracle import normal_scores


def test_a_widened_rule_forgets_its_calibration_figures():
    rule = qwyc(normal_scores(), max_disagreement=0.01).widen(0.1)
    assert rule.mean_cost is None
    assert rule.n_mistakes is None
    with pytest.raises(InputError, match="amount must be a number of at least 0, got -1"):
        rule.widen(-1)
    with pytest.raises(InputError, match="ascending"):
        rule.widening_curve(normal_scores(), [1.0, 0.5])


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_stopper_equals_decide(alpha):
    scores = normal_scores()
    rule = qwyc(scores[:200], max_disagreement=alpha)
    decision, n_models_used = rule.decide(scores)
    for row, answer, n_used in zip(scores, decision, n_models_used, strict=True):
        stopper = rule.stopper()
        while not stopper.update(row[stopper.next_model]):
            assert stopper.decision is None
        assert (stopper.decision, stopper.n_seen) == (answer, n_used)
        assert stopper.next_model is None


def test_stopper_refuses_nonsense():
    stopper = qwyc(normal_scores(), max_disagreement=0).stopper()
    with pytest.raises(InputError, match="a score must be finite"):
        stopper.update(float("nan"))
    while not stopper.update(0.5):
        pass
    with pytest.raises(InputError, match=r"this row was decided after \d+ models; call rule.stopper"):
        stopper.update(0.5)


def test_parts_survive_a_file(tmp_path):
    rule = qwyc(normal_scores(), max_disagreement=0.01, costs=np.arange(12))
    header, parts = rule.to_parts()
    write_container(tmp_path / "rule.scurry", "rule", header, parts)
    container = read_container(tmp_path / "rule.scurry")
    again = MarginFit.from_parts(
        container.header, {name: container.array(name, dtype) for name, dtype in MarginFit.ARRAYS.items()}
    )
    assert repr(again) == repr(rule)
    new_rows = normal_scores(seed=9)
    for one, other in zip(again.widen(0.1).decide(new_rows), rule.widen(0.1).decide(new_rows), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("order", np.zeros(12, np.int64), "order must name each of the 12 models"),
        ("lower", np.zeros(3), "one entry per model but the last"),
        ("lower", np.full(11, np.inf), "every lower threshold must be less"),
        ("costs", np.full(12, np.nan), "costs must be finite"),
    ],
)
def test_parts_are_checked(name, value, message):
    header, parts = qwyc(normal_scores(), max_disagreement=0.01).to_parts()
    with pytest.raises(FormatError, match=message):
        MarginFit.from_parts(header, parts | {name: value})
    with pytest.raises(FormatError, match=name):
        MarginFit.from_parts(header, {other: array for other, array in parts.items() if other != name})
    with pytest.raises(FormatError, match="step"):
        MarginFit.from_parts({key: entry for key, entry in header.items() if key != "step"}, parts)


def test_arrays_are_read_only():
    rule = qwyc(normal_scores(), max_disagreement=0.01)
    with pytest.raises(ValueError, match="read-only"):
        rule.lower[0] = 0.0


def test_stored_parts_name_no_class():
    scores = normal_scores()
    classes = np.stack([scores, -scores, 0 * scores], axis=2)
    for rule in (
        qwyc(scores, max_disagreement=0.1),
        fan(scores, gamma=1),
        multiclass_qwyc(classes, max_disagreement=0.1),
    ):
        header, _ = rule.to_parts()
        assert not any(isinstance(entry, str) for entry in header.values())
        assert {"n_rows", "step", "mean_cost", "n_mistakes"} <= set(header)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ScoreRule", "ScoreFit"),
        ("MarginRule", "MarginFit"),
        ("LeadRule", "LeaderFit"),
        ("FanRule", "FanFit"),
        ("Promise", "VotePromise"),
    ],
)
def test_old_names_remain(old, new):
    assert getattr(scurry.stopping, old) is getattr(scurry.stopping, new)
    assert {old, new} <= set(scurry.stopping.__all__)


def test_widened_is_an_older_name_of_widen():
    rule = qwyc(normal_scores(), max_disagreement=0.01)
    np.testing.assert_array_equal(rule.widened(0.3).lower, rule.widen(0.3).lower)


GOLDEN = Path(__file__).parents[2] / "golden"

SCORES = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.1, -0.3, 1e-12, 1e6]),
).filter(lambda scores: np.abs(scores).max() > 1e-200)


@settings(deadline=None)
@given(SCORES, st.randoms(use_true_random=False))
def test_sums_on_the_grid_are_exact_in_any_order(scores, random):
    grid = round_to_grid(scores)
    for row, values in zip(scores, grid.values.T, strict=True):
        exact = sum(map(Fraction, values.tolist()))
        shuffled = values.tolist()
        random.shuffle(shuffled)
        running = 0.0
        for value in shuffled:
            running += value
        assert Fraction(running) == exact
        assert abs(Fraction(float(np.cumsum(row)[-1])) - exact) <= grid.rounding


@settings(deadline=None)
@given(SCORES, st.sampled_from([0.0, 0.1, -0.3]))
def test_decisions_are_exact(scores, threshold):
    grid = round_to_grid(scores)
    positive = is_positive(scores, grid.values.sum(axis=0), grid.unit, threshold)
    assert positive.tolist() == [sum(map(Fraction, row)) >= Fraction(threshold) for row in scores.tolist()]


def test_integers_are_left_alone():
    scores = np.array([[2.0**40, -3.0], [1.0, 0.5]])
    grid = round_to_grid(scores)
    np.testing.assert_array_equal(grid.values, scores.T)
    assert grid.rounding == 0.0
    assert round_to_grid(np.zeros((2, 3))).unit == 1.0


def test_snap_takes_halves_to_even():
    assert snap(np.array([0.5, 1.5, -0.5, 2.4]), 1.0).tolist() == [0.0, 2.0, 0.0, 2.0]


def test_budget_survives_decimal_fractions():
    assert mistake_budget(0.29, 100) == 29  # 0.29 * 100 is just below 29 in float64
    assert mistake_budget(0.0, 100) == 0


def squared_error(sums, target):
    return sum((total - t) ** 2 for total, t in zip(sums, target, strict=True))


def greedy(columns, target):
    """From the definition, on integers: the lowest index of the least error of the running sum."""
    order, sums = [], [0] * len(target)
    while len(order) < len(columns):
        candidates = [
            (squared_error([a + b for a, b in zip(sums, column, strict=True)], target), index)
            for index, column in enumerate(columns)
            if index not in order
        ]
        chosen = min(candidates)[1]
        order.append(chosen)
        sums = [a + b for a, b in zip(sums, columns[chosen], strict=True)]
    return order


@settings(max_examples=100, deadline=None)
@given(arrays(np.int64, st.tuples(st.integers(2, 8), st.integers(1, 5)), elements=st.integers(-3, 3)), st.data())
def test_orders_by_error_equal_their_definitions(scores, data):
    y = data.draw(st.lists(st.sampled_from(["no", "yes"]), min_size=len(scores), max_size=len(scores)))
    if len(set(y)) < 2:
        y = None
    target = [1 if label == "yes" else -1 for label in y] if y else [1 if total >= 0 else -1 for total in scores.sum(1)]
    columns = scores.T.tolist()
    alone = sorted(range(len(columns)), key=lambda index: (squared_error(columns[index], target), index))
    assert preset_order("individual-mse", scores, y=y).tolist() == alone
    assert preset_order("greedy-mse", scores, y=y).tolist() == greedy(columns, target)


@pytest.mark.parametrize("name", ["a1_paper", "r1", "r4"])
def test_golden_preset_orders(name):
    case = json.loads((GOLDEN / f"qwyc_{name}.json").read_text())
    scores, beta = np.transpose(case["scores_T_by_N"]), case["beta"]
    for preset in ("individual-mse", "greedy-mse"):
        expected = case[f"order_{preset.replace('-', '_')}"]
        assert preset_order(preset, scores, decision_threshold=beta).tolist() == expected


def test_natural_and_random_order():
    scores = np.ones((2, 50))
    assert preset_order("natural", scores).tolist() == list(range(50))
    drawn = preset_order("random", scores, random_state=7)
    assert sorted(drawn.tolist()) == list(range(50)) != drawn.tolist()
    assert drawn.tolist() == preset_order("random", scores, random_state=7).tolist()


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
@pytest.mark.parametrize("fit", [qwyc, fan, partial(preset_order, "greedy-mse")])
def test_missing_labels_are_no_class(fit, missing):
    scores = np.random.default_rng(0).normal(size=(50, 4))
    options = {} if isinstance(fit, partial) else {"max_disagreement": 0.1, "order": "greedy-mse"}
    y = [1.0 if score > 0 else missing for score in scores.sum(axis=1)]
    with pytest.raises(InputError, match=r"y has [0-9]+ missing labels, the first in row .*; leave those rows out"):
        fit(scores, y=y, **options)
