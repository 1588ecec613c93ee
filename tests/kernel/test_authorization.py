"""Log-ins from the cell of a notebook: a link, the way back or a pasted address, and nothing of it kept."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.support.frontends import VIEW
from tests.support.protected_server import Protected, protected_server_on_a_thread
from tests.support.started_kernels import started
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.frontends import Frontend, Shown

WIDGETS = "import ipywidgets.widgets.widget as w\nlen(w._instances)"


@pytest.fixture(scope="module")
def protected() -> Iterator[Protected]:
    with protected_server_on_a_thread() as running:
        yield running


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    """This environment's kernel, before it somebody with widgets."""
    with started(tmp_path_factory.mktemp("authorization"), ["%load_ext mcp_magic"], MCP_MAGIC_TOKENS="file") as running:
        yield running


@pytest.fixture
def connect(frontend: Frontend, protected: Protected) -> Iterator[str]:
    """The line that logs in; afterwards nobody is."""
    yield f"c = %mcp connect {protected.url} --name notes --timeout 60\nc.state"
    frontend.kernel.ok(f"%mcp logout {protected.url}")
    assert frontend.kernel.ok(WIDGETS).text == "0"


def link(frontend: Frontend, cell: Shown) -> str:
    """Say yes to the registration, if it is asked for, and wait for the link; return the address that it leads to."""
    frontend.read_until(lambda: bool(frontend._named("Yes", cell) or frontend._named("Cancel", cell)), what="a panel")
    if frontend._named("Yes", cell):
        frontend.click("Yes", cell=cell)
    frontend.read_until(lambda: len(frontend._named("Cancel", cell)) == 1, what="the panel")
    texts = [str(frontend.models[name].get("value")) for live in cell.live for name in frontend._inside(live)]
    found = re.search(r'<a href="([^"]+)"|<a [^>]*href="([^"]+)"', " ".join(texts))
    assert found is not None, texts
    return unescape(found[1] or found[2])


def left(cell: Shown) -> list[str]:
    """Return what stays below a cell, without the answer to whether this program may register."""
    return [line for line in cell.lines if not line.startswith("✓ yes: Log in to notes (")]


def test_declined_log_in_registers_nothing_and_shows_no_link(
    frontend: Frontend, protected: Protected, connect: str
) -> None:
    before = len(protected.authority.asked("register"))
    cell = frontend.start(connect)
    frontend.read_until(lambda: bool(frontend._named("No", cell)), what="the question")
    frontend.click("No", cell=cell)
    frontend.finish(cell)

    assert cell.ename == "AuthorizationError"
    assert cell.evalue.endswith("was not begun: you declined.")
    assert len(protected.authority.asked("register")) == before


def test_the_person_follows_the_link_and_the_browser_comes_back(
    frontend: Frontend, protected: Protected, connect: str
) -> None:
    cell = frontend.start(connect)
    url = link(frontend, cell)
    asked = len(protected.authority.asked("authorize"))
    page = httpx2.get(url, follow_redirects=True)
    frontend.finish(cell)
    result = frontend.run("r = %mcp call notes:whoami\nr.text")
    history = frontend.run("%history -n\nprint({k: str(v) for k, v in globals().items() if k[:1] != '_'})")

    assert asked == 0, "the link is opened only by the person"
    assert "You can close this window" in page.text
    assert re.fullmatch(
        r"✓ came back: log-in to notes at 127\.0\.0\.1:\d+ \(read, offline_access\), [\d.]+ m?s", left(cell)[0]
    )
    assert left(cell)[1] == "'open'"
    assert cell.live == []
    assert result.lines == ["'client-1: read offline_access'"]
    shown = f"{[each.displays for each in frontend._cells.values()]} {history.stdout} {cell.streams}"
    assert not [secret for secret in protected.authority.secrets if secret in shown]


def test_where_the_browser_is_elsewhere_the_address_is_pasted(
    frontend: Frontend, protected: Protected, connect: str
) -> None:
    cell = frontend.start(connect)
    back = httpx2.get(link(frontend, cell)).headers["location"]
    for text in ("https://example.com/?code=1", back):
        frontend.type("TextModel", text)
        frontend.click("Use this address", cell=cell)
        if text != back:
            frontend.read_until(
                lambda: any("this is not the address" in str(state.get("value")) for state in frontend.models.values())
            )
    frontend.finish(cell)

    assert left(cell)[1] == "'open'"
    assert back.partition("code=")[2][:20] not in str(cell.displays)


def test_cancel_ends_it(frontend: Frontend, connect: str) -> None:
    cell = frontend.start(connect)
    link(frontend, cell)
    frontend.click("Cancel", cell=cell)
    frontend.finish(cell)

    assert cell.ename == "AuthorizationError"
    assert re.fullmatch(r"notes: the log-in at 127\.0\.0\.1:\d+ was cancelled\.", cell.evalue)
    assert left(cell)[0].startswith("… cancelled: log-in to notes at ")


def test_interrupt_ends_it(frontend: Frontend, connect: str) -> None:
    cell = frontend.start(connect)
    back = re.search(r"redirect_uri=[^&]*%3A(\d+)", link(frontend, cell))
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    frontend.read_until(lambda: bool(left(cell)), what="the line that stays")  # the connection ends by itself
    assert left(cell)[0].startswith("… not answered: log-in to notes at ")
    assert back is not None
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://127.0.0.1:{back[1]}/callback")


@pytest.mark.timed
@tried_again
def test_interrupt_ends_one_that_a_listing_has_begun(frontend: Frontend, protected: Protected, connect: str) -> None:
    frontend.kernel.ok(f"%mcp logout {protected.url}")
    cell = frontend.start(connect)
    httpx2.get(link(frontend, cell), follow_redirects=True)
    frontend.finish(cell)
    protected.authority.tokens.clear()
    protected.authority.refresh.clear()
    cell = frontend.start("%mcp tools notes --refresh")
    back = re.search(r"redirect_uri=[^&]*%3A(\d+)", link(frontend, cell))
    frontend.kernel.interrupt()
    interrupted = time.perf_counter()
    frontend.finish(cell)
    seconds = time.perf_counter() - interrupted
    frontend.read_until(lambda: bool(left(cell)), what="the line that stays")

    assert cell.ename == "KeyboardInterrupt"
    soon(seconds, 1)  # half a second, and as much for a machine that is busy
    assert back is not None
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://127.0.0.1:{back[1]}/callback")
    assert frontend.run("1 + 1").lines == ["2"]


def test_a_cell_that_may_not_ask_is_told_at_once_where_to_log_in(frontend: Frontend, connect: str) -> None:
    cell = frontend.run(connect, stdin=False)

    assert cell.ename == "AuthorizationError"
    assert "and you cannot be asked here. Log in once with `%mcp connect http" in cell.evalue
    assert cell.displays == {}


def test_logging_out_closes_the_session_and_revokes_the_tokens(
    frontend: Frontend, protected: Protected, connect: str
) -> None:
    cell = frontend.start(connect)
    httpx2.get(link(frontend, cell), follow_redirects=True)
    frontend.finish(cell)
    said = frontend.kernel.ok("%mcp logout notes").text
    again = frontend.kernel.ok(f"%mcp logout {protected.url}").text

    assert "revoked" in said
    assert "disconnected: notes" in said
    assert f"no tokens of {protected.url} are kept" in again
    assert not protected.authority.tokens


def test_a_secret_may_not_stand_on_the_line(frontend: Frontend, protected: Protected) -> None:
    cell = frontend.run(f"%mcp connect {protected.url} --client-id me --client-secret sesame-1234")

    assert cell.ename == "CommandError"
    assert "--client-secret takes a variable, because the notebook keeps the line" in cell.evalue
    assert "sesame" not in cell.evalue


def test_a_client_with_a_secret_logs_in_by_itself(frontend: Frontend, protected: Protected) -> None:
    protected.authority.clients["robot"] = {"client_secret": "sesame-1234"}
    line = f"%mcp connect {protected.url} --name robot --auth client-credentials --client-id robot"
    cell = frontend.run(f"secret = 'sesame-1234'\nc = {line} --client-secret $secret --scope read\nc", stdin=False)

    assert cell.ename == ""
    assert "sesame" not in str(cell.displays)
    assert protected.authority.asked("token")[-1]["grant_type"] == "client_credentials"
    frontend.kernel.ok(f"%mcp logout {protected.url}")


def test_a_kernel_without_clicks_takes_the_address_unseen(tmp_path: Path, protected: Protected) -> None:
    with started(tmp_path, ["%load_ext mcp_magic"], "kernel630", MCP_MAGIC_TOKENS="memory") as older:
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
    assert cell.displays
    assert not [bundle for bundle in cell.displays.values() if VIEW in bundle]
    assert cell.lines == ["'open'"]
