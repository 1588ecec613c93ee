"""`%%mcp_server`: turns the functions of a cell into tools, resources and prompts of a server."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import types
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent
from pydantic import Base64Bytes
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_ARGUMENT = re.compile(r"^\s+(\*{0,2}\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    r"""Return a docstring (Google style) without its arguments section, and the description of each argument.

    >>> read_docstring("Adds.\n\nArgs:\n    a: One.\n    b (int): The\n        other.\n\nReturns:\n    It.")
    ('Adds.\n\nReturns:\n    It.', {'a': 'One.', 'b': 'The other.'})
    """
    lines: list[str] = []
    arguments: dict[str, str] = {}
    inside, last = False, ""
    for line in text.splitlines():
        if _SECTION.match(line):
            inside, last = True, ""
        elif inside and line and not line[0].isspace():
            inside = False
        if not inside:
            lines.append(line)
        elif (match := _ARGUMENT.match(line)) and len(line) - len(line.lstrip()) <= 4:
            last = match[1].lstrip("*")
            arguments[last] = match[2].strip()
        elif last and line.strip():
            arguments[last] = f"{arguments[last]} {line.strip()}".strip()
    return "\n".join(lines).strip(), arguments


# DataFrames and Series as results of tools: they become rows, a list of objects, because JSON has no tables.
#
# `program` in `export.py` copies the source of `giving_rows` and `as_rows` into exported programs.


def giving_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a tool return rows instead of a DataFrame or Series, with or without a return annotation."""
    announced = getattr(function, "__annotations__", {}).get("return", Any) not in (Any, object, "Any", "object")

    def answer(value: Any) -> Any:
        rows = as_rows(value)
        if announced or rows is value:
            return rows
        structured = rows if isinstance(rows, dict) else {"result": rows}
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(rows))], structured_content=structured)

    async def later(*arguments: Any, **options: Any) -> Any:
        return answer(await function(*arguments, **options))

    def now(*arguments: Any, **options: Any) -> Any:
        return answer(function(*arguments, **options))

    return functools.wraps(function)(later if inspect.iscoroutinefunction(function) else now)


def as_rows(value: Any) -> Any:
    """Return a table as a list of objects, and any other value unchanged.

    The index becomes columns, unless it is unnamed and holds integers, which only number the rows.
    """
    if type(value) is dict:
        rows = {name: as_rows(item) for name, item in value.items()}
        return rows if any(rows[name] is not item for name, item in value.items()) else value
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


# Types that JSON lacks, and what stands in a schema for them, in annotations and in the code of annotations.


@dataclass(frozen=True)
class Substitute:
    """What replaces a type in annotations; an `Annotated` type with validators of its own stays."""

    names: tuple[str, ...]
    code: str
    type: Any
    replaces: Callable[[Any], bool]

    def in_type(self, kind: Any) -> Any:
        """Return a type with the replacement in it, or the type itself if nothing in it is replaced."""
        if self.replaces(kind):
            return self.type
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated and not all(isinstance(item, str | FieldInfo) for item in arguments[1:]):
            return kind
        replaced = tuple(map(self.in_type, arguments))
        if all(new is old for new, old in zip(replaced, arguments, strict=True)):
            return kind
        return Union[replaced] if origin in (Union, types.UnionType) else origin[replaced]  # noqa: UP007

    def in_code(self, annotation: ast.expr) -> str | None:
        """Return the code of an annotation with the replacement in it; None if nothing in it is replaced.

        >>> ROWS.in_code(ast.parse("dict[str, pd.DataFrame] | None", mode="eval").body)
        'dict[str, list[dict[str, Any]]] | None'
        >>> BASE64.in_code(ast.parse("list[bytes] | None", mode="eval").body)
        'list[Base64Bytes] | None'
        >>> BASE64.in_code(ast.parse("Annotated[bytes, EncodedBytes(encoder=Hex)]", mode="eval").body) is None
        True
        """
        before = ast.unparse(annotation)
        after = ast.unparse(_Replacing(self).visit(ast.parse(before, mode="eval").body))
        return after if after != before else None


class _Replacing(ast.NodeTransformer):
    def __init__(self, substitute: Substitute) -> None:
        self._substitute = substitute
        self._new = ast.parse(substitute.code, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._new if node.id in self._substitute.names else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._new if node.attr in self._substitute.names else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            with suppress(SyntaxError):
                quoted = ast.parse(node.value, mode="eval").body
                return ast.Constant(self._substitute.in_code(quoted) or node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        generic = ast.unparse(node.value).rpartition(".")[2]
        if generic == "Annotated" and isinstance(node.slice, ast.Tuple):
            kind, *more = node.slice.elts
            if all(isinstance(item, ast.Constant) or re.match(r"(\w+\.)*Field\(", ast.unparse(item)) for item in more):
                node.slice.elts[0] = self.visit(kind)
        elif generic != "Literal":
            node.slice = self.visit(node.slice)
        return node


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and any(
        base.__name__ in ROWS.names and base.__module__.partition(".")[0] in ("pandas", "polars")
        for base in kind.__mro__
    )


ROWS = Substitute(("DataFrame", "Series"), "list[dict[str, Any]]", list[dict[str, Any]], _is_table)

# Without it the function would silently get the base64 text itself, because pydantic accepts any text as bytes.
BASE64 = Substitute(("bytes",), "Base64Bytes", Base64Bytes, lambda kind: kind is bytes)


@contextmanager
def as_json(function: Callable[..., Any]) -> Iterator[None]:
    """Change a function's annotations while the SDK reads them: `bytes` becomes base64, a DataFrame becomes rows."""
    original = inspect.unwrap(function, stop=lambda wrapper: hasattr(wrapper, "__signature__"))
    annotations = getattr(original, "__annotations__", None)
    if not annotations:
        yield
        return
    original.__annotations__ = annotations | _replacements(original)
    try:
        yield
    finally:
        original.__annotations__ = annotations


def _replacements(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        annotations = inspect.get_annotations(function, eval_str=True)
    except Exception:  # the SDK reports what is wrong with the annotations
        return {}
    kinds = {name: (ROWS if name == "return" else BASE64).in_type(kind) for name, kind in annotations.items()}
    return {name: kind for name, kind in kinds.items() if kind is not annotations[name]}


# The in-process server.

HINTS = ("read_only", "destructive", "idempotent", "open_world")


@dataclass
class Marks:
    """The decorators `@tool`, `@resource` and `@prompt` of a cell, and the functions and options that they record."""

    tools: list[tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=list)
    resources: list[tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=list)
    prompts: list[tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=list)

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Add options to a tool: `@tool(title=..., read_only=True)`."""
        return self._marked(self.tools, function, options)

    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Make a function a prompt instead of a tool."""
        return self._marked(self.prompts, function, options)

    def resource(self, uri: str, /, **options: Any) -> Any:
        """Make a function a resource, or a resource template if the URI has `{names}`."""
        if not isinstance(uri, str):
            raise CommandError('%%mcp_server: @resource needs a URI, such as @resource("data://table").')
        return self._marked(self.resources, None, {**options, "uri": uri})

    @property
    def names(self) -> dict[str, Any]:
        """The decorators by name."""
        return {"tool": self.tool, "resource": self.resource, "prompt": self.prompt}

    @staticmethod
    def _marked(where: list[Any], function: Any, options: dict[str, Any]) -> Any:
        def mark(function: Any) -> Any:
            where.append((function, options))
            return function

        return mark if function is None else mark(function)


class CellServer(MCPServer[Any]):
    """A server made from a cell, with the cell's code."""

    def __init__(self, name: str, source: str, instructions: str | None) -> None:
        # at the SDK's default log level, every call would write a line into the notebook
        super().__init__(name, instructions=instructions, log_level="CRITICAL")
        self.source = source

    def add_function(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """Add a function as a tool; its docstring describes the tool and the arguments."""
        from mcp_types import ToolAnnotations

        keywords = dict(options)
        hints = {f"{hint}_hint": keywords.pop(hint) for hint in HINTS if hint in keywords}
        if hints:
            keywords["annotations"] = ToolAnnotations(**hints)
        described, arguments = read_docstring(inspect.getdoc(function) or "")
        keywords.setdefault("description", described)
        with as_json(function):
            self.add_tool(function, **keywords)
        tool = self._tool_manager.get_tool(keywords.get("name") or function.__name__)
        if tool is not None and _may_give_tables(function):
            tool.fn = giving_rows(function)
        properties = tool.parameters.get("properties", {}) if tool is not None else {}
        for name, text in arguments.items():
            if isinstance(properties.get(name), dict):
                properties[name].setdefault("description", text)


def make_server(
    name: str,
    functions: Sequence[Callable[..., Any]],
    marks: Marks,
    *,
    source: str = "",
    instructions: str | None = None,
) -> CellServer:
    """Return a server with the functions, as tools if no decorator says otherwise; CommandError names a wrong one."""
    server = CellServer(name, source, instructions)
    marked = {id(function): options for function, options in marks.tools}
    elsewhere = {id(function) for function, _ in [*marks.resources, *marks.prompts]}
    for function in [*functions, *(f for f, _ in marks.tools if f not in functions)]:
        if id(function) not in elsewhere:
            _offer(function, server.add_function, function, marked.get(id(function), {}))
    for decorator, marked_functions in ((server.resource, marks.resources), (server.prompt, marks.prompts)):
        for function, options in marked_functions:
            _offer(function, _decorate, decorator, function, options)
    return server


def _decorate(decorator: Callable[..., Any], function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    decorator(**options)(function)


def _offer(function: Callable[..., Any], add: Callable[..., Any], *arguments: Any) -> None:
    try:
        add(*arguments)
    except Exception as error:  # the SDK, pydantic and typing share no base class of errors
        reason = one_line(str(error), 300) or type(error).__name__
    else:
        return
    name = getattr(function, "__name__", repr(function))
    advice = "" if name.startswith("_") else "; `_` in front of its name makes it a helper."
    signature = "()"
    with suppress(TypeError, ValueError):
        signature = str(inspect.signature(function))
    raise CommandError(f"%%mcp_server: {name}{signature} cannot be offered: {reason}{advice}")


def _may_give_tables(function: Callable[..., Any]) -> bool:
    """Whether a function's annotation says DataFrame or Series, or nothing."""
    try:
        kind = inspect.signature(function, eval_str=True).return_annotation
    except Exception:  # the SDK has reported what is wrong with the annotation
        return False
    return kind in (inspect.Signature.empty, Any, object) or ROWS.in_type(kind) is not kind
