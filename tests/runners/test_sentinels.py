"""Sentinel plans against a plain replay of their definition, for any batch, order of rows and number of threads."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import Forest, Plan, Predictor
from scurry.display import EarlyExitDisplay
from scurry.errors import InputError
from scurry.forest import reference
from support.sentinel_oracle import random_rule, sentinel_answers
from support.strategies import complete_forest

KINDS = {
    "regressor": {"n_columns": 1},
    "boosted regressor": {"n_columns": 1, "aggregation": "sum", "base_score": [0.3], "link": "exp"},
    "float32 regressor": {"n_columns": 1, "aggregation": "sum", "score_dtype": "float32"},
    "forest": {"n_columns": 2},
    "votes": {"n_columns": 2, "aggregation": "vote"},
    "boosted": {"n_columns": 1, "aggregation": "sum", "classes": [3, 7], "link": "logistic"},
    "float32 boosted": {
        "n_columns": 1,
        "aggregation": "sum",
        "classes": [3, 7],
        "link": "logistic",
        "score_dtype": "float32",
        "decision_threshold": 15.0,
    },
    "a score per class": {
        "n_columns": 1,
        "aggregation": "sum",
        "classes": ["no", "yes"],
        "link": "softmax",
        "tree_output": np.arange(30, dtype=np.int32) % 2,
        "base_score": [0.1, -0.2],
    },
}


def forest_of(kind: str, depth: int, seed: int, n_features: int = 6) -> Forest:
    options = dict(KINDS[kind])
    n_columns = options.pop("n_columns")
    return complete_forest(30, depth, n_features, n_columns, seed=seed, **options)


def own_scores(forest: Forest, X: np.ndarray) -> np.ndarray:
    scores = reference.scores(forest, X)
    return scores[:, 1] - scores[:, 0] if forest.n_outputs == 2 and forest.aggregation == "sum" else scores[:, -1]


def check(predictor: Predictor, X: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Compare all answers with the definition; return which rows stopped."""
    forest, rule = predictor.forest, predictor.plan.stop
    trees, estimates, at = sentinel_answers(forest, predictor.plan.order, rule, X)
    stopped = at < len(rule.sentinels)
    if forest.n_classes == 2 and forest.aggregation != "sum":
        estimates = estimates.clip(0, 1)
    estimates = estimates.astype(forest.score_dtype).astype(np.float64)
    run = predictor.run(X, n_threads)
    np.testing.assert_array_equal(run.trees, trees)
    np.testing.assert_array_equal(run.complete, ~stopped)
    np.testing.assert_array_equal(run.scores, np.where(stopped, estimates, own_scores(forest, X)))
    np.testing.assert_array_equal(run.labels, predictor.predict(X, n_threads))
    np.testing.assert_array_equal(run.labels[~stopped], forest.predict(X)[~stopped])
    depth = forest.node_depth[forest.apply(X)][:, predictor.plan.order]
    np.testing.assert_array_equal(run.steps, (depth * (np.arange(forest.n_trees) < trees[:, None])).sum(axis=1))
    if forest.classes is None:
        linked = forest.link_scores(run.scores[:, None])[:, 0]
        np.testing.assert_allclose(run.labels[stopped], linked[stopped], rtol=1e-6)
        return stopped
    probabilities = predictor.predict_proba(X, n_threads)
    np.testing.assert_array_equal(probabilities[~stopped], forest.predict_proba(X)[~stopped])
    np.testing.assert_allclose(probabilities[stopped].sum(axis=1), 1, rtol=1e-6)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    if forest.n_outputs == 1:
        decided = run.scores >= forest.decision_threshold
    else:
        decided = run.scores > (0 if forest.aggregation == "sum" else 0.5)
    np.testing.assert_array_equal(run.labels[stopped], forest.classes.take(decided.astype(int))[stopped])
    if forest.n_outputs == 2 or forest.decision_threshold == 0:
        np.testing.assert_array_equal(probabilities.argmax(axis=1)[stopped], decided[stopped])
    return stopped


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(sorted(KINDS)),
    n_rows=st.sampled_from([0, 1, 3, 5, 33, 64, 200, 700]),
    depth=st.integers(1, 9),
    n_features=st.sampled_from([2, 6, 20, 60]),
    n_sentinels=st.sampled_from([0, 1, 3, 8, 29]),
    n_lanes=st.sampled_from([1, 2, 3, 6, 14, 16, 17, 40]),
    spread=st.booleans(),
    n_edges=st.sampled_from([0, 1, 5, 80]),
    share=st.sampled_from([0.02, 0.1, 0.3]),
    missing=st.sampled_from([0.0, 0.1]),
)
def test_all_answers(seed, kind, n_rows, depth, n_features, n_sentinels, n_lanes, spread, n_edges, share, missing):
    rng = np.random.default_rng(seed)
    forest = forest_of(kind, depth, seed, n_features)
    rows = rng.normal(size=(n_rows + 200, n_features))
    rows[rng.random(rows.shape) < missing] = np.nan
    order = rng.permutation(30).astype(np.int32)
    options = {"n_sentinels": n_sentinels, "n_lanes": n_lanes, "spread": spread, "n_edges": n_edges, "share": share}
    rule = random_rule(rng, forest, order, rows[n_rows:], **options)
    check(Predictor(forest, Plan(order=order, stop=rule)), rows[:n_rows])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_batches_threads_and_single_rows_agree(kind):
    """Rows of several blocks, most of which stop sooner or later, so that rows move and epochs change."""
    rng = np.random.default_rng(3)
    forest, order = forest_of(kind, 5, 3), rng.permutation(30).astype(np.int32)
    X = rng.normal(size=(9000, 6))
    rule = random_rule(rng, forest, order, X[:500], n_sentinels=10, n_lanes=11, share=0.06)
    predictor = Predictor(forest, Plan(order=order, stop=rule))
    run = predictor.run(X)
    assert 0.1 < run.complete.mean() < 0.9
    stopped = check(predictor, X[:500])
    assert 0.1 < stopped.mean() < 0.9
    for n_threads in (2, 3):
        other = predictor.run(X, n_threads)
        for name in ("labels", "trees", "scores", "reason_codes"):
            np.testing.assert_array_equal(getattr(other, name), getattr(run, name))
    for some in (slice(0, 1), slice(5, 8), slice(10, 15), slice(100, 171), slice(4000, 8200)):
        part = predictor.run(X[some].astype(np.float64, order="F"))
        for name in ("labels", "trees", "scores", "reason_codes"):
            np.testing.assert_array_equal(getattr(part, name), getattr(run, name)[some])


@pytest.mark.parametrize("most", [1000, 2047, 2048, 40_000, 3_000_000])
def test_lanes_of_more_than_16_bits_answer_alike(most):
    """Trees between sentinels are added up in 16 bits, sixteen at a time, where that is enough."""
    rng = np.random.default_rng(5)
    forest, order = forest_of("boosted regressor", 4, 5), rng.permutation(30).astype(np.int32)
    X = rng.normal(size=(300, 6))
    rule = random_rule(rng, forest, order, X, n_sentinels=2, n_lanes=4, share=0.3, most=most)
    lanes = rule.lanes.copy()
    lanes[::7] = most  # the largest sums that there can be
    predictor = Predictor(forest, Plan(order=order, stop=dataclasses.replace(rule, lanes=lanes)))
    check(predictor, X)


def test_two_lanes_and_a_sentinel_after_every_tree():
    """The running variance of a forest's trees: a sum and a sum of squares."""
    rng = np.random.default_rng(0)
    forest = complete_forest(40, 6, 6, 1, seed=1)
    lanes = np.empty((forest.n_nodes, 2), np.int32)
    lanes[:, 0] = np.rint(forest.value[:, 0] * 1000)
    lanes[:, 1] = lanes[:, 0] ** 2 // 100
    r = np.arange(2, 40)
    rule = random_rule(rng, forest, np.arange(40, dtype=np.int32), rng.normal(size=(10, 6)), n_sentinels=38, n_lanes=2)
    values = {
        "sentinels": r.astype(np.int32),
        "lanes": lanes,
        "lane": np.zeros(38, np.int32),
        "spread_lane": 1,
        "scale": 1 / (1000 * r),
        "offset": np.zeros(38),
        "square": 1 / (100 * r),
        "edge_offset": np.zeros(39, np.uint32),
        "edges": np.empty(0, np.int32),
        "limits": 60.0 * r * r,
    }
    predictor = Predictor(forest, Plan(order=rng.permutation(40).astype(np.int32), stop=type(rule)(**values)))
    stopped = check(predictor, rng.normal(size=(900, 6)))
    trees = predictor.run(rng.normal(size=(5000, 6))).trees
    assert stopped.mean() > 0.5
    assert len(np.unique(trees)) > 20


def test_regressors_have_no_probabilities():
    forest, order = forest_of("regressor", 3, 0), np.arange(30, dtype=np.int32)
    rule = random_rule(np.random.default_rng(0), forest, order, np.zeros((9, 6)))
    with pytest.raises(InputError, match="has no probabilities; use predict"):
        Predictor(forest, Plan(order=order, stop=rule)).predict_proba(np.zeros((2, 6)))


@pytest.fixture(params=["boosted regressor", "boosted"])
def fast(request):
    """A predictor, rows, and targets."""
    rng = np.random.default_rng(1)
    forest, order, X = forest_of(request.param, 4, 1), rng.permutation(30).astype(np.int32), rng.normal(size=(400, 6))
    rule = random_rule(rng, forest, order, X, share=0.1)
    return Predictor(forest, Plan(order=order, stop=rule)), X, forest.predict(X)


def test_files_and_other_processes_answer_alike(fast, tmp_path):
    predictor, X, _ = fast
    predictor.save(tmp_path / "plan.scurry")
    run = predictor.run(X)
    for other in (scurry.load(tmp_path / "plan.scurry"), pickle.loads(pickle.dumps(predictor))):
        assert other.digest == predictor.digest
        np.testing.assert_array_equal(other.run(X).scores, run.scores)
        np.testing.assert_array_equal(other.predict(X), run.labels)


def test_batches_of_files(fast, tmp_path):
    predictor, X, _ = fast
    pd.DataFrame(X, columns=[f"x{i}" for i in range(6)]).to_parquet(tmp_path / "rows.parquet")
    answer = "label" if predictor.forest.is_classifier else "prediction"
    scurry.batch.score(tmp_path / "rows.parquet", predictor, tmp_path / "out", columns=[answer, "trees"])
    out, run = pd.read_parquet(tmp_path / "out"), predictor.run(X)
    np.testing.assert_array_equal(out[answer], run.labels)
    np.testing.assert_array_equal(out["trees"], run.trees)


def test_reports_plots_and_bills(fast, tmp_path):
    predictor, X, y = fast
    text = scurry.report.write(predictor, tmp_path / "page.html", X, y).read_text(encoding="utf-8")
    assert "trees evaluated per row" in text
    display = EarlyExitDisplay.from_predictor(predictor, X)
    assert display.ax_.get_ylabel() == "share of rows"
    with pytest.raises(InputError, match='kind="work" shows it'):
        EarlyExitDisplay.from_predictor(predictor)
    bill = scurry.evaluation.feature_bill(predictor, X)
    assert bill.mean_cost <= scurry.evaluation.feature_bill(predictor.forest, X).mean_cost
    assert "forest" in str(predictor.summary())


def test_what_sentinels_refuse(fast):
    predictor, X, _ = fast
    with pytest.raises(InputError, match="needs all features of a row before it starts"):
        predictor.start_row()
    with pytest.raises(InputError, match="needs all features of a row"):
        predictor.acquire(lambda row, feature: 0.0)
    with pytest.raises(InputError, match="need a plan that can stop after any step"):
        predictor.predict(X, max_steps=3)
