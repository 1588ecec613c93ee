"""A server as a page of Markdown, of every bundled server and whatever a server says."""

from html.parser import HTMLParser
from urllib.parse import unquote

import mcp_types as types
import mistune
import pytest
from markdown_it import MarkdownIt
from mcp.server import Server
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from mcp_magic.schema import valid_example
from mcp_magic.server.docs import page, quoted
from tests.support.bundled import load
from tests.support.hostile_texts import hidden_in, hostile_texts, hostile_tool

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
    "[x]: http://evil.example\n\n[x] [y][x] ![x] [here](javascript:alert(1))",
    "[x\n]: http://evil.example\n[x]\n: http://evil.example",
    "[x]:\n  <javascript:alert(1)>\n\n[x]",
    "[a [b](http://evil.example) c](javascript&colon;alert(1))",
    "&lt;script&gt; &#60;img src=x&#62; <script>alert(1)</script>",
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

RENDERERS = {
    "commonmark": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    "mistune": mistune.create_markdown(
        renderer=mistune.HTMLRenderer(escape=False, allow_harmful_protocols=True),
        plugins=["math", "table", "footnotes", "strikethrough"],
    ),
    "nbconvert": MarkdownWithMath(renderer=IPythonRenderer(escape=False, exclude_anchor_links=True)).render,
}
TAGS = {"h1", "h2", "h3", "p", "em", "strong", "code", "pre", "blockquote", "ul", "ol", "li", "br", "hr", "span", "div"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "a"}


@pytest.mark.parametrize("name", ["math", "weather", "showcase"])
async def test_page_lists_tools_with_arguments_and_working_lines(host, name):
    connection = await host.connect(load(f"{name}_server").server, name=name)
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


def test_ordinary_words_and_code_stay_what_they_are_in_a_page():
    text = "*Use* `a[0] < 1`:\n\n- one | two\n\n```python\n# {1: 2}\nx = {}\n```"
    assert quoted(text) == "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def saying(text):
    """Return a server that says a text wherever it can, then lists a tool like any other."""
    told = {"title": text, "description": text}
    field = {"type": "string", "default": text, "enum": [text, "a"], "pattern": text, **told}
    tool = {"name": text, "inputSchema": {"type": "object", "properties": {text: field}}, **told}
    last = {"name": "last", "description": "The last.", "inputSchema": {"type": "object"}}
    prompt = {"name": text, "description": text, "arguments": [{"name": text, "description": text, "required": True}]}
    template = {"name": text, "uriTemplate": f"x://{text}", "description": text, "mimeType": text}

    def lists(kind, listing):
        async def handler(context, params):
            return kind.model_validate(listing)

        return handler

    return Server(
        text,
        version=text,
        title=text,
        instructions=text,
        on_list_tools=lists(types.ListToolsResult, {"tools": [tool, last]}),
        on_list_prompts=lists(types.ListPromptsResult, {"prompts": [prompt]}),
        on_list_resources=lists(types.ListResourcesResult, {"resources": [{"name": text, "uri": f"x:{text}"}]}),
        on_list_resource_templates=lists(types.ListResourceTemplatesResult, {"resourceTemplates": [template]}),
    )


class Rendered(HTMLParser):
    """The tags, attributes and headings that a page really has, and its blocks of code."""

    def __init__(self, html):
        super().__init__()
        self.tags = set()
        self.attributes = set()
        self.texts = {"h1": [], "h2": [], "h3": [], "pre": [], "a": []}
        self.within = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag in self.texts:
            self.within = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self.within = "" if tag == self.within else self.within

    def handle_data(self, data):
        if self.within:
            self.texts[self.within][-1] += data


@pytest.mark.parametrize("text", NASTY, ids=[ascii(text)[:60] for text in NASTY])
async def test_a_page_is_only_what_it_says_whatever_the_server_says(host, text):
    made = await page(await host.connect(saying(text), name="evil"))
    for name, render in RENDERERS.items():
        rendered = Rendered(str(render(made)))
        assert rendered.tags <= TAGS, name
        assert {key for key, _ in rendered.attributes} <= {"class", "id", "href"}, name
        # nbconvert makes links of bare addresses, which lead where they say
        shown = {unquote(text) for text in rendered.texts["a"] if text.startswith("http")}
        assert {unquote(value) for key, value in rendered.attributes if key == "href"} == shown, name
        assert len(rendered.texts["h1"]) == 1, name
        headings = ["Tools", "Prompts", "Resources", "Resource templates"]
        assert [heading.strip() for heading in rendered.texts["h2"]] == headings, name
        assert len(rendered.texts["h3"]) == 3, name
        assert "last" in rendered.texts["h3"], name
        assert "%mcp call evil:last" in [code.strip() for code in rendered.texts["pre"]], name


class Offers:
    """A connection to a server that gives one text everywhere."""

    name = "s"
    protocol_version = "2026-07-28"

    def __init__(self, text):
        argument = types.PromptArgument(name=text, description=text, required=True)
        self.instructions = text
        self.server_info = types.Implementation(name=text, title=text, version=text)
        self._listings = {
            "tools": [hostile_tool(text)],
            "prompts": [types.Prompt(name=text, title=text, description=text, arguments=[argument])],
            "resources": [types.Resource(uri=text, name=text, description=text, mime_type=text)],
            "templates": [types.ResourceTemplate(uri_template=text, name=text, description=text, mime_type=text)],
        }

    async def listing(self, kind):
        return self._listings[kind]


@hostile_texts
async def test_a_page_of_documentation_has_its_own_headings_only(text):
    connection = Offers(text)
    written = await page(connection)
    assert hidden_in(written) == []
    headings = [token for token in MarkdownIt("commonmark").parse(written) if token.type == "heading_open"]
    assert [token.tag for token in headings] == ["h1", "h2", "h3", "h2", "h3", "h2", "h2"]
