"""Plan: orders and score maps that do not fit.

Rules that no calibration makes, as a broken or hostile file may hold them.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry import Plan, Predictor
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import write_container
from scurry.plan import NEVER_ABOVE, ExitRule, ExitSide, LeaderRule, ScoreMap
from support.acquisition_cases import WINE, WINE_FOREST
from support.strategies import complete_forest


@pytest.mark.parametrize("order", [[0, 0], [0], [1, 2], [0, 1, 1]])
def test_orders_name_each_tree_once(order):
    with pytest.raises(InputError, match="must name each of the 2 trees once"):
        Plan(order=np.array(order, np.int32)).check(complete_forest(2, 1, 1, 2))


def test_slopes_are_not_negative():
    ScoreMap(slope=np.zeros((2, 3)), intercept=np.ones((2, 3)))
    with pytest.raises(InputError, match="slopes that are not negative"):
        ScoreMap(slope=np.array([[1.0, 1.0, -1e-9]] * 2), intercept=np.ones((2, 3)))


ROWS = np.zeros((2, 6))
X, Y = load_breast_cancer(return_X_y=True)
VOTES = scurry.from_model(RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:300], Y[:300]))
SCORES = scurry.from_model(GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[:300], Y[:300]))


def plan(n_trees: int, stop: ExitRule | LeaderRule) -> Plan:
    return Plan(order=np.arange(n_trees, dtype=np.int32), stop=stop)


def exit_rule(n_trees: int, step: float) -> ExitRule:
    lower = np.full((1, n_trees + 1), np.iinfo(np.int32).min, np.int32)
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=-1 - lower)


def test_votes_needed_are_of_voters():
    """Sums of scores would be looked up beyond the table's ends."""
    with pytest.raises(InputError, match="need is a number of votes"):
        LeaderRule(kind="scores", lead=np.zeros(31, np.int32), need=np.zeros((31, 31), np.int32))


@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize(
    ("step", "message"),
    [(1e-12, "step 1e-12 is too small"), (1e-9, "step 1e-09 is too small: some sum")],
    ids=["leaves", "sums of thirty leaves that fit"],
)
def test_scores_that_no_integer_holds(n_columns, step, message):
    forest = complete_forest(n_columns=n_columns)
    rule = exit_rule(30, step) if n_columns == 2 else LeaderRule(kind="scores", step=step, lead=np.ones(31, np.int32))
    with pytest.raises(ValueError, match=message):
        Predictor(forest, plan(30, rule)).predict(ROWS)


def test_inner_nodes_add_nothing_and_may_be_anything():
    forest = complete_forest(n_columns=1, classes=[0, 1])
    value = np.where(forest.is_leaf[:, None], forest.value, 1e30)
    odd = complete_forest(n_columns=1, classes=[0, 1], value=value)
    for one in (forest, odd):
        assert Predictor(one, plan(30, exit_rule(30, 1e-6))).predict(ROWS).tolist() == forest.predict(ROWS).tolist()


def test_no_sum_is_on_both_sides():
    lower = np.array([[-1, 0, 1]], np.int32)
    with pytest.raises(InputError, match=r"lower threshold must be below its upper one; at index \[0, 1\] they are"):
        ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=np.array([[1, 0, 2]], np.int32))
    ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=lower + 1)


@pytest.mark.parametrize("n_trees", [1, 2, 3, 4])
def test_a_tied_vote_is_the_first_class(n_trees):
    forest = complete_forest(n_trees, 1, 1, 2)
    rule = ExitRule(
        kind="votes",
        weights=np.ones(1),
        lower=np.full((1, n_trees + 1), -1, np.int32),
        upper=np.full((1, n_trees + 1), n_trees + 1, np.int32),
    )
    assert rule.threshold(forest) == n_trees // 2 + 1
    votes = rule.increments(forest)
    value = np.zeros((forest.n_nodes, 2))
    value[np.arange(forest.n_nodes), np.repeat(np.arange(n_trees) % 2, 3)] = 1.0  # every second tree votes for 1
    tied = complete_forest(n_trees, 1, 1, 2, value=value)
    predictor = Predictor(tied, plan(n_trees, rule))
    assert predictor.predict(np.zeros((2, 1))).tolist() == predictor.run(np.zeros((2, 1))).labels.tolist() == [0, 0]
    assert votes.dtype == np.int32


def test_a_leaf_of_equal_shares_votes_for_the_first_class():
    forest = complete_forest(1, 1, 1, 2, value=np.full((3, 2), 0.5))
    assert exit_rule(1, 1.0).increments(forest).tolist() == [0, 0, 0]
    votes = ExitRule(
        kind="votes", weights=np.ones(1), lower=np.array([[-1, 0]], np.int32), upper=np.array([[1, 1]], np.int32)
    )
    assert votes.increments(forest).tolist() == [0, 0, 0]


def test_sides_are_closed():
    rule = ExitRule(
        kind="votes", weights=np.ones(1), lower=np.array([[-1, 0, 1]], np.int32), upper=np.array([[1, 1, 2]], np.int32)
    )
    assert rule.side_of(0, 2, np.array([0, 1, 2])).tolist() == [ExitSide.NEGATIVE, ExitSide.NEGATIVE, ExitSide.POSITIVE]
    pieces = replace(
        rule,
        piece_offset=np.array([0, 0, 2, 2], np.uint32),
        piece_edges=np.array([3, 7], np.int32),
        piece_sides=np.array([0, 1, 0, 2, 0], np.uint8),
    )
    assert pieces.side_of(0, 1, np.array([2, 3, 6, 7])).tolist() == [1, 0, 0, 2]
    assert not pieces.without_stops().piece_sides.any()


def test_scaled_thresholds_go_apart():
    forest = complete_forest(2, 1, 1, 2, value=np.tile([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]], (2, 1)))
    lower, upper = np.array([[-9, -4, -1]], np.int32), np.array([[9, 6, 1]], np.int32)
    rule = ExitRule(kind="scores", step=0.125, weights=np.ones(1), lower=lower, upper=upper)
    wide = rule.with_scaled_thresholds(forest, 2.0)
    assert (wide.lower.tolist(), wide.upper.tolist()) == ([[-18, -9, -2]], [[18, 11, 2]])
    leads = LeaderRule(kind="votes", lead=np.zeros(3, np.int32), need=np.array([[1, 2, 3]] * 3, np.int32))
    assert leads.with_scaled_thresholds(forest, 1e-9).need.tolist() == [[1, 2, 3]] * 3, "a lead of one vote at least"


def test_the_start_of_a_leader_is_its_base_score():
    forest = complete_forest(2, 1, 1, 3, base_score=[0.5, 0.0, -0.25])
    rule = LeaderRule(kind="scores", step=0.125, lead=np.ones(3, np.int32))
    assert rule.start(forest).tolist() == [4, 0, -2]
    assert LeaderRule(kind="votes", lead=np.ones(3, np.int32)).start(forest).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("forest", "method", "rows"),
    [
        (VOTES, "minimax", X[300:]),
        (VOTES, "fan", X[300:]),
        (SCORES, "qwyc", X[300:]),
        (WINE_FOREST, "minimax", WINE[0]),
        (WINE_FOREST, "qwyc", WINE[0]),
    ],
)
def test_rows_stop_where_native_code_stops_them(forest, method, rows):
    fast = scurry.early_exit(forest, rows, max_disagreement=0.05, method=method, confidence=None, random_state=0)
    run, leaves, increments = fast.run(rows), forest.apply(rows), fast.plan.stop.increments(forest)
    stopped = run.trees < forest.n_trees
    assert stopped.any()
    for row, n_trees in enumerate(run.trees):
        tally = fast.plan.stop.tally(forest, increments)
        for done, tree in enumerate(fast.plan.order):
            if tally.decided is not None:
                break
            assert done < n_trees
            tally.add(int(tree), int(leaves[row, tree]))
        assert tally.n_trees == n_trees
        if stopped[row]:
            assert forest.classes[tally.decided] == run.labels[row]


def test_draws_follow_the_weights_and_repeat():
    fast = scurry.early_exit(
        VOTES, X[300:], max_disagreement=0.05, method="minimax", shuffle="row", confidence=None, random_state=0
    )
    rule, order = fast.plan.stop, fast.plan.order
    drawn = [rule.draw(order, number) for number in range(200)]
    assert all(sorted(one.tolist()) == sorted(order.tolist()) for one, _ in drawn)
    assert len({tuple(one.tolist()) for one, _ in drawn}) > 150
    assert all(not one.is_randomised for _, one in drawn)
    again, _ = rule.draw(order, 7)
    np.testing.assert_array_equal(again, drawn[7][0])


class TestCertificatesInFiles:
    """They are read when they are asked for."""

    @staticmethod
    def saved(path):
        X, y = load_breast_cancer(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(11, max_depth=4, random_state=0).fit(X[:200], y[:200]))
        fast = scurry.early_exit(forest, X[200:], max_disagreement=0.05, method="minimixed", random_state=0)
        fast.save(path)
        return fast, X

    def test_the_one_that_was_saved(self, tmp_path):
        fast, X = self.saved(tmp_path / "fast.scurry")
        loaded = scurry.load(tmp_path / "fast.scurry")
        assert "certificate" not in vars(loaded.plan)
        sent = pickle.loads(pickle.dumps(loaded))
        assert "certificate" not in vars(sent.plan)
        for again in (loaded, sent, Predictor(loaded.forest, replace(loaded.plan))):
            np.testing.assert_array_equal(again.predict(X), fast.predict(X))
            assert again.certificate.promise == fast.promise
            assert again.certificate.rows.quantiles.dtype == np.float64
            np.testing.assert_array_equal(again.certificate.rows.quantiles, fast.certificate.rows.quantiles)
            assert again.digest == fast.digest
        loaded.save(tmp_path / "again.scurry")
        assert (tmp_path / "again.scurry").read_bytes() == (tmp_path / "fast.scurry").read_bytes()
        assert Plan.certificate is None
        assert Predictor.full(fast.forest).certificate is None

    def test_quantiles_of_other_precision_and_in_older_files(self, tmp_path):
        fast, _ = self.saved(tmp_path / "fast.scurry")
        rows = replace(fast.certificate.rows, quantiles=fast.certificate.rows.quantiles + 1e-12)
        other = Predictor(fast.forest, replace(fast.plan, certificate=replace(fast.certificate, rows=rows)))
        assert other.to_file_parts()[1]["row_quantiles"].dtype == np.float64
        other.save(tmp_path / "other.scurry")
        assert scurry.load(tmp_path / "other.scurry").digest == other.digest
        # As version 2 had them first: as texts.
        header, arrays = fast.forest.to_packed_parts()
        plan_header, plan_arrays = fast.plan.to_parts()
        write_container(tmp_path / "old.scurry", "predictor", header | {"plan": plan_header}, arrays | plan_arrays)
        assert scurry.load(tmp_path / "old.scurry").digest == fast.digest

    @pytest.mark.parametrize("junk", [{"rows": {"n_rows": 3}}, {"unit": "hour"}, {"measured": {"kind": "odd"}}])
    def test_a_damaged_one_is_refused_where_it_is_read(self, junk, tmp_path):
        fast, X = self.saved(tmp_path / "fast.scurry")
        header, arrays = fast.to_file_parts()
        header["plan"]["facts"] |= junk
        del arrays["row_quantiles"]
        write_container(tmp_path / "odd.scurry", "predictor", header, arrays)
        loaded = scurry.load(tmp_path / "odd.scurry")
        np.testing.assert_array_equal(loaded.predict(X), fast.predict(X))
        for _ in range(2):
            with pytest.raises(FormatError, match=r"odd\.scurry does not hold a sound certificate"):
                loaded.summary()


class TestThresholdsAsWritten:
    """A rule of one's own stops the rows that its numbers say, whole or not."""

    def sides(self, lower, upper, **options):
        rule = ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=upper, **options)
        return rule, [rule.side_of(0, 2, votes).item() for votes in range(3)]

    def test_fractions_are_rounded_to_what_stops_the_same_rows(self):
        lower, upper = np.array([[-1.5, -0.5, 0.5]]), np.array([[1.0, 1.5, 1.5]])
        rule, sides = self.sides(lower, upper)
        assert rule.lower.dtype == rule.upper.dtype == np.int32
        assert rule.lower.tolist() == [[-2, -1, 0]]
        assert rule.upper.tolist() == [[1, 2, 2]]
        assert sides == [ExitSide.NEGATIVE, ExitSide.CONTINUE, ExitSide.POSITIVE]

    def test_infinite_thresholds_stop_no_row(self):
        never = np.full((1, 3), np.inf)
        assert self.sides(-never, never)[1] == [ExitSide.CONTINUE] * 3

    def test_nan_and_texts_are_refused(self):
        with pytest.raises(InputError, match="lower must hold numbers, got NaN; infinity stops no row"):
            self.sides(np.full((1, 3), np.nan), np.ones((1, 3)))
        with pytest.raises(InputError, match="upper must hold numbers, got <U1 values"):
            self.sides(np.zeros((1, 3)), np.array([["a", "b", "c"]]))

    def test_leads_are_rounded_up(self):
        rule = LeaderRule(kind="votes", lead=np.array([np.inf, 1.5, 2.0]))
        assert rule.lead.tolist() == [NEVER_ABOVE, 2, 2]

    def test_a_step_that_rounds_scores_away_is_refused(self):
        forest = scurry.from_model(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X[:200], Y[:200]))
        thresholds = np.full((1, 6), -1.5), np.full((1, 6), 1.5)
        with pytest.raises(InputError, match=r"step 1 is too large: a leaf of .* would count as 0"):
            ExitRule(kind="scores", weights=np.ones(1), lower=thresholds[0], upper=thresholds[1]).check(forest)
        step = 2.0**-20
        rule = ExitRule(
            kind="scores", step=step, weights=np.ones(1), lower=thresholds[0] / step, upper=thresholds[1] / step
        )
        rule.check(forest)
        assert rule.lower[0, 0] == -3 * 2**19

    @pytest.mark.parametrize("weights", [[3, 7], np.array([0.3, 0.7], np.float32), [0.15, 0.35]])
    def test_weights_are_shares(self, weights, tmp_path):
        lower = np.array([[-1, -1, -1, 3], [-1, 0, 0, 0]])
        rule = ExitRule(kind="votes", weights=weights, lower=lower, upper=lower + 9, seed=3)
        np.testing.assert_allclose(rule.weights, [0.3, 0.7], rtol=1e-6)
        forest = complete_forest(3, 2, 2, 2)
        Predictor(forest, plan(3, rule)).save(tmp_path / "own.scurry")
        np.testing.assert_array_equal(scurry.load(tmp_path / "own.scurry").plan.stop.weights, rule.weights)
