"""Step orders from rows that no machine could hold.

The greedy searches look at one number per tree and step: the loss of all rows if that step were taken. It is a sum over
rows, so every partition counts its own and the sums decide. The order is that of `scurry.orders.find` on all rows at
once. The other searches look at rows again and again in other ways; give them a sample.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.batch.files import Source, find
from scurry.distributed.cluster import Partition, connected, gathered, kept, shared, total
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.orders.curves import curve_of
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.search import StepOrder
from scurry.predictor import Predictor
from scurry.verbs.anytime import predictor_of

GREEDY_ORDERS = ("backward-squirrel", "forward-squirrel")
Progress = Callable[[float, str], object]


def find_order(
    forest: Forest,
    source: Source,
    *,
    label: str,
    order: str = "backward-squirrel",
    readout: str = "plain",
    cluster: Any = "local",
    progress: Progress | None = None,
) -> StepOrder:
    """The order that `scurry.orders.find` finds on all rows of all files at once.

    Parameters
    ----------
    forest : Forest
        A classifier.
    source : str, path, or sequence of them
        Files of labelled rows, each small enough for a worker: Parquet, CSV or Arrow IPC.
    label : str
        The column of the labels.
    order : {"backward-squirrel", "forward-squirrel"}
    readout : {"plain", "weighted"}
    cluster : "local", address or distributed.Client
    progress : callable, optional
        Called as ``progress(share_done, message)``.

    Returns
    -------
    StepOrder

    Examples
    --------
    >>> import scurry.distributed
    >>> scurry.distributed.find_order(forest, "rows/*.parquet", label="y", cluster="local")  # doctest: +SKIP
    """
    if order not in GREEDY_ORDERS:
        raise InputError(
            f"on a cluster, order must be one of {', '.join(GREEDY_ORDERS)}, got {order!r}; for other orders call "
            "scurry.orders.find with a sample of the rows"
        )
    if not forest.is_classifier:
        raise InputError("on a cluster, orders are found for classifiers; this forest is a regressor")
    started = time.perf_counter()
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    n_steps, down = int(forest.tree_depth.sum()), order == "forward-squirrel"
    taken: list[int] = []
    with connected(cluster) as client:
        sent = shared(client, forest)
        sizes = gathered(client, Partition.n_rows, partitions, sent)
        partitions = [partition for partition, n_rows in zip(partitions, sizes, strict=True) if n_rows]
        if not partitions:
            raise InputError("the files hold no rows; an order is judged on labelled rows, a few hundred at least")
        while len(taken) < n_steps:
            losses = total(gathered(client, _look, partitions, sent, readout, down, tuple(taken)))
            taken.append(int(losses.argmin()))
            if progress is not None:
                progress(len(taken) / n_steps, f"{len(taken)} of {n_steps} steps")
        steps = np.array(taken if down else taken[::-1], np.int32)
        steps.flags.writeable = False
        correct = total(gathered(client, _correct, partitions, sent, readout, steps))
    return StepOrder(order, steps, readout, correct[:-1] / correct[-1], time.perf_counter() - started)


def anytime(
    model: Any,
    source: Source,
    *,
    label: str,
    order: str = "backward-squirrel",
    readout: str = "plain",
    cluster: Any = "local",
    progress: Progress | None = None,
) -> Predictor:
    """`scurry.anytime` for rows in files.

    Parameters
    ----------
    model : estimator, booster, path or Forest
    source, label, order, readout, cluster, progress
        As of `find_order`.

    Returns
    -------
    Predictor
    """
    forest = from_model(model)
    found = find_order(forest, source, label=label, order=order, readout=readout, cluster=cluster, progress=progress)
    return predictor_of(forest, found, objective="steps", n_rows=0)


def _ordering_set(partition: Partition, forest: Forest, readout: str) -> OrderingSet:
    def read() -> OrderingSet:
        rows, labels = partition.read(forest)
        return OrderingSet.of(forest, rows, labels, readout)

    return kept((partition, partition.state, forest.digest, readout), read)


class _Search:
    """A partition's part of a greedy search, and how far it has come."""

    def __init__(self, descent: _core.Descent, down: bool) -> None:
        self.descent, self.down, self.lock = descent, down, threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.squirrel, self.taken = _core.Squirrel(self.descent, down=self.down), tuple[int, ...]()

    def follow(self, taken: tuple[int, ...]) -> NDArray[np.float64]:
        """The losses after one more step in each tree, once these have been taken."""
        with self.lock:
            if self.taken != taken[: len(self.taken)]:  # of another search for the same order
                self._begin()
            for tree in taken[len(self.taken) :]:
                self.squirrel.step(tree)
            self.taken = taken
            return np.array(self.squirrel.look())


def _look(
    partition: Partition, forest: Forest, readout: str, down: bool, taken: tuple[int, ...]
) -> NDArray[np.float64]:
    """The loss of the partition's rows after one more step in each tree."""

    def begin() -> _Search:
        return _Search(_ordering_set(partition, forest, readout).descent(), down)

    return kept((partition, partition.state, forest.digest, readout, down), begin).follow(taken)


def _correct(partition: Partition, forest: Forest, readout: str, steps: NDArray[np.int32]) -> NDArray[np.float64]:
    """How many of the partition's rows are answered correctly after each step; then, how many it has."""
    ordering = _ordering_set(partition, forest, readout)
    rows, _ = partition.read(forest)
    return np.append(curve_of(ordering, steps, rows) * ordering.n_rows, ordering.n_rows).round()
