"""The HTTP application and its server: version 2 of the Open Inference Protocol, errors, and metrics.

An ASGI application without a framework: under overload a request costs little more than refusing it, and a framework
would cost several times as much.

The server is the application on a socket, until a signal ends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from os import PathLike
from threading import Event, Thread, current_thread, main_thread
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
            buckets=[0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0],
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


_LENGTH = re.compile(rb"content-length: *([0-9]{1,9}) *", re.ASCII)
_N_SECONDS_TO_FINISH = 30  # for requests that wait when a signal comes
_READING_SHARE, _N_ALWAYS_READ = 0.02, 16  # of the budget in one round; requests that are read in any case
_SAVE_EVERY_S = 30.0
_BACKLOG = 2048  # connections that the operating system keeps until the server accepts them


def serve(
    model: Forest | Predictor | Watch,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: str = "model",
    budget_us: float = DEFAULT_BUDGET_US,
    min_steps: int | None = None,
    max_waiting: int = DEFAULT_MAX_WAITING,
    watch_path: str | PathLike[str] | None = None,
    on_start: Callable[[str], object] | None = None,
) -> None:
    """Serve a model over HTTP until SIGTERM or Ctrl-C; requests that wait then are still answered.

    Needs the extra ``serve``. One process uses one core; start one on each.

    Parameters
    ----------
    model : Forest, Predictor or Watch
    host : str, default "127.0.0.1"
        Address to listen on; "0.0.0.0" for all networks.
    port : int, default 8000
        0 takes a free one.
    name, budget_us, min_steps, max_waiting
        As of `create_app`.
    watch_path : str or path, optional
        For a Watch: where it is saved, every half minute and at the end. Each process needs a file of its own.
    on_start : callable, optional
        Called with the server's URL when it is about to accept requests.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> scurry.serving.serve(scurry.Forest.from_trees([stump]), port=8000)  # doctest: +SKIP
    """
    with require_extra("serve", "serving"):
        import uvicorn
    app = create_app(model, name=name, budget_us=budget_us, min_steps=min_steps, max_waiting=max_waiting)
    if watch_path is not None and not isinstance(model, Watch):
        raise InputError("watch_path is for a Watch; make one with scurry.watch(predictor)", argument="watch_path")
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        http=_protocol_of(app),
        loop="asyncio",  # the one whose rounds `Scorer.earliest_arrival` knows
        lifespan="off",
        log_level="error",
        server_header=False,
        access_log=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_N_SECONDS_TO_FINISH,
    )
    gc.collect()
    gc.freeze()  # the collector never looks at what is loaded by now; that would take longer than a budget
    if on_start is not None:
        on_start(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
    # uvicorn finishes first and raises KeyboardInterrupt then.
    with _saving(model, watch_path), suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _saving(model: Forest | Predictor | Watch, path: str | PathLike[str] | None) -> Iterator[None]:
    """Save a watch from time to time while the block runs, and at its end."""
    if path is None or not isinstance(model, Watch):
        yield
        return
    model.save(path)  # an error now, not in half a minute
    ended, before = Event(), None
    if current_thread() is main_thread():
        # Once it has finished, uvicorn sends itself the signal again, which would end the process before the last save.
        before = signal.signal(signal.SIGTERM, _leave)

    def save() -> None:
        while not ended.wait(_SAVE_EVERY_S):
            try:
                model.save(path)
            except ScurryError:
                _LOG.exception("the watch could not be saved")  # the next time it may be

    saver = Thread(target=save, daemon=True)
    saver.start()
    try:
        yield
    finally:
        ended.set()
        saver.join()
        model.save(path)
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)  # what a shell says of a process that a signal has ended


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, TypeError) as error:
        raise InputError(f"cannot listen on {host}:{port}: {error}", argument="port") from error
    # Connections inherit it. Without it the second part of an answer waits until the first is acknowledged: 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _ReadingTime:
    """Whether the server has read requests for long enough in this round of the event loop.

    A round reads what has arrived on all sockets, however many they are, before anything is scored. What arrives
    meanwhile waits for the next round. Without a limit each round would be longer than the one before.
    """

    def __init__(self, max_s: float) -> None:
        self.max_s, self._begun, self._n_read = max_s, 0.0, 0

    def is_over(self, loop: asyncio.AbstractEventLoop) -> bool:
        now = time.perf_counter()
        if self._n_read == 0:
            self._begun = now
            loop.call_soon(self._end_round)
        self._n_read += 1
        # Few requests take long only if the operating system lets other processes run meanwhile.
        return self._n_read > _N_ALWAYS_READ and now - self._begun > self.max_s

    def _end_round(self) -> None:
        self._n_read = 0


def _protocol_of(app: App) -> type[Any]:
    """Return uvicorn's protocol, but one that refuses requests at once while the queue is full.

    Parsing a request and calling the application takes about as long as answering a small one. A server that does so
    for every request can refuse no faster than it answers, and requests would wait in their sockets for longer and
    longer.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    start = f"POST {app.infer_path} HTTP/1.1\r\n".encode()
    keeping, closing = _busy_answer(keep=True), _busy_answer(keep=False)

    reading = _ReadingTime(app.budget_us / 1e6 * _READING_SHARE)

    class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        # Whether everything received so far were whole requests. Only then is it certain where the next one begins:
        # a part of a body that looks like a request must not be answered as one.
        is_aligned = True

        def data_received(self, data: bytes) -> None:
            self.is_aligned = self.is_aligned and is_whole_request(data)
            idle = self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body)
            is_full = reading.is_over(self.loop) or app.scorer.is_full
            if is_full and self.is_aligned and idle and data.startswith(start):
                app.refuse("queue")
                keeps = b"connection: close" not in data[: data.index(b"\r\n\r\n")].lower()
                self.transport.write(keeping if keeps else closing)
                if not keeps:
                    self.transport.close()
            else:
                super().data_received(data)

    return Protocol


def _busy_answer(keep: bool) -> bytes:
    body = json.dumps({"error": BUSY}).encode()
    lines = ["HTTP/1.1 503 Service Unavailable", "content-type: application/json", f"retry-after: {RETRY_AFTER_S}"]
    lines += [f"content-length: {len(body)}", *([] if keep else ["connection: close"])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def is_whole_request(data: bytes) -> bool:
    r"""Return whether data are exactly one HTTP request, with its body; False also if that is not clear.

    Examples
    --------
    >>> is_whole_request(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
    True
    >>> is_whole_request(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n{}")
    False
    """
    head, end, body = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")[1:]
    # Line ends of other kinds may be read as the end of the head; and a second length, or chunks, as another length.
    if not end or head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        return False
    framing = [line for line in lines if line.startswith((b"content-length", b"transfer-encoding"))]
    if not framing:
        return not body
    length = _LENGTH.fullmatch(framing[0])
    return len(framing) == 1 and length is not None and int(length[1]) == len(body)
