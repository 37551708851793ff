"""Cluster: what a caller calls one, as a Dask client.

Partitions: labelled files that stay where they are, and answer questions about themselves.

A worker keeps what it has made of a file between questions. That is a cache and no more: every question carries all
that is needed to answer it, so that a worker that dies is replaced by one that reads the file again.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Fragment, Reader, arrow, opened
from scurry.errors import InputError, MissingDependencyError
from scurry.forest import Forest
from scurry.forest.rows import as_rows, columns_read, float_columns


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
            client = Client(cluster, timeout=5)
        except (OSError, TimeoutError) as error:
            raise InputError(f"no Dask scheduler answers at {cluster}; start one with: dask scheduler") from error
        with client:
            yield client
    else:
        raise InputError(
            f"cluster must be 'local', an address such as 'tcp://scheduler:8786' or a Client, got {cluster!r}"
        )


def shared(client: Any, value: Any) -> Any:
    """`value` on the cluster, as a future. A worker that dies with it is no loss: it can be made again."""
    return client.submit(pickle.loads, pickle.dumps(value))


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
        with self._opened(forest) as reader:
            table = arrow().Table.from_batches(reader.batches, reader.schema)
        if self.label is None:
            return as_rows(forest, table), None
        labels = table[self.label]
        if labels.null_count:
            raise InputError(f"{self.fragment.name} has {labels.null_count} rows without a label in {self.label!r}")
        return as_rows(forest, table.drop_columns([self.label])), labels.to_numpy()

    def batches(self, forest: Forest, n_rows_per_batch: int) -> Iterator[NDArray[Any]]:
        """The rows a few at a time, each of shape (n_rows, n_features): the file may be larger than memory."""
        with self._opened(forest, n_rows_per_batch) as reader:
            for batch in reader.batches:
                features = arrow().Table.from_batches([batch])
                yield as_rows(forest, features if self.label is None else features.drop_columns([self.label]))

    def n_rows(self, forest: Forest) -> int:
        """How many rows the file has."""
        with self._opened(forest) as reader:
            return sum(map(len, reader.batches)) if reader.n_rows is None else reader.n_rows

    @property
    def state(self) -> tuple[int, int]:
        """Changes when the file does."""
        status = self.fragment.path.stat()
        return status.st_size, status.st_mtime_ns

    def _opened(self, forest: Forest, n_rows_per_batch: int = 1 << 16) -> AbstractContextManager[Reader]:
        def needed(names: list[str]) -> list[str]:
            if self.label is not None and self.label not in names:
                raise InputError(
                    f"{self.fragment.name} has no column {self.label!r} for the labels; it has {names[:20]}"
                )
            read = set(columns_read(forest, [name for name in names if name != self.label]))
            return [name for name in names if name in read or name == self.label]

        floats = float_columns(forest) - {self.label}
        return opened(self.fragment, n_rows_per_batch=n_rows_per_batch, columns=needed, float_columns=floats)


_cache: OrderedDict[object, Any] = OrderedDict()
_lock = threading.Lock()


def kept(key: object, make: Callable[[], T]) -> T:
    """What `make` made for `key` before in this process, or makes now."""
    with _lock:
        if key in _cache:
            _cache.move_to_end(key)
            found: T = _cache[key]
            return found
    made = make()
    with _lock:
        _cache[key] = made
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return made


def submitted(client: Any, question: Callable[..., Any], partitions: Sequence[Any], *arguments: Any) -> list[Any]:
    """A question asked of all partitions, each where it was asked before, if that place is still there.

    Parameters
    ----------
    client : distributed.Client
    question : callable
        Called with a partition and the arguments.
    partitions : sequence of Partition, or of what stands for one
    arguments
        Given to every call.

    Returns
    -------
    list of distributed.Future
        In the order of `partitions`.
    """
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])

    def place(index: int) -> dict[str, Any]:
        return {"workers": [workers[index % len(workers)]], "allow_other_workers": True} if workers else {}

    return [
        client.submit(question, partition, *arguments, pure=False, **place(index))
        for index, partition in enumerate(partitions)
    ]


def gathered(client: Any, question: Callable[..., T], partitions: Sequence[Any], *arguments: Any) -> list[T]:
    """The answers of all partitions to a question, in their order; parameters as of `submitted`."""
    answers: list[T] = client.gather(submitted(client, question, partitions, *arguments))
    return answers


def total(counts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Counts of all partitions: sums of whole numbers, so that their order does not matter."""
    summed: NDArray[np.float64] = np.sum(counts, axis=0)
    return summed
