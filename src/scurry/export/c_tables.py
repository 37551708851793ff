"""Tables: constant arrays as C, each in the narrowest type that holds it, and how many bytes they take."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError

_BYTES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4}
_LINE = 112
# Narrow types first, then signed 32 bits: what is compared with a signed sum must not be unsigned and as wide.
_RANGES = {
    "uint8_t": (0, 2**8 - 1),
    "int8_t": (-(2**7), 2**7 - 1),
    "uint16_t": (0, 2**16 - 1),
    "int16_t": (-(2**15), 2**15 - 1),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
}


def integer_type(*values: Any) -> str:
    """The narrowest C type that holds all of `values`; raises rather than wrap."""
    low = min(int(np.min(v, initial=0)) for v in values)
    high = max(int(np.max(v, initial=0)) for v in values)
    for ctype, (least, most) in _RANGES.items():
        if least <= low and high <= most:
            return ctype
    raise InputError(f"numbers from {low} to {high} do not fit the 32 bits the C export has; use a smaller model")


def float_literal(value: float) -> str:
    """A finite float32 as C; nine digits bring back the same number."""
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def comment_text(value: object) -> str:
    """Any text such that it stays inside a C comment and on its line."""
    return json.dumps(str(value)).replace("/", "\\u002f").replace("?", "\\u003f").replace("*", "\\u002a")


class Tables:
    """The constant arrays of one source file."""

    def __init__(self) -> None:
        self._declarations: list[str] = []
        self.n_bytes = 0

    def array(self, name: str, values: NDArray[Any], ctype: str | None = None) -> None:
        """Add an array of one or two dimensions; an empty one has a single 0, as C has none that are empty."""
        values = np.asarray(values) if np.size(values) else np.zeros(1, np.int64)
        ctype = ctype or integer_type(values)
        literal = float_literal if ctype == "float" else _integer_literal
        sizes = "".join(f"[{n}]" for n in values.shape)
        rows = [[literal(v) for v in row] for row in np.atleast_2d(values)]
        items = [f"{{ {', '.join(row)} }}" for row in rows] if values.ndim == 2 else rows[0]
        self._add(f"static const {ctype} {name}{sizes}", items, values.size * _BYTES[ctype])

    def structs(self, name: str, fields: dict[str, tuple[str, NDArray[Any]]]) -> None:
        """Add an array of structs; `fields` (wide ones first, so that none is padded inside) have types and values."""
        members = "".join(f" {ctype} {field};" for field, (ctype, _) in fields.items())
        columns = [
            [float_literal(v) if ctype == "float" else _integer_literal(v) for v in values]
            for ctype, values in fields.values()
        ]
        items = [f"{{{','.join(row)}}}" for row in zip(*columns, strict=True)]
        sizes = [_BYTES[ctype] for ctype, _ in fields.values()]
        padded = -(-sum(sizes) // max(sizes)) * max(sizes)
        self._declarations.append(f"struct {name[:-1]} {{{members} }};")
        self._add(f"static const struct {name[:-1]} {name}[{len(items)}]", items, padded * len(items))

    def _add(self, declaration: str, items: Iterable[str], n_bytes: int) -> None:
        lines, line = [], "   "
        for item in items:
            if len(line) + len(item) > _LINE:
                lines.append(line)
                line = "   "
            line += f" {item},"
        self._declarations.append("\n".join([f"{declaration} = {{", *lines, line, "};"]))
        self.n_bytes += n_bytes

    def __str__(self) -> str:
        return "\n".join(self._declarations)


def _integer_literal(value: Any) -> str:
    number = int(value)
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)
