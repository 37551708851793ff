"""What rows pay for: counted by walking them, and the same however the rows are split and put together."""

from collections import Counter
from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.pruning import FeatureCosts
from scurry.pruning.row_charges import RowCharges
from support.pruning_oracles import Instance, instances


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
