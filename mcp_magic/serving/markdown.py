"""A server's tools, prompts and resources as a page of Markdown.

What a server says of itself is data: its descriptions keep their emphasis, lists and code, but bring no HTML, no
links, no images and no headings into the page. They stand in quotes, because a quote ends what is begun in it: a fence
that is never closed would make code of what follows, and text of the code after that.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.results.badges import NO_HINTS, tool_badges
from mcp_magic.results.markdown import harmless
from mcp_magic.results.safe import one_line
from mcp_magic.schema.describe import constraints_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from markdown_it.token import Token
    from mcp_types import Prompt, Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.schema import Field

__all__ = ["page", "quoted"]

MAX_QUOTE = 20_000
"""Characters of a description or of instructions; to read Markdown takes up to 20 seconds a megabyte."""

MAX_DEPTH = 4
"""Levels of nested objects that get rows of their own."""

MAX_ROWS = 500
"""Rows of a table of arguments."""

# Mathematics that goes on over what follows, fences too: `$$`, `\\\\[` (nbconvert).
_MATHEMATICS = re.compile(r"(?<=\$)\$|(?<=\\\\)\[")
# What may be attributes: `{onclick=x}` (Python-Markdown).
_BRACED = re.compile(r"[^}\n]+")
# The beginning of a heading, in a list or a quote too; nbconvert needs no space behind it.
_HASH = re.compile(r"^((?:[ \t>]|[-*+] |\d+[.)] )*)#")
_UNDERLINE = re.compile(r"^([ \t>]*)(=+[ \t]*|-+[ \t]*)$")
# Code that ends within its own cell of a table, as every renderer reads it.
_PAIRED = re.compile(r"(?:[^`]*(?<!\\)`[^`]*[^`\\]`)*[^`]*")


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
        parts.append(quoted(connection.instructions))
    return "\n\n".join(parts)


def _tool(connection: Connection, tool: Tool) -> str:
    parts = [f"### {_code(tool.name)}" + (f" {_inline(tool.title)}" if tool.title else "")]
    badges = tool_badges(tool)
    whose = "" if NO_HINTS in badges else " (the server's own words)"
    parts.append(f"*{', '.join(badge.text for badge in badges)}*{whose}" if badges else "")
    parts.append(quoted(tool.description or ""))
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
    parts.append(quoted(prompt.description or ""))
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
        for path, field in itertools.islice(_rows(root, "", 0), MAX_ROWS)
    ]
    if not rows:
        return f"**{heading}**: none" if heading == "Arguments" else f"**{heading}**: {_inline(root.type_text)}"
    text = f"**{heading}**\n\n{_table(('name', 'type', 'required', 'default', 'description'), rows)}"
    return f"{text}\n\n… and more: the schema is too large for a page" if len(rows) == MAX_ROWS or root.is_cut else text


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
    shown = _cell(one_line(str(text), 300))
    if not shown:
        return ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def _inline(text: str) -> str:
    shown = _cell(one_line(text, 1000))
    return shown if _PAIRED.fullmatch(shown) else shown.replace("`", "&#96;")


def _cell(line: str) -> str:
    """Return a line that cannot leave its cell: a pipe after an escaped backslash would be the cell's end."""
    return re.sub(r"\\*\|", r"\|", _plain(line))


def quoted(text: str) -> str:
    r"""Return a server's Markdown as a quote without HTML, links, images and headings.

    >>> quoted("# See\n<b>![x](http://y)</b> and `a[0] < 1`")
    '> \\# See\n> &lt;b>[x]\\(http://y)&lt;/b> and `a[0] < 1`'
    """
    shown = inspect.cleandoc(text[:MAX_QUOTE].strip())
    if len(text) > MAX_QUOTE:
        shown += f"\n\n… {MAX_QUOTE:,} of {len(text):,} characters"
    lines = _without_headings(_plain(shown).split("\n"))
    return "\n".join(f"> {line}".rstrip() for line in lines) if any(lines) else ""


def _plain(text: str) -> str:
    """Return Markdown that stays harmless in dialects, too."""
    text = _MATHEMATICS.sub(lambda found: f"&#{ord(found[0])};", harmless(text, links=False))
    return _BRACED.sub(_without_attributes, text)


def _without_attributes(found: re.Match[str]) -> str:
    before, equals, rest = found[0].rpartition("=")
    return before.replace("{", "&#123;") + equals + rest


def _without_headings(lines: list[str]) -> list[str]:
    """Return lines with a backslash before what makes headings of some of them, which the page has of its own."""
    for token in _blocks(lines):
        if token.type not in ("heading_open", "paragraph_open") or token.map is None:
            continue
        for number in range(*token.map):
            lines[number] = _HASH.sub(r"\1\\#", lines[number])
        if token.markup in ("=", "-"):
            lines[token.map[1] - 1] = _UNDERLINE.sub(r"\1\\\2", lines[token.map[1] - 1])
    if any(token.type == "heading_open" for token in _blocks(lines)):  # one that was kept from it may make the next one
        return [_UNDERLINE.sub(r"\1\\\2", _HASH.sub(r"\1\\#", line)) for line in lines]
    return lines


def _blocks(lines: list[str]) -> list[Token]:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable("inline").parse("\n".join(lines))
