"""The server as a process: connections, refusals without parsing, signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import scurry
from scurry.serving import create_app, serve, server
from scurry.serving.server import is_whole_request
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest

INFER = "/v2/models/model/infer"
ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
PREDICTOR = anytime_of(complete_forest(20, 6, 4, 3, classes=np.array(["a", "b", "c"])))


def request(rows=ROWS, head="", **parameters):
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    body = json.dumps({"inputs": [tensor], "parameters": {"budget_us": 3.6e9} | parameters}).encode()
    return f"POST {INFER} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def read_answer(connection):
    """Return the status, the head and the body of the next answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(1 << 16)
        assert part, "the server closed the connection"
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
    while len(body) < length:
        body += connection.recv(1 << 16)
    assert len(body) == length
    return int(head.split()[1]), head.decode().lower(), body


class Process:
    """`scurry serve` in a process of its own."""

    def __init__(self, predictor, folder, *options):
        path = folder / "model.scurry"
        predictor.save(path)
        command = [sys.executable, "-c", "from scurry.cli import main; main()", "serve", str(path), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        )
        self.line = self.process.stdout.readline()
        assert self.line, self.process.stderr.read()
        self.port = int(self.line.split(":")[2].split("/")[0])

    def __enter__(self):
        return self

    def end(self):
        """Send SIGTERM; return what the process wrote to stderr."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=60)[1]

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def test_a_process_serves_and_ends_without_a_word(tmp_path):
    with Process(PREDICTOR, tmp_path) as serving:
        assert serving.line.startswith("Serving model.scurry at http://127.0.0.1:")
        with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/v2/health/ready", timeout=60) as ready:
            assert ready.status == 200
        with connect(serving.port) as client:
            client.sendall(request())
            status, _, body = read_answer(client)
            assert status == 200
            assert json.loads(body)["outputs"][0]["data"] == PREDICTOR.predict(ROWS).tolist()
        assert serving.end() == ""


def test_sigterm_lets_waiting_requests_finish(tmp_path):
    """Many rows, so that requests wait when the signal comes."""
    rows = np.tile(ROWS, (300, 1))
    with Process(PREDICTOR, tmp_path) as serving:
        clients = [connect(serving.port) for _ in range(5)]
        for client in clients:
            client.sendall(request(rows))
        with connect(serving.port) as prober:  # answered after the others have been read
            prober.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            read_answer(prober)
        serving.process.send_signal(signal.SIGTERM)
        answers = [read_answer(client) for client in clients]
        assert [status for status, _, _ in answers] == [200] * 5
        assert json.loads(answers[0][2])["outputs"][0]["data"] == PREDICTOR.predict(rows).tolist()
        assert serving.process.communicate(timeout=60)[1] == ""


def test_clients_that_leave_do_not_disturb_others_nor_the_log(tmp_path):
    whole = request(np.tile(ROWS, (200, 1)))
    head = whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    with Process(PREDICTOR, tmp_path) as serving:
        for sent in (b"", b"POST", head, head + b"{", whole, b"\x16\x03\x01 no HTTP at all\r\n\r\n") * 5:
            with connect(serving.port) as gone:
                gone.sendall(sent)
        with connect(serving.port) as stays:
            stays.sendall(whole)
            assert read_answer(stays)[0] == 200
        assert serving.end() == ""


def test_overload_in_short(tmp_path):
    """Far more than may wait: everything is answered or refused, and the next request is served."""
    statuses, rows = [], np.tile(ROWS, (20, 1))
    with Process(PREDICTOR, tmp_path, "--max-waiting", "4") as serving:

        def client():
            with connect(serving.port) as connection:
                for _ in range(10):
                    connection.sendall(request(rows))
                    status, head, _ = read_answer(connection)
                    assert ("retry-after: 1" in head) == (status == 503)
                    statuses.append(status)

        threads = [threading.Thread(target=client) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert len(statuses) == 240
        assert set(statuses) == {200, 503}
        with connect(serving.port) as connection:
            connection.sendall(request())
            assert read_answer(connection)[0] == 200
        assert serving.end() == ""


class TestRefusalsWithoutParsing:
    """The protocol of the server, while the queue of its application is full."""

    class Transport:
        def __init__(self):
            self.written, self.closed = b"", False

        def write(self, data):
            self.written += data

        def close(self):
            self.closed = True

    @pytest.fixture
    def connection(self, monkeypatch):
        passed = []

        class Protocol:
            cycle, loop = None, type("Loop", (), {"call_soon": lambda *_: None})()

            def data_received(self, data):
                passed.append(data)

        monkeypatch.setattr("uvicorn.protocols.http.auto.AutoHTTPProtocol", Protocol)
        app = create_app(PREDICTOR, max_waiting=1)
        connection = server._protocol_of(app)()
        connection.transport, connection.passed, connection.app = self.Transport(), passed, app
        return connection

    def test_a_free_queue_passes_everything_on(self, connection):
        connection.data_received(request())
        assert connection.passed == [request()]
        assert connection.transport.written == b""

    def test_a_full_queue_refuses_at_once(self, connection):
        connection.app.scorer.n_waiting = 1
        connection.data_received(request())
        connection.data_received(request())
        assert connection.passed == []
        assert connection.transport.written.count(b"HTTP/1.1 503 Service Unavailable\r\n") == 2
        assert connection.transport.written.count(b"retry-after: 1\r\n") == 2
        assert not connection.transport.closed
        connection.data_received(request(head="Connection: close\r\n"))
        assert connection.transport.closed

    def test_health_and_metrics_are_answered_all_the_same(self, connection):
        connection.app.scorer.n_waiting = 1
        connection.data_received(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(connection.passed) == 1

    def test_a_part_of_a_body_is_never_taken_for_a_request(self, connection):
        """Its answer would be taken for that of the next request on this connection."""
        outer = request()
        connection.data_received(outer[:-20])
        connection.app.scorer.n_waiting = 1
        connection.data_received(request())
        assert connection.transport.written == b""
        assert connection.passed == [outer[:-20], request()]

    def test_a_request_behind_an_unanswered_one_waits_for_its_turn(self, connection):
        connection.app.scorer.n_waiting = 1
        connection.cycle = type("Cycle", (), {"response_complete": False, "more_body": False})()
        connection.data_received(request())
        assert connection.transport.written == b""
        connection.cycle.response_complete = True
        connection.data_received(request())
        assert connection.transport.written.startswith(b"HTTP/1.1 503")

    def test_a_round_that_reads_for_too_long_refuses_the_rest(self, connection, monkeypatch):
        ends = []
        connection.loop = type("Loop", (), {"call_soon": lambda self, callback: ends.append(callback)})()
        now = time.perf_counter()
        monkeypatch.setattr(server.time, "perf_counter", lambda: now)
        for _ in range(16):
            now += 1.0
            connection.data_received(request())
        assert connection.transport.written == b""
        connection.data_received(request())
        assert connection.transport.written.startswith(b"HTTP/1.1 503")
        ends.pop()()
        connection.data_received(request())
        assert len(connection.passed) == 17
        assert len(ends) == 1


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nmore", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n{}", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\r\nContent-Length : 2\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\nContent-Length: 2\n\nGET /\r\n\r\n{}", False),
        (b"POST / HTTP/1.1\rContent-Length: 2\r\n\r\n", False),
    ],
)
def test_whole_requests(data, whole):
    assert is_whole_request(data) is whole


def test_a_port_in_use(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(scurry.errors.InputError) as caught:
        serve(PREDICTOR, port=taken.getsockname()[1])
    assert "cannot listen on 127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host.invalid", 0), ("127.0.0.1", "x")])
def test_addresses_that_are_none(host, port):
    with pytest.raises(scurry.errors.InputError, match="cannot listen on"):
        serve(PREDICTOR, host=host, port=port)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(scurry.errors.MissingDependencyError, match=r'pip install "scurry\[serve\]"'):
        serve(PREDICTOR)


def test_serving_needs_neither_scipy_nor_sklearn(tmp_path):
    """The image of the Dockerfile has neither."""
    PREDICTOR.save(tmp_path / "model.scurry")
    program = (
        "import sys\n"
        "for name in ('scipy', 'sklearn', 'pandas', 'pyarrow', 'joblib', 'threadpoolctl'): sys.modules[name] = None\n"
        "import scurry.serving.server as server\n"
        "server._listen = lambda *_: (_ for _ in ()).throw(SystemExit(7))\n"
        "from scurry.cli import main\n"
        f"main(['serve', {str(tmp_path / 'model.scurry')!r}])\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7


def test_the_image_installs_what_serving_needs():
    top = Path(__file__).parents[2]
    project = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"\.whl\)\[([\w,]+)\]", (top / "Dockerfile").read_text())
    assert extras is not None
    installed = [*project["dependencies"]]
    for name in extras[1].split(","):
        installed += project["optional-dependencies"][name]
    assert {*project["optional-dependencies"]["serve"], *project["optional-dependencies"]["cli"]} <= {*installed}
    assert not [name for name in installed if name.startswith(("scipy", "scikit-learn", "threadpoolctl"))]


def test_a_watch_is_saved_when_the_server_ends(tmp_path):
    fast = scurry.early_exit(complete_forest(20, 4, 4, 2), promise=scurry.promises.Certain())
    state = tmp_path / "state.scurry-watch"
    for n_rows in (30, 60):  # the second process goes on
        with Process(fast, tmp_path, "--watch", str(state), "--share", "1") as running:
            with connect(running.port) as connection:
                connection.sendall(request())
                assert read_answer(connection)[0] == 200
            assert running.end() == ""
        assert scurry.monitoring.read([state]).n_rows == n_rows


def test_a_watch_is_saved_from_time_to_time(tmp_path, monkeypatch):
    watch = scurry.watch(scurry.early_exit(complete_forest(9, 4, 4, 2), promise=scurry.promises.Certain()), share=1.0)
    monkeypatch.setattr(server, "_SAVE_EVERY_S", 0.01)
    path = tmp_path / "state"
    with server._saving(watch, path):
        watch.predict(ROWS)
        end = time.monotonic() + 30
        while scurry.monitoring.read([path]).n_rows == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert scurry.monitoring.read([path]).n_rows == 30
        watch.predict(ROWS)
    assert scurry.monitoring.read([path]).n_rows == 60
    with pytest.raises(scurry.errors.InputError, match="watch_path is for a Watch"):
        serve(watch.predictor, port=0, watch_path=path)
