"""The tools of many servers: how soon `%mcp tools` and the explorer show them, and how soon it answers a keystroke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.kernels import frontend, importable, shower
from benchmarks.timing import Pairs, Result, at_most, compared, pairs, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.config.specs import InProcessSpec
    from tests.support.frontends import Frontend

__all__ = ["SERVERS", "TOOLS", "connect", "listings", "many_servers", "run"]

SERVERS, TOOLS = 50, 200

GOAL_LIST, GOAL_SEARCH, GOAL_OPEN, GOAL_KEYSTROKE = 2.5, 8.0, 2.0, 2.5

GOAL_FIRST_SECONDS = 5.0

WAIT_SECONDS = 60.0

CONNECT = """
%load_ext mcp_magic
from benchmarks.explorer import many_servers
from mcp_magic import Connection, host
opened = await host.connect_many(many_servers({servers}, {tools}))
assert [type(each) for each in opened.values()] == {servers} * [Connection], opened
"""
FRAME = """
import pandas
listing = {line}
frame = listing.df
"""
FRAME_SHOWN = """with pandas.option_context("display.max_rows", 200, "display.min_rows", 200):
    display(frame)"""

OPEN = "explorer = %mcp ui\nexplorer"
BARE = """
from benchmarks.kernels import bare_widgets, widget_types
import ipywidgets
kinds = widget_types()
field, rows = ipywidgets.Text(), [ipywidgets.Button() for _ in range(25)]
def rename(change):
    for row in rows:
        row.description = change["new"]
field.observe(rename, "value")
print(explorer.filter.search.model_id, field.model_id, len(kinds))
"""
BARE_OPEN = "bare = bare_widgets(kinds)\nbare"
CLOSE = "for widget in (explorer, *bare.children, bare):\n    widget.close()"

TYPED = ("w", "we", "weather 4", "weather 42", "weather 4", "", "zzz", "")
"""What is in the search field, one after the other, each with other results: much is found, little, nothing and all."""

WORDS = ("weather", "stocks", "files", "mail", "calendar", "maps", "music", "notes")


def run(*, quick: bool = False) -> list[Result]:
    """Measure in a real kernel, as a frontend sees it: from sending the message until the kernel is idle again."""
    servers, count, rounds = (5, 3, 1) if quick else (SERVERS, 15, 4)
    name = f"explorer, {servers * TOOLS:,} tools"
    with frontend(connect(servers, TOOLS), plain=True) as shown:
        results = list(listings(shown, f"{servers * TOOLS:,} tools", "weather number 4", count))
        first = seconds_of(shower(shown, OPEN))
        search, field, widgets = shown.run(BARE).stdout.split()
        strokes = Pairs()
        for text in TYPED * rounds:
            strokes.ours.append(keystroke(shown, search, text))
            strokes.theirs.append(keystroke(shown, field, text))
        shown.run(f"{BARE_OPEN}\n{CLOSE}")
        opened = pairs(shower(shown, OPEN), shower(shown, BARE_OPEN), count, settle=lambda: shown.run(CLOSE))
    return [
        *results,
        at_most(f"{name}: first %mcp ui", first, GOAL_FIRST_SECONDS, "s", "imports ipywidgets"),
        compared(f"{name}: %mcp ui", opened, goal=GOAL_OPEN, note=f"against {widgets} bare widgets"),
        compared(
            f"{name}: keystroke",
            strokes,
            goal=GOAL_KEYSTROKE,
            note=f"against 25 bare buttons renamed; slowest {max(strokes.ours) * 1e3:.0f} ms",
        ),
    ]


def connect(servers: int, tools: int) -> str:
    """Return a cell that connects to so many servers in the kernel."""
    return importable() + CONNECT.format(servers=servers, tools=tools)


def listings(shown: Frontend, tools: str, searched: str, count: int) -> Iterator[Result]:
    """Compare `%mcp tools` and its search with cells that show frames of the same rows."""
    for line, goal in (("%mcp tools", GOAL_LIST), (f"%mcp tools --search '{searched}'", GOAL_SEARCH)):
        shown.kernel.ok(FRAME.format(line=line))
        taken = pairs(shower(shown, line), shower(shown, FRAME_SHOWN), count)
        yield compared(f"{tools}: {line}", taken, goal=goal, note="against the same rows as a DataFrame")


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


def keystroke(shown: Frontend, field: str, text: str) -> float:
    """Send what a text field sends when it is typed into; return the seconds until the kernel is idle again."""
    client = shown.kernel.client
    update = {"method": "update", "state": {"value": text}, "buffer_paths": []}
    message = client.session.msg("comm_msg", {"comm_id": field, "data": update})
    answers = 0

    def answered() -> None:
        nonlocal answers
        client.shell_channel.send(message)
        while True:
            answer = client.get_iopub_msg(timeout=WAIT_SECONDS)
            if answer["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            answers += answer["content"].get("data", {}).get("method") == "update"  # and not "echo_update"
            if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
                break

    seconds = seconds_of(answered)
    if not answers:
        raise RuntimeError(f"{text!r} was typed and nothing answered")
    return seconds
