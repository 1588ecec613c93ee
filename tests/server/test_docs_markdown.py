"""A server as a page of Markdown: tools with lines that work, and no markup of the server's own."""

from __future__ import annotations

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

from mcp_magic.schema import valid_example
from mcp_magic.server.docs import page, quoted
from tests.support.bundled import load
from tests.support.shadows import SERVERS

if TYPE_CHECKING:
    from mcp_magic._host import Host


@pytest.mark.parametrize("name", SERVERS)
async def test_a_page_lists_tools_with_arguments_and_lines(host: Host, name: str) -> None:
    connection = await host.connect(load(name).server, name=name.partition("_")[0])
    text = await page(connection)
    for tool in await connection.listing("tools"):
        section = text.partition(f"### `{tool.name}`")[2].partition("\n### ")[0]
        assert section, tool.name
        if valid_example(tool.input_schema) is not None:
            assert f"%mcp call {connection.name}:{tool.name}" in section
        for argument in tool.input_schema.get("properties", {}):
            assert f"| `{argument}` |" in section, (tool.name, argument)
    for prompt in await connection.listing("prompts"):
        assert f"### `{prompt.name}`" in text


async def test_markup_of_a_server_is_text_in_its_page(host: Host) -> None:
    server = MCPServer("hostile", log_level="ERROR")
    links = "See ![x](http://evil.example/p.png) <img src=x onerror=alert(1)> [here](javascript:alert(1))."

    @server.tool(title="<script>alert(1)</script>", description=f"{links}\n\n# A heading")
    def look(path: str = "|") -> str:
        return path

    text = await page(await host.connect(server, name="hostile"))
    assert not any(markup in text for markup in ("<script", "<img", "](http", "](javascript"))
    assert "> \\# A heading" in text
    assert '`"\\|"`' in text


def test_ordinary_words_and_code_stay_as_they_are() -> None:
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
    field = {"title": text, "description": text, "default": text, "enum": [text, "a"], "pattern": text}
    schema = {"type": "object", "properties": {text: {"type": "string", **field}}}
    tool = {"name": text, "title": text, "description": text, "inputSchema": schema}
    last = {"name": "last", "description": "The last.", "inputSchema": {"type": "object"}}
    prompt = {"name": text, "description": text, "arguments": [{"name": text, "description": text, "required": True}]}
    template = {"name": text, "uriTemplate": f"x://{text}", "description": text, "mimeType": text}

    def listing(model: Any, **items: Any) -> Any:
        async def handle(context: Any, params: Any) -> Any:
            return model.model_validate(items)

        return handle

    return Server(
        text,
        version=text,
        title=text,
        instructions=text,
        on_list_tools=listing(types.ListToolsResult, tools=[tool, last]),
        on_list_prompts=listing(types.ListPromptsResult, prompts=[prompt]),
        on_list_resources=listing(types.ListResourcesResult, resources=[{"name": text, "uri": f"x:{text}"}]),
        on_list_resource_templates=listing(types.ListResourceTemplatesResult, resourceTemplates=[template]),
    )


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
async def test_no_text_of_a_server_changes_the_page_around_it(host: Host, text: str) -> None:
    made = await page(await host.connect(saying(text), name="evil"))
    for name, render in RENDERERS.items():
        rendered = Rendered(str(render(made)))
        assert rendered.tags <= TAGS | TABLE | {"a"}, name
        assert {key for key, _ in rendered.attributes} <= {"class", "id", "href"}, name
        # nbconvert makes links of bare addresses, which lead where they say
        shown = {unquote(text) for text in rendered.texts["a"] if text.startswith("http")}
        assert {unquote(value) for key, value in rendered.attributes if key == "href"} == shown, name
        assert len(rendered.texts["h1"]) == 1, name
        assert [heading.strip() for heading in rendered.texts["h2"]] == HEADINGS, name
        assert len(rendered.texts["h3"]) == 3, name
        assert "last" in rendered.texts["h3"], name
        assert "%mcp call evil:last" in [code.strip() for code in rendered.texts["pre"]], name
