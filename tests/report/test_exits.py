"""The story of an early exit: what it says is what independent computations say.

The story of an anytime predictor: its curve is what the predictor answers.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import ndcg_score

import scurry
from scurry.errors import InputError
from scurry.formatting import round_up
from scurry.predictor import Predictor
from scurry.promises import Values
from scurry.report import exits
from scurry.report.alternatives import FACTORS
from scurry.report.story import TestRows


@pytest.fixture(scope="module", params=["qwyc", "fan", "minimixed", "minimean", "sentinels"])
def fast(request, forest, boosted, exit_by):
    return exit_by(boosted if request.param == "sentinels" else forest, request.param)


def story_of(predictor, data):
    X, y = data["test"]
    return exits.tell_exits(predictor, TestRows(predictor.forest, X, y))


def test_curve_passes_through_the_predictor_as_it_is(fast, data):
    X, y = data["test"]
    curve, labels = story_of(fast, data).curve, fast.predict(X)
    at = {column.name: column.values[curve.shipped] for column in curve.columns}
    assert curve.spent[curve.shipped] == fast.run(X).mean_trees
    assert at["accuracy"] == (labels == y).mean()
    assert at["labels changed"] == (labels != fast.forest.predict(X)).mean()
    assert at["became wrong"] - at["became right"] == pytest.approx(
        (fast.forest.predict(X) == y).mean() - at["accuracy"]
    )
    assert (np.diff(curve.spent) > 0).all()


def test_curve_ends_where_nothing_stops(fast, data):
    curve = story_of(fast, data).curve
    change = curve.columns[curve.n_drawn - 1]
    assert curve.spent[-1] == fast.forest.n_trees
    assert change.values[-1] == 0
    assert change.values[0] >= change.values[curve.shipped]


def test_the_middle_of_the_family_is_the_rule_itself(fast):
    rule, same = fast.plan.stop, fast.plan.stop.with_scaled_thresholds(fast.forest, float(FACTORS[len(FACTORS) // 2]))
    for name in rule.ARRAYS:
        np.testing.assert_array_equal(getattr(rule, name), getattr(same, name))


def test_caution_never_stops_a_row_sooner(fast, data):
    X, _ = data["test"]
    plan = fast.plan
    trees = [
        Predictor(
            fast.forest, scurry.Plan(order=plan.order, stop=plan.stop.with_scaled_thresholds(fast.forest, factor))
        )
        .run(X)
        .trees
        for factor in (1.0, 2.0, 8.0)
    ]
    assert (trees[0] <= trees[1]).all()
    assert (trees[1] <= trees[2]).all()


@pytest.mark.parametrize("method", ["qwyc", "minimixed"])
def test_leads_of_several_classes(method):
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[:600], y[:600])
    fast = scurry.early_exit(model, X[600:1200], max_disagreement=0.1, method=method, random_state=0)
    rule = fast.plan.stop
    whole = Predictor(fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.without_stops())).run(X[1200:])
    assert (whole.trees == 20).all()
    bolder = Predictor(
        fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.with_scaled_thresholds(fast.forest, 0.3))
    ).run(X[1200:])
    assert bolder.mean_trees < fast.run(X[1200:]).mean_trees
    story = exits.tell_exits(fast, TestRows(fast.forest, X[1200:], y[1200:]))
    assert story.curve.columns[story.curve.n_drawn - 1].values[-1] == 0


def test_measured_rate_and_promise(forest, data, exit_by):
    fast = exit_by(forest, "qwyc")
    claim = story_of(fast, data).claims[0]
    n_changed, n = int((fast.predict(data["test"][0]) != forest.predict(data["test"][0])).sum()), 1000
    assert claim.measured.startswith(
        f"{100 * n_changed / n:.2f} %" if n_changed >= 10 else f"{100 * n_changed / n:.3f} %"
    )
    assert claim.promised == "at most 5 %"


@pytest.mark.parametrize("method", ["qwyc", "minimean", "schwing"])
def test_a_rule_without_confidence_promises_nothing_of_test_rows(forest, data, method):
    X, y = data["cal"]
    fast = scurry.early_exit(forest, X, y, max_disagreement=0.001, method=method, confidence=None, random_state=0)
    story = story_of(fast, data)
    assert story.claims[0].promised == "nothing"
    assert story.claims[0].verdict == ""
    assert story.curve.bound is None


def test_votes_are_compared_with_the_vote_and_the_model(forest, data, exit_by):
    fast = exit_by(forest, "minimixed")
    X, _ = data["test"]
    labels = fast.predict(X)
    leaves = forest.apply(X)
    votes = forest.value[leaves].argmax(axis=2)
    full_vote = (2 * votes.sum(axis=1) > forest.n_trees).astype(int)
    claims = {claim.what: claim for claim in story_of(fast, data).claims}
    assert claims["labels other than the full vote's"].measured.startswith(_percent((labels != full_vote).mean()))
    assert claims["labels other than the model's"].measured.startswith(_percent((labels != forest.predict(X)).mean()))
    assert claims["labels other than the model's"].verdict == ""


def _percent(rate):
    return "0 %" if rate == 0 else f"{100 * rate:.{2 if rate >= 0.01 else 3}f} %"


def test_values_are_judged_drawn_and_scaled(by_values):
    fast, X, y = by_values
    story = exits.tell_exits(fast, TestRows(fast.forest, X, y))
    errors = np.abs(fast.predict(X) - fast.forest.predict(X))
    what = "values further than 0.3 from the model's"
    n_beyond = int((errors > 0.3).sum())
    assert story.claims[0].what == story.tiles[1].name == what
    assert story.tiles[1].note == f"{n_beyond:,} of 1,000 test rows"
    assert f"of 1,000 test rows have {what}" in story.verdict
    curve = story.curve
    drawn = curve.columns[curve.n_drawn - 1]
    assert drawn.name == "values further than 0.3"
    assert drawn.values[curve.shipped] == (errors > 0.3).mean()
    assert (drawn.values[-1], curve.bound, curve.spent[-1]) == (0.0, 0.1, 40)
    assert drawn.values[0] > 0.1
    could = {column.name: column for column in curve.columns}["could be promised, from 1,000 rows"].values[0]
    assert f"scurry.promises.Values(0.3, max_share={round_up(could, 2)})" in curve.calls[0]
    assert story.picture.heading == "How far early answers are off"
    assert "promised for 90 % of all rows: 0.3" in story.picture.chart.to_svg()


def test_log_odds_are_compared_on_their_own_scale(boosted, data):
    fast = scurry.early_exit(boosted, data["cal"][0], promise=Values(0.5, 0.1, of="log-odds"))
    X, y = data["test"]
    ours, full = (np.log(p[:, 1] / p[:, 0]) for p in (fast.predict_proba(X), boosted.predict_proba(X)))
    claim = exits.tell_exits(fast, TestRows(boosted, X, y)).claims[0]
    assert f"{int((np.abs(ours - full) > 0.5).sum())} of 1,000 rows" in claim.measured


def test_rankers_are_told_by_query(by_ranks):
    fast, X, y, queries = by_ranks
    story = exits.tell_exits(fast, TestRows(fast.forest, X, y, groups=queries))
    run, full = fast.run(X, groups=queries), fast.forest.predict(X)
    n_changed = 0
    for query in range(100):
        rows = np.flatnonzero(queries == query)
        n_changed += (
            np.argsort(-run.scores[rows], kind="stable")[:3] != np.argsort(-full[rows], kind="stable")[:3]
        ).any()
    assert 0 < n_changed < 50
    assert story.tiles[1].note == f"{n_changed} of 100 queries"
    assert set(queries[story.changed]) <= set(range(100))
    assert len(set(queries[story.changed])) == n_changed
    at = {column.name: column.values[story.curve.shipped] for column in story.curve.columns}
    assert at["queries with another top 3"] == n_changed / 100
    assert story.picture.heading == "When a document leaves"


def test_quality_of_rankings(by_ranks):
    """Gains are 2^grade - 1, and scikit-learn's are the grade: for grades of 0 and 1 they are the same."""
    fast, X, y, queries = by_ranks
    test = TestRows(fast.forest, X, y.clip(0, 1), groups=queries)
    scores = test.y + np.random.default_rng(0).normal(size=len(X))
    own = [
        ndcg_score([test.y[queries == q]], [scores[queries == q]], k=10) for q in range(100) if y[queries == q].any()
    ]
    assert test.measure_quality(scores) == pytest.approx((sum(own) + 100 - len(own)) / 100)
    with pytest.raises(InputError, match="relevance of documents"):
        TestRows(fast.forest, X, X[:, 0], groups=queries)
    with pytest.raises(InputError, match="groups has shape"):
        TestRows(fast.forest, X, groups=queries[1:])


def test_queries_are_thinned_as_a_whole(by_ranks):
    fast, X, y, queries = by_ranks
    thin = TestRows(fast.forest, X, y, groups=queries).thin(137)
    assert len(thin) == 130
    assert (np.unique(thin.groups, return_counts=True)[1] == 10).all()


def test_tests_of_groups_are_those_of_the_certificate(boosted, data):
    X, _ = data["cal"]
    fast = scurry.early_exit(boosted, X, by=np.where(X[:, 0] > 0, "high", "low"), max_disagreement=0.1)
    story = exits.tell_exits(fast, TestRows(boosted, data["test"][0]))
    assert [test.group for test in story.tests] == [test.group for test in fast.certificate.tests]
    assert len(story.tests) == 2


def test_settling_is_the_last_change():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, (7, 200))
    expected = []
    for row in answers.T:
        at = 6
        while at > 0 and row[at - 1] == row[6]:
            at -= 1
        expected.append(at)
    assert exits._find_settling(answers).tolist() == expected


@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_anytime_curve(forest, data, readout):
    (X_order, y_order), (X, y) = data["cal"], data["test"]
    anyt = scurry.anytime(forest, X_order, y_order, order="random", readout=readout, random_state=0)
    story = exits.tell_steps(anyt, TestRows(forest, X, y))
    for at in (0, story.curve.start, -1):
        labels = anyt.predict(X, max_steps=int(story.curve.spent[at]))
        assert story.curve.columns[0].values[at] == (labels == y).mean()
        assert story.curve.columns[1].values[at] == (labels != forest.predict(X)).mean()
    assert story.curve.columns[1].values[story.curve.start] <= 0.01
    trees = next(column for column in story.curve.columns if column.name == "trees entered")
    assert trees.values[[0, -1]].tolist() == [0, forest.n_trees]
