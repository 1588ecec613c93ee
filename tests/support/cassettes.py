"""Hosts whose servers are recorded on a cassette, or replayed from it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic._host import Host
from mcp_magic.cassette.cassette import deck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

GONE = ["/nonexistent/server"]
"""The command of a server that there is not."""


@asynccontextmanager
async def hosting(tape: Path, mode: str, **options: Any) -> AsyncIterator[Host]:
    """A host whose servers are recorded or replayed."""
    host = Host()
    with deck.holding(tape, mode, **options):
        try:
            yield host
        finally:
            await host.close()


def lines(tape: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tape.read_text("utf-8").splitlines()]
