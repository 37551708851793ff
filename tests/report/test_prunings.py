"""The story of a pruning path: its curve is what the pruned forests do.

The page of a compressed forest.
"""

import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.formatting import format_number, format_share
from scurry.promises import Accuracy
from scurry.report import prunings
from scurry.report.story import TestRows

pytestmark = pytest.mark.filterwarnings("ignore::scurry.errors.ScurryWarning")


def test_pruning_path(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    costs = np.linspace(1, 5, forest.n_features)
    path = scurry.prune(forest, X_val, feature_costs=costs)
    story = prunings.tell_pruning(path, TestRows(forest, X, y))
    curve = story.curve
    assert curve.spent[0] == path.costs.min()
    assert curve.spent[-1] == path.costs.max()
    for at in (0, curve.start, -1):
        pruned = path.at(max_cost=_read_budget(curve.calls[at]))
        values = {column.name: column.values[at] for column in curve.columns}
        assert values["accuracy"] == (pruned.predict(X) == y).mean()
        assert values["labels changed"] == (pruned.predict(X) != forest.predict(X)).mean()
        assert values["splits kept"] == (pruned.left >= 0).sum()
        assert values["cost per test row"] == pytest.approx(_paid(pruned, X, costs).mean())
    shown = path.at(max_cost=_read_budget(curve.calls[curve.start]))
    saved = 1 - _paid(shown, X, costs).mean() / _paid(forest, X, costs).mean()
    assert 0 < saved < 1
    assert f"saves {format_share(saved)} of what test rows pay" in story.verdict
    assert story.claims[0].verdict == "kept"
    assert story.promise.startswith("Whatever a unit of cost")
    some = prunings.tell_pruning(scurry.prune(forest, X_val, lambdas=[0.01, 0.02]), TestRows(forest, X, y))
    assert some.promise.startswith("At the given prices of a unit of cost")


@pytest.mark.parametrize(("method", "lambdas"), [("ccp", None), ("primal-dual", [0.01, 0.02])])
def test_only_exact_prunings_are_promised_to_be_the_best(forest, data, method, lambdas):
    path = scurry.prune(forest, data["cal"][0], method=method, lambdas=lambdas)
    story = prunings.tell_pruning(path, TestRows(forest, *data["test"]))
    assert story.promise.startswith("Nothing")
    assert (story.claims[0].promised, story.claims[0].verdict) == ("nothing", "")


def test_a_budget_copied_from_the_page_reaches_what_it_stands_for(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, feature_costs=np.linspace(1, 5, forest.n_features) / 3)
    curve = prunings.tell_pruning(path, TestRows(forest, X, y)).curve
    for cost, call in zip(curve.spent, curve.calls, strict=True):
        assert path.point(max_cost=_read_budget(call)).cost == cost


def test_a_path_without_a_close_pruning_says_so(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, lambdas=[0.05, 0.1])
    story = prunings.tell_pruning(path, TestRows(forest, X, y))
    changes = story.curve.columns[1].values
    assert changes.min() > 0.01
    assert changes[story.curve.start] == changes.min()
    assert story.verdict.startswith("The pruning that changes the fewest labels saves")


def test_whom_a_budget_finds_what_it_takes_and_the_true_full_model(forest, data, tmp_path):
    (X_val, y_val), (X, y) = data["cal"], data["test"]
    costs = np.linspace(1, 5, forest.n_features)
    path = scurry.prune(forest, X_val, y_val, feature_costs=costs)
    budget = 0.4 * float(path.costs.max())
    shown = path.at(max_cost=budget)
    story = prunings.tell_pruning(path, TestRows(forest, X, y), budget, "$")
    recalls, costs_by_class, needs = story.tables
    assert [row[3] for row in costs_by_class.rows] == [
        f"${format_number(round(_paid(shown, X, costs)[y == label].max(), 2))}" for label in np.unique(y)
    ]
    for label, n_rows, here, full in recalls.rows:
        of_class = y == label
        assert n_rows == f"{of_class.sum():,}"
        assert here == format_share((shown.predict(X)[of_class] == label).mean())
        assert full == format_share((forest.predict(X)[of_class] == label).mean())
    uses = scurry.pruning.feature_uses(shown, X) > 0
    assert [row[2] for row in needs.rows] == [format_share(share) for share in sorted(uses.mean(axis=0))[::-1]][
        : len(needs.rows)
    ]
    assert needs.rows[0][1].startswith("$")
    assert story.tiles[0].value == f"${format_number(round(_paid(shown, X, costs).mean(), 2))}"
    assert story.tiles[0].note.startswith(
        f"largest ${format_number(round(_paid(shown, X, costs).max(), 2))}; full model: $"
    )
    assert (story.answers == shown.predict(X)).all()
    # A slider offers only what is better on the validation rows than everything cheaper.
    assert story.curve.spent.tolist() == path.offers.costs.tolist()
    page = scurry.report.write(path, tmp_path / "page.html", X, y, max_cost=budget, currency="$").read_text("utf-8")
    assert "Found of each class" in page
    assert "What a row needs" in page


def test_one_label_for_all_rows_is_a_bad_verdict(forest, data):
    (X_val, y_val), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, y_val)
    story = prunings.tell_pruning(path, TestRows(forest, X, y), 0.0)
    assert story.claims[-1].verdict == "one label for all rows"
    assert "Do not use it: every test row gets the label" in story.verdict


def test_offers_of_several_candidates(forest, data):
    (X_val, y_val), (X, y) = data["cal"], data["test"]
    found = scurry.FeatureBudgetClassifier(
        RandomForestClassifier(5, random_state=0), max_cost=3, candidates=["trees"], n_folds=1, random_state=0
    ).fit(X_val, y_val)
    story = prunings.tell_pruning(found.offers_, TestRows(found.forest_, X, y), 3.0)
    assert (story.answers == found.predict(X)).all()
    assert "; full model: " in story.tiles[0].note
    full = found.path_.problem.costs.of_rows(found.forest_, X).mean()
    assert format_number(full) in story.tiles[0].note
    assert "FeatureBudgetClassifier(model, max_cost=3, …)" in story.recipe  # as it was asked for
    alone = prunings.tell_chosen(found.predictor_, TestRows(found.predictor_.forest, X, y))
    assert alone.promise.startswith("Nothing is promised for new rows.")
    assert alone.tiles[0].name == "mean cost per row"
    assert not any(claim.verdict == "kept" for claim in alone.claims)
    assert "FeatureBudgetClassifier" in alone.recipe


def _read_budget(call):
    return float(re.fullmatch(r"path\.at\(max_cost=(.*)\)", call)[1])


def _paid(forest, X, costs):
    """Costs by walking every row through every tree."""
    paid = []
    for row in X.astype(np.float32):
        used = set()
        for root in forest.tree_offset[:-1]:
            node = root
            while forest.left[node] >= 0:
                used.add(int(forest.feature[node]))
                goes_left = row[forest.feature[node]] <= forest.threshold[node]
                node = forest.left[node] if goes_left else forest.right[node]
        paid.append(sum(costs[j] for j in used))
    return np.array(paid)


@pytest.fixture(scope="module")
def priced(forest, data):
    X = data["cal"][0]
    path = scurry.prune(forest, X[: len(X) // 2], feature_costs=np.linspace(1, 5, forest.n_features))
    budget = 0.5 * float(path.costs.max())
    return path.at(promise=scurry.promises.Cost(budget), X_cal=X[len(X) // 2 :]), path.problem.costs, budget


class TestPromisedCost:
    """The promise is measured on the rows of the report, not repeated from the calibration."""

    def test_it_is_measured_with_an_interval(self, priced, data):
        (fast, costs, budget), (X, y) = priced, data["test"]
        story = prunings.tell_chosen(fast, TestRows(fast.forest, X, y), "$")
        mean = costs.of_rows(fast.forest, X).mean()
        claim = story.claims[0]
        assert (claim.what, claim.verdict) == ("mean cost per row", "kept")
        assert claim.promised == f"at most ${format_number(round(budget, 2))}"
        measured, low, high = (float(number) for number in re.findall(r"\$([\d.]+)", claim.measured))
        assert low < measured == float(format_number(round(mean, 2))) < high
        assert story.tiles[0].value == f"${format_number(round(mean, 2))}"
        assert mean != fast.certificate.measured.mean_cost

    def test_rows_that_pay_more_break_it(self, priced, data):
        fast, costs, budget = priced
        X = data["test"][0]
        paid = costs.of_rows(fast.forest, X)
        expensive = np.repeat(X[paid > budget], 50, axis=0)
        assert len(expensive)
        claim = prunings.tell_chosen(fast, TestRows(fast.forest, expensive)).claims[0]
        assert claim.verdict == "not kept on these rows"

    def test_the_interval_covers_the_truth(self, priced):
        fast, *_ = priced
        rng, most, n_missed = np.random.default_rng(0), 50.0, 0
        for _ in range(100):
            paid = rng.choice([1.0, 5.0, 50.0], 300, p=[0.6, 0.38, 0.02])
            claim = prunings._claim_cost(fast.certificate, paid, most, str)
            low, high = (float(number) for number in re.findall(r"[\d.]+", claim.measured)[1:3])
            n_missed += not low <= 3.5 <= high
        assert n_missed <= 8

    def test_what_it_is_compared_with_is_named(self, priced, forest, data, tmp_path):
        (fast, *_), (X, y) = priced, data["test"]
        alone = scurry.report.write(fast, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
        assert "full model" not in alone.lower()
        assert "This forest, every tree" in alone
        model = RandomForestClassifier(7, random_state=0).fit(*data["fit"])
        compared = scurry.report.write(fast, tmp_path / "r.html", X, y, model=model).read_text(encoding="utf-8")
        assert "Original model" in compared
        assert "full model" not in compared.lower()
        n_changed = int((fast.predict(X) != model.predict(X)).sum())
        assert f"{n_changed:,} of {len(X):,} test rows have another answer than the original model" in compared

    def test_a_file_without_prices_says_so(self, priced, data):
        fast, *_ = priced
        old = scurry.Predictor(fast.forest, scurry.Plan.full(fast.forest, fast.certificate))
        story = prunings.tell_chosen(old, TestRows(old.forest, *data["test"]))
        assert story.claims[0].measured == "nothing: the file does not hold the prices"
        assert story.claims[0].verdict == ""
        assert story.tiles[0].note == "of the rows that certified it"


class TestEstimators:
    def test_a_promise_is_compared_with_the_given_estimator(self, data, tmp_path):
        (X_val, y_val), (X, y) = data["cal"], data["test"]
        found = scurry.FeatureBudgetClassifier(
            RandomForestClassifier(5), promise=scurry.promises.Cost(3), candidates=["trees"], random_state=0
        ).fit(X_val, y_val)
        page = scurry.report.write(found, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
        assert "Original model" in page
        assert "new rows pay at most 3 for features on average" in page
        assert format_number(float(found.cost(X).mean())) in page

    def test_a_budget_shows_all_offers(self, data, tmp_path):
        (X_val, y_val), (X, y) = data["cal"], data["test"]
        found = scurry.FeatureBudgetClassifier(
            RandomForestClassifier(5), max_cost=3, candidates=["trees"], random_state=0
        ).fit(X_val, y_val)
        page = scurry.report.write(found, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
        assert "The best forest with a mean cost per row within 3" in page

    def test_an_early_exit_is_told_of_its_predictor(self, data, tmp_path):
        fast = scurry.EarlyExitClassifier(RandomForestClassifier(15), max_disagreement=0.05, random_state=0)
        page = scurry.report.write(fast.fit(*data["fit"]), tmp_path / "r.html", *data["test"])
        assert "Full model" in page.read_text(encoding="utf-8")

    def test_one_that_is_not_fitted(self, data, tmp_path):
        with pytest.raises(scurry.errors.InputError, match="a fitted estimator of scurry, got EarlyExitClassifier"):
            scurry.report.write(scurry.EarlyExitClassifier(), tmp_path / "r.html", *data["test"])


RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + RNG.normal(size=3000) > 0).astype(int)


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(15, random_state=0).fit(X[:800], Y[:800])


@pytest.fixture(scope="module")
def small(model):
    return scurry.compress(model, X[800:2400], Y[800:2400], promise=Accuracy(0.03), X_fit=X[:800])


def test_promise_is_compared_with_the_original_model(small, model, tmp_path):
    page = scurry.report.write(small, tmp_path / "page.html", X[2400:], Y[2400:], model=model).read_text("utf-8")
    measured = small.certificate.measured
    assert f"{measured.full_nodes:,}" in page
    assert "times smaller than the model it was made of" in page
    assert "Fall of accuracy" in page
    changed = (small.predict(X[2400:]) != model.predict(X[2400:])).mean()
    assert f"{100 * changed:.2f} %" in page.replace("\u00a0", " ")
    assert page.count("distinct splits") >= len(measured.path) - 1


def test_alone_it_claims_nothing(small, tmp_path):
    page = scurry.report.write(small, tmp_path / "page.html", X[2400:]).read_text("utf-8")
    assert "pass model= to compare" in page
    assert 'class="badge' not in page


def test_another_model_is_refused(small, tmp_path):
    other = RandomForestClassifier(15, random_state=1).fit(X[:800], Y[:800])
    with pytest.raises(InputError, match="not the one that this forest was made of"):
        scurry.report.write(small, tmp_path / "page.html", X[2400:], Y[2400:], model=other)
