"""Makes untrusted text safe to show: control characters, invisible characters, Markdown and links."""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from mcp_magic._text import clean
from mcp_magic.errors import InvalidResponseError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BINARY",
    "LEGEND",
    "MAX_URL",
    "Mark",
    "clean",
    "code_language",
    "cut",
    "data_url",
    "decode",
    "ends",
    "escaped_json",
    "harmless",
    "host_of",
    "in_line",
    "is_base64",
    "is_long",
    "mime",
    "one_line",
    "outline",
    "shorten",
    "visible",
    "why_not_open",
]


# Plain text and data of servers.
#
# When shown, they must not control a terminal (escape sequences), reorder text (bidirectional controls: CVE-2021-42574,
# "Trojan Source"), hide text, or break out of an HTML attribute.

BINARY = "application/octet-stream"
"""The MIME type for data whose MIME type is missing or invalid."""

_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text`, cleaned.

    Cuts before cleaning, so a long `text` costs no more time.
    """
    return clean(text[:limit])[:limit]


def shorten(text: str, limit: int) -> str:
    """Return `text` cleaned, cut with an ellipsis if it is longer than `limit`.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    shown = cut(text, limit + 1)
    return shown if len(shown) <= limit else shown[: max(limit - 1, 0)] + "…"


def one_line(text: str, limit: int) -> str:
    r"""Return `text` on one line, shortened.

    >>> one_line("a\n  b\t c", 80), one_line("a" + " " * 99 + "b", 10)
    ('a b c', 'a…')
    """
    start = text[: limit * 4 + 1]
    rest = "…" if len(text) > len(start) else ""  # for text after very long white space
    return shorten(" ".join(start.split()) + rest, limit)


def mime(value: str | None) -> str:
    """Return the type and subtype of a MIME type, or `application/octet-stream` if it is invalid.

    >>> mime("Text/CSV; charset=utf-8")
    'text/csv'
    >>> mime('image/png" onerror="alert(1)')
    'application/octet-stream'
    """
    kind = (value or "")[:200].partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) else BINARY


def is_base64(data: str) -> bool:
    """Return whether `data` is only base64, and so is safe in an HTML attribute.

    >>> is_base64("aGk="), is_base64('aGk=" onload="x')
    (True, False)
    """
    return _BASE64.fullmatch(data) is not None


def data_url(mime_type: str, data: str) -> str:
    """Return a `data:` URL (RFC 2397) for base64 data.

    Raises:
        InvalidResponseError: The data is not base64.
    """
    if not is_base64(data):
        raise InvalidResponseError(f"the server sent {mime(mime_type)} that is not base64")
    return f"data:{mime(mime_type)};base64,{''.join(data.split())}"


def decode(data: str, what: str = "data") -> bytes:
    """Return the bytes of base64 data.

    Raises:
        InvalidResponseError: The data is not base64.
    """
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        reason = f"the server sent {what} that is not base64"
    raise InvalidResponseError(reason)


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
_DESTINATION = re.compile(r"\]([(:])(?!\s*+(?:https?://|mailto:|[^\s:&\\<>()/?#]*(?:[/?#\s)]|\Z)))", re.IGNORECASE)
_ANY_DESTINATION = re.compile(r"\]([(:])")
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
    r"""Return Markdown that renders without HTML and scripts and loads nothing.

    HTML inside code is escaped too, and shows as `&lt;`: renderers disagree on which lines are code, and a wrong guess
    would let a tag through.

    Args:
        text: The Markdown.
        links: Whether to keep links with allowed destinations; if False, all links show as plain text.

    >>> harmless("# Hi <script>alert(1)</script>, 1 < 2")
    '# Hi &lt;script>alert(1)&lt;/script>, 1 < 2'
    >>> harmless("[a](https://example.com) [b](javascript:alert(1)) ![c](http://x/y.png)")
    '[a](https://example.com) [b]\\(javascript:alert(1)) [c](http://x/y.png)'
    >>> harmless("[a](https://example.com)", links=False)
    '[a]\\(https://example.com)'
    >>> harmless("```mermaid\nflowchart\n```\n```python\n1\n```")
    '```\nflowchart\n```\n```python\n1\n```'
    >>> harmless(r"$\frac{1}{2} \href{x}{y}$")
    '$\\frac{1}{2} \\ href{x}{y}$'
    """
    text = _ENTITY.sub("&amp;", clean(text))
    text = _TAG.sub("&lt;", text)
    text = _COMMAND.sub(r"\\ ", text)
    barred = _DESTINATION if links else _ANY_DESTINATION
    text = barred.sub(r"]\\\1", _IMAGE.sub("[", text))
    return _FENCE.sub(lambda found: found[1] + code_language(found[2]), text)


def code_language(info: str) -> str:
    """Return the language of a code block's info string if frontends only colour it; else "".

    >>> code_language(" Python title=x"), code_language("mermaid"), code_language("{figure} http://x/y.png")
    ('python', '', '')
    """
    language = next(iter(info.split(maxsplit=1)), "").lower()
    return language if language in LANGUAGES else ""


# Addresses that a server asks the user to open.

MAX_URL = 8_000
"""Most characters of an address that the user may be asked to open."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def why_not_open(url: str) -> str:
    """Return why the user must not be asked to open an address; "" if nothing is wrong with it.

    >>> why_not_open("https://github.com@evil.example/")
    "has a user name, which looks like the host: 'github.com@'"
    >>> why_not_open("javascript:alert(1)"), why_not_open("http://127.0.0.1:8000/login")
    ('is no http(s) URL', '')
    """
    if len(url) > MAX_URL:
        return f"has more than {MAX_URL:,} characters"
    if not host_of(url):
        return "is no http(s) URL"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return f"has a user name, which looks like the host: {one_line(parts.netloc.rpartition('@')[0], 60) + '@'!r}"
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        return "has no https, so anybody on the way could read what you type there"
    return ""


def host_of(url: str) -> str:
    """Return the host (and port) of an http(s) URL in ASCII; "" for any other URL.

    A user name before `@` is left out, and a look-alike name appears in its ASCII form (`xn--...`):

    >>> host_of("https://bank.example@evil.example:8443/login")
    'evil.example:8443'
    >>> host_of("https://\u0430pple.com/")
    'xn--pple-43d.com'
    >>> host_of("https://stra\u00dfe.example/"), host_of("https://pay\u200dpal.com/")
    ('xn--strae-oqa.example', '')
    >>> host_of("javascript:alert(1)")
    ''
    """
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
        name = name if name.isascii() else _ascii(name)
    except ValueError:  # an invalid port or name
        return ""
    strange = any(ord(char) <= 32 for char in url) or "\\" in url
    if parts.scheme not in ("http", "https") or not name or strange:
        return ""
    return f"{name}:{port}" if port is not None else name


def _ascii(name: str) -> str:
    """Return a host name as browsers send it (UTS 46); Python's own codec is from 2003 and turns `ß` into `ss`.

    Raises:
        ValueError: The name is invalid.
    """
    import idna

    return idna.encode(name, uts46=True, std3_rules=True).decode()


# Text for approval: nothing in it may be invisible or look like something else.
#
# `visible` writes out runs of white space (`⟨␣×1,200⟩`), controls and invisible characters (`\u202e`), and letters of
# other scripts that look like Latin ones (`p⟨Cyrillic а⟩ypal`).

# ruff: noqa: RUF001, RUF002, RUF003 - this code is about letters that look alike


LEGEND = (
    "⟨␣×20⟩ stands for 20 spaces in a row (↵ line ends, ⇥ tabs), ⟨Cyrillic а⟩ for a letter that only looks like a "
    "Latin one, \\u202e and the like for a character that cannot be seen."
)

RUN = 8
"""Length from which a run of white space is counted instead of shown."""

COUNTED = 10
"""Approximate length of a counted run, in characters."""

SAVED = 30
"""Fewest characters that are worth leaving out."""

_INDENTED = re.compile(r"\n{0,3}(?: {0,40}|\t{0,8})")
"""White space at the beginning of a line that is shown unchanged: it indents code and separates paragraphs."""

_BLANKS = r"\s\u115f\u1160\u2800\u3164\uffa0"
"""White space, and letters without a visible shape."""

_WHITE = re.compile(f"[{_BLANKS}]+")
_RUN = re.compile(f"[{_BLANKS}]{{{RUN},}}")

# Zero-width joiners stay between letters and emoji that need them, and a variation selector stays after a symbol.
_HIDDEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
    r"|(?<![\u0590-\u1fff\u2030-\U0001ffff])[\u200c\u200d]|[\u200c\u200d](?![\u0590-\u1fff\u2030-\U0001ffff])"
    r"|(?<![#*0-9\xa9\xae\u2030-\ufdff\U0001f000-\U0001ffff])[\ufe0e\ufe0f]"
)
_PILED = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
"""Piles of combining marks on one letter, which would cover the lines around it."""

_ODD = re.compile(f"{_RUN.pattern}|{_HIDDEN}|{_PILED}")

_NAMES = {" ": "␣", "\n": "↵", "\t": "⇥"}

# Letters that look like ASCII letters: those that Unicode's confusables.txt (UTS 39) maps to one ASCII letter, from the
# scripts that fonts draw in the same style, without those that are similar only in some fonts.
_LOOKALIKES = (
    "аеорсухіјѕԁһӏԛԝѵѡүҽАВЕНІЈКМОРСТУХЅԌԜѴҮӀ"  # Cyrillic
    "αικνορυγχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿϜ"  # Greek
    "հոսցօքգզԼՍՏՕ"  # Armenian
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᏀᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏳᏴꭵꮁꮃꮓꮩꮪꮯ"  # Cherokee
    "ⲞⲟⲤⲥⲢⲣⲔⲎⲘⲚⲦⲨⲬⲒ"  # Coptic
    "ꓐꓑꓒꓓꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓔꓧꓪꓫꓬꓮꓰꓲꓳꓴꓦ"  # Lisu
    "ɑɡɩᴄᴏᴠᴡᴢꜱ"  # Latin letters of phonetics
)
_LIKE = re.compile(
    # characters that NFKC turns into ASCII: mathematical and full-width letters, Roman numerals, the Kelvin sign
    f"[{_LOOKALIKES}\u212a\u2160-\u217f\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5]"
)
_ACCENTED = re.compile("[\u0370-\u052f\u1f00-\u1fff]")
"""Greek and Cyrillic, whose accented letters also look like Latin ones."""

_WORD = re.compile(r"\\[nrtbf]|([^\W_]+)")
_LATIN = re.compile("[A-Za-z]")
_AROUND = 2
"""Number of words on each side that decide whether a word made of look-alikes is genuine."""


class Mark(NamedTuple):
    """A range of a text that is written out.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        shown: The text shown in its place.
    """

    start: int
    end: int
    shown: str


def visible(text: str) -> str:
    r"""Return text with invisible and misleading characters written out; line ends become `\n`.

    >>> visible("ls -la" + " " * 1200 + "; rm -r .")
    'ls -la⟨␣×1,200⟩; rm -r .'
    >>> visible("p\u0430ypal.com, user\u202egnp.exe"), visible("Привет, мир")
    ('p⟨Cyrillic а⟩ypal.com, user\\u202egnp.exe', 'Привет, мир')
    """
    text = text.replace("\r\n", "\n")
    parts, at = [], 0
    for mark in _marks(text):
        parts += [text[at : mark.start], mark.shown]
        at = mark.end
    return "".join([*parts, text[at:]])


def escaped_json(value: Any, indent: int | None = None) -> str:
    r"""Return a value as JSON in which all that `visible` writes out is escaped; parsing it gives the same value.

    >>> escaped_json({"host": "p\u0430ypal", "path": "a\u200bb"})
    '{"host": "p\\u0430ypal", "path": "a\\u200bb"}'
    """
    written = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return re.sub(r'"(?:[^"\\]|\\.)*"', _escaped, written)


def _escaped(literal: re.Match[str]) -> str:
    text = json.loads(literal[0])
    parts, at = [], 0
    for mark in _marks(text):
        units = text[mark.start : mark.end].encode("utf-16-be", "surrogatepass").hex()
        escapes = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        parts += [json.dumps(text[at : mark.start], ensure_ascii=False)[1:-1], escapes]
        at = mark.end
    return f'"{"".join(parts)}{json.dumps(text[at:], ensure_ascii=False)[1:-1]}"'


def outline(text: str, limit: int) -> str:
    """Return `visible` text; if it is longer than `limit`, its beginning, how much is left out, and its end.

    >>> outline("0123456789" * 6, 12)
    '01234567 … 48 characters left out … 6789'
    """
    text = text.replace("\r\n", "\n")
    start, end = ends(text, limit)
    if start == end:
        return visible(text)
    return f"{visible(text[:start])} … {end - start:,} characters left out … {visible(text[end:])}"


def in_line(text: str, limit: int) -> str:
    r"""Return the `outline` of a text on one line.

    >>> in_line("a\nb", 80)
    'a\\nb'
    """
    return outline(text, limit).replace("\n", "\\n")


def is_long(text: str, limit: int) -> bool:
    """Whether `outline` leaves something out."""
    start, end = ends(text.replace("\r\n", "\n"), limit)
    return start != end


def ends(text: str, limit: int) -> tuple[int, int]:
    """Return the range of characters that `outline` leaves out (empty if it shows all of the text).

    A run of white space is not cut, because a counted run is short. A range that is hardly longer than the words that
    would replace it is not left out.
    """
    if len(text) <= limit + SAVED:
        return len(text), len(text)
    start, end = _reach(text, limit * 2 // 3), len(text) - _reach(text[::-1], limit // 3)
    return (start, end) if start + SAVED < end else (len(text), len(text))


def _reach(text: str, room: int) -> int:
    """Return how many characters of a text fit into `room`; a long run of white space takes only `COUNTED`."""
    at = 0
    while room > 0 and (run := _RUN.search(text, at, at + room)):
        room -= run.start() - at + COUNTED
        at = _WHITE.match(text, run.start()).end()  # type: ignore[union-attr]
    return min(at + max(room, 0), len(text))


def _marks(text: str) -> list[Mark]:
    odd = [Mark(*found.span(), shown) for found in _ODD.finditer(text) if (shown := _named(found)) != found[0]]
    return odd if text.isascii() else sorted([*odd, *_lookalikes(text)])


def _named(found: re.Match[str]) -> str:
    """Return the text shown for a run of white space, a pile of marks or an invisible character."""
    text = found[0]
    if unicodedata.combining(text[0]):
        return f"⟨marks ×{len(text):,}⟩"
    if len(text) < RUN:
        return _code(text)
    if _INDENTED.fullmatch(text) and (text[0] == "\n" or found.start() == 0):
        return text
    runs = [f"{_NAMES.get(char) or _code(char)}×{len(list(same)):,}" for char, same in groupby(text)]
    return f"⟨{' '.join(runs)}⟩" if len(runs) <= 4 else f"⟨white space ×{len(text):,}⟩"


def _code(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _lookalikes(text: str) -> Iterator[Mark]:
    """Yield letters that look like Latin ones, in words that may deceive.

    A word that mixes Latin letters with look-alikes of another script is marked. A word made only of look-alikes is
    marked if Latin letters adjoin it without a space (`https://сору.com`), or if no word near it is clearly of its
    script. So genuine Russian and Greek stay unchanged.
    """
    if not (_LIKE.search(text) or _ACCENTED.search(text)):
        return
    tokens = list(re.finditer(r"\S+", text))
    for number, token in enumerate(tokens):
        if not (_LIKE.search(token[0]) or (_ACCENTED.search(token[0]) and _LATIN.search(token[0]))):
            continue
        words = [word for word in _WORD.finditer(token[0]) if word[1]]
        beside = any(_LATIN.search(word[0]) for word in words)
        near = "".join(each[0] for each in tokens[max(number - _AROUND, 0) : number + _AROUND + 1])
        for word in words:
            yield from (
                Mark(token.start() + word.start() + mark.start, token.start() + word.start() + mark.end, mark.shown)
                for mark in _in_word(word[0], near, beside=beside)
            )


def _in_word(word: str, near: str, *, beside: bool) -> Iterator[Mark]:
    scripts = {_script(char) for char in word if not char.isascii() and _is_like(char)}
    if not scripts:
        return
    if not _LATIN.search(word):
        if not all(_LIKE.match(char) or char.isdigit() for char in word):
            return
        if not beside and (len(word) == 1 or scripts == {"full-width"} or _unmistakable(near, scripts)):
            return
    at = 0
    for script, letters in groupby(word, lambda char: _script(char) if not char.isascii() else ""):
        length = len(list(letters))
        if script in scripts:
            yield Mark(at, at + length, f"⟨{script} {word[at : at + length]}⟩")
        at += length


def _is_like(char: str) -> bool:
    """Whether a letter looks like a Latin one, ignoring accents."""
    return _LIKE.match(char) is not None or _LIKE.match(unicodedata.normalize("NFD", char)[0]) is not None


def _unmistakable(text: str, scripts: set[str]) -> bool:
    return any(
        not char.isascii() and char.isalpha() and not _LIKE.match(char) and _script(char) in scripts for char in text
    )


@cache
def _script(char: str) -> str:
    """Return the script of a letter, from the first word of its Unicode name."""
    first = unicodedata.name(char, "unknown").split()[0]
    named = {"FULLWIDTH": "full-width", "LATIN": "phonetic", "SMALL": "Roman numeral", "ROMAN": "Roman numeral"}
    return named.get(first) or ("mathematical" if char >= "\U0001d400" else first.capitalize())
