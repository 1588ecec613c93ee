"""`%mcp view` in terminal IPython, where a browser shows what the terminal cannot."""

import re
import sys

import httpx2

from tests.support import dash_server

SETUP = (f"%mcp connect --name dash --timeout 60 -- {sys.executable} {dash_server.__file__}",)


def test_the_line_below_the_text_serves_the_view_until_ctrl_c(terminal):
    shown = terminal.run("%mcp call dash:sales region=US")
    assert "US: 42" in shown
    assert "`%mcp view` opens it" in re.sub(r"\s+", " ", shown)
    terminal.send("%mcp view")
    terminal.child.expect(r"Open +(http://\S+)")
    address = terminal.child.match[1]
    terminal.child.expect_exact("Ctrl-C ends it")
    page = httpx2.get(address, follow_redirects=True)
    assert 'src="page.js"' in page.text
    terminal.press("C")
    terminal.child.expect_exact("interrupted")
    terminal.wait()
    assert "%mcp call SERVER:TOOL" in terminal.run("%mcp view 5")
