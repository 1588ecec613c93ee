"""Twenty processes with the same files at once: no file is damaged, nothing is lost, nobody waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.core.cassette.file import CassetteFile
from mcp_magic.core.oauth.store import FileStore
from mcp_magic.core.oauth.tokens import KeptTokens
from tests.agent.threads_in import kept
from tests.hostile.crowd import LINES, options

if TYPE_CHECKING:
    from pathlib import Path

MANY = 20
SECONDS = 60

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, which Windows cannot")


def crowd(folder: Path, work: str) -> dict[int, Any]:
    """Let processes do the same; return what each said."""
    command = [sys.executable, "-m", "tests.hostile.crowd", str(folder), str(MANY), work]
    environment = {**os.environ, "JUPYTER_DATA_DIR": str(folder / "data")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(said) == MANY, done.stderr
    return said


async def test_each_goes_on_with_its_thread_in_one_file(tmp_path: Path) -> None:
    for number, turns in crowd(tmp_path, "threads").items():
        texts = [text for _, text in await kept(tmp_path / "threads.sqlite", f"t{number}")]
        assert texts == [text for turn in range(turns) for text in ("go", f"{number} said {turn}")]


def test_one_records_on_a_cassette_and_the_others_are_told_so(tmp_path: Path) -> None:
    said = crowd(tmp_path, "cassette")
    (writer,) = [number for number, problem in said.items() if not problem]
    for number in said.keys() - {writer}:
        assert "another kernel is recording on it" in said[number] or "it was changed" in said[number]
    head, *lines = CassetteFile(tmp_path / "cassette.jsonl").read()
    assert head["server"] == f"s{writer}"
    assert [line["stderr"] for line in lines] == [f"{writer} " * 300 * number for number in range(LINES)]


async def test_decisions_yeses_and_tokens_are_all_kept(tmp_path: Path) -> None:
    assert set(crowd(tmp_path, "yeses_audit_and_tokens").values()) == {True}
    assert len((tmp_path / "data" / "mcp_magic" / "trusted").read_text().splitlines()) == MANY
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert len({(record["server"], record["reason"]) for record in records}) == len(records) == MANY * LINES
    for number in range(MANY):
        store = FileStore(tmp_path / "tokens")
        found = await KeptTokens(store, "https://server.example/mcp", options(number), lambda _: None).get_tokens()
        assert found is not None
        assert found.access_token == f"token {number}"
