"""How the process of a stdio server ended, which the SDK keeps to itself."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["has_read", "how_ended", "is_read", "know_processes", "terminate"]

_started: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The file that a server writes its stderr to -> its process."""


def know_processes() -> None:
    """Let the SDK's stdio client tell which process it started."""
    from mcp.client import stdio

    module: Any = stdio
    usual = getattr(module, "_create_platform_compatible_process", None)
    if usual is not None and not isinstance(usual, _Starter):
        module._create_platform_compatible_process = _Starter(usual)


class _Starter:
    """Stands where the SDK's stdio client looks for what starts a process."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    async def __call__(self, *args: Any, **options: Any) -> Any:
        process = await self._usual(*args, **options)
        with suppress(TypeError):  # the stderr of somebody else, which cannot be a key
            _started[options.get("errlog")] = process
        return process


def terminate(errlog: Any) -> None:
    """Send SIGTERM to a process and to those that it has started, which the SDK has put into a group of their own.

    Args:
        errlog: The file that it writes its stderr to.
    """
    process = _started.get(errlog)
    if process is not None and process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGTERM) if hasattr(os, "killpg") else process.terminate()


def has_read(errlog: Any) -> bool:
    """Whether a process has read all that was written to its standard input.

    Args:
        errlog: The file that it writes its stderr to.
    """
    stdin = getattr(_started.get(errlog), "stdin", None)
    return is_read(getattr(stdin, "_stream", None))


def is_read(stream: Any) -> bool:
    """Whether the other end of a pipe has read all that was written; False where that cannot be seen.

    Linux says it at either end of a pipe.
    """
    pipe = stream.get_extra_info("pipe") if stream is not None else None
    if sys.platform != "linux" or pipe is None:
        return False
    import fcntl
    import termios

    try:
        return not any(fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4)))
    except (OSError, ValueError):  # it is closed
        return False


def how_ended(errlog: Any) -> str:
    """Say how a process ended, as `exit code 3` or `SIGKILL`; "" if that is not known.

    SIGTERM says nothing: the SDK itself ends so what has closed its output and runs on.

    Args:
        errlog: The file that it wrote its stderr to.
    """
    code = getattr(_started.get(errlog), "returncode", None)
    if code is None or code == -signal.SIGTERM:
        return ""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
