"""Dynamic scheduling against an oracle with one dictionary per position, and the exact search for gamma."""

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scurry.errors import FormatError, InfeasibleError, InputError
from scurry.stopping import FanFit, fan

GOLDEN = Path(__file__).parents[2] / "golden"


def normal_scores(n_rows=300, n_models=10, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n_rows, 1)) + rng.normal(size=(n_rows, n_models))) * 0.3


def oracle(calibration, new, *, order, gamma, width, beta=0.0, ddof=0, min_rows=1):
    """Decision and models used for each new row, from the definition."""
    tables = []
    for n_models in range(1, len(order)):
        table = defaultdict(list)
        for row in calibration:
            running = sum(row[model] for model in order[:n_models])
            table[math.floor(running / width)].append(running - sum(row))
        tables.append({key: found for key, found in table.items() if len(found) >= min_rows})
    answers = []
    for row in new:
        answer = sum(row) >= beta, len(order)
        for n_models, table in enumerate(tables, start=1):
            running = sum(row[model] for model in order[:n_models])
            differences = table.get(math.floor(running / width))
            if differences is None:
                break
            mean = sum(differences) / len(differences)
            spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / max(len(differences) - ddof, 1))
            if running > beta + mean + gamma * spread or running < beta + mean - gamma * spread:
                answer = running > beta + mean, n_models
                break
        answers.append(answer)
    return answers


@pytest.mark.parametrize("name", ["a1_paper", "r1", "r4"])
@pytest.mark.parametrize("gamma", [1, 2])
def test_golden(name, gamma):
    case = json.loads((GOLDEN / f"qwyc_{name}.json").read_text())
    expected = case[f"fan_lambda2_gamma{gamma}"]
    scores = np.transpose(case["scores_T_by_N"])
    rule = fan(scores, gamma=gamma, bin_width=2, decision_threshold=case["beta"])
    decision, n_models_used = rule.decide(scores)
    assert rule.order.tolist() == expected["order"]
    assert n_models_used.tolist() == expected["stop"]
    assert decision.tolist() == [bool(answer) for answer in expected["decision"]]


@st.composite
def problems(draw):
    """Halves of integers: exact in floats, with ties, zeros and rows outside every calibration bin."""
    n_models = draw(st.integers(1, 4))
    elements = st.integers(-6, 6).map(lambda i: i / 2)
    calibration = draw(arrays(np.float64, (draw(st.integers(2, 12)), n_models), elements=elements))
    beta = draw(st.sampled_from([0.0, 0.5, -1.0]))
    assume(len(set((calibration.sum(axis=1) >= beta).tolist())) == 2)
    new = draw(arrays(np.float64, (5, n_models), elements=st.integers(-20, 20).map(lambda i: i / 2)))
    return calibration, np.vstack([calibration, new]), beta


@settings(max_examples=150, deadline=None)
@given(
    problems(),
    st.sampled_from([0.0, 0.3, 1.1, 2.7]),
    st.sampled_from([0.5, 2.0, 3.0]),
    st.sampled_from([0, 1]),
    st.integers(1, 3),
)
def test_equals_the_oracle(problem, gamma, width, ddof, min_rows):
    calibration, rows, beta = problem
    rule = fan(calibration, gamma=gamma, bin_width=width, decision_threshold=beta, ddof=ddof, min_rows=min_rows)
    options = {"gamma": gamma, "width": width, "beta": beta, "ddof": ddof, "min_rows": min_rows}
    expected = oracle(calibration.tolist(), rows.tolist(), order=rule.order.tolist(), **options)
    decision, n_models_used = rule.decide(rows)
    assert list(zip(decision.tolist(), n_models_used.tolist(), strict=True)) == expected
    full = calibration.sum(axis=1) >= beta
    assert rule.n_mistakes == sum(answer != right for (answer, _), right in zip(expected, full, strict=False))
    assert rule.mean_cost == pytest.approx(np.mean([used for _, used in expected[: len(calibration)]]))


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(0, 4), st.sampled_from([0.5, 2.0, 3.0]))
def test_gamma_is_the_smallest_within_the_budget(problem, budget, width):
    calibration, _, beta = problem
    assume(budget < len(calibration))
    options = {"bin_width": width, "decision_threshold": beta}
    rule = fan(calibration, max_disagreement=budget / len(calibration), **options)
    assert rule.n_mistakes <= budget
    ratios, sums = {0.0}, np.zeros(len(calibration))
    for position, model in enumerate(rule.order[:-1]):
        sums += calibration[:, model]
        ratios.update(rule.ratios(position, sums)[0].tolist())
    critical = sorted(ratio for ratio in ratios if ratio < rule.gamma)
    between = [(low + high) / 2 for low, high in zip(critical, [*critical[1:], rule.gamma], strict=False)]
    for gamma in critical + between:
        assert fan(calibration, gamma=gamma, **options).n_mistakes > budget


def test_a_sum_outside_every_bin_is_evaluated_in_full():
    calibration = np.array([[2.0, 1.0, 1.0], [3.0, 1.0, 1.0], [-2.0, -1.0, -1.0], [-3.0, -1.0, -1.0]])
    rule = fan(calibration, gamma=1.0, bin_width=1.0, order="natural")
    assert rule.decide(calibration).n_models_used.tolist() == [1, 1, 1, 1]
    # The first score is in no bin; the second sum is in one, and must not stop the row.
    decision, n_models_used = rule.decide([[50.0, -47.0, -9.0]])
    assert (decision.tolist(), n_models_used.tolist()) == ([False], [3])


def test_widening_is_nested_and_the_curve_equals_each_rule():
    scores, new = normal_scores(), normal_scores(seed=1)
    rule = fan(scores, max_disagreement=0.05, costs=np.arange(1, 11))
    amounts = [0.0, 0.1, 0.5, 1.0, 3.0]
    curve = rule.widening_curve(new, amounts)
    costs = np.cumsum(rule.costs[rule.order])
    previous = np.zeros(len(new))
    for amount, n_mistakes, mean_cost in zip(*curve, strict=True):
        decision, n_models_used = rule.widen(amount).decide(new)
        assert (n_models_used >= previous).all()
        assert n_mistakes == (decision != (new.sum(axis=1) >= 0)).sum()
        assert mean_cost == pytest.approx(costs[n_models_used - 1].mean())
        previous = n_models_used


def test_stopper_equals_decide_in_unseen_bins_too():
    rule = fan(normal_scores(), max_disagreement=0.05)
    rows = normal_scores(60, seed=2) * np.linspace(0.5, 4, 60)[:, np.newaxis]
    decision, n_models_used = rule.decide(rows)
    for row, answer, n_used in zip(rows, decision, n_models_used, strict=True):
        stopper = rule.stopper()
        while not stopper.update(row[stopper.next_model]):
            pass
        assert (stopper.decision, stopper.n_seen) == (answer, n_used)


def test_labels_change_the_order():
    scores = normal_scores()
    labels = np.where(scores[:, 4] > 0, "yes", "no")
    assert fan(scores, gamma=1.0, y=labels).order.tolist() != fan(scores, gamma=1.0).order.tolist()


def test_parts_survive_json():
    rule = fan(normal_scores(), max_disagreement=0.05)
    header, parts = rule.to_parts()
    again = FanFit.from_parts(json.loads(json.dumps(header, allow_nan=False)), parts)
    assert repr(again) == repr(rule)
    rows = normal_scores(seed=5)
    np.testing.assert_array_equal(again.decide(rows).n_models_used, rule.decide(rows).n_models_used)
    for name, message in [("bin_offset", "bin_offset must lead from 0"), ("mean", "one entry per bin")]:
        with pytest.raises(FormatError, match=message):
            FanFit.from_parts(header, parts | {name: parts[name][:-1]})


def test_infeasible_says_what_is_possible():
    scores = np.array([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
    decisions = np.array([True, False, False, False])
    with pytest.raises(
        InfeasibleError, match=r"no gamma keeps the disagreement at or below 0; 0.25 is possible"
    ) as caught:
        fan(scores, max_disagreement=0, decisions=decisions)
    assert caught.value.achievable == 0.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give max_disagreement .* or gamma itself, not both or neither"),
        ({"gamma": 1.0, "max_disagreement": 0.1}, "not both or neither"),
        ({"gamma": -1.0}, "gamma must be a number of at least 0, got -1"),
        ({"gamma": float("nan")}, "gamma must be a number of at least 0, got nan"),
        ({"gamma": 1.0, "bin_width": 0.0}, "bin_width must be a number above 0, got 0"),
        ({"gamma": 1.0, "ddof": 2}, "ddof must be 0 or 1"),
        ({"gamma": 1.0, "min_rows": 0}, "min_rows must be a whole number of at least 1, got 0"),
        ({"max_disagreement": 2}, r"Did you mean 0.02 \(2 %\)\?"),
        ({"gamma": 1.0, "order": [1, 2]}, "order must name each of the 10 models"),
        ({"gamma": 1.0, "decision_threshold": 100.0}, "answers negative on all 300"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        fan(normal_scores(), **arguments)
