"""What may stand where the cursor is in a `%mcp` line."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic.config.targets import means_server
from mcp_magic.magics import agent_candidates as agent
from mcp_magic.magics import debug_candidates as debug
from mcp_magic.magics import offered_candidates as offered
from mcp_magic.magics.commands import AGENT, COMMANDS, SERVER
from mcp_magic.magics.offered_candidates import Candidates, Tab, starting
from mcp_magic.magics.parsing import Word
from mcp_magic.magics.path_candidates import DECLARATIONS, SERVER_FILES, paths
from mcp_magic.notebook import host
from mcp_magic.schema import as_word

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

    from mcp_magic.magics.parsing import Command, Parser
    from mcp_magic.magics.settings import Settings

__all__ = ["COMPLETERS", "Candidates", "candidates"]


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
    """Return what the next word without an option is, behind so many."""
    actions = [action for action in parser.arguments if not action.option_strings]
    if number < len(actions):
        return actions[number]
    return actions[-1] if actions and actions[-1].nargs == "*" else None


def _offered(action: argparse.Action, tab: Tab) -> Candidates:
    """Return what may be an argument."""
    if action.choices:
        return starting(tab.fragment, [str(choice) for choice in action.choices])
    complete = COMPLETERS.get((action.completer if isinstance(action, Word) else "") or str(action.metavar))
    return complete(tab) if complete else Candidates(tab.fragment, [])


def _server(tab: Tab) -> Candidates:
    return starting(tab.fragment, [name for name in host if name not in tab.positional])


def _target(tab: Tab) -> Candidates:
    from mcp_magic.config.files import discover_servers

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
    "SERVER:TOOL": lambda tab: offered.offered("tools", tab.fragment),
    "NAME=VALUE": offered.tool_argument,
    "SERVER:PROMPT": lambda tab: offered.offered("prompts", tab.fragment),
    "prompt's argument": offered.prompt_argument,
    "form": offered.form,
    "form's argument": offered.form_argument,
    "URI": offered.resource,
    "rule": debug.rule,
    "NAME=PATTERN": offered.tool_argument,
    "METHOD": debug.method,
    "request": debug.request,
    "request's argument": debug.request_argument,
    "AGENT": lambda tab: starting(tab.fragment, map(shlex.quote, tab.agents)),
    "MODEL": agent.model,
    "servers": agent.servers,
    "tools": agent.tools,
    "THREAD": agent.thread,
    "THREAD@STEP": agent.thread,
}
"""What Tab offers for an argument: by its `completer`, or else by its metavar. Choices need neither."""
