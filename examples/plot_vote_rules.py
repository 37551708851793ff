"""
Votes: when a majority is clear
===============================

Stopping rules need no model. This is the optimal rule for 101 voters whose decision may differ from that of the full
vote with a probability of at most 1 in 1000. It is randomised in a few states only.
"""

from matplotlib import pyplot as plt

from scurry.display import VoteRuleDisplay
from scurry.stopping import solve

rule = solve(101, 0.001, "minimixed")
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
VoteRuleDisplay.from_rule(rule, ax=axes[0])
VoteRuleDisplay.from_rule(rule, kind="outcomes", ax=axes[1])

# %%
# The same rule stops any vote, one answer at a time.

stopper = rule.stopper()
n_votes = 0
while not stopper.update(True):
    n_votes += 1
print("votes needed if all agree:", n_votes + 1)
