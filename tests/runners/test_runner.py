"""What all runners share: the budget of a row, and the report of a run."""

import sys

import numpy as np
import pytest

from scurry import AbortFlag
from scurry.errors import InputError
from scurry.runners.runner import COMPLETE, DECIDED, NO_LIMIT, STOP_REASONS, Budget, Run


class TestBudget:
    def test_none_is_no_limit(self):
        assert Budget.of(None, None, None) == NO_LIMIT
        # A deadline that was computed may be infinite.
        assert Budget.of(None, np.inf, None) == NO_LIMIT
        assert Budget.of(10**30, None, None) == NO_LIMIT

    def test_each_limit_counts(self):
        flag = AbortFlag()
        for budget in (Budget.of(0, None, None), Budget.of(None, 0.0, None), Budget.of(None, None, flag)):
            assert budget != NO_LIMIT
        assert Budget.of(3, 5, flag) == Budget(3, 5.0, flag)
        assert Budget.of(np.int16(3), np.float32(5), None) == Budget(3, 5.0)
        assert Budget.of(None, 5.0, None).max_steps == sys.maxsize

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((-1, None, None), "max_steps must be a whole number of at least 0, got -1; None runs all steps"),
            ((1.5, None, None), "max_steps must be a whole number"),
            ((True, None, None), "max_steps must be a whole number"),
            ((None, -1, None), "time_us must be a number of at least 0, got -1; None sets no deadline"),
            ((None, np.nan, None), "time_us must be a number"),
            ((None, "1", None), "time_us must be a number"),
            ((None, None, "stop"), "abort must be a scurry.AbortFlag, got str"),
        ],
    )
    def test_mistakes(self, arguments, message):
        with pytest.raises(InputError, match=message):
            Budget.of(*arguments)


def make_run(trees, codes, calls=None) -> Run:
    def count(name, values):
        def find():
            (calls if calls is not None else []).append(name)
            return values

        return find

    trees = np.array(trees, np.int32)
    return Run(
        labels=np.zeros(len(trees)),
        trees=trees,
        reason_codes=np.array(codes, np.uint8),
        find_scores=count("scores", trees / 8),
        count_steps=count("steps", 3 * trees.astype(np.int64)),
    )


class TestRun:
    def test_means_and_reasons(self):
        run = make_run([8, 2, 2], [COMPLETE, DECIDED, DECIDED])
        assert run.mean_trees == 4
        assert run.mean_steps == 12
        assert run.stop_reason.tolist() == ["complete", "decided", "decided"]
        assert run.complete.tolist() == [True, False, False]
        assert repr(run) == "Run(n_rows=3, mean_trees=4.00, stopped_early=66.7%)"

    def test_expensive_parts_are_found_once_and_only_if_needed(self):
        calls = []
        run = make_run([8, 2], [COMPLETE, DECIDED], calls)
        assert run.mean_trees == 5
        assert calls == []
        assert run.scores is run.scores
        assert run.steps.tolist() == [24, 6]
        assert run.mean_steps == 15
        assert calls == ["scores", "steps"]

    def test_no_rows(self):
        run = make_run([], [])
        assert (run.mean_trees, run.mean_steps) == (0, 0)
        assert repr(run) == "Run(n_rows=0, mean_trees=0.00, stopped_early=0.0%)"

    def test_names_of_reasons(self):
        assert STOP_REASONS.tolist() == ["complete", "decided", "max_steps", "time", "abort"]


def test_abort_flag():
    flag = AbortFlag()
    assert not flag.is_set()
    flag.set()
    assert flag.is_set()
    flag.clear()
    assert not flag.is_set()
