"""Runtime files: which kernels of this user serve, for `python -m mcp_magic proxy`.

A kernel that serves writes `kernel-PORT.json` beside its token file `kernel-PORT.token`, in the folder `mcp_magic` of
Jupyter's runtime folder. The folder is only the user's (0700), and so are the files (0600).

Nothing in a file is a path to read or an address to go to. The port is in the name too, and the token file is found by
the port. A file counts only if it is a file and no link, of this user, closed to others, on this machine, and its
process is of this user and began when the file says. What is left of a kernel that has ended is deleted.

A port may have become another's after all, so the proxy asks for a proof before it sends the token
(`server/http.py`). It reads the file again before each request: a kernel that no longer serves has none.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp_magic.errors import ConfigError

NAME = "kernel"  # begins the names of the files

KERNEL = ("mcp_magic", "Jupyter kernel")  # the name and the title of a kernel as a server

MAX_BYTES = 64_000  # of a runtime file

CONNECT_SECONDS = 1.0  # seconds for a port of this machine to accept a connection

_FILE = re.compile(rf"{NAME}-([1-9][0-9]{{0,4}})\.json")
_HAS_OWNERS = hasattr(os, "geteuid")
_HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True)
class RunningKernel:
    """A kernel of this user that serves.

    Attributes:
        port: Its port on 127.0.0.1.
        pid: Its process.
        began: When that process began, as the system has it.
        machine: The machine, as several may share a home.
        folder: Its working directory when it began to serve.
        notebook: The name of its notebook; "" if that is not known.
        kernel: Its id in Jupyter; "" outside of Jupyter.
        started: When it began to serve, in local time.
        version: The version of mcp_magic there.
    """

    port: int
    pid: int
    began: str
    machine: str
    folder: str
    notebook: str
    kernel: str
    started: str
    version: str

    @property
    def title(self) -> str:
        """What a person calls it: its notebook and folder."""
        return f"{self.notebook or 'a kernel without a notebook'} in {self.folder}"

    def matches(self, word: str) -> bool:
        """Whether a word names it: its notebook (with or without `.ipynb`), its path, its id or its port."""
        own = {self.notebook, self.notebook.removesuffix(".ipynb"), str(Path(self.folder, self.notebook))}
        is_id = len(word) >= 4 and self.kernel.startswith(word)
        return bool(word) and (word in own or is_id or word == str(self.port))


def runtime_folder() -> Path:
    """Return the folder of the runtime files, which may not exist."""
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir()) / "mcp_magic"


def private_folder() -> Path:
    """Return the folder of the runtime files, closed to others; it is made if it does not exist.

    Raises:
        ConfigError: It cannot be made, or it is another user's, or a link.
    """
    folder = runtime_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = folder.lstat()
        if stat.S_ISDIR(own.st_mode) and _is_ours(own) and own.st_mode & 0o077 and _HAS_OWNERS:
            folder.chmod(0o700)
        if problem := _problem_of(folder.lstat(), stat.S_ISDIR):
            raise ConfigError(f"{folder} {problem}; JUPYTER_RUNTIME_DIR in the environment names another place.")
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}") from None
    return folder


def announce(port: int, *, folder: Path, notebook: str, kernel: str, started: str) -> RunningKernel:
    """Write the runtime file of this kernel, and return what is in it.

    Raises:
        ConfigError: It cannot be written.
    """
    from mcp_magic import __version__

    pid = os.getpid()
    place = str(folder)
    running = RunningKernel(
        port, pid, began_at(pid) or "", socket.gethostname(), place, notebook, kernel, started, __version__
    )
    path = private_folder() / f"{NAME}-{port}.json"
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(running), file)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return running


def withdraw(running: RunningKernel) -> None:
    """Delete the files of this kernel; those of another process stay. Idempotent."""
    if running.pid == os.getpid() and (folder := _trusted_folder()) is not None:
        _forget(folder, running.port)


def running_kernels() -> list[RunningKernel]:
    """Return the kernels of this user that serve on this machine, the newest first; delete what others have left."""
    folder = _trusted_folder()
    if folder is None:
        return []
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # it was deleted meanwhile
        return []
    kernels = []
    for name in names:
        if (match := _FILE.fullmatch(name)) is None or (running := _read(folder, int(match[1]))) is None:
            continue
        if running.machine != socket.gethostname():
            continue
        if _is_alive(running) and _listens(running.port):
            kernels.append(running)
        elif _read(folder, running.port) == running:
            _forget(folder, running.port)
    return sorted(kernels, key=lambda running: running.started, reverse=True)


def state_of_folder() -> object:
    """Return something that differs once a kernel has begun or ended to serve."""
    try:
        return runtime_folder().stat().st_mtime_ns
    except OSError:
        return None


def is_current(running: RunningKernel) -> bool:
    """Whether a kernel still serves: its file is as it was, and its process lives."""
    folder = _trusted_folder()
    return folder is not None and _read(folder, running.port) == running and _is_alive(running)


def token_of(running: RunningKernel) -> str | None:
    """Return the token of a kernel; None if it is not there, or not only the user's."""
    folder = _trusted_folder()
    text = None if folder is None else _private_text(folder / f"{NAME}-{running.port}.token")
    return text if text and re.fullmatch(r"[A-Za-z0-9_-]{20,200}", text) else None


# Files


def _is_ours(status: os.stat_result) -> bool:
    return not _HAS_OWNERS or status.st_uid == os.geteuid()


def _problem_of(status: os.stat_result, is_right: Any) -> str:
    """Return why a file or a folder is not trusted, "" if it is."""
    if not is_right(status.st_mode):
        return "is not what it should be, or a link"
    if not _is_ours(status):
        return "is another user's"
    if _HAS_OWNERS and status.st_mode & 0o077:
        return "is open to others"
    return ""


def folder_problem() -> str:
    """Return why nothing in the folder of the runtime files counts; "" if it does, or there is no folder."""
    try:
        return _problem_of(runtime_folder().lstat(), stat.S_ISDIR)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _trusted_folder() -> Path | None:
    return None if folder_problem() else runtime_folder()


def _private_text(path: Path) -> str | None:
    """Return the text of a file that is this user's alone, and no link; otherwise None."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        if _problem_of(os.fstat(descriptor), stat.S_ISREG):  # looked at first: a folder cannot be made a file object
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
        return data.decode() if len(data) <= MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)


def _read(folder: Path, port: int) -> RunningKernel | None:
    """Return what a runtime file says; None if it is none of ours, or no such file."""
    text = _private_text(folder / f"{NAME}-{port}.json")
    try:
        data: Any = json.loads(text or "")
        values = {field.name: data[field.name] for field in fields(RunningKernel)}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    kinds = {field.name: int if field.name in ("port", "pid") else str for field in fields(RunningKernel)}
    if any(type(values[name]) is not kind for name, kind in kinds.items()) or values["port"] != port:
        return None
    return RunningKernel(**values) if port <= 65535 and values["pid"] > 0 else None


def _forget(folder: Path, port: int) -> None:
    for kind in ("json", "token"):
        with suppress(OSError):
            (folder / f"{NAME}-{port}.{kind}").unlink()


# Processes


def began_at(pid: int) -> str | None:
    """Return when a process of this user began, as the system has it; None if there is no such process."""
    if _HAS_PROC:
        try:
            if not _is_ours(os.stat(f"/proc/{pid}")):  # noqa: PTH116
                return None
            line = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        state, *values = line.rpartition(")")[2].split()
        return None if state == "Z" else values[18]
    try:
        psutil: Any = import_module("psutil")  # ipykernel brings it
    except ImportError:
        return "" if os.name == "nt" or _exists(pid) else None
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _is_alive(running: RunningKernel) -> bool:
    return began_at(running.pid) == running.began


def _listens(port: int) -> bool:
    """Whether a server listens at a port; one that is too busy to accept a connection does, too."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
