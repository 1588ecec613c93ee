"""Weather that never was: the same numbers for the same place and day, on every machine, without a network.

A year is a cosine around the place's mean temperature; the rest is drawn from a random generator whose seed
is the place and the date.
"""

import difflib
import math
import random
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

Units = Literal["metric", "imperial"]
Sky = Literal["sunny", "cloudy", "rain", "snow", "storm"]

HOTTEST = 200
"""The day of the year when the northern half of the world is hottest (July 19)."""


@dataclass(frozen=True)
class Station:
    """A place where weather is made up.

    Attributes:
        latitude: Degrees, north is positive.
        longitude: Degrees, east is positive.
        mean: Temperature of the year, in degrees Celsius.
        swing: How much warmer than that the hottest day is.
        wet: The share of days with rain.
    """

    city: str
    country: str
    latitude: float
    longitude: float
    mean: float
    swing: float
    wet: float


STATIONS = {
    station.city: station
    for station in (
        Station("Berlin", "DE", 52.52, 13.41, 10.3, 10.0, 0.30),
        Station("Cairo", "EG", 30.04, 31.24, 22.1, 7.5, 0.03),
        Station("Cape Town", "ZA", -33.92, 18.42, 16.8, 4.5, 0.20),
        Station("Lima", "PE", -12.05, -77.04, 19.2, 3.5, 0.02),
        Station("London", "GB", 51.51, -0.13, 11.3, 6.5, 0.36),
        Station("Moscow", "RU", 55.76, 37.62, 6.0, 13.5, 0.34),
        Station("Mumbai", "IN", 19.08, 72.88, 27.2, 2.5, 0.30),
        Station("New York", "US", 40.71, -74.01, 13.0, 12.0, 0.32),
        Station("Reykjavík", "IS", 64.15, -21.94, 5.1, 5.5, 0.42),
        Station("San Francisco", "US", 37.77, -122.42, 14.2, 3.0, 0.18),
        Station("São Paulo", "BR", -23.55, -46.63, 19.6, 3.0, 0.34),
        Station("Sydney", "AU", -33.87, 151.21, 18.3, 5.0, 0.27),
        Station("Tokyo", "JP", 35.68, 139.69, 15.8, 10.5, 0.31),
    )
}

ALIASES = {"nyc": "New York", "new york city": "New York", "sf": "San Francisco", "reykjavik": "Reykjavík"}
ALIASES |= {"sao paulo": "São Paulo"}


class Day(BaseModel):
    """The weather of one day in one place."""

    city: str
    day: date
    high: float = Field(description="Highest temperature, in the units asked for")
    low: float = Field(description="Lowest temperature, in the units asked for")
    rain: float = Field(description="Rain or melted snow, millimetres (inches in imperial units)", ge=0)
    wind: float = Field(description="Wind, kilometres per hour (miles per hour in imperial units)", ge=0)
    humidity: int = Field(description="Relative humidity in percent", ge=0, le=100)
    sky: Sky


def station(location: str) -> Station:
    """Return the station of a city, whatever the capitals; ToolError with a suggestion if there is none.

    >>> station("nyc").city
    'New York'
    """
    name = location.strip().lower()
    known = {city.lower(): city for city in STATIONS} | ALIASES
    if name in known:
        return STATIONS[known[name]]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" Did you mean {known[close[0]]!r}?" if close else f" There are: {', '.join(STATIONS)}."
    raise ToolError(f"No weather station in {location!r}.{hint}")


def weather(place: Station, day: date, units: Units = "metric") -> Day:
    """Return the weather of `place` on `day`.

    >>> weather(STATIONS["Cairo"], date(2026, 7, 1)) == weather(STATIONS["Cairo"], date(2026, 7, 1))
    True
    """
    chance = random.Random(f"{place.city} {day.isoformat()}")
    # South of the equator the year is the other way round.
    season = math.copysign(1, place.latitude) * math.cos(2 * math.pi * (day.timetuple().tm_yday - HOTTEST) / 365.25)
    middle = place.mean + place.swing * season + chance.gauss(0, 2.2)
    half = chance.uniform(2.5, 5.5)
    rain = round(chance.expovariate(1 / 6), 1) if chance.random() < place.wet else 0.0
    wind = round(chance.gammavariate(4, 4), 1)
    humidity = max(15, min(100, round(chance.gauss(55 + 40 * place.wet, 8) + (15 if rain else 0))))
    metric = Day(
        city=place.city,
        day=day,
        high=round(middle + half, 1),
        low=round(middle - half, 1),
        rain=rain,
        wind=wind,
        humidity=humidity,
        sky=_sky(middle, rain, wind, humidity),
    )
    return metric if units == "metric" else _imperial(metric)


def _sky(temperature: float, rain: float, wind: float, humidity: int) -> Sky:
    if rain and temperature < 1:
        return "snow"
    if rain > 10 and wind > 20:
        return "storm"
    if rain:
        return "rain"
    return "cloudy" if humidity > 65 else "sunny"


def _imperial(day: Day) -> Day:
    changed = {
        "high": round(day.high * 1.8 + 32, 1),
        "low": round(day.low * 1.8 + 32, 1),
        "rain": round(day.rain / 25.4, 2),
        "wind": round(day.wind / 1.609344, 1),
    }
    return day.model_copy(update=changed)


def days(place: Station, start: date, count: int, units: Units = "metric") -> list[Day]:
    """Return the weather of `count` days from `start` on."""
    return [weather(place, start + timedelta(days=i), units) for i in range(count)]
