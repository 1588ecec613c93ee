"""Hosts whose servers are recorded on a cassette, or replayed from it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic._host import Host
from mcp_magic.cassette.cassette import Cassette, deck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
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


async def replayed(
    tape: Path, seen: Callable[..., Awaitable[Any]], *targets: Any, again: tuple[Any, ...] = (GONE,), **options: Any
) -> Any:
    """Record what is seen of targets; hold that the replay shows the same of `again`, and return it."""
    async with hosting(tape, "record") as host:
        recorded = await seen(host, *targets)
    async with hosting(tape, "replay", **options) as host:
        assert await seen(host, *again) == recorded
    return recorded


def play(path: Path) -> None:
    """Read all that a cassette has."""
    from langchain_core.messages import HumanMessage

    from mcp_magic.agent.cassette import turns_of

    cassette = Cassette(path, "replay")
    turns = turns_of(cassette)
    asked = turns.request_of("m", [HumanMessage("x")], {})
    turns.find(asked)
    turns.explain(asked)
    for name in cassette.servers:
        if name in cassette.content.servers:
            server = cassette.content.servers[name]
            number = server.begin(in_process=False)
            server.find(number, "tools/call", {"name": "t"})
            server.explain("tools/call", {"name": "u"})


def written(path: Path, *lines: Any) -> Path:
    """Write a cassette by hand."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
