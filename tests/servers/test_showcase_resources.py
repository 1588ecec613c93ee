from __future__ import annotations

import base64
import csv
import io
import json
import re

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_resource_is_read_as_its_listing_says(showcase: Client) -> None:
    listed = {resource.uri: resource for resource in (await showcase.list_resources()).resources}
    readable = set(listed) - {"showcase://broken"}
    binary = set()
    for uri in readable:
        contents = (await showcase.read_resource(uri)).contents[0]
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


async def test_json_and_csv_resources_hold_the_same_rows(showcase: Client) -> None:
    rows = json.loads((await showcase.read_resource("showcase://rows.json")).contents[0].text)
    table = (await showcase.read_resource("showcase://table.csv")).contents[0].text
    assert [row["name"] for row in rows] == [row["name"] for row in csv.DictReader(io.StringIO(table))]
    assert json.loads((await showcase.read_resource("showcase://data.json")).contents[0].text)["nested"]["yes"] is True


async def test_the_pdf_finds_its_objects_where_its_table_says(showcase: Client) -> None:
    data = base64.b64decode((await showcase.read_resource("showcase://page.pdf")).contents[0].blob)
    table = int(re.search(rb"startxref\n(\d+)\n", data)[1])
    offsets = [int(offset) for offset in re.findall(rb"(\d{10}) 00000 n", data[table:])]
    assert data[table:].startswith(b"xref\n0 6\n")
    assert [data[offset:].split()[0] for offset in offsets] == [b"1", b"2", b"3", b"4", b"5"]


async def test_failing_and_missing_resources_are_errors(showcase: Client) -> None:
    with pytest.raises(MCPError, match="always broken"):
        await showcase.read_resource("showcase://broken")
    for uri in ("showcase://no-such-thing", "showcase://fruit/stone"):
        with pytest.raises(MCPError) as missing:
            await showcase.read_resource(uri)
        assert missing.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("showcase://fruit/apple", '"letters": 5'),
        ("showcase://files/a/b/c.txt", "You asked for a/b/c.txt"),
        ("showcase://search?query=b&limit=1", '"banana"'),
        ("showcase://search", '"banana"'),
    ],
)
async def test_templates_are_read_with_their_variables(showcase: Client, uri: str, text: str) -> None:
    assert text in (await showcase.read_resource(uri)).contents[0].text


async def test_templates_have_simple_reserved_and_query_variables(showcase: Client) -> None:
    templates = {template.uri_template for template in (await showcase.list_resource_templates()).resource_templates}
    assert templates == {"showcase://fruit/{name}", "showcase://files/{+path}", "showcase://search{?query,limit}"}


async def test_prompts_have_arguments_images_and_documents(showcase: Client) -> None:
    prompts = {prompt.name: prompt for prompt in (await showcase.list_prompts()).prompts}
    assert [(argument.name, argument.required) for argument in prompts["greet"].arguments] == [
        ("name", True),
        ("tone", False),
    ]
    assert not prompts["simple"].arguments
    greeting = await showcase.get_prompt("greet", {"name": "Ada"})
    assert greeting.messages[0].content.text == "Write a friendly greeting for Ada."
    dialogue = await showcase.get_prompt("dialogue", {"topic": "tea"})
    assert [message.role for message in dialogue.messages] == ["user", "assistant", "user"]
    picture = await showcase.get_prompt("picture")
    assert picture.messages[1].content.mime_type == "image/png"
    document = await showcase.get_prompt("document")
    assert document.messages[1].content.resource.mime_type == "text/markdown"
    with pytest.raises(MCPError, match="This prompt always fails"):
        await showcase.get_prompt("failing")


async def test_arguments_are_completed_and_one_by_another(showcase: Client) -> None:
    async def complete(
        ref: PromptReference | ResourceTemplateReference, name: str, start: str, **given: str
    ) -> list[str]:
        found = await showcase.complete(ref, {"name": name, "value": start}, context_arguments=given or None)
        return found.completion.values

    trip = PromptReference(name="trip")
    assert await complete(PromptReference(name="greet"), "tone", "f") == ["friendly", "formal", "funny"]
    assert await complete(trip, "city", "") == ["Berlin", "Bonn", "Hamburg", "Kyoto", "Osaka", "Tokyo"]
    assert await complete(trip, "city", "", country="Japan") == ["Kyoto", "Osaka", "Tokyo"]
    fruit = ResourceTemplateReference(uri="showcase://fruit/{name}")
    assert await complete(fruit, "name", "ap") == ["apple", "apricot"]
    assert await complete(trip, "unknown", "") == []
