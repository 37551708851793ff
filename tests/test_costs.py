"""What rows pay, by an independent count, and what is said about costs that make no sense."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from scurry import Forest
from scurry.errors import InputError
from scurry.pruning import FeatureCosts, feature_uses
from support.pruning_oracles import instances

STUMP = {
    "feature": [1, -1, -1],
    "threshold": [0.5, 0, 0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
}
STUMPS = Forest.from_trees([STUMP], n_features=3)


@pytest.fixture
def named():
    """A forest whose features have names."""
    return Forest(
        tree_offset=STUMPS.tree_offset,
        feature=STUMPS.feature,
        threshold=STUMPS.threshold,
        left=STUMPS.left,
        right=STUMPS.right,
        value=STUMPS.value,
        classes=STUMPS.classes,
        n_features=3,
        feature_names=["age", "TSH", "T3"],
    )


@settings(max_examples=60, deadline=None)
@given(instances(n_trees=4, n_splits=10))
def test_rows_pay_what_walking_them_says(instance):
    costs = FeatureCosts.of(instance.forest, **instance.options)
    everything = frozenset(np.flatnonzero(instance.forest.left >= 0).tolist())
    assert costs.of_rows(instance.forest, instance.X).mean() == pytest.approx(
        float(instance.cost(everything)), rel=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(instances(n_trees=4, n_splits=10))
def test_uses_are_counted_node_by_node(instance):
    expected = np.zeros((len(instance.X), instance.forest.n_features), int)
    for at, row in enumerate(instance.X):
        for nodes in instance.path_of(row):
            np.add.at(expected[at], instance.forest.feature[nodes], 1)
    assert (feature_uses(instance.forest, instance.X) == expected).all()


def test_a_forest_without_features_uses_none():
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.4, 0.6]]}
    assert feature_uses(Forest.from_trees([leaf]), np.zeros((2, 0))).shape == (2, 0)


def test_defaults():
    assert FeatureCosts.of(STUMPS).feature_costs.tolist() == [1, 1, 1]
    grouped = FeatureCosts.of(STUMPS, groups=[0, 1, -1])
    assert grouped.feature_costs.tolist() == [0, 0, 0]
    assert grouped.group_costs.tolist() == [1, 1]


def test_costs_and_groups_by_name(named):
    costs = FeatureCosts.of(
        named,
        feature_costs={"T3": 9.31, "age": 1, "TSH": 20.68},
        groups={"blood": ["TSH", 2], "talk": "age"},
        group_costs={"talk": 0, "blood": 2.1},
    )
    assert costs.feature_costs.tolist() == [1, 20.68, 9.31]
    assert costs.groups.tolist() == [1, 0, 0]
    assert costs.group_costs.tolist() == [2.1, 0]


def test_a_series_goes_by_its_labels(named):
    by_name = pd.Series({"T3": 9.31, "age": 1, "TSH": 20.68})
    assert FeatureCosts.of(named, feature_costs=by_name).feature_costs.tolist() == [1, 20.68, 9.31]
    assert FeatureCosts.of(named, feature_costs=pd.Series([1, 2, 3])).feature_costs.tolist() == [1, 2, 3]
    assert FeatureCosts.of(STUMPS, feature_costs=pd.Series([5, 1, 3], [2, 0, 1])).feature_costs.tolist() == [1, 3, 5]
    with pytest.raises(InputError, match="feature_costs names 'T4', which is no feature"):
        FeatureCosts.of(named, feature_costs=by_name.rename({"T3": "T4"}))


def test_features_without_names_go_by_number():
    costs = FeatureCosts.of(
        STUMPS, feature_costs={2: 5, 0: 1, 1: 0.5}, groups={"a": [1], "b": [2, 0]}, group_costs=[3, 4]
    )
    assert costs.feature_costs.tolist() == [1, 0.5, 5]
    assert costs.groups.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="feature_costs lacks 1; give a cost to every feature"):
        FeatureCosts.of(STUMPS, feature_costs={2: 5, 0: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_costs": [1, -2, 3]}, r"feature_costs\[1\] \(feature 'TSH'\) is -2; a cost is finite and 0 or more"),
        ({"feature_costs": [1, 2, np.nan]}, r"feature_costs\[2\] \(feature 'T3'\) is nan"),
        ({"feature_costs": [np.inf, 2, 3]}, r"feature_costs\[0\] \(feature 'age'\) is inf"),
        ({"feature_costs": [1, 2]}, r"feature_costs has shape \(2,\), expected \(3,\): one cost for every feature"),
        ({"feature_costs": ["a", 2, 3]}, "feature_costs must be numbers"),
        (
            {"feature_costs": {"age": 1, "tsh": 2, "T3": 3}},
            "feature_costs names 'tsh', which is no feature; known are 'age'",
        ),
        (
            {"feature_costs": {"age": 1, "TSH": 2}},
            "feature_costs lacks 'T3'; give a cost to every feature, 0 if it is free",
        ),
        ({"group_costs": [1]}, "group_costs needs groups"),
        ({"groups": [0, 0, 0], "feature_costs": [1, 1, 1]}, "groups with feature_costs needs group_costs"),
        ({"groups": [0, 1]}, r"groups must be 3 integers.*got shape \(2,\)"),
        ({"groups": [0.5, 1, 1]}, r"groups must be 3 integers.*float64"),
        ({"groups": [0, -2, 1]}, r"groups\[1\] is -2; a group is 0, 1, …, and -1 means none"),
        ({"groups": [0, 2**60, 1]}, r"groups\[1\] is 1152921504606846976; number the groups 0, 1, …, below 1,000,000"),
        (
            {"groups": [0, 1, 1], "group_costs": [1]},
            r"group_costs has shape \(1,\), expected \(2,\): one cost for every group",
        ),
        ({"groups": [0, 0, 0], "group_costs": [-1]}, r"group_costs\[0\] \(group 0\) is -1"),
        ({"groups": {"blood": ["TSH", "T4"]}}, "groups names 'T4', which is no feature; known are 'age', 'TSH', 'T3'"),
        ({"groups": {"blood": [3]}}, "groups names 3, which is no feature"),
        (
            {"groups": {"TSH": "blood", "age": "", "T3": "blood"}},
            r"groups names 'blood', which is no feature; it lists the features of each group, not the group of each "
            r"feature, such as \{'blood': \['TSH', 'T3'\], '': \['age'\]\}",
        ),
        ({"groups": {"blood": [1.5]}}, "groups names 1.5, which is no feature"),
        ({"groups": {"a": ["TSH"], "b": ["TSH"]}}, "groups has feature 'TSH' twice"),
        (
            {"groups": {"a": ["TSH"]}, "group_costs": {"b": 1}},
            "group_costs names 'b', which is no group; known are 'a'",
        ),
        ({"step_cost": -0.1}, "step_cost must be a number of at least 0, got -0.1"),
        ({"step_cost": "1"}, "step_cost must be a number of at least 0, got '1'"),
        ({"step_cost": np.nan}, "step_cost must be a number of at least 0, got nan"),
    ],
)
def test_nonsense_names_the_culprit(named, options, message):
    with pytest.raises(InputError, match=message):
        FeatureCosts.of(named, **options)
