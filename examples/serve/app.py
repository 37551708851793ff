"""A small server that always answers in time: an anytime model behind the Open Inference Protocol, version 2.

A request says what it may take, ``"parameters": {"budget_us": 5000}`` counted from its arrival, or how many steps a row
may make, ``{"max_steps": 40}``. The time a request has waited is taken off its budget. Under load answers so are made
with fewer steps, and come in time, instead of late or not at all; ``/metrics`` says how many.

    pip install fastapi uvicorn prometheus-client
    python examples/serve/app.py model.scurry --port 8000
"""

import argparse
import asyncio
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

import scurry
from scurry.errors import InputError, ScurryError

DATATYPES = {"FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64}
SWITCH_S = 1e-4  # how long one thread may keep the interpreter from another; the default is as long as a budget
ANSWER_US = 1000.0  # what writing the answer takes once the rows are done, kept back from every budget


@dataclass(frozen=True)
class Job:
    """A request once it is understood."""

    rows: np.ndarray
    arrived: float
    budget_us: float | None
    max_steps: int | None


class Model:
    """An anytime predictor, the thread that runs it, and what it counts."""

    def __init__(self, predictor: scurry.Predictor, name: str, default_budget_us: float | None) -> None:
        self.predictor, self.name, self.default_budget_us = predictor, name, default_budget_us
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.registry = CollectorRegistry()
        self.answers = Counter("scurry_answers", "Rows answered", ["stop_reason"], registry=self.registry)
        self.degraded = Counter("scurry_degraded_answers", "Rows answered before all steps", registry=self.registry)
        self.late = Counter("scurry_late_requests", "Requests whose budget was spent waiting", registry=self.registry)
        self.seconds = Histogram(
            "scurry_request_seconds", "From arrival to answer", registry=self.registry,
            buckets=[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0],
        )  # fmt: skip

    def understand(self, body: object, arrived: float) -> Job:
        """The job a request body asks for; raises InputError."""
        if not isinstance(body, dict) or not isinstance(body.get("inputs"), list) or len(body["inputs"]) != 1:
            raise InputError('a request is {"inputs": [one tensor], "parameters": {…}}')
        tensor, parameters = body["inputs"][0], body.get("parameters") or {}
        if not isinstance(tensor, dict) or tensor.get("datatype") not in DATATYPES or not isinstance(parameters, dict):
            raise InputError(f"the tensor needs name, shape, data and a datatype of {', '.join(DATATYPES)}")
        try:
            rows = np.asarray(tensor["data"], dtype=DATATYPES[tensor["datatype"]]).reshape(tensor["shape"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"data and shape do not make a tensor: {error}") from error
        n_features = self.predictor.forest.n_features
        if rows.ndim != 2 or rows.shape[1] != n_features or len(rows) == 0:
            raise InputError(f"the shape must be [rows, {n_features}], got {list(rows.shape)}")
        budget_us = parameters.get("budget_us", self.default_budget_us)
        if budget_us is not None and (isinstance(budget_us, bool) or not isinstance(budget_us, int | float)):
            raise InputError(f"budget_us must be a number, got {budget_us!r}")
        return Job(rows, arrived, budget_us, parameters.get("max_steps"))

    def answer(self, job: Job) -> dict[str, object]:
        """The outputs of a job, made within what is left of its budget. Runs in the model's thread."""
        time_us = None
        if job.budget_us is not None:
            left_us = job.budget_us - ANSWER_US - 1e6 * (time.perf_counter() - job.arrived)
            self.late.inc(left_us <= 0)
            time_us = max(left_us, 0.0) / len(job.rows)
        # The flag is never raised: with one, the interpreter is free for other requests meanwhile.
        run = self.predictor.run(job.rows, max_steps=job.max_steps, time_us=time_us, abort=scurry.AbortFlag())
        for reason, count in zip(*np.unique(run.stop_reason, return_counts=True), strict=True):
            self.answers.labels(str(reason)).inc(int(count))
        self.degraded.inc(int((~run.complete).sum()))
        n_rows = len(job.rows)
        return {
            "model_name": self.name,
            "outputs": [
                _tensor("label", "BYTES", n_rows, [str(label) for label in run.labels]),
                _tensor("score", "FP64", run.scores.shape, run.scores.ravel().tolist()),
                _tensor("complete", "BOOL", n_rows, run.complete.tolist()),
                _tensor("steps", "INT64", n_rows, run.steps.tolist()),
                _tensor("stop_reason", "BYTES", n_rows, run.stop_reason.tolist()),
            ],
        }

    def metadata(self) -> dict[str, object]:
        """What the protocol says about a model."""
        outputs = {"label": "BYTES", "score": "FP64", "complete": "BOOL", "steps": "INT64", "stop_reason": "BYTES"}
        return {
            "name": self.name,
            "platform": "scurry",
            "inputs": [{"name": "rows", "datatype": "FP32", "shape": [-1, self.predictor.forest.n_features]}],
            "outputs": [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in outputs.items()],
        }


def _tensor(name: str, datatype: str, shape: int | tuple[int, ...], data: list[object]) -> dict[str, object]:
    return {"name": name, "datatype": datatype, "shape": list(np.atleast_1d(shape).tolist()), "data": data}


def create_app(predictor: scurry.Predictor, name: str = "model", default_budget_us: float | None = None) -> FastAPI:
    """The application for one model."""
    app, model = FastAPI(title=f"scurry: {name}"), Model(predictor, name, default_budget_us)
    app.state.model = model

    @app.exception_handler(ScurryError)
    async def refuse(_: Request, error: ScurryError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=400)

    @app.get("/v2")
    async def server() -> dict[str, object]:
        return {"name": "scurry", "version": "0.1.0", "extensions": []}

    @app.get("/v2/health/live")
    @app.get("/v2/health/ready")
    @app.get(f"/v2/models/{name}/ready")
    async def healthy() -> Response:
        return Response()

    @app.get(f"/v2/models/{name}")
    async def metadata() -> dict[str, object]:
        return model.metadata()

    @app.post(f"/v2/models/{name}/infer")
    async def infer(request: Request) -> JSONResponse:
        arrived = time.perf_counter()
        try:
            body = await request.json()
        except ValueError as error:
            raise InputError(f"the request is not JSON: {error}") from error
        job = model.understand(body, arrived)
        outputs = await asyncio.get_running_loop().run_in_executor(model.executor, model.answer, job)
        model.seconds.observe(time.perf_counter() - arrived)
        return JSONResponse(outputs | ({"id": str(body["id"])} if "id" in body else {}))

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(model.registry), media_type=CONTENT_TYPE_LATEST)

    return app


def main() -> None:
    """Serve a saved anytime predictor."""
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a .scurry file of an anytime predictor")
    parser.add_argument("--name", default="model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--budget-us", type=float, help="for requests that have none of their own")
    arguments = parser.parse_args()
    predictor = scurry.load(arguments.model)
    if not isinstance(predictor, scurry.Predictor):
        parser.error("the file holds a forest; make a predictor of it with scurry.anytime")
    app = create_app(predictor, arguments.name, arguments.budget_us)
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()  # what is loaded by now is never searched for garbage again, which would take longer than a budget
    uvicorn.run(
        app, host="127.0.0.1", port=arguments.port, log_level="warning", access_log=False, timeout_keep_alive=75
    )


if __name__ == "__main__":
    main()
