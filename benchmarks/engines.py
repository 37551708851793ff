"""Engines of the speed benchmark: one class each, the same interface, each called in its fastest way."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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

    def for_one_row(self) -> Call:
        """The call that predicts a batch of one row."""
        return self.with_threads(1)

    def limits(self, n_threads: int) -> AbstractContextManager[Any]:
        """What holds around timed calls, for engines that ask OpenMP how many threads to use."""
        return nullcontext()

    def labels(self, output: Any) -> NDArray[Any]:
        """Labels 0, 1, … from what a call returned."""
        return _labels(output)

    def time_batch(self, head: Any, batch: Any, n_threads: int) -> tuple[float, float]:
        """Seconds that a batch takes: wall, and CPU time of this process."""
        call = self.with_threads(n_threads)
        with self.limits(n_threads):
            call(head)  # some engines start their threads at the first call
            start, cpu_start = time.perf_counter(), time.process_time()
            call(batch)
            return time.perf_counter() - start, time.process_time() - cpu_start

    def time_rows(self, rows: list[Any], n_calls: int) -> list[float]:
        """Microseconds of single-row calls, each of the next of the rows."""
        call, times = self.for_one_row(), []
        with self.limits(1):
            for at in range(n_calls):
                row = rows[at % len(rows)]
                start = time.perf_counter_ns()
                call(row)
                times.append((time.perf_counter_ns() - start) / 1000)
        return times


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

    def for_one_row(self) -> Call:
        return self.forest.one_row()


class ScurryElsewhere(Engine):
    """The same with a smaller instruction set, which a process chooses when it starts."""

    name = "scurry"

    def __init__(self, model: Any, instruction_set: str, batch: Any, n_single_rows: int) -> None:
        # The forest and the rows travel once; then a line asks for times.
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        scurry.from_model(model).save(path / "forest.scurry")
        (path / "batch.pickle").write_bytes(pickle.dumps(batch))
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "elsewhere.py"), str(path), str(n_single_rows)],
            env=os.environ | {"SCURRY_ISA": instruction_set},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if (chosen := self._ask("kernels")) != instruction_set:
            raise Refused(f"this processor runs {chosen}, not {instruction_set}")

    def with_threads(self, n_threads: int) -> Call:
        return lambda rows: np.array(self._ask("labels", len(rows)))

    def time_batch(self, head: Any, batch: Any, n_threads: int) -> tuple[float, float]:
        wall, cpu = self._ask("batch", n_threads)
        return wall, cpu

    def time_rows(self, rows: list[Any], n_calls: int) -> list[float]:
        times: list[float] = self._ask("rows", n_calls)
        return times

    def close(self) -> None:
        self.process.communicate()
        self.folder.cleanup()

    def _ask(self, *question: Any) -> Any:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class ScikitLearn(Engine):
    """The estimator itself."""

    name = "scikit-learn"

    def __init__(self, model: Any) -> None:
        self.model = model

    def with_threads(self, n_threads: int) -> Call:
        self.model.n_jobs = n_threads
        return self.model.predict


class HistGradientBoosting(Engine):
    """The estimator itself, whose number of threads is that of OpenMP."""

    name = "scikit-learn"

    def __init__(self, model: Any) -> None:
        self.model = model

    def with_threads(self, n_threads: int) -> Call:
        return self.model.predict

    def limits(self, n_threads: int) -> AbstractContextManager[Any]:
        return _openmp_threads(n_threads)


class CatBoost(Engine):
    """The model itself, given a Pool."""

    name = "CatBoost"

    def __init__(self, model: Any) -> None:
        self.model = model

    def prepare(self, X: Any) -> Any:
        import catboost

        return catboost.Pool(X)

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.model.predict, prediction_type="RawFormulaVal", thread_count=n_threads)

    def labels(self, output: Any) -> NDArray[Any]:
        output = np.asarray(output)
        return output.argmax(axis=1) if output.ndim == 2 else (output > 0).astype(np.int64)


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


class Hessboost(Engine):
    """XGBoost's and LightGBM's models read by hessboost, which uses all cores for batches: look at its CPU time."""

    name = "hessboost"

    def __init__(self, model: Any) -> None:
        import hessboost

        with tempfile.TemporaryDirectory() as folder:
            self.model = hessboost.Booster(_save_boosted(model, folder))
        self.matrix = hessboost.DMatrix

    def prepare(self, X: Any) -> Any:
        return _array(X)[0] if len(X) == 1 else self.matrix(_array(X))

    def with_threads(self, n_threads: int) -> Call:
        return self._predict

    def _predict(self, rows: Any) -> Any:
        return self.model.predict_row(rows) if isinstance(rows, np.ndarray) else self.model.predict(rows)

    def labels(self, output: Any) -> NDArray[Any]:
        # Of one row: a number, or one for each class.
        output = np.asarray(output)
        several = output.ndim == 1 and self.model.num_outputs > 1
        return _labels(output.reshape(1, -1) if several else np.atleast_1d(output))


class Gtil(Engine):
    """treelite's reference engine, in C++."""

    name = "GTIL"

    def __init__(self, model: Any) -> None:
        import treelite

        self.gtil, self.model = treelite.gtil, _to_treelite(model)

    def prepare(self, X: Any) -> Any:
        return _array(X)

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.gtil.predict, self.model, nthread=n_threads)

    def labels(self, output: Any) -> NDArray[Any]:
        return _labels(_flat(output))


class Tl2cgen(Engine):
    """The model as C code of tl2cgen, compiled by gcc, if that takes no more than MAX_COMPILE_S."""

    name = "tl2cgen"
    MAX_COMPILE_S = 60

    def __init__(self, model: Any) -> None:
        import tl2cgen

        self.tl2cgen, self.folder = tl2cgen, tempfile.TemporaryDirectory()
        library = Path(self.folder.name) / "model.so"
        treelite_model = _to_treelite(model)
        path = Path(self.folder.name) / "model.bin"
        treelite_model.serialize(str(path))
        program = (
            "import sys, tl2cgen, treelite; "
            "tl2cgen.export_lib(treelite.Model.deserialize(sys.argv[1]), 'gcc', sys.argv[2], {'parallel_comp': 8}, "
            "nthread=1)"
        )
        compiling = subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(library)],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # gcc is stopped with it
        )
        try:
            _, said = compiling.communicate(timeout=self.MAX_COMPILE_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(compiling.pid, signal.SIGKILL)
            compiling.communicate()
            raise Refused(f"its C code takes gcc more than {self.MAX_COMPILE_S} s") from error
        if compiling.returncode != 0:
            raise Refused(f"refuses it: {said.strip().splitlines()[-1][:160]}")
        self.library = library
        self.predictors: dict[int, Any] = {}

    def prepare(self, X: Any) -> Any:
        return self.tl2cgen.DMatrix(_array(X))

    def with_threads(self, n_threads: int) -> Call:
        if n_threads not in self.predictors:
            self.predictors[n_threads] = self.tl2cgen.Predictor(self.library, nthread=n_threads)
        return self.predictors[n_threads].predict

    def labels(self, output: Any) -> NDArray[Any]:
        return _labels(_flat(output))


class SnapML(Engine):
    """Boosted models read by Snap ML, and forests through ONNX."""

    name = "Snap ML"

    def __init__(self, model: Any) -> None:
        import snapml

        with tempfile.TemporaryDirectory() as folder:
            if _framework(model) == "sklearn":
                path = str(Path(folder) / "model.onnx")
                Path(path).write_bytes(_to_onnx(model).SerializeToString())
                self.model, kind = snapml.RandomForestClassifier(), "onnx"
            else:
                path = _save_boosted(model, folder)
                self.model = snapml.BoostingMachineClassifier()
                kind = {"lightgbm": "lightgbm", "xgboost": "xgb_json"}[_framework(model)]
            self.model.import_model(path, kind)

    def prepare(self, X: Any) -> Any:
        return _array(X)

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.model.predict_proba, n_jobs=n_threads)  # predict numbers the classes of read models anew


class Ydf(Engine):
    """scikit-learn's forests read by Yggdrasil; it has no converter for other models."""

    name = "YDF"

    def __init__(self, model: Any) -> None:
        if _framework(model) != "sklearn":
            raise Refused("reads scikit-learn's models only")
        import ydf

        self.model = ydf.from_sklearn(model)

    def prepare(self, X: Any) -> Any:
        return {"features": _array(X)}

    def with_threads(self, n_threads: int) -> Call:
        return partial(self.model.predict, num_threads=n_threads)


class NvForest(Engine):
    """The successor of RAPIDS' forest inference library, on the processor; its threads are those of OpenMP."""

    name = "nvforest"

    def __init__(self, model: Any) -> None:
        import nvforest

        self.model = nvforest.load_from_treelite_model(_to_treelite(model), device="cpu")

    def prepare(self, X: Any) -> Any:
        return _array(X)

    def with_threads(self, n_threads: int) -> Call:
        return self.model.predict_proba

    def limits(self, n_threads: int) -> AbstractContextManager[Any]:
        return _openmp_threads(n_threads)

    def labels(self, output: Any) -> NDArray[Any]:
        return _labels(_flat(output))


def _openmp_threads(n_threads: int) -> AbstractContextManager[Any]:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(n_threads, "openmp")


def _array(X: Any) -> NDArray[np.float32]:
    if not isinstance(X, np.ndarray):
        raise Refused("reads arrays only")
    return X


def _flat(output: Any) -> NDArray[Any]:
    """The shape of treelite, (n_rows, 1, n_outputs), without what is single."""
    output = np.asarray(output)
    output = output.reshape(len(output), -1)
    return output[:, 0] if output.shape[1] == 1 else output


def _to_treelite(model: Any) -> Any:
    import treelite

    match _framework(model):
        case "sklearn":
            return treelite.sklearn.import_model(model)
        case "lightgbm":
            return treelite.frontend.from_lightgbm(model.booster_)
        case "xgboost":
            return treelite.frontend.from_xgboost(model.get_booster())
        case framework:
            raise Refused(f"does not read models of {framework}")


def _save_boosted(model: Any, folder: str) -> str:
    match _framework(model):
        case "lightgbm":
            path = str(Path(folder) / "model.txt")
            model.booster_.save_model(path)
        case "xgboost":
            path = str(Path(folder) / "model.json")
            model.get_booster().save_model(path)
        case framework:
            raise Refused(f"does not read models of {framework}")
    return path


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


_NATIVE: dict[str, type[Engine]] = {
    "sklearn": ScikitLearn,
    "lightgbm": LightGBM,
    "xgboost": XGBoost,
    "catboost": CatBoost,
}
PEERS: tuple[type[Engine], ...] = (
    OneDAL,
    OnnxRuntime,
    LLeaves,
    Hessboost,
    Gtil,
    Tl2cgen,
    SnapML,
    Ydf,
    NvForest,
)


def engines_of(model: Any) -> tuple[type[Engine], ...]:
    """scurry, the model's own framework, and the peers."""
    native = HistGradientBoosting if type(model).__name__.startswith("HistGrad") else _NATIVE[_framework(model)]
    return (Scurry, native, *PEERS)


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
