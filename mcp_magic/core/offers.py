"""What a server offers, as cards: a tool, a resource, a template, a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic import schema
from mcp_magic.results import limits
from mcp_magic.results.card import ToolCard
from mcp_magic.results.content import read_line
from mcp_magic.results.html import Markup, facts, joined, table, tag
from mcp_magic.results.parts import Part
from mcp_magic.results.plain import aligned, terminal_width
from mcp_magic.results.safe import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

    from mcp_magic.results.badges import Badge
    from mcp_magic.results.diff import Line
    from mcp_magic.schema import Field

__all__ = ["Changed", "prompt_part", "resource_part", "template_part", "tool_card"]


class Changed(Protocol):
    """How a tool differs from what it was, as its card shows it."""

    @property
    def badge(self) -> Badge:
        """The mark for it."""

    @property
    def lines(self) -> list[Line]:
        """What differs."""


def tool_card(server: str, tool: Tool, *, trusted: bool = False, change: Changed | None = None) -> ToolCard:
    """Return a tool's card: description, hints, what has changed, arguments, output, an example call.

    Args:
        server: The connection's name.
        tool: The tool.
        trusted: Whether the server's hints are believed.
        change: How the tool has changed since it was first seen, or None.
    """
    arguments, unlisted = _field_rows(tool.input_schema)
    output, output_unlisted = _field_rows(tool.output_schema or {})
    return ToolCard(
        tool,
        server=server,
        example=schema.call_line(
            f"{server}:{tool.name}", schema.example_arguments(tool.input_schema), schema=tool.input_schema
        ),
        arguments=arguments,
        output=output if tool.output_schema else None,
        unlisted=(unlisted, output_unlisted),
        trusted=trusted,
        marks=[change.badge] if change else (),
        difference=change.lines if change else (),
    )


def _field_rows(of: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return a row for each property, and how many have none because the schema is too large."""
    root = schema.root_field(of)
    rows = [
        {
            "name": field.name,
            "type": field.type_text,
            "required": field.required,
            "default": None if field.default is schema.MISSING else field.default,
            "description": _described(field),
        }
        for field in root.children
    ]
    return rows, root.unlisted


def _described(field: Field) -> str:
    bounds = field.constraints_text
    return f"{field.description or ''} ({bounds})".strip() if bounds else field.description or ""


def resource_part(server: str, resource: Resource) -> Part:
    """Return a resource's card: what it is, and the line that reads it."""
    size = limits.size_text(resource.size) if resource.size is not None else ""
    known = [("uri", str(resource.uri)), ("type", resource.mime_type or ""), ("size", size)]
    return _card(server, resource, known, read_line(str(resource.uri), server))


def template_part(server: str, template: ResourceTemplate) -> Part:
    """Return a template's card; its line reads what it becomes with its parts filled in."""
    known = [("template", template.uri_template), ("type", template.mime_type or "")]
    return _card(server, template, known, read_line(template.uri_template, server))


def prompt_part(server: str, prompt: Prompt) -> Part:
    """Return a prompt's card: its arguments, and the line that gets it with those that are required."""
    arguments = prompt.arguments or []
    example = {argument.name: "..." for argument in arguments if argument.required}
    line = schema.prompt_line(f"{server}:{prompt.name}", example)
    names = ("argument", "required", "description")
    rows = [[one_line(a.name, 200), "yes" if a.required else "", one_line(a.description or "", 300)] for a in arguments]
    shown = rows[: limits.display.listing_rows]
    if not shown:
        return _card(server, prompt, [], line)
    markup, _ = table(names, shown, limit=limits.display.bytes // 3)
    return _card(server, prompt, [], line, Part(aligned(names, shown, total=terminal_width(), names=True), markup))


def _card(server: str, item: Any, known: list[tuple[str, str]], line: str, more: Part | None = None) -> Part:
    name, title = one_line(f"{server}:{item.name}", 200), one_line(item.title or "", 200)
    description = cut((item.description or "").strip(), limits.display.characters)
    known = [(label, one_line(value, 500)) for label, value in known if value]
    line = cut(line, 2000)
    plain = [f"{name}: {title}" if title else name, description]
    plain += ["\n".join(f"{label:<9} {value}" for label, value in known), more.plain if more else "", line]
    html = [tag("p", joined([tag("b", name), f" {title}" if title else ""]))]
    html.append(tag("div", description, style="white-space:pre-wrap") if description else Markup())
    html.append(facts((label, tag("code", value)) for label, value in known) if known else Markup())
    html += [more.html if more else Markup(), tag("pre", tag("code", line), class_="mcp-line")]
    return Part("\n\n".join(block for block in plain if block), joined(html))
