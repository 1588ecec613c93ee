"""Weather over stdio, streamable HTTP or SSE; the numbers are made up in weather_data.py.

Let a host start it: `%mcp connect weather_server.py`. For HTTP run `python weather_server.py --port 8000`, then
`%mcp connect http://127.0.0.1:8000/mcp`. `--transport sse` serves the older transport at /sse. With
`--today 2026-06-01` the server answers the same on every day.
"""

import asyncio
import calendar
import csv
import io
from dataclasses import asdict
from datetime import date, timedelta
from typing import Annotated

import weather_data
from mcp import MCPError
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import (
    INVALID_PARAMS,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    ToolAnnotations,
)
from pydantic import Field
from serving import parser, serve
from weather_data import STATIONS, Day, Units, station, weather
from weather_plot import plot

server = MCPServer(
    "weather",
    title="Weather",
    instructions="Made-up weather of some cities. The resource weather://stations lists them.",
    log_level="ERROR",
)

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=True)

MAX_HISTORY = 3660
"""Days that one call of `history` returns at most: ten years."""

Location = Annotated[str, Field(description="A city, for example: London", min_length=1, max_length=80)]
Length = Annotated[int, Field(description="How many days, today included", ge=1, le=14)]
UnitSystem = Annotated[Units, Field(description="metric: °C, mm, km/h; imperial: °F, inches, mph")]


class Clock:
    """The day that it is for this server: today's date, or the one of `--today`."""

    day: date | None = None


def current_day() -> date:
    """Return the day on which forecasts begin."""
    return Clock.day or date.today()


@server.tool(title="Weather today", annotations=READS)
def get_weather(location: Location, units: UnitSystem = "metric") -> Day:
    """Get today's weather in a city."""
    return weather(station(location), current_day(), units)


@server.tool(title="Forecast", annotations=READS)
def forecast(location: Location, days: Length = 7, units: UnitSystem = "metric") -> list[Day]:
    """Get the weather of the coming days in a city, one row a day."""
    return weather_data.days(station(location), current_day(), days, units)


@server.tool(title="History", annotations=READS)
def history(
    location: Location,
    start: Annotated[date, Field(description="The first day")],
    end: Annotated[date, Field(description="The last day")],
    units: UnitSystem = "metric",
) -> list[Day]:
    """Get the weather of past days in a city, one row a day, from start to end, both included."""
    count = (end - start).days + 1
    if count < 1:
        raise ToolError(f"The end {end} is before the start {start}.")
    if count > MAX_HISTORY:
        raise ToolError(f"That is {count} days; at most {MAX_HISTORY} at a time.")
    return weather_data.days(station(location), start, count, units)


@server.tool(title="Compare cities", annotations=READS)
def compare(
    locations: Annotated[list[str], Field(description="The cities", min_length=1, max_length=20)],
    units: UnitSystem = "metric",
) -> list[Day]:
    """Get today's weather in several cities, one row a city."""
    return [weather(station(location), current_day(), units) for location in locations]


@server.tool(title="Plot a forecast", annotations=READS)
async def plot_forecast(location: Location, days: Length = 7, units: UnitSystem = "metric") -> Image:
    """Draw the highest and lowest temperatures of the coming days as a bar chart (PNG)."""
    rows = weather_data.days(station(location), current_day(), days, units)
    return Image(data=await asyncio.to_thread(plot, rows), format="png")


@server.resource("weather://stations", title="Stations", mime_type="text/csv")
def stations() -> str:
    """All weather stations, as CSV with a header."""
    rows = [asdict(place) for place in STATIONS.values()]
    file = io.StringIO()
    table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


@server.resource("weather://{city}/today", title="Weather today", mime_type="application/json")
def today(city: str) -> str:
    """Today's weather in a city, as JSON."""
    try:
        return weather(station(city), current_day()).model_dump_json(indent=2)
    except ToolError as error:
        raise ResourceNotFoundError(str(error)) from None


@server.prompt(title="Travel advice")
def travel_advice(
    city: Annotated[str, Field(description="Where to go")],
    month: Annotated[str, Field(description="The month's English name")] = "July",
) -> str:
    """Ask what to pack for a city in a month, with that month's weather of last year."""
    months = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
    if month.lower() not in months:
        raise MCPError(INVALID_PARAMS, f"There is no month {month!r}.")
    try:
        place = station(city)
    except ToolError as error:  # the text of other errors would not reach the caller
        raise MCPError(INVALID_PARAMS, str(error)) from None
    first = date(current_day().year - 1, months[month.lower()], 1)
    rows = weather_data.days(place, first, ((first + timedelta(days=31)).replace(day=1) - first).days)
    high, low = max(row.high for row in rows), min(row.low for row in rows)
    wet = sum(row.rain > 0 for row in rows)
    return (
        f"I am going to {place.city} in {month.capitalize()}. Last year it had {low} to {high} °C there, and it "
        f"rained on {wet} of {len(rows)} days. What should I pack? Check the forecast first."
    )


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion | None:
    """Complete cities and months, for the prompt and the resource template alike."""
    choices = {"city": list(STATIONS), "month": list(calendar.month_name)[1:]}.get(argument.name, [])
    values = [choice for choice in choices if choice.lower().startswith(argument.value.lower())]
    return Completion(values=values, total=len(values), has_more=False)


if __name__ == "__main__":
    options = parser(__doc__ or "", ("stdio", "http", "sse"))
    options.add_argument("--today", type=date.fromisoformat, help="the date to answer for, as 2026-06-01")
    chosen = options.parse_args()
    Clock.day = chosen.today
    serve(server, chosen)
