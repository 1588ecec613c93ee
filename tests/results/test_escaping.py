"""What servers send is data: it never becomes markup, script or an escape sequence."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import mistune
import nbformat
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
from nbconvert import HTMLExporter

from mcp_magic._text import clean
from mcp_magic.display.text import data_url, harmless, middle_cuts, mime, one_line
from mcp_magic.errors import InvalidResponseError
from mcp_magic.results import Badge, Listing, Media, PromptResult, ResourceResult, ToolCard, ToolResult
from tests.support.markup import EVIL, SAFE_ATTRIBUTES, SAFE_TAGS, Markup
from tests.support.showcase import b64, bundle, text_result


def _blocks(evil: str) -> list[Any]:
    return [
        TextContent(text=evil),
        TextContent(text=f'[{{"{"<b onclick=1>"}": "<script>"}}]'),
        TextContent(text='{"<i>": {"<script>": ["</code><script>alert(1)</script>"]}}'),
        TextContent(text=f"a,<script>\n1,{evil}\n"),
        ImageContent(data=b64(b"x"), mime_type=evil),
        ImageContent(data='x" onerror="alert(1)', mime_type="image/png"),
        ImageContent(data=b64(b"<svg onload='alert(1)'/>"), mime_type="image/svg+xml"),
        AudioContent(data=b64(b"x"), mime_type='audio/wav" onplay="alert(1)'),
        ResourceLink(name=evil, title=evil, description=evil, uri="javascript:alert(1)//" + evil, mime_type=evil),
        EmbeddedResource(resource=TextResourceContents(uri=evil, mime_type="text/html", text=evil)),
        EmbeddedResource(resource=TextResourceContents(uri=evil, mime_type="text/markdown", text=evil)),
        EmbeddedResource(resource=TextResourceContents(uri="a:b", mime_type="image/svg+xml", text="<svg><script/>")),
        EmbeddedResource(resource=BlobResourceContents(uri=evil, mime_type=evil, blob=evil)),
        EmbeddedResource(resource=BlobResourceContents(uri="a:b", mime_type="application/pdf", blob='x">')),
    ]


def _values() -> dict[str, Any]:
    blocks = _blocks(EVIL)
    field = {"type": "string", "description": EVIL, "default": EVIL, "format": EVIL, "enum": [EVIL, "b"]}
    fields = {"type": "object", "properties": {EVIL: field}, "required": [EVIL]}
    about = {"name": EVIL, "title": EVIL, "description": EVIL, "annotations": ToolAnnotations(title=EVIL)}
    tool = Tool(**about, input_schema=fields, output_schema=fields)
    contents = [block.resource for block in blocks if block.type == "resource"]
    messages = [PromptMessage(role="user", content=block) for block in blocks]
    return {
        "tool result": ToolResult(CallToolResult(content=blocks), server=EVIL, tool=EVIL),
        "structured": text_result(structured_content={"<script>": {EVIL: EVIL}}),
        "structured rows": text_result(structured_content={"x": EVIL, "rows": [{EVIL: EVIL, "n": {EVIL: [EVIL]}}]}),
        "error": ToolResult(CallToolResult(content=blocks, is_error=True), server=EVIL, tool=EVIL),
        "resource": ResourceResult(ReadResourceResult(contents=contents), server=EVIL, uri=EVIL),
        "prompt": PromptResult(GetPromptResult(description=EVIL, messages=messages), prompt=EVIL),
        "listing": Listing([{EVIL: EVIL, "b": [Badge(EVIL, "safe", EVIL)]}], title=EVIL, note=EVIL),
        "empty listing": Listing([], title=EVIL, empty=EVIL, note=EVIL),
        "card": ToolCard(tool, server=EVIL),
    }


@pytest.mark.parametrize("name", _values())
def test_no_markup_of_a_server_reaches_the_page(name: str) -> None:
    value = _values()[name]
    found = Markup(bundle(value)["text/html"])
    assert found.tags <= SAFE_TAGS
    assert found.attributes <= SAFE_ATTRIBUTES
    assert all(re.fullmatch(r"data:[a-z0-9.+-]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]*", url) for url in found.urls)


@pytest.mark.parametrize("name", ['x";}*{color:red}', "x\\", "x\n*{}", "</style><b>", "url(a:b)"])
def test_the_name_of_a_column_is_no_style(name: str) -> None:
    page = bundle(Listing([{"a": 1, name: 2}]))["text/html"]
    [style] = re.findall(r'class="mcp-rows [^"]*" style="([^"]*)"', page)
    assert re.fullmatch(r'--mcp-2:"(\w|[ -]|\\[0-9a-f]+ )+"', unescape(style))


@pytest.mark.parametrize("name", _values())
def test_no_control_of_a_server_reaches_the_terminal(name: str) -> None:
    value = _values()[name]
    for text in (bundle(value)["text/plain"], str(value), repr(value), bundle(value)["text/html"]):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_colours_go_and_controls_are_written_out() -> None:
    assert clean("\x1b[1;31mred\x1b[0m\x07\x1b]0;title\x07") == "red\\x07\\x1b]0;title\\x07"
    assert clean("a\r\nb\tc\u2066d\u200b") == "a\nb\tc\\u2066d\\u200b"
    assert clean("\ud800") == "\\ud800"
    assert clean("👩\u200d🚀 日本") == "👩\u200d🚀 日本"


@pytest.mark.parametrize(
    "evil",
    ['image/png" onerror="x', "image/png;base64,AAAA", "<b>", "image", "", None, "image/png\n/x", "a/" + "b" * 999],
)
def test_what_is_no_mime_type_is_not_believed(evil: str | None) -> None:
    assert mime(evil) in ("application/octet-stream", "image/png")
    assert '"' not in mime(evil)


@pytest.mark.parametrize("evil", ['aGk=" onload="x', "<svg>", "a b(c)", "aGk=aGk="])
def test_what_is_not_base64_makes_no_url(evil: str) -> None:
    with pytest.raises(InvalidResponseError):
        data_url("image/png", evil)


def test_decoding_what_is_not_base64_says_whose_fault_it_is() -> None:
    with pytest.raises(InvalidResponseError, match=r"^the server sent image/png that is not base64$"):
        Media("no base64!", "image/png").bytes


@pytest.mark.parametrize("source", ["svg as image", "svg as resource"])
def test_svg_stays_inside_of_an_image_element(source: str) -> None:
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    block: Any = ImageContent(data=b64(svg.encode()), mime_type="image/svg+xml")
    if source == "svg as resource":
        block = EmbeddedResource(resource=TextResourceContents(uri="a:b", mime_type="image/svg+xml", text=svg))
    shown = bundle(ToolResult(CallToolResult(content=[block])))
    assert "image/svg+xml" not in shown
    assert '<img src="data:image/svg+xml;base64,' in shown["text/html"]


MARKDOWN = {
    "a tag": "<script>alert(1)</script>",
    "a tag in a fence that is none": "~~~\n```\n~~~\n<script>alert(1)</script>\n```",
    "a tag after block mathematics": "$$\n\n```\n$$\n<script>alert(1)</script>\n```",
    "a comment": "<!-- --><img src=x onerror=alert(1)>",
    "a link": "[x](javascript:alert(1))",
    "a link with spaces": "[x](  javascript:alert(1) )",
    "a link in angle brackets": "[x](<javascript:alert(1)>)",
    "a link in angle brackets with a space": "[x](< javascript:alert(1)>)",
    "a link with entities": "[x](java&#115;cript&colon;alert(1))",
    "a link with an escape": "[x](javascript\\:alert(1))",
    "a link with a tab": "[x](java\tscript:alert(1))",
    "a data link": "[x](data:text/html,<script>alert(1)</script>)",
    "a reference": "[x]\n\n[x]: javascript:alert(1)",
    "a reference on the next line": "[x]\n\n[x]:\n  javascript:alert(1)",
    "an autolink": "<javascript:alert(1)>",
    "a remote image": "![x](https://tracker.example/p.png)",
    "a remote image in disguise": "!![x](https://tracker.example/p.png)",
    "a remote image by reference": "![x][y]\n\n[y]: https://tracker.example/p.png",
    "an image in a link": "[![x](https://tracker.example/p.png)](https://a.example)",
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_cannot_run_or_load_anything(name: str) -> None:
    # The renderer that nbconvert builds on, told to let everything through.
    renderer = mistune.HTMLRenderer(escape=False, allow_harmful_protocols=True)
    rendered = str(
        mistune.create_markdown(renderer=renderer, plugins=["math", "table", "url"])(harmless(MARKDOWN[name]))
    )
    found = Markup(rendered)
    assert not found.tags & {"script", "img", "iframe", "svg"}
    assert not any(attribute.startswith("on") for attribute in found.attributes)
    assert all(url.startswith("https://") or ":" not in url for url in found.urls)


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_is_harmless_in_what_nbconvert_makes(name: str) -> None:
    contents = TextResourceContents(uri="a:b", mime_type="text/markdown", text=MARKDOWN[name])
    data = bundle(ResourceResult(ReadResourceResult(contents=[contents])))
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    found = Markup(page)
    assert not found.tags & {"script", "img", "iframe"}
    assert not any("script:" in url or url.startswith("data:") for url in found.urls)


def test_ordinary_markdown_is_left_alone() -> None:
    text = "# T\n\n1 < 2, [a](https://a.b/c?d=1&e=2), [b](#x), [c](docs/a.md), `x`\n\n| a | b |\n|---|---|\n"
    assert harmless(text) == text


@pytest.mark.parametrize("colours", [1, 15])
def test_a_reason_is_cut_after_its_colours_are_removed(colours: int) -> None:
    text = "".join(f"\x1b[38;5;{number}m" for number in range(100, 100 + colours)) + "ValueError: no such city"
    assert one_line(text, 200) == "ValueError: no such city"
    assert one_line(f"{text} {'a' * 400}", 200) == f"ValueError: no such city {'a' * 174}…"


def test_a_text_of_colours_alone_says_that_it_was_cut() -> None:
    assert one_line("\x1b[31m" * 1000 + "why", 20).endswith("…")


def test_texts_that_differ_in_two_places_are_whole() -> None:
    texts = [f"{'a' * 40}{x}{'b' * 40}{y}{'c' * 40}" for x in "12" for y in "34"]
    assert middle_cuts([*texts, "a" * 50], 34) == [*texts, f"{'a' * 6}…{'a' * 27}"]


def test_an_invisible_character_needs_no_cut() -> None:
    assert middle_cuts(["\u202eabc"], 34) == [clean("\u202eabc")]
