"""Rows that a promise may be tested on: checked for what would make it false, and split by their own values.

A promise is about new rows. It is tested on calibration rows, which must be independent draws like them. Three mistakes
are easily made, and each makes a plan state something false: rows that fitted the rule certify it too, rows were copied
(by oversampling, say), or rows trained the model (`training_rows`). `scurry.stopping.independence` has the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, warn
from scurry.forest import Forest
from scurry.stopping.independence import are_copied, find_shared, hash_rows, split_rows
from scurry.stopping.sample import Sample
from scurry.verbs.training_rows import describe_training


class Parts(NamedTuple):
    """Rows divided into subgroups.

    Attributes
    ----------
    names : tuple of str
    codes : int array of shape (n_rows,)
        The subgroup of each row, as an index of `names`.
    """

    names: tuple[str, ...]
    codes: NDArray[np.intp]


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckedRows:
    """Calibration rows that a promise may be tested on.

    Attributes
    ----------
    sample : Sample
    y : array of shape (n_rows,) or None
    digests : uint64 array of shape (n_rows,)
        Equal for equal rows. Empty where nothing is promised, and rows are not split.
    unit : {"row", "distinct row", "group"}
        What is an independent draw, and is counted.
    groups : int array of shape (n_rows,) or None
        The unit of each row, from 0 on; None where each row is one.
    parts : Parts or None
        The subgroup of each row, where a promise is made for each of several.
    n_shared : int
        Rows that were left out because they fitted the rule.
    left : bool array or None
        Which of the rows given are left; None if all are.
    warned : str
        Why nothing can be promised for new rows; empty if it can.
    """

    sample: Sample
    y: NDArray[Any] | None
    digests: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    unit: str = "row"
    groups: NDArray[np.intp] | None = None
    parts: Parts | None = None
    n_shared: int = 0
    left: NDArray[np.bool_] | None = None
    warned: str = ""

    @property
    def n_units(self) -> int:
        """Number of independent draws."""
        return self.sample.n_rows if self.groups is None else int(self.groups.max()) + 1

    def split(self, n_fit: int) -> tuple[Sample, NDArray[Any] | None, Sample]:
        """Return rows of `n_fit` units and their labels, to fit a rule, and one row of each other unit to test it."""
        fits, tests = self.divide(n_fit)
        return self.sample.where(fits), None if self.y is None else self.y[fits], self.sample.where(tests)

    def divide(self, n_fit: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows belong to `n_fit` units that fit a rule, and which to the others, one row of each."""
        return split_rows(self.digests, n_fit, self.groups)

    def one_of_each(self) -> Sample:
        """Return one row of each unit, to test what other rows fitted."""
        return self.sample if self.groups is None else self.split(0)[2]


def check_rows(
    forest: Forest,
    sample: Sample,
    y: NDArray[Any] | None,
    groups: Any,
    fit_rows: NDArray[Any] | None,
    parts: Parts | None = None,
) -> CheckedRows:
    """Return the rows that may test a promise, and warn of what was wrong with the others.

    Raises
    ------
    InputError
        If no row may.
    """
    codes = None if groups is None else check_groups(groups, sample.n_rows)
    digests = sample.each(partial(hash_rows, dtype=forest.input_dtype))
    warned = describe_training(forest, sample, y)
    if warned:
        warn(warned, UserWarning)
    unit, n_shared, left = "row" if codes is None else "group", 0, None
    if fit_rows is not None and (shared := find_shared(digests, hash_rows(fit_rows, forest.input_dtype))) is not None:
        # Of a group with a row that fitted the rule, none is independent of it.
        shared = shared if codes is None else np.isin(codes, codes[shared])
        n_shared, left = int(shared.sum()), ~shared
        _warn_of_shared(n_shared, len(shared))
        sample, digests, y = sample.where(~shared), digests[~shared], None if y is None else y[~shared]
        codes = None if codes is None else np.unique(codes[~shared], return_inverse=True)[1]
        parts = None if parts is None else parts._replace(codes=parts.codes[~shared])
    if codes is None and are_copied(digests):
        unit, codes = "distinct row", np.unique(digests, return_inverse=True)[1]
        warn(
            f"rows of X_cal are copies of others: {len(digests):,} rows, {codes.max() + 1:,} of them different. A copy "
            "proves nothing new, so each row counts once. Pass rows without copies; if rows belong together (of one "
            "patient, say), pass groups=, and each group counts once",
            UserWarning,
        )
    return CheckedRows(
        sample=sample,
        y=y,
        digests=digests,
        unit=unit,
        groups=codes,
        parts=parts,
        n_shared=n_shared,
        left=left,
        warned=warned,
    )


def read_parts(by: Any, X_cal: Any, n_rows: int) -> Parts:
    """Return the subgroups of calibration rows: one value for each row, or the name of a column of `X_cal`."""
    if not isinstance(by, str):
        values, codes = _number_values("by", by, n_rows, "give rows without a subgroup a value of their own")
        return Parts(tuple(map(str, values.tolist())), codes)
    columns = list(getattr(X_cal, "column_names", getattr(X_cal, "columns", ())))
    if by not in columns:
        known = f"it has {', '.join(map(str, columns[:20]))}" if columns else "it is no frame; pass one value per row"
        raise InputError(f"by={by!r} must be the name of a column of X_cal: {known}", argument="by")
    values, codes = _number_values("by", X_cal[by], n_rows, "give rows without a subgroup a value of their own")
    return Parts(tuple(f"{by}={value}" for value in values.tolist()), codes)


def check_groups(groups: Any, n_rows: int, table: str = "X_cal") -> NDArray[np.intp]:
    """Return the group of each row of a table as a number from 0 on."""
    return _number_values("groups", groups, n_rows, "give rows without a group one each", table)[1]


def _number_values(
    name: str, given: Any, n_rows: int, advice: str, table: str = "X_cal"
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the different values, and for each row the index of its own."""
    array = np.asarray(given)
    if array.shape != (n_rows,):
        raise InputError(f"{name} has shape {array.shape}, {table} has {n_rows} rows", argument=name)
    is_missing = array.dtype.kind == "f" and bool(np.isnan(array).any())
    if is_missing or (array.dtype.kind == "O" and any(value is None or value != value for value in array.tolist())):
        raise InputError(f"{name} has missing values; {advice}", argument=name)
    try:
        values, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputError(f"{name} must be of one type: {error}", argument=name) from error
    return values, codes.astype(np.intp)


def _warn_of_shared(n_shared: int, n_rows: int) -> None:
    instead = "Leave X_fit out, and a part of X_cal fits the rule"
    if n_shared == n_rows:
        raise InputError(
            f"all {n_rows:,} rows of X_cal are among those of X_fit, and rows that fitted a rule cannot certify it. "
            f"{instead}",
            argument="X_fit",
        )
    warn(
        f"{n_shared:,} of {n_rows:,} rows of X_cal are among those of X_fit too, more than two independent samples of "
        f"such data share. They fitted the rule, so they are left out of its certificate. {instead}",
        UserWarning,
    )
