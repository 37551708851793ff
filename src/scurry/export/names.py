"""Names: which may become identifiers and file names of an exported model."""

from __future__ import annotations

import re

from scurry.errors import InputError

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
