"""Answers that are too large for an outside agent: it gets head, shape and a handle, and the kernel a variable.

The answer becomes a variable `result_3`, which the agent that called reads by this name, and puts into arguments by
reference. Images, audio and links go to the agent as they are. An error is only cut: there is nothing to read on in.

A client that validates structured content by the output schema of a tool must be able to take such an answer. So the
schema that is listed requires nothing at its root, and has a member that says where the whole is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_types import CallToolResult, PromptMessage, TextContent, TextResourceContents

from mcp_magic._text import json_text, plural
from mcp_magic.display.document import size_text
from mcp_magic.display.text import mime, one_line
from mcp_magic.langchain.large_results import outline, text_of, texts_of
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.protocol import VIEW_TYPE
from mcp_magic.results.content import resource_media, to_media
from mcp_magic.results.images import IMAGE_BYTES
from mcp_magic.results.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from mcp_types import GetPromptResult, ReadResourceResult, Result

    from mcp_magic.results.content import Media
    from mcp_magic.results.results import PromptResult, ResourceResult
    from mcp_magic.values.shared import ClientValues

Raw = TypeVar("Raw", bound="Result")
Kept = TypeVar("Kept", "ToolResult", "ResourceResult")

MEMBER = "spilled"  # of the structured content of an answer that is too large

READER = "read_value"

MAX_MEDIA = 5_000_000  # characters of base64 of images and audio in one answer, and of views: as much as one image

MAX_HANDLES = 10  # messages of one prompt that get a handle; more are left out

MAX_BLOCKS = 1_000  # blocks of one answer, parts of a resource, messages of a prompt; more are left out

USUAL_BLOCK = 200  # characters that a block has besides its text or data, which are not counted

MAX_HEAD = 8_000  # characters of what stands for a large answer: names of tables and columns have any length

MAX_LINES = 20  # lines about what is left out of one answer

_MEMBER_SCHEMA = {
    "type": "object",
    "description": "Instead of the other members, where the answer is too large: `handle` is the name of the variable "
    "that has it, for read_value and for references.",
    "properties": {"handle": {"type": "string"}},
    "required": ["handle"],
}

_COMBINING = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$dynamicRef", "const", "enum"),
        *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties"),
    )
)
"""Keywords at the root of a schema that could refuse an object with only `MEMBER`."""


def spilled(result: ToolResult, values: ClientValues, tokens: int | None) -> CallToolResult:
    """Return an answer for a client: as it is, or its head and a handle if it has more than `tokens`."""
    raw = result.raw
    if tokens is None:
        return raw
    limit = tokens * CHARACTERS_A_TOKEN
    raw = _with_short_meta(raw, limit)
    texts = texts_of(result)
    characters = sum(map(len, texts)) + sum(_extra(block) for block in raw.content if text_of(block) is not None)
    written = "null" if raw.structured_content is None else json_text(raw.structured_content)
    characters = max(characters, len(written))
    excess = _excess([block for block in raw.content if text_of(block) is None], limit)
    if len(raw.content) - len(excess) > MAX_BLOCKS:
        characters = max(characters, limit + 1)
    if characters <= limit and not excess:
        return raw
    handle = "" if result.is_error else values.keep(result, _copies(result, written))
    lines, structured = _lines_of(raw.content, excess, handle), raw.structured_content
    fitting = [block for block in raw.content if id(block) not in excess]
    if characters <= limit:
        return raw.model_copy(update={"content": [*fitting, TextContent(text="\n".join(lines))]})
    if result.is_error:
        text = "\n".join(texts) or json_text(raw.structured_content)
        head, structured = f"{text[:limit]}\n[cut here; the error has {len(text):,} characters]", None
    else:
        has_schema = raw.structured_content is not None or result.output_schema is not None
        head, structured = _head(result, handle), {MEMBER: {"handle": handle}} if has_schema else None
    others = [block for block in fitting if text_of(block) is None]
    content = [TextContent(text="\n".join([head, *lines])), *others]
    return raw.model_copy(update={"content": content, "structured_content": structured})


def spilled_resource(result: ResourceResult, values: ClientValues, tokens: int | None) -> ReadResourceResult:
    """Return the contents of a resource for a client: as they are, or a head and a handle for those that are large."""
    raw = result.raw
    if tokens is None:
        return raw
    limit = tokens * CHARACTERS_A_TOKEN
    raw = _with_short_meta(raw, limit)
    texts = {id(part): _size(part)[0] for part in raw.contents if _is_text(part)}
    excess = _excess([part for part in raw.contents if id(part) not in texts], limit)
    is_long = sum(texts.values()) > limit or len(texts) > MAX_BLOCKS
    if not is_long and not excess:
        return raw
    handle = values.keep(result, _copies(result))
    head = [_head(result, handle)] if is_long else []
    lines = [*head, *_lines_of(raw.contents, excess, handle)]
    note = TextResourceContents(uri=result.uri, mime_type="text/plain", text="\n".join(lines))
    excess |= texts.keys() if is_long else set()
    fitting = [part for part in raw.contents if id(part) not in excess]
    return raw.model_copy(update={"contents": [note, *fitting] if is_long else [*fitting, note]})


def spilled_prompt(result: PromptResult, values: ClientValues, tokens: int | None) -> GetPromptResult:
    """Return the messages of a prompt for a client: as they are, or a head and a handle for each of the longest."""
    raw = result.raw
    if tokens is None:
        return raw
    limit = tokens * CHARACTERS_A_TOKEN
    raw = _with_short_meta(raw, limit)
    if raw.description is not None and len(raw.description) > limit:
        raw = raw.model_copy(update={"description": f"{raw.description[:limit]} [cut here]"})
    excess = _excess([message.content for message in raw.messages], limit)
    if not excess:
        return raw
    messages: list[PromptMessage] = []
    handles = 0
    for message in raw.messages:
        if id(message.content) not in excess:
            messages.append(message)
        elif handles < MAX_HANDLES:
            handles += 1
            messages.append(message.model_copy(update={"content": _placeholder(message.content, result, values)}))
    if len(excess) > handles:
        text = f"[{plural(len(excess) - handles, 'messages')} of this prompt left out: it is too long]"
        messages.append(PromptMessage(role="user", content=TextContent(text=text)))
    return raw.model_copy(update={"messages": messages})


def _placeholder(block: Any, prompt: PromptResult, values: ClientValues) -> TextContent:
    """Keep the content of a message, and return what stands in its place."""
    result = ToolResult(CallToolResult(content=[block]), server=prompt.server, tool=prompt.prompt)
    handle = values.keep(result, _copies(result))
    if text_of(block) is not None:
        return TextContent(text=_head(result, handle))
    return TextContent(text="\n".join(_lines_of([block], {id(block)}, handle)))


def _copies(result: Kept, structured: str = "null") -> Callable[[], Kept]:
    """Return what makes a copy of an answer as it is now; its structured content is read from JSON when it is needed.

    All other content of an answer is texts, which are not copied.
    """
    frozen = {"structured_content": None} if isinstance(result.raw, CallToolResult) else {}
    raw = result.raw.model_copy(update=frozen).model_copy(deep=True)

    def read() -> Kept:
        whole = {name: json.loads(structured) for name in frozen}
        return replace(result, raw=raw.model_copy(update=whole))

    return read


def _head(result: ToolResult | ResourceResult, handle: str) -> str:
    advice = f'{{"$value": "{handle}"}} puts it into the arguments of a tool, without reading it.'
    text = outline(result, handle, READER)
    return f"{text if len(text) <= MAX_HEAD else f'{text[:MAX_HEAD]} [cut here]'}\n{advice}"


def _is_text(contents: Any) -> bool:
    """Whether contents of a resource are text that a model reads."""
    return hasattr(contents, "text") and not _is_view(contents)


def _is_view(contents: Any) -> bool:
    kind = getattr(contents, "mime_type", None) or ""
    return kind.replace(" ", "").lower() == VIEW_TYPE


def _size(item: Any) -> tuple[int, bool]:
    """Return the characters of a content block, or of contents of a resource, and whether it is media."""
    contents = getattr(item, "resource", item)
    if isinstance(text := getattr(contents, "text", None), str):
        return len(text) + _extra(item), _is_view(contents)
    data = getattr(contents, "blob", None) or getattr(contents, "data", None)
    if isinstance(data, str):
        return len(data) + _extra(item), mime(contents.mime_type or "").startswith(("image/", "audio/"))
    return len(item.model_dump_json()), False


def _extra(item: Any) -> int:
    """Return the characters of an item besides its text or data, such as of `_meta`, but for what is usual."""
    payload = {"text", "data", "blob"}
    members = item.model_dump_json(exclude=payload | {"resource"}, exclude_none=True)
    contents = getattr(item, "resource", None)
    rest = "" if contents is None else contents.model_dump_json(exclude=payload, exclude_none=True)
    return max(len(members) + len(rest) - USUAL_BLOCK, 0)


def _with_short_meta(raw: Raw, limit: int) -> Raw:
    """Return an answer without its `_meta` if that has more characters than an answer can have."""
    return raw.model_copy(update={"meta": None}) if raw.meta and len(json_text(raw.meta)) > limit else raw


def _excess(items: Sequence[Any], limit: int) -> set[int]:
    """Return the ids of those that do not fit; the smallest come first, so that a large one takes no other's room."""
    room = {False: limit, True: MAX_MEDIA}
    excess: set[int] = set()
    count = 0
    for item in sorted(items, key=_size):
        size, is_media = _size(item)
        if size <= room[is_media] and count < MAX_BLOCKS:
            count += 1
            room[is_media] -= size
        else:
            excess.add(id(item))
    return excess


def _lines_of(items: Sequence[Any], excess: Container[int], handle: str) -> list[str]:
    """Return a line for each of `items` that is left out, some at most."""
    lines: list[str] = []
    images = count = 0
    for item in items:
        media = to_media(item) if hasattr(item, "type") else resource_media(item)
        is_image = media is not None and media.mime_type.startswith("image/")
        if id(item) in excess:
            count += 1
            where = f"; {handle} has it in the notebook" if handle else ""
            if handle and is_image and media is not None and media.size <= IMAGE_BYTES:
                where = f"; {READER} reads {handle}.images.{images}"
            if count <= MAX_LINES:
                lines.append(f"[left out, as it is too large: {_description(item, media)}{where}]")
        images += is_image
    if count > MAX_LINES:
        lines.append(f"[left out, too: {count - MAX_LINES:,} more]")
    return lines


def _description(item: Any, media: Media | None) -> str:
    contents = getattr(item, "resource", item)
    size, kind = size_text(_size(item)[0]), getattr(contents, "mime_type", None)
    summary = media.summary if media is not None else f"{mime(kind) if kind else item.type}, {size}"
    uri = one_line(str(getattr(contents, "uri", "")), 200)
    return f"{summary}, {uri}" if uri else summary


def listed_output_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a tool's output schema that an answer in place of a too large one fits as well; None if there is none.

    >>> schema = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    >>> sorted(listed_output_schema(schema)["properties"]), "required" in listed_output_schema(schema)
    (['rows', 'spilled'], False)
    """
    if schema is None or schema.get("type") != "object" or not _COMBINING.isdisjoint(schema):
        return None
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict) or MEMBER in properties:
        return None
    members = {name: value for name, value in schema.items() if name not in ("required", "additionalProperties")}
    return {**members, "properties": {**properties, MEMBER: _MEMBER_SCHEMA}}
