"""What is clicked and typed while a cell blocks the kernel happens after it: all of it, in order, once."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.started_kernels import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.frontends import Frontend, Shown

SERVER = """
from mcp.server.mcpserver import MCPServer

weather = MCPServer("weather", log_level="ERROR")
called = []

@weather.tool()
def forecast(location: str) -> str:
    "Tells the weather."
    called.append(location)
    return location

@weather.tool()
def history(location: str) -> str:
    "Tells the weather of yesterday."
    return location

@weather.tool()
async def storm(location: str) -> str:
    "Never answers."
    called.append(location)
    await asyncio.Event().wait()
"""
WATCH = """
import asyncio, logging, time, traitlets.log
from pathlib import Path
from mcp_magic import host

class Watch(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())

logged = []
for logger in (traitlets.log.get_logger(), logging.getLogger("asyncio")):  # ipykernel's and the event loop's
    logger.addHandler(Watch(logging.WARNING))
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect weather", WATCH)
BLOCK = "print('blocked', flush=True)\nwhile not Path('free').exists():\n    time.sleep(0.01)\nPath('free').unlink()"
ASK = "host['weather'].call_tool('forecast', {{'location': '{}'}}, asker='agent')"


@pytest.fixture(scope="module", params=["this kernel", "kernel72"])
def frontend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    """JupyterLab sends what widgets say to a subshell. ipykernel 7.4 hands it to the shell that showed the widget,
    7.2 to the subshell, whose thread goes on while a cell blocks the other.
    """
    with started(tmp_path_factory.mktemp("blocking"), SETUP, request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_logged(frontend: Frontend) -> Iterator[None]:
    """An exception in a widget's callback is shown to nobody: it is in the kernel's log."""
    frontend.kernel.ok("called.clear(); host.consent.rules.clear()")
    yield
    assert frontend.kernel.ok("logged").text == "[]"


@pytest.fixture
def form(request: pytest.FixtureRequest, frontend: Frontend) -> Iterator[Shown]:
    """The cell of a form, as `%mcp form` shows it."""
    cell = frontend.run(f"form = %mcp form weather:{getattr(request, 'param', 'forecast')}\nform")
    frontend.read_until(lambda: bool(cell.live), what="the form")
    yield cell
    frontend.run("form.close()")


@contextmanager
def blocked(frontend: Frontend, folder: Path) -> Iterator[None]:
    """Run a cell that blocks the kernel until the block ends."""
    cell = frontend.start(BLOCK)
    frontend.read_until(lambda: "blocked" in cell.stdout, what="the cell blocks")
    try:
        yield
    finally:
        (folder / "free").touch()
    frontend.finish(cell)


@pytest.fixture
def folder(frontend: Frontend) -> Path:
    """The kernel's working directory."""
    return Path(frontend.kernel.ok("print(Path.cwd())").stdout.strip())


def comes_to(frontend: Frontend, *called: str) -> None:
    """Wait until the tool was called with this, and no call is under way any more."""
    one_of(frontend, called)


def one_of(frontend: Frontend, *possible: tuple[str, ...]) -> None:
    """Wait until the tool was called with one of these, and no call is under way any more."""
    code = "while form.running:\n    await asyncio.sleep(0.01)\nprint(called)"
    texts = [str(list(called)) for called in possible]
    frontend.read_until(lambda: frontend.run(code).stdout.strip() in texts, what=f"{possible} were called")


@pytest.mark.parametrize("clicks", [1, 2, 10])
def test_repeated_run_clicks_run_form_once_after_cell(
    frontend: Frontend, folder: Path, form: Shown, clicks: int
) -> None:
    frontend.type("TextModel", "Oslo")
    with blocked(frontend, folder):
        for _ in range(clicks):
            frontend.click("Run", cell=form)

    comes_to(frontend, "Oslo")
    frontend.type("TextModel", "Rome")
    frontend.click("Run", cell=form)
    comes_to(frontend, "Oslo", "Rome")


def test_run_takes_what_was_typed_before_it_in_the_same_block(frontend: Frontend, folder: Path, form: Shown) -> None:
    frontend.kernel.ok("form.set_arguments({'location': 'Bonn'})")
    frontend.click("Run", cell=form)
    comes_to(frontend, "Bonn")
    with blocked(frontend, folder):
        frontend.type("TextModel", "Oslo")
        frontend.click("Run", cell=form)

    comes_to(frontend, "Bonn", "Oslo")
    assert frontend.kernel.ok("form.result.text").text == "'Oslo'"


def test_run_waits_for_the_letters_that_the_page_has_held_back(frontend: Frontend, folder: Path, form: Shown) -> None:
    with blocked(frontend, folder):
        frontend.type("TextModel", "O")
        frontend.type_late("TextModel", "Oslo")
        frontend.click("Run", cell=form)

    comes_to(frontend, "Oslo")


def test_run_takes_what_the_field_shows_when_it_begins(frontend: Frontend, folder: Path, form: Shown) -> None:
    # the page sends letters typed before Run together with letters typed after it: they cannot be told apart
    frontend.type("TextModel", "Oslo")
    with blocked(frontend, folder):
        frontend.click("Run", cell=form)
        frontend.type("TextModel", "Rome")

    comes_to(frontend, "Rome")
    assert frontend.kernel.ok("form.arguments").text == "{'location': 'Rome'}"


@pytest.mark.parametrize("form", ["storm"], indirect=True)
def test_cancel_in_the_same_block_takes_run_back(frontend: Frontend, folder: Path, form: Shown) -> None:
    frontend.type("TextModel", "Oslo")
    with blocked(frontend, folder):
        frontend.click("Run", cell=form)
        frontend.click("Cancel", cell=form)

    frontend.read_until(lambda: frontend.run("print(form.running)").stdout == "False\n", what="it is taken back")
    frontend.type("TextModel", "Rome")
    frontend.click("Run", cell=form)
    frontend.read_until(lambda: "Rome" in frontend.run("print(called)").stdout, what="the call")
    frontend.click("Cancel", cell=form)
    # ipykernel 7.2 reads clicks on a thread of its own: the block may end between the two, and the call has begun then
    one_of(frontend, ("Rome",), ("Oslo", "Rome"))


def test_explorer_shows_last_typed_text_and_answers_clicks(frontend: Frontend, folder: Path) -> None:
    frontend.run("from mcp_magic.ui.explorer import Explorer\nexplorer = Explorer(host)\nexplorer")
    search = frontend.kernel.ok("print(explorer.search.model_id)").stdout.strip()
    for words, tool in ((("f", "fo", "fore"), "forecast"), (("h", "hi", "hist"), "history")):
        with blocked(frontend, folder):
            for text in words:
                frontend.type_into(search, text)
        found = "[row.children[0].description for row in explorer.items.box.children]"
        seen = partial(shows, frontend, found, f"['{tool}']")
        frontend.read_until(seen, what=f"{tool} alone is found")
    with blocked(frontend, folder):
        for _ in range(2):
            frontend.click("history")
    frontend.read_until(partial(shows, frontend, "explorer.detail.item.key", "'history'"), what="its card is open")
    frontend.run("explorer.close()")


def shows(frontend: Frontend, expression: str, text: str) -> bool:
    """Whether an expression is in the kernel what it should be."""
    return frontend.kernel.run(expression).data["text/plain"] == text


def test_a_call_is_approved_once_after_the_cell(frontend: Frontend, folder: Path) -> None:
    opener = frontend.run(f"task = asyncio.create_task({ASK.format('Oslo')})")
    frontend.panel(opener)
    with blocked(frontend, folder):
        frontend.click("Approve", cell=opener)
        frontend.click("Approve", cell=opener)
        frontend.click("Deny", cell=opener)

    assert frontend.run("(await task).text").lines == ["'Oslo'"]
    assert frontend.kernel.ok("called").text == "['Oslo']"
