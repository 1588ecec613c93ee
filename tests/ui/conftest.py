"""Every test of this folder closes what it made; and a page that the panels are shown in."""

from __future__ import annotations

import pytest
from ipywidgets.widgets.widget import _instances

from mcp_magic._host import Host
from mcp_magic.config.specs import InProcessSpec
from tests.support import bundled
from tests.support.explorers import explored
from tests.support.widgets import Page, PanelUser, linked


@pytest.fixture(autouse=True)
def no_widget_is_left():
    before = set(_instances)
    yield
    left = [widget for name, widget in list(_instances.items()) if name not in before]
    for widget in left:  # the next test is not to be blamed
        widget.close()
    assert left == []


@pytest.fixture
async def host():
    host = Host()
    yield host
    await host.close()


@pytest.fixture(autouse=True)
def links_are_followed(monkeypatch):
    """Follow the links of widgets, as a page does."""
    monkeypatch.setattr("ipywidgets.jsdlink", linked)


@pytest.fixture
def page():
    """A page of a frontend."""
    page = Page()
    yield page
    page.close()


@pytest.fixture
async def person(page):
    return PanelUser(page)


@pytest.fixture
async def servers(host):
    """The host with the showcase and the math server in this process."""
    showcase, math = (bundled.load(f"{name}_server").server for name in ("showcase", "math"))
    specs = {"showcase": InProcessSpec(server=showcase), "math": InProcessSpec(server=math, trust=True)}
    await host.connect_many(specs)
    return host


@pytest.fixture
async def explorer(servers):
    with explored(servers) as explorer:
        yield explorer
