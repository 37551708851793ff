import re
import subprocess
from functools import partial

import numpy as np
import pytest

import scurry
from scurry.export import to_c
from scurry.export.replay import in_percent


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
    (tmp_path / "main.c").write_text(f"{include}\nint main(void)\n{{\n{code}\nreturn label;\n}}\n")
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
def test_the_promise_is_stated_and_its_labels_are_counted(cancer, tmp_path, method):
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method=method, confidence=0.8, random_state=0)
    to_c(fast, tmp_path)
    assert "not measured how many rows get that label" in (tmp_path / "README.md").read_text()
    export = to_c(fast, tmp_path, layout="float32", X_cal=X)
    # Against the labels of the promise, not those of the early exit.
    votes = fast.forest.value[fast.forest.apply(X)].argmax(axis=2).mean(axis=1) > 0.5
    against = fast.forest.predict(X) if method == "qwyc" else votes
    assert export.promised == (fast.predict(X) == against).mean() < 1
    text = " ".join((tmp_path / "README.md").read_text().split())
    assert fast.certificate.statement() in text
    assert f"gives that label to {in_percent(export.promised)} of the calibration rows" in text
    assert "rounding is outside it" in text
    assert "does not cover rounding" in str(export)


def test_plans_without_a_promise_state_none(anyt, cancer, tmp_path):
    export = to_c(anyt, tmp_path, X_cal=cancer[1])
    assert export.promised is None
    assert "promised" not in (tmp_path / "README.md").read_text()
    assert "promise" not in str(export)
