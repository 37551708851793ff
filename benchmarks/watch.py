"""Whether a watched promise keeps its own promises: false alarms, delays, throughput, and calibration after a drift.

Streams are drawn from outcomes that a real predictor has on rows of real data which it has not seen, with replacement,
so that the rate is known. A stream with another rate draws changed rows more often. An alarm is raised when a `Watch`
looks: after 64 shadow rows, later after an eighth of those so far, at most 1024.

    SCURRY_DATA=folder python benchmarks/watch.py --quick
    SCURRY_DATA=folder python benchmarks/watch.py --only delays,throughput

Results are kept in results/watch.json, part by part.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import scurry
from report import RESULTS, commit
from scurry.monitoring.betting import EPOCH, RUN_LENGTH, Part, log_detector, log_e_value
from scurry.monitoring.counting import LEAST_AT_ONCE, MOST_AT_ONCE, PART_AT_ONCE
from scurry.monitoring.shadow import Comparison, count_losses, find_parts, take
from scurry.promises import Accuracy, Labels, LabelsPerClass, Promise, Recall, TopK, Values

STEP = 16  # shadow rows after which streams are looked at
RATE = 0.005


def adult(model: Any, *, n_train: int = 15_000) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return a model fitted to rows of adult, the rows that it has not seen, and their labels."""
    data = scurry.datasets.load("adult")
    order = np.random.default_rng(0).permutation(len(data.X))
    X, y = data.X[order], data.y[order]
    return model.fit(X[:n_train], y[:n_train]), X[n_train:], y[n_train:]


def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(101, max_depth=10, random_state=0)


def boosted() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=60, random_state=0, verbose=-1, n_jobs=1)


PROMISES: dict[str, Callable[[], Promise]] = {
    "labels": lambda: Labels(RATE),
    "labels per class": lambda: LabelsPerClass({"<=50K": 0.005, ">50K": 0.02}),
    "recall": lambda: Recall(">50K", 0.02, 0.01),
    "accuracy": lambda: Accuracy(0.005),
    "mean cost": lambda: Accuracy(0.02, error_costs=[[0, 1], [3, 0]]),
    "values": lambda: Values(0.05, 0.05, of="probability"),
    "top-k": lambda: TopK(5, 0.05),
}


def outcomes_of(promise: Promise) -> tuple[tuple[Part, ...], NDArray[np.int64], NDArray[np.float64]]:
    """Return a promise's parts, the kinds of rows by what they add to the counts, and how often these are."""
    model, X, y = adult(boosted() if isinstance(promise, Values | TopK) else forest())
    half, size = len(X) // 2, 20
    half -= half % size
    groups = np.arange(len(X)) // size if isinstance(promise, TopK) else None
    fast = scurry.early_exit(
        model, X[:half], y[:half], promise=promise, groups=None if groups is None else groups[:half], random_state=0
    )
    rows, numbers = X[half:], np.arange(len(X) - half) if groups is None else groups[half:] - groups[half]
    outcomes = Comparison(fast, fast.promise).observe(rows, numbers)
    if promise.NEEDS_LABELS:
        outcomes = replace(outcomes, y=y[half:])
    parts = find_parts(fast.promise)
    kinds = []
    for unit in range(int(numbers.max()) + 1) if groups is not None else range(len(rows)):
        one = take(outcomes, numbers == unit) if groups is not None else take(outcomes, np.array([unit]))
        kinds.append(np.concatenate(count_losses(fast.promise, parts, one)))
    found, counts = np.unique(np.array(kinds), axis=0, return_counts=True)
    return parts, found, counts / counts.sum()


def draw_stream(
    kinds: NDArray[np.int64], chances: NDArray[np.float64], n_shadow: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return counts of losses after every few shadow rows, shape (n_steps, n_losses of all parts)."""
    return (rng.multinomial(STEP, chances, size=n_shadow // STEP) @ kinds).astype(np.int64)


def split(parts: tuple[Part, ...], counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    edges = np.cumsum([len(part.losses) for part in parts])[:-1]
    return np.split(counts, edges, axis=1)


def average(logs: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.logaddexp.reduce(np.stack(logs)) - math.log(len(logs))


def looks(n_shadow: int) -> NDArray[np.int64]:
    """Return after how many shadow rows a watch looks."""
    found, at = [], 0
    while at < n_shadow:
        at += min(max(at // PART_AT_ONCE, LEAST_AT_ONCE), MOST_AT_ONCE)
        found.append(at)
    return np.array(found)


def first(raised: NDArray[np.bool_], seen: NDArray[np.int64]) -> float:
    """Return after how many shadow rows an alarm is seen that is raised after some of the steps."""
    at = seen // STEP - 1
    at = at[at < len(raised)]
    return float(seen[int(raised[at].argmax())]) if raised[at].any() else math.inf


def find_alarm(parts: tuple[Part, ...], counts: NDArray[np.int64], confidence: float = 0.95) -> float:
    """Return after how many shadow rows the alarm is raised."""
    totals = split(parts, counts.cumsum(axis=0))
    raised = average([log_e_value(part, one) for part, one in zip(parts, totals, strict=True)])
    return first(raised >= -math.log1p(-confidence), looks(len(counts) * STEP))


def measure_change(parts: tuple[Part, ...], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the logarithm of the detector of changes after each step of whole epochs; gamblers begin at epochs."""
    per_epoch = EPOCH // STEP
    n_epochs, values = len(counts) // per_epoch, []
    for part, one in zip(parts, split(parts, counts[: n_epochs * per_epoch]), strict=True):
        after = (one @ part.log_gains.T).cumsum(axis=0)
        starts = np.concatenate([np.zeros((1, after.shape[1])), after[per_epoch - 1 :: per_epoch][: n_epochs - 1]])
        begun = np.logaddexp.accumulate(math.log(EPOCH) - starts, axis=0)
        values.append(np.logaddexp.reduce(after + begun.repeat(per_epoch, axis=0), axis=1) - math.log(after.shape[1]))
    return average(values)


def find_change(parts: tuple[Part, ...], counts: NDArray[np.int64]) -> float:
    """Return after how many shadow rows the detector of changes raises its alarm: at looks, and within epochs too."""
    values = measure_change(parts, counts)
    return first(values >= math.log(RUN_LENGTH + EPOCH), looks(len(values) * STEP))


def check_reference(parts: tuple[Part, ...], counts: NDArray[np.int64]) -> None:
    """Check the detector above against the library's on one short stream, at the ends of its epochs."""
    per_epoch = EPOCH // STEP
    epochs = counts[: 20 * per_epoch].reshape(20, per_epoch, -1).sum(axis=1)
    begins = np.ones(20, np.bool_)
    found = average([log_detector(part, one, begins) for part, one in zip(parts, split(parts, epochs), strict=True)])
    np.testing.assert_allclose(measure_change(parts, counts)[per_epoch - 1 :: per_epoch], found, rtol=1e-9, atol=1e-9)


def tilt(parts: tuple[Part, ...], kinds: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how often the kinds of rows are if every part loses exactly what is promised."""
    for part, counts in zip(parts, split(parts, kinds), strict=True):
        losses, loses = np.array(part.losses), (counts[:, np.array(part.losses) > 0] > 0).any(axis=1)
        lost, n_rows = counts @ losses * chances, counts.sum(axis=1) * chances
        times = (part.max_mean * n_rows[~loses].sum() - lost[~loses].sum()) / (
            lost[loses].sum() - part.max_mean * n_rows[loses].sum()
        )
        chances = np.where(loses, times, 1.0) * chances
        chances = chances / chances.sum()
    return chances


def measure_false_alarms(n_streams: int) -> dict[str, Any]:
    """Count alarms in streams without drift: of 10^6 rows, of 10^6 shadow rows, and at exactly what is promised."""
    results: dict[str, Any] = {}
    for name, make in PROMISES.items():
        parts, kinds, chances = outcomes_of(make())
        rng = np.random.default_rng(1)
        check_reference(parts, draw_stream(kinds, chances, 20 * EPOCH, rng))
        means = split(parts, (chances @ kinds * 1e9).astype(np.int64)[None])
        rates = [part.mean(one[0]) for part, one in zip(parts, means, strict=True)]
        alarms = [find_alarm(parts, draw_stream(kinds, chances, 2000, rng)) for _ in range(n_streams)]
        long = [find_alarm(parts, draw_stream(kinds, chances, 10**6, rng)) for _ in range(n_streams // 10)]
        worst = tilt(parts, kinds, chances)
        means = split(parts, (worst @ kinds * 1e9).round().astype(np.int64)[None])
        at_promise = [part.mean(one[0]) for part, one in zip(parts, means, strict=True)]
        np.testing.assert_allclose(at_promise, [part.max_mean for part in parts], rtol=0.02)
        edge = [find_alarm(parts, draw_stream(kinds, worst, 10**5, rng)) for _ in range(n_streams)]
        results[name] = {
            "promised": [part.max_mean for part in parts],
            "rates": rates,
            "false_alarms_at_exactly_the_promised_rate_1e5_shadow_rows": sum(map(math.isfinite, edge)),
            "false_alarms_of_1e6_rows": sum(map(math.isfinite, alarms)),
            "n_streams": n_streams,
            "false_alarms_of_1e6_shadow_rows": sum(map(math.isfinite, long)),
            "n_long_streams": len(long),
        }
        print(name, results[name], flush=True)
    return results


def measure_delays(n_streams: int) -> dict[str, Any]:
    """Measure how many shadow rows it takes until an alarm, from the begin and after 10^6 good rows."""
    parts, kinds, chances = outcomes_of(Labels(RATE))
    rng, changed = np.random.default_rng(3), kinds[:, 1] == 1
    usual = float(chances[changed].sum())
    results: dict[str, Any] = {"rate": usual, "promised": RATE, "n_streams": n_streams}
    for times, n_shadow in ((2, 12_000), (4, 4000)):
        worse = np.where(changed, chances / usual * times * RATE, chances / (1 - usual) * (1 - times * RATE))
        alarms = [find_alarm(parts, draw_stream(kinds, worse, n_shadow, rng)) for _ in range(n_streams)]
        results[f"alarm, {times} times the promised rate"] = _quantiles(alarms)
        # A change after 10^6 rows (2,000 shadow rows at a share of 0.002), and after 10^6 shadow rows.
        for n_good, name in ((2000 // EPOCH * EPOCH, "1e6 rows"), (10**6 // EPOCH * EPOCH, "1e6 shadow rows")):
            delays = []
            for _ in range(n_streams if n_good < 10**5 else max(n_streams // 4, 1)):
                good, bad = (draw_stream(kinds, c, n, rng) for c, n in ((chances, n_good), (worse, 2 * n_shadow)))
                found = find_change(parts, np.concatenate([good, bad]))
                if found > n_good:
                    delays.append(found - n_good)
            results[f"change after {name}, {times} times"] = _quantiles(delays)
    print(results, flush=True)
    return results


def _quantiles(delays: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(delays, [0.1, 0.5, 0.9])
    return {"median": middle, "10 %": low, "90 %": high, "n": len(delays)}


def measure_run_length(n_streams: int) -> dict[str, Any]:
    """Measure how long the detector of changes stays silent at exactly the promised rate; streams end at 3·10^6."""
    part, rng, end = (Part("labels", (0.0, 1.0), RATE),), np.random.default_rng(4), 3 * 10**6
    lengths = [
        min(find_change(part, draw_stream(np.eye(2, dtype=np.int64), np.array([1 - RATE, RATE]), end, rng)), end)
        for _ in range(n_streams)
    ]
    found = {
        "mean_at_least": float(np.mean(lengths)),
        "raised": int(sum(length < end for length in lengths)),
        "n_streams": n_streams,
        "streams_end_at": end,
    }
    print(found, flush=True)
    return found


def measure_throughput(n_rounds: int) -> dict[str, Any]:
    """Measure rows per second of a watched predictor as a share of those of the predictor.

    Calls are timed one by one and in turns, in time of the processor. Watched batches are of three kinds: those that
    only draw rows, those that judge the rows drawn so far, and those that file what was judged as well. Each counts as
    often as it occurs. Of each kind a tenth of the calls is faster than what counts: other work of the machine only
    ever adds time, but the best of all calls would depend on how many there are of a kind.
    """
    model, X, _ = adult(forest())
    fast = scurry.early_exit(model, X[:15_000], max_disagreement=RATE, random_state=0)
    test = np.ascontiguousarray(X[15_000:])
    results: dict[str, Any] = {}
    for n_rows, n_turns in ((len(test), 14 * n_rounds), (1 << 16, 4 * n_rounds)):
        batch = np.ascontiguousarray(np.tile(test, (4, 1))[:n_rows])
        watch, idle = scurry.watch(fast, random_state=0), scurry.watch(fast, share=1e-9, random_state=0)
        while watch.state.n_shadow < PART_AT_ONCE * MOST_AT_ONCE:  # from there on as many as ever are evaluated at once
            watch.predict(batch)
        times: dict[str, list[float]] = {name: [] for name in ("alone", "draws", "judges", "files", "no row drawn")}
        counting = watch._counting
        for turn in range(n_turns):
            calls = [("alone", fast.predict), ("watched", watch.predict), ("no row drawn", idle.predict)]
            for name, call in calls[turn % 3 :] + calls[: turn % 3]:
                n_shadow, n_judged, begun = watch._record.n_shadow, len(counting._judged), time.thread_time()
                call(batch)
                taken = time.thread_time() - begun
                if name == "watched":
                    judges, files = watch._record.n_shadow > n_shadow, len(counting._judged) < n_judged
                    name = "files" if files else "judges" if judges else "draws"
                times[name].append(taken)
        usual = {name: float(np.quantile(some, 0.1)) for name, some in times.items() if some}
        n_of = {name: len(times[name]) for name in usual}
        watched = sum(n_of[name] * usual[name] for name in usual if name in ("draws", "judges", "files")) / n_turns
        results[f"batches of {n_rows} rows"] = {
            "share": watch.share,
            "throughput_watched": usual["alone"] / watched,
            "throughput_no_row_drawn": usual["alone"] / usual["no row drawn"],
            "us_per_batch": {name: 1e6 * taken for name, taken in usual.items()},
            "n_batches": n_of,
            "ns_per_row_alone": 1e9 * usual["alone"] / n_rows,
        }
    print(results, flush=True)
    return results


def split_by_time(name: str) -> tuple[NDArray[Any], ...]:
    """Return X and y of an earlier regime, and X of a later one."""
    data = scurry.datasets.load(name)
    X, y = data.X, data.y
    if name == "covertype":
        # The wilderness areas are named by four columns; one of them is new.
        area = X[:, 10:14].argmax(axis=1)
        binary = np.where(y == 2, 1, 0)
        old, new = np.random.default_rng(0).permutation(np.flatnonzero(area != 2)), np.flatnonzero(area == 2)
        return X[old], binary[old], X[new]
    # Electricity prices lie in the order of time. In May 1997 a second market opened, and with it its columns changed.
    at, end = 300 * 48, (300 + 365) * 48
    features = np.arange(1, X.shape[1])  # without the date, which no later row shares
    order = np.random.default_rng(0).permutation(at)
    return X[:at][order][:, features], y[:at][order], X[at:end][:, features]


def measure_recalibration(n_draws: int) -> dict[str, Any]:
    """Draw streams of a new regime: count alarms, and promises that hold after `recalibrate`."""
    from sklearn.ensemble import RandomForestClassifier

    results: dict[str, Any] = {}
    for name in ("electricity_full", "covertype"):
        X, y, new = split_by_time(name)
        model = (RandomForestClassifier(50, max_depth=9, random_state=0) if name == "covertype" else boosted()).fit(
            X[:7200], y[:7200]
        )
        fast = scurry.early_exit(model, X[7200:16_000], max_disagreement=0.01, random_state=0)
        full = fast.forest.predict(new)
        before, after = float((fast.predict(new) != full).mean()), []
        rng, n_alarms, n_short, delays = np.random.default_rng(5), 0, 0, []
        for _ in range(n_draws):
            watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
            stream = new[rng.integers(0, len(new), 5000)]
            for start in range(0, len(stream), 1000):
                watch.predict(stream[start : start + 1000])
            state = watch.state
            if not state.is_raised:
                continue
            n_alarms += 1
            delays.append(state.since)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # copies of rows, which draws with replacement have
                try:
                    made = watch.recalibrate(method="qwyc", order="natural", random_state=0)
                except scurry.errors.InfeasibleError:
                    n_short += 1
                    continue
            after.append(float((made.predict(new) != full).mean()))
        results[name] = {
            "promised": 0.01,
            "rate_of_the_new_regime": before,
            "alarms": n_alarms,
            "median_rows_until_alarm": float(np.median(delays)) if delays else None,
            "recalibrated": len(after),
            "too_few_rows": n_short,
            "kept": int(sum(rate <= 0.01 for rate in after)),
            "median_rate_after": float(np.median(after)) if after else None,
            "n_draws": n_draws,
        }
        print(name, results[name], flush=True)
    return results


_CHILD = """
import sys, numpy as np, scurry
fast = scurry.load(sys.argv[1])
rows = np.random.default_rng(0).normal(size=(500, fast.forest.n_features)).astype(np.float32)
watch = scurry.watch(fast, share=0.5, random_state=0)
while True:
    watch.predict(rows)
    watch.save(sys.argv[2])
    print(watch.state.n_rows, flush=True)
"""


def measure_merge_and_kill(n_kills: int) -> dict[str, Any]:
    """Merge 64 parts; kill processes while they predict and save, and look at what they left."""
    model, X, _ = adult(forest())
    fast = scurry.early_exit(model, X[:15_000], max_disagreement=RATE, random_state=0)
    rows = X[15_000:]
    edges = np.linspace(0, len(rows), 65).astype(int)
    whole = scurry.watch(fast, share=0.2, random_state=0)
    whole.predict(rows)
    parts = []
    for start, stop in pairwise(edges):
        parts.append(scurry.watch(fast, share=0.2, random_state=0, first_row=int(start)))
        parts[-1].predict(rows[start:stop])
    is_equal = scurry.Watch.merge(parts[::-1]).state == whole.state
    n_sound = 0
    with tempfile.TemporaryDirectory() as folder:
        fast.save(f"{folder}/fast.scurry")
        for kill in range(n_kills):
            path = f"{folder}/{kill}.scurry-watch"
            child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, f"{folder}/fast.scurry", path], stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            said = int(child.stdout.readline())
            time.sleep(0.02 * kill)
            child.send_signal(signal.SIGKILL)
            said = max([said, *map(int, child.communicate()[0].split())])
            left = scurry.Watch.load(path, fast)
            drawn = len(left._counting._draws.between(0, left.state.n_rows))
            n_sound += left.state.n_rows in (said, said + 500) and left.state.n_shadow == drawn
    found = {"merge_of_64_equals_one": bool(is_equal), "killed": n_kills, "sound_after_kill": n_sound}
    print(found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few streams")
    parser.add_argument("--only", default="", help="parts to measure, with commas between them")
    options = parser.parse_args()
    n = 10 if options.quick else 200
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "delays": lambda: measure_delays(n),
        "false_alarms": lambda: measure_false_alarms(n),
        "run_length": lambda: measure_run_length(max(n // 2, 5)),
        "throughput": lambda: measure_throughput(5 if options.quick else 300),
        "recalibration": lambda: measure_recalibration(n),
        "merge_and_kill": lambda: measure_merge_and_kill(3 if options.quick else 20),
    }
    chosen = options.only.split(",") if options.only else list(work)
    path = RESULTS / "watch.json"
    for name in chosen:
        found = work[name]()
        if not options.quick:
            about = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}", "machine": platform.machine()}
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            kept[name] = found | {"about": about}
            path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
