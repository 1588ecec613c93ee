"""The trace: what goes over the wires of real servers, and that no secret is kept."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import errors
from mcp_magic.config.masking import KEPT_BYTES
from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec
from mcp_magic.session.connection import Connection
from mcp_magic.session.services import Services
from mcp_magic.trace.trace import BATCH, BATCH_SECONDS, IN, OUT, Entry, Recorder, Tap, Trace, fault
from tests.environments import ROOT
from tests.support.asgi import answering, serving
from tests.support.bundled import load
from tests.support.clocks import spent
from tests.support.processes import PLAIN
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until

TALKER = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server = Plain("talker")
print("Starting up!", flush=True)

@server.tool
def login(user: str, password: str) -> str:
    print("logging in with", password, "and", os.environ["API_TOKEN"], file=sys.stderr, flush=True)
    return f"{{user}} may not use {{password}}"

@server.tool
def echo(text: str) -> str:
    return text

@server.tool
def die(words: str) -> str:
    print(words, file=sys.stderr, end="", flush=True)
    os._exit(3)

server.run()
"""

IN_ENVIRONMENT, IN_ARGUMENT = "env-secret-4711", 'arg"secret\\4712'


@pytest.fixture
async def talker(host, tmp_path):
    """A server over stdio that repeats secrets, on its stderr too."""
    script = tmp_path / "talker.py"
    script.write_text(TALKER)
    environment = {"API_TOKEN": IN_ENVIRONMENT}
    return await host.connect_spec(StdioSpec(command=sys.executable, args=(str(script),), env=environment), "talker")


def everything(trace: Trace) -> str:
    """Return all that anybody can see of a trace."""
    entries = trace.entries()
    exported = [json.dumps(entry.as_dict(), ensure_ascii=False) for entry in entries]
    return "\n".join([repr(trace), *map(repr, entries), *exported, *(entry.text.decode() for entry in entries)])


def calls(trace: Trace) -> list[Entry]:
    return [entry for entry in trace.entries() if entry.method == "tools/call"]


@pytest.mark.parametrize("where", ["stdio", "here"])
async def test_requests_and_answers_at_the_same_time_are_paired(host, where):
    connection = await host.connect(PLAIN if where == "stdio" else load("math_server").server, name="math")
    await asyncio.gather(*(connection.call("add", a=n, b=1) for n in range(25)))
    requests = [entry for entry in calls(host.trace) if entry.kind == "request"]
    answers = {entry.number: entry for entry in calls(host.trace) if entry.kind == "answer"}
    assert len(requests) == len(answers) == 25
    for request in requests:
        assert request.pair is not None
        answer = answers[request.pair]
        assert (answer.pair, answer.id, request.direction, answer.direction) == (request.number, request.id, OUT, IN)
        result = answer.message["result"]["structuredContent"]["result"]
        assert result == request.message["params"]["arguments"]["a"] + 1
        assert answer.seconds == request.seconds is not None
        assert 0 < answer.seconds < 100
        assert answer.time >= request.time
        assert request.status is None


async def test_calls_over_http_have_status_and_masked_headers(host):
    echoing = MCPServer("show", log_level="ERROR")

    @echoing.tool()
    def headers(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers or {})

    async with serving(echoing.streamable_http_app()) as url:
        spec = HttpSpec(url=f"{url}/mcp", headers={"Authorization": "Bearer sesame-open-123"})
        show = await host.connect_spec(spec, "show")
        answers = await asyncio.gather(show.call("headers"), show.call("headers"))
        assert [answer.data["authorization"] for answer in answers] == ["Bearer sesame-open-123"] * 2
        assert "sesame" not in everything(host.trace) + repr(show.trace)
        entries = calls(host.trace)
        assert [(e.kind, e.status) for e in entries if e.direction == OUT] == [("request", 200)] * 2
        assert [(e.kind, e.status) for e in entries if e.direction == IN] == [("answer", 200)] * 2
        assert all((entry.headers or {}).get("content-type") for entry in entries if entry.direction == OUT)
        await host.close()


async def test_a_trace_has_sizes_and_begins_with_the_handshake(host, talker):
    await talker.call("echo", text="ä" * 100)
    first, *_ = [entry for entry in host.trace.entries("talker") if entry.kind != "garbage"]
    assert first.method in ("server/discover", "initialize")
    request, answer = calls(host.trace)
    assert request.size == len(request.text)
    assert request.whole
    assert answer.message["result"]["content"][0]["text"] == "ä" * 100
    assert talker.trace.entries == host.trace.entries("talker")
    [garbage] = [entry for entry in host.trace if entry.kind == "garbage"]
    assert "Starting up!" in garbage.message
    assert garbage.failed
    listed = next(entry for entry in host.trace if entry.kind == "answer" and entry.method == "tools/list")
    login = next(tool for tool in listed.message["result"]["tools"] if tool["name"] == "login")
    assert login["inputSchema"]["properties"]["password"]["type"] == "string", "a name of a schema is no secret"


async def test_secrets_of_environment_and_arguments_are_masked(host, talker):
    await talker.call("login", user="ada", password=IN_ARGUMENT)
    await talker.call("echo", text=f"the token is {IN_ENVIRONMENT} and {IN_ARGUMENT}")
    curl = "curl -H 'Authorization: Bearer abc.def-ghi12345' https://me:pw1234@x.org/?api_key=q1w2e3"
    await talker.call("echo", text=curl)
    await until(lambda: any(entry.kind == "line" for entry in host.trace))
    seen = everything(host.trace) + repr(talker) + repr(talker.trace)
    for secret in (IN_ENVIRONMENT, IN_ARGUMENT, json.dumps(IN_ARGUMENT)[1:-1], "abc.def-ghi", "pw1234", "q1w2e3"):
        assert secret not in seen
    request, answer, after, *_ = calls(host.trace)
    assert request.message["params"]["arguments"] == {"user": "ada", "password": "***"}
    assert "ada may not use ***" in answer.text.decode()
    assert not request.whole
    line = next(entry for entry in host.trace if entry.kind == "line")
    assert line.message == "logging in with *** and ***"
    assert request.number < line.number < after.number, "lines stand between the messages"
    assert request.time - 0.1 < line.time < after.time + 0.1


async def test_a_dead_server_has_an_open_request_and_last_words(host, talker):
    with pytest.raises(errors.SessionClosedError):
        await talker.call("die", words="out of cheese")
    await until(lambda: talker.state == "lost")
    request = calls(host.trace)[-1]
    assert (request.kind, request.pair, request.failed, fault(request)) == ("request", None, True, "the server")
    assert request.unanswered.startswith("the session ended after ")
    assert json.loads(request.as_json())["unanswered"] == request.unanswered
    assert "out of cheese" in [entry.message for entry in host.trace if entry.kind == "line"]


async def test_errors_of_protocol_and_tools_are_failures(host):
    show = await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(errors.ToolError):
        await show.call("fail_error")
    with pytest.raises(errors.ProtocolError):
        await show.read("nowhere://at/all")
    failed = [entry for entry in host.trace if entry.failed]
    assert [(entry.kind, entry.method) for entry in failed] == [("error", "tools/call"), ("error", "resources/read")]
    assert failed[1].message["error"]["code"] < 0


@pytest.mark.parametrize("handshake", [False, True])
async def test_progress_of_a_server_in_this_process_is_recorded_once(host, handshake):
    told: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    protocol = "handshake" if handshake else None
    reports = await host.connect(reporting_server(handshake=handshake), name="reports", protocol=protocol)
    await reports.call_tool("burst", {"count": 2}, on_progress=progressed)
    notices = [entry.message["params"] for entry in host.trace if entry.method == "notifications/progress"]
    assert told == [1, 2]
    [call] = [entry for entry in calls(host.trace) if entry.kind == "request"]
    assert {notice.pop("progressToken") for notice in notices} == {call.message["id"]}  # as it is on a wire
    assert notices == [{"progress": step, "total": 2, "message": f"step {step}"} for step in (1, 2)]


async def test_calls_that_nobody_looks_at_are_numbered_and_paired(host):
    server = MCPServer("math")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def wait() -> None:
        await asyncio.Event().wait()

    math = await host.connect(server, name="math")
    host.trace.clear()
    hanging = asyncio.ensure_future(math.call("wait"))
    await until(lambda: len(host.trace) == 1)  # its answer never comes, others come in between
    for n in range(2 * BATCH):
        await math.call("add", a=n, b=0)
    hanging.cancel()
    entries = host.trace.entries("math")
    first = entries[0].number
    assert [entry.number for entry in entries] == list(range(first, first + len(entries)))
    asked = {entry.number: entry for entry in entries if entry.kind == "request"}
    answers = [entry for entry in entries if entry.kind == "answer"]
    assert len(answers) == 2 * BATCH
    for answer in answers:
        assert answer.pair is not None
        assert (asked[answer.pair].pair, asked[answer.pair].id) == (answer.number, answer.id)
        assert 0 < (answer.seconds or 0) < 100
    assert asked[first].pair is None


async def test_the_ring_is_bounded_in_messages_and_in_bytes(host):
    math = await host.connect(load("math_server").server, name="math")

    async def add(count: int) -> None:
        for n in range(count):
            await math.call("add", a=n, b=0)

    host.trace.limit(50, 10**9)
    await add(60)
    assert len(host.trace) == 50
    assert host.trace.dropped > 70
    host.trace.limit(10_000, 20_000)
    await add(60)
    assert host.trace._size <= 20_000  # also as long as nobody looks, who would make it so
    assert host.trace.size <= 20_000
    assert calls(host.trace)[-1].message["result"]["structuredContent"]["result"] == 59
    assert host.trace.size == sum(len(entry.text) + 600 for entry in host.trace)
    with pytest.raises(errors.NotFoundError, match=r"the trace has no message 1; it has \d+ to \d+"):
        host.trace.find(1)
    host.trace.limit(0, 0)
    assert (await math.call("add", a=1, b=2)).data == 3, "a trace that is off keeps nothing"
    assert len(host.trace) == 0


async def test_a_long_message_is_cut_and_its_size_is_told(host, talker):
    await talker.call("echo", text="x" * 1_000_000)
    request, answer = calls(host.trace)
    for entry in (request, answer):
        assert entry.size > 1_000_000
        assert len(entry.text) < 2 * KEPT_BYTES
        assert not entry.whole
    assert "(1,000,000 characters)" in request.message["params"]["arguments"]["text"]


def test_long_names_and_ids_are_kept_cut():
    trace, long = Trace(), "x" * 100_000
    recorder = Recorder("flood", StdioSpec(command="python"), trace)
    for number in range(10):
        recorder.message(IN, {"jsonrpc": "2.0", "id": f"{number}{long}", "method": f"m{long}", "params": {}})
    assert max(len(entry.method) + len(entry.id) for entry in trace) <= 400


@pytest.mark.parametrize("kind", ["text", "rows", "meta"])
def test_an_answer_of_50_mb_holds_up_the_loop_for_a_moment_only(kind):
    rows = [{"number": number, "name": "x" * 40} for number in range(800_000 if kind != "text" else 0)]
    results = {
        "text": {"content": [{"type": "text", "text": "words\n" * 8_000_000}]},
        "rows": {"structuredContent": rows},
        "meta": {"content": [{"type": "text", "text": "short"}], "_meta": {"rows": rows}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "result": results[kind]}
    recorder = Recorder("big", StdioSpec(command="big"))

    def keep(message: Any) -> None:
        recorder.message(IN, message)
        recorder.trace.settle()

    assert spent(keep, message) < spent(json.dumps, message) / 2
    [entry] = recorder.entries
    assert entry.size == pytest.approx(50_000_000, rel=0.2)


async def test_a_call_looks_at_the_stderr_once(talker, monkeypatch):
    looks, fstat = [], os.fstat
    monkeypatch.setattr("mcp_magic.stderr.os.fstat", lambda file: looks.append(file) or fstat(file))
    await talker.call("echo", text="x")
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("direction", "code", "status", "whose"),
    [
        (IN, -32602, None, "the caller"),
        (IN, -32600, None, "mcp_magic"),
        (OUT, -32602, None, "the server"),
        (OUT, -1, None, "you"),
        (IN, -32603, None, "the server"),
        (OUT, -32603, None, "mcp_magic"),
        (IN, -32042, None, "you"),
        (IN, -32603, 401, "you"),
        (IN, -32603, 404, "the caller"),
        (IN, -32603, 429, "the caller"),
        (IN, -32603, 500, "the server"),
        (IN, -32603, 502, "the network"),
        (IN, -31000, None, "the server"),
        ("to nothing", -32602, None, "the server"),
    ],
)
def test_a_failure_says_whose_fault_it_is(direction, code, status, whose):
    text = json.dumps({"error": {"code": code, "message": "no"}}).encode()
    entry = Entry("s", OUT if direction == OUT else IN, 1)
    entry.write("error", "", text, len(text))
    entry.pair, entry.status = None if direction == "to nothing" else 1, status
    assert fault(entry) == whose


async def test_a_refused_session_has_messages_with_status(host):
    async with serving(answering(401)) as url:
        with pytest.raises(errors.HTTPStatusError):
            await host.connect(f"{url}/mcp", name="locked")
    entries = host.trace.entries("locked")
    assert {entry.status for entry in entries if entry.kind == "request"} == {401}
    assert {fault(entry) for entry in entries if entry.failed} == {"you"}


async def test_messages_are_masked_soon_although_nobody_reads_them():
    recorder = Recorder("login", StdioSpec(command="login"), Trace())
    entry = recorder.message(OUT, {"method": "tools/call", "id": 1, "params": {"password": "hunter2"}})
    assert recorder.hide("it is hunter2") == "it is ***"
    async with asyncio.timeout(BATCH_SECONDS + 1):
        await until(lambda: b"hunter2" not in entry.text)


# Taps


async def test_a_tap_sees_messages_unchanged_without_a_trace():
    server = MCPServer("taps", log_level="ERROR")
    seen: list[tuple[str, str, Any]] = []

    @server.tool()
    async def login(password: str) -> str:
        return password

    class Seeing(Tap):
        def opened(self) -> None:
            seen.append(("", "opened", None))

        def message(self, direction: str, message: dict[str, Any]) -> None:
            seen.append((direction, message.get("method", "answer"), message.get("params")))

    trace = Trace(messages=0)
    services = Services(trace=trace, taps=lambda name, spec: (Seeing(),))
    connection = Connection("taps", InProcessSpec(server=server), services)
    await connection.open()
    assert ("", "opened", None) in seen
    seen.clear()
    await connection.call_tool("login", {"password": "hunter2"}, validate=False)
    await connection.close()
    assert [row[:2] for row in seen[:2]] == [(OUT, "tools/call"), (IN, "answer")]
    assert seen[0][2]["arguments"] == {"password": "hunter2"}
    assert len(trace) == 0


async def test_a_tap_hears_all_statuses_with_or_without_a_trace():
    class Statuses(Tap):
        def __init__(self) -> None:
            self.heard: list[tuple[Any, int]] = []

        def answered(self, number: Any, status: int) -> None:
            if isinstance(number, int):  # the ids of listening are counted over all sessions
                self.heard.append((number, status))

    heard = []
    async with serving(load("weather_server").server.streamable_http_app()) as url:
        for messages in (0, 100):
            tap = Statuses()
            services = Services(trace=Trace(messages=messages), taps=lambda name, spec, tap=tap: (tap,))
            connection = Connection("weather", HttpSpec(url=f"{url}/mcp"), services)
            await connection.open()
            await connection.call_tool("get_weather", {"location": "London"})
            await connection.close()
            heard.append(tap.heard)
    assert heard[0] == heard[1]
    assert heard[0][-1][1] == 200
