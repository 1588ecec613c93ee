"""Exceptions of tools and server cells that run in this kernel, for the person who ran the cell.

An answer of a tool is data, so its exception cannot travel in it. A server of the notebook leaves a key in the
answer's `_meta` instead, under which the exception is found here: the cell that called shows the tool's own lines, and
`%debug` stops in them.
"""

from __future__ import annotations

import secrets
import traceback
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import CommandError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["META", "CellCrashError", "ToolCrashError", "recall", "remember"]

META = "mcp-magic/crash"
"""The member of `_meta` that holds the key."""

KEPT = 20
"""Exceptions kept; each holds the frames of its traceback."""

_kept: OrderedDict[str, BaseException] = OrderedDict()


class ToolCrashError(ToolError):
    """A tool that is defined in this notebook raised; `__cause__` is what it raised, with the tool's own frames.

    Attributes:
        show: Returns the lines that a traceback is shown with; the extension sets IPython's.
    """

    show: ClassVar[Callable[[BaseException], list[str]]] = traceback.format_exception

    def traceback_lines(self) -> list[str]:
        """Return the traceback of the cause, and the error."""
        return [*_shown(self.__cause__), *super().traceback_lines()]


class CellCrashError(CommandError):
    """A cell that was to become a server raised; `__cause__` is what it raised, with the cell's own frames."""

    def traceback_lines(self) -> list[str]:
        """Return the traceback of the cause, and the error."""
        return [*_shown(self.__cause__), *super().traceback_lines()]


def _shown(cause: BaseException | None) -> list[str]:
    return ToolCrashError.show(cause) if cause is not None else []


def remember(crash: BaseException) -> dict[str, Any]:
    """Keep an exception; return the `_meta` that leads to it."""
    key = secrets.token_hex(8)  # nothing that another server could guess
    _kept[key] = crash
    if len(_kept) > KEPT:
        _kept.popitem(last=False)
    return {META: key}


def recall(meta: Mapping[str, Any] | None) -> BaseException | None:
    """Return the exception that an answer leads to, or None."""
    key = (meta or {}).get(META)
    return _kept.get(key) if isinstance(key, str) else None
