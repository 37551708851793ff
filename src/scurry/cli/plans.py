"""Commands that make a model cheaper: `early-exit`, `anytime`, `prune`, `compress`. Each writes a .scurry file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scurry.cli.files import read_model, read_queries, read_rows
from scurry.cli.program import (
    BROKEN,
    AsJson,
    Dask,
    Label,
    MaybeOutput,
    MaybeRows,
    ModelFile,
    Output,
    Rows,
    Seed,
    TrustPickle,
    app,
    certificate_json,
    console,
    make_table,
    show,
    show_progress,
    show_spinner,
)
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.formatting import format_bytes, format_share, round_up

if TYPE_CHECKING:
    from scurry import Predictor
    from scurry.pruning import PruningPath

_N_SHOWN_PRUNINGS = 8  # a path may have thousands
# Options whose name is not that of the argument.
_OPTIONS = {
    "X_cal": "ROWS",
    "X_fit": "--fit-rows",
    "random_state": "--seed",
    "y_cal": "--label",
    "y_val": "--label",
}
# What a file of --costs holds. One of prices alone is the usual case, so their errors name the option alone.
_COST_ARGUMENTS = {"feature_costs": "--costs"} | {
    name: f"--costs: {name}" for name in ("groups", "group_costs", "step_cost")
}


@app.command(
    epilog="Example: [bold]scurry early-exit model.json rows.parquet --max-disagreement 0.005 -o fast.scurry[/bold]"
)
def early_exit(
    model: ModelFile,
    output: Output,
    rows: MaybeRows = None,
    promise: Annotated[
        str | None,
        typer.Option(
            help="What may change: labels<=0.5%, yes<=2%,no<=0.2% (of each class), recall(yes)<=1% or accuracy<=0.3% "
            "(both need --label), values<=12 for 95% (of rows, for regressors), probabilities<=0.02 for 95%, "
            "top10<=1% (of queries, needs --groups).",
            show_default="as --max-disagreement says",
        ),
    ] = None,
    max_disagreement: Annotated[
        float, typer.Option(help="Largest share of rows whose label may change: 0.005 is five in a thousand.")
    ] = 0.001,
    method: Annotated[
        str, typer.Option(help="auto, minimax, minimean, minimixed, schwing, qwyc, fan or sentinels.")
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="Probability with which the promise holds for new rows.")] = 0.95,
    no_promise: Annotated[
        bool, typer.Option("--no-promise", help="Keep the limit on ROWS only; promise nothing for new rows.")
    ] = False,
    fit_rows: Annotated[
        str | None,
        typer.Option(help="Rows to fit the rule on, such as the training rows (default: a part of ROWS)."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Answer the second class (of classes in order) from this probability on (default: as the model does).",
            show_default=False,
        ),
    ] = None,
    keep_scores: Annotated[
        str | None,
        typer.Option(help="positive: rows of the second class get their full score.", show_default=False),
    ] = None,
    costs: Annotated[
        str, typer.Option(help="What a tree costs: trees (1 each), steps (its node tests), or a JSON list of numbers.")
    ] = "trees",
    order: Annotated[
        str | None,
        typer.Option(
            help="Order of the trees: natural, random, individual-mse, greedy-mse, or a file with a JSON list.",
            show_default="as the method finds it",
        ),
    ] = None,
    bin_width: Annotated[
        float | None, typer.Option(help="Width of the bins of method fan.", show_default="0.1")
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(help="Deviations beyond which method fan stops a row.", show_default="the smallest allowed"),
    ] = None,
    label: Label = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column that tells which rows belong together, such as those of one patient or one query.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    dask: Dask = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Stop evaluating trees once a row's label is clear, with a promise for new rows.

    ROWS must be like the rows to predict, and the model must not be trained on them. They need no labels. The methods
    minimax and minimixed make a promise without ROWS, about random orders of the trees. Where ROWS look as if the model
    was trained on them, nothing is promised, and the exit code is 3.

    With --dask, ROWS may be larger than memory.
    """
    from scurry import distributed, early_exit
    from scurry.stopping import PRESETS

    with show_spinner(f"Reading {model.name}"):
        forest = read_model(model, rows=rows, trust_pickle=trust_pickle).forest
    options: dict[str, Any] = {"max_disagreement": max_disagreement, "method": method, "random_state": seed}
    options["confidence"] = None if no_promise else confidence
    if promise is not None:
        options |= _read_promise(promise, forest.classes, options)
    options |= {"threshold": threshold, "keep_scores": keep_scores, "bin_width": bin_width, "gamma": gamma}
    options["costs"] = _read_numbers("--costs", costs, ("trees", "steps"))
    options["order"] = None if order is None else _read_numbers("--order", order, PRESETS)
    if fit_rows is not None:
        with show_spinner("Reading rows to fit"):
            options["X_fit"] = read_rows([fit_rows], forest)[0]
    if not rows:
        if dask is not None or label is not None or groups is not None:
            raise InputError("--label, --groups and --dask go with ROWS, and there are none")
        with show_spinner("Solving for a rule"), _name_options():
            predictor = early_exit(forest, **options)
    elif dask is None:
        with show_spinner("Reading rows"):
            X, y, options["groups"] = read_queries(rows, forest, label, groups)
        with show_spinner(f"Calibrating on {len(X):,} rows"), _name_options():
            predictor = early_exit(forest, X, y, **options)
    else:
        if groups is not None:
            raise InputError("--groups needs rows in memory; leave --dask out")
        with show_progress("Calibrating") as update, _name_options():
            predictor = distributed.early_exit(forest, rows, label=label, cluster=dask, progress=update, **options)
    predictor.save(output)
    budget = f"--groups {groups} " if predictor.plan.ranks_groups else ""
    _show_saved(predictor, output, as_json, budget, asked=not no_promise)


@app.command(epilog="Example: [bold]scurry anytime model.json rows.parquet --label income -o ready.scurry[/bold]")
def anytime(
    model: ModelFile,
    rows: Rows,
    output: Output,
    label: Annotated[str, typer.Option(help="Column with the labels.", show_default=False)],
    order: Annotated[
        str,
        typer.Option(help="auto, optimal, backward-squirrel, forward-squirrel, or depth-… and breadth-…."),
    ] = "auto",
    objective: Annotated[str, typer.Option(help="Optimise accuracy per step (steps) or microsecond (time).")] = "steps",
    readout: Annotated[
        str | None,
        typer.Option(
            help="How inner nodes count: plain, weighted or auto.", show_default="auto for the order auto, else plain"
        ),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Find an order of steps with good early answers, so that prediction can stop at any moment.

    Prefer rows that the model was not trained on.
    """
    from scurry import anytime

    with show_spinner(f"Reading {model.name}"):
        forest = read_model(model, rows=rows, trust_pickle=trust_pickle).forest
    with show_spinner("Reading rows"):
        X, y = read_rows(rows, forest, label)
    with show_spinner(f"Ordering {int(forest.tree_depth.sum()):,} steps on {len(X):,} rows"):
        predictor = anytime(forest, X, y, order=order, objective=objective, readout=readout, random_state=seed)
        predictor.save(output)
    _show_saved(predictor, output, as_json, f"--max-steps {max(len(predictor.plan.order) // 10, 1)} ")


@app.command(
    epilog="Example: [bold]scurry prune forest.skops rows.csv --costs costs.json --max-cost 20 -o cheap.scurry[/bold]"
)
def prune(
    model: ModelFile,
    rows: Rows,
    output: MaybeOutput = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            help="Largest mean cost per row; single rows may pay more (default: show trade-offs).", show_default=False
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help='JSON: {"age": 1, "blood test": 20}, or an object with feature_costs, groups, group_costs, step_cost. '
            "By default every feature costs 1.",
            show_default=False,
        ),
    ] = None,
    errors: Annotated[
        str, typer.Option(help="Rows to count errors on: training, or validation (needs --label).")
    ] = "training",
    method: Annotated[str, typer.Option(help="exact, or one of the papers' methods.")] = "exact",
    class_weight: Annotated[
        str | None,
        typer.Option(
            help='What errors on each class cost: "balanced", or JSON such as \'{"healthy": 1, "ill": 10}\'.',
            show_default="1 each",
        ),
    ] = None,
    label: Label = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Prune a forest so that rows pay for fewer features.

    Without --max-cost, it writes nothing and prints the available trade-offs. With --label, only those are available
    that are better on ROWS than all cheaper ones.
    """
    from scurry import prune

    if (output is None) != (max_cost is None):
        raise InputError("--max-cost and --output belong together; leave both out to see the available trade-offs")
    with show_spinner(f"Reading {model.name}"):
        forest = read_model(model, rows=rows, trust_pickle=trust_pickle).forest
    with show_spinner("Reading rows"):
        X, y = read_rows(rows, forest, label)
    given = {} if costs is None else _read_costs(costs)
    named = _name_options(_COST_ARGUMENTS)
    with show_progress(f"Pruning on {len(X):,} rows") as update, named, warnings.catch_warnings():
        warnings.simplefilter("ignore", ScurryWarning)  # said below, in a line of its own
        weight = None if class_weight is None else _read_weights(class_weight, forest.classes)
        path = prune(forest, X, y, class_weight=weight, errors=errors, method=method, progress=update, **given)
        point = None if max_cost is None else path.point(max_cost=max_cost)
    if point is None or output is None:
        _show_path(path, as_json) if y is None else _show_offers(path, as_json)
        return
    point.forest.save(output)
    facts = {
        "file": str(output),
        "cost": point.cost,
        "full_cost": float(path.costs.max()),
        "error": point.error,
        "full_error": float(path.errors.min()),
        "error_gap": point.gap,
        "n_nodes": point.forest.n_nodes,
        "full_n_nodes": forest.n_nodes,
        "single_label": point.single_label,
    }
    lines = {"cost": f"{point.cost:.4g} per row, before {facts['full_cost']:.4g}"}
    if path.validation is not None and path.validation.truth is not None:
        after, before = (path.validation.judge(each, "").error for each in (point.forest, forest))
        facts |= {"error_on_rows": after, "full_error_on_rows": before}
        lines["error on these rows"] = f"{after:.4g}, before {before:.4g}: of the answers of all trees together"
    counted = "training rows" if errors == "training" else "these rows"
    lines |= {
        "error of a tree": f"{point.error:.4g} on {counted}, before {facts['full_error']:.4g}: the mean of the trees, "
        f"which pruning keeps low; at most {point.gap:.2g} above the lowest at this cost",
        "nodes": f"{point.forest.n_nodes:,} of {forest.n_nodes:,}",
    }
    if point.single_label is not None:
        more = ", or --class-weight" if forest.is_classifier else ""
        lines["warning"] = f"every row gets the answer {point.single_label!r}; allow a higher cost{more}"
    show(facts, as_json, lines | _describe_file(output))


@app.command(
    epilog="Example: [bold]scurry compress model.json rows.parquet --promise 'accuracy<=1%' --label income "
    "--fit-rows training.parquet -o small.scurry[/bold]"
)
def compress(
    model: ModelFile,
    rows: Rows,
    output: Output,
    promise: Annotated[
        str | None,
        typer.Option(
            help="What may change: labels<=0.5%, yes<=2%,no<=0.2% (of each class), recall(yes)<=1% or accuracy<=1% "
            "(both need --label), values<=12 for 95% (of rows, for regressors), probabilities<=0.02 for 95%.",
            show_default="labels<=0.5%, or nothing with --max-bytes or --max-flash",
        ),
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="Largest size of the saved file in bytes.", show_default=False)
    ] = None,
    max_flash: Annotated[
        int | None,
        typer.Option(help="Largest size in bytes of the C that scurry export c writes.", show_default=False),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(help="With --max-flash: what a feature is in that C, float32 or int16.", show_default="float32"),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability with which the promise holds for new rows.")] = 0.95,
    fit_rows: Annotated[
        str | None,
        typer.Option(help="Rows that weigh splits and refit leaves, preferably the training rows.", show_default=False),
    ] = None,
    label: Label = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Make a model smaller, with a promise about its answers.

    ROWS must be like the rows to predict, and the model must not be trained on them. Few labels may change with the
    promise labels<=…; a forest becomes much smaller with accuracy<=…, which needs --label and works best with
    --fit-rows.
    """
    from scurry import compress
    from scurry.export import flash_bytes

    if max_bytes is not None and max_flash is not None:
        raise InputError("--max-bytes and --max-flash are limits of different things; pass one of them")
    if inputs is not None and max_flash is None:
        raise InputError("--inputs says what a feature is in the C that --max-flash limits; pass --max-flash too")
    with show_spinner(f"Reading {model.name}"):
        forest = read_model(model, rows=rows, trust_pickle=trust_pickle).forest
    options: dict[str, Any] = {"max_bytes": max_bytes}
    count_flash = partial(flash_bytes, inputs=inputs or "float32")
    if max_flash is not None:
        options = {"max_bytes": max_flash, "size_of": count_flash}
    if promise is not None:
        options["promise"] = _read_promise(promise, forest.classes, {"confidence": confidence})["promise"]
    elif options["max_bytes"] is None and forest.is_classifier:
        options["promise"] = _read_promise("labels<=0.5%", None, {"confidence": confidence})["promise"]
    with show_spinner("Reading rows"):
        X, y = read_rows(rows, forest, label)
        if fit_rows is not None:
            options["X_fit"] = read_rows([fit_rows], forest)[0]
    named = {} if max_flash is None else {"max_bytes": "--max-flash"}
    with show_progress(f"Compressing on {len(X):,} rows") as update, _name_options(named):
        predictor = compress(forest, X, y, progress=update, **options)
    predictor.save(output)
    counted = {} if max_flash is None else {"flash": count_flash(predictor)}
    _show_saved(predictor, output, as_json, asked="promise" in options, sizes=counted)


def _read_numbers(option: str, given: str, words: Sequence[str]) -> Any:
    """Return one of `words` as it is, or the numbers in a file."""
    if given in words:
        return given
    wanted = f"{option} must be {', '.join(words)} or a file with a JSON list of numbers"
    try:
        numbers = json.loads(Path(given).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{wanted}: {error}") from error
    if not isinstance(numbers, list):
        raise InputError(f"{given} must hold a JSON list with a number for each tree")
    return numbers


def _read_promise(text: str, classes: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `scurry.early_exit` that ask for the promise in `text`."""
    from scurry.promises import Promise

    if options["confidence"] is None:
        raise InputError("--promise and --no-promise contradict each other; pass one of them")
    known = () if classes is None else classes.tolist()
    with _name_options():
        promise = Promise.parse(text, classes=known, confidence=options["confidence"])
    # The confidence is part of the promise; a limit given twice is refused by the library.
    return {"promise": promise, "confidence": 0.95}


def _read_costs(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f'{path} is not JSON such as {{"age": 1, "blood test": 20}}: {error}') from error
    if not isinstance(given, dict):
        raise InputError(f'{path} must hold an object such as {{"age": 1, "blood test": 20}}')
    # A file of prices alone is the usual case. Keys that are all arguments of `scurry.prune` mean the long form.
    return given if given.keys() <= _COST_ARGUMENTS.keys() else {"feature_costs": given}


def _read_weights(given: str, classes: Any) -> Any:
    """Return "balanced", or weights by label; JSON knows labels only as text."""
    if given == "balanced":
        return given
    try:
        by_text = json.loads(given)
    except ValueError as error:
        raise InputError(
            f'--class-weight must be balanced, or JSON such as {{"healthy": 1, "ill": 10}}: {error}'
        ) from error
    labels = {} if classes is None else {str(label): label for label in classes.tolist()}
    return (
        {labels.get(text, text): weight for text, weight in by_text.items()} if isinstance(by_text, dict) else by_text
    )


def _show_offers(path: PruningPath, as_json: bool) -> None:
    """Show prunings that are better on the rows than all cheaper ones."""
    offers, forest = path.offers, path.problem.forest
    labels = [] if forest.classes is None else forest.classes.tolist()
    if as_json:
        listed = [
            {
                "cost": offer.cost,
                "error": offer.error,
                "recalls": {str(label): float(recall) for label, recall in zip(labels, offer.recalls, strict=True)},
                "single_label": offer.single_label,
            }
            for offer in offers
        ]
        typer.echo(json.dumps({"offers": listed}, indent=1))
        return
    table = make_table("mean cost per row", "error on these rows", *(f"{label} found" for label in labels), "nodes")
    for index in _choose_spread(len(offers)):
        offer = offers[index]
        table.add_row(
            f"{offer.cost:,.2f}",
            f"{offer.error:.4f}" + (" (one answer)" if offer.single_label is not None else ""),
            *map(format_share, offer.recalls),
            f"{offer.forest.n_nodes:,}",
        )
    console().print(table)
    console().print("\nChoose any mean cost up to the highest: --max-cost … -o cheap.scurry")


def _show_path(path: PruningPath, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"costs": path.costs.tolist(), "errors": path.errors.tolist()}, indent=1))
        return
    table = make_table("pruning", "mean cost per row", "error of a tree", "nodes")
    for index in _choose_spread(len(path)):
        forest = path[index]
        table.add_row(
            f"{index + 1} of {len(path)}",
            f"{path.costs[index]:,.2f}",
            f"{path.errors[index]:.4f}",
            f"{forest.n_nodes:,}",
        )
    console().print(table)
    console().print("\nChoose any mean cost up to the highest: --max-cost … -o cheap.scurry")


def _choose_spread(count: int) -> Sequence[int]:
    n_shown = min(count, _N_SHOWN_PRUNINGS)
    return sorted({round(index * (count - 1) / max(n_shown - 1, 1)) for index in range(n_shown)})


@contextmanager
def _name_options(named: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn errors that name Python arguments into errors that name options; `named` are those of one command."""
    options = _OPTIONS | dict(named or {})
    try:
        yield
    except InputError as error:
        if error.argument is None:
            raise
        raise InputError(
            error.describe(options.get(error.argument, f"--{error.argument.replace('_', '-')}"))
        ) from error
    except InfeasibleError as error:
        if error.argument == "max_bytes":
            raise InputError(error.describe(options.get("max_bytes", "--max-bytes"))) from error
        if error.argument != "max_disagreement" or error.achievable is None:
            raise
        # The message of the library names Python arguments, so it is said again in options.
        rows = "" if error.n_rows_needed is None else f", at least {error.n_rows_needed} calibration rows"
        raise InputError(
            f"this promise cannot be certified on these rows. Pass --max-disagreement "
            f"{round_up(error.achievable, 2):.2g}{rows}, or --no-promise for no promise"
        ) from error


def _show_saved(
    predictor: Predictor,
    output: Path,
    as_json: bool,
    budget: str = "",
    *,
    asked: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Show what was saved, and `sizes` in bytes; `asked` says that it was to promise something."""
    lines = {} if predictor.certificate is None else predictor.certificate.lines()
    counted = dict(sizes or {})
    facts = (
        {"file": str(output)} | certificate_json(predictor) | {f"{key}_bytes": size for key, size in counted.items()}
    )
    told = lines | {"trees": str(predictor.forest.n_trees)}
    told |= {key: f"{size:,} bytes" for key, size in counted.items()} | _describe_file(output, budget)
    is_refused = asked and predictor.promise is None
    if is_refused:
        told["next"] = (
            f"{output} PROMISES NOTHING (see the warning): calibrate again on rows that the model has not seen"
        )
    show(facts, as_json, told)
    if is_refused:  # scripts must notice, as when a watch raises an alarm
        raise typer.Exit(BROKEN)


def _describe_file(output: Path, budget: str = "") -> dict[str, str]:
    size = format_bytes(output.stat().st_size)
    return {"file": f"{output} ({size})", "next": f"scurry predict {output} new.parquet {budget}-o scores.parquet"}
