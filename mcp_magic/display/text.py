"""Makes untrusted text safe to show: control characters, invisible characters, Markdown and links."""

from __future__ import annotations

import base64
import binascii
import re
from os.path import commonprefix
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic._text import clean
from mcp_magic.errors import InvalidResponseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Plain text and data of servers.
#
# When shown, they must not control a terminal (escape sequences), reorder text (bidirectional controls: CVE-2021-42574,
# "Trojan Source"), hide text, or break out of an HTML attribute.

BINARY = "application/octet-stream"  # the MIME type for data whose MIME type is missing or invalid

_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}")
_URL_SAFE = str.maketrans("-_", "+/")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters of the cleaned `text`; a long `text` costs no more time."""
    return clean(text[: _start(limit)])[:limit]


def _start(limit: int) -> int:
    """Return how much of a text to clean for `limit` characters: colours and the like take more than they show."""
    return limit * 4 + 256


def shorten(text: str, limit: int) -> str:
    """Return `text` cleaned, cut with an ellipsis if it is longer than `limit`."""
    start = cut(text, limit + 1)
    is_whole = len(start) <= limit and len(text) <= _start(limit + 1)
    return start if is_whole else start[: max(limit - 1, 0)] + "…"


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line, shortened."""
    start = text[: limit * 4 + 1]
    rest = "…" if len(text) > len(start) else ""  # for text after very long white space
    return shorten(" ".join(start.split()) + rest, limit)


def visible(name: str) -> str:
    r"""Return a name; if it is empty or has white space that nobody sees, in quotes and with escapes.

    >>> print(visible("add"), visible(""), visible(" add"), visible("a\tb"), visible("  "))
    add '' ' add' 'a\tb' '\x20\x20'
    """
    # a page shows several blanks as one
    return name if name and name == " ".join(name.split()) else repr(name).replace("  ", r"\x20\x20")


def middle_cuts(texts: Sequence[str], limit: int) -> list[str]:
    """Return each text on one line; of a long one the beginning, the end, and the part where it differs from others.

    Long texts that read alike for all that are whole, up to five times the limit.

    >>> middle_cuts(["export_report_number_003", "add"], 16)
    ['export_r…ber_003', 'add']
    >>> middle_cuts(["export_report_for_north_number_003", "export_report_for_south_number_003"], 16)
    ['exp…_north_n…003', 'exp…_south_n…003']
    """
    # an invisible character is written out: `\u202e`
    lines = [one_line(text, max(len(text), 1) * 8) for text in texts]
    start, edge = limit // 2, limit // 5
    cuts = {line: line if len(line) <= limit else _cut(line, start, start, limit) for line in lines}
    for group in _alike({line: line[:start] for line in lines if len(line) > limit}):
        at = len(commonprefix(group)) - edge // 2  # noqa: RUF071  # these are no paths
        cuts |= {line: _cut(line, edge, at, limit) for line in group}
    for group in _alike(cuts):
        cuts |= {line: shorten(line, 5 * limit) for line in group}
    return [cuts[line] for line in lines]


def _cut(line: str, start: int, at: int, limit: int) -> str:
    """Return the first `start` characters of a line, and the others from `at` on that there is room for, or the end."""
    rest = limit - start - 1
    if at >= len(line) - rest or at <= start:
        return f"{line[:start]}…{line[-rest:]}"
    return f"{line[:start]}…{line[at : at + rest - start - 1]}…{line[-start:]}"


def _alike(cuts: Mapping[str, str]) -> list[list[str]]:
    """Return the lines whose cuts are equal, in groups."""
    groups: dict[str, list[str]] = {}
    for line, text in cuts.items():
        groups.setdefault(text, []).append(line)
    return [group for group in groups.values() if len(group) > 1]


def mime(value: str | None) -> str:
    """Return the type and subtype of a MIME type, or `application/octet-stream` if it is invalid."""
    kind = (value or "")[:200].partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) else BINARY


def standard_base64(data: str) -> str:
    """Return base64 in the standard alphabet with its padding, from its URL-safe, unpadded and `data:` forms.

    Sources: RFC 4648, sections 4 and 5; RFC 2397. Data that is right is returned as it is.

    >>> standard_base64("_-8"), standard_base64("data:image/png;base64,iVBORw0"), standard_base64("aGk=")
    ('/+8=', 'iVBORw0=', 'aGk=')
    """
    if data[:5].lower() == "data:" and ";base64," in data[:300]:
        data = data.partition(";base64,")[2]
    if "-" in data or "_" in data:
        data = data.translate(_URL_SAFE)
    if len(data) % 4:
        compact = "".join(data.split()).rstrip("=")
        if len(compact) % 4 != 1:  # which no bytes have
            padded = compact + "=" * (-len(compact) % 4)
            return padded if len(padded) != len("".join(data.split())) else data
    return data


def is_base64(data: str) -> bool:
    """Return whether `data` is only base64, and so is safe in an HTML attribute."""
    return _BASE64.fullmatch(data) is not None


def data_url(mime_type: str, data: str) -> str:
    """Return a `data:` URL (RFC 2397), or raise InvalidResponseError if the data is not base64."""
    if not is_base64(data):
        raise InvalidResponseError(f"the server sent {mime(mime_type)} that is not base64")
    return f"data:{mime(mime_type)};base64,{''.join(data.split())}"


def decode(data: str, noun: str = "data") -> bytes:
    """Return the bytes of base64 data, or raise InvalidResponseError if it is not base64."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidResponseError(f"the server sent {noun} that is not base64") from None


# Markdown of servers: all of it passes `harmless` before display, because not every renderer sanitises.
#
# JupyterLab sanitises `text/markdown`, but nbconvert passes raw HTML through. So raw HTML is escaped, links keep only
# safe destinations, and images become links: loading an image would tell its host who reads the notebook. For the same
# reason a code block may only name a language that is just coloured (JupyterLab draws `mermaid`, which loads images and
# fonts), and formulas lose commands that style, link or define.

LANGUAGES = frozenset(
    """
    bash c c# c++ console cpp cs csharp css csv diff go html ini java javascript js json json5 jsonc
    jsonl kotlin lua make markdown md perl php plain plaintext powershell py pycon python python3 r rb
    rs ruby rust scala sh shell sql swift text toml tsx ts txt typescript xml yaml yml zsh
    """.split()  # noqa: SIM905
)
"""Code languages that frontends only colour."""

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
# Entities are decoded in link destinations: `java&#115;cript&colon;` would come back as a scheme.
_ENTITY = re.compile(r"&(?=#|(?:colon|tab|newline|lpar|sol|num|lt|excl|lsqb|lbrack|grave|bsol);)", re.IGNORECASE)
_IMAGE = re.compile(r"(?<!!)!++\[")
# A destination is allowed if it is http(s), mailto, or relative: no colon, entity or escape before its first slash,
# question mark, hash or end. A list of allowed forms is safer than a list of forbidden ones.
_DESTINATION = re.compile(r"\](?=[(:](?!\s*+(?:https?://|mailto:|[^\s:&\\<>()/?#]*(?:[/?#\s)]|\Z))))", re.IGNORECASE)
_ANY_DESTINATION = re.compile(r"\](?=[(:])")
# A fence and its info string, also after the marks of lists, quotes and definitions, and with the colons of MyST. No
# other backtick may follow on the line: that would be inline code.
_FENCE = re.compile(r"^((?:[^A-Za-z`~:\n\r]|:(?!::))*+(?:`{3,}+(?![^\n\r]*`)|~{3,}+|:{3,}+))([^\n\r]*)", re.MULTILINE)
# TeX commands that style, link, load or define something for the whole page (MathJax, KaTeX).
_COMMAND = re.compile(
    r"\\(?=(?:style|class|cssId|data|bbox|href|url|require|includegraphics|unicode|mmlToken|html[A-Za-z]*"
    r"|[egx]?def|(?:future|global)?let|global|long|(?:re)?new(?:command|environment)|provide(?:command|environment)"
    r"|Declare[A-Za-z]*|define[A-Za-z]*|csname)(?![A-Za-z]))"
)


def harmless(text: str, *, links: bool = True) -> str:
    """Return Markdown that renders without HTML and scripts and loads nothing.

    HTML inside code is escaped too, and shows as `&lt;`: renderers disagree on which lines are code, and a wrong guess
    would let a tag through. Without `links`, all links show as plain text, those with allowed destinations too.
    """
    text = _ENTITY.sub("&amp;", clean(text))
    text = _TAG.sub("&lt;", text)
    text = _COMMAND.sub(r"\\ ", text)
    barred = _DESTINATION if links else _ANY_DESTINATION
    text = barred.sub(r"]\\", _IMAGE.sub("[", text))
    return _FENCE.sub(lambda fence: fence[1] + code_language(fence[2]), text)


def code_language(info: str) -> str:
    """Return the language of a code block's info string if frontends only colour it; else ""."""
    language = next(iter(info.split(maxsplit=1)), "").lower()
    return language if language in LANGUAGES else ""


# Addresses that a server asks the user to open.

MAX_URL = 8_000  # most characters of an address that the user may be asked to open
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # hosts that are this machine


def why_not_open(url: str) -> str:
    """Return why the user must not be asked to open an address; "" if nothing is wrong with it."""
    if len(url) > MAX_URL:
        return f"has more than {MAX_URL:,} characters"
    if not host_of(url):
        return "is not an http(s) URL"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return f"has a user name, which looks like the host: {one_line(parts.netloc.rpartition('@')[0], 60) + '@'!r}"
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        return "has no https, so others on the network could read what you type there"
    return ""


def host_of(url: str) -> str:
    """Return the host (and port) of an http(s) URL without a user name, in ASCII (`xn--...`); "" for any other URL."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
        if not name.isascii():
            import idna

            # As browsers send it (UTS 46); Python's own codec is from 2003 and turns `ß` into `ss`.
            name = idna.encode(name, uts46=True, std3_rules=True).decode()
    except ValueError:  # an invalid port or name
        return ""
    strange = any(ord(char) <= 32 for char in url) or "\\" in url
    if parts.scheme not in ("http", "https") or not name or strange:
        return ""
    return f"{name}:{port}" if port is not None else name
