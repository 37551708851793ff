"""Closure problems: integers for errors and costs, and parts of a problem.

What rows pay for: counted by walking them, and the same however the rows are split and put together.
"""

from collections import Counter
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.errors import InputError
from scurry.pruning import FeatureCosts, exact_path
from scurry.pruning.problem import RowCharges, choose_scales, round_to_units
from support.pruning_oracles import Instance, instances, nodes_kept, random_instance, solve


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


def charges_of(instance: Instance, rows) -> RowCharges:
    return RowCharges.of(instance.forest, rows, FeatureCosts.of(instance.forest, **instance.options))


def walked(instance: Instance):
    """How many rows pay each charge because of each set of nodes."""
    own, groups, shared, _ = instance.prices()
    counts: Counter = Counter()
    for row in instance.X:
        causes: dict[int, list[int]] = {}
        for nodes in instance.path_of(row):
            first: dict[int, int] = {}
            for node in nodes:
                feature = int(instance.forest.feature[node])
                charges = [feature] if own[feature] > 0 else []
                if groups[feature] >= 0 and shared[groups[feature]] > 0:
                    charges.append(len(own) + groups[feature])
                for charge in charges:
                    first.setdefault(charge, node)
            for charge, node in first.items():
                causes.setdefault(charge, []).append(node)
        counts.update((charge, tuple(nodes)) for charge, nodes in causes.items())
    return counts


@settings(max_examples=100, deadline=None)
@given(instances(n_trees=4, n_splits=8, n_rows=12))
def test_counts_are_those_of_walked_rows(instance):
    found = charges_of(instance, instance.X)
    ends = zip(found.item_offset[:-1].tolist(), found.item_offset[1:].tolist(), strict=True)
    items = [
        (charge, tuple(found.item_node[start:end].tolist()))
        for charge, (start, end) in zip(found.item_charge.tolist(), ends, strict=True)
    ]
    assert items == sorted(set(items))
    n_features = instance.forest.n_features
    expected = walked(instance)
    assert dict(zip(items, found.item_rows.tolist(), strict=True)) == {
        item: count for item, count in expected.items() if len(item[1]) > 1
    }
    alone = np.zeros((instance.forest.n_nodes, 2), int)
    for (charge, nodes), count in expected.items():
        if len(nodes) == 1:
            alone[nodes[0], int(charge >= n_features)] += count
    np.testing.assert_array_equal(found.alone, alone)
    visits = Counter(node for row in instance.X for nodes in instance.path_of(row) for node in nodes)
    assert found.visits.tolist() == [visits[node] for node in range(instance.forest.n_nodes)]


@settings(max_examples=100, deadline=None)
@given(instances(n_trees=4, n_splits=8, n_rows=12), st.data())
def test_parts_in_any_order_add_up_to_the_whole(instance, data):
    part = np.array(data.draw(st.lists(st.integers(0, 4), min_size=12, max_size=12)))
    parts = [charges_of(instance, instance.X[part == index]) for index in range(5)]  # some of them without rows
    while len(parts) > 1:
        one, other = (parts.pop(data.draw(st.integers(0, len(parts) - 1))) for _ in range(2))
        parts.append(one + other)
    whole = charges_of(instance, instance.X)
    for field in fields(RowCharges):
        np.testing.assert_array_equal(getattr(parts[0], field.name), getattr(whole, field.name), err_msg=field.name)
