"""Early exits calibrated from sums over files: bit by bit the plans of one machine.

Rows in files: partitions, and samples that give sums over their rows.
"""

import os
import signal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv
from pyarrow import parquet as pq
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

import scurry
from scurry import distributed
from scurry.batch.files import Fragment
from scurry.distributed.fitting import FileSample, Partition
from scurry.errors import FormatError, InfeasibleError, InputError
from scurry.stopping.guarantee import Sample, hash_rows, split_rows
from scurry.verbs.early_exit import calibrate
from scurry.verbs.options import Calibration, ExitOptions
from support.counting import count_above, count_positive
from support.strategies import complete_forest


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


N_TRAIN, N_ROWS = 500, 4000
ALPHA = 0.02
DEFAULTS = {"confidence": 0.95, "shuffle": "fixed", "keep_scores": None, "costs": "trees", "threshold": None}

CASES = {
    "certified order": ("votes", {"method": "minimean"}),
    "belief": ("votes", {"method": "schwing"}),
    "order for each row": ("votes", {"method": "minimean", "shuffle": "row"}),
    "every row": ("votes", {"method": "minimixed", "shuffle": "row"}),
    "no promise": ("votes", {"method": "minimean", "confidence": None}),
    "several classes": ("classes", {"method": "minimean"}),
    "margins": ("boosted", {"method": "qwyc"}),
    "bins": ("boosted", {"method": "fan"}),
    "leads": ("classes", {"method": "qwyc"}),
    "node tests": ("boosted", {"method": "auto", "costs": "steps"}),
    "threshold": ("boosted", {"method": "auto", "threshold": 0.3}),
}


def rows_of(n_classes):
    return make_classification(
        N_TRAIN + N_ROWS, n_features=6, n_informative=4, n_classes=n_classes, flip_y=0.1, random_state=n_classes
    )


@pytest.fixture(scope="module")
def models():
    """By name: a model, and calibration rows sorted by label, so that parts of them have one class."""

    def made(model, n_classes):
        X, y = rows_of(n_classes)
        fitted = model.fit(X[:N_TRAIN], y[:N_TRAIN])
        return fitted, X[N_TRAIN:][np.argsort(y[N_TRAIN:], kind="stable")]

    return {
        "votes": made(RandomForestClassifier(15, max_depth=5, random_state=0), 2),
        "boosted": made(GradientBoostingClassifier(n_estimators=20, random_state=0), 2),
        "classes": made(ExtraTreesClassifier(15, max_depth=6, random_state=0), 3),
    }


class Pieces(Sample):
    """Rows in pieces that answer in any order; chosen rows and functions reach them as they reach files."""

    def __init__(self, pieces, order):
        self.pieces, self.order = pieces, order

    @property
    def n_rows(self):
        return sum(map(len, self.pieces))

    @property
    def max_gathered(self):
        return self.n_rows

    def where(self, chosen):
        cuts = np.cumsum([len(piece) for piece in self.pieces])[:-1]
        return Pieces(
            [piece[part] for piece, part in zip(self.pieces, np.split(chosen, cuts), strict=True)], self.order
        )

    def map(self, function):
        return Mapped(self, function)

    def sums(self, question):
        answers = [question(piece) for piece in self.pieces]
        return sum((answers[i] for i in self.order[1:]), answers[self.order[0]])

    def sums_of_each(self, question, cases):
        return (self.sums(lambda values, case=case: question(values, case)) for case in cases)

    def gather(self):
        return np.concatenate(self.pieces)

    def none(self):
        return self.pieces[0][:0]


class Mapped(Pieces):
    def __init__(self, source, function):
        super().__init__([function(piece) for piece in source.pieces], source.order)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_pieces_in_any_order_give_the_plan_of_the_whole(models, case, data):
    name, asked = CASES[case]
    model, X = models[name]
    cuts = data.draw(st.lists(st.integers(0, N_ROWS), max_size=4).map(sorted))
    order = data.draw(st.permutations(range(len(cuts) + 1)))
    alone = scurry.early_exit(model, X, max_disagreement=ALPHA, random_state=5, **asked)
    options = DEFAULTS | {"max_disagreement": ALPHA} | asked
    forest, pieces = scurry.from_model(model), Pieces(np.split(X.astype(np.float32), cuts), order)
    calibration = Calibration.of(forest, pieces, None, None, ExitOptions(random_state=5, **options))
    assert calibrate(calibration).digest == alone.digest


@pytest.mark.parametrize("name", ["boosted", "classes"])
def test_pieces_give_the_plan_of_the_whole_for_promises_per_class(models, name):
    model, X = models[name]
    promise = scurry.promises.LabelsPerClass(dict.fromkeys(model.classes_.tolist(), 0.05))
    forest, pieces = scurry.from_model(model), Pieces(np.split(X.astype(np.float32), [1000, 1000, 3300]), [2, 0, 3, 1])
    calibration = Calibration.of(forest, pieces, None, None, ExitOptions(promise=promise, random_state=5))
    alone = scurry.early_exit(model, X, promise=promise, random_state=5)
    assert calibrate(calibration).digest == alone.digest
    assert calibrate(calibration).certificate.tests == alone.certificate.tests


def test_promises_that_need_labels_are_refused(models, tmp_path):
    with pytest.raises(InputError, match="files are read without theirs"):
        distributed.early_exit(models["boosted"][0], tmp_path, promise=scurry.promises.Accuracy(0.1))


@pytest.fixture(scope="module")
def folders(tmp_path_factory, models):
    """Calibration rows in files: of one class, of no rows, of one row, and of other formats."""
    found = {}
    for name, (_, X) in models.items():
        found[name] = folder = tmp_path_factory.mktemp(name)
        table = pa.table({f"f{j}": X[:, j] for j in range(X.shape[1])})
        cuts = [0, 900, 900, 901, 3000, N_ROWS]
        parts = [table.slice(start, stop - start) for start, stop in pairwise(cuts)]
        for i, part in enumerate(parts[:-1]):
            pq.write_table(part, folder / f"{i}.parquet", row_group_size=400)
        csv.write_csv(parts[-1], folder / "9.csv")
    return found


def test_categories_are_encoded_once(tmp_path, cluster):
    rng = np.random.default_rng(0)
    rows = {"kind": rng.choice([10.0, 20.0, 35.0], 3000), "x": rng.normal(size=3000)}
    X, y = np.column_stack(list(rows.values())), (rows["kind"] == 20) ^ (rows["x"] > 0.5)
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=[0], random_state=0).fit(X[::2], y[::2])
    for i, part in enumerate(np.split(np.arange(3000), [1000])):
        pq.write_table(pa.table({name: column[part] for name, column in rows.items()}), tmp_path / f"{i}.parquet")
    asked = {"max_disagreement": ALPHA, "method": "qwyc", "random_state": 0}
    alone = scurry.early_exit(model, X, **asked)
    assert distributed.early_exit(model, tmp_path, cluster=cluster, **asked).digest == alone.digest


@pytest.mark.parametrize("case", CASES)
def test_files_give_the_plan_of_one_machine(models, folders, cluster, case):
    name, asked = CASES[case]
    model, X = models[name]
    alone = scurry.early_exit(model, X, max_disagreement=ALPHA, random_state=1, **asked)
    calls = []
    found = distributed.early_exit(
        model,
        folders[name],
        max_disagreement=ALPHA,
        random_state=1,
        cluster=cluster,
        progress=lambda *call: calls.append(call),
        **asked,
    )
    assert found.digest == alone.digest
    assert found.certificate.to_json() == alone.certificate.to_json()
    assert calls[-1] == (5, 5)


@pytest.mark.parametrize("method", ["qwyc", "auto", "minimean"])
def test_rows_that_fit_may_be_given(models, folders, cluster, method):
    model, X = models["votes"]
    asked = {"X_fit": rows_of(2)[0][:N_TRAIN], "method": method, "max_disagreement": ALPHA, "random_state": 2}
    alone = scurry.early_exit(model, X, **asked)
    assert distributed.early_exit(model, folders["votes"], cluster=cluster, **asked).digest == alone.digest


def test_a_small_sample_fits_and_all_others_certify(models, folders, cluster):
    model, X = models["boosted"]
    asked = {"method": "qwyc", "max_disagreement": ALPHA, "random_state": 3}
    found = distributed.early_exit(model, folders["boosted"], max_fit_rows=700, cluster=cluster, **asked)
    fit, _ = split_rows(hash_rows(X, "float32"), 700)
    alone = scurry.early_exit(model, X[~fit], X_fit=X[fit], **asked)
    known = found.certificate.to_json()  # the summary is of all rows, of which no more than 700 are brought together
    own = alone.certificate.recipe.replace(
        "scurry.early_exit(model, X_cal, X_fit=X_fit", "scurry.distributed.early_exit(model, source, max_fit_rows=700"
    )
    # What is said of speed is estimated from those 700 rows.
    own_facts = {"n_calibration_rows": N_ROWS, "rows": known["rows"], "recipe": own, "why": known["why"]}
    assert known == alone.certificate.to_json() | own_facts
    assert found.certificate.rows.n_rows == 700
    assert (found.certificate.n_fit_rows, found.certificate.n_rows) == (700, N_ROWS - 700)
    np.testing.assert_array_equal(found.plan.order, alone.plan.order)
    np.testing.assert_array_equal(found.plan.stop.lower, alone.plan.stop.lower)
    np.testing.assert_array_equal(found.plan.stop.upper, alone.plan.stop.upper)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["certified order", "margins"])
def test_a_worker_that_dies_changes_nothing(models, folders, cluster_to_harm, case):
    name, asked = CASES[case]
    model, X = models[name]
    alone = scurry.early_exit(model, X, max_disagreement=ALPHA, random_state=1, **asked)
    killed = []

    def kill_once(n_done, n_total):
        if not killed:
            killed.append(os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL))

    with cluster_to_harm() as client:
        found = distributed.early_exit(
            model,
            folders[name],
            max_disagreement=ALPHA,
            random_state=1,
            cluster=client,
            progress=kill_once,
            **asked,
        )
    assert killed
    assert found.digest == alone.digest


def test_what_cannot_be_done_is_said(models, folders, tmp_path, cluster):
    model, X = models["boosted"]
    folder = folders["boosted"]
    with pytest.raises(InputError, match="4,000 rows would have to be in memory at once, and max_fit_rows is 100"):
        distributed.early_exit(model, folder, method="qwyc", confidence=None, max_fit_rows=100, cluster=cluster)
    with pytest.raises(InputError, match="max_fit_rows must be"):
        distributed.early_exit(model, folder, max_fit_rows=0, cluster=cluster)
    with pytest.raises(InfeasibleError, match="cannot be certified"):
        distributed.early_exit(model, folder, max_disagreement=1e-4, cluster=cluster)
    table = pa.table({f"f{j}": X[:, j] for j in range(X.shape[1])})
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no rows"):
        distributed.early_exit(model, tmp_path / "none.parquet", cluster=cluster)
    (tmp_path / "half.parquet").write_bytes((folder / "0.parquet").read_bytes()[:5000])
    with pytest.raises(FormatError, match=r"half\.parquet cannot be read"):
        distributed.early_exit(model, tmp_path, cluster=cluster)
    labelled = table.append_column("y", pa.array(np.zeros(N_ROWS)))
    (tmp_path / "labelled").mkdir()
    pq.write_table(labelled, tmp_path / "labelled" / "rows.parquet")
    found = distributed.early_exit(
        model, tmp_path / "labelled", label="y", max_disagreement=ALPHA, random_state=0, cluster=cluster
    )
    assert found.digest == scurry.early_exit(model, X, max_disagreement=ALPHA, random_state=0).digest


LABELS = np.where(load_breast_cancer().target, "benign", "malignant")
GROUPS = {"mean": list(range(10)), "error": list(range(10, 20))}
OPTIONS = {"feature_costs": np.linspace(0, 2.9, 30).round(1), "groups": GROUPS, "group_costs": [3, 1.5]}


@pytest.fixture(scope="module")
def labelled_of_pruning(tmp_path_factory, frame):
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
    assert path.at(max_cost=budget).digest == alone.judge_on(None).at(max_cost=budget).digest


@pytest.mark.parametrize(
    "options",
    [{}, {**OPTIONS, "step_cost": 0.01, "errors": "validation", "class_weight": "balanced"}],
    ids=["training", "validation"],
)
def test_path_is_that_of_all_rows_on_one_machine(labelled_of_pruning, frame, model, cluster, options):
    alone = scurry.prune(model, frame, LABELS, **options)
    calls = []
    path = distributed.prune(
        model, labelled_of_pruning, label="y", cluster=cluster, progress=lambda *call: calls.append(call), **options
    )
    assert_same(path, alone)
    assert calls[:5] == [(i, 5) for i in range(1, 6)]
    assert calls[-1][0] == calls[-1][1]


def test_single_trade_offs(labelled_of_pruning, frame, model, cluster):
    found = distributed.prune(
        model, labelled_of_pruning, label="y", lambdas=[0.001, 0.01], method="independent", cluster=cluster
    )
    alone = scurry.prune(model, frame, lambdas=[0.001, 0.01], method="independent")
    assert found.objectives.tolist() == alone.objectives.tolist()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(labelled_of_pruning, frame, model, cluster_to_harm):
    killed = []

    def kill_once(n_done, n_total):
        if not killed:
            killed.append(os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL))

    with cluster_to_harm() as client:
        path = distributed.prune(model, labelled_of_pruning, label="y", cluster=client, progress=kill_once, **OPTIONS)
    assert killed
    assert_same(path, scurry.prune(model, frame, **OPTIONS))


def test_wrong_requests(labelled_of_pruning, tmp_path, frame, model, cluster):
    with pytest.raises(InputError, match="needs label, the column of the labels"):
        distributed.prune(model, labelled_of_pruning, errors="validation", cluster=cluster)
    with pytest.raises(InputError, match="no column 'z'"):
        distributed.prune(model, labelled_of_pruning, label="z", cluster=cluster)
    with pytest.raises(InputError, match=r"feature_costs\[3\].*is -1"):
        distributed.prune(
            model, labelled_of_pruning, label="y", feature_costs=[1, 1, 1, -1] + [1] * 26, cluster=cluster
        )
    with pytest.raises(InputError, match="method must be one of"):
        distributed.prune(model, labelled_of_pruning, method="best", cluster=cluster)
    nothing = pa.Table.from_pandas(frame[:0], preserve_index=False)
    pq.write_table(nothing, tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no rows"):
        distributed.prune(model, tmp_path, cluster=cluster)


N_FEATURES = 3


@pytest.fixture(scope="module")
def forest():
    return complete_forest(2, 2, N_FEATURES, 2)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(50, N_FEATURES)).astype(np.float32)


@pytest.fixture(scope="module")
def partitions(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table({f"f{j}": rows[:, j] for j in range(N_FEATURES)}).append_column("y", pa.array(np.arange(50)))
    pq.write_table(table[:30], folder / "0.parquet")
    pq.write_table(table[:0], folder / "1.parquet")
    csv.write_csv(table[30:], folder / "2.csv")
    return [Partition(Fragment(path, path.name), "y") for path in sorted(folder.iterdir())]


def test_a_partition_reads_rows_and_labels(partitions, forest, rows):
    parts = [partition.read(forest) for partition in partitions]
    np.testing.assert_array_equal(np.concatenate([X for X, _ in parts]), rows)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), np.arange(50))
    assert [partition.n_rows(forest) for partition in partitions] == [30, 0, 20]
    few = np.concatenate(list(partitions[0].batches(forest, n_rows_per_batch=7)))
    np.testing.assert_array_equal(few, rows[:30])


def test_missing_labels_are_counted(tmp_path, forest):
    table = pa.table({f"f{j}": [0.0, 1.0] for j in range(N_FEATURES)} | {"y": [None, 1]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"rows\.parquet has 1 rows without a label in 'y'"):
        Partition(Fragment(tmp_path / "rows.parquet", "rows.parquet"), "y").read(forest)


def test_a_sample_of_files_answers_as_an_array_does(partitions, forest, rows, cluster):
    calls = []
    sample = FileSample.of(cluster, forest, partitions, 50, lambda *call: calls.append(call))
    assert sample.n_rows == 50
    np.testing.assert_array_equal(sample.sums(count_positive), count_positive(rows))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    chosen = np.arange(50) % 3 == 0
    some = sample.where(chosen).where(np.arange(17) > 4)
    expected = rows[chosen][5:]
    assert some.n_rows == len(expected)
    np.testing.assert_array_equal(some.gather(), expected)
    np.testing.assert_array_equal(some.map(np.negative).sums(count_positive), count_positive(-expected))
    bounds = np.linspace(-1, 1, 20)
    answers = list(some.sums_of_each(count_above, bounds))
    np.testing.assert_array_equal(answers, [count_above(expected, bound) for bound in bounds])
    assert some.none().shape == (0, N_FEATURES)


def test_a_file_that_changes_between_rounds_is_named(tmp_path, forest, rows, cluster):
    def write(n_rows):
        pq.write_table(pa.table({f"f{j}": rows[:n_rows, j] for j in range(N_FEATURES)}), tmp_path / "rows.parquet")

    write(20)
    sample = FileSample.of(cluster, forest, [Partition(Fragment(tmp_path / "rows.parquet", "rows.parquet"))], 50, None)
    write(12)
    with pytest.raises(InputError, match=r"rows\.parquet had 20 rows and now has 12"):
        sample.sums(count_positive)


def test_too_many_rows_are_not_brought_together(partitions, forest, cluster):
    with pytest.raises(InputError, match="50 rows would have to be in memory at once, and max_fit_rows is 49"):
        FileSample.of(cluster, forest, partitions, 49, None).gather()


def test_a_file_rewritten_with_as_many_bytes_is_another_state(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    partition = Partition(Fragment(path, path.name))
    before = partition.state
    path.write_text("a\n2\n")
    os.utime(path, ns=(0, before[1] + 1))
    assert partition.state != before
