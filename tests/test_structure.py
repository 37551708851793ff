"""Imports point one way: each layer knows those before it and none of those after it."""

from pathlib import Path

from support.import_graph import find_cycles, find_edges, find_load_order, find_modules, find_single_importers

PACKAGE = Path(__file__).parents[1] / "src" / "scurry"
LAYERS = (
    {"errors", "formatting", "version"},
    {"checks", "skops"},
    {"forest", "costs"},
    {"importers", "plan", "promises"},
    {"stopping", "orders"},
    {"runners"},
    {"predictor"},
    {"cascades", "pruning", "compression", "evaluation", "timing"},
    {"verbs", "monitoring"},
    {"estimators", "growing", "display", "report", "export", "batch", "distributed", "serving", "datasets"},
    {"scurry"},  # the public names, which the command line calls
    {"cli"},
    {"__main__"},
)
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}


def noun_of(module: str) -> str:
    """Return the folder or top-level module that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def test_every_folder_has_a_layer():
    assert {noun_of(module) for module in find_modules(PACKAGE)} <= LAYER_OF.keys()


def test_imports_point_one_way():
    edges = find_edges(PACKAGE)
    upward = {(a, b) for a, b in edges if LAYER_OF[noun_of(b)] > LAYER_OF[noun_of(a)]}
    assert not upward


def test_nothing_imports_itself_through_others():
    edges = find_edges(PACKAGE)
    assert not find_cycles(find_load_order(edges))
    assert not find_cycles(edges)


def test_every_module_has_a_test_file_of_its_name():
    tests = Path(__file__).parent
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__")]
    missing = [path for path in modules if not (tests / path.parent / f"test_{path.name}").exists()]
    assert not missing


class TestImportGraph:
    """The graph itself, on a package made for it."""

    @staticmethod
    def write(folder, **modules):
        package = folder / "toy"
        for name, text in modules.items():
            path = package / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for inner in [package, *(path for path in package.rglob("*") if path.is_dir())]:
            (inner / "__init__.py").touch()
        (package / "native.pyi").touch()
        return package

    def test_edges_lead_to_modules_and_know_when_they_are_needed(self, tmp_path):
        package = self.write(
            tmp_path,
            base="",
            inner__one="from toy import base, native\nfrom . import two\nfrom .two import name\nimport os",
            inner__two="def call():\n    from ..base import thing\n    import toy.late",
            late="if TYPE_CHECKING:\n    from toy.inner.one import One\nelse:\n    import toy.base",
            disguised="import importlib\nimportlib.import_module('toy.base')\nfrom toy.inner import unknown",
        )
        assert find_edges(package) == {
            ("toy.inner.one", "toy.base"): "load",
            ("toy.inner.one", "toy.inner.two"): "load",
            ("toy.inner.two", "toy.base"): "lazy",
            ("toy.inner.two", "toy.late"): "lazy",
            ("toy.late", "toy.inner.one"): "type",
            ("toy.late", "toy.base"): "load",
            ("toy.disguised", "toy.base"): "load",
            ("toy.disguised", "toy.inner"): "load",
        }

    def test_the_strongest_import_of_a_pair_counts(self, tmp_path):
        package = self.write(tmp_path, base="", user="def call():\n    import toy.base\nfrom toy import base")
        assert find_edges(package) == {("toy.user", "toy.base"): "load"}

    def test_folders_are_loaded_before_their_modules(self):
        edges = {("toy.a", "toy.inner.one"): "load", ("toy.inner.one", "toy.inner.two"): "load"}
        assert find_load_order(edges) == {*edges, ("toy.a", "toy.inner")}
        # Importing toy.a first runs toy/inner/__init__.py, which needs toy.a.
        assert find_cycles(find_load_order({**edges, ("toy.inner", "toy.a"): "load"})) == [["toy.a", "toy.inner"]]

    def test_cycles_and_single_importers(self):
        pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("d", "e"), ("e", "e")]
        assert find_cycles(pairs) == [["a", "b", "c"], ["e"]]
        assert find_single_importers([("a", "b"), ("c", "b"), ("a", "d")]) == {"d": "a"}
