"""FeatureBudgetClassifier finds forests: rare classes are found, budgets are kept, nothing costs more for nothing.

The search for cheap forests: which candidates there are, and which rows judge them.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score

import scurry
from scurry import FeatureBudgetClassifier
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.estimators.feature_budget import KINDS, Grower, assign_folds
from scurry.promises import Cost

COSTS = {"feature_costs": [1, 2, 4, 8, 1, 2, 4, 8], "groups": [0, 0, 0, 0, 1, 1, 1, 1], "group_costs": [5, 1]}


@pytest.fixture(scope="module")
def thyroid():
    """Return rows to fit and to test on, and prices; 74 in 1,000 patients are ill."""
    data = scurry.datasets.load("thyroid_ann_cost")
    order = np.random.default_rng(0).permutation(len(data.y))
    fit, test = order[:3000], order[3000:]
    prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    return data.X[fit], data.y[fit], data.X[test], data.y[test], prices


def test_thyroid_at_40_dollars_finds_the_ill(thyroid):
    X, y, X_new, y_new, prices = thyroid
    given = RandomForestClassifier(60, max_depth=8)
    model = FeatureBudgetClassifier(given, max_cost=40, random_state=0, **prices).fit(X, y)
    answers, ill = model.predict(X_new), y_new != 3
    assert (answers == y_new).mean() > 0.985
    assert (answers[ill] != 3).mean() > 0.95
    assert model.cost(X_new).mean() < 41
    summary = str(model.predictor_.summary())
    assert "found of each class" in summary
    assert "on the rows that chose the forest; the given estimator before pruning: 8" in summary
    assert summary.count("on the rows that chose the forest: new ones may get worse") == 2  # recalls and errors
    assert "set some apart before fit" in summary
    assert f"largest cost of a row  {model.predictor_.certificate.measured.largest_paid:.3g}" in summary
    assert "mean cost by class" in summary


def test_the_given_forest_alone_is_flagged_where_it_finds_nobody(thyroid):
    X, y, X_new, _, prices = thyroid
    given = RandomForestClassifier(60, max_depth=8)
    model = FeatureBudgetClassifier(given, max_cost=12, candidates="given", class_weight=None, random_state=0, **prices)
    with pytest.warns(ScurryWarning, match=r"answers 3 for every validation row.*class_weight"):
        model.fit(X, y)
    assert (model.predict(X_new) == 3).all()
    assert model.cost(X_new).sum() == 0  # an answer that needs no test is not paid for
    assert "answers 3 for every row" in str(model.predictor_.summary())


def test_offers_are_better_than_all_cheaper_ones(rows):
    X, y, X_new, _ = rows
    model = FeatureBudgetClassifier(
        RandomForestClassifier(9), candidates=["trees", "budgeted"], random_state=0, **COSTS
    )
    offers = model.fit(X, y).offers_
    assert len(offers) > 3
    assert (np.diff(offers.costs) > 0).all()
    assert (np.diff(offers.errors) < 0).all()
    assert [offer.cost for offer in offers.hull] == sorted(offer.cost for offer in offers.hull)
    assert {offer.cost for offer in offers.hull} <= set(offers.costs)
    # What is claimed for an offer is measured on rows that did not grow it.
    held = model._calibration
    for offer in offers:
        answers = offer.forest.predict(held.rows)
        assert offer.error == pytest.approx(1 - balanced_accuracy_score(held.labels, answers), abs=1e-12)
        assert offer.cost == pytest.approx(model._costs.of_rows(offer.forest, held.rows).mean(), rel=1e-12)
    for budget in (20, 8):
        assert (model.predict(X_new, max_cost=budget) == offers.at(budget).forest.predict(X_new)).all()
        assert model.cost(X_new, max_cost=budget).mean() < budget + 1
    assert (model.predict(X_new) == offers[-1].forest.predict(X_new)).all()


def test_few_rows_are_judged_in_folds_and_all_of_them_grow_what_is_offered(rows):
    X, y, X_new, y_new = rows
    X, y = X[:300], y[:300]
    seen = []

    class Recorder(RandomForestClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(X)
            return super().fit(X, y, sample_weight)

    model = FeatureBudgetClassifier(Recorder(5), max_cost=20, candidates=["trees"], random_state=0, **COSTS)
    model.fit(X, y)
    assert [len(part) for part in seen] == [300, *[240] * 5]
    left_out = [{tuple(row) for row in X} - {tuple(row) for row in part} for part in seen[1:]]
    assert set.union(*left_out) == {tuple(row) for row in X}
    assert sum(map(len, left_out)) == 300
    for offer in model.offers_:
        roots = offer.forest.cover[offer.forest.tree_offset[:-1]]
        assert offer.forest.n_trees == 5 or roots == pytest.approx(300, rel=0.2)
        assert model._costs.of_rows(offer.forest, X).mean() <= offer.cost * (1 + 1e-12)
    # The cost of an offer may be that of rows left out: the summary says which is which.
    said = []
    for offer in model.offers_:
        predictor = model._choose(offer.cost)
        measured, summary = predictor.certificate.measured, str(predictor.summary())
        assert measured.cost == pytest.approx(model.cost(X, max_cost=offer.cost).mean())
        said.append(measured.left_out_cost is not None)
        assert (measured.left_out_cost or measured.cost) == pytest.approx(offer.cost)
        assert ("on rows left out in turn (as offers_ says)" in summary) == said[-1]
    assert any(said)
    assert model.score(X_new, y_new) > 0.75


def test_more_kinds_are_never_worse_on_the_rows_that_judge(rows):
    X, y, *_ = rows
    model = FeatureBudgetClassifier(RandomForestClassifier(9, random_state=0), n_folds=1, random_state=0, **COSTS)
    alone = clone(model).set_params(candidates="given").fit(X[:600], y[:600]).offers_
    together = clone(model).set_params(candidates=["trees", "forests"]).fit(X[:600], y[:600]).offers_
    for budget in (0, 5, 10, 20, 40):
        assert together.at(budget).error <= alone.at(budget).error + 0.03  # the union has coarser budgets
    assert {offer.name for offer in together} - {"given"}


def test_fitted_estimators_are_only_pruned(rows, fitted):
    X, y, X_new, _ = rows
    model = FeatureBudgetClassifier(fitted, max_cost=20, class_weight=None, **COSTS).fit(X[1500:], y[1500:])
    path = scurry.prune(fitted, X[1500:], y[1500:], **COSTS)
    assert (model.predict(X_new) == path.at(max_cost=20).predict(X_new)).all()
    assert (model.cost(X_new) == path.problem.costs.of_rows(path.at(max_cost=20), X_new)).all()
    assert model.forest_.digest == scurry.from_model(fitted).digest
    unlabelled = FeatureBudgetClassifier(fitted, max_cost=20, class_weight=None, **COSTS).fit(X[1500:])
    assert unlabelled.offers_ is None
    expected = scurry.prune(fitted, X[1500:], **COSTS).at(max_cost=20)
    assert (unlabelled.predict(X_new) == expected.predict(X_new)).all()
    whole = FeatureBudgetClassifier(fitted, **COSTS).fit(X[1500:], y[1500:])
    assert (whole.predict(X_new) == fitted.predict(X_new)).all()


def test_boosted_trees_compete_and_can_be_pruned_alone(rows):
    X, y, X_new, y_new = rows
    boosted = GradientBoostingClassifier(n_estimators=10, random_state=0)
    model = FeatureBudgetClassifier(boosted, candidates=["trees"], random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.8
    alone = clone(model).set_params(candidates="given").fit(X, y)
    assert alone.path_.costs[0] > alone.path_.costs[-1]
    assert alone.score(X_new, y_new) > 0.8


def test_error_costs_move_the_choice(rows):
    X, y, X_new, y_new = rows
    model = FeatureBudgetClassifier(
        RandomForestClassifier(9), max_cost=6, candidates=["trees"], random_state=0, **COSTS
    )
    found = {}
    for cost in (0.05, 20):
        careful = clone(model).set_params(class_weight=None, error_costs=[[0, 1], [cost, 0]]).fit(X, y)
        found[cost] = (careful.predict(X_new)[y_new == 1] == 1).mean()
    assert found[20] > found[0.05] + 0.1


def test_missing_values_and_names(rows):
    X, y, X_new, _ = rows
    names = [f"x{j}" for j in range(X.shape[1])]
    costs = {name: 1.0 + 3 * (name == "x2") for name in names}
    holes = X[:500].copy()
    holes[::7, 3] = np.nan
    kinds = ["trees", "fewer features", "budgeted", "boosted"]
    model = FeatureBudgetClassifier(
        RandomForestClassifier(5), max_cost=4, feature_costs=costs, candidates=kinds, n_folds=1, random_state=0
    )
    model.fit(pd.DataFrame(holes, columns=names), y[:500])
    assert not any("BudgetRF" in offer.name or "Miser" in offer.name for offer in model.offers_)
    assert model.cost(pd.DataFrame(X_new, columns=names)).mean() < 4.5
    shuffled = pd.DataFrame(X_new, columns=names)
    assert (model.predictor_.predict(shuffled[names[::-1]]) == model.predict(shuffled)).all()


def test_the_same_seed_finds_the_same_forests(rows):
    X, y, *_ = rows
    model = FeatureBudgetClassifier(RandomForestClassifier(5), n_folds=2, random_state=3)
    first, second = (clone(model).fit(X[:200], y[:200]).offers_ for _ in range(2))
    assert [offer.forest.digest for offer in first] == [offer.forest.digest for offer in second]


def test_mistakes(rows):
    X, y, *_ = rows
    wrong = {
        "candidates": ["cheap", ["trees", "bushes"], 3],
        "n_folds": [0, 2.5],
        "class_weight": ["heavy", {0: 1}, {0: 0, 1: 0}],
        "max_cost": ["much", float("nan")],
        "error_costs": [[[0, 1]], [[1, 1], [1, 0]], [[0, -1], [1, 0]], {0: {1: 2}}, {0: 1, 1: 2}, 10**400],
    }
    for name, values in wrong.items():
        for value in values:
            model = FeatureBudgetClassifier(RandomForestClassifier(3), candidates="given", max_cost=3, n_folds=1)
            model.set_params(**({"candidates": ["trees"]} | {name: value}))
            with pytest.raises(InputError, match=name):
                model.fit(X[:200], y[:200])
    with pytest.raises(InputError, match="sample_weight would reach the given estimator alone"):
        FeatureBudgetClassifier().fit(X, y, sample_weight=np.ones(len(X)))
    model = FeatureBudgetClassifier(RandomForestClassifier(3), candidates="given", class_weight={0: 1, 1: 2})
    with pytest.raises(InputError, match="not both"):
        scurry.prune(model.fit(X, y).forest_, X, class_weight="balanced", error_costs=[[0, 1], [1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScurryWarning)
        with pytest.raises(InfeasibleError, match="no forest costs -1 or less"):
            model.predict(X, max_cost=-1)


def test_a_forest_is_offered_at_what_it_costs():
    """In folds, a budget may buy an expensive feature that the forest of all rows does without."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] + 0.7 * X[:, 1] + 0.5 * rng.normal(size=150) > 0).astype(int)
    model = FeatureBudgetClassifier(feature_costs=[1, 100, 1, 100], candidates=["trees"], random_state=0).fit(X, y)
    own = np.array([model._costs.of_rows(offer.forest, X).mean() for offer in model.offers_])
    assert (own >= 0.8 * model.offers_.costs).all()
    assert (np.diff(own) > 0).all()


@pytest.mark.parametrize("n_folds", [1, 2])
def test_progress(n_folds, rows):
    X, y = rows[0][:300], rows[1][:300]
    done = []
    model = FeatureBudgetClassifier(RandomForestClassifier(3), candidates=["trees"], n_folds=n_folds, **COSTS)
    model.fit(X, y, progress=lambda *numbers: done.append(numbers))
    n_total = 11 * (1 if n_folds == 1 else 3)  # ten trees and the given forest, in each fold and once more
    assert done[:11] == [(n, n_total) for n in range(1, 12)]
    assert done == sorted(done)
    assert done[-1] == (n_total, n_total)
    pickle.dumps(model)

    def refuse(n_done, n_total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, progress=refuse)
    with pytest.raises(InputError, match="progress must be a function"):
        model.fit(X, y, progress=True)
    given = FeatureBudgetClassifier(RandomForestClassifier(3), candidates="given", **COSTS)
    given.fit(X, y, progress=lambda *numbers: done.append(numbers))
    assert done[-1][0] == done[-1][1]


class TestPromises:
    """A cost that new rows keep, certified on rows that the estimator sets apart."""

    def test_without_confidence_it_is_a_budget(self, rows):
        X, y, X_new, _ = rows
        model = FeatureBudgetClassifier(RandomForestClassifier(5), candidates=["trees"], random_state=0, **COSTS)
        model.fit(X[:600], y[:600])
        np.testing.assert_array_equal(
            model.predict(X_new, promise=Cost(10, confidence=None)), model.predict(X_new, max_cost=10)
        )
        assert model.cost(X_new, promise=Cost(10, confidence=None)).mean() < model.cost(X_new).mean()
        with pytest.raises(InputError, match="not both"):
            model.predict(X_new, promise=Cost(10, confidence=None), max_cost=10)

    def make(self, **options):
        known = {"promise": Cost(12), "candidates": ["trees"], "random_state": 0} | COSTS
        return FeatureBudgetClassifier(RandomForestClassifier(5), **(known | options))

    def test_rows_set_apart_certify_it(self, rows):
        X, y, X_new, y_new = rows
        model = self.make(calibration_size=0.25).fit(X, y)
        held, certificate = model._calibration, model.predictor_.certificate
        apart = {tuple(row) for row in held.certifying_rows}
        others = {tuple(row) for row in held.rows} | {tuple(row) for row in held.training_rows}
        assert len(apart) == certificate.n_rows == round(0.25 * len(X))
        assert not apart & others
        assert len(apart) + len(others) == len(X)
        assert certificate.promise == Cost(12)
        paid = model.cost(held.certifying_rows)
        assert certificate.measured.mean_cost == pytest.approx(paid.mean())
        assert paid.mean() < certificate.bound <= 12
        assert model.cost(X_new).mean() <= 12
        assert model.score(X_new, y_new) > 0.7
        assert "found of each class" in str(model.summary())

    @pytest.mark.slow
    def test_it_is_kept_as_often_as_stated(self):
        """Over draws from a known pool, whose mean cost is the truth."""
        rng, n_draws, n_broken, n_plain = np.random.default_rng(0), 60, 0, 0
        pool = rng.random((3000, 3))
        labels = (pool[:, 0] + 0.5 * (pool[:, 1] > 0.5) * pool[:, 2] > 0.7).astype(int)
        prices = {"feature_costs": [1.0, 4.0, 20.0]}
        for draw in range(n_draws):
            sample = rng.integers(3000, size=160)
            known = {"random_state": draw, "candidates": ["trees"], "n_folds": 1, **prices}
            model = FeatureBudgetClassifier(RandomForestClassifier(3, max_depth=3), promise=Cost(6), **known)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                n_broken += model.fit(pool[sample], labels[sample]).cost(pool).mean() > 6
                n_plain += (
                    clone(model)
                    .set_params(promise=None, max_cost=6)
                    .fit(pool[sample], labels[sample])
                    .cost(pool)
                    .mean()
                    > 6
                )
        assert n_broken <= 0.05 * n_draws + 2 * np.sqrt(0.05 * 0.95 * n_draws)
        assert n_plain > n_broken  # a budget is kept by the rows that chose the forest, not by others

    def test_copies_and_classes(self, rows):
        X, y, *_ = rows
        copied, doubled = np.repeat(X[:200], 3, axis=0), np.repeat(y[:200], 3)
        with pytest.warns(UserWarning, match="copies of others"):
            model = self.make().fit(copied, doubled)
        apart = {tuple(row) for row in model._calibration.certifying_rows}
        assert not apart & {tuple(row) for row in model._calibration.rows}
        rare = y[:300].copy()
        rare[5] = 7
        for seed in range(4):
            assert self.make(random_state=seed, n_folds=1).fit(X[:300], rare).classes_.tolist() == [0, 1, 7]

    def test_a_fitted_estimator_and_frames(self, rows, fitted):
        X, y, X_new, _ = rows
        for labels in (y[1500:], None):
            model = FeatureBudgetClassifier(fitted, promise=Cost(20), random_state=0, class_weight=None, **COSTS)
            model.fit(X[1500:], labels)
            assert model.predictor_.promise == Cost(20)
            assert model.cost(X_new).mean() <= 20
        names = [f"x{j}" for j in range(X.shape[1])]
        framed = self.make().fit(pd.DataFrame(X, columns=names), y)
        assert (framed.predict(pd.DataFrame(X_new, columns=names)) == self.make().fit(X, y).predict(X_new)).all()

    def test_a_promise_at_prediction_time(self, rows):
        X, y, X_new, _ = rows
        model = self.make().fit(X, y)
        assert model.cost(X_new, promise=Cost(6)).mean() <= 6 < model.cost(X_new).mean()
        assert (model.predict(X_new, promise=Cost(12)) == model.predict(X_new)).all()
        plain = self.make(promise=None, max_cost=12).fit(X, y)
        with pytest.raises(InputError, match="no rows were set apart to certify a promise"):
            plain.predict(X_new, promise=Cost(6))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"promise": 12}, r"promise must be a scurry.promises.Cost, got 12. Did you mean Cost\(12\)\?"),
            ({"promise": scurry.promises.Labels(0.1)}, "promise must be a scurry.promises.Cost"),
            ({"max_cost": 12}, "give a promise or a budget, not both"),
            ({"calibration_size": 1.5}, "calibration_size must be a share"),
        ],
    )
    def test_misuse(self, rows, options, message):
        with pytest.raises(InputError, match=message):
            self.make(**options).fit(rows[0], rows[1])


class TestWhatUsersExpect:
    def test_save_and_summary(self, rows, tmp_path):
        X, y, X_new, _ = rows
        model = FeatureBudgetClassifier(
            RandomForestClassifier(5), max_cost=12, candidates=["trees"], random_state=0, **COSTS
        )
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "m.scurry")
        model.fit(X, y).save(tmp_path / "m.scurry")
        loaded = scurry.load(tmp_path / "m.scurry")
        assert (loaded.predict(X_new) == model.predict(X_new)).all()
        assert str(loaded.summary()) == str(model.summary())

    def test_rows_are_bought_at_its_prices(self, rows, fitted):
        X, y, X_new, _ = rows
        for model in (
            FeatureBudgetClassifier(
                RandomForestClassifier(5), max_cost=12, candidates=["trees"], random_state=0, **COSTS
            ),
            FeatureBudgetClassifier(fitted, max_cost=12, **COSTS),
            FeatureBudgetClassifier(fitted, **COSTS),
        ):
            model.fit(X, y)
            out = model.acquire(lambda row, feature: X_new[row, feature], 20)
            np.testing.assert_allclose(out.costs, model.cost(X_new[:20]))
            assert (out.labels == model.predict(X_new[:20])).all()
            visit = model.start_row(dict(enumerate(X_new[0])))
            assert visit.answer.label == model.predict(X_new[:1])[0]
            assert model.start_row(max_cost=0).answer.cost == 0


RNG = np.random.default_rng(0)
X = RNG.random((60, 7))
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


def grower(rows):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [1, 0], [0, 1]]}  # fmt: skip
    like = scurry.Forest.from_trees([stump], n_features=7)
    return Grower(rows, Y, FeatureCosts.of(like), ErrorCosts.of_forest(like, class_weight="balanced"), like, 0)


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS])
def test_as_many_candidates_are_grown_as_announced(kinds):
    assert len(list(grower(X).grow(kinds))) == grower(X).count(kinds)


def test_missing_values_leave_fewer_candidates():
    rows = X.copy()
    rows[0, 0] = np.nan
    assert grower(rows).count(("budgeted", "boosted")) == len(list(grower(rows).grow(("budgeted", "boosted")))) == 0


def test_names_choose_candidates():
    names = [name for name, _ in grower(X).grow(KINDS, {"tree of depth 3", "BudgetRF by pairs"})]
    assert names == ["tree of depth 3", "BudgetRF by pairs"]


def test_every_class_is_spread_over_the_folds_and_copies_stay_together():
    codes = np.repeat([0, 1, 2], [20, 9, 1])
    folds = assign_folds(codes, 3, np.random.default_rng(0))
    assert sorted(np.bincount(folds[:20])) == [6, 7, 7]
    assert np.bincount(folds[20:29]).tolist() == [3, 3, 3]
    assert folds[29] == -1  # never left out: the others would not know its class
    copies = np.arange(30) // 2
    together = assign_folds(codes, 3, np.random.default_rng(0), copies)[:20].reshape(10, 2)
    assert (together[:, 0] == together[:, 1]).all()
