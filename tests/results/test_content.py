"""Blocks of content: a row for each, no markup and no control of a server, and images that run nothing."""

from __future__ import annotations

import re
from html import unescape
from types import SimpleNamespace
from typing import Any, get_args

import mcp_types
import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from mcp_magic.display.document import Budget, Part, preformatted
from mcp_magic.errors import InvalidResponseError
from mcp_magic.results import (
    CONTENT,
    Badge,
    Content,
    Listing,
    Media,
    PromptResult,
    ResourceResult,
    ToolCard,
    ToolResult,
    message_block,
    register,
)
from mcp_magic.results.content import part_of, read_line
from tests.support.markup import EVIL, SAFE_ATTRIBUTES, SAFE_TAGS, Markup
from tests.support.showcase import b64, bundle, text_result


def test_a_new_block_type_needs_one_row(monkeypatch):
    assert {block.model_fields["type"].default for block in get_args(mcp_types.ContentBlock)} == set(CONTENT)
    monkeypatch.setitem(CONTENT, "poem", CONTENT["text"])

    def part(block: Any, budget: Budget, server: str) -> Part:
        return Part(f"~ {block.verse} ~", preformatted(block.verse))

    register("poem", Content(part, lambda block: {"type": "text", "text": block.verse}))
    poem = SimpleNamespace(type="poem", verse="roses <red>")
    assert part_of(poem, Budget.full()).plain == "~ roses <red> ~"
    assert message_block(poem) == {"type": "text", "text": "roses <red>"}
    unknown = mcp_types.ToolUseContent(name="add", id="1", input={"a": {"b": 1}})
    assert '"tool_use"' in part_of(unknown, Budget.full()).plain
    assert message_block(unknown)["type"] == "text"


def test_the_line_that_reads_a_resource_is_quoted():
    assert read_line("a:b'; rm -rf /", "my server") == """%mcp read 'a:b'"'"'; rm -rf /' --server 'my server'"""
    assert "\n" not in read_line("a:\n!rm -rf /")


SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
SVG_BLOCKS = {
    "image": ImageContent(data=b64(SVG.encode()), mime_type="image/svg+xml"),
    "resource": EmbeddedResource(resource=TextResourceContents(uri="a:b", mime_type="image/svg+xml", text=SVG)),
    "text": TextContent(text=SVG),
    "document": TextContent(text=f'<?xml version="1.0"?>\n<!-- a -->\n{SVG}\n'),
}


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("kind", SVG_BLOCKS)
def test_svg_is_an_image_that_runs_nothing(kind, boxed):
    block = SVG_BLOCKS[kind]
    structured = {"result": block.text} if boxed and isinstance(block, TextContent) else None
    result = ToolResult(CallToolResult(content=[block], structured_content=structured))
    shown = bundle(result)
    assert '<img src="data:image/svg+xml;base64,' in shown["text/html"]
    assert "<svg" not in shown["text/html"] + shown["text/plain"]
    assert "image/svg+xml" not in shown
    if isinstance(block, TextContent):
        assert result.images[0].bytes.decode() == result.text == block.text


def test_svg_is_recognised_without_its_type_and_alone_only():
    contents = TextResourceContents(uri="a:b", text=SVG)
    assert ResourceResult(ReadResourceResult(contents=[contents])).images[0].mime_type == "image/svg+xml"
    for text in (f"Look: {SVG}", f'<!DOCTYPE svg [<!ENTITY a "b">]>{SVG}', "<svg>"):
        assert text_result(text).images == []


def test_decoding_what_is_not_base64_says_whose_fault_it_is():
    with pytest.raises(InvalidResponseError, match=r"^the server sent image/png that is not base64$"):
        Media("no base64!", "image/png").bytes


BLOCKS: list[Any] = [
    TextContent(text=EVIL),
    TextContent(text=f'[{{"{"<b onclick=1>"}": "<script>"}}]'),
    TextContent(text='{"<i>": {"<script>": ["</code><script>alert(1)</script>"]}}'),
    TextContent(text=f"a,<script>\n1,{EVIL}\n"),
    ImageContent(data=b64(b"x"), mime_type=EVIL),
    ImageContent(data='x" onerror="alert(1)', mime_type="image/png"),
    ImageContent(data=b64(b"<svg onload='alert(1)'/>"), mime_type="image/svg+xml"),
    AudioContent(data=b64(b"x"), mime_type='audio/wav" onplay="alert(1)'),
    ResourceLink(name=EVIL, title=EVIL, description=EVIL, uri="javascript:alert(1)//" + EVIL, mime_type=EVIL),
    EmbeddedResource(resource=TextResourceContents(uri=EVIL, mime_type="text/html", text=EVIL)),
    EmbeddedResource(resource=TextResourceContents(uri=EVIL, mime_type="text/markdown", text=EVIL)),
    EmbeddedResource(resource=TextResourceContents(uri="a:b", mime_type="image/svg+xml", text="<svg><script/>")),
    EmbeddedResource(resource=BlobResourceContents(uri=EVIL, mime_type=EVIL, blob=EVIL)),
    EmbeddedResource(resource=BlobResourceContents(uri="a:b", mime_type="application/pdf", blob='x">')),
]
FIELDS = {"type": "string", "description": EVIL, "default": EVIL, "format": EVIL, "enum": [EVIL, "b"]}
SCHEMA = {"type": "object", "properties": {EVIL: FIELDS}, "required": [EVIL]}
ABOUT: dict[str, Any] = {"name": EVIL, "title": EVIL, "description": EVIL, "annotations": ToolAnnotations(title=EVIL)}
CONTENTS = [block.resource for block in BLOCKS if block.type == "resource"]
MESSAGES = [PromptMessage(role="user", content=block) for block in BLOCKS]
VALUES = {
    "result": ToolResult(CallToolResult(content=BLOCKS), server=EVIL, tool=EVIL),
    "structured": text_result(structured_content={"<script>": {EVIL: EVIL}}),
    "rows": text_result(structured_content={"x": EVIL, "rows": [{EVIL: EVIL, "n": {EVIL: [EVIL]}}]}),
    "error": ToolResult(CallToolResult(content=BLOCKS, is_error=True), server=EVIL, tool=EVIL),
    "resource": ResourceResult(ReadResourceResult(contents=CONTENTS), server=EVIL, uri=EVIL),
    "prompt": PromptResult(GetPromptResult(description=EVIL, messages=MESSAGES), prompt=EVIL),
    "listing": Listing([{EVIL: EVIL, "b": [Badge(EVIL, "safe", EVIL)]}], title=EVIL, note=EVIL),
    "empty": Listing([], title=EVIL, empty=EVIL, note=EVIL),
    "card": ToolCard(Tool(**ABOUT, input_schema=SCHEMA, output_schema=SCHEMA), server=EVIL),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_markup_and_no_control_of_a_server_is_shown(name):
    shown = bundle(VALUES[name])
    page = Markup(shown["text/html"])
    assert page.tags <= SAFE_TAGS
    assert page.attributes <= SAFE_ATTRIBUTES
    assert all(re.fullmatch(r"data:[a-z0-9.+-]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]*", url) for url in page.urls)
    for text in (shown["text/plain"], str(VALUES[name]), repr(VALUES[name]), shown["text/html"]):
        assert not {"\x1b", "\u202e"} & {*text}


@pytest.mark.parametrize("name", ['x";}*{color:red}', "x\\", "x\n*{}", "</style><b>", "url(a:b)"])
def test_the_name_of_a_column_is_no_style(name):
    page = bundle(Listing([{"a": 1, name: 2}]))["text/html"]
    [style] = re.findall(r'class="mcp-rows [^"]*" style="([^"]*)"', page)
    assert re.fullmatch(r'--mcp-2:"(\w|[ -]|\\[0-9a-f]+ )+"', unescape(style))
