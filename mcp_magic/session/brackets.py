"""The open brackets of JSON that comes in parts: where they are closed, it may be whole."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)  # to its end, or to that of the text
_OTHERS = re.compile(r"[^{}\[\]]+")


class OpenBrackets:
    r"""Counts the brackets that are open outside of strings, in steps that grow with the text alone.

    >>> brackets = OpenBrackets()
    >>> [brackets.add(part) for part in ('{"a": "[{', '\\', '"[", "b"', ": [1", "]}")]
    [1, 1, 1, 2, 0]
    >>> brackets.is_in_string
    False
    """

    def __init__(self) -> None:
        self.is_in_string = False
        self._depth = 0
        self._escape = ""  # a backslash at the end of a part

    def add(self, part: str) -> int:
        """Add a part; return how many brackets are open after it."""
        text = '"' * self.is_in_string + self._escape + part
        self._escape = "\\" * ((len(text) - len(text.rstrip("\\"))) % 2)
        text = text.removesuffix(self._escape)
        self.is_in_string = False
        bare = _OTHERS.sub("", _STRING.sub(self._end, text))
        self._depth += 2 * (bare.count("{") + bare.count("[")) - len(bare)
        return self._depth

    def _end(self, string: re.Match[str]) -> str:
        self.is_in_string = not string[1]
        return ""
