import os
import pickle
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import batch, distributed
from scurry.errors import InputError

N_FILES = 12


@pytest.fixture(scope="module")
def fast(frame):
    model = RandomForestClassifier(31, max_depth=6, random_state=0).fit(frame, load_breast_cancer().target)
    return scurry.early_exit(model, frame, max_disagreement=0.02, method="minimixed", random_state=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("rows")
    table = pa.Table.from_pandas(frame, preserve_index=False).append_column("id", pa.array(np.arange(len(frame))))
    size = -(-len(frame) // N_FILES)
    for i in range(N_FILES):
        pq.write_table(table.slice(i * size, size), folder / f"part-{i:02}.parquet")
    return folder


def read_all(folder):
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.rglob("*.parquet"))])


def test_outputs_are_those_of_one_machine(tmp_path, folder, fast, cluster):
    columns = ["label", "probability", "trees", "steps", "reason"]
    report = distributed.score(folder, fast, tmp_path / "many", cluster=cluster, columns=columns, keep=["id"])
    alone = batch.score(folder, fast, tmp_path / "one", columns=columns, keep=["id"])
    assert (report.written, report.n_rows) == (alone.written, alone.n_rows)
    assert read_all(tmp_path / "many").equals(read_all(tmp_path / "one"))
    again = distributed.score(folder, fast, tmp_path / "one", cluster=cluster, columns=columns, keep=["id"])
    assert (again.skipped, again.written) == (alone.written, [])


@pytest.mark.parametrize("budget", [{"max_steps": 5}, {"time_us": 0.0}])
def test_budgets_reach_the_workers(tmp_path, folder, frame, cluster, budget):
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(frame, load_breast_cancer().target)
    anytime = scurry.anytime(model, frame, load_breast_cancer().target, order="random", random_state=0)
    columns = ["label", "steps", "reason"]
    distributed.score(folder, anytime, tmp_path / "many", cluster=cluster, columns=columns, **budget)
    batch.score(folder, anytime, tmp_path / "one", columns=columns, **budget)
    assert read_all(tmp_path / "many").equals(read_all(tmp_path / "one"))
    assert set(read_all(tmp_path / "many")["steps"].to_pylist()) == {budget.get("max_steps", 0)}


def test_corrupt_fragment_is_named(tmp_path, folder, fast, cluster):
    (tmp_path / "rows").mkdir()
    for file in folder.iterdir():
        (tmp_path / "rows" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "rows" / "part-03.parquet").write_bytes(b"PAR1 and no more")
    report = distributed.score(tmp_path / "rows", fast, tmp_path / "out", cluster=cluster)
    assert list(report.failed) == ["part-03.parquet"]
    assert len(report.written) == N_FILES - 1


@pytest.mark.slow
def test_worker_killed_midway_loses_and_doubles_nothing(tmp_path, frame, fast, cluster_to_harm):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    (tmp_path / "rows").mkdir()
    n_rows = 30 * len(frame)
    for i in range(N_FILES):
        ids = pa.array(np.arange(i * n_rows, (i + 1) * n_rows))
        pq.write_table(pa.concat_tables([table] * 30).append_column("id", ids), tmp_path / "rows" / f"{i:02}.parquet")
    shares_done = []

    def kill_once(n_done, n_total):
        if not shares_done:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        shares_done.append(n_done / n_total)

    with cluster_to_harm() as client:
        out = tmp_path / "out"
        report = distributed.score(tmp_path / "rows", fast, out, cluster=client, keep=["id"], progress=kill_once)
    assert shares_done[0] < 0.5
    assert not report.failed
    assert len(os.listdir(out)) == N_FILES
    assert read_all(out)["id"].to_pylist() == list(range(N_FILES * n_rows))
    np.testing.assert_array_equal(read_all(out)["label"], np.tile(fast.predict(frame), 30 * N_FILES))


def test_scorer_is_what_spark_and_ray_take(frame, fast):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    scorer = pickle.loads(pickle.dumps(distributed.Scorer(fast, columns=("label", "trees"), keep=("mean area",))))
    spark = pa.Table.from_batches(scorer(iter(table.to_batches(max_chunksize=100))))
    ray = pa.concat_tables(scorer(table))
    assert spark.equals(ray)
    assert spark.schema.equals(scorer.schema(table.schema))
    np.testing.assert_array_equal(spark["label"], fast.predict(frame))
    np.testing.assert_array_equal(spark["trees"], fast.run(frame).trees)


def test_unreachable_and_unknown_clusters(tmp_path, folder, fast):
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        distributed.score(folder, fast, tmp_path / "out", cluster="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="must be 'local'"):
        distributed.score(folder, fast, tmp_path / "out", cluster="everywhere")
    with pytest.raises(InputError, match="colour"):
        distributed.Scorer(fast, columns=("colour",))


def test_a_watch_counts_what_workers_score(tmp_path, folder, frame, cluster):
    target = load_breast_cancer().target
    model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(frame[:200], target[:200])
    fast = scurry.early_exit(model, frame[200:], max_disagreement=0.05, random_state=0)
    states = []
    for name, score, where in (("many", distributed.score, {"cluster": cluster}), ("one", batch.score, {})):
        watch = scurry.watch(fast, share=0.5, random_state=0)
        score(folder, fast, tmp_path / name, watch=watch, watch_path=tmp_path / f"{name}.scurry-watch", **where)
        states.append(scurry.monitoring.read([tmp_path / f"{name}.scurry-watch"]))
        score(folder, fast, tmp_path / name, watch=watch, **where)  # all outputs are there
        assert watch.state == states[-1]
    assert states[0] == states[1]
    assert states[0].n_rows == len(frame)
