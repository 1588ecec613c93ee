"""The functions of the package that a piece of work enters: the walks that are to stay short."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import mcp_magic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["modules", "walk"]

PACKAGE = str(Path(mcp_magic.__file__).parent) + "/"


@contextmanager
def walk() -> Iterator[list[tuple[str, str]]]:
    """Give a list that gets the module and the name of each function that starts."""
    entries: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename
        # a coroutine that goes on after it waited is a call for Python too; how often one waits depends on the machine
        if event == "call" and file.startswith(PACKAGE) and code.co_code[frame.f_lasti + 1] & 3 == 0:
            entries.append((file.removeprefix(PACKAGE), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entries
    finally:
        sys.setprofile(before)


def modules(entries: list[tuple[str, str]]) -> set[str]:
    """Return the modules of a walk."""
    return {module for module, _ in entries}
