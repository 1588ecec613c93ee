"""Sessions that end, are lost, forgotten or come back: what is opened again, and what is said about it."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

import httpx2
import pytest
from mcp import MCPDeprecationWarning
from mcp.server import Server
from mcp_types import EmptyResult, ListResourcesResult, SubscribeRequestParams

from mcp_magic import doctor, errors
from mcp_magic.config.specs import HttpSpec
from tests.environments import ROOT
from tests.support.asgi import Forgetful, serving
from tests.support.counting import Counting, behind_proxy
from tests.support.processes import PLAIN, children
from tests.support.proxy import proxied
from tests.support.speaking import LEGACY, MODERN
from tests.support.waiting import until
from tests.support.websockets_server import serve_websocket

ERAS = pytest.mark.parametrize("legacy", [False, True], ids=[MODERN, "handshake"])


def count(app: Any, method: str) -> int:
    return [name for name, _ in app.requests].count(method)


# Servers that come back


@ERAS
async def test_connection_reuses_server_that_comes_back(quick, legacy):
    server = Counting()
    app = server.app(legacy=legacy)
    async with behind_proxy(quick, app) as (connection, proxy):
        proxy.lose()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: connection.state == "reconnecting")
        assert "counting: the session has ended" in connection.problem
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        assert (await waiting).data == 1
        assert (connection.state, connection.problem, connection.reconnects) == ("open", "", 1)
        assert quick["counting"] is connection
        assert server.runs == ["count"], "it was sent once"
        if legacy:
            assert count(app, "initialize") == 1, "the server lived, and its session"


async def test_what_a_server_offers_is_read_again_when_it_comes_back(quick):
    seen: list[str] = []
    before, after = Counting(), Counting()

    async def added() -> str:
        """Was not there before."""
        return "new"

    after.server.add_tool(added)
    async with serving(after.app()) as other, behind_proxy(quick, before.app()) as (connection, proxy):
        quick.watch(seen.append)
        proxy.target = int(other.rpartition(":")[2])
        proxy.lose()
        asking = asyncio.create_task(connection.ping())
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        await asking
        await until(lambda: any(tool.name == "added" for tool in connection.catalog.cached("tools")))
        assert (await connection.call("added")).text == "new"
        assert "counting" in seen


def attentive(told: list[str]) -> Any:
    """A server of the handshake era that wants to be told things."""

    async def set_level(context: Any, params: Any) -> EmptyResult:
        told.append(params.level)
        return EmptyResult()

    async def subscribe(context: Any, params: SubscribeRequestParams) -> EmptyResult:
        told.append(str(params.uri))
        return EmptyResult()

    async def resources(context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    handlers: dict[str, Any] = {"on_set_logging_level": set_level, "on_subscribe_resource": subscribe}
    handlers |= {"on_list_resources": resources, "on_unsubscribe_resource": subscribe}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        server = Server("attentive", **handlers)
    return Forgetful(server.streamable_http_app())


async def test_returning_server_gets_log_level_roots_and_subscriptions(quick, tmp_path):
    told: tuple[list[str], list[str]] = ([], [])
    before, after = (attentive(one) for one in told)
    async with serving(after) as other, behind_proxy(quick, before) as (connection, proxy):
        await connection.set_log_level("debug")
        await connection.roots.set(tmp_path)
        watching = asyncio.create_task(anext(aiter(await connection.subscribe("test://a"))))
        assert told == (["debug", "test://a"], [])
        proxy.target = int(other.rpartition(":")[2])
        proxy.cut()
        assert (await watching).missed, "whoever watches hears that something may have been missed"
        assert told[1] == ["debug", "test://a"]
        assert (connection.roots.directories, connection.reconnects) == ((tmp_path,), 1)


@pytest.mark.parametrize("transport", ["sse", "ws"])
async def test_sessions_with_one_stream_are_opened_again(quick, transport):
    server = Counting().server
    serves = serve_websocket(server) if transport == "ws" else serving(server.sse_app())
    async with serves as url, proxied(url) as proxy:
        target = proxy.url("/sse") if transport == "sse" else proxy.url("/", "ws")
        connection = await quick.connect(target, name="counting", transport=transport)
        assert (await connection.call("count")).data == 1
        version = connection.protocol_version
        proxy.lose()
        await until(lambda: connection.state == "reconnecting")
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        assert connection.protocol_version == version
        assert "counting: reconnecting\n" in connection._repr_mimebundle_()["text/plain"], "it can be looked at"
        await proxy.listen()
        assert (await waiting).data == 2
        assert (connection.state, connection.reconnects) == ("open", 1)
        await quick.disconnect("counting")


# Processes that die


async def test_a_stdio_server_is_started_again_where_its_spec_says_so(quick):
    connection = await quick.connect(PLAIN, name="math", reconnect=True)
    children()[0].kill()
    await until(lambda: connection.state == "reconnecting")
    assert (await connection.call("add", a=1, b=1)).data == 2
    assert (connection.state, connection.reconnects, len(children())) == ("open", 1, 1)
    with pytest.raises(errors.SessionClosedError, match="may have run; it was not sent again"):
        await connection.call("die", message="out of ink")
    assert (await connection.call("add", a=1, b=1)).data == 2
    assert connection.reconnects == 2


async def test_a_stdio_server_that_dies_is_told_and_opened_by_hand(host):
    connection = await host.connect(PLAIN, name="show")
    with pytest.raises(errors.SessionClosedError) as caught:
        await connection.call("die", message="out of ink")
    assert str(caught.value) == (
        "show:die: the session has ended (exit code 3) before the answer came, so it may have run; "
        "`%mcp reconnect show` opens it again.\n  stderr: out of ink"
    )
    assert connection.state == "lost"
    assert await host.connect(PLAIN, name="show") is connection, "who connects to it opens it again"
    assert not (await connection.call("process")).is_error
    children()[0].kill()
    await until(lambda: connection.state == "lost")
    with pytest.raises(errors.SessionClosedError, match="`%mcp reconnect show` opens it again"):
        await connection.call("process")
    assert await host.reconnect("show") is host["show"] is connection
    assert not (await connection.call("process")).is_error


async def test_a_closed_session_says_so(host):
    connection = await host.connect(Counting().server)
    await connection.close()
    await connection.close()
    assert connection.state == "closed"
    with pytest.raises(errors.SessionClosedError, match="`%mcp reconnect"):
        await connection.call("count")


# Sessions that the server has forgotten


class Restarted(Forgetful):
    """A server of the handshake era that was made from the TypeScript SDK's example: it answers 400 to a session that
    it does not have (server-everything, `simpleStreamableHttp.ts`)."""

    def __init__(self, app: Any, says: str) -> None:
        super().__init__(app)
        self._says = says

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            if message.get("status") == 404:
                message = {**message, "status": 400}
            if message.get("body") == b'{"error": "not found"}':
                error = {"jsonrpc": "2.0", "error": {"code": -32000, "message": self._says}, "id": None}
                message = {**message, "body": json.dumps(error).encode()}
            await send(message)

        await super().__call__(scope, receive, answer)


@pytest.mark.parametrize(
    "says", ["", "Bad Request: No valid session ID provided", "Bad Request: Server not initialized"]
)
async def test_forgotten_session_is_renewed_and_calls_run_once(quick, says):
    made: list[httpx2.AsyncClient] = []

    def factory(**options: Any) -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient(**options))
        return made[-1]

    server = Counting()
    app = Restarted(server.app(), says) if says else Forgetful(server.app())
    async with serving(app) as url:
        connection = await quick.connect_spec(HttpSpec(url=f"{url}/mcp", client_factory=factory), "counting")
        assert (await connection.call("count")).data == 1
        app.forget()
        assert (await connection.call("count")).data == 2
        assert (count(app, "initialize"), connection.reconnects, len(server.runs)) == (2, 1, 2)
        app.forget()
        results = await asyncio.gather(*(connection.call("count") for _ in range(5)))
        assert sorted(result.data for result in results) == [3, 4, 5, 6, 7]
        assert (count(app, "initialize"), len(server.runs)) == (3, 7), "calls at once renew it once"
        assert len(made) == 1, "the new session uses the same HTTP client"
        await quick.disconnect("counting")


async def test_a_400_about_something_else_renews_no_session(quick):
    app = Restarted(Counting().app(), "Bad Request: too many apples")
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        app.forget()
        with pytest.raises(errors.ProtocolError, match="too many apples"):
            await connection.call("count")
        assert count(app, "initialize") == 1
        await quick.disconnect("counting")


async def test_a_session_that_somebody_deleted_is_renewed(quick):
    app = Counting().app(legacy=True)
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        session = next(name for _, name in app.requests if name)
        async with httpx2.AsyncClient(timeout=60) as client:
            assert (await client.delete(f"{url}/mcp", headers={"mcp-session-id": session})).status_code == 200
        assert (await connection.call("count")).data == 1
        assert count(app, "initialize") == 2
        await quick.disconnect("counting")


# Servers that want the handshake after all

UNINITIALIZED = """
import sys
from tests.support.speaking import LEGACY, MODERN, answer_to, called
import json

initialized = False
for line in sys.stdin:
    message = json.loads(line)
    initialized = initialized or message.get("method") == "initialize"
    answer = answer_to(message, LEGACY if initialized else MODERN, ["one"])
    if message.get("method") == "tools/call":
        answer = called(message["id"], LEGACY, "done")
    elif answer is not None and not initialized and message["method"] != "server/discover":
        error = {"code": -32002, "message": "initialize is required"}
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
    if answer is not None:
        print(json.dumps(answer), flush=True)
"""
REFUSING = """
from tests.support.plain import Plain, Refused

server, runs = Plain("tool"), []

@server.tool
def query() -> str:
    runs.append(1)
    raise Refused(-32000, f"the database is not initialized, in run {len(runs)}")

server.run()
"""


async def test_discovered_server_that_wants_the_handshake_gets_it(host):
    command = [sys.executable, "-c", UNINITIALIZED]
    connection = await host.connect(command, name="late", cwd=str(ROOT))
    assert [tool.name for tool in await connection.listing("tools")] == ["one"]
    assert (await connection.call("one")).text == "done"
    assert connection.protocol_version == LEGACY
    assert connection.info().remarks == (
        "it answers server/discover with 2026-07-28, and then wants `initialize`; "
        "the session began again with the handshake",
    )
    report = await doctor.examine(host, command, cwd=str(ROOT))
    assert "wants `initialize`" in str(report)


async def test_words_of_a_tool_do_not_begin_a_handshake(host):
    connection = await host.connect([sys.executable, "-c", REFUSING], name="tool", cwd=str(ROOT))
    for number in (1, 2):
        with pytest.raises(errors.ProtocolError, match=f"not initialized, in run {number}"):
            await connection.call("query")
    assert (connection.protocol_version, connection.info().remarks) == (MODERN, ())
