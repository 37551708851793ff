"""Votes that count by weight: the bound on every row, by brute force, and against exact outcomes of equal weights."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import binom

from scurry.errors import FormatError, InputError
from scurry.stopping import VoteRule, WeightedVoteRule, solve, solve_weighted
from scurry.stopping.votes.policy import VotePolicy, outcomes
from scurry.stopping.votes.weighted import _worst_gains


def answers(leads: np.ndarray, ballots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sign that each row of signed weights, in the order asked, is answered with, and votes asked."""
    sums = np.column_stack([np.zeros(len(ballots)), ballots.cumsum(axis=1)])
    stops = np.abs(sums) >= leads
    stops[:, -1] = True
    at = stops.argmax(axis=1)
    return sums[np.arange(len(at)), at] > 0, at


def test_no_votes_exceed_the_bound_over_all_orders() -> None:
    weights = np.array([3.0, 2.0, 2.0, 1.0, 0.5])
    ballots = np.array(list(product([-1.0, 1.0], repeat=5))) * weights
    full, wrong, asked = ballots.sum(axis=1) > 0, np.zeros(len(ballots)), 0.0
    rule, certain = solve_weighted(weights, 0.4), solve_weighted(weights, 0.0)
    saved, orders = 0.0, list(permutations(range(5)))
    for order in orders:
        given, n = answers(rule.leads(order), ballots[:, order])
        wrong += given != full
        asked += n.mean()
        given, n = answers(certain.leads(order), ballots[:, order])
        assert (given == full).all()
        saved += n.mean()
    assert 0 < wrong.max() / len(orders) <= 0.4
    assert asked < saved < 5 * len(orders)


@pytest.mark.parametrize(("rate", "factor"), [(0.01, 1.1), (0.1, 1.2)])
def test_equal_weights_ask_little_more_than_the_optimal_rule(rate: float, factor: float) -> None:
    n, best = 101, solve(101, rate)
    leads, i = solve_weighted(np.full(n, 2.5), rate).leads(np.arange(n)) / 2.5, np.arange(n + 1)
    upper = np.ceil((i + np.minimum(leads, i + 1)) / 2 - 1e-6).clip(i // 2 + 1, i + 1).astype(np.int32)
    upper[-1] = n // 2 + 1
    votes, disagreement = outcomes([VotePolicy(1.0, (i - upper).astype(np.int32), upper)])
    assert 0.1 * rate < disagreement.max() <= rate
    assert best.objective < votes.mean() < factor * best.objective


@pytest.mark.parametrize("heavy_wins", [False, True])
def test_unequal_weights_that_hardly_lose_keep_the_bound(heavy_wins: bool) -> None:
    rng, n_orders, rate = np.random.default_rng(0), 200, 0.1
    weights = np.sort(rng.exponential(size=30))
    signs = np.where(np.arange(30) % 3 == 2, 1.0, -1.0) if heavy_wins else np.where(rng.random(30) < 0.5, 1.0, -1.0)
    while (weights * signs).sum() > 0:
        signs[np.flatnonzero(signs > 0)[0]] = -1.0
    rule, n_wrong, n_asked = solve_weighted(weights, rate), 0, 0
    for _ in range(n_orders):
        order = rng.permutation(30)
        given, asked = answers(rule.leads(order), (weights * signs)[None, order])
        n_wrong += int(given[0])
        n_asked += int(asked[0])
    assert n_wrong <= binom.ppf(0.999, n_orders, rate)
    assert n_asked < 30 * n_orders


def test_worst_gain_is_that_of_the_worst_votes() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 4.0):
        sizes = np.sort(rng.exponential(size=8)) * scale
        votes = sizes * np.array(list(product([-1.0, 1.0], repeat=8)))
        worst = (np.log(np.exp(votes).mean(axis=1)) - votes.mean(axis=1)).max()
        assert worst - 1e-12 <= _worst_gains(sizes[None])[0] <= 1.1 * worst + 1e-9
    assert _worst_gains(np.array([[1.0, 100.0]])) == 200.0  # beyond what exponentials hold


def test_more_classes_share_the_bound() -> None:
    weights, order = np.linspace(1, 2, 40), np.arange(40)
    two, four = (solve_weighted(weights, 0.03 / (3 if k == 2 else 1), n_classes=k).leads(order) for k in (2, 4))
    np.testing.assert_array_equal(two, four)


def test_only_proportions_matter_and_leads_grow_with_certainty() -> None:
    weights, order = np.linspace(1, 2, 40), np.random.default_rng(0).permutation(40)
    leads = solve_weighted(weights, 0.01).leads(order)
    np.testing.assert_allclose(solve_weighted(weights * 8, 0.01).leads(order), 8 * leads, rtol=1e-12)
    assert (leads <= solve_weighted(weights, 0.0001).leads(order)).all()
    assert leads[0] == np.inf
    assert leads[-1] == 0
    np.testing.assert_allclose(solve_weighted(weights, 0).leads(range(40))[39], 2.0)


def test_a_stopper_stops_as_by_hand_in_an_order_that_it_draws() -> None:
    rng, weights = np.random.default_rng(0), np.array([3.0, 2.0, 2.0, 1.0, 0.5, 0.0])
    rule, orders, n_saved = solve_weighted(weights, 0.4), set(), 0
    for ballot in product([False, True], repeat=6):
        stopper = rule.stopper(rng)
        assert stopper.decision is None
        given, asked = answers(rule.leads(stopper.order), (np.where(ballot, weights, -weights))[None, stopper.order])
        while not stopper.update(ballot[stopper.next_voter]):
            pass
        assert (stopper.decision, stopper.n_seen) == (int(given[0]), int(asked[0]))
        orders.add(tuple(stopper.order))
        n_saved += 6 - stopper.n_seen
        assert stopper.update(True)
        with pytest.raises(InputError, match="the vote is over"):
            _ = stopper.next_voter
    assert len(orders) > 30
    assert n_saved > 0


def test_a_stopper_of_three_classes_keeps_the_bound_and_never_fails_at_rate_0() -> None:
    rng, weights = np.random.default_rng(1), np.linspace(1, 2, 24)
    votes = np.repeat([0, 1, 2], [9, 9, 6])
    full, n_wrong, n_asked = np.bincount(votes, weights).argmax(), {0.0: 0, 0.1: 0}, {0.0: 0, 0.1: 0}
    for rate in n_wrong:
        rule = solve_weighted(weights, rate, n_classes=3)
        for _ in range(100):
            stopper = rule.stopper(rng)
            while not stopper.update(votes[stopper.next_voter]):
                pass
            n_wrong[rate] += stopper.decision != full
            n_asked[rate] += stopper.n_seen
    assert n_wrong[0.0] == 0
    assert n_wrong[0.1] <= binom.ppf(0.999, 100, 0.1)
    assert n_asked[0.1] < n_asked[0.0] < 2400


@pytest.mark.parametrize("vote", [3, -1, 1.5, "1", None, True])
def test_a_stopper_takes_class_indices(vote: object) -> None:
    stopper = solve_weighted([1.0, 2.0], 0.1, n_classes=3).stopper(0)
    with pytest.raises(InputError, match="vote"):
        stopper.update(vote)
    assert stopper.n_seen == 0


def test_close_votes_do_not_depend_on_the_order() -> None:
    rule = solve_weighted([0.1, 0.2, 0.3], 0.0)
    decisions = set()
    for seed in range(20):
        stopper = rule.stopper(seed)
        while not stopper.update(stopper.next_voter < 2):
            pass
        decisions.add(stopper.decision)
    assert len(decisions) == 1


def test_one_voter() -> None:
    assert solve_weighted([2.0], 0.1).leads([0]).tolist() == [np.inf, 0.0]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (([1.0, -1.0], 0.1), "weights"),
        (([0.0, 0.0], 0.1), "weights"),
        (([1.0, np.inf], 0.1), "weights"),
        (([1.0, np.nan], 0.1), "weights"),
        (([[1.0, 2.0]], 0.1), "weights"),
        ((["a"], 0.1), "weights"),
        (([], 0.1), "weights"),
        (([1.0], 1.5), "max_disagreement"),
        (([1.0], 0.1, 1), "n_classes"),
    ],
)
def test_malformed_arguments(arguments: tuple, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        WeightedVoteRule(*arguments)
    assert caught.value.argument == argument


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [[0, 1, 2]], ["a", "b", "c"]])
def test_malformed_orders(order: list) -> None:
    with pytest.raises(InputError, match="order must have each"):
        solve_weighted([1.0, 2.0, 3.0], 0.1).leads(order)


def test_files(tmp_path) -> None:
    rule = solve_weighted([1.0, 2.0, 3.0], 0.1, n_classes=3)
    rule.save(tmp_path / "rule")
    again = WeightedVoteRule.load(tmp_path / "rule")
    assert repr(again) == repr(rule) == "WeightedVoteRule(n_voters=3, n_classes=3, max_disagreement=0.1)"
    np.testing.assert_array_equal(again.weights, rule.weights)
    with pytest.raises(FormatError, match="weighted vote rule, not a vote rule"):
        VoteRule.load(tmp_path / "rule")
    header, arrays = rule.to_parts()
    with pytest.raises(FormatError, match="not the parts"):
        WeightedVoteRule.from_parts(header, {})
    with pytest.raises(FormatError, match="weights must be one number"):
        WeightedVoteRule.from_parts(header, {"weights": -arrays["weights"]})
