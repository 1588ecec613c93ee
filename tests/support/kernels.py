"""A real ipykernel, driven as a frontend drives it."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from queue import Empty
from typing import TYPE_CHECKING, Any

import nbclient
import nbformat
import psutil
from jupyter_client import BlockingKernelClient, KernelManager
from packaging.version import Version

from tests.support.forking import ForkingManager, Specs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["AT_ONCE", "SILENCE_SECONDS", "Cell", "Kernel", "environment", "gone", "run_by_itself", "until"]

START_SECONDS = 60.0
SILENCE_SECONDS = 3.0
AT_ONCE = 10.0
"""Seconds that something may take, on a busy machine, which would otherwise take minutes or an hour."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "IPYTHON", "JUPYTER"))}
    own = {"HOME": str(home), "IPYTHONDIR": str(home / ".ipython"), "COLUMNS": "200", "MCP_MAGIC_PRELOAD": "false"}
    return {**kept, **own, **more}


def until(condition: Callable[[], bool], timeout: float = 30.0, what: str = "") -> float:
    """Wait until a condition holds; return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout, f"not within {timeout:g} s: {what or condition}"
        time.sleep(0.01)
    return time.monotonic() - started


def gone(processes: list[psutil.Process], timeout: float = 10.0) -> None:
    """Wait until processes have ended; kill them if they do not."""

    def alive() -> list[psutil.Process]:
        return [process for process in processes if process.is_running() and not ended(process)]

    try:
        until(lambda: not alive(), timeout, f"the end of {processes}")
    finally:
        for process in alive():
            process.kill()


def ended(process: psutil.Process) -> bool:
    """Whether a process waits only for its parent to take note of its end, which may take init a while."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


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
        shown = [o["content"]["data"] for o in self.outputs if o["msg_type"] in ("execute_result", "display_data")]
        assert len(shown) == 1, f"{len(shown)} displays: {shown}; {self.ename} {self.evalue} {self.streams}"
        return shown[0]  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        return str(self.data["text/plain"])

    @property
    def stdout(self) -> str:
        return self.streams.get("stdout", "")

    @property
    def shown_error(self) -> str:
        """The error as a frontend shows it, without the colours."""
        return _COLOURS.sub("", "\n".join(self.traceback))


class Kernel:
    """A kernel process and a client to it.

    Args:
        directory: Its working directory.
        environment: Its variables.
        python: The Python that it is a kernel of.
        plain: Whether it is started as a person's is, and has imported nothing. The others are forked.
    """

    def __init__(
        self, directory: Path, environment: dict[str, str], python: str = sys.executable, *, plain: bool = False
    ) -> None:
        self._sleepy = python != sys.executable or Version(version("ipykernel")) < Version("7.3")
        self.manager = KernelManager() if plain else KernelManager(kernel_spec_manager=Specs(python=python))
        self.manager.shutdown_wait_time = START_SECONDS  # a busy machine needs more than the 5 s of a frontend
        self.manager.start_kernel(cwd=str(directory), env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_SECONDS)

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.manager.provisioner.pid)

    def start(self, code: str, *, stdin: bool = False, **metadata: Any) -> str:
        """Send a cell, with what a frontend says of it, and return its message id at once."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": stdin}
        return self.send("execute_request", content, **metadata)

    def run(self, code: str, timeout: float = 60.0, **metadata: Any) -> Cell:
        return self.finish(self.start(code, **metadata), timeout)

    def ok(self, code: str, **metadata: Any) -> Cell:
        cell = self.run(code, **metadata)
        assert cell.status == "ok", f"{cell.ename}: {cell.evalue}\n" + "\n".join(cell.traceback)
        return cell

    def finish(self, message_id: str, timeout: float = 60.0) -> Cell:
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
            elif kind in ("execute_result", "display_data") and content["data"]:  # not what a wait has left empty
                cell.outputs.append(message)
        reply = self._reply(message_id, timeout)
        cell.status = reply["content"]["status"]
        cell.seconds = time.monotonic() - started
        return cell

    def until_stream(self, message_id: str, text: str, timeout: float = 30.0) -> None:
        started = time.monotonic()
        seen = ""
        while text not in seen:
            message = self._next(started, timeout)
            if message["parent_header"].get("msg_id") == message_id and message["msg_type"] == "stream":
                seen += message["content"]["text"]

    def send(self, kind: str, content: dict[str, Any], **metadata: Any) -> str:
        """Send a message on the shell channel, as a widget's view does; return its id."""
        message = self.client.session.msg(kind, content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def complete(self, code: str) -> list[str]:
        reply = self.client.complete(code, reply=True, timeout=30)
        return list(reply["content"]["matches"])

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def stop(self, message_id: str) -> Cell:
        """Interrupt a cell, which is to end at once; its `seconds` count from there."""
        self.interrupt()
        return self.finish(message_id, AT_ONCE)

    def restart(self) -> None:
        """What the restart button does, with new ports: another test may have taken the old ones meanwhile."""
        self.client.stop_channels()
        self.manager.restart_kernel(newports=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_SECONDS)

    def shutdown(self) -> None:
        if self.manager.has_kernel:
            self.client.stop_channels()
            self.manager.shutdown_kernel()
        self.manager.cleanup_resources()

    def info(self) -> dict[str, Any]:
        """Ask what the kernel is and can do, as a frontend does at first."""
        for _ in range(10):
            with suppress(TimeoutError):
                return dict(self.client.kernel_info(reply=True, timeout=SILENCE_SECONDS)["content"])
            self.wake()
        raise AssertionError("the kernel does not say what it is")

    def wake(self) -> None:
        """Connect once more: ipykernel 7.0 to 7.2 may leave a request unread until the next connection.

        The reply before it, written past the stream, has taken the edge that would announce it:
        https://github.com/ipython/ipykernel/issues/1554, mended in 7.3 by pull request 1529.
        """
        if not self._sleepy:
            return
        client = BlockingKernelClient()  # of its own session: a second of the same would take the first one's place
        client.load_connection_info(self.manager.get_connection_info())
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            with suppress(TimeoutError):  # it has read what was left, and that blocks it
                client.kernel_info(reply=True, timeout=SILENCE_SECONDS)
        finally:
            client.stop_channels()

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


def run_by_itself(folder: Path, *cells: str, allow_errors: bool = False, **options: Any) -> list[list[Any]]:
    """Execute a notebook of these cells as `nbclient` does, where nobody watches; return the outputs of each.

    What is written in capitals is a variable of its environment, every other option one of the client.
    """
    variables = {name: options.pop(name) for name in [*options] if name.isupper()}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    client = nbclient.NotebookClient(
        notebook,
        timeout=60,
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(folder)}},
        kernel_manager_class=ForkingManager,
        **options,
    )
    client.execute(env=environment(folder, **variables))
    return [cell.outputs for cell in notebook.cells]
