import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry.stopping import sample
from scurry.stopping.sample import InMemory, random_part


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
    answers = rows.mapped(np.negative).sums_of_each(lambda values, case: values.sum(axis=0) + case, endless)
    np.testing.assert_array_equal(next(answers), [-6, -9])
    assert rows.mapped(tuple).n_rows == 3
    assert rows.none().shape == (0, 2)


@given(st.integers(0, 30), st.integers(1, 9))
def test_sums_are_asked_of_a_few_rows_at_a_time(n_rows, n_at_once):
    rows, seen = np.arange(2 * n_rows).reshape(n_rows, 2), []

    def question(part):
        seen.append(len(part))
        return part.sum(axis=0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sample, "_ROWS_AT_ONCE", n_at_once)
        np.testing.assert_array_equal(InMemory(rows).sums(question), rows.sum(axis=0))
    assert max(seen) <= n_at_once
    assert sum(seen) == n_rows
