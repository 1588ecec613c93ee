"""`jupyter console`: a kernel, its text and its input in a terminal, and no widgets."""

import re

import pexpect
import pytest

from tests.support.kernel_servers import HOLDING, IMPORT_MATH, LOAD, TRIPS
from tests.support.kernels import until
from tests.support.terminals import Terminal

pytest.importorskip("jupyter_console")
APPROVE = r"Approve math:add\? \[y\]es.*: "


@pytest.fixture(scope="module")
def console(tmp_path_factory):
    folder = tmp_path_factory.mktemp("console")
    running = Terminal(folder, "--simple-prompt", program="jupyter_console", JUPYTER_PLATFORM_DIRS="1")
    for line in (LOAD, IMPORT_MATH, "%mcp connect math"):
        running.run(line)
    yield running
    running.send("exit")
    running.child.expect(pexpect.EOF)
    running.close()


def test_values_listings_and_errors_are_text(console):
    assert re.search(r"Out\[\d+\]: 3\b", console.run("%mcp call math:add a=1 b=2"))
    assert re.search(r"math:add +a, b", console.run("%mcp tools math"))
    assert "42" in console.run("(lambda: get_ipython().run_line_magic('mcp', 'call math:add a=40 b=2'))()")
    said = console.run("%mcp call math:divide a=1 b=0")
    assert "ToolError: math:divide failed: Cannot divide by zero." in said
    assert "Traceback" not in said
    said = console.run("%mcp form math:add")
    assert "math:add" in said
    assert "Traceback" not in said


def test_a_person_answers_by_lines(console):
    console.run("%mcp ask math:add")
    assert "You are about to call math:add" in console.asked("%mcp call math:add a=5 b=6", APPROVE)
    assert "11" in console.run("y")
    console.run("%mcp approvals --clear")
    console.run(f"exec({TRIPS!r})")
    console.run("%mcp connect trips --timeout 60")
    assert "Where <i>to</i>?" in console.asked("%mcp call trips:plan", r"\[f\]ill in, \[d\]ecline, \[c\]ancel: ")
    assert "decline" in console.run("d")


def test_an_agent_asks_and_shows_what_it_did_at_the_end(console):
    console.run("from mcp_magic import ScriptedModel")
    console.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], 'It is 3.'])")
    agent = "run = get_ipython().run_cell_magic('mcp_agent', '--model $m', 'add')"
    assert "agent wants to call math:add" in console.asked(agent, APPROVE)
    console.run("y")
    shown = console.run("run")
    assert "✓ ok math:add(a=1, b=2)" in shown
    assert "It is 3." in shown


def test_ctrl_c_ends_a_call_and_leaves_the_session(console, tmp_path):
    console.run(f"%mcp connect {HOLDING} --name holding")
    console.send(f"%mcp call holding:hold folder={tmp_path}")
    until((tmp_path / "started").exists, what="the tool has started")
    console.press("C")
    assert "KeyboardInterrupt" in console.wait()
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "pong" in console.run("%mcp call holding:ping")
