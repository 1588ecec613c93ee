"""Magics that are awaited by their cell.

A magic that nests an event loop works, but ipykernel delivers no widget message while it runs: an
approval button that is clicked meanwhile is seen only after the magic has timed out. A cell that
awaits gets its messages at once. So, after IPython has turned `%mcp ...` into
`get_ipython().run_line_magic('mcp', '...')`, a transformer rewrites each such call that stands where
a top-level `await` may stand into `(await get_ipython().run_line_magic('mcp', MARK + '...'))`; a magic
whose line has the mark returns an awaitable.

Everything else (inside `def`, `lambda`, comprehensions, `%time`, `%%capture`, plain Python code)
keeps calling the synchronous magic, which nests the loop (`running.run_nested`).
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["MAGICS", "MARK", "AwaitMagics", "is_ours"]

MAGICS = ("mcp", "mcp_agent", "mcp_server")
"""The magics that can be awaited."""

MARK = "\x00"
"""Begins a line that is awaited; nobody can type it."""


class _TopLevelMagics(ast.NodeVisitor):
    """Collects magic calls that a top-level `await` may wrap."""

    def __init__(self) -> None:
        self.calls: list[ast.Call] = []
        self.silent: list[ast.Call] = []

    def _skip(self, node: ast.AST) -> None:
        """Do not descend: an await is not allowed, or means something else, in here."""

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and is_ours(node.value) and _ends_silently(node.value):
            self.silent.append(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if is_ours(node):
            self.calls.append(node)
        self.generic_visit(node)


def is_ours(node: ast.AST) -> bool:
    """Whether a node is a call of one of our magics, as IPython writes it."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic" | "run_cell_magic"
            ),
            args=[ast.Constant(value=str(name)), _, *_],
        ):
            return name in MAGICS
    return False


def _ends_silently(call: ast.Call) -> bool:
    """Whether the line ends with `;`: IPython then shows no value, and looks for it in the code."""
    line = call.args[1]
    return isinstance(line, ast.Constant) and str(line.value).rstrip().endswith(";")


def _inside_a_magic() -> bool:
    """Whether another magic (`%time`, `%%capture`) transforms code that it will run synchronously."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name in ("run_line_magic", "run_cell_magic"):
            return True
        frame = frame.f_back
    return False


class AwaitMagics:
    """An input transformer for `ip.input_transformers_post`.

    Args:
        shell: The shell; with `%autoawait off` nothing is rewritten.
    """

    # IPython tries transformers on incomplete input too; this one has no side effect.
    has_side_effects = False

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Return a cell's lines, its top-level magics awaited."""
        source = "".join(lines)
        if "_magic(" not in source or "mcp" not in source or not self._shell.autoawait or _inside_a_magic():
            return lines
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return lines  # IPython reports it better than we could
        finder = _TopLevelMagics()
        finder.visit(tree)
        return _rewritten(source, finder)


def _rewritten(source: str, found: _TopLevelMagics) -> list[str]:
    # ast offsets count UTF-8 bytes; edits go from the end so that earlier offsets stay valid. The
    # lines are those of ast: only \n ends one, a form feed or U+2028 does not.
    out = [line.encode() + b"\n" for line in source.split("\n")]
    out[-1] = out[-1][:-1]
    for call in sorted(found.calls, key=lambda c: (c.lineno, c.col_offset), reverse=True):
        for line, column, text in _edits(call, b");" if call in found.silent else b")"):
            out[line - 1] = out[line - 1][:column] + text + out[line - 1][column:]
    return [line.decode() for line in out if line]


def _edits(call: ast.Call, closing: bytes) -> list[tuple[Any, Any, bytes]]:
    """Return what to insert: line, byte column, text."""
    line = call.args[1]
    return [
        (call.end_lineno, call.end_col_offset, closing),
        (line.lineno, line.col_offset, f"{MARK!r} + ".encode()),
        (call.lineno, call.col_offset, b"(await "),
    ]
