import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.errors import InputError, ScurryWarning
from scurry.plan import StepRule
from scurry.pruning import FeatureCosts, feature_uses
from support.acquisition_cases import WINE, WINE_FOREST, from_table, simulate
from support.strategies import adversarial_rows

CANCER = load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def cancer_forest():
    X, y = CANCER
    return scurry.from_model(RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:300], y[:300]))


def budgets():
    """Not so close below a sum of costs that they count as equal."""
    return st.floats(0, 12).map(lambda budget: round(budget, 3))


def anytime_predictor(forest, readout="plain", seed=0):
    steps = np.repeat(np.arange(forest.n_trees), forest.tree_depth)
    order = np.random.default_rng(seed).permutation(steps).astype(np.int32)
    return scurry.Predictor(forest, scurry.Plan(order=order, stop=StepRule(readout=readout)))


class TestWithoutLimit:
    def test_forest_answers_as_predict_and_pays_for_its_paths(self, cancer_forest):
        X = CANCER[0]
        rows = adversarial_rows(cancer_forest, X, 150, special=False)
        costs = np.random.default_rng(0).uniform(0, 5, X.shape[1])
        out = scurry.Predictor.full(cancer_forest).acquire(from_table(rows), len(rows), feature_costs=costs)
        assert (out.labels == cancer_forest.predict(rows)).all()
        np.testing.assert_array_equal(out.scores, cancer_forest.scores(rows))
        np.testing.assert_array_equal(out.bought, feature_uses(cancer_forest, rows) > 0)
        np.testing.assert_allclose(out.costs, out.bought @ costs)
        assert (out.stop_reason == "complete").all()
        assert (out.trees == cancer_forest.n_trees).all()
        assert (out.steps == cancer_forest.node_depth[cancer_forest.apply(rows)].sum(axis=1)).all()

    @pytest.mark.parametrize("kind", ["hist", "xgboost", "lightgbm"])
    def test_models_with_missing_values_and_boosting(self, kind):
        X, y = (part.copy() for part in CANCER)
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
        if kind == "hist":
            model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, y)
        elif kind == "xgboost":
            model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=10, max_depth=4).fit(X, y)
        else:
            model = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=10, verbose=-1).fit(X, y)
        forest = scurry.from_model(model)
        rows = adversarial_rows(forest, X, 60)
        out = scurry.Predictor.full(forest).acquire(
            lambda row, feature: rows[row][
                feature if isinstance(feature, int) else forest.feature_names.index(feature)
            ],
            len(rows),
        )
        assert (out.labels == forest.predict(rows)).all()
        np.testing.assert_array_equal(out.scores, forest.scores(rows))
        read = feature_uses(forest, rows) > 0
        np.testing.assert_array_equal(out.n_missing, (np.isnan(rows) & read).sum(axis=1))

    def test_categories_may_be_given_by_name(self):
        pd = pytest.importorskip("pandas")
        lightgbm = pytest.importorskip("lightgbm")
        rng = np.random.default_rng(2)
        frame = pd.DataFrame(
            {"colour": pd.Categorical(rng.choice(["red", "green", "blue"], 200)), "size": rng.normal(size=200)}
        )
        y = ((frame["colour"] == "red") ^ (frame["size"] > 0)).to_numpy().astype(int)
        model = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=5, min_data_per_group=5, verbose=-1)
        forest = scurry.from_model(model.fit(frame, y))
        out = scurry.Predictor.full(forest).acquire(lambda row, feature: frame[feature].iloc[row], 50)
        assert (out.labels == forest.predict(frame.iloc[:50])).all()
        assert not out.errors

    def test_groups_and_discounts_are_paid_once(self):
        X = WINE[0]
        terms = {"feature_costs": np.arange(13) / 4, "groups": [0] * 4 + [1] * 3 + [-1] * 6, "group_costs": [2.1, 5.0]}
        predictor = scurry.Predictor.full(WINE_FOREST)
        out = predictor.acquire(from_table(X), 60, **terms)
        np.testing.assert_allclose(out.costs, FeatureCosts.of(WINE_FOREST, **terms).of_rows(WINE_FOREST, X[:60]))
        assert out.ledger.total_cost == pytest.approx(out.costs.sum())
        for group, members in ((0, slice(0, 4)), (1, slice(4, 7))):
            assert out.ledger.groups[group] == out.bought[:, members].any(axis=1).sum()

    def test_pruned_forest(self):
        X = WINE[0]
        pruned = scurry.prune(WINE_FOREST, X[1::2]).at(max_cost=3)
        out = scurry.Predictor.full(pruned).acquire(from_table(X), len(X))
        assert (out.labels == pruned.predict(X)).all()
        assert out.costs[1::2].mean() <= 3 + 1e-9


class TestEarlyExit:
    @pytest.mark.parametrize("method", ["minimax", "qwyc", "fan"])
    def test_two_classes(self, cancer_forest, method):
        X = CANCER[0]
        fast = scurry.early_exit(cancer_forest, X[300:], max_disagreement=0.05, method=method, confidence=None)
        assert len(fast.plan.stop.weights) == 1
        out, run = fast.acquire(from_table(X), 100), fast.run(X[:100])
        assert (out.labels == fast.predict(X[:100])).all()
        assert (out.trees == run.trees).all()
        assert (out.steps == run.steps).all()
        assert (out.stop_reason == run.stop_reason).all()
        full = scurry.Predictor.full(cancer_forest).acquire(from_table(X), 100)
        assert out.costs.sum() < full.costs.sum()
        assert not (out.bought & ~full.bought).any()

    @pytest.mark.parametrize("method", ["minimax", "qwyc"])
    def test_more_classes(self, method):
        X = WINE[0]
        fast = scurry.early_exit(WINE_FOREST, X, max_disagreement=0.05, method=method, confidence=None)
        out, run = fast.acquire(from_table(X), len(X)), fast.run(X)
        assert (out.labels == fast.predict(X)).all()
        assert (out.trees == run.trees).all()
        assert out.mean_cost < scurry.Predictor.full(WINE_FOREST).acquire(from_table(X), len(X)).mean_cost

    @pytest.mark.parametrize("max_cost", [None, 4.0])
    @pytest.mark.parametrize("method", ["minimax", "qwyc"])
    @pytest.mark.parametrize("data", ["cancer", "wine", "boosted"])
    def test_scores_never_contradict_labels(self, cancer_forest, data, method, max_cost):
        X, y = CANCER if data == "cancer" else WINE
        forest = cancer_forest if data == "cancer" else WINE_FOREST
        if data == "boosted":
            method = "qwyc"
            forest = scurry.from_model(HistGradientBoostingClassifier(max_iter=6, random_state=0).fit(X, y == 1))
        fast = scurry.early_exit(forest, X, max_disagreement=0.05, method=method, confidence=None)
        out, run = fast.acquire(from_table(X), 80, max_cost=max_cost), fast.run(X[:80])
        answered = np.isfinite(out.scores).all(axis=1)
        assert answered.sum() > 40
        np.testing.assert_array_equal(forest.decide(out.scores[answered]), out.labels[answered])
        if max_cost is None:
            assert (out.stop_reason == "decided").any()
            of_second = out.scores if run.scores.ndim == 2 else out.scores[:, -1]
            np.testing.assert_allclose(of_second, run.scores)

    def test_boosted_classes(self):
        X, y = WINE
        forest = scurry.from_model(HistGradientBoostingClassifier(max_iter=12, random_state=0).fit(X, y))
        fast = scurry.early_exit(forest, X, max_disagreement=0.05, method="qwyc", confidence=None)
        out = fast.acquire(from_table(X), len(X))
        assert (out.labels == fast.predict(X)).all()
        assert (out.trees == fast.run(X).trees).all()

    def test_lots_are_drawn_by_row_number(self, cancer_forest):
        X = CANCER[0]
        fast = scurry.early_exit(
            cancer_forest,
            X[300:],
            max_disagreement=0.05,
            method="minimax",
            shuffle="row",
            random_state=0,
            confidence=None,
        )
        one = fast.acquire(from_table(np.tile(X[:1], (40, 1))), 40)
        assert len(set(one.steps.tolist())) > 1  # the same row in several orders
        again = fast.acquire(from_table(np.tile(X[:1], (40, 1))), 40)
        np.testing.assert_array_equal(one.steps, again.steps)
        many = fast.acquire(from_table(X[300:]), 269)
        assert (many.labels != cancer_forest.predict(X[300:])).mean() <= 0.1

    def test_limited_exit_answers_from_inner_nodes(self, cancer_forest):
        X = CANCER[0]
        fast = scurry.early_exit(cancer_forest, X[300:], max_disagreement=0.05, method="minimax", confidence=None)
        out = fast.acquire(from_table(X), 100, max_cost=0)
        roots = cancer_forest.value[cancer_forest.tree_offset[:-1]].argmax(axis=1)
        assert (out.labels == np.bincount(roots).argmax()).all()
        assert (out.costs == 0).all()
        assert (out.stop_reason == "max_cost").all()


class TestLimits:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**6), budgets(), st.booleans(), st.sampled_from(["plain", "weighted"]))
    def test_plan_order_against_a_simulation(self, seed, max_cost, by_step, readout):
        X, rng = WINE[0], np.random.default_rng(seed)
        x, costs = X[rng.integers(len(X))], rng.choice([0.0, 0.5, 1.0, 3.0], 13)
        if by_step:
            predictor = anytime_predictor(WINE_FOREST, readout, seed)
        else:
            order = rng.permutation(WINE_FOREST.n_trees).astype(np.int32)
            predictor = scurry.Predictor(WINE_FOREST, scurry.Plan(order=order))
        out = predictor.acquire(from_table([x]), feature_costs=costs, max_cost=max_cost)
        nodes, bought = simulate(WINE_FOREST, x, predictor.plan.order, costs, max_cost, by_step)
        weight = np.ones(len(nodes))
        if by_step and readout == "weighted":
            depth = (WINE_FOREST.node_depth[nodes] + 1) / (WINE_FOREST.tree_depth + 1)
            weight = np.where(WINE_FOREST.is_leaf[nodes], 1, depth**2)
        expected = weight @ WINE_FOREST.value[nodes] / weight.sum()
        np.testing.assert_allclose(out.scores[0], expected, rtol=1e-12)
        assert [purchase.feature for purchase in out.ledger.purchases] == bought
        assert out.costs[0] == pytest.approx(sum(costs[bought]))
        assert out.costs[0] <= max_cost * (1 + 1e-9)
        assert (out.stop_reason[0] == "complete") == WINE_FOREST.is_leaf[nodes].all()

    def test_anytime_without_limit_is_the_model_and_with_nothing_the_roots(self):
        X = WINE[0]
        for readout in ("plain", "weighted"):
            predictor = anytime_predictor(WINE_FOREST, readout)
            assert (predictor.acquire(from_table(X), 50).labels == WINE_FOREST.predict(X[:50])).all()
            nothing = predictor.acquire(from_table(X), 5, max_cost=0)
            assert (nothing.labels == predictor.predict(X[:5], max_steps=0)).all()
            assert (nothing.stop_reason == "max_cost").all()

    def test_free_features_are_read_at_any_budget(self):
        X = WINE[0]
        out = scurry.Predictor.full(WINE_FOREST).acquire(from_table(X), 20, feature_costs=np.zeros(13), max_cost=0)
        assert (out.stop_reason == "complete").all()

    def test_costs_that_add_up_to_the_budget_fit_it(self):
        chain = {
            "feature": [0, -1, 1, -1, 2, -1, -1],
            "threshold": [0.5, 0, 0.5, 0, 0.5, 0, 0],
            "left": [1, -1, 3, -1, 5, -1, -1],
            "right": [2, -1, 4, -1, 6, -1, -1],
            "value": [[0.5, 0.5]] * 6 + [[0, 1]],
        }
        predictor = scurry.Predictor.full(scurry.Forest.from_trees([chain]))
        out = predictor.acquire(lambda row, feature: 1.0, feature_costs=[0.1] * 3, max_cost=0.3)
        assert out.stop_reason.tolist() == ["complete"]


class TestCheapestFirst:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**6), st.one_of(st.none(), budgets()), st.booleans())
    def test_each_purchase_is_the_cheapest_there_is(self, seed, max_cost, with_groups):
        """The purchases, replayed: before each, trees are walked with what is paid for, by definition."""
        X, rng = WINE[0], np.random.default_rng(seed)
        x = X[rng.integers(len(X))]
        terms = {"feature_costs": rng.choice([0.0, 0.5, 1.0, 3.0], 13)}
        if with_groups:
            terms |= {"groups": rng.integers(-1, 3, 13), "group_costs": [0.0, 1.5, 2.0]}
            terms["groups"][:3] = [0, 1, 2]
        predictor = scurry.Predictor.full(WINE_FOREST)
        out = predictor.acquire(from_table([x]), max_cost=max_cost, order="cheapest", **terms)
        costs = FeatureCosts.of(WINE_FOREST, **terms)
        paid, groups, spent = set(), set(), 0.0

        def price(feature):
            group = costs.groups[feature]
            return costs.feature_costs[feature] + (
                costs.group_costs[group] if group >= 0 and group not in groups else 0
            )

        def needed():
            return [int(WINE_FOREST.feature[node]) for node in self.reach(WINE_FOREST, x, paid)]

        for purchase in out.ledger.purchases:
            wanted = needed()
            rank = [(price(f), -wanted.count(f), f) for f in set(wanted)]
            assert purchase.feature == min(rank)[2]
            spent += price(purchase.feature)
            paid.add(purchase.feature)
            groups.add(costs.groups[purchase.feature])
        assert out.costs[0] == pytest.approx(spent)
        left = needed()
        if out.stop_reason[0] == "complete":
            assert not left
            assert out.labels[0] == WINE_FOREST.predict([x])[0]
        else:
            assert min(price(f) for f in left) + spent > max_cost

    @staticmethod
    def reach(forest, x, paid):
        """The inner nodes at which trees stand when only `paid` features are known."""
        found = []
        for root in forest.tree_offset[:-1]:
            node = int(root)
            while forest.left[node] >= 0 and int(forest.feature[node]) in paid:
                goes_left = np.float32(x[forest.feature[node]]) <= forest.threshold[node]
                node = int((forest.left if goes_left else forest.right)[node])
            if forest.left[node] >= 0:
                found.append(node)
        return found

    def test_without_limit_it_buys_what_the_plan_buys(self):
        X = WINE[0]
        plan, cheap = (
            anytime_predictor(WINE_FOREST).acquire(from_table(X), 40, order=order) for order in ("plan", "cheapest")
        )
        np.testing.assert_array_equal(plan.bought, cheap.bought)
        np.testing.assert_array_equal(plan.scores, cheap.scores)

    def test_it_knows_more_for_less(self):
        """At a small budget more trees get further than in the plan's order."""
        X = WINE[0]
        costs = np.where(np.arange(13) % 2, 1.0, 6.0)
        predictor = scurry.Predictor.full(WINE_FOREST)
        steps = {
            order: predictor.acquire(from_table(X), len(X), feature_costs=costs, max_cost=8, order=order).steps.mean()
            for order in ("plan", "cheapest")
        }
        assert steps["cheapest"] > steps["plan"]

    def test_early_exit_is_refused(self, cancer_forest):
        X = CANCER[0]
        fast = scurry.early_exit(cancer_forest, X[300:], max_disagreement=0.05, method="minimax")
        with pytest.raises(InputError, match=r'its promise in its own order of trees; use order="plan"'):
            fast.acquire(from_table(X), order="cheapest")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_cost": -1}, "max_cost must be a number of at least 0, got -1; None sets no limit"),
        ({"max_cost": np.nan}, "max_cost must be a number of at least 0"),
        ({"order": "dearest"}, 'order must be one of "plan", "cheapest", "informative", got \'dearest\''),
        ({"n_rows": -1}, "n_rows must be a whole number of at least 0, got -1"),
        ({"feature_costs": [1.0, -1.0] + [1.0] * 11}, r"feature_costs\[1\] .* is -1"),
        ({"feature_costs": [1.0]}, r"feature_costs has shape \(1,\), expected \(13,\)"),
        ({"groups": {"a": ["nothing"]}, "group_costs": [1]}, "groups names 'nothing', which is no feature"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(InputError, match=message):
        scurry.Predictor.full(WINE_FOREST).acquire(from_table(WINE[0]), **options)


def test_no_rows():
    out = scurry.Predictor.full(WINE_FOREST).acquire(from_table(WINE[0]), 0)
    assert out.labels.shape == out.costs.shape == (0,)
    assert out.bought.shape == (0, 13)
    assert out.scores.shape == (0, 3)
    assert repr(out) == "Acquisition(n_rows=0, mean_cost=0, largest_cost=0)"


class TestFailures:
    """Rows that nothing could be measured for cost nothing, and roots answer: that must not look like success."""

    @pytest.mark.parametrize(
        ("forest", "mistake", "hint"),
        [
            (WINE_FOREST, {"alcohol": 1.0}.__getitem__, "KeyError: 9. It gets a feature by its column number"),
            (
                WINE_FOREST,
                lambda feature: WINE[0][0, feature + "!"],
                "TypeError.* It gets a feature by its column number",
            ),
            (
                WINE_FOREST.replace(feature_names=[f"test {j}" for j in range(WINE_FOREST.n_features)]),
                lambda feature: WINE[0][0, feature],
                "IndexError.* It gets a feature by its name, such as 'test 0'",
            ),
        ],
    )
    def test_a_function_that_always_raises_is_warned_of_once(self, forest, mistake, hint):
        predictor = scurry.Predictor.full(forest)
        with pytest.warns(ScurryWarning, match=f"raised an error in 5 of 5 rows; in row 0, {hint}") as caught:
            out = predictor.acquire(lambda row, feature: mistake(feature), 5)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert (out.costs == 0).all()
        assert (out.stop_reason == "failed").all()

    def test_other_errors_have_no_hint_and_success_no_warning(self):
        X, predictor = WINE[0], scurry.Predictor.full(WINE_FOREST)

        def measure(row, feature):
            if row == 3:
                raise OSError("the laboratory is closed")
            return X[row, feature]

        with pytest.warns(
            ScurryWarning, match="in 1 of 5 rows; in row 3, OSError: the laboratory is closed. Such rows"
        ):
            predictor.acquire(measure, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predictor.acquire(measure, 3)


def test_rows_that_run_out_of_a_limit_are_told():
    tree = {
        "feature": [1, -1, 0, -1, -1],
        "threshold": [0.5, 0, 0.5, 0, 0],
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5], [0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [0, 1]],
    }
    predictor = scurry.Predictor.full(scurry.Forest.from_trees([tree]))
    rows = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    with pytest.warns(scurry.errors.ScurryWarning, match=r"each row may pay, and 2 of 3 rows needed more") as caught:
        out = predictor.acquire(lambda row, feature: rows[row][feature], 3, feature_costs=[5, 2], max_cost=3)
    assert "0.0 of 1 trees were at a leaf on average); 2 of them get the label 1" in str(caught[0].message)
    assert "largest_cost=2" in repr(out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.acquire(lambda row, feature: rows[row][feature], 3, feature_costs=[5, 2])
