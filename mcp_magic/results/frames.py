"""From a result's data and texts to DataFrames: the one that is meant, and all of them by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NoTableError
from .columns import declared, typed
from .content import DELIMITED, is_json
from .delimited import delimited
from .jsontree import NOT_JSON, loads
from .safe import mime, one_line
from .tables import Records, Rows, check_shape, describe, find_tables, meant
from .texttables import MAX_PYTHON, is_long_python, passages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

__all__ = ["Source", "all_frames", "found_texts", "in_contents", "in_data", "in_texts", "one_frame"]

_LONG_PYTHON = (
    f"; rows as Python prints them are read up to {MAX_PYTHON:,} characters. Ask the server for JSON or fewer rows, "
    "or read all of it with `import ast; ast.literal_eval(result.text)`, for which Python needs 250 bytes a character"
)

_SHOWN = 4
"""Tables that a message names."""


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a result, and the tables in it.

    Attributes:
        name: What `.frames` calls a table that has no name of its own.
        tables: What was found.
        rank: 0 for data, 1 for text, 2 for resources: the first part that has a table counts.
        schema: The output schema, where it is about this part.
        boxed: Whether the part came out of `{"result": ...}`, which the schema has.
    """

    name: str
    tables: Sequence[Rows]
    rank: int = 1
    schema: dict[str, Any] | None = None
    boxed: bool = False


def in_data(data: Any, schema: dict[str, Any] | None = None, *, boxed: bool = False) -> Source:
    """Return the tables in a result's data; data that are text are read as text."""
    if isinstance(data, str):
        return Source("text", _in_text(data), rank=0)
    return Source("data", find_tables(data), rank=0, schema=schema, boxed=boxed)


def in_texts(texts: Sequence[str]) -> list[Source]:
    """Return the tables in text blocks; blocks that are one JSON object each are rows of one table."""
    if len(texts) > 1:
        values = [loads(text) for text in texts]
        if all(isinstance(value, dict) for value in values):
            return [Source("text", [Records(values=values)])]
    return [Source("text", _in_text(text)) for text in texts]


def _in_text(text: str) -> list[Rows]:
    return [rows for passage in passages(text) for rows in passage.tables]


def in_contents(contents: Any) -> Source:
    """Return the tables in the contents of a resource, which its MIME type says how to read."""
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
    """Return the DataFrame of the table that a result is about.

    Args:
        sources: Its parts.
        what: What it is called in errors.
        found: Returns what it holds, for the error that there is no table: to look takes as long as to read it.

    Raises:
        NoTableError: There is none, or there are several.
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
    """Return the error that names the ways to each of several tables."""
    wanted = set(map(id, tables))
    named = [(name, source, rows) for name, (source, rows) in _named(sources).items() if id(rows) in wanted]
    shown = named[:_SHOWN]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    ways = f".frames[{'], .frames['.join(_quoted(name) for name, *_ in shown)}]{more}"
    if all(source.name == "data" and len(rows.path) == 1 for _, source, rows in shown):
        ways += f", or as they were sent .data[{'], .data['.join(_quoted(rows.path[0]) for *_, rows in shown)}]"
    return NoTableError(f"{len(named)} tables in this {what}: {ways}")


def _quoted(name: str) -> str:
    """Return a name as it is typed in Python, as far as it can be shown on a line."""
    text = repr(one_line(name, 100))
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def all_frames(sources: Sequence[Source]) -> dict[str, pd.DataFrame]:
    """Return all tables of a result by name; what cannot be read as one is left out."""
    made = {}
    for name, (source, rows) in _named(sources).items():
        try:
            made[name] = _frame(source, rows)
        except NoTableError:
            continue
    return made


def _named(sources: Sequence[Source]) -> dict[str, tuple[Source, Rows]]:
    """Return the tables by name: their member's, else their part's; numbered where several have the same."""
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
        NoTableError: What was taken for a table cannot be read as one.
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
    """Return what texts are, for the error that they hold no table."""
    if len(texts) == 1:
        value = loads(texts[0])
        if value is not NOT_JSON:
            return [describe(value)]
        long = _LONG_PYTHON if is_long_python(texts[0]) else ""
        return [f"text ({len(texts[0]):,} characters){long}"]
    return [f"{len(texts)} texts ({sum(map(len, texts)):,} characters)"] if texts else []
