import re
import subprocess

import numpy as np
import pytest

import scurry
from scurry.errors import InputError
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.c.source import CSource, Tables, choose_type, escape_comment, format_number, make_identifiers
from scurry.export.lowered import lower
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest


@pytest.mark.parametrize(
    ("values", "ctype"),
    [
        ([0, 255], "uint8_t"),
        ([-1, 127], "int8_t"),
        ([-1, 128], "int16_t"),
        ([256], "uint16_t"),
        ([65536], "int32_t"),
        ([-(2**31), 2**31 - 1], "int32_t"),
        ([2**31], "uint32_t"),
        ([], "uint8_t"),
    ],
)
def test_the_narrowest_type(values, ctype):
    assert choose_type(np.array(values, np.int64)) == ctype


def test_numbers_that_no_type_holds():
    with pytest.raises(InputError, match="32 bits"):
        choose_type(np.array([-1, 2**31]))


def test_floats_are_read_back_exactly():
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint32)
    numbers = [x for x in bits.view(np.float32) if np.isfinite(x)]
    for x in [*numbers, np.float32(1), np.float32(-0.0), np.finfo(np.float32).max]:
        text = format_number(x, "float")
        assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text)
        assert np.float32(text[:-1]).tobytes() == np.float32(x).tobytes()
    assert format_number(-(2**31), "int32_t") == "(-2147483647 - 1)"


def test_bytes_of_tables_are_what_a_compiler_says(tmp_path):
    tables = Tables()
    tables.add_array("empty", np.empty(0))
    tables.add_array("wide", np.array([[1, -300], [2, 3]]))
    tables.add_array("floats", np.array([0.5, -1e-45]), "float")
    fields = {"a": ("int16_t", np.arange(3)), "b": ("uint8_t", np.arange(3))}
    tables.add_structs("nodes", fields)
    size = "sizeof empty + sizeof wide + sizeof floats + sizeof nodes"
    code = f"#include <stdint.h>\n{tables}\nchar same[{size} == {tables.n_bytes} ? 1 : -1];\n"
    (tmp_path / "tables.c").write_text(code)
    subprocess.run(["cc", "-std=c99", "-c", "tables.c"], cwd=tmp_path, check=True)


def test_comments_cannot_be_left():
    for text in ("*/", "/*", "//", "??/\n", "a\nb", "é"):
        escaped = escape_comment(text)
        assert not set(escaped) & set("*/?\n")
        assert escaped.isascii()


def test_one_function_for_each_run(anyt):
    lowered = lower(anyt, LAYOUTS["breadcrumb"])
    source = CSource(lowered, "model", anyt.forest).source
    assert len(re.findall(r"static void run_\d+\(", source)) == len(lowered.runs)
    assert source.count("switch") == sum(first > 0 for _, first, _ in lowered.runs)


def test_adverse_class_labels(tmp_path):
    labels = ["*/ int x = 1; /*", "// ??/\n#error", 'a"b\\', "|`<b>"]
    forest = complete_forest(3, 3, 4, 4, classes=np.array(labels))
    pred = anytime_of(forest)
    to_c(pred, tmp_path, layout="int16-uint16")
    assert verify(tmp_path, np.zeros((1, 4)), n_adversarial=20)
    assert "#error" not in re.sub(r"/\*.*?\*/", "", (tmp_path / "model.h").read_text(), flags=re.DOTALL)
    assert "<b>" not in (tmp_path / "README.md").read_text()


def test_names_of_classes_and_features_are_constants(tmp_path):
    classes = np.array(["sits still", "walks", "walks!"])
    forest = complete_forest(3, 3, 4, 3, classes=classes).replace(feature_names=["x", "heart rate", "x ", "int"])
    to_c(forest, tmp_path, name="posture", layout="int16-uint16")
    checks = {
        "POSTURE_CLASS_SITS_STILL": 0,
        "POSTURE_CLASS_WALKS_2": 2,
        "POSTURE_FEATURE_HEART_RATE": 1,
        "POSTURE_FEATURE_X_2": 2,
        "POSTURE_FEATURE_INT": 3,
        "POSTURE_MAX_TESTS": 9,
        "sizeof POSTURE_DIGEST": 65,
    }
    code = "".join(f"char c{k}[({name}) == {value} ? 1 : -1];\n" for k, (name, value) in enumerate(checks.items()))
    (tmp_path / "names.c").write_text(f'#include "posture.h"\n{code}')
    subprocess.run(["cc", "-std=c99", "-c", "names.c"], cwd=tmp_path, check=True)
    header = (tmp_path / "posture.h").read_text()
    assert f'#define POSTURE_DIGEST "{forest.digest}"' in header
    assert f'#define POSTURE_SCURRY "{scurry.__version__}"' in header


def test_identifiers_are_different_words():
    names = ["", "", "1", 1, "é", "a b", "a-b", "A_B", "a_b_6", "x" * 80, "x" * 81, True, None, -1]
    words = make_identifiers(names)
    assert len(set(words)) == len(words) == len(names)
    assert all(re.fullmatch("[A-Z0-9_]{1,50}", word) for word in words)


def test_a_function_of_the_score_is_not_called_a_prediction(tmp_path):
    forest = complete_forest(3, 3, 4, 1).replace(aggregation="sum", link="exp")
    to_c(forest, tmp_path, layout="int16-uint16", X_cal=np.zeros((2, 4)))
    header = (tmp_path / "model.h").read_text()
    assert "int32_t model_score(const model_state *state);" in header
    assert "model_predict" not in header
    assert verify(tmp_path, np.zeros((1, 4)), n_adversarial=50)
