"""The joint search against an oracle that tries every pair of thresholds, and what a fitted rule promises.

Families of rules and their sides: counts against running each member, and the golden walks.

Leads against an oracle that tries every threshold, and what the rule shares with the two-class one.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from scurry.errors import FormatError, InputError
from scurry.plan import NEVER_ABOVE, NEVER_BELOW
from scurry.stopping import LeaderFit, MarginFit, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import split_risk
from scurry.stopping.scores import qwyc as qwyc_module
from scurry.stopping.scores.qwyc import Family, OneSidedFit, last_accepted
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


def test_given_decisions_of_several_classes_replace_the_sum():
    scores = np.random.default_rng(0).normal(size=(400, 6, 3))
    decisions = (scores.sum(axis=1) + np.random.default_rng(1).normal(size=(400, 3))).argmax(axis=1)
    for max_disagreement in (0.0, 0.1, 0.3):
        rule = multiclass_qwyc(scores, max_disagreement=max_disagreement, decisions=decisions, order=None)
        answers, used = rule.decide(scores)
        assert ((answers != decisions) & (used < 6)).sum() <= 400 * max_disagreement
        assert (used < 6).mean() > 0.3 or max_disagreement == 0
    for wrong in (decisions[1:], decisions == 1, decisions + 1, decisions - 1):
        with pytest.raises(InputError, match=r"decisions must be numbers of the 3 classes, one per row \(400\)"):
            multiclass_qwyc(scores, max_disagreement=0.1, decisions=wrong)


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


GOLDEN_FAMILY = Path(__file__).parents[2] / "golden" / "promises"
WALKS = json.loads((GOLDEN_FAMILY / "per_class.json").read_text())["cases"]


def golden_scores(seed, n_rows, n_trees, shift, noise, **_):
    def draw():
        nonlocal seed
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return seed >> 33

    rows = []
    for _ in range(n_rows):
        base = draw() % 61 - 30 + shift
        rows.append([base // n_trees + draw() % noise - noise // 2 for _ in range(n_trees)])
    return np.array(rows, np.float64)


def margins(lower, upper, threshold=0.0):
    n_models = len(lower) + 1
    return MarginFit(
        order=np.arange(n_models),
        costs=np.ones(n_models),
        step=2.0**-20,
        n_rows=1,
        lower=np.array(lower, np.float64),
        upper=np.array(upper, np.float64),
        decision_threshold=threshold,
        spread=1.0,
    )


@pytest.mark.parametrize("case", WALKS, ids=[str(case["generator"]["seed"]) for case in WALKS])
def test_golden_walks_of_two_sides(case):
    scores = golden_scores(**case["generator"])
    assert scores[:3].tolist() == case["first_rows"]
    n_models, full = scores.shape[1], scores.sum(axis=1) >= case["threshold"]
    fits = [margins(member["lower"], member["upper"], float(case["threshold"])) for member in case["family"]]
    family, expected = Family(fits[0], np.zeros(1), fits[1:]), case["expected"]
    n_rows = [int(full.sum()), int((~full).sum())]
    risks = split_risk(n_rows, [case["alpha"]["yes"], case["alpha"]["no"]], 1 - case["confidence"])
    assert dict(zip(("yes", "no"), n_rows, strict=True)) == expected["n"]
    np.testing.assert_allclose(risks, [expected["delta"]["yes"], expected["delta"]["no"]], rtol=1e-9)

    never = np.full(n_models - 1, np.inf)
    uppers = family.one_sided(upper=True, other=-never)
    lost = uppers.answers(scores[~full], full[~full])[:, n_models + 1]
    assert lost.tolist() == expected["mistakes_upper"]
    at = last_accepted(binom.cdf(lost, n_rows[1], case["alpha"]["no"]) <= risks[1])
    assert at == expected["chosen_upper"]
    upper = uppers[at].upper if at >= 0 else never
    lowers = family.one_sided(upper=False, other=upper)
    lost = lowers.answers(scores[full], full[full])[:, n_models]
    assert lost.tolist() == expected["mistakes_lower"]
    at = last_accepted(binom.cdf(lost, n_rows[0], case["alpha"]["yes"]) <= risks[0])
    assert at == expected["chosen_lower"]
    rule = lowers[at] if at >= 0 else margins(-never, upper, float(case["threshold"]))
    decision, used = rule.decide(scores)
    assert used.mean() == pytest.approx(expected["mean_trees"], rel=1e-12)
    changed = decision != full
    assert {"yes": int(changed[full].sum()), "no": int(changed[~full].sum())} == expected["changed"]


def test_golden_split_of_the_risk():
    for case in json.loads((GOLDEN_FAMILY / "delta_split.json").read_text())["cases"]:
        risks = split_risk(list(case["n"].values()), list(case["alpha"].values()), case["delta"])
        np.testing.assert_allclose(risks, list(case["expected"].values()), rtol=1e-9)
        assert np.prod(1 - risks) == pytest.approx(1 - case["delta"])


def test_a_group_without_rows_gets_most_of_the_risk_and_no_infinity():
    risks = split_risk([0, 1000], [0.1, 0.1], 0.05)
    assert np.isfinite(risks).all()
    assert risks[0] > risks[1]


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    return rng.integers(-8, 9, (600, 7)) + rng.integers(-6, 7, (600, 1)).astype(np.float64)


def check_members(family, scores, decisions, n_classes=2):
    """What is counted in one pass is what each member does when it is run."""
    counts = family.answers(scores, decisions, n_classes)
    assert len(counts) == len(family)
    for at, counted in enumerate(counts):
        member = family[at]
        decision, used = member.decide(scores)
        exits = np.bincount(used - 1, minlength=member.n_models)
        answers = np.bincount(decision.astype(int), minlength=n_classes)
        np.testing.assert_array_equal(counted, [*exits, *answers])


def test_members_are_counted_as_they_run(scores):
    first = qwyc(scores, max_disagreement=0.01)
    bolder = [qwyc(scores, max_disagreement=rate, order=first.order) for rate in (0.05, 0.2)]
    full = scores.sum(axis=1) >= 0
    amounts = np.array([0.0, 0.01, 0.1, 0.3, 1.0])
    family = Family(first, amounts, bolder)
    check_members(family, scores, full)
    for upper in (True, False):
        for other in (np.full(6, -np.inf if upper else np.inf), bolder[1].lower if upper else bolder[1].upper):
            check_members(family.one_sided(upper=upper, other=other), scores, full)
    # The most cautious member comes first.
    assert family.answers(scores, full)[0, 6] >= family.answers(scores, full)[4, 6]


def test_members_for_many_classes_are_counted_as_they_run():
    rng = np.random.default_rng(1)
    scores = rng.integers(-5, 6, (400, 5, 3)) + rng.integers(-3, 4, (400, 1, 3)).astype(np.float64)
    first = multiclass_qwyc(scores, max_disagreement=0.02)
    family = Family(first, np.array([0.0, 0.2, 0.5]), [multiclass_qwyc(scores, max_disagreement=0.2)])
    check_members(family, scores, np.argmax(scores.sum(axis=1), axis=1), 3)


def test_rows_of_a_class_are_only_lost_through_one_side(scores):
    fit = qwyc(scores, max_disagreement=0.2)
    full = scores.sum(axis=1) >= 0
    upper = OneSidedFit.of(fit, upper=True, other=np.full(6, -np.inf))
    assert (upper.decide(scores).decision != full)[~full].any()
    assert not (upper.decide(scores).decision != full)[full].any()
    # Adding the other side loses no further row of this class.
    both = fit.decide(scores).decision
    assert (both != full)[~full].sum() <= (upper.decide(scores).decision != full)[~full].sum()


def test_sides_that_would_cross_give_way():
    fit = margins([5.0, -3.0], [6.0, 3.0])
    side = OneSidedFit.of(fit, upper=False, other=np.array([2.0, np.inf]))
    assert side.lower[0] < 2.0
    assert side.lower[1] == -3.0
    side = OneSidedFit.of(fit, upper=True, other=np.array([7.0, -np.inf]))
    assert side.upper[0] > 7.0


def test_staggered_thresholds_pass_a_vote_one_after_another():
    rng = np.random.default_rng(0)
    votes = np.where(rng.random((600, 21)) < rng.random((600, 1)), 1.0, -1.0)
    decisions = votes.sum(axis=1) >= 0
    first = qwyc(votes, max_disagreement=0.02, order="natural")
    family = Family(first, np.linspace(0, 1.9 / first.spread, 30))
    plain, staggered = (one.answers(votes, decisions) for one in (family, family.stagger(2.0)))
    np.testing.assert_array_equal(staggered[-1], plain[-1])  # as fitted: no whole vote lies in between
    assert len(np.unique(plain, axis=0)) == 2
    assert len(np.unique(staggered, axis=0)) > 5
    costs = staggered[:, : votes.shape[1]] @ np.arange(1, votes.shape[1] + 1)
    assert (np.diff(costs) <= 0).all()


def test_misuse(scores):
    with pytest.raises(TypeError, match="two classes"):
        OneSidedFit.of(multiclass_qwyc(np.eye(3)[:, None, :] * 2, max_disagreement=0), upper=True, other=np.zeros(0))
    with pytest.raises(InputError, match="decisions"):
        Family(qwyc(scores, max_disagreement=0.1), np.zeros(1)).answers(scores, np.zeros(3, bool))


@pytest.mark.parametrize(("accepted", "last"), [([], -1), ([False, True], -1), ([True, True], 1), ([True, False], 0)])
def test_last_accepted(accepted, last):
    assert last_accepted(np.array(accepted, bool)) == last


def class_scores(n_rows=300, n_models=8, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 1, n_classes)) + rng.normal(size=(n_rows, n_models, n_classes)) * 2


def leader(sums):
    return sums.index(max(sums))


def lead_oracle(scores, base, budget, order, upfront):
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
def problems_of_multiclass(draw):
    n_rows, n_models, n_classes = draw(st.integers(2, 10)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    scores = draw(arrays(np.int64, (n_rows, n_models, n_classes), elements=st.integers(-2, 2)))
    base = draw(arrays(np.int64, n_classes, elements=st.integers(-1, 1)))
    assume(len(np.unique((base + scores.sum(axis=1)).argmax(axis=1))) > 1)
    return scores, base, draw(st.integers(0, n_rows - 1)), draw(st.permutations(range(n_models))), draw(st.booleans())


@settings(max_examples=150, deadline=None)
@given(problems_of_multiclass())
def test_multiclass_equals_the_oracle(problem):
    scores, base, budget, order, upfront = problem
    rule = multiclass_qwyc(
        scores,
        max_disagreement=budget / len(scores),
        base_score=base,
        order=order,
        spending="upfront" if upfront else "proportional",
    )
    leads, mistakes, used = lead_oracle(scores.tolist(), base.tolist(), budget, order, upfront)
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
            _, _, used = lead_oracle(scores, base, budget, [*order, model, *rest], upfront)
            n_leaving = used.count(len(order) + 1)
            price = Fraction(costs[model], n_leaving) if n_leaving else INF
            if best is None or price < best[0]:
                best = price, model
        order.append(best[1])
        rest = [m for m in range(len(costs)) if m not in order]
        if max(lead_oracle(scores, base, budget, [*order, *rest], upfront)[2]) <= len(order):
            break
    return order


@settings(max_examples=100, deadline=None)
@given(problems_of_multiclass(), st.data())
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
    monkeypatch.setattr(qwyc_module, "SEARCH_ROWS", 50)
    scores = class_scores(400)
    scores[:, 3] *= 50  # says most of the sum, and comes first
    rule = multiclass_qwyc(scores, max_disagreement=0.02, order=None)
    assert rule.order[0] == 3
    assert rule.n_mistakes <= 8
    assert rule.mean_cost < multiclass_qwyc(scores, max_disagreement=0.02).mean_cost


def test_no_mistakes_allowed_means_none_made():
    scores = class_scores()
    rule = multiclass_qwyc(scores, max_disagreement=0)
    decision, n_models_used = rule.decide(scores)
    np.testing.assert_array_equal(decision, scores.sum(axis=1).argmax(axis=1))
    assert n_models_used.mean() < scores.shape[1]


def test_two_classes_watch_the_size_of_the_margin():
    margins = class_scores(n_classes=1)[:, :, 0]
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


def test_multiclass_widening_is_nested_and_the_curve_equals_each_rule():
    rule, new = multiclass_qwyc(class_scores(), max_disagreement=0.05), class_scores(seed=1)
    previous = np.zeros(len(new))
    for amount, n_mistakes, mean_cost in zip(*rule.widening_curve(new, [0.0, 0.2, 0.4, 2.0]), strict=True):
        decision, n_models_used = rule.widen(amount).decide(new)
        assert (n_models_used >= previous).all()
        assert n_mistakes == (decision != new.sum(axis=1).argmax(axis=1)).sum()
        assert mean_cost == pytest.approx(n_models_used.mean())
        previous = n_models_used


def test_stopper_equals_decide():
    base = np.array([0.5, 0.0, -0.25, 1 / 3])
    rule, rows = multiclass_qwyc(class_scores(), max_disagreement=0.05, base_score=base), class_scores(40, seed=3)
    decision, n_models_used = rule.decide(rows)
    for row, answer, n_used in zip(rows, decision, n_models_used, strict=True):
        stopper = rule.stopper()
        while not stopper.update(row[stopper.next_model]):
            pass
        assert (stopper.decision, stopper.n_seen) == (answer, n_used)
    with pytest.raises(InputError, match=r"a score must be finite and of shape \(4,\)"):
        rule.stopper().update(1.0)


def test_parts_survive_json():
    rule = multiclass_qwyc(class_scores(), max_disagreement=0.05)
    header, parts = rule.to_parts()
    again = LeaderFit.from_parts(json.loads(json.dumps(header, allow_nan=False)), parts)
    np.testing.assert_array_equal(again.lead, rule.lead)
    with pytest.raises(FormatError, match="lead must have one entry per model but the last"):
        LeaderFit.from_parts(header, parts | {"lead": np.zeros(2)})


@pytest.mark.parametrize(
    ("scores", "arguments", "message"),
    [
        (class_scores()[:, :, 0], {}, r"scores must have shape \(n_rows, n_models, n_classes\), got \(300, 8\)"),
        (class_scores(n_classes=1), {}, "at least two classes"),
        (np.ones((5, 2, 3)), {}, "answers class 0 on all 5 calibration rows"),
        (np.empty((0, 2, 3)), {}, "scores has no rows"),
        (None, {"base_score": [1.0, 2.0]}, "base_score one finite entry per class"),
        (None, {"max_disagreement": 3}, r"Did you mean 0.03 \(3 %\)\?"),
        (None, {"order": [0, 1]}, "order must name each of the 8 models"),
        (None, {"spending": "none"}, "spending must be one of"),
    ],
)
def test_multiclass_bad_input(scores, arguments, message):
    with pytest.raises(InputError, match=message):
        multiclass_qwyc(class_scores() if scores is None else scores, **({"max_disagreement": 0.01} | arguments))


def test_thresholds_off_the_grid_are_rounded_to_the_cautious_side():
    """A row half a unit inside a threshold continues: on the grid it may only stop where the rule would stop it."""
    step, shared = 0.25, {"order": np.arange(4), "costs": np.ones(4), "step": 2.0**-40, "n_rows": 10}
    between, on = 2.5 * step, 3 * step
    fit = MarginFit(
        **shared,
        lower=np.array([-between, -on, between]),
        upper=np.array([between, on, np.inf]),
        decision_threshold=0.0,
        spread=1.0,
    )
    rule = fit.stop_rule(step)
    assert rule.lower.tolist() == [[NEVER_BELOW, -3, -3, 2, NEVER_BELOW]]
    assert rule.upper.tolist() == [[NEVER_ABOVE, 3, 3, NEVER_ABOVE, NEVER_ABOVE]]
    leads = LeaderFit(**shared, lead=np.array([between, on, 0.1 * step]), base_score=np.zeros(3), spread=1.0)
    assert leads.stop_rule(step).lead.tolist() == [NEVER_ABOVE, 3, 3, 1, NEVER_ABOVE]
