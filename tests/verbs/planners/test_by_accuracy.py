"""The promise of accuracy and of mean cost: certified counts, misuse and broken promises."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.ensemble import GradientBoostingClassifier

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.promises import Accuracy
from scurry.stopping.guarantee import certified_drop, paired_p_value
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners.by_accuracy import plan_by_accuracy


def draw(n_rows, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.8, size=n_rows)
    return X, np.searchsorted(np.linspace(-0.7, 0.7, n_classes - 1) if n_classes > 2 else [0.3], score)


@pytest.fixture(scope="module", params=[2, 3])
def case(request):
    n_classes = request.param
    model = GradientBoostingClassifier(n_estimators=15, random_state=0).fit(*draw(1500, 0, n_classes))
    return model, n_classes


@pytest.mark.parametrize("method", ["auto", "sentinels"])
def test_certified_counts_are_those_of_the_predictor(case, method):
    model, n_classes = case
    if n_classes > 2 and method == "sentinels":
        pytest.skip("sentinels are for two classes")
    X, y = draw(8000, 1, n_classes)
    cal, known = X[2000:], y[2000:]
    fast = scurry.early_exit(model, cal, known, X_fit=X[:2000], promise=Accuracy(0.02), method=method)
    certificate, full, labels = fast.certificate, model.predict(cal), fast.predict(cal)
    n_lost, n_gained = ((full == known) & (labels != known)).sum(), ((full != known) & (labels == known)).sum()
    assert (certificate.n_rows, certificate.n_broken, certificate.n_gained) == (6000, n_lost, n_gained)
    assert paired_p_value(6000, int(n_lost), int(n_gained), 0.02) <= 0.05
    assert certificate.bound == certified_drop(6000, int(n_lost), int(n_gained), 0.95) <= 0.02
    assert certificate.exits.mean_trees == pytest.approx(fast.run(cal).mean_trees)
    assert certificate.exits.mean_trees < model.n_estimators * (1 if n_classes == 2 else 3) / 2


def test_costs(case):
    model, n_classes = case
    X, y = draw(8000, 1, n_classes)
    costs = 1.0 - np.eye(n_classes)
    costs[-1, 0] = 4.0
    promise = Accuracy(0.1, costs=costs)
    fast = scurry.early_exit(model, X, y, promise=promise)
    full, labels = model.predict(X), fast.predict(X)
    rise = costs[y, labels] - costs[y, full]
    assert rise.mean() < 0.1
    assert 0 < fast.certificate.bound <= 0.1
    assert 0 < fast.certificate.n_broken <= (rise > 0).sum()
    assert 0 < fast.certificate.n_gained <= (rise < 0).sum()
    # Without labels of the rows that fit the rule, several stakes are bet: less is proven, and still enough.
    spread = scurry.early_exit(model, X[2000:], y[2000:], X_fit=X[:2000], promise=promise)
    assert spread.certificate.bound <= 0.1
    assert spread.certificate.n_broken == (costs[y, spread.predict(X)] > costs[y, full])[2000:].sum()


def test_what_is_said_and_saved(case, tmp_path):
    model, n_classes = case
    X, y = draw(4000, 1, n_classes)
    fast = scurry.early_exit(model, X, y, promise=Accuracy(0.05))
    assert "accuracy is at most 5 points below the model's" in str(fast.summary())
    assert "the other way round" in fast.certificate.describe()
    fast.save(tmp_path / "fast.scurry")
    read = scurry.load(tmp_path / "fast.scurry").certificate
    assert (read.promise, read.n_gained, read.bound) == (
        Accuracy(0.05),
        fast.certificate.n_gained,
        fast.certificate.bound,
    )
    assert (
        eval(fast.certificate.recipe, {"scurry": scurry, "model": model, "X_cal": X, "y_cal": y}).digest == fast.digest
    )


def test_too_few_rows(case):
    model, n_classes = case
    X, y = draw(200, 1, n_classes)
    with pytest.raises(InfeasibleError, match="Pass at least 1,995 calibration rows") as caught:
        scurry.early_exit(model, X, y, promise=Accuracy(0.003))
    assert caught.value.n_rows_needed == 1995


def test_groups_count_once(case):
    model, n_classes = case
    X, y = draw(3000, 1, n_classes)
    rows = np.repeat(X, 2, axis=0) + np.random.default_rng(0).normal(scale=1e-3, size=(6000, 6))
    fast = scurry.early_exit(
        model,
        rows,
        np.repeat(y, 2),
        X_fit=draw(2000, 5, n_classes)[0],
        groups=np.repeat(np.arange(3000), 2),
        promise=Accuracy(0.03),
    )
    assert (fast.certificate.unit, fast.certificate.n_rows) == ("group", 3000)
    assert "new groups" in fast.certificate.statement()


def test_misuse(case):
    model, n_classes = case
    X, y = draw(1000, 1, n_classes)
    with pytest.raises(InputError, match="y_cal is needed: Accuracy"):
        scurry.early_exit(model, X, promise=Accuracy(0.1))
    with pytest.raises(InputError, match="y_cal"):
        scurry.early_exit(model, X, np.where(np.arange(1000) == 5, np.nan, y), promise=Accuracy(0.1))
    with pytest.raises(InputError, match="y_cal"):
        scurry.early_exit(model, X, np.where(np.arange(1000) == 5, 77, y), promise=Accuracy(0.1))
    with pytest.raises(InputError, match=f"for 4 classes, the model has {n_classes}"):
        scurry.early_exit(model, X, y, promise=Accuracy(0.1, costs=1 - np.eye(4)))
    with pytest.raises(InputError, match="by is for promises about labels that change"):
        scurry.early_exit(model, X, y, by=y, promise=Accuracy(0.1))
    with pytest.raises(InputError, match="method must be"):
        scurry.early_exit(model, X, y, method="fan", promise=Accuracy(0.1))


def test_rows_that_trained_the_model_promise_nothing(case):
    model, n_classes = case
    X, y = draw(1500, 0, n_classes)
    with pytest.warns(UserWarning, match="trained the model"):
        fast = scurry.early_exit(model, X, y, promise=Accuracy(0.05))
    assert fast.certificate.promise is None
    assert (fast.certificate.n_rows, fast.certificate.n_gained, fast.certificate.bound) == (0, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("costs", [None, [[0, 1], [3, 0]]])
def test_promises_are_kept(costs):
    """Over many draws from a known pool, no more break than chance allows."""
    model = GradientBoostingClassifier(n_estimators=25, random_state=0).fit(*draw(1500, 0))
    pool, truth = draw(8000, 7)
    forest, fit, n_broken, n_draws = scurry.from_model(model), draw(1500, 8)[0], 0, 30
    full, promise = forest.predict(pool), Accuracy(0.02 if costs is None else 0.1, costs=costs)
    matrix = 1 - np.eye(2) if costs is None else np.array(costs)
    for seed in range(n_draws):
        at = np.random.default_rng([3, seed]).integers(len(pool), size=1500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = ExitOptions(promise=promise, method="qwyc")
            plan = plan_by_accuracy(Calibration.of(forest, pool[at], truth[at], fit, options))
        labels = scurry.Predictor(forest, plan).predict(pool)
        n_broken += (matrix[truth, labels] - matrix[truth, full]).mean() > promise.max_loss
    assert n_broken <= binom.ppf(0.999, n_draws, 0.05)
