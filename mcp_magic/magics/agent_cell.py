"""`%%mcp_agent`: a model works on what the cell says, with the tools of the open sessions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp_magic.browser import IN_BROWSER
from mcp_magic.errors import CommandError, MissingDependencyError
from mcp_magic.magics.agent_plan import plan_of
from mcp_magic.magics.live import screen_for, shown_once
from mcp_magic.magics.parsing import Implementation, Invocation, Parser
from mcp_magic.wording import sentence

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from langgraph.graph.state import CompiledStateGraph

    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.threads import Opened
    from mcp_magic.magics.agent_plan import Plan
    from mcp_magic.magics.live import Screen

__all__ = ["MCP_AGENT"]

SHOWS = ("full", "answer", "none")
POLICIES = ("ask", "auto", "readonly", "deny")

_NO_LANGGRAPH = (
    "agents need LangGraph, and a Python in a browser has no package of it. "
    "`%mcp call` and `host.langchain_tools()` work here."
)


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="an agent that `%%mcp up` has declared")
    parser.add_argument("--model", metavar="MODEL", help="PROVIDER:NAME, offline, or $variable")
    parser.add_argument("--servers", metavar="A,B", completer="servers", help="only these servers")
    parser.add_argument(
        "--tools", metavar="PATTERN", completer="tools", help="only these tools, such as 'fs:read_*,math:*'"
    )
    parser.add_argument(
        "--thread", metavar="NAME", completer="THREAD", help="go on with a conversation, or begin one of this name"
    )
    parser.add_argument("--approve", choices=POLICIES, help="what decides where no consent rule matches")
    parser.add_argument("--show", choices=SHOWS, help="how much of what happens is shown")
    parser.add_argument("--max-steps", type=int, metavar="N", help="turns of the model for this request")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told first, or $variable")
    parser.add_argument("-o", "--out", metavar="NAME", help="the variable that gets the AgentRun")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> AgentRun:
    """Run an agent on the request that the cell's body is."""
    if IN_BROWSER and find_spec("langgraph") is None:
        raise MissingDependencyError(_NO_LANGGRAPH)
    from mcp_magic.agent.models import make_model
    from mcp_magic.agent.registry import Registry
    from mcp_magic.agent.threads import open_threads

    request = _request(invocation, arguments)
    plan = await plan_of(invocation, arguments)
    model = make_model(plan.model)
    await Registry(invocation.host, servers=plan.servers, tools=plan.tools).check()
    screen = screen_for(invocation.cells.circumstances())
    async with open_threads(invocation.settings.threads or None) as opened:
        notes = _notes(invocation, plan, opened)

        def over(made: AgentRun) -> None:
            if opened.problem and (_in_memory(opened), "warning") not in notes:  # it failed in the middle
                made.transcript.on_event({"kind": "note", "text": _in_memory(opened), "level": "warning"})
            _keep(invocation, made, screen, arguments.out)

        return await _run(invocation, plan, model, request, opened, screen, notes, over)


async def _run(
    invocation: Invocation,
    plan: Plan,
    model: Any,
    request: str,
    opened: Opened,
    screen: Screen,
    notes: list[tuple[str, str]],
    over: Callable[[AgentRun], None],
) -> AgentRun:
    from mcp_magic.agent.models import model_name
    from mcp_magic.agent.running import run_agent
    from mcp_magic.agent.threads import new_thread_name

    return await run_agent(
        _graph(invocation, plan, model, opened),
        invocation.host,
        request,
        thread=plan.thread or new_thread_name(request),
        model=model_name(model),
        asker=f"agent {plan.agent}".rstrip(),
        show=plan.show,
        screen=screen,
        notes=notes,
        over=over,
    )


def _graph(invocation: Invocation, plan: Plan, model: Any, opened: Opened) -> CompiledStateGraph[Any, Any, Any, Any]:
    from mcp_magic.agent.graph import build_graph

    return build_graph(
        model,
        invocation.host,
        servers=plan.servers,
        tools=plan.tools,
        system=plan.system,
        approve=plan.approve,
        max_steps=plan.max_steps,
        checkpointer=opened.saver,
        result_limit=invocation.settings.result_characters,
        timeout=invocation.settings.call_timeout,
    )


def _request(invocation: Invocation, arguments: argparse.Namespace) -> str:
    request = (invocation.body or "").strip()
    if not request:
        raise CommandError("%%mcp_agent: the request is missing; write it below the line with the options.")
    if arguments.out and not arguments.out.isidentifier():
        raise CommandError(f"%%mcp_agent: -o {arguments.out}: a Python variable's name is expected.")
    if arguments.max_steps is not None and arguments.max_steps < 1:
        raise CommandError(f"%%mcp_agent: --max-steps {arguments.max_steps}: at least 1.")
    return request


def _notes(invocation: Invocation, plan: Plan, opened: Opened) -> list[tuple[str, str]]:
    """Return what is said before a run begins, with its level."""
    from mcp_magic.agent.models import OFFLINE, OFFLINE_NOTE

    notes = []
    if plan.model in ("", OFFLINE):
        notes.append((OFFLINE_NOTE, "info"))
    if opened.problem:
        notes.append((_in_memory(opened), "warning"))
    if not invocation.host.find():
        notes.append(
            ("no server is connected, so there are no tools: `%mcp connect TARGET` opens a session", "warning")
        )
    return notes


def _in_memory(opened: Opened) -> str:
    return f"{sentence(opened.problem)} The thread is kept in memory."


def _keep(invocation: Invocation, made: AgentRun, screen: Screen, name: str | None) -> None:
    """Assign a run that is over, and see to it that it has been shown once."""
    shell = invocation.shell
    if name:
        shell.user_ns[name] = made
    if made.broken_off:
        screen.broken_off(made.transcript)
        return
    screen.end(made.transcript)
    if screen.live:
        shown_once(shell, made)


MCP_AGENT = Implementation(
    run,
    options,
    examples=(
        "%%mcp_agent --servers math",
        "add 3 and 4, then multiply the result by 5",
        "",
        "%%mcp_agent --model openai:gpt-5 --approve readonly --thread trip -o run",
        "Where is it warmer tomorrow, in Oslo or in Rome?",
    ),
    details="Each call goes through consent: rules (`%mcp allow`), then --approve or the setting. Without a model "
    "the agent runs on `offline`, which needs no network. The thread is kept: --thread goes on with it, "
    "`%mcp agent --threads` lists them.",
    takes_body=True,
    left_over="The request goes below the line.",
)
