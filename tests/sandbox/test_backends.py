"""Servers in sandlock: what is refused, what is allowed, and that nothing runs where isolation is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import TargetError, ToolError
from mcp_magic.sandbox.backends import isolated, landlock_abi, needed_by
from tests.support.listening import listening
from tests.support.processes import PYTHON
from tests.support.raising import said
from tests.support.sandboxes import BOXED, REPOSITORY, boxed, needs_sandlock


@needs_sandlock
async def test_a_server_reads_writes_and_connects_only_as_allowed(host, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("inside")
    (tmp_path / ".env").write_text("secret")
    (tmp_path.parent / "key").write_text("secret")
    with listening() as friend, listening() as stranger:
        allowed, other = (urlsplit(listener.url).port for listener in (friend, stranger))
        rights = boxed("read=.", "deny=.env", "write=out", f"net=127.0.0.1:{allowed}")
        connection = await host.connect(BOXED, name="box", sandbox=rights)
        said_of_it = f"isolated: read {REPOSITORY} ., write out, not .env, net 127.0.0.1:{allowed}, preset python"
        assert connection.spec.isolation == said_of_it
        assert (await connection.call("read", path="in")).text == "inside"
        assert (await connection.call("write", path="out/x", text="1")).text == "written"
        assert (tmp_path / "out" / "x").read_text() == "1"
        assert (await connection.call("connect", host="127.0.0.1", port=allowed)).text == str(allowed)
        refused = [("read", {"path": path}) for path in (".env", "../key", "/etc/shadow")]
        refused += [("write", {"path": path, "text": ""}) for path in ("in", "new", "/tmp/mcp_magic_new", "../key")]
        for tool, arguments in refused:
            with pytest.raises(ToolError, match="Permission denied"):
                await connection.call(tool, arguments)
        with pytest.raises(ToolError, match="refused"):
            await connection.call("connect", host="127.0.0.1", port=other)
        assert (await connection.call("run", command="cat ../key")).text.endswith("Permission denied\n1")


@needs_sandlock
def test_a_path_that_has_become_a_link_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    spec = StdioSpec(command=PYTHON, sandbox=make_sandbox("write=out", tmp_path))
    assert isolated(spec).sandbox is None
    (tmp_path / "out").rmdir()
    (tmp_path / "out").symlink_to(Path.home())
    problem = said(TargetError, isolated, spec)
    assert problem.startswith("sandbox: write: ")
    assert "is now a symbolic link to" in problem


@needs_sandlock
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("read=nosuch", "sandbox: read: there is no nosuch."),
        ("net=*.example.com", "sandbox: net: sandlock resolves hosts when the server starts, so it cannot allow *.e"),
        ("write=/proc/nosuch/x", "sandbox: write: /proc/nosuch/x cannot be made: "),
    ],
)
def test_what_cannot_be_had_is_said(line, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = StdioSpec(command=PYTHON, sandbox=make_sandbox(line))
    assert said(TargetError, isolated, spec).startswith(problem)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_file_that_a_project_names_is_read_if_it_is_a_program(tmp_path):
    key, other = tmp_path / "home" / "server", program(tmp_path / "real" / "bin" / "server", "")
    key.parent.mkdir()
    key.write_text("secret")
    for number, folder in enumerate((key.parent, other.parent)):
        command = program(tmp_path / f"env{number}" / "bin" / "server", f"#!{folder}/server\n")
        (tmp_path / f"env{number}" / "pyvenv.cfg").write_text(f"home = {folder}\n")
        paths = needed_by(command, tmp_path, ())
        assert command in paths
        assert (key in paths, other in paths) == (False, bool(number))


def test_a_script_that_is_a_link_to_a_key_is_not_readable(tmp_path):
    key = tmp_path / "id"
    key.write_text("secret")
    (tmp_path / "evil.py").symlink_to(key)
    (tmp_path / "good.py").write_text("")
    assert key not in needed_by(Path(PYTHON), tmp_path, ("evil.py",))
    assert needed_by(Path(PYTHON), tmp_path, ("good.py",))[-1] == (tmp_path / "good.py").resolve()


@needs_sandlock
async def test_a_shim_of_a_version_manager_is_passed_by(host, tmp_path, monkeypatch):
    root = tmp_path / ".pyenv"
    real = program(root / "versions" / "3" / "bin" / "server", f"#!/bin/sh\nexec {PYTHON} {BOXED[1]}\n")
    program(root / "bin" / "pyenv", f'#!/bin/sh\ntest "$1" = which && echo {root}/versions/3/bin/$2\n')
    program(root / "shims" / "server", f'#!/bin/sh\nexec {root}/bin/pyenv exec server "$@"\n')
    monkeypatch.setenv("PATH", f"{root}/shims:{os.environ['PATH']}")
    spec = StdioSpec(command="server", sandbox=make_sandbox(True))
    assert isolated(spec).args[-1] == str(real)
    by_path = StdioSpec(command=str(root / "shims" / "server"), sandbox=make_sandbox(True))
    other_path = StdioSpec(command="server", env={"PATH": f"{root}/shims"}, sandbox=make_sandbox(True))
    assert [isolated(other).args[-1] for other in (by_path, other_path)] == [str(root / "shims" / "server")] * 2
    prefix = Path(PYTHON).parents[1]
    connection = await host.connect(["server"], name="box", sandbox=boxed(f"read={prefix}", f"read={sys.base_prefix}"))
    assert (await connection.call("variable", name="PATH")).text.startswith(f"{real.parent}:{root}/shims:")


def test_a_server_without_a_sandbox_stays_as_it_is():
    spec = StdioSpec(command="x")
    assert isolated(spec) is spec


CONNECTS = """
import asyncio, sys
from mcp_magic import host
async def main():
    try:
        await host.connect([sys.executable, "-c", "open('ran', 'w')"], sandbox="write=.", name="box")
    except Exception as error:
        print(type(error).__name__, error)
asyncio.run(main())
"""


def test_nothing_runs_where_sandlock_is_not_installed(tmp_path):
    (tmp_path / "hidden.py").write_text(
        "import sys\nsys.modules['sandlock'] = None\nsys.path.insert(0, " + repr(str(REPOSITORY)) + ")\n" + CONNECTS
    )
    done = subprocess.run([PYTHON, "hidden.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    problem = "this server is to run in a sandbox, and there is none here, so it was not started: sandlock is not inst"
    assert done.stdout.startswith(f"MissingDependencyError {problem}"), done.stderr
    assert "pip install 'mcp-magic[sandbox]'" in done.stdout
    assert not (tmp_path / "ran").exists()


@needs_sandlock
def test_nothing_runs_where_the_kernel_has_no_landlock(tmp_path):
    """Inside of a sandbox that refuses the system call, the kernel is as one without Landlock."""
    (tmp_path / "program.py").write_text(CONNECTS)
    outer = textwrap.dedent(f"""
        import sys
        from sandlock import Sandbox
        box = Sandbox(fs_readable=["/"], fs_writable=["/dev/null", {str(tmp_path)!r}],
                      extra_deny_syscalls=["landlock_create_ruleset"], cwd={str(tmp_path)!r})
        box.popen([{PYTHON!r}, "program.py"]).wait()
    """)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", outer], env=environment, capture_output=True, text=True, check=False)
    problem = "sandlock needs Linux 6.12 with Landlock; Linux"
    assert problem in done.stdout, (done.stdout, done.stderr)
    assert "has no Landlock" in done.stdout
    assert not (tmp_path / "ran").exists()


@needs_sandlock
def test_the_version_of_landlock_is_that_of_sandlock():
    import sandlock

    assert landlock_abi() == sandlock.landlock_abi_version()
