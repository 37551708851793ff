"""Rows in files on a cluster: workers read the files, and only sums over rows come back.

`FileSample` reads a file a few rows at a time, once for each round over all files, so that neither a file nor all of
them together need fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Fragment, Reader, arrow, open_fragment
from scurry.checks import Progress
from scurry.distributed.cluster import gather, share, submit
from scurry.errors import InputError
from scurry.forest import Forest, as_rows, columns_read, float_columns, text_columns
from scurry.stopping.guarantee import Sample, Sums

T = TypeVar("T")
_N_ROWS_PER_BATCH = 1 << 14  # questions make arrays of this many rows by all trees
_CASES_PER_ROUND = 16  # every round reads all files again; more cases at once would take more memory


@dataclass(frozen=True)
class Partition:
    """A file of rows, with or without labels.

    Attributes
    ----------
    fragment : Fragment
    label : str or None
        Name of the column that holds the labels.
    """

    fragment: Fragment
    label: str | None = None

    def read(self, forest: Forest) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the rows, of shape (n_rows, n_features), and the labels, of shape (n_rows,)."""
        with self._open(forest) as reader:
            table = arrow().Table.from_batches(reader.batches, reader.schema)
        if self.label is None:
            return as_rows(forest, table), None
        labels = table[self.label]
        if labels.null_count:
            raise InputError(f"{self.fragment.name} has {labels.null_count} rows without a label in {self.label!r}")
        return as_rows(forest, table.drop_columns([self.label])), labels.to_numpy()

    def batches(self, forest: Forest, n_rows_per_batch: int) -> Iterator[NDArray[Any]]:
        """Yield the rows a few at a time, as arrays of shape (n_rows, n_features): the file may exceed memory."""
        with self._open(forest, n_rows_per_batch) as reader:
            for batch in reader.batches:
                features = arrow().Table.from_batches([batch])
                yield as_rows(forest, features if self.label is None else features.drop_columns([self.label]))

    def n_rows(self, forest: Forest) -> int:
        """Return the number of rows, without reading them where the format stores it."""
        with self._open(forest) as reader:
            return sum(map(len, reader.batches)) if reader.n_rows is None else reader.n_rows

    @property
    def state(self) -> tuple[int, int]:
        """Size and time of the last change, by which a changed file is recognised."""
        status = self.fragment.path.stat()
        return status.st_size, status.st_mtime_ns

    def _open(self, forest: Forest, n_rows_per_batch: int = 1 << 16) -> AbstractContextManager[Reader]:
        def choose_columns(names: list[str]) -> list[str]:
            if self.label is not None and self.label not in names:
                raise InputError(
                    f"{self.fragment.name} has no column {self.label!r} for the labels; it has {names[:20]}",
                    argument="label",
                )
            read = set(columns_read(forest, [name for name in names if name != self.label]))
            return [name for name in names if name in read or name == self.label]

        floats = float_columns(forest) - {self.label}
        return open_fragment(
            self.fragment,
            n_rows_per_batch=n_rows_per_batch,
            columns=choose_columns,
            float_columns=floats,
            text_columns=text_columns(forest) - {self.label},
        )


class Part(NamedTuple):
    """The chosen rows of a partition of `n_rows` rows, as packed bits; all rows if None."""

    partition: Partition
    n_rows: int
    chosen: NDArray[np.uint8] | None

    def batches(self, forest: Forest) -> Iterator[NDArray[Any]]:
        """Yield the chosen rows a few at a time."""
        chosen = None if self.chosen is None else np.unpackbits(self.chosen, count=self.n_rows).astype(np.bool_)
        start = 0
        for rows in self.partition.batches(forest, _N_ROWS_PER_BATCH):
            yield rows if chosen is None else rows[chosen[start : start + len(rows)]]
            start += len(rows)
        # A file that changed between two rounds would mix the counts of different rows.
        if start != self.n_rows:
            raise InputError(f"{self.partition.fragment.name} had {self.n_rows} rows and now has {start}")


class Task(NamedTuple):
    """What a worker does with rows: apply `functions` one after another, then ask `question` about the result."""

    forest: Forest
    functions: tuple[Callable[[Any], Any], ...]
    question: Callable[..., Any] = len  # not called where only the results of the functions are wanted

    def apply(self, rows: NDArray[Any]) -> Any:
        """Apply the functions to rows."""
        return reduce(lambda values, function: function(values), self.functions, rows)

    def answer(self, rows: NDArray[Any], cases: Sequence[tuple[Any, ...]]) -> list[Sums]:
        """Return what the rows contribute to the answer in each case."""
        values = self.apply(rows)
        return [self.question(values, *case) for case in cases]


@dataclass(frozen=True, eq=False)
class FileSample(Sample):
    """Rows in files, or the results of functions of each row.

    Attributes
    ----------
    client : distributed.Client
    forest : Forest
        Its features are the columns that are read.
    partitions : sequence of Partition
    sizes : int64 array of shape (n_partitions,)
        Number of rows of each partition.
    limit : int
        Largest number of rows to bring together in memory.
    progress : callable or None
        Called as ``progress(n_done, n_total)`` in every round over the files, with numbers of files.
    chosen : bool array of shape (sum of sizes,), or None for all
    functions : tuple of callable
        Applied to rows, one after another.
    """

    client: Any
    forest: Forest
    partitions: Sequence[Partition]
    sizes: NDArray[np.int64]
    limit: int
    progress: Progress | None = None
    chosen: NDArray[np.bool_] | None = None
    functions: tuple[Callable[[Any], Any], ...] = ()

    @classmethod
    def of(
        cls, client: Any, forest: Forest, partitions: Sequence[Partition], limit: int, progress: Progress | None
    ) -> FileSample:
        """Return a sample of all rows of all files, in the order of `partitions`."""
        sizes = np.array(gather(client, Partition.n_rows, partitions, share(client, forest)), np.int64)
        return cls(client, forest, partitions, sizes, limit, progress)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum() if self.chosen is None else self.chosen.sum())

    @property
    def max_gathered(self) -> int:
        """Largest number of rows to bring together in memory."""
        return self.limit

    def where(self, chosen: NDArray[np.bool_]) -> FileSample:
        """Return the rows for which `chosen`, of shape (n_rows,), is true."""
        if self.chosen is None:
            return replace(self, chosen=chosen)
        both = self.chosen.copy()
        both[self.chosen] = chosen
        return replace(self, chosen=both)

    def mapped(self, function: Callable[[Any], Any]) -> FileSample:
        """Return a sample of what `function` makes of the rows; workers call it whenever they read rows."""
        return replace(self, functions=(*self.functions, function))

    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """Return the sum of the answers of all files, after one round over them."""
        (answer,) = self._sum([()], question)
        return answer

    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """Yield the answer to each of the cases; one round over the files answers several."""
        left = iter(cases)
        while at_once := [(case,) for case in islice(left, _CASES_PER_ROUND)]:
            yield from self._sum(at_once, question)

    def each(self, number: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return one number for each row, in order, after one round over the files."""
        # However many rows there are: a number takes less memory than a row.
        return replace(self, limit=self.n_rows).mapped(number).gathered()

    def gathered(self) -> NDArray[Any]:
        """Return all rows in memory, in order."""
        if self.n_rows > self.max_gathered:
            raise InputError(
                f"{self.n_rows:,} rows would have to be in memory at once, and max_fit_rows is {self.max_gathered:,}. "
                "Fit on some of them (X_fit) and let the others certify that, with a confidence",
                argument="max_fit_rows",
            )
        task = Task(self.forest, self.functions)
        return np.concatenate([self.none(), *gather(self.client, _read_rows, self._parts(), share(self.client, task))])

    def none(self) -> NDArray[Any]:
        """Return an array without rows, like those that questions are called with."""
        values: NDArray[Any] = Task(self.forest, self.functions).apply(_no_rows(self.forest))
        return values

    def _sum(self, cases: Sequence[tuple[Any, ...]], question: Callable[..., Sums]) -> list[Sums]:
        from distributed import as_completed

        task = Task(self.forest, self.functions, question)
        # Start from the answer for no rows, which has the right shape even if all files are empty.
        total = task.answer(_no_rows(self.forest), cases)
        futures = submit(self.client, _answer, self._parts(), share(self.client, task), cases)
        # In any order: sums of whole numbers do not depend on it.
        for n_done, (_, answers) in enumerate(as_completed(futures, with_results=True), start=1):
            total = _add(total, answers)
            if self.progress is not None:
                self.progress(n_done, len(futures))
        return total

    def _parts(self) -> list[Part]:
        if self.chosen is None:
            return [Part(*part, None) for part in zip(self.partitions, self.sizes.tolist(), strict=True)]
        pieces = map(np.packbits, np.split(self.chosen, np.cumsum(self.sizes)[:-1]))
        return [Part(*part) for part in zip(self.partitions, self.sizes.tolist(), pieces, strict=True)]


def _answer(part: Part, task: Task, cases: Sequence[tuple[Any, ...]]) -> list[Sums] | None:
    """Return what a file contributes to the answer in each case; None if it is empty."""
    total: list[Sums] | None = None
    for rows in part.batches(task.forest):
        answers = task.answer(rows, cases)
        total = answers if total is None else _add(total, answers)
    return total


def _add(total: list[Sums], answers: list[Sums] | None) -> list[Sums]:
    return total if answers is None else [one + other for one, other in zip(total, answers, strict=True)]


def _read_rows(part: Part, task: Task) -> NDArray[Any]:
    return np.concatenate([task.apply(_no_rows(task.forest)), *map(task.apply, part.batches(task.forest))])


def _no_rows(forest: Forest) -> NDArray[Any]:
    # Of the same array type as rows of files. Dask loses that type on the way, and joining with this restores it.
    return as_rows(forest, np.empty((0, forest.n_features), forest.input_dtype))
