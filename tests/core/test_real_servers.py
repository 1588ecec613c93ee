"""Servers that nobody here wrote, of both protocol generations."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from mcp_magic import errors
from tests.environments import everything_command, git_command, needs_node, sqlite_command, time_command
from tests.processes import free_port, start_http

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.core.host import Host


@needs_node
async def test_server_everything_over_stdio(host: Host) -> None:
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    assert connection.protocol_version in {"2025-06-18", "2025-11-25", "2026-07-28"}
    assert (await connection.call("echo", message="hi")).text == "Echo: hi"
    assert (await connection.call("get-tiny-image")).images[0].mime_type == "image/png"
    structured = await connection.call("get-structured-content", location="New York")
    assert structured.data["temperature"] == 33
    assert len(structured.df) == 1
    assert (await connection.call("get-resource-links", count=3)).links[0].uri
    assert await connection.listing("resources")
    assert await connection.listing("templates")
    assert [prompt.name for prompt in await connection.listing("prompts")]


@needs_node
async def test_server_everything_over_streamable_http(host: Host) -> None:
    port = free_port()
    command = everything_command("streamableHttp")
    ready = rf"(?i)(listening|running).*?(?P<port>{port})"
    with start_http(command, env={"PORT": str(port)}, ready=ready) as server:
        connection = await host.connect(server.url, name="everything")
        assert connection.spec.transport == "http"
        assert (await connection.call("echo", message="hi")).text == "Echo: hi"
        await host.disconnect("everything")


async def test_the_time_server_speaks_the_newest_protocol(host: Host) -> None:
    connection = await host.connect(time_command(), name="time")
    assert connection.protocol_version == "2026-07-28"
    result = await connection.call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
    assert "21:00" in str(result.data or result.text)


async def test_the_git_server_reads_a_repository(host: Host, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first light"]):
        subprocess.run([*git, *arguments], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    connection = await host.connect(git_command(tmp_path), name="git")
    log = await connection.call("git_log", repo_path=str(tmp_path))
    assert "first light" in str(log.text)


async def test_a_server_of_the_first_generation_answers_tables_as_python_text(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(sqlite_command(tmp_path / "data.db"), name="sqlite")
    assert connection.protocol_version < "2026"
    await connection.call("create_table", query="CREATE TABLE city (name TEXT, people INTEGER)")
    await connection.call("write_query", query="INSERT INTO city VALUES ('Oslo', 700000), ('Rome', 2800000)")
    frame = (await connection.call("read_query", query="SELECT * FROM city ORDER BY people")).df
    assert list(frame["name"]) == ["Oslo", "Rome"]
    assert frame["people"].sum() == 3_500_000


async def test_a_server_of_the_first_generation_reports_errors_as_text(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(sqlite_command(tmp_path / "data.db"), name="sqlite")
    answer = await connection.call("read_query", query="SELECT * FROM nowhere")
    assert "no such table: nowhere" in str(answer.text)
    with pytest.raises(errors.NoTableError, match="no table in this result"):
        answer.df
