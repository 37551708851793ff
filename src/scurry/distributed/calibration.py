"""Early exit calibrated on rows that no machine could hold.

What `scurry.early_exit` asks of its calibration rows are counts: rows by positive votes, mistakes and voters asked of
each candidate, rows that leave after each tree. Files count their own rows and the counts add up, so the plan is that
of one machine with all rows in memory, bit by bit.

One thing is not a count: the search for an order of trees and thresholds on scores ("qwyc", "fan", "auto") sorts rows
again and again. It gets a random sample in memory, and all other rows certify what it finds. That costs nothing of the
promise, whose mistakes are counted on all of those rows; a rule from fewer rows may only stop a little later than one
from all. How far a sample can mislead it: by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, the share of
n sampled rows on one side of a threshold, after any of T trees in a given order, is within
``sqrt(log(2 T / δ) / (2 n))`` of that of new rows, for all thresholds and trees at once, with probability 1 - δ: 0.7 %
for T = 500, n = 100,000, δ = 0.05.
"""

from __future__ import annotations

from typing import Any, Unpack

from scurry.batch.files import Source, find
from scurry.checks import check_count
from scurry.distributed.cluster import Partition, connected
from scurry.distributed.files import FileSample, Progress
from scurry.importers import from_model
from scurry.predictor import Predictor
from scurry.verbs.early_exit import calibrate
from scurry.verbs.options import Calibration, ExitKeywords, ExitOptions


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
    """`scurry.early_exit` for calibration rows in files: the same plan, without ever bringing them together.

    Parameters
    ----------
    model : estimator, booster, path or Forest
    source : str, path, or sequence of them
        Files of rows like those to be predicted, of any size: Parquet, CSV or Arrow IPC. They count as one table, in
        the order of their names.
    X_fit : array or DataFrame, optional
        Rows that find the order of trees and the thresholds on scores; all rows of the files then certify them, and the
        plan is that of ``scurry.early_exit(model, all_rows, X_fit=X_fit)``. Methods on votes do not need it.
    max_fit_rows : int
        Without `X_fit`, so many rows drawn from the files (at most half of them) take its part, and the others certify.
        Where that is half of them, the plan is that of ``scurry.early_exit(model, all_rows)``.
    label : str, optional
        A column that is no feature. Labels are not needed: it is left out.
    cluster : "local", address or distributed.Client
    progress : callable, optional
        Called as ``progress(share_done, message)`` in each of several rounds over the files.

    **options
        The options of `scurry.early_exit`: promise, max_disagreement, method, confidence, shuffle, keep_scores, costs,
        threshold and random_state. "fan" keeps the trees' own order.

    Returns
    -------
    Predictor

    Examples
    --------
    >>> import scurry.distributed
    >>> fast = scurry.distributed.early_exit(model, "rows/*.parquet", cluster="local")  # doctest: +SKIP
    """
    forest = from_model(model)
    check_count("max_fit_rows", max_fit_rows)
    partitions = [Partition(fragment.absolute(), label) for fragment in find(source)]
    asked = ExitOptions(**options)
    with connected(cluster) as client:
        sample = FileSample.of(client, forest, partitions, int(max_fit_rows), progress)
        return calibrate(Calibration.of(forest, sample, None, X_fit, asked))
