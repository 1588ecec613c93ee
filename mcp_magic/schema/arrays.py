"""Arrays and tables of numpy, pandas, polars and pyarrow as plain lists and dicts.

None of them is imported: an object of theirs can only be here if its library is loaded already.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.schema.fields import Field

__all__ = ["unpacked"]


def unpacked(value: Any, field: Field, path: str) -> tuple[bool, Any]:
    """Return (True, the plain value) for an array, a table or a scalar of these libraries, else (False, None).

    What a table calls missing (NaN, NaT, NA) becomes None; what is inside may need converting still.

    Raises:
        ArgumentsError: A table has two columns of the same name, or a Series two values for one name.
    """
    convert = _converter(type(value))  # type: ignore[arg-type]  # mypy #11469: classes are hashable
    return (False, None) if convert is None else (True, convert(value, field, path))


@functools.lru_cache(maxsize=256)
def _converter(kind: type) -> Callable[[Any, Field, str], Any] | None:
    for each in kind.__mro__:
        library = each.__module__.partition(".")[0]
        convert = _LIBRARIES.get((library, each.__name__)) or _LIBRARIES.get((library, ""))
        if convert is not None:
            return convert
    return None


def _numpy(value: Any, field: Field, path: str) -> Any:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        raise ArgumentsError(f"{path}: cannot send a {type(value).__name__}; expected {field.type_text}")
    if dtype.names:
        return [dict(zip(dtype.names, row, strict=True)) for row in value.reshape(-1).tolist()]
    if dtype.kind == "f" and dtype.itemsize > 8:
        value = value.astype("f8")  # Python has no long double, so tolist() would give one back
    if dtype.kind in "mM":
        # tolist() of nanoseconds gives bare integers.
        value = value.astype(f"{dtype.kind}8[us]")
    return value.tolist()


def _cells(value: Any) -> list[Any]:
    """The values of a pandas Series, Index or array, with None for what is missing (NaN, NaT, NA)."""
    return [None if missing else each for each, missing in zip(value.tolist(), value.isna(), strict=True)]


def _listed(value: Any, field: Field, path: str) -> list[Any]:
    return _cells(value)


def _multi_index(value: Any, field: Field, path: str) -> list[Any]:
    levels = [_cells(value.get_level_values(level)) for level in range(value.nlevels)]
    return [list(each) for each in zip(*levels, strict=True)]


def _series(value: Any, field: Field, path: str) -> Any:
    """A list; for an object its values by their labels; for a list of records or rows, a table of one column."""
    layout, _ = _layout(field)
    if layout == "list":
        return _cells(value)
    if layout != "columns":
        return _frame(value.to_frame("value" if value.name is None else value.name), field, path)
    if value.index.has_duplicates:
        twice = value.index[value.index.duplicated()][0]
        raise ArgumentsError(f"{path}: the Series has two values for {twice!r}, and an object has each name once")
    return dict(zip(value.index.tolist(), _cells(value), strict=True))


def _frame(value: Any, field: Field, path: str) -> Any:
    names = [str(name) for name in value.columns]
    columns = [_cells(value.iloc[:, position]) for position in range(len(names))]
    numbered = list(value.columns) == list(range(len(names)))
    labels = _labels(value.index, names)
    return _table([*labels, *names], [*labels.values(), *columns], field, path, header=not numbered)


def _labels(index: Any, columns: list[str]) -> dict[str, list[Any]]:
    """The levels of an index as columns, unless they only number the rows or a column has their name."""
    labels = {}
    for level, name in enumerate(index.names):
        if name is None and index.nlevels == 1:
            if index.inferred_type in ("integer", "empty"):
                break
            name = "index"
        name = f"level_{level}" if name is None else str(name)
        if name not in columns:
            labels[name] = _cells(index.get_level_values(level))
    return labels


def _polars(value: Any, field: Field, path: str) -> Any:
    return _table(value.columns, [column.to_list() for column in value.get_columns()], field, path)


def _arrow(value: Any, field: Field, path: str) -> Any:
    return _table(value.column_names, [column.to_pylist() for column in value.columns], field, path)


def _table(names: list[str], columns: list[list[Any]], field: Field, path: str, *, header: bool = True) -> Any:
    """Return a table as the schema wants it: records, an object of columns, or rows.

    Above rows stand the names of the columns, where the schema takes text there; `header=False` leaves them out.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentsError(f"{path}: the DataFrame has two columns {twice!r}; rename one of them")
    layout, row = _layout(field)
    if layout == "columns":
        return dict(zip(names, columns, strict=True))
    if row is None:
        return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
    cells = [row.at(position) for position in range(len(names))]
    fitting = [
        _texts(column, cell) if cell is not None and cell.kind == "string" else column
        for cell, column in zip(cells, columns, strict=True)
    ]
    rows = [list(each) for each in zip(*fitting, strict=True)]
    takes_names = all({"string", "any"} & {each.kind for each in (cell, *cell.variants)} for cell in cells if cell)
    return [list(names), *rows] if header and takes_names else rows


def _texts(column: list[Any], cell: Field) -> list[Any]:
    """Return a column for cells that take text only: numbers as text, and what is missing empty, as in CSV."""
    missing = None if cell.nullable else ""
    return [missing if each is None else str(each) if isinstance(each, int | float) else each for each in column]


def _layout(field: Field) -> tuple[Literal["columns", "records", "rows", "list"], Field | None]:
    """Return which form of a table a schema wants, and of rows the field of one."""
    variants = field.variants or (field,)
    kinds = {each.kind for each in variants}
    if "object" in kinds and not kinds & {"array", "any"}:
        return "columns", None
    items = [item for each in variants if each.kind == "array" and (item := each.at(0)) is not None]
    items = [variant for item in items for variant in item.variants or (item,)]
    if any(item.kind == "object" for item in items):
        return "records", None
    if any(item.kind == "any" for item in items):
        return "list", None
    row = next((item for item in items if item.kind == "array"), None)
    return ("list", None) if row is None else ("rows", row)


def _missing(value: Any, field: Field, path: str) -> None:
    return None


def _call(method: str) -> Callable[[Any, Field, str], Any]:
    return lambda value, _field, _path: getattr(value, method)()


_LIBRARIES: dict[tuple[str, str], Callable[[Any, Field, str], Any]] = {
    ("numpy", ""): _numpy,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "MultiIndex"): _multi_index,
    ("pandas", "Index"): _listed,
    ("pandas", "ExtensionArray"): _listed,
    ("pandas", "NAType"): _missing,
    ("pandas", "NaTType"): _missing,
    ("pandas", "Period"): _call("__str__"),
    ("polars", "DataFrame"): _polars,
    ("polars", "Series"): _call("to_list"),
    ("pyarrow", "Table"): _arrow,
}
"""(library, class, "" for any) -> how to make it plain."""
