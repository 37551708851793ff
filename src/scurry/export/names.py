"""Names: which may become identifiers and file names of an exported model."""

from __future__ import annotations

import re

from scurry.errors import InputError

_LONGEST = 20  # so that NAME_quantize differs from others in the 31 characters a C99 linker must tell apart
_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
# Words of C and C++, and standard headers: a file of that name would be included in their place.
_RESERVED = re.compile(
    r"""auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register|
    restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|asm|bool|catch|
    class|delete|export|false|friend|mutable|namespace|new|operator|private|protected|public|template|this|throw|true|
    try|typename|using|virtual|main|assert|complex|ctype|errno|fenv|inttypes|iso646|limits|locale|math|setjmp|signal|
    stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|wchar|wctype""",
    re.IGNORECASE | re.VERBOSE,
)


def check_name(name: object) -> str:
    """`name` if C files and identifiers can be made of it; raises otherwise."""
    if not isinstance(name, str) or not _PATTERN.fullmatch(name) or len(name) > _LONGEST or "__" in name:
        raise InputError(
            f"name must be a C identifier of at most {_LONGEST} letters, digits and single underscores that begins "
            f"with a letter, got {name!r}; for example 'model'"
        )
    if _RESERVED.fullmatch(name):
        raise InputError(f"name must not be a word of C or C++ or a standard header, got {name!r}; try 'my_{name}'")
    return name
