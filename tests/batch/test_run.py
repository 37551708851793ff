import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc
from pyarrow import parquet as pq
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.batch import score
from scurry.errors import InputError, MissingDependencyError, OutputError
from support.calibration_rows import two_classes


@pytest.fixture(scope="module")
def frame():
    return load_breast_cancer(as_frame=True).data


@pytest.fixture(scope="module")
def model(frame):
    return RandomForestClassifier(31, max_depth=6, random_state=0).fit(frame, load_breast_cancer().target)


@pytest.fixture(scope="module")
def fast(model, frame):
    return scurry.early_exit(model, frame, max_disagreement=0.02, method="minimixed", random_state=0)


@pytest.fixture
def rows(frame):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.append_column("id", pa.array(np.arange(len(frame))))


def write_folder(folder, rows, n_files=4):
    folder.mkdir()
    size = -(-len(rows) // n_files)
    for i in range(n_files):
        pq.write_table(rows.slice(i * size, size), folder / f"part-{i}.parquet", row_group_size=50)
    return folder


def read_all(folder):
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.rglob("*.parquet"))])


def test_everything_that_is_written_is_what_the_predictor_says(tmp_path, rows, frame, fast):
    columns = ["label", "probability", "trees", "steps", "reason"]
    report = score(write_folder(tmp_path / "in", rows), fast, tmp_path / "out", columns=columns, keep=["id"])
    out, run = read_all(tmp_path / "out"), fast.run(frame)
    assert out.column_names == ["id", *columns]
    assert report.n_rows == len(frame)
    assert report.written == [f"part-{i}.parquet" for i in range(4)]
    assert out["id"].to_pylist() == list(range(len(frame)))
    np.testing.assert_array_equal(out["label"].to_numpy(), run.labels)
    np.testing.assert_array_equal(out["probability"].to_numpy(), fast.predict_proba(frame)[:, 1])
    np.testing.assert_array_equal(out["trees"].to_numpy(), run.trees)
    np.testing.assert_array_equal(out["steps"].to_numpy(), run.steps)
    assert out["reason"].to_pylist() == run.stop_reason.tolist()


@pytest.mark.parametrize("n_rows_per_batch", [1, 7, 1 << 16])
def test_batch_size_changes_nothing(tmp_path, rows, frame, fast, n_rows_per_batch):
    pq.write_table(rows.slice(0, 60), tmp_path / "rows.parquet")
    score(tmp_path / "rows.parquet", fast, tmp_path / "out.parquet", n_rows_per_batch=n_rows_per_batch)
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out.parquet")["label"], fast.predict(frame[:60]))


def test_formats(tmp_path, rows, frame, model):
    forest = scurry.from_model(model)
    folder = tmp_path / "in"
    folder.mkdir()
    csv.write_csv(rows, folder / "a.csv")
    feather.write_feather(rows, folder / "b.feather", compression="uncompressed")
    with ipc.new_stream(folder / "c.arrow", rows.schema) as stream:
        stream.write_table(rows, max_chunksize=100)
    pq.write_table(rows, folder / "d.parquet")
    with pa.CompressedOutputStream(str(folder / "e.csv.gz"), "gzip") as stream:
        csv.write_csv(rows, stream)
    (folder / "notes.txt").write_text("not a table")
    report = score(folder, forest, tmp_path / "out")
    assert report.n_rows == 5 * len(frame)
    names = ["a.csv.parquet", "b.feather.parquet", "c.arrow.parquet", "d.parquet", "e.csv.gz.parquet"]
    assert sorted(os.listdir(tmp_path / "out")) == names
    for name in names:
        np.testing.assert_array_equal(pq.read_table(tmp_path / "out" / name)["label"], model.predict(frame))


def test_csv_columns_that_look_whole_at_first(tmp_path):
    X = np.repeat([[1.0, 2.0], [1.5, 2.0]], [400_000, 3], axis=0)
    names = ["f0", "f1"]
    forest = RandomForestClassifier(5, random_state=0).fit(X[-6:], [0, 0, 0, 1, 1, 1])
    text = "f0,f1\n" + "1,2\n" * 400_000 + "1.5,2\n" * 3
    (tmp_path / "rows.csv").write_text(text)
    imported = scurry.from_model(forest)
    named = scurry.Forest(**{n: getattr(imported, n) for n in _FIELDS}, feature_names=names)
    report = score(tmp_path / "rows.csv", named, tmp_path / "out")
    labels = pq.read_table(tmp_path / "out" / "rows.csv.parquet")["label"].to_numpy()
    assert report.n_rows == len(X)
    np.testing.assert_array_equal(labels, forest.predict(X))


_FIELDS = ("tree_offset", "feature", "threshold", "left", "right", "value", "n_features", "classes")


def test_many_classes_regressors_and_positional_columns(tmp_path):
    X, y = load_wine(return_X_y=True)
    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}).append_column("key", pa.array(["k"] * len(X)))
    pq.write_table(table, tmp_path / "wine.parquet")
    classifier = RandomForestClassifier(7, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    score(
        tmp_path / "wine.parquet",
        scurry.from_model(classifier),
        tmp_path / "classes.parquet",
        columns=["label", "probability"],
        keep=["key"],
    )
    out = pq.read_table(tmp_path / "classes.parquet")
    assert out.column_names == ["key", "label", "probability_a", "probability_b", "probability_c"]
    assert out["label"].to_pylist() == classifier.predict(X).tolist()
    np.testing.assert_allclose(out["probability_c"], classifier.predict_proba(X)[:, 2], atol=1e-12)
    regressor = RandomForestRegressor(7, random_state=0).fit(X, y)
    score(tmp_path / "wine.parquet", scurry.from_model(regressor), tmp_path / "values.parquet", keep=["key"])
    np.testing.assert_allclose(pq.read_table(tmp_path / "values.parquet")["prediction"], regressor.predict(X))


def test_anytime_budget_is_kept(tmp_path, rows, frame, model):
    anytime = scurry.anytime(model, frame, load_breast_cancer().target, order="backward-squirrel")
    pq.write_table(rows, tmp_path / "rows.parquet")
    score(tmp_path / "rows.parquet", anytime, tmp_path / "o.parquet", columns=["label", "steps", "reason"], max_steps=9)
    out = pq.read_table(tmp_path / "o.parquet")
    assert set(out["steps"].to_pylist()) == {9}
    assert set(out["reason"].to_pylist()) == {"max_steps"}
    np.testing.assert_array_equal(out["label"], anytime.predict(frame, max_steps=9))


def test_empty_file_gives_an_empty_output_with_its_columns(tmp_path, rows, fast):
    pq.write_table(rows.slice(0, 0), tmp_path / "none.parquet")
    report = score(tmp_path / "none.parquet", fast, tmp_path / "out.parquet", keep=["id"])
    assert report.n_rows == 0
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["id", "label", "trees", "reason"]


def test_second_run_does_only_what_is_missing_or_changed(tmp_path, rows, fast, model):
    folder, out = write_folder(tmp_path / "in", rows), tmp_path / "out"
    score(folder, fast, out)
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    again = score(folder, fast, out)
    assert (again.written, again.n_rows) == ([], 0)
    assert again.skipped == [f"part-{i}.parquet" for i in range(4)]
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before
    (out / "part-1.parquet").unlink()
    (out / "part-3.parquet").write_bytes(b"PAR1 half a file")
    pq.write_table(rows.slice(0, 10), folder / "part-2.parquet")
    assert score(folder, fast, out).written == ["part-1.parquet", "part-2.parquet", "part-3.parquet"]
    assert len(score(folder, scurry.from_model(model), out).written) == 4


@pytest.mark.parametrize(("first", "second"), [({"max_steps": 3}, {"max_steps": 20}), ({}, {"time_us": 0.0})])
def test_another_budget_is_another_output(tmp_path, rows, frame, model, first, second):
    anytime = scurry.anytime(model, frame, load_breast_cancer().target, order="random", random_state=0)
    pq.write_table(rows, tmp_path / "rows.parquet")
    for budget in (first, second):
        report = score(tmp_path / "rows.parquet", anytime, tmp_path / "out.parquet", columns=["steps"], **budget)
        assert report.written == ["out.parquet"]
        steps = pq.read_table(tmp_path / "out.parquet")["steps"].to_numpy()
        np.testing.assert_array_equal(steps, anytime.run(frame, **budget).steps)
    assert score(tmp_path / "rows.parquet", anytime, tmp_path / "out.parquet", columns=["steps"], **second).skipped


def test_corrupt_fragment_is_named_and_the_rest_is_finished(tmp_path, rows, frame, fast):
    folder = write_folder(tmp_path / "in", rows)
    whole = (folder / "part-1.parquet").read_bytes()
    (folder / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray((folder / "part-2.parquet").read_bytes())
    damaged[200:3000] = os.urandom(2800)
    (folder / "part-2.parquet").write_bytes(damaged)
    report = score(folder, fast, tmp_path / "out")
    assert sorted(report.failed) == ["part-1.parquet", "part-2.parquet"]
    assert all("cannot be read" in message for message in report.failed.values())
    assert sorted(os.listdir(tmp_path / "out")) == ["part-0.parquet", "part-3.parquet"]
    (folder / "part-1.parquet").write_bytes(whole)
    assert score(folder, fast, tmp_path / "out").written == ["part-1.parquet"]


def test_single_corrupt_file_raises(tmp_path, fast):
    (tmp_path / "rows.parquet").write_text("nothing")
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read"):
        score(tmp_path / "rows.parquet", fast, tmp_path / "out")


def test_wrong_requests_name_the_culprit(tmp_path, rows, fast):
    folder = write_folder(tmp_path / "in", rows)
    cases = [
        ({"columns": ["label", "colour"]}, "colour"),
        ({"keep": ["nobody"]}, "nobody"),
        ({"keep": ["label"]}, "prefix"),
        ({"max_steps": 3}, "scurry.anytime"),
    ]
    for options, culprit in cases:
        with pytest.raises(InputError, match=culprit):
            score(folder, fast, tmp_path / "out", **options)
    pq.write_table(rows.drop_columns(["mean area"]), tmp_path / "short.parquet")
    with pytest.raises(InputError, match="mean area"):
        score(tmp_path / "short.parquet", fast, tmp_path / "out")
    with pytest.raises(InputError, match="no file matches"):
        score(tmp_path / "*.nothing", fast, tmp_path / "out")
    with pytest.raises(InputError, match="one file and there are 4 inputs"):
        score(folder, fast, tmp_path / "out.parquet")
    with pytest.raises(InputError, match="overwritten"):
        score(folder, fast, folder)
    with pytest.raises(InputError, match="both be written"):
        score(
            [folder / "part-0.parquet", write_folder(tmp_path / "in2", rows) / "part-0.parquet"], fast, tmp_path / "o"
        )


def test_progress_counts_the_bytes_of_all_files(tmp_path, rows, fast):
    calls, folder = [], write_folder(tmp_path / "in", rows)
    score(folder, fast, tmp_path / "out", progress=lambda *call: calls.append(call), n_rows_per_batch=50)
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    assert len(calls) > 4
    assert all(type(n_done) is int and n_total == n_bytes for n_done, n_total in calls)
    assert calls == sorted(calls)
    assert calls[-1] == (n_bytes, n_bytes)


@pytest.mark.parametrize("n_threads", [1, 2, 3, None])
@pytest.mark.parametrize("n_files", [1, 2, 5])
def test_threads_change_nothing(tmp_path, rows, frame, fast, n_files, n_threads):
    folder = write_folder(tmp_path / "in", rows, n_files)
    pq.write_table(pa.concat_tables([rows] * 5), folder / "part-9.parquet")  # outlasts the others
    report = score(folder, fast, tmp_path / "out", n_threads=n_threads, n_rows_per_batch=16)
    assert report.n_rows == 6 * len(rows)
    assert report.written == sorted(os.listdir(folder))
    np.testing.assert_array_equal(read_all(tmp_path / "out")["label"], np.tile(fast.predict(frame), 6))


def test_run_that_is_given_up_leaves_whole_files_only(tmp_path, rows, frame, fast):
    def give_up(n_done, n_total):
        if n_done > 0.6 * n_total:
            raise KeyboardInterrupt

    folder, out = write_folder(tmp_path / "in", rows, n_files=6), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        score(folder, fast, out, progress=give_up, n_rows_per_batch=10)
    complete = sorted(os.listdir(out))
    assert 0 < len(complete) < 6
    assert score(folder, fast, out).skipped == complete
    np.testing.assert_array_equal(read_all(out)["label"], fast.predict(frame))


SCRIPT = textwrap.dedent("""
    import resource, signal, sys, time
    import scurry
    from scurry.errors import OutputError

    source, model, out, limit, delay = sys.argv[1:]
    if int(limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    tell = lambda n_done, n_total: (print(n_done / n_total, flush=True), time.sleep(float(delay)))
    try:
        scurry.batch.score(source, scurry.load(model), out, progress=tell, n_rows_per_batch=10)
    except OutputError as error:
        sys.exit(str(error))
""")


def in_process(*arguments, **options):
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_disk_that_is_full_keeps_what_is_complete(tmp_path, rows, fast):
    folder, out = write_folder(tmp_path / "in", rows, n_files=3), tmp_path / "out"
    pq.write_table(pa.concat_tables([rows] * 40), folder / "part-1.parquet")
    fast.save(tmp_path / "fast.scurry")
    process = in_process(folder, tmp_path / "fast.scurry", out, 60_000, 0)
    _, message = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "part-1.parquet could not be written" in message
    complete = sorted(os.listdir(out))
    assert "part-0.parquet" in complete
    assert "part-1.parquet" not in complete
    assert score(folder, fast, out).skipped == complete


ON_A_SMALL_DISK = """
    mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
    out=$1; shift
    "$@"; code=$?
    ls -A "$out"; exit $code
"""


def test_small_tmpfs_that_fills_up_keeps_what_is_complete(tmp_path, rows, fast):
    folder, out = write_folder(tmp_path / "in", rows, n_files=3), tmp_path / "out"
    pq.write_table(pa.concat_tables([rows] * 100), folder / "part-1.parquet")
    fast.save(tmp_path / "fast.scurry")
    out.mkdir()
    scoring = [sys.executable, "-c", SCRIPT, folder, tmp_path / "fast.scurry", out, "0", "0"]
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh", out]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount a file system with")
    done = subprocess.run([*map(str, namespace + scoring)], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 77:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 1
    assert re.search("part-[12].parquet could not be written", done.stderr)
    assert "No space left on device" in done.stderr
    complete = {line for line in done.stdout.splitlines() if "part" in line}
    assert {"part-0.parquet"} <= complete <= {"part-0.parquet", "part-2.parquet"}


def test_killed_run_goes_on_where_it_was(tmp_path, rows, frame, fast):
    folder, out = write_folder(tmp_path / "in", rows), tmp_path / "out"
    fast.save(tmp_path / "fast.scurry")
    process = in_process(folder, tmp_path / "fast.scurry", out, 0, 0.02)
    for line in process.stdout:
        if float(line) > 0.8:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=300)
    report = score(folder, fast, out)
    assert report.skipped
    assert report.written
    assert sorted(os.listdir(out)) == [f"part-{i}.parquet" for i in range(4)]
    np.testing.assert_array_equal(read_all(out)["label"], fast.predict(frame))


def test_unwritable_destination(tmp_path, rows, fast):
    folder = write_folder(tmp_path / "in", rows)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        score(folder, fast, tmp_path / "file" / "out")


def with_a_column_twice(rows):
    return pa.Table.from_arrays([*rows.columns, rows.column(0)], names=[*rows.column_names, rows.column_names[0]])


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_a_column_name_twice_fails_one_file_only(tmp_path, rows, frame, fast, suffix):
    folder = write_folder(tmp_path / "in", rows)
    bad, path = with_a_column_twice(rows), folder / f"bad.{suffix}"
    if suffix == "parquet":
        pq.write_table(bad, path)
    elif suffix == "csv":
        csv.write_csv(bad, path)
    else:
        feather.write_feather(bad, path)
    report = score(folder, fast, tmp_path / "out")
    assert report.n_rows == len(frame)
    assert report.written == [f"part-{i}.parquet" for i in range(4)]
    assert list(report.failed) == [path.name]
    assert "more than one column 'mean radius'" in report.failed[path.name]


def test_a_column_that_nobody_reads_may_be_there_twice(tmp_path, rows, frame, fast):
    twice = pa.Table.from_arrays([*rows.columns, rows["id"]], names=[*rows.column_names, "id"])
    pq.write_table(twice, tmp_path / "rows.parquet")
    score(tmp_path / "rows.parquet", fast, tmp_path / "out.parquet")
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out.parquet")["label"], fast.predict(frame))


@pytest.mark.parametrize("n_rows", [0.5, 0, -1, 1e30, True, "8"])
def test_batches_of_no_rows(tmp_path, rows, fast, n_rows):
    """0.5 published an empty output, which later runs took for complete."""
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="n_rows_per_batch must be a whole number"):
        score(tmp_path / "rows.parquet", fast, tmp_path / "out.parquet", n_rows_per_batch=n_rows)
    assert not (tmp_path / "out.parquet").exists()


def test_rows_are_counted_before_an_output_appears(tmp_path, rows, fast, monkeypatch):
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
    whole = pq.ParquetFile.iter_batches

    def all_but_the_last(file, *arguments, **options):
        return list(whole(file, *arguments, **options))[:-1]

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", all_but_the_last)
    with pytest.raises(InputError, match=r"has 569 rows, but 500 were read and 500 written"):
        score(tmp_path / "rows.parquet", fast, tmp_path / "out.parquet", n_rows_per_batch=100)
    assert sorted(os.listdir(tmp_path)) == ["rows.parquet"]


@pytest.mark.parametrize("source", ["", [], [""], 7, None, [7]])
def test_no_source(tmp_path, fast, source, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="source must name files, folders or patterns"):
        score(source, fast, tmp_path / "out")


def test_what_is_no_predictor(tmp_path, rows, model):
    pq.write_table(rows, tmp_path / "rows.parquet")
    for wrong in (model, "model.scurry", None):
        with pytest.raises(InputError, match=r"predictor must be a Predictor or a Forest, got .*scurry.from_model"):
            score(tmp_path / "rows.parquet", wrong, tmp_path / "out.parquet")


def test_no_pyarrow(tmp_path, rows, fast, monkeypatch):
    pq.write_table(rows, tmp_path / "rows.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "scurry\[batch\]"'):
        score(tmp_path / "rows.parquet", fast, tmp_path / "out.parquet")


def test_the_report_names_the_files_that_are_there(tmp_path, rows, fast):
    csv.write_csv(rows, tmp_path / "rows.csv")
    for output, name in (("out", "rows.csv.parquet"), ("scores.parquet", "scores.parquet")):
        report = score(tmp_path / "rows.csv", fast, tmp_path / output)
        assert report.written == [name]
        assert (tmp_path / output / name if output == "out" else tmp_path / name).is_file()
        assert score(tmp_path / "rows.csv", fast, tmp_path / output).skipped == [name]


def test_predictions_of_regressors(tmp_path):
    X, y = load_wine(return_X_y=True)
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), tmp_path / "rows.parquet")
    regressor = RandomForestRegressor(3, random_state=0).fit(X, y)
    for columns in (["prediction"], ["label", "trees"], ["prediction", "label"]):
        score(tmp_path / "rows.parquet", scurry.from_model(regressor), tmp_path / "out.parquet", columns=columns)
        out = pq.read_table(tmp_path / "out.parquet")
        assert out.column_names == ["prediction", "trees"][: 1 + ("trees" in columns)]
        np.testing.assert_array_equal(out["prediction"], scurry.from_model(regressor).predict(X))
    classifier = scurry.from_model(RandomForestClassifier(3, random_state=0).fit(X, y))
    with pytest.raises(InputError, match='write "label" instead of "prediction"'):
        score(tmp_path / "rows.parquet", classifier, tmp_path / "o.parquet", columns=["prediction"])


@pytest.fixture(scope="module")
def watched():
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


def test_files_are_counted_once_whatever_the_threads(watched, folder):
    states = []
    for n_threads in (1, 3):
        watch = scurry.watch(watched, share=0.5, random_state=0)
        scurry.batch.score(
            folder / "rows",
            watched,
            folder / f"out{n_threads}",
            n_threads=n_threads,
            watch=watch,
            n_rows_per_batch=70,
        )
        states.append(watch.state)
    assert states[0] == states[1]
    assert states[0].n_rows == 1500
    assert 650 < states[0].n_shadow < 850


def test_outputs_that_are_there_do_not_count_again(watched, folder):
    path = folder / "state.scurry-watch"
    watch = scurry.watch(watched, share=1.0, random_state=0)
    scurry.batch.score(folder / "rows", watched, folder / "out", watch=watch, watch_path=path)
    assert scurry.Watch.load(path, watched).state == watch.state
    (folder / "out" / "3.parquet").unlink()
    again = scurry.Watch.load(path, watched)
    scurry.batch.score(folder / "rows", watched, folder / "out", watch=again, watch_path=path)
    assert again.state.n_rows == 1500 + 300
    rows = np.concatenate([two_classes(100 * at, 10 + at)[0] for at in range(6)])
    assert watch.state.n_changed == (watched.predict(rows) != watched.forest.predict(rows)).sum()


def test_many_short_files_make_no_more_epochs_than_one_long_one(watched):
    """Every epoch adds to the detector of changes, so that files of a few rows would raise false alarms."""
    watch = scurry.watch(watched, share=1.0, random_state=0)
    rows = two_classes(20, 3)[0]
    for at in range(40):
        branch = watch.branch(f"file {at}")
        branch.count(rows)
        watch.join(branch)
    assert watch.state.n_shadow == 800
    assert len(watch._record.started) == 4


def test_a_file_that_fails_does_not_hold_the_others(watched, folder):
    (folder / "rows" / "2.parquet").write_bytes(b"no table")
    watch = scurry.watch(watched, share=1.0, random_state=0)
    report = scurry.batch.score(folder / "rows", watched, folder / "out", watch=watch)
    assert len(report.failed) == 1
    assert watch.state.n_rows == 1300


def test_watches_that_cannot_count_files_are_refused(watched, folder):
    def score(watch):
        scurry.batch.score(folder / "rows", watched, folder / "out", watch=watch)

    with pytest.raises(InputError, match=r'set watch\.on_alarm to "warn"'):
        score(scurry.watch(watched, on_alarm="full"))
    with pytest.raises(InputError, match="must be a Watch"):
        score("state.scurry-watch")
    other = scurry.early_exit(watched.forest, two_classes(2500, 1)[0], max_disagreement=0.08, random_state=0)
    with pytest.raises(InputError, match="another predictor"):
        score(scurry.watch(other))
