"""Leads against an oracle that tries every threshold, and what the rule shares with the two-class one."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scurry.errors import FormatError, InputError
from scurry.stopping import LeaderFit, multiclass_qwyc
from scurry.stopping.scores import multiclass

INF = float("inf")


def normal_scores(n_rows=300, n_models=8, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 1, n_classes)) + rng.normal(size=(n_rows, n_models, n_classes)) * 2


def leader(sums):
    return sums.index(max(sums))


def oracle(scores, base, budget, order, upfront):
    full = [leader([b + sum(column) for b, column in zip(base, zip(*row, strict=True), strict=True)]) for row in scores]
    active, sums = list(range(len(scores))), [list(base) for _ in scores]
    leads, mistakes, used = [], 0, [len(order)] * len(scores)
    for position, model in enumerate(order[:-1]):
        allowed = (budget if upfront else budget * (len(scores) - len(active)) // len(scores)) - mistakes
        for i in active:
            sums[i] = [total + score for total, score in zip(sums[i], scores[i][model], strict=True)]
        rows = {i: (sorted(sums[i])[-1] - sorted(sums[i])[-2], leader(sums[i]) != full[i]) for i in active}
        fits = [
            t for t, _ in rows.values() if sum(wrong for lead, wrong in rows.values() if lead >= t) <= max(0, allowed)
        ]
        leads.append(min(fits, default=INF))
        leaving = [i for i in active if rows[i][0] >= leads[-1]]
        mistakes += sum(rows[i][1] for i in leaving)
        for i in leaving:
            used[i] = position + 1
        active = [i for i in active if i not in leaving]
    return leads, mistakes, used


@st.composite
def problems(draw):
    n_rows, n_models, n_classes = draw(st.integers(2, 10)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    scores = draw(arrays(np.int64, (n_rows, n_models, n_classes), elements=st.integers(-2, 2)))
    base = draw(arrays(np.int64, n_classes, elements=st.integers(-1, 1)))
    assume(len(np.unique((base + scores.sum(axis=1)).argmax(axis=1))) > 1)
    return scores, base, draw(st.integers(0, n_rows - 1)), draw(st.permutations(range(n_models))), draw(st.booleans())


@settings(max_examples=150, deadline=None)
@given(problems())
def test_equals_the_oracle(problem):
    scores, base, budget, order, upfront = problem
    rule = multiclass_qwyc(
        scores,
        max_disagreement=budget / len(scores),
        base_score=base,
        order=order,
        spending="upfront" if upfront else "proportional",
    )
    leads, mistakes, used = oracle(scores.tolist(), base.tolist(), budget, order, upfront)
    assert rule.lead.tolist() == leads
    assert rule.n_mistakes == mistakes <= budget
    assert rule.decide(scores).n_models_used.tolist() == used
    assert rule.mean_cost == pytest.approx(np.mean(used))


def greedy_order(scores, base, budget, costs, upfront):
    """Algorithm 1 in words: the model with the least cost per row that leaves; the oracle above tells who leaves."""
    order = []
    while len(order) < len(costs) - 1:
        best = None
        for model in (m for m in range(len(costs)) if m not in order):
            rest = [m for m in range(len(costs)) if m not in (*order, model)]
            _, _, used = oracle(scores, base, budget, [*order, model, *rest], upfront)
            n_leaving = used.count(len(order) + 1)
            price = Fraction(costs[model], n_leaving) if n_leaving else INF
            if best is None or price < best[0]:
                best = price, model
        order.append(best[1])
        rest = [m for m in range(len(costs)) if m not in order]
        if max(oracle(scores, base, budget, [*order, *rest], upfront)[2]) <= len(order):
            break
    return order


@settings(max_examples=100, deadline=None)
@given(problems(), st.data())
def test_the_joint_order_is_greedy(problem, data):
    scores, base, budget, _, upfront = problem
    costs = data.draw(st.lists(st.integers(1, 3), min_size=scores.shape[1], max_size=scores.shape[1]))
    spending = "upfront" if upfront else "proportional"
    shared = {"max_disagreement": budget / len(scores), "base_score": base, "spending": spending, "costs": costs}
    rule = multiclass_qwyc(scores, order=None, **shared)
    expected = greedy_order(scores.tolist(), base.tolist(), budget, costs, upfront)
    assert rule.order[: len(expected)].tolist() == expected
    given_order = multiclass_qwyc(scores, order=rule.order, **shared)
    np.testing.assert_array_equal(rule.lead, given_order.lead)
    assert rule.mean_cost == given_order.mean_cost


def test_a_search_on_some_rows_still_counts_mistakes_on_all(monkeypatch):
    monkeypatch.setattr(multiclass, "SEARCH_ROWS", 50)
    scores = normal_scores(400)
    scores[:, 3] *= 50  # says most of the sum, and comes first
    rule = multiclass_qwyc(scores, max_disagreement=0.02, order=None)
    assert rule.order[0] == 3
    assert rule.n_mistakes <= 8
    assert rule.mean_cost < multiclass_qwyc(scores, max_disagreement=0.02).mean_cost


def test_no_mistakes_allowed_means_none_made():
    scores = normal_scores()
    rule = multiclass_qwyc(scores, max_disagreement=0)
    decision, n_models_used = rule.decide(scores)
    np.testing.assert_array_equal(decision, scores.sum(axis=1).argmax(axis=1))
    assert n_models_used.mean() < scores.shape[1]


def test_two_classes_watch_the_size_of_the_margin():
    margins = normal_scores(n_classes=1)[:, :, 0]
    scores = np.stack([np.zeros_like(margins), margins], axis=2)
    rule = multiclass_qwyc(scores, max_disagreement=0.03)
    sums = np.cumsum(margins, axis=1)
    leaves = np.abs(sums[:, :-1]) >= rule.lead
    stop = np.where(leaves.any(axis=1), leaves.argmax(axis=1), margins.shape[1] - 1)
    np.testing.assert_array_equal(rule.decide(scores).n_models_used, stop + 1)
    np.testing.assert_array_equal(rule.decide(scores).decision, sums[np.arange(len(stop)), stop] > 0)


def test_sums_too_close_for_the_grid_are_decided_exactly():
    scores = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 4e-16]], [[9.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    assert multiclass_qwyc(scores, max_disagreement=0).decide(scores).decision.tolist() == [1, 0]


def test_widening_is_nested_and_the_curve_equals_each_rule():
    rule, new = multiclass_qwyc(normal_scores(), max_disagreement=0.05), normal_scores(seed=1)
    previous = np.zeros(len(new))
    for amount, n_mistakes, mean_cost in zip(*rule.widening_curve(new, [0.0, 0.2, 0.4, 2.0]), strict=True):
        decision, n_models_used = rule.widen(amount).decide(new)
        assert (n_models_used >= previous).all()
        assert n_mistakes == (decision != new.sum(axis=1).argmax(axis=1)).sum()
        assert mean_cost == pytest.approx(n_models_used.mean())
        previous = n_models_used


def test_stopper_equals_decide():
    base = np.array([0.5, 0.0, -0.25, 1 / 3])
    rule, rows = multiclass_qwyc(normal_scores(), max_disagreement=0.05, base_score=base), normal_scores(40, seed=3)
    decision, n_models_used = rule.decide(rows)
    for row, answer, n_used in zip(rows, decision, n_models_used, strict=True):
        stopper = rule.stopper()
        while not stopper.update(row[stopper.next_model]):
            pass
        assert (stopper.decision, stopper.n_seen) == (answer, n_used)
    with pytest.raises(InputError, match=r"a score must be finite and of shape \(4,\)"):
        rule.stopper().update(1.0)


def test_parts_survive_json():
    rule = multiclass_qwyc(normal_scores(), max_disagreement=0.05)
    header, parts = rule.to_parts()
    again = LeaderFit.from_parts(json.loads(json.dumps(header, allow_nan=False)), parts)
    np.testing.assert_array_equal(again.lead, rule.lead)
    with pytest.raises(FormatError, match="lead must have one entry per model but the last"):
        LeaderFit.from_parts(header, parts | {"lead": np.zeros(2)})


@pytest.mark.parametrize(
    ("scores", "arguments", "message"),
    [
        (normal_scores()[:, :, 0], {}, r"scores must have shape \(n_rows, n_models, n_classes\), got \(300, 8\)"),
        (normal_scores(n_classes=1), {}, "at least two classes"),
        (np.ones((5, 2, 3)), {}, "answers class 0 on all 5 calibration rows"),
        (np.empty((0, 2, 3)), {}, "scores has no rows"),
        (None, {"base_score": [1.0, 2.0]}, "base_score one finite entry per class"),
        (None, {"max_disagreement": 3}, r"Did you mean 0.03 \(3 %\)\?"),
        (None, {"order": [0, 1]}, "order must name each of the 8 models"),
        (None, {"spending": "none"}, "spending must be one of"),
    ],
)
def test_bad_input(scores, arguments, message):
    with pytest.raises(InputError, match=message):
        multiclass_qwyc(normal_scores() if scores is None else scores, **({"max_disagreement": 0.01} | arguments))
