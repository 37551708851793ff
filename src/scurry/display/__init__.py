"""Plots of rules, predictors and prunings in the style of scikit-learn's displays. Drawing needs matplotlib."""

from scurry.display.plots import (
    AnytimeDisplay,
    CompressionDisplay,
    EarlyExitDisplay,
    FeatureUsageDisplay,
    PruningPathDisplay,
    VoteRuleDisplay,
)

__all__ = [
    "AnytimeDisplay",
    "CompressionDisplay",
    "EarlyExitDisplay",
    "FeatureUsageDisplay",
    "PruningPathDisplay",
    "VoteRuleDisplay",
]
