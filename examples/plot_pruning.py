"""
Pruning: what accuracy costs
============================

Tests for thyroid patients cost between 1 and 22 dollars each. Pruning a forest gives the whole path from "all tests for
everyone" to "no test at all". For every trade-off between error and cost, no other pruning of the forest is better.
"""

from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.display import PruningPathDisplay

data = scurry.datasets.load("thyroid_ann_cost")
train, validate, test = slice(0, 2400), slice(2400, 4800), slice(4800, None)
model = RandomForestClassifier(40, max_depth=8, max_features=0.5, random_state=0).fit(data.X[train], data.y[train])
prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
paths = {
    "exact": scurry.prune(model, data.X[validate], **prices),
    "by size (CCP)": scurry.prune(model, data.X[validate], method="ccp", **prices),
}
PruningPathDisplay.from_paths(paths, data.X[test], data.y[test])

# %%
# A budget picks a forest from the path. Its gap says how much better any other pruning could be at most.

point = paths["exact"].point(max_cost=40)
print(point)
print("accuracy on test rows:", (point.forest.predict(data.X[test]) == data.y[test]).mean())
