"""Scoring on a cluster: the same fragments, the same outputs, many machines.

Every fragment is a task that may be repeated: its output appears at once and whole, wherever it was written, and a
repeated task finds it there. So a worker that dies loses nothing and duplicates nothing. All machines must see the
input and output folders under the same names.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from scurry.batch import Progress, Report, Tracker, outputs, raise_if_all_failed, remove_parts, score_fragment
from scurry.errors import InputError, MissingDependencyError, OutputError, ScurryError
from scurry.forest import Forest
from scurry.fragments import Fragment, Source, arrow, find
from scurry.predictor import Predictor, load
from scurry.scoring import Scoring


class Scorer:
    """Scores Arrow batches where they are: what Spark's ``mapInArrow`` and Ray Data's ``map_batches`` take as it is.

    It travels by value: the predictor goes along as the bytes of its ``.scurry`` file and is unpacked once per process.

    Parameters
    ----------
    predictor : Predictor or Forest
    columns, keep, prefix, n_threads, max_steps, time_us
        As of `scurry.scoring.Scoring`.

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
        predictor = predictor if isinstance(predictor, Predictor) else Predictor.full(predictor)
        Scoring(predictor=predictor, **settings)  # wrong settings are refused here, not on a worker
        self._digest, self._settings = predictor.digest, tuple(settings.items())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "predictor.scurry")
            predictor.save(path)
            self._file = path.read_bytes()

    def __call__(self, batches: Any) -> Iterator[Any]:
        """Score record batches, or the batches of a table.

        Parameters
        ----------
        batches : iterator of pyarrow.RecordBatch, or pyarrow.Table

        Yields
        ------
        pyarrow.RecordBatch or pyarrow.Table
            As what came in.
        """
        pa, scoring = arrow(), self.scoring
        if isinstance(batches, pa.Table):
            return (pa.Table.from_batches([scored]) for scored in scoring.scored(batches.to_batches()))
        return scoring.scored(batches)

    def __hash__(self) -> int:
        return hash((self._digest, self._settings))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scorer):
            return NotImplemented
        return (self._digest, self._settings) == (other._digest, other._settings)

    def schema(self, source: Any) -> Any:
        """The columns of the output, from those of the input.

        Parameters
        ----------
        source : pyarrow.Schema

        Returns
        -------
        pyarrow.Schema
            For ``mapInArrow``, which wants to know it beforehand.
        """
        return self.scoring.score(arrow().RecordBatch.from_pylist([], schema=source)).schema

    @property
    def scoring(self) -> Scoring:
        """The scoring itself, of this process."""
        return _unpacked(self)

    def _unpack(self) -> Scoring:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "predictor.scurry")
            path.write_bytes(self._file)
            predictor = load(path)
        if not isinstance(predictor, Predictor):
            raise InputError("a scorer needs a predictor")
        return Scoring(predictor=predictor, **dict(self._settings))


@lru_cache(maxsize=4)
def _unpacked(scorer: Scorer) -> Scoring:
    return scorer._unpack()


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
    progress: Progress | None = None,
) -> Report:
    """Score files on a Dask cluster, one task a file; outputs are those of `scurry.batch.score`.

    Parameters
    ----------
    source, predictor, destination, columns, keep, prefix, max_steps, time_us, progress
        As of `scurry.batch.score`. Each task uses one thread.
    cluster : "local", address or distributed.Client
        "local" starts a worker process per core for the time of the call; an address looks like
        ``"tcp://scheduler:8786"``.

    Returns
    -------
    Report

    Examples
    --------
    >>> import scurry.distributed
    >>> scurry.distributed.score("rows/*.parquet", fast, "scores/", cluster="tcp://scheduler:8786")  # doctest: +SKIP
    """
    scorer = Scorer(
        predictor, columns=tuple(columns), keep=tuple(keep), prefix=prefix, max_steps=max_steps, time_us=time_us
    )
    tasks = outputs(find(source), Path(destination))
    start, report, tracker = time.perf_counter(), Report(), Tracker(list(tasks), progress)
    with connected(cluster) as client:
        for fragment, outcome in _completed(client, scorer, tasks):
            if isinstance(outcome, OutputError):
                raise outcome
            if isinstance(outcome, BaseException):
                report.failed[fragment.name] = _message(outcome)
            else:
                (report.skipped if outcome is None else report.written).append(fragment.name)
                report = replace(report, n_rows=report.n_rows + (outcome or 0))
                tracker.advance(fragment, outcome or 0, 0.0)
            tracker.finish(fragment)
    for target in tasks.values():
        remove_parts(target)
    raise_if_all_failed(report, len(tasks))
    for names in (report.written, report.skipped):
        names.sort()
    return replace(report, seconds=time.perf_counter() - start)


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A Dask client for what a caller calls a cluster; closed again if it was made here."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingDependencyError("a cluster needs Dask: pip install 'scurry[dask]'") from error
    if isinstance(cluster, Client):
        yield cluster
    elif cluster == "local":
        with (
            LocalCluster(threads_per_worker=1, processes=True, dashboard_address=":0") as local,
            Client(local) as client,
        ):
            yield client
    elif isinstance(cluster, str) and "://" in cluster:
        try:
            client = Client(cluster, timeout=10)
        except (OSError, TimeoutError) as error:
            raise InputError(f"no Dask scheduler answers at {cluster}; start one with: dask scheduler") from error
        with client:
            yield client
    else:
        raise InputError(
            f"cluster must be 'local', an address such as 'tcp://scheduler:8786' or a Client, got {cluster!r}"
        )


def _completed(client: Any, scorer: Scorer, tasks: dict[Fragment, Path]) -> Iterator[tuple[Fragment, Any]]:
    """Each fragment as it is done with, and its number of rows, None or what was wrong."""
    from distributed import as_completed

    shared = client.scatter(scorer, broadcast=True, hash=False)
    # Not `pure`: a task must look at the files, even if one of the same name was run before.
    futures = {
        client.submit(_score_fragment, fragment, target, shared, pure=False): fragment
        for fragment, target in tasks.items()
    }
    for future in as_completed(futures):
        outcome = future.exception() if future.status != "finished" else future.result()
        yield futures[future], outcome


def _score_fragment(fragment: Fragment, target: Path, scorer: Scorer) -> int | None:
    return score_fragment(fragment, target, scorer.scoring)


def _message(error: BaseException) -> str:
    if isinstance(error, ScurryError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
