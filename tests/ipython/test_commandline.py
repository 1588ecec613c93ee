"""How lines are parsed, the help of each subcommand, and what errors of lines advise."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.ipython.commandline import GROUPS, help_for_all, help_for_one, parse
from mcp_magic.ipython.commands import AGENT, COMMANDS
from mcp_magic.schema.words import split_line

# Help


@pytest.mark.parametrize("name", COMMANDS)
def test_subcommand_has_help_with_examples_that_parse(name):
    command = COMMANDS[name]
    text = str(help_for_one(command))
    assert text.startswith(f"%mcp {name}")
    assert command.summary in text
    assert command.group in GROUPS
    assert command.implementation.examples, "an example says more than a usage line"
    for example in command.implementation.examples:
        line = example.split("   ")[0].partition(f"%mcp {name}")
        assert line[1], f"{example!r} is no example of {name}"
        parse(command, split_line(line[2]))
    for action in command.parser.arguments:
        assert action.help, f"%mcp {name} {action.dest} has no help"


@pytest.mark.parametrize("width", [60, 80, 140])
def test_usage_goes_on_below_the_subcommand(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    usage, _, rest = str(help_for_one(COMMANDS["connect"])).partition("\n\n")
    first, *more = usage.splitlines()
    assert first.startswith("%mcp connect [--name NAME]")
    assert more
    assert all(line.startswith("             [") for line in more)
    assert max(map(len, f"{usage}\n{rest}".splitlines()[:8])) <= width


def test_everyday_help_fits_one_screen_and_names_the_rest():
    lines = str(help_for_all(COMMANDS.values(), everyday=True)).splitlines()
    assert len(lines) <= 45
    assert all(len(line) <= 100 for line in lines)
    assert [line.split()[0] for line in lines[:4]] == ["%mcp", "%%mcp_agent", "%%mcp_eval", "%%mcp_server"]
    assert "`%%mcp_server`" in str(help_for_one(COMMANDS["export"]))
    named = [word for line in lines if line.startswith("  and ") for word in line.removeprefix("  and ").split(", ")]
    whole = str(help_for_all(COMMANDS.values())).splitlines()
    for name in COMMANDS:
        explained = any(line.strip().startswith(f"%mcp {name} ") for line in lines)
        assert explained == COMMANDS[name].everyday
        assert explained != (name in named)
        assert any(line.strip().startswith(f"%mcp {name} ") for line in whole)


HELP = {
    "help trace": "%mcp trace ",
    "--help trace": "%mcp trace ",
    "-h call": "%mcp call ",
    "help %mcp call": "%mcp call ",
    "help mcp_agent": "%%mcp_agent ",
    "help %%mcp_server": "%%mcp_server ",
    "trace --help": "%mcp trace ",
    "--help": "%mcp [SUBCOMMAND",
    "help": "%mcp [SUBCOMMAND",
    "help all": "%mcp [SUBCOMMAND",
}


async def test_help_is_about_the_word_beside_it(magic):
    for line, begins in HELP.items():
        assert str(await magic(line)).startswith(begins)
    assert "%mcp connect" in str(await magic("--help"))
    assert str(await magic.settings.run(AGENT, "--help", None, {})).startswith("%%mcp_agent [")
    assert "%%mcp tools takes no cell below" in await magic.error(CommandError, "tools", "a cell")


LAZY = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from mcp_magic.ipython import commands

def imported():
    return sorted(m.removeprefix(commands.__name__) for m in sys.modules if m.startswith(commands.__name__ + "."))

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "mcp_magic")
shell.run_line_magic("mcp", "--help all")
shell.transform_cell("%mcp call?")
shell.Completer.use_jedi = False
completed = shell.Completer.complete(line_buffer="%mcp discon", cursor_pos=11)[1]
try:
    shell.run_line_magic("mcp", "conect")
except Exception as error:
    told = str(error)
before = imported()
from mcp.server import MCPServer
shell.user_ns["math"] = MCPServer("math")
shell.run_line_magic("mcp", "connect math")
unused = [name for name in ("mcp_magic.doctor.examine", "mcp_magic.auth.client") if name in sys.modules]
print((completed, told, before, unused, imported()))
print(len([m for m in sys.modules if m.partition(".")[0] == "mcp_magic"]))
import os
sys.stdout.flush()
os._exit(0)
"""
MODULES = 156
"""Modules of ours that the first `%mcp connect` may import."""


def test_subcommand_is_imported_when_it_is_typed(tmp_path):
    ran = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True, cwd=tmp_path)
    *_, told, number = ran.stdout.splitlines()
    completed, error, before, unused, after = ast.literal_eval(told)
    assert "disconnect" in completed
    assert "Did you mean 'connect'?" in error
    assert before == []
    assert after == [".connect"]
    assert unused == []
    assert int(number) < MODULES


# Errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("connect --tiemout 3 x", "unrecognized arguments: --tiemout. Did you mean '--timeout'? HELP"),
        ("connect math -x", "unrecognized arguments: -x. HELP"),
        ("call", "the following arguments are required: SERVER:TOOL. HELP"),
        ("connect --", "after `--` the command is missing, for example: -- python server.py"),
        ("trace --last x", "argument --last: expected a whole number, got 'x'. HELP"),
        ("assert math:add --under x", "argument --under: expected a number, got 'x'. HELP"),
    ],
)
def test_line_that_cannot_be_parsed_says_why(line, message):
    name, *words = split_line(line)
    with pytest.raises(CommandError) as caught:
        parse(COMMANDS[name], words)
    shows = f"`%mcp {name} --help` shows what it takes."
    assert str(caught.value) == f"%mcp {name}: {message.replace('HELP', shows)}"


MEANT = {
    "conect math": "Did you mean 'connect'?",
    "list math": "Did you mean 'tools', 'resources' or 'prompts', or `%mcp` alone for the servers?",
    "inspect math": "Did you mean 'ui'?",
    "frobnicate math": "'frobnicate'. `%mcp --help` lists them.",
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
    "connect localhost:1/mcp?token=s3cret": "'localhost:1/mcp?token=***' is neither a server file nor a URL.",
    "connect localhost": "'localhost' is not a file, URL, variable or configured name.",
    "connect servers/none.py": "no server file at ",
    "connect ./servers:80/none": "no server file at ",
    "tools --json": "there is no --json. The value of a line is an object: `x = %mcp tools ...` and then `x.df`",
    "record stop": "%mcp record: `%mcp record --stop` stops using the cassette; a file of that name is ./stop",
    "record replay": "%mcp record: `%mcp record FILE --mode replay`; a file of that name is ./replay",
}


async def test_errors_of_lines_say_what_is_meant(magic):
    for line, says in MEANT.items():
        error = await magic.error(MCPMagicError, line)
        assert says in error
        assert len(error.splitlines()) <= 2
    assert list(magic.folder.iterdir()) == []
    for typed in ("localhost:8000/mcp", "localhost:8000", "127.0.0.1/mcp", "a.example.com/mcp"):
        scheme = "https" if "example" in typed else "http"
        error = await magic.error(MCPMagicError, f"connect {typed}")
        assert error == f"{typed!r} is neither a server file nor a URL. Did you mean '{scheme}://{typed}'?"
    (magic.folder / "localhost:8000").touch()
    assert "localhost:8000" in await magic.error(MCPMagicError, "connect ./localhost:8000"), "it is a file"
    with pytest.raises(CommandError) as caught:
        await magic.settings.run(AGENT, "add 3 and 4", None, {})
    assert str(caught.value) == (
        "%%mcp_agent: unrecognized arguments: 3 and 4. The request goes below the line."
        " `%mcp_agent --help` shows what it takes."
    )
