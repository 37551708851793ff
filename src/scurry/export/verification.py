"""Verification: an exported model is compiled with the host's compiler, and every answer it gives is compared.

Two comparisons make a chain from the C code to the source model. The harness below reads rows from its input and
writes, for each, the labels and sums it observes; the replay of the exported tables in numpy says what they should be.
The tables in turn must send rows to the leaves that they reach in the source forest. What is left is rounding: that of
values near a threshold, and that of the numbers that leaves add. It is measured: labels that are not the source's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, MissingDependencyError
from scurry.export.c.model import check_name, make_probes
from scurry.export.c.source import name_answer
from scurry.export.comparisons import check_integers
from scurry.export.lowered import LAYOUTS, Lowered, lower
from scurry.export.replay import final_answers, find_leaves, measure_error, run_trees, walk_steps
from scurry.forest import Forest, as_rows
from scurry.predictor import Predictor, load

FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")
SANITIZERS = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
_ROWS_AT_ONCE = 256  # the replay holds the sums of all steps of these rows
_DRAW_STEP = 40503  # odd: the draws of successive rows pass through all 16-bit numbers
_TIMEOUT_S = 600

_HARNESS = Template("""\
#include <stdio.h>
#include "$name.h"

static int observing = 0;

static void observe(const ${name}_state *state)
{
    int32_t seen[1 + ${NAME}_N_SUMS];
    if (!observing) return;
    seen[0] = ${name}_$answer(state);
    ${name}_scores(state, seen + 1);
    fwrite(seen, sizeof seen, 1, stdout);
}

/* Breadcrumb trees are observed at every store, as an interrupt could see them. */
#define ${NAME}_AT(state, tree, at) ((state)->node[tree] = (at), observe(state))
#include "$name.c"
#include "${name}_selftest.h"

int main(void)
{
    static const uint8_t stopped = 1, running = 0;
    ${name}_raw row[${NAME}_N_FEATURES];
$columns    ${name}_state state;
$declarations
    if (${name}_selftest() != 0) return 3;
    observing = 1;
    while (fread(row, sizeof row, 1, stdin) == 1) {
$quantize$walk
    }
    return 0;
}
""")

_TABLE_WALK = """\
        {name}_init(&state);
        observe(&state);
        while ({name}_step(&state, {x})) observe(&state);
        {name}_init(&state);
        {name}_run(&state, {x}, &stopped);
        if (state.position != 0) return 4;
        {name}_run(&state, {x}, &running);
        observe(&state);"""

_CRUMB_WALK = """\
        {name}_init(&state);
        observe(&state);
        {name}_run(&state, {x}, &stopped);
        if (state.position != 0) return 4;
        {name}_run(&state, {x}, &running);"""

# A model that stops by itself is stopped before every tree, and must continue as if it had not been.
_EXIT_WALK = """\
        {init}
        {name}_run(&state, {x}, &stopped);
        if (state.trees != 0 || state.phase != 0) return 4;
        while ({name}_step(&state, {x})) {name}_run(&state, {x}, &stopped);
        by_steps = {name}_{answer}(&state);
        trees = state.trees;
        {init}
        {name}_run(&state, {x}, &running);
        if (state.trees != trees || {name}_{answer}(&state) != by_steps) return 4;
        observe(&state);
        fwrite(&trees, sizeof trees, 1, stdout);"""


@dataclass(frozen=True)
class Verification:
    """Result of a comparison. It is true if there was no mismatch and no wrong leaf.

    Attributes
    ----------
    name, layout : str
    n_rows : int
        Number of rows, adversarial ones included.
    n_answers : int
        Number of answers of the C code that were compared with the exported tables: labels and sums, after every step
        of an anytime model.
    n_mismatches : int
        Answers that differ.
    n_wrong_leaves : int
        Leaves that rows reach in the exported tables and not in the source forest, over all rows and trees. Quantised
        layouts are compared on rows whose values they hold exactly.
    n_changed_labels : int or None
        Rows of `X` whose label is not that of the source predictor, after all steps: what rounding changed. None where
        the plan draws at random, and the C code draws other numbers, and for regressors.
    max_error : float or None
        Of a regressor: the largest difference to the source predictor's value on `X`, after all steps.
    """

    name: str
    layout: str
    n_rows: int
    n_answers: int
    n_mismatches: int
    n_wrong_leaves: int
    n_changed_labels: int | None
    max_error: float | None = None

    def __bool__(self) -> bool:
        return self.n_mismatches == 0 and self.n_wrong_leaves == 0


def verify(
    directory: str | PathLike[str],
    X: Any,
    *,
    name: str | None = None,
    n_adversarial: int = 500,
    sanitize: bool = False,
    compiler: str | None = None,
) -> Verification:
    """Compile what `to_c` wrote, compare all its answers with the exported tables, and those with the source model.

    Parameters
    ----------
    directory : str or path
    X : array or DataFrame of shape (n_rows, n_features)
        Rows to compare on. Adversarial rows are added: on and next to the thresholds, with NaN and infinities.
    name : str, optional
        Name of the model. Needed if the directory has several.
    n_adversarial : int, default 500
        Number of adversarial rows.
    sanitize : bool, default False
        Whether to check for undefined behaviour and invalid memory accesses too.
    compiler : str, optional
        C compiler. By default ``$CC``, cc, gcc or clang, the first that is found.

    Returns
    -------
    Verification

    Raises
    ------
    FormatError
        If the code does not compile, fails its self-test or crashes.

    Examples
    --------
    >>> import scurry, tempfile
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> folder = tempfile.mkdtemp()
    >>> export = scurry.export.to_c(scurry.Forest.from_trees([stump]), folder)
    >>> proof = scurry.export.verify(folder, [[0.0], [1.0]])
    >>> bool(proof), proof.n_mismatches, proof.n_wrong_leaves, proof.n_changed_labels
    (True, 0, 0, 0)
    """
    folder = Path(directory)
    lowered, pred, name = _load(folder, name)
    with np.errstate(over="ignore", under="ignore"):
        given = as_rows(pred.forest, X).astype(np.float32)
        if lowered.columns.is_integer:
            check_integers(given, "X")
        probes = make_probes(pred.forest, n_adversarial, rows=given, integers=lowered.columns.is_integer)
    rows = np.concatenate([given, probes])
    with tempfile.TemporaryDirectory() as scratch:
        program = _compile(folder, name, lowered, pred.forest, Path(scratch), sanitize, compiler)
        blocks = _cut(rows)
        pairs = [(_replay(lowered, block), _run(program, lowered, block)) for block in blocks]
    width = 1 + lowered.values.n_sums + (not lowered.is_anytime)
    return Verification(
        name,
        lowered.layout.name,
        n_rows=len(rows),
        n_answers=sum(len(expected) for expected, _ in pairs) // width,
        n_mismatches=sum(_count_mismatches(expected, obtained, width) for expected, obtained in pairs),
        n_wrong_leaves=sum(_count_wrong_leaves(lowered, pred.forest, block) for block in blocks),
        n_changed_labels=None
        if lowered.takes_draw or not pred.forest.is_classifier
        else sum(_count_changed_labels(lowered, pred, block) for block in _cut(given)),
        max_error=measure_error(pred, lowered, given) if len(given) else None,
    )


def _cut(rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    return [rows[at : at + _ROWS_AT_ONCE] for at in range(0, len(rows), _ROWS_AT_ONCE)]


def _count_wrong_leaves(lowered: Lowered, forest: Forest, rows: NDArray[np.float32]) -> int:
    """Return how many leaves of the exported tables are not those of the source forest."""
    exact = lowered.columns.move_to_grid(rows)
    return int((lowered.source[find_leaves(lowered, exact)] != forest.apply(exact)).sum())


def _count_changed_labels(lowered: Lowered, pred: Predictor, rows: NDArray[np.float32]) -> int:
    """Return how many rows get another label than the source's once all steps are made."""
    return int((final_answers(pred, lowered, rows) != pred.predict(rows)).sum())


def _load(folder: Path, name: str | None) -> tuple[Lowered, Predictor, str]:
    if name is None:
        found = sorted(path.stem for path in folder.glob("*.json") if path.with_suffix(".scurry").exists())
        if len(found) != 1:
            raise InputError(
                f"{folder} has {len(found)} exported models{': ' * bool(found)}{', '.join(found)}; "
                + ("choose one with name=…" if found else "write one with scurry.export.to_c")
            )
        name = found[0]
    check_name(name)
    try:
        manifest = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        layout = LAYOUTS[manifest["layout"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{folder / name}.json is not what to_c writes: {error}; export the model again") from error
    pred = load(folder / f"{name}.scurry")
    if not isinstance(pred, Predictor):
        raise FormatError(f"{folder / name}.scurry holds no predictor; export the model again")
    return lower(pred, layout, manifest.get("inputs", "float32")), pred, name


def _compile(
    folder: Path, name: str, lowered: Lowered, forest: Forest, scratch: Path, sanitize: bool, compiler: str | None
) -> Path:
    tried = [compiler] if compiler else [os.environ.get("CC", "cc"), "cc", "gcc", "clang"]
    path = next((found for found in map(shutil.which, tried) if found), None)
    if path is None:
        raise MissingDependencyError(f"no C compiler found (looked for {', '.join(tried)}); install gcc or clang")
    harness, program = scratch / "harness.c", scratch / "harness"
    harness.write_text(_write_harness(lowered, forest, name), encoding="utf-8")
    flags = [*FLAGS, *(SANITIZERS if sanitize else ())]
    command = [path, *flags, f"-I{folder.resolve()}", str(harness), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise FormatError(f"{folder / name}.c does not compile: {done.stderr.strip()[:1000]}")
    return program


def _write_harness(lowered: Lowered, forest: Forest, name: str) -> str:
    is_integer = lowered.columns.is_integer
    words = {"name": name, "x": "row" if is_integer else "x", "answer": name_answer(forest)}
    if lowered.is_anytime:
        walk, declarations = (_CRUMB_WALK if lowered.layout.if_else else _TABLE_WALK).format(**words), ""
    else:
        draw = f", (uint16_t)({_DRAW_STEP}u * n_rows)" if lowered.takes_draw else ""
        walk = _EXIT_WALK.format(init=f"{name}_init(&state{draw});", **words)
        walk += "\n        ++n_rows;" if draw else ""
        declarations = "    int32_t trees, by_steps;" + ("\n    uint32_t n_rows = 0;" if draw else "")
    return _HARNESS.substitute(
        name=name,
        NAME=name.upper(),
        answer=words["answer"],
        walk=walk,
        declarations=declarations,
        columns="" if is_integer else f"    {name}_input x[{name.upper()}_N_COLUMNS];\n",
        quantize="" if is_integer else f"        {name}_quantize(row, x);\n",
    )


def _run(program: Path, lowered: Lowered, rows: NDArray[np.float32]) -> NDArray[np.int32]:
    raw = np.ascontiguousarray(lowered.columns.to_raw(rows))
    done = subprocess.run([program], input=raw.tobytes(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        reasons = {3: "it fails its self-test", 4: "it does not obey the stop flag"}
        reason = reasons.get(done.returncode, done.stderr.decode(errors="replace").strip()[:1000])
        raise FormatError(f"the exported model does not run as written: {reason or f'exit {done.returncode}'}")
    return np.frombuffer(done.stdout, dtype=np.int32)


def _replay(lowered: Lowered, rows: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return what the harness should write for some rows."""
    if not lowered.is_anytime:
        # The harness starts anew for every block of rows, so draws begin at 0 again.
        codes, sums, trees = run_trees(lowered, rows, draws=_DRAW_STEP * np.arange(len(rows)))
        return np.column_stack([codes, sums, trees]).astype(np.int32).ravel()
    states = list(walk_steps(lowered, rows))
    answers = [np.column_stack([lowered.values.labels(sums), sums]) for sums, _ in states]
    per_row: NDArray[np.int32] = np.stack(answers, axis=1).astype(np.int32)
    if lowered.layout.if_else:
        # Code stores a node only where a row moves.
        per_move: NDArray[np.int32] = per_row[np.stack([moved for _, moved in states], axis=1)].ravel()
        return per_move
    # Tables are observed after every step, and once more after they ran without a pause.
    return np.concatenate([per_row, per_row[:, -1:]], axis=1).ravel()


def _count_mismatches(expected: NDArray[np.int32], obtained: NDArray[np.int32], width: int) -> int:
    if len(expected) != len(obtained):
        return max(len(expected), len(obtained)) // width
    return int((expected != obtained).reshape(-1, width).any(axis=1).sum())
