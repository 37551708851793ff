"""Fragments: the files of a data set that is too large for memory, read as Arrow record batches."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from scurry.errors import FormatError, InputError, ScurryError, require_extra

SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz", ".arrow", ".ipc", ".feather")
ChooseColumns = Callable[[list[str]], list[str]]
Source = str | PathLike[str] | Sequence[str | PathLike[str]]


def arrow() -> Any:
    """Return the pyarrow package, which is an optional dependency."""
    with require_extra("batch", "reading files"):
        import pyarrow
    return pyarrow


@dataclass(frozen=True)
class Fragment:
    """One input file.

    Attributes
    ----------
    path : Path
    name : str
        Path relative to the folder that was searched. Messages use it, and the output file is named after it.
    """

    path: Path
    name: str

    def absolute(self) -> Fragment:
        """Return the same fragment with an absolute path, for processes with another working folder."""
        return replace(self, path=self.path.absolute())

    @property
    def n_bytes(self) -> int:
        """Size of the file in bytes."""
        return self.path.stat().st_size

    @property
    def output_name(self) -> str:
        """Path of the output file relative to the output folder."""
        return self.name if self.name.endswith(".parquet") else f"{self.name}.parquet"


def find(source: Source) -> list[Fragment]:
    """Find the files that `source` names.

    Parameters
    ----------
    source : str, path, or sequence of them
        A file, a folder (searched for files with a known suffix), or a pattern such as ``"rows/*.parquet"``.

    Returns
    -------
    list of Fragment
        Sorted by name.
    """
    sources = [source] if isinstance(source, str | PathLike) else list(source) if isinstance(source, Iterable) else []
    # An empty name would be the current folder, and so everything below it.
    if not sources or not all(isinstance(one, str | PathLike) and fspath(one) for one in sources):
        raise InputError(f"source must name files, folders or patterns, got {source!r}", argument="source")
    fragments = [fragment for one in sources for fragment in _find_one(fspath(one))]
    by_output: dict[str, Fragment] = {}
    for fragment in fragments:
        other = by_output.setdefault(fragment.output_name, fragment)
        if other.path != fragment.path:
            raise InputError(
                f"{other.path} and {fragment.path} would both be written to {fragment.output_name}; "
                "score them into different folders",
                argument="source",
            )
    return [by_output[name] for name in sorted(by_output)]


def _find_one(source: str) -> list[Fragment]:
    path = Path(source)
    if path.is_file():
        return [Fragment(path, path.name)]
    if path.is_dir():
        # Spark and Dask write markers such as _SUCCESS and .crc files next to their tables.
        files = [f for f in path.rglob("*") if f.is_file() and _suffix(f) and not f.name.startswith((".", "_"))]
        if not files:
            raise InputError(f"folder {source} holds no file that ends in {', '.join(SUFFIXES)}", argument="source")
        return [Fragment(f, f.relative_to(path).as_posix()) for f in files]
    matches = [Path(match) for match in glob.glob(source, recursive=True)]
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InputError(
            f"no file matches {source!r}; give a file, a folder or a pattern such as 'rows/*.parquet'",
            argument="source",
        )
    # Names start at the first wildcard, so that files of the same name in different folders stay apart.
    folders = Path(source).parts[:-1]
    fixed = Path(*takewhile(lambda folder: not any(c in folder for c in "*?["), folders))
    return [Fragment(f, f.relative_to(fixed).as_posix()) for f in files]


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


@dataclass(frozen=True)
class Reader:
    """An open fragment.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the columns that are read.
    batches : iterable of pyarrow.RecordBatch
    n_rows : int or None
        Number of rows, None if the format does not store it.
    """

    schema: Any
    batches: Iterable[Any]
    n_rows: int | None


@contextmanager
def open_fragment(
    fragment: Fragment,
    *,
    n_rows_per_batch: int,
    columns: ChooseColumns,
    float_columns: Collection[str],
    text_columns: Collection[str] = (),
    null_texts: Collection[str] | None = None,
) -> Iterator[Reader]:
    """Open a fragment for reading in batches, in memory that does not grow with its size.

    Parameters
    ----------
    fragment : Fragment
    n_rows_per_batch : int
        Largest number of rows per batch of a Parquet file. Batches of other formats have the size in which they were
        written or parsed.
    columns : callable
        Called with the names of the file's columns; returns those to read.
    float_columns : collection of str
        Columns of a CSV file to parse as float64. Arrow would guess the type from the first rows, and fail on a later
        1.5 if those hold whole numbers only.
    text_columns : collection of str
        Columns of a CSV file to leave as text, where Arrow would make a number of "007".
    null_texts : collection of str, optional
        What stands for a missing value in a CSV file; by default what Arrow knows.

    Yields
    ------
    Reader

    Raises
    ------
    InputError
        If the file has none of the known suffixes.
    FormatError
        If the file is truncated or does not have the format of its suffix; also while batches are read.
    """
    suffix = _suffix(fragment.path)
    if suffix is None:
        raise InputError(f"{fragment.name} has none of the known suffixes {', '.join(SUFFIXES)}", argument="source")
    openers = {".parquet": _open_parquet, ".pq": _open_parquet, ".csv": _open_csv, ".csv.gz": _open_csv}
    open_file = openers.get(suffix, _open_ipc)
    # A stack, because errors of the caller's block are not about this file and must pass unchanged.
    with ExitStack() as stack:
        types = dict.fromkeys(float_columns, arrow().float64()) | dict.fromkeys(text_columns, arrow().string())
        with convert_errors(fragment):
            reader = stack.enter_context(open_file(fragment.path, n_rows_per_batch, columns, types, null_texts))
        yield replace(reader, batches=_convert_batch_errors(fragment, reader.batches))


@contextmanager
def convert_errors(fragment: Fragment) -> Iterator[None]:
    """Turn errors of Arrow and of the operating system into a `FormatError` that names the file."""
    try:
        yield
    # pyarrow raises plain KeyErrors and UnicodeErrors too. What scurry raises names the file's mistake already.
    except (arrow().ArrowException, OSError, LookupError, UnicodeError) as error:
        if isinstance(error, ScurryError):
            raise
        reason = " ".join(str(error).split())
        raise FormatError(f"{fragment.name} cannot be read: {reason}") from error


def _convert_batch_errors(fragment: Fragment, batches: Iterable[Any]) -> Iterator[Any]:
    iterator = iter(batches)
    while True:
        with convert_errors(fragment):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _open_parquet(
    path: Path,
    n_rows_per_batch: int,
    columns: ChooseColumns,
    types: Mapping[str, Any],
    null_texts: Collection[str] | None,
) -> Iterator[Reader]:
    import pyarrow.parquet as pq

    # pre_buffer would hold whole row groups in memory; and the cores are busy with scoring, so Arrow gets no threads.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        wanted = columns(file.schema_arrow.names)
        schema = arrow().schema([file.schema_arrow.field(name) for name in wanted])
        batches = file.iter_batches(n_rows_per_batch, columns=wanted, use_threads=False)
        yield Reader(schema, (batch.select(wanted) for batch in batches), file.metadata.num_rows)


@contextmanager
def _open_csv(
    path: Path,
    n_rows_per_batch: int,
    columns: ChooseColumns,
    types: Mapping[str, Any],
    null_texts: Collection[str] | None,
) -> Iterator[Reader]:
    from pyarrow import csv

    # Opened once for the names of the columns: Arrow needs their types before it parses.
    null_values = None if null_texts is None else sorted(null_texts)
    with csv.open_csv(path, convert_options=csv.ConvertOptions(null_values=null_values)) as head:
        schema, wanted = head.schema, columns(head.schema.names)
    # Numbers may also be written as booleans, which are no floats to Arrow.
    booleans = {field.name for field in schema if arrow().types.is_boolean(field.type)}
    known = {
        name: arrow().bool_() if name in booleans and types[name] == arrow().float64() else types[name]
        for name in schema.names
        if name in types
    }
    options = csv.ConvertOptions(
        include_columns=wanted, column_types=known, null_values=null_values, strings_can_be_null=True
    )
    with csv.open_csv(path, convert_options=options) as reader:
        yield Reader(reader.schema, reader, None)


@contextmanager
def _open_ipc(
    path: Path,
    n_rows_per_batch: int,
    columns: ChooseColumns,
    types: Mapping[str, Any],
    null_texts: Collection[str] | None,
) -> Iterator[Reader]:
    pa = arrow()
    with pa.memory_map(str(path)) as stream:
        # Both forms of Arrow IPC use the same suffixes; only the file form can be opened at its end.
        try:
            file = pa.ipc.open_file(stream)
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
        except pa.ArrowInvalid:
            stream.seek(0)
            file = pa.ipc.open_stream(stream)
            batches = iter(file)
        wanted = columns(file.schema.names)
        schema = pa.schema([file.schema.field(name) for name in wanted])
        yield Reader(schema, (batch.select(wanted) for batch in batches), None)
