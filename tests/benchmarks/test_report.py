"""Reports of experiments: what stands above their tables."""

import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import report  # noqa: E402


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_report_says_that_its_verdicts_mean_little(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.Report("paper", "A paper", "One repeat.", quick=quick)
    (written,) = tmp_path.glob("*.md")
    text = " ".join(written.read_text(encoding="utf-8").split())
    assert (
        "single repeats, of few rows and small forests. They scatter, so the verdicts below mean little" in text
    ) == quick


def test_every_experiment_whose_claims_have_verdicts_says_whether_it_is_quick():
    for path in sorted((BENCHMARKS / "papers").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "result_of(" in text or "_result(" in text or "make_result(" in text:
            assert re.search(r"^        quick=(arguments\.)?quick,$", text, flags=re.MULTILINE), path.name
