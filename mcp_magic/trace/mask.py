"""Masks secrets in recorded messages, and cuts long messages."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic.config.masking import cookie_secrets, credentials, long_enough, mask_url, spellings
from mcp_magic.schema.secrets import EVERYDAY, MASK, STEMS, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["KEPT_BYTES", "LONGEST", "Cut", "Masker", "to_json"]


# Cuts for messages that are too long to keep.

KEPT_BYTES = 20_000
"""Most bytes of a message that is kept whole; a longer one is cut to about this size."""

KEPT_NODES = 400
"""Most values that are kept of a cut message."""

VALUE_BYTES = 100
"""Bytes that a value counts besides its characters."""

LONGEST = 2000
"""Most characters of a secret that is masked where a cut goes through it; base64 makes it a third longer."""

DEEPEST = 40
"""Most levels of a message that are kept, because of Python's stack."""


class Cut:
    """The beginning of a message, within limits for values and characters.

    Args:
        hide: Masks the known secrets in a text.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._nodes = KEPT_NODES
        self._characters = KEPT_BYTES

    @property
    def size(self) -> int:
        """The approximate size in bytes of what was kept."""
        return KEPT_BYTES - max(self._characters, 0) + VALUE_BYTES * (KEPT_NODES - self._nodes)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value, or its beginning."""
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
        # mask first: half of a secret at the cut is secret too
        return f"{self._hide(text[: limit + 2 * LONGEST])[:limit]}… ({len(text):,} characters)"


# Masks for messages, before the trace keeps them. Most messages hold nothing like a secret, so the JSON text is first
# searched for words that mark secrets, and only a message with such a word is walked. A message that is too long is cut
# and checked in the same way.

LEARNED = 64
"""Most remembered values of secret-looking names; they are masked wherever they appear again."""

_WORDS = (*STEMS, "://")
"""Words of which the JSON text has at least one if the code below finds an unknown secret in it."""

_ENDS = re.compile(r"pat[\d_]*[\"'\\=:]")
"""One more such word, only at the end of a name because it is part of many other words."""

_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{2,100})(?:\\?["']\s*:\s*\\?["']|=\s*\\?["']?|(?P<said>:\s+)(?=\S{8}))"""
    r"""(?P<value>[^"'\\\s&;,<>]+)"""
)
"""`"password": "x"`, `TOKEN=x`, `Authorization: x` inside a text."""
_SCHEME = re.compile(r"(?i)\b(?P<scheme>bearer|basic)(?P<space>\s+)(?P<word>[\w.~+/=-]{6,})")
_COOKIE = re.compile(
    r"""(?i)\b(?P<name>(?:set-)?cookie)(?P<between>\\?["']?\s{0,3}[:=,]\s{0,3}\\?["']?)"""
    r"""(?P<value>[\w.~!#$%&*+^|-]{1,100}=[^"'\\\r\n]++)"""
)
"""`Set-Cookie: a=b; Path=/` and `Cookie: a=b; c=d` inside a text."""

COOKIE_CHARACTERS = 8
"""Characters of the shortest value of a cookie that is learned: shorter ones may be `dark` or `en`."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")

_NO_SECRETS = frozenset({"true", "false", "none", "null", "bearer", "basic", "string", MASK})
"""Values of secret-looking names that are not learned, because masking them everywhere would hide half a message."""


@lru_cache(maxsize=1)
def _pydantics() -> Callable[..., bytes]:
    from pydantic_core import to_json as dump

    return dump


def to_json(value: Any) -> bytes:
    """Return JSON text, or b"" if a value cannot be written; values that are not JSON become text."""
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
    """Masks the messages of one connection: known secrets, values of secret-looking names, bearer tokens.

    Args:
        secrets: The secrets known from the start.
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
        """Return all spellings of the secrets, the longest first."""
        return tuple(sorted(self._fixed.union(*self._learned.values()), key=len, reverse=True))

    def harmless(self, message: dict[str, Any]) -> bytes:
        """Return a message as JSON text, or b"" if `keep` must process it: it may hold a secret or is too long."""
        try:
            text = self._dump(message)
        except ValueError:  # a value that is not JSON
            return b""
        return b"" if len(text) > KEPT_BYTES or self._suspicious(text) else text

    def _suspicious(self, text: bytes) -> bool:
        shown = text.decode("utf-8", "replace")
        if self._entered and '"accept"' in shown:
            return True
        return _has_word(shown.lower()) or (bool(self._forms) and any(form in shown for form in self._forms))

    def keep(self, message: dict[str, Any], *, schemas: bool = False) -> tuple[bytes, int, bool]:
        """Return the JSON text to keep of a message, the message's size in bytes, and whether the text is unchanged.

        Args:
            message: A JSON-RPC message.
            schemas: Whether it holds JSON Schemas, in which "password" is the name of a property and not of a secret.
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
        """Return a value masked, without a cut."""
        forms = self._forms
        masked = self._walk(value, schemas)
        # a secret learned late may also occur at the beginning
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
        """Return the user's answer (`ElicitResult`) without its concealed values."""
        content = value.get("content")
        if not self._entered or value.get("action") != "accept" or not isinstance(content, dict):
            return value
        return {**value, "content": {n: MASK if n in self._entered else inner for n, inner in content.items()}}

    def _named(self, name: str, value: Any, schemas: bool) -> Any:
        secret = value is not None and not isinstance(value, bool) and is_secret_name(name)
        if secret and isinstance(value, int | float) and name.lower() in EVERYDAY:  # of a summary, as "pass": 12
            secret = False
        if secret and not (schemas and isinstance(value, dict)):
            if isinstance(value, str) and name.lower() in ("cookie", "set-cookie"):
                self.learn_cookies(name, value)
            self.learn(value)
            return MASK
        return self._walk(value, schemas)

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these secrets too from now on."""
        fresh = long_enough(secrets) - self.known
        if fresh:
            self.known |= fresh
            self._fixed = self._spelled()
            self._forms = self._written()

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Mask the user's answers to a server: their texts everywhere, and in answers all values of these names."""
        self._entered |= answered.keys()
        self.know(value for value in answered.values() if isinstance(value, str))

    def learn(self, value: Any) -> None:
        """Remember the texts in a secret value, also the credentials in `Basic x` and `Bearer x`."""
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                self.learn(inner)
        elif isinstance(value, str):
            header = value[:7].lower().startswith(("basic ", "bearer "))
            for secret in credentials(value) if header else (value,):
                self._learn(secret)

    def learn_cookies(self, name: str, value: str) -> None:
        """Remember the values of cookies, given a header `Cookie` or `Set-Cookie`."""
        for secret in cookie_secrets(name, value):
            if len(secret) >= COOKIE_CHARACTERS:
                self._learn(secret)

    def _learn(self, secret: str) -> None:
        if self._new(secret):
            if len(self._learned) >= LEARNED:
                del self._learned[next(iter(self._learned))]
            self._learned[secret] = spellings(secret)
            self._forms = self._written()

    def _new(self, value: str) -> bool:
        if value.lower() in _NO_SECRETS or not long_enough([value]) or len(value) > LONGEST:
            return False
        return value not in self._learned and value not in self.known

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        # the longest come first: skip those longer than the text
        start = bisect_left(self._forms, -len(text), key=_negative_length) if self._forms else 0
        for form in islice(self._forms, start, None):
            if form in text:
                text = text.replace(form, MASK)
        return text

    def text(self, text: str) -> str:
        """Return text with known secrets masked, and everything that looks like a secret.

        >>> Masker(()).text("GET https://me:pw@x.org/ with Authorization: Bearer abcdefgh and API_KEY=xyz")
        'GET https://***@x.org/ with Authorization: Bearer *** and API_KEY=***'
        >>> Masker(()).text("Set-Cookie: sid=s3same-4711; Path=/ (it was sid=s3same-4711)")
        'Set-Cookie: ***'
        """
        text = self.hide(text)
        if "://" in text and ("@" in text or "?" in text):
            text = _URL.sub(lambda match: mask_url(match[0]), text)
        if _has_word(text.lower()):
            text = _COOKIE.sub(self._without_cookies, text)
            text = _SCHEME.sub(self._without_credentials, _without_named(text))
        return text

    def _without_cookies(self, found: re.Match[str]) -> str:
        self.learn_cookies(found["name"], found["value"])
        return f"{found['name']}{found['between']}{MASK}"

    def _without_credentials(self, found: re.Match[str]) -> str:
        """Mask `x` of `Basic x` and `Bearer x`; remember it if it is no prose but a user with a password."""
        if any(":" in part for part in credentials(f"{found['scheme']} {found['word']}")):
            self.learn(f"{found['scheme']} {found['word']}")
        return f"{found['scheme']}{found['space']}{MASK}"


def _negative_length(text: str) -> int:
    return -len(text)


def _has_word(lowered: str) -> bool:
    """Whether a message has one of the words. Runs on every message: so no loop, and on text instead of bytes."""
    if (
        # each word contains one of these: fewer searches, and a search for one letter is the fastest
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
