"""Log-ins in terminal IPython: the link is printed, and the loop runs on while a line is awaited."""

import re

import httpx2

SETUP = ("%config MCPMagics.tokens = 'memory'",)


def link(terminal, protected, line=""):
    """Begin to connect, or what the line says; say yes to the registration; return the link that is printed."""
    terminal.send(line or f"%mcp connect {protected.url} --name notes --timeout 60")
    opened = r"Open +(http.*?)\r?\nWaiting for the browser to come back"
    if terminal.child.expect([opened, re.escape("[y]es, [n]o: ")]):
        terminal.send("y")
        terminal.child.expect(opened)
    return re.sub(r"\s", "", terminal.child.match[1])


def test_the_browser_comes_back_to_the_callback(terminal, protected):
    page = httpx2.get(link(terminal, protected), follow_redirects=True)
    assert "You can close this window" in page.text
    assert "open" in terminal.wait()
    assert "client-1: read" in terminal.run("%mcp call notes:whoami")
    assert "revoked" in terminal.run("%mcp logout notes")


def test_the_address_is_pasted_as_a_line(terminal, protected):
    back = httpx2.get(link(terminal, protected)).headers["location"]
    terminal.send("http://example.com")
    terminal.child.expect_exact("this is not the address that the browser was sent to")
    terminal.send(back)
    assert "open" in terminal.wait()
    assert "revoked" in terminal.run("%mcp logout notes")


def test_c_cancels_and_so_does_ctrl_c(terminal, protected):
    link(terminal, protected)
    terminal.send("c")
    assert "was cancelled" in terminal.wait()
    link(terminal, protected)
    assert "KeyboardInterrupt" in terminal.interrupt()


def test_ctrl_c_ends_a_log_in_that_a_listing_began(terminal, protected):
    httpx2.get(link(terminal, protected), follow_redirects=True)
    terminal.wait()
    protected.authority.tokens.clear()
    protected.authority.refresh.clear()
    link(terminal, protected, "%mcp tools notes --refresh")
    assert "KeyboardInterrupt" in terminal.interrupt()
    assert "2" in terminal.run("1 + 1")
