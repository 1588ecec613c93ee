"""A server as a page of Markdown and as a typed module, of every bundled server."""

from __future__ import annotations

import importlib.util
import inspect
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import mcp_types as types
import mistune
import pytest
from markdown_it import MarkdownIt
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from mcp_magic.notebook import host as notebook_host
from mcp_magic.schema import valid_example
from mcp_magic.server.docs import page, quoted
from mcp_magic.server.stubs import stubs
from tests.support.bundled import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic.session.connection import Connection

SERVERS = ("math_server", "weather_server", "showcase_server")


@pytest.fixture(params=SERVERS)
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    opened = await notebook_host.connect(load(request.param).server, name=request.param.partition("_")[0])
    yield opened
    await notebook_host.close()


@pytest.fixture
async def hostile() -> AsyncIterator[Connection]:
    server = MCPServer("hostile", log_level="ERROR")

    @server.tool(title="<script>alert(1)</script>")
    def look(path: str = "|") -> str:
        """See ![x](http://evil.example/p.png) <img src=x onerror=alert(1)> [here](javascript:alert(1)).

        # A heading
        \"\"\" + __import__("os").system("true") + \"\"\"
        """
        return path

    yield await notebook_host.connect(server, name="hostile")
    await notebook_host.close()


async def test_page_lists_tools_with_arguments_and_working_lines(connection: Connection) -> None:
    text = await page(connection)
    for tool in await connection.listing("tools"):
        section = text.partition(f"### `{tool.name}`")[2].partition("\n### ")[0]
        assert section, tool.name
        if valid_example(tool.input_schema) is not None:
            assert f"%mcp call {connection.name}:{tool.name}" in section
        for name in tool.input_schema.get("properties", {}):
            assert f"| `{name}` |" in section, (tool.name, name)
    for prompt in await connection.listing("prompts"):
        assert f"### `{prompt.name}`" in text


async def test_what_a_server_says_brings_no_markup_into_its_page(hostile: Connection) -> None:
    text = await page(hostile)
    assert "<script" not in text
    assert "<img" not in text
    assert "](http" not in text
    assert "](javascript" not in text
    assert "> \\# A heading" in text
    assert '`"\\|"`' in text


def test_ordinary_words_and_code_stay_what_they_are_in_a_page() -> None:
    text = "*Use* `a[0] < 1`:\n\n- one | two\n\n```python\n# {1: 2}\nx = {}\n```"
    assert quoted(text) == "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


NASTY = (
    "\\`<img src=https://evil.example/i.png>\\` ",
    "\\`![x](https://evil.example/i.png)\\` ",
    "Adds. ```\n\n<script>alert(document.domain)</script>\n\n``` ok",
    "`` a ` <b>x</b> ` b",
    "    `\n<img src=y>\n`",
    "`` ` ``<img src=z> ` x",
    "one ` two `<b>bold</b>` three",
    "```\nthis is never closed <img src=x>",
    "~~~~\nnor is this",
    "- a\n  ```\n- <img src=x onerror=alert(1)>\n  ```",
    "> ```\n<img src=x>",
    "<!-- never closed",
    "<?php <![CDATA[ <div\nonclick=alert(1)>",
    "<https://evil.example> <mailto:a@evil.example>",
    "[x]: http://evil.example\n\n[x] [y][x] ![x]",
    "[x\n]: http://evil.example\n[x]\n: http://evil.example",
    "[x]:\n  <javascript:alert(1)>\n\n[x]",
    "[a [b](http://evil.example) c](javascript&colon;alert(1))",
    "&lt;script&gt; &#60;img src=x&#62;",
    "$$ <img src=x> $$ $$ and \\\\[ <img src=x>",
    "\\begin{x}\n<img src=x>\n\\end{x}",
    "| a | `b |\n|---|---|\n| \\|<img src=x> | c` |\\\\| d |",
    "\\\\|<img src=x>` | `<img src=y>",
    "# Fake\n\nFake\n===\n\n### `last`\n\n- Fake\n  ---",
    "a\n# Fake\n---\n---\n===",
    "#Fake\n\n- a\n\n  #Fake\n> 1. # Fake",
    "a\r<script>alert(1)</script>\u2028<img src=x>\x0b# x\x85<b>",
    "[^1] text\n\n[^1]: <img src=x> ![x](http://evil.example)",
    "*a*{onclick=alert(1)} { { style=background:url(//evil.example) }\n{: onmouseover=alert(1) }",
)
"""What renderers have been seen to read in different ways."""


def saying(text: str) -> Server[Any]:
    """Return a server that says a text wherever it can, then lists a tool like any other."""
    field = {
        "type": "string",
        "title": text,
        "description": text,
        "default": text,
        "enum": [text, "a"],
        "pattern": text,
    }
    tool = {
        "name": text,
        "title": text,
        "description": text,
        "inputSchema": {"type": "object", "properties": {text: field}},
    }
    last = {"name": "last", "description": "The last.", "inputSchema": {"type": "object"}}
    prompt = {"name": text, "description": text, "arguments": [{"name": text, "description": text, "required": True}]}
    template = {"name": text, "uriTemplate": f"x://{text}", "description": text, "mimeType": text}

    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": [tool, last]})

    async def prompts(context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate({"prompts": [prompt]})

    async def resources(context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult.model_validate({"resources": [{"name": text, "uri": f"x:{text}"}]})

    async def templates(context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})

    listings = {"on_list_resources": resources, "on_list_resource_templates": templates}
    told = {"version": text, "title": text, "instructions": text}
    return Server(text, **told, on_list_tools=tools, on_list_prompts=prompts, **listings)


class Rendered(HTMLParser):
    """The tags, attributes and headings that a page really has, and its blocks of code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.texts: dict[str, list[str]] = {"h1": [], "h2": [], "h3": [], "pre": [], "a": []}
        self.within = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag in self.texts:
            self.within = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.within = "" if tag == self.within else self.within

    def handle_data(self, data: str) -> None:
        if self.within:
            self.texts[self.within][-1] += data


RENDERERS = {
    "commonmark": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    "mistune": mistune.create_markdown(
        renderer=mistune.HTMLRenderer(escape=False, allow_harmful_protocols=True),
        plugins=["math", "table", "footnotes", "strikethrough"],
    ),
    "nbconvert": MarkdownWithMath(renderer=IPythonRenderer(escape=False, exclude_anchor_links=True)).render,
}
TAGS = {"h1", "h2", "h3", "p", "em", "strong", "code", "pre", "blockquote", "ul", "ol", "li", "br", "hr", "span", "div"}
HEADINGS = ["Tools", "Prompts", "Resources", "Resource templates"]
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("text", NASTY)
async def test_a_page_is_only_what_it_says_whatever_the_server_says(text: str) -> None:
    made = await page(await notebook_host.connect(saying(text), name="evil"))
    await notebook_host.close()
    for name, render in RENDERERS.items():
        rendered = Rendered(str(render(made)))
        assert rendered.tags <= TAGS | TABLE | {"a"}, name
        assert {key for key, _ in rendered.attributes} <= {"class", "id", "href"}, name
        # nbconvert makes links of bare addresses, which lead where they say
        shown = {unquote(text) for text in rendered.texts["a"] if text.startswith("http")}
        assert {unquote(value) for key, value in rendered.attributes if key == "href"} == shown, name
        assert len(rendered.texts["h1"]) == 1, name
        assert [each.strip() for each in rendered.texts["h2"]] == HEADINGS, name
        assert len(rendered.texts["h3"]) == 3, name
        assert "last" in rendered.texts["h3"], name
        assert "%mcp call evil:last" in [each.strip() for each in rendered.texts["pre"]], name


NAMES = ("list", "list_", "str", "dict", "int", "float", "bool", "object", "tuple", "TypedDict", "Literal", "Any")
NAMES += ("NotRequired", "host", "annotations", "_call", "_NAMES", "_UNSET", "__getattr__", "__all__", "__", "result")
NAMES += ("typed", "not", "3d", "Typed2", "\ufb01x", "fix", "x\u00bd", "self", "tool", "ListResult", "class", "")
ARGUMENTS = (
    "dict",
    "list",
    "str",
    "tool",
    "self",
    "_call",
    "_UNSET",
    "_NAMES",
    "given",
    "class",
    "class_",
    "a-b",
    "a_b",
)
ARGUMENTS += ("host", "\ufb01x", "__class__", "required", "Any")
THINGS = {
    "type": "array",
    "items": {"type": "object", "properties": {"str": {"type": "string"}, "id": {"type": "string"}}},
}
WORDS = {"type": "object", "properties": {each: {"type": "array", "items": {"type": "string"}} for each in ARGUMENTS}}
SHADOWS = [
    types.Tool(
        name=name,
        input_schema={
            "type": "object",
            "properties": dict.fromkeys(ARGUMENTS if name in ("list", "3d") else ("dict", "items"), THINGS),
            "required": ["dict"],
        },
        output_schema={**WORDS, "properties": {**WORDS["properties"], "ListResultItem": WORDS}}
        if name == "list"
        else None,
    )
    for name in NAMES
]
"""Tools, arguments and results whose names mean something else in a module."""


async def test_stubs_call_the_session_of_their_name(tmp_path: Path) -> None:
    connection = await notebook_host.connect(load("math_server").server, name="math")
    tools = await connection.listing("tools")
    file = tmp_path / "made.py"
    file.write_text(stubs("math", tools))
    made = module(file)
    assert len(made.__all__) == len(tools)
    assert await made.add(3, 4) == 7
    assert await made.primes(10) == [2, 3, 5, 7]
    assert (await made.statistics([1, 2, 3]))["mean"] == 2
    assert "a (integer or number): The left number" in made.add.__doc__
    assert "n (integer, 0 to 1000): A whole number" in made.factorial.__doc__
    await notebook_host.close()


async def test_stubs_of_tools_that_are_called_like_python_call_them(tmp_path: Path) -> None:
    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[each.model_copy(update={"output_schema": None}) for each in SHADOWS])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=json.dumps([params.name, params.arguments]))])

    await notebook_host.connect(Server("shadows", on_list_tools=tools, on_call_tool=called), name="shadows")
    file = tmp_path / "made.py"
    file.write_text(stubs("shadows", SHADOWS))
    made = module(file)
    assert len(set(made.__all__)) == len(SHADOWS)
    for name, tool in zip(made.__all__, SHADOWS, strict=True):
        function, arguments = getattr(made, name), {each: [] for each in tool.input_schema["properties"]}
        given = {each: [] for each in inspect.signature(function).parameters}
        assert await function(**given) == [tool.name, arguments]
    await notebook_host.close()


async def test_the_text_of_a_server_is_no_code_in_its_stubs(hostile: Connection, tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(stubs("hostile", await hostile.listing("tools")))
    made = module(file)
    assert made.__all__ == ["look"]
    assert await made.look() == "|"
    assert await made.look(path="x") == "x"


def module(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
