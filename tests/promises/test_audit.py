"""Audits: what their verdicts and texts say."""

import pytest

from scurry.promises import Audit, AuditPart, Labels


def part(lower, upper, **changes):
    known = {"what": "labels", "n_rows": 100, "n_broken": 2, "rate": (lower + upper) / 2, "max_rate": 0.05}
    return AuditPart(lower=lower, upper=upper, **known | changes)


def audit(*parts, **changes):
    return Audit(promise=Labels(0.05), confidence=0.95, parts=parts, n_rows=100, **changes)


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [(0.0, 0.05, "kept"), (0.0, 0.051, "too few rows"), (0.05, 0.2, "too few rows"), (0.0501, 0.2, "broken")],
)
def test_bounds_decide(lower, upper, verdict):
    assert part(lower, upper).verdict == audit(part(lower, upper)).verdict == verdict


def test_one_part_is_enough_to_break_a_promise():
    kept, broken, open_ = part(0.0, 0.01), part(0.1, 0.2, what="class 1", n_broken=15), part(0.0, 0.3)
    both = audit(kept, open_, broken)
    assert (both.verdict, both.worst, both.n_broken) == ("broken", broken, 19)
    assert (both.rate, both.lower, both.upper) == (broken.rate, 0.1, 0.2)
    assert audit(kept, open_).verdict == "too few rows"


def test_describe():
    assert str(audit(part(0.0, 0.04))).splitlines() == [
        "The promise is kept on rows like these.",
        "labels: 2.00 % of 100 (between 0 % and 4.00 % of rows like these; promised: at most 5.00 %)",
    ]
    assert "about 4,200 would be enough" in str(audit(part(0.0, 0.06), rows_needed=4200))
    assert "calibrate again" in str(audit(part(0.06, 0.07)))
    assert "between -0.1 and 0.2 of rows" in str(audit(part(-0.1, 0.2, rate_is_share=False, max_rate=0.1)))


def test_json_has_the_verdicts():
    written = audit(part(0.0, 0.04), part(0.06, 0.07)).to_json()
    assert written["verdict"] == "broken"
    assert [one["verdict"] for one in written["parts"]] == ["kept", "broken"]
    assert written["promise"]["kind"] == "labels"
