"""A server's documentation as a page of Markdown.

A server's descriptions keep their emphasis, lists and code, but lose HTML, links, images and headings. They are block
quotes, because a quote closes what it opens: an unclosed code fence would turn the text after it into code, and the
code after that into text.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.display.document import NO_HINTS, tool_badges
from mcp_magic.display.text import harmless, one_line
from mcp_magic.schema.fields import Field, descendants
from mcp_magic.server.snapshot import offers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from markdown_it.token import Token
    from mcp_types import Prompt, Tool

    from mcp_magic.session.connection import Connection


MAX_QUOTE = 20_000
"""Longest description or instructions, in characters; parsing Markdown takes up to 20 seconds a megabyte."""

MAX_TABLE_DEPTH = 4  # levels of nested objects that get their own rows

MAX_ROWS = 500  # most rows in a table of arguments

# Formulas that run on over the following text, even over fences: `$$`, `\\\\[` (nbconvert).
_MATHEMATICS = re.compile(r"(?<=\$)\$|(?<=\\\\)\[")
# Text that may be attributes: `{onclick=x}` (Python-Markdown).
_BRACED = re.compile(r"[^}\n]+")
# The start of a heading, also in a list or quote; nbconvert needs no space after the hash.
_HASH = re.compile(r"^((?:[ \t>]|[-*+] |\d+[.)] )*)#")
_UNDERLINE = re.compile(r"^([ \t>]*)(=+[ \t]*|-+[ \t]*)$")
# Text whose code spans all end within the same table cell, in every renderer.
_PAIRED = re.compile(r"(?:[^`]*(?<!\\)`[^`]*[^`\\]`)*[^`]*")


async def page(connection: Connection) -> str:
    """Return a connected server's documentation as Markdown."""
    offers = await offers_of(connection)
    parts = [_heading(connection)]
    if offers["tools"]:
        parts += ["## Tools", *(_tool(connection, tool) for tool in offers["tools"])]
    if offers["prompts"]:
        parts += ["## Prompts", *(_prompt(connection.name, prompt) for prompt in offers["prompts"])]
    if offers["resources"]:
        parts += ["## Resources", _resources(offers["resources"], "uri")]
    if offers["templates"]:
        parts += ["## Resource templates", _resources(offers["templates"], "uri_template")]
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
    note = "" if NO_HINTS in badges else " (the server's own words)"
    parts.append(f"*{', '.join(badge.text for badge in badges)}*{note}" if badges else "")
    parts.append(quoted(tool.description or ""))
    parts.append(_fields("Arguments", schema.input_root(tool.input_schema)))
    if tool.output_schema:
        parts.append(_fields("Returns", schema.root_field(tool.output_schema)))
    example = schema.valid_example(tool.input_schema)
    if example is not None:
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


def _resources(items: Iterable[Any], uri: str) -> str:
    rows = [
        (_code(getattr(item, uri)), _code(item.mime_type or ""), _inline(item.description or item.title or item.name))
        for item in items
    ]
    return _table(("URI", "type", "description"), rows)


def _fields(heading: str, root: Field) -> str:
    rows = [
        (
            _code(path),
            _inline(field.type_text),
            "yes" if field.required else "no",
            "" if field.default is schema.MISSING else _code(json.dumps(field.default, ensure_ascii=False)),
            _inline(" ".join([field.description, f"({limits})" if (limits := field.constraints_text) else ""])),
        )
        for path, field in itertools.islice(descendants(root, MAX_TABLE_DEPTH), MAX_ROWS)
    ]
    if not rows:
        return f"**{heading}**: none" if heading == "Arguments" else f"**{heading}**: {_inline(root.type_text)}"
    text = f"**{heading}**\n\n{_table(('name', 'type', 'required', 'default', 'description'), rows)}"
    is_cut = len(rows) == MAX_ROWS or root.resolver.budget.is_spent
    return f"{text}\n\n… and more: the schema is too large for a page" if is_cut else text


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _fence(code: str, language: str = "") -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", code) or [""]))
    return f"{fence}{language}\n{code}\n{fence}"


def _code(text: Any) -> str:
    """Return a text as a code span that also works in a table; "" for an empty text."""
    cell = _cell(one_line(str(text), 300))
    if not cell:
        return ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", cell)), default=0) + 1)
    space = " " if "`" in cell else ""
    return f"{ticks}{space}{cell}{space}{ticks}"


def _inline(text: str) -> str:
    cell = _cell(one_line(text, 1000))
    return cell if _PAIRED.fullmatch(cell) else cell.replace("`", "&#96;")


def _cell(line: str) -> str:
    """Return a line that stays in its table cell: a pipe after an escaped backslash would end the cell."""
    return re.sub(r"\\*\|", r"\|", _plain(line))


def quoted(text: str) -> str:
    r"""Return a server's Markdown as a block quote without HTML, links, images and headings.

    >>> quoted("# See\n<b>![x](http://y)</b> and `a[0] < 1`")
    '> \\# See\n> &lt;b>[x]\\(http://y)&lt;/b> and `a[0] < 1`'
    """
    markdown = inspect.cleandoc(text[:MAX_QUOTE].strip())
    if len(text) > MAX_QUOTE:
        markdown += f"\n\n… {MAX_QUOTE:,} of {len(text):,} characters"
    lines = _without_headings(_plain(markdown).split("\n"))
    return "\n".join(f"> {line}".rstrip() for line in lines) if any(lines) else ""


def _plain(text: str) -> str:
    """Return Markdown that is harmless in dialects too (formulas, attributes)."""
    text = _MATHEMATICS.sub(lambda match: f"&#{ord(match[0])};", harmless(text, links=False))

    def without_attributes(match: re.Match[str]) -> str:
        before, equals, rest = match[0].rpartition("=")
        return before.replace("{", "&#123;") + equals + rest

    return _BRACED.sub(without_attributes, text)


def _without_headings(lines: list[str]) -> list[str]:
    """Return lines with heading marks escaped: headings belong to the page."""
    for token in _blocks(lines):
        if token.type not in ("heading_open", "paragraph_open") or token.map is None:
            continue
        for number in range(*token.map):
            lines[number] = _HASH.sub(r"\1\\#", lines[number])
        if token.markup in ("=", "-"):
            lines[token.map[1] - 1] = _UNDERLINE.sub(r"\1\\\2", lines[token.map[1] - 1])
    if any(token.type == "heading_open" for token in _blocks(lines)):  # escaping one heading may create another
        return [_UNDERLINE.sub(r"\1\\\2", _HASH.sub(r"\1\\#", line)) for line in lines]
    return lines


def _blocks(lines: list[str]) -> list[Token]:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable("inline").parse("\n".join(lines))
