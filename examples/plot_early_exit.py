"""
Early exit: when rows stop, and after how many trees
====================================================

A forest of 101 trees on census data may change one label in two hundred. Most rows then need only a few trees.
"""

from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.display import EarlyExitDisplay

data = scurry.datasets.load("adult")
train, test = data.split == "train", data.split == "test"
model = RandomForestClassifier(101, max_depth=10, random_state=0).fit(data.X[train], data.y[train])
X_calibrate, X_new = data.X[test][:8000], data.X[test][8000:]

fast = scurry.early_exit(model, X_calibrate, X_fit=data.X[train], max_disagreement=0.005, random_state=0)
print(fast.summary())

# %%
# There are two thresholds on the running score. A row stops as soon as it leaves the space between them.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
EarlyExitDisplay.from_predictor(fast, ax=axes[0])
EarlyExitDisplay.from_predictor(fast, X_new, ax=axes[1])

# %%
# What was promised, and what was measured on new rows:

changed = (fast.predict(X_new) != model.predict(X_new)).mean()
print(f"promised: at most 0.5 % of labels change; measured: {changed:.2%}")
