"""Watching in terminal IPython: lines, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.test_terminal import Terminal

SERVER = Path(__file__).parents[1] / "core" / "changing_server.py"


def test_updates_are_lines_until_ctrl_c(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--simple-prompt")
    try:
        terminal.run("%load_ext mcp_magic")
        terminal.run(f"%mcp connect {SERVER} --name changing --timeout 60")
        assert "leave out --background" in terminal.run("%mcp watch test://note --background")
        terminal.run("from mcp_magic import host; from mcp_magic.ipython.live import running; import asyncio")
        terminal.run(
            "async def later():",
            "    while not running(): await asyncio.sleep(0.01)",
            "    await host['changing'].call('set_text', text='two')",
            "",
        )
        terminal.run("task = asyncio.get_running_loop().create_task(later()); await asyncio.sleep(0)")
        terminal.send("w = %mcp watch test://note")
        terminal.child.expect_exact("Ctrl-C ends it")
        terminal.child.expect_exact("update 1")
        terminal.child.expect_exact("- one")
        terminal.child.expect_exact("+ two")
        terminal.child.sendintr()
        terminal.child.expect_exact("interrupted")
        terminal.wait()
        assert "(1, 'two')" in terminal.run("w.updates, w.result.text")
    finally:
        terminal.child.close(force=True)
