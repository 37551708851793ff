"""The HTTP application: version 2 of the Open Inference Protocol, errors, and metrics.

An ASGI application without a framework: under overload a request costs little more than refusing it, and a framework
would cost several times as much.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import numpy as np

from scurry.checks import check_count, check_number, is_number
from scurry.errors import InputError, ScurryError, require_extra
from scurry.forest import Forest
from scurry.monitoring import State, Watch
from scurry.predictor import Predictor
from scurry.runners.runner import STOP_REASONS
from scurry.serving.model import REASONS, Columns, Job, Refusal, Scorer, ServedModel
from scurry.version import read_version

DEFAULT_BUDGET_US = 500_000.0
DEFAULT_MAX_WAITING = 1000
MAX_BUDGET_US = 3.6e9  # an hour; longer budgets are cut
MAX_BYTES = 8 << 20  # largest request: while its JSON is parsed, all others wait
MAX_BYTES_AT_ONCE = 4 * MAX_BYTES  # of all requests that are read or wait
READ_TIMEOUT_S = 10.0  # for a body that arrives in parts
RETRY_AFTER_S = 1
BUSY = "too many requests are waiting; try again later"
PARAMETERS = ("budget_us", "max_steps")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Receive, Send], Awaitable[None]]
_LOG = logging.getLogger(__name__)
_WATCHED = {
    "rows": "Rows that the watch has counted",
    "shadow_rows": "Rows that the full model evaluated too",
    "changed_rows": "Shadow rows whose answer changed",
    "rate": "The rate that the promise limits, as measured",
    "rate_lower": "Lower bound of the rate, at all times at once",
    "rate_upper": "Upper bound of the rate, at all times at once",
    "rate_promised": "The rate that is promised",
    "e_value": "Evidence against the promise",
    "alarm": "Whether the promise does not hold for the rows so far",
    "change": "Whether the promise no longer holds",
}
_STATE_FIELDS = {
    "rows": "n_rows",
    "shadow_rows": "n_shadow",
    "changed_rows": "n_changed",
    "rate_lower": "lower",
    "rate_upper": "upper",
    "rate_promised": "max_rate",
}


class _HttpError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


class _ClientLeft(Exception):
    pass


class App:
    """An ASGI application that serves one model; `create_app` makes it. It belongs to one event loop.

    Parameters
    ----------
    model : ServedModel
    name : str
    budget_us : float
    max_waiting : int
    """

    def __init__(self, model: ServedModel, name: str, budget_us: float, max_waiting: int) -> None:
        self.model, self.name, self.budget_us = model, name, budget_us
        self.scorer = Scorer(model, max_waiting, budget_us / 1e6, model.time_row())
        self.metrics = _Metrics(watches=model.watch is not None)
        self.infer_path = f"/v2/models/{name}/infer"
        self._n_bytes = 0  # of all requests that are read or wait
        self._handlers: dict[str, tuple[str, Handler]] = {
            "/v2": ("GET", self._describe_server),
            "/v2/health/live": ("GET", self._say_ready),
            "/v2/health/ready": ("GET", self._say_ready),
            f"/v2/models/{name}": ("GET", self._describe_model),
            f"/v2/models/{name}/ready": ("GET", self._say_ready),
            self.infer_path: ("POST", self._infer),
            "/metrics": ("GET", self._show_metrics),
        }
        if model.watch is not None:
            self._handlers[f"/v2/models/{name}/watch"] = ("GET", self._show_watch)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI defines it."""
        if scope["type"] != "http":
            raise NotImplementedError(f"there is no {scope['type']}")  # as ASGI wants it
        try:
            await self._find_handler(scope["method"], scope["path"])(receive, send)
        except _ClientLeft:
            self.metrics.left.inc()
        except Refusal as refusal:
            await self._send_error(send, 503, str(refusal), self.refuse(refusal.reason))
        except _HttpError as error:
            await self._send_error(send, error.status, str(error), error.headers)
        except ScurryError as error:
            await self._send_error(send, 400, str(error), {})
        except Exception:
            _LOG.exception("a request could not be answered")
            await self._send_error(send, 500, "the server failed; its log says why", {})

    def refuse(self, reason: str) -> dict[str, str]:
        """Count a request that is refused with status 503; return the headers of its answer."""
        self.metrics.refused[reason].inc()
        return {"retry-after": str(RETRY_AFTER_S)}

    def _find_handler(self, method: str, path: str) -> Handler:
        known, handler = self._handlers.get(path, ("", self._say_ready))
        if not known:
            raise _HttpError(404, f"{method} {path!r:.80}: Not Found; the model of this server is {self.name!r}")
        if method not in ((known, "HEAD") if known == "GET" else (known,)):
            raise _HttpError(405, f"{method:.20} {path}: Method Not Allowed; use {known}", {"allow": known})
        return handler

    async def _infer(self, receive: Receive, send: Send) -> None:
        if self.scorer.is_full:  # before anything is read and parsed
            raise Refusal(BUSY, "queue")
        content = await self._read(receive)
        arrived, n_bytes = self.scorer.earliest_arrival(), len(content)
        try:
            body = _parse(content)
            del content
            names, rows = self.model.choose_outputs(body.get("outputs")), self.model.read_rows(body.get("inputs"))
            budget_us, max_steps = self._read_parameters(body.get("parameters"))
            request_id = body.get("id")
            del body  # of all that wait, only the rows are kept
            for column, n in rows.n_unknown.items():
                self.metrics.unknown.labels(column).inc(n)
            job = Job(rows.matrix, arrived, min(budget_us, MAX_BUDGET_US) / 1e6, names, max_steps)
            columns = await self._score(job, receive)
        finally:
            self._n_bytes -= n_bytes
        answer: dict[str, Any] = {"model_name": self.name, "outputs": self.model.to_tensors(columns, names)}
        if rows.n_unknown:
            answer["parameters"] = {"unknown_categories": rows.n_unknown.total()}
        if request_id is not None:
            answer["id"] = request_id
        await _send(send, 200, json.dumps(answer).encode())
        now = time.perf_counter()
        self.scorer.record_sent(job, now)
        self.metrics.record(job, columns, now, self.model.by_step)

    async def _score(self, job: Job, receive: Receive) -> Columns:
        """Score a job as long as its client waits."""
        scored = self.scorer.submit(job)
        leaving = asyncio.ensure_future(receive())  # the body is complete, so this ends when the client leaves
        leaving.add_done_callback(lambda _: scored.cancel())
        try:
            slices = await scored
        except asyncio.CancelledError:
            if leaving.done():
                raise _ClientLeft from None
            raise
        finally:
            leaving.cancel()
        return {name: np.concatenate([columns[name] for columns in slices]) for name in slices[0]}

    def _read_parameters(self, given: object) -> tuple[float, int | None]:
        """Return the budget in microseconds, and the most steps of a row."""
        parameters = {} if given is None else given
        if not isinstance(parameters, dict):
            raise InputError('parameters is an object such as {"budget_us": 20000}')
        if unknown := parameters.keys() - set(PARAMETERS):
            raise InputError(f"there is no parameter {min(unknown)!r:.60}; the parameters are {', '.join(PARAMETERS)}")
        budget_us, max_steps = parameters.get("budget_us", self.budget_us), parameters.get("max_steps")
        if not is_number(budget_us) or not budget_us > 0:
            raise InputError(f"budget_us must be a number of microseconds above 0, got {budget_us!r:.40}")
        if max_steps is None:
            return budget_us, None
        if not self.model.by_step:
            raise InputError("max_steps needs an anytime plan, and this model has another one; leave it out")
        return budget_us, check_count("max_steps", max_steps, self.model.min_steps, hint=" (min_steps of this server)")

    async def _read(self, receive: Receive) -> bytearray:
        """Return the body of a request, which counts in `_n_bytes`."""
        # Part by part: a request without a Content-Length could otherwise be of any size.
        content, more = bytearray(), True
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientLeft
                    part, more = message.get("body", b""), message.get("more_body", False)
                    content.extend(part)
                    self._n_bytes += len(part)
                    if len(content) > MAX_BYTES:
                        raise _HttpError(413, f"a request has at most {MAX_BYTES:,} bytes; send fewer rows at once")
                    if self._n_bytes > MAX_BYTES_AT_ONCE:
                        raise Refusal("too much data is waiting; try again later", "queue")
        except BaseException as error:
            self._n_bytes -= len(content)
            if isinstance(error, TimeoutError):
                raise _HttpError(408, f"the request did not arrive within {READ_TIMEOUT_S:g} s") from None
            raise
        return content

    async def _describe_server(self, _: Receive, send: Send) -> None:
        about = {"name": "scurry", "version": read_version(), "extensions": []}
        await _send(send, 200, json.dumps(about).encode())

    async def _describe_model(self, _: Receive, send: Send) -> None:
        about: dict[str, object] = {"name": self.name, "platform": "scurry", **self.model.metadata()}
        await _send(send, 200, json.dumps(about).encode())

    async def _say_ready(self, _: Receive, send: Send) -> None:
        await _send(send, 200, b"")

    async def _show_watch(self, _: Receive, send: Send) -> None:
        assert self.model.watch is not None
        await _send(send, 200, json.dumps(self.model.watch.state.to_json()).encode())

    async def _show_metrics(self, _: Receive, send: Send) -> None:
        self.metrics.waiting.set(self.scorer.n_waiting)
        if self.model.watch is not None:
            self.metrics.show_state(self.model.watch.state)
        await _send(send, 200, self.metrics.text(), {"content-type": self.metrics.content_type})

    @staticmethod
    async def _send_error(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
        with suppress(OSError):  # the client may have left
            await _send(send, status, json.dumps({"error": message}).encode(), headers)


class _Metrics:
    """Counters for Prometheus."""

    def __init__(self, *, watches: bool = False) -> None:
        with require_extra("serve", "serving"):
            import prometheus_client as prometheus
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = prometheus.CollectorRegistry()
        self._write, self.content_type = prometheus.generate_latest, prometheus.CONTENT_TYPE_LATEST
        self.answers = prometheus.Counter("scurry_answers", "Rows answered", ["stop_reason"], registry=registry)
        self.degraded = prometheus.Counter(
            "scurry_degraded_answers", "Rows of an anytime plan answered before all steps were taken", registry=registry
        )
        self.late = prometheus.Counter(
            "scurry_late_requests", "Requests answered after their deadline", registry=registry
        )
        refused = prometheus.Counter(
            "scurry_refused_requests", "Requests refused with status 503", ["reason"], registry=registry
        )
        self.refused = {reason: refused.labels(reason) for reason in REASONS}
        self.left = prometheus.Counter(
            "scurry_left_requests", "Requests whose client left before the answer", registry=registry
        )
        self.unknown = prometheus.Counter(
            "scurry_unknown_categories", "Values that the model does not know", ["column"], registry=registry
        )
        self.waiting = prometheus.Gauge("scurry_waiting_requests", "Requests that wait for rows", registry=registry)
        self.seconds = prometheus.Histogram(
            "scurry_request_seconds",
            "From arrival to answer",
            registry=registry,
            buckets=[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0],
        )
        self._watch = {
            name: prometheus.Gauge(f"scurry_watch_{name}", text, registry=registry)
            for name, text in (_WATCHED.items() if watches else ())
        }

    def show_state(self, state: State) -> None:
        """Show what a watch knows."""
        for name, gauge in self._watch.items():
            gauge.set(float(getattr(state, _STATE_FIELDS.get(name, name))))

    def record(self, job: Job, columns: Columns, now: float, by_step: bool) -> None:
        """Count a request whose answer has been sent."""
        for code, n in Counter(columns["reason_codes"].tolist()).items():
            self.answers.labels(str(STOP_REASONS[code])).inc(n)
        if by_step:
            self.degraded.inc(int((~columns["complete"]).sum()))
        self.late.inc(now > job.deadline)
        self.seconds.observe(now - job.arrived)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return self._write(self._registry)


def create_app(
    model: Forest | Predictor | Watch,
    *,
    name: str = "model",
    budget_us: float = DEFAULT_BUDGET_US,
    min_steps: int | None = None,
    max_waiting: int = DEFAULT_MAX_WAITING,
) -> App:
    """Return an ASGI application that serves a model with version 2 of the Open Inference Protocol.

    Parameters
    ----------
    model : Forest, Predictor or Watch
        Any plan: an early exit, an anytime order, or a forest that evaluates every tree. A watch counts the rows that
        are answered; its state is at ``/v2/models/NAME/watch`` and among the metrics.
    name : str, default "model"
        Name of the model in URLs.
    budget_us : float, default 500,000
        Microseconds from the arrival of a request to its answer, for requests that do not say. A request that cannot
        be answered in time is refused with status 503.
    min_steps : int, optional
        For an anytime plan: steps without which a row is not answered (default: a tenth of all steps).
    max_waiting : int, default 1000
        Number of requests that may wait; further ones are refused with status 503.

    Returns
    -------
    App

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> app = scurry.serving.create_app(scurry.Forest.from_trees([stump]), name="stump")
    >>> app.infer_path
    '/v2/models/stump/infer'
    """
    if not isinstance(model, Forest | Predictor | Watch):
        raise InputError(
            f"model must be a Forest, a Predictor or a Watch, got {type(model).__name__}; pass "
            "scurry.from_model(model)",
            argument="model",
        )
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise InputError(f"name must consist of letters, digits, '.', '_' and '-', got {name!r}", argument="name")
    watch = model if isinstance(model, Watch) else None
    if isinstance(model, Watch):
        model = model.predictor
    predictor = model if isinstance(model, Predictor) else Predictor.full(model)
    budget_us = check_number("budget_us", budget_us, above=0.0)
    return App(ServedModel(predictor, min_steps, watch), name, budget_us, check_count("max_waiting", max_waiting))


def _parse(content: bytearray) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InputError('a request is {"inputs": [tensors], "parameters": {…}, "outputs": […]}')
    if not isinstance(body.get("id", ""), str):
        raise InputError("id must be a text")
    return body


async def _send(send: Send, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
    given = {"content-type": "application/json", "content-length": str(len(content))} | (headers or {})
    encoded = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})
