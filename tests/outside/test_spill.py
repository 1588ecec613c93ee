"""Answers that are too large for an agent: head, shape and handle, which a client that validates takes as well."""

from __future__ import annotations

import copy
import json

import pytest
from mcp import Client
from mcp_types import (
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
)

from mcp_magic.outside.spill import (
    MAX_HANDLES,
    MAX_LINES,
    MAX_MEDIA,
    MEMBER,
    listed_output_schema,
    spilled,
    spilled_prompt,
    spilled_resource,
)
from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult
from mcp_magic.values.reading import part_of
from mcp_magic.values.references import resolve_references
from mcp_magic.values.shared import SharedValues
from tests.support.lowlevel import serving_tools

ROWS = [{"city": f"City {number}", "n": number} for number in range(1000)]
SCHEMA = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}, "total": {"type": "integer"}},
    "required": ["rows", "total"],
    "additionalProperties": False,
    "$defs": {"row": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


@pytest.fixture
def shared():
    return SharedValues({"result_1": "the person's"})


def answer(*texts, structured=None, output_schema=None, **more) -> ToolResult:
    blocks = [TextContent(text=text) for text in texts]
    raw = CallToolResult(content=blocks, structured_content=structured, **more)
    return ToolResult(raw, server="crm", tool="list", output_schema=output_schema)


def test_a_small_answer_stays_as_it_is(shared):
    result = answer("x" * 400)
    assert spilled(result, shared.of("1"), 100) is result.raw
    assert spilled(answer("x" * 10_000), shared.of("1"), None).content[0].text == "x" * 10_000
    assert shared.of("1").names() == ()


def test_a_large_answer_becomes_head_shape_and_handle(shared):
    client = shared.of("1")
    result = answer("x", structured={"rows": ROWS, "total": 1000}, output_schema=SCHEMA)
    large = spilled(result, client, 100)
    text = large.content[0].text
    assert text.startswith("[result_2: table of 1,000 rows x 2 columns (city, n). About")
    assert "read_value reads on.]\nIt begins with:\ncity,n\nCity 0,0\n" in text
    assert text.endswith('{"$value": "result_2"} puts it into the arguments of a tool, without reading it.')
    assert len(text) < 500
    assert large.structured_content == {MEMBER: {"handle": "result_2"}}
    assert client.get("result_2") == result
    assert shared.of("2").names() == ()


def references(client, handle):
    """Return the first row by a reference to all rows, and by one to some of them."""
    rows = {"$value": handle}, {"$value": handle, "rows": [0, 2]}
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "object"}}}}
    return [resolve_references({"x": reference}, client, schema).arguments["x"][0] for reference in rows]


@pytest.mark.parametrize(
    "result",
    [
        answer("x", structured=ROWS),
        answer(json.dumps(ROWS)),
        answer("x", structured=[{"n": 10**400, "s": "\ud800"}] * 99),
    ],
    ids=["structured", "text", "odd"],
)
def test_a_handle_is_not_what_the_person_makes_of_it(shared, result):
    client, before = shared.of("1"), copy.deepcopy(result.data)
    spilled(result, client, 100)
    result.data[0]["diagnosis"] = "private"
    result.raw.content[0].text = "private"
    assert client.get("result_2").data == before
    assert client.get("result_2") is client.get("result_2")
    assert "private" not in str([*references(client, "result_2"), client.get("result_2").texts])
    result.data[0]["later"] = "private"
    assert "private" not in str(references(client, "result_2"))


def test_a_handle_of_a_resource_is_what_was_read(shared):
    part = TextResourceContents(uri="crm://list", text="line\n" * 1000)
    result = ResourceResult(ReadResourceResult(contents=[part]), server="crm", uri="crm://list")
    spilled_resource(result, shared.of("1"), 100)
    part.text = "private"
    assert shared.of("1").get("result_2").text == "line\n" * 1000


def test_images_stay_and_errors_are_cut(shared):
    client = shared.of("1")
    image = ImageContent(data="AAAA", mime_type="image/png")
    raw = CallToolResult(content=[TextContent(text="x" * 1000), image], is_error=True)
    failed = spilled(ToolResult(raw), client, 10)
    assert failed.is_error
    assert [block.type for block in failed.content] == ["text", "image"]
    assert failed.content[0].text == f"{'x' * 40}\n[cut here; the error has 1,000 characters]"
    assert client.names() == ()
    large = spilled(ToolResult(raw.model_copy(update={"is_error": False})), client, 10)
    assert [block.type for block in large.content] == ["text", "image"]
    assert large.structured_content is None


def media(size: int, kind: str = "image/png") -> ImageContent:
    return ImageContent(data="A" * size, mime_type=kind)


def test_images_that_are_too_many_get_a_line(shared):
    client = shared.of("1")
    images = [media(MAX_MEDIA // 2), media(MAX_MEDIA), media(MAX_MEDIA // 4), media(MAX_MEDIA // 2)]
    raw = CallToolResult(content=[TextContent(text="done"), *images], structured_content={"n": 4})
    bounded = spilled(ToolResult(raw), client, 100)
    assert bounded.content[:-1] == [raw.content[at] for at in (0, 1, 3)]
    assert bounded.content[-1].text.splitlines() == [
        "[left out, as it is too large: image/png, 3.8 MB; result_2 has it in the notebook]",
        "[left out, as it is too large: image/png, 1.9 MB; read_value reads result_2.images.3]",
    ]
    assert bounded.structured_content == {"n": 4}
    assert part_of(client.get("result_2"), "images.3", "result_2")[0].size == images[3].data.__len__() * 3 // 4


def test_media_of_an_error_is_kept_nowhere(shared):
    raw = CallToolResult(content=[media(MAX_MEDIA + 1)], is_error=True)
    [block] = spilled(ToolResult(raw), shared.of("1"), 100).content
    assert block.text == "[left out, as it is too large: image/png, 3.8 MB]"
    assert shared.of("1").names() == ()


def test_other_data_and_links_count_like_text(shared):
    blob = BlobResourceContents(uri="x://a.zip", mime_type="application/zip", blob="A" * 401)
    links = [ResourceLink(uri=f"x://{number}", name="x") for number in range(100)]
    raw = CallToolResult(content=[EmbeddedResource(resource=blob), *links])
    bounded = spilled(ToolResult(raw), shared.of("1"), 100)
    *fitting, note = bounded.content
    assert 0 < len(fitting) < 10
    assert all(link in links for link in fitting)
    lines = note.text.splitlines()
    assert (
        lines[0]
        == "[left out, as it is too large: application/zip, 300 bytes, x://a.zip; result_2 has it in the notebook]"
    )
    assert lines[-1] == f"[left out, too: {101 - len(fitting) - MAX_LINES} more]"
    assert len(lines) == MAX_LINES + 1


def resource(*contents) -> ResourceResult:
    return ResourceResult(ReadResourceResult(contents=list(contents)), server="docs", uri="x://a")


def test_a_large_resource_becomes_head_size_and_handle(shared):
    client = shared.of("1")
    image = BlobResourceContents(uri="x://a/i", mime_type="image/png", blob="A" * 10_000)
    blob = BlobResourceContents(uri="x://a/z", mime_type="application/zip", blob="A" * 10_000)
    text = TextResourceContents(uri="x://a/t", mime_type="text/plain", text="one\ntwo\n" * 1000)
    result = resource(text, image, blob)
    note, other = spilled_resource(result, client, 100).contents
    assert other is image
    assert (note.uri, note.mime_type) == ("x://a", "text/plain")
    assert note.text.startswith("[result_2: text of 8,000 characters, 2,000 lines. About 2,000 tokens: too long")
    assert "application/zip, 7.5 kB, x://a/z; result_2 has it" in note.text
    assert client.get("result_2") == result
    assert spilled_resource(result, client, None) is result.raw
    small = resource(TextResourceContents(uri="x://a", text="one"), image)
    assert spilled_resource(small, client, 100) is small.raw
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    assert resolve_references({"x": {"$value": "result_2"}}, client, schema).arguments == {"x": text.text}


def test_a_view_goes_to_the_program_that_draws_it(shared):
    view = TextResourceContents(uri="ui://a", mime_type="text/html;profile=mcp-app", text="x" * 100_000)
    result = resource(view)
    assert spilled_resource(result, shared.of("1"), 100) is result.raw
    large = resource(view.model_copy(update={"text": "x" * (MAX_MEDIA + 1)}))
    [note] = spilled_resource(large, shared.of("1"), 100).contents
    assert note.text.startswith("[left out, as it is too large: text/html, 5.0 MB, ui://a; result_2 has it")


def prompt(*contents) -> PromptResult:
    messages = [PromptMessage(role="assistant", content=content) for content in contents]
    return PromptResult(GetPromptResult(messages=messages), server="docs", prompt="review")


def test_the_longest_messages_of_a_prompt_become_heads(shared):
    client = shared.of("1")
    result = prompt(TextContent(text="x" * 300), TextContent(text="y" * 1000), TextContent(text="z" * 50))
    first, second, third = spilled_prompt(result, client, 100).messages
    assert [first, third] == [result.raw.messages[at] for at in (0, 2)]
    assert second.role == "assistant"
    assert second.content.text.startswith("[result_2: text of 1,000 characters, 2 lines. About 250 tokens")
    assert client.get("result_2").text == "y" * 1000
    assert spilled_prompt(result, client, None) is result.raw
    assert spilled_prompt(result, client, 1000) is result.raw


def test_a_prompt_of_many_long_messages_is_bounded(shared):
    client = shared.of("1")
    result = prompt(*(TextContent(text="x" * 1000) for _ in range(1000)), media(MAX_MEDIA + 1))
    messages = spilled_prompt(result, client, 100).messages
    assert len(messages) == MAX_HANDLES + 1
    assert messages[-1].content.text == f"[{1001 - MAX_HANDLES} messages of this prompt left out: it is too long]"
    assert len(client.names()) == MAX_HANDLES
    [image] = spilled_prompt(prompt(media(MAX_MEDIA + 1)), client, 100).messages
    assert image.content.text.startswith("[left out, as it is too large: image/png, 3.8 MB; result_")


@pytest.mark.parametrize(
    ("schema", "listed"),
    [
        (None, None),
        ({"type": "array"}, None),
        ({"type": "object", "$ref": "#/$defs/a"}, None),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, None),
        ({"type": "object", "properties": {MEMBER: {}}}, None),
        ({"type": "object", "minProperties": 2}, None),
    ],
    ids=str,
)
def test_other_output_schemas_are_left_out(schema, listed):
    assert listed_output_schema(schema) == listed


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_validates_takes_both(shared, mode):
    values = shared.of("1")
    small = {"rows": ROWS[:1], "total": 1}
    listed = Tool(name="list", input_schema={"type": "object"}, output_schema=listed_output_schema(SCHEMA))
    assert {"$defs", "properties", "type"} == set(listed.output_schema)

    async def handle(name, arguments):
        structured = {"rows": ROWS, "total": 1000} if arguments else small
        return spilled(answer("x", structured=structured, output_schema=SCHEMA), values, 100)

    async with Client(serving_tools(listed, handler=handle), mode=mode) as client:
        await client.list_tools()
        assert (await client.call_tool("list", {})).structured_content == small
        assert (await client.call_tool("list", {"all": 1})).structured_content == {MEMBER: {"handle": "result_2"}}


LONG = "x" * 100_000


def blocks(count, block):
    return CallToolResult(content=[block.model_copy() for _ in range(count)])


@pytest.mark.parametrize(
    "raw",
    [
        CallToolResult(content=[TextContent(text="a")], _meta={"more": LONG}),
        CallToolResult(content=[TextContent(text="a", _meta={"more": LONG})]),
        CallToolResult(content=[ImageContent(data="AAAA", mime_type=f"image/{LONG * 60}")]),
        CallToolResult(content=[EmbeddedResource(resource=TextResourceContents(uri=f"x://{LONG}", text="a"))]),
        blocks(20_000, TextContent(text="")),
        blocks(20_000, ImageContent(data="", mime_type="image/png")),
        CallToolResult(content=[], structured_content={"rows": [{f"column {n}": 1 for n in range(20_000)}]}),
        CallToolResult(content=[], structured_content={"a" * 100_000: ROWS, "b" * 100_000: ROWS}),
    ],
    ids=range(8),
)
def test_an_answer_is_small_whatever_its_parts_are(raw, shared):
    answered = spilled(ToolResult(raw, server="crm", tool="list"), shared.of("1"), 4000)
    assert len(answered.model_dump_json(by_alias=True, exclude_none=True)) < 70_000
    assert answered.content


def test_resources_and_prompts_are_small(shared):
    client = shared.of("1")
    contents = [TextResourceContents(uri=f"x://{LONG}", text="a"), TextResourceContents(uri="x://a", text="")]
    for parts in (contents, [contents[1].model_copy() for _ in range(20_000)]):
        read = ResourceResult(ReadResourceResult(contents=parts), server="crm", uri="x://a")
        assert len(spilled_resource(read, client, 4000).model_dump_json()) < 2_000
    messages = [PromptMessage(role="user", content=TextContent(text="")) for _ in range(20_000)]
    prompt = PromptResult(GetPromptResult(messages=messages, description=LONG), server="crm", prompt="p")
    assert len(spilled_prompt(prompt, client, 4000).model_dump_json(exclude_none=True)) < 100_000
