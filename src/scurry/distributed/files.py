"""Rows in files as a calibration sample: workers read them, and only sums over rows come back.

A file is read a few rows at a time, once for each round of questions, so neither it nor all files together need fit
into memory. A question carries all that is needed to answer it: a worker that dies is replaced by one that reads the
file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from scurry.distributed.cluster import Partition, gathered, shared, submitted
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.rows import as_rows
from scurry.stopping.sample import Sample, Sums

T = TypeVar("T")
Progress = Callable[[float, str], object]
_N_ROWS_PER_BATCH = 1 << 14  # questions make arrays of so many rows by trees
_CASES_AT_ONCE = 16  # every round reads the files again


class Part(NamedTuple):
    """The chosen rows of a file of `n_rows`, as packed bits; all of them if None."""

    partition: Partition
    n_rows: int
    chosen: NDArray[np.uint8] | None

    def batches(self, forest: Forest) -> Iterator[NDArray[Any]]:
        """The chosen rows a few at a time."""
        chosen = None if self.chosen is None else np.unpackbits(self.chosen, count=self.n_rows).astype(np.bool_)
        start = 0
        for rows in self.partition.batches(forest, _N_ROWS_PER_BATCH):
            yield rows if chosen is None else rows[chosen[start : start + len(rows)]]
            start += len(rows)
        if start != self.n_rows:
            raise InputError(f"{self.partition.fragment.name} had {self.n_rows} rows and now has {start}")


class Work(NamedTuple):
    """What is made of rows, and asked of that."""

    forest: Forest
    functions: tuple[Callable[[Any], Any], ...]
    question: Callable[..., Sums]

    def made(self, rows: NDArray[Any]) -> Any:
        """What the functions make of rows, one after another."""
        return reduce(lambda values, function: function(values), self.functions, rows)

    def answers(self, rows: NDArray[Any], cases: Sequence[tuple[Any, ...]]) -> list[Sums]:
        """What the rows contribute to the answer in each case."""
        values = self.made(rows)
        return [self.question(values, *case) for case in cases]


@dataclass(frozen=True, eq=False)
class FileSample(Sample):
    """Rows in files, or what was made of each of them.

    Attributes
    ----------
    client : distributed.Client
    forest : Forest
        By whose features rows are read.
    partitions : sequence of Partition
    sizes : int64 array of shape (n_partitions,)
        Rows of each.
    limit : int
        How many rows may be brought together.
    progress : callable or None
        Called as ``progress(share_of_round, message)``.
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
        """All rows of all files, in the order of `partitions`."""
        sizes = np.array(gathered(client, Partition.n_rows, partitions, shared(client, forest)), np.int64)
        return cls(client, forest, partitions, sizes, limit, progress)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum() if self.chosen is None else self.chosen.sum())

    @property
    def max_gathered(self) -> int:
        """How many rows may be brought together in memory."""
        return self.limit

    def where(self, chosen: NDArray[np.bool_]) -> FileSample:
        """Those rows for which `chosen`, of shape (n_rows,), is true."""
        if self.chosen is None:
            return replace(self, chosen=chosen)
        both = self.chosen.copy()
        both[self.chosen] = chosen
        return replace(self, chosen=both)

    def mapped(self, function: Callable[[Any], Any]) -> FileSample:
        """What `function` makes of the rows, when they are asked."""
        return replace(self, functions=(*self.functions, function))

    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """The answers of all files, summed, after one round over them."""
        (answer,) = self._summed(question, [()])
        return answer

    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """The answers about each of the cases, several in each round over the files."""
        left = iter(cases)
        while at_once := [(case,) for case in islice(left, _CASES_AT_ONCE)]:
            yield from self._summed(question, at_once)

    def gathered(self) -> NDArray[Any]:
        """All rows in memory, in order."""
        if self.n_rows > self.max_gathered:
            raise InputError(
                f"{self.n_rows:,} rows would have to be in memory at once, and max_fit_rows is {self.max_gathered:,}. "
                "Fit on some of them (X_fit) and let the others certify that, with a confidence"
            )
        work = self._work(len)
        return np.concatenate([self.none(), *gathered(self.client, _rows, self._parts(), shared(self.client, work))])

    def none(self) -> NDArray[Any]:
        """An array like those that questions are called with, of no rows."""
        values: NDArray[Any] = self._work(len).made(_no_rows(self.forest))
        return values

    def _work(self, question: Callable[..., Any]) -> Work:
        return Work(self.forest, self.functions, question)

    def _summed(self, question: Callable[..., Sums], cases: Sequence[tuple[Any, ...]]) -> list[Sums]:
        from distributed import as_completed

        work = self._work(question)
        total = work.answers(_no_rows(self.forest), cases)
        futures = submitted(self.client, _answers, self._parts(), shared(self.client, work), cases)
        for n_done, (_, answers) in enumerate(as_completed(futures, with_results=True), start=1):
            total = _added(total, answers)
            if self.progress is not None:
                self.progress(n_done / len(futures), f"{n_done} of {len(futures)} files")
        return total

    def _parts(self) -> list[Part]:
        if self.chosen is None:
            return [Part(*part, None) for part in zip(self.partitions, self.sizes.tolist(), strict=True)]
        pieces = map(np.packbits, np.split(self.chosen, np.cumsum(self.sizes)[:-1]))
        return [Part(*part) for part in zip(self.partitions, self.sizes.tolist(), pieces, strict=True)]


def _answers(part: Part, work: Work, cases: Sequence[tuple[Any, ...]]) -> list[Sums] | None:
    """What a file contributes to the answer in each case; None if it is empty."""
    total: list[Sums] | None = None
    for rows in part.batches(work.forest):
        answers = work.answers(rows, cases)
        total = answers if total is None else _added(total, answers)
    return total


def _added(total: list[Sums], answers: list[Sums] | None) -> list[Sums]:
    return total if answers is None else [one + other for one, other in zip(total, answers, strict=True)]


def _rows(part: Part, work: Work) -> NDArray[Any]:
    return np.concatenate([work.made(_no_rows(work.forest)), *map(work.made, part.batches(work.forest))])


def _no_rows(forest: Forest) -> NDArray[Any]:
    # As rows of files are: concatenated with those, it says whether they are coded, which Dask does not transport.
    return as_rows(forest, np.empty((0, forest.n_features), forest.input_dtype))
