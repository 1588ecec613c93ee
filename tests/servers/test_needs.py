from IPython.core.interactiveshell import InteractiveShell

from tests.support import bundled


def test_without_node_the_cells_below_say_that_they_are_skipped(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("%load_ext mcp_magic")
        bundled.load("needs").node()
        said = capsys.readouterr().out
        assert said.startswith("Node 18 or newer is not installed (no npx on PATH)")
        assert said.endswith("The cells below are skipped: restart the kernel when it is there.\n")
        for code in ("%mcp connect -- npx nothing", "%%mcp_agent\nDo something"):
            shell.run_cell(code)
            assert capsys.readouterr().out == "skipped\n"
    finally:
        shell.run_line_magic("unload_ext", "mcp_magic")
        InteractiveShell.clear_instance()
