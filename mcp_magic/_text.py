"""Text helpers for error messages: cleaning untrusted text, counts, durations, lists of names."""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import re
import time
from collections import Counter
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from mcp_magic._unicode import HIDDEN, escapes

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

MAX_COMPARED = 1_000  # most valid names that an unknown name is compared with

MAX_NAME = 200
"""Longest name, in characters, that is compared with others (in time proportional to both lengths) or shown uncut."""

# Colours are removed, not written out: the text still reads as intended, and hidden text (SGR 8) becomes visible.
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")


def clean(text: str) -> str:
    r"""Return `text` without colours and with control characters written out; line ends become `\n`.

    >>> clean("\x1b[31mred\x1b[0m \x1b[2J")
    'red \\x1b[2J'
    >>> clean("user\u202egnp.exe")
    'user\\u202egnp.exe'
    """
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():  # most texts, in a third of the time of a search
        return text
    escape = functools.cache(escapes)  # a text may repeat one often
    return HIDDEN.sub(lambda match: escape(match[0]), _COLOUR.sub("", text))


def json_text(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    r"""Return JSON as text for a file, with hidden characters as escapes.

    >>> json_text({"name": "user\u202egnp.exe"})
    '{"name": "user\\u202egnp.exe"}'
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys)
    return HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def clause(text: str) -> str:
    """Return a text without its final full stop, to be used as part of a sentence.

    >>> clause("not today. "), clause("wait ..."), clause("is it there?")
    ('not today', 'wait ...', 'is it there?')
    """
    text = text.strip()
    return text if text.endswith("..") else text.removesuffix(".")


def sentence(*clauses: str) -> str:
    """Join the non-empty clauses with colons into one sentence that ends with one punctuation mark.

    >>> sentence("x was not called", "not today."), sentence("x was not called", "")
    ('x was not called: not today.', 'x was not called.')
    >>> sentence("HTTP 400", "is this its MCP endpoint?"), sentence("it says", "wait ...")
    ('HTTP 400: is this its MCP endpoint?', 'it says: wait ...')
    """
    joined = ": ".join(text for text in map(clause, clauses) if text)
    return joined if joined.endswith((".", "?", "!", "…")) else f"{joined}."


def plural(count: int, nouns: str) -> str:
    """Return a count with its noun.

    >>> plural(2, "tools"), plural(1, "tools")
    ('2 tools', '1 tool')
    """
    return f"{count:,} {nouns if count != 1 else nouns.removesuffix('s')}"


def duration(seconds: float) -> str:
    """Return a duration as text: milliseconds below one second, two units above one minute.

    >>> [duration(seconds) for seconds in (0.0046, 0.543, 1.23, 12.3, 75.0, 3700.0, 7200.0, 180_000.0)]
    ['4.6 ms', '543 ms', '1.2 s', '12 s', '1 min 15 s', '1 h 1 min', '2 h', '2 d 2 h']
    >>> [duration(seconds) for seconds in (0, 5, 0.00999, 0.9996, 9.96, 59.7, 3599.7, 86_399.0)]
    ['0 s', '5 s', '10 ms', '1.0 s', '10 s', '1 min', '1 h', '23 h 59 min']
    """
    seconds = max(0, seconds)
    if isinstance(seconds, float) and seconds < 0.9995:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    if isinstance(seconds, float) and seconds < 9.95:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    for size, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if rounded >= size:
            rest = rounded % size // part
            return f"{rounded // size} {unit} {rest} {smaller}" if rest else f"{rounded // size} {unit}"
    return f"{rounded} s"


def ago(when: float | None, now: float | None = None) -> str | None:
    """Return how long ago a time (of `time.time()`) was; None for None.

    >>> ago(90.0, now=100.0), ago(100.0, now=7300.0), ago(100.0, now=100.5), ago(None)
    ('10 s ago', '2 h ago', 'now', None)
    """
    if when is None:
        return None
    seconds = max(0.0, (time.time() if now is None else now) - when)
    return "now" if seconds < 1 else f"{duration(round(seconds))} ago"


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that means the same as `name`: in another case, number or spelling, with more or fewer words.

    >>> similar_name("city", ["n", "City Name"]), similar_name("locations", ["id", "location"])
    ('City Name', 'location')
    >>> similar_name("userId", ["user_id"]), similar_name("city", ["country", "n"])
    ('user_id', None)
    """

    def words(text: str) -> set[str]:
        return {word.lower().removesuffix("s") for word in _WORD.findall(text[:MAX_NAME])}

    own = words(name)
    candidates = {str(candidate): words(str(candidate)) for candidate in itertools.islice(names, MAX_COMPARED)}
    same = [candidate for candidate, parts in candidates.items() if own and parts == own]
    near = [candidate for candidate, parts in candidates.items() if parts and (parts < own or own < parts)]
    close = difflib.get_close_matches(name.lower(), [candidate.lower() for candidate in candidates], 1, 0.8)
    alike = [candidate for candidate in candidates if candidate.lower() in close]
    return next(iter(same + near + alike), None)


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest valid name, or an empty string.

    >>> did_you_mean("waether", ["math", "weather"])
    " Did you mean 'weather'?"
    >>> did_you_mean("DF", ["df"]), did_you_mean("zzz", ["math"])
    (" Did you mean 'df'?", '')
    """
    if not isinstance(name, str) or len(name) > MAX_NAME:  # the user's own code may look up anything
        return ""
    names = list(itertools.islice(valid, MAX_COMPARED))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    close = close or [text for text in names if text.casefold() == name.casefold()]
    return f" Did you mean {close[0]!r}?" if close else ""  # `repr` writes out hidden characters


def join_names(names: Iterable[str], limit: int = 8) -> str:
    r"""Join at most `limit` names on one line for a message.

    >>> join_names(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    >>> join_names([])
    'none'
    >>> join_names(["one\ntwo"])
    'one\\ntwo'
    """
    names = list(names)
    if not names:
        return "none"
    cut = (name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…" for name in names[:limit])
    text = ", ".join(clean(name).replace("\n", "\\n") for name in cut)
    rest = len(names) - limit
    return f"{text} and {rest} more" if rest > 0 else text


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once.

    >>> repeated_names(["a", "b", "a", "c", "b"])
    ['a', 'b']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def is_identifier(name: str) -> bool:
    """Whether Python code can use a name as one of a variable.

    >>> is_identifier("weather"), is_identifier("class"), is_identifier("1x")
    (True, False, False)
    """
    return name.isidentifier() and not iskeyword(name)


def free_name(name: str, names: Container[str], limit: int = MAX_NAME) -> str:
    """Return `name` if it is not in `names`, else `name` with a number at its end, cut to `limit` characters.

    >>> free_name("call_1", {"call_1"}, 40), free_name("abcdef", {"abcdef"}, 6)
    ('call_1_2', 'abcd_2')
    """
    free, number = name, 1
    while free in names:
        number += 1
        mark = f"_{number}"
        free = name[: limit - len(mark)] + mark
    return free
