"""Programs in a terminal, driven as a person does who types."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import time
from typing import TYPE_CHECKING

import psutil
from pexpect.fdpexpect import fdspawn

from tests.support.forking import Process, fork
from tests.support.kernels import AT_ONCE, environment, until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NOISE", "Terminal"]

PROMPT = r"In \[(\d+)\]: $"
NOISE = ("was never awaited", "was never retrieved", "Task was destroyed", "asyncio/", "ExceptionGroup", "anyio")
LINES, COLUMNS = 50, 150


class Terminal:
    """IPython in a terminal, or another program with its prompt; forked from a process that has imported it.

    Attributes:
        child: What it prints, as `pexpect` reads it.
        process: Its process.
        said: All that was printed before the prompts.
    """

    def __init__(self, folder: Path, *options: str, program: str = "IPython", **variables: str) -> None:
        master, slave = os.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", LINES, COLUMNS, 0, 0))
        own = environment(folder, **{"TERM": "dumb", "COLUMNS": str(COLUMNS), "LINES": str(LINES), **variables})
        self.process = Process(fork([program, "--no-confirm-exit", *options], folder, own, (slave, slave, slave)))
        os.close(slave)
        self.child = fdspawn(master, encoding="utf-8", timeout=60)
        self.said = ""
        self.wait()

    def wait(self) -> str:
        """Wait for the prompt; return what came before it."""
        self.child.expect(PROMPT)
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(self.child.before))
        self.said += said
        return said

    def send(self, line: str) -> None:
        self.child.sendline(line)

    def run(self, *lines: str) -> str:
        """Type lines, those after the first as the rest of a block; return what was printed."""
        for line in lines[:-1]:
            self.send(line)
            self.child.expect(r"\.\.\.: +$")
        self.send(lines[-1])
        return self.wait()

    def asked(self, line: str, question: str) -> str:
        """Type a line that asks; return what was said before the question."""
        self.send(line)
        self.child.expect(question)
        return str(self.child.before)

    def press(self, key: str) -> None:
        """Press Ctrl and a key."""
        self.child.send(chr(ord(key) - ord("@")))

    def interrupt(self) -> str:
        """Press Ctrl-C; return what was printed until the prompt, which is to come at once.

        Python misses a signal that comes after the prompt of `input()` and before it waits for a line.
        """
        until(lambda: self.process.status() == psutil.STATUS_SLEEPING, what="the program waits")
        started = time.monotonic()
        self.press("C")
        said = self.wait()
        assert time.monotonic() - started < AT_ONCE
        return said

    def asks(self, *answers: str) -> list[str]:
        """Send answers, each after the question that is expected before it; return what was said before each."""
        said = []
        for question, answer in zip(answers[::2], answers[1::2], strict=True):
            self.child.expect(question)
            said.append(str(self.child.before))
            self.send(answer)
        return said

    def close(self) -> None:
        """End the program, and the terminal."""
        self.process.send_signal(9)
        self.child.close()
