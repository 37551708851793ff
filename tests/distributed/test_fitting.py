import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import distributed
from scurry.errors import InputError


@pytest.fixture(scope="module")
def labelled(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("labelled")
    table = pa.Table.from_pandas(frame, preserve_index=False).append_column("y", pa.array(load_breast_cancer().target))
    for i in range(3):
        pq.write_table(table.take(np.arange(i, len(frame), 3)), folder / f"{i}.parquet")
    return folder


@pytest.fixture(scope="module")
def small(frame):
    model = RandomForestClassifier(7, max_depth=4, random_state=0).fit(frame, load_breast_cancer().target)
    return scurry.from_model(model)


@pytest.mark.parametrize(("order", "readout"), [("backward-squirrel", "plain"), ("forward-squirrel", "weighted")])
def test_orders_are_those_of_all_rows_on_one_machine(labelled, frame, small, cluster, order, readout):
    X, y = frame.to_numpy(), load_breast_cancer().target
    alone = scurry.orders.find(small, X, y, order=order, readout=readout)
    calls = []
    found = distributed.find_order(
        small,
        labelled,
        label="y",
        order=order,
        readout=readout,
        cluster=cluster,
        progress=lambda *call: calls.append(call),
    )
    np.testing.assert_array_equal(found.steps, alone.steps)
    np.testing.assert_allclose(found.curve, alone.curve, rtol=1e-12)
    assert calls == [(i, len(alone.steps)) for i in range(1, len(alone.steps) + 1)]


def test_files_without_rows_have_no_say(labelled, small, cluster, tmp_path):
    table = pq.read_table(labelled / "0.parquet")
    for name, part in {"a": table[:0], "b": table}.items():
        pq.write_table(part, tmp_path / f"{name}.parquet")
    found = distributed.find_order(small, tmp_path, label="y", cluster=cluster)
    alone = distributed.find_order(small, labelled / "0.parquet", label="y", cluster=cluster)
    np.testing.assert_array_equal(found.steps, alone.steps)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(InputError, match="hold no rows"):
        distributed.find_order(small, tmp_path, label="y", cluster=cluster)


def test_a_file_that_changed_is_read_again(labelled, small, cluster, tmp_path):
    curves = []
    for name in ("0.parquet", "1.parquet"):
        table = pq.read_table(labelled / name)
        pq.write_table(table, tmp_path / "rows.parquet")
        found = distributed.find_order(small, tmp_path / "rows.parquet", label="y", cluster=cluster)
        rows = table.drop_columns(["y"]).to_pandas()
        alone = scurry.orders.find(small, rows, table["y"].to_numpy(), order="backward-squirrel")
        np.testing.assert_array_equal(found.steps, alone.steps)
        np.testing.assert_allclose(found.curve, alone.curve, rtol=1e-12)
        curves.append(found.curve)
    assert (curves[0] != curves[1]).any()


def test_labels_that_are_categories(labelled, small, cluster, tmp_path):
    table = pq.read_table(labelled / "0.parquet")
    coded = table.set_column(table.schema.get_field_index("y"), "y", table["y"].dictionary_encode())
    pq.write_table(coded, tmp_path / "rows.parquet")
    found = distributed.find_order(small, tmp_path, label="y", cluster=cluster)
    alone = distributed.find_order(small, labelled / "0.parquet", label="y", cluster=cluster)
    np.testing.assert_array_equal(found.steps, alone.steps)


@pytest.mark.slow
def test_search_goes_on_when_a_worker_dies(labelled, frame, small, cluster_to_harm):
    alone = scurry.anytime(small, frame, load_breast_cancer().target, order="backward-squirrel")
    killed = []

    def kill_once(n_done, n_total):
        if n_done > 0.3 * n_total and not killed:
            killed.append(os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL))

    with cluster_to_harm() as client:
        found = distributed.anytime(small, labelled, label="y", cluster=client, progress=kill_once)
    assert killed
    np.testing.assert_array_equal(found.plan.order, alone.plan.order)
    np.testing.assert_array_equal(found.predict(frame, max_steps=9), alone.predict(frame, max_steps=9))


def test_wrong_requests_for_an_order(labelled, small, cluster):
    with pytest.raises(InputError, match="with a sample of the rows"):
        distributed.find_order(small, labelled, label="y", order="optimal", cluster=cluster)
    with pytest.raises(InputError, match="no column 'z'"):
        distributed.find_order(small, labelled, label="z", cluster=cluster)
