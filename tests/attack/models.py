"""Random models × hostile rows: labels of the source framework, of the slow predictor, and in every container."""

import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

import scurry
from attack.findings import Findings, check_close, check_equal
from attack.sources import Source, draw
from scurry.errors import FormatError, InfeasibleError, InputError, ScurryError
from scurry.forest import reference
from support import anytime_oracle
from support.exit_oracle import exit_answers
from support.strategies import adversarial_rows

N_ROWS = 400
FLOAT32_MAX = float(np.finfo(np.float32).max)
EXTREME = np.array(
    [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 5e-324, 1e-39, FLOAT32_MAX, -FLOAT32_MAX, np.nextafter(FLOAT32_MAX, 1e39),
     2.0**24 + 1, 2.0**31, -(2.0**31), 2.0**53, 2.0**63, -(2.0**63), 1e308, -0.0]
)  # fmt: skip


def attack(n: int, seed: int) -> Findings:
    """Compare `n` models, one for each seed from `seed` on, with their frameworks and with the slow predictor."""
    findings = Findings()
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for at in range(seed, seed + n):
            with findings.of("models", at):
                _attack_one(np.random.default_rng([1, at]), findings)
    return findings


def _attack_one(rng: np.random.Generator, findings: Findings) -> None:
    counts = findings.counts
    try:
        source = draw(rng)
    except ScurryError:
        raise
    except Exception:  # a framework that cannot be trained so, which is its own affair
        counts["models not trainable"] += 1
        return
    try:
        forest = source.model if isinstance(source.model, scurry.Forest) else scurry.from_model(source.model)
    except FormatError as error:
        if "categories above" not in str(error):  # the one thing that is refused
            raise
        counts["models refused"] += 1
        return
    counts["models"] += 1
    counts[f"models of {type(source.model).__name__}"] += 1
    rows = hostile_rows(rng, forest, source.X)
    counts["rows"] += len(rows)
    _compare_with_reference(forest, rows)
    if forest is not source.model:
        _compare_with_framework(rng, source, forest, rows, findings)
    expected = forest.predict(rows)
    for name, table in containers(rng, rows):
        check_equal(forest.predict(table), expected, name)
        counts["containers"] += 1
    _compare_files(rng, source, forest, rows, expected, counts)
    if forest.is_classifier and forest.n_trees > 2:
        _compare_exits(rng, forest, rows, findings)
    _compare_steps(rng, forest, rows[:60], counts)


def hostile_rows(rng: np.random.Generator, forest: scurry.Forest, X: np.ndarray) -> np.ndarray:
    """Return rows on and next to thresholds, with extreme numbers in some of them."""
    rows = adversarial_rows(forest, X, N_ROWS, int(rng.integers(2**32)), special=False)
    extreme = (rng.random(rows.shape) < 0.15) & (rng.random((N_ROWS, 1)) < 0.5)
    return np.where(extreme, rng.choice(EXTREME, rows.shape), rows)


def _compare_with_reference(forest: scurry.Forest, rows: np.ndarray) -> None:
    for given in (rows, rows.astype(np.float32)):
        leaves = reference.apply(forest, given)
        scores = reference.scores_at(forest, leaves)
        check_equal(forest.apply(given), leaves, "leaves")
        check_equal(forest.scores(given), scores, "scores")
        labels, clear = forest.predict(given), ~_is_tied(forest, scores)
        expected = reference.labels_of(forest, scores)
        (check_equal if forest.is_classifier else check_close)(labels[clear], expected[clear], "labels")
        check_equal(forest.predict(given, n_threads=2), labels, "labels of two threads")
        for row in range(0, len(given), 97):
            check_equal(forest.predict(given[row : row + 1]), labels[row : row + 1], "the label of one row")
        if forest.is_classifier:
            expected = reference.probabilities_of(forest, scores)
            check_close(forest.predict_proba(given), expected, "probabilities")


def _is_tied(forest: scurry.Forest, scores: np.ndarray) -> np.ndarray:
    """Return which rows have two classes of the same probability but for rounding.

    Some frameworks decide on probabilities. Their exponential, which the engine calls too, and numpy's may differ in
    the last bit. So the framework itself is the judge of such a row, and the slow predictor is not.
    """
    if forest.label_from == "score" or scores.shape[1] == 1:
        return np.zeros(len(scores), bool)
    ranked = np.sort(reference.link(forest, scores), axis=1)
    return ranked[:, -1] - ranked[:, -2] <= 4 * np.finfo(forest.score_dtype).eps


def _compare_with_framework(
    rng: np.random.Generator, source: Source, forest: scurry.Forest, rows: np.ndarray, findings: Findings
) -> None:
    accepted = rows[source.accepts(rows)]
    given = {"float64": accepted, "float32": rows.astype(np.float32)}
    given["float32"] = given["float32"][source.accepts(given["float32"])]
    whole = np.nan_to_num(rows.clip(-1e6, 1e6)).astype(np.int64)
    given |= {
        "int64": whole + (2**24 - 10**6) * (rng.random() < 0.5),
        "bool": whole > 0,
        "uint8": whole.astype(np.uint8),
    }
    for name, matrix in given.items():
        if not len(matrix):
            continue
        expected = source.model.predict(matrix)
        compare = check_equal if forest.is_classifier else check_close
        compare(forest.predict(matrix), expected, f"labels of {type(source.model).__name__} for {name}")
        findings.counts["rows compared with a framework"] += len(matrix)
        if forest.is_classifier:
            check_close(forest.predict_proba(matrix), source.model.predict_proba(matrix), f"probabilities for {name}")


def containers(rng: np.random.Generator, rows: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Yield the same rows in other containers."""
    n_rows, n_columns = rows.shape
    yield "Fortran order", np.asfortranarray(rows)
    spread = np.full((2 * n_rows, 3 * n_columns), np.nan)
    spread[::2, 1::3] = rows
    yield "strides", spread[::2, 1::3]
    yield "negative strides", np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1]
    locked = rows.copy()
    locked.flags.writeable = False
    yield "read-only", locked
    yield "misaligned", np.frombuffer(b"\0" + rows.tobytes(), np.uint8)[1:].view(np.float64).reshape(rows.shape)
    yield "objects", rows.astype(object)
    yield "lists", rows.tolist()
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(n_columns)])
    yield "pandas", frame
    yield "pandas objects", frame.astype(object)
    yield "pandas nullable", frame.convert_dtypes(convert_integer=False) if n_columns else frame
    mixed = {name: _as_other_dtype(rng, frame[name]) for name in frame}
    yield "pandas of several dtypes", pd.DataFrame(mixed)
    table = pa.table({name: pa.array(column.to_numpy(float)) for name, column in frame.items()})
    yield "Arrow", table
    yield "Arrow in chunks", pa.concat_tables([table.slice(0, 7), table.slice(7)])
    yield "Arrow record batch", table.combine_chunks().to_batches()[0]
    try:
        import polars as pl
    except ImportError:  # it is large, and machines that are lent for a few minutes may not have it
        return
    yield "polars", pl.DataFrame({name: column.to_numpy() for name, column in frame.items()})
    yield "polars of several dtypes", pl.from_arrow(pa.Table.from_pandas(pd.DataFrame(mixed), preserve_index=False))


def _as_other_dtype(rng: np.random.Generator, column: pd.Series) -> pd.Series:
    """Return a column in a narrower dtype where that changes no value."""
    for dtype in rng.permutation(["float32", "int64", "Int64", "bool", "Float32", "float64[pyarrow]", "float16"]):
        try:
            narrow = column.astype(str(dtype))
        except (ValueError, TypeError, OverflowError):
            continue
        back = narrow.astype("float64").to_numpy()
        if np.array_equal(back, column.to_numpy(), equal_nan=True) and not np.signbit(column[column == 0]).any():
            return narrow
    return column


def _compare_files(
    rng: np.random.Generator, source: Source, forest: scurry.Forest, rows: np.ndarray, expected: np.ndarray, counts: Any
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forest.save(folder / "forest.scurry")
        check_equal(scurry.load(folder / "forest.scurry").predict(rows), expected, "a saved forest")
        counts["files read back"] += 1
        model, path = source.model, None
        kind = type(model).__name__
        if kind.startswith("LGBM"):
            model.booster_.save_model(path := folder / "model.txt")
        elif kind.startswith("XGB"):
            model.save_model(path := folder / f"model.{rng.choice(['json', 'ubj'])}")
        elif kind != "Forest" and rng.random() < 0.2:
            import skops.io

            skops.io.dump(model, path := folder / "model.skops")
        if path is None:
            return
        again = scurry.from_model(path)
        counts["files read back"] += 1
        found = again.predict(rows)
        if again.is_classifier and kind.startswith("LGBM"):
            found = forest.classes[found]  # its text does not hold labels
        check_equal(found, expected, f"a model from {path.name}")


def _compare_exits(rng: np.random.Generator, forest: scurry.Forest, rows: np.ndarray, findings: Findings) -> None:
    methods = ["qwyc", "qwyc", "fan"] if forest.n_classes == 2 else ["qwyc"]
    if forest.aggregation != "sum":
        methods += ["minimean", "minimixed", "minimax", "schwing"] if forest.n_classes == 2 else ["minimixed"]
    asked: dict[str, Any] = {
        "method": str(rng.choice(methods)),
        "max_disagreement": float(rng.choice([0.0, 0.02, 0.2])),
    }
    if asked["method"] == "qwyc" and forest.n_classes == 2:
        options: list[dict[str, Any]] = [{}, {"keep_scores": "positive"}]
        if forest.n_outputs == 1 or forest.aggregation != "sum":
            options.append({"threshold": 0.3})
        asked |= options[rng.integers(len(options))]
    confidence = None if rng.random() < 0.7 else 0.8
    try:
        fast = scurry.early_exit(forest, rows, confidence=confidence, random_state=0, **asked)
    except (InfeasibleError, InputError) as error:
        # Too few rows for the promise, or a model that says the same of all rows; everything else is a problem.
        if isinstance(error, InputError) and not re.search("answers .* (to|on) all", str(error)):
            raise
        findings.counts["early exits refused"] += 1
        return
    findings.counts["early exits"] += 1
    if fast.plan.exit_rule is None:
        check_equal(fast.predict(rows), reference.predict(fast.forest, rows), f"a full plan {asked}")
        return
    run = fast.run(rows)
    answers = exit_answers(fast, rows)
    is_one = run.complete & _is_tied(fast.forest, reference.scores(fast.forest, rows))
    for trees, labels in answers:
        is_one |= (run.trees == trees) & (run.labels == labels)
    assert is_one.all(), f"early exit {asked}: {(~is_one).sum()} of {len(rows)} rows are not what the rule says"
    check_equal(fast.predict(rows), run.labels, f"labels and run, {asked}")
    check_equal(fast.predict(rows, n_threads=2), run.labels, f"early exit of two threads, {asked}")
    check_equal(fast.predict(pd.DataFrame(rows)), run.labels, f"early exit of a frame, {asked}")
    for row in range(0, len(rows), 61):
        check_equal(fast.predict(rows[row : row + 1]), run.labels[row : row + 1], f"early exit of one row, {asked}")
    probabilities = fast.predict_proba(rows)
    assert np.isfinite(probabilities).all(), f"early exit {asked}: probabilities that are not finite"
    if "threshold" not in asked:
        says = probabilities.argmax(axis=1)[~run.complete]
        check_equal(says, fast.forest.codes_of(run.labels)[~run.complete], f"label of the probabilities, {asked}")
    findings.counts["rows of early exits"] += len(rows)


def _compare_steps(rng: np.random.Generator, forest: scurry.Forest, rows: np.ndarray, counts: Any) -> None:
    steps = anytime_oracle.shuffled_steps(forest, int(rng.integers(2**32)))
    readout = str(rng.choice(["plain", "weighted"]))
    ready = anytime_oracle.anytime_of(forest, steps, readout)
    n_steps = int(rng.integers(0, len(steps) + 1))
    nodes = anytime_oracle.nodes_after(forest, steps, n_steps, reference.apply(forest, rows))
    scores = anytime_oracle.scores_of(forest, nodes, readout)
    expected, clear = anytime_oracle.labels_of(forest, scores), ~_is_tied(forest, scores)
    found = ready.predict(rows, max_steps=n_steps)
    compare = check_equal if forest.is_classifier else check_close
    compare(found[clear], expected[clear], f"{readout} labels after {n_steps} steps")
    counts["rows of anytime plans"] += len(rows)
