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

LABELS = np.where(load_breast_cancer().target, "benign", "malignant")
GROUPS = {"mean": list(range(10)), "error": list(range(10, 20))}
OPTIONS = {"feature_costs": np.linspace(0, 2.9, 30).round(1), "groups": GROUPS, "group_costs": [3, 1.5]}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("labelled")
    table = pa.Table.from_pandas(frame, preserve_index=False).append_column("y", pa.array(LABELS))
    part = np.random.default_rng(0).choice(4, len(frame), p=[0.5, 0.3, 0.15, 0.05])
    for i in range(4):
        pq.write_table(table.take(np.flatnonzero(part == i)), folder / f"{i}.parquet")
    pq.write_table(table.slice(0, 0), folder / "none.parquet")
    return folder


@pytest.fixture(scope="module")
def model(frame):
    return RandomForestClassifier(9, random_state=0).fit(frame[::2], LABELS[::2])


def assert_same(path, alone):
    assert path.exact_lambdas == alone.exact_lambdas
    assert path.objectives.tolist() == alone.objectives.tolist()
    assert path.errors.tolist() == alone.errors.tolist()
    assert path.costs.tolist() == alone.costs.tolist()
    for name, array in alone.problem.closure.arrays.items():
        np.testing.assert_array_equal(path.problem.closure.arrays[name], array, err_msg=name)
    assert all(path[i].digest == alone[i].digest for i in range(0, len(alone), 5))
    budget = 0.6 * alone.costs[0]
    # A cluster keeps counts, not rows, so its path goes by the objective's error.
    assert path.at(max_cost=budget).digest == alone.validated(None).at(max_cost=budget).digest


@pytest.mark.parametrize(
    "options",
    [{}, {**OPTIONS, "step_cost": 0.01, "errors": "validation", "class_weight": "balanced"}],
    ids=["training", "validation"],
)
def test_path_is_that_of_all_rows_on_one_machine(labelled, frame, model, cluster, options):
    alone = scurry.prune(model, frame, LABELS, **options)
    calls = []
    path = distributed.prune(
        model, labelled, label="y", cluster=cluster, progress=lambda *call: calls.append(call), **options
    )
    assert_same(path, alone)
    assert calls[:5] == [(i, 5) for i in range(1, 6)]
    assert calls[-1][0] == calls[-1][1]


def test_single_trade_offs(labelled, frame, model, cluster):
    found = distributed.prune(model, labelled, label="y", lambdas=[0.001, 0.01], method="independent", cluster=cluster)
    alone = scurry.prune(model, frame, lambdas=[0.001, 0.01], method="independent")
    assert found.objectives.tolist() == alone.objectives.tolist()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(labelled, frame, model, cluster_to_harm):
    killed = []

    def kill_once(n_done, n_total):
        if not killed:
            killed.append(os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL))

    with cluster_to_harm() as client:
        path = distributed.prune(model, labelled, label="y", cluster=client, progress=kill_once, **OPTIONS)
    assert killed
    assert_same(path, scurry.prune(model, frame, **OPTIONS))


def test_wrong_requests(labelled, tmp_path, frame, model, cluster):
    with pytest.raises(InputError, match="needs label, the column of the labels"):
        distributed.prune(model, labelled, errors="validation", cluster=cluster)
    with pytest.raises(InputError, match="no column 'z'"):
        distributed.prune(model, labelled, label="z", cluster=cluster)
    with pytest.raises(InputError, match=r"feature_costs\[3\].*is -1"):
        distributed.prune(model, labelled, label="y", feature_costs=[1, 1, 1, -1] + [1] * 26, cluster=cluster)
    with pytest.raises(InputError, match="method must be one of"):
        distributed.prune(model, labelled, method="best", cluster=cluster)
    nothing = pa.Table.from_pandas(frame[:0], preserve_index=False)
    pq.write_table(nothing, tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no rows"):
        distributed.prune(model, tmp_path, cluster=cluster)
