"""The page of an app in a tab of the browser: who may open it, and what goes over it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from mcp_magic.apps import page as pages
from mcp_magic.apps.page import AppPage
from tests.support import dash_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def served(app):
    page = AppPage(app)
    await page.start()
    page.invite()
    yield page
    await page.stop()


@pytest.fixture
async def client():
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
async def kept(served, client):
    """The address that a browser keeps once it has opened the page by its address."""
    answer = await client.get(served.address, follow_redirects=True)
    assert answer.status_code == 200
    return str(answer.url)


async def events(client: httpx2.AsyncClient, url: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of the kernel, as a page gets them."""
    async with client.stream("GET", f"{url}events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))["message"]
            elif line.startswith("retry"):
                yield {"kind": "begun"}


async def test_an_address_opens_once_and_the_page_goes_on(served, client):
    before = served.address
    served.invite()
    assert (await client.get(before)).status_code == 404, "a new address ends the one that was not opened"
    address = served.address
    assert address in str(served)
    opened = await client.get(address)
    assert opened.status_code == 303
    kept = str(opened.next_request.url)  # type: ignore[union-attr]
    assert kept != address
    for _ in range(2):
        assert (await client.get(kept)).status_code == 200, "it can be loaded again"
    again = await client.get(address)
    assert (again.status_code, again.text) == (404, pages.REFUSED)
    assert "127.0.0.1" not in str(served) + repr(served)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "localhost:80"}, {"Origin": "http://evil.example"}, {"Origin": "null"}],
    ids=str,
)
async def test_a_page_of_another_name_gets_nothing(kept, client, headers):
    assert (await client.get(kept, headers=headers)).status_code == 404
    assert (await client.post(f"{kept}messages", headers=headers, json={"kind": "hello"})).status_code == 404


async def test_no_answer_may_be_framed_kept_or_read_by_other_pages(kept, client):
    for name in ("", "host.js", "page.js", "host.css"):
        answer = await client.get(kept + name)
        assert answer.status_code == 200
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == ("no-referrer", "no-store")
        assert "access-control-allow-origin" not in answer.headers
    assert (await client.get(f"{kept}page.py")).status_code == 404
    assert (await client.get(f"{kept}..%2fpage.py")).status_code == 404


async def test_the_page_gets_the_view_and_is_answered(kept, client):
    async with asyncio.timeout(30):
        async for message in events(client, kept):
            if message["kind"] != "begun":
                break
            assert (await client.post(f"{kept}messages", json={"kind": "hello", "view": "v"})).status_code == 204
    assert (message["kind"], message["html"], message["view"]) == ("view", dash_server.HTML, "v")


DEEP = b'{"a": ' * 100_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(DEEP, 400, id="deep, cut"),
        pytest.param(DEEP + b"1" + b"}" * 100_000, 400, id="deep"),
        pytest.param(b"[" * 100_000, 400, id="deep list"),
        pytest.param(b"{", 400, id="no JSON"),
        pytest.param(b"[]", 400, id="list"),
        pytest.param(b"\xff", 400, id="no text"),
        pytest.param(b"x" * 800_000, 413, id="large"),
    ],
)
async def test_what_is_no_message_is_refused(kept, client, monkeypatch, body, status):
    monkeypatch.setattr(pages, "LARGEST_MESSAGE", 750_000)
    assert (await client.post(f"{kept}messages", content=body)).status_code == status


async def test_a_page_server_notices_when_its_last_tab_closes(served, kept, client, monkeypatch):
    monkeypatch.setattr(pages, "GONE_SECONDS", 0.01)
    async for _ in events(client, kept):
        assert not served.closed.is_set()
        break
    await client.aclose()
    async with asyncio.timeout(30):
        await served.closed.wait()
    await served.stop()
    await served.stop()
    assert "has ended" in str(served)
    async with httpx2.AsyncClient(trust_env=False) as other:
        with pytest.raises(httpx2.ConnectError):
            await other.get(kept)
