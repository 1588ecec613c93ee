"""MCP in the notebook.

`%load_ext mcp_magic` turns a running kernel into an MCP host; `from mcp_magic import host` is the
same host from Python. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.graph import build_graph
    from mcp_magic.agent.messages import display_messages, get_final_answer, tools_summary
    from mcp_magic.agent.offline import OfflineModel
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.scripted import ScriptedModel
    from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.consent.decisions import Decision
    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.errors import MCPMagicError
    from mcp_magic.langchain.serve import serve_langchain
    from mcp_magic.notebook import Host, host
    from mcp_magic.results import PromptResult, ResourceResult, ToolResult

__version__ = "0.1.0"

_WHERE = {
    "AgentRun": "mcp_magic.agent.run",
    "Connection": "mcp_magic.core.connection",
    "Decision": "mcp_magic.core.consent.decisions",
    "Host": "mcp_magic.notebook",
    "HttpSpec": "mcp_magic.config.specs",
    "InProcessSpec": "mcp_magic.config.specs",
    "MCPMagicError": "mcp_magic.errors",
    "OfflineModel": "mcp_magic.agent.offline",
    "PromptResult": "mcp_magic.results",
    "ResourceResult": "mcp_magic.results",
    "Rule": "mcp_magic.core.consent.rules",
    "ScriptedModel": "mcp_magic.agent.scripted",
    "Spec": "mcp_magic.config.specs",
    "SseSpec": "mcp_magic.config.specs",
    "StdioSpec": "mcp_magic.config.specs",
    "ToolResult": "mcp_magic.results",
    "WebSocketSpec": "mcp_magic.config.specs",
    "build_graph": "mcp_magic.agent.graph",
    "display_messages": "mcp_magic.agent.messages",
    "get_final_answer": "mcp_magic.agent.messages",
    "host": "mcp_magic.notebook",
    "serve_langchain": "mcp_magic.langchain.serve",
    "tools_summary": "mcp_magic.agent.messages",
}
"""Public name -> the module that has it, imported when the name is first used."""

__all__ = [
    "AgentRun",
    "Connection",
    "Decision",
    "Host",
    "HttpSpec",
    "InProcessSpec",
    "MCPMagicError",
    "OfflineModel",
    "PromptResult",
    "ResourceResult",
    "Rule",
    "ScriptedModel",
    "Spec",
    "SseSpec",
    "StdioSpec",
    "ToolResult",
    "WebSocketSpec",
    "build_graph",
    "display_messages",
    "get_final_answer",
    "host",
    "load_ipython_extension",
    "serve_langchain",
    "tools_summary",
    "unload_ipython_extension",
]


if not TYPE_CHECKING:  # a type checker would take every name, misspelled ones too

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module 'mcp_magic' has no attribute {name!r}")
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Add `%mcp` to a shell; IPython calls this for `%load_ext mcp_magic`."""
    from mcp_magic.magics.loading import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Close all sessions and take `%mcp` away; IPython calls this for `%unload_ext mcp_magic`."""
    from mcp_magic.magics.loading import unload

    unload(ipython)
