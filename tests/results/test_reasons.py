"""Why a server refused: the telling line in the message, and the whole in the exception and for a model."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic._host import Host
from mcp_magic.consent.consent import Decision
from mcp_magic.doctor.examine import examine
from mcp_magic.langchain.calls import MCPToolException
from mcp_magic.results.reasons import last_failure, of_body, telling_line, with_data
from mcp_magic.server.cell import Marks, make_server
from tests.environments import ROOT
from tests.support.asgi import answer, answering, serving
from tests.support.calling import model_call
from tests.support.clocks import assert_linear, sixteenth
from tests.support.doctors import sick
from tests.support.odd_server import connected
from tests.support.waiting import until

SHOP = {
    "_capabilities": {name: {} for name in ("tools", "prompts", "resources", "completions")},
    "server/discover": {"error": -32601},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object", "properties": {"a": {}}}}]},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "resources/list": {"resources": [{"uri": "db://rows", "name": "rows"}]},
    "resources/templates/list": {"resourceTemplates": []},
}

ZOD = """Invalid arguments for tool add: [
  {
    "code": "invalid_type",
    "expected": "number",
    "received": "string",
    "path": ["a"],
    "message": "Expected number, received string"
  }
]"""

TRACEBACK = """Internal error: Traceback (most recent call last):
  File "server.py", line 3, in add
    return rows[key]
KeyError: 'a'
"""

PYDANTIC = """1 validation error for addArguments
a
  Input should be a valid integer [type=int_parsing, input_value='x', input_type=str]
    For further information visit https://errors.pydantic.dev/2.12/v/int_parsing"""

STACK = """Cannot read properties of undefined (reading 'rows')
    at add (/srv/index.js:12:3)
    at async main (/srv/index.js:80:1)"""


def refusal(code: int, message: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **more}


INTERNAL = "Internal error"
ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "zod": (refusal(-32602, ZOD), "Invalid arguments for tool add: a: Expected number, received string ("),
    "heading": (refusal(-32603, "\nError:\nthe database is locked"), "the database is locked ("),
    "traceback": (refusal(-32603, TRACEBACK), "KeyError: 'a' ("),
    "pydantic": (refusal(-32602, PYDANTIC), "add: a: Input should be a valid integer ("),
    "stack": (refusal(-32603, STACK), "Cannot read properties of undefined (reading 'rows') ("),
    "data": (refusal(-32603, INTERNAL, data="the disk is full"), "Internal error: the disk is full ("),
    "object": (refusal(-32603, INTERNAL, data={"detail": "the quota\nis up"}), "Internal error: the quota ("),
    "cause": (
        refusal(-32000, "MCP error -32000: Request failed", data={"errno": 28}),
        'Request failed: {"errno": 28} (',
    ),
}


def command(error: dict[str, Any], **told: Any) -> list[str]:
    """Return the command of a server that refuses what is asked of it but for its listings."""
    return sick(**SHOP, _otherwise={"error": error}, **told)


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_tells_its_line_and_keeps_the_whole(host, name):
    error, line = ERRORS[name]
    connection = await host.connect(command(error), name="shop")
    with pytest.raises(errors.ProtocolError) as caught:
        await connection.call("add", a=1)
    assert f"{line}{error['code']}, " in str(caught.value)
    lines = error["message"].strip().splitlines()
    assert all(part in caught.value.whole for part in lines)
    if "data" in error:
        assert caught.value.data == error["data"]
    with pytest.raises(MCPToolException) as failed:
        await model_call(connection, "add", {"a": 1}, decision=Decision.approve())
    told = str(failed.value.content)
    assert all(part in told for part in lines)
    if isinstance(error.get("data"), dict):
        assert json.dumps(error["data"]) in told
    assert last_failure().text == caught.value.whole


COMPLETION = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": ""}}


async def test_all_requests_tell_the_whole_reason(host):
    connection = await host.connect(command(ERRORS["zod"][0]), name="shop")
    for request in (
        lambda: connection.prompt("greet"),
        lambda: connection.read("db://rows"),
        lambda: connection.request("completion/complete", COMPLETION),
        lambda: connection.request("shop/close"),
    ):
        with pytest.raises(errors.ProtocolError) as caught:
            await request()
        assert "a: Expected number, received string" in str(caught.value)
        assert "`%mcp last` shows the whole text" in str(caught.value)
        assert '"received": "string"' in caught.value.whole
    done = await host.map("shop:add", [{"a": 1}])
    assert '"received": "string"' in done.df["error"][0]


async def test_a_refused_handshake_tells_the_whole_reason(host):
    error = refusal(-32603, "\nError:\nthe licence has expired\nask sales", data={"since": "May"})
    with pytest.raises(errors.NotAnMCPServerError) as caught:
        await host.connect(command(error, initialize={"error": error}), name="shop")
    assert "the licence has expired" in str(caught.value)
    assert 'ask sales\ndata: {"since": "May"}' in caught.value.whole
    assert last_failure().error is caught.value


async def test_a_secret_is_masked_in_the_whole_reason(host):
    error = refusal(-32603, "refused:\nthe key hunter2-hunter2 is unknown", data={"k": "hunter2-hunter2"})
    connection = await host.connect(command(error), name="shop", env={"API_KEY": "hunter2-hunter2"})
    with pytest.raises(errors.ProtocolError) as caught:
        await connection.call("add")
    assert "hunter2" not in caught.value.whole
    assert "the key *** is unknown" in caught.value.whole


async def test_a_long_traceback_of_a_tool_ends_with_its_reason(host):
    frames = "".join(f'  File "a.py", line {n}, in f\n    f()\n' for n in range(9))
    text = f"Traceback (most recent call last):\n{frames}KeyError: 'a'"
    connection = await host.connect(
        command({}, tools__call={"content": [{"type": "text", "text": text}], "isError": True}), name="shop"
    )
    with pytest.raises(errors.ToolError, match=r"shop:add failed: KeyError: 'a'\n"):
        await connection.call("add")


LOCKED = {"structuredContent": {"error": "locked", "code": 3}}
EMBEDDED = {"type": "resource", "resource": {"uri": "a:b", "text": "locked"}}
ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "structured": ({"content": [], **LOCKED}, "failed: locked"),
    "blank": ({"content": [{"type": "text", "text": " "}], **LOCKED}, "failed: locked"),
    "no words": ({"content": [], "structuredContent": {"errno": 28}}, 'failed: {"errno": 28}'),
    "resource": ({"content": [EMBEDDED], "structuredContent": {}}, "failed: locked"),
    "nowhere": ({"content": []}, "failed and did not say why"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
async def test_a_reason_beside_the_texts_is_told(host, name):
    result, line = ELSEWHERE[name]
    tool = {"name": "good", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    answers = {"tools/list": {"tools": [tool]}, "tools/call good": {**result, "isError": True}}
    async with connected(host, answers, "stdio") as connection:
        with pytest.raises(errors.ToolError) as caught:
            await connection.call("good")
        assert f"good {line}" in str(caught.value)
        shown = str(await connection.call_tool("good", {}))
        assert "error from odd:good" in shown
        assert (line.rpartition(": ")[2] if ": " in line else "").strip("{}") in shown.replace("'", '"')
        done = await host.map("odd:good", [{"a": 1}])
        assert f"good {line}" in done.df["error"][0]


BODIES = {
    "JSON": (b'{"error": {"code": 7, "message": "no such project"}}', "application/json", "no such project"),
    "FastAPI": (b'{"detail": [{"loc": ["body", "a"], "msg": "Field required"}]}', "application/json", "body.a: Field"),
    "HTML": (b"<html><title>Blocked by ACME &amp; Co</title></html>", "text/html", "Blocked by ACME & Co"),
    "text": (b"the host is not allowed\n", "text/plain", "the host is not allowed"),
    # repeat the status
    **{str(body): (body, "text/plain", "") for body in (b"Forbidden", b'{"error": "Forbidden"}', b"", b"{}")},
    "heading": (b"<h1>403 Forbidden</h1>", "text/plain", ""),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_the_body_of_an_http_error_is_told_if_it_tells(host, kind):
    body, content_type, line = BODIES[kind]
    async with serving(answering(403, body, content_type)) as url:
        with pytest.raises(errors.HTTPStatusError) as caught:
            await host.connect(f"{url}/mcp", name="shop")
    if line:
        assert f"\n  the server says: {line}" in str(caught.value)
        assert body.decode().strip() in caught.value.whole
    else:
        assert "the server says" not in str(caught.value)


async def test_a_body_of_a_refused_call_is_told(host):
    server = MCPServer("late", log_level="CRITICAL")
    server.tool()(price)
    inner = server.streamable_http_app()
    blocked: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if blocked and scope["type"] == "http" and scope["method"] == "POST":
            await answer(send, 500, b'{"message": "the quota\\nis used up"}')
        else:
            await inner(scope, receive, send)

    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="late")
        blocked.append(True)
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call("price")
        assert "the server says: the quota" in str(caught.value)
        assert "is used up" in caught.value.whole
        blocked.clear()
        await host.close()


async def test_a_server_without_ping_is_at_fault_itself(host):
    report = await examine(host, command(refusal(-1, ""), ping={"error": -32601}))
    [problem] = [problem for problem in report.problems if problem.startswith("ping")]
    assert "(-32601, method not found; fault: the server)" in problem
    connection = await host.connect(command(refusal(-1, ""), ping={"error": -32601}), name="shop")
    with pytest.raises(errors.ProtocolError, match="fault: the server"):
        await connection.request("ping")


class NoProcesses(asyncio.SelectorEventLoop):
    """An event loop that starts no processes, such as that of Windows' selector."""

    async def subprocess_exec(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError


class ForeignPolicy(asyncio.DefaultEventLoopPolicy):
    """A policy of another package, as `uvloop.install()` sets it."""


ForeignPolicy.__module__ = "uvloop"


@pytest.mark.parametrize(
    ("policy", "advice"),
    [(None, "connect to its URL"), (ForeignPolicy, "uvloop has replaced asyncio's policy")],
    ids=["loop", "policy"],
)
def test_a_loop_that_starts_no_processes_is_named(policy, advice):
    async def connect() -> None:
        host = Host()
        with pytest.raises(errors.CommandNotFoundError, match="starts no processes") as caught:
            await host.connect(command({}), name="shop")
        assert advice in str(caught.value)
        report = await examine(host, command({}))
        assert not report.ok
        assert any(advice in problem for problem in report.problems)
        await host.close()

    kept = asyncio.get_event_loop_policy()
    loop = NoProcesses()
    if policy is not None:
        asyncio.set_event_loop_policy(policy())
    try:
        loop.run_until_complete(connect())
    finally:
        asyncio.set_event_loop_policy(kept)
        loop.close()


PATHS = {
    "/no/such/server": "the command '/no/such/server' does not exist",
    "./no/server": "the command './no/server' does not exist in the folder of the kernel",
    "~/server": "the command '~/server' does not exist",
    "no-such-program": "the command 'no-such-program' is not found",
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_command_that_is_a_path_does_not_blame_path(host, path):
    with pytest.raises(errors.CommandNotFoundError) as caught:
        await host.connect([path], name="shop")
    assert PATHS[path] in str(caught.value)
    assert ("PATH" in str(caught.value)) is (path == "no-such-program")


async def test_a_script_without_its_interpreter_says_so(host, tmp_path):
    script = tmp_path / "server"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    with pytest.raises(errors.CommandNotFoundError, match="is there, but cannot be started"):
        await host.connect([str(script)], name="shop")


JAVA = "IllegalStateException: no\n\tat a.b(C.java:1)\nCaused by: IOException: disk\n\tat y"
TRACED = "Traceback (most recent call last):\n"
LINES = {
    "nothing": (" \n ", ""),
    "java": (JAVA, "IOException: disk"),
    "go": ("panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()", "panic: index out of range"),
    "chained": (f"{TRACED}  a\nKeyError: 1\n\n{TRACED}  b\nOSError: full\nx", "OSError: full"),
    "sql": ('UndefinedTable: relation "x" is missing\nLINE 1: SELECT\n ^', 'UndefinedTable: relation "x" is missing'),
}
HOSTILE = {
    "digits": "1" * 100_000 + "x",
    "spaces": "a\n" + " " * 100_000 + "x",
    "headings": "a\n" + "error:" * 30_000 + "x",
    "titles": "<h1 " * 50_000,
    "brackets": "a\n" + "[ " * 100_000,
}


@pytest.mark.parametrize("kind", LINES)
def test_the_line_that_tells_most(kind):
    text, line = LINES[kind]
    assert telling_line(text) == line


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_long_text_takes_linear_time(kind):
    assert_linear(lambda text: (with_data(text, text), of_body(text)), sixteenth(HOSTILE[kind]), HOSTILE[kind])


def price() -> float:
    return "three"  # type: ignore[return-value]


def prices() -> list[dict[str, float]]:
    return [{"oslo": 1.5}, {"rome": "much"}]  # type: ignore[dict-item]


async def later() -> int:
    return "soon"  # type: ignore[return-value]


RETURNED = {
    price: "price returned 'three'; its return type is float",
    later: "later returned 'soon'; its return type is int",
    prices: "prices returned 'much' as 1.rome; its return type is list[dict[str, float]]: Input should be a valid num",
}


@pytest.mark.parametrize("function", RETURNED, ids=lambda function: function.__name__)
async def test_a_wrong_return_type_is_told_in_one_line(host, function):
    await host.connect(make_server("kitchen", [function], Marks()), name="kitchen")
    with pytest.raises(errors.ToolError) as caught:
        await host["kitchen"].call(function.__name__)
    assert str(caught.value).startswith(f"kitchen:{function.__name__} failed: {RETURNED[function]}")
    assert len(str(caught.value).splitlines()) == 1


WAITS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.calling import model_call
from tests.support.plain import Plain
server = Plain('late')
@server.tool
def wait(call) -> str:
    call.cancelled.wait()
    return ''
server.run()
"""


async def test_a_closed_host_is_not_shown_as_reconnecting(quick):
    shown: list[Any] = []
    quick.reports.reporter = lambda report: shown.append(report) or (lambda: None)
    quick.reports.after = 0.0
    connection = await quick.connect([sys.executable, "-c", WAITS], name="late")
    calls = [asyncio.create_task(connection.call("wait")) for _ in range(2)]
    await until(lambda: sum(report.title == "late:wait" for report in shown) == len(calls))
    closing = asyncio.create_task(quick.close())
    words: set[str] = set()
    while not all(call.done() for call in calls):
        words.update(report.words() for report in shown)
        await asyncio.sleep(0)
    await closing
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, errors.SessionClosedError) for error in ended)
    assert words
    assert not any("reconnecting" in word for word in words)
