"""Plots of rules, predictors and prunings in the style of scikit-learn's displays. Drawing needs matplotlib."""

from scurry.display.exits import EarlyExitDisplay
from scurry.display.prunings import FeatureUsageDisplay, PruningPathDisplay
from scurry.display.sizes import CompressionDisplay
from scurry.display.votes_and_steps import AnytimeDisplay, VoteRuleDisplay

__all__ = [
    "AnytimeDisplay",
    "CompressionDisplay",
    "EarlyExitDisplay",
    "FeatureUsageDisplay",
    "PruningPathDisplay",
    "VoteRuleDisplay",
]
