"""The content blocks of a result: text, images, audio, resources and links."""

from __future__ import annotations

import base64
import mimetypes
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.display.document import Budget, Markup, Part, joined, note, show_parts, size_text, tag
from mcp_magic.display.tables import data_part, delimited, markdown_part, rows_part, text_part, verbatim_part
from mcp_magic.display.text import data_url, decode, is_base64, mime, one_line, shorten
from mcp_magic.errors import InvalidResponseError
from mcp_magic.schema.commandline import as_word, line_or_comment

if TYPE_CHECKING:
    from collections.abc import Callable

# Images, audio and documents: kept as base64, decoded lazily.

_NATIVE = ("image/png", "image/jpeg", "application/pdf")
"""MIME types that frontends show directly from the mimebundle. SVG is not among them: it would run its scripts."""

MAX_PIXELS = 50_000_000
"""Most pixels of a displayed image: a browser takes four bytes for each, however small the file is."""

HEAD = 400_000  # characters of base64 that are searched for an image's size: camera images begin with much metadata

_IMAGES = {f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "svg+xml")}
"""Images that are shown: browsers can, and `image_size` reads their size."""


@dataclass(frozen=True, slots=True, repr=False)
class Media:
    """One image, audio or document; it displays itself without an imaging library."""

    base64: str  # the data as the server sent it
    mime_type: str  # "application/octet-stream" if the server gives none that is one
    name: str = field(default="", compare=False)  # the URI that it came from

    def __post_init__(self) -> None:
        object.__setattr__(self, "mime_type", mime(self.mime_type))  # safe in an attribute

    def __bytes__(self) -> bytes:
        return self.bytes

    def __mcp_argument__(self, type_: str) -> bytes:
        """Return its value as an argument of a call."""
        return self.bytes

    @property
    def bytes(self) -> bytes:
        """The decoded data.

        Raises:
            InvalidResponseError: The server's data is not base64.
        """
        return decode(self.base64, self.mime_type)

    @property
    def size(self) -> int:
        """The number of decoded bytes, computed without decoding."""
        return len(self.base64) * 3 // 4 - self.base64[-2:].count("=")

    @property
    def summary(self) -> str:
        """One line: the type and the size."""
        return f"{self.mime_type}, {size_text(self.size)}"

    def save(self, path: str | Path) -> Path:
        """Write the data to `path` and return the path; a path without a suffix gets that of the MIME type."""
        target = Path(path)
        if not target.suffix:
            target = target.with_suffix(mimetypes.guess_extension(self.mime_type) or "")
        target.write_bytes(self.bytes)
        return target

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        return [media_part(self, Budget.full())]


def media_part(media: Media, budget: Budget, how: str = ".bytes") -> Part:
    """Return the display of media: the media if they fit, else a line that says that `how` has them."""
    family = media.mime_type.partition("/")[0]
    if family != "audio" and media.mime_type not in _IMAGES and media.mime_type != "application/pdf":
        return _line(f"{media.summary}: {how}")
    if not budget.take("media", media.size):
        return too_large(media.summary, how)
    if not is_base64(media.base64):
        return _line(f"{media.summary}, but not base64: nothing to show")
    wide, high = _dimensions(media.base64) if family == "image" else (0, 0)
    if wide * high > MAX_PIXELS:
        return _line(f"{media.summary}, {wide:,} x {high:,} pixels, too many to be shown: {how}")
    url = data_url(media.mime_type, media.base64)  # safe in an attribute
    if family == "image":
        html = f'<img src="{url}" alt="{media.summary}">'
    elif family == "audio":
        html = f'<audio controls src="{url}"></audio>{note(media.summary)}'
    else:
        html = f'<p><a download="document.pdf" href="{url}">{media.summary}</a></p>'
    native = {media.mime_type: url.partition(",")[2]} if media.mime_type in _NATIVE else None
    return Part(plain=f"[{media.summary}: {how}]", html=Markup(html), native=native, media=True)


def _dimensions(data: str) -> tuple[int, int]:
    """Return the width and height in an image's header; (0, 0) if it has none."""
    text = "".join(data.split())[:HEAD]
    try:
        return image_size(decode(text[: len(text) // 4 * 4]))
    except InvalidResponseError:
        return 0, 0


def image_size(head: bytes) -> tuple[int, int]:
    """Return the width and height that the beginning of an image states; (0, 0) if it states none."""
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"BM") and len(head) >= 26:
        return int.from_bytes(head[18:22], "little"), abs(int.from_bytes(head[22:26], "little", signed=True))
    if head[8:15] == b"WEBPVP8" and len(head) >= 30:
        return _webp(head)
    if (place := head.find(b"ispe")) > 0 and head[4:8] == b"ftyp":  # AVIF
        return int.from_bytes(head[place + 8 : place + 12]), int.from_bytes(head[place + 12 : place + 16])
    return _jpeg(head) if head.startswith(b"\xff\xd8") else (0, 0)


def _webp(head: bytes) -> tuple[int, int]:
    if head[15:16] == b"X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    bits = int.from_bytes(head[21:25], "little")
    if head[15:16] == b"L":
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def _jpeg(head: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return 0, 0


_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
)
"""First bytes of an image -> its MIME type."""

_BRANDS = {b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic"}
"""Brand of an ISO base media file (ISO/IEC 14496-12) -> its MIME type."""

_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,500}?-->\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]", re.S
)


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image from its first bytes, whatever its server says; None if they are no image's.

    >>> image_type(bytes.fromhex("ffd8ffe0")), image_type(b"<svg width='1'/>"), image_type(b"a")
    ('image/jpeg', 'image/svg+xml', None)
    """
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:2] == b"BM" and data[6:10] == bytes(4) and len(data) >= 26:
        return "image/bmp"
    if data[4:8] == b"ftyp" and data[8:12] in _BRANDS:
        return _BRANDS[data[8:12]]
    return "image/svg+xml" if _SVG.match(data[:2000]) else None


def too_large(summary: str, how: str) -> Part:
    """Return the line that replaces media that do not fit."""
    return _line(f"{summary}, too large to be kept in the notebook: {how}")


def _line(text: str) -> Part:
    return Part(plain=f"[{text}]", html=note(text))


# The content blocks of MCP. `CONTENT` alone knows the types; for a new type, `register` a `Content`.

DELIMITED = {"text/csv": ",", "text/tab-separated-values": "\t"}
"""MIME type of delimited text (RFC 4180, IANA) -> its expected delimiter."""

_JSON_LINES = {f"application/{kind}" for kind in ("x-ndjson", "ndjson", "jsonl", "x-jsonl", "jsonlines", "x-jsonlines")}
"""MIME types in use for JSON Lines; none is registered."""


@dataclass(frozen=True, slots=True)
class Content:
    """How to handle a type of content block."""

    part: Callable[[Any, Budget, str], Part]  # takes the block, the budget and the server's name
    message: Callable[[Any], dict[str, Any]]  # returns a block as a content block of a LangChain message
    media: Callable[[Any], Media | None] = lambda block: None  # returns its media, if any


CONTENT: dict[str, Content] = {}  # block type -> how to handle it


def register(kind: str, content: Content) -> None:
    """Add a type of content block, or replace one."""
    CONTENT[kind] = content


def part_of(block: Any, budget: Budget, server: str = "") -> Part:
    """Return the display of a block; an unknown type is shown as JSON."""
    content = CONTENT.get(block.type)
    if content is not None:
        return content.part(block, budget, server)
    return data_part(block.model_dump(mode="json", by_alias=True, exclude_none=True), budget, ".raw")


def message_block(block: Any) -> dict[str, Any]:
    """Return a block as a LangChain content block; an unknown type becomes JSON text."""
    content = CONTENT.get(block.type)
    if content is not None:
        return content.message(block)
    return {"type": "text", "text": block.model_dump_json(by_alias=True, exclude_none=True)}


def to_media(block: Any) -> Media | None:
    """Return the media of a block, or None."""
    content = CONTENT.get(block.type)
    return content.media(block) if content is not None else None


def is_json(mime_type: str) -> bool:
    """Return whether a MIME type means JSON (RFC 6839)."""
    return mime_type in ("application/json", "text/json") or mime_type.endswith("+json")


def read_line(uri: str, server: str = "") -> str:
    """Return the `%mcp` line that reads a resource, as a comment if its URI cannot be typed."""
    of = f" --server {shlex.quote(server)}" if server else ""
    word = as_word(uri)
    return line_or_comment(f"%mcp read {uri if word is None else word}{of}", typed=word is not None)


# SVG images, which are text: shown by `<img>`, where a browser runs no script and loads nothing.

_SVG_TYPE = "image/svg+xml"
_SVG_START = re.compile(r"\s*+(?:<(?:\?xml|!DOCTYPE|!--)[^<>\[]*>\s*+)*+<svg[\s>]", re.IGNORECASE)
"""The beginning of an SVG document without definitions of its own."""
_GENERIC_TYPES = ("text/plain", "text/xml", "application/xml", "application/octet-stream")
"""MIME types of text that may be an SVG image; the last stands for none."""


def _is_svg(text: str) -> bool:
    """Whether the whole text is one SVG image."""
    return _SVG_START.match(text) is not None and text[-100:].rstrip().endswith("</svg>")


def _svg_media(text: str, name: str = "") -> Media:
    return Media(base64.b64encode(text.encode("utf-8", "replace")).decode("ascii"), _SVG_TYPE, name)


def _text_part(block: Any, budget: Budget, server: str) -> Part:
    if not _is_svg(block.text):
        return text_part(block.text, budget)
    if len(block.text) > budget.media:
        return too_large(f"{_SVG_TYPE}, {size_text(len(block.text))}", ".text")  # checked before encoding it
    return media_part(_svg_media(block.text), budget, ".images")


# Handlers of resource blocks.


def resource_media(contents: Any) -> Media | None:
    """Return the media of resource contents (a blob, or an SVG image, which is text), or None."""
    blob = getattr(contents, "blob", None)
    if blob is not None:
        return Media(blob, contents.mime_type or "", str(contents.uri))
    return _svg_media(contents.text, str(contents.uri)) if _is_svg_resource(contents) else None


def _is_svg_resource(contents: Any) -> bool:
    kind = mime(contents.mime_type)
    return kind == _SVG_TYPE or (kind in _GENERIC_TYPES and _is_svg(getattr(contents, "text", "")))


def resource_part(contents: Any, budget: Budget, how: str = ".bytes") -> Part:
    """Return the display of resource contents by their MIME type; `how` names the attribute that has them."""
    kind = mime(contents.mime_type)
    if _is_svg_resource(contents) and len(getattr(contents, "text", "")) > budget.media:
        return too_large(f"{_SVG_TYPE}, {size_text(len(contents.text))}", how)  # checked before encoding it
    media = resource_media(contents)
    if media is not None:
        return media_part(media, budget, how)
    if kind in DELIMITED:
        rows = delimited(contents.text, DELIMITED[kind])
        if len(rows.head(1)[0]):
            return rows_part(rows, budget)
    if kind == "text/markdown":
        return markdown_part(contents.text, budget)
    if is_json(kind) or kind in ("text/plain", "application/octet-stream", *_JSON_LINES):
        return text_part(contents.text, budget)
    return verbatim_part(contents.text, budget)


def titled_part(contents: Any, budget: Budget, how: str = ".bytes") -> Part:
    """Return the display of resource contents under their URI."""
    part = resource_part(contents, budget, how)
    title = one_line(str(contents.uri), 200)
    return Part(f"{title}\n{part.plain}", joined([tag("p", tag("b", title)), part.html]), part.native, part.media)


def _embedded_message(block: Any) -> dict[str, Any]:
    if hasattr(block.resource, "text"):
        return {"type": "text", "text": block.resource.text}
    return _media_message(Media(block.resource.blob, block.resource.mime_type or ""))


# Handlers of the other blocks.


def _link_part(block: Any, budget: Budget, server: str) -> Part:
    facts = [mime(block.mime_type) if block.mime_type else "", size_text(block.size) if block.size is not None else ""]
    title = one_line(block.title or block.name, 100)
    about = ", ".join(text for text in facts if text)
    heading = f"{title} ({about})" if about else title
    line = shorten(read_line(str(block.uri), server), 2000)
    described = shorten(block.description or "", 300)
    html = joined([tag("b", title), f" ({about})" if about else "", Markup("<br>"), tag("code", line), note(described)])
    return Part("\n    ".join(text for text in (heading, line, described) if text), tag("div", html))


def _media_message(media: Media) -> dict[str, Any]:
    family = media.mime_type.partition("/")[0]
    kind = family if family in ("image", "audio", "video") else "file"
    return {"type": kind, "base64": media.base64, "mime_type": media.mime_type}


def _media_content(family: str, how: str) -> Content:
    def media(block: Any) -> Media:
        return Media(block.data, block.mime_type)

    def part(block: Any, budget: Budget, server: str) -> Part:
        item = media(block)
        return media_part(item, budget, how if item.mime_type.startswith(family) else ".artifacts")

    return Content(part, lambda block: _media_message(media(block)), media)


register(
    "text",
    Content(
        part=_text_part,
        message=lambda block: {"type": "text", "text": block.text},
        media=lambda block: _svg_media(block.text) if _is_svg(block.text) else None,
    ),
)
register("image", _media_content("image/", ".images"))
register("audio", _media_content("audio/", ".audio"))
register(
    "resource_link",
    Content(_link_part, lambda block: {"type": "text", "text": f"{block.title or block.name}: {block.uri}"}),
)
register(
    "resource",
    Content(
        lambda block, budget, server: titled_part(block.resource, budget, ".resources"),
        _embedded_message,
        lambda block: resource_media(block.resource),
    ),
)
