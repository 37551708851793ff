"""Which module of a package imports which, read from the source without running it.

A module is known by its dotted name; the ``__init__.py`` of a folder has the name of the folder. An edge leads from the
importing module to the imported one and is counted once for each pair. ``from scurry.x import Y`` leads to the module
``scurry.x.Y`` if there is one, and to ``scurry.x`` otherwise. Native modules, known by their stubs, are no part of it.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

Kind = Literal["load", "lazy", "type"]
Edges = dict[tuple[str, str], Kind]
# If a pair is imported in several ways, the strongest one counts.
_STRENGTH = {"type": 0, "lazy": 1, "load": 2}


def find_modules(package: Path) -> dict[str, Path]:
    """Return the path of each module below the folder `package`, by dotted name."""
    return {_dotted_name(path, package.parent): path for path in sorted(package.rglob("*.py"))}


def find_edges(package: Path) -> Edges:
    """Return how each module imports others: when it is loaded, inside a function, or for type checkers only."""
    modules = find_modules(package)
    # Without them, `from scurry import _core` would count as an import of the package's __init__.
    native = {_dotted_name(path, package.parent) for path in package.rglob("*.pyi")} - modules.keys()
    edges: Edges = {}
    for importer, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        folder = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for statement, kind in _imports(tree, "load"):
            for imported in _targets(statement, folder, modules.keys() | native):
                known = edges.get((importer, imported))
                if imported not in {importer, *native} and (known is None or _STRENGTH[kind] > _STRENGTH[known]):
                    edges[importer, imported] = kind
    return edges


def find_load_order(edges: Edges) -> set[tuple[str, str]]:
    """Return the pairs of which the first needs the second while it is loaded.

    They are the edges of kind "load", and those that Python adds: before it loads a module, it loads the
    ``__init__.py`` of every folder above. Whether a cycle through such a folder breaks depends on which module a
    program imports first. The topmost package is left out: nothing is loaded before it.
    """
    pairs = {pair for pair, kind in edges.items() if kind == "load"}
    for importer, imported in list(pairs):
        parts = imported.split(".")
        folders = {".".join(parts[:length]) for length in range(2, len(parts))}
        # Whoever runs inside a folder has loaded its __init__.py, or is being loaded by it.
        pairs |= {(importer, folder) for folder in folders if not f"{importer}.".startswith(f"{folder}.")}
    return pairs


def find_cycles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    successors: dict[str, list[str]] = {}
    for importer, imported in edges:
        successors.setdefault(importer, []).append(imported)
        successors.setdefault(imported, [])
    reachable = {name: _reach(name, successors) for name in successors}
    groups = {frozenset(other for other in reachable[name] if name in reachable[other]) for name in successors}
    return sorted(sorted(group) for group in groups if group)


def find_single_importers(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the modules that exactly one other module imports, with that module."""
    pairs = list(edges)
    counts = Counter(imported for _, imported in pairs)
    return {imported: importer for importer, imported in pairs if counts[imported] == 1}


def _dotted_name(path: Path, top: Path) -> str:
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        elif isinstance(child, ast.Call) and ast.unparse(child.func).endswith("import_module"):
            # An import in disguise, where the name is written out.
            names = [part.value for part in child.args[:1] if isinstance(part, ast.Constant)]
            yield ast.Import([ast.alias(str(name)) for name in names]), kind
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(child, "type" if kind == "type" else "lazy")
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from _imports(ast.Module(child.body, []), "type")
            yield from _imports(ast.Module(child.orelse, []), kind)
        else:
            yield from _imports(child, kind)


def _targets(statement: ast.Import | ast.ImportFrom, folder: str, modules: set[str]) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in modules)
        return
    # One dot is the folder itself, each further dot is one folder up.
    base = folder.rsplit(".", statement.level - 1)[0] if statement.level else ""
    source = ".".join(filter(None, (base, statement.module)))
    for alias in statement.names:
        submodule = f"{source}.{alias.name}"
        if submodule in modules:
            yield submodule
        elif source in modules:
            yield source


def _reach(start: str, successors: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(successors[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(successors[name])
    return found
