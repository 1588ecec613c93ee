import csv
import io
import wave
from base64 import b64decode

import pytest

SERVER = "parlour_server"
YEAR = {"start": "2025-01-01", "end": "2025-12-31"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def text(client, tool, **arguments):
    return str((await client.call_tool(tool, arguments)).content[0].text)


async def scoops(client, city, **period):
    rows = csv.DictReader(io.StringIO(await text(client, "sales", city=city, **(period or YEAR))))
    return [int(row["scoops"]) for row in rows]


async def test_the_same_days_sell_the_same_and_warm_ones_more(client):
    year = await scoops(client, "London")
    assert len(year) == 365
    assert await scoops(client, "london", start="2025-02-01", end="2025-02-28") == year[31:59]
    assert sum(year[151:243]) > 2 * sum(year[:90])
    assert sum(await scoops(client, "Mumbai")) / 60 > sum(await scoops(client, "Reykjavík")) / 12 * 2


async def test_what_nobody_sold_is_an_error_that_says_what_there_is(client):
    assert "There is no parlour in Lima. There are: Berlin" in await text(client, "sales", city="Lima", **YEAR)
    assert "Did you mean 'London'?" in await text(client, "sales", city="Lodnon", **YEAR)
    backwards = await text(client, "sales", city="Berlin", start="2025-02-02", end="2025-02-01")
    assert "is 0 days; it can be 1 to 3660" in backwards
    lines = (await text(client, "parlours")).splitlines()
    assert lines[0] == "These are the parlours:"
    assert "| London | 25 |" in lines


async def test_a_jingle_has_a_tone_for_each_number(client):
    for numbers in ([1], [3, 3, 3], [5, 1, 9, 2]):
        result = await client.call_tool("jingle", {"numbers": numbers, "seconds": 0.1})
        with wave.open(io.BytesIO(b64decode(result.content[0].data))) as sound:
            assert sound.getnframes() / sound.getframerate() == pytest.approx(0.1 * len(numbers))
