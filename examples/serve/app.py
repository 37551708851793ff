"""A small server that answers in time: an anytime model behind the Open Inference Protocol, version 2.

A request may limit its time, ``"parameters": {"budget_us": 5000}``, counted from its arrival, or the tree steps per
row, ``{"max_steps": 40}``. Under load, requests are answered with fewer steps, but in time; ``/metrics`` counts those
answers.

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

INPUTS = {"FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64}
OUTPUTS = {"label": "BYTES", "score": "FP64", "complete": "BOOL", "steps": "INT64", "stop_reason": "BYTES"}
PARAMETERS = ("budget_us", "max_steps")
AN_HOUR_US = 3.6e9  # budget of requests without one
MAX_BYTES = 8 << 20  # largest request: while its JSON is parsed, all others wait
ARRIVED: ContextVar[float] = ContextVar("arrived")  # when the current request arrived


class Model:
    """An anytime predictor with the tensors of the protocol, and its metrics."""

    def __init__(self, predictor: scurry.Predictor, name: str, default_budget_us: float) -> None:
        self.name, self.default_budget_us = name, default_budget_us
        self.n_features, self.scorer = predictor.forest.n_features, Scorer(predictor)
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.answers = Counter("scurry_answers", "Rows answered", ["stop_reason"], registry=self.registry)
        self.degraded = Counter(
            "scurry_degraded_answers", "Rows answered before all steps were taken", registry=self.registry
        )
        self.late = Counter("scurry_late_requests", "Requests answered after their deadline", registry=self.registry)
        self.seconds = Histogram(
            "scurry_request_seconds", "From arrival to answer", registry=self.registry,
            buckets=[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0],
        )  # fmt: skip

    def parse_job(self, body: object, arrived: float) -> Job:
        """Return the job that a request body describes; raise InputError if it describes none."""
        if not isinstance(body, dict) or not isinstance(body.get("inputs"), list) or len(body["inputs"]) != 1:
            raise InputError('a request is {"inputs": [one tensor], "parameters": {…}}')
        tensor, parameters = body["inputs"][0], body.get("parameters") or {}
        if not isinstance(tensor, dict) or tensor.get("datatype") not in INPUTS or not isinstance(parameters, dict):
            raise InputError(f"the tensor needs name, shape, data and a datatype of {', '.join(INPUTS)}")
        if unknown := parameters.keys() - set(PARAMETERS):
            raise InputError(f"there is no parameter {min(unknown)!r}; the parameters are {', '.join(PARAMETERS)}")
        try:
            with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, which trees can compare
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
    def parse_outputs(body: dict[str, object]) -> list[str]:
        """Return the names of the output tensors that a request body lists, by default all; may raise InputError."""
        outputs = body.get("outputs") or [{"name": name} for name in OUTPUTS]
        named = isinstance(outputs, list) and all(isinstance(tensor, dict) and "name" in tensor for tensor in outputs)
        # A list, because names from outside may be anything, and not everything can be looked up in a dict.
        if not named or not all(tensor["name"] in list(OUTPUTS) for tensor in outputs):
            raise InputError(f'outputs is a list such as [{{"name": "label"}}]; the names are {", ".join(OUTPUTS)}')
        return [tensor["name"] for tensor in outputs]

    async def answer(self, job: Job, names: list[str]) -> list[dict[str, object]]:
        """Score a job and return its output tensors of these names."""
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
            for name in names
        ]

    async def record_sent(self, job: Job) -> None:
        """Count a request after its answer has been sent."""
        now = time.perf_counter()
        self.seconds.observe(now - job.arrived)
        self.late.inc(now > job.deadline)
        self.scorer.record_sent(job, now)

    def metadata(self) -> dict[str, object]:
        """Return the model metadata of the protocol."""
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
        message = f"{request.method} {request.url.path}: {error.detail}{hint}"
        return JSONResponse({"error": message}, status_code=error.status_code)

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
        # Under uvicorn the time comes from `Protocol` below; this handler may start much later.
        arrived = ARRIVED.get(time.perf_counter())
        content = await _read(request)
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the request is not JSON: {error}") from error
        job = model.parse_job(body, arrived)
        answer = {"model_name": name, "outputs": await model.answer(job, model.parse_outputs(body))}
        answer |= {"id": str(body["id"])} if "id" in body else {}
        return JSONResponse(answer, background=BackgroundTask(model.record_sent, job))

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(model.registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def _read(request: Request) -> bytes:
    # Read part by part: a request without a Content-Length could otherwise be of any size.
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
    parser.add_argument("--name", default="model", help="name of the model in URLs (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all networks")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--budget-us", type=float, default=AN_HOUR_US, help="microseconds for requests without a budget (default: 1 h)"
    )
    arguments = parser.parse_args()
    try:
        predictor = scurry.load(arguments.model)
    except (ScurryError, OSError) as error:
        parser.error(str(error))
    if not isinstance(predictor, scurry.Predictor) or not predictor.plan.by_step:
        parser.error(f"{arguments.model} holds no anytime predictor; make one with scurry.anytime(model, X, y)")
    app = create_app(predictor, arguments.name, arguments.budget_us)

    # The earliest moment at which Python sees a request, before it waits for other handlers.
    class Protocol(AutoHTTPProtocol):
        def data_received(self, data: bytes) -> None:
            ARRIVED.set(app.state.model.scorer.earliest_arrival())
            super().data_received(data)

    gc.collect()
    gc.freeze()  # the collector never looks at what is loaded by now; that would take longer than a budget
    uvicorn.run(
        app, host=arguments.host, port=arguments.port, http=Protocol,
        log_level="warning", access_log=False, timeout_keep_alive=75,
    )  # fmt: skip


if __name__ == "__main__":
    main()
