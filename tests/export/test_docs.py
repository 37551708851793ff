"""The how-to's Python runs, and its C compiles."""

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_the_page_does_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert "tumour.c, layout" in shown
    assert names["export"].agreement.min() >= 0.999
    (example,) = blocks("c")
    (tmp_path / "use.c").write_text(example)
    flags = ["-std=c99", "-Wall", "-Werror", "-pedantic", "-Wno-unused-but-set-variable"]
    subprocess.run(["gcc", *flags, "-Ifirmware", "-c", "use.c"], cwd=tmp_path, check=True)
