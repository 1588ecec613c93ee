"""The proxy in this process, with clients of the SDK in both eras: it passes on, stays through restarts, chooses."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context  # noqa: TC002 # the SDK reads the annotation
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ElicitResult

from mcp_magic.flight import backoff
from mcp_magic.outside import proxy
from mcp_magic.outside.choice import Target, none_serves
from mcp_magic.outside.proxy import Proxy
from tests.support.processes import PYTHON
from tests.support.scripted_kernel import scripted_kernel
from tests.support.stdio_proxy import (
    INITIALIZED,
    connected,
    initialize,
    modern,
    proxied,
    serving,
    started,
    text,
    tools,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("folder")


class Heard:
    """The notifications that a client gets."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def __call__(self, message: Any) -> None:
        self.methods.append(getattr(message, "method", type(message).__name__))


# Passing on


async def test_client_of_each_era_gets_the_kernel(folder, mode):
    steps: list[tuple[float, str | None]] = []

    async def progressed(progress, total, message):
        steps.append((progress, message))

    async with serving(), started(folder, mode=mode) as client:
        assert client.server_info.name == "one"
        assert await tools(client) == ["who", "hold", "steps", "greet"]
        assert text(await client.call_tool("who", {})) == "one"
        result = await client.call_tool("steps", {}, progress_callback=progressed)
        assert (text(result), steps) == ("dØne", [(0, "step 0"), (1, "step 1"), (2, "step 2")])
        assert (await client.call_tool("none", {})).is_error
        with pytest.raises(MCPError, match="none"):
            await client.read_resource("none://x")


async def test_cancelled_call_ends_in_the_kernel(folder, mode):
    async with serving() as (server, _), connected(folder, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("hold", {}))
        await until(lambda: server.log)
        call.cancel()
        await until(lambda: "cancelled" in server.log)
        with suppress(asyncio.CancelledError):
            await call
        assert text(await client.call_tool("who", {})) == "one"


async def test_question_of_the_kernel_reaches_the_client(folder):
    async def answer(context, params):
        assert params.message == "Who is it?"
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with serving(), connected(folder, mode="legacy", elicitation_callback=answer) as client:
        assert text(await client.call_tool("greet", {})) == "one: accept"


async def test_changed_list_reaches_the_client(folder):
    heard = Heard()
    async with serving() as (server, _), connected(folder, mode="legacy", message_handler=heard) as client:
        await client.list_tools()

        async def change(context: Context) -> str:
            await context.session.send_tool_list_changed()
            return "changed"

        server.add_tool(change)
        await client.call_tool("change", {})
        await until(lambda: "notifications/tools/list_changed" in heard.methods)
        assert "change" in await tools(client)


async def test_clients_at_a_time_are_kept_apart(folder, mode):
    async with (
        serving() as (server, _),
        connected(folder, mode=mode) as one,
        connected(folder, mode=mode) as other,
    ):
        call = asyncio.create_task(one.call_tool("hold", {}))
        await until(lambda: server.log)
        assert text(await other.call_tool("who", {})) == "one"
        assert server.log == ["begun"]
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


# Kernels that come and go


async def test_client_hears_of_kernels_that_come_and_go(folder):
    heard = Heard()
    async with connected(folder, mode="legacy", message_handler=heard) as client:
        assert await tools(client) == ["find_kernels"]
        for name in ("one", "two"):
            heard.methods.clear()
            async with serving(name):
                await until(lambda: "notifications/tools/list_changed" in heard.methods)
                assert "who" in await tools(client)
                assert text(await client.call_tool("who", {})) == name
                heard.methods.clear()
            await until(lambda: "notifications/tools/list_changed" in heard.methods)
            assert await tools(client) == ["find_kernels"]


async def test_listening_lasts_from_one_kernel_to_the_next(folder):
    async with connected(folder, mode="auto") as client, client.listen(tools_list_changed=True) as changes:
        for name in ("one", "two"):
            async with serving(name):
                assert await anext(changes) == ToolsListChanged()
                assert text(await client.call_tool("who", {})) == name
            assert await anext(changes) == ToolsListChanged()
            assert await tools(client) == ["find_kernels"]


async def test_call_in_flight_fails_when_the_kernel_restarts(folder, mode):
    async with connected(folder, mode=mode) as client:
        async with serving() as (server, _):
            call = asyncio.create_task(client.call_tool("hold", {}))
            await until(lambda: server.log)
        failed = await call
        assert failed.is_error
        assert "the kernel was restarted or serves no longer; whether it ran is not known" in text(failed)
        async with serving("two"):
            assert text(await client.call_tool("who", {})) == "two"


async def test_killed_kernel_is_left_for_the_next(folder, mode):
    """A real process that is killed: it deletes nothing, and the next one has another port and token."""
    code = (
        "import asyncio\nfrom mcp.server.mcpserver import MCPServer\n"
        "from mcp_magic.outside.serving import serve_kernel\n"
        "async def hold():\n    print('holds', flush=True)\n    await asyncio.Event().wait()\n"
        "async def main():\n"
        "    server = MCPServer('killed')\n    server.add_tool(lambda: 'killed', name='who', description='x')\n"
        "    server.add_tool(hold)\n"
        "    await serve_kernel(server)\n    print('serves', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    program = await asyncio.create_subprocess_exec(PYTHON, "-c", code, stdout=asyncio.subprocess.PIPE)
    try:
        assert program.stdout is not None
        assert await program.stdout.readline() == b"serves\n"
        async with connected(folder, mode=mode) as client:
            assert text(await client.call_tool("who", {})) == "killed"
            call = asyncio.create_task(client.call_tool("hold", {}))
            assert await program.stdout.readline() == b"holds\n"
            program.kill()
            await program.wait()
            assert "whether it ran is not known. Look before you send it again." in text(await call)
            assert text(await client.call_tool("who", {})) == none_serves()
            assert not [*Path(os.environ["JUPYTER_RUNTIME_DIR"], "mcp_magic").iterdir()]
            async with serving("two"):
                assert text(await client.call_tool("who", {})) == "two"
    finally:
        with suppress(ProcessLookupError):
            program.kill()


async def test_agent_uses_one_of_several(folder, mode):
    async with (
        serving("one", JPY_SESSION_NAME="/x/one.ipynb"),
        serving("two", JPY_SESSION_NAME="two.ipynb"),
        connected(folder, mode=mode) as client,
    ):
        assert await tools(client) == ["find_kernels"]
        why = text(await client.call_tool("find_kernels", {}))
        assert "several kernels could be meant" in why
        assert "one.ipynb in " in why
        assert "no kernel 'x' serves" in text(await client.call_tool("find_kernels", {"use": "x"}))
        for name in ("two", "one"):
            assert f"This is {name}.ipynb in" in text(await client.call_tool("find_kernels", {"use": name}))
            assert text(await client.call_tool("who", {})) == name


async def test_kernel_without_a_notebook_is_used_again(folder, mode):
    async with connected(folder, mode=mode) as client:
        async with serving("one") as (_, served):
            port = served.kernel.port
            assert "This is a kernel without" in text(await client.call_tool("find_kernels", {"use": str(port)}))
            assert text(await client.call_tool("who", {})) == "one"
        async with serving("two") as (_, served):
            assert served.kernel.port != port
            assert text(await client.call_tool("who", {})) == "two"


async def test_usual_choice_counts_after_the_used_kernel(folder, mode):
    async with serving("one", JPY_SESSION_NAME="one.ipynb"), connected(folder, mode=mode) as client:
        async with serving("two", JPY_SESSION_NAME="two.ipynb"):
            assert "This is two.ipynb in" in text(await client.call_tool("find_kernels", {"use": "two"}))
            assert text(await client.call_tool("who", {})) == "two"
        assert text(await client.call_tool("who", {})) == "one"


async def test_kernel_that_was_typed_stays_the_only_one(folder, mode):
    async with serving(), connected(folder, "--kernel", "typed.ipynb", mode=mode) as client:
        why = text(await client.call_tool("who", {}))
        assert "no kernel 'typed.ipynb' serves" in why
        assert "To use one, call `find_kernels` with `use`" in why


# Streams that are cut


FOLLOW = {
    "auto": [modern(1, "subscriptions/listen", notifications={"toolsListChanged": True})],
    "legacy": [initialize(), INITIALIZED],
}


async def test_stream_that_is_cut_is_opened_again_after_growing_pauses(folder, mode, slept, monkeypatch):
    def pauses():
        return [seconds for seconds in slept if seconds != proxy.LOOK_SECONDS]

    async with scripted_kernel(folder, cuts=True) as kernel, proxied(folder, *FOLLOW[mode]) as written:
        await until(lambda: kernel.streams >= 9)
        assert pauses()[:8] == [0.5, 1, 2, 4, 8, 16, 30, 30]
        monkeypatch.setattr(backoff, "LASTED_SECONDS", -1)  # the next one has lasted, and so on
        await until(lambda: pauses()[-2:] == [0.5, 0.5])
        told = [message for message in written if message.get("method") == "notifications/tools/list_changed"]
        assert len(told) >= 8, "something may be missed while it is not open"
        kernel.cuts = False
        before = kernel.streams
        await until(lambda: kernel.streams > before)


async def test_one_stream_is_open_however_often_a_client_begins(folder):
    ping = {"id": 7, "method": "ping"}
    messages = [initialize(), *[INITIALIZED] * 5, ping]
    async with scripted_kernel(folder) as kernel, proxied(folder, *messages) as written:
        await until(lambda: kernel.streams and "ping" in kernel.methods)
        await until(lambda: any(message.get("id") == 7 for message in written))
        assert kernel.streams == 1


async def test_level_of_the_log_lasts_from_one_kernel_to_the_next(folder):
    level = {"id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}
    async with proxied(folder, initialize(), INITIALIZED, level):
        for _ in range(2):
            async with scripted_kernel(folder) as kernel:
                await until(lambda kernel=kernel: "logging/setLevel" in kernel.methods)


async def test_line_of_a_cancelled_request_is_written_to_its_end(folder, monkeypatch):
    monkeypatch.setattr(proxy, "END_SECONDS", 0.2)
    begun: list[bytes] = []
    is_read = threading.Event()

    def write(line):
        begun.append(line)
        is_read.wait(60)

    async def following():
        yield json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        await until(lambda: begun)
        for message in ({"method": "notifications/cancelled", "params": {"requestId": 1}}, {"id": 2, "method": "ping"}):
            yield json.dumps({"jsonrpc": "2.0", **message}).encode()

    await Proxy(Target((folder,)), write).run(following())
    assert [json.loads(line)["id"] for line in begun] == [1]
    is_read.set()
    await until(lambda: len(begun) == 2)
