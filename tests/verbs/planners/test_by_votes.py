"""Early exits on votes: the full vote without a budget, and the promise with one."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.forest.structure import ARRAYS, HEADER
from scurry.stopping import VotePolicy, fit_votes, solve
from scurry.stopping.guarantee import certified_rate, hash_rows
from scurry.stopping.votes.policy import outcomes
from support.calibration_rows import full_vote, two_classes

METHODS = ("minimax", "minimean", "minimixed", "schwing")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shuffle", ["fixed", "row"])
def test_no_disagreement_is_the_full_vote(forest, method, shuffle):
    X, _ = two_classes(3000, 2)
    fast = scurry.early_exit(forest, X, max_disagreement=0, method=method, shuffle=shuffle, random_state=0)
    new, _ = two_classes(4000, 3)
    run = fast.run(new)
    np.testing.assert_array_equal(run.labels, full_vote(forest, new))
    assert run.mean_trees < 31 or method == "schwing"  # whose belief is never certain before the end


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shuffle", ["fixed", "row"])
def test_votes_keep_their_bound(forest, method, shuffle):
    X, _ = two_classes(4000, 4)
    alpha = 0.01
    fast = scurry.early_exit(forest, X, max_disagreement=alpha, method=method, shuffle=shuffle, random_state=1)
    new, _ = two_classes(20_000, 5)
    run = fast.run(new)
    assert (run.labels != full_vote(forest, new)).mean() <= alpha
    assert run.mean_trees < 25
    assert set(run.stop_reason) <= {"decided", "complete"}
    assert 0.9 < fast.plan.certificate.measured.vote_agreement <= 1


def test_votes_are_certified_by_what_the_predictor_does(forest, three_classes):
    """Where other rows choose, the mistakes that certify are those the native predictor makes on all of X_cal."""
    cases = [
        (forest, two_classes(500, 26)[0], two_classes(4000, 21)[0]),
        (three_classes[0], three_classes[1][:1000], three_classes[1][1000:]),
    ]
    for model, fit, X in cases:
        fast = scurry.early_exit(model, X, X_fit=fit, max_disagreement=0.02, method="minimean", random_state=0)
        run, certificate = fast.run(X), fast.certificate
        n_mistakes = int((run.labels != full_vote(model, X)).sum())
        assert 0 < n_mistakes == certificate.n_broken
        assert certificate.n_rows == len(X)
        assert certificate.measured.mean_trees == pytest.approx(run.mean_trees)
        assert certificate.measured.changed < certificate.max_rate == 0.02
        assert "at most 2 % of new rows get another label than the full vote's." in str(fast.summary())


def test_rows_to_fit_shape_rules_that_draw_their_orders(forest):
    """Rows of one class only ask for few trees: a rule made for them is seen to fail on the calibration rows."""
    X, y = two_classes(4000, 27)
    easy = X[y == 1][:1000] + 1.0
    asked = {"max_disagreement": 0.01, "method": "minimean", "shuffle": "row", "random_state": 0}
    fitted = scurry.early_exit(forest, X, X_fit=easy, confidence=None, **asked)
    assert fitted.plan.certificate.measured.changed > 0.02
    assert "At most 1 % of the rows that fitted the rule" in fitted.plan.certificate.statement()
    certified = scurry.early_exit(forest, X, X_fit=easy, **asked)
    new, _ = two_classes(20_000, 28)
    assert (certified.predict(new) != full_vote(forest, new)).mean() <= 0.01


def test_too_few_rows_for_the_promise_give_the_full_vote(forest):
    X, _ = two_classes(1000, 22)
    fast = scurry.early_exit(forest, X, max_disagreement=0.001, method="minimean", random_state=0)
    new, _ = two_classes(5000, 23)
    run = fast.run(new)
    np.testing.assert_array_equal(run.labels, full_vote(forest, new))
    assert run.mean_trees < 25
    assert "Every row gets the full vote's label. 800 rows certify no earlier stop" in fast.plan.certificate.statement()
    assert "takes 2995 rows" in fast.plan.certificate.statement()


@pytest.mark.parametrize("method", ["minimixed", "minimax", "minimean"])
def test_plurality_of_several_classes(three_classes, method):
    model, X = three_classes
    exact = scurry.early_exit(model, X[:2000], max_disagreement=0, method=method, random_state=0)
    np.testing.assert_array_equal(exact.predict(X[2000:]), full_vote(model, X[2000:]))
    loose = scurry.early_exit(model, X[:2000], max_disagreement=0.05, method=method, random_state=0)
    run = loose.run(X[2000:])
    assert (run.labels != full_vote(model, X[2000:])).mean() <= 0.05
    assert run.mean_trees < exact.run(X[2000:]).mean_trees


def test_what_was_tested_is_what_runs(forest):
    """A rule certified as a mixture of policies may be run by one of them only if that never disagrees more often."""
    for seed in range(6):
        X, _ = two_classes(3000, 30 + seed)
        votes = np.stack([tree.predict(X) for tree in forest.estimators_], axis=1).astype(int)
        asked = {"max_disagreement": 0.05, "method": "minimean"}
        stop = scurry.early_exit(forest, X, shuffle="row", random_state=seed, **asked).plan.stop
        rng = np.random.default_rng(int(hash_rows(X, "float32").sum()))  # the rows decide their split
        tested, promise = fit_votes(votes.sum(axis=1), 31, **asked, random_state=rng)
        assert promise.n_rows > 0
        run = outcomes([VotePolicy(*policy) for policy in zip(stop.weights, stop.lower, stop.upper, strict=True)])
        assert (run[1] <= tested.disagreement() + 1e-12).all()


def test_a_belief_is_no_promise(forest):
    """Schwing's rule takes the bound for a belief: nothing keeps it from differing more often."""
    X, _ = two_classes(4000, 31)
    close = X[np.abs(forest.predict_proba(X)[:, 1] - 0.5) < 0.05]
    believed = scurry.early_exit(forest, close, max_disagreement=0.1, method="schwing", confidence=None).certificate
    assert believed.measured.changed > 0.15
    assert "Nothing is promised for new rows. 10 % is what the rule believes" in believed.statement()
    assert believed.max_rate is None


def test_auto_states_the_asked_confidence_of_votes():
    """A model that votes has three candidates; the second best may take a fifth of the risk."""
    X, y = two_classes(600, 0)
    averaging = scurry.from_model(RandomForestClassifier(31, max_depth=6, random_state=0).fit(X, y))
    fields = {name: getattr(averaging, name) for name in (*ARRAYS, *HEADER)} | {"aggregation": "vote"}
    voting = scurry.Forest(**fields, classes=averaging.classes)
    rows, _ = two_classes(8000, 32)
    certificate = scurry.early_exit(voting, rows, max_disagreement=0.01).certificate
    assert "With confidence 0.95, at most 1 % of new rows" in certificate.statement()
    assert certificate.bound == certified_rate(certificate.n_broken, certificate.n_rows, 1 - 0.8 * (1 - 0.95))
    for name in ("qwyc", "natural", "minimean"):
        assert name in certificate.why


def test_how_often_the_full_vote_is_the_models_label(forest):
    X, _ = two_classes(3000, 22)
    fast = scurry.early_exit(forest, X, max_disagreement=0.02, method="minimean", random_state=0)
    votes = fast.forest.value.argmax(axis=1)[fast.forest.apply(X)].sum(axis=1)
    agreement = ((2 * votes > fast.forest.n_trees) == forest.predict(X)).mean()
    assert fast.certificate.exits.vote_agreement == agreement < 1


@pytest.mark.parametrize("method", ["minimax", "minimixed"])
@pytest.mark.parametrize("shuffle", ["fixed", "row"])
def test_a_promise_without_rows(forest, method, shuffle):
    asked = {"shuffle": shuffle, "random_state": 0}
    fast = scurry.early_exit(forest, method=method, max_disagreement=0.02, **asked)
    rule = solve(31, 0.02, method=method)
    by_rule = scurry.Predictor.from_rule(scurry.from_model(forest), rule, **asked)
    np.testing.assert_array_equal(fast.plan.order, by_rule.plan.order)
    call = f"scurry.early_exit(model, max_disagreement=0.02, method={method!r}, confidence=0.95"
    assert fast.certificate.recipe.startswith(call)
    model = forest  # the name that the call has for it
    assert eval(fast.certificate.recipe).digest == fast.digest
    assert fast.certificate.n_rows == fast.certificate.n_calibration_rows == 0
    promised = "Each row gets another label than the full vote's with probability at most 2 %, over random orders"
    assert promised in str(fast.summary())
    new, _ = two_classes(8000, 5)
    run = fast.run(new)
    np.testing.assert_array_equal(run.trees, by_rule.run(new).trees)
    np.testing.assert_array_equal(run.labels, by_rule.run(new).labels)
    assert (run.labels != full_vote(model, new)).mean() <= 0.02
    assert run.mean_trees < 25
    np.testing.assert_array_equal(fast.predict_proba(new).argmax(axis=1), run.labels)


def test_a_promise_without_rows_for_several_classes(three_classes):
    model, X = three_classes
    fast = scurry.early_exit(model, method="minimixed", max_disagreement=0.05, random_state=0)
    run = fast.run(X)
    assert (run.labels != full_vote(model, X)).mean() <= 0.05
    assert run.mean_trees < 30
    assert (fast.certificate.method, fast.promise.holds) == ("minimixed", "each row")


def test_flat_rules_without_rows_promise_nothing(forest):
    for method in ("minimean", "schwing"):
        fast = scurry.early_exit(forest, method=method, max_disagreement=0.02, confidence=None, random_state=0)
        assert fast.promise is None
        assert "Nothing is promised for new rows." in str(fast.summary())
        assert fast.run(two_classes(500, 5)[0]).mean_trees < 28


def test_what_cannot_do_without_rows(forest, boosted, three_classes):
    X, y = two_classes(50, 5)
    for model, asked, message in [
        (forest, {}, "X_cal is needed: method='auto' fits its rule to rows"),
        (boosted, {"method": "qwyc"}, "X_cal is needed: method='qwyc' fits its rule to rows"),
        (forest, {"method": "minimean"}, "X_cal is needed: rows test what method='minimean' promises"),
        (forest, {"method": "minimax", "y_cal": y}, "y_cal goes with X_cal"),
        (forest, {"method": "minimax", "X_fit": X}, "X_fit goes with X_cal"),
        (forest, {"method": "minimax", "groups": y}, "groups goes with X_cal"),
        (forest, {"method": "minimax", "threshold": 0.3}, "votes, which have no threshold"),
        (boosted, {"method": "minimax"}, "adds or averages scores"),
        (three_classes[0], {"method": "minimean", "confidence": None}, "is for two classes, the model has 3"),
        (three_classes[0], {"method": "minimax", "shuffle": "row"}, 'shuffle="row" is for two classes'),
        (RandomForestRegressor(2).fit(X, y), {"method": "minimax"}, "this model is a regressor"),
    ]:
        with pytest.raises(InputError, match=message):
            scurry.early_exit(model, **asked)
