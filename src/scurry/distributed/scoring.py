"""Scoring on a cluster: the same inputs and outputs as `scurry.batch`, on many machines.

Each file is a task that may be repeated: its output appears in one moment, complete, and a repeated task finds it
there. So nothing is lost or written twice when a worker dies. All machines must see the input and output folders under
the same names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from scurry.batch.files import Fragment, Source, arrow, find
from scurry.batch.rows import Scoring, check_queries
from scurry.batch.run import (
    Outcome,
    Report,
    Tracker,
    WatchedFiles,
    check_watch,
    collect_report,
    plan_outputs,
    remove_parts,
    score_fragment,
)
from scurry.checks import Progress
from scurry.distributed.cluster import connect, share
from scurry.errors import ScurryError
from scurry.forest import Forest
from scurry.monitoring import State, Watch
from scurry.predictor import Predictor


class Scorer:
    """A callable that scores Arrow batches, for Spark's ``mapInArrow`` and Ray Data's ``map_batches``.

    It can be pickled, as these engines require; the predictor then travels as the bytes of its ``.scurry`` file.

    Parameters
    ----------
    predictor : Predictor or Forest
    columns, keep, prefix, n_threads, max_steps, time_us, groups
        See `scurry.batch.Scoring`.

    Examples
    --------
    >>> import pickle, pyarrow as pa, scurry
    >>> from scurry.distributed import Scorer
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> scorer = pickle.loads(pickle.dumps(Scorer(scurry.Forest.from_trees([stump]), columns=("label",))))
    >>> next(scorer(iter([pa.record_batch({"x": [0.0, 1.0]})]))).to_pydict()
    {'label': [0, 1]}
    """

    def __init__(self, predictor: Predictor | Forest, **settings: Any) -> None:
        predictor = Predictor.full(predictor) if isinstance(predictor, Forest) else predictor
        self.scoring = Scoring(predictor=predictor, **settings)

    def __call__(self, batches: Any) -> Iterator[Any]:
        """Score record batches, or the batches of a table.

        Parameters
        ----------
        batches : iterator of pyarrow.RecordBatch, or pyarrow.Table

        Yields
        ------
        pyarrow.RecordBatch or pyarrow.Table
            Of the same kind as the input.
        """
        pa = arrow()
        if isinstance(batches, pa.Table):
            return (pa.Table.from_batches([scored]) for scored in self._score_batches(batches.to_batches()))
        return self._score_batches(batches)

    def schema(self, source: Any) -> Any:
        """Return the columns of the output, which ``mapInArrow`` needs in advance.

        Parameters
        ----------
        source : pyarrow.Schema

        Returns
        -------
        pyarrow.Schema
        """
        return next(self._score_batches([arrow().RecordBatch.from_pylist([], schema=source)])).schema

    def _score_batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        return map(self._decode_dictionaries, self.scoring.score_batches(batches))

    def _decode_dictionaries(self, batch: Any) -> Any:
        """Return the batch with labels and reasons as plain text, because Spark cannot read dictionaries."""
        pa, kept = arrow(), self.scoring.keep
        columns = {
            name: column.dictionary_decode() if pa.types.is_dictionary(column.type) and name not in kept else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        return pa.RecordBatch.from_pydict(columns)


def score(
    source: Source,
    predictor: Predictor | Forest,
    destination: str | PathLike[str],
    *,
    cluster: Any = "local",
    columns: Sequence[str] = ("label", "trees", "reason"),
    keep: Sequence[str] = (),
    prefix: str = "",
    max_steps: int | None = None,
    time_us: float | None = None,
    groups: str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    watch_path: str | PathLike[str] | None = None,
) -> Report:
    """Score files on a Dask cluster, one task per file; outputs are those of `scurry.batch.score`.

    Parameters
    ----------
    source, predictor, destination, columns, keep, prefix, max_steps, time_us, groups, watch, watch_path
        See `scurry.batch.score`. Each task uses one thread.
    cluster : "local", address or distributed.Client
        "local" starts one worker process per core for the duration of the call; an address looks like
        ``"tcp://scheduler:8786"``.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` after each file, with bytes of input files.

    Returns
    -------
    Report

    Examples
    --------
    The client of this example has one worker, inside this process.

    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> from distributed import Client
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump])
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=None) as client:
    ...     pa.csv.write_csv(pa.table({"x": [0.0, 1.0]}), f"{folder}/rows.csv")
    ...     report = scurry.distributed.score(f"{folder}/*.csv", forest, f"{folder}/out", cluster=client)
    >>> report.n_rows, report.written
    (2, ['rows.csv.parquet'])
    """
    arrow()  # an error now, not in the first task
    scorer = Scorer(
        predictor,
        columns=tuple(columns),
        keep=tuple(keep),
        prefix=prefix,
        max_steps=max_steps,
        time_us=time_us,
        groups=groups,
    )
    # Workers may have another working folder.
    targets = plan_outputs([fragment.absolute() for fragment in find(source)], Path(destination).absolute())
    check_queries(list(targets), groups)
    tracker = Tracker(list(targets), progress)
    check_watch(watch, scorer.scoring.predictor)
    watched = None if watch is None else WatchedFiles(watch, watch_path, list(targets))
    with connect(cluster) as client:
        report = collect_report(_score_on_cluster(client, scorer, targets, watched), targets, tracker)
    # Again: workers that were killed during this run have left temporary files.
    for target in targets.values():
        remove_parts(target)
    return report


def _score_on_cluster(
    client: Any, scorer: Scorer, targets: dict[Fragment, Path], watched: WatchedFiles | None
) -> Generator[tuple[Fragment, Outcome]]:
    from distributed import as_completed

    sent = share(client, scorer)
    # Not `pure`: a task must look at the files, even if one with the same arguments was run before.
    futures = {
        client.submit(
            _score_fragment,
            fragment,
            target,
            sent,
            None if watched is None else watched.branch(fragment).to_bytes(),
            pure=False,
        ): fragment
        for fragment, target in targets.items()
    }
    for future in as_completed(futures):
        fragment = futures[future]
        outcome, counted = (future.exception(), None) if future.status != "finished" else future.result()
        if watched is not None:
            predictor = watched.watch.predictor
            watched.finish(fragment, None if counted is None else Watch.from_bytes(counted, predictor))
        yield fragment, outcome


def _score_fragment(
    fragment: Fragment, target: Path, scorer: Scorer, branch: bytes | None
) -> tuple[Outcome, bytes | None]:
    """Return the outcome of one file, and what a branch of a watch counted; None if it counted nothing new."""
    try:
        predictor = scorer.scoring.predictor
        counting = None if branch is None else Watch.from_bytes(branch, predictor, on_alarm=_do_nothing)
        scored = score_fragment(fragment, target, scorer.scoring, branch=counting)
        return scored, None if counting is None or scored is None else counting.to_bytes()
    except ScurryError as error:
        return error, None  # if it were raised, Dask would print its traceback


def _do_nothing(state: State) -> None:
    """Leave alarms to the watch that the branch joins."""
