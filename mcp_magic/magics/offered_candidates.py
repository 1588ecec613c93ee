"""What servers offer, where the cursor is: names of tools and prompts, their arguments, resources."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.errors import MCPMagicError
from mcp_magic.magics.remote import complete_prompt, complete_template, complete_uri
from mcp_magic.magics.typed_words import argument, assigned, beginning, meant, names_in, valued
from mcp_magic.notebook import host
from mcp_magic.schema.items import unescape_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp_magic.core.connection import Connection
    from mcp_magic.magics.settings import Settings
    from mcp_magic.schema import Field

__all__ = [
    "Candidates",
    "Tab",
    "form",
    "form_argument",
    "offered",
    "prompt_argument",
    "resource",
    "starting",
    "tool_argument",
]


class Candidates(NamedTuple):
    """Completions: the text they replace, what may stand there, and what a text stands for."""

    fragment: str
    texts: list[str]
    kinds: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Tab:
    """Where Tab was pressed.

    Attributes:
        fragment: What is typed of the word.
        positional: The words before it that are no options and no values of options.
        namespace: The variables of the notebook.
        settings: The settings, which say where threads are kept.
        agents: The names of the declared agents.
    """

    fragment: str
    positional: Sequence[str]
    namespace: Mapping[str, Any]
    settings: Settings | None
    agents: Iterable[str]


def starting(fragment: str, words: Iterable[str]) -> Candidates:
    """Return those words that begin with a fragment and can be typed."""
    return Candidates(fragment, beginning(fragment, words))


def offered(kind: str, fragment: str) -> Candidates:
    """Return names of what servers offer, with their server and, where that is clear, without."""
    full = [f"{c.name}:{item.name}" for c in host.find() for item in c.catalog.cached(kind)]
    bare = [name.partition(":")[2] for name in full]
    times = Counter(bare) if fragment else {}
    unique = [name for name in bare if times.get(name) == 1 and not name.startswith("-")]
    said = meant(fragment)
    return Candidates(fragment, [shlex.quote(n) for n in (*full, *unique) if n.startswith(said) and n.isprintable()])


def _known(kind: str, name: str) -> tuple[Connection, Any] | None:
    server, _, rest = name.partition(":")
    for connection in host.find():
        for item in connection.catalog.cached(kind):
            if item.name == name or (connection.name == server and item.name == rest):
                return connection, item
    return None


def tool_argument(tab: Tab) -> Candidates:
    """Return the arguments of the tool that the line names first."""
    fragment = tab.fragment
    known = _known("tools", meant(tab.positional[0]))
    if known is None:
        return Candidates(fragment, [])
    root = schema.root_field(known[1].input_schema)
    name, equals, _ = fragment.partition("=")
    if equals:
        field = _field_at(root, names_in(name))
        return starting(fragment, valued(name, _values(field)) if field else ())
    used = {meant(word).partition("=")[0].removesuffix(":") for word in tab.positional[1:]}
    prefix = fragment.rpartition(".")[0]
    parent = _field_at(root, names_in(prefix)) if prefix else root
    before = f"{prefix}." if prefix else ""
    words = {f"{before}{argument(field.name)}=": field for field in (parent.children if parent else ())}
    return starting(fragment, [word for word, field in words.items() if _open(word, field, used)])


def _open(word: str, field: Field, used: set[str]) -> bool:
    return meant(word).removesuffix("=") not in used or field.kind == "array"


def _field_at(field: Field, path: Iterable[str]) -> Field | None:
    for name in path:
        found = next((child for child in field.children if child.name == name), None)
        if found is None:
            return None
        field = found
    return field


def _values(field: Field) -> list[Any]:
    item = field.item if field.kind == "array" and field.item else field
    if item.kind == "boolean":
        return [True, False]
    return [value for value, _ in item.choices or () if value is None or isinstance(value, str | int | float)]


def form(tab: Tab) -> Candidates:
    """Return what a form can be of: a tool, a prompt or a template."""
    templates = [shlex.quote(t.uri_template) for _, t in _templates() if not t.uri_template.startswith("-")]
    more = [text for kind in ("tools", "prompts") for text in offered(kind, tab.fragment).texts]
    return Candidates(tab.fragment, [*more, *beginning(tab.fragment, templates)])


def form_argument(tab: Tab) -> Candidates:
    """Return the arguments of the tool, the prompt or the template that the line names first."""
    name = meant(tab.positional[0])
    for connection, template in _templates():
        if template.uri_template == name:
            names = re.findall(r"[\w.%]+", "".join(re.findall(r"\{([^{}]*)\}", name)))
            return _asked(names, tab, partial(complete_template, connection, name))
    return (tool_argument if _known("tools", name) else prompt_argument)(tab)


def _templates() -> list[tuple[Connection, Any]]:
    return [(connection, template) for connection in host.find() for template in connection.catalog.cached("templates")]


def resource(tab: Tab) -> Candidates:
    """Return the URIs of resources, and what fills a template."""
    said = unescape_word(meant(tab.fragment))
    listed = [str(r.uri) for c in host.find() for r in c.catalog.cached("resources")]
    uris = dict.fromkeys([*(uri for uri in listed if uri.startswith(said)), *complete_uri(_templates(), said)])
    return Candidates(tab.fragment, [word for word in map(schema.as_word, uris) if word])


def prompt_argument(tab: Tab) -> Candidates:
    """Return the arguments of the prompt that the line names first."""
    known = _known("prompts", meant(tab.positional[0]))
    if known is None:
        return Candidates(tab.fragment, [])
    connection, prompt = known
    names = [argument.name for argument in prompt.arguments or ()]
    return _asked(names, tab, partial(complete_prompt, connection, prompt.name))


def _asked(names: list[str], tab: Tab, ask: Callable[[str, str, dict[str, str]], list[str]]) -> Candidates:
    """Return the names of arguments that are not given yet, or what the server offers for the value of one."""
    fragment, given = tab.fragment, dict(map(assigned, tab.positional[1:]))
    name, equals, _ = fragment.partition("=")
    if not equals:
        return starting(fragment, [f"{argument(name)}=" for name in names if name not in given])
    try:
        values = ask(".".join(names_in(name)), assigned(fragment)[1], given)
    except MCPMagicError:  # Tab is no place for an error
        values = []
    return Candidates(fragment, [word for word in valued(name, values) if word.isprintable()])
