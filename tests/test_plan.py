"""Plan: rules that no calibration makes, as a broken or hostile file may hold them."""

import numpy as np
import pytest

from scurry import Plan, Predictor
from scurry.errors import InputError
from scurry.plan import ExitRule, LeaderRule
from support.strategies import complete_forest

ROWS = np.zeros((2, 6))


def plan(n_trees: int, stop: ExitRule | LeaderRule) -> Plan:
    return Plan(order=np.arange(n_trees, dtype=np.int32), stop=stop)


def exit_rule(n_trees: int, step: float) -> ExitRule:
    lower = np.full((1, n_trees + 1), np.iinfo(np.int32).min, np.int32)
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=-1 - lower)


def test_votes_needed_are_of_voters():
    """Sums of scores would be looked up beyond the table's ends."""
    with pytest.raises(InputError, match="need is a number of votes"):
        LeaderRule(kind="scores", lead=np.zeros(31, np.int32), need=np.zeros((31, 31), np.int32))


@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize(
    ("step", "message"),
    [(1e-12, "step 1e-12 is too small"), (1e-9, "step 1e-09 is too small: some sum")],
    ids=["leaves", "sums of thirty leaves that fit"],
)
def test_scores_that_no_integer_holds(n_columns, step, message):
    forest = complete_forest(n_columns=n_columns)
    rule = exit_rule(30, step) if n_columns == 2 else LeaderRule(kind="scores", step=step, lead=np.ones(31, np.int32))
    with pytest.raises(ValueError, match=message):
        Predictor(forest, plan(30, rule)).predict(ROWS)


def test_inner_nodes_add_nothing_and_may_be_anything():
    forest = complete_forest(n_columns=1, classes=[0, 1])
    value = np.where(forest.is_leaf[:, None], forest.value, 1e30)
    odd = complete_forest(n_columns=1, classes=[0, 1], value=value)
    for one in (forest, odd):
        assert Predictor(one, plan(30, exit_rule(30, 1e-6))).predict(ROWS).tolist() == forest.predict(ROWS).tolist()
