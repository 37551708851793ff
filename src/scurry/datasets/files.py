"""Tables of named columns, from the files and services that hold datasets: Parquet, .npz, CSV, OpenML and UCI."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.errors import FormatError, require_extra
from scurry.forest.files.storage import replacing

UCI_URL = "https://archive.ics.uci.edu/static/public/{}/data.csv"
_TIMEOUT_SECONDS = 60
_MISSING = ("", "?")  # UCI's files write a missing value as a question mark


class Column(NamedTuple):
    """Numbers, or codes of sorted `categories` with -1 where a value is missing."""

    values: NDArray[Any]
    categories: NDArray[np.str_] | None = None

    def numbers(self) -> NDArray[np.float32]:
        """Return the numbers or codes, NaN where missing."""
        numbers = self.values.astype(np.float32)
        if self.categories is not None:
            numbers[self.values < 0] = np.nan
        return numbers

    def decode(self) -> NDArray[Any]:
        """Return the numbers or category values, "" where missing."""
        return self.values if self.categories is None else np.append(self.categories, "").take(self.values)


Table = dict[str, Column]


def sort_categories(codes: NDArray[Any], categories: ArrayLike) -> Column:
    """Return a column whose codes refer to `categories` in any order; they are sorted."""
    values = np.asarray(categories, dtype=np.str_)
    order = np.argsort(values)
    rank = np.append(np.argsort(order), -1).astype(codes.dtype)
    return Column(rank.take(codes), values[order])


def read_table(path: Path) -> Table:
    """Read a dataset's file; one that cannot be read raises `FormatError`."""
    try:
        match path.suffix:
            case ".parquet":
                return _read_parquet(path)
            case ".npz":
                return _read_npz(path)
            case _:
                return _read_csv(path.read_bytes())
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, csv.Error) as error:
        raise FormatError(f"{path} cannot be read ({error}); restore it, or delete it and load again") from error


def write_npz(path: Path, table: Table) -> None:
    """Write `table` as compressed arrays in one move: a reader sees the old file or the new one."""
    arrays: dict[str, Any] = {f"values/{name}": column.values for name, column in table.items()}
    arrays |= {f"categories/{name}": c.categories for name, c in table.items() if c.categories is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, ".npz") as temporary:
        np.savez_compressed(temporary, **arrays)


def fetch_openml(data_id: int) -> Table:
    """Download a dataset from OpenML, whose checksum is verified; its labels become the column "target"."""
    with require_extra("fit", "downloading from OpenML"):
        from sklearn.datasets import fetch_openml

    # Not in scikit-learn's own cache: what is downloaded is saved once, in scurry's.
    with tempfile.TemporaryDirectory() as folder:
        try:
            bunch = fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", data_home=folder)
        except (ValueError, KeyError) as error:
            raise FormatError(f"what OpenML sent for dataset {data_id} cannot be used: {error}") from error
    table: Table = {}
    for name, column in zip(bunch.feature_names, bunch.data.T, strict=True):
        if name in bunch.categories:
            codes = np.where(np.isnan(column), -1, column).astype(np.int16)
            table[name] = sort_categories(codes, bunch.categories[name])
        else:
            table[name] = Column(column.astype(np.float32))
    table["target"] = _read_cells([str(label) for label in bunch.target])
    return table


def fetch_uci(uci_id: int) -> Table:
    """Download a dataset's ``data.csv`` from the UCI repository."""
    from urllib.request import urlopen

    with urlopen(UCI_URL.format(uci_id), timeout=_TIMEOUT_SECONDS) as response:
        content: bytes = response.read()
    try:
        return _read_csv(content)
    except (ValueError, csv.Error) as error:
        raise FormatError(f"what UCI sent for dataset {uci_id} is not a table: {error}") from error


def _read_parquet(path: Path) -> Table:
    with require_extra("data", f"reading {path}"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    table: Table = {}
    for name, column in zip((source := pq.read_table(path)).column_names, source.columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.dictionary_encode()
        if pa.types.is_dictionary(column.type):
            encoded = column.unify_dictionaries().combine_chunks()
            table[name] = sort_categories(encoded.indices.fill_null(-1).to_numpy(), encoded.dictionary.to_pylist())
        else:
            table[name] = Column(column.to_numpy())
    return table


def _read_npz(path: Path) -> Table:
    with np.load(path, allow_pickle=False) as archive:
        names = [key.removeprefix("values/") for key in archive.files if key.startswith("values/")]
        return {
            name: Column(
                archive[f"values/{name}"],
                archive[f"categories/{name}"] if f"categories/{name}" in archive.files else None,
            )
            for name in names
        }


def _read_csv(content: bytes) -> Table:
    header, *rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if row]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}")
    return {
        name.strip(): _read_cells([cell.strip() for cell in cells])
        for name, cells in zip(header, zip(*rows, strict=True), strict=True)
    }


def _read_cells(cells: list[str]) -> Column:
    """Return numbers if all cells are numbers, else categories."""
    try:
        return Column(np.array(["nan" if cell in _MISSING else cell for cell in cells]).astype(np.float64))
    except ValueError:
        values, codes = np.unique(cells, return_inverse=True)
        present = ~np.isin(values, _MISSING)
        rank = np.where(present, np.cumsum(present) - 1, -1)
        return Column(rank[codes], values[present])
