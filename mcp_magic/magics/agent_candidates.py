"""Models, servers, tools and threads of agents, where the cursor is."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.offered_candidates import Candidates, Tab, starting
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["model", "servers", "thread", "tools"]


def thread(tab: Tab) -> Candidates:
    """Return the names of the threads that are kept."""
    from mcp_magic.agent.threads import thread_names

    kept = thread_names(tab.settings.threads or None if tab.settings else None)
    return starting(tab.fragment, map(shlex.quote, kept))


def servers(tab: Tab) -> Candidates:
    """Return the servers that may follow in a list."""
    return _further(tab.fragment, host)


def tools(tab: Tab) -> Candidates:
    """Return the tools that may follow in a list, and a pattern for all of a server."""
    names = (f"{c.name}:{tool.name}" for c in host.find() for tool in c.catalog.cached("tools"))
    # a tool's name is its server's word: what would need quotes is left out
    plain = [name for name in names if shlex.quote(name) == name and "," not in name]
    return _further(tab.fragment, [*(f"{name}:*" for name in host), *plain])


def model(tab: Tab) -> Candidates:
    """Return the variables that hold a chat model, and `offline`."""
    models = [f"${name}" for name, value in tab.namespace.items() if _is_model(name, value)]
    return starting(tab.fragment, ["offline", *models])


def _further(fragment: str, names: Iterable[str]) -> Candidates:
    """Return `a,b` for each name that may follow in a list; a quotation that was begun stays."""
    quote = fragment[:1] if fragment[:1] in ("'", '"') else ""
    given = fragment.removeprefix(quote).split(",")[:-1]
    return starting(fragment, [quote + ",".join([*given, name]) for name in names if name not in given])


def _is_model(name: str, value: Any) -> bool:
    """Whether a variable is a chat model; LangChain is not imported to tell."""
    return not name.startswith("_") and hasattr(type(value), "bind_tools") and hasattr(type(value), "ainvoke")
