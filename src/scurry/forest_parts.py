"""The parts a forest consists of, by name: the arrays and header fields of files, of the core, and of other forests."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import structure
from scurry.storage import Container

if TYPE_CHECKING:
    from scurry.forest import Forest

NODE_ARRAYS: dict[str, type] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "default_left": np.bool_,
    "cover": np.float64,
    "missing": np.uint8,
    "category_set": np.int32,
}
ARRAYS: dict[str, type] = NODE_ARRAYS | {
    "tree_offset": np.int64,
    "value": np.float64,
    "tree_output": np.int32,
    "base_score": np.float64,
    "category_offset": np.int64,
    "category_bits": np.uint32,
}
_CHOICES = ("aggregation", "input_dtype", "score_dtype", "comparison", "link", "label_from", "category_rounding")
HEADER: dict[str, type | UnionType] = (
    {"n_features": int, "encode_numbers": bool}
    | dict.fromkeys(_CHOICES, str)
    | dict.fromkeys(("link_scale", "decision_threshold"), int | float)
)


def arrays_of(given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """All arrays of a forest, read-only; None stands for what a forest without the feature has."""
    n_nodes, n_trees = np.shape(given["feature"])[0], np.shape(given["tree_offset"])[0] - 1
    n_columns = np.shape(given["value"])[1] if np.ndim(given["value"]) == 2 else 1
    outputs = given["tree_output"]
    n_outputs = n_columns if outputs is None else max(int(np.max(outputs, initial=0)) + 1, n_columns)
    usual: dict[str, ArrayLike] = {
        "default_left": np.zeros(n_nodes),
        "cover": np.full(n_nodes, np.nan),
        "missing": np.zeros(n_nodes),
        "tree_output": np.full(n_trees, -1),
        "base_score": np.zeros(n_outputs),
        "category_set": np.full(n_nodes, -1),
        "category_offset": [0],
        "category_bits": [],
    }
    arrays = usual | {name: values for name, values in given.items() if values is not None}
    return {name: structure.frozen(arrays[name], dtype, name) for name, dtype in ARRAYS.items()}


def parts_of(forest: Forest) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A forest as a JSON header and named arrays."""
    header = {name: getattr(forest, name) for name in HEADER} | {
        "feature_names": forest.feature_names,
        "classes": None if forest.classes is None else structure.pack_values(forest.classes),
        "categories": {str(f): structure.pack_values(values) for f, values in forest.categories.items()},
    }
    return header, {name: getattr(forest, name) for name in ARRAYS}


def fields_of(forest: Forest) -> dict[str, Any]:
    """What makes another forest like this one, by the names of `Forest`'s arguments."""
    return {name: getattr(forest, name) for name in (*ARRAYS, *HEADER, "classes", "feature_names", "categories")}


def arguments_of(container: Container) -> dict[str, Any]:
    """What a file that holds a forest passes to `Forest`."""
    classes = container.field("classes", dict | None)
    return (
        {name: container.array(name, dtype) for name, dtype in ARRAYS.items()}
        | {name: container.field(name, kind) for name, kind in HEADER.items()}
        | {
            "feature_names": container.field("feature_names", list | None),
            "classes": None if classes is None else structure.unpack_values(classes),
            "categories": {
                int(f) if f.isdecimal() else -1: structure.unpack_values(values)
                for f, values in container.field("categories", dict).items()
            },
        }
    )
