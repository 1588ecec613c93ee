"""A file is written only once it has run against the recorded answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcp_magic import Host
from mcp_magic.errors import CommandError, ConfigError
from mcp_magic.results.results import CheckFailedError
from mcp_magic.server import trial
from mcp_magic.server.exchange import Exchange, recorded
from mcp_magic.server.trial import write_out
from tests.environments import needs_node
from tests.support.cassettes import written
from tests.support.exporting import node_project

LINES = (
    {"cassette": 1},
    {"session": 1, "server": "shop", "transport": "stdio", "where": "python shop.py --key=*** x"},
    {"session": 1, "to": "server", "id": 1, "method": "server/discover", "params": {}},
    {
        "session": 1,
        "to": "client",
        "id": 1,
        "result": {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        },
    },
    {"session": 1, "to": "server", "id": 2, "method": "tools/list", "params": {}},
    {"session": 1, "to": "client", "id": 2, "result": {"tools": [], "ttlMs": 0, "cacheScope": "private"}},
    {"session": 1, "to": "server", "id": 3, "method": "resources/read", "params": {"uri": "a://\ud83d`${b}"}},
    {
        "session": 1,
        "to": "client",
        "id": 3,
        "result": {
            "contents": [{"uri": "a://b", "text": '*/ """ \ud83d </script>\n${process.exit(3)}`'}],
            "ttlMs": 0,
            "cacheScope": "private",
        },
    },
)


@pytest.fixture
def recording(tmp_path):
    lines = [
        {**line, "params": {"uri": "a://b"}} if line.get("id") == 3 and "method" in line else line for line in LINES
    ]
    return recorded(written(tmp_path / "shop.jsonl", *lines))


async def test_tests_of_a_cassette_run_and_are_written(recording, tmp_path):
    done = await write_out(recording, "pytest", tmp_path / "test_shop.py")
    text = (tmp_path / "test_shop.py").read_text()
    assert done.tests == ("test_read_a_b",)
    assert 'jsonschema.validate(result.text, {"type": "string"})' in text, "half of a surrogate pair"
    assert '[sys.executable, "shop.py", "--key=" + os.environ["SHOP_KEY"], "x"],' in text
    assert done.remarks == ("the command is that of the cassette, python shop.py --key=*** x: check it",)


@pytest.mark.parametrize("where", ["python 'x", "", "a" * 160 + "…"])
async def test_odd_command_of_a_cassette_is_written_as_words(recording, tmp_path, where):
    done = await write_out(replace(recording, where=where), "client", tmp_path / "client.ts")
    assert f"the command is that of the cassette, {where}: check it" in done.remarks
    assert "new StdioClientTransport({" in (tmp_path / "client.ts").read_text()


async def test_what_fails_is_not_written(recording, tmp_path):
    file = tmp_path / "asyncio.py"  # a program of this name imports itself
    with pytest.raises(CheckFailedError) as failed:
        await write_out(recording, "client", file)
    says = str(failed.value)
    assert says.startswith(
        "%mcp export: asyncio.py failed against the recorded answers, so nothing was written. It said:"
    )
    assert "Error" in says
    assert not file.exists()


@needs_node
async def test_client_repeats_what_failed_and_then_worked(recording, tmp_path):
    here = str(Path.cwd())
    params = {"name": "count", "arguments": {"n": 5.0, "folder": here}}
    answers: list[dict[str, Any]] = [{}, {"error": {"code": -32603, "message": "busy"}}, {"result": {"content": []}}]
    problems = ("no answer", "", "")
    exchanges = [
        Exchange("tools/call", params, answer, problem=problem)
        for answer, problem in zip(answers, problems, strict=True)
    ]
    recording = replace(recording, exchanges=exchanges)
    done = await write_out(recording, "client", tmp_path / "client.py")
    assert "left out: 1 request: no answer" in done.remarks
    assert "except MCPError as error:" in (tmp_path / "client.py").read_text()
    with pytest.raises(CommandError, match="left out: request: it was answered, and it failed"):
        await write_out(recording, "pytest", tmp_path / "test_count.py")
    node_project(tmp_path)
    assert "not run" not in str((await write_out(recording, "client", tmp_path / "client.ts")).remarks)
    only = replace(recording, exchanges=exchanges[2:])
    assert len((await write_out(only, "pytest", tmp_path / "test_count.py")).tests) == 1


async def test_tests_send_what_the_schema_or_the_listing_refuses(recording, tmp_path):
    tools = [{"name": "count", "inputSchema": {"type": "object", "required": ["n"]}}]
    answer = {"result": {"content": [{"type": "text", "text": "0"}]}}
    requests = [("tools/call", {"name": name}) for name in ("count", "unlisted")]
    prompt = Exchange("prompts/get", {"name": "unlisted"}, {"result": {"messages": []}})
    exchanges = [*(Exchange(method, params, answer) for method, params in requests), prompt]
    done = await write_out(
        replace(recording, exchanges=exchanges, listings={"tools": tools}), "pytest", tmp_path / "test_count.py"
    )
    assert done.tests == ("test_count", "test_unlisted")
    assert done.remarks[-1] == "left out: request: a prompt that is not listed"
    assert 'server.call_tool("count", {}, validate=False)' in (tmp_path / "test_count.py").read_text()


async def test_what_takes_too_long_is_ended_and_not_written(recording, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.1)
    with pytest.raises(CheckFailedError, match="took too long"):
        await write_out(recording, "client", tmp_path / "client.py")
    assert not (tmp_path / "client.py").exists()


async def test_interrupt_ends_the_run(recording, tmp_path):
    before = set(psutil.Process().children(recursive=True))
    writing = asyncio.create_task(write_out(recording, "client", tmp_path / "client.py"))
    while not set(psutil.Process().children()) - before:
        await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert set(psutil.Process().children(recursive=True)) == before
    assert not (tmp_path / "client.py").exists()


@needs_node
async def test_typescript_without_its_sdk_is_written_and_says_so(recording, tmp_path):
    done = await write_out(recording, "client", tmp_path / "client.ts")
    assert "it was not run: that needs Node, and `npm install @modelcontextprotocol/client tsx`" in done.remarks[-1]
    assert 'environment("SHOP_KEY")' in (tmp_path / "client.ts").read_text()


async def test_file_of_another_kind_or_folder_is_refused(recording, tmp_path):
    for kind, name, ends in (
        ("pytest", "t.ts", ".py"),
        ("client", "c.js", ".py or .ts or .mts"),
        ("report", "r.pdf", ".html"),
    ):
        with pytest.raises(CommandError, match=f"--{kind} writes a file that ends in {ends}, not '{name}'"):
            await write_out(recording, kind, tmp_path / name)
    with pytest.raises(ConfigError, match="there is no folder"):
        await write_out(recording, "report", tmp_path / "no" / "such" / "r.html")
    await write_out(recording, "report", tmp_path / "new" / "r.html")
    assert (tmp_path / "new" / "r.html").exists()
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        await write_out(recording, "report", tmp_path / "new" / "r.html" / "r.html")
    with pytest.raises(CommandError, match="export writes pytest, client, report, not 'reprot'"):
        await Host().export(tmp_path / "shop.jsonl", "reprot", tmp_path / "r.html")


async def test_answer_that_breaks_its_schema_does_not_stop_an_export(tmp_path):
    tool = {"name": "get", "inputSchema": {"type": "object"}, "outputSchema": {"properties": {"r": {"enum": ["a"]}}}}
    tape = [{"cassette": 1}, {"session": 1, "server": "shop", "transport": "stdio", "where": "python shop.py"}]
    results = [{"r": "a"}, {"r": "***"}]
    messages = [("tools/list", {}, {"tools": [tool]})]
    for number, value in enumerate(results):
        result = {"content": [], "structuredContent": value}
        messages.append(("tools/call", {"name": "get", "arguments": {"n": number}}, result))
    for number, (method, params, result) in enumerate(messages):
        tape.append({"session": 1, "to": "server", "id": number, "method": method, "params": params})
        tape.append({"session": 1, "to": "client", "id": number, "result": result})
    recording = recorded(written(tmp_path / "shop.jsonl", *tape))
    assert len((await write_out(recording, "pytest", tmp_path / "test_shop.py")).tests) == 2
    for file in ("shop.py", "shop.ts"):
        done = await write_out(recording, "client", tmp_path / file)
        assert done.requests == 1
        assert any("does not fit the tool's output schema" in remark for remark in done.remarks)
