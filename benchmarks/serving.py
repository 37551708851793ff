"""Overload a server: requests at four times its capacity, whether or not earlier ones have been answered.

    python benchmarks/serving.py                     (three models, 20 s each; writes results/serving.json)
    python benchmarks/serving.py --seconds 3 --models small-exit

For each model ``scurry serve`` is started. Its capacity is the rate at which a few clients, each of which waits for its
answer before it sends the next request, are answered. Then requests are due at random times (a Poisson process) at a
multiple of that rate. Latency counts from the moment a request is sent, or its connection is opened, to the last byte
of its answer. ``sent_late_p99_ms`` says how late this program was. The server and this program have a processor each,
if there are two.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from report import RESULTS, commit

N_FEATURES = 8
N_CLIENTS = 8  # that measure the capacity
N_CONNECTIONS, MAX_CONNECTIONS = 256, 4000  # open from the start, and opened when all of them wait for answers
PATIENCE_S = 30.0  # after the last request was sent
SERVER = "from scurry.cli import main; main()"


@dataclass(frozen=True)
class Model:
    """A model to serve, and the requests it gets."""

    n_trees: int
    max_depth: int
    plan: str
    n_rows: int


MODELS = {
    "small-exit": Model(100, 8, "early exit", 1),
    "large-full": Model(1500, 12, "full", 64),
    "large-anytime": Model(1500, 12, "anytime", 64),
}


@dataclass(frozen=True)
class Outcome:
    """What happened to the requests of one load."""

    requests_per_s: float
    n_sent: int
    n_answered: int
    n_refused: int
    n_other: int
    n_lost: int
    answered_p50_ms: float | None
    answered_p99_ms: float | None
    refused_p50_ms: float | None
    refused_p99_ms: float | None
    longest_ms: float
    n_longer_than_1_s: int
    sent_late_p99_ms: float | None
    n_connections: int
    mean_share_of_steps: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the load test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of the overload")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 4.0], help="multiples of the capacity")
    parser.add_argument("--output", type=Path, default=None, help="file to write (default: results/serving.json)")
    given = parser.parse_args(arguments)
    results: dict[str, object] = {
        "commit": commit(),
        "date": datetime.now().isoformat(timespec="minutes"),
        "system": f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} processors",
        "load_average_at_start": os.getloadavg()[0],
        "seconds": given.seconds,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in given.models:
            path = Path(folder) / f"{name}.scurry"
            body = make_body(save_model(MODELS[name], path))
            results[name] = asdict(MODELS[name]) | measure(path, body, given.seconds, given.loads)
            print(name, json.dumps(results[name], indent=1), flush=True)
    output = given.output or RESULTS / "serving.json"
    output.write_text(json.dumps(results, indent=1) + "\n")


def save_model(model: Model, path: Path) -> np.ndarray:
    """Save a model and return rows for a request."""
    X, y = make_classification(6000, N_FEATURES, n_informative=6, random_state=0)
    forest = RandomForestClassifier(model.n_trees, max_depth=model.max_depth, max_samples=0.5, random_state=0)
    forest.fit(X[:4000], y[:4000])
    if model.plan == "full":
        scurry.from_model(forest).save(path)
    elif model.plan == "anytime":
        scurry.anytime(forest, X[4000:], y[4000:], order="breadth-ie").save(path)
    else:
        scurry.early_exit(forest, X[4000:], max_disagreement=0.01, random_state=0).save(path)
    return X[4000 : 4000 + model.n_rows].astype(np.float32)


def make_body(rows: np.ndarray) -> bytes:
    """Return a request as bytes."""
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = f"POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def measure(path: Path, request: bytes, seconds: float, loads: Sequence[float]) -> dict[str, object]:
    """Serve a model and return what its server does under load."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1])  # the server inherits this
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, "serve", str(path), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(0, processors[1:] or processors)
    gc.freeze()  # a collection would delay requests and look like latency of the server
    try:
        port = int(server.stdout.readline().split(":")[2].split("/")[0])
        with asyncio.Runner() as runner:
            return runner.run(overload(Clients(port), server.pid, request, seconds, loads))
    finally:
        server.terminate()
        server.wait()
        os.sched_setaffinity(0, processors)


async def overload(
    clients: Clients, pid: int, request: bytes, seconds: float, loads: Sequence[float]
) -> dict[str, object]:
    """Measure the capacity, then send requests at multiples of it."""
    clients.idle += [await clients.connect() for _ in range(N_CONNECTIONS)]
    await clients.full_answers_per_s(request, 1.0)
    capacity = await clients.full_answers_per_s(request, min(seconds, 3.0))
    figures: dict[str, object] = {"capacity_per_s": capacity}
    for load in loads:
        before, used_s = memory_bytes(pid, "VmRSS"), processor_seconds(pid)
        outcome = await clients.send_at_rate(request, load * capacity, seconds)
        begun = time.perf_counter()
        status, _ = await asyncio.wait_for(clients.ask(request), PATIENCE_S)
        figures[f"load {load:g}"] = asdict(outcome) | {
            "offered_over_capacity": outcome.requests_per_s / capacity,
            "answered_over_capacity": outcome.n_answered / seconds / capacity,
            "server_processor_share": (processor_seconds(pid) - used_s) / seconds,
            "rss_over_rss_before": memory_bytes(pid, "VmRSS") / before,
            "peak_over_rss_before": memory_bytes(pid, "VmHWM") / before,
            "next_request": {"status": status, "ms": 1e3 * (time.perf_counter() - begun)},
        }
    figures["metrics"] = await clients.read_metrics()
    clients.close()
    return figures


def memory_bytes(pid: int, field: str) -> int:
    """Return a field of the memory status of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Connection(asyncio.Protocol):
    """A connection with at most one request on its way. A raw one: an HTTP client would cost more than the server."""

    def __init__(self) -> None:
        self.received, self.done = b"", lambda status, body: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, request: bytes, done: Callable[[int, bytes], None]) -> None:
        self.received, self.done = b"", done
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            self.done(int(head[9:12]), body)

    def connection_lost(self, _: Exception | None) -> None:
        self.done(0, b"")


class Clients:
    """Any number of clients of one server, which share connections."""

    def __init__(self, port: int) -> None:
        self.port, self.idle, self.n_open = port, [], 0

    async def connect(self) -> Connection:
        self.n_open += 1
        return (await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self.port))[1]

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer."""
        connection = self.idle.pop() if self.idle else await self.connect()
        answered = asyncio.get_running_loop().create_future()
        connection.ask(request, lambda status, body: answered.done() or answered.set_result((status, body)))
        result = await answered
        self.idle.append(connection)
        return result

    async def read_metrics(self) -> dict[str, float]:
        """Return the counters of the server."""
        _, body = await self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if "_total" in line and line[0] != "#"]
        return {name: float(value) for name, value in lines}

    async def full_answers_per_s(self, request: bytes, seconds: float) -> float:
        """Return the rate at which clients are answered that wait for each answer."""
        begun, statuses = time.perf_counter(), Counter()

        async def client() -> None:
            while time.perf_counter() < begun + seconds:
                statuses[(await self.ask(request))[0]] += 1

        await asyncio.gather(*(client() for _ in range(N_CLIENTS)))
        return statuses[200] / (time.perf_counter() - begun)

    async def send_at_rate(self, request: bytes, rate: float, seconds: float) -> Outcome:
        """Send requests at random times with this mean rate, and return what became of them."""
        answers: list[tuple[float, int, bytes]] = []  # parsed later: now that would delay other requests
        late_ms: list[float] = []  # of this program
        n_sent, tasks, begun = 0, set(), time.perf_counter()

        def send(connection: Connection, sent: float) -> None:
            def done(status: int, body: bytes) -> None:
                answers.append((1e3 * (time.perf_counter() - sent), status, body))
                if status:
                    self.idle.append(connection)

            connection.ask(request, done)

        async def open_and_send(sent: float) -> None:
            send(await self.connect(), sent)

        due = begun
        for gap in np.random.default_rng(0).exponential(1 / rate, int(rate * seconds * 1.5) + 100):
            due += gap
            if due > begun + seconds:
                break
            while (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(min(wait, 0.001))
            if n_sent % 32 == 0:
                await asyncio.sleep(0)  # answers are read here, also when this program is behind
            sent = time.perf_counter()
            late_ms.append(1e3 * (sent - due))
            if self.idle:
                send(self.idle.pop(), sent)
            elif self.n_open < MAX_CONNECTIONS:
                tasks.add(asyncio.create_task(open_and_send(sent)))
            else:
                answers.append((0.0, -1, b""))  # not sent: as many connections as there may be wait for answers
            n_sent += 1
        took_s = time.perf_counter() - begun
        while len(answers) < n_sent and time.perf_counter() < begun + took_s + PATIENCE_S:
            await asyncio.sleep(0.05)
        return summarise(answers, n_sent, n_sent / took_s, late_ms, self.n_open)

    def close(self) -> None:
        for connection in self.idle:
            connection.transport.close()


def summarise(
    answers: Sequence[tuple[float, int, bytes]], n_sent: int, rate: float, late_ms: Sequence[float], n_connections: int
) -> Outcome:
    """Count the answers of one load."""
    statuses = Counter(status for _, status, _ in answers)
    answered = [ms for ms, status, _ in answers if status == 200]
    refused = [ms for ms, status, _ in answers if status == 503]
    latencies = np.array([*answered, *refused])
    data = [json.loads(body)["outputs"] for _, status, body in answers if status == 200]
    steps = [tensor["data"] for outputs in data for tensor in outputs if tensor["name"] == "steps"]
    most = max((max(of_one) for of_one in steps), default=0)
    return Outcome(
        requests_per_s=rate,
        n_sent=n_sent,
        n_answered=statuses[200],
        n_refused=statuses[503],
        n_other=sum(n for status, n in statuses.items() if status not in (200, 503, 0, -1)),
        n_lost=n_sent - len(answers) + statuses[0] + statuses[-1],
        answered_p50_ms=percentile(answered, 50),
        answered_p99_ms=percentile(answered, 99),
        refused_p50_ms=percentile(refused, 50),
        refused_p99_ms=percentile(refused, 99),
        longest_ms=float(latencies.max()),
        n_longer_than_1_s=int((latencies > 1000).sum()),
        sent_late_p99_ms=percentile(late_ms, 99),
        n_connections=n_connections,
        mean_share_of_steps=float(np.mean(np.concatenate(steps))) / most if most else None,
    )


def percentile(values: Sequence[float], rank: float) -> float | None:
    return float(np.percentile(values, rank)) if values else None


if __name__ == "__main__":
    main()
