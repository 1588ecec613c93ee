"""What a reader gets of a value: a line in a list, a description, and its rows or lines in parts.

A part ends at a limit of characters, and its first line says which rows it has and how to read on. A value that is
neither a table nor text is read as JSON, line by line. Columns and members with a secret's name are masked.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.config.masking import Concealed
from mcp_magic.display.document import size_text
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.results.results import ResourceResult, ToolResult
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.values.classes import are_all, attributes, bases, class_name, is_among, loaded
from mcp_magic.values.frames import series_outline
from mcp_magic.values.images import image_words, is_image
from mcp_magic.values.plain import MAX_NODES, Writer, field_names, label
from mcp_magic.values.rows import MAX_NAMES
from mcp_magic.values.tables import table_of
from mcp_magic.values.texts import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_magic.values.rows import Table

LIMIT = 20_000  # characters of an answer, if the reader names no other limit

HEAD_ROWS = 5  # rows in a description

CHUNK = 50  # rows that are read at a time, as it is not clear how many fit

CELL = 2_000  # most characters of a cell that is read

MAX_COLUMNS = 50  # columns that are read or described if none are named

MAX_NAMED = 1_000  # columns that are read if they are named: to read one takes time, however few its rows are

LISTED_NAMES = 6  # names of columns in a list of values

HEAD_LINES = 20  # lines in the description of a value that is no table

SAMPLE, MAX_ROWS = 100_000, 20_000_000
"""Rows of a column of objects that statistics are made of, and of an array."""

MAX_CHARACTERS = 5_000_000  # of the texts of a nested value

Rows = str | Sequence[Any]
"""`"20:40"`, or `[20, 40]`."""

RESULTS = (ToolResult, ResourceResult)


@dataclass(frozen=True)
class Reader:
    """Reads values for somebody who may see them.

    Attributes:
        limit: Most characters of an answer, about.
        hide: Masks known secrets in a text. With None, columns with a secret's name are not masked, either.
        cell: Most characters of a cell; None for all.
        columns: Most columns that are read if none are named.
    """

    limit: int = LIMIT
    hide: Callable[[str], str] | None = field(default=str)
    cell: int | None = CELL
    columns: int = MAX_COLUMNS

    def summary(self, value: Any) -> str:
        """Return the type, shape and size of a value on one line, by cheap means."""
        try:
            with readable():
                shape, size = shape_of(value)
        except ArgumentsError:  # the others are listed
            shape = size = ""
        return ", ".join(filter(None, (class_name(type(value)), self._masked(shape), size)))

    def read(
        self, value: Any, name: str = "it", *, rows: Rows = "", columns: Sequence[str] = (), query: str = ""
    ) -> str:
        """Return rows of a table as CSV, or lines of a text or of JSON.

        Raises:
            ArgumentsError: There is no such column, `rows` is no range, or the query is not valid.
        """
        if is_image(value):
            raise ArgumentsError(f"{name} is an image, which has no rows, columns and query")
        return self.read_table(self._table(value, name), rows=rows, columns=columns, query=query)

    def read_table(
        self, table: Table, *, rows: Rows = "", columns: Sequence[str] = (), query: str = "", search: str = ""
    ) -> str:
        """Return rows of a table, only those that fit a query and have a text; see `read`."""
        span, positions = row_range(rows, len(table)), table.positions(columns)
        if columns and len(positions) > MAX_NAMED:
            raise ArgumentsError(f"at most {MAX_NAMED:,} columns are read at a time, not {len(positions):,}")
        numbers, condition = self._selection(table, span, positions, query, search)
        notes = []
        if not columns and len(positions) > self.columns:
            positions = positions[: self.columns]
            notes.append(f"the first {self.columns} of {table.width:,} columns, name others as columns")
        if not positions:
            return f"[{plural(len(table), table.noun)}, and no columns]"
        if not span:
            return f"[{nothing_in(rows, len(table), table.noun)}]"
        if not numbers:
            return f"[no {table.noun} {condition} in {span.start}:{span.stop}; there are {len(table):,}]"
        part = self._part(table, numbers, positions, is_numbered=bool(condition))
        note = f"{table.noun} {numbers[0]} to {numbers[part.count - 1]} of {len(table):,}"
        if condition:
            verb = f"have {one_line(search, 60)!r}" if search else "fit the query"
            note = f"{len(numbers):,} of {len(span):,} {table.noun} {verb}, here with their numbers"
        if part.count < len(numbers):
            note += f'; rows="{numbers[part.count]}:{span.stop}" reads on'
        if part.masked:
            notes.append(f"masked, as the name is a secret's: {join_names(part.masked)}")
        return "\n".join([f"[{'; '.join([note, *notes])}]", part.text])

    def head(self, table: Table, count: int) -> str:
        """Return the first rows of a table, as many as fit, and of many columns the first."""
        ends = accumulate(len(self._name(table, position)) + 1 for position in range(len(table.columns)))
        fitting = sum(1 for _ in takewhile(lambda end: end <= self.limit, ends))
        return self._part(table, range(min(count, len(table))), range(max(fitting, 1))[: len(table.columns)]).text

    def _selection(
        self, table: Table, span: range, positions: Sequence[int], query: str, search: str
    ) -> tuple[Sequence[int], str]:
        """Return the numbers of the rows that fit a query and have a text in a cell, and what chose them in words."""
        numbers: Sequence[int] = span
        condition = ""
        if query.strip():
            from mcp_magic.values.query import select

            hide = str if table.noun == "lines" else self.hide or str  # lines are masked already
            numbers, condition = select(table, query, span, hide), "that fit the query"
        if search:
            low, condition = search.casefold(), f"with {one_line(search, 60)!r}"
            rows = zip(numbers, self._rows(table, numbers, positions), strict=True)
            numbers = [number for number, row in rows if any(low in cell_text(cell).casefold() for cell in row)]
        return numbers, condition

    def describe(self, value: Any, name: str, columns: Sequence[str] = ()) -> str:
        """Return the shape of a value, its columns with types and statistics, and its head."""
        lines = [f"{name}: {self.summary(value)}"]
        if is_image(value):
            return "\n".join([*lines, "An image: `read_value` shows it."])
        parts = result_parts(value)
        if len(parts) > 1:
            return "\n".join([*lines, *(f"{name}.{part}: {shape_text(table)}" for part, table in parts.items())])
        table = next(iter(parts.values())) if parts else table_of(value)
        if table is None:
            lines.append(self.read_table(self._table(value, name), rows=f"0:{HEAD_LINES}"))
            return "\n".join(lines)
        positions = table.positions(columns)
        rest = (len(positions) if columns else table.width) - MAX_COLUMNS
        positions = positions[:MAX_COLUMNS]
        lines += [self._column(table, position) for position in positions]
        if rest > 0:
            lines.append(f"and {plural(rest, 'columns')} more, described if they are named as columns")
        head = self._part(table, range(min(HEAD_ROWS, len(table))), positions)
        return "\n".join([*lines, f"It begins with:\n{head.text}" if len(table) else "It has no rows."])

    def _column(self, table: Table, position: int) -> str:
        """Return the name, the type and the statistics of a column."""
        from mcp_magic.values.statistics import statistics_text

        name, dtype = self._name(table, position), self._masked(table.dtype(position))
        if self._is_secret(name):
            return f"{name}: {dtype}, masked"
        count = len(table)
        vector = table.vector(position, range(min(count, SAMPLE)))
        if count > SAMPLE and vector.kind in ("number", "time", "truth") and count <= MAX_ROWS and table.is_array:
            vector = table.vector(position, range(count))
        text = statistics_text(vector, self._masked)
        part = f" (of the first {SAMPLE:,} rows)" if text and len(vector.values) < count else ""
        return ", ".join(filter(None, (f"{name}: {dtype}", text))) + part

    def _masked(self, text: str) -> str:
        return text if self.hide is None else self.hide(text)

    def _is_secret(self, name: str) -> bool:
        return self.hide is not None and is_secret_name(name)

    def _name(self, table: Table, position: int) -> str:
        return one_line(self._masked(table.columns[position]), 200)

    def _table(self, value: Any, name: str) -> Table:
        """Return a value as a table: its own rows, else the lines of its text or of its JSON."""
        kind = type(value)
        if str in bases(kind) and kind is not Concealed:
            return Lines(str.__str__(value), self.hide or str)
        parts = result_parts(value)
        if len(parts) > 1:
            raise ArgumentsError(
                f"{name} has several tables; read one of them as {name}.TABLE: {join_names(parts, MAX_NAMES)}"
            )
        table = next(iter(parts.values())) if parts else table_of(value)
        if table is not None:
            return table
        if is_among(kind, RESULTS):
            value = "\n".join(value.texts) if value.data is None or type(value.data) is str else value.data
            return self._table(value, name)
        writer = Writer(hide=self.hide, characters=MAX_CHARACTERS)
        plain = writer.plain(value)
        if plain == f"<{class_name(kind)}>":
            raise ArgumentsError(_unreadable(kind, name))
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, indent=1)
        return Lines(text if writer.is_whole else f"{text}\n[cut here; parts of it can be read as {name}.PART]")

    def _part(
        self, table: Table, numbers: Sequence[int], positions: Sequence[int], *, is_numbered: bool = False
    ) -> _Part:
        """Return rows as CSV, or lines as they are: as many as fit, and at least one."""
        is_text = table.noun == "lines"
        names = [self._name(table, position) for position in positions]
        secret = [not is_text and self._is_secret(name) for name in names]
        lines: list[str] = []
        room = self.limit
        for number, row in zip(numbers, self._rows(table, numbers, positions), strict=True):
            cells = [
                MASK if is_secret and cell is not None else cell for is_secret, cell in zip(secret, row, strict=True)
            ]
            texts = [*([str(number)] if is_numbered else []), *map(cell_text, cells)]
            line = ": ".join(texts) if is_text else csv_line(texts)
            if lines and len(line) > room:
                break
            lines.append(line if len(line) <= self.limit else f"{line[: self.limit]} [cut here]")
            room -= len(line) + 1
        header = [] if is_text else [csv_line([*(["row"] if is_numbered else []), *names])]
        masked = [name for name, is_secret in zip(names, secret, strict=True) if is_secret]
        return _Part("\n".join([*header, *lines]), len(lines), masked)

    def _rows(self, table: Table, numbers: Sequence[int], positions: Sequence[int]) -> Iterator[list[Any]]:
        """Yield rows as JSON values, and read some at a time."""
        for start in range(0, len(numbers), CHUNK):
            part = numbers[start : start + CHUNK]
            text = None if self.cell is None else min(self.cell, self.limit)
            nodes = MAX_NODES + len(part) * len(positions)
            yield from table.rows(part, positions, Writer(nodes=nodes, text=text, hide=self.hide))


@contextmanager
def readable() -> Iterator[None]:
    """Raise ArgumentsError where a library cannot read its own value; a panic of Rust is no `Exception`."""
    try:
        yield
    except (MCPMagicError, *_ENDS):
        raise
    except BaseException as error:
        raise ArgumentsError(f"this value cannot be read ({class_name(type(error))})") from None


_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""What ends a program or a task."""


@dataclass(frozen=True)
class _Part:
    text: str
    count: int  # rows in the text
    masked: list[str]  # columns with a secret's name


_RANGE = re.compile(r"\s*(-?\d{1,100})?\s*(:?)\s*(-?\d{1,100})?\s*")


_IS_RANGE = "rows is START:STOP, counted from 0, such as 20:40"


def _unreadable(kind: type, name: str) -> str:
    if kind is loaded("polars", "LazyFrame"):
        return f"{name} is a LazyFrame, and is not computed for a reader; the person can share its `.collect()`"
    return (
        f"{name} is of the class {class_name(kind)}, which is not read; "
        "the person can share its data as a DataFrame, an array, a dict, a list or a text"
    )


def row_range(rows: Rows, length: int) -> range:
    """Read `START:STOP`, where each may be left out, or one number; or `[START, STOP]`.

    >>> row_range("1:3", 10), row_range("-2:", 10), row_range("4", 10), row_range("", 10), row_range([1, None], 10)
    (range(1, 3), range(8, 10), range(4, 5), range(0, 10), range(1, 10))
    """
    start: int | None
    stop: int | None
    if isinstance(rows, str):
        match = _RANGE.fullmatch(rows)
        if match is None or (match[3] and not match[2]):
            raise ArgumentsError(f"{_IS_RANGE}; not {one_line(rows, 40)!r}")
        start, stop = (int(number) if number else None for number in (match[1], match[3]))
        if start is not None and not match[2]:
            stop = start + 1 or None
    else:
        numbers: list[Any] = [
            int(number) if type(number) is float and number.is_integer() else number for number in rows
        ]
        if len(numbers) != 2 or not are_all(numbers, int, type(None)):
            raise ArgumentsError(f"{_IS_RANGE}, or a list of these two numbers")
        start, stop = numbers
    return range(length)[start:stop]


def nothing_in(rows: Rows, length: int, noun: str = "rows") -> str:
    """Return what is told of rows that are not there: how many there are.

    >>> nothing_in("100:200", 7), nothing_in([3, 2], 1), nothing_in("", 0, "lines")
    ('no rows in 100:200: there are 7, from 0 to 6', 'no rows in 3:2: there is 1, row 0', 'there are no lines')
    """
    if not length:
        return f"there are no {noun}"
    numbers = rows if isinstance(rows, str) else ":".join("" if number is None else label(number) for number in rows)
    there = f"there are {length:,}, from 0 to {length - 1}" if length > 1 else f"there is 1, {noun.removesuffix('s')} 0"
    return f"no {noun} in {one_line(numbers, 40)}: {there}"


def csv_line(cells: Sequence[Any]) -> str:
    """Return a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def cell_text(cell: Any) -> str:
    """Return a JSON value as a cell of CSV.

    >>> cell_text(None), cell_text("a"), cell_text([1, None])
    ('', 'a', '[1, null]')
    """
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


# Parts of a value by name: members of dicts, named tuples and dataclasses, items of lists, tables of results.


def part_of(value: Any, path: str, name: str) -> tuple[Any, bool]:
    """Return a part of a value: `users.0` is item 0 of member `users`. Attributes of other objects are no parts.

    Returns:
        The part, and whether it is masked for a reader, as a member on the way has a secret's name.

    Raises:
        ArgumentsError: There is no such part; the message has those that there are.
    """
    is_masked, full = False, f"{name}.{path}"
    for _ in range(20):
        if not path:
            return value, is_masked
        items = _item(value, path)
        if items is not None:
            value, path = items
            continue
        parts = parts_of(value)
        keys = (key for key in parts if f"{path}.".startswith(f"{key}."))  # a key may have dots itself
        key = max(keys, key=len, default=path.partition(".")[0])
        if key not in parts and is_masked:
            raise ArgumentsError(f"{one_line(name, 60)} has no such part; the names there are masked")
        if key not in parts:
            near = did_you_mean(key, parts)
            there = f"{near} There are: {join_names(parts, MAX_NAMES)}" if parts else _no_parts(value, key)
            whole = full.removesuffix(f".{path}")
            raise ArgumentsError(f"{one_line(whole, 60)} has no part {one_line(key, 60)!r}.{there}")
        is_masked = is_masked or is_secret_name(key)
        value, path = parts[key], path[len(key) + 1 :]
    raise ArgumentsError(f"{one_line(name, 60)} has no part so deep")


def _no_parts(value: Any, key: str) -> str:
    """Return what is there instead of a part: items, or a column of that name."""
    above = bases(type(value))
    count = next((base.__len__(value) for base in (list, tuple) if base in above), 0)
    if count:
        return f" Its items are 0 to {count - 1:,}"
    table = table_of(value)
    is_column = table is not None and key in table.columns
    return f' It is a column: name it in "columns", as ["{one_line(key, 60)}"]' if is_column else ""


def parts_of(value: Any) -> Mapping[str, Any]:
    """Return the parts of a value by name, {} if it has none."""
    kind = type(value)
    above = bases(kind)
    if is_among(kind, RESULTS):
        parts = dict(value.tables)
        parts = parts if parts or type(value.data) is not dict else value.data
        return {"images": images, **parts} if (images := value.images) else parts
    if dict in above:
        return {label(key): item for key, item in dict.items(value)}
    names = field_names(kind)
    if names is not None:
        return dict(zip(names, tuple.__iter__(value), strict=False)) if tuple in above else attributes(value, names)
    return {}


def _item(value: Any, path: str) -> tuple[Any, str] | None:
    """Return an item of a list or tuple and the rest of the path; None if the path begins with none."""
    number, _, rest = path.partition(".")
    above = bases(type(value))
    base: Any = list if list in above else tuple if tuple in above else None
    if base is None or not number.isdecimal() or len(number) > 18 or int(number) >= base.__len__(value):
        return None
    return base.__getitem__(value, int(number)), rest


def result_parts(value: Any) -> dict[str, Table]:
    """Return the tables of a result by name; {} for other values."""
    if not is_among(type(value), RESULTS):
        return {}
    tables = {name: table_of(rows) for name, rows in value.tables.items() if not rows.single}
    return {name: table for name, table in tables.items() if table is not None}


# Shapes and sizes in a list of values, by cheap means.

_SIZED: tuple[Any, ...] = (bytes, bytearray, list, tuple, set, frozenset)


def shape_of(value: Any) -> tuple[str, str]:
    """Return the shape and the size of a value in words; "" where there is none."""
    kind = type(value)
    above = bases(kind)
    if str in above:
        return plural(str.__len__(value), "characters"), size_text(str.__sizeof__(value))
    if dict in above:
        count = dict.__len__(value)
        names = f" ({join_names(map(label, dict.keys(value)), LISTED_NAMES)})" if 0 < count <= LISTED_NAMES else ""
        return f"{plural(count, 'members')}{names}", ""
    for base in _SIZED:
        if base in above:
            count = base.__len__(value)
            return ("", size_text(count)) if base in (bytes, bytearray) else (plural(count, "items"), "")
    if is_among(kind, RESULTS):
        return _shape_of_result(value), size_text(sum(map(len, value.texts)))
    if is_image(value):
        return image_words(value), ""
    series = series_outline(value)
    if series is not None:
        return plural(series[0], "rows"), size_text(series[1])
    array = array_shape(value)
    if array is not None:
        return array
    table = table_of(value)
    if table is None:
        return "", ""
    size = table.size
    return shape_text(table), "" if size is None else size_text(size)


def array_shape(value: Any) -> tuple[str, str] | None:
    """Return the shape and the size of an array of numpy; None for other values."""
    base = loaded("numpy", "ndarray")
    if base is None or base not in bases(type(value)):
        return None
    array = base.view(value, base)
    shape = " x ".join(f"{length:,}" for length in array.shape)
    return f"{shape} {one_line(str(array.dtype), 60)}".strip(), size_text(array.nbytes)


def _shape_of_result(result: Any) -> str:
    """Return what a result has, without searching it for tables; the columns of rows are those of the first."""
    source = ":".join(filter(None, (result.server, getattr(result, "tool", ""))))
    images = len(result.images)
    data = result.data if getattr(result.raw, "structured_content", None) is not None else None
    if type(data) is list and data and type(data[0]) is dict:
        content = f"{plural(len(data), 'rows')} x {plural(len(data[0]), 'columns')}"
    elif type(data) in (list, dict):
        content, _ = shape_of(data)
    else:
        content = plural(len(result.texts), "texts")
    kinds = [content, plural(images, "images") if images else ""]
    return ", ".join(filter(None, (f"of {one_line(source, 80)}" if source else "", *kinds)))


def shape_text(table: Table) -> str:
    """Return the shape of a table in words, with its columns if these are few."""
    count = table.width
    names = f" ({join_names(table.columns, LISTED_NAMES)})" if 0 < count <= LISTED_NAMES else ""
    return f"{plural(len(table), table.noun)} x {plural(count, 'columns')}{names}"
