"""What was seen while it was recorded is seen again in a replay, without the server: answers, reports and failures."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.ask.elicitation import Answer
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.errors import (
    CassetteError,
    CommandNotFoundError,
    MCPMagicError,
    ProtocolError,
    ServerExitedError,
    SessionClosedError,
    ToolError,
)
from tests.environments import ROOT
from tests.support import SUPPORT
from tests.support.asgi import Forgetful, answering, serving
from tests.support.bundled import load
from tests.support.cassettes import GONE, hosting, lines, replayed, written
from tests.support.checking import ERAS
from tests.support.eliciting_server import trip_server
from tests.support.hosts import hastened
from tests.support.persons import Scripted
from tests.support.processes import PLAIN, children, free_port
from tests.support.reporting_server import reporting_server
from tests.support.rogue_http import rogue_http
from tests.support.waiting import until
from tests.support.watching import SERVER, Watching

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

DYING = """import os, sys
print('loading with', os.environ['API_TOKEN'], file=sys.stderr)
print('Welcome!', flush=True)
sys.exit('no data')
"""


def traced(host: Host, server: str) -> list[Any]:
    """Return what the trace shows of a server, but for times."""
    return [(entry.label.partition(" to ")[0], entry.direction, entry.text) for entry in host.trace.entries(server)]


async def tried(connection: Connection, tool: str, timeout: float | None = None) -> Any:
    """Call a tool; return the text of its answer, or the error's class and words."""
    try:
        return (await connection.call_tool(tool, {}, timeout=timeout)).text
    except MCPMagicError as error:
        return type(error).__name__, str(error)


async def everything(host: Host, target: Any) -> dict[str, Any]:
    """Use a server in many ways, and return what was seen of it."""
    watching = host.reports.reporter = Watching()
    connection = await host.connect(target, name="reports")
    seen: dict[str, Any] = {"version": connection.protocol_version}
    seen["tools"] = [tool.name for tool in await connection.listing("tools")]
    seen["first"] = (await connection.call("work", values=[1, 2, 3], total=4, message="<b>hi</b>")).text
    seen["second"] = (await connection.call("work", values=[7])).text
    seen["logged"] = (await connection.call("log", level="warning", data="careful", count=2)).text
    with pytest.raises(ToolError) as failed:
        await connection.call("fail")
    seen["error"] = str(failed.value)
    seen["read"] = (await connection.read("reports://long")).text
    seen["prompt"] = [message.content for message in (await connection.prompt("slow")).messages]
    seen["reports"] = [(r.title, r.meter.done, r.meter.total, r.meter.message, r.state) for r in watching.reports]
    own = [message for message in connection.notices.messages if message.logger == "reports"]
    seen["messages"] = [(message.level, message.data) for message in own]
    return seen


@pytest.mark.lowest
@pytest.mark.parametrize("way", ["in process", "stdio, handshake", "http", "http, handshake"])
async def test_a_replay_shows_what_was_seen_without_the_server(tape, way):
    kind, _, era = way.partition(", ")
    server = reporting_server(handshake=bool(era))
    async with AsyncExitStack() as stack:
        target: Any = server if kind == "in process" else [*SERVER, "--era", era or "modern"]
        if kind == "http":
            app = server.streamable_http_app()
            url = await stack.enter_async_context(serving(Forgetful(app) if era else app))
            target = f"{url}/mcp"
        async with hosting(tape, "record") as host:
            recorded = await everything(host, target)
    assert recorded["version"] == ("2025-11-25" if era else "2026-07-28")
    assert recorded["reports"][0] == ("reports:work", 3, 4, "<b>hi</b>", "done")
    assert recorded["messages"] == [("warning", "careful")] * 2
    target = target if kind != "stdio" else GONE  # the port is closed by now
    async with hosting(tape, "replay", in_process="replay") as host:
        assert await everything(host, target) == recorded


OSLO, ROME = (Answer.accept({"city": city, "days": 2}) for city in ("Oslo", "Rome"))


@pytest.mark.parametrize("era", ["rounds", "handshake"])
async def test_cassette_replays_answers_or_asks_the_person_again(tape, era, monkeypatch, request):
    if era == "handshake":
        request.getfixturevalue("handshake")

    async def seen(host: Host, *answers: Answer) -> list[str]:
        if answers:
            host.elicitation.elicitor = Scripted(*answers)
        connection = await host.connect(trip_server(), name="trip")
        assert (connection.protocol_version == "2025-11-25") is (era == "handshake")
        return [(await connection.call("plan")).text for _ in range(3)]

    answers = (OSLO, Answer.decline(), OSLO)
    recorded = await replayed(tape, seen, *answers, again=(), in_process="replay")
    assert recorded == ["accept Oslo 2", "decline", "accept Oslo 2"]

    monkeypatch.setattr(deck, "asks", lambda: True)
    async with hosting(tape, "replay", in_process="replay") as host:
        scripted = host.elicitation.elicitor = Scripted(OSLO, Answer.decline(), ROME)
        connection = await host.connect(trip_server(), name="trip")
        assert [(await connection.call("plan")).text for _ in range(2)] == recorded[:2]
        assert scripted.asked[0].message == "Where to?"
        with pytest.raises(CassetteError, match='"Rome" here, "Oslo" there'):
            await connection.call("plan")


async def test_cassette_replays_stderr_and_protocol_errors(tape):
    async def seen(host: Host, target: Any) -> tuple[str, str, int]:
        connection = await host.connect(target, name="reports")
        await connection.call("stderr", text="from the server")
        await connection.call("add", a=1, b=2)
        with pytest.raises(ProtocolError) as failed:
            await connection.call_tool("nothing", {}, validate=False)
        return connection.stderr(), str(failed.value), failed.value.code

    assert "from the server" in (await replayed(tape, seen, PLAIN))[0]


# Connections that fail


async def test_cassette_replays_failed_connection_without_trying(tape, tmp_path):
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    async with AsyncExitStack() as stack:
        refusing, lost = [await stack.enter_async_context(serving(answering(status))) for status in (401, 404)]
        specs = {
            "missing": StdioSpec(command="pythn3-nowhere"),
            "dying": StdioSpec(command=sys.executable, args=(str(program),), env={"API_TOKEN": "sesame-123"}),
            "closed": HttpSpec(url=f"http://127.0.0.1:{free_port()}/mcp"),
            "refusing": HttpSpec(url=f"{refusing}/mcp", headers={"Authorization": "Bearer canary-4711"}),
            "lost": HttpSpec(url=f"{lost}/mcp"),
        }
        async with hosting(tape, "record") as host:
            recorded = await host.connect_many(specs)
            said = traced(host, "dying")
    words = {name: (type(error).__name__, str(error)) for name, error in recorded.items()}
    kinds = ("CommandNotFoundError", "ServerExitedError", "UnreachableError", "HTTPStatusError", "HTTPStatusError")
    assert {name: kind for name, (kind, _) in words.items()} == dict(zip(specs, kinds, strict=True))
    assert words["dying"][1].splitlines()[1:] == ["  stderr: loading with ***", "  stderr: no data"]
    text = tape.read_text("utf-8")
    assert "sesame" not in text
    assert "canary" not in text

    program.unlink()
    async with hosting(tape, "replay") as host:
        again = await host.connect_many(specs)
        assert {name: (type(error).__name__, str(error)) for name, error in again.items()} == words
        # two pipes have no order
        assert sorted(one[:2] for one in traced(host, "dying")) == sorted(one[:2] for one in said)
        assert getattr(again["lost"], "status", None) == 404
        assert getattr(again["dying"], "stderr", "") == "loading with ***\nno data\n"


async def test_cassette_replays_early_stderr_before_first_request(tape):
    spec = StdioSpec(command=sys.executable, args=("-c", DYING), env={"API_TOKEN": "sesame-123"})
    async with hosting(tape, "record") as host:
        with pytest.raises(ServerExitedError):
            await host.connect(spec, name="dying")
    head, opened, *rest = lines(tape)
    early = [line for line in rest if "stderr" in line and line["session"] == opened["session"]]
    assert early
    written(tape, head, opened, *early, *[line for line in rest if line not in early])
    async with hosting(tape, "replay") as host:
        with pytest.raises(ServerExitedError):
            await host.connect(spec, name="dying")
        shown = [one[:2] for one in traced(host, "dying")][: len(early) + 1]
    assert shown == [("line", "stderr")] * len(early) + [("server/discover", "→")]


async def test_cassette_fails_only_first_connect_of_a_retried_server(tape):
    async def seen(host: Host, *targets: Any) -> list[Any]:
        with pytest.raises(CommandNotFoundError) as failed:
            await host.connect(targets[0], name="math")
        connection = await host.connect(targets[1], name="math")
        return [str(failed.value), (await connection.call("add", a=1, b=2)).data]

    await replayed(tape, seen, ["pythn3-nowhere"], PLAIN, again=(GONE, GONE))


async def test_cassette_replays_fallback_and_forgotten_session(tape):
    math = load("math_server").server
    app = Forgetful(math.streamable_http_app())

    async def seen(host: Host, sse: str, url: str) -> list[Any]:
        connection = await host.connect(f"{sse}/sse", name="old")
        told = [connection.spec.transport, (await connection.call("add", a=1, b=2)).data]
        connection = await hastened(host).connect(f"{url}/mcp", name="math")
        told.append((await connection.call("add", a=1, b=2)).data)
        app.forget()
        told.append((await connection.call("add", a=1, b=3)).data)
        return [*told, connection.reconnects, connection.state]

    async with serving(math.sse_app()) as sse, serving(app) as url, hosting(tape, "record") as host:
        recorded = await seen(host, sse, url)
    assert recorded == ["sse", 3, 3, 4, 1, "open"]
    async with hosting(tape, "replay") as host:
        assert await seen(host, sse, url) == recorded


# Calls that fail

FAULTS = (
    *("garbage", "wrong_id_first", "twice", "neither", "result_is_a_number", "error_is_text", "die_talking"),
    *("die_after", "half_and_die"),
)


@ERAS
async def test_cassette_replays_dying_server_with_stray_output(tape, tmp_path, version):
    async def seen(host: Host, target: list[str]) -> list[Any]:
        told = []
        connection = await host.connect(target, name="rogue")
        for tool in FAULTS:
            host.trace.clear()
            told += [tool, await tried(connection, tool), await tried(connection, "right")]
            if connection.state != "open":
                told += [connection.state, connection.problem, connection.stderr()[-1000:]]
                await host.reconnect("rogue")
            told.append(traced(host, "rogue"))
        return told

    command = [sys.executable, str(SUPPORT / "rogue_server.py"), version, str(tmp_path / "log")]
    recorded = await replayed(tape, seen, command)
    ends = [told for told in recorded if isinstance(told, tuple) and told[0] == "SessionClosedError"]
    assert len(ends) == 5
    assert "\n  stderr: Traceback line 4999" in ends[0][1]


ANSWERS = (
    *("http_400", "http_401", "http_404", "http_429", "http_500", "http_202", "html", "truncated", "reset"),
    "right",
)


@ERAS
async def test_cassette_replays_http_errors_at_the_same_place(tape, version):
    async def seen(host: Host, url: str) -> list[Any]:
        connection = await hastened(host).connect(url, name="rogue")
        told = [await tried(connection, tool) for tool in ANSWERS]
        statuses = [(entry.label.partition(" to ")[0], entry.status) for entry in host.trace.entries("rogue")]
        return [*told, await tried(connection, "hang", 0.3), statuses]

    async with rogue_http(version) as rogue, hosting(tape, "record") as host:
        recorded = await seen(host, rogue.url)
    assert "HTTP 429" in recorded[3][1]
    assert "it asks to wait 3600 s" in recorded[3][1]
    assert [told[0] for told in recorded[7:9]] == ["SessionClosedError"] * 2
    async with hosting(tape, "replay") as host:
        assert await seen(host, rogue.url) == recorded


async def test_cassette_ends_idle_session_by_the_next_call(tape):
    async def seen(host: Host, target: list[str], *, kill: bool) -> list[Any]:
        connection = await host.connect(target, name="math")
        told: list[Any] = [(await connection.call("add", a=1, b=2)).data, connection.state]
        if kill:
            for process in children():
                process.kill()
            await until(lambda: connection.state == "lost")
        with pytest.raises(SessionClosedError) as failed:
            await connection.call("add", a=2, b=2)
        told += [str(failed.value), connection.state]
        await host.reconnect("math")
        return [*told, (await connection.call("add", a=2, b=2)).data]

    async with hosting(tape, "record") as host:
        recorded = await seen(host, PLAIN, kill=True)
    written(tape, *[{**line, **({"pause": 30.0} if "ended" in line else {})} for line in lines(tape)])
    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE, kill=False) == recorded == [3, "open", recorded[2], "lost", 4]


LATE = """import sys, threading
from tests.support.plain import Plain
server = Plain("talking")
@server.tool
def right():
    threading.Timer(0.1, lambda: print("served", file=sys.stderr, flush=True)).start()
    return "right"
server.run()
"""


async def test_cassette_keeps_last_stderr_of_a_server(tape):
    async def seen(host: Host, target: list[str]) -> str:
        connection = await host.connect(target, name="talking", cwd=str(ROOT))
        await tried(connection, "right")
        await until(lambda: connection.stderr() != "")
        return connection.stderr()

    assert await replayed(tape, seen, [sys.executable, "-c", LATE]) == "served\n"
    assert any("stderr" in line for line in lines(tape))
