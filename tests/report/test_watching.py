import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError


@pytest.fixture(scope="module")
def watch():
    X, y = make_classification(5000, n_informative=6, flip_y=0.1, random_state=1)
    model = RandomForestClassifier(21, max_depth=5, random_state=0).fit(X[:1000], y[:1000])
    fast = scurry.early_exit(model, X[1000:3000], max_disagreement=0.03, random_state=0)
    watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
    watch.predict(X[3000:])
    changed = fast.predict(X) != fast.forest.predict(X)
    for _ in range(10):
        watch.predict(X[changed])
    return watch


def test_the_page_shows_rate_promise_alarm_and_features(watch, tmp_path):
    page = scurry.report.write(watch, tmp_path / "watch.html").read_text(encoding="utf-8")
    state = watch.state
    assert state.is_raised
    for text in (
        "Watched promise: ",
        state.verdict,
        "promised: at most 3 %",
        "watch.recalibrate()",
        "The rate over time",
        "Evidence of recent rows",
        f"the alarm, at row {state.since:,}",
        "Which features changed",
        "Shadow rows by trees evaluated",
        f"{state.n_shadow:,} of them evaluated in full",
    ):
        assert text in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    for drift in watch.explain().drifted:
        assert drift.text in page


def test_a_page_without_rows_says_so(watch, tmp_path):
    empty = scurry.watch(watch.predictor)
    page = scurry.report.write(empty, tmp_path / "watch.html", title="Nothing yet").read_text(encoding="utf-8")
    assert "No shadow rows yet." in page
    assert "there are no shadow rows yet" in page
    assert "not known yet" in page
    assert "Where changed rows are" not in page
    assert "What now" not in page


def test_test_rows_are_for_other_pages(watch, tmp_path):
    with pytest.raises(InputError, match="leave X_test out"):
        scurry.report.write(watch, tmp_path / "w.html", [[1.0]])
    with pytest.raises(InputError, match="X_test is needed"):
        scurry.report.write(watch.predictor, tmp_path / "w.html")
