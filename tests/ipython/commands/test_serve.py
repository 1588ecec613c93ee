"""`%mcp serve` as lines."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_magic.errors import CassetteError, CommandError, ConfigError, TargetError
from mcp_magic.loopback import listen
from mcp_magic.outside.entries import proxy_table
from tests.support.cassettes import written

TUTORIAL = Path(__file__).parents[3] / "notebooks" / "cassettes" / "quickstart.jsonl"


async def test_mock_is_served_with_a_token_until_it_is_stopped(magic, shell):
    (magic.folder / "shop.jsonl").write_text(TUTORIAL.read_text())
    several = await magic.error(CassetteError, "serve --cassette shop.jsonl")
    assert "shop.jsonl has several servers, math, weather, notes: name one, as in `%mcp serve math --cass" in several
    (row,) = listing = await magic("serve weather --cassette shop.jsonl")
    assert listing.columns[-1] == "token in"  # which is wrapped, not cut
    assert (row["server"], row["answers from"]) == ("weather", "shop.jsonl")
    headers = {"Authorization": f"Bearer {Path(row['token in']).read_text()}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        assert (await httpx2.AsyncClient().post(row["url"])).status_code == 401
        async with Client(streamable_http_client(row["url"], http_client=http)) as client:
            result = await client.call_tool("get_weather", {"location": "London"})
            assert "London" in result.content[0].text
    assert len(await magic("serve weather --stop")) == 0
    assert not Path(row["token in"]).exists()


async def test_token_file_that_cannot_be_written_leaves_the_port_free(magic, monkeypatch):
    (magic.folder / "runtime").write_text("a file, no folder")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(magic.folder / "runtime"))
    text = await magic.error(CommandError, f"serve math --cassette {TUTORIAL}")
    port = int(text.partition("math-")[2].partition(".token: Not a directory")[0])
    listen(port).close()
    assert len(await magic("serve")) == 0


async def test_line_for_stdio_and_what_a_mock_needs(magic):
    (magic.folder / "my shop.jsonl").write_text(TUTORIAL.read_text())
    line = str(await magic("serve math --cassette 'my shop.jsonl' --stdio"))
    assert line == "python -m mcp_magic serve math --cassette 'my shop.jsonl' --stdio"
    assert "--stdio has no port" in await magic.error(
        CommandError, f"serve math --cassette {TUTORIAL} --stdio --port 1"
    )
    assert "need --cassette FILE" in await magic.error(CommandError, "serve math --stdio")
    assert "there is no cassette" in await magic.error(CassetteError, "serve --cassette none.jsonl")


async def test_name_in_a_cassette_reaches_no_other_folder(magic):
    lines = TUTORIAL.read_text().splitlines()
    hostile = [
        {**json.loads(line), "server": "../x"} if '"server": "math"' in line else json.loads(line) for line in lines
    ]
    written(magic.folder / "bad.jsonl", *hostile)
    assert "../x" in await magic.error(TargetError, "serve ../x --cassette bad.jsonl")


async def test_entry_of_the_kernel_is_written_into_a_file(magic, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(magic.folder / "runtime"))
    file = magic.folder / ".mcp.json"
    file.write_text('{"mcpServers": {"db": {"command": "db"}}}')
    try:
        said = str(await magic("serve --kernel --to .mcp.json"))
        assert said.startswith(".mcp.json has the server 'kernel' now, without a secret")
        servers = json.loads(file.read_text())["mcpServers"]
        assert list(servers) == ["db", "kernel"]
        assert servers["kernel"] == proxy_table()
        before = file.read_text()
        assert "has the server 'kernel' already" in str(await magic("serve --kernel --to .mcp.json"))
        file.write_text('{"mcpServers": {"kernel": {"command": "mine"}}}')
        refused = await magic.error(CommandError, "serve --kernel --to .mcp.json")
        assert "the kernel is served, but .mcp.json has another server 'kernel'" in refused
        assert "mine" in file.read_text()
        await magic(refused.split("`")[1].removeprefix("%mcp "))
        assert str(await magic("serve --kernel --to .mcp.json")) == said
        await magic("serve --kernel --to .vscode/mcp.json")
        code = json.loads((magic.folder / ".vscode" / "mcp.json").read_text())
        assert code["servers"]["kernel"] == json.loads(before)["mcpServers"]["kernel"]
        for name in ("config.toml", "README.md", ".", "mcp_magic.toml"):
            refused = await magic.error(CommandError, f"serve --kernel --to {name}")
            assert f"--to takes a JSON file, not {name!r}: .mcp.json (Claude Code, and most others) or" in refused
            assert not (magic.folder / name).is_file()
        await magic(refused.split("`")[1].removeprefix("%mcp "))
        said = await magic.error(CommandError, "serve --to .mcp.json")
        assert said.endswith("go with --kernel: `%mcp serve --kernel --to .mcp.json`.")
    finally:
        await magic("serve --stop")


async def test_the_kernel_does_not_connect_to_itself(magic, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(magic.folder / "runtime"))
    try:
        await magic("serve --kernel --to .mcp.json")
        (row,) = [row for row in await magic("up") if row["done"] != "leave"]
        assert (row["server"], row["done"], row["problem"]) == ("kernel", "disabled", None)
        assert row["why"].startswith("it leads agents outside to the kernel, which does not connect to itself.")
        (row,) = await magic("connect --config .mcp.json")
        assert row["state"] == "not started"
        for line in ("connect kernel", "up --only kernel"):
            refused = await magic.error(ConfigError, line)
            assert ".mcp.json: server 'kernel': it leads agents outside to the kernel, which does not" in refused
            assert len(refused.splitlines()) == 1
        with closing(await magic("ui")) as explorer:
            assert "kernel" not in explorer.servers.offered
        assert "kernel" not in [row["server"] for row in await magic("servers")]
    finally:
        await magic("serve --stop")


async def test_agents_are_listed_beside_the_kernel(magic):
    await magic("serve --kernel")
    (row,) = listing = await magic("serve")
    assert (row["server"], row["agents"]) == ("this kernel", "none")
    assert "The kernel is no longer served. No agent was connected." in str(await magic("serve --stop"))
    error = await magic.error(CommandError, "serve --stop")
    assert error == "%mcp serve: nothing is served; `%mcp serve --kernel` serves this kernel to agents outside."
    assert "agents" in listing.columns
    error = await magic.error(CommandError, "serve kernel")
    assert error == "%mcp serve: the kernel itself is --kernel: `%mcp serve --kernel`."
