"""`%mcp trace`, `%mcp raw`, `%mcp replay`, through the magic, over live servers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.config.project import load_declaration, trust
from mcp_magic.display.document import Problem
from mcp_magic.ipython.commands.trace import COLUMNS, NEWEST, TraceListing
from mcp_magic.notebook import host
from mcp_magic.watch import LogFollower
from tests.environments import ROOT
from tests.support.bundled import command
from tests.support.processes import start_http
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def empty_trace() -> None:
    host.trace.clear()


def vault() -> MCPServer:
    """Return a server whose only tool takes a secret."""
    server = MCPServer("vault", log_level="ERROR")

    @server.tool()
    def unlock(password: str, floor: int = 1) -> str:
        return f"floor {floor} is open" if password == "sesame-99" else "no"

    return server


def number_of(listing: Any, method: str) -> int:
    return next(row["number"] for row in listing if row["method"] == method)


async def test_a_call_is_two_rows_and_each_opens_to_its_json(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    listing = await magic("trace math --method tools/call")
    request, answer = listing
    assert (request["way"], request["method"], request["status"]) == ("→", "tools/call", None)
    assert request["says"] == 'add {"a": 3, "b": 4}'
    assert (answer["way"], answer["method"]) == ("←", f"answer to {request['number']}")
    assert answer["ms"] > 0
    assert answer["says"] == "7"
    html = listing._repr_mimebundle_()["text/html"]
    assert html.count("<details") >= 2
    assert "structuredContent" in html
    assert "structuredContent" not in str(listing), "a terminal shows one line a message"


async def test_the_dataframe_has_the_messages_whole(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    frame = (await magic("trace --method tools/call")).df
    assert list(frame["bytes"]) == [row["bytes"] for row in await magic("trace --method tools/call")]
    assert frame["message"][0]["params"]["arguments"] == {"a": 3, "b": 4}


async def test_server_method_errors_and_last_choose_what_is_listed(magic: Any) -> None:
    await magic("connect other", other=vault())
    await magic("call math:add a=1 b=2")
    with pytest.raises(errors.ToolError):
        await magic("call math:divide a=1 b=0")
    assert {row["server"] for row in await magic("trace")} == {"math", "other"}
    assert {row["server"] for row in await magic("trace other")} == {"other"}
    assert len(await magic("trace --method 'tools/*' --last 3")) == 3
    with pytest.raises(errors.ProtocolError):
        await magic("raw math no/such")
    failed, unknown = await magic("trace --errors")
    assert (failed["says"][:12], failed["fault"]) == ("tool error: ", None), "its text says who is to blame"
    assert (unknown["says"], unknown["fault"]) == ("-32601 (method not found): Method not found", "the caller")
    shown = (await magic("trace --errors"))._repr_mimebundle_()
    assert "✗ -32601 (method not found)" in shown["text/plain"]
    sign = r'<span class="mcp-error"[^>]*>-32601 \(method not found\): Method not found</span>'
    assert re.search(sign, shown["text/html"])
    assert (
        "mcp-error"
        not in (await magic("trace --method tools/list"))._repr_mimebundle_()["text/html"].rpartition("</style>")[2]
    )
    with pytest.raises(errors.UnknownServerError, match="Did you mean 'math'"):
        await magic("trace maht")


async def test_over_http_the_status_is_listed(magic: Any) -> None:
    with start_http(command("weather_server", "--transport", "http", "--port", "0")) as server:
        await magic(f"connect {server.url} --name weather")
        await magic("call weather:get_weather location=London")
        rows = await magic("trace weather --method tools/call")
        assert [row["status"] for row in rows] == [200, 200]
        await magic("disconnect weather")
    assert len(await magic("trace weather")), "a server that is gone still has its messages"


async def test_an_export_is_json_lines_and_has_no_secret(magic: Any, tmp_path: Path) -> None:
    await magic("connect vault", vault=vault())
    assert (await magic("call vault:unlock password=sesame-99")).text == "floor 1 is open"
    listing = await magic("trace --export trace.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert len(lines) == len(listing)
    call = next(line for line in lines if line["method"] == "tools/call")
    assert call["message"]["params"]["arguments"]["password"] == "***"
    assert {"time", "server", "direction", "seconds", "pair", "status", "size"} <= set(call)
    shown = f"{listing}{listing._repr_mimebundle_()}{listing.df.to_dict()}"
    assert "sesame" not in (tmp_path / "trace.jsonl").read_text() + shown
    with pytest.raises(errors.ConfigError, match="cannot be written: No such file"):
        await magic("trace --export nowhere/trace.jsonl")


async def test_markup_from_a_server_is_text_in_the_page(magic: Any) -> None:
    server = MCPServer("bad", log_level="ERROR")

    @server.tool()
    def mark() -> str:
        return "<script>alert(1)</script><img src=x onerror=alert(2)>"

    await magic("connect bad", bad=server)
    await magic("call bad:mark")
    html = (await magic("trace bad"))._repr_mimebundle_()["text/html"]
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "<img" not in html


@pytest.mark.parametrize("says", ["x", "<" * 120])
def test_a_long_trace_shows_its_newest_messages_and_opens_them(says: str) -> None:
    message = {"result": {"content": [{"type": "text", "text": "y" * 500}] * 20}}
    rows = [{"number": n, "method": "m", "says": says, "message": message} for n in range(1, 301)]
    bundle = TraceListing(rows, title="Trace", columns=COLUMNS)._repr_mimebundle_()
    html, text = bundle["text/html"], bundle["text/plain"]
    assert len(html) < 105_000, "the style is a part of it"
    assert ">300</td>" in html
    assert ">1</td>" not in html
    assert "<details" in html[html.index(">300</td>") :]
    assert re.search(r"the newest \d+ open to their JSON: .df has all of it", html)
    shown = html.count("<tr") - 2
    assert f">{301 - shown}</td>" in html
    assert f"<details><summary>{shown - NEWEST} earlier</summary>" in html
    for page in (html, text):
        assert f"the last {shown} of 300 rows: .df has all" in page
    assert text.splitlines()[2].split()[0] == str(301 - shown), "a terminal shows the same"


def test_a_summary_wraps_and_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    says = " ".join(["word"] * 24)
    rows = [{"number": n, "method": "tools/call", "says": says, "message": {"n": n}} for n in range(1, 4)]
    bundle = TraceListing(rows, title="Trace", columns=COLUMNS)._repr_mimebundle_()
    lines = bundle["text/plain"].splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" " * 10)] == [
        "Trace",
        "number",
        "1",
        "2",
        "3",
        "long",
    ]
    assert "long lines are cut: .df has what was recorded, `%mcp trace N` shows one message" in lines
    assert max(map(len, lines)) <= 80
    assert '<div class="mcp-lines">' in bundle["text/html"]
    assert bundle["text/html"].count(f"<summary>{says}</summary>") == 3

    errors = [{**row, "says": Problem(says)} for row in rows]
    text = TraceListing(errors, title="Trace", columns=COLUMNS)._repr_mimebundle_()["text/plain"]
    assert text.count("word") == 3 * 24, "errors have all of their text"
    assert "cut" not in text


FAILING_SERVER = """
import json, sys

MORE = "city\\n  Field required [type=missing]\\n    For further information visit https://x.org/" + "y" * 60 + "\\n"

def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def fail():
    try:
        {}["city"]
    except KeyError as error:
        raise ValueError("no such city") from error

for line in sys.stdin:
    message = json.loads(line)
    method, number = message["method"], message.get("id")
    if method == "initialize":
        info = {"name": "failing", "version": "1"}
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        write(id=number, result=answer)
    elif method == "tools/list":
        tool = {"description": "x" * 500, "inputSchema": {"type": "object"}}
        write(id=number, result={"tools": [{"name": f"tool_{n}", **tool} for n in range(100)]})
    elif method == "tools/call" and message["params"]["name"] == "tool_2":
        content = [{"type": "text", "text": f"block {n} " + "y" * 400} for n in range(500)]
        write(id=number, result={"content": content, "structuredContent": {"rows": [*range(2000)]}, "isError": True})
    elif method == "tools/call":
        try:
            fail()
        except ValueError:
            import traceback
            lines = traceback.format_exc().splitlines(keepends=True)
        if message["params"]["name"] == "tool_3":
            print(*lines[:2], sep="", end="", file=sys.stderr, flush=True)
            write(id="p", method="ping")
            sys.stdin.readline()
            lines = [*lines[2:], MORE]
        print(*lines, sep="", end="", file=sys.stderr, flush=True)
        write(id=number, result={"content": [{"type": "text", "text": "failed"}], "isError": True})
    elif number is not None:
        write(id=number, error={"code": -32601, "message": "Method not found"})
"""


@pytest.fixture
async def failing(magic: Any, tmp_path: Path) -> None:
    """Connect to a server whose calls fail with a chained exception on its stderr."""
    program = tmp_path / "failing.py"
    program.write_text(FAILING_SERVER)
    await magic(f"connect --name failing -- {sys.executable} {program}")


@pytest.mark.usefixtures("failing")
async def test_trace_has_a_row_for_a_traceback(magic: Any) -> None:
    for _ in range(3):
        with pytest.raises(errors.ToolError):
            await magic("call failing:tool_1")
    rows = [row for row in await magic("trace failing") if row["way"] == "stderr"]
    assert [row["says"] for row in rows] == ["failing.py, line 13, fail: ValueError: no such city"] * 3
    assert rows[0]["message"].count("Traceback") == 2
    shown = str(await magic(f"trace {rows[0]['number']}"))
    assert shown.splitlines()[1] == rows[0]["says"]
    assert "The above exception was the direct cause" in shown


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("command", ["trace", "logs"])
async def test_a_traceback_with_a_message_between_is_one_row(magic: Any, command: str) -> None:
    with pytest.raises(errors.ToolError):
        await magic("call failing:tool_3")
    listing = await magic(f"{command} failing")
    [record] = [row for row in listing if "stderr" in (row.get("way"), row.get("source"))]
    text = record["message" if command == "trace" else "text"]
    assert (text.count("Traceback"), text.splitlines()[-2]) == (2, "  Field required [type=missing]")
    if command == "trace":
        lines = [entry.number for entry in host.trace.entries("failing") if entry.kind == "line"]
        assert lines[0] == record["number"] < number_of(listing, "ping") < lines[-1]


@pytest.mark.usefixtures("failing")
async def test_a_cut_message_says_how_much_it_had(magic: Any) -> None:
    _, answer = await magic("trace failing --method tools/list")
    assert answer["says"] == "100 tools"
    title, message = (await magic(f"trace {answer['number']}")).blocks[1]
    *kept, rest = message["result"]["tools"]
    assert rest == f"… ({100 - len(kept)} more)"
    assert re.search(r"← answer to \d+, about 5\d\.\d kB, cut when it was recorded,", title)
    with pytest.raises(errors.ToolError):
        await magic("call failing:tool_2")
    listing = await magic("trace failing --method tools/call")
    says = listing[-1]["says"]
    assert says.startswith("tool error: block 0 yyy")
    assert says.endswith("… (+499 blocks)")
    html = listing._repr_mimebundle_()["text/html"]
    assert "<small>[500]</small>" in html
    assert ".data has" not in html, "the listing has no such attribute"


@pytest.mark.parametrize("last", ["… (98 more)", "… (, more)"])
async def test_a_server_cannot_say_how_much_was_left_out(magic: Any, last: str) -> None:
    server = MCPServer("liar", log_level="ERROR")

    @server.tool(structured_output=False)
    def texts() -> list[str]:
        return ["one", last]

    await magic("connect liar", liar=server)
    await magic("call liar:texts")
    assert (await magic("trace liar"))[-1]["says"] == "one (+1 block)"
    listing = TraceListing([{"number": 1, "says": "x", "message": {"list": ["one", last]}}], columns=COLUMNS)
    assert "</small>" in listing._repr_mimebundle_()["text/html"]


def test_a_page_has_its_newest_rows_in_view_and_units() -> None:
    row = {"method": "m", "ms": 12.3, "bytes": 1234, "status": 429, "fault": "the caller", "message": {}}
    rows = [{"number": n, "says": f"row {n}", **row} for n in range(1, 31)]
    html = TraceListing(rows, title="Trace", columns=COLUMNS)._repr_mimebundle_()["text/html"]
    newest = html[html.index("</table>") :]
    assert f"<summary>{30 - NEWEST} earlier</summary>" in html
    assert newest.count("<summary>row ") == NEWEST
    assert "max-height:none" in newest
    for text in (">12 ms<", ">1.2 kB<", ">HTTP 429<", ">the caller<"):
        assert newest.replace("\u00a0", " ").count(text) == NEWEST
    assert "content:'fault: '" in html


async def test_logs_have_their_newest_rows_in_view(magic: Any) -> None:
    host.failed["shop"] = "\n".join(f"INFO: {n} {'x' * 200}" for n in range(1, 301))
    listing = await magic("logs shop")
    html, text = (listing._repr_mimebundle_()[kind] for kind in ("text/html", "text/plain"))
    assert "flex-direction:column-reverse" in html
    for shown in (html, text):
        assert "INFO: 300 " in shown
        assert "INFO: 100 " not in shown
        assert "… 100 more logs: .df has all 300" in shown


async def test_a_long_line_of_a_record_wraps(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    host.failed["shop"] = f"ERROR: {'word ' * 24}end\n    at {'place ' * 15}end"
    lines = str(await magic("logs shop")).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).count("word") == 24
    assert [line.rstrip()[-3:] for line in lines].count("end") == 2
    assert len({len(line) - len(line.lstrip()) for line in lines if "place" in line}) == 1, "it stays indented"


async def test_lanes_beyond_the_last_are_one(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.ipython.commands.trace.LANES", 2)
    await magic("read math://constants")
    await magic("call math:add a=3 b=4")
    timeline = await magic("trace --plot")
    labels = [label.get_text() for label in timeline.figure.axes[0].get_yticklabels()]
    assert len(labels) == 2
    assert labels[-1] == "others"


async def test_trace_shows_a_request_beside_its_answer(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    request, answer = [row["number"] for row in await magic("trace math --method tools/call")]
    for number in (request, answer):
        message = await magic(f"trace {number}")
        assert [title.split()[0] for title, _ in message.blocks] == [str(request), str(answer)]
        assert message.blocks[0][1]["params"]["arguments"] == {"a": 3, "b": 4}
        assert "structuredContent" in str(message)
        assert message._repr_mimebundle_()["text/html"].count("<details") >= 2
    html = (await magic("trace math --method tools/call"))._repr_mimebundle_()["text/html"]
    assert html.count(f"{request} math → tools/call") == 1, "the answer opens with its request"
    with pytest.raises(errors.NotFoundError, match="the trace has no message 99999999"):
        await magic("trace 99999999")


async def test_a_slice_of_the_trace_still_opens(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    listing = await magic("trace")
    assert "<details" in listing[-2:]._repr_mimebundle_()["text/html"]


async def test_a_timeline_is_a_picture(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    timeline = await magic("trace --plot")
    shown = timeline._repr_mimebundle_()
    assert shown["image/png"].startswith(b"\x89PNG")
    assert "lanes" in shown["text/plain"]
    labels = [label.get_text() for label in timeline.figure.axes[0].get_yticklabels()]
    assert "math: tools/call" in labels


async def test_without_matplotlib_the_error_has_the_pip_line(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(errors.MissingDependencyError, match=r"pip install 'mcp-magic\[plot\]'"):
        await magic("trace --plot")


async def test_raw_sends_what_is_typed_and_returns_what_came(magic: Any) -> None:
    answer = await magic('raw math tools/call {"name": "add", "arguments": {"a": 2, "b": 40}}')
    assert answer["structuredContent"] == {"result": 42}
    assert {tool["name"] for tool in (await magic("raw math tools/list"))["tools"]} >= {"add", "divide"}
    body = '{"name": "add", "arguments": {"a": "two"}}'
    assert (await magic("raw math tools/call", body))["isError"] is True, "nothing is checked before it is sent"
    assert (await magic("raw math resources/read $what", what={"uri": "math://constants"}))["contents"]


async def test_raw_names_the_code_of_a_protocol_error(magic: Any) -> None:
    with pytest.raises(errors.ProtocolError, match=r"math: no/such.*-32601, method not found") as caught:
        await magic("raw math no/such")
    assert caught.value.code == -32601


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raw math tools/list [1]", "the params must be a JSON object, .* not list"),
        ("raw math tools/list '{oops'", "the params are not JSON"),
        ("raw nobody tools/list", "nobody"),
    ],
)
async def test_raw_params_that_are_no_object_are_refused(magic: Any, line: str, message: str) -> None:
    before = len(host.trace)
    with pytest.raises(errors.MCPMagicError, match=message):
        await magic(line)
    assert len(host.trace) == before, "nothing was sent"


async def test_raw_sends_a_notification(magic: Any) -> None:
    assert await magic('raw math notifications/cancelled {"requestId": "x-1"} --notify') is None
    (row,) = await magic("trace --method notifications/cancelled")
    assert row["way"] == "→"


async def test_replay_sends_a_request_again_and_changed(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    number = number_of(await magic("trace"), "tools/call")
    assert (await magic(f"replay {number}")).data == 7
    assert (await magic(f"replay {number} b=10")).data == 13
    assert (await magic(f"replay {number + 1}")).data == 7, "the number of the answer will do"
    assert (await magic("replay $n b=20", n=number)).data == 23
    with pytest.raises(errors.CommandError, match="'seven' is not the number of a message; `%mcp trace` lists them"):
        await magic("replay seven")
    await magic("read math://constants")
    number = number_of(await magic("trace"), "resources/read")
    assert (await magic(f"replay {number} uri=math://table/3"))["contents"][0]["uri"] == "math://table/3"


async def test_replay_wants_secrets_again(magic: Any) -> None:
    await magic("connect vault", vault=vault())
    await magic("call vault:unlock password=sesame-99 floor=3")
    number = number_of(await magic("trace vault --method tools/call"), "tools/call")
    with pytest.raises(errors.ArgumentsError, match=r"keeps no secrets; type password=\.\.\. again"):
        await magic(f"replay {number}")
    assert (await magic(f"replay {number} password=sesame-99")).text == "floor 3 is open"


async def test_raw_and_replay_go_through_consent(magic: Any) -> None:
    await magic("call math:add a=3 b=4")
    number = number_of(await magic("trace"), "tools/call")
    await magic("deny math:add --reason 'no sums'")
    sent = len(host.trace)
    with pytest.raises(errors.DeniedError, match="no sums"):
        await magic(f"replay {number}")
    with pytest.raises(errors.DeniedError, match="no sums"):
        await magic('raw math tools/call {"name": "add", "arguments": {"a": 2, "b": 40}}')
    with pytest.raises(errors.DeniedError, match="no sums"):
        await magic('raw math tools/call {"name": "add"}')
    assert len(host.trace) == sent


async def test_what_cannot_be_replayed_says_why(magic: Any) -> None:
    await host.reconnect("math")
    listing = await magic("trace")
    number = number_of(listing, "server/discover")
    with pytest.raises(errors.CommandError, match="belongs to the session"):
        await magic(f"replay {number}")
    with pytest.raises(errors.NotFoundError, match="the trace has no message 99999999"):
        await magic("replay 99999999")
    await magic("call math:factorial n=3")
    await magic("raw math tools/call $long", long={"name": "add", "arguments": {"a": "x" * 100_000}})
    number = (await magic("trace --method tools/call"))[-2]["number"]
    with pytest.raises(errors.CommandError, match="too long to be kept whole"):
        await magic(f"replay {number}")


async def test_the_settings_bound_the_trace(magic: Any, tmp_path: Path) -> None:
    declaration = tmp_path / "mcp_magic.toml"
    declaration.write_text("[settings]\ntrace_messages = 4\ntrace_bytes = 1000000\n")
    trust(load_declaration(declaration))
    await magic("up")
    for n in range(5):
        await magic(f"call math:add a={n} b=0")
    listing = await magic("trace")
    assert [row["says"] for row in listing][-1] == "4"
    assert len(listing) == 4
    assert "older messages were dropped" in str(listing)
    declaration.write_text("[settings]\ntrace_messages = 0\n")
    trust(load_declaration(declaration))
    await magic("up")
    assert "trace_messages is 0" in str(await magic("trace"))
    declaration.write_text("[settings]\ntrace_messages = 10000\ntrace_bytes = 64000000\n")
    trust(load_declaration(declaration))
    await magic("up")


async def test_the_trace_counts_lists_in_words(magic: Any) -> None:
    says = [row["says"] for row in await magic("trace math")]
    assert [text for text in says if "resourceTemplate" in text or "supportedVersion" in text] == []
    assert any(text.endswith((" resource template", " resource templates")) for text in says)


async def test_trace_shows_a_line_after_plain_messages(magic: Any, tmp_path: Path) -> None:
    file = tmp_path / "x_server.py"
    file.write_text(
        "import sys\nfrom mcp.server import MCPServer\ns = MCPServer('x')\n\n\n@s.tool()\ndef add(a: int) -> int:\n"
        "    if a == 3:\n        print('a line', file=sys.stderr, flush=True)\n    return a\n\n\ns.run()\n"
    )
    await magic(f"connect --name x -- {sys.executable} {file}")
    for number in (1, 2, 3):
        await magic(f"call x:add a={number}")
    async with asyncio.timeout(60):
        while not (lines := [entry for entry in host.trace.entries() if entry.kind == "line"]):
            await asyncio.sleep(0)

    shown = await magic(f"trace {lines[0].number}")

    assert "a line" in shown._repr_mimebundle_()["text/plain"]


@pytest.mark.parametrize(
    ("line", "kind", "says"),
    [
        ("trace 1 --method x", errors.CommandError, "--method chooses among messages, and `%mcp trace 1` is one"),
        ("trace 1 --export x.jsonl", errors.CommandError, "--export chooses among messages"),
        (f"trace {'9' * 5000}", errors.NotFoundError, "has no message 999999999999999…"),
        (f"replay {'9' * 5000}", errors.NotFoundError, "has no message 999999999999999…"),
    ],
    ids=["method", "export", "large", "replay large"],
)
async def test_a_number_stands_alone(magic: Any, line: str, kind: type[Exception], says: str) -> None:
    await magic("call math:add a=3 b=4")

    with pytest.raises(kind) as raised:
        await magic(line)

    assert says in str(raised.value)


BAD_SERVER = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server = Plain("bad")

@server.tool
def hang() -> str:
    threading.Event().wait()

@server.tool
def die() -> str:
    os._exit(3)

@server.tool
def tell() -> str:
    print("password=hunter2", file=sys.stderr)
    print("Traceback (most recent call last):\\n  File 'x'\\nValueError: no", file=sys.stderr, flush=True)
    return "told"

@server.tool
def note(call) -> str:
    call.log("error", "password=hunter2")
    return "noted"

server.run()
"""


@pytest.fixture
async def bad(magic: Any, tmp_path: Path) -> None:
    program = tmp_path / "bad.py"
    program.write_text(BAD_SERVER)
    await magic(f"connect --name bad -- {sys.executable} {program}")


async def late(magic: Any) -> None:
    with pytest.raises(errors.RequestTimeoutError):
        await magic("call bad:hang --timeout 0.1")


async def dead(magic: Any) -> None:
    with pytest.raises(errors.SessionClosedError):
        await magic("call bad:die")


async def pending(magic: Any) -> asyncio.Task[Any]:
    call = asyncio.create_task(magic("call bad:hang"))
    await until(lambda: any(entry.method == "tools/call" for entry in host.trace.entries("bad")))
    return call


async def cancelled(magic: Any) -> None:
    call = await pending(magic)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def closed(magic: Any) -> None:
    call = await pending(magic)
    await magic("disconnect bad")
    with pytest.raises(errors.SessionClosedError):
        await call


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize(
    ("end", "why", "whose"),
    [
        (late, r"no answer in 1\d\d ms|no answer in \d.*", "the server"),
        (dead, r"the session ended after \d.*", "the server"),
        (cancelled, r"cancelled after \d.*", "the caller"),
        (closed, r"the session was closed after \d.*", "the caller"),
    ],
    ids=["time-out", "death", "cancelled", "closed"],
)
async def test_errors_list_calls_without_an_answer(
    magic: Any, end: Callable[[Any], Awaitable[None]], why: str, whose: str
) -> None:
    await end(magic)

    [row] = [row for row in await magic("trace bad --errors") if row["method"] == "tools/call"]

    assert re.fullmatch(rf"(?:{why}): (?:hang|die)", row["says"])
    assert row["fault"] == whose
    assert "✗ " + row["says"][:12] in str(await magic("trace bad"))
    assert f"(fault: {whose})" in str(await magic(f"trace {row['number']}"))


async def test_errors_list_an_opening_without_answer(magic: Any) -> None:
    with pytest.raises(errors.ConnectError):
        await magic(f"connect --name gone -- {sys.executable} -c 'import sys; sys.stdin.readline()'")

    rows = await magic("trace gone --errors")

    assert rows, str(await magic("trace gone"))
    assert {row["fault"] for row in rows} == {"the server"}


@pytest.mark.usefixtures("bad")
async def test_clear_with_a_server_keeps_the_others(magic: Any) -> None:
    before = len(await magic("trace math"))

    assert len(await magic("trace bad --clear")) == 0

    assert len(await magic("trace bad")) == 0
    assert len(await magic("trace math")) == before > 0
    with pytest.raises(errors.UnknownServerError):
        await magic("trace bat --clear")
    await magic("trace --clear")
    assert len(await magic("trace")) == 0


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize("source", ["a session", "a failed start"])
async def test_logs_mask_what_the_trace_masks(magic: Any, source: str) -> None:
    await magic("call bad:tell")
    if source == "a failed start":
        host.failed["shop"] = "password=hunter2"
    shown = str(await magic("logs bad" if source == "a session" else "logs shop"))
    assert "password=***" in shown
    assert "hunter2" not in shown + str(await magic("trace bad"))


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize("tool", ["tell", "note"])
async def test_followed_logs_are_masked_as_the_trace(magic: Any, tool: str) -> None:
    with LogFollower(lambda: host.connections.get("bad")) as follower:
        await magic(f"call bad:{tool}")
        new = await follower.take()
    assert new
    assert new[0].data == "password=***"
    assert "hunter2" not in str(await magic("logs bad"))


@pytest.mark.usefixtures("bad")
async def test_a_record_is_called_alike_everywhere(magic: Any) -> None:
    await magic("call bad:tell")
    [row] = [row for row in await magic("trace bad") if row["method"] == "4 lines"]
    assert str(await magic(f"trace {row['number']}")).startswith(f"{row['number']} bad stderr 4 lines\n")


@pytest.mark.usefixtures("bad")
async def test_stderr_stands_after_its_request(magic: Any) -> None:
    for _ in range(20):
        await magic("call bad:tell")
    rows = await magic("trace bad --last 60")
    ways = [row["way"] for row in rows]
    assert ways == ["→", "stderr", "←"] * 20
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)


@pytest.mark.usefixtures("failing")
async def test_what_was_cut_is_told_apart(magic: Any) -> None:
    listing = await magic("trace failing --method tools/list")
    number = listing[-1]["number"]
    message = await magic(f"trace {number}")
    kept = len(message.blocks[1][1]["result"]["tools"]) - 1

    html = message._repr_mimebundle_()["text/html"]
    assert f"… {100 - kept} more: not kept, cut when it was recorded" in html
    assert "… 1 more: .blocks has them" not in html
    opened = listing._repr_mimebundle_()["text/html"]
    assert re.search(rf"<b>{number} ←, about 5\d\.\d kB, cut when it was recorded</b>", opened)


async def test_a_message_too_long_for_a_terminal(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    number = number_of(await magic("trace math"), "server/discover")
    more = "… more: .blocks has it"
    assert more not in str(await magic(f"trace {number}"))
    monkeypatch.setattr("mcp_magic.display.document.display.characters", 100)
    assert more in str(await magic(f"trace {number}"))
