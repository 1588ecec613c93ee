"""The doctor's steps for a stdio server: it starts the process itself and reads its output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration
from mcp_magic.doctor.report import Stop
from mcp_magic.protocol import of_code
from mcp_magic.sandbox.backends import isolated
from mcp_magic.session.failures import NO_SERVER, not_started
from mcp_magic.session.negotiation import (
    NOISE,
    ListensError,
    named_url,
    named_versions,
    older_version,
    unless_listening,
)
from mcp_magic.session.stdio import SpreadMessages
from mcp_magic.stderr import ErrorLog, cause, exit_words, is_read, not_passed_on, start_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.specs import StdioSpec
    from mcp_magic.doctor.report import Step


# The two requests that may open a session, as JSON-RPC messages, and what their answers mean.
# Sources: specification 2026-07-28, "Discovery"; specification 2025-11-25, "Lifecycle".


@dataclass
class Reply:
    """The answer to a request, or the `failure` why there is none; headers have names in lower case."""

    message: dict[str, Any] | None = None
    seconds: float = 0.0
    failure: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def result(self) -> dict[str, Any] | None:
        """The result, or None."""
        result = (self.message or {}).get("result")
        return result if isinstance(result, dict) else None

    @property
    def error(self) -> dict[str, Any] | None:
        """The JSON-RPC error, or None."""
        error = (self.message or {}).get("error")
        return error if isinstance(error, dict) else None


def _client() -> dict[str, str]:
    from mcp_magic import __version__

    return {"name": "mcp_magic doctor", "version": __version__}


def discover() -> dict[str, Any]:
    """Return a `server/discover` request of the newest protocol version."""
    from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
    from mcp_types.version import LATEST_MODERN_VERSION

    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: _client(),
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}


def initialize() -> dict[str, Any]:
    """Return an `initialize` request of the newest handshake version."""
    from mcp_types.version import LATEST_HANDSHAKE_VERSION

    params = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _client()}
    return {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params}


def is_message(text: str | bytes, number: int | None = None) -> dict[str, Any] | None:
    """Parse a JSON-RPC message, or return None. With a number: only the answer with that id, or an error without id."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    several = value if isinstance(value, list) else [value]
    return next((item for item in several if isinstance(item, dict) and _is_that(item, number)), None)


def _is_that(message: dict[str, Any], number: int | None) -> bool:
    if number is None or message.get("jsonrpc") != "2.0":
        return message.get("jsonrpc") == "2.0"
    answers = "result" in message or "error" in message
    return answers and (message.get("id") == number or ("error" in message and message.get("id") is None))


def judge_eras(step: Step, discovered: Reply | None, initialized: Reply | None) -> None:
    """Note which ways of opening a session work, by the answers to them; `Stop` if none does."""
    modern = _discovered(step, discovered) if discovered is not None else False
    legacy = _initialized(step, initialized, modern=modern) if initialized is not None else False
    if not (modern or legacy):
        raise Stop


def _discovered(step: Step, reply: Reply) -> bool:
    seconds = duration(reply.seconds)
    versions = (reply.result or {}).get("supportedVersions")
    if isinstance(versions, list) and versions:
        names = ", ".join(str(version)[:20] for version in versions[:8])
        step.ok(f"server/discover: answered in {seconds}; it takes {names}")
        return True
    if reply.result is not None:
        todo = "supportedVersions must name the protocol versions that it takes"
        step.warn(f"server/discover: answered in {seconds}, without supportedVersions", todo)
        return False
    step.ok(f"server/discover: {refused(reply)}: an older server, which begins with initialize")
    return False


def _initialized(step: Step, reply: Reply, *, modern: bool) -> bool:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    seconds = duration(reply.seconds)
    version = (reply.result or {}).get("protocolVersion")
    error = reply.error or {}
    older = older_version(named_versions(str(error.get("message")), error.get("data")))
    if isinstance(version, str) and version in HANDSHAKE_PROTOCOL_VERSIONS:
        step.ok(f"initialize: answered in {seconds} with protocol {version}")
        return True
    if version is not None:
        step.fail(
            f"initialize: answered in {seconds} with protocol {str(version)[:40]!r}, which is not a known version"
        )
    elif older:
        todo = 'answer initialize with a version of its own (specification, "Version Negotiation")'
        step.warn(f"initialize: {refused(reply)}; it names {older}, which a session then asks for", todo)
        return True
    elif modern:
        step.ok(f"initialize: {refused(reply)}: hosts that do not speak 2026-07-28 cannot use it")
    else:
        step.fail(f"initialize: {refused(reply)}", "it must answer server/discover or initialize")
    return False


def refused(reply: Reply) -> str:
    """Return why a request has no result."""
    if reply.error is not None:
        code = reply.error.get("code")
        message = str(reply.error.get("message") or "")[:120]
        return f"refused, {message} ({code}, {of_code(code, message=message).meaning})"
    if reply.status is not None and reply.status >= 400:
        return f"HTTP {reply.status}"
    return reply.failure or "its answer is not JSON-RPC"


# A stdio server as a process of the doctor. The SDK hides the process. Here the doctor sees whether it starts, what it
# writes besides messages, how it ends when its input ends, and which processes it leaves behind.

LINE_BYTES = 32 * 1024 * 1024  # most bytes of one output line; a longer message is a fault of the server

GRACE_SECONDS = 2.0
"""Seconds that hosts give a server after the end of its input, and after SIGTERM (specification, "Shutdown"; SDK)."""

CHILD_SECONDS = 0.5  # seconds that the server's child processes have to end after it

GARBAGE_LINES = 5

INPUT_POLL_SECONDS = 0.25  # interval in seconds at which the doctor checks whether a process has read its input


@dataclass
class Ending:
    """How a process ended: `"by itself"`, by `"SIGTERM"` or `"SIGKILL"`; whether `children` outlived it."""

    seconds: float
    how: str
    code: int | None
    children: bool


class ServerProcess:
    """A process that the doctor starts, queries and ends; `garbage` is its output that is no message."""

    def __init__(self, spec: StdioSpec) -> None:
        self._spec = spec
        self.errlog = ErrorLog()
        self._process: asyncio.subprocess.Process | None = None
        self.garbage: list[str] = []

    @property
    def pid(self) -> int:
        """The process id, 0 before the start."""
        return self._process.pid if self._process is not None else 0

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def stderr(self) -> str:
        """The end of its stderr, secrets masked."""
        return self._spec.masked(self.errlog.tail())

    def stray_output(self) -> str:
        """Return its output besides messages so far: the end of stderr, and stray lines on stdout."""
        return "\n".join([self.stderr, *self.garbage])

    async def start(self) -> None:
        """Start it as the SDK does, again after `put_down`.

        Raises OSError if it cannot be started, and NotImplementedError if the event loop starts no processes.
        """
        from mcp.client.stdio import get_default_environment

        if self._process is not None:  # a restart
            self.errlog, self.garbage = ErrorLog(), []
        program = isolated(self._spec)
        self._process = await start_process(
            asyncio.create_subprocess_exec(
                program.command,
                *program.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self.errlog.file,
                env=get_default_environment() | dict(program.env),
                cwd=program.cwd,
                start_new_session=True,
                limit=LINE_BYTES,
            )
        )
        self.errlog.keep_small()

    async def ask(self, message: dict[str, Any], seconds: float) -> Reply:
        """Write a request and wait for its answer. Keeps stray output lines that precede the answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        started = time.perf_counter()
        reply = Reply()
        try:
            async with asyncio.timeout(seconds):
                with suppress(ConnectionError, RuntimeError):  # the process no longer reads
                    self._process.stdin.write(json.dumps(message).encode() + b"\n")
                    await self._process.stdin.drain()
                reply.message = await self._answer(message["id"])
        except TimeoutError:
            reply.failure = f"no answer in {seconds:g} s"
        except ValueError:
            reply.failure = f"a line of more than {LINE_BYTES >> 20} MB"
        reply.seconds = time.perf_counter() - started
        if reply.message is None and not reply.failure:
            reply.failure = "its output ended"
            await self._wait(1.0)
        return reply

    async def ask_patiently(self, message: dict[str, Any], seconds: float, silence: float) -> Reply:
        """Write a request as `ask` does, but wait at most `silence` seconds after the process has read it.

        As long as the process computes it is not silent: on a busy machine a server needs seconds to load its modules.
        """
        asking = asyncio.ensure_future(self.ask(message, seconds))
        stdin = self._process.stdin if self._process is not None else None
        since, work = time.monotonic(), -1
        try:
            while not asking.done() and time.monotonic() - since < silence:
                await asyncio.wait({asking}, timeout=INPUT_POLL_SECONDS)
                ticks = cpu_ticks(self.pid)
                if ticks != work or not is_read(stdin):
                    since, work = time.monotonic(), ticks
            return asking.result() if asking.done() else Reply(seconds=silence, failure=f"no answer in {silence:g} s")
        finally:
            asking.cancel()

    async def _answer(self, number: int) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        spread = SpreadMessages()
        while line := await self._process.stdout.readline():
            for text in spread.join(line.decode("utf-8", "replace")).split("\n"):
                if (message := is_message(text, number)) is not None:
                    return message
                self._note_garbage(text.encode())
        self._note_garbage(spread.rest().encode())
        return None

    def _note_garbage(self, line: bytes) -> None:
        if line.strip() and is_message(line) is None and len(self.garbage) < GARBAGE_LINES:
            self.garbage.append(self._spec.masked(line.decode("utf-8", "replace").strip())[:200])

    async def end(self) -> Ending:
        """End it as hosts do: close its input, then SIGTERM, then SIGKILL, with a grace period after each."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        started = time.perf_counter()
        process.stdin.close()
        how = "by itself"
        draining = asyncio.ensure_future(self._drain())  # a full pipe would keep it from ending
        for name in ("SIGTERM", "SIGKILL"):
            if await self._wait(GRACE_SECONDS):
                break
            how = name
            self.signal(getattr(signal, name, signal.SIGTERM))
        await self._wait(GRACE_SECONDS)
        seconds = time.perf_counter() - started
        has_children = await self._left_behind()
        await asyncio.wait({draining}, timeout=CHILD_SECONDS)  # its last lines may be in the pipe yet
        self.kill()
        await asyncio.wait({draining}, timeout=1.0)
        draining.cancel()
        return Ending(seconds, how, process.returncode, has_children)

    def kill(self) -> None:
        """Kill it and its children. Idempotent."""
        if self._process is None:
            self.errlog.close()
            return
        self.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        transport: Any = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()
        self.errlog.close()

    async def put_down(self) -> None:
        """Kill it and its children, and wait until it has ended."""
        self.kill()
        await self._wait(GRACE_SECONDS)

    async def _drain(self) -> None:
        """Read its output to the end. A `print` without `flush` comes only now: the process writes it as it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        stdout = self._process.stdout
        with suppress(ConnectionError):
            while not stdout.at_eof():
                with suppress(ValueError):  # a line of more than LINE_BYTES
                    self._note_garbage(await stdout.readline())

    async def _wait(self, seconds: float) -> bool:
        """Wait until the process has ended. Not `wait()`, which also waits for children that hold its output."""
        until = time.perf_counter() + seconds
        while self._process is not None and self.code is None and time.perf_counter() < until:
            await asyncio.sleep(0.005)
        return self.code is not None

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to it and its children."""
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            elif self.code is None and self._process is not None:
                self._process.send_signal(number)

    async def _left_behind(self) -> bool:
        """Whether a process is left in its process group, which it leads, after a moment."""
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


# The step connect for a command: start the process, send the opening requests, and end it.

DISCOVER_SECONDS = 10.0  # deadline of `server/discover` in seconds; after it `initialize` is sent, as the SDK does

SILENT_SECONDS = 3.0  # the same deadline, from the moment the server has read the request


async def open_by_hand(server: ServerProcess, spec: StdioSpec, step: Step) -> tuple[Reply | None, Reply | None]:
    """Start a server and send it both opening requests; return the answers."""
    try:
        await server.start()
    except NotImplementedError as error:
        if os.name != "nt":  # there the SDK has another way to start it
            raise step.stop(*not_started(spec, error)) from None
        step.skip("this event loop starts no processes, so the process was not examined")
        return None, None
    except OSError as error:
        raise step.stop(*not_started(spec, error)) from None
    step.ok(f"process {server.pid} started")
    try:
        answers = _send_requests(server, spec, step)
        if spec.sandbox is None:  # an isolated server opens no port
            answers = unless_listening(answers, server.stray_output, server.signal)
        first, second = await answers
    except ListensError as error:
        url = spec.masked(error.url)
        todo = f"start it in a terminal, then type `%mcp doctor {url}`"
        raise step.stop(f"it serves HTTP at {url}, and does not use stdin and stdout", todo) from None
    if server.garbage:
        judge_garbage(server.garbage[0], step)
    for line in cause(server.stderr):
        step.note(f"stderr: {line[:300]}")
    if server.code is not None and first.result is None and (second is None or second.result is None):
        raise _early_end(server, spec, step)
    if first.message is None and (second is None or second.message is None):
        raise _silent(server, spec, step)
    answered = first if first.message is not None or second is None else second
    step.ok(f"its first answer came after {duration(answered.seconds)}")
    return first, second or await _older_way(spec)


async def _send_requests(server: ServerProcess, spec: StdioSpec, step: Step) -> tuple[Reply, Reply | None]:
    """Send `server/discover`, and `initialize` if the first is refused."""
    first = await server.ask_patiently(discover(), min(DISCOVER_SECONDS, spec.timeout), SILENT_SECONDS)
    if first.result is not None:
        return first, None
    if first.message is None:
        return first, await _started_again(server, spec, step)
    server.errlog.hide(NOISE)
    return first, await server.ask(initialize(), spec.timeout)


async def _started_again(server: ServerProcess, spec: StdioSpec, step: Step) -> Reply:
    """Restart a process that did not answer `server/discover`, and send it `initialize`, as a session does."""
    how = "does not answer" if server.code is None else f"ended ({exit_words(server.code)}) at"
    await server.put_down()
    await server.start()
    reply = await server.ask(initialize(), spec.timeout)
    if reply.message is not None:
        step.ok(f"it {how} server/discover; process {server.pid} was started and asked for initialize")
    return reply


async def _older_way(spec: StdioSpec) -> Reply | None:
    """Send `initialize` to a new process: one that has answered `server/discover` no longer accepts it."""
    again = ServerProcess(spec)
    try:
        await again.start()
        reply = await again.ask(initialize(), spec.timeout)
        await again.end()
    except OSError:
        return None
    finally:
        again.kill()  # already ended, unless this was interrupted
    return reply


def cpu_ticks(group: int) -> int:
    """Return the CPU time, in clock ticks, of the running processes of a group; 0 where there is no `/proc`."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text("utf-8", "replace").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return ticks


def judge_garbage(text: str, step: Step) -> None:
    """Warn that a server printed something that is not a message."""
    problem = f"it printed something to stdout that is not an MCP message: {text!r}"
    step.warn(problem, "print to stderr: stdout is only for messages")


def _early_end(server: ServerProcess, spec: StdioSpec, step: Step) -> Stop:
    code = server.code or 0
    todo = "its stderr says why" if server.stderr else "start it in a terminal and look at what it says"
    if code == 0 and not server.stderr and not server.garbage:
        todo = NO_SERVER
    if missing := not_passed_on(server.stderr, spec.env, "doctor"):
        todo = "; ".join(missing)
    return step.stop(f"it ended before it answered ({exit_words(code)})", todo)


def _silent(server: ServerProcess, spec: StdioSpec, step: Step) -> Stop:
    waited = f"{spec.timeout:g} s"
    if server.garbage:
        problem = f"it answers neither server/discover nor initialize in {waited}"
        return step.stop(problem, "is this command an MCP server?")
    todo = "does it wait for something? --timeout S waits longer; does it speak stdio, or open a port?"
    if url := named_url(server.stray_output()):
        todo = f"it seems to listen at a URL instead of speaking stdio: `%mcp doctor {url}`"
    return step.stop(f"it runs, and answers nothing in {waited}", todo)


def judge_ending(ending: Ending, step: Step) -> None:
    """Note how a process ended."""
    if ending.how == "by itself":
        code = f" ({exit_words(ending.code)})" if ending.code else ""
        step.ok(f"the process ended{code} {duration(ending.seconds)} after its stdin was closed")
    else:
        waited = f"within {GRACE_SECONDS:g} s after its stdin was closed"
        step.warn(f"the process did not end {waited}; it took {ending.how}", "exit when stdin is closed")
    if ending.children:
        step.warn("it leaves processes running that it started", "end them when it ends")
