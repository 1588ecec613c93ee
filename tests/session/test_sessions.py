"""Sessions: how they last, how they end, what is said about it."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic._host import Host
from mcp_magic.config.specs import HttpSpec, StdioSpec
from tests.environments import ROOT
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import load
from tests.support.processes import PLAIN, children
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.session.connection import Connection


async def test_a_session_is_used_by_tasks_that_did_not_open_it(host: Host) -> None:
    await asyncio.create_task(host.connect(PLAIN, name="math"))
    results = await asyncio.gather(*(asyncio.create_task(host.call("math:add", a=n, b=1)) for n in range(20)))
    assert [result.data for result in results] == list(range(1, 21))
    await asyncio.create_task(host.disconnect("math"))
    assert "math" not in host


async def test_same_server_reuses_session_and_another_gets_a_number(host: Host) -> None:
    first = await host.connect(PLAIN)
    assert await host.connect(PLAIN) is first
    assert len(children()) == 1
    assert (await host.connect([*PLAIN, "2025-06-18"])).name == f"{first.name}_2"


async def test_connection_info_is_a_value_that_does_not_change(host: Host) -> None:
    connection = await host.connect(load("math_server").server, name="math")
    await connection.call("add", a=1, b=2)
    info = connection.info()
    await connection.close()

    assert (info.state, info.calls, info.failures, info.problem) == ("open", connection.calls, 0, "")
    assert (info.counts["tools"], info.row(why="asked")["tools"], info.row(why="asked")["why"]) == (8, 8, "asked")
    assert info._repr_mimebundle_()["text/plain"].startswith("math: open\n")
    assert connection.info().state == "closed"
    assert "%mcp reconnect math" in connection._repr_mimebundle_()["text/plain"]


async def test_a_name_that_is_given_is_taken_over_by_another_server(host: Host) -> None:
    old = await host.connect(PLAIN, name="s")
    new = await host.connect(load("math_server").server, name="s")
    assert host["s"] is new
    assert old.state == "closed"


async def test_redefined_server_object_takes_over_its_name(host: Host) -> None:
    old = await host.connect(MCPServer("notes"))
    new = await host.connect(MCPServer("notes"))
    assert (old.state, new.state, list(host)) == ("closed", "open", ["notes"])


async def test_server_that_dies_in_a_call_is_reported_with_last_words(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    with pytest.raises(errors.SessionClosedError) as caught:
        await connection.call("die", message="out of ink")
    assert str(caught.value) == (
        "show:die: the session has ended (exit code 3) before the answer came, so it may have run; "
        "`%mcp reconnect show` opens it again.\n  stderr: out of ink"
    )
    assert connection.state == "lost"


async def test_server_that_dies_while_idle_is_noticed_and_reopens(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    children()[0].kill()
    await until(lambda: connection.state == "lost")
    with pytest.raises(errors.SessionClosedError, match="`%mcp reconnect show` opens it again"):
        await connection.call("process")
    again = await host.reconnect("show")
    assert host["show"] is again
    assert not (await again.call("process")).is_error


async def test_other_sessions_are_undisturbed_by_one_that_dies(host: Host) -> None:
    server, go_on = MCPServer("slow"), asyncio.Event()

    @server.tool()
    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "waited"

    show = await host.connect(PLAIN, name="show")
    math = await host.connect(PLAIN, name="math")
    waiting = asyncio.create_task((await host.connect(server)).call("wait"))
    with pytest.raises(errors.SessionClosedError):
        await show.call("die")
    assert (await math.call("add", a=1, b=1)).data == 2
    go_on.set()
    assert (await waiting).text == "waited"


async def test_connecting_to_lost_server_reopens_its_session(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    with pytest.raises(errors.SessionClosedError):
        await connection.call("die")
    assert await host.connect(PLAIN, name="show") is connection
    assert not (await connection.call("process")).is_error


async def test_an_http_server_that_goes_away_is_reported(host: Host) -> None:
    async with serving(load("showcase_server").server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
    host.reconnection.wait = 1.0
    said = r"`%mcp reconnect show` tries it at once\.\n  last: show: nothing listens"
    with pytest.raises(errors.SessionClosedError, match=said):
        await connection.call("count")
    assert connection.state == "reconnecting"


async def test_http_loss_is_reported_at_once_without_reconnecting(host: Host) -> None:
    host.reconnection.mode = "off"
    async with serving(load("showcase_server").server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
    with pytest.raises(errors.SessionClosedError, match=r"`%mcp reconnect show` opens it again\."):
        await connection.call("count")
    await until(lambda: connection.state == "lost")


async def test_a_closed_session_says_so(host: Host) -> None:
    connection = await host.connect(load("math_server").server)
    await connection.close()
    await connection.close()
    assert connection.state == "closed"
    with pytest.raises(errors.SessionClosedError, match="`%mcp reconnect"):
        await connection.call("add", a=1, b=1)


async def test_a_program_leaves_a_host_with_all_its_sessions() -> None:
    async with Host() as host:
        math = await host.connect(PLAIN, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        late = asyncio.create_task(host.connect(PLAIN, name="show"))
        await asyncio.sleep(0)
    assert (math.state, list(host), children()) == ("closed", [], [])
    with pytest.raises(errors.SessionClosedError):
        await late


# A streamable-HTTP server that forgets a session


def counting() -> tuple[MCPServer, list[int]]:
    server = MCPServer("counting")
    runs: list[int] = []

    @server.tool()
    async def count(seconds: float = 0.0) -> int:
        """Count."""
        runs.append(1)
        await asyncio.sleep(seconds)
        return len(runs)

    return server, runs


async def test_forgotten_session_is_renewed_and_call_runs_once(host: Host) -> None:
    import httpx2

    made: list[httpx2.AsyncClient] = []

    def factory(**options: Any) -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient(**options))
        return made[-1]

    server, runs = counting()
    app = Forgetful(server.streamable_http_app())
    async with serving(app) as url:
        connection = await host.connect_spec(HttpSpec(url=f"{url}/mcp", client_factory=factory), "counting")
        assert (await connection.call("count")).data == 1
        app.forget()
        assert (await connection.call("count")).data == 2
        assert len(runs) == 2
        assert [method for method, _ in app.requests].count("initialize") == 2
        assert len(made) == 1, "the new session uses the same HTTP client"
        await host.disconnect("counting")


async def test_concurrent_calls_renew_a_forgotten_session_once(host: Host) -> None:
    server, runs = counting()
    app = Forgetful(server.streamable_http_app())
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="counting")
        app.forget()
        results = await asyncio.gather(*(connection.call("count") for _ in range(5)))
        assert sorted(result.data for result in results) == [1, 2, 3, 4, 5]
        assert len(runs) == 5
        assert [method for method, _ in app.requests].count("initialize") == 2
        await host.disconnect("counting")


# Interrupting and time-outs


async def cancel_a_slow_call(connection: Connection, **arguments: float) -> None:
    started = asyncio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    call = asyncio.create_task(connection.call_tool("slow", arguments, on_progress=progressed))
    async with asyncio.timeout(60):
        await started.wait()
    begun = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - begun < 20.0


async def assert_told_and_usable(connection: Connection) -> None:
    async with asyncio.timeout(60):
        while (await connection.call("cancellations")).data == 0:
            await asyncio.sleep(0.02)


async def test_a_cancelled_call_is_cancelled_on_a_stdio_server(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    await cancel_a_slow_call(connection)
    await assert_told_and_usable(connection)


async def test_a_cancelled_call_is_cancelled_on_an_http_server(host: Host) -> None:
    async with serving(load("showcase_server").server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
        await cancel_a_slow_call(connection, seconds=30)
        await assert_told_and_usable(connection)
        await host.disconnect("show")


async def test_a_cancelled_call_is_cancelled_on_an_in_process_server(host: Host) -> None:
    connection = await host.connect(load("showcase_server").server, name="show")
    await cancel_a_slow_call(connection, seconds=30)
    await assert_told_and_usable(connection)


async def test_slow_call_times_out_and_server_is_told(host: Host) -> None:
    connection = await host.connect(PLAIN, name="show")
    with pytest.raises(errors.RequestTimeoutError) as caught:
        await connection.call_tool("slow", {}, timeout=1)
    assert str(caught.value) == ("show:slow: timed out: no progress for 1 s. The call was cancelled.")
    await assert_told_and_usable(connection)


# Answers that break the protocol


async def test_a_result_that_breaks_its_output_schema_is_told(host: Host) -> None:
    paging = load("paging_server")
    connection = await host.connect(paging.make_server(paging.Pages(wrong_output=True)), name="paging")
    tool = next(iter(connection.tools))
    result = await connection.call_tool(tool, {}, validate=False)
    assert result.unfit.startswith("the answer does not fit the tool's output schema: ")

    host.outputs.strict = True
    with pytest.raises(errors.InvalidResponseError, match=rf"paging:{tool}: the answer does not fit") as caught:
        await connection.call_tool(tool, {}, validate=False)
    assert caught.value.result.data == result.data


async def test_a_protocol_error_has_its_code_and_what_it_means(host: Host) -> None:
    connection = await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(errors.ProtocolError) as caught:
        await connection.call("fail_protocol")
    said = "show:fail_protocol: This tool always refuses its parameters (-32602, invalid params; fault: the caller)"
    assert str(caught.value) == said
    assert (caught.value.code, caught.value.data) == (-32602, {"reason": "showcase"})


async def test_garbage_on_stdout_in_a_session_disturbs_nothing(host: Host) -> None:
    connection = await host.connect(PLAIN, name="noisy")
    assert (await connection.call("noise")).text == "hi"
    assert (await connection.call("noise")).text == "hi"


# Parallel

TOGETHER = """
import pathlib, sys, time
from tests.support.plain import Plain
started = pathlib.Path(sys.argv[1], sys.argv[2])
started.touch()
while len(list(started.parent.iterdir())) < 4:
    time.sleep(0.01)
Plain("late").run()
"""


async def test_many_servers_connect_in_parallel(host: Host, tmp_path: Path) -> None:
    specs = {
        name: StdioSpec(command=sys.executable, args=("-c", TOGETHER, str(tmp_path), name), cwd=ROOT)
        for name in ("one", "two", "three", "four")
    }
    opened = await host.connect_many(specs)  # none of them answers before all have begun
    assert [connection.state for connection in opened.values()] == ["open"] * 4  # type: ignore[union-attr]
