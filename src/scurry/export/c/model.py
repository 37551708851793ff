"""C model: a predictor or a forest written as C for microcontrollers.

Candidates are the layouts a model can be written in, and the choice among them by what each takes of a microcontroller
(`sizes`).

Its self-test is a few rows and the labels it must give them, to be run on the target.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_number
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.export.c.sizes import Sizes, estimate_sizes
from scurry.export.c.source import CSource, Tables, name_answer
from scurry.export.comparisons import INPUTS, check_integers
from scurry.export.lowered import LAYOUTS, Layout, Lowered, lower
from scurry.export.replay import (
    Kept,
    find_promise,
    in_percent,
    measure_agreement,
    measure_error,
    measure_kept,
    run_trees,
    walk_steps,
)
from scurry.forest import Forest, as_rows
from scurry.predictor import Predictor, read_forest
from scurry.promises import SizeMeasurement
from scurry.version import read_version

_N_ROWS, _MAX_ROWS, _N_DRAWN = 8, 16, 256  # of a self-test: by default, with many classes, and to choose from
_N_POSITIONS = 5
_SPECIAL_SHARE, _THRESHOLD_SHARE = 0.05, 0.7
_SPECIAL = np.array(
    [
        *(np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 65536.0, 1e9, -1e9),
        *(1e-45, -1e-45, 1e-38, 3.4028235e38, -3.4028235e38),  # denormals, and the largest floats
    ],
    dtype=np.float32,
)

_FRAME = Template("""\
/* Rows and the labels that $name must give them. Call ${name}_selftest() on the target: it returns the mismatches. */
#ifndef ${NAME}_SELFTEST_H
#define ${NAME}_SELFTEST_H

#include "$name.h"

static int ${name}_selftest(void)
{
$tables
    int mismatches = 0;
    uint16_t row;
    for (row = 0; row < $n_rows; ++row) {
        ${name}_state state;
$quantize        ${name}_init(&state$draw);
$check
    }
    return mismatches;
}

#endif
""")

_CHECK_STEPS = """\
        {{
            uint16_t p;
            for (p = 0; p < {n_positions}; ++p) {{
                while (state.position < positions[p]) {name}_step(&state, {x});
                mismatches += {name}_{answer}(&state) != labels[row][p];
            }}
        }}"""

_CHECK_RUN = """\
        while ({name}_step(&state, {x})) {{
        }}
        mismatches += {name}_{answer}(&state) != labels[row][0];"""

_QUANTIZE = """\
        {name}_input x[{NAME}_N_COLUMNS];
        {name}_quantize(rows[row], x);
"""


def make_selftest(lowered: Lowered, forest: Forest, name: str, rows: NDArray[Any] | None) -> str:
    """Return the text of ``NAME_selftest.h``."""
    # Without NaN and infinities, which C has no constants for.
    columns = lowered.columns
    drawn = make_probes(forest, _N_DRAWN, rows=rows, special=False, integers=columns.is_integer)
    if lowered.is_anytime:
        labels = [lowered.values.labels(sums) for sums, _ in walk_steps(lowered, drawn)]
    else:
        labels = [run_trees(lowered, drawn).codes]
    places = _one_of_each(labels[-1])[: max(_N_ROWS, min(forest.n_classes, _MAX_ROWS))]
    chosen, labels = drawn[places], [one[places] for one in labels]
    tables, words = Tables(), {"name": name, "x": "rows[row]" if columns.is_integer else "x"}
    words["answer"] = name_answer(forest)
    tables.add_array("rows", columns.to_raw(chosen), columns.raw_type)
    if lowered.is_anytime:
        # The C counts runs where trees are code, and steps where they are tables; the replay counts steps.
        lengths = [last - first for _, first, last in lowered.runs]
        n_steps = np.cumsum([0, *lengths]) if lowered.layout.if_else else np.arange(len(lowered.order) + 1)
        positions = np.unique(np.linspace(0, len(n_steps) - 1, _N_POSITIONS).astype(np.int64))
        tables.add_array("positions", positions)
        tables.add_array("labels", np.stack([labels[n] for n in n_steps[positions]], axis=1))
        check = _CHECK_STEPS.format(n_positions=len(positions), **words)
    else:
        tables.add_array("labels", labels[0][:, None])
        check = _CHECK_RUN.format(**words)
    return _FRAME.substitute(
        name=name,
        NAME=name.upper(),
        tables="    " + str(tables).replace("\n", "\n    "),
        n_rows=len(chosen),
        draw=", 0" if lowered.takes_draw else "",
        quantize="" if columns.is_integer else _QUANTIZE.format(name=name, NAME=name.upper()),
        check=check,
    )


def _one_of_each(labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return places of labels: the first of each, then the second of each, and so on."""
    by_label = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[by_label], return_index=True, return_counts=True)
    earlier = np.empty(len(labels), np.intp)  # of the same label
    earlier[by_label] = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.argsort(earlier, kind="stable")


def make_probes(
    forest: Forest,
    n_rows: int,
    *,
    rows: NDArray[Any] | None = None,
    special: bool = True,
    integers: bool = False,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Return rows that find mistakes: most cells are thresholds of their feature, or the floats next to them.

    Other cells come from `rows`, where there are some. With `special`, some are NaN, infinite, signed zeros, denormals
    or huge. The cells of categories are those of sets, the numbers next to them, and some that no set has. The result
    is float32, of shape (n_rows, n_features); with `integers`, every value is a 16-bit integer.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        probes = np.zeros((n_rows, forest.n_features), np.float32)
        if rows is not None and len(rows):
            probes = rows[rng.integers(0, len(rows), n_rows)].astype(np.float32)
        inner = ~forest.is_leaf
        for feature in np.unique(forest.feature[inner]):
            nodes = inner & (forest.feature == feature)
            thresholds = forest.threshold[nodes & (forest.category_set < 0)].astype(np.float32)
            thresholds = np.concatenate([thresholds[np.isfinite(thresholds)], _categories_of(forest, nodes)])
            if not len(thresholds):
                continue
            picked = rng.choice(thresholds, n_rows)
            near = np.stack(
                [np.nextafter(picked, np.float32(-np.inf)), picked, np.nextafter(picked, np.float32(np.inf))]
            )
            cells = near[rng.integers(0, 3, n_rows), np.arange(n_rows)]
            probes[:, feature] = np.where(rng.random(n_rows) < _THRESHOLD_SHARE, cells, probes[:, feature])
    if integers:
        special = False
        with np.errstate(invalid="ignore"):
            probes = np.clip(np.rint(np.nan_to_num(probes)) + rng.integers(-1, 2, probes.shape), -(2**15), 2**15 - 1)
        probes[rng.random(probes.shape) < _SPECIAL_SHARE] = rng.choice([-(2**15), 2**15 - 1, 0])
        probes = probes.astype(np.float32)
    if special:
        odd = rng.random(probes.shape) < _SPECIAL_SHARE
        probes[odd] = rng.choice(_SPECIAL, int(odd.sum()))
    elif not np.isfinite(probes).all():
        probes = np.nan_to_num(probes)
    return probes


def _categories_of(forest: Forest, nodes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return numbers around the categories that some nodes look for, fractions among them."""
    sets = np.unique(forest.category_set[nodes & (forest.category_set >= 0)])
    if not len(sets):
        return np.empty(0, np.float32)
    n_bits = 32 * int((forest.category_offset[sets + 1] - forest.category_offset[sets]).max())
    categories = np.concatenate([np.arange(min(n_bits, 512)), [n_bits - 1, n_bits, n_bits + 100, -1]])
    return np.concatenate([categories, categories + 0.5, [-0.5, 40000, 2.0**24]]).astype(np.float32)


MIN_AGREEMENT = 0.999

FORMAT = 1
_MAX_NAME_LENGTH = 20  # NAME_quantize must differ from other names in the 31 characters that a C99 linker compares
_NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*", re.ASCII)  # C++ reserves double underscores
# Words of C and C++; standard headers, which a file of that name would replace; device names of Windows.
_RESERVED = re.compile(
    r"""auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register|
    restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|asm|bool|catch|
    class|delete|export|false|friend|mutable|namespace|new|operator|private|protected|public|template|this|throw|true|
    try|typename|using|virtual|main|assert|complex|ctype|errno|fenv|inttypes|iso646|limits|locale|math|setjmp|signal|
    stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|wchar|wctype|aux|con|nul|prn|com[0-9]|lpt[0-9]""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model in one layout.

    Attributes
    ----------
    lowered : Lowered
    source : CSource
    sizes : Sizes
    agreement : float64 array or None
        Share of rows with the source's label after 0, 1, … steps (for a regressor, see `measure_agreement`); None if
        no rows were given.
    kept : Kept or None
        How well the source's promise is kept; None if that was not measured, see `measure_kept`.
    max_error : float or None
        Of a regressor: the largest difference to the source's value.
    """

    lowered: Lowered
    source: CSource
    sizes: Sizes
    agreement: NDArray[np.float64] | None
    kept: Kept | None = None
    max_error: float | None = None

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.lowered.layout

    @property
    def least_agreement(self) -> float:
        """Agreement after the worst number of steps, from one step on; 1 if it is not known.

        Before the first step all rows have the same answer, that of the roots. Where two classes are about equally
        frequent there, rounding changes it for all rows or for none, and says nothing about the layout.
        """
        if self.agreement is None:
            return 1.0
        return float((self.agreement[1:] if len(self.agreement) > 1 else self.agreement).min())

    @property
    def faith(self) -> tuple[float, float]:
        """How true to the source the layout is: larger is better. A promise counts more than the agreement."""
        return (0.0 if self.kept is None else -self.kept.excess, self.least_agreement)

    @property
    def preference(self) -> tuple[bool, int, int]:
        """Sorts layouts that agree equally well: larger is better.

        Tables are preferred to code; then 16-bit numbers, as 8 bits can change one early answer in twenty; then small
        size.
        """
        width = {16: 2, 32: 1, 8: 0}[self.layout.value_bits]
        return not self.layout.if_else, width, -self.sizes.flash_bytes


def list_candidates(
    pred: Predictor, name: str, layout: str, rows: NDArray[Any] | None, inputs: str = "float32"
) -> list[Candidate]:
    """Return the model in the layout of this name, or with "auto" in every layout that fits it."""
    check_choice("layout", layout, ["auto", *LAYOUTS])
    found: list[Candidate] = []
    errors = []
    for option in LAYOUTS.values() if layout == "auto" else [LAYOUTS[layout]]:
        if found and option.if_else and not found[0].lowered.is_anytime:
            continue  # only anytime plans become code; the user did not ask for it, so this is no error
        if layout == "auto" and inputs == "int16" and option.float_thresholds:
            continue  # integers need none of its floats
        try:
            lowered = lower(pred, option, inputs)
            source = CSource(lowered, name, pred.forest)
        except InputError as error:
            errors.append(error)
            continue
        agreement = None if rows is None else measure_agreement(pred, lowered, rows)
        kept = None if rows is None else measure_kept(pred, lowered, rows)
        max_error = None if rows is None else measure_error(pred, lowered, rows)
        found.append(
            Candidate(lowered, source, estimate_sizes(lowered, source.table_bytes), agreement, kept, max_error)
        )
    if not found:
        raise errors[0]
    return found


def choose(options: list[Candidate], flash_budget: int | None, way_out: str = "", inputs: str = "float32") -> Candidate:
    """Return the option that fits `flash_budget` bytes and is most faithful: first to the promise, then to all answers.

    Without a budget, return the smallest option that keeps the promise and whose agreement is high enough, or the
    smallest of the most faithful. If none fits, the error has a `way_out` too, and counts `inputs` as they are here.
    """
    if flash_budget is not None:
        fitting = [option for option in options if option.sizes.flash_bytes <= flash_budget]
        if not fitting:
            least = min(option.sizes.flash_bytes for option in options)
            size_of = "scurry.export.flash_bytes"
            if inputs != "float32":
                size_of = f'functools.partial({size_of}, inputs="{inputs}")'
            raise InfeasibleError(
                f"the model needs {least:,} bytes of flash, the budget is {flash_budget:,}; {way_out}make the forest "
                f"smaller with scurry.compress(…, max_bytes={flash_budget}, size_of={size_of}), or "
                "train fewer or shallower trees"
                + ("" if len(options) > 1 else ', or leave the choice to layout="auto"'),
                achievable=float(least),
            )
        return max(fitting, key=lambda option: (*option.faith, *option.preference))
    if options[0].agreement is None:
        return max(options, key=lambda option: option.preference)
    good = [option for option in options if option.faith >= (0.0, MIN_AGREEMENT)]
    if not good:
        return max(options, key=lambda option: (*option.faith, -option.sizes.flash_bytes))
    return min(good, key=lambda option: option.sizes.flash_bytes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Export:
    """What was written; print it.

    Attributes
    ----------
    directory : Path
    name, layout, inputs : str
    sizes : Sizes
    agreement : float64 array or None
        Share of calibration rows with the source's label after 0, 1, … steps. For a regressor, 1 minus the mean
        squared difference to the source's values divided by their variance.
    kept : float or None
        Share of calibration rows on which the C keeps the source's promise; of a promise with several parts, such as
        classes, that of the part kept worst. The promise itself was certified for the source. That the C rounds
        numbers is outside of it. None if that was not measured; the README says why.
    keeps_promise : bool or None
        Whether that is the share promised, or that of the source on the same rows. None if it was not measured.
    max_error : float or None
        Of a regressor: the largest difference to the source's value on the calibration rows.
    candidates : list of Candidate
        All layouts that were compared, the chosen one first.
    """

    directory: Path
    name: str
    layout: str
    inputs: str
    sizes: Sizes
    agreement: NDArray[np.float64] | None
    max_error: float | None
    candidates: list[Candidate]

    @property
    def kept(self) -> float | None:
        """Share of calibration rows on which the C keeps the source's promise."""
        kept = self.candidates[0].kept
        return None if kept is None else kept.share

    @property
    def keeps_promise(self) -> bool | None:
        """Whether that is the share promised, or that of the source on the same rows."""
        kept = self.candidates[0].kept
        return None if kept is None else kept.is_enough

    def __str__(self) -> str:
        head = f"{'layout':<14}{'flash, B':>10}{'RAM, B':>8}{'instr./step':>13}{'agreement: least':>18}{'last':>11}"
        lines = [f"{self.directory / self.name}.c, layout {self.layout}", head]
        for candidate in self.candidates:
            sizes, shares = candidate.sizes, candidate.agreement
            known = ["not measured", ""]
            if shares is not None:
                known = [in_percent(candidate.least_agreement), in_percent(shares[-1])]
            lines.append(
                f"{candidate.layout.name:<14}{sizes.flash_bytes:>10,}{sizes.ram_bytes:>8,}"
                f"{sizes.instructions_per_step:>13.1f}{known[0]:>18}{known[1]:>11}"
            )
        if (kept := self.candidates[0].kept) is not None:
            verdict = "" if kept.is_enough else f": THE PROMISE IS BROKEN, promised are {in_percent(1 - kept.max_rate)}"
            lines.append(f"{in_percent(kept.share)} of the rows of X_cal keep the promise{verdict}")
            lines.append("(its certificate is the source's, and does not cover rounding)")
        if self.max_error is not None:
            lines.append(f"on X_cal, values differ by at most {self.max_error:.3g} from the source's")
        sizes = self.sizes
        m0 = "" if sizes.max_cycles_m0 is None else f" ({sizes.max_cycles_m0:,} on a Cortex-M0)"
        lines.append(f"slowest row: {sizes.max_tests:,} node tests, {sizes.max_cycles:,} cycles on a Cortex-M4{m0}")
        return "\n".join(lines)

    __repr__ = __str__


def to_c(
    pred: Any,
    directory: str | PathLike[str],
    *,
    name: str = "model",
    layout: str = "auto",
    inputs: str = "float32",
    X_cal: Any = None,
    flash_budget: int | None = None,
) -> Export:
    """Write a predictor, forest or model as C99 that needs no library and allocates nothing.

    Parameters
    ----------
    pred : Predictor, Forest or model
        An interrupt can read, and stop, an anytime predictor at any moment. A predictor with early exit stops by
        itself. A forest, pruned or not, evaluates every tree, and so does whatever `scurry.from_model` reads. An
        interrupt can stop both between two trees. The value of a regressor is a fixed-point number, times
        ``2**NAME_FRACTION_BITS``.
    directory : str or path
        Created if it does not exist. Gets ``NAME.h``, ``NAME.c``, ``NAME_selftest.h``, ``README.md``, and for `verify`
        ``NAME.scurry`` and ``NAME.json``.
    name : str, default "model"
        Name of the files, and prefix of all identifiers.
    layout : {"auto", "float32", "int16-uint16", "int16-uint8", "int16-node8", "breadcrumb", "shared16", "shared8"}
        How thresholds, and the numbers that nodes add, are stored. "float32" has thresholds as the source compares them
        and 32-bit numbers; the others have 16-bit thresholds and no floating point at all. "int16-node8" keeps an 8-bit
        number in the node; "breadcrumb" turns an anytime plan into if-else code. "shared16" and "shared8" answer as
        "int16-uint16" and "int16-uint8" do and take fewer bytes, but a few instructions more for each step: nodes share
        thresholds, and leaves share values. "auto" takes the smallest layout that keeps
        the source's promise on `X_cal` and answers 99.9 % of it as the source does after every step; with a
        `flash_budget`, of those within it the one that breaks the promise least, and then that with the best
        agreement. Before the first step all rows have one answer, which is left out of the comparison.
    inputs : {"float32", "int16"}
        What a feature is in C. Rows of "int16" have whole numbers from -32768 to 32767 and no missing values; nodes
        compare them as they are, and every test is exactly the source's.
    X_cal : array, DataFrame or sparse matrix of shape (n_rows, n_features), optional
        Rows to measure the agreement on, and whether the promise is kept.
    flash_budget : int, optional
        Largest number of bytes of tables and code.

    Returns
    -------
    Export
        Sizes, instructions per step and agreement; the README has them too.

    Warns
    -----
    ScurryWarning
        If the layout breaks the source's promise on `X_cal`, if there are only layouts, within `flash_budget`, that
        answer less than 99.9 % of it as the source does, or if the source promises something and there is no `X_cal`.

    Examples
    --------
    >>> import scurry, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X[:300], y[:300])
    >>> anyt = scurry.anytime(model, X[300:], y[300:])
    >>> folder = tempfile.mkdtemp()
    >>> export = scurry.export.to_c(anyt, folder, layout="int16-uint16", X_cal=X)
    >>> export.sizes.flash_bytes < 3000 and bool(export.agreement.min() > 0.99)
    True
    """
    check_name(name)
    if not isinstance(pred, Predictor):
        pred = Predictor.full(read_forest(pred, X_cal))
    pred = _spell_out(pred)
    if flash_budget is not None:
        check_number("flash_budget", flash_budget, above=0)
    check_choice("inputs", inputs, INPUTS)
    rows = None if X_cal is None else as_rows(pred.forest, X_cal)
    if rows is not None and inputs == "int16":
        check_integers(rows, "X_cal")
    if rows is not None and len(rows) == 0:
        raise InputError("X_cal has no rows; pass rows like those to come, or leave it out", argument="X_cal")
    # Thresholds next to zero underflow, as they should. Some packages make numpy raise an error at that.
    with np.errstate(under="ignore"):
        options = list_candidates(pred, name, layout, rows, inputs)
        try:
            chosen = choose(options, flash_budget, inputs=inputs)
        except InfeasibleError:
            chosen = choose(options, flash_budget, _measure_without_plan(pred, name, inputs), inputs)
        if (fault := _find_fault(pred, chosen, options, flash_budget)) is not None:
            warnings.warn(fault, ScurryWarning, stacklevel=2)
        options.sort(key=lambda option: option is not chosen)
        export = Export(
            directory=Path(directory),
            name=name,
            layout=chosen.layout.name,
            inputs=inputs,
            sizes=chosen.sizes,
            agreement=chosen.agreement,
            max_error=chosen.max_error,
            candidates=options,
        )
        _write(export, pred, chosen, rows)
    return export


def flash_bytes(pred: Any, *, layout: str = "auto", inputs: str = "float32") -> int:
    """Return how many bytes of flash the C of a model takes, without writing it.

    With ``scurry.compress(model, X_cal, max_bytes=…, size_of=scurry.export.flash_bytes)`` a model becomes small enough
    for a microcontroller.

    Parameters
    ----------
    pred, layout, inputs
        See `to_c`. "auto" is the layout that `to_c` takes without rows to measure on.

    Returns
    -------
    int

    Examples
    --------
    >>> import scurry
    >>> from functools import partial
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(15, random_state=0).fit(X[:300], y[:300])
    >>> small = scurry.compress(
    ...     model, X[300:], y[300:], max_bytes=1500, size_of=scurry.export.flash_bytes, X_fit=X[:300])
    >>> scurry.export.flash_bytes(small) <= 1500 < scurry.export.flash_bytes(model)
    True
    """
    check_choice("inputs", inputs, INPUTS)
    if not isinstance(pred, Predictor):
        pred = Predictor.full(read_forest(pred, None))
    with np.errstate(under="ignore"):
        return choose(list_candidates(_spell_out(pred), "model", layout, None, inputs), None).sizes.flash_bytes


def _spell_out(pred: Predictor) -> Predictor:
    """Return the predictor of a forest that needs nobody to make missing values of low numbers before."""
    raw = pred.forest.raw_rows
    if raw is None or not raw.missing_upto:
        return pred
    from scurry.importers.pipelines.pieces import spell_out

    if pred.plan.by_step:
        raise InputError(
            "an order of steps cannot be exported for this pipeline, whose function makes missing values of low "
            "numbers: its trees grow by nodes that test for them. Export the forest, or an early exit",
            argument="pred",
        )
    return Predictor(spell_out(pred.forest), pred.plan)


def _measure_without_plan(pred: Predictor, name: str, inputs: str) -> str:
    """Return what leaving the plan away saves, as the beginning of an advice; nothing if there is no plan."""
    if pred.plan.stop is None:
        return ""
    whole = list_candidates(Predictor.full(pred.forest), name, "auto", None, inputs)
    least = min(option.sizes.flash_bytes for option in whole)
    return f"all trees without the plan need {least:,} (export scurry.Predictor.full(forest) or the model itself); "


def _find_fault(pred: Predictor, chosen: Candidate, options: list[Candidate], flash_budget: int | None) -> str | None:
    """Return what to warn of, and what to do about it."""
    promise = find_promise(pred)
    if chosen.agreement is None and promise is not None and promise.confidence is not None:
        return (
            f"whether the C in layout {chosen.layout.name!r} keeps what the predictor promises was not measured: "
            'pass rows like those to come as X_cal, by which layout="auto" chooses'
        )
    if chosen.kept is not None and not chosen.kept.is_enough:
        keeping = [option for option in options if option.kept is not None and option.kept.is_enough]
        if keeping:
            best = min(keeping, key=lambda option: option.sizes.flash_bytes)
            way_out = f"layout {best.layout.name!r} keeps it and needs {best.sizes.flash_bytes:,} bytes of flash"
        elif len(options) == 1:
            way_out = 'layout="auto" looks for a layout that keeps it; the closest to the source is "float32"'
        else:
            way_out = "no layout of this plan keeps it; export the forest without it, or plan with a wider promise"
        return (
            f"the C in layout {chosen.layout.name!r} breaks the promise on X_cal. {chosen.kept.describe()} "
            f"What helps: {way_out}"
        )
    if chosen.least_agreement >= MIN_AGREEMENT or (flash_budget is None and len(options) == 1):
        return None  # or the layout was named
    if flash_budget is None:
        return (
            f"no layout agrees with the source on {in_percent(MIN_AGREEMENT)} of X_cal; the best, "
            f"{chosen.layout.name!r}, does on {in_percent(chosen.least_agreement)} at its worst step. Check that these "
            "answers are good enough; rows whose best two classes are about equal change most"
        )
    better = [option for option in options if option.least_agreement > chosen.least_agreement]
    way_out = "make the model smaller (scurry.compress), or check that these answers are good enough"
    if better:
        best = max(better, key=lambda option: (option.least_agreement, -option.sizes.flash_bytes))
        way_out = (
            f"layout {best.layout.name!r} agrees to {in_percent(best.least_agreement)} and needs "
            f"{best.sizes.flash_bytes:,} bytes; or {way_out}"
        )
    return (
        f"within {flash_budget:,} bytes the best layout, {chosen.layout.name!r}, agrees with the source only to "
        f"{in_percent(chosen.least_agreement)} at its worst step: {way_out}"
    )


def _write(export: Export, pred: Predictor, chosen: Candidate, rows: NDArray[Any] | None) -> None:
    folder, name = export.directory, export.name
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; to_c needs a directory to write to", argument="directory")
    shares = None if export.agreement is None else export.agreement.tolist()
    manifest = {
        "format": FORMAT,
        "name": name,
        "layout": export.layout,
        "inputs": export.inputs,
        "digest": pred.forest.digest,
        "scurry": read_version(),
        "agreement": shares,
        "max_error": export.max_error,
        "kept": export.kept,
        "keeps_promise": export.keeps_promise,
    } | asdict(export.sizes)
    # All texts are made before the first is written, so that an error leaves no part of a model behind.
    texts = {
        f"{name}.h": chosen.source.header,
        f"{name}.c": chosen.source.source,
        f"{name}_selftest.h": make_selftest(chosen.lowered, pred.forest, name, rows),
        f"{name}.json": json.dumps(manifest, indent=2) + "\n",
        "README.md": make_readme(name, chosen, pred),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    pred.save(folder / f"{name}.scurry")


def check_name(name: object) -> str:
    """Return `name` if C files and identifiers can be made of it; raise otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
        raise InputError(
            f"name must begin with a letter and have at most {_MAX_NAME_LENGTH} letters, digits and single underscores "
            f"between them, got {name!r}; for example 'model'",
            argument="name",
        )
    if _RESERVED.fullmatch(name):
        raise InputError(
            f"name must not be a word of C or C++, a standard header or a device, got {name!r}; try 'my_{name}'",
            argument="name",
        )
    return name


_N_SHOWN = 21


def make_readme(name: str, chosen: Candidate, pred: Predictor) -> str:
    """Return the text of the README."""
    forest = pred.forest
    lowered, sizes = chosen.lowered, chosen.sizes
    draw, is_integer, answer = ", draw" if lowered.takes_draw else "", lowered.columns.is_integer, name_answer(forest)
    bits = ", each as the bits of a single precision number (copy them with memcpy)"
    lines = [
        f"# {name}",
        "",
        f"{lowered.n_trees} trees, {lowered.n_nodes:,} nodes, layout `{lowered.layout.name}`. Written by scurry as C99 "
        "that includes only `<stdint.h>`.",
        "",
        "| on a Cortex-M4 | |",
        "|---|---|",
        f"| flash: tables | {sizes.table_bytes:,} bytes |",
        f"| flash: tables and code (estimated) | {sizes.flash_bytes:,} bytes |",
        f"| RAM: one state and one row | {sizes.ram_bytes:,} bytes |",
        f"| instructions per step (estimated) | {sizes.instructions_per_step:.1f} |",
        f"| node tests of a row, at most | {sizes.max_tests:,} |",
        f"| instructions of a row, at most | {sizes.max_instructions:,} |",
        f"| cycles of a row, at most | {sizes.max_cycles:,} |",
        *([f"| the same on a Cortex-M0 | {sizes.max_cycles_m0:,} |"] if sizes.max_cycles_m0 is not None else []),
        "",
        "Cycles are those of the slowest row, from its first call to its answer, on a Cortex-M4 unless it says "
        "otherwise: estimated from above for code that GCC 12 makes at -O2, in memory without wait states. Another "
        "compiler makes other code, and each wait of the flash adds to every instruction.",
        "",
        *_describe_agreement(chosen, "the compressed forest's" if _compression(pred) else "the source's"),
        *_describe_compression(pred),
        *_describe_promise(chosen, pred),
        "## Use",
        "",
        "```c",
        f'#include "{name}.h"',
        "",
        f"{name}_raw row[{name.upper()}_N_FEATURES];",
        *([] if is_integer else [f"{name}_input x[{name.upper()}_N_COLUMNS];"]),
        f"{name}_state state;",
        "volatile uint8_t stop = 0;",
        *(["uint16_t draw; /* a random number, a new one for each row */"] if draw else []),
        "",
        *([] if is_integer else [f"{name}_quantize(row, x);"]),
        f"{name}_init(&state{draw});",
        f"{name}_run(&state, {'row' if is_integer else 'x'}, &stop);",
        f"{'uint16_t label' if forest.is_classifier else 'int32_t value'} = {name}_{answer}(&state);",
        "```",
        "",
        f"`row` has {forest.n_features} features, in the order of the model"
        f"{', as 16-bit integers' if is_integer else bits if lowered.columns.is_quantised else ''}.",
    ]
    if not forest.is_classifier:
        what = "value" if answer == "predict" else f"score, whose function ({forest.link}) is the prediction,"
        lines.append(f"The {what} is multiplied by 2^{lowered.values.fraction_bits} (`{name.upper()}_FRACTION_BITS`).")
    if not lowered.is_anytime:
        lines.append(
            f"An interrupt may set `stop`: `{name}_run` returns after the tree it is at, and `{name}_{answer}` answers "
            "by the trees so far. Called again, it continues."
        )
    if lowered.is_anytime:
        where = "each run of steps in one tree" if chosen.layout.if_else else "each step"
        lines.append(
            f"An interrupt may call `{name}_{answer}(&state)` at any moment. `{name}_run` returns once `stop` is not "
            f"0; it checks before {where}. The target must store {lowered.index_bits} bits at once."
        )
    lines += [
        f"`{name}_selftest.h` has rows and labels to test on the target. `scurry.export.verify` compiles all files on "
        "the host, compares all answers with these tables, and the tables with the source model.",
        "",
    ]
    if forest.classes is not None:
        cells = (f"| {k} | {_format_cell(label)} |" for k, label in enumerate(forest.classes))
        lines += ["| label | class |", "|---|---|", *cells, ""]
    for feature, values in sorted(forest.categories.items()):
        if len(values):
            codes = (f"| {code} | {_format_cell(value)} |" for code, value in enumerate(values))
            lines += [f"| `row[{feature}]` | category |", "|---|---|", *codes, ""]
    if forest.feature_names is not None:
        names = (f"| {j} | {_format_cell(feature)} |" for j, feature in enumerate(forest.feature_names))
        lines += ["| `row[…]` | feature |", "|---|---|", *names, ""]
    return "\n".join(lines)


def _describe_agreement(chosen: Candidate, whose: str) -> list[str]:
    shares = chosen.agreement
    if shares is None:
        return ["The agreement with the source model was not measured: no calibration rows were given.", ""]
    if chosen.max_error is not None:
        return [
            f"On the calibration rows its values differ by at most {chosen.max_error:.3g} from {whose}. The mean "
            f"squared difference is {1 - shares[-1]:.2g} of the variance of these values"
            + (f", and at most {1 - shares.min():.2g} after fewer steps." if len(shares) > 1 else "."),
            "",
        ]
    if len(shares) == 1:
        return [f"It gives {in_percent(shares[0])} of the calibration rows {whose} label.", ""]
    if shares.min() == 1:
        return [f"After every number of steps it gives all calibration rows {whose} label.", ""]
    # An order has hundreds of steps: show evenly spaced ones, and always the worst.
    worst = 1 + int(shares[1:].argmin())
    shown = np.unique(np.append(np.linspace(0, len(shares) - 1, _N_SHOWN).astype(np.int64), worst))
    return [
        f"Share of calibration rows with {whose} label (at worst {in_percent(shares[worst])}, from the first step "
        "on; before it, all rows have one answer, that of the roots):",
        "",
        "| after steps | agreement |",
        "|---|---|",
        *(f"| {n_steps} | {in_percent(shares[n_steps])} |" for n_steps in shown),
        "",
    ]


def _compression(pred: Predictor) -> SizeMeasurement | None:
    """Return what was measured where `scurry.compress` made the forest, which then is the source of the C."""
    measured = None if pred.certificate is None else pred.certificate.measured
    return measured if isinstance(measured, SizeMeasurement) else None


def _describe_compression(pred: Predictor) -> list[str]:
    measured = _compression(pred)
    if measured is None or pred.certificate is None:
        return []
    changed = (
        ""
        if not pred.forest.is_classifier
        else (f" It gave {in_percent(measured.changed)} of its calibration rows another label than the model's.")
    )
    return [
        "The C was compared with the compressed forest, not with the model that scurry.compress made it of. How far "
        f"these two are apart is told by the compression's own certificate: {pred.certificate.statement()}{changed} "
        "What the C changes comes on top.",
        "",
    ]


def _describe_promise(chosen: Candidate, pred: Predictor) -> list[str]:
    promise = find_promise(pred)
    if promise is None or pred.certificate is None:
        return []
    if chosen.kept is not None:
        kept = chosen.kept.describe() + ("" if chosen.kept.is_enough else " **The promise is broken here.**")
    elif chosen.agreement is None:
        kept = "On which share of rows it does so was not measured: no calibration rows were given."
    elif promise.NEEDS_LABELS:
        kept = (
            "On which share of rows it does so was not measured: that takes their true labels, which to_c is not given."
        )
    elif not promise.IS_ABOUT_CLASSES:
        kept = "The C answers with labels alone, and the promise is not about these."
    else:
        kept = "On which share of rows it does so was not measured: no calibration row is of a kind that it is about."
    return [
        "## What is promised",
        "",
        f"{pred.certificate.statement()} This was certified for the predictor that was exported. The C stores numbers "
        f"in fewer bits, and what that changes is outside the certificate. {kept}",
        "",
    ]


def _format_cell(label: object) -> str:
    """Return any text as code that cannot break out of its table cell."""
    text = json.dumps(str(label)).replace("|", "\\u007c").replace("`", "\\u0060").replace("<", "\\u003c")
    return f"`{text}`"
