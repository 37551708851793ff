"""Regions show thresholds in the units in which people think."""

import numpy as np

from scurry.plan import ExitRule
from support.strategies import complete_forest


def test_regions_are_relative_to_the_decision():
    forest = complete_forest(2, 1, 1, 1, classes=[0, 1], base_score=[-0.5], aggregation="sum")
    lower, upper = np.array([[-9, -4, 3]], np.int32), np.array([[9, 8, 4]], np.int32)
    rule = ExitRule(kind="scores", step=0.125, weights=np.ones(1), lower=lower, upper=upper)
    assert rule.threshold(forest) == 4
    band = rule.regions(forest)
    assert (band.lower[0].tolist(), band.upper[0].tolist()) == ([-1.625, -1.0, -0.125], [0.625, 0.5, 0.0])
