from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from mcp_magic.errors import UnknownResourceError, UnknownServerError
from mcp_magic.langchain.content import to_blobs
from tests.environments import everything_command, needs_node
from tests.support.bundled import load

if TYPE_CHECKING:
    from mcp_magic.notebook import NotebookHost


async def test_text_and_data_are_blobs_that_know_where_they_are_from(host: NotebookHost) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    text, picture = await host.langchain_resources("showcase://text.txt", "showcase://picture.png")
    assert (text.data, text.mimetype) == ("Plain text.\nIn two lines.\n", "text/plain")
    assert text.metadata == {
        "server": "show",
        "uri": "showcase://text.txt",
        "name": "text",
        "source": "showcase://text.txt",
    }
    assert text.source == "showcase://text.txt"
    assert picture.mimetype == "image/png"
    assert picture.as_bytes() == (await show.read("showcase://picture.png")).bytes
    assert picture.as_bytes().startswith(b"\x89PNG")


async def test_server_name_selects_its_resources_and_none_selects_all(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    weather = await host.connect(load("weather_server").server, name="weather")
    expected = {c.name: [str(r.uri) for r in await c.listing("resources")] for c in (math, weather)}
    assert all(expected.values())
    for wanted, servers in ((("weather",), ["weather"]), ((), ["math", "weather"])):
        blobs = await host.langchain_resources(*wanted)
        assert [(b.metadata["server"], b.metadata["uri"]) for b in blobs] == [
            (server, uri) for server in servers for uri in expected[server]
        ]


async def test_a_uri_of_a_template_is_named_by_itself(host: NotebookHost) -> None:
    await host.connect(load("showcase_server").server, name="show")
    [blob] = await host.langchain_resources("showcase://fruit/apple")
    assert blob.metadata["name"] == blob.metadata["uri"] == "showcase://fruit/apple"


async def test_what_nobody_has_is_an_error(host: NotebookHost) -> None:
    await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(UnknownServerError, match=r"no server 'shwo'\. Did you mean 'show'\?"):
        await host.langchain_resources("shwo")
    await host.disconnect("show")
    with pytest.raises(UnknownResourceError, match="no connected server has resources"):
        await host.langchain_resources("showcase://text.txt")


async def test_contents_without_a_type_are_text_or_bytes(host: NotebookHost) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    result = await show.read("showcase://text.txt")
    result.raw.contents[0].mime_type = None
    [blob] = to_blobs(result)
    assert (blob.mimetype, blob.as_string()) == ("text/plain", "Plain text.\nIn two lines.\n")


@needs_node
async def test_the_resources_of_server_everything_are_blobs(host: NotebookHost) -> None:
    await host.connect([*everything_command(), "stdio"], name="everything")
    blobs = await host.langchain_resources("everything")
    assert blobs
    assert all(blob.as_bytes() and blob.mimetype and blob.metadata["name"] for blob in blobs)


@needs_node
async def test_the_prompts_of_server_everything_are_messages(host: NotebookHost) -> None:
    everything = await host.connect([*everything_command(), "stdio"], name="everything")
    for prompt in await everything.listing("prompts"):
        given = {
            a.name: "1" if a.name.endswith("Id") else "Text" if a.name.endswith("Type") else "x"
            for a in prompt.arguments or ()
        }
        result = await everything.prompt(prompt.name, given)
        classes = {"user": HumanMessage, "assistant": AIMessage}
        assert [type(message) for message in result.messages] == [classes[m.role] for m in result.raw.messages]
        assert all(message.content for message in result.messages)
