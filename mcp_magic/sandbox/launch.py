"""Runs a command inside sandlock, on this process's own stdin, stdout and stderr.

    MCP_MAGIC_SANDBOX=POLICY python -I -S launch.py -- COMMAND ARG...

The policy is in the environment, because it holds the server's variables, which `ps` must not show. It is JSON:
`sandlock` are the arguments of sandlock's `Sandbox`, `path` is the folder that sandlock is in, and `env` are the
variables of the command. They are not those of this process: an LD_PRELOAD among them would run outside of the sandbox.

This process ends the command and all its descendants when it is told to end, when the command ends, and when the
process that started it ends. It imports nothing of mcp_magic, to start quickly.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "MCP_MAGIC_SANDBOX"
"""The environment variable that holds the policy."""

FAILED = 126  # exit code if the sandbox cannot be made, as of a shell that cannot execute a command

GRACE_SECONDS = 1.5
"""Time for the command to end after its stdin closed or a signal came; the SDK kills this process 2 s after SIGTERM."""

MARK = "sandbox: "  # begins the lines that this process writes to stderr

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of `<linux/prctl.h>`


def main(arguments: list[str]) -> int:
    """Run the command after `--`; return its exit code, or end by the signal that ended it."""
    try:
        policy = json.loads(os.environ.pop(VARIABLE))
        command = arguments[arguments.index("--") + 1 :]
    except (KeyError, ValueError) as error:
        return _fail(f"no policy, or no command after --: {error!r}")
    sys.path.append(policy["path"])
    scratch = tempfile.mkdtemp(prefix="mcp_magic-sandbox-")
    try:
        code = _prepare(policy["before"], scratch) if "before" in policy else 0
        if code == 0:
            code = _run(command, policy, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if code < 0:
        _end_by(-code)
    return code


def _prepare(policy: dict[str, Any], scratch: str) -> int:
    """Install the package of the server; return an exit code. Its output goes to stderr: stdout is the server's."""
    _say(f"installing {policy['package']}")
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        code = _run(policy["command"], policy, scratch, reads=False)
    finally:
        os.dup2(ours, 1)
        os.close(ours)
    if code == 0:
        os.close(os.open(policy["stamp"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    elif code > 0 and os.access(policy["stamp"], os.F_OK):
        _say(f"{policy['package']} stays as it was installed before")
        return 0
    return code


def _fail(problem: str) -> int:
    _say(f"the server was not started: {problem}")
    return FAILED


def _say(text: str) -> None:
    sys.stderr.write(f"{MARK}{text}\n")
    sys.stderr.flush()


def _run(command: list[str], policy: dict[str, Any], scratch: str, *, reads: bool = True) -> int:
    try:
        from sandlock import Sandbox, StdioMode
    except Exception as error:
        return _fail(f"sandlock cannot be imported: {error}")
    options = dict(policy["sandlock"])
    options["fs_writable"] = [*options["fs_writable"], scratch]
    options["env"] = {"TMPDIR": scratch, "TMP": scratch, "TEMP": scratch, **policy["env"]}
    ended, end = os.pipe()
    _adopt_orphans()
    _wake_on_signals(end)
    try:
        process = Sandbox(**options).popen(command, stdin=StdioMode.INHERIT if reads else StdioMode.NULL)
    except Exception as error:
        return _fail(_unresolved(options["net_allow"]) or f"{error}: this system refuses a part of the policy")
    results = []

    def wait() -> None:
        results.append(process.wait())
        os.write(end, b"\0")

    pid = process.pid
    threading.Thread(target=wait, daemon=True).start()
    _watch(ended, pid)
    _kill_descendants()
    result = results[0]
    if result.signal > 0:
        return -int(result.signal)
    if result.reason.name != "KILLED":
        return int(result.exit_code)
    if options.get("max_memory"):
        _say("the server was killed; it may need more than its limit of memory")
    return -signal.SIGKILL


def _unresolved(targets: list[str]) -> str:
    """Return which host of `net` has no address now, or "": sandlock resolves them, and does not say it."""
    import socket

    for target in targets:
        host = target.rpartition(":")[0]
        try:
            "*" in host or "/" in host or socket.getaddrinfo(host.strip("[]"), None)
        except OSError as error:
            return f"net: the host {host} cannot be resolved: {error.strerror or error}"
    return ""


def _adopt_orphans() -> None:
    """Make descendants whose parent ends children of this process, which finds and kills them at its end."""
    import ctypes

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _wake_on_signals(end: int) -> None:
    """Write the number of each signal to the pipe."""
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    for number in _FORWARDED:
        signal.signal(number, lambda *_: None)


def _watch(ended: int, pid: int) -> None:
    """Return when the command has ended; forward signals to it, and kill it if it stays after one."""
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    with suppress(OSError):  # the parent is gone, or in another namespace
        poll.register(os.pidfd_open(os.getppid()), select.POLLIN)
    timeout = None
    while True:
        events = poll.poll(timeout)
        if not events:
            _signal(pid, signal.SIGKILL)
            timeout = GRACE_SECONDS * 1000
            continue
        for file, _ in events:
            if file != ended:  # the parent has ended: stdin is closed, which most servers take as their end
                poll.unregister(file)
                timeout = GRACE_SECONDS * 1000
                continue
            for number in os.read(ended, 512):
                if number == 0:
                    return
                _signal(pid, number)
                timeout = GRACE_SECONDS * 1000


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)  # sandlock makes the command the leader of a group


def _kill_descendants() -> None:
    """Kill what the command left running, also in groups of its own."""
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    """Return the ids of the children of this process."""
    own = str(os.getpid())
    children = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (pathlib takes 10 ms to import)
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
                if fields[1].decode() == own:
                    children.append(int(name))
    return children


def _end_by(number: int) -> None:
    """End this process by a signal, so that its parent sees how the command ended."""
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
