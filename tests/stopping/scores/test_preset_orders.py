"""Preset orders against their definitions."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scurry.stopping import preset_order

GOLDEN = Path(__file__).parents[2] / "golden"


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
def test_golden(name):
    case = json.loads((GOLDEN / f"qwyc_{name}.json").read_text())
    scores, beta = np.transpose(case["scores_T_by_N"]), case["beta"]
    for preset in ("individual-mse", "greedy-mse"):
        expected = case[f"order_{preset.replace('-', '_')}"]
        assert preset_order(preset, scores, decision_threshold=beta).tolist() == expected


def test_natural_and_random():
    scores = np.ones((2, 50))
    assert preset_order("natural", scores).tolist() == list(range(50))
    drawn = preset_order("random", scores, random_state=7)
    assert sorted(drawn.tolist()) == list(range(50)) != drawn.tolist()
    assert drawn.tolist() == preset_order("random", scores, random_state=7).tolist()
