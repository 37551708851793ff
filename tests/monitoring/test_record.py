"""Records lie in files and add up, exactly and in any order."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError, InputError, MissingFileError
from scurry.forest.files.storage import container_bytes, container_of
from scurry.monitoring.counting import Draws
from scurry.monitoring.record import KIND, Record
from scurry.promises import Accuracy
from support.calibration_rows import two_classes

GOLDEN = Path(__file__).parents[1] / "golden" / "format"


def watch_all(fast, rows, **options):
    watch = scurry.watch(fast, random_state=0, **options)
    watch.predict(rows)
    return watch


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

    def test_hostile_files_are_refused_before_anything_large_is_made(self, accurate, rows):
        watch = scurry.watch(accurate, share=0.1, random_state=0)
        watch.predict(rows, ids=np.arange(len(rows)))
        watch.learn_labels(watch.awaited_ids[:9], np.zeros(9, int))
        header, arrays = watch._record.to_parts()
        sound = container_bytes(KIND, header, arrays)
        assert scurry.Watch.from_bytes(sound, accurate).state == watch.state
        for name, value in (
            ("n_trees", 10**13),
            ("n_trees", -1),
            ("n_features", 3),
            ("window", "all"),
            ("window", 0),
            ("share", True),
            ("confidence", 1.5),
            ("max_kept", -5),
            ("row_dtype", "object"),
        ):
            hostile = header | {"setup": header["setup"] | {name: value}}
            with pytest.raises(FormatError):
                Record.from_container(container_of(container_bytes(KIND, hostile, arrays)))
        for name in ("next_number", "n_rows", "first_number"):
            with pytest.raises(FormatError, match="below 0"):
                Record.from_container(container_of(container_bytes(KIND, header | {name: -1}, arrays)))
        for name, value in (("kept_labels", 2), ("kept_labels", -2), ("waiting", 5), ("kept_numbers", -1)):
            with pytest.raises(FormatError):
                Record.from_container(
                    container_of(container_bytes(KIND, header, arrays | {name: np.full_like(arrays[name], value)}))
                )


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

    def test_labels_find_the_rows_of_every_process(self, model):
        X, y = two_classes(3000, 1)
        fast = scurry.early_exit(model, X, y, promise=Accuracy(0.03), random_state=0)
        watches = [scurry.watch(fast, share=1.0, random_state=i) for i in range(3)]
        for i, watch in enumerate(watches):  # rows of all processes have the same numbers
            watch.predict(X[i::3][:400], ids=np.arange(i, 3000, 3)[:400])
        merged = scurry.Watch.merge(watches)
        merged = scurry.Watch.from_bytes(merged.to_bytes(), fast)
        assert merged.learn_labels(np.arange(1200), y[:1200]) == 1200
        kept = merged._record.kept
        assert len(kept) == 1200
        row = {origin: i for i, origin in enumerate(watch._record.origin for watch in watches)}
        assert kept.labels.tolist() == [
            y[3 * number + row[origin]] for number, origin in zip(kept.numbers, kept.origins, strict=True)
        ]

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


def test_a_state_of_version_1_still_loads():
    record = Record.load(GOLDEN / "v1-watch.scurry-watch")
    assert record.setup.classes == ("no", "yes")
    assert (record.n_rows, record.n_shadow, record.seed, len(record.kept)) == (300, record.by_trees[:, 0].sum(), 7, 20)
    state = scurry.monitoring.read([GOLDEN / "v1-watch.scurry-watch"])
    # The numbers of rows draw the shadow rows, in this version as in every other.
    assert state.n_shadow == len(Draws(0.5, 7).between(0, 300))
    assert [name for name in record.waiting if int(name[4:]) < 290] == []
    assert (record.kept.labels == np.where(record.kept.numbers < 290, 1, -1)).all()
