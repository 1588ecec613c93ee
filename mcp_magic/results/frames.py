"""From a result's data and texts to one DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import NoTableError
from .columns import declared, typed
from .content import DELIMITED, is_json
from .delimited import delimited
from .jsontree import NOT_JSON, loads
from .safe import mime
from .tables import Records, Rows, describe, find_rows
from .texttables import find_in_text, markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

__all__ = ["frame", "no_table", "rows_in_contents", "rows_in_texts"]


def frame(rows: Rows, schema: dict[str, Any] | None = None, *, boxed: bool = False) -> pd.DataFrame:
    """Return all rows as a DataFrame with the column types that the output schema declares.

    Raises:
        NoTableError: What was taken for a table cannot be read as one.
    """
    try:
        made = rows.frame()
    except ValueError as error:  # pandas' ParserError is one
        reason = f"no table in this result: {str(error).splitlines()[0][:200]}"
    else:
        return typed(made, rows, declared(schema, rows, boxed=boxed))
    raise NoTableError(reason)


def rows_in_texts(texts: Sequence[str]) -> Rows | None:
    """Return the rows in text blocks: one object a block, or the first block that holds a table."""
    if len(texts) > 1:
        values = [loads(text) for text in texts]
        if all(isinstance(value, dict) for value in values):
            return Records(values=values)
    return next((rows for rows in map(_rows_in_text, texts) if rows is not None), None)


def _rows_in_text(text: str) -> Rows | None:
    value = loads(text)
    if value is NOT_JSON:
        return find_in_text(text)
    return find_rows(value)


def rows_in_contents(contents: Any) -> Rows | None:
    """Return the rows in the contents of a resource, which its MIME type says how to read."""
    text = getattr(contents, "text", None)
    if text is None:
        return None
    kind = mime(contents.mime_type)
    if kind in DELIMITED:
        return delimited(text, DELIMITED[kind])
    if kind == "text/markdown":
        return markdown_table(text)
    if is_json(kind):
        value = loads(text)
        return None if value is NOT_JSON else find_rows(value)
    return _rows_in_text(text)


def no_table(what: str, found: Sequence[str]) -> NoTableError:
    """Return the error for a value without rows.

    >>> str(no_table("result", ["text (5 characters)", "1 image"]))
    'no table in this result: found text (5 characters), 1 image'
    """
    return NoTableError(f"no table in this {what}: found {', '.join(found) or 'nothing'}")


def found_texts(texts: Sequence[str]) -> list[str]:
    """Return what texts are, for that error."""
    if len(texts) == 1:
        value = loads(texts[0])
        if value is not NOT_JSON:
            return [describe(value)]
        return [f"text ({len(texts[0]):,} characters)"]
    return [f"{len(texts)} texts ({sum(map(len, texts)):,} characters)"] if texts else []
