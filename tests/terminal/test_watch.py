"""Watching in terminal IPython: lines, until Ctrl-C."""

from tests.support import SUPPORT

SERVER = SUPPORT / "changing_server.py"
SETUP = (f"%mcp connect {SERVER} --name changing --timeout 60",)


def test_updates_are_lines_until_ctrl_c(terminal):
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
    for shown in ("Ctrl-C ends it", "update 1", "- one", "+ two"):
        terminal.child.expect_exact(shown)
    terminal.press("C")
    terminal.child.expect_exact("interrupted")
    terminal.wait()
    assert "(1, 'two')" in terminal.run("w.updates, w.result.text")
