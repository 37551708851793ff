"""What may be done after an alarm."""

import re
import threading
import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.monitoring.record import Record
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

    @pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
    def test_tables_of_all_kinds_get_the_same_answers(self, fast, rows, kind):
        import pandas as pd
        import polars as pl
        import pyarrow as pa

        frame = pd.DataFrame(rows[:600], columns=[f"column {j}" for j in range(rows.shape[1])])
        table = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}[kind]
        watch = scurry.watch(fast, share=0.5, random_state=0)
        assert (watch.predict(table) == fast.predict(rows[:600])).all()
        assert watch.state == watch_all(fast, rows[:600], share=0.5).state
        assert (watch.predict_proba(table) == fast.predict_proba(rows[:600])).all()
        assert (watch.run(table).trees == fast.run(rows[:600]).trees).all()

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
        assert state.n_shadow == len(watch._counting._draws.between(0, state.n_rows))


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

    def test_reading_the_state_raises_it_too(self, fast, drifted):
        """A service that looks after every few rows must not take the alarm away from itself."""
        seen = []
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=seen.append)
        for start in range(0, 4000, 20):
            watch.predict(drifted[start : start + 20])
            assert watch.state.is_raised == bool(seen)
        assert len(seen) == 1
        watch.on_alarm = "full"
        assert watch.active is not fast

    def test_a_mistake_does_not_take_the_alarm_away(self, fast, drifted):
        """Labels that are refused end the call in which the alarm is seen."""
        seen = []
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=seen.append)
        watch.predict(drifted[:63], ids=np.arange(63))  # not evaluated yet
        assert not seen
        changed = fast.predict(drifted) != fast.forest.predict(drifted)
        watch._counting.pending.add(drifted[changed][:40].astype(watch._record.setup.row_dtype), np.arange(63, 103))
        watch._counting._answers.append(None)
        with pytest.raises(InputError, match="classes"):
            watch.learn_labels([7], [5])
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


def test_rows_that_are_counted_while_a_state_is_saved_are_in_the_next_one(fast, rows, tmp_path, monkeypatch):
    watch = watch_all(fast, rows[:2000], share=1.0)
    before, write = watch.state, Record.write

    def write_slowly(path, header, arrays):
        watch.predict(rows[2000:])  # as another thread would
        assert watch.state.n_rows == 4000
        write(path, header, arrays)

    monkeypatch.setattr(Record, "write", staticmethod(write_slowly))
    watch.save(tmp_path / "w")
    assert scurry.Watch.load(tmp_path / "w", fast).state == before


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

    def test_rows_that_are_no_longer_kept_are_not_asked_for(self, model):
        promise = scurry.promises.Recall(1, 0.05, 0.2)
        finding = scurry.early_exit(model, *two_classes(2500, 1), promise=promise, random_state=0)
        X, y = two_classes(3000, 3)

        def watch_labelled(n_rows, **options):
            watch = scurry.watch(finding, share=1.0, random_state=0, **options)
            watch.predict(X[:n_rows], ids=range(n_rows))
            watch.learn_labels(range(n_rows), y[:n_rows])
            return watch

        for n_kept in (250, 60):  # too few of the class, and too few of all
            with pytest.raises(InfeasibleError) as caught:
                watch_labelled(3000, keep_rows=n_kept).recalibrate(random_state=0)
            message = str(caught.value)
            assert f"keeps the latest {n_kept} shadow rows and has forgotten older ones" in message
        with pytest.raises(InfeasibleError) as caught:
            watch_labelled(250, keep_rows=250).recalibrate(random_state=0)
        assert "keep_rows" not in str(caught.value)  # nothing is forgotten yet
        with pytest.raises(InfeasibleError) as caught:
            watch_labelled(3000, keep_rows=250).recalibrate(random_state=0)
        enough = int(re.search(r"keep_rows=(\d+)\)", str(caught.value))[1])
        assert 250 < enough < 600
        assert watch_labelled(3000, keep_rows=enough).recalibrate(random_state=0).promise == promise

    def test_only_so_many_rows_are_kept(self, fast, rows):
        watch = watch_all(fast, rows, share=1.0, keep_rows=1000)
        watch._counting.evaluate()
        assert watch._record.kept.numbers.tolist() == list(range(3000, 4000))
