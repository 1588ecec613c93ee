"""`jupyter console`: a kernel, its text and its input in a terminal, and no widgets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pexpect
import pytest

from tests.support import SUPPORT
from tests.support.kernel_servers import HERE, MATH
from tests.support.kernels import until
from tests.support.terminals import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("jupyter_console")

ELICITING = SUPPORT / "eliciting_server.py"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("console")
    running = Terminal(folder, "--simple-prompt", program="jupyter_console", JUPYTER_PLATFORM_DIRS="1")
    running.run("%load_ext mcp_magic")
    running.run(f"%mcp connect {MATH} --name math")
    yield running
    running.send("exit")
    running.child.expect(pexpect.EOF)
    running.close()


def test_values_and_listings_are_text(console: Terminal) -> None:
    assert re.search(r"Out\[\d+\]: 3\b", console.run("%mcp call math:add a=1 b=2"))
    assert re.search(r"math:add +a, b", console.run("%mcp tools math"))
    assert "42" in console.run("(lambda: get_ipython().run_line_magic('mcp', 'call math:add a=40 b=2'))()")


def test_an_error_is_one_line(console: Terminal) -> None:
    said = console.run("%mcp call math:divide a=1 b=0")

    assert "ToolError: math:divide failed: Cannot divide by zero." in said
    assert "Traceback" not in said


def test_a_call_is_approved_by_a_line(console: Terminal) -> None:
    console.run("%mcp ask math:add")
    try:
        said = console.asked("%mcp call math:add a=5 b=6", r"Approve math:add\? \[y\]es.*: ")
        assert "You are about to call math:add" in said
        assert "11" in console.run("y")
    finally:
        console.run("%mcp approvals --clear")


def test_a_server_is_answered_line_by_line(console: Terminal) -> None:
    console.run(f"%mcp connect {ELICITING} --name trip --timeout 60")

    assert "Where to?" in console.asked("%mcp call trip:plan", r"\[f\]ill in, \[d\]ecline, \[c\]ancel: ")
    assert "decline" in console.run("d")


def test_an_agent_asks_and_shows_what_it_did_at_the_end(console: Terminal) -> None:
    console.run("from mcp_magic import ScriptedModel")
    console.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], 'It is 3.'])")
    agent = "run = get_ipython().run_cell_magic('mcp_agent', '--model $m', 'add')"

    assert "agent wants to call math:add" in console.asked(agent, r"Approve math:add\? \[y\]es.*: ")
    console.run("y")
    shown = console.run("run")

    assert "✓ ok math:add(a=1, b=2)" in shown
    assert "It is 3." in shown


def test_ctrl_c_ends_a_call_and_leaves_the_session(console: Terminal, tmp_path: Path) -> None:
    console.run(f"%mcp connect {HERE / 'holding_server.py'} --name holding")
    console.send(f"%mcp call holding:hold folder={tmp_path}")
    until((tmp_path / "started").exists, what="the tool has started")
    console.press("C")

    assert "KeyboardInterrupt" in console.wait()
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "pong" in console.run("%mcp call holding:ping")


def test_a_form_says_where_it_can_be_filled_in(console: Terminal) -> None:
    said = console.run("%mcp form math:add")

    assert "Traceback" not in said
    assert "math:add" in said
