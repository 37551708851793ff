"""Samples that share rows, copies, and splits that nobody can choose."""

import numpy as np
import pytest

from scurry.stopping.independence import (
    agreement,
    are_copied,
    average,
    dependence,
    find_shared,
    hash_rows,
    split_rows,
)


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
