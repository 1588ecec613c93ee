"""Writes a typed Python module with one function per tool of a server, or the short form that a model reads."""

from __future__ import annotations

import builtins
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import clean
from mcp_magic.display.text import one_line
from mcp_magic.schema.fields import MISSING, Field, input_root, root_field
from mcp_magic.schema.signature import identifier, make_docstring

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from mcp_types import Tool


# JSON Schema as the code of Python type hints: TypedDicts for objects, Literals for choices.

USED = frozenset(("bool", "dict", "float", "int", "list", "str", "Any", "Literal", "NotRequired", "TypedDict"))
"""Names used in type hints; a class with one of these names would shadow it for a type checker."""

MAX_CLASS_DEPTH = 6  # levels of nested objects that get their own classes; recursive schemas would never end

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Types:
    """Writes type hints and the classes that they need, under names that are not taken; `short` ones on one line."""

    def __init__(self, names: Container[str] = (), *, short: bool = False) -> None:
        self.classes: list[str] = []  # the code of each class, in the order in which a module can define them
        self._reserved = names
        self._short = short
        self._names: set[str] = set()
        self._class_names: dict[tuple[str, str], str] = {}

    def hint(self, field: Field, name: str, depth: int = 0) -> str:
        """Return the type hint of a field, which is so many objects deep; its class gets the `name`."""
        text = self._plain(field, name, depth)
        return f"{text} | None" if field.nullable and text not in ("None", "Any") else text

    def _plain(self, field: Field, name: str, depth: int) -> str:
        kind = field.kind
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind in ("enum", "const"):
            return _literal([value for value, _ in field.choices])
        if kind == "union":
            hints = [self.hint(variant, f"{name}{number}", depth) for number, variant in enumerate(field.variants, 1)]
            return " | ".join(dict.fromkeys(hints)) if "Any" not in hints else "Any"
        if kind == "array":
            inner = self.hint(field.item, f"{name}Item", depth) if field.item is not None else "Any"
            return f"list[{inner}]"
        if kind == "object":
            return self._object(field, name, depth)
        return "Any"

    def _object(self, field: Field, base: str, depth: int) -> str:
        if not field.children:
            rest = field.additional
            inner = "Any" if isinstance(rest, bool) else self.hint(rest, f"{base}Value", depth + 1)
            return f"dict[str, {inner}]"
        if depth >= MAX_CLASS_DEPTH:
            return "dict[str, Any]"
        key = (base, repr(field.raw))
        if key not in self._class_names:
            self._class_names[key] = name = self._unique(base)
            children = [
                (child.name, self.hint(child, f"{name}{_camel(child.name)}", depth + 1), child)
                for child in field.children
            ]
            description = None if self._short else field.description
            self.classes.append(_class(name, children, description, self._names | USED))
        return self._class_names[key]

    def _unique(self, base: str) -> str:
        base = name = identifier(base)
        number = 2
        while name in self._names or name in self._reserved or name in USED:
            name, number = f"{base}{number}", number + 1
        self._names.add(name)
        return name


def _literal(values: list[object]) -> str:
    simple = [value for value in values if value is None or isinstance(value, str | int | bool)]
    if not simple or len(simple) < len(values):
        return "Any"
    return f"Literal[{', '.join(map(repr, simple))}]"


def _class(name: str, children: list[tuple[str, str, Field]], description: str | None, types: Container[str]) -> str:
    """Return the code of a class; on one line without a description."""
    keys = [
        (key, hint if child.required else f"NotRequired[{hint}]", child.description) for key, hint, child in children
    ]
    if any(key != identifier(key) or key in types or key.startswith("__") for key, *_ in keys):
        members = ", ".join(f"{key!r}: {hint}" for key, hint, _ in keys)
        return f"{name} = TypedDict({name!r}, {{{members}}})"
    if description is None:
        return f"class {name}(TypedDict): {'; '.join(f'{key}: {hint}' for key, hint, _ in keys)}"
    lines = [f"class {name}(TypedDict):", f"    {docstring(' '.join(description.split()) or 'An object.')}", ""]
    for key, hint, description in keys:
        lines.append(f"    {key}: {hint}")
        if description:
            lines.append(f"    {docstring(' '.join(description.split()))}")
    return "\n".join(lines)


def docstring(text: str) -> str:
    """Return the code of a docstring: nothing in the text can end it, and nothing in it is hidden."""
    code = clean(text).replace("\\", "\\\\").replace('"""', "'''")
    code = code + " " if code.endswith('"') else code
    return f'"""{code}\n"""' if "\n" in code else f'"""{code}"""'


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name) if part) or "Value"


# The module, which calls the tools through mcp_magic.

_HEAD = '''"""Functions for the tools of the MCP server {server!r}, written by `%mcp stubs {server}`.

They call the session of that name: `await host.connect(...)` or `%mcp connect ... --name {server}` opens it.
"""

from __future__ import annotations

from typing import {typing}

from mcp_magic import host

__all__ = [{names}]

_UNSET: Any = object()


async def _call(tool: str, /, **arguments: Any) -> Any:
    """Call a tool with what is given, and return its data, or its text where it has none."""
    given = {{_NAMES.get((tool, name), name): value for name, value in arguments.items() if value is not _UNSET}}
    result = await host[{server!r}].call(tool, given)
    return result.text if result.data is None else result.data


_NAMES: dict[tuple[str, str], str] = {mangled}
'''

_RESERVED = USED | {"_NAMES", "_UNSET", "_call", "annotations", "host", "object", "tuple"}
"""Names that the module itself uses."""


def stubs(server: str, tools: Iterable[Tool]) -> str:
    """Return the code of a module with one async function per tool, which calls the session of this name."""
    tools_by_name: dict[str, Tool] = {}
    for tool in tools:
        tools_by_name[_free(tool.name, tools_by_name)] = tool
    types = Types(tools_by_name)
    mangled: dict[tuple[str, str], str] = {}
    functions = [_function(name, tool, types, mangled) for name, tool in tools_by_name.items()]
    code = "\n\n\n".join([*types.classes, *functions])
    words = re.findall(r"\b(Literal|NotRequired|TypedDict)[\[()]", code)
    head = _HEAD.format(
        server=server,
        typing=", ".join(["Any", *sorted(set(words))]),
        names=", ".join(f'"{name}"' for name in tools_by_name),
        mangled=repr(mangled),
    )
    return f"{head}\n\n{code}\n" if code else head


def _free(name: str, names: Container[str], reserved: Container[str] = _RESERVED) -> str:
    """Return an unused identifier for a name; never `__dunder__`, which has a meaning in a module (`__getattr__`)."""
    free = identifier(name)
    while free in names or free in reserved or re.fullmatch("__.*[^_]__", free):
        free += "_"
    return free


def _function(name: str, tool: Tool, types: Types, mangled: dict[tuple[str, str], str]) -> str:
    base = _camel(name)
    fields: dict[str, Field] = {}
    root = input_root(tool.input_schema)
    for child in sorted(root.children, key=lambda child: not child.is_mandatory):
        parameter = _free(child.name, fields, ("_call",))
        fields[parameter] = child
        if parameter != child.name:
            mangled[tool.name, parameter] = child.name
    parameters = []
    for parameter, child in fields.items():
        hint = types.hint(child, f"{base}{_camel(child.name)}")
        parameters.append(f"{parameter}: {hint}" + ("" if child.is_mandatory else " = _UNSET"))
    count = sum(child.is_mandatory for child in fields.values())
    if len(fields) > count:
        parameters.insert(count, "*")
    returned = _returned(tool.output_schema, base, types)
    unlisted = f"\n\nIt takes {root.unlisted:,} more arguments, which are not listed here." if root.unlisted else ""
    text = make_docstring(tool.name, tool.title, (tool.description or "") + unlisted, _described(fields))
    call = ", ".join([repr(tool.name), *(f"{parameter}={parameter}" for parameter in fields)])
    lines = [
        f"async def {name}({', '.join(parameters)}) -> {returned}:",
        textwrap.indent(docstring(text), "    "),
        f"    return await _call({call})" + ("" if returned == "Any" else "  # type: ignore[no-any-return]"),
    ]
    return "\n".join(lines)


def _described(fields: Mapping[str, Field]) -> Mapping[str, Any]:
    """Return a schema that documents arguments under the function's parameter names."""
    return {
        "properties": {
            name: {
                **_alone(child.schema),
                "description": one_line(child.description, 300),
                **({"default": child.default} if child.default is not MISSING else {}),
            }
            for name, child in fields.items()
        },
        "required": [name for name, child in fields.items() if child.required],
    }


def _alone(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that needs no definitions: itself, or only its type if it contains a `$ref`."""
    return {"type": schema.get("type", [])} if "$ref" in json.dumps(schema) else schema


def _returned(schema: Mapping[str, Any] | None, base: str, types: Types) -> str:
    if not schema:
        return "Any"
    root = root_field(schema)
    is_wrapped = len(root.children) == 1 and root.children[0].name == "result"  # `.data` unwraps `{"result": ...}`
    return types.hint(root.children[0] if is_wrapped else root, f"{base}Result")


# The short form, which a model reads: a line for each class and function, without what the types say.

SHORT_TEXT, SHORT_ARGUMENT = 200, 80  # characters of a tool's description, and of an argument's

SHORT_HEAD = "from typing import Any, Literal, NotRequired, TypedDict\n"
"""The line that a type checker needs before the code of short functions."""

_SHORT_RESERVED = _RESERVED | set(dir(builtins))
"""A tool of such a name would replace a builtin where a program imports it."""


class ShortFunction(NamedTuple):
    """A tool as a function on one line, with the classes that it needs.

    Attributes:
        parameters: Parameter -> the tool's argument.
        positional: How many of the parameters, the first ones, can be given by position.
    """

    name: str
    tool: Tool
    code: str
    classes: tuple[str, ...]
    parameters: dict[str, str]
    positional: int


def short_stubs(tools: Iterable[Tool]) -> list[ShortFunction]:
    """Return tools as short functions, whose names are ASCII and no builtins; a tool's own name comes first."""
    tools = list(tools)
    names: dict[str, Tool] = {}
    for tool in sorted(tools, key=lambda tool: (_plain_name(tool.name) != tool.name, tool.name)):
        names[_free(_plain_name(tool.name), names, _SHORT_RESERVED)] = tool
    types = Types(names, short=True)
    functions = {id(tool): _short(name, tool, types) for name, tool in names.items()}
    return [functions[id(tool)] for tool in tools]


def _plain_name(name: str) -> str:
    """Return an ASCII identifier that is not private."""
    plain = identifier(re.sub(r"[^a-zA-Z0-9_]", "_", name))
    return f"tool{plain}" if plain.startswith("_") else plain


def _short(name: str, tool: Tool, types: Types) -> ShortFunction:
    before = len(types.classes)
    parameters: dict[str, Field] = {}
    for child in sorted(input_root(tool.input_schema).children, key=lambda child: not child.is_mandatory):
        parameters[_free(child.name, parameters, ())] = child
    base = _camel(name)
    parts = []
    for parameter, child in parameters.items():
        hint = types.hint(child, f"{base}{_camel(child.name)}")
        is_simple = child.default is None or isinstance(child.default, bool | int | float | str)
        default = repr(child.default) if is_simple and len(repr(child.default)) <= SHORT_ARGUMENT else "..."
        parts.append(f"{parameter}: {hint}" + ("" if child.is_mandatory else f" = {default}"))
    count = sum(child.is_mandatory for child in parameters.values())
    if len(parameters) > count:
        parts.insert(count, "*")
    returned = _returned(tool.output_schema, base, types)
    texts = [one_line(tool.description or tool.title or "", SHORT_TEXT)]
    arguments = ((parameter, one_line(child.description, SHORT_ARGUMENT)) for parameter, child in parameters.items())
    texts += [f"{parameter}: {text}" for parameter, text in arguments if text]
    text = clean("; ".join(filter(None, texts)))
    code = f"async def {name}({', '.join(parts)}) -> {returned}: {text!r}"
    own = {parameter: child.name for parameter, child in parameters.items()}
    return ShortFunction(name, tool, code, tuple(types.classes[before:]), own, count)
