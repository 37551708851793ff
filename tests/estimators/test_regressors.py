"""EarlyExitRegressor: scikit-learn's rules, its budget, and what it promises.

EarlyExitRanker: queries are not divided, the promise is about them, and misuse is refused.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier, LGBMRanker, LGBMRegressor
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from xgboost import XGBRanker

import scurry
from scurry import EarlyExitRanker, EarlyExitRegressor
from scurry.errors import InputError
from scurry.promises import TopK, Values


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=len(X))


@pytest.mark.filterwarnings("ignore:.*every tree is evaluated:UserWarning")
@parametrize_with_checks([EarlyExitRegressor(RandomForestRegressor(5)), EarlyExitRegressor(max_error=1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model", [GradientBoostingRegressor(random_state=0), RandomForestRegressor(30, random_state=0)]
)
def test_it_keeps_a_quarter_of_the_rmse(rows, model):
    X, y = rows
    fast = EarlyExitRegressor(model, calibration_size=0.4, random_state=0).fit(X[:3000], y[:3000])
    promise = fast.predictor_.certificate.promise
    full = fast.estimator_.predict(X[3000:])
    rmse = np.sqrt(np.mean((full - y[3000:]) ** 2))
    assert promise.max_error == pytest.approx(rmse / 4, rel=0.2)
    run = fast.run(X[3000:])
    assert run.mean_trees < 0.9 * fast.forest_.n_trees
    assert (np.abs(run.labels - full) > promise.max_error).mean() < 0.08
    assert np.sqrt(np.mean((fast.predict(X[3000:]) - y[3000:]) ** 2)) < 1.04 * rmse
    assert fast.score(X[3000:], y[3000:]) > 0.5
    # Rows that measured the RMSE certify nothing.
    assert fast.predictor_.certificate.n_rows == 960


def test_a_budget_given_later_calibrates_again(rows):
    X, y = rows
    model = GradientBoostingRegressor(random_state=0).fit(X[:1000], y[:1000])
    fast = EarlyExitRegressor(model, max_error=0.2, random_state=0).fit(X[1000:3000])
    assert fast.predictor_.certificate.promise == Values(0.2)
    loose = fast.run(X[3000:], max_error=0.6)
    assert loose.mean_trees < fast.run(X[3000:]).mean_trees
    assert fast.predict(X[3000:], max_error=0.6).tolist() == loose.labels.tolist()
    with pytest.raises(InputError, match="max_error is EarlyExitRegressor's"):
        fast.predict(X, max_disagreement=0.1)


def test_frames_and_arrays_give_the_same_answers(rows):
    X, y = rows
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names).assign(d=pd.Categorical(np.where(X[:, 3] > 0, "up", "down")))
    model = LGBMRegressor(n_estimators=40, verbose=-1, n_jobs=1)
    fast = EarlyExitRegressor(model, calibration_size=0.4, random_state=0).fit(frame[:3000], y[:3000])
    expected = fast.predict(frame[3000:])
    assert np.array_equal(fast.predict(pl.from_pandas(frame[3000:])), expected)
    assert np.abs(expected - fast.estimator_.predict(frame[3000:])).mean() < 0.5


def test_cross_validation_clones_it(rows):
    X, y = rows
    scores = cross_val_score(EarlyExitRegressor(GradientBoostingRegressor(), random_state=0), X[:1500], y[:1500], cv=3)
    assert (scores > 0.4).all()


def test_misuse(rows):
    X, y = rows
    with pytest.raises(InputError, match="use EarlyExitClassifier"):
        EarlyExitRegressor(RandomForestClassifier(3)).fit(X[:100], y[:100])
    fitted = GradientBoostingRegressor(n_estimators=5).fit(X[:300], y[:300])
    with pytest.raises(InputError, match="max_error is needed"):
        EarlyExitRegressor(fitted).fit(X[300:800])
    with pytest.raises(InputError, match="must be a regressor"):
        EarlyExitRegressor("x").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        EarlyExitRegressor(GradientBoostingRegressor()).fit(X[:100], np.full(100, np.nan))
    with pytest.raises(InputError, match="max_error must be a number above 0"):
        EarlyExitRegressor(fitted, max_error=0).fit(X[300:800], y[300:800])


def test_what_cannot_be_promised_is_evaluated_in_full(rows):
    X, y = rows
    with pytest.warns(UserWarning, match="every tree is evaluated"):
        few = EarlyExitRegressor(GradientBoostingRegressor(n_estimators=5), max_error=0.1, max_share=0.001).fit(
            X[:200], y[:200]
        )
    assert few.run(X).mean_trees == 5
    same = EarlyExitRegressor(GradientBoostingRegressor(n_estimators=5), max_error=0.1).fit(X[:200], np.ones(200))
    assert "same value" in same.predictor_.certificate.why
    assert isinstance(same.predictor_, scurry.Predictor)
    assert (same.predict(X) == 1).all()


N_DOCUMENTS = 16


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600 * N_DOCUMENTS, 5))
    y = np.clip(np.rint(1.5 + X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))), 0, 4).astype(int)
    return X, y, np.arange(len(X)) // N_DOCUMENTS


def best_of(scores, queries, k):
    return [np.argsort(-scores[queries == query], kind="stable")[:k].tolist() for query in np.unique(queries)]


def make(model, **options):
    options = {"k": 4, "max_changed": 0.05, "calibration_size": 0.4, "random_state": 0} | options
    return EarlyExitRanker(model, **options)


@pytest.fixture
def documents_leave(monkeypatch):
    """Let documents leave small models too, where evaluating all trees takes less time."""
    monkeypatch.setattr("scurry.verbs.planners.by_ranks.explain_speed", lambda *_: "")


@pytest.mark.parametrize(
    "model",
    [
        LGBMRanker(n_estimators=40, verbose=-1, n_jobs=1),
        XGBRanker(n_estimators=40, max_depth=4, n_jobs=1),
        GradientBoostingRegressor(n_estimators=40),
        LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.usefixtures("documents_leave")
def test_it_ranks_as_its_estimator_with_fewer_trees(ranked, model):
    X, y, queries = ranked
    new = queries >= 500
    targets = np.where(y > 2, "good", "bad") if isinstance(model, LGBMClassifier) else y
    # Rows of a query lie anywhere: those that train are sorted, as frameworks want them.
    shuffled = np.random.default_rng(1).permutation(np.flatnonzero(~new))
    fast = make(model).fit(X[shuffled], targets[shuffled], groups=queries[shuffled])
    certificate = fast.predictor_.certificate
    assert certificate.promise == TopK(4, 0.05)
    # Queries: a fifth of those held out fits the rule besides the training rows, as do those that allow no change more.
    assert certificate.n_rows == 153
    run = fast.run(X[new], groups=queries[new])
    assert run.mean_trees < 0.8 * fast.forest_.n_trees
    np.testing.assert_array_equal(fast.predict(X[new], groups=queries[new]), run.labels)
    own = fast.estimator_
    full = own.predict(X[new], raw_score=True) if isinstance(own, LGBMClassifier) else own.predict(X[new])
    changed = [a != b for a, b in zip(*(best_of(each, queries[new], 4) for each in (run.labels, full)), strict=True)]
    assert np.mean(changed) < 0.1


def test_queries_are_not_divided(ranked):
    X, y, queries = ranked
    seen = {}

    class Recorder(LGBMRanker):
        def fit(self, X, y, group=None, sample_weight=None):
            seen.update(X=X, group=group, weight=sample_weight)
            return super().fit(X, y, group=group, sample_weight=sample_weight)

    weight = np.arange(len(y)) + 1.0
    make(Recorder(n_estimators=20, verbose=-1, n_jobs=1)).fit(X, y, groups=queries, sample_weight=weight)
    assert set(seen["group"]) == {N_DOCUMENTS}
    assert len(seen["group"]) == 360
    rows = (seen["weight"] - 1).astype(int)
    np.testing.assert_array_equal(X[rows], seen["X"])
    assert len(np.unique(queries[rows])) == 360


def test_sizes_names_frames_and_numbers_give_the_same_answers(ranked, tmp_path):
    X, y, queries = ranked
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = LGBMRanker(n_estimators=30, verbose=-1, n_jobs=1).fit(frame[:1600], y[:1600], group=[N_DOCUMENTS] * 100)
    rest, names = frame[1600:], [f"query {query:03}" for query in queries[1600:]]
    expected = make(model).fit(rest, group=[N_DOCUMENTS] * 500).predict(rest, groups=queries[1600:])
    fast = make(model).fit(pl.from_pandas(rest), groups=names)
    np.testing.assert_array_equal(fast.predict(pl.from_pandas(rest), groups=names), expected)
    fast.save(tmp_path / "ranks.scurry")
    np.testing.assert_array_equal(scurry.load(tmp_path / "ranks.scurry").predict(rest, groups=names), expected)
    assert "another top 4 than the model's" in str(fast.summary())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_column_of_queries_is_no_feature(ranked, library):
    X, y, queries = ranked
    frame = pd.DataFrame(X, columns=list("abcde"))

    def convert(table):
        return {"pandas": lambda: table, "polars": lambda: pl.from_pandas(table), "pyarrow": lambda: pa.table(table)}[
            library
        ]()

    named, new = convert(frame.assign(qid=queries)), slice(-1600, None)
    fast = make(GradientBoostingRegressor(n_estimators=10), method="sentinels").fit(named, y, groups="qid")
    assert fast.feature_names_in_.tolist() == list("abcde")
    plain, rows = convert(frame[new]), convert(frame.assign(qid=queries)[new])
    expected = fast.predict(plain, groups=queries[new])
    np.testing.assert_array_equal(fast.predict(rows, groups="qid"), expected)
    np.testing.assert_array_equal(fast.run(rows, queries[new]).labels, expected)
    other = convert(frame.assign(query=queries)[new])
    np.testing.assert_array_equal(fast.predict(other, groups="query"), expected)
    with pytest.raises(InputError, match="groups='qid' must be the name of a column"):
        fast.predict(plain, groups="qid")
    by_value = make(GradientBoostingRegressor(n_estimators=10), method="sentinels").fit(named, y, groups=queries)
    assert "qid" in by_value.feature_names_in_
    np.testing.assert_array_equal(by_value.predict(rows, groups="qid"), by_value.predict(rows, groups=queries[new]))


def test_a_method_is_passed_on(ranked):
    """By default no document leaves so small a model, because comparing documents takes longer."""
    X, y, queries = ranked
    model = GradientBoostingRegressor(n_estimators=40, random_state=0).fit(X[:1600], y[:1600])
    X, queries = X[1600:], queries[1600:]
    trees = [
        make(model, **given).fit(X, groups=queries).run(X, queries).mean_trees
        for given in ({}, {"method": "sentinels"})
    ]
    assert trees[1] < trees[0] == 40
    assert clone(make(model, method="sentinels")).get_params()["method"] == "sentinels"
    with pytest.raises(InputError, match='method must be one of "auto", "sentinels"'):
        make(model, method="qwyc").fit(X, groups=queries)


@pytest.mark.usefixtures("documents_leave")
def test_rankers_a_budget_given_later_calibrates_again(ranked):
    X, y, queries = ranked
    model = GradientBoostingRegressor(n_estimators=40, random_state=0).fit(X[:1600], y[:1600])
    fast = make(model, keep="set").fit(X[1600:], groups=queries[1600:])
    rows, groups = X[-1600:], queries[-1600:]
    assert fast.run(rows, groups, max_changed=0.3).mean_trees < fast.run(rows, groups).mean_trees
    assert clone(fast).get_params()["keep"] == "set"
    with pytest.raises(InputError, match="max_changed is EarlyExitRanker's"):
        fast.predict(rows, groups, max_error=1.0)


def test_rankers_what_cannot_be_promised_is_evaluated_in_full(ranked):
    X, y, queries = ranked
    model = GradientBoostingRegressor(n_estimators=5).fit(X[:1600], y[:1600])
    with pytest.warns(UserWarning, match=r"at least 597 queries.* every tree is evaluated") as caught:
        few = make(model, max_changed=0.01).fit(X[1600:2400], groups=queries[1600:2400])
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(few.predict(X), model.predict(X))  # no query is needed for that
    same = make(GradientBoostingRegressor(n_estimators=5)).fit(X[:1600], np.ones(1600), groups=queries[:1600])
    assert "same score" in same.predictor_.certificate.why


def test_rankers_misuse(ranked):
    X, y, queries = ranked
    model = GradientBoostingRegressor(n_estimators=5).fit(X[:1600], y[:1600])
    X, y, queries = X[1600:], y[1600:], queries[1600:]
    for groups in ({}, {"groups": queries, "group": [N_DOCUMENTS] * 500}):
        with pytest.raises(InputError, match="pass either groups"):
            make(model).fit(X, **groups)
    with pytest.raises(InputError, match=r"groups has shape \(3,\), X has 8000 rows"):
        make(model).fit(X, groups=[1, 2, 3])
    for sizes in ([N_DOCUMENTS] * 499, [0, 8000], [0.5, 7999.5], [[8000]]):
        with pytest.raises(InputError, match="must add up to the 8,000 rows"):
            make(model).fit(X, group=sizes)
    with pytest.raises(InputError, match="max_changed must be above 0"):
        make(model, max_changed=0).fit(X, groups=queries)
    with pytest.raises(InputError, match="no query has more than 16 documents"):
        make(model, k=16).fit(X, groups=queries)
    with pytest.raises(InputError, match="for boosted trees with one score"):
        make(RandomForestRegressor(3)).fit(X, y, groups=queries)
    with pytest.raises(InputError, match="must be a ranker"):
        make("x").fit(X, y, groups=queries)
    with pytest.raises(ValueError, match="NaN"):
        make(GradientBoostingRegressor()).fit(X, np.full(len(X), np.nan), groups=queries)
    with pytest.raises(InputError, match="pass the query of each row"):
        make(model).fit(X, groups=queries).predict(X)
