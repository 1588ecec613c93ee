"""The directories that a server is told of, on both protocol eras."""

from __future__ import annotations

import os
from typing import Any

import pytest

from mcp_magic.errors import ArgumentsError
from tests.environments import everything_command, needs_node
from tests.support.roots_server import roots_server


async def test_server_is_told_the_roots_the_person_names(host, tmp_path):
    (tmp_path / "a b").mkdir()
    connection = await host.connect(roots_server(), name="roots")
    assert connection.protocol_version == "2026-07-28"
    assert (await connection.call("where")).text == "none"
    await connection.roots.set("a b", tmp_path, "a b", base=tmp_path)
    expected = f"a b={(tmp_path / 'a b').as_uri()} {tmp_path.name}={tmp_path.as_uri()}"
    assert (await connection.call("where")).text == expected
    await connection.roots.set()
    assert (await connection.call("where")).text == "none"

    odd = tmp_path / os.fsdecode(b"a\xff")
    odd.mkdir()
    await connection.roots.set(odd)
    assert ascii((await connection.call("where")).text) == ascii(f"a?={tmp_path.as_uri()}/a%FF")


async def test_roots_are_kept_for_this_server_and_told_no_other(host, tmp_path):
    connection = await host.connect(roots_server(), name="roots")
    await connection.roots.set(tmp_path)
    with pytest.raises(ArgumentsError, match=r"/nowhere is not a directory; a root must be an existing directory"):
        await connection.roots.set(tmp_path, "nowhere", base=tmp_path)
    assert connection.roots.directories == (tmp_path,)
    assert await host.reconnect("roots") is connection
    assert str(tmp_path.as_uri()) in (await connection.call("where")).text
    other = await host.connect(roots_server(), name="roots")
    assert (await other.call("where")).text == "none"


@needs_node
async def test_server_everything_hears_of_changes_and_after_reconnects(host, tmp_path):
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    assert connection.protocol_version < "2026"
    assert "no roots are currently configured" in str((await connection.call("get-roots-list")).text)
    await connection.roots.set(tmp_path)
    assert tmp_path.name in await until_told(connection, str(tmp_path.as_uri()))
    again = await host.reconnect("everything")
    assert tmp_path.name in await until_told(again, str(tmp_path.as_uri()))


async def until_told(connection: Any, uri: str) -> str:
    """The server asks after it has heard of the change: call until it has."""
    for _ in range(100):
        text = str((await connection.call("get-roots-list")).text)
        if uri in text:
            return text
    raise AssertionError(text)
