"""The scorer inside Spark and Ray Data, as the examples use it: `make engines` installs both and runs this."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.distributed import Scorer

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table(frame):
    return frame.assign(patient=np.arange(len(frame)))


@pytest.fixture(scope="module")
def fast(frame):
    names = np.array(["malignant", "benign"])[load_breast_cancer().target]
    model = RandomForestClassifier(31, max_depth=6, random_state=0).fit(frame, names)
    return scurry.early_exit(model, frame, max_disagreement=0.02, method="minimixed", random_state=0)


@pytest.fixture(scope="module")
def scorer(fast):
    return Scorer(fast, columns=("label", "trees", "reason"), keep=("patient",))


def assert_scores(found, fast, frame):
    found, run = found.sort_values("patient"), fast.run(frame)
    np.testing.assert_array_equal(found["patient"], np.arange(len(frame)))
    np.testing.assert_array_equal(found["label"], run.labels)
    np.testing.assert_array_equal(found["trees"], run.trees)
    np.testing.assert_array_equal(found["reason"], run.stop_reason)


def test_spark_maps_in_arrow(table, frame, fast, scorer, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed; make engines does that")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    try:
        rows = session.createDataFrame(table).repartition(3)
        found = example("score_with_spark").scored(rows, scorer).collect()
    finally:
        session.stop()
    assert_scores(pd.DataFrame([row.asDict() for row in found]), fast, frame)


def test_ray_maps_batches(table, frame, fast, scorer, monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed; make engines does that")
    monkeypatch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    ray.init(num_cpus=max(os.cpu_count() or 1, 2), include_dashboard=False, log_to_driver=False)
    try:
        import ray.data

        rows = ray.data.from_arrow(pa.Table.from_pandas(table, preserve_index=False)).repartition(3)
        found = example("score_with_ray").scored(rows, scorer).to_pandas()
    finally:
        ray.shutdown()
    assert_scores(found, fast, frame)
