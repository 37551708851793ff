"""The tests behind a promise: over many draws of calibration rows it fails no more often than it may.

Samples that share rows, copies, and splits that nobody can choose.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scurry.checks import check_confidence
from scurry.errors import InputError
from scurry.stopping import guarantee, qwyc, solve
from scurry.stopping.guarantee import (
    InMemory,
    agreement,
    are_copied,
    average,
    certified_rate,
    certify_rates,
    dependence,
    find_shared,
    hash_rows,
    last_certified,
    number_copies,
    random_part,
    rows_worth_testing,
    split_rows,
)
from scurry.stopping.losses import (
    berger_boos,
    changed_upper,
    loss_p_value,
    paired_p_value,
)

REPEATS, CONFIDENCE = 200, 0.95
MOST_FAILURES = int(stats.binom.ppf(0.999, REPEATS, 1 - CONFIDENCE))
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "promises" / "accuracy.json").read_text())


def test_votes():
    """Rows of a beta-binomial vote: the exact disagreement of the chosen rule on the true distribution is known."""
    n_voters, alpha = 51, 0.01
    true = stats.betabinom.pmf(np.arange(n_voters + 1), n_voters, 0.4, 0.6)
    failures, uncertified_failures = 0, 0
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        positives = rng.choice(n_voters + 1, 400, p=true)
        distribution = np.bincount(positives, minlength=n_voters + 1) + 0.5
        rules = [solve(n_voters, alpha * f, "minimean", distribution) for f in (0.1, 0.3, 0.5, 0.65, 0.8, 0.9, 1.0)]
        largest = max(rule.disagreement().max() for rule in rules)

        def p_value_of(rule, positives=positives, largest=largest):
            return loss_p_value(rule.disagreement(positives), alpha, max_loss=largest, bound="hoeffding-bentkus")

        chosen = last_certified(rules, p_value_of, CONFIDENCE)
        failures += chosen is not None and float(chosen.disagreement() @ true) > alpha
        uncertified_failures += float(rules[-1].disagreement() @ true) > alpha
    assert failures <= MOST_FAILURES
    assert uncertified_failures > MOST_FAILURES  # else this test could not fail


def score_rows(rng, n_rows, n_models=40):
    """Each row has a margin of its own, which its models' scores add up to with noise."""
    margin = rng.normal(0.1, 1.0, n_rows)
    return margin[:, None] / n_models + rng.normal(0, 0.15, (n_rows, n_models))


def test_scores():
    alpha, n_rows = 0.02, 600
    fresh = score_rows(np.random.default_rng(10**6), 40_000)
    failures, uncertified_failures = 0, 0
    amounts = np.concatenate([[0.0], np.geomspace(0.01, 5, 40)])
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        rule = qwyc(score_rows(rng, n_rows), max_disagreement=alpha)
        curve = rule.widening_curve(score_rows(rng, n_rows), amounts)
        chosen = certify_rates(curve.n_mistakes[::-1], n_rows, alpha, CONFIDENCE)
        assert chosen >= 0
        used = np.array([0.0, amounts[len(amounts) - 1 - chosen]])  # without a certificate, and with it
        on_new = rule.widening_curve(fresh[seed * 100 : seed * 100 + 20_000], used).n_mistakes / 20_000
        uncertified, certified = on_new > alpha + 2 * np.sqrt(alpha / 20_000)
        failures += certified
        uncertified_failures += uncertified
    assert failures <= MOST_FAILURES
    assert uncertified_failures > MOST_FAILURES


@pytest.mark.parametrize("n_mistakes", [0, 1, 7])
def test_the_certified_rate_is_the_smallest_that_certifies(n_mistakes):
    rate = certified_rate(n_mistakes, 1000, 0.9)
    assert certify_rates([n_mistakes], 1000, rate * 1.0001, 0.9) == 0
    assert certify_rates([n_mistakes], 1000, rate * 0.9999, 0.9) == -1
    assert certified_rate(10, 10, 0.9) == 1.0


def test_testing_stops_at_the_first_failure():
    assert certify_rates([0, 900, 0], 1000, 0.1, 0.95) == 0
    assert certify_rates([900, 0], 1000, 0.1, 0.95) == -1


def test_candidates_after_a_failure_are_not_made():
    made = []

    def candidates():
        for value in (0.01, 0.2, 0.01):
            made.append(value)
            yield value

    assert last_certified(candidates(), float, 0.95) == 0.01
    assert made == [0.01, 0.2]
    assert last_certified([0.2], float, 0.95) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loss_p_value([2.0], 0.1), r"losses must lie in \[0, 1\], got 2 to 2"),
        (lambda: loss_p_value([], 0.1), "at least one row"),
        (lambda: loss_p_value([0.1], 0.1, repeats=[1, 2]), "arrays of one length"),
        (lambda: loss_p_value([0.1], 0.1, bound="wald"), 'bound must be one of "betting", "hoeffding-bentkus"'),
        (lambda: check_confidence(1.0), r"in \(0, 1\), got 1.0.$"),
    ],
)
def test_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(InputError, match=message):
        call()


def case_name(case):
    return f"{case['n_rows']}-{case['n_losses']}-{case['n_gains']}"


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=case_name)
def test_golden_p_values(case):
    n_rows, n_losses, n_gains = case["n_rows"], case["n_losses"], case["n_gains"]
    expected = case["expected"]
    p_value = berger_boos(n_rows, n_losses, n_gains, case["max_drop"], case["gamma"])
    assert p_value == pytest.approx(expected["p_value"], rel=1e-9)
    if expected["q_upper"] is not None:
        most = max(case["max_drop"], changed_upper(n_losses + n_gains, n_rows, case["gamma"]))
        assert most == pytest.approx(expected["q_upper"], rel=1e-9)
    if n_rows * case["max_drop"] >= 8:
        chosen = paired_p_value(n_rows, n_losses, n_gains, case["max_drop"], risk=20 * case["gamma"])
        assert chosen == pytest.approx(p_value, rel=1e-12)


def test_misuse():
    with pytest.raises(InputError, match="do not fit into 10 rows"):
        paired_p_value(10, 8, 3, 0.1)
    with pytest.raises(InputError, match="n_losses"):
        paired_p_value(10, -1, 3, 0.1)
    with pytest.raises(InputError, match="max_drop"):
        paired_p_value(10, 1, 3, -0.1)
    with pytest.raises(InputError):
        paired_p_value(10, 1, 3, 0.1, risk=0.0)


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 10**6))
def test_a_random_part_has_its_size(n_rows, n_chosen, seed):
    part = random_part(n_rows, n_chosen, np.random.default_rng(seed))
    assert part.shape == (n_rows,)
    assert part.sum() == min(n_rows, n_chosen)


def test_every_row_is_as_likely_to_be_chosen():
    rng = np.random.default_rng(0)
    times = np.sum([random_part(10, 3, rng) for _ in range(20_000)], axis=0)
    assert abs(times - 6000).max() < 5 * np.sqrt(20_000 * 0.3 * 0.7)


def test_cases_are_drawn_one_by_one():
    rows = InMemory(np.arange(6).reshape(3, 2))
    endless = iter(int, None)
    answers = rows.map(np.negative).sums_of_each(lambda values, case: values.sum(axis=0) + case, endless)
    np.testing.assert_array_equal(next(answers), [-6, -9])
    assert rows.map(tuple).n_rows == 3
    assert rows.none().shape == (0, 2)


@given(st.integers(0, 30), st.integers(1, 9))
def test_sums_are_asked_of_a_few_rows_at_a_time(n_rows, n_at_once):
    rows, seen = np.arange(2 * n_rows).reshape(n_rows, 2), []

    def question(part):
        seen.append(len(part))
        return part.sum(axis=0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(guarantee, "_ROWS_AT_ONCE", n_at_once)
        np.testing.assert_array_equal(InMemory(rows).sums(question), rows.sum(axis=0))
    assert max(seen) <= n_at_once
    assert sum(seen) == n_rows


def rows_of(n_rows, seed, n_features=4):
    return np.random.default_rng(seed).normal(size=(n_rows, n_features))


class TestAgreement:
    @pytest.mark.parametrize("share", [0.5, 0.1])
    @pytest.mark.parametrize("mean_count", [0.5, 4.0, 60.0])
    def test_independent_samples_deviate_as_much_as_it_says(self, share, mean_count):
        rng = np.random.default_rng(0)
        items = np.repeat(np.arange(1000), rng.poisson(mean_count, 1000))
        found = []
        for _ in range(200):
            first = rng.permutation(len(items)) < share * len(items)
            found.append(agreement(*(np.bincount(items[part], minlength=1000) for part in (first, ~first))))
        scatter, deviations = np.transpose(found)
        assert abs(scatter.mean() - 1) < 0.02
        assert abs(deviations.mean()) < 0.3
        assert 0.8 < deviations.std() < 1.2

    def test_proportional_counts_do_not_scatter(self):
        counts = np.array([3, 10, 40, 7, 12] * 20)
        assert agreement(counts, 2 * counts).scatter == pytest.approx(0, abs=1e-12)
        assert agreement(counts, 2 * counts).is_beyond_chance

    def test_nothing_to_compare(self):
        assert agreement([1, 1, 0], [0, 0, 1]) == (1.0, 0.0)
        assert agreement([5, 3], [0, 0]) == (1.0, 0.0)
        assert agreement([0, 5], [0, 7]) == (1.0, 0.0)


class TestDependence:
    @pytest.mark.parametrize("kept", [0.0, 0.5, 0.8])
    def test_agreements_go_together_as_much_as_it_says(self, kept):
        """Two divisions of the same rows, as by the leaves of two trees, in samples drawn again and again."""
        rng = np.random.default_rng(1)
        one = rng.integers(0, 12, 3000)
        other = np.where(rng.random(3000) < kept, one, rng.integers(0, 12, 3000))
        found = []
        for _ in range(600):
            first = rng.permutation(3000) < 1500
            parts = (first, ~first)
            found.append([agreement(*(np.bincount(k[part], minlength=12) for part in parts)) for k in (one, other)])
        deviations = np.array(found)[:, :, 1]
        expected = dependence(one, other)
        assert np.corrcoef(deviations.T)[0, 1] == pytest.approx(expected, abs=0.1)
        means = [average([pair_one, pair_other], expected).deviations for pair_one, pair_other in found]
        assert 0.9 < np.std(means) < 1.1

    def test_one_kind_says_nothing(self):
        assert dependence(np.zeros(5, int), np.arange(5)) == 1.0


class TestHashes:
    def test_equal_rows_in_the_precision_of_the_model(self):
        rows = rows_of(1000, 0)
        assert (hash_rows(rows, "float32") == hash_rows(rows.astype(np.float32), "float32")).all()
        assert (hash_rows(rows, "float64") != hash_rows(rows.astype(np.float32), "float64")).all()
        assert (hash_rows(np.asfortranarray(rows)) == hash_rows(rows)).all()
        assert len(np.unique(hash_rows(rows))) == 1000

    def test_zeros_missing_and_infinite_values(self):
        payload = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
        rows = np.array([[0.0, payload[0]], [-0.0, payload[1]], [np.inf, 1.0], [-np.inf, 1.0]])
        digests = hash_rows(rows)
        assert digests[0] == digests[1]
        assert len(np.unique(digests)) == 3
        assert len(np.unique(hash_rows(np.array([[1e300], [2e300]]), "float32"))) == 1

    def test_columns_have_a_place_and_blocks_no_meaning(self):
        assert hash_rows(np.array([[1.0, 2.0]])) != hash_rows(np.array([[2.0, 1.0]]))
        many = rows_of(40_000, 1, 2)
        assert (hash_rows(many)[20_000:] == hash_rows(many[20_000:])).all()

    def test_rows_are_left_as_they_were(self):
        rows = np.array([[-0.0, np.nan]])
        hash_rows(rows)
        assert np.signbit(rows[0, 0])


class TestShared:
    @pytest.mark.parametrize("n_shared", [40, 500, 1000])
    def test_shared_rows_of_continuous_data(self, n_shared):
        digests = hash_rows(rows_of(2000 - n_shared, 2))
        shared = find_shared(digests[:1000], digests[1000 - n_shared :])
        assert shared.sum() == n_shared
        assert shared[1000 - n_shared :].all()

    def test_draws_of_data_that_repeat_are_not_shared(self):
        """A tenth of a percent of false alarms; here none in 200."""
        rng = np.random.default_rng(3)
        kinds = hash_rows(rows_of(3000, 4))
        chances = rng.dirichlet(np.full(3000, 0.3))
        samples = [rng.choice(kinds, 1500, p=chances) for _ in range(400)]
        assert all(find_shared(*pair) is None for pair in zip(samples[::2], samples[1::2], strict=True))

    def test_the_same_rows_of_data_that_repeat_are(self):
        """Each of 300 kinds occurs in both, and only their numbers tell."""
        sample = np.random.default_rng(5).choice(hash_rows(rows_of(300, 6)), 5000)
        assert find_shared(sample, np.random.default_rng(7).permutation(sample)).all()


class TestCopies:
    @pytest.mark.parametrize("n_copies", [2, 3, 5, 40])
    def test_copies_of_every_row(self, n_copies):
        assert are_copied(np.repeat(hash_rows(rows_of(400, 8)), n_copies))

    def test_copies_of_some_rows(self):
        digests = hash_rows(rows_of(2000, 9))
        assert are_copied(np.concatenate([digests, np.repeat(digests[:200], 4)]))

    def test_draws_of_data_that_repeat_are_no_copies(self):
        rng = np.random.default_rng(10)
        kinds = hash_rows(rows_of(1000, 11))
        for concentration in (0.1, 1.0, 100.0):
            for n_rows in (500, 3000, 30_000):
                chances = rng.dirichlet(np.full(1000, concentration))
                assert not are_copied(rng.choice(kinds, n_rows, p=chances))


class TestNumberCopies:
    def test_a_class_that_was_drawn_again_counts_each_row_once(self):
        rng = np.random.default_rng(20)
        kinds, rare = hash_rows(rows_of(9000, 21)), hash_rows(rows_of(300, 22))
        usual = rng.choice(kinds, 3000, p=rng.dirichlet(np.full(9000, 0.3)))  # repeats that stay as they are
        drawn = rng.choice(rare, 3000)
        classes = np.repeat(["usual", "rare"], 3000)
        numbers = number_copies(np.concatenate([usual, drawn]), [np.zeros(6000), classes])
        assert len(np.unique(numbers[:3000])) == 3000
        np.testing.assert_array_equal(np.unique(numbers[3000:]), np.arange(len(np.unique(drawn))))

    @pytest.mark.parametrize("concentration", [0.1, 1.0, 100.0])
    @pytest.mark.parametrize("share", [0.03, 0.3])
    def test_data_that_repeat_are_no_copies(self, concentration, share):
        """Whatever the kinds, each belongs to one class, or to both by chance."""
        rng = np.random.default_rng(23)
        kinds = hash_rows(rows_of(1000, 24))
        for n_rows in (500, 5000, 30_000):
            drawn = rng.choice(1000, n_rows, p=rng.dirichlet(np.full(1000, concentration)))
            by_kind, by_chance = drawn < 1000 * share, rng.random(n_rows) < share
            assert number_copies(kinds[drawn], [by_kind, by_chance]) is None

    def test_a_class_of_few_kinds_is_no_copy(self):
        """One class repeats, as rows of a sensor that is off do; rare values outnumber common ones."""
        rng = np.random.default_rng(25)
        off = hash_rows(np.floor(rng.exponential(40, (4000, 1))))
        assert number_copies(np.concatenate([off, hash_rows(rows_of(4000, 26))]), [np.repeat([0, 1], 4000)]) is None


class TestSplit:
    def test_the_rows_decide_alone(self):
        digests = hash_rows(rows_of(999, 12))
        first, second = split_rows(digests, 300)
        order = np.random.default_rng(13).permutation(999)
        np.testing.assert_array_equal(split_rows(digests[order], 300)[0], first[order])
        assert first.sum() == 300
        np.testing.assert_array_equal(first, ~second)
        assert (split_rows(hash_rows(rows_of(999, 14)), 300)[0] != first).any()

    def test_equal_rows_fall_on_both_sides(self):
        """Data of few kinds must not be split by kind."""
        digests = np.random.default_rng(15).choice(hash_rows(rows_of(20, 16)), 2000)
        first, second = split_rows(digests, 1000)
        assert set(digests[first]) == set(digests[second])

    def test_groups_stay_whole_and_one_row_of_each_other_is_drawn(self):
        groups = np.random.default_rng(17).integers(0, 50, 1000)
        first, second = split_rows(hash_rows(rows_of(1000, 18)), 20, groups)
        assert len(np.unique(groups[first])) == 20
        assert first.sum() == np.isin(groups, groups[first]).sum()
        assert sorted(groups[second].tolist()) == sorted(set(range(50)) - set(groups[first].tolist()))
        later = [np.flatnonzero(groups == group).tolist().index(row) for row, group in enumerate(groups) if second[row]]
        assert max(later) > 3  # not the first row of each


@given(n_rows=st.integers(0, 700), max_rate=st.sampled_from([0.003, 0.01, 0.05, 0.3]))
def test_rows_worth_testing_allow_as_many_mistakes(n_rows, max_rate):
    def allowed(n: int) -> int:
        return int(np.count_nonzero(stats.binom.cdf(np.arange(n + 1), n, max_rate) <= 1 - CONFIDENCE))

    n_worth = rows_worth_testing(n_rows, max_rate, CONFIDENCE)
    assert n_worth <= n_rows
    assert allowed(n_worth) == allowed(n_rows)
    assert n_worth == 0 or allowed(n_worth - 1) < allowed(n_worth)
