"""The section on right and wrong answers: its numbers are scikit-learn's."""

import re
from html import unescape

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError
from scurry.formatting import format_share
from scurry.report import exits
from scurry.report.page import write
from scurry.report.quality import _merge_rare, render_quality
from scurry.report.story import TestRows, tell_whole


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
    return exits.tell(fast, test), test


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
    assert found["recall of 1"] == ["none", "none", ""]


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
    assert columns["precision of 1"].tolist() == [1, 1]
