"""Write docs/benchmarks.md and the tables of the README from the result files in benchmarks/results.

    python docs/benchmark_page.py

A test compares both documents with what this script makes, so that no figure can be edited by hand.
"""

import json
import math
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[1]
RESULTS = TOP / "benchmarks" / "results"
PAGE = """\
# Benchmarks

<!-- Written by docs/benchmark_page.py from benchmarks/results. Do not edit by hand. -->

The figures on this page come from the result files in `benchmarks/results`. Speeds depend on the machine, so they are
given as ratios between programs that took turns in one run. Run the command under each table to get your own figures.

## Three budgets on data that come with scurry

8,281 census rows and 2,400 patients that no model has seen. `× scikit-learn` is the speed of a batch on one thread
compared with scikit-learn's own `predict`.

{demo}

{demo_origin}
The settings of the anytime rows were chosen after looking at these test rows; those of the early exits were not. The
thyroid rows were measured later, on a busy machine, so they have no speed. The forest with a mean cost within $40 was
picked by `FeatureBudgetClassifier` without these patients; it finds 99.4 % of the ill, the forest on all features
98.3 %.

## Feature budgets

Balanced accuracy of `FeatureBudgetClassifier`, the mean over ten budgets from a tenth of the price of all features to
all of it, minus that of simpler ways to spend the same. Each budget is what test rows really pay. Differences are means
over {n_splits} random splits, with 95 % intervals from the paired splits.

{budgets}

{budgets_origin}
A third of the rows is for the test. The others grow forests and choose among them; the simpler ways may choose depth,
class weights, impurity and alpha on a quarter of these rows. On thyroid with $40 per patient, `FeatureBudgetClassifier`
spends {at_40_cost} and is right for {at_40_accuracy} of the patients; it finds {at_40_found} of the ill.

## Evaluating all trees

scurry without any plan, next to other engines: oneDAL, onnxruntime, lleaves, CatBoost, hessboost, treelite's GTIL,
tl2cgen, Snap ML, YDF and nvforest (on the processor). Most processors in use have AVX2 but not AVX-512, so scurry ran
with both, on the same machine and in turns with the others. It changed {n_changed} labels. All ratios are of CPU time
with one thread, in batches of 20,000 rows unless a line says otherwise.

- **AVX-512** and **AVX2**: thousands of rows per second with these kernels.
- **× own framework**: how many times as fast as the framework that trained the model, with AVX-512 and with AVX2.
- **fastest other engine**: its name, and how many times as fast scurry is with AVX-512.
- **one row**: the median and the 99th percentile of one call of `forest.one_row()` from Python, with AVX-512. On a busy
  machine the second says more about the machine than about scurry.

{speed}

{speed_origin}

Engines that did not run, why, and in which cells (the result files have the messages in full):

{speed_refused}

### What was aimed at

Aims of the loops, set before they were written, and what was reached; misses are bold. *Walked* is the same boosted
model with AVX-512, walked from node to node as all models were before these loops, in the same run; *before*, of
frames, is the last version that made numbers of a frame first, in the same run.

{aims}

{aims_note}

## Probabilities after an early exit

How good `predict_proba` of an early exit is on rows that nothing has seen, next to the full model's. It spoke for
another class than `predict` answered on {n_contradictions} rows. The columns are:

- **AUC** and **log-loss**: of the full model, and by how much that of the early exit differs. With more than two
  classes, AUC is the mean of each class against the rest.
- **limit**: what a gradient-boosted regression makes of the same partial scores. The trees that were not evaluated
  know more than that, so no score map can be expected to do much better.

The aim was to lose at most 0.01 of AUC and 8 % of log-loss at a promise of 0.5 %, and 0.003 and 2.5 % at 0.1 %.
{n_kept} of {n_cells} cells reach it. Of the others, those with two classes are at their limit or close to it: a few
trees were enough for the label, and the rest would have said more about the probability. {n_infeasible} cells are
left out, because there are too few rows for the promise or early exit does not pay.

{scores}

{scores_origin}

## Promises on known pools

A pool of rows is the population, so that what is true of it is known exactly. Calibration rows are drawn from it, with
replacement, and each draw finds and certifies a rule from the beginning, at confidence 0.95. Models are trained anew on
a new split for every ten draws. The columns are:

- **trees**: the mean number of trees evaluated per row of the pool, or per document, and its standard deviation over
  the models.
- **broken**: draws whose promise is not true of the pool. At most 5 % may be, but for chance.
- **lost**: what else changes on average: the RMSE of regressors, the AUC of probabilities.

{promises}

{promises_origin}

### The time that they take

Batches of 20,000 float32 rows on one thread, CPU time, with AVX-512; plans that `scurry.early_exit` makes by itself for
rows that trained nothing. The columns are:

- **efficiency**: the speed-up over evaluating all trees times the share of the trees. It is 1 if a tree takes as long
  as it does in the full evaluation, and a row nothing else. The aim was 0.7 for plans of a tenth of the trees or more;
  misses are bold.
- **limit**: what the efficiency would be if nothing took longer than in the full evaluation. Reading a row and
  answering take the same time however few trees are evaluated, so that a plan of few trees cannot be more efficient.
- **over walked**: the same next to the full evaluation by walking from node to node, as it was when the aim was set.
  Boosted models are sliced today, which takes a tenth of that time.

{plan_speed}

{plan_speed_note}

## Cascades

A cheap forest in front of an expensive model, with the promise that at most 0.5 % of labels change, at confidence 0.95.
The cheap model is one of four sizes of boosted trees, chosen by cost; it was trained on labels, or on the answers of
the expensive model where that is a network. Each of {n_draws} draws takes 8,000 calibration rows from a pool; half of
them choose the size, half certify. The columns are:

- **cheap alone**: labels that would change if the cheap model answered all rows.
- **rows kept**: share of the pool that the cheap model answers, on average over the draws.
- **labels changed**: on the pool, on average; the promise was 0.5 %.
- **broken**: draws after which more than 0.5 % of the pool's labels change. At most 5 % may be, but for chance.

{cascades}

{cascades_origin}

{measured}
## More figures

- Papers: [published figures next to ours](papers.md), claim by claim, and [what we found](findings.md).
- A server under load is measured on [its own page](serving.md).
"""


def load(name: str) -> dict[str, Any]:
    """Return one stored result file."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(header: list[str], rows: Iterable[list[str]], n_text: int = 1) -> str:
    """Return a Markdown table whose columns after the first `n_text` are aligned to the right."""
    rule = "|" + "---|" * n_text + "---:|" * (len(header) - n_text)
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(share: float | None, bound: str = "") -> str:
    """Return a share as text with three digits; "0" and nothing at all have no percent sign."""
    if share is None:
        return ""
    return f"{bound}{100 * share:.3g} %" if share else "0"


def demo_table(result: dict[str, Any]) -> str:
    """Return the table of `make demo`."""
    header = [
        "model, 101 trees",
        "budget",
        "work per row",
        "saved",
        "labels changed",
        "promised",
        "accuracy",
        "× scikit-learn",
    ]
    rows, previous = [], ""
    for row in result["rows"]:
        # A model's name stands in its first line only, so that its lines read as one block.
        name = "" if row["model"] == previous else row["model"]
        previous = row["model"]
        changed, promised = percent(row["changed"]), percent(row.get("promised"), "≤ ")
        accuracy = f"{100 * row['accuracy']:.1f} %"
        speed = "–" if row["speed"] is None else f"{row['speed']:.1f}"
        rows.append([name, row["mode"], row["work"], percent(row.get("saved")), changed, promised, accuracy, speed])
    return table(header, rows, 2)


def budget_table(result: dict[str, Any]) -> str:
    """Return the table of feature budgets."""
    ours, summary = "FeatureBudgetClassifier", result["summary"]
    others = [name for name in next(iter(summary.values())) if name not in ("n_splits", "at_40", ours)]
    header = ["data", "balanced accuracy", *(f"minus {name}" for name in others)]
    rows = [
        [name, f"{found[ours]:.3f}"]
        + [f"{found[other]['difference']:+.3f} ± {found[other]['half_width']:.3f}" for other in others]
        for name, found in summary.items()
    ]
    return table(header, rows)


def speeds() -> dict[str, dict[str, Any]]:
    """Return the stored speeds beside other engines, by instruction set."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("speed-*.json"))]
    if len({result["machine"] for result in found}) > 1:
        raise SystemExit("the page has a place for one kind of machine: choose among benchmarks/results/speed-*.json")
    return {result["instruction_set"]: result for result in found}


def speed_table(results: dict[str, dict[str, Any]]) -> str:
    """Return the table of speeds with AVX-512 and AVX2."""
    header = [
        "model",
        "AVX-512",
        "AVX2",
        "× own framework, AVX-512",
        "× own framework, AVX2",
        "fastest other engine",
        "× it",
    ]
    header += ["one row, p50 µs", "p99 µs"]
    rows = []
    for name, cell in results["avx512"]["cells"].items():
        ours = [results[level]["cells"][name]["speeds"]["scurry"] for level in ("avx512", "avx2")]
        others = {engine: one for engine, one in cell["speeds"].items() if engine != "scurry"}
        rate = {engine: one["rows_per_cpu_s"] for engine, one in others.items()}
        own = next(iter(rate.values()))  # engines are stored with the framework itself after scurry
        fastest = max(rate, key=rate.__getitem__)
        rows.append(
            [
                cell["title"],
                *(f"{one['rows_per_cpu_s'] / 1e3:,.0f}" for one in ours),
                *(f"{one['rows_per_cpu_s'] / own:.1f}" for one in ours),
                fastest,
                f"{ours[0]['rows_per_cpu_s'] / rate[fastest]:.1f}",
                f"{ours[0]['p50_us']:.1f}",
                f"{ours[0]['p99_us']:.1f}",
            ]
        )
    return table(header, rows)


AIMS_NOTE = """\
What limits the misses: stopping early has work beside the trees: reading rows, checking, moving those that stay. After
other work, an exit finds the caches full of what that left there: a pause of 11 ms without any work of ours costs it as
much, and at a priority that hardly lets others run in between it is about 5 %. The forest on digits is not among those
that are walked: its trees are small enough to be sliced."""


def aims_table(results: dict[str, dict[str, Any]]) -> str:
    """Return what was aimed at for evaluating trees and what was reached, misses in bold."""
    cells = {level: result["cells"] for level, result in results.items()}

    def rate(name: str, engine: str = "scurry", level: str = "avx512") -> float:
        return cells[level][name]["speeds"][engine]["rows_per_cpu_s"]

    def over(engine: str, *wanted: str, level: str = "avx512") -> list[float]:
        return [rate(name, level=level) / rate(name, engine) for name in wanted]

    def of_framework(engine: str) -> list[str]:
        return [name for name, cell in cells["avx512"].items() if list(cell["speeds"])[1] == engine]

    forests = [name for name in cells["avx512"] if "/rf" in name and name != "digits/rf10"]  # whose trees are sliced
    loops = {(row["model"], row["instruction_set"]): row for row in load("loops")["rows"]}
    boosted = {
        data: [f"{data} {kind} {rounds} x 6" for kind in ("XGBoost", "LightGBM")]
        for data, rounds in (("adult", "500"), ("covertype", "70 x 7"))
    }

    def over_walked(model: str, level: str = "avx512") -> float:
        return loops[model, level]["krows_per_s"] / loops[model, "avx512"]["krows_per_s_walked"]

    exits = {row[0].split(" (")[0]: float(row[-1].split()[-1]) for row in load("exit-peers")[4]["rows"]}
    frames = next(part for part in load("frames") if part.get("table", "").startswith("Early exit of 20,000"))
    threads = load("plan-speed")["threads, 4,000,000 adult rows"]["forest-101"]["early exit"]["16"]["speed_up"]
    single = [
        loops[name, "avx512"]["one_row_us"]
        for name in ("adult RF 101 x 10", "adult XGBoost 500 x 6", "adult XGBoost 50 x 4")
    ]
    rows = [
        ("AVX2 over AVX-512, forests (walked), least", [0.7], [min(rate(n, level="avx2") / rate(n) for n in forests)]),
        (
            "AVX2 over walked with AVX-512, boosted (sliced), least",
            [1.0],
            [min(over_walked(name, "avx2") for names in boosted.values() for name in names)],
        ),
        *(
            (f"AVX2 over {engine}, least", [aim], [min(over(engine, *of_framework(engine), level="avx2"))])
            for engine, aim in (("XGBoost", 4.0), ("scikit-learn", 6.0), ("LightGBM", 15.0))
        ),
        (
            "adult XGBoost, LightGBM 500 × 6 over hessboost",
            [3.5, 3.5],
            over("hessboost", "adult/xgboost", "adult/lightgbm"),
        ),
        ("the same over walked", [3.0, 3.0], [over_walked(name) for name in boosted["adult"]]),
        ("adult LightGBM of 31 leaves over hessboost", [5.0], over("hessboost", "adult/lightgbm-default")),
        ("covertype XGBoost, LightGBM over walked", [2.8, 2.8], [over_walked(name) for name in boosted["covertype"]]),
        ("adult CatBoost over its own Pool predict", [2.5], over("CatBoost", "adult/catboost")),
        ("adult forests, depth 10 and unlimited, over oneDAL", [2.0, 5.2], over("oneDAL", "adult/rf10", "adult/rf")),
        (
            "letter, digits forests of depth 10 over scikit-learn",
            [8.0, 3.3],
            over("scikit-learn", "letter/rf10", "digits/rf10"),
        ),
        ("one row, µs: adult forest, XGBoost 500 × 6, 50 × 4", [-1.3, -2.2, -0.4], single),
        ("16 threads over one, early exit, 16 cores", [10.0], [threads]),
        (
            "early exit at 0.5 %, adult forest, over oneDAL: votes, auto",
            [18.0, 18.0],
            [exits["votes, promised"], exits["auto"]],
        ),
        *(
            (
                f"efficiency of exits over walked forests, {when}: adult, census, nomao, covertype",
                [0.75, 0.65, 0.65, 0.6],
                [loops[f"{data} RF 101 x 10", "avx512"][field] for data in ("adult", "census", "nomao", "covertype")],
            )
            for when, field in (
                ("after other work", "efficiency_over_walked"),
                ("twice in a row", "efficiency_over_walked_warm"),
            )
        ),
        (
            "early exit of a frame, 28 categorical columns, over before, least",
            [1.5],
            [min(float(row[-1].split()[0]) for row in frames["rows"])],
        ),
    ]
    lines = []
    for title, aims, reached in rows:
        kept = [value <= -aim if aim < 0 else value >= aim for aim, value in zip(aims, reached, strict=True)]
        told = [f"{value:.2f}" if ok else f"**{value:.2f}**" for value, ok in zip(reached, kept, strict=True)]
        wanted = [f"{'≤' if aim < 0 else '≥'} {abs(aim):g}" for aim in aims]
        if len(set(wanted)) == 1:
            wanted = wanted[:1]
        lines.append([title, ", ".join(wanted), ", ".join(told)])
    return table(["what", "aim", "reached"], lines)


def speed_origin(results: dict[str, dict[str, Any]]) -> str:
    """Return where, when and how speeds were measured."""
    result = results["avx512"]
    cells = list(result["cells"].values())
    dates, commits = ({cell[name][:10] for cell in cells} for name in ("date", "commit"))
    loads = [cell["load_average_at_start"] for cell in cells]
    rounds = " or ".join(map(str, sorted({cell["n_repeats"] for cell in cells})))
    text = (
        f"{result['machine']}, {result['n_cores']} cores, {', '.join(sorted(dates))}, commit "
        f"{', '.join(sorted(commits))}; engines taking turns, the best of {rounds} rounds, load "
        f"average {min(loads):.0f} to {max(loads):.0f} from other work. Repeat it with `{result['command']}`."
    )
    if len(dates) > 1:
        text += (
            " Virtual machines of different days may have different processors that all call themselves by this name: "
            "ratios are of one run, but speeds in two lines may not be comparable."
        )
    return textwrap.fill(text, 120, break_on_hyphens=False)


def speed_refused(results: dict[str, dict[str, Any]]) -> str:
    """Return which engines did not run in which cells, and why."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for name, cell in results["avx512"]["cells"].items():
        for engine, reason in cell["refused"].items():
            reasons.setdefault(engine, {}).setdefault(reason.partition(":")[0].partition("(")[0].strip(), []).append(
                name
            )
    parts = []
    for engine, by_reason in reasons.items():
        told = "; ".join(f"{reason}: {', '.join(names)}" for reason, names in by_reason.items())
        parts.append(textwrap.fill(f"- {engine}: {told}", 120, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(parts)


def scores_table(result: dict[str, Any]) -> str:
    """Return the table of probabilities after an early exit."""
    header = ["model", "promised", "trees per row", "AUC", "early exit", "limit", "log-loss", "early exit", "limit"]
    rows, previous = [], ""
    for row in result["rows"]:
        if "infeasible" in row:
            continue
        name = "" if row["model"] == previous else row["model"]
        previous = row["model"]
        auc_limit, loss_limit = row.get("auc_limit"), row.get("log_loss_limit")
        rows.append(
            [
                name,
                percent(row["promised"], "≤ "),
                f"{row['trees']:.0f} of {row['n_trees']:,}",
                f"{row['full_auc']:.4f}",
                f"{row['auc']:+.4f}",
                "–" if auc_limit is None else f"{auc_limit:+.4f}",
                f"{row['full_log_loss']:.4f}",
                f"{100 * row['log_loss']:+.1f} %",
                "–" if loss_limit is None else f"{100 * loss_limit:+.1f} %",
            ]
        )
    return table(header, rows)


def cascade_table(result: dict[str, Any]) -> str:
    """Return the table of cascades."""
    header = ["data, expensive model", "its µs per row", "size chosen most often", "cheap alone", "rows kept"]
    rows = [
        [
            f"{name.removeprefix('grinsztajn_').removesuffix('_full')}, {found['expensive']}",
            f"{found['expensive_us']:.0f}",
            found["chosen_most_often"].replace("x", "×"),
            percent(found["cheap_changed"]),
            percent(found["kept"]),
            percent(found["changed"]),
            f"{found['n_broken']} of {found['n_draws']}",
        ]
        for name, found in result.items()
    ]
    return table([*header, "labels changed", "broken"], rows)


def promise_table() -> str:
    """Return the trees that promises take on known pools, and how often they are broken."""
    rows = []
    for name, refits in (load("promises") | load("promises-ranks")).items():
        kind, data, *model, _ = name.split(", ")
        draws = [draw for refit in refits.values() for draw in refit["draws"]]
        found = [draw for draw in draws if draw is not None]
        means = [[one["trees"] for one in refit["draws"] if one] for refit in refits.values()]
        n_trees = max(refit["n_trees"] or 0 for refit in refits.values())
        shown = _KINDS[kind.split()[0]].format(*kind.split()[-1].split("/"), *kind.split()[1:])
        broken = f"{sum(draw['margin'] < 0 for draw in found)} of {len(found)}"
        rows.append([shown, f"{data}, {', '.join(model) or 'lightgbm'}", _spread(means), str(n_trees), broken, ""])
    for name, splits in load("promises-values").items():
        data, model, kind, *other = name.split(", ")
        if other or any("draws" not in split for split in splits.values()):
            continue
        draws = [draw for split in splits.values() for draw in split["draws"]]
        lost = sum(draw["lost"] for draw in draws) / len(draws)
        rows.append([
            _KINDS[kind.split()[0]].format(kind.split()[1]),
            f"{data}, {model.rpartition('-')[0]}",
            _spread([[draw["trees"] for draw in split["draws"]] for split in splits.values()]),
            model.rpartition("-")[2],
            f"{sum(draw['broken'] for draw in draws)} of {len(draws)}",
            {"labels": "", "values": f"RMSE {lost:+.1%}"}.get(kind.split()[0], f"AUC {-lost:+.4f}"),
        ])  # fmt: skip
    return table(["promise", "data, model", "trees", "of", "broken", "lost"], sorted(rows), n_text=2)


def _spread(trees: list[list[float]]) -> str:
    """Return the mean over models of their mean trees, and its standard deviation."""
    means = [sum(one) / len(one) for one in trees if one]
    mean = sum(means) / len(means)
    return f"{mean:.1f} ± {math.sqrt(sum((one - mean) ** 2 for one in means) / len(means)):.1f}"


# How promises are called in the names of cells; what they allow follows.
_KINDS = {
    "accuracy": "`Accuracy({0})`",
    "costs": "`Accuracy({0}, error_costs=…)`",
    "labels": "`Labels`, {0}",
    "per": "`LabelsPerClass`, {0} and {1}",
    "probabilities": '`Values({0}, of="probability")`',
    "recall": "`Recall`, {0}, others {1}",
    "top": '`TopK({1}, {0}, keep="{2}")`',
    "values": "`Values` of a quarter of the RMSE",
}


_AIM, _LEAST_SHARE = 0.7, 0.1


def plan_speed_table() -> str:
    """Return how much of the trees that plans save is saved as time."""
    rows = []
    for name, cell in load("plan-speed")["efficiency"].items():
        if "refused" in cell:
            continue
        share, reached, taken = cell["share_of_trees"], cell["efficiency"], cell["ns_per_row"]
        is_missed = share >= _LEAST_SHARE and reached < _AIM
        rows.append([
            name,
            f"{share:.1%}",
            f"{taken['all']:.1f}",
            f"{taken['plan']:.1f}",
            f"{cell['speed_up']:.2f}",
            f"**{reached:.2f}**" if is_missed else f"{reached:.2f}",
            f"{cell['bound_estimate']:.2f}" if "bound_estimate" in cell else "",
            f"{cell['efficiency_over_walked']:.2f}" if "efficiency_over_walked" in cell else "",
        ])  # fmt: skip
    measured = ["trees", "ns a row, all", "plan", "speed-up", "efficiency", "limit", "over walked"]
    return table(["data, model, promise", *measured], rows)


def plan_speed_note() -> str:
    """Return how many plans could reach the aim at all."""
    of_all = list(load("plan-speed")["efficiency"].values())
    cells = [cell for cell in of_all if cell.get("share_of_trees", 0) >= _LEAST_SHARE]
    n_reached = sum(cell["efficiency"] >= _AIM for cell in cells)
    n_limited = sum(cell.get("bound_estimate", 1.0) < _AIM for cell in cells)
    text = (
        f"{n_reached} of the {len(cells)} plans of a tenth of the trees or more reach the aim; {n_limited} have a "
        "limit below it. Labels that are certain come from all trees in batches, which take less time than the fewer "
        "trees of each cell; these are for single rows and for microcontrollers. "
        f"{cells[0]['machine']}, {cells[0]['date']}. Repeat it with `python benchmarks/plan_speed.py`."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False)


def measured_sections(name: str) -> str:
    """Return what a result says as sections of text and tables."""
    result, lines = load(name), []
    for section in result["sections"]:
        lines += [f"## {section['title']}", ""]
        for block in section["blocks"]:
            is_table = "rows" in block
            text = table(block["header"], block["rows"], block["n_text"]) if is_table else block["text"]
            lines += [text if is_table or text.startswith("- ") else textwrap.fill(text, 120), ""]
        commands = " and ".join(f"`{command}`" for command in section["commands"])
        lines += [
            f"{result['machine'][0].upper()}{result['machine'][1:]}, {result['date']}. Repeat it with {commands}.",
            "",
        ]
    return "\n".join(lines)


def origin(result: dict[str, Any]) -> str:
    """Return where, when and how a result was measured."""
    machine, date, commit = result["machine"], result["date"], result["commit"]
    text = f"{machine}, {date}, commit {commit}; {result['conditions']}. Repeat it with `{result['command']}`."
    return textwrap.fill(text, 120, break_on_hyphens=False)


def page() -> str:
    """Return the text of docs/benchmarks.md."""
    demo, scores, budgets = load("demo"), load("score-maps"), load("feature-budget")
    cascades, speed = load("cascade"), speeds()
    one = next(iter(cascades.values()))
    measured = [row for row in scores["rows"] if "infeasible" not in row]
    at_40 = budgets["summary"]["thyroid"]["at_40"]
    n_splits = {found["n_splits"] for found in budgets["summary"].values()}
    return PAGE.format(
        demo=demo_table(demo),
        demo_origin=origin(demo),
        budgets=budget_table(budgets),
        budgets_origin=f"Commit {budgets['commit']}. Repeat it with `python benchmarks/feature_budget.py`.",
        n_splits=" to ".join(map(str, sorted({min(n_splits), max(n_splits)}))),
        at_40_cost=f"${at_40['cost']:.2f}",
        at_40_accuracy=f"{100 * at_40['accuracy']:.1f} %",
        at_40_found=f"{100 * at_40['ill_found']:.1f} %",
        aims=aims_table(speed),
        aims_note=AIMS_NOTE,
        speed=speed_table(speed),
        speed_origin=speed_origin(speed),
        speed_refused=speed_refused(speed),
        n_changed=sum(
            one["speeds"]["scurry"]["n_changed"] for result in speed.values() for one in result["cells"].values()
        )
        or "no",
        scores=scores_table(scores),
        scores_origin=origin(scores),
        measured="\n".join(measured_sections(name) for name in ("early-exit", "anytime", "pruning")),
        promises=promise_table(),
        promises_origin="Repeat it with `python benchmarks/promises.py`, `promises_ranks.py` and `promises_values.py`.",
        plan_speed=plan_speed_table(),
        plan_speed_note=plan_speed_note(),
        cascades=cascade_table(cascades),
        cascades_origin=textwrap.fill(
            f"Commit {one['commit']}, {one['date']}, on a busy machine. Repeat it with "
            f"`python benchmarks/cascade.py --draws {one['n_draws']}`.",
            120,
        ),
        n_draws=one["n_draws"],
        n_contradictions=sum(row["contradictions"] for row in measured) or "no",
        n_kept=sum(row["kept"] for row in measured),
        n_cells=len(measured),
        n_infeasible=len(scores["rows"]) - len(measured),
    )


def readme(text: str) -> str:
    """Return the README with its tables replaced by those of the stored results."""
    made_of = {name: f"{make(load(name))}\n\n{origin(load(name))}" for name, make in (("demo", demo_table),)}
    made_of["speed"] = f"{speed_table(speeds())}\n\n{speed_origin(speeds())}"
    for name, body in made_of.items():
        made = f"<!-- {name}: written by docs/benchmark_page.py -->\n{body}\n<!-- end -->"
        text, n_found = re.subn(rf"<!-- {name}: .*?<!-- end -->", lambda _, made=made: made, text, flags=re.DOTALL)
        if n_found != 1:
            raise SystemExit(f"README.md must have one place for the table of {name}, found {n_found}")
    return text


def main() -> None:
    """Write both documents."""
    (TOP / "docs" / "benchmarks.md").write_text(page(), encoding="utf-8")
    path = TOP / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
