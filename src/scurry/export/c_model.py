"""`to_c`: a predictor or a forest as C for microcontrollers.

Names: which may become identifiers and file names of an exported model.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_number
from scurry.errors import InputError
from scurry.export.candidates import Candidate, Sizes, candidates, choose
from scurry.export.readme import readme
from scurry.export.replay import in_percent
from scurry.export.selftest import selftest_header
from scurry.forest import Forest
from scurry.forest.rows import as_rows
from scurry.plan import Plan
from scurry.predictor import Predictor

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Export:
    """What was written; print it.

    Attributes
    ----------
    directory : Path
    name, layout : str
    sizes : Sizes
    agreement : float64 array or None
        The share of calibration rows with the source's label after 0, 1, … steps.
    candidates : list of Candidate
        All layouts that were looked at, the chosen one first.
    """

    directory: Path
    name: str
    layout: str
    sizes: Sizes
    agreement: NDArray[np.float64] | None
    candidates: list[Candidate]

    def __str__(self) -> str:
        head = f"{'layout':<14}{'flash, B':>10}{'RAM, B':>8}{'instr./step':>13}{'agreement: least':>18}{'last':>11}"
        lines = [f"{self.directory / self.name}.c, layout {self.layout}", head]
        for candidate in self.candidates:
            sizes, shares = candidate.sizes, candidate.agreement
            known = ["not measured", ""] if shares is None else [in_percent(shares.min()), in_percent(shares[-1])]
            lines.append(
                f"{candidate.layout.name:<14}{sizes.flash_bytes:>10,}{sizes.ram_bytes:>8,}"
                f"{sizes.instructions_per_step:>13.1f}{known[0]:>18}{known[1]:>11}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def to_c(
    pred: Predictor | Forest,
    directory: str | PathLike[str],
    *,
    name: str = "model",
    layout: str = "auto",
    X_cal: Any = None,
    flash_budget: int | None = None,
) -> Export:
    """Write a predictor or forest as C99 that needs no library and allocates nothing.

    Parameters
    ----------
    pred : Predictor or Forest
        An anytime predictor can be asked, and stopped, by an interrupt at any moment; a predictor with early exit stops
        by itself; a forest, be it pruned or not, asks every tree.
    directory : str or path
        Made if it is not there. Gets ``NAME.h``, ``NAME.c``, ``NAME_selftest.h``, ``README.md``, and for `verify`
        ``NAME.scurry`` and ``NAME.json``.
    name : str, default "model"
        Of the files, and the prefix of all identifiers.
    layout : {"auto", "float32", "int16-uint16", "int16-uint8", "int16-node8", "breadcrumb"}
        Thresholds, and the numbers that nodes add: "float32" has thresholds as the source compares them and 32-bit
        numbers; the others have 16-bit thresholds and no floating point at all. "int16-node8" keeps an 8-bit number in
        the node; "breadcrumb" makes if-else code of an anytime plan. "auto" takes the layout with the best agreement
        within `flash_budget`, or without one the smallest that answers 99.9 % of `X_cal` as the source at every step.
    X_cal : array or DataFrame of shape (n_rows, n_features), optional
        Rows to measure the agreement on.
    flash_budget : int, optional
        Bytes that tables and code may take.

    Returns
    -------
    Export
        Sizes, instructions per step and agreement; the same is in the README.

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
    if not isinstance(pred, Predictor | Forest):
        raise InputError(
            f"a Predictor or a Forest is exported, got {type(pred).__name__}; make one with scurry.from_model(model), "
            "scurry.anytime or scurry.early_exit"
        )
    if flash_budget is not None:
        check_number("flash_budget", flash_budget, above=0)
    forest = pred.forest if isinstance(pred, Predictor) else pred
    rows = None if X_cal is None else as_rows(forest, X_cal)
    if rows is not None and len(rows) == 0:
        raise InputError("X_cal has no rows; pass rows like those to come, or leave it out")
    options = candidates(pred, name, layout, rows)
    chosen = choose(options, flash_budget)
    options.sort(key=lambda option: option is not chosen)
    export = Export(Path(directory), name, chosen.layout.name, chosen.sizes, chosen.agreement, options)
    _write(export, pred, chosen, rows)
    return export


def _write(export: Export, pred: Predictor | Forest, chosen: Candidate, rows: NDArray[Any] | None) -> None:
    folder, name = export.directory, export.name
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; to_c needs a directory to write to")
    folder.mkdir(parents=True, exist_ok=True)
    forest = pred.forest if isinstance(pred, Predictor) else pred
    shares = None if export.agreement is None else export.agreement.tolist()
    manifest = {"format": FORMAT, "name": name, "layout": export.layout, "agreement": shares} | asdict(export.sizes)
    texts = {
        f"{name}.h": chosen.source.header,
        f"{name}.c": chosen.source.source,
        f"{name}_selftest.h": selftest_header(chosen.lowered, forest, name, rows),
        f"{name}.json": json.dumps(manifest, indent=2) + "\n",
        "README.md": readme(name, chosen, forest),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    full = Plan(order=np.arange(forest.n_trees, dtype=np.int32))
    (pred if isinstance(pred, Predictor) else Predictor(forest, full)).save(folder / f"{name}.scurry")


_LONGEST = 20  # so that NAME_quantize differs from others in the 31 characters a C99 linker must tell apart
_PATTERN = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*", re.ASCII)  # C++ keeps double underscores to itself
# Words of C and C++; standard headers, in whose place a file of that name would be included; devices of Windows.
_RESERVED = re.compile(
    r"""auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register|
    restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|asm|bool|catch|
    class|delete|export|false|friend|mutable|namespace|new|operator|private|protected|public|template|this|throw|true|
    try|typename|using|virtual|main|assert|complex|ctype|errno|fenv|inttypes|iso646|limits|locale|math|setjmp|signal|
    stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|wchar|wctype|aux|con|nul|prn|com[0-9]|lpt[0-9]""",
    re.IGNORECASE | re.VERBOSE,
)


def check_name(name: object) -> str:
    """`name` if C files and identifiers can be made of it; raises otherwise."""
    if not isinstance(name, str) or not _PATTERN.fullmatch(name) or len(name) > _LONGEST:
        raise InputError(
            f"name must be a C identifier of at most {_LONGEST} letters, digits and single underscores between them "
            f"that begins with a letter, got {name!r}; for example 'model'"
        )
    if _RESERVED.fullmatch(name):
        raise InputError(
            f"name must not be a word of C or C++, a standard header or a device, got {name!r}; try 'my_{name}'"
        )
    return name
