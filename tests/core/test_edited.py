"""A server that runs is not its program: who connects again, or changes the file, is told so."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.results.cards import edited

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SICK = Path(__file__).with_name("sick_server.py")


def card(connection: Connection) -> str:
    text: str = connection._repr_mimebundle_()["text/plain"]
    return text


async def test_whoever_connects_to_a_session_that_is_open_is_told_since_when_and_that_its_file_has_changed(
    host: Host, tmp_path: Path
) -> None:
    program = tmp_path / "ed.py"
    source = SICK.read_text()
    program.write_text(source)
    words = [sys.executable, str(program), '{"tools/list": {"tools": []}}', str(tmp_path / "kept.db")]
    connection = await host.connect(words, name="ed")
    assert "since" not in card(connection), "the card of a first connect is as it was"

    assert await host.connect(words, name="ed") is connection
    since = time.strftime("%H:%M:%S", time.localtime(connection.opened_at))
    assert f"  since      open already since {since}\n" in card(connection)

    (tmp_path / "kept.db").write_text("what the server itself may write")
    assert edited("ed", connection.spec, connection.opened_at) == ""
    program.write_text("def (")
    os.utime(program, (time.time() + 5,) * 2)
    changed = "ed.py has changed since it was started; `%mcp reconnect ed` starts it again"
    assert f"  since      open already since {since}; {changed}\n" in card(connection)

    program.write_text(source)
    os.utime(program, (0, 0))
    await host.reconnect("ed")
    assert "since" not in card(connection)
