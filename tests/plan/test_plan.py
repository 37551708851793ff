"""Plan: orders and score maps that do not fit."""

import numpy as np
import pytest

from scurry import Plan
from scurry.errors import InputError
from scurry.plan import ExitRule, ScoreMap
from scurry.promises import Certificate, ExitMeasurement
from support.strategies import complete_forest


@pytest.mark.parametrize("order", [[0, 0], [0], [1, 2], [0, 1, 1]])
def test_orders_name_each_tree_once(order):
    with pytest.raises(InputError, match="must name each of the 2 trees once"):
        Plan(order=np.array(order, np.int32)).check(complete_forest(2, 1, 1, 2))


def test_slopes_are_not_negative():
    ScoreMap(slope=np.zeros((2, 3)), intercept=np.ones((2, 3)))
    with pytest.raises(InputError, match="slopes that are not negative"):
        ScoreMap(slope=np.array([[1.0, 1.0, -1e-9]] * 2), intercept=np.ones((2, 3)))


@pytest.mark.parametrize(("mean_trees", "is_said"), [(1.0, False), (1.9, True)])
def test_it_is_said_where_little_is_saved(mean_trees, is_said):
    forest = complete_forest(2, 1, 1, 2)
    measured = ExitMeasurement(changed=0.0, mean_trees=mean_trees)
    stop = ExitRule(
        kind="votes", weights=np.ones(1), lower=-np.ones((1, 3), np.int32), upper=np.full((1, 3), 9, np.int32)
    )
    plan = Plan(order=np.arange(2, dtype=np.int32), stop=stop, certificate=Certificate(method="x", measured=measured))
    assert ("little is saved" in plan.describe_saving(forest)) == is_said
    assert Plan.full(forest).describe_saving(forest) == {}
