"""Servers as modules of a program, and a program's code as the code of a cell."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from mcp_magic._text import join_names, plural
from mcp_magic.agent.search import Index, stems, words_of_tool
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.server.stubs import SHORT_HEAD, ShortFunction, short_stubs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcp_types import Tool

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


# Servers as modules.
#
# Names of servers and tools are the servers' choice. A module's name is an ASCII identifier that is no module of
# Python's and no builtin, and no two servers share one. In a thread a server keeps its module, whatever connects later.

INTERFACE = 6_000  # characters of the functions that a model gets in full; of the others only the names
NAMES = 3_000  # characters of those names

_RESERVED = frozenset({*sys.stdlib_module_names, *dir(builtins), "host", "mcp_magic", "tools"})


class Function(NamedTuple):
    """A tool in a module."""

    connection: Connection
    stub: ShortFunction

    @property
    def name(self) -> str:
        """`"server:tool"`."""
        return f"{self.connection.name}:{self.stub.tool.name}"

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tool's arguments for those of a call in a program."""
        names = list(self.stub.parameters)[: self.stub.positional]
        if len(args) > len(names):
            raise ArgumentsError(f"{self.stub.name} takes {plural(len(names), 'arguments')} by position")
        positional = dict(zip(names, args, strict=False))
        if twice := positional.keys() & kwargs.keys():
            raise ArgumentsError(f"{self.stub.name}: {join_names(sorted(twice))} is given twice")
        return {self.stub.parameters.get(name, name): value for name, value in {**positional, **kwargs}.items()}


class Module(NamedTuple):
    """A server as a module."""

    name: str
    server: str
    functions: dict[str, Function]

    @property
    def stub(self) -> str:
        """The code for a type checker."""
        parts = [SHORT_HEAD]
        for function in self.functions.values():
            parts += [*function.stub.classes, function.stub.code]
        return "\n".join(parts)


def modules_of(tools: Iterable[tuple[Connection, Tool]], before: Mapping[str, str] | None = None) -> dict[str, Module]:
    """Return the servers of some tools as modules by name; `before` has the modules that servers have already."""
    servers: dict[str, list[tuple[Connection, Tool]]] = {}
    for connection, tool in tools:
        servers.setdefault(connection.name, []).append((connection, tool))
    names = dict(before or {})
    for server in sorted(servers, key=lambda name: (_module_name(name) != name, name)):
        if server not in names:
            base = name = _module_name(server)
            number = 2
            while name in names.values():
                name, number = f"{base}_{number}", number + 1
            names[server] = name
    modules = {}
    for server, offered in servers.items():
        connection = offered[0][0]
        functions = {
            stub.name: Function(connection, stub) for stub in _stubs_of(connection, [tool for _, tool in offered])
        }
        modules[names[server]] = Module(names[server], server, functions)
    return modules


_stubs: WeakKeyDictionary[Connection, tuple[list[Tool], list[ShortFunction]]] = WeakKeyDictionary()


def _stubs_of(connection: Connection, tools: list[Tool]) -> list[ShortFunction]:
    """Return the functions of a server, made once while its tools stay the same."""
    earlier, stubs = _stubs.get(connection, ([], []))
    if len(earlier) != len(tools) or any(a is not b for a, b in zip(earlier, tools, strict=True)):
        stubs = short_stubs(tools)
        _stubs[connection] = (tools, stubs)
    return stubs


def _module_name(server: str) -> str:
    name = re.sub(r"\W", "_", server, flags=re.ASCII)
    name = f"server{name}" if name.startswith("_") else name
    return f"{name}_server" if name in _RESERVED or keyword.iskeyword(name) else name


def _title(module: Module) -> str:
    """Return the name of a module, and of its server where that is another one, which a model would import."""
    if module.name == module.server:
        return module.name
    reason = f": import {module.name}, because {module.server} is Python's" if module.server in _RESERVED else ""
    return f"{module.name} (the server {module.server}{reason})"


def renamed_hint(problem: str, modules: Mapping[str, Module]) -> str:
    """Return which module is meant, if the problem of a program names one of Python's that is called like a server."""
    quoted = set(re.findall(r"[`']([\w.-]+)[`']", problem))
    hints = []
    for module in modules.values():
        if module.name != module.server and module.server in quoted:
            function = next((name for name in module.functions if name in quoted), "")
            line = f"from {module.name} import {function}" if function else f"import {module.name}"
            hints.append(f"The server {module.server} is the module {module.name}: `{line}`")
    return "\n".join(hints)


def interface(modules: Mapping[str, Module], request: str) -> str:
    """Return what the model reads of the modules: all functions, or where they are many those that fit a request."""
    size = sum(len(function.stub.code) for module in modules.values() for function in module.functions.values())
    fitting: set[tuple[str, str]] = set()
    room = INTERFACE
    for module, name in ranked(modules, request) if size > INTERFACE else ():
        stub = modules[module].functions[name].stub
        room -= len(stub.code) + sum(map(len, stub.classes))
        if room < 0 and fitting:
            break
        fitting.add((module, name))
    parts = []
    for server_module in modules.values():
        lines, names = [f"# module {_title(server_module)}"], []
        for name, function in server_module.functions.items():
            if size <= INTERFACE or (server_module.name, name) in fitting:
                lines += [*function.stub.classes, function.stub.code]
            else:
                names.append(name)
        if names:
            lines.append(one_line(f"# also: {', '.join(names)}", max(NAMES // len(modules), 100)))
        parts.append("\n".join(lines))
    if fitting:
        parts.append('# more functions: `import tools`; `tools.find("words")` returns those that fit, as text')
    return "\n\n".join(parts)


def find(modules: Mapping[str, Module], text: object, most: int = 8) -> str:
    """Return the functions that fit a text best, as code; a program may give anything as the text."""
    if not isinstance(text, str):
        raise TypeError(f"find() takes words, not {type(text).__name__}")
    stubs: dict[str, list[str]] = {}
    for module, name in ranked(modules, text[:500])[:most]:
        stub = modules[module].functions[name].stub
        stubs.setdefault(module, []).extend([*stub.classes, stub.code])
    return "\n\n".join("\n".join([f"# module {module}", *lines]) for module, lines in stubs.items())


def ranked(modules: Mapping[str, Module], text: str) -> list[tuple[str, str]]:
    """Return modules and names of all functions, those first that fit a text best."""
    functions = [(module, name, function) for module in modules.values() for name, function in module.functions.items()]
    scores = Index([words_of_tool(function.stub.tool, module.server) for module, _, function in functions]).scores(
        stems(text)
    )
    order = sorted(range(len(functions)), key=lambda at: -scores.get(at, 0.0))
    return [(functions[at][0].name, functions[at][1]) for at in order]


# What is read of a program's code without running it.

MAX_CODE = 20_000  # characters of a program: as much as a person reads before approving it


TOO_DEEP = "it is nested too deeply"


def parse(code: str) -> ast.Module:
    """Return a program's syntax tree; ArgumentsError if it is none."""
    check_length(code)
    if "\r" in code or "\f" in code:  # at which Python, and nobody else, ends or begins a line
        raise ArgumentsError("SyntaxError: the program has a carriage return or a form feed")
    try:
        return ast.parse(code)
    except SyntaxError as error:
        problem = f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        problem = TOO_DEEP if isinstance(error, RecursionError | MemoryError) else str(error)
    raise ArgumentsError(f"SyntaxError: {problem}")


def check_length(code: str) -> None:
    """Raise ArgumentsError for a program that is too long to be read."""
    if len(code) > MAX_CODE:
        raise ArgumentsError(f"the program has {len(code):,} characters; at most {MAX_CODE:,} are valid")


class Names(ast.NodeVisitor):
    """The names that a program binds at its top level, and its imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.assigned: dict[str, None] = {}  # by assignment
        self.defined: set[str] = set()  # as functions and classes
        self.annotated: set[str] = set()
        self.imports: dict[str, str] = {}  # name -> the statement that imports it
        self.starred: set[str] = set()  # modules from which everything is imported
        try:
            for node in tree.body:
                self.visit(node)
        except RecursionError:
            raise ArgumentsError(f"SyntaxError: {TOO_DEEP}") from None
        inside = (node for node in ast.walk(tree) if isinstance(node, ast.Global))
        self.shared = {name for node in inside for name in node.names}  # by functions that assign them

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Note a definition, without what is inside."""
        self.defined.add(node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node: ast.Return) -> None:
        """Refuse it, as Python does."""
        raise ArgumentsError(f"SyntaxError: line {node.lineno}: 'return' outside function")

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Ignore what is inside."""

    def _comprehension(self, node: Any) -> None:
        """Ignore what is inside: its names are its own."""

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Name(self, node: ast.Name) -> None:
        """Note an assigned name."""
        if isinstance(node.ctx, ast.Store):
            self.assigned[node.id] = None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Note an annotated name."""
        if isinstance(node.target, ast.Name):
            self.annotated.add(node.target.id)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """Note an import."""
        for alias in node.names:
            self.imports[alias.asname or alias.name.partition(".")[0]] = f"import {ast.unparse(alias)}"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note an import."""
        for alias in node.names:
            if alias.name == "*":
                self.starred.add(node.module or "")
            elif not node.level:
                self.imports[alias.asname or alias.name] = f"from {node.module} import {ast.unparse(alias)}"


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the names of all modules that a program imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


# A program as a cell of the notebook.


def server_module(host: Host, server: str) -> SimpleNamespace:
    """Return the tools of a session as functions that return data, as programs of an agent call them."""
    connection = host[server]
    [module] = modules_of((connection, tool) for tool in connection.catalog.cached("tools")).values()

    def function(tool: Function) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await connection.call(tool.stub.tool.name, tool.arguments(args, kwargs))
            return result.text if result.data is None else result.data

        call.__name__, call.__doc__ = tool.stub.name, tool.stub.tool.description
        return call

    return SimpleNamespace(**{name: function(known_function) for name, known_function in module.functions.items()})


UNPROTECTED = "# A model wrote this program. Here it runs in your kernel, without the sandbox: read it first."


def as_cell(programs: Sequence[str], servers: Mapping[str, str]) -> str:
    """Return programs as the code of a cell; `servers` has module -> server."""
    imported = {name for code in programs for name in imported_modules(parse(code))}
    used = [name for name in servers if name in imported]
    head = [UNPROTECTED]
    head += ["from mcp_magic import host", "from mcp_magic.agent.modules import server_module", ""] if used else []
    head += [f"{name} = server_module(host, {servers[name]!r})" for name in used]
    return "\n\n".join(["\n".join(head), *(without_imports(code, servers, "{}") for code in programs)])


def without_imports(code: str, modules: Iterable[str], source: str) -> str:
    """Return a program in which imports of servers are assignments; `source` is the code that a module stands for.

    >>> without_imports("from weather import forecast as f; import json", ["weather"], "{}")
    'f = weather.forecast; import json'
    """
    lines, names = code.split("\n"), set(modules)
    nodes = [node for node in ast.walk(parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(nodes, key=lambda node: (-node.lineno, -node.col_offset)):
        new = _assignments(node, names, source)
        end = node.end_lineno or node.lineno
        if new is not None:
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
            after = lines[end - 1].encode()[node.end_col_offset :].decode()
            rest = [""] * (end - node.lineno)  # the lines below keep their numbers
            lines[node.lineno - 1 : end] = [before + "; ".join(new) + after, *rest]
    return "\n".join(lines)


def _assignments(node: ast.Import | ast.ImportFrom, modules: set[str], source: str) -> list[str] | None:
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module not in modules:
            return None
        return [f"{alias.asname or alias.name} = {source.format(node.module)}.{alias.name}" for alias in node.names]
    if not any(alias.name in modules for alias in node.names):
        return None
    return [
        f"{alias.asname or alias.name} = {source.format(alias.name)}"
        if alias.name in modules
        else f"import {ast.unparse(alias)}"
        for alias in node.names
    ]
