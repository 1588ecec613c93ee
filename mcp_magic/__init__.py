"""MCP in the notebook.

`%load_ext mcp_magic` turns a running kernel into an MCP host; `from mcp_magic import host` gives Python the
same host. Heavy modules are imported only when they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.graph import build_graph as build_graph
    from mcp_magic.agent.middleware import BudgetMiddleware as BudgetMiddleware
    from mcp_magic.agent.middleware import ConversationMiddleware as ConversationMiddleware
    from mcp_magic.agent.middleware import LargeResultsMiddleware as LargeResultsMiddleware
    from mcp_magic.agent.middleware import PlanMiddleware as PlanMiddleware
    from mcp_magic.agent.middleware import SkillsMiddleware as SkillsMiddleware
    from mcp_magic.agent.middleware import ToolSearchMiddleware as ToolSearchMiddleware
    from mcp_magic.agent.offline import OfflineModel as OfflineModel
    from mcp_magic.agent.run import AgentRun as AgentRun
    from mcp_magic.agent.run import display_messages as display_messages
    from mcp_magic.agent.run import get_final_answer as get_final_answer
    from mcp_magic.agent.run import tools_summary as tools_summary
    from mcp_magic.agent.scripted import ScriptedModel as ScriptedModel
    from mcp_magic.agent.settings import AgentSettings as AgentSettings
    from mcp_magic.ask.elicitation import Answer as Answer
    from mcp_magic.ask.elicitation import Elicitation as Elicitation
    from mcp_magic.ask.elicitation import Elicitor as Elicitor
    from mcp_magic.ask.sampling import Expected as Expected
    from mcp_magic.ask.sampling import Review as Review
    from mcp_magic.ask.sampling import Reviewer as Reviewer
    from mcp_magic.ask.sampling import Sampled as Sampled
    from mcp_magic.ask.sampling import Sampler as Sampler
    from mcp_magic.ask.sampling import SamplingRequest as SamplingRequest
    from mcp_magic.auth.login import Authorizer as Authorizer
    from mcp_magic.auth.login import LogIn as LogIn
    from mcp_magic.calls.call import Call as Call
    from mcp_magic.calls.call import CallObserver as CallObserver
    from mcp_magic.config.specs import HttpSpec as HttpSpec
    from mcp_magic.config.specs import InProcessSpec as InProcessSpec
    from mcp_magic.config.specs import Spec as Spec
    from mcp_magic.config.specs import SseSpec as SseSpec
    from mcp_magic.config.specs import StdioSpec as StdioSpec
    from mcp_magic.config.specs import WebSocketSpec as WebSocketSpec
    from mcp_magic.consent.consent import Approver as Approver
    from mcp_magic.consent.consent import Decision as Decision
    from mcp_magic.consent.consent import Request as Request
    from mcp_magic.consent.rules import Rule as Rule
    from mcp_magic.errors import *  # noqa: F403
    from mcp_magic.evaluation.evaluation import Evaluation as Evaluation
    from mcp_magic.evaluation.judge import judge as judge
    from mcp_magic.flight.request import Answerers as Answerers
    from mcp_magic.flight.request import Limits as Limits
    from mcp_magic.jobs import Job as Job
    from mcp_magic.jobs import Jobs as Jobs
    from mcp_magic.langchain.serve import serve_langchain as serve_langchain
    from mcp_magic.map.cluster import map_partition as map_partition
    from mcp_magic.map.plan import MapItem as MapItem
    from mcp_magic.map.rows import col as col
    from mcp_magic.map.run import MapRun as MapRun
    from mcp_magic.notebook import Host as Host
    from mcp_magic.notebook import host as host
    from mcp_magic.results import PromptResult as PromptResult
    from mcp_magic.results import ResourceResult as ResourceResult
    from mcp_magic.results import ToolResult as ToolResult
    from mcp_magic.session.connection import Connection as Connection
    from mcp_magic.session.reconnect import Reconnection as Reconnection

__version__ = "0.1.0"

_MODULES = {
    "mcp_magic.agent.graph": ("build_graph",),
    "mcp_magic.agent.middleware": (
        "BudgetMiddleware",
        "ConversationMiddleware",
        "LargeResultsMiddleware",
        "PlanMiddleware",
        "SkillsMiddleware",
        "ToolSearchMiddleware",
    ),
    "mcp_magic.agent.offline": ("OfflineModel",),
    "mcp_magic.agent.run": ("AgentRun", "display_messages", "get_final_answer", "tools_summary"),
    "mcp_magic.agent.scripted": ("ScriptedModel",),
    "mcp_magic.agent.settings": ("AgentSettings",),
    "mcp_magic.ask.elicitation": ("Answer", "Elicitation", "Elicitor"),
    "mcp_magic.ask.sampling": ("Expected", "Review", "Reviewer", "Sampled", "Sampler", "SamplingRequest"),
    "mcp_magic.auth.login": ("Authorizer", "LogIn"),
    "mcp_magic.calls.call": ("Call", "CallObserver"),
    "mcp_magic.config.specs": ("HttpSpec", "InProcessSpec", "Spec", "SseSpec", "StdioSpec", "WebSocketSpec"),
    "mcp_magic.consent.consent": ("Approver", "Decision", "Request"),
    "mcp_magic.consent.rules": ("Rule",),
    "mcp_magic.flight.request": ("Answerers", "Limits"),
    "mcp_magic.jobs": ("Job", "Jobs"),
    "mcp_magic.langchain.serve": ("serve_langchain",),
    "mcp_magic.map.cluster": ("map_partition",),
    "mcp_magic.map.plan": ("MapItem",),
    "mcp_magic.map.rows": ("col",),
    "mcp_magic.evaluation.evaluation": ("Evaluation",),
    "mcp_magic.evaluation.judge": ("judge",),
    "mcp_magic.map.run": ("MapRun",),
    "mcp_magic.notebook": ("Host", "host"),
    "mcp_magic.results": ("PromptResult", "ResourceResult", "ToolResult"),
    "mcp_magic.session.connection": ("Connection",),
    "mcp_magic.session.reconnect": ("Reconnection",),
}
"""Module -> the public names that it defines; the module is imported when one of them is first used."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept misspelled names

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            value = getattr(importlib.import_module(_WHERE[name]), name)
            globals()[name] = value
            return value
        errors = importlib.import_module("mcp_magic.errors")
        if name == "__all__":
            return [*_WHERE, *errors.__all__, "load_ipython_extension", "unload_ipython_extension"]
        if name in errors.__all__:
            return getattr(errors, name)
        raise AttributeError(f"module 'mcp_magic' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Add `%mcp` to a shell. IPython calls this for `%load_ext mcp_magic`."""
    from mcp_magic.ipython.extension import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Close all sessions and remove `%mcp`. IPython calls this for `%unload_ext mcp_magic`."""
    from mcp_magic.ipython.extension import unload

    unload(ipython)
