"""Log-ins from the cell of a notebook: a link, the way back or a pasted address, and nothing of it kept."""

import re
from html import unescape

import httpx2
import pytest

from tests.support.frontends import VIEW
from tests.support.kernel_servers import LOAD
from tests.support.started_kernels import started

VARIABLES = {"MCP_MAGIC_TOKENS": "file"}
pytestmark = pytest.mark.usefixtures("no_widget_is_left")


@pytest.fixture
def connect(frontend, protected):
    """The line that logs in; afterwards nobody is."""
    yield f"c = %mcp connect {protected.url} --name notes --timeout 60\nc.state"
    frontend.kernel.ok(f"%mcp logout {protected.url}")


def link(frontend, cell):
    """Say yes to the registration, if it is asked for, and wait for the link; return the address that it leads to."""
    frontend.read_until(lambda: bool(frontend._named("Yes", cell) or frontend._named("Cancel", cell)), what="a panel")
    if frontend._named("Yes", cell):
        frontend.click("Yes", cell=cell)
    frontend.has("Cancel", cell)
    address = re.search(r'<a href="([^"]+)"|<a [^>]*href="([^"]+)"', frontend.text_of(cell))
    assert address is not None, frontend.text_of(cell)
    return unescape(address[1] or address[2])


def log_in(frontend, connect):
    cell = frontend.start(connect)
    assert "You can close this window" in httpx2.get(link(frontend, cell), follow_redirects=True).text
    return frontend.finish(cell)


def left(cell):
    """Return what stays below a cell, without the answer to whether this program may register."""
    return [line for line in cell.lines if not line.startswith("✓ yes: Log in to notes (")]


def ends_by_interrupt(frontend, cell):
    back = re.search(r"redirect_uri=[^&]*%3A(\d+)", link(frontend, cell))
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    frontend.read_until(lambda: bool(left(cell)), what="the line that stays")  # the connection ends by itself
    assert back is not None
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://127.0.0.1:{back[1]}/callback")


def test_declined_log_in_registers_nothing_and_shows_no_link(frontend, protected, connect):
    before = len(protected.authority.asked("register"))
    cell = frontend.start(connect)
    frontend.press(frontend.has("No", cell)[0])
    frontend.finish(cell)
    assert cell.ename == "AuthorizationError"
    assert cell.evalue.endswith("was not begun: you declined.")
    assert len(protected.authority.asked("register")) == before


def test_the_browser_comes_back_and_logging_out_revokes(frontend, protected, connect):
    before = len(protected.authority.asked("authorize"))
    cell = frontend.start(connect)
    url = link(frontend, cell)
    assert len(protected.authority.asked("authorize")) == before, "the link is opened only by the person"
    httpx2.get(url, follow_redirects=True)
    came = r"✓ came back: log-in to notes at 127\.0\.0\.1:\d+ \(read, offline_access\), [\d.]+ m?s"
    assert re.fullmatch(came, left(frontend.finish(cell))[0])
    assert (left(cell)[1], cell.live) == ("'open'", [])
    assert frontend.line("r = %mcp call notes:whoami\nr.text") == "'client-1: read offline_access'"
    history = frontend.run("%history -n\nprint({k: str(v) for k, v in globals().items() if k[:1] != '_'})")
    shown = f"{[cell.displays for cell in frontend._cells.values()]} {history.stdout} {cell.streams}"
    assert not [secret for secret in protected.authority.secrets if secret in shown]
    said = frontend.kernel.ok("%mcp logout notes").text
    assert "revoked" in said
    assert "disconnected: notes" in said
    again = frontend.kernel.ok(f"%mcp logout {protected.url}").text
    assert f"no tokens of {protected.url} are kept" in again
    assert not protected.authority.tokens


def test_cancel_and_interrupt_end_a_log_in(frontend, connect):
    cell = frontend.start(connect)
    link(frontend, cell)
    frontend.click("Cancel", cell=cell)
    frontend.finish(cell)
    assert cell.ename == "AuthorizationError"
    assert re.fullmatch(r"notes: the log-in at 127\.0\.0\.1:\d+ was cancelled\.", cell.evalue)
    assert left(cell)[0].startswith("… cancelled: log-in to notes at ")
    cell = frontend.start(connect)
    ends_by_interrupt(frontend, cell)
    assert left(cell)[0].startswith("… not answered: log-in to notes at ")


def test_interrupt_ends_a_log_in_that_a_listing_began(frontend, protected, connect):
    log_in(frontend, connect)
    protected.authority.tokens.clear()
    protected.authority.refresh.clear()
    ends_by_interrupt(frontend, frontend.start("%mcp tools notes --refresh"))
    assert frontend.line("1 + 1") == "2"


def test_a_cell_that_may_not_ask_is_told_at_once_where_to_log_in(frontend, connect):
    cell = frontend.run(connect, stdin=False)
    assert cell.ename == "AuthorizationError"
    assert "and you cannot be asked here. Log in once with `%mcp connect http" in cell.evalue
    assert cell.displays == {}


def test_a_client_secret_is_a_variable_that_logs_in_by_itself(frontend, protected):
    refused = frontend.run(f"%mcp connect {protected.url} --client-id me --client-secret sesame-1234")
    assert refused.ename == "CommandError"
    assert "--client-secret takes a variable, because the notebook keeps the line" in refused.evalue
    assert "sesame" not in refused.evalue
    protected.authority.clients["robot"] = {"client_secret": "sesame-1234"}
    line = f"%mcp connect {protected.url} --name robot --auth client-credentials --client-id robot"
    cell = frontend.run(f"secret = 'sesame-1234'\nc = {line} --client-secret $secret --scope read\nc", stdin=False)
    assert cell.ename == ""
    assert "sesame" not in str(cell.displays)
    assert protected.authority.asked("token")[-1]["grant_type"] == "client_credentials"
    frontend.kernel.ok(f"%mcp logout {protected.url}")


def test_a_kernel_without_clicks_takes_the_address_unseen(tmp_path, protected):
    with started(tmp_path, [LOAD], "kernel630", MCP_MAGIC_TOKENS="memory") as older:
        cell = older.start(f"c = %mcp connect {protected.url} --name notes\nc.state")
        assert older.answer("y") == ["[y]es, [n]o: "]
        request = older.kernel.client.get_stdin_msg(timeout=30)["content"]
        older.read_until(lambda: "code_challenge" in cell.stdout, what="the link")
        url = re.search(r"Open  (\S+)", cell.stdout)
        assert url is not None
        page = httpx2.get(url[1], follow_redirects=True)  # the callback answers while input() holds the loop
        older.kernel.client.input("")
        older.finish(cell)
    assert "You can close this window" in page.text
    assert request["password"] is True, "what is typed is not shown: a notebook would keep it"
    assert not [bundle for bundle in cell.displays.values() if VIEW in bundle]
    assert cell.lines == ["'open'"]
