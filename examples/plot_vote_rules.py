"""
Votes: when a majority is clear
===============================

Stopping rules need no model. Here are the optimal ones for 101 voters whose decision may differ from the full vote's
with a chance of at most 1 in 1000: lots are drawn in a few states only.
"""

from matplotlib import pyplot as plt

from scurry.display import VoteRuleDisplay
from scurry.stopping import solve

rule = solve(101, 0.001, "minimixed")
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
VoteRuleDisplay.from_rule(rule, ax=axes[0])
VoteRuleDisplay.from_rule(rule, kind="outcomes", ax=axes[1])

# %%
# The same rule stops any vote, one ballot at a time.

stopper = rule.stopper()
ballots = 0
while not stopper.update(True):
    ballots += 1
print("unanimous voters asked:", ballots + 1)
