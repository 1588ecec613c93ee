"""What is said of why a tool failed or ended its server: its own new words, and where the rest is."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from tests.support.asgi import serving
from tests.support.processes import PLAIN, children
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

HALF = '''
import asyncio, os, sys
from mcp.server import MCPServer

server = MCPServer("half")

@server.tool()
def bad(a: int) -> str:
    """Fails."""
    raise ValueError("<b>no ink</b> for " + os.environ["API_TOKEN"])

late = []

@server.tool()
async def together(a: int) -> str:
    """Fails when three calls have come."""
    late.append(a)
    while len(late) < 3:
        await asyncio.sleep(0.01)
    raise ValueError(f"no ink for {a}")

@server.tool()
def noisy() -> str:
    """Writes much."""
    print("one\\ntwo\\nthree", file=sys.stderr)
    return "done"

@server.tool()
def silent() -> str:
    """Fails, and its log says nothing."""
    import logging
    logging.disable(logging.CRITICAL)
    raise KeyError("x")

@server.tool()
def die() -> str:
    """Ends."""
    os._exit(3)

server.run()
'''


async def said(connection: Connection, tool: str, **arguments: object) -> str:
    with pytest.raises(errors.MCPMagicError) as caught:
        await connection.call(tool, **arguments)
    return f"{type(caught.value).__name__}: {caught.value}"


async def test_failure_of_tool_or_server_has_its_own_words(host: Host, tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(HALF)
    program = [sys.executable, str(tmp_path / "half.py")]
    half = await host.connect(program, name="half", env={"API_TOKEN": "sesame-123"})

    cause = "ToolError: half:bad failed: ValueError: <b>no ink</b> for *** (`%mcp logs half` has more)"
    assert await said(half, "bad", a=1) == cause
    await half.call("noisy")
    assert await asyncio.gather(*(said(half, "bad", a=1) for _ in range(3))) == [cause] * 3, "whoever calls beside it"

    failures = await asyncio.gather(*(said(half, "together", a=a) for a in range(3)))
    for a, failure in enumerate(failures):
        assert failure.startswith("ToolError: half:together failed")
        assert not [other for other in range(3) if other != a and f"no ink for {other}" in failure], failure

    assert await said(half, "silent") == "ToolError: half:silent failed and did not say why; `%mcp logs half` may"
    await half.call("noisy")
    ended = "(exit code 3) before the answer came, so it may have run; `%mcp reconnect half` opens it again."
    assert await said(half, "die") == f"SessionClosedError: half:die: the session has ended {ended}"
    later = "SessionClosedError: half: the session has ended (exit code 3); `%mcp reconnect half` opens it again."
    assert await said(half, "die") == later


async def test_a_remote_server_is_said_to_know_why_a_tool_of_it_raised(host: Host) -> None:
    server = MCPServer("web")

    @server.tool()
    def bad() -> int:
        """Fails."""
        raise KeyError("no ink")

    async with serving(server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="web")
        own = "ToolError: web:bad failed and did not say why; the server's own log may"
        assert await said(connection, "bad") == own
        await host.disconnect("web")


async def test_a_server_that_was_killed_between_calls_says_by_what(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    children()[0].kill()
    await until(lambda: connection.state == "lost")
    await until(lambda: "has ended (SIGKILL);" in connection.problem)
