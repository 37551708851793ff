"""One row whose features arrive one at a time: the same answers as `predict` and `acquire`, whenever it is saved."""

import copy
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import FormatError, InputError
from scurry.plan import StepRule
from scurry.pruning import FeatureCosts
from support.acquisition_cases import WINE, WINE_FOREST, from_table

X, Y = load_breast_cancer(return_X_y=True)
FOREST = scurry.from_model(RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:300], Y[:300]))
BOOSTED = scurry.from_model(GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[:300], Y[:300]))
PRICES = {"feature_costs": np.arange(30) % 4 + 0.5, "groups": [0] * 6 + [1] * 6 + [-1] * 18, "group_costs": [2.0, 3.5]}
ORDERS = ("plan", "cheapest", "informative")


def anytime_predictor(readout):
    steps = np.repeat(np.arange(FOREST.n_trees), FOREST.tree_depth)
    order = np.random.default_rng(0).permutation(steps).astype(np.int32)
    return scurry.Predictor(FOREST, scurry.Plan(order=order, stop=StepRule(readout=readout)))


def early_exit(forest, method, **options):
    return scurry.early_exit(
        forest, X[300:], max_disagreement=0.05, method=method, confidence=None, random_state=0, **options
    )


PREDICTORS = {
    "forest": scurry.Predictor.full(FOREST),
    "boosted": scurry.Predictor.full(BOOSTED),
    "votes": early_exit(FOREST, "minimax"),
    "scores": early_exit(BOOSTED, "qwyc"),
    "plain steps": anytime_predictor("plain"),
    "weighted steps": anytime_predictor("weighted"),
}
every_predictor = pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)


def finish(visit, x, unavailable=()):
    """Give a visit what it asks for; return the features in order."""
    asked = []
    while (wanted := visit.next_feature) is not None:
        assert visit.answer is None
        assert visit.stop_reason == "waiting"
        asked.append(wanted.name)
        if wanted.name in unavailable:
            visit.unavailable(wanted.name)
        else:
            visit.give(wanted.name, x[wanted.name])
    return asked


class TestAnswers:
    @every_predictor
    def test_they_are_those_of_predict(self, predictor):
        """Labels and probabilities, although only some of the features are known."""
        labels, probabilities = predictor.predict(X[300:330]), predictor.predict_proba(X[300:330])
        for x, label, row in zip(X[300:330], labels, probabilities, strict=True):
            visit = predictor.start_row()
            assert len(finish(visit, x)) < 30
            assert visit.answer.label == label
            np.testing.assert_array_equal(visit.answer.probabilities, row)
            assert visit.answer.complete == (visit.answer.stop_reason == "complete")

    @every_predictor
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("max_cost", [None, 0, 9.5])
    def test_they_and_their_costs_are_those_of_acquire(self, predictor, order, max_cost):
        if predictor.plan.exit_rule is not None and order != "plan":
            with pytest.raises(InputError, match=f'promise in its own order of trees; use order="plan", or .*{order}'):
                predictor.start_row(order=order)
            return
        options = PRICES | {"order": order, "max_cost": max_cost}
        out = predictor.acquire(from_table(X[300:]), 12, **options)
        for row in range(12):
            visit = predictor.start_row(**options)
            asked = finish(visit, X[300 + row])
            assert asked == [p.feature for p in out.ledger.purchases if p.row == row]
            assert visit.answer.label == out.labels[row]
            assert visit.answer.cost == visit.cost == out.costs[row]
            assert visit.answer.stop_reason == out.stop_reason[row]
            assert sorted(asked) == np.flatnonzero(out.bought[row]).tolist()

    def test_what_is_known_costs_nothing(self):
        predictor, x = PREDICTORS["forest"], X[400]
        needed = finish(predictor.start_row(**PRICES), x)
        visit = predictor.start_row({name: x[name] for name in needed[:3]}, **PRICES)
        assert set(finish(visit, x)) == set(needed[3:])
        costs = FeatureCosts.of(FOREST, **PRICES)
        groups = {int(costs.groups[f]) for f in needed[3:]} - {-1}
        assert visit.cost == pytest.approx(
            costs.feature_costs[needed[3:]].sum() + sum(costs.group_costs[group] for group in groups)
        )
        done = predictor.start_row(x)
        assert done.next_feature is None
        assert done.answer.cost == 0
        assert done.answer.label == FOREST.predict([x])[0]

    def test_probabilities_agree_with_the_label(self):
        """Also where trees stay at inner nodes."""
        for name in PREDICTORS:
            for max_cost in (2, 8, 20):
                for x in X[300:310]:
                    visit = PREDICTORS[name].start_row(max_cost=max_cost, **PRICES)
                    finish(visit, x)
                    answer = visit.answer
                    assert answer.probabilities.sum() == pytest.approx(1)
                    assert answer.probabilities[answer.label] >= 0.5 - 1e-12

    def test_regressor_has_a_value(self):
        forest = scurry.from_model(RandomForestRegressor(5, max_depth=3, random_state=0).fit(X[:300], X[:300, 3]))
        visit = scurry.Predictor.full(forest).start_row()
        finish(visit, X[300])
        assert visit.answer.label == forest.predict(X[300:301])[0]
        assert visit.answer.probabilities is None


class TestNextFeature:
    def test_cost_counts_a_group_once(self):
        visit, paid = PREDICTORS["forest"].start_row(**PRICES), set()
        costs = FeatureCosts.of(FOREST, **PRICES)
        while (wanted := visit.next_feature) is not None:
            group = int(costs.groups[wanted.name])
            due = costs.group_costs[group] if group >= 0 and group not in paid else 0
            assert wanted.cost == costs.feature_costs[wanted.name] + due
            before = visit.cost
            visit.give(wanted.name, X[310, wanted.name])
            assert visit.cost == before + wanted.cost
            paid.add(group)
        assert [p.feature_cost + p.group_cost for p in visit.purchases] == pytest.approx(np.diff([0, *spent(visit)]))

    def test_why_counts_the_trees_that_wait(self):
        forest, x = FOREST, X[310]
        for order in ORDERS:
            visit = scurry.Predictor.full(forest).start_row(order=order)
            while (wanted := visit.next_feature) is not None:
                at = [stand(forest, tree, x, {p.feature for p in visit.purchases}) for tree in range(forest.n_trees)]
                n = sum(forest.left[node] >= 0 and forest.feature[node] == wanted.name for node in at)
                assert f"{n} tree{'s wait' if n != 1 else ' waits'} for it" in wanted.why
                visit.give(wanted.name, x[wanted.name])
        exit_visit = PREDICTORS["votes"].start_row()
        assert "tree 1 of 15 in the plan's order tests it next" in exit_visit.next_feature.why
        assert "the next step" in PREDICTORS["plain steps"].start_row().next_feature.why

    def test_without_a_limit_every_order_buys_the_same(self):
        for x in X[300:320]:
            bought = [set(finish(PREDICTORS["forest"].start_row(order=order, **PRICES), x)) for order in ORDERS]
            assert bought[0] == bought[1] == bought[2]

    def test_a_model_without_covers_has_no_informative_order(self):
        stump = {
            "feature": [0, -1, -1],
            "threshold": [0.5, 0, 0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
        }
        with pytest.raises(InputError, match=r'needs the number of training rows .* use order="cheapest"'):
            scurry.Predictor.full(scurry.Forest.from_trees([stump])).start_row(order="informative")


def spent(visit):
    return np.cumsum([p.feature_cost + p.group_cost for p in visit.purchases])


def stand(forest, tree, x, known):
    """The node at which a tree stands when only some features are known."""
    node = int(forest.tree_offset[tree])
    while forest.left[node] >= 0 and int(forest.feature[node]) in known:
        goes_left = np.float32(x[forest.feature[node]]) <= forest.threshold[node]
        node = int((forest.left if goes_left else forest.right)[node])
    return node


class TestUnavailable:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 268), st.sets(st.integers(0, 29), max_size=12), st.sampled_from(ORDERS))
    def test_trees_answer_with_the_node_reached(self, row, missing, order):
        x = X[300 + row]
        visit = PREDICTORS["forest"].start_row(order=order)
        finish(visit, x, missing)
        nodes = np.array([stand(FOREST, tree, x, set(range(30)) - missing) for tree in range(FOREST.n_trees)])
        expected = FOREST.value[nodes].mean(axis=0)
        np.testing.assert_allclose(visit.answer.probabilities, expected, rtol=1e-12)
        assert visit.answer.label == expected.argmax() or abs(expected[0] - 0.5) < 1e-9
        stuck = int((FOREST.left[nodes] >= 0).sum())
        assert visit.answer.stop_reason == ("unavailable" if stuck else "complete")
        if stuck:
            assert f"could not be obtained: {stuck} of 15 trees answered with the inner node" in visit.answer.why

    @pytest.mark.parametrize("name", ["votes", "scores"])
    def test_early_exit_runs_as_if_trees_ended_there(self, name):
        predictor = PREDICTORS[name]
        forest, missing = predictor.forest, set(np.unique(predictor.forest.feature)[1::3].tolist())
        for x in X[300:320]:
            visit = predictor.start_row()
            finish(visit, x, missing)
            # The same forest with every split on a missing feature cut off.
            stays = ~np.isin(forest.feature, list(missing)) & (forest.left >= 0)
            for node in np.flatnonzero(forest.parent >= 0):
                stays[node] &= stays[forest.parent[node]]
            cut = scurry.Predictor(forest.keep_splits(stays), predictor.plan)
            assert visit.answer.label == cut.predict(x[None])[0]
            np.testing.assert_array_equal(visit.answer.probabilities, cut.predict_proba(x[None])[0])
            assert visit.answer.stop_reason in ("unavailable", "decided", "complete")

    def test_it_may_be_said_before_it_is_asked_for(self):
        visit, late = PREDICTORS["forest"].start_row(), PREDICTORS["forest"].start_row()
        missing = finish(PREDICTORS["forest"].start_row(), X[300])[2]
        visit.unavailable(missing)
        assert missing not in finish(visit, X[300])
        finish(late, X[300], {missing})
        np.testing.assert_array_equal(visit.answer.probabilities, late.answer.probabilities)
        assert visit.cost == late.cost

    def test_one_that_is_not_needed_changes_nothing(self):
        visit = PREDICTORS["votes"].start_row()
        needed = finish(PREDICTORS["votes"].start_row(), X[300])
        visit.unavailable(next(f for f in range(30) if f not in needed))
        finish(visit, X[300])
        assert visit.answer.stop_reason in ("decided", "complete")


class TestGive:
    def test_a_missing_value_goes_where_the_model_sends_it(self):
        for missing in (None, np.nan):
            predictor, x = PREDICTORS["forest"], X[300].copy()
            first = predictor.start_row().next_feature.name
            x[first] = np.nan
            visit = predictor.start_row()
            visit.give(first, missing)
            finish(visit, x)
            assert visit.answer.label == FOREST.predict(x[None])[0]
            assert visit.answer.complete

    def test_more_than_was_asked_for_is_paid_when_used(self):
        visit, plain = (PREDICTORS["votes"].start_row(**PRICES) for _ in range(2))
        finish(plain, X[300])
        for feature in range(30):
            visit.give(feature, X[300, feature])
        assert visit.cost == plain.cost
        assert visit.answer.label == plain.answer.label

    def test_a_result_may_arrive_twice_but_not_change(self):
        visit = PREDICTORS["forest"].start_row()
        name = visit.next_feature.name
        visit.give(name, 1.5)
        visit.give(name, 1.5)
        with pytest.raises(InputError, match=r"has the value 1\.5, which trees have used already"):
            visit.give(name, 1.6)
        with pytest.raises(InputError, match="has a value already"):
            visit.unavailable(name)
        other = visit.next_feature.name
        visit.unavailable(other)
        with pytest.raises(InputError, match="was declared unavailable"):
            visit.give(other, 1.0)

    def test_nonsense_leaves_the_visit_as_it_was(self):
        visit = PREDICTORS["forest"].start_row()
        before = visit.next_feature
        for name, value in (("mean", 1.0), (30, 1.0), (True, 1.0), (before.name, "high")):
            with pytest.raises(InputError):
                visit.give(name, value)
        assert visit.next_feature == before

    def test_interrupted_walk_starts_again(self, monkeypatch):
        visit = PREDICTORS["forest"].start_row()
        whole = PREDICTORS["forest"].start_row()
        finish(whole, X[300])
        first = visit.next_feature.name
        with monkeypatch.context() as patch:
            patch.setattr(type(FOREST), "goes_left", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                visit.give(first, X[300, first])
        assert visit.next_feature is not None
        finish(visit, X[300])
        assert visit.cost == whole.cost
        np.testing.assert_array_equal(visit.answer.probabilities, whole.answer.probabilities)


def raise_interrupt(*_):
    raise KeyboardInterrupt


class TestSaving:
    @every_predictor
    @pytest.mark.parametrize("order", ORDERS)
    def test_a_visit_continues_after_any_step(self, predictor, order, tmp_path):
        if predictor.plan.exit_rule is not None and order != "plan":
            return
        predictor.save(tmp_path / "model.scurry")
        options = PRICES | {"order": order, "max_cost": 14}
        whole, visit = (predictor.start_row({0: X[300, 0]}, **options) for _ in range(2))
        finish(whole, X[300], {7})
        for step in range(30):
            visit.save(tmp_path / "visit.scurry")
            loaded = scurry.Visit.load(tmp_path / "visit.scurry", scurry.load(tmp_path / "model.scurry"))
            assert loaded.next_feature == visit.next_feature
            assert loaded.purchases == visit.purchases
            visit = loaded
            if visit.next_feature is None:
                break
            assert step < 29
            if (name := visit.next_feature.name) == 7:
                visit.unavailable(name)
            else:
                visit.give(name, X[300, name])
        assert (visit.answer.label, visit.answer.cost) == (whole.answer.label, whole.answer.cost)
        assert (visit.stop_reason, visit.purchases) == (whole.stop_reason, whole.purchases)
        np.testing.assert_array_equal(visit.answer.probabilities, whole.answer.probabilities)

    def test_values_of_every_kind_come_back(self, tmp_path):
        visit = PREDICTORS["forest"].start_row()
        for value in (np.nan, np.inf, -np.inf, -0.0):
            visit.give(visit.next_feature.name, value)
        visit.save(tmp_path / "v.scurry")
        loaded = scurry.Visit.load(tmp_path / "v.scurry", PREDICTORS["forest"])
        assert repr(loaded.walk.values) == repr(visit.walk.values)
        assert repr(loaded) == repr(visit)

    def test_empty_groups_at_the_end(self, tmp_path):
        terms = {"feature_costs": np.ones(30), "groups": {"a": [0, 1], "none": []}, "group_costs": [1, 5]}
        visit = PREDICTORS["forest"].start_row(**terms)
        visit.save(tmp_path / "v.scurry")
        assert scurry.Visit.load(tmp_path / "v.scurry", PREDICTORS["forest"]).next_feature == visit.next_feature

    def test_a_copy_goes_its_own_way(self):
        visit = PREDICTORS["forest"].start_row()
        visit.give(visit.next_feature.name, 1.0)
        for other in (copy.copy(visit), copy.deepcopy(visit), pickle.loads(pickle.dumps(visit))):
            assert other.next_feature == visit.next_feature
            other.give(other.next_feature.name, 0.0)
            assert len(visit.purchases) == 1

    def test_another_predictor_is_refused(self, tmp_path):
        PREDICTORS["forest"].start_row().save(tmp_path / "v.scurry")
        for other in (PREDICTORS["boosted"], PREDICTORS["votes"], scurry.Predictor.full(WINE_FOREST)):
            with pytest.raises(FormatError, match="was started by another predictor"):
                scurry.Visit.load(tmp_path / "v.scurry", other)
        with pytest.raises(InputError, match=r"predictor must be the scurry\.Predictor that started"):
            scurry.Visit.load(tmp_path / "v.scurry", FOREST)

    def test_a_new_certificate_does_not_matter(self, tmp_path):
        exits = PREDICTORS["votes"]
        exits.start_row().save(tmp_path / "v.scurry")
        bare = scurry.Predictor(exits.forest, replace(exits.plan, certificate=None))
        assert scurry.Visit.load(tmp_path / "v.scurry", bare).next_feature is not None

    def test_other_files_are_refused_by_name(self, tmp_path):
        PREDICTORS["forest"].save(tmp_path / "model.scurry")
        with pytest.raises(FormatError, match=r"holds a predictor, not a visit; use scurry\.load"):
            scurry.Visit.load(tmp_path / "model.scurry", PREDICTORS["forest"])
        PREDICTORS["forest"].start_row().save(tmp_path / "v.scurry")
        with pytest.raises(FormatError, match=r"holds a visit; use scurry.Visit.load\(path, predictor\)"):
            scurry.load(tmp_path / "v.scurry")

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_broken_files_are_format_errors(self, data, tmp_path_factory):
        folder = tmp_path_factory.mktemp("visit")
        visit = PREDICTORS["forest"].start_row(**PRICES)
        visit.give(visit.next_feature.name, 1.0)
        visit.unavailable(visit.next_feature.name)
        visit.save(folder / "v.scurry")
        content = bytearray((folder / "v.scurry").read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
        (folder / "v.scurry").write_bytes(content)
        try:
            loaded = scurry.Visit.load(folder / "v.scurry", PREDICTORS["forest"])
        except FormatError:
            return
        finish(loaded, X[300])
        assert loaded.answer is not None

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("given_features", np.array([30])),
            ("given_features", np.array([-1])),
            ("given_features", np.array([[0]])),
            ("given_values", np.zeros(2)),
            ("unavailable", np.array([99])),
            ("feature_costs", np.full(30, np.nan)),
            ("feature_costs", np.full(30, -1.0)),
            ("groups", np.full(30, 7)),
            ("groups", np.full(30, 2**60)),
            ("unavailable", np.array([[99, 0]])),
        ],
    )
    def test_fields_that_do_not_fit_are_named(self, name, array, tmp_path):
        visit = PREDICTORS["forest"].start_row(**PRICES)
        visit.give(visit.next_feature.name, 1.0)
        visit.save(tmp_path / "v.scurry")
        with zipfile.ZipFile(tmp_path / "v.scurry") as good, zipfile.ZipFile(tmp_path / "bad.scurry", "w") as bad:
            for member in good.namelist():
                if member != f"{name}.npy":
                    bad.writestr(member, good.read(member))
            with bad.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, array, version=(1, 0))
        with pytest.raises(FormatError, match="does not hold a sound visit"):
            scurry.Visit.load(tmp_path / "bad.scurry", PREDICTORS["forest"])


class TestRandomisedPlans:
    def test_each_row_draws_by_its_number(self):
        fast = early_exit(FOREST, "minimax", shuffle="row")
        with pytest.raises(InputError, match=r"this plan is randomised, and .* pass the row's number"):
            fast.start_row()
        out = fast.acquire(from_table(np.tile(X[300], (20, 1))), 20)
        orders = set()
        for row in range(20):
            visit = fast.start_row(row=row)
            orders.add(tuple(finish(visit, X[300])))
            assert visit.answer.label == out.labels[row]
            assert visit.cost == out.costs[row]
            assert visit.answer.probabilities[visit.answer.label] >= 0.5
        assert len(orders) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "dearest"}, 'order must be one of "plan", "cheapest", "informative"'),
        ({"max_cost": -1}, "max_cost must be a number of at least 0"),
        ({"row": -1}, "row must be a whole number of at least 0"),
        ({"feature_costs": [1.0]}, r"feature_costs has shape \(1,\), expected \(13,\)"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(InputError, match=message):
        scurry.Predictor.full(WINE_FOREST).start_row(**options)


def test_more_classes():
    fast = scurry.early_exit(WINE_FOREST, WINE[0], max_disagreement=0.05, method="qwyc", confidence=None)
    for x, label, row in zip(WINE[0][:40], fast.predict(WINE[0][:40]), fast.predict_proba(WINE[0][:40]), strict=True):
        visit = fast.start_row()
        finish(visit, x)
        assert visit.answer.label == label
        np.testing.assert_array_equal(visit.answer.probabilities, row)


class TestPricesOfThePredictor:
    """A predictor that was made with prices asks them of every row, also after a file."""

    def test_they_are_asked_by_default_and_saved(self, tmp_path):
        priced = PREDICTORS["forest"].with_feature_costs(**PRICES)
        priced.save(tmp_path / "priced.scurry")
        loaded = scurry.load(tmp_path / "priced.scurry")
        assert loaded.digest == priced.digest != PREDICTORS["forest"].digest
        expected = PREDICTORS["forest"].acquire(from_table(X), 20, **PRICES)
        for predictor in (priced, loaded, pickle.loads(pickle.dumps(priced))):
            np.testing.assert_array_equal(predictor.acquire(from_table(X), 20).costs, expected.costs)
            assert predictor.start_row().next_feature == PREDICTORS["forest"].start_row(**PRICES).next_feature
            assert scurry.evaluation.feature_bill(predictor, X).costs == pytest.approx(
                FeatureCosts.of(FOREST, **PRICES).of_rows(FOREST, X)
            )

    def test_prices_that_are_given_replace_all_of_them(self):
        priced = PREDICTORS["forest"].with_feature_costs(**PRICES)
        assert priced.start_row(feature_costs=np.full(30, 7.0)).next_feature.cost == 7.0
        bill = scurry.evaluation.feature_bill(priced, X, feature_costs=np.full(30, 7.0))
        np.testing.assert_array_equal(
            bill.costs, FeatureCosts.of(FOREST, feature_costs=np.full(30, 7.0)).of_rows(FOREST, X)
        )

    def test_without_any_every_feature_costs_1(self):
        assert PREDICTORS["forest"].feature_costs is None
        assert PREDICTORS["forest"].start_row().next_feature.cost == 1.0

    @every_predictor
    def test_answers_and_visits_do_not_depend_on_them(self, predictor, tmp_path):
        priced = predictor.with_feature_costs(**PRICES)
        np.testing.assert_array_equal(priced.predict(X), predictor.predict(X))
        predictor.start_row(row=0).save(tmp_path / "visit.scurry")
        assert scurry.Visit.load(tmp_path / "visit.scurry", priced).cost == 0

    def test_prices_of_another_forest_do_not_fit(self):
        costs = FeatureCosts.of(WINE_FOREST)
        with pytest.raises(InputError, match="the plan has prices of 13 features, the forest has 30"):
            scurry.Predictor(FOREST, scurry.Plan.full(FOREST, feature_costs=costs))


def test_a_missing_value_is_said():
    visit = scurry.Predictor.full(FOREST).start_row()
    first = visit.next_feature.name
    visit.give(first, None)
    while visit.next_feature is not None:
        visit.give(visit.next_feature.name, X[0, visit.next_feature.name])
    assert visit.answer.complete
    assert f"; {first} is a missing value, which goes where the model sends missing values" in visit.answer.why
    assert "trained with such" in visit.answer.why


@pytest.mark.parametrize(
    ("name", "meant"), [("tsh", "TSH"), ("free t4", "Free_T4"), ("TSHH", "TSH"), ("free-t4 ", "Free_T4")]
)
def test_near_misses_of_names(name, meant):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = scurry.Forest.from_trees([stump | {"value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}], n_features=2)
    visit = scurry.Predictor.full(forest.replace(feature_names=["TSH", "Free_T4"])).start_row()
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        visit.give(name, 1.0)


def test_a_visit_of_another_predictor_says_what_to_do(tmp_path):
    scurry.Predictor.full(FOREST).start_row().save(tmp_path / "visit.scurry")
    with pytest.raises(FormatError, match=r"another predictor.*Pass the one that started it.*or start a new row"):
        scurry.Visit.load(tmp_path / "visit.scurry", scurry.Predictor.full(BOOSTED))
