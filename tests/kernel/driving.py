"""A real ipykernel, driven as a frontend drives it."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from queue import Empty
from typing import TYPE_CHECKING, Any

import psutil
from jupyter_client import KernelManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["SILENCE_SECONDS", "Cell", "Kernel", "environment", "until"]

START_SECONDS = 60.0
SILENCE_SECONDS = 3.0

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return variables for a kernel that sees nothing of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "IPYTHON", "JUPYTER"))}
    own = {"HOME": str(home), "IPYTHONDIR": str(home / ".ipython"), "COLUMNS": "200", "MCP_MAGIC_PRELOAD": "false"}
    return {**kept, **own, **more}


def until(condition: Callable[[], bool], timeout: float = 10.0, what: str = "") -> float:
    """Wait until a condition holds; return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout, f"not within {timeout:g} s: {what or condition}"
        time.sleep(0.01)
    return time.monotonic() - started


@dataclass
class Cell:
    """What a cell came to."""

    status: str = ""
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    streams: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def data(self) -> dict[str, Any]:
        """The mimebundle of the value that the cell shows."""
        shown = [o["content"]["data"] for o in self.outputs if o["msg_type"] in ("execute_result", "display_data")]
        assert len(shown) == 1, f"{len(shown)} displays: {shown}; {self.ename} {self.evalue} {self.streams}"
        return shown[0]  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text/plain of the value that the cell shows."""
        return str(self.data["text/plain"])

    @property
    def stdout(self) -> str:
        """What the cell printed."""
        return self.streams.get("stdout", "")

    @property
    def shown_error(self) -> str:
        """The error as a frontend shows it, without the colours."""
        return _COLOURS.sub("", "\n".join(self.traceback))


class Kernel:
    """A kernel process and a client to it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(directory), env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_SECONDS)

    @property
    def process(self) -> psutil.Process:
        """The kernel's process."""
        return psutil.Process(self.manager.provisioner.pid)

    def start(self, code: str) -> str:
        """Send a cell and return its message id at once."""
        return str(self.client.execute(code, allow_stdin=False))

    def run(self, code: str, timeout: float = 60.0) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code), timeout)

    def ok(self, code: str, timeout: float = 60.0) -> Cell:
        """Run a cell that must succeed."""
        cell = self.run(code, timeout)
        assert cell.status == "ok", f"{cell.ename}: {cell.evalue}\n" + "\n".join(cell.traceback)
        return cell

    def finish(self, message_id: str, timeout: float = 60.0) -> Cell:
        """Collect what a cell puts out until the kernel is idle again."""
        cell = Cell()
        started = time.monotonic()
        while True:
            message = self._next(started, timeout)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream":
                cell.streams[content["name"]] = cell.streams.get(content["name"], "") + content["text"]
            elif kind == "error":
                cell.ename, cell.evalue, cell.traceback = content["ename"], content["evalue"], content["traceback"]
            elif kind in ("execute_result", "display_data"):
                cell.outputs.append(message)
        reply = self._reply(message_id, timeout)
        cell.status = reply["content"]["status"]
        cell.seconds = time.monotonic() - started
        return cell

    def until_stream(self, message_id: str, text: str, timeout: float = 30.0) -> None:
        """Wait until a running cell has printed `text`."""
        started = time.monotonic()
        seen = ""
        while text not in seen:
            message = self._next(started, timeout)
            if message["parent_header"].get("msg_id") == message_id and message["msg_type"] == "stream":
                seen += message["content"]["text"]

    def send(self, kind: str, content: dict[str, Any]) -> str:
        """Send a message on the shell channel, as a widget's view does; return its id."""
        message = self.client.session.msg(kind, content)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def complete(self, code: str) -> list[str]:
        """Return what Tab offers at the end of `code`."""
        reply = self.client.complete(code, reply=True, timeout=30)
        return list(reply["content"]["matches"])

    def interrupt(self) -> None:
        """What the stop button does."""
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        """What the restart button does."""
        self.manager.restart_kernel()
        self.client.wait_for_ready(timeout=START_SECONDS)

    def shutdown(self) -> None:
        """End the kernel in the orderly way."""
        if self.manager.has_kernel:
            self.client.stop_channels()
            self.manager.shutdown_kernel()
        self.manager.cleanup_resources()

    def wake(self) -> None:
        """What helps a kernel that has been silent for long; most need nothing."""

    def _next(self, started: float, timeout: float) -> dict[str, Any]:
        while (left := timeout - (time.monotonic() - started)) > 0:
            try:
                return self.client.get_iopub_msg(timeout=min(left, SILENCE_SECONDS))  # type: ignore[no-any-return]
            except Empty:
                self.wake()
        raise AssertionError(f"the kernel said nothing for {timeout:g} s")

    def _reply(self, message_id: str, timeout: float) -> dict[str, Any]:
        while True:
            reply = self.client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == message_id:
                return reply  # type: ignore[no-any-return]
