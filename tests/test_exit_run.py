"""What is reported of rows that stopped early, against a replay of the trees they asked."""

import lightgbm
import numpy as np
import pytest

import scurry
from strategies import complete_forest

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(2000, 6))


def boosted_pair(**header) -> scurry.Forest:
    """Two classes with a score each, as a source makes them that was told of "multiclass" with two."""
    header = {"aggregation": "sum", "link": "softmax", "classes": ["no", "yes"], "base_score": [0.3, -0.2]} | header
    return complete_forest(n_trees=40, depth=4, **header)


PAIRS = {
    "a tree for each class": boosted_pair(n_columns=1, tree_output=np.arange(40) % 2),
    "trees for both": boosted_pair(n_columns=2),
}


@pytest.mark.parametrize("forest", PAIRS.values(), ids=PAIRS)
def test_two_classes_with_a_score_each(forest):
    fast = scurry.early_exit(forest, ROWS, max_disagreement=0.05, confidence=None, method="qwyc")
    run, probabilities = fast.run(ROWS), fast.predict_proba(ROWS)
    assert np.mean(run.labels != forest.predict(ROWS)) <= 0.05
    np.testing.assert_array_equal(run.labels, fast.predict(ROWS))
    assert 0 < (~run.complete).mean() < 1
    leaves = forest.apply(ROWS)
    for row in range(200):
        totals = forest.base_score.copy()
        for tree in fast.plan.order[: run.trees[row]]:
            output = forest.tree_output[tree]
            totals[slice(None) if output < 0 else output] += forest.value[leaves[row, tree]].squeeze()
        np.testing.assert_allclose(run.scores[row], totals[1] - totals[0], atol=1e-6)
        np.testing.assert_allclose(probabilities[row, 1], 1 / (1 + np.exp(totals[0] - totals[1])), atol=1e-6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_lightgbm_told_of_several_classes_that_are_two():
    labels = (ROWS[:, 0] + ROWS[:, 1] ** 2 > 0.5).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=15, objective="multiclass", num_class=2, n_jobs=1, verbose=-1)
    model.fit(ROWS, labels)
    fast = scurry.early_exit(model, ROWS, max_disagreement=0.02, confidence=None)
    assert np.mean(fast.predict(ROWS) != model.predict(ROWS)) <= 0.02
    assert fast.run(ROWS).mean_trees < 30
