"""The programs of the documentation run as they stand."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from mcp_magic import host

ROOT = Path(__file__).parents[1]
PROGRAMS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "agent.md").read_text("utf-8"), re.M | re.S)


def test_the_page_on_agents_has_programs() -> None:
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
async def test_a_program_on_agents_runs_in_the_folder_of_the_notebooks(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.chdir(ROOT / "notebooks")
    names: dict[str, object] = {}
    await host.connect("servers/math_server.py", name="math")
    try:
        running = eval(compile(program, "docs/agent.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(running):
            await running
    finally:
        await host.close()
        if (own := names.get("host", host)) is not host:
            await own.close()  # type: ignore[attr-defined]
