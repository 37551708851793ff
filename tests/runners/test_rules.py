"""A predictor made of a rule decides each row as the rule itself decides on the trees' votes and scores."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry.errors import InputError
from scurry.stopping import fan, fit_votes, multiclass_qwyc, qwyc, solve, solve_plurality, solve_weighted
from support.calibration_rows import two_classes

NEW = two_classes(500, 1)[0]


def import_two(model):
    X, y = two_classes(600, 0)
    return scurry.from_model(model.fit(X, y))


@pytest.fixture(scope="module")
def averaged():
    return import_two(RandomForestClassifier(20, max_depth=4, random_state=0))


@pytest.fixture(scope="module")
def boosted():
    return import_two(GradientBoostingClassifier(n_estimators=25, max_depth=2, random_state=0))


@pytest.fixture(scope="module")
def three():
    X, y = make_classification(1500, n_features=8, n_informative=5, n_classes=3, random_state=0)
    averaged = scurry.from_model(RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:500], y[:500]))
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=12, random_state=0).fit(X[:500], y[:500]))
    return averaged, boosted, X[500:]


def outcomes_by_stopper(stoppers, votes):
    """Return the decision of each row's vote, and after how many trees."""
    found = []
    for stopper, row in zip(stoppers, votes, strict=True):
        for vote in row:
            if stopper.stopped:
                break
            stopper.update(vote)
        found.append((stopper.decision, stopper.n_seen))
    return np.array(found)


def one_policy(rule, at):
    """Return the rule that always draws one of the policies of `rule`."""
    header, arrays = rule.to_parts()
    some = {name: arrays[name][at : at + 1] for name in ("weight", "lower", "upper")}
    return type(rule).from_parts(header, arrays | some | {"weight": np.ones(1)})


@pytest.mark.parametrize("method", ["minimax", "minimixed", "minimean", "schwing"])
def test_majority_of_one_policy(averaged, method):
    rule = one_policy(solve(20, 0.05, method=method), 0)
    fast = scurry.Predictor.from_rule(averaged, rule, random_state=3)
    votes = averaged.tree_votes(NEW)[:, fast.plan.order].astype(bool)
    expected = outcomes_by_stopper((rule.stopper() for _ in NEW), votes)
    run = fast.run(NEW)
    np.testing.assert_array_equal(run.labels, expected[:, 0])
    np.testing.assert_array_equal(fast.predict(NEW), expected[:, 0])
    np.testing.assert_array_equal(run.trees, expected[:, 1])
    assert len(set(run.trees)) > 2


def test_each_row_draws_a_policy(averaged):
    rule = solve(20, 0.05, method="minimixed")
    assert len(rule.policies) > 1
    fast = scurry.Predictor.from_rule(averaged, rule, random_state=3)
    votes = averaged.tree_votes(NEW)[:, fast.plan.order].astype(bool)
    ways = [
        outcomes_by_stopper((one_policy(rule, at).stopper() for _ in NEW), votes) for at in range(len(rule.policies))
    ]
    run = fast.run(NEW)
    agrees = np.array([(run.labels == way[:, 0]) & (run.trees == way[:, 1]) for way in ways])
    assert agrees.any(axis=0).all()
    differ = (np.array(ways) != ways[0]).any(axis=(0, 2))
    drawn = [agree[differ].mean() for agree in agrees]
    assert differ.sum() > 20
    assert 0 < min(drawn) <= max(drawn) < 1


def test_an_order_for_each_row_costs_what_the_rule_expects(averaged):
    rule, rows = solve(20, 0.05, method="minimax"), two_classes(20_000, 2)[0]
    fast = scurry.Predictor.from_rule(averaged, rule, shuffle="row", random_state=0)
    positives = averaged.tree_votes(rows).sum(axis=1)
    run = fast.run(rows)
    assert run.mean_trees == pytest.approx(rule.expected_votes(positives).mean(), abs=4 * run.trees.std() / 20_000**0.5)
    differs = (run.labels != (2 * positives > 20)).mean()
    expected = rule.disagreement(positives).mean()
    assert differs == pytest.approx(expected, abs=4 * (expected / 20_000) ** 0.5)


@pytest.mark.parametrize("n_classes", [3, None])
def test_plurality(three, n_classes):
    forest, _, X = three
    rule = solve_plurality(20, n_classes, 0.1)
    fast = scurry.Predictor.from_rule(forest, rule, random_state=1)
    votes = forest.tree_votes(X)[:, fast.plan.order]
    run = fast.run(X)
    strictest = np.max([policy.upper for policy in rule.policies], axis=0)
    strict = type(rule)(20, 3, 0.1, "pairwise", [rule.policies[0]._replace(weight=1.0, upper=strictest)])
    expected = outcomes_by_stopper((strict.stopper() for _ in X), votes)
    np.testing.assert_array_equal(run.labels, expected[:, 0])
    same = run.trees == expected[:, 1]
    assert same.mean() > 0.8
    # The stopper also stops where nothing but a tie is left, which the first class wins.
    for row, n_seen in zip(votes[~same], expected[~same, 1], strict=True):
        second, first = np.sort(np.bincount(row[:n_seen], minlength=3))[-2:]
        assert first - second == 20 - n_seen
    assert (run.trees[~same] > expected[~same, 1]).all()
    assert "Each row gets another label than the full vote's with probability at most 10 %" in str(fast.summary())


@pytest.mark.parametrize("kind", ["averaged", "boosted"])
@pytest.mark.parametrize("fit", [qwyc, fan])
def test_scores_of_two_classes(kind, fit, request):
    forest = request.getfixturevalue(kind)
    threshold = forest.score_threshold
    scores = forest.tree_scores(two_classes(800, 5)[0])
    options = {"bin_width": 0.07} if fit is fan else {}  # no multiple of the grid unit
    rule = fit(scores, max_disagreement=0.02, decision_threshold=threshold, **options)
    fast = scurry.Predictor.from_rule(forest, rule)
    decision, n_used = rule.decide(forest.tree_scores(NEW))
    run = fast.run(NEW)
    np.testing.assert_array_equal(run.labels, decision)
    np.testing.assert_array_equal(fast.predict(NEW), decision)
    np.testing.assert_array_equal(run.trees, n_used)
    assert len(set(n_used)) > 1
    assert run.mean_trees < forest.n_trees
    assert fast.promise is None
    assert f"Of the 800 rows that fitted the rule, {rule.n_mistakes} get another label" in str(fast.summary())


def test_scores_of_several_classes(three):
    *forests, X = three
    for forest in forests:
        rule = multiclass_qwyc(
            forest.tree_scores(X[:500]), max_disagreement=0.02, base_score=forest.score_start, order=None
        )
        decision, n_used = rule.decide(forest.tree_scores(X[500:]))
        run = scurry.Predictor.from_rule(forest, rule).run(X[500:])
        np.testing.assert_array_equal(run.labels, decision)
        np.testing.assert_array_equal(run.trees, n_used * forest.trees_per_round)
        assert run.mean_trees < forest.n_trees


def test_weighted_votes_are_scores_too(averaged):
    weights = np.random.default_rng(0).uniform(0.2, 2, averaged.n_trees)
    forest = averaged.with_vote_weights(weights)
    cast = np.where(averaged.tree_votes(NEW) == 1, weights, -weights)
    np.testing.assert_array_equal(forest.predict(NEW), cast.sum(axis=1) > 0)
    with pytest.raises(InputError, match=r'solve_weighted.*; .*promise="certain".* fit a rule on scores'):
        scurry.Predictor.from_rule(forest, solve(20, 0.05))
    scores = forest.tree_scores(NEW)
    np.testing.assert_allclose(scores, cast / 2, atol=1e-7)
    rule = qwyc(scores, max_disagreement=0, decision_threshold=forest.score_threshold)
    run = scurry.Predictor.from_rule(forest, rule).run(NEW)
    np.testing.assert_array_equal(run.labels, forest.predict(NEW))
    assert run.mean_trees < 15


def weighted_forest(kind, n_classes):
    X, y = make_classification(900, n_features=8, n_informative=5, n_classes=n_classes, random_state=0)
    trees = [(str(seed), DecisionTreeClassifier(max_depth=4, max_features=2, random_state=seed)) for seed in range(25)]
    if kind == "voting":
        model = VotingClassifier(trees, weights=np.linspace(1, 3, 25)).fit(X[:400], y[:400])
    else:
        model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=30, random_state=0)
        model.fit(X[:400], y[:400])
    return scurry.from_model(model), model.predict(X), X


@pytest.mark.parametrize("kind", ["voting", "boosting"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weighted_votes(kind, n_classes):
    forest, labels, X = weighted_forest(kind, n_classes)
    assert not forest.has_votes
    weights, n_wrong, n_trees = forest.vote_weights, np.zeros(len(X)), 0.0
    rule = solve_weighted(3 * weights, 0.3, n_classes=n_classes)
    for seed in range(20):
        fast = scurry.Predictor.from_rule(forest, rule, random_state=seed)
        run = fast.run(X)
        n_wrong += run.labels != labels
        n_trees += run.mean_trees / 20
        np.testing.assert_array_equal(forest.classes[fast.predict_proba(X).argmax(axis=1)], run.labels)
    # Each row by itself; the chance that a row exceeds it by so much is below 1e-4, and few rows come near.
    assert n_wrong.max() <= 14
    assert n_wrong.sum() > 0
    assert n_trees < 0.8 * forest.n_trees
    assert "Each row gets another label than the model's with probability at most 30 %" in str(fast.summary())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weighted_votes_stop_as_the_leads_say(n_classes):
    forest, _, X = weighted_forest("voting", n_classes)
    rule = solve_weighted(forest.vote_weights, 0.05, n_classes=n_classes)
    fast = scurry.Predictor.from_rule(forest, rule, random_state=0)
    order, leads = fast.plan.order, rule.leads(fast.plan.order)
    scores = forest.tree_scores(X)[:, order]
    if n_classes == 2:
        lead = np.abs(scores.cumsum(axis=1))
    else:
        ranked = np.sort(scores.cumsum(axis=1), axis=2)
        lead = ranked[:, :, -1] - ranked[:, :, -2]
    stops = lead >= leads[1:] + 1e-6  # the thresholds of the grid are a few units higher
    stops[:, -1] = True
    np.testing.assert_array_equal(fast.run(X).trees, stops.argmax(axis=1) + 1)


def test_weighted_rules_that_do_not_fit(averaged, boosted, tmp_path):
    forest = averaged.with_vote_weights(np.linspace(1, 2, 20))
    for given, rule, message in [
        (averaged, solve_weighted(np.ones(20), 0.1), r"count alike; use .*solve or .*with_vote_weights\(weights\)"),
        (boosted, solve_weighted(np.ones(25), 0.1), "add scores and do not vote; use scurry.stopping.qwyc"),
        (forest, solve_weighted(np.ones(20), 0.1), "not proportional"),
        (forest, solve_weighted(np.ones(21), 0.1), "for 21 voters, the forest has 20 trees"),
        (forest, solve_weighted(forest.vote_weights, 0.1, n_classes=3), "for 3 classes, the forest has 2"),
    ]:
        with pytest.raises(InputError, match=message) as caught:
            scurry.Predictor.from_rule(given, rule)
        assert caught.value.argument == "rule"
    with pytest.raises(InputError, match='shuffle="row" is for a VoteRule'):
        scurry.Predictor.from_rule(forest, solve_weighted(forest.vote_weights, 0.1), shuffle="row")
    fast = scurry.Predictor.from_rule(forest, solve_weighted(forest.vote_weights, 0.1), random_state=0)
    fast.save(tmp_path / "fast.scurry")
    again = scurry.load(tmp_path / "fast.scurry")
    assert again.digest == fast.digest
    np.testing.assert_array_equal(again.predict(NEW), fast.predict(NEW))


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        (solve(20, 0.05, method="minimax"), "Each row gets another label than the full vote's with probability at"),
        (solve(20, 0.05, method="minimixed"), "Each row gets another label than the full vote's with probability at"),
        (solve(20, 0.0, method="minimean"), "Every row gets the full vote's label."),
        (solve(20, 0.05, method="minimean"), "Nothing is promised for new rows. At most 5 % of rows get another"),
        (solve(20, 0.05, method="schwing"), "Nothing is promised for new rows. 5 % is what the rule believes"),
    ],
)
def test_what_is_promised(averaged, rule, promise, tmp_path):
    fast = scurry.Predictor.from_rule(averaged, rule, random_state=0)
    assert promise in str(fast.summary())
    fast.save(tmp_path / "fast.scurry")
    again = scurry.load(tmp_path / "fast.scurry")
    assert again.digest == fast.digest
    assert str(again.summary()) == str(fast.summary())


def fitted(forest, **options):
    return qwyc(forest.tree_scores(NEW), max_disagreement=0.02, **options)


@pytest.mark.parametrize(
    ("kind", "rule", "message"),
    [
        ("averaged", lambda f, _: solve(21, 0.05), "for 21 voters, the forest has 20 trees; solve it with n_voters=20"),
        (
            "averaged",
            lambda f, _: solve_plurality(20, 3, 0.05),
            "for 3 classes, the forest has 2; use .*stopping.solve",
        ),
        ("three", lambda f, _: solve(20, 0.05), r"for 2 classes, the forest has 3; use .*solve_plurality\(n_voters, 3"),
        ("boosted", lambda f, _: solve(25, 0.05), "the trees of this forest add scores"),
        ("averaged", lambda f, _: solve(20, 0.05, solver="lp"), "no thresholds, only theta"),
        ("three", lambda f, _: solve_plurality(20, 3, 0.05, method="class-counts"), 'with method="pairwise"'),
        ("averaged", lambda f, _: fit_votes([0, 20, 3, 5], 20, 0.1, confidence=None), "got VoteFit; pass its rule"),
        ("averaged", lambda f, _: "minimax", "rule must be a VoteRule, .* got str"),
        ("averaged", lambda f, other: fitted(other, decision_threshold=other.score_threshold), "25 models.*20 trees"),
        ("boosted", lambda f, _: fitted(f, decision_threshold=1.0), r"fit the rule with decision_threshold=forest\."),
        ("three", lambda f, other: fitted(other), "the rule is for two classes, the forest has 3"),
    ],
)
def test_rules_that_do_not_fit(kind, rule, message, request, boosted):
    forest = request.getfixturevalue(kind)
    forest = forest[0] if kind == "three" else forest
    with pytest.raises(InputError, match=message):
        scurry.Predictor.from_rule(forest, rule(forest, boosted))


def test_trees_without_votes_or_scores(boosted):
    with pytest.raises(InputError, match=r"add scores and do not vote; use forest\.tree_scores"):
        boosted.tree_votes(NEW)
    X, y = two_classes(100, 0)
    regressor = scurry.from_model(RandomForestRegressor(2, random_state=0).fit(X, y))
    with pytest.raises(InputError, match="scores decide between classes"):
        regressor.tree_scores(X)
    with pytest.raises(InputError, match="the rule is for two classes, the forest has no classes: a regressor"):
        scurry.Predictor.from_rule(regressor, fitted(boosted))


def test_leads_that_start_elsewhere_do_not_fit(three):
    _, forest, X = three
    rule = multiclass_qwyc(forest.tree_scores(X), max_disagreement=0.02, base_score=forest.score_start + np.eye(3)[1])
    with pytest.raises(InputError, match=r"fit the rule with base_score=forest\.score_start"):
        scurry.Predictor.from_rule(forest, rule)
    with pytest.raises(InputError, match='shuffle="row" is for a VoteRule'):
        scurry.Predictor.from_rule(forest, rule, shuffle="row")
