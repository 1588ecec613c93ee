"""Parameters of type `bytes`: JSON has none, so they are offered as base64 and decoded for the function.

The SDK would hand the function the base64 itself (pydantic takes any text for bytes), and nothing would fail.
What a function returns is changed at the same place (`rows`).
"""

from __future__ import annotations

import ast
import inspect
import types
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import Base64Bytes
from pydantic.fields import FieldInfo

from mcp_magic.serving.rows import rows_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["as_json", "base64_code"]


@contextmanager
def as_json(function: Callable[..., Any]) -> Iterator[None]:
    """Let the SDK see types that JSON has: base64 where a parameter is `bytes`, rows where a DataFrame is returned."""
    written = inspect.unwrap(function, stop=lambda each: hasattr(each, "__signature__"))
    kept = getattr(written, "__annotations__", None)
    if not kept:
        yield
        return
    written.__annotations__ = kept | _changed(written)
    try:
        yield
    finally:
        written.__annotations__ = kept


def _changed(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        found = inspect.get_annotations(function, eval_str=True)
    except Exception:  # the SDK says what is wrong with them
        return {}
    changed = {name: rows_type(kind) if name == "return" else _decoded(kind) for name, kind in found.items()}
    return {name: kind for name, kind in changed.items() if kind is not found[name]}


def _decoded(kind: Any) -> Any:
    """Return a type with base64 in place of bytes, or the type itself; own validators are left alone."""
    if kind is bytes:
        return Base64Bytes
    origin, given = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if not all(isinstance(each, str | FieldInfo) for each in given[1:]):
            return kind
        inner = _decoded(given[0])
        return kind if inner is given[0] else Annotated[(inner, *given[1:])]
    changed = tuple(map(_decoded, given))
    if all(new is old for new, old in zip(changed, given, strict=True)):
        return kind
    return Union[changed] if origin in (Union, types.UnionType) else origin[changed]  # noqa: UP007


def base64_code(annotation: ast.expr) -> str | None:
    """Return the code of an annotation with `Base64Bytes` in place of `bytes`, or None if it has none.

    >>> base64_code(ast.parse("list[bytes] | None", mode="eval").body)
    'list[Base64Bytes] | None'
    >>> base64_code(ast.parse("Annotated[bytes, EncodedBytes(encoder=Hex)]", mode="eval").body) is None
    True
    """
    before = ast.unparse(annotation)
    after = ast.unparse(_Decoded().visit(ast.parse(before, mode="eval").body))
    return after if after != before else None


class _Decoded(ast.NodeTransformer):
    """Does in code what `_decoded` does with types."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("Base64Bytes") if node.id == "bytes" else node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if not isinstance(node.value, str):
            return node
        with suppress(SyntaxError):
            return ast.Constant(base64_code(ast.parse(node.value, mode="eval").body) or node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        generic = ast.unparse(node.value).rpartition(".")[2]
        if generic == "Annotated" and isinstance(node.slice, ast.Tuple):
            kind, *more = node.slice.elts
            if all(isinstance(each, ast.Constant) or _is_field(each) for each in more):
                node.slice.elts[0] = self.visit(kind)
        elif generic != "Literal":
            node.slice = self.visit(node.slice)
        return node


def _is_field(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Field"
