"""The history of the shell, as IPython alone would write it.

`%save`, `%macro`, `In[n]` and `%history -t` take the code that was run. In a program that they make of it a top-level
`await` is a syntax error, and the mark of an awaited line (`awaiting.MARK`) is nothing that anybody wants to read.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.awaiting import MARK, is_ours

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["PlainHistory", "without_awaits"]

_BEFORE = b"(await "
_MARKED = f"{MARK!r} + ".encode()


def without_awaits(source: str) -> str:
    r"""Take back what `AwaitMagics` has written into a cell.

    >>> without_awaits(r"r = (await get_ipython().run_line_magic('mcp', '\x00' + 'tools'))")
    "r = get_ipython().run_line_magic('mcp', 'tools')"
    """
    if _MARKED.decode() not in source:
        return source
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    lines = [line.encode() for line in source.split("\n")]  # offsets of ast count bytes, and only \n ends a line
    calls = [node.value for node in ast.walk(tree) if isinstance(node, ast.Await) and is_ours(node.value)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset), reverse=True):
        _unwrap(lines, call)
    return b"\n".join(lines).decode()


def _unwrap(lines: list[bytes], call: Any) -> None:
    """Remove what stands around a call and before its line, from the end, so that earlier offsets stay valid."""
    argument = call.args[1]
    pieces = [
        (call.end_lineno, call.end_col_offset, b")"),
        (argument.lineno, argument.col_offset, _MARKED),
        (call.lineno, call.col_offset - len(_BEFORE), _BEFORE),
    ]
    if not all(lines[line - 1][at:].startswith(text) for line, at, text in pieces if at >= 0):
        return  # an await that the person wrote
    for line, at, text in pieces:
        lines[line - 1] = lines[line - 1][:at] + lines[line - 1][at + len(text) :]


class PlainHistory:
    """Follows what a shell puts into its history.

    Args:
        shell: The shell; one without a history is left alone.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._manager: Any = shell.history_manager

    def install(self) -> None:
        """Keep our awaits out of it from now on."""
        if self._manager is not None:
            self._manager.store_inputs = self._store

    def uninstall(self) -> None:
        """Leave it to IPython again."""
        vars(self._manager or self).pop("store_inputs", None)

    def _store(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        raw = source if source_raw is None else source_raw
        type(self._manager).store_inputs(self._manager, line_num, without_awaits(source), raw)
