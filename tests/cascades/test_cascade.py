"""Cascade: who answers which row, and what a file holds.

Cheap models of several sizes.
"""

import copy
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.cascades import Cascade
from scurry.cascades.cascade import Expensive, ask_cheap, check_answers, find_lead
from scurry.errors import FormatError, InputError
from scurry.verbs.options import with_threshold

NUMPY_ALONE = Path(__file__).parents[1] / "support" / "numpy_alone.py"
X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, "yes", "no")
CHEAP = scurry.Predictor.full(scurry.from_model(GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X, Y)))
NUMBERS = np.arange(20.0).reshape(10, 2)
ROWS = np.array([1, 4, 7, 8, 9])
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(400, 4)).astype(np.float32)
TWO, THREE = (POINTS[:, 0] + POINTS[:, 1] > 0).astype(int), np.digitize(POINTS[:, 0], [-0.5, 0.5])


def answer(rows):
    return np.where(rows[:, 1] > 0, "perhaps", "no")


@pytest.fixture
def cascade():
    return scurry.Cascade(CHEAP, answer, 0.45)


def test_sure_rows_stay_and_the_others_are_passed_on(cascade):
    run = cascade.run(X)
    lead = np.abs(np.diff(CHEAP.predict_proba(X), axis=1)[:, 0])
    np.testing.assert_array_equal(run.passed_on, lead <= 0.45)
    assert 0 < run.share_passed_on < 1
    np.testing.assert_array_equal(run.labels, np.where(run.passed_on, answer(X), CHEAP.predict(X)))
    np.testing.assert_array_equal(cascade.predict(X, batch_size=7), run.labels)
    np.testing.assert_array_equal(cascade.passes_on(X), run.passed_on)
    assert "perhaps" in run.labels  # longer than any label of the cheap model
    assert repr(run).startswith("CascadeRun(n_rows=200, passed_on=")


def test_one_row_may_come_without_a_table(cascade):
    for row in X[:20]:
        assert cascade.predict(row).tolist() == cascade.predict(row[None]).tolist()


def test_no_rows_and_rows_that_all_stay_never_call_the_expensive_model():
    alone = scurry.Cascade(CHEAP, None, -1.0)
    np.testing.assert_array_equal(alone.predict(X), CHEAP.predict(X))
    assert len(scurry.Cascade(CHEAP, None, 1.0).predict(X[:0])) == 0


def test_without_the_expensive_model_rows_to_pass_on_raise_an_error(cascade):
    alone = scurry.Cascade(CHEAP, None, 0.45)
    n_passed = int(cascade.passes_on(X).sum())
    with pytest.raises(InputError, match=rf"{n_passed} of 200 rows must be passed on .* does not have"):
        alone.predict(X)
    np.testing.assert_array_equal(alone.predict(X, recorded=answer(X)), cascade.predict(X))
    with pytest.raises(InputError, match=r"must have shape \(200,\), got \(3,\)"):
        alone.predict(X, recorded=["no"] * 3)


def test_a_file_has_everything_but_the_expensive_model(cascade, tmp_path):
    cascade.save(tmp_path / "both.scurry")
    again = scurry.Cascade.load(tmp_path / "both.scurry", answer)
    np.testing.assert_array_equal(again.predict(X), cascade.predict(X))
    assert again.min_certainty == 0.45
    assert again.certificate is None
    assert scurry.Cascade.load(tmp_path / "both.scurry").expensive is None
    with pytest.raises(FormatError, match=r"holds a cascade; use scurry\.Cascade\.load"):
        scurry.load(tmp_path / "both.scurry")
    CHEAP.save(tmp_path / "cheap.scurry")
    with pytest.raises(FormatError, match="holds a predictor, not a cascade"):
        scurry.Cascade.load(tmp_path / "cheap.scurry")


def test_damaged_files_raise_format_errors(cascade, tmp_path):
    path = tmp_path / "both.scurry"
    cascade.save(path)
    data = path.read_bytes()
    for at in range(0, len(data), len(data) // 60):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            scurry.Cascade.load(path, answer)
        except FormatError:
            continue


def test_a_loaded_cascade_needs_numpy_alone(cascade, tmp_path):
    cascade.save(tmp_path / "both.scurry")
    np.save(tmp_path / "rows.npy", X)
    program = (
        f"import runpy, sys; sys.meta_path.insert(0, runpy.run_path({str(NUMPY_ALONE)!r})['Blocker']())\n"
        "import numpy, scurry\n"
        f"both = scurry.Cascade.load({str(tmp_path / 'both.scurry')!r}, lambda rows: ['maybe'] * len(rows))\n"
        f"print((both.predict(numpy.load({str(tmp_path / 'rows.npy')!r})) == 'maybe').sum())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert int(result.stdout) == cascade.passes_on(X).sum()


def test_a_regressor_has_a_router(tmp_path):
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0])
    router = scurry.from_model(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, X[:, 1] > 0))
    both = scurry.Cascade(
        scurry.Predictor.full(scurry.from_model(model)), lambda rows: rows[:, 2].astype(float), 0.5, router=router
    )
    run = both.run(X)
    np.testing.assert_array_equal(run.passed_on, router.predict_proba(X)[:, 1] >= 0.5)
    np.testing.assert_array_equal(run.labels[run.passed_on], X[run.passed_on, 2])
    both.save(tmp_path / "both.scurry")
    np.testing.assert_array_equal(scurry.Cascade.load(tmp_path / "both.scurry", both.expensive).predict(X), run.labels)


@pytest.mark.parametrize(
    ("wrong", "message"), [({"batch_size": 0}, "batch_size must be"), ({"progress": 3}, "progress must be")]
)
def test_misuse(cascade, wrong, message):
    with pytest.raises(InputError, match=message):
        cascade.run(X, **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cheap": CHEAP.forest}, "cheap must be a Predictor"),
        ({"min_certainty": 1.5}, "min_certainty must be a number from -1"),
        ({"min_certainty": 10**400}, "min_certainty must be a number from -1"),
        ({"router": CHEAP.forest}, "router is for regressors"),
    ],
)
def test_parts_that_make_no_cascade(wrong, message):
    with pytest.raises(InputError, match=message):
        scurry.Cascade(**({"cheap": CHEAP, "expensive": None, "min_certainty": 0.5} | wrong))


def test_what_a_cascade_cannot_do_names_the_way_out(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    forest = scurry.from_model(RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0))
    both = Cascade(scurry.Predictor.full(forest), None, 0.5)
    assert not hasattr(both, "predict_proba")
    with pytest.raises(AttributeError, match=r"cascade\.cheap\.predict_proba"):
        both.predict_proba(X)
    with pytest.raises(InputError, match="random share of the rows that it keeps"):
        scurry.watch(both)
    with pytest.raises(InputError, match=r"call cascade\.predict\(part\)"):
        scurry.batch.Scoring(predictor=both)
    with pytest.raises(InputError, match=r"cascade\.summary\(\)"):
        scurry.report.write(both, tmp_path / "page.html", X)
    assert copy.copy(both).min_certainty == 0.5


class Model:
    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_it_is_called_in_batches():
    sizes, done = [], []

    def call(rows):
        sizes.append(len(rows))
        return rows[:, 0]

    expensive = Expensive(call)
    found = expensive.answer(NUMBERS, ROWS, 2, lambda *progress: done.append(progress))
    np.testing.assert_array_equal(found, NUMBERS[ROWS, 0])
    assert sizes == [2, 2, 1]
    assert done == [(2, 5), (4, 5), (5, 5)]
    assert expensive.us_per_row > 0
    assert Expensive(call).us_per_row is None


class _Answering(BaseHTTPRequestHandler):
    sizes: list[int]

    def do_POST(self):
        rows = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.sizes.append(len(rows))
        self.send_response(200 if self.path == "/labels" else 503)
        self.end_headers()
        self.wfile.write(json.dumps(answer(rows).tolist()).encode())

    def log_message(self, *_):
        pass


def test_a_client_of_a_server_may_be_the_expensive_model(cascade, tmp_path):
    sizes = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answering", (_Answering,), {"sizes": sizes}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def client(path):
        def ask(rows):
            address = f"http://127.0.0.1:{server.server_port}{path}"
            with urllib.request.urlopen(address, data=json.dumps(rows.tolist()).encode(), timeout=20) as response:
                return json.load(response)

        return ask

    try:
        cascade.save(tmp_path / "front.scurry")
        both = Cascade.load(tmp_path / "front.scurry", client("/labels"))
        run = both.run(X, batch_size=32)
        np.testing.assert_array_equal(run.labels, cascade.run(X).labels)
        assert sum(sizes) == run.passed_on.sum() > 32
        assert max(sizes) == 32
        with pytest.raises(urllib.error.HTTPError, match="503"):  # as the client raises it
            Cascade.load(tmp_path / "front.scurry", client("/busy")).predict(X)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_models_and_functions_answer_and_arrays_do_not():
    np.testing.assert_array_equal(Expensive(Model()).answer(NUMBERS, ROWS, None), NUMBERS[ROWS, 0])
    assert not Expensive(np.zeros(3)).can_answer
    assert not Expensive(None).can_answer
    assert Expensive(["a", "b"]).read_recorded(2, "X_cal").tolist() == ["a", "b"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_passed_on_as_frames(library):
    frame = pytest.importorskip(library).DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]})
    seen = []

    def call(rows):
        seen.append(type(rows))
        return rows["a"].to_numpy()

    np.testing.assert_array_equal(Expensive(call).answer(frame, ROWS, 3), NUMBERS[ROWS, 0])
    assert set(seen) == {type(frame)}


def test_answers_must_be_one_for_each_row():
    assert check_answers(np.array([["a"], ["b"]]), 2, "it").tolist() == ["a", "b"]
    assert check_answers(np.array(["a", "bc"], object), 2, "it").dtype == "<U2"
    with pytest.raises(InputError, match=r"it must have shape \(2,\), got \(3,\)"):
        check_answers([1, 2, 3], 2, "it")
    with pytest.raises(InputError, match="pass labels, not probabilities"):
        check_answers(np.ones((2, 2)), 2, "it")


@pytest.mark.parametrize("y", [TWO, THREE])
@pytest.mark.parametrize(
    "model", [RandomForestClassifier(7, max_depth=4, random_state=0), GradientBoostingClassifier(n_estimators=6)]
)
def test_answers_are_the_models_and_the_lead_is_that_of_its_probabilities(model, y):
    forest = scurry.from_model(model.fit(POINTS, y))
    said = ask_cheap(scurry.Predictor.full(forest), None, POINTS)
    np.testing.assert_array_equal(said.answers, model.predict(POINTS))
    first, second = np.sort(model.predict_proba(POINTS), axis=1)[:, :-3:-1].T
    np.testing.assert_allclose(said.certainty, first - second, atol=1e-6)


def test_the_lead_ends_where_the_label_changes():
    forest = with_threshold(scurry.from_model(GradientBoostingClassifier(n_estimators=6).fit(POINTS, TWO)), 0.2)
    lead = find_lead(forest, np.array([[0.8, 0.2], [1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.4, 0.6]]))
    np.testing.assert_allclose(lead, [0, 1, 1, 0.5, 0.5], atol=1e-12)


def test_early_exits_answer_with_what_they_have():
    forest = scurry.from_model(RandomForestClassifier(30, max_depth=4, random_state=0).fit(POINTS, TWO))
    fast = scurry.early_exit(forest, POINTS, max_disagreement=0.05, method="qwyc", confidence=None)
    said = ask_cheap(fast, None, POINTS)
    np.testing.assert_array_equal(said.answers, fast.predict(POINTS))
    probabilities = fast.predict_proba(POINTS)
    np.testing.assert_allclose(said.certainty, np.abs(probabilities[:, 1] - probabilities[:, 0]))


def test_a_router_says_how_sure_a_regressor_is():
    from sklearn.ensemble import GradientBoostingRegressor

    router = GradientBoostingClassifier(n_estimators=5).fit(POINTS, TWO)
    model = GradientBoostingRegressor(n_estimators=5).fit(POINTS, POINTS[:, 0])
    said = ask_cheap(scurry.Predictor.full(scurry.from_model(model)), scurry.from_model(router), POINTS)
    np.testing.assert_allclose(said.answers, model.predict(POINTS))
    np.testing.assert_allclose(said.certainty, router.predict_proba(POINTS)[:, 0])


def test_a_calibrated_model_answers_with_its_own_labels_and_probabilities():
    from sklearn.calibration import CalibratedClassifierCV

    model = CalibratedClassifierCV(RandomForestClassifier(5, max_depth=3, random_state=0), cv=2).fit(POINTS, TWO)
    said = ask_cheap(scurry.Predictor.full(scurry.from_model(model)), None, POINTS)
    np.testing.assert_array_equal(said.answers, model.predict(POINTS))
    np.testing.assert_allclose(said.certainty, np.abs(np.diff(model.predict_proba(POINTS), axis=1)[:, 0]), atol=1e-6)


X_SIZES = np.random.default_rng(0).normal(size=(300, 3))


def test_sizes_are_those_asked_for_and_a_seed_repeats_them():
    done = []
    y = np.where(X_SIZES[:, 0] > 0, "yes", "no")
    models = scurry.cascades.train_sizes(
        X_SIZES, y, sizes=[(3, 4), (6, 8)], random_state=1, progress=lambda *state: done.append(state)
    )
    forests = [scurry.from_model(model) for model in models]
    assert [forest.n_trees for forest in forests] == [3, 6]
    assert all(forest.is_leaf.sum() <= forest.n_trees * leaves for forest, leaves in zip(forests, (4, 8), strict=True))
    assert done == [(1, 2), (2, 2)]
    again = scurry.cascades.train_sizes(X_SIZES, y, sizes=[(3, 4)], random_state=1)
    assert scurry.from_model(again[0]).digest == forests[0].digest


def test_regressors():
    (model,) = scurry.cascades.train_sizes(X_SIZES, X_SIZES[:, 0], task="regression", sizes=[(3, 4)])
    assert not scurry.from_model(model).is_classifier


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"task": "ranking"}, "task must be"), ({"sizes": []}, "at least one"), ({"sizes": [(0, 4)]}, "sizes must be")],
)
def test_sizes_misuse(wrong, message):
    with pytest.raises(InputError, match=message):
        scurry.cascades.train_sizes(X_SIZES, X_SIZES[:, 0] > 0, **wrong)
