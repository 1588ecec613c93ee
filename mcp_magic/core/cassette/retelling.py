"""Tells the trace what was said in a session that nobody opens again: one that failed, or that the doctor had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.cassette.scenes import MEMBERS
from mcp_magic.core.trace.trace import IN, OUT

if TYPE_CHECKING:
    from mcp_magic.core.cassette.scenes import Session
    from mcp_magic.core.errlog import ErrorLog
    from mcp_magic.core.trace.record import Recorder

__all__ = ["retell"]


def retell(session: Session, recorder: Recorder, errlog: ErrorLog | None) -> None:
    """Let a recorder hear all of a session.

    Args:
        session: What was recorded.
        recorder: Writes it into the trace.
        errlog: What it reads the server's stderr from.
    """
    for entry in session.lines:
        if "stderr" in entry:
            if errlog is not None:
                errlog.write(entry["stderr"])
        elif "garbage" in entry:
            recorder.garbage(entry["garbage"])
        elif "to" in entry:
            members = {name: entry[name] for name in MEMBERS if name in entry}
            recorder.message(OUT if entry["to"] == "server" else IN, {"jsonrpc": "2.0", **members})
    recorder.stderr(last=True)
