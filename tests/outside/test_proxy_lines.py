"""The proxy as a process, with a client of lines: what no client of the SDK sends, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import sys
import termios
from typing import Any

import pytest

from tests.support.scripted_kernel import scripted_kernel
from tests.support.stdio_proxy import INITIALIZED, call, initialize, lines, modern, notebook_folder, serving
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the notebook, where the client runs."""
    return notebook_folder(tmp_path, monkeypatch)


async def test_late_answer_never_answers_the_next_kernel(folder):
    async with lines(folder) as client:
        async with serving("one"):
            await client.send(initialize(elicitation={}), INITIALIZED, call(1, "greet"))
            first = await client.receive(method="elicitation/create")
        ended: dict[Any, Any] = {}
        while not {1, "notifications/cancelled"} <= ended.keys():  # in any order
            message = await client.receive()
            ended[message.get("id", message.get("method"))] = message
        assert ended["notifications/cancelled"]["params"]["requestId"] == first["id"]
        assert "restarted" in str(ended[1])
        async with serving("two") as (server, _):
            await client.send(call(2, "greet"))
            second = await client.receive(method="elicitation/create")
            accepted = {"result": {"action": "accept", "content": {"name": "x"}}}
            await client.send({"id": first["id"], **accepted}, {"id": 0, **accepted}, {"id": "roots", **accepted})
            await client.send(call(3, "who"))
            assert (await client.receive(id=3))["result"]["content"][0]["text"] == "two"
            assert server.log == ["asks"]
            await client.send({"id": second["id"], "result": {"action": "decline"}})
            assert (await client.receive(id=2))["result"]["content"][0]["text"] == "two: decline"
            assert [message for message in client.seen if message.get("id") == 2] == client.seen[-1:]


async def test_lines_that_are_no_message_are_answered_and_end_nothing(folder):
    async with lines(folder) as client:
        await client.send(b"nonsense", b"[1, 2]", b"", b"\xff\xfe", b'"x"', {"id": None, "method": "ping"}, {"id": 1})
        await client.send({"id": 5, "method": "ping"})
        assert (await client.receive(id=5))["result"] == {}
        errors = [(message["id"], message["error"]["code"]) for message in client.seen[:-1]]
        assert sorted(errors, key=str) == [(1, -32600), *[(None, -32600)], *[(None, -32700)] * 4]


async def test_proxy_ends_with_its_stdin_and_prints_nothing_else(folder):
    async with serving() as (server, _), lines(folder) as client:
        await client.send(initialize(), INITIALIZED, call(1, "hold"))
        await until(lambda: server.log)
        assert client.program.stdin is not None
        client.program.stdin.close()
        async with asyncio.timeout(30):
            out, problems = await client.program.communicate()
        assert client.program.returncode == 0
        assert problems == b""
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
        await until(lambda: "cancelled" in server.log)


async def test_folder_comes_from_the_clients_roots(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    async with serving(), lines(tmp_path / "elsewhere") as client:
        await client.send(initialize(roots={}))
        assert "no kernel serves in" in (await client.receive(id=0))["result"]["instructions"]
        await client.send(INITIALIZED)
        asked = await client.receive(method="roots/list")
        await client.send({"id": asked["id"], "result": {"roots": [{"uri": folder.as_uri()}, {"uri": 5}, 5]}})
        await client.receive(method="notifications/tools/list_changed")
        await client.send(call(1, "who"))
        assert (await client.receive(id=1))["result"]["content"][0]["text"] == "one"


async def test_batch_and_messages_before_initialize_are_answered(folder):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(), lines(folder) as client:
        await client.send(
            json.dumps([{**ping, "id": "a"}, 5, {**ping, "id": "b"}]).encode(),
            {"method": "notifications/cancelled"},
            call(2, "who"),
        )
        assert {(await client.receive())["id"] for _ in range(3)} == {"a", "b", 2}
        await client.send(initialize(), INITIALIZED, call(3, "who"))
        assert (await client.receive(id=3))["result"]["content"][0]["text"] == "one"


async def test_second_request_with_an_id_in_flight_is_refused(folder):
    async with serving() as (server, _), lines(folder) as client:
        await client.send(initialize(), INITIALIZED, call(1, "hold"))
        await until(lambda: server.log)
        await client.send(
            json.dumps([{"jsonrpc": "2.0", **call(1, "who")}, {"jsonrpc": "2.0", **call(2, "who")}]).encode()
        )
        assert (await client.receive(id=1))["error"] == {
            "code": -32600,
            "message": "a request with the id 1 is in flight; each has an id of its own",
        }
        assert (await client.receive(id=2))["result"]["content"][0]["text"] == "one"
        assert server.log == ["begun"]
        for _ in range(20):
            await client.send(call(2, "who"))  # answered, so it is free
            assert "result" in await client.receive(id=2)


async def test_half_a_line_at_the_end_is_answered(folder):
    async with lines(folder) as client:
        out, problems = await client.program.communicate(b'{"jsonrpc": "2.0", "id": 1, "method": "pi')
    assert (json.loads(out)["error"]["code"], problems, client.program.returncode) == (-32700, b"", 0)


async def test_method_that_no_header_can_have_is_answered(folder):
    async with serving(), lines(folder) as client:
        for method in ("töols/call", "a\nb", " ", "x" * 100_000):
            await client.send(modern(1, method))
            assert "error" in await client.receive(id=1)
        await client.send(modern(2, "tools/call", name="who", arguments={}))
        assert (await client.receive(id=2))["result"]["content"][0]["text"] == "one"


async def test_long_line_is_passed_on(folder):
    async with serving() as (server, _), lines(folder) as client:
        server.add_tool(lambda text: f"{len(text)}", name="length", description="Counts.")
        await client.send(initialize(), INITIALIZED, call(1, "length", text="x" * 3_000_000))
        assert "3000000" in str(await client.receive(id=1))
        await client.send(call(2, "length", text="x" * 20_000_000))
        said = "is larger than the kernel takes; nothing was called. Send less, or pass data by reference"
        assert said in (await client.receive(id=2))["result"]["content"][0]["text"]
        await client.send(call(3, "who"))
        assert (await client.receive(id=3))["result"]["content"][0]["text"] == "one"


def is_full(pipe):
    """Whether the next message does not fit into a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder) > 50_000


@pytest.mark.parametrize("way", ["stdin", "signal"])
async def test_proxy_ends_although_its_client_does_not_read(folder, way):
    async with lines(folder) as client:
        transport = client.program._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        transport.pause_reading()
        await client.send(*({"id": n, "method": "tools/list"} for n in range(1000)))
        await until(lambda: is_full(transport.get_extra_info("pipe")))
        if way == "stdin":
            client.program.stdin.close()
        else:
            client.program.terminate()
        async with asyncio.timeout(30):
            await until(lambda: client.program.returncode == 0)
        transport.resume_reading()
        await client.program.stdout.read()


async def test_signal_ends_the_session_with_the_kernel(folder):
    async with scripted_kernel(folder) as kernel, lines(folder) as client:
        await client.send(initialize(), INITIALIZED)
        await until(lambda: kernel.streams)
        client.program.terminate()
        assert await client.program.wait() == 0
    assert kernel.methods[-1] == "DELETE"


async def test_agent_with_another_home_is_told_what_to_set(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("JUPYTER_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "mine"))
    async with serving() as (_, served):
        async with lines(folder, HOME=str(tmp_path / "theirs")) as client:
            await client.send(call(1, "who"))
            said = (await client.receive(id=1))["result"]["content"][0]["text"]
            assert f"there is none in {tmp_path}/theirs/.local/share/jupyter/runtime/mcp_magic. " in said
            assert "shows its token in DIR/mcp_magic/, and JUPYTER_RUNTIME_DIR=DIR goes into the `env`" in said
        there = str(served.token_file.parent.parent)
        async with lines(folder, HOME=str(tmp_path / "theirs"), JUPYTER_RUNTIME_DIR=there) as client:
            await client.send(initialize(), INITIALIZED, call(1, "who"))
            assert (await client.receive(id=1))["result"]["content"][0]["text"] == "one"


async def test_folder_may_have_any_name(folder, tmp_path):
    odd = folder / "ein Ordner, {ö} $x 'y'\n"
    odd.mkdir()
    async with lines(tmp_path, "--folder", str(odd)) as client:
        await client.send(initialize(), INITIALIZED, {"id": 5, "method": "ping"})
        await client.receive(id=5)
        with contextlib.chdir(odd):
            async with serving("odd", JPY_SESSION_NAME="n ö.ipynb"):
                await client.receive(method="notifications/tools/list_changed")
                await client.send(call(1, "who"), call(2, "find_kernels", use="n ö"))
                assert (await client.receive(id=1))["result"]["content"][0]["text"] == "odd"
