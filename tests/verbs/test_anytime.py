"""`scurry.anytime`: what it promises on real models, what it reports, what it refuses."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.forest import reference
from scurry.verbs.anytime import step_costs
from support.anytime_oracle import labels_of, nodes_after, scores_of
from support.strategies import complete_forest

CANCER, IRIS, DIABETES = (load(return_X_y=True) for load in (load_breast_cancer, load_iris, load_diabetes))


@pytest.fixture(scope="module")
def forest():
    X, y = CANCER
    return scurry.from_model(RandomForestClassifier(12, max_depth=5, random_state=0).fit(X[:300], y[:300]))


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (RandomForestClassifier(8, max_depth=6, random_state=0), IRIS),
        (GradientBoostingClassifier(n_estimators=6, random_state=0), IRIS),
        (GradientBoostingClassifier(n_estimators=9, random_state=0), CANCER),
        (RandomForestRegressor(7, max_depth=5, random_state=0), DIABETES),
    ],
    ids=["forest", "boosted-3", "boosted-2", "regressor"],
)
@pytest.mark.parametrize("order", ["auto", "backward-squirrel"])
def test_answers_at_any_moment_and_the_models_own_at_the_end(model, data, order):
    X, y = data
    model.fit(X[::2], y[::2])
    anytime = scurry.anytime(model, X[1::2], y[1::2], order=order)
    np.testing.assert_array_equal(anytime.predict(X), model.predict(X))
    forest, steps = anytime.forest, anytime.plan.order
    leaves = reference.apply(forest, X)
    for n_steps in (0, 1, len(steps) // 2):
        nodes = nodes_after(forest, steps, n_steps, leaves)
        expected = labels_of(forest, scores_of(forest, nodes, anytime.plan.stop.readout))
        np.testing.assert_array_equal(anytime.predict(X, max_steps=n_steps), expected)


def test_the_search_and_the_run_see_the_same_accuracy(forest):
    X, y = CANCER
    for readout in ("plain", "weighted"):
        anytime = scurry.anytime(forest, X[300:], y[300:], readout=readout)
        curve = scurry.orders.accuracy_curve(forest, anytime.plan.order, X[300:], y[300:], readout=readout)
        run = [(anytime.predict(X[300:], max_steps=s) == y[300:]).mean() for s in range(len(curve))]
        np.testing.assert_allclose(run, curve, atol=1e-12)
        assert anytime.plan.certificate.steps.mean == pytest.approx(np.mean(run))


def test_the_read_out_by_default(forest):
    X, y = CANCER
    found = {
        readout: scurry.orders.find(forest, X[300:], y[300:], readout=readout) for readout in ("plain", "weighted")
    }
    better = max(found, key=lambda readout: found[readout].curve.mean())
    anytime = scurry.anytime(forest, X[300:], y[300:])
    assert anytime.plan.stop.readout == anytime.plan.certificate.steps.readout == better
    np.testing.assert_array_equal(anytime.plan.order, found[better].steps)
    published = scurry.anytime(forest, X[300:], y[300:], order="backward-squirrel")
    assert published.plan.stop.readout == "plain"
    regressor = RandomForestRegressor(3, max_depth=3, random_state=0).fit(*DIABETES)
    assert scurry.anytime(regressor, *DIABETES).plan.stop.readout == "plain"


def test_time_is_an_objective(forest):
    X, y = CANCER
    anytime = scurry.anytime(forest, X[300:], y[300:], objective="time")
    measured = anytime.certificate.steps
    assert measured.objective == "time"
    assert measured.same_tree_step_ns > 0
    assert measured.other_tree_step_ns > 0
    assert anytime.run(X[300:]).complete.all()


def test_an_order_of_ones_own_is_a_plan(forest):
    X, y = CANCER
    steps = np.repeat(np.arange(forest.n_trees), forest.tree_depth)
    for order in (steps, steps.tolist()):
        with pytest.raises(InputError, match=r"order must be a name; an order of your own runs as scurry\.Predictor"):
            scurry.anytime(forest, X, y, order=order)
    own = scurry.Predictor(forest, scurry.Plan(order=steps, stop=scurry.plan.StepRule()))
    np.testing.assert_array_equal(own.predict(X), forest.predict(X))


def test_summary_and_file(forest, tmp_path):
    X, y = CANCER
    anytime = scurry.anytime(forest, X[300:], y[300:], order="forward-squirrel", readout="weighted")
    text = str(anytime.summary())
    for line in ("forward-squirrel", "weighted", "steps  ", "on average"):
        assert line in text
    anytime.save(tmp_path / "any.scurry")
    loaded = scurry.load(tmp_path / "any.scurry")
    assert loaded.certificate.to_json() == anytime.certificate.to_json()
    np.testing.assert_array_equal(loaded.predict(X, max_steps=9), anytime.predict(X, max_steps=9))


@pytest.mark.parametrize("shape", [{"n_trees": 1, "depth": 4}, {"n_trees": 5, "depth": 1}, {"n_trees": 3, "depth": 0}])
def test_costs_are_measured_even_where_orders_cannot_differ(shape):
    same, other = step_costs(complete_forest(**shape), np.zeros((5, 6)))
    assert same == other
    assert 0 < same < np.inf


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"objective": "energy"}, 'objective must be one of "steps", "time", got \'energy\''),
        ({"objective": "time", "order": "optimal"}, 'objective="time" needs order="auto", got \'optimal\''),
        ({"order": "optimum"}, "unknown order 'optimum'; Did you mean 'optimal'"),
        ({"readout": "heavy"}, 'readout must be one of "plain", "weighted", "auto", got \'heavy\''),
    ],
)
def test_unknown_wishes(forest, asked, message):
    with pytest.raises(InputError, match=message):
        scurry.anytime(forest, *CANCER, **asked)


@pytest.mark.parametrize("objective", ["steps", "time"])
def test_rows_that_do_not_fit(forest, objective):
    X, y = CANCER
    with pytest.raises(InputError, match="X has no rows"):
        scurry.anytime(forest, X[:0], y[:0], objective=objective)
    with pytest.raises(InputError, match=r"y has shape \(5,\), X has 569 rows"):
        scurry.anytime(forest, X, y[:5], objective=objective)
    with pytest.raises(InputError, match="X has 29 columns, the model was trained on 30 features"):
        scurry.anytime(forest, X[:, 1:], y, objective=objective)
    with pytest.raises(InputError, match="labels the model does not know: 7"):
        scurry.anytime(forest, X, np.where(y == 1, 7, y), objective=objective)
