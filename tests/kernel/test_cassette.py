"""Work that is recorded on a cassette, and replayed with the server gone."""

import re
import sys

from tests.support.bundled import FOLDER
from tests.support.kernel_servers import LOAD, ROOT
from tests.support.kernels import until

GONE = "raise SystemExit('gone')"
STRICTER = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
END = '%mcp raw changing tools/call {"name": "end"}'
WORK = (
    "%mcp connect -- pythn3-nowhere",
    "%%mcp up\n[servers]\nmissing = {command = 'nowhere'}\n"
    f"changing = {{command = '{sys.executable}', args = ['changing.py']}}",
    "await host['changing'].lint()",
    "%mcp snapshot changing -o changing.mcp.json",
    "seen = await host['changing'].subscribe('test://note')\nchanged = anext(seen)",
    "%mcp call changing:set_text text=two",
    "await changed",
    "%mcp read test://note",
    "%mcp call changing:set_tool description=Plays. schema=$stricter",
    "%mcp diff changing changing.mcp.json",
    "%mcp diff changing changing.mcp.json --check",
    "%mcp assert changing:work a=1 --contains 'worked with'",
    "%mcp assert changing:work a=1 --contains nothing",
    "%mcp tool changing:work",
    END,
    "%mcp",
    "%mcp logs changing",
    "%mcp reconnect changing",
    "%mcp call changing:work a=2",
    # a subscription, and what comes by it, has the number of all that there were in the process, one digit or two
    "sorted((e.direction, e.label.partition(' to ')[0], 'subscriptions' in e.method or 'notifications/' in e.method"
    " or e.size, e.failed)"
    " for e in host.trace.entries('changing'))",
    "%mcp disconnect --all",
)
"""What a person does with a server, some of which fails."""

NOISY = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import anyio
from tests.support import changing_server
call = changing_server.Changing._call

async def noisy(self, context, params):
    print("called", params.name, file=sys.stderr, flush=True)
    if params.name == "end":
        os._exit(3)
    return await call(self, context, params)

changing_server.Changing._call = noisy
anyio.run(changing_server.main)
"""
TIMES = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?|\d+(\.\d+)? m?s\b|\d+\.\d+|process \d+|\s+|…")


def test_a_cassette_is_put_in_and_taken_out_by_hand(kernel, folder):
    for name in ("math_server.py", "serving.py"):
        (folder / name).write_bytes((FOLDER / name).read_bytes())
    assert "nothing is recorded or replayed" in kernel.ok("%mcp record").text
    kernel.ok("%mcp connect math_server.py --name math")
    shown = kernel.ok("%mcp record sums.jsonl").text
    assert "\nsums.jsonl  recording" in shown  # as it was written, without the kernel's folder
    assert "opened again, so that the cassette has their beginning: math" in shown
    assert kernel.ok("r = %mcp call math:add a=1 b=2\nr.data").text == "3"
    assert "lines written, 0 answers played" in kernel.ok("%mcp record --stop").text
    kernel.ok("%config MCPMagics.cassette_bytes = 10_000\n%mcp record full.jsonl")
    shown = kernel.ok("from mcp_magic import host\nfor a in range(60): await host.call('math:add', a=a, b=2)").stdout
    assert shown.count("The recording on ") == 1
    assert "full.jsonl has ended: a cassette has at most 10,000 bytes. It plays up to here;" in shown
    assert "full (10,000 bytes): nothing more is recorded" in kernel.ok("%mcp record").text
    kernel.ok("%config MCPMagics.cassette_bytes = 64_000_000\n%mcp record --stop")
    (folder / "math_server.py").write_text(GONE)
    shown = kernel.ok("%mcp record sums.jsonl").text
    assert "replaying" in shown
    assert "math" in shown
    assert kernel.ok("r = %mcp call math:add a=1 b=2\nr.data").text == "3"
    failed = kernel.run("%mcp call math:add a=1 b=3")
    assert failed.ename == "CassetteError"
    assert "arguments.b is 3 here, 2 there" in failed.evalue
    assert "disconnected, because they were replayed: math" in kernel.ok("%mcp record --stop").text


SHOP = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support.shop_server import READ_ONLY, shop_server

shop, shop_next = shop_server(1), shop_server(2)

@shop.tool(annotations=READ_ONLY)
async def think() -> str:
    if Path("hang").exists():
        Path("started").touch()
        await asyncio.Event().wait()
    return "done"
"""


def test_verification_shows_what_differs_and_keeps_what_it_has(kernel, folder):
    kernel.ok(SHOP)
    kernel.ok("%mcp record shop.jsonl --mode record")
    kernel.ok("%mcp connect shop\n_ = %mcp call shop:price item=tea\n_ = %mcp call shop:think")
    kernel.ok("_ = %mcp record --stop")
    shown = kernel.ok("%mcp verify shop.jsonl")
    assert shown.text.startswith("shop.jsonl: 6 same\n")
    assert "mcp-badge" in shown.data["text/html"]
    kernel.ok("%mcp connect shop_next")
    failed = kernel.run("%mcp verify shop.jsonl shop=shop_next")
    assert failed.ename == "CheckFailedError"
    assert failed.shown_error.startswith("CheckFailedError: 3 of 6 requests of shop.jsonl: ")
    [table] = failed.outputs
    assert "result.structuredContent.result: 3.0 -> 4.0" in " ".join(table["content"]["data"]["text/plain"].split())
    failed = kernel.run("%mcp diff shop shop_next --check")
    assert failed.ename == "CheckFailedError"
    [table] = failed.outputs
    assert table["content"]["data"]["text/plain"].startswith("from shop to shop_next\n")
    (folder / "hang").touch()
    running = kernel.start("v = %mcp verify shop.jsonl")
    until((folder / "started").exists, what="the tool has started")
    assert kernel.stop(running).status == "ok"
    assert kernel.ok("v.counts, v.note").text == (
        "({'same': 5, 'not sent': 1}, 'interrupted: the other requests were not sent')"
    )
    (folder / "started").unlink()
    running = kernel.start("masks = %mcp record shop.jsonl --again")
    until((folder / "started").exists, what="the tool has started")
    assert kernel.stop(running).status == "ok"
    assert kernel.ok("masks.note").text == "'1 answer added; interrupted: the other requests were not sent'"
    kernel.ok("_ = %mcp disconnect --all")


def shown(kernel, mode):
    """Return what the cells show, and their errors, without times and spaces."""
    kernel.ok(f"from mcp_magic import host\nstricter = {STRICTER}")
    kernel.ok(f"_ = %mcp trace --clear\n_ = %mcp record work.jsonl --mode {mode}")
    cells = [kernel.run(code) for code in WORK]
    kernel.ok("_ = %mcp record --stop")
    bundles = [[o["content"]["data"]["text/plain"] for o in cell.outputs if "data" in o["content"]] for cell in cells]
    texts = [TIMES.sub("", "\n".join(bundle)) for bundle in bundles]
    return [(text, f"{cell.ename}: {cell.evalue}") for text, cell in zip(texts, cells, strict=True)]


def test_replay_shows_same_output_and_errors_of_failing_server(kernel, folder):
    (folder / "changing.py").write_text(NOISY, "utf-8")
    recorded = shown(kernel, "record")
    failed = [error.partition(":")[0] for _, error in recorded if error != ": "]
    assert failed == ["CommandNotFoundError", "CheckFailedError", "CheckFailedError", "SessionClosedError"]
    assert "stderr: called end" in recorded[WORK.index(END)][1]
    (folder / "changing.py").write_text(GONE, "utf-8")
    for cell, once, again in zip(WORK, recorded, shown(kernel, "replay"), strict=True):
        assert again == once, cell


def test_unusable_cassette_fails_first_connection(start):
    kernel = start(MCP_MAGIC_CASSETTE="missing.jsonl", MCP_MAGIC_CASSETTE_MODE="replay")
    kernel.ok(LOAD)
    failed = kernel.run("%mcp connect -- python server.py")
    assert failed.ename == "CassetteError"
    assert "there is no cassette missing.jsonl" in failed.evalue
