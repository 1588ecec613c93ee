"""Tab completion in `%mcp` lines and the first line of `%%mcp_agent`.

Completions come from the cache; values for arguments of prompts and templates come from the server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.ipython.commandline import State
    from mcp_magic.ipython.settings import Settings

__all__ = ["install", "uninstall"]

IDENTIFIER = "mcp_magic"
AGENT_MAGIC = "mcp_agent"
_LINE = re.compile(r"(?:^|[=\s(])%{1,2}(?:mcp\s+(?P<rest>.*)|mcp_agent(?P<agent>[ \t]+[^\n]*))$", re.DOTALL)


def install(shell: InteractiveShell, settings: Settings, state: State) -> None:
    """Add the completer to a shell."""
    from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

    @context_matcher(identifier=IDENTIFIER, priority=100)  # type: ignore[untyped-decorator]
    def mcp_matcher(context: CompletionContext) -> SimpleMatcherResult:
        found = _LINE.search(context.text_until_cursor)
        if found is None:
            return SimpleMatcherResult(completions=[])
        from mcp_magic.ipython.candidates import candidates

        rest = found["rest"] if found["agent"] is None else f"{AGENT_MAGIC}{found['agent']}"
        fragment, texts, kinds = candidates(rest, dict(shell.user_ns), settings, state.agents)
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type=kinds.get(text, "mcp")) for text in texts],
            matched_fragment=fragment,
            ordered=True,
            suppress=bool(texts),
        )

    shell.Completer.custom_matchers.append(mcp_matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Remove the completer."""
    matchers: list[Callable[..., Any]] = shell.Completer.custom_matchers
    matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != IDENTIFIER]
