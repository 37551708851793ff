"""The joint search against an oracle that tries every pair of thresholds, and what a fitted rule promises."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scurry.errors import InputError
from scurry.stopping import qwyc
from support.margin_oracle import normal_scores, oracle

GOLDEN = Path(__file__).parents[2] / "golden"
INF = float("inf")
VARIANTS = {
    "qwyc_joint": {},
    "qwyc_negfirst": {"sides": "negative-first"},
    "qwyc_filter": {"negative_only": True},
    "natural_alg2_joint": {"order": "natural"},
    "natural_alg2_negfirst": {"order": "natural", "sides": "negative-first"},
}


@st.composite
def problems(draw):
    n_rows, n_models = draw(st.integers(2, 10)), draw(st.integers(1, 4))
    scores = draw(arrays(np.int64, (n_rows, n_models), elements=st.integers(-3, 3))).tolist()
    beta = draw(st.integers(-2, 2))
    assume(len({sum(row) >= beta for row in scores}) == 2)
    return {
        "scores": scores,
        "beta": beta,
        "budget": draw(st.integers(0, n_rows - 1)),
        "costs": draw(st.lists(st.integers(1, 3), min_size=n_models, max_size=n_models)),
        "order": draw(st.none() | st.permutations(range(n_models))),
        "spending": draw(st.sampled_from(["proportional", "upfront"])),
        "sides": draw(st.sampled_from(["joint", "negative-first", "negative-only"])),
    }


def fit(problem):
    negative_only = problem["sides"] == "negative-only"
    return qwyc(
        problem["scores"],
        max_disagreement=problem["budget"] / len(problem["scores"]),
        decision_threshold=problem["beta"],
        costs=problem["costs"],
        order=problem["order"],
        spending=problem["spending"],
        negative_only=negative_only,
        **({} if negative_only else {"sides": problem["sides"]}),
    )


@settings(max_examples=200, deadline=None)
@given(problems())
def test_equals_the_oracle(problem):
    rule = fit(problem)
    order, lower, upper, total, mistakes = oracle(**problem)
    assert rule.order.tolist() == order
    assert rule.lower.tolist() == lower
    assert rule.upper.tolist() == upper
    assert rule.mean_cost * len(problem["scores"]) == pytest.approx(total, abs=1e-9)
    assert rule.n_mistakes == mistakes


@pytest.mark.parametrize("name", ["a1_paper", "r1", "r4"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_golden(name, variant):
    case = json.loads((GOLDEN / f"qwyc_{name}.json").read_text())
    expected = case[variant]
    scores = np.transpose(case["scores_T_by_N"])
    rule = qwyc(
        scores,
        max_disagreement=case["budget"] / case["N"],
        costs=case["costs"],
        decision_threshold=case["beta"],
        spending="upfront",
        **VARIANTS[variant],
    )
    assert rule.order.tolist() == expected["order"]
    assert rule.lower.tolist() == [-INF if pair[0] is None else pair[0] for pair in expected["thresholds"]]
    assert rule.upper.tolist() == [INF if pair[1] is None else pair[1] for pair in expected["thresholds"]]
    assert rule.mean_cost == expected["total_cost"] / case["N"]
    assert rule.n_mistakes == expected["mistakes"]
    decision, n_models_used = rule.decide(scores)
    assert decision.tolist() == [bool(answer) for answer in expected["decision"]]
    assert n_models_used.tolist() == expected["stop"]


# --- what a fitted rule promises on its calibration rows ----------------------------------------------------------


@st.composite
def real_scores(draw):
    """Scores whose float sums depend on their order, with repeated rows and zeros."""
    n_rows, n_models = draw(st.integers(2, 10)), draw(st.integers(2, 4))
    score = st.sampled_from([0.0, 0.1, 0.2, -0.3, 1e-9, -1e-40]) | st.integers(-999, 999).map(lambda i: i / 700)
    scores = draw(arrays(np.float64, (n_rows, n_models), elements=score))
    full = exact_decisions(scores)
    assume(full.any() and not full.all())
    return scores


def exact_decisions(scores):
    return np.array([sum(map(Fraction, row.tolist())) >= 0 for row in scores])


@settings(max_examples=100, deadline=None)
@given(real_scores(), st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from(["proportional", "upfront"]))
def test_calibration_figures_are_exact(scores, alpha, spending):
    rule = qwyc(scores, max_disagreement=alpha, spending=spending)
    decision, n_models_used = rule.decide(scores)
    full = exact_decisions(scores)
    np.testing.assert_array_equal(rule.widen(1e9).decide(scores).decision, full)
    assert rule.n_mistakes == (decision != full).sum() <= alpha * len(scores) + 1e-9
    assert rule.mean_cost == pytest.approx(n_models_used.mean(), abs=1e-12)


@pytest.mark.parametrize("order", [None, "natural"])
@pytest.mark.parametrize("seed", range(5))
def test_no_mistakes_allowed_means_none_made_by_plain_float_sums_either(order, seed):
    scores = normal_scores(seed=seed)
    rule = qwyc(scores, max_disagreement=0, order=order)
    sums = np.cumsum(scores[:, rule.order], axis=1)
    leaves = (sums[:, :-1] <= rule.lower) | (sums[:, :-1] >= rule.upper)
    stop = np.where(leaves.any(axis=1), leaves.argmax(axis=1), scores.shape[1] - 1)
    answer = sums[np.arange(len(scores)), stop] >= np.append(rule.upper, 0.0)[stop]
    np.testing.assert_array_equal(answer, scores.sum(axis=1) >= 0)
    np.testing.assert_array_equal(rule.decide(scores).decision, answer)
    np.testing.assert_array_equal(rule.decide(scores).n_models_used, stop + 1)


@pytest.mark.parametrize("spending", ["proportional", "upfront"])
@pytest.mark.parametrize("order", [None, "random"])
def test_no_row_can_stop_earlier_within_the_budget(spending, order):
    scores = np.random.default_rng(3).integers(-4, 5, (200, 8))
    full = scores.sum(axis=1) >= 0
    budget = 10
    rule = qwyc(scores, max_disagreement=budget / 200, spending=spending, order=order, random_state=0)
    active, sums, mistakes = np.ones(200, bool), np.zeros(200), 0
    for model, lower, upper in zip(rule.order, rule.lower, rule.upper, strict=False):
        allowed = (budget if spending == "upfront" else budget * (~active).sum() // 200) - mistakes
        sums = sums + scores[:, model]
        stays = active & (sums > lower) & (sums < upper)
        made = (active & (sums <= lower) & full).sum() + (active & (sums >= upper) & ~full).sum()
        for value in np.unique(sums[stays]):
            assert made + (stays & (sums <= value) & full).sum() > allowed
            assert made + (stays & (sums >= value) & ~full).sum() > allowed
        active, mistakes = stays, mistakes + made
    assert mistakes == rule.n_mistakes


def test_filter_and_score_never_stops_a_row_it_calls_positive():
    scores = normal_scores()
    rule = qwyc(scores, max_disagreement=0.02, negative_only=True)
    decision, n_models_used = rule.decide(scores)
    assert np.isposinf(rule.upper).all()
    assert (n_models_used[decision] == scores.shape[1]).all()
    assert n_models_used[~decision].mean() < scores.shape[1]


def test_expensive_models_wait():
    scores = np.repeat(normal_scores(n_models=1), 4, axis=1)
    assert qwyc(scores, max_disagreement=0).order[0] == 0
    assert qwyc(scores, max_disagreement=0, costs=[2, 3, 1, 2]).order[0] == 2
    constant = qwyc(scores, max_disagreement=0, costs=2.5)
    assert constant.mean_cost == pytest.approx(2.5 * qwyc(scores, max_disagreement=0).mean_cost)


def test_given_decisions_replace_the_sum():
    scores = np.array([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-2.0, 1.0]])
    decisions = np.array([True, True, False, True])
    rule = qwyc(scores, max_disagreement=0, decisions=decisions)
    curve = rule.widening_curve(scores, [0.0], decisions=decisions)
    assert rule.n_mistakes == 0
    assert curve.n_mistakes[0] == (decisions != rule.decide(scores).decision).sum()


# --- widening, stoppers, files ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(problems(), st.lists(st.floats(0, 3), min_size=1, max_size=6))
def test_widening_is_nested_and_the_curve_equals_each_rule(problem, amounts):
    rule, scores, amounts = fit(problem), problem["scores"], sorted(amounts)
    curve = rule.widening_curve(scores, amounts)
    full = np.sum(scores, axis=1) >= problem["beta"]
    costs = np.cumsum(np.array(problem["costs"])[rule.order])
    previous = rule.decide(scores).n_models_used
    for amount, n_mistakes, mean_cost in zip(*curve, strict=True):
        decision, n_models_used = rule.widen(amount).decide(scores)
        assert (n_models_used >= previous).all()
        assert n_mistakes == (decision != full).sum()
        assert mean_cost == pytest.approx(costs[n_models_used - 1].mean())
        previous = n_models_used


# --- progress and bad input ---------------------------------------------------------------------------------------


def test_progress_is_called_after_every_position():
    calls = []
    qwyc(normal_scores(), max_disagreement=0.01, progress=lambda *call: calls.append(call))
    assert calls == [(done, 12) for done in range(1, 13)]


def test_an_exception_in_progress_ends_the_search():
    class Enough(Exception):
        pass

    def progress(n_done, n_models):
        if n_done == 3:
            raise Enough

    with pytest.raises(Enough):
        qwyc(normal_scores(), max_disagreement=0.01, progress=progress)


def with_nan():
    scores = normal_scores()
    scores[3, 7] = np.nan
    return scores


@pytest.mark.parametrize(
    ("scores", "arguments", "message"),
    [
        (np.empty((0, 3)), {}, "scores has no rows"),
        (np.empty((3, 0)), {}, "at least one model is needed"),
        (np.ones(5), {}, r"scores must have shape \(n_rows, n_models\), got \(5,\)"),
        (np.array([["a"]]), {}, "scores must be numbers"),
        (with_nan(), {}, "scores must be finite, but row 3 of model 7 is nan"),
        (np.ones((5, 2)), {}, "answers positive on all 5 calibration rows"),
        (-np.ones((5, 2)), {}, r"answers negative on all 5 .* check decision_threshold \(0\)"),
        (None, {"max_disagreement": 5}, r"max_disagreement must be in \[0, 1\), got 5. Did you mean 0.05 \(5 %\)\?"),
        (None, {"max_disagreement": 1}, r"Did you mean 0.01 \(1 %\)\?"),
        (None, {"max_disagreement": -0.1}, r"max_disagreement must be in \[0, 1\), got -0.1\.$"),
        (None, {"max_disagreement": float("nan")}, "max_disagreement must be in"),
        (None, {"order": [0, 1]}, "order must name each of the 12 models 0 to 11 once"),
        (None, {"order": [0] * 12}, "order must name each of the 12 models"),
        (None, {"order": np.linspace(0, 11, 12)}, "order must name each of the 12 models"),
        (None, {"order": "best"}, 'order must be one of "natural", "random", "individual-mse", "greedy-mse"'),
        (None, {"costs": [1, 2]}, r"costs must be one number or one per model \(12\), got shape \(2,\)"),
        (None, {"costs": -1}, "costs must be finite and not negative"),
        (None, {"decision_threshold": float("nan")}, "decision_threshold must be finite"),
        (None, {"sides": "both"}, 'sides must be one of "joint", "negative-first", got \'both\''),
        (None, {"spending": "all"}, 'spending must be one of "proportional", "upfront", got \'all\''),
        (None, {"decisions": [True]}, r"decisions must be bool, one per row \(300\)"),
        (None, {"order": "greedy-mse", "y": [1, 0]}, r"y must have one label per row \(300\), got shape \(2,\)"),
        (None, {"order": "greedy-mse", "y": np.arange(300)}, "y must have two distinct labels, got 300"),
        (np.sign(normal_scores()) * 1e308, {}, "beyond what exact sums can represent"),
        (normal_scores() * 1e-300, {}, "beyond what exact sums can represent"),
    ],
)
def test_bad_input(scores, arguments, message):
    with pytest.raises(InputError, match=message):
        qwyc(normal_scores() if scores is None else scores, **({"max_disagreement": 0.01} | arguments))


def test_rows_with_other_models_are_refused():
    rule = qwyc(normal_scores(), max_disagreement=0.01)
    with pytest.raises(InputError, match="scores has 3 models, but the rule has 12"):
        rule.decide(np.ones((2, 3)))
    assert len(rule.decide(np.empty((0, 12))).decision) == 0
