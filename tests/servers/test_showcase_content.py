"""What the showcase's tools give: blocks of every type, tables in every form, large and hostile text."""

import base64
import csv
import io
import json
import unicodedata
import wave
from xml.etree import ElementTree

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support import bundled
from tests.support.processes import start_http, stdio_session

SERVER = "showcase_server"
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result


async def text(client, tool, **arguments):
    return str((await call(client, tool, **arguments)).content[0].text)


async def test_text_comes_in_one_block_in_several_or_not_at_all(client):
    for tool, arguments, texts in (
        ("one_text", {"text": "a"}, ["a"]),
        ("several_texts", {"texts": ["a", "b", "c"]}, ["a", "b", "c"]),
        ("no_content", {}, []),
    ):
        result = await call(client, tool, **arguments)
        assert ([block.text for block in result.content], result.structured_content) == (texts, None)


@pytest.mark.parametrize(
    ("tool", "mime_type", "start"),
    [
        ("image_png", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("image_jpeg", "image/jpeg", b"\xff\xd8\xff\xe0"),
        ("image_svg", "image/svg+xml", b"<svg "),
    ],
)
async def test_images_are_what_their_mime_type_says(client, tool, mime_type, start):
    [block] = (await call(client, tool)).content
    assert (block.type, block.mime_type) == ("image", mime_type)
    data = base64.b64decode(block.data, validate=True)
    assert data.startswith(start)
    if mime_type == "image/svg+xml":
        assert ElementTree.fromstring(data).get("width") == "120"


async def test_audio_and_resources_are_embedded_or_linked(client):
    [audio] = (await call(client, "audio_wav", seconds=0.25)).content
    assert (audio.type, audio.mime_type) == ("audio", "audio/wav")
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as sound:
        assert sound.getnframes() / sound.getframerate() == 0.25
    document = (await call(client, "embedded_text")).content[0].resource
    assert (document.mime_type, document.text[:12]) == ("text/markdown", "# A document")
    binary = (await call(client, "embedded_binary")).content[0].resource
    assert (binary.mime_type, base64.b64decode(binary.blob)[:8]) == ("application/pdf", b"%PDF-1.4")
    links = (await call(client, "resource_links")).content
    assert {link.type for link in links} == {"resource_link"}
    own = [link for link in links if link.uri.startswith("showcase:")]
    assert len(own) == 2
    for link in own:
        assert (await client.read_resource(link.uri)).contents[0].mime_type == link.mime_type


async def test_structured_content_meta_and_annotations_come_along(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["structured"].output_schema["properties"]["celsius"]["type"] == "number"
    assert tools["structured_only"].output_schema is None
    described, bare = await call(client, "structured"), await call(client, "structured_only")
    assert json.loads(described.content[0].text) == described.structured_content == bare.structured_content
    assert bare.content == []
    mixed = await call(client, "mixed")
    assert [block.type for block in mixed.content] == ["text", "image", "audio", "resource", "resource_link", "text"]
    assert mixed.structured_content == {"blocks": 6}
    meta = await call(client, "with_meta")
    assert meta.meta["example.com/trace"] == "abc-123"
    assert meta.content[0].meta == {"example.com/block": 1}
    notes = (await call(client, "annotated_content")).content
    assert [note.annotations.audience for note in notes] == [["user"], ["assistant"]]


async def test_a_table_is_the_same_in_every_form(client):
    rows = (await call(client, "table_structured", rows=7)).structured_content["result"]
    assert len(rows) == 7
    assert rows[4]["price"] is None
    as_text = [["" if value is None else str(value) for value in row.values()] for row in rows]
    assert json.loads(await text(client, "table_json", rows=7)) == rows
    assert json.loads(await text(client, "table_wrapped", rows=7))["items"] == rows
    columns = (await call(client, "table_columns", rows=7)).structured_content
    assert [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] == rows
    separated = await text(client, "table_csv", rows=7)
    assert list(csv.reader(io.StringIO(separated)))[1:] == as_text
    assert list(csv.reader(io.StringIO(await text(client, "table_tsv", rows=7)), delimiter="\t"))[1:] == as_text
    markdown = (await text(client, "table_markdown", rows=7)).splitlines()
    assert len([line for line in markdown if line.startswith("|")]) == 2 + 7
    embedded = (await call(client, "table_embedded", rows=7)).content[0].resource
    assert (embedded.mime_type, embedded.text) == ("text/csv", separated)


async def test_unicode_and_large_results_pass_unchanged(client, tmp_path):
    expected = await text(client, "unicode_text")
    assert {"R", "AL"} <= {unicodedata.bidirectional(char) for char in expected}
    assert any(unicodedata.combining(char) for char in expected)
    assert any(ord(char) > 0xFFFF for char in expected)

    async def passes(session):
        assert await text(session, "unicode_text") == expected
        assert await text(session, "one_text", text=expected) == expected
        return await text(session, "large", kilobytes=3000)

    async with stdio_session(bundled.command(SERVER), tmp_path / "stderr") as stdio:
        large = await passes(stdio)
        too_much = await stdio.call_tool("large", {"kilobytes": 60_001})
    assert (len(large), large.splitlines()[-1][:10]) == (3_000_000, "00029999 x")
    assert too_much.is_error
    with start_http(bundled.command(SERVER, "--transport", "http", "--port", "0")) as running:
        for mode in ("auto", "legacy"):
            # By default the SDK refuses an event of more than a mebibyte.
            transport = streamable_http_client(running.url, max_sse_event_size=None)
            async with Client(transport, mode=mode) as http:
                assert await passes(http) == large


async def test_hostile_text_has_markup_escapes_and_bidi_controls(client):
    hostile = await text(client, "hostile")
    traps = ("<script>", "onerror=", "</style>", "\x1b[31m", "\x1b]8;;", "\u202e", "javascript:", "\x00")
    assert [trap for trap in traps if trap not in hostile] == []
    data = (await call(client, "hostile_data")).structured_content
    assert "__proto__" in data
    assert any("<script>" in key for key in data)
    assert (await call(client, "hostile_links")).content[0].uri == "javascript:alert(1)"
    assert '"' in (await call(client, "hostile_mime_type")).content[0].mime_type
    tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "hostile_schema")
    assert "<script>" in tool.title
    assert "onerror" in tool.input_schema["properties"]["text"]["title"]
