"""Every instruction set gives the bits of the reference: leaves, scores and exits, also where vectors are narrower."""

import pytest

from support.levels import LEVELS, run_script

SCRIPT = """
import numpy as np, scurry
from scurry.forest import reference
from support.sentinel_oracle import random_rule, sentinel_answers
from support.strategies import complete_forest

print(scurry._core.kernels())
rng = np.random.default_rng(0)
for n_features in (1, 3, 7, 8, 9, 15, 16, 17, 33, 70):
    for n_classes in (2, 3, 9, 17):
        forest = complete_forest(5, 4, n_features, n_classes, seed=n_features)
        rows = rng.choice(np.concatenate([forest.threshold, [np.nan, np.inf, -0.0, 1e-40]]), (333, n_features))
        for X in (rows.astype(np.float32), rows):
            np.testing.assert_array_equal(forest.apply(X), reference.apply(forest, X))
            np.testing.assert_array_equal(forest.scores(X), reference.scores(forest, X))
            fast = scurry.early_exit(forest, X, max_disagreement=0.1, confidence=None, method="qwyc", random_state=0)
            run = fast.run(X)
            probabilities = fast.predict_proba(X)
            np.testing.assert_array_equal(run.labels, fast.predict(X))
            rule, order = fast.plan.stop, fast.plan.order
            sums = rule.increments(forest)[forest.apply(X)][:, order].cumsum(axis=1)
            if n_classes == 2:
                stops = np.stack([rule.side_of(0, i + 1, sums[:, i]) for i in range(len(order))], axis=1) > 0
            else:
                two = np.sort(sums + rule.start(forest), axis=2)[:, :, -2:].astype(np.int64)
                stops = two[:, :, 1] - two[:, :, 0] >= rule.lead[1:]
            stops[:, -1] = True
            np.testing.assert_array_equal(run.trees, stops.argmax(axis=1) + 1)
            stopped = ~run.complete
            np.testing.assert_array_equal(probabilities.argmax(axis=1)[stopped], forest.codes_of(run.labels)[stopped])
            for row in range(0, len(X), 37):  # one row alone is walked by another kernel
                assert fast.run(X[row : row + 1]).trees[0] == run.trees[row]
                assert fast.predict(X[row : row + 1])[0] == run.labels[row]
                np.testing.assert_array_equal(fast.predict_proba(X[row : row + 1])[0], probabilities[row])
    forest = complete_forest(12, 4, n_features, 1 + n_features % 2, seed=n_features)
    for n_lanes in (1, 2, 3, 8, 15, 40)[n_features % 2 :: 2]:
        for n_sentinels, n_edges in ((3, 2), (11, 70)):
            X = rows[::n_sentinels]
            options = {"n_lanes": n_lanes, "n_sentinels": n_sentinels, "n_edges": n_edges, "share": 0.05}
            order = rng.permutation(12).astype(np.int32)
            rule = random_rule(rng, forest, order, X, **options)
            run = scurry.Predictor(forest, scurry.Plan(order=order, stop=rule)).run(X)
            trees, estimates, at = sentinel_answers(forest, order, rule, X)
            np.testing.assert_array_equal(run.trees, trees)
            stopped = at < n_sentinels
            bounds = (0, 1) if forest.n_classes else (-np.inf, np.inf)
            expected = np.where(stopped, estimates.clip(*bounds), reference.scores(forest, X)[:, -1])
            np.testing.assert_array_equal(run.scores, expected)
"""


@pytest.mark.parametrize("level", LEVELS)
def test_all_levels_give_the_same_bits(level):
    run_script(SCRIPT, level)
