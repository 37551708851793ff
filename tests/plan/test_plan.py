"""Plan: orders and score maps that do not fit."""

import numpy as np
import pytest

from scurry import Plan
from scurry.errors import InputError
from scurry.plan import ScoreMap
from support.strategies import complete_forest


@pytest.mark.parametrize("order", [[0, 0], [0], [1, 2], [0, 1, 1]])
def test_orders_name_each_tree_once(order):
    with pytest.raises(InputError, match="must name each of the 2 trees once"):
        Plan(order=np.array(order, np.int32)).check(complete_forest(2, 1, 1, 2))


def test_slopes_are_not_negative():
    ScoreMap(slope=np.zeros((2, 3)), intercept=np.ones((2, 3)))
    with pytest.raises(InputError, match="slopes that are not negative"):
        ScoreMap(slope=np.array([[1.0, 1.0, -1e-9]] * 2), intercept=np.ones((2, 3)))
