"""A server's documentation as Markdown, snapshots of its interface, and the changes between two snapshots."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import json_text
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes
from mcp_magic.display.document import NO_HINTS, tool_badges
from mcp_magic.display.text import harmless, one_line
from mcp_magic.errors import ConfigError
from mcp_magic.loops import together
from mcp_magic.schema.diff import schema_changes
from mcp_magic.schema.fields import Field, constraints_text
from mcp_magic.schema.resolve import json_equal
from mcp_magic.session.catalog import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from markdown_it.token import Token
    from mcp_types import Prompt, Tool

    from mcp_magic.session.connection import Connection


# A server's tools, prompts and resources as a page of Markdown.
#
# A server's descriptions keep their emphasis, lists and code, but lose HTML, links, images and headings. They are block
# quotes, because a quote closes what it opens: an unclosed code fence would turn the text after it into code, and the
# code after that into text.

MAX_QUOTE = 20_000
"""Longest description or instructions, in characters; parsing Markdown takes up to 20 seconds a megabyte."""

MAX_DEPTH = 4  # levels of nested objects that get their own rows

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
    offers = await _offers(connection)
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


async def _offers(connection: Connection) -> dict[str, tuple[Any, ...]]:
    """Return all that a server lists, by kind."""
    return dict(zip(KINDS, await together(connection.listing(kind) for kind in KINDS), strict=True))


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
            _inline(" ".join([field.description, f"({limits})" if (limits := constraints_text(field.schema)) else ""])),
        )
        for path, field in itertools.islice(_rows(root, "", 0), MAX_ROWS)
    ]
    if not rows:
        return f"**{heading}**: none" if heading == "Arguments" else f"**{heading}**: {_inline(root.type_text)}"
    text = f"**{heading}**\n\n{_table(('name', 'type', 'required', 'default', 'description'), rows)}"
    return f"{text}\n\n… and more: the schema is too large for a page" if len(rows) == MAX_ROWS or root.is_cut else text


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


# A snapshot: a server's interface as JSON, to keep beside a notebook and compare later.
#
# It holds the definitions of tools, prompts, resources and templates by name, sorted: two snapshots of an unchanged
# server are equal as text.

FORMAT = 1  # the version of the snapshot format, stored in the member "mcp_magic"

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class Change:
    """One difference between two interfaces."""

    kind: str  # tool, prompt, resource, template or server
    name: str
    where: str
    text: str
    breaking: bool = False

    def __str__(self) -> str:
        mark = "breaking: " if self.breaking else ""
        return f"{mark}{self.kind} {self.name}: {' '.join(part for part in (self.where, self.text) if part)}"


async def interface_of(connection: Connection) -> dict[str, Any]:
    """Return the snapshot of a connected server."""
    info = connection.server_info
    interface: dict[str, Any] = {
        "mcp_magic": FORMAT,
        "server": {"name": info.name, "version": info.version} if info else {},
        "instructions": connection.instructions or "",
    }
    for kind, items in (await _offers(connection)).items():
        key = KINDS[kind].key
        plain = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
        interface[kind] = {item.pop(key): item for item in sorted(plain, key=lambda item: str(item[key]))}
    return interface


def written(interface: Mapping[str, Any]) -> str:
    """Return a snapshot as text for a file, indented and sorted so that version control shows small differences."""
    return json_text(interface, indent=2, sort_keys=True) + "\n"


def read_snapshot(path: Path, server: str = "SERVER") -> dict[str, Any]:
    """Read a snapshot of a server; raise a ConfigError if the file is none that this version reads."""
    advice = f"`%mcp snapshot {server} -o {path.name}` writes one"
    try:
        data: Any = json.loads(read_bytes(path, LARGEST_DATA))
    except OSError as error:
        problem = f"{path}: {error.strerror}; {advice}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not JSON ({error}); {advice}"
    else:
        version = data.get("mcp_magic") if isinstance(data, dict) else None
        if version == FORMAT and all(isinstance(data.get(kind), dict) for kind in KINDS):
            return dict(data)
        newer = isinstance(version, int) and version > FORMAT
        problem = f"{path} is of a newer mcp_magic" if newer else f"{path} is not a snapshot of a server; {advice}"
    raise ConfigError(problem)


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes from one interface to another, breaking ones first."""
    changes = list(_server_changes(old, new))
    for kind in KINDS:
        singular, before, now = kind.removesuffix("s"), old[kind], new[kind]
        changes += [Change(singular, name, "", "is gone", breaking=True) for name in before if name not in now]
        for name, definition in now.items():
            if name not in before:
                changes.append(Change(singular, name, "", "is new"))
            elif not json_equal(before[name], definition):
                changes += [Change(singular, name, *change) for change in _COMPARE[kind](before[name], definition)]
                words = [word for word in ("title", "description") if before[name].get(word) != definition.get(word)]
                changes += [Change(singular, name, word, "changed") for word in words]
    return sorted(changes, key=lambda change: not change.breaking)


def _server_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, now = old.get("server", {}), new.get("server", {})
    name = now.get("name", "")
    if before.get("version") != now.get("version"):
        yield Change("server", name, "version", f"{now.get('version')} instead of {before.get('version')}")
    if old.get("instructions", "") != new.get("instructions", ""):
        yield Change("server", name, "instructions", "changed")


_Difference = tuple[str, str, bool]  # where, what, and whether it breaks code, as in `Change`


def _tool_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    for change in schema_changes(old.get("inputSchema"), new.get("inputSchema"), "input"):
        yield change.path, change.text, change.breaking
    before, now = old.get("outputSchema"), new.get("outputSchema")
    if (before is None) != (now is None):
        yield "result", "no longer has a schema" if now is None else "has a schema now", now is None
    elif before is not None:
        for change in schema_changes(before, now, "output"):
            yield f"result.{change.path}".rstrip("."), change.text, change.breaking
    earlier, hints = old.get("annotations") or {}, new.get("annotations") or {}
    for hint in _HINTS:
        if earlier.get(hint) != hints.get(hint):
            yield hint, f"is {_hint_text(hints.get(hint))} instead of {_hint_text(earlier.get(hint))}", False


def _hint_text(value: Any) -> str:
    return "not said" if value is None else str(value).lower()


def _prompt_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    before = {argument["name"]: argument for argument in old.get("arguments") or []}
    now = {argument["name"]: argument for argument in new.get("arguments") or []}
    for name in [argument for argument in before if argument not in now]:
        yield name, "is gone", True
    for argument, definition in now.items():
        is_required = bool(definition.get("required"))
        if argument not in before:
            yield argument, f"is new and {'required' if is_required else 'optional'}", is_required
        elif is_required != bool(before[argument].get("required")):
            yield argument, f"is {'required' if is_required else 'optional'} now", is_required


def _resource_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    before, now = old.get("mimeType"), new.get("mimeType")
    if before != now:
        yield "type", f"is {_hint_text(now)} instead of {_hint_text(before)}", before is not None


_COMPARE = {
    "tools": _tool_changes,
    "resources": _resource_changes,
    "templates": _resource_changes,
    "prompts": _prompt_changes,
}
"""Kind -> the function that compares two definitions."""
