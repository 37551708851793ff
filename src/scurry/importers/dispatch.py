"""Dispatch: which importer reads a model or a model file; models with several targets, as one forest for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_choice, check_flag, check_instance, check_output
from scurry.errors import FormatError, InputError, ManyOutputsError, MissingDependencyError, UnsupportedModelError
from scurry.forest import ColumnTypes, Forest, RowTypes
from scurry.forest.files.storage import read_container

_ACCEPTED = (
    "scikit-learn RandomForest, ExtraTrees, DecisionTree, GradientBoosting and HistGradientBoosting estimators, "
    "Bagging, Voting, AdaBoost, calibrated, thresholded and one-vs-rest models of them, IsolationForest, "
    "XGBoost, LightGBM, CatBoost, ONNX and treelite models, XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, "
    ".json), ONNX (.onnx), treelite, skops and .scurry files, and folders of YDF"
)


class Outputs:
    """The forests of a model with several targets; `from_model` makes it with ``output="all"``.

    Every function of scurry takes one forest: ``scurry.early_exit(outputs[0], …)``.

    Parameters
    ----------
    forests : sequence of Forest
        One for each target.
    is_multilabel : bool
        Whether targets are labels, each of which a row has or has not.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, Y = [[0.0], [1.0], [2.0], [3.0]], [["a", "no"], ["a", "yes"], ["b", "no"], ["b", "yes"]]
    >>> model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    >>> outputs = scurry.from_model(model, output="all")
    >>> outputs
    Outputs(2 forests)
    >>> bool((outputs.predict(X) == model.predict(X)).all())
    True
    """

    def __init__(self, forests: Sequence[Forest], is_multilabel: bool = False) -> None:
        check_instance("forests", forests, Sequence)
        if not forests or not all(isinstance(forest, Forest) for forest in forests):
            raise InputError("forests must be forests, one for each target", argument="forests")
        self.forests, self.is_multilabel = tuple(forests), check_flag("is_multilabel", is_multilabel)

    def __len__(self) -> int:
        return len(self.forests)

    def __getitem__(self, at: int) -> Forest:
        return self.forests[at]

    def __iter__(self) -> Iterator[Forest]:
        return iter(self.forests)

    def __repr__(self) -> str:
        return f"Outputs({len(self)} forest{'s' if len(self) != 1 else ''})"

    def predict(self, X: Any, n_threads: int | None = 1) -> NDArray[Any]:
        """Predict the label or value of each row and target, identical to the source model's.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        array of shape (n_rows, n_targets)
        """
        return np.column_stack([forest.predict(X, n_threads) for forest in self.forests])

    def predict_proba(self, X: Any, n_threads: int | None = 1) -> list[NDArray[np.float64]] | NDArray[np.float64]:
        """Predict class probabilities, in the form in which scikit-learn has them.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        list of float64 arrays of shape (n_rows, n_classes), or float64 array of shape (n_rows, n_targets)
            For each target the probabilities of its classes; of labels, that a row has each.
        """
        shares = [forest.predict_proba(X, n_threads) for forest in self.forests]
        return np.column_stack([share[:, 1] for share in shares]) if self.is_multilabel else shares


@overload
def from_model(
    model_or_path: Any,
    *,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[str, ArrayLike] | None = None,
    rows: Any = None,
    output: int | None = None,
) -> Forest: ...


@overload
def from_model(
    model_or_path: Any,
    *,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[str, ArrayLike] | None = None,
    rows: Any = None,
    output: Literal["all"],
) -> Outputs: ...


def from_model(
    model_or_path: Any,
    *,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[str, ArrayLike] | None = None,
    rows: Any = None,
    output: int | Literal["all"] | None = None,
) -> Forest | Outputs:
    """Import a trained tree ensemble exactly.

    Parameters
    ----------
    model_or_path : estimator, booster, path or Forest
        A fitted scikit-learn RandomForest, ExtraTrees, DecisionTree, GradientBoosting or HistGradientBoosting
        estimator, an XGBoost, LightGBM or CatBoost model, or a fitted Pipeline that ends in one (also frozen, or found
        by a GridSearchCV): its transformers are folded into the trees, or kept as ``forest.front``. Or a Bagging,
        Voting, AdaBoost, calibrated, thresholded or one-vs-rest model of these, or an IsolationForest. Or the path of a
        model file: XGBoost JSON or UBJ, LightGBM text, CatBoost ``.cbm`` or JSON, ONNX, treelite checkpoint, skops,
        ``.scurry``, or a folder that YDF saved. Also an ``onnx.ModelProto`` or ``treelite.Model``, a fitted classifier
        of `scurry.growing`, and any object whose ``__scurry_forest__()`` returns a Forest.
    feature_names : sequence of str, optional
        For a model trained on arrays, which has no names: columns of tables are then matched by name, and reports and
        plots show the names.
    categories : mapping of str to array, optional
        For features trained on as codes: the values that codes 0, 1, … stand for. Columns may then hold the values.
        For categorical features of CatBoost, which keeps only their hashes: the values in the training table.
    rows : table, array, "float32", "float64" or None
        For a pipeline: rows like those to come, because the types of their columns decide in which precision its steps
        compute; or the type of all floats. None is float64, and float32 as well where that gives the same labels. Rows
        with which the pipeline computes in another precision are refused.
    output : int or "all", optional
        For a model with several targets: the number of the one that the forest predicts, or a forest for each.

    Returns
    -------
    Forest or Outputs
        Its labels equal the model's on every row; its probabilities within 1e-6. `Outputs` only for ``output="all"``.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> forest = scurry.from_model(model)
    >>> bool((forest.predict(X) == model.predict(X)).all())
    True
    """
    types = _read_types(rows)
    check_instance("categories", {} if categories is None else categories, Mapping)
    if isinstance(output, str):
        check_choice("output", output, ("all",))
        return _import_outputs(
            lambda at: from_model(
                model_or_path, feature_names=feature_names, categories=categories, rows=rows, output=at
            )
        )
    given = dict(categories or {})
    forest = _import(model_or_path, given, types, output)
    return forest if feature_names is None and not given else _add_names(forest, feature_names, given)


def _read_types(rows: Any) -> RowTypes:
    if rows is None or isinstance(rows, ColumnTypes):
        return rows
    if isinstance(rows, str):
        return check_choice("rows", rows, ("float32", "float64"))
    types = ColumnTypes.of(rows)
    if types is None:
        raise InputError(
            f'rows must be "float32", "float64", a table or an array, got {type(rows).__name__}; pass some rows, as '
            "they will come",
            argument="rows",
        )
    return types


def _import_outputs(import_output: Callable[[int | None], Forest]) -> Outputs:
    """Import all targets of a model.

    Parameters
    ----------
    import_output : callable
        Imports the target of this number, or the only one of a model for None.

    Returns
    -------
    Outputs
    """
    try:
        return Outputs((import_output(None),))
    except ManyOutputsError as error:
        n_outputs, is_multilabel = error.n_outputs, error.is_multilabel
    return Outputs(tuple(import_output(at) for at in range(n_outputs)), is_multilabel)


def import_for(model: Any, X: Any) -> Forest:
    """Import a model for rows like `X`: a pipeline is folded for the types of their columns.

    Parameters
    ----------
    model : object
        Whatever `from_model` reads.
    X : array, DataFrame or None

    Examples
    --------
    >>> import numpy as np
    >>> from scurry.importers import import_for
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.linspace(0, 1, 300, dtype=np.float32)[:, None]
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, np.arange(300) % 2)
    >>> import_for(pipeline, X).raw_rows.dtype
    'float32'
    """
    return from_model(model, rows=ColumnTypes.of(X))


def _add_names(forest: Forest, feature_names: Sequence[str] | None, categories: Mapping[str, ArrayLike]) -> Forest:
    names = tuple(feature_names if feature_names is not None else forest.feature_names or ())
    if unknown := categories.keys() - set(names):
        raise InputError(
            f"categories are given for {min(unknown)!r}, which is no feature; "
            f"{'the features are ' + ', '.join(names[:10]) if names else 'pass feature_names too'}"
        )
    codes = {names.index(name): values for name, values in categories.items()}
    if known := codes.keys() & {j for j, values in forest.categories.items() if len(values)}:
        raise InputError(f"the model has its own categories of {names[min(known)]!r}; leave them out")
    return forest.replace(feature_names=names or None, categories={**forest.categories, **codes})


def _import(
    model_or_path: Any,
    categories: dict[str, ArrayLike],
    rows: RowTypes = None,
    output: int | None = None,
) -> Forest:
    """Import a model; an importer that needs `categories` to read it removes them."""
    if isinstance(model_or_path, Forest):
        check_output(output, 1, "Forest")
        return model_or_path
    if isinstance(model_or_path, str | os.PathLike):
        return _from_file(os.fspath(model_or_path), categories, rows, output)
    if hasattr(type(model_or_path), "__scurry_forest__"):
        check_output(output, 1, type(model_or_path).__name__)
        own: Forest = model_or_path.__scurry_forest__()
        return own
    # By the name of the class's module, so that no framework is imported for another's model; by all base classes,
    # because users derive their own.
    for cls in type(model_or_path).__mro__:
        match cls.__module__.split(".")[0]:
            case "xgboost":
                from scurry.importers import xgboost

                return xgboost.import_model(model_or_path, output)
            case "lightgbm":
                from scurry.importers import lightgbm

                check_output(output, 1, "LightGBM model")
                return lightgbm.import_model(model_or_path)
            case "treelite":
                from scurry.importers import treelite

                check_output(output, 1, "treelite model")
                return treelite.import_model(model_or_path)
            case "onnx":
                from scurry.importers import onnx

                return onnx.import_model(model_or_path, output)
            case "catboost":
                from scurry.importers import catboost

                forest = catboost.import_model(model_or_path, categories, output)
                categories.clear()
                return forest
            case "sklearn":
                return _from_sklearn(model_or_path, categories, rows, output)
    raise UnsupportedModelError(f"cannot import a {type(model_or_path).__name__}; accepted are {_ACCEPTED}")


def _from_sklearn(model: Any, categories: dict[str, ArrayLike], rows: RowTypes, output: int | None) -> Forest:
    """Import a model, pipeline or wrapper of scikit-learn. What it holds may be of another framework."""
    from scurry.importers import sklearn

    if sklearn.is_ensemble(model):
        return sklearn.import_model(model, output)
    if sklearn.is_pipeline(model):
        from scurry.importers import pipelines

        return pipelines.import_pipeline(model, rows, lambda last: _import(last, categories, None, output))
    from scurry.importers import wrappers

    if wrappers.is_wrapper(model):
        at = check_output(output, wrappers.count_labels(model), type(model).__name__, is_multilabel=True)
        return wrappers.import_wrapper(model, lambda inside: _import(inside, categories, rows), at)
    if sklearn.has_model_for_each_output(model):
        at = check_output(output, len(model.estimators_), type(model).__name__)
        return _import(model.estimators_[at], categories, rows)
    inner = sklearn.unwrap(model)
    return sklearn.import_model(inner, output) if inner is model else _import(inner, categories, rows, output)


def _from_skops(
    path: str, estimator: Any, categories: dict[str, ArrayLike], rows: RowTypes, output: int | None
) -> Forest:
    try:
        return _import(estimator, categories, rows, output)
    except (UnsupportedModelError, MissingDependencyError):
        raise
    # A file may lack any attribute of an estimator, or give it any value.
    except Exception as error:
        if isinstance(error, InputError) and error.argument == "output":
            raise
        raise FormatError(f"{path} holds an estimator with missing or impossible fields: {error}") from error


def _looks_like_onnx(head: bytes) -> bool:
    """Return whether a file begins with the version of ONNX's format and a field that may follow it."""
    return len(head) > 2 and head[0] == 0x08 and head[1] < 0x20 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42"


def _from_file(path: str, categories: dict[str, ArrayLike], rows: RowTypes, output: int | None) -> Forest:
    from scurry.importers import treelite, ydf

    if ydf.is_folder(path):
        check_output(output, 1, "model of YDF")
        return ydf.import_folder(path)
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise InputError(f"cannot read the model file {path!r}: {error.strerror or error}") from error
    if head.startswith(b"PK"):
        from scurry.importers import skops

        if skops.holds_estimator(path):
            return _from_skops(path, skops.load_estimator(path), categories, rows, output)
        return Forest.from_container(read_container(path))
    if path.endswith(".onnx") or _looks_like_onnx(head):
        from scurry.importers import onnx

        return onnx.import_file(path, output)
    if head.startswith((b"tree\n", b"tree\r\n")):
        from scurry.importers import lightgbm

        check_output(output, 1, "LightGBM model")
        return lightgbm.import_file(path)
    if head.startswith(b"CBM1") or any(member in head for member in (b'"features_info"', b'"ctr_data"')):
        from scurry.importers import catboost

        forest = catboost.import_file(path, categories, output)
        categories.clear()
        return forest
    if head.lstrip()[:1] == b"{" or head.startswith(b"binf"):
        from scurry.importers import xgboost

        return xgboost.import_file(path, output)
    if treelite.looks_like_checkpoint(head):
        check_output(output, 1, "treelite model")
        return treelite.import_file(path)
    if head[:1] == b"\x80":
        raise FormatError(
            f"{path} looks like a pickle, which runs code when loaded; load it yourself, pass the model, and save "
            'it by scurry.from_model(model).save("model.scurry")'
        )
    if head.startswith((b"PAR1", b"ARROW1", b"FEA1")):
        raise FormatError(f"{path} holds rows, not a model; pass the model first. Accepted are {_ACCEPTED}")
    raise FormatError(
        f"{path} is not a model file that scurry knows; accepted are {_ACCEPTED}. To save a model in memory: "
        'scurry.from_model(model).save("model.scurry")'
    )
