"""Top k of queries: the golden cases, and a plain replay of every query by the definition."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InputError
from scurry.plan import TopKRule
from support.strategies import complete_forest

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "promises" / "ranking.json").read_text())["cases"]


def replay(
    rule: TopKRule, sums: list[np.ndarray], spreads: list[np.ndarray], own: np.ndarray, dtype: str
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Trees, scores and the k best documents of one query, in their order; sums at each sentinel and own scores."""
    n, inside, taken = len(own), set(range(len(own))), []
    left_at, scores = np.full(n, -1), own.copy()
    for j, of_lane in enumerate(sums):
        has_spread = rule.spread_lane >= 0
        reach = np.floor(rule.limits[j] * np.maximum(spreads[j], 0)) if has_spread else np.zeros(n)
        apart = 0 if has_spread else rule.limits[j]
        least, most = of_lane - reach, of_lane + reach
        by_least, by_most = sorted(least[list(inside)])[::-1], sorted(most[list(inside)])[::-1]
        n_open = rule.k - len(taken)
        out, sure = set(), set()
        for d in inside:
            if len(inside) <= n_open:
                if rule.keep == "set":
                    sure.add(d)
            elif n_open == 0 or by_least[n_open - 1] - most[d] > apart:
                out.add(d)
            elif rule.keep == "set" and least[d] - by_most[n_open] > apart:
                sure.add(d)
        for d in out | sure:
            left_at[d], scores[d] = j, (rule.offset[j] + rule.scale[j] * of_lane[d]).astype(dtype)
        taken += sure
        inside -= out | sure
    best = taken + sorted(inside, key=lambda d: (-own[d], d))[: rule.k - len(taken)]
    return left_at, scores, sorted(best, key=lambda d: (-scores[d], d))


def check(predictor: Predictor, X: np.ndarray, groups: np.ndarray, n_threads: int = 1) -> np.ndarray:
    forest, rule, order = predictor.forest, predictor.plan.stop, predictor.plan.order
    run = predictor.run(X, n_threads, groups=groups)
    np.testing.assert_array_equal(run.labels, predictor.predict(X, n_threads, groups=groups))
    sums = rule.lanes[forest.apply(X)[:, order]].cumsum(axis=1, dtype=np.int64)
    own = forest.predict(X)
    for query in set(groups.tolist()):
        rows = np.flatnonzero(groups == query)
        at = [sums[rows, n_trees - 1, lane] for n_trees, lane in zip(rule.sentinels, rule.lane, strict=True)]
        spreads = [sums[rows, n_trees - 1, rule.spread_lane] for n_trees in rule.sentinels]
        left_at, scores, best = replay(rule, at, spreads, own[rows], forest.score_dtype)
        np.testing.assert_array_equal(run.trees[rows], np.append(rule.sentinels, forest.n_trees)[left_at])
        np.testing.assert_array_equal(run.complete[rows], left_at == -1)
        found = run.scores[rows]
        ranked = np.lexsort((np.arange(len(rows)), -found))
        assert set(ranked[: rule.k].tolist()) == set(best)
        if rule.keep == "order":
            assert ranked[: rule.k].tolist() == best
            np.testing.assert_array_equal(found[left_at == -1], own[rows][left_at == -1])
        np.testing.assert_array_equal(found[best], scores[best])
        others = np.setdiff1d(np.arange(len(rows)), best)
        worst = scores[best].min(initial=np.inf)
        is_lowered = found[others] != scores[others]
        np.testing.assert_array_equal(found[others][is_lowered], np.nextafter(worst, -np.inf))
        assert (scores[others][is_lowered] >= worst).all()
    return run.trees


def table_forest(values: list[list[int]]) -> Forest:
    """One feature, the number of the document; each tree has one leaf for each document, with its value there."""
    n, trees = len(values), []
    for t in range(len(values[0])):
        tree = {"feature": [], "threshold": [], "left": [], "right": [], "value": []}
        for d in range(n):
            if d + 1 < n:
                tree["feature"] += [0, -1]
                tree["threshold"] += [d + 0.5, 0]
                tree["left"] += [2 * d + 1, -1]
                tree["right"] += [2 * d + 2, -1]
                tree["value"] += [[0.0], [float(values[d][t])]]
            else:
                tree["feature"] += [-1]
                tree["threshold"] += [0]
                tree["left"] += [-1]
                tree["right"] += [-1]
                tree["value"] += [[float(values[d][t])]]
        trees.append(tree)
    return Forest.from_trees(trees, classes=None, aggregation="sum")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['docs'])} documents")
def test_golden_cases(case):
    forest, n = table_forest(case["docs"]), len(case["docs"])
    n_sentinels = len(case["sentinels"])
    rule = TopKRule(
        k=case["k"],
        sentinels=np.array(case["sentinels"], np.int32),
        lanes=forest.value.astype(np.int32),
        lane=np.zeros(n_sentinels, np.int32),
        scale=np.ones(n_sentinels),
        offset=np.zeros(n_sentinels),
        limits=np.array(case["limits"], float),
    )
    predictor = Predictor(forest, Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=rule))
    X, expected = np.arange(n, dtype=np.float32)[:, None], case["expected"]
    run = predictor.run(X, groups=np.zeros(n))
    for entry in expected["log"]:
        assert np.flatnonzero(run.trees == entry["sentinel"]).tolist() == entry["left"]
    assert run.trees.sum() == expected["doc_trees"]
    ranked = np.lexsort((np.arange(n), -run.scores))
    assert ranked[: case["k"]].tolist() == expected["top"]
    assert np.lexsort((np.arange(n), -forest.predict(X)))[: case["k"]].tolist() == expected["full_top"]


def random_plan(
    rng: np.random.Generator, forest: Forest, k: int, keep: str, n_sentinels: int, limit: float, spread: bool = False
) -> Plan:
    n_lanes = int(rng.integers(1, 20))
    units = np.rint(1000 * forest.value) + rng.integers(-50, 51, (forest.n_nodes, n_lanes))
    if spread:
        units = np.column_stack([rng.integers(0, 200, forest.n_nodes), units])
    sentinels = np.sort(rng.choice(np.arange(1, forest.n_trees), n_sentinels, replace=False)).astype(np.int32)
    rule = TopKRule(
        k=k,
        keep=keep,
        sentinels=sentinels,
        lanes=units.astype(np.int32),
        lane=rng.integers(0, n_lanes, n_sentinels).astype(np.int32) + spread,
        scale=np.full(n_sentinels, forest.n_trees / 1000) / sentinels,
        offset=rng.normal(size=n_sentinels) / 10,
        spread_lane=0 if spread else -1,
        limits=5 * limit * np.sqrt(forest.n_trees - sentinels) / sentinels
        if spread
        else np.rint(limit * 1000 * np.sqrt(forest.n_trees - sentinels)),
    )
    return Plan(order=rng.permutation(forest.n_trees).astype(np.int32), stop=rule)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 12),
    keep=st.sampled_from(["order", "set"]),
    n_queries=st.integers(1, 40),
    n_sentinels=st.integers(0, 8),
    limit=st.sampled_from([0.0, 0.05, 0.2, np.inf]),
    depth=st.sampled_from([1, 3, 6]),
    contiguous=st.booleans(),
    spread=st.booleans(),
)
def test_queries_against_the_definition(seed, k, keep, n_queries, n_sentinels, limit, depth, contiguous, spread):
    rng = np.random.default_rng(seed)
    forest = complete_forest(20, depth, 4, 1, seed=seed)
    groups = rng.integers(0, n_queries, int(rng.integers(0, 400)))
    if contiguous:
        groups.sort()
    X = rng.normal(size=(len(groups), 4))
    check(Predictor(forest, random_plan(rng, forest, k, keep, n_sentinels, limit, spread)), X, groups)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("keep", ["order", "set"])
def test_threads_blocks_and_single_queries_agree(keep, spread, tmp_path):
    rng = np.random.default_rng(0)
    forest = complete_forest(40, 5, 6, 1, seed=1, aggregation="sum", score_dtype="float32")
    sizes = np.append(rng.integers(1, 80, 300), 6000)  # the last query is larger than a block
    groups, X = np.repeat(np.arange(301), sizes), rng.normal(size=(sizes.sum(), 6))
    predictor = Predictor(forest, random_plan(rng, forest, 5, keep, 6, 0.02, spread))
    run = predictor.run(X, groups=groups)
    assert 1 < run.mean_trees < 39
    check(predictor, X[-7000:], groups[-7000:])
    shuffled = rng.permutation(len(X))
    names = pd.Series(groups[shuffled]).map(lambda query: f"query {query}")
    predictor.save(tmp_path / "ranks.scurry")
    others = [
        (slice(None), predictor.run(X, 3, groups=groups)),
        (shuffled, scurry.load(tmp_path / "ranks.scurry").run(X[shuffled], groups=names)),
        (groups == 7, predictor.run(X[groups == 7], groups=groups[groups == 7])),
    ]
    for rows, other in others:
        np.testing.assert_array_equal(other.trees, run.trees[rows])
        np.testing.assert_array_equal(other.reason_codes, run.reason_codes[rows])
        # Of documents with equal own scores the earlier is the better, so shuffling may exchange them.
        np.testing.assert_array_equal(other.scores, run.scores[rows])


def test_misuse():
    rng = np.random.default_rng(0)
    forest = complete_forest(20, 3, 4, 1)
    predictor, X = Predictor(forest, random_plan(rng, forest, 3, "order", 3, 0.1)), rng.normal(size=(6, 4))
    for call in (predictor.predict, predictor.run):
        with pytest.raises(InputError, match=r"top 3 of every query.* call predict\(X, groups=…\)"):
            call(X)
    with pytest.raises(InputError, match="no probabilities"):
        predictor.predict_proba(X)
    for groups in ([1, 2, 3], np.zeros((6, 1)), 5):
        with pytest.raises(InputError, match="must name the query of each of the 6 rows"):
            predictor.predict(X, groups=groups)
    with pytest.raises(InputError, match="missing values"):
        predictor.predict(X, groups=[1, 1, np.nan, 2, 2, 2])
    with pytest.raises(InputError, match="one kind"):
        predictor.predict(X, groups=np.array([1, "a", 1, 1, 2, 2], object))
    with pytest.raises(InputError, match="answers each row by itself"):
        Predictor.full(forest).predict(X, groups=np.zeros(6))
