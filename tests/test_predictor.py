"""Predictor: a forest run by a plan. It is immutable; what a call finds out belongs to what it returns."""

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import scurry
from scurry import AbortFlag, Plan, Predictor
from scurry.errors import FormatError, InputError
from scurry.plan import ExitRule, LeaderRule, StepRule
from scurry.promises import Certificate, ExitMeasurement, Labels
from scurry.runners.acquisition.ledger import Ledger
from support.strategies import complete_forest

ROWS = np.random.default_rng(0).normal(size=(50, 6))
N_TREES = 5
FOREST = complete_forest(n_trees=N_TREES, depth=3, n_columns=2, classes=["no", "yes"])


def make_exit() -> Predictor:
    """Stop a majority vote once it cannot turn."""
    n_evaluated = np.arange(N_TREES + 1)
    upper = np.full((1, N_TREES + 1), N_TREES // 2 + 1, np.int32)
    lower = (n_evaluated - N_TREES // 2 - 1).astype(np.int32)[None]
    stop = ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=upper)
    certificate = Certificate(method="mine", promise=Labels(0, against="vote"))
    return Predictor(FOREST, Plan(order=np.arange(N_TREES, dtype=np.int32), stop=stop, certificate=certificate))


def make_anytime() -> Predictor:
    order = np.tile(np.arange(N_TREES, dtype=np.int32), 3)
    return Predictor(FOREST, Plan(order=order, stop=StepRule(), certificate=Certificate(method="anytime")))


PREDICTORS = {"full": Predictor.full(FOREST), "exit": make_exit(), "anytime": make_anytime()}
every_kind = pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)


def test_full_evaluates_every_tree():
    full = Predictor.full(FOREST)
    assert full.predict(ROWS).tolist() == FOREST.predict(ROWS).tolist()
    assert (full.predict_proba(ROWS) == FOREST.predict_proba(ROWS)).all()
    run = full.run(ROWS)
    assert set(run.trees) == {N_TREES}
    assert set(run.stop_reason) == {"complete"}
    assert (full.certificate, full.promise, full.plan.stop) == (None, None, None)


def test_the_exit_of_this_file_stops_early_and_changes_no_vote():
    run = PREDICTORS["exit"].run(ROWS)
    leaves = np.stack([complete_paths(tree) for tree in range(N_TREES)])
    votes = FOREST.value[leaves].argmax(axis=2).sum(axis=0)
    assert run.labels.tolist() == np.where(votes > N_TREES // 2, "yes", "no").tolist()
    assert 3 <= run.trees.min() < run.trees.max() <= N_TREES


def complete_paths(tree: int) -> np.ndarray:
    """Return the leaf of each row in a tree of `FOREST`."""
    nodes, rows = np.full(len(ROWS), FOREST.tree_offset[tree]), ROWS.astype(FOREST.input_dtype)
    for _ in range(3):
        goes_left = rows[np.arange(len(ROWS)), FOREST.feature[nodes]] <= FOREST.threshold[nodes]
        nodes = np.where(goes_left, FOREST.left[nodes], FOREST.right[nodes])
    return nodes


@every_kind
def test_it_keeps_no_account(predictor):
    assert not hasattr(predictor, "ledger")
    before = predictor.digest, predictor.predict(ROWS).tolist(), sorted(vars(predictor))
    predictor.acquire(lambda row, feature: ROWS[row][feature], 3)
    predictor.run(ROWS)
    assert (predictor.digest, predictor.predict(ROWS).tolist(), sorted(vars(predictor))) == before
    with pytest.raises(AttributeError):
        predictor.plan.order = np.arange(N_TREES)


@every_kind
def test_threads_share_it(predictor):
    found: list[list[str]] = []
    fresh = Predictor(predictor.forest, predictor.plan)  # nothing is made yet: all threads make it at once
    threads = [threading.Thread(target=lambda: found.append(fresh.predict(ROWS).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [predictor.predict(ROWS).tolist()] * 4


@every_kind
def test_coded_answers_with_the_numbers_of_the_classes(predictor):
    coded = predictor.coded
    assert coded.classes.tolist() == [0, 1]
    assert (predictor.classes[coded.predict(ROWS)] == predictor.predict(ROWS)).all()
    assert (coded.predict_proba(ROWS) == predictor.predict_proba(ROWS)).all()
    assert coded.plan is predictor.plan
    assert predictor.coded is coded


@every_kind
def test_copies_and_pickles_are_the_same(predictor, tmp_path):
    predictor.predict(ROWS)  # so that there is something that cannot be pickled
    predictor.save(tmp_path / "x.scurry")
    for again in (
        pickle.loads(pickle.dumps(predictor)),
        copy.deepcopy(predictor),
        scurry.load(tmp_path / "x.scurry"),
    ):
        assert again.digest == predictor.digest
        assert again.predict(ROWS).tolist() == predictor.predict(ROWS).tolist()
        assert repr(again) == repr(predictor)


def test_repr_and_summary():
    for name, method in (("full", "full"), ("exit", "mine"), ("anytime", "anytime")):
        predictor = PREDICTORS[name]
        assert repr(predictor) == f"Predictor({FOREST!r}, method={method!r})"
        assert predictor.summary().lines["forest"] == repr(FOREST)
        assert predictor.summary().lines["method"] == method
    assert "promise  Every row gets the full vote's label." in str(PREDICTORS["exit"].summary()).splitlines()


def test_digest_is_of_forest_and_plan():
    other = complete_forest(n_trees=N_TREES, depth=3, n_columns=2, classes=["no", "yes"], seed=1)
    digests = {predictor.digest for predictor in PREDICTORS.values()}
    assert len(digests | {Predictor.full(other).digest}) == len(PREDICTORS) + 1


def test_plans_must_fit_their_forest():
    exits, leads = PREDICTORS["exit"].plan.stop, LeaderRule(kind="votes", lead=np.ones(3, np.int32))
    for order in ([0, 1, 2, 3], [0, 1, 2, 3, 3], [0, 1, 2, 3, 5]):
        with pytest.raises(InputError, match="must name each of the 5 trees once"):
            Predictor(FOREST, Plan(order=np.array(order, np.int32)))
    with pytest.raises(InputError, match="each of the 5 trees as often as it is deep"):
        Predictor(FOREST, Plan(order=np.arange(N_TREES, dtype=np.int32), stop=StepRule()))
    more, order = complete_forest(n_trees=6, depth=2, n_columns=2), np.arange(6, dtype=np.int32)
    with pytest.raises(InputError, match="thresholds for 5 trees, not 6"):
        Predictor(more, Plan(order=order, stop=exits))
    with pytest.raises(InputError, match="leads for 2 rounds, not 6"):
        Predictor(more, Plan(order=order, stop=leads))


class TestBudgets:
    @pytest.mark.parametrize("name", ["full", "exit"])
    @pytest.mark.parametrize("budget", [{"max_steps": 3}, {"time_us": 5.0}, {"abort": AbortFlag()}])
    def test_plans_that_cannot_keep_them_refuse_them(self, name, budget):
        predictor = PREDICTORS[name]
        for call in (predictor.predict, predictor.predict_proba, predictor.run):
            with pytest.raises(InputError, match=r"need a plan that can stop after any step.* scurry\.anytime"):
                call(ROWS, **budget)

    @every_kind
    def test_no_limit_is_none(self, predictor):
        expected = predictor.predict(ROWS).tolist()
        assert predictor.predict(ROWS, time_us=np.inf).tolist() == expected
        assert predictor.predict(ROWS, None, max_steps=None, time_us=None, abort=None).tolist() == expected

    def test_anytime_plans_keep_them(self):
        anytime, flag = PREDICTORS["anytime"], AbortFlag()
        assert set(anytime.run(ROWS, max_steps=4).steps) == {4}
        assert (anytime.predict(ROWS, max_steps=15) == FOREST.predict(ROWS)).all()
        flag.set()
        assert set(anytime.run(ROWS, abort=flag).stop_reason) == {"abort"}


class TestStream:
    def test_it_ends_with_the_answer_of_the_model(self):
        answers = list(PREDICTORS["anytime"].stream(ROWS[0], every=4))
        assert [answer.steps for answer in answers] == [0, 4, 8, 12, 15]
        assert answers[-1].complete
        assert answers[-1].label == FOREST.predict(ROWS[:1])[0]

    def test_it_is_for_one_row_and_says_so_at_once(self):
        for rows in (ROWS, ROWS[:0]):
            with pytest.raises(InputError, match=f"stream answers for one row, got {len(rows)}"):
                PREDICTORS["anytime"].stream(rows)
        for every in (0, 1.5, True):
            with pytest.raises(InputError, match="every must be a whole number of at least 1"):
                PREDICTORS["anytime"].stream(ROWS[0], every=every)

    @pytest.mark.parametrize("name", ["full", "exit"])
    def test_other_plans_cannot(self, name):
        with pytest.raises(InputError, match="stream needs a plan that can stop after any step"):
            PREDICTORS[name].stream(ROWS[0])


class TestAcquire:
    @every_kind
    def test_each_call_has_an_account_of_its_own(self, predictor):
        one, two = (predictor.acquire(lambda row, feature: ROWS[row][feature], n) for n in (3, 2))
        assert (one.ledger.n_rows, two.ledger.n_rows) == (3, 2)
        assert one.ledger.total_cost == one.costs.sum()
        assert one.labels.tolist() == predictor.predict(ROWS[:3]).tolist()

    @every_kind
    def test_an_account_that_is_passed_again_continues(self, predictor):
        ledger = Ledger()
        one = predictor.acquire(lambda row, feature: ROWS[row][feature], 3, ledger=ledger)
        n_purchases = len(ledger.purchases)
        two = predictor.acquire(lambda row, feature: ROWS[row][feature], 2, ledger=one.ledger)
        assert two.ledger is ledger
        assert ledger.n_rows == 5
        assert ledger.total_cost == one.costs.sum() + two.costs.sum()
        assert {purchase.row for purchase in ledger.purchases[:n_purchases]} == {0, 1, 2}
        assert {purchase.row for purchase in ledger.purchases[n_purchases:]} == {3, 4}


class TestLoad:
    def test_forests_and_predictors_come_back_as_they_were(self, tmp_path):
        FOREST.save(tmp_path / "forest.scurry")
        assert isinstance(scurry.load(tmp_path / "forest.scurry"), scurry.Forest)
        PREDICTORS["exit"].save(tmp_path / "exit.scurry")
        assert isinstance(scurry.load(tmp_path / "exit.scurry"), Predictor)

    def test_other_kinds_are_refused(self, tmp_path):
        from scurry.forest.files.storage import write_container

        write_container(tmp_path / "x.scurry", "grove", *FOREST.to_parts())
        with pytest.raises(FormatError, match="holds a 'grove', which this version"):
            scurry.load(tmp_path / "x.scurry")


def test_a_summary_is_a_text(tmp_path):
    summary = PREDICTORS["exit"].summary()
    (tmp_path / "summary.txt").write_text(summary)
    assert (tmp_path / "summary.txt").read_text() == summary == repr(summary) == pickle.loads(pickle.dumps(summary))
    assert len(summary.splitlines()) == len(summary.lines)


def test_a_summary_can_be_searched():
    summary = Predictor.full(complete_forest(1, 1, 1, 2)).summary()
    assert "forest" in summary
    assert "AUC" not in summary


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_forked_while_a_thread_lowers_the_forest_predicts(monkeypatch):
    """Locks that the thread holds are held for ever in the child, where the thread is gone."""
    predictor = Predictor.full(complete_forest(n_trees=3, depth=2))
    X = np.zeros((4, 6))
    expected, runner_of = Predictor.full(predictor.forest).predict(X).tolist(), scurry.predictor.runner_of
    begun, done = threading.Event(), threading.Event()

    def wait(*arguments):
        begun.set()
        done.wait(60)
        return runner_of(*arguments)

    monkeypatch.setattr(scurry.predictor, "runner_of", wait)
    thread = threading.Thread(target=predictor.predict, args=(X,))
    thread.start()
    begun.wait(60)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            scurry.predictor.runner_of = runner_of
            os._exit(0 if predictor.predict(X).tolist() == expected else 2)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0


@pytest.mark.parametrize(("mean_trees", "is_said"), [(1.0, False), (1.9, True)])
def test_it_is_said_where_little_is_saved(mean_trees, is_said):
    forest = complete_forest(2, 1, 1, 2)
    measured = ExitMeasurement(changed=0.0, mean_trees=mean_trees)
    stop = ExitRule(
        kind="votes", weights=np.ones(1), lower=-np.ones((1, 3), np.int32), upper=np.full((1, 3), 9, np.int32)
    )
    plan = Plan(order=np.arange(2, dtype=np.int32), stop=stop, certificate=Certificate(method="x", measured=measured))
    assert ("little is saved" in Predictor(forest, plan).summary()) == is_said
    assert "little is saved" not in Predictor.full(forest).summary()


class TestOwnRule:
    """A rule of the caller's promises nothing, says so, and can be tested."""

    @pytest.fixture(scope="class")
    def own(self):
        from sklearn.ensemble import RandomForestClassifier

        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 4))
        y = (X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
        forest = scurry.from_model(RandomForestClassifier(21, max_depth=5, random_state=0).fit(X[:1000], y[:1000]))
        asked = np.arange(22)
        low, high = np.floor(asked / 2 - 1.5).astype(np.int32), np.ceil(asked / 2 + 1.5).astype(np.int32)
        rule = ExitRule(kind="votes", weights=np.ones(1), lower=low[None], upper=high[None])
        return Predictor(forest, Plan(order=np.arange(21, dtype=np.int32), stop=rule)), X[1000:], y[1000:]

    def test_it_is_called_what_it_is(self, own):
        predictor, _, _ = own
        assert "method='own rule'" in repr(predictor)
        assert "Nothing is promised" in predictor.summary()
        assert "stopped early by a rule of the caller's" in predictor.summary()

    def test_a_promise_is_tested_on_rows(self, own):
        predictor, X, y = own
        changed = (predictor.predict(X) != predictor.forest.predict(X)).mean()
        audit = predictor.audit(X, promise=Labels(0.5))
        assert (audit.verdict, audit.rate) == ("kept", changed)
        assert 0 < audit.lower < changed < audit.upper
        assert predictor.audit(X, promise="labels<=0.001%").verdict == "broken"
        assert predictor.audit(X, y, promise="accuracy<=10%").verdict == "kept"

    @pytest.mark.parametrize(
        ("promise", "message"),
        [
            (None, "it promises nothing; pass promise="),
            (3, "promise must be one of scurry.promises"),
            (scurry.promises.Values(0.1), "about values of a regressor, and this predictor has none"),
            (scurry.promises.TopK(3, 0.01), "about the top of rankings"),
            (scurry.promises.Accuracy(0.01), "y is needed"),
        ],
    )
    def test_what_cannot_be_tested(self, own, promise, message):
        predictor, X, _ = own
        with pytest.raises(InputError, match=message):
            predictor.audit(X, promise=promise)
