"""What servers ask of the person, in kernels: by clicks where they reach a running cell, by `input()` where not."""

import json

import pytest

from tests.environments import everything_command, needs_node
from tests.support.kernel_servers import LOAD, PAY, PLAN, TRIPS
from tests.support.kernels import run_by_itself

SETUP = (LOAD, TRIPS, "%mcp connect trips", "%mcp connect bank", "from mcp_magic import host")
pytestmark = pytest.mark.usefixtures("no_widget_is_left")


def test_interrupt_ends_the_call_and_the_question(frontend):
    cell = frontend.start(PLAN)
    frontend.has("Submit", cell)
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("… not answered: trips (Where")


@needs_node
def test_handshake_era_question_appears_below_calling_cell(frontend):
    command = " ".join([*everything_command(), "stdio"])
    frontend.kernel.ok(f"%mcp connect --name everything -- {command}")  # a cell of its own: the session began there
    cell = frontend.start("r = %mcp call everything:trigger-elicitation-request --timeout 60\nr.is_error")
    frontend.has("Submit", cell)
    frontend.write_json(cell, {"name": "Ada"})
    frontend.click("Submit", cell=cell)
    frontend.finish(cell)
    assert cell.lines[0].startswith("✓ sent name=Ada to everything (Please provide inputs")
    assert cell.lines[1] == "False"
    frontend.kernel.ok("%mcp disconnect everything")


def test_a_kernel_without_clicks_asks_by_input(older):
    cell = older.start(PLAN)
    prompts = older.answer("f", "Oslo", "", "s")
    assert older.finish(cell).lines == ["'accept Oslo 3'"]
    assert prompts[1].startswith("city (string")
    assert prompts[2] == "days (integer) [3]: "
    assert "Server trips asks you for:" in cell.stdout
    cell = older.start(PAY)
    older.answer("o")
    assert older.finish(cell).lines == ["'accept'"]
    assert "https://bank.example/login?id=1" in cell.stdout


def test_cell_without_input_declines_at_once_and_logs_it(frontend):
    assert frontend.run(PLAN, stdin=False).lines == ["'decline'"]
    logs = frontend.kernel.ok("logs = %mcp logs trips --last 1\nstr(logs.rows[0]['text'])").text
    assert "decline: you cannot be asked here, where no input is allowed; `%mcp call --answers FILE` answers" in logs


def test_a_notebook_that_runs_by_itself_is_answered_from_a_file(tmp_path):
    (tmp_path / "answers.json").write_text(json.dumps([{"city": "Rome", "days": 1}]))
    made = run_by_itself(tmp_path, *SETUP, PLAN, "r = %mcp call trips:plan --answers answers.json\nr.text")
    assert [outputs[-1]["data"]["text/plain"] for outputs in made[-2:]] == ["'decline'", "'accept Rome 1'"]
