"""Differences between two JSON values, and masks: the paths at which values may vary.

A path is `result.structuredContent.rows[0].id`. A mask has a pattern of a path, which may begin anywhere
(`rows[*].id`), and concerns all below it. Masks are inferred from two recordings: what differs between them varies.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.resolve import is_number, json_equal
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Path = tuple[str | int, ...]
    Pattern = tuple[str | int | None, ...]  # None is any member or item

SHAPE, VALUE, ORDER = "shape", "value", "order"  # kinds of differences

LONGEST = 60  # characters of a value in a difference
CONTEXT = 10  # characters before the place where long texts begin to differ
MOST_DIFFERENCES = 1000  # differences of two values that are looked for
DEEPEST = 200  # levels that are compared; what is nested deeper is compared as a whole

_MISSING = object()  # stands for a member that is not there
_PART = re.compile(r'\.?(?P<name>[^.\[\]"]+)|\[(?P<index>\d{1,18}|\*)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')
_BASE64 = re.compile(r"[\w+/=:;,.-]{500,}")  # base64, also in a `data:` URL
_PLAIN = re.compile(r"[^\s.\[\]\"*']+")


class Difference(NamedTuple):
    """One difference: its path, whether it is one of the shape (types and members), a value or an order; both sides."""

    path: Path
    kind: str
    text: str
    recorded: Any
    live: Any

    def __str__(self) -> str:
        return f"{path_text(self.path) or 'it'}: {self.text}"


@dataclass(frozen=True)
class Mask:
    """A pattern of paths whose values may vary.

    Attributes:
        path: The pattern.
        types: The JSON types that a value may have there, `"missing"` for none; empty: anything.
        is_order: Whether only the order of a list varies, not what is in it.
        why: Why, in words.
    """

    path: str
    types: tuple[str, ...] = ()
    is_order: bool = False
    why: str = ""

    def __post_init__(self) -> None:
        read_pattern(self.path)  # raises if it is none

    def covers(self, path: Path) -> bool:
        """Whether the pattern fits the end of a path."""
        pattern = read_pattern(self.path)
        return len(pattern) <= len(path) and all(
            part is None or part == step for part, step in zip(pattern, path[len(path) - len(pattern) :], strict=True)
        )

    def joined(self, mask: Mask) -> Mask:
        """Return it with the types of another one, too."""
        types = dict.fromkeys((*self.types, *mask.types)) if self.types and mask.types else ()
        return replace(self, types=tuple(types))

    def allows(self, value: Any) -> bool:
        """Whether a value has one of the types."""
        return not self.types or type_of(value) in self.types


@lru_cache(maxsize=1000)
def read_pattern(text: str) -> Pattern:
    """Return the parts of a pattern.

    Raises:
        ArgumentsError: It is none.

    >>> read_pattern('rows[*].id'), read_pattern('a["b.c"][0].*')
    (('rows', None, 'id'), ('a', 'b.c', 0, None))
    """
    parts: list[str | int | None] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            break
        name, index, quoted = match["name"], match["index"], match["quoted"]
        if "*" in (name, index):
            parts.append(None)
        elif index is not None:
            parts.append(int(index))
        else:
            parts.append(name if name is not None else _unquoted(quoted))
        at = match.end()
    if at < len(text) or not parts:
        examples = "result.content[0].text or rows[*].id"
        raise ArgumentsError(f"{one_line(text, 100)!r} is no path in an answer; write {examples}")
    return tuple(parts)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        raise ArgumentsError(f"{one_line(text, 100)!r} is no member in JSON") from None


def path_text(path: Iterable[str | int | None]) -> str:
    """Return a path, or a pattern, as text.

    >>> path_text(("result", "rows", None, "a b")), path_text(("rows", 0))
    ('result.rows[*]["a b"]', 'rows[0]')
    """
    text = ""
    for part in path:
        if isinstance(part, str):
            text += f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"
        else:
            text += f"[{'*' if part is None else part}]"
    return text.removeprefix(".")


def type_of(value: Any) -> str:
    """Return the JSON type of a value; `"missing"` for a member that is not there."""
    if value is _MISSING:
        return "missing"
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def value_text(value: Any) -> str:
    """Return a value on a line, cut."""
    if value is _MISSING:
        return "missing"
    if isinstance(value, dict | list) and len(json.dumps(value, default=str)) > LONGEST:
        return plural(len(value), "members" if isinstance(value, dict) else "items")
    if isinstance(value, str) and _BASE64.fullmatch(value):
        return f"{plural(len(value), 'characters')} ({hashlib.sha256(value.encode()).hexdigest()[:8]})"
    return one_line(json.dumps(value, ensure_ascii=False, default=str), LONGEST)


def change_text(recorded: Any, live: Any) -> str:
    """Return two values on a line; of long texts where they begin to differ.

    >>> change_text(1, 2), change_text("a" * 90 + "b", "a" * 90 + "c")
    ('1 -> 2', '"…aaaaaaaaaab" -> "…aaaaaaaaaac"')
    """
    if isinstance(recorded, str) and isinstance(live, str) and not _BASE64.fullmatch(recorded):
        pairs = enumerate(zip(recorded, live, strict=False))
        start = next((at for at, (before, now) in pairs if before != now), min(len(recorded), len(live))) - CONTEXT
        if start > CONTEXT:
            recorded, live = f"…{recorded[start:]}", f"…{live[start:]}"
    return f"{value_text(recorded)} -> {value_text(live)}"


@dataclass
class Comparison:
    """What differs between a recorded value and a live one, and which masks were needed."""

    masks: Sequence[Mask]
    most: int = MOST_DIFFERENCES
    differences: list[Difference] = field(default_factory=list)
    ignored: dict[Mask, str] = field(default_factory=dict)  # and the first path that each covers

    def compare(self, recorded: Any, live: Any, path: Path = ()) -> Comparison:
        """Compare two values at a path, and return itself."""
        if len(self.differences) >= self.most or recorded == MASK or json_equal(recorded, live):
            return self
        mask = next((mask for mask in self.masks if mask.covers(path)), None)
        if mask is not None and not mask.is_order:
            if mask.allows(live):
                self.ignored.setdefault(mask, path_text(path))
            else:
                self._add(path, SHAPE, recorded, live, f"{' or '.join(mask.types)} -> {type_of(live)}")
            return self
        if mask is not None and isinstance(recorded, list) and isinstance(live, list):
            self.ignored.setdefault(mask, path_text(path))
            recorded, live = sorted(recorded, key=_sort_key), sorted(live, key=_sort_key)
        self._compare_inside(recorded, live, path)
        return self

    def _compare_inside(self, recorded: Any, live: Any, path: Path) -> None:
        if type_of(recorded) != type_of(live):
            self._add(path, SHAPE, recorded, live)
        elif isinstance(recorded, dict) and len(path) < DEEPEST:
            for name in dict.fromkeys((*recorded, *live)):
                self.compare(recorded.get(name, _MISSING), live.get(name, _MISSING), (*path, name))
        elif isinstance(recorded, list) and len(path) < DEEPEST:
            count = len(self.differences)
            if len(recorded) != len(live):
                self._add(path, VALUE, recorded, live, f"{plural(len(recorded), 'items')} -> {len(live):,}")
            for number, (before, now) in enumerate(zip(recorded, live, strict=False)):
                self.compare(before, now, (*path, number))
            if len(self.differences) > count and _is_reordered(recorded, live):
                del self.differences[count:]
                self._add(path, ORDER, recorded, live, "the same items in another order")
        else:
            self._add(path, VALUE, recorded, live)

    def _add(self, path: Path, kind: str, recorded: Any, live: Any, text: str = "") -> None:
        self.differences.append(Difference(path, kind, text or change_text(recorded, live), recorded, live))

    @property
    def kind(self) -> str:
        """The worst kind of difference, or ""."""
        kinds = {difference.kind for difference in self.differences}
        return SHAPE if SHAPE in kinds else VALUE if kinds else ""


def _is_reordered(recorded: Sequence[Any], live: Sequence[Any]) -> bool:
    return len(recorded) == len(live) > 1 and sorted(map(_sort_key, recorded)) == sorted(map(_sort_key, live))


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# Masks from two recordings.

_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?.{0,20})?|\d{1,2}:\d\d(?::\d\d)?.{0,6}")
_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|(?=\S*\d)[\w-]{8,64}")


def infer_masks(pairs: Iterable[tuple[Any, Any]]) -> list[Mask]:
    """Return masks for what differs between two recordings of equal requests.

    Where several items of a list vary, the mask is for all its items.
    """
    groups: dict[tuple[Pattern, bool], list[Difference]] = {}
    for first, second in pairs:
        for difference in _outermost(Comparison((), most=sys.maxsize).compare(first, second).differences):
            general: Pattern = tuple(None if isinstance(part, int) else part for part in difference.path)
            groups.setdefault((general, difference.kind == ORDER), []).append(difference)
    masks: list[Mask] = []
    for (general, is_order), members in groups.items():
        paths = {member.path for member in members}
        pattern: Pattern = general if len(paths) > 1 else members[0].path
        types = dict.fromkeys(type_of(value) for member in members for value in (member.recorded, member.live))
        masks.append(Mask(path_text(pattern), tuple(types), is_order, _why(members[0])))
    return masks


def _outermost(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield the differences that a mask can cover, without those inside a list of another length, which precedes."""
    outer: Path | None = None
    for difference in differences:
        if difference.path and difference.live != MASK and (outer is None or difference.path[: len(outer)] != outer):
            outer = difference.path
            yield difference


def _why(difference: Difference) -> str:
    first, second = difference.recorded, difference.live
    if difference.kind == ORDER:
        return "a list of varying order"
    if isinstance(first, list) and isinstance(second, list):
        return "a list of varying length"
    if _MISSING in (first, second):
        return "a member that is not always there"
    if is_number(first) and is_number(second):
        return "a number"
    if not (isinstance(first, str) and isinstance(second, str)):
        return "a value"
    for pattern, kind in ((_TIME, "a time"), (_ID, "an id")):
        if pattern.fullmatch(first) and pattern.fullmatch(second):
            return kind
    return "a text"
