"""What a model takes of a microcontroller. `make embedded` compares it with compiled firmware."""

import itertools
import re

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import scurry
from scurry import Predictor
from scurry.export import LAYOUTS, to_c
from scurry.export.c.sizes import count_work, estimate_time
from scurry.export.lowered import lower
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest, symmetric_forest

X = np.random.default_rng(0).normal(size=(400, 4))


def predictors() -> dict[str, Predictor]:
    forest, several = complete_forest(9, 3, 4, 2), complete_forest(9, 3, 4, 3)
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X, X[:, 0] > X[:, 1]))
    options = {"max_disagreement": 0.1, "confidence": None, "random_state": 0}
    return {
        "full": Predictor.full(several),
        "levels": Predictor.full(symmetric_forest(9, 3, 4, 1, aggregation="sum")),
        "sets": Predictor.full(symmetric_forest(9, 3, 4, 1, n_sets=3, aggregation="sum")),
        "anytime": anytime_of(several),
        "mixed": scurry.early_exit(forest, X, method="minimixed", **options),
        "qwyc": scurry.early_exit(forest, X, method="qwyc", **options),
        "leads": scurry.early_exit(several, X, method="minimixed", **options),
        "sentinels": scurry.early_exit(boosted, X, method="sentinels", **options),
        "cells": scurry.early_exit(boosted, promise=scurry.promises.Certain()),
    }


PREDICTORS = predictors()


@pytest.mark.parametrize("kind", PREDICTORS)
def test_the_longest_row_is_that_of_all_trees_and_tests(kind, tmp_path):
    pred, n_layouts = PREDICTORS[kind], 0
    for name, layout in LAYOUTS.items():
        try:
            lowered = lower(pred, layout)
        except scurry.errors.ScurryError:  # a layout that this plan does not have
            continue
        n_layouts += 1
        most = estimate_time(count_work(lowered))
        sizes = to_c(pred, tmp_path, layout=name).sizes
        expected = (most.instructions, most.m4, None if layout.float_thresholds else most.m0)
        assert (sizes.max_instructions, sizes.max_cycles, sizes.max_cycles_m0) == expected
        assert most.m4 > most.instructions > 5 * (27 if lowered.is_anytime else sizes.max_tests)
        header = (tmp_path / "model.h").read_text()
        written = {key: int(value) for key, value in re.findall(r"#define MODEL_(MAX_CYCLES\w*) (\d+) ", header)}
        assert written == {"MAX_CYCLES": most.m4} | ({} if layout.float_thresholds else {"MAX_CYCLES_M0": most.m0})
        assert f"{most.m4:,}" in (tmp_path / "README.md").read_text()
        if not lowered.is_anytime:
            shorter = [estimate_time(count_work(lowered, n, sizes.max_tests * n // 9)) for n in range(10)]
            assert all(one < other for one, other in itertools.pairwise(shorter))
            assert all(np.less_equal(shorter[-1], most))
    assert n_layouts >= 3


def test_work_is_counted():
    lowered = lower(PREDICTORS["sets"], LAYOUTS["int16-uint16"])
    work, n_tests = count_work(lowered), int(PREDICTORS["sets"].forest.tree_depth.sum())
    assert {name: n for name, n in work.items() if n} == {
        "row": 1, "tree": 9, "class": 1, "sum": 9, "column, bits": len(lowered.columns.feature),
        "test, integer levels": n_tests, "set": n_tests,
    }  # fmt: skip
    assert estimate_time(work + work) == tuple(2 * n for n in estimate_time(work))
    shorter = count_work(lowered, 2, 5)
    assert (shorter["tree"], shorter["sum"], shorter["set"]) == (2, 2, 5)
    runs = lower(PREDICTORS["anytime"], LAYOUTS["breadcrumb"])
    work = count_work(runs)
    assert (work["run"], work["step, code"]) == (len(runs.runs), 27)
