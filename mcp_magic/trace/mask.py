"""Masks secrets in what is kept, and cuts what is too long."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic.config.masking import long_enough, mask_url, spellings
from mcp_magic.schema.secrets import EVERYDAY, MASK, STEMS, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["KEPT_BYTES", "LONGEST", "Cut", "Masker", "to_json"]


# Cuts messages that are too long to keep.

KEPT_BYTES = 20_000
"""Bytes of a message that are kept whole; a longer one is cut to about as many."""

KEPT_NODES = 400
"""Values kept of a message that is cut."""

VALUE_BYTES = 100
"""Bytes that a value takes besides its characters."""

LONGEST = 2000
"""Characters of the longest secret that is found where a text is cut through it."""

DEEPEST = 40
"""Levels of a message that are kept; Python's stack has to hold them."""


class Cut:
    """The beginning of a message: as many of its values and characters as are left.

    Args:
        hide: Masks the known secrets in a text.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._nodes = KEPT_NODES
        self._characters = KEPT_BYTES

    @property
    def size(self) -> int:
        """About how many bytes were kept."""
        return KEPT_BYTES - max(self._characters, 0) + VALUE_BYTES * (KEPT_NODES - self._nodes)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value, or the beginning of it."""
        self._nodes -= 1
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= DEEPEST or self._nodes <= 0:
            return f"… ({len(value):,} more)"
        if isinstance(value, dict):
            return {self._text(str(name)): self.value(inner, depth + 1) for name, inner in self._some(value.items())}
        return [self.value(inner, depth + 1) for inner in self._some(value)]

    def _some(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if self._nodes <= 0:
                return
            yield value

    def _text(self, text: str) -> str:
        limit = max(self._characters, 0)
        self._characters -= len(text)
        if len(text) <= limit:
            return text
        # a secret that the cut goes through is masked before: half of it is secret too
        return f"{self._hide(text[: limit + LONGEST])[:limit]}… ({len(text):,} characters)"


# Masks messages before the trace keeps them.
#
# Most messages hold nothing that looks like a secret: their JSON text is searched for the words that secrets go by,
# and only what has one of them is walked. A message too long to keep is walked too, and cut.

LEARNED = 64
"""Values of secret-looking names that are remembered, so that they are masked wherever they turn up again."""

_WORDS = (*STEMS, "://")
"""What the JSON text of a message has in it somewhere if anything below finds a secret that is not known."""

_ENDS = re.compile(r"pat[\d_]*[\"'\\=:]")
"""And one more word, which is a part of many others: here a name ends with it."""

_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{2,100})(?:\\?["']\s*:\s*\\?["']|=\s*\\?["']?|(?P<said>:\s+)(?=\S{8}))"""
    r"""(?P<value>[^"'\\\s&;,<>]+)"""
)
"""`"password": "x"`, `TOKEN=x`, `Authorization: x` in the middle of a text."""
_SCHEME = re.compile(r"(?i)\b(bearer|basic)(\s+)[\w.~+/=-]{6,}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")

_NO_SECRETS = frozenset({"true", "false", "none", "null", "bearer", "basic", "string", MASK})
"""Values of secret-looking names that would hide half of a message if they were masked everywhere."""


@lru_cache(maxsize=1)
def _pydantics() -> Callable[..., bytes]:
    from pydantic_core import to_json as dump

    return dump


def to_json(value: Any) -> bytes:
    """Return JSON text, nothing of what cannot be written; what is no JSON is written as text."""
    dump = _pydantics()
    try:
        return dump(value, fallback=str)
    except ValueError:  # a lone surrogate, or thousands of levels
        pass
    try:
        return json.dumps(value, default=str).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


class Masker:
    """Masks what one connection sends and gets: known secrets, values of secret-looking names, bearer tokens.

    Args:
        secrets: What is secret from the start.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self.known = frozenset(secrets)
        self._learned: dict[str, frozenset[str]] = {}
        self._fixed = self._spelled()
        self._entered: frozenset[str] = frozenset()
        self._forms = self._written()
        self._dump = _pydantics()

    def __repr__(self) -> str:
        return "<Masker>"

    def _spelled(self) -> frozenset[str]:
        return frozenset(form for secret in self.known for form in spellings(secret))

    def _written(self) -> tuple[str, ...]:
        """Return the secrets as they may be written, the longest first."""
        return tuple(sorted(self._fixed.union(*self._learned.values()), key=len, reverse=True))

    def harmless(self, message: dict[str, Any]) -> bytes:
        """Return a message as JSON text; nothing of one that may hold a secret or is too long, which `keep` is for."""
        try:
            text = self._dump(message)
        except ValueError:  # something that is no JSON
            return b""
        return b"" if len(text) > KEPT_BYTES or self._suspicious(text) else text

    def _suspicious(self, text: bytes) -> bool:
        shown = text.decode("utf-8", "replace")
        if self._entered and '"accept"' in shown:
            return True
        return _has_word(shown.lower()) or (bool(self._forms) and any(form in shown for form in self._forms))

    def keep(self, message: dict[str, Any], *, schemas: bool = False) -> tuple[bytes, int, bool]:
        """Return a message as JSON text to keep, its size in bytes, and whether that text is all of it.

        Args:
            message: A JSON-RPC message.
            schemas: Whether it holds JSON Schemas, in which "password" names a property and hides nothing.
        """
        text = to_json(message)
        size, whole = len(text), True
        if not 0 < size <= KEPT_BYTES:
            message, whole = Cut(self.hide).value(message), False
            text = to_json(message)
        if not self._suspicious(text):
            return text, size, whole
        kept = to_json(self.whole(message, schemas=schemas))
        return kept, size, whole and kept == text

    def whole(self, value: Any, *, schemas: bool = False) -> Any:
        """Return a value masked, all of it."""
        forms = self._forms
        masked = self._walk(value, schemas)
        # what was found late may stand at the beginning as well
        return masked if self._forms is forms else self._walk(masked, schemas)

    def _walk(self, value: Any, schemas: bool) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            value = self._without_entered(value)
            return {self.hide(str(name)): self._named(str(name), inner, schemas) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(inner, schemas) for inner in value]
        return value

    def _without_entered(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return what a person answered (`ElicitResult`) without what is concealed of it."""
        content = value.get("content")
        if not self._entered or value.get("action") != "accept" or not isinstance(content, dict):
            return value
        return {**value, "content": {n: MASK if n in self._entered else inner for n, inner in content.items()}}

    def _named(self, name: str, value: Any, schemas: bool) -> Any:
        secret = value is not None and not isinstance(value, bool) and is_secret_name(name)
        if secret and isinstance(value, int | float) and name.lower() in EVERYDAY:  # of a summary: "pass": 12
            secret = False
        if secret and not (schemas and isinstance(value, dict)):
            self.learn(value)
            return MASK
        return self._walk(value, schemas)

    def know(self, secrets: Iterable[str]) -> None:
        """Take secrets for known from now on."""
        fresh = long_enough(secrets) - self.known
        if fresh:
            self.known |= fresh
            self._fixed = self._spelled()
            self._forms = self._written()

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Mask what a person entered for a server: texts wherever they turn up, in answers all of these names."""
        self._entered |= answered.keys()
        self.know(value for value in answered.values() if isinstance(value, str))

    def learn(self, value: Any) -> None:
        """Remember the texts of a value that is secret."""
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                self.learn(inner)
        elif isinstance(value, str) and self._new(value):
            if len(self._learned) >= LEARNED:
                del self._learned[next(iter(self._learned))]
            self._learned[value] = spellings(value, encoded=False)
            self._forms = self._written()

    def _new(self, value: str) -> bool:
        if value.lower() in _NO_SECRETS or not long_enough([value]) or len(value) > LONGEST:
            return False
        return value not in self._learned and value not in self.known

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        # the longest come first: those that are longer than the text are passed over
        start = bisect_left(self._forms, -len(text), key=_negative_length) if self._forms else 0
        for form in islice(self._forms, start, None):
            if form in text:
                text = text.replace(form, MASK)
        return text

    def text(self, text: str) -> str:
        """Return text with everything masked that looks like a secret.

        >>> Masker(()).text("GET https://me:pw@x.org/ with Authorization: Bearer abcdefgh and API_KEY=xyz")
        'GET https://***@x.org/ with Authorization: Bearer *** and API_KEY=***'
        """
        text = self.hide(text)
        if "://" in text and ("@" in text or "?" in text):
            text = _URL.sub(lambda match: mask_url(match[0]), text)
        if _has_word(text.lower()):
            text = _SCHEME.sub(rf"\1\2{MASK}", _without_named(text))
        return text


def _negative_length(text: str) -> int:
    return -len(text)


def _has_word(lowered: str) -> bool:
    """Whether one of the words is in a message; done for every message, so without a loop and on text, not on bytes."""
    if (
        # each word has one of these in it: fewer to look for, and a letter is found fastest
        ("k" in lowered and ("ok" in lowered or "key" in lowered))
        or "cre" in lowered
        or "pass" in lowered
        or "auth" in lowered
        or "bearer" in lowered
        or "://" in lowered
        or ("w" in lowered and ("pwd" in lowered or "jwt" in lowered))
    ):
        lowered = lowered.replace("progresstoken", "")
        if any(word in lowered for word in _WORDS):
            return True
    return "pat" in lowered and _ENDS.search(lowered) is not None


def _without_named(text: str) -> str:
    """Return text with the values masked that follow the name of a secret."""
    parts, done = [], 0
    for found in _NAMED.finditer(text):
        name, value = found["name"], found["value"]
        if not is_secret_name(name) or value.lower() in ("bearer", "basic"):
            continue
        if name.lower() not in EVERYDAY or not (found["said"] or len(value) < 4):
            parts += [text[done : found.start("value")], MASK]
            done = found.end("value")
    return "".join([*parts, text[done:]])
