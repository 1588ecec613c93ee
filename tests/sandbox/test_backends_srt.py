"""Servers in srt, which isolates where there is no sandlock: the real program, where bubblewrap runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import MissingDependencyError, ServerExitedError, TargetError, ToolError
from mcp_magic.sandbox import launch
from mcp_magic.sandbox.backends import isolated
from tests.environments import srt_folder
from tests.support.listening import listening
from tests.support.package_registry import package_registry
from tests.support.processes import PYTHON
from tests.support.raising import said
from tests.support.sandboxes import BIN, BOXED, boxed, needs_uv


@pytest.fixture
def srt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have srt on the path, and no other sandbox."""
    monkeypatch.setenv("PATH", f"{srt_folder()}{os.pathsep}{os.environ['PATH']}")


def policy(line: str, command: str = PYTHON, *args: str) -> dict[str, Any]:
    """Return what the launcher gets for a server in srt."""
    spec = isolated(StdioSpec(command=command, args=args, sandbox=make_sandbox(line)))
    loaded: dict[str, Any] = json.loads(spec.env[launch.VARIABLE])
    return loaded


async def test_a_server_reads_and_writes_as_allowed(host, srt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_OF_THE_KERNEL", "s3cr3t")
    (tmp_path / "[in]").write_text("inside")
    (tmp_path / ".env").write_text("secret")
    env = {"TOKEN": """t0k3n 'of' "a" $HOME""", "NODE_OPTIONS": "--nosuch-option", "LD_PRELOAD": "/evil.so"}
    rights = boxed("read=.", "deny=.env", "write=out", "backend=srt")
    connection = await host.connect(BOXED, name="box", sandbox=rights, env=env)
    assert connection.spec.isolation.endswith("write out, not .env, net nothing, preset python, by srt")
    for name, value in {**env, "SECRET_OF_THE_KERNEL": "", "MCP_MAGIC_TOKEN": "", launch.VARIABLE: ""}.items():
        assert (await connection.call("variable", name=name)).text == value
    assert (await connection.call("read", path="[in]")).text == "inside"
    scratch = (await connection.call("variable", name="TMPDIR")).text
    for path in ("out/x", f"{scratch}/x"):
        assert (await connection.call("write", path=path, text="1")).text == "written"
    assert (tmp_path / "out" / "x").read_text() == "1"
    for path in (".env", str(Path.home() / ".bashrc"), "/etc/shadow", f"/proc/{os.getpid()}/environ"):
        with pytest.raises(ToolError, match=r"No such file|denied"):
            await connection.call("read", path=path)
    with pytest.raises(ToolError, match="Read-only"):
        await connection.call("write", path="new", text="1")
    await connection.call("run", command=f"echo x > {tmp_path.parent}/new; echo x > /tmp/mcp_magic_new")
    assert not (tmp_path.parent / "new").exists()  # it went into a folder in memory, which is gone with the server
    assert not Path("/tmp/mcp_magic_new").exists()
    await host.disconnect("box")
    assert not Path(scratch).exists()


async def test_a_server_reaches_allowed_hosts_through_a_proxy(host, srt):
    with listening() as friend, listening() as stranger:
        allowed, other = (urlsplit(listener.url).port for listener in (friend, stranger))
        connection = await host.connect(BOXED, name="box", sandbox=boxed(f"net=127.0.0.1:{allowed}", "backend=srt"))
        proxy = (await connection.call("variable", name="http_proxy")).text
        for port in (allowed, other):
            with pytest.raises(ToolError, match="refused"):
                await connection.call("connect", host="127.0.0.1", port=port)
            code = f"import urllib.request as u; p = u.ProxyHandler({{'http': {proxy!r}}})"
            code += f"; print(u.build_opener(p).open('http://127.0.0.1:{port}/').status)"
            text = (await connection.call("run", command=f'env -u no_proxy -u NO_PROXY {PYTHON} -c "{code}"')).text
            assert ("200" in text) == (port == allowed), text
        assert friend.came
        assert not stranger.came


@needs_uv
async def test_packages_are_installed_as_in_sandlock(host, srt, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    with package_registry(tmp_path) as registry:
        env = {"UV_DEFAULT_INDEX": f"{registry.url}/simple", "NO_PROXY": "", "no_proxy": ""}
        env["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        connection = await host.connect(["uvx", "boxed"], name="boxed", sandbox="backend=srt", env=env)
        assert "sandbox: installing boxed" in connection.stderr()
        assert (await connection.call("variable", name="UV_OFFLINE")).text == "1"
        assert registry.requests


async def test_options_of_a_command_are_not_those_of_srt(host, srt):
    code = "import sys; print('no key', sys.argv[1:], file=sys.stderr); sys.exit(3)"
    with pytest.raises(ServerExitedError, match=r"no key \['-d', '--settings', 'a b'\]"):
        await host.connect([PYTHON, "-c", code, "-d", "--settings", "a b"], name="box", sandbox="backend=srt")


def test_the_settings_allow_only_what_is_named(srt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in", "out[1]"):
        (tmp_path / name).mkdir()
    settings = policy("read=in,write=out[1],deny=in/.env,net=*.example.com:443,backend=srt")["settings"]
    files = settings["filesystem"]
    out = {"path": f"{tmp_path}/out[1]", "literal": True}
    assert settings["network"] == {"allowedDomains": ["*.example.com:443"], "deniedDomains": []}
    assert files["denyRead"] == ["/", out, f"{tmp_path}/in/.env"]
    assert files["allowWrite"] == [out]
    assert files["denyWrite"] == [f"{tmp_path}/in/.env"]
    assert {"/usr", f"{tmp_path}/in"} <= set(files["allowRead"])
    assert not {"/", "/etc", "/proc", str(Path.home()), str(tmp_path)} & set(files["allowRead"])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("memory=1G", "sandbox: memory: srt has no such limit; leave it out, or use sandlock."),
        ("processes=9", "sandbox: processes: srt has no such limit; leave it out, or use sandlock."),
        ("net=*", "sandbox: net: srt cannot allow *; name the hosts."),
        ("net=10.0.0.0/8:443", "sandbox: net: srt cannot allow 10.0.0.0/8:443; name the hosts."),
    ],
)
def test_what_srt_cannot_do_is_said(srt, line, problem):
    assert said(TargetError, policy, f"{line},backend=srt") == problem


def test_what_srt_needs_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    problem = said(MissingDependencyError, policy, "backend=srt")
    assert problem.endswith("not started: srt is not installed: npm install -g @anthropic-ai/sandbox-runtime.")
    (tmp_path / "srt").write_text("#!/bin/sh\n")
    (tmp_path / "srt").chmod(0o755)
    if sys.platform == "linux":
        problem = said(MissingDependencyError, policy, "backend=srt")
        assert problem.endswith("srt needs bwrap, socat, rg: apt-get install bubblewrap socat ripgrep.")
