"""`%%mcp_agent`: lets a model work on the request in the cell."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import did_you_mean, listed, sentence
from mcp_magic.agent.transcript import SHOWS
from mcp_magic.consent.consent import POLICIES
from mcp_magic.errors import CommandError, MissingDependencyError, UnknownServerError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser
from mcp_magic.ipython.live import screen_for, shown_once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

    from langgraph.graph.state import CompiledStateGraph

    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.threads import FallbackSaver
    from mcp_magic.ipython.live import Screen

__all__ = ["MCP_AGENT", "Plan", "plan_of"]


# The plan of a run: the line's options win over the declared agent, which wins over the settings.


@dataclass(frozen=True)
class Plan:
    """The parameters of a run, from the line's options, the declared agent and the settings, in this order.

    Attributes:
        agent: The declared agent's name, or "".
        model: A name or a chat model.
        servers: Names of servers.
        tools: Patterns of tools.
        thread: The thread to continue, or "".
        approve: A policy, or None for the setting.
        show: How much the cell shows.
        max_turns: The most turns of the model.
        system: The system prompt.
    """

    agent: str
    model: Any
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    thread: str
    approve: str | None
    show: str
    max_turns: int
    system: str


async def plan_of(invocation: Invocation, arguments: argparse.Namespace) -> Plan:
    """Combine the sources of a plan.

    Raises:
        CommandError: There is no such agent, its model's variable is missing, or its prompt has required arguments.
        UnknownServerError: A server of the declared agent is not connected.
        NotFoundError: There is no such prompt.
    """
    settings = invocation.settings
    declared = _declared(invocation.state.agents, arguments.agent)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    both: dict[str, Any] = {**declared, **given}
    if "servers" not in given:
        _check_servers(invocation, arguments.agent, declared.get("servers", ()))
    system = invocation.value(arguments.system) if arguments.system else declared.get("system", "")
    return Plan(
        agent=arguments.agent or "",
        model=_model(invocation, given.get("model"), declared.get("model")),
        servers=_names(both.get("servers")),
        tools=_names(both.get("tools")),
        thread=str(both.get("thread", "")),
        approve=both.get("approve"),
        show=both.get("show", "full"),
        max_turns=both.get("max_turns", settings.max_turns),
        system=str(system) or await _prompt(invocation, arguments.agent, declared.get("prompt")),
    )


def _model(invocation: Invocation, given: str | None, declared: str | None) -> Any:
    """Return the model. In a declaration, `$name` is a variable; a file's `{expression}` is not evaluated."""
    if given is not None:
        return invocation.value(given)
    if declared is None:
        return invocation.settings.model
    if not declared.startswith("$"):
        return declared
    found = invocation.lookup(declared[1:])
    if found is None:
        raise CommandError(f"%%mcp_agent: the agent is declared with model = {declared!r}; there is no such variable.")
    return found


def _declared(agents: Mapping[str, dict[str, Any]], name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name in agents:
        return agents[name]
    near = did_you_mean(name, agents)
    known = f"Declared: {listed(agents)}" if agents else "[agents.NAME] in a declaration makes one; `%mcp up` reads it."
    raise CommandError(f"%%mcp_agent: no agent {name!r}.{near} {known}")


def _check_servers(invocation: Invocation, agent: str | None, servers: Iterable[str]) -> None:
    missing = [name for name in servers if name not in invocation.host]
    if missing:
        connected = f"Connected: {listed(invocation.host)}"
        raise UnknownServerError(
            f"the agent {agent!r} needs the server {missing[0]!r}, which is not connected; `%mcp up` connects what is "
            f"declared. {connected}"
        )


def _names(value: Any) -> tuple[str, ...]:
    """Return the names in `"a,b"` or in a list."""
    parts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(part.strip() for part in parts if part.strip())


async def _prompt(invocation: Invocation, agent: str | None, name: str | None) -> str:
    """Return the text of an MCP prompt, used as the system prompt."""
    if name is None:
        return ""
    connection, definition = await invocation.host.resolve(name, "prompts")
    required = [argument.name for argument in definition.arguments or () if argument.required]
    if required:
        raise CommandError(
            f"%%mcp_agent: the prompt {name!r} of the agent {agent!r} needs the argument {required[0]!r}; "
            "only a prompt without required arguments can be an agent's."
        )
    result = await connection.prompt(definition.name)
    return "\n\n".join(message.text for message in result.messages)


# The options and the run.


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
    parser.add_argument("--max-turns", type=int, metavar="N", help="turns of the model for this request")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told first, or $variable")
    parser.add_argument("-o", "--out", metavar="NAME", help="the variable that gets the AgentRun")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> AgentRun:
    """Run an agent on the request in the cell's body."""
    if IN_BROWSER and find_spec("langgraph") is None:
        raise MissingDependencyError(_NO_LANGGRAPH)
    from mcp_magic.agent.models import make_model
    from mcp_magic.agent.threads import open_threads
    from mcp_magic.agent.tools import Registry

    request = _request(invocation, arguments)
    plan = await plan_of(invocation, arguments)
    model = make_model(plan.model)
    await Registry(invocation.host, servers=plan.servers, tools=plan.tools).check()
    screen = screen_for(invocation.cells.circumstances())
    async with open_threads(invocation.settings.threads or None) as opened:
        notes = _notes(invocation, plan, opened)

        def over(made: AgentRun) -> None:
            if opened.problem and (_in_memory(opened), "warning") not in notes:  # saving failed during the run
                made.transcript.on_event({"kind": "note", "text": _in_memory(opened), "level": "warning"})
            _keep(invocation, made, screen, arguments.out)

        return await _run(invocation, plan, model, request, opened, screen, notes, over)


async def _run(
    invocation: Invocation,
    plan: Plan,
    model: Any,
    request: str,
    opened: FallbackSaver,
    screen: Screen,
    notes: list[tuple[str, str]],
    over: Callable[[AgentRun], None],
) -> AgentRun:
    from mcp_magic.agent.graph import run_agent
    from mcp_magic.agent.models import model_name
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


def _graph(
    invocation: Invocation, plan: Plan, model: Any, opened: FallbackSaver
) -> CompiledStateGraph[Any, Any, Any, Any]:
    from mcp_magic.agent.graph import build_graph

    return build_graph(
        model,
        invocation.host,
        servers=plan.servers,
        tools=plan.tools,
        system=plan.system,
        approve=plan.approve,
        max_turns=plan.max_turns,
        checkpointer=opened,
        result_limit=invocation.settings.result_characters,
        timeout=invocation.settings.call_timeout,
    )


def _request(invocation: Invocation, arguments: argparse.Namespace) -> str:
    request = (invocation.body or "").strip()
    if not request:
        raise CommandError("%%mcp_agent: the request is missing; write it below the line with the options.")
    if arguments.out and not arguments.out.isidentifier():
        raise CommandError(f"%%mcp_agent: -o {arguments.out}: a Python variable's name is expected.")
    if arguments.max_turns is not None and arguments.max_turns < 1:
        raise CommandError(f"%%mcp_agent: --max-turns {arguments.max_turns}: at least 1.")
    return request


def _notes(invocation: Invocation, plan: Plan, opened: FallbackSaver) -> list[tuple[str, str]]:
    """Return the notes shown before a run, each with its level."""
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


def _in_memory(opened: FallbackSaver) -> str:
    return f"{sentence(opened.problem)} The thread is kept in memory."


def _keep(invocation: Invocation, made: AgentRun, screen: Screen, name: str | None) -> None:
    """Assign a finished run to its variable, and show it exactly once."""
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
