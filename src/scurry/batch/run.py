"""A run: score a data set of any size into Parquet files, in constant memory.

Each input file (a fragment) becomes one output file, which appears under its name only when it is complete. The output
stores a digest of its input and of the predictor, so that a second run skips what is done and redoes what has changed.

A watch counts each file by a branch of its own, which joins it once the file's output is there.
"""

from __future__ import annotations

import glob
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import Event, Lock
from typing import Any, Generic, NamedTuple, Self, TypeVar

from scurry.batch.files import Fragment, Source, arrow, find, open_fragment
from scurry.batch.rows import Scoring, check_queries, join_queries
from scurry.checks import Progress, check_count, check_instance
from scurry.errors import FormatError, InputError, OutputError, ScurryError
from scurry.forest import Forest, float_columns, null_texts, text_columns, thread_count
from scurry.forest.files.storage import replacing
from scurry.monitoring import Watch
from scurry.predictor import Predictor


class Scored(NamedTuple):
    """How many rows of a file were scored, and how many values are no category of the model, by column."""

    n_rows: int
    n_unknown: Counter[str]


Outcome = Scored | None | BaseException
"""Of one fragment: what was scored, None if the output was complete already, or what went wrong."""

_IDENTITY = b"scurry.identity"  # key in the metadata of outputs; part of the format
_N_ROWS_PER_BATCH = 1 << 16
_PART = ".part"


@dataclass(frozen=True)
class Report:
    """Outcome of a run over a data set.

    Attributes
    ----------
    n_rows : int
        Rows scored in this run.
    seconds : float
        Duration of the run.
    written, skipped : list of str
        Names of the outputs written in this run, and of those that were complete already. They are relative to the
        output folder.
    failed : dict of str to str
        Error messages by the names of the files that could not be scored.
    n_unknown : dict of str to int
        By column: values of the rows scored in this run that are none of the model's categories. They count as missing.
        Not counted for models that read their rows by steps of a pipeline.

    Examples
    --------
    >>> import scurry
    >>> scurry.batch.Report(n_rows=500, seconds=2.0, written=["rows.csv.parquet"]).rows_per_second
    250.0
    """

    n_rows: int = 0
    seconds: float = 0.0
    written: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    n_unknown: dict[str, int] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        """Rows scored per second of the run."""
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
    groups: str | None = None,
    n_rows_per_batch: int = _N_ROWS_PER_BATCH,
    progress: Progress | None = None,
    watch: Watch | None = None,
    watch_path: str | PathLike[str] | None = None,
) -> Report:
    """Score files of any size into Parquet files, in constant memory.

    Files that cannot be read are reported, and the others are scored. Outputs that an earlier run completed are kept.

    Parameters
    ----------
    source : str, path, or sequence of them
        Parquet, CSV or Arrow IPC files, folders of them, or patterns such as ``"rows/*.parquet"``.
    predictor : Predictor or Forest
    destination : str or path
        A folder, where each output is named after its input; or, for one input, a file ending in ``.parquet``.
    columns, keep, prefix, max_steps, time_us, groups
        See `Scoring`. With `groups`, files are read once before, to find queries whose rows lie apart.
    n_threads : int or None
        Number of threads (None: all cores).
    n_rows_per_batch : int
        Rows of a Parquet file to hold in memory at a time.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` after each batch and each file. The unit is bytes of input files,
        because the number of rows in a CSV file is not known before it has been read. An exception that it raises ends
        the run.
    watch : Watch, optional
        A watch of the predictor, which counts the rows that are scored in this run, file after file.
    watch_path : str or path, optional
        Where the watch is saved after each file.

    Returns
    -------
    Report

    Raises
    ------
    InputError
        If an argument is wrong, or no file can be scored.
    OutputError
        If the destination cannot be written, for example because the disk is full. Finished outputs are complete.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.csv.write_csv(pa.table({"x": [0.0, 1.0]}), f"{folder}/rows.csv")
    ...     report = scurry.batch.score(f"{folder}/rows.csv", scurry.Forest.from_trees([stump]), f"{folder}/out")
    >>> report.n_rows, report.written
    (2, ['rows.csv.parquet'])
    """
    arrow()  # an error now, not in the thread of the first file
    n_rows_per_batch = check_count("n_rows_per_batch", n_rows_per_batch)
    targets = plan_outputs(find(source), Path(destination))
    threads = ThreadBudget(thread_count(n_threads), len(targets))
    scoring = Scoring(
        predictor=Predictor.full(predictor) if isinstance(predictor, Forest) else predictor,
        columns=tuple(columns),
        keep=tuple(keep),
        prefix=prefix,
        # With few files, threads are left over for the rows of each.
        n_threads=max(threads.n_threads // len(targets), 1),
        max_steps=max_steps,
        time_us=time_us,
        groups=groups,
    )
    check_queries(list(targets), groups)
    tracker = Tracker(list(targets), progress)
    check_watch(watch, scoring.predictor)
    watched = None if watch is None else WatchedFiles(watch, watch_path, list(targets))

    def score_one(fragment: Fragment, target: Path) -> Scored | None:
        branch, scored = None if watched is None else watched.branch(fragment), None
        try:
            scored = score_fragment(fragment, target, scoring, n_rows_per_batch, tracker, threads, branch)
            return scored
        finally:
            if watched is not None:
                watched.finish(fragment, None if scored is None else branch)

    return collect_report(_score_in_threads(targets, score_one, threads), targets, tracker)


def collect_report(
    outcomes: Generator[tuple[Fragment, Outcome]], targets: Mapping[Fragment, Path], tracker: Tracker
) -> Report:
    """Collect the outcomes of all fragments, in any order, into a `Report`.

    Raises
    ------
    OutputError
        The first one among the outcomes: if one output cannot be written, neither can the others.
    InputError
        If all fragments failed: then the mistake is likely the caller's, and not in the files.
    """
    n_rows, written, skipped, failed = 0, list[str](), list[str](), dict[str, str]()
    n_unknown: Counter[str] = Counter()
    # Closing the generator stops its threads, also when this loop ends with an error.
    with closing(outcomes):
        for fragment, outcome in outcomes:
            if isinstance(outcome, OutputError):
                raise outcome
            if isinstance(outcome, BaseException):
                message = str(outcome)
                # Only scurry's own messages can be understood without the type of the error.
                if not isinstance(outcome, ScurryError):
                    message = f"{type(outcome).__name__}: {' '.join(message.split())}"
                failed[fragment.name] = message
            elif outcome is None:
                skipped.append(_name_of(fragment, targets[fragment]))
            else:
                written.append(_name_of(fragment, targets[fragment]))
                n_rows += outcome.n_rows
                n_unknown += outcome.n_unknown
            tracker.finish(fragment)
    if not written and not skipped:
        name, message = min(failed.items())
        named = message if name in message else f"{name}: {message}"
        raise InputError(named if len(failed) == 1 else f"none of {len(failed)} inputs could be scored. {named}")
    return Report(n_rows, tracker.seconds, sorted(written), sorted(skipped), failed, dict(n_unknown))


def _name_of(fragment: Fragment, target: Path) -> str:
    """Return the name of an output relative to its folder: the fragment's own, unless the caller named one file."""
    return fragment.output_name if target.as_posix().endswith(fragment.output_name) else target.name


def _score_in_threads(
    targets: dict[Fragment, Path], score_one: Callable[[Fragment, Path], Scored | None], threads: ThreadBudget
) -> Generator[tuple[Fragment, Outcome]]:
    def attempt(fragment: Fragment, target: Path) -> Outcome:
        try:
            return score_one(fragment, target)
        except ScurryError as error:
            return error
        finally:
            threads.finish_fragment()

    with ThreadPoolExecutor(threads.n_threads) as pool:
        try:
            futures = {pool.submit(attempt, *target): target[0] for target in targets.items()}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            threads.cancel()
            pool.shutdown(cancel_futures=True)


def plan_outputs(fragments: Sequence[Fragment], destination: Path) -> dict[Fragment, Path]:
    """Return the path of each fragment's output; create the folders and remove leftovers of runs that were killed."""
    if destination.suffix == ".parquet" and not destination.is_dir():
        if len(fragments) != 1:
            raise InputError(
                f"{destination} is one file and there are {len(fragments)} inputs; name a folder instead",
                argument="destination",
            )
        targets = {fragments[0]: destination}
    else:
        targets = {fragment: destination / fragment.output_name for fragment in fragments}
    for fragment, target in targets.items():
        if target.exists() and target.samefile(fragment.path):
            raise InputError(
                f"{target} would be overwritten by its own scores; choose another destination", argument="destination"
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_parts(target)
        except OSError as error:
            raise OutputError(f"{target.parent} cannot be written: {error.strerror}") from error
    return targets


def remove_parts(target: Path) -> None:
    """Remove temporary files of an output that killed processes left behind."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.*{_PART}"):
        part.unlink(missing_ok=True)


def score_fragment(
    fragment: Fragment,
    target: Path,
    scoring: Scoring,
    n_rows_per_batch: int = _N_ROWS_PER_BATCH,
    tracker: Tracker | None = None,
    threads: ThreadBudget | None = None,
    branch: Watch | None = None,
) -> Scored | None:
    """Score one fragment.

    This may be repeated, even by several processes at once: the output appears in one moment, complete.

    Parameters
    ----------
    fragment : Fragment
    target : Path
        Of the output.
    scoring : Scoring
    n_rows_per_batch : int
    tracker : Tracker, optional
    threads : ThreadBudget, optional
        Of the run, which has started this call in one of its threads. By default this thread does everything.
    branch : Watch, optional
        Counts the rows.

    Returns
    -------
    Scored or None
        None if `target` is already the complete output for this input and scoring.
    """
    import pyarrow.parquet as pq

    identity = scoring.identity_of(fragment)
    if _read_identity(target) == identity:
        return None
    n_rows, n_unknown, threads = 0, Counter[str](), threads or ThreadBudget(1, 1)
    with open_fragment(
        fragment,
        n_rows_per_batch=n_rows_per_batch,
        columns=scoring.choose_columns,
        float_columns=float_columns(scoring.forest),
        text_columns=text_columns(scoring.forest),
        null_texts=null_texts(scoring.forest),
    ) as reader:
        schema = scoring.schema(reader.schema).with_metadata({_IDENTITY: identity})
        # A watch that was saved counts the rows of this output, so that it must not be lost then.
        with _replace_when_complete(target, durable=branch is not None) as temporary:
            with (
                # Statistics let readers skip row groups. Nobody filters by results, and bounds of text are slow.
                pq.ParquetWriter(temporary, schema=schema, write_statistics=list(scoring.keep)) as parquet,
                BackgroundWriter[dict[str, Any]](
                    lambda values: parquet.write_batch(scoring.assemble(values)), threads
                ) as writer,
            ):
                for batch in read_ahead(map(scoring.prepare, join_queries(reader.batches, scoring.groups)), threads):
                    threads.raise_if_cancelled()
                    writer.write(scoring.evaluate(batch))
                    if branch is not None:
                        branch.count(batch.rows, groups=batch.groups)
                    n_rows += len(batch.rows)
                    n_unknown += batch.n_unknown
                    if tracker is not None:
                        tracker.advance(fragment, n_rows / reader.n_rows if reader.n_rows else 0.0)
            # Later runs skip an output that is there, so it must have a row for each of the input.
            n_written = pq.read_metadata(temporary).num_rows
            if n_written != n_rows or reader.n_rows not in (None, n_rows):
                raise FormatError(
                    f"{fragment.name} has {reader.n_rows or n_rows} rows, but {n_rows} were read and {n_written} "
                    "written; nothing was published"
                )
    return Scored(n_rows, n_unknown)


def _read_identity(target: Path) -> bytes | None:
    """Return the identity that an output stores; None if there is no complete output."""
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
def _replace_when_complete(target: Path, *, durable: bool) -> Iterator[Path]:
    """Yield a temporary file that replaces `target` if the block ends well, and is removed otherwise."""
    try:
        with replacing(target, _PART, durable=durable) as temporary:
            yield temporary
    except OSError as error:
        # Some of scurry's own errors are OSErrors too; those already name what is wrong.
        if isinstance(error, ScurryError):
            raise
        raise OutputError(
            f"{target} could not be written: {error.strerror or error}. Fix this and rerun; finished outputs are kept"
        ) from error


class Tracker:
    """Report progress in bytes of input; several threads may call it.

    Parameters
    ----------
    fragments : sequence of Fragment
    progress : callable or None
        Called as ``progress(n_done, n_total)``.
    """

    def __init__(self, fragments: Sequence[Fragment], progress: Progress | None) -> None:
        self._progress, self._start = progress, time.perf_counter()
        self._n_bytes = {fragment: fragment.n_bytes for fragment in fragments}
        self._n_total, self._n_done = sum(self._n_bytes.values()), 0
        self._n_done_of = dict.fromkeys(fragments, 0)
        self._lock = Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._start

    def advance(self, fragment: Fragment, share: float) -> None:
        """Note that `share` of the fragment is done so far."""
        # The lock also keeps two threads from calling `progress` at once, or in the wrong order.
        with self._lock:
            n_done = int(share * self._n_bytes[fragment])
            self._n_done += n_done - self._n_done_of[fragment]
            self._n_done_of[fragment] = n_done
            if self._progress is not None:
                self._progress(self._n_done, self._n_total)

    def finish(self, fragment: Fragment) -> None:
        """Note that the fragment is finished, whether it was scored, skipped or failed."""
        self.advance(fragment, 1.0)


T = TypeVar("T")
_N_AHEAD = 2  # one batch being read while the one before waits; more would only take memory


class _Cancelled(Exception):
    pass


class ThreadBudget:
    """How many threads a run may use, and whether some of them are idle.

    While at least as many fragments as threads are unfinished, each fragment is read, scored and written in one thread,
    which is best for caches. After that, threads are idle: the remaining fragments are read and written in them, next
    to the scoring.

    Parameters
    ----------
    n_threads : int
    n_fragments : int
        Fragments of the run, none of them finished yet.
    """

    def __init__(self, n_threads: int, n_fragments: int) -> None:
        self.n_threads, self._n_left = n_threads, n_fragments
        self._lock, self._cancelled = Lock(), Event()

    def finish_fragment(self) -> None:
        """Note that one more fragment is finished."""
        with self._lock:
            self._n_left -= 1

    def has_idle_threads(self) -> bool:
        """Return whether there are fewer unfinished fragments than threads."""
        return self._n_left < self.n_threads

    def cancel(self) -> None:
        """Make every thread give up before its next batch."""
        self._cancelled.set()

    def raise_if_cancelled(self) -> None:
        """Raise if the run was cancelled."""
        if self._cancelled.is_set():
            raise _Cancelled


def read_ahead(items: Iterable[T], threads: ThreadBudget) -> Iterator[T]:
    """Yield the items, and compute the next ones in another thread as soon as one is idle."""
    iterator = iter(items)
    # Once threads are idle they stay so, because fragments only ever finish: there is no way back to this loop.
    while not threads.has_idle_threads():
        if (item := next(iterator, None)) is None:
            return
        yield item
    with ThreadPoolExecutor(1) as reader:
        pending = deque(reader.submit(next, iterator, None) for _ in range(_N_AHEAD))
        while (item := pending.popleft().result()) is not None:
            pending.append(reader.submit(next, iterator, None))
            yield item


class BackgroundWriter(Generic[T]):
    """Write items one after the other, in another thread while one is idle.

    Errors of a write are raised by the next one, or at the end of the ``with`` block.

    Parameters
    ----------
    write : callable
        Called with one item at a time.
    threads : ThreadBudget
    """

    def __init__(self, write: Callable[[T], None], threads: ThreadBudget) -> None:
        self._write, self._threads = write, threads
        self._executor, self._pending = ThreadPoolExecutor(1), Future[None]()
        self._pending.set_result(None)

    def __enter__(self) -> Self:
        return self

    def write(self, item: T) -> None:
        """Write the item, now or in the background."""
        # Waiting for the write before keeps the order of rows, and at most one batch in memory.
        self._pending.result()
        if self._threads.has_idle_threads():
            self._pending = self._executor.submit(self._write, item)
        else:
            self._write(item)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._executor.shutdown()
        # An error of the block explains more than one of a write that it interrupted.
        if error is None:
            self._pending.result()


class WatchedFiles:
    """Counts the rows of files in a watch, in the order of the files, and saves it after each.

    A branch joins the watch after its output has appeared, and a file whose output is complete is not read again. So a
    run that is killed loses the rows since the last save, and another run counts no row twice.

    Parameters
    ----------
    watch : Watch
    path : str, path or None
        Where the watch is saved after each file.
    fragments : sequence of Fragment
    """

    def __init__(self, watch: Watch, path: str | PathLike[str] | None, fragments: Sequence[Fragment]) -> None:
        self.watch, self.path = watch, path
        self._waiting, self._done = list(fragments), dict[Fragment, Watch | None]()
        self._lock = Lock()

    def branch(self, fragment: Fragment) -> Watch:
        """Return the watch that counts the rows of one file."""
        return self.watch.branch(fragment.name)

    def finish(self, fragment: Fragment, branch: Watch | None) -> None:
        """Let a branch join as soon as those of all files before have; None if its file was not scored."""
        with self._lock:
            self._done[fragment] = branch
            while self._waiting and self._waiting[0] in self._done:
                joining = self._done.pop(self._waiting.pop(0))
                if joining is not None:
                    self.watch.join(joining)
                    if self.path is not None:
                        self.watch.save(self.path)


def check_watch(watch: Watch | None, predictor: Predictor) -> None:
    """Raise an error unless `watch` can count what `predictor` answers."""
    if watch is None:
        return
    check_instance("watch", watch, Watch, hint="; make one with scurry.watch(predictor)")
    if watch.predictor.digest != predictor.digest:
        raise InputError("watch is of another predictor than the one that scores the files", argument="watch")
    if not callable(watch.on_alarm) and watch.on_alarm != "warn":
        raise InputError(
            f'files are scored by the predictor as it is, also after an alarm; set watch.on_alarm to "warn" instead of '
            f'"{watch.on_alarm}"',
            argument="watch",
        )
    if watch.promise.NEEDS_LABELS:
        raise InputError(
            "the promise is tested by labels, which files of rows do not have; call watch.predict(X, ids=…)",
            argument="watch",
        )
