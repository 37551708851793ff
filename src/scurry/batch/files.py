"""Fragments: the files of a data set that is too large to hold, read as Arrow record batches."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from scurry.errors import FormatError, InputError, MissingDependencyError

SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz", ".arrow", ".ipc", ".feather")
Choose = Callable[[list[str]], list[str]]
Source = str | PathLike[str] | Sequence[str | PathLike[str]]


def arrow() -> Any:
    """The pyarrow package."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError("reading files needs pyarrow: pip install 'scurry[batch]'") from error
    return pyarrow


@dataclass(frozen=True)
class Fragment:
    """One input file.

    Attributes
    ----------
    path : Path
    name : str
        Its path below the folder that was asked for; what messages call it and what its output is called after.
    """

    path: Path
    name: str

    def absolute(self) -> Fragment:
        """The same file for processes that run elsewhere."""
        return replace(self, path=self.path.absolute())

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    @property
    def output_name(self) -> str:
        """Where its output goes, below the output folder."""
        return self.name if self.name.endswith(".parquet") else f"{self.name}.parquet"


def find(source: Source) -> list[Fragment]:
    """The files meant by `source`: a file, a folder (searched for known suffixes), a glob, or a list of them.

    Parameters
    ----------
    source : str, path, or sequence of them

    Returns
    -------
    list of Fragment
        Sorted by name.
    """
    if isinstance(source, str | PathLike):
        fragments = _find_one(fspath(source))
    else:
        fragments = [fragment for one in source for fragment in _find_one(fspath(one))]
    by_output: dict[str, Fragment] = {}
    for fragment in fragments:
        other = by_output.setdefault(fragment.output_name, fragment)
        if other.path != fragment.path:
            raise InputError(
                f"{other.path} and {fragment.path} would both be written to {fragment.output_name}; "
                "score them into different folders"
            )
    return [by_output[name] for name in sorted(by_output)]


def _find_one(source: str) -> list[Fragment]:
    path = Path(source)
    if path.is_file():
        return [Fragment(path, path.name)]
    if path.is_dir():
        files = [f for f in path.rglob("*") if f.is_file() and _suffix(f) and not f.name.startswith((".", "_"))]
        if not files:
            raise InputError(f"folder {source} holds no file that ends in {', '.join(SUFFIXES)}")
        return [Fragment(f, f.relative_to(path).as_posix()) for f in files]
    matches = [Path(match) for match in glob.glob(source, recursive=True)]
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InputError(f"no file matches {source!r}; give a file, a folder or a pattern such as 'rows/*.parquet'")
    fixed = Path(*_fixed_parts(Path(source)))
    return [Fragment(f, f.relative_to(fixed).as_posix()) for f in files]


def _fixed_parts(pattern: Path) -> Iterator[str]:
    for part in pattern.parts[:-1]:
        if any(c in part for c in "*?["):
            return
        yield part


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


@dataclass(frozen=True)
class Reader:
    """An opened fragment."""

    schema: Any
    batches: Iterable[Any]
    n_rows: int | None


@contextmanager
def opened(
    fragment: Fragment, *, n_rows_per_batch: int, columns: Choose, float_columns: Collection[str]
) -> Iterator[Reader]:
    """Open a fragment for reading in batches, in memory that does not grow with its size.

    Parameters
    ----------
    fragment : Fragment
    n_rows_per_batch : int
        At most this many rows per batch of a Parquet file; the other formats come as they were written or parsed.
    columns : callable
        From the names of the file's columns to those that are to be read.
    float_columns : collection of str
        Columns of a CSV file that hold numbers: the first rows may look whole where later ones are not.

    Raises
    ------
    FormatError
        While reading too, if the file is not what its suffix says or is truncated.
    """
    suffix = _suffix(fragment.path)
    if suffix is None:
        raise InputError(f"{fragment.name} has none of the known suffixes {', '.join(SUFFIXES)}")
    open_file = {".parquet": _parquet, ".pq": _parquet, ".csv": _csv, ".csv.gz": _csv}.get(suffix, _ipc)
    with ExitStack() as stack:
        with naming(fragment):
            reader = stack.enter_context(open_file(fragment.path, n_rows_per_batch, columns, float_columns))
        yield replace(reader, batches=_guarded(fragment, reader.batches))


@contextmanager
def naming(fragment: Fragment) -> Iterator[None]:
    """Turn what Arrow or the system finds wrong with a file into an error that names it."""
    try:
        yield
    except (arrow().ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"{fragment.name} cannot be read: {reason}") from error


def _guarded(fragment: Fragment, batches: Iterable[Any]) -> Iterator[Any]:
    iterator = iter(batches)
    while True:
        with naming(fragment):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _parquet(path: Path, n_rows_per_batch: int, columns: Choose, float_columns: Collection[str]) -> Iterator[Reader]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        wanted = columns(file.schema_arrow.names)
        schema = arrow().schema([file.schema_arrow.field(name) for name in wanted])
        batches = file.iter_batches(n_rows_per_batch, columns=wanted, use_threads=False)
        yield Reader(schema, (batch.select(wanted) for batch in batches), file.metadata.num_rows)


@contextmanager
def _csv(path: Path, n_rows_per_batch: int, columns: Choose, float_columns: Collection[str]) -> Iterator[Reader]:
    from pyarrow import csv

    pa = arrow()
    with csv.open_csv(path) as head:
        names, wanted = head.schema.names, columns(head.schema.names)
    numbers = {name: pa.float64() for name in names if name in float_columns}
    options = csv.ConvertOptions(include_columns=wanted, column_types=numbers, strings_can_be_null=True)
    with csv.open_csv(path, convert_options=options) as reader:
        yield Reader(reader.schema, reader, None)


@contextmanager
def _ipc(path: Path, n_rows_per_batch: int, columns: Choose, float_columns: Collection[str]) -> Iterator[Reader]:
    pa = arrow()
    with pa.memory_map(str(path)) as stream:
        try:
            file = pa.ipc.open_file(stream)
            batches, n_rows = (file.get_batch(i) for i in range(file.num_record_batches)), None
        except pa.ArrowInvalid:
            stream.seek(0)
            file = pa.ipc.open_stream(stream)
            batches, n_rows = iter(file), None
        wanted = columns(file.schema.names)
        schema = pa.schema([file.schema.field(name) for name in wanted])
        yield Reader(schema, (batch.select(wanted) for batch in batches), n_rows)
