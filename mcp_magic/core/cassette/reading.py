"""What the lines of a cassette are about: servers and their sessions, turns of models, examinations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.matching import Server
from mcp_magic.core.cassette.scenes import session_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.core.cassette.scenes import Session

__all__ = ["Content", "Examined", "read"]


@dataclass
class Examined:
    """An examination by the doctor.

    Attributes:
        report: The line that has it: `title`, `target`, `call`, `steps`, `findings`.
        sessions: What was said in the sessions that were opened for it.
        used: How often it was given.
    """

    report: dict[str, Any]
    sessions: list[Session] = field(default_factory=list)
    used: int = 0


@dataclass
class Content:
    """What a cassette holds.

    Attributes:
        servers: By name.
        turns: The lines of the turns of models.
        examined: What the doctor found.
        sessions, examinations: The highest numbers.
    """

    servers: dict[str, Server] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)
    examined: list[Examined] = field(default_factory=list)
    sessions: int = 0
    examinations: int = 0


def read(entries: Iterable[dict[str, Any]]) -> Content:
    """Return what lines say, without the header; lines of kinds that are not known are passed over."""
    content = Content()
    lines: dict[int, list[dict[str, Any]]] = {}
    heads: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if "turn" in entry:
            content.turns.append(entry)
        elif "server" in entry:
            heads[entry["session"]] = entry
        elif "session" in entry:
            lines.setdefault(entry["session"], []).append(entry)
        elif "steps" in entry:
            content.examined.append(Examined(entry))
    content.sessions = max(heads, default=0)
    content.examinations = max((one.report.get("doctor", 0) for one in content.examined), default=0)
    reports = {one.report.get("doctor"): one for one in content.examined}
    for number, head in heads.items():
        session = session_of(head, lines.get(number, ()))
        if "doctor" in head:
            if (examined := reports.get(head["doctor"])) is not None:
                examined.sessions.append(session)
        elif session.says_something:
            server = content.servers.setdefault(head["server"], Server(head["server"]))
            server.add(session, added=bool(head.get("added")))
    return content
