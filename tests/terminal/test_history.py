"""The history of terminal IPython: what is saved and run again is what a person would have written."""

from tests.support.kernel_servers import CONNECT_PLAIN, LOAD
from tests.support.kernels import gone
from tests.support.terminals import Terminal

SETUP = (CONNECT_PLAIN, "r = %mcp call plain:add a=1 b=2", "%mcp call plain:echo text=5;")


def test_the_history_has_the_lines_as_they_were_typed(terminal, folder):
    terminal.run("%history -f typed.ipy 1-4")
    assert (folder / "typed.ipy").read_text().splitlines() == [LOAD, *SETUP]


def test_lines_run_again_saved_or_as_a_macro(terminal, folder):
    terminal.run("%save -f session 3-4")
    assert (folder / "session.py").read_text().splitlines()[-2:] == [
        "r = get_ipython().run_line_magic('mcp', 'call plain:add a=1 b=2')",
        "get_ipython().run_line_magic('mcp', 'call plain:echo text=5;')",
    ]
    terminal.run("%macro -q again 3")
    for line in ("%run -i session.py", "%rerun 3", "again"):
        terminal.run("r = None")
        assert "Error" not in terminal.run(line)
        assert "3" in terminal.run("r.data").split("Out", 1)[1], line


def test_the_next_session_finds_the_lines(terminal, folder):
    terminal.send("exit")
    gone([terminal.process])
    later = Terminal(folder, "--simple-prompt", "--no-banner")
    try:
        said = later.run("%history ~1/3-4")
    finally:
        later.close()
    assert [line for line in SETUP[1:] if line not in said] == []
