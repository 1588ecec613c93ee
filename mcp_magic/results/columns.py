"""The column types that an output schema declares, put on a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tables import Columns, Records, Rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["declared", "is_wrapper", "typed"]

_FORMATS = {"date-time", "date", "duration"}
_INT64 = 2**63
_EXACT = 2**53
"""The integers below have a float of their own (IEEE 754)."""


def is_wrapper(schema: dict[str, Any] | None) -> bool:
    """Return whether a schema declares nothing but the box that `{"result": ...}` is.

    Servers of the Python SDKs put what is no object into one (protocol 2025-06-18 has objects only), and
    FastMCP says so with `x-fastmcp-wrap-result`.

    >>> is_wrapper({"properties": {"result": {"type": "integer"}}}), is_wrapper({"properties": {"a": {}}})
    (True, False)
    """
    if schema is None or schema.get("x-fastmcp-wrap-result") is True:
        return True
    return list(schema.get("properties") or ()) == ["result"]


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Follow local references and leave null out of a choice of two."""
    for _ in range(10):  # a chain that is longer goes in circles
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        choices = [c for c in schema.get("anyOf") or schema.get("oneOf") or () if c != {"type": "null"}]
        if isinstance(reference, str) and reference.startswith("#/"):
            schema = _at(root, reference)
        elif len(choices) == 1:
            schema = choices[0]
        else:
            return schema
    return {}


def _at(root: dict[str, Any], reference: str) -> Any:
    """Return what a JSON pointer (RFC 6901) of this document points at."""
    place: Any = root
    for step in reference[2:].split("/"):
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
    return place


def _kind(schema: dict[str, Any]) -> str:
    kinds = schema.get("type")
    names = [k for k in kinds if k != "null"] if isinstance(kinds, list) else [kinds]
    if names == ["string"]:
        return schema["format"] if schema.get("format") in _FORMATS else ""
    return names[0] if len(names) == 1 and names[0] in ("integer", "number", "boolean") else ""


def declared(schema: dict[str, Any] | None, rows: Rows, *, boxed: bool = False) -> dict[str, str]:
    """Return the declared kind of each column: integer, number, boolean, date-time, date or duration.

    Args:
        schema: The tool's output schema.
        rows: Where the rows were found.
        boxed: Whether they came out of `{"result": ...}`.
    """
    if not schema:
        return {}

    def member(of: dict[str, Any], name: str) -> dict[str, Any]:
        return _resolved((of.get("properties") or {}).get(name), schema)

    place = _resolved(schema, schema)
    for name in [*(["result"] if boxed else []), *rows.path]:
        place = member(place, name)
    if isinstance(rows, Columns):
        kinds = {name: _resolved(member(place, name).get("items"), schema) for name in place.get("properties") or ()}
        if len(rows.values) == 1 and not kinds:
            kinds = {name: _resolved(place.get("items"), schema) for name in rows.values}
        return {name: _kind(kind) for name, kind in kinds.items()}
    item = place if rows.single else _resolved(place.get("additionalProperties" if rows.keyed else "items"), schema)
    return {name: _kind(member(item, name)) for name in item.get("properties") or ()}


def typed(frame: pd.DataFrame, rows: Rows, kinds: dict[str, str]) -> pd.DataFrame:
    """Return `frame` with the declared types, where the values really have them.

    Integers become `Int64` (which has room for missing ones), booleans `boolean`, date-times
    `datetime64` in UTC, dates `datetime64`. A column that does not convert stays as it is.
    """
    import pandas as pd

    if frame.empty and not len(frame.columns) and kinds:
        frame = pd.DataFrame(columns=list(kinds))
    for name, kind in kinds.items():
        if kind and name in frame.columns:
            try:
                frame[name] = _converted(frame[name], rows, kind)
            except (TypeError, ValueError, OverflowError):
                continue
    for name in frame.columns.difference([name for name, kind in kinds.items() if kind], sort=False):
        if _lost_digits(frame[name], rows):
            frame[name] = _integers(frame[name], rows)
    return frame


def _lost_digits(column: pd.Series[Any], rows: Rows) -> bool:
    """Whether a column of integers became floats, since one is missing, that cannot hold all of their digits."""
    if column.dtype.kind != "f" or not (column.abs() >= _EXACT).any():
        return False
    values = _values(column, rows) or ()
    return bool(values) and all(value is None or type(value) is int for value in values)


def _converted(column: pd.Series[Any], rows: Rows, kind: str) -> Any:
    import pandas as pd

    match kind:
        case "integer":
            return _integers(column, rows)
        case "number":
            return pd.to_numeric(column).astype("float64")
        case "boolean":
            return column.astype("boolean")
        case "date-time":
            return pd.to_datetime(column, utc=True, format="ISO8601")
        case "date":
            return pd.to_datetime(column, format="ISO8601")
    return pd.to_timedelta(column)


def _integers(column: pd.Series[Any], rows: Rows) -> Any:
    """Return exact integers: where one is missing pandas has made floats, so go back to what was sent."""
    import pandas as pd

    if column.dtype.kind != "f":
        return column.astype("Int64")
    values = _values(column, rows)
    if values is None:
        return column.astype("Int64")
    if any(value is not None and abs(value) >= _INT64 for value in values):
        return pd.Series(values, dtype="object", index=column.index)
    return pd.array(values, dtype="Int64")


def _values(column: pd.Series[Any], rows: Rows) -> list[Any] | None:
    """Return what was sent for a column, or None if only pandas knows."""
    name = str(column.name)
    if isinstance(rows, Records):
        return [record.get(name) for record in rows.values]
    return rows.values[name] if isinstance(rows, Columns) else None
