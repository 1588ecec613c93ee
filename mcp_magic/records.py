"""Records of a server's stderr: lines that belong together, and tracebacks with the frames of libraries folded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import PurePath
from typing import TYPE_CHECKING

from mcp_magic.display.document import Verbatim

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINES = 1000  # maximum number of lines of one record: a server may indent all that it writes

_TRACEBACK = "Traceback (most recent call last):"
_GROUP = f"Exception Group {_TRACEBACK}"
_BAR = re.compile(
    r" *(?:\| ?|\+ (?=Exception Group )|\+-[-+]*(?: [\d.]+ -+)?$)"
)  # what stands before the lines of a group
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_LEVEL = re.compile(r"\b(DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARN": "warning", "FATAL": "critical"}
_FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/](?P<package>[\w-]+)")
_PYTHON = re.compile(r"[\\/]lib(?:64)?[\\/]python\d|^<frozen ")
_MARKS = re.compile(r"[\s~^]+$")  # the marks below a line of source


class _Part(Enum):
    """What the last line of a record is a part of."""

    TEXT = auto()
    FRAMES = auto()
    ERROR = auto()
    CHAIN = auto()
    GROUP = auto()


@dataclass
class GrowingRecord:
    """A record to which lines are added as they come."""

    lines: list[str] = field(default_factory=list)
    _part: _Part = _Part.TEXT

    def add(self, text: str) -> bool:
        """Add a line, or the lines of a record; return False if it begins another record."""
        first, *others = text.split("\n")
        part = self._part_of(first) if self.lines else self._begun(first)
        if part is None or len(self.lines) >= MAX_LINES:
            return False
        self._part = part
        self.lines.append(text)
        for line in others:
            self._part = self._part_of(line) or self._part
        return True

    @staticmethod
    def _begun(line: str) -> _Part:
        if without_bars(line).startswith(_GROUP):
            return _Part.GROUP
        return _Part.FRAMES if _is_traceback(line) else _Part.TEXT

    def _part_of(self, line: str) -> _Part | None:
        is_blank, is_indented = not line.strip(), line[:1].isspace()
        begun = self._begun(line)
        if begun is _Part.GROUP or line.startswith(_TRACEBACK):
            logged = self._part is _Part.TEXT and level(self.lines[0]) in ("", "error", "critical")
            return begun if logged or self._part is _Part.CHAIN else None
        if self._part is _Part.FRAMES:
            return _Part.FRAMES if is_blank or is_indented else _Part.ERROR
        if self._part is _Part.TEXT:
            return _Part.TEXT if is_indented and not is_blank else None
        if line.startswith(_CHAINED):
            return _Part.CHAIN
        return self._part if is_blank or is_indented else None


def level(record: str) -> str:
    """Return the level that the first line of a record names, or ""; that of a traceback is "error".

    >>> level("2026-01-01 WARN: slow"), level("ready"), level("Traceback (most recent call last):")
    ('warning', '', 'error')
    """
    first, _, rest = record.partition("\n")
    name = _LEVEL.search(first[:100])
    if name is None or _is_traceback(first):
        logged = rest.startswith(_TRACEBACK) or without_bars(rest).startswith(_GROUP)
        return "error" if logged or _is_traceback(first) else ""
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
    """Return the author's own line that failed last, and its exception; without one the last exception."""
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
    ... ValueError: no such city''').shown)
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
    def shown(self) -> str:
        """The text to display."""
        sections = _sections(self)
        if not (headline := _headline(sections)):
            return str(self)
        lines = [headline]
        for section in sections:
            lines += [*section.head, *_folded(section.frames), *section.error]
        return "\n".join(lines)
