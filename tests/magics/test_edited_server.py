"""Lines about a server whose file has changed since it was started say so, and name the line that starts it again."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import ArgumentsError, CommandError, MCPMagicError, UnknownToolError
from mcp_magic.notebook import host
from tests.support import SUPPORT
from tests.support.doctors import TOOL

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

SICK = SUPPORT / "sick_server.py"
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
CHANGED = "ed.py has changed since it was started; `%mcp reconnect ed` starts it again"


def plain(value: Any) -> str:
    text: str = value._repr_mimebundle_()["text/plain"]
    return " ".join(text.split())


@pytest.fixture
async def edited(magic: Any, tmp_path: Path) -> Connection:
    """Return a session to a server whose file is newer."""
    program = tmp_path / "ed.py"
    program.write_text(SICK.read_text())
    told = json.dumps({"tools/list": {"tools": [TOOL | {"inputSchema": SCHEMA}]}})
    connection = await host.connect([sys.executable, str(program), told], name="ed")
    await magic("snapshot ed -o before.json")
    os.utime(program, (time.time() + 5,) * 2)
    return connection


LINES = (
    *("", "tools", "tools ed", "resources ed", "templates ed", "prompts ed", "tool ed:look", "lint ed"),
    *("diff ed before.json", "snapshot ed", "stubs ed -o ed_stubs.py", "docs ed -o ed.md"),
)


@pytest.mark.usefixtures("edited")
@pytest.mark.parametrize("line", LINES, ids=[line.replace(" ", "_") or "servers" for line in LINES])
async def test_a_line_about_an_edited_server_says_so(magic: Any, line: str) -> None:
    assert CHANGED in plain(await magic(line))
    await magic("reconnect ed")
    os.utime("ed.py", (0, 0))
    assert "starts it again" not in plain(await magic(line))


async def test_a_lost_edited_server_has_its_advice_once(magic: Any, edited: Connection) -> None:
    Path("ed.py").write_text("no program(")
    with pytest.raises(MCPMagicError):
        await magic("reconnect ed")
    assert edited.state == "lost"
    assert plain(await magic("")).count("%mcp reconnect ed") == 1


@pytest.mark.usefixtures("edited")
async def test_the_doctor_says_that_a_server_was_edited(magic: Any) -> None:
    report = await magic("doctor ed")
    changed, _, todo = CHANGED.partition("; ")
    assert ("warning", changed, todo) in [tuple(remark) for remark in report["connect"].remarks]


@pytest.mark.usefixtures("edited")
async def test_a_failed_diff_says_that_a_server_was_edited(magic: Any, tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text(file.read_text().replace('"look"', '"gone"'))
    with pytest.raises(CommandError) as caught:
        await magic("diff ed before.json --check")
    assert str(caught.value).endswith(f"\n  {CHANGED}")


@pytest.mark.usefixtures("edited")
@pytest.mark.parametrize(
    ("line", "kind", "problem"),
    [
        pytest.param(line, kind, problem, id=name)
        for name, line, kind, problem in (
            ("call", "call ed:look new=1", ArgumentsError, "unknown argument 'new'"),
            ("all arguments", "call ed:look $new", ArgumentsError, "unknown argument 'new'"),
            ("assert", "assert ed:look new=1", ArgumentsError, "unknown argument 'new'"),
            ("map", "map ed:look new={row.a} --rows $rows", ArgumentsError, "unknown argument 'new'"),
            ("bench", "bench ed:look new=1", ArgumentsError, "unknown argument 'new'"),
            ("form", "form ed:look new=1", ArgumentsError, "unknown argument 'new'"),
            ("a new tool", "call ed:glance", UnknownToolError, "ed has no tool 'glance'"),
        )
    ],
)
async def test_an_error_about_what_an_edit_may_have_added_says_so(
    magic: Any, line: str, kind: type[MCPMagicError], problem: str
) -> None:
    with pytest.raises(kind) as caught:
        await magic(line, new={"new": 1}, rows=[{"a": 1}])
    assert str(caught.value).startswith(problem)
    assert str(caught.value).endswith(f"\n  {CHANGED}")


async def test_a_function_of_an_edited_server_says_so_too(edited: Connection) -> None:
    with pytest.raises(ArgumentsError) as caught:
        await edited.tools.look(new=1)
    assert str(caught.value).endswith(f"\n  {CHANGED}")
