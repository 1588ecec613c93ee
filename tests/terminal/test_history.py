"""The history of terminal IPython: what is saved and run again is what a person would have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.kernel_servers import MATH
from tests.support.kernels import gone
from tests.support.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

SETUP = (
    f"%mcp connect {MATH} --name math",
    "r = %mcp call math:add a=1 b=2",
    "%mcp call math:factorial n=5;",
)


def test_the_history_has_the_lines_as_they_were_typed(terminal: Terminal, folder: Path) -> None:
    terminal.run("%history -f typed.ipy 1-4")

    assert (folder / "typed.ipy").read_text().splitlines() == [
        "%load_ext mcp_magic",
        f"%mcp connect {MATH} --name math",
        "r = %mcp call math:add a=1 b=2",
        "%mcp call math:factorial n=5;",
    ]


def test_a_saved_history_is_a_program_that_runs(terminal: Terminal, folder: Path) -> None:
    terminal.run("%save -f session 3-4")
    terminal.run("r = None")

    saved = (folder / "session.py").read_text().splitlines()
    assert saved[-2:] == [
        "r = get_ipython().run_line_magic('mcp', 'call math:add a=1 b=2')",
        "get_ipython().run_line_magic('mcp', 'call math:factorial n=5;')",
    ]
    assert "Error" not in terminal.run("%run -i session.py")
    assert "3" in terminal.run("r.data").split("Out", 1)[1]


def test_a_line_is_run_again_and_made_a_macro(terminal: Terminal) -> None:
    terminal.run("r = None")
    assert "Error" not in terminal.run("%rerun 3")
    assert "3" in terminal.run("r.data").split("Out", 1)[1]

    terminal.run("%macro -q again 3")
    terminal.run("r = None")
    assert "Error" not in terminal.run("again")
    assert "3" in terminal.run("r.data").split("Out", 1)[1]


def test_the_next_session_finds_the_lines(terminal: Terminal, folder: Path) -> None:
    terminal.send("exit")
    gone([terminal.process])
    later = Terminal(folder, "--simple-prompt", "--no-banner")
    try:
        said = later.run("%history ~1/3-4")
    finally:
        later.close()

    assert "r = %mcp call math:add a=1 b=2" in said
    assert "%mcp call math:factorial n=5;" in said
