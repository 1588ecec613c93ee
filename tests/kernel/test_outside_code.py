"""`run_code` in a kernel that serves: asked and shown below the latest cell, interrupted, after a cell that runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.kernel_servers import AWAITED, LOAD
from tests.support.outside_kernel import Bare, served

SETUP = [LOAD, "import asyncio, threading\nitems = [1, 2, 3]\nbegun = threading.Event()"]
FIGURE = (
    "import matplotlib.pyplot as plt\nplt.plot(items)\nprint('drawn')\n"
    "from IPython.display import display\ndisplay({'text/plain': 'a note'}, raw=True)"
)
ENDLESS = "print('so far')\nbegun.set()\nwhile True:\n    pass"


@pytest.fixture(scope="module")
def agent(kernel):
    """Runs code as an outside agent, on a thread; the answer comes later."""
    with ThreadPoolExecutor(2) as pool, Bare(*served(kernel, "--code"), "codex") as client:
        client.begin()
        yield lambda code: pool.submit(client.call, "run_code", code=code)


@pytest.fixture(autouse=True)
def page_is_open(frontend):
    frontend.is_open = True


def test_approved_code_runs_and_is_shown_with_its_outcome(frontend, agent):
    cell = frontend.run("1")
    answer = agent("total = sum(items)\nprint('adding')\ntotal")
    asked = frontend.asks(cell, "Approve")
    assert asked.startswith("outside codex (as it calls itself) wants to run a program in your kernel")
    assert "total = sum(items)\n" in asked
    frontend.click("Approve", cell=cell)
    frontend.read_until(answer.done)
    assert answer.result() == (False, "adding\nvalue: 6\nvariables: total (int)")
    frontend.shows(cell, "outside codex runs the program that you approved:", "What it reads:", "value: 6")
    assert frontend.line("total") == "6"


def test_code_is_edited_as_the_text_that_it_is(frontend, agent):
    cell = frontend.run("1")
    answer = agent("x = 1\nprint(x)")
    frontend.asks(cell, "Approve")
    frontend.click("Edit", cell=cell)
    frontend.has("Discard changes", cell)
    [area] = [name for name, state in frontend.models.items() if state.get("value") == "x = 1\nprint(x)"]
    frontend.type_into(area, "x = 2\nprint(x)\n")
    frontend.has("Approve changed", cell)
    frontend.click("Approve changed", cell=cell)
    frontend.read_until(answer.done)
    changed = "[the person changed the code to]\nx = 2\nprint(x)\n\n[end of the code]\n"
    assert answer.result() == (False, f"{changed}2\nvariables: x (int)")


def test_denied_code_does_not_run(frontend, agent):
    cell = frontend.run("%mcp allow * --for outside")
    answer = agent("never = 1")
    frontend.asks(cell, "Approve")
    frontend.click("Deny", cell=cell)
    frontend.read_until(answer.done)
    assert answer.result() == (True, "run_code was not called; denied by the user.")
    assert frontend.line("'never' in globals()") == "False"


def test_without_a_page_code_does_not_run(frontend, agent):
    frontend.is_open = False
    answer = agent("never = 1")
    frontend.read_until(answer.done)
    failed, text = answer.result()
    assert failed
    assert "no page of the notebook is open" in text
    assert "%mcp allow" not in text


def test_figures_and_displays_go_to_the_agent(frontend, agent):
    cell = frontend.run("1")
    answer = agent(FIGURE)
    frontend.asks(cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.read_until(answer.done)
    assert answer.result()[1].startswith("drawn\na note\n")
    frontend.shows(cell, "image/png")
    assert "a note" not in frontend.run("2").lines


def test_interrupt_ends_code_that_computes(frontend, agent):
    cell = frontend.run("1")
    answer = agent(ENDLESS)
    frontend.asks(cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.shows(cell, "outside codex runs the program that you approved:")
    frontend.kernel.interrupt()
    frontend.read_until(answer.done)
    assert answer.result() == (
        True,
        "KeyboardInterrupt: the person interrupted it. What it had done until then stays.\nIt printed:\nso far",
    )
    assert frontend.run("21 * 2").lines == ["42"]


def test_code_waits_for_the_cell_that_runs(frontend, agent):
    cell = frontend.start(f"print('runs')\n{AWAITED}\norder = ['cell']")
    frontend.read_until(lambda: "runs" in cell.stdout)
    answer = agent("order.append('code')")
    frontend.finish(cell)
    frontend.asks(cell, "Approve")
    frontend.click("Approve", cell=cell)
    frontend.read_until(answer.done)
    assert frontend.line("order") == "['cell', 'code']"
