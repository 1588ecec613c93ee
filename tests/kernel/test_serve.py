"""`%mcp serve --kernel` in a real kernel, and `python -m mcp_magic proxy` as the server of an agent outside."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.support.kernel_servers import LOAD
from tests.support.kernels import environment, until
from tests.support.outside_kernel import served
from tests.support.processes import PYTHON

SHOP = "%%mcp_server shop\ndef price(item: str) -> float:\n    return 2.0"
ALLOWED = "%mcp allow shop:price --for 'outside mcp' --first"
SETUP = [LOAD, "from mcp_magic import host", SHOP]


@asynccontextmanager
async def agent(folder, shown, **options):
    """Start the command that the line shows, as a client does."""
    text = shown.text
    command = json.loads(text[text.index("{") : text.index("\n}\n") + 2])["mcpServers"]["kernel"]
    own = StdioServerParameters(command=command["command"], args=command["args"], cwd=folder, env=environment(folder))
    async with Client(stdio_client(own), **options) as client:
        yield client


async def tools(client):
    return [tool.name for tool in (await client.list_tools()).tools]


def runtime_files(folder):
    return sorted(folder.glob(".local/share/jupyter/runtime/mcp_magic/kernel-*"))


async def test_agent_reaches_the_kernel_by_the_entry_that_is_shown(kernel, folder):
    shown = kernel.ok("%mcp serve --kernel")
    assert f'"command": "{PYTHON}"' in shown.text
    for entry in (".mcp.json", "claude mcp add kernel -- ", "[mcp_servers.kernel]", ".vscode/mcp.json"):
        assert entry in shown.text
        assert entry in shown.data["text/html"].replace("&quot;", '"')
    assert kernel.ok("%mcp serve --kernel").text == shown.text, "it is the same again"
    runtime, token = runtime_files(folder)
    listing = kernel.ok("%mcp serve")
    url = re.search(r"http\S+/mcp", shown.text)[0]
    assert re.search(rf"this kernel +{url}", listing.text)
    secret = token.read_text()
    outputs = [shown.text, shown.data["text/html"], listing.text, kernel.ok("%mcp trace").text, runtime.read_text()]
    assert [text for text in (*outputs, kernel.ok("host.serving").text) if secret in text] == []
    async with agent(folder, shown) as client:
        assert "shop__price" in await tools(client)
        denied = await client.call_tool("shop__price", {"item": "x"})
        assert denied.is_error
        assert "shop:price was not called" in denied.content[0].text
        assert re.search(rf"this kernel +{url} +mcp ", kernel.ok("%mcp serve").text)
        kernel.ok(ALLOWED)
        cell = kernel.start("import time\nfor _ in range(600): time.sleep(0.1)")
        assert "shop__price" in await tools(client), "a kernel that computes answers"
        waiting = asyncio.create_task(client.call_tool("shop__price", {"item": "x"}))
        kernel.interrupt()
        kernel.finish(cell)
        assert (await waiting).structured_content == {"result": 2.0}
    until(lambda: re.search(rf"this kernel +{url} +none ", kernel.ok("%mcp serve").text))
    async with agent(folder, shown, mode="legacy", client_info=Implementation(name="coder", version="1")) as client:
        await tools(client)
        stopped = kernel.ok("%mcp serve --stop").text
        assert "The kernel is no longer served. Cut off: coder." in stopped
    assert runtime_files(folder) == []
    assert "this kernel is not served" in kernel.run("%mcp serve --kernel --stop").evalue
    assert "nothing is served" in kernel.run("%mcp serve --stop").evalue


async def test_call_waits_for_a_cell_and_says_so(kernel, folder):
    kernel.ok("from pathlib import Path")
    kernel.ok("%mcp allow shop:price --for outside --first")
    url, token = served(kernel)
    busy, free = folder / "busy", folder / "free"
    cell = f"Path({str(busy)!r}).touch()\nwhile not Path({str(free)!r}).exists():\n    pass"
    told = []

    async def progressed(progress, total, message):
        told.append(message)
        free.touch()

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await client.list_tools()
        running = asyncio.create_task(asyncio.to_thread(kernel.ok, cell))
        while not busy.exists():
            await client.list_tools()
        assert "shop__price" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("shop__price", {"item": "tea"}, progress_callback=progressed)
        await running
    assert (result.is_error, result.structured_content) == (False, {"result": 2.0})
    assert told[0] == "the kernel runs a cell, for 1 s"
    kernel.ok("%mcp serve --stop")


async def test_agent_stays_through_a_restart(kernel, folder):
    shown = kernel.ok("%mcp serve --kernel")
    first = runtime_files(folder)[1].read_text()
    async with agent(folder, shown, mode="legacy") as client:
        assert "shop__price" in await tools(client)
        kernel.restart()
        assert await tools(client) == ["find_kernels"]
        assert runtime_files(folder) == []
        kernel.ok(LOAD)
        kernel.ok(SHOP)
        kernel.ok("%mcp serve --kernel")
        assert "shop__price" in await tools(client)
    runtime, token = runtime_files(folder)
    assert token.read_text() != first
    url = f"http://127.0.0.1:{json.loads(runtime.read_text())['port']}/mcp"
    async with httpx2.AsyncClient() as http:
        assert (await http.post(url, headers={"Authorization": f"Bearer {first}"})).status_code == 401
    kernel.ok("%unload_ext mcp_magic")
    until(lambda: runtime_files(folder) == [])


@pytest.mark.parametrize(("again", "options"), [("reload", ""), ("unload", " --code")])
def test_reloading_says_that_the_kernel_is_not_served(kernel, folder, again, options):
    kernel.ok(LOAD)
    kernel.ok(f"%mcp serve --kernel{options}")
    said = kernel.ok(f"%{again}_ext mcp_magic").streams["stdout"]
    cut = "The kernel is no longer served. No agent was connected."
    assert said == f"{cut} With mcp_magic loaded, `%mcp serve --kernel{options}` serves it again.\n"
    assert runtime_files(folder) == []
    kernel.ok(LOAD)
    assert kernel.ok(f"%{again}_ext mcp_magic").streams == {}


async def test_code_is_run_only_with_the_option(kernel, folder):
    kernel.ok(LOAD)
    async with agent(folder, kernel.ok("%mcp serve --kernel")) as client:
        assert "run_code" not in await tools(client)
        without = "this kernel is served without run_code; `%mcp serve --kernel --stop` ends that"
        assert without in kernel.run("%mcp serve --kernel --code").evalue
        kernel.ok("%mcp serve --stop")
        assert "each program that they run" in kernel.ok("%mcp serve --kernel --code").text
        assert "run_code" in await tools(client)
        kernel.ok("%mcp allow '*' --for outside --first")
        denied = await client.call_tool("run_code", {"code": "hacked = 1"})
        assert denied.is_error
        assert kernel.run("hacked").ename == "NameError"
    kernel.ok("%mcp serve --stop")


def test_lines_that_make_no_sense_say_why(kernel):
    for line, said in (
        ("serve shop --kernel", "leave SERVER and --cassette out"),
        ("serve --port 1", "which server?"),
        ("serve --code", "--code and --to FILE go with --kernel"),
    ):
        kernel.ok(LOAD)
        assert said in kernel.run(f"%mcp {line}").evalue
