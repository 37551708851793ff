import itertools
import threading
import warnings

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError, MissingFileError, ScurryWarning
from scurry.promises import Accuracy, Certain, LabelsPerClass, Recall, TopK, Values
from support.calibration_rows import two_classes


def watch_all(fast, rows, **options):
    watch = scurry.watch(fast, random_state=0, **options)
    watch.predict(rows)
    return watch


class TestAnswers:
    def test_they_are_the_predictors(self, fast, rows):
        watch = scurry.watch(fast, share=0.1, random_state=0)
        assert (watch.predict(rows) == fast.predict(rows)).all()
        assert (watch.predict_proba(rows) == fast.predict_proba(rows)).all()
        assert (watch.run(rows, 2).trees == fast.run(rows).trees).all()
        assert watch.state.n_rows == 3 * len(rows)

    def test_shadow_rows_are_compared_with_the_full_model(self, fast, rows):
        state = watch_all(fast, rows, share=1.0).state
        changed = fast.predict(rows) != fast.forest.predict(rows)
        assert (state.n_rows, state.n_shadow, state.n_changed) == (len(rows), len(rows), changed.sum())
        assert state.rate == changed.mean()
        assert state.lower <= state.rate <= state.upper
        assert state.max_rate == 0.02
        trees, full = fast.run(rows).trees, fast.forest.predict(rows)
        for tally in state.by_trees:
            assert (tally.n_shadow, tally.n_changed) == (
                (trees == tally.name).sum(),
                changed[trees == tally.name].sum(),
            )
        for tally in state.by_class:
            assert (tally.n_shadow, tally.n_changed) == ((full == tally.name).sum(), changed[full == tally.name].sum())

    @pytest.mark.parametrize("call", ["predict", "predict_proba", "run"])
    def test_batches_and_threads_do_not_matter(self, fast, rows, call):
        whole = watch_all(fast, rows, share=0.3).state
        watch = scurry.watch(fast, share=0.3, random_state=0)
        for start, size in zip([0, 1, 2, 700, 703, 2000], [1, 1, 698, 3, 1297, 2000], strict=True):
            getattr(watch, call)(rows[start : start + size], n_threads=1 + size % 2)
        assert watch.state == whole
        assert whole.n_shadow > 1000

    def test_tables_and_single_rows(self, fast, rows):
        import pandas as pd

        watch = scurry.watch(fast, share=1.0, random_state=0)
        watch.predict(pd.DataFrame(rows[:100]))
        for row in rows[100:120]:
            watch.predict(row)
        assert watch.state == watch_all(fast, rows[:120], share=1.0).state

    def test_an_empty_batch_counts_nothing(self, fast, rows):
        watch = scurry.watch(fast, share=1.0)
        assert len(watch.predict(rows[:0])) == 0
        assert watch.state.n_rows == watch.state.n_shadow == 0
        assert watch.state.verdict == "No shadow rows yet."

    def test_threads_share_a_watch(self, fast, rows):
        watch = scurry.watch(fast, share=0.5, random_state=0)
        threads = [
            threading.Thread(target=lambda at=at: [watch.predict(rows[at::80]) for _ in range(3)]) for at in range(8)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        state = watch.state
        assert state.n_rows == 3 * 8 * 50
        assert sum(tally.n_shadow for tally in state.by_trees) == state.n_shadow
        assert state.n_shadow == len(watch._draws.between(0, state.n_rows))


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
        for promise in (Accuracy(0.2, costs=[[0, 1], [5, 0]]), Recall(1, 0.08, 0.08)):
            fast = scurry.early_exit(model, X, y, promise=promise, random_state=0)
            watch = scurry.watch(fast, share=1.0, random_state=0)
            watch.predict(X[:900], ids=np.arange(900))
            watch.learn_labels(np.arange(900), y[:900])
            state = watch.state
            answers, full = fast.predict(X[:900]), fast.forest.predict(X[:900])
            if isinstance(promise, Accuracy):
                costs = np.array(promise.costs)
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
        state, drawn = watch.state, watch._draws.between(0, 300)
        chosen = np.isin(np.repeat(np.arange(300), 10), drawn)
        promise = fast.promise
        from scurry.promises import Outcomes

        (count,) = promise.count(
            Outcomes(answers=answers[chosen], full=fast.forest.predict(new)[chosen], queries=names[chosen])
        )
        assert (state.n_shadow, state.n_changed) == (len(drawn), count.n_broken)
        assert (state.n_rows, state.parts[0].unit) == (3000, "queries")
        parts = scurry.watch(fast, share=0.3, random_state=0)
        for at in range(0, 3000, 500):
            parts.predict(new[at : at + 500], groups=names[at : at + 500])
        assert parts.state == state

    def test_groups_give_one_row_each(self, model):
        X, _ = two_classes(6000, 1)
        groups = np.repeat(np.arange(2000), 3)
        fast = scurry.early_exit(model, X, max_disagreement=0.05, groups=groups, random_state=0)
        watch = scurry.watch(fast, share=1.0, random_state=0)
        watch.predict(X, groups=groups)
        watch._evaluate()
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
        from support.calibration_rows import full_vote

        state = watch_all(fast, rows, share=1.0).state
        assert state.n_changed == (fast.predict(rows) != full_vote(model, rows)).sum()


class TestLabels:
    def start(self, fast, rows):
        watch = scurry.watch(fast, share=0.2, random_state=0)
        watch.predict(rows[:500], ids=np.arange(500))
        return watch

    def test_unknown_ids_are_refused_and_nothing_is_learned(self, fast, rows):
        watch = self.start(fast, rows)
        before = watch.awaited_ids
        with pytest.raises(InputError, match="1 of 2 ids were never predicted, such as 777"):
            watch.learn_labels([before[0], 777], [0, 1])
        with pytest.raises(InputError, match="classes"):
            watch.learn_labels(before[:2], [0, 5])
        with pytest.raises(InputError, match="twice"):
            watch.learn_labels([before[0], before[0]], [0, 1])
        with pytest.raises(InputError, match="has 1 labels, ids has 2"):
            watch.learn_labels(before[:2], [0])
        assert watch.awaited_ids == before
        assert watch.learn_labels(before, np.zeros(len(before), int)) == len(before)

    def test_ids_name_rows_once(self, fast, rows):
        watch = self.start(fast, rows)
        state = watch.state
        with pytest.raises(InputError, match="is not new"):
            watch.predict(rows[:1], ids=watch.awaited_ids[:1])
        with pytest.raises(InputError, match="must name each"):
            watch.predict(rows[:2], ids=[5000])
        with pytest.raises(InputError, match="numbers or texts"):
            watch.predict(rows[:2], ids=[None, "a"])
        assert watch.state == state

    def test_after_a_restart_old_ids_are_not_known_to_be_wrong(self, fast, rows, tmp_path):
        watch = self.start(fast, rows)
        watch.save(tmp_path / "w.scurry-watch")
        again = scurry.Watch.load(tmp_path / "w.scurry-watch", fast)
        assert again.awaited_ids == watch.awaited_ids
        with pytest.warns(ScurryWarning, match="none of these labels was awaited"):
            again.learn_labels([10**6], [0])
        assert again.learn_labels(np.arange(500), np.zeros(500, int)) == len(watch.awaited_ids)


class TestAlarm:
    def test_drift_raises_an_alarm_once(self, fast, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0)
        with pytest.warns(ScurryWarning, match="ALARM: the promise does not hold, raised at row") as caught:
            watch.predict(drifted)
        watch.predict(drifted)  # warnings are errors here
        assert len(caught) == 1
        state = watch.state
        assert (state.alarm, state.since is not None, state.onset) == (True, True, 0)
        assert state.e_value > 20
        assert state.lower > 0.02

    def test_a_change_after_many_good_rows_is_found(self, fast, rows, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
        for _ in range(12):
            watch.predict(rows)
        assert not watch.state.is_raised
        for at in range(0, 4000, 500):
            watch.predict(drifted[at : at + 500])
            if watch.state.change:
                break
        state = watch.state
        assert state.change
        assert 48_000 - 256 < state.since < 50_500
        assert abs(state.onset - 48_000) <= 512

    def test_full_evaluates_every_tree(self, fast, rows, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm="full")
        with pytest.warns(ScurryWarning, match="every tree is evaluated"):
            watch.predict(drifted)
        assert (watch.predict(drifted) == fast.forest.predict(drifted)).all()
        assert (watch.run(rows).trees == fast.forest.n_trees).all()
        # Shadow rows still judge the predictor, not the full model.
        assert (
            watch.state.n_changed
            == 2 * (fast.predict(drifted) != fast.forest.predict(drifted)).sum()
            + (fast.predict(rows) != fast.forest.predict(rows)).sum()
        )

    def test_widen_moves_thresholds_outward(self, fast, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm="widen")
        with pytest.warns(ScurryWarning, match="thresholds were moved outward"):
            watch.predict(drifted)
        wide = watch.active
        before, after = ((p.predict(drifted) != p.forest.predict(drifted)).mean() for p in (fast, wide))
        assert before > 0.02 >= after
        assert fast.run(drifted).mean_trees < wide.run(drifted).mean_trees < fast.forest.n_trees

    def test_a_callable_gets_the_state(self, fast, drifted):
        seen = []
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=seen.append)
        watch.predict(drifted)
        watch.predict(drifted)
        assert [state.alarm for state in seen] == [True]

    def test_the_action_survives_a_restart(self, fast, drifted, tmp_path):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
        watch.predict(drifted)
        watch.save(tmp_path / "w")
        again = scurry.Watch.load(tmp_path / "w", fast, on_alarm="full")
        assert (again.run(drifted).trees == fast.forest.n_trees).all()
        again.on_alarm = "warn"
        assert again.active is fast

    def test_other_actions_are_refused(self, fast):
        with pytest.raises(InputError, match="on_alarm must be"):
            scurry.watch(fast, on_alarm="stop")


class TestRecalibration:
    def test_rows_since_the_alarm_certify_a_new_predictor(self, fast, draw_drifted, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
        watch.predict(drifted[:400])
        with pytest.raises(InfeasibleError, match=r"since the alarm are too few.*are missing") as caught:
            watch.recalibrate()
        assert caught.value.n_rows_needed >= 2 * fast.promise.rows_needed()
        watch.predict(draw_drifted(5000, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some rows were drawn twice
            new = watch.recalibrate(random_state=0)
        assert new.promise == fast.promise
        fresh = draw_drifted(20_000, 9)
        assert (new.predict(fresh) != new.forest.predict(fresh)).mean() <= 0.02 < 0.09

    def test_without_kept_rows_there_is_nothing_to_calibrate_on(self, fast, rows):
        watch = watch_all(fast, rows, share=1.0, keep_rows=False)
        with pytest.raises(InputError, match="keep_rows=True"):
            watch.recalibrate()
        assert "no shadow rows are kept" in watch.explain().describe()

    def test_only_so_many_rows_are_kept(self, fast, rows):
        watch = watch_all(fast, rows, share=1.0, keep_rows=1000)
        watch._evaluate()
        assert watch._record.kept.numbers.tolist() == list(range(3000, 4000))


class TestFiles:
    def test_a_state_goes_on_where_it_was_saved(self, fast, rows, tmp_path):
        path = tmp_path / "w.scurry-watch"
        watch = scurry.watch(fast, share=0.3, random_state=5, window=300)
        watch.predict(rows[:1000])
        watch.save(path)
        watch.predict(rows[1000:])
        again = scurry.Watch.load(path, fast)
        assert again.state.n_rows == 1000  # rows since the last save are lost, and none counts twice
        again.predict(rows[1000:])
        assert again.state == watch.state
        again.save(path)
        assert scurry.Watch.load(path, fast).state == watch.state

    def test_a_state_of_another_predictor_is_refused(self, fast, model, rows, tmp_path):
        watch_all(fast, rows, share=0.1).save(tmp_path / "w")
        other = scurry.early_exit(model, two_classes(5000, 1)[0], max_disagreement=0.05, random_state=0)
        with pytest.raises(InputError, match="another predictor"):
            scurry.Watch.load(tmp_path / "w", other)

    def test_damaged_files_are_refused(self, fast, rows, tmp_path):
        path = tmp_path / "w"
        watch_all(fast, rows, share=0.1).save(path)
        data = path.read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(40):
            damaged = bytearray(data)
            at = rng.integers(0, len(data), 3)
            for place in at:
                damaged[place] ^= 1 << rng.integers(8)
            (tmp_path / "bad").write_bytes(bytes(damaged[: rng.integers(len(data) // 2, len(data) + 1)]))
            with pytest.raises((FormatError, InputError)):
                scurry.Watch.load(tmp_path / "bad", fast)
        fast.save(tmp_path / "fast.scurry")
        with pytest.raises(FormatError, match="not the state of a watch"):
            scurry.Watch.load(tmp_path / "fast.scurry", fast)
        with pytest.raises(FormatError, match=r"scurry\.Watch\.load"):
            scurry.load(path)
        with pytest.raises(MissingFileError):
            scurry.Watch.load(tmp_path / "none", fast)


class TestMerge:
    def parts(self, fast, rows, n):
        edges = np.linspace(0, len(rows), n + 1).astype(int)
        watches = []
        for start, stop in itertools.pairwise(edges):
            watch = scurry.watch(fast, share=0.4, random_state=3, first_row=int(start))
            watch.predict(rows[start:stop])
            watches.append(watch)
        return watches

    def test_64_parts_are_the_whole_to_the_last_bit(self, fast, rows):
        whole = scurry.watch(fast, share=0.4, random_state=3)
        whole.predict(rows)
        watches = self.parts(fast, rows, 64)
        merged = scurry.Watch.merge(watches)
        assert merged.state == whole.state
        ours, theirs = merged._record.kept, whole._record.kept
        assert np.array_equal(ours.rows, theirs.rows)
        assert np.array_equal(ours.changed, theirs.changed)
        assert sum(watch.state.n_rows for watch in watches) == merged.state.n_rows  # the parts are as they were

    def test_it_is_associative_and_has_no_order(self, fast, rows):
        a, b, c, d = self.parts(fast, rows, 4)
        merge = scurry.Watch.merge
        states = [
            merge(order).state
            for order in ([a, b, c, d], [d, c, b, a], [merge([a, c]), merge([d, b])], [a, merge([b, merge([c, d])])])
        ]
        assert all(state == states[0] for state in states)

    def test_processes_that_began_at_0_add_up(self, fast, rows, drifted):
        watches = [scurry.watch(fast, share=1.0, random_state=i, on_alarm=lambda s: None) for i in range(3)]
        for watch in watches:
            watch.predict(rows[:1500])
        merged = scurry.Watch.merge(watches)
        assert merged.state.n_shadow == 4500
        alone = scurry.watch(fast, share=1.0)
        [alone.predict(rows[:1500]) for _ in range(3)]
        for name in ("n_shadow", "n_changed", "rate", "lower", "upper", "e_value", "by_trees", "by_class"):
            assert getattr(merged.state, name) == getattr(alone.state, name)

    def test_rows_never_count_twice(self, fast, rows, tmp_path):
        watch = watch_all(fast, rows, share=0.1)
        watch.save(tmp_path / "w")
        again = scurry.Watch.load(tmp_path / "w", fast)
        again.predict(rows)
        with pytest.raises(InputError, match="count twice"):
            scurry.Watch.merge([watch, again])

    def test_others_are_refused(self, fast, model, rows):
        watch = watch_all(fast, rows, share=0.1)
        other = scurry.early_exit(model, two_classes(5000, 1)[0], max_disagreement=0.05, random_state=0)
        with pytest.raises(InputError, match="different predictors"):
            scurry.Watch.merge([watch, watch_all(other, rows, share=0.1)])
        with pytest.raises(InputError, match="differ in share"):
            scurry.Watch.merge([watch, watch_all(fast, rows, share=0.2)])
        for wrong in ([], watch, [watch, "w"]):
            with pytest.raises(InputError, match="list of Watch"):
                scurry.Watch.merge(wrong)


def test_a_window_is_about_the_latest_rows(fast, rows, drifted):
    watch = scurry.watch(fast, share=1.0, window=1000, random_state=0, on_alarm=lambda state: None)
    watch.predict(rows)
    watch.predict(drifted)
    state = watch.state
    changed = fast.predict(drifted) != fast.forest.predict(drifted)
    assert 1000 <= state.parts[0].n_shadow < 1000 + 256
    assert state.rate == pytest.approx(changed[-state.parts[0].n_shadow :].mean())
    assert state.lower < state.rate < state.upper


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0}, r"share must be in \(0, 1\].*nothing would be watched"),
        ({"share": 2}, "Did you mean 0.02"),
        ({"share": -0.1}, "share must be"),
        ({"share": "all"}, "share must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"window": 0}, "window must be"),
        ({"keep_rows": -1}, "keep_rows must be"),
        ({"first_row": -1}, "first_row must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_arguments_are_refused(fast, options, message):
    with pytest.raises(InputError, match=message):
        scurry.watch(fast, **options)


def test_a_predictor_without_a_promise_cannot_be_watched(model, fast, rows):
    with pytest.raises(InputError, match="promises nothing"):
        scurry.watch(scurry.Predictor.full(fast.forest))
    with pytest.raises(InputError, match="must be a Predictor"):
        scurry.watch(model)


def test_bad_rows_count_nothing(fast, rows):
    watch = scurry.watch(fast, share=1.0)
    with pytest.raises(InputError):
        watch.predict(rows[:, :3])
    with pytest.raises(InputError, match="groups are for"):
        watch.predict(rows, groups=np.arange(len(rows)))
    assert watch.state.n_rows == 0


def test_texts_as_classes(rows):
    X, y = two_classes(1200, 0)
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, np.array(["no", "yes"])[y])
    fast = scurry.early_exit(model, two_classes(3000, 1)[0], max_disagreement=0.05, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = watch_all(fast, rows, share=1.0).state
    assert [tally.name for tally in state.by_class] == ["no", "yes"]
