"""Early exit with a promise about the top k of queries."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.promises import TopK
from scurry.verbs.planners.by_ranks import critical_cautions, lean, rank_sentinels

N_DOCUMENTS = 25


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400 * N_DOCUMENTS, 6)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    model = GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=0).fit(X[:2500], y[:2500])
    return model, X[2500:], np.arange(len(X) - 2500) // N_DOCUMENTS


def best_of(scores, queries, k):
    """The k best documents of each query, by plain sorting."""
    found = []
    for query in np.unique(queries):
        rows = np.flatnonzero(queries == query)
        found.append(rows[np.argsort(-scores[rows], kind="stable")][:k].tolist())
    return found


@pytest.mark.parametrize("keep", ["order", "set"])
def test_the_certificate_counts_what_happens(ranked, keep):
    """Queries that certify are those that did not fit; on them, the plan changes as many as it says."""
    model, X, queries = ranked
    promise = TopK(5, 0.05, keep=keep)
    fast = scurry.early_exit(model, X, groups=queries, promise=promise, method="sentinels")
    certificate, measured = fast.certificate, fast.certificate.measured
    # As many of 124 queries may change as of 150.
    assert (fast.promise, certificate.unit, certificate.n_rows) == (promise, "group", 124)
    assert measured.mean_documents == N_DOCUMENTS
    assert measured.mean_trees < 0.8 * 60
    run, full = fast.run(X, groups=queries), fast.forest.predict(X)
    ours, own = best_of(run.scores, queries, 5), best_of(full, queries, 5)
    changed = [sorted(a) != sorted(b) if keep == "set" else a != b for a, b in zip(ours, own, strict=True)]
    # The fit is the same for all queries; those that fitted it may change too.
    assert certificate.n_broken <= sum(changed) <= 0.1 * 300
    assert certificate.bound <= 0.05
    if keep == "order":
        top = np.concatenate(ours)
        np.testing.assert_array_equal(run.scores[top], full[top])
    assert "trees per document" in str(fast.summary())


def test_sets_save_more_and_fit_rows_leave_more_queries(ranked):
    model, X, queries = ranked
    trees = {}
    for keep in ("order", "set"):
        promise = TopK(5, 0.05, keep=keep)
        fast = scurry.early_exit(model, X, groups=queries, promise=promise, method="sentinels")
        trees[keep] = fast.certificate.measured.mean_trees
    assert trees["set"] < trees["order"]
    fitted = scurry.early_exit(model, X[2500:], X_fit=X[:2500], groups=queries[2500:], promise=TopK(5, 0.05))
    assert (fitted.certificate.n_rows, fitted.certificate.n_fit_rows) == (153, 2500)  # as many may change as of 160


def test_documents_do_not_leave_when_hardly_a_tree_is_left(ranked):
    model, X, queries = ranked
    fast = scurry.early_exit(model, X, groups=queries, promise=TopK(5, 0.05), method="sentinels")
    assert 0.5 * 60 < fast.plan.stop.sentinels.max() <= 0.93 * 60 + 0.5
    small = GradientBoostingRegressor(n_estimators=2, random_state=0).fit(X[:500], X[:500, 0])
    fast = scurry.early_exit(small, X, groups=queries, promise=TopK(5, 0.05), method="sentinels")
    assert fast.plan.stop.sentinels.tolist() in ([], [1])


def test_critical_cautions_are_those_at_which_a_sentinel_changes_the_best():
    """By trying each caution: a document is out below the k-th least estimate, and in above the others' largest."""
    rng = np.random.default_rng(3)
    cautions, n_critical = np.geomspace(40.0, 0.01, 400), 0
    for n_documents in (3, 4, 7, 12):
        estimates = -np.sort(rng.normal(size=(1, n_documents))) + rng.normal(scale=1.5, size=(5, n_documents))
        reach = rng.uniform(0.1, 0.3, size=estimates.shape)
        found = critical_cautions(estimates, reach, 3)
        for middle, far, critical in zip(estimates, reach, found, strict=True):
            changes = []
            for caution in cautions:
                low, high = middle - caution * far, middle + caution * far
                is_out = high < np.sort(low)[-3]
                is_in = low > np.sort(high)[-4] if n_documents > 3 else np.ones(3, bool)
                changes.append(bool(is_out[:3].any() or is_in[3:].any()))
            assert changes == (cautions < critical).tolist()
            n_critical += critical > 0
    assert n_critical > 5
    assert critical_cautions(np.array([[3.0, 2.0, 1.0]]), np.zeros((1, 3)), 1).tolist() == [0.0]


def test_rules_lean_towards_sentinels_where_mistakes_are_likely():
    falling = np.geomspace(4.0, 1.0, 9)[:, None] * np.ones(50)
    factors = lean(falling)
    assert (np.diff(factors) < 0).all()
    assert np.exp(np.mean(np.log(factors))) == pytest.approx(1.0)
    assert 1.0 < factors[0] / factors[-1] < 4.0  # not by all that few queries say
    assert lean(np.zeros((5, 20))).tolist() == [1.0] * 5
    assert lean(np.full((1, 20), 3.0)).tolist() == [1.0]


@pytest.mark.parametrize("n_trees", [1, 2, 3, 10, 60, 1000])
def test_sentinels_rise_and_stay_below_all_trees(n_trees):
    sentinels = rank_sentinels(n_trees)
    assert (np.diff(sentinels) > 0).all()
    assert ((sentinels >= 1) & (sentinels < n_trees)).all()
    assert len(sentinels) > 0 or n_trees == 1


def test_neither_order_nor_seed_matter(ranked, tmp_path):
    model, X, queries = ranked
    promise, shuffled = TopK(5, 0.05), np.random.default_rng(1).permutation(len(X))
    one = scurry.early_exit(model, X, groups=queries, promise=promise, random_state=0)
    other = scurry.early_exit(
        model, X[shuffled], groups=np.array([f"query {q}" for q in queries[shuffled]]), promise=promise, random_state=1
    )
    assert one.certificate.n_rows == other.certificate.n_rows
    again = scurry.early_exit(model, X, groups=queries, promise=promise, random_state=5)
    assert again.certificate.measured == one.certificate.measured
    one.save(tmp_path / "ranks.scurry")
    loaded = scurry.load(tmp_path / "ranks.scurry")
    assert (loaded.promise, loaded.certificate.measured) == (promise, one.certificate.measured)


def test_misuse(ranked):
    model, X, queries = ranked
    promise = TopK(5, 0.05)
    with pytest.raises(InputError, match="groups is needed"):
        scurry.early_exit(model, X, promise=promise)
    with pytest.raises(InfeasibleError, match="at least 597 queries") as error:
        scurry.early_exit(model, X, groups=queries, promise=TopK(5, 0.01))
    assert error.value.n_rows_needed == 597
    with pytest.raises(InfeasibleError, match=r"0 are left to test the rule \(half of X_cal finds it\)"):
        scurry.early_exit(model, X, groups=np.zeros(len(X)), promise=promise)
    with pytest.raises(InputError, match="no query has more than 25 documents"):
        scurry.early_exit(model, X, groups=queries, promise=TopK(25, 0.05))
    with pytest.raises(InputError, match='needs method="auto"'):
        scurry.early_exit(model, X, groups=queries, promise=promise, method="qwyc")
    with pytest.raises(InputError, match="by= cannot be used with TopK"):
        scurry.early_exit(model, X, groups=queries, by=queries % 2, promise=promise)
    with pytest.raises(InputError, match="costs is for promises about labels"):
        scurry.early_exit(model, X, groups=queries, promise=promise, costs="steps")
    y = X[:2500, 0]
    for other, target in ((GradientBoostingClassifier(n_estimators=3), np.rint(y)), (RandomForestRegressor(3), y)):
        with pytest.raises(InputError, match="for boosted trees with one score"):
            scurry.early_exit(other.fit(X[:2500], target), X[2500:], groups=queries[2500:], promise=promise)
    classifier = GradientBoostingClassifier(n_estimators=3).fit(X[:2500], y > 0)
    with pytest.raises(InputError, match="threshold is for promises about labels"):
        scurry.early_exit(classifier, X[2500:], groups=queries[2500:], promise=promise, threshold=0.3)
    for wrong in (-0.1, 0, 1.5):
        with pytest.raises(InputError, match="max_changed"):
            TopK(5, wrong)
    with pytest.raises(InputError, match="k must be"):
        TopK(0)
    for groups in (queries[:-1], np.where(queries == 3, np.nan, queries)):
        with pytest.raises(InputError, match="groups has"):
            scurry.early_exit(model, X, groups=groups, promise=promise)


def test_scores_without_rank_are_refused(ranked):
    model, X, queries = ranked
    forest = scurry.from_model(model)
    value = forest.value.copy()
    value[forest.is_leaf] *= 1e308
    with pytest.raises(InputError, match="as NaN or infinite, which have no rank"), np.errstate(all="ignore"):
        scurry.early_exit(forest.replace(value=value), X, groups=queries, promise=TopK(5, 0.05))


def test_classifiers_and_links_rank_by_their_scores(ranked):
    """The score before the link ranks as the probability does, but where the link rounds two to one."""
    _, X, queries = ranked
    promise, target = TopK(5, 0.05), np.where(X[:2500, 0] + X[:2500, 1] > 0, "yes", "no")
    model = GradientBoostingClassifier(n_estimators=40, random_state=0).fit(X[:2500], target)
    fast = scurry.early_exit(model, X[2500:], groups=queries[2500:], promise=promise, method="sentinels")
    assert "ranked by the score of class 'yes'; answers are scores, not classes" in str(fast.summary())
    run, full = fast.run(X, groups=queries), model.decision_function(X)
    assert run.mean_trees < 0.8 * 40
    is_complete = run.complete
    np.testing.assert_allclose(run.scores[is_complete], full[is_complete])
    changed = [a != b for a, b in zip(best_of(run.scores, queries, 5), best_of(full, queries, 5), strict=True)]
    assert np.mean(changed) < 0.08


def test_rows_to_fit_need_no_queries_as_long_as_the_others(ranked):
    """Queries that fit the rule may all be shorter than k, where a few others are longer."""
    model, X, queries = ranked
    short = np.where(queries < queries.max() - 3, np.arange(len(X)) // 3, queries + len(X))
    fast = scurry.early_exit(model, X, groups=short, promise=TopK(5, 0.05))
    assert fast.certificate.n_broken <= 4  # all other queries are shorter than k, and nobody leaves them
    assert fast.certificate.measured.mean_trees > 0.9 * 60


def test_documents_stay_where_comparing_them_saves_no_time(ranked, tmp_path):
    """60 small trees take less time than comparing documents: "auto" evaluates all of them, and says so."""
    model, X, queries = ranked
    fast = scurry.early_exit(model, X, groups=queries, promise=TopK(5, 0.05))
    assert len(fast.plan.stop.sentinels) == 0
    assert "no document leaves; documents need" in str(fast.summary())
    assert "takes no longer in batches" in str(fast.summary())
    assert (fast.certificate.n_broken, fast.certificate.measured.mean_trees) == (0, 60.0)
    fast.save(tmp_path / "all.scurry")
    for predictor in (fast, scurry.load(tmp_path / "all.scurry")):
        run = predictor.run(X, groups=queries)
        np.testing.assert_array_equal(run.scores, fast.forest.predict(X))
        assert run.complete.all()
    asked_for = scurry.early_exit(model, X, groups=queries, promise=TopK(5, 0.05), method="sentinels")
    assert len(asked_for.plan.stop.sentinels) > 0
    assert "takes no longer in batches" in str(asked_for.summary())
