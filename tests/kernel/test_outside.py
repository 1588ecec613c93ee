"""Where a person is asked about calls from outside: below the latest cell, in the explorer, or nowhere."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.support.kernel_servers import AWAITED, FORECASTS, LOAD
from tests.support.started_kernels import started

CLIENTS = """
import asyncio, threading
from mcp_magic import host

loop, answers = asyncio.get_running_loop(), {}

async def call(name, location):
    try:
        answers[location] = (await host["weather"].call_tool("forecast", {"location": location}, asker=name)).text
    except Exception as error:
        answers[location] = str(error)

def outside(location, name="outside codex"):
    "A client of a server on another thread."
    threading.Thread(target=lambda: asyncio.run_coroutine_threadsafe(call(name, location), loop)).start()

async def answer(location):
    while location not in answers:
        await asyncio.sleep(0.01)
    return answers[location]
"""
MANY = """
def outside_at_once(*locations):
    "Clients of eight questions each, which one may have at a time, on the loop of the kernel; returns the tasks."
    names = [f"outside codex ({1 + number // 8})" for number in range(len(locations))]
    return [asyncio.ensure_future(call(*client)) for client in zip(names, locations)]
"""
LEFT = "import comm, ipywidgets.widgets.widget as w\nlen(w._instances), len(comm.get_comm_manager().comms)"
SETUP = (LOAD, FORECASTS, "%mcp connect weather", CLIENTS, MANY)
DENIED = "weather:forecast was not called; denied by default: "
ALLOW = " `%mcp allow weather:forecast --for 'outside codex'` would allow it."


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """Each test starts with an open page, and leaves no widget behind."""
    page = request.getfixturevalue("older" if "older" in request.fixturenames else "frontend")
    page.is_open = True
    page.kernel.ok("answers.clear()\nhost.consent.rules.clear()")
    yield
    page.kernel.ok("%config MCPMagics.ask_with = 'auto'")
    assert page.kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


def answered(page, location):
    """Wait for the answer that a client gets, in no cell of a page."""
    return page.run(f"print(await answer({location!r}))", cell=False).stdout.strip()


def test_an_idle_kernel_asks_below_the_latest_cell(frontend):
    cell = frontend.run("outside('Oslo')")
    asked = frontend.asks(cell, "Approve")
    assert asked.startswith("outside codex (as it calls itself) wants to call weather:forecast")
    frontend.click("Approve", cell=cell)
    assert answered(frontend, "Oslo") == "Oslo 1"
    line = "✓ approved weather:forecast(location=Oslo) by you, "
    frontend.read_until(lambda: any(shown.startswith(line) for shown in cell.lines))
    assert cell.lines[-1].endswith("(outside codex (as it calls itself) asked)")


def test_a_call_is_asked_below_a_cell_that_waits_and_outlives_it(frontend):
    cell = frontend.start("outside('Rome')\nawait asyncio.Event().wait()")
    frontend.panel(cell)
    assert frontend.stop(cell).ename == "CancelledError"
    frontend.has("Deny", cell)
    frontend.click("Deny", cell=cell)
    denial = "weather:forecast was not called; denied by the user."
    assert answered(frontend, "Rome") == denial


def test_questions_of_two_clients_are_answered_one_by_one(frontend):
    cell = frontend.run("outside('Bonn')\noutside('Ulm', 'outside codex (2)')")
    frontend.panel(cell, 2)
    frontend.shows(cell, "2 calls are waiting for your answer.")
    assert not frontend._named("Approve all", cell), "one click decides about no two clients"
    texts = [frontend.models[name]["tooltip"] for name in frontend._named("Approve", cell)]
    assert texts == ["approve the call of weather:forecast as shown"] * 2
    frontend.click("Approve", cell=cell)
    frontend.panel(cell, 1)
    first = frontend.run("await asyncio.sleep(0)\n*answers.values(),").lines[-1]
    assert first in ("('Bonn 1',)", "('Ulm 1',)")
    frontend.click("Deny", cell=cell)
    other = "Ulm" if "Bonn" in first else "Bonn"
    assert "denied by the user" in answered(frontend, other)


def test_a_question_moves_to_the_next_run_of_its_cell(frontend):
    cell = frontend.start("outside('Oslo')", again="the cell")
    frontend.finish(cell)
    frontend.panel(cell)
    again = frontend.finish(frontend.start("1", again="the cell"))
    frontend.panel(again)
    frontend.click("Approve", cell=again)
    assert answered(frontend, "Oslo") == "Oslo 1"


def left(page):
    """The widgets and comms that the kernel has, and the models that the page has."""
    return page.run(LEFT, cell=False).lines[-1], len(page.models)


@pytest.mark.parametrize("with_explorer", [False, True])
def test_fifty_questions_leave_a_line_each_and_no_widget(frontend, with_explorer):
    frontend.run("explorer = %mcp ui\nexplorer" if with_explorer else "1")
    cell = frontend.run("outside('Oslo')")
    frontend.panel(cell)
    frontend.click("Approve", cell=cell)
    answered(frontend, "Oslo")
    before = left(frontend)
    for number in range(10):  # one by one
        frontend.run(f"outside('a{number}')", cell=False)
        frontend.panel(cell)
        frontend.click("Approve" if number % 2 else "Deny", cell=cell)
        answered(frontend, f"a{number}")
    frontend.run(f"calls = outside_at_once(*{[f'b{number}' for number in range(20)]})", cell=False)
    frontend.panel(cell, 20)
    frontend.run("for waiting in calls[:10]:\n    waiting.cancel()", cell=False)
    for waiting in range(10, 0, -1):
        frontend.panel(cell, waiting)
        frontend.click("Deny", cell=cell)
    late = f"calls = outside_at_once(*{[f'c{number}' for number in range(20)]})\nawait asyncio.wait(calls)"
    frontend.run(f"host.consent.timeout = 2\n{late}\nhost.consent.timeout = 300", cell=False)
    assert "did not answer within 2 s" in answered(frontend, "c19")
    after = left(frontend)
    frontend.run("explorer.close()" if with_explorer else "1")
    assert after == before
    signs = Counter(line.partition(" weather:")[0] for shown in cell.lines for line in shown.splitlines())
    assert 0 < signs.pop("… not answered") <= 20, "on a busy machine the time of some is up before they are shown"
    assert signs == {"✓ approved": 6, "⊘ denied": 15, "… interrupted": 10}


def test_a_question_leaves_each_explorer_that_showed_it(frontend):
    first = frontend.run("one = %mcp ui\none")
    frontend.run("outside('Oslo')", cell=False)
    frontend.panel(first)
    second = frontend.run("two = %mcp ui\ntwo")
    frontend.run("outside('Rome', 'outside codex (2)')", cell=False)
    frontend.panel(first, 2)
    frontend.panel(second, 2)
    frontend.click("Approve", 1, cell=first)
    assert answered(frontend, "Rome") == "Rome 1"
    frontend.click("Deny", cell=second)
    assert "denied by the user" in answered(frontend, "Oslo")
    frontend.shows(second, "✓ approved weather:forecast(location=Rome)", "⊘ denied weather:forecast(location=Oslo)")
    assert frontend.line("one.widget.children[1].children, two.widget.children[1].children") == "((), ())"
    frontend.run("one.close()\ntwo.close()")


def test_no_page_is_open(frontend):
    frontend.is_open = False
    frontend.run("outside('Oslo')")
    said = "no page of the notebook is open; the person can open it and run any cell, and you can call again then."
    assert answered(frontend, "Oslo") == DENIED + said + ALLOW
    frontend.run("%mcp allow weather:forecast --for outside\noutside('Rome')")
    assert answered(frontend, "Rome") == "Rome 1"


def test_a_page_that_closes_meanwhile_ends_the_question(frontend):
    frontend.kernel.ok("import mcp_magic.ipython.pages as pages\npages.WATCH_SECONDS = 0.05")
    frontend.kernel.ok("%reload_ext mcp_magic\n%mcp connect weather")
    cell = frontend.run("outside('Oslo')")
    frontend.panel(cell)
    frontend.is_open = False
    said = (
        "the page of the notebook was closed, or loaded again, while the question stood there; the person can open it "
        "and run any cell, and you can call again then."
    )
    assert answered(frontend, "Oslo") == DENIED + said + ALLOW


def test_a_page_that_is_loaded_again_asks_in_the_explorer(frontend):
    frontend.run("1")
    frontend.load_again()
    frontend.run("outside('Rome')", cell=False)
    said = (
        "the page of the notebook was loaded again, and shows a question only once a cell has run; the person can run"
    )
    assert answered(frontend, "Rome").startswith(DENIED + said)
    shown = frontend.run("explorer = %mcp ui\nexplorer")
    frontend.load_again()
    frontend.run("outside('Bonn')", cell=False)
    frontend.panel(shown)
    frontend.click("Approve", cell=shown)
    assert answered(frontend, "Bonn") == "Bonn 1"
    frontend.shows(shown, "✓ approved weather:forecast(location=Bonn) by you")
    frontend.run("explorer.close()")


def test_the_explorer_shows_the_question_too(frontend):
    shown = frontend.run("explorer = %mcp ui\nexplorer")
    cell = frontend.run("outside('Oslo')")
    frontend.panel(cell)
    frontend.panel(shown)
    frontend.click("Approve", cell=shown)
    assert answered(frontend, "Oslo") == "Oslo 1"
    frontend.run("explorer.close()")


def test_an_explorer_that_opens_takes_up_what_waits(frontend):
    cell = frontend.run("outside('Oslo')")
    frontend.panel(cell)
    shown = frontend.run("explorer = %mcp ui\nexplorer", again="the explorer's cell")
    frontend.panel(shown)
    frontend.run("outside('Rome')", cell=False)  # stands in the explorer alone
    frontend.panel(shown, 2)
    shown = frontend.run("explorer = %mcp ui\nexplorer", again="the explorer's cell")
    frontend.panel(shown, 2)
    frontend.panel(cell, 1)
    frontend.click("Approve", cell=cell)
    assert answered(frontend, "Oslo") == "Oslo 1"
    frontend.panel(shown, 1)
    frontend.click("Approve", cell=shown)
    assert answered(frontend, "Rome") == "Rome 1"
    assert frontend.line("explorer.widget.children[1].children") == "()"
    frontend.run("explorer.close()")


def test_a_notebook_that_asks_by_input_is_no_place(frontend):
    frontend.run("%config MCPMagics.ask_with = 'input'\noutside('Oslo')")
    assert "the notebook asks by input only (its setting `ask_with`)" in answered(frontend, "Oslo")


def test_an_older_kernel_asks_once_the_cell_has_ended(older):
    cell = older.start(f"outside('Oslo')\n{AWAITED}")
    older.finish(cell)
    older.panel(cell)
    older.click("Approve", cell=cell)
    assert answered(older, "Oslo") == "Oslo 1"


def test_a_console_and_an_unattended_notebook_ask_nobody(tmp_path):
    with started(tmp_path, SETUP) as page:
        page.run("outside('Oslo')", cell=False, stdin=False)
        assert page.run("print(await answer('Oslo'))", cell=False, stdin=False).stdout.strip() == (
            f"{DENIED}the notebook runs unattended, without input.{ALLOW}"
        )
        page.run("outside('Rome')", cell=False)
        said = page.run("print(await answer('Rome'))", cell=False).stdout.strip()
        assert re.match(
            f"{DENIED}no page of the notebook has run a cell since the kernel started; the person can run", said
        )
