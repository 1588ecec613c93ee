"""`%%mcp_agent` in a real kernel: what a cell shows while it runs and after, Interrupt, and where nobody watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.kernels import run_by_itself
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.frontends import Frontend

SERVER = """
import asyncio
from mcp.server.mcpserver import MCPServer
from mcp_magic.agent.scripted import ScriptedModel

weather = MCPServer("weather", log_level="ERROR")
called = []

@weather.tool()
async def forecast(location: str, days: int = 1) -> str:
    "Tells the weather."
    called.append(location)
    return f"{location} {days}"

@weather.tool()
async def wait() -> str:
    "Waits for ever."
    called.append("wait")
    await asyncio.Event().wait()
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect weather", "from mcp_magic import host")
ASK_OSLO = "ScriptedModel([[('weather:forecast', {'location': 'Oslo'})], 'It is **fine**.'])"


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test starts without rules and calls, and leaves no widget behind."""
    if "frontend" not in request.fixturenames:
        yield
        return
    kernel = request.getfixturevalue("frontend").kernel
    kernel.ok("%config MCPMagics.approval = 'ask'")
    kernel.ok("host.consent.rules.clear(); called.clear()")
    yield
    assert kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


def text_of(frontend: Frontend, code: str) -> str:
    cell = frontend.run(code)
    assert not cell.ename, cell.evalue
    [line] = cell.lines
    return line


@pytest.mark.lowest
def test_call_is_shown_while_waiting_and_approved_once(frontend: Frontend) -> None:
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start("%%mcp_agent --model $m --thread oslo -o run\nHow is the weather in Oslo?")
    frontend.panel(cell)
    before = "\n".join(cell.lines)
    assert "How is the weather in Oslo?" in before
    assert "waiting weather:forecast(location=Oslo)" in before
    assert "fine" not in before

    frontend.click("Approve")
    frontend.finish(cell)

    [shown] = cell.lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert shown.count("approved") == 1
    assert shown.index("approved by you") < shown.index("It is **fine**.")
    assert text_of(frontend, "run.answer") == "'It is **fine**.'"
    assert text_of(frontend, "run.calls['approved by'].tolist()") == "['person']"


def test_live_transcript_is_not_repeated_as_cell_value(frontend: Frontend) -> None:
    frontend.run(f"%config MCPMagics.approval = 'auto'\nm = {ASK_OSLO}")
    cell = frontend.run("%%mcp_agent --model $m -o run\nOslo?")

    assert len(cell.lines) == 1
    assert cell.lines[0].count("It is **fine**.") == 1
    assert text_of(frontend, "run") == cell.lines[0]
    assert text_of(frontend, "type(_).__name__") == "'AgentRun'"


def test_an_edited_call_goes_out_changed(frontend: Frontend) -> None:
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start("%%mcp_agent --model $m\nOslo?")
    frontend.panel(cell)
    frontend.click("Edit")
    frontend.read_until(lambda: bool(frontend._named("Edit as JSON")), what="the form")
    frontend._send(frontend._named("Edit as JSON")[0], {"method": "update", "state": {"value": True}})
    frontend.type("TextareaModel", '{"location": "Rome"}')
    frontend.read_until(lambda: bool(frontend._named("Approve changed")), what="the change is seen")
    frontend.click("Approve changed")
    frontend.finish(cell)

    assert text_of(frontend, "called") == "['Rome']"
    assert "[the user changed the arguments to location=Rome]" in text_of(frontend, "m.seen[1].messages[-1].text")


def test_a_plan_is_approved_row_by_row_and_ends_with_its_turn(frontend: Frontend) -> None:
    turn = "[('weather:forecast', {'location': city}) for city in ('Oslo', 'Rome', 'Bern', 'Kyiv')]"
    frontend.run(f"turn = {turn}\nm = ScriptedModel([turn, turn[:1], 'Done.'])")
    frontend.run("%mcp deny weather:forecast location=Kyiv")
    cell = frontend.start("%%mcp_agent --model $m --approve plan -o run\nEverywhere!")

    def shown(description: str, count: int = 1) -> list[str]:
        frontend.read_until(lambda: len(frontend._named(description, cell)) == count, what=description)
        return frontend._named(description, cell)

    shown("Approve selected")
    frontend.change(shown("2.")[0], value=False)
    frontend.type_into(next(name for name, model in frontend.models.items() if model.get("value") == "Bern"), "Paris")
    frontend.click("Approve selected", cell=cell)
    frontend.read_until(lambda: not frontend._named("1.", cell), what="the rest")
    assert frontend.models[shown("2.")[0]]["value"] is False
    [reason] = shown("why they must not be called")
    frontend.type_into(reason, "too hot")
    frontend.enter(reason)

    frontend.panel(cell)  # the same call in the next turn is asked about again
    frontend.click("Approve", cell=cell)
    frontend.finish(cell)

    assert text_of(frontend, "called") == "['Oslo', 'Paris', 'Oslo']"
    assert "too hot" in cell.lines[0]
    records = "' '.join(f'{r.decision}:{r.by.split()[0]}' for r in [*host.consent.audit.records][-5:])"
    expected = "'approve:person deny:person edit:person deny:rule approve:person'"
    assert text_of(frontend, records) == expected


def test_a_plan_where_nobody_is_asked_is_denied_call_by_call(frontend: Frontend) -> None:
    frontend.run("m = ScriptedModel([[('weather:forecast', {'location': c}) for c in ('Oslo', 'Rome')], 'No.'])")
    frontend.run("%mcp allow weather:forecast location=Rome")
    cell = frontend.run("%%mcp_agent --model $m --approve plan\nGo.", stdin=False)

    assert "you cannot be asked here" in cell.lines[0]
    assert text_of(frontend, "called") == "['Rome']"


def test_thinking_model_is_shown_and_stop_keeps_the_thread(frontend: Frontend) -> None:
    frontend.run("import asyncio\nasync def long(messages):\n    await asyncio.sleep(100)\n    return ''")
    frontend.run("m = ScriptedModel([long, 'Here I am.'])")
    cell = frontend.start("%%mcp_agent --model $m --thread slow -o run\nThink.")
    frontend.read_until(lambda: bool(frontend._named("Stop")), what="the button")
    thinking = "model thinking · "  # the button is made before it is shown
    frontend.read_until(
        lambda: any(str(bundle.get("text/plain", "")).startswith(thinking) for bundle in cell.displays.values()),
        what="the line of the wait",
    )
    frontend.click("Stop")
    frontend.finish(cell)

    assert cell.ename == ""
    assert cell.live == []
    [shown] = cell.lines
    assert "stopped by you" in shown
    assert text_of(frontend, "run.stopped") == "'stopped'"
    assert "Here I am." in frontend.run("%%mcp_agent --model $m --thread slow\nGo on.").lines[0]


@pytest.mark.timed
@tried_again
def test_interrupt_stops_call_soon_and_keeps_the_thread(frontend: Frontend) -> None:
    frontend.run("%config MCPMagics.approval = 'auto'\nm = ScriptedModel([[('weather:wait', {})], 'Going on.'])")
    cell = frontend.start("%%mcp_agent --model $m --thread stopped\nWait.")
    frontend.read_until(lambda: any("running weather:wait" in line for line in cell.lines), what="the call runs")
    started = time.monotonic()
    frontend.kernel.interrupt()
    frontend.finish(cell)

    soon(time.monotonic() - started, 1.0)
    assert cell.ename == "KeyboardInterrupt"
    assert "interrupted weather:wait" in cell.lines[0]

    cell = frontend.run("%%mcp_agent --model $m --thread stopped\nGo on.")
    assert "Going on." in cell.lines[0]
    shown = text_of(frontend, "%mcp agent --show stopped")
    assert "■ interrupted weather:wait" in shown


def test_interrupt_while_a_question_waits_stops_the_run(frontend: Frontend) -> None:
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start("%%mcp_agent --model $m\nOslo?")
    frontend.panel(cell)
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    assert text_of(frontend, "called") == "[]"


FAILS = "ScriptedModel([[('weather:forecast', {'location': 'Oslo'})], RuntimeError('overloaded')])"
STREAMS = """
def write(messages):
    print("writing", flush=True)
    return "some words " * 2000
m = ScriptedModel([[("weather:forecast", {"location": "Oslo"})], write], pause=0.01)
"""
GOES_ON = "`--thread half` goes on from there"


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "nobody watches"])
def test_failing_run_is_shown_once_and_kept_in_variable(frontend: Frontend, watched: bool) -> None:
    frontend.run(f"%config MCPMagics.approval = 'auto'\nm = {FAILS}\nrun = 'the one before'")
    cell = frontend.run("%%mcp_agent --model $m --thread half -o run\nOslo?", stdin=watched)

    assert (cell.ename, cell.evalue) == ("ModelError", f"scripted: overloaded\n{GOES_ON}")
    [shown] = cell.lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert "(error: scripted: overloaded)" in shown
    assert text_of(frontend, "run") == shown
    assert text_of(frontend, "run.stopped, run.answer, len(run.messages)") == "('error', '', 3)"


@pytest.mark.parametrize(
    ("model", "options"), [(FAILS, "--show none"), ("ScriptedModel([RuntimeError('overloaded')])", "")]
)
def test_failing_run_without_output_shows_nothing(frontend: Frontend, model: str, options: str) -> None:
    frontend.run(f"%config MCPMagics.approval = 'auto'\nm = {model}")
    cell = frontend.run(f"%%mcp_agent --model $m {options} --thread half\nOslo?", stdin=False)

    assert cell.ename == "ModelError"
    assert cell.lines == []


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "nobody watches"])
def test_run_interrupted_while_writing_is_shown_once(frontend: Frontend, watched: bool) -> None:
    frontend.run(f"%config MCPMagics.approval = 'auto'\n{STREAMS}\nrun = 'the one before'")
    cell = frontend.start("%%mcp_agent --model $m --thread half -o run\nOslo?", stdin=watched)
    frontend.read_until(
        lambda: any("some words some" in line for line in cell.lines) if watched else "writing" in cell.stdout,
        what="the model writes",
    )
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    [shown] = cell.lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert "■ interrupted" in shown or not watched
    assert f"(warning: interrupted; {GOES_ON})" in shown
    assert text_of(frontend, "run") == shown


@pytest.mark.parametrize(("show", "seen", "not_seen"), [("answer", "fine", "forecast"), ("none", "", "fine")])
def test_less_can_be_shown(frontend: Frontend, show: str, seen: str, not_seen: str) -> None:
    frontend.run(f"%config MCPMagics.approval = 'auto'\nm = {ASK_OSLO}")
    cell = frontend.run(f"%%mcp_agent --model $m --show {show} -o run\nOslo?")

    text = "\n".join(cell.lines)
    assert seen in text
    assert not_seen not in text
    assert text_of(frontend, "run.answer") == "'It is **fine**.'"


def test_a_run_inside_of_a_function_asks_by_input(frontend: Frontend) -> None:
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start(
        "def f():\n    return get_ipython().run_cell_magic('mcp_agent', '--model $m --show none', 'Oslo?')\nf().answer"
    )
    frontend.answer("y")
    frontend.finish(cell)

    assert "'It is **fine**.'" in cell.lines
    assert text_of(frontend, "called") == "['Oslo']"


def test_without_a_model_the_offline_one_answers_and_says_so(frontend: Frontend) -> None:
    frontend.run("%config MCPMagics.approval = 'auto'")
    cell = frontend.run("%%mcp_agent -o run\nforecast for location=Bergen")

    assert "The demo model `offline` answers" in cell.lines[0]
    assert text_of(frontend, "called") == "['Bergen']"
    assert "Bergen 1" in text_of(frontend, "run.answer")


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("%mcp_agent --thread x", "%%mcp_agent: the request is missing; write it below the line with the options."),
        ("%%mcp_agent --modle x\nhi", "unrecognized arguments: --modle. Did you mean '--model'?"),
        ("%%mcp_agent --servers waether\nhi", "no server 'waether'. Did you mean 'weather'?"),
        ("%%mcp_agent --tools 'weather:x*'\nhi", "no tool matches weather:x*; `%mcp tools` lists them"),
        ("%%mcp_agent --max-turns 0\nhi", "%%mcp_agent: --max-turns 0: at least 1."),
        ("%%mcp_agent -o 1x\nhi", "%%mcp_agent: -o 1x: a Python variable's name is expected."),
        ("%%mcp_agent --model $nothing\nhi", "cannot evaluate 'nothing': NameError"),
    ],
)
def test_mistakes_are_told_in_a_line(frontend: Frontend, cell: str, error: str) -> None:
    done = frontend.run(cell)

    assert error in done.evalue
    assert "\n" not in done.evalue.strip()


@pytest.mark.parametrize("approval", ["auto", "ask"])
def test_nbclient_gets_transcript_as_value_and_never_hangs(tmp_path: Path, approval: str) -> None:
    cells = (*SETUP, f"m = {ASK_OSLO}", "%%mcp_agent --model $m\nOslo?")
    [output] = run_by_itself(tmp_path, *cells, MCP_MAGIC_APPROVAL=approval)[-1]

    assert output.output_type == "execute_result"
    assert "It is **fine**." in output.data["text/plain"]
    assert "<strong>fine</strong>" in output.data["text/html"]
    told = "MCP_MAGIC_APPROVAL=auto allows what no rule asks about" in " ".join(output.data["text/plain"].split())
    denied = "denied weather:forecast" in output.data["text/plain"]
    assert (told, denied) == ((False, False) if approval == "auto" else (True, True))
