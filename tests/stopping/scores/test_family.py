"""Families of rules and their sides: counts against running each member, and the golden walks."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from scurry.errors import InputError
from scurry.stopping import MarginFit, multiclass_qwyc, qwyc
from scurry.stopping.guarantee import split_risk
from scurry.stopping.scores.family import Family, OneSidedFit, last_accepted

GOLDEN = Path(__file__).parents[2] / "golden" / "promises"
WALKS = json.loads((GOLDEN / "per_class.json").read_text())["cases"]


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
    for case in json.loads((GOLDEN / "delta_split.json").read_text())["cases"]:
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
    plain, staggered = (one.answers(votes, decisions) for one in (family, family.staggered(2.0)))
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
