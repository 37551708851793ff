"""Put load on the server of `app.py` over loopback: 70 % of what it can do in full, and twice as much as it can.

Requests arrive at random (Poisson), whether or not earlier ones have been answered, over a pool of connections. Latency
counts from the moment a request is sent to that of its last byte. The server is a process of its own.

    python examples/serve/load_test.py
"""

import argparse
import asyncio
import json
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
PORT = 8123


@dataclass(frozen=True)
class Outcome:
    """What became of requests: latencies in µs, and the steps and the completeness of their rows."""

    latency_us: np.ndarray
    steps: np.ndarray
    complete: np.ndarray
    n_sent: int

    def __str__(self) -> str:
        p50, p99 = np.percentile(self.latency_us, [50, 99])
        return (
            f"{self.n_sent} sent, {self.n_sent - len(self.latency_us)} lost; latency p50 {p50 / 1000:.2f} ms, "
            f"p99 {p99 / 1000:.2f} ms; {self.complete.mean():.1%} of rows complete, {self.steps.mean():.0f} steps a row"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget-us", type=float, default=20_000.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.scurry"
        rows = save_model(path)
        server = subprocess.Popen([sys.executable, Path(__file__).parent / "app.py", path, "--port", str(PORT)])
        try:
            asyncio.run(measure(rows, arguments.budget_us, arguments.seconds))
        finally:
            server.terminate()
            server.wait()


def save_model(path: Path) -> np.ndarray:
    """A model whose full answer takes far longer than a request's way through HTTP, and rows for it."""
    X, y = make_classification(6000, N_FEATURES, n_informative=6, random_state=0)
    model = RandomForestClassifier(1500, max_depth=12, max_samples=0.5, random_state=0).fit(X[:4000], y[:4000])
    scurry.anytime(model, X[4000:], y[4000:], order="breadth-ie").save(path)
    return X[4000 : 4000 + N_ROWS].astype(np.float32)


async def measure(rows: np.ndarray, budget_us: float, seconds: float) -> None:
    wait_until_ready()
    full = await load(rows, None, n_requests=200, rate=None)
    service_us = float(np.median(full.latency_us))
    print(f"one request in full, one at a time: {service_us / 1000:.2f} ms; budget {budget_us / 1000:.0f} ms")
    for share in (0.7, 2.0):
        rate = share * 1e6 / service_us
        outcome = await load(rows, budget_us, n_requests=int(rate * seconds), rate=rate)
        print(f"{share:.0%} load ({rate:.0f} requests/s): {outcome}")


def wait_until_ready() -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready", timeout=1)
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


async def load(rows: np.ndarray, budget_us: float | None, n_requests: int, rate: float | None) -> Outcome:
    """Send requests at a rate, or one after another; connections are opened as needed and reused."""
    message = request_bytes(rows, budget_us)
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    results: list[tuple[float, bytes]] = []

    async def send() -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", PORT)
        sent = time.perf_counter()
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.decode().splitlines() if line.lower().startswith("content-length:")
        )
        body = await reader.readexactly(length)
        results.append((1e6 * (time.perf_counter() - sent), body))  # parsed later: that would delay other requests
        idle.append((reader, writer))

    gaps = np.random.default_rng(0).exponential(1 / rate, n_requests) if rate else np.zeros(n_requests)
    begin, due_after, tasks = time.perf_counter(), np.cumsum(gaps), []
    for due in due_after:
        if rate is None:
            await send()
            continue
        await asyncio.sleep(max(begin + due - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(send()))
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, writer in idle:
        writer.close()
    answers = [(latency, json.loads(body)) for latency, body in results]
    outputs = [{o["name"]: o["data"] for o in answer["outputs"]} for _, answer in answers if "outputs" in answer]
    return Outcome(
        np.array([latency for latency, answer in answers if "outputs" in answer]),
        np.concatenate([o["steps"] for o in outputs]),
        np.concatenate([o["complete"] for o in outputs]),
        n_requests,
    )


def request_bytes(rows: np.ndarray, budget_us: float | None) -> bytes:
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    parameters = {} if budget_us is None else {"budget_us": budget_us}
    body = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    head = f"POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    main()
