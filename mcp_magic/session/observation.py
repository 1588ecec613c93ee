"""The process of an observed server: its command goes through `sandbox/observe.py`, and its uses belong to calls.

A call is in flight from the message that calls the tool to the message that answers. Each begin and end of one is a new
moment, a number that the observer reads from memory shared with it, while the server waits. So no clocks are compared.
What a server does after its answer, such as the work of a task, counts as background.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import finalize

from mcp_magic._text import MAX_NAME, clean
from mcp_magic.errors import TargetError
from mcp_magic.sandbox.behaviour import BACKGROUND, KINDS, LATER, START, Behaviour, Places, Use, source_of
from mcp_magic.sandbox.launch import make_folder
from mcp_magic.trace.trace import OUT, Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_magic.config.specs import StdioSpec

PROGRAM = Path(__file__).parent.parent / "sandbox" / "observe.py"

MACHINES = ("x86_64", "aarch64")  # that the program has a table of system calls for

MAX_MOMENTS = 100_000
"""Moments that are told apart, two a call."""

MAX_LOG = 32_000_000  # bytes that are read of the log; the observer stops before


class Moment(NamedTuple):
    """A time in which the same calls were in flight."""

    phase: str
    calls: tuple[int, ...] = ()


class Observation(Tap):
    """What the processes of one connection use."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._shared: Any = None
        self._place = "/"
        self._program = ""
        self._running: dict[str, int] = {}  # the id of a request -> the number of the call
        self._moments = [Moment(START)]
        self._phase = START
        self.calls: list[str] = []
        """The tools that were called, in the order of the calls."""

    def observed(self, program: StdioSpec) -> StdioSpec:
        """Return the spec that starts a server observed.

        Raises TargetError where that cannot be had, FileNotFoundError if there is no such command.
        """
        if program.sandbox is not None:
            raise TargetError("a server in a sandbox cannot be observed; connect it without its sandbox.")
        if problem := why_not():
            raise TargetError(f"an observed server needs {problem}.")
        place = os.path.realpath(program.cwd or os.curdir)
        name = os.path.join(place, program.command) if os.path.dirname(program.command) else program.command  # noqa: PTH118, PTH120
        command = shutil.which(name, path=program.env.get("PATH", os.environ.get("PATH", os.defpath)))
        if command is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program.command)
        if self._folder is None:
            import mmap  # which a Python in a browser does not have

            path, remove = make_folder("observe")
            finalize(self, remove)
            folder = self._folder = Path(path)
            folder.joinpath("log").touch(0o600)
            folder.joinpath("moment").write_bytes(bytes(8))
            with folder.joinpath("moment").open("r+b") as file:
                self._shared = mmap.mmap(file.fileno(), 8)
        self._place, self._program = place, os.path.realpath(command)
        self.ended()
        args = ("-I", "-S", str(PROGRAM), str(self._folder), "--", command, *program.args)
        return replace(program, command=sys.executable, args=args)

    # What happens in the session

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Begin a call, or end one."""
        if direction == OUT:
            if message.get("method") == "tools/call" and message.get("id") is not None:
                params = message.get("params") or {}
                self.calls.append(clean(str(params.get("name")))[:MAX_NAME])
                self._running[str(message["id"])] = len(self.calls)
                self._phase = BACKGROUND
                self._begin()
            elif message.get("method") == "notifications/cancelled":
                self._end(str((message.get("params") or {}).get("requestId")))
        elif "method" not in message:
            self._end(str(message.get("id")))

    def ended(self) -> None:
        """Forget the calls of a process that has ended."""
        self._running, self._phase = {}, START
        self._begin()

    def _end(self, number: str) -> None:
        if self._running.pop(number, None) is not None:
            self._begin()

    def _begin(self) -> None:
        """Begin a moment."""
        if len(self._moments) > MAX_MOMENTS:
            return
        calls = tuple(self._running.values())
        moment = Moment("" if calls else self._phase, calls)
        self._moments.append(Moment(LATER) if len(self._moments) == MAX_MOMENTS else moment)
        if self._shared is not None:
            self._shared[:] = (len(self._moments) - 1).to_bytes(8, "little")

    # What was used

    def behaviour(self, server: str, spec: StdioSpec, mask: Callable[[str], str]) -> Behaviour:
        """Return what was used so far; `mask` hides the secrets in names."""

        def text_of(path: str) -> str:
            return clean(mask(path.encode("utf-8", "backslashreplace").decode()))

        counts, remarks = self._read()
        uses: list[Use] = []
        for (number, kind, target), count in counts.items():
            moment = self._moments[number]
            tools = tuple(self.calls[call - 1] for call in moment.calls)
            for call in moment.calls or (moment.phase,):
                uses.append(Use(call, tools, kind, text_of(target), count, len(moment.calls) < 2))
        places, program = Places(self._place), text_of(self._program)
        return Behaviour(server, spec.where, uses, [*self.calls], places, [mask(text) for text in remarks], program)

    def _read(self) -> tuple[dict[tuple[int, str, str], int], list[str]]:
        """Return (moment, kind, target) -> how often, and the remarks."""
        counts: dict[tuple[int, str, str], int] = {}
        remarks: dict[str, None] = {}
        for moment, kind, target, count in self._lines():
            if kind == "remark":
                remarks[target] = None
            elif kind in KINDS and 0 <= moment < len(self._moments):
                key = moment, kind, source_of(target) if kind == "read" else target
                counts[key] = max(counts.get(key, 0), count)
        return counts, [*remarks]

    def _lines(self) -> Iterator[tuple[int, str, str, int]]:
        """Yield the lines of the log; the server, which could write to it, may have broken some."""
        if self._folder is None:
            return
        with (self._folder / "log").open("rb") as file:
            lines = file.read(MAX_LOG).split(b"\n")
        for line in lines:
            try:
                moment, kind, target, count = json.loads(line)
            except (ValueError, TypeError):
                continue
            if type(moment) is type(count) is int and isinstance(kind, str) and isinstance(target, str):
                yield moment, kind, target, count


def why_not() -> str:
    """Return what is missing to observe a server here, or ""."""
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine in MACHINES:
        return ""
    return f"Linux 5.6 or newer on {' or '.join(MACHINES)}, for example in a container; this is {system} on {machine}"
