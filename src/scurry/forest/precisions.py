"""Precisions: what the types of columns decide about a pipeline's arithmetic, and which types give the same.

A step of scikit-learn converts the columns that it takes to one type before it computes: float32 if that is their
common type in numpy, and float64 if it is that or an integer. So an int32 column makes a step compute in float64 with
the float32 column next to it, which an int16 column does not. A folded forest is exact for rows with which the steps
compute as they did when it was made. `Block` says so for the columns of one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from scurry import _core
from scurry.checks import check_choice
from scurry.errors import FormatError, InputError

KINDS = ("together", "alone", "joined", "exactly", "integers")
_OF_ARROW = {"e": "float16", "f": "float32", "g": "float64", "b": "bool"} | {
    letter: name + str(bits)
    for letters, name in (("csil", "int"), ("CSIL", "uint"))
    for letter, bits in zip(letters, (8, 16, 32, 64), strict=True)
}
_WIDE = frozenset(["float64", "int32", "int64", "uint32", "uint64", "Float64", "Int32", "Int64", "UInt32", "UInt64"])
_NARROW = ("int8", "int16", "uint8", "uint16")
_EXAMPLE = 200  # rows
_NO_NUMBERS = ("object", "category", "str", "string")


@dataclass(frozen=True)
class Block:
    """Columns whose types decide together in which precision a step of a pipeline computes.

    Attributes
    ----------
    kind : {"together", "alone", "joined", "exactly", "integers"}
        "together": a step converts the columns to one type of floats, as scalers and imputers do. "alone": a function
        of numpy computes with each in the precision of its own type. "joined": it computes with all in the precision of
        their common type. "exactly": a step writes numbers into an array of their common type. "integers": the model
        rounds rows that are integers throughout.
    columns : tuple of int
        Features.
    accepts : tuple of str
        The precisions (see `precision`) for which the forest is exact.

    Examples
    --------
    >>> from scurry.forest import Block
    >>> block = Block("together", (0, 1), ("float64",))
    >>> block.precision(["int32", "float32"]), block.precision(["int16", "float32"])
    ('float64', 'float32')
    """

    kind: str
    columns: tuple[int, ...]
    accepts: tuple[str, ...]

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if not self.accepts or not self.columns or min(self.columns) < 0:
            raise InputError("a block needs columns, and precisions that are accepted")

    def precision(self, types: Sequence[str], library: str = "") -> str:
        """Return in which precision the step computes: "float32", "float64", or a name for all that is neither.

        Parameters
        ----------
        types : sequence of str
            Of the block's columns, as `type_name` has them.
        library : str
            The one whose table holds them. scikit-learn computes with columns of polars in float64 where it converts.
        """
        if self.kind == "together" and library == "polars":
            return "float64"
        return _PRECISION[self.kind](types)

    def takes(self, types: Sequence[str], library: str = "") -> bool:
        """Return whether the forest is exact for columns of these types; `types` are those of all features."""
        own = [types[at] for at in self.columns]
        # A table of polars is taken as the one of pandas that it can be converted to, too.
        return self.precision(own) in self.accepts or (
            library == "polars" and self.precision(own, library) in self.accepts
        )

    def conversions(self, types: Sequence[str]) -> dict[int, str]:
        """Return types to which columns can be converted, as few as possible, so that the forest takes them."""
        wanted = self.accepts[0]
        if wanted in ("float32", "float64", "integers", "floats"):
            name = {"integers": "int64", "floats": "float64"}.get(wanted, wanted)
            unless: list[tuple[str, ...]] = [(*_NARROW, *_WIDE), tuple(_WIDE), ()]
            if wanted == "float32":
                unless = [(*_NARROW, "float32"), ()]
            tries = [{at: name} for at in self.columns if types[at] != name]  # one may be enough for all
            tries += [{at: name for at in self.columns if types[at] not in (*some, name)} for some in unless]
        else:
            names = wanted.split("+")
            names = names * len(self.columns) if len(names) == 1 else names
            tries = [{at: name for at, name in zip(self.columns, names, strict=True) if types[at] != name}]
        for found in tries:
            if found and self.takes([found.get(at, name) for at, name in enumerate(types)]):
                return found
        return tries[-1]

    def to_json(self) -> dict[str, Any]:
        """Return the fields for the header of a file."""
        return {"kind": self.kind, "columns": list(self.columns), "accepts": list(self.accepts)}

    @classmethod
    def from_json(cls, stored: Any) -> Block:
        """Return what `to_json` wrote."""
        try:
            kind, columns, accepts = stored["kind"], stored["columns"], stored["accepts"]
            return cls(kind, tuple(int(at) for at in columns), tuple(str(name) for name in accepts))
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError("a block of raw_rows must have kind, columns and accepts") from error


def _own(types: Sequence[str]) -> str:
    """Return a name that stands for these types alone."""
    return types[0] if len(set(types)) == 1 else "+".join(types)


def _common(types: Sequence[str]) -> np.dtype[Any] | None:
    """Return the common type of columns of numpy's numbers, None if some are something else."""
    if not set(types) <= _NUMBERS:
        return None
    return np.result_type(*(np.dtype(name) for name in types))


def _together(types: Sequence[str]) -> str:
    common = _common(types)
    if common is None:  # types of numbers that pandas added, categories and objects become float64
        known = all(name in _NUMBERS or name in _NO_NUMBERS or _is_nullable(name) for name in types)
        return "float64" if known else _own(types)
    if common.kind in "iub" or common.itemsize > 4:
        return "float64"
    # Versions of scikit-learn differ about booleans between float32; float16 has few numbers, and is kept as it is.
    return "float32" if common == np.float32 and "bool" not in types else _own(types)


def _alone(types: Sequence[str]) -> str:
    found = {"float64" if name in _WIDE else name for name in types}
    return found.pop() if len(found) == 1 else _own(types)


def _join(types: Sequence[str]) -> str:
    common = _common(types)
    if common is None:
        return "float64" if all(_is_nullable(name) or name in _NUMBERS for name in types) else _own(types)
    return _own(types) if "bool" in types else _alone([common.name])


def _exactly(types: Sequence[str]) -> str:
    common = _common(types)
    return _join(types) if common is None or "bool" in types else common.name


def _integers(types: Sequence[str]) -> str:
    if not set(types) <= _NUMBERS or all(name.startswith("float") for name in types):
        return "floats"
    if "bool" in types:
        return _own(types)
    return "floats" if any(name.startswith("float") for name in types) else "integers"


_PRECISION = {"together": _together, "alone": _alone, "joined": _join, "exactly": _exactly, "integers": _integers}
_NUMBERS = frozenset([*_OF_ARROW.values(), np.dtype(np.longdouble).name])


def _is_nullable(name: str) -> bool:
    return name.startswith(("Int", "UInt", "Float", "boolean")) or name.endswith("[pyarrow]")


def is_number(name: str) -> bool:
    """Return whether columns of a type hold numbers or booleans."""
    return name in _NUMBERS or _is_nullable(name)


def float_type_of_arrays(blocks: Sequence[Block]) -> str | None:
    """Return the only type of floats that arrays may have; None if float32 and float64 will do, "mixed" if neither."""
    n_features = 1 + max((max(block.columns) for block in blocks), default=0)
    taken = [name for name in ("float32", "float64") if all(block.takes([name] * n_features) for block in blocks)]
    return None if len(taken) == 2 else taken[0] if taken else "mixed"


def type_name(dtype: Any) -> str:
    """Return the name of a column's type, of numpy or pandas."""
    if isinstance(dtype, np.dtype):
        return dtype.name
    return "category" if type(dtype).__name__ == "CategoricalDtype" else str(dtype)


@dataclass(frozen=True)
class ColumnTypes:
    """The types of the columns of some rows.

    Attributes
    ----------
    types : tuple of str
    names : tuple of str or None
        None for an array.
    library : {"pandas", "polars", "arrow", "numpy"}
    example : object
        Some of the rows, as scikit-learn takes them; None if it takes no such rows.
    """

    types: tuple[str, ...]
    names: tuple[str, ...] | None
    library: str
    example: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, X: Any) -> ColumnTypes | None:
        """Return the types of the columns of a table or an array, None if `X` is neither."""
        X = X.to_native() if hasattr(X, "to_native") else X  # of narwhals
        library = type(X).__module__.split(".")[0]
        if library == "pandas" and hasattr(X, "columns"):
            names = tuple(str(name) for name in X.columns)
            return cls(tuple(map(type_name, X.dtypes)), names, library, X.iloc[:_EXAMPLE])
        if hasattr(X, "columns") and hasattr(X, "__arrow_c_stream__"):
            table = _core.ArrowTable(X.__arrow_c_stream__())
            types = arrow_types(table.formats)
            if library == "pyarrow":  # pandas has no missing integers of numpy
                types = [
                    with_nulls(name) if one.null_count else name for name, one in zip(types, X.columns, strict=True)
                ]
            if library == "polars":
                return cls(tuple(types), tuple(table.names), library, X[:_EXAMPLE])
            return cls(tuple(types), tuple(table.names), "arrow")
        dtype = getattr(X, "dtype", None)
        if isinstance(dtype, np.dtype) and len(X.shape) == 2:
            return cls((dtype.name,) * X.shape[1], None, "numpy", None if hasattr(X, "tocsr") else X[:_EXAMPLE])
        return None

    def select(self, names: Sequence[str] | None, n_columns: int) -> list[str]:
        """Return the types of columns with these names, or of the first ones; those that are absent are float64."""
        if names is None or self.names is None:
            return [*self.types[:n_columns], *["float64"] * (n_columns - len(self.types))]
        known = dict(zip(self.names, self.types, strict=True))
        return [known.get(name, "float64") for name in names]


RowTypes: TypeAlias = ColumnTypes | str | None
"""Types of rows to come: of their columns, of all their floats, or unknown."""


def arrow_types(formats: Sequence[str]) -> list[str]:
    """Return the names of types from Arrow's letters."""
    return [_OF_ARROW.get(letter, "object") for letter in formats]


def with_nulls(name: str) -> str:
    """Return the type that a column of numpy's numbers has in pandas once some of its values are missing."""
    return "object" if name == "bool" else "float64" if name.startswith(("int", "uint")) else name


def suggest_types(blocks: Sequence[Block], types: Sequence[str]) -> list[str]:
    """Return types that all blocks take, and that differ from others as little as possible."""
    types = list(types)
    for _ in range(2):  # what one block needs, another may not take
        for block in sorted(blocks, key=lambda one: "float64" not in one.accepts):
            for at, name in {} if block.takes(types) else block.conversions(types).items():
                types[at] = name
    return types


def describe_refusal(blocks: Sequence[Block], types: Sequence[str], titles: Sequence[str], library: str) -> str:
    """Return what is wrong with columns of types that some block does not take, and what to do.

    Parameters
    ----------
    blocks : sequence of Block
    types, titles : sequences of str
        One for each feature.
    library : str
        The one whose table they are from; "numpy" for an array.
    """
    if library == "numpy" and types[0].startswith("str"):  # numpy makes texts of numbers that lie next to texts
        columns = ", ".join(map(repr, titles))
        return f"X is read as an array of texts, numbers too; pass a frame: pandas.DataFrame(X, columns=[{columns}])"
    block = next(block for block in blocks if not block.takes(types, library))
    example = {types[at]: at for at in reversed(block.columns)}
    what = ", ".join(
        f"column {titles[at]!r} holds {name}" for name, at in sorted(example.items(), key=lambda one: one[1])
    )
    changes = {at: name for at, name in enumerate(suggest_types(blocks, types)) if types[at] != name}
    how = f"X.astype({{{', '.join(f'{titles[at]!r}: {name!r}' for at, name in changes.items())}}})"
    if library == "numpy":
        what, dtype = f"X holds {types[0]}", float_type_of_arrays(blocks)
        how = f"X.astype({dtype!r})" if dtype != "mixed" else f"pandas.DataFrame(X, columns=[…]){how[1:]}"
    elif library != "pandas":
        how = ", ".join(f"{titles[at]!r} to {name}" for at, name in changes.items()) + f", as X.to_pandas(){how[1:]}"
    found, accepted = block.precision([types[at] for at in block.columns]), " or ".join(block.accepts)
    return (
        f"{what}, with which the pipeline computes in another precision ({found}) than with the rows that this forest "
        f"was made for ({accepted}). Convert them, also for a plan from a file: {how}. That may change the pipeline's "
        "own answers to rows near its thresholds; where it must not, make the forest or the plan again from the "
        "pipeline and rows of these types: scurry.from_model(pipeline, rows=X), scurry.early_exit(pipeline, X, …)"
    )
