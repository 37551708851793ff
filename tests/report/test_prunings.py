"""The story of a pruning path: its curve is what the pruned forests do."""

import re

import numpy as np
import pytest

import scurry
from scurry.report import prunings
from scurry.report.story import TestRows


def test_pruning_path(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    costs = np.linspace(1, 5, forest.n_features)
    path = scurry.prune(forest, X_val, feature_costs=costs)
    story = prunings.tell(path, TestRows(forest, X, y))
    curve = story.curve
    assert curve.spent[0] == path.costs.min()
    assert curve.spent[-1] == path.costs.max()
    for at in (0, curve.start, -1):
        pruned = path.at(max_cost=_read_budget(curve.calls[at]))
        values = {column.name: column.values[at] for column in curve.columns}
        assert values["accuracy"] == (pruned.predict(X) == y).mean()
        assert values["labels changed"] == (pruned.predict(X) != forest.predict(X)).mean()
        assert values["splits kept"] == (pruned.left >= 0).sum()
        assert values["cost per test row"] == pytest.approx(_paid(pruned, X, costs).mean())
    assert story.claims[0].verdict == "kept"
    assert story.promise.startswith("Whatever a unit of cost")
    some = prunings.tell(scurry.prune(forest, X_val, lambdas=[0.01, 0.02]), TestRows(forest, X, y))
    assert some.promise.startswith("At the given prices of a unit of cost")


@pytest.mark.parametrize(("method", "lambdas"), [("ccp", None), ("primal-dual", [0.01, 0.02])])
def test_only_exact_prunings_are_promised_to_be_the_best(forest, data, method, lambdas):
    path = scurry.prune(forest, data["cal"][0], method=method, lambdas=lambdas)
    story = prunings.tell(path, TestRows(forest, *data["test"]))
    assert story.promise.startswith("Nothing")
    assert (story.claims[0].promised, story.claims[0].verdict) == ("nothing", "")


def test_a_budget_copied_from_the_page_reaches_what_it_stands_for(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, feature_costs=np.linspace(1, 5, forest.n_features) / 3)
    curve = prunings.tell(path, TestRows(forest, X, y)).curve
    for cost, call in zip(curve.spent, curve.calls, strict=True):
        assert path.point(max_cost=_read_budget(call)).cost == cost


def test_a_path_without_a_close_pruning_says_so(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, lambdas=[0.05, 0.1])
    story = prunings.tell(path, TestRows(forest, X, y))
    changes = story.curve.columns[1].values
    assert changes.min() > 0.01
    assert changes[story.curve.start] == changes.min()
    assert story.verdict.startswith("The pruning that changes the fewest labels saves")


def _read_budget(call):
    return float(re.fullmatch(r"path\.at\(max_cost=(.*)\)", call)[1])


def _paid(forest, X, costs):
    """Costs by walking every row through every tree."""
    paid = []
    for row in X.astype(np.float32):
        used = set()
        for root in forest.tree_offset[:-1]:
            node = root
            while forest.left[node] >= 0:
                used.add(int(forest.feature[node]))
                goes_left = row[forest.feature[node]] <= forest.threshold[node]
                node = forest.left[node] if goes_left else forest.right[node]
        paid.append(sum(costs[j] for j in used))
    return np.array(paid)
