from __future__ import annotations

import csv
import io
import wave
from base64 import b64decode
from typing import Any

import pytest
from mcp import Client

from tests.support import bundled

YEAR = {"start": "2025-01-01", "end": "2025-12-31"}


@pytest.fixture
def server() -> Any:
    return bundled.load("parlour_server").server


async def text(server: Any, tool: str, **arguments: Any) -> str:
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
    return result.content[0].text


async def scoops(server: Any, city: str, **period: Any) -> list[int]:
    rows = csv.DictReader(io.StringIO(await text(server, "sales", city=city, **(period or YEAR))))
    return [int(row["scoops"]) for row in rows]


async def test_the_same_days_sell_the_same(server: Any) -> None:
    year = await scoops(server, "London")
    assert len(year) == 365
    assert await scoops(server, "london", start="2025-02-01", end="2025-02-28") == year[31:59]


async def test_warm_places_and_summers_sell_more(server: Any) -> None:
    year = await scoops(server, "London")
    assert sum(year[151:243]) > 2 * sum(year[:90])
    assert sum(await scoops(server, "Mumbai")) / 60 > sum(await scoops(server, "Reykjavík")) / 12 * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"city": "Lima", **YEAR}, "There is no parlour in Lima. There are: Berlin"),
        ({"city": "Lodnon", **YEAR}, "Did you mean 'London'?"),
        ({"city": "Berlin", "start": "2025-02-02", "end": "2025-02-01"}, "is 0 days; it can be 1 to 3660"),
    ],
)
async def test_what_nobody_sold_is_an_error_that_says_what_there_is(
    server: Any, arguments: dict[str, str], said: str
) -> None:
    assert said in await text(server, "sales", **arguments)


async def test_a_jingle_has_a_tone_for_each_number(server: Any) -> None:
    async with Client(server) as client:
        for numbers in ([1], [3, 3, 3], [5, 1, 9, 2]):
            result = await client.call_tool("jingle", {"numbers": numbers, "seconds": 0.1})
            with wave.open(io.BytesIO(b64decode(result.content[0].data))) as sound:
                assert sound.getnframes() / sound.getframerate() == pytest.approx(0.1 * len(numbers))


async def test_the_parlours_are_a_table_within_a_text(server: Any) -> None:
    lines = (await text(server, "parlours")).splitlines()
    assert lines[0] == "These are the parlours:"
    assert "| London | 25 |" in lines
