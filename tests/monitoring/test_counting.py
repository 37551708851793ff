"""Labels that come later, and rows that must not count."""

from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry.errors import InputError, ScurryWarning


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_epochs_are_counted_as_the_promise_counts(fast, rows, dtype):
    """Rows are told apart by epoch, whatever batches they come in and whatever their dtype is."""
    rows = rows.astype(dtype)
    watch = scurry.watch(fast, share=1.0, random_state=0)
    for start in range(0, len(rows), 700):
        watch.predict(rows[start : start + 700])
    watch._counting.evaluate()
    record, size = watch._record, watch._record.setup.rows_per_epoch
    changed = fast.predict(rows) != fast.forest.predict(rows)
    expected = [changed[start : start + size] for start in range(0, len(rows), size)]
    assert record.epochs[0].tolist() == [[int((~some).sum()), int(some.sum())] for some in expected]
    assert np.isfinite(record.started).all()


def test_the_short_way_to_count_is_the_long_one(fast, rows, monkeypatch):
    found = []
    for is_short in (True, False):
        monkeypatch.setattr(scurry.promises.Labels, "COUNTS_CHANGED", is_short)
        watch = scurry.watch(fast, share=0.7, random_state=0)
        watch.predict(rows)
        found.append(watch.state)
    assert found[0] == replace(found[1])


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
