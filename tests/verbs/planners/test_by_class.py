"""Promises for each of several groups: certified counts, misuse, extra rows, subgroups and broken promises.

The promise of accuracy and of mean cost: certified counts, misuse and broken promises.
"""

import re
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.promises import Accuracy, Labels, LabelsPerClass, Recall
from scurry.stopping.guarantee import split_risk
from scurry.stopping.losses import certified_drop, paired_p_value
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners import by_class
from scurry.verbs.planners.by_class import plan_by_accuracy, plan_by_class

RARE = LabelsPerClass({"no": 0.02, "yes": 0.1})


def draw(n_rows, seed, n_classes=2):
    """Rows whose last class is rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.4, size=n_rows)
    if n_classes == 2:
        return X, np.where(score > 1.5, "yes", "no")
    return X, np.searchsorted([-0.5, 1.0], score)


@pytest.fixture(scope="module")
def model():
    X, y = draw(2000, 0)
    return GradientBoostingClassifier(n_estimators=40, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def three():
    X, y = draw(2000, 0, 3)
    return RandomForestClassifier(30, max_depth=6, random_state=0).fit(X, y)


def check_tests(predictor, X, y=None):
    """What the certificate counts is what the predictor does to the same rows."""
    certificate = predictor.certificate
    full, fast = predictor.forest.predict(X), predictor.predict(X)
    for test in certificate.tests:
        assert binom.cdf(test.n_broken, test.n_rows, test.max_rate) <= 1 - test.confidence
        assert test.bound <= test.max_rate
    return full, fast


@pytest.mark.parametrize("method", ["auto", "qwyc", "sentinels"])
def test_two_classes(model, method):
    X, _ = draw(6000, 1)
    fit, cal = X[:2000], X[2000:]
    fast = scurry.early_exit(model, cal, X_fit=fit, promise=RARE, method=method)
    full, labels = check_tests(fast, cal)
    assert [test.group for test in fast.certificate.tests] == ["class 'no'", "class 'yes'"]
    for test, label in zip(fast.certificate.tests, ("no", "yes"), strict=True):
        assert test.n_rows == (full == label).sum()
        assert test.n_broken == ((labels != full) & (full == label)).sum()
    assert fast.certificate.n_broken == (labels != full).sum()
    assert fast.certificate.exits.changed == (labels != full).mean()
    run = fast.run(cal)
    assert fast.certificate.exits.mean_trees == pytest.approx(run.mean_trees)
    assert run.mean_trees < 30
    # With "auto", a second method might have been certified on the same rows.
    assert np.prod([test.confidence for test in fast.certificate.tests]) == pytest.approx(
        0.96 if method == "auto" else 0.95
    )


def test_what_is_said_and_saved(model, tmp_path):
    X, _ = draw(4000, 1)
    fast = scurry.early_exit(model, X, promise=RARE)
    assert "at most 2 % that the model labels 'no' and 10 % that it labels 'yes'" in str(fast.summary())
    assert "class 'yes'" in fast.certificate.describe()
    fast.save(tmp_path / "fast.scurry")
    read = scurry.load(tmp_path / "fast.scurry")
    assert read.certificate.tests == fast.certificate.tests
    assert read.certificate.promise == RARE
    assert "promise=scurry.promises.LabelsPerClass(" in fast.certificate.recipe
    assert "max_disagreement" not in fast.certificate.recipe
    again = eval(fast.certificate.recipe, {"scurry": scurry, "model": model, "X_cal": X})
    assert again.digest == fast.digest


def test_many_classes(three):
    X, _ = draw(8000, 1, 3)
    promise = LabelsPerClass({0: 0.03, 1: 0.02, 2: 0.1})
    fast = scurry.early_exit(three, X[2000:], X_fit=X[:2000], promise=promise)
    full, labels = check_tests(fast, X[2000:])
    for test, label in zip(fast.certificate.tests, range(3), strict=True):
        assert test.n_rows == (full == label).sum()
        assert test.n_broken == ((labels != full) & (full == label)).sum()
    assert fast.run(X).mean_trees < 27


@pytest.mark.parametrize("class_", ["yes", "no"])
def test_recall(model, class_):
    X, y = draw(8000, 1)
    cal, known = X[2000:], y[2000:]
    fast = scurry.early_exit(model, cal, known, X_fit=X[:2000], promise=Recall(class_, 0.08, 0.05))
    full, labels = check_tests(fast, cal)
    found, others = fast.certificate.tests
    of_class = (full == class_) & (known == class_)
    assert (found.n_rows, found.n_broken) == (of_class.sum(), (labels != class_)[of_class].sum())
    assert (others.n_rows, others.n_broken) == ((full != class_).sum(), (labels == class_)[full != class_].sum())
    recall = [(answers == class_)[known == class_].mean() for answers in (full, labels)]
    assert recall[0] - recall[1] <= 0.08


def test_recall_of_many_classes(three):
    X, y = draw(8000, 1, 3)
    fast = scurry.early_exit(three, X, y, promise=Recall(2, 0.1, 0.05))
    check_tests(fast, X)
    assert [test.group for test in fast.certificate.tests] == ["class 2 found", "other labels"]


def test_too_few_rows_of_a_class_say_how_many_more(model):
    X, _ = draw(6000, 1)
    fit, cal = X[:2000], X[2000:]
    full = model.predict(cal)
    few = np.concatenate([cal[full == "no"][:3000], cal[full == "yes"][:10]])
    with pytest.raises(InfeasibleError, match=r"class 'yes': .* Add at least \d+ more calibration rows") as caught:
        scurry.early_exit(model, few, X_fit=fit, promise=RARE)
    # The rate that it names is certified by these rows, and one a little below is not.
    least = float(re.search(r"or allow a rate for class 'yes' of (\S+) or more", str(caught.value))[1])
    for rate, enough in ((least, True), (0.97 * least, False)):
        assert ((1 - rate) ** 10 <= split_risk([3000, 10], [0.02, rate], 0.05)[1]) == enough
    n_more = caught.value.n_rows_needed - 10
    # So many certify a rule that changes none of them, and one fewer does not.
    for more, enough in ((n_more, True), (n_more - 1, False)):
        own = split_risk([3000, 10 + more], [0.02, 0.1], 0.05)[1]
        assert (0.9 ** (10 + more) <= own) == enough
    # Rows of that class alone are enough.
    extra = cal[full == "yes"]
    fast = scurry.early_exit(model, np.concatenate([few, extra[10 : 10 + 3 * n_more]]), X_fit=fit, promise=RARE)
    assert fast.certificate.tests[1].n_rows == 10 + 3 * n_more


def test_groups_count_once(model):
    X, _ = draw(3000, 1)
    rows, groups = (
        np.repeat(X, 2, axis=0) + np.random.default_rng(0).normal(scale=1e-3, size=(6000, 6)),
        np.arange(3000),
    )
    fast = scurry.early_exit(model, rows, X_fit=draw(2000, 5)[0], groups=np.repeat(groups, 2), promise=RARE)
    assert fast.certificate.unit == "group"
    assert sum(test.n_rows for test in fast.certificate.tests) == 3000
    assert fast.certificate.promise.holds == "groups"


@pytest.mark.parametrize("promise", [Labels(0.03), RARE])
def test_every_subgroup_has_a_test_of_its_own(model, promise):
    import pandas as pd

    X, _ = draw(9000, 1)
    region = np.where(X[:, 5] > 0.5, "north", "south")
    fit, cal, part = X[:2000], X[2000:], region[2000:]
    fast = scurry.early_exit(model, cal, X_fit=fit, by=part, promise=promise)
    full, labels = check_tests(fast, cal)
    assert sum(test.n_rows for test in fast.certificate.tests) == len(cal)
    changed = labels != full
    by_name = {test.group: test for test in fast.certificate.tests}
    if isinstance(promise, Labels):
        assert by_name["north"].n_broken == changed[part == "north"].sum()
    else:
        of_group = (part == "south") & (full == "yes")
        test = by_name["south, class 'yes'"]
        assert (test.n_rows, test.n_broken) == (of_group.sum(), changed[of_group].sum())
    frame = pd.DataFrame(cal, columns=list("abcdef")).assign(region=part)
    forest = scurry.from_model(model, feature_names=list("abcdef"))
    named = scurry.early_exit(forest, frame, X_fit=fit, by="region", promise=promise)
    assert [test.group for test in named.certificate.tests] == [
        f"region={test.group}" for test in fast.certificate.tests
    ]


class TestMisuse:
    X, y = draw(1500, 1)

    def fails(self, model, match, argument, **options):
        with pytest.raises(InputError, match=match) as caught:
            scurry.early_exit(model, self.X, **options)
        assert caught.value.argument == argument

    def test_unknown_classes(self, model):
        self.fails(
            model,
            r"classes of the model, \['no', 'yes'\], got 'maybe'",
            "promise",
            promise=LabelsPerClass({"no": 0.1, "maybe": 0.1}),
        )
        self.fails(model, "got 'maybe'", "promise", y_cal=self.y, promise=Recall("maybe", 0.1))

    def test_labels(self, model):
        self.fails(model, "y_cal is needed: Recall", "y_cal", promise=Recall("yes", 0.1))
        missing = self.y.astype(object)
        missing[3] = np.nan
        with pytest.raises(InputError, match="y_cal"):
            scurry.early_exit(model, self.X, missing, promise=Recall("yes", 0.1))

    def test_options_that_do_not_fit(self, model):
        self.fails(model, "method must be", "method", promise=RARE, method="minimax")
        self.fails(model, 'shuffle="row" is for methods on votes', "shuffle", promise=RARE, shuffle="row")
        self.fails(model, "not both", "promise", promise=RARE, max_disagreement=0.2)
        self.fails(model, "by has shape", "by", promise=RARE, by=[1, 2])
        self.fails(model, "by has missing values", "by", promise=RARE, by=np.full(1500, np.nan))
        self.fails(model, "name of a column", "by", promise=RARE, by="region")
        self.fails(model, "by is for a promise", "by", confidence=None, by=self.y)

    def test_rows(self, model):
        with pytest.raises(InputError, match="X_cal is needed"):
            scurry.early_exit(model, promise=RARE)
        with pytest.raises(InputError, match=r"one of scurry\.promises"):
            scurry.early_exit(model, self.X, promise={"no": 0.1})


def test_promises_are_kept(model):
    """Over many draws from a known pool, no more break than chance allows."""
    pool, _ = draw(8000, 7)
    forest = scurry.from_model(model)
    full, fit, n_broken, n_draws = forest.predict(pool), draw(1500, 8)[0], 0, 40
    options = ExitOptions(promise=RARE, method="qwyc")
    for seed in range(n_draws):
        rows = pool[np.random.default_rng([3, seed]).integers(len(pool), size=1500)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibration = Calibration.of(forest, rows, None, fit, options)
            fast = scurry.Predictor(forest, plan_by_class(calibration))
        changed = fast.predict(pool) != full
        n_broken += changed[full == "no"].mean() > 0.02 or changed[full == "yes"].mean() > 0.1
    assert n_broken <= binom.ppf(0.999, n_draws, 0.05)


def test_too_few_rows_for_recall_name_the_argument_to_raise(model):
    X, y = draw(600, 12)
    few = r"other labels: at most 0.1 % .* or allow Recall's max_changed of 0\.0"
    with pytest.raises(InfeasibleError, match=few) as caught:
        scurry.early_exit(model, X, y, promise=Recall("yes", 0.3, 0.001))
    allowed = scurry.early_exit(model, X, y, promise=Recall("yes", 0.3, caught.value.achievable))
    assert allowed.certificate.tests[1].n_broken == 0


@pytest.mark.parametrize("method", ["qwyc", "sentinels", "auto"])
def test_rules_that_all_change_too_much_say_what_the_most_cautious_can_promise(model, method, monkeypatch):
    monkeypatch.setattr(by_class, "_accept", lambda search, family, *rest: np.zeros(len(family), np.bool_))
    X, _ = draw(6000, 12)
    with pytest.raises(InfeasibleError, match="even the most cautious rule changes 0 of them") as caught:
        scurry.early_exit(model, X[2000:], X_fit=X[:2000], promise=RARE, method=method)
    assert 0 < caught.value.achievable < 0.1


def test_recall_lets_as_few_other_labels_change_as_rows_can_certify(model):
    few, many = draw(1200, 12), draw(30_000, 13)
    kept = [scurry.early_exit(model, X, y, promise=Recall("yes", 0.3)).promise for X, y in (few, many)]
    assert kept[0].max_changed > kept[1].max_changed == 0.001
    assert f"at most {100 * kept[0].max_changed:g} % of those that it gives other labels" in kept[0].describe()


def test_classes_that_are_not_named_carry_no_promise(model, three):
    X, _ = draw(4000, 14)
    fast = scurry.early_exit(model, X, promise=LabelsPerClass({"yes": 0.1}))
    assert [test.group for test in fast.certificate.tests] == ["class 'yes'"]
    new, _ = draw(4000, 15)
    full, labels = model.predict(new), fast.predict(new)
    assert (labels != full)[full == "yes"].mean() <= 0.1
    both = scurry.early_exit(model, X, promise=LabelsPerClass({"yes": 0.1, "no": 0.01}))
    assert fast.run(new).mean_trees <= both.run(new).mean_trees
    rows = np.random.default_rng(5).normal(size=(3000, three.n_features_in_))
    some = scurry.early_exit(three, rows, promise=LabelsPerClass({0: 0.1, 2: 0.1}))
    assert [test.group for test in some.certificate.tests] == ["class 0", "class 2"]


def draw_of_by_accuracy(n_rows, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.8, size=n_rows)
    return X, np.searchsorted(np.linspace(-0.7, 0.7, n_classes - 1) if n_classes > 2 else [0.3], score)


@pytest.fixture(scope="module", params=[2, 3])
def case(request):
    n_classes = request.param
    model = GradientBoostingClassifier(n_estimators=15, random_state=0).fit(*draw_of_by_accuracy(1500, 0, n_classes))
    return model, n_classes


@pytest.mark.parametrize("method", ["auto", "sentinels"])
def test_certified_counts_are_those_of_the_predictor(case, method):
    model, n_classes = case
    if n_classes > 2 and method == "sentinels":
        pytest.skip("sentinels are for two classes")
    X, y = draw_of_by_accuracy(8000, 1, n_classes)
    cal, known = X[2000:], y[2000:]
    fast = scurry.early_exit(model, cal, known, X_fit=X[:2000], promise=Accuracy(0.02), method=method)
    certificate, full, labels = fast.certificate, model.predict(cal), fast.predict(cal)
    n_lost, n_gained = ((full == known) & (labels != known)).sum(), ((full != known) & (labels == known)).sum()
    assert (certificate.n_rows, certificate.n_broken, certificate.n_gained) == (6000, n_lost, n_gained)
    # With "auto", the methods that seem best and second best share the risk.
    risks = {"sentinels": [0.05], "auto": [0.8 * 0.05, 0.2 * 0.05]}[method]
    assert paired_p_value(6000, int(n_lost), int(n_gained), 0.02) <= max(risks)
    bounds = [certified_drop(6000, int(n_lost), int(n_gained), 1 - risk) for risk in risks]
    assert min(abs(certificate.bound - bound) for bound in bounds) < 1e-9
    assert certificate.bound <= 0.02
    assert certificate.exits.mean_trees == pytest.approx(fast.run(cal).mean_trees)
    assert certificate.exits.mean_trees < model.n_estimators * (1 if n_classes == 2 else 3) / 2


def test_costs(case):
    model, n_classes = case
    X, y = draw_of_by_accuracy(8000, 1, n_classes)
    costs = 1.0 - np.eye(n_classes)
    costs[-1, 0] = 4.0
    promise = Accuracy(0.1, error_costs=costs)
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


def test_by_accuracy_what_is_said_and_saved(case, tmp_path):
    model, n_classes = case
    X, y = draw_of_by_accuracy(4000, 1, n_classes)
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
    X, y = draw_of_by_accuracy(200, 1, n_classes)
    with pytest.raises(InfeasibleError, match="Pass at least 1,995 calibration rows") as caught:
        scurry.early_exit(model, X, y, promise=Accuracy(0.003))
    assert caught.value.n_rows_needed == 1995


def test_by_accuracy_groups_count_once(case):
    model, n_classes = case
    X, y = draw_of_by_accuracy(3000, 1, n_classes)
    rows = np.repeat(X, 2, axis=0) + np.random.default_rng(0).normal(scale=1e-3, size=(6000, 6))
    fast = scurry.early_exit(
        model,
        rows,
        np.repeat(y, 2),
        X_fit=draw_of_by_accuracy(2000, 5, n_classes)[0],
        groups=np.repeat(np.arange(3000), 2),
        promise=Accuracy(0.03),
    )
    assert (fast.certificate.unit, fast.certificate.n_rows) == ("group", 3000)
    assert "new groups" in fast.certificate.statement()


def test_misuse(case):
    model, n_classes = case
    X, y = draw_of_by_accuracy(1000, 1, n_classes)
    with pytest.raises(InputError, match="y_cal is needed: Accuracy"):
        scurry.early_exit(model, X, promise=Accuracy(0.1))
    with pytest.raises(InputError, match="y_cal"):
        scurry.early_exit(model, X, np.where(np.arange(1000) == 5, np.nan, y), promise=Accuracy(0.1))
    with pytest.raises(InputError, match="y_cal"):
        scurry.early_exit(model, X, np.where(np.arange(1000) == 5, 77, y), promise=Accuracy(0.1))
    with pytest.raises(InputError, match=f"for 4 classes, the model has {n_classes}"):
        scurry.early_exit(model, X, y, promise=Accuracy(0.1, error_costs=1 - np.eye(4)))
    with pytest.raises(InputError, match="by is for promises about labels that change"):
        scurry.early_exit(model, X, y, by=y, promise=Accuracy(0.1))
    with pytest.raises(InputError, match="method must be"):
        scurry.early_exit(model, X, y, method="fan", promise=Accuracy(0.1))


def test_rows_that_trained_the_model_promise_nothing(case):
    model, n_classes = case
    X, y = draw_of_by_accuracy(1500, 0, n_classes)
    with pytest.warns(UserWarning, match="trained the model"):
        fast = scurry.early_exit(model, X, y, promise=Accuracy(0.05))
    assert fast.certificate.promise is None
    assert (fast.certificate.n_rows, fast.certificate.n_gained, fast.certificate.bound) == (0, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("costs", [None, [[0, 1], [3, 0]]])
def test_by_accuracy_promises_are_kept(costs):
    """Over many draws from a known pool, no more break than chance allows."""
    model = GradientBoostingClassifier(n_estimators=25, random_state=0).fit(*draw_of_by_accuracy(1500, 0))
    pool, truth = draw_of_by_accuracy(8000, 7)
    forest, fit, n_broken, n_draws = scurry.from_model(model), draw_of_by_accuracy(1500, 8)[0], 0, 30
    full, promise = forest.predict(pool), Accuracy(0.02 if costs is None else 0.1, error_costs=costs)
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
