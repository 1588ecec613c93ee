"""What a docstring says of a function and of its arguments."""

from __future__ import annotations

import re

__all__ = ["read_docstring"]

_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_ARGUMENT = re.compile(r"^\s+(\*{0,2}\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    r"""Return what a docstring says of a function, and of its arguments (Google style).

    >>> read_docstring("Adds.\n\nArgs:\n    a: One.\n    b (int): The\n        other.\n\nReturns:\n    It.")
    ('Adds.\n\nReturns:\n    It.', {'a': 'One.', 'b': 'The other.'})
    """
    kept: list[str] = []
    arguments: dict[str, str] = {}
    inside, last = False, ""
    for line in text.splitlines():
        if _SECTION.match(line):
            inside, last = True, ""
        elif inside and line and not line[0].isspace():
            inside = False
        if not inside:
            kept.append(line)
        elif (found := _ARGUMENT.match(line)) and len(line) - len(line.lstrip()) <= 4:
            last = found[1].lstrip("*")
            arguments[last] = found[2].strip()
        elif last and line.strip():
            arguments[last] = f"{arguments[last]} {line.strip()}".strip()
    return "\n".join(kept).strip(), arguments
