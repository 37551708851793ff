"""A year of electricity prices: a promise, the alarm when a second market opens, and the recalibration.

The rows are half-hours in New South Wales, in the order of time. The model says whether the price is above its mean of
the last day. In May 1997 the market of Victoria is joined to it, and columns that were constant begin to vary.

    SCURRY_DATA=folder python examples/watch_electricity.py prices.html
"""

import sys
import warnings

import numpy as np
from lightgbm import LGBMClassifier

import scurry

HALF_HOURS_A_DAY = 48
DAYS_TO_RECALIBRATE = 60

data = scurry.datasets.load("electricity_full")
X, y = data.X[:, 1:], data.y  # without the date, which no later row shares
n_known = 300 * HALF_HOURS_A_DAY  # ten months, the year that is watched begins behind them
order = np.random.default_rng(0).permutation(n_known)
train, calibrate = order[: n_known // 2], order[n_known // 2 :]

model = LGBMClassifier(n_estimators=60, verbose=-1).fit(X[train], y[train])
forest = scurry.from_model(model, feature_names=data.feature_names[1:])
fast = scurry.early_exit(forest, X[calibrate], max_disagreement=0.01, random_state=0)
print(fast.promise.describe())

# So few rows a day can all be evaluated in full as well; a service with millions would take a share of 0.002.
watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm="full")
alarm_day = None
for day in range(365):
    rows = X[n_known + day * HALF_HOURS_A_DAY :][:HALF_HOURS_A_DAY]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watch.predict(rows)
        state = watch.state
    for warning in caught:
        alarm_day = day
        print(f"day {day}: {warning.message}\n\n{state.describe()}\n\n{watch.explain()}\n")
    if alarm_day is not None and day == alarm_day + DAYS_TO_RECALIBRATE:
        scurry.report.write(watch, sys.argv[1] if len(sys.argv) > 1 else "prices.html")
        again = watch.recalibrate(random_state=0)
        print(f"day {day}: recalibrated\n\n{again.summary()}\n")
        later = X[n_known + (day + 1) * HALF_HOURS_A_DAY : n_known + 365 * HALF_HOURS_A_DAY]
        for name, predictor in (("before", fast), ("after", again)):
            run = predictor.run(later)
            changed = (run.labels != predictor.forest.predict(later)).mean()
            print(
                f"{name} the recalibration, on the rest of the year: {changed:.2%} changed, {run.mean_trees:.1f} trees"
            )
        watch = scurry.watch(again, share=1.0, random_state=0)
        alarm_day = None

print(f"\n{watch.state.describe()}")
