"""Makes servers and the network unreachable for every Jupyter kernel that has this folder on its PYTHONPATH.

Python imports a module of this name when it starts. In a kernel it refuses connections, names that are looked up and
programs that are started, from then on and for good: a hook of `sys.addaudithook` cannot be taken out. ZMQ speaks to
the frontend below Python's sockets, and is left alone. Each attempt is also noted in the file that `UNREACHABLE_LOG`
names, for whoever runs the kernel: code may catch the error.
"""

from __future__ import annotations

import os
import sys

REFUSED = frozenset(
    (
        *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"),
        *("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.system", "os.exec", "os.fork", "os.forkpty"),
    )
)
"""Audit events of Python; `asyncio` is connected with itself by a socketpair, which is none of them."""

HARMLESS = "uname"
"""Asked by Python itself (`platform`) for the machine's name; it gets no answer either."""


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Raise PermissionError where something is reached for that is not there."""
    if event in REFUSED:
        told = next((each for each in arguments if isinstance(each, str | list | tuple)), "")
        if told != HARMLESS:
            note(f"{event} {told}")
        raise PermissionError(f"nothing can be reached or started here: {event} {told}")


def note(text: str) -> None:
    """Write a line for whoever runs this kernel."""
    if path := os.environ.get("UNREACHABLE_LOG"):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123, nothing is imported for this
            file.write(f"{text}\n")


if "ipykernel_launcher" in sys.orig_argv:
    note("kernel")
    sys.addaudithook(refuse)
