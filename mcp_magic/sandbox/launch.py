"""Runs a command inside sandlock or srt, on this process's own stdin, stdout and stderr.

    MCP_MAGIC_SANDBOX=POLICY python -I -S launch.py -- COMMAND ARG...

The policy is in the environment, because it holds the server's variables, which `ps` must not show. It is JSON:
`sandlock` are the arguments of sandlock's `Sandbox` and `path` is the folder that sandlock is in, or `srt` is the
program srt and `settings` are its settings; `env` are the variables of the command. They are not those of this process:
an LD_PRELOAD among them would run outside of the sandbox. `before` is the same for a command that installs first.

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
    from collections.abc import Callable
    from typing import Any

VARIABLE = "MCP_MAGIC_SANDBOX"
"""The environment variable that holds the policy."""

FAILED = 126  # exit code if the sandbox cannot be made, as of a shell that cannot execute a command

GRACE_SECONDS = 1.5
"""Time for the command to end after its stdin closed or a signal came; the SDK kills this process 2 s after SIGTERM."""

MARK = "sandbox: "  # begins the lines that this process writes to stderr

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of `<linux/prctl.h>`


def main(arguments: list[str]) -> int:
    """Run the command after `--`; return its exit code, or end by the signal that ended it."""
    try:
        policy = json.loads(os.environ.pop(VARIABLE))
        command = arguments[arguments.index("--") + 1 :]
    except (KeyError, ValueError) as error:
        return _fail(f"no policy, or no command after --: {error!r}")
    folder, remove = make_folder("launch")
    os.mkdir(f"{folder}/scratch")
    try:
        code = _prepare(policy["before"], folder) if "before" in policy else 0
        if code == 0:
            code = _run(command, policy, folder)
    finally:
        remove()
    if code < 0:
        _end_by(-code)
    return code


def make_folder(program: str) -> tuple[str, Callable[[], None]]:
    """Make a temporary folder for a program; return it and what removes it.

    A process that is killed cannot remove its folder, so the next one for the same program does: this one locks its
    own while it lives, and those that nobody locks are left over.
    """
    prefix, place = f"mcp_magic-{program}-", tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith(prefix):
            with suppress(OSError):  # somebody locks it, or it is not ours
                _remove(f"{place}/{name}", _lock(f"{place}/{name}"))
    fresh = tempfile.mkdtemp(prefix=f".{prefix}")  # by this name nobody looks for it, until it is locked
    try:
        lock = _lock(fresh)
    except OSError:  # a disk without locks
        return fresh, lambda: shutil.rmtree(fresh, ignore_errors=True)
    folder = f"{place}/{os.path.basename(fresh)[1:]}"
    os.rename(fresh, folder)
    return folder, lambda: _remove(folder, lock)


def _lock(folder: str) -> int:
    """Lock a folder until the file that is returned is closed; raise OSError if another process has locked it."""
    import fcntl  # which Windows does not have

    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def _remove(folder: str, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _prepare(policy: dict[str, Any], folder: str) -> int:
    """Install the package of the server; return an exit code. Its output goes to stderr: stdout is the server's."""
    _say(f"installing {policy['package']}")
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        code = _run(policy["command"], policy, folder, reads=False)
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
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


def _run(command: list[str], policy: dict[str, Any], folder: str, *, reads: bool = True) -> int:
    """Run a command; return its exit code, or the negative number of the signal that ended it."""
    scratch = f"{folder}/scratch"
    variables = {"TMPDIR": scratch, "TMP": scratch, "TEMP": scratch, **policy["env"]}
    for name in variables:  # sandlock would wait for ever
        if not name or "=" in name:
            return _fail(f"{name!r} cannot be the name of a variable")
    wake, end = os.pipe()
    _adopt_orphans()
    _wake_on_signals(end)
    try:
        start = _start_srt if "srt" in policy else _start_sandlock
        pid, finish = start(command, policy, folder, variables, reads)
    except _RefusedError as error:
        return _fail(str(error))
    results = []

    def wait() -> None:
        results.append(finish())
        os.write(end, b"\0")

    threading.Thread(target=wait, daemon=True).start()
    _watch(wake, pid)
    _kill_descendants()
    return results[0]


class _RefusedError(Exception):
    """Says why there is no sandbox."""


def _start_sandlock(
    command: list[str], policy: dict[str, Any], folder: str, variables: dict[str, str], reads: bool
) -> tuple[int, Callable[[], int]]:
    sys.path.append(policy["path"])
    try:
        from sandlock import Sandbox, StdioMode
    except Exception as error:
        raise _RefusedError(f"sandlock cannot be imported: {error}") from None
    options = {**policy["sandlock"], "env": variables}
    options["fs_writable"] = [*options["fs_writable"], f"{folder}/scratch"]
    try:
        process = Sandbox(**options).popen(command, stdin=StdioMode.INHERIT if reads else StdioMode.NULL)
    except Exception as error:
        problem = _unresolved(options["net_allow"]) or f"{error}: this system refuses a part of the policy"
        raise _RefusedError(problem) from None

    def finish() -> int:
        result = process.wait()
        if result.signal > 0:
            return -int(result.signal)
        if result.reason.name != "KILLED":
            return int(result.exit_code)
        if options.get("max_memory"):
            _say("the server was killed; it may need more than its limit of memory")
        return -signal.SIGKILL

    return process.pid, finish


def _start_srt(
    command: list[str], policy: dict[str, Any], folder: str, variables: dict[str, str], reads: bool
) -> tuple[int, Callable[[], int]]:
    """Start srt, which gets the server's variables under other names, so that they have no effect outside.

    Its own files are in a folder that the server cannot write: its settings, and the sockets of its proxies.
    """
    import shlex
    import subprocess

    own, scratch = f"{folder}/srt", f"{folder}/scratch"
    os.makedirs(own, exist_ok=True)
    settings = policy["settings"]
    files = settings["filesystem"]
    more = {"denyRead": [scratch], "allowWrite": [scratch], "allowRead": [own]}
    files = {**files, **{key: [*files[key], *paths] for key, paths in more.items()}}
    with os.fdopen(os.open(f"{own}/settings.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({**settings, "filesystem": files}, file)
    names = [name for name in variables if name.isidentifier() and name.isascii()]
    exports = "".join(f'export {name}="$MCP_MAGIC_{name}"; unset MCP_MAGIC_{name}; ' for name in names)
    line = f"{exports}exec {shlex.join(command)}"  # as one argument: srt would take options of the command as its own
    process = subprocess.Popen(
        [policy["srt"], "--settings", f"{own}/settings.json", "-c", line],
        stdin=None if reads else subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": own, **{f"MCP_MAGIC_{name}": variables[name] for name in names}},
        start_new_session=True,
    )
    return process.pid, process.wait


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

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _wake_on_signals(end: int) -> None:
    """Write the number of each signal to the pipe."""
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the last is not on Windows
        signal.signal(number, lambda *_: None)


def _watch(wake: int, pid: int) -> None:
    """Return when the command has ended; forward signals to it, and kill it if it stays after one."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    with suppress(OSError, AttributeError):  # the parent is gone or in another namespace; macOS has no such thing
        poll.register(os.pidfd_open(os.getppid()), select.POLLIN)
    timeout = None
    while True:
        events = poll.poll(timeout)
        if not events:
            _signal(pid, signal.SIGKILL)
            timeout = GRACE_SECONDS * 1000
            continue
        for file, _ in events:
            if file != wake:  # the parent has ended: stdin is closed, which most servers take as their end
                poll.unregister(file)
                timeout = GRACE_SECONDS * 1000
                continue
            for number in os.read(wake, 512):
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
    """Return the ids of the children of this process; none where there is no /proc."""
    own = str(os.getpid())
    children = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[1].decode() == own:
                    children.append(int(name))
    return children


def _end_by(number: int) -> None:
    """End this process by a signal, so that its parent sees how the command ended."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
