"""`%%mcp_agent` lets a model work on the request in the cell; `%mcp agent` has its stored threads."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import did_you_mean, is_identifier, join_names, plural, sentence
from mcp_magic.agent.events import NoteEvent
from mcp_magic.agent.transcript import SHOWS, Transcript
from mcp_magic.consent.consent import POLICIES
from mcp_magic.display.listing import Listing, Text
from mcp_magic.errors import CommandError, MissingDependencyError, UnknownServerError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab, option_text, variable_typed
from mcp_magic.ipython.live import screen_for, shown_once
from mcp_magic.ipython.views import Views
from mcp_magic.notebook import host

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_magic.agent.program import Programs
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.threads import FallbackSaver


# What Tab offers: models, servers, tools, agents and threads.


def _complete_thread(tab: Tab) -> list[str]:
    from mcp_magic.agent.threads import thread_names

    names = thread_names(tab.settings.threads or None if tab.settings else None)
    return completion.starting(tab, map(shlex.quote, names))


def complete_tools(tab: Tab) -> list[str]:
    """Return patterns for the tools of the servers."""
    names = (f"{c.name}:{tool.name}" for c in host.find() for tool in c.catalog.cached("tools"))
    # servers choose the names of tools: names that need quotes are left out
    plain = [name for name in names if shlex.quote(name) == name and "," not in name]
    return completion.continuing(tab, [*(f"{name}:*" for name in host), *plain])


def model_words(tab: Tab) -> list[str]:
    """Return `offline`, and the variables that hold a chat model; imports no LangChain."""
    models = [
        f"${name}"
        for name, value in tab.namespace.items()
        if not name.startswith("_") and hasattr(type(value), "bind_tools") and hasattr(type(value), "ainvoke")
    ]
    return ["offline", *models]


def _complete_values(tab: Tab) -> list[str]:
    from mcp_magic.values.shared import is_data

    return completion.continuing(tab, [f"${name}" for name, value in tab.namespace.items() if is_data(name, value)])


def _complete_model(tab: Tab) -> list[str]:
    return completion.starting(tab, model_words(tab))


# The plan of a run: the line's options win over the declared agent, which wins over the settings.


async def _plan_of(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any]:
    """Combine the sources of a plan."""
    declared = _declared(invocation.state.agents, arguments.agent)
    options = {name: value for name, value in vars(arguments).items() if value is not None}
    missing = [name for name in declared.get("servers", ()) if name not in invocation.host]
    if missing and "servers" not in options:
        raise UnknownServerError(
            f"the agent {arguments.agent!r} needs the server {missing[0]!r}, which is not connected; `%mcp up` "
            f"connects what is declared. Connected: {join_names(invocation.host)}"
        )
    system = invocation.value(arguments.system) if arguments.system else declared.get("system", "")
    defaults = {
        "servers": "",
        "tools": "",
        "pin": "",
        "skills": "",
        "thread": "",
        "show": "full",
        "max_turns": invocation.settings.max_turns,
        "max_tokens": None,
        "max_cost": None,
        "code": False,
    }
    plan: dict[str, Any] = {"approve": None, **defaults, **declared, **options}
    if arguments.where and not plan["code"]:
        raise CommandError(f"%%mcp_agent: --in {arguments.where} goes with --code.")
    plan["model"] = _model(invocation, options.get("model"), declared.get("model"))
    plan["system"] = str(system) or await _prompt(invocation, arguments.agent, declared.get("prompt"))
    for names in ("servers", "tools", "pin", "skills"):
        parts = plan[names].split(",") if isinstance(plan[names], str) else plan[names]
        plan[names] = tuple(filter(None, map(str.strip, parts)))
    return plan


def _model(invocation: Invocation, option: str | None, declared: str | None) -> Any:
    """Return the model. In a declaration, `$name` is a variable; a file's `{expression}` is not evaluated."""
    if option is not None:
        if option in invocation.variables and option.isidentifier():
            raise CommandError(
                f"%%mcp_agent: there is no model {option!r}. Did you mean the variable: --model ${option}?"
            )
        return invocation.value(option)
    if declared is None:
        return invocation.settings.model
    if not declared.startswith("$"):
        return declared
    value = invocation.variables.get(declared[1:])
    if value is None:
        raise CommandError(f"%%mcp_agent: the agent is declared with model = {declared!r}; there is no such variable.")
    return value


def _declared(agents: Mapping[str, dict[str, Any]], name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name in agents:
        return agents[name]
    if name.startswith("$"):
        raise CommandError(f"%%mcp_agent: {name} is left over; several variables are one word: --with $df,$results")
    near = did_you_mean(name, agents)
    hint = (
        f"Declared: {join_names(agents)}" if agents else "[agents.NAME] in a declaration makes one; `%mcp up` reads it."
    )
    raise CommandError(f"%%mcp_agent: no agent {name!r}.{near} {hint}")


async def _prompt(invocation: Invocation, agent: str | None, name: str | None) -> str:
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


NO_TOOLS = "no server is connected, so there are no tools: `%mcp connect TARGET` opens a session"
_NO_LANGGRAPH = (
    "agents need LangGraph, and a Python in a browser has no package of it. "
    "`%mcp call` and `host.langchain_tools()` work here."
)
_GRAPH_OPTIONS = ("servers", "tools", "skills", "system", "approve", "max_turns", "max_tokens", "max_cost")


def check_bounds(command: str, arguments: argparse.Namespace) -> None:
    """Raise CommandError for a bound of the turns, tokens or dollars that is too low."""
    for option, least in (("max_turns", 1), ("max_tokens", 1), ("max_cost", 0)):
        value = getattr(arguments, option)
        if value is not None and value < least:
            raise CommandError(f"{command}: {option_text(option)} {value:g}: at least {least}.")


async def _run_cell(invocation: Invocation, arguments: argparse.Namespace) -> AgentRun:
    if IN_BROWSER and find_spec("langgraph") is None:
        raise MissingDependencyError(_NO_LANGGRAPH)
    from mcp_magic.agent.failures import model_name
    from mcp_magic.agent.graph import build_graph, run_agent
    from mcp_magic.agent.models import OFFLINE, OFFLINE_NOTE, make_model
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.settings import AgentSettings
    from mcp_magic.agent.skills import AgentSkills
    from mcp_magic.agent.threads import new_thread_name, open_threads
    from mcp_magic.agent.tools import Registry

    request = (invocation.body or "").strip()
    if not request:
        raise CommandError("%%mcp_agent: the request is missing; write it below the line with the options.")
    check_bounds("%%mcp_agent", arguments)
    plan, settings = await _plan_of(invocation, arguments), invocation.settings
    tables = _variables(invocation, "map", arguments.map, "$cities,$orders")
    values = _variables(invocation, "with", ",".join(arguments.values or ()) or None, "$df,$results")
    surfaces = (_variables(invocation, "surface", arguments.surface, "$surface") or {}).values()
    model = make_model(plan["model"])
    await Registry(invocation.host, servers=plan["servers"], tools=plan["tools"]).check()
    await Registry(invocation.host, servers=plan["servers"], tools=plan["pin"]).check()
    await AgentSkills(invocation.host, plan["skills"], servers=plan["servers"], limit=0).check()
    screen = screen_for(invocation.cells.circumstances(), Views(invocation.shell, invocation.cells).show_below)
    async with open_threads(settings.threads or None) as opened:
        notes = [NoteEvent(_in_memory(opened), "warning")] if opened.problem else []
        if not invocation.host.find():
            notes.append(NoteEvent(NO_TOOLS, "warning"))
        graph = build_graph(
            model,
            invocation.host,
            AgentSettings(
                **{name: plan[name] for name in _GRAPH_OPTIONS},
                result_limit=settings.result_characters,
                timeout=settings.call_timeout,
                spill=settings.spill,
                tables=tables,
                search_above=settings.search_above,
                pinned=plan["pin"],
                programs=_programs(invocation, arguments.where) if plan["code"] else None,
                surfaces=surfaces,
                values=values,
            ),
            checkpointer=opened,
        )
        thread = str(plan["thread"]) or new_thread_name(request)
        run = AgentRun(request, thread, model_name(model), Transcript(show=plan["show"]))
        try:
            await run_agent(
                graph,
                invocation.host,
                run,
                asker=f"agent {arguments.agent or ''}".rstrip(),
                screen=screen,
                greeting=OFFLINE_NOTE if plan["model"] in ("", OFFLINE) else "",
                notes=notes,
            )
        finally:
            if opened.problem and NoteEvent(_in_memory(opened), "warning") not in notes:  # saving failed during the run
                run.transcript.on_event(NoteEvent(_in_memory(opened), "warning"))
            if arguments.out:
                invocation.shell.user_ns[arguments.out] = run
            if run.broken_off:
                screen.broken_off(run.transcript)
            else:
                screen.end(run.transcript)
                if screen.live:
                    shown_once(invocation.shell, run)
        return run


def _variables(invocation: Invocation, option: str, words: str | None, example: str) -> dict[str, Any] | None:
    """Return the values of an option that takes variables, by name; None without it."""
    if words is None:
        return None
    names = [word.strip() for word in words.split(",") if word.strip()]
    for name in names:
        if not name.startswith("$") or not is_identifier(name[1:]):
            variable = re.search(r"\w+", name)
            near = f"${variable[0]}" if variable and variable[0] in invocation.variables else example
            raise CommandError(f"%%mcp_agent: --{option} {name}: variables are meant: --{option} {near}")
    return {name[1:]: invocation.value(name) for name in names}


def _programs(invocation: Invocation, where: str | None) -> Programs:
    from mcp_magic.agent.program import Programs

    settings = invocation.settings
    return Programs(
        seconds=settings.program_seconds,
        memory=settings.program_memory * 1_000_000,
        calls=settings.program_calls,
        characters=settings.program_characters,
        namespace=invocation.shell.user_ns if where == "kernel" else None,
    )


def _in_memory(opened: FallbackSaver) -> str:
    return f"{sentence(opened.problem)} The thread is kept in memory."


MCP_AGENT = Implementation(
    _run_cell,
    (
        Argument(
            "agent",
            nargs="?",
            metavar="AGENT",
            complete=lambda tab: completion.starting(tab, map(shlex.quote, tab.agents)),
            help="an agent that `%%mcp up` has declared",
        ),
        Argument("--model", metavar="MODEL", complete=_complete_model, help="PROVIDER:NAME, offline, or $variable"),
        Argument(
            "--servers", metavar="A,B", complete=lambda tab: completion.continuing(tab, host), help="only these servers"
        ),
        Argument(
            "--tools", metavar="PATTERN", complete=complete_tools, help="only these tools, such as 'fs:read_*,math:*'"
        ),
        Argument(
            "--pin",
            metavar="PATTERN",
            complete=complete_tools,
            help="always give the model these tools, even if it must search for others",
        ),
        Argument(
            "--skills",
            nargs="?",
            const="*",
            metavar="PATTERN",
            complete=lambda tab: completion.continuing(tab, [f"{name}:*" for name in host]),
            help="let the model read these skills of servers, such as 'acme:*'; without PATTERN all",
        ),
        Argument(
            "--thread",
            metavar="NAME",
            complete=_complete_thread,
            help="continue the thread of this name, or begin it",
        ),
        Argument("--approve", choices=POLICIES, help="the policy where no consent rule matches"),
        Argument("--show", choices=SHOWS, help="how much of the run to show"),
        Argument("--max-turns", type=int, metavar="N", help="most turns of the model for this request"),
        Argument("--max-tokens", type=int, metavar="N", help="most tokens of the model for this request"),
        Argument("--max-cost", type=float, metavar="DOLLARS", help="most dollars of the model for this request"),
        Argument(
            "--code",
            action="store_true",
            default=None,
            help="the model writes programs that call the tools, in a sandbox",
        ),
        Argument(
            "--in",
            dest="where",
            choices=("sandbox", "kernel"),
            help="where programs run; each one in the kernel waits for your approval",
        ),
        Argument("--system", metavar="TEXT", help="the system prompt, or $variable"),
        Argument(
            "--map",
            nargs="?",
            const="",
            metavar="$TABLE,...",
            complete=_complete_values,
            help="give the model the tool `map`, which calls a tool for each row of these tables",
        ),
        Argument(
            "--with",
            dest="values",
            action="append",
            metavar="$NAME,...",
            complete=_complete_values,
            help="let the model read these values, and pass them on in calls without reading them",
        ),
        Argument(
            "--surface",
            metavar="$SURFACE,...",
            help="let the model read these in place of what their servers list (`await host.surface(...)`)",
        ),
        Argument("-o", "--out", type=variable_typed, metavar="NAME", help="the variable that gets the AgentRun"),
    ),
    examples=(
        "%%mcp_agent --servers math",
        "add 3 and 4, then multiply the result by 5",
        "",
        "%%mcp_agent --model openai:gpt-5 --approve readonly --thread trip -o run",
        "Where is it warmer tomorrow, in London or in Tokyo?",
        "",
        "%%mcp_agent --with $orders --model openai:gpt-5",
        "Put the orders above 100 into the table of the shop.",
        "",
        "%%mcp_agent --code --model openai:gpt-5 --servers weather -o run",
        "Which of London, Moscow, Cairo and Tokyo gets the most rain in the coming week?",
    ),
    details="Each call goes through consent: rules (`%mcp allow`), then --approve or the setting; `plan` asks about "
    "all calls of a turn at once. Without a model "
    "the agent runs on `offline`, which needs no network. Threads are kept: --thread continues one, `%mcp agent "
    "--threads` lists them.",
    takes_body=True,
    left_over="The request goes below the line.",
)


# Stored threads.


async def _agent(invocation: Invocation, arguments: argparse.Namespace) -> Listing | Transcript | Text:
    from mcp_magic.agent import threads as history

    if arguments.name and not arguments.fork:
        raise CommandError("%mcp agent: --name goes with --fork THREAD@TURN.")
    note = ""
    async with history.open_threads(invocation.settings.threads or None, fall_back=False) as opened:
        if arguments.cell is not None:
            return await _cell(invocation, opened, arguments.cell)
        if arguments.show:
            return await _show_thread(invocation, opened, arguments.show)
        if arguments.fork:
            thread, turn = await _thread_and_turn(arguments.fork, opened)
            name = arguments.name or f"{thread}-fork"
            turns = await history.fork_thread(opened, thread, turn, name)
            note = f"{name!r} has {plural(turns, 'turns')} of {thread!r}; `%%mcp_agent --thread {name}` goes on with it"
        if arguments.delete:
            await history.delete_thread(opened, arguments.delete)
            note = f"{arguments.delete!r} is deleted"
        threads = await history.list_threads(opened)
    columns = ("thread", "last request", "requests", "turns", "changed")
    rows = [(t.thread, t.last, t.requests, t.turns, t.changed_at[:19].replace("T", " ")) for t in threads]
    return Listing(
        [dict(zip(columns, row, strict=True)) for row in rows],
        title=f"Threads in {opened.where}",
        empty="there are no threads yet: `%%mcp_agent` begins one",
        note=note,
        kind="threads",
    )


async def _show_thread(invocation: Invocation, saver: Any, thread: str) -> Transcript:
    from mcp_magic.agent import threads as history

    connections = invocation.host.find()
    tools = {f"{c.name}:{tool.name}": tool for c in connections for tool in c.catalog.cached("tools")}
    messages = await history.messages_of(saver, thread)
    transcript = Transcript.from_messages(messages, definitions=tools)
    transcript.on_event(NoteEvent(_turns(thread, messages)))
    return transcript


async def _cell(invocation: Invocation, saver: FallbackSaver, thread: str) -> Text:
    """Put the programs of a thread's last request into the next cell."""
    from mcp_magic.agent import threads as history
    from mcp_magic.agent.graph import cell_of

    if not thread:
        thread = next((info.thread for info in await history.list_threads(saver)), "")
    code = cell_of(await history.messages_of(saver, thread)) if thread else ""
    if not code:
        problem = f"the last request of {thread!r} has no program that ran" if thread else "there is no thread"
        raise CommandError(f"%mcp agent: --cell: {problem}; `%%mcp_agent --code` makes one.")
    invocation.shell.set_next_input(code)
    return Text(f"the program of {thread!r} is in the next cell")


def _turns(thread: str, messages: list[Any]) -> str:
    """Return the number of turns and the turn at which each request begins: the numbers that `--fork` takes."""
    from mcp_magic.agent.entries import is_turn

    begins, turn = [], 0
    for message in messages:
        if message.type == "human":
            begins.append(turn + 1)
        turn += is_turn(message)
    later = [f"request {number} begins with turn {first}" for number, first in enumerate(begins, 1) if number > 1]
    return f"{', '.join([plural(turn, 'turns'), *later[-5:]])}; `%mcp agent --fork {thread}@TURN` copies up to a turn"


async def _thread_and_turn(text: str, saver: Any) -> tuple[str, int | None]:
    """Return the thread and the turn of `THREAD@TURN`; a thread's name can contain an @, too."""
    from mcp_magic.agent.threads import list_threads

    thread, at, turn = text.rpartition("@")
    if not at or text in [info.thread for info in await list_threads(saver)]:
        return text, None
    if not turn.isdigit():
        raise CommandError(f"%mcp agent: --fork {text}: the turn is a number, for example {thread}@2.")
    return thread, int(turn)


AGENT = Implementation(
    _agent,
    (
        (
            Argument("--threads", action="store_true", help="list them (the default)"),
            Argument("--show", metavar="THREAD", complete=_complete_thread, help="show the messages of a thread"),
            Argument(
                "--fork",
                metavar="THREAD@TURN",
                complete=_complete_thread,
                help="copy a thread up to a turn; without @TURN all of it",
            ),
            Argument(
                "--cell",
                nargs="?",
                const="",
                metavar="THREAD",
                complete=_complete_thread,
                help="put the program of a thread's last request into the next cell (default: the latest thread)",
            ),
            Argument("--delete", metavar="THREAD", complete=_complete_thread, help="delete one"),
        ),
        Argument("--name", metavar="NAME", help="the name of the fork (default: THREAD-fork)"),
    ),
    examples=(
        "%mcp agent --threads",
        "%mcp agent --show trip",
        "%mcp agent --cell trip",
        "%mcp agent --fork trip@2 --name other",
    ),
    details="A turn is one answer of the model, with the results of its calls. `%mcp_agent --help` is about runs.",
)
