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
    shares = []
    found = distributed.find_order(
        small,
        labelled,
        label="y",
        order=order,
        readout=readout,
        cluster=cluster,
        progress=lambda share, _: shares.append(share),
    )
    np.testing.assert_array_equal(found.steps, alone.steps)
    np.testing.assert_allclose(found.curve, alone.curve, rtol=1e-12)
    assert shares[-1] == 1


@pytest.mark.slow
def test_search_goes_on_when_a_worker_dies(labelled, frame, small, cluster_to_harm):
    alone = scurry.anytime(small, frame, load_breast_cancer().target, order="backward-squirrel")
    killed = []

    def kill_once(share, message):
        if share > 0.3 and not killed:
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
