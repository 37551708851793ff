"""Certificates prove promises; they survive being saved, and hostile files are refused.

Summaries of calibration rows survive being saved, and hostile ones are refused.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import FormatError, InputError
from scurry.formatting import align
from scurry.promises import Certificate, ExitMeasurement, Labels, Promise, RowSummary, StepMeasurement
from support.calibration_rows import two_classes

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "format").glob("v1-*.scurry"))
X, Y = two_classes(2000, seed=0)


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:800], Y[:800])


def full_certificate() -> Certificate:
    """A certificate in which no field has its default."""
    return Certificate(
        method="toy",
        promise=Labels(0.02, confidence=0.9, against="vote", holds="orders"),
        n_rows=400,
        n_broken=3,
        bound=0.019,
        n_calibration_rows=900,
        n_fit_rows=500,
        threshold=0.25,
        why="it was asked for",
        note="Only on Sundays.",
        measured=ExitMeasurement(changed=0.0075, mean_trees=4.25, mean_cost=1.5, vote_agreement=0.99),
        rows=RowSummary.of(np.array([[1.0, np.nan], [np.inf, np.nan], [-2.5, np.nan]]), n_quantiles=3),
    )


class TestJson:
    @pytest.mark.parametrize(
        "promise", [Labels(0.005), Labels(0.1, confidence=None), Labels(0, against="vote", holds="each row")]
    )
    def test_promises_are_read_back(self, promise):
        text = json.dumps(promise.to_json(), allow_nan=False)
        assert Promise.from_json(json.loads(text)) == promise

    @pytest.mark.parametrize(
        "data",
        [
            None,
            [],
            "labels",
            {},
            {"kind": None},
            {"kind": ["labels"]},
            {"kind": "Labels", "max_changed": 0.1},
            {"kind": "labels"},
            {"kind": "labels", "max_changed": 2},
            {"kind": "labels", "max_changed": [0.1]},
            {"kind": "labels", "max_changed": 0.1, "confidence": "0.9"},
            {"kind": "labels", "max_changed": 0.1, "holds": "never"},
            {"kind": "labels", "max_changed": 0.1, "_": 1},
            {"kind": "labels", "max_changed": 0.1, "TAG": "other"},
        ],
    )
    def test_hostile_promises_are_refused(self, data):
        with pytest.raises(FormatError, match="promise"):
            Promise.from_json(data)

    def test_certificates_are_read_back(self):
        certificate = full_certificate()
        data = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
        again = Certificate.from_json(data)
        assert again.to_json() == certificate.to_json()
        assert again.describe() == certificate.describe()
        assert again.promise == certificate.promise
        assert again.measured == certificate.measured

    @pytest.mark.parametrize(
        "change",
        [
            {"surprise": 1},
            {"stored": {}},
            {"method": 3},
            {"n_rows": 1.5},
            {"n_rows": True},
            {"bound": "small"},
            {"threshold": [0.5]},
            {"note": None},
            {"promise": {"kind": "unknown"}},
            {"promise": 0.005},
            {"measured": {"kind": "unknown"}},
            {"measured": []},
            {"measured": {"kind": ["exit"]}},
            {"measured": {"kind": "exit", "changed": "0", "mean_trees": 1}},
            {"measured": {"kind": "exit", "changed": 0, "mean_trees": 1, "surprise": 1}},
            {"measured": {"kind": "steps"}},
            {"rows": []},
            {"rows": {"n_rows": 1, "quantiles": [["0x1p0"]], "missing": [0, 0]}},
            {"rows": {"n_rows": 1, "quantiles": [[1.0]], "missing": [0]}},
            {"rows": {"n_rows": 1, "quantiles": [["0x1p99999"]], "missing": [0]}},
            {"rows": {"n_rows": 1, "quantiles": [["0x1p0"], []], "missing": [0, 0]}},
            {"rows": {"n_rows": "many", "quantiles": [["0x1p0"]], "missing": [0]}},
        ],
    )
    def test_hostile_certificates_are_refused(self, change):
        with pytest.raises(FormatError):
            Certificate.from_json(full_certificate().to_json() | change)

    def test_a_certificate_names_its_method(self):
        with pytest.raises(FormatError, match="method"):
            Certificate.from_json({"measured": None})

    @pytest.mark.parametrize(
        "facts",
        [
            {"max_disagreement": 5, "promise": "all"},
            {"max_disagreement": 0.1, "promise": "some", "confidence": 7},
            {"mean_accuracy": 0.5, "n_steps": 3, "first_accuracy": "low"},
            {"mean_accuracy": 0.5, "n_steps": 3, "same_tree_step_ns": [1]},
        ],
    )
    def test_hostile_facts_of_version_1_are_refused(self, facts):
        with pytest.raises(FormatError, match="certificate"):
            Certificate.from_json(facts)

    @pytest.mark.parametrize("data", [None, 1, "full", ["method"]])
    def test_what_is_no_object_is_refused(self, data):
        with pytest.raises(FormatError, match="not an object"):
            Certificate.from_json(data)


class TestCertificate:
    def test_it_is_saved_with_the_plan(self, model, tmp_path):
        forest = scurry.from_model(model)
        plan = scurry.Plan.full(forest, full_certificate())
        scurry.Predictor(forest, plan).save(tmp_path / "x.scurry")
        loaded = scurry.load(tmp_path / "x.scurry")
        assert loaded.certificate.to_json() == plan.certificate.to_json()
        assert loaded.promise == plan.certificate.promise
        assert np.array_equal(loaded.certificate.rows.quantiles, plan.certificate.rows.quantiles, equal_nan=True)

    def test_it_describes_itself(self):
        assert full_certificate().describe().splitlines() == [
            "promise                            With confidence 0.9, at most 2 % of new rows get another label than "
            "the full vote's, on average over random orders of the trees. Here the model answers its second class from "
            "a probability of 0.25 on. Only on Sundays.",
            "tested on                          400 rows that had no part in the fit: 3 broke it (at most 1.90 % of "
            "new rows)",
            "labels changed                     0.750 %",
            "trees per row                      4.25",
            "cost per row                       1.5",
            "full vote gives the model's label  99.00 % of rows",
            "method                             toy: it was asked for",
            "threshold                          0.25",
            "rows                               900 for calibration, 500 to fit",
        ]
        assert Certificate(method="mine").lines() == {
            "promise": "Nothing is promised for new rows.",
            "method": "mine",
        }
        assert align({}) == ""

    def test_measurements_of_each_kind(self):
        steps = StepMeasurement(
            order="auto", objective="time", readout="plain", n_steps=1200, quality="accuracy", first=0.5, mean=0.75,
            last=1.0, same_tree_step_ns=2.0, other_tree_step_ns=8.25,
        )  # fmt: skip
        certificate = Certificate(method="anytime", measured=steps)
        assert certificate.steps is steps
        assert certificate.exits is None
        assert certificate.lines()["accuracy"] == "50.00 % at first, 75.00 % on average, 100 % at the end"
        assert certificate.lines()["time of a step"] == "2 ns in the same tree, 8.25 ns in another"
        exits = full_certificate()
        with pytest.raises(InputError, match="made by 'toy' and has no order of steps"):
            _ = exits.steps

    @pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
    def test_files_of_version_1(self, path, tmp_path):
        subject = scurry.load(path)
        if isinstance(subject, scurry.Forest) or subject.certificate is None:
            return
        certificate = subject.certificate
        assert certificate.method in str(certificate.describe())
        assert certificate.lines()["promise"] == certificate.statement()
        assert certificate.lines().keys() >= {"promise", "method", "rows"}
        assert (certificate.exits is None) == subject.plan.by_step
        if not subject.plan.by_step:
            assert subject.promise.max_changed == 0.05
            assert "trees per row" in certificate.lines()
        # Saved again it is the same file, although its certificate is read in the new form.
        subject.save(tmp_path / "again.scurry")
        assert scurry.load(tmp_path / "again.scurry").digest == subject.digest

    @pytest.mark.parametrize(
        "facts", [{"n_rows": 3}, {"max_disagreement": "all", "promise": 3}, {"calibration_mean_trees": None}]
    )
    def test_odd_facts_of_version_1_say_nothing(self, facts):
        certificate = Certificate.from_json(facts)
        assert certificate.promise is None
        assert certificate.measured is None
        assert certificate.to_json() == facts


class TestRowSummary:
    def test_quantiles_are_values_of_the_rows(self):
        values = np.array(
            [[1.0, np.nan, -np.inf, 0.1], [2.0, np.nan, 5.0, np.nan], [3.0, np.nan, np.inf, 0.3], [4.0, np.nan, 7, 0.2]]
        )
        summary = RowSummary.of(values, n_quantiles=3)
        assert summary.n_rows == 4
        assert summary.missing.tolist() == [0, 1, 0, 0.25]
        assert summary.quantiles[0].tolist() == [1, 2, 4]
        assert np.isnan(summary.quantiles[1]).all()
        assert summary.quantiles[2].tolist() == [-np.inf, 5, np.inf]
        assert summary.quantiles[3].tolist() == [float(np.float32(x)) for x in (0.1, 0.2, 0.3)]

    def test_precision_of_the_rows_does_not_matter(self):
        one, two = RowSummary.of(X), RowSummary.of(X.astype(np.float32))
        assert one.to_json() == two.to_json()
        assert one.quantiles.shape == (6, 21)

    def test_infinities_and_missing_values_survive_json(self):
        summary = RowSummary.of(np.array([[np.inf, np.nan], [-np.inf, np.nan]]), n_quantiles=2)
        again = RowSummary.from_json(json.loads(json.dumps(summary.to_json(), allow_nan=False)))
        assert np.array_equal(again.quantiles, summary.quantiles, equal_nan=True)
        assert again.missing.tolist() == [0, 1]
        assert again.n_rows == 2
