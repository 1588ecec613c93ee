"""DataFrames and Series as results of tools: rows, a list of objects, because JSON has no tables.

`giving_rows` and `as_rows` are also written into exported programs as they stand here.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from mcp_types import CallToolResult, TextContent
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_rows", "giving_rows", "rows_code", "rows_type"]

_TABLES = ("DataFrame", "Series")
_LIBRARIES = ("pandas", "polars")


def giving_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a tool return rows where it returns a DataFrame or a Series, also without an annotation that says so."""
    announced = getattr(function, "__annotations__", {}).get("return", Any) not in (Any, object, "Any", "object")

    def given(value: Any) -> Any:
        rows = as_rows(value)
        if announced or rows is value:
            return rows
        structured = rows if isinstance(rows, dict) else {"result": rows}
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(rows))], structured_content=structured)

    async def later(*arguments: Any, **named: Any) -> Any:
        return given(await function(*arguments, **named))

    def now(*arguments: Any, **named: Any) -> Any:
        return given(function(*arguments, **named))

    return functools.wraps(function)(later if inspect.iscoroutinefunction(function) else now)


def as_rows(value: Any) -> Any:
    """Return a table as a list of objects; anything else as it is.

    Its index is columns, unless it is whole numbers without a name, which only number the rows.
    """
    if type(value) is dict:
        made = {name: as_rows(item) for name, item in value.items()}
        return made if any(made[name] is not item for name, item in value.items()) else value
    if type(value) in (list, tuple):
        items = [as_rows(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if kinds.isdisjoint((library, name) for library in ("pandas", "polars") for name in ("DataFrame", "Series")):
        return value
    if not hasattr(value, "columns"):
        value = value.to_frame(value.name or "value")
    if hasattr(value, "to_dicts"):
        return to_jsonable_python(value.to_dicts(), fallback=str, inf_nan_mode="null")
    index = value.index
    if index.nlevels > 1 or index.name is not None or index.inferred_type not in ("integer", "empty"):
        value = value.reset_index(allow_duplicates=True)
    names = ["_".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in value.columns]
    value = value.set_axis(names, axis=1).astype(object).where(value.notna().to_numpy(), None)
    return to_jsonable_python(value.to_dict("records"), fallback=str, inf_nan_mode="null")


def rows_type(kind: Any) -> Any:
    """Return a return type with rows in place of DataFrames and Series, or the type itself."""
    if isinstance(kind, type) and _is_table(kind):
        return list[dict[str, Any]]
    origin, given = get_origin(kind), get_args(kind)
    changed = tuple(map(rows_type, given))
    if all(new is old for new, old in zip(changed, given, strict=True)):
        return kind
    return Union[changed] if origin in (Union, type(int | str)) else origin[changed]  # noqa: UP007


def _is_table(kind: type) -> bool:
    return any(each.__name__ in _TABLES and each.__module__.partition(".")[0] in _LIBRARIES for each in kind.__mro__)


def rows_code(annotation: ast.expr) -> str | None:
    """Return the code of a return annotation with rows in place of DataFrames and Series, or None if it has none.

    >>> rows_code(ast.parse("dict[str, pd.DataFrame] | None", mode="eval").body)
    'dict[str, list[dict[str, Any]]] | None'
    >>> rows_code(ast.parse("list[int]", mode="eval").body) is None
    True
    """
    before = ast.unparse(annotation)
    after = ast.unparse(_Rows().visit(ast.parse(before, mode="eval").body))
    return after if after != before else None


class _Rows(ast.NodeTransformer):
    """Does in code what `rows_type` does with types."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._rows() if node.id in _TABLES else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._rows() if node.attr in _TABLES else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            with suppress(SyntaxError):
                return ast.Constant(rows_code(ast.parse(node.value, mode="eval").body) or node.value)
        return node

    def _rows(self) -> ast.expr:
        return ast.parse("list[dict[str, Any]]", mode="eval").body
