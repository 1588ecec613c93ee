"""`python -m mcp_magic proxy`: its options, and the lines on its stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.outside.choice import Target
from mcp_magic.outside.messages import MAX_BYTES
from mcp_magic.outside.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

PROGRAM = "python -m mcp_magic proxy"

USAGE = f"""\
{PROGRAM} [--folder FOLDER] [--kernel NOTEBOOK]

An MCP server over stdio that is the running kernel of this folder: one in which `%mcp serve --kernel` was typed.

--folder FOLDER    the folder whose kernel is meant (default: where the client runs, then its roots)
--kernel NOTEBOOK  the notebook (analysis.ipynb), or the id or the port of the kernel
"""

MAX_LINES = 100  # lines of the client that wait; it waits with more


async def serve(target: Target) -> None:
    """Serve over stdin and stdout until stdin ends. What anything else prints goes to stderr."""
    if sys.stdin.isatty():
        sys.stderr.write("An agent starts this by the entry that `%mcp serve --kernel` shows; Ctrl-D ends it.\n")
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    lines: asyncio.Queue[bytes] = asyncio.Queue(MAX_LINES)

    def read() -> None:
        with suppress(OSError, ValueError):
            for line in bounded_lines(sys.stdin.buffer):
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
        asyncio.run_coroutine_threadsafe(lines.put(b""), loop)

    async def following() -> AsyncIterator[bytes]:
        while line := await lines.get():
            yield line

    def write(line: bytes) -> None:
        while line:
            line = line[os.write(own, line) :]

    threading.Thread(target=read, name="mcp_magic stdin", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, task.cancel)
    with suppress(BrokenPipeError, asyncio.CancelledError):
        await Proxy(target, write).run(following())


def bounded_lines(file: BinaryIO, most: int = MAX_BYTES) -> Iterator[bytes]:
    r"""Yield the lines of a file; of one with too many bytes only the first, which are no message then.

    >>> import io
    >>> [*bounded_lines(io.BytesIO(b"12345678\n1\n2"), 4)]
    [b'1234', b'1\n', b'2']
    """
    while line := file.readline(most):
        yield line
        while len(line) == most and not line.endswith(b"\n"):
            line = file.readline(most)


def read_options(words: Sequence[str]) -> Target:
    """Return which kernel a command line means.

    Raises:
        CommandError: A word is none of its options.
    """
    values: dict[str, str] = {}
    rest = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    while rest:
        option = rest.pop(0)
        if option not in ("--folder", "--kernel"):
            raise CommandError(f"{PROGRAM} takes --folder FOLDER and --kernel NOTEBOOK, not {option!r}.")
        if not rest:
            raise CommandError(f"{PROGRAM}: {option} takes a value.")
        values[option] = rest.pop(0)
    try:
        folder = Path(values.get("--folder") or os.getcwd()).expanduser().resolve()  # noqa: PTH109
    except (OSError, RuntimeError) as error:  # it was deleted, or is the home of nobody
        raise CommandError(f"{PROGRAM}: no such folder: {error}; --folder FOLDER names another.") from None
    return Target((folder,), values.get("--kernel", ""), "--folder" in values)


def main(words: Sequence[str]) -> int:
    """Run the proxy, and return its exit status."""
    if {"-h", "--help"} & {*words}:
        sys.stdout.write(USAGE)
        return 0
    try:
        target = read_options(words)
    except MCPMagicError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    with suppress(KeyboardInterrupt):
        asyncio.new_event_loop().run_until_complete(serve(target))
    sys.stderr.flush()
    os._exit(0)  # a thread waits for stdin, and another may wait for a client that does not read
