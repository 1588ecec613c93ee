"""What reaches a terminal of a server's or a file's words: no escape sequence, no second line that looks like ours."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import ormsgpack
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.agent.threads import open_threads
from mcp_magic.errors import MCPMagicError, ThreadError
from mcp_magic.ipython.ask import InputAsker
from mcp_magic.ipython.live import WatchLines
from mcp_magic.telemetry.telemetry import telemetry

STEERS = "\x1b]0;mine\x07\x1b[2J\x9b31m\rspan\nspan \u202egnp"


def harmless(text: str) -> bool:
    return not {*"\x1b\x07\x9b\r\u202e"} & {*text}


async def test_spans_on_the_console_steer_no_terminal(capsys):
    server: MCPServer = MCPServer(STEERS)
    server.add_tool(lambda: "x", name=f"t{STEERS}", description="x")
    telemetry.export("console")
    try:
        async with Host() as host:
            connection = await host.connect(server, name="s")
            await connection.call(f"t{STEERS}")
            with pytest.raises(MCPMagicError):
                await connection.prompt(f"p{STEERS}", {})
    finally:
        telemetry.export("")
    said = capsys.readouterr().out
    assert "span execute_tool t\\x1b]0;mine\\x07" in said
    assert harmless(said)
    assert all(line.startswith("span ") and ", id " in line for line in said.splitlines())


def test_watches_and_questions_steer_no_terminal(capsys, monkeypatch):
    times = {"changed_at": 1.0, "differed_at": None, "seconds": 1.0}
    watch: Any = SimpleNamespace(updates=1, problem="", uri=f"a://{STEERS}", difference=None, note=STEERS, **times)
    watch.ended = f"it ended: {STEERS}"
    show = WatchLines(watch)
    show()
    watch.updates = 2
    show()
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "")
    asker = InputAsker()
    asker._write(STEERS)
    asker._read(STEERS)
    assert harmless(capsys.readouterr().out + asked[0])


async def test_names_in_a_file_of_threads_reach_no_log(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "threads.sqlite"
    evil = ormsgpack.Ext(0, ormsgpack.packb([f"os{STEERS}", "system", "exit 1"]))
    columns = "thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TABLE checkpoints ({columns}, checkpoint BLOB, metadata BLOB)")
        content = ormsgpack.packb({"id": "1", "channel_values": {"messages": [evil]}})
        connection.execute("INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'msgpack', ?, x'7b7d')", (content,))
        connection.commit()
    async with open_threads(file, fall_back=False) as opened:
        with pytest.raises(ThreadError):
            await opened.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})
    assert harmless(caplog.text)
