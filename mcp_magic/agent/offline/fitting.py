"""Whether a mention can be the value of an argument, and how well it would be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.purposes import Purpose, name_stems, purpose
from mcp_magic.agent.offline.quantities import NUMBER, number_of
from mcp_magic.agent.offline.zones import zone_of
from mcp_magic.schema.coerce import UnfitText, from_text
from mcp_magic.schema.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.agent.offline.mentions import Kind, Mention
    from mcp_magic.schema import Field

__all__ = ["Fit", "chosen", "fit"]

Fit = tuple[Any, float]
"""A value, and how well it suits (0.1 hardly, 4 as if made for it)."""

_SCORES: dict[Purpose, dict[Kind, float]] = {
    "place": {"place": 3.0, "quoted": 2.5, "words": 1.0, "zone": 0.2, "reference": 1.0},
    "path": {"path": 4.0, "quoted": 2.0, "code": 0.6, "reference": 0.5},
    "code": {"quoted": 3.0, "code": 3.0, "place": 0.8, "words": 0.8, "path": 0.7, "number": 0.3, "zone": 0.8,
             "reference": 0.5},
    "text": {"quoted": 4.0, "reference": 2.0, "url": 0.3, "code": 0.3, "place": 0.3, "path": 0.2, "number": 0.2,
             "email": 0.2, "date": 0.2, "json": 0.3},
    "url": {"url": 5.0, "quoted": 1.5},
    "email": {"email": 5.0, "quoted": 1.0},
    "uuid": {"uuid": 5.0, "quoted": 1.0},
    "date": {"date": 4.0, "datetime": 2.0},
    "datetime": {"datetime": 4.0, "quoted": 1.0},
    "stamp": {"datetime": 3.0, "date": 3.0, "ago": 3.5, "quoted": 2.0},
    "time": {"time": 4.0, "quoted": 1.0},
    "zone": {"zone": 4.0, "place": 3.0, "quoted": 3.0, "words": 2.5, "code": 1.0},
    "object": {"json": 4.0, "reference": 2.0},
    "any": {"json": 4.0, "quoted": 3.0, "number": 3.0, "reference": 2.0, "code": 2.0, "place": 1.5, "url": 2.0,
            "date": 2.0, "datetime": 2.0, "path": 2.0, "email": 2.0, "uuid": 2.0, "time": 2.0, "words": 0.3},
    "choice": {"number": 0.5, "quoted": 4.0, "place": 4.0, "code": 4.0, "zone": 4.0, "path": 4.0},
}  # fmt: skip
"""Purpose of an argument -> what may be its value, and how well."""

EXACT = 2**53
"""Larger integers are not exact as floats, and larger than any amount that has a unit."""

_UNITS: dict[str, tuple[str, float]] = {
    "ms": ("second", 0.001),
    "millisecond": ("second", 0.001),
    "minute": ("second", 60),
    "min": ("second", 60),
    "hour": ("second", 3600),
    "khz": ("hertz", 1000),
    "mb": ("kilobyt", 1000),
    "megabyte": ("kilobyt", 1000),
    "week": ("day", 7),
}
"""Unit -> the unit of an argument, and how many of those it is."""


def fit(mention: Mention, field: Field, behind: str = "") -> Fit | None:
    """Return the value that a mention has for a field and how well it suits, or None if it cannot be.

    Args:
        mention: What the request mentions.
        field: An argument or an item of one.
        behind: The text after the mention, where a unit may be.
    """
    wanted = purpose(field)
    if wanted == "number":
        return _number(mention, field, behind)
    if wanted in ("list", "boolean"):
        return _whole(mention, field)
    score = _SCORES[wanted].get(mention.kind)
    if score is None:
        return None
    if wanted == "choice":
        value = chosen(mention.text, field)
        return None if value is None else (value[0], score)
    value_of = _VALUES.get(wanted, _own)
    value = value_of(mention, field)
    return None if value is None or not _takes(value, field) else (value, score + _detail(mention, field, wanted))


def _whole(mention: Mention, field: Field) -> Fit | None:
    """A list that stands there as JSON, or that an earlier call returned."""
    if field.kind == "array" and isinstance(mention.value, list):
        return mention.value, 4.0
    return None


def _number(mention: Mention, field: Field, behind: str) -> Fit | None:
    value = mention.value
    if mention.kind == "quoted" and re.fullmatch(r"-?\d+(\.\d+)?", mention.text):
        value = float(mention.text) if "." in mention.text else int(mention.text)
    elif mention.kind == "reference":
        value = _number_in(value)
    elif mention.kind != "number":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    said, value = value, _in_unit(mention, value, field, behind)
    if field.kind == "integer" and value != int(value):
        return None
    value = int(value) if field.kind == "integer" else value
    score = 1.0 if _within(value, field) else 0.3
    return value, score + (1.5 if value != said else 0.0)


def _number_in(result: Any) -> Any:
    """Return the number of an earlier result: the result, its only number, or the last one that its text says."""
    if isinstance(result, dict):
        numbers = [each for each in result.values() if isinstance(each, int | float) and not isinstance(each, bool)]
        return numbers[0] if len(numbers) == 1 else None
    if isinstance(result, list):
        return result[0] if len(result) == 1 else None
    if isinstance(result, str):
        said = NUMBER.findall(result)
        return number_of(said[-1]) if said else None
    return result


def _in_unit(mention: Mention, value: float, field: Field, behind: str) -> float:
    if mention.text.endswith("%") and field.kind != "integer" and _limit(field, "aximum") <= 1:
        return value / 100
    unit = re.match(r"\s*([^\W\d_]+?)s?\b", behind)
    if unit is None or abs(value) > EXACT:
        return value
    name, factor = _UNITS.get(unit[1].lower(), ("", 1.0))
    about = f"{field.name} {field.title} {field.description}".lower()
    if not name or name not in about or unit[1].lower() in re.findall(r"\w+", about):
        return value
    changed = value * factor
    return int(changed) if changed == int(changed) else changed


def _limit(field: Field, which: str) -> float:
    found = [field.schema.get(f"m{which}"), field.schema.get(f"exclusiveM{which}")]
    return min((limit for limit in found if isinstance(limit, int | float)), default=float("inf"))


def _within(value: float, field: Field) -> bool:
    low, above = field.schema.get("minimum"), field.schema.get("exclusiveMinimum")
    return bool(
        value <= _limit(field, "aximum")
        and (not isinstance(low, int | float) or value >= low)
        and (not isinstance(above, int | float) or value > above)
        and value % (field.schema.get("multipleOf") or value or 1) == 0
    )


def chosen(text: str, field: Field) -> tuple[Any] | None:
    """Return the choice that a text names by its value or title, in any case of letters, as a tuple of one."""
    for value, label in field.choices:
        if text.lower() in (str(value).lower(), label.lower()):
            return (value,)
    return None


def _own(mention: Mention, field: Field) -> Any:
    if mention.kind == "words" and " " in mention.text and purpose(field) == "code":
        return None
    if mention.kind == "reference" and purpose(field) not in ("any", "object", "text"):
        form = r"[^\W\d_][\w' -]{0,60}" if purpose(field) in ("place", "zone") else r"\S{1,200}"
        return mention.text if isinstance(mention.value, str) and re.fullmatch(form, mention.text) else None
    if mention.kind == "words" and purpose(field) == "place":
        return mention.text.title()
    return mention.value if purpose(field) in ("any", "object") else mention.text


def _zone(mention: Mention, field: Field) -> Any:
    return mention.value if mention.kind == "zone" else zone_of(mention.text) or zone_of(f"{mention.text} time")


def _iso(mention: Mention, field: Field) -> Any:
    if mention.kind == "quoted":
        return mention.text
    return mention.value[:10] if purpose(field) == "date" else mention.value


_VALUES: dict[Purpose, Callable[[Mention, Field], Any]] = {
    "zone": _zone,
    "date": _iso,
    "datetime": _iso,
    "stamp": _iso,
    "time": _iso,
}


def _takes(value: Any, field: Field) -> bool:
    """Whether a text fits the field's format and pattern."""
    if not isinstance(value, str):
        return field.kind not in ("string",)
    if matches(field.schema.get("pattern"), value) is False:
        return False
    try:
        from_text(value, field)
    except UnfitText:
        return False
    return field.kind != "object"


def _detail(mention: Mention, field: Field, wanted: Purpose) -> float:
    """What a look at the text itself adds: a folder for a folder, a file for a file, a pattern that is met."""
    if wanted == "date" and re.fullmatch("[a-z]+", mention.text.lower()):
        return -2.5  # "today" and its like are said of much that has no date
    if wanted == "path":
        is_file = re.search(r"\.\w{1,5}$", mention.text) is not None
        wants_folder = bool({"repo", "repository", "dir", "directory", "folder", "cwd"} & set(name_stems(field)))
        return 0.7 if is_file != wants_folder else -0.7
    return 1.0 if wanted == "code" and "pattern" in field.schema and mention.kind != "number" else 0.0
