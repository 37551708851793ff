"""Figures about the structure of the source: modules, imports, files on the paths of calls, rule classes, comments.

    python benchmarks/structure.py
    python benchmarks/structure.py --list

Figures with a limit are marked ``ok`` or ``over``. ``--list`` names what is behind each figure.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests"))
from support.import_graph import find_cycles, find_edges, find_load_order, find_modules, find_single_importers  # noqa: E402

PACKAGE = TOP / "src" / "scurry"
RULES = {"CellRule", "ExitRule", "LeaderRule", "SentinelRule", "StepRule", "TopKRule"}
# Where a rule class may be told from another: its own module, what runs it, and what writes it as C.
RULE_PLACES = ("plan/", "runners/", "export/")
# The limit on import edges was computed for the features of commit 32b1528. What serves features that were added later,
# and nothing of then, is left out of the second count of edges: other verbs, promises, frameworks and rules, packed
# files, serving, watching. Modules that serve both are counted with all their imports.
LATER = (
    "cascades",
    "compression",
    "monitoring",
    "serving",
    "skops",
    "estimators.regressors",
    "export.onnx_model",
    "forest.combinations",
    "forest.files.lowered",
    "forest.files.members",
    "forest.front",
    "forest.pairing",
    "forest.precisions",
    "forest.wrappers",
    "importers.catboost",
    "importers.onnx",
    "importers.pipelines",
    "importers.treelite",
    "importers.wrappers",
    "importers.ydf",
    "plan.whole_rows",
    "promises.audit",
    "promises.kinds",
    "pruning.cost_promise",
    "report.watching",
    "runners.acquisition.visit",
    "runners.cells",
    "runners.comparison",
    "runners.receipts",
    "runners.sentinels",
    "stopping.sentinels",
    "stopping.verdict",
    "stopping.votes.answers",
    "stopping.votes.weighted",
    "verbs.cascade",
    "verbs.compress",
    "verbs.planners.by_bounds",
    "verbs.planners.by_class",
    "verbs.planners.by_ranks",
    "verbs.planners.by_values",
    "verbs.planners.score_map",
    "verbs.planners.sentinel_scores",
    "verbs.planners.speed",
    "verbs.training_rows",
    "verbs.watch",
)
# Work of later features inside modules that have served before: what these functions do, and all they call, is left out
# of the second count of the files of `early_exit`, like the modules of `LATER`.
LATER_WORK = {
    "verbs/early_exit.py": {
        "_say_what_is_lost": "whether a rare class loses many of its rows",
    },
    "verbs/options.py": {
        "Calibration._row_summary": "quantiles of the calibration rows, for monitoring",
    },
    "verbs/planners/by_scores.py": {
        "can_refit": "whether estimates at sentinels are possible",
        "try_sentinels": "whether they are tried",
    },
}
_DIRECTIVES = ("noqa", "type:", "fmt:", "pragma:", "ruff:", "mypy:")


class Figure(NamedTuple):
    """One line of the output."""

    name: str
    value: float
    limit: float | None = None
    behind: Sequence[str] = ()


class Source(NamedTuple):
    """A module, read."""

    name: str
    path: Path
    place: str
    text: str
    tree: ast.Module
    private: frozenset[str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="Name what is behind each figure.")
    options = parser.parse_args(arguments)
    sources = _read_sources()
    for part in (_layout(sources), _imports(), _paths(), _rules(sources), _names(sources), _size(sources)):
        for figure in part:
            _print(figure, with_list=options.list)


def _print(figure: Figure, *, with_list: bool) -> None:
    verdict = (
        "" if figure.limit is None else f"limit {figure.limit:g}: {'ok' if figure.value <= figure.limit else 'over'}"
    )
    print(f"{figure.name:52} {figure.value:8,.10g}  {verdict}".rstrip())
    if with_list:
        for line in figure.behind:
            print(f"    {line}")


def _read_sources() -> list[Source]:
    sources = []
    for name, path in find_modules(PACKAGE).items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        place = path.relative_to(PACKAGE).as_posix()
        sources.append(Source(name, path, place, text, tree, frozenset(_find_private_names(tree))))
    return sources


def _layout(sources: list[Source]) -> Iterable[Figure]:
    modules = [source.place for source in sources if not source.place.endswith("__init__.py")]
    loose = [place for place in modules if "/" not in place]
    folders = Counter(place.rpartition("/")[0] for place in modules if "/" in place)
    yield Figure("Python files", len(sources))
    yield Figure("top-level modules", len(loose), 10, loose)
    yield Figure(
        "modules of the largest folder",
        max(folders.values()),
        12,
        [f"{folder}: {n}" for folder, n in folders.most_common()],
    )


def _imports() -> Iterable[Figure]:
    edges = find_edges(PACKAGE)
    kinds = Counter(edges.values())
    files = find_modules(PACKAGE)
    single = {one: by for one, by in find_single_importers(edges).items() if files[one].name != "__init__.py"}
    known = [pair for pair in edges if not any(map(_is_later, pair))]
    later = sorted(module for module in files if _is_later(module))
    yield Figure("import edges", len(edges))
    yield Figure("import edges on the features of 32b1528", len(known), 580, [f"without {one}" for one in later])
    for kind, meaning in (("load", "at load"), ("lazy", "inside functions"), ("type", "for type checkers only")):
        listed = [] if kind == "load" else [f"{a} -> {b}" for (a, b), its in edges.items() if its == kind]
        yield Figure(f"  {meaning}", kinds[kind], None, listed)
    for name, pairs in (("import-time cycles", find_load_order(edges)), ("lazy cycles (all edges)", edges)):
        groups = find_cycles(pairs)
        yield Figure(name, len(groups), 0, [", ".join(group) for group in groups])
    yield Figure("modules with exactly one importer", len(single), 45, [f"{a} <- {b}" for a, b in single.items()])


def _is_later(module: str) -> bool:
    return any(f"{module}.".startswith(f"scurry.{one}.") for one in LATER)


def _paths() -> Iterable[Figure]:
    """Yield how many files are touched by three calls, on a forest and rows that they have not seen before.

    The limit for `early_exit` goes with a model that was imported before: on commit 32b1528 this count gives what the
    limit was derived from (17 files and 78 functions, and the attribute of the package, which is looked up here before
    the call). Of a model that is yet to be imported, the files of `from_model` come on top.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, limit, prepare in (
            ("export.to_c", 17, lambda: _prepare_export(folder)),
            ("path.at(max_cost=)", 7, _prepare_pruning),
            ("early_exit", 13, _prepare_early_exit),
            ("early_exit, with from_model", None, lambda: _prepare_early_exit(is_imported=False)),
        ):
            prepare()()  # imports what is imported at first use, which is not what the call itself touches
            touched, known = _trace(prepare())
            was_extended = name.startswith("early_exit")
            yield Figure(f"files on the path of {name}", len(touched), None if was_extended else limit, touched)
            if was_extended:
                left_out = [f"without {one} (later)" for one in touched if one not in known]
                yield Figure("  on the features of 32b1528", len(known), limit, [*known, *left_out])


def _fit() -> tuple[RandomForestClassifier, Any, Any]:
    X, y = make_classification(1500, n_features=8, random_state=0)
    return RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:500], y[:500]), X[500:], y[500:]


def _prepare_early_exit(*, is_imported: bool = True) -> Callable[[], Any]:
    model, X, _ = _fit()
    given = scurry.from_model(model) if is_imported else model
    verb = scurry.early_exit  # looked up here, because the lookup itself runs code of the package
    return lambda: verb(given, X[:500], X_fit=X[500:], max_disagreement=0.05, random_state=0)


def _prepare_export(folder: str) -> Callable[[], Any]:
    predictor = _prepare_early_exit()()
    to_c = scurry.export.to_c
    return lambda: to_c(predictor, folder, name="model")


def _prepare_pruning() -> Callable[[], Any]:
    model, X, _ = _fit()
    path = scurry.prune(model, X)
    return lambda: path.at(max_cost=float(path.costs.max()) / 2)


def _trace(call: Callable[[], Any]) -> tuple[list[str], list[str]]:
    """Return the files whose functions run in a call, and those of them that run outside the work of later features.

    A frame is the work of a later feature if it, or a frame that called it, belongs to a module of `LATER` or to a
    function of `LATER_WORK`.
    """
    # The package may be installed elsewhere than it is read from here.
    installed = Path(scurry.__file__).resolve().parent
    touched: set[str] = set()
    known: set[str] = set()

    @cache
    def is_later(code: CodeType) -> bool:
        path = Path(code.co_filename)
        if not path.is_relative_to(installed):
            return False
        place = path.relative_to(installed).as_posix()
        return _is_later(_module_of(place)) or code.co_qualname in LATER_WORK.get(place, ())

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        touched.add(frame.f_code.co_filename)
        if frame.f_code.co_filename not in known:
            caller: FrameType | None = frame
            while caller is not None and not is_later(caller.f_code):
                caller = caller.f_back
            if caller is None:
                known.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return _places(touched, installed), _places(known, installed)


def _module_of(place: str) -> str:
    return "scurry." + place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _places(names: set[str], installed: Path) -> list[str]:
    paths = [Path(name).resolve() for name in names]
    return sorted(path.relative_to(installed).as_posix() for path in paths if path.is_relative_to(installed))


def _rules(sources: list[Source]) -> Iterable[Figure]:
    sites, naming = [], []
    for source in sources:
        lines = sorted(node.lineno for node in ast.walk(source.tree) if _tells_rules_apart(node))
        sites += [f"{source.place}:{line}" for line in lines]
        if any(_named(node) & RULES for node in ast.walk(source.tree)):
            naming.append(source.place)
    elsewhere = [site for site in sites if not site.startswith(RULE_PLACES)]
    yield Figure("isinstance and case sites on rule classes", len(sites), 9, sites)
    yield Figure(f"  outside {', '.join(RULE_PLACES)}", len(elsewhere), 0, elsewhere)
    yield Figure("files that name a rule class", len(naming), 10, naming)


def _tells_rules_apart(node: ast.AST) -> bool:
    if isinstance(node, ast.MatchClass):
        return bool(_named(node.cls) & RULES)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "issubclass"}:
        return any(_named(part) & RULES for part in ast.walk(node.args[1]))
    return False


def _named(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.ClassDef(name=name):
            return {name}
        case _:
            return set()


def _names(sources: list[Source]) -> Iterable[Figure]:
    shadowing = []
    for source in sources:
        package, _, last = source.name.rpartition(".")
        value = getattr(importlib.import_module(package), last, None) if package else None
        if value is not None and not isinstance(value, ModuleType):
            shadowing.append(f"{package}.{last} is a {type(value).__name__}")
    yield Figure("functions that shadow their module", len(shadowing), 0, shadowing)
    foreign = [f"{source.place}:{line} {name}" for source in sources for line, name in _foreign_names(source, sources)]
    yield Figure("private names of another package", len(foreign), 0, foreign)


def _foreign_names(source: Source, sources: list[Source]) -> list[tuple[int, str]]:
    """Return where a module uses a name with a leading underscore that only other packages define."""
    own = {name for other in sources if _package(other) == _package(source) for name in other.private}
    known = {name for other in sources for name in other.private}
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scurry"):
            found += [(node.lineno, alias.name) for alias in node.names if alias.name in known - own]
        elif isinstance(node, ast.Attribute) and node.attr in known - own:
            found.append((node.lineno, node.attr))
    return found


def _package(source: Source) -> str:
    return source.place.partition("/")[0]


def _find_private_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Constant(value=str(name)) if (
                name.isidentifier()
            ):  # object.__setattr__(self, "_name", …), __slots__
                names.add(name)
    return {name for name in names if name.startswith("_") and not name.endswith("__") and name.strip("_")}


def _size(sources: list[Source]) -> Iterable[Figure]:
    comments = sum(_count_comments(source.path) for source in sources)
    lines = sum(len(source.text.splitlines()) for source in sources)
    native = [path.read_text(encoding="utf-8").splitlines() for path in (TOP / "core").glob("*/*") if path.is_file()]
    native_lines = sum(map(len, native))
    native_comments = sum("//" in line for text in native for line in text)
    yield Figure("lines of src/", lines)
    yield Figure("lines of core/", native_lines)
    yield Figure("comments per 1,000 lines of src/", round(1000 * comments / lines, 1))
    yield Figure("comments per 1,000 lines of core/", round(1000 * native_comments / native_lines, 1))


def _count_comments(path: Path) -> int:
    with tokenize.open(path) as stream:
        found = [token.string for token in tokenize.generate_tokens(stream.readline) if token.type == tokenize.COMMENT]
    return sum(not text.lstrip("# ").startswith(_DIRECTIVES) for text in found)


if __name__ == "__main__":
    main()
