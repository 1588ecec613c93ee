"""What an argument is for, told from its schema and from the words of its name and description."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Literal

from mcp_magic.agent.offline.words import STOP, name_words, stem, word_set, words

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["Purpose", "default_said", "labels", "name_stems", "purpose", "suggested"]

Purpose = Literal[
    "number", "boolean", "choice", "list", "object", "any", "date", "datetime", "stamp", "time", "zone", "path", "url",
    "email", "uuid", "place", "code", "text",
]  # fmt: skip

_FORMATS: dict[str, Purpose] = {
    "date": "date", "date-time": "datetime", "time": "time", "uri": "url", "uri-reference": "url", "url": "url",
    "email": "email", "idn-email": "email", "uuid": "uuid",
}  # fmt: skip

_BY_NAME: tuple[tuple[Purpose, frozenset[str]], ...] = (
    ("zone", word_set("timezone tz zone zoneinfo")),
    ("stamp", word_set("timestamp datetime since until")),
    ("time", word_set("time clock")),
    ("date", word_set("date day birthday")),
    ("url", word_set("url uri link homepage website")),
    ("email", word_set("email mail")),
    ("uuid", word_set("uuid guid")),
    ("path", word_set("path file filename filepath files directory dir folder repo repository cwd paths")),
    ("place", word_set("city cities location locations place places town country region address destination origin")),
    ("text", word_set("message text query topic content note title prompt subject body comment question description")),
    (
        "code",
        word_set(
            "name id identifier branch revision rev ref target sha commit code sku key tag contains user username slug "
            "symbol ticker label logger host model version"
        ),
    ),
)
"""Purpose -> words of a name that say so; the first row that has one of the words counts."""

_BY_DESCRIPTION: tuple[tuple[Purpose, str], ...] = (
    ("zone", r"\bIANA\b|time ?zone"),
    ("time", r"\bHH:MM\b"),
    ("date", r"\bYYYY-MM-DD\b"),
    ("stamp", r"\bISO.?8601\b|\btimestamp\b"),
    ("path", r"(?i)\bpath (?:to|of)\b|\bfile ?name\b|\bdirectory\b"),
    ("url", r"\bURLs?\b"),
    ("place", r"(?i)\b(?:city|cities|town|place name|location)\b"),
    ("code", r"(?i)\b(?:name|identifier|id|sha) of\b|\bletters\b"),
)


def purpose(field: Field) -> Purpose:
    """Return what a field is for.

    >>> from mcp_magic.schema import root_field
    >>> schema = {"properties": {"repo_path": {"type": "string"}, "n": {"type": "integer"}, "city": {"enum": ["Rome"]}}}
    >>> [purpose(child) for child in root_field(schema).children]
    ['path', 'number', 'choice']
    """
    match field.kind:
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "enum" | "const":
            return "choice"
        case "array":
            return "list"
        case "object":
            return "object"
        case "string":
            return _of_text(field)
        case "union":
            return _of_union(field)
    return "any"


def _of_union(field: Field) -> Purpose:
    kinds = {variant.kind for variant in field.variants}
    if kinds <= {"integer", "number"}:
        return "number"
    if kinds == {"object"}:
        return "object"
    return "any"


def _of_text(field: Field) -> Purpose:
    if field.format in _FORMATS:
        return _FORMATS[field.format]
    names = name_words(field.name)
    for found, known in _BY_NAME:
        if known & set(names):
            return found
    for found, pattern in _BY_DESCRIPTION:
        if re.search(pattern, field.description):
            return found
    return "code" if "pattern" in field.schema else "text"


_labels: weakref.WeakKeyDictionary[Field, dict[str, float]] = weakref.WeakKeyDictionary()


def labels(field: Field) -> dict[str, float]:
    """Return the stems by which a request may point at a field, each with how clear that is (4: its name)."""
    known = _labels.get(field)
    if known is None:
        about = [word.low for word in words(re.split(r"[.;(]", field.description)[0])]
        known = {stem(word): 2.0 for word in about if word not in STOP}
        known |= {stem(word): 3.0 for word in name_words(field.title) if word not in STOP}
        known |= dict.fromkeys(name_stems(field), 4.0)
        _labels[field] = known
    return known


def name_stems(field: Field) -> list[str]:
    """Return the stems of a field's name."""
    return [stem(word) for word in name_words(field.name)]


def suggested(field: Field) -> list[str]:
    """Return values that a text's description names in quotes, without calling them examples.

    >>> from mcp_magic.schema import root_field
    >>> kind = {"type": "string", "description": "Whether to list local ones ('local') or all ('all')"}
    >>> suggested(root_field({"properties": {"kind": kind}}).children[0])
    ['local', 'all']
    """
    if re.search(r"(?i)\be\.?g\b|for example|such as|accepts", field.description):
        return []
    found = list(dict.fromkeys(re.findall(r"['\"`]([\w-]+)['\"`]", field.description)))
    return found if len(found) > 1 else []


def default_said(field: Field) -> str | None:
    """Return the value that a description says to use if nobody gives one, or None.

    >>> from mcp_magic.schema import root_field
    >>> zone = {"type": "string", "description": "IANA name. Use 'UTC' as local timezone if no timezone provided."}
    >>> default_said(root_field({"properties": {"zone": zone}}).children[0])
    'UTC'
    """
    found = re.search(r"(?i)\buse ['\"`]([^'\"`]+)['\"`][^.]*\bif (?:no|not|none)\b", field.description)
    return found[1] if found else None
