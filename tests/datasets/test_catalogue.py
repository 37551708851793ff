"""Catalogue: what comes with the package, and sources that spell columns and labels in their own way.

Files of every kind, damaged ones among them, and where they are looked for.
"""

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
from scurry import datasets as catalogue
from scurry.datasets import Column, read_table, write_npz
from scurry.errors import FormatError, InputError, MissingDependencyError
from support.tiny_dataset import TINY, TINY_FACTS, assert_same, assert_tiny, sha256


def test_adult_is_uci_adult():
    adult = datasets.load("adult")
    assert repr(adult) == "Dataset('adult', n_rows=48842, n_features=14, n_categorical=8, n_classes=2)"
    first = (
        "39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,United-States"
    )
    shown = [
        str(adult.categories[name][int(value)]) if name in adult.categories else f"{value:g}"
        for name, value in zip(adult.feature_names, adult.X[0].tolist(), strict=True)
    ]
    assert ",".join(shown) == first
    assert dict(zip(*np.unique(adult.y, return_counts=True), strict=True)) == {"<=50K": 37155, ">50K": 11687}
    assert dict(zip(*np.unique(adult.split, return_counts=True), strict=True)) == {"train": 32561, "test": 16281}
    missing = np.isnan(adult.X).sum(axis=0)
    named = dict(zip(adult.feature_names, missing.tolist(), strict=True))
    assert {name: count for name, count in named.items() if count} == {
        "workclass": 2799,
        "occupation": 2809,
        "native_country": 857,
    }
    assert adult.feature_costs is None


def test_thyroid_costs_are_turneys():
    data = datasets.load("thyroid_ann_cost")
    assert np.bincount(data.y).tolist() == [0, 166, 368, 6666]
    cost = dict(zip(data.feature_names, data.feature_costs, strict=True))
    group = dict(zip(data.feature_names, data.groups, strict=True))
    assert data.group_costs.tolist() == [2.1]
    alone = {name: round(cost[name] + (data.group_costs[group[name]] if group[name] >= 0 else 0), 2) for name in cost}
    assert {n: alone[n] for n in ("age", "TSH", "T3", "TT4", "T4U")} == {
        "age": 1.0,
        "TSH": 22.78,
        "T3": 11.41,
        "TT4": 14.51,
        "T4U": 11.41,
    }
    assert data.derived_from == {"FTI": ("TT4", "T4U")}
    assert cost["FTI"] == pytest.approx(cost["TT4"] + cost["T4U"])
    assert group["FTI"] == group["TT4"] == 0


def test_every_cost_is_complete():
    facts = catalogue._catalogue()
    with_costs = {name for name, known in facts.items() if known.costs}
    assert with_costs == {name for name in facts if name.endswith("_cost")}
    for name in with_costs:
        costs = catalogue._costs(facts[name].features, facts[name].costs)
        assert (costs["feature_costs"] > 0).all()
        assert costs["groups"].max() == len(costs["group_costs"]) - 1
    heart = catalogue._costs(facts["heart_cleveland_cost"].features, facts["heart_cleveland_cost"].costs)
    assert heart["group_costs"].tolist() == [2.1, 101.9, 86.3]
    assert heart["groups"].tolist() == [-1, -1, -1, -1, 0, 0, -1, 1, 2, 2, 2, -1, 1]


def test_shipped_data_needs_no_optional_package(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet", "pandas", "sklearn"):
        monkeypatch.setitem(sys.modules, name, None)
    data = datasets.load("adult")
    assert data.X.shape == (48842, 14)
    with pytest.raises(MissingDependencyError, match=r'pip install "scurry\[data\]"'):
        data.frame()


def test_catalogue_is_consistent():
    known = catalogue._catalogue()
    assert len(known) == 40
    for name, facts in known.items():
        assert (facts.download is None) == bool(facts.where), name
        assert set(facts.categorical) <= set(facts.features)
        assert not set(facts.other_columns) & set(facts.features)
        assert "target" not in facts.features
        assert facts.about, name
        assert facts.task in ("classification", "regression", "ranking")
        if facts.features:
            assert sum(facts.classes.values()) == (facts.n_rows if facts.task == "classification" else 0)
            assert len(facts.sha256) == 64
        if facts.download == "openml":
            assert facts.openml_id
        if facts.download == "uci":
            assert facts.uci_id
            assert facts.uci_target["column"]


def test_columns_by_name_in_any_order():
    found = catalogue._match(["fLength", "job_title"], ["Job-Title", "unused", "fLength:"], "there")
    assert found == {"fLength": "fLength:", "job_title": "Job-Title"}


def test_columns_by_position_where_the_source_has_its_own_names():
    assert catalogue._match(["length", "width"], ["V1", "V2"], "there") == {"length": "V1", "width": "V2"}
    marks = ["freq_;", "freq_(", "make"]
    assert catalogue._match(marks, ["freq_%3B", "freq_%28", "make"], "there") == dict(
        zip(marks, ["freq_%3B", "freq_%28", "make"], strict=True)
    )


@pytest.mark.parametrize("found", [["V1"], ["V1", "length"], ["V1", "V2", "V3"]])
def test_columns_in_doubt_are_refused(found):
    with pytest.raises(FormatError, match=f"has {len(found)} feature columns, expected 2"):
        catalogue._match(["length", "width"], found, "there")


def facts(**changes) -> catalogue._Facts:
    return catalogue._Facts(**(TINY_FACTS | changes))


def test_labels_by_spelling_or_by_count():
    classes = facts(classes={"live": 3, "die": 2, "7": 2})
    given_labels = ["LIVE", "DIE", "LIVE", "7", "LIVE", "DIE", "7"]
    labels = catalogue._labels(classes, catalogue._read_cells(given_labels), "there")
    assert labels.tolist() == ["live", "die", "live", "7", "live", "die", "7"]
    numbers = facts(classes={"1": 1, "2": 3}, class_dtype="uint8")
    labels = catalogue._labels(numbers, catalogue._read_cells(["sick", "well", "well", "well"]), "there")
    assert labels.dtype == np.uint8
    assert labels.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("cells", [["a", "b"], ["no"] * 4 + ["yes"], ["x", "x", "y", "y", "z", "z"]])
def test_other_classes_are_refused(cells):
    with pytest.raises(FormatError, match=f"{len(cells)} rows.*expected 6 rows with no: 4, yes: 2"):
        catalogue._labels(facts(), catalogue._read_cells(cells), "there")


def test_nominal_numbers_become_numbers():
    column = catalogue.sort_categories(np.array([0, 1, -1]), ["10", "9"])
    np.testing.assert_array_equal(
        catalogue._convert("age", column, False, "there").values, np.array([10, 9, np.nan], "float32")
    )
    with pytest.raises(FormatError, match="'no' in 'age', which should be numeric"):
        catalogue._convert("age", catalogue.sort_categories(np.array([0]), ["no"]), False, "there")
    with pytest.raises(FormatError, match="numbers in 'job', which should be categorical"):
        catalogue._convert("job", Column(np.zeros(1)), True, "there")


def test_the_beginning_of_a_name_finds_it():
    with pytest.raises(InputError, match="did you mean 'heart_statlog' or 'heart_cleveland_cost'"):
        datasets.load("heart")
    with pytest.raises(InputError, match="did you mean 'thyroid_ann_cost'"):
        datasets.load("thyroid")


def test_a_regression_has_values_and_no_classes(monkeypatch, tmp_path):
    facts = catalogue._Facts(licence="", task="regression", n_rows=2, features=["a"], about="a price in dollars")
    monkeypatch.setattr(catalogue, "_catalogue", lambda: {"prices": facts})
    monkeypatch.setenv("SCURRY_DATA", str(tmp_path))
    (tmp_path / "prices.csv").write_text("a,target\n1,0.5\n2,1.5\n")
    data = datasets.load("prices")
    assert repr(data) == "Dataset('prices', n_rows=2, n_features=1, n_categorical=0, task='regression')"
    assert data.y.tolist() == [0.5, 1.5]
    assert data.about == "a price in dollars"
    (tmp_path / "prices.csv").write_text("a,target\n1,low\n2,high\n")
    with pytest.raises(FormatError, match="text in 'target'"):
        datasets.load("prices")


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
    column = catalogue._read_cells(words)
    if column.categories is not None:
        assert column.decode().tolist() == ["" if word == "?" else word for word in words]
        assert column.categories.tolist() == sorted(set(words) - {"", "?"})
        assert np.isnan(column.numbers()).tolist() == [word in ("", "?") for word in words]
    expected = np.array([float(cell) if cell not in ("", "?") else np.nan for cell in numbers])
    np.testing.assert_array_equal(catalogue._read_cells(numbers).values, expected)


@given(st.permutations(["baker", "cook", "nurse", "vet"]), st.lists(st.integers(-1, 3), min_size=1))
def test_category_order_does_not_matter(categories, codes):
    column = catalogue.sort_categories(np.array(codes, np.int8), categories)
    assert column.decode().tolist() == [categories[code] if code >= 0 else "" for code in codes]
    assert column.categories.tolist() == ["baker", "cook", "nurse", "vet"]
