"""The directories that a server is told of, on both protocol eras."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolResult,
    InputRequiredResult,
    ListRootsRequest,
    ListToolsResult,
    TextContent,
    Tool,
)

from mcp_magic.errors import ArgumentsError
from tests.environments import everything_command, needs_node

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host


def roots_server() -> Server[Any]:
    """A server of 2026-07-28 whose tool wants to know the roots."""

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="where", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if not params.input_responses:
            return InputRequiredResult(input_requests={"roots": ListRootsRequest()}, request_state="s")
        roots = params.input_responses["roots"].roots
        text = " ".join(f"{root.name}={root.uri}" for root in roots)
        return CallToolResult(content=[TextContent(type="text", text=text or "none")])

    return Server("roots", on_list_tools=tools, on_call_tool=call)


async def test_a_server_is_told_of_no_directory_by_default(host: Host) -> None:
    connection = await host.connect(roots_server(), name="roots")

    assert connection.protocol_version == "2026-07-28"
    assert (await connection.call("where")).text == "none"


async def test_root_with_undecodable_name_is_told_with_question_marks(host: Host, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"a\xff")
    odd.mkdir()
    connection = await host.connect(roots_server(), name="roots")

    await connection.roots.set(odd)

    said = (await connection.call("where")).text
    assert ascii(said) == ascii(f"a?={tmp_path.as_uri()}/a%FF")


async def test_server_is_told_the_roots_the_person_names(host: Host, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    connection = await host.connect(roots_server(), name="roots")

    await connection.roots.set("a b", tmp_path, "a b", base=tmp_path)

    expected = f"a b={(tmp_path / 'a b').as_uri()} {tmp_path.name}={tmp_path.as_uri()}"
    assert (await connection.call("where")).text == expected
    await connection.roots.set()
    assert (await connection.call("where")).text == "none"


async def test_what_is_no_directory_changes_nothing(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(roots_server(), name="roots")
    await connection.roots.set(tmp_path)

    with pytest.raises(ArgumentsError, match=r"/nowhere is not a directory; a root must be an existing directory"):
        await connection.roots.set(tmp_path, "nowhere", base=tmp_path)
    assert connection.roots.directories == (tmp_path,)


async def test_roots_are_kept_when_the_session_is_opened_again(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(roots_server(), name="roots")
    await connection.roots.set(tmp_path)

    again = await host.reconnect("roots")

    assert again is connection
    assert str(tmp_path.as_uri()) in (await again.call("where")).text


async def test_another_server_of_the_same_name_is_told_nothing(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(roots_server(), name="roots")
    await connection.roots.set(tmp_path)

    other = await host.connect(roots_server(), name="roots")

    assert (await other.call("where")).text == "none"


@needs_node
async def test_server_everything_hears_of_changes(host: Host, tmp_path: Path) -> None:
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    assert connection.protocol_version < "2026"
    assert "no roots are currently configured" in str((await connection.call("get-roots-list")).text)

    await connection.roots.set(tmp_path)
    told = await _until_told(connection, str(tmp_path.as_uri()))

    assert tmp_path.name in told


@needs_node
async def test_server_everything_is_told_again_after_a_reconnect(host: Host, tmp_path: Path) -> None:
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    await connection.roots.set(tmp_path)
    again = await host.reconnect("everything")

    assert tmp_path.name in await _until_told(again, str(tmp_path.as_uri()))


async def _until_told(connection: Any, uri: str) -> str:
    """The server asks after it has heard of the change: call until it has."""
    for _ in range(100):
        text = str((await connection.call("get-roots-list")).text)
        if uri in text:
            return text
    raise AssertionError(text)
