"""Mock servers and clients that others wrote: each gets the recorded answers of a tutorial, over HTTP and stdio."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from langchain.agents import create_agent

from mcp_magic import Host, ScriptedModel
from mcp_magic.server.mock import MockThread
from tests.environments import (
    TYPESCRIPT_PACKAGES,
    cache,
    folder_of,
    make_adapters,
    make_clients,
    make_node,
    make_sdk,
    needs_node,
)
from tests.support.agents import answers, asked

CASSETTE = Path(__file__).parents[2] / "notebooks" / "cassettes" / "quickstart.jsonl"
COMMAND = [sys.executable, "-m", "mcp_magic", "serve", "math", "--cassette", str(CASSETTE), "--stdio"]
NEAREST = "the nearest is add(a=19, b=23): arguments.b is 24 here, 23 there."

# Each program gets the URL of the mock server or the words of its command, calls `add` as it was recorded, then as it
# was not, and prints the answers.

FASTMCP = """
import asyncio, site, sys
site.addsitedir(sys.argv[1])
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def main(first, *words):
    async with Client(StdioTransport(first, list(words)) if words else first) as client:
        print((await client.call_tool("add", {"a": 19, "b": 23})).structured_content["result"])
        try:
            await client.call_tool("add", {"a": 19, "b": 24})
        except Exception as error:
            print(error)

asyncio.run(main(*sys.argv[2:]))
"""

ADAPTERS = """
import asyncio, sys
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient

class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self

async def main(first, *words):
    stdio = {"transport": "stdio", "command": first, "args": list(words)}
    server = stdio if words else {"transport": "streamable_http", "url": first}
    tools = await MultiServerMCPClient({"math": server}).get_tools()
    for b in (23, 24):
        call = {"name": "add", "args": {"a": 19, "b": b}, "id": "1"}
        model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
        try:
            state = await create_agent(model, tools).ainvoke({"messages": [("user", "go")]})
            print(state["messages"][-2].text)
        except Exception as error:
            print(error)

asyncio.run(main(*sys.argv[1:]))
"""

TYPESCRIPT_1 = """
const [sdk, first, ...words] = process.argv.slice(2)
const { Client } = await import(`${sdk}/dist/esm/client/index.js`)
const { StdioClientTransport } = await import(`${sdk}/dist/esm/client/stdio.js`)
const { StreamableHTTPClientTransport } = await import(`${sdk}/dist/esm/client/streamableHttp.js`)
const overStdio = words.length ? new StdioClientTransport({ command: first, args: words }) : undefined
const client = new Client({ name: "test", version: "1" }, { capabilities: {} })
await client.connect(overStdio ?? new StreamableHTTPClientTransport(new URL(first)))
console.log((await client.callTool({ name: "add", arguments: { a: 19, b: 23 } })).structuredContent.result)
await client.callTool({ name: "add", arguments: { a: 19, b: 24 } }).catch((error) => console.log(error.message))
await client.close()
"""

TYPESCRIPT_2 = """
const [sdk, mode, first, ...words] = process.argv.slice(2)
const { Client, StreamableHTTPClientTransport } = await import(`${sdk}/dist/index.mjs`)
const { StdioClientTransport } = await import(`${sdk}/dist/stdio.mjs`)
const overStdio = words.length ? new StdioClientTransport({ command: first, args: words }) : undefined
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } })
await client.connect(overStdio ?? new StreamableHTTPClientTransport(new URL(first)))
console.log((await client.callTool({ name: "add", arguments: { a: 19, b: 23 } })).structuredContent.result)
await client.callTool({ name: "add", arguments: { a: 19, b: 24 } }).catch((error) => console.log(error.message))
if (client.getNegotiatedProtocolVersion() != { auto: "2026-07-28", legacy: "2025-11-25" }[mode]) throw mode
await client.close()
"""


def programs(client: str, folder: Path, target: list[str]) -> list[list[str]]:
    """Return the command lines of a client that are run one after the other, and install it."""
    node, code = shutil.which("node") or "node", {"fastmcp": FASTMCP, "langchain": ADAPTERS}
    kind, _, mode = client.partition(" ")
    program = folder / ("client.py" if kind in code else "client.mjs")
    if kind == "fastmcp":
        make_sdk(client)
        command = [sys.executable, "-S", str(program), str(cache() / folder_of(client))]
    elif kind == "langchain":
        make_adapters()
        command = [str(cache() / "adapters" / "bin" / "python"), str(program)]
    elif client == "typescript 1":
        make_node("typescript", TYPESCRIPT_PACKAGES)
        command = [node, str(program), str(cache() / "typescript" / "node_modules" / "sdk-1")]
    else:
        make_clients()
        modules = cache() / "clients" / "node_modules" / "@modelcontextprotocol"
        command = [node, str(program), str(modules / "client"), mode]
        if kind == "inspector":
            command = [node, str(modules / "inspector" / "clients" / "launcher" / "build" / "index.js")]
            command += ["--cli", "--connect-timeout", "120000"]
            call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=19", "--tool-arg"]
            url, words = ([], ["--", *target]) if target[1:] else ([*target, "--transport", "http"], [])
            return [[*command, *url, *call, b, *words] for b in ("b=23", "b=24")]
    program.write_text(code.get(kind, TYPESCRIPT_1 if client == "typescript 1" else TYPESCRIPT_2))
    return [[*command, *target]]


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize(
    "client",
    [
        "fastmcp 3.4.10",
        "fastmcp 4.1.0",
        "langchain",
        *(
            pytest.param(name, marks=needs_node)
            for name in ("typescript 1", "typescript-2 auto", "typescript-2 legacy", "inspector")
        ),
    ],
)
async def test_clients_of_others_get_the_recorded_answers(tmp_path, client, transport):
    with MockThread() as mocks:
        target = COMMAND if transport == "stdio" else [mocks.serve(CASSETTE, "math")]
        output = ""
        for words in programs(client, tmp_path, target):
            environment = {**os.environ, "HOME": str(tmp_path)}  # the Inspector keeps a folder there
            process = await asyncio.create_subprocess_exec(
                *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
            )
            output += "".join(part.decode() for part in await process.communicate())
    assert "42" in output.partition(NEAREST)[0]
    assert NEAREST in output


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_tools_of_this_host_play_it_to_a_langchain_agent(transport):
    turns = [[("math__add", {"a": 19, "b": 23}), ("math__add", {"a": 19, "b": 24})], "done"]
    with MockThread() as mocks:
        async with Host() as host:
            host.consent.policy = "auto"
            await host.connect(COMMAND if transport == "stdio" else mocks.serve(CASSETTE, "math"), name="math")
            agent = create_agent(ScriptedModel(turns), host.langchain_tools())
            recorded, other = answers(await agent.ainvoke(asked()))
    assert recorded == ("success", "42")
    assert (other[0], NEAREST.rstrip(".") in other[1]) == ("error", True)
