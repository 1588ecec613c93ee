"""An observed server in a session: what it used, by call."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from pathlib import Path

import pytest

from mcp_magic import ConnectError, TargetError, UnknownServerError
from mcp_magic.results.results import CheckFailedError
from mcp_magic.session import observation
from tests.environments import ROOT
from tests.support.bundled import load
from tests.support.processes import PYTHON, children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a server is observed on Linux")

SERVER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import os, socket, subprocess, threading
from tests.support.plain import Plain

server = Plain("db")
both = threading.Barrier(2)

@server.tool
def search(query: str) -> str:
    open("data.txt").close()
    return query

@server.tool
def send(to: str) -> str:
    with open(to, "w"): pass
    for port in sys.argv[1:]:
        try: socket.create_connection(("127.0.0.1", int(port))).close()
        except OSError: pass
    subprocess.run(["true"])
    return "sent"

@server.tool
def meet(name: str) -> str:
    both.wait()
    open(name, "w").close()
    both.wait()
    return name

@server.tool
def leave(code: int) -> str:
    os._exit(code)

server.run()
"""


@pytest.fixture
def connect(host, tmp_path):
    """Return what opens a session to the server, observed or not."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "data.txt").touch()

    async def connect(*arguments: str, **options):
        command = [PYTHON, "server.py", *arguments]
        return await host.connect(command, **{"name": "db", "cwd": tmp_path, "observe": True, **options})

    return connect


def used(behaviour) -> dict[str, list[str]]:
    """Return what was used by each call, without the libraries and folders that Python looks into."""
    found: dict[str, list[str]] = {}
    for row in behaviour.rows():
        if row["call"] != "start" and "libraries" not in row["target"] and not row["target"].endswith("/"):
            found.setdefault(row["call"], []).append(f"{row['kind']} {row['target']}")
    return found


async def test_each_call_has_what_it_used(host, connect):
    db = await connect("9")
    await db.call("search", query="x")
    await db.call("send", to="out.txt")
    behaviour = await host.behaviour("db")
    assert used(behaviour) == {
        "search": ["read ./data.txt"],
        "send": ["write ./out.txt", "host 127.0.0.1:9", f"program {os.path.realpath('/usr/bin/true')}"],
    }
    assert "programs" not in tomllib.loads(behaviour.policy())["start"], "the server itself"
    assert ("start", "./server.py") in {(row["call"], row["target"]) for row in behaviour.rows()}
    assert behaviour.note == ""
    assert repr(db.spec).startswith("StdioSpec(command='")
    assert "observe.py" not in db.spec.where


async def test_two_versions_differ_in_the_host_that_one_contacts(host, connect, tmp_path):
    for ports in (["9"], ["9", "10"]):
        db = await connect(*ports)
        await db.call("send", to="out.txt")
        behaviour = await host.behaviour("db")
        if ports == ["9"]:
            behaviour.save(tmp_path / "db.toml")
    with pytest.raises(CheckFailedError) as failure:
        behaviour.check(tmp_path / "db.toml")
    assert str(failure.value) == "db: send now contacts 127.0.0.1:10, which db.toml does not have"


async def test_overlapping_calls_are_not_certain(host, connect):
    db = await connect()
    await asyncio.gather(db.call("meet", name="a"), db.call("meet", name="b"), db.call("search", query="x"))
    df = (await host.behaviour("db")).df
    written = df[df["kind"] == "write"]
    assert set(written["certain"]) == {False}
    assert {"meet"} <= set(written["tool"])


async def test_server_that_is_not_observed_is_started_again(host, connect):
    db = await connect(observe=False)
    await db.call("search", query="x")
    behaviour = await host.behaviour("db")
    assert behaviour.note == "db was started again, and is observed from now on"
    assert used(behaviour) == {}
    await host["db"].call("search", query="x")
    assert used(await host.behaviour("db")) == {"search": ["read ./data.txt"]}


async def test_behaviour_goes_on_after_a_server_died(host, connect):
    db = await connect()
    with pytest.raises(Exception, match="db"):
        await db.call("leave", code=3)
    await host.reconnect("db")
    await db.call("search", query="x")
    behaviour = await host.behaviour("db")
    assert behaviour.calls == ["leave", "search"]
    assert used(behaviour) == {"search": ["read ./data.txt"]}


async def test_observed_server_ends_with_its_session(host, connect):
    db = await connect()
    (observer,) = children("observe.py")
    processes = [observer, *observer.children()]
    assert len(processes) == 2
    await db.close()
    assert [process for process in processes if process.is_running()] == []


async def test_secrets_in_names_are_masked(host, connect):
    secret = "sk-proj-0123456789abcdefghij"
    db = await connect(env={"API_KEY": secret})
    await db.call("send", to=secret)
    behaviour = await host.behaviour("db")
    assert secret not in f"{behaviour}{behaviour.df.to_json()}{behaviour.policy()}"


async def test_lines_that_the_server_adds_to_the_log_are_skipped(host, connect):
    db = await connect()
    tap = db.trace.find(observation.Observation)
    [folder] = [word for word in tap.observed(db.spec).args if "mcp_magic-observe-" in word]
    with Path(folder, "log").open("ab") as file:
        file.write(b'{}\n[1]\n[0, "host", "forged:1", true]\n[99, "host", "forged:2", 1]\n[0, [], "x", 1]\n\xff\n')
    assert "forged" not in str((await host.behaviour("db")).df)


async def test_what_cannot_be_observed_says_why(host, connect, monkeypatch, tmp_path):
    await host.connect(load("math_server").server, name="math")
    with pytest.raises(TargetError, match=r"^math has no process here that could be observed: its transport is "):
        await host.behaviour("math")
    with pytest.raises(UnknownServerError):
        await host.behaviour("nowhere")
    with pytest.raises(TargetError, match="a server in this kernel cannot be observed; one with a command can"):
        await host.connect(load("math_server").server, name="other", observe=True)
    with pytest.raises(ConnectError, match="no-such-command"):
        await host.connect(["no-such-command"], observe=True)
    monkeypatch.setattr(observation.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(observation.platform, "machine", lambda: "arm64")
    with pytest.raises(TargetError, match=r"an observed server needs Linux 5\.6 or newer on x86_64 or aarch64"):
        await connect()
