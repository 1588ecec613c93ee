"""Servers in sandlock: their variables, their folder, their limits, and their end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import textwrap
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from mcp_magic.errors import ConnectError, ConnectTimeoutError, ServerExitedError, ToolError
from tests.support.explorers import explored, server_rows
from tests.support.listening import listening
from tests.support.processes import PYTHON, children
from tests.support.sandboxes import BOXED, REPOSITORY, boxed, needs_sandlock


def test_a_system_without_a_signal_can_import_the_backends():
    """Each server that is a command is started through them, also on Windows."""
    lacking = "import signal; del signal.SIGHUP"
    subprocess.run([PYTHON, "-c", f"{lacking}; import mcp_magic.sandbox.backends"], check=True, cwd=REPOSITORY)


MAKES = """
from mcp_magic.sandbox.launch import make_folder
print(make_folder("test")[0], flush=True)
input()
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    folders, pipe = [], subprocess.PIPE
    options = {"stdin": pipe, "stdout": pipe, "text": True, "cwd": REPOSITORY}
    with ExitStack() as stack:
        for kills in (True, False, False):
            process = subprocess.Popen([PYTHON, "-c", MAKES], env={**os.environ, "TMPDIR": str(tmp_path)}, **options)
            process = stack.enter_context(process)
            folders.append(Path(process.stdout.readline().strip()))
            if kills:
                assert folders[0].is_dir()
                process.kill()
                process.wait()
        assert {*tmp_path.iterdir()} == {*folders[1:]}


@needs_sandlock
async def test_a_server_has_its_own_folder_and_the_variables_it_gets(host, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_KERNEL", "s3cr3t")
    connection = await host.connect(BOXED, name="box", sandbox=boxed(), env={"TOKEN": "t0k3n"}, cwd=tmp_path)
    variables = ["SECRET_OF_THE_KERNEL", "MCP_MAGIC_SANDBOX", "TOKEN", "TMPDIR"]
    values = [(await connection.call("variable", name=name)).text for name in variables]
    assert values[:3] == ["", "", "t0k3n"]
    scratch = Path(values[3])
    assert (await connection.call("write", path=f"{scratch}/x", text="1")).text == "written"
    assert scratch.is_dir()
    assert "t0k3n" not in " ".join(word for p in psutil.Process().children(recursive=True) for word in p.cmdline())
    await host.disconnect("box")
    assert not scratch.exists()


@needs_sandlock
async def test_variables_of_the_server_do_not_reach_the_launcher(host, tmp_path):
    preload = {"LD_PRELOAD": str(tmp_path / "evil.so"), "PYTHONSTARTUP": "evil.py", "PYTHONPATH": "/evil"}
    await host.connect(BOXED, name="box", sandbox=boxed(), env=preload)
    (launcher,) = children("sandbox/launch.py")
    assert not preload.keys() & launcher.environ().keys()


@needs_sandlock
@pytest.mark.parametrize("name", ["", "A=B"])
async def test_a_variable_that_cannot_be_is_named(host, name):
    with pytest.raises(ConnectError, match=f"'{name}' cannot be the name of a variable"):
        await host.connect(BOXED, name="box", sandbox=boxed(), env={name: "x"})


@needs_sandlock
async def test_limits_of_memory_and_processes_hold(host):
    connection = await host.connect(BOXED, name="box", sandbox=boxed("memory=300M", "processes=3"))
    assert (await connection.call("fill", size=20_000_000)).text == "20000000"
    loop = "for i in 1 2 3 4 5 6; do sleep 1 & done; wait"
    assert "fork" in (await connection.call("run", command=loop)).text
    with pytest.raises(Exception, match="SIGKILL"):
        await connection.call("fill", size=400_000_000)
    assert "sandbox: the server was killed; it may need more than its limit of memory" in connection.stderr()


@needs_sandlock
async def test_no_process_of_the_server_stays(host):
    connection = await host.connect(BOXED, name="box", sandbox=boxed())
    left = psutil.Process((await connection.call("leave", command="sleep 1000")).data)
    assert left.is_running()
    await host.disconnect("box")
    assert not left.is_running()


@needs_sandlock
def test_the_server_ends_when_its_kernel_is_killed(tmp_path):
    program = textwrap.dedent(f"""
        import asyncio, sys
        from mcp_magic import host
        async def main():
            connection = await host.connect({BOXED!r}, sandbox={boxed()!r})
            print((await connection.call("leave", command="sleep 1000")).data, flush=True)
            await asyncio.sleep(1000)
        asyncio.run(main())
    """)
    with subprocess.Popen([PYTHON, "-c", program], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as kernel:
        assert kernel.stdout is not None
        left = psutil.Process(int(kernel.stdout.readline()))
        processes = [left, *psutil.Process(kernel.pid).children(recursive=True)]
        kernel.kill()
    assert psutil.wait_procs(processes, timeout=20)[1] == []


@needs_sandlock
async def test_the_end_of_a_server_is_told_as_without_a_sandbox(host):
    texts = []
    for sandbox in (None, boxed()):
        code = "import sys; print('no key', file=sys.stderr); sys.exit(3)"
        with pytest.raises(ServerExitedError) as raised:
            await host.connect([PYTHON, "-c", code], name="box", sandbox=sandbox)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
    assert "exit code 3" in texts[0]
    with pytest.raises(ConnectError, match="nosuchprogram"):
        await host.connect(["nosuchprogram"], name="box", sandbox=True)
    with pytest.raises(ServerExitedError, match=r"net: the host nosuch\.invalid cannot be resolved"):
        await host.connect(BOXED, name="box", sandbox=boxed("net=nosuch.invalid:443"))


@needs_sandlock
async def test_a_session_that_is_opened_again_is_isolated_again(quick, tmp_path):
    connection = await quick.connect(BOXED, name="box", sandbox=boxed())
    scratch = Path((await connection.call("variable", name="TMPDIR")).text)
    (launcher,) = children("sandbox/launch.py")
    launcher.kill()
    await asyncio.to_thread(launcher.wait)
    connection = await quick.reconnect("box")
    assert not scratch.parent.exists()
    with pytest.raises(ToolError, match="Permission denied"):
        await connection.call("write", path=str(tmp_path / "x"), text="")


@needs_sandlock
async def test_the_explorer_says_which_servers_are_isolated(host):
    await host.connect(BOXED, name="box", sandbox=boxed())
    await host.connect(BOXED, name="free")
    with explored(host) as explorer:
        shown = server_rows(explorer)
    assert "isolated: read ., write nothing, net nothing, preset python" in shown["box"][0]
    assert "not isolated" in shown["free"][0]


@needs_sandlock
async def test_an_isolated_server_has_no_address_pinged_for_it(host):
    with listening() as listener:
        code = f"import sys; print('serving on {listener.url}', file=sys.stderr, flush=True); sys.stdin.read()"
        with pytest.raises(ConnectTimeoutError):
            await host.connect([PYTHON, "-c", code], name="box", sandbox=True, timeout=2.0)
        assert listener.came == []
        with pytest.raises(ConnectTimeoutError):
            await host.connect([PYTHON, "-c", code], name="free", timeout=2.0)
        assert listener.came
