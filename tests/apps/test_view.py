"""Where a view may load from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.apps.app import App
from mcp_magic.apps.view import View, allowed_source, within_reach
from tests.support.app_pages import Page
from tests.support.dash_server import URI


async def test_policy_allows_resource_domains_but_not_this_machine(host, page):
    view = await page.shown()
    policy = dict(rule.split(" ", 1) for rule in view["policy"].split("; "))
    assert policy["default-src"] == policy["frame-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "data: blob: https://api.example.com"
    assert view["sources"] == ["https://api.example.com"]
    [message] = [each.data for each in host["dash"].notices.messages]
    assert message == f"{URI}: its view may not load from https://x; script-src *, http://127.0.0.1:8888"


async def test_a_view_that_is_no_view_is_said(host):
    server = MCPServer("odd")

    @server.tool(meta={"ui/resourceUri": "ui://odd/page"})
    def look() -> str:
        return "text"

    @server.resource("ui://odd/page", mime_type="text/html")
    def odd() -> str:
        return "<p>"

    await host.connect(server, name="odd")
    result = await host.call("odd:look")
    assert isinstance(result.app, App)
    page = Page(result.app)
    page.tell(kind="hello")
    failed = await page.kind("failed")
    assert failed["text"] == "ui://odd/page has no view: expected text/html;profile=mcp-app, got text/html"


@pytest.mark.parametrize(
    "source",
    [
        "https://127.0.0.1.nip.io",
        "https://*.nip.io",
        "wss://a.localtest.me:8888",
        "https://x.lvh.me",
        "http://0x7f.1",
        "http://2130706433",
        "http://127.0x1",
        "http://[::ffff:127.0.0.1]",
        "http://[::1]",
        "http://169.254.169.254",
        "https://10-0-0-5.example.com",
        "https://router.lan",
    ],
)
def test_a_source_on_this_machine_is_refused(source):
    assert not allowed_source(source)


async def test_a_name_that_leads_to_this_machine_is_refused(monkeypatch):
    places = {"mine.example": "127.0.0.1", "far.example": "93.184.216.34", "127.0.0.1.any.example": "127.0.0.1"}

    async def getaddrinfo(self: object, host: str, port: object, **options: object) -> list[Any]:
        if host not in places:
            raise OSError
        return [(None, None, None, "", (places[host], 0))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    sources = tuple(f"https://{host}" for host in ("mine.example", "far.example", "*.any.example", "*.far.example"))
    view = await within_reach(View("ui://x", "", {"connectDomains": sources, "resourceDomains": sources[:1]}))
    assert view.domains == {"connectDomains": ("https://far.example", "https://*.far.example"), "resourceDomains": ()}
    assert view.refused == ("https://mine.example", "https://*.any.example")
