"""What an agent may do: the settings of its graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_magic.agent.program import Programs
    from mcp_magic.langchain.variants import Variant


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """What an agent may do. All have defaults.

    Attributes:
        servers: Names of the servers whose tools the agent may use; empty: all open sessions.
        tools: Patterns for `server:tool`; empty: all.
        system: The system message; "" for the default. The thread does not store it.
        approve: The policy where no consent rule matches: `"ask"`, `"plan"` (one question about all calls of a turn),
            `"auto"`, `"readonly"`, `"deny"`; None: the host's policy.
        ask: Who answers: `"host"`: the host's approver; `"interrupt"`: the caller that resumes the graph with
            `Command(resume={call id: {"decision": "approve" | "edit" | "deny", "arguments": {...}, "reason": "..."}})`,
            or one decision for all.
        max_turns: The most turns for one request; then the graph ends with the results so far.
        result_limit: Characters of one result that the model gets.
        timeout: Seconds for a call, or None for no limit.
        spill: Tokens of a result above which the model gets its shape, its head and a handle for `read_result`; None:
            results are cut at `result_limit`.
        search_above: Tools above which the model gets `search_tools` and the tools that fit, instead of all; below 1, a
            share of the model's context; None: it always gets all.
        pinned: Patterns for tools that the model always gets.
        skills: Patterns for `server:skill`: the model is told of these skills, and gets `load_skill` to read them.
        max_tokens: The most tokens that the turns for one request may read and write.
        max_cost: The most that they may cost in US dollars, where the prices of the model are known. The graph ends
            with the results so far before a turn that would exceed either.
        programs: How the model's programs run: it then gets one tool, `run_program`, and the tools of the servers as
            functions of modules. None: it gets the tools themselves.
        tables: Tables by name (DataFrames, lists of dicts, files) for which the model gets the tool `map`. It calls a
            tool for each row of one, or of rows that the model writes, and asks you once. None: no such tool.
        values: Values by name that the model may read, and pass on in arguments by reference: `{"$value": "df"}`. A
            program in the sandbox has them as variables, as JSON. None: no such tools.
        surfaces: What the model reads of some servers in place of what they list (`host.surface`), as it is now. Calls
            go to the real tools.
    """

    servers: Collection[str] = ()
    tools: Collection[str] = ()
    system: str = ""
    approve: str | None = None
    ask: Literal["host", "interrupt"] = "host"
    max_turns: int = 25
    result_limit: int = 20_000
    timeout: float | None = None
    spill: int | None = 4000
    search_above: float | None = 50
    pinned: Collection[str] = ()
    skills: Collection[str] = ()
    max_tokens: int | None = None
    max_cost: float | None = None
    programs: Programs | None = None
    tables: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None
    surfaces: Collection[Variant] = ()
