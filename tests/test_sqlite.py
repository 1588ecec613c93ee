"""Twelve processes with the same files at once: no file is damaged, nothing is lost, nobody waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mcp_magic.auth.store import FileStore, KeptTokens
from mcp_magic.cassette.file import CassetteFile
from tests.support.crowd import LINES, options
from tests.support.threads_in import kept

MANY = 12
SECONDS = 120

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, which Windows cannot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("crowd")


@pytest.fixture(scope="module")
def said(folder):
    """Let processes do the same; return what each said."""
    command = [sys.executable, "-m", "tests.support.crowd", str(folder), str(MANY)]
    environment = {**os.environ, "JUPYTER_DATA_DIR": str(folder / "data")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(said) == MANY, done.stderr
    return said


async def test_each_goes_on_with_its_thread_in_one_file(folder, said):
    for number, outcome in said.items():
        turns = outcome["threads"]
        assert isinstance(turns, int), turns
        texts = [text for _, text in await kept(folder / "threads.sqlite", f"t{number}")]
        assert texts == [text for turn in range(turns) for text in ("go", f"{number} said {turn}")]


def test_one_records_on_a_cassette_and_the_others_are_told_so(folder, said):
    (writer,) = [number for number, outcome in said.items() if not outcome["cassette"]]
    for number in said.keys() - {writer}:
        problem = said[number]["cassette"]
        assert "another kernel is recording on it" in problem or "it was changed" in problem
    head, *lines = CassetteFile(folder / "cassette.jsonl").read()
    assert head["server"] == f"s{writer}"
    assert [line["stderr"] for line in lines] == [f"{writer} " * 300 * number for number in range(LINES)]


async def test_decisions_yeses_and_tokens_are_all_kept(folder, said):
    assert {outcome["rest"] for outcome in said.values()} == {True}
    assert len((folder / "data" / "mcp_magic" / "trusted").read_text().splitlines()) == MANY
    records = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert len({(record["server"], record["reason"]) for record in records}) == len(records) == MANY * LINES
    for number in range(MANY):
        store = FileStore(folder / "tokens")
        loaded = await KeptTokens(store, "https://server.example/mcp", options(number), lambda _: None).load()
        assert loaded["tokens"]["access_token"] == f"token {number}"
