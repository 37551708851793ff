"""Early exits, step orders and prunings fitted to more rows than fit into the memory of one machine.

Step orders. The greedy searches need one number per tree and step: the loss of all rows if that step were taken next.
It is a sum over rows, so workers compute it for their files and the sums decide. The order is the one that
`scurry.orders.find` finds on all rows at once. The other searches read the rows in other ways, again and again; give
them a sample.

Early exits. `scurry.early_exit` needs only counts of its calibration rows: rows by number of positive votes, mistakes
and evaluated trees of each candidate, rows that stop after each tree. Workers count the rows of their files, and the
counts add up. So the plan is the one that a single machine would find with all rows in memory, bit by bit.

One step is not a count: the search for an order of trees and for thresholds on scores ("qwyc", "fan", "auto") sorts
rows again and again. It runs in memory on a random sample, and all other rows certify what it finds. The promise does
not suffer, because its mistakes are counted on all those other rows; but a rule fitted to fewer rows may stop a little
later. How far can a sample mislead? By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, the share of n
sampled rows on one side of a threshold, after any of T trees in a given order, is within
``sqrt(log(2 T / δ) / (2 n))`` of the share among new rows, for all thresholds and trees at once, with probability
1 - δ: 0.7 % for T = 500, n = 100,000, δ = 0.05.

Prunings. `scurry.prune` needs only counts of rows: how many rows pay which charge because of which nodes, and how many
rows each node gets wrong. Each file's rows are counted by a worker, and the counts are added up. The sums are those of
all rows at once, array by array, so the path is the same. It is solved where `prune` is called.

The counts, not the rows, must fit there. Rows that take the same paths share their counts. In the worst case, deep
trees and no two rows alike, a row adds an item for every feature it reads, of 20 bytes and 4 for each tree that reads
it: about 2 kB a row for 40 trees grown to purity that read 45 features, and seven times that while the path is solved.

Rows in files on a cluster: workers read the files, and only sums over rows come back.

`FileSample` reads a file a few rows at a time, once for each round over all files, so that neither a file nor all of
them together need fit into memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.batch.files import Fragment, Reader, Source, arrow, find, open_fragment
from scurry.checks import Progress, check_count
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.distributed.cluster import connect, gather, get_or_make, share, submit
from scurry.errors import InputError
from scurry.forest import Forest, as_rows, columns_read, float_columns, null_texts, text_columns
from scurry.importers import from_model
from scurry.orders.curves import measure_curve
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.search import StepOrder
from scurry.predictor import Predictor
from scurry.promises import read_promise
from scurry.pruning.methods import check_choices, solve
from scurry.pruning.node_errors import class_counts, training_errors, weigh_counts
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import RowCharges, pose
from scurry.stopping.guarantee import Sample, Sums
from scurry.verbs.anytime import predictor_of
from scurry.verbs.early_exit import calibrate
from scurry.verbs.options import DEFAULT_CONFIDENCE, Calibration, ExitKeywords, ExitOptions

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
            null_texts=null_texts(forest),
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

    def map(self, function: Callable[[Any], Any]) -> FileSample:
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
        return replace(self, limit=self.n_rows).map(number).gather()

    def gather(self) -> NDArray[Any]:
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


def early_exit(
    model: Any,
    source: Source,
    *,
    X_fit: Any = None,
    max_fit_rows: int = 100_000,
    label: str | None = None,
    cluster: Any = "local",
    progress: Progress | None = None,
    **options: Unpack[ExitKeywords],
) -> Predictor:
    """Calibrate an early exit on rows in files: `scurry.early_exit` without bringing the rows together.

    Parameters
    ----------
    model : estimator, booster, path or Forest
    source : str, path, or sequence of them
        Files of rows like those to be predicted, of any size: Parquet, CSV or Arrow IPC. Together they are one table,
        in the order of their names.
    X_fit : array or DataFrame, optional
        Rows on which the order of trees and the thresholds on scores are found. All rows of the files then certify
        them, and the plan is that of ``scurry.early_exit(model, all_rows, X_fit=X_fit)``. Methods on votes do not need
        it.
    max_fit_rows : int
        Without `X_fit`, this many rows are drawn from the files instead (at most half of all rows), and the others
        certify. If half of all rows are drawn, the plan is that of ``scurry.early_exit(model, all_rows)``.
    label : str, optional
        A column to ignore because it holds labels, which are not needed here.
    cluster : "local", address or distributed.Client
        See `scurry.distributed.score`.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` with numbers of files, in each of several rounds over them.
    **options
        The options of `scurry.early_exit`: promise, max_disagreement, method, confidence, shuffle, keep_scores, costs,
        threshold, order, bin_width, gamma and random_state. "fan" keeps the model's order of trees by default.

    Returns
    -------
    Predictor

    Examples
    --------
    The client of this example has one worker, inside this process.

    >>> import pyarrow as pa, pyarrow.csv, scurry, tempfile
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(2000, n_features=4, random_state=0)
    >>> model = RandomForestClassifier(11, max_depth=4, random_state=0).fit(X[:500], y[:500])
    >>> promise = {"max_disagreement": 0.05, "method": "minimean", "random_state": 0}
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=None) as client:
    ...     pa.csv.write_csv(pa.table({f"x{j}": X[500:, j] for j in range(4)}), f"{folder}/rows.csv")
    ...     fast = scurry.distributed.early_exit(model, folder, cluster=client, **promise)
    >>> fast.digest == scurry.early_exit(model, X[500:], **promise).digest
    True
    """
    forest = from_model(model)
    check_count("max_fit_rows", max_fit_rows)
    given: dict[str, Any] = {**options}
    # The promise that a text asks for has the confidence.
    confidence = given.pop("confidence", DEFAULT_CONFIDENCE) if isinstance(given.get("promise"), str) else None
    given["promise"] = read_promise(given.get("promise"), forest.classes, confidence)
    asked = ExitOptions(**given)
    if asked.asked.NEEDS_LABELS:
        raise InputError(
            f"{type(asked.asked).__name__} compares answers with known labels, and files are read without theirs. Call "
            "scurry.early_exit on rows in memory, or promise Labels or LabelsPerClass, which need none",
            argument="promise",
        )
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    with connect(cluster) as client:
        sample = FileSample.of(client, forest, partitions, int(max_fit_rows), progress)
        predictor = calibrate(Calibration.of(forest, sample, None, X_fit, asked))
        is_sampled = X_fit is None and 2 * max_fit_rows < sample.n_rows
    return _name_own_call(predictor, int(max_fit_rows)) if is_sampled else predictor


def _name_own_call(predictor: Predictor, max_fit_rows: int) -> Predictor:
    """Return the predictor with the call that made it, where `scurry.early_exit` would fit the rule to more rows."""
    plan, certificate = predictor.plan, predictor.certificate
    if certificate is None:
        return predictor
    own = f"scurry.distributed.early_exit(model, source, max_fit_rows={max_fit_rows}"
    recipe = certificate.recipe.replace("scurry.early_exit(model, X_cal", own, 1)
    return Predictor(predictor.forest, replace(plan, certificate=replace(certificate, recipe=recipe)))


Counts = tuple[RowCharges, NDArray[np.float64]]  # the second: rows of each class through each node, 0 if not needed


def prune(
    model: Any,
    source: Source,
    *,
    label: str | None = None,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    class_weight: Any = None,
    error_costs: Any = None,
    errors: str = "training",
    method: str = "exact",
    lambdas: Any = None,
    cluster: Any = "local",
    progress: Progress | None = None,
) -> PruningPath:
    """Prune like `scurry.prune` with rows in files: the same path, without loading all rows at once.

    Parameters
    ----------
    model : Forest, or anything `scurry.from_model` takes
    source : str, path, or sequence of them
        Files of rows like those to be predicted, each small enough for a worker: Parquet, CSV or Arrow IPC.
    label : str, optional
        The column of the labels; needed for ``errors="validation"``, ignored otherwise.
    feature_costs, groups, group_costs, step_cost, class_weight, error_costs, errors, method, lambdas
        As in `scurry.prune`. ``path.at`` goes by the objective's error, because the rows are not at hand.
    cluster : "local", address or distributed.Client
    progress : callable, optional
        Called as ``progress(n_done, n_total)``, first with numbers of files that are counted, then as `scurry.prune`
        calls it.

    Returns
    -------
    PruningPath

    Examples
    --------
    >>> import scurry.distributed
    >>> path = scurry.distributed.prune(model, "rows/*.parquet", label="y", cluster="local")  # doctest: +SKIP
    """
    check_choices(errors, method, lambdas)
    if errors == "validation" and label is None:
        raise InputError('errors="validation" needs label, the column of the labels', argument="label")
    forest = from_model(model)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    weights = ErrorCosts.of_forest(forest, class_weight=class_weight, error_costs=error_costs)
    from_training = training_errors(forest, weights) if errors == "training" else None
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    with connect(cluster) as client:
        charges, counts = _count_rows(client, forest, costs, partitions, errors == "validation", progress)
    node_errors, n_error = from_training or weigh_counts(forest, counts, weights)
    problem = pose(forest, charges, node_errors, n_error, costs)
    return solve(problem, method, lambdas, progress)


def _count_rows(
    client: Any,
    forest: Forest,
    costs: FeatureCosts,
    partitions: list[Partition],
    with_errors: bool,
    progress: Progress | None,
) -> Counts:
    """Count the rows of every file on the cluster, and add up."""
    from distributed import as_completed

    charges = RowCharges.of(forest, np.empty((0, forest.n_features)), costs)
    counts = np.zeros((forest.n_nodes, forest.n_classes) if with_errors else 1)
    futures = submit(client, _count_file, partitions, share(client, forest), costs, with_errors)
    # Whole numbers are added, so the sums do not depend on the order in which files are done.
    for n_done, (future, (more_charges, more_counts)) in enumerate(as_completed(futures, with_results=True), start=1):
        future.release()  # so that the worker can free it
        charges, counts = charges + more_charges, counts + more_counts
        if progress is not None:
            progress(n_done, len(futures))
    return charges, counts


def _count_file(partition: Partition, forest: Forest, costs: FeatureCosts, with_errors: bool) -> Counts:
    """Count the rows of one file; runs on a worker."""
    rows, labels = partition.read(forest)
    counts = class_counts(forest, rows, labels) if with_errors else np.zeros(1)
    return RowCharges.of(forest, rows, costs), counts
