"""The application: the protocol, budgets, metrics, and requests that no client should send.

The server as a process: connections, refusals without parsing, signals.
"""

import asyncio
import functools
import json
import logging
import math
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

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.serving import app as module
from scurry.serving import create_app, serve
from scurry.serving.app import is_whole_request
from scurry.serving.model import DATATYPES
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest

INFER = "/v2/models/model/infer"
ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
PREDICTOR = anytime_of(complete_forest(20, 6, 4, 3, classes=np.array(["a", "b", "c"])))
AN_HOUR = 3.6e9  # tests run on busy machines


def body(rows=ROWS, **parameters):
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return {"id": "7", "inputs": [tensor], "parameters": {"budget_us": AN_HOUR} | parameters}


def call(app, *requests):
    """Send requests one after another; return their responses, or the one response."""

    async def send():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x", timeout=60) as client:
            return [await client.request(method, path, **options) for method, path, options in requests]

    responses = asyncio.run(send())
    return responses if len(responses) > 1 else responses[0]


def post(given, **options):
    # The json of httpx refuses NaN.
    return "POST", INFER, {"content": given if isinstance(given, str | bytes) else json.dumps(given)} | options


def get(path):
    return "GET", path, {}


def outputs(response):
    assert response.status_code == 200, response.text
    return {tensor["name"]: tensor for tensor in response.json()["outputs"]}


def count(app):
    lines = call(app, get("/metrics")).text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


@pytest.fixture
def app():
    return create_app(PREDICTOR)


def test_what_the_server_says_of_itself(app):
    about, said = call(app, get("/v2"), get("/v2/models/model"))
    assert about.json()["name"] == "scurry"
    assert said.json()["inputs"][0]["shape"] == [-1, 4]
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/model/ready"):
        assert call(app, get(path)).status_code == 200
        assert call(app, ("HEAD", path, {})).status_code == 200
    for path in ("/v2/models/other", "/v2/models/other/ready"):
        unknown = call(app, get(path))
        assert unknown.status_code == 404
        assert "the model of this server is 'model'" in unknown.json()["error"]
    wrong = call(app, get(INFER))
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"
    assert "use POST" in wrong.json()["error"]


def test_answers_are_the_predictors(app):
    response = call(app, post(body() | {"outputs": [{"name": n} for n in ("label", "complete", "score", "steps")]}))
    got = outputs(response)
    assert response.json()["id"] == "7"
    assert list(got) == ["label", "complete", "score", "steps"]
    assert got["label"]["data"] == PREDICTOR.predict(ROWS).tolist()
    assert all(got["complete"]["data"])
    np.testing.assert_array_equal(np.reshape(got["score"]["data"], (30, 3)), PREDICTOR.run(ROWS).scores)


def test_numbers_come_back_as_numbers():
    app = create_app(complete_forest(20, 6, 4, 3))
    assert (
        outputs(call(app, post(body())))["label"]["data"]
        == PREDICTOR.forest.replace(classes=np.arange(3)).predict(ROWS).tolist()
    )
    regressor = complete_forest(20, 6, 4, 1)
    assert outputs(call(create_app(regressor), post(body())))["prediction"] == {
        "name": "prediction",
        "datatype": "FP64",
        "shape": [30],
        "data": regressor.predict(ROWS).tolist(),
    }


def test_steps_are_limited(app):
    got = outputs(call(app, post(body(max_steps=17))))
    assert got["steps"]["data"] == [17] * len(ROWS)
    assert got["label"]["data"] == PREDICTOR.predict(ROWS, max_steps=17).tolist()
    refused = call(app, post(body(max_steps=0)))
    assert refused.status_code == 400
    assert "max_steps must be a whole number of at least 12, got 0 (min_steps of this server)" in refused.text


def test_a_budget_that_is_over_at_once_is_refused_and_not_answered_without_steps(app):
    refused = call(app, post(body(budget_us=1e-3)))
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert "this machine still needs more than 0.001 µs for 30 rows" in refused.json()["error"]
    assert sum(n for name, n in count(app).items() if name.startswith("scurry_refused_requests_total")) == 1


def test_metrics(app, monkeypatch):
    # Rows that have no time at all, in a request that has plenty.
    monkeypatch.setattr(app.scorer, "_seconds_per_row", lambda job, now: 0.0)
    outputs(call(app, post(body())))
    monkeypatch.undo()
    outputs(call(app, post(body())))
    counted = count(app)
    assert counted["scurry_degraded_answers_total"] == len(ROWS)
    assert counted['scurry_answers_total{stop_reason="complete"}'] == len(ROWS)
    assert counted['scurry_answers_total{stop_reason="time"}'] == len(ROWS)
    assert counted["scurry_late_requests_total"] == 0
    assert counted["scurry_request_seconds_count"] == 2
    assert counted["scurry_waiting_requests"] == 0


def test_an_early_exit_is_not_degraded():
    X = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    source = RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, X[:, 0] > 0)
    app = create_app(scurry.early_exit(source, X, max_disagreement=0.1, random_state=0))
    assert not all(outputs(call(app, post(body())))["complete"]["data"])
    assert count(app)["scurry_degraded_answers_total"] == 0


def test_unknown_categories_are_counted_and_reported():
    forest = complete_forest(5, 4, 1).replace(feature_names=["town"], categories={0: ["Oslo", "Rome"]})
    app = create_app(forest)
    tensor = {"name": "town", "shape": [3], "datatype": "BYTES", "data": ["Mars", "Rome", None]}
    answer = call(app, post({"inputs": [tensor]}))
    assert answer.json()["parameters"] == {"unknown_categories": 1}
    assert count(app)['scurry_unknown_categories_total{column="town"}'] == 1
    known = call(app, post({"inputs": [tensor | {"data": ["Oslo", "Rome", None]}]}))
    assert "parameters" not in known.json()


def test_beyond_the_bound_requests_are_refused_before_they_are_read(app, monkeypatch):
    monkeypatch.setattr(app.scorer, "n_waiting", app.scorer.max_waiting)
    refused = call(app, post("this is not even JSON"))
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    monkeypatch.undo()
    assert count(app)['scurry_refused_requests_total{reason="queue"}'] == 1
    assert outputs(call(app, post(body())))


def test_many_at_once_are_answered_or_refused(app):
    """More than may wait, at the same time."""
    app = create_app(PREDICTOR, max_waiting=5)

    async def send():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x", timeout=60) as client:
            return await asyncio.gather(*(client.post(INFER, content=json.dumps(body())) for _ in range(40)))

    responses = asyncio.run(send())
    statuses = [response.status_code for response in responses]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 5
    assert all(response.headers["retry-after"] == "1" for response in responses if response.status_code == 503)
    assert app._n_bytes == 0
    assert outputs(call(app, post(body())))


def test_a_request_that_would_hold_up_all_others(app, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    refused, served = call(app, post(body()), post(body(ROWS[:1])))
    assert refused.status_code == 413
    assert "at most 1,000 bytes; send fewer rows at once" in refused.json()["error"]
    assert outputs(served)
    assert app._n_bytes == 0


def test_all_waiting_requests_together_are_limited(app, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES_AT_ONCE", 1000)
    assert call(app, post(body())).status_code == 503
    assert app._n_bytes == 0


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": "rows"},
        {"inputs": None},
        {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": ["FP64"], "data": [1, 2, 3, 4]}]},
        {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": {}, "data": [1, 2, 3, 4]}]},
        {"inputs": [{"name": "rows", "shape": [2**62, 2**62], "datatype": "FP32", "data": [1]}]},
        {"inputs": [{"name": "\ud800", "shape": [1], "datatype": "FP\ud800", "data": [1]}]},
        {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": "FP32", "data": [[[[1]]], 2, 3, 4]}]},
        {"parameters": {"budget_us": "soon"}},
        {"parameters": {"budget_us": -1}},
        {"parameters": {"budget_us": 0}},
        {"parameters": {"budget_us": None}},
        {"parameters": {"budget_us": True}},
        {"parameters": {"budget_us": math.nan}},
        {"parameters": {"max_steps": -1}},
        {"parameters": {"max_steps": 20.5}},
        {"parameters": [1]},
        {"parameters": {"budget": 5000}},
        {"parameters": {"\ud800": 5000}},
        {"outputs": [{"name": "colour"}]},
        {"outputs": [{"name": "\ud800"}]},
        {"outputs": ["label"]},
        {"outputs": 5},
        {"outputs": [{"name": ["label"]}]},
        {"outputs": {"name": "label"}},
        {"id": 5},
        {"id": None},
    ],
)
def test_bad_requests_are_refused_with_a_reason(app, change, caplog):
    refused, served = call(app, post(body() | change), post(body()))
    assert refused.status_code == 400
    assert refused.json()["error"]
    assert outputs(served)
    assert not caplog.records


@pytest.mark.parametrize(
    "content", ['{"inputs": [', "[" * 100_000, b"\xff", b"", "null", "[]", "1" * 5000, '"\\ud800"']
)
def test_what_is_no_request_is_refused(app, content):
    response = call(app, post(content))
    assert response.status_code == 400
    assert response.json()["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.sampled_from(["FP32", "BYTES", "INT64", "rows", "town", "label", 1, 2, 10**400]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "data"]), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip
TENSORS = st.fixed_dictionaries(
    {"name": st.sampled_from(["town", "age", "rows"]) | JSON, "datatype": st.sampled_from(DATATYPES) | JSON},
    optional={"shape": st.lists(st.integers(-1, 3), max_size=3) | JSON, "data": st.lists(JSON, max_size=4) | JSON},
)
BODIES = st.fixed_dictionaries(
    {"inputs": st.lists(TENSORS | JSON, max_size=3) | JSON},
    optional={
        "parameters": st.dictionaries(st.sampled_from(["budget_us", "max_steps"]), JSON) | JSON,
        "outputs": JSON,
        "id": JSON,
    },
)
FUZZED = complete_forest(5, 4, 2, 3).replace(feature_names=["town", "age"], categories={0: ["Oslo", "Rome"]})


@settings(deadline=None)
@given(given_body=BODIES | JSON)
def test_nothing_that_a_client_sends_is_a_failure_of_the_server(given_body):
    response = call(fuzzed_app(), post(json.dumps(given_body)))
    assert response.status_code in (200, 400, 503), (given_body, response.text)


@settings(deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.binary(max_size=5)), min_size=1, max_size=4))
def test_nor_is_a_damaged_request(cuts):
    content = json.dumps(body(ROWS[:4])).encode()
    for start, n, put in cuts:
        content = content[:start] + put + content[start + n :]
    assert call(fuzzed_app(), post(content)).status_code in (200, 400, 503)


@functools.cache
def fuzzed_app():
    return create_app(FUZZED)


def test_what_an_id_holds_comes_back(app):
    response = call(app, post(body() | {"id": "\ud800 ü"}))
    assert response.status_code == 200
    assert json.loads(response.text)["id"] == "\ud800 ü"


@pytest.mark.parametrize("budget", ["Infinity", "1" + 400 * "0"])
def test_budgets_no_clock_has(app, budget):
    content = json.dumps(body(budget_us=7)).replace('"budget_us": 7', f'"budget_us": {budget}')
    assert outputs(call(app, post(content)))


def test_missing_and_infinite_values_pass(app):
    holes = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.3, np.nan, ROWS).astype(np.float32)
    holes[0, 0], holes[1, 1] = np.inf, -np.inf
    assert outputs(call(app, post(body(holes))))["label"]["data"] == PREDICTOR.predict(holes).tolist()


def test_limits_of_steps_belong_to_anytime_plans():
    refused = call(create_app(complete_forest(20, 6, 4, 3)), post(body(max_steps=50)))
    assert refused.status_code == 400
    assert "max_steps needs an anytime plan" in refused.json()["error"]


def test_a_failure_of_the_server_is_logged_and_answered(app, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(app.model, "score", fail)
    with caplog.at_level(logging.ERROR):
        response = call(app, post(body()))
    assert response.status_code == 500
    assert "broken" not in response.text
    assert "broken" in caplog.text


class TestConnections:
    """Clients that leave or dawdle, as a server reports them."""

    @staticmethod
    def run(app, messages, before_next=lambda: None):
        """Call the application with messages of a client; return what it sent."""
        sent = []

        async def receive():
            before_next()
            if messages:
                return messages.pop(0)
            return await asyncio.Future()

        async def send(message):
            sent.append(message)

        async def call_it():
            await app({"type": "http", "method": "POST", "path": INFER}, receive, send)

        asyncio.run(call_it())
        return sent

    def test_a_client_that_leaves_in_the_middle_of_a_body(self, app, caplog):
        part = {"type": "http.request", "body": b'{"inputs"', "more_body": True}
        assert self.run(app, [part, {"type": "http.disconnect"}]) == []
        assert not caplog.records
        assert app._n_bytes == 0
        assert count(app)["scurry_left_requests_total"] == 1

    def test_a_client_that_leaves_while_it_waits(self, app, caplog):
        whole = {"type": "http.request", "body": json.dumps(body(np.tile(ROWS, (200, 1)))).encode()}
        assert self.run(app, [whole, {"type": "http.disconnect"}]) == []
        assert app._n_bytes == 0
        assert app.scorer.n_waiting == 0
        assert not caplog.records
        assert count(app)["scurry_left_requests_total"] == 1

    def test_the_budget_of_a_slow_client_begins_with_its_last_byte(self, app, monkeypatch):
        happened, arrival = [], app.scorer.earliest_arrival
        monkeypatch.setattr(app.scorer, "earliest_arrival", lambda: happened.append("arrival") or arrival())
        content = json.dumps(body()).encode()
        parts = [{"type": "http.request", "body": content[:9], "more_body": True}]
        parts += [{"type": "http.request", "body": content[9:]}]
        assert self.run(app, parts, lambda: happened.append("read"))[0]["status"] == 200
        assert happened[:3] == ["read", "read", "arrival"]

    def test_a_client_that_never_finishes(self, app, monkeypatch):
        monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.05)
        sent = self.run(app, [{"type": "http.request", "body": b'{"inputs"', "more_body": True}])
        assert sent[0]["status"] == 408
        assert app._n_bytes == 0

    def test_other_protocols(self, app):
        async def call_it():
            await app({"type": "websocket"}, None, None)

        with pytest.raises(NotImplementedError):
            asyncio.run(call_it())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "model.scurry"}, "model must be a Forest, a Predictor or a Watch"),
        ({"name": "a/b"}, "name must consist of letters"),
        ({"name": ""}, "name must consist of letters"),
        ({"budget_us": 0}, "budget_us must be a number above 0"),
        ({"budget_us": math.inf}, "budget_us must be a number above 0"),
        ({"max_waiting": 0}, "max_waiting must be a whole number of at least 1"),
        ({"min_steps": 0}, "min_steps must be a whole number of at least 1"),
    ],
)
def test_options_that_cannot_be(options, said):
    with pytest.raises(InputError, match=said):
        create_app(**{"model": PREDICTOR} | options)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(scurry.errors.MissingDependencyError, match=r'pip install "scurry\[serve\]"'):
        create_app(PREDICTOR)


def test_a_watch_counts_what_is_answered():
    fast = scurry.early_exit(complete_forest(20, 4, 4, 2), promise=scurry.promises.Certain())
    watch = scurry.watch(fast, share=1.0)
    app = create_app(watch)
    assert watch.state.n_rows == 0  # rows that time the model are nobody's
    answer = call(app, post(body() | {"outputs": [{"name": "label"}, {"name": "probability"}]}))
    assert outputs(answer)["label"]["data"] == fast.predict(ROWS).tolist()
    state = call(app, get("/v2/models/model/watch")).json()
    assert (state["n_rows"], state["n_shadow"], state["n_changed"], state["alarm"]) == (30, 30, 0, False)
    counted = count(app)
    assert (counted["scurry_watch_rows"], counted["scurry_watch_shadow_rows"]) == (30, 30)
    assert (counted["scurry_watch_alarm"], counted["scurry_watch_rate_promised"]) == (0, 0)
    assert call(create_app(fast), get("/v2/models/model/watch")).status_code == 404
    assert "scurry_watch_rows" not in count(create_app(fast))


def test_an_alarm_is_among_the_metrics():
    fast = scurry.early_exit(complete_forest(20, 4, 4, 2), promise=scurry.promises.Certain())
    watch = scurry.watch(fast, share=1.0, on_alarm="full")
    watch._record.add(0, [np.array([0, 1])], 0.0)
    counted = count(create_app(watch))
    assert (counted["scurry_watch_alarm"], counted["scurry_watch_change"]) == (1, 1)
    assert counted["scurry_watch_e_value"] == math.inf


def test_promises_that_need_more_than_rows_are_not_watched_here():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + rng.normal(size=900) > 0).astype(int)
    model = RandomForestClassifier(9, max_depth=3, random_state=0).fit(X[:200], y[:200])
    fast = scurry.early_exit(model, X[200:], y[200:], promise=scurry.promises.Accuracy(0.05), random_state=0)
    with pytest.raises(InputError, match="labels or groups"):
        create_app(scurry.watch(fast))


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
        connection = module._protocol_of(app)()
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
        monkeypatch.setattr(module.time, "perf_counter", lambda: now)
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


def test_server_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(scurry.errors.MissingDependencyError, match=r'pip install "scurry\[serve\]"'):
        serve(PREDICTOR)


def test_serving_needs_neither_scipy_nor_sklearn(tmp_path):
    """The image of the Dockerfile has neither."""
    PREDICTOR.save(tmp_path / "model.scurry")
    program = (
        "import sys\n"
        "for name in ('scipy', 'sklearn', 'pandas', 'pyarrow', 'joblib', 'threadpoolctl'): sys.modules[name] = None\n"
        "import scurry.serving.app as server\n"
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
    monkeypatch.setattr(module, "_SAVE_EVERY_S", 0.01)
    path = tmp_path / "state"
    with module._saving(watch, path):
        watch.predict(ROWS)
        end = time.monotonic() + 30
        while scurry.monitoring.read([path]).n_rows == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert scurry.monitoring.read([path]).n_rows == 30
        watch.predict(ROWS)
    assert scurry.monitoring.read([path]).n_rows == 60
    with pytest.raises(scurry.errors.InputError, match="watch_path is for a Watch"):
        serve(watch.predictor, port=0, watch_path=path)
