"""Exact pruning for rows in files that do not fit into one machine.

`scurry.prune` needs only counts of rows: how many rows pay which charge because of which nodes, and how many rows each
node gets wrong. Each file's rows are counted by a worker, and the counts are added up. The sums are those of all rows
at once, array by array, so the path is the same. It is solved where `prune` is called.

The counts, not the rows, must fit there. Rows that take the same paths share their counts. In the worst case, deep
trees and no two rows alike, a row adds an item for every feature it reads, of 20 bytes and 4 for each tree that reads
it: about 2 kB a row for 40 trees grown to purity that read 45 features, and seven times that while the path is solved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Source, find
from scurry.checks import Progress
from scurry.costs import ErrorCosts, FeatureCosts
from scurry.distributed.cluster import connect, share, submit
from scurry.distributed.files import Partition
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.pruning.methods import check_choices, solve
from scurry.pruning.node_errors import class_counts, training_errors, weigh_counts
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import pose
from scurry.pruning.row_charges import RowCharges

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
