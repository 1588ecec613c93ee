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

_WHERE = {
    "AgentRun": "mcp_magic.agent.run",
    "AmbiguousNameError": "mcp_magic.errors",
    "Answer": "mcp_magic.ask.elicitation",
    "Approver": "mcp_magic.consent.consent",
    "ArgumentsError": "mcp_magic.errors",
    "AuthorizationError": "mcp_magic.errors",
    "Authorizer": "mcp_magic.auth.login",
    "CallCancelledError": "mcp_magic.errors",
    "CassetteError": "mcp_magic.errors",
    "CommandError": "mcp_magic.errors",
    "CommandNotFoundError": "mcp_magic.errors",
    "ConfigError": "mcp_magic.errors",
    "ConnectError": "mcp_magic.errors",
    "ConnectTimeoutError": "mcp_magic.errors",
    "Connection": "mcp_magic.session.connection",
    "Decision": "mcp_magic.consent.consent",
    "DeniedError": "mcp_magic.errors",
    "Elicitation": "mcp_magic.ask.elicitation",
    "Elicitor": "mcp_magic.ask.elicitation",
    "Expected": "mcp_magic.ask.sampling",
    "HTTPStatusError": "mcp_magic.errors",
    "Host": "mcp_magic.notebook",
    "HttpSpec": "mcp_magic.config.specs",
    "InProcessSpec": "mcp_magic.config.specs",
    "InvalidResponseError": "mcp_magic.errors",
    "LogIn": "mcp_magic.auth.login",
    "MCPMagicError": "mcp_magic.errors",
    "MissingDependencyError": "mcp_magic.errors",
    "ModelError": "mcp_magic.errors",
    "NoTableError": "mcp_magic.errors",
    "NotAnMCPServerError": "mcp_magic.errors",
    "NotFoundError": "mcp_magic.errors",
    "NotOfferedError": "mcp_magic.errors",
    "OfflineModel": "mcp_magic.agent.offline",
    "PromptResult": "mcp_magic.results",
    "ProtocolError": "mcp_magic.errors",
    "Reconnection": "mcp_magic.session.reconnect",
    "Request": "mcp_magic.consent.consent",
    "RequestTimeoutError": "mcp_magic.errors",
    "ResourceResult": "mcp_magic.results",
    "Review": "mcp_magic.ask.sampling",
    "Reviewer": "mcp_magic.ask.sampling",
    "Rule": "mcp_magic.consent.rules",
    "Sampled": "mcp_magic.ask.sampling",
    "Sampler": "mcp_magic.ask.sampling",
    "SamplingRequest": "mcp_magic.ask.sampling",
    "ScriptedModel": "mcp_magic.agent.scripted",
    "ServerExitedError": "mcp_magic.errors",
    "SessionClosedError": "mcp_magic.errors",
    "SessionError": "mcp_magic.errors",
    "Spec": "mcp_magic.config.specs",
    "SseSpec": "mcp_magic.config.specs",
    "StdioSpec": "mcp_magic.config.specs",
    "TargetError": "mcp_magic.errors",
    "ThreadError": "mcp_magic.errors",
    "ToolError": "mcp_magic.errors",
    "ToolResult": "mcp_magic.results",
    "UnknownPromptError": "mcp_magic.errors",
    "UnknownResourceError": "mcp_magic.errors",
    "UnknownServerError": "mcp_magic.errors",
    "UnknownToolError": "mcp_magic.errors",
    "UnreachableError": "mcp_magic.errors",
    "VerificationError": "mcp_magic.errors",
    "WebSocketSpec": "mcp_magic.config.specs",
    "build_graph": "mcp_magic.agent.graph",
    "display_messages": "mcp_magic.agent.run",
    "get_final_answer": "mcp_magic.agent.run",
    "host": "mcp_magic.notebook",
    "serve_langchain": "mcp_magic.langchain.serve",
    "tools_summary": "mcp_magic.agent.run",
}
"""Public name -> the module that defines it, imported when the name is first used."""

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
        if name not in _WHERE:
            raise AttributeError(f"module 'mcp_magic' has no attribute {name!r}")
        value = getattr(importlib.import_module(_WHERE[name]), name)
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
