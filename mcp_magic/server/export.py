"""Exports a server of the notebook as a standalone program."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pprint
import symtable
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mcp_magic._text import free_name
from mcp_magic.errors import CommandError
from mcp_magic.schema.validate import is_secret
from mcp_magic.server.cell import BASE64, HINTS, ROWS, CellServer, as_rows, giving_rows, read_docstring
from mcp_magic.server.stubs import docstring

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


# The notebook variables that a cell's code uses, turned into code: a program does not have them.

MAX_DATA = 20_000  # longest value, in characters, that is written into a program


class Needs:
    """Collects what code needs from the notebook, in the order in which a module can define it.

    Follows each name that the code uses but does not define: imports are repeated, functions and classes of the
    notebook are copied, secrets are read from the environment, plain data becomes a literal. For any other value it
    raises a CommandError that names it.
    """

    def __init__(self, namespace: Mapping[str, Any], cells: Sequence[str]) -> None:
        self.imports: list[str] = []
        self.definitions: list[str] = []
        self.environment: list[str] = []
        self._namespace = namespace
        self._cells = cells
        self._visited: set[str] = set()

    def follow(self, source: str, names: Iterable[str] = ()) -> None:
        """Collect what `source` needs besides the given names."""
        self._visited |= set(names)
        for name, user in _free(source):
            if name not in self._visited and not hasattr(builtins, name):
                self._visited.add(name)
                self._add(name, user)

    def _add(self, name: str, user: str) -> None:
        if name not in self._namespace:
            raise CommandError(f"%mcp export: {user} uses {name!r}, which the notebook does not define.")
        value = self._namespace[name]
        if isinstance(value, ModuleType):
            self._import(f"import {value.__name__}", name, value.__name__)
        elif (line := _importable(value)) is not None:
            self._import(line, name, line.rpartition(" ")[2])
        elif (code := self._defined(name, value)) is not None:
            self.follow(code)
            self.definitions.append(code)
        elif is_secret(name):
            self.environment.append(name)
            self._visited.add("os")
            self.definitions.append(f'{name} = os.environ["{name}"]')
        else:
            self.definitions.append(_literal(name, value, user))

    def _import(self, line: str, name: str, own: str) -> None:
        self.imports.append(line if own == name else f"{line} as {name}")

    def _defined(self, name: str, value: Any) -> str | None:
        """Return the latest code of a function or class of the notebook, or None if it is neither."""
        if not callable(value) or getattr(value, "__module__", None) != "__main__":
            return None
        for cell in reversed(self._cells):
            try:
                tree = ast.parse(cell)
            except (SyntaxError, ValueError, RecursionError, MemoryError):  # it never ran
                continue
            for node in reversed(tree.body):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                    return _segment(cell, node)
        return None


def _segment(source: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(_lines(source)[first - 1 : node.end_lineno])


def _lines(source: str) -> list[str]:
    """Return the lines of code as Python numbers them."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _free(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names that code uses but does not define, each with the function that uses it."""
    table = symtable.symtable(source, "cell", "exec")
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    yield from ((name, user) for name, user in _globals(table, "the cell") if name not in own)


def _globals(table: symtable.SymbolTable, user: str) -> Iterator[tuple[str, str]]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name(), user
    for child in table.get_children():
        yield from _globals(child, child.get_name() if user == "the cell" else user)


def _importable(value: Any) -> str | None:
    """Return the line that imports a function or class of a package, or None if no import leads to it."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or "." in name:
        return None
    try:
        candidate = getattr(sys.modules.get(module) or importlib.import_module(module), name, None)
    except ImportError:
        return None
    return f"from {module} import {name}" if candidate is value else None


def _literal(name: str, value: Any, user: str) -> str:
    text = pprint.pformat(value, width=100, sort_dicts=False)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        same = False
    if not isinstance(same, bool) or not same:
        kind = type(value).__name__
        raise CommandError(
            f"%mcp export: {user} uses {name!r}, a {kind} of the notebook; make or load it in the cell of the server."
        )
    if len(text) > MAX_DATA:
        raise CommandError(
            f"%mcp export: {user} uses {name!r}, {len(text):,} characters of data; load it from a file in the cell."
        )
    return f"{name} = {text}"


# The program: a server with the same interface.

_MARKS = ("tool", "resource", "prompt")
_HEAD = """\
{name}: an MCP server, written in a notebook.

    python {file}               over stdio
    python {file} --http 8000   streamable HTTP at http://127.0.0.1:8000/mcp
{environment}"""
_TAIL = """

def {main}() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve streamable HTTP on 127.0.0.1 instead of stdio")
    port = parser.parse_args().http
    if port is None:
        {server}.run()
    else:
        {server}.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    {main}()
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def program(server: CellServer, namespace: Mapping[str, Any], cells: Sequence[str], file: str) -> str:
    """Return the code of a program, named `file`, that runs the same server.

    `cells` is the code of the cells that were run, oldest first.

    Raises:
        CommandError: The cell is not plain Python, or needs a notebook variable that cannot be written as code.
    """
    tree = _parsed(server.source)
    needs = Needs(namespace, cells)
    needs.follow(server.source, names=_MARKS)
    tables = any(library in code for code in (server.source, *needs.imports) for library in ("pandas", "polars"))
    used = _names("\n".join([*needs.imports, *needs.definitions, server.source]))
    variable, main = free_name("server", used), free_name("main", used)
    edits = _Edits(server.source, variable, tables=tables)
    future = []
    for node in tree.body:
        if isinstance(node, Function):
            edits.offer(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future.append(ast.unparse(node))
            edits.remove(node)
    body = edits.text().strip("\n")
    options = f", instructions={server.instructions!r}" if server.instructions else ""
    imports = ["import argparse", *(["import os"] if needs.environment else []), *needs.imports, *edits.imports]
    imports.append("from mcp.server.mcpserver import MCPServer")
    ordered = sorted(set(imports), key=lambda line: (line.startswith("from"), line))
    names = f"\nIt reads from the environment: {', '.join(needs.environment)}\n" if needs.environment else ""
    return (
        docstring(_HEAD.format(name=server.name, file=file, environment=names).rstrip())
        + "\n\n"
        + "".join(f"{line}\n" for line in [*future, *ordered])
        + f"\n{variable} = MCPServer({server.name!r}{options})\n"
        + "".join(f"\n{definition}\n" for definition in [*needs.definitions, *edits.definitions])
        + f"\n\n{body}\n{_TAIL.format(server=variable, main=main)}"
    )


def _names(source: str) -> set[str]:
    """Return all names in code."""
    nodes = ast.walk(ast.parse(source))
    return {str(getattr(node, member, "")) for node in nodes for member in ("id", "name", "asname", "arg")}


def _parsed(source: str) -> ast.Module:
    try:
        tree = ast.parse(source)
        compile(tree, "cell", "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        problem = f"line {(error.lineno or 0) + 1} of its cell is not plain Python (a magic, or an await): {error.msg}"
    raise CommandError(f"%mcp export: {problem}")


class _Edits:
    """Edits a cell's code by position, so that the rest stays exactly as written."""

    def __init__(self, source: str, server: str, *, tables: bool) -> None:
        self.imports: set[str] = set()
        self.definitions: list[str] = []
        self._tables = tables
        self._server = server
        self._lines = _lines(source)
        self._replacements: list[tuple[int, int, int, int, str]] = []

    def offer(self, node: Function) -> None:
        """Put the SDK's decorators on a function in place of the cell's."""
        marks = [decorator for decorator in node.decorator_list if _mark(decorator)]
        tool = not any(_mark(mark) != "tool" for mark in marks) and not node.name.startswith("_")
        is_tool = tool or any(_mark(mark) == "tool" for mark in marks)
        rows = "\n@giving_rows" if is_tool and self._gives_rows(node) else ""
        for mark in marks:
            self._replace(mark, self._decorator(mark, node) + (rows if _mark(mark) == "tool" else ""))
        if tool and not marks:
            first = min([node, *node.decorator_list], key=lambda item: item.lineno)
            column = first.col_offset - (first is not node)  # before the @
            self._replacements.append(
                (first.lineno, column, first.lineno, column, f"@{self._decorator(None, node)}{rows}\n")
            )
        if is_tool:
            self._describe(node)

    def _gives_rows(self, node: Function) -> bool:
        """Return whether a function may return DataFrames; if so, change its annotation to rows."""
        code = ROWS.in_code(node.returns) if node.returns is not None else None
        if code is None and (node.returns is not None or not self._tables):
            return False
        if node.returns is not None and code is not None:
            self._replace(node.returns, code)
        self.definitions = [inspect.getsource(giving_rows), inspect.getsource(as_rows)]
        self.imports |= {"import functools", "import inspect", "import json", "from typing import Any"}
        self.imports |= {"from collections.abc import Callable", "from pydantic_core import to_jsonable_python"}
        self.imports.add("from mcp_types import CallToolResult, TextContent")
        return True

    def _decorator(self, mark: ast.expr | None, node: Function) -> str:
        name = _mark(mark) if mark is not None else "tool"
        if name == "resource":
            assert mark is not None
            return f"{self._server}.{ast.unparse(mark)}"
        keywords = list(mark.keywords) if isinstance(mark, ast.Call) else []
        hints = [word for word in keywords if word.arg in HINTS]
        words = [ast.unparse(word) for word in keywords if word not in hints]
        if hints:
            self.imports.add("from mcp_types import ToolAnnotations")
            values = ", ".join(f"{word.arg}_hint={ast.unparse(word.value)}" for word in hints)
            words.append(f"annotations=ToolAnnotations({values})")
        text = ast.get_docstring(node) or ""
        described, arguments = read_docstring(text)
        if name == "tool" and arguments and not any(word.arg == "description" for word in keywords):
            words.append(f"description={described!r}")
        return f"{self._server}.{name}({', '.join(words)})"

    def _describe(self, node: Function) -> None:
        """Copy the docstring's argument descriptions to where pydantic reads them, and make `bytes` base64."""
        described = read_docstring(ast.get_docstring(node) or "")[1]
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if argument.annotation is None:
                continue
            decoded = BASE64.in_code(argument.annotation)
            code = decoded or ast.unparse(argument.annotation)
            if decoded:
                self.imports.add("from pydantic import Base64Bytes")
            if text := described.get(argument.arg):
                self.imports |= {"from typing import Annotated", "from pydantic import Field"}
                code = f"Annotated[{code}, Field(description={text!r})]"
            if decoded or text:
                self._replace(argument.annotation, code)

    def remove(self, node: ast.stmt) -> None:
        """Leave a statement out."""
        after = self._lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset :]
        self._replace(node, "pass" if after.lstrip().startswith(b";") else "")

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        self._replacements.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text))

    def text(self) -> str:
        """Return the edited code."""
        lines = [line.encode() for line in self._lines]  # ast counts bytes
        for first, start, last, end, text in sorted(self._replacements, reverse=True):
            lines[first - 1 : last] = [lines[first - 1][:start] + text.encode() + lines[last - 1][end:]]
        return b"\n".join(lines).decode()


def _mark(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.id if isinstance(function, ast.Name) and function.id in _MARKS else ""
