"""What servers ask of persons and models, in kernels: by clicks where they reach a running cell, else by `input()`."""

import json
import sys

import pytest

from mcp_magic.config.project import load_declaration, trust
from tests.environments import everything_command, needs_node
from tests.support.kernel_servers import LOAD, PAY, PLAN, SUMMARISE, TRIPS, WRITER
from tests.support.kernels import run_by_itself

SETUP = (
    LOAD,
    TRIPS + WRITER,
    "%mcp connect trips",
    "%mcp connect bank",
    "%mcp connect writer",
    "from mcp_magic import host",
)
QUOTED = "'offline endTurn: Cats sleep. They purr. (offline, a model without weights, which quotes)'"
pytestmark = pytest.mark.usefixtures("no_widget_is_left")


def test_interrupt_ends_the_call_and_the_question(frontend):
    cell = frontend.start(PLAN)
    frontend.has("Submit", cell)
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("… not answered: trips (Where")


@needs_node
def test_handshake_era_questions_appear_below_the_calling_cell(frontend):
    command = " ".join([*everything_command(), "stdio"])
    frontend.kernel.ok(f"%mcp connect --name everything -- {command}")  # a cell of its own: the session began there
    cell = frontend.start("r = %mcp call everything:trigger-elicitation-request --timeout 60\nr.is_error")
    frontend.has("Submit", cell)
    frontend.write_json(cell, {"name": "Ada"})
    frontend.click("Submit", cell=cell)
    frontend.finish(cell)
    assert cell.lines[0].startswith("✓ sent name=Ada to everything (Please provide inputs")
    assert cell.lines[1] == "False"
    line = "r = %mcp call everything:trigger-sampling-request prompt='How are you?' --timeout 60"
    cell = frontend.start(f"{line}\n'offline' in str(r.text)")
    frontend.press(frontend.has("Approve", cell)[0])
    frontend.finish(cell)
    assert cell.lines[0].startswith("✓ approved: 1 message to offline for everything")
    assert cell.lines[1] == "True"
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


# Sampling


def test_a_request_is_approved_below_the_cell_while_it_waits(frontend):
    cell = frontend.start(SUMMARISE)
    text = frontend.asks(cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.finish(cell)
    asked = "Server writer asks a model to answer:\n  system:\n    Be brief.\n  user:\n    Summarise this"
    assert text.startswith(asked)
    assert "answered by: offline" in text
    assert cell.lines[0].startswith("✓ approved: 1 message to offline for writer, ")
    assert (cell.lines[1], cell.live) == (QUOTED, [])


def test_denied_sampling_fails_cell_and_keeps_session(frontend):
    cell = frontend.start(SUMMARISE)
    frontend.press(frontend.has("Deny", cell)[0])
    frontend.finish(cell)
    assert cell.ename == "ProtocolError"
    assert cell.evalue.startswith("writer:summarise: User rejected sampling request: denied by you (-1, ")
    logs = frontend.kernel.ok("logs = %mcp logs writer --last 1\nstr(logs.rows[-1]['text'])").text
    assert "denied by you" in logs
    assert frontend.line("host['writer'].state") == "'open'"


def test_wish_to_see_the_reply_is_kept_for_the_next_request(frontend):
    wish = "show me the reply before it is sent"
    cell = frontend.start(SUMMARISE)
    frontend.change(frontend.has(wish, cell)[0], value=True)
    frontend.click("Approve", cell=cell)
    assert "Cats sleep." in frontend.asks(cell, "Send")
    frontend.click("Send", cell=cell)
    assert frontend.finish(cell).lines[1].startswith("✓ sent: reply of offline to writer, ")
    again = frontend.start(SUMMARISE)
    assert frontend.models[frontend.has(wish, again)[0]]["value"] is True
    assert frontend.stop(again).ename == "KeyboardInterrupt"
    assert again.lines[0].startswith("… interrupted: 1 message to offline for writer")


def test_auto_answers_where_nobody_is_asked_and_off_has_no_model(frontend):
    frontend.kernel.ok("%mcp connect writer --name free --sampling auto")
    assert frontend.run("r = %mcp call free:summarise\nr.text", stdin=False).lines == [QUOTED]
    audit = frontend.line("[(r.tool, r.by) for r in host.consent.audit.records][-1]")
    assert audit == "('sampling', \"sampling = 'auto'\")"
    frontend.kernel.ok("%mcp connect writer --name mute --sampling off")
    assert frontend.line("r = %mcp call mute:looked\nr.text") == "'nothing'"


def test_a_kernel_without_clicks_asks_line_by_line(older):
    cell = older.start(SUMMARISE)
    prompts = older.answer("e", "-", "Birds fly. High.", "r", "s")
    older.finish(cell)
    assert prompts[1].startswith("system prompt [Be brief.]")
    assert cell.lines == ["'offline endTurn: Birds fly. High. (offline, a model without weights, which quotes)'"]
    assert "Server writer asks a model to answer:" in cell.stdout
    assert "Reply of offline to server writer (endTurn):" in cell.stdout


def test_a_notebook_that_runs_by_itself_is_answered_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    declared = json.dumps({"mcpServers": {"free": {"command": sys.executable, "args": ["s.py"], "sampling": "auto"}}})
    (tmp_path / "mcp.json").write_text(declared)
    trust(load_declaration(tmp_path / "mcp.json"))
    (tmp_path / "s.py").write_text(WRITER + "writer.run()\n")
    (tmp_path / "answers.json").write_text(json.dumps([{"city": "Rome", "days": 1}]))
    (tmp_path / "a.json").write_text(json.dumps({"sampling": [{"server": "writ*", "reply": "All fly."}]}))
    planned = "r = %mcp call trips:plan --answers answers.json\nr.text"
    replied = "r = %mcp call writer:summarise --answers a.json\nr.text"
    cells = [*SETUP, PLAN, planned, SUMMARISE, replied, "%mcp up mcp.json", "r = %mcp call free:summarise\nr.text"]
    made = run_by_itself(tmp_path, *cells, allow_errors=True, JUPYTER_DATA_DIR=str(tmp_path / "jupyter"))
    declined, accepted, refused, from_file, _, answered = (outputs[-1] for outputs in made[-6:])
    assert "`%mcp connect --sampling auto` answers without asking" in refused["evalue"]
    shown = [output["data"]["text/plain"] for output in (declined, accepted, from_file, answered)]
    assert shown == ["'decline'", "'accept Rome 1'", "'a.json endTurn: All fly.'", QUOTED]
