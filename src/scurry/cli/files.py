"""Read the files a command is given: models of any framework, and tables of rows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scurry import Forest, Predictor, from_model, load
from scurry.errors import FormatError, InputError, ScurryError

_PICKLES = frozenset({".pkl", ".pickle", ".joblib"})
_N_ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class Model:
    """The content of a model file.

    Attributes
    ----------
    path : Path
    subject : Forest or Predictor
        What the file makes of rows: with a plan, a predictor.
    source : estimator or None
        The model as an object of its own framework, where the file holds one.
    """

    path: Path
    subject: Forest | Predictor
    source: Any = None

    @property
    def forest(self) -> Forest:
        """The forest that predicts."""
        return self.subject.forest if isinstance(self.subject, Predictor) else self.subject

    @property
    def predictor(self) -> Predictor:
        """A predictor for the model. It evaluates every tree if the file has no plan."""
        return self.subject if isinstance(self.subject, Predictor) else Predictor.full(self.subject)


def read_model(path: Path, *, rows: Sequence[str] | None = None, trust_pickle: bool = False) -> Model:
    """Return the model in a file of any kind, for rows like those of some files; in a pickle only if it is trusted."""
    from scurry.importers.skops import holds_estimator, load_estimator
    from scurry.importers.ydf import is_folder

    if is_folder(str(path)):
        return Model(path, from_model(path))
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InputError(f"cannot read the model file {str(path)!r}: {error.strerror or error}") from error
    # By content as well as by name: a pickle without its usual suffix must not be loaded unasked.
    if head[:1] == b"\x80" or not _PICKLES.isdisjoint(map(str.lower, path.suffixes)):
        return _wrap(path, _unpickle(path, trust_pickle), rows)
    if head.startswith(b"PK"):  # skops and .scurry files are both zip archives
        return _wrap(path, load_estimator(path), rows) if holds_estimator(path) else Model(path, load(path))
    return Model(path, from_model(path))


def _unpickle(path: Path, trusted: bool) -> Any:
    if not trusted:
        stem = path.name.split(".")[0]
        raise FormatError(
            f"{path} is a pickle, and loading a pickle runs whatever code its author put into it. If you trust it, add "
            "--trust-pickle. Safer files run nothing when they are loaded: "
            f"scurry.from_model(model).save('{stem}.scurry'), or skops.io.dump(model, '{stem}.skops')"
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        raise FormatError(f"{path} cannot be unpickled: {type(error).__name__}: {error}") from error


def _wrap(path: Path, held: Any, rows: Sequence[str] | None) -> Model:
    if isinstance(held, Forest | Predictor):
        return Model(path, held)
    predictor = getattr(held, "predictor_", None)  # of scurry's own estimators
    if isinstance(predictor, Predictor):
        return Model(path, predictor, held.estimator_)
    return Model(path, from_model(held, rows=_read_example(rows) if rows else None), held)


def _read_example(source: Sequence[str]) -> Any:
    """Return the first rows of some files, whose types decide how a pipeline computes; None if they have no types."""
    from scurry.batch.files import arrow, find, open_fragment

    try:
        fragment = find(source)[0]
        with open_fragment(fragment, n_rows_per_batch=_N_ROWS_PER_BATCH, columns=list, float_columns=()) as reader:
            first = next(iter(reader.batches), None)
            is_text = ".csv" in fragment.path.suffixes
            return None if is_text or first is None else arrow().Table.from_batches([first], reader.schema)
    except ScurryError:  # whoever reads all rows says what is wrong with some
        return None


def read_rows(source: Sequence[str], forest: Forest, label: str | None = None) -> tuple[Any, Any]:
    """Return all rows of some files: the model's features as an Arrow table, and the labels if `label` names them."""
    features, labels, _ = read_queries(source, forest, label, None)
    return features, labels


def read_queries(source: Sequence[str], forest: Forest, label: str | None, groups: str | None) -> tuple[Any, Any, Any]:
    """Return all rows of some files: features, labels and the query of each row, the latter two if they are named."""
    from scurry.batch.files import arrow, find, open_fragment
    from scurry.forest import columns_read, float_columns, null_texts, text_columns

    def select(names: list[str]) -> list[str]:
        for option, name in (("label", label), ("groups", groups)):
            if name is not None and name not in names:
                raise InputError(f"there is no column {name!r} for --{option}{_suggest(name, names)}")
        read = columns_read(forest, names)
        return [name for name in names if name in read or name in others]

    others = {name for name in (label, groups) if name is not None}
    tables, numeric, textual = [], float_columns(forest) - others, text_columns(forest) - others
    for fragment in find(source):
        with open_fragment(
            fragment,
            n_rows_per_batch=_N_ROWS_PER_BATCH,
            columns=select,
            float_columns=numeric,
            text_columns=textual,
            null_texts=null_texts(forest),
        ) as reader:
            tables.append(arrow().Table.from_batches(reader.batches, reader.schema))
    # Permissive, because one file may hold whole numbers where another has decimals.
    try:
        table = arrow().concat_tables(tables, promote_options="permissive")
    except arrow().ArrowException as error:
        raise InputError(f"the files do not fit together: {error}; give their columns the same types") from error
    labels, queries = (None if name is None else _decode(table.column(name)) for name in (label, groups))
    features = table.drop_columns(sorted(others - set(forest.feature_names or ())))
    if forest.feature_names is None and features.num_columns != forest.n_features:
        raise InputError(
            f"the rows have {features.num_columns} columns besides labels, and the model, which has no feature "
            f"names, {forest.n_features} features; name the column of labels with --label, and drop other columns"
        )
    return features, labels, queries


def _decode(column: Any) -> Any:
    """Return an Arrow column as an array, categories by their values."""
    return (column.cast(column.type.value_type) if hasattr(column.type, "value_type") else column).to_numpy()


def _suggest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=1)
    meant = [other for other in names if other.lower() in close]
    return f"; did you mean {meant[0]!r}?" if meant else f"; the columns are {', '.join(names[:20])}"
