"""`%mcp behaviour` as a line."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from mcp_magic import ArgumentsError, CommandError, ConfigError, TargetError, UnknownServerError
from mcp_magic.results.results import CheckFailedError
from tests.environments import ROOT
from tests.support.processes import PYTHON

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a server is observed on Linux")

SERVER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import socket
from tests.support.plain import Plain

server = Plain("db")

@server.tool
def query(sql: str) -> str:
    return open("data.txt").read()

@server.tool
def send(to: str) -> str:
    for port in sys.argv[1:]:
        try: socket.create_connection(("127.0.0.1", int(port))).close()
        except OSError: pass
    return to

server.run()
"""


@pytest.fixture
def db(magic):
    """The lines, and a server in their folder."""
    (magic.folder / "server.py").write_text(SERVER)
    (magic.folder / "data.txt").touch()
    return magic


LINE = f"connect --observe --name db -- {PYTHON} server.py"


async def test_a_line_shows_saves_and_checks(db):
    await db(f"{LINE} 9")
    await db("call db:query sql=x")
    await db("call db:send to=x")
    behaviour = await db("behaviour db --save db.toml")
    shown = str(behaviour)
    assert shown.startswith("Behaviour of db, 2 calls\n")
    assert "query  read     ./data.txt" in shown
    assert "send   host     127.0.0.1:9" in shown
    assert shown.endswith("written to db.toml")
    assert str(await db("behaviour db --check db.toml")).endswith("✓ nothing that db.toml does not have")
    await db(f"{LINE} 9 10")
    await db("call db:send to=x")
    error = await db.error(CheckFailedError, "behaviour db --check db.toml --junit db.xml")
    assert error == "db: send now contacts 127.0.0.1:10, which db.toml does not have"
    cases = ElementTree.parse(db.folder / "db.xml").getroot()[0]
    failures = {case.get("name"): case.findtext("failure") for case in cases}
    assert failures == {"start": None, "send": "send now contacts 127.0.0.1:10"}


async def test_a_policy_is_a_sandbox(db):
    await db(LINE)
    await db("behaviour db --call 'query sql=x' --save db.toml")
    await db(f"connect --sandbox db.toml --name inside -- {PYTHON} server.py")
    assert (await db("call inside:query sql=x")).text == ""


async def test_a_server_is_started_again_and_says_so(db):
    await db(LINE.replace("--observe ", ""))
    note = str(await db("behaviour db --save db.toml")).partition("db was started again")[2].splitlines()
    assert note == [
        ", and is observed from now on: call its tools, here by --call or in other lines, then `%mcp behaviour db` "
        "shows what they do",
        "written to db.toml, of its start only: no tool was called yet",
    ]
    behaviour = await db("behaviour db --call 'query sql=\"a b\"' --call 'send to=x'")
    assert behaviour.calls == ["query", "send"]
    assert behaviour.note == ""


async def test_a_tool_that_reports_an_error_fails_a_check(db):
    await db(LINE)
    line = "behaviour db --call 'query sql=x' --call 'send to=x'"
    await db(f"{line} --save db.toml")
    (db.folder / "data.txt").unlink()
    behaviour = await db(line)
    assert behaviour.note.startswith("db:query failed: ")
    assert "data.txt" in behaviour.note
    assert behaviour.calls == ["query", "send"] * 2
    error = await db.error(CheckFailedError, f"{line} --check db.toml --junit db.xml")
    assert error == f"{behaviour.note}; a check needs calls that work"
    cases = ElementTree.parse(db.folder / "db.xml").getroot()[0]
    failures = {case.get("name"): case.findtext("failure") for case in cases}
    assert failures == {"start": None, "query": behaviour.note}


LINES: dict[str, tuple[type[Exception], str]] = {
    "behaviour": (ArgumentsError, "which server?"),
    "behaviour nowhere": (UnknownServerError, "no server 'nowhere'"),
    "behaviour math": (TargetError, "math has no process here that could be observed: its transport is in-process."),
    "behaviour db --check missing.toml": (ConfigError, "missing.toml: cannot be read: No such file or directory"),
    "behaviour db --save no/db.toml": (ConfigError, "there is no folder"),
    "behaviour db --junit db.xml": (CommandError, "--junit is about a check: add --check FILE"),
    "behaviour db --call ''": (CommandError, "--call takes a tool and its arguments"),
    "behaviour db --call query": (ArgumentsError, "sql"),
    "connect --observe --sandbox read=. --name db -- {python} server.py": (
        TargetError,
        "in a sandbox cannot be observed",
    ),
}


@pytest.mark.parametrize("line", LINES)
async def test_a_line_that_cannot_run_says_why(db, line):
    await db(LINE)
    kind, text = LINES[line]
    assert text in await db.error(kind, line.format(python=PYTHON))


def test_a_line_of_a_terminal_calls_and_checks(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "data.txt").touch()
    program = [PYTHON, "-m", "mcp_magic", "--connect", f"--observe --name db -- {PYTHON} server.py 9"]
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    line = [*program, "behaviour", "db", "--call", "query sql=x"]
    saved = subprocess.run([*line, "--save", "db.toml"], **options)
    assert (saved.returncode, saved.stderr) == (0, "")
    ran = subprocess.run([*line, "--call", "send to=x", "--check", "db.toml"], **options)
    assert (ran.returncode, ran.stderr) == (
        1,
        "CheckFailedError: db: send now contacts 127.0.0.1:9, which db.toml does not have\n",
    )
    assert "send   host     127.0.0.1:9" in ran.stdout
