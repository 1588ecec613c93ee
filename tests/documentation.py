"""What stands in the documentation: its pages, their blocks of code, the `%mcp` lines in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import parse
from mcp_magic.ipython.commands import AGENT, COMMANDS, EVALUATION, SERVER, SERVERS
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.ipython.commandline import Command

__all__ = ["PAGES", "ROOT", "Block", "Line", "blocks", "check_line", "lines"]

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (
        *sorted((ROOT / "docs").glob("*.md")),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "binder/README.md")),
    )
    if path.exists()
}
"""Name -> file."""

_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<![`\\])`(?P<text>[^`]+)`(?!`)")
_LINE = re.compile(r"^(?:[\w, ]+ = )?(?P<magic>%%?mcp(?:_agent|_eval|_server)?)(?![\w-])(?P<rest>.*)$", re.DOTALL)
_SKETCH = re.compile(r"\[-|\.\.\.|…| \| | \[[A-Z]")
"""What a line has that says how others look, and cannot be typed as it stands. In the middle of a sentence half a line
is enough anyway; what it names has to exist."""


@dataclass(frozen=True)
class Block:
    """A block of code: the page, the number of its first line there, what it says it is in, its text."""

    page: str
    number: int
    language: str
    text: str


@dataclass(frozen=True)
class Line:
    """A `%mcp` line; `typed` whether it stands in a block, to be typed as it is, or in the middle of a sentence."""

    page: str
    number: int
    text: str
    typed: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.number}: {self.text}"


def blocks(page: str) -> Iterator[Block]:
    """Return the fenced blocks of a page."""
    text = PAGES[page].read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        number = text.count("\n", 0, found.start()) + 2
        yield Block(page, number, found["language"], found["text"])


def lines(page: str) -> Iterator[Line]:
    """Return the `%mcp` lines of a page, wherever they stand."""
    text = PAGES[page].read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("%") or re.match(r"[\w, ]+ = %mcp", stripped):
            shown = re.split(r"\s{3,}", stripped)[0]
            if _LINE.match(shown):
                yield Line(page, number, shown, typed=True)
    prose = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in _CODE.finditer(prose):
        code = " ".join(found["text"].split()).replace("\\|", "|")
        if _LINE.match(code):
            yield Line(page, prose.count("\n", 0, found.start()) + 1, code, typed=False)


def check_line(line: Line) -> None:
    """Let the parser of its subcommand read a line.

    Raises:
        CommandError: It does not exist, or does not take that.
    """
    found = _LINE.match(line.text)
    assert found is not None
    rest = found["rest"].strip()
    if rest in ("--help", "--help all") or rest.endswith(" --help"):
        rest = rest.partition("--help")[0].strip()
    command, rest = _command(found["magic"].lstrip("%"), rest)
    if not line.typed or _SKETCH.search(rest):
        _check_options(command, rest)
    else:
        parse(command, split_line(rest))


def _command(magic: str, rest: str) -> tuple[Command, str]:
    if magic != "mcp":
        return {"mcp_agent": AGENT, "mcp_eval": EVALUATION, "mcp_server": SERVER}[magic], rest
    name, _, rest = rest.partition(" ")
    if not name or name.startswith("#"):
        return SERVERS, ""
    if name in ("SUBCOMMAND", "NAME"):
        return SERVERS, ""
    if name not in COMMANDS:
        raise CommandError(f"%mcp has no subcommand {name!r}")
    return COMMANDS[name], rest.strip()


def _check_options(command: Command, rest: str) -> None:
    known = command.parser.options
    for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", rest.partition("-- ")[0]):
        if option not in known:
            raise CommandError(f"{command.typed} has no option {option}")
