"""What tests in a kernel, a terminal or a page connect to: servers as lines of a notebook, or their commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments import ROOT
from tests.support.bundled import FOLDER
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

HERE = Path(__file__).parent
LOAD = "%load_ext mcp_magic"
MATH, SHOWCASE, WEATHER = (FOLDER / f"{name}_server.py" for name in ("math", "showcase", "weather"))
HOLDING, REPORTS = HERE / "holding_server.py", HERE / "reporting_server.py"
SMALL = [sys.executable, str(ROOT / "benchmarks" / "slow_server.py"), "0"]
"""The command of a server that starts in a few milliseconds; its only tool is `echo`."""

IMPORT_MATH = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); from math_server import server as math"
CONNECT_PLAIN = f"%mcp connect --name plain -- {' '.join(PLAIN)}"
"""A server that starts as soon, with tools that add, fail and die."""
AWAITED = """
import asyncio
ended = get_ipython().magics_manager.registry["MCPMagics"].cells.ended
before = len(ended)
while len(ended) == before:
    await asyncio.sleep(0.01)
"""
"""A cell that runs until something waits for its end."""

FORECASTS = """
import asyncio
from mcp.server.mcpserver import MCPServer

weather = MCPServer("weather", log_level="ERROR")
called = []

@weather.tool()
async def forecast(location: str, days: int = 1) -> str:
    "Tells the weather."
    called.append(location)
    return f"{location} {days}"

@weather.tool()
def login(password: str) -> str:
    "Logs in."
    return f"{len(password)} characters"

@weather.tool()
async def storm(location: str) -> str:
    "Never answers."
    called.append(location)
    await asyncio.Event().wait()
"""
ASKS_FORECAST = "r = await host['weather'].call_tool('forecast', {'location': 'London'}, asker='agent')\nr.text"

TRIPS = """
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
PLAN = "r = %mcp call trips:plan --timeout 60\nr.text"
PAY = "r = %mcp call bank:pay --timeout 60\nr.text"

WRITER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.sampling_servers import asking_server, sampling_server
writer = sampling_server()
"""
SUMMARISE = "r = %mcp call writer:summarise --timeout 60\nr.text"

NOTES = """
from mcp.server.mcpserver import Context, MCPServer

notes = MCPServer("notes", log_level="ERROR")
lines = ["<b>first</b>"]

@notes.resource("note://lines", mime_type="text/plain")
def text() -> str:
    return "\\n".join(lines)

@notes.resource("note://other", mime_type="text/plain")
def other() -> str:
    return f"{len(lines)} lines"

@notes.tool()
async def write(line: str, ctx: Context, times: int = 1) -> str:
    for number in range(times):
        lines.append(line if times == 1 else f"{line} {number}")
        await ctx.notify_resource_updated("note://lines")
    return line

mute = MCPServer("mute", log_level="ERROR", subscriptions=False)

@mute.resource("mute://lines", mime_type="text/plain")
def mute_text() -> str:
    return "\\n".join(lines)
"""


def command(name: str, *options: str) -> list[str]:
    """Return the command that starts a server of this folder."""
    return [sys.executable, str(HERE / f"{name}.py"), *options]


def connect_in_process(kernel: Kernel, script: Path, name: str) -> None:
    """Import a server file into the kernel and connect its `server` as `name`."""
    kernel.ok(f"import sys\nsys.path.insert(0, {str(script.parent)!r})\nfrom {script.stem} import server as {name}")
    kernel.ok(f"%mcp connect {name}")
