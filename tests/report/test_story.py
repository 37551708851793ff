"""Test rows and the story of a whole forest: measured against the definitions.

Claims: every kind of promise is judged by what test rows show, with an interval that can be trusted.

The section on right and wrong answers: its numbers are scikit-learn's.
"""

import re
from html import unescape

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn import metrics
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.formatting import format_share
from scurry.promises import (
    Accuracy,
    Certain,
    Certificate,
    Count,
    Labels,
    LabelsPerClass,
    Outcomes,
    Recall,
    TopK,
    Values,
)
from scurry.report import exits
from scurry.report.page import _render_table, write
from scurry.report.prunings import tell_pruning
from scurry.report.story import (
    TestRows,
    _merge_rare,
    claim_promise,
    find_interval,
    judge,
    outcomes_of,
    render_quality,
    tell_whole,
)
from scurry.stopping.verdict import audit_outcomes
from support.strategies import complete_forest


def test_quality_and_change_of_classifiers_are_shares(forest, data):
    X, y = data["test"]
    test, answers = TestRows(forest, X, y), np.zeros(len(y), int)
    columns = {column.name: column.values.tolist() for column in test.compare([answers, test.full])}
    full = forest.predict(X)
    assert columns["accuracy"] == [(y == 0).mean(), (full == y).mean()]
    assert columns["labels changed"] == [(full != 0).mean(), 0]
    assert columns["became wrong"] == [((full == y) & (y != 0)).mean(), 0]
    assert columns["became right"] == [((full != y) & (y == 0)).mean(), 0]


def test_quality_and_change_of_regressors_are_in_the_unit_of_values(data):
    X, y = data["test"]
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(*data["fit"])
    test = TestRows(scurry.from_model(model), X, y)
    assert test.measure_quality(y + 2.0) == pytest.approx(2)
    assert test.measure_change(test.full + 3.0) == pytest.approx(3)
    assert [column.name for column in test.compare([y])] == ["RMSE", "root mean squared change"]
    tile = tell_whole(test.forest, test).tiles[-1]
    assert (tile.name, tile.value) == ("RMSE", f"{metrics.root_mean_squared_error(y, model.predict(X)):.3g}")


def test_thinned_rows_are_evenly_spaced(forest, data):
    X, y = data["test"]
    test = TestRows(forest, X, y)
    assert test.thin(len(X)) is test
    thinned = test.thin(10)
    np.testing.assert_array_equal(thinned.rows, test.rows[::111])
    np.testing.assert_array_equal(thinned.y, y[::111])


def test_a_whole_forest_tests_every_node_on_the_way(forest, data):
    X, y = data["test"]
    story = tell_whole(forest, TestRows(forest, X, y))
    row, expected = X[0].astype(np.float32), 0
    for root in forest.tree_offset[:-1]:
        node = root
        while forest.left[node] >= 0:
            expected += 1
            goes_left = row[forest.feature[node]] <= forest.threshold[node]
            node = forest.left[node] if goes_left else forest.right[node]
    assert story.effort.per_row[0] == expected
    assert story.curve is None


@pytest.mark.parametrize(("n_broken", "n_rows"), [(0, 50), (3, 1000), (50, 50)])
def test_intervals_of_rates_are_exact(n_broken, n_rows):
    interval = binomtest(n_broken, n_rows).proportion_ci(0.95, "exact")
    assert find_interval(Count("rows", n_rows, n_broken, 0.1)) == pytest.approx(tuple(interval))


def test_only_an_interval_above_the_promise_speaks_against_it():
    assert judge(0.005, 0.002, 0.01, 0.01) == "kept"
    assert judge(0.005, 0.002, 0.011, 0.01) == "too few rows to tell"
    assert judge(0.012, 0.008, 0.02, 0.01) == "above it, perhaps by chance"
    assert judge(0.03, 0.02, 0.04, 0.01) == "not kept on these rows"


@pytest.mark.parametrize("promise", [Labels(0.03), LabelsPerClass({0: 0.05, 1: 0.02}), Accuracy(0.01)])
def test_a_report_says_what_an_audit_of_the_same_rows_says(promise, test_rows):
    for every in (7, 25, 60, 1000):
        answers = np.where(np.arange(len(test_rows)) % every == 0, 1 - test_rows.full, test_rows.full)
        outcomes = outcomes_of(test_rows, answers)
        claims, audit = claims_of(promise, outcomes), audit_outcomes(promise, outcomes)
        for claim, part in zip(claims[: len(audit.parts)], audit.parts, strict=True):
            assert (claim.verdict == "kept") == (part.verdict == "kept")
            assert (claim.verdict == "not kept on these rows") == (part.verdict == "broken")
            assert f"({format_share(part.lower)} to {format_share(part.upper)}, each bound" in claim.measured


@pytest.fixture
def test_rows():
    forest = complete_forest(3, 3, 4, 2)
    X = np.random.default_rng(1).normal(size=(400, 4))
    return TestRows(forest, X, forest.predict(X[::-1]))


@pytest.mark.parametrize(
    ("promise", "n_claims"),
    [(Labels(0.1), 1), (Certain(), 1), (LabelsPerClass({0: 0.1, 1: 0.2}), 3), (Recall(1, 0.1), 3), (Accuracy(0.1), 2)],
)
def test_every_kind_counts_what_it_is_about(test_rows, promise, n_claims):
    rng = np.random.default_rng(2)
    full, y = test_rows.full, test_rows.y
    answers = np.where(rng.random(len(full)) < 0.15, 1 - full, full)
    claims = claim_promise(Certificate(method="by hand", promise=promise), outcomes_of(test_rows, answers))
    assert len(claims) == n_claims
    changed = answers != full
    match promise:
        case LabelsPerClass():
            rates = [changed[full == label].mean() for label in (0, 1)]
        case Recall():
            rates = [changed[(full == 1) & (y == 1)].mean(), changed[full == 0].mean()]
        case Accuracy():
            rates = [(full == y).mean() - (answers == y).mean()]
        case _:
            rates = [changed.mean()]
    for claim, rate in zip(claims, rates, strict=False):
        assert float(claim.measured.partition(" %")[0]) == pytest.approx(100 * rate, abs=0.06)
        assert claim.verdict
    if n_claims > len(rates):
        assert claims[-1].promised == "nothing"


def test_promises_about_labels_need_labels(test_rows):
    without = TestRows(test_rows.forest, test_rows.rows)
    for promise in (Accuracy(0.1), Recall(1, 0.1)):
        claims = claim_promise(Certificate(method="by hand", promise=promise), outcomes_of(without, test_rows.full))
        promised, labels = claims
        assert promised.measured == "not measured: this promise needs labels (y_test)"
        assert (labels.what, labels.promised) == ("labels other than the model's", "nothing")


def claims_of(promise, outcomes):
    return claim_promise(Certificate(method="by hand", promise=promise), outcomes)


def test_values_and_ranks_are_judged():
    rng = np.random.default_rng(3)
    full, queries = rng.normal(size=1000), np.arange(1000) // 10
    answers = full + np.where(rng.random(1000) < 0.04, 0.5, 0.01)
    outcomes = Outcomes(answers=answers, full=full, queries=queries)
    n_beyond = int((np.abs(answers - full) > 0.1).sum())
    (kept,) = claims_of(Values(0.1, 0.08), outcomes)
    assert kept.verdict == "kept"
    assert claims_of(Values(0.1, 0.05), outcomes)[0].verdict == "too few rows to tell"
    assert f" {n_beyond} of 1,000 rows (" in kept.measured
    assert claims_of(Values(0.1, 0.01), outcomes)[0].verdict == "not kept on these rows"
    (of_fit_rows,) = claims_of(Values(0.1, 0.05, confidence=None), outcomes)
    assert (of_fit_rows.promised, of_fit_rows.verdict) == ("nothing", "")
    (ranks,) = claims_of(TopK(3, 0.3), outcomes)
    assert " of 100 queries (" in ranks.measured
    assert ranks.promised == "at most 30 %"


def test_probabilities_and_log_odds_are_those_of_the_second_class():
    forest = complete_forest(3, 3, 4, 1, classes=np.arange(2), link="logistic", aggregation="sum")
    test = TestRows(forest, np.random.default_rng(1).normal(size=(80, 4)))
    p = forest.predict_proba(test.rows)
    scores = forest.scores(test.rows)[:, 0] + 1.0
    outcomes = outcomes_of(test, test.full, probabilities=p[:, ::-1], scores=scores)
    np.testing.assert_array_equal(outcomes.full_probabilities, p[:, 1])
    np.testing.assert_array_equal(outcomes.probabilities, p[:, 0])
    np.testing.assert_allclose(outcomes.full_log_odds, np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    assert claims_of(Values(0.99, of="log-odds"), outcomes)[0].verdict == "not kept on these rows"
    assert claims_of(Values(1.01, of="log-odds"), outcomes)[0].verdict == "kept"


def test_mean_costs_are_shown_next_to_the_models(test_rows):
    answers = np.where(np.arange(len(test_rows)) % 20 == 0, 1 - test_rows.full, test_rows.full)
    promise = Accuracy(2.0, error_costs=[[0, 1], [5, 0]])
    claim = claims_of(promise, outcomes_of(test_rows, answers))[0]
    y = test_rows.y
    ours, full = (np.where(each == y, 0, np.where(y == 1, 5, 1)).mean() for each in (answers, test_rows.full))
    assert claim.measured.startswith(f"{ours - full:+.3g}: ")
    assert "by betting" in claim.measured
    assert (claim.promised, claim.verdict) == ("rises by at most 2", "kept")


def cells(html):
    """All tables of a page, as lists of rows of texts."""
    tables = re.findall(r"<table.*?>(.*?)</table>", str(html), re.DOTALL)
    return [
        [
            [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        ]
        for table in tables
    ]


def tell(fast, X, y):
    test = TestRows(fast.forest, X, y)
    return exits.tell_exits(fast, test), test


@pytest.mark.parametrize("names", [np.array([0, 1]), np.array(["healthy", "ill"])])
def test_two_classes(names, data):
    (X_fit, y_fit), (X_cal, _), (X, y) = data["fit"], data["cal"], data["test"]
    model = RandomForestClassifier(31, max_depth=6, random_state=0).fit(X_fit, names[y_fit])
    fast = scurry.early_exit(model, X_cal, max_disagreement=0.05, method="qwyc")
    story, test = tell(fast, X, names[y])
    measures, *confusions = cells(render_quality(story, test))
    assert measures[0] == ["Measure", "Full model", "Early exit", "Change"]
    found = {name: values for name, *values in measures[1:]}
    answers = [model.predict(X), fast.predict(X)]
    assert (answers[0] != answers[1]).any()
    for k in (0, 1):
        for measure, function in (("recall", metrics.recall_score), ("precision", metrics.precision_score)):
            expected = [float(function(names[y], labels, pos_label=names[k])) for labels in answers]
            assert found[f"{measure} of {names[k]}"][:2] == [format_share(value) for value in expected]
            change = expected[1] - expected[0]
            sign = "" if change == 0 else "+" if change > 0 else "\u2212"
            assert found[f"{measure} of {names[k]}"][2] == sign + format_share(abs(change)).replace("%", "points")
    assert found["accuracy"][:2] == [format_share((labels == names[y]).mean()) for labels in answers]
    recalls = [format_share(float((labels[y == 1] == names[1]).mean())) for labels in answers]
    assert (f"recall of {names[1]}", recalls[1], f"full model: {recalls[0]}") in story.tiles
    probabilities = [model.predict_proba(X), fast.predict_proba(X)]
    assert found["AUC"][:2] == [f"{metrics.roc_auc_score(y, p[:, 1]):.4f}" for p in probabilities]
    assert found["log-loss"][:2] == [f"{metrics.log_loss(y, p):.4f}" for p in probabilities]
    for table, labels in zip(confusions, answers, strict=True):
        assert table[0] == ["Truth", *map(str, names)]
        counts = [[int(cell.replace(",", "")) for cell in row[1:]] for row in table[1:]]
        assert counts == metrics.confusion_matrix(names[y], labels).tolist()


@pytest.mark.parametrize("method", ["qwyc", "fan", "minimixed", "minimean"])
def test_probabilities_stand_next_to_the_full_models(method, forest, data, exit_by):
    X, y = data["test"]
    fast = exit_by(forest, method)
    measures, *_ = cells(render_quality(*tell(fast, X, y)))
    found = {name: values for name, *values in measures[1:]}
    wanted = {"AUC": lambda p: metrics.roc_auc_score(y, p[:, 1]), "log-loss": lambda p: metrics.log_loss(y, p)}
    for what, measure in wanted.items():
        ours, full = measure(fast.predict_proba(X)), measure(forest.predict_proba(X))
        assert found[what][:2] == [f"{full:.4f}", f"{ours:.4f}"]


def test_several_classes():
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[:600], y[:600])
    fast = scurry.early_exit(model, X[600:1200], max_disagreement=0.1, method="qwyc")
    measures, classes, *confusions = cells(render_quality(*tell(fast, X[1200:], y[1200:])))
    found, truth = {name: values for name, *values in measures[1:]}, y[1200:]
    answers = [model.predict(X[1200:]), fast.predict(X[1200:])]
    recalls, precisions = (
        [function(truth, labels, average=None) for labels in answers]
        for function in (metrics.recall_score, metrics.precision_score)
    )
    assert found["mean recall (balanced accuracy)"][:2] == [format_share(float(r.mean())) for r in recalls]
    assert found["mean precision"][:2] == [format_share(float(p.mean())) for p in precisions]
    auc = metrics.roc_auc_score(truth, fast.predict_proba(X[1200:]), multi_class="ovr")
    assert found["AUC, mean of each class against the rest"][1] == f"{auc:.4f}"
    for k, row in enumerate(classes[1:]):
        shares = [recalls[0][k], recalls[1][k], precisions[0][k], precisions[1][k]]
        assert row == [str(k), str((truth == k).sum()), *(format_share(float(share)) for share in shares)]
    assert [len(table) for table in confusions] == [11, 11]


def test_rare_classes_become_one():
    rng = np.random.default_rng(0)
    truth, labels = rng.integers(0, 26, (2, 4000))
    names, counts = _merge_rare(scurry.evaluation.label_quality(labels, truth))
    assert names[-1] == "17 others"
    assert len(names) == 10
    assert counts.sum() == 4000
    frequent = [int(name) for name in names[:-1]]
    np.testing.assert_array_equal(counts[:9, :9], metrics.confusion_matrix(truth, labels)[np.ix_(frequent, frequent)])


def test_a_whole_forest_has_one_column(forest, data):
    test = TestRows(forest, *data["test"])
    measures, confusion = cells(render_quality(tell_whole(forest, test), test))
    assert measures[0] == ["Measure", "Full model"]
    assert len(confusion) == 3


def test_rows_of_one_class_have_no_auc(forest, data, exit_by):
    X, y = data["test"]
    measures, *_ = cells(render_quality(*tell(exit_by(forest, "qwyc"), X[y == 0], y[y == 0])))
    found = {name: values for name, *values in measures[1:]}
    assert "AUC" not in found
    assert found["recall of 1"] == ["–", "–", ""]


def test_without_labels_or_classes_there_is_no_section(forest, data, exit_by):
    X, y = data["test"]
    assert render_quality(*tell(exit_by(forest, "qwyc"), X, None)) is None
    regressor = scurry.from_model(RandomForestRegressor(3, max_depth=3, random_state=0).fit(*data["fit"]))
    test = TestRows(regressor, X, y)
    assert render_quality(tell_whole(regressor, test), test) is None


def test_labels_that_the_model_does_not_know_are_refused(forest, data, tmp_path):
    X, y = data["test"]
    with pytest.raises(InputError, match=r"y_test has 2 labels the model does not know: '0', '1'"):
        write(forest, tmp_path / "r.html", X, y.astype(str))
    with pytest.raises(InputError, match="y_test has 1 missing labels, the first in row 3"):
        write(forest, tmp_path / "r.html", X, np.where(np.arange(len(y)) == 3, np.nan, y))


def test_the_slider_shows_what_accuracy_hides(forest, data, exit_by):
    X, y = data["test"]
    fast = exit_by(forest, "qwyc")
    curve = tell(fast, X, y)[0].curve
    at = {column.name: column.values[curve.shipped] for column in curve.columns}
    labels = fast.predict(X)
    assert at["recall of 1"] == pytest.approx(metrics.recall_score(y, labels))
    assert at["precision of 1"] == pytest.approx(metrics.precision_score(y, labels))
    columns = {c.name: c.values for c in TestRows(forest, X, y).compare([np.zeros(len(y), int), y])}
    assert columns["recall of 1"].tolist() == [0, 1]
    np.testing.assert_equal(columns["precision of 1"], [np.nan, 1])


def test_the_precision_of_an_answer_that_nobody_gets_is_a_dash(forest, data):
    X, y = data["test"]
    story = tell_pruning(scurry.prune(forest, data["cal"][0]), TestRows(forest, X, y), max_cost=0)
    table = unescape(str(_render_table(story.curve)))
    headers = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table)
    free = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", table.split("<tbody>")[1].split("</tr>")[0])
    found = dict(zip(headers, free, strict=True))
    assert len(set(story.answers.tolist())) == 1
    answered = story.answers[0] == 1
    assert (found["Recall of 1"], found["Precision of 1"] == "–") == ("100 %" if answered else "0 %", not answered)
    assert "nan" not in table


def test_the_class_whose_recall_is_promised_comes_first(forest, data, exit_by):
    X, y = data["test"]
    fast = exit_by(forest, "qwyc")
    for main, other in ((0, 1), (1, 0)):
        test = TestRows(forest, X, y, promise=scurry.promises.Recall(main, 0.01))
        assert test.thin(50).main_class == test.main_class == main
        columns = {column.name: column.values.tolist() for column in test.compare([np.full(len(y), main), 1 - y])}
        assert columns[f"recall of {main}"] == [1, 0]
        assert f"recall of {other}" not in columns
        measures = [row[0] for row in cells(render_quality(exits.tell_exits(fast, test), test))[0]]
        assert measures.index(f"recall of {main}") < measures.index(f"recall of {other}")
