from __future__ import annotations

import base64
import csv
import io
import json
import unicodedata
import wave
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support import bundled
from tests.support.processes import start_http, stdio_session

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_types import CallToolResult


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result


async def test_text_comes_in_one_block_in_several_or_not_at_all(showcase: Client) -> None:
    one = await call(showcase, "one_text", text="a")
    several = await call(showcase, "several_texts", texts=["a", "b", "c"])
    none = await call(showcase, "no_content")
    assert [block.text for block in one.content] == ["a"]
    assert [block.text for block in several.content] == ["a", "b", "c"]
    assert none.content == []
    assert one.structured_content is several.structured_content is none.structured_content is None


@pytest.mark.parametrize(
    ("tool", "mime_type", "start"),
    [
        ("image_png", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("image_jpeg", "image/jpeg", b"\xff\xd8\xff\xe0"),
        ("image_svg", "image/svg+xml", b"<svg "),
    ],
)
async def test_images_are_what_their_mime_type_says(showcase: Client, tool: str, mime_type: str, start: bytes) -> None:
    block = (await call(showcase, tool)).content[0]
    assert (block.type, block.mime_type) == ("image", mime_type)
    data = base64.b64decode(block.data, validate=True)
    assert data.startswith(start)
    if mime_type == "image/svg+xml":
        assert ElementTree.fromstring(data).get("width") == "120"


async def test_audio_is_a_wav_file_of_the_length_asked_for(showcase: Client) -> None:
    block = (await call(showcase, "audio_wav", seconds=0.25)).content[0]
    assert (block.type, block.mime_type) == ("audio", "audio/wav")
    with wave.open(io.BytesIO(base64.b64decode(block.data))) as sound:
        assert sound.getnframes() / sound.getframerate() == 0.25


async def test_resources_are_embedded_as_text_and_as_bytes(showcase: Client) -> None:
    text = (await call(showcase, "embedded_text")).content[0]
    binary = (await call(showcase, "embedded_binary")).content[0]
    assert text.resource.mime_type == "text/markdown"
    assert text.resource.text.startswith("# A document")
    assert binary.resource.mime_type == "application/pdf"
    assert base64.b64decode(binary.resource.blob).startswith(b"%PDF-1.4")


async def test_the_resources_that_are_linked_to_can_be_read(showcase: Client) -> None:
    links = (await call(showcase, "resource_links")).content
    assert {link.type for link in links} == {"resource_link"}
    own = [link for link in links if link.uri.startswith("showcase:")]
    assert len(own) == 2
    for link in own:
        assert (await showcase.read_resource(link.uri)).contents[0].mime_type == link.mime_type


async def test_structured_content_comes_with_or_without_schema(showcase: Client) -> None:
    tools = {tool.name: tool for tool in (await showcase.list_tools()).tools}
    assert tools["structured"].output_schema["properties"]["celsius"]["type"] == "number"
    assert tools["structured_only"].output_schema is None
    described = await call(showcase, "structured")
    bare = await call(showcase, "structured_only")
    assert json.loads(described.content[0].text) == described.structured_content == bare.structured_content
    assert bare.content == []


async def test_one_result_holds_every_type_of_block_and_meta_data(showcase: Client) -> None:
    mixed = await call(showcase, "mixed")
    assert [block.type for block in mixed.content] == ["text", "image", "audio", "resource", "resource_link", "text"]
    assert mixed.structured_content == {"blocks": 6}
    meta = await call(showcase, "with_meta")
    assert meta.meta["example.com/trace"] == "abc-123"
    assert meta.content[0].meta == {"example.com/block": 1}
    notes = (await call(showcase, "annotated_content")).content
    assert [note.annotations.audience for note in notes] == [["user"], ["assistant"]]


async def test_a_table_is_the_same_in_every_form(showcase: Client) -> None:
    rows = (await call(showcase, "table_structured", rows=7)).structured_content["result"]
    assert len(rows) == 7
    assert rows[4]["price"] is None

    async def text(tool: str) -> str:
        return (await call(showcase, tool, rows=7)).content[0].text

    as_text = [["" if value is None else str(value) for value in row.values()] for row in rows]
    assert json.loads(await text("table_json")) == rows
    assert json.loads(await text("table_wrapped"))["items"] == rows
    columns = (await call(showcase, "table_columns", rows=7)).structured_content
    assert [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] == rows
    assert list(csv.reader(io.StringIO(await text("table_csv"))))[1:] == as_text
    assert list(csv.reader(io.StringIO(await text("table_tsv")), delimiter="\t"))[1:] == as_text
    markdown = [line for line in (await text("table_markdown")).splitlines() if line.startswith("|")]
    assert len(markdown) == 2 + 7
    embedded = (await call(showcase, "table_embedded", rows=7)).content[0].resource
    assert (embedded.mime_type, embedded.text) == ("text/csv", await text("table_csv"))


def check_unicode(text: str) -> None:
    assert {"R", "AL"} <= {unicodedata.bidirectional(char) for char in text}
    assert any(unicodedata.combining(char) for char in text)
    assert any(ord(char) > 0xFFFF for char in text)


async def test_unicode_and_large_results_pass_unchanged_over_stdio(showcase: Client, tmp_path: Path) -> None:
    expected = (await call(showcase, "unicode_text")).content[0].text
    check_unicode(expected)
    async with stdio_session(bundled.command("showcase_server"), tmp_path / "stderr") as client:
        assert (await call(client, "unicode_text")).content[0].text == expected
        text = (await call(client, "large", kilobytes=3000)).content[0].text
        too_much = await client.call_tool("large", {"kilobytes": 60_001})
    assert len(text) == 3_000_000
    assert text.splitlines()[-1].startswith("00029999 x")
    assert too_much.is_error


async def test_unicode_and_large_results_pass_unchanged_over_http(showcase: Client) -> None:
    expected = (await call(showcase, "unicode_text")).content[0].text
    with start_http(bundled.command("showcase_server", "--transport", "http", "--port", "0")) as running:
        for mode in ("auto", "legacy"):
            # By default the SDK refuses an event of more than a mebibyte.
            transport = streamable_http_client(running.url, max_sse_event_size=None)
            async with Client(transport, mode=mode) as client:
                assert (await call(client, "unicode_text")).content[0].text == expected
                assert (await call(client, "one_text", text=expected)).content[0].text == expected
                assert len((await call(client, "large", kilobytes=3000)).content[0].text) == 3_000_000


async def test_hostile_text_has_markup_escapes_and_bidi_controls(showcase: Client) -> None:
    text = (await call(showcase, "hostile")).content[0].text
    for trap in ("<script>", "onerror=", "</style>", "\x1b[31m", "\x1b]8;;", "\u202e", "javascript:", "\x00"):
        assert trap in text
    data = (await call(showcase, "hostile_data")).structured_content
    assert "__proto__" in data
    assert any("<script>" in key for key in data)
    links = (await call(showcase, "hostile_links")).content
    assert links[0].uri == "javascript:alert(1)"
    image = (await call(showcase, "hostile_mime_type")).content[0]
    assert '"' in image.mime_type
    tool = next(tool for tool in (await showcase.list_tools()).tools if tool.name == "hostile_schema")
    assert "<script>" in tool.title
    assert "onerror" in tool.input_schema["properties"]["text"]["title"]
