"""The server: an application on a socket, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from scurry.errors import InputError, ScurryError, require_extra
from scurry.forest import Forest
from scurry.monitoring import Watch
from scurry.predictor import Predictor
from scurry.serving.app import BUSY, DEFAULT_BUDGET_US, DEFAULT_MAX_WAITING, RETRY_AFTER_S, App, create_app

_LENGTH = re.compile(rb"content-length: *([0-9]{1,9}) *", re.ASCII)
_N_SECONDS_TO_FINISH = 30  # for requests that wait when a signal comes
_READING_SHARE, _N_ALWAYS_READ = 0.02, 16  # of the budget in one round; requests that are read in any case
_SAVE_EVERY_S = 30.0
_LOG = logging.getLogger(__name__)
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
