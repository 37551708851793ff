"""Datasets: the shipped ones, files of every kind, damaged files, and downloads from a server run here."""

import hashlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry import dataset_files, datasets
from scurry.dataset_files import Column, read_table, write_npz
from scurry.errors import FormatError, InputError, MissingDependencyError, ScurryError

TINY = pd.DataFrame(
    {
        "age": pd.array([31, 40, 25, 60, 33, 19], dtype="uint8"),
        "job-title": pd.Categorical(
            ["nurse", None, "cook", "nurse", "baker", "cook"], categories=["nurse", "cook", "baker"]
        ),
        "Dose": np.array([0.5, np.nan, 1.25, -3.0, 2.0, 1e-3], dtype="float32"),
        "person": ["a", "b", "a", "c", "c", "b"],
        "target": ["yes", "no", "no", "yes", "no", "no"],
        "split": pd.Categorical(["train", "train", "test", "train", "test", "train"]),
    }
)
TINY_FACTS = {
    "licence": "free",
    "n_rows": 6,
    "features": ["age", "job-title", "Dose"],
    "categorical": ["job-title"],
    "other_columns": ["person", "split"],
    "classes": {"no": 4, "yes": 2},
    "missing_cells": 2,
    "openml_id": 7,
    "download": "openml",
}
TINY_X = np.array(
    [[31, 2, 0.5], [40, np.nan, np.nan], [25, 1, 1.25], [60, 2, -3], [33, 0, 2], [19, 1, 1e-3]], "float32"
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No folder of this machine is looked at, unless a test says so."""
    monkeypatch.delenv("SCURRY_DATA", raising=False)
    monkeypatch.setenv("SCURRY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def catalogue(monkeypatch, tmp_path):
    """A function that makes scurry know one dataset, "tiny", with the given facts changed."""

    def know(**changes):
        folder = tmp_path / "shipped"
        folder.mkdir(exist_ok=True)
        (folder / "datasets.json").write_text(json.dumps({"tiny": TINY_FACTS | changes}))
        datasets._catalogue.cache_clear()

    monkeypatch.setattr(datasets, "_SHIPPED", tmp_path / "shipped")
    know()
    yield know
    datasets._catalogue.cache_clear()


@pytest.fixture
def data_folder(monkeypatch, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SCURRY_DATA", str(folder))
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def assert_tiny(data: datasets.Dataset, *, has_others: bool = True) -> None:
    np.testing.assert_array_equal(data.X, TINY_X)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.y.tolist() == ["yes", "no", "no", "yes", "no", "no"]
    assert data.feature_names == ("age", "job-title", "Dose")
    assert {name: values.tolist() for name, values in data.categories.items()} == {
        "job-title": ["baker", "cook", "nurse"]
    }
    assert data.licence == "free"
    if has_others:
        assert data.split.tolist() == ["train", "train", "test", "train", "test", "train"]
        assert data.extras["person"].tolist() == ["a", "b", "a", "c", "c", "b"]
        assert set(data.extras) == {"person"}
    else:
        assert data.split is None
        assert data.extras == {}


def assert_same(a: datasets.Dataset, b: datasets.Dataset) -> None:
    np.testing.assert_array_equal(a.X, b.X)
    assert a.y.dtype == b.y.dtype
    np.testing.assert_array_equal(a.y, b.y)
    assert a.feature_names == b.feature_names
    np.testing.assert_equal(dict(a.categories), dict(b.categories))
    np.testing.assert_equal(a.split, b.split)
    np.testing.assert_equal(dict(a.extras), dict(b.extras))


# What comes with the package


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
    facts = datasets._catalogue()
    with_costs = {name for name, known in facts.items() if known.costs}
    assert with_costs == {name for name in facts if name.endswith("_cost")}
    for name in with_costs:
        costs = datasets._costs(facts[name].features, facts[name].costs)
        assert (costs["feature_costs"] > 0).all()
        assert costs["groups"].max() == len(costs["group_costs"]) - 1
    heart = datasets._costs(facts["heart_cleveland_cost"].features, facts["heart_cleveland_cost"].costs)
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
    known = datasets._catalogue()
    assert len(known) == 37
    for name, facts in known.items():
        assert (facts.download is None) == bool(facts.where), name
        assert set(facts.categorical) <= set(facts.features)
        assert not set(facts.other_columns) & set(facts.features)
        assert "target" not in facts.features
        if facts.features:
            assert sum(facts.classes.values()) == facts.n_rows
            assert len(facts.sha256) == 64
        if facts.download == "openml":
            assert facts.openml_id
        if facts.download == "uci":
            assert facts.uci_id
            assert facts.uci_target["column"]


# Files


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
    column = dataset_files._column(words)
    if column.categories is not None:
        assert column.decoded().tolist() == ["" if word == "?" else word for word in words]
        assert column.categories.tolist() == sorted(set(words) - {"", "?"})
        assert np.isnan(column.numbers()).tolist() == [word in ("", "?") for word in words]
    expected = np.array([float(cell) if cell not in ("", "?") else np.nan for cell in numbers])
    np.testing.assert_array_equal(dataset_files._column(numbers).values, expected)


@given(st.permutations(["baker", "cook", "nurse", "vet"]), st.lists(st.integers(-1, 3), min_size=1))
def test_category_order_does_not_matter(categories, codes):
    column = dataset_files.categorical(np.array(codes, np.int8), categories)
    assert column.decoded().tolist() == [categories[code] if code >= 0 else "" for code in codes]
    assert column.categories.tolist() == ["baker", "cook", "nurse", "vet"]


# Matching the columns and labels of a source that spells them in its own way


def test_columns_by_name_in_any_order():
    found = datasets._match(["fLength", "job_title"], ["Job-Title", "unused", "fLength:"], "there")
    assert found == {"fLength": "fLength:", "job_title": "Job-Title"}


def test_columns_by_position_where_the_source_has_its_own_names():
    assert datasets._match(["length", "width"], ["V1", "V2"], "there") == {"length": "V1", "width": "V2"}
    marks = ["freq_;", "freq_(", "make"]
    assert datasets._match(marks, ["freq_%3B", "freq_%28", "make"], "there") == dict(
        zip(marks, ["freq_%3B", "freq_%28", "make"], strict=True)
    )


@pytest.mark.parametrize("found", [["V1"], ["V1", "length"], ["V1", "V2", "V3"]])
def test_columns_in_doubt_are_refused(found):
    with pytest.raises(FormatError, match=f"has {len(found)} feature columns, expected 2"):
        datasets._match(["length", "width"], found, "there")


def facts(**changes) -> datasets._Facts:
    return datasets._Facts(**(TINY_FACTS | changes))


def test_labels_by_spelling_or_by_count():
    classes = facts(classes={"live": 3, "die": 2, "7": 2})
    given_labels = ["LIVE", "DIE", "LIVE", "7", "LIVE", "DIE", "7"]
    labels = datasets._labels(classes, dataset_files._column(given_labels), "there")
    assert labels.tolist() == ["live", "die", "live", "7", "live", "die", "7"]
    numbers = facts(classes={"1": 1, "2": 3}, class_dtype="uint8")
    labels = datasets._labels(numbers, dataset_files._column(["sick", "well", "well", "well"]), "there")
    assert labels.dtype == np.uint8
    assert labels.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("cells", [["a", "b"], ["no"] * 4 + ["yes"], ["x", "x", "y", "y", "z", "z"]])
def test_other_classes_are_refused(cells):
    with pytest.raises(FormatError, match=f"{len(cells)} rows.*expected 6 rows with no: 4, yes: 2"):
        datasets._labels(facts(), dataset_files._column(cells), "there")


def test_nominal_numbers_become_numbers():
    column = dataset_files.categorical(np.array([0, 1, -1]), ["10", "9"])
    np.testing.assert_array_equal(
        datasets._typed("age", column, False, "there").values, np.array([10, 9, np.nan], "float32")
    )
    with pytest.raises(FormatError, match="'no' in 'age', which should be numeric"):
        datasets._typed("age", dataset_files.categorical(np.array([0]), ["no"]), False, "there")
    with pytest.raises(FormatError, match="numbers in 'job', which should be categorical"):
        datasets._typed("job", Column(np.zeros(1)), True, "there")


# Downloads, from a server of this test


ARFF = """@relation tiny
@attribute Age {19, 25, 31, 33, 40, 60}
@attribute row numeric
@attribute job_title {nurse, cook, baker}
@attribute dose numeric
@attribute outcome {NO, YES}
@data
31,1,nurse,0.5,YES
40,2,?,?,NO
25,3,cook,1.25,NO
60,4,nurse,-3.0,YES
33,5,baker,2.0,NO
19,6,cook,0.001,NO
"""
ARFF_COLUMNS = ["Age", "row", "job_title", "dose", "outcome"]


def openml_pages(arff: str, md5: str | None = None) -> dict[str, bytes]:
    """The four answers of OpenML's API from which a dataset is read."""
    description = {
        "id": "7",
        "name": "tiny",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "",
        "url": "https://www.openml.org/data/v1/download/70/tiny.arff",
        "md5_checksum": md5 or hashlib.md5(arff.encode()).hexdigest(),
    }
    columns = [
        {
            "index": str(index),
            "name": name,
            "data_type": "numeric" if name in ("row", "dose") else "nominal",
            "is_target": str(name == "outcome").lower(),
            "is_ignore": "false",
            "is_row_identifier": str(name == "row").lower(),
            "number_of_missing_values": "0",
        }
        for index, name in enumerate(ARFF_COLUMNS)
    ]
    qualities = [{"name": "NumberOfInstances", "value": str(len(arff.split("@data\n")[1].splitlines()))}]
    return {
        "/api/v1/json/data/7": json.dumps({"data_set_description": description}).encode(),
        "/api/v1/json/data/features/7": json.dumps({"data_features": {"feature": columns}}).encode(),
        "/api/v1/json/data/qualities/7": json.dumps({"data_qualities": {"quality": qualities}}).encode(),
        "/data/v1/download/70/tiny.arff": arff.encode(),
    }


@pytest.fixture
def server(monkeypatch):
    """A web server whose pages the test fills in; OpenML and UCI are asked there. Yields (pages, requested paths)."""
    pages, requested = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", lambda ask: urlopen(here + urlparse(ask.full_url).path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(dataset_files, "UCI_URL", here + "/static/public/{}/data.csv")
    yield pages, requested
    http.shutdown()
    thread.join()
    http.server_close()


def test_download_from_openml(catalogue, server, tmp_path):
    pages, requested = server
    pages |= openml_pages(ARFF)
    assert_tiny(datasets.load("tiny"), has_others=False)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tiny.npz"]
    asked = len(requested)
    assert_tiny(datasets.load("tiny"), has_others=False)
    assert len(requested) == asked


@pytest.mark.filterwarnings("ignore:Invalid cache")
def test_damaged_download_is_refused(catalogue, server, tmp_path):
    pages, _ = server
    pages |= openml_pages(ARFF, md5="0" * 32)
    with pytest.raises(FormatError, match=r"OpenML sent for dataset 7.*md5"):
        datasets.load("tiny")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("19,6,cook,0.001,NO\n", "", "5 rows with classes NO: 3, YES: 2; expected 6 rows"),
        ("0.001", "?", "3 missing cells, expected 2"),
    ],
)
def test_download_of_another_version_is_refused(catalogue, server, old, new, message):
    pages, _ = server
    pages |= openml_pages(ARFF.replace(old, new))
    with pytest.raises(FormatError, match=f"OpenML 7 has {message}"):
        datasets.load("tiny")


def test_download_from_uci(catalogue, server):
    pages, _ = server
    catalogue(
        download="uci",
        uci_id=9,
        uci_target={"column": "grade", "at_least": 3},
        other_columns=["grade"],
        classes={"0": 4, "1": 2},
        class_dtype="uint8",
    )
    table = TINY.drop(columns=["target", "split", "person"]).assign(grade=[3, 2, 0, 4, 1, 2])
    pages["/static/public/9/data.csv"] = table.to_csv(index=False).encode()
    data = datasets.load("tiny")
    np.testing.assert_array_equal(data.X, TINY_X)
    assert data.y.dtype == np.uint8
    assert data.y.tolist() == [1, 0, 0, 1, 0, 0]
    assert data.extras["grade"].tolist() == [3, 2, 0, 4, 1, 2]


@pytest.mark.parametrize("page", [b"a,b\n1\n", b"\xff\xfe\x00", b""])
def test_uci_page_that_is_no_table(catalogue, server, page):
    pages, _ = server
    catalogue(download="uci", uci_id=9, uci_target={"column": "grade"})
    pages["/static/public/9/data.csv"] = page
    with pytest.raises(FormatError, match="UCI"):
        datasets.load("tiny")


@pytest.mark.filterwarnings("ignore:A network error")
@pytest.mark.parametrize("service", ["openml", "uci"])
def test_unreachable_service(catalogue, server, service):
    catalogue(download=service, uci_id=9, uci_target={"column": "grade"})
    with pytest.raises(ScurryError, match=r"'tiny' is not on this machine and .* cannot be reached .*SCURRY_DATA"):
        datasets.load("tiny")


def test_cache_that_cannot_be_written(catalogue, server, tmp_path):
    pages, _ = server
    pages |= openml_pages(ARFF)
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(InputError, match="set SCURRY_CACHE to a folder that can be written to"):
        datasets.load("tiny")


# The real files, where they are


REAL = os.environ.get("SCURRY_DATA")
needs_files = pytest.mark.skipif(not REAL, reason="SCURRY_DATA names no folder with the real Parquet files")


@needs_files
@pytest.mark.parametrize("name", ["adult", "thyroid_ann_cost"])
def test_shipped_copies_equal_the_parquet_files(name, monkeypatch):
    shipped = datasets.load(name)
    monkeypatch.setenv("SCURRY_DATA", REAL)
    from_parquet = datasets.load(name)
    assert from_parquet.source.endswith(".parquet")
    assert_same(shipped, from_parquet)


@needs_files
@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets._catalogue()[name].sha256])
def test_real_files_are_as_described(name, monkeypatch):
    monkeypatch.setenv("SCURRY_DATA", REAL)
    known, data = datasets._catalogue()[name], datasets.load(name)
    labels, counts = np.unique(data.y, return_counts=True)
    assert dict(zip(map(str, labels), counts.tolist(), strict=True)) == known.classes
    assert np.isnan(data.X).sum() == known.missing_cells
    assert list(data.categories) == known.categorical
    assert np.isfinite(data.X[~np.isnan(data.X)]).all()
