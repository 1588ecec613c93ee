"""What faults of servers must come to: an answer, or one clear error of ours, in bounded time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from mcp_magic.errors import MCPMagicError, RequestTimeoutError, SessionClosedError
from tests.support.speaking import LEGACY, MODERN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN])
LOST = "the connection was lost before the answer came"
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


def in_eras(rows: list[Row], modern: str) -> Any:
    """Parametrise with all rows in the handshake era, and in that of 2026-07-28 with those that may differ there.

    Those that leave their session as it was are tried one after the other on one.
    """
    cases = []
    for version, wanted in ((LEGACY, rows), (MODERN, [row for row in rows if row.tool in modern.split()])):
        cases.append((version, [row for row in wanted if row.is_calm], f"calm-{version}"))
        cases += [(version, [row], f"{row.tool}-{version}") for row in wanted if not row.is_calm]
    return pytest.mark.parametrize(("version", "rows"), [case[:2] for case in cases], ids=[case[2] for case in cases])


async def check_rows(connection: Connection, rows: list[Row], calls: Callable[[str], int]) -> None:
    """Try these faults one after the other, each followed by a call that is right; `calls` counts those that came."""
    for row in rows:
        answer = await outcome(connection, row.tool, row.timeout)
        if isinstance(row.comes_to, str):
            assert answer == row.comes_to, row.tool
        else:
            assert_clear(answer, row.comes_to, row.says)
        after = await outcome(connection, "right", row.timeout if row.then is RequestTimeoutError else None)
        assert after == row.then or type(after) is row.then, (row.tool, after)
        assert row.then != "right" or connection.state == "open", row.tool
        assert row.tool == "right" or calls(row.tool) == 1, f"{row.tool}: nothing is sent twice"


async def outcome(connection: Connection, tool: str, timeout: float | None = None) -> Any:
    """Call a tool and return the text of its answer, or the error; either must come soon."""
    started = time.monotonic()
    try:
        answer: Any = (await connection.call_tool(tool, {}, timeout=timeout)).text
    except MCPMagicError as error:
        answer = error
    assert time.monotonic() - started < (timeout or 0) + SLACK_SECONDS
    return answer


def assert_clear(error: Any, kind: type[MCPMagicError], says: str = "") -> None:
    """Hold an error against what is asked of all: its class, one or two lines, no group and no traceback behind it."""
    assert type(error) is kind, repr(error)
    text = str(error)
    lines = [one for one in text.splitlines() if not one.startswith("  stderr: ")]
    assert 1 <= len(lines) <= MAX_LINES, text
    assert all(len(one) <= MAX_CHARACTERS for one in lines), text
    assert "rogue" in text
    assert says in text, text
    assert not any(word in "".join(lines) for word in ("Traceback", "canary", "<script")), text
    assert_no_group(error)


def assert_no_group(error: BaseException) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert not isinstance(seen, BaseExceptionGroup)
        seen = seen.__cause__ or seen.__context__


async def failure(host: Host, target: object, **options: Any) -> Any:
    """Connect, which must fail, and return the error."""
    with pytest.raises(MCPMagicError) as caught:
        await host.connect(target, **{"name": "x", **options})  # type: ignore[arg-type]
    assert_no_group(caught.value)
    assert len(str(caught.value).splitlines()) <= 9  # six of them of its stderr, at most
    assert "x" not in host
    return caught.value


def script(folder: Path, text: str) -> list[str]:
    """Return the command of a program."""
    path = folder / "server.py"
    path.write_text(text)
    return [sys.executable, str(path)]
