"""The content blocks of MCP as a model reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.results.content import to_media
from mcp_magic.results.limits import size_text
from mcp_magic.results.safe import is_base64, mime, one_line
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from mcp_magic.results.media import Media

__all__ = ["LIMIT", "Reader"]

LIMIT = 20_000
"""Characters of one result that a model reads, unless somebody says otherwise: about 5,000 tokens."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What the providers take; one image of another type, and they refuse the whole conversation."""

IMAGE_BYTES = 3_700_000
"""Bytes of one image: Anthropic takes 5 MB of base64, the others more."""


class Reader:
    """Collects what a model reads of the blocks of one result.

    Args:
        images: Whether it takes images.
        limit: Characters of text that are left for it.
    """

    def __init__(self, *, images: bool, limit: int) -> None:
        self._images = images
        self._left = max(limit, 0)
        self._items: list[str | dict[str, Any]] = []
        self._skipped = 0
        self._skipped_characters = 0

    def add(self, block: Any) -> int | None:
        """Add a block; return its index if it is text or an image that the model has whole."""
        text = _text_of(block)
        if text is not None:
            return self.add_text(text)
        media = to_media(block)
        if (
            media is not None
            and self._images
            and media.mime_type in IMAGES
            and media.size <= IMAGE_BYTES
            and is_base64(media.base64)
        ):
            self._items.append({"type": "image", "base64": "".join(media.base64.split()), "mime_type": media.mime_type})
            return len(self._items) - 1
        self.add_text(_line(block, media))
        return None

    def add_text(self, text: str) -> int | None:
        """Add text as far as it fits; return its index if it is whole."""
        readable = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate would break the request
        if not self._left and text:
            self._skipped += 1
            self._skipped_characters += len(text)
            return None
        if len(readable) <= self._left:
            self._left -= len(readable)
            self._items.append(readable)
            return len(self._items) - 1 if readable == text else None
        note = f"[cut here: these are the first {self._left:,} of {len(readable):,} characters]"
        self._items.append(f"{readable[: self._left]}\n{note}")
        self._left = 0
        return None

    def finish(self) -> list[str | dict[str, Any]]:
        """Return what there is to read."""
        if self._skipped:
            more = counted(self._skipped, "more blocks")
            self._items.append(f"[{more} with {self._skipped_characters:,} characters: too long to be read]")
            self._skipped = 0
        return self._items


def _text_of(block: Any) -> str | None:
    """Return the text of a block or of an embedded resource; None for what is no text to read."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and to_media(block) is None:
        return str(block.resource.text)
    return None


def _line(block: Any, media: Media | None) -> str:
    """Return the line that stands for what the model does not read."""
    if media is not None:
        family = media.mime_type.partition("/")[0]
        what = family if family in ("image", "audio", "video") else "file"
        where = f" {one_line(media.name, 300)}" if media.name else ""
        return f"[{media.mime_type} {what}{where}, {size_text(media.size)}, not shown]"
    if block.type == "resource_link":
        kind = f"{mime(block.mime_type)} " if block.mime_type else ""
        size = f", {size_text(block.size)}" if block.size is not None else ""
        described = f": {one_line(block.description, 300)}" if block.description else ""
        name = one_line(block.title or block.name, 200)
        return f"[link to the {kind}resource {name!r} at {one_line(str(block.uri), 1000)}{size}{described}]"
    return f"[a block of the type {one_line(str(block.type), 100)!r}, not shown]"
