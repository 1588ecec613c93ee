"""Time zones by what people call them: IANA names, cities, abbreviations."""

from __future__ import annotations

import unicodedata
from functools import cache

__all__ = ["zone_of", "zone_said"]

_AREAS = (
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Europe",
    "Indian",
    "Pacific",
)

_OTHERS = {
    "Africa/Johannesburg": "cape town,south africa,sast,pretoria,durban",
    "Africa/Lagos": "abuja,nigeria",
    "Africa/Nairobi": "kenya",
    "America/Argentina/Buenos_Aires": "buenos aires,argentina",
    "America/Chicago": "central time,cst,cdt,dallas,houston,austin,new orleans,minneapolis",
    "America/Denver": "mountain time,mst,mdt,salt lake city",
    "America/Los_Angeles": "pacific time,pst,pdt,la,san francisco,sf,seattle,san diego,las vegas,california,portland",
    "America/New_York": "eastern time,est,edt,nyc,new york city,boston,washington,washington dc,miami,atlanta,"
    "philadelphia",
    "America/Sao_Paulo": "brasilia,rio de janeiro,rio",
    "America/Toronto": "ottawa",
    "Asia/Ho_Chi_Minh": "hanoi,saigon,vietnam",
    "Asia/Dubai": "abu dhabi",
    "Asia/Jakarta": "indonesia",
    "Asia/Karachi": "pakistan,islamabad,lahore",
    "Asia/Kolkata": "india,ist,mumbai,delhi,new delhi,bangalore,bengaluru,chennai,hyderabad,calcutta",
    "Asia/Seoul": "korea,south korea,kst,busan",
    "Asia/Shanghai": "beijing,china,shenzhen,guangzhou",
    "Asia/Tokyo": "japan,jst,osaka,kyoto",
    "Australia/Sydney": "canberra,aest,aedt",
    "Europe/Amsterdam": "netherlands,rotterdam,the hague",
    "Europe/Berlin": "germany,munich,hamburg,frankfurt,cologne,cet,cest",
    "Europe/Istanbul": "ankara,turkey",
    "Europe/Kyiv": "ukraine,kiev",
    "Europe/Lisbon": "portugal,porto",
    "Europe/London": "uk,united kingdom,england,britain,bst,manchester,edinburgh,glasgow",
    "Europe/Madrid": "spain,barcelona,seville",
    "Europe/Moscow": "st petersburg,msk",
    "Europe/Paris": "france,lyon,marseille,nice",
    "Europe/Rome": "italy,milan,naples,florence,venice",
    "Europe/Stockholm": "sweden,gothenburg",
    "Europe/Warsaw": "poland,krakow",
    "Europe/Zurich": "switzerland,geneva,bern,basel",
    "Pacific/Auckland": "new zealand,wellington,nzst,nzdt",
    "Pacific/Honolulu": "hawaii",
    "UTC": "utc,gmt,z,zulu,coordinated universal time",
}
"""Names that are no city of the IANA database. Abbreviations that several zones share mean the most populous one."""


_ABBREVIATIONS = frozenset(
    name
    for others in _OTHERS.values()
    for name in others.split(",")
    if name.endswith(("st", "dt", "et", "utc", "gmt")) and len(name) <= 4
) | {"eet", "wet", "met", "hst", "msk"}


@cache
def _names() -> dict[str, str]:
    from zoneinfo import available_timezones

    found: dict[str, str] = {}
    for zone in sorted(available_timezones(), key=lambda zone: (zone.count("/"), zone), reverse=True):
        area, parted, _ = zone.partition("/")
        if parted and area in _AREAS:
            found[_plain(zone.rpartition("/")[2])] = zone
        found[zone.lower()] = zone
    for zone, others in _OTHERS.items():
        found |= dict.fromkeys(others.split(","), zone)
    return found


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.replace("_", " ")).lower().strip(" .")
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def zone_of(text: str) -> str | None:
    """Return the IANA name of a zone, city or abbreviation, or None.

    >>> zone_of("Tokyo"), zone_of("europe/berlin"), zone_of("New York"), zone_of("San Francisco"), zone_of("São Paulo")
    ('Asia/Tokyo', 'Europe/Berlin', 'America/New_York', 'America/Los_Angeles', 'America/Sao_Paulo')
    >>> zone_of("Atlantis") is None
    True
    """
    names = _names()
    return names.get(text.strip().lower().replace(" ", "_")) or names.get(_plain(text))


def zone_said(text: str) -> str | None:
    """Return the IANA name of what can be nothing but a zone: `Europe/Berlin`, "UTC", "PST".

    >>> zone_said("PST"), zone_said("NYC"), zone_said("America/New_York")
    ('America/Los_Angeles', None, 'America/New_York')
    """
    return zone_of(text) if "/" in text or text.lower() in _ABBREVIATIONS else None
