"""Entries as text for terminals: wrapped, results indented, signs in front."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from mcp_magic.agent.transcript.entries import Asked, Called, Note, Said
from mcp_magic.agent.transcript.levels import ANSWER, TEXT, Level, shortened
from mcp_magic.agent.transcript.words import SIGNS, about_call, progress_text, status_text, tokens_text
from mcp_magic.core.calltext import argument_rows, call_line
from mcp_magic.results.badges import tool_badges
from mcp_magic.results.plain import terminal_width
from mcp_magic.results.safe import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["call_plain", "entry_plain", "excerpt", "wrapped"]

WIDEST = 100
"""Columns of the text: longer lines are hard to read, however wide the terminal is."""

MOST_LINES = 12
"""Lines of a result, in full; a shortened one has three."""

_INDENT = "    "


def entry_plain(entry: Entry, level: Level, *, tokens: bool) -> str:
    """Return what was asked, said or noted."""
    if isinstance(entry, Said):
        return _said(entry, level, tokens=tokens)
    if isinstance(entry, Asked):
        return _asked(entry, level)
    if isinstance(entry, Note):
        sign = "" if entry.level == "info" else f"{one_line(entry.level, 20)}: "
        return wrapped(f"({sign}{one_line(entry.text, TEXT[Level.FULL])})", indent=" ")
    return ""


def _asked(asked: Asked, level: Level) -> str:
    if asked.role == "system":
        return f"(instructions, {len(asked.text):,} characters)"
    text, rest = shortened(asked.text.strip(), TEXT[level])
    pictures = [f"[{asked.images} image{'' if asked.images == 1 else 's'}]"] if asked.images else []
    lines = [*wrapped(clean(text), margin=2).split("\n"), *pictures, *([rest] if rest else [])]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _said(said: Said, level: Level, *, tokens: bool) -> str:
    text, rest = shortened(said.text.strip(), ANSWER if said.is_answer and level == Level.FULL else TEXT[level])
    shown = one_line(text, TEXT[level]) if level == Level.LINE else clean(text)
    parts = [f"(thinking, {len(said.thinking):,} characters)"] if said.thinking and level == Level.FULL else []
    if shown:
        parts.append(wrapped(shown))
    if rest:
        parts.append(rest)
    if said.images:
        parts.append(f"[{said.images} image{'' if said.images == 1 else 's'}]")
    if said.interrupted:
        parts.append(f"{SIGNS['interrupted']} interrupted")
    if tokens and said.usage:
        parts.append(f"(turn {said.step}: {tokens_text(said.usage)})")
    return "\n".join(parts)


def call_plain(called: Called, level: Level, result: str) -> str:
    """Return the line of a call and, indented below it, what the person changed and what it answered."""
    badges = tool_badges(called.definition, trusted=called.trusted) if called.definition else []
    about = "; ".join(text for text in (about_call(called), progress_text(called)) if text)
    call = f"{one_line(called.name, 100)}({call_line(called.sent, called.definition)})"
    line = " ".join([status_text(called), call, *map(str, badges), *([f"({about})"] if about else [])])
    lines = [wrapped(line, indent=_INDENT)]
    if level == Level.FULL and called.changed_arguments is not None:
        rows = argument_rows(called.arguments, called.sent, called.definition, 60)
        one_lined = ((name, value.replace("\n", "\\n"), mark) for name, value, mark in rows if mark)
        lines += [f"{_INDENT}✎ {name} = {value} ({mark})" for name, value, mark in one_lined]
    if result and level < Level.LINE:
        lines += _indented(result, MOST_LINES if level == Level.FULL else 3)
    return "\n".join(lines)


def excerpt(text: str) -> str:
    """Return as much of a result's text as any display of a transcript has."""
    return text[: MOST_LINES * 400]


def _indented(text: str, most: int) -> Iterator[str]:
    lines = wrapped(clean(text), margin=len(_INDENT)).split("\n")
    # One line more than allowed is shown rather than a line that says that there is one line more.
    shown = lines if len(lines) <= most + 1 else lines[:most]
    yield from (f"{_INDENT}{line}".rstrip() for line in shown)
    if len(shown) < len(lines):
        yield f"{_INDENT}…"


def wrapped(text: str, *, margin: int = 0, indent: str = "") -> str:
    """Return text with its long lines broken; tables and code, whose columns mean something, are cut instead.

    Args:
        text: Clean text.
        margin: Columns that are taken already.
        indent: What stands before the second and later lines of a broken one.
    """
    width = max(min(WIDEST, terminal_width()) - margin, 20)
    lines: list[str] = []
    code = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        code = code != fence
        if len(line) <= width:
            lines.append(line)
        elif code or fence or line.lstrip().startswith("|") or _aligned(line):
            lines.append(line[: width - 1] + "…")
        else:
            hanging = indent or line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def _aligned(line: str) -> bool:
    """Whether a line looks like a row of a table: three cells or more, set apart by spaces."""
    return line.strip().count("  ") >= 2 and len(line) <= WIDEST
