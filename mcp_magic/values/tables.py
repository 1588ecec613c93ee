"""Values as tables, of whatever kind they are, and as the JSON of arguments.

Only classes that are known are tables: those of pandas, numpy and Polars, lists and dicts, and tables of results.
"""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from mcp_magic.display import tables
from mcp_magic.errors import ArgumentsError
from mcp_magic.values.classes import bases, class_name, is_among, loaded
from mcp_magic.values.frames import frame_table
from mcp_magic.values.plain import Writer, labels
from mcp_magic.values.rows import MAX_COLUMNS, MAX_ITEMS, Lists, Matrix, of_dict, of_list
from mcp_magic.values.texts import DelimitedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.values.rows import Table


def table_of(value: Any) -> Table | None:
    """Return a value as a table, or None if it is none."""
    kind = type(value)
    above = bases(kind)
    if list in above:
        return of_list(value if kind is list else list.__getitem__(value, slice(None)))
    if kind is tuple:
        return of_list(value)
    if kind is range:
        return Lists({"value": value[: sys.maxsize]})
    if kind is set or kind is frozenset:
        return Lists({"value": Writer(nodes=MAX_ITEMS).plain(value)})
    if dict in above:
        return of_dict(value if kind is dict else dict(dict.items(value)))
    if is_among(kind, _IN_RESULTS):
        return _IN_RESULTS[kind](value)
    if (
        loaded("numpy", "ndarray") in above
        or loaded("polars", "DataFrame") is kind
        or loaded("polars", "Series") is kind
    ):
        from mcp_magic.values.arrays import array_table

        return array_table(value)
    return frame_table(value)


def _delimited(rows: tables.Delimited) -> Table | None:
    try:
        return DelimitedRows(rows)
    except csv.Error:  # a cell of more than 131,072 characters
        return None


_IN_RESULTS: dict[type, Callable[[Any], Table | None]] = {
    tables.Records: lambda rows: of_list(rows.values) if rows.values else Matrix([]),
    tables.Columns: lambda rows: Lists({str(name): values for name, values in rows.values.items()}),
    tables.Matrix: lambda rows: Matrix(rows.values, labels(rows.names or ())),
    tables.Delimited: _delimited,
}
"""Classes of tables in results -> what makes tables of them, which refer to their rows."""


# Values as JSON, for arguments.


def as_json(
    value: Any,
    columns: Sequence[str] = (),
    rows: Sequence[int] | None = None,
    *,
    writer: Writer | None = None,
    table: Table | None = None,
) -> Any:
    """Return a value as JSON: a table as a list of objects, a single column of values as a list.

    Args:
        value: The value.
        columns: Only these columns, in this order. They may be of an index.
        rows: Only the rows with these numbers.
        writer: The limits.
        table: The value as a table, if it was made already.

    Raises:
        ArgumentsError: The value has no such column, no rows or columns at all, or it exceeds a limit.
    """
    writer = writer or Writer(strict=True)
    if table is None:
        table = table_of(value)
    if table is None:
        if columns or rows is not None:
            raise ArgumentsError(f"a {class_name(type(value))} has no rows and columns")
        return writer.plain(value)
    if not columns and list in bases(type(value)):  # as it is: objects may lack members
        items = list.__getitem__
        return writer.plain(value if rows is None else [items(value, row) for row in rows])
    if not columns and rows is None and type(table) is Lists:
        return writer.plain(value)
    positions = table.positions(columns)
    count = len(positions) if columns else table.width
    if count > MAX_COLUMNS:
        raise ArgumentsError(f"{count:,} columns are too many, the most are {MAX_COLUMNS:,}; name fewer")
    numbers = range(len(table)) if rows is None else rows
    names = [table.columns[position] for position in positions]
    cells = table.rows(numbers, positions, writer)
    return [dict(zip(names, row, strict=True)) for row in cells]
