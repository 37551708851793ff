"""The real files, where they are: checks of data, not of code, whose tests run on shipped and on tiny files."""

import os

import numpy as np
import pytest

from scurry import datasets
from scurry import datasets as catalogue
from support.tiny_dataset import assert_same

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
@pytest.mark.parametrize("name", [name for name in datasets.names() if catalogue._catalogue()[name].sha256])
def test_real_files_are_as_described(name, monkeypatch):
    monkeypatch.setenv("SCURRY_DATA", REAL)
    known, data = catalogue._catalogue()[name], datasets.load(name)
    labels, counts = np.unique(data.y, return_counts=True)
    if known.task == "classification":
        assert dict(zip(map(str, labels), counts.tolist(), strict=True)) == known.classes
    assert data.task == known.task
    assert ("query" in data.extras) == (known.task == "ranking")
    assert np.isnan(data.X).sum() == known.missing_cells
    assert list(data.categories) == known.categorical
    assert np.isfinite(data.X[~np.isnan(data.X)]).all()
