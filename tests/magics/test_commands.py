"""Every subcommand has help that works, and errors that say what to do."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import GROUPS, help_for_all, help_for_one, parse, split_line
from mcp_magic.ipython.commands import AGENT, COMMANDS
from mcp_magic.ipython.completion import candidates

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.ipython.commandline import Command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_help_with_examples_that_parse(name: str) -> None:
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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    for action in COMMANDS[name].parser.arguments:
        assert action.help, f"%mcp {name} {action.dest} has no help"


@pytest.mark.parametrize("command", [*COMMANDS.values(), AGENT], ids=lambda command: command.name)
def test_tab_answers_at_every_argument(command: Command) -> None:
    for words in ("", "x ", "x y ", *(f"{option} " for option in command.parser.options)):
        assert not [text for text in candidates(f"{command.name} {words}", {}).texts if not text]


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
unused = [name for name in ("mcp_magic.doctor.examine", "mcp_magic.auth.logout") if name in sys.modules]
print((completed, told, before, unused, imported()))
print(len([m for m in sys.modules if m.partition(".")[0] == "mcp_magic"]))
import os
sys.stdout.flush()
os._exit(0)
"""

MODULES = 150
"""Modules of ours that the first `%mcp connect` may import."""


def test_a_subcommand_is_imported_when_it_is_typed(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True, cwd=tmp_path)
    *_, found, number = ran.stdout.splitlines()
    completed, told, before, unused, after = ast.literal_eval(found)
    assert "disconnect" in completed
    assert "Did you mean 'connect'?" in told
    assert before == []
    assert after == [".connect"]
    assert unused == []
    assert int(number) < MODULES


@pytest.mark.parametrize("width", [60, 80, 140])
def test_usage_goes_on_below_what_is_typed(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    usage, _, rest = str(help_for_one(COMMANDS["connect"])).partition("\n\n")
    first, *more = usage.splitlines()
    assert first.startswith("%mcp connect [--name NAME]")
    assert more
    assert all(line.startswith("             [") for line in more)
    assert max(map(len, f"{usage}\n{rest}".splitlines()[:8])) <= width


def test_the_magics_for_cells_are_in_the_list_as_they_are_typed() -> None:
    lines = str(help_for_all(COMMANDS.values(), everyday=True)).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["%mcp", "%%mcp_agent", "%%mcp_server"]
    assert "`%%mcp_server`" in str(help_for_one(COMMANDS["export"]))


def test_everyday_help_fits_one_screen_and_names_the_rest() -> None:
    lines = str(help_for_all(COMMANDS.values(), everyday=True)).splitlines()
    assert len(lines) <= 45
    assert all(len(line) <= 100 for line in lines)
    named = [word for line in lines if line.startswith("  and ") for word in line.removeprefix("  and ").split(", ")]
    for name in COMMANDS:
        explained = any(line.strip().startswith(f"%mcp {name} ") for line in lines)
        assert explained == COMMANDS[name].everyday
        assert explained != (name in named)


def test_the_whole_list_explains_every_subcommand() -> None:
    lines = str(help_for_all(COMMANDS.values())).splitlines()
    for name in COMMANDS:
        assert any(line.strip().startswith(f"%mcp {name} ") for line in lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "connect --tiemout 3 x",
            "%mcp connect: unrecognized arguments: --tiemout. Did you mean '--timeout'?"
            " `%mcp connect --help` shows what it takes.",
        ),
        (
            "call",
            "%mcp call: the following arguments are required: SERVER:TOOL. `%mcp call --help` shows what it takes.",
        ),
        (
            "connect --",
            "%mcp connect: after `--` the command is missing, for example: -- python server.py",
        ),
        (
            "trace --last x",
            "%mcp trace: argument --last: expected a whole number, got 'x'. `%mcp trace --help` shows what it takes.",
        ),
        (
            "assert math:add --under x",
            "%mcp assert: argument --under: expected a number, got 'x'. `%mcp assert --help` shows what it takes.",
        ),
    ],
)
def test_lines_that_cannot_be_read_say_why(line: str, message: str) -> None:
    name, *words = split_line(line)
    with pytest.raises(CommandError) as caught:
        parse(COMMANDS[name], words)
    assert str(caught.value) == message
