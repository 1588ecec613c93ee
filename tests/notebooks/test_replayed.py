"""The second run of the tutorials: that it would notice whoever reaches for a server or the network."""

import re
import shutil

import nbformat
import pytest

from tests import replayed

CELLS = (
    "%load_ext mcp_magic",
    "%mcp connect -- python -c pass",
    "%mcp connect servers/math_server.py --name math",
    "%mcp connect http://127.0.0.1:9/mcp --name web",
    "import os, socket, subprocess",
    "try:\n    socket.create_connection(('127.0.0.1', 9))\nexcept OSError:\n    pass",
    "try:\n    os.fork()\nexcept OSError:\n    pass",
    "assert os.environ.get('SHOP_API_KEY') is None, 'a key'",
    "assert 'gone' not in os.environ['PATH'], 'programs'",
)


@pytest.fixture
def notebook(tmp_path):
    """A notebook that reaches for servers, some of it without a word, in a folder of its own."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS], metadata=kernel)
    path = tmp_path / "mine" / "reaching.ipynb"
    shutil.copytree(replayed.ROOT / "notebooks" / "servers", path.parent / "servers")
    nbformat.write(made, path)
    return path


def test_notebook_reaching_for_a_server_fails_when_replayed(notebook, monkeypatch, capsys):
    monkeypatch.setenv("SHOP_API_KEY", "sesame")
    monkeypatch.setenv("PATH", "/gone", prepend=":")
    assert replayed.main([str(notebook)]) != 0
    shown = capsys.readouterr().out
    tried = re.findall(r"^tried, with everything out of reach: (\S+)", shown, flags=re.MULTILINE)
    assert sorted(set(tried)) == ["os.fork", "socket.connect", "socket.getaddrinfo", "subprocess.Popen"]
    assert "3 failed, 6 passed" in shown  # three connections; what swallows its errors fails the run all the same


def test_silent_attempts_and_unguarded_kernels_fail_the_run():
    assert replayed.problems(2, 2, []) == []
    assert replayed.problems(2, 2, ["os.fork"]) == ["tried, with everything out of reach: os.fork"]
    assert replayed.problems(2, 1, []) == ["1 of 2 kernels were guarded"]


def test_no_server_program_can_run_in_the_copy(tmp_path, notebook):
    replayed.copied([notebook], tmp_path / "copy")
    programs = {path.name: path.read_text("utf-8") for path in (tmp_path / "copy" / "notebooks" / "servers").iterdir()}
    assert {"math_server.py", "faulty_server.py", "weather_server.py", *replayed.HELPERS} <= set(programs)
    alive = [name for name, text in programs.items() if not text.startswith(replayed.GONE)]
    assert sorted(alive) == sorted(replayed.HELPERS)
