"""Arrays and tables of numpy, pandas, polars and pyarrow as plain lists and dicts.

None of them is imported: an object of theirs can only be here if its library is loaded already.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.schema.fields import Field

__all__ = ["unpacked"]


def unpacked(value: Any, field: Field, path: str) -> tuple[bool, Any]:
    """Return (True, the plain value) for an array, a table or a scalar of these libraries, else (False, None).

    What a table calls missing (NaN, NaT, NA) becomes None; what is inside may need converting still.

    Raises:
        ArgumentsError: A table has two columns of the same name.
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


def _series(value: Any, field: Field, path: str) -> Any:
    return [None if missing else each for each, missing in zip(value.tolist(), value.isna(), strict=True)]


def _multi_index(value: Any, field: Field, path: str) -> Any:
    levels = [_series(value.get_level_values(level), field, path) for level in range(value.nlevels)]
    return [list(each) for each in zip(*levels, strict=True)]


def _frame(value: Any, field: Field, path: str) -> Any:
    value = _with_index(value, field if field.kind == "object" else field.at(0))
    names = [str(name) for name in value.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentsError(f"{path}: the DataFrame has two columns {twice!r}; rename one of them")
    columns = [_series(value.iloc[:, index], field, path) for index in range(len(names))]
    if field.kind == "object":
        return dict(zip(names, columns, strict=True))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _with_index(value: Any, row: Field | None) -> Any:
    """Return a DataFrame whose index is columns too, as far as the schema names them: dates, or what was grouped by."""
    taken = {str(name) for name in value.columns}
    named = [name for name in value.index.names if isinstance(name, str) and name not in taken]
    wanted = [name for name in named if row is not None and row.listed(name) is not None]
    return value.reset_index(level=wanted) if wanted else value


def _missing(value: Any, field: Field, path: str) -> Any:
    return None


def _call(method: str) -> Callable[[Any, Field, str], Any]:
    return lambda value, _field, _path: getattr(value, method)()


_LIBRARIES: dict[tuple[str, str], Callable[[Any, Field, str], Any]] = {
    ("numpy", ""): _numpy,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "MultiIndex"): _multi_index,
    ("pandas", "Index"): _series,
    ("pandas", "ExtensionArray"): _series,
    ("pandas", "NAType"): _missing,
    ("pandas", "NaTType"): _missing,
    ("pandas", "Period"): _call("__str__"),
    ("polars", "DataFrame"): _call("to_dicts"),
    ("polars", "Series"): _call("to_list"),
    ("pyarrow", "Table"): _call("to_pylist"),
}
"""(library, class, "" for any) -> how to make it plain."""
