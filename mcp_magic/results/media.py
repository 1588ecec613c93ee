"""Images, audio and documents: base64 as it came, decoded when somebody asks."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidResponseError
from .html import Markup, note
from .limits import Budget, size_text
from .parts import Part, bundle
from .safe import data_url, decode, is_base64, mime

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Media", "media_part", "too_large"]

_NATIVE = ("image/png", "image/jpeg", "application/pdf")
"""What frontends show from the bundle itself. SVG is not among them: it would run its scripts."""

MAX_PIXELS = 50_000_000
"""Pixels of an image that is shown: a browser takes four bytes for each, however few the file has."""

HEAD = 400_000
"""Characters of an image that are looked at for its size: pictures of cameras begin with much else."""

_IMAGES = {f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "bmp", "svg+xml", "x-icon")}
"""What browsers can show."""


class Media:
    """One image, sound or document, displayable without any imaging library.

    Attributes:
        mime_type: Its MIME type as the server says it, "application/octet-stream" if that is none.
        base64: The data as it came.
        name: Where it came from, for messages and file names.
    """

    __slots__ = ("base64", "mime_type", "name")

    def __init__(self, base64: str, mime_type: str | None, name: str = "") -> None:
        self.base64 = base64
        self.mime_type = mime(mime_type)
        self.name = name

    def __bytes__(self) -> bytes:
        return self.bytes

    def __mcp_argument__(self, wanted: str) -> bytes:
        """Return what stands for it as an argument."""
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
        """The number of bytes, computed without decoding."""
        return len(self.base64) * 3 // 4 - self.base64[-2:].count("=")

    @property
    def summary(self) -> str:
        """One line: the type and the size."""
        return f"{self.mime_type}, {size_text(self.size)}"

    def save(self, path: str | Path) -> Path:
        """Write the data to `path` and return it; without a suffix it gets the one of the MIME type."""
        target = Path(path)
        if not target.suffix:
            target = target.with_suffix(mimetypes.guess_extension(self.mime_type) or "")
        target.write_bytes(self.bytes)
        return target

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Media):
            return NotImplemented
        return (self.mime_type, self.base64) == (other.mime_type, other.base64)

    def __hash__(self) -> int:
        return hash((self.mime_type, self.base64))

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([media_part(self, Budget.full())], include, exclude)


def media_part(media: Media, budget: Budget, how: str = ".bytes") -> Part:
    """Return how media are shown: themselves if they fit, else a line that says how to get them.

    Args:
        media: What to show.
        budget: Counts the bytes.
        how: The attribute that has them.
    """
    family = media.mime_type.partition("/")[0]
    if family != "audio" and media.mime_type not in _IMAGES and media.mime_type != "application/pdf":
        return _line(f"{media.summary}: {how}")
    if not budget.take_media(media.size):
        return too_large(media.summary, how)
    if not is_base64(media.base64):
        return _line(f"{media.summary}, but not base64: nothing to show")
    wide, high = _dimensions(media.base64) if family == "image" else (0, 0)
    if wide * high > MAX_PIXELS:
        return _line(f"{media.summary}, {wide:,} x {high:,} pixels, too many to be shown: {how}")
    url = data_url(media.mime_type, media.base64)
    native = {media.mime_type: url.partition(",")[2]} if media.mime_type in _NATIVE else None
    return Part(plain=f"[{media.summary}: {how}]", html=_element(family, url, media.summary), native=native, media=True)


def _dimensions(data: str) -> tuple[int, int]:
    """Return width and height that the beginning of an image states, of the kinds that pack many pixels into few bytes.

    >>> _dimensions("iVBORw0KGgoAAAANSUhEUgAAw1AAAMNQ")
    (50000, 50000)
    """
    text = "".join(data.split())[:HEAD]
    try:
        head = decode(text[: len(text) // 4 * 4])
    except InvalidResponseError:
        return 0, 0
    if head.startswith(b"\0\0\1\0") and b"\x89PNG" in head:  # an icon
        head = head[head.index(b"\x89PNG") :]
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


def too_large(summary: str, how: str) -> Part:
    """Return the line that stands for media that do not fit."""
    return _line(f"{summary}, too large to be kept in the notebook: {how}")


def _line(text: str) -> Part:
    return Part(plain=f"[{text}]", html=note(text))


def _element(family: str, url: str, summary: str) -> Markup:
    """Return the element for a URL of `data_url`, which has checked that it holds nothing else."""
    if family == "image":
        return Markup(f'<img src="{url}" alt="{summary}">')
    if family == "audio":
        return Markup(f'<audio controls src="{url}"></audio>{note(summary)}')
    return Markup(f'<p><a download="document.pdf" href="{url}">{summary}</a></p>')
