"""The rows of a table, and arguments that are computed for each of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, is_identifier, join_names, repeated_names, similar_name
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, MCPMagicError, MissingDependencyError
from mcp_magic.schema.commandline import escape_name

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 1000  # rows of a DataFrame that are converted to Python objects at a time

LARGEST_ROWS = 256_000_000  # bytes of the largest JSON file with rows; files of other formats are read in parts

FILES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")  # endings of files with rows


class Row(Mapping[str, Any]):
    """One row: `row.city` or `row["city"]`.

    >>> row = Row({"city": "Oslo"})
    >>> row.city, row["city"], row.get("country", "?"), len(row)
    ('Oslo', 'Oslo', '?', 1)
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise ArgumentsError(self._without(name)) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        raise AttributeError(self._without(name), name=name, obj=self)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column, or the default if the row has none."""
        return self._values.get(name, default)

    def _without(self, name: str) -> str:
        columns = [str(column) for column in self._values]
        return f"row has no {one_line(name, 80)}; it has {join_names(columns)}.{did_you_mean(name, columns)}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Row({dict(self._values)!r})"


@dataclass
class Table:
    """Rows to map a tool over.

    Attributes:
        rows: The rows, in order; read once.
        columns: The names of the columns of the first row; empty without rows.
        size: The number of rows, or None if only reading tells it.
        frame: The DataFrame that the rows come from, or None.
    """

    rows: Iterator[Row]
    columns: tuple[str, ...]
    size: int | None
    frame: pd.DataFrame | None = None

    def first(self, limit: int | None) -> Table:
        """Return the table of the first rows only."""
        if limit is None:
            return self
        size = None if self.size is None else min(self.size, limit)
        frame = None if self.frame is None else self.frame.iloc[:limit]
        return Table(islice(self.rows, limit), self.columns, size, frame)


def read_table(source: Any) -> Table:
    """Return the rows of a DataFrame (pandas or Polars), an iterable of dicts, a result with a table, or a file.

    Args:
        source: The rows, or the path of a CSV, TSV, JSON Lines, JSON or Parquet file. JSON Lines are read as they are
            needed, and so are generators.

    Raises:
        ArgumentsError: These are no rows, or the file cannot be read.
        MissingDependencyError: The file needs a package that is not installed.
    """
    if isinstance(source, str | Path):
        return _of_file(Path(source))
    if isinstance(source, Table):
        return source
    kind = f"{type(source).__module__}.{type(source).__name__}"
    if kind.startswith("polars."):
        return _of_polars(source)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.Series):
        source = source.to_frame()
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return _of_frame(source)
    if callable(getattr(type(source), "raise_for_error", None)):  # the result of a call
        return _of_frame(source.df)
    if isinstance(source, Mapping):
        raise ArgumentsError("a dict has no rows; give pd.DataFrame(columns) or a list of dicts")
    if isinstance(source, Iterable):
        return _of_items(source)
    raise ArgumentsError(f"{type(source).__name__} has no rows; give a DataFrame, a list of dicts or a file")


def _of_frame(frame: pd.DataFrame) -> Table:
    names = [str(name) for name in frame.columns]
    if twice := repeated_names(names):
        raise ArgumentsError(f"the table has several columns {twice[0]!r}; rename them first")

    def rows() -> Iterator[Row]:
        for start in range(0, len(frame), CHUNK):
            yield from map(Row, records(frame.iloc[start : start + CHUNK]))

    return Table(_readable(rows()), tuple(names), len(frame), frame)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame as dicts of Python objects, without its index."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _of_polars(frame: Any) -> Table:
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if not hasattr(frame, "iter_rows") or not hasattr(frame, "columns"):
        raise ArgumentsError(f"a Polars {type(frame).__name__} has no rows; `.to_frame()` makes a table of it")
    return Table(_readable(map(Row, frame.iter_rows(named=True))), tuple(frame.columns), len(frame))


def _of_items(source: Iterable[Any]) -> Table:
    size = len(source) if isinstance(source, Sized) else None
    rows = _readable(_row(number, item) for number, item in enumerate(source))
    head = [*islice(rows, 1)]
    return Table(chain(head, rows), tuple(head[0]) if head else (), size)


def _readable(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows; ArgumentsError names the first that cannot be read, as a generator may raise anything."""
    number = 0
    try:
        for number, row in enumerate(rows, 1):  # noqa: B007 - the number of the next row
            yield row
    except MCPMagicError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise ArgumentsError(f"the rows cannot be read: row {number} raised {problem}") from None


def _row(number: int, item: Any) -> Row:
    if not isinstance(item, Mapping):
        raise ArgumentsError(f"row {number} is {type(item).__name__}, not a dict: {one_line(repr(item), 60)}")
    return Row({str(name): value for name, value in item.items()})


def _of_file(path: Path) -> Table:
    path, ending = path.expanduser(), path.suffix.lower()
    try:
        if path.exists() and not path.is_file():
            raise ArgumentsError(f"{path}: it is not a regular file")  # a pipe may never end
        if ending in (".jsonl", ".ndjson"):
            path.open("rb").close()
            return _of_items(_lines(path))
        if ending == ".json":
            return _of_items(_json_rows(path))
        if ending in (".csv", ".tsv", ".parquet"):
            return _of_frame(_frame_of(path, ending))
    except OSError as error:
        raise ArgumentsError(f"{path}: {error.strerror or error}") from None
    except ImportError:
        raise MissingDependencyError(f"{path}: Parquet needs a package: pip install pyarrow") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ArgumentsError):
            raise
        raise ArgumentsError(f"{path} cannot be read as {ending[1:]}: {one_line(str(error), 200)}") from None
    raise ArgumentsError(f"{str(path)!r} has no ending of a table; {', '.join(FILES)} are read")


def _frame_of(path: Path, ending: str) -> pd.DataFrame:
    import pandas as pd

    if ending == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if ending == ".tsv" else ",")


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(iter(lambda: file.readline(LARGEST_DATA + 1), ""), 1):
            if line.strip():
                try:
                    if len(line) > LARGEST_DATA:
                        raise ValueError(f"a line has more than {LARGEST_DATA:,} characters")
                    item = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ArgumentsError(f"{path}, line {number}: not JSON: {error}") from None
                yield item


def _json_rows(path: Path) -> list[Any]:
    value = json.loads(read_bytes(path, LARGEST_ROWS).decode("utf-8-sig"))
    if not isinstance(value, list):
        raise ArgumentsError(f"{path} holds {type(value).__name__}, not a list of objects")
    return value


@dataclass(frozen=True)
class PerRow:
    """A value that is computed for each row.

    Attributes:
        text: How it was written, for messages.
        compute: Returns the value from the row, and from the results of earlier steps by name.
    """

    text: str
    compute: Callable[[Row, Mapping[str, Any]], Any]


_LEFT_OUT = object()  # the value of an argument that is not sent

_MISSING = ("NAType", "NaTType")  # pandas' missing values besides NaN; imported, they would cost half a second


def col(name: str) -> PerRow:
    """Return the value of a column, for `host.map(..., location=col("city"))`.

    >>> fill({"location": col("city")}, Row({"city": "Oslo"}), {})
    {'location': 'Oslo'}
    """
    return PerRow(name, lambda row, _: row[name])


def per_row(arguments: Any) -> Any:
    """Return arguments in which functions of a row are `PerRow`s."""
    if isinstance(arguments, dict):
        return {name: per_row(value) for name, value in arguments.items()}
    if isinstance(arguments, list):
        return [per_row(value) for value in arguments]
    if callable(arguments) and not isinstance(arguments, type | PerRow):
        return PerRow(getattr(arguments, "__name__", "function"), lambda row, _: arguments(row))
    return arguments


def fill(template: Any, row: Row, results: Mapping[str, Any]) -> Any:
    """Return arguments with the values of a row.

    Raises:
        ArgumentsError: An expression raised; the message names it.
    """
    if isinstance(template, PerRow):
        try:
            return template.compute(row, results)
        except ArgumentsError:
            raise
        except Exception as error:
            if isinstance(getattr(error, "obj", None), Row):
                raise ArgumentsError(str(error)) from None
            problem = f"{{{one_line(template.text, 80)}}} raised {type(error).__name__}: {one_line(str(error), 200)}"
            raise ArgumentsError(problem) from None
    if isinstance(template, dict):
        values = ((name, fill(value, row, results)) for name, value in template.items())
        return {name: value for name, value in values if value is not _LEFT_OUT}
    if isinstance(template, list):
        return [fill(value, row, results) for value in template]
    return template


def matching(columns: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for the parameters of a tool that have the name of a column.

    A value that a row does not have is left out, and so is a missing one (None, NaN, NaT) of an optional parameter.

    Raises:
        ArgumentsError: No column is named like a parameter, or a required parameter has its column under another name.
    """
    columns, properties = list(columns), schema.get("properties") or {}
    required = schema.get("required") or ()
    others = [name for name in columns if name not in properties]
    absent = [name for name in properties if name not in columns]
    likely = {name: column for name in absent if (column := similar_name(name, others)) is not None}
    if not likely and len(others) == len(columns) == 1 and len(required) == 1:
        likely = {name: columns[0] for name in absent if name in required}
    is_any = any(name in properties for name in columns)
    if not is_any or any(name in required for name in likely):
        pairs = {name: likely.get(name, name) for name in properties if name in columns or name in likely}
        line = " ".join(f"{escape_name(name)}={{{column_source(column)}}}" for name, column in pairs.items())
        target = "a parameter" if not is_any else join_names(name for name in likely if name in required)
        raise ArgumentsError(
            f"no column is named like {target}. Columns: {join_names(columns)}; parameters: "
            f"{join_names(map(str, properties))}. Write {line or 'PARAMETER={row.COLUMN}'}"
        )
    return {name: _if_present(name, required=name in required) for name in properties}


def column_source(column: str) -> str:
    """Return the expression for a column: `row.city`, or `row["A city"]`."""
    return f"row.{column}" if is_identifier(column) else f"row[{json.dumps(column)}]"


def is_missing(value: Any) -> bool:
    """Return whether a value of a table is a missing one: None, NaN, or pandas' own."""
    return value is None or type(value).__name__ in _MISSING or (isinstance(value, float) and value != value)


def _if_present(name: str, *, required: bool) -> PerRow:
    def compute(row: Row, _: Mapping[str, Any]) -> Any:
        value = row.get(name, _LEFT_OUT)
        return _LEFT_OUT if is_missing(value) and not required else value

    return PerRow(name, compute)
