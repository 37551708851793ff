from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InputError, UnsupportedModelError
from scurry.export.values import lower_plan
from scurry.forest import leaf_scores
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, ExitSide, LeaderRule, StepRule
from support.anytime_oracle import depth_steps
from support.strategies import complete_forest


def full_plan(forest: Forest) -> Plan:
    return Predictor.full(forest).plan


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_codes_stand_for_the_scores_of_leaves(anyt, bits):
    forest = anyt.forest
    values = lower_plan(forest, full_plan(forest), bits)
    assert values.kind == "margin"
    assert values.codes.max() < 2 ** min(bits, 31)
    stored = values.offset + values.unit * values.codes[:, 0]
    error = np.abs(stored - leaf_scores(forest))[forest.is_leaf]
    assert error.max() <= values.unit / 2 * (1 + 1e-9)
    assert (values.codes[~forest.is_leaf] == 0).all()


def test_inner_nodes_count_in_anytime_plans_alone(anyt):
    values = lower_plan(anyt.forest, anyt.plan, 16)
    assert values.is_anytime
    assert (values.codes[~anyt.forest.is_leaf] > 0).any()
    assert not lower_plan(anyt.forest, full_plan(anyt.forest), 16).is_anytime


def test_a_tie_of_two_probabilities_is_the_first_class():
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1]}
    forest = Forest.from_trees([leaf | {"value": [[0.75, 0.25]]}, leaf | {"value": [[0.25, 0.75]]}], n_features=1)
    values = lower_plan(forest, full_plan(forest), 16)
    total = values.codes.sum(axis=0)[None, :]
    assert values.labels(total).tolist() == [0]
    assert values.labels(total + 1).tolist() == [1]


def test_more_than_two_classes_have_a_sum_each():
    forest = complete_forest(4, 3, 5, 3)
    values = lower_plan(forest, full_plan(forest), 16)
    assert (values.kind, values.n_sums, values.codes.shape) == ("vector", 3, (forest.n_nodes, 3))
    assert values.labels(np.array([[1, 5, 5], [2, 1, 0]])).tolist() == [1, 0]


@pytest.mark.parametrize("bits", [8, 16])
def test_a_lead_never_becomes_smaller(bits):
    forest = complete_forest(4, 3, 5, 3)
    leads = np.arange(forest.n_rounds + 1, dtype=np.int32) * 37 + 1
    rule = LeaderRule(kind="scores", step=2.0**-12, lead=leads)
    plan = Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=rule)
    values = lower_plan(forest, plan, bits)
    exported = values.stop.lead * values.unit
    assert (exported >= leads).all()
    assert (exported < leads + values.unit).all()


def test_what_is_refused(cancer):
    single = complete_forest(2, 2, 3, 1).replace(classes=["only"])
    with pytest.raises(UnsupportedModelError, match="a single class"):
        lower_plan(single, full_plan(single), 16)
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimax", shuffle="row", random_state=0)
    with pytest.raises(InputError, match="shuffles the trees"):
        lower_plan(fast.forest, fast.plan, 16)


def test_exits_of_a_rule_are_those_of_its_tables(cancer):
    """Votes are whole numbers in both, so a rule and its tables stop at the same sums."""
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimax", confidence=None, random_state=0)
    rule, tables = fast.plan.stop, lower_plan(fast.forest, fast.plan, 8).stop
    assert isinstance(rule, ExitRule)
    for n_trees in range(fast.forest.n_trees + 1):
        sums = np.arange(n_trees + 1)
        sides = tables.rule.side_of(0, n_trees, sums)
        np.testing.assert_array_equal(sides == ExitSide.POSITIVE, sums >= rule.upper[0, n_trees])
        np.testing.assert_array_equal(sides == ExitSide.NEGATIVE, sums <= rule.lower[0, n_trees])


def test_weighted_readouts_need_a_threshold_of_zero():
    leaf = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([leaf | {"value": [[0.5], [0.1], [0.8]]}], classes=[0, 1])
    forest = forest.replace(decision_threshold=0.5)
    plan = Plan(order=depth_steps(forest), stop=StepRule(readout="weighted"))
    with pytest.raises(UnsupportedModelError, match="threshold of 0"):
        lower_plan(forest, plan, 16)


@pytest.mark.parametrize("bits", [8, 16])
def test_coarse_thresholds_stop_no_row_that_the_rule_would_not(cancer, bits):
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="qwyc", confidence=None, random_state=0)
    rng, rule, inner = np.random.default_rng(0), fast.plan.stop, slice(1, fast.forest.n_trees)
    lower, upper = rule.lower.copy(), rule.upper.copy()
    lower[:, inner] = -rng.integers(1, 2**24, lower[:, inner].shape)
    upper[:, inner] = rng.integers(1, 2**24, lower[:, inner].shape)
    rule = replace(rule, lower=lower, upper=upper)
    values = lower_plan(fast.forest, replace(fast.plan, stop=rule, score_map=None), bits)
    assert values.unit > 1
    n_trees = np.arange(fast.forest.n_trees + 1)
    for name, outside in (("lower", np.less_equal), ("upper", np.greater_equal)):
        asked, stored = getattr(rule, name), getattr(values.stop.rule, name)
        is_set = ~np.isin(asked, (NEVER_BELOW, NEVER_ABOVE))
        meant = values.offset * n_trees + values.unit * stored
        assert outside(meant, asked)[is_set].all()
        assert (np.abs(meant - asked)[is_set] > 0.1 * values.unit).any()


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_the_sum_of_a_regressor_is_its_value_in_fixed_point(bits, aggregation):
    forest = complete_forest(7, 3, 4, 1).replace(aggregation=aggregation, base_score=[-2.75])
    forest = forest.replace(value=1000 * forest.value - 300)
    values = lower_plan(forest, full_plan(forest), bits)
    assert values.kind == "value"
    assert values.unit == 2.0**-values.fraction_bits
    rows = np.random.default_rng(0).normal(size=(50, 4))
    sums = values.start + values.codes[forest.apply(rows)].sum(axis=1)
    error = np.abs(values.decode(forest, values.labels(sums)) - forest.predict(rows)).max()
    assert error <= values.unit / 2 * (forest.n_trees + 1)
    assert values.codes.min() >= (0 if bits < 32 else -(2**31))


def test_a_link_is_left_to_whoever_reads_the_score():
    forest = complete_forest(7, 3, 4, 1).replace(aggregation="sum", link="exp")
    values = lower_plan(forest, full_plan(forest), 32)
    rows = np.random.default_rng(0).normal(size=(50, 4))
    sums = values.start + values.codes[forest.apply(rows)].sum(axis=1)
    np.testing.assert_allclose(values.decode(forest, values.labels(sums)), forest.predict(rows), rtol=1e-6)
