"""Random pipelines: transformers in random nests of ColumnTransformers, fitted to random tables, and hostile rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import scurry

FUNCTIONS = (
    np.log1p,
    np.sqrt,
    np.exp,
    np.arcsinh,
    np.cbrt,
    np.arctan,
    np.expm1,
    np.log,
    np.tanh,
    np.fabs,
    np.cosh,
    np.arccosh,
)
TOWNS = np.array(["Bern", "Kyiv", "Lima", "Oslo", "Rome", "007", ""])
SPECIAL = np.array(
    [np.nan, -0.0, 0.0, 5e-324, -5e-324, 1e-310, 1e300, -1e300, 1.7e308, 3.4e38, -3.4e38, 1e-45, 16777217.0, -1.0, 1.0]
)


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted pipeline and the table that it was fitted to."""

    pipeline: Pipeline
    X: Any


def draw_case(rng: np.random.Generator, n_rows: int = 300) -> Case:
    """Return a random pipeline, fitted."""
    frame = _draw_frame(rng, n_rows)
    y = rng.integers(0, int(rng.integers(2, 4)), n_rows)
    y[:3] = np.arange(3) % (y.max() + 1)
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    if rng.random() < 0.3:
        X: Any = frame[numbers].to_numpy(np.float64 if rng.random() < 0.6 else np.float32)
        front: Any = _draw_chain(rng, n_rows)
    else:
        X, front = frame, _draw_columns(rng, frame, n_rows)
    model = _draw_model(rng)
    steps = [front]
    if rng.random() < 0.15:
        steps.append(SelectKBest(_by_variance, k=int(rng.integers(2, 4))))
    pipeline = make_pipeline(*steps, model)
    return Case(pipeline.fit(X, y), X)


def _by_variance(X: Any, y: Any) -> np.ndarray:
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return np.nan_to_num(np.nanvar(dense.astype(np.float64), axis=0))


def _draw_frame(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for at in range(int(rng.integers(2, 5))):
        values = rng.normal(rng.choice([0.0, 5.0, 1000.0]), rng.choice([0.01, 1.0, 50.0]), n_rows)
        if rng.random() < 0.3:
            values = np.round(values)
        if rng.random() < 0.4:
            values[rng.random(n_rows) < 0.1] = np.nan
        columns[f"number{at}"] = values
    for at in range(int(rng.integers(0, 3))):
        towns = rng.choice(TOWNS[: int(rng.integers(2, 8))], n_rows).astype(object)
        if rng.random() < 0.4:
            towns[rng.random(n_rows) < 0.1] = np.nan
        columns[f"town{at}"] = towns
    if rng.random() < 0.5:
        columns["kind"] = rng.choice([1, 2, 5, 9], n_rows)
    return pd.DataFrame(columns)


def _draw_numeric(rng: np.random.Generator, n_rows: int, *, full: bool) -> Any:
    """Return a transformer of numbers; without `full`, one that takes missing values."""
    some = [
        StandardScaler(with_mean=bool(rng.random() < 0.8)),
        MinMaxScaler((0, float(rng.choice([1, 3, 1e-3]))), clip=bool(rng.random() < 0.3)),
        MaxAbsScaler(),
        RobustScaler(),
        PowerTransformer(standardize=bool(rng.random() < 0.5)),
        QuantileTransformer(
            n_quantiles=int(rng.integers(3, 60)), output_distribution=str(rng.choice(["uniform", "normal"]))
        ),
        FunctionTransformer(FUNCTIONS[rng.integers(len(FUNCTIONS))]),
        SimpleImputer(
            strategy=str(rng.choice(["mean", "median", "most_frequent", "constant"])),
            add_indicator=bool(rng.random() < 0.5),
        ),
        FunctionTransformer(),
        "passthrough",
        VarianceThreshold(),
    ]
    if full:
        some += [
            KBinsDiscretizer(
                n_bins=int(rng.integers(2, 7)),
                encode=str(rng.choice(["ordinal", "onehot", "onehot-dense"])),
                strategy=str(rng.choice(["uniform", "quantile"])),
                quantile_method="averaged_inverted_cdf",
            ),
            Binarizer(threshold=float(rng.choice([0.0, 0.1, 5.0]))),
        ]
    return some[rng.integers(len(some))]


def _draw_chain(rng: np.random.Generator, n_rows: int) -> Any:
    steps = [_draw_numeric(rng, n_rows, full=False) for _ in range(int(rng.integers(0, 3)))]
    if rng.random() < 0.6:
        steps += [SimpleImputer(add_indicator=bool(rng.random() < 0.4)), _draw_numeric(rng, n_rows, full=True)]
    if not steps:
        return StandardScaler()
    chain = make_pipeline(*steps)
    if rng.random() < 0.2:
        return FeatureUnion([("one", chain), ("other", MaxAbsScaler())])
    return chain


def _draw_encoder(rng: np.random.Generator) -> Any:
    encoders = [
        OneHotEncoder(
            handle_unknown=str(rng.choice(["ignore", "infrequent_if_exist", "error"])),
            min_frequency=[None, 0.1, 30][rng.integers(3)],
            sparse_output=bool(rng.random() < 0.5),
        ),
        OneHotEncoder(drop=str(rng.choice(["first", "if_binary"])), max_categories=[None, 3][rng.integers(2)]),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=[-1, np.nan][rng.integers(2)]),
        OrdinalEncoder(),
        TargetEncoder(random_state=0),
    ]
    encoder = encoders[rng.integers(len(encoders))]
    if rng.random() < 0.4:
        filled = str(rng.choice(["most_frequent", "constant"]))
        return make_pipeline(SimpleImputer(strategy=filled), encoder)
    return encoder


def _draw_columns(rng: np.random.Generator, frame: pd.DataFrame, n_rows: int) -> Any:
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    others = [name for name in frame if name not in numbers]
    chosen = rng.permutation(numbers).tolist()
    cut = int(rng.integers(0, len(chosen) + 1))
    parts = [("first", _draw_chain(rng, n_rows), chosen[:cut]), ("second", _draw_chain(rng, n_rows), chosen[cut:])]
    parts = [part for part in parts if part[2]]
    parts += [(name, _draw_encoder(rng), [name]) for name in others if rng.random() < 0.85]
    if rng.random() < 0.3:
        parts.append(("again", "passthrough", [numbers[0]]))
    if rng.random() < 0.2 and len(parts) > 1:
        name, step, columns = parts[0]
        parts[0] = (name, ColumnTransformer([("inner", step, list(range(len(columns))))], remainder="drop"), columns)
    return ColumnTransformer(parts, remainder="drop", sparse_threshold=float(rng.choice([0.0, 0.3])))


def _draw_model(rng: np.random.Generator) -> Any:
    size = {"n_estimators": int(rng.integers(1, 8))}
    models = [
        RandomForestClassifier(**size, max_depth=int(rng.integers(2, 9)), random_state=0),
        ExtraTreesClassifier(**size, max_depth=6, random_state=0),
        RandomForestRegressor(**size, max_depth=6, random_state=0),
        GradientBoostingClassifier(**size, random_state=0),
        HistGradientBoostingClassifier(max_iter=size["n_estimators"], min_samples_leaf=5, random_state=0),
        LGBMClassifier(**size, min_child_samples=5, n_jobs=1, verbose=-1, random_state=0),
        XGBClassifier(**size, max_depth=4, n_jobs=1, random_state=0),
        DecisionTreeClassifier(max_depth=8, random_state=0),
    ]
    return models[rng.integers(len(models))]


def hostile_table(rng: np.random.Generator, case: Case, forest: scurry.Forest, n_rows: int) -> Any:
    """Return rows on and next to the thresholds of a folded forest, with special numbers and unknown categories."""
    dtype = np.dtype(forest.input_dtype)
    raw = case.X if isinstance(case.X, pd.DataFrame) else pd.DataFrame(case.X)
    rows = raw.iloc[rng.integers(0, len(raw), n_rows)].reset_index(drop=True)
    for feature, name in enumerate(forest.feature_names or raw.columns):
        if feature in forest.categories:
            rows[name] = _hostile_categories(rng, forest, feature, rows[name], n_rows)
        else:
            special = _taken(case, rows, name, dtype)
            rows[name] = _hostile_numbers(rng, forest, feature, rows[name].to_numpy(dtype), special)
    return rows if isinstance(case.X, pd.DataFrame) else rows.to_numpy(dtype)


def _taken(case: Case, rows: pd.DataFrame, name: Any, dtype: np.dtype) -> np.ndarray:
    """Return the special numbers that the pipeline takes in a column."""
    with np.errstate(over="ignore"):
        special = SPECIAL.astype(dtype)
    taken = []
    for number in special[~np.isinf(special)]:
        row = rows[:1].copy()
        row[name] = np.array([number], dtype)
        if accepted(case, row if isinstance(case.X, pd.DataFrame) else row.to_numpy(dtype))[0]:
            taken.append(number)
    return np.array([*taken, rows[name].iloc[0]], dtype)


def _hostile_numbers(
    rng: np.random.Generator, forest: scurry.Forest, feature: int, usual: np.ndarray, special: np.ndarray
) -> np.ndarray:
    n_rows = len(usual)
    inner = (forest.left >= 0) & (forest.feature == feature)
    thresholds = forest.threshold[inner & np.isfinite(forest.threshold)].astype(usual.dtype)
    out = usual.copy()
    if len(thresholds):
        near = rng.choice(thresholds, n_rows)
        kind, large = np.dtype(f"i{usual.dtype.itemsize}"), 2.0**22 if usual.dtype.itemsize > 2 else 64.0
        steps = rng.choice([0, 1, -1, 2, -2, 5, -17, 100, -1000, 10**6] if large > 64 else [0, 1, -1, 2, -2, 9], n_rows)
        bits = near.view(kind)
        moved = np.where(np.abs(bits.astype(np.float64)) > large, bits + steps.astype(kind), bits).astype(kind)
        near = moved.view(usual.dtype)
        out = np.where(rng.random(n_rows) < 0.7, near, out)
    out = np.where(np.isinf(out), usual, out)
    return np.where(rng.random(n_rows) < 0.1, rng.choice(special, n_rows), out).astype(usual.dtype)


def _hostile_categories(
    rng: np.random.Generator, forest: scurry.Forest, feature: int, usual: pd.Series, n_rows: int
) -> Any:
    values = forest.categories[feature].tolist()
    is_text = any(isinstance(value, str) for value in values)
    unknown = [] if feature in forest.raw_rows.known_only else ["Paris"] if is_text else [3.5, -7.0]
    missing = [np.nan] if feature in forest.raw_rows.missing_codes or unknown else []
    column = np.empty(len(values) + len(unknown) + len(missing), object if is_text else np.float64)
    column[:] = [*values, *unknown, *missing]
    return rng.choice(column, n_rows)


def accepted(case: Case, rows: Any, max_tries: int = 2000) -> np.ndarray:
    """Return which rows the pipeline takes: those in which no step meets an infinity or a missing value it refuses.

    Parts that are refused are halved. After so many tries what is left counts as refused: where every other row is,
    each would be tried by itself, and a hundred thousand of them for many minutes.
    """
    takes, parts = np.zeros(len(rows), bool), [(0, len(rows))]
    for _ in range(max_tries):
        if not parts:
            break
        begin, end = parts.pop()
        try:
            case.pipeline.predict(rows[begin:end])
            takes[begin:end] = True
        except ValueError:
            middle = (begin + end) // 2
            parts += [(middle, end), (begin, middle)] if end - begin > 1 else []
    return takes


NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float32", "float32", "float64")
NULLABLE = ("boolean", "Int8", "Int16", "Int32", "Int64", "UInt8", "Float32", "Float64")


def draw_types(rng: np.random.Generator, frame: pd.DataFrame) -> dict[str, str]:
    """Return a random type for each column of numbers: plain ones for most, and those of pandas for some."""
    usual = rng.choice([0.0, 0.1])
    types = {}
    for name in frame:
        if frame[name].dtype.kind not in "fiub":
            continue
        some = FLOATS if frame[name].isna().any() else (*NUMBERS, *FLOATS, *FLOATS)
        types[name] = str(rng.choice(NULLABLE if rng.random() < usual else some))
    return types


def cast(frame: pd.DataFrame, types: dict[str, str]) -> pd.DataFrame:
    """Return a frame whose columns have certain types, with numbers that these have."""
    columns = {name: frame[name] for name in frame}
    for name, dtype in types.items():
        columns[name] = pd.Series(_numbers_of(frame[name].to_numpy(np.float64, na_value=np.nan), dtype))
    return pd.DataFrame(columns)


def _numbers_of(values: np.ndarray, dtype: str) -> Any:
    plain = dtype.lower().replace("boolean", "bool")
    missing, values = np.isnan(values), np.nan_to_num(values, posinf=0.0, neginf=0.0)
    with np.errstate(over="ignore"):
        if plain == "bool":
            numbers = values > np.median(values)
        elif plain.startswith("float"):
            numbers = np.clip(values, -float(np.finfo(plain).max), float(np.finfo(plain).max)).astype(plain)
        else:
            low, high = float(np.iinfo(plain).min), float(np.iinfo(plain).max)
            numbers = np.clip(np.rint(values), low, np.nextafter(high, 0)).astype(plain)
    if dtype == plain:
        return np.where(missing, np.array(np.nan, plain), numbers) if plain.startswith("float") else numbers
    array = pd.array(numbers, dtype=dtype)
    array[missing] = pd.NA
    return array


def hostile_frame(
    rng: np.random.Generator, case: Case, forest: scurry.Forest, types: dict[str, str], n_rows: int
) -> pd.DataFrame:
    """Return rows on and next to the thresholds of a folded forest, in columns of certain types."""
    rows = case.X.iloc[rng.integers(0, len(case.X), n_rows)].reset_index(drop=True)
    for feature, name in enumerate(forest.feature_names):
        if feature in forest.categories:
            rows[name] = _hostile_categories(rng, forest, feature, rows[name], n_rows)
        else:
            rows[name] = _hostile_of_type(rng, forest, feature, rows[name].to_numpy(np.float64), types[name])
    return cast(rows, {name: dtype for name, dtype in types.items() if name in rows})


def _hostile_of_type(
    rng: np.random.Generator, forest: scurry.Forest, feature: int, usual: np.ndarray, dtype: str
) -> np.ndarray:
    plain = dtype.lower().replace("boolean", "bool")
    with np.errstate(over="ignore"):
        if plain.startswith("float"):
            near = _hostile_numbers(rng, forest, feature, usual.astype(plain), SPECIAL[1:3].astype(plain))
            return np.where(np.isinf(near), 0, near).astype(np.float64)
    inner = (forest.left >= 0) & (forest.feature == feature) & np.isfinite(forest.threshold)
    near = rng.choice(np.append(forest.threshold[inner], 0.0), len(usual)) + rng.integers(-2, 3, len(usual))
    return np.where(rng.random(len(usual)) < 0.6, near, usual)
