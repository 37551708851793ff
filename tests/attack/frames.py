"""Models trained on tables with categories × the same values in every container: equal labels, or refused."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import scurry
from attack.findings import Findings, check_equal
from scurry.errors import InputError, UnsupportedModelError

VALUES: dict[str, Any] = {
    "words": np.array(["red", "green", "blue", "mid dle"], object),
    "odd words": np.array(["", " ", "høy", "日本", "a\nb", "nan", "None"], object),
    "digits": np.array(["003", "2", "1", "0"], object),
    "many words": np.array([f"word {i}" for i in range(60)], object),
    "postal codes": np.array([10115, 20095, 80331, 50667]),
    "reversed": np.array([3, 2, 1, 0]),
    "small": np.array([4, 1, 2, 7], np.int8),
    "large": np.array([2**40, 2**52 + 1, -(2**45)]),
    "booleans": np.array([True, False]),
    "floats": np.array([0.5, 2.0, -3.25]),
    "one": np.array(["only"], object),
}
UNKNOWN = {"O": ["new", "violet"], "i": [101, 102], "b": [], "f": [101.5, 7.75]}


def attack(n: int, seed: int) -> Findings:
    """Compare `n` models of tables, one for each seed from `seed` on, in every container that can hold the rows."""
    findings = Findings()
    with threadpool_limits(1), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for at in range(seed, seed + n):
            with findings.of("frames", at):
                _attack_one(np.random.default_rng([2, at]), Path(folder), findings)
    return findings


def _attack_one(rng: np.random.Generator, folder: Path, findings: Findings) -> None:
    counts = findings.counts
    kinds = {f"c{j}": str(rng.choice(list(VALUES))) for j in range(int(rng.integers(1, 4)))}
    frame = draw_frame(rng, kinds, int(rng.integers(80, 400)))
    signal = sum((frame[name].cat.codes.to_numpy() % 2) * rng.normal() for name in kinds) + 0.5 * frame["x"].to_numpy()
    y = (np.nan_to_num(signal) > np.nanmedian(signal)).astype(int)
    if rng.random() < 0.3:
        y = y + (frame["n"].to_numpy() > 1)
    try:
        model = _fit(rng, frame, y)
    except Exception:  # a framework that does not take such categories, which is its own affair
        counts["tables not trainable"] += 1
        return
    try:
        forest = scurry.from_model(model)
    except UnsupportedModelError:
        counts["models of tables refused"] += 1
        return
    counts["models of tables"] += 1
    rows = draw_frame(rng, kinds, 300, unknown=rng.random() < 0.5)
    known = {name: frame[name].cat.categories for name in kinds}
    expected = _predict(model, rows, known)
    fast = None
    if rng.random() < 0.5 and len(np.unique(expected)) > 1:
        # What no container holds is refused here too.
        try:
            fast = scurry.early_exit(forest, rows, method="qwyc", max_disagreement=0.1, confidence=None)
        except InputError:
            counts["early exits of tables refused"] += 1
    answers = None
    for name, table in containers(rng, rows, list(kinds)):
        counts["tables"] += 1
        try:
            found = forest.predict(table)
        except InputError:
            counts["tables refused"] += 1
            continue
        counts["rows of tables"] += len(rows)
        check_equal(found, expected, f"{type(model).__name__}, {kinds}, {name}")
        check_equal(forest.predict(forest.encoder(table)(table)), expected, f"the encoder of {name}")
        if fast is not None:
            answers = fast.predict(table) if answers is None else answers
            check_equal(fast.predict(table), answers, f"early exit of {name}")
        single = table[5:6] if not isinstance(table, pa.Table) else table.slice(5, 1)
        check_equal(forest.predict(single), expected[5:6], f"one row of {name}")
    if rng.random() < 0.2:
        counts["batches"] += 1
        _compare_batch(rng, forest, rows.assign(**{name: _plain(rows[name]) for name in kinds}), expected, folder)


def draw_frame(rng: np.random.Generator, kinds: dict[str, str], n_rows: int, *, unknown: bool = False) -> pd.DataFrame:
    """Return a frame of numbers and categories, some of them missing, or (with `unknown`) not seen before."""
    columns: dict[str, Any] = {
        "x": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
        "n": rng.integers(0, 3, n_rows),
    }
    for name, kind in kinds.items():
        values = VALUES[kind]
        more = UNKNOWN[values.dtype.kind] if unknown else []
        listed = pd.Index([*values.tolist(), *more], dtype=None if more else values.dtype)
        codes = rng.integers(0, len(listed), n_rows)
        codes[: len(values)] = np.arange(len(values))[:n_rows]
        columns[name] = pd.Categorical.from_codes(np.where(rng.random(n_rows) < 0.08, -1, codes), categories=listed)
    return pd.DataFrame(columns)


def _fit(rng: np.random.Generator, frame: pd.DataFrame, y: np.ndarray) -> Any:
    size = int(rng.integers(2, 12))
    match rng.integers(3):
        case 0:
            options = {"min_child_samples": 2, "min_data_per_group": 2, "cat_smooth": 1.0, "verbose": -1, "n_jobs": 1}
            return lgb.LGBMClassifier(n_estimators=size, num_leaves=int(rng.choice([4, 31])), **options).fit(frame, y)
        case 1:
            one_hot = int(rng.choice([1, 100]))
            model = xgb.XGBClassifier(n_estimators=size, n_jobs=1, enable_categorical=True, max_cat_to_onehot=one_hot)
            return model.fit(frame, y)
        case _:
            return HistGradientBoostingClassifier(max_iter=size, min_samples_leaf=2, random_state=0).fit(frame, y)


def _predict(model: Any, rows: pd.DataFrame, known: dict[str, pd.Index]) -> np.ndarray:
    """Return the framework's labels; categories that it has not seen become missing, which not all do themselves."""
    return model.predict(rows.assign(**{name: rows[name].cat.set_categories(listed) for name, listed in known.items()}))


def containers(rng: np.random.Generator, rows: pd.DataFrame, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the same values in other containers."""
    yield "category", rows
    yield (
        "other codes",
        rows.assign(
            **{name: rows[name].cat.set_categories(rng.permutation(rows[name].cat.categories)) for name in names}
        ),
    )
    objects = rows.assign(**{name: rows[name].astype(object) for name in names})
    yield "objects", objects
    yield "objects with None", objects.where(objects.notna(), None)
    yield (
        "other columns and index",
        objects[[*objects.columns[::-1]]].assign(more="x").set_index(np.arange(len(rows)) * 7),
    )
    yield "Arrow dictionaries", pa.Table.from_pandas(rows, preserve_index=False)
    plain = rows.assign(**{name: _plain(rows[name]) for name in names})
    yield "nullable", plain
    yield "polars", pl.from_pandas(plain)
    table = pa.Table.from_pandas(plain, preserve_index=False)
    yield "Arrow", table
    yield "Arrow in chunks", pa.concat_tables([table.slice(0, 7), table.slice(7)])
    text = [name for name in names if rows[name].cat.categories.dtype.kind not in "ifb"]
    yield "str", rows.assign(**{name: rows[name].astype("str") for name in text})
    yield "polars categorical", pl.from_pandas(plain).with_columns(pl.col(text).cast(pl.Categorical))
    yield "Arrow large strings", pl.from_pandas(plain).to_arrow()
    yield "pandas of Arrow", table.to_pandas(types_mapper=pd.ArrowDtype)


def _plain(column: pd.Series) -> pd.Series:
    dtype = {"i": "Int64", "b": "boolean", "f": "Float64"}.get(column.cat.categories.dtype.kind, "string")
    return column.astype(object).astype(dtype)


def _compare_batch(
    rng: np.random.Generator, forest: scurry.Forest, rows: pd.DataFrame, expected: np.ndarray, folder: Path
) -> None:
    rows.to_parquet(folder / "rows.parquet", row_group_size=int(rng.integers(20, 300)))
    try:
        forest.predict(rows)
    except InputError:
        return  # a column that is refused in memory is refused in a file too
    target = folder / "out.parquet"
    n_at_once = int(rng.integers(1, 400))
    scurry.batch.score(folder / "rows.parquet", forest, target, n_threads=1, n_rows_per_batch=n_at_once)
    check_equal(pd.read_parquet(target)["label"], expected, "a batch")
    target.unlink()
