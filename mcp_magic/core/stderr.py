"""What a server's standard error says about why it failed: the lines of the cause, and the variables that it misses."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["cause", "not_passed_on"]

MAX_LINES = 6
"""Lines of a cause."""

LAST_LINES = 3
"""Lines that are shown where none looks like a cause."""

CONTINUED = 3
"""Lines that an exception's text may go on for."""

LOOKED_AT = 600
"""Characters of a line that are looked at: a server that is not trusted writes them."""

BOTH_ENDS = 100_000
"""Characters at the beginning and at the end of a longer text that are looked at."""

VARIABLES = 4
"""Variables that are named."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

_TELLING = re.compile(
    r"(?i:error|exception|fatal|panic|required|missing|no such|cannot|can't|could ?n[o']t|unable|must\b|please|fail"
    r"|denied|invalid|refused|unauthori[sz]ed|forbidden|undefined|unknown|unrecognized|unsatisfiable"
    r"|\bno[tn]?\b.{0,60} (?:found|set|defined|installed|provided|given|configured|allowed|supported|exist))"
    r"|\b4\d\d\b|\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b"  # the status of a request, the name of a variable
)

_CHATTER = re.compile(
    r"\W*(?i:npm )?(?i:debug|trace|info|notice|warn|warning)\b"
    r"|.{0,60}\b(?:DEBUG|TRACE|INFO|NOTICE|WARN|WARNING)\b|\(node:\d+\)|.*\w+Warning: "
)
"""What is logged below the level of an error."""

_NOISE = re.compile(
    r"""
    [\s\[\](){}<>,;:.^~|+=*_-]*(?:\d\ -+)?$                   # brackets, rules, marks below a source line
    | \s+(?:at|in)\ .*[:(]                                    # frames: Node, Java, .NET
    | \s*(?:node:|file://|/|[A-Z]:\\)[^\s:]*:\d+(?::\d+)?$    # where Node's source line is
    | \s*throw\ | \s*\.\.\.\ \d+\ more | Node\.js\ v\d
    | \s+\[?[\w$]+\]?:\ (?:null|undefined|true|false|-?\d+|'[^']*'|\[.*|\{.*),?$          # fields of Node's errors
    | goroutine\ \d | created\ by\  | [\w./*()-]+\([\w.,\s{}]*\)$ | \s+\S+\.go:\d+ | exit\ status   # Go
    | note:\ run\ with\  | stack\ backtrace: | \s+\d+:\ .+::  # Rust
    | npm\ (?:error|ERR!)(?:\ \d{3})?(?:\ +(?:A\ complete\ log|Note\ that\ you\ can\ also|tarball,\ folder|/).*)?\s*$
    | \s*For\ further\ information | During\ handling\ of\ the\ above | The\ above\ exception\ was
    """,
    re.VERBOSE,
)
_USAGE = re.compile(r"\s*(?:[\w ]+ )?(?:usage|examples?|flags|options|arguments|commands):(?P<text>.*)", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"
_BRANCH = re.compile(r"^\s*(?:\||\+(?= Exception Group)|\+-\+(?=-))\s?")
"""What stands before the lines of an ExceptionGroup's traceback."""

_TELLS, _PLAIN, _CHATS = 2, 1, 0


def cause(stderr: str) -> list[str]:
    r"""Return the lines that look like the reason of a failure, six at most; the last three where none does.

    Frames of stacks, usage texts, and what is logged below the level of an error are no reason. The first line is one,
    unless it is something of that kind.

    >>> cause("node:child_process:930\n    throw err;\n    ^\n\nError: no ink\n    at f (a.js:1:2) {\n  status: 1\n}\n")
    ['Error: no ink']
    >>> cause("starting\nTraceback (most recent call last):\n  File 'a.py', line 1\n    f()\nKeyError: 'INK'\n")
    ['starting', "KeyError: 'INK'"]
    >>> cause("INFO: one\nINFO: two\nINFO: three\nINFO: four")
    ['INFO: two', 'INFO: three', 'INFO: four']
    """
    if len(stderr) > 2 * BOTH_ENDS:
        stderr = f"{stderr[:BOTH_ENDS]}\n{stderr[-BOTH_ENDS:]}"
    ranks: dict[str, int] = {}
    for line, rank in _Reader().read(stderr):
        ranks.setdefault(line, rank)
    lines = list(ranks)
    chosen = [line for line in lines if ranks[line] == _TELLS]
    if not chosen:
        return lines[-LAST_LINES:] or [line.strip() for line in stderr.splitlines() if line.strip()][-LAST_LINES:]
    if ranks[lines[0]] == _PLAIN:
        chosen.insert(0, lines[0])
    half = MAX_LINES // 2
    return chosen if len(chosen) <= MAX_LINES else chosen[:half] + chosen[-half:]


def not_passed_on(stderr: str, env: Collection[str], typed: str) -> list[str]:
    """Return a hint for each variable that a server's stderr names, that is set here, and that it did not get.

    A setting may be named as programs name their fields: `api_key` is `API_KEY`. Other words count as they are written.

    Args:
        stderr: What it wrote.
        env: The names of the variables that it got, besides those that every server gets.
        typed: The subcommand that takes `--env`.
    """
    from mcp.client.stdio import get_default_environment

    words = dict.fromkeys(re.findall(r"\b[A-Za-z]\w+\b", stderr))
    named = dict.fromkeys(word.upper() if "_" in word else word for word in words if "_" in word or word.isupper())
    missing = [name for name in named if name in os.environ and name not in {*get_default_environment(), *env}]
    hint = "`{0}` is set here but not passed on: `--env {0}` right after `{1}`"
    return [hint.format(name, typed) for name in missing[:VARIABLES]]


class _Reader:
    """Goes through the lines, and leaves out those that say nothing of a reason."""

    def __init__(self) -> None:
        self._inside = ""  # "frames" or "box" of a traceback, "exception", "usage"
        self._continued = 0

    def read(self, stderr: str) -> Iterator[tuple[str, int]]:
        """Yield lines, each with how much it tells."""
        for whole in stderr.splitlines():
            part = whole if whole.startswith("{") else whole[:LOOKED_AT]
            line = _BRANCH.sub("", _COLOUR.sub("", part), count=1).rstrip()
            if _TRACEBACK in line:
                self._inside = "box" if "╭" in line else "frames"
            elif not self._skips(line):
                yield from self._ranked(line)

    def _skips(self, line: str) -> bool:
        """Whether a line is a part of something that is left out; what ends there is left."""
        if self._inside == "box":  # of rich
            self._inside = "exception" if line.lstrip().startswith("╰") else "box"
            self._continued = CONTINUED + 1
            return True
        if not line.strip():
            self._inside = "" if self._inside == "exception" else self._inside
            return True
        if self._inside == "frames" and not line[0].isspace():
            self._inside, self._continued = "exception", CONTINUED + 1
        if self._inside == "usage" and not line[0].isspace() and not line.endswith(":"):
            self._inside = ""
        return self._inside in ("frames", "usage") or line.lstrip()[0] in "╭╰"

    def _ranked(self, line: str) -> Iterator[tuple[str, int]]:
        if _NOISE.match(line[:LOOKED_AT]):
            return
        usage = _USAGE.match(line[:LOOKED_AT])
        if usage is not None:
            self._inside = "usage"
            if usage["text"].strip():
                yield line.strip(), _PLAIN
            return
        text, level = _logged(line.strip().strip("│").strip())
        text = text[:LOOKED_AT]
        chats = level == _CHATS or (level is None and _CHATTER.match(text) is not None)
        self._continued -= 1
        if self._inside == "exception" and (chats or self._continued < 0):
            self._inside = ""
        if "panicked at " in text:  # of Rust; what it says stands below
            self._inside, self._continued = "exception", 1
        tells = level == _TELLS or self._inside == "exception" or _TELLING.search(text) is not None
        yield text, _CHATS if chats else _TELLS if tells else _PLAIN


def _logged(line: str) -> tuple[str, int | None]:
    """Return the message of a line that is logged as JSON, and what its level says; another line as it is."""
    entry = None
    if line.startswith("{") and line.endswith("}"):
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
    if not isinstance(entry, dict):
        return line, None
    texts = [entry[key] for key in ("message", "msg", "error", "err") if isinstance(entry.get(key), str)]
    level = entry.get("level", entry.get("severity"))
    if not texts:
        return line, None
    high = level >= 50 if isinstance(level, int) else str(level).lower() in ("error", "fatal", "panic", "critical")
    return ": ".join(texts), None if level is None else _TELLS if high else _CHATS
