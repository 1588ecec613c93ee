"""Ice cream parlours over stdio: sales that follow the weather of weather_data.py, as made up as that is.

The answers come as servers in use give them: CSV, a Markdown table, JSON, sound. Run `python parlour_server.py`.
"""

import csv
import io
import json
import random
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated

from mcp.server.mcpserver import Audio, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from media import pdf, wav
from pydantic import Field
from serving import parser, serve
from weather_data import station, weather

server = MCPServer("parlour", title="Ice cream parlours", instructions="Sales of some parlours.", log_level="ERROR")

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

SEATS = {"Berlin": 40, "Cape Town": 35, "London": 25, "Mumbai": 60, "New York": 80, "Reykjavík": 12, "Tokyo": 30}

FLAVOURS = (("vanilla", 3.0), ("chocolate", 3.2), ("lemon", 2.8), ("pistachio", 3.9), ("liquorice", 3.5))
"""Name, and the price of a scoop in euros."""

MAX_DAYS = 3660
"""Days that one call of `sales` returns at most: ten years."""

City = Annotated[str, Field(description="A city with a parlour, for example: London")]


def seats(city: str) -> tuple[str, int]:
    """Return the city as it is written and the seats of its parlour, or say which cities have one."""
    name = station(city).city
    if name not in SEATS:
        raise ToolError(f"There is no parlour in {name}. There are: {', '.join(SEATS)}.")
    return name, SEATS[name]


def sold(city: str, day: date) -> int:
    """Return the scoops of one day: more when it is warm, dry, and the end of the week."""
    place = station(city)
    today = weather(place, day)
    chance = random.Random(f"scoops {place.city} {day.isoformat()}")
    guests = SEATS[place.city] * max(0.3, today.high - 4) / 5
    wet = 0.6 if today.rain else 1.0
    weekend = 1.35 if day.weekday() >= 5 else 1.0
    return round(guests * wet * weekend * chance.uniform(0.85, 1.15))


def separated(rows: Sequence[Sequence[object]]) -> str:
    """Return rows, the first of which is the header, as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


@server.tool(title="Sales", annotations=READS, structured_output=False)
def sales(
    city: City,
    start: Annotated[date, Field(description="The first day")],
    end: Annotated[date, Field(description="The last day")],
) -> str:
    """Count the scoops that a parlour sold, one row a day, from start to end, both included; as CSV."""
    name, _ = seats(city)
    count = (end - start).days + 1
    if not 1 <= count <= MAX_DAYS:
        raise ToolError(f"From {start} to {end} is {count} days; it can be 1 to {MAX_DAYS}.")
    days = [start + timedelta(days=i) for i in range(count)]
    return separated([("city", "date", "scoops"), *((name, day, sold(name, day)) for day in days)])


@server.tool(title="Parlours", annotations=READS, structured_output=False)
def parlours() -> str:
    """List the parlours as a Markdown table."""
    rows = "\n".join(f"| {city} | {count} |" for city, count in SEATS.items())
    return f"These are the parlours:\n\n| city | seats |\n| --- | --- |\n{rows}\n"


@server.tool(title="Jingle", annotations=READS)
def jingle(
    numbers: Annotated[
        list[float], Field(description="A tone for each; larger is higher", min_length=1, max_length=64)
    ],
    seconds: Annotated[float, Field(description="How long one tone is", gt=0, le=1)] = 0.15,
) -> Audio:
    """Play numbers as the jingle of the ice cream van (WAV): the smallest at 220 Hz, the largest two octaves above."""
    low, high = min(numbers), max(numbers)
    steps = [round(24 * (number - low) / (high - low)) if high > low else 0 for number in numbers]
    tones = [wav(220 * 2 ** (step / 12), seconds) for step in steps]
    return Audio(data=joined(tones), format="wav")


def joined(tones: Sequence[bytes]) -> bytes:
    """Return WAV files of the same kind, one after the other."""
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as whole:
        for tone in tones:
            with wave.open(io.BytesIO(tone)) as part:
                if not whole.tell():
                    whole.setparams(part.getparams())
                whole.writeframes(part.readframes(part.getnframes()))
    return file.getvalue()


@server.resource("parlour://flavours", title="Flavours", mime_type="application/json")
def flavours() -> str:
    """The flavours and what a scoop costs, as JSON."""
    return json.dumps([{"flavour": name, "euros": price} for name, price in FLAVOURS], indent=2)


@server.resource("parlour://menu.pdf", title="Menu", mime_type="application/pdf")
def menu() -> bytes:
    """The menu, as PDF."""
    return pdf(", ".join(name for name, _ in FLAVOURS[:3]))


if __name__ == "__main__":
    serve(server, parser(__doc__ or "").parse_args())
