"""Lines about a server whose file has changed since it was started say so, and name the line that starts it again."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_magic.errors import ArgumentsError, MCPMagicError, UnknownToolError
from mcp_magic.notebook import host
from mcp_magic.results.results import CheckFailedError
from tests.support import SUPPORT

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOL = {"name": "look", "description": "Looks.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
CHANGED = "ed.py has changed since it was started; `%mcp reconnect ed` starts it again"


def plain(value: Any) -> str:
    text: str = value._repr_mimebundle_()["text/plain"]
    return " ".join(text.split())


@pytest.fixture
async def edited(magic):
    """Return a session to a server whose file is newer."""
    program = magic.folder / "ed.py"
    program.write_text((SUPPORT / "sick_server.py").read_text())
    told = json.dumps({"tools/list": {"tools": [TOOL]}})
    connection = await host.connect([sys.executable, str(program), told], name="ed")
    await magic("snapshot ed -o before.json")
    os.utime(program, (time.time() + 5,) * 2)
    return connection


LINES = (
    *("", "tools", "tools ed", "resources ed", "templates ed", "prompts ed", "tool ed:look", "lint ed"),
    *("diff ed before.json", "snapshot ed", "stubs ed -o ed_stubs.py", "docs ed -o ed.md"),
)


@pytest.mark.usefixtures("edited")
async def test_lines_about_an_edited_server_say_so(magic):
    report = await magic("doctor ed")
    changed, _, todo = CHANGED.partition("; ")
    assert ("warning", changed, todo) in [tuple(remark) for remark in report["connect"].remarks]
    for line in LINES:
        assert CHANGED in plain(await magic(line)), line
    await magic("reconnect ed")
    os.utime("ed.py", (0, 0))
    for line in LINES:
        assert "starts it again" not in plain(await magic(line)), line


async def test_lost_edited_server_has_its_advice_once(magic, edited):
    Path("ed.py").write_text("no program(")
    await magic.error(MCPMagicError, "reconnect ed")
    assert edited.state == "lost"
    assert plain(await magic("")).count("%mcp reconnect ed") == 1


async def test_errors_about_what_an_edit_may_have_added_say_so(magic, edited):
    unknown = "unknown argument 'new'"
    for line, kind, problem in (
        ("call ed:look new=1", ArgumentsError, unknown),
        ("call ed:look $new", ArgumentsError, unknown),
        ("assert ed:look new=1", ArgumentsError, unknown),
        ("map ed:look new={row.a} --rows $rows", ArgumentsError, unknown),
        ("bench ed:look new=1", ArgumentsError, unknown),
        ("form ed:look new=1", ArgumentsError, unknown),
        ("call ed:glance", UnknownToolError, "ed has no tool 'glance'"),
    ):
        error = await magic.error(kind, line, new={"new": 1}, rows=[{"a": 1}])
        assert error.startswith(problem)
        assert error.endswith(f"\n  {CHANGED}")
    with pytest.raises(ArgumentsError) as caught:
        await edited.tools.look(new=1)
    assert str(caught.value).endswith(f"\n  {CHANGED}")
    file = magic.folder / "before.json"
    file.write_text(file.read_text().replace('"look"', '"gone"'))
    assert (await magic.error(CheckFailedError, "diff ed before.json --check")).endswith(f"\n  {CHANGED}")
