"""A fuzz finds the planted faults of a server, and none in its correct twin."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from starlette.responses import JSONResponse

from mcp_magic import ArgumentsError, Decision, DeniedError, Host, MissingDependencyError, UnknownToolError
from mcp_magic.fuzz import run
from mcp_magic.fuzz.run import Fuzz, select_tools
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.faulty_server import FAULTS
from tests.support.hosts import checked
from tests.support.lowlevel import serving_tools
from tests.support.persons import Approver
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVER = ROOT / "tests/support/faulty_server.py"
COMMAND = [sys.executable, str(SERVER)]
READ_ONLY = ToolAnnotations(read_only_hint=True)


@pytest.fixture
async def fuzzed() -> AsyncIterator[Host]:
    """A host that leaves no process and no task behind."""
    async with checked(Host()) as host:
        yield host


@pytest.fixture
def hasty(monkeypatch):
    """Wait less for a call that hangs, and make few that hang or end the server once that is known."""
    monkeypatch.setattr(run, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(run, "COSTLY_ATTEMPTS", 2)
    monkeypatch.setattr(run, "MAX_REPEATS", 0)


def kinds(report: Any) -> dict[str, str]:
    return {failure.tool: failure.kind for failure in report.failures}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_twelve_planted_faults_are_found_from_each_seed(fuzzed, hasty, seed):
    await fuzzed.connect(COMMAND, name="shop")
    report = await fuzzed.fuzz("shop", seconds=600, seed=seed, examples=80)
    assert kinds(report) == FAULTS
    assert len(report.failures) <= 14  # two tools have two faults: a lower and an upper limit, a long text
    assert all(failure.repeats for failure in report.failures)
    assert fuzzed["shop"].state == "open", "the own session does not notice anything"
    assert (await fuzzed.call("shop:tags", tags=["a"])).text == "ok"


@asynccontextmanager
async def over_http(*words: str) -> AsyncIterator[str]:
    """Serve on a port, and start again after each end."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = await asyncio.create_subprocess_exec(*COMMAND, *words, "http", str(port))
    try:

        async def is_listening() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return False
            writer.close()
            return True

        while not await is_listening():
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in children:
            child.kill()
        await process.wait()


@pytest.mark.slow
async def test_planted_faults_are_found_over_http(fuzzed, hasty):
    async with over_http() as url:
        await fuzzed.connect(url, name="shop")
        report = await fuzzed.fuzz("shop", seconds=600, seed=4, examples=80)
        assert kinds(report) == FAULTS


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_nothing_is_found_in_the_correct_twin(fuzzed, transport):
    async with over_http("correct") as url:
        await fuzzed.connect([*COMMAND, "correct"] if transport == "stdio" else url, name="shop")
        report = await fuzzed.fuzz("shop", seconds=600, seed=5, examples=100 if transport == "stdio" else 50)
        assert report.failures == []
        assert report.ok
        assert report.remarks == []
        assert report.calls > 500


async def test_exception_is_read_from_the_log_of_a_server(fuzzed, tmp_path):
    (tmp_path / "shop.py").write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "from mcp_types import ToolAnnotations\n"
        "shop = MCPServer('shop')\n"
        "@shop.tool(annotations=ToolAnnotations(read_only_hint=True))\n"
        "def first(words: list[str]) -> str:\n"
        "    return words[0]\n"
        "shop.run()\n"
    )
    await fuzzed.connect([sys.executable, str(tmp_path / "shop.py")], name="shop")
    report = await fuzzed.fuzz("shop:first", seconds=600, seed=1, examples=30)
    [failure] = report.failures
    assert (failure.kind, failure.arguments) == ("exception", {"words": []})
    assert failure.problem == "IndexError: list index out of range"


async def test_quick_faults_are_found_and_made_small(fuzzed):
    await fuzzed.connect(COMMAND, name="shop")
    report = await fuzzed.fuzz("shop:ratio", seconds=600, seed=1, examples=40)
    assert [(f.kind, f.arguments) for f in report.failures] == [("traceback", {"part": 1, "whole": 0})]
    report = await fuzzed.fuzz("shop:limit", seconds=600, seed=1, examples=40)
    assert sorted(f.arguments["count"] for f in report.failures) == [0, 51]
    assert {f.problem for f in report.failures} == {
        "takes what breaks `minimum` of count",
        "takes what breaks `maximum` of count",
    }


async def test_seed_makes_the_same_calls_again(fuzzed):
    server, calls = MCPServer("shop"), list[str]()

    @server.tool(annotations=READ_ONLY)
    def note(text: str, size: int = 1) -> str:
        calls.append(repr((text, size)))
        return "ok"

    await fuzzed.connect(server, name="shop")
    runs = []
    for seed in (7, 7, 8):
        await fuzzed.fuzz("shop:note", seconds=600, seed=seed, examples=200)
        runs.append(list(calls))
        calls.clear()
    assert runs[0] == runs[1] != runs[2]
    assert len(runs[0]) > 50


async def test_refusal_that_repeats_the_value_is_reported_once(fuzzed):
    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        if values == {}:
            return CallToolResult(content=[TextContent(text="ok")])
        text = f"Input validation error: got {json.dumps(values)} and {values.get('word')!r}, which is no word"
        return CallToolResult(content=[TextContent(text=text)], is_error=True)

    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "additionalProperties": False}
    tool = Tool(name="f", input_schema=schema, annotations=READ_ONLY)
    await fuzzed.connect(serving_tools(tool, handler=answer), name="shop")
    report = await fuzzed.fuzz("shop", seconds=600, seed=1, examples=150)
    assert [(failure.kind, failure.arguments) for failure in report.failures] == [("refuses", {"word": ""})]


async def test_failures_of_a_kind_are_bounded(fuzzed):
    words = iter(range(10_000))

    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        text = f"Input validation error: {''.join(map(chr, (97 + int(d) for d in str(next(words)))))}"
        return CallToolResult(content=[TextContent(text=text)], is_error=True)

    tool = Tool(name="f", input_schema={"type": "object", "properties": {"n": {}}}, annotations=READ_ONLY)
    await fuzzed.connect(serving_tools(tool, handler=answer), name="shop")
    report = await fuzzed.fuzz("shop", seconds=600, seed=1, examples=40)
    assert len(report.failures) == 10
    assert report.remarks == ["f: more than 10 failures of the kind 'refuses'"]


async def test_slow_tool_leaves_the_time_to_the_others(fuzzed):
    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        if name == "slow":
            await asyncio.sleep(0.6)
        return CallToolResult(content=[TextContent(text="ok")])

    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    tools = [Tool(name=name, input_schema=schema, annotations=READ_ONLY) for name in ("slow", "quick")]
    await fuzzed.connect(serving_tools(*tools, handler=answer), name="shop")
    report = await fuzzed.fuzz("shop", seconds=1, seed=1)
    assert [remark[:53] for remark in report.remarks] == ["slow: it was left out, because it is slow: 1 call in "]


# What may be called


async def test_tools_that_are_not_read_only_are_asked_about_once(fuzzed):
    await fuzzed.connect(COMMAND, name="shop")
    with pytest.raises(ArgumentsError, match="--allow delete does so, after a question"):
        await fuzzed.fuzz("shop:delete")
    with pytest.raises(DeniedError, match="shop:delete was not called; denied by default: you cannot be asked here"):
        await fuzzed.fuzz("shop:delete", allow=["delete"])
    fuzzed.approver = approver = Approver(Decision.approve())
    report = await fuzzed.fuzz("shop:delete", allow=["delete"], seconds=600, examples=30)
    assert report.calls > 20
    assert [(request.asker, request.name) for request in approver.asked] == [("fuzz", "shop:delete")]
    fuzzed.approver = Approver(Decision.deny("not today"))
    with pytest.raises(DeniedError, match="denied by the user: not today"):
        await fuzzed.fuzz("shop:delete", allow=["delete"])


async def test_seconds_count_from_when_the_server_is_open(fuzzed):
    await fuzzed.connect([*COMMAND, "correct"], name="shop")  # its start takes longer than that
    report = await fuzzed.fuzz("shop", seconds=0.05, examples=1)
    assert report.calls


async def test_unknown_names_and_numbers_are_refused(fuzzed):
    connection = await fuzzed.connect(COMMAND, name="shop")
    tools = await connection.listing("tools")
    with pytest.raises(UnknownToolError, match="Did you mean 'delete'"):
        await fuzzed.fuzz("shop", allow=["delet"])
    with pytest.raises(ArgumentsError, match="no tool that is marked read-only; --allow TOOL"):
        select_tools("shop", [tool for tool in tools if tool.name == "delete"])
    with pytest.raises(ArgumentsError, match="seconds=0: a number above 0"):
        await fuzzed.fuzz("shop", seconds=0)


async def test_missing_hypothesis_says_what_to_install(fuzzed, monkeypatch):
    await fuzzed.connect(COMMAND, name="shop")
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mcp-magic\[fuzz\]'"):
        await fuzzed.fuzz("shop")


# The run


async def test_interrupt_keeps_what_was_found(fuzzed):
    connection = await fuzzed.connect(COMMAND, name="shop")
    tools = select_tools("shop", await connection.listing("tools"), "ratio")
    fuzz = Fuzz(fuzzed, connection, tools, seconds=600, seed=1)
    task = asyncio.create_task(fuzz.run())
    await until(lambda: fuzz.report.failures)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fuzz.report.ended == "interrupted"
    assert kinds(fuzz.report) == {"ratio": "traceback"}
    assert fuzz.report.seconds > 0


async def test_busy_server_is_left_alone_as_long_as_it_says(fuzzed, monkeypatch):
    import httpx2

    monkeypatch.setattr("mcp_magic.map.pace.PAUSE", 0.05)
    async with over_http("correct") as url, httpx2.AsyncClient() as client:
        refusals, waits = 3, list[int]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            body = b""
            while scope["type"] == "http":
                part = await receive()
                body += part.get("body", b"")
                if not part.get("more_body"):
                    break
            if b"tools/call" in body and len(waits) < refusals:
                waits.append(1)
                response: Any = JSONResponse({}, 429, headers={"retry-after": "0"})
            elif scope["method"] != "POST":
                response = JSONResponse({}, 405)
            else:
                answer = await client.post(url, content=body, headers={"content-type": "application/json"})
                response = JSONResponse(answer.json() if answer.content else None, answer.status_code)
            await response(scope, receive, send)

        async with serving(app, lifespan="off") as front:
            await fuzzed.connect(f"{front}/mcp", name="shop")
            report = await fuzzed.fuzz("shop:page", seconds=600, seed=1, examples=20)
    assert report.ok
    assert len(waits) == refusals
    assert report.calls == 20 + refusals


async def test_schemas_of_strangers_do_not_stop_the_others(fuzzed):
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}}}
    strange: dict[str, Any] = {
        "catastrophic": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$", "type": "string"},
        "ahead": {"pattern": r"^(?=.*\d)(?=.*[a-z]).{8,}$", "type": "string"},
        "unreadable": {"pattern": "[", "type": "string"},
        "never": False,
        "itself": {"$ref": "#/properties/itself"},
        "remote": {"$ref": "https://example.com/schema.json"},
        "choices": {"enum": list(range(50_000))},
        "either": {"oneOf": [{"const": 1}, {"type": "object", "properties": {"a": node}, "required": ["a"]}]},
        "unknown": {"type": "str"},
        "impossible": {"type": "integer", "minimum": 5, "maximum": 4},
        "date": {"type": "string", "format": "date-time"},
    }
    tools = [
        Tool(name=name, input_schema={"type": "object", "properties": {name: part}}, annotations=READ_ONLY)
        for name, part in strange.items()
    ]
    tree = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    tools.append(Tool(name="recursive", input_schema=tree, annotations=READ_ONLY))
    tools.append(Tool(name="nothing", input_schema={"type": "object"}, annotations=READ_ONLY))
    await fuzzed.connect(serving_tools(*tools), name="odd")
    report = await fuzzed.fuzz("odd", seconds=600, seed=1, examples=60)
    assert report.calls > 600
    assert {failure.kind for failure in report.failures} <= {"accepts"}
    assert any(remark.startswith("unknown: it is not told whether") for remark in report.remarks)
