"""Disassembled kernels: how many instructions of each function work on whole registers.

A compiler may take vectors apart and work on their elements one by one, ten times as slow and unnoticed. So every
function of the tables in core/kernels is looked up in the object files, with the functions that it calls.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "core" / "kernels"
LEVELS = ("portable", "avx2", "avx512", "neon")  # neon: the portable kernels of a cross build for aarch64

_OBJDUMP = {"neon": "aarch64-linux-gnu-objdump"}
_REGISTER = {"portable": r"%xmm", "avx2": r"%ymm", "avx512": r"%zmm", "neon": r"\bv\d+\.(?:16b|8h|4s|2d)\b"}
_X86_WORK = (
    r"v?(?:p(?:add|sub|cmp|and|or|xor|min|max|mul|sll|srl|sra|unpck|pack|shuf|blend|tern|test|movmsk|gather|erm|compress)\w*"
    r"|(?:add|sub|mul|div|min|max|and|andn|or|xor|sqrt)p[sd]|cmp\w*p[sd]|blend\w*|unpck\w*|perm\w*|movmskp[sd]"
    r"|shufp[sd]|cvt(?!\w*s[sdi]2|\w*2s[sdi])\w*)"
)
_NEON_WORK = (
    r"[us]?(?:add|sub|mul|mla|min|max|abs)\w*|f(?:add|sub|mul|div|neg|abs|cvt|min|max|cm)\w*|cm(?:gt|ge|eq|hi|hs|lt|le|tst)"
    r"|and|orr|eor|bic|orn|bs[li]|bi[ft]|[us]?shr|[us]?shl\w*|[us]?xtl\w*|xtn\w*|uzp[12]|zip[12]|trn[12]|tbl|ext|not|mvn"
    r"|[us]cvtf|rev\w*|addp|sli|sri|usra|ssra"
)
_WORK = {level: re.compile(_NEON_WORK if level == "neon" else _X86_WORK) for level in LEVELS}
_COMPARES = re.compile(
    r"v?pcmp(?:eq|gt|u|)[bwdq]?|v?pcmp(?!i|e?str)\w+|v?cmp\w*p[sd]|v?ptestn?m\w|v?p(?:min|max)\w+|[fc]m\w+|[us](?:min|max)"
)
_ALONE = {
    level: re.compile(
        r"[us]?mov [wx]\d+, v\d+\.[bhsd]\[.*|cset .*"
        if level == "neon"
        else r"v?p(?:ins|ext)r[bwdq] .*|set\w+ .*|v?u?comis[sd] .*"
    )
    for level in LEVELS
}


@dataclass
class Function:
    """What the instructions of one function are, and which functions of the same file it names."""

    n_instructions: int = 0
    n_whole: int = 0  # that compute with whole registers
    n_compared: int = 0  # of these, comparisons
    n_alone: int = 0  # that compare one element, or move it between a vector and a general register
    names: set[str] = field(default_factory=set)


def disassemble(path: Path, level: str) -> dict[str, Function]:
    """Return the functions of an object file by their full names."""
    command = [_OBJDUMP.get(level, "objdump"), "-drwC", "--no-show-raw-insn", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions: dict[str, Function] = defaultdict(Function)
    register = re.compile(_REGISTER[level])
    current = Function()
    for line in listing.splitlines():
        if start := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            current = functions[start[1]]
        elif read := re.match(r"\s*[0-9a-f]+:\t(\S+)\s*(.*)", line):
            operation, operands = read[1], read[2]
            current.names.update(re.findall(r"<(.*?)(?:\+0x[0-9a-f]+)?>$", operands))
            current.names.update(re.findall(r"R_\w+\s+(.*?)(?:[-+]0x[0-9a-f]+)?$", operands))
            current.n_instructions += 1
            # Comparing a register with itself is how it is filled with ones.
            ones = re.fullmatch(r"v?pcmpeq\w (%\wmm\d+),\1(,%\wmm\d+)?", f"{operation} {operands.strip()}")
            is_whole = not ones and bool(_WORK[level].fullmatch(operation) and register.search(operands))
            current.n_whole += is_whole
            current.n_compared += is_whole and bool(_COMPARES.fullmatch(operation))
            current.n_alone += bool(_ALONE[level].fullmatch(f"{operation} {operands}"))
    return dict(functions)


def entries_of(name: str) -> list[str]:
    """Return the functions that a file of core/kernels puts into its tables, such as "walk_tree" or "encode<float>"."""
    source = (KERNELS / f"{name}.cc").read_text(encoding="utf-8")
    listed: list[str] = []
    for table in re.findall(r"^(?:const|constexpr) \w+Kernels(?:<\w+>)? k\w+ = \{(.*?)\};", source, re.S | re.M):
        words = [word.strip() for word in table.split(",")]
        listed += [word.removesuffix("<Node>") for word in words if not re.match(r"k[A-Z]", word)]
    return listed


def work_of(functions: dict[str, Function], entry: str) -> Function | None:
    """Return what the instructions of a table's function and of those it calls are, or None if there is no such one."""
    wanted = re.compile(r"(?:.*[ :])?" + re.escape(entry) + (r"(?:<.*)?\(.*" if "<" not in entry else r"\(.*"))
    waiting = [name for name in functions if wanted.fullmatch(name)]
    seen = set(waiting)
    while waiting:
        for called in functions[waiting.pop()].names & functions.keys() - seen:
            seen.add(called)
            waiting.append(called)
    if not seen:
        return None
    found = [functions[name] for name in seen]
    return Function(
        sum(one.n_instructions for one in found),
        sum(one.n_whole for one in found),
        sum(one.n_compared for one in found),
        sum(one.n_alone for one in found),
    )
