"""The datasets of the papers and of the examples, by name.

A dataset is looked up in the folder named by the environment variable ``SCURRY_DATA``, then in the user's cache
(``SCURRY_CACHE``, by default ``~/.cache/scurry``), then among those that come with scurry (adult, thyroid_ann_cost);
otherwise it is downloaded from OpenML or UCI into the cache. The file ``data/datasets.json`` has the checksum, size,
classes, licence and feature costs of each.

Files and services that hold datasets (Parquet, .npz, CSV, OpenML and UCI) are read as tables of named columns.
"""

from __future__ import annotations

import csv
import difflib
import functools
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.errors import FormatError, InputError, ScurryError, require_extra
from scurry.forest.files.storage import replacing

__all__ = ["Dataset", "cache_folder", "load", "names"]

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


_SHIPPED = Path(__file__).parent / "data"
_SUFFIXES = (".parquet", ".npz", ".csv")  # in this order: the checksum is known of Parquet files only


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A dataset as arrays.

    Attributes
    ----------
    name : str
    X : float32 array of shape (n_rows, n_features)
        C-ordered; categorical features as codes, NaN where a value is missing.
    y : array of shape (n_rows,)
        Labels; a regression's values, or how relevant documents are.
    feature_names : tuple of str
    categories : dict of str to array
        For each categorical feature, the values that codes 0, 1, … stand for.
    split : str array of shape (n_rows,) or None
        The source's own "train" and "test" (and "valid") rows; a downloaded copy has none.
    extras : dict of str to array
        Further columns that are not features, such as a subject id, or for a ranking the query of each row.
    feature_costs : float64 array of shape (n_features,) or None
        What a row pays at the first use of each feature, in addition to its group's cost.
    groups : int64 array of shape (n_features,) or None
        The group of each feature, -1 if it has none.
    group_costs : float64 array of shape (n_groups,) or None
        What a row pays once, at the first use of any feature of the group.
    derived_from : dict of str to tuple of str
        Features computed from others. Such a feature's cost is that of all its sources: an upper bound for a row that
        has paid for some of them.
    licence : str
    source : str
        The file it was read from.
    task : {"classification", "regression", "ranking"}
    about : str
        What is predicted, in which unit, and what classes mean.

    Examples
    --------
    >>> from scurry import datasets
    >>> thyroid = datasets.load("thyroid_ann_cost")
    >>> thyroid
    Dataset('thyroid_ann_cost', n_rows=7200, n_features=21, n_categorical=0, n_classes=3)
    >>> dict(zip(thyroid.feature_names, thyroid.feature_costs.tolist()))["TSH"], thyroid.group_costs.tolist()
    (20.68, [2.1])
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    categories: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    split: NDArray[Any] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    feature_costs: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None
    group_costs: NDArray[np.float64] | None = None
    derived_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    licence: str = ""
    source: str = ""
    task: str = "classification"
    about: str = ""

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        what = f"n_classes={len(np.unique(self.y))}" if self.task == "classification" else f"task={self.task!r}"
        return (
            f"Dataset({self.name!r}, n_rows={n_rows}, n_features={n_features}, n_categorical={len(self.categories)}, "
            f"{what})"
        )

    def frame(self) -> Any:
        """Return the features as a pandas DataFrame, categorical ones with category dtype.

        Returns
        -------
        pandas.DataFrame of shape (n_rows, n_features)
        """
        with require_extra("data", "frame()"):
            import pandas as pd
        columns: dict[str, Any] = dict(zip(self.feature_names, self.X.T, strict=True))
        for name, values in self.categories.items():
            codes = np.nan_to_num(columns[name], nan=-1).astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, values)
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class _Facts:
    """The entry of a dataset in ``datasets.json``; short if it cannot be downloaded automatically."""

    licence: str
    about: str = ""
    task: str = "classification"
    n_rows: int | None = None
    features: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    other_columns: list[str] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)
    class_dtype: str = "str"
    missing_cells: int = 0
    sha256: str | None = None
    openml_id: int | None = None
    uci_id: int | None = None
    download: str | None = None
    uci_target: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    costs: dict[str, Any] = field(default_factory=dict)


@functools.cache
def _catalogue() -> dict[str, _Facts]:
    entries = json.loads((_SHIPPED / "datasets.json").read_text(encoding="utf-8"))
    return {name: _Facts(**facts) for name, facts in entries.items()}


def names() -> list[str]:
    """Return the names that `load` knows.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from scurry import datasets
    >>> datasets.names()[:3]
    ['adult', 'covertype', 'letter']
    """
    return list(_catalogue())


def load(name: str) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the name is unknown, or the dataset has to be downloaded by hand; the message says from where.
    FormatError
        If a file is damaged, or holds another dataset than its name says.

    Examples
    --------
    >>> from scurry import datasets
    >>> adult = datasets.load("adult")
    >>> adult.X.shape, adult.feature_names[:2]
    ((48842, 14), ('age', 'workclass'))
    >>> adult.categories["workclass"][:2].tolist()
    ['Federal-gov', 'Local-gov']
    """
    facts = _catalogue().get(name)
    if facts is None:
        begun = [known for known in names() if str(name) and known.startswith(str(name))]
        near = begun or difflib.get_close_matches(str(name), names(), n=1)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(names())}"
        raise InputError(f"there is no dataset {name!r}; {hint}", argument="name")
    path = _find(name) or _download(name, facts)
    # Downloads and CSV files differ byte by byte between copies; their content is compared with the facts instead.
    if path.suffix == ".parquet" and facts.sha256 is not None:
        _check_sha256(path, facts.sha256)
    table = read_table(path)
    if path.suffix == ".csv" and facts.features:
        table = _adapt(facts, table, str(path))
    return _assemble(name, facts, table, path)


def cache_folder() -> Path:
    """Return the folder that downloads go to.

    Returns
    -------
    pathlib.Path
        ``SCURRY_CACHE`` if set, else ``scurry`` in the platform's cache folder.

    Examples
    --------
    >>> from scurry import datasets
    >>> path = datasets.cache_folder() / "letter.npz"
    >>> path.name
    'letter.npz'
    """
    if chosen := os.environ.get("SCURRY_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "scurry" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "scurry"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scurry"


def _data_folder() -> Path | None:
    chosen = os.environ.get("SCURRY_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise InputError(f"SCURRY_DATA is {chosen!r}, which is not a folder; create it, correct it or unset it")
    return folder


def _find(name: str) -> Path | None:
    folders = [folder for folder in (_data_folder(), cache_folder(), _SHIPPED) if folder is not None]
    candidates = (folder / f"{name}{suffix}" for folder in folders for suffix in _SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def _check_sha256(path: Path, expected: str) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise FormatError(
            f"{path} is damaged or another version: its sha256 is {found[:12]}…, expected {expected[:12]}…; "
            "restore it, or delete it and load again"
        )


def _download(name: str, facts: _Facts) -> Path:
    """Download a dataset and save it in the cache under scurry's column names, if it is the version scurry knows."""
    if facts.download is None:
        raise InputError(
            f"{name!r} has to be downloaded by hand: get it from {facts.where} and save it as {name}.csv (with a "
            f"header line, and labels in a column 'target') in {_data_folder() or cache_folder()}"
        )
    service = f"OpenML {facts.openml_id}" if facts.download == "openml" else f"UCI {facts.uci_id}"
    try:
        table = _fetch(facts)
    except OSError as error:
        raise ScurryError(
            f"{name!r} is not on this machine and {service} cannot be reached ({error}); "
            f"go online, or set SCURRY_DATA to a folder with {name}.parquet"
        ) from error
    path = cache_folder() / f"{name}.npz"
    adapted = _adapt(facts, table, service)
    try:
        write_npz(path, adapted)
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error}); set SCURRY_CACHE to a folder that can be written to"
        ) from error
    return path


def _fetch(facts: _Facts) -> Table:
    if facts.download == "openml" and facts.openml_id is not None:
        return fetch_openml(facts.openml_id)
    table = fetch_uci(facts.uci_id or 0)
    source, at_least = facts.uci_target["column"], facts.uci_target.get("at_least")
    if source in table:
        column = table[source] if source in facts.other_columns else table.pop(source)
        table["target"] = column if at_least is None else Column((column.values >= at_least).astype(np.uint8))
    return table


def _adapt(facts: _Facts, table: Table, source: str) -> Table:
    """Return the columns of `table` under scurry's names and in its order; FormatError if it is another dataset."""
    if "target" not in table:
        raise FormatError(f"{source} has no column of labels among {', '.join(table)}")
    others = {name: table[name] for name in facts.other_columns if name in table}
    rest = {name: column for name, column in table.items() if name != "target" and name not in others}
    features = _match(facts.features, list(rest), source)
    adapted: Table = {
        name: _convert(name, rest[found], name in facts.categorical, source) for name, found in features.items()
    }
    missing = sum(int(np.isnan(column.numbers()).sum()) for column in adapted.values())
    if missing != facts.missing_cells:
        raise FormatError(
            f"{source} has {missing} missing cells, expected {facts.missing_cells}; it is another version"
        )
    target = table["target"]
    if facts.task == "classification":
        target = Column(_labels(facts, target, source))
    elif target.categories is not None:
        raise FormatError(f"{source} has text in 'target', which should be numeric; it is another version")
    return adapted | {"target": target} | others


def _match(features: list[str], found: list[str], source: str) -> dict[str, str]:
    """Return the column of each feature: matched by name, or by position where the source has names of its own."""
    wanted, plain = [_plain(name) for name in features], [_plain(name) for name in found]
    if set(wanted) <= set(plain) and len(set(wanted)) == len(wanted) and len(set(plain)) == len(plain):
        return dict(zip(features, (found[plain.index(name)] for name in wanted), strict=True))
    out_of_place = [name for name, here in zip(plain, wanted, strict=False) if name != here and name in wanted]
    if len(found) != len(features) or out_of_place:
        absent = [name for name, key in zip(features, wanted, strict=True) if key not in plain]
        raise FormatError(
            f"{source} has {len(found)} feature columns, expected {len(features)}; "
            f"not found: {', '.join(absent[:8])}{', …' if len(absent) > 8 else ''}"
        )
    return dict(zip(features, found, strict=True))


def _plain(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.casefold())


def _convert(name: str, column: Column, is_categorical: bool, source: str) -> Column:
    """Return the column as codes or as numbers, as the catalogue has it; some sources call small numbers nominal."""
    if is_categorical == (column.categories is not None):
        return column
    if is_categorical or column.categories is None:
        raise FormatError(f"{source} has numbers in {name!r}, which should be categorical; it is another version")
    try:
        numbers = np.append(column.categories.astype(np.float32), np.float32(np.nan))
    except ValueError as error:
        raise FormatError(f"{source} has {str(column.categories[0])!r} in {name!r}, which should be numeric") from error
    return Column(numbers.take(column.values))


def _labels(facts: _Facts, column: Column, source: str) -> NDArray[Any]:
    """Return labels in scurry's spelling: the same text, or else the class with the same number of rows."""
    values, codes, counts = np.unique(column.decode(), return_inverse=True, return_counts=True)
    # Sources number or rename classes, but a class has the same number of rows everywhere.
    spelled = {label.casefold(): label for label in facts.classes}
    counted = {count: label for label, count in facts.classes.items()}
    labels = [
        spelled.get(f"{value:g}" if column.categories is None else value.casefold()) or counted.get(int(count))
        for value, count in zip(values, counts, strict=True)
    ]
    if {label: int(count) for label, count in zip(labels, counts, strict=True)} != facts.classes:
        found = ", ".join(f"{value}: {count}" for value, count in zip(values[:8], counts[:8], strict=True))
        raise FormatError(
            f"{source} has {counts.sum()} rows with classes {found}; expected {facts.n_rows} rows with "
            f"{', '.join(f'{label}: {count}' for label, count in facts.classes.items())}"
        )
    known = np.array(labels, dtype=np.str_)
    return known.astype(facts.class_dtype)[codes]


def _assemble(name: str, facts: _Facts, table: Table, path: Path) -> Dataset:
    features = [column for column in table if column != "target" and column not in facts.other_columns]
    if "target" not in table or (facts.features and features != facts.features):
        raise FormatError(f"{path} does not have the columns of {name!r}; restore it, or delete it and load again")
    y = table["target"].decode()
    if facts.n_rows not in (None, len(y)):
        raise FormatError(f"{path} has {len(y)} rows, {name!r} has {facts.n_rows}; delete it and load again")
    X = np.empty((len(y), len(features)), np.float32)
    for j, feature in enumerate(features):
        X[:, j] = table[feature].numbers()
    return Dataset(
        name=name,
        X=X,
        y=y,
        feature_names=tuple(features),
        categories={f: values for f in features if (values := table[f].categories) is not None},
        split=table["split"].decode() if "split" in facts.other_columns and "split" in table else None,
        extras={c: table[c].decode() for c in facts.other_columns if c in table and c != "split"},
        licence=facts.licence,
        source=str(path),
        task=facts.task,
        about=facts.about,
        **(_costs(features, facts.costs) if facts.costs else {}),
    )


def _costs(features: list[str], costs: Mapping[str, Any]) -> dict[str, Any]:
    derived: dict[str, list[str]] = costs["derived"]
    own: dict[str, float] = costs["features"]
    feature_costs = [sum(own[source] for source in derived[f]) if f in derived else own[f] for f in features]
    groups = np.full(len(features), -1, np.int64)
    for index, group in enumerate(costs["groups"].values()):
        for j, feature in enumerate(features):
            if not set(group["features"]).isdisjoint(derived.get(feature, [feature])):
                groups[j] = index
    return {
        "feature_costs": np.array(feature_costs),
        "groups": groups,
        "group_costs": np.array([group["cost"] for group in costs["groups"].values()]),
        "derived_from": {feature: tuple(sources) for feature, sources in derived.items()},
    }
