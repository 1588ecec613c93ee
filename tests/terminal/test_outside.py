"""A kernel in a terminal that serves outside agents: it answers while it waits for a line."""

from contextlib import closing

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.kernel_servers import CONNECT_PLAIN, LOAD
from tests.support.terminals import Terminal

SERVED = "print(host.serving.url, host.serving.token_file.read_text(), 'there')"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """A terminal as people use it: an agent comes while it waits for a line."""
    running = Terminal(tmp_path_factory.mktemp("served"), "--no-banner", "--colors=nocolor")
    with closing(running):
        yield running


async def test_an_agent_reads_and_is_denied_at_the_prompt(terminal):
    for line in (LOAD, "from mcp_magic import host", CONNECT_PLAIN, "table = [1, 2, 3]", "%mcp share table"):
        terminal.run(line)
    terminal.run("%mcp serve --kernel")
    terminal.send(SERVED)
    terminal.child.expect(r"(http://\S+/mcp) (\S+) there")
    url, token = terminal.child.match.groups()
    terminal.wait()
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    async with http, Client(streamable_http_client(url, http_client=http)) as agent:
        read = await agent.call_tool("read_value", {"name": "table"})
        denied = await agent.call_tool("plain__add", {"a": 1, "b": 2})
    assert "3" in read.content[0].text
    assert denied.is_error
    assert "the kernel is a terminal, where the person is asked nothing between two lines" in denied.content[0].text
    terminal.send("%mcp serve --stop")
    terminal.child.expect("The kernel is no longer served")
