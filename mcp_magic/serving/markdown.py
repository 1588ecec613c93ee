"""A server's tools, prompts and resources as a page of Markdown.

What a server says of itself is data: its descriptions keep their emphasis, lists and code, but bring no HTML, no
links and no images into the page.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.results.badges import annotation_badges
from mcp_magic.results.safe import one_line
from mcp_magic.schema.describe import constraints_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mcp_types import Prompt, Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.schema import Field

__all__ = ["page", "safe_markdown"]

MAX_DEPTH = 4
"""Levels of nested objects that get rows of their own."""

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


async def page(connection: Connection) -> str:
    """Return the page of a connected server.

    Raises:
        SessionError: It cannot be listed.
    """
    parts = [_heading(connection)]
    tools = await connection.listing("tools")
    if tools:
        parts.append("## Tools")
        parts += [_tool(connection, tool) for tool in tools]
    prompts = await connection.listing("prompts")
    if prompts:
        parts.append("## Prompts")
        parts += [_prompt(connection.name, prompt) for prompt in prompts]
    for kind, uri in (("resources", "uri"), ("templates", "uri_template")):
        found = await connection.listing(kind)
        if found:
            parts.append("## Resources" if kind == "resources" else "## Resource templates")
            parts.append(_resources(found, uri))
    return "\n\n".join(parts) + "\n"


def _heading(connection: Connection) -> str:
    info = connection.server_info
    title = (info.title or info.name) if info else connection.name
    facts = [f"version {info.version}"] if info and info.version else []
    facts.append(f"MCP {connection.protocol_version}")
    parts = [f"# {_inline(title)}", _inline(", ".join(facts))]
    if connection.instructions:
        parts.append("\n".join(f"> {line}" for line in safe_markdown(connection.instructions).splitlines()))
    return "\n\n".join(parts)


def _tool(connection: Connection, tool: Tool) -> str:
    parts = [f"### {_code(tool.name)}" + (f" {_inline(tool.title)}" if tool.title else "")]
    hints = ", ".join(badge.text for badge in annotation_badges(tool.annotations))
    parts.append(f"*{hints}* (the server's own words)" if hints else "")
    parts.append(safe_markdown(tool.description or ""))
    parts.append(_fields("Arguments", schema.root_field(tool.input_schema)))
    if tool.output_schema:
        parts.append(_fields("Returns", schema.root_field(tool.output_schema)))
    example = schema.example_arguments(tool.input_schema)
    line = schema.call_line(f"{connection.name}:{tool.name}", example, schema=tool.input_schema)
    python = f'await host["{connection.name}"].call({tool.name!r}, {example!r})'
    parts.append(f"{_fence(line)}\n\n{_fence(python, 'python')}")
    return "\n\n".join(part for part in parts if part)


def _prompt(server: str, prompt: Prompt) -> str:
    parts = [f"### {_code(prompt.name)}" + (f" {_inline(prompt.title)}" if prompt.title else "")]
    parts.append(safe_markdown(prompt.description or ""))
    rows = [
        (_code(argument.name), "yes" if argument.required else "no", _inline(argument.description or ""))
        for argument in prompt.arguments or ()
    ]
    if rows:
        parts.append(f"**Arguments**\n\n{_table(('name', 'required', 'description'), rows)}")
    example = {argument.name: "text" for argument in prompt.arguments or () if argument.required}
    parts.append(_fence(schema.prompt_line(f"{server}:{prompt.name}", example)))
    return "\n\n".join(part for part in parts if part)


def _resources(found: Iterable[Any], uri: str) -> str:
    rows = [
        (_code(getattr(each, uri)), _code(each.mime_type or ""), _inline(each.description or each.title or each.name))
        for each in found
    ]
    return _table(("URI", "type", "description"), rows)


def _fields(heading: str, root: Field) -> str:
    rows = [
        (
            _code(path),
            _inline(field.type_text),
            "yes" if field.required else "no",
            "" if field.default is schema.MISSING else _code(json.dumps(field.default, ensure_ascii=False)),
            _inline(" ".join(part for part in (field.description, _limits(field)) if part)),
        )
        for path, field in _rows(root, "", 0)
    ]
    if not rows:
        return f"**{heading}**: none" if heading == "Arguments" else f"**{heading}**: {_inline(root.type_text)}"
    return f"**{heading}**\n\n{_table(('name', 'type', 'required', 'default', 'description'), rows)}"


def _limits(field: Field) -> str:
    limits = constraints_text(field.schema)
    return f"({limits})" if limits else ""


def _rows(field: Field, path: str, depth: int) -> Iterator[tuple[str, Field]]:
    for child in field.children:
        where = f"{path}.{child.name}" if path else child.name
        yield where, child
        if depth < MAX_DEPTH:
            yield from _rows(child, where, depth + 1)
            if child.item is not None:
                yield from _rows(child.item, f"{where}[]", depth + 1)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _fence(code: str, language: str = "") -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", code) or [""]))
    return f"{fence}{language}\n{code}\n{fence}"


def _code(text: Any) -> str:
    """Return a text as code in one line, in a table too; "" for none."""
    shown = one_line(str(text), 300).replace("|", "\\|")
    if not shown:
        return ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def _inline(text: str) -> str:
    return safe_markdown(one_line(text, 1000)).replace("|", "\\|")


def safe_markdown(text: str) -> str:
    r"""Return a server's Markdown without HTML, links and images.

    >>> safe_markdown("see <b>![x](http://y)</b> and `a[0] < 1`")
    'see &lt;b>!\\[x](http://y)&lt;/b> and `a[0] < 1`'
    """
    parts = _CODE.split(text.strip())
    for number in range(0, len(parts), 2):
        parts[number] = parts[number].replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[")
        parts[number] = re.sub(r"(?m)^(\s*)#", r"\1\\#", parts[number])
    return "".join(parts)
