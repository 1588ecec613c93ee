"""A server that runs is not its program: who connects again, or changes the file, is told so."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import ToolError
from mcp_magic.results.cards import edited
from tests.support.doctors import SICK

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

CHANGED = "ed.py has changed since it was started; `%mcp reconnect ed` starts it again"


def card(connection: Connection) -> str:
    text: str = connection._repr_mimebundle_()["text/plain"]
    return text


async def test_a_changed_program_is_told_by_card_result_and_error(host, tmp_path, monkeypatch):
    monkeypatch.setattr("mcp_magic.session.calls.FILES_CHECK_SECONDS", 0.0)
    program = tmp_path / "ed.py"
    source = SICK.read_text()
    program.write_text(source)
    answers = {
        "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "no"}], "isError": True},
    }
    words = [sys.executable, str(program), json.dumps(answers), str(tmp_path / "kept.db")]
    connection = await host.connect(words, name="ed")
    assert "since" not in card(connection), "the card of a first connect is as it was"
    assert await host.connect(words, name="ed") is connection
    since = time.strftime("%H:%M:%S", time.localtime(connection.opened_at))
    assert f"  since      open already since {since}\n" in card(connection)
    (tmp_path / "kept.db").write_text("what the server itself may write")
    assert edited("ed", connection.spec, connection.opened_at) == ""
    assert (await connection.call_tool("add", {})).outdated == ""

    program.write_text("def (")
    os.utime(program, (time.time() + 5,) * 2)
    assert f"  since      open already since {since}; {CHANGED}\n" in card(connection)
    result = await connection.call_tool("add", {})
    assert CHANGED in result._repr_mimebundle_()["text/plain"]
    with pytest.raises(ToolError) as caught:
        await connection.call("add")
    assert str(caught.value).endswith(f"\n  {CHANGED}")

    program.write_text(source)
    os.utime(program, (0, 0))
    await host.reconnect("ed")
    assert "since" not in card(connection)
