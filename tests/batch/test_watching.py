import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from support.calibration_rows import two_classes


@pytest.fixture(scope="module")
def fast():
    X, y = two_classes(800, 0)
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, y)
    return scurry.early_exit(model, two_classes(2500, 1)[0], max_disagreement=0.05, random_state=0)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rows").mkdir()
    for at in range(6):
        X, _ = two_classes(100 * at, 10 + at)
        pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(6)}), tmp_path / "rows" / f"{at}.parquet")
    return tmp_path


def test_files_are_counted_once_whatever_the_threads(fast, folder):
    states = []
    for n_threads in (1, 3):
        watch = scurry.watch(fast, share=0.5, random_state=0)
        scurry.batch.score(
            folder / "rows", fast, folder / f"out{n_threads}", n_threads=n_threads, watch=watch, n_rows_per_batch=70
        )
        states.append(watch.state)
    assert states[0] == states[1]
    assert states[0].n_rows == 1500
    assert 650 < states[0].n_shadow < 850


def test_outputs_that_are_there_do_not_count_again(fast, folder):
    path = folder / "state.scurry-watch"
    watch = scurry.watch(fast, share=1.0, random_state=0)
    scurry.batch.score(folder / "rows", fast, folder / "out", watch=watch, watch_path=path)
    assert scurry.Watch.load(path, fast).state == watch.state
    (folder / "out" / "3.parquet").unlink()
    again = scurry.Watch.load(path, fast)
    scurry.batch.score(folder / "rows", fast, folder / "out", watch=again, watch_path=path)
    assert again.state.n_rows == 1500 + 300
    rows = np.concatenate([two_classes(100 * at, 10 + at)[0] for at in range(6)])
    assert watch.state.n_changed == (fast.predict(rows) != fast.forest.predict(rows)).sum()


def test_many_short_files_make_no_more_epochs_than_one_long_one(fast):
    """Every epoch adds to the detector of changes, so that files of a few rows would raise false alarms."""
    watch = scurry.watch(fast, share=1.0, random_state=0)
    rows = two_classes(20, 3)[0]
    for at in range(40):
        branch = watch.branch(f"file {at}")
        branch.count(rows)
        watch.join(branch)
    assert watch.state.n_shadow == 800
    assert len(watch._record.started) == 4


def test_a_file_that_fails_does_not_hold_the_others(fast, folder):
    (folder / "rows" / "2.parquet").write_bytes(b"no table")
    watch = scurry.watch(fast, share=1.0, random_state=0)
    report = scurry.batch.score(folder / "rows", fast, folder / "out", watch=watch)
    assert len(report.failed) == 1
    assert watch.state.n_rows == 1300


def test_watches_that_cannot_count_files_are_refused(fast, folder):
    def score(watch):
        scurry.batch.score(folder / "rows", fast, folder / "out", watch=watch)

    with pytest.raises(InputError, match=r'set watch\.on_alarm to "warn"'):
        score(scurry.watch(fast, on_alarm="full"))
    with pytest.raises(InputError, match="must be a Watch"):
        score("state.scurry-watch")
    other = scurry.early_exit(fast.forest, two_classes(2500, 1)[0], max_disagreement=0.08, random_state=0)
    with pytest.raises(InputError, match="another predictor"):
        score(scurry.watch(other))
