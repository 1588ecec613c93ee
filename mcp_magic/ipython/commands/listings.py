"""`%mcp tools`, `resources`, `templates`, `prompts`: everything that servers offer, from all pages."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.display.document import tool_badges
from mcp_magic.display.listing import Listing
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, seconds_typed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from mcp_magic.display.document import Badge
    from mcp_magic.session.connection import Connection

__all__ = ["PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
    parser.add_argument("--search", metavar="TEXT", help="only those with TEXT in name, title or description")
    parser.add_argument("--refresh", action="store_true", help="ask the servers again")
    parser.add_argument("--timeout", type=seconds_typed, metavar="S", help="seconds that each server has to list all")


def _tool_options(parser: Parser) -> None:
    options(parser)
    parser.add_argument("--bound", action="store_true", help="what a model would be given, and its size in tokens")


async def _run_tools(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    if not arguments.bound:
        return await run("tools", _tool, invocation, arguments)
    from mcp_magic.agent.tools import bound_tools

    return await bound_tools(invocation.host, arguments.server, arguments.search or "")


def _tool(connection: Connection, tool: Any) -> dict[str, Any]:
    root = schema.root_field(tool.input_schema)
    arguments = [field.name if field.needed else f"[{field.name}]" for field in root.children]
    if root.unlisted:
        arguments.append(f"… {root.unlisted:,} more")
    return {
        "tool": f"{connection.name}:{tool.name}",
        "arguments": ", ".join(arguments),
        "hints": [*_marks(connection, tool), *tool_badges(tool, trusted=connection.spec.trust)],
        "description": _first_line(tool),
    }


def _marks(connection: Connection, tool: Any) -> list[Badge]:
    change = connection.change_of(tool)
    return [change.badge] if change else []


def _resource(connection: Connection, resource: Any) -> dict[str, Any]:
    return {
        "uri": str(resource.uri),
        "server": connection.name,
        "name": resource.title or resource.name,
        "type": resource.mime_type,
        "bytes": resource.size,
        "description": _first_line(resource),
    }


def _template(connection: Connection, template: Any) -> dict[str, Any]:
    return {
        "template": template.uri_template,
        "server": connection.name,
        "name": template.title or template.name,
        "type": template.mime_type,
        "description": _first_line(template),
    }


def _prompt(connection: Connection, prompt: Any) -> dict[str, Any]:
    arguments = ", ".join(a.name if a.required else f"[{a.name}]" for a in prompt.arguments or ())
    return {
        "prompt": f"{connection.name}:{prompt.name}",
        "arguments": arguments,
        "description": _first_line(prompt),
    }


def _first_line(item: Any) -> str:
    text = (item.description or item.title or "").strip()
    return text.splitlines()[0] if text else ""


def _matches(item: Any, text: str) -> bool:
    said = (item.name, item.title or "", item.description or "", str(getattr(item, "uri", "")))
    return text.casefold() in "\n".join(said).casefold()


async def run(
    kind: str, row: Callable[[Connection, Any], dict[str, Any]], invocation: Invocation, arguments: argparse.Namespace
) -> Listing:
    """List one kind, of one server or of all."""
    host = invocation.host
    connections = host.find(arguments.server)
    found = await asyncio.gather(
        *(one.listing(kind, refresh=arguments.refresh, timeout=arguments.timeout) for one in connections),
        return_exceptions=True,
    )
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for connection, items in zip(connections, found, strict=True):
        if isinstance(items, BaseException):
            if arguments.server or not isinstance(items, MCPMagicError):
                raise items
            problems.append(str(items))
        else:
            rows += [row(connection, i) for i in items if not arguments.search or _matches(i, arguments.search)]
    return Listing(
        rows,
        title=f"{kind.capitalize()} of {arguments.server}" if arguments.server else kind.capitalize(),
        empty=_nothing(kind, bool(connections), arguments),
        note="\n".join(problems),
        kind=kind,
    )


def _nothing(kind: str, connected: bool, arguments: argparse.Namespace) -> str:
    if not connected:
        return "no server is connected: `%mcp connect TARGET` opens a session"
    if arguments.search:
        return f"no {kind} with {arguments.search!r} in name, title or description"
    return f"{arguments.server or 'the connected servers'}: no {kind}"


def _lister(kind: str, row: Callable[[Connection, Any], dict[str, Any]]) -> Implementation:
    examples = (f"%mcp {kind}", f"%mcp {kind} weather", f"%mcp {kind} --search city")
    return Implementation(partial(run, kind, row), options, examples)


TOOLS = Implementation(
    _run_tools,
    _tool_options,
    ("%mcp tools", "%mcp tools weather", "%mcp tools --search city", "%mcp tools --bound"),
)
RESOURCES = _lister("resources", _resource)
TEMPLATES = _lister("templates", _template)
PROMPTS = _lister("prompts", _prompt)
