"""What the code of a cell needs of the notebook around it, written out as code.

A function of a cell sees the notebook's variables; a program has none. So each name that the code uses and does not
define is followed: imports are imported again, functions and classes of the notebook bring their own code, plain data
is written down. What is none of these is an error that names it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import pprint
import symtable
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import CommandError
from mcp_magic.schema import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Needs"]

MAX_DATA = 20_000
"""Characters of a value that is written into a program."""


class Needs:
    """Collects what code needs, in an order in which it can stand in a module.

    Args:
        namespace: The notebook's variables.
        cells: The code of the cells that were run, oldest first.

    Attributes:
        imports: Lines.
        definitions: Values, functions and classes.
        environment: Names of variables that hold a secret: the program reads them from its environment.
    """

    def __init__(self, namespace: Mapping[str, Any], cells: Sequence[str]) -> None:
        self.imports: list[str] = []
        self.definitions: list[str] = []
        self.environment: list[str] = []
        self._namespace = namespace
        self._cells = cells
        self._known: set[str] = set()

    def follow(self, source: str, given: Iterable[str] = ()) -> None:
        """Collect what some code needs.

        Args:
            source: The code.
            given: Names that it finds elsewhere.

        Raises:
            CommandError: It needs something that cannot be written down.
        """
        self._known |= set(given)
        for name, user in _free(source):
            if name not in self._known and not hasattr(builtins, name):
                self._known.add(name)
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
            self._known.add("os")
            self.definitions.append(f'{name} = os.environ["{name}"]')
        else:
            self.definitions.append(_literal(name, value, user))

    def _import(self, line: str, name: str, own: str) -> None:
        self.imports.append(line if own == name else f"{line} as {name}")

    def _defined(self, name: str, value: Any) -> str | None:
        """Return the code of a function or class of the notebook, as it was run last."""
        if not callable(value) or getattr(value, "__module__", None) != "__main__":
            return None
        for cell in reversed(self._cells):
            try:
                tree = ast.parse(cell)
            except SyntaxError:
                continue
            for node in reversed(tree.body):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                    return _segment(cell, node)
        return None


def _segment(source: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(source.split("\n")[first - 1 : node.end_lineno])


def _free(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names that code uses and does not define, each with what uses it."""
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
    """Return the line that imports a function or class of a package, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or "." in name:
        return None
    try:
        found = getattr(sys.modules.get(module) or importlib.import_module(module), name, None)
    except ImportError:
        return None
    return f"from {module} import {name}" if found is value else None


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
