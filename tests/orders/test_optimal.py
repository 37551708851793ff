"""Optimal order: exact on grids of every shape, within its memory, and refused where it does not fit."""

import logging
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from scurry import Forest
from scurry.errors import InfeasibleError
from scurry.orders import accuracy_curve, find
from support.order_oracle import Oracle, least_sum
from support.strategies import complete_forest


class TestOptimal:
    @pytest.mark.parametrize("n_classes", [2, 3, 5])
    def test_larger_grids(self, n_classes):
        forest = complete_forest(n_trees=5, depth=4, n_columns=n_classes, seed=n_classes)
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(0, n_classes, 200)
        oracle = Oracle(forest, X, y)
        losses = oracle.losses()
        for order, sign in (("optimal", 1), ("unoptimal", -1)):
            found = find(forest, X, y, order=order)
            assert sign * (200 - np.array(oracle.curve(found.steps))).sum() == least_sum(sign * losses)

    def test_many_slices_and_threads(self):
        # 7^7 states are swept in several slices, which two threads prepare in turn.
        forest = complete_forest(n_trees=7, depth=6, n_columns=2, seed=3)
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(8, 6)).astype(np.float32), rng.integers(0, 2, 8)
        oracle = Oracle(forest, X, y)
        best = least_sum(oracle.losses())
        for n_threads in (1, 2, 3):
            steps = find(forest, X, y, order="optimal", n_threads=n_threads).steps
            assert (8 - np.array(oracle.curve(steps))).sum() == best

    def test_says_beforehand_what_it_needs(self, digits, caplog):
        forest, X, y = digits
        calls = []
        with caplog.at_level(logging.INFO, logger="scurry"):
            find(forest, X, y, order="optimal", progress=lambda n_done, n_total: calls.append((n_done, n_total)))
        assert calls[0] == (0, 78_125)
        assert calls[-1] == (78_125, 78_125)
        assert calls == sorted(calls)
        assert "optimal order: 78,125 states, " in caplog.text
        assert "MB, about " in caplog.text

    @pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process is read from Linux")
    @pytest.mark.skipif("SCURRY_SANITIZED" in os.environ, reason="AddressSanitizer keeps what was freed")
    @pytest.mark.parametrize(("n_classes", "n_threads"), [(2, 1), (12, 2), (0, 1)])
    def test_uses_no_more_memory_than_it_says(self, n_classes, n_threads):
        script = f"""
            import logging, numpy as np, scurry
            from pathlib import Path
            from scurry.orders import find
            from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

            def memory(field):
                lines = Path("/proc/self/status").read_text().splitlines()
                return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

            rng = np.random.default_rng(0)
            X = rng.normal(size=(24_000 // max({n_classes}, 1), 6)).astype(np.float32)
            if {n_classes}:
                y = rng.integers(0, {n_classes}, len(X))
                model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
            else:
                y = rng.normal(size=len(X))
                model = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, y)
            forest, said = scurry.from_model(model), []
            find(forest, X, y, order="backward-squirrel")
            Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS")
            log = logging.getLogger("scurry")
            log.setLevel(logging.INFO)
            log.addFilter(lambda record: said.append(record.getMessage()) or True)
            find(forest, X, y, order="optimal", n_threads={n_threads})
            print(memory("VmHWM") - before, said[0].split(", ")[-2])
        """
        run = [sys.executable, "-c", textwrap.dedent(script)]
        used, said, unit = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
        announced = float(said) * {"kB": 1e3, "MB": 1e6}[unit]
        assert int(used) <= announced

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_trees_that_change_their_mind_entirely(self, n_classes):
        """What both together may add to a margin is twice what a margin can be."""
        one, other = np.eye(n_classes)[:2]
        stump = {"feature": [0, -1, -1], "threshold": [0.0] * 3, "left": [1, -1, -1], "right": [2, -1, -1]}
        forest = Forest.from_trees([stump | {"value": [one, one, other]}, stump | {"value": [other, one, other]}])
        X = np.linspace(-1, 1, 21)[:, None]
        y = (X[:, 0] > 0).astype(int)
        steps = find(forest, X, y, order="optimal").steps
        right = {order: accuracy_curve(forest, order, X, y).sum() for order in ((0, 1), (1, 0))}
        assert accuracy_curve(forest, steps, X, y).sum() == max(right.values())

    def test_more_threads_than_the_system_gives(self):
        """Where no thread can be started (their stacks would not fit any memory), the calling one does all the work."""
        script = """
            import numpy as np
            from scurry.orders import find
            from support.strategies import complete_forest

            forest = complete_forest(n_trees=8, depth=6, n_columns=2)
            X, y = np.random.default_rng(0).normal(size=(20, 6)), np.arange(20) % 2
            steps = [find(forest, X, y, order="optimal", n_threads=n).steps for n in (1, 4)]
            print(np.array_equal(*steps))
        """
        limited = f"ulimit -s {2**37}; exec {sys.executable} -c {shlex.quote(textwrap.dedent(script))}"
        tests = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        run = subprocess.run(["sh", "-c", limited], env=environment, capture_output=True, text=True)
        assert run.stdout.strip() == "True", run.stderr

    def test_progress_may_stop_the_search(self):
        forest = complete_forest(n_trees=8, depth=6, n_columns=2)
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(3000, 6)).astype(np.float32), rng.integers(0, 2, 3000)

        def stop(n_done, n_total):
            if n_done > 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            find(forest, X, y, order="optimal", n_threads=2, progress=stop)

    def test_refuses_what_does_not_fit(self):
        forest = complete_forest(n_trees=12, depth=8, n_columns=2)
        X, y = np.zeros((10, 6), np.float32), np.zeros(10, int)
        with pytest.raises(InfeasibleError) as refused:
            find(forest, X, y, order="optimal")
        message = str(refused.value)
        assert "12 trees of depth 8 has 2.82e+11 states" in message
        assert "its first 10 trees or all 12 trees cut at depth 5" in message
        assert 'order="auto"' in message
        assert refused.value.achievable > 2**33
        with pytest.raises(InfeasibleError, match="its first 5 trees"):
            find(forest, X, y, order="unoptimal", max_memory=120_000)
        with pytest.raises(InfeasibleError, match=r"max_memory = 1 B\. Use"):
            find(forest, X, y, order="optimal", max_memory=1)
