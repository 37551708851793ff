"""Columns of several types: a folded forest answers as its pipeline does, or refuses the rows and says what to do."""

import warnings

import numpy as np
import pandas as pd
import polars
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry.errors import InputError
from support.pipelines import Case, accepted, cast, draw_case, draw_types, hostile_frame


def draw_typed_case(rng):
    """Return a random pipeline that was fitted to a frame with columns of random types, and these types."""
    while True:
        case = draw_case(rng, 120)
        if isinstance(case.X, pd.DataFrame):
            break
    types = draw_types(rng, case.X)
    X = cast(case.X, types)
    if rng.random() < 0.5:
        return Case(case.pipeline, X), types
    return Case(case.pipeline.fit(X, rng.integers(0, 2, len(X))), X), types


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_random_types(seed):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            case, types = draw_typed_case(rng)
            case.pipeline.predict(case.X)
        except (ValueError, TypeError):  # a pipeline that cannot be fitted so, or does not take such columns
            return
        forest = scurry.from_model(case.pipeline, rows=case.X)
        np.testing.assert_array_equal(forest.predict(case.X), case.pipeline.predict(case.X))
        if forest.front is not None:
            return
        others = [draw_types(rng, case.X) for _ in range(3)]
        for kinds in (types, *others):
            table = hostile_frame(rng, case, forest, kinds, 300)
            check(case, forest, table, must_take=kinds is types)


def check(case, forest, table, must_take):
    """Compare the labels of rows that the pipeline takes, or see that they are refused for their types."""
    try:
        table = table[accepted(case, table)]
    except TypeError:
        return
    if not len(table):
        return
    try:
        answers = forest.predict(table)
    except InputError as error:
        refusal = str(error)
    else:
        np.testing.assert_array_equal(answers, case.pipeline.predict(table))
        return
    assert not must_take, refusal
    assert "with which the pipeline computes in another precision" in refusal


def test_booleans_next_to_float32_are_folded():
    """A step that passes both on makes objects of them, and so other numbers before the trees round them."""
    rng = np.random.default_rng(0)
    flags, numbers = rng.random(300) < 0.5, rng.normal(size=300)
    frame = pd.DataFrame({"x": numbers, "flag": flags, "small": rng.normal(size=300).astype("float32")})
    columns = make_column_transformer((StandardScaler(), ["x"]), ("passthrough", ["flag", "small"]))
    pipeline = make_pipeline(columns, DecisionTreeClassifier(random_state=0)).fit(frame, flags ^ (numbers > 0))
    forest = scurry.from_model(pipeline, rows=frame)
    assert forest.front is None
    for table in (frame, polars.from_pandas(frame)):
        np.testing.assert_array_equal(forest.predict(table), pipeline.predict(frame))
