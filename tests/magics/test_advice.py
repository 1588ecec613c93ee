"""What help and errors advise works when it is followed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.ipython.commands import AGENT
from mcp_magic.ipython.extension import EmptyCells, help_asked

if TYPE_CHECKING:
    from pathlib import Path

HELP = {
    "help trace": "%mcp trace ",
    "--help trace": "%mcp trace ",
    "-h call": "%mcp call ",
    "help %mcp call": "%mcp call ",
    "help mcp_agent": "%%mcp_agent ",
    "help %%mcp_server": "%%mcp_server ",
    "trace --help": "%mcp trace ",
    "help": "%mcp [SUBCOMMAND",
    "help all": "%mcp [SUBCOMMAND",
}


@pytest.mark.parametrize(("line", "begins"), HELP.items(), ids=HELP)
async def test_help_is_about_what_is_named(magic: Any, line: str, begins: str) -> None:
    assert str(await magic(line)).startswith(begins)


MEANT = {
    "help trcae": "%mcp has no subcommand 'trcae'. Did you mean 'trace'? `%mcp --help` lists them.",
    "math:add a=1": "'math:add'. Did you mean `%mcp call math:add ...`? `%mcp --help` lists them.",
    "http://127.0.0.1:8000/mcp": "%mcp has no subcommand 'http://127.0.0.1:8000/mcp'. Did you mean `%mcp connect"
    " http://127.0.0.1:8000/mcp`? `%mcp --help` lists them.",
    "describe math:add": "%mcp has no subcommand 'describe'. Did you mean 'tool'? `%mcp --help` lists them.",
    "connect python -m server": "%mcp connect: unrecognized arguments: -m server. A command goes after `--`: "
    "%mcp connect -- python -m server",
    "doctor python -m server": "%mcp doctor: unrecognized arguments: -m server. A command goes after `--`: "
    "%mcp doctor -- python -m server",
    "connect npx -y @scope/pkg --name x": "A command goes after `--`: %mcp connect -- npx -y @scope/pkg",
    "connect uvx foo --api-key s3cret": " A command goes after `--`: %mcp connect -- uvx foo --api-key '***'",
    "connect python --nmae x": "Did you mean '--name'?",
    "connect math -x": "%mcp connect: unrecognized arguments: -x. `%mcp connect --help` shows what it takes.",
    "connect localhost:1/mcp?token=s3cret": "'localhost:1/mcp?token=***' is neither a server file nor a URL.",
    "connect localhost": "'localhost' is not a file, URL, variable or configured name.",
    "connect servers/none.py": "no server file at ",
    "connect ./servers:80/none": "no server file at ",
    "tools --json": "there is no --json. The value of a line is an object: `x = %mcp tools ...` and then `x.df`",
    "record stop": "%mcp record: `%mcp record --stop` stops using the cassette; a file of that name is ./stop",
    "record replay": "%mcp record: `%mcp record FILE --mode replay`; a file of that name is ./replay",
}


@pytest.mark.parametrize(("line", "said"), MEANT.items(), ids=MEANT)
async def test_errors_say_what_is_meant(magic: Any, tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(MCPMagicError) as caught:
        await magic(line)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("typed", "scheme"),
    [
        ("localhost:8000/mcp", "http"),
        ("localhost:8000", "http"),
        ("127.0.0.1/mcp", "http"),
        ("a.example.com/mcp", "https"),
    ],
)
async def test_an_address_without_a_scheme_is_told_its_url(magic: Any, typed: str, scheme: str) -> None:
    with pytest.raises(MCPMagicError) as caught:
        await magic(f"connect {typed}")
    assert str(caught.value) == f"{typed!r} is neither a server file nor a URL. Did you mean '{scheme}://{typed}'?"


async def test_a_cassette_may_be_called_stop(magic: Any, tmp_path: Path) -> None:
    (row,) = await magic("record ./stop")
    assert row["cassette"] == "stop"
    await magic("record --stop")


async def test_a_file_that_looks_like_an_address_is_a_file(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "localhost:8000").touch()
    with pytest.raises(MCPMagicError, match="localhost:8000"):
        await magic("connect ./localhost:8000")


async def test_words_behind_the_agent_belong_below(magic: Any) -> None:
    with pytest.raises(CommandError) as caught:
        await magic.settings.run(AGENT, "add 3 and 4", None, {})
    assert str(caught.value) == (
        "%%mcp_agent: unrecognized arguments: 3 and 4. The request goes below the line."
        " `%mcp_agent --help` shows what it takes."
    )
    told = re.search(r"`%mcp_agent (.*)`", "`%mcp_agent --help`")
    assert told is not None
    assert str(await magic.settings.run(AGENT, told[1], None, {})).startswith("%%mcp_agent [")


async def test_what_a_snapshot_advises_finds_it(magic: Any) -> None:
    for line in ("snapshot math", "snapshot math -o api.json", "snapshot math -o 'my api.json'"):
        told = re.search(r"`%mcp (diff .*)`", str(await magic(line)))
        assert told is not None
        assert len(await magic(told[1])) == 0


ASKED = {
    "%mcp call?\n": "%mcp call --help\n",
    "%mcp call ?": "%mcp call --help",
    "  x = %mcp trace??": "  x = %mcp trace --help",
    "%%mcp call?": "%mcp call --help",
    "%mcp?": "%mcp?",
    "%mcp_agent?": "%mcp_agent?",
    "%mcp nothing?": "%mcp nothing?",
    "%mcp read x://y?": "%mcp read x://y?",
    "'%mcp call?'": "'%mcp call?'",
    "%mcp call t x=5?": "%mcp call t x=5?",
}


@pytest.mark.parametrize(("typed", "runs"), ASKED.items(), ids=ASKED)
def test_a_question_mark_asks_for_the_help_of_a_subcommand(typed: str, runs: str) -> None:
    assert help_asked([typed]) == [runs]


def test_empty_server_cell_becomes_a_line_with_advice() -> None:
    assert EmptyCells()(["%%mcp_server shop\n", "\n"]) == ["%mcp_server shop\n"]
    assert EmptyCells()(["%%mcp_server shop\n", "x = 1\n"]) == ["%%mcp_server shop\n", "x = 1\n"]


def test_a_question_mark_in_a_longer_cell_is_its_own() -> None:
    lines = ["text = '''\n", "%mcp call?\n", "'''\n"]
    assert help_asked(lines) == lines
