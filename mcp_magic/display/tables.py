"""Finds tables in JSON and text (records, columns, CSV, Markdown, HTML) and displays them.

One rule says what is a table. It finds all tables of a value and chooses the main one. Where it cannot choose, the
display shows the whole value, and `.df` raises an error that names each table. The rule reads structured content, or
the text if that holds more. `.df` asks how large a DataFrame would be before it makes one (`Rows.shape`).
"""

from __future__ import annotations

import ast
import bisect
import csv
import html
import io
import json
import re
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, zip_longest
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names, plural
from mcp_magic.display import document
from mcp_magic.display.document import Markup, Part, aligned, columns_that_fit, note, table, terminal_width
from mcp_magic.display.json import NOT_JSON, brief, loads, loads_beginning, pretty, tree
from mcp_magic.display.text import cut, harmless, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd

    from mcp_magic.display.document import Budget
    from mcp_magic.schema import Field

# Tables in a JSON value: one rule for `.df`, `.frames` and the display.
#
# A `Rows` refers to rows and their layout without copying them: a display reads only the first rows, and pandas makes a
# DataFrame in one pass over the server's data.

MAX_COLUMNS = 5_000  # most columns of a DataFrame; pandas takes seconds to name more

MAX_CELLS = 1_000_000
"""Most cells of a mostly empty DataFrame: each row gets the columns of all rows, so a megabyte can make billions."""

_SCALARS = {str, int, float, bool, type(None)}
_NAMES = ("columns", "headers", "header", "fields", "meta", "cols", "column_names", "columnNames")
"""Members that name the columns of the rows beside them; `meta` is ClickHouse's."""
_NAMES_WITHIN = (("schema", "fields"), ("resultSetMetaData", "rowType"))  # the same in BigQuery, Snowflake
_NAME = ("name", "id", "key", "field", "label", "title", "column_name")
"""Members that give a column's name if an object describes the column."""
_VALUES = ("data", "rows", "values", "records")
_PAYLOAD = frozenset([*_VALUES, "items", "results", "result", "entries", "hits", "matches"])
"""Members that usually hold the requested data."""
_COUNTS = (
    *("total", "count", "total_count", "totalCount", "total_results", "totalResults", "num_results", "numResults"),
    *("result_count", "resultCount", "row_count", "rowCount"),
)
"""Members that count what was found."""
_ASIDE = frozenset(["errors", "warnings", "notices", "notes", "hints"])  # members with remarks about the answer

_DEEPEST = 6  # levels of nested objects that are searched
_MOST = 50  # most tables of one value
_JUDGED = 20  # rows below a possible header that are read to judge it
_MAX_NAMES = 5  # most members of an object that a message names


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(ABC):
    """A table found in a value."""

    values: Any  # what holds the rows; each subclass has a layout of its own
    names: list[str] | None = None  # the names of the columns, if they stand beside the values
    path: tuple[str, ...] = ()  # names of the members that lead from the value to the rows
    single: bool = False  # whether it is one object read as a row: `.df` returns it, but no table is displayed
    keyed: bool = False  # whether the rows are members of an object, whose names are the first column
    weak: bool = False  # whether a list of objects beside these rows is preferred as the table

    def count(self) -> int | None:
        """Return the number of rows, or None if counting is too slow for display."""
        return len(self.values)

    @abstractmethod
    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""

    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of rows and columns of `frame()`, and of its cells that were sent."""
        rows, columns = self.count() or 0, len(self.head(1)[0])
        return rows, columns, rows * columns

    def frame(self) -> pd.DataFrame:
        """Return all rows, with the types that pandas infers."""
        import pandas as pd

        return pd.DataFrame(self.values, columns=self.names)


class Records(Rows):
    """A list of objects."""

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        first = self.values[:limit]
        names = list(dict.fromkeys(name for record in first for name in record))
        return [str(name) for name in names], [[record.get(name) for name in names] for record in first]

    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of rows and columns of `frame()`, and of its cells that were sent."""
        columns = len(set[str]().union(*self.values))
        return len(self.values), columns, sum(map(len, self.values))


class Columns(Rows):
    """An object of equally long lists, one per column."""

    def count(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.values.values())))

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        columns = [column[:limit] for column in self.values.values()]
        return [str(name) for name in self.values], [list(row) for row in zip(*columns, strict=True)]


class Matrix(Rows):
    """A list of lists, with or without column names; a shorter list has no values in the last columns."""

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        names = self.names or [str(index) for index in range(max(map(len, self.values), default=0))]
        return names, [[*row, *[None] * (len(names) - len(row))] for row in self.values[:limit]]

    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of rows and columns of `frame()`, and of its cells that were sent."""
        return len(self.values), len(self.head(0)[0]), sum(map(len, self.values))

    def frame(self) -> pd.DataFrame:
        """Return all rows, with the types that pandas infers."""
        import pandas as pd

        lengths = set(map(len, self.values))
        if len(lengths) < 2 and (self.names is None or lengths <= {len(self.names)}):
            return pd.DataFrame(self.values, columns=self.names)
        return pd.DataFrame(self.head(len(self.values))[1], columns=self.names)


def check_shape(rows: int, columns: int, cells: int) -> None:
    """Raise ValueError if a DataFrame would have too many columns, or too many cells that are mostly empty."""
    if columns > MAX_COLUMNS:
        raise ValueError(f"{columns:,} columns; a DataFrame gets at most {MAX_COLUMNS:,}. .data or .text has them")
    if rows * columns > max(MAX_CELLS, 4 * cells):
        raise ValueError(
            f"{rows:,} rows x {columns:,} columns, of which {cells:,} cells were sent; "
            "a DataFrame would fill the memory with empty ones. .data or .text has them"
        )


def find_tables(data: Any, schema: dict[str, Any] | None = None, *, boxed: bool = False) -> list[Rows]:
    """Return all tables of a JSON value in order; without any, the value itself if it can be one row.

    These are tables:

    - a list of objects; a list of lists; a list of scalars (one column, "value")
    - column names and rows side by side: `{"columns": ["a"], "rows": [[1]]}`, the names as text or `{"name": "a"}`
    - an object of equally long lists; if it also has scalars, it needs at least two lists, one with a number
    - an object of objects with similar members: one row each, with its name in the first column
    - any of these nested in objects. There, a list of scalars or of lists is a table only if the member's name
      says so ("results", "data"); an empty list also if the object has nothing else, if the output schema declares
      it as a list of objects, or if the object says that it counted none ("total": 0).

    In a list of lists, the first list names the columns if it has only texts, all different and none empty, and what is
    below it differs: the second list is not all text, or a column has only numbers, dates, true and false, written as
    text. The lists may have different lengths if the first one is such a header and none is longer, if names stand
    beside them, or if the member's name says that they are rows; missing cells are null.
    """
    if isinstance(data, list):
        rows = _in_list(data)
        return _ranges(data) or ([rows] if rows is not None else [])
    if not isinstance(data, dict) or not data:
        return []
    tables = list(islice(_in_object(data, 0), _MOST))
    return tables or _none_found(data, _place(schema, (), boxed=boxed)) or _one_row(data)


def main_tables(tables: Sequence[Rows]) -> list[Rows]:
    """Return the main table of a value, or several if no rule decides between them.

    In this order, the rules prefer other tables to warnings and errors, members named "results", "data" or similar to
    other members, tables with rows to empty ones, lists of objects to weak tables, and outer tables to inner ones.
    """
    candidates = list(tables)
    candidates = [rows for rows in candidates if not _ASIDE.intersection(rows.path)] or candidates
    candidates = [rows for rows in candidates if _PAYLOAD.intersection(rows.path)] or candidates
    candidates = [rows for rows in candidates if rows.count() != 0] or candidates
    candidates = [rows for rows in candidates if not rows.weak] or candidates
    outermost = min((len(rows.path) for rows in candidates), default=0)
    return [rows for rows in candidates if len(rows.path) == outermost]


def find_rows(data: Any) -> Rows | None:
    """Return the main table of a JSON value, or None if there is none or several."""
    tables = main_tables(find_tables(data))
    return tables[0] if len(tables) == 1 else None


def _types(values: Iterable[Any]) -> set[type]:
    return set(map(type, values))


def _in_list(values: list[Any], *, are_rows: bool = False) -> Rows | None:
    types = _types(values)
    if types <= {dict}:
        return Records(values=values)
    if types <= _SCALARS:
        return Columns(values={"value": values})
    if not types <= {list, tuple}:
        return None
    names = _header(values)
    if names is not None:
        return Matrix(values=values[1:], names=names)
    is_ragged = len(set(map(len, values))) > 1
    if is_ragged:
        return Matrix(values=values) if are_rows and _types(chain.from_iterable(values)) <= _SCALARS else None
    return Matrix(values=values) if values[0] else None


def _header(values: Sequence[Sequence[Any]]) -> list[str] | None:
    """Return the first of several lists if it names the columns, or None; the rule is in `find_tables`."""
    first = values[0]
    if len(values) == 1 or not first or not all(isinstance(name, str) and name for name in first):
        return None
    if len(set(first)) < len(first):
        return None
    lengths = set(map(len, values))
    if max(lengths) > len(first):
        return None
    below = values[1 : _JUDGED + 1] if len(lengths) > 1 else values[1:2]
    if any(not isinstance(value, str) for row in below for value in row):
        return list(first)
    sample = values[1 : _JUDGED + 1]
    if any(map(_is_value, first)) or not all(isinstance(value, str) for row in sample for value in row):
        return None
    columns = ([value for value in column if value] for column in zip_longest(*sample))
    return list(first) if any(column and all(map(_is_value, column)) for column in columns) else None


def _ranges(values: list[Any]) -> list[Rows]:
    """Return a table for each range of cells, as Google Sheets answers for several; [] for other lists."""
    if not values or not all(isinstance(item, dict) and isinstance(item.get("range"), str) for item in values):
        return []
    tables: list[Rows] = []
    for item in values[:_MOST]:
        cells = item.get("values", [])
        rows = _in_list(cells, are_rows=True) if isinstance(cells, list) else None
        if not isinstance(rows, Matrix) and cells:
            return []
        if isinstance(rows, Matrix):
            tables.append(replace(rows, path=(item["range"],)))
    return tables


def _in_object(data: dict[str, Any], depth: int) -> Iterator[Rows]:
    own = _split(data) or _columns(data, depth) or _keyed(data)
    if own is not None:
        yield own
        return
    lists_alone = all(key in _ASIDE or value == [] or _holds_objects(value) for key, value in data.items())
    for name, value in data.items():
        inner: Iterable[Rows] = ()
        if isinstance(value, list):
            is_payload = str(name).lower() in _PAYLOAD or (not value and lists_alone)
            rows = _in_member(name, value, is_payload=is_payload)
            inner = _ranges(value) or (() if rows is None else (rows,))
        elif isinstance(value, dict) and value and depth < _DEEPEST:
            inner = _in_object(value, depth + 1)
        for rows in inner:
            yield replace(rows, path=(str(name), *rows.path))


def _split(data: dict[str, Any]) -> Rows | None:
    """Return names and rows that stand side by side, as in pandas' orient="split", SQL services and spreadsheets."""
    members = [(key, data[key]) for key in _VALUES if isinstance(data.get(key), list)]
    names = _names(data)
    if not any(names) or len(members) != 1:
        return None
    names = _numbered(names)
    member, values = members[0]
    types = _types(values)
    if values and types == {dict}:
        cells = _cells_of_bigquery(values)
        if cells is None:
            return Records(values=values, path=(member,))
        values, types = cells, {list}
    if not types <= {list, tuple}:
        return None
    lengths = set(map(len, values))
    widest = max(lengths, default=0)
    if len(lengths) == 1 and widest < len(names):  # no row has so many cells: these are no names of columns
        return None
    unnamed = [f"Unnamed: {index}" for index in range(len(names), widest)]
    return Matrix(values=values, names=[*names, *unnamed], path=(member,))


def _names(data: dict[str, Any]) -> list[str]:
    """Return the names of columns that an object gives beside the rows, "" for one that is not plain; [] if none."""
    candidates = [data.get(key) for key in _NAMES]
    candidates += [inner.get(key) for member, key in _NAMES_WITHIN if isinstance(inner := data.get(member), dict)]
    names = []
    for column in next((columns for columns in candidates if isinstance(columns, list)), ()):
        if isinstance(column, dict):
            column = next((column[key] for key in _NAME if isinstance(column.get(key), str)), "")
        is_number = isinstance(column, int | float) and not isinstance(column, bool)
        names.append(json.dumps(column) if is_number else column if isinstance(column, str) else "")
    return names


def _numbered(names: list[str]) -> list[str]:
    """Return the names of columns, all different: a join of SQL gives a name twice, and an expression may have none.

    >>> _numbered(["a", "a", "a 2", "", "a"])
    ['a', 'a 3', 'a 2', 'Unnamed: 3', 'a 4']
    """
    names_set, numbers, result = set(names), dict[str, int](), []
    for index, name in enumerate(names):
        base = name or f"Unnamed: {index}"
        result.append(base)
        while result[-1] in numbers or (result[-1] in names_set and result[-1] != name):
            numbers[base] = numbers.get(base, 1) + 1
            result[-1] = f"{base} {numbers[base]}"
        numbers.setdefault(result[-1], 1)
    return result


def _cells_of_bigquery(values: list[dict[str, Any]]) -> list[list[Any]] | None:
    """Return the cells of BigQuery's rows, `{"f": [{"v": cell}]}`; None for other objects."""
    if not all(len(row) == 1 and isinstance(row.get("f"), list) for row in values):
        return None
    return [[cell.get("v") if isinstance(cell, dict) else cell for cell in row["f"]] for row in values]


def _columns(data: dict[str, Any], depth: int) -> Rows | None:
    """Return equally long lists of scalars as columns; a single list beside other members is no table."""
    lists = {name: value for name, value in data.items() if isinstance(value, list)}
    columns = list(lists.values())
    if not columns or not columns[0] or len(set(map(len, columns))) != 1:
        return None
    if depth and len(columns) == 1:
        return None
    types = [_types(column) for column in columns]
    if not all(kinds <= _SCALARS for kinds in types):
        return None
    if len(lists) < len(data):
        others = [value for value in data.values() if not isinstance(value, list)]
        flat = all(type(v) in _SCALARS or (isinstance(v, dict) and _types(v.values()) <= _SCALARS) for v in others)
        numbers = any(kinds & {int, float} for kinds in types)
        if not (flat and numbers and len(columns) > 1 and len(columns[0]) > 1):
            return None
    elif _ASIDE.intersection(lists) and not lists.keys() <= _ASIDE:
        return None
    return Columns(values=lists)


def _keyed(data: dict[str, Any]) -> Rows | None:
    """Return an object's members as rows if they are similar objects."""
    if len(data) < 2 or _types(data.values()) != {dict}:
        return None
    names = [set(shape) for shape in {tuple(member) for member in data.values()}]  # of most members they are the same
    common, every = set.intersection(*names), set.union(*names)
    if 2 * len(common) < len(every):
        return None
    if not any(all(type(member[name]) in _SCALARS for member in data.values()) for name in common):
        return None
    others = every - common
    if others and any(_holds_objects(member.get(name)) for member in data.values() for name in others):
        return None
    key = "key"
    while key in every:
        key += "_"
    return Records(values=[{key: name} | member for name, member in data.items()], keyed=True, weak=True)


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _in_member(name: str, values: list[Any], *, is_payload: bool) -> Rows | None:
    """Return the rows of a list in an object, or None if the list is only one of the object's values."""
    if values and _types(values) == {dict}:
        return Records(values=values)
    if not is_payload:
        return None
    rows = _in_list(values, are_rows=True) if values else Records(values=[])
    if isinstance(rows, Columns):
        return Columns(values={name: values}, weak=True)
    return replace(rows, weak=bool(values)) if rows is not None else None


def _none_found(data: dict[str, Any], place: Field | None, path: tuple[str, ...] = ()) -> list[Rows]:
    """Return the empty lists that stand for rows: by the output schema, else beside a count of none."""
    empty = [name for name, value in data.items() if value == []]
    counted_none = len(empty) == 1 and any(data.get(name) == 0 for name in _COUNTS)
    tables: list[Rows] = []
    for name in empty:
        member = place.child(name) if place is not None else None
        item = member.item if member is not None else None
        is_rows = counted_none if member is None else getattr(item, "kind", "") == "object"
        if is_rows:
            tables.append(Records(values=[], path=(*path, name)))
    if not path:
        for name, value in data.items():
            if name in _PAYLOAD and isinstance(value, dict):
                tables += _none_found(value, place.child(name) if place is not None else None, (name,))
    return tables


def _one_row(data: dict[str, Any]) -> list[Rows]:
    """Return an object as one row if it is flat (scalars and lists of scalars), else the one flat object it wraps."""
    if _is_flat(data):
        return [Records(values=[data], single=True)]
    boxed = [name for name, value in data.items() if name in _PAYLOAD and isinstance(value, dict) and _is_flat(value)]
    return [Records(values=[data[boxed[0]]], single=True, path=(boxed[0],))] if len(boxed) == 1 else []


def _is_flat(data: dict[str, Any]) -> bool:
    lists = [value for value in data.values() if isinstance(value, list)]
    plain = [value for value in data.values() if not isinstance(value, list)]
    return bool(plain) and {*map(type, plain)} <= _SCALARS and all(_types(items) <= _SCALARS for items in lists)


_NOUNS = {str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def describe(data: Any) -> str:
    """Return a description of a JSON value, for the message that it holds no table."""
    if isinstance(data, dict):
        names = [one_line(str(key), 40) for key in islice(data, _MAX_NAMES)]
        names += list(data)[_MAX_NAMES:]  # these are only counted
        return f"an object with {join_names(names, limit=_MAX_NAMES)}" if data else "an empty object"
    if isinstance(data, list):
        return f"a list of {len(data):,} values of different kinds" if data else "an empty list"
    return _NOUNS.get(type(data), type(data).__name__)


# Column types of a DataFrame, from an output schema.

_FORMATS = {"date-time", "date", "duration"}
_INT64 = 2**63
_EXACT = 2**53  # all integers below have an exact float (IEEE 754)


def is_wrapper(schema: dict[str, Any] | None) -> bool:
    """Return whether a schema declares only `{"result": ...}`, as Python SDKs wrap other values than objects."""
    if schema is None or schema.get("x-fastmcp-wrap-result") is True:
        return True
    return list(schema.get("properties") or ()) == ["result"]


def declared(schema: dict[str, Any] | None, rows: Rows, *, boxed: bool = False) -> dict[str, str]:
    """Return the kind (integer, date-time, ...) that a tool's output schema declares for each column; "" for others."""
    place = _place(schema, rows.path, boxed=boxed)
    if place is None:
        return {}
    if not isinstance(rows, Columns):
        item = place if rows.single else place.additional if rows.keyed else place.item
        return {} if item is None or isinstance(item, bool) else {field.name: _kind(field) for field in item.children}
    if place.kind == "array":
        return {name: _kind(place.item) for name in rows.values}
    return {field.name: _kind(field.item) for field in place.children}


def _place(schema: dict[str, Any] | None, path: Sequence[str], *, boxed: bool) -> Field | None:
    """Return what an output schema declares for a member, or None; `boxed` as in `declared`."""
    from mcp_magic.schema import root_field

    place = root_field(schema) if schema else None
    for name in ["result", *path] if boxed else path:
        place = place.child(name) if place is not None else None
    return place


def _kind(field: Field | None) -> str:
    kind = field.schema.get("type") if field is not None else None
    if field is not None and kind == "string":
        return field.format if field.format in _FORMATS else ""
    return kind if kind in ("integer", "number", "boolean") else ""


def typed(frame: pd.DataFrame, rows: Rows, kinds: dict[str, str]) -> pd.DataFrame:
    """Return `frame` with the declared column types; a column that cannot be converted stays unchanged."""
    import pandas as pd

    if frame.empty and not len(frame.columns) and kinds:
        frame = pd.DataFrame(columns=list(kinds))
    for name in frame.columns:
        column = frame[name]
        with suppress(TypeError, ValueError, OverflowError):
            converted = _converted(column, rows, kinds.get(name, ""))
            if converted is not column:
                frame[name] = converted
    return frame


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
        case "duration":
            return pd.to_timedelta(column)
    if column.dtype.kind == "f" and (column.abs() >= _EXACT).any():
        # Integers became floats because one is missing, and the floats cannot hold all their digits.
        values = _values(column, rows) or [""]
        return _integers(column, rows) if all(v is None or type(v) is int for v in values) else column
    return column


def _integers(column: pd.Series[Any], rows: Rows) -> Any:
    """Return exact integers, from the sent values if pandas has made floats (because one is missing)."""
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
    """Return the values that were sent for a column, or None for layouts that do not keep them."""
    name = str(column.name)
    if isinstance(rows, Records):
        return [record.get(name) for record in rows.values]
    if isinstance(rows, Matrix):
        index = rows.names.index(name) if rows.names else int(name)
        return [row[index] if index < len(row) else None for row in rows.values]
    return rows.values[name] if isinstance(rows, Columns) else None


# Delimited text: CSV and similar formats (RFC 4180).

DELIMITERS = ("\t", ",", ";", "|")
SAMPLE = 65_536  # characters of a text that are read to judge its format
_MAX_COUNTED = 1_000_000  # longest text, in characters, whose rows are counted for display

_VALUE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?|true|false|\d{4}-\d\d-\d\d.*|", re.IGNORECASE)

_CODE = re.compile(r"[=;{}<>\[\]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited(Rows):
    """Delimited text; its first row names the columns."""

    delimiter: str = ","

    def count(self) -> int | None:
        """Return the number of rows; None for long texts."""
        if len(self.values) > _MAX_COUNTED:
            return None
        try:
            return sum(1 for row in self._reader(self.values) if row) - 1
        except csv.Error:  # a cell of more than 131,072 characters
            return None

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        rows = self._sampled()
        first = rows[1 : limit + 1]
        names = _with_unnamed(rows[0], first) if rows else []
        return names, [(row + [""] * len(names))[: len(names)] for row in first]

    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of rows (from line ends) and columns (from the first row), and of cells that were sent."""
        lines = max(self.values.count("\n"), self.values.count("\r"))
        columns = 0
        with suppress(csv.Error):
            columns = len(next(self._reader(self.values), ()))
        return lines, columns, lines + self.values.count(self.delimiter)

    def frame(self) -> pd.DataFrame:
        """Return all rows with the types that pandas infers; ValueError or csv.Error if it cannot."""
        import pandas as pd

        try:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # it would print a line that names every column
                return self._read()
        except pd.errors.EmptyDataError:
            return pd.DataFrame()
        except pd.errors.ParserWarning:  # pandas would drop unnamed columns, or make the first column an index
            rows = list(self._reader(self.values))
        names = _with_unnamed(next(row for row in rows if row), rows)
        check_shape(len(rows), len(names), sum(map(len, rows)))
        return self._read(names=names, header=0)

    def _read(self, **options: Any) -> pd.DataFrame:
        import pandas as pd

        options |= {"sep": self.delimiter, "skipinitialspace": True, "index_col": False}
        frame: pd.DataFrame = pd.read_csv(io.StringIO(self.values), **options)
        return frame

    def columns(self) -> tuple[int, int]:
        """Return the number of columns if all sampled rows have equally many (else 0), and that of the first row."""
        rows = self._sampled()
        first = len(rows[0]) if rows else 0
        return (first if first > 1 and all(len(row) == first for row in rows) else 0), first

    def looks_like_rows(self) -> bool:
        """Whether the sampled text is clearly a table."""
        rows = self._sampled()
        if len(rows) < 2 or len(rows[0]) < 2 or len(set(map(len, rows))) != 1:
            return False
        header = rows[0]
        if len(set(header)) != len(header) or any(_is_value(name) or len(name) > 60 for name in header):
            return False
        # The first row of prose: "Two cities, the largest first:".
        last = header[-1].rstrip()
        is_prose = last.endswith(":") or (last.endswith((".", "!")) and any(len(name.split()) > 2 for name in header))
        if is_prose or any("\n" in name for name in header):
            return False
        # In prose, a space follows a delimiter.
        tight = re.search(rf"{re.escape(self.delimiter)}(?![\s\d]|\Z)", self.values[:SAMPLE]) is not None
        return tight or any(all(map(_is_value, column)) for column in zip(*rows[1:], strict=True))

    def _reader(self, text: str) -> Any:
        start = 1 if text.startswith("\ufeff") else 0  # the byte order mark that Excel writes
        return csv.reader(io.StringIO(text[start:], newline=""), delimiter=self.delimiter, skipinitialspace=True)

    def _sampled(self) -> list[list[str]]:
        text = self.values[:SAMPLE]
        try:
            rows = [row for row in self._reader(text) if row]
        except csv.Error:
            return []
        return rows[:-1] if len(self.values) > SAMPLE else rows  # the last row is cut off


def delimited(text: str, expected: str) -> Delimited:
    """Return the rows of a delimited text, with the delimiter that makes most columns: a CSV may have semicolons."""
    text = text.removeprefix("\ufeff")
    candidates = [Delimited(values=text, delimiter=delimiter) for delimiter in dict.fromkeys((expected, *DELIMITERS))]
    return max(candidates, key=Delimited.columns)


def _is_value(cell: str) -> bool:
    return _VALUE.fullmatch(cell.strip()) is not None


def _with_unnamed(names: list[str], rows: list[list[str]]) -> list[str]:
    """Return the names, with numbered ones appended for further columns that are not empty."""
    width = max((index + 1 for row in rows for index, cell in enumerate(row) if cell), default=0)
    return names + [f"Unnamed: {index}" for index in range(len(names), width)]


# Tables in text: JSON, CSV and similar formats, JSON Lines, Markdown tables, rows as Python prints them.
#
# Text counts as prose unless it clearly is a table: two sentences with one comma each are not, two rows of HTML
# are. Each character is read a bounded number of times, whatever the text.

MAX_PYTHON = 200_000
"""Longest text, in characters, read as Python literals: `ast` takes 5 µs a value and 250 bytes a character."""


MAX_SCANNED = 5_000_000
"""Longest text, in characters, whose paragraphs are searched for tables: it takes some 0.2 s a MB."""

_TRIES = 20  # most places in one text where JSON is tried: each try may read to the end of the text

_RULE = re.compile(r":?-+:?")
_CELL = re.compile(r"(?<!\\)\|")
_FENCES = ("```", "~~~")
_JSON = re.compile(r"(?:\s*|.*?: )(?=[{\[])")
"""What precedes JSON in a line: nothing but blanks, or all to a colon."""
_TABLE = re.compile(r"<table[\s>]", re.IGNORECASE)
_ENDS = re.compile(rf"\s*(?:$|{'|'.join(_FENCES)})|{_JSON.pattern}|(?i:.*{_TABLE.pattern})")
"""Matches a line that ends a paragraph: a blank one, a fence, or one with JSON or an HTML table."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that holds tables."""

    start: int  # index of its first character
    end: int  # index after its last character
    tables: Sequence[Rows]  # its tables; only JSON can have several
    value: Any = NOT_JSON  # the value of the JSON, or `NOT_JSON`


def passages(text: str) -> list[Passage]:
    """Return the parts of a text that hold tables: the whole text, or some of its paragraphs if it is not too long."""
    tables, value = _tables_of(text, len(text))
    if tables:
        return [Passage(0, len(text), tables, value)]
    if value is not NOT_JSON or len(text) > MAX_SCANNED:
        return []
    return list(islice(_Scan(text).passages(), _MOST))


def _tables_of(text: str, size: int) -> tuple[Sequence[Rows], Any]:
    """Return the tables of a text, a part of one of `size` characters, and its value, or `NOT_JSON`."""
    text = text.removeprefix("\ufeff")
    if not text or text.isspace():
        return [], NOT_JSON
    value = loads(text, nan=True)
    if value is not NOT_JSON:
        return find_tables(value), value
    rows = _rows_of(text, size)
    return [rows] if rows is not None else [], value


def _rows_of(text: str, size: int) -> Rows | None:
    """Return the table if the whole text, a part of one of `size` characters, is one but not JSON; else None."""
    start = text[:100].lstrip()[:1]
    if start == "<" and (passage := next(html_tables(text), None)) is not None:
        around = text[: passage.start] + text[passage.end :]
        return passage.tables[0] if not around.strip() else None
    if start in ("[", "(") and size <= MAX_PYTHON and (rows := _python_rows(text)) is not None:
        return rows
    if start == "{" and (rows := json_lines(text)) is not None:
        return rows
    candidates = [Delimited(values=text, delimiter=delimiter) for delimiter in DELIMITERS if delimiter in text[:SAMPLE]]
    return next((rows for rows in candidates if rows.looks_like_rows()), None)


def json_lines(text: str) -> Rows | None:
    """Return the rows of JSON Lines (at least two lines, one object per line), or None."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or not isinstance(loads(lines[0], nan=True), dict):
        return None
    values = [loads(line, nan=True) for line in lines]
    return Records(values=values) if all(isinstance(value, dict) for value in values) else None


def _python_rows(text: str) -> Rows | None:
    """Return rows written as Python literals, as early servers send them, or None."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    rows = find_rows(value if not isinstance(value, tuple) else list(value))
    # A list of scalars may be prose ("[1]" is a footnote), so only a list of objects or lists counts.
    return rows if rows is not None and isinstance(value, (list, tuple)) and _nested(value) else None


def _nested(value: Any) -> bool:
    return bool(value) and isinstance(value[0], (dict, list, tuple))


# Tables of HTML. Each character is read once, whatever tags are open, and repeated cells have a limit.

_TAG = re.compile(
    r"<!--(?:[^-]|-(?!->))*+(?:-->|\Z)"
    r"|<(/?)([a-z][a-z0-9]*)((?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+|[^<>]*+)>",
    re.IGNORECASE,
)
"""A comment, or a tag: whether it ends an element, the element's name, and the attributes."""
_SPAN = re.compile(r"(col|row)span\s*=\s*[\"']?\s*(\d{1,5})", re.IGNORECASE)
_UNSHOWN = ("script", "style", "template")
_BREAKS = ("br", "p", "div", "li", "table")  # elements that separate words
_REPEATED = 10_000  # characters that cells over several rows and columns may add to any table


def html_tables(text: str) -> Iterator[Passage]:
    """Yield the outer `<table>` elements of HTML that hold rows."""
    first = _TABLE.search(text)
    depth, start, at, unshown = 0, 0, 0, ""
    rows = _HtmlRows(0)
    for tag in _TAG.finditer(text, first.start() if first is not None else len(text)):
        if depth and not unshown:
            rows.add(text[at : tag.start()])
        at = tag.end()
        ends, name = bool(tag[1]), (tag[2] or "").lower()
        if unshown or name in _UNSHOWN:
            unshown = "" if unshown == name and ends else unshown or ("" if ends else name)
        elif name == "table" and not ends:
            depth += 1
            if depth == 1:
                start, rows = tag.start(), _HtmlRows(len(text))
        elif name == "table" and depth:
            depth -= 1
            if not depth and (table := rows.table()) is not None:
                yield Passage(start, at, [table])
        elif depth == 1:
            rows.tag(name, tag[3], ends=ends)
        if name in _BREAKS:
            rows.add(" ")


class _HtmlRows:
    """Collects the cells of a table; one that spans several rows or columns is repeated in each of them, as in pandas.

    Args:
        size: The length of the text, which limits the characters of all cells.
    """

    def __init__(self, size: int) -> None:
        self._room = 2 * size + _REPEATED
        self._rows: list[list[str]] = []
        self._headers: list[bool] = []  # of each row: whether all its cells are `<th>`
        self._row: list[str] | None = None
        self._is_header = False
        self._cell: list[str] | None = None
        self._spans = 1, 1  # columns and rows of the cell
        self._below: dict[int, tuple[int, str]] = {}  # column -> rows that its cell has left, and its text

    def add(self, text: str) -> None:
        """Add text to the open cell."""
        if self._cell is not None:
            self._cell.append(text)

    def tag(self, name: str, attributes: str, *, ends: bool) -> None:
        """Begin or end a row or a cell; as in HTML, the next one ends one that is open."""
        if self._room < 0:
            return
        if name in ("tr", "thead", "tbody", "tfoot"):
            self._end_row()
            if name == "tr" and not ends:
                self._row, self._is_header = [], True
        elif name in ("td", "th"):
            self._end_cell()
            if not ends:
                self._row = self._row if self._row is not None else []
                self._is_header = self._is_header and name == "th"
                spans = {span[1].lower(): max(int(span[2]), 1) for span in _SPAN.finditer(attributes)}
                self._cell, self._spans = [], (spans.get("col", 1), spans.get("row", 1))

    def _put(self, text: str) -> None:
        assert self._row is not None
        self._room -= len(text) + 1
        if len(self._row) >= MAX_COLUMNS:
            self._room = -1
        if self._room >= 0:
            self._row.append(text)

    def _put_from_above(self, *, all_columns: bool) -> None:
        """Repeat the cells of earlier rows that come next in the open row, or all of them."""
        assert self._row is not None
        last = max(self._below, default=-1) if all_columns else -1
        while self._room >= 0 and (len(self._row) in self._below or len(self._row) <= last):
            count, text = self._below.pop(len(self._row), (1, ""))
            if count > 1:
                self._below[len(self._row)] = count - 1, text
            self._put(text)

    def _end_cell(self) -> None:
        if self._cell is None or self._row is None:
            return
        text = " ".join(html.unescape("".join(self._cell)).split())
        self._cell = None
        columns, rows = self._spans
        self._put_from_above(all_columns=False)
        for _ in range(columns):
            if self._room < 0:
                return
            if rows > 1:
                self._below[len(self._row)] = rows, text
                self._put_from_above(all_columns=False)
            else:
                self._put(text)

    def _end_row(self) -> None:
        self._end_cell()
        if self._row is None:
            return
        self._put_from_above(all_columns=True)
        if any(self._row):
            self._rows.append(self._row)
            self._headers.append(self._is_header)
        self._row = None

    def table(self) -> Rows | None:
        """Return the rows, or None if the table has none or cells that repeat too much."""
        self._end_row()
        width = max(map(len, self._rows), default=0)
        if self._room < 0 or len(self._rows) < 2 or (width < 2 and not self._headers[0]):
            return None
        names = self._rows[0] if self._headers[0] else _header(self._rows)
        values = self._rows[1:] if names is not None else self._rows
        names = [*(names or map(str, range(width))), *[""] * width][:width]
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow([name or f"Unnamed: {index}" for index, name in enumerate(names)])
        writer.writerows([*row, *[""] * (width - len(row))] for row in values)
        return Delimited(values=out.getvalue())


class _Scan:
    """Scans the lines of a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        self._tries = _TRIES
        self._html: dict[int, list[Passage]] = {}  # HTML tables by the line in which they begin
        for passage in islice(html_tables(text), _MOST):
            self._html.setdefault(self._line_of(passage.start), []).append(passage)

    def _line_of(self, position: int) -> int:
        return bisect.bisect_right(self._starts, position) - 1

    def passages(self) -> Iterator[Passage]:
        """Yield the passages that hold tables."""
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            last, passage = number + 1, None
            if number in self._html:
                yield from self._html[number]
                end = self._line_of(self._html[number][-1].end - 1)
                last = end if end > number and end in self._html else end + 1
            elif not line:
                pass
            elif line.lstrip().startswith(_FENCES):
                last, passage = self._fenced(number)
            elif (begins := _JSON.match(line)) and (read := self._json(number, begins.end())) is not None:
                start, end, value = read
                last = bisect.bisect_left(self._starts, end, last, len(self._lines))
                tables = [rows for rows in find_tables(value) if not rows.single]
                passage = self._passage(start, end, tables, value)
            elif self._is_markdown(number):
                last, passage = self._markdown(number)
            elif line.strip():
                last, passage = self._paragraph(number)
            if passage is not None:
                yield passage
            number = last

    def _passage(self, start: int, end: int, tables: Sequence[Rows], value: Any = NOT_JSON) -> Passage | None:
        return Passage(start, min(end, len(self._text)), tables, value) if tables else None

    def _json(self, number: int, begins: int) -> tuple[int, int, Any] | None:
        """Read the JSON that begins in a line; a list of scalars does not count, as "[1]" may be a footnote."""
        if not self._tries:
            return None
        self._tries -= 1
        start = self._starts[number] + begins
        value, end = loads_beginning(self._text, start, nan=True)
        return (start, end, value) if isinstance(value, dict) or (isinstance(value, list) and _nested(value)) else None

    def _fenced(self, number: int) -> tuple[int, Passage | None]:
        """Read a fenced code block of Markdown; an unclosed one extends to the end of the text."""
        fence = self._lines[number].lstrip()[:3]
        last = number + 1
        while last < len(self._lines) and not self._lines[last].lstrip().startswith(fence):
            last += 1
        tables, value = _tables_of("\n".join(self._lines[number + 1 : last]), len(self._text))
        after = min(last + 1, len(self._lines))
        return after, self._passage(self._starts[number], self._starts[after] - 1, tables, value)

    def _is_markdown(self, number: int) -> bool:
        """Whether a line is the header of a Markdown table: the next line must be its rule."""
        if "|" not in self._lines[number] or "|" not in "".join(self._lines[number + 1 : number + 2]):
            return False
        rule = _cells(self._lines[number + 1])
        return all(_RULE.fullmatch(cell) for cell in rule) and len(_cells(self._lines[number])) == len(rule) >= 2

    def _markdown(self, number: int) -> tuple[int, Passage | None]:
        width = len(_cells(self._lines[number]))
        last = number + 2
        while last < len(self._lines) and "|" in self._lines[last]:
            last += 1
        out = io.StringIO(newline="")
        lines = (self._lines[number], *self._lines[number + 2 : last])
        csv.writer(out).writerows(_cells(line)[:width] for line in lines)  # GitHub drops surplus cells too
        tables = [Delimited(values=out.getvalue())] if last > number + 2 else []
        return last, self._passage(self._starts[number], self._starts[last] - 1, tables)

    def _paragraph(self, number: int) -> tuple[int, Passage | None]:
        """Find delimited rows in a paragraph, from its first line or after one or two lines of prose."""
        last = number + 1
        while last < len(self._lines) and not (_ENDS.match(self._lines[last]) or self._is_markdown(last)):
            last += 1
        for first in range(number, min(number + 3, last - 1)):
            lines = self._lines[first:last]
            for delimiter in DELIMITERS:
                count = _rows_alike(lines, delimiter) if delimiter in lines[0] else 0
                rows = Delimited(values="\n".join(lines[:count]), delimiter=delimiter)
                if count < 2 or not rows.looks_like_rows():
                    continue
                # amid prose, the first row must not look like code
                if not any(_CODE.search(name) or name.count("(") != name.count(")") for name in rows.head(0)[0]):
                    return last, self._passage(self._starts[first], self._starts[first + count] - 1, [rows])
        return last, None


def _rows_alike(lines: list[str], delimiter: str) -> int:
    """Return how many lines, from the first, are rows with equally many cells."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    width = count = 0
    try:
        for row in reader:
            width = width or len(row)
            if len(row) != width:
                break
            count = reader.line_num
    except csv.Error:
        return 0
    return count


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if "\\" not in line:
        return [cell.strip() for cell in line.removesuffix("|").split("|")]
    if not line.endswith("\\|"):
        line = line.removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)]


# Parts of data and text: a table if they hold rows, a tree for other JSON, else text.

_BESIDE = 10  # most other members of an object that are shown below its rows


def verbatim_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return text unchanged; if it is cut, with its length and `how`, the attribute that has all of it."""
    limit = budget.characters
    beginning = cut(text, limit)
    rest = ""
    if len(text) > limit:
        rest = f"… {limit:,} of {len(text):,} characters: {how} has all of them"
    return Part.stack(Part.pre(beginning), Part.note(rest))


def text_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return text as JSON, as a table or as text; text longer than the budget's `parse` is not parsed."""
    if not budget.take("parse", len(text)):
        return verbatim_part(text, budget, how)
    value = loads(text)
    if value is None or isinstance(value, (dict, list)):
        return data_part(value, budget)
    parts = passages(text) if value is NOT_JSON else []
    tables = [rows for passage in parts for rows in main_tables(passage.tables) if not rows.single]
    if len(tables) == len(parts) == 1:
        return _among_prose(text, parts[0], budget, how)
    return _with_note(verbatim_part(text, budget, how), tables)


def _among_prose(text: str, passage: Passage, budget: Budget, how: str) -> Part:
    """Return a table between the texts before and after it."""
    around = [text[: passage.start].strip(), text[passage.end :].strip()]
    share = replace(budget, bytes=budget.bytes // (1 + sum(map(bool, around))))
    table = rows_part(passage.tables[0], share) if passage.value is NOT_JSON else data_part(passage.value, share, how)
    before, after = (verbatim_part(words, share, how) if words else Part("", Markup()) for words in around)
    return Part.stack(before, table, after, gap="\n\n")


def data_part(data: Any, budget: Budget, how: str = ".data") -> Part:
    """Return a JSON value as a table if it holds one, as a tree if it has members, else as text."""
    tables = main_tables(find_tables(data))
    if len(tables) == 1 and not tables[0].single and tables[0].count() != 0:
        names, first = tables[0].head(1)
        if first and (len(names) > 1 or (names and isinstance(tables[0], Records))):  # a list of scalars is no table
            return rows_part(tables[0], budget, rest=_beside(data, tables[0]))
    if isinstance(data, (dict, list)) and data:
        limit = budget.characters
        text, is_complete = pretty(data, limit)
        plain = text if is_complete else f"{text}\n… cut: {how} has the whole"
        return _with_note(Part(plain, tree(data, budget.bytes // 2)), tables)
    if isinstance(data, str):
        return text_part(data, budget, how)
    if data is None or isinstance(data, dict | list):
        return Part.note(f"The value is {'null' if data is None else describe(data)}.")
    return Part.pre(brief(data, document.display.characters))


def _with_note(part: Part, tables: Sequence[Rows]) -> Part:
    """Return a part, with a line that leads to `.frames` if it has several tables."""
    if len(tables) < 2:
        return part
    return Part.stack(part, Part.note(f"{len(tables)} tables: .frames has them"))


def _beside(data: Any, rows: Rows) -> str:
    """Return a line with the other members of the objects that hold the rows."""
    others: dict[str, Any] = {}
    for step in rows.path:
        if not isinstance(data, dict) or step not in data:
            return ""
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key != step and value != rows.names}
        data = data[step]
    if isinstance(data, dict) and isinstance(rows, Columns):
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key not in rows.values}
    return members_line(others)


def members_line(members: Mapping[str, Any]) -> str:
    """Return the first members of an object on one line."""
    pairs = ((one_line(key, 40), value) for key, value in islice(members.items(), _BESIDE))
    return ", ".join(f"{key}: {one_line(v, 80) if isinstance(v, str) else brief(v, 80)}" for key, v in pairs)


def rows_part(rows: Rows, budget: Budget, rest: str = "") -> Part:
    """Return the first rows as a table, with the counts, a line that leads to the other rows, and the line `rest`."""
    limit = document.display
    names, first = rows.head(limit.rows)
    columns = len(names)
    names = [brief(name, limit.cell) for name in names[: limit.columns]]
    cells = [[_cell(value) for value in row[: limit.columns]] for row in first]
    markup, count_shown = table(names, cells, limit=budget.bytes)
    total = terminal_width()
    across = columns_that_fit(names, cells[:count_shown], total=total, cell=limit.cell)
    first = [row[:across] for row in cells[:count_shown]]
    plain = aligned(names[:across], first, total=total, cell=limit.cell) if cells else "  ".join(names)
    count = rows.count()
    below = _caption(count, count_shown, columns, across if cells else len(names))
    caption = Part(below, note(_caption(count, count_shown, columns, len(names))))
    return Part.stack(Part(plain, markup), caption, Part.note(rest))


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**30):
        return value if not isinstance(value, bool) else str(value).lower()
    return brief(value, document.display.cell)


def _caption(total: int | None, count_shown: int, columns: int, across: int) -> str:
    """Return the line below a table: its size, and `.df` if not all rows and columns are shown."""
    if total is not None and count_shown >= total and columns <= across:
        return f"{plural(total, 'rows')} x {plural(columns, 'columns')}"
    count = f"{count_shown:,} of {total:,} rows" if total is not None else f"the first {count_shown:,} rows"
    wide = f", {across} of {columns} columns" if columns > across else f" x {plural(columns, 'columns')}"
    return f"{count}{wide}: .df has all of them"


def markdown_part(text: str, budget: Budget) -> Part:
    """Return Markdown made harmless: rendered if it is the only part, else shown as source."""
    plain = verbatim_part(text, budget)
    limit = budget.characters
    rest = f"\n\n*… {limit:,} of {len(text):,} characters: .text has all of them*" if len(text) > limit else ""
    return Part(plain.plain, plain.html, {"text/markdown": harmless(text[:limit]) + rest})
