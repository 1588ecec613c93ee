"""Tab completions for the words of a `%mcp` line.

They come from what sessions have listed. Only values for arguments of prompts and templates are asked of the server.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from mcp_magic import schema
from mcp_magic.config.sandbox import BACKENDS, KEYS, PRESETS
from mcp_magic.errors import ArgumentsError, CommandError, MCPMagicError
from mcp_magic.ipython.commandline import Tab
from mcp_magic.ipython.commands import AGENT, COMMANDS, EVALUATION, SERVER
from mcp_magic.ipython.execution import run_nested
from mcp_magic.schema.commandline import as_word, escape_name, escape_text, read_item, unescape_word
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.ipython.commandline import Command, Completer
    from mcp_magic.ipython.settings import Settings
    from mcp_magic.notebook import NotebookHost
    from mcp_magic.schema.fields import Field
    from mcp_magic.session.connection import Connection


def _host() -> NotebookHost:
    from mcp_magic.notebook import host  # late: `%mcp connect` starts a server before it imports this

    return host


# The choice of completions for the position of the cursor.


class Candidates(NamedTuple):
    """Completions: the text that they replace, the texts, and the kind of each text."""

    fragment: str
    texts: list[str]
    kinds: Mapping[str, str] = MappingProxyType({})


def candidates(
    text: str, namespace: Mapping[str, Any], settings: Settings | None = None, agents: Iterable[str] = ()
) -> Candidates:
    """Return the completions at the end of `text`: what follows `%mcp`, or a line from `mcp_agent` or `mcp_eval` on."""
    words = re.findall(r"""(?:[^\s"']|"[^"]*(?:"|$)|'[^']*(?:'|$))+""", text)
    fragment = "" if not words or text[-1].isspace() else words.pop()
    tab = Tab(fragment, [], namespace, settings, agents)
    candidates: list[str] | dict[str, str]
    if not words:
        candidates = starting(tab, [*COMMANDS, "--help"])
    elif words[0] in ("help", "--help", "-h"):
        candidates = starting(tab, [*COMMANDS, AGENT.name, EVALUATION.name, SERVER.name] if len(words) == 1 else [])
    elif command := {**COMMANDS, AGENT.name: AGENT, EVALUATION.name: EVALUATION}.get(words[0]):
        candidates = _for_arguments(command, words[1:], tab)
    else:
        candidates = []
    return Candidates(fragment, list(candidates), candidates if isinstance(candidates, dict) else {})


def _for_arguments(command: Command, words: list[str], tab: Tab) -> list[str] | dict[str, str]:
    parser = command.parser
    options = parser.options
    if tab.fragment.startswith("-"):
        return starting(tab, [*(option for option in options if option not in words), "--help"])
    positional, action = [], None
    for word in words:
        if action is not None and action.nargs != 0:
            action = None  # the word is its value
            continue
        action = options.get(word)
        if not word.startswith("-"):
            positional.append(word)
    if action is None or action.nargs == 0:
        actions = [action for action in parser.arguments if not action.option_strings]
        last = actions[-1] if actions and actions[-1].nargs == "*" else None
        action = actions[len(positional)] if len(positional) < len(actions) else last
        tab = replace(tab, positional=positional)
    if action is None:
        return []
    if action.choices:
        return starting(tab, map(str, action.choices))
    complete = parser.completers.get(action.dest) or COMPLETERS.get(str(action.metavar))
    return complete(tab) if complete else []


# Words as typed and as read: completions of servers' texts are quoted so that they are read back unchanged.


def unquoted(word: str) -> str:
    """Return a word without its quotes; its last quote may still be open."""
    for closing in ("", "'", '"'):
        with suppress(CommandError):
            return " ".join(split_line(word + closing))
    return word


def starting(tab: Tab, words: Iterable[str]) -> list[str]:
    """Return the words that begin with the fragment, quoted or not; words that cannot be typed are left out.

    >>> starting(Tab("no"), ["note://x", "'note://a b'", "x"]), starting(Tab("'note://a"), ["'note://a b'", "note://ab"])
    (['note://x', "'note://a b'"], ["'note://a b'", 'note://ab'])
    """
    prefix = unquoted(tab.fragment)
    plain = ((word, unquoted(word) if "'" in word else word) for word in dict.fromkeys(words))
    return [
        word
        for word, text in plain
        if (text.startswith(prefix) or word.startswith(tab.fragment)) and word.isprintable()
    ]


def continuing(tab: Tab, names: Iterable[str]) -> list[str]:
    """Return `a,b` for each name that can continue a list; an opening quote stays."""
    opened = tab.fragment[:1] if tab.fragment[:1] in ("'", '"') else ""
    earlier = tab.fragment.removeprefix(opened).split(",")[:-1]
    return starting(tab, [opened + ",".join([*earlier, name]) for name in names if name not in earlier])


def argument_name(name: str) -> str:
    """Quote an argument's name so that it is read back unchanged."""
    return shlex.quote(escape_name(name))


def _names_in(word: str) -> tuple[str, ...]:
    """Return the parts of an argument's name as typed; () if it cannot be read.

    >>> _names_in("at.'first name'"), _names_in("at:")
    (('at', 'first name'), ('at',))
    """
    with suppress(ArgumentsError):
        return read_item(f"{unquoted(word.removesuffix(':'))}=").parts
    return ()


def assigned(word: str) -> tuple[str, str]:
    """Return an argument's name and its value's text, as far as typed."""
    name, _, value = unquoted(word).partition("=")
    plain = value[1:] if value.startswith("\\") and escape_text(value[1:]) == value else value
    return name, plain


def valued(name: str, values: Sequence[Any]) -> list[str]:
    """Return `name=value` for each value, quoted so that it is read back unchanged; `name` stays as typed."""
    json_only = name.endswith(":")
    texts = [escape_text(v) if isinstance(v, str) and not json_only else json.dumps(v) for v in values]
    if name[:1] in ("'", '"'):
        return [shlex.quote(f"{unquoted(name)}={text}") for text in texts]
    return [f"{name}={shlex.quote(text)}" for text in texts]


# What servers offer: names of tools and prompts, their arguments, resources.


def offered(tab: Tab, *kinds: str) -> list[str]:
    """Return names of what servers offer: with the server, and also without it where the name is unique."""
    prefix, names = unquoted(tab.fragment), []
    for kind in kinds:
        full = [f"{c.name}:{item.name}" for c in _host().find() for item in c.catalog.cached(kind)]
        bare = [name.partition(":")[2] for name in full]
        times = Counter(bare) if tab.fragment else {}
        names += [*full, *(name for name in bare if times.get(name) == 1 and not name.startswith("-"))]
    return [shlex.quote(name) for name in names if name.startswith(prefix) and name.isprintable()]


def tool_arguments(tab: Tab) -> list[str]:
    """Return the arguments of the tool that is the line's first word, or the values of the one being typed."""
    tool = _lookup("tools", unquoted(tab.positional[0]))[1]
    if tool is None:
        return []
    root = schema.input_root(tool.input_schema)
    name, equals, _ = tab.fragment.partition("=")
    if equals:
        field = _field_at(root, _names_in(name))
        return starting(tab, valued(name, _choices(field)) if field else ())
    used = {unquoted(word).partition("=")[0].removesuffix(":") for word in tab.positional[1:]}
    prefix, dot, _ = tab.fragment.rpartition(".")
    parent = _field_at(root, _names_in(prefix)) if prefix else root
    fields = {f"{prefix}{dot}{argument_name(child.name)}=": child for child in (parent.children if parent else ())}
    return starting(
        tab,
        [
            word
            for word, child in fields.items()
            if child.kind == "array" or unquoted(word).removesuffix("=") not in used
        ],
    )


def _field_at(field: Field, path: Iterable[str]) -> Field | None:
    for name in path:
        child_field = next((child for child in field.children if child.name == name), None)
        if child_field is None:
            return None
        field = child_field
    return field


def _choices(field: Field) -> list[Any]:
    item = field.item if field.kind == "array" and field.item else field
    if item.kind == "boolean":
        return [True, False]
    return [value for value, _ in item.choices or () if value is None or isinstance(value, str | int | float)]


def prompt_arguments(tab: Tab) -> list[str]:
    """Return the arguments of the prompt that is the line's first word, or the server's values for one."""
    from mcp_types import PromptReference

    connection, prompt = _lookup("prompts", unquoted(tab.positional[0]))
    if connection is None or prompt is None:
        return []
    names = [argument.name for argument in prompt.arguments or ()]
    return _from_server(tab, names, connection, PromptReference(type="ref/prompt", name=prompt.name))


def forms(tab: Tab) -> list[str]:
    """Return the tools, prompts and templates that can have a form."""
    templates = [shlex.quote(t.uri_template) for _, t in _templates() if not t.uri_template.startswith("-")]
    return [*offered(tab, "tools", "prompts"), *starting(tab, templates)]


def form_arguments(tab: Tab) -> list[str]:
    """Return the arguments of the tool, prompt or template that is the line's first word."""
    name = unquoted(tab.positional[0])
    for connection, template in _templates():
        if template.uri_template == name:
            names = re.findall(r"[\w.%]+", "".join(re.findall(r"\{([^{}]*)\}", name)))
            return _from_server(tab, names, connection, _reference(name))
    return tool_arguments(tab) if _lookup("tools", name)[1] else prompt_arguments(tab)


def _lookup(kind: str, name: str) -> tuple[Connection, Any] | tuple[None, None]:
    server, _, rest = name.partition(":")
    for connection in _host().find():
        for item in connection.catalog.cached(kind):
            if item.name == name or (connection.name == server and item.name == rest):
                return connection, item
    return None, None


def _templates() -> list[tuple[Connection, Any]]:
    connections = _host().find()
    return [(connection, template) for connection in connections for template in connection.catalog.cached("templates")]


def _resources(tab: Tab) -> list[str]:
    prefix = unescape_word(unquoted(tab.fragment))
    uris = [str(r.uri) for c in _host().find() for r in c.catalog.cached("resources")]
    uris = [uri for uri in uris if uri.startswith(prefix)]
    for connection, template in _templates():
        uris += _continuations(connection, template.uri_template, prefix)
    return [word for word in map(schema.as_word, dict.fromkeys(uris)) if word]


# URI templates: where a text ends in one, and how it may go on.

_PIECES = re.compile(r"([^{]*)(?:\{([+#./;?&]?)([^{}*:]*)[^{}]*\}|$)")
"""A literal of a URI template (RFC 6570) and the expression after it: its operator and its variable."""


def _continuations(connection: Connection, template: str, text: str) -> list[str]:
    """Return continuations of `text`: a template's next literal, or its server's values for the variable.

    The values of the variables before are sent as the context.
    """
    at = place_in(template, text)
    if at is None:
        return []
    if not at.variable:
        return [at.before]
    values = _ask(connection, _reference(template), at.variable, unquote(at.value), at.variables)
    return [at.before + quote(value, safe=at.safe, errors="replace") + at.after for value in values]


class PlaceInTemplate(NamedTuple):
    """The position in a URI template where a text ends: in a `variable` or, if that is "", in a literal."""

    before: str  # the text before the variable, or with the literal completed
    variable: str = ""
    value: str = ""  # the part that is typed
    after: str = ""  # the literal after the variable
    variables: Mapping[str, str] = MappingProxyType({})  # the variables before
    safe: str = ""  # characters that are not percent-encoded in its values


def place_in(template: str, text: str) -> PlaceInTemplate | None:
    """Find where a text ends in a URI template; None if it fits none of the template's URIs."""
    before, rest = "", text
    variables: dict[str, str] = {}
    pieces = _PIECES.findall(template)
    for number, (literal, operator, variable) in enumerate(pieces):
        if not rest.startswith(literal):
            return PlaceInTemplate(before + literal) if literal.startswith(rest) else None
        before, rest = before + literal, rest[len(literal) :]
        if not variable or operator not in ("", "+") or "," in variable:
            return None  # the end, or an expression of more than one plain value
        after = pieces[number + 1][0] if number + 1 < len(pieces) else ""
        value, separator, _ = rest.partition(after) if after else (rest, "", "")
        if not separator:
            safe = "/:?#[]@!$&'()*+,;=%" if operator else ""
            return PlaceInTemplate(before, variable, value, after, variables, safe)
        variables[variable] = unquote(value)
        before, rest = before + value, rest[len(value) :]
    return None


# Completions from the server: `completion/complete`, requested when Tab is pressed.
#
# Tab is synchronous and called from the kernel's loop, so the request briefly nests the loop. A later answer goes into
# the cache, for the next Tab.

PATIENCE_SECONDS = 0.25  # seconds that a Tab waits for the server
FRESH_SECONDS = 60.0  # seconds that an answer stays in the cache

_cache: dict[tuple[Any, ...], tuple[float, list[str]]] = {}
_requests: dict[tuple[Any, ...], asyncio.Task[None]] = {}


def _reference(template: str) -> Any:
    from mcp_types import ResourceTemplateReference

    return ResourceTemplateReference(type="ref/resource", uri=template)


def _from_server(tab: Tab, names: list[str], connection: Connection, reference: Any) -> list[str]:
    """Return the names of arguments that are not given yet, or the server's values for the argument being typed."""
    arguments = dict(map(assigned, tab.positional[1:]))
    name, equals, _ = tab.fragment.partition("=")
    if not equals:
        return starting(tab, [f"{argument_name(name)}=" for name in names if name not in arguments])
    values: list[str] = []
    with suppress(MCPMagicError):  # Tab shows no errors
        values = _ask(connection, reference, ".".join(_names_in(name)), assigned(tab.fragment)[1], arguments)
    return [word for word in valued(name, values) if word.isprintable()]


def _ask(connection: Connection, reference: Any, argument: str, value: str, context: Mapping[str, str]) -> list[str]:
    """Return the server's values that begin with `value`."""
    key = (connection.name, id(connection), reference.model_dump_json(), argument, value, *sorted(context.items()))
    if key not in _cache or time.monotonic() - _cache[key][0] >= FRESH_SECONDS:
        work = _wait_for(connection, key, reference, argument, value, dict(context))
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
    connection: Connection, key: tuple[Any, ...], reference: Any, argument: str, value: str, context: dict[str, str]
) -> None:
    try:
        values = await connection.complete(reference, argument, value, context)
    except Exception:  # a server without completion offers no values
        values = []
    finally:
        _requests.pop(key, None)
    while len(_cache) >= 1000:
        _cache.pop(next(iter(_cache)))
    _cache[key] = (time.monotonic(), [text for text in values if text.startswith(value)])


# Files: only those that the line can use, unlike IPython's own completion.

_INLINE = re.compile(r"\$[^\W\d]|\{.+\}|\\[${]")
"""Text that some commands would read as a variable or an expression, even within a word."""

MAX_NAMES = 2000  # the most names of a folder that are examined: Tab has to be quick


def sandbox_words(tab: Tab) -> list[str]:
    """Return words for the last part, between commas, of the line of a sandbox."""
    before, comma, word = tab.fragment.rpartition(",")
    key, equals, path = word.partition("=")
    if not equals:
        words = [*PRESETS, *(f"{key}=" for key in KEYS if key != "preset")]
    elif key in ("read", "write", "deny"):
        words = [f"{key}={path}" for path in paths(replace(tab, fragment=path))]
    elif key == "backend":
        words = [f"{key}={name}" for name in BACKENDS]
    else:
        words = []
    return starting(tab, [f"{before}{comma}{word}" for word in words])


def paths(tab: Tab, suffixes: tuple[str, ...] = (), *, folders_only: bool = False) -> list[str]:
    """Return words for the folders, which end with `/`, and the files of some suffixes, or of any."""
    folder, slash, prefix = unescape_word(unquoted(tab.fragment)).rpartition("/")
    try:
        inside = list(islice(Path(folder + slash or ".").expanduser().iterdir(), MAX_NAMES))
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, or an invalid path
        return []
    words = []
    for path in sorted(inside):
        hidden = path.name.startswith(".") and not prefix.startswith(".")
        is_folder = path.is_dir()
        fits = is_folder or not (folders_only or (suffixes and path.suffix.lower() not in suffixes))
        left_out = hidden or path.name.startswith("__") or _INLINE.search(path.name)
        if path.name.startswith(prefix) and fits and not left_out:
            words.append(as_word(f"{folder}{slash}{path.name}{'/' if is_folder else ''}"))
    return starting(tab, filter(None, words))


COMPLETERS: dict[str, Completer] = {
    "FILE": paths,
    "DIR": lambda tab: paths(tab, folders_only=True),
    "SERVER": lambda tab: starting(tab, [name for name in _host() if name not in tab.positional]),
    "SERVER|N": lambda tab: starting(tab, _host()),
    "SERVER:TOOL": lambda tab: offered(tab, "tools"),
    "SERVER:PROMPT": lambda tab: offered(tab, "prompts"),
    "NAME=VALUE": tool_arguments,
    "NAME=PATTERN": tool_arguments,
    "URI": _resources,
}
"""Completes an argument by its metavar, unless the argument has a completer of its own."""
