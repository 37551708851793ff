"""One row at a time: how a function bound to native code reads a row, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice
from scurry.errors import InputError
from scurry.forest.rows import as_rows
from scurry.forest.structure import ForestFields

ANSWERS = ("label", "probabilities")
_LOSSLESS_KINDS = "biufUSO"  # of numpy's types, those whose values Python's own objects hold


class RowOptions(TypedDict):
    """What every native `one_row` takes, see `_core.Engine.one_row`."""

    labels: tuple[Any, ...] | None
    float32: bool
    float64: bool
    otherwise: Callable[[Any], Any]


@dataclass(frozen=True)
class RowCall:
    """A function of one row, as it is asked for.

    Attributes
    ----------
    answer : {"label", "value", "probabilities"}
        "value" is what a regressor answers.
    options : RowOptions
        The objects that stand for the classes (None: the integers that native code writes), which arrays are read as
        they are, and the function that answers all other rows.
    """

    answer: str
    options: RowOptions

    @classmethod
    def of(
        cls,
        forest: ForestFields,
        answer: str,
        predict: Callable[[NDArray[Any]], NDArray[Any]],
        predict_proba: Callable[[NDArray[Any]], NDArray[np.float64]],
    ) -> RowCall:
        """Return the function that is asked for; `predict` and `predict_proba` answer for rows of other types."""
        check_choice("answer", answer, ANSWERS)
        classes = forest.classes
        if classes is None and answer == "probabilities":
            raise InputError(
                "this forest is a regressor and has no probabilities; call one_row() for its value", argument="answer"
            )

        def otherwise(row: Any) -> Any:
            rows = as_rows(forest, row)
            if len(rows) != 1:
                raise InputError(f"a function of one row got {len(rows)}; call predict for many", argument="row")
            if answer == "probabilities":
                return tuple(predict_proba(rows)[0].tolist())
            return _objects(predict(rows))[0]

        # The same condition as in `as_rows`. What a wrapper answers, native code does not know.
        wanted = None if forest.raw_rows is None else forest.raw_rows.dtype
        is_native = forest.wrapper is None or (answer == "label" and not forest.wrapper.decides)
        is_native = is_native and not forest.is_encoded and not (forest.raw_rows and forest.raw_rows.missing_upto)
        float32, float64 = (is_native and wanted in (None, name) for name in ("float32", "float64"))
        options = RowOptions(
            labels=None if classes is None or classes.dtype == np.int64 else tuple(_objects(classes)),
            float32=float32,
            float64=float64,
            otherwise=otherwise,
        )
        return cls("value" if classes is None else answer, options)


def _objects(values: NDArray[Any]) -> list[Any]:
    return values.tolist() if values.dtype.kind in _LOSSLESS_KINDS else list(values)
