"""Importer of fitted scikit-learn pipelines that end in a tree ensemble.

Steps before the model are folded into the trees where that is exact: the forest then reads raw rows. Otherwise they
stay a `scurry.forest.Front`, through which rows pass first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from scurry.errors import UnsupportedModelError
from scurry.forest import ColumnTypes, Combinations, Forest, Front, RowTypes, float_type_of_arrays, is_number
from scurry.importers.pipelines.blocks import Blocks, choose_types, number_features
from scurry.importers.pipelines.cells import Source
from scurry.importers.pipelines.fold import fold_source, same_answers
from scurry.importers.pipelines.traces import CannotFoldError, Trace, trace
from scurry.importers.sklearn import unwrap
from scurry.importers.wrappers import import_wrapper

__all__ = ["import_pipeline"]


def import_pipeline(pipeline: Any, rows: RowTypes, import_model: Callable[[Any], Forest]) -> Forest:
    """Import a fitted pipeline.

    Parameters
    ----------
    pipeline : Pipeline
    rows : ColumnTypes, {"float32", "float64"} or None
        The types of the columns of rows to come, or that of all their floats; None is float64, and float32 too where
        that makes no difference.
    import_model : callable
        Imports the last step.

    Returns
    -------
    Forest
        With `raw_rows` where all steps were folded, else with a `front`.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(X, y)
    >>> forest = scurry.from_model(pipeline)
    >>> bool((forest.predict(X) == pipeline.predict(X)).all())
    True
    """
    steps = _flat_steps(pipeline)
    last = steps[-1][1]
    if not hasattr(last, "predict"):
        raise UnsupportedModelError(f"this Pipeline ends in {last!r}, not in a model; pass a fitted tree ensemble")
    forest = import_model(last)
    changing = [(name, step) for name, step in steps[:-1] if not _passes_through(step)]
    if not changing:
        return forest
    if isinstance(forest.front, Combinations):
        raise UnsupportedModelError(
            f"this Pipeline transforms rows of a model of which {forest.front.describe()}. {forest.front.way_out}, or "
            "import the last step alone and give its forest transformed rows"
        )
    transformer = Pipeline(changing)
    sparse_zero = np.nan if any(cls.__module__.startswith("xgboost") for cls in type(last).__mro__) else 0.0
    try:
        if forest.front is not None or forest.raw_rows is not None:
            raise CannotFoldError("its last step is a pipeline of another kind")
        if forest.wrapper is not None and forest.wrapper.members:
            return _fold_into_members(changing, last, rows, import_model)
        return _fold(transformer, last, forest, rows, sparse_zero)
    except CannotFoldError as error:
        why = str(error)
    except ValueError as error:  # of a transformer, about a number between others that it takes
        why = f"a step refuses numbers between others that it takes: {error}"
    return forest.replace(front=Front(transformer, why, sparse_zero))


def _fold_into_members(
    changing: list[tuple[str, Any]], wrapper: Any, rows: RowTypes, import_model: Callable[[Any], Forest]
) -> Forest:
    """Return a wrapper around pipelines, which a pipeline in front of a wrapper is."""

    def import_member(model: Any) -> Forest:
        return import_pipeline(Pipeline([*changing, ("model", model)]), rows, import_model)

    try:
        folded = import_wrapper(unwrap(wrapper), import_member)
    except UnsupportedModelError as error:
        raise CannotFoldError(str(error)) from error
    if folded.front is not None:
        raise CannotFoldError(folded.front.describe())
    return folded


def _flat_steps(pipeline: Any) -> list[tuple[str, Any]]:
    """Return all steps; those of a pipeline that is the last step are appended."""
    steps: list[tuple[str, Any]] = list(pipeline.steps)
    while isinstance(steps[-1][1], Pipeline):
        steps = [*steps[:-1], *steps[-1][1].steps]
    return steps


def _passes_through(step: Any) -> bool:
    if isinstance(step, FunctionTransformer):
        return step.func is None
    if isinstance(step, Pipeline):
        return all(_passes_through(inner) for _, inner in step.steps)
    return step is None or (isinstance(step, str) and step == "passthrough")


def _fold(transformer: Any, model: Any, forest: Forest, rows: RowTypes, sparse_zero: float) -> Forest:
    first = transformer.steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    n_columns = getattr(first, "n_features_in_", None)
    if n_columns is None:
        raise CannotFoldError(f"{transformer.steps[0][0]!r} does not say how many columns it takes")
    dropped: list[Trace] = []
    traces = trace(transformer, [Trace(at) for at in range(n_columns)], lambda X: X, "pipeline", dropped)
    source = Source(
        transformer.transform,
        traces,
        None if names is None else [str(name) for name in names],
        n_columns,
        forest,
        sparse_zero,
        _refuses_nan(model, forest),
        [one for one in dropped if one.by_category],
    )
    blocks = Blocks.of(transformer, n_columns, forest.integer_dtype != forest.input_dtype)
    return _fold_for(replace(source, typed=blocks.typed), blocks, rows)


def _fold_for(source: Source, blocks: Blocks, rows: RowTypes) -> Forest:
    """Return the forest that is exact for rows of certain types, and for all with which the steps compute the same."""
    types, library = [rows if isinstance(rows, str) else "float64"] * source.n_columns, ""
    if isinstance(rows, ColumnTypes):
        types, library = rows.select(source.names, source.n_columns), rows.library
    dtypes, accepted = choose_types(blocks, types, library)
    if isinstance(rows, ColumnTypes):
        _try_example(source, rows, types, dtypes)
    wide = ["float64"] * source.n_columns
    by_floats = {block.accepts[0] for block in accepted} <= {"float32", "float64", "floats"}
    folded = None
    if not isinstance(rows, str) and by_floats and not blocks.is_joined:
        folded = fold_source(source, wide)
        if blocks.typed and _is_same_for_float32(source, folded, blocks.typed):
            both = [replace(one, accepts=("float32", "float64")) for one in accepted if one.kind != "integers"]
            accepted = [one for one in accepted if one.kind == "integers"] + both
            dtypes = wide
    if folded is None or dtypes != wide:
        folded = fold_source(source, dtypes)
    assert folded.raw_rows is not None
    features = number_features(accepted, source.columns)
    raw_rows = replace(
        folded.raw_rows,
        dtype=float_type_of_arrays(features),
        wide_only=any(block.kind in ("alone", "joined") for block in features),
        takes_sparse=source.sparse_zero == 0,
        blocks=features,
    )
    return folded.replace(raw_rows=raw_rows)


def _is_same_for_float32(source: Source, folded: Forest, typed: frozenset[int]) -> bool:
    """Return whether a forest that was folded for float64 has the same answers if steps compute in float32."""
    narrow = ["float32" if at in typed else "float64" for at in range(source.n_columns)]
    try:
        other = fold_source(source, narrow)
    except (CannotFoldError, ValueError):  # a step refuses some numbers of float32
        return False
    return same_answers(folded, other, [at for at, raw in enumerate(source.columns) if raw in typed])


def _try_example(source: Source, rows: ColumnTypes, types: list[str], dtypes: list[str]) -> None:
    """Compare what the steps make of some rows in their own types, and in those that are asked for instead."""
    if rows.example is None:
        return
    if rows.library == "polars":
        # A null text is None for the steps here and NaN in pandas, whatever the types are.
        assert rows.names is not None
        texts = [name for name, kind in zip(rows.names, rows.types, strict=True) if not is_number(kind)]
        rows = replace(rows, example=rows.example.drop_nulls(texts) if texts else rows.example)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # Steps make objects of booleans next to float32, and so numbers of another precision; the trees round them.
            expected, given = (
                source.rows(table).astype(source.forest.input_dtype)
                for table in (rows.example, _convert(rows, source.names, types, dtypes))
            )
    except Exception:  # the pipeline may refuse these rows, which says nothing about their types
        return
    if not np.array_equal(expected, given, equal_nan=True):
        raise CannotFoldError("a step computes with these columns in another way than scurry knows of scikit-learn")


def _convert(rows: ColumnTypes, names: Sequence[str] | None, types: list[str], dtypes: list[str]) -> Any:
    table = rows.example if rows.library != "polars" else rows.example.to_pandas()
    changed = {at: dtype for at, dtype in enumerate(dtypes) if is_number(types[at]) and types[at] != dtype}
    if rows.library == "numpy":
        if len(set(dtypes)) == 1:
            return table.astype(dtypes[0]) if changed else table
        import pandas as pd

        return pd.DataFrame(table).astype(changed)
    columns = table.columns if names is None else names
    return table.astype({columns[at]: dtype for at, dtype in changed.items()})


def _refuses_nan(model: Any, forest: Forest) -> bool:
    """Return whether the model raises an error for rows with missing values."""
    numbers: Any = np.zeros((1, forest.n_features))
    missing: Any = np.full((1, forest.n_features), np.nan)
    if hasattr(model, "feature_names_in_"):
        import pandas as pd

        numbers, missing = (pd.DataFrame(one, columns=model.feature_names_in_) for one in (numbers, missing))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.predict(numbers)
        except Exception:  # it says nothing about missing values
            return False
        try:
            model.predict(missing)
        except ValueError:
            return True
    return False
