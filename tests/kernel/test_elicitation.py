"""What servers ask of the person, in kernels: by clicks where they reach a running cell, by `input()` where not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.environments import everything_command, needs_node
from tests.support.frontends import VIEW
from tests.support.kernels import run_by_itself

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.frontends import Frontend, Shown

SERVER = """
from typing import Annotated
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp_types import CallToolResult, ElicitRequest, ElicitRequestURLParams, InputRequiredResult, ListToolsResult
from mcp_types import TextContent, Tool
from pydantic import BaseModel, Field

class Trip(BaseModel):
    city: str = Field(min_length=2)
    days: int = 3

async def where() -> Elicit[Trip]:
    return Elicit("Where <i>to</i>?", Trip)

trips = MCPServer("trips", log_level="ERROR")

@trips.tool()
async def plan(trip: Annotated[ElicitationResult[Trip], Resolve(where)]) -> str:
    data = getattr(trip, "data", None)
    return f"{trip.action} {data.city} {data.days}" if data is not None else trip.action

async def tools(context, params):
    return ListToolsResult(tools=[Tool(name="pay", input_schema={"type": "object"})])

async def pay(context, params):
    if params.input_responses:
        return CallToolResult(content=[TextContent(type="text", text=params.input_responses["page"].action)])
    page = ElicitRequestURLParams(message="Log in", url="https://bank.example/login?id=1")
    return InputRequiredResult(input_requests={"page": ElicitRequest(params=page)}, request_state="s")

bank = Server("bank", on_list_tools=tools, on_call_tool=pay)
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect trips", "%mcp connect bank", "from mcp_magic import host")
PLAN = "r = %mcp call trips:plan --timeout 60\nr.text"
PAY = "r = %mcp call bank:pay --timeout 60\nr.text"


def shows(frontend: Frontend, cell: Shown, button: str) -> str:
    """Wait for a panel below a cell; return what it says as text."""
    frontend.read_until(lambda: len(frontend._named(button, cell)) == 1, what=f"a panel with {button}")
    return next(str(bundle["text/plain"]) for bundle in cell.displays.values() if VIEW in bundle)


def fill_in(frontend: Frontend, cell: Shown, values: dict[str, Any]) -> None:
    toggle = frontend._named("Edit as JSON", cell)[0]
    frontend._send(toggle, {"method": "update", "state": {"value": True}})
    frontend.type("TextareaModel", json.dumps(values))


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_form_is_answered_below_the_cell_while_it_waits(frontend: Frontend) -> None:
    cell = frontend.start(PLAN)
    text = shows(frontend, cell, "Submit")
    fill_in(frontend, cell, {"city": "Oslo", "days": 2})
    frontend.click("Submit", cell=cell)
    frontend.finish(cell)

    assert text == "Server trips asks you for:\n  Where <i>to</i>?"
    assert cell.lines[0].startswith("✓ sent city=Oslo, days=2 to trips (Where <i>to</i>?), ")
    assert cell.lines[1] == "'accept Oslo 2'"
    assert cell.live == []


@pytest.mark.usefixtures("no_widget_is_left")
@pytest.mark.parametrize(("button", "action"), [("Decline", "decline"), ("Cancel", "cancel")])
def test_no_is_answered_by_a_click(frontend: Frontend, button: str, action: str) -> None:
    cell = frontend.start(PLAN)
    shows(frontend, cell, button)
    frontend.click(button, cell=cell)
    frontend.finish(cell)

    assert cell.lines[1] == f"'{action}'"


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_page_is_opened_by_the_person_who_then_says_so(frontend: Frontend) -> None:
    cell = frontend.start(PAY)
    text = shows(frontend, cell, "Done")
    frontend.click("Done", cell=cell)
    frontend.finish(cell)

    assert "open a page at bank.example" in text
    assert cell.lines[0].startswith("✓ done: bank (page at bank.example: Log in), ")
    assert cell.lines[1] == "'accept'"


@pytest.mark.usefixtures("no_widget_is_left")
def test_interrupt_ends_the_call_and_the_question(frontend: Frontend) -> None:
    cell = frontend.start(PLAN)
    shows(frontend, cell, "Submit")
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("… not answered: trips (Where")


@needs_node
@pytest.mark.usefixtures("no_widget_is_left")
def test_handshake_era_question_appears_below_calling_cell(frontend: Frontend) -> None:
    command = " ".join([*everything_command(), "stdio"])
    frontend.kernel.ok(f"%mcp connect --name everything -- {command}")  # a cell of its own: the session began there
    cell = frontend.start("r = %mcp call everything:trigger-elicitation-request --timeout 60\nr.is_error")
    shows(frontend, cell, "Submit")
    fill_in(frontend, cell, {"name": "Ada"})
    frontend.click("Submit", cell=cell)
    frontend.finish(cell)

    assert cell.lines[0].startswith("✓ sent name=Ada to everything (Please provide inputs")
    assert cell.lines[1] == "False"
    frontend.kernel.ok("%mcp disconnect everything")


def test_a_kernel_without_clicks_asks_field_by_field(older: Frontend) -> None:
    cell = older.start(PLAN)
    prompts = older.answer("f", "Oslo", "", "s")
    older.finish(cell)

    assert cell.lines == ["'accept Oslo 3'"]
    assert prompts[1].startswith("city (string")
    assert prompts[2] == "days (integer) [3]: "
    assert "Server trips asks you for:" in cell.stdout


def test_a_kernel_without_clicks_names_the_page(older: Frontend) -> None:
    cell = older.start(PAY)
    older.answer("o")
    older.finish(cell)

    assert cell.lines == ["'accept'"]
    assert "https://bank.example/login?id=1" in cell.stdout


def test_cell_without_input_declines_at_once_and_logs_it(frontend: Frontend) -> None:
    cell = frontend.run(PLAN, stdin=False)
    logs = frontend.kernel.ok("logs = %mcp logs trips --last 1\nstr(logs.rows[0]['text'])").text

    assert cell.lines == ["'decline'"]
    assert "decline: you cannot be asked here, where no input is allowed; `%mcp call --answers FILE` answers" in logs


def test_a_notebook_that_runs_by_itself_is_answered_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps([{"city": "Rome", "days": 1}]))
    made = run_by_itself(tmp_path, *SETUP, PLAN, "r = %mcp call trips:plan --answers answers.json\nr.text")

    assert [outputs[-1]["data"]["text/plain"] for outputs in made[-2:]] == ["'decline'", "'accept Rome 1'"]
