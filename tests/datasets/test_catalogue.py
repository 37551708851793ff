"""Catalogue: what comes with the package, and sources that spell columns and labels in their own way."""

import sys

import numpy as np
import pytest

from scurry import datasets
from scurry.datasets import catalogue
from scurry.datasets import files as dataset_files
from scurry.datasets.files import Column
from scurry.errors import FormatError, InputError, MissingDependencyError
from support.tiny_dataset import TINY_FACTS


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
    labels = catalogue._labels(classes, dataset_files._read_cells(given_labels), "there")
    assert labels.tolist() == ["live", "die", "live", "7", "live", "die", "7"]
    numbers = facts(classes={"1": 1, "2": 3}, class_dtype="uint8")
    labels = catalogue._labels(numbers, dataset_files._read_cells(["sick", "well", "well", "well"]), "there")
    assert labels.dtype == np.uint8
    assert labels.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("cells", [["a", "b"], ["no"] * 4 + ["yes"], ["x", "x", "y", "y", "z", "z"]])
def test_other_classes_are_refused(cells):
    with pytest.raises(FormatError, match=f"{len(cells)} rows.*expected 6 rows with no: 4, yes: 2"):
        catalogue._labels(facts(), dataset_files._read_cells(cells), "there")


def test_nominal_numbers_become_numbers():
    column = dataset_files.sort_categories(np.array([0, 1, -1]), ["10", "9"])
    np.testing.assert_array_equal(
        catalogue._convert("age", column, False, "there").values, np.array([10, 9, np.nan], "float32")
    )
    with pytest.raises(FormatError, match="'no' in 'age', which should be numeric"):
        catalogue._convert("age", dataset_files.sort_categories(np.array([0]), ["no"]), False, "there")
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
