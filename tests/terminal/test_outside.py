"""A kernel in a terminal that serves outside agents: it answers while it waits for a line."""

from contextlib import closing

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.kernel_servers import CONNECT_PLAIN, LOAD
from tests.support.terminals import Terminal

SETUP = (LOAD, "import ipykernel.kernelapp", "from mcp_magic import host", CONNECT_PLAIN, "table = [1, 2, 3]")


async def test_an_agent_reads_and_is_denied_at_the_prompt(folder):
    terminal = Terminal(folder, "--no-banner", "--colors=nocolor", "--no-simple-prompt")
    with closing(terminal):
        for line in (*SETUP, "%mcp share table"):
            terminal.run(line)
        serves = terminal.run("%mcp serve --kernel")
        terminal.send("print('at', host.serving.url, host.serving.token_file.read_text(), 'there')")
        terminal.child.expect(r"at (http://\S+/mcp) (\S+) there")
        url, token = terminal.child.match.groups()
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
        async with http, Client(streamable_http_client(url, http_client=http)) as agent:
            read = await agent.call_tool("read_value", {"name": "table"})
            denied = await agent.call_tool("plain__add", {"a": 1, "b": 2})
    assert "A terminal does not ask" in serves
    assert "3" in read.content[0].text
    assert "the kernel is a terminal, where the person is asked nothing between two lines" in denied.content[0].text
