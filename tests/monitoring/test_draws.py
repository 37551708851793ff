import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import _core
from scurry.monitoring.draws import BLOCK, Draws

GAMMA = 0x9E3779B97F4A7C15


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([0.0005, 0.002, 0.3, 1.0]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 3 * BLOCK),
    st.lists(st.integers(0, BLOCK), max_size=5),
)
def test_batches_do_not_matter(share, seed, start, sizes):
    whole = Draws(share, seed).between(start, start + sum(sizes) + 1)
    draws, at, parts = Draws(share, seed), start, []
    for size in [*sizes, 1]:
        parts.append(draws.between(at, at + size) if size else np.empty(0, np.int64))
        at += size
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(np.unique(whole), whole)
    assert ((whole >= start) & (whole < at)).all()


def test_every_row_is_drawn_with_the_same_probability():
    n_blocks, share = 10, 0.02
    counts = np.zeros(BLOCK)
    for seed in range(n_blocks):
        counts[Draws(share, seed).between(0, BLOCK)] += 1
    n = n_blocks * BLOCK
    assert abs(counts.sum() - n * share) < 5 * np.sqrt(n * share)
    # Independent draws: gaps, and neighbouring halves, say nothing of each other.
    halves = counts.reshape(2, -1).sum(axis=1)
    assert np.ptp(halves) < 5 * np.sqrt(n * share)
    both = np.intersect1d(Draws(0.5, 1).between(0, BLOCK), Draws(0.5, 1).between(0, BLOCK) + 1)
    assert abs(len(both) - BLOCK / 4) < 5 * np.sqrt(BLOCK / 4)


def test_none_are_drawn_before_the_next():
    draws, start = Draws(0.001, 5), 0
    numbers = draws.between(0, 3 * BLOCK)
    for _ in range(900):
        end = draws.none_before(start)
        later = numbers[numbers >= start]
        assert end >= start
        assert not len(later) or end <= later[0]
        start = end + 1 if end in numbers else end
    assert start > BLOCK
    assert draws.none_before(int(numbers[7])) == numbers[7]


def test_a_share_of_1_draws_all_rows():
    assert np.array_equal(Draws(1.0, 3).between(BLOCK - 2, BLOCK + 3), np.arange(BLOCK - 2, BLOCK + 3))


def test_seeds_draw_different_rows():
    a, b = (Draws(0.01, seed).between(0, BLOCK) for seed in (0, 1))
    assert len(np.intersect1d(a, b)) < 30


def test_draws_are_part_of_the_format():
    """States go on after an upgrade, so the same seed draws the same rows in every version."""
    assert Draws(0.002, 7).between(0, 3500).tolist() == [163, 379, 679, 931, 1459, 2310, 2355, 2407, 2481, 3431, 3477]
    assert [_core.mix_bits(value) for value in (0, 1)] == [0, 6238072747940578789]


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
@pytest.mark.parametrize("share", [1e-9, 0.0005, 0.3, 0.9999])
def test_a_slow_reference_draws_the_same(share, seed):
    for block in (0, 5):
        key, place, expected = _core.mix_bits((seed + GAMMA * (block + 1)) % 2**64), -1, []
        for counter in itertools.count(1):
            uniform = ((_core.mix_bits((key + GAMMA * counter) % 2**64) >> 11) + 0.5) * 2.0**-53
            place += 1 + math.floor(min(math.log(uniform) / math.log1p(-share), BLOCK))
            if place >= BLOCK:
                break
            expected.append(block * BLOCK + place)
        assert Draws(share, seed).between(block * BLOCK, (block + 1) * BLOCK).tolist() == expected


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 2**63 - 1)])
def test_impossible_numbers_are_refused(start, stop):
    with pytest.raises(ValueError, match="numbered"):
        Draws(0.5, 0).between(start, stop)


class TestShadowRows:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("order", ["C", "F", "strided"])
    def test_they_are_the_rows_drawn(self, dtype, order):
        rows = np.arange(900.0).reshape(300, 3).astype(dtype)
        given = np.repeat(rows, 2, axis=0)[::2] if order == "strided" else np.asarray(rows, order=order)
        draws = Draws(0.1, 3)
        shadow, start = draws.shadow_rows(3, dtype), BLOCK - 100
        places, none_before = shadow.draw(given[:150], start)
        more, _ = shadow.draw(given[150:], start + 150)
        numbers = draws.between(start, start + 300)
        assert np.concatenate([places, more + 150]).tolist() == (numbers - start).tolist()
        assert none_before == draws.none_before(start + 150)
        held, held_numbers = shadow.held()
        assert len(shadow) == len(numbers) > 10
        assert held.dtype == dtype
        assert np.array_equal(held, rows[numbers - start])
        assert np.array_equal(held_numbers, numbers)
        shadow.clear()
        assert [len(part) for part in shadow.held()] == [0, 0]
        assert np.array_equal(held_numbers, numbers), "what was read does not change"

    def test_rows_that_do_not_fit_are_refused(self):
        shadow = Draws(0.5, 0).shadow_rows(3, "float32")
        for rows in (np.zeros((2, 3)), np.zeros((2, 4), np.float32)):
            with pytest.raises(ValueError, match="rows"):
                shadow.draw(rows, 0)
        with pytest.raises(ValueError, match="size"):
            shadow.add(np.zeros((2, 3), np.float32), np.arange(3))
        with pytest.raises(ValueError, match="numbered"):
            shadow.draw(np.zeros((2, 3), np.float32), 2**63 - 2**18)
        with pytest.raises(ValueError, match="share"):
            Draws(0.0, 0)


@pytest.mark.parametrize("share", [1e-9, 1e-300])
def test_tiny_shares_draw_nothing_and_do_not_overflow(share):
    assert len(Draws(share, 0).between(0, 10 * BLOCK)) == 0
