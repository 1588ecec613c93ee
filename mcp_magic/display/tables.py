"""Finds tables in JSON and text (records, columns, CSV, Markdown) and displays them."""

from __future__ import annotations

import ast
import bisect
import csv
import io
import re
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from mcp_magic._text import counted, listed
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
_NAMES = ("columns", "headers", "header", "fields")
_NAME = ("name", "id", "key", "field", "label", "title", "column_name")
"""Members that give a column's name if an object describes the column."""
_VALUES = ("data", "rows", "values", "records")
_PAYLOAD = frozenset([*_VALUES, "items", "results", "result", "entries", "hits", "matches"])
"""Members that usually hold the requested data."""
_ASIDE = frozenset(["errors", "warnings", "notices", "notes", "hints"])  # members with remarks about the answer

_DEEPEST = 6  # levels of nested objects that are searched
_MOST = 50  # most tables of one value
_NAMED = 5  # most members of an object that a message names


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
    """A list of equally long lists, with or without column names."""

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        first = [list(row) for row in self.values[:limit]]
        return self.names or [str(i) for i in range(len(first[0]))], first


def check_shape(rows: int, columns: int, sent: int) -> None:
    """Raise ValueError if a DataFrame would have too many columns, or too many cells that are mostly empty."""
    if columns > MAX_COLUMNS:
        raise ValueError(f"{columns:,} columns; a DataFrame gets at most {MAX_COLUMNS:,}. .data or .text has them")
    if rows * columns > max(MAX_CELLS, 4 * sent):
        raise ValueError(
            f"{rows:,} rows x {columns:,} columns, of which {sent:,} cells were sent; "
            "a DataFrame would fill the memory with empty ones. .data or .text has them"
        )


def find_tables(data: Any) -> list[Rows]:
    """Return all tables of a JSON value in order; without any, the value itself if it can be one row.

    These are tables:

    - a list of objects; a list of equally long lists, whose first list names the columns if it is all text and
      the second is not; a list of scalars (one column, "value")
    - column names and rows side by side: `{"columns": ["a"], "rows": [[1]]}`, the names as text or `{"name": "a"}`
    - an object of equally long lists; if it also has scalars, it needs at least two lists, one with a number
    - an object of objects with similar members: one row each, with its name in the first column
    - any of these nested in objects. There, a list of scalars or of lists is a table only if the member's name
      says so ("results", "data"); an empty list also if the object has nothing else.
    """
    rows = _in_list(data) if isinstance(data, list) else None
    if rows is not None:
        return [rows]
    if not isinstance(data, dict) or not data:
        return []
    return list(islice(_in_object(data, 0), _MOST)) or _one_row(data)


def meant(tables: Sequence[Rows]) -> list[Rows]:
    """Return the main table of a value, or several if no rule decides between them.

    In this order, the rules prefer other tables to warnings and errors, members named "results", "data" or similar to
    other members, tables with rows to empty ones, lists of objects to weak tables, and outer tables to inner ones.
    """
    left = list(tables)
    left = [rows for rows in left if not _ASIDE.intersection(rows.path)] or left
    left = [rows for rows in left if _PAYLOAD.intersection(rows.path)] or left
    left = [rows for rows in left if rows.count() != 0] or left
    left = [rows for rows in left if not rows.weak] or left
    outermost = min((len(rows.path) for rows in left), default=0)
    return [rows for rows in left if len(rows.path) == outermost]


def find_rows(data: Any) -> Rows | None:
    """Return the main table of a JSON value, or None if there is none or several."""
    tables = meant(find_tables(data))
    return tables[0] if len(tables) == 1 else None


def _types(values: Iterable[Any]) -> set[type]:
    return set(map(type, values))


def _in_list(values: list[Any]) -> Rows | None:
    types = _types(values)
    if types <= {dict}:
        return Records(values=values)
    if types <= _SCALARS:
        return Columns(values={"value": values})
    if not (types <= {list, tuple} and len(set(map(len, values))) == 1 and values[0]):
        return None
    first = values[0]
    if len(values) == 1 or len(set(map(str, first))) < len(first) or not all(isinstance(n, str) and n for n in first):
        return Matrix(values=values)
    is_header = any(not isinstance(value, str) for value in values[1])
    return Matrix(values=values[1:], names=list(first)) if is_header else Matrix(values=values)


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
            inner = () if rows is None else (rows,)
        elif isinstance(value, dict) and value and depth < _DEEPEST:
            inner = _in_object(value, depth + 1)
        for rows in inner:
            yield replace(rows, path=(str(name), *rows.path))


def _split(data: dict[str, Any]) -> Rows | None:
    """Return names and rows that stand side by side, as in pandas' orient="split", SQL services and spreadsheets."""
    described = next((data[key] for key in _NAMES if isinstance(data.get(key), list)), None)
    members = [(key, data[key]) for key in _VALUES if isinstance(data.get(key), list)]
    names: list[str] = []
    for column in described or ():
        if isinstance(column, dict):
            column = next((column[key] for key in _NAME if isinstance(column.get(key), str)), "")
        names.append(column if isinstance(column, str) else "")
    if not names or len(members) != 1 or "" in names or len(set(names)) != len(names):
        return None
    member, values = members[0]
    types = _types(values)
    if values and types == {dict}:
        return Records(values=values, path=(member,))
    lengths = set(map(len, values)) if types <= {list, tuple} else set()
    if values and (len(lengths) != 1 or min(lengths) < len(names)):
        return None
    unnamed = [f"Unnamed: {index}" for index in range(len(names), max(lengths, default=0))]
    return Matrix(values=values, names=[*names, *unnamed], path=(member,))


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
    names = [set(member) for member in data.values()]
    common, every = set.intersection(*names), set.union(*names)
    if 2 * len(common) < len(every):
        return None
    if not any(all(type(member[name]) in _SCALARS for member in data.values()) for name in common):
        return None
    if any(_holds_objects(value) for member in data.values() for name, value in member.items() if name not in common):
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
    rows = _in_list(values) if values else Records(values=[])
    if isinstance(rows, Columns):
        return Columns(values={name: values}, weak=True)
    return replace(rows, weak=bool(values)) if rows is not None else None


def _one_row(data: dict[str, Any]) -> list[Rows]:
    """Return an object as one row if it is flat (scalars and lists of scalars), else the one flat object it wraps."""
    if _is_flat(data):
        return [Records(values=[data], single=True)]
    boxed = [name for name, value in data.items() if name in _PAYLOAD and isinstance(value, dict) and _is_flat(value)]
    return [Records(values=[data[boxed[0]]], single=True, path=(boxed[0],))] if len(boxed) == 1 else []


def _is_flat(data: dict[str, Any]) -> bool:
    lists = [value for value in data.values() if isinstance(value, list)]
    plain = [value for value in data.values() if not isinstance(value, list)]
    return bool(plain) and {*map(type, plain)} <= _SCALARS and all(_types(each) <= _SCALARS for each in lists)


_NOUNS = {str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def describe(data: Any) -> str:
    """Return a description of a JSON value, for the message that it holds no table."""
    if isinstance(data, dict):
        names = [one_line(str(key), 40) for key in islice(data, _NAMED)] + list(data)[_NAMED:]  # these are only counted
        return f"an object with {listed(names, limit=_NAMED)}" if data else "an empty object"
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
    from mcp_magic.schema import root_field

    place = root_field(schema) if schema else None
    for name in ["result", *rows.path] if boxed else rows.path:
        place = place.listed(name) if place is not None else None
    if place is None:
        return {}
    if not isinstance(rows, Columns):
        item = place if rows.single else place.additional if rows.keyed else place.item
        return {} if item is None or isinstance(item, bool) else {each.name: _kind(each) for each in item.children}
    if place.kind == "array":
        return {name: _kind(place.item) for name in rows.values}
    return {each.name: _kind(each.item) for each in place.children}


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
    return rows.values[name] if isinstance(rows, Columns) else None


# Delimited text: CSV and similar formats (RFC 4180).

DELIMITERS = ("\t", ",", ";", "|")
SAMPLE = 65_536  # characters of a text that are read to judge its format
_COUNTED = 1_000_000  # longest text, in characters, whose rows are counted for display

_VALUE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?|true|false|\d{4}-\d\d-\d\d.*|", re.IGNORECASE)

_CODE = re.compile(r"[=;{}<>\[\]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited(Rows):
    """Delimited text; its first row names the columns."""

    delimiter: str = ","

    def count(self) -> int | None:
        """Return the number of rows; None for long texts."""
        if len(self.values) > _COUNTED:
            return None
        try:
            return sum(1 for row in self._reader(self.values) if row) - 1
        except csv.Error:  # a cell of more than 131,072 characters
            return None

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """Return the column names and the first `limit` rows."""
        rows = self._sampled()
        first = rows[1 : limit + 1]
        names = _named(rows[0], first) if rows else []
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
        names = _named(next(row for row in rows if row), rows)
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
    candidates = [Delimited(values=text, delimiter=delimiter) for delimiter in dict.fromkeys((expected, *DELIMITERS))]
    return max(candidates, key=Delimited.columns)


def _is_value(cell: str) -> bool:
    return _VALUE.fullmatch(cell.strip()) is not None


def _named(names: list[str], rows: list[list[str]]) -> list[str]:
    """Return the names, with numbered ones appended for further columns that are not empty."""
    width = max((index + 1 for row in rows for index, cell in enumerate(row) if cell), default=0)
    return names + [f"Unnamed: {index}" for index in range(len(names), width)]


# Tables in text: JSON, CSV and similar formats, JSON Lines, Markdown tables, rows as Python prints them.
#
# Text counts as prose unless it clearly is a table: two sentences with one comma each are not. Each character is read a
# bounded number of times, whatever the text.

MAX_PYTHON = 200_000
"""Longest text, in characters, read as Python literals: `ast` takes 5 µs a value and 250 bytes a character."""


_TRIES = 20  # most places in one text where JSON is tried: each try may read to the end of the text

_RULE = re.compile(r":?-+:?")
_CELL = re.compile(r"(?<!\\)\|")
_FENCES = ("```", "~~~")
_JSON = re.compile(r"(?:\s*|.*?: )(?=[{\[])")
"""What precedes JSON in a line: nothing but blanks, or all to a colon."""
_ENDS = re.compile(rf"\s*(?:$|{'|'.join(_FENCES)})|{_JSON.pattern}")
"""Matches a line that ends a paragraph: a blank one, a fence or one with JSON."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that holds tables."""

    start: int  # index of its first character
    end: int  # index after its last character
    tables: Sequence[Rows]  # its tables; only JSON can have several
    value: Any = NOT_JSON  # the value of the JSON, or `NOT_JSON`


def passages(text: str) -> list[Passage]:
    """Return the parts of a text that hold tables: the whole text, or some of its paragraphs."""
    tables, value = _tables_of(text, len(text))
    if tables:
        return [Passage(0, len(text), tables, value)]
    return list(islice(_Scan(text).passages(), _MOST)) if value is NOT_JSON else []


def _tables_of(text: str, size: int) -> tuple[Sequence[Rows], Any]:
    """Return the tables of a text, a part of one of `size` characters, and its value, or `NOT_JSON`."""
    if not text or text.isspace():
        return [], NOT_JSON
    value = loads(text)
    if value is not NOT_JSON:
        return find_tables(value), value
    rows = _rows_of(text, size)
    return [rows] if rows is not None else [], value


def _rows_of(text: str, size: int) -> Rows | None:
    """Return the table if the whole text, a part of one of `size` characters, is one but not JSON; else None."""
    start = text[:100].lstrip()[:1]
    if start in ("[", "(") and size <= MAX_PYTHON and (rows := _python_rows(text)) is not None:
        return rows
    if start == "{" and (rows := json_lines(text)) is not None:
        return rows
    candidates = [Delimited(values=text, delimiter=delimiter) for delimiter in DELIMITERS if delimiter in text[:SAMPLE]]
    return next((rows for rows in candidates if rows.looks_like_rows()), None)


def json_lines(text: str) -> Rows | None:
    """Return the rows of JSON Lines (at least two lines, one object per line), or None."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or not isinstance(loads(lines[0]), dict):
        return None
    values = [loads(line) for line in lines]
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


class _Scan:
    """Scans the lines of a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        self._tries = _TRIES

    def passages(self) -> Iterator[Passage]:
        """Yield the passages that hold tables."""
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            last, passage = number + 1, None
            if not line:
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
        value, end = loads_beginning(self._text, start)
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
    shown = cut(text, limit)
    rest = ""
    if len(text) > limit:
        rest = f"… {limit:,} of {len(text):,} characters: {how} has all of them"
    return Part.stack(Part.pre(shown), Part.note(rest))


def text_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return text as JSON, as a table or as text; text longer than the budget's `parse` is not parsed."""
    if not budget.take("parse", len(text)):
        return verbatim_part(text, budget, how)
    value = loads(text)
    if value is None or isinstance(value, (dict, list)):
        return data_part(value, budget)
    parts = passages(text) if value is NOT_JSON else []
    tables = [rows for passage in parts for rows in meant(passage.tables) if not rows.single]
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
    tables = meant(find_tables(data))
    if len(tables) == 1 and not tables[0].single and tables[0].count() != 0:
        names, first = tables[0].head(1)
        if first and (len(names) > 1 or (names and isinstance(tables[0], Records))):  # a list of scalars is no table
            return rows_part(tables[0], budget, rest=_beside(data, tables[0]))
    if isinstance(data, (dict, list)) and data:
        limit = budget.characters
        text, whole = pretty(data, limit)
        plain = text if whole else f"{text}\n… cut: {how} has the whole"
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
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key != step and value != rows.names}
        data = data[step]
    if isinstance(data, dict) and isinstance(rows, Columns):
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key not in rows.values}
    return members_line(others)


def members_line(members: Mapping[str, Any]) -> str:
    """Return the first members of an object on one line."""
    shown = ((one_line(key, 40), value) for key, value in islice(members.items(), _BESIDE))
    return ", ".join(f"{key}: {one_line(v, 80) if isinstance(v, str) else brief(v, 80)}" for key, v in shown)


def rows_part(rows: Rows, budget: Budget, rest: str = "") -> Part:
    """Return the first rows as a table, with the counts, a line that leads to the other rows, and the line `rest`."""
    limit = document.display
    names, first = rows.head(limit.rows)
    columns = len(names)
    names = [brief(name, limit.cell) for name in names[: limit.columns]]
    cells = [[_cell(value) for value in row[: limit.columns]] for row in first]
    html, shown = table(names, cells, limit=budget.bytes)
    total = terminal_width()
    across = columns_that_fit(names, cells[:shown], total=total, cell=limit.cell)
    first = [row[:across] for row in cells[:shown]]
    plain = aligned(names[:across], first, total=total, cell=limit.cell) if cells else "  ".join(names)
    count = rows.count()
    below = _caption(count, shown, columns, across if cells else len(names))
    caption = Part(below, note(_caption(count, shown, columns, len(names))))
    return Part.stack(Part(plain, html), caption, Part.note(rest))


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**30):
        return value if not isinstance(value, bool) else str(value).lower()
    return brief(value, document.display.cell)


def _caption(total: int | None, shown: int, columns: int, across: int) -> str:
    """Return the line below a table: its size, and `.df` if not all rows and columns are shown."""
    if total is not None and shown >= total and columns <= across:
        return f"{counted(total, 'rows')} x {counted(columns, 'columns')}"
    count = f"{shown:,} of {total:,} rows" if total is not None else f"the first {shown:,} rows"
    wide = f", {across} of {columns} columns" if columns > across else f" x {counted(columns, 'columns')}"
    return f"{count}{wide}: .df has all of them"


def markdown_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return Markdown made harmless: rendered if it is the only part, else shown as source."""
    plain = verbatim_part(text, budget, how)
    limit = budget.characters
    rest = f"\n\n*… {limit:,} of {len(text):,} characters: {how} has all of them*" if len(text) > limit else ""
    return Part(plain.plain, plain.html, {"text/markdown": harmless(text[:limit]) + rest})
