"""The code on a page leads to the plan that the page is about."""

import ast
import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.predictor import Predictor
from scurry.promises import Labels
from scurry.report import exits
from scurry.report.page import write

GROUPS = np.arange(1000) // 2
OPTIONS = {
    "defaults": {"max_disagreement": 0.05},
    "threshold": {"max_disagreement": 0.05, "method": "qwyc", "threshold": 0.3, "keep_scores": "positive"},
    "costs": {"max_disagreement": 0.05, "method": "qwyc", "costs": np.linspace(1, 2, 31), "confidence": 0.8},
    "steps": {"max_disagreement": 0.05, "method": "auto", "costs": "steps"},
    "promise": {"promise": Labels(0.06, confidence=0.9), "method": "qwyc", "groups": GROUPS},
    "unseeded": {"max_disagreement": 0.05, "method": "minimean"},
    "generator": {"max_disagreement": 0.05, "method": "minimean", "random_state": np.random.default_rng(5)},
    "row": {"max_disagreement": 0.05, "method": "minimixed", "shuffle": "row", "random_state": 3},
    "fan": {"max_disagreement": 0.05, "method": "fan", "confidence": None, "y_cal": True},
    "fit": {"max_disagreement": 0.05, "method": "qwyc", "X_fit": True},
}


def code_on(path):
    """The call under "Made by", and those of the slider with the number of the predictor's own."""
    html = path.read_text(encoding="utf-8")
    made_by = unescape(re.search(r"Made by <code>(.*?)</code>", html, re.DOTALL)[1])
    found = re.search(r'id="budgets">(.*?)</script>', html)
    data = json.loads(found[1]) if found else {"points": [], "shipped": None}
    return made_by, [point["call"] for point in data["points"]], data["shipped"]


def same_plan(one, other):
    assert (one.plan.order == other.plan.order).all()
    assert one.forest.digest == other.forest.digest
    assert one.certificate.to_json() == other.certificate.to_json()
    assert one.digest == other.digest


@pytest.mark.parametrize("name", OPTIONS)
def test_the_code_leads_to_the_same_plan(name, forest, data, tmp_path):
    (X, y), given = data["cal"], dict(OPTIONS[name])
    names = {"scurry": scurry, "model": forest, "X_cal": X, "y_cal": y, "X_fit": data["fit"][0], "groups": GROUPS}
    given |= {key: names[key] for key in ("y_cal", "X_fit") if key in given}
    fast = scurry.early_exit(forest, X, **given)
    groups = np.arange(50) if "groups" in given else None  # without them no other promise is shown
    made_by, calls, shipped = code_on(write(fast, tmp_path / "r.html", data["test"][0][:50], groups=groups))
    same_plan(eval(made_by, names), fast)
    assert calls[shipped] == made_by
    # Another budget changes the promise, and nothing else.
    shipped_with, another_with = options_of(made_by), options_of(calls[0 if shipped else -1])
    assert float(another_with.pop("max_disagreement")) != float(shipped_with.pop("max_disagreement"))
    assert {**another_with, "confidence": shipped_with["confidence"]} == shipped_with


def options_of(call):
    return {option.arg: ast.unparse(option.value) for option in ast.parse(call, mode="eval").body.keywords}


@pytest.mark.parametrize("order", ["random", "auto", "backward-squirrel"])
def test_the_code_leads_to_the_same_order(order, forest, data, tmp_path):
    X, y = data["cal"]
    ready = scurry.anytime(forest, X, y, order=order, readout="weighted")
    made_by, _, _ = code_on(write(ready, tmp_path / "r.html", data["test"][0][:50]))
    same_plan(eval(made_by, {"scurry": scurry, "model": forest, "X_order": X, "y_order": y}), ready)


def test_a_plan_that_would_not_pay_is_made_by_its_own_call(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(1, random_state=0).fit(X[:600], y[:600])
    full = scurry.early_exit(model, X[600:1200], max_disagreement=0.02)
    assert full.certificate.method == "full"
    made_by, _, _ = code_on(write(full, tmp_path / "r.html", X[1200:], y[1200:]))
    same_plan(eval(made_by, {"scurry": scurry, "model": model, "X_cal": X[600:1200]}), full)


def test_the_call_is_saved_with_the_plan(forest, data, tmp_path):
    fast = scurry.early_exit(forest, data["cal"][0], max_disagreement=0.05, method="qwyc", threshold=0.3)
    fast.save(tmp_path / "fast.scurry")
    assert scurry.load(tmp_path / "fast.scurry").certificate.recipe == fast.certificate.recipe
    assert "threshold=0.3" in fast.certificate.recipe


@pytest.mark.parametrize("recipe", ["", "no ( Python", "1 + 1", "</script><b>"])
def test_plans_without_a_call_show_what_is_known(forest, data, tmp_path, recipe):
    fast = scurry.early_exit(forest, data["cal"][0], max_disagreement=0.05, method="qwyc", threshold=0.3)
    old = Predictor(fast.forest, replace(fast.plan, certificate=replace(fast.certificate, recipe=recipe)))
    made_by, calls, shipped = code_on(write(old, tmp_path / "r.html", data["test"][0][:50]))
    known = "scurry.early_exit(model, X_cal, max_disagreement=0.05, confidence=0.95, method='qwyc', threshold=0.3)"
    assert made_by == calls[shipped] == (recipe or known)


def test_the_promise_says_at_which_threshold_and_which_scores_are_kept(forest, data):
    fast = scurry.early_exit(
        forest, data["cal"][0], max_disagreement=0.05, method="qwyc", threshold=0.3, keep_scores="positive"
    )
    said = exits.tell_exits(fast, exits.TestRows(fast.forest, data["test"][0])).promise
    name = forest.classes.tolist()[1]
    assert f"Here the model answers {name!r} where P({name}) >= 0.3. Rows of class {name!r} get their full" in said
    assert "second class" not in said
    old = replace(fast.certificate, note="")
    assert "answers its second class from a probability of 0.3 on" in old.statement()
    assert said in " ".join(str(fast.summary()).split())
