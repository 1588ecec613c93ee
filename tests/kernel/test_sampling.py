"""What servers ask of models, in kernels: panels where clicks reach a running cell, `input()` where not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_magic.config.project import load_declaration, trust
from tests.environments import everything_command, needs_node
from tests.kernel.test_elicitation import shows
from tests.support.kernels import run_by_itself

if TYPE_CHECKING:
    from tests.support.frontends import Frontend, Shown

ROOT = Path(__file__).parents[2]
SERVER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.sampling_servers import asking_server, sampling_server
writer = sampling_server()
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect writer", "from mcp_magic import host")
SUMMARISE = "r = %mcp call writer:summarise --timeout 60\nr.text"
QUOTED = "'offline endTurn: Cats sleep. They purr. (offline, a model without weights, which quotes)'"


def write(frontend: Frontend, cell: Shown, number: int, text: str) -> None:
    """Open the editor of the panel below a cell, and write into one of its text areas."""
    frontend.click("Edit", cell=cell)

    def areas() -> list[str]:
        inside = [name for live in cell.live for name in frontend._inside(live)]
        return [name for name in inside if frontend.models[name].get("_model_name") == "TextareaModel"]

    frontend.read_until(lambda: len(areas()) > number, what="the text areas")
    frontend.type_into(areas()[number], text)


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_request_is_approved_below_the_cell_while_it_waits(frontend: Frontend) -> None:
    cell = frontend.start(SUMMARISE)
    text = shows(frontend, cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.finish(cell)

    assert text.startswith(
        "Server writer asks a model to answer:\n  system:\n    Be brief.\n  user:\n    Summarise this"
    )
    assert "answered by: offline" in text
    assert cell.lines[0].startswith("✓ approved: 1 message to offline for writer, ")
    assert cell.lines[1] == QUOTED
    assert cell.live == []


@pytest.mark.usefixtures("no_widget_is_left")
def test_denied_sampling_fails_cell_and_keeps_session(frontend: Frontend) -> None:
    cell = frontend.start(SUMMARISE)
    shows(frontend, cell, "Deny")
    frontend.click("Deny", cell=cell)
    frontend.finish(cell)
    logs = frontend.kernel.ok("logs = %mcp logs writer --last 1\nstr(logs.rows[-1]['text'])").text

    assert cell.ename == "ProtocolError"
    assert cell.evalue.startswith("writer:summarise: User rejected sampling request: denied by you (-1, ")
    assert "denied by you" in logs
    assert frontend.kernel.ok("host['writer'].state").text == "'open'"


@pytest.mark.usefixtures("no_widget_is_left")
def test_the_person_edits_the_request_and_then_the_reply(frontend: Frontend) -> None:
    cell = frontend.start(SUMMARISE)
    shows(frontend, cell, "Approve")
    write(frontend, cell, 1, "Dogs bark. Loudly. Often.")
    box = frontend._named("show me the reply before it is sent", cell)[0]
    frontend._send(box, {"method": "update", "state": {"value": True}, "buffer_paths": []})
    frontend.click("Approve", cell=cell)
    reply = shows(frontend, cell, "Send")
    write(frontend, cell, 0, "They bark.")
    frontend.click("Send", cell=cell)
    frontend.finish(cell)

    assert "Dogs bark. Loudly." in reply
    assert ", edited, " in cell.lines[0]
    assert cell.lines[1].startswith("✓ sent: reply of offline to writer, edited, ")
    assert cell.lines[2] == "'offline endTurn: They bark.'"
    again = frontend.start(SUMMARISE)
    shows(frontend, again, "Deny")
    [box] = frontend._named("show me the reply before it is sent", again)
    assert frontend.models[box]["value"] is True
    frontend.click("Deny", cell=again)
    frontend.finish(again)


@pytest.mark.usefixtures("no_widget_is_left")
def test_interrupt_ends_the_call_and_the_question(frontend: Frontend) -> None:
    cell = frontend.start(SUMMARISE)
    shows(frontend, cell, "Approve")
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("… interrupted: 1 message to offline for writer")


def test_auto_answers_in_a_cell_where_nobody_may_be_asked(frontend: Frontend) -> None:
    frontend.kernel.ok("%mcp connect writer --name free --sampling auto")
    cell = frontend.run("r = %mcp call free:summarise\nr.text", stdin=False)
    audit = frontend.kernel.ok("[(r.tool, r.by) for r in host.consent.audit.records][-1]").text

    assert cell.lines == [QUOTED]
    assert audit == "('sampling', \"sampling = 'auto'\")"


def test_off_tells_the_server_that_there_is_no_model(frontend: Frontend) -> None:
    frontend.kernel.ok("%mcp connect writer --name mute --sampling off")
    assert frontend.kernel.ok("r = %mcp call mute:looked\nr.text").text == "'nothing'"


@needs_node
@pytest.mark.usefixtures("no_widget_is_left")
def test_handshake_era_sampling_appears_below_calling_cell(frontend: Frontend) -> None:
    command = " ".join([*everything_command(), "stdio"])
    frontend.kernel.ok(f"%mcp connect --name everything -- {command}")
    cell = frontend.start(
        "r = %mcp call everything:trigger-sampling-request prompt='How are you?' --timeout 60\n'offline' in str(r.text)"
    )
    shows(frontend, cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.finish(cell)

    assert cell.lines[0].startswith("✓ approved: 1 message to offline for everything")
    assert cell.lines[1] == "True"
    frontend.kernel.ok("%mcp disconnect everything")


def test_a_kernel_without_clicks_asks_line_by_line(older: Frontend) -> None:
    cell = older.start(SUMMARISE)
    prompts = older.answer("e", "-", "Birds fly. High.", "r", "s")
    older.finish(cell)

    assert prompts[1].startswith("system prompt [Be brief.]")
    assert cell.lines == ["'offline endTurn: Birds fly. High. (offline, a model without weights, which quotes)'"]
    assert "Server writer asks a model to answer:" in cell.stdout
    assert "Reply of offline to server writer (endTurn):" in cell.stdout


def test_unattended_sampling_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    declared = json.dumps({"mcpServers": {"free": {"command": sys.executable, "args": ["s.py"], "sampling": "auto"}}})
    (tmp_path / "mcp.json").write_text(declared)
    trust(load_declaration(tmp_path / "mcp.json"))
    (tmp_path / "s.py").write_text(SERVER + "writer.run()\n")
    (tmp_path / "a.json").write_text(json.dumps({"sampling": [{"server": "writ*", "reply": "All fly."}]}))
    replied = "r = %mcp call writer:summarise --answers a.json\nr.text"
    cells = [*SETUP, SUMMARISE, replied, "%mcp up mcp.json", "r = %mcp call free:summarise\nr.text"]
    made = run_by_itself(tmp_path, *cells, allow_errors=True, JUPYTER_DATA_DIR=str(tmp_path / "jupyter"))

    refused, from_file, _, answered = (outputs[-1] for outputs in made[-4:])
    assert from_file["data"]["text/plain"] == "'a.json endTurn: All fly.'"
    assert "`%mcp connect --sampling auto` answers without asking" in refused["evalue"]
    assert answered["data"]["text/plain"] == QUOTED
