"""The content blocks of MCP: one row each in CONTENT says how it is shown and what it is to LangChain.

A new block type needs a `Content` and a row (`register`); nothing else knows the types.
"""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schema import as_word, line_or_comment
from .delimited import delimited
from .html import Markup, joined, note, tag
from .limits import size_text
from .media import Media, media_part, too_large
from .parts import Part
from .safe import mime, one_line, shorten
from .shown import data_part, markdown_part, rows_part, text_part, verbatim_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from .limits import Budget

__all__ = ["CONTENT", "Content", "message_block", "part_of", "read_line", "register", "resource_part", "to_media"]

DELIMITED = {"text/csv": ",", "text/tab-separated-values": "\t"}
"""The MIME types of text with a delimiter (RFC 4180, IANA), and which one they promise."""

_JSON_LINES = {f"application/{kind}" for kind in ("x-ndjson", "ndjson", "jsonl", "x-jsonl", "jsonlines", "x-jsonlines")}
"""What JSON Lines are called; none of the names is registered."""


@dataclass(frozen=True, slots=True)
class Content:
    """What there is to know about a type of content block.

    Attributes:
        part: Shows it. Called with the block, the budget and the server's name.
        message: The block as a content block of a LangChain message.
        media: The block's image, sound or document, or None if it has none.
    """

    part: Callable[[Any, Budget, str], Part]
    message: Callable[[Any], dict[str, Any]]
    media: Callable[[Any], Media | None] = lambda block: None


CONTENT: dict[str, Content] = {}
"""Block type -> what to do with it."""


def register(kind: str, content: Content) -> None:
    """Add a type of content block, or replace one."""
    CONTENT[kind] = content


def part_of(block: Any, budget: Budget, server: str = "") -> Part:
    """Return how a block is shown; one of an unknown type is shown as JSON."""
    content = CONTENT.get(block.type)
    if content is not None:
        return content.part(block, budget, server)
    return data_part(block.model_dump(mode="json", by_alias=True, exclude_none=True), budget, ".raw")


def message_block(block: Any) -> dict[str, Any]:
    """Return a block as a LangChain content block; one of an unknown type as JSON text."""
    content = CONTENT.get(block.type)
    if content is not None:
        return content.message(block)
    return {"type": "text", "text": block.model_dump_json(by_alias=True, exclude_none=True)}


def to_media(block: Any) -> Media | None:
    """Return the media of a block, or None."""
    content = CONTENT.get(block.type)
    return content.media(block) if content is not None else None


def is_json(mime_type: str) -> bool:
    """Return whether a MIME type is JSON (RFC 6839).

    >>> is_json("application/json"), is_json("application/geo+json"), is_json("text/plain")
    (True, True, False)
    """
    return mime_type in ("application/json", "text/json") or mime_type.endswith("+json")


def read_line(uri: str, server: str = "") -> str:
    """Return the line that reads a resource; a comment that says so if its URI cannot be typed.

    >>> read_line("file:///a b.txt", "fs")
    "%mcp read 'file:///a b.txt' --server fs"
    """
    of = f" --server {shlex.quote(server)}" if server else ""
    word = as_word(uri)
    return line_or_comment(f"%mcp read {uri if word is None else word}{of}", typed=word is not None)


# -- resources ------------------------------------------------------------------------------------------


def resource_media(contents: Any) -> Media | None:
    """Return the media of resource contents: any blob, or an SVG image, which is text."""
    blob = getattr(contents, "blob", None)
    if blob is not None:
        return Media(blob, contents.mime_type, str(contents.uri))
    if mime(contents.mime_type) == "image/svg+xml":
        encoded = base64.b64encode(contents.text.encode("utf-8", "replace")).decode("ascii")
        return Media(encoded, "image/svg+xml", str(contents.uri))
    return None


def resource_part(contents: Any, budget: Budget, how: str = ".bytes") -> Part:
    """Return how the contents of a resource are shown, by their MIME type; `how` names the attribute with them."""
    kind = mime(contents.mime_type)
    if kind == "image/svg+xml" and len(getattr(contents, "text", "")) > budget.media:
        return too_large(f"{kind}, {size_text(len(contents.text))}", how)  # known before it is encoded
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


def _embedded_part(block: Any, budget: Budget, server: str) -> Part:
    part = resource_part(block.resource, budget, ".resources")
    title = one_line(str(block.resource.uri), 200)
    html = joined([tag("small", title), part.html], "<br>")
    return Part(f"{title}\n{part.plain}", html, part.native, part.media)


def _embedded_message(block: Any) -> dict[str, Any]:
    media = resource_media(block.resource)
    if media is not None and not hasattr(block.resource, "text"):
        return _media_message(media)
    return {"type": "text", "text": block.resource.text}


# -- the other blocks -----------------------------------------------------------------------------------


def _link_part(block: Any, budget: Budget, server: str) -> Part:
    said = [mime(block.mime_type) if block.mime_type else "", size_text(block.size) if block.size is not None else ""]
    title = one_line(block.title or block.name, 100)
    about = ", ".join(text for text in said if text)
    heading = f"{title} ({about})" if about else title
    line = shorten(read_line(str(block.uri), server), 2000)
    described = shorten(block.description or "", 300)
    html = joined([tag("b", title), f" ({about})" if about else "", Markup("<br>"), tag("code", line), note(described)])
    return Part("\n    ".join(text for text in (heading, line, described) if text), tag("div", html))


def _own_media(block: Any) -> Media:
    return Media(block.data, block.mime_type)


def _media_message(media: Media) -> dict[str, Any]:
    family = media.mime_type.partition("/")[0]
    kind = family if family in ("image", "audio", "video") else "file"
    return {"type": kind, "base64": media.base64, "mime_type": media.mime_type}


def _media_content(family: str, how: str) -> Content:
    def part(block: Any, budget: Budget, server: str) -> Part:
        media = _own_media(block)
        return media_part(media, budget, how if media.mime_type.startswith(family) else ".artifacts")

    return Content(
        part=part,
        message=lambda block: _media_message(_own_media(block)),
        media=_own_media,
    )


register(
    "text",
    Content(
        part=lambda block, budget, server: text_part(block.text, budget),
        message=lambda block: {"type": "text", "text": block.text},
    ),
)
register("image", _media_content("image/", ".images"))
register("audio", _media_content("audio/", ".audio"))
register(
    "resource_link",
    Content(_link_part, lambda block: {"type": "text", "text": f"{block.title or block.name}: {block.uri}"}),
)
register("resource", Content(_embedded_part, _embedded_message, lambda block: resource_media(block.resource)))
