"""What is clicked and typed while a cell blocks the kernel happens after it: all of it, in order, once."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.kernel_servers import ASKS_FORECAST, FORECASTS, LOAD
from tests.support.started_kernels import THIS_KERNEL, started

WATCH = """
import logging, time, traitlets.log
from pathlib import Path
from mcp_magic import host

class Watch(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())

logged = []
for logger in (traitlets.log.get_logger(), logging.getLogger("asyncio")):  # ipykernel's and the event loop's
    logger.addHandler(Watch(logging.WARNING))
"""
SETUP = (LOAD, FORECASTS, "%mcp connect weather", WATCH)
BLOCK = "print('blocked', flush=True)\nwhile not Path('free').exists():\n    time.sleep(0.01)\nPath('free').unlink()"


@pytest.fixture(scope="module", params=[THIS_KERNEL, "kernel72"])
def frontend(request, tmp_path_factory):
    """JupyterLab sends what widgets say to a subshell. ipykernel 7.4 hands it to the shell that showed the widget,
    7.2 to the subshell, whose thread goes on while a cell blocks the other.
    """
    with started(tmp_path_factory.mktemp("blocking"), SETUP, request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_logged(frontend):
    """An exception in a widget's callback is shown to nobody: it is in the kernel's log."""
    frontend.kernel.ok("called.clear()\nhost.consent.rules.clear()")
    yield
    assert frontend.kernel.ok("logged").text == "[]"


@pytest.fixture
def form(request, frontend):
    """The cell of a form, as `%mcp form` shows it."""
    cell = frontend.run(f"form = %mcp form weather:{getattr(request, 'param', 'forecast')}\nform")
    frontend.read_until(lambda: bool(cell.live), what="the form")
    yield cell
    frontend.run("form.close()")


@contextmanager
def blocked(frontend):
    """Run a cell that blocks the kernel until the block ends."""
    folder = Path(frontend.kernel.ok("print(Path.cwd())").stdout.strip())
    cell = frontend.start(BLOCK)
    frontend.read_until(lambda: "blocked" in cell.stdout, what="the cell blocks")
    try:
        yield
    finally:
        (folder / "free").touch()
    frontend.finish(cell)


def comes_to(frontend, *possible):
    """Wait until the tool was called with one of these, and no call is under way any more."""
    code = "while form.running:\n    await asyncio.sleep(0.01)\nprint(called)"
    texts = [str(called) for called in possible]
    frontend.read_until(lambda: frontend.run(code).stdout.strip() in texts, what=f"{possible} were called")


def shows(frontend, expression, text):
    """Whether an expression is in the kernel what it should be."""
    return frontend.run(expression).lines == [text]


@pytest.mark.parametrize("clicks", [1, 10])
def test_repeated_run_clicks_run_form_once_after_cell(frontend, form, clicks):
    frontend.type("TextModel", "Oslo")
    with blocked(frontend):
        for _ in range(clicks):
            frontend.click("Run", cell=form)
    comes_to(frontend, ["Oslo"])
    frontend.type("TextModel", "Rome")
    frontend.click("Run", cell=form)
    comes_to(frontend, ["Oslo", "Rome"])


def test_run_takes_what_was_typed_before_it_in_the_same_block(frontend, form):
    frontend.kernel.ok("form.set_arguments({'location': 'Bonn'})")
    frontend.click("Run", cell=form)
    comes_to(frontend, ["Bonn"])
    with blocked(frontend):
        frontend.type("TextModel", "Oslo")
        frontend.click("Run", cell=form)
    comes_to(frontend, ["Bonn", "Oslo"])
    assert frontend.kernel.ok("form.result.text").text == "'Oslo 1'"


def test_run_waits_for_the_letters_that_the_page_has_held_back(frontend, form):
    with blocked(frontend):
        frontend.type("TextModel", "O")
        frontend.type_late("TextModel", "Oslo")
        frontend.click("Run", cell=form)
    comes_to(frontend, ["Oslo"])


def test_run_takes_what_the_field_shows_when_it_begins(frontend, form):
    # the page sends letters typed before Run together with letters typed after it: they cannot be told apart
    frontend.type("TextModel", "Oslo")
    with blocked(frontend):
        frontend.click("Run", cell=form)
        frontend.type("TextModel", "Rome")
    comes_to(frontend, ["Rome"])
    assert frontend.kernel.ok("form.arguments['location']").text == "'Rome'"


@pytest.mark.parametrize("form", ["storm"], indirect=True)
def test_cancel_in_the_same_block_takes_run_back(frontend, form):
    frontend.type("TextModel", "Oslo")
    with blocked(frontend):
        frontend.click("Run", cell=form)
        frontend.click("Cancel", cell=form)
    frontend.read_until(lambda: frontend.run("print(form.running)").stdout == "False\n", what="it is taken back")
    frontend.type("TextModel", "Rome")
    frontend.click("Run", cell=form)
    frontend.read_until(lambda: "Rome" in frontend.run("print(called)").stdout, what="the call")
    frontend.click("Cancel", cell=form)
    # ipykernel 7.2 reads clicks on a thread of its own: the block may end between the two, and the call has begun then
    comes_to(frontend, ["Rome"], ["Oslo", "Rome"])


def test_explorer_shows_last_typed_text_and_answers_clicks(frontend):
    frontend.run("from mcp_magic.ui.explorer import Explorer\nexplorer = Explorer(host)\nexplorer")
    search = frontend.kernel.ok("print(explorer.filter.search.model_id)").stdout.strip()
    listed = "[row.children[0].description for row in explorer.items.box.children]"
    for words, tool in ((("f", "fo", "fore"), "forecast"), (("l", "lo", "logi"), "login")):
        with blocked(frontend):
            for text in words:
                frontend.type_into(search, text)
        frontend.read_until(partial(shows, frontend, listed, f"['{tool}']"), what=f"{tool} alone is listed")
    with blocked(frontend):
        for _ in range(2):
            frontend.click("login")
    frontend.read_until(partial(shows, frontend, "explorer.detail.item.key", "'login'"), what="its card is open")
    frontend.run("explorer.close()")


def test_a_call_is_approved_once_after_the_cell(frontend):
    asking = ASKS_FORECAST.splitlines()[0].removeprefix("r = await ")
    opener = frontend.run(f"task = asyncio.create_task({asking})")
    frontend.panel(opener)
    with blocked(frontend):
        for button in ("Approve", "Approve", "Deny"):
            frontend.click(button, cell=opener)
    assert frontend.line("(await task).text") == "'London 1'"
    assert frontend.line("called") == "['London']"
