"""What other promises would cost: counted anew, setting by setting."""

import numpy as np
import pytest

import scurry
from scurry.plan import StopRule
from scurry.predictor import Predictor
from scurry.promises import Accuracy, Certificate, Labels, LabelsPerClass, TopK, Values
from scurry.report import exits
from scurry.report.alternatives import FACTORS, find_alternatives, render_alternatives, try_settings, write_promise
from scurry.report.story import TestRows


def runs_of(fast, X):
    """Answers, probabilities and trees of every setting, from cautious to bold."""
    stop, plan = fast.plan.stop, fast.plan
    rules = [stop.without_stops(), *(stop.with_scaled_thresholds(fast.forest, float(f)) for f in FACTORS[::-1])]
    tried = [Predictor(fast.forest, scurry.Plan(order=plan.order, stop=r, score_map=plan.score_map)) for r in rules]
    return [(each.predict(X), each.predict_proba(X)[:, 1], each.run(X).mean_trees) for each in tried]


@pytest.mark.parametrize("method", ["qwyc", "sentinels"])
def test_each_costs_what_the_cheapest_setting_that_keeps_it_spends(boosted, data, exit_by, method):
    fast, (X, y) = exit_by(boosted, method), data["test"]
    full, p = boosted.predict(X), boosted.predict_proba(X)[:, 1]
    keeps = {
        "at most 0.5 %": lambda a, q: (a != full).mean() <= 0.005,
        "at most 0.1 %": lambda a, q: (a != full).mean() <= 0.001,
        "at most 2 %": lambda a, q: all((a != full)[full == k].mean() <= 0.02 for k in (0, 1)),
        "accuracy": lambda a, q: (full == y).mean() - (a == y).mean() <= 0.003 + 1e-12,
        "95 %": lambda a, q: (np.abs(q - p) > 0.02).mean() <= 0.05,
    }
    runs, found = runs_of(fast, X), find_alternatives(fast.certificate, try_settings(fast, TestRows(boosted, X, y)))
    assert len(found) == len(keeps)
    for each, (begins, is_kept) in zip(found, keeps.items(), strict=True):
        assert each.what.startswith(begins)
        expected = boosted.n_trees
        for answers, probabilities, trees in runs:
            if not is_kept(answers, probabilities):
                break
            expected = min(expected, trees)
        assert each.mean_trees == pytest.approx(expected)
    spent = [each.mean_trees for each in found]
    assert spent[0] <= spent[1], "the tighter promise is not cheaper"
    assert spent[0] < boosted.n_trees


def test_calls_make_the_promise():
    promises = [
        Labels(0.005),
        LabelsPerClass({"a=b": 0.02, "yes": 0.02}, confidence=0.9),
        Accuracy(0.003),
        Values(0.02, of="probability"),
        TopK(10, 0.05, keep="set"),
    ]
    assert [eval(write_promise(promise), {"scurry": scurry}) for promise in promises] == promises
    assert write_promise(promises[2]) == "scurry.promises.Accuracy(0.003)"


def test_a_threshold_by_hand_stays(boosted, data):
    fast = scurry.early_exit(boosted, data["cal"][0], max_disagreement=0.05, method="qwyc", threshold=0.3)
    found = find_alternatives(fast.certificate, try_settings(fast, TestRows(fast.forest, data["test"][0])))
    assert len(found) == 4
    assert all(each.call.endswith(", threshold=0.3)") for each in found)


def test_without_labels_nothing_is_said_of_accuracy(boosted, data, exit_by):
    fast = exit_by(boosted, "qwyc")
    found = find_alternatives(fast.certificate, try_settings(fast, TestRows(boosted, data["test"][0])))
    assert not any("accuracy" in each.what for each in found)


def test_errors_of_a_regressor_are_parts_of_its_own(by_values):
    fast, X, y = by_values
    test = TestRows(fast.forest, X, y)
    rmse = float(np.sqrt(np.square(fast.forest.predict(X) - y).mean()))
    found = find_alternatives(fast.certificate, try_settings(fast, test))
    assert [each.call for each in found] == [
        f"scurry.early_exit(model, X_cal, promise=scurry.promises.Values({float(f'{rmse / part:.2g}')}))"
        for part in (4, 8)
    ]
    assert found[0].mean_trees <= found[1].mean_trees
    without = find_alternatives(fast.certificate, try_settings(fast, TestRows(fast.forest, X)))
    assert [each.call.partition("Values")[2] for each in without] == ["(0.6))", "(0.3))", "(0.15))"]
    by_hand = find_alternatives(Certificate(method="by hand"), try_settings(fast, TestRows(fast.forest, X)))
    assert by_hand == []


def test_queries_of_a_ranker(by_ranks):
    fast, X, y, queries = by_ranks
    found = find_alternatives(fast.certificate, try_settings(fast, TestRows(fast.forest, X, y, groups=queries)))
    assert [each.needs for each in found] == ["299 queries", "59 queries", "29 queries", "299 queries"]
    assert all("groups=groups" in each.call for each in found)
    assert found[0].mean_trees >= found[1].mean_trees >= found[2].mean_trees


def test_a_vote_that_is_not_the_models_keeps_nothing_of_it(forest, data, exit_by):
    fast, (X, y) = exit_by(forest, "minimixed"), data["test"]
    test = TestRows(forest, X, y)
    assert (test.full_vote != test.full).mean() > 0.005
    story = exits.tell_exits(fast, test)
    assert story.alternatives[0].mean_trees is None
    assert "not by this plan" in render_alternatives(story)
    assert "because they vote" in render_alternatives(story)


def test_what_cannot_be_scaled_has_no_section(boosted, data):
    certain = scurry.early_exit(boosted, promise=scurry.promises.Certain())
    test = TestRows(boosted, data["test"][0][:200])
    assert try_settings(certain, test) is None
    assert render_alternatives(exits.tell_exits(certain, test)) is None
    assert StopRule.with_scaled_thresholds(certain.plan.stop, boosted, 2.0) is None
