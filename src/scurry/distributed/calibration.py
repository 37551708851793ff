"""Early exits calibrated on more rows than fit into the memory of one machine.

`scurry.early_exit` needs only counts of its calibration rows: rows by number of positive votes, mistakes and evaluated
trees of each candidate, rows that stop after each tree. Workers count the rows of their files, and the counts add up.
So the plan is the one that a single machine would find with all rows in memory, bit by bit.

One step is not a count: the search for an order of trees and for thresholds on scores ("qwyc", "fan", "auto") sorts
rows again and again. It runs in memory on a random sample, and all other rows certify what it finds. The promise does
not suffer, because its mistakes are counted on all those other rows; but a rule fitted to fewer rows may stop a little
later. How far can a sample mislead? By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, the share of n
sampled rows on one side of a threshold, after any of T trees in a given order, is within
``sqrt(log(2 T / δ) / (2 n))`` of the share among new rows, for all thresholds and trees at once, with probability
1 - δ: 0.7 % for T = 500, n = 100,000, δ = 0.05.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from scurry.batch.files import Source, find
from scurry.checks import Progress, check_count
from scurry.distributed.cluster import connect
from scurry.distributed.files import FileSample, Partition
from scurry.errors import InputError
from scurry.importers import from_model
from scurry.predictor import Predictor
from scurry.promises.kinds import read_promise
from scurry.verbs.early_exit import calibrate
from scurry.verbs.options import DEFAULT_CONFIDENCE, Calibration, ExitKeywords, ExitOptions


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
