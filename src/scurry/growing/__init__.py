"""Forests that are grown with the cost of features in mind: what the pruning papers start from and compare with."""

from scurry.errors import require_extra

with require_extra("fit", "growing a forest"):
    from scurry.growing.budgeted_forest import BudgetedForestClassifier, GreedyMiserClassifier

__all__ = ["BudgetedForestClassifier", "GreedyMiserClassifier"]
