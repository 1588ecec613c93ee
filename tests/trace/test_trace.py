"""The trace: what goes over the wires of real servers, and that no secret is kept."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
import time
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import errors
from mcp_magic.config.masking import KEPT_BYTES, Masker
from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec
from mcp_magic.protocol import CODES, STATUSES
from mcp_magic.session.connection import Connection
from mcp_magic.session.services import Services
from mcp_magic.trace.plain import SHORT
from mcp_magic.trace.trace import BATCH, BATCH_SECONDS, IN, OUT, Entry, Recorder, Tap, Trace, fault
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

TALKER = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server = Plain("talker")

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
async def talker(host: Host, tmp_path: Path) -> Connection:
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


async def check_pairs(connection: Connection, host: Host) -> list[Entry]:
    """Call in parallel and hold each answer against its own request."""
    await asyncio.gather(*(connection.call("add", a=n, b=1) for n in range(25)))
    requests = [entry for entry in calls(host.trace) if entry.kind == "request"]
    answers = {entry.number: entry for entry in calls(host.trace) if entry.kind == "answer"}
    assert len(requests) == len(answers) == 25
    for request in requests:
        assert request.pair is not None
        answer = answers[request.pair]
        assert (answer.pair, answer.id, request.direction, answer.direction) == (request.number, request.id, OUT, IN)
        assert (
            answer.message["result"]["structuredContent"]["result"] == request.message["params"]["arguments"]["a"] + 1
        )
        assert answer.seconds is not None
        assert 0 < answer.seconds < 100
        assert answer.seconds == request.seconds
        assert answer.time >= request.time
    return requests


async def test_trace_pairs_concurrent_requests_and_answers_over_stdio(host: Host) -> None:
    requests = await check_pairs(await host.connect(PLAIN, name="math"), host)
    assert {request.status for request in requests} == {None}


async def test_requests_and_answers_are_paired_in_this_process(host: Host) -> None:
    await check_pairs(await host.connect(load("math_server").server, name="math"), host)


async def test_over_http_requests_have_the_status_of_their_answer(host: Host) -> None:
    async with serving(load("weather_server").server.streamable_http_app()) as url:
        weather = await host.connect(f"{url}/mcp", name="weather")
        await asyncio.gather(*(weather.call("get_weather", location=city) for city in ("London", "NYC")))
        found = calls(host.trace)
        assert [(entry.kind, entry.status) for entry in found if entry.direction == OUT] == [("request", 200)] * 2
        assert [(entry.kind, entry.status) for entry in found if entry.direction == IN] == [("answer", 200)] * 2
        assert all((entry.headers or {}).get("content-type") for entry in found if entry.direction == OUT)
        await host.close()


async def test_trace_has_message_size_and_starts_with_handshake(host: Host, talker: Connection) -> None:
    await talker.call("echo", text="ä" * 100)
    first, *_ = host.trace.entries("talker")
    assert first.method in ("server/discover", "initialize")
    request, answer = calls(host.trace)
    assert request.size == len(request.text)
    assert request.whole
    assert answer.message["result"]["content"][0]["text"] == "ä" * 100
    assert talker.trace.entries == host.trace.entries("talker")


async def test_trace_masks_secrets_of_environment_and_arguments(host: Host, talker: Connection) -> None:
    await talker.call("login", user="ada", password=IN_ARGUMENT)
    await talker.call("echo", text=f"the token is {IN_ENVIRONMENT} and {IN_ARGUMENT}")
    await talker.call(
        "echo", text="curl -H 'Authorization: Bearer abc.def-ghi12345' https://me:pw1234@x.org/?api_key=q1w2e3"
    )
    await until(lambda: any(entry.kind == "line" for entry in host.trace))
    seen = everything(host.trace) + repr(talker) + repr(talker.trace)
    for secret in (IN_ENVIRONMENT, IN_ARGUMENT, json.dumps(IN_ARGUMENT)[1:-1], "abc.def-ghi", "pw1234", "q1w2e3"):
        assert secret not in seen
    request, answer = calls(host.trace)[:2]
    assert request.message["params"]["arguments"] == {"user": "ada", "password": "***"}
    assert "ada may not use ***" in answer.text.decode()
    assert not request.whole


async def test_secrets_of_headers_are_nowhere(host: Host) -> None:
    echoing = MCPServer("show", log_level="ERROR")

    @echoing.tool()
    def headers(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers or {})

    async with serving(echoing.streamable_http_app()) as url:
        spec = HttpSpec(url=f"{url}/mcp", headers={"Authorization": "Bearer sesame-open-123"})
        show = await host.connect_spec(spec, "show")
        said = await show.call("headers")
        assert said.data["authorization"] == "Bearer sesame-open-123"
        assert "sesame" not in everything(host.trace) + repr(show.trace)
        assert calls(host.trace)
        await host.close()


async def test_trace_shows_schema_property_named_like_secret(host: Host, talker: Connection) -> None:
    answer = next(entry for entry in host.trace if entry.kind == "answer" and entry.method == "tools/list")
    login = next(tool for tool in answer.message["result"]["tools"] if tool["name"] == "login")
    assert login["inputSchema"]["properties"]["password"]["type"] == "string"


async def test_stderr_lines_stand_between_the_messages_with_their_time(host: Host, talker: Connection) -> None:
    await talker.call("login", user="ada", password="hunter-22")
    await talker.call("echo", text="after")
    entries = host.trace.entries("talker")
    line = next(entry for entry in entries if entry.kind == "line")
    request, _, after, _ = calls(host.trace)
    assert line.message == "logging in with *** and ***"
    assert request.number < line.number < after.number
    assert request.time - 0.1 < line.time < after.time + 0.1


async def test_trace_of_dead_server_has_open_request_and_last_words(host: Host, talker: Connection) -> None:
    with pytest.raises(errors.SessionClosedError):
        await talker.call("die", words="out of cheese")
    await until(lambda: talker.state == "lost")
    request = calls(host.trace)[-1]
    assert (request.kind, request.pair, request.failed, fault(request)) == ("request", None, True, "the server")
    assert request.unanswered.startswith("the session ended after ")
    assert json.loads(request.as_json())["unanswered"] == request.unanswered
    assert "out of cheese" in [entry.message for entry in host.trace if entry.kind == "line"]


async def test_what_is_no_message_is_kept_as_garbage(host: Host, tmp_path: Path) -> None:
    script = tmp_path / "noisy.py"
    script.write_text("import sys\nprint('Starting up!', flush=True)\n" + TALKER)
    spec = StdioSpec(command=sys.executable, args=(str(script),), env={"API_TOKEN": "x"})
    await host.connect_spec(spec, "noisy")
    garbage = [entry for entry in host.trace if entry.kind == "garbage"]
    assert ["Starting up!" in entry.message for entry in garbage] == [True]
    assert garbage[0].failed


async def test_json_rpc_errors_and_tool_errors_are_failures(host: Host) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(errors.ToolError):
        await show.call("fail_error")
    with pytest.raises(errors.ProtocolError):
        await show.read("nowhere://at/all")
    failed = [entry for entry in host.trace if entry.failed]
    assert [(entry.kind, entry.method) for entry in failed] == [("error", "tools/call"), ("error", "resources/read")]
    assert failed[1].message["error"]["code"] < 0


async def test_what_a_server_in_this_process_says_by_itself_is_kept(host: Host) -> None:
    server = MCPServer("counter", log_level="ERROR")

    @server.tool()
    async def count(context: Context) -> int:
        await context.report_progress(1, 2, "half")
        return 2

    connection = await host.connect(server, name="counter")
    told: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    await connection.call_tool("count", {}, on_progress=progressed)
    notes = [entry.message["params"] for entry in host.trace if entry.method == "notifications/progress"]
    assert told == [1]
    token = notes[0].pop("progressToken")  # as it is on a wire
    assert isinstance(token, int)
    assert notes == [{"progress": 1, "total": 2, "message": "half"}]


async def test_trace_numbers_and_pairs_calls_not_looked_at(host: Host) -> None:
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
    assert all(asked[answer.pair].pair == answer.number for answer in answers if answer.pair)
    assert all(asked[answer.pair].id == answer.id for answer in answers if answer.pair)
    assert all(0 < (answer.seconds or 0) < 100 for answer in answers)
    assert asked[first].pair is None


@pytest.mark.parametrize("value", [1, "x" * 2 * SHORT, {"inside": [1]}], ids=["plain", "long", "nested"])
async def test_trace_records_values_before_later_changes(host: Host, value: Any) -> None:
    server = MCPServer("box")

    async def change(context: Any, call_next: Any) -> Any:
        answer = await call_next(context)
        if context.method == "tools/call":
            arguments = context.params["arguments"]
            (arguments["value"] if isinstance(arguments["value"], dict) else arguments).clear()
        return answer

    @server.tool()
    def give(value: Any) -> dict[str, Any]:
        return {"value": value}

    server.middleware.append(change)
    connection = await host.connect(server, name="box")
    given = {"value": value}
    result = await connection.call("give", given)
    assert result.data == given
    for changed in (result.data, result.raw.structured_content, given):
        changed["value"] = "changed"
    request, answer = connection.trace.entries[-2:]
    shown = "x" * SHORT if isinstance(value, str) else value
    assert str(shown) in str(request.message["params"]["arguments"])
    assert str(shown) in str(answer.message["result"]["structuredContent"])


META = {"io.modelcontextprotocol/serverInfo": {"name": "box", "version": "1"}}

CALLS: list[dict[str, Any]] = [
    {"name": "add", "arguments": {"a": 1, "b": 2.0}},
    {"name": "add", "arguments": {"a": True, "b": None}},
    {"name": "say", "arguments": {"text": 'é "quoted"\n'}},
    {"name": "say", "arguments": {"text": "x" * (SHORT + 1)}},
    {"name": "say", "arguments": {}},
    {"name": "add", "arguments": {"a": 10**400}},
    {"name": "add", "arguments": {"a": [1, 2]}},
    {"name": "add", "arguments": {"a": 1}, "task": {}},
    {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": 7}},
    {"name": "add"},
]

ANSWERS: list[dict[str, Any]] = [
    {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}, "isError": False, "_meta": META},
    {"content": [{"type": "text", "text": "4"}], "structuredContent": {"result": 4.5}, "isError": False, "_meta": META},
    {
        "content": [{"type": "text", "text": "5"}],
        "structuredContent": {"result": None},
        "isError": False,
        "_meta": META,
    },
    {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": [1]}, "isError": False, "_meta": META},
    {"content": [{"type": "text", "text": "no"}], "structuredContent": {"result": 3}, "isError": True, "_meta": META},
    {"content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False, "_meta": META},
    {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}, "isError": 0, "_meta": META},
    {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}, "isError": 1, "_meta": META},
    {
        "content": [{"type": "text", "text": "3"}],
        "structuredContent": {"result": 3},
        "isError": False,
        "_meta": {"a": 1},
    },
    {"content": [{"type": "text", "text": ["3"]}], "structuredContent": {"a": 3}, "isError": False, "_meta": META},
    {"content": [{"type": "html", "text": "3"}], "structuredContent": {"a": 3}, "isError": False, "_meta": META},
    {"content": [{"type": "text", "text": "3"}], "isError": False, "_meta": META, "resultType": "complete"},
    {"content": [], "structuredContent": {"result": 3}, "isError": False, "_meta": META},
    {"content": [{"type": "text", "text": "3"}]},
    {},
]


@pytest.mark.parametrize("key", ["params", "result"])
@pytest.mark.parametrize("number", [5, "five"])
def test_trace_records_messages_independent_of_earlier_ones(key: str, number: int | str) -> None:
    direction = OUT if key == "params" else IN
    start = {"jsonrpc": "2.0", **({"method": "tools/call"} if key == "params" else {})}
    for first, second in itertools.product(CALLS if key == "params" else ANSWERS, repeat=2):
        recorder = Recorder("box", StdioSpec(command="box"))
        messages = [{**start, "id": id_, key: values} for id_, values in ((1, first), (number, second))]
        for message in messages:
            recorder.message(direction, deepcopy(message))
        kinds = [
            "request" if key == "params" else "error" if x.get("isError") is True else "answer" for x in (first, second)
        ]
        assert [json.dumps(entry.message) for entry in recorder.entries] == [
            json.dumps(message) for message in messages
        ]
        assert [entry.kind for entry in recorder.entries] == kinds
        assert [len(entry.text) for entry in recorder.entries] == [entry.size for entry in recorder.entries]
        assert all(entry.whole for entry in recorder.entries)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_infinity_is_no_null_in_the_trace(value: float) -> None:
    recorder = Recorder("box", StdioSpec(command="box"))
    for number, given in enumerate([value, 1.0, value]):
        params = {"name": "add", "arguments": {"a": given, "b": None}}
        recorder.message(OUT, {"jsonrpc": "2.0", "method": "tools/call", "id": number, "params": params})
    assert [str(entry.message["params"]["arguments"]["a"]) for entry in recorder.entries] == [
        str(value),
        "1.0",
        str(value),
    ]
    assert [entry.size for entry in recorder.entries] == [len(entry.text) for entry in recorder.entries]


def test_trace_masks_secret_in_shared_answer_part_learned_later() -> None:
    recorder = Recorder("box", StdioSpec(command="box"))
    for number in range(4):
        result = {"content": [{"type": "text", "text": str(number)}], "_meta": {"build": "sesame4711"}}
        recorder.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
        if number == 2:
            assert b"sesame4711" in recorder.entries[-1].text
            recorder.know(["sesame4711"])
    last = recorder.entries[-1]
    assert last.message["result"] == {"content": [{"type": "text", "text": "3"}], "_meta": {"build": "***"}}
    assert not last.whole


def _levels(count: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(count):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("structured", "meta"),
    [
        ({"value": 2**70}, {}),
        ({"value": -0.0, "all": 1.5e300}, {}),
        ({"value": float("inf")}, {}),
        ({"value": "half \ud800"}, {}),
        ({"value": '{"id":7},"\\u001e",{"id":8}'}, {}),
        ({"value": "a,\x1e,b"}, {}),
        ({"value": 1}, {"between": [{}, "\x1e", {}]}),
        ({"value": 1}, {"much": ["x"] * 30_000}),
    ],
)
def test_trace_records_unusual_values_beside_usual_ones(structured: Any, meta: Any) -> None:
    recorder = Recorder("math", StdioSpec(command="math"))

    def answer(number: int, structured: Any, meta: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": str(number)}]
        return {"id": number, "result": {"content": content, "structuredContent": structured, "_meta": meta}}

    given = [answer(1, {"value": 1}, {}), answer(2, structured, meta), answer(3, {"value": 3}, {"by": "math"})]
    for message in given:
        recorder.message(IN, message)

    first, unusual, last = (entry.message for entry in recorder.entries)
    assert [first, last] == [given[0], given[2]]
    if "much" in meta:
        assert unusual["id"] == 2
        assert not recorder.entries[1].whole
    else:
        assert unusual == given[1]


@pytest.mark.parametrize("member", ["_meta", "resultType", "structuredContent"])
@pytest.mark.parametrize("levels", [200, 300, 400, 900, 2000])
def test_answers_of_many_levels_are_recorded_beside_others(levels: int, member: str) -> None:
    recorder = Recorder("math", StdioSpec(command="math"))
    for number, value in enumerate([_levels(levels), {"by": "math"}, _levels(levels), {"by": "math"}]):
        result = {"content": [{"type": "text", "text": "x"}], member: value}
        recorder.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
    assert [entry.message["id"] for entry in recorder.entries] == [0, 1, 2, 3]
    assert recorder.entries[3].message["result"][member] == {"by": "math"}


async def test_the_ring_is_bounded_in_messages_and_in_bytes(host: Host) -> None:
    math = await host.connect(load("math_server").server, name="math")
    host.trace.limit(50, 10**9)
    for n in range(60):
        await math.call("add", a=n, b=0)
    assert len(host.trace) == 50
    assert host.trace.dropped > 70
    host.trace.limit(10_000, 20_000)
    for n in range(60):
        await math.call("add", a=n, b=0)
        assert host.trace.size <= 20_000
    kept = calls(host.trace)[-1]
    assert kept.message["result"]["structuredContent"]["result"] == 59
    for n in range(60):
        await math.call("add", a=n, b=0)
        assert host.trace._size <= 20_000  # also as long as nobody looks, who would make it so
    assert host.trace.size == sum(len(entry.stored) + 600 for entry in host.trace)
    with pytest.raises(errors.NotFoundError, match=r"the trace has no message 1; it has \d+ to \d+"):
        host.trace.find(1)


async def test_a_host_whose_trace_is_off_keeps_nothing_and_works(host: Host) -> None:
    host.trace.limit(0, 0)
    math = await host.connect(load("math_server").server, name="math")
    assert (await math.call("add", a=1, b=2)).data == 3
    assert len(host.trace) == 0


async def test_a_long_message_is_cut_and_its_size_is_told(host: Host, talker: Connection) -> None:
    await talker.call("echo", text="x" * 1_000_000)
    request, answer = calls(host.trace)
    for entry in (request, answer):
        assert entry.size > 1_000_000
        assert len(entry.text) < 2 * KEPT_BYTES
        assert not entry.whole
    assert "(1,000,000 characters)" in request.message["params"]["arguments"]["text"]


@pytest.mark.parametrize("result", ["text", "rows", "meta"])
def test_an_answer_of_50_MB_holds_up_the_loop_for_a_moment_only(result: str) -> None:
    rows = [{"number": number, "name": "x" * 40} for number in range(800_000)]
    results = {
        "text": {"content": [{"type": "text", "text": "words\n" * 8_000_000}]},
        "rows": {"structuredContent": rows},
        "meta": {"content": [{"type": "text", "text": "short"}], "_meta": {"rows": rows}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "result": results[result]}
    recorder = Recorder("big", StdioSpec(command="big"))

    started = time.thread_time()
    recorder.message(IN, message)
    recorder.trace.settle()

    assert time.thread_time() - started < 0.08
    [entry] = recorder.entries
    assert entry.size == pytest.approx(50_000_000, rel=0.2)


async def test_a_call_looks_at_the_stderr_once(talker: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    fstat = os.fstat
    monkeypatch.setattr("mcp_magic.stderr.os.fstat", lambda file: looks.append(file) or fstat(file))

    await talker.call("echo", text="x")

    assert len(looks) == 1


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 100_000, 'a line with "quotes"\n' * 5000, "x\x00" * 50_000])
def test_trace_keeps_size_of_long_text_and_names_after_it(text: str) -> None:
    message = {"result": {"content": [{"type": "text", "text": text}], "isError": False}, "id": 7}
    written, size, whole = Masker(()).write(message)
    assert size == pytest.approx(len(json.dumps(message, ensure_ascii=False).encode()), rel=0.01)
    assert not whole
    kept = json.loads(written)
    assert (kept["id"], kept["result"]["isError"]) == (7, False)
    assert len(kept["result"]["content"][0]["text"]) < KEPT_BYTES


def test_trace_hides_secret_that_is_cut_in_two() -> None:
    masker = Masker(["correct-horse-battery"])
    for start in range(KEPT_BYTES - 400, KEPT_BYTES):
        text = "." * start + "correct-horse-battery" + "." * 1000
        written, _, whole = masker.write({"params": {"text": text}})
        assert b"corr" not in masker.mask(written)
        assert not whole


@pytest.mark.parametrize(
    "message",
    [
        {"arguments": {"login": {"apiKey": "s3cr3t-v4lue"}}},
        {"arguments": {"accessKey": "s3cr3t-v4lue"}},
        {"arguments": {"pwd": "s3cr3t-v4lue"}},
        {"arguments": {"githubPat": "s3cr3t-v4lue"}},
        {"text": "mysql --host h MYSQL_PWD=s3cr3t-v4lue"},
        {"text": 'He said {"githubPat": "s3cr3t-v4lue"}'},
        {"arguments": {"list": [{"client_secret": ["s3cr3t-v4lue"]}]}},
        {"arguments": {"headers": {"Authorization": "s3cr3t-v4lue"}}},
        {"arguments": {"headers": {"Cookie": "s3cr3t-v4lue"}}},
        {"text": 'He said {"access_token": "s3cr3t-v4lue"}'},
        {"text": "export GITHUB_TOKEN=s3cr3t-v4lue"},
        {"text": "Authorization: Bearer s3cr3t-v4lue"},
        {"text": "password: s3cr3t-v4lue"},
        {"uri": "https://x.org/?token=s3cr3t-v4lue"},
        {"before": "s3cr3t-v4lue", "password": "s3cr3t-v4lue", "s3cr3t-v4lue": 1},
        {"passwords": {"deep": {"deeper": "s3cr3t-v4lue"}}, "after": "it is s3cr3t-v4lue."},
        {"text": "API_KEY=s3cr3t-v4lue", "progressToken": 7},
    ],
)
def test_what_is_secret_by_its_name_is_masked_before_it_is_kept(message: dict[str, Any]) -> None:
    masker = Masker(())
    written, size, _ = masker.write({"jsonrpc": "2.0", "id": 1, "result": message})
    kept = masker.mask(written)
    assert b"v4lue" not in kept
    assert size == len(json.dumps({"jsonrpc": "2.0", "id": 1, "result": message}, separators=(",", ":")))
    assert json.loads(kept)["id"] == 1


@pytest.mark.parametrize(
    "message",
    [
        {"progressToken": "p-12345", "maxTokens": 100},
        {"text": "the author keys in the passage of tokens"},
        {"text": "PASS: tests/test_sum.py; pwd: /home/ada/notebooks", "tokenCount": 12, "pass": 3, "path": "pat/h"},
        {"text": "naïve 日本 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")},
    ],
)
def test_what_only_looks_like_a_secret_is_kept_as_it_is(message: dict[str, Any]) -> None:
    masker = Masker(["nothing"])
    written, _, whole = masker.write(message)
    assert json.loads(written) == message
    assert masker.mask(written) is written
    assert whole


@pytest.mark.parametrize("text", ["日本 API_KEY=s3cr3t-v4lue", "\ud800 API_KEY=s3cr3t-v4lue"])
def test_a_secret_is_found_among_letters_that_are_no_plain_text(text: str) -> None:
    masker = Masker(())
    assert b"v4lue" not in masker.mask(masker.write({"text": text})[0])
    assert "v4lue" not in masker.text(text)


def test_trace_keeps_unwritable_messages_as_far_as_possible() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    kept, _, whole = Masker(()).write({"deep": deep})
    assert json.loads(kept)["deep"]
    assert not whole
    assert json.loads(Masker(()).write({"lone": "\ud800"})[0]) == {"lone": "\ud800"}


def test_every_code_has_somebody_whose_fault_it_is() -> None:
    somebody = {"the caller", "mcp_magic", "the server", "the network", "you"}
    assert {meant.who for meant in [*CODES.values(), *STATUSES.values()]} == somebody


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
    ],
)
def test_a_failure_says_whose_fault_it_is(direction: str, code: int, status: int | None, whose: str) -> None:
    assert fault(_failed(direction, code, pair=1, status=status)) == whose


def test_an_answer_that_nobody_asked_for_is_the_servers_fault() -> None:
    assert fault(_failed(IN, -32602, pair=None)) == "the server"


def _failed(direction: str, code: int, pair: int | None, status: int | None = None) -> Entry:
    text = json.dumps({"error": {"code": code, "message": "no"}}).encode()
    entry = Entry("s", direction, 1)
    entry.write("error", "", text, len(text))
    entry.pair, entry.status = pair, status
    return entry


class Locked(BaseHTTPRequestHandler):
    """Refuses everybody."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


async def test_trace_of_refused_session_has_messages_with_status(host: Host) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(errors.HTTPStatusError):
                await host.connect(f"http://127.0.0.1:{server.server_port}/mcp", name="locked")
        finally:
            server.shutdown()
            thread.join()
    entries = host.trace.entries("locked")
    assert {entry.status for entry in entries if entry.kind == "request"} == {401}
    assert {fault(entry) for entry in entries if entry.failed} == {"you"}


async def test_tap_sees_messages_unchanged_without_a_trace() -> None:
    server = MCPServer("taps", log_level="ERROR")

    @server.tool()
    async def login(password: str) -> str:
        return password

    seen: list[tuple[str, str, Any]] = []

    class Seeing(Tap):
        def opened(self) -> None:
            seen.append(("", "opened", None))

        def message(self, direction: str, message: dict[str, Any]) -> None:
            seen.append((direction, message.get("method", "answer"), message.get("params")))

    trace = Trace(messages=0)
    connection = Connection(
        "taps", InProcessSpec(server=server), Services(trace=trace, taps=lambda name, spec: (Seeing(),))
    )
    await connection.open()
    try:
        assert ("", "opened", None) in seen
        seen.clear()
        await connection.call_tool("login", {"password": "hunter2"}, validate=False)
    finally:
        await connection.close()
    called = [(direction, what) for direction, what, _ in seen]
    assert called[:2] == [(OUT, "tools/call"), (IN, "answer")]
    assert seen[0][2]["arguments"] == {"password": "hunter2"}
    assert len(trace) == 0


async def test_messages_are_masked_soon_although_nothing_reads_them() -> None:
    trace = Trace()
    recorder = Recorder("login", StdioSpec(command="login"), trace)
    entry = recorder.message(OUT, {"method": "tools/call", "id": 1, "params": {"password": "hunter2"}})
    async with asyncio.timeout(BATCH_SECONDS + 1):
        await until(lambda: b"hunter2" not in entry.text)


async def test_trace_hides_secret_of_the_newest_message() -> None:
    recorder = Recorder("login", StdioSpec(command="login"))
    recorder.message(IN, {"jsonrpc": "2.0", "id": 1, "result": {"password": "hunter2"}})
    assert recorder.hide("it is hunter2") == "it is ***"


async def test_tap_hears_all_statuses_with_or_without_trace() -> None:
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
