"""What failed while it was recorded fails again when it is replayed, at the same place, with the same words."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.cassette.cassette import deck
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.errors import CassetteError, CommandNotFoundError, MCPMagicError, ServerExitedError, SessionClosedError
from tests.environments import ROOT
from tests.support import SUPPORT
from tests.support.asgi import Forgetful, answering, serving
from tests.support.bundled import load
from tests.support.cassettes import GONE, hosting, lines
from tests.support.processes import PLAIN, children, free_port
from tests.support.rogue_http import rogue_http
from tests.support.speaking import LEGACY, MODERN
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

ROGUE = SUPPORT / "rogue_server.py"
ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN])
DYING = """import os, sys
print('loading with', os.environ['API_TOKEN'], file=sys.stderr)
print('Welcome!', flush=True)
sys.exit('no data')
"""


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "a.jsonl"


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    yield
    assert deck.cassette is None


def quick(host: Host) -> Host:
    plan = host.reconnection
    plan.first, plan.longest, plan.lasting, plan.wait, plan.ping = 0.02, 0.1, 0.0, 60.0, 20.0
    return host


def traced(host: Host, server: str) -> list[Any]:
    """Return what the trace shows of a server, but for times."""
    return [(entry.label.partition(" to ")[0], entry.direction, entry.text) for entry in host.trace.entries(server)]


async def tried(connection: Connection, tool: str, timeout: float | None = None) -> Any:
    """Call a tool; return the text of its answer, or the error's class and words."""
    try:
        return (await connection.call_tool(tool, {}, timeout=timeout)).text
    except MCPMagicError as error:
        return type(error).__name__, str(error)


async def test_cassette_replays_failed_connection_without_trying(tape: Path, tmp_path: Path) -> None:
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
    words = {name: (type(error), str(error)) for name, error in recorded.items()}
    assert {name: kind.__name__ for name, (kind, _) in words.items()} == {
        "missing": "CommandNotFoundError",
        "dying": "ServerExitedError",
        "closed": "UnreachableError",
        "refusing": "HTTPStatusError",
        "lost": "HTTPStatusError",
    }
    assert words["dying"][1].splitlines()[1:] == ["  stderr: loading with ***", "  stderr: no data"]
    text = tape.read_text("utf-8")
    assert "sesame" not in text
    assert "canary" not in text

    program.unlink()
    async with hosting(tape, "replay") as host:
        replayed = await host.connect_many(specs)
        assert {name: (type(error), str(error)) for name, error in replayed.items()} == words
        # two pipes have no order
        assert sorted(one[:2] for one in traced(host, "dying")) == sorted(one[:2] for one in said)
        assert getattr(replayed["lost"], "status", None) == 404
        assert getattr(replayed["dying"], "stderr", "") == "loading with ***\nno data\n"


async def test_cassette_fails_only_first_connect_of_a_retried_server(tape: Path) -> None:
    async def seen(host: Host, *targets: Any) -> list[Any]:
        with pytest.raises(CommandNotFoundError) as failed:
            await host.connect(targets[0], name="math")
        connection = await host.connect(targets[1], name="math")
        return [str(failed.value), (await connection.call("add", a=1, b=2)).data]

    async with hosting(tape, "record") as host:
        recorded = await seen(host, ["pythn3-nowhere"], PLAIN)
    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE, GONE) == recorded


async def test_cassette_replays_fallback_to_older_transport(tape: Path) -> None:
    app = load("math_server").server.sse_app()
    async with serving(app) as url, hosting(tape, "record") as host:
        connection = await host.connect(f"{url}/sse", name="math")
        assert (connection.spec.transport, (await connection.call("add", a=1, b=2)).data) == ("sse", 3)

    async with hosting(tape, "replay") as host:
        connection = await host.connect(f"{url}/sse", name="math")
        assert (connection.spec.transport, (await connection.call("add", a=1, b=2)).data) == ("sse", 3)


FAULTS = (
    *("garbage", "wrong_id_first", "twice", "neither", "result_is_a_number", "error_is_text", "die_talking"),
    *("die_after", "half_and_die"),
)


@ERAS
async def test_cassette_replays_dying_server_with_stray_output(tape: Path, tmp_path: Path, version: str) -> None:
    async def seen(host: Host, target: list[str]) -> list[Any]:
        found = []
        connection = await host.connect(target, name="rogue")
        for tool in FAULTS:
            host.trace.clear()
            found += [tool, await tried(connection, tool), await tried(connection, "right")]
            if connection.state != "open":
                found += [connection.state, connection.problem, connection.stderr()[-1000:]]
                await host.reconnect("rogue")
            found.append(traced(host, "rogue"))
        return found

    async with hosting(tape, "record") as host:
        recorded = await seen(host, [sys.executable, str(ROGUE), version, str(tmp_path / "log")])
    ends = [found for found in recorded if isinstance(found, tuple) and found[0] == "SessionClosedError"]
    assert len(ends) == 5
    assert "\n  stderr: Traceback line 4999" in ends[0][1]

    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE) == recorded


ANSWERS = (
    *("http_400", "http_401", "http_404", "http_429", "http_500", "http_202", "html", "truncated", "reset"),
    "right",
)


@ERAS
async def test_cassette_replays_http_errors_at_the_same_place(tape: Path, version: str) -> None:
    async def seen(host: Host, url: str) -> list[Any]:
        found: list[Any] = []
        connection = await quick(host).connect(url, name="rogue")
        for tool in ANSWERS:
            found.append(await tried(connection, tool))
        statuses = [(entry.label.partition(" to ")[0], entry.status) for entry in host.trace.entries("rogue")]
        return [*found, await tried(connection, "hang", 0.3), statuses]

    async with rogue_http(version) as rogue, hosting(tape, "record") as host:
        recorded = await seen(host, rogue.url)
    assert "HTTP 429" in recorded[3][1]
    assert "it asks to wait 3600 s" in recorded[3][1]
    assert [found[0] for found in recorded[7:9]] == ["SessionClosedError"] * 2

    async with hosting(tape, "replay") as host:
        assert await seen(host, rogue.url) == recorded


async def test_cassette_renews_forgotten_session_and_repeats_call(tape: Path) -> None:
    app = Forgetful(load("math_server").server.streamable_http_app())

    async def seen(host: Host, url: str) -> list[Any]:
        connection = await quick(host).connect(url, name="math")
        found = [(await connection.call("add", a=1, b=2)).data]
        app.forget()
        found.append((await connection.call("add", a=1, b=3)).data)
        return [*found, connection.reconnects, connection.state]

    async with serving(app) as base, hosting(tape, "record") as host:
        url = f"{base}/mcp"
        recorded = await seen(host, url)
    assert recorded == [3, 4, 1, "open"]
    async with hosting(tape, "replay") as host:
        assert await seen(host, url) == recorded


async def test_cassette_ends_idle_session_by_the_next_call(tape: Path) -> None:
    async def seen(host: Host, target: list[str], *, kill: bool) -> list[Any]:
        connection = await host.connect(target, name="math")
        found: list[Any] = [(await connection.call("add", a=1, b=2)).data, connection.state]
        if kill:
            for process in children():
                process.kill()
            await until(lambda: connection.state == "lost")
        with pytest.raises(SessionClosedError) as failed:
            await connection.call("add", a=2, b=2)
        found += [str(failed.value), connection.state]
        await host.reconnect("math")
        return [*found, (await connection.call("add", a=2, b=2)).data]

    async with hosting(tape, "record") as host:
        recorded = await seen(host, PLAIN, kill=True)
    slower = [{**line, **({"pause": 30.0} if "ended" in line else {})} for line in lines(tape)]
    tape.write_text("\n".join(json.dumps(line) for line in slower) + "\n")

    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE, kill=False) == recorded == [3, "open", recorded[2], "lost", 4]


async def test_cassette_keeps_last_stderr_of_a_server(tape: Path) -> None:
    async def seen(host: Host, target: list[str]) -> str:
        connection = await host.connect(target, name="talking")
        await tried(connection, "right")
        await until(lambda: connection.stderr() != "")
        return connection.stderr()

    program = tape.parent.parent / "late.py"
    program.write_text(LATE)
    async with hosting(tape, "record") as host:
        recorded = await seen(host, [sys.executable, str(program)])
        assert any("stderr" in line for line in lines(tape))
    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE) == recorded == "served\n"


LATE = f"""import sys, threading
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain
server = Plain("talking")
@server.tool
def right():
    threading.Timer(0.1, lambda: print("served", file=sys.stderr, flush=True)).start()
    return "right"
server.run()
"""


async def test_lines_of_kinds_that_are_not_known_are_passed_over(tape: Path) -> None:
    async with hosting(tape, "record") as host:
        math = await host.connect(load("math_server").server, name="math")
        await math.call("add", a=1, b=2)
    header, *others = tape.read_text("utf-8").splitlines()
    strange = ['{"weather": "fine"}', '{"session": 1, "smell": "smoke", "id": 2}', '{"doctor": 7}']
    tape.write_text("\n".join([header, *[line for one in others for line in (one, *strange)]]) + "\n")

    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        with pytest.raises(CassetteError, match="was recorded once"):
            await math.call("add", a=1, b=2)


async def test_cassette_replays_early_stderr_before_first_request(tape: Path, tmp_path: Path) -> None:
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    spec = StdioSpec(command=sys.executable, args=(str(program),), env={"API_TOKEN": "sesame-123"})
    async with hosting(tape, "record") as host:
        with pytest.raises(ServerExitedError):
            await host.connect(spec, name="dying")
    head, opened, *rest = lines(tape)
    early = [line for line in rest if "stderr" in line and line["session"] == opened["session"]]
    assert early
    late = [line for line in rest if line not in early]
    tape.write_text("".join(f"{json.dumps(line)}\n" for line in [head, opened, *early, *late]))

    async with hosting(tape, "replay") as host:
        with pytest.raises(ServerExitedError):
            await host.connect(spec, name="dying")
        shown = [one[:2] for one in traced(host, "dying")][: len(early) + 1]
    assert shown == [("line", "stderr")] * len(early) + [("server/discover", "→")]
