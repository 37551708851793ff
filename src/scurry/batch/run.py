"""Scoring of data sets of any size: Arrow record batches in, Parquet files out, in constant memory.

Each input file (a fragment) becomes one output file, which appears under its name only when it is complete. It carries
the identity of its input and of the predictor, so that a second run skips what is done and redoes what has changed.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from scurry.batch.files import Fragment, Source, arrow, find, opened
from scurry.batch.rows import Scoring
from scurry.batch.threads import Behind, Lanes, ahead
from scurry.errors import InputError, OutputError, ScurryError
from scurry.forest import Forest
from scurry.forest.rows import float_columns, thread_count
from scurry.forest.storage import replacing
from scurry.predictor import Predictor

Progress = Callable[[float, str], object]
Outcome = int | None | BaseException
_IDENTITY = b"scurry.identity"
_N_ROWS_PER_BATCH = 1 << 16
_PART = ".part"


@dataclass(frozen=True)
class Report:
    """What became of a data set.

    Attributes
    ----------
    n_rows : int
        Rows scored in this run.
    seconds : float
    written, skipped : list of str
        Fragments scored in this run, and those whose output was there already.
    failed : dict of str to str
        What was wrong with the fragments that could not be scored.
    """

    n_rows: int = 0
    seconds: float = 0.0
    written: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        """Rows scored in this run by its duration."""
        return self.n_rows / self.seconds if self.seconds else 0.0


def score(
    source: Source,
    predictor: Predictor | Forest,
    destination: str | PathLike[str],
    *,
    columns: Sequence[str] = ("label", "trees", "reason"),
    keep: Sequence[str] = (),
    prefix: str = "",
    n_threads: int | None = None,
    max_steps: int | None = None,
    time_us: float | None = None,
    n_rows_per_batch: int = _N_ROWS_PER_BATCH,
    progress: Progress | None = None,
) -> Report:
    """Score files of any size into Parquet files, in constant memory.

    Fragments that cannot be read are reported and the others finished. What a previous run completed is skipped.

    Parameters
    ----------
    source : str, path, or sequence of them
        Parquet, CSV or Arrow IPC files, folders of them, or patterns such as ``"rows/*.parquet"``.
    predictor : Predictor or Forest
    destination : str or path
        A folder, in which outputs are called after their inputs; or, for one input, a file ending in ``.parquet``.
    columns, keep, prefix, max_steps, time_us
        As of `Scoring`.
    n_threads : int or None
        How many work at the same time, None for as many as there are cores.
    n_rows_per_batch : int
    progress : callable, optional
        Called as ``progress(share_done, message)``.

    Returns
    -------
    Report

    Raises
    ------
    InputError
        If the arguments are wrong, or every fragment fails.
    OutputError
        If the destination cannot be written: a full disk, say. Outputs that are there by then are complete.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.csv.write_csv(pa.table({"x": [0.0, 1.0]}), f"{folder}/rows.csv")
    ...     report = scurry.batch.score(f"{folder}/rows.csv", scurry.Forest.from_trees([stump]), f"{folder}/out")
    >>> report.n_rows, report.written
    (2, ['rows.csv'])
    """
    tasks = outputs(find(source), Path(destination))
    lanes = Lanes(thread_count(n_threads), len(tasks))
    scoring = Scoring(
        predictor=predictor if isinstance(predictor, Predictor) else Predictor.full(predictor),
        columns=tuple(columns),
        keep=tuple(keep),
        prefix=prefix,
        n_threads=max(lanes.n // len(tasks), 1),
        max_steps=max_steps,
        time_us=time_us,
    )
    tracker = Tracker(list(tasks), progress)
    work = partial(score_fragment, scoring=scoring, n_rows_per_batch=n_rows_per_batch, tracker=tracker, lanes=lanes)
    return collected(_completed(tasks, work, lanes), tracker)


def collected(outcomes: Generator[tuple[Fragment, Outcome]], tracker: Tracker) -> Report:
    """What became of all fragments, given each as it is done with and its number of rows, None or what was wrong."""
    report = Report()
    with closing(outcomes):
        for fragment, outcome in outcomes:
            if isinstance(outcome, OutputError):
                raise outcome
            if isinstance(outcome, BaseException):
                report.failed[fragment.name] = _message(outcome)
            else:
                (report.skipped if outcome is None else report.written).append(fragment.name)
                report = replace(report, n_rows=report.n_rows + (outcome or 0))
            tracker.finish(fragment)
    _raise_if_all_failed(report)
    for names in (report.written, report.skipped):
        names.sort()
    return replace(report, seconds=tracker.seconds)


def _completed(
    tasks: dict[Fragment, Path], work: Callable[[Fragment, Path], int | None], lanes: Lanes
) -> Generator[tuple[Fragment, Outcome]]:
    def attempt(fragment: Fragment, target: Path) -> Outcome:
        try:
            return work(fragment, target)
        except ScurryError as error:
            return error
        finally:
            lanes.finish()

    with ThreadPoolExecutor(lanes.n) as pool:
        try:
            futures = {pool.submit(attempt, *task): task[0] for task in tasks.items()}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            lanes.end()
            pool.shutdown(cancel_futures=True)


def _raise_if_all_failed(report: Report) -> None:
    """A run without any output is a mistake of the caller's, not of a fragment."""
    if not report.written and not report.skipped:
        name, message = min(report.failed.items())
        named = message if name in message else f"{name}: {message}"
        n = len(report.failed)
        raise InputError(named if n == 1 else f"none of {n} inputs could be scored. {named}")


def _message(error: BaseException) -> str:
    if isinstance(error, ScurryError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def outputs(fragments: Sequence[Fragment], destination: Path) -> dict[Fragment, Path]:
    """Where each fragment's output goes; the folders are made, and what a killed run left half written is removed."""
    if destination.suffix == ".parquet" and not destination.is_dir():
        if len(fragments) != 1:
            raise InputError(f"{destination} is one file and there are {len(fragments)} inputs; name a folder instead")
        tasks = {fragments[0]: destination}
    else:
        tasks = {fragment: destination / fragment.output_name for fragment in fragments}
    for fragment, target in tasks.items():
        if target.exists() and target.samefile(fragment.path):
            raise InputError(f"{target} would be overwritten by its own scores; choose another destination")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_parts(target)
        except OSError as error:
            raise OutputError(f"{target.parent} cannot be written: {error.strerror}") from error
    return tasks


def remove_parts(target: Path) -> None:
    """Remove what processes that were killed had begun of an output."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.*{_PART}"):
        part.unlink(missing_ok=True)


def score_fragment(
    fragment: Fragment,
    target: Path,
    scoring: Scoring,
    n_rows_per_batch: int = _N_ROWS_PER_BATCH,
    tracker: Tracker | None = None,
    lanes: Lanes | None = None,
) -> int | None:
    """Score one fragment; may be repeated, by several processes too: the output appears at once and whole.

    Parameters
    ----------
    fragment : Fragment
    target : Path
    scoring : Scoring
    n_rows_per_batch : int
    tracker : optional
    lanes : Lanes, optional
        Those of the run, one of which this fragment takes. By default it is alone and keeps to this thread.

    Returns
    -------
    int or None
        Rows scored, None if `target` is the output of this very input and scoring already.
    """
    import pyarrow.parquet as pq

    identity = scoring.identity_of(fragment)
    if _identity_in(target) == identity:
        return None
    n_rows, lanes = 0, lanes or Lanes(1, 1)
    floats = float_columns(scoring.forest)
    with opened(fragment, n_rows_per_batch=n_rows_per_batch, columns=scoring.needed, float_columns=floats) as reader:
        schema = scoring.schema(reader.schema).with_metadata({_IDENTITY: identity})
        # Nobody looks for rows by what was predicted of them, and bounds of text take long.
        options = {"schema": schema, "write_statistics": list(scoring.keep)}
        with (
            _published(target) as temporary,
            pq.ParquetWriter(temporary, **options) as writer,
            Behind(lanes) as behind,
        ):

            def write(values: dict[str, Any]) -> None:
                writer.write_batch(scoring.assembled(values))

            for batch in ahead(map(scoring.prepared, reader.batches), lanes):
                lanes.raise_if_ended()
                behind.call(write, scoring.evaluated(batch))
                n_rows += len(batch.rows)
                if tracker is not None:
                    tracker.advance(fragment, len(batch.rows), n_rows / reader.n_rows if reader.n_rows else 0.0)
    return n_rows


def _identity_in(target: Path) -> bytes | None:
    """What a complete output says of its input; None if there is none."""
    import pyarrow.parquet as pq

    if not target.exists():
        return None
    try:
        metadata = pq.read_schema(target).metadata or {}
    except (arrow().ArrowException, OSError):
        return None
    identity: bytes | None = metadata.get(_IDENTITY)
    return identity


@contextmanager
def _published(target: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `target` if the block ends well, and vanishes otherwise."""
    try:
        with replacing(target, _PART) as temporary:
            yield temporary
    except OSError as error:
        if isinstance(error, ScurryError):
            raise
        raise OutputError(
            f"{target} could not be written: {error.strerror or error}. Outputs written before are complete; "
            "mend it and run again to go on from there"
        ) from error


class Tracker:
    """Tells the share of bytes that is done, and the pace; may be told of progress by several threads."""

    def __init__(self, fragments: Sequence[Fragment], progress: Progress | None) -> None:
        self._progress, self._start, self._n_rows = progress, time.perf_counter(), 0
        self._n_bytes = {fragment: fragment.n_bytes for fragment in fragments}
        self._total = max(sum(self._n_bytes.values()), 1)
        self._done, self._done_of = 0.0, dict.fromkeys(fragments, 0.0)
        self._lock = Lock()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._start

    def advance(self, fragment: Fragment, n_rows: int, share: float) -> None:
        """`n_rows` more rows are scored, `share` of the fragment in all."""
        with self._lock:
            self._n_rows += n_rows
            done = share * self._n_bytes[fragment]
            self._done += done - self._done_of[fragment]
            self._done_of[fragment] = done
            if self._progress is not None:
                pace = self._n_rows / max(self.seconds, 1e-9)
                self._progress(self._done / self._total, f"{self._n_rows:,} rows, {pace:,.0f} rows/s")

    def finish(self, fragment: Fragment) -> None:
        """The fragment is done with."""
        self.advance(fragment, 0, 1.0)
