"""What is known of a row: features by name, and values in any form that people hold them."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scurry.errors import InputError
from scurry.forest import Forest, as_frame, as_rows, as_value


def find_feature(forest: Forest, name: Any) -> int:
    """Return the index of a feature.

    Parameters
    ----------
    forest : Forest
    name : str or int
        Its name, or its index in a forest without names.

    Returns
    -------
    int
    """
    if forest.feature_names is None:
        try:
            index = operator.index(name)
        except TypeError:
            index = -1
        if 0 <= index < forest.n_features and not isinstance(name, bool):
            return index
        raise InputError(
            f"{name!r} is no feature; this model has no names, so a feature is its index, 0 to {forest.n_features - 1}",
            argument="name",
        )
    known = forest.feature_names
    # LightGBM knows a column "a b" as "a_b".
    for candidate in (name, name.replace(" ", "_")) if isinstance(name, str) else ():
        if candidate in known:
            return known.index(candidate)
    # "tsh" is meant as "TSH", and "free t4" as "Free_T4": to difflib they have nothing in common.
    plain = {_simplify(each): each for each in reversed(known)}
    close = difflib.get_close_matches(_simplify(str(name)), plain, n=1)
    hint = f"did you mean {plain[close[0]]!r}?" if close else f"known are {', '.join(map(repr, known[:10]))}"
    raise InputError(f"{name!r} is no feature of this model; {hint}", argument="name")


def _simplify(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def read_known(forest: Forest, known: Any) -> dict[int, float]:
    """Return the values that are known of a row, by feature.

    Parameters
    ----------
    forest : Forest
    known : mapping of feature to value, array of shape (n_features,), or table of one row
        None and NaN are not known yet. Columns of a table that are no features are ignored.

    Returns
    -------
    dict of int to float
        As the forest compares them.
    """
    if known is None:
        return {}
    if hasattr(known, "to_dict") and hasattr(known, "index") and getattr(known, "ndim", 0) == 1:
        known = known.to_dict()  # a pandas Series goes by its labels
    if isinstance(known, Mapping):
        return _read_cells(forest, {find_feature(forest, name): value for name, value in known.items()})
    try:
        frame = as_frame(known)
    except ValueError as error:  # of narwhals
        raise InputError(f"known has columns of the same name: {error}. Rename them", argument="known") from error
    if frame is not None:
        if len(frame) != 1:
            raise InputError(f"known has {len(frame)} rows; a visit is one row", argument="known")
        return _read_cells(forest, {feature: frame[:, at][0] for feature, at in _match(forest, frame.columns).items()})
    row = np.asarray(known)
    if row.size != forest.n_features or row.ndim not in (1, 2):
        raise InputError(
            f"known must be a mapping of features to values, or an array of {forest.n_features} values with NaN for "
            f"what is not known yet; got shape {row.shape}",
            argument="known",
        )
    cells = as_rows(forest, row.reshape(1, -1))[0]
    with np.errstate(over="ignore"):
        values = cells.astype(forest.input_dtype).tolist()
    return {at: value for at, value in enumerate(values) if not np.isnan(value)}


def _match(forest: Forest, columns: Sequence[Any]) -> dict[int, int]:
    """Return where in a table each feature is that it has; columns go by place if the model has no names."""
    if forest.feature_names is None:
        if len(columns) != forest.n_features:
            raise InputError(
                f"known has {len(columns)} columns, the model has {forest.n_features} features and no names for them",
                argument="known",
            )
        return {at: at for at in range(forest.n_features)}
    names = [str(column) for column in columns]
    # LightGBM knows a column "a b" as "a_b".
    held = {name.replace(" ", "_"): at for at, name in enumerate(names)} | {name: at for at, name in enumerate(names)}
    return {feature: held[name] for feature, name in enumerate(forest.feature_names) if name in held}


def _read_cells(forest: Forest, cells: Mapping[int, Any]) -> dict[int, float]:
    return {feature: as_value(forest, feature, cell) for feature, cell in cells.items() if not _is_missing(cell)}


def _is_missing(cell: Any) -> bool:
    is_nan = isinstance(cell, float | np.floating) and bool(np.isnan(cell))
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")
