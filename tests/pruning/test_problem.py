"""Closure problems: integers for errors and costs, and parts of a problem."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from scurry.errors import InputError
from scurry.pruning import exact_path
from scurry.pruning.problem import choose_scales, round_to_units
from support.pruning_oracles import instances, nodes_kept, random_instance, solve


@settings(max_examples=60, deadline=None)
@given(instances())
def test_gains_and_costs_are_those_of_walked_rows(instance):
    path = solve(instance)
    problem = path.problem
    for at in range(len(path)):
        kept, nodes = path.kept(at), nodes_kept(path, at)
        assert problem.error_after(problem.closure.gain_of(kept)) == instance.error(nodes)
        assert problem.closure.cost_of(kept) * problem.cost_unit == instance.cost(nodes)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_what_lies_between_two_prunings_adds_up(instance):
    path = solve(instance)
    closure = path.problem.closure
    for at in range(len(path) - 1):
        outer, inner = path.kept(at), path.kept(at + 1)
        part = closure.between(inner, outer)
        everything = np.ones(part.n_nodes, bool)
        assert part.n_nodes == (outer & ~inner).sum()
        assert (part.parent < np.arange(part.n_nodes)).all()
        assert part.gain_of(everything) == closure.gain_of(outer) - closure.gain_of(inner)
        assert part.cost_of(everything) == closure.cost_of(outer) - closure.cost_of(inner)


def test_decimal_costs_are_whole_in_units():
    units, step, rounding = round_to_units(np.array([7.27, 5.17, 0.0]), 100)
    assert (units.tolist(), step) == ([727, 517, 0], 1)
    assert rounding < 1e-15
    assert choose_scales(np.array([3.0]), np.array([0.125]), 10.0) == (1, 1000)


def test_other_fractions_are_rounded_finely_and_reported():
    instance = random_instance(np.random.default_rng(4))
    third = 1 / 3
    data = {"node_errors": instance.node_errors * third, "n_error": 5, "feature_costs": [third, 1, 2 * third, 1]}
    problem = exact_path(instance.forest, instance.X, **data).problem
    assert 0 < problem.error_rounding < 1e-6
    assert 0 < problem.cost_rounding < 1e-6
    assert problem.cost_unit * 6 * len(instance.X) < Fraction(1, 10**5)


def test_fractions_without_room_are_refused():
    with pytest.raises(InputError, match=r"costs have more digits than exact arithmetic has room for.*Round them"):
        choose_scales(np.array([1e12]), np.array([1 / 3]), 1e6)


def test_costs_without_end_are_refused():
    instance = random_instance(np.random.default_rng(0))
    with pytest.raises(InputError, match="add up to infinity; divide all costs by a factor"):
        exact_path(
            instance.forest, instance.X, node_errors=instance.node_errors, n_error=instance.n_error, step_cost=1e308
        )
