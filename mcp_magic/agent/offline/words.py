"""English words: which carry no meaning for the choice of a tool, which are one word, which mean the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

__all__ = ["PREPOSITIONS", "STOP", "VERBS", "Word", "name_words", "near", "similar", "stem", "word_set", "words"]

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019](?:t|s|re|ll|ve|d|m)\b)?|°[CF]")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as a text."""
    return frozenset(text.split())


PREPOSITIONS = word_set(
    "in at for of near to from by with on into onto off until till through between and about since as over "
    "using via under after before towards within during than against without"
)

STOP = PREPOSITIONS | word_set(
    "a an the this that these those it its is are was were be been am do does did can could would will shall should "
    "may might must i me my we us our you your he she they them their what what's which who whom whose how when where "
    "why if then than so but or not no don't doesn't please just also there here let let's make get give show tell "
    "return returns display see look want need like i'd i'll i'm have has had use call run invoke execute calculate "
    "compute find out work many much some any all each every one it's that's there's where's who's how's thanks "
    "thank hello hi hey ok okay kindly go ahead using tool tools up down between be being finally first "
    "afterwards result results answer value values give take "
    "last latest recent whole entire everything anything something called named titled going "
    "right wise quickly quick exactly currently"
)
"""Words that say nothing of which tool is meant; some of them still match where a tool's name has them."""

VERBS = word_set(
    "say write tell list print fetch read create make add remove delete set put start stop wait open close run check "
    "update change convert translate send plan book play turn switch raise take multiply divide subtract sum explain "
    "describe summarise summarize compare plot draw count search look restart build try help generate retrieve obtain "
    "provide produce report repeat record commit stage unstage checkout fail crash sleep pause research simulate "
    "trigger enable disable toggle compress zip double triple halve square cube show get give return display use call "
    "compute calculate find echo diff reset push pull merge upload download copy move rename"
)
"""Verbs with which requests begin."""

_GROUPS = (
    "add plus sum total addition increase",
    "subtract minus difference deduct subtraction decrease",
    "multiply times product multiplication multiplied",
    "divide quotient division divided ratio over",
    "power raise raised exponent exponentiation squared cubed",
    "statistics summary summarise summarize stats statistical average mean median deviation describe",
    "prime primes",
    "weather temperature climate rain raining sunny cold hot warm humidity windy degrees snowing",
    "forecast coming upcoming next outlook prediction predict ahead",
    "history past historical",
    "compare comparison versus vs",
    "plot draw chart graph diagram visualise visualize",
    "image picture photo logo graphic",
    "audio sound tone beep music hear listen",
    "link hyperlink url",
    "create make new make generate",
    "delete remove drop",
    "commit record save",
    "log commits history",
    "checkout switch change",
    "diff difference differences changes compare changed modified",
    "stage staging add",
    "unstage reset",
    "timezone zone",
    "time clock hour o'clock",
    "convert translate conversion",
    "echo repeat say",
    "wait sleep slow pause delay",
    "fail error crash failure",
    "environment env",
    "compress gzip zip shrink",
    "research investigate study investigation",
    "toggle enable disable switch turn",
    "subscriber subscription subscribe",
    "list print enumerate",
    "die kill exit quit end terminate",
    "tsv tab tabs tabulators",
    "csv comma commas",
    "city town place location",
    "person user",
    "document file",
    "send post write",
    "operation task job",
    "progress steps",
    "cancelled cancel cancellations cancellation",
    "today now current currently",
    "open show",
    "fahrenheit °f",
    "celsius °c",
    "duration lasting lasts takes",
    "width wide",
    "height high tall",
    "length long",
    "hertz hz khz",
    "second seconds sec s ms",
    "kilobyte kilobytes kb mb",
    "pixel pixels px",
)
"""Words that may stand for each other; the first of each is the plainest.

General English: nothing here is about one server.
"""


@dataclass(frozen=True)
class Word:
    """A word of a text and where it stands."""

    text: str
    start: int
    end: int

    @property
    def low(self) -> str:
        """The word in small letters, with a straight apostrophe."""
        return self.text.lower().replace("\u2019", "'")

    @property
    def stem(self) -> str:
        """What the word has in common with its other forms."""
        return stem(self.low)


def words(text: str) -> list[Word]:
    """Return the words of a text; digits and underscores part them.

    >>> [word.low for word in words("What's get_weather in São Paulo?")]
    ["what's", 'get', 'weather', 'in', 'são', 'paulo']
    """
    return [Word(found[0], found.start(), found.end()) for found in _WORD.finditer(text)]


def name_words(name: str) -> list[str]:
    """Return the words of a name in small letters: `max_count`, `messageType`, `get-sum`, `tool_007`.

    >>> name_words("includeImage"), name_words("get-sum"), name_words("tool_007")
    (['include', 'image'], ['get', 'sum'], ['tool', '7'])
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", name)
    return [str(int(part)) if part.isdecimal() else part.lower() for part in parts]


@cache
def stem(word: str) -> str:
    """Cut the endings of a word off, lightly.

    >>> [stem(word) for word in ("cities", "staged", "staging", "stage", "plotting", "primes", "status", "London's")]
    ['city', 'stag', 'stag', 'stag', 'plot', 'prim', 'status', 'london']
    """
    word = re.sub(r"'s$", "", word.lower())
    if len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and re.search("[aeiouy]", word[: -len(ending)]):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.rstrip("e") if len(word) > 3 else word


@cache
def _meanings() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group in _GROUPS:
        stems = {stem(word) for word in group.split()}
        for each in stems:
            found.setdefault(each, set()).update(stems)
    return {each: frozenset(others - {each}) for each, others in found.items()}


@cache
def _heads() -> frozenset[str]:
    return frozenset(stem(group.split()[0]) for group in _GROUPS)


def similar(one: str) -> frozenset[str]:
    """Return the stems that mean about the same as a stem."""
    return _meanings().get(one, frozenset())


@cache
def near(one: str, other: str) -> float:
    """Return how much two stems are one word, 0 to 1: the same, of one meaning, or of one root.

    >>> near("add", "add"), near("plus", "add"), near("computation", "compute"), near("env", "environment")
    (1.0, 0.8, 0.6, 0.8)
    >>> near("cat", "category")
    0.0
    """
    if one == other:
        return 1.0
    if other in similar(one):
        return 0.8 if other in _heads() else 0.55
    short, long = sorted((one, other), key=len)
    shared = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if shared >= 5 and shared >= 0.8 * len(short):
        return 0.6
    if (short, long) in _SHORT:
        return 0.6
    return 0.5 if len(short) >= 6 and len(long) - len(short) < 2 and _one_slip(short, long, shared) else 0.0


def _one_slip(short: str, long: str, shared: int) -> bool:
    """Whether one letter is wrong, missing or too much, or two are swapped, after the first letters, which agree."""
    if len(short) < len(long):
        return short[shared:] == long[shared + 1 :]
    swapped = (
        short[shared : shared + 2] == long[shared : shared + 2][::-1] and short[shared + 2 :] == long[shared + 2 :]
    )
    return swapped or short[shared + 1 :] == long[shared + 1 :]


_SHORT = frozenset(
    (stem(short), stem(long))
    for short, long in (
        ("env", "environment"),
        ("var", "variable"),
        ("repo", "repository"),
        ("dir", "directory"),
        ("info", "information"),
        ("msg", "message"),
        ("max", "maximum"),
        ("min", "minimum"),
        ("temp", "temperature"),
        ("pic", "picture"),
        ("warn", "warning"),
        ("freq", "frequency"),
        ("sec", "seconds"),
    )
)
"""Short forms in use, which share too few letters to be seen as one word."""
