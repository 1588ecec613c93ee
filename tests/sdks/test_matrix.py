"""One tiny server under each generation of the SDKs, over all transports that it has: the table in
docs/where_it_works.md, and what a host gets of each."""

import re

import pytest

from mcp_magic.ask.elicitation import Answer
from mcp_magic.session import negotiation
from tests.environments import MCP1_PACKAGES, PYTHON_SDKS, ROOT, TYPESCRIPT_SDKS, needs_node, sdk_command
from tests.support.processes import free_port, listening, start_http

PAGE = ROOT / "docs" / "where_it_works.md"
TRANSPORTS = ("stdio", "sse", "http")
PATHS = {"sse": "/sse", "http": "/mcp"}
NEWEST = "mcp 2"
NONE = "\N{EN DASH}"
STARTED_AGAIN = ("mcp 1.0.0", NEWEST, "@modelcontextprotocol/sdk 0.6.1")
"""Those whose process is started a second time; of the others the sessions over HTTP are opened again."""
SDKS = ("mcp 1.0.0", "mcp 1.6.0", "mcp 1.9.4", f"mcp {MCP1_PACKAGES['mcp']}", NEWEST)
SDKS += (*(name for name in PYTHON_SDKS if name.startswith("fastmcp")), *TYPESCRIPT_SDKS)


def table():
    """The table of the page: SDK -> transport -> what it says."""
    text = PAGE.read_text().partition("## Servers of each SDK")[2].partition("\n## ")[0]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]
    return {name: dict(zip(TRANSPORTS, cells, strict=True)) for name, *cells in rows[2:]}


CELLS = [(name, transport, said) for name, row in table().items() for transport, said in row.items() if said != NONE]


def test_the_table_has_each_sdk():
    assert tuple(table()) == SDKS


@pytest.mark.parametrize(
    ("sdk", "transport", "said"),
    [
        pytest.param(*cell, id=f"{cell[0]} {cell[1]}", marks=[needs_node] if cell[0] in TYPESCRIPT_SDKS else [])
        for cell in CELLS
    ],
)
async def test_sdk_server_connects_lists_calls_asks_and_reconnects(host, sdk, transport, said, monkeypatch):
    if said.startswith("2026"):
        monkeypatch.setattr(negotiation, "SILENT_SECONDS", 20.0)  # a busy machine lets a server answer late
    host.consent.policy = "auto"
    host.elicitation.elicitor = ada
    if transport == "stdio":
        assert await got(host, sdk_command(sdk, transport), again=sdk in STARTED_AGAIN) == said
        return
    port = free_port()
    ready = rf"(?P<port>{port})"
    with start_http(sdk_command(sdk, transport, port), ready=ready, path=PATHS[transport], timeout=60) as server:
        await listening(port)
        assert await got(host, server.url) == said
        await host.disconnect("tiny")


async def got(host, target, *, again=True):
    """Use a server, and say what it gave, as the table does."""
    connection = await host.connect(target, name="tiny", timeout=60)
    version = connection.protocol_version
    tools = [tool.name for tool in await connection.listing("tools")]
    assert (connection.calls, connection.failures) == (0, 0), "what the host asked by itself counts for nothing"
    assert not [text for text in ("validation error", "server/discover") if text in connection.stderr()]
    assert connection.notices.messages == type(connection.notices.messages)()
    assert (await connection.call("add", a=1, b=2)).text == "3"
    asks = ", asks" if "greet" in tools and await greeted(connection) else ""
    if again:
        number = connection.trace.entries[-1].number
        await host.reconnect("tiny")
        begun = [entry.method for entry in connection.trace.entries if entry.number > number and entry.direction == "→"]
        assert begun.count("server/discover") == (version == "2026-07-28"), "one of the handshake is not probed again"
        assert (await connection.call("add", a=2, b=2)).text == "4"
    if not asks and "greet" in tools:
        await host.disconnect("tiny")
        connection = await host.connect(target, name="tiny", timeout=60, protocol="handshake")
        asks = ", asks by the handshake" if await greeted(connection) else ""
    return f"{version}{asks}"


async def greeted(connection):
    """Whether the tool that asks was answered."""
    result = await connection.call_tool("greet", {})
    return result.text == "Hello Ada"


async def ada(asked):
    """A person that gives her name."""
    [field] = asked.schema["properties"]
    return Answer("accept", {field: "Ada"})
