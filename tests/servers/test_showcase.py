"""What the showcase offers: content of every type, resources, prompts and completions, schemas, and failures."""

import base64
import csv
import io
import json
import re
import unicodedata
import wave
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

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


# Resources, templates, prompts and completions


async def read(client, uri):
    return str((await client.read_resource(uri)).contents[0].text)


async def test_every_resource_is_read_as_its_listing_says(client):
    listed = {resource.uri: resource for resource in (await client.list_resources()).resources}
    binary = set()
    for uri in set(listed) - {"showcase://broken"}:
        contents = (await client.read_resource(uri)).contents[0]
        assert contents.mime_type == listed[uri].mime_type
        if hasattr(contents, "blob"):
            assert base64.b64decode(contents.blob, validate=True)
            binary.add(contents.mime_type)
        else:
            assert contents.text
    assert binary == {"image/png", "audio/wav", "application/pdf", "application/octet-stream"}
    texts = {"text/plain", "application/json", "text/csv", "text/markdown", "text/html", "image/svg+xml"}
    assert {resource.mime_type for resource in listed.values()} == binary | texts
    assert listed["showcase://important.txt"].annotations.priority == 1.0
    with pytest.raises(MCPError, match="always broken"):
        await client.read_resource("showcase://broken")
    for uri in ("showcase://no-such-thing", "showcase://fruit/stone"):
        with pytest.raises(MCPError) as missing:
            await client.read_resource(uri)
        assert missing.value.code == INVALID_PARAMS


async def test_json_csv_and_pdf_hold_what_they_should(client):
    table = csv.DictReader(io.StringIO(await read(client, "showcase://table.csv")))
    rows = json.loads(await read(client, "showcase://rows.json"))
    assert [row["name"] for row in rows] == [row["name"] for row in table]
    assert json.loads(await read(client, "showcase://data.json"))["nested"]["yes"] is True
    data = base64.b64decode((await client.read_resource("showcase://page.pdf")).contents[0].blob)
    start = int(re.search(rb"startxref\n(\d+)\n", data)[1])
    offsets = [int(offset) for offset in re.findall(rb"(\d{10}) 00000 n", data[start:])]
    assert data[start:].startswith(b"xref\n0 6\n")
    assert [data[offset:].split()[0] for offset in offsets] == [b"1", b"2", b"3", b"4", b"5"]


async def test_templates_are_read_with_their_variables(client):
    templates = {template.uri_template for template in (await client.list_resource_templates()).resource_templates}
    assert templates == {"showcase://fruit/{name}", "showcase://files/{+path}", "showcase://search{?query,limit}"}
    assert '"letters": 5' in await read(client, "showcase://fruit/apple")
    assert "You asked for a/b/c.txt" in await read(client, "showcase://files/a/b/c.txt")
    for uri in ("showcase://search?query=b&limit=1", "showcase://search"):
        assert '"banana"' in await read(client, uri)


async def test_prompts_have_arguments_images_and_documents(client):
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    greet = [(argument.name, argument.required) for argument in prompts["greet"].arguments]
    assert greet == [("name", True), ("tone", False)]
    assert not prompts["simple"].arguments
    greeting = await client.get_prompt("greet", {"name": "Ada"})
    assert greeting.messages[0].content.text == "Write a friendly greeting for Ada."
    dialogue = await client.get_prompt("dialogue", {"topic": "tea"})
    assert [message.role for message in dialogue.messages] == ["user", "assistant", "user"]
    assert (await client.get_prompt("picture")).messages[1].content.mime_type == "image/png"
    assert (await client.get_prompt("document")).messages[1].content.resource.mime_type == "text/markdown"
    with pytest.raises(MCPError, match="This prompt always fails"):
        await client.get_prompt("failing")


async def test_arguments_are_completed_and_one_by_another(client):
    trip, japan = PromptReference(name="trip"), {"country": "Japan"}
    fruit = ResourceTemplateReference(uri="showcase://fruit/{name}")
    for reference, name, begun, context, values in (
        (PromptReference(name="greet"), "tone", "f", None, ["friendly", "formal", "funny"]),
        (trip, "city", "", None, ["Berlin", "Bonn", "Hamburg", "Kyoto", "Osaka", "Tokyo"]),
        (trip, "city", "", japan, ["Kyoto", "Osaka", "Tokyo"]),
        (fruit, "name", "ap", None, ["apple", "apricot"]),
        (trip, "unknown", "", None, []),
    ):
        completed = await client.complete(reference, {"name": name, "value": begun}, context_arguments=context)
        assert completed.completion.values == values


# Schemas, hints, the arguments that they take, and how tools fail


async def test_every_hint_comes_with_each_value_and_one_tool_has_none(client):
    tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    for hint in ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint"):
        assert {getattr(hints, hint) for hints in tools.values() if hints} == {True, False, None}
    assert tools["hint_none"] is None
    assert tools["hint_title"].title == "A title among the hints"
    said = (await client.call_tool("hint_destructive", {})).content[0].text
    assert said == '{"readOnlyHint":false,"destructiveHint":true}'


async def test_schemas_are_valid_and_use_every_keyword(client):
    used = set()

    def collect(schema):
        used.update(schema if isinstance(schema, dict) else ())
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            collect(part)

    for tool in (await client.list_tools()).tools:
        for schema in (tool.input_schema, tool.output_schema or {}):
            Draft202012Validator.check_schema(schema)
            collect(schema)
    numbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    texts = {"minLength", "maxLength", "pattern", "format", "contentEncoding"}
    arrays = {"items", "minItems", "maxItems", "uniqueItems"}
    several = {"anyOf", "oneOf", "allOf", "enum", "const", "$ref", "$defs", "additionalProperties", "default"}
    assert numbers | texts | arrays | several <= used


CUSTOMER = {"name": "Ada", "email": "ada@example.com", "address": {"street": "Hill 1", "postcode": "12345"}}
ORDER = {"customer": CUSTOMER, "lines": [{"sku": "AB-1234", "quantity": 2, "price": 1.5}], "priority": "high"}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("enums", {"priority": "low", "size": "l", "level": 3}, {"priority": "low", "size": "l", "level": 3}),
        ("nullable", {"text": None, "flag": True}, {"text": None, "number": None, "flag": True}),
        ("union", {"value": 3}, {"type": "int", "value": 3}),
        ("union", {"value": [1.5]}, {"type": "list", "value": [1.5]}),
        ("union", {"value": {"kind": "circle", "radius": 2}}, {"type": "Circle"}),
        ("tree", {"root": {"name": "a", "children": [{"name": "b"}, {"name": "c"}]}}, {"nodes": 3, "depth": 2}),
        ("defaults", {}, {"text": "some text", "count": 3, "items": [1, 2], "nothing": None}),
        ("formats", {"day": "2026-01-31", "moment": "2026-01-31T12:00:00Z"}, {"day": "date: 2026-01-31"}),
        ("mapping", {"scores": {"a": 1, "b": 2.5}}, {"total": 3.5}),
        ("nothing", {}, {"result": "nothing was asked"}),
        ("anything", {"value": {"a": [None]}}, {"type": "dict", "value": {"a": [None]}}),
        ("constrained", {"even": 4, "fraction": 0.5, "code": "ABC"}, {"even": 4, "pair": [1, 2]}),
        ("combined", {"item": {"id": 1, "name": "x"}}, {"id": 1, "name": "x"}),
        ("binary", {"data": "AAEC"}, {"bytes": 3}),
        ("nested", {"order": ORDER}, {"total": 3.0}),
    ],
)
async def test_arguments_of_every_shape_arrive(client, tool, arguments, expected):
    assert expected.items() <= (await call(client, tool, **arguments)).structured_content.items()


async def test_arguments_that_do_not_fit_are_tool_errors(client):
    wrong = {"even": 3, "fraction": 1, "code": "abc", "text": "x", "pair": [1]}
    result = await client.call_tool("constrained", wrong)
    assert result.is_error
    for said in ("multiple of 2", "less than 1", "match pattern", "at least 2 characters", "at least 2 items"):
        assert said in result.content[0].text


async def test_a_tool_fails_in_every_way(client, caplog):
    async def failed(tool, **arguments):
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        return result

    assert (await failed("fail_exception")).content[0].text == "Error executing tool fail_exception"
    assert "a secret" in caplog.text
    assert (await failed("fail_error", message="Nope.")).content[0].text.endswith("Nope.")
    structured = await failed("fail_structured")
    assert structured.structured_content["code"] == "quota"
    assert len((await failed("fail_several_texts")).content) == 2
    assert (await failed("fail_silently")).content == []
    with pytest.raises(MCPError, match="always refuses") as refused:
        await client.call_tool("fail_protocol", {})
    assert refused.value.data == {"reason": "showcase"}
    assert (await call(client, "fail_sometimes", fail=False)).structured_content == {"failed": False}
    await failed("fail_sometimes", fail=True)
