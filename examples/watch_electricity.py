"""A year of electricity prices: a promise, the alarm when a second market opens, and the recalibration.

The rows are half-hours in New South Wales, in the order of time. The model says whether the price is above its mean of
the last day. In May 1997 the market of Victoria is joined to it, and columns that were constant begin to vary.

    SCURRY_DATA=folder python examples/watch_electricity.py prices.html
"""

import itertools
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
# The first five months train and the next five calibrate. Rows drawn from all ten months for both would calibrate on
# half-hours next to training rows, which later rows are not: then the promise breaks within a week.
train, calibrate = np.arange(n_known // 2), np.arange(n_known // 2, n_known)

model = LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1).fit(X[train], y[train])
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
    if caught:
        alarm_day = day
        print(f"\nday {day}\n{state.describe()}\n\n{watch.explain()}\n")
    if alarm_day is not None and day == alarm_day + DAYS_TO_RECALIBRATE:
        scurry.report.write(watch, sys.argv[1] if len(sys.argv) > 1 else "prices.html")
        again = watch.recalibrate(random_state=0)
        said = again.certificate.lines()
        print(f"day {day}: recalibrated\n{said['promise']}\ntested on {said['tested on']}\n")
        first, last = n_known + (alarm_day + 1) * HALF_HOURS_A_DAY, n_known + (day + 1) * HALF_HOURS_A_DAY
        parts = {"the days until then": X[first:last], "the rest": X[last : n_known + 365 * HALF_HOURS_A_DAY]}
        for (when, rows), (name, predictor) in itertools.product(parts.items(), {"old": fast, "new": again}.items()):
            run = predictor.run(rows)
            changed = (run.labels != predictor.forest.predict(rows)).mean()
            print(f"{when}, {name} rule: {changed:.2%} of labels changed, {run.mean_trees:.1f} trees per row")
        watch = scurry.watch(again, share=1.0, random_state=0)
        alarm_day = None

print(f"\n{watch.state.describe()}")
