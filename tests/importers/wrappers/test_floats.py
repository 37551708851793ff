"""Where along all numbers an answer changes."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scurry.importers.wrappers.floats import first_true, neighbours

FLOATS = st.floats(-1e300, 1e300)


@given(FLOATS)
def test_every_number_is_found(x):
    assert first_true(lambda number: number >= x, -1e300, 1e300) == x


def test_answers_that_never_change():
    assert first_true(lambda number: True, -2.0, 3.0) == -2.0
    assert first_true(lambda number: False, -2.0, 3.0) == np.nextafter(3.0, np.inf)


@given(FLOATS)
def test_neighbours_are_next_to_each_other(x):
    found = neighbours(x, 3)
    assert len(found) == 7
    assert found[3] == x
    assert all(np.nextafter(low, np.inf) == high for low, high in pairwise(found))
