import base64
import csv
import io
import json
import struct
import zlib
from datetime import date

import pytest
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from tests.support import bundled
from tests.support.processes import start_http, stdio_session

SERVER = "weather_server"
JANUARY = {"location": "London", "start": "2026-01-01", "end": "2026-01-31"}
# What the generator gave when it was written: weather that was made up once stays so.
FIRST_OF_JANUARY = {"city": "London", "day": "2026-01-01", "high": 8.3, "low": -1.4, "rain": 1.5, "wind": 21.3}
FIRST_OF_JANUARY |= {"humidity": 80, "sky": "rain"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def rows(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    data = result.structured_content["result"]
    assert [json.loads(block.text) for block in result.content] == data
    return data


async def is_whole(client):
    """It tells a month's weather, draws a plot and completes."""
    month = await rows(client, "history", **JANUARY)
    assert [row["day"] for row in month] == [f"2026-01-{day:02}" for day in range(1, 32)]
    assert month[0] == FIRST_OF_JANUARY
    [block] = (await client.call_tool("plot_forecast", {"location": "Moscow", "days": 14})).content
    assert (block.type, block.mime_type) == ("image", "image/png")
    data = base64.b64decode(block.data)
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (480, 240)
    start = data.index(b"IDAT") + 4
    pixels = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    assert len(pixels) == height * (1 + 3 * width)
    colours = {pixels[i : i + 3] for i in range(1, 1 + 3 * width * 100, 3)}
    assert len(colours) > 4  # background, grid, labels and at least two skies
    prompt = PromptReference(name="travel_advice")
    for reference, name, begun, values in (
        (prompt, "city", "l", ["Lima", "London"]),
        (prompt, "month", "Ju", ["June", "July"]),
        (ResourceTemplateReference(uri="weather://{city}/today"), "city", "L", ["Lima", "London"]),
    ):
        assert (await client.complete(reference, {"name": name, "value": begun})).completion.values == values


async def test_weather_of_a_day_is_the_same_everywhere(client, tmp_path):
    await is_whole(client)
    async with stdio_session(bundled.command(SERVER), tmp_path / "stderr") as stdio:
        assert (await rows(stdio, "history", **JANUARY))[0] == FIRST_OF_JANUARY
    with start_http(bundled.command(SERVER, "--transport", "sse", "--port", "0")) as running:
        async with Client(sse_client(running.url)) as sse:
            await is_whole(sse)


async def test_a_forecast_starts_today_and_takes_units(client):
    metric = await rows(client, "forecast", location="Cape Town", days=3)
    imperial = await rows(client, "forecast", location="Cape Town", days=3, units="imperial")
    now = (await client.call_tool("get_weather", {"location": "cape town"})).structured_content
    assert metric[0] == now
    assert now["day"] == date.today().isoformat()
    assert [row["high"] for row in imperial] == [round(row["high"] * 1.8 + 32, 1) for row in metric]
    assert [row["sky"] for row in imperial] == [row["sky"] for row in metric]
    compared = await rows(client, "compare", locations=["Tokyo", "NYC"])
    assert [row["city"] for row in compared] == ["Tokyo", "New York"]


async def test_the_southern_summer_is_in_january(client):
    async def mean(location, month):
        span = {"start": f"2025-{month:02}-01", "end": f"2025-{month:02}-28"}
        return sum(row["high"] for row in await rows(client, "history", location=location, **span)) / 28

    assert await mean("Sydney", 1) > await mean("Sydney", 7)
    assert await mean("Berlin", 1) < await mean("Berlin", 7)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("get_weather", {"location": "Londn"}, "No weather station in 'Londn'. Did you mean 'London'?"),
        ("get_weather", {"location": "Xyzzy"}, "No weather station in 'Xyzzy'. There are: Berlin, Cairo,"),
        ("history", JANUARY | {"end": "2025-12-31"}, "The end 2025-12-31 is before the start 2026-01-01."),
        ("history", JANUARY | {"end": "2126-12-31"}, "at most 3660 at a time"),
        ("forecast", {"location": "Lima", "days": 15}, "less than or equal to 14"),
        ("forecast", {"location": "Lima", "units": "kelvin"}, "'metric' or 'imperial'"),
    ],
    ids=["near", "nowhere", "backwards", "century", "days", "units"],
)
async def test_what_cannot_be_answered_is_an_error(client, tool, arguments, said):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert said in result.content[0].text


async def test_rows_have_an_output_schema_with_formats_and_enums(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    day = tools["history"].output_schema["$defs"]["Day"]["properties"]
    assert day["day"]["format"] == "date"
    assert day["sky"]["enum"] == ["sunny", "cloudy", "rain", "snow", "storm"]
    assert tools["forecast"].input_schema["properties"]["units"]["enum"] == ["metric", "imperial"]


async def test_resources_and_prompts_tell_of_cities(client):
    [stations] = (await client.read_resource("weather://stations")).contents
    listed = list(csv.DictReader(io.StringIO(stations.text)))
    assert (stations.mime_type, len(listed)) == ("text/csv", 13)
    assert {"city": "London", "country": "GB"}.items() <= listed[4].items()
    [today] = (await client.read_resource("weather://New%20York/today")).contents
    now = (await client.call_tool("get_weather", {"location": "New York"})).structured_content
    assert json.loads(today.text) == now
    with pytest.raises(MCPError, match="Did you mean 'London'") as missing:
        await client.read_resource("weather://Londn/today")
    assert missing.value.code == INVALID_PARAMS
    prompt = await client.get_prompt("travel_advice", {"city": "cairo", "month": "may"})
    assert prompt.messages[0].content.text.startswith("I am going to Cairo in May.")
    with pytest.raises(MCPError, match="There is no month 'Maybe'"):
        await client.get_prompt("travel_advice", {"city": "Cairo", "month": "Maybe"})
    with pytest.raises(MCPError, match="Did you mean 'Cairo'"):
        await client.get_prompt("travel_advice", {"city": "Ciaro"})
