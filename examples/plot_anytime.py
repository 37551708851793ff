"""
Anytime: accuracy after every step
==================================

How accurate an early answer is depends on the order of the steps. Going tree by tree is worst. In an order found for
this purpose, accuracy is close to its final value after a fraction of the steps.
"""

from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.display import AnytimeDisplay

data = scurry.datasets.load("adult")
train, test = data.split == "train", data.split == "test"
model = RandomForestClassifier(20, max_depth=8, random_state=0).fit(data.X[train], data.y[train])
X_order, y_order = data.X[test][:4000], data.y[test][:4000]
X_new, y_new = data.X[test][8000:], data.y[test][8000:]

orders = {"scurry's best": "auto", "backward squirrel": "backward-squirrel", "tree by tree": "depth-ie"}
predictors = {name: scurry.anytime(model, X_order, y_order, order=order) for name, order in orders.items()}
AnytimeDisplay.from_predictors(predictors, X_new, y_new)

# %%
# The budget is set when predicting, for each row: steps or microseconds. Running out of time is not an error.

run = predictors["scurry's best"].run(X_new, time_us=1.0)
print(run.stop_reason[:5], f"accuracy {(run.labels == y_new).mean():.2%}")
