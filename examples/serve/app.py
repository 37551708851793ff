"""A small server that keeps deadlines: an anytime model behind the Open Inference Protocol, version 2.

A request says how long it may take, ``"parameters": {"budget_us": 5000}`` counted from its arrival, or how many steps
each row may make, ``{"max_steps": 40}``. Under heavy load the server spends fewer steps on each row instead of
answering late; ``/metrics`` counts such answers.

    pip install ".[serve]"
    python examples/serve/app.py model.scurry --port 8000
"""

import argparse
import gc
import json
import time
from collections import Counter as Tally
from contextvars import ContextVar
from importlib.metadata import version

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from scorer import Job, Scorer
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

import scurry
from scurry.errors import InputError, ScurryError
from scurry.plan import StepRule

INPUTS = {"FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64}
OUTPUTS = {"label": "BYTES", "score": "FP64", "complete": "BOOL", "steps": "INT64", "stop_reason": "BYTES"}
PARAMETERS = ("budget_us", "max_steps")
AN_HOUR_US = 3.6e9  # the budget of requests that have none
MAX_BYTES = 8 << 20  # limit on a request: while one is parsed as JSON, all others wait
ARRIVED: ContextVar[float] = ContextVar("arrived")  # when the current request arrived


class Model:
    """An anytime predictor as the protocol presents it, with its metrics."""

    def __init__(self, predictor: scurry.Predictor, name: str, default_budget_us: float) -> None:
        self.name, self.default_budget_us = name, default_budget_us
        self.n_features, self.scorer = predictor.forest.n_features, Scorer(predictor)
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.answers = Counter("scurry_answers", "Rows answered", ["stop_reason"], registry=self.registry)
        self.degraded = Counter("scurry_degraded_answers", "Rows answered before all steps", registry=self.registry)
        self.late = Counter("scurry_late_requests", "Requests answered after their deadline", registry=self.registry)
        self.seconds = Histogram(
            "scurry_request_seconds", "From arrival to answer", registry=self.registry,
            buckets=[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0],
        )  # fmt: skip

    def understand(self, body: object, arrived: float) -> Job:
        """Return the job that a request body describes; raise InputError if it is not valid."""
        if not isinstance(body, dict) or not isinstance(body.get("inputs"), list) or len(body["inputs"]) != 1:
            raise InputError('a request is {"inputs": [one tensor], "parameters": {…}}')
        tensor, parameters = body["inputs"][0], body.get("parameters") or {}
        if not isinstance(tensor, dict) or tensor.get("datatype") not in INPUTS or not isinstance(parameters, dict):
            raise InputError(f"the tensor needs name, shape, data and a datatype of {', '.join(INPUTS)}")
        if unknown := parameters.keys() - set(PARAMETERS):
            raise InputError(f"there is no parameter {min(unknown)!r}; there are {', '.join(PARAMETERS)}")
        try:
            with np.errstate(over="ignore"):  # a number beyond its type is infinite
                rows = np.asarray(tensor["data"], dtype=INPUTS[tensor["datatype"]]).reshape(tensor["shape"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"data and shape do not make a tensor: {error}") from error
        if rows.ndim != 2 or rows.shape[1] != self.n_features or len(rows) == 0:
            raise InputError(f"the shape must be [rows, {self.n_features}], got {list(rows.shape)}")
        budget_us = parameters.get("budget_us", self.default_budget_us)
        if isinstance(budget_us, bool) or not isinstance(budget_us, int | float) or not budget_us >= 0:
            raise InputError(f"budget_us must be a number of microseconds, 0 or more, got {budget_us!r}")
        return Job(rows, arrived, min(budget_us, AN_HOUR_US) / 1e6, parameters.get("max_steps"))

    @staticmethod
    def wanted(body: dict[str, object]) -> list[str]:
        """Return the names of the requested output tensors, all by default; raise InputError if one does not exist."""
        asked = body.get("outputs") or [{"name": name} for name in OUTPUTS]
        named = isinstance(asked, list) and all(isinstance(tensor, dict) and "name" in tensor for tensor in asked)
        if not named or not all(tensor["name"] in list(OUTPUTS) for tensor in asked):
            raise InputError(f'outputs is a list such as [{{"name": "label"}}]; there are {", ".join(OUTPUTS)}')
        return [tensor["name"] for tensor in asked]

    async def answer(self, job: Job, wanted: list[str]) -> list[dict[str, object]]:
        """Score a job and return its output tensors."""
        runs = await self.scorer.score(job)
        reasons = np.concatenate([run.stop_reason for run in runs]).tolist()
        complete = np.concatenate([run.complete for run in runs])
        scores = np.concatenate([run.scores for run in runs])
        for reason, count in Tally(reasons).items():
            self.answers.labels(reason).inc(count)
        self.degraded.inc(int((~complete).sum()))
        data = {
            "label": [str(label) for run in runs for label in run.labels.tolist()],
            "score": scores.ravel().tolist(),
            "complete": complete.tolist(),
            "steps": np.concatenate([run.steps for run in runs]).tolist(),
            "stop_reason": reasons,
        }
        return [
            {"name": name, "datatype": OUTPUTS[name], "shape": [len(job.rows)], "data": data[name]}
            | ({"shape": list(scores.shape)} if name == "score" else {})
            for name in wanted
        ]

    async def has_sent(self, job: Job) -> None:
        """Count a request whose answer has been sent."""
        now = time.perf_counter()
        self.seconds.observe(now - job.arrived)
        self.late.inc(now > job.deadline)
        self.scorer.has_sent(job, now)

    def metadata(self) -> dict[str, object]:
        """Return the description of the model that the protocol defines."""
        return {
            "name": self.name,
            "platform": "scurry",
            "inputs": [{"name": "rows", "datatype": "FP32", "shape": [-1, self.n_features]}],
            "outputs": [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in OUTPUTS.items()],
        }


def create_app(predictor: scurry.Predictor, name: str = "model", default_budget_us: float = AN_HOUR_US) -> FastAPI:
    """Return the application for one model."""
    app, model = FastAPI(title=f"scurry: {name}"), Model(predictor, name, default_budget_us)
    app.state.model = model

    @app.exception_handler(ScurryError)
    async def refuse(_: Request, error: ScurryError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=400)

    @app.exception_handler(HTTPException)
    async def explain(request: Request, error: HTTPException) -> JSONResponse:
        hint = f"; the model of this server is {name!r}" if error.status_code == 404 else ""
        said = f"{request.method} {request.url.path}: {error.detail}{hint}"
        return JSONResponse({"error": said}, status_code=error.status_code)

    @app.get("/v2")
    async def server() -> dict[str, object]:
        return {"name": "scurry", "version": version("scurry"), "extensions": []}

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
        arrived = ARRIVED.get(time.perf_counter())
        content = await _read(request)
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the request is not JSON: {error}") from error
        job = model.understand(body, arrived)
        said = {"model_name": name, "outputs": await model.answer(job, model.wanted(body))}
        said |= {"id": str(body["id"])} if "id" in body else {}
        return JSONResponse(said, background=BackgroundTask(model.has_sent, job))

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(model.registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def _read(request: Request) -> bytes:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MAX_BYTES:
            raise HTTPException(413, f"a request has at most {MAX_BYTES:,} bytes; send fewer rows at once")
    return bytes(content)


def main() -> None:
    """Serve a saved anytime predictor."""
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a .scurry file of an anytime predictor")
    parser.add_argument("--name", default="model", help="name of the model in addresses (default: %(default)s)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 accepts other machines (default: %(default)s)",
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--budget-us",
        type=float,
        default=AN_HOUR_US,
        help="budget in microseconds for requests without one (default: one hour)",
    )
    arguments = parser.parse_args()
    try:
        predictor = scurry.load(arguments.model)
    except (ScurryError, OSError) as error:
        parser.error(str(error))
    if not isinstance(predictor, scurry.Predictor) or not isinstance(predictor.plan.stop, StepRule):
        parser.error(f"{arguments.model} holds no anytime predictor; make one with scurry.anytime(model, X, y)")
    app = create_app(predictor, arguments.name, arguments.budget_us)

    class Protocol(AutoHTTPProtocol):
        def data_received(self, data: bytes) -> None:
            ARRIVED.set(app.state.model.scorer.arrival())
            super().data_received(data)

    gc.collect()
    gc.freeze()  # excludes what is loaded by now from garbage collection, which would take longer than a budget
    uvicorn.run(
        app, host=arguments.host, port=arguments.port, http=Protocol,
        log_level="warning", access_log=False, timeout_keep_alive=75,
    )  # fmt: skip


if __name__ == "__main__":
    main()
