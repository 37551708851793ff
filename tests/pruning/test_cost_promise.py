"""A promised budget: kept on new rows as often as stated, certified on rows that chose nothing, saved with a proof."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError
from scurry.promises import Certificate, Cost, CostMeasurement, Labels, Promise
from scurry.pruning.cost_promise import largest_cost
from scurry.stopping.losses import loss_p_value

DIGITS = load_digits(return_X_y=True)
PRICES = {"feature_costs": np.arange(64) % 5 + 0.5, "groups": np.arange(64) // 8, "group_costs": np.arange(8) + 1.0}
X, Y = DIGITS
MODEL = RandomForestClassifier(10, max_depth=5, random_state=0).fit(X[:500], Y[:500])
PATH = scurry.prune(MODEL, X[500:900], **PRICES)
CAL, TEST = X[900:1400], X[1400:]


def test_it_is_kept_as_often_as_stated():
    """Over draws from a known pool, the true mean cost exceeds the promise in at most 5 % and sampling error.

    The pool is all there is: rows are drawn from it with replacement, so its mean is the truth. Prunings are chosen on
    few rows, and the promise is close to what they cost. In half of the draws few rows need the feature that costs
    most, and a sample without such rows looks cheap.
    """
    rng, n_draws = np.random.default_rng(0), 200
    pool = rng.random((2000, 4))
    label = (pool[:, 0] > 0.9) & (pool[:, 3] > 0.5) | (pool[:, 1] > pool[:, 2])
    pool[label, 3] += 0.1
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(pool[:1000], label[:1000])
    forest = scurry.from_model(model)
    n_broken = n_plain = 0
    for draw in range(n_draws):
        prices = [1.0, 2.0, 4.0, 100.0] if draw % 2 else [4.0, 2.0, 5.0, 3.0]
        choose, certify = pool[rng.integers(2000, size=40)], pool[rng.integers(2000, size=60)]
        path = scurry.prune(forest, choose, feature_costs=prices)
        budget = float(rng.uniform(0.2, 0.95) * path.costs.max())
        fast = path.at(promise=Cost(budget), X_cal=certify)
        paid = path.problem.costs.of_rows
        n_broken += paid(fast.forest, pool).mean() > budget
        n_plain += paid(path.at(max_cost=budget), pool).mean() > budget
        assert fast.certificate.bound <= budget
    assert n_broken <= 0.05 * n_draws + 2 * np.sqrt(0.05 * 0.95 * n_draws)
    assert n_plain > 0.1 * n_draws  # a budget on the rows that chose the pruning is no promise


def test_the_most_expensive_certified_pruning_is_chosen():
    promise = Cost(30)
    fast = PATH.at(promise=promise, X_cal=CAL)
    costs = PATH.problem.costs
    paid = costs.of_rows(fast.forest, CAL)
    assert fast.certificate.measured.mean_cost == pytest.approx(paid.mean())
    assert loss_p_value(paid, 30, max_loss=largest_cost(costs, fast.forest)) <= 0.05
    # The next one that was looked at is not certified.
    later = [one.forest for one in PATH._candidates(promise) if one.cost > fast.certificate.measured.validation_cost]
    assert later
    assert loss_p_value(costs.of_rows(later[0], CAL), 30, max_loss=largest_cost(costs, later[0])) > 0.05
    assert 25 < fast.certificate.measured.validation_cost < 30
    assert costs.of_rows(fast.forest, TEST).mean() < 30


def test_more_rows_allow_more():
    few, many = (PATH.at(promise=Cost(30), X_cal=CAL[:n]).certificate.measured.validation_cost for n in (30, 500))
    assert few < many


def test_more_confidence_allows_less():
    loose, strict = (
        PATH.at(promise=Cost(30, confidence=c), X_cal=CAL).certificate.measured.validation_cost for c in (0.5, 0.9999)
    )
    assert strict < loose


def test_a_budget_that_no_row_can_exceed_needs_no_proof():
    everything = PRICES["feature_costs"].sum() + PRICES["group_costs"].sum()
    fast = PATH.at(promise=Cost(everything), X_cal=CAL[:1])
    assert (fast.predict(TEST) == PATH[0].predict(TEST)).all()
    assert fast.certificate.bound <= everything


@pytest.mark.parametrize("step_cost", [0.0, 0.7])
def test_largest_cost_is_a_bound_that_can_be_reached(step_cost):
    path = scurry.prune(MODEL, X[500:600], **PRICES, step_cost=step_cost)
    for forest in (path[0], path[len(path) // 2], path[len(path) - 1]):
        most = largest_cost(path.problem.costs, forest)
        assert path.problem.costs.of_rows(forest, X).max() <= most + 1e-9
    stump = {"feature": [1, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = scurry.Forest.from_trees([stump | {"value": [[0.5, 0.5], [1, 0], [0, 1]]}] * 3, n_features=2)
    costs = scurry.pruning.FeatureCosts.of(forest, feature_costs=[9, 2], step_cost=step_cost)
    assert largest_cost(costs, forest) == pytest.approx(2 + 3 * step_cost) == costs.of_rows(forest, [[0, 0]])[0]


def test_the_certificate_describes_itself_and_is_saved(tmp_path):
    fast = PATH.at(promise=Cost(30), X_cal=CAL)
    assert fast.promise == Cost(30)
    assert fast.promise.rows_needed() == 0
    text = fast.certificate.describe()
    assert "With confidence 0.95, new rows pay at most 30 for features on average." in text
    assert "500 rows that had no part in the choice of the forest: new ones pay at most" in text
    assert all(line in fast.summary().lines.values() for line in fast.certificate.lines().values())
    fast.save(tmp_path / "fast.scurry")
    loaded = scurry.load(tmp_path / "fast.scurry")
    assert loaded.digest == fast.digest
    assert loaded.certificate.describe() == text
    assert loaded.certificate.measured == fast.certificate.measured
    assert (loaded.promise, loaded.certificate.bound) == (fast.promise, fast.certificate.bound)
    assert (loaded.predict(TEST) == fast.forest.predict(TEST)).all()


def test_its_report_states_the_promise(tmp_path):
    fast = PATH.at(promise=Cost(30), X_cal=CAL)
    text = scurry.report.write(fast, tmp_path / "r.html", TEST[:100], Y[1400:1500]).read_text(encoding="utf-8")
    assert "new rows pay at most 30 for features on average" in text
    assert "Every row gets the model" not in text
    assert "Cost(confidence=0.95, max_cost=30.0)" in text


def test_visits_of_a_promised_predictor_pay_what_was_certified():
    fast = PATH.at(promise=Cost(30), X_cal=CAL)
    out = fast.acquire(lambda row, feature: TEST[row, feature], 30, **PRICES)
    np.testing.assert_allclose(out.costs, PATH.problem.costs.of_rows(fast.forest, TEST[:30]))


def test_without_confidence_nothing_is_promised():
    fast = PATH.at(promise=Cost(30, confidence=None))
    assert "Nothing is promised for new rows." in fast.certificate.describe()
    assert fast.certificate.n_rows == 0
    assert fast.certificate.measured.validation_cost == PATH.point(max_cost=30).cost


def test_rows_that_chose_the_pruning_do_not_certify_it():
    with pytest.raises(InputError, match="all 400 rows of X_cal are among those of X_val"):
        PATH.at(promise=Cost(30), X_cal=X[500:900])
    with pytest.warns(UserWarning, match="200 of 700 rows of X_cal are among those of X_val"):
        fast = PATH.at(promise=Cost(30), X_cal=X[700:1400])
    certificate = fast.certificate
    assert (certificate.n_rows, certificate.n_shared_rows, certificate.n_calibration_rows) == (500, 200, 700)
    assert certificate.bound == PATH.at(promise=Cost(30), X_cal=CAL).certificate.bound


def test_with_labels_each_candidate_is_better_than_all_cheaper_ones():
    path = scurry.prune(MODEL, X[500:900], Y[500:900], **PRICES)
    fast = path.at(promise=Cost(30), X_cal=CAL)
    offers = [offer for offer in path.offers if offer.cost <= 30]
    chosen = [offer.forest.digest for offer in offers].index(fast.forest.digest)
    assert fast.certificate.measured.validation_cost == offers[chosen].cost
    later, costs = offers[chosen + 1 :], path.problem.costs
    assert (
        not later
        or loss_p_value(costs.of_rows(later[0].forest, CAL), 30, max_loss=largest_cost(costs, later[0].forest)) > 0.05
    )


def test_one_label_for_every_row_is_warned_of():
    with pytest.warns(scurry.errors.ScurryWarning, match="for every validation row"):
        PATH.at(promise=Cost(0), X_cal=CAL)


def test_copies_count_once():
    with pytest.warns(UserWarning, match="2,500 rows, 500 of them different"):
        fast = PATH.at(promise=Cost(30), X_cal=np.tile(CAL, (5, 1)))
    once = PATH.at(promise=Cost(30), X_cal=CAL)
    assert fast.certificate.bound == once.certificate.bound
    assert (fast.certificate.n_rows, fast.certificate.unit) == (500, "distinct row")
    assert fast.certificate.n_calibration_rows == 2500


def test_what_cannot_be_promised_says_what_can():
    lonely = scurry.prune(MODEL, X[500:900], **PRICES, lambdas=[0.0])  # the whole forest alone
    cost = max(float(lonely.costs[0]), lonely.problem.costs.of_rows(lonely[0], CAL).mean())
    with pytest.raises(InfeasibleError, match=r"cannot be promised with confidence 0\.95") as caught:
        lonely.at(promise=Cost(cost * 1.0001), X_cal=CAL)
    assert lonely.at(promise=Cost(caught.value.achievable * 1.0001), X_cal=CAL).certificate.bound >= cost
    with pytest.raises(InfeasibleError, match="no pruning costs 1 or less"):
        lonely.at(promise=Cost(1), X_cal=CAL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"promise": Cost(30)}, "X_cal is needed to promise a cost: rows like those to come"),
        ({"promise": Cost(30), "X_cal": X[:0]}, "X_cal has no rows"),
        ({"promise": Cost(30), "X_cal": X[:, 1:]}, "63 columns"),
        ({"promise": Labels(0.01), "X_cal": CAL}, r"a pruning promises scurry.promises.Cost\(max_cost\)"),
        ({"promise": 30, "X_cal": CAL}, r"a pruning promises .*, got 30. Did you mean Cost\(30\)\?"),
        ({"promise": Cost(30), "max_cost": 30, "X_cal": CAL}, "give a promise or a budget, not both"),
        ({"max_cost": 30, "X_cal": CAL}, r"X_cal certifies a promise; pass promise="),
        ({}, "give one of max_cost and max_error"),
    ],
)
def test_misuse_is_named(options, message):
    with pytest.raises(InputError, match=message):
        PATH.at(**options)


@pytest.mark.parametrize("wrong", [-1, np.nan, np.inf, "40", None, True])
def test_a_cost_is_a_number(wrong):
    with pytest.raises(InputError, match="max_cost must be a number of at least 0"):
        Cost(wrong)


class TestFiles:
    CERTIFICATE = Certificate(
        method="exact",
        promise=Cost(40),
        n_rows=60,
        bound=38.5,
        measured=CostMeasurement(mean_cost=30.0, validation_cost=29.0, largest_cost=90.0),
    )

    def test_round_trip(self):
        data = self.CERTIFICATE.to_json()
        assert Certificate.from_json(data).to_json() == data
        assert Promise.from_json(Cost(40).to_json()) == Cost(40)

    @pytest.mark.parametrize("change", [{"max_cost": "x"}, {"max_cost": -1}, {"confidence": 2}, {"max_changed": 0.1}])
    def test_broken_promise(self, change):
        data = self.CERTIFICATE.to_json()
        with pytest.raises(FormatError, match="promise cannot be read"):
            Certificate.from_json(data | {"promise": data["promise"] | change})

    def test_broken_measurement(self):
        data = self.CERTIFICATE.to_json()
        with pytest.raises(FormatError, match="measured mean_cost of the wrong type"):
            Certificate.from_json(data | {"measured": data["measured"] | {"mean_cost": "x"}})


class TestOneLabel:
    """It is cheap, and useless: said at once, in the summary, and on the page."""

    def make(self):
        with pytest.warns(scurry.errors.ScurryWarning, match="for every validation row"):
            return PATH.at(promise=Cost(0), X_cal=CAL)

    def test_summary_and_file(self, tmp_path):
        fast = self.make()
        label = fast.predict(TEST)[0]
        assert f"answers {label} for every row" in str(fast.summary())
        fast.save(tmp_path / "fast.scurry")
        assert scurry.load(tmp_path / "fast.scurry").certificate.measured.single_label == repr(int(label))
        assert "for every row" not in str(PATH.at(promise=Cost(30), X_cal=CAL).summary())

    def test_report(self, tmp_path):
        page = scurry.report.write(self.make(), tmp_path / "r.html", TEST, Y[1400:]).read_text(encoding="utf-8")
        assert "Do not use it: every test row gets the label" in page
        assert "one label for all rows" in page

    def test_measurements_of_older_files_are_read(self):
        old = TestFiles.CERTIFICATE.to_json()
        for name in ("single_label", "candidate", "recalls"):
            del old["measured"][name]
        assert Certificate.from_json(old).measured == TestFiles.CERTIFICATE.measured


def test_the_prices_stay_with_the_promise(tmp_path):
    fast = PATH.at(promise=Cost(30), X_cal=CAL)
    fast.save(tmp_path / "fast.scurry")
    out = scurry.load(tmp_path / "fast.scurry").acquire(lambda row, feature: TEST[row, feature], 30)
    np.testing.assert_allclose(out.costs, PATH.problem.costs.of_rows(fast.forest, TEST[:30]))
