"""What may stand where the cursor is in a `%mcp` line."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic.config.targets import means_server
from mcp_magic.magics.agent_candidates import agent_texts
from mcp_magic.magics.commands import AGENT, COMMANDS, SERVER
from mcp_magic.magics.debug_candidates import raw, replay, rule
from mcp_magic.magics.offered_candidates import Candidates, call, form, offered, prompt, read, starting
from mcp_magic.magics.path_candidates import SERVER_FILES, paths
from mcp_magic.notebook import host
from mcp_magic.schema import as_word

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

    from mcp_magic.magics.parsing import Command
    from mcp_magic.magics.settings import Settings

__all__ = ["Candidates", "candidates"]


def candidates(
    text: str, namespace: Mapping[str, Any], settings: Settings | None = None, agents: Iterable[str] = ()
) -> Candidates:
    """Return what may stand at the end of `text`, which follows `%mcp`.

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
    return _argument(command, words[1:], fragment, namespace, settings, agents)


def _argument(
    command: Command,
    words: list[str],
    fragment: str,
    namespace: Mapping[str, Any],
    settings: Settings | None,
    agents: Iterable[str],
) -> Candidates:
    actions = command.parser().options
    if fragment.startswith("-"):
        return starting(fragment, [*(option for option in actions if option not in words), "--help"])
    if words and words[-1] in actions and actions[words[-1]].nargs != 0:
        texts = agent_texts(command.name, words[-1], fragment, namespace, settings)
        return _value(words[-1], actions[words[-1]], fragment) if texts is None else starting(fragment, texts)
    positional = [w for i, w in enumerate(words) if not w.startswith("-") and not _is_value(words, i, actions)]
    if command is AGENT:
        return starting(fragment, [] if positional else map(shlex.quote, agents))
    complete = _POSITIONAL.get(command.name)
    return complete(positional, fragment, namespace) if complete else Candidates(fragment, [])


def _is_value(words: list[str], index: int, actions: Mapping[str, argparse.Action]) -> bool:
    before = actions.get(words[index - 1]) if index else None
    return before is not None and before.nargs != 0


def _value(option: str, action: argparse.Action, fragment: str) -> Candidates:
    if option == "--server":
        return starting(fragment, list(host))
    if action.choices:
        return starting(fragment, [str(choice) for choice in action.choices])
    if action.metavar in ("FILE", "DIR"):
        return starting(fragment, paths(fragment, folders_only=action.metavar == "DIR"))
    return Candidates(fragment, [])


def _server(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return starting(fragment, [name for name in host if name not in positional])


def _logs(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return starting(fragment, [] if positional else list(dict.fromkeys([*host, *host.failed])))


def _file(*suffixes: str) -> Callable[[list[str], str, Mapping[str, Any]], Candidates]:
    """Return what completes a command that takes one file."""
    return lambda positional, fragment, _: starting(fragment, [] if positional else paths(fragment, suffixes))


def _server_and_file(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if not positional:
        return _server(positional, fragment, namespace)
    return _file()(positional[1:], fragment, namespace)


def _one_server(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return Candidates(fragment, []) if positional else _server(positional, fragment, namespace)


def _roots(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    if positional:
        return starting(fragment, paths(fragment, folders_only=True))
    return _server(positional, fragment, namespace)


def _target(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    from mcp_magic.config.files import discover_servers

    variables = [name for name, value in namespace.items() if not name.startswith("_") and means_server(value)]
    configured = filter(None, (as_word(entry.name) for entry in discover_servers() if not entry.problem))
    return starting(fragment, list(dict.fromkeys([*variables, *configured, *paths(fragment, SERVER_FILES)])))


def _doctor(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    sessions, targets = _server(positional, fragment, namespace).texts, _target(positional, fragment, namespace)
    return targets._replace(texts=list(dict.fromkeys([*sessions, *targets.texts])))


def _tool(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    return offered("tools", fragment) if not positional else Candidates(fragment, [])


_POSITIONAL: dict[str, Callable[[list[str], str, Mapping[str, Any]], Candidates]] = {
    "connect": _target,
    "disconnect": _server,
    "reconnect": _server,
    "ping": _server,
    "logout": _server,
    "doctor": _doctor,
    "logs": _logs,
    "up": _file(".toml", ".json"),
    "config": _file(),
    "record": _file(),
    "roots": _roots,
    "allow": rule,
    "deny": rule,
    "ask": rule,
    "raw": raw,
    "replay": replay,
    "assert": call,
    "serve": _one_server,
    "export": _server_and_file,
    "docs": _one_server,
    "stubs": _one_server,
    "snapshot": _one_server,
    "diff": _server_and_file,
    "trace": _server,
    "metrics": _server,
    "ui": _server,
    "tools": _server,
    "resources": _server,
    "templates": _server,
    "prompts": _server,
    "skills": _server,
    "tool": _tool,
    "call": call,
    "form": form,
    "read": read,
    "watch": read,
    "prompt": prompt,
}
"""Subcommand -> what its next positional argument may be; those without a row take nothing that is known."""
