from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InputError, UnsupportedModelError
from scurry.export.values import ExitTables, LeadTables, lower_plan
from scurry.forest import leaf_scores
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, ExitSide, StepRule
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


def test_what_is_refused(cancer):
    with pytest.raises(UnsupportedModelError, match="regressor"):
        lower_plan(complete_forest(2, 2, 3, 1), full_plan(complete_forest(2, 2, 3, 1)), 16)
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


def one_by_one(rule: ExitRule, running: np.ndarray, policy: int) -> list[tuple[int, int]]:
    """Trees and side of each row, walked as the C does; side 0 if it never stops."""
    found = []
    for row in range(running.shape[1]):
        trees, side = len(running) - 1, 0
        for i, total in enumerate(running[:, row, 0]):
            if rule.piece_offset.size:
                piece = rule.piece_offset[i]
                while piece < rule.piece_offset[i + 1] and rule.piece_edges[piece] <= total:
                    piece += 1
                here = int(rule.piece_sides[piece + i])
            else:
                here = ExitSide.POSITIVE if total >= rule.upper[policy, i] else 0
                here = ExitSide.NEGATIVE if total <= rule.lower[policy, i] else here
            if here == ExitSide.FULL:
                break
            if here:
                trees, side = i, here
                break
        found.append((trees, side))
    return found


@pytest.mark.parametrize("with_pieces", [False, True])
def test_exits_are_found_as_a_loop_over_rows_finds_them(with_pieces):
    rng = np.random.default_rng(0)
    n_trees, n_rows = 6, 50
    running = np.cumsum(rng.integers(-2, 3, (n_trees + 1, n_rows, 1)), axis=0)
    lower = rng.integers(-6, -1, (2, n_trees + 1)).astype(np.int32)
    pieces = {}
    if with_pieces:
        edges = [np.sort(rng.choice(np.arange(-5, 6), 3, replace=False)) for _ in range(n_trees + 1)]
        pieces["piece_offset"] = 3 * np.arange(n_trees + 2, dtype=np.uint32)
        pieces["piece_edges"] = np.concatenate(edges).astype(np.int32)
        pieces["piece_sides"] = rng.integers(0, 4, 4 * (n_trees + 1)).astype(np.uint8)
    rule = ExitRule(kind="scores", weights=np.array([1.0, 3.0]), lower=lower, upper=lower + 5, **pieces)
    full_codes = rng.integers(0, 2, n_rows)
    for policy, draw in ((0, 2**14 - 1), (1, 2**14)):
        trees, codes = ExitTables(rule).find_exits(running, full_codes, np.full(n_rows, draw))
        expected = one_by_one(rule, running, policy)
        assert trees.tolist() == [n for n, _ in expected]
        for code, (_, side), full in zip(codes, expected, full_codes, strict=True):
            assert code == (side == ExitSide.POSITIVE if side else full)


@pytest.mark.parametrize("with_need", [False, True])
def test_a_row_stops_once_its_leader_is_far_enough_ahead(with_need):
    votes = np.array([[0, 0, 0, 0, 1], [0, 1, 2, 1, 1], [2, 2, 1, 2, 2]])
    running = np.zeros((6, 3, 3), np.int64)
    for i in range(5):
        running[i + 1] = running[i]
        running[i + 1, np.arange(3), votes[:, i]] += 1
    never = 99
    need = [np.full(r // 2 + 1, never) for r in range(6)]
    for r in range(2, 6):
        need[r][0] = 2
    tables = LeadTables(trees_per_round=1, lead=np.array([never, never, 2, 2, 2, 2]), need=need if with_need else [])
    trees, codes = tables.find_exits(running, running[-1].argmax(axis=1), None)
    assert trees.tolist() == [2, 5, 2]
    assert codes.tolist() == [0, 1, 2]


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
