from __future__ import annotations

import base64
import csv
import io
import json
import struct
import zlib
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from tests.support import bundled
from tests.support.processes import kept_open, start_http, stdio_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Open = Callable[[], AbstractAsyncContextManager[Client]]

JANUARY = {"location": "London", "start": "2026-01-01", "end": "2026-01-31"}

# What the generator gave when it was written: weather that was made up once stays so.
FIRST_OF_JANUARY = {
    "city": "London",
    "day": "2026-01-01",
    "high": 8.3,
    "low": -1.4,
    "rain": 1.5,
    "wind": 21.3,
    "humidity": 80,
    "sky": "rain",
}


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with start_http(bundled.command("weather_server", "--port", "0")) as running:
        yield running.url


@pytest.fixture(scope="module")
def sse_url() -> Iterator[str]:
    with start_http(bundled.command("weather_server", "--transport", "sse", "--port", "0")) as running:
        yield running.url


@pytest.fixture(params=["http", "sse"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a session with the weather server over each transport."""

    @asynccontextmanager
    async def open_session() -> AsyncIterator[Client]:
        if request.param == "stdio":
            command = bundled.command("weather_server")
            async with stdio_session(command, tmp_path / "stderr") as client:
                yield client
        else:
            url = request.getfixturevalue(f"{request.param}_url")
            target = sse_client(url) if request.param == "sse" else url
            async with Client(target) as client:
                yield client

    return open_session


@pytest.fixture
async def weather() -> AsyncIterator[Client]:
    async with kept_open(Client(bundled.load("weather_server").server)) as client:
        yield client


async def rows(client: Client, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content["result"]
    assert [json.loads(block.text) for block in result.content] == found
    return found


@pytest.mark.parametrize("session", ["stdio", "http", "sse"], indirect=True)
async def test_weather_of_a_day_is_the_same_everywhere(session: Open) -> None:
    async with session() as client:
        found = await rows(client, "history", **JANUARY)
    assert len(found) == 31
    assert found[0] == FIRST_OF_JANUARY
    assert [row["day"] for row in found] == [f"2026-01-{day:02}" for day in range(1, 32)]


async def test_a_forecast_starts_today_and_takes_units(weather: Client) -> None:
    metric = await rows(weather, "forecast", location="Cape Town", days=3)
    imperial = await rows(weather, "forecast", location="Cape Town", days=3, units="imperial")
    now = (await weather.call_tool("get_weather", {"location": "cape town"})).structured_content
    assert metric[0] == now
    assert now["day"] == date.today().isoformat()
    assert [row["high"] for row in imperial] == [round(row["high"] * 1.8 + 32, 1) for row in metric]
    assert [row["sky"] for row in imperial] == [row["sky"] for row in metric]


async def test_the_southern_summer_is_in_january(weather: Client) -> None:
    async def mean(location: str, month: int) -> float:
        span = {"start": f"2025-{month:02}-01", "end": f"2025-{month:02}-28"}
        found = await rows(weather, "history", location=location, **span)
        return sum(row["high"] for row in found) / len(found)

    assert await mean("Sydney", 1) > await mean("Sydney", 7)
    assert await mean("Berlin", 1) < await mean("Berlin", 7)


async def test_cities_are_compared_in_the_order_given(weather: Client) -> None:
    found = await rows(weather, "compare", locations=["Tokyo", "NYC"])
    assert [row["city"] for row in found] == ["Tokyo", "New York"]


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
)
async def test_what_cannot_be_answered_is_a_tool_error_that_says_why(
    weather: Client, tool: str, arguments: dict[str, Any], said: str
) -> None:
    result = await weather.call_tool(tool, arguments)
    assert result.is_error
    assert said in result.content[0].text


async def test_rows_have_an_output_schema_with_formats_and_enums(weather: Client) -> None:
    tools = {tool.name: tool for tool in (await weather.list_tools()).tools}
    day = tools["history"].output_schema["$defs"]["Day"]["properties"]
    assert day["day"]["format"] == "date"
    assert day["sky"]["enum"] == ["sunny", "cloudy", "rain", "snow", "storm"]
    assert tools["forecast"].input_schema["properties"]["units"]["enum"] == ["metric", "imperial"]


async def test_a_plot_is_a_png_image_with_coloured_bars(session: Open) -> None:
    async with session() as client:
        block = (await client.call_tool("plot_forecast", {"location": "Moscow", "days": 14})).content[0]
    assert (block.type, block.mime_type) == ("image", "image/png")
    data = base64.b64decode(block.data)
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (480, 240)
    start = data.index(b"IDAT") + 4
    pixels = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    assert len(pixels) == height * (1 + 3 * width)
    colours = {pixels[i : i + 3] for i in range(1, 1 + 3 * width * 100, 3)}
    assert len(colours) > 4  # background, grid, labels and at least two skies


async def test_stations_are_a_csv_resource(weather: Client) -> None:
    contents = (await weather.read_resource("weather://stations")).contents[0]
    found = list(csv.DictReader(io.StringIO(contents.text)))
    assert contents.mime_type == "text/csv"
    assert {"city": "London", "country": "GB"}.items() <= found[4].items()
    assert len(found) == 13


async def test_template_reads_a_city_and_suggests_cities(weather: Client) -> None:
    contents = (await weather.read_resource("weather://New%20York/today")).contents[0]
    now = (await weather.call_tool("get_weather", {"location": "New York"})).structured_content
    assert json.loads(contents.text) == now
    with pytest.raises(MCPError, match="Did you mean 'London'") as missing:
        await weather.read_resource("weather://Londn/today")
    assert missing.value.code == INVALID_PARAMS


async def test_the_prompt_quotes_the_weather_of_the_month(weather: Client) -> None:
    prompt = await weather.get_prompt("travel_advice", {"city": "cairo", "month": "may"})
    assert prompt.messages[0].content.text.startswith("I am going to Cairo in May.")
    with pytest.raises(MCPError, match="There is no month 'Maybe'"):
        await weather.get_prompt("travel_advice", {"city": "Cairo", "month": "Maybe"})
    with pytest.raises(MCPError, match="Did you mean 'Cairo'"):
        await weather.get_prompt("travel_advice", {"city": "Ciaro"})


async def test_cities_and_months_are_completed_by_the_server(session: Open) -> None:
    prompt = PromptReference(name="travel_advice")
    template = ResourceTemplateReference(uri="weather://{city}/today")
    async with session() as client:
        cities = await client.complete(prompt, {"name": "city", "value": "l"})
        months = await client.complete(prompt, {"name": "month", "value": "Ju"})
        same = await client.complete(template, {"name": "city", "value": "L"})
    assert cities.completion.values == same.completion.values == ["Lima", "London"]
    assert months.completion.values == ["June", "July"]
