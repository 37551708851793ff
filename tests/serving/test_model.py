"""Tensors of requests as rows of a forest, and answers as tensors.

The scorer of the server, on a clock that only moves when rows are scored.
"""

import asyncio
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.serving import model
from scurry.serving.model import Job, Refusal, Scorer, ServedModel, Tensor
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest

ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def tensor(name, datatype, data, shape=None):
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


def matrix(rows, datatype="FP32"):
    return [tensor("rows", datatype, rows.ravel().tolist(), list(rows.shape))]


def score(model, given, outputs=None, max_steps=None, time_us=math.inf):
    """Return the outputs of a request as lists by name."""
    names = model.choose_outputs(None if outputs is None else [{"name": name} for name in outputs])
    columns, _ = model.score(model.read_rows(given).matrix, names, max_steps, time_us)
    return {part["name"]: part for part in model.to_tensors(columns, names)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=400),
            "home town": pd.Categorical(rng.choice(["Köln", "Oslo", "Rome"], 400)),
            "floor": pd.Categorical(rng.choice([3, 5, 9], 400)),
        }
    )
    score = frame["age"] + 2 * (frame["home town"] == "Rome") + (frame["floor"].astype(int) == 5)
    return frame, score


def regressor_of(frame, y):
    return ServedModel(scurry.Predictor.full(scurry.from_model(LGBMRegressor(verbose=-1).fit(frame, y))))


def columns_of(frame, **shape):
    """Return a frame as the inputs of a request."""
    return [
        tensor("age", "FP64", frame["age"].tolist(), **shape),
        tensor("home town", "BYTES", frame["home town"].astype(object).tolist(), **shape),
        tensor("floor", "INT64", frame["floor"].tolist(), **shape),
    ]


class TestInputs:
    @pytest.mark.parametrize("datatype", ["FP32", "FP64"])
    def test_a_matrix_is_taken_as_it_is(self, datatype):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4)))
        got = model.read_rows(matrix(ROWS, datatype)).matrix
        np.testing.assert_array_equal(got, ROWS)

    def test_nested_data(self):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4)))
        got = model.read_rows([tensor("rows", "FP32", ROWS.tolist(), [30, 4])]).matrix
        np.testing.assert_array_equal(got, ROWS)

    def test_columns_by_name_in_any_order_with_categories(self, table):
        frame, y = table
        model = ServedModel(
            scurry.Predictor.full(scurry.from_model(LGBMRegressor(n_estimators=20, verbose=-1).fit(frame, y)))
        )
        got = score(model, columns_of(frame)[::-1])
        np.testing.assert_array_equal(got["prediction"]["data"], model.predictor.predict(frame))
        got = score(model, [*columns_of(frame, shape=[400, 1]), tensor("id", "INT64", list(range(400)))])
        np.testing.assert_array_equal(got["prediction"]["data"], model.predictor.predict(frame))

    def test_categories_that_arrays_hold_by_value(self, table):
        """HistGradientBoosting looks numbers of arrays up by value; named columns must not be looked up twice."""
        frame, y = table
        frame = frame.drop(columns="home town")
        source = HistGradientBoostingClassifier(max_iter=10, categorical_features=["floor"]).fit(frame, y > 1)
        model = ServedModel(scurry.Predictor.full(scurry.from_model(source)))
        inputs = [tensor("age", "FP64", frame["age"].tolist()), tensor("floor", "INT64", frame["floor"].tolist())]
        expected = source.predict(frame).tolist()
        assert score(model, inputs)["label"]["data"] == expected
        numbers = frame.astype(float).to_numpy()
        assert score(model, matrix(numbers, "FP64"))["label"]["data"] == expected
        numbers[:5, 1] = 77
        assert model.read_rows(matrix(numbers, "FP64")).n_unknown == {"floor": 5}

    def test_unknown_categories_are_counted_and_missing_ones_are_not(self, table):
        frame, y = table
        model = ServedModel(
            scurry.Predictor.full(scurry.from_model(LGBMRegressor(n_estimators=20, verbose=-1).fit(frame, y)))
        )
        inputs = [
            tensor("age", "FP64", [0.0, None, math.nan]),
            tensor("home town", "BYTES", ["Mars", None, "Pluto"]),
            tensor("floor", "INT64", [5, 4, None]),
        ]
        rows = model.read_rows(inputs)
        assert rows.n_unknown == {"home_town": 2, "floor": 1}
        np.testing.assert_array_equal(
            rows.matrix, [[0.0, np.nan, 1.0], [np.nan, np.nan, np.nan], [np.nan, np.nan, np.nan]]
        )
        codes = np.array([[0.0, 2.0, 0.0], [0.0, 3.0, -1.0], [0.0, np.nan, 1.0]])
        assert model.read_rows(matrix(codes, "FP64")).n_unknown == {"home_town": 1, "floor": 1}

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"home town": ("INT64", [1])}, "its categories are texts: 'Köln', 'Oslo', 'Rome'; use BYTES"),
            ({"floor": ("BYTES", ["5"])}, "its categories are numbers: 3, 5, 9; use INT64"),
            ({"age": ("BYTES", ["5"])}, "the column holds numbers"),
            ({"age": ("FP64", [1.0, 2.0])}, "must have the shape [2]"),
            ({"age": None}, "1 of the model's columns are missing: 'age'"),
            ({"age": ("FP64", [10**400])}, "no float is near to"),
        ],
    )
    def test_columns_that_do_not_fit(self, table, change, said):
        frame, y = table
        model = ServedModel(
            scurry.Predictor.full(scurry.from_model(LGBMRegressor(n_estimators=5, verbose=-1).fit(frame, y)))
        )
        held = {"age": ("FP64", [0.0]), "home town": ("BYTES", ["Rome"]), "floor": ("INT64", [5])} | change
        inputs = [tensor(name, *given) for name, given in held.items() if given is not None]
        with pytest.raises(InputError) as caught:
            model.read_rows(inputs)
        assert said in str(caught.value)

    def test_one_column_is_not_taken_for_a_matrix(self):
        forest = complete_forest(5, 4, 1).replace(feature_names=["town"], categories={0: ["Oslo", "Rome"]})
        model = ServedModel(scurry.Predictor.full(forest))
        assert model.read_rows([tensor("town", "BYTES", ["Rome", "x"], [2, 1])]).n_unknown == {"town": 1}

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (None, "inputs is a list"),
            ([], "inputs is a list"),
            (["rows"], "every input is an object"),
            ([{"name": 5}], "every input is an object"),
            ([tensor("rows", ["FP64"], [1.0])], "the datatype must be one of BOOL"),
            ([tensor("rows", {}, [1.0])], "the datatype must be one of BOOL"),
            ([tensor("rows", "FP64", [1.0], [1, -4])], "the shape must be"),
            ([tensor("rows", "FP64", [1.0], [True, 1])], "the shape must be"),
            ([tensor("rows", "FP64", [1.0], [1.0])], "the shape must be"),
            ([tensor("rows", "FP64", [1.0], [1, 1, 1])], "the shape must be"),
            ([tensor("rows", "FP64", [1.0], [10**18, 4])], "does not fit 1 values"),
            ([tensor("rows", "FP64", [1.0], "x")], "the shape must be"),
            ([tensor("rows", "FP64", "x", [1, 4])], "data must be a list"),
            ([tensor("rows", "INT32", [1, 2, 3, 1.5], [1, 4])], "1.5 is no value of the datatype INT32"),
            ([tensor("rows", "INT8", [1, 2, 3, 128], [1, 4])], "128 is no value of the datatype INT8"),
            ([tensor("rows", "UINT64", [1, 2, 3, -1], [1, 4])], "-1 is no value of the datatype UINT64"),
            ([tensor("rows", "FP64", [1, 2, 3, "4"], [1, 4])], "'4' is no value"),
            ([tensor("rows", "FP64", [1, 2, 3, True], [1, 4])], "True is no value"),
            ([tensor("rows", "BOOL", [1, 0, 0, 0], [1, 4])], "1 is no value"),
            ([tensor("rows", "FP64", [[[1]], 2, 3, 4], [1, 4])], "[[1]] is no value"),
            ([tensor("rows", "FP64", [], [0, 4])], "no rows"),
            ([tensor("rows", "FP64", [1.0] * 3, [1, 3])], "must be [rows, 4]"),
            ([tensor("rows", "BYTES", ["x"] * 4, [1, 4])], "a matrix holds numbers"),
            ([tensor("a", "FP64", [1.0])] * 2, "the model has no column names"),
        ],
    )
    def test_what_is_no_tensor(self, given, said):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4)))
        with pytest.raises(InputError) as caught:
            model.read_rows(given)
        assert said in str(caught.value)

    def test_the_same_name_twice(self):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 2).replace(feature_names=["a", "b"])))
        with pytest.raises(InputError, match="several inputs named 'a'"):
            model.read_rows([tensor(name, "FP64", [1.0]) for name in "aab"])

    @pytest.mark.parametrize(
        ("datatype", "data"),
        [
            ("BOOL", [True, None, False]),
            ("INT16", [1, None, -3]),
            ("UINT64", [2**64 - 1, 0, 5]),
            ("INT64", [-(2**63), 0, 2**63 - 1]),
            ("FP16", [0.1, None, 1e9]),
            ("FP32", [0.1, None, 1e300]),
        ],
    )
    def test_values_of_every_datatype(self, datatype, data):
        numbers = Tensor.read(tensor("x", datatype, data)).numbers()
        names = {"BOOL": "bool", "FP16": "float16", "FP32": "float32"}
        with np.errstate(over="ignore"):
            expected = [
                np.nan if value is None else np.array(value, dtype=names.get(datatype, datatype.lower()))
                for value in data
            ]
        np.testing.assert_array_equal(numbers, np.array(expected, dtype=numbers.dtype))


class TestOutputs:
    @pytest.mark.parametrize(
        ("classes", "datatype"),
        [([3, 7], "INT64"), (["no", "yes"], "BYTES"), ([False, True], "BOOL"), ([0.5, 1.5], "FP64")],
    )
    def test_labels_keep_their_type(self, classes, datatype):
        forest = complete_forest(7, 4, 4, 2, classes=np.array(classes))
        for predictor in (scurry.Predictor.full(forest), anytime_of(forest)):
            label = score(ServedModel(predictor), matrix(ROWS), ["label"])["label"]
            assert label["datatype"] == datatype
            assert label["data"] == forest.predict(ROWS).tolist()
            assert {type(value) for value in label["data"]} == {type(classes[0])}

    @pytest.mark.parametrize("plan", ["full", "exit", "leader", "anytime", "regressor", "anytime regressor"])
    def test_any_plan_is_served(self, plan):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(900, 4)).astype(np.float32)
        y = (X[:, 0] > 0).astype(int) + (2 if plan == "leader" else 1) * (X[:, 1] > 1)
        source = RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y > 0 if plan == "exit" else y)
        predictor = {
            "full": lambda: scurry.Predictor.full(scurry.from_model(source)),
            "exit": lambda: scurry.early_exit(source, X, max_disagreement=0.1, random_state=0),
            "leader": lambda: scurry.early_exit(source, X, max_disagreement=0.1, random_state=0),
            "anytime": lambda: anytime_of(scurry.from_model(source)),
            "regressor": lambda: scurry.Predictor.full(complete_forest(9, 4, 4, 1)),
            "anytime regressor": lambda: anytime_of(complete_forest(9, 4, 4, 1)),
        }[plan]()
        model = ServedModel(predictor)
        known = [part["name"] for part in model.metadata()["outputs"]]
        assert known[0] == ("prediction" if "regressor" in plan else "label")
        got, run = score(model, matrix(X), known), predictor.run(X)
        assert got[known[0]]["data"] == run.labels.tolist()
        assert got["trees"]["data"] == run.trees.tolist()
        assert got["stop_reason"]["data"] == run.stop_reason.tolist()
        np.testing.assert_array_equal(np.reshape(got["score"]["data"], got["score"]["shape"]), run.scores)
        if "regressor" not in plan:
            probability = np.reshape(got["probability"]["data"], got["probability"]["shape"])
            np.testing.assert_array_equal(probability, predictor.predict_proba(X))
        for part in model.metadata()["outputs"]:
            assert got[part["name"]]["datatype"] == part["datatype"]
            assert got[part["name"]]["shape"] == [len(X), *part["shape"][1:]]

    def test_by_default_what_takes_no_further_work(self):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4)))
        assert model.choose_outputs(None) == ["label", "complete", "trees", "stop_reason"]

    @pytest.mark.parametrize("given", ["label", ["label"], [{"name": ["label"]}], [{"name": "x"}], [], 5, [{}]])
    def test_outputs_that_are_none(self, given):
        model = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4)))
        with pytest.raises(InputError, match="outputs is a list such as"):
            model.choose_outputs(given)

    def test_infinite_values_are_null(self):
        forest = complete_forest(1, 1, 4, 1)
        forest = forest.replace(value=np.full((3, 1), 1e308), base_score=np.array([1e308]), aggregation="sum")
        with np.errstate(over="ignore"):
            got = score(ServedModel(scurry.Predictor.full(forest)), matrix(ROWS[:1]), ["prediction"])
        assert got["prediction"]["data"] == [None]

    def test_metadata_names_columns_and_datatypes(self, table):
        frame, y = table
        forest = scurry.from_model(LGBMClassifier(n_estimators=5, verbose=-1).fit(frame, y > 1))
        said = ServedModel(scurry.Predictor.full(forest)).metadata()
        assert [(part["name"], part["datatype"]) for part in said["inputs"]] == [
            ("age", "FP64"),
            ("home_town", "BYTES"),
            ("floor", "INT64"),
        ]
        said = ServedModel(scurry.Predictor.full(complete_forest(5, 4, 4))).metadata()
        assert said["inputs"] == [{"name": "rows", "datatype": "FP32", "shape": [-1, 4]}]


class TestMinSteps:
    def test_no_answer_without_steps(self):
        predictor = anytime_of(complete_forest(20, 6, 4, 3))
        model = ServedModel(predictor)
        assert model.min_steps == 12
        got = score(
            model, matrix(ROWS), ["label", "steps", "stop_reason", "complete", "score", "probability"], None, 0.0
        )
        assert got["steps"]["data"] == [12] * len(ROWS)
        assert got["label"]["data"] == predictor.predict(ROWS, max_steps=12).tolist()
        assert set(got["stop_reason"]["data"]) == {"time"}
        assert not any(got["complete"]["data"])
        expected = predictor.predict_proba(ROWS, max_steps=12)
        np.testing.assert_array_equal(np.reshape(got["probability"]["data"], expected.shape), expected)
        np.testing.assert_array_equal(
            np.reshape(got["score"]["data"], got["score"]["shape"]), predictor.run(ROWS, max_steps=12).scores
        )

    def test_all_steps_are_complete_however_late(self):
        predictor = anytime_of(complete_forest(4, 3, 4, 3))
        got = score(ServedModel(predictor, min_steps=len(predictor.plan.order)), matrix(ROWS), None, None, 0.0)
        assert got["label"]["data"] == predictor.predict(ROWS).tolist()
        assert set(got["stop_reason"]["data"]) == {"complete"}

    def test_a_forest_of_leaves_has_no_steps(self):
        leaf = {"feature": [-1], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.25, 0.75]]}
        predictor = anytime_of(scurry.Forest.from_trees([leaf], n_features=4))
        got = score(ServedModel(predictor), matrix(ROWS), ["label", "complete"], None, 0.0)
        assert got["label"]["data"] == [1] * len(ROWS)
        assert all(got["complete"]["data"])

    @pytest.mark.parametrize("min_steps", [0, -1, 1.5, True])
    def test_a_floor_that_is_none(self, min_steps):
        with pytest.raises(InputError, match="min_steps must be a whole number of at least 1"):
            ServedModel(anytime_of(complete_forest(4, 3, 4, 3)), min_steps)

    def test_a_floor_above_all_steps(self):
        predictor = anytime_of(complete_forest(4, 3, 4, 3))
        n_steps = len(predictor.plan.order)
        with pytest.raises(
            InputError, match=f"min_steps must be at most {n_steps}, the steps of this plan, got 100,000"
        ):
            ServedModel(predictor, 100_000)

    def test_a_floor_for_a_plan_without_steps(self):
        with pytest.raises(InputError, match="min_steps needs an anytime plan"):
            ServedModel(scurry.Predictor.full(complete_forest(4, 3, 4, 3)), 5)


def test_categories_that_json_cannot_name():
    forest = complete_forest(5, 4, 1).replace(feature_names=["day"], categories={0: np.array([1, 2], "datetime64[D]")})
    with pytest.raises(InputError, match="neither all texts nor all numbers"):
        ServedModel(scurry.Predictor.full(forest))


def test_the_rows_of_a_request_are_one_query():
    """A plan that keeps the top 3 of a query: rows leave by the others' scores, so all are ranked together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4)).astype(np.float32)
    regressor = LGBMRegressor(n_estimators=60, verbose=-1).fit(X[:2000], X[:2000, 0] + X[:2000, 1] * X[:2000, 2])
    promise, queries = scurry.promises.TopK(3, 0.05), np.arange(4000) // 20
    fast = scurry.early_exit(regressor, X[2000:], groups=queries, promise=promise, method="sentinels")
    assert fast.plan.ranks_groups
    model = ServedModel(fast)
    answer = score(model, matrix(ROWS), ["prediction", "trees"])
    query = fast.run(ROWS, groups=np.zeros(len(ROWS), int))
    assert answer["prediction"]["data"] == query.scores.tolist()
    assert answer["trees"]["data"] == query.trees.tolist()
    assert min(answer["trees"]["data"]) < 60
    assert model.time_row() > 0


def test_statistics_of_combinations_are_computed_of_a_request():
    cb = pytest.importorskip("catboost")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=400)})
    for name in ("city", "shop"):
        frame[name] = rng.choice([f"{name} {at}" for at in range(6)], 400)
    y = (frame.x > 0) ^ (frame.city < "city 3") ^ (frame.shop < "shop 2")
    source = cb.CatBoostClassifier(
        iterations=20,
        depth=4,
        learning_rate=0.3,
        one_hot_max_size=2,
        max_ctr_complexity=2,
        model_size_reg=0,
        cat_features=["city", "shop"],
        random_seed=0,
        verbose=0,
        allow_writing_files=False,
    ).fit(frame, y.astype(int))
    forest = scurry.from_model(source, categories={name: frame[name].unique() for name in ("city", "shop")})
    assert forest.front is not None
    assert forest.n_given < forest.n_features
    model = ServedModel(scurry.Predictor.full(forest))
    assert [given["name"] for given in model.metadata()["inputs"]] == ["x", "city", "shop"]
    frame.loc[7, "shop"] = "never seen"
    given = [
        tensor("x", "FP64", frame.x.tolist()),
        tensor("city", "BYTES", frame.city.tolist()),
        tensor("shop", "BYTES", frame.shop.tolist()),
    ]
    found = score(model, given, ["label", "probability"])
    assert found["label"]["data"] == source.predict(frame).tolist()
    assert np.reshape(found["probability"]["data"], (-1, 2)).tolist() == forest.predict_proba(frame).tolist()
    assert model.read_rows(given).n_unknown == {"shop": 1}


ROW_S = 1e-4


class Clock:
    """A replacement for the `time` module of the scorer, and for a model whose rows all take the same time."""

    def __init__(self, min_share=0.0, whole_requests=False):
        self.now, self.calls, self.min_share, self.whole_requests = 0.0, [], min_share, whole_requests

    def perf_counter(self):
        return self.now

    def score(self, rows, outputs, max_steps, time_us):
        if max_steps == -1:
            raise ValueError("no steps")
        row_s = max(min(ROW_S, time_us / 1e6), ROW_S * self.min_share)
        self.calls.append((rows[:, 0].astype(int).tolist(), time_us))
        self.now += len(rows) * row_s
        return {"complete": np.full(len(rows), row_s == ROW_S)}, row_s / ROW_S


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(model, "time", clock)
    return clock


def job(number, n_rows, budget_s, arrived=0.0, max_steps=None):
    return Job(np.full((n_rows, 1), number), arrived, budget_s, max_steps=max_steps)


def score_of_scorer(clock, jobs, reserve_s=0.0, max_waiting=1000):
    """Score jobs that wait together; return the slices of each, or why it was refused."""

    async def all_of_them():
        server = Scorer(clock, max_waiting, 0.5, ROW_S)
        server.reserve_s = reserve_s
        waiting = []
        for one in jobs:
            try:
                waiting.append(server.submit(one))
            except Refusal as refusal:
                waiting.append(asyncio.Future())
                waiting[-1].set_exception(refusal)
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(all_of_them())


def rows_scored(clock):
    return [number for rows, _ in clock.calls for number in rows]


def n_rows_of(slices):
    return sum(len(columns["complete"]) for columns in slices)


def test_the_nearest_deadline_is_first(clock):
    score_of_scorer(clock, [job(0, 20, budget_s=9.0), job(1, 20, budget_s=7.0), job(2, 20, budget_s=8.0)])
    assert rows_scored(clock) == [1] * 20 + [2] * 20 + [0] * 20


def test_a_slice_is_short(clock):
    score_of_scorer(clock, [job(0, 1000, budget_s=9.0)])
    assert max(len(rows) for rows, _ in clock.calls) * ROW_S <= 1.01 * model.SLICE_S


def test_small_requests_share_a_slice(clock):
    """One for each round would be as slow as the rounds are, and they are long when many requests arrive."""
    polls = []

    async def all_of_them():
        server = Scorer(clock, 1000, 0.5, ROW_S)
        jobs = asyncio.gather(*(server.submit(job(number, 1, budget_s=9.0)) for number in range(20)))
        while not jobs.done():
            polls.append(server.n_waiting)
            await asyncio.sleep(0)

    asyncio.run(all_of_them())
    assert len(clock.calls) == 20
    assert len(polls) < 12


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=8),
    budgets=st.lists(st.floats(1e-5, 0.05), min_size=8, max_size=8),
    reserve_s=st.floats(0, 0.01),
)
def test_all_that_wait_are_answered_before_their_deadlines(sizes, budgets, reserve_s):
    clock = Clock()
    jobs = [job(number, n, budget_s) for number, (n, budget_s) in enumerate(zip(sizes, budgets, strict=False))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "time", clock)
        slices = score_of_scorer(clock, jobs, reserve_s)
    for one, of_one in zip(jobs, slices, strict=True):
        assert n_rows_of(of_one) == len(one.rows)
        assert one.done_at <= one.deadline - min(reserve_s, one.budget_s / 2) + 1e-9
    if sum(sizes) * ROW_S <= min(budgets) / 2:
        assert all(columns["complete"].all() for of_one in slices for columns in of_one)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    budgets=st.lists(st.floats(1e-4, 0.1), min_size=12, max_size=12),
    min_share=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_what_cannot_be_in_time_is_refused_and_the_rest_is_in_time(sizes, budgets, min_share):
    """Also of plans whose rows cannot be cut short: min_share is 1."""
    clock = Clock(min_share)
    jobs = [job(number, n, budget_s) for number, (n, budget_s) in enumerate(zip(sizes, budgets, strict=False))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "time", clock)
        slices = score_of_scorer(clock, jobs)
    for number, (one, of_one) in enumerate(zip(jobs, slices, strict=True)):
        if isinstance(of_one, Refusal):
            assert of_one.reason in model.REASONS
            continue
        assert n_rows_of(of_one) == len(one.rows)
        # The first one is tried on an idle server, whatever was estimated.
        if number > 0 and slices[0] is not of_one and not isinstance(slices[0], Refusal):
            first_s = max(len(jobs[0].rows) * ROW_S * min_share - jobs[0].budget_s, 0.0)
            assert one.done_at <= one.deadline + one.budget_s / 2 + first_s + model.SLICE_S


def test_requests_that_wait_share_the_time(clock):
    score_of_scorer(clock, [job(0, 40, budget_s=0.002), job(1, 60, budget_s=0.002)])
    # A tenth of the budget is for what cannot be planned.
    assert {round(time_us) for _, time_us in clock.calls} == {18}


def test_a_long_request_does_not_take_the_time_of_a_short_one(clock):
    score_of_scorer(clock, [job(0, 1000, budget_s=10.0), job(1, 1, budget_s=0.01)])
    first, time_us = clock.calls[0]
    assert first == [1]
    assert time_us > 1000


def test_time_to_decide_does_not_grow_with_the_queue(clock, monkeypatch):
    """Ten thousand requests wait; a slice looks at the first of them alone."""
    looked_at = []
    deadline = Job.deadline.fget
    monkeypatch.setattr(Job, "deadline", property(lambda job: looked_at.append(1) or deadline(job)))

    async def all_of_them():
        server = Scorer(clock, 10_000, 0.5, ROW_S)
        waiting = [server.submit(job(number, 1, budget_s=100.0)) for number in range(10_000)]
        looked_at.clear()
        server._score_next(model.SLICE_S)
        assert len(looked_at) <= 4
        for future in waiting:
            future.cancel()

    asyncio.run(all_of_them())


def test_a_late_request_is_refused(clock):
    clock.now = 5.0
    (refusal,) = score_of_scorer(clock, [job(0, 300, budget_s=1.0)])
    assert refusal.reason == "deadline"
    assert "this machine still needs more than 1 s for 300 rows; send fewer rows, or allow more" in str(refusal)
    assert not clock.calls


@pytest.mark.parametrize(("budget_s", "budget"), [(5e-6, "5 µs"), (1e-4, "100 µs"), (0.04, "40 ms")])
def test_a_refusal_says_whether_later_would_be_better(clock, budget_s, budget):
    """An idle server is not too busy, however small a budget is."""
    clock.now = 5.0
    (alone,) = score_of_scorer(clock, [job(0, 1, budget_s)])
    assert str(alone) == (
        f"nothing else is waiting, and this machine still needs more than {budget} for 1 row; allow more time with the "
        "parameter budget_us"
    )
    _, second = score_of_scorer(clock, [job(0, 10, 9.0, arrived=5.0), job(1, 1, budget_s)])
    assert str(second) == (
        f"the server is too busy to answer 1 row within {budget}; try again later, or allow more time with the "
        "parameter budget_us"
    )


def test_requests_beyond_the_bound_are_refused(clock):
    *accepted, refused = score_of_scorer(clock, [job(number, 2, budget_s=9.0) for number in range(4)], max_waiting=3)
    assert [n_rows_of(slices) for slices in accepted] == [2, 2, 2]
    assert refused.reason == "queue"
    assert "3 requests are waiting" in str(refused)


def test_the_queue_is_open_again_when_requests_have_left(clock):
    async def all_of_it():
        server = Scorer(clock, 2, 0.5, ROW_S)
        waiting = [server.submit(job(number, 2, budget_s=9.0)) for number in range(2)]
        assert server.is_full
        await asyncio.gather(*waiting)
        await asyncio.sleep(0)
        assert not server.is_full
        return await server.submit(job(2, 2, budget_s=9.0, arrived=clock.now))

    assert n_rows_of(asyncio.run(all_of_it())) == 2


def test_more_work_than_time_is_refused_at_once(monkeypatch):
    """Rows that cannot be cut short: 0.1 s of work fits into 0.2 s, three times that does not."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(model, "time", clock)
    first, second, third = score_of_scorer(clock, [job(number, 800, budget_s=0.2) for number in range(3)])
    assert n_rows_of(first) == n_rows_of(second) == 800
    assert third.reason == "deadline"
    assert rows_scored(clock).count(2) == 0


def test_rows_that_belong_together_are_scored_together(monkeypatch):
    clock = Clock(min_share=1.0, whole_requests=True)
    monkeypatch.setattr(model, "time", clock)
    score_of_scorer(clock, [job(number, 300, budget_s=5.0) for number in range(2)])
    assert [rows for rows, _ in clock.calls] == [[0] * 300, [1] * 300]


def test_an_idle_server_tries_what_seems_too_much_and_gives_up_soon(monkeypatch):
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(model, "time", clock)
    (refusal,) = score_of_scorer(clock, [job(0, 100_000, budget_s=0.5)])
    assert refusal.reason == "late"
    assert "nothing else is waiting" in str(refusal)
    assert clock.now < 0.1


def test_a_wrong_estimate_is_corrected(monkeypatch):
    """A server that believed rows to take a second each would otherwise refuse for ever."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(model, "time", clock)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, row_s=1.0)
        for _ in range(200):
            await server.submit(job(0, 1, budget_s=0.5, arrived=clock.now))
        return server.row_s

    assert asyncio.run(all_of_it()) == pytest.approx(ROW_S, rel=0.01)


def test_an_error_is_that_of_its_request_alone(clock):
    wrong, right = score_of_scorer(clock, [job(0, 10, budget_s=1.0, max_steps=-1), job(1, 10, budget_s=2.0)])
    assert isinstance(wrong, ValueError)
    assert n_rows_of(right) == 10


def test_who_no_longer_waits_is_not_scored_and_frees_the_time(clock):
    async def leave():
        server = Scorer(clock, 10, 0.5, ROW_S)
        waiting = job(0, 1000, budget_s=1.0)
        gone, stays = server.submit(waiting), server.submit(job(1, 10, budget_s=2.0))
        await asyncio.sleep(0)
        gone.cancel()
        slices = await stays
        await asyncio.sleep(0)
        assert server.n_waiting == 0
        assert server._rows_per_s == server._n_rows_left == 0
        assert waiting.rows.size == 0
        return slices

    assert n_rows_of(asyncio.run(leave())) == 10
    assert rows_scored(clock).count(0) < 1000


def test_those_who_left_do_not_fill_the_queue(clock):
    async def leave():
        server = Scorer(clock, 5, 0.5, ROW_S)
        stays = server.submit(job(0, 10_000, budget_s=100.0))
        for number in range(100):
            server.submit(job(number, 1, budget_s=1000.0)).cancel()
            await asyncio.sleep(0)
        assert len(server._queue) <= 12
        stays.cancel()

    asyncio.run(leave())


def test_what_is_kept_back_follows_what_answers_take(clock):
    server = Scorer(clock, 10, 0.5)
    for _ in range(model.N_BETWEEN):
        one = job(0, 1, budget_s=1.0)
        one.done_at = 3.0
        server.record_sent(one, 3.004)
    assert server.reserve_s == pytest.approx(0.004)


def test_a_request_may_have_arrived_two_rounds_before_it_is_handled(clock):
    seen = []

    async def poll(server):
        for _ in range(5):
            seen.append(server.earliest_arrival())
            await asyncio.sleep(0)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        clock.now = 1.0
        # Each round scores five rows, so that the rounds begin at 1.0, 1.0 + 5 rows, …
        await asyncio.gather(server.submit(job(0, 40, budget_s=9.0, arrived=1.0)), poll(server))
        await asyncio.sleep(0)
        assert not server._polls

    asyncio.run(all_of_it())
    assert seen == pytest.approx([1.0, 1.0, 1.0, 1.0 + 5 * ROW_S, 1.0 + 10 * ROW_S])


def test_requests_wait_unseen_while_others_are_read(clock):
    """Nothing waits for a score, but reading takes a second, and what arrives meanwhile is handled after that."""
    seen = []

    async def read_for_long(server):
        clock.now += 1.0
        await asyncio.sleep(0)
        seen.append(server.earliest_arrival())

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        await asyncio.gather(server.submit(job(0, 1, budget_s=9.0)), read_for_long(server))

    asyncio.run(all_of_it())
    assert clock.now > 1.0
    assert seen[0] <= ROW_S


def test_a_request_that_fits_behind_the_others_is_accepted(monkeypatch):
    """Half of the first is done, so both are in time, although together they ask for more than all of the time."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(model, "time", clock)

    async def all_of_it():
        server = Scorer(clock, 10, 0.1, ROW_S)
        first, second = job(0, 500, budget_s=0.1), job(1, 500, budget_s=0.1)
        waiting = [server.submit(first)]
        while clock.now < 0.03:
            await asyncio.sleep(0)
        second.arrived = clock.now
        waiting.append(server.submit(second))
        assert server._load() > 1
        await asyncio.gather(*waiting)
        assert first.done_at < first.deadline
        assert second.done_at < second.deadline

    asyncio.run(all_of_it())


def test_the_queue_is_full_while_rounds_take_half_of_the_budget(clock):
    seen = []

    async def read_for_long(server):
        for _ in range(4):
            clock.now += 0.2
            await asyncio.sleep(0)
            seen.append(server.is_full)
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(server.is_full)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        await asyncio.gather(server.submit(job(0, 1, budget_s=9.0)), read_for_long(server))

    asyncio.run(all_of_it())
    assert seen == [False, True, True, True, False]
