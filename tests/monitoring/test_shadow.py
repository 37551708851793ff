"""Every kind of promise is counted as it counts itself."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import scurry
from scurry.errors import InputError
from scurry.monitoring.shadow import Comparison
from scurry.promises import Accuracy, Certain, LabelsPerClass, Outcomes, Recall, TopK, Values
from support.calibration_rows import full_vote, two_classes
from support.strategies import adversarial_rows


def watch_all(fast, rows, **options):
    watch = scurry.watch(fast, random_state=0, **options)
    watch.predict(rows)
    return watch


class TestOracle:
    """What shadow rows are compared with is the full model's answer, also where not every tree is needed for it."""

    def test_labels_of_an_averaging_forest(self, fast, rows):
        compare = Comparison(fast, fast.promise)
        hard = adversarial_rows(fast.forest, rows, 2000)
        with np.errstate(over="ignore"):
            narrow = hard.astype(np.float32)
        for some in (rows, hard, narrow):
            assert np.array_equal(compare.oracle.predict(some), fast.forest.predict(some))
        assert compare.oracle.run(rows).mean_trees < fast.forest.n_trees
        assert (compare.full.run(rows).trees == fast.forest.n_trees).all(), "what answers after an alarm runs all"

    def test_other_models_are_evaluated_in_full(self, model, rows):
        values = scurry.early_exit(
            model, two_classes(3000, 1)[0], promise=Values(0.2, 0.1, of="probability"), random_state=0
        )
        X, y = two_classes(3000, 1)
        boosted = GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X[:800], y[:800])
        for fast in (values, scurry.early_exit(boosted, X[800:], max_disagreement=0.05, random_state=0)):
            compare = Comparison(fast, fast.promise)
            assert compare.oracle is compare.full


class TestPromises:
    """Every kind of promise counts as `Promise.count` does."""

    def test_classes(self, model, rows):
        promise = LabelsPerClass({0: 0.05, 1: 0.03})
        fast = scurry.early_exit(model, two_classes(5000, 1)[0], promise=promise, random_state=0)
        state = watch_all(fast, rows, share=1.0).state
        full, changed = fast.forest.predict(rows), fast.predict(rows) != fast.forest.predict(rows)
        for part, label in zip(state.parts, (0, 1), strict=True):
            assert (part.n_shadow, part.n_broken) == ((full == label).sum(), changed[full == label].sum())
        assert [part.max_rate for part in state.parts] == [0.05, 0.03]
        assert state.e_value == pytest.approx(np.mean([part.e_value for part in state.parts]))

    def test_accuracy_waits_for_labels(self, model):
        X, y = two_classes(3000, 1)
        fast = scurry.early_exit(model, X, y, promise=Accuracy(0.03), random_state=0)
        X, y = two_classes(2000, 3)
        watch = scurry.watch(fast, share=0.5, random_state=0)
        with pytest.raises(InputError, match="ids is needed"):
            watch.predict(X)
        watch.predict(X[:1000], ids=[f"row {i}" for i in range(1000)])
        watch.predict(X[1000:], ids=[f"row {i}" for i in range(1000, 2000)])
        awaited = watch.awaited_ids
        assert watch.state.n_waiting == len(awaited) == watch.state.n_shadow
        assert watch.state.parts[0].n_shadow == 0
        n_learned = watch.learn_labels([f"row {i}" for i in range(1500)], y[:1500])  # of all rows, in any order
        number = [int(name[4:]) for name in awaited if int(name[4:]) < 1500]
        assert n_learned == len(number) == watch.state.parts[0].n_shadow
        is_right, was_right = fast.predict(X) == y, fast.forest.predict(X) == y
        part = watch.state.parts[0]
        assert part.n_broken == (was_right & ~is_right)[number].sum()
        assert part.n_mended == (is_right & ~was_right)[number].sum()
        assert watch.learn_labels(["row 0"], y[:1]) == 0  # once is enough
        kept = watch._record.kept
        assert ((kept.labels >= 0).sum(), len(kept)) == (n_learned, watch.state.n_shadow)
        assert (kept.labels[kept.labels >= 0] == y[kept.numbers[kept.labels >= 0]]).all()

    def test_costs_and_recall(self, model):
        X, y = two_classes(2500, 1)
        for promise in (Accuracy(0.2, error_costs=[[0, 1], [5, 0]]), Recall(1, 0.08, 0.08)):
            fast = scurry.early_exit(model, X, y, promise=promise, random_state=0)
            watch = scurry.watch(fast, share=1.0, random_state=0)
            watch.predict(X[:900], ids=np.arange(900))
            watch.learn_labels(np.arange(900), y[:900])
            state = watch.state
            answers, full = fast.predict(X[:900]), fast.forest.predict(X[:900])
            if isinstance(promise, Accuracy):
                costs = np.array(promise.error_costs)
                rise = costs[y[:900], answers] - costs[y[:900], full]
                assert state.rate == pytest.approx(rise.mean())
            else:
                found = (full == 1) & (y[:900] == 1)
                assert (state.parts[0].n_shadow, state.parts[0].n_broken) == (found.sum(), (answers != 1)[found].sum())

    def test_values(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 5))
        y = X[:, 0] * 3 + np.sin(3 * X[:, 1]) + rng.normal(size=4000) * 0.1
        model = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:1500], y[:1500])
        fast = scurry.early_exit(model, X[1500:3000], promise=Values(0.5), random_state=0)
        state = watch_all(fast, X[3000:], share=1.0).state
        far = np.abs(fast.predict(X[3000:]) - fast.forest.predict(X[3000:])) > 0.5
        assert (state.n_changed, state.rate, state.by_class) == (far.sum(), far.mean(), ())

    def test_queries_are_drawn_as_a_whole(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(9000, 4))
        model = GradientBoostingRegressor(n_estimators=40, random_state=0).fit(
            X[:2000], (X[:, 0] * 2 + X[:, 1] ** 2)[:2000]
        )
        queries = np.repeat(np.arange(700), 10)
        fast = scurry.early_exit(model, X[2000:], promise=TopK(3, 0.1), groups=queries, random_state=0)
        new, names = rng.normal(size=(3000, 4)), np.array([f"q{i}" for i in np.repeat(np.arange(300), 10)])
        watch = scurry.watch(fast, share=0.3, random_state=0)
        with pytest.raises(InputError, match="groups is needed"):
            watch.predict(new)
        answers = watch.predict(new, groups=names)
        assert (answers == fast.predict(new, groups=names)).all()
        state, drawn = watch.state, watch._counting._draws.between(0, 300)
        chosen = np.isin(np.repeat(np.arange(300), 10), drawn)
        promise = fast.promise
        (count,) = promise.count(
            Outcomes(answers=answers[chosen], full=fast.forest.predict(new)[chosen], queries=names[chosen])
        )
        assert (state.n_shadow, state.n_changed) == (len(drawn), count.n_broken)
        assert (state.n_rows, state.parts[0].unit) == (3000, "queries")
        parts = scurry.watch(fast, share=0.3, random_state=0)
        for at in range(0, 3000, 500):
            parts.predict(new[at : at + 500], groups=names[at : at + 500])
        assert parts.state == state
        frame = pd.DataFrame(new, columns=list("abcd")).assign(query=names)
        model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(frame[list("abcd")][:900], new[:900, 0])
        named = scurry.early_exit(model, frame[900:], promise=TopK(3, 0.1), groups="query", random_state=0)
        by_name, by_value = (scurry.watch(named, share=0.5, random_state=0) for _ in range(2))
        for answer in ("predict", "run", "count"):
            getattr(by_name, answer)(frame, groups="query")
            getattr(by_value, answer)(frame, groups=names)
        assert by_name.state == by_value.state
        with pytest.raises(InputError, match="groups='q' must be the name of a column"):
            by_name.predict(frame, groups="q")

    def test_groups_give_one_row_each(self, model):
        X, _ = two_classes(6000, 1)
        groups = np.repeat(np.arange(2000), 3)
        fast = scurry.early_exit(model, X, max_disagreement=0.05, groups=groups, random_state=0)
        watch = scurry.watch(fast, share=1.0, random_state=0)
        watch.predict(X, groups=groups)
        watch._counting.evaluate()
        kept = watch._record.kept
        assert watch.state.n_shadow == 2000
        assert len(kept) == 2000
        picked = [np.flatnonzero((X.astype(np.float32) == row).all(axis=1))[0] for row in kept.rows[:50]]
        assert [at // 3 for at in picked] == list(range(50))
        assert len({at % 3 for at in picked}) == 3

    def test_certain_never_changes(self, model, rows):
        state = watch_all(scurry.early_exit(model, promise=Certain()), rows, share=1.0).state
        assert (state.n_changed, state.e_value, state.alarm, state.change) == (0, 1.0, False, False)

    def test_the_full_vote(self, model, rows):
        fast = scurry.early_exit(
            model, two_classes(3000, 1)[0], max_disagreement=0.05, method="minimean", random_state=0
        )
        assert fast.promise.against == "vote"
        state = watch_all(fast, rows, share=1.0).state
        assert state.n_changed == (fast.predict(rows) != full_vote(model, rows)).sum()
