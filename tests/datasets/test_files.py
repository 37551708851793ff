"""Files of every kind, damaged ones among them, and where they are looked for."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry import datasets
from scurry.datasets import files as dataset_files
from scurry.datasets.files import Column, read_table, write_npz
from scurry.errors import FormatError, InputError, MissingDependencyError
from support.tiny_dataset import TINY, TINY_FACTS, assert_same, assert_tiny, sha256


def test_parquet_like_pandas_reads_it(catalogue, data_folder):
    pq.write_table(pa.Table.from_pandas(TINY), data_folder / "tiny.parquet", row_group_size=2)
    catalogue(sha256=sha256(data_folder / "tiny.parquet"))
    data = datasets.load("tiny")
    assert_tiny(data)
    assert data.source == str(data_folder / "tiny.parquet")
    oracle = pd.read_parquet(data_folder / "tiny.parquet")
    frame = data.frame()
    assert list(frame.columns) == ["age", "job-title", "Dose"]
    assert frame["job-title"].dtype == "category"
    pd.testing.assert_series_equal(frame["job-title"].astype(object), oracle["job-title"].astype(object))
    pd.testing.assert_series_equal(frame["Dose"], oracle["Dose"])


def test_npz_and_csv_give_the_same(catalogue, data_folder):
    pq.write_table(pa.Table.from_pandas(TINY), data_folder / "tiny.parquet")
    from_parquet = datasets.load("tiny")
    write_npz(data_folder / "tiny.npz", read_table(data_folder / "tiny.parquet"))
    (data_folder / "tiny.parquet").unlink()
    assert_same(datasets.load("tiny"), from_parquet)
    (data_folder / "tiny.npz").unlink()
    TINY.to_csv(data_folder / "tiny.csv", index=False)
    assert_same(datasets.load("tiny"), from_parquet)


def test_parquet_without_pyarrow(catalogue, data_folder, monkeypatch):
    TINY.to_parquet(data_folder / "tiny.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'tiny\.parquet needs pyarrow.*pip install "scurry\[data\]"'):
        datasets.load("tiny")


def test_changed_parquet_is_refused(catalogue, data_folder):
    path = data_folder / "tiny.parquet"
    TINY.to_parquet(path)
    catalogue(sha256=sha256(path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"tiny\.parquet is damaged.*delete it and load again"):
        datasets.load("tiny")


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b"\xff\xfe" * 50])
def test_unreadable_file_is_named(catalogue, data_folder, suffix, damage):
    TINY.to_parquet(data_folder / "tiny.parquet")
    write_npz(data_folder / "tiny.npz", read_table(data_folder / "tiny.parquet"))
    TINY.to_csv(data_folder / "tiny.csv", index=False)
    path = data_folder / f"tiny{suffix}"
    content = path.read_bytes()
    for other in data_folder.iterdir():
        other.unlink()
    path.write_bytes(damage(content))
    with pytest.raises(FormatError, match=f"tiny\\{suffix}"):
        datasets.load("tiny")


def test_hostile_npz_is_not_unpickled(catalogue, data_folder):
    np.savez(data_folder / "tiny.npz", **{"values/target": np.array([os.getcwd], dtype=object)})
    with pytest.raises(FormatError, match="pickle"):
        datasets.load("tiny")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.iloc[:5], "5 rows"),
        (lambda frame: frame.drop(columns="Dose"), "columns"),
        (lambda frame: frame.rename(columns={"target": "label"}), "columns"),
        (lambda frame: frame.assign(more=1), "columns"),
    ],
)
def test_other_content_is_refused(catalogue, data_folder, change, message):
    change(TINY).to_parquet(data_folder / "tiny.parquet")
    with pytest.raises(FormatError, match=message):
        datasets.load("tiny")


def test_first_folder_wins(catalogue, data_folder, tmp_path):
    table = Column(np.zeros(6))
    folders = {"data": data_folder, "cache": tmp_path / "cache", "shipped": tmp_path / "shipped"}
    for mark, folder in enumerate(folders.values()):
        columns = dict.fromkeys(TINY_FACTS["features"], table)
        write_npz(folder / "tiny.npz", columns | {"target": Column(np.full(6, mark))})
    for mark, folder in enumerate(folders.values()):
        assert set(datasets.load("tiny").y) == {mark}
        (folder / "tiny.npz").unlink()


def test_missing_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SCURRY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"SCURRY_DATA is '.*nowhere', which is not a folder"):
        datasets.load("adult")


def test_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"no dataset 'adlut'; did you mean 'adult'\?"):
        datasets.load("adlut")
    with pytest.raises(InputError, match="known are adult, covertype"):
        datasets.load("zzzz")


@pytest.mark.parametrize("name", ["miniboone", "yahoo_ltr", "scene15", "cifar10", "sensorless"])
def test_by_hand(name, tmp_path):
    with pytest.raises(InputError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert "http" in message
    assert f"{name}.csv" in message
    assert str(tmp_path / "cache") in message
    assert "\n" not in message


def test_file_fetched_by_hand(data_folder):
    (data_folder / "cifar10.csv").write_text("pixel,target\n3,cat\n4,dog\n,cat\n")
    data = datasets.load("cifar10")
    np.testing.assert_array_equal(data.X, np.array([[3], [4], [np.nan]], "float32"))
    assert data.y.tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize(
    ("name", "n_features", "labels"),
    [
        ("yahoo_ltr", 519, (0, 1, 2, 3, 4)),
        ("scene15", 184 * 15, tuple(range(15))),
        ("cifar10", 400, (0, 1)),
    ],
)
def test_files_shaped_as_the_papers_have_them(name, n_features, labels, data_folder):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, n_features)).astype(np.float32), np.resize(labels, 30)
    header = [*(f"f{at}" for at in range(n_features)), "target"]
    lines = [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(X, y, strict=True)]
    (data_folder / f"{name}.csv").write_text("\n".join([",".join(header), *lines]) + "\n")
    data = datasets.load(name)
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == y.tolist()
    assert data.feature_names == tuple(header[:-1])


def test_a_file_with_the_rows_and_columns_of_miniboone(data_folder):
    n_rows = 130_064
    columns = {f"f{at}": Column(np.arange(n_rows, dtype=np.int32)) for at in range(50)}
    labels = Column((np.arange(n_rows) < 36_499).astype(np.int8), np.array(["background", "signal"]))
    write_npz(data_folder / "miniboone.npz", columns | {"target": labels})
    data = datasets.load("miniboone")
    assert data.X.shape == (n_rows, 50)
    assert (data.y == "signal").sum() == 36_499
    write_npz(data_folder / "miniboone.npz", {name: Column(column.values[:30]) for name, column in columns.items()})
    with pytest.raises(FormatError, match="does not have the columns"):
        datasets.load("miniboone")


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/scurry"),
        ("linux", {}, "/home/me/.cache/scurry"),
        ("darwin", {}, "/home/me/Library/Caches/scurry"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/scurry/Cache"),
    ],
)
def test_cache_folder(monkeypatch, platform, variable, expected):
    for name in ("SCURRY_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.cache_folder() == Path(expected)


@given(
    st.lists(st.sampled_from(["", "?", "b", "a", "ü", "1e3"]), min_size=1),
    st.lists(st.one_of(st.integers(-99, 99).map(str), st.sampled_from(["", "?", "1e30"])), min_size=1),
)
def test_csv_cells(words, numbers):
    column = dataset_files._read_cells(words)
    if column.categories is not None:
        assert column.decode().tolist() == ["" if word == "?" else word for word in words]
        assert column.categories.tolist() == sorted(set(words) - {"", "?"})
        assert np.isnan(column.numbers()).tolist() == [word in ("", "?") for word in words]
    expected = np.array([float(cell) if cell not in ("", "?") else np.nan for cell in numbers])
    np.testing.assert_array_equal(dataset_files._read_cells(numbers).values, expected)


@given(st.permutations(["baker", "cook", "nurse", "vet"]), st.lists(st.integers(-1, 3), min_size=1))
def test_category_order_does_not_matter(categories, codes):
    column = dataset_files.sort_categories(np.array(codes, np.int8), categories)
    assert column.decode().tolist() == [categories[code] if code >= 0 else "" for code in codes]
    assert column.categories.tolist() == ["baker", "cook", "nurse", "vet"]
