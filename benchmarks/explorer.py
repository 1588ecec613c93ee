"""The tools of many servers: how soon `%mcp tools` and the explorer show them, and how soon it answers a keystroke."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cells import WAIT_SECONDS, execute, kernel
from benchmarks.timing import Result, at_most

if TYPE_CHECKING:
    from mcp_magic.config.specs import InProcessSpec

__all__ = ["many_servers", "run"]

SERVERS, TOOLS = 50, 200

GOAL_PAINT = 1000
GOAL_KEYSTROKE = GOAL_LIST = 100
"""Milliseconds."""

SETUP = """
import sys; sys.path.insert(0, {root!r})
%load_ext mcp_magic
from benchmarks.explorer import many_servers
from mcp_magic import host
opened = await host.connect_many(many_servers({servers}, {tools}))
assert len(host.find()) == {servers}, opened
"""
OPEN, CLOSE = "%mcp ui", "_.close()"
LIST, FIND = "%mcp tools", "%mcp tools --search 'weather number 4'"

TYPED = ("w", "we", "wea", "weat", "weath", "weather", "weather 4", "weather 42", "weather 4", "", "zzz", "")
"""What is in the search field, one keystroke after the other: much is found, little, nothing and all."""

WORDS = ("weather", "stocks", "files", "mail", "calendar", "maps", "music", "notes")


def run(*, quick: bool = False) -> list[Result]:
    """Measure in a real kernel, as a frontend sees it: from sending the message until the kernel is idle again."""
    servers, count, rounds = (5, 3, 1) if quick else (SERVERS, 30, 10)
    root = str(Path(__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as folder, kernel(folder) as client:
        execute(client, SETUP.format(root=root, servers=servers, tools=TOOLS))
        lists = [timed(client, LIST) for _ in range(count)]
        finds = [timed(client, FIND) for _ in range(count)]
        cold = timed(client, OPEN)
        warm = []
        for _ in range(count):
            execute(client, CLOSE)
            warm.append(timed(client, OPEN))
        widgets = int(value(client, "len(__import__('ipywidgets').widgets.widget._instances)"))
        field = value(client, "_.search.model_id").strip("'")
        strokes = [keystroke(client, field, text) for _ in range(rounds) for text in TYPED]
    name = f"explorer, {servers * TOOLS:,} tools"
    return [
        at_most(f"{LIST}, {servers * TOOLS:,} tools", statistics.median(lists), GOAL_LIST, "ms"),
        at_most(f"{LIST} --search, {servers * TOOLS:,} tools", statistics.median(finds), GOAL_LIST, "ms"),
        at_most(f"{name}: first %mcp ui", cold, GOAL_PAINT, "ms", f"imports ipywidgets; {widgets} widgets are made"),
        at_most(f"{name}: %mcp ui", statistics.median(warm), GOAL_PAINT, "ms"),
        at_most(f"{name}: keystroke", statistics.median(strokes), GOAL_KEYSTROKE, "ms"),
        at_most(f"{name}: slowest keystroke", max(strokes), GOAL_KEYSTROKE, "ms", f"of {len(strokes)}"),
    ]


def many_servers(servers: int, tools: int) -> dict[str, InProcessSpec]:
    """Return servers in this process, by name, each with so many tools, which have hints and descriptions."""
    from mcp.server import Server
    from mcp_types import ListToolsResult, Tool, ToolAnnotations

    from mcp_magic.config.specs import InProcessSpec

    def tool(server: int, number: int) -> Tool:
        word = WORDS[number % len(WORDS)]
        return Tool(
            name=f"{word}_{number}",
            title=f"{word.capitalize()} number {number}",
            description=f"Does thing {number} of server {server} with {word}.\n" + "And it says more about it. " * 10,
            input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            annotations=ToolAnnotations(read_only_hint=number % 2 == 0),
        )

    def spec(server: int) -> InProcessSpec:
        listed = ListToolsResult(tools=[tool(server, number) for number in range(tools)])

        async def list_tools(context: Any, params: Any) -> ListToolsResult:
            return listed

        return InProcessSpec(server=Server(f"server {server}", on_list_tools=list_tools))

    return {f"server{number}": spec(number) for number in range(servers)}


def timed(client: Any, cell: str) -> float:
    """Run a cell that shows a value and return the milliseconds that it takes."""
    started = time.perf_counter()
    if not execute(client, cell):
        raise RuntimeError(f"{cell!r} shows nothing")
    return (time.perf_counter() - started) * 1000


def keystroke(client: Any, comm_id: str, text: str) -> float:
    """Send what a text field sends when it is typed into; return the milliseconds until the kernel is idle again."""
    update = {"method": "update", "state": {"value": text}, "buffer_paths": []}
    message = client.session.msg("comm_msg", {"comm_id": comm_id, "data": update})
    started = time.perf_counter()
    client.shell_channel.send(message)
    answers = 0
    while True:
        answer = client.get_iopub_msg(timeout=WAIT_SECONDS)
        if answer["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        answers += answer["msg_type"] == "comm_msg"
        if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
            break
    if not answers:
        raise RuntimeError(f"{text!r} was typed and nothing answered")
    return (time.perf_counter() - started) * 1000


def value(client: Any, expression: str) -> str:
    """Return an expression's value in the kernel, as text."""
    message_id = client.execute("", silent=True, user_expressions={"value": expression})
    while True:
        reply = client.get_shell_msg(timeout=WAIT_SECONDS)
        if reply["parent_header"].get("msg_id") == message_id:
            return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])
