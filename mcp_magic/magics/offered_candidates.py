"""What servers offer, where the cursor is: names of tools and prompts, their arguments, resources."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.errors import MCPMagicError
from mcp_magic.magics.remote import complete_prompt, complete_template, complete_uri
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_magic.core.connection import Connection
    from mcp_magic.schema import Field

__all__ = ["Candidates", "call", "form", "offered", "prompt", "read", "starting"]


class Candidates(NamedTuple):
    """Completions: the text they replace, what may stand there, and whether nothing else may."""

    fragment: str
    texts: list[str]
    exclusive: bool = True


def starting(fragment: str, texts: Sequence[str], *, exclusive: bool = True) -> Candidates:
    """Return those texts that begin with a fragment."""
    return Candidates(fragment, [text for text in texts if text.startswith(fragment)], exclusive)


def offered(kind: str, fragment: str) -> Candidates:
    """Return names of what servers offer, with their server and, where that is clear, without."""
    full = [f"{c.name}:{item.name}" for c in host.find() for item in c.catalog.cached(kind)]
    bare = [name.partition(":")[2] for name in full]
    unique = [name for name in bare if fragment and bare.count(name) == 1]
    return starting(fragment, [*full, *unique])


def _known(kind: str, name: str) -> tuple[Connection, Any] | None:
    server, _, rest = name.partition(":")
    for connection in host.find():
        for item in connection.catalog.cached(kind):
            if item.name == name or (connection.name == server and item.name == rest):
                return connection, item
    return None


def call(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return what may follow `%mcp call`: a tool, then its arguments."""
    if not positional:
        return offered("tools", fragment)
    known = _known("tools", positional[0])
    if known is None:
        return Candidates(fragment, [])
    root = schema.root_field(known[1].input_schema)
    name, equals, value = fragment.partition("=")
    if equals:
        field = _field_at(root, name.removesuffix(":"))
        return Candidates(fragment, [f"{name}={v}" for v in _values(field) if v.startswith(value)] if field else [])
    used = {word.partition("=")[0].removesuffix(":") for word in positional[1:]}
    prefix = fragment.rpartition(".")[0]
    parent = _field_at(root, prefix) if prefix else root
    fields = parent.children if parent else ()
    paths = [f"{prefix}.{field.name}" if prefix else field.name for field in fields]
    return starting(fragment, [f"{path}=" for path, f in zip(paths, fields, strict=True) if _open(path, f, used)])


def _open(path: str, field: Field, used: set[str]) -> bool:
    return path not in used or field.kind == "array"


def _field_at(field: Field, path: str) -> Field | None:
    for name in path.split("."):
        found = next((child for child in field.children if child.name == name), None)
        if found is None:
            return None
        field = found
    return field


def _values(field: Field) -> list[str]:
    item = field.item if field.kind == "array" and field.item else field
    if item.kind == "boolean":
        return ["true", "false"]
    texts = [str(value) for value, _ in item.choices or ()]
    return [f"'{text}'" if re.search(r"\s", text) else text for text in texts]


def form(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return what may follow `%mcp form`: a tool, a prompt or a template, then its arguments."""
    if positional:
        name = positional[0].strip("'\"")
        template = next(((c, t) for c, t in _templates() if t.uri_template == name), None)
        if template is not None:
            return _variables(*template, positional, fragment)
        return (call if _known("tools", name) else prompt)(positional, fragment, namespace)
    templates = [t.uri_template for _, t in _templates()]
    more = [text for kind in ("tools", "prompts") for text in offered(kind, fragment).texts]
    return Candidates(fragment, [*more, *(text for text in templates if text.startswith(fragment))])


def _templates() -> list[tuple[Connection, Any]]:
    return [(connection, template) for connection in host.find() for template in connection.catalog.cached("templates")]


def read(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return what may follow `%mcp read`: a resource, or what fills a template."""
    if positional:
        return Candidates(fragment, [])
    listed = [str(r.uri) for c in host.find() for r in c.catalog.cached("resources") if str(r.uri).startswith(fragment)]
    return Candidates(fragment, list(dict.fromkeys([*listed, *complete_uri(_templates(), fragment)])))


def prompt(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return what may follow `%mcp prompt`: a prompt, then its arguments."""
    if not positional:
        return offered("prompts", fragment)
    known = _known("prompts", positional[0])
    if known is None:
        return Candidates(fragment, [])
    connection, prompt = known
    names = [argument.name for argument in prompt.arguments or ()]
    return _asked(names, positional, fragment, partial(complete_prompt, connection, prompt.name))


def _variables(connection: Connection, template: Any, positional: list[str], fragment: str) -> Candidates:
    names = re.findall(r"[\w.%]+", "".join(re.findall(r"\{([^}]*)\}", template.uri_template)))
    return _asked(names, positional, fragment, partial(complete_template, connection, template.uri_template))


def _asked(
    names: list[str], positional: list[str], fragment: str, ask: Callable[[str, str, dict[str, str]], list[str]]
) -> Candidates:
    """Return the names of arguments that are not given yet, or what the server offers for the value of one."""
    given = {name: value.strip("'\"") for name, _, value in (word.partition("=") for word in positional[1:])}
    name, equals, value = fragment.partition("=")
    if not equals:
        return starting(fragment, [f"{name}=" for name in names if name not in given])
    try:
        values = ask(name, value.strip("'\""), given)
    except MCPMagicError:  # Tab is no place for an error
        values = []
    return Candidates(fragment, [f"{name}='{v}'" if re.search(r"\s", v) else f"{name}={v}" for v in values])
