"""Records of a server's stderr: lines that belong together, and tracebacks with the frames of libraries folded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.display.document import Verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Item = TypeVar("_Item")

MAX_LINES = 1000  # maximum number of lines of one record: a server may indent all that it writes

MAX_APART = 20  # most messages and lines of others between two lines of a record

_TRACEBACK = "Traceback (most recent call last):"
_GROUP = f"Exception Group {_TRACEBACK}"
_BAR = re.compile(
    r" *(?:\| ?|\+ (?=Exception Group )|\+-[-+]*(?: [\d.]+ -+)?$)"
)  # what stands before the lines of a group
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_LEVEL = re.compile(r"\b(DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARN": "warning", "FATAL": "critical"}
_LOGGED = re.compile(
    r"\W{0,2}(?:(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b[\s:\]|]|\d{1,4}[-/:]\d\d?\b)|\{\""
)  # the beginning of a line of a logger: a level, a time, JSON
_PYDANTIC = re.compile(r"\b\d+ validation errors? for ")
_SQLALCHEMY = ("[SQL: ", "[parameters: ", "(Background on this error at: ")
_FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/](?P<package>[\w-]+)")
_PYTHON = re.compile(r"[\\/]lib(?:64)?[\\/]python\d|^<frozen ")
_MARKS = re.compile(r"[\s~^]+$")  # the marks below a line of source


class _Part(Enum):
    """What the last line of a record is a part of."""

    TEXT = auto()
    MESSAGE = auto()  # of several lines, before a traceback or without one
    FRAMES = auto()
    ERROR = auto()
    CHAIN = auto()
    GROUP = auto()


class _Growing:
    """A record to which lines are added.

    Attributes:
        items: The items whose lines form the record.
        is_open: Whether more of a traceback must follow.
    """

    def __init__(self, line: str, item: Any, place: int) -> None:
        self.items = [item]
        self._first = self._last = line
        self._part = _first_part(line)
        self._place = place

    @property
    def is_open(self) -> bool:
        return self._part in (_Part.FRAMES, _Part.CHAIN)

    def add(self, line: str, after: str, item: Any, place: int) -> bool:
        """Add a line; return False if it is of another record. `after` is the next line of the same source, or ""."""
        apart = place - self._place - 1
        if apart > (0 if self._part is _Part.TEXT else MAX_APART) or len(self.items) >= MAX_LINES:
            return False
        part = self._part_of(line, after)
        if part is None:
            return False
        self.items.append(item)
        self._part, self._last, self._place = part, line, place
        return True

    def _part_of(self, line: str, after: str) -> _Part | None:
        beginning = _first_part(line)
        if beginning is _Part.GROUP or line.startswith(_TRACEBACK):
            is_logged = self._part in (_Part.TEXT, _Part.MESSAGE) and level(self._first) in ("", "error", "critical")
            return beginning if is_logged or self._part is _Part.CHAIN else None
        if self._part is _Part.TEXT:
            return _Part.TEXT if _is_inner(line) else None
        if not line.strip() or line[0].isspace():
            return self._part
        if _LOGGED.match(line):
            return None
        if self._part is _Part.FRAMES:
            return _Part.ERROR
        if line.startswith(_CHAINED):
            return _Part.CHAIN
        # An error's text goes on if it says so, or with the name of what the inner lines below are about.
        goes_on = self._last.endswith(":") or _is_inner(after) or line.startswith(_SQLALCHEMY)
        return self._part if self._part in (_Part.ERROR, _Part.MESSAGE) and goes_on else None


def _first_part(line: str) -> _Part:
    if without_bars(line).startswith(_GROUP):
        return _Part.GROUP
    if _is_traceback(line):
        return _Part.FRAMES
    return _Part.MESSAGE if _PYDANTIC.search(line) else _Part.TEXT


def _is_inner(line: str) -> bool:
    """Whether a line is indented, and so a part of the record before it."""
    return line[:1].isspace() and bool(line.strip()) and not _is_traceback(line)


def grouped(items: Sequence[_Item], line_of: Callable[[_Item], tuple[str, str] | None]) -> list[list[_Item]]:
    """Return the items by record, in the order of the first item of each; an item that is no line is alone.

    Messages, and lines of other threads, may come between the lines of a traceback.

    Args:
        items: Lines and others, in the order in which they came.
        line_of: Returns the source of a line, such as a server, and its text; None for what is no line.
    """
    lines = [line_of(item) for item in items]
    after = [""] * len(lines)
    latest: dict[str, int] = {}
    for place, line in enumerate(lines):
        if line is not None:
            if line[0] in latest:
                after[latest[line[0]]] = line[1]
            latest[line[0]] = place
    rows: list[list[_Item]] = []
    growing: dict[str, list[_Growing]] = {}  # by source: the records that may take its next line
    for place, (item, line) in enumerate(zip(items, lines, strict=True)):
        if line is None:
            rows.append([item])
            continue
        source, text = line
        candidates = growing.get(source, [])
        record = next((candidate for candidate in candidates if candidate.add(text, after[place], item, place)), None)
        if record is None:
            record = _Growing(text, item, place)
            rows.append(record.items)
        others = [candidate for candidate in candidates if candidate.is_open and candidate is not record][:1]
        growing[source] = [record, *others] if record.is_open else [*others, record]
    return rows


def level(record: str) -> str:
    """Return the level that the first line of a record names, or ""; that of a traceback is "error".

    >>> level("2026-01-01 WARN: slow"), level("ready"), level("Traceback (most recent call last):")
    ('warning', '', 'error')
    """
    first, *rest = record.split("\n")
    name = _LEVEL.search(first[:100])
    if name is None or _is_traceback(first):
        return "error" if any(_is_traceback(line) for line in (first, *rest)) else ""
    return _LEVELS.get(name[0], name[0].lower())


def _is_traceback(line: str) -> bool:
    """Whether a line begins a traceback; that of a SyntaxError in the server's own file begins with its place."""
    place = _FRAME.match(line)
    return without_bars(line).startswith((_TRACEBACK, _GROUP)) or (place is not None and not place["function"])


def without_bars(line: str) -> str:
    """Return a line of an exception group without the bars before it; others are as they are."""
    bar = _BAR.match(line)
    return line[bar.end() :] if bar else line


@dataclass
class _Frame:
    file: str
    place: str
    lines: list[str]

    @property
    def package(self) -> str:
        """The library that the frame is in; "" for the author's own code."""
        package = _PACKAGE.search(self.file)
        return package["package"] if package else "Python" if _PYTHON.search(self.file) else ""


@dataclass
class _Section:
    """One traceback of a chain: the lines before its frames, the frames, and the lines of the exception."""

    head: list[str] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=list)
    error: list[str] = field(default_factory=list)


def _sections(text: str) -> list[_Section]:
    sections = [_Section()]
    for line in text.split("\n"):
        section = sections[-1]
        bare = without_bars(line)
        frame = _FRAME.match(bare)
        if frame is not None and not section.error:
            place = ", ".join(
                part for part in (PurePath(frame["file"]).name, f"line {frame['line']}", frame["function"]) if part
            )
            section.frames.append(_Frame(frame["file"], place, [line]))
        elif section.frames and not section.error and bare[:1].isspace():
            section.frames[-1].lines.append(line)
        elif bare.startswith((_TRACEBACK, _GROUP, *_CHAINED)) and section.error:
            sections.append(_Section([line]))
        elif section.frames:
            section.error.append(line)
        else:
            section.head.append(line)
    return sections


def _headline(sections: list[_Section]) -> str:
    """Return the last line of the author's own code in a traceback, and its exception; else the last exception."""
    for section in reversed(sections):
        own = [frame for frame in section.frames if not frame.package]
        if own and section.error:
            return f"{own[-1].place}: {without_bars(section.error[0])}"
    return next((without_bars(section.error[0]) for section in reversed(sections) if section.error), "")


def _folded(frames: list[_Frame]) -> Iterator[str]:
    """Yield the lines of frames; those of libraries in a row are one line."""
    packages: list[str] = []
    for frame in [*frames, None]:
        if frame is not None and frame.package:
            packages.append(frame.package)
            continue
        if packages:
            count = "1 frame" if len(packages) == 1 else f"{len(packages)} frames"
            yield f"  … {count} of {', '.join(dict.fromkeys(packages))}"
            packages = []
        if frame is not None:
            yield from (line for line in frame.lines if not _MARKS.match(line))


class Record(Verbatim):
    """The text of one record, whole; a display shows it with the author's own line first and libraries folded.

    >>> print(Record('''Traceback (most recent call last):
    ...   File "/lib/python3.11/asyncio/runners.py", line 190, in run
    ...     return runner.run(main)
    ...   File "/home/ann/server.py", line 3, in <module>
    ...     main()
    ... ValueError: no such city''').display_text)
    server.py, line 3, <module>: ValueError: no such city
    Traceback (most recent call last):
      … 1 frame of Python
      File "/home/ann/server.py", line 3, in <module>
        main()
    ValueError: no such city
    """

    __slots__ = ()

    @property
    def headline(self) -> str:
        """The line that tells most: of a traceback the author's own line and the exception, else the first line."""
        return _headline(_sections(self)) or self.partition("\n")[0]

    @property
    def display_text(self) -> str:
        """The text to display."""
        sections = _sections(self)
        if not (headline := _headline(sections)):
            return str(self)
        lines = [headline]
        for section in sections:
            lines += [*section.head, *_folded(section.frames), *section.error]
        return "\n".join(lines)
