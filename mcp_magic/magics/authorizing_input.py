"""A log-in in a terminal, and in consoles whose kernel gets no clicks.

In a terminal the event loop runs on while a line is awaited. In a kernel `input()` stops it; the callback has a
thread of its own, so the browser gets its page, and the person goes on with Enter.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_magic.magics.asking_input import InputAsker
from mcp_magic.magics.interrupts import interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.auth.login import LogIn

__all__ = ["LogInInput", "in_terminal"]

TERMINAL = (
    "Waiting for the browser to come back. If it is on another machine, paste the address that it is sent to here; "
    "c cancels."
)
CONSOLE = "Enter when the browser says that you can close its window, or paste the address that it shows; c cancels: "


async def in_terminal(login: LogIn) -> None:
    """Print a log-in and wait for the browser, or for a line with the address."""
    from mcp_magic.widgets.authorization_text import login_text

    print(f"{login_text(login)}\n{TERMINAL}", flush=True)
    with _lines() as lines:
        answered = asyncio.ensure_future(login.answered())
        try:
            while not answered.done():
                line = asyncio.ensure_future(lines.get())
                await asyncio.wait({answered, line}, return_when=asyncio.FIRST_COMPLETED)
                if line.done():
                    _take(login, line.result())
                line.cancel()
        finally:
            answered.cancel()


def _take(login: LogIn, line: str) -> None:
    """Take a line; what is wrong with it is printed. The end of the input leaves it to the browser."""
    text = line.strip()
    if text.lower() in ("c", "cancel"):
        login.cancel()
    elif text and (problem := login.pasted(text)):
        print(problem, flush=True)


@contextmanager
def _lines() -> Iterator[asyncio.Queue[str]]:
    """Read lines from the terminal without stopping the loop, where the loop can wait for files (not on Windows)."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop, stdin = asyncio.get_running_loop(), sys.stdin

    def read() -> None:
        line = stdin.readline()
        if line:
            lines.put_nowait(line)
        else:  # the end: from now on it would be readable for ever
            loop.remove_reader(stdin)

    try:
        loop.add_reader(stdin, read)
    except (NotImplementedError, OSError, ValueError):
        yield lines
        return
    try:
        yield lines
    finally:
        loop.remove_reader(stdin)


class LogInInput(InputAsker):
    """An authorizer that asks by `input()`, without an echo: the address holds the code, and a notebook keeps lines."""

    async def authorize(self, login: LogIn) -> None:
        """Show a log-in, and ask until it is answered.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        from mcp_magic.widgets.authorization_text import login_text

        self._read = _unseen
        self._until = None if self._seconds is None else time.monotonic() + self._seconds
        self._write(login_text(login))
        try:
            while not login.outcome:
                line = self._line(CONSOLE).strip()
                if line.lower() in ("c", "cancel"):
                    login.cancel()
                elif line and (problem := login.pasted(line)):
                    self._write(problem)
                await asyncio.sleep(0)  # an answer that came meanwhile is taken now
                await asyncio.sleep(0)
            return
        except EOFError:
            login.cancel()
        except KeyboardInterrupt:
            login.cancel()
            await interrupt()
        await login.answered()


def _unseen(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)
