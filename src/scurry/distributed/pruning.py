"""Exact pruning for rows that no machine could hold.

What `scurry.prune` asks of rows are counts: for each charge and the nodes that cause it, of how many rows they do; and
for each node, how many rows it gets wrong. Files count their own rows, the counts add up, and the closure problem they
state is that of all rows at once, array by array. So is the path, which is solved where `prune` is called.

The counts, not the rows, must fit there. Rows that take the same paths share theirs. In the worst case, deep trees and
no two rows alike, a row adds an item for every feature it reads, of 20 bytes and 4 for each tree that reads it: some 2
kB a row for 40 trees grown to purity that read 45 features, and about seven times that while the path is solved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Source, find
from scurry.checks import Progress
from scurry.costs import FeatureCosts
from scurry.distributed.cluster import connect, share, submit
from scurry.distributed.files import Partition
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.pruning.node_errors import training_errors, validation_errors
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import pose
from scurry.pruning.row_charges import RowCharges
from scurry.verbs.prune import check_choices, solve

Counts = tuple[RowCharges, NDArray[np.float64]]  # and rows that each node gets wrong, if those are wanted


def prune(
    model: Any,
    source: Source,
    *,
    label: str | None = None,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
    errors: str = "training",
    method: str = "exact",
    lambdas: Any = None,
    cluster: Any = "local",
    progress: Progress | None = None,
) -> PruningPath:
    """`scurry.prune` for rows in files: the same path, without ever bringing the rows together.

    Parameters
    ----------
    model : Forest, or anything `scurry.from_model` takes
    source : str, path, or sequence of them
        Files of rows like those to come, each small enough for a worker: Parquet, CSV or Arrow IPC.
    label : str, optional
        The column of the labels; needed for ``errors="validation"``, left out otherwise.
    feature_costs, groups, group_costs, step_cost, errors, method, lambdas
        As of `scurry.prune`.
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
        raise InputError('errors="validation" needs label, the column of the labels')
    forest = from_model(model)
    costs = FeatureCosts.of(
        forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
    )
    from_training = training_errors(forest) if errors == "training" else None
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    with connect(cluster) as client:
        charges, wrong = _summed(client, forest, costs, partitions, errors == "validation", progress)
    node_errors, n_error = from_training or (wrong, float(charges.n_rows))
    problem = pose(forest, charges, node_errors, n_error, costs)
    return solve(problem, method, lambdas, progress)


def _summed(
    client: Any,
    forest: Forest,
    costs: FeatureCosts,
    partitions: list[Partition],
    with_errors: bool,
    progress: Progress | None,
) -> Counts:
    from distributed import as_completed

    charges, wrong = RowCharges.of(forest, np.empty((0, forest.n_features)), costs), np.zeros(forest.n_nodes)
    futures = submit(client, _counts, partitions, share(client, forest), costs, with_errors)
    # In the order they come: sums of whole numbers do not depend on it.
    for n_done, (future, (more_charges, more_wrong)) in enumerate(as_completed(futures, with_results=True), start=1):
        future.release()  # a worker need not keep it
        charges, wrong = charges + more_charges, wrong + more_wrong
        if progress is not None:
            progress(n_done, len(futures))
    return charges, wrong


def _counts(partition: Partition, forest: Forest, costs: FeatureCosts, with_errors: bool) -> Counts:
    rows, labels = partition.read(forest)
    wrong = validation_errors(forest, rows, labels)[0] if with_errors else np.zeros(forest.n_nodes)
    return RowCharges.of(forest, rows, costs), wrong
