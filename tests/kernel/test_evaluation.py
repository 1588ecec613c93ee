"""`%%mcp_eval` in a real kernel: what is shown while it runs and after, Interrupt, and where nobody watches."""

import pytest

from tests.support.kernel_servers import FORECASTS, LOAD

MODELS = """\
import asyncio, re
from mcp_magic import ScriptedModel, host
def turn(messages):
    text = [message for message in messages if message.type == "human"][-1].text
    if messages[-1].type == "tool" or "Delete" in text:
        return "Done."
    return [("weather:forecast", {"location": re.search("Oslo|Rome|Paris", text)[0]})]
async def never():
    await asyncio.Event().wait()
model = ScriptedModel([turn], repeat_last=True)
slow = ScriptedModel([lambda messages: never() if "Rome" in messages[-1].text else turn(messages)], repeat_last=True)
"""
SETUP = (LOAD, FORECASTS, "%mcp connect weather", MODELS)
CELL = """\
%%mcp_eval --models $model --servers weather --runs 2 -o scores
How is the weather in Oslo?   -> weather:forecast location=Oslo
And in Paris?                 -> weather:forecast location=Rome
Delete everything             -> no call
"""
SLOW = CELL.replace("$model", "$slow --concurrency 1").replace("Paris?", "Rome? ").replace("=Rome", "=Paris")


@pytest.fixture(autouse=True)
def no_rule_and_no_call(frontend, no_widget_is_left):
    frontend.kernel.ok("%config MCPMagics.approval = 'ask'\nhost.consent.rules.clear()\ncalled.clear()")


def test_cell_shows_shares_and_opens_transcripts(frontend):
    frontend.run("%config MCPMagics.approval = 'auto'")
    cell = frontend.run(CELL)
    [shown] = cell.lines
    assert "✓ 6 of 6 runs of 3 cases" in shown
    assert "model  67%    21% to 94%" in shown
    assert "✗ And in Paris? (2 of 2 wrong): weather:forecast: location is 'Paris', expected 'Rome'" in shown
    assert frontend.line("sorted(called)") == "['Oslo', 'Oslo', 'Paris', 'Paris']"
    assert frontend.line("scores.df['run'].iloc[0].answer") == "'Done.'"


def test_interrupt_keeps_the_runs_and_the_variable(frontend):
    frontend.run("%config MCPMagics.approval = 'auto'")
    cell = frontend.start(SLOW)
    frontend.shows(cell, "in flight")
    frontend.stop(cell)
    assert "It stopped: interrupted; `await scores.resume()` makes the other 5 runs" in cell.lines[-1]
    assert cell.lines[0].startswith("✗ evaluation: interrupted · 1 of 6 runs · 100% right")
    assert frontend.line("len(scores)") == "1"


def test_unwatched_cell_tells_that_calls_were_denied(frontend):
    cell = frontend.run(CELL, stdin=False)
    assert "4 runs: weather:forecast was not called; denied by default: you cannot be asked here" in cell.lines[0]
    assert frontend.line("called") == "[]"
    cell = frontend.run(CELL.replace("--runs 2", "--tools-only"), stdin=False)
    assert "✓ 3 of 3 first turns" in cell.lines[0]
    assert "denied" not in cell.lines[0]


def test_broken_gate_stops_run_all(frontend):
    cell = frontend.run(CELL.replace("--runs 2", "--tools-only --gate 'right >= 0.9'"), stdin=False)
    assert cell.ename == "CheckFailedError"
    assert cell.evalue.startswith("the evaluation fails: model: right is 67% [21%, 94%], not >= 0.9")


def test_ablation_tells_what_a_sentence_is_worth(frontend):
    frontend.run("%config MCPMagics.approval = 'auto'")
    line = "%%mcp_eval --models $model --servers weather --ablate weather:forecast -o worth"
    [shown] = frontend.run(CELL.replace(CELL.partition("\n")[0], line)).lines
    assert "weather:forecast, 1 sentence: cannot tell: 1" in shown
    assert frontend.line("(worth.target, len(worth.evaluation), worth.ok)") == "('weather:forecast', 6, True)"


def test_interrupted_ablation_goes_on(frontend):
    frontend.run("%config MCPMagics.approval = 'auto'")
    cell = frontend.start(SLOW.replace("--runs 2", "--ablate weather:forecast"))
    frontend.shows(cell, "2 of 6 runs")
    frontend.stop(cell)
    assert "It stopped: interrupted; `await scores.resume()` makes the other 4 runs" in cell.lines[-1]
    assert frontend.line("(type(scores).__name__, len(scores.evaluation))") == "('Ablation', 2)"
