"""Ctrl-C stops long native work, and leaves models as they were.

Each piece of work would take a minute or more. It gets a signal after a moment, and must end with KeyboardInterrupt
long before.
"""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# The child imports what this process would, helpers of the tests included.
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
PRELUDE = """
    import sys, time
    import numpy as np, scurry
    from support.strategies import complete_forest

    rng = np.random.default_rng(0)

    def interrupt(work, still_whole):
        before = still_whole()
        print("ready", flush=True)
        try:
            work()
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
        assert still_whole() == before
        print("whole", flush=True)
"""
PREDICTING = """
    forest = complete_forest(1000, 8, 4, 2)
    X, few = rng.normal(size=(2_000_000, 4)).astype(np.float32), rng.normal(size=(50, 4))
    rule = scurry.plan.ExitRule(kind="votes", weights=np.ones(1), lower=np.full((1, 1001), -1, np.int32),
                                upper=np.full((1, 1001), 1001, np.int32))
    exits = scurry.Predictor(forest, scurry.Plan(order=np.arange(1000, dtype=np.int32), stop=rule))
    order = np.repeat(np.arange(1000, dtype=np.int32), 8)
    steps = scurry.Predictor(forest, scurry.Plan(order=order, stop=scurry.plan.StepRule()))
    interrupt(lambda: {call}, lambda: [forest.predict(few).tolist(), exits.predict(few).tolist()])
"""
PRUNING = """
    from sklearn.ensemble import ExtraTreesClassifier
    X = rng.normal(size=(6_000, 20))
    y = X[:, :9].sum(axis=1) > 0
    forest = scurry.from_model(ExtraTreesClassifier(100, max_features=1, random_state=0).fit(X[:2_000], y[:2_000]))
    interrupt(lambda: scurry.prune(forest, X[2_000:]), lambda: forest.predict(X[:50]).tolist())
"""
ORDERING = """
    from sklearn.ensemble import ExtraTreesClassifier
    X = rng.normal(size=(30_000, 10))
    y = X[:, :5].sum(axis=1) > 0
    model = ExtraTreesClassifier({n_trees}, max_depth=9, max_features=1, random_state=0).fit(X[:1_000], y[:1_000])
    forest = scurry.from_model(model)
    interrupt(lambda: scurry.orders.find(forest, X, y, order="{order}"), lambda: forest.predict(X[:50]).tolist())
"""
WORK = {
    "predict": PREDICTING.format(call="forest.predict(X)"),
    "predict, two threads": PREDICTING.format(call="forest.predict(X, n_threads=2)"),
    "predict_proba": PREDICTING.format(call="forest.predict_proba(X)"),
    "apply": PREDICTING.format(call="forest.apply(X[:500_000])"),
    "early exit": PREDICTING.format(call="exits.predict(X)"),
    "early exit, two threads": PREDICTING.format(call="exits.predict(X, n_threads=2)"),
    "anytime": PREDICTING.format(call="steps.predict(X)"),
    "anytime, timed": PREDICTING.format(call="steps.predict(X, time_us=1e5)"),
    "prune": PRUNING,
    "orders, auto": ORDERING.format(order="auto", n_trees=60),
    "orders, squirrel": ORDERING.format(order="forward-squirrel", n_trees=300),
}


@pytest.mark.parametrize("name", WORK)
def test_ctrl_c_stops_long_work(name):
    program = textwrap.dedent(PRELUDE) + textwrap.dedent(WORK[name])
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1.0)  # else it was over too soon to be interrupted
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=20)[0].splitlines()
    finally:
        child.kill()
    assert said[0].startswith("interrupted")
    assert said[1:] == ["whole"]
