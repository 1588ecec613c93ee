"""Whether a server's program can be found where the server would look for it."""

from __future__ import annotations

import pytest

from mcp_magic.config.programs import missing_program
from mcp_magic.config.specs import StdioSpec


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    (tmp_path / "bin" / "data").write_text("")
    return tmp_path


def missing(command: str, path: str = "/nowhere", **rest: object) -> str:
    return missing_program(StdioSpec(command=command, **rest), {"PATH": path})  # type: ignore[arg-type]


def test_program_is_looked_for_as_the_server_would(folder):
    bin_ = str(folder / "bin")
    assert missing("tool", bin_) == missing("tool", env={"PATH": bin_}) == missing(f"{bin_}/tool") == ""
    assert missing("tool", cwd=folder) == "no program 'tool': is it installed, and on PATH?"
    assert missing("bin/tool", cwd=folder) == missing("./tool", cwd=f"{bin_}") == ""
    assert missing("tool", bin_, env={"PATH": "/nowhere"}).startswith("no program 'tool'")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("npx", "no program 'npx': it comes with Node.js, https://nodejs.org"),
        ("uvx.exe", "no program 'uvx.exe': `%pip install uv` brings it"),
        ("~/bin/tool", "no program '~/bin/tool': `~` is for a shell, so write the whole path"),
        ("/no/tool", "no program '/no/tool': is its path right?"),
        ("bin/data", "the program 'bin/data' is a file that cannot be executed"),
        ("a\0b", "no program 'a\\x00b': is it installed, and on PATH?"),
    ],
)
def test_missing_program_says_what_to_do(command, message, folder):
    assert missing(command, cwd=folder) == message


def test_missing_folder_is_named(folder):
    assert missing("tool", cwd=folder / "no") == f"no folder {str(folder / 'no')!r}: its cwd names where it runs"
