"""Importer of LightGBM boosters, scikit-learn wrappers and text model files.

Everything is read from the text format, which is exact (thresholds and leaves carry 17 digits) and needs no LightGBM.
A few of LightGBM's rules are not in it:

1. A row is copied before the trees see it, without the values of at most 1e-35, which so become zero. A threshold this
   close to zero (LightGBM puts one at -1e-35 to split negative values off) is moved so that the row as given, compared
   with it, takes the same side.
2. A category is the integer part of a number, as C truncates it; NaN and what is below zero are in no set.
3. Raw scores of a random forest are sums, its predictions means; `Forest.scores` are means.

Inner nodes get the mean of the leaves below, weighted by the sums of Hessians. That is the text's ``internal_value``
(which has 6 digits) where leaves are plain Newton steps, and stays right where they were replaced later: by medians
and quantiles (l1, quantile, mape), by clipping (max_delta_step) or by ``Booster.refit``. `Forest.cover` is the number
of training rows, which unlike a classifier's Hessians means the same in every tree.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import MISSING_NAN, MISSING_NONE, MISSING_ZERO, ZERO, Forest, mean_of_leaves

_VERSIONS = ("v3", "v4")  # of the text format: those of LightGBM 2.3 and later
_CLASSIFIER_LINKS = {"binary": "logistic", "multiclass": "softmax", "multiclassova": "logistic-each"}
_REGRESSOR_LINKS = (
    {"cross_entropy": "logistic", "cross_entropy_lambda": "log1p-exp"}
    | dict.fromkeys(("poisson", "gamma", "tweedie"), "exp")
    | dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity")
    | dict.fromkeys(("lambdarank", "rank_xendcg", "custom"), "identity")
)
_LINKS = _CLASSIFIER_LINKS | _REGRESSOR_LINKS

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_SHIFT = 1, 2, 2
_MISSING = np.array([MISSING_NONE, MISSING_ZERO, MISSING_NAN], np.uint8)
_MIN_WEIGHT = 1e-150  # above zero, and so small that sums and quotients of weights stay finite
_MIN_SIGMOID = 1e-15

_Tree = dict[str, str]


def import_model(model: Any) -> Forest:
    """Import a LightGBM ``Booster`` or a fitted ``LGBMClassifier``, ``LGBMRegressor``, ``LGBMRanker`` or ``LGBMModel``.

    Parameters
    ----------
    model : Booster or LGBMModel

    Returns
    -------
    Forest
        With the trees up to the best iteration where early stopping found one, as the model itself predicts.

    Examples
    --------
    >>> import scurry
    >>> from lightgbm import LGBMClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(X, y)
    >>> forest = scurry.from_model(model)
    >>> bool((forest.predict(X) == model.predict(X)).all())
    True
    """
    from lightgbm import Booster, LGBMClassifier, LGBMModel, LGBMRanker, LGBMRegressor

    if isinstance(model, Booster):
        return _import_text(_text_of(model))
    name = type(model).__name__
    if not isinstance(model, LGBMModel):
        raise UnsupportedModelError(
            f"cannot import a LightGBM {name}; accepted are Booster, LGBMClassifier, LGBMRegressor and LGBMRanker"
        )
    if not model.__sklearn_is_fitted__():
        raise InputError(f"this {name} is not fitted; call fit first")
    if model.get_params().get("pred_early_stop"):
        raise UnsupportedModelError(
            f"this {name} has pred_early_stop set, so its predictions are approximations; "
            "call set_params(pred_early_stop=False) first"
        )
    text = _text_of(model.booster_)
    if isinstance(model, LGBMClassifier):
        if callable(model.objective_):
            raise UnsupportedModelError(
                f"this {name} has an objective of its own, so it predicts no labels; "
                "import its booster_, a regressor of raw scores"
            )
        return _import_text(text, model.classes_)
    return _import_text(text, None if isinstance(model, LGBMRegressor | LGBMRanker) else "of the objective")


def _text_of(booster: Any) -> str:
    """Return what `model_to_string` does. That writes large models twice, the first time to know their size."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.txt")
        booster.save_model(path)
        with open(path, "rb") as stream:
            return stream.read().decode()


def import_file(path: str | PathLike[str]) -> Forest:
    """Import a LightGBM text model file; LightGBM is not needed.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Forest
        Classes are 0, 1, … : the file does not have a classifier's own labels.

    Raises
    ------
    FormatError
        If the file is truncated, damaged or of another version.
    """
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return _import_text(data.decode())
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a LightGBM model file: it is not UTF-8 text") from error
    except FormatError as error:
        raise FormatError(f"{path} is not a sound LightGBM model file: {error}") from error


def _import_text(text: str, classes: NDArray[Any] | str | None = "of the objective") -> Forest:
    """Import a text whose classes are `classes`, None for a regressor."""
    header, trees, footer = _split_text(text)
    names = header.get("feature_names", "").split(" ")
    n_features, n_outputs = _count(header, "max_feature_idx") + 1, _count(header, "num_class")
    if len(names) != n_features:
        raise FormatError(f"it has {len(names)} feature names for {n_features} features")
    if not 1 <= n_outputs <= len(trees) or n_outputs != _count(header, "num_tree_per_iteration"):
        raise FormatError(f"its {len(trees)} trees are not iterations of num_class = {n_outputs} trees")
    readout, nodes = _readout(header, n_outputs, classes), _nodes(trees)
    try:
        return Forest(
            **readout,
            **nodes,
            n_features=n_features,
            # Names that LightGBM makes up say nothing about a user's columns, which it takes by position.
            feature_names=None if names == [f"Column_{j}" for j in range(n_features)] else names,
            categories=_categories(header.get("feature_infos", "").split(" "), footer),
            tree_output=np.arange(len(trees)) % n_outputs,
            aggregation="mean" if "average_output" in header else "sum",
            input_dtype="float64",
            category_rounding="trunc",
            integer_dtype="float32",  # arrays of other types than floats are converted to this
        )
    except InputError as error:
        raise FormatError(str(error)) from error


def _split_text(text: str) -> tuple[dict[str, str], list[_Tree], list[str]]:
    """Return the entries of the header, those of each tree, and the lines after the trees."""
    front, complete, footer = text.replace("\r\n", "\n").partition("\nend of trees\n")
    head, *blocks = front.split("\nTree=")
    first, _, entries = head.partition("\n")
    header = _entries(entries)
    if first != "tree" or "version" not in header:
        raise FormatError("it does not begin with 'tree' and a version")
    if header["version"] not in _VERSIONS:
        raise FormatError(
            f"it has version {header['version'][:40]!r}, accepted are {' and '.join(_VERSIONS)}; "
            "load it with LightGBM 4 and save it again"
        )
    if not complete or len(blocks) != len(header.get("tree_sizes", "Tree " * len(blocks)).split()):
        raise FormatError("trees are missing: it is truncated")
    if not blocks:
        raise FormatError("it has no trees; train for at least one iteration")
    return header, [_entries(block) for block in blocks], footer.split("\n")


def _entries(lines: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in lines.split("\n"))}


def _count(header: dict[str, str], key: str) -> int:
    value = header.get(key, "")
    if not re.fullmatch("[0-9]{1,9}", value):
        raise FormatError(f"{key} must be a count, got {value[:40]!r}")
    return int(value)


def _numbers(trees: list[_Tree], key: str, sizes: NDArray[np.int64], default: float | None = None) -> NDArray[Any]:
    """Return the numbers that all trees have under `key`, `sizes` of them; a tree without the key has `default`s."""
    texts = [tree.get(key, "") for tree in trees]
    if default is not None:
        texts = [text or f"{default} " * size for text, size in zip(texts, sizes.tolist(), strict=True)]
    try:
        numbers, lengths = _core.read_numbers(texts)
    except ValueError as error:
        raise FormatError(f"{key} must be numbers: {error}") from error
    if (lengths != sizes).any():
        tree = int(np.argmax(lengths != sizes))
        raise FormatError(f"tree {tree} has {lengths[tree]} values of {key}, expected {sizes[tree]}")
    return numbers


def _integers(trees: list[_Tree], key: str, sizes: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
    numbers = _numbers(trees, key, sizes)
    wrong = ~((numbers >= low) & (numbers <= high) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise FormatError(f"{key} must be integers from {low} to {high}, got {numbers[np.argmax(wrong)]}")
    return numbers.astype(np.int64)


def _nodes(trees: list[_Tree]) -> dict[str, Any]:
    """Return arrays over all nodes: of each tree first the inner nodes, then the leaves."""
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise UnsupportedModelError(
            "models with linear_tree=true have linear models for leaves; train without linear_tree"
        )
    n_leaves = _integers(trees, "num_leaves", np.ones(len(trees), np.int64), 1, 2**31 - 1)
    n_inner = n_leaves - 1
    leaf_value = _numbers(trees, "leaf_value", n_leaves)
    offset = np.concatenate([[0], np.cumsum(n_inner + n_leaves)])
    inner, leaves = _ranges(offset[:-1], n_inner), _ranges(offset[:-1] + n_inner, n_leaves)

    def join(of_inner: Any, of_leaves: Any) -> NDArray[Any]:
        array = np.empty(offset[-1], np.result_type(of_inner, of_leaves))
        array[inner], array[leaves] = of_inner, of_leaves
        return array

    left, right = (join(child, -1) for child in _children(trees, n_inner, offset, inner))
    # Hessians of a user's objective may be zero or negative, weights not.
    weight = np.maximum(_numbers(trees, "leaf_weight", n_leaves, 1.0), _MIN_WEIGHT)
    row_count = _numbers(trees, "internal_count", n_inner, np.nan), _numbers(trees, "leaf_count", n_leaves, np.nan)
    splits, sets = _splits(trees, n_inner)
    value = mean_of_leaves(offset, left, right, join(0, weight), join(0, leaf_value))
    return {
        "tree_offset": offset,
        "left": left,
        "right": right,
        "value": value[:, None],
        "cover": join(*row_count),
        **{name: join(of_inner, -1 if name == "category_set" else 0) for name, of_inner in splits.items()},
        **sets,
    }


def _ranges(start: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``size[0]`` numbers from ``start[0]`` on, then ``size[1]`` from ``start[1]`` on, and so forth."""
    return np.repeat(start - np.cumsum(size) + size, size) + np.arange(size.sum())


def _children(
    trees: list[_Tree], n_inner: NDArray[np.int64], offset: NDArray[np.int64], inner: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return both children of inner nodes as indices into all nodes; in the text a leaf ``i`` is ``-1 - i``."""
    first, first_leaf = np.repeat(offset[:-1], n_inner), np.repeat(offset[:-1] + n_inner, n_inner)
    end = np.repeat(offset[1:], n_inner)
    sides = []
    for key in ("left_child", "right_child"):
        child = _integers(trees, key, n_inner, -(2**31), 2**31 - 1)
        sides.append(np.where(child < 0, first_leaf + ~child, first + child))
        if ((sides[-1] <= inner) | (sides[-1] >= np.where(child < 0, end, first_leaf))).any():
            raise FormatError(f"a {key} is outside its tree or not after its parent")
    n_parents = np.bincount(np.concatenate(sides), minlength=offset[-1])
    n_parents[offset[:-1]] += 1
    if (n_parents != 1).any():
        raise FormatError("a node is the child of several nodes or of none")
    return sides


def _splits(trees: list[_Tree], n_inner: NDArray[np.int64]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return what inner nodes test, and the sets of categories they test for."""
    decision = _integers(trees, "decision_type", n_inner, 0, (len(_MISSING) << _MISSING_SHIFT) - 1)
    threshold = _numbers(trees, "threshold", n_inner)
    categorical = (decision & _CATEGORICAL) > 0
    n_sets = _integers(trees, "num_cat", np.ones(len(trees), np.int64), 0, 2**31 - 1)
    first_set = np.cumsum(n_sets) - n_sets
    known = (threshold >= 0) & (threshold < np.repeat(n_sets, n_inner)) & (threshold == np.floor(threshold))
    if not known[categorical].all():
        raise FormatError("a categorical split names a set of categories that its tree does not have")
    chosen = np.where(categorical, threshold, 0).astype(np.int64) + np.repeat(first_set, n_inner)
    splits = {
        "feature": _integers(trees, "split_feature", n_inner, 0, 2**31 - 1).astype(np.int32),
        "threshold": np.where(categorical, 0.0, _undo_zeroing(threshold)),
        "default_left": ~categorical & ((decision & _DEFAULT_LEFT) > 0),
        "missing": np.where(categorical, np.uint8(MISSING_NAN), _MISSING[decision >> _MISSING_SHIFT]),
        "category_set": np.where(categorical, chosen, -1).astype(np.int32),
    }
    return splits, _category_sets(trees, n_sets)


def _undo_zeroing(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return thresholds that decide rows as given like the old ones decide rows whose values within 1e-35 became 0."""
    threshold = np.where((threshold >= 0) & (threshold < ZERO), ZERO, threshold)
    return np.where((threshold >= -ZERO) & (threshold < 0), np.nextafter(-ZERO, -1), threshold)


def _category_sets(trees: list[_Tree], n_sets: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return `Forest`'s category_offset and category_bits: the sets of all trees, one after the other."""
    n_bounds = np.where(n_sets > 0, n_sets + 1, 0)
    bounds = _integers(trees, "cat_boundaries", n_bounds, 0, 2**31 - 1)
    last = np.cumsum(n_bounds)[n_sets > 0] - 1
    n_words = np.zeros(len(trees), np.int64)
    n_words[n_sets > 0] = bounds[last]
    words = _integers(trees, "cat_threshold", n_words, 0, 2**32 - 1)
    sizes = np.delete(np.diff(bounds), last[:-1])
    if bounds[last - n_sets[n_sets > 0]].any() or (sizes < 0).any():
        raise FormatError("cat_boundaries must rise from 0")
    return {
        "category_offset": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "category_bits": words.astype(np.uint32),
    }


def _readout(header: dict[str, str], n_outputs: int, classes: NDArray[Any] | str | None) -> dict[str, Any]:
    """Return how scores become labels and predictions."""
    objective, *options = header.get("objective", "custom").split(" ")
    if objective not in _LINKS:
        raise UnsupportedModelError(f"unknown objective {objective[:40]!r}; accepted are {', '.join(_LINKS)}")
    link = "signed-square" if "sqrt" in options and _LINKS[objective] == "identity" else _LINKS[objective]
    if isinstance(classes, str):
        classes = np.arange(max(n_outputs, 2)) if objective in _CLASSIFIER_LINKS else None
    if n_outputs > 1 and (classes is None or link not in ("softmax", "logistic-each")):
        raise UnsupportedModelError(
            f"a model of {n_outputs} values with objective {objective!r} is not a classifier; "
            "train it with objective 'multiclass' or 'multiclassova', or one model for each value"
        )
    if classes is not None and len(classes) != max(n_outputs, 2):
        raise UnsupportedModelError(
            f"a classifier of {len(classes)} classes with {n_outputs} outputs does not give labels; "
            "train it on at least two classes with objective 'binary' or 'multiclass'"
        )
    scale = _sigmoid(options)
    readout: dict[str, Any] = {"link": link, "link_scale": scale, "classes": classes}
    if classes is None or n_outputs > 1:
        return readout
    # The positive class needs p > 1 - p.
    if link == "logistic":
        return readout | {"decision_threshold": _core.logistic_threshold(scale, False)}
    if link == "identity":
        return readout | {"decision_threshold": np.nextafter(0.5, 1)}
    raise UnsupportedModelError(
        f"a classifier with objective {objective!r} has no probabilities; train it with objective 'binary'"
    )


def _sigmoid(options: list[str]) -> float:
    value = next((option[8:] for option in options if option.startswith("sigmoid:")), "1")
    try:
        sigmoid = float(value)
    except ValueError:
        sigmoid = np.nan
    if not _MIN_SIGMOID <= sigmoid < np.inf:
        raise FormatError(f"sigmoid must be a number of at least {_MIN_SIGMOID}, got {value[:40]!r}")
    return sigmoid


def _categories(feature_infos: list[str], footer: list[str]) -> dict[int, NDArray[Any]]:
    """Return the categories of pandas category columns, by column.

    The text has a list for each such column but does not name the columns. They are among those whose training values
    may be codes, so if these are as many as the lists, they are the ones; else the columns declared categorical, if
    those are as many. Otherwise nothing is known, and tables with category columns raise an error; so do plain numbers
    in all of these columns if some list has numbers: they may be values of that list, or codes.
    """
    lists = _pandas_categorical(footer)
    longest = max(map(len, lists), default=0)
    candidates = columns = [j for j, info in enumerate(feature_infos) if _may_hold_codes(info, longest)]
    if len(columns) != len(lists):
        prefix = "[categorical_feature: "
        declared = next((line[len(prefix) : -1] for line in footer if line.startswith(prefix)), "")
        columns = [int(j) for j in declared.split(",") if re.fullmatch("[0-9]{1,9}", j)]
    if len(columns) != len(lists):
        all_texts = all(isinstance(value, str) for values in lists for value in values)
        return {} if all_texts else dict.fromkeys(candidates, np.array([]))
    found = zip(columns, lists, strict=True)
    return {j: np.array(values if _can_be_looked_up(values) else []) for j, values in found}


def _can_be_looked_up(values: list[Any]) -> bool:
    """Return whether these are texts or numbers, not some of each: a table's column has values of one kind."""
    numbers = all(isinstance(value, int | float) and abs(value) < 2**63 for value in values)
    # Arrays of numpy lose zeros at the end of a text.
    return numbers or all(isinstance(value, str) and not value.endswith("\0") for value in values)


def _pandas_categorical(footer: list[str]) -> list[list[Any]]:
    prefix = "pandas_categorical:"
    text = next((line[len(prefix) :] for line in reversed(footer) if line.startswith(prefix)), "null")
    try:
        lists = json.loads(text) or []
    except (ValueError, RecursionError) as error:
        raise FormatError(f"pandas_categorical is not JSON: {error}") from error
    if not isinstance(lists, list) or not all(isinstance(values, list) for values in lists):
        raise FormatError("pandas_categorical must be lists of categories")
    return lists


def _may_hold_codes(info: str, n_categories: int) -> bool:
    """Return whether training values ("none", "[low:high]" or "-1:2:0:1") of a column may be codes of categories."""
    if info == "none":
        return True
    values = info.strip("[]").split(":")
    whole = all(re.fullmatch("-?[0-9]{1,9}", value) for value in values)
    return whole and all(-1 <= int(value) < n_categories for value in values)
