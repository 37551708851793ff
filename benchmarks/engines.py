"""Engines of the speed benchmark: one class each, the same interface, each called in its fastest way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import scurry

Call = Callable[[Any], Any]


class Refused(Exception):
    """An engine cannot run a model; the message says why."""


class Engine:
    """A trained model, ready to predict.

    Calls return whatever the engine gives soonest, labels or probabilities; `labels` turns it into labels and is not
    timed.
    """

    name: ClassVar[str]

    def __init__(self, model: Any) -> None:
        raise NotImplementedError

    def prepare(self, X: NDArray[np.float32]) -> Any:
        """The rows in the form the engine takes without converting."""
        return X

    def with_threads(self, n_threads: int) -> Call:
        """The call that predicts; the number of threads holds until the next `with_threads`."""
        raise NotImplementedError

    def labels(self, output: Any) -> NDArray[Any]:
        """Labels 0, 1, … from what a call returned."""
        return _labels(output)


def _labels(output: Any) -> NDArray[Any]:
    """Labels from labels, from probabilities of each class, or from those of the second class."""
    output = np.asarray(output)
    if output.ndim == 2:
        return output.argmax(axis=1)
    return output > 0.5 if output.dtype.kind == "f" else output


class Scurry(Engine):
    """The forest as scurry imports it."""

    name = "scurry"

    def __init__(self, model: Any) -> None:
        self.forest = scurry.from_model(model)

    def with_threads(self, n_threads: int) -> Call:
        return self.forest.predict if n_threads == 1 else partial(self.forest.predict, n_threads=n_threads)


class ScikitLearn(Engine):
    """The estimator itself."""

    name = "scikit-learn"

    def __init__(self, model: Any) -> None:
        self.model = model

    def with_threads(self, n_threads: int) -> Call:
        self.model.n_jobs = n_threads
        return self.model.predict


class LightGBM(Engine):
    """The booster itself."""

    name = "LightGBM"

    def __init__(self, model: Any) -> None:
        self.booster = model.booster_

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.booster.predict, num_threads=n_threads)


class XGBoost(Engine):
    """The booster itself, reading arrays in place."""

    name = "XGBoost"

    def __init__(self, model: Any) -> None:
        self.booster = model.get_booster()

    def with_threads(self, n_threads: int) -> Call:
        self.booster.set_param({"nthread": n_threads})
        return self.booster.inplace_predict


class OneDAL(Engine):
    """oneDAL's model builders, from scikit-learn-intelex; scikit-learn's forests reach them through treelite."""

    name = "oneDAL"

    def __init__(self, model: Any) -> None:
        import daal4py

        if _framework(model) == "sklearn":
            import treelite

            model = treelite.sklearn.import_model(model)
        self.daal4py, self.model = daal4py, daal4py.mb.convert_model(model)

    def with_threads(self, n_threads: int) -> Call:
        self.daal4py.daalinit(n_threads)
        return self.model.predict


class OnnxRuntime(Engine):
    """The model converted to ONNX, a session for each number of threads."""

    name = "onnxruntime"

    def __init__(self, model: Any) -> None:
        import onnxruntime

        self.onnxruntime, self.onnx = onnxruntime, _to_onnx(model).SerializeToString()
        self.calls: dict[int, Call] = {}

    def prepare(self, X: NDArray[np.float32]) -> Any:
        return {"X": X}

    def with_threads(self, n_threads: int) -> Call:
        if n_threads not in self.calls:
            options = self.onnxruntime.SessionOptions()
            options.intra_op_num_threads = n_threads
            options.log_severity_level = 3  # errors only: the converters' shapes make it warn at every batch
            session = self.onnxruntime.InferenceSession(self.onnx, options, providers=["CPUExecutionProvider"])
            self.calls[n_threads] = partial(session.run, ["label"])
        return self.calls[n_threads]

    def labels(self, output: Any) -> NDArray[Any]:
        return _labels(output[0])


class LLeaves(Engine):
    """LightGBM's trees compiled by LLVM."""

    name = "lleaves"

    def __init__(self, model: Any) -> None:
        if _framework(model) != "lightgbm":
            raise Refused("reads LightGBM models only")
        import lleaves

        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.txt")
            model.booster_.save_model(path)
            self.model = lleaves.Model(path)
            # For single rows lleaves advises fblocksize=n_trees; with 500 trees that compiles for many minutes, and
            # blocks of 100 instead of the default 34 gain 4 %.
            self.model.compile()

    def prepare(self, X: NDArray[np.float32]) -> Any:
        return X.astype(np.float64)

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.model.predict, n_jobs=n_threads)


def _framework(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def _to_onnx(model: Any) -> Any:
    match _framework(model):
        case "sklearn":
            import skl2onnx
            from skl2onnx.common.data_types import FloatTensorType

            types = [("X", FloatTensorType([None, model.n_features_in_]))]
            return skl2onnx.convert_sklearn(model, initial_types=types, options={id(model): {"zipmap": False}})
        case framework:
            import onnxmltools
            from onnxmltools.convert.common.data_types import FloatTensorType

            types = [("X", FloatTensorType([None, model.n_features_in_]))]
            if framework == "lightgbm":
                return onnxmltools.convert_lightgbm(model, initial_types=types, zipmap=False)
            return onnxmltools.convert_xgboost(model, initial_types=types)


_NATIVE: dict[str, type[Engine]] = {"sklearn": ScikitLearn, "lightgbm": LightGBM, "xgboost": XGBoost}
PEERS: tuple[type[Engine], ...] = (OneDAL, OnnxRuntime, LLeaves)


def engines_of(model: Any) -> tuple[type[Engine], ...]:
    """scurry, the model's own framework, and the peers."""
    return (Scurry, _NATIVE[_framework(model)], *PEERS)


def build(engine: type[Engine], model: Any) -> Engine:
    """The engine with the model in it, or `Refused` with the reason in one line."""
    try:
        return engine(model)
    except Refused:
        raise
    except ImportError as error:
        raise Refused(f"not installed ({_one_line(error)})") from error
    except Exception as error:
        raise Refused(f"refuses it: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= 160 else f"{lines[0][:159]}…"
