"""The native walk step by step against an independent evaluator, under every kind of budget."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest, _core
from scurry.forest import reference
from scurry.plan import StepRule
from scurry.runners.steps import AbortFlag, StepRunner
from support.anytime_oracle import anytime_of, depth_steps, labels_of, nodes_after, scores_of, shuffled_steps
from support.strategies import SPECIAL, adversarial_rows, complete_forest, trees

RNG = np.random.default_rng(0)


@st.composite
def ensembles(draw):
    """Forests of unequal depths, of every aggregation, link, missing rule and precision, some with categories."""
    n_features, n_rounds = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["mean", "vote", "sum", "binary", "softmax", "mean-each", "regressor", "mean-of-one"]))
    n_outputs = draw(st.integers(2, 4)) if kind in ("mean", "vote", "sum", "softmax", "mean-each") else 1
    one_each = kind in ("softmax", "mean-each")
    n_trees = n_rounds * n_outputs if one_each else n_rounds
    grown = draw(
        st.lists(trees(n_features, 1 if one_each else n_outputs, 63), min_size=n_trees, max_size=n_trees),
    )
    plain = Forest.from_trees(grown, n_features=n_features)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_nodes, categorical = plain.n_nodes, draw(st.booleans())
    header = {
        "aggregation": {"vote": "vote", "mean": "mean", "mean-each": "mean", "mean-of-one": "mean"}.get(kind, "sum"),
        "classes": {"binary": ["no", "yes"], "mean-of-one": [3, 7], "regressor": None}.get(
            kind, np.arange(10, 10 + n_outputs)
        ),
        "link": {"binary": "logistic", "softmax": "softmax", "regressor": "exp"}.get(kind, "identity"),
        "base_score": rng.integers(-2, 3, n_outputs) / 4,
        "decision_threshold": 0.5,
        "score_dtype": draw(st.sampled_from(["float32", "float64"])) if n_outputs == 1 or one_each else "float64",
        "tree_output": np.arange(n_trees) % n_outputs if one_each else None,
        "input_dtype": draw(st.sampled_from(["float32", "float64"])),
        "comparison": draw(st.sampled_from(["<", "<="])),
    }
    return Forest(
        **{name: getattr(plain, name) for name in ("tree_offset", "feature", "threshold", "left", "right", "value")},
        n_features=n_features,
        default_left=rng.random(n_nodes) < 0.5,
        missing=rng.integers(0, 3, n_nodes),
        category_set=np.where(rng.random(n_nodes) < 0.4, 0, -1) if categorical else None,
        category_offset=[0, 1] if categorical else None,
        category_bits=[int(rng.integers(0, 2**32))] if categorical else None,
        **header,
    )


@settings(max_examples=120, deadline=None)
@given(forest=ensembles(), seed=st.integers(0, 999), readout=st.sampled_from(["plain", "weighted"]), data=st.data())
def test_every_prefix_is_the_replay(forest, seed, readout, data):
    steps = shuffled_steps(forest, seed)
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.r_[SPECIAL, forest.threshold, np.arange(32)], (70, forest.n_features))
    leaves = reference.apply(forest, rows)
    anytime = anytime_of(forest, steps, readout)
    for n_steps in data.draw(st.sets(st.integers(0, len(steps)), max_size=12)) | {0, len(steps)}:
        scores = scores_of(forest, nodes_after(forest, steps, n_steps, leaves), readout)
        labels = labels_of(forest, scores)
        shown = scores[:, -1] if forest.n_outputs <= 2 else scores
        for X in (rows, rows[:3]):  # a block of rows, and one by one
            for budget in ({}, {"abort": AbortFlag()}, {"time_us": 1e9}):
                out = anytime.run(X, max_steps=n_steps, **budget)
                np.testing.assert_array_equal(out.scores, shown[: len(X)])
                if forest.is_classifier:
                    np.testing.assert_array_equal(out.labels, labels[: len(X)])
                else:
                    np.testing.assert_allclose(out.labels, labels[: len(X)], rtol=1e-6)
                assert (out.steps == n_steps).all()
                assert (out.trees == len(set(steps[:n_steps].tolist()))).all()
                assert set(out.stop_reason) == {"complete" if n_steps == len(steps) else "max_steps"}


@settings(max_examples=60, deadline=None)
@given(forest=ensembles(), readout=st.sampled_from(["plain", "weighted"]))
def test_all_steps_give_the_forest_itself(forest, readout):
    rows = adversarial_rows(forest, RNG.normal(size=(20, forest.n_features)), 100)
    anytime = anytime_of(forest, readout=readout)
    for budget in ({}, {"max_steps": len(anytime.plan.order)}, {"time_us": np.inf}, {"time_us": 1e9}):
        np.testing.assert_array_equal(anytime.predict(rows, **budget), forest.predict(rows))
        if forest.is_classifier:
            np.testing.assert_array_equal(anytime.predict_proba(rows, **budget), forest.predict_proba(rows))
        assert anytime.run(rows, **budget).complete.all()


@pytest.mark.parametrize(
    "shape", [{"n_trees": 2, "depth": 16}, {"n_trees": 3, "depth": 14}, {"n_trees": 40, "depth": 5}]
)
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_wide_and_deep_trees(shape, n_columns):
    forest = complete_forest(n_columns=n_columns, **shape)
    rows = RNG.normal(size=(200, 6))
    steps = shuffled_steps(forest)
    leaves, anytime = reference.apply(forest, rows), anytime_of(forest, steps)
    for n_steps in (1, 7, len(steps) // 2, len(steps) - 1):
        expected = labels_of(forest, scores_of(forest, nodes_after(forest, steps, n_steps, leaves)))
        np.testing.assert_array_equal(anytime.predict(rows, max_steps=n_steps), expected)
        np.testing.assert_array_equal(anytime.predict(rows, max_steps=n_steps, abort=AbortFlag()), expected)


def test_threads_and_batches_change_nothing():
    forest = complete_forest(n_trees=20, depth=7)
    anytime, rows = anytime_of(forest, readout="weighted"), RNG.normal(size=(3000, 6)).astype(np.float32)
    expected = anytime.predict_proba(rows, max_steps=60)
    np.testing.assert_array_equal(anytime.predict_proba(rows, n_threads=3, max_steps=60), expected)
    np.testing.assert_array_equal(anytime.predict_proba(rows, n_threads=3, max_steps=60, time_us=1e9), expected)
    for i in range(0, 3000, 500):
        np.testing.assert_array_equal(anytime.predict_proba(rows[i : i + 1], max_steps=60), expected[i : i + 1])


def test_weighted_probabilities_are_probabilities():
    forest = complete_forest(n_trees=9, depth=5, n_columns=4)
    values = forest.value / forest.value.sum(axis=1, keepdims=True)
    forest = complete_forest(n_trees=9, depth=5, n_columns=4, value=values)
    anytime = anytime_of(forest, readout="weighted")
    for n_steps in (0, 3, 20, 45):
        p = anytime.predict_proba(RNG.normal(size=(30, 6)), max_steps=n_steps)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def steps_under_fake_clock(n_steps: int, time_us: float, tick_us: float, answer_us: float) -> int:
    """Return the steps that a row must take if every reading of the clock is `tick_us` after the one before.

    So much time is kept back that an answer of `answer_us` is in time, and more where steps are slower than usual.
    """
    rate = _core.testing.ticks_per_us()
    tick, interval, answer = int(tick_us * rate), 0.4 * rate, answer_us * rate
    deadline = max(time_us * rate - answer, 0.0)
    done, now, usual = 0, 0, 64 / interval
    pace = usual

    def at_once(left: float) -> int:
        fitting = int(min(max(interval * pace, 64.0), left * pace, 256.0))
        return min(fitting // 64 * 64 if fitting >= 64 else max(fitting, 8), n_steps - done)

    n = at_once(deadline)
    if deadline * pace > 4 * n:  # time enough for the first steps without a look
        done = n
    while done < n_steps:
        now += tick
        if now >= deadline:
            break
        if done > 0:
            pace = n / tick
            if n >= 64 and now > tick:
                deadline = time_us * rate - answer * min(max(usual / (1.3 * pace), 1.0), 4.0)
                if now >= deadline:
                    break
        n = at_once(deadline - now)
        done += n
    return done


@pytest.mark.parametrize("tick_us", [0.047, 0.31, 1.03, 7.1])
@pytest.mark.parametrize("time_us", [0, 0.01, 0.97, 3.6, 10.6, 41.3, 1e5])
@pytest.mark.parametrize("max_steps", [2**40, 100])
@pytest.mark.parametrize("answer_us", [0.0, 3.0])
def test_deadlines_by_a_fake_clock(tick_us, time_us, max_steps, answer_us):
    forest = complete_forest(n_trees=60, depth=10)
    steps, rows = depth_steps(forest), RNG.normal(size=(20, 6))
    native = StepRunner(forest, steps, StepRule())._native
    labels, n_steps = np.empty(20, np.int64), np.empty(20, np.int32)
    reasons = np.empty(20, np.uint8)
    _core.testing.run_by_fake_clock(
        native,
        rows,
        max_steps=max_steps,
        time_us=time_us,
        tick_us=tick_us,
        answer_us=answer_us,
        labels=labels,
        n_steps=n_steps,
        reasons=reasons,
    )
    limit = min(max_steps, len(steps))
    expected = steps_under_fake_clock(limit, time_us, tick_us, answer_us)
    assert (n_steps == expected).all()
    in_time = "max_steps" if limit < len(steps) else "complete"
    assert (reasons == ["complete", "max_steps", "time", "abort"].index("time" if expected < limit else in_time)).all()
    np.testing.assert_array_equal(labels, anytime_of(forest, steps).predict(rows, max_steps=expected))


def test_the_time_of_an_answer_is_learned():
    rng = np.random.default_rng(0)
    answer = _core.testing.AnswerTime(1000.0)
    for _ in range(2000):
        answer.learn(rng.uniform(1600, 2400))
    assert answer.expected(0.0) == pytest.approx(2000, rel=0.1)  # half take longer
    assert answer.expected(np.inf) == pytest.approx(2350, rel=0.1)  # one in 16 takes longer
    assert answer.expected(50.0) == answer.expected(0.0) + 50


def test_interruptions_are_allowed_for_only_so_far():
    rng = np.random.default_rng(0)
    answer = _core.testing.AnswerTime(1000.0)
    for _ in range(3000):
        answer.learn(50_000.0 if rng.random() < 0.2 else 1500.0)
    assert 1400 < answer.expected(0.0) < 1700
    assert answer.expected(300.0) == answer.expected(0.0) + 300


def test_an_answer_that_leaves_no_time_for_steps_is_doubted():
    answer = _core.testing.AnswerTime(1000.0)
    for _ in range(500):
        answer.learn(9000.0)
    assert answer.expected(0.0) > 8000
    for _ in range(2000):
        answer.doubt()
    assert 1000 < answer.expected(np.inf) < 1100
    for _ in range(1000):
        answer.learn(3000.0)
    assert answer.expected(0.0) == pytest.approx(3000, rel=0.1)


def test_no_time_answers_from_the_roots():
    forest = complete_forest(n_trees=8, depth=4, base_score=[0.0, 0.0, 0.0])
    out = anytime_of(forest).run(RNG.normal(size=(30, 6)), time_us=0)
    roots = np.tile(forest.tree_offset[:-1], (30, 1))
    np.testing.assert_array_equal(out.scores, scores_of(forest, roots))
    assert set(out.stop_reason) == {"time"}
    assert out.mean_steps == 0
    assert out.mean_trees == 0
    assert not out.complete.any()


def test_abort_before_the_start():
    flag = AbortFlag()
    flag.set()
    forest = complete_forest(n_trees=8, depth=4)
    anytime, rows = anytime_of(forest), RNG.normal(size=(50, 6))
    out = anytime.run(rows, n_threads=2, abort=flag, time_us=1e9, max_steps=5)
    assert set(out.stop_reason) == {"abort"}
    assert out.mean_steps == 0
    np.testing.assert_array_equal(out.labels, anytime.predict(rows, max_steps=0))
    flag.clear()
    np.testing.assert_array_equal(anytime.predict(rows, abort=flag), forest.predict(rows))


def test_abort_from_another_thread():
    forest = complete_forest(n_trees=200, depth=10, n_features=6)
    steps = shuffled_steps(forest)
    native = StepRunner(forest, steps, StepRule())._native
    n_rows = 2_000_000  # minutes of work, were it not for the flag
    rows = np.broadcast_to(RNG.normal(size=(1, 6)), (n_rows, 6))
    labels, n_steps = np.full(n_rows, -1), np.full(n_rows, -1, np.int32)
    reasons, flag = np.full(n_rows, 9, np.uint8), AbortFlag()
    worker = threading.Thread(
        target=lambda: native.run(rows, 1, 2**40, np.inf, flag, labels=labels, n_steps=n_steps, reasons=reasons)
    )
    worker.start()
    while n_steps[0] < 0:
        pass
    flag.set()
    worker.join()
    finished = int((reasons == 0).sum())
    assert 0 < finished < n_rows
    assert (n_steps[:finished] == len(steps)).all()
    assert (reasons[finished:] == 3).all()
    assert 0 <= n_steps[finished] < len(steps)
    assert (n_steps[finished + 1 :] == 0).all()
    anytime = anytime_of(forest, steps)
    for row in (0, finished, n_rows - 1):
        assert labels[row] == anytime.predict(rows[:1], max_steps=int(n_steps[row]))[0]


def test_the_core_checks_what_it_is_given():
    forest = complete_forest(n_trees=2, depth=2)
    with pytest.raises(ValueError, match="a step in no tree"):
        _core.Anytime(forest.arrays, classes=forest.classes, steps=np.array([0, 2], np.int32), weights=np.empty(0))
    with pytest.raises(ValueError, match="a weight is needed for every node, or none"):
        _core.Anytime(forest.arrays, classes=forest.classes, steps=depth_steps(forest), weights=np.ones(3))
    with pytest.raises(ValueError, match="the weight of a leaf must be 1"):
        _core.Anytime(
            forest.arrays, classes=forest.classes, steps=depth_steps(forest), weights=np.full(forest.n_nodes, 0.5)
        )
