"""What all score rules share: widening, stoppers, stored parts."""

import numpy as np
import pytest

import scurry.stopping
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import read_container, write_container
from scurry.stopping import MarginFit, fan, multiclass_qwyc, qwyc
from support.margin_oracle import normal_scores


def test_a_widened_rule_forgets_its_calibration_figures():
    rule = qwyc(normal_scores(), max_disagreement=0.01).widen(0.1)
    assert rule.mean_cost is None
    assert rule.n_mistakes is None
    with pytest.raises(InputError, match="amount must be a number of at least 0, got -1"):
        rule.widen(-1)
    with pytest.raises(InputError, match="ascending"):
        rule.widening_curve(normal_scores(), [1.0, 0.5])


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_stopper_equals_decide(alpha):
    scores = normal_scores()
    rule = qwyc(scores[:200], max_disagreement=alpha)
    decision, n_models_used = rule.decide(scores)
    for row, answer, n_used in zip(scores, decision, n_models_used, strict=True):
        stopper = rule.stopper()
        while not stopper.update(row[stopper.next_model]):
            assert stopper.decision is None
        assert (stopper.decision, stopper.n_seen) == (answer, n_used)
        assert stopper.next_model is None


def test_stopper_refuses_nonsense():
    stopper = qwyc(normal_scores(), max_disagreement=0).stopper()
    with pytest.raises(InputError, match="a score must be finite"):
        stopper.update(float("nan"))
    while not stopper.update(0.5):
        pass
    with pytest.raises(InputError, match=r"this row was decided after \d+ models; call rule.stopper"):
        stopper.update(0.5)


def test_parts_survive_a_file(tmp_path):
    rule = qwyc(normal_scores(), max_disagreement=0.01, costs=np.arange(12))
    header, parts = rule.to_parts()
    write_container(tmp_path / "rule.scurry", "rule", header, parts)
    container = read_container(tmp_path / "rule.scurry")
    again = MarginFit.from_parts(
        container.header, {name: container.array(name, dtype) for name, dtype in MarginFit.ARRAYS.items()}
    )
    assert repr(again) == repr(rule)
    new_rows = normal_scores(seed=9)
    for one, other in zip(again.widen(0.1).decide(new_rows), rule.widen(0.1).decide(new_rows), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("order", np.zeros(12, np.int64), "order must name each of the 12 models"),
        ("lower", np.zeros(3), "one entry per model but the last"),
        ("lower", np.full(11, np.inf), "every lower threshold must be less"),
        ("costs", np.full(12, np.nan), "costs must be finite"),
    ],
)
def test_parts_are_checked(name, value, message):
    header, parts = qwyc(normal_scores(), max_disagreement=0.01).to_parts()
    with pytest.raises(FormatError, match=message):
        MarginFit.from_parts(header, parts | {name: value})
    with pytest.raises(FormatError, match=name):
        MarginFit.from_parts(header, {other: array for other, array in parts.items() if other != name})
    with pytest.raises(FormatError, match="step"):
        MarginFit.from_parts({key: entry for key, entry in header.items() if key != "step"}, parts)


def test_arrays_are_read_only():
    rule = qwyc(normal_scores(), max_disagreement=0.01)
    with pytest.raises(ValueError, match="read-only"):
        rule.lower[0] = 0.0


def test_stored_parts_name_no_class():
    scores = normal_scores()
    classes = np.stack([scores, -scores, 0 * scores], axis=2)
    for rule in (
        qwyc(scores, max_disagreement=0.1),
        fan(scores, gamma=1),
        multiclass_qwyc(classes, max_disagreement=0.1),
    ):
        header, _ = rule.to_parts()
        assert not any(isinstance(entry, str) for entry in header.values())
        assert {"n_rows", "step", "mean_cost", "n_mistakes"} <= set(header)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ScoreRule", "ScoreFit"),
        ("MarginRule", "MarginFit"),
        ("LeadRule", "LeaderFit"),
        ("FanRule", "FanFit"),
        ("Promise", "VotePromise"),
    ],
)
def test_old_names_remain(old, new):
    assert getattr(scurry.stopping, old) is getattr(scurry.stopping, new)
    assert {old, new} <= set(scurry.stopping.__all__)


def test_widened_is_an_older_name_of_widen():
    rule = qwyc(normal_scores(), max_disagreement=0.01)
    np.testing.assert_array_equal(rule.widened(0.3).lower, rule.widen(0.3).lower)
