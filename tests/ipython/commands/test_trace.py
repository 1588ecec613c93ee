"""`%mcp trace`, `replay`, `logs` and `metrics`, over live servers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from traitlets.config import Config

from mcp_magic import errors
from mcp_magic.config.project import load_declaration, trust
from mcp_magic.display.document import Problem
from mcp_magic.ipython.commands.trace import COLUMNS, NEWEST, TraceListing
from mcp_magic.notebook import host
from mcp_magic.telemetry.telemetry import telemetry
from mcp_magic.watch import LogFollower
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def from_zero():
    host.trace.clear()
    host.metrics.clear()
    yield
    telemetry.export("")


def number_of(listing: Any, method: str) -> int:
    return next(row["number"] for row in listing if row["method"] == method)


def html_of(shown: Any) -> str:
    text: str = shown._repr_mimebundle_()["text/html"]
    return text


def listed(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Return rows of the trace as a page and as text show them."""
    bundle = TraceListing(rows, title="Trace", columns=COLUMNS)._repr_mimebundle_()
    return bundle["text/html"], bundle["text/plain"]


# The listing


async def test_call_is_two_rows_and_each_opens_to_its_json(magic):
    await magic("call math:add a=3 b=4")
    listing = await magic("trace math --method tools/call")
    request, answer = listing
    assert (request["way"], request["method"], request["status"]) == ("→", "tools/call", None)
    assert request["says"] == 'add {"a": 3, "b": 4}'
    assert (answer["way"], answer["method"]) == ("←", f"answer to {request['number']}")
    assert answer["ms"] > 0
    assert answer["says"] == "7"
    html = html_of(listing)
    assert html.count("<details") >= 2
    assert "structuredContent" in html
    assert html.count(f"{request['number']} math → tools/call") == 1, "the answer opens with its request"
    assert "structuredContent" not in str(listing), "a terminal shows one line a message"
    assert "<details" in html_of((await magic("trace"))[-2:]), "a slice still opens"
    frame = listing.df
    assert list(frame["bytes"]) == [row["bytes"] for row in listing]
    assert frame["message"][0]["params"]["arguments"] == {"a": 3, "b": 4}


async def test_number_shows_a_request_beside_its_answer(magic, monkeypatch):
    await magic("call math:add a=3 b=4")
    listing = await magic("trace math --method tools/call")
    request, answer = [row["number"] for row in listing]
    for number in (request, answer):
        message = await magic(f"trace {number}")
        assert [title.split()[0] for title, _ in message.blocks] == [str(request), str(answer)]
        assert message.blocks[0][1]["params"]["arguments"] == {"a": 3, "b": 4}
        assert "structuredContent" in str(message)
        assert html_of(message).count("<details") >= 2
    for line, kind, says in (
        ("trace 99999999", errors.NotFoundError, "the trace has no message 99999999"),
        (f"trace {'9' * 5000}", errors.NotFoundError, "has no message 999999999999999…"),
        ("trace 1 --method x", errors.CommandError, "--method chooses among messages, and `%mcp trace 1` is one"),
        ("trace 1 --export x.jsonl", errors.CommandError, "--export chooses among messages"),
    ):
        assert says in await magic.error(kind, line)
    number = number_of(await magic("trace math"), "server/discover")
    assert "… more: .blocks has it" not in str(await magic(f"trace {number}"))
    monkeypatch.setattr("mcp_magic.display.document.display.characters", 100)
    assert "… more: .blocks has it" in str(await magic(f"trace {number}"))


async def test_server_method_errors_and_last_choose_the_rows(magic):
    await magic("call math:add a=1 b=2")
    await magic.error(errors.ToolError, "call math:divide a=1 b=0")
    assert len(await magic("trace --method 'tools/*' --last 3")) == 3
    await magic.error(errors.ProtocolError, "raw math no/such")
    listing = await magic("trace --errors")
    failed, unknown = listing
    assert (failed["says"][:12], failed["fault"]) == ("tool error: ", None), "its text says who is to blame"
    assert (unknown["says"], unknown["fault"]) == ("-32601 (method not found): Method not found", "the caller")
    assert "✗ -32601 (method not found)" in str(listing)
    sign = r'<span class="mcp-error"[^>]*>-32601 \(method not found\): Method not found</span>'
    assert re.search(sign, html_of(listing))
    assert "mcp-error" not in html_of(await magic("trace --method tools/list")).rpartition("</style>")[2]
    assert "Did you mean 'math'" in await magic.error(errors.UnknownServerError, "trace maht")
    says = [row["says"] for row in await magic("trace math")]
    assert [text for text in says if "resourceTemplate" in text or "supportedVersion" in text] == []
    assert any(text.endswith((" resource template", " resource templates")) for text in says), "counted in words"


async def test_status_of_http_is_listed_also_of_a_server_gone(magic):
    app = load("math_server").server.streamable_http_app(transport_security=None)
    async with serving(app) as url:
        await magic(f"connect {url}/mcp --name away")
        await magic("call away:add a=1 b=2")
        assert [row["status"] for row in await magic("trace away --method tools/call")] == [200, 200]
        await magic("disconnect away")
    assert len(await magic("trace away"))


async def test_export_and_replay_have_no_secret(magic):
    server = MCPServer("vault", log_level="ERROR")

    @server.tool()
    def unlock(password: str, floor: int = 1) -> str:
        return f"floor {floor} is open" if password == "sesame-99" else "no"

    await magic("connect vault", vault=server)
    assert (await magic("call vault:unlock password=sesame-99 floor=3")).text == "floor 3 is open"
    assert {row["server"] for row in await magic("trace")} == {"math", "vault"}
    assert {row["server"] for row in await magic("trace vault")} == {"vault"}
    listing = await magic("trace --export trace.jsonl")
    file = magic.folder / "trace.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == len(listing)
    call = next(line for line in lines if line["method"] == "tools/call")
    assert call["message"]["params"]["arguments"]["password"] == "***"
    assert {"time", "server", "direction", "seconds", "pair", "status", "size"} <= set(call)
    assert "sesame" not in f"{file.read_text()}{listing}{listing._repr_mimebundle_()}{listing.df.to_dict()}"
    error = await magic.error(errors.ConfigError, "trace --export nowhere/trace.jsonl")
    assert "cannot be written: No such file" in error
    number = number_of(listing, "tools/call")
    assert "keeps no secrets; type password=... again" in await magic.error(errors.ArgumentsError, f"replay {number}")
    assert (await magic(f"replay {number} password=sesame-99")).text == "floor 3 is open"


async def test_server_puts_no_markup_and_no_count_into_the_page(magic):
    server = MCPServer("bad", log_level="ERROR")

    @server.tool()
    def mark() -> str:
        return "<script>alert(1)</script><img src=x onerror=alert(2)>"

    @server.tool(structured_output=False)
    def texts(last: str) -> list[str]:
        return ["one", last]

    await magic("connect bad", bad=server)
    await magic("call bad:mark")
    html = html_of(await magic("trace bad"))
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "<img" not in html
    for last in ("… (98 more)", "… (, more)"):
        await magic("call bad:texts last=$last", last=last)
        assert (await magic("trace bad"))[-1]["says"] == "one (+1 block)"
        assert "</small>" in listed([{"number": 1, "says": "x", "message": {"list": ["one", last]}}])[0]


@pytest.mark.parametrize("says", ["x", "<" * 120], ids=["short", "escaped"])
def test_long_trace_shows_its_newest_messages_and_opens_them(says):
    message = {"result": {"content": [{"type": "text", "text": "y" * 500}] * 20}}
    html, text = listed([{"number": n, "method": "m", "says": says, "message": message} for n in range(1, 301)])
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


def test_page_has_its_newest_rows_in_view_and_units():
    row = {"method": "m", "ms": 12.3, "bytes": 1234, "status": 429, "fault": "the caller", "message": {}}
    html, _ = listed([{"number": n, "says": f"row {n}", **row} for n in range(1, 31)])
    newest = html[html.index("</table>") :]
    assert f"<summary>{30 - NEWEST} earlier</summary>" in html
    assert newest.count("<summary>row ") == NEWEST
    assert "max-height:none" in newest
    for text in (">12 ms<", ">1.2 kB<", ">HTTP 429<", ">the caller<"):
        assert newest.replace("\u00a0", " ").count(text) == NEWEST
    assert "content:'fault: '" in html


def test_summary_wraps_and_opens(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    says = " ".join(["word"] * 24)
    rows = [{"number": n, "method": "tools/call", "says": says, "message": {"n": n}} for n in range(1, 4)]
    html, text = listed(rows)
    lines = text.splitlines()
    firsts = [line.split()[0] for line in lines if not line.startswith(" " * 10)]
    assert firsts == ["Trace", "number", "1", "2", "3", "long"]
    assert "long lines are cut: .df has what was recorded, `%mcp trace N` shows one message" in lines
    assert max(map(len, lines)) <= 80
    assert '<div class="mcp-lines">' in html
    assert html.count(f"<summary>{says}</summary>") == 3
    _, text = listed([{**row, "says": Problem(says)} for row in rows])
    assert text.count("word") == 3 * 24, "errors have all of their text"
    assert "cut" not in text


async def test_timeline_is_a_picture(magic, monkeypatch):
    await magic("read math://constants")
    await magic("call math:add a=3 b=4")

    def labels(timeline: Any) -> list[str]:
        return [label.get_text() for label in timeline.figure.axes[0].get_yticklabels()]

    timeline = await magic("trace --plot")
    shown = timeline._repr_mimebundle_()
    assert shown["image/png"].startswith(b"\x89PNG")
    assert "lanes" in shown["text/plain"]
    assert "math: tools/call" in labels(timeline)
    monkeypatch.setattr("mcp_magic.ipython.commands.trace.LANES", 2)
    few = labels(await magic("trace --plot"))
    assert (len(few), few[-1]) == (2, "others")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'mcp-magic[plot]'" in await magic.error(errors.MissingDependencyError, "trace --plot")


async def test_settings_bound_the_trace(magic):
    declaration = magic.folder / "mcp_magic.toml"

    async def declare(*settings: str) -> None:
        declaration.write_text("\n".join(["[settings]", *settings]))
        trust(load_declaration(declaration))
        await magic("up")

    await declare("trace_messages = 4", "trace_bytes = 1000000")
    for n in range(5):
        await magic(f"call math:add a={n} b=0")
    listing = await magic("trace")
    assert (len(listing), listing[-1]["says"]) == (4, "4")
    assert "older messages were dropped" in str(listing)
    await declare("trace_messages = 0")
    assert "trace_messages is 0" in str(await magic("trace"))
    await declare("trace_messages = 10000", "trace_bytes = 64000000")


# Replay


async def test_replay_sends_a_request_again_and_changed(magic):
    await magic("call math:add a=3 b=4")
    number = number_of(await magic("trace"), "tools/call")
    assert (await magic(f"replay {number}")).data == 7
    assert (await magic(f"replay {number} b=10")).data == 13
    assert (await magic(f"replay {number + 1}")).data == 7, "the number of the answer will do"
    assert (await magic("replay $n b=20", n=number)).data == 23
    error = await magic.error(errors.CommandError, "replay seven")
    assert "'seven' is not the number of a message; `%mcp trace` lists them" in error
    await magic("read math://constants")
    number = number_of(await magic("trace"), "resources/read")
    assert (await magic(f"replay {number} uri=math://table/3"))["contents"][0]["uri"] == "math://table/3"


async def test_request_that_cannot_be_replayed_says_why(magic):
    await host.reconnect("math")
    number = number_of(await magic("trace"), "server/discover")
    assert "belongs to the session" in await magic.error(errors.CommandError, f"replay {number}")
    for missing in (99999999, "9" * 5000):
        error = await magic.error(errors.NotFoundError, f"replay {missing}")
        assert error.startswith(f"the trace has no message {str(missing)[:8]}")
        assert len(error) < 100
    await magic("call math:factorial n=3")
    await magic("raw math tools/call $long", long={"name": "add", "arguments": {"a": "x" * 100_000}})
    short, _, long, _ = [row["number"] for row in await magic("trace --method tools/call")]
    assert "too long to be kept whole" in await magic.error(errors.CommandError, f"replay {long}")
    await magic("deny 'math:*' --reason 'no sums'")
    sent = len(host.trace)
    call = '{"name": "add", "arguments": {"a": 2, "b": 40}}'
    for line in (f"replay {short}", f"raw math tools/call {call}", 'raw math tools/call {"name": "add"}'):
        assert "no sums" in await magic.error(errors.DeniedError, line)
    assert len(host.trace) == sent


# Servers that fail

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
BAD_SERVER = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

def hang() -> str:
    threading.Event().wait()

def die() -> str:
    os._exit(3)

def tell() -> str:
    print("password=hunter2", file=sys.stderr)
    print("Traceback (most recent call last):\\n  File 'x'\\nValueError: no", file=sys.stderr, flush=True)
    return "told"

def note(call) -> str:
    call.log("error", "password=hunter2")
    return "noted"

server = Plain("bad")
for function in (hang, die, tell, note):
    server.tool(function)
server.run()
"""


@pytest.fixture
async def failing(magic):
    """Connect to a server whose calls fail with a chained exception on its stderr."""
    (magic.folder / "failing.py").write_text(FAILING_SERVER)
    await magic(f"connect --name failing -- {sys.executable} failing.py")


@pytest.fixture
async def bad(magic):
    (magic.folder / "bad.py").write_text(BAD_SERVER)
    await magic(f"connect --name bad -- {sys.executable} bad.py")


@pytest.mark.usefixtures("failing")
async def test_traceback_is_one_row_also_around_a_message(magic):
    for _ in range(3):
        await magic.error(errors.ToolError, "call failing:tool_1")
    rows = [row for row in await magic("trace failing") if row["way"] == "stderr"]
    assert [row["says"] for row in rows] == ["failing.py, line 13, fail: ValueError: no such city"] * 3
    assert rows[0]["message"].count("Traceback") == 2
    shown = str(await magic(f"trace {rows[0]['number']}"))
    assert shown.splitlines()[1] == rows[0]["says"]
    assert "The above exception was the direct cause" in shown
    await magic.error(errors.ToolError, "call failing:tool_3")
    traced, logged = await magic("trace failing"), await magic("logs failing")
    record = [row for row in traced if row["way"] == "stderr"][-1]
    row = [row for row in logged if row["source"] == "stderr"][-1]
    for text in (record["message"], row["text"]):
        assert (text.count("Traceback"), text.splitlines()[-2]) == (2, "  Field required [type=missing]")
    last = [e.number for e in host.trace.entries("failing") if e.kind == "line" and e.number >= record["number"]]
    assert last[0] == record["number"] < number_of(traced, "ping") < last[-1]


@pytest.mark.usefixtures("failing")
async def test_cut_message_says_how_much_it_had(magic):
    listing = await magic("trace failing --method tools/list")
    number = listing[-1]["number"]
    assert listing[-1]["says"] == "100 tools"
    message = await magic(f"trace {number}")
    title, answer = message.blocks[1]
    *kept, rest = answer["result"]["tools"]
    assert rest == f"… ({100 - len(kept)} more)"
    assert re.search(r"← answer to \d+, about 5\d\.\d kB, cut when it was recorded,", title)
    assert f"… {100 - len(kept)} more: not kept, cut when it was recorded" in html_of(message)
    assert "… 1 more: .blocks has them" not in html_of(message)
    assert re.search(rf"<b>{number} ←, about 5\d\.\d kB, cut when it was recorded</b>", html_of(listing))
    await magic.error(errors.ToolError, "call failing:tool_2")
    listing = await magic("trace failing --method tools/call")
    assert listing[-1]["says"].startswith("tool error: block 0 yyy")
    assert listing[-1]["says"].endswith("… (+499 blocks)")
    assert "<small>[500]</small>" in html_of(listing)
    assert ".data has" not in html_of(listing), "the listing has no such attribute"


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize(
    ("end", "error", "why", "whose"),
    [
        ("hang --timeout 0.1", errors.RequestTimeoutError, r"no answer in 1\d\d ms|no answer in \d.*", "the server"),
        ("die", errors.SessionClosedError, r"the session ended after \d.*", "the server"),
        ("cancel", asyncio.CancelledError, r"cancelled after \d.*", "the caller"),
        ("disconnect", errors.SessionClosedError, r"the session was closed after \d.*", "the caller"),
    ],
    ids=["time-out", "death", "cancelled", "closed"],
)
async def test_errors_list_calls_without_an_answer(magic, end, error, why, whose):
    call = asyncio.create_task(magic(f"call bad:{'hang' if end in ('cancel', 'disconnect') else end}"))
    await until(lambda: any(entry.method == "tools/call" for entry in host.trace.entries("bad")))
    if end == "cancel":
        call.cancel()
    elif end == "disconnect":
        await magic("disconnect bad")
    with pytest.raises(error):
        await call
    [row] = [row for row in await magic("trace bad --errors") if row["method"] == "tools/call"]
    assert re.fullmatch(rf"(?:{why}): (?:hang|die)", row["says"])
    assert row["fault"] == whose
    assert "✗ " + row["says"][:12] in str(await magic("trace bad"))
    assert f"(fault: {whose})" in str(await magic(f"trace {row['number']}"))


async def test_errors_list_an_opening_without_answer(magic):
    line = f"connect --name gone -- {sys.executable} -c 'import sys; sys.stdin.readline()'"
    await magic.error(errors.ConnectError, line)
    assert {row["fault"] for row in await magic("trace gone --errors")} == {"the server"}


@pytest.mark.usefixtures("bad")
async def test_stderr_stands_after_its_request_and_is_masked(magic):
    for _ in range(2):
        await magic("call bad:note")
    for _ in range(20):
        await magic("call bad:tell")
    rows = await magic("trace bad --last 60")
    assert [row["way"] for row in rows] == ["→", "stderr", "←"] * 20
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert rows[1]["method"] == "4 lines"
    assert str(await magic(f"trace {rows[1]['number']}")).startswith(f"{rows[1]['number']} bad stderr 4 lines\n")
    host.failed["shop"] = "password=hunter2"
    logs = [str(await magic("logs bad")), str(await magic("logs shop"))]
    assert all("password=***" in text for text in logs)
    assert "hunter2" not in str(logs) + str(await magic("trace bad"))
    for tool in ("tell", "note"):
        with LogFollower(lambda: host.connections.get("bad")) as follower:
            await magic(f"call bad:{tool}")
            new = await follower.take()
        assert new[0].data == "password=***"
    before = len(await magic("trace math"))
    assert len(await magic("trace bad --clear")) == len(await magic("trace bad")) == 0
    assert len(await magic("trace math")) == before > 0
    await magic.error(errors.UnknownServerError, "trace bat --clear")
    await magic("trace --clear")
    assert len(await magic("trace")) == 0


# Logs


async def test_logs_mask_values_of_the_environment(magic):
    program = magic.folder / "loud.py"
    program.write_text(BAD_SERVER.replace('"password=hunter2"', "f\"using {os.environ['API_TOKEN']}\""))
    await host.connect([sys.executable, str(program)], name="loud", env={"API_TOKEN": "sesame-123"})
    await magic("call loud:tell")
    await magic("call loud:note")
    assert str(await magic("logs loud")).count("using ***") == 2


STDERR_OF_A_SERVER = """\
INFO:     Started server process [12]
2026-11-23 10:00:00,123 - shop - WARNING - low stock
ERROR:root:it failed
Traceback (most recent call last):
  File "a.py", line 3, in f
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in g
ValueError: bad
Traceback (most recent call last):
  File "b.py", line 9
KeyError: 'x'
done
"""


async def test_record_of_a_server_is_one_row_with_its_level(magic):
    host.failed["shop"] = STDERR_OF_A_SERVER
    listing = await magic("logs shop")
    records = [(row["level"], row["text"].splitlines()[0], row["text"].splitlines()[-1]) for row in listing]
    assert records == [
        ("info", *["INFO:     Started server process [12]"] * 2),
        ("warning", *["2026-11-23 10:00:00,123 - shop - WARNING - low stock"] * 2),
        ("error", "ERROR:root:it failed", "ValueError: bad"),
        ("error", "Traceback (most recent call last):", "KeyError: 'x'"),
        (None, "done", "done"),
    ]
    assert STDERR_OF_A_SERVER.splitlines()[4] in str(listing), "its lines keep their spaces"
    assert len(await magic("logs shop --last 2")) == 2


async def test_logs_have_their_newest_rows_in_view_and_wrap(magic, monkeypatch):
    host.failed["shop"] = "\n".join(f"INFO: {n} {'x' * 200}" for n in range(1, 301))
    listing = await magic("logs shop")
    assert "flex-direction:column-reverse" in html_of(listing)
    for shown in (html_of(listing), str(listing)):
        assert "INFO: 300 " in shown
        assert "INFO: 100 " not in shown
        assert "… 100 more logs: .df has all 300" in shown
    monkeypatch.setenv("COLUMNS", "80")
    host.failed["shop"] = f"ERROR: {'word ' * 24}end\n    at {'place ' * 15}end"
    lines = str(await magic("logs shop")).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).count("word") == 24
    assert [line.rstrip()[-3:] for line in lines].count("end") == 2
    assert len({len(line) - len(line.lstrip()) for line in lines if "place" in line}) == 1, "it stays indented"


# Metrics


async def test_metrics_count_calls_by_server_and_tool(magic):
    assert "no tool was called yet" in str(await magic("metrics"))
    assert len(await magic("metrics math")) == 0
    await magic.error(errors.UnknownServerError, "metrics maths")
    await magic("call math:add a=1 b=2")
    await magic("call math:add a=1 b=2")
    await magic.error(errors.ToolError, "call math:divide a=1 b=0")
    listing = await magic("metrics")
    rows = {row["tool"]: row for row in listing}
    assert (rows["add"]["calls"], rows["add"]["failed"]) == (2, 0)
    assert (rows["divide"]["failed"], rows["divide"]["errors"]) == (1, "tool_error 1")
    assert rows["add"]["longest ms"] >= rows["add"]["mean ms"] > 0
    assert list(listing.df["server"]) == ["math", "math"]
    assert "written to mcp.prom" in str(await magic("metrics --export mcp.prom"))
    assert 'mcp_magic_calls_total{server="math",tool="add"} 2' in (magic.folder / "mcp.prom").read_text()
    error = await magic.error(errors.ConfigError, "metrics --export nowhere/mcp.prom")
    assert re.fullmatch(r"/.*cannot be written: No such file or directory", error)
    assert len(await magic("metrics --clear")) == 0


async def test_metrics_say_where_spans_go(magic):
    exporter = InMemorySpanExporter()
    magic.settings.telemetry = exporter
    await magic("call math:add a=1 b=2")
    assert telemetry.flush()
    assert "execute_tool add" in [span.name for span in exporter.get_finished_spans()]
    assert "spans went to InMemorySpanExporter" in str(await magic("metrics"))
    magic.settings.telemetry = ""
    assert "spans went" not in str(await magic("metrics"))
    with pytest.raises(errors.ConfigError, match="Did you mean 'otlp'"):
        magic.settings.telemetry = "oltp"
    with pytest.raises(errors.ConfigError, match="Did you mean 'otlp'"):
        magic.settings.update_config(Config({"MCPMagics": {"telemetry": "oltp"}}))  # as `%config` does
    assert magic.settings.telemetry == ""
    with pytest.raises(errors.ConfigError, match="Did you mean 'otlp'"):
        magic.settings.read_environment({"MCP_MAGIC_TELEMETRY": "oltp"})
