"""Scoring on a cluster: the same fragments, the same outputs, many machines.

Every fragment is a task that may be repeated: its output appears at once and whole, wherever it was written, and a
repeated task finds it there. So a worker that dies loses nothing and duplicates nothing. All machines must see the
input and output folders under the same names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from scurry.batch.files import Fragment, Source, arrow, find
from scurry.batch.rows import Scoring
from scurry.batch.run import Outcome, Progress, Report, Tracker, collected, outputs, remove_parts, score_fragment
from scurry.distributed.cluster import connected, shared
from scurry.errors import ScurryError
from scurry.forest import Forest
from scurry.predictor import Predictor


class Scorer:
    """Scores Arrow batches where they are: what Spark's ``mapInArrow`` and Ray Data's ``map_batches`` take as it is.

    It travels by value: the predictor goes along as the bytes of its ``.scurry`` file.

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
        self.scoring = Scoring(predictor=predictor, **settings)

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
        pa = arrow()
        if isinstance(batches, pa.Table):
            return (pa.Table.from_batches([scored]) for scored in self._scored(batches.to_batches()))
        return self._scored(batches)

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
        return next(self._scored([arrow().RecordBatch.from_pylist([], schema=source)])).schema

    def _scored(self, batches: Iterable[Any]) -> Iterator[Any]:
        return map(self._without_dictionaries, self.scoring.scored(batches))

    def _without_dictionaries(self, batch: Any) -> Any:
        """The batch with labels and reasons as plain text: Spark cannot read dictionaries."""
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
    tasks = outputs([fragment.absolute() for fragment in find(source)], Path(destination).absolute())
    tracker = Tracker(list(tasks), progress)
    with connected(cluster) as client:
        report = collected(_completed(client, scorer, tasks, tracker), tracker)
    for target in tasks.values():
        remove_parts(target)
    return report


def _completed(
    client: Any, scorer: Scorer, tasks: dict[Fragment, Path], tracker: Tracker
) -> Generator[tuple[Fragment, Outcome]]:
    from distributed import as_completed

    sent = shared(client, scorer)
    # Not `pure`: a task must look at the files, even if one of the same name was run before.
    futures = {
        client.submit(_score_fragment, fragment, target, sent, pure=False): fragment
        for fragment, target in tasks.items()
    }
    for future in as_completed(futures):
        outcome = future.exception() if future.status != "finished" else future.result()
        if isinstance(outcome, int):
            tracker.advance(futures[future], outcome, 1.0)
        yield futures[future], outcome


def _score_fragment(fragment: Fragment, target: Path, scorer: Scorer) -> int | ScurryError | None:
    try:
        return score_fragment(fragment, target, scorer.scoring)
    except ScurryError as error:
        return error  # if it were raised, Dask would print its traceback
