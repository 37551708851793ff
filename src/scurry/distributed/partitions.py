"""Partitions: labelled files that stay where they are, and answer questions about themselves.

A worker keeps what it has made of a file between questions. That is a cache and no more: every question carries all
that is needed to answer it, so that a worker that dies is replaced by one that reads the file again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.fragments import Fragment, arrow, opened
from scurry.rows import as_rows

T = TypeVar("T")
_MAX_CACHED = 64


@dataclass(frozen=True)
class Partition:
    """A file of rows, with or without labels.

    Attributes
    ----------
    fragment : Fragment
    label : str or None
        The column that holds the labels.
    """

    fragment: Fragment
    label: str | None = None

    def read(self, forest: Forest) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """The rows of shape (n_rows, n_features), and the labels of shape (n_rows,)."""
        table = self._table(forest)
        if self.label is None:
            return as_rows(forest, table), None
        labels = table[self.label]
        if labels.null_count:
            raise InputError(f"{self.fragment.name} has {labels.null_count} rows without a label in {self.label!r}")
        return as_rows(forest, table.drop_columns([self.label])), labels.to_numpy()

    def _table(self, forest: Forest) -> Any:
        def needed(names: list[str]) -> list[str]:
            if self.label is not None and self.label not in names:
                raise InputError(
                    f"{self.fragment.name} has no column {self.label!r} for the labels; it has {names[:20]}"
                )
            known = None if forest.feature_names is None else {*forest.feature_names, self.label}
            return [name for name in names if known is None or name in known or name.replace(" ", "_") in known]

        floats = frozenset(forest.feature_names or ()) - {self.label}
        with opened(self.fragment, n_rows_per_batch=1 << 16, columns=needed, float_columns=floats) as reader:
            return arrow().Table.from_batches(reader.batches, reader.schema)


_cache: OrderedDict[object, Any] = OrderedDict()


def kept(key: object, make: Callable[[], T]) -> T:
    """What `make` made for `key` before in this process, or makes now."""
    if key not in _cache:
        _cache[key] = make()
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    _cache.move_to_end(key)
    found: T = _cache[key]
    return found


def forget(key: object) -> None:
    """Drop what was made for `key`."""
    _cache.pop(key, None)


def gathered(client: Any, question: Callable[..., T], partitions: Sequence[Partition], *arguments: Any) -> list[T]:
    """The answers of all partitions to a question, each asked where it was asked before, if that place is still there.

    Parameters
    ----------
    client : distributed.Client
    question : callable
        Called with a partition and the arguments.
    partitions : sequence of Partition
    arguments
        Given to every call.

    Returns
    -------
    list
        In the order of `partitions`.
    """
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])

    def place(index: int) -> dict[str, Any]:
        return {"workers": [workers[index % len(workers)]], "allow_other_workers": True} if workers else {}

    futures = [
        client.submit(question, partition, *arguments, pure=False, **place(index))
        for index, partition in enumerate(partitions)
    ]
    answers: list[T] = client.gather(futures)
    return answers


def total(counts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Counts of all partitions: sums of whole numbers, so that their order does not matter."""
    summed: NDArray[np.float64] = np.sum(counts, axis=0)
    return summed
