"""Forests with fewer splits answer with the nodes they stop at."""

import numpy as np
from hypothesis import given, settings
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.forest.reference import probabilities
from support.pruning_oracles import instances

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(instances(n_trees=3, n_splits=6))
def test_a_trimmed_forest_answers_with_the_nodes_it_stops_at(instance):
    rng = np.random.default_rng(instance.n_error)
    prunings = list(instance.prunings())
    kept = prunings[rng.integers(len(prunings))]
    forest = instance.forest
    stays = np.isin(np.arange(forest.n_nodes), list(kept))
    expected = np.zeros((len(instance.X), 2))
    for at, row in enumerate(instance.X):
        for root, nodes in zip(forest.tree_offset[:-1].tolist(), instance.path_of(row), strict=True):
            stopped = root
            for node in nodes:
                if node not in kept:
                    break
                goes_left = row[forest.feature[node]] <= forest.threshold[node]
                stopped = int((forest.left if goes_left else forest.right)[node])
            expected[at] += forest.value[stopped]
    pruned = forest.keep_splits(stays)
    assert pruned.n_nodes == forest.n_trees + 2 * len(kept)
    np.testing.assert_allclose(pruned.scores(instance.X), expected / forest.n_trees, rtol=1e-14)
    np.testing.assert_array_equal(probabilities(pruned, instance.X), pruned.predict_proba(instance.X))


def test_a_trimmed_forest_keeps_its_header():
    model = RandomForestClassifier(4, random_state=0).fit(X, np.array(["a", "b", "c"])[Y])
    forest = scurry.from_model(model)
    pruned = forest.keep_splits(forest.node_depth < 2)
    for name in ("n_features", "aggregation", "input_dtype", "score_dtype", "comparison", "link", "label_from"):
        assert getattr(pruned, name) == getattr(forest, name)
    assert pruned.classes.tolist() == ["a", "b", "c"]
    assert pruned.max_depth == 2
    assert pruned.cover[0] == forest.cover[0]
    assert forest.keep_splits(np.ones(forest.n_nodes, bool)).predict(X).tolist() == model.predict(X).tolist()
