"""Tab completions for the words of a `%mcp` line."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from mcp_magic import schema
from mcp_magic.config.targets import means_server
from mcp_magic.consent.rules import exactly
from mcp_magic.errors import MCPMagicError, NotFoundError
from mcp_magic.ipython.commandline import Word, argument, assigned, beginning, meant, names_in, valued
from mcp_magic.ipython.commands import AGENT, COMMANDS, SERVER
from mcp_magic.ipython.execution import run_nested
from mcp_magic.notebook import host
from mcp_magic.schema.commandline import as_word, unescape_word
from mcp_magic.trace.trace import OUT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp_magic.ipython.commandline import Command, Parser
    from mcp_magic.ipython.settings import Settings
    from mcp_magic.schema.fields import Field
    from mcp_magic.session.connection import Connection
    from mcp_magic.trace.trace import Entry

__all__ = [
    "COMPLETERS",
    "DECLARATIONS",
    "SERVER_FILES",
    "Candidates",
    "Tab",
    "candidates",
    "complete_prompt",
    "complete_template",
    "complete_uri",
    "form",
    "form_argument",
    "method",
    "model",
    "offered",
    "paths",
    "place_in",
    "prompt_argument",
    "request",
    "request_argument",
    "resource",
    "rule",
    "servers",
    "starting",
    "thread",
    "tool_argument",
    "tools",
]


# Completions from the server: `completion/complete`, requested when Tab is pressed.
#
# Tab is synchronous and called from the kernel's loop, so the request briefly nests the loop. A later answer goes into
# the cache, for the next Tab.

PATIENCE_SECONDS = 0.25
"""Seconds that a Tab waits for the server."""

FRESH_SECONDS = 60.0
"""Seconds that an answer stays in the cache."""

_PIECES = re.compile(r"([^{]*)(?:\{([+#./;?&]?)([^{}*:]*)[^{}]*\}|$)")
"""A literal of a URI template (RFC 6570) and the expression after it: its operator and its variable."""

_cache: dict[tuple[Any, ...], tuple[float, list[str]]] = {}
_requests: dict[tuple[Any, ...], asyncio.Task[None]] = {}


def complete_prompt(
    connection: Connection, prompt: str, argument: str, value: str, given: Mapping[str, str]
) -> list[str]:
    """Return values for a prompt's argument that begin with `value`."""
    from mcp_types import PromptReference

    return _ask(connection, PromptReference(type="ref/prompt", name=prompt), argument, value, given)


def complete_template(
    connection: Connection, template: str, argument: str, value: str, given: Mapping[str, str]
) -> list[str]:
    """Return values for a variable of a resource template that begin with `value`."""
    from mcp_types import ResourceTemplateReference

    return _ask(connection, ResourceTemplateReference(type="ref/resource", uri=template), argument, value, given)


def complete_uri(templates: Iterable[tuple[Connection, Any]], fragment: str) -> list[str]:
    """Return continuations of `fragment`: a template's next literal, or its server's values for the variable.

    The values of the variables before are sent as the context.
    """
    found: list[str] = []
    for connection, template in templates:
        at = place_in(template.uri_template, fragment)
        if at is None:
            continue
        if not at.variable:
            found.append(at.before)
            continue
        values = complete_template(connection, template.uri_template, at.variable, unquote(at.value), at.given)
        found += [at.before + quote(value, safe=at.safe, errors="replace") + at.after for value in values]
    return found


class PlaceInTemplate(NamedTuple):
    """The position in a URI template where a text ends.

    Attributes:
        before: The text before the variable; without a variable, the text with the literal completed.
        variable: The variable at the end of the text, or "".
        value: The part of its value that is typed.
        after: The literal after the variable.
        given: The values of the variables before.
        safe: The characters that are not percent-encoded in its values.
    """

    before: str
    variable: str = ""
    value: str = ""
    after: str = ""
    given: Mapping[str, str] = MappingProxyType({})
    safe: str = ""


def place_in(template: str, text: str) -> PlaceInTemplate | None:
    """Find where a text ends in a URI template; None if it fits none of the template's URIs.

    >>> at = place_in("git://{repo}/file/{+path}", "git://tools/file/src")
    >>> at.before, at.variable, at.value, dict(at.given)
    ('git://tools/file/', 'path', 'src', {'repo': 'tools'})
    >>> place_in("git://{repo}/file/{+path}", "gi").before
    'git://'
    """
    before, rest = "", text
    given: dict[str, str] = {}
    pieces = _PIECES.findall(template)
    for number, (literal, operator, variable) in enumerate(pieces):
        if not rest.startswith(literal):
            return PlaceInTemplate(before + literal) if literal.startswith(rest) else None
        before, rest = before + literal, rest[len(literal) :]
        if not variable or operator not in ("", "+") or "," in variable:
            return None  # the end, or an expression of more than one plain value
        after = pieces[number + 1][0] if number + 1 < len(pieces) else ""
        value, found, _ = rest.partition(after) if after else (rest, "", "")
        if not found:
            safe = "/:?#[]@!$&'()*+,;=%" if operator else ""
            return PlaceInTemplate(before, variable, value, after, given, safe)
        given[variable] = unquote(value)
        before, rest = before + value, rest[len(value) :]
    return None


def _ask(connection: Connection, reference: Any, argument: str, value: str, given: Mapping[str, str]) -> list[str]:
    key = (connection.name, id(connection), reference.model_dump_json(), argument, value, *sorted(given.items()))
    known = _cache.get(key)
    if known is not None and time.monotonic() - known[0] < FRESH_SECONDS:
        return known[1]
    work = _wait_for(connection, key, reference, argument, value, dict(given))
    try:
        run_nested(work)
    except RuntimeError:  # this loop cannot be nested; use the cache
        work.close()
    return _cache.get(key, (0.0, []))[1]


async def _wait_for(connection: Connection, key: tuple[Any, ...], *question: Any) -> None:
    task = _requests.get(key)
    if task is None:
        task = _requests[key] = asyncio.ensure_future(_fill(connection, key, *question))
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)


async def _fill(
    connection: Connection, key: tuple[Any, ...], reference: Any, argument: str, value: str, given: dict[str, str]
) -> None:
    try:
        values = await connection.complete(reference, argument, value, given)
    except Exception:  # a server without completion offers no values
        values = []
    finally:
        _requests.pop(key, None)
    while len(_cache) >= 1000:
        _cache.pop(next(iter(_cache)))
    _cache[key] = (time.monotonic(), [text for text in values if text.startswith(value)])


# What servers offer: names of tools and prompts, their arguments, resources.


class Candidates(NamedTuple):
    """Completions: the text that they replace, the texts, and the kind of each text."""

    fragment: str
    texts: list[str]
    kinds: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Tab:
    """The position where Tab was pressed.

    Attributes:
        fragment: The typed part of the word.
        positional: The words before it, without options and their values.
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
    """Return the words that begin with a fragment and can be typed."""
    return Candidates(fragment, beginning(fragment, words))


def offered(kind: str, fragment: str) -> Candidates:
    """Return names of what servers offer: with the server, and also without it where the name is unique."""
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
    """Return the arguments of the tool that is the line's first word."""
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
    """Return the tools, prompts and templates that can have a form."""
    templates = [shlex.quote(t.uri_template) for _, t in _templates() if not t.uri_template.startswith("-")]
    more = [text for kind in ("tools", "prompts") for text in offered(kind, tab.fragment).texts]
    return Candidates(tab.fragment, [*more, *beginning(tab.fragment, templates)])


def form_argument(tab: Tab) -> Candidates:
    """Return the arguments of the tool, prompt or template that is the line's first word."""
    name = meant(tab.positional[0])
    for connection, template in _templates():
        if template.uri_template == name:
            names = re.findall(r"[\w.%]+", "".join(re.findall(r"\{([^{}]*)\}", name)))
            return _asked(names, tab, partial(complete_template, connection, name))
    return (tool_argument if _known("tools", name) else prompt_argument)(tab)


def _templates() -> list[tuple[Connection, Any]]:
    return [(connection, template) for connection in host.find() for template in connection.catalog.cached("templates")]


def resource(tab: Tab) -> Candidates:
    """Return the URIs of resources and continuations of templates."""
    said = unescape_word(meant(tab.fragment))
    listed = [str(r.uri) for c in host.find() for r in c.catalog.cached("resources")]
    uris = dict.fromkeys([*(uri for uri in listed if uri.startswith(said)), *complete_uri(_templates(), said)])
    return Candidates(tab.fragment, [word for word in map(schema.as_word, uris) if word])


def prompt_argument(tab: Tab) -> Candidates:
    """Return the arguments of the prompt that is the line's first word."""
    known = _known("prompts", meant(tab.positional[0]))
    if known is None:
        return Candidates(tab.fragment, [])
    connection, prompt = known
    names = [argument.name for argument in prompt.arguments or ()]
    return _asked(names, tab, partial(complete_prompt, connection, prompt.name))


def _asked(names: list[str], tab: Tab, ask: Callable[[str, str, dict[str, str]], list[str]]) -> Candidates:
    """Return the names of arguments that are not given yet, or the server's values for the argument being typed."""
    fragment, given = tab.fragment, dict(map(assigned, tab.positional[1:]))
    name, equals, _ = fragment.partition("=")
    if not equals:
        return starting(fragment, [f"{argument(name)}=" for name in names if name not in given])
    try:
        values = ask(".".join(names_in(name)), assigned(fragment)[1], given)
    except MCPMagicError:  # Tab shows no errors
        values = []
    return Candidates(fragment, [word for word in valued(name, values) if word.isprintable()])


# Requests of the trace, methods of the protocol, and patterns of consent rules.

LATEST = 30
"""The number of requests offered; `%mcp trace` lists all."""


def request(tab: Tab) -> Candidates:
    """Return the numbers of the latest requests, each with a description."""
    from mcp_magic.ipython.commands.replay import ONCE

    requests = (entry for entry in host.trace.entries() if entry.kind == "request" and entry.direction == OUT)
    sent = [entry for entry in requests if entry.method not in ONCE][: -LATEST - 1 : -1]
    asked = {str(entry.number): f"{entry.server} {entry.method} {_name(entry)}".rstrip() for entry in sent}
    return Candidates(tab.fragment, starting(tab.fragment, asked).texts, asked)


def request_argument(tab: Tab) -> Candidates:
    """Return the arguments of the tool that a request called."""
    with suppress(NotFoundError, ValueError):
        entry = host.trace.find(int(tab.positional[0]))
        if entry.method == "tools/call":
            tool = shlex.quote(f"{entry.server}:{_name(entry)}")
            return tool_argument(replace(tab, positional=[tool, *tab.positional[1:]]))
    return Candidates(tab.fragment, [])


def _name(entry: Entry) -> str:
    """Return the name of a request's tool or prompt, or ""."""
    params = entry.message.get("params") if entry.whole else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) and name.isprintable() else ""


def method(tab: Tab) -> Candidates:
    """Return the methods in the protocol version of the line's server."""
    connection = host.connections.get(tab.positional[0])
    if connection is None:
        return Candidates(tab.fragment, [])
    from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS

    asked = [*sorted(CLIENT_REQUESTS), *sorted(CLIENT_NOTIFICATIONS)]
    return starting(tab.fragment, [method for method, version in asked if version == connection.protocol_version])


def rule(tab: Tab) -> Candidates:
    """Return the patterns for a consent rule: all of a server, or one tool."""
    tools = (exactly(f"{c.name}:{tool.name}") for c in host.find() for tool in c.catalog.cached("tools"))
    words = [shlex.quote(name) for name in (*(f"{name}:*" for name in host), *tools)]
    # an open quote has to be closed
    return starting(tab.fragment, [f"'{word}'" if tab.fragment[:1] == "'" != word[:1] else word for word in words])


# Models, servers, tools and threads of agents.


def thread(tab: Tab) -> Candidates:
    """Return the names of the stored threads."""
    from mcp_magic.agent.threads import thread_names

    kept = thread_names(tab.settings.threads or None if tab.settings else None)
    return starting(tab.fragment, map(shlex.quote, kept))


def servers(tab: Tab) -> Candidates:
    """Return the servers that can continue a list."""
    return _further(tab.fragment, host)


def tools(tab: Tab) -> Candidates:
    """Return the tools that can continue a list, and a pattern for all tools of each server."""
    names = (f"{c.name}:{tool.name}" for c in host.find() for tool in c.catalog.cached("tools"))
    # servers choose the names of tools: names that need quotes are left out
    plain = [name for name in names if shlex.quote(name) == name and "," not in name]
    return _further(tab.fragment, [*(f"{name}:*" for name in host), *plain])


def model(tab: Tab) -> Candidates:
    """Return the variables that hold a chat model, and `offline`."""
    models = [f"${name}" for name, value in tab.namespace.items() if _is_model(name, value)]
    return starting(tab.fragment, ["offline", *models])


def _further(fragment: str, names: Iterable[str]) -> Candidates:
    """Return `a,b` for each name that can continue a list; an opening quote stays."""
    quote = fragment[:1] if fragment[:1] in ("'", '"') else ""
    given = fragment.removeprefix(quote).split(",")[:-1]
    return starting(fragment, [quote + ",".join([*given, name]) for name in names if name not in given])


def _is_model(name: str, value: Any) -> bool:
    """Whether a variable is a chat model, without importing LangChain."""
    return not name.startswith("_") and hasattr(type(value), "bind_tools") and hasattr(type(value), "ainvoke")


# Files: only those that the line can use, unlike IPython's own completion.

DECLARATIONS = (".toml", ".json")
"""The suffixes of files that `%mcp up` reads."""

SERVER_FILES = (".py", ".js", ".mjs", ".cjs")
"""The suffixes of files that `%mcp connect` runs."""

_INLINE = re.compile(r"\$[^\W\d]|\{.+\}|\\[${]")
"""Text that some commands would read as a variable or an expression, even within a word."""

MAX_NAMES = 2000
"""The most names of a folder that are examined: Tab has to be quick."""


def paths(fragment: str, suffixes: tuple[str, ...] = (), *, folders_only: bool = False) -> list[str]:
    """Return words for the files and folders that begin with a fragment; a folder ends with `/`.

    Args:
        fragment: The typed text, with or without a folder and an open quote.
        suffixes: The allowed suffixes of files; () allows any.
        folders_only: Whether files are left out.
    """
    folder, slash, begun = unescape_word(meant(fragment)).rpartition("/")
    try:
        inside = list(islice(Path(folder + slash or ".").expanduser().iterdir(), MAX_NAMES))
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, or an invalid path
        return []
    found = []
    for path in sorted(inside):
        hidden = path.name.startswith(".") and not begun.startswith(".")
        is_folder = path.is_dir()
        fits = is_folder or not (folders_only or (suffixes and path.suffix.lower() not in suffixes))
        left_out = hidden or path.name.startswith("__") or _INLINE.search(path.name)
        if path.name.startswith(begun) and fits and not left_out:
            found.append(as_word(f"{folder}{slash}{path.name}{'/' if is_folder else ''}"))
    return [word for word in found if word]


# The choice of completions for the position of the cursor.


def candidates(
    text: str, namespace: Mapping[str, Any], settings: Settings | None = None, agents: Iterable[str] = ()
) -> Candidates:
    """Return the completions at the end of `text`, which follows `%mcp`.

    Args:
        text: The line from the subcommand to the cursor; for `%%mcp_agent` it begins with `mcp_agent`.
        namespace: The variables of the notebook, for targets.
        settings: The settings, which say where threads are kept.
        agents: The names of the declared agents.
    """
    words = re.findall(r"""(?:[^\s"']|"[^"]*(?:"|$)|'[^']*(?:'|$))+""", text)
    fragment = "" if not words or text[-1].isspace() else words.pop()
    if not words:
        return starting(fragment, [*COMMANDS, "--help"])
    if words[0] in ("help", "--help", "-h"):
        return starting(fragment, [*COMMANDS, AGENT.name, SERVER.name] if len(words) == 1 else [])
    command = AGENT if words[0] == AGENT.name else COMMANDS.get(words[0])
    if command is None:
        return Candidates(fragment, [])
    return _argument(command, words[1:], Tab(fragment, [], namespace, settings, agents))


def _argument(command: Command, words: list[str], tab: Tab) -> Candidates:
    parser = command.parser()
    options = parser.options
    if tab.fragment.startswith("-"):
        return starting(tab.fragment, [*(option for option in options if option not in words), "--help"])
    positional, option = [], None
    for word in words:
        if option is not None and option.nargs != 0:
            option = None  # the word is its value
            continue
        option = options.get(word)
        if not word.startswith("-"):
            positional.append(word)
    if option is not None and option.nargs != 0:
        return _offered(option, tab)
    action = _positional(parser, len(positional))
    return _offered(action, replace(tab, positional=positional)) if action else Candidates(tab.fragment, [])


def _positional(parser: Parser, number: int) -> argparse.Action | None:
    """Return the positional argument that follows `number` others, or None."""
    actions = [action for action in parser.arguments if not action.option_strings]
    if number < len(actions):
        return actions[number]
    return actions[-1] if actions and actions[-1].nargs == "*" else None


def _offered(action: argparse.Action, tab: Tab) -> Candidates:
    """Return the completions for an argument."""
    if action.choices:
        return starting(tab.fragment, [str(choice) for choice in action.choices])
    complete = COMPLETERS.get((action.completer if isinstance(action, Word) else "") or str(action.metavar))
    return complete(tab) if complete else Candidates(tab.fragment, [])


def _server(tab: Tab) -> Candidates:
    return starting(tab.fragment, [name for name in host if name not in tab.positional])


def _target(tab: Tab) -> Candidates:
    from mcp_magic.config.servers import discover_servers

    variables = [name for name, value in tab.namespace.items() if not name.startswith("_") and means_server(value)]
    configured = filter(None, (as_word(entry.name) for entry in discover_servers() if not entry.problem))
    return starting(tab.fragment, dict.fromkeys([*variables, *configured, *paths(tab.fragment, SERVER_FILES)]))


def _server_or_target(tab: Tab) -> Candidates:
    return Candidates(tab.fragment, list(dict.fromkeys([*_server(tab).texts, *_target(tab).texts])))


COMPLETERS: dict[str, Callable[[Tab], Candidates]] = {
    "FILE": lambda tab: starting(tab.fragment, paths(tab.fragment)),
    "DIR": lambda tab: starting(tab.fragment, paths(tab.fragment, folders_only=True)),
    "declaration": lambda tab: starting(tab.fragment, paths(tab.fragment, DECLARATIONS)),
    "TARGET": _target,
    "SERVER": _server,
    "server or failed": lambda tab: starting(tab.fragment, dict.fromkeys([*host, *host.failed])),
    "server or target": _server_or_target,
    "SERVER:TOOL": lambda tab: offered("tools", tab.fragment),
    "NAME=VALUE": tool_argument,
    "SERVER:PROMPT": lambda tab: offered("prompts", tab.fragment),
    "prompt's argument": prompt_argument,
    "form": form,
    "form's argument": form_argument,
    "URI": resource,
    "rule": rule,
    "NAME=PATTERN": tool_argument,
    "METHOD": method,
    "request": request,
    "request's argument": request_argument,
    "AGENT": lambda tab: starting(tab.fragment, map(shlex.quote, tab.agents)),
    "MODEL": model,
    "servers": servers,
    "tools": tools,
    "THREAD": thread,
    "THREAD@TURN": thread,
}
"""Completes an argument by its `completer`, or else by its metavar. Choices need neither."""
