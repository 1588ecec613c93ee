"""DataFrames from results, and rules for a result's texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic.display import document
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.tables import (
    MAX_PYTHON,
    Records,
    Rows,
    check_shape,
    declared,
    delimited,
    describe,
    find_tables,
    is_long_python,
    json_in_text,
    meant,
    passages,
    typed,
)
from mcp_magic.display.text import cut, mime, one_line, shorten
from mcp_magic.errors import NoTableError
from mcp_magic.results.content import DELIMITED, is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

__all__ = [
    "Source",
    "all_frames",
    "argument_value",
    "found_texts",
    "in_contents",
    "in_data",
    "in_texts",
    "names_the_text",
    "one_frame",
    "reason",
    "repeats",
]


# DataFrames from a result's data and texts: the main table, and all tables by name.

_LONG_PYTHON = (
    f"; rows as Python prints them are read up to {MAX_PYTHON:,} characters. Ask the server for JSON or fewer rows, "
    "or read all of it with `import ast; ast.literal_eval(result.text)`, for which Python needs 250 bytes a character"
)

_SHOWN = 4
"""Most tables that a message names."""


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a result, and the tables in it.

    Attributes:
        name: The key in `.frames` for a table without its own name.
        tables: The tables of this part.
        rank: 0 for data, 1 for text, 2 for resources; `.df` uses the lowest rank that has a table.
        schema: The output schema if it describes this part, else None.
        boxed: Whether this part was unwrapped from `{"result": ...}`, which the schema still describes.
    """

    name: str
    tables: Sequence[Rows]
    rank: int = 1
    schema: dict[str, Any] | None = None
    boxed: bool = False


def in_data(data: Any, schema: dict[str, Any] | None = None, *, boxed: bool = False) -> Source:
    """Return the tables in a result's data; a string is read as text."""
    if isinstance(data, str):
        return Source("text", _in_text(data), rank=0)
    return Source("data", find_tables(data), rank=0, schema=schema, boxed=boxed)


def in_texts(texts: Sequence[str]) -> list[Source]:
    """Return the tables in text blocks; several blocks that are all JSON objects are the rows of one table."""
    if len(texts) > 1:
        values = [loads(text) for text in texts]
        if all(isinstance(value, dict) for value in values):
            return [Source("text", [Records(values=values)])]
    return [Source("text", _in_text(text)) for text in texts]


def _in_text(text: str) -> list[Rows]:
    return [rows for passage in passages(text) for rows in passage.tables]


def in_contents(contents: Any) -> Source:
    """Return the tables in the contents of a resource, read by their MIME type."""
    text = getattr(contents, "text", None)
    kind = mime(contents.mime_type)
    tables: Sequence[Rows] = ()
    if text is not None and kind in DELIMITED:
        tables = [delimited(text, DELIMITED[kind])]
    elif text is not None and is_json(kind):
        value = loads(text)
        tables = [] if value is NOT_JSON else find_tables(value)
    elif text is not None:
        tables = _in_text(text)
    return Source(str(contents.uri), tables, rank=2)


def one_frame(sources: Sequence[Source], what: str, found: Callable[[], Sequence[str]]) -> pd.DataFrame:
    """Return the DataFrame of a result's main table.

    Args:
        sources: The result's parts.
        what: The word for the result in errors.
        found: Returns what the result holds, for the error without a table; a callback because finding out takes as
            long as reading the result.

    Raises:
        NoTableError: There is no table, or there are several.
    """
    tables = [(source, rows) for source in sources for rows in meant(source.tables)]
    full = [(source, rows) for source, rows in tables if not rows.single]
    first = min((source.rank for source, _ in full), default=0)
    tables = [(source, rows) for source, rows in full if source.rank == first] or tables[:1]
    if not tables:
        raise NoTableError(f"no table in this {what}: found {', '.join(found()) or 'nothing'}")
    if len(tables) > 1:
        raise _several(sources, [rows for _, rows in tables], what)
    return _frame(*tables[0])


def _several(sources: Sequence[Source], tables: Sequence[Rows], what: str) -> NoTableError:
    """Return the error that says how to get each of several tables."""
    wanted = set(map(id, tables))
    named = [(name, source, rows) for name, (source, rows) in _named(sources).items() if id(rows) in wanted]
    shown = named[:_SHOWN]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    ways = f".frames[{'], .frames['.join(_quoted(name) for name, *_ in shown)}]{more}"
    if all(source.name == "data" and len(rows.path) == 1 for _, source, rows in shown):
        ways += f", or as they were sent .data[{'], .data['.join(_quoted(rows.path[0]) for *_, rows in shown)}]"
    return NoTableError(f"{len(named)} tables in this {what}: {ways}")


def _quoted(name: str) -> str:
    """Return a name as a Python literal, shortened to fit on a line."""
    text = repr(one_line(name, 100))
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def all_frames(sources: Sequence[Source]) -> dict[str, pd.DataFrame]:
    """Return all tables of a result by name, without those that pandas cannot read."""
    made = {}
    for name, (source, rows) in _named(sources).items():
        try:
            made[name] = _frame(source, rows)
        except NoTableError:
            continue
    return made


def _named(sources: Sequence[Source]) -> dict[str, tuple[Source, Rows]]:
    """Return the tables by the name of their member, else of their part; equal names are numbered."""
    tables = [(source, rows) for source in sources for rows in source.tables]
    tables = [(source, rows) for source, rows in tables if not rows.single] or tables[:1]
    named: dict[str, tuple[Source, Rows]] = {}
    used: dict[str, int] = {}
    for source, rows in tables:
        name = ".".join(rows.path) or source.name
        used[name] = used.get(name, 0) + 1
        named[name if used[name] == 1 else f"{name} {used[name]}"] = (source, rows)
    return named


def _frame(source: Source, rows: Rows) -> pd.DataFrame:
    """Return all rows with the column types that the schema declares.

    Raises:
        NoTableError: The rows are too large, or pandas cannot read them.
    """
    try:
        check_shape(*rows.shape())
        made = rows.frame()
    except ValueError as error:  # pandas' ParserError is one
        reason = f"no table in this result: {str(error).splitlines()[0][:200]}"
    else:
        return typed(made, rows, declared(source.schema, rows, boxed=source.boxed))
    raise NoTableError(reason)


def found_texts(texts: Sequence[str]) -> list[str]:
    """Return a description of texts, for the error that they hold no table."""
    if len(texts) == 1:
        value = loads(texts[0])
        if value is not NOT_JSON:
            return [describe(value)]
        long = _LONG_PYTHON if is_long_python(texts[0]) else ""
        return [f"text ({len(texts[0]):,} characters){long}"]
    return [f"{len(texts)} texts ({sum(map(len, texts)):,} characters)"] if texts else []


# The texts of a result: why the tool failed, whether they only repeat the data, and their value as an argument.

_READ = 200_000
"""Characters of an error that are searched for JSON."""

_LINES = 6
"""Most lines of an error in a message."""

_WORDS = ("error", "errors", "message", "msg", "detail", "details")
"""Members of a JSON error that hold readable text."""

_DEEPEST = 5
"""Levels that are searched for these members."""

_FLAGS = ("success", "ok", "status", "is_error", "isError")


def reason(texts: list[str], tool: str, clue: str = "", rest: str = "…") -> str:
    r"""Return the text after "failed" in a message: at most six lines of the tool's error.

    >>> reason(["Error executing tool divide: division by zero"], "divide")
    ': division by zero'
    >>> reason(['{\n  "success": false,\n  "error": "no such table: x"\n}'], "query")
    ': no such table: x'
    >>> reason(["one\ntwo\n3\n4\n5\n6\n7"], "")
    ': one\ntwo\n3\n4\n5\n6\n…'
    >>> reason(["Error executing tool divide"], "divide", ": ZeroDivisionError: division by zero")
    ': ZeroDivisionError: division by zero'

    Args:
        texts: The texts of the tool's error.
        tool: The tool's name.
        clue: The text to return if the tool said nothing, or only that it failed, as MCPServer does.
        rest: The last line if the error is shortened.
    """
    whole = "\n".join(text.strip() for text in texts)
    # MCPServer and FastMCP add this prefix, but the message names the tool already.
    said = whole.removeprefix(f"Error executing tool {tool}: ").removeprefix(f"Error calling tool '{tool}': ")
    read, is_whole = _in_json(said[:_READ])
    is_whole = is_whole and len(said) <= _READ
    lines = [line.rstrip() for line in cut(read, 4000).splitlines() if line.strip()]
    if not lines or (clue and whole == f"Error executing tool {tool}"):
        return clue or " and did not say why"
    shown = [shorten(line, 300) for line in lines[:_LINES]]
    is_whole = is_whole and shown == lines and len(read) <= 4000
    return ": " + "\n".join(shown if is_whole else [*shown, rest])


def _in_json(said: str) -> tuple[str, bool]:
    """Return the readable text of an error that is or contains JSON, and whether it is the whole error."""
    start, value = json_in_text(said)
    words = _words(value)
    if not words:
        return said, True
    members = value if isinstance(value, dict) else {}
    others = [key for key, member in members.items() if key not in (*_WORDS, *_FLAGS) and member is not None]
    return f"{said[:start].strip()} {words}".strip(), not others and said.rstrip().endswith(("}", "]"))


def _words(value: Any, depth: int = 0) -> str:
    """Return the texts in an error's `error`, `message` or `detail`, which may be objects or lists of objects.

    >>> _words({"error": {"code": -1, "message": "no such table"}}), _words({"detail": [{"msg": "Field required"}]})
    ('no such table', 'Field required')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and depth <= _DEEPEST:
        return "; ".join(words for item in value[:_LINES] if (words := _words(item, depth + 1)))
    if not isinstance(value, dict) or depth > _DEEPEST:
        return ""
    found = [_words(value[key], depth + 1) for key in _WORDS if key in value]
    return ": ".join(dict.fromkeys(words for words in found if words))


def repeats(texts: list[str], structured: Any, data: Any) -> bool:
    """Whether texts only repeat the structured content.

    The specification asks for that ("SHOULD also return the serialized JSON in a TextContent block").
    MCPServer sends a list as one block per item, and some servers send only one member, without its name.

    >>> repeats(['[{"name": "Ada"}]'], {"entities": [{"name": "Ada"}]}, {"entities": [{"name": "Ada"}]})
    True
    >>> repeats(["2 rows"], {"rows": 2}, {"rows": 2})
    False
    """
    members = [data, *structured.values()] if isinstance(structured, dict) else [data]
    if len(texts) == 1 and _same(texts[0], structured, *members):
        return True
    return any(_has_items(texts, member) for member in members if isinstance(member, list))


def _has_items(texts: list[str], values: list[Any]) -> bool:
    """Whether texts are the items of a list, apart from images, audio and resources, which have their own blocks."""
    items = list(islice((item for item in _items(values) if not _is_block(item)), len(texts) + 1))
    return len(items) == len(texts) and all(_same(text, item) for text, item in zip(texts[:3], items[:3], strict=True))


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("image", "audio", "resource", "resource_link")


def _items(values: list[Any]) -> Iterator[Any]:
    """Yield the items of a list and of the lists in it, as MCPServer sends them."""
    for value in values:
        yield from _items(value) if isinstance(value, list) else (value,)


def names_the_text(texts: list[str], data: Any) -> bool:
    r"""Whether the structured content is only the text under a name (as from the filesystem server).

    If the text has several lines, other members with plain values may stand beside it.

    >>> names_the_text(["one line"], {"content": "one line"}), names_the_text(["42"], {"n": 42})
    (True, False)
    >>> names_the_text(["two\nlines"], {"kind": "page", "text": "two\nlines"})
    True
    >>> names_the_text(["Ada"], {"name": "Ada", "age": 36})
    False
    """
    if len(texts) != 1 or not isinstance(data, dict) or texts[0] not in data.values():
        return False
    return len(data) == 1 or (
        "\n" in texts[0].strip()
        and all(value is None or isinstance(value, str | int | float) for value in data.values())
    )


def argument_value(data: Any, texts: list[str], wanted: str) -> Any:
    """Return a result's value as an argument of type `wanted`: its text for a string, else its data.

    >>> argument_value([1, 2], ["[1, 2]"], "array"), argument_value([1, 2], ["[1, 2]"], "string")
    ([1, 2], '[1, 2]')
    >>> argument_value(None, ["tea"], "any")
    'tea'
    """
    if len(texts) == 1 and (data is None or (wanted == "string" and not isinstance(data, str))):
        return texts[0]
    return texts if data is None and texts else data


def _same(text: str, *values: Any) -> bool:
    if len(text) > document.display.parse:
        return text[:100].lstrip()[:1] in ("{", "[")
    value = loads(text)
    if value is NOT_JSON and "NaN" in text:
        value = _with_null(text)
    return any(value == candidate or text == candidate for candidate in values)


def _with_null(text: str) -> Any:
    """Return the value of JSON with NaN as null, as structured content has it."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return NOT_JSON
