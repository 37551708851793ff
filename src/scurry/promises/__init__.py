"""Promise and Certificate: what may change when a forest is run cheaper, and the proof that no more than that does.

A `Promise` says what may change, how much and how surely. Users make one, or the short form of a verb makes it for
them. A `Certificate` says on which rows a promise was tested and what came out; it is part of the plan and is saved
with it. An `Audit` says what other rows, perhaps later ones, show about it. None of them knows the algorithm that made
the plan, and nothing that runs or shows a plan has to.
"""

from scurry.promises.audit import Audit, AuditPart
from scurry.promises.certificate import Certificate, GroupTest, RowSummary
from scurry.promises.kinds import Accuracy, LabelsPerClass, Recall, TopK, Values
from scurry.promises.kinds import find_places as find_places
from scurry.promises.measurements import (
    BudgetMeasurement,
    CascadeMeasurement,
    CostMeasurement,
    ExitMeasurement,
    RankMeasurement,
    SizeMeasurement,
    SizePoint,
    StepMeasurement,
    ValueMeasurement,
)
from scurry.promises.promise import Certain, Cost, Count, Labels, Mean, Outcomes, Promise
from scurry.promises.promise import read_promise as read_promise  # what verbs share, not part of the public names

__all__ = [
    "Accuracy",
    "Audit",
    "AuditPart",
    "BudgetMeasurement",
    "CascadeMeasurement",
    "Certain",
    "Certificate",
    "Cost",
    "CostMeasurement",
    "Count",
    "ExitMeasurement",
    "GroupTest",
    "Labels",
    "LabelsPerClass",
    "Mean",
    "Outcomes",
    "Promise",
    "RankMeasurement",
    "Recall",
    "RowSummary",
    "SizeMeasurement",
    "SizePoint",
    "StepMeasurement",
    "TopK",
    "ValueMeasurement",
    "Values",
]
