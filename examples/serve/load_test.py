"""Measure the server of `app.py` over loopback, at 70 % and at 200 % of its capacity for full answers.

Requests are due at random times (a Poisson process) and are sent whether or not earlier ones have been answered.
Latency counts from the moment a request is due to the last byte of its answer. With two processors or more, the server
has one for itself and this test uses the others.

    python examples/serve/load_test.py
"""

import argparse
import asyncio
import gc
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry

N_ROWS, N_FEATURES = 64, 8
N_CONNECTIONS = 64
PORT = 8123

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Outcome:
    """Latencies of the answered requests in ms, and the steps and the completeness of their rows."""

    n_sent: int
    latency_ms: np.ndarray
    steps: np.ndarray
    complete: np.ndarray

    def __str__(self) -> str:
        p50, p99, longest = np.percentile(self.latency_ms, [50, 99, 100])
        return (
            f"{self.n_sent} sent, {self.n_sent - len(self.latency_ms)} lost; latency p50 {p50:.2f} ms, "
            f"p99 {p99:.2f} ms, longest {longest:.2f} ms; {self.complete.mean():.1%} of rows complete, "
            f"{self.steps.mean():.0f} steps per row"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget-us", type=float, default=20_000.0, help="microseconds per request")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration at each load")
    parser.add_argument("--runs", type=int, default=1, help="number of repetitions")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.scurry"
        rows = save_model(path)
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, processors[:1])  # the server inherits this
        server = subprocess.Popen([sys.executable, Path(__file__).parent / "app.py", path, "--port", str(PORT)])
        os.sched_setaffinity(0, processors[1:] or processors)
        gc.freeze()  # a collection would delay requests and look like latency of the server
        try:
            # Other selectors wait for whole milliseconds, and requests would be sent late.
            with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
                for _ in range(arguments.runs):
                    runner.run(measure(rows, arguments.budget_us, arguments.seconds))
        finally:
            server.terminate()
            server.wait()


def save_model(path: Path) -> np.ndarray:
    """Save a model whose full answer takes far longer than HTTP does, and return rows for it."""
    X, y = make_classification(6000, N_FEATURES, n_informative=6, random_state=0)
    model = RandomForestClassifier(1500, max_depth=12, max_samples=0.5, random_state=0).fit(X[:4000], y[:4000])
    scurry.anytime(model, X[4000:], y[4000:], order="breadth-ie").save(path)
    return X[4000 : 4000 + N_ROWS].astype(np.float32)


async def measure(rows: np.ndarray, budget_us: float, seconds: float) -> None:
    wait_until_ready()
    idle = [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(N_CONNECTIONS)]
    capacity = await full_answers_per_second(idle, rows)
    print(f"capacity: {capacity:.0f} full answers per second; budget {budget_us / 1000:.0f} ms")
    for share in (0.7, 2.0):
        rate = share * capacity
        outcome = await load(idle, rows, budget_us, rate, int(rate * seconds))
        print(f"{share:.0%} load ({rate:.0f} requests/s): {outcome}", flush=True)
    for _, writer in idle:
        writer.close()


def wait_until_ready() -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready", timeout=1)
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


async def full_answers_per_second(idle: list[Connection], rows: np.ndarray, n_clients: int = 4) -> float:
    """Measure the rate of clients that each send the next request as soon as they have an answer."""
    message, n_each = request_bytes(rows, budget_us=None), 100

    async def client() -> None:
        for _ in range(n_each):
            await send(idle, message)

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(n_clients)))
    return n_clients * n_each / (time.perf_counter() - begin)


async def load(idle: list[Connection], rows: np.ndarray, budget_us: float, rate: float, n_requests: int) -> Outcome:
    """Send requests at random times with this mean rate, and collect their answers."""
    message = request_bytes(rows, budget_us)
    received: list[tuple[float, bytes]] = []

    async def send_one(due: float) -> None:
        answer = await send(idle, message)
        received.append((1e3 * (time.perf_counter() - due), answer))  # parsed later: now it would delay other requests

    due, tasks = time.perf_counter(), []
    for gap in np.random.default_rng().exponential(1 / rate, n_requests):
        due += gap
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(send_one(due)))
    await asyncio.gather(*tasks, return_exceptions=True)
    answers = [(latency, json.loads(answer)) for latency, answer in received]
    good = [(latency, answer["outputs"]) for latency, answer in answers if "outputs" in answer]
    data = [{tensor["name"]: tensor["data"] for tensor in outputs} for _, outputs in good]
    return Outcome(
        n_requests,
        np.array([latency for latency, _ in good]),
        np.concatenate([of_request["steps"] for of_request in data]),
        np.concatenate([of_request["complete"] for of_request in data]),
    )


async def send(idle: list[Connection], message: bytes) -> bytes:
    """Send a message and return the body of its answer."""
    # A raw socket, because the overhead of an HTTP client would count as latency.
    reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(message)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.decode().splitlines() if line.lower().startswith("content-length:"))
    body = await reader.readexactly(length)
    idle.append((reader, writer))
    return body


def request_bytes(rows: np.ndarray, budget_us: float | None) -> bytes:
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    parameters = {} if budget_us is None else {"budget_us": budget_us}
    body = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    head = f"POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    main()
