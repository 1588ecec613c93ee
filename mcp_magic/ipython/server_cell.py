"""`%%mcp_server NAME`: makes the functions of a cell the tools of a server in this kernel."""

from __future__ import annotations

import ast
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic._text import sentence
from mcp_magic.config.parsing import check_name
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser
from mcp_magic.ipython.commands.serve import serve_again
from mcp_magic.results.results import CellCrashError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType, TracebackType

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.server.cell import Marks
    from mcp_magic.server.docs import Change

__all__ = ["MCP_SERVER"]

_MISSING = object()
_SINGULAR = {"tools": "tool", "prompts": "prompt", "resources": "resource", "templates": "template"}


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="what to call the server")
    parser.add_argument("--instructions", metavar="TEXT", help="what it tells models about itself, or $variable")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Run the cell, make a server of its functions, and connect it in place of its predecessor."""
    from mcp_magic.server.cell import Marks, make_server
    from mcp_magic.server.docs import compared, interface_of

    name = check_name(arguments.name)
    body = invocation.body
    if body is None:
        raise CommandError(f"%mcp_server: write the functions below the line, with two %: `%%mcp_server {name}`")
    before = await _interface(invocation, name)
    marks = Marks()
    live = f" The earlier server {name!r} is still live." if before is not None else ""
    instructions = invocation.value(arguments.instructions) if arguments.instructions else None
    problem = ""
    try:
        functions = await _run_cell(invocation.shell, body, marks, live)
        server = make_server(name, functions, marks, source=body, instructions=instructions)
    except CellCrashError:
        raise
    except CommandError as error:
        problem = sentence(str(error)) + live
    if problem:
        raise CommandError(problem)
    connection = await invocation.host.connect(server, name=name, trust=True)
    await serve_again(invocation, name)
    now = await interface_of(connection)
    return _listing(name, now, compared(before, now) if before is not None else None)


async def _interface(invocation: Invocation, name: str) -> dict[str, Any] | None:
    """Return the current interface of this name's server, or None if it is not open or does not answer.

    Raises:
        CommandError: The name belongs to a server that is not from a cell.
    """
    from mcp_magic.server.cell import CellServer
    from mcp_magic.server.docs import interface_of

    old = invocation.host.connections.get(name)
    if old is None or old.state != "open":
        return None
    if not isinstance(getattr(old.spec, "server", None), CellServer):
        taken = f"%%mcp_server: {name!r} is connected and no server of this notebook"
        raise CommandError(f"{taken}; take another name, or `%mcp disconnect {name}` first.")
    try:
        return await interface_of(old)
    except MCPMagicError:
        return None


async def _run_cell(shell: InteractiveShell, body: str, marks: Marks, live: str) -> list[Callable[..., Any]]:
    """Run a cell's code in the notebook's namespace; return the public functions that it defines.

    Line numbers in tracebacks and `%debug` are those of the cell: the magic is its first line.

    Raises:
        CommandError: The code is invalid Python, or defines nothing.
        CellCrashError: The code raised.
    """
    source = "\n" + str(shell.transform_cell(body))  # type: ignore[no-untyped-call]
    number = len(shell.user_ns.get("In", ())) - 1  # `execution_count` may already be the next cell's
    file = shell.compile.cache(source, number if number > 0 else shell.execution_count, raw_code="\n" + body)
    tree, code = _compiled(shell, source, file)
    with _among(shell.user_ns, marks.names):
        crash = await _crash(code, shell.user_ns)
    if crash is not None:
        said = f"{type(crash).__name__}: {one_line(str(crash), 300)}".rstrip(": ")
        error = CellCrashError(f"%%mcp_server: the cell raised {sentence(said)}{live}")
        raise error.with_traceback(_from_file(crash, file)) from crash
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    public = [name for name in dict.fromkeys(names) if not name.startswith("_")]
    functions = [shell.user_ns[name] for name in public if callable(shell.user_ns.get(name))]
    if not functions and not (marks.tools or marks.resources or marks.prompts):
        raise CommandError("%%mcp_server: the cell defines no function; each `def` in it becomes a tool.")
    return functions


async def _crash(code: CodeType, namespace: dict[str, Any]) -> Exception | None:
    """Run code; return its exception. An MCPMagicError is raised, since it needs no traceback."""
    try:
        running = eval(code, namespace)
        if inspect.isawaitable(running):
            await running
    except MCPMagicError:
        raise
    except Exception as error:
        return error
    return None


def _from_file(crash: Exception, file: str) -> TracebackType | None:
    """Drop the frames of a traceback before the cell's own code, and return the rest."""
    traceback = crash.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    crash.__traceback__ = traceback
    return traceback


def _compiled(shell: InteractiveShell, source: str, file: str) -> tuple[ast.Module, CodeType]:
    try:
        tree: Any = shell.compile.ast_parse(source, filename=file, symbol="exec")
        flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return tree, compile(tree, file, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        number = error.lineno or 0
        line = "".join(source.split("\n")[number - 1 : number])
        problem = f"line {number}: {error.msg}: {line.strip()}"
    raise CommandError(f"%%mcp_server: {problem}")


@contextmanager
def _among(namespace: dict[str, Any], names: Mapping[str, Any]) -> Iterator[None]:
    """Add names to the namespace for a while; afterwards restore the variables that they replaced."""
    before = {name: namespace.get(name, _MISSING) for name in names}
    namespace.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if namespace.get(name) is not names[name]:
                continue  # the cell has assigned this name
            if value is _MISSING:
                namespace.pop(name, None)
            else:
                namespace[name] = value


def _listing(name: str, now: Mapping[str, Any], changes: Sequence[Change] | None) -> Listing:
    told: dict[tuple[str, str], list[str]] = {}
    for change in changes or ():
        text = " ".join(part for part in (change.where, change.text) if part)
        told.setdefault((change.kind, change.name), []).append(f"breaking: {text}" if change.breaking else text)
    rows = [
        {
            "kind": _SINGULAR[kind],
            "name": f"{name}:{key}" if kind in ("tools", "prompts") else key,
            "description": (definition.get("description") or "").partition("\n")[0],
            "change": "; ".join(told.pop((_SINGULAR[kind], key), [])) or None,
        }
        for kind in _SINGULAR
        for key, definition in now[kind].items()
    ]
    rows += [
        {"kind": kind, "name": key, "description": None, "change": "; ".join(texts)}
        for (kind, key), texts in told.items()
    ]
    note = "" if changes is None else _summary(changes)
    return Listing(
        rows,
        title=f"{name}: a server in this kernel",
        columns=("kind", "name", "description", "change"),
        note=note,
        kind="offers",
    )


def _summary(changes: Sequence[Change]) -> str:
    if not changes:
        return "It took the place of the one before; its interface is the same."
    breaking = sum(change.breaking for change in changes)
    said = f", {breaking} of them breaking" if breaking else ""
    return f"It took the place of the one before: {len(changes)} change{'s' if len(changes) > 1 else ''}{said}."


MCP_SERVER = Implementation(
    run,
    options,
    examples=(
        "%%mcp_server shop",
        "def price(item: str) -> float:",
        '    "Tells the price of an item."',
        "    return prices[item]",
    ),
    details="Type hints and docstrings become the schema; `async def` works as well; a name that begins with `_` is a "
    "helper. `@tool(title=..., read_only=True)` says more of a tool, `@resource('data://{name}')` and `@prompt` make "
    "something else of a function. Functions see the notebook's variables. Run again, the cell replaces its server "
    "and shows what changed in its interface.",
    takes_body=True,
)
