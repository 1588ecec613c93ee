"""MCP in the notebook.

`%load_ext mcp_magic` turns a running kernel into an MCP host; `from mcp_magic import host` gives Python the
same host. Heavy modules are imported only when they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.graph import build_graph
    from mcp_magic.agent.offline import OfflineModel
    from mcp_magic.agent.run import AgentRun, display_messages, get_final_answer, tools_summary
    from mcp_magic.agent.scripted import ScriptedModel
    from mcp_magic.ask.elicitation import Answer, Elicitation, Elicitor
    from mcp_magic.ask.sampling import Expected, Review, Reviewer, Sampled, Sampler, SamplingRequest
    from mcp_magic.auth.login import Authorizer, LogIn
    from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec
    from mcp_magic.consent.consent import Approver, Decision, Request
    from mcp_magic.consent.rules import Rule
    from mcp_magic.errors import (
        AmbiguousNameError,
        ArgumentsError,
        AuthorizationError,
        CallCancelledError,
        CassetteError,
        CommandError,
        CommandNotFoundError,
        ConfigError,
        ConnectError,
        ConnectTimeoutError,
        DeniedError,
        HTTPStatusError,
        InvalidResponseError,
        MCPMagicError,
        MissingDependencyError,
        ModelError,
        NoTableError,
        NotAnMCPServerError,
        NotFoundError,
        NotOfferedError,
        ProtocolError,
        RequestTimeoutError,
        ServerExitedError,
        SessionClosedError,
        SessionError,
        TargetError,
        ThreadError,
        ToolError,
        UnknownPromptError,
        UnknownResourceError,
        UnknownServerError,
        UnknownToolError,
        UnreachableError,
        VerificationError,
    )
    from mcp_magic.langchain.serve import serve_langchain
    from mcp_magic.notebook import Host, host
    from mcp_magic.results import PromptResult, ResourceResult, ToolResult
    from mcp_magic.session.connection import Connection
    from mcp_magic.session.reconnect import Reconnection

__version__ = "0.1.0"

_MODULES = {
    "mcp_magic.agent.graph": ("build_graph",),
    "mcp_magic.agent.offline": ("OfflineModel",),
    "mcp_magic.agent.run": ("AgentRun", "display_messages", "get_final_answer", "tools_summary"),
    "mcp_magic.agent.scripted": ("ScriptedModel",),
    "mcp_magic.ask.elicitation": ("Answer", "Elicitation", "Elicitor"),
    "mcp_magic.ask.sampling": ("Expected", "Review", "Reviewer", "Sampled", "Sampler", "SamplingRequest"),
    "mcp_magic.auth.login": ("Authorizer", "LogIn"),
    "mcp_magic.config.specs": ("HttpSpec", "InProcessSpec", "Spec", "SseSpec", "StdioSpec", "WebSocketSpec"),
    "mcp_magic.consent.consent": ("Approver", "Decision", "Request"),
    "mcp_magic.consent.rules": ("Rule",),
    "mcp_magic.langchain.serve": ("serve_langchain",),
    "mcp_magic.notebook": ("Host", "host"),
    "mcp_magic.results": ("PromptResult", "ResourceResult", "ToolResult"),
    "mcp_magic.session.connection": ("Connection",),
    "mcp_magic.session.reconnect": ("Reconnection",),
}
"""Module -> the public names that it defines; the module is imported when one of them is first used."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AgentRun",
    "AmbiguousNameError",
    "Answer",
    "Approver",
    "ArgumentsError",
    "AuthorizationError",
    "Authorizer",
    "CallCancelledError",
    "CassetteError",
    "CommandError",
    "CommandNotFoundError",
    "ConfigError",
    "ConnectError",
    "ConnectTimeoutError",
    "Connection",
    "Decision",
    "DeniedError",
    "Elicitation",
    "Elicitor",
    "Expected",
    "HTTPStatusError",
    "Host",
    "HttpSpec",
    "InProcessSpec",
    "InvalidResponseError",
    "LogIn",
    "MCPMagicError",
    "MissingDependencyError",
    "ModelError",
    "NoTableError",
    "NotAnMCPServerError",
    "NotFoundError",
    "NotOfferedError",
    "OfflineModel",
    "PromptResult",
    "ProtocolError",
    "Reconnection",
    "Request",
    "RequestTimeoutError",
    "ResourceResult",
    "Review",
    "Reviewer",
    "Rule",
    "Sampled",
    "Sampler",
    "SamplingRequest",
    "ScriptedModel",
    "ServerExitedError",
    "SessionClosedError",
    "SessionError",
    "Spec",
    "SseSpec",
    "StdioSpec",
    "TargetError",
    "ThreadError",
    "ToolError",
    "ToolResult",
    "UnknownPromptError",
    "UnknownResourceError",
    "UnknownServerError",
    "UnknownToolError",
    "UnreachableError",
    "VerificationError",
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


if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept misspelled names

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'mcp_magic' has no attribute {name!r}")
        module = importlib.import_module(_WHERE.get(name, "mcp_magic.errors"))
        value = getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Add `%mcp` to a shell. IPython calls this for `%load_ext mcp_magic`."""
    from mcp_magic.ipython.extension import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Close all sessions and remove `%mcp`. IPython calls this for `%unload_ext mcp_magic`."""
    from mcp_magic.ipython.extension import unload

    unload(ipython)
