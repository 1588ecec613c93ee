"""Recording a cassette, its modes, and the sessions that are open while it is inserted."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host, begin_again, leave_replayed
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import CassetteError
from tests.support.bundled import load
from tests.support.cassettes import GONE, hosting
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from pathlib import Path

MATH = load("math_server").server


@pytest.fixture(autouse=True)
def ejected():
    yield
    assert deck.cassette is None


async def sums(tape: Path, mode: str, target: Any, *pairs: tuple[int, int]) -> list[Any]:
    async with hosting(tape, mode) as host:
        math = await host.connect(target, name="math")
        return [(await math.call("add", a=a, b=b)).data for a, b in pairs]


async def test_cassette_runs_kernel_servers_and_replays_others(tape):
    kept: list[str] = []
    notes = MCPServer("notes", log_level="ERROR")

    @notes.tool()
    def keep(text: str) -> int:
        kept.append(text)
        return len(kept)

    for mode in ("record", "replay"):
        async with hosting(tape, mode) as host:
            await (await host.connect(notes)).call("keep", text=mode)
    assert kept == ["record", "replay"]


async def test_cassette_auto_asks_server_for_missing_and_keeps_it(tape):
    assert await sums(tape, "record", MATH, (1, 2)) == [3]
    before = tape.read_text("utf-8")
    async with hosting(tape, "auto") as host:
        math = await host.connect(PLAIN, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        assert tape.read_text("utf-8") == before
        assert (await math.call("add", a=1, b=3)).data == 4
        assert (await math.call("add", a=1, b=4)).data == 5
    assert tape.read_text("utf-8").startswith(before)
    assert await sums(tape, "replay", GONE, (1, 4), (1, 3), (1, 2)) == [5, 4, 3]


async def test_cassette_auto_reports_unreachable_server(tape):
    await sums(tape, "record", MATH, (1, 2))
    async with hosting(tape, "auto") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        said = r"the server cannot be asked: .*'/nonexistent/server' does not exist"
        for _ in range(2):
            with pytest.raises(CassetteError, match=said):
                await math.call("add", a=1, b=3)


async def test_cassette_once_records_first_then_replays(tape):
    assert await sums(tape, "once", MATH, (1, 2)) == [3]
    kept = tape.read_text("utf-8")
    assert await sums(tape, "once", GONE, (1, 2)) == [3]
    async with hosting(tape, "once") as host:
        with pytest.raises(CassetteError, match=r"other is not in the cassette .*; it has math"):
            await host.connect(GONE, name="other")
    assert tape.read_text("utf-8") == kept


async def test_cassette_recorded_again_keeps_same_lines(tape):
    async def recorded() -> list[str]:
        await sums(tape, "record", MATH, (1, 2), (3, 4))
        text = re.sub(r"listen-\d+", "listen-1", tape.read_text("utf-8"))  # the SDK counts them over all of a process
        without = [{k: v for k, v in json.loads(line).items() if k != "pause"} for line in text.splitlines()]
        return sorted(json.dumps(entry) for entry in without)  # listings are asked for at the same time

    assert await recorded() == await recorded()


async def test_cassette_restarts_open_sessions_and_ends_replayed_ones(tape):
    async with Host() as host:
        await host.connect(MATH, name="math")
        with deck.holding(tape, "record"):
            assert await begin_again(host) == (["math"], {})
            await host["math"].call("add", a=1, b=2)
        await host["math"].call("add", a=1, b=9)  # it is out, and the session goes on
        with deck.holding(tape, "replay", in_process="replay"):
            await begin_again(host)
            assert (await host["math"].call("add", a=1, b=2)).data == 3
            with pytest.raises(CassetteError):
                await host["math"].call("add", a=1, b=9)
        assert await leave_replayed(host) == ["math"]
        assert len(host) == 0


def test_no_cassette_and_no_mode_are_refused(tape):
    with pytest.raises(CassetteError, match=r"there is no cassette .*; `%mcp record FILE` makes it"):
        deck.insert(tape, "replay")
    with pytest.raises(CassetteError, match=r"'recrod' is not a mode of a cassette. Did you mean 'record'"):
        deck.insert(tape, "recrod")
