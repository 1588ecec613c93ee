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

    from mcp_magic.apps.app import App


@pytest.fixture
async def served(app: App) -> AsyncIterator[AppPage]:
    page = AppPage(app)
    await page.start()
    page.invite()
    yield page
    await page.stop()


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        yield client


async def opened(served: AppPage, client: httpx2.AsyncClient) -> str:
    """Open the page by its address, as a browser does; return the address that it keeps."""
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


async def test_an_address_opens_once_and_the_page_goes_on(served: AppPage, client: httpx2.AsyncClient) -> None:
    address = served.address
    assert address in str(served)
    kept = await opened(served, client)

    assert kept != address
    assert (await client.get(kept)).status_code == 200, "it can be loaded again"
    again = await client.get(address)
    assert (again.status_code, again.text) == (404, pages.REFUSED)
    assert "127.0.0.1" not in str(served) + repr(served)


async def test_a_new_address_ends_the_one_that_was_not_opened(served: AppPage, client: httpx2.AsyncClient) -> None:
    before = served.address
    served.invite()

    assert (await client.get(before)).status_code == 404
    assert (await client.get(served.address)).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "localhost:80"}, {"Origin": "http://evil.example"}, {"Origin": "null"}],
    ids=str,
)
async def test_a_page_of_another_name_gets_nothing(
    served: AppPage, client: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    kept = await opened(served, client)

    assert (await client.get(kept, headers=headers)).status_code == 404
    assert (await client.post(f"{kept}messages", headers=headers, json={"kind": "hello"})).status_code == 404


async def test_no_answer_may_be_framed_kept_or_read_by_other_pages(served: AppPage, client: httpx2.AsyncClient) -> None:
    kept = await opened(served, client)
    for name in ("", "host.js", "page.js", "host.css"):
        answer = await client.get(kept + name)
        assert answer.status_code == 200
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == ("no-referrer", "no-store")
        assert "access-control-allow-origin" not in answer.headers
    assert (await client.get(f"{kept}page.py")).status_code == 404
    assert (await client.get(f"{kept}..%2fpage.py")).status_code == 404


async def test_the_page_gets_the_view_and_is_answered(served: AppPage, client: httpx2.AsyncClient) -> None:
    kept = await opened(served, client)
    async with asyncio.timeout(30):
        async for message in events(client, kept):
            if message["kind"] == "begun":
                assert (await client.post(f"{kept}messages", json={"kind": "hello", "view": "v"})).status_code == 204
            else:
                break
    assert (message["kind"], message["html"]) == ("view", dash_server.HTML)
    assert message["view"] == "v"


DEEP = b'{"a": ' * 100_000


@pytest.mark.parametrize("body", [DEEP, DEEP + b"1" + b"}" * 100_000, b"[" * 100_000], ids=["cut", "whole", "list"])
async def test_deeply_nested_json_is_refused(served: AppPage, client: httpx2.AsyncClient, body: bytes) -> None:
    kept = await opened(served, client)
    assert (await client.post(f"{kept}messages", content=body)).status_code == 400


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"[]", 400), (b"\xff", 400), (b"x" * 2000, 413)])
async def test_what_is_no_message_is_refused(
    served: AppPage, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, body: bytes, status: int
) -> None:
    monkeypatch.setattr(pages, "LARGEST_MESSAGE", 1000)
    kept = await opened(served, client)

    assert (await client.post(f"{kept}messages", content=body)).status_code == status


async def test_it_tells_when_its_last_tab_is_closed(
    served: AppPage, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "GONE_SECONDS", 0.01)
    kept = await opened(served, client)
    async for _ in events(client, kept):
        assert not served.left.is_set()
        break
    await client.aclose()
    async with asyncio.timeout(30):
        await served.left.wait()


async def test_it_ends(served: AppPage, client: httpx2.AsyncClient) -> None:
    kept = await opened(served, client)
    await served.stop()
    await served.stop()

    assert "has ended" in str(served)
    with pytest.raises(httpx2.ConnectError):
        await client.get(kept)
