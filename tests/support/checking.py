"""What every fault must come to: an answer, or one clear error of ours, in bounded time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from mcp_magic.errors import MCPMagicError, SessionClosedError
from tests.support.speaking import LEGACY, MODERN

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

__all__ = ["Row", "assert_clear", "in_eras", "outcome"]

MAX_LINES = 2
MAX_CHARACTERS = 450
SLACK_SECONDS = 20.0
"""Seconds that anything may take on a busy machine, beside its own time-out."""


class Row(NamedTuple):
    """A fault.

    Attributes:
        tool: The tool that has it.
        comes_to: The text of the answer, or the error's class.
        says: What the error says, a part of it.
        then: What a call comes to after that, on the same session.
        timeout: Seconds for the call; None: it must come to an end by itself.
    """

    tool: str
    comes_to: str | type[MCPMagicError]
    says: str = ""
    then: str | type[MCPMagicError] = "right"
    timeout: float | None = None

    @property
    def is_calm(self) -> bool:
        """Whether the session goes on as it was, and at once."""
        return self.then == "right" and self.timeout is None and self.comes_to is not SessionClosedError


def in_eras(rows: list[Row], modern: tuple[str, ...]) -> Any:
    """Parametrise with all rows in the handshake era, and in that of 2026-07-28 with those that may differ there.

    Those that leave their session as it was are tried one after the other on one.
    """
    cases = []
    for version, wanted in ((LEGACY, rows), (MODERN, [row for row in rows if row.tool in modern])):
        calm = [row for row in wanted if row.is_calm]
        cases += [(version, calm, f"calm-{version}")]
        cases += [(version, [row], f"{row.tool}-{version}") for row in wanted if not row.is_calm]
    return pytest.mark.parametrize(("version", "rows"), [case[:2] for case in cases], ids=[case[2] for case in cases])


async def outcome(connection: Connection, tool: str, timeout: float | None = None) -> Any:
    """Call a tool and return the text of its answer, or the error; either must come soon."""
    started = time.monotonic()
    found: Any = None
    try:
        found = (await connection.call_tool(tool, {}, timeout=timeout)).text
    except MCPMagicError as error:
        found = error
    assert time.monotonic() - started < (timeout or 0) + SLACK_SECONDS
    return found


def assert_clear(error: Any, kind: type[MCPMagicError], says: str = "") -> None:
    """Hold an error against what is asked of all: its class, one or two lines, no group and no traceback behind it."""
    assert type(error) is kind, repr(error)
    text = str(error)
    lines = [one for one in text.splitlines() if not one.startswith("  stderr: ")]
    assert 1 <= len(lines) <= MAX_LINES, text
    assert all(len(one) <= MAX_CHARACTERS for one in lines), text
    assert "rogue" in text
    assert "Traceback" not in "".join(lines)
    assert says in text, text
    seen: BaseException | None = error
    while seen is not None:
        assert not isinstance(seen, BaseExceptionGroup)
        seen = seen.__cause__ or seen.__context__
