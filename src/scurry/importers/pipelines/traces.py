"""Traces: on which raw column each output of a fitted transformer depends, and how.

A transformer can be folded into thresholds if each of its outputs depends on one raw column, by a map that rises or
falls between known points, its knots. Nothing here computes the maps: the transformers themselves do, see `probes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
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

Stage: TypeAlias = Callable[[Any], Any]
"""Returns the table that goes into a transformer, from raw rows."""

# Additions, products, quotients, square roots and comparisons are rounded correctly, and so rise wherever the exact
# function does.
_RISING = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Binarizer)
ENCODERS = (OneHotEncoder, OrdinalEncoder, TargetEncoder)
_BELOW_ZERO = -float(np.finfo(np.float64).smallest_subnormal)
_PROVEN: dict[Any, tuple[float, ...]] = {
    np.sqrt: (_BELOW_ZERO,),  # NaN below 0
    np.floor: (),
    np.ceil: (),
    np.rint: (),
    np.trunc: (),
    np.sign: (),
    np.deg2rad: (),
    np.rad2deg: (),
    np.radians: (),
    np.degrees: (),
    np.fabs: (_BELOW_ZERO, 0.0),
}
_TESTED: dict[Any, tuple[float, ...]] = {
    np.log: (_BELOW_ZERO,),
    np.log2: (_BELOW_ZERO,),
    np.log10: (_BELOW_ZERO,),
    np.log1p: (float(np.nextafter(-1.0, -2.0)),),
    np.exp: (),
    np.exp2: (),
    np.expm1: (),
    np.cbrt: (),
    np.sinh: (),
    np.tanh: (),
    np.arctan: (),
    np.arcsinh: (),
    np.arccosh: (float(np.nextafter(1.0, 0.0)),),
    np.cosh: (_BELOW_ZERO, 0.0),
}
"""Functions that rise and fall between their knots, each the last number before a turn. In `_TESTED` rounding may break
this, so neighbours of thresholds are tried."""


class CannotFoldError(Exception):
    """A part of a pipeline cannot be folded; the message names it."""


@dataclass(frozen=True, eq=False)
class Knots:
    """Numbers in column `position` of a stage after which the map of an output may turn, jump or begin."""

    stage: Stage
    position: int
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """How an output depends on its raw column.

    Attributes
    ----------
    source : int
        The raw column.
    knots : tuple of Knots
        Between them the output rises or falls.
    is_proven : bool
        Whether it does so for certain, rounding included.
    is_raw : bool
        Whether it is the raw value still, but for missing ones.
    by_category : bool or None
        Whether an encoder looked the raw value up. None: the output only says whether it is missing.
    values : tuple
        Values that encoders and imputers know by name.
    """

    source: int
    knots: tuple[Knots, ...] = ()
    is_proven: bool = True
    is_raw: bool = True
    by_category: bool | None = False
    values: tuple[Any, ...] = ()


def trace(
    transformer: Any, inputs: Sequence[Trace], stage: Stage, name: str, dropped: list[Trace] | None = None
) -> list[Trace]:
    """Return the trace of each output of a fitted transformer.

    Parameters
    ----------
    transformer : estimator or {"passthrough", "drop"}
    inputs : sequence of Trace
        Of the columns that go in.
    stage : callable
    name : str
        What messages call the transformer.
    dropped : list of Trace, optional
        Gets the traces that selectors drop: an encoder before them looks the raw column up all the same.

    Raises
    ------
    CannotFoldError
        If an output depends on several columns, or on one in an unknown way.
    """
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return list(inputs)
    if isinstance(transformer, str):
        return []
    if isinstance(transformer, FrozenEstimator):
        return trace(transformer.estimator, inputs, stage, name, dropped)
    cls = type(transformer)
    if not cls.__module__.startswith("sklearn."):
        raise CannotFoldError(f"{name!r} is a {cls.__name__}, whose outputs scurry knows nothing about")
    if isinstance(transformer, SelectorMixin):
        kept = transformer.get_support()
        if dropped is not None:
            dropped += [inputs[at] for at in np.flatnonzero(~kept).tolist()]
        return [inputs[at] for at in np.flatnonzero(kept).tolist()]
    if isinstance(transformer, ENCODERS):
        return _trace_encoder(transformer, inputs, stage)
    if isinstance(transformer, _RISING):
        return [replace(one, is_raw=False) for one in inputs]
    for kind, follow_parts in _WITH_PARTS.items():
        if isinstance(transformer, kind):
            return follow_parts(transformer, inputs, stage, dropped)
    for kind, follow in _FOLLOW.items():
        if isinstance(transformer, kind):
            return follow(transformer, inputs, stage, name)
    raise CannotFoldError(f"{name!r} is a {cls.__name__}, whose outputs may depend on several columns at once")


def take(table: Any, columns: NDArray[np.intp]) -> Any:
    """Return some columns of an array or a DataFrame, by position."""
    if hasattr(table, "iloc"):
        return table.iloc[:, columns]
    return table[:, columns]


def _trace_pipeline(pipeline: Any, inputs: Sequence[Trace], stage: Stage, dropped: list[Trace] | None) -> list[Trace]:
    traces, at = list(inputs), stage
    for step_name, step in pipeline.steps:
        traces = trace(step, traces, at, step_name, dropped)
        if step is not None and not isinstance(step, str):
            at = _after(step, at)
    return traces


def _after(step: Any, stage: Stage) -> Stage:
    return lambda X: step.transform(stage(X))


def _trace_columns(transformer: Any, inputs: Sequence[Trace], stage: Stage, dropped: list[Trace] | None) -> list[Trace]:
    names = list(getattr(transformer, "feature_names_in_", []))
    traces = []
    for part, step, columns in transformer.transformers_:
        at = positions(columns, names, len(inputs))
        if at is None:
            raise CannotFoldError(f"{part!r} takes the single column {columns!r} as texts")
        traces += trace(step, [inputs[i] for i in at], _select(stage, at), part, dropped)
    return traces


def _select(stage: Stage, at: NDArray[np.intp]) -> Stage:
    return lambda X: take(stage(X), at)


def positions(columns: Any, names: list[str], n_columns: int) -> NDArray[np.intp] | None:
    """Return the positions of the columns that a part of a ColumnTransformer names, None for a single one."""
    everything = np.arange(n_columns)
    if isinstance(columns, slice):
        ends = [columns.start, columns.stop]
        if any(isinstance(end, str) for end in ends):
            first = 0 if ends[0] is None else names.index(ends[0])
            return everything[first : None if ends[1] is None else names.index(ends[1]) + 1 : columns.step]
        chosen: NDArray[np.intp] = everything[columns]
        return chosen
    if np.ndim(columns) == 0:
        return None
    listed = list(columns)
    if listed and isinstance(listed[0], str):
        return np.array([names.index(one) for one in listed], np.intp)
    is_mask = bool(listed) and isinstance(listed[0], bool | np.bool_)
    named: NDArray[np.intp] = everything[np.array(listed, np.bool_ if is_mask else np.intp)]
    return named


def _trace_union(union: Any, inputs: Sequence[Trace], stage: Stage, dropped: list[Trace] | None) -> list[Trace]:
    return [one for part, step in union.transformer_list for one in trace(step, inputs, stage, part, dropped)]


def _trace_imputer(imputer: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    replaced = imputer.missing_values
    filled = [_replacing(one, stage, at, replaced) for at, one in enumerate(inputs)]
    kept = np.ones(len(inputs), np.bool_)
    if imputer.strategy != "constant" and not imputer.keep_empty_features:
        kept = np.array([value == value and value is not None for value in imputer.statistics_.tolist()], np.bool_)
    outputs = [one for one, stays in zip(filled, kept, strict=True) if stays]
    if imputer.add_indicator:
        outputs += _trace_indicator(imputer.indicator_, inputs, stage, name)
    return outputs


def _replacing(one: Trace, stage: Stage, position: int, replaced: Any) -> Trace:
    """Return the trace of a column in which a value, if it is not NaN or None, counts as missing."""
    if replaced is None or replaced != replaced or "NA" in type(replaced).__name__:
        return one
    if isinstance(replaced, str):
        return replace(one, values=(*one.values, replaced))
    return replace(
        one, values=(*one.values, replaced), knots=(*one.knots, Knots(stage, position, _around([float(replaced)])))
    )


def _trace_indicator(indicator: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    chosen = [(int(at), _replacing(inputs[at], stage, int(at), indicator.missing_values)) for at in indicator.features_]
    return [replace(one, is_raw=False, by_category=None if one.is_raw else one.by_category) for _, one in chosen]


def _around(values: ArrayLike) -> NDArray[np.float64]:
    listed = np.asarray(values, np.float64)
    return np.unique(np.concatenate([np.nextafter(listed, -np.inf), listed]))


def _trace_encoder(encoder: Any, inputs: Sequence[Trace], stage: Stage) -> list[Trace]:
    # Names that tell how many outputs each column has: by drop, infrequent categories and classes there may be any.
    marks = [f"\x00{at}\x00" for at in range(len(inputs))]
    names = [str(name) for name in _names_out(encoder, marks)]
    outputs = []
    for at, one in enumerate(inputs):
        listed = tuple(value for value in encoder.categories_[at].tolist() if value == value and value is not None)
        knots = one.knots
        if all(isinstance(value, int | float) for value in listed):
            knots = (*knots, Knots(stage, at, _around(listed)))
        is_looked_up = one.is_raw or bool(one.by_category)
        seen = replace(one, knots=knots, is_raw=False, by_category=is_looked_up, values=(*one.values, *listed))
        if not is_looked_up and len(knots) == len(one.knots):
            raise CannotFoldError(f"{type(encoder).__name__} encodes texts that another step made")
        if one.by_category:  # of an encoder before: its codes are no raw values
            seen = replace(seen, values=one.values)
        outputs += [seen] * sum(name.startswith(marks[at]) for name in names)
    return outputs


def _names_out(encoder: Any, marks: list[str]) -> Sequence[str]:
    twin = copy(encoder)  # an encoder that was fitted with names accepts no others
    twin.__dict__.pop("feature_names_in_", None)
    return list(twin.get_feature_names_out(marks))


def _trace_function(transformer: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    function = transformer.func
    if function is None:
        return list(inputs)
    known = _PROVEN.get(function, _TESTED.get(function)) if isinstance(function, np.ufunc) else None
    if known is None or transformer.kw_args:
        title = getattr(function, "__name__", repr(function))
        raise CannotFoldError(f"{name!r} is a FunctionTransformer of {title!r}, which scurry does not fold")
    is_proven = function in _PROVEN
    return [_add_turns(one, stage, at, known, is_proven) for at, one in enumerate(inputs)]


def _add_turns(one: Trace, stage: Stage, position: int, values: ArrayLike, is_proven: bool) -> Trace:
    turns = np.asarray(values, np.float64)
    knots = (*one.knots, Knots(stage, position, turns)) if len(turns) else one.knots
    return replace(one, knots=knots, is_raw=False, is_proven=one.is_proven and is_proven)


def _trace_power(transformer: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    return [_add_turns(one, stage, at, (), False) for at, one in enumerate(inputs)]


def _trace_quantiles(transformer: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    quantiles = np.atleast_2d(transformer.quantiles_)
    rises = _rises_over(transformer, quantiles)
    outputs = []
    for at, one in enumerate(inputs):
        # Between two quantiles the map is a line, whose roundings rise. At a quantile the next line may begin lower.
        values: ArrayLike = () if rises[at] else _around(quantiles[:, at][np.isfinite(quantiles[:, at])])
        outputs.append(_add_turns(one, stage, at, values, transformer.output_distribution == "uniform"))
    return outputs


def _rises_over(transformer: Any, quantiles: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each column whether the map rises at its quantiles, for rows of both precisions."""
    rises = np.ones(quantiles.shape[1], np.bool_)
    for dtype in (np.float32, np.float64):
        at = quantiles.astype(dtype)
        points = np.sort(
            np.concatenate([np.nextafter(at, dtype(-np.inf)), at, np.nextafter(at, dtype(np.inf))]), axis=0
        )
        values = transformer.__class__.transform(transformer, _as_fitted(transformer, points))
        values = values.to_numpy() if hasattr(values, "to_numpy") else values
        rises &= ~(np.diff(values, axis=0) < 0).any(axis=0)
    return rises


def _as_fitted(transformer: Any, rows: NDArray[Any]) -> Any:
    """Return rows as a table with the names that the transformer was fitted with."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names)


def _trace_bins(transformer: Any, inputs: Sequence[Trace], stage: Stage, name: str) -> list[Trace]:
    if transformer.encode == "ordinal":
        return [_add_turns(one, stage, at, (), True) for at, one in enumerate(inputs)]
    outputs = []
    for at, one in enumerate(inputs):
        edges = np.asarray(transformer.bin_edges_[at], np.float64)
        turned = _add_turns(one, stage, at, _around(edges[1:-1]), True)
        outputs += [turned] * int(transformer.n_bins_[at])
    return outputs


_FOLLOW: dict[type, Callable[[Any, Sequence[Trace], Stage, str], list[Trace]]] = {
    SimpleImputer: _trace_imputer,
    MissingIndicator: _trace_indicator,
    FunctionTransformer: _trace_function,
    PowerTransformer: _trace_power,
    QuantileTransformer: _trace_quantiles,
    KBinsDiscretizer: _trace_bins,
}
_WITH_PARTS: dict[type, Callable[[Any, Sequence[Trace], Stage, list[Trace] | None], list[Trace]]] = {
    Pipeline: _trace_pipeline,
    ColumnTransformer: _trace_columns,
    FeatureUnion: _trace_union,
}
