"""Rows in files: partitions, and samples that give sums over their rows."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from scurry.batch.files import Fragment
from scurry.distributed.files import FileSample, Partition
from scurry.errors import InputError
from support.counting import count_above, count_positive
from support.strategies import complete_forest

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
    np.testing.assert_array_equal(some.gathered(), expected)
    np.testing.assert_array_equal(some.mapped(np.negative).sums(count_positive), count_positive(-expected))
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
        FileSample.of(cluster, forest, partitions, 49, None).gathered()


def test_a_file_rewritten_with_as_many_bytes_is_another_state(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    partition = Partition(Fragment(path, path.name))
    before = partition.state
    path.write_text("a\n2\n")
    os.utime(path, ns=(0, before[1] + 1))
    assert partition.state != before
