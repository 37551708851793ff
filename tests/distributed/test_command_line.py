"""`scurry … --dask`, from files to files on real clusters."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

import scurry
from scurry import cli

EXIT = ("--max-disagreement", "0.05", "--method", "minimean")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("files")
    model = RandomForestClassifier(25, random_state=0).fit(frame[:200], load_breast_cancer().target[:200])
    scurry.from_model(model).save(folder / "model.scurry")
    (folder / "rows").mkdir()
    table = pa.Table.from_pandas(frame[200:], preserve_index=False).append_column("id", pa.array(np.arange(369)))
    for i in range(3):
        pq.write_table(table.slice(i * 123, 123), folder / "rows" / f"{i}.parquet")
    return folder


def run(*arguments, exit_code=0):
    result = CliRunner().invoke(cli.load_program().app, [str(argument) for argument in arguments])
    assert result.exit_code == exit_code, result.output
    return result


def calibrated_and_scored(folder, tmp_path, address):
    run("early-exit", folder / "model.scurry", folder / "rows", *EXIT, "--dask", address, "-o", tmp_path / "f.scurry")
    run("early-exit", folder / "model.scurry", folder / "rows", *EXIT, "-o", tmp_path / "alone.scurry")
    assert (tmp_path / "f.scurry").read_bytes() == (tmp_path / "alone.scurry").read_bytes()
    out = tmp_path / "out"
    run("predict", tmp_path / "f.scurry", folder / "rows", "--keep", "id", "--dask", address, "-o", out)
    return scurry.load(tmp_path / "f.scurry"), pa.concat_tables(map(pq.read_table, sorted(out.iterdir())))


def assert_scores(fast, scored, frame):
    expected = fast.run(frame[200:])
    assert scored["id"].to_pylist() == list(range(369))
    np.testing.assert_array_equal(scored["label"], expected.labels)
    np.testing.assert_array_equal(scored["trees"], expected.trees)


def test_a_cluster_at_an_address(folder, tmp_path, frame, cluster):
    fast, scored = calibrated_and_scored(folder, tmp_path, cluster.scheduler.address)
    assert_scores(fast, scored, frame)


@pytest.mark.slow
def test_a_cluster_on_this_machine(folder, tmp_path, frame):
    fast, scored = calibrated_and_scored(folder, tmp_path, "local")
    assert_scores(fast, scored, frame)


def test_a_truncated_file_is_named_and_the_exit_code_says_so(folder, tmp_path, cluster, capfd):
    rows = tmp_path / "rows"
    rows.mkdir()
    for file in (folder / "rows").iterdir():
        (rows / file.name).write_bytes(file.read_bytes()[: 3000 if file.name == "1.parquet" else None])
    address = cluster.scheduler.address
    arguments = ("predict", folder / "model.scurry", rows, "--dask", address, "-o", tmp_path / "out")
    result = run(*arguments, "--json", exit_code=1)
    report = json.loads(result.stdout)
    assert report["written"] == ["0.parquet", "2.parquet"]
    assert list(report["failed"]) == ["1.parquet"]
    assert "failed: 1.parquet cannot be read" in result.stderr
    assert "Traceback" not in result.stderr + capfd.readouterr().err
