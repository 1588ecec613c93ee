"""Results of tools and contents of resources in LangChain's formats.

The model gets the content of a message, all others its artifact: plain JSON with all that the content lacks. Both make
a `ToolResult` again, so cards, `run.results` and threads after a restart need nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic import _host as lookup
from mcp_magic._text import plural
from mcp_magic.apps.app import APPS, App
from mcp_magic.display.document import size_text
from mcp_magic.display.text import BINARY, mime, one_line
from mcp_magic.errors import UnknownServerError
from mcp_magic.langchain.large_results import outline, text_of, texts_of
from mcp_magic.loops import together
from mcp_magic.results.content import Media, to_media
from mcp_magic.results.images import ModelImage, model_image
from mcp_magic.results.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.documents.base import Blob
    from langchain_core.messages import ToolMessage
    from mcp_types import ContentBlock
    from pydantic import TypeAdapter

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Decision
    from mcp_magic.langchain.large_results import Spill
    from mcp_magic.results.results import ResourceResult
    from mcp_magic.session.connection import Connection


# MCP content blocks in the form that a model reads.

LIMIT = 20_000  # default limit of characters of one result that a model reads: about 5,000 tokens


class Reader:
    """Collects the content that a model reads from the blocks of one result."""

    def __init__(self, *, images: bool, limit: int) -> None:
        self._images = images
        self._left = max(limit, 0)
        self._items: list[str | dict[str, Any]] = []
        self._skipped = 0
        self._skipped_characters = 0

    def add(self, block: Any) -> int | None:
        """Add a block; return its index if the model gets it whole as text or image, else None."""
        text = text_of(block)
        if text is not None:
            return self.add_text(text)
        media, problem = to_media(block), ""
        if self._images and media is not None and may_be_image(media):
            image = model_image(media)
            if isinstance(image, ModelImage):
                self._items.append({"type": "image", "base64": image.base64, "mime_type": image.mime_type})
                return len(self._items) - 1
            problem = image
        self.add_text(_line(block, media, problem))
        return None

    def add_text(self, text: str) -> int | None:
        """Add text as far as it fits; return its index if it is whole, else None."""
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
        """Return the collected content, with a note about skipped blocks."""
        if self._skipped:
            more = plural(self._skipped, "more blocks")
            self._items.append(f"[{more} with {self._skipped_characters:,} characters: too long to be read]")
            self._skipped = 0
        return self._items


def may_be_image(media: Media) -> bool:
    """Return whether the bytes of media decide if they are an image."""
    return media.mime_type.startswith("image/") or media.mime_type == BINARY


def bounded(text: str, limit: int = LIMIT) -> str:
    """Return a text as far as a model reads it of one result."""
    reader = Reader(images=False, limit=limit)
    reader.add_text(text)
    return str(next(iter(reader.finish()), ""))


def _line(block: Any, media: Media | None, problem: str = "") -> str:
    if media is not None:
        because = f": {problem}" if problem and media.mime_type != BINARY else ""
        family = media.mime_type.partition("/")[0]
        word = family if family in ("image", "audio", "video") else "file"
        where = f" {one_line(media.name, 300)}" if media.name else ""
        return f"[{media.mime_type} {word}{where}, {size_text(media.size)}, not shown{because}]"
    if block.type == "resource_link":
        kind = f"{mime(block.mime_type)} " if block.mime_type else ""
        size = f", {size_text(block.size)}" if block.size is not None else ""
        described = f": {one_line(block.description, 300)}" if block.description else ""
        name = one_line(block.title or block.name, 200)
        return f"[link to the {kind}resource {name!r} at {one_line(str(block.uri), 1000)}{size}{described}]"
    return f"[a block of the type {one_line(str(block.type), 100)!r}, not shown]"


# A tool's result as message content for the model, and as an artifact from which the result can be restored.
# The model reads text, and images if it can. Everything else is in the message's artifact, which is plain JSON so that
# conversations can be stored. The artifact does not repeat blocks that the content holds whole.

Content = str | list[str | dict[str, Any]]

SAID_NOTHING = "The tool reported an error and did not say what went wrong."

LEVELS = 200  # nested levels of lists and objects to store, a little below the limit of the stores of conversations

_INT64, _UINT64 = -(2**63), 2**64 - 1
"""The range of integers that the stores of conversations hold (MessagePack); larger ones are also kept as text."""

_STORED = frozenset((str, bool, float, type(None)))


def to_content(
    result: ToolResult, *, images: bool = False, limit: int = LIMIT, spill: Spill | None = None
) -> tuple[Content, dict[str, Any]]:
    """Return the content that the model reads of a result ("" without blocks), and the artifact with the rest.

    Of a result above `spill` the model reads the head; the artifact has its texts and the `handle` to read on.
    """
    reader = Reader(images=images, limit=limit)
    if result.unfit:
        reader.add_text(f"[{one_line(result.unfit, 1000)}]")
    texts = texts_of(result)
    handle = ""
    if spill and not result.is_error and sum(map(len, texts)) > min(spill.characters, limit):
        handle = spill.handle
    if handle:
        reader.add_text(outline(replace(result, output_schema=None), handle))  # the artifact does not keep it
    elif result.raw.structured_content is not None and not result.texts:
        reader.add_text(texts[0])
    blocks = [_stored(block, None if handle and text_of(block) is not None else reader) for block in result.raw.content]
    items = reader.finish()
    for block in blocks:
        if "at" in block:
            block["at"] -= len(items)
    artifact = artifact_of(result.server, result.tool, seconds=result.seconds, is_error=result.is_error)
    artifact |= {"content": blocks, "structured_content": storable(result.raw.structured_content)}
    if artifact["structured_content"] != result.raw.structured_content:
        artifact["structured_json"] = json.dumps(result.raw.structured_content)
    artifact["meta"] = storable(result.raw.meta)
    app = APPS.keep(result.app) if isinstance(result.app, App) else ""
    artifact |= {
        name: value
        for name, value in (
            ("unfit", result.unfit),
            ("unchecked", result.unchecked),
            ("handle", handle),
            ("app", app),
        )
        if value
    }
    if result.is_error and not items:
        return SAID_NOTHING, artifact
    if len(items) == 1 and isinstance(items[0], str):
        return items[0], artifact
    return items or "", artifact


def _stored(block: Any, reader: Reader | None) -> dict[str, Any]:
    """Add a block to the reader, if there is one; return it as JSON without the data that the reader holds whole."""
    if block.type == "text" and block.annotations is None and block.meta is None:  # as nearly all blocks are
        dumped: dict[str, Any] = {"type": "text", "text": block.text}
    else:
        dumped = storable(block.model_dump(mode="json", by_alias=True, exclude_none=True))
    index = None if reader is None else reader.add(block)
    if index is None:
        return dumped
    if block.type == "text":
        length = len(dumped.pop("text"))
        return {**dumped, "at": index, "length": length}
    if block.type == "image":
        del dumped["data"]
        dumped["at"] = index
    return dumped


FOR_PEOPLE = "shown"  # in an artifact: the text for people, where the message has the model's names of tools


def artifact_of(server: str, tool: str, *, seconds: float = 0.0, is_error: bool = True) -> dict[str, Any]:
    """Return the artifact of a call whose message is its only content, such as a failed call."""
    return {
        "server": server,
        "tool": tool,
        "seconds": round(seconds, 4),
        "is_error": is_error,
        "content": [{"type": "text"}],
        "structured_content": None,
        "meta": None,
    }


def approval_of(decision: Decision, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a decision about a call with `arguments` as artifacts store it: `decision`, `by` and `reason`."""
    edited = decision.arguments is not None and decision.arguments != arguments
    verdict = ("edit" if edited else "approve") if decision.approved else "deny"
    return {"decision": verdict, "by": decision.by, "reason": decision.reason}


def result_of(message: ToolMessage) -> ToolResult:
    """Return the tool's result from its message, also from a stored one; without our artifact, only its text."""
    from mcp_types import CallToolResult, TextContent
    from pydantic import ValidationError

    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    is_error = bool(artifact.get("is_error", message.status == "error"))
    seconds, exact = artifact.get("seconds"), artifact.get("structured_json")
    try:
        structured = json.loads(exact) if isinstance(exact, str) else artifact.get("structured_content")
        raw = CallToolResult.model_validate(
            {
                "content": [_restored(block, message.content) for block in artifact["content"]],
                "structuredContent": structured,
                "isError": is_error,
                "_meta": artifact.get("meta"),
            }
        )
    except (KeyError, TypeError, ValueError, ValidationError):  # foreign or damaged
        raw = CallToolResult(content=[TextContent(text=message.text)], is_error=is_error)
    return ToolResult(
        raw,
        server=str(artifact.get("server", "")),
        tool=str(artifact.get("tool", message.name or "")),
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        unfit=str(artifact.get("unfit", "")),
        unchecked=str(artifact.get("unchecked", "")),
        app=APPS.find(artifact.get("app")),
    )


def _restored(block: Mapping[str, Any], content: Any) -> dict[str, Any]:
    """Restore the data of a block that only the message's content holds."""
    restored = {key: value for key, value in block.items() if key not in ("at", "length")}
    if block["type"] == "text" and "text" not in block:
        at = block.get("at", -1)
        item = content if isinstance(content, str) else content[at] if -len(content) <= at < 0 else ""
        text = item if isinstance(item, str) else str(item.get("text", ""))
        # notes are added before the text, so the text is at the end
        restored["text"] = text[len(text) - block["length"] :] if 0 <= block.get("length", -1) <= len(text) else text
    elif block["type"] == "image" and "data" not in block:
        restored["data"] = content[block["at"]]["base64"]
    return restored


def storable(value: Any, levels: int = LEVELS) -> Any:
    r"""Return a JSON value that stores can hold: large integers become digits, and deeper levels "…".

    Half of a surrogate pair in a name becomes U+FFFD; stores replace only those in texts.

    >>> ascii(storable({"\ud83d": [2**64]}))
    "{'\\ufffd': ['18446744073709551616']}"
    """
    if type(value) in _STORED:
        return value
    if isinstance(value, dict | list | tuple) and not levels:
        return "…"
    if isinstance(value, dict):  # most values need no call
        items = value.items()
        return {_name(key): inner if type(inner) in _STORED else storable(inner, levels - 1) for key, inner in items}
    if isinstance(value, list | tuple):
        return [inner if type(inner) in _STORED else storable(inner, levels - 1) for inner in value]
    if isinstance(value, int) and not _INT64 <= value <= _UINT64:
        return str(value)
    return value


def _name(key: Any) -> str:
    name = str(key)
    return name if name.isascii() else _SURROGATE.sub("\ufffd", name)


_SURROGATE = re.compile("[\ud800-\udfff]")


# Content blocks of LangChain and of providers as MCP content.

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def mcp_block(item: Mapping[str, Any], number: int = 1) -> ContentBlock | None:
    """Return a content block of MCP, of LangChain, or of a provider that LangChain can read, as an MCP block."""
    from langchain_core.messages import HumanMessage
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(item)
    except ValidationError:
        pass
    if isinstance(item.get("image_url"), str):
        item = {**item, "image_url": {"url": item["image_url"]}}
    block: Mapping[str, Any] = next(iter(HumanMessage([dict(item)]).content_blocks), {})
    kind, media_type, data = block.get("type", ""), block.get("mime_type"), block.get("base64")
    if isinstance(block.get("text"), str):
        return TextContent(text=block["text"])
    if isinstance(block.get("url"), str):
        inside = _DATA_URL.fullmatch(block["url"])
        if inside is None:
            return ResourceLink(name=f"{kind} {number}", uri=block["url"], mime_type=media_type)
        media_type, data = inside.groups()
    if not isinstance(data, str):
        return None
    if kind == "image":
        return ImageContent(data=data, mime_type=media_type or "image/png")
    if kind == "audio":
        return AudioContent(data=data, mime_type=media_type or "audio/wav")
    contents = BlobResourceContents(uri=f"attachment:{number}", mime_type=media_type, blob=data)
    return EmbeddedResource(resource=contents)


@functools.cache
def _adapter() -> TypeAdapter[ContentBlock]:
    from mcp_types import ContentBlock
    from pydantic import TypeAdapter

    return TypeAdapter(ContentBlock)


# Resources as LangChain blobs, for its loaders and parsers.

PARALLEL = 8  # resources read at the same time


async def langchain_resources(host: Host, *names: str) -> list[Blob]:
    """Read resources and return their contents as blobs, in order; see `NotebookHost.langchain_resources`."""
    resources: list[tuple[Connection, str, str]] = []
    for target in names or [connection.name for connection in host.find()]:
        resources += await _resources_of(host, target)
    free = asyncio.Semaphore(PARALLEL)

    async def read(connection: Connection, uri: str, name: str) -> list[Blob]:
        async with free:
            return to_blobs(await connection.read(uri), name)

    groups = await together(read(*resource) for resource in resources)
    return [blob for blobs in groups for blob in blobs]


async def _resources_of(host: Host, name: str) -> list[tuple[Connection, str, str]]:
    """Return connection, URI and name of each resource that a URI or a server's name stands for."""
    if name in host:
        connection = host[name]
        return [(connection, str(resource.uri), resource.name) for resource in await connection.listing("resources")]
    if ":" not in name:
        raise UnknownServerError(lookup.no_server(name, host))
    connection = lookup.owner_of(name, host.find())
    by_uri = {str(resource.uri): resource.name for resource in await connection.listing("resources")}
    return [(connection, name, by_uri.get(name, name))]


def to_blobs(result: ResourceResult, name: str = "") -> list[Blob]:
    """Return the contents of a resource as blobs."""
    from langchain_core.documents.base import Blob

    blobs = []
    for content in result.contents:
        uri = str(content.uri)
        metadata: dict[str, Any] = {"server": result.server, "uri": uri, "name": name or uri, "source": uri}
        blob = getattr(content, "blob", None)
        data = getattr(content, "text", "") if blob is None else Media(blob, content.mime_type or "", uri).bytes
        default = "text/plain" if blob is None else "application/octet-stream"
        blobs.append(Blob.from_data(data, mime_type=content.mime_type or default, metadata=metadata))
    return blobs
