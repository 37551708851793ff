"""Malformed calls of every public function: a call that works, with one or two arguments replaced by nonsense.

`list_calls(n, seed)` draws them, `attempt(call)` makes one in a process of its own, with a limit on memory and time.
What may come out is an answer, or one of the `ALLOWED` errors; everything else is a defect. An attack draws more of
them than the tests do.
"""

from __future__ import annotations

import inspect
import os
import pickle
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import scurry
from scurry.errors import ScurryError

ALLOWED = (ScurryError, TypeError, ValueError)
MAX_BYTES = 4 * 2**30  # on top of what the process has already
MAX_SECONDS = 20


class Odd:
    """An object of no kind that anybody expects."""

    def __repr__(self) -> str:
        return "Odd()"


def _nonsense() -> dict[str, Any]:
    """Values by a short name, made anew for each call because calls may change them."""
    simple = [
        None, True, False, 0, 1, -1, 2, 2**31, 2**63, 10**12, 10**400, -(10**400), 0.5, -0.5, 1.5, 1e308, 1e-320,
        float("nan"), float("inf"), -float("inf"), 1j, "", "x", "no", "auto", "a\0b", "\ud800", b"bytes",
        (), [], {}, set(), [None], [[]], ["a"], [1], [1, 2], [0.5] * 7, [[1, 2], [3]], {"a": 1}, {0: 1}, {None: None},
        range(3), slice(3), Ellipsis, int, len, Fraction(1, 3), Decimal("0.1"), date(2020, 1, 1), Path("nowhere"),
    ]  # fmt: skip
    named = {repr(value)[:30]: value for value in simple}
    return named | {
        "lambda": lambda *arguments: None,
        "generator": (i for i in range(3)),
        "Odd": Odd(),
        "numpy nan": np.float32("nan"),
        "numpy true": np.True_,
        "empty array": np.array([]),
        "0-d array": np.array(3.0),
        "no rows": np.zeros((0, 4)),
        "no columns": np.zeros((5, 0)),
        "3-d array": np.zeros((2, 2, 2)),
        "few columns": np.zeros((5, 1)),
        "one row": np.zeros((1, 4)),
        "text array": np.array([["a", "b", "c", "d"]]),
        "objects": np.array([Odd(), None], dtype=object),
        "dates": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        "durations": np.array([1, 2], dtype="timedelta64[s]"),
        "complex": np.ones((5, 4), complex),
        "records": np.zeros(3, dtype=[("a", "i4")]),
        "nans": np.full((5, 4), np.nan),
        "infinities": np.full((5, 4), np.inf),
        "huge": np.full((5, 4), 1e300),
        "negative": np.full(7, -1),
        "long": np.zeros(100_003),
        "ints": np.arange(7),
        "bools": np.ones(4, bool),
        "frame": pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}),
        "empty frame": pd.DataFrame(),
        "frame, a column twice": pd.DataFrame(np.zeros((2, 4)), columns=list("aabc")),
        "series": pd.Series([1, None]),
    }


NONSENSE = tuple(_nonsense())


@dataclass(frozen=True)
class Entry:
    """A public function and arguments with which it works."""

    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All arguments that may be replaced, those with defaults included."""
        # `fit` and `plot` take the arguments of what they are given.
        called = self.call.args[0] if isinstance(self.call, partial) else self.call
        try:
            known = inspect.signature(called).parameters.values()
        except (TypeError, ValueError):
            known = []
        plain = [one.name for one in known if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        return list(dict.fromkeys([*plain, *self.arguments]))


@dataclass(frozen=True)
class Call:
    """One malformed call: which arguments are replaced by which nonsense."""

    entry: Entry
    replaced: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.entry.name}({', '.join(f'{name}={value}' for name, value in self.replaced)})"


@cache
def entries() -> tuple[Entry, ...]:
    """A working call of each public function. Small, so that a call takes milliseconds."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    warnings.simplefilter("ignore")
    os.environ.setdefault("MPLBACKEND", "Agg")
    import matplotlib.pyplot  # noqa: F401  each child would import it again

    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, y)
    forest = scurry.from_model(model)
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y))
    fast = scurry.early_exit(forest, X, max_disagreement=0.1, random_state=0)
    ready = scurry.anytime(forest, X, y, order="forward-squirrel")
    path = scurry.prune(forest, X)
    rule = scurry.stopping.solve(11, 0.05)
    plurality = scurry.stopping.solve_plurality(7, 3, 0.1)
    scores, votes = rng.normal(size=(200, 5)), rng.integers(0, 2, size=(200, 7))
    margin = scurry.stopping.qwyc(scores, max_disagreement=0.05)
    fast.save(folder / "fast.scurry")
    whole = scurry.Predictor.full(forest)
    scurry.Cascade(whole, boosted, 0.5).save(folder / "both.scurry")
    whole.start_row({0: 1.0}).save(folder / "row.scurry")
    scurry.watch(fast, 0.5, random_state=0).save(folder / "state.scurry-watch")
    table = pd.DataFrame(X, columns=list("abcd"))
    table.assign(y=y).to_parquet(folder / "rows.parquet")
    scurry.export.to_c(forest, folder / "c", X_cal=X)
    names = ("tree_offset", "feature", "threshold", "left", "right", "value", "n_features", "classes")
    fields = {name: getattr(forest, name) for name in names}
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
    exits = {"max_disagreement": 0.1, "random_state": 0}

    def fit(kind: Any, **parameters: Any) -> Any:
        return kind(**parameters).fit(X, y).predict(X[:5])

    def with_one_thread(call: Callable[..., Any]) -> Callable[..., Any]:
        # A forked child cannot start the threads of OpenMP again.
        @wraps(call)
        def inner(**arguments: Any) -> Any:
            with threadpool_limits(1):
                return call(**arguments)

        return inner

    def rank(groups: Any, **parameters: Any) -> Any:
        ranker = scurry.EarlyExitRanker(boosted, **parameters)
        return ranker.fit(X, groups=groups).predict(X, groups=groups)

    def stop(stopper: Any, vote: Any) -> Any:
        return stopper.update(vote)

    def plot(display: Any, *arguments: Any, **options: Any) -> Any:
        import matplotlib.pyplot as plt

        shown = display(*arguments, **options)
        plt.close("all")
        return shown

    s = scurry
    grown = {"n_estimators": 3, "random_state": 0}
    listed: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "from_model": (s.from_model, {"model_or_path": model, "output": "all"}),
        "load": (s.load, {"path": folder / "fast.scurry", "trusted": ["package.Type"]}),
        "early_exit": (s.early_exit, {"model": forest, "X_cal": X, "y_cal": y} | exits),
        "early_exit, minimean": (s.early_exit, {"model": forest, "X_cal": X, "method": "minimean"} | exits),
        "early_exit, fan": (
            s.early_exit,
            {"model": boosted, "X_cal": X, "method": "fan", "order": "natural", "bin_width": 0.1, "gamma": 1.0} | exits,
        ),
        "Predictor.from_rule": (
            s.Predictor.from_rule,
            {"forest": forest, "rule": s.stopping.solve(forest.n_trees, 0.1), "shuffle": "row", "random_state": 0},
        ),
        "early_exit, no rows": (s.early_exit, {"model": forest, "method": "minimax"} | exits),
        "early_exit, boosted": (s.early_exit, {"model": boosted, "X_cal": X, "method": "qwyc"} | exits),
        "cascade": (s.cascade, {"cheap": boosted, "expensive": forest, "X_cal": X, "promise": s.promises.Labels(0.1)}),
        "cascade, recorded": (
            s.cascade,
            {"cheap": [boosted, forest], "expensive": y, "X_cal": X, "y_cal": y, "promise": s.promises.Labels(0.1)},
        ),
        "Cascade": (s.Cascade, {"cheap": whole, "expensive": boosted, "min_certainty": 0.5}),
        "Cascade.run": (s.Cascade(whole, boosted, 0.5).run, {"X": X}),
        "Cascade.load": (s.Cascade.load, {"path": folder / "both.scurry", "expensive": boosted, "trusted": []}),
        "train_sizes": (
            with_one_thread(s.cascades.train_sizes),
            {"X": X, "y": y, "sizes": [(2, 3)], "random_state": 0},
        ),
        "anytime": (s.anytime, {"model": forest, "X_order": X, "y_order": y, "order": "forward-squirrel"}),
        "prune": (s.prune, {"model": forest, "X_val": X, "y_val": y}),
        "compress": (s.compress, {"model": boosted, "X_cal": X, "y_cal": y, "promise": s.promises.Labels(0.2)}),
        "share_thresholds": (s.compression.share_thresholds, {"forest": forest, "max_splits": 8}),
        "share_counts": (s.compression.share_counts, {"forest": forest}),
        "share_probabilities": (s.compression.share_probabilities, {"forest": forest, "n_steps": 8}),
        "share_values": (s.compression.share_values, {"forest": boosted, "max_values": 8}),
        "split_levels": (s.compression.split_levels, {"forest": forest, "leaves": forest.apply(X)}),
        "keep_share": (
            s.compression.keep_share,
            {"forest": forest, "levels": s.compression.split_levels(forest), "share": 0.5},
        ),
        "keep_trees": (s.compression.keep_trees, {"forest": forest, "n_trees": 3}),
        "refit": (s.compression.refit, {"forest": forest, "rows": X, "scores": forest.scores(X), "ridge": 0.1}),
        "packed_size": (s.compression.packed_size, {"forest": forest}),
        "prune, validation": (s.prune, {"model": forest, "X_val": X, "y_val": y, "errors": "validation"}),
        "prune, weights": (s.prune, {"model": forest, "X_val": X, "class_weight": "balanced"}),
        "prune, error costs": (s.prune, {"model": forest, "X_val": X, "error_costs": 1 - np.eye(forest.n_classes)}),
        "Forest": (s.Forest, fields),
        "Forest.from_trees": (s.Forest.from_trees, {"trees": [stump] * 3}),
        "Forest.predict": (forest.predict, {"X": X}),
        "Forest.predict_proba": (forest.predict_proba, {"X": X}),
        "Forest.scores": (forest.scores, {"X": X}),
        "Forest.apply": (forest.apply, {"X": X}),
        "Forest.codes_of": (forest.codes_of, {"labels": y}),
        "Forest.encoder": (lambda X, rows=table: forest.encoder(X)(rows), {"X": table}),
        "Encoder": (s.Encoder, {"forest": forest, "X": table}),
        "Outputs": (s.Outputs, {"forests": [forest, boosted], "is_multilabel": True}),
        "Outputs.predict": (s.Outputs([forest, boosted]).predict, {"X": X}),
        "Outputs.predict_proba": (s.Outputs([forest, boosted]).predict_proba, {"X": X}),
        "Forest.save": (forest.save, {"path": folder / "saved.scurry"}),
        "Plan": (lambda order, stop=None: s.Predictor(forest, s.Plan(order=order, stop=stop)).predict(X[:5]),
                 {"order": np.arange(7, dtype=np.int32)}),
        "Predictor": (s.Predictor, {"forest": forest, "plan": fast.plan}),
        "Predictor.full": (s.Predictor.full, {"forest": forest}),
        "Predictor.predict": (fast.predict, {"X": X}),
        "Predictor.predict_proba": (fast.predict_proba, {"X": X}),
        "Predictor.run": (ready.run, {"X": X}),
        "Predictor.stream": (lambda x, every=1: list(ready.stream(x, every=every)), {"x": X[:1]}),
        "Predictor.acquire": (fast.acquire, {"get_feature": lambda row, feature: X[row][feature], "n_rows": 3}),
        "Predictor.start_row": (whole.start_row, {"known": {0: 1.0}, "feature_costs": [1, 2, 3, 4]}),
        "Visit.give": (whole.start_row({0: 1.0}).give, {"name": 1, "value": 0.5}),
        "Visit.unavailable": (whole.start_row({0: 1.0}).unavailable, {"name": 1}),
        "Visit.save": (whole.start_row().save, {"path": folder / "saved.scurry"}),
        "Visit.load": (s.Visit.load, {"path": folder / "row.scurry", "predictor": whole}),
        "Predictor.save": (fast.save, {"path": folder / "saved.scurry"}),
        "PruningPath.at": (path.at, {"max_cost": 2.0}),
        "PruningPath.at, promise": (path.at, {"promise": s.promises.Cost(2.0), "X_cal": X + 0.125}),
        "PruningPath.point": (path.point, {"max_cost": 2.0}),
        "PruningPath.objective": (path.objective, {"lam": 0.1}),
        "EarlyExitClassifier": (partial(fit, s.EarlyExitClassifier), {"estimator": model, "max_disagreement": 0.1}),
        "EarlyExitRegressor": (partial(fit, s.EarlyExitRegressor), {"max_error": 0.5, "max_share": 0.2}),
        "EarlyExitRanker": (rank, {"groups": np.arange(300) // 3, "k": 2, "max_changed": 0.2}),
        "AnytimeClassifier": (partial(fit, s.AnytimeClassifier), {"estimator": model, "order": "forward-squirrel"}),
        "FeatureBudgetClassifier": (partial(fit, s.FeatureBudgetClassifier), {"estimator": model, "max_cost": 2}),
        "orders.find": (s.orders.find, {"forest": forest, "X": X, "y": y, "order": "forward-squirrel"}),
        "orders.accuracy_curve": (s.orders.accuracy_curve,
                                  {"forest": forest, "steps": ready.plan.order, "X": X, "y": y}),
        "orders.nma": (s.orders.nma, {"curve": [0.5, 0.7, 0.9]}),
        "pruning.exact_path": (s.pruning.exact_path, {"forest": forest, "X_val": X}),
        "pruning.feature_uses": (s.pruning.feature_uses, {"forest": forest, "X": X}),
        "report.write": (s.report.write, {"subject": fast, "path": folder / "report.html", "X_test": X, "y_test": y}),
        "display.EarlyExitDisplay": (partial(plot, s.display.EarlyExitDisplay.from_predictor),
                                     {"predictor": fast, "X": X}),
        "display.VoteRuleDisplay": (lambda rule: s.display.VoteRuleDisplay(rule), {"rule": rule}),
        "export.flash_bytes": (s.export.flash_bytes, {"pred": forest}),
        "export.to_c": (s.export.to_c, {"pred": forest, "directory": folder / "c2", "X_cal": X}),
        "export.to_onnx": (s.export.to_onnx, {"model": forest, "path": folder / "forest.onnx"}),
        "watch": (s.watch, {"predictor": fast, "share": 0.5, "random_state": 0}),
        "Watch.predict": (s.watch(fast, 0.5, random_state=0).predict, {"X": X}),
        "Watch.save": (s.watch(fast, 0.5, random_state=0).save, {"path": folder / "saved.scurry-watch"}),
        "Watch.load": (s.Watch.load, {"path": folder / "state.scurry-watch", "predictor": fast}),
        "monitoring.read": (s.monitoring.read, {"paths": [folder / "state.scurry-watch"]}),
        "promises.Cost": (s.promises.Cost, {"max_cost": 40.0}),
        "promises.Labels": (s.promises.Labels, {"max_changed": 0.01}),
        "promises.Values": (s.promises.Values, {"max_error": 0.1, "max_share": 0.05}),
        "promises.LabelsPerClass": (s.promises.LabelsPerClass, {"rates": {"no": 0.01, "yes": 0.1}}),
        "promises.Recall": (s.promises.Recall, {"label": "yes", "max_loss": 0.05, "max_changed": 0.01}),
        "promises.Accuracy": (s.promises.Accuracy, {"max_loss": 0.01, "error_costs": [[0.0, 1.0], [2.0, 0.0]]}),
        "promises.TopK": (s.promises.TopK, {"k": 3, "max_changed": 0.01}),
        "promises.Certificate.from_json": (s.promises.Certificate.from_json, {"data": fast.certificate.to_json()}),
        "growing.BudgetedForestClassifier": (partial(fit, s.growing.BudgetedForestClassifier), dict(grown)),
        "growing.GreedyMiserClassifier": (partial(fit, s.growing.GreedyMiserClassifier), {"n_estimators": 3}),
        "datasets.load": (s.datasets.load, {"name": "adult"}),
        "stopping.solve": (s.stopping.solve, {"n_voters": 11, "max_disagreement": 0.05}),
        "stopping.solve_plurality": (s.stopping.solve_plurality,
                                     {"n_voters": 5, "n_classes": 3, "max_disagreement": 0.1}),
        "stopping.solve_weighted": (s.stopping.solve_weighted,
                                    {"weights": [2.0, 1.0, 1.0], "max_disagreement": 0.1, "n_classes": 3}),
        "stopping.WeightedVoteRule": (s.stopping.WeightedVoteRule,
                                      {"weights": [2.0, 1.0, 1.0], "max_disagreement": 0.1, "n_classes": 3}),
        "stopping.qwyc": (s.stopping.qwyc, {"scores": scores, "max_disagreement": 0.05}),
        "stopping.multiclass_qwyc": (s.stopping.multiclass_qwyc,
                                     {"scores": rng.normal(size=(100, 4, 3)), "max_disagreement": 0.1}),
        "stopping.fan": (s.stopping.fan, {"scores": scores, "max_disagreement": 0.05, "y": scores[:, 0] > 0}),
        "stopping.preset_order": (s.stopping.preset_order, {"name": "natural", "scores": scores}),
        "stopping.fit_votes": (s.stopping.fit_votes,
                               {"n_positive": votes.sum(axis=1), "n_voters": 7, "max_disagreement": 0.1}),
        "stopping.fit_majority_order": (s.stopping.fit_majority_order, {"votes": votes, "max_disagreement": 0.1}),
        "stopping.fit_plurality_order": (s.stopping.fit_plurality_order,
                                         {"votes": votes, "n_classes": 2, "max_disagreement": 0.1}),
        "stopping.fit_plurality": (s.stopping.fit_plurality, {
            "calibration_answers": [["a"] * 7] * 150, "max_disagreement": 0.1}),
        "stopping.VoteStopper": (s.stopping.VoteStopper, {"rule": rule}),
        "stopping.VoteStopper.update": (lambda vote: stop(rule.stopper(), vote), {"vote": True}),
        "stopping.WeightedVoteStopper": (s.stopping.WeightedVoteStopper, {
            "rule": s.stopping.solve_weighted([2.0, 1.0, 1.0], 0.1)}),
        "stopping.WeightedVoteStopper.update": (
            lambda vote: stop(s.stopping.solve_weighted([2.0, 1.0, 1.0], 0.1).stopper(), vote), {"vote": 1}),
        "stopping.PluralityStopper": (s.stopping.PluralityStopper, {"rule": plurality}),
        "stopping.ScoreStopper": (s.stopping.ScoreStopper, {"rule": margin}),
        "VoteRule.expected_votes": (rule.expected_votes, {"n": [3]}),
        "VoteRule.disagreement": (rule.disagreement, {"n": [3]}),
        "batch.score": (s.batch.score, {"source": folder / "rows.parquet", "predictor": forest.replace(
            feature_names=list("abcd")), "destination": folder / "out"}),
        "batch.Scoring": (s.batch.Scoring, {"predictor": fast}),
        "distributed.Scorer": (s.distributed.Scorer, {"predictor": fast}),
        "evaluation.feature_bill": (s.evaluation.feature_bill, {"model": forest, "X": X}),
        "evaluation.average_precision_at": (s.evaluation.average_precision_at, {
            "k": 2, "relevant": [1, 0, 1, 0], "scores": [0.1, 0.2, 0.3, 0.4], "queries": [0, 0, 1, 1]}),
    }  # fmt: skip
    return tuple(Entry(name, *one) for name, one in listed.items())


def list_calls(n_calls: int | None, seed: int) -> Iterator[Call]:
    """Draw malformed calls: first each argument of each function once, then pairs of arguments, without end.

    Parameters
    ----------
    n_calls : int or None
        None gives every value for every argument, one at a time.
    seed : int
    """
    rng = np.random.default_rng(seed)
    single = [(entry, name) for entry in entries() for name in entry.names()]
    if n_calls is None:
        yield from (Call(entry, ((name, value),)) for entry, name in single for value in NONSENSE)
        return
    for at in range(n_calls):
        if at % len(single) == 0:
            rng.shuffle(single)
        entry, name = single[at % len(single)]
        replaced = {name: str(rng.choice(NONSENSE))}
        if at >= len(single) and rng.random() < 0.3:
            replaced.setdefault(str(rng.choice(entry.names())), str(rng.choice(NONSENSE)))
        yield Call(entry, tuple(replaced.items()))


def attempt(call: Call) -> str:
    """Make a call in a child process; return "accepted", "refused", or what went wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        outcome = "the child could not even start"
        try:
            os.close(reading)
            outcome = _attempt_here(call)
        finally:
            os.write(writing, pickle.dumps(outcome))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    status = os.waitpid(child, 0)[1]
    if said:
        return str(pickle.loads(said))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return f"took more than {MAX_SECONDS} s"
    return f"died with status {status}"


def _attempt_here(call: Call) -> str:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        os.chdir(folder)
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # native loops do not look at Python's handlers
        signal.alarm(MAX_SECONDS)
        nonsense = _nonsense()
        arguments = call.entry.arguments | {name: nonsense[value] for name, value in call.replaced}
        try:
            call.entry.call(**arguments)
        except ALLOWED:
            return "refused"
        except BaseException as error:
            import traceback

            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {str(error)[:200]} ({Path(at.filename).name}:{at.lineno})"
        finally:
            os.chdir("/")
    return "accepted"
