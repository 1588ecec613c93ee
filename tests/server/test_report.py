"""The page to pass on: who, when, what; it loads nothing, hides no part, and texts of servers stay texts."""

from __future__ import annotations

import re
from contextlib import suppress
from html.parser import HTMLParser

import pytest

from mcp_magic import Host
from mcp_magic.errors import ToolError
from mcp_magic.server.exchange import Exchange, Recording, traced
from mcp_magic.server.report import page
from tests.support.hostile_texts import hidden_in, hostile_texts
from tests.support.stall_server import HOSTILE, make

NOON = 1_800_000_000.0


class Outline(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
async def shown():
    """The page of a session with the shop."""
    async with Host() as host:
        connection = await host.connect(make(), name="shop")
        await connection.call("search", text="tea")
        await connection.call("login", user="ann", password="sesame-4711")
        await connection.call_tool("pack", {"steps": 2}, on_progress=nothing)
        await connection.call("picture")
        await connection.call("long", length=500)
        await connection.call(HOSTILE.replace("\n", " "), text="x")
        with suppress(ToolError):
            await connection.call("fail", why="no tea")
        return page(await traced(connection, host.trace.entries("shop")), NOON)


async def nothing(*_):
    """Take progress."""


async def test_equal_requests_with_equal_answers_are_one():
    async with Host() as host:
        connection = await host.connect(make(), name="shop")
        for text in ("tea", "tea", "soap", "tea"):
            await connection.call("search", text=text)
        text = Outline(page(await traced(connection, host.trace.entries("shop")), NOON)).text
    assert "4 requests" in text
    assert re.findall(r"\d\. tools/call search", text) == ["1. tools/call search", "2. tools/call search"]
    assert re.findall(r"answered ([\d,]+ times)", text) == ["3 times"]


async def test_page_says_who_when_and_what(shown):
    text = Outline(shown).text
    for part in ("shop 1.2", "in-process: MCPServer 'shop'", "2026-07-28", "mcp_magic", "2027-01-15 08:00:00 UTC"):
        assert part in text
    assert "7 requests, 1 without an answer or with an error" in text
    for part in (
        "1. tools/call search",
        '"text": "tea"',
        '"name": "tea 2"',
        "progress 1/2 box 1",
        "the tool reports an error",
    ):
        assert part in text
    assert re.search(r"answered [\d.]+ ms · \d{4}-\d\d-\d\d", text)
    assert '"password": "***"' in text
    assert "sesame" not in shown
    assert "(4,018 characters)" in text
    assert text.count("tea 2") == 1, "a text that only says again what the structured content has is left out"
    assert "&lt;d" not in shown


async def test_page_loads_nothing_and_runs_nothing(shown):
    outline = Outline(shown)
    names = {tag for tag, _ in outline.elements}
    assert names & {"script", "link", "iframe", "object", "base", "form", "a", "svg"} == set()
    addresses = [value or "" for _, members in outline.elements for name, value in members.items() if name == "src"]
    assert [address.split(",")[0] for address in addresses] == ["data:image/png;base64"]
    assert not [name for _, members in outline.elements for name in members if name.startswith("on")]
    policies = [members["content"] for _, members in outline.elements if "http-equiv" in members]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert "prefers-color-scheme:dark" in shown


@hostile_texts
def test_text_of_a_server_stays_text(text):
    small = f"{text[:5000]}</pre><script>alert(1)</script><img src=https://x.example onerror=alert(1)>"
    answers = (
        {
            "result": {
                "content": [{"type": "text", "text": small}, {"type": "image", "data": small, "mimeType": small}, 5]
            }
        },
        {"result": {"structuredContent": {small: small}, "content": small}},
        {"result": {"contents": [{"uri": small, "blob": "AAAA", "mimeType": 'image/png" onerror="x'}]}},
        {"result": {"messages": [{"role": small, "content": {"text": small}}, small]}},
        {"error": {"code": small, "message": small, "data": small}},
        {},
    )
    params = {"name": small, "arguments": {small: [small]}}
    messages = (
        {"method": "notifications/progress", "params": {"progress": small, "message": small}},
        {"method": small},
    )
    exchanges = [
        Exchange("tools/call", params, answer, messages, problem="" if answer else small) for answer in answers
    ]
    opening = {"serverInfo": {"name": small, "version": small}, "protocolVersion": small}
    shown = page(Recording("shop", exchanges, "stdio", small, None, opening), NOON)
    assert hidden_in(shown.replace("\n", "")) == []
    names = {tag for tag, _ in Outline(shown).elements}
    assert names & {"script", "img"} == set()
