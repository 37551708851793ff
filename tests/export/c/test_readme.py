import re
import subprocess
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.export import to_c
from scurry.export.replay import in_percent, run_trees
from scurry.forest import as_rows
from scurry.promises import Certain, LabelsPerClass, Recall, Values
from support.calibration_rows import full_vote, two_classes


def test_adverse_feature_names_in_the_order_of_a_row(cancer, tmp_path):
    names = ["age", "a | b `c` <b>\n*/", *(f"x{j}" for j in range(28))]
    to_c(scurry.from_model(cancer[0], feature_names=names), tmp_path, X_cal=cancer[1])
    listed = [line for line in (tmp_path / "README.md").read_text().split("`row[…]`")[1].splitlines() if "`" in line]
    assert listed[0] == '| 0 | `"age"` |'
    assert listed[1] == '| 1 | `"a \\u007c b \\u0060c\\u0060 \\u003cb>\\n*/"` |'
    assert len(listed) == 30


@pytest.mark.parametrize("plan", ["anytime", "mixed", "whole"])
def test_the_code_in_the_readme_compiles(anyt, cancer, tmp_path, plan):
    model, X, _ = cancer
    mixed = partial(scurry.early_exit, model, X, max_disagreement=0.1, method="minimixed", confidence=None)
    pred = {"anytime": lambda: anyt, "mixed": mixed, "whole": lambda: scurry.from_model(model)}[plan]()
    to_c(pred, tmp_path)
    snippet = re.search(r"```c\n(.*?)```", (tmp_path / "README.md").read_text(), flags=re.DOTALL)[1]
    include, code = snippet.split("\n", 1)
    (tmp_path / "main.c").write_text(f"{include}\nint main(void)\n{{\n{code}\nreturn (int)label;\n}}\n")
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    subprocess.run(["cc", *flags, "-c", "main.c", "model.c"], cwd=tmp_path, check=True)


def test_agreement_is_shown_with_its_worst_step(anyt, cancer, tmp_path):
    to_c(anyt, tmp_path)
    assert "was not measured" in (tmp_path / "README.md").read_text()
    rows = np.round(cancer[1], 1)
    export = to_c(anyt, tmp_path, layout="int16-uint8", X_cal=rows)
    text = (tmp_path / "README.md").read_text()
    shown = dict(re.findall(r"^\| (\d+) \| ([\d.]+) % \|$", text, flags=re.MULTILINE))
    if export.agreement.min() == 1:
        assert "all calibration rows" in text
    else:
        assert float(shown[str(export.agreement.argmin())]) == min(map(float, shown.values()))


@pytest.mark.parametrize("method", ["qwyc", "minimean"])
def test_the_promise_is_the_source_s_and_what_the_c_keeps_of_it_is_measured(tmp_path, method):
    """Coarse numbers: the C agrees less with the promise's labels than the predictor that was certified."""
    X, y = two_classes(3000, 0)
    model = RandomForestClassifier(21, max_depth=5, random_state=0).fit(X[:500], y[:500])
    fast = scurry.early_exit(model, X[500:], max_disagreement=0.05, method=method, random_state=0)
    whose = "the model's" if method == "qwyc" else "the full vote's"
    export = to_c(fast, tmp_path, layout="int16-uint8", X_cal=X)
    wanted = model.predict(X) if method == "qwyc" else full_vote(model, X)
    replayed = run_trees(export.candidates[0].lowered, as_rows(fast.forest, X)).codes
    assert export.kept == (model.classes_[replayed] == wanted).mean()
    text = (tmp_path / "README.md").read_text()
    assert fast.certificate.statement() in text
    assert "what that changes is outside the certificate" in text
    assert f"The C keeps it on {in_percent(export.kept)} of the calibration rows; promised are 95.000 %" in text
    assert f"(labels other than {whose} break it)" in text
    assert "outside the certificate" in (tmp_path / "model.h").read_text()
    assert "of the rows of X_cal keep the promise" in str(export)
    with pytest.warns(scurry.errors.ScurryWarning, match="was not measured"):
        to_c(fast, tmp_path)
    assert "On which share of rows it does so was not measured" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        (Certain(), "promised are 100 %"),
        (LabelsPerClass({0: 0.05, 1: 0.05}), "(other labels for rows that the model labels"),
        (Recall(1, 0.05), "that takes their true labels, which to_c is not given"),
        (Values(0.05, of="probability"), "The C answers with labels alone"),
    ],
)
def test_every_promise_has_its_section(tmp_path, promise, words):
    X, y = two_classes(3000, 0)
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:500], y[:500])
    given = (X[500:], y[500:]) if promise.NEEDS_LABELS else (X[500:],)
    fast = scurry.early_exit(model, *given, X_fit=X[:500], promise=promise, random_state=0)
    export = to_c(fast, tmp_path, X_cal=X[500:])
    section = (tmp_path / "README.md").read_text().split("## What is promised")[1].split("## Use")[0]
    assert fast.certificate.statement() in section
    assert words in section
    replayed = run_trees(export.candidates[0].lowered, as_rows(fast.forest, X[500:])).codes
    full, ours = model.predict(X[500:]), model.classes_[replayed]
    if isinstance(promise, Certain):
        assert export.kept == (full == ours).mean() == 1
    elif isinstance(promise, LabelsPerClass):
        assert export.kept == min((full == ours)[full == label].mean() for label in (0, 1))
        assert export.keeps_promise
    else:
        assert export.kept is None
