"""The showcase's resources, templates, prompts and completions."""

import base64
import csv
import io
import json
import re

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

SERVER = "showcase_server"
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def text(client, uri):
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
    table = csv.DictReader(io.StringIO(await text(client, "showcase://table.csv")))
    rows = json.loads(await text(client, "showcase://rows.json"))
    assert [row["name"] for row in rows] == [row["name"] for row in table]
    assert json.loads(await text(client, "showcase://data.json"))["nested"]["yes"] is True
    data = base64.b64decode((await client.read_resource("showcase://page.pdf")).contents[0].blob)
    start = int(re.search(rb"startxref\n(\d+)\n", data)[1])
    offsets = [int(offset) for offset in re.findall(rb"(\d{10}) 00000 n", data[start:])]
    assert data[start:].startswith(b"xref\n0 6\n")
    assert [data[offset:].split()[0] for offset in offsets] == [b"1", b"2", b"3", b"4", b"5"]


async def test_templates_are_read_with_their_variables(client):
    templates = {template.uri_template for template in (await client.list_resource_templates()).resource_templates}
    assert templates == {"showcase://fruit/{name}", "showcase://files/{+path}", "showcase://search{?query,limit}"}
    assert '"letters": 5' in await text(client, "showcase://fruit/apple")
    assert "You asked for a/b/c.txt" in await text(client, "showcase://files/a/b/c.txt")
    for uri in ("showcase://search?query=b&limit=1", "showcase://search"):
        assert '"banana"' in await text(client, uri)


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
