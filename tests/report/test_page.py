"""The page: complete, escaped, and about the rows it was given."""

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.errors import InputError, OutputError
from scurry.formatting import format_share
from scurry.predictor import Predictor
from scurry.report import exits
from scurry.report import page as sections
from scurry.report.story import TestRows
from scurry.timing import Lap, Runner


class Page(HTMLParser):
    """Links, ids and text of a page; unknown tags would show in `opened`."""

    def __init__(self, html):
        super().__init__()
        self.opened, self.addresses, self.ids = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "xlink:href", "srcset")]
        self.ids += [value for name, value in attrs if name == "id"]


def write_pages(data, forest, exit_by, folder):
    (X_cal, y_cal), (X, y) = data["cal"], data["test"]
    boosted = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(*data["fit"])
    regressor = RandomForestRegressor(5, max_depth=3, random_state=0).fit(*data["fit"])
    subjects = {
        "scores": (exit_by(forest, "auto"), y, None),
        "bins": (exit_by(forest, "fan"), y, None),
        "votes": (exit_by(forest, "minimax"), None, None),
        "boosted": (exit_by(boosted, "qwyc"), y, boosted),
        "sentinels": (exit_by(boosted, "sentinels"), y, None),
        "anytime": (scurry.anytime(forest, X_cal, y_cal, order="random", random_state=0), y, None),
        "regressor": (scurry.anytime(regressor, X_cal, y_cal, order="random", random_state=0), y, regressor),
        "path": (scurry.prune(forest, X_cal), y, None),
        "pruned": (scurry.prune(forest, X_cal).at(max_cost=5), y, None),
        "forest": (forest, y, None),
        "all trees": (Predictor(forest, scurry.Plan(order=np.arange(31, dtype=np.int32))), None, None),
    }
    return {
        name: scurry.report.write(subject, folder / f"{name}.html", X, labels, model=model)
        for name, (subject, labels, model) in subjects.items()
    }


def test_every_kind_of_page_is_complete_and_loads_nothing(data, forest, exit_by, tmp_path):
    for name, path in write_pages(data, forest, exit_by, tmp_path).items():
        html = path.read_text(encoding="utf-8")
        page = Page(html)
        assert page.addresses == [], name
        assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", html), name
        assert len(page.ids) == len(set(page.ids)), name
        for heading in ("Promised and measured", "Where the work goes", "Rows that changed", "Speed", "Settings"):
            assert f">{heading}</h2>" in html, name
        assert ("What another budget would do" in html) == (name not in ("forest", "pruned", "all trees"))
        assert (
            "nan"
            not in re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL).split(">Settings<")[0]
        )


def test_everything_is_escaped(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.rename(columns={"worst area": "</script><script>alert(1)</script>", "worst perimeter": '"><img src=x>'})
    labels = np.where(y == 1, "<b>benign & co</b>", "</title>malignant")
    model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(X[:200], labels[:200])
    fast = scurry.early_exit(model, X[200:400], max_disagreement=0.3, method="qwyc", confidence=None, random_state=0)
    path = scurry.report.write(fast, tmp_path / "r.html", X[400:], labels[400:], model=model, title="<i>$5 & more</i>")
    page = Page(path.read_text(encoding="utf-8"))
    assert page.opened.count("script") == 2
    assert {"img", "b", "i"}.isdisjoint(page.opened)
    assert "&lt;i&gt;$5 &amp; more&lt;/i&gt;" in path.read_text(encoding="utf-8")


def test_no_changed_rows_and_frames_by_name(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(15, random_state=0).fit(X[:300], y[:300])
    forest = scurry.from_model(model)
    shuffled = X[300:][X.columns[::-1]]
    html = scurry.report.write(forest, tmp_path / "r.html", shuffled, y[300:]).read_text(encoding="utf-8")
    assert "every test row has the full model's answer" in unescape(html)
    assert f"{100 * (model.predict(X[300:]) == y[300:]).mean():.2f} %" in html


def test_names_of_features_and_categories(forest, data, tmp_path):
    X, y = (part.copy() for part in data["test"])
    X[:, 3] = np.resize([0.0, 1.0, np.nan, 7.0], len(X))
    names = [f"feature {chr(97 + j)}" for j in range(forest.n_features)]
    codes = {name: ["low", "high"] for name in names[3:4]}
    named = scurry.from_model(forest, feature_names=names, categories=codes)
    by_use = np.argsort(-np.bincount(forest.feature[forest.left >= 0], minlength=20), kind="stable")
    anyt = scurry.anytime(named, *data["cal"], order="random", random_state=0)
    html = scurry.report.write(anyt, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
    assert [name in html for name in np.array(names)[by_use[:5]]] == [True] * 4 + [False]
    assert "column " not in html
    assert [sections._format_feature(named, 3, value) for value in (0.0, 1.0, np.nan, 7.0, -1.0)] == [
        *("low", "high", "missing", "7", "-1")
    ]
    assert sections._format_feature(named, 0, 1.0) == "1"


def test_rows_that_changed_are_those_at_the_budget_shown(forest, data):
    X, y = data["test"]
    anyt = scurry.anytime(forest, *data["cal"], order="random", random_state=0)
    test = TestRows(forest, X, y)
    story = exits.tell_steps(anyt, test)
    shown = int(story.curve.spent[story.curve.start])
    changed = int((anyt.predict(X, max_steps=shown) != forest.predict(X)).sum())
    assert 0 < changed <= 10
    assert f"{changed} of 1,000 test rows have another answer than the full model's after {shown:,} steps." in str(
        unescape(sections.render_changed_rows(story, test))
    )


def test_changed_rows_became_wrong_or_right_in_named_directions(forest, data, exit_by):
    X, y = data["test"]
    fast = exit_by(forest, "qwyc")
    full, labels = forest.predict(X), fast.predict(X)
    changed = full != labels
    n_wrong, n_right = int((changed & (full == y)).sum()), int((changed & (labels == y)).sum())
    assert n_wrong != n_right
    test = TestRows(forest, X, y)
    text = unescape(sections.render_changed_rows(exits.tell_exits(fast, test), test))
    assert f"{n_wrong:,} of these became wrong, {n_right:,} became right." in text
    for old, new in ((0, 1), (1, 0)):
        assert f"{int((changed & (full == old)).sum()):,} went from {old} to {new}" in text


def test_speed_is_compared_on_the_same_input():
    runners = [Runner("model", None), Runner("fast", None), Runner("fast", None, np.zeros((1, 1), np.float32))]
    html = sections.render_speed(runners, [Lap("one row", [3.0, 1.0, 0.002])], "pandas DataFrame")
    rows = [re.sub("<.*?>", "|", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    assert [re.sub(r"\|+", "|", row) for row in rows] == [
        "|Answers by|Input|one row|",
        "|model|pandas DataFrame|3 s|",
        "|fast|pandas DataFrame|1 s| (3.0 ×)|",
        "|fast|float32 array|2 ms|",
    ]
    slower = sections.render_speed(runners[:2], [Lap("one row", [1.0, 40.0])], "float32 array")
    assert "(0.025 ×)" in slower


def test_everybody_is_timed_on_what_the_user_passes(data, forest, exit_by, tmp_path, monkeypatch):
    X, y = data["test"]
    timed = []

    def measure(runners, table):
        timed.append((runners, table))
        return [Lap("one row", [1.0] * len(runners))]

    monkeypatch.setattr(sections, "measure_laps", measure)
    fast, model = exit_by(forest, "qwyc"), RandomForestClassifier(3, random_state=0).fit(*data["fit"])
    frame = pd.DataFrame(X)
    html = scurry.report.write(fast, tmp_path / "r.html", frame, y, model=model).read_text(encoding="utf-8")
    (runners, table), names = timed.pop(), ["all trees, scurry", "early exit"]
    assert table is frame
    assert [runner.name for runner in runners if runner.table is None] == ["RandomForestClassifier", *names]
    arrays = [runner for runner in runners if runner.table is not None]
    assert [runner.name for runner in arrays] == names
    assert all(runner.table.dtype == forest.input_dtype for runner in arrays)
    assert "pandas DataFrame" in html
    # An array that the engine reads as it is has no second form.
    scurry.report.write(fast, tmp_path / "r.html", X.astype(np.float32), y)
    assert [runner.table for runner in timed.pop()[0]] == [None, None]


def test_rows_stopped_early_are_those_that_left_trees_out(forest, data, exit_by):
    X, y = data["test"]
    for method in ("qwyc", "minimixed"):
        fast = exit_by(forest, method)
        tiles = {tile.name: tile for tile in exits.tell_exits(fast, TestRows(forest, X, y)).tiles}
        run = fast.run(X)
        stopped = (run.trees < forest.n_trees).mean()
        assert 0 < stopped < 1
        assert tiles["rows stopped early"].value == format_share(stopped)
        assert tiles["trees evaluated per row"].note == f"of 31: {format_share(1 - run.mean_trees / 31)} saved"


def test_errors(forest, data, tmp_path):
    X, y = data["test"]
    with pytest.raises(
        InputError,
        match=r"Offers, a Forest or a fitted estimator of scurry, got RandomForestClassifier; make one with",
    ):
        scurry.report.write(RandomForestClassifier(), tmp_path / "r.html", X, y)
    with pytest.raises(InputError, match=r"y_test has shape \(5,\), X_test has 1000 rows"):
        scurry.report.write(forest, tmp_path / "r.html", X, y[:5])
    with pytest.raises(InputError, match="X_test has no rows"):
        scurry.report.write(forest, tmp_path / "r.html", X[:0], y[:0])
    with pytest.raises(OutputError, match=r"cannot write .*name a file in a folder that exists"):
        scurry.report.write(forest, tmp_path / "missing" / "r.html", X, y)


def read_text(subject, folder, X, y=None, **options):
    page = scurry.report.write(subject, folder / "r.html", X, y, **options)
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_calibration_rows_judge_nothing_new(precision, data, exit_by, forest, tmp_path):
    fast = exit_by(forest, "qwyc")
    (X_cal, y_cal), (X, _) = data["cal"], data["test"]
    remark = "The test rows are those that it was calibrated on: they judge nothing new."
    assert (
        read_text(fast, tmp_path, X_cal.astype(precision), y_cal).count(remark) == 2
    )  # at the top, and at the verdict
    for others in (X, X_cal[:-1], np.vstack([X_cal, X[:1]])):
        assert "judge nothing new" not in read_text(fast, tmp_path, others)


@pytest.mark.parametrize("model", ["forest", "boosted"])
def test_training_rows_judge_nothing_new(model, data, request, tmp_path):
    model = request.getfixturevalue(model)
    remark = "The test rows look like rows that trained the model: they fall into the leaves of its trees almost as"
    for subject in (model, scurry.early_exit(model, *data["cal"], max_disagreement=0.05, random_state=0)):
        assert read_text(subject, tmp_path, *data["fit"]).count(remark) == 2
        assert "judge nothing new" not in read_text(subject, tmp_path, *data["test"])


def test_ranks_need_queries_and_nothing_else_does(by_ranks, by_values, tmp_path):
    fast, X, y, queries = by_ranks
    page = scurry.report.write(fast, tmp_path / "ranks.html", X, y, groups=queries)
    text = unescape(page.read_text(encoding="utf-8"))
    assert "trees per document" in text
    assert "Queries with another top 3" in text
    assert "came to the top of their query, left it, or moved in it" in text
    with pytest.raises(InputError, match="groups is needed") as caught:
        scurry.report.write(fast, tmp_path / "ranks.html", X)
    assert caught.value.argument == "groups"
    with pytest.raises(InputError, match="leave them out"):
        scurry.report.write(by_values[0], tmp_path / "values.html", X, groups=queries)


def test_a_promise_about_groups_is_judged_by_groups(data, tmp_path):
    X, y = data["fit"]
    named = [f"f{j}" for j in range(X.shape[1])]
    model = RandomForestClassifier(31, max_depth=6, random_state=0).fit(pd.DataFrame(X, columns=named), y)
    cal, new = (pd.DataFrame(data[part][0], columns=named) for part in ("cal", "test"))
    fast = scurry.early_exit(model, cal, max_disagreement=0.05, groups=np.arange(1000) // 2, random_state=0)
    patients = pd.concat([new[:60].assign(patient=np.arange(60))] * 60, ignore_index=True)
    text = read_text(fast, tmp_path, patients.drop(columns="patient"))
    assert "not judged: pass groups=, the group of each row" in text
    for judged in ("could be promised, from", "each bound with", "Verdict"):
        assert judged not in text
    text = read_text(fast, tmp_path, patients, groups="patient", model=model)  # which refuses other columns
    assert "60 rows, one of each group (" in text
    assert "too few rows to tell" in text
    assert "could be promised, from 60 rows" in text
    with pytest.raises(InputError, match=r"groups has shape \(3,\)"):
        read_text(fast, tmp_path, patients[named], groups=[1, 2, 3])
    with pytest.raises(InputError, match="groups='nobody' must be the name of a column"):
        read_text(fast, tmp_path, patients, groups="nobody")


def test_a_regressors_rows_are_those_that_changed_most(by_values):
    fast, X, y = by_values
    test = TestRows(fast.forest, X, y)
    text = unescape(sections.render_changed_rows(exits.tell_exits(fast, test), test))
    shown = [int(row.replace(",", "")) for row in re.findall(r'<th scope="row" class="t">([\d,]+)</th>', text)]
    errors = np.abs(fast.predict(X) - test.full)
    np.testing.assert_allclose(np.sort(errors)[::-1][:40], errors[shown])
    assert "furthest from it come first" in text


def test_pages_of_estimators(data, tmp_path):
    """Of a regressor, and of a classifier with a promise of its own; both show what others would cost."""
    X, y = data["fit"]
    promise = scurry.promises.LabelsPerClass({0: 0.1, 1: 0.1})
    classifier = scurry.EarlyExitClassifier(
        GradientBoostingClassifier(n_estimators=20), promise=promise, random_state=0
    )
    regressor = scurry.EarlyExitRegressor(GradientBoostingRegressor(n_estimators=20), random_state=0)
    for estimator, target in ((classifier, y), (regressor, X[:, 0] * X[:, 1])):
        X_new, y_new = data["test"]
        y_new = y_new if estimator is classifier else X_new[:, 0] * X_new[:, 1]
        page = scurry.report.write(estimator.fit(X, target), tmp_path / "page.html", X_new, y_new)
        text = page.read_text(encoding="utf-8")
        assert "What other promises would cost" in text
        assert "Verdict" in text


def test_tests_of_groups_are_a_table(boosted, data, tmp_path):
    X, _ = data["cal"]
    fast = scurry.early_exit(boosted, X, by=np.where(X[:, 0] > 0, "high", "low"), max_disagreement=0.1)
    text = scurry.report.write(fast, tmp_path / "by.html", data["test"][0]).read_text(encoding="utf-8")
    for test in fast.certificate.tests:
        row = f'<th scope="row" class="t">{test.group}</th><td class="n">{test.n_rows:,}</td>'
        assert f'{row}<td class="n">{test.n_broken:,}</td>' in text
