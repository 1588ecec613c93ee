"""`%mcp tool`: one tool in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.magics.parsing import Command, Invocation
from mcp_magic.results import ToolCard

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.schema import Field

__all__ = ["COMMAND"]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("tool", metavar="SERVER:TOOL", help="the server may be left out while the name is unique")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> ToolCard:
    """Describe a tool."""
    connection, tool = await invocation.host.resolve(arguments.tool)
    return tool_card(connection, tool)


def tool_card(connection: Connection, tool: Tool) -> ToolCard:
    """Return a tool's card: description, hints, arguments, output, an example call."""
    return ToolCard(
        tool,
        server=connection.name,
        example=schema.call_line(
            f"{connection.name}:{tool.name}", schema.example_arguments(tool.input_schema), schema=tool.input_schema
        ),
        arguments=_field_rows(tool.input_schema),
        output=_field_rows(tool.output_schema) if tool.output_schema else None,
        trusted=connection.spec.trust,
    )


def _field_rows(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": field.name,
            "type": field.type_text,
            "required": field.required,
            "default": None if field.default is schema.MISSING else field.default,
            "description": _described(field),
        }
        for field in schema.root_field(of).children
    ]


def _described(field: Field) -> str:
    limits = field.constraints_text
    return f"{field.description or ''} ({limits})".strip() if limits else field.description or ""


COMMAND = Command(
    "tool",
    "Explore",
    "shows one tool: what it does, its arguments, its hints, an example call",
    run,
    options,
    examples=("%mcp tool weather:forecast",),
)
