"""What may stand where the cursor is in a `%mcp` line."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.config.targets import is_server
from mcp_magic.errors import MCPMagicError
from mcp_magic.magics.agent_candidates import agent_texts
from mcp_magic.magics.agent_cell import AGENT
from mcp_magic.magics.commands import COMMANDS
from mcp_magic.magics.remote import complete_prompt, complete_template, complete_uri
from mcp_magic.notebook import host

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from mcp_magic.core.connection import Connection
    from mcp_magic.magics.extension import MCPMagics
    from mcp_magic.magics.parsing import Command
    from mcp_magic.schema import Field

__all__ = ["Candidates", "candidates"]

_PATHS = ("--answers", "--config", "--cwd", "--ca", "--cert", "--private-key")


class Candidates(NamedTuple):
    """Completions: the text they replace, what may stand there, and whether nothing else may."""

    fragment: str
    texts: list[str]
    exclusive: bool = True


def candidates(text: str, namespace: Mapping[str, Any], settings: MCPMagics | None = None) -> Candidates:
    """Return what may stand at the end of `text`, which follows `%mcp`.

    Args:
        text: The line from the subcommand to the cursor; for `%%mcp_agent` it begins with `mcp_agent`.
        namespace: The variables of the notebook, for targets.
        settings: The magic's traits, for declared agents and threads.
    """
    words = re.findall(r"""(?:[^\s"']|"[^"]*(?:"|$)|'[^']*(?:'|$))+""", text)
    fragment = "" if not words or text[-1].isspace() else words.pop()
    if not words:
        return _starting(fragment, [*COMMANDS, "--help"])
    command = AGENT if words[0] == AGENT.name else COMMANDS.get(words[0])
    if command is None:
        return Candidates(fragment, [])
    return _argument(command, words[1:], fragment, namespace, settings)


def _starting(fragment: str, texts: Sequence[str], *, exclusive: bool = True) -> Candidates:
    return Candidates(fragment, [text for text in texts if text.startswith(fragment)], exclusive)


def _argument(
    command: Command, words: list[str], fragment: str, namespace: Mapping[str, Any], settings: MCPMagics | None
) -> Candidates:
    actions = {option: action for action in command.parser()._actions for option in action.option_strings}
    if fragment.startswith("-"):
        return _starting(fragment, [*(option for option in actions if option not in words), "--help"])
    if words and words[-1] in actions and actions[words[-1]].nargs != 0:
        texts = agent_texts(command.name, words[-1], fragment, namespace, settings)
        return _value(words[-1], actions[words[-1]], fragment) if texts is None else _starting(fragment, texts)
    positional = [w for i, w in enumerate(words) if not w.startswith("-") and not _is_value(words, i, actions)]
    if command is AGENT:
        return _starting(fragment, list(settings.agents) if settings and not positional else [])
    complete = _POSITIONAL.get(command.name)
    return complete(positional, fragment, namespace) if complete else Candidates(fragment, [])


def _is_value(words: list[str], index: int, actions: Mapping[str, argparse.Action]) -> bool:
    before = actions.get(words[index - 1]) if index else None
    return before is not None and before.nargs != 0


def _value(option: str, action: argparse.Action, fragment: str) -> Candidates:
    if option == "--server":
        return _starting(fragment, list(host))
    if action.choices:
        return _starting(fragment, [str(choice) for choice in action.choices])
    return Candidates(fragment, [], exclusive=option not in _PATHS)


def _server(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return _starting(fragment, [name for name in host if name not in positional])


def _path(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return Candidates(fragment, [], exclusive=bool(positional))


def _roots(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if positional:
        return Candidates(fragment, [], exclusive=False)  # directories: IPython's own completions
    return _server(positional, fragment, namespace)


def _target(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    from mcp_magic.config.files import discover_servers

    variables = [name for name, value in namespace.items() if not name.startswith("_") and is_server(value)]
    configured = [entry.name for entry in discover_servers() if not entry.problem]
    # a file may be meant as well: IPython's own completions stay
    return _starting(fragment, list(dict.fromkeys([*variables, *configured])), exclusive=False)


def _doctor(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    sessions, targets = _server(positional, fragment, namespace).texts, _target(positional, fragment, namespace)
    return targets._replace(texts=list(dict.fromkeys([*sessions, *targets.texts])))


def _tool(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return _names("tools", fragment) if not positional else Candidates(fragment, [])


def _names(kind: str, fragment: str) -> Candidates:
    full = [f"{c.name}:{item.name}" for c in host.find() for item in c.catalog.cached(kind)]
    bare = [name.partition(":")[2] for name in full]
    unique = [name for name in bare if fragment and bare.count(name) == 1]
    return _starting(fragment, [*full, *unique])


def _known(kind: str, name: str) -> tuple[Connection, Any] | None:
    server, _, rest = name.partition(":")
    for connection in host.find():
        for item in connection.catalog.cached(kind):
            if item.name == name or (connection.name == server and item.name == rest):
                return connection, item
    return None


def _call(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if not positional:
        return _names("tools", fragment)
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
    return _starting(fragment, [f"{path}=" for path, f in zip(paths, fields, strict=True) if _open(path, f, used)])


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


def _form(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if positional:
        name = positional[0].strip("'\"")
        template = next(((c, t) for c, t in _templates() if t.uri_template == name), None)
        if template is not None:
            return _variables(*template, positional, fragment)
        return (_call if _known("tools", name) else _prompt)(positional, fragment, namespace)
    templates = [t.uri_template for _, t in _templates()]
    more = [text for kind in ("tools", "prompts") for text in _names(kind, fragment).texts]
    return Candidates(fragment, [*more, *(text for text in templates if text.startswith(fragment))])


def _templates() -> list[tuple[Connection, Any]]:
    return [(connection, template) for connection in host.find() for template in connection.catalog.cached("templates")]


def _read(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if positional:
        return Candidates(fragment, [])
    listed = [str(r.uri) for c in host.find() for r in c.catalog.cached("resources") if str(r.uri).startswith(fragment)]
    return Candidates(fragment, list(dict.fromkeys([*listed, *complete_uri(_templates(), fragment)])))


def _prompt(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if not positional:
        return _names("prompts", fragment)
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
        return _starting(fragment, [f"{name}=" for name in names if name not in given])
    try:
        values = ask(name, value.strip("'\""), given)
    except MCPMagicError:  # Tab is no place for an error
        values = []
    return Candidates(fragment, [f"{name}='{v}'" if re.search(r"\s", v) else f"{name}={v}" for v in values])


_POSITIONAL: dict[str, Callable[[list[str], str, Mapping[str, Any]], Candidates]] = {
    "connect": _target,
    "disconnect": _server,
    "reconnect": _server,
    "ping": _server,
    "logout": _server,
    "doctor": _doctor,
    "logs": _server,
    "record": _path,
    "roots": _roots,
    "trace": _server,
    "metrics": _server,
    "ui": _server,
    "tools": _server,
    "resources": _server,
    "templates": _server,
    "prompts": _server,
    "skills": _server,
    "tool": _tool,
    "call": _call,
    "form": _form,
    "read": _read,
    "watch": _read,
    "prompt": _prompt,
}
"""Subcommand -> what its next positional argument may be; those without a row take paths or nothing."""
