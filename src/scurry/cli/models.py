"""Commands about a model file: `inspect` and `export`."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from scurry.cli.files import read_model, read_rows
from scurry.cli.program import (
    AsJson,
    ModelFile,
    TrustPickle,
    app,
    certificate_json,
    console,
    list_first,
    make_pairs,
    make_table,
    show,
    show_spinner,
)
from scurry.errors import InfeasibleError, InputError
from scurry.formatting import format_bytes, format_share

if TYPE_CHECKING:
    from scurry import Forest
    from scurry.export import Export, Verification

export = typer.Typer(
    help="Write a model as source code.",
    epilog="Example: [bold]scurry export c ready.scurry firmware[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(export, name="export")


@app.command(epilog="Example: [bold]scurry inspect model.json[/bold]")
def inspect(model: ModelFile, as_json: AsJson = False, trust_pickle: TrustPickle = False) -> None:
    """Show what is in a model file: its trees, how it decides, its memory and its plan."""
    with show_spinner(f"Reading {model.name}"):
        read = read_model(model, trust_pickle=trust_pickle)
        facts: dict[str, Any] = {"file": str(model), "file_bytes": model.stat().st_size} | _list_facts(read.forest)
        has_plan = read.subject is not read.forest
        if has_plan:
            facts["plan"] = certificate_json(read.predictor)
    show(facts, as_json, _describe(facts))
    if has_plan and not as_json:
        console().print()
        console().print(make_pairs(read.predictor.summary().lines))


@export.command("c", epilog="Example: [bold]scurry export c ready.scurry firmware --rows rows.parquet[/bold]")
def export_c(
    model: ModelFile,
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write to.", show_default=False)],
    name: Annotated[str, typer.Option(help="Base name of the files and prefix of all C identifiers.")] = "model",
    layout: Annotated[
        str,
        typer.Option(
            help="Number formats: auto, float32, int16-uint16, int16-uint8, int16-node8, breadcrumb, shared16 "
            "or shared8."
        ),
    ] = "auto",
    inputs: Annotated[
        str, typer.Option(help="What a feature is in C: float32, or int16 for whole numbers without floating point.")
    ] = "float32",
    rows: Annotated[str | None, typer.Option(help="Rows to compare layouts on.", show_default=False)] = None,
    flash_budget: Annotated[
        int | None, typer.Option(help="Largest size of tables and code in bytes.", show_default=False)
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compile the C here, compare its answers with the model's, and fail if it breaks the promise.",
        ),
    ] = False,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Write C for microcontrollers.

    The C needs no library, allocates no memory and avoids floating point where possible.
    """
    from scurry.export import to_c, verify

    if check and rows is None:
        raise InputError("--check compares answers on rows: name some with --rows")
    with show_spinner(f"Reading {model.name}"):
        read = read_model(model, rows=None if rows is None else [rows], trust_pickle=trust_pickle)
        X = None if rows is None else read_rows([rows], read.forest)[0]
    with show_spinner("Comparing layouts"), _name_options():
        written = to_c(
            read.subject, directory, name=name, layout=layout, inputs=inputs, X_cal=X, flash_budget=flash_budget
        )
    verified = None
    if check:
        with show_spinner("Compiling and comparing"):
            verified = verify(directory, X, name=name)
    if as_json:
        facts = {"directory": str(directory), "name": name, "layout": written.layout, "inputs": inputs}
        facts |= asdict(written.sizes) | {"kept": written.kept, "keeps_promise": written.keeps_promise}
        typer.echo(json.dumps(facts | ({} if verified is None else {"check": asdict(verified)}), indent=1, default=str))
    else:
        _show_export(written, verified)
    # Scripts that build firmware must notice C that answers otherwise or breaks the promise, so it is a failure.
    if verified is not None and (not verified or written.keeps_promise is False):
        raise typer.Exit(1)


_OPTIONS = {'layout="auto"': "--layout auto", "X_cal": "--rows"}
_COMPRESS = re.compile(
    r"scurry\.compress\(…, max_bytes=(\d+), size_of=(?:functools\.partial\()?scurry\.export\.flash_bytes"
    r'(?:, inputs="(\w+)"\))?\)'
)


@contextmanager
def _name_options() -> Iterator[None]:
    """Make warnings and errors that name Python arguments name options."""

    def rename(message: object) -> str:
        text = _COMPRESS.sub(
            lambda found: f"scurry compress --max-flash {found[1]}" + (f" --inputs {found[2]}" if found[2] else ""),
            str(message),
        )
        for argument, option in _OPTIONS.items():
            text = text.replace(argument, option)
        return text

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except InputError as error:
            raise InputError(rename(error)) from error
        except InfeasibleError as error:
            raise InfeasibleError(rename(error), error.achievable) from error
    for one in caught:
        warnings.warn(rename(one.message), one.category, stacklevel=2)


def _show_export(written: Export, verified: Verification | None) -> None:
    table = make_table("layout", "flash", "RAM", "instr./step", "least agreement", "at the end")
    for option in written.candidates:
        known = () if option.agreement is None else (option.least_agreement, option.agreement[-1])
        sizes = option.sizes
        table.add_row(
            option.layout.name,
            format_bytes(sizes.flash_bytes),
            format_bytes(sizes.ram_bytes),
            f"{sizes.instructions_per_step:.1f}",
            *map(format_share, known),
            style="bold" if option.layout.name == written.layout else None,
        )
    console().print(table)
    lines = {"written": f"{written.directory / written.name}.c, layout {written.layout}; see README.md there"}
    if verified is not None:
        lines["checked"] = (
            f"{verified.n_answers:,} answers on {verified.n_rows:,} rows, of which {verified.n_mismatches:,} differ "
            f"from the tables; {verified.n_wrong_leaves:,} leaves are not the source model's"
        )
        if verified.n_changed_labels is not None:
            lines["rounding"] = f"changes the label of {verified.n_changed_labels:,} of the rows given"
        if verified.max_error is not None:
            lines["rounding"] = f"changes values by at most {verified.max_error:.3g}"
    lines["longest"] = f"{written.sizes.max_tests:,} node tests, {written.sizes.max_cycles:,} cycles of a Cortex-M4"
    if (kept := written.candidates[0].kept) is not None:
        verdict = "kept" if kept.is_enough else "BROKEN"
        lines["promise"] = f"{verdict} on the rows given. {kept.describe()} Its certificate does not cover rounding"
    console().print()
    console().print(make_pairs(lines))


def _list_facts(forest: Forest) -> dict[str, Any]:
    inner = ~forest.is_leaf
    n_splits = np.bincount(forest.feature[inner], minlength=forest.n_features)
    names = forest.titles
    used = np.argsort(-n_splits, kind="stable")[: np.count_nonzero(n_splits)]
    return {
        "n_trees": forest.n_trees,
        "n_nodes": forest.n_nodes,
        "n_leaves": int(forest.is_leaf.sum()),
        "min_depth": int(forest.tree_depth.min()),
        "mean_depth": float(forest.tree_depth.mean()),
        "max_depth": forest.max_depth,
        "n_features": forest.n_features,
        "splits_by_feature": {names[j]: int(n_splits[j]) for j in used},
        "n_categorical_splits": int((forest.category_set[inner] >= 0).sum()),
        "classes": None if forest.classes is None else forest.classes.tolist(),
        "aggregation": forest.aggregation,
        "score_dtype": forest.score_dtype,
        "link": forest.link,
        "wrapper": None if forest.wrapper is None else forest.wrapper.describe(),
        "comparison": forest.comparison,
        "input_dtype": forest.input_dtype,
        "array_bytes": forest.n_bytes,
        "engine_bytes": forest.engine.node_bytes + forest.engine.leaf_bytes + forest.engine.column_bytes,
        "engine_stored": forest.engine_is_stored,
        "digest": forest.digest,
    }


def _describe(facts: dict[str, Any]) -> dict[str, str]:
    splits, classes = facts["splits_by_feature"], facts["classes"]
    return {
        "file": f"{facts['file']} ({format_bytes(facts['file_bytes'])})",
        "trees": f"{facts['n_trees']:,}",
        "nodes": f"{facts['n_nodes']:,}, of which {facts['n_leaves']:,} leaves",
        "depth": f"{facts['min_depth']} to {facts['max_depth']}, mean {facts['mean_depth']:.1f}",
        "features": f"{len(splits)} of {facts['n_features']} used",
        "most splits": list_first([f"{feature} ({count:,})" for feature, count in splits.items()]),
        "classes": "none, it is a regressor" if classes is None else f"{len(classes)}: {list_first(classes)}",
        "decides by": f"{facts['aggregation']} of the trees in {facts['score_dtype']}, link {facts['link']}"
        + (f"; {facts['wrapper']}" if facts["wrapper"] else ""),
        "split": f"left if {facts['input_dtype']}(x) {facts['comparison']} threshold; "
        f"{facts['n_categorical_splits']:,} categorical splits",
        "memory": f"arrays {format_bytes(facts['array_bytes'])}, engine {format_bytes(facts['engine_bytes'])} "
        f"({facts['engine_bytes'] / facts['n_nodes']:.1f} bytes per node), "
        + ("stored in the file" if facts["engine_stored"] else "made when first needed"),
        "digest": facts["digest"],
    }
