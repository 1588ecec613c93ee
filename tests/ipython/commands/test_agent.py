"""`%%mcp_agent` with declared agents, programs and maps, `%mcp agent`, `%mcp tools --bound`, and Tab for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.completer import provisionalcompleter
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.agent import threads
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.consent.consent import Decision
from mcp_magic.ipython.commands import AGENT
from mcp_magic.ipython.extension import completer
from mcp_magic.notebook import host
from tests.support.bundled import load
from tests.support.magic import Magic
from tests.support.persons import Approver
from tests.support.threads_in import locked

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

ADD = [("math:add", {"a": 1, "b": 2})]


class Notebook(Magic):
    """A shell with the magics and threads in a file."""

    def __init__(self, shell: InteractiveShell, folder: Path) -> None:
        super().__init__(shell, folder)
        self.shell = shell
        self.file = folder / "threads.sqlite"
        self.settings.threads = str(self.file)
        self.settings.approval = "auto"

    async def agent(self, line: str, *turns: Any, request: str = "go", **names: Any) -> Any:
        """Run `%%mcp_agent LINE` on a model that plays turns; it is `$m`, and what `model = "$m"` declares."""
        self.model = ScriptedModel(list(turns) or ["done"])
        return await self.settings.run(AGENT, line, request, {"m": self.model, **names})

    async def agent_error(self, kind: type[Exception], line: str, *turns: Any, **names: Any) -> str:
        with pytest.raises(kind) as caught:
            await self.agent(line, *turns, **names)
        return str(caught.value)

    def given(self, turn: int = 0) -> tuple[str, set[str]]:
        """Return the system message that the model was given and the names of the tools."""
        seen = self.model.seen[turn]
        system = seen.messages[0].text if seen.messages[0].type == "system" else ""
        return system, {tool["function"]["name"] for tool in seen.tools}

    def complete(self, code: str) -> list[str]:
        with provisionalcompleter():
            offered = self.shell.Completer.completions(code, len(code))
            return [completion.text for completion in offered if completion.type == "mcp"]


@pytest.fixture
async def notebook(magic, shell, tmp_path):
    """A notebook with "math" and "weather" connected."""
    threads.memory_threads.cache_clear()
    made = Notebook(shell, tmp_path)
    shell.register_magics(made.settings)
    await host.connect(load("weather_server").server, name="weather")
    return made


def told(run: Any) -> str:
    """Return the transcript as text, whatever the width of the terminal."""
    return " ".join(str(run.transcript).split())


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


async def test_declared_agent_runs_as_declared_unless_the_line_wins(notebook):
    assert "agents declared: analyst" in str(await notebook("up", DECLARED))
    run = await notebook.agent("analyst", ADD, ADD, "never")
    system, tools = notebook.given()
    assert "Answer with numbers." in system
    assert tools == {"math__add", "math__power", "math__primes"}
    assert (run.thread, run.stopped, run.transcript.show) == ("numbers", "max_turns", "answer")
    assert "denied" in run.calls["error"][0]
    assert run.calls["approved by"][0] != ""
    assert [row["thread"] for row in await notebook("agent")] == ["numbers"]
    line = (
        "analyst --servers math,weather --tools 'math:add, weather:*' --approve auto --system 'Be kind.' "
        "--max-turns 3 --thread other --show full"
    )
    run = await notebook.agent(line, ADD, ADD, "3")
    system, tools = notebook.given()
    assert "Be kind." in system
    assert "Answer with numbers." not in system
    assert "math__add" in tools
    assert {name.partition("__")[0] for name in tools} == {"math", "weather"}
    assert "math__power" not in tools
    assert (run.thread, run.stopped, run.answer, run.transcript.show) == ("other", "", "3", "full")
    assert list(run.calls["error"].fillna("")) == ["", ""]
    run = await notebook.agent("analyst --model $other", other=ScriptedModel(["from the other"]))
    assert run.answer == "from the other"
    assert notebook.model.seen == []


async def test_without_an_agent_the_settings_hold(notebook):
    notebook.settings.model = model = ScriptedModel([ADD, ADD])
    notebook.settings.max_turns = 1
    assert (await notebook.agent("")).stopped == "max_turns"
    assert {tool["function"]["name"].partition("__")[0] for tool in model.seen[0].tools} == {"math", "weather"}


async def test_prompt_of_a_server_is_the_system_prompt(notebook):
    server = MCPServer("guide", log_level="ERROR")

    @server.prompt()
    def manner() -> str:
        """How to answer."""
        return "Answer in one word."

    await host.connect(server, name="guide")
    prompts = {"brief": "guide:manner", "a": "math:explain", "b": "math:explan"}
    declared = [f'[agents.{name}]\nmodel = "$m"\nprompt = "{prompt}"\n' for name, prompt in prompts.items()]
    await notebook("up", "".join(declared))
    await notebook.agent("brief")
    assert "Answer in one word." in notebook.given()[0]
    await notebook.agent("brief --system 'Be long.'")
    assert "Answer in one word." not in notebook.given()[0]
    assert await notebook.agent_error(errors.CommandError, "a") == (
        "%%mcp_agent: the prompt 'math:explain' of the agent 'a' needs the argument 'topic'; "
        "only a prompt without required arguments can be an agent's."
    )
    error = await notebook.agent_error(errors.UnknownPromptError, "b --model $m")
    assert "math has no prompt 'explan'. Did you mean 'explain'?" in error


async def test_names_that_are_unknown_are_told_with_the_nearest(notebook):
    assert await notebook.agent_error(errors.CommandError, "analyst") == (
        "%%mcp_agent: no agent 'analyst'. [agents.NAME] in a declaration makes one; `%mcp up` reads it."
    )
    await notebook("up", DECLARED)
    for kind, line, says in (
        (errors.CommandError, "analist", "%%mcp_agent: no agent 'analist'. Did you mean 'analyst'? Declared: analyst"),
        (errors.CommandError, "--model m", "there is no model 'm'. Did you mean the variable: --model $m?"),
        (errors.UnknownServerError, "--model $m --servers mth", "no server 'mth'. Did you mean 'math'?"),
        (errors.CommandError, "--thred x", "Did you mean '--thread'?"),
    ):
        assert says in await notebook.agent_error(kind, line)
    assert "system" in await notebook.error(errors.ConfigError, "up", '[agents.a]\nsistem = "x"\n')
    await notebook("up", '[agents.a]\nmodel = "$m"\nservers = ["fs"]\n')
    assert await notebook.agent_error(errors.UnknownServerError, "a") == (
        "the agent 'a' needs the server 'fs', which is not connected; `%mcp up` connects what is declared. "
        "Connected: math, weather"
    )
    assert (await notebook.agent("a --servers math")).answer == "done"


async def test_declaration_evaluates_no_code(notebook):
    code = "{open('witness', 'w')}"
    await notebook("up", f"[agents.a]\nmodel = {code!r}\n[agents.b]\nmodel = '$nothing'\n".replace("\\'", "'"))
    await notebook.agent_error(errors.MCPMagicError, "a")
    assert not (notebook.folder / "witness").exists()
    error = await notebook.agent_error(errors.CommandError, "b")
    assert "declared with model = '$nothing'; there is no such variable" in error


async def test_up_again_replaces_the_agents_of_its_declaration(notebook):
    file = notebook.folder / "mcp_magic.toml"
    file.write_text('[agents.one]\nmodel = "$m"\n[agents.two]\nmodel = "$m"\n')
    await notebook("up")
    await notebook("up", '[agents.three]\nmodel = "$m"\n')
    file.write_text('[agents.two]\nmodel = "$m"\nthread = "second"\n[agents.four]\nmodel = "$m"\n')
    await notebook("up --dry-run")
    assert set(notebook.settings.state.agents) == {"one", "two", "three"}
    await notebook("up")
    assert set(notebook.settings.state.agents) == {"two", "three", "four"}
    assert (await notebook.agent("two")).thread == "second"
    assert "no agent 'one'" in await notebook.agent_error(errors.CommandError, "one")


# Bounds, many tools, large results, skills, maps


async def test_bound_on_the_line_ends_the_run_and_the_thread_goes_on(notebook):
    call = {"name": "math__add", "args": {"a": 1, "b": 2}, "id": "a"}
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    turn = AIMessage("", tool_calls=[call], usage_metadata=usage)
    run = await notebook.agent("--model $m --thread sums --max-tokens 20", turn, "done")
    assert (run.stopped, run.usage["total_tokens"]) == ("max_tokens", 15)
    assert "Stopped after 15 of 20 tokens, before the work was done." in told(run)
    assert (await notebook.agent("--model $m --thread sums", "It is 3.")).answer == "It is 3."
    for line, says in (
        ("--max-tokens 0", "%%mcp_agent: --max-tokens 0: at least 1."),
        ("--max-cost -1", "%%mcp_agent: --max-cost -1: at least 0."),
        ("--pin nothing", "no tool matches *:nothing; `%mcp tools` lists them"),
        ("--skills acme:x", "no skill matches acme:x; `%mcp skills` lists them"),
    ):
        assert await notebook.agent_error(errors.MCPMagicError, f"--model $m {line}") == says


async def test_settings_control_tool_search_and_result_parts(notebook):
    notebook.settings.search_above, notebook.settings.spill = 1, 1
    run = await notebook.agent("--model $m --pin math:add", ADD, [("read_result", {"handle": "result_1"})], "done")
    assert {"search_tools", "math__add"} <= notebook.given()[1]
    assert "math__divide" not in notebook.given()[1]
    assert [called.name for called in run.transcript.calls] == ["math:add", "read_result"]


async def test_map_gives_the_model_a_tool_over_the_named_tables(notebook):
    call = {"tool": "math__add", "table": "pairs", "arguments": {"a": "{x}", "b": 1}}
    pairs = [{"x": 1}, {"x": 2}]
    run = await notebook.agent("--model $m --map $pairs", [("map", call)], "done", pairs=pairs)
    assert "map" in notebook.given()[1]
    assert run.results[0].df["result"].tolist() == [2, 3]
    await notebook.agent("--model $m --map", "done")
    assert "map" in notebook.given()[1]
    await notebook.agent("--model $m", "done")
    assert "map" not in notebook.given()[1]
    error = await notebook.agent_error(errors.CommandError, "--model $m --map planner")
    assert "--map planner: variables are meant: --map $cities,$orders" in error


async def test_with_lets_the_model_read_the_named_values(notebook):
    read = [("read_value", {"name": "pairs"}), ("list_values", {})]
    run = await notebook.agent("--model $m --with $pairs --with $n,$text", read, "done", pairs=[{"x": 1}], n=3, text="")
    assert [called.name for called in run.transcript.calls] == ["read_value", "list_values"]
    assert "[rows 0 to 0 of 1] x 1" in told(run)
    assert {"read_value", "list_values", "describe_value"} <= notebook.given()[1]
    await notebook.agent("--model $m", "done")
    assert "read_value" not in notebook.given()[1]
    error = await notebook.agent_error(errors.CommandError, "--model $m --with pairs", pairs=[])
    assert "--with pairs: variables are meant: --with $pairs" in error
    error = await notebook.agent_error(errors.CommandError, "--model $m --with $pairs.x", pairs=[])
    assert "--with $pairs.x: variables are meant: --with $pairs" in error
    error = await notebook.agent_error(errors.CommandError, "--model $m --with other")
    assert "--with other: variables are meant: --with $df,$results" in error
    error = await notebook.agent_error(errors.ArgumentsError, "--model $m --with $pairss", pairs=[])
    left = await notebook.agent_error(errors.CommandError, "--model $m --with $n, $pairs", pairs=[], n=1)
    assert left == "%%mcp_agent: $pairs is left over; several variables are one word: --with $df,$results"
    assert error == "cannot evaluate 'pairss': NameError: name 'pairss' is not defined. Did you mean '$pairs'?"
    error = await notebook.agent_error(errors.ArgumentsError, "--model $m --with $sys", sys=sys)
    assert "'sys' is a module; an agent reads only data" in error


# Programs

PROGRAM = [("run_program", {"code": "from math_server import add\ntotal = await add(a=1, b=2)\ntotal"})]


async def test_with_code_the_model_writes_programs_whose_values_stay(notebook, monkeypatch):
    pytest.importorskip("pydantic_monty")
    cells: list[str] = []
    monkeypatch.setattr(notebook.shell, "set_next_input", cells.append)
    await notebook.agent("--model $m --code --thread sums -o run", PROGRAM, "done")
    run = notebook.shell.user_ns["run"]
    assert notebook.given()[1] == {"run_program"}
    assert (run.value, run.variables, run.code) == (3, {"total": 3}, PROGRAM[0][1]["code"])
    assert "ok math:add(a=1, b=2)" in told(run)
    for line in ("agent --cell", "agent --cell sums"):
        assert str(await notebook(line)) == "the program of 'sums' is in the next cell"
    assert cells[0] == cells[1]
    ran = await notebook.shell.run_cell_async(cells[0], transformed_cell=cells[0])
    assert ran.success
    assert (notebook.shell.user_ns["total"], ran.result) == (3, 3)
    await notebook("up", DECLARED + "code = true\n")
    await notebook.agent("analyst")
    assert notebook.given()[1] == {"run_program"}


async def test_settings_bound_a_program(notebook):
    pytest.importorskip("pydantic_monty")
    notebook.settings.program_calls, notebook.settings.program_characters = 1, 100
    code = "from math_server import add\nprint('x' * 500)\nawait add(a=1, b=2)\nawait add(a=3, b=4)"
    run = await notebook.agent("--model $m --code", [("run_program", {"code": code})], "done")
    assert "a program can make 1 call (setting program_calls)" in told(run)
    assert "[the first 100 of 500 characters]" in told(run)


async def test_kernel_program_asks_and_uses_variables(notebook, monkeypatch):
    approver = Approver(Decision.approve())
    monkeypatch.setattr(host, "approver", approver)
    notebook.shell.user_ns["numbers"] = [1, 2]
    code = "from math_server import add\ndoubled = await add(a=numbers[0], b=numbers[1])"
    await notebook.agent("--model $m --code --in kernel", [("run_program", {"code": code})], "done")
    # the call in it is allowed by the setting, the program never is
    assert [(request.program, request.tool) for request in approver.asked] == [("kernel", "run_program")]
    assert notebook.shell.user_ns["doubled"] == 3


async def test_programs_that_cannot_be_are_told(notebook, monkeypatch):
    error = await notebook.error(errors.MCPMagicError, "agent --cell")
    assert "there is no thread; `%%mcp_agent --code` makes one" in error
    assert "no thread 'trip'" in await notebook.error(errors.MCPMagicError, "agent --cell trip")
    assert "--in kernel goes with --code" in await notebook.agent_error(errors.CommandError, "--model $m --in kernel")
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    error = await notebook.agent_error(errors.MissingDependencyError, "--model $m --code")
    assert "pip install 'mcp-magic[code]'" in error


# %mcp agent


@pytest.fixture
async def trip(notebook):
    """A notebook with the thread `trip`: two requests, three turns."""
    await notebook.agent("--model $m --thread trip", ADD, "3", request="add 1 and 2")
    await notebook.agent("--model $m --thread trip", "6", request="double it")
    return notebook


async def test_threads_are_listed_and_shown(trip):
    for line in ("agent", "agent --threads"):
        listing = await trip(line)
        assert listing.title == f"Threads in {trip.file}"
        [row] = listing
        changed = row.pop("changed")
        assert row == {"thread": "trip", "last request": "double it", "requests": 2, "turns": 3}
        assert changed.startswith("20")
    shown = await trip("agent --show trip")
    assert [called.name for called in shown.calls] == ["math:add"]
    assert shown.results[0].data == 3
    for part in ("add 1 and 2", "math:add", "double it", "6"):
        assert part in str(shown)
    assert "3 turns, request 2 begins with turn 3; `%mcp agent --fork trip@TURN` copies up to a turn" in str(shown)


async def test_thread_is_forked_gone_on_with_and_deleted(trip):
    listing = await trip("agent --fork trip@2 --name other")
    assert [row["thread"] for row in listing] == ["other", "trip"]
    assert listing.note == "'other' has 2 turns of 'trip'; `%%mcp_agent --thread other` goes on with it"
    run = await trip.agent("--model $m --thread other", "9", request="triple it")
    texts = [message.text for message in trip.model.seen[0].messages if message.type != "system"]
    assert texts == ["add 1 and 2", "", "3", "3", "triple it"]
    assert run.answer == "9"
    turns = {row["thread"]: row["turns"] for row in await trip("agent --fork trip")}
    assert turns == {"trip": 3, "other": 3, "trip-fork": 3}
    await trip.agent("--model $m --thread me@home", "hi")
    listing = await trip("agent --fork me@home --name copy")
    assert {row["thread"] for row in listing} == {"copy", "me@home", *turns}, "a name with an @ is forked whole"
    for thread in ("copy", "me@home", "other", "trip-fork"):
        await trip(f"agent --delete {thread}")
    listing = await trip("agent --delete trip")
    assert len(listing) == 0
    assert "'trip' is deleted" in str(listing)
    assert "there are no threads yet: `%%mcp_agent` begins one" in str(listing)


async def test_wrong_threads_and_turns_are_told(trip):
    for line, kind, says in (
        ("--show trp", errors.ThreadError, "no thread 'trp'. Did you mean 'trip'? There are:"),
        ("--delete trp", errors.ThreadError, "no thread 'trp'. Did you mean 'trip'?"),
        ("--fork trp@1", errors.ThreadError, "no thread 'trp'. Did you mean 'trip'?"),
        ("--fork trip@9", errors.ThreadError, "has no turn 9; it has the turns 1 to 3"),
        ("--fork trip@x", errors.CommandError, "the turn is a number, for example trip@2"),
        ("--name x", errors.CommandError, "--name goes with --fork THREAD@TURN"),
        ("--threads --delete trip", errors.CommandError, "not allowed with argument"),
    ):
        assert says in await trip.error(kind, f"agent {line}")
    assert [row["thread"] for row in await trip("agent")] == ["trip"]


async def test_locked_thread_file_fails_magic_but_only_warns_in_run(trip, monkeypatch):
    monkeypatch.setattr("mcp_magic.agent.sqlite.LOCKED_SECONDS", 0.2)
    with locked(trip.file):
        error = await trip.error(errors.ThreadError, "agent")
        run = await trip.agent("--model $m --thread trip", "alone")
    assert error == (
        f"threads cannot be kept in {trip.file}: another process has locked it; "
        "`%config MCPMagics.threads` names another file"
    )
    assert run.answer == "alone"
    assert f"{error}. The thread is kept in memory." in told(run)


async def test_thread_failure_during_run_is_told(trip):
    async def meanwhile(messages: list[Any]) -> str:
        await trip.agent("--model $m --thread trip", "theirs")
        return "mine"

    run = await trip.agent("--model $m --thread trip", meanwhile)
    note = "another kernel has gone on with the thread 'trip' meanwhile. The thread is kept in memory."
    assert run.answer == "mine"
    assert note in told(run)


# %mcp tools --bound and --cost


async def test_bound_tools_are_those_that_the_model_is_given(notebook):
    listing = await notebook("tools --bound")
    await notebook.agent("--model $m")
    bound_tools = {tool["function"]["name"]: tool for tool in notebook.model.seen[0].tools}
    assert {row["bound as"] for row in listing} == set(bound_tools)
    assert {row["tool"] for row in listing} == {row["tool"] for row in await notebook("tools")}
    for row in listing:
        sent = len(str(convert_to_openai_tool(bound_tools[row["bound as"]])))
        assert row["tokens"] == -(-row["characters"] // 4)
        assert 0.8 < row["characters"] / sent < 1.25
    total = sum(row["tokens"] for row in listing)
    assert listing.note.startswith(f"{len(bound_tools)} tools, about {total:,} tokens at each turn of the model")
    rows = list(await notebook("tools --cost"))
    assert {row["name"] for row in rows[:2]} == {"math", "weather"}
    assert rows[0]["tokens"] >= rows[1]["tokens"]
    bound = {row["tool"]: row["tokens"] for row in listing}
    assert {row["name"]: row["tokens"] for row in rows if row["what"] == "tool"} == bound
    assert all(row["name"].startswith("math") for row in await notebook("tools math --cost"))
    listing = await notebook("tools math --bound --search PRIME")
    assert [row["bound as"] for row in listing] == ["math__primes"]
    assert listing.note.startswith("1 tool, about ")
    assert "no tools with 'zzz' in what a model is given" in str(await notebook("tools --bound --search zzz"))
    assert "Did you mean 'math'" in await notebook.error(errors.UnknownServerError, "tools mth --bound")
    await host.close()
    assert "no server is connected" in str(await notebook("tools --bound"))


async def test_tools_for_apps_only_are_marked_and_given_to_no_model(notebook):
    server = MCPServer("charts", log_level="ERROR")

    @server.tool()
    def draw(kind: str) -> str:
        """Draw a chart."""
        return kind

    @server.tool(meta={"ui": {"resourceUri": "ui://charts/view", "visibility": ["app"]}})
    def redraw() -> str:
        """Draw it again at another size."""
        return "again"

    await host.connect(server, name="charts")
    hints = {row["tool"]: [str(badge) for badge in row["hints"]] for row in await notebook("tools charts")}
    assert hints == {"charts:draw": ["[no hints]"], "charts:redraw": ["[app only]", "[no hints]"]}
    assert "charts:redraw\n[app only] [no hints]\n" in str(await notebook("tool charts:redraw"))
    documentation = str(await notebook("docs charts"))
    assert "*no hints*\n" in documentation
    assert "*app only, no hints*\n" in documentation

    listing = await notebook("tools charts --bound")
    assert [row["tool"] for row in listing] == ["charts:draw"]
    assert listing.note.endswith("; for apps only, and not given: charts:redraw")
    run = await notebook.agent("--model $m --servers charts", [("charts__redraw", {})], "done")
    assert notebook.given()[1] == {"charts__draw"}
    there = "there is no tool 'charts:redraw'. Did you mean 'charts:draw'? There are: charts:draw"
    assert run.calls["error"][0] == there
    assert "charts__" not in str(run)
    error = await notebook.agent_error(errors.UnknownToolError, "--model $m --tools charts:redraw")
    assert "no tool matches charts:redraw (charts:redraw: for apps only, not for models)" in error
    assert (await notebook("call charts:redraw")).text == "again", "you are no model"


# Tab

OFFERED = {
    "%%mcp_agent --max": ["--max-turns", "--max-tokens", "--max-cost"],
    "%%mcp_agent analyst --sh": ["--show"],
    "%%mcp_agent --thread x --thr": [],
    "%%mcp_agent ": ["analyst", "brief"],
    "%%mcp_agent ana": ["analyst"],
    "%%mcp_agent analyst ": [],
    "%%mcp_agent --thread x b": ["brief"],
    "%%mcp_agent --servers ma": ["math"],
    "%%mcp_agent --servers math,": ["math,weather"],
    "%%mcp_agent --tools wea": ["weather:*"],
    "%%mcp_agent --tools 'math:po": ["'math:power"],
    "%%mcp_agent --tools math:add,math:po": ["math:add,math:power"],
    "%%mcp_agent --approve re": ["readonly"],
    "%%mcp_agent --show ": ["full", "answer", "none"],
    "%%mcp_agent --model ": ["offline", "$scripted"],
    "%%mcp_agent --with $num": ["$number"],
    "%%mcp_agent --with $number,": ["$number,$sold"],
    "%%mcp_agent --with $number,$s": ["$number,$sold"],
    "%%mcp_agent --map $so": ["$sold"],
    "%%mcp_agent --thread tr": ["trip"],
    "%%mcp_agent --thread trip\nwhat is --th": [],
    "%mcp ag": ["agent"],
    "%mcp agent --th": ["--threads"],
    "%mcp agent --show ": ["trip", "old"],
    "%mcp agent --fork t": ["trip"],
    "%mcp agent --delete o": ["old"],
    "%mcp tools --bo": ["--bound"],
}


@pytest.fixture
async def tab(notebook):
    """A notebook in which there is something of everything to complete."""
    await notebook("up", '[agents.analyst]\nmodel = "$m"\n[agents.brief]\nmodel = "$m"\n')
    await notebook.agent("--model $m --thread old")
    await notebook.agent("--model $m --thread trip")
    notebook.shell.user_ns.update(scripted=ScriptedModel([]), number=3, sold=[1])
    return notebook


@pytest.fixture
def matching(shell, notebook, monkeypatch):
    monkeypatch.setattr(shell.Completer, "use_jedi", False)  # it is slow, and what it offers is not looked at
    before = list(shell.Completer.custom_matchers)
    shell.Completer.custom_matchers.append(completer(shell, notebook.settings))
    yield
    shell.Completer.custom_matchers[:] = before


@pytest.mark.usefixtures("matching")
async def test_tab_offers_values_that_are_valid_at_the_cursor(tab):
    offered = {code: tab.complete(code) for code in OFFERED}
    assert offered.pop("%%mcp_agent --tools wea")[0] == "weather:*"
    assert offered == {code: texts for code, texts in OFFERED.items() if code in offered}


@pytest.mark.usefixtures("matching")
async def test_tab_does_not_wait_for_a_file_that_is_locked(tab, monkeypatch):
    monkeypatch.setattr("mcp_magic.agent.sqlite.LOCKED_SECONDS", 600.0)
    assert tab.complete("%mcp agent --show t") == ["trip"]
    with locked(tab.file):
        tab.complete("%mcp agent --show t")


async def test_a_model_reads_the_surface_of_a_variable(notebook):
    surface = await host.surface("math")
    surface["add"].description = "Sums up."
    surface.rename("add", "plus")
    plus = [("math:plus", {"a": 1, "b": 2})]
    run = await notebook.agent("--model $m --servers math --surface $surface", plus, "ok", surface=surface)
    assert "math__plus" in notebook.given()[1]
    assert "math__add" not in notebook.given()[1]
    assert run.results[0].data == 3
    assert "The model reads a variant of the tools of math: add has the name 'plus'" in str(run.transcript)
    text = await notebook.agent_error(errors.CommandError, "--model $m --surface surface", surface=surface)
    assert text == "%%mcp_agent: --surface surface: variables are meant: --surface $surface"
    text = await notebook.agent_error(errors.ArgumentsError, "--model $m --surface $m")
    assert text.startswith("expected a surface, as `await host.surface(...)` returns it, got ScriptedModel(")
