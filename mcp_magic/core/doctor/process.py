"""A stdio server under observation: a process of our own, spoken to by hand.

The SDK hides the process. Here it can be seen: whether it starts, what it writes that is no message, how it
ends when its input ends, and whom it leaves behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.core.doctor.wire import Reply, is_message
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.negotiation import NOISE
from mcp_magic.core.stdio_process import is_read

if TYPE_CHECKING:
    from mcp_magic.config.specs import StdioSpec

__all__ = ["Ending", "Patient"]

LINE_BYTES = 32 * 1024 * 1024
"""Bytes of one line of its output; a message that is longer is a fault of its own."""

GRACE_SECONDS = 2.0
"""Seconds that hosts give a server after the end of its input, and after SIGTERM (specification, "Shutdown"; SDK)."""

CHILD_SECONDS = 0.5
"""Seconds that the processes which it started may take to follow it."""

GARBAGE_LINES = 5

LOOK_SECONDS = 0.05
"""Seconds between two looks at a process that has not read what it was asked."""


@dataclass
class Ending:
    """How a process ended.

    Attributes:
        seconds: The time from the end of its input.
        how: `"by itself"`, `"SIGTERM"` or `"SIGKILL"`.
        code: Its exit code; negative: the signal.
        children: Whether processes that it started outlived it; they are ended.
    """

    seconds: float
    how: str
    code: int | None
    children: bool


class Patient:
    """A process that is started, asked and ended.

    Attributes:
        pid: Its process id.
        garbage: Lines of its output that are no messages, the first few.
        echoes: Whether it sends back what it is sent.
    """

    def __init__(self, spec: StdioSpec) -> None:
        self._spec = spec
        self._errlog = ErrorLog()
        self._process: asyncio.subprocess.Process | None = None
        self.garbage: list[str] = []
        self.echoes = False

    @property
    def pid(self) -> int:
        """Its process id, 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def stderr(self) -> str:
        """The end of its standard error, secrets masked."""
        return self._spec.masked(self._errlog.tail())

    def heard(self) -> str:
        """Return what it has said, on its stderr and where it writes messages."""
        return "\n".join([self.stderr, *self.garbage])

    async def start(self) -> None:
        """Start it as the SDK does; once more where it was put down.

        Raises:
            OSError: It cannot be started.
        """
        from mcp.client.stdio import get_default_environment

        if self._process is not None:  # once more
            self._errlog, self.garbage = ErrorLog(), []
        self._process = await asyncio.create_subprocess_exec(
            self._spec.command,
            *self._spec.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errlog.file,
            env=get_default_environment() | dict(self._spec.env),
            cwd=self._spec.cwd,
            start_new_session=True,
            limit=LINE_BYTES,
        )
        self._errlog.keep_small()

    async def tell(self, message: dict[str, Any]) -> None:
        """Write a message; if nobody reads any more, nothing happens."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def ask(self, message: dict[str, Any], seconds: float) -> Reply:
        """Write a request and wait for its answer; what comes before it and is no message is kept."""
        started = time.perf_counter()
        reply = Reply()
        try:
            async with asyncio.timeout(seconds):
                await self.tell(message)
                reply.message = await self._answer(message["id"])
        except TimeoutError:
            reply.failure = f"no answer in {seconds:g} s"
        except ValueError:
            reply.failure = f"a line of more than {LINE_BYTES >> 20} MB"
        reply.seconds = time.perf_counter() - started
        if reply.message is None and not reply.failure:
            reply.failure = "its output ended"
            await self._ended(1.0)
        return reply

    async def ask_patiently(self, message: dict[str, Any], seconds: float, silence: float) -> Reply:
        """Write a request as `ask` does, and wait no longer than for `silence` seconds after it was read."""
        asking = asyncio.ensure_future(self.ask(message, seconds))
        stdin = self._process.stdin if self._process is not None else None
        try:
            while not asking.done() and not is_read(stdin):
                await asyncio.wait({asking}, timeout=LOOK_SECONDS)
            await asyncio.wait({asking}, timeout=silence)
            return asking.result() if asking.done() else Reply(seconds=silence, failure=f"no answer in {silence:g} s")
        finally:
            asking.cancel()

    def hide_noise(self) -> None:
        """Keep out of its stderr what it wrote about `server/discover`."""
        self._errlog.hide(NOISE)

    async def _answer(self, number: int) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if (found := is_message(line, number)) is not None:
                return found
            self.echoes = self.echoes or "server/discover" in str((is_message(line) or {}).get("method"))
            if line.strip() and is_message(line) is None and len(self.garbage) < GARBAGE_LINES:
                self.garbage.append(self._spec.masked(line.decode("utf-8", "replace").strip())[:200])
        return None

    async def end(self) -> Ending:
        """End it as hosts do: end its input, then SIGTERM, then SIGKILL, each after a while."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        started = time.perf_counter()
        process.stdin.close()
        how = "by itself"
        draining = asyncio.ensure_future(self._drain())
        for name in ("SIGTERM", "SIGKILL"):
            if await self._ended(GRACE_SECONDS):
                break
            how = name
            self._signal(getattr(signal, name, signal.SIGTERM))
        await self._ended(GRACE_SECONDS)
        seconds = time.perf_counter() - started
        left = await self._left_behind()
        self.kill()
        await asyncio.wait({draining}, timeout=1.0)
        draining.cancel()
        return Ending(seconds, how, process.returncode, left)

    def terminate(self) -> None:
        """Tell it and its children to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children at once; when they have ended already nothing happens."""
        if self._process is None:
            return
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        transport: Any = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()
        self._errlog.close()

    async def put_down(self) -> None:
        """End it and its children at once, and wait until it is gone."""
        self.kill()
        if self._process is not None:
            await self._ended(GRACE_SECONDS)

    async def _drain(self) -> None:
        """Read what it still says, so that it is not kept from ending by a full pipe."""
        assert self._process is not None
        assert self._process.stdout is not None
        with suppress(ValueError, ConnectionError):
            while await self._process.stdout.read(65_536):
                pass

    async def _ended(self, seconds: float) -> bool:
        """Wait until the process has ended. Not `wait()`: that waits for children which hold its output, too."""
        assert self._process is not None
        until = time.perf_counter() + seconds
        while self._process.returncode is None and time.perf_counter() < until:
            await asyncio.sleep(0.005)
        return self._process.returncode is not None

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            elif self.code is None and self._process is not None:
                self._process.send_signal(number)

    async def _left_behind(self) -> bool:
        """Whether its process group, which it leads, still has somebody in it after a moment."""
        if not hasattr(os, "killpg") or self.code is None:
            return False
        until = time.perf_counter() + CHILD_SECONDS
        while time.perf_counter() < until:
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return False
            await asyncio.sleep(0.01)
        return True
