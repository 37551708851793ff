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
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.batch.files import Source, find
from scurry.checks import Progress, check_count
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.distributed.cluster import connect, gather, get_or_make, share, submit
from scurry.distributed.files import FileSample, Partition
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.orders.curves import measure_curve
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.search import StepOrder
from scurry.predictor import Predictor
from scurry.promises.promise import read_promise
from scurry.pruning.methods import check_choices, solve
from scurry.pruning.node_errors import class_counts, training_errors, weigh_counts
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import RowCharges, pose
from scurry.verbs.anytime import predictor_of
from scurry.verbs.early_exit import calibrate
from scurry.verbs.options import DEFAULT_CONFIDENCE, Calibration, ExitKeywords, ExitOptions

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
    if isinstance(given.get("promise"), str):
        # The promise has the confidence.
        confidence = given.pop("confidence", DEFAULT_CONFIDENCE)
        given["promise"] = read_promise(given["promise"], forest.classes, confidence)
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
