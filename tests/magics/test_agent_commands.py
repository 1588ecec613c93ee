"""Declared agents, `%mcp agent`, `%mcp tools --bound`, and Tab for them, through the magics."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.agent import threads
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.ipython.commands import AGENT
from mcp_magic.ipython.extension import MCPMagics, completer
from mcp_magic.notebook import host
from tests.support.bundled import load
from tests.support.threads_in import locked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADD = [("math:add", {"a": 1, "b": 2})]


class Notebook:
    """A shell with the magics, "math" and "weather" connected, threads in a file."""

    def __init__(self, folder: Path) -> None:
        self.shell = InteractiveShell()
        self.magics = MCPMagics(self.shell)
        self.file = folder / "threads.sqlite"
        self.magics.threads = str(self.file)
        self.magics.approval = "auto"

    async def mcp(self, line: str, cell: str | None = None) -> Any:
        return await self.magics.run(None, line, cell, {})

    async def agent(self, line: str, *turns: Any, request: str = "go", **names: Any) -> Any:
        """Run `%%mcp_agent LINE` on a model that plays turns; it is `$m`, and what `model = "$m"` declares."""
        self.model = ScriptedModel(list(turns) or ["done"])
        return await self.magics.run(AGENT, line, request, {"m": self.model, **names})

    def given(self, turn: int = 0) -> tuple[str, set[str]]:
        """Return the system message that the model was given and the names of the tools."""
        seen = self.model.seen[turn]
        system = seen.messages[0].text if seen.messages[0].type == "system" else ""
        return system, {tool["function"]["name"] for tool in seen.tools}

    def complete(self, code: str) -> list[str]:
        with provisionalcompleter():
            found = self.shell.Completer.completions(code, len(code))
            return [completion.text for completion in found if completion.type == "mcp"]


@pytest.fixture
async def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Notebook]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where another environment is activated
    threads.memory_threads.cache_clear()
    made = Notebook(tmp_path)
    made.shell.register_magics(made.magics)
    made.shell.Completer.custom_matchers.append(completer(made.shell, made.magics))
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("weather_server").server, name="weather")
    yield made
    host.consent.rules.clear()
    host.consent.audit.records.clear()
    await host.close()


def told(made: Any) -> str:
    """Return the transcript as text, whatever the width of the terminal."""
    return " ".join(str(made.transcript).split())


# Declared agents


DECLARED = """
[agents.analyst]
model = "$m"
servers = ["math"]
tools = ["math:a*", "math:p*"]
approve = "deny"
system = "Answer with numbers."
max_turns = 2
thread = "numbers"
show = "answer"
"""


async def test_a_declared_agent_runs_with_what_is_declared(notebook: Notebook) -> None:
    listing = await notebook.mcp("up", DECLARED)
    assert "agents declared: analyst" in str(listing)

    made = await notebook.agent("analyst", ADD, ADD, "never")

    system, tools = notebook.given()
    assert "Answer with numbers." in system
    assert tools == {"math__add", "math__power", "math__primes"}
    assert (made.thread, made.stopped, made.transcript.show) == ("numbers", "max_turns", "answer")
    assert "denied" in made.calls["error"][0]
    assert made.calls["approved by"][0] != ""
    assert [row["thread"] for row in await notebook.mcp("agent")] == ["numbers"]


async def test_options_on_the_line_win_over_the_declared_agent(notebook: Notebook) -> None:
    await notebook.mcp("up", DECLARED)
    line = (
        "analyst --servers math,weather --tools 'math:add, weather:*' --approve auto --system 'Be kind.' "
        "--max-turns 3 --thread other --show full"
    )

    made = await notebook.agent(line, ADD, ADD, "3")

    system, tools = notebook.given()
    assert "Be kind." in system
    assert "Answer with numbers." not in system
    assert "math__add" in tools
    assert {name.partition("__")[0] for name in tools} == {"math", "weather"}
    assert "math__power" not in tools
    assert (made.thread, made.stopped, made.answer, made.transcript.show) == ("other", "", "3", "full")
    assert list(made.calls["error"].fillna("")) == ["", ""]


async def test_a_variable_named_as_a_model_is_suggested(notebook: Notebook) -> None:
    with pytest.raises(errors.CommandError, match=r"there is no model 'm'\. Did you mean the variable: --model \$m\?"):
        await notebook.agent("--model m")


async def test_a_model_on_the_line_wins_over_the_declared_one(notebook: Notebook) -> None:
    await notebook.mcp("up", DECLARED)
    other = ScriptedModel(["from the other"])
    made = await notebook.agent("analyst --model $other", other=other)
    assert made.answer == "from the other"
    assert notebook.model.seen == []


async def test_without_an_agent_the_settings_hold(notebook: Notebook) -> None:
    notebook.magics.model = model = ScriptedModel([ADD, ADD])
    notebook.magics.max_turns = 1
    made = await notebook.agent("")
    assert made.stopped == "max_turns"
    assert {tool["function"]["name"].partition("__")[0] for tool in model.seen[0].tools} == {"math", "weather"}


async def test_a_prompt_of_a_server_is_the_system_prompt(notebook: Notebook) -> None:
    @host_server("guide").prompt()
    def manner() -> str:
        """How to answer."""
        return "Answer in one word."

    await host.connect(SERVERS["guide"], name="guide")
    await notebook.mcp("up", '[agents.brief]\nmodel = "$m"\nprompt = "guide:manner"\n')
    await notebook.agent("brief")
    assert "Answer in one word." in notebook.given()[0]
    await notebook.agent("brief --system 'Be long.'")
    assert "Answer in one word." not in notebook.given()[0]


async def test_a_prompt_that_cannot_be_one_of_an_agent_is_told(notebook: Notebook) -> None:
    await notebook.mcp("up", '[agents.a]\nmodel = "$m"\nprompt = "math:explain"\n[agents.b]\nprompt = "math:explan"\n')
    with pytest.raises(errors.CommandError) as caught:
        await notebook.agent("a")
    assert str(caught.value) == (
        "%%mcp_agent: the prompt 'math:explain' of the agent 'a' needs the argument 'topic'; "
        "only a prompt without required arguments can be an agent's."
    )
    with pytest.raises(errors.UnknownPromptError, match=r"math has no prompt 'explan'\. Did you mean 'explain'\?"):
        await notebook.agent("b --model $m")


async def test_a_server_that_a_declared_agent_needs_is_named(notebook: Notebook) -> None:
    await notebook.mcp("up", '[agents.a]\nmodel = "$m"\nservers = ["fs"]\n')
    with pytest.raises(errors.UnknownServerError) as caught:
        await notebook.agent("a")
    assert str(caught.value) == (
        "the agent 'a' needs the server 'fs', which is not connected; `%mcp up` connects what is declared. "
        "Connected: math, weather"
    )
    assert (await notebook.agent("a --servers math")).answer == "done"


async def test_names_that_are_unknown_are_told_with_the_nearest(notebook: Notebook) -> None:
    with pytest.raises(errors.CommandError) as caught:
        await notebook.agent("analyst")
    assert str(caught.value) == (
        "%%mcp_agent: no agent 'analyst'. [agents.NAME] in a declaration makes one; `%mcp up` reads it."
    )
    await notebook.mcp("up", DECLARED)
    with pytest.raises(errors.CommandError) as caught:
        await notebook.agent("analist")
    assert str(caught.value) == "%%mcp_agent: no agent 'analist'. Did you mean 'analyst'? Declared: analyst"
    with pytest.raises(errors.UnknownServerError, match=r"no server 'mth'\. Did you mean 'math'\?"):
        await notebook.agent("--model $m --servers mth")
    with pytest.raises(errors.CommandError, match=r"Did you mean '--thread'\?"):
        await notebook.agent("--thred x")
    with pytest.raises(errors.ConfigError, match="system"):
        await notebook.mcp("up", '[agents.a]\nsistem = "x"\n')


async def test_a_declaration_evaluates_no_code(notebook: Notebook, tmp_path: Path) -> None:
    code = "{open('witness', 'w')}"
    await notebook.mcp("up", f"[agents.a]\nmodel = {code!r}\n[agents.b]\nmodel = '$nothing'\n".replace("\\'", "'"))
    with pytest.raises(errors.MCPMagicError):
        await notebook.agent("a")
    assert not (tmp_path / "witness").exists()
    with pytest.raises(errors.CommandError, match=r"declared with model = '\$nothing'; there is no such variable"):
        await notebook.agent("b")


async def test_up_again_replaces_the_agents_of_the_same_declaration(notebook: Notebook, tmp_path: Path) -> None:
    file = tmp_path / "mcp_magic.toml"
    file.write_text('[agents.one]\nmodel = "$m"\n[agents.two]\nmodel = "$m"\n')
    await notebook.mcp("up")
    await notebook.mcp("up", '[agents.three]\nmodel = "$m"\n')
    file.write_text('[agents.two]\nmodel = "$m"\nthread = "second"\n[agents.four]\nmodel = "$m"\n')
    await notebook.mcp("up --dry-run")
    assert set(notebook.magics.state.agents) == {"one", "two", "three"}

    await notebook.mcp("up")

    assert set(notebook.magics.state.agents) == {"two", "three", "four"}
    assert (await notebook.agent("two")).thread == "second"
    with pytest.raises(errors.CommandError, match="no agent 'one'"):
        await notebook.agent("one")


# Bounds, many tools, large results, skills

ADD = [("math:add", {"a": 1, "b": 2})]


async def test_a_bound_on_the_line_ends_the_run_and_the_thread_goes_on(notebook: Notebook) -> None:
    call = {"name": "math__add", "args": {"a": 1, "b": 2}, "id": "a"}
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    turn = AIMessage("", tool_calls=[call], usage_metadata=usage)
    run = await notebook.agent("--model $m --thread sums --max-tokens 20", turn, "done")

    assert (run.stopped, run.usage["total_tokens"]) == ("max_tokens", 15)
    assert "Stopped after 15 of 20 tokens, before the work was done." in told(run)
    assert (await notebook.agent("--model $m --thread sums", "It is 3.")).answer == "It is 3."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--max-tokens 0", "%%mcp_agent: --max-tokens 0: at least 1."),
        ("--max-cost -1", "%%mcp_agent: --max-cost -1: at least 0."),
        ("--pin nothing", "no tool matches *:nothing; `%mcp tools` lists them"),
        ("--skills acme:x", "no skill matches acme:x; `%mcp skills` lists them"),
    ],
)
async def test_options_that_cannot_be_are_told(notebook: Notebook, line: str, words: str) -> None:
    with pytest.raises(errors.MCPMagicError) as error:
        await notebook.agent(f"--model $m {line}", "done")
    assert str(error.value) == words


async def test_settings_control_tool_search_and_result_parts(notebook: Notebook) -> None:
    notebook.magics.search_above, notebook.magics.spill = 1, 1

    run = await notebook.agent("--model $m --pin math:add", ADD, [("read_result", {"handle": "result_1"})], "done")

    assert {"search_tools", "math__add"} <= notebook.given()[1]
    assert "math__divide" not in notebook.given()[1]
    assert [called.name for called in run.transcript.calls] == ["math:add", "read_result"]


async def test_what_tools_cost_is_ranked(notebook: Notebook) -> None:
    rows = list(await notebook.mcp("tools --cost"))

    assert {row["name"] for row in rows[:2]} == {"math", "weather"}
    assert rows[0]["tokens"] >= rows[1]["tokens"]
    bound = {row["tool"]: row["tokens"] for row in await notebook.mcp("tools --bound")}
    assert {row["name"]: row["tokens"] for row in rows if row["what"] == "tool"} == bound
    assert all(row["name"].startswith("math") for row in await notebook.mcp("tools math --cost"))


# Programs

PROGRAM = [("run_program", {"code": "from math_server import add\ntotal = await add(a=1, b=2)\ntotal"})]


async def test_with_code_the_model_writes_programs_whose_values_stay(notebook: Notebook) -> None:
    pytest.importorskip("pydantic_monty")

    await notebook.agent("--model $m --code --thread sums -o run", PROGRAM, "done")

    run = notebook.shell.user_ns["run"]
    assert notebook.given()[1] == {"run_program"}
    assert (run.value, run.variables, run.code) == (3, {"total": 3}, PROGRAM[0][1]["code"])
    assert "ok math:add(a=1, b=2)" in told(run)


async def test_a_declared_agent_writes_programs(notebook: Notebook) -> None:
    pytest.importorskip("pydantic_monty")
    await notebook.mcp("up", DECLARED + "code = true\n")

    await notebook.agent("analyst")

    assert notebook.given()[1] == {"run_program"}


async def test_settings_bound_a_program(notebook: Notebook) -> None:
    pytest.importorskip("pydantic_monty")
    notebook.magics.program_calls, notebook.magics.program_characters = 1, 100
    code = "from math_server import add\nprint('x' * 500)\nawait add(a=1, b=2)\nawait add(a=3, b=4)"

    run = await notebook.agent("--model $m --code", [("run_program", {"code": code})], "done")

    assert "a program can make 1 call (setting program_calls)" in told(run)
    assert "[the first 100 of 500 characters]" in told(run)


async def test_thread_program_goes_into_next_cell_and_runs(notebook: Notebook) -> None:
    pytest.importorskip("pydantic_monty")
    cells: list[str] = []
    notebook.shell.set_next_input = cells.append
    await notebook.agent("--model $m --code --thread sums", PROGRAM, "done")

    for line in ("agent --cell", "agent --cell sums"):
        assert str(await notebook.mcp(line)) == "the program of 'sums' is in the next cell"

    assert cells[0] == cells[1]
    ran = await notebook.shell.run_cell_async(cells[0], transformed_cell=cells[0])
    assert ran.success
    assert (notebook.shell.user_ns["total"], ran.result) == (3, 3)


async def test_kernel_program_asks_and_uses_variables(notebook: Notebook) -> None:
    asked = []

    async def approve(request: Request) -> Decision:
        asked.append((request.program, request.tool))
        return Decision.approve()

    host.approver = approve
    notebook.shell.user_ns["numbers"] = [1, 2]
    code = "from math_server import add\ndoubled = await add(a=numbers[0], b=numbers[1])"
    try:
        await notebook.agent("--model $m --code --in kernel", [("run_program", {"code": code})], "done")
    finally:
        host.approver = None

    assert asked == [("kernel", "run_program")]  # the call in it is allowed by the setting, the program never is
    assert notebook.shell.user_ns["doubled"] == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("agent --cell", "there is no thread; `%%mcp_agent --code` makes one"),
        ("agent --cell trip", "no thread 'trip'"),
    ],
)
async def test_without_a_program_there_is_no_cell(notebook: Notebook, line: str, words: str) -> None:
    with pytest.raises(errors.MCPMagicError, match=words):
        await notebook.mcp(line)


async def test_in_goes_with_code(notebook: Notebook) -> None:
    with pytest.raises(errors.CommandError, match="--in kernel goes with --code"):
        await notebook.agent("--model $m --in kernel")


async def test_without_the_sandbox_the_error_says_what_to_install(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)

    with pytest.raises(errors.MissingDependencyError, match=r"pip install 'mcp-magic\[code\]'"):
        await notebook.agent("--model $m --code")


# %mcp agent


@pytest.fixture
async def trip(notebook: Notebook) -> Notebook:
    """A notebook with the thread `trip`: two requests, three turns."""
    await notebook.agent("--model $m --thread trip", ADD, "3", request="add 1 and 2")
    await notebook.agent("--model $m --thread trip", "6", request="double it")
    return notebook


async def test_threads_are_listed(trip: Notebook) -> None:
    for line in ("agent", "agent --threads"):
        listing = await trip.mcp(line)
        assert listing.title == f"Threads in {trip.file}"
        [row] = listing
        assert {**row, "changed": ""} == {
            "thread": "trip",
            "last request": "double it",
            "requests": 2,
            "turns": 3,
            "changed": "",
        }
    assert row["changed"].startswith("20")


async def test_a_thread_is_shown_with_its_calls_and_turns(trip: Notebook) -> None:
    shown = await trip.mcp("agent --show trip")
    text = str(shown)
    assert [called.name for called in shown.calls] == ["math:add"]
    assert shown.results[0].data == 3
    for part in ("add 1 and 2", "math:add", "double it", "6"):
        assert part in text
    assert "3 turns, request 2 begins with turn 3; `%mcp agent --fork trip@TURN` copies up to a turn" in text


async def test_a_thread_is_forked_and_gone_on_with(trip: Notebook) -> None:
    listing = await trip.mcp("agent --fork trip@2 --name other")
    assert [row["thread"] for row in listing] == ["other", "trip"]
    assert listing.note == "'other' has 2 turns of 'trip'; `%%mcp_agent --thread other` goes on with it"

    made = await trip.agent("--model $m --thread other", "9", request="triple it")

    assert [m.text for m in trip.model.seen[0].messages if m.type != "system"] == [
        "add 1 and 2",
        "",
        "3",
        "3",
        "triple it",
    ]
    assert made.answer == "9"
    turns = {row["thread"]: row["turns"] for row in await trip.mcp("agent --fork trip")}
    assert turns == {"trip": 3, "other": 3, "trip-fork": 3}


async def test_a_thread_is_deleted(trip: Notebook) -> None:
    listing = await trip.mcp("agent --delete trip")
    assert len(listing) == 0
    assert "'trip' is deleted" in str(listing)
    assert "there are no threads yet: `%%mcp_agent` begins one" in str(listing)


WRONG = {
    "a thread that is not there": (
        "--show trp",
        errors.ThreadError,
        "no thread 'trp'. Did you mean 'trip'? There are:",
    ),
    "to delete": ("--delete trp", errors.ThreadError, "no thread 'trp'. Did you mean 'trip'?"),
    "to fork": ("--fork trp@1", errors.ThreadError, "no thread 'trp'. Did you mean 'trip'?"),
    "a turn that is not there": ("--fork trip@9", errors.ThreadError, "has no turn 9; it has the turns 1 to 3"),
    "a turn that is no number": ("--fork trip@x", errors.CommandError, "the turn is a number, for example trip@2"),
    "a name without a fork": ("--name x", errors.CommandError, "--name goes with --fork THREAD@TURN"),
    "two things at once": ("--threads --delete trip", errors.CommandError, "not allowed with argument"),
}


@pytest.mark.parametrize(("line", "error", "words"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_is_told(trip: Notebook, line: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        await trip.mcp(f"agent {line}")
    assert words in str(caught.value)
    assert [row["thread"] for row in await trip.mcp("agent")] == ["trip"]


async def test_a_thread_whose_name_has_an_at_is_forked_whole(notebook: Notebook) -> None:
    await notebook.agent("--model $m --thread me@home", "hi")
    listing = await notebook.mcp("agent --fork me@home --name copy")
    assert [row["thread"] for row in listing] == ["copy", "me@home"]


async def test_locked_thread_file_fails_magic_but_only_warns_in_run(trip: Notebook) -> None:
    with locked(trip.file):
        with pytest.raises(errors.ThreadError) as caught:
            await trip.mcp("agent")
        made = await trip.agent("--model $m --thread trip", "alone")
    assert str(caught.value) == (
        f"threads cannot be kept in {trip.file}: another process has locked it; "
        "`%config MCPMagics.threads` names another file"
    )
    assert made.answer == "alone"
    assert f"{caught.value}. The thread is kept in memory." in told(made)


async def test_thread_failure_during_run_is_told(notebook: Notebook) -> None:
    async def meanwhile(messages: list[Any]) -> str:
        await Notebook.agent(notebook, "--model $m --thread trip", "theirs")
        return "mine"

    await notebook.agent("--model $m --thread trip", "first")
    made = await notebook.agent("--model $m --thread trip", meanwhile)
    note = "another kernel has gone on with the thread 'trip' meanwhile. The thread is kept in memory."
    assert made.answer == "mine"
    assert note in told(made)


# %mcp tools --bound


async def test_what_is_bound_is_what_the_model_is_given(notebook: Notebook) -> None:
    listing = await notebook.mcp("tools --bound")
    await notebook.agent("--model $m")
    given = {tool["function"]["name"]: tool for tool in notebook.model.seen[0].tools}

    assert {row["bound as"] for row in listing} == set(given)
    assert {row["tool"] for row in listing} == {row["tool"] for row in await notebook.mcp("tools")}
    for row in listing:
        sent = len(str(convert_to_openai_tool(given[row["bound as"]])))
        assert row["tokens"] == -(-row["characters"] // 4)
        assert 0.8 < row["characters"] / sent < 1.25
    total = sum(row["tokens"] for row in listing)
    assert listing.note.startswith(f"{len(given)} tools, about {total:,} tokens at each turn of the model")


async def test_what_is_bound_is_searched_and_of_one_server(notebook: Notebook) -> None:
    listing = await notebook.mcp("tools math --bound --search PRIME")
    assert [row["bound as"] for row in listing] == ["math__primes"]
    assert listing.note.startswith("1 tool, about ")
    assert "no tools with 'zzz' in what a model is given" in str(await notebook.mcp("tools --bound --search zzz"))
    with pytest.raises(errors.UnknownServerError, match="Did you mean 'math'"):
        await notebook.mcp("tools mth --bound")
    await host.close()
    assert "no server is connected" in str(await notebook.mcp("tools --bound"))


# Tools for apps only


def charts() -> MCPServer:
    """A server with a tool that says nothing of itself, and one for its own app alone."""
    server = MCPServer("charts", log_level="ERROR")

    @server.tool()
    def draw(kind: str) -> str:
        """Draw a chart."""
        return kind

    @server.tool(meta={"ui": {"resourceUri": "ui://charts/view", "visibility": ["app"]}})
    def redraw() -> str:
        """Draw it again at another size."""
        return "again"

    return server


async def test_tools_are_marked_without_hints_and_for_apps_only(notebook: Notebook) -> None:
    await host.connect(charts(), name="charts")

    hints = {row["tool"]: [str(badge) for badge in row["hints"]] for row in await notebook.mcp("tools charts")}
    assert hints == {"charts:draw": ["[no hints]"], "charts:redraw": ["[app only]", "[no hints]"]}
    assert "charts:redraw\n[app only] [no hints]\n" in str(await notebook.mcp("tool charts:redraw"))
    documentation = str(await notebook.mcp("docs charts"))
    assert "*no hints*\n" in documentation
    assert "*app only, no hints*\n" in documentation


async def test_no_model_is_given_a_tool_for_apps_only(notebook: Notebook) -> None:
    await host.connect(charts(), name="charts")

    listing = await notebook.mcp("tools charts --bound")
    assert [row["tool"] for row in listing] == ["charts:draw"]
    assert listing.note.endswith("; for apps only, and not given: charts:redraw")
    run = await notebook.agent("--model $m --servers charts", [("charts__redraw", {})], "done")
    assert notebook.given()[1] == {"charts__draw"}
    assert (
        run.calls["error"][0] == "there is no tool 'charts:redraw'. Did you mean 'charts:draw'? There are: charts:draw"
    )
    assert "charts__" not in str(run)
    said = r"no tool matches charts:redraw \(charts:redraw: for apps only, not for models\)"
    with pytest.raises(errors.UnknownToolError, match=said):
        await notebook.agent("--model $m --tools charts:redraw")
    assert (await notebook.mcp("call charts:redraw")).text == "again", "you are no model"


# Tab


OFFERED = {
    "an option of the agent": ("%%mcp_agent --max", ["--max-turns", "--max-tokens", "--max-cost"]),
    "an option after an agent": ("%%mcp_agent analyst --sh", ["--show"]),
    "an option that was used": ("%%mcp_agent --thread x --thr", []),
    "a declared agent": ("%%mcp_agent ", ["analyst", "brief"]),
    "a declared agent begun": ("%%mcp_agent ana", ["analyst"]),
    "no second agent": ("%%mcp_agent analyst ", []),
    "an agent after an option": ("%%mcp_agent --thread x b", ["brief"]),
    "a server": ("%%mcp_agent --servers ma", ["math"]),
    "a further server": ("%%mcp_agent --servers math,", ["math,weather"]),
    "the tools of a server": ("%%mcp_agent --tools wea", ["weather:*"]),
    "a tool": ("%%mcp_agent --tools 'math:po", ["'math:power"]),
    "a further tool": ("%%mcp_agent --tools math:add,math:po", ["math:add,math:power"]),
    "a policy": ("%%mcp_agent --approve re", ["readonly"]),
    "what is shown": ("%%mcp_agent --show ", ["full", "answer", "none"]),
    "a model": ("%%mcp_agent --model ", ["offline", "$scripted"]),
    "a thread": ("%%mcp_agent --thread tr", ["trip"]),
    "nothing in the request": ("%%mcp_agent --thread trip\nwhat is --th", []),
    "the subcommand": ("%mcp ag", ["agent"]),
    "an option of the subcommand": ("%mcp agent --th", ["--threads"]),
    "a thread to show": ("%mcp agent --show ", ["trip", "old"]),
    "a thread to fork": ("%mcp agent --fork t", ["trip"]),
    "a thread to delete": ("%mcp agent --delete o", ["old"]),
    "an option of bound tools": ("%mcp tools --bo", ["--bound"]),
}


@pytest.fixture
async def tab(notebook: Notebook) -> Notebook:
    """A notebook in which there is something of everything to complete."""
    await notebook.mcp("up", '[agents.analyst]\nmodel = "$m"\n[agents.brief]\nmodel = "$m"\n')
    await notebook.agent("--model $m --thread old")
    await notebook.agent("--model $m --thread trip")
    notebook.shell.user_ns.update(scripted=ScriptedModel([]), number=3)
    return notebook


async def test_tab_offers_what_may_stand_there(tab: Notebook) -> None:
    wrong = {}
    for name, (code, expected) in OFFERED.items():
        offered = tab.complete(code)
        if (offered[:1] if name == "the tools of a server" else offered) != expected:
            wrong[name] = (code, offered, expected)
    assert wrong == {}


@pytest.mark.timed
async def test_tab_does_not_wait_for_a_file_that_is_locked(tab: Notebook) -> None:
    assert tab.complete("%mcp agent --show t") == ["trip"]
    with locked(tab.file):
        started = time.perf_counter()
        tab.complete("%mcp agent --show t")
        assert time.perf_counter() - started < 0.5


SERVERS: dict[str, Any] = {}


def host_server(name: str) -> Any:
    """Make a server of this test."""
    from mcp.server.mcpserver import MCPServer

    SERVERS[name] = MCPServer(name, log_level="ERROR")
    return SERVERS[name]


# Maps.


async def test_map_gives_the_model_a_tool_over_the_named_tables(notebook: Notebook) -> None:
    call = {"tool": "math__add", "table": "pairs", "arguments": {"a": "{x}", "b": 1}}
    pairs = [{"x": 1}, {"x": 2}]
    run = await notebook.agent("--model $m --map $pairs", [("map", call)], "done", pairs=pairs)
    assert "map" in notebook.given()[1]
    assert run.results[0].df["result"].tolist() == [2, 3]
    await notebook.agent("--model $m --map", "done")
    assert "map" in notebook.given()[1]
    await notebook.agent("--model $m", "done")
    assert "map" not in notebook.given()[1]
    with pytest.raises(errors.CommandError, match=r"--map planner: variables are meant: --map \$cities,\$orders"):
        await notebook.agent("--model $m --map planner", "done")
