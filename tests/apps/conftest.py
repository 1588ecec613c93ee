"""A server with views, in this process, and the app of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_magic._host import Host
from mcp_magic.apps.app import App
from mcp_magic.consent.consent import Decision
from tests.support.app_pages import Page
from tests.support.dash_server import server

if TYPE_CHECKING:
    from mcp_magic.consent.consent import Request


@pytest.fixture
async def host():
    async with Host() as host:
        await host.connect(server, name="dash")
        yield host


@pytest.fixture
async def app(host):
    shown = (await host.call("dash:sales", region="US")).app
    assert isinstance(shown, App)
    return shown


@pytest.fixture
async def page(app):
    """A page that shows the view."""
    page = Page(app)
    await page.shown()
    return page


@pytest.fixture
def asked(host):
    """The requests that the host's approver was asked about; it approves them."""
    found: list[Request] = []

    async def approve(request: Request) -> Decision:
        found.append(request)
        return Decision.approve()

    host.consent.approver = approve
    return found
