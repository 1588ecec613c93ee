"""The standard error of a server's process: kept, read, and searched for the cause of a failure."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import threading
from contextlib import asynccontextmanager, suppress
from time import time
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar, cast
from weakref import WeakKeyDictionary

from mcp_magic._compat import IN_BROWSER
from mcp_magic._sdk import pipe_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator

    from mcp_magic.config.specs import StdioSpec

T = TypeVar("T")


# Where a stdio server's stderr goes.
#
# By default the SDK passes `sys.stderr` to the server. In a kernel that is an invisible terminal; under nbval or on
# Windows it has no `fileno()`, and every connect fails. So each server gets its own unnamed temporary file, opened for
# appending. A file, not a pipe: a server that writes much must not block while the kernel computes. For the same reason
# a thread keeps the file small: the event loop may stand still for hours, in a busy kernel or at a terminal's prompt.
#
# The file shrinks by freeing its beginning on the disk, which Linux supports on most file systems. Elsewhere it is
# emptied, which loses what the server writes at that moment.

TAIL_BYTES = 64 * 1024  # maximum number of bytes to read back; `%mcp logs` shows the end of the stderr

MAX_BYTES = 16 * 1024 * 1024
"""Bytes that the file may take on the disk before its beginning is freed: a chatty server must not fill the disk."""

_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of `<linux/falloc.h>`

SIZE_CHECK_SECONDS = 1.0  # seconds between two checks of the file's size; meanwhile it may exceed its limit


class Written(NamedTuple):
    """A part of a server's stderr."""

    start: int  # in bytes since the first write
    end: int
    data: bytes  # without NULs: a writer that does not append leaves a hole where the file was cut
    when: float


class ErrorLog:
    """A real file for a server's stderr.

    Its tail stays readable after `close`, so that an error can quote the last lines.
    """

    def __init__(self) -> None:
        # "ab" opens with O_APPEND: the server writes at the end, wherever this process reads.
        handle, path = tempfile.mkstemp(prefix="mcp_magic-", suffix=".stderr")
        os.close(handle)
        self._file: IO[bytes] = open(path, "a+b", buffering=0)  # noqa: SIM115, PTH123 (closed by close())
        with suppress(PermissionError):  # Windows deletes no open file
            os.unlink(path)  # noqa: PTH108
        self._emptied = 0  # bytes that were written before the file was last emptied
        self._last = Written(0, 0, b"", 0.0)
        self._hidden: list[tuple[int, int]] = []
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self.seen = 0
        """The `end` when it was last looked at, which costs a system call."""

    @property
    def file(self) -> TextIO:
        """The file to pass to a subprocess as its stderr."""
        return cast("TextIO", self._file)

    @property
    def end(self) -> int:
        """The number of bytes written so far."""
        with self._lock:
            closed = self._closed.is_set()
            self.seen = self._last.end if closed else self._emptied + os.fstat(self._file.fileno()).st_size
        return self.seen

    def since(self, position: int) -> Written:
        """Return the output since a position, at most its last 64 KiB; after `close` nothing."""
        with self._lock:
            if self._closed.is_set():
                return Written(position, position, b"", 0.0)
            status = os.fstat(self._file.fileno())
            end = self._emptied + status.st_size
            start = min(max(position, end - TAIL_BYTES, self._emptied), end)
            self._file.seek(start - self._emptied)
            return Written(start, end, self._file.read(end - start).replace(b"\0", b""), status.st_mtime)

    def tail(self, position: int = 0) -> str:
        """Return the output since a position, at most its last 64 KiB, without hidden parts; also after `close`."""
        output = self._tail()
        begin, text = output.end - len(output.data), b""
        position = max(position, begin)
        for start, end in [*self._hidden, (output.end, output.end)]:
            text += output.data[position - begin : max(start, position) - begin]
            position = max(position, end)
        return text.decode("utf-8", "replace")

    def hide(self, pattern: re.Pattern[bytes] | None = None) -> None:
        """Hide the output so far from `tail`, or what a pattern matches and all after it; the trace has it."""
        output = self._tail()
        begin = output.end - len(output.data)
        match = pattern.search(output.data) if pattern is not None else None
        if pattern is None or match is not None:
            self._hidden.append((begin + match.start() if match is not None else 0, output.end))

    def _tail(self) -> Written:
        with self._lock:
            if self._closed.is_set():
                return self._last
            start, end, data, when = self.since(0)
            whole_lines = data.partition(b"\n")[2] if start else b""
            return Written(start, end, whole_lines or data, when)

    def cut(self) -> None:
        """Cut the file back if it takes too much of the disk."""
        with self._lock:
            if self._closed.is_set():
                return
            status = os.fstat(self._file.fileno())
            # A file with holes takes less than its size; some network drives report that it takes nothing.
            blocks = getattr(status, "st_blocks", 0)
            if min(status.st_size, blocks * 512 or status.st_size) <= MAX_BYTES:
                return
            if not _free(self._file.fileno(), status.st_size - TAIL_BYTES):
                self._emptied += status.st_size
                os.truncate(self._file.fileno(), 0)

    def keep_small(self) -> None:
        """Cut the file regularly until it is closed, in a thread that does not depend on the event loop."""

        def watch() -> None:
            while not self._closed.wait(SIZE_CHECK_SECONDS):
                with suppress(OSError):  # something else has filled the disk
                    self.cut()

        threading.Thread(target=watch, name="mcp_magic stderr", daemon=True).start()

    def write(self, line: str) -> None:
        """Write a line, as a server would."""
        if not self._closed.is_set():
            self._file.write(f"{line}\n".encode())

    def close(self) -> None:
        """Close the file; the tail stays readable. Idempotent."""
        with self._lock:
            if not self._closed.is_set():
                self._last = self._tail()
                self._closed.set()
                self._file.close()

    def __enter__(self) -> ErrorLog:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _free(number: int, length: int) -> bool:
    """Free the beginning of a file on the disk; its size stays, and concurrent writes are kept.

    Returns whether it worked: on Linux, with most file systems.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(fallocate(number, _PUNCH_HOLE, 0, length) == 0)


class Position(NamedTuple):
    """The end of a server's stderr at some time."""

    errlog: ErrorLog
    end: int


# New lines of a server's stderr since the last read.

LONGEST_LINE = 1 << 16  # bytes after which an unfinished line counts as a line

TICK = 0.01  # seconds by which the time of a write may be early: Linux takes it from a clock that moves in ticks


class Lines:
    """Reads the new lines of one log."""

    def __init__(self, errlog: ErrorLog) -> None:
        self._errlog = errlog
        self._read = 0
        self._rest = b""

    @property
    def is_behind(self) -> bool:
        """Whether there is unread output."""
        return self._errlog.end != self._read

    def read(self, *, last: bool = False) -> Iterator[tuple[float, str]]:
        """Yield the lines since the last call, each with the time of the last write; with `last` an unfinished one too.

        Of more than 64 KiB the beginning is skipped, and a longer line is split.
        """
        if not (self.is_behind or (last and self._rest)):
            return
        output = self._errlog.since(self._read)
        rest = self._rest if output.start == self._read else b""
        self._read = output.end
        *lines, self._rest = (rest + output.data).split(b"\n")
        if last or len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        when = min(output.when + TICK, time())  # not before the request that it is about
        for line in lines:
            if line.strip():
                yield when, line.rstrip().decode("utf-8", "replace")


# The process of a stdio server, which the SDK hides.

_started: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # the file of a server's stderr -> its process


async def start_process(starting: Awaitable[T]) -> T:
    """Wait for the start of a process, the leader of a group, which is killed if the wait is interrupted.

    The start goes on until it has the process. Where it is cancelled, asyncio kills the process, and then waits until
    its children have closed their output, too.
    """
    start = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(start)
    except asyncio.CancelledError:
        start.add_done_callback(_kill_process)
        raise


def _kill_process(start: asyncio.Future[Any]) -> None:
    """Kill the process that was started, and its children."""
    if not start.cancelled() and start.exception() is None:
        process = start.result()
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()


INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables of this process that the SDK's stdio client passes on; a test compares them with the SDK's."""

_early: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The file of a server's stderr -> its process, which the SDK has not asked for yet."""

_early_logs: list[tuple[StdioSpec, ErrorLog]] = []  # of servers whose session has not asked for its log yet


@asynccontextmanager
async def started_early(spec: StdioSpec) -> AsyncIterator[None]:
    """Start a server as the SDK's stdio client does on POSIX, before the SDK is imported: it starts meanwhile.

    This is worth a third of the first `%mcp connect` in a Run All: 3.1 s instead of 5.2 s on a busy machine.
    A session to it that is opened in this context takes it over; otherwise it is killed at the end. Does nothing if the
    SDK is already imported, or if such a server was started and not taken over yet.
    """
    is_late = "mcp" in sys.modules or bool(spec.references)  # a secret is resolved when the session is opened
    if is_late or os.name != "posix" or IN_BROWSER or any(early == spec for early, _ in _early_logs):
        yield
        return
    import anyio

    inherited = {name: os.environ[name] for name in INHERITED if not os.environ.get(name, "()").startswith("()")}
    log = ErrorLog()
    try:
        with suppress(OSError, ValueError, NotImplementedError):  # the SDK raises why a command cannot be started
            command, env = [spec.command, *spec.args], {**inherited, **spec.env}
            _early[log.file] = _started[log.file] = await start_process(
                anyio.open_process(command, env=env, cwd=spec.cwd, stderr=log.file, start_new_session=True)
            )
    except BaseException:  # interrupted
        log.close()
        raise
    _early_logs.append((spec, log))
    try:
        yield
    finally:
        if (spec, log) in _early_logs:
            _early_logs.remove((spec, log))
            log.close()
        if (process := _early.pop(log.file, None)) is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()


def log_for(spec: StdioSpec) -> ErrorLog:
    """Return the log of the server that was started early for a spec, or a new log."""
    for early, log in _early_logs:
        if early == spec:
            _early_logs.remove((early, log))
            return log
    return ErrorLog()


def note_starts(start: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap the SDK's function that starts a process, to know the processes; one that runs already is taken over."""

    async def start_or_take(*args: Any, **options: Any) -> Any:
        process = _early.pop(options.get("errlog"), None) or await start_process(start(*args, **options))
        with suppress(TypeError):  # a stderr from other code, which may not be hashable
            _started[options.get("errlog")] = process
        return process

    return start_or_take


def terminate(errlog: Any) -> None:
    """Send SIGTERM to the process with this stderr and its children, which the SDK puts into a group of their own."""
    process = _started.get(errlog)
    if process is not None and process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGTERM) if hasattr(os, "killpg") else process.terminate()


def has_read(errlog: Any) -> bool:
    """Whether the process with this stderr has read everything written to its standard input."""
    stdin = getattr(_started.get(errlog), "stdin", None)
    return is_read(pipe_of(stdin))


def is_read(stream: Any) -> bool:
    """Whether the other end of a pipe has read everything written; False if unknown, as on all but Linux."""
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
    """Say how the process with this stderr ended, as `exit code 3` or `SIGKILL`; "" if unknown."""
    code = getattr(_started.get(errlog), "returncode", None)
    # The SDK itself sends SIGTERM to a process that closed its output but runs on.
    return "" if code is None or code == -signal.SIGTERM else exit_words(code)


def exit_words(code: int) -> str:
    """Return an exit code in words, as `exit code 3` or `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


# The cause of a failure in a server's stderr: its lines, and missing environment variables.

MAX_LINES = 6  # maximum number of lines of a cause

LAST_LINES = 3  # number of last lines to show if none looks like a cause

CONTINUED = 3  # maximum number of further lines of an exception's text

LOOKED_AT = 600
"""Characters of a line to look at; its server is not trusted, and long lines make regular expressions slow."""

BOTH_ENDS = 100_000  # characters of a longer text to look at, at its beginning and at its end

VARIABLES = 4  # maximum number of variables to name

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

_TELLING = re.compile(
    r"(?i:error|exception|fatal|panic|required|missing|no such|cannot|can't|could ?n[o']t|unable|must\b|please|fail"
    r"|denied|invalid|refused|unauthori[sz]ed|forbidden|undefined|unknown|unrecognized|unsatisfiable"
    r"|\bno[tn]?\b.{0,60} (?:found|set|defined|installed|provided|given|configured|allowed|supported|exist))"
    r"|\b4\d\d\b|\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b"  # the status of a request, the name of a variable
)

_CHATTER = re.compile(
    r"\W*(?i:npm )?(?i:debug|trace|info|notice|warn|warning)\b"
    r"|.{0,60}\b(?:DEBUG|TRACE|INFO|NOTICE|WARN|WARNING)\b|\(node:\d+\)|.*\w+Warning: "
)
"""Log lines below the level of an error."""

_NOISE = re.compile(
    r"""
    [\s\[\](){}<>,;:.^~|+=*_-]*(?:\d\ -+)?$                   # brackets, rules, marks below a source line
    | \s+(?:at|in)\ .*[:(]                                    # frames: Node, Java, .NET
    | \s*(?:node:|file://|/|[A-Z]:\\)[^\s:]*:\d+(?::\d+)?$    # where Node's source line is
    | \s*throw\ | \s*\.\.\.\ \d+\ more | Node\.js\ v\d
    | \s+\[?[\w$]+\]?:\ (?:null|undefined|true|false|-?\d+|'[^']*'|\[.*|\{.*),?$          # fields of Node's errors
    | goroutine\ \d | created\ by\  | [\w./*()-]+\([\w.,\s{}]*\)$ | \s+\S+\.go:\d+ | exit\ status   # Go
    | note:\ run\ with\  | stack\ backtrace: | \s+\d+:\ .+::  # Rust
    | npm\ (?:error|ERR!)(?:\ \d{3})?(?:\ +(?:A\ complete\ log|Note\ that\ you\ can\ also|tarball,\ folder|/).*)?\s*$
    | \s*For\ further\ information | During\ handling\ of\ the\ above | The\ above\ exception\ was
    """,
    re.VERBOSE,
)
_USAGE = re.compile(r"\s*(?:[\w ]+ )?(?:usage|examples?|flags|options|arguments|commands):(?P<text>.*)", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"
_BRANCH = re.compile(r"^\s*(?:\||\+(?= Exception Group)|\+-\+(?=-))\s?")
"""The prefix of lines in an ExceptionGroup's traceback."""

_SOURCE = re.compile(
    r"\s*(?:File \"(?P<python>[^\"]+)\", line |(?P<node>(?:file://|/|[A-Z]:\\)[^\s:]*):)(?P<line>\d+)$"
)
"""Where a syntax error is: Python's last `File` line, and Node's first line."""

_SYNTAX = re.compile(r"(?:Syntax|Indentation|Tab)Error: ")

_TELLS, _PLAIN, _CHATS = 2, 1, 0


def cause(stderr: str) -> list[str]:
    """Return the lines that look like the cause of a failure, at most six; if none does, the last three.

    Stack frames, usage texts and log lines below the level of an error are no cause. The first line is included unless
    it is one of these.
    """
    if len(stderr) > 2 * BOTH_ENDS:
        stderr = f"{stderr[:BOTH_ENDS]}\n{stderr[-BOTH_ENDS:]}"
    ranks: dict[str, int] = {}
    for line, rank in _Reader().read(stderr):
        ranks.setdefault(line, rank)
    lines = list(ranks)
    causes = [line for line in lines if ranks[line] == _TELLS]
    if not causes:
        return lines[-LAST_LINES:] or [line.strip() for line in stderr.splitlines() if line.strip()][-LAST_LINES:]
    if ranks[lines[0]] == _PLAIN:
        causes.insert(0, lines[0])
    half = MAX_LINES // 2
    return causes if len(causes) <= MAX_LINES else causes[:half] + causes[-half:]


_ISSUERS = {
    "SSL_CERT_FILE": re.compile("UnknownIssuer|CERTIFICATE_VERIFY_FAILED"),  # uv, Python
    "NODE_EXTRA_CA_CERTS": re.compile("SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)"),
}
"""The variable that names the file with further issuers of certificates, by how a program says that it needs one."""


def not_passed_on(stderr: str, env: Collection[str], typed: str) -> list[str]:
    """Return a hint for each variable that the stderr names and that is set here but was not passed to the server.

    Words with an underscore match in upper case, because programs name settings like fields: `api_key` is `API_KEY`.
    A certificate of an unknown issuer names those that hold further issuers, such as a company's.
    """
    from mcp.client.stdio import get_default_environment

    words = dict.fromkeys(re.findall(r"\b[A-Za-z]\w+\b", stderr))
    names = [word.upper() if "_" in word else word for word in words if "_" in word or word.isupper()]
    issuers = [name for name, pattern in _ISSUERS.items() if pattern.search(stderr)]
    variables = dict.fromkeys([*issuers, *names])
    missing = [name for name in variables if name in os.environ and name not in {*get_default_environment(), *env}]
    hint = "`{0}` is set here but not passed on: `--env {0}` right after `{1}`"
    return [hint.format(name, typed) for name in missing[:VARIABLES]]


class _Reader:
    """Goes through the lines and leaves out those that cannot be a cause."""

    def __init__(self) -> None:
        self._inside = ""  # "frames" or "box" of a traceback, "source", "exception", "usage"
        self._source = ""  # the file and line of a syntax error
        self._continued = 0

    def read(self, stderr: str) -> Iterator[tuple[str, int]]:
        """Yield the lines, each with its rank."""
        for raw in stderr.splitlines():
            part = raw if raw.startswith("{") else raw[:LOOKED_AT]
            line = _BRANCH.sub("", _COLOUR.sub("", part), count=1).rstrip()
            if source := _SOURCE.match(line):
                self._source = f" ({source['python'] or source['node']}, line {source['line']})"
                self._inside = "frames" if source["python"] else "source"
            elif _TRACEBACK in line:
                self._inside = "box" if "╭" in line else "frames"
            elif not self._skips(line):
                yield from self._ranked(line)

    def _skips(self, line: str) -> bool:
        """Whether a line belongs to a traceback or usage text; updates where the reader is."""
        if self._inside == "box":  # of rich
            self._inside = "exception" if line.lstrip().startswith("╰") else "box"
            self._continued = CONTINUED + 1
            return True
        if not line.strip():
            self._inside = "" if self._inside == "exception" else self._inside
            return True
        if self._inside == "source":  # one line of the program
            self._inside = ""
            return True
        if self._inside == "frames" and not line[0].isspace():
            self._inside, self._continued = "exception", CONTINUED + 1
        if self._inside == "usage" and not line[0].isspace() and not line.endswith(":"):
            self._inside = ""
        return self._inside in ("frames", "usage") or line.lstrip()[0] in "╭╰"

    def _ranked(self, line: str) -> Iterator[tuple[str, int]]:
        if _NOISE.match(line[:LOOKED_AT]):
            return
        usage = _USAGE.match(line[:LOOKED_AT])
        if usage is not None:
            self._inside = "usage"
            if usage["text"].strip():
                yield line.strip(), _PLAIN
            return
        text, level = _logged(line.strip().strip("│").strip())
        text = text[:LOOKED_AT]
        if _SYNTAX.match(text):
            text, self._source = text + self._source, ""
        chats = level == _CHATS or (level is None and _CHATTER.match(text) is not None)
        self._continued -= 1
        if self._inside == "exception" and (chats or self._continued < 0):
            self._inside = ""
        if "panicked at " in text:  # Rust: the message is on the next line
            self._inside, self._continued = "exception", 1
        tells = level == _TELLS or self._inside == "exception" or _TELLING.search(text) is not None
        yield text, _CHATS if chats else _TELLS if tells else _PLAIN


def _logged(line: str) -> tuple[str, int | None]:
    """Return the message and the rank of a JSON log line; another line as it is, with None."""
    entry = None
    if line.startswith("{") and line.endswith("}"):
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
    if not isinstance(entry, dict):
        return line, None
    texts = [entry[key] for key in ("message", "msg", "error", "err") if isinstance(entry.get(key), str)]
    level = entry.get("level", entry.get("severity"))
    if not texts:
        return line, None
    high = level >= 50 if isinstance(level, int) else str(level).lower() in ("error", "fatal", "panic", "critical")
    return ": ".join(texts), None if level is None else _TELLS if high else _CHATS
