"""What a reader gets of a value: a line in a list, a description, and its rows or lines in parts.

A part ends at a limit of characters, and its first line says which rows it has and how to read on. A value that is
neither a table nor text is read as JSON, line by line. Columns and members with a secret's name are masked.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.config.masking import Concealed
from mcp_magic.display.document import size_text
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.values.classes import attributes, bases, class_name
from mcp_magic.values.plain import Writer, field_names, label
from mcp_magic.values.tables import MAX_NAMES, Lines, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LIMIT = 20_000  # characters of an answer, if the reader names no other limit

HEAD_ROWS = 5  # rows in a description

CHUNK = 50  # rows that are read at a time, as it is not clear how many fit

CELL = 2_000  # most characters of a cell that is read

MOST_COLUMNS = 50  # columns that are read or described if none are named

LISTED_NAMES = 6  # names of columns in a list of values


@dataclass(frozen=True)
class Reader:
    """Reads values for somebody who may see them.

    Attributes:
        limit: Most characters of an answer, about.
        hide: Masks known secrets in a text.
    """

    limit: int = LIMIT
    hide: Callable[[str], str] = field(default=str)

    def summary(self, value: Any) -> str:
        """Return the type, shape and size of a value on one line, by cheap means."""
        shape, size = shape_of(value)
        return ", ".join(filter(None, (class_name(type(value)), shape, size)))

    def read(self, value: Any, *, rows: str = "", columns: Sequence[str] = (), query: str = "") -> str:
        """Return rows of a table as CSV, or lines of a text or of JSON.

        Raises:
            ArgumentsError: There is no such column, `rows` is no range, or the query is not valid.
        """
        return self.read_table(self._table(value), rows=rows, columns=columns, query=query)

    def read_table(self, table: Table, *, rows: str = "", columns: Sequence[str] = (), query: str = "") -> str:
        """Return rows of a table; see `read`."""
        span = row_range(rows, len(table))
        numbers: Sequence[int] = span
        if query.strip():
            from mcp_magic.values.query import select

            numbers = select(table, query, span, self.hide)
        positions = table.positions(columns)
        notes = []
        if not columns and len(positions) > MOST_COLUMNS:
            positions = positions[:MOST_COLUMNS]
            notes.append(f"the first {MOST_COLUMNS} of {len(table.columns):,} columns, name others as columns")
        if not numbers:
            fit = " that fit the query" if query else ""
            return f"[no {table.noun}{fit} in {span.start}:{span.stop}; there are {len(table):,}]"
        part = self._part(table, numbers, positions, is_numbered=bool(query))
        note = f"{table.noun} {numbers[0]} to {numbers[part.count - 1]} of {len(table):,}"
        if query:
            note = f"{len(numbers):,} of {len(span):,} {table.noun} fit the query, here with their numbers"
        if part.count < len(numbers):
            note += f'; rows="{numbers[part.count]}:{span.stop}" reads on'
        if part.masked:
            notes.append(f"masked, as the name is a secret's: {join_names(part.masked)}")
        return "\n".join([f"[{'; '.join([note, *notes])}]", part.text])

    def describe(self, value: Any, name: str) -> str:
        """Return the shape, the columns and the head of a value."""
        table = table_of(value)
        lines = [f"{name}: {self.summary(value)}"]
        if table is None:
            lines.append(self.read_table(self._table(value), rows=f"0:{HEAD_ROWS * 4}"))
            return "\n".join(lines)
        positions = table.positions(())[:MOST_COLUMNS]
        lines += [f"{self._name(table, at)}: {table.dtype(at)}" for at in positions]
        rest = len(table.columns) - len(positions)
        if rest:
            lines.append(f"and {rest:,} more columns")
        head = self._part(table, range(min(HEAD_ROWS, len(table))), positions)
        return "\n".join([*lines, "", f"It begins with:\n{head.text}" if len(table) else "It has no rows."])

    def _name(self, table: Table, position: int) -> str:
        return one_line(self.hide(table.columns[position]), 200)

    def _table(self, value: Any) -> Table:
        """Return a value as a table: its own rows, else the lines of its text or of its JSON."""
        if str in bases(type(value)) and type(value) is not Concealed:
            return Lines(self.hide(str.__str__(value)))
        table = table_of(value)
        if table is not None:
            return table
        plain = Writer(hide=self.hide, characters=5_000_000).plain(value)
        return Lines(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, indent=1))

    def _part(
        self, table: Table, numbers: Sequence[int], positions: Sequence[int], *, is_numbered: bool = False
    ) -> _Part:
        """Return rows as CSV, or lines as they are: as many as fit, and at least one."""
        is_text = table.noun == "lines"
        names = [self._name(table, position) for position in positions]
        secret = [not is_text and is_secret_name(name) for name in names]
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
            writer = Writer(text=min(CELL, self.limit), hide=self.hide)
            yield from table.rows(numbers[start : start + CHUNK], positions, writer)


@dataclass(frozen=True)
class _Part:
    text: str
    count: int  # rows in the text
    masked: list[str]  # columns with a secret's name


_RANGE = re.compile(r"\s*(-?\d{1,18})?\s*(:?)\s*(-?\d{1,18})?\s*")


def row_range(text: str, length: int) -> range:
    """Read `START:STOP`, where each may be left out, or one number.

    >>> row_range("1:3", 10), row_range("-2:", 10), row_range("4", 10), row_range("", 10)
    (range(1, 3), range(8, 10), range(4, 5), range(0, 10))
    """
    match = _RANGE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        raise ArgumentsError(f"rows is START:STOP, counted from 0, such as 20:40; not {one_line(text, 40)!r}")
    start, stop = (int(number) if number else None for number in (match[1], match[3]))
    if start is not None and not match[2]:
        stop = start + 1 or None
    return range(length)[start:stop]


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


def part_of(value: Any, path: str, name: str) -> Any:
    """Return a part of a value: `users.0` is item 0 of member `users`. Attributes of other objects are no parts.

    Raises:
        ArgumentsError: There is no such part; the message has those that there are.
    """
    for _ in range(20):
        if not path:
            return value
        parts = parts_of(value)
        key = path if path in parts else path.partition(".")[0]
        if key not in parts:
            near = did_you_mean(key, parts)
            there = f"{near} There are: {join_names(parts, MAX_NAMES)}" if parts else ""
            raise ArgumentsError(f"{one_line(name, 60)} has no part {one_line(key, 60)!r}.{there}")
        value, path = MASK if is_secret_name(key) else parts[key], path[len(key) + 1 :]
    raise ArgumentsError(f"{one_line(name, 60)} has no part so deep")


def parts_of(value: Any) -> Mapping[str, Any]:
    """Return the parts of a value by name, {} if it has none."""
    kind = type(value)
    above = bases(kind)
    if dict in above:
        return {label(key): item for key, item in dict.items(value)}
    names = field_names(kind)
    if names is not None:
        return dict(zip(names, tuple.__iter__(value), strict=False)) if tuple in above else attributes(value, names)
    for base in (list, tuple):
        if base in above:
            return {str(number): item for number, item in enumerate(base.__iter__(value))}
    return {}


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
    table = table_of(value)
    if table is None:
        return "", ""
    names = join_names(table.columns[: LISTED_NAMES + 1], LISTED_NAMES) if len(table.columns) <= LISTED_NAMES else ""
    columns = f"{plural(len(table.columns), 'columns')}{f' ({names})' if names else ''}"
    return f"{plural(len(table), 'rows')} x {columns}", "" if table.size is None else size_text(table.size)
