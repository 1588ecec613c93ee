"""`%mcp fuzz` as a line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from mcp_magic import ArgumentsError, CommandError, ConfigError, DeniedError, UnknownServerError, host
from mcp_magic.fuzz.report import FuzzReport
from mcp_magic.ipython.commandline import Tab
from mcp_magic.ipython.commands import COMMANDS
from mcp_magic.results.results import CheckFailedError
from tests.environments import ROOT

SERVER = str(ROOT / "tests/support/faulty_server.py")


@pytest.fixture
async def shop(magic, monkeypatch):
    """The lines, with a faulty server, where nobody can be asked."""
    monkeypatch.setattr(host.consent, "policy", "ask")
    monkeypatch.setattr(host.consent, "approver", None)
    await host.connect([sys.executable, SERVER], name="shop")
    return magic


async def test_failed_fuzz_raises_and_keeps_its_report(shop):
    line = "fuzz shop:ratio --seed 3 --seconds 600 --examples 40 --pytest test_shop.py --junit shop.xml -o report"
    error = await shop.error(CheckFailedError, line)
    report = shop.settings.shell.user_ns["report"]
    assert error.splitlines()[1:] == [
        "  traceback: ratio: Traceback (most recent call last): … ZeroDivisionError: by zero",
        "    %mcp call shop:ratio part=1 whole=0",
    ]
    assert error.startswith("shop:ratio: 1 failure (1 traceback); ")
    assert report.df["kind"].tolist() == ["traceback"]
    assert (shop.folder / "test_shop.py").read_text() == report.pytest
    suite = ElementTree.parse(shop.folder / "shop.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("9", "1")


async def test_clean_fuzz_returns_its_report(shop):
    await host.connect([sys.executable, SERVER, "correct"], name="twin")
    report = await shop("fuzz twin --seed 3 --seconds 600 --examples 20 --pytest test_twin.py")
    assert isinstance(report, FuzzReport)
    assert report.ok
    assert len(report.tools) == 12
    assert not (shop.folder / "test_twin.py").exists()


LINES: dict[str, tuple[type[Exception], str]] = {
    "fuzz": (CommandError, "the following arguments are required: SERVER[:TOOL]"),
    "fuzz nowhere": (UnknownServerError, "nowhere"),
    "fuzz shop:delete": (ArgumentsError, "shop:delete is not marked read-only"),
    "fuzz shop:delete --allow delete": (DeniedError, "you cannot be asked here"),
    "fuzz shop --examples none": (CommandError, "expected a whole number, got 'none'"),
    "fuzz shop --junit no/j.xml": (ConfigError, "there is no folder"),
    "fuzz shop --pytest .": (ConfigError, "it is a folder; nothing was sent"),
    "fuzz shop --seconds 0": (CommandError, "expected seconds above 0"),
    "fuzz shop -o 1x": (CommandError, "argument -o/--out: expected a variable's name, got '1x'"),
}


@pytest.mark.parametrize("line", LINES)
async def test_wrong_line_says_what_is_wrong(shop, line):
    kind, says = LINES[line]
    assert says in await shop.error(kind, line)


async def test_tab_offers_servers_tools_and_tools_to_allow(shop):
    completers = COMMANDS["fuzz"].parser.completers
    assert completers["target"](Tab("sh"))[:2] == ["shop", "shop:tags"]
    assert completers["allow"](Tab("de", ("shop",))) == ["delete"]
    assert completers["allow"](Tab("no", ("shop:tags",))) == ["note"]


async def test_test_to_keep_fails_until_the_server_is_mended(shop):
    await shop.error(CheckFailedError, "fuzz shop:ratio --seed 3 --seconds 600 --examples 40 --pytest test_shop.py")
    source = (shop.folder / "test_shop.py").read_text()
    twin, count = re.subn(r'(faulty_server\.py"\)?)', r'\1, "correct"', source)
    assert count == 1
    (shop.folder / "test_twin.py").write_text(twin)
    plugins = [f"-pno:{name}" for name in ("cacheprovider", "nbval", "langsmith_plugin", "asyncio", "xdist")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "test_shop.py", "test_twin.py"],
        capture_output=True,
        text=True,
        cwd=shop.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "shop:ratio: traceback: " in ran.stdout
    assert "FAILED test_shop.py::test_ratio_traceback" in ran.stdout


async def test_program_ends_with_the_status_of_the_fuzz(shop):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        connect = f"--name shop -- {sys.executable} {SERVER} {' '.join(words[:1])}"
        line = [sys.executable, "-m", "mcp_magic", "--connect", connect, "fuzz", *words[1:]]
        return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)

    ran = run("broken", "shop:page", "--seed", "1", "--examples", "40")
    assert ran.returncode == 1
    assert "JSON-RPC error -32603, or HTTP 500" in ran.stdout
    assert " call shop:page number=" in ran.stderr
    ran = run("correct", "shop:page", "--seed", "1", "--examples", "40")
    assert ran.returncode == 0
    assert "nothing failed" in ran.stdout
