"""The recorded answer to a request: the right one, in its order, masked or moved as it may be; else the nearest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.errors import CassetteError
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.cassettes import GONE, hosting, replayed
from tests.support.reporting_server import reporting_server
from tests.support.watching import Watching

if TYPE_CHECKING:
    from mcp_magic._host import Host


async def test_cassette_names_nearest_request_and_difference(tape):
    async with hosting(tape, "record") as host:
        math = await host.connect(load("math_server").server, name="math")
        await math.call("add", a=1, b=2)
        await math.call("add", a=5, b=6)
    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        with pytest.raises(CassetteError) as failed:
            await math.call("add", a=1, b=3)
        assert str(failed.value) == (
            "math: add(a=1, b=3) is not in it; the nearest is add(a=1, b=2): arguments.b is 3 here, 2 there.\n"
            f"  (cassette {tape}; `%mcp record FILE --mode auto` adds what is missing)"
        )
        with pytest.raises(CassetteError, match=r"resources/read math://nothing is not in it; it has .*tools/call"):
            await math.read("math://nothing")
        assert (await math.call("add", a=5, b=6)).data == 11


async def test_cassette_replays_calls_as_recorded_and_listings_freely(tape):
    server = MCPServer("counter", log_level="ERROR")
    counted = iter(range(1, 10))

    @server.tool()
    def count() -> int:
        return next(counted)

    async with hosting(tape, "record") as host:
        counter = await host.connect(server)
        assert [(await counter.call("count")).data for _ in range(3)] == [1, 2, 3]
    async with hosting(tape, "replay", in_process="replay") as host:
        counter = await host.connect(server)
        for _ in range(3):
            assert [tool.name for tool in await counter.listing("tools", refresh=True)] == ["count"]
        assert [(await counter.call("count")).data for _ in range(3)] == [1, 2, 3]
        with pytest.raises(CassetteError, match=r"count\(\) was recorded 3 times, and was sent once more"):
            await counter.call("count")
        calls = [entry.kind for entry in host.trace.entries("counter") if entry.method == "tools/call"]
        assert calls[:6] == ["request", "answer"] * 3, "the trace has what is replayed"


async def test_cassette_matches_calls_masked_by_older_version(tape):
    server = MCPServer("vault", log_level="ERROR")

    @server.tool()
    def login(accessKey: str, token_count: int, user: str) -> str:
        return f"hello {user}"

    arguments: dict[str, Any] = {"accessKey": "AKIA-1234", "token_count": 12, "user": "ada"}
    async with hosting(tape, "record") as host:
        await (await host.connect(server)).call("login", **arguments)
    text = tape.read_text("utf-8")
    assert '"accessKey": "***", "token_count": 12' in text
    tape.write_text(text.replace('"***", "token_count": 12', '"AKIA-1234", "token_count": "***"'), "utf-8")
    async with hosting(tape, "replay", in_process="replay") as host:
        vault = await host.connect(server)
        with pytest.raises(CassetteError, match=r"user is .bob. here"):
            await vault.call("login", **{**arguments, "user": "bob"})
        assert (await vault.call("login", **arguments)).text == "hello ada"


async def test_sessions_of_one_name_are_played_in_their_order(tape):
    def server(answer: str, *tools: str) -> MCPServer:
        made = MCPServer("mended", log_level="ERROR")
        for name in tools:
            made.add_tool(lambda: answer, name=name)
        return made

    async def seen(host: Host) -> list[Any]:
        shown = []
        for target in (server("broken", "a"), server("mended", "a", "b")):
            connection = await host.connect(target, name="mended")
            shown += [[tool.name for tool in await connection.listing("tools")], (await connection.call("a")).text]
        return shown

    recorded = await replayed(tape, seen, again=(), in_process="replay")
    assert recorded == [["a"], "broken", ["a", "b"], "mended"]


async def test_cassette_gives_concurrent_calls_their_own_answers(tape):
    async def seen(host: Host, target: Any) -> Any:
        watching = host.reports.reporter = Watching()
        connection = await host.connect(target, name="reports")
        calls = [connection.call("work", values=[n, n + 1], total=100, every=0.01) for n in (10, 20, 30)]
        texts = [result.text for result in await asyncio.gather(*calls)]
        return texts, sorted(report.meter.done for report in watching.reports)

    assert await replayed(tape, seen, reporting_server()) == (["2 reports"] * 3, [11, 21, 31])


async def test_no_secret_is_written_and_what_is_masked_is_found_again(tape, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "env-secret-4711")
    safe = MCPServer("safe", log_level="ERROR")

    @safe.tool()
    def login(user: str, password: str) -> dict[str, str]:
        return {"user": user, "token": "answer-secret-0815", "echo": f"{password} env-secret-4711"}

    @safe.tool()
    def use(text: str) -> str:
        return f"used {text}"

    async def session(host: Host, spec: Any, password: str) -> str:
        connection = await host.connect_spec(spec, "safe")
        got = (await connection.call("login", user="me", password=password)).data
        return (await connection.call("use", text=got["token"])).text

    async with serving(safe.streamable_http_app()) as url:
        spec = HttpSpec(url=f"{url}/mcp", headers={"Authorization": "Bearer header-secret-42"})
        async with hosting(tape, "record") as host:
            await session(host, spec, "call-secret-1234")
            shown = await host.connect(safe)
            await shown.call("login", user="me", password="call-secret-1234")
    text = tape.read_text("utf-8")
    assert [line for line in text.splitlines() if "secret" in line] == []
    assert text.count('"password": "***"') == 2

    monkeypatch.delenv("SHOP_API_KEY")
    async with hosting(tape, "replay") as host:
        assert await session(host, StdioSpec(command=GONE[0]), "another-password") == "used ***"


async def test_cassette_replays_in_another_folder_and_omits_its_own(tape):
    files = MCPServer("files", log_level="ERROR")

    @files.tool()
    def read(path: str) -> str:
        return f"from {path}, file://{path} and {path}/b; not /mnt{path}, nor {path}2"

    async def seen(host: Host, folder: str) -> str:
        connection = await host.connect(files)
        assert (await connection.call("read", path=folder)).text.startswith(f"from {folder}, ")
        return (await connection.call("read", path=f"{folder}/a")).text

    async with hosting(tape, "record", here=Path("/srv/first")) as host:
        await seen(host, "/srv/first")
    async with hosting(tape, "replay", in_process="replay", here=Path("/home/me")) as host:
        said = await seen(host, "/home/me")
    assert said == "from /home/me/a, file:///home/me/a and /home/me/a/b; not /mnt/srv/first/a, nor /home/me/a2"
    others = ("/mnt/srv/first", "/srv/first2")
    text = tape.read_text("utf-8")
    assert [word for word in text.split() if "/srv/first" in word and not any(other in word for other in others)] == []
