"""Reading what a command is given: models, whatever wrote them, and tables of rows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scurry.errors import FormatError, InputError

if TYPE_CHECKING:
    from scurry.forest import Forest
    from scurry.predictor import Predictor

_PICKLES = frozenset({".pkl", ".pickle", ".joblib"})
_N_ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class Model:
    """What a model file holds.

    Attributes
    ----------
    path : Path
    subject : Forest or Predictor
        What predicts.
    source : estimator or None
        The object of its own framework, where the file holds one.
    """

    path: Path
    subject: Forest | Predictor
    source: Any = None

    @property
    def forest(self) -> Forest:
        """Its trees."""
        from scurry.predictor import Predictor

        return self.subject.forest if isinstance(self.subject, Predictor) else self.subject

    @property
    def predictor(self) -> Predictor:
        """What predicts, with a plan that asks every tree if it has none."""
        from scurry.predictor import Predictor

        return self.subject if isinstance(self.subject, Predictor) else Predictor.full(self.subject)


def read_model(path: Path, *, trust_pickle: bool = False) -> Model:
    """The model in a file of any kind; a pickle only if it is trusted."""
    from scurry import from_model, load
    from scurry.importers.skops import holds_estimator, load_estimator

    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InputError(f"cannot read the model file {str(path)!r}: {error.strerror or error}") from error
    if head[:1] == b"\x80" or not _PICKLES.isdisjoint(map(str.lower, path.suffixes)):
        return _of_object(path, _unpickled(path, trust_pickle))
    if head.startswith(b"PK"):
        return _of_object(path, load_estimator(path)) if holds_estimator(path) else Model(path, load(path))
    return Model(path, from_model(path))


def _unpickled(path: Path, trusted: bool) -> Any:
    if not trusted:
        stem = path.name.split(".")[0]
        raise FormatError(
            f"{path} is a pickle, and loading a pickle runs whatever code its author put into it. If you trust it, add "
            "--trust-pickle. Better keep models in files that run nothing: "
            f"scurry.from_model(model).save('{stem}.scurry'), or skops.io.dump(model, '{stem}.skops')"
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        raise FormatError(f"{path} cannot be unpickled: {type(error).__name__}: {error}") from error


def _of_object(path: Path, held: Any) -> Model:
    from scurry import Forest, Predictor, from_model

    if isinstance(held, Forest | Predictor):
        return Model(path, held)
    predictor = getattr(held, "predictor_", None)
    if isinstance(predictor, Predictor):
        return Model(path, predictor, held.estimator_)
    return Model(path, from_model(held), held)


def read_rows(source: Sequence[str], forest: Forest, label: str | None = None) -> tuple[Any, Any]:
    """All rows of some files: the model's features as an Arrow table, and the labels if `label` names them."""
    from scurry.batch.files import arrow, find, open_fragment
    from scurry.forest import columns_read, float_columns

    def wanted(names: list[str]) -> list[str]:
        if label is not None and label not in names:
            raise InputError(f"there is no column {label!r} for --label{_instead(label, names)}")
        read = columns_read(forest, names)
        return [name for name in names if name in read or name == label]

    tables, numeric = [], float_columns(forest) - {label}
    for fragment in find(source):
        with open_fragment(
            fragment, n_rows_per_batch=_N_ROWS_PER_BATCH, columns=wanted, float_columns=numeric
        ) as reader:
            tables.append(arrow().Table.from_batches(reader.batches, reader.schema))
    table = arrow().concat_tables(tables, promote_options="permissive")
    labels = None if label is None else _values(table.column(label))
    features = table if label is None or label in (forest.feature_names or ()) else table.drop_columns([label])
    if forest.feature_names is None and features.num_columns != forest.n_features:
        raise InputError(
            f"the rows have {features.num_columns} columns besides labels, and the model, which knows no names, "
            f"{forest.n_features} features; name the column of labels with --label, and drop what is no feature"
        )
    return features, labels


def _values(column: Any) -> Any:
    """An Arrow column as an array; categories as what they stand for."""
    decoded = column.cast(column.type.value_type) if hasattr(column.type, "value_type") else column
    return decoded.to_numpy()


def _instead(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=1)
    meant = [other for other in names if other.lower() in close]
    return f"; did you mean {meant[0]!r}?" if meant else f"; the columns are {', '.join(names[:20])}"
