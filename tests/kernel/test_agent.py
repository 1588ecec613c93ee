"""`%%mcp_agent` in a real kernel: what a cell shows while it runs and after, Interrupt, and where nobody watches."""

import pytest

from tests.support.kernel_servers import FORECASTS, LOAD
from tests.support.kernels import run_by_itself

SETUP = (LOAD, FORECASTS, "%mcp connect weather", "from mcp_magic import host\nfrom mcp_magic import ScriptedModel")
ASK_OSLO = "ScriptedModel([[('weather:forecast', {'location': 'Oslo'})], 'It is **fine**.'])"
FAILS = "ScriptedModel([[('weather:forecast', {'location': 'Oslo'})], RuntimeError('overloaded')])"
AUTO = "%config MCPMagics.approval = 'auto'\n"
GOES_ON = "`--thread half` goes on from there"
WATCHED = pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])


@pytest.fixture(autouse=True)
def no_rule_and_no_call(frontend, no_widget_is_left):
    frontend.kernel.ok("%config MCPMagics.approval = 'ask'\nhost.consent.rules.clear()\ncalled.clear()")


@pytest.mark.lowest
def test_call_is_shown_while_waiting_and_approved_once(frontend):
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start("%%mcp_agent --model $m --thread oslo -o run\nHow is the weather in Oslo?")
    frontend.panel(cell)
    before = "\n".join(cell.lines)
    assert "How is the weather in Oslo?" in before
    assert "waiting weather:forecast(location=Oslo)" in before
    assert "fine" not in before
    frontend.click("Approve")
    [shown] = frontend.finish(cell).lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert shown.count("approved") == shown.count("It is **fine**.") == 1
    assert shown.index("approved by you") < shown.index("It is **fine**.")
    assert frontend.line("run.answer, run.calls['approved by'].tolist()") == "('It is **fine**.', ['person'])"


def test_live_transcript_is_not_repeated_as_cell_value(frontend):
    frontend.run(f"{AUTO}m = {ASK_OSLO}")
    cell = frontend.run("%%mcp_agent --model $m -o run\nOslo?")
    assert len(cell.lines) == 1
    assert frontend.line("run") == cell.lines[0]
    assert frontend.line("type(_).__name__") == "'AgentRun'"


def test_a_plan_where_nobody_is_asked_is_denied_call_by_call(frontend):
    frontend.run("m = ScriptedModel([[('weather:forecast', {'location': c}) for c in ('Oslo', 'Rome')], 'No.'])")
    frontend.run("%mcp allow weather:forecast location=Rome")
    cell = frontend.run("%%mcp_agent --model $m --approve plan\nGo.", stdin=False)
    assert "you cannot be asked here" in cell.lines[0]
    assert frontend.line("called") == "['Rome']"


def test_interrupt_stops_call_and_keeps_the_thread(frontend):
    frontend.run(f"{AUTO}m = ScriptedModel([[('weather:storm', {{'location': 'Oslo'}})], 'Going on.'])")
    cell = frontend.start("%%mcp_agent --model $m --thread stopped\nWait.")
    frontend.shows(cell, "running weather:storm")
    frontend.stop(cell)
    assert cell.ename == "KeyboardInterrupt"
    assert "interrupted weather:storm" in cell.lines[0]
    assert "Going on." in frontend.run("%%mcp_agent --model $m --thread stopped\nGo on.").lines[0]
    assert "■ interrupted weather:storm" in frontend.line("%mcp agent --show stopped")


def test_interrupt_while_a_question_waits_stops_the_run(frontend):
    frontend.run(f"m = {ASK_OSLO}")
    cell = frontend.start("%%mcp_agent --model $m\nOslo?")
    frontend.panel(cell)
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    assert frontend.line("called") == "[]"


@WATCHED
def test_failing_run_is_shown_once_and_kept_in_variable(frontend, watched):
    frontend.run(f"{AUTO}m = {FAILS}\nrun = 'the one before'")
    cell = frontend.run("%%mcp_agent --model $m --thread half -o run\nOslo?", stdin=watched)
    assert (cell.ename, cell.evalue) == ("ModelError", f"scripted: overloaded\n{GOES_ON}")
    [shown] = cell.lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert "(error: scripted: overloaded)" in shown
    assert frontend.line("run") == shown
    assert frontend.line("run.stopped, run.answer, len(run.messages)") == "('error', '', 3)"


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param(FAILS, "--show none", id="none"),
        pytest.param("ScriptedModel([RuntimeError('overloaded')])", "", id="at once"),
    ],
)
def test_failing_run_without_output_shows_nothing(frontend, model, options):
    frontend.run(f"{AUTO}m = {model}")
    cell = frontend.run(f"%%mcp_agent --model $m {options} --thread half\nOslo?", stdin=False)
    assert (cell.ename, cell.lines) == ("ModelError", [])


@WATCHED
def test_run_interrupted_while_writing_is_shown_once(frontend, watched):
    writes = "def write(messages):\n    print('writing', flush=True)\n    return 'some words ' * 2000\n"
    model = "m = ScriptedModel([[('weather:forecast', {'location': 'Oslo'})], write], pause=0.01)"
    frontend.run(f"{AUTO}{writes}{model}\nrun = 'the one before'")
    cell = frontend.start("%%mcp_agent --model $m --thread half -o run\nOslo?", stdin=watched)
    frontend.read_until(lambda: ("some words some" in str(cell.lines)) if watched else ("writing" in cell.stdout))
    frontend.stop(cell)
    assert cell.ename == "KeyboardInterrupt"
    [shown] = cell.lines
    assert "✓ ok weather:forecast(location=Oslo)" in shown
    assert ("■ interrupted" in shown) is ("some" in shown), "where there are words of the turn, their end is said"
    assert "some words" in shown or not watched
    assert f"(warning: interrupted; {GOES_ON})" in shown
    assert frontend.line("run") == shown


def test_a_run_inside_of_a_function_asks_by_input(frontend):
    frontend.run(f"m = {ASK_OSLO}")
    inside = "get_ipython().run_cell_magic('mcp_agent', '--model $m --show none', 'Oslo?')"
    cell = frontend.start(f"def f():\n    return {inside}\nf().answer")
    frontend.answer("y")
    assert "'It is **fine**.'" in frontend.finish(cell).lines
    assert frontend.line("called") == "['Oslo']"


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("%mcp_agent --thread x", "%%mcp_agent: the request is missing; write it below the line with the options."),
        ("%%mcp_agent --modle x\nhi", "unrecognized arguments: --modle. Did you mean '--model'?"),
        ("%%mcp_agent --servers waether\nhi", "no server 'waether'. Did you mean 'weather'?"),
        ("%%mcp_agent --tools 'weather:x*'\nhi", "no tool matches weather:x*; `%mcp tools` lists them"),
        ("%%mcp_agent --max-turns 0\nhi", "%%mcp_agent: --max-turns 0: at least 1."),
        ("%%mcp_agent -o 1x\nhi", "%%mcp_agent: argument -o/--out: expected a variable's name, got '1x'."),
        ("%%mcp_agent --model $nothing\nhi", "cannot evaluate 'nothing': NameError"),
    ],
    ids=["no request", "option", "server", "tool", "turns", "variable", "model"],
)
def test_mistakes_are_told_in_a_line(frontend, cell, error):
    said = frontend.run(cell).evalue
    assert error in said
    assert "\n" not in said.strip()


def test_nbclient_gets_transcript_as_value_and_never_hangs(tmp_path):
    ask = (f"m = {ASK_OSLO}", "%%mcp_agent --model $m\nOslo?")
    *_, [denied], _, _, [output] = run_by_itself(tmp_path, *SETUP, *ask, "%config MCPMagics.approval = 'auto'", *ask)
    assert "denied weather:forecast" in denied.data["text/plain"]
    told = "MCP_MAGIC_APPROVAL=auto allows what no rule asks about"
    assert told in " ".join(denied.data["text/plain"].split())
    assert output.output_type == "execute_result"
    assert "It is **fine**." in output.data["text/plain"]
    assert "<strong>fine</strong>" in output.data["text/html"]
    assert "denied" not in output.data["text/plain"]
