"""Checks of single arguments. Each returns the value in its canonical type, or raises an `InputError` that names it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, ManyOutputsError

# A string, because numpy loads `numpy.random` at first use, which takes as long as a fifth of scurry.
RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"
"""What every `random_state` accepts."""

Progress: TypeAlias = Callable[[int, int], object]
"""What every `progress` is called with: ``progress(n_done, n_total)``."""


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        accepted = ", ".join(f'"{choice}"' for choice in choices)
        raise InputError(f"{name} must be one of {accepted}, got {value!r}", argument=name)
    return value


def check_count(name: str, value: Any, smallest: int = 1, *, largest: float = 2**63 - 1, hint: str = "") -> int:
    """Return `value` as an int from `smallest` to `largest`; `hint` is added to the message."""
    try:
        count = operator.index(value)
    except TypeError:
        count = smallest - 1
    # True is an int to Python, but nobody who passes it means 1.
    if count < smallest or isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}{hint}", argument=name)
    if count > largest:
        raise InputError(f"{name} can be at most {largest:,}, got {float_of(count):.3g}{hint}", argument=name)
    return count


def check_output(output: int | None, n_outputs: int, kind: str, *, is_multilabel: bool = False) -> int:
    """Return the number of the target that is wanted, of a model that may have several.

    Parameters
    ----------
    output : int or None
        What the caller asks for.
    n_outputs : int
        The targets of the model.
    kind : str
        What messages call it.
    is_multilabel : bool
        Whether the targets are labels, each of which a row has or has not.

    Raises
    ------
    ManyOutputsError
        If there are several, and none is chosen.
    InputError
        If there is no such target.

    Examples
    --------
    >>> check_output(None, 1, "model"), check_output(2, 3, "model")
    (0, 2)
    """
    if output is None:
        if n_outputs > 1:
            raise ManyOutputsError(kind, n_outputs, is_multilabel)
        return 0
    if check_count("output", output, 0) >= n_outputs:
        raise InputError(
            f"this {kind} has {n_outputs} targets: output must be below that, got {output}", argument="output"
        )
    return output


def check_number(name: str, value: Any, *, above: float | None = None, hint: str = "") -> float:
    """Return `value` as a finite float of at least 0, or greater than `above`."""
    low = 0.0 if above is None else above
    number = float_of(value)
    if not (number >= low if above is None else number > low) or number == np.inf:
        wanted = "of at least 0" if above is None else f"above {above:g}"
        raise InputError(f"{name} must be a number {wanted}, got {value!r}{hint}", argument=name)
    return number


def check_rate(name: str, rate: Any) -> float:
    """Return `rate` as a float in [0, 1)."""
    if not is_number(rate) or not 0.0 <= rate < 1.0:
        hint = (
            f" Did you mean {float(rate) / 100:g} ({float(rate):g} %)?" if is_number(rate) and 1 <= rate < 100 else ""
        )
        raise InputError(f"{name} must be in [0, 1), got {rate!r}.{hint}", argument=name)
    return float(rate)


def check_confidence(confidence: Any) -> float:
    """Return `confidence` as a float strictly between 0 and 1."""
    if not is_number(confidence) or not 0.0 < confidence < 1.0:
        hint = f" Did you mean {float(confidence) / 100:g}?" if is_number(confidence) and 1 < confidence < 100 else ""
        raise InputError(f"confidence must be in (0, 1), got {confidence!r}.{hint}", argument="confidence")
    return float(confidence)


def check_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return `values` as a float64 array of any shape; texts, dates and complex numbers are no numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"they have dtype {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers: {error}", argument=name) from error


def check_instance(name: str, value: Any, kind: type, *, hint: str = "") -> None:
    """Raise an error unless `value` is a `kind`; `hint` says how to get one."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, got {type(value).__name__}{hint}", argument=name)


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False: "no" and 0 are not."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {value!r}", argument=name)
    return bool(value)


def check_progress(progress: Any) -> Progress | None:
    """Return `progress` if it can be called, or is None."""
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of n_done and n_total, got {progress!r}", argument="progress")
    checked: Progress | None = progress
    return checked


def check_random_state(random_state: RandomState) -> np.random.Generator:
    """Return a generator: the one given, or one seeded by what was given."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number of at least 0, a Generator, a RandomState or None, got "
            f"{random_state!r}",
            argument="random_state",
        ) from error


def draw_seed(random_state: RandomState) -> int:
    """Return a whole number that seeds what `random_state` asks for: itself, or one drawn by it.

    Examples
    --------
    >>> draw_seed(7), draw_seed(None) == draw_seed(None)
    (7, False)
    """
    given: Any = random_state
    try:
        seed = operator.index(given)
    except TypeError:
        return int(check_random_state(random_state).integers(2**32))
    check_random_state(seed)
    return seed


def float_of(value: Any) -> float:
    """Return a number as a float: NaN for what is no number, infinity for what is too large."""
    try:
        return float(value) if is_number(value) else np.nan
    except OverflowError:  # Python's whole numbers and fractions may be larger than any float
        return np.inf if value > 0 else -np.inf


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number, and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def read_column(name: str, given: Any, table: Any) -> Any:
    """Return values by row: those given, or those of the column of a table that has the name given.

    Examples
    --------
    >>> read_column("groups", [1, 1, 2], None)
    [1, 1, 2]
    """
    if not isinstance(given, str):
        return given
    columns = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if given not in columns:
        known = (
            f"they have {', '.join(map(str, columns[:20]))}" if columns else "they are no frame; pass a value per row"
        )
        raise InputError(f"{name}={given!r} must be the name of a column of the rows: {known}", argument=name)
    return table[given]


def is_missing(value: Any) -> bool:
    """Return whether `value` is None, NaN or what pandas writes for a missing value.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA, which is neither equal to itself nor different
        return True
