"""The text of exported models, whatever their tables hold."""

import re
import subprocess

import pytest

from scurry.export import LAYOUTS, to_c
from scurry.export.c import text as c_text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_stdint_is_included_and_quantised_layouts_have_no_float(anyt, layout, tmp_path):
    to_c(anyt, tmp_path, layout=layout)
    for file in ("model.h", "model.c", "model_selftest.h"):
        text = (tmp_path / file).read_text()
        assert set(re.findall(r"#include (.*)", text)) <= {"<stdint.h>", '"model.h"'}
        assert not re.search(r"\b(malloc|calloc|free|memcpy|double)\b", text)
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        assert ("float" in code) == (layout == "float32")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("optimise", ["-O0", "-O3"])
def test_strict_compilers_accept_it_and_nothing_is_called(anyt, layout, optimise, tmp_path):
    to_c(anyt, tmp_path, layout=layout)
    warnings = [
        "all",
        "extra",
        "pedantic",
        "error",
        "conversion",
        "sign-conversion",
        "shadow",
        "cast-qual",
        "cast-align",
    ]
    warnings += ["strict-prototypes", "missing-prototypes", "undef", "float-equal", "double-promotion"]
    command = ["gcc", "-std=c99", optimise, *(f"-W{warning}" for warning in warnings)]
    subprocess.run([*command, "-ffreestanding", "-c", "model.c", "-o", "model.o"], cwd=tmp_path, check=True)
    undefined = subprocess.run(["nm", "-u", "model.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert set(undefined.split()) <= {"U", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
    as_cpp = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function", "-fsyntax-only", "-x", "c++"]
    subprocess.run([*as_cpp, "model_selftest.h"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("layout", ["int16-uint16", "breadcrumb"])
def test_names_of_the_code_itself(anyt, layout, tmp_path):
    """A name as prefix must not make one of the identifiers that every exported model has."""
    to_c(anyt, tmp_path, layout=layout)
    text = (tmp_path / "model.h").read_text() + (tmp_path / "model_selftest.h").read_text()
    endings = set(re.findall(r"\bmodel(_[a-z]+)\b", text))
    assert {"_init", "_run", "_state", "_step", "_selftest"} <= endings
    own = set(re.findall(r"\b[a-z][a-z_]*\b", (tmp_path / "model.c").read_text())) - {"uint8_t", "uint16_t"}
    assert not [word for word in own if not word.startswith("model_") and any(map(word.endswith, endings))]


def test_every_gap_is_filled(anyt, tmp_path):
    texts = {name: text for name, text in vars(c_text).items() if name.isupper()}
    assert len(texts) > 10
    assert any("$" in text for text in texts.values())
    for pred in (anyt, anyt.forest):
        to_c(pred, tmp_path, layout="int16-uint16")
        for file in ("model.h", "model.c", "model_selftest.h"):
            assert "$" not in (tmp_path / file).read_text()
