"""Secrets in URLs, command lines, headers and variables: what to show instead, and what not to repeat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit, urlunsplit

from mcp_magic.schema.secretnames import is_declared_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "MASK",
    "Concealed",
    "argument_secrets",
    "header_secrets",
    "long_enough",
    "mask_arguments",
    "mask_text",
    "mask_url",
    "named_secrets",
    "url_secrets",
]

MASK = "***"
_NAMED = re.compile(r"([\w.-]+)(?:=|:(?!//)\s*)")
"""The start of `--name=value`, `NAME=value` or `Name: value`."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")
_PAIR = re.compile(r"(?<![\w.-])([\w.-]++)\s*+=\s*('[^']*'|[^\s'&]+)")


def mask_url(url: str) -> str:
    """Return `url` without the secrets that URLs carry.

    >>> mask_url("https://me:pw@example.com/mcp?api_key=1&page=2")
    'https://***@example.com/mcp?api_key=***&page=2'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL, so nobody knows where its secrets are
        return MASK
    netloc = parts.netloc
    if "@" in netloc:
        netloc = f"{MASK}@{netloc.rpartition('@')[2]}"
    query = parts.query
    if query:
        pairs = [(k, MASK if is_declared_secret(k) else v) for k, v in parse_qsl(query, keep_blank_values=True)]
        query = urlencode(pairs, safe="*")
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def mask_text(text: str) -> str:
    """Return text without the secrets of the URLs and of the `name=value` pairs in it, whatever characters they have.

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
    """Text that may hold a secret: a string as any other, but what shows it as a value shows it masked.

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
    """Return each argument as it may be shown, with the secrets that were in it."""
    masked: list[tuple[str, frozenset[str]]] = []
    hide_next = False
    for arg in args:
        start = _secret_start(arg)
        if hide_next and not arg.startswith("-"):
            masked.append((MASK, frozenset({arg})))
        elif start is not None:
            masked.append((arg[:start] + MASK, _with_last_word(arg[start:])))
        elif "://" in arg:
            secrets = frozenset(secret for url in _URL.findall(arg) for secret in url_secrets(url))
            masked.append((_URL.sub(lambda match: mask_url(match[0]), arg), secrets))
        else:
            masked.append((arg, frozenset()))
        hide_next = arg.startswith("-") and _NAMED.match(arg) is None and is_declared_secret(arg)
    return masked


def _secret_start(arg: str) -> int | None:
    """Return where the value of a secret-looking name starts, also in `--header=Authorization: x`."""
    match = _NAMED.match(arg)
    while match:
        if is_declared_secret(match[1]):
            return match.end()
        match = _NAMED.match(arg, match.end())
    return None


def _with_last_word(value: str) -> frozenset[str]:
    """Return a header's value, and what follows its scheme: of `Bearer x` also `x`."""
    return frozenset({value, value.rpartition(" ")[2]})


def argument_secrets(args: tuple[str, ...]) -> frozenset[str]:
    """Return what `mask_arguments` hides."""
    return frozenset(secret for _, found in _masked_arguments(args) for secret in found)


def named_secrets(values: Mapping[str, str]) -> frozenset[str]:
    """Return the values of secret-looking names."""
    return frozenset(value for name, value in values.items() if is_declared_secret(name))


def header_secrets(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the values of secret-looking headers, of `Bearer x` also `x`."""
    return frozenset(part for value in named_secrets(headers) for part in _with_last_word(value))


def url_secrets(url: str) -> frozenset[str]:
    """Return user info and secret-looking query values, as written and as decoded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return frozenset({url})
    hidden = [parts.netloc.rpartition("@")[0], parts.password or ""]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if is_declared_secret(name):
            hidden += [value, unquote_plus(value)]
    return frozenset(value for value in hidden if value)


def long_enough(values: Iterable[str]) -> frozenset[str]:
    """Leave out what is too short to be a secret: masking "1" everywhere would hide the message."""
    return frozenset(value for value in values if len(value) >= 4)
