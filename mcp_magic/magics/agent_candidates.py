"""What may follow the options of `%%mcp_agent` and `%mcp agent`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic.notebook import host

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.magics.settings import Settings

__all__ = ["agent_texts"]

_THREADS = (("mcp_agent", "--thread"), ("agent", "--show"), ("agent", "--fork"), ("agent", "--delete"))


def agent_texts(
    command: str, option: str, fragment: str, namespace: Mapping[str, Any], settings: Settings | None
) -> list[str] | None:
    """Return what may be the value of an option, or None where that is nothing of an agent's.

    Args:
        command: `"mcp_agent"` or a subcommand.
        option: The option before the cursor.
        fragment: What is typed of the value.
        namespace: The variables of the notebook, for models.
        settings: The magic's traits.
    """
    if (command, option) in _THREADS:
        from mcp_magic.agent.threads import thread_names

        return [shlex.quote(name) for name in thread_names(settings.threads or None if settings else None)]
    if command != "mcp_agent":
        return None
    if option == "--servers":
        return _further(fragment, host)
    if option == "--tools":
        tools = (f"{c.name}:{tool.name}" for c in host.find() for tool in c.catalog.cached("tools"))
        return _further(fragment, [*(f"{name}:*" for name in host), *filter(_plain, tools)])
    if option == "--model":
        return ["offline", *(f"${name}" for name, value in namespace.items() if _is_model(name, value))]
    return None


def _further(fragment: str, names: Iterable[str]) -> list[str]:
    """Return `a,b` for each name that may follow in a list; a quotation that was begun stays."""
    quote = fragment[:1] if fragment[:1] in ("'", '"') else ""
    given = fragment.removeprefix(quote).split(",")[:-1]
    return [quote + ",".join([*given, name]) for name in names if name not in given]


def _plain(name: str) -> bool:
    """Whether a tool's name, which is its server's word, can stand in a list without quotes."""
    return shlex.quote(name) == name and "," not in name


def _is_model(name: str, value: Any) -> bool:
    """Whether a variable is a chat model; LangChain is not imported to tell."""
    return not name.startswith("_") and hasattr(type(value), "bind_tools") and hasattr(type(value), "ainvoke")
