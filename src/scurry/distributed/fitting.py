"""Step orders found on more rows than fit into the memory of one machine.

The greedy searches need one number per tree and step: the loss of all rows if that step were taken next. It is a sum
over rows, so workers compute it for their files and the sums decide. The order is the one that `scurry.orders.find`
finds on all rows at once. The other searches read the rows in other ways, again and again; give them a sample.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.batch.files import Source, find
from scurry.checks import Progress
from scurry.distributed.cluster import connect, gather, get_or_make, share
from scurry.distributed.files import Partition
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.orders.curves import measure_curve
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.search import StepOrder
from scurry.predictor import Predictor
from scurry.verbs.anytime import predictor_of

GREEDY_ORDERS = ("backward-squirrel", "forward-squirrel")


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
    """Find a step order on rows in files: the one that `scurry.orders.find` finds on all rows at once.

    Parameters
    ----------
    forest : Forest
        A classifier.
    source : str, path, or sequence of them
        Files of labelled rows: Parquet, CSV or Arrow IPC. Each file must fit into the memory of a worker.
    label : str
        Name of the column that holds the labels.
    order : {"backward-squirrel", "forward-squirrel"}
    readout : {"plain", "weighted"}
        See `scurry.orders.find`.
    cluster : "local", address or distributed.Client
        See `scurry.distributed.score`.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` with numbers of steps.

    Returns
    -------
    StepOrder

    Examples
    --------
    The client of this example has one worker, inside this process.

    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> from distributed import Client
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump, stump])
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=None) as client:
    ...     pa.csv.write_csv(pa.table({"x": [0.0, 1.0], "y": [0, 1]}), f"{folder}/rows.csv")
    ...     found = scurry.distributed.find_order(forest, folder, label="y", cluster=client)
    >>> len(found.steps), found.curve.tolist()
    (2, [0.5, 1.0, 1.0])
    """
    if order not in GREEDY_ORDERS:
        raise InputError(
            f"on a cluster, order must be one of {', '.join(GREEDY_ORDERS)}, got {order!r}; for other orders call "
            "scurry.orders.find with a sample of the rows",
            argument="order",
        )
    if not forest.is_classifier:
        raise InputError(
            "on a cluster, orders are found for classifiers; this forest is a regressor", argument="forest"
        )
    started = time.perf_counter()
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    n_steps, down = int(forest.tree_depth.sum()), order == "forward-squirrel"
    taken: list[int] = []
    with connect(cluster) as client:
        sent = share(client, forest)
        # Files without rows count for nothing, and an ordering set needs rows.
        sizes = gather(client, Partition.n_rows, partitions, sent)
        partitions = [partition for partition, n_rows in zip(partitions, sizes, strict=True) if n_rows]
        if not partitions:
            raise InputError(
                "the files hold no rows; finding an order needs labelled rows, a few hundred at least",
                argument="source",
            )
        while len(taken) < n_steps:
            losses = np.sum(gather(client, _find_losses, partitions, sent, readout, down, tuple(taken)), axis=0)
            taken.append(int(losses.argmin()))
            if progress is not None:
                progress(len(taken), n_steps)
        # The backward search starts at the complete trees and takes the steps back.
        steps = np.array(taken if down else taken[::-1], np.int32)
        steps.flags.writeable = False
        correct = np.sum(gather(client, _count_correct, partitions, sent, readout, steps), axis=0)
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
    """Make an anytime predictor from rows in files: `scurry.anytime` without bringing the rows together.

    Parameters
    ----------
    model : estimator, booster, path or Forest
    source, label, order, readout, cluster, progress
        See `find_order`.

    Returns
    -------
    Predictor

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> from distributed import Client
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump, stump])
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=None) as client:
    ...     pa.csv.write_csv(pa.table({"x": [0.0, 1.0], "y": [0, 1]}), f"{folder}/rows.csv")
    ...     ready = scurry.distributed.anytime(forest, folder, label="y", cluster=client)
    >>> ready.predict([[0.0], [1.0]], max_steps=1).tolist()
    [0, 1]
    """
    forest = from_model(model)
    found = find_order(forest, source, label=label, order=order, readout=readout, cluster=cluster, progress=progress)
    return predictor_of(forest, found, objective="steps", n_rows=0)


def _get_ordering_set(partition: Partition, forest: Forest, readout: str) -> OrderingSet:
    def read() -> OrderingSet:
        rows, labels = partition.read(forest)
        return OrderingSet.of(forest, rows, labels, readout)

    # The state of the file is part of the key: a file that changed is read again.
    return get_or_make((partition, partition.state, forest.digest, readout), read)


class _Search:
    """A greedy search over the rows of one partition, and the steps that it has taken so far."""

    def __init__(self, descent: _core.Descent, down: bool) -> None:
        self.descent, self.down, self.lock = descent, down, threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.squirrel, self.taken = _core.Squirrel(self.descent, down=self.down), tuple[int, ...]()

    def follow(self, taken: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the losses after one more step in each tree, given that the steps `taken` were taken before."""
        with self.lock:
            # The cache may hold an earlier search, which took other steps.
            if self.taken != taken[: len(self.taken)]:
                self._begin()
            for tree in taken[len(self.taken) :]:
                self.squirrel.step(tree)
            self.taken = taken
            return np.array(self.squirrel.look())


def _find_losses(
    partition: Partition, forest: Forest, readout: str, down: bool, taken: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the loss of the partition's rows after one more step in each tree, of shape (n_trees,)."""

    def begin() -> _Search:
        return _Search(_get_ordering_set(partition, forest, readout).descent(), down)

    return get_or_make((partition, partition.state, forest.digest, readout, down), begin).follow(taken)


def _count_correct(partition: Partition, forest: Forest, readout: str, steps: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many rows get the right label after each number of steps; the last entry is the number of rows."""
    ordering = _get_ordering_set(partition, forest, readout)
    rows, _ = partition.read(forest)
    return np.append(measure_curve(ordering, steps, rows) * ordering.n_rows, ordering.n_rows).round()
