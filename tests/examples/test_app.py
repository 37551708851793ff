"""The serving example: the protocol, budgets, metrics, bad requests, and clients that leave."""

import json
import socket
import threading
import time

import app as serve
import numpy as np
import pytest
import uvicorn
from fastapi import testclient

from support.anytime_oracle import anytime_of
from support.strategies import complete_forest

INFER = "/v2/models/model/infer"


@pytest.fixture(scope="module")
def predictor():
    return anytime_of(complete_forest(20, 6, 4, 3, classes=np.array(["a", "b", "c"])))


@pytest.fixture
def client(predictor):
    with testclient.TestClient(serve.create_app(predictor)) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def body(rows, **parameters):
    tensor = {"name": "rows", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return {"id": "7", "inputs": [tensor], "parameters": parameters}


def outputs(response):
    assert response.status_code == 200, response.text
    return {tensor["name"]: tensor for tensor in response.json()["outputs"]}


def test_what_the_server_says_of_itself(client, predictor):
    assert client.get("/v2").json()["name"] == "scurry"
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/model/ready"):
        assert client.get(path).status_code == 200
    said = client.get("/v2/models/model").json()
    assert said["inputs"][0]["shape"] == [-1, predictor.forest.n_features]
    for path in ("/v2/models/other", "/v2/models/other/ready"):
        unknown = client.get(path)
        assert unknown.status_code == 404
        assert "the model of this server is 'model'" in unknown.json()["error"]
    assert client.get(INFER).json() == {"error": f"GET {INFER}: Method Not Allowed"}


def test_only_the_outputs_asked_for(client, predictor, rows):
    asked = {"outputs": [{"name": "steps"}, {"name": "label"}]}
    got = outputs(client.post(INFER, json=body(rows) | asked))
    assert list(got) == ["steps", "label"]
    assert got["label"]["data"] == predictor.predict(rows).tolist()


def test_a_request_that_would_hold_up_all_others(client, rows, monkeypatch):
    monkeypatch.setattr(serve, "MAX_BYTES", 1000)
    refused = client.post(INFER, json=body(rows))
    assert refused.status_code == 413
    assert "at most 1,000 bytes; send fewer rows at once" in refused.json()["error"]
    assert outputs(client.post(INFER, json=body(rows[:1])))


def test_what_cannot_be_served_is_refused_at_the_start(predictor, tmp_path, monkeypatch, capsys):
    predictor.forest.save(tmp_path / "forest.scurry")
    (tmp_path / "model.json").write_text("{}")
    for name, said in (
        ("forest.scurry", "holds no anytime predictor; make one with scurry.anytime"),
        ("model.json", "not a readable .scurry file"),
        ("missing.scurry", "No such file"),
    ):
        monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / name)])
        with pytest.raises(SystemExit):
            serve.main()
        assert said in capsys.readouterr().err


def test_answers_are_the_predictors(client, predictor, rows):
    response = client.post(INFER, json=body(rows))
    got = outputs(response)
    assert response.json()["id"] == "7"
    assert got["label"]["data"] == predictor.predict(rows).tolist()
    assert all(got["complete"]["data"])
    assert set(got["stop_reason"]["data"]) == {"complete"}
    assert got["score"]["shape"] == [30, 3]
    np.testing.assert_array_equal(np.reshape(got["score"]["data"], (30, 3)), predictor.run(rows).scores)


def test_steps_are_limited(client, predictor, rows):
    got = outputs(client.post(INFER, json=body(rows, max_steps=17)))
    assert got["steps"]["data"] == [17] * len(rows)
    assert got["label"]["data"] == predictor.predict(rows, max_steps=17).tolist()
    assert set(got["stop_reason"]["data"]) == {"max_steps"}


def test_a_spent_budget_degrades_the_answer_and_is_counted(client, predictor, rows):
    got = outputs(client.post(INFER, json=body(rows, budget_us=1)))
    assert got["steps"]["data"] == [0] * len(rows)
    assert got["label"]["data"] == predictor.predict(rows, max_steps=0).tolist()
    outputs(client.post(INFER, json=body(rows, budget_us=1e9)))
    lines = client.get("/metrics").text.splitlines()
    counted = {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
    assert counted["scurry_degraded_answers_total"] == len(rows)
    assert counted["scurry_late_requests_total"] == 1
    assert counted['scurry_answers_total{stop_reason="complete"}'] == len(rows)
    assert counted["scurry_request_seconds_count"] == 2


def test_a_server_may_have_a_budget_for_all(predictor, rows):
    with testclient.TestClient(serve.create_app(predictor, default_budget_us=1)) as client:
        assert not any(outputs(client.post(INFER, json=body(rows)))["complete"]["data"])
        assert all(outputs(client.post(INFER, json=body(rows, budget_us=1e9)))["complete"]["data"])


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": "rows"},
        {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": "BYTES", "data": ["x"] * 4}]},
        {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3]}]},
        {"inputs": [{"name": "rows", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]},
        {"inputs": [{"name": "rows", "shape": [0, 4], "datatype": "FP32", "data": []}]},
        {"parameters": {"budget_us": "soon"}},
        {"parameters": {"budget_us": -1}},
        {"parameters": {"budget_us": None}},
        {"parameters": {"max_steps": -1}},
        {"parameters": [1]},
        {"parameters": {"budget": 5000}},
        {"outputs": [{"name": "colour"}]},
        {"outputs": ["label"]},
        {"outputs": 5},
        {"outputs": [{"name": ["label"]}]},
        {"outputs": {"name": "label"}},
    ],
)
def test_bad_requests_are_refused_with_a_reason(client, rows, change):
    response = client.post(INFER, json=body(rows) | change)
    assert response.status_code == 400
    assert response.json()["error"]
    assert outputs(client.post(INFER, json=body(rows)))


@pytest.mark.parametrize("content", ['{"inputs": [', "[" * 100_000, b"\xff"])
def test_what_is_not_json_is_refused(client, content):
    response = client.post(INFER, content=content)
    assert response.status_code == 400
    assert "not JSON" in response.json()["error"]


@pytest.mark.parametrize(("budget", "status"), [("NaN", 400), ("Infinity", 200), ("1" + 400 * "0", 200)])
def test_numbers_no_clock_has(client, rows, budget, status):
    content = json.dumps(body(rows, budget_us=7)).replace('"budget_us": 7', f'"budget_us": {budget}')
    assert client.post(INFER, content=content).status_code == status


def test_missing_values_pass(client, predictor, rows):
    holes = np.where(np.random.default_rng(1).random(rows.shape) < 0.3, np.nan, rows).astype(np.float32)
    got = outputs(client.post(INFER, content=json.dumps(body(holes))))
    assert got["label"]["data"] == predictor.predict(holes).tolist()


def test_clients_that_leave_do_not_disturb_others(predictor, rows):
    config = uvicorn.Config(serve.create_app(predictor), host="127.0.0.1", port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    content = json.dumps(body(np.tile(rows, (200, 1)))).encode()
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    try:
        for sent in (head, head + content[:100], head + content):
            with socket.create_connection(("127.0.0.1", port)) as gone:
                gone.sendall(sent)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stays:
            stays.sendall(head + content)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += stays.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200")
    finally:
        server.should_exit = True
        thread.join(timeout=30)
    assert not thread.is_alive()
