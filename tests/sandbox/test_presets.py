"""Packages of npm and PyPI in a sandbox: installed from their registry, then run without it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcp_magic.config import sandbox
from mcp_magic.errors import ServerExitedError, TargetError, ToolError
from mcp_magic.sandbox import presets
from mcp_magic.sandbox.presets import needs_of, packages_folder
from tests.environments import needs_node
from tests.support.package_registry import Registry, package_registry
from tests.support.raising import said
from tests.support.sandboxes import BIN, BOXED, REPOSITORY, needs_sandlock, needs_uv
from tests.support.waiting import until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with a folder for data."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "home" / "data"))
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text("the key")
    return tmp_path / "home"


async def tries(host: Any, command: list[str], env: dict[str, str], registry: Registry, home: Path) -> None:
    """Connect twice; see that the package is installed once, and what the server then reaches."""
    for installs in (1, 0):
        connection = await host.connect(command, name="boxed", sandbox=True, env=env)
        place = (await connection.call("variable", name="TMPDIR")).text
        assert (await connection.call("write", path=f"{place}/x", text="x")).text == "written"
        (packages,) = packages_folder().iterdir()
        written = [str(home / "new"), str(home / ".npmrc"), str(packages / "npmrc"), str(packages / "installed")]
        for path in written:
            with pytest.raises(ToolError, match=r"EACCES|Permission denied"):
                await connection.call("write", path=path, text="x")
        with pytest.raises(ToolError, match=r"EACCES|Permission denied"):
            await connection.call("read", path=str(home / ".ssh" / "id"))
        with pytest.raises(ToolError, match=r"EACCES|ECONNREFUSED|denied|refused"):
            await connection.call("connect", host="127.0.0.1", port=registry.port)
        assert connection.stderr().count("sandbox: installing boxed") == installs
        await host.disconnect("boxed")
        requests, registry.requests = registry.requests, []
        assert bool(requests) == bool(installs)


@needs_sandlock
@needs_node
async def test_npx_installs_and_then_runs_without_its_registry(host, tmp_path, home):
    with package_registry(tmp_path) as registry:
        (home / ".npmrc").write_text(f"registry={registry.url}\n//127.0.0.1:{registry.port}/:_authToken=t0k3n\n")
        await tries(host, ["npx", "-y", "boxed"], {}, registry, home)
    (packages,) = packages_folder().iterdir()
    assert (packages / "npmrc").read_text() == f"registry={registry.url}\n"
    assert packages.stat().st_mode & 0o77 == 0
    assert not (home / ".npm").exists()


@needs_sandlock
async def test_a_package_stays_if_it_cannot_be_installed_again(host, tmp_path, home, monkeypatch):
    npx = tmp_path / "npx"
    npx.write_text(f'#!/bin/sh\ncase "$*" in *"-c true") exit $FAILS;; esac\nexec {BOXED[0]} {BOXED[1]}\n')
    npx.chmod(0o755)
    rights = ",".join(f"read={folder}" for folder in (REPOSITORY, sys.prefix, sys.base_prefix))
    for fails, problem in (("1", "installing acme"), ("0", ""), ("1", "acme stays as it was installed before")):
        connecting = host.connect([str(npx), "acme"], name="boxed", sandbox=rights, env={"FAILS": fails})
        if fails == "1" and problem.startswith("installing"):
            with pytest.raises(ServerExitedError, match=problem):
                await connecting
            continue
        assert problem in (await connecting).stderr()
        await host.disconnect("boxed")
        monkeypatch.setattr(presets, "FRESH_SECONDS", -1)


@needs_sandlock
async def test_an_installation_ends_with_its_connect(host, tmp_path, home):
    (tmp_path / "npx").write_text('#!/bin/sh\ntrap "" TERM\nwhile :; do sleep 1000; done\n')
    (tmp_path / "npx").chmod(0o755)
    connecting = asyncio.ensure_future(host.connect([str(tmp_path / "npx"), "acme"], name="boxed", sandbox=True))
    await until(lambda: any(process.name() == "sleep" for process in psutil.Process().children(recursive=True)))
    processes = psutil.Process().children(recursive=True)
    connecting.cancel()
    with suppress(asyncio.CancelledError):
        await connecting
    assert (await asyncio.to_thread(psutil.wait_procs, processes, timeout=30))[1] == []


@needs_sandlock
@needs_uv
async def test_uvx_installs_and_then_runs_without_its_index(host, tmp_path, home):
    with package_registry(tmp_path) as registry:
        env = {"UV_DEFAULT_INDEX": f"{registry.url}/simple", "PATH": f"{BIN}:{os.environ['PATH']}"}
        await tries(host, ["uvx", "boxed"], env, registry, home)
        assert not (home / ".cache").exists()
        with pytest.raises(ServerExitedError, match="sandbox: installing nosuchpackage"):
            await host.connect(["uvx", "nosuchpackage"], name="boxed", sandbox=True, env=env)


def test_every_preset_of_a_line_is_there(home):
    for name in sandbox.PRESETS:
        assert needs_of(name, (), {}, home)


@pytest.mark.parametrize(
    ("preset", "line", "install"),
    [
        ("npx", "-y @acme/server /data", "-y --package @acme/server -c true"),
        ("npx", "--yes --package=a --package b -- run x", "--yes --package=a --package b -c true"),
        ("npx", "-y -- a --yes", "-y --package a -c true"),
        ("npx", "exec -y a@1.2.3 -- -x", "exec -y --package a@1.2.3 -c true"),
        ("npx", "-c a", None),
        ("npx", "-y", None),
        ("uvx", "a --option value", "--from a python -c pass"),
        ("uvx", "a@1.2 x", "--from a@1.2 python -c pass"),
        ("uvx", "--with b --from a==1.0 run x", "--with b --from a==1.0 python -c pass"),
        ("uvx", "-p 3.12 -- a", "-p 3.12 --from a python -c pass"),
        ("uvx", "--with fastmcp python server.py", "--with fastmcp python -c pass"),
        ("uvx", "tool run a", "tool run --from a python -c pass"),
        ("uvx", "run server.py", None),
    ],
    ids=str,
)
def test_a_command_line_says_what_is_installed(preset, line, install, home):
    needs = needs_of(preset, tuple(line.split()), {}, home)
    if install is None:
        assert needs.installation is None
        assert needs.net
        assert "UV_OFFLINE" not in needs.env
        return
    assert needs.installation is not None
    assert " ".join(needs.installation.args) == install
    assert needs.net == ()
    assert needs.env["UV_OFFLINE"] == "1"


def test_a_package_with_a_version_is_installed_once(home, monkeypatch):
    for line in ("a@1.2.3", "@x/a@1.2.3", "a", "@x/a", "a@latest"):
        first = needs_of("npx", (line,), {}, home).installation
        assert first is not None
        first.stamp.touch()
        assert needs_of("npx", (line,), {}, home).installation is None
        monkeypatch.setattr(presets, "FRESH_SECONDS", -1)
        again = needs_of("npx", (line,), {}, home).installation
        assert (again is None) == ("1.2.3" in line)
        monkeypatch.undo()
        monkeypatch.setenv("JUPYTER_DATA_DIR", str(home / "data"))


def test_two_packages_share_no_folder(home):
    lines = ("a", "b", "a@1.0.0", "-p b a", "-p a a")
    folders = {needs_of("npx", tuple(line.split()), {}, home).write for line in lines}
    assert len(folders) == len(lines)
    assert needs_of("npx", ("a", "x"), {}, home).write == needs_of("npx", ("a", "y"), {}, home).write


@pytest.mark.parametrize("preset", ["npx", "uvx"])
def test_a_stranger_does_not_fill_the_folder_of_my_package(preset, home):
    mine = needs_of(preset, ("a",), {"API_KEY": "mine"}, home)
    assert needs_of(preset, ("a",), {"API_KEY": "other"}, home).write == mine.write
    for env in ({"npm_config_registry": "https://evil.example"}, {"UV_INDEX_URL": "https://evil.example"}):
        assert needs_of(preset, ("a",), env, home).write != mine.write
    for env in ({"NODE_OPTIONS": "--require=./x"}, {"PYTHONPATH": "."}, {"LD_PRELOAD": "x.so"}, {"PATH": "."}):
        assert needs_of(preset, ("a",), env, home).write != mine.write
    assert needs_of(preset, ("a",), {}, home, f"/evil/{preset}").write != mine.write


def test_a_local_package_is_readable_and_has_its_own_folder(home):
    for name in ("one", "two"):
        (home / name / "package").mkdir(parents=True)
        (home / name / "package" / "pyproject.toml").write_text("")
    one, two = (needs_of("uvx", ("--from", "./package", "run"), {}, home / name) for name in ("one", "two"))
    assert one.read[1] == str((home / "one" / "package").resolve())
    assert one.write != two.write


def test_a_folder_that_cannot_be_made_is_said(home):
    (home / "data").write_text("a file")
    problem = said(TargetError, needs_of, "npx", ("a",), {}, home)
    assert problem.endswith("for the package cannot be made: Not a directory.")


def test_registries_of_settings_are_reachable_and_keys_stay_out(home):
    (home / ".npmrc").write_text(
        "; a comment\n"
        "registry = https://npm.acme.com/\n"
        "@acme:registry=http://127.0.0.1:4873\n"
        "//npm.acme.com/:_authToken=t0k3n\n"
        "//npm.acme.com/:username=me\n"
        "_auth=dGVzdA==\n"
        "key=-----BEGIN\n"
        "https-proxy=http://me:pw@proxy.acme.com:3128\n"
        "strict-ssl=false\n"
    )
    first = needs_of("npx", ("a",), {}, home).installation
    assert first is not None
    assert first.net == ("npm.acme.com:443", "127.0.0.1:4873", "registry.npmjs.org:443")
    kept = (first.stamp.parent / "npmrc").read_text()
    assert kept == "registry=https://npm.acme.com/\n@acme:registry=http://127.0.0.1:4873\nstrict-ssl=false\n"
    (home / ".config" / "uv").mkdir(parents=True)
    settings = home / ".config" / "uv" / "uv.toml"
    settings.write_text('index-url = "https://pypi.acme.com/simple"\n')
    needs = needs_of("uvx", ("--index", "work=https://more.acme.com/simple", "a"), {}, home)
    assert needs.installation is not None
    assert {*needs.installation.net} >= {"pypi.acme.com:443", "more.acme.com:443"}
    assert str(settings) in needs.read
    settings.write_text('index-url = "https://me:pw@pypi.acme.com/simple"\n')
    needs = needs_of("uvx", ("a",), {}, home)
    assert str(settings) not in needs.read
    assert needs.env["UV_NO_CONFIG"] == "1"


def test_a_script_reads_its_folder_but_no_home(home):
    (home / "project").mkdir()
    for name in ("project/server.py", "server.py"):
        (home / name).write_text("")
    assert needs_of("python", ("-u", "project/server.py", "x"), {}, home).read == (str((home / "project").resolve()),)
    for args in (("server.py",), ("-m", "server"), ("-c", "1"), ("nosuch.py",), ()):
        assert needs_of("python", args, {}, home).read == ()


HOSTILE = [
    ("python", "-W {key} evil.py"),
    ("python", "-X {key} evil.py"),
    ("python", "{key}"),
    ("npx", "-y --package {ssh} evil"),
    ("npx", "--package file:{key} evil"),
    ("uvx", "--from {ssh} evil"),
    ("uvx", "--with {key} evil"),
]


@pytest.mark.parametrize(("preset", "line"), HOSTILE)
def test_a_line_of_a_stranger_makes_no_key_readable(preset, line, home):
    ssh = home / ".ssh"
    evil = home.parent / "evil"
    evil.mkdir()
    (evil / "npmrc").write_text(f"cafile={ssh}/id\nregistry=https://evil.example\n")
    env = {"npm_config_userconfig": f"{evil}/npmrc", "UV_PYTHON_INSTALL_DIR": str(ssh), "PYTHONPATH": str(ssh)}
    needs = needs_of(preset, line.format(ssh=ssh, key=ssh / "id").split(), env, evil)
    assert not [path for path in needs.read if ssh.is_relative_to(path) or Path(path).is_relative_to(ssh)]


@pytest.mark.parametrize(
    ("preset", "line"), [("npx", "--registry https://evil.example -c x"), ("uvx", "run --index https://evil.example x")]
)
def test_a_server_reaches_no_registry_of_a_stranger(preset, line, home):
    env = {"npm_config_registry": "https://evil.example", "UV_INDEX_URL": "https://evil.example"}
    needs = needs_of(preset, line.split(), env, home)
    assert needs.installation is None
    assert "evil.example:443" not in needs.net
