"""Votes between several answers: exact outcomes for every way the votes may fall."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.errors import FormatError, InputError
from scurry.stopping import PluralityRule, solve, solve_plurality
from scurry.stopping.votes.plurality import PairwisePolicy, counts_after, crossing_chances, is_certain
from support import vote_oracles


def full_votes(n_voters, n_classes):
    """Every way the full vote may fall."""
    for others in product(range(n_voters + 1), repeat=n_classes - 1):
        if sum(others) <= n_voters:
            yield (n_voters - sum(others), *others)


@pytest.mark.parametrize(("n_voters", "n_classes", "alpha"), [(6, 3, 0.2), (7, 3, 0.4), (5, 4, 0.45)])
@pytest.mark.parametrize("method", ["pairwise", "class-counts"])
def test_outcomes_play_every_order(n_voters, n_classes, alpha, method):
    rule = solve_plurality(n_voters, n_classes, alpha, method)
    votes, disagreement = rule.expected_votes(), rule.disagreement()
    for full in full_votes(n_voters, n_classes):
        asked, wrong = 0.0, 0.0
        for policy in rule.policies:
            if policy.stops(np.zeros(n_classes, dtype=int)):
                wrong += policy.weight * (np.argmax(full) != 0)
                continue
            played = vote_oracles.plurality_outcome(
                full,
                lambda counts, policy=policy: bool(
                    is_certain(np.array(counts), n_voters - sum(counts)) or policy.stops(np.array(counts))
                ),
            )
            asked, wrong = asked + policy.weight * played[0], wrong + policy.weight * played[1]
        assert votes[full[1:]] == pytest.approx(asked, abs=1e-12)
        assert disagreement[full[1:]] == pytest.approx(wrong, abs=1e-12)


@pytest.mark.parametrize(
    ("n_voters", "n_classes"), [(1, 3), (2, 2), (9, 2), (10, 3), (25, 3), (40, 3), (12, 4), (17, 4), (9, 5)]
)
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.4])
def test_pairwise_keeps_its_bound_however_the_vote_falls(n_voters, n_classes, alpha):
    rule = solve_plurality(n_voters, n_classes, alpha)
    assert rule.disagreement().max() <= alpha
    exact = solve_plurality(n_voters, n_classes, 0.0)
    assert exact.disagreement().max() == 0
    assert (rule.expected_votes() <= exact.expected_votes() + 1e-12).all()


def test_pairwise_saves_votes_among_many_classes():
    rule = solve_plurality(101, 10, 0.001)
    stopper = rule.stopper()
    while not stopper.stopped:
        stopper.update(4)
    assert stopper.n_seen < 25
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        stopper = rule.stopper(random_state=rng)
        answers = rng.permutation(np.repeat(np.arange(10), [21, 19, 15, 10, 8, 8, 7, 6, 5, 2])).tolist()
        while not stopper.stopped:
            stopper.update(answers[stopper.n_seen])
        wrong += stopper.decision != 0
    assert wrong <= 3


@pytest.mark.parametrize("n_voters", [5, 10, 31])
def test_crossing_chances_by_enumeration(n_voters):
    (policy, *_) = solve_plurality(n_voters, 3, 0.3).policies
    chances = crossing_chances(policy.upper)
    for m in range(1, min(n_voters, 12) + 1):
        crossed = []
        for votes in vote_oracles.sequences(m, m // 2):
            positives = np.cumsum(votes)
            seen = np.arange(1, m + 1)
            crossed.append(np.any((positives >= policy.upper[seen]) & (2 * positives > seen)))
        assert chances[m] == pytest.approx(np.mean(crossed), abs=1e-13)


@pytest.mark.parametrize("method", ["pairwise", "class-counts"])
def test_parts_make_the_same_rule(method):
    rule = solve_plurality(9, 3, 0.1, method)
    header, arrays = rule.to_parts()
    again = PluralityRule.from_parts(header, arrays)
    np.testing.assert_array_equal(again.expected_votes(), rule.expected_votes())
    assert repr(again) == repr(rule)
    for spoilt in ({"weight": arrays["weight"] * 2}, {"stops": arrays["stops"][:, 1:]}):
        with pytest.raises(FormatError, match="not the parts of a plurality rule"):
            PluralityRule.from_parts(header, arrays | spoilt)


def test_answers_by_name():
    stopper = solve_plurality(5, 3, 0.0).stopper(classes=["no", "maybe", "yes"])
    for answer in ("yes", "maybe", "yes", "yes"):
        stopper.update(answer)
    assert (stopper.decision, stopper.n_seen, stopper.stopped) == ("yes", 4, True)
    with pytest.raises(InputError, match="an answer must be one of"):
        stopper.update("perhaps")
    with pytest.raises(InputError, match="classes must be 3 different answers"):
        solve_plurality(5, 3, 0.0).stopper(classes=["no", "no", "yes"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 1}, "n_classes must be a whole number of at least 2, got 1"),
        ({"max_disagreement": 3}, r"Did you mean 0.03 \(3 %\)"),
        ({"method": "all"}, 'method must be one of "pairwise", "class-counts"'),
        ({"distribution": [[1.0]]}, 'distribution applies to method="class-counts" only'),
        ({"method": "class-counts", "n_voters": 2000}, 'states, more than 2e.07; method="pairwise" takes any number'),
        ({"method": "class-counts", "distribution": np.ones((3, 3))}, r"shape \(11, 11\), got shape \(3, 3\)"),
        ({"method": "class-counts", "distribution": np.ones((11, 11))}, "zero where classes share more than 10 votes"),
        ({"method": "class-counts", "distribution": np.zeros((11, 11))}, "positive weight somewhere"),
    ],
)
def test_bad_requests_say_what_is_wrong(change, message):
    with pytest.raises(InputError, match=message):
        solve_plurality(**({"n_voters": 10, "n_classes": 3, "max_disagreement": 0.1} | change))


def test_the_older_name_of_class_counts_remains():
    rule = solve_plurality(9, 3, 0.1, "colours")
    assert rule.method == "class-counts"
    assert rule.to_parts()[0]["method"] == "colours"  # stored rules do not change


def test_answers_need_not_be_known_beforehand():
    rule = solve_plurality(9, None, 0.05)
    stopper = rule.stopper()
    assert stopper.decision is None
    for answer in ["42", "41", "42", "42", "forty-two", "42", "42", "42", "42"]:
        if stopper.update(answer):
            break
    assert stopper.decision == "42"
    # Nine voters can give nine answers, so the thresholds are those for nine classes.
    known = solve_plurality(9, 9, 0.05)
    np.testing.assert_array_equal(rule.policies[0].upper, known.policies[0].upper)
    assert PluralityRule.from_parts(*rule.to_parts()).n_classes is None
    with pytest.raises(InputError, match="n_classes"):
        rule.disagreement()
    with pytest.raises(InputError, match="n_classes"):
        solve_plurality(9, None, 0.05, "class-counts")


def test_a_tie_of_open_answers_goes_to_the_first_seen():
    stopper = solve_plurality(4, None, 0.0).stopper()
    for answer in "yxxy":
        stopper.update(answer)
    assert stopper.decision == "y"
    assert stopper.n_seen == 4


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 25), st.sampled_from([1e-3, 0.05, 0.3]), st.integers(0, 1000))
def test_two_classes_are_a_majority_vote(n_voters, alpha, seed):
    weights = np.random.default_rng(seed).random(n_voters + 1)
    counted = solve_plurality(n_voters, 2, alpha, "class-counts", weights)
    rule = solve(n_voters, alpha, "minimean", weights)
    weights /= weights.sum()
    assert counted.expected_votes() @ weights == pytest.approx(rule.objective, rel=1e-10)
    assert counted.disagreement() @ weights <= alpha * (1 + 1e-10)


@pytest.mark.parametrize(("n_voters", "n_classes"), [(13, 3), (8, 4), (1, 3)])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_class_counts_are_optimal(n_voters, n_classes, alpha):
    """The mixture reaches its lower bound, which no rule can beat; the pairwise rule does not."""
    weights = np.random.default_rng(1).random((n_voters + 1,) * (n_classes - 1))
    weights[np.indices(weights.shape).sum(axis=0) > n_voters] = 0
    rule = solve_plurality(n_voters, n_classes, alpha, "class-counts", weights)
    weights /= weights.sum()
    objective = (rule.expected_votes() * weights).sum()
    assert objective == pytest.approx(rule.lower_bound, rel=1e-10)
    assert (rule.disagreement() * weights).sum() <= alpha * (1 + 1e-10)
    pairwise = solve_plurality(n_voters, n_classes, alpha)
    assert objective <= (pairwise.expected_votes() * weights).sum() + 1e-12


def test_certainty_by_playing_on():
    n_voters = 6
    for i in range(n_voters + 1):
        counts = counts_after(i, 3)
        certain = is_certain(counts, n_voters - i)
        for cell in np.ndindex(certain.shape):
            state = counts[(slice(None), *cell)]
            if state[0] < 0:
                continue
            ends = {
                int(np.argmax(state + np.bincount(rest, minlength=3)))
                for rest in product(range(3), repeat=n_voters - i)
            }
            assert certain[cell] == (len(ends) == 1)


def test_the_strictest_thresholds_stop_only_where_all_policies_do():
    uppers = np.array([[1, 2, 2, 3], [1, 1, 3, 3]], np.int32)
    policies = [PairwisePolicy(0.5, upper) for upper in uppers]
    assert PluralityRule(3, 3, 0.1, "pairwise", policies).strictest_upper().tolist() == [1, 2, 3, 3]
    with pytest.raises(InputError, match="pairwise"):
        solve_plurality(4, 3, 0.1, "class-counts").strictest_upper()
