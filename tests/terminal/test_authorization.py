"""Log-ins in terminal IPython: the link is printed, and the loop runs on while a line is awaited."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.support.protected_server import Protected, protected_server_on_a_thread
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.terminals import Terminal


SETUP = ("%config MCPMagics.tokens = 'memory'",)


@pytest.fixture(scope="module")
def protected() -> Iterator[Protected]:
    with protected_server_on_a_thread() as running:
        yield running


def link(terminal: Terminal, protected: Protected, line: str = "") -> str:
    """Begin to connect, or what the line says; say yes to the registration; return the link that is printed."""
    terminal.send(line or f"%mcp connect {protected.url} --name notes --timeout 60")
    opened = r"Open +(http.*?)\r?\nWaiting for the browser to come back"
    if terminal.child.expect([opened, re.escape("[y]es, [n]o: ")]):
        terminal.send("y")
        terminal.child.expect(opened)
    return re.sub(r"\s", "", terminal.child.match[1])


def test_the_browser_comes_back_to_the_callback(terminal: Terminal, protected: Protected) -> None:
    page = httpx2.get(link(terminal, protected), follow_redirects=True)

    assert "You can close this window" in page.text
    assert "open" in terminal.wait()
    assert "client-1: read" in terminal.run("%mcp call notes:whoami")
    assert "revoked" in terminal.run("%mcp logout notes")


def test_the_address_is_pasted_as_a_line(terminal: Terminal, protected: Protected) -> None:
    back = httpx2.get(link(terminal, protected)).headers["location"]
    terminal.send("http://example.com")
    terminal.child.expect_exact("this is not the address that the browser was sent to")
    terminal.send(back)

    assert "open" in terminal.wait()
    assert "revoked" in terminal.run("%mcp logout notes")


@pytest.mark.timed
@tried_again
def test_c_cancels_and_so_does_ctrl_c(terminal: Terminal, protected: Protected) -> None:
    link(terminal, protected)
    terminal.send("c")
    assert "was cancelled" in terminal.wait()

    link(terminal, protected)
    said, seconds = terminal.interrupt()
    assert "KeyboardInterrupt" in said
    soon(seconds, 5)


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_one_that_a_listing_has_begun(terminal: Terminal, protected: Protected) -> None:
    terminal.run(f"%mcp logout {protected.url}")
    httpx2.get(link(terminal, protected), follow_redirects=True)
    terminal.wait()
    protected.authority.tokens.clear()
    protected.authority.refresh.clear()
    link(terminal, protected, "%mcp tools notes --refresh")
    said, seconds = terminal.interrupt()
    assert "KeyboardInterrupt" in said
    soon(seconds, 1)  # half a second, and as much for a machine that is busy
    assert "2" in terminal.run("1 + 1")
