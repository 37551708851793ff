"""A dataset of six rows, as files and as scurry reads it."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from scurry import datasets

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
