"""Resolves the references to secrets of one server, when it is connected, and runs the command that writes its headers.

This is the only place where a reference becomes a value. The spec of the connection, which is compared, shown and
saved, keeps the references; only the transport is opened with the values. From then on they are masked wherever the
texts of this server appear. A session that the user opens again resolves them again, except for inputs; one that
reconnects by itself does not, because 1Password might ask at each attempt.

Programs (`op`, a headers helper) run in a process group of their own, which is ended when they are done, late, or
interrupted. The end of their stderr is told, but not if they have written a secret into it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import plural
from mcp_magic.config.masking import Masker, header_secrets, long_enough, named_secrets
from mcp_magic.config.references import INPUT, KEYRING, SERVICE, Input, Reference, SecretUse
from mcp_magic.config.specs import HeadersHelper, Spec, UrlSpec, fill_spec
from mcp_magic.display.text import one_line
from mcp_magic.errors import ConnectError, SecretError
from mcp_magic.schema.secrets import MASK
from mcp_magic.session.keyring import KeyringFailedError, in_daemon, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OP_SECONDS = 60.0
"""Seconds that `op read` may take: 1Password may ask for a finger or a password in a window."""

HELPER_SECONDS = 10.0
"""Seconds that a headers helper may take, as in Claude Code."""

MAX_OUTPUT = 100_000  # bytes of a program's output; a secret or a set of headers has no more

MAX_HEADERS = 100

SHORTEST_VALUE = 8  # characters of the shortest text that is masked because it may be a secret

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_WORD = re.compile(r"[\w+=~./-]+")
_NOT_SIGNED_IN = re.compile(r"(?i)sign(?:ed)? ?in|no accounts? configured|session expired|authoriz")

AskInput = Callable[[str, Input], Awaitable[str]]
"""Returns the value of an input for a server, which the user enters once a kernel. Raises SecretError without one."""


async def ask_nobody(server: str, entry: Input) -> str:
    """Raise SecretError: there is nobody to ask."""
    raise SecretError(f"{server}: the input {entry.id} cannot be asked for here.")


Know = Callable[[Iterable[str]], None]
"""Takes secrets that are to be masked from now on (`trace.Recorder.know`)."""


def ignore(secrets: Iterable[str]) -> None:
    """Take secrets where no messages are recorded."""


async def resolve_secrets(
    spec: Spec,
    server: str,
    know: Know,
    ask: AskInput,
    tell: Callable[[str], None] = lambda text: None,
    values: dict[str, str] | None = None,
) -> Spec:
    """Return the spec to open the transport with: its references replaced by their values, and its helper's headers.

    `tell` takes what is waited for, and "" at the end. `values` has the values that are known already, by their
    references, and takes the others. Raises SecretError if a secret cannot be had, ConnectError if the helper fails;
    nothing was started or sent then.
    """
    helper = spec.headers_helper if isinstance(spec, UrlSpec) else None
    if not spec.references and helper is None:
        return spec
    values = {} if values is None else values
    try:
        for use in spec.references:
            if use.reference.text not in values:
                tell(f"waiting for {use.text}")
                values[use.reference.text] = value = await _value(use, server, spec, ask)
                if use.reference.kind != INPUT or _input(use.reference, spec).is_secret:
                    _mask(spec, [value], know)
        full_spec = _fill(spec, values, {}, server)
        if isinstance(full_spec, UrlSpec):
            _mask(spec, header_secrets(full_spec.headers), know)  # also cookies, and the password of `Basic ${...}`
        if helper is not None and isinstance(full_spec, UrlSpec):
            tell(f"waiting for the headers of `{one_line(helper.command, 60)}`")
            full_spec = _fill(spec, values, await fetch_headers(full_spec, server, know), server)
    finally:
        tell("")
    return full_spec


async def fetch_headers(spec: UrlSpec, server: str, know: Know) -> dict[str, str]:
    """Run the headers helper of a spec without references, and mask what it writes. Raises ConnectError."""
    assert spec.headers_helper is not None
    headers = await run_helper(spec.headers_helper, server, spec.url, spec.masked)
    # all values but the shortest, which may be words like `json`
    _mask(spec, {*header_secrets(headers), *(v for v in headers.values() if len(v) >= SHORTEST_VALUE)}, know)
    return headers


def _mask(spec: Spec, secrets: Iterable[str], know: Know) -> None:
    """Mask secrets in all texts of a server from now on."""
    spec.secret_values.add(secrets)
    know(spec.secret_values.values)


def _fill(spec: Spec, values: Mapping[str, str], headers: Mapping[str, str], name: str) -> Spec:
    try:
        return fill_spec(spec, values, headers)
    except ValueError as error:
        problem = f"{name}: {error}; is the right secret stored?"
    raise SecretError(problem)


async def _value(use: SecretUse, server: str, spec: Spec, ask: AskInput) -> str:
    reference = use.reference
    if reference.kind == INPUT:
        return await ask(server, _input(reference, spec))
    try:
        value = await (_of_keyring(reference) if reference.kind == KEYRING else _of_op(reference))
    except KeyringFailedError as error:
        problem = str(error)
    else:
        if value:
            return value
        problem = "it is empty"
    raise SecretError(f"{server}: {use.text}: {problem}")


def _input(reference: Reference, spec: Spec) -> Input:
    return spec.inputs.get(reference.name) or Input(reference.name)


async def _of_keyring(reference: Reference) -> str:
    value = await read_secret(reference.service, reference.name)
    if value is None:
        service = "" if reference.service == SERVICE else f" --service {reference.service}"
        raise KeyringFailedError(f"there is no such entry. `%mcp secret set {reference.name}{service}` stores one.")
    return value


async def _of_op(reference: Reference) -> str:
    if shutil.which("op") is None:
        todo = "install it (https://developer.1password.com/docs/cli/get-started/), or use ${keyring:SERVICE/NAME}"
        raise KeyringFailedError(f"the command `op` of 1Password is not found; {todo}.")
    output = await run_program(["op", "read", "--no-newline", reference.name], OP_SECONDS)
    if output.problem:
        problem = f"`op read` {output.problem}"
        if output.is_late:
            problem += "; does 1Password ask for something in a window?"
        elif _NOT_SIGNED_IN.search(output.stderr):
            problem += ". Log in with `op signin` in a terminal, or set OP_SERVICE_ACCOUNT_TOKEN"
        raise KeyringFailedError(f"{problem}{_said(output, ())}")
    return output.text.removesuffix("\n")


# The command that writes headers.


async def run_helper(
    helper: HeadersHelper, server: str, url: str, masked: Callable[[str], str] = str
) -> dict[str, str]:
    """Run a headers helper in a shell, and return the headers that it writes. Raises ConnectError.

    As for Claude Code, the variables `CLAUDE_CODE_MCP_SERVER_NAME` and `CLAUDE_CODE_MCP_SERVER_URL` name the server.
    """
    variables = {"CLAUDE_CODE_MCP_SERVER_NAME": server, "CLAUDE_CODE_MCP_SERVER_URL": url}
    output = await run_program(helper.command, HELPER_SECONDS, env={**os.environ, **variables}, cwd=helper.cwd)
    problem = output.problem
    headers: dict[str, str] = {}
    if not problem:
        headers, problem = _read_headers(output.text)
    if not problem:
        return headers
    words = {word for word in re.split(r"[\s\"'{},:]+", output.text) if len(word) >= SHORTEST_VALUE}
    said = masked(_said(output, words))
    raise ConnectError(f"{server}: the headers helper `{one_line(helper.command, 100)}` {problem}{said}")


def _read_headers(text: str) -> tuple[dict[str, str], str]:
    """Return the headers in a helper's output, and what is wrong with it, without a word of it."""
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError):
        return {}, 'wrote no JSON; it must write an object of headers, such as {"Authorization": "Bearer ..."}'
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        return {}, "must write a JSON object whose values are texts"
    if len(headers) > MAX_HEADERS:
        return {}, f"wrote {plural(len(headers), 'headers')}, and at most {MAX_HEADERS} are taken"
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or any(character in value for character in "\r\n\0"):
            return {}, "wrote a header with a line break, or with a name that headers cannot have"
    return headers, ""


def _said(output: Output, secrets: Iterable[str]) -> str:
    """Return the last lines of a program's stderr, to append to a message, without what may be a secret.

    The secret that it was to write is not known if it has failed, so each long word with a digit is masked too.
    """
    masker = Masker(long_enough({*secrets, output.text.strip(), *named_secrets(os.environ)}))
    lines = _WORD.sub(lambda match: MASK if _may_be_secret(match[0]) else match[0], masker.text(output.stderr))
    ending = [one_line(line, 200) for line in lines.splitlines() if line.strip()][-2:]
    return "".join(f"\n  stderr: {line}" for line in ending)


def _may_be_secret(word: str) -> bool:
    parts = re.split(r"[/.]", word) if word.startswith(("/", "./", "~/")) else [word]
    return any(len(part) >= SHORTEST_VALUE and re.search(r"\d", part) for part in parts)


# Programs.


@dataclass(frozen=True)
class Output:
    """What a program wrote, and how it ended."""

    text: str  # of its standard output, at most `MAX_OUTPUT` bytes
    stderr: str  # the beginning of it
    problem: str = ""  # why it cannot be used: "failed (exit code 1)"
    is_late: bool = False


async def run_program(
    command: Sequence[str] | str,
    seconds: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Any = None,
) -> Output:
    """Run a program, or a line of a shell, with nothing to read; end it and its children when it is done or late."""
    if IN_BROWSER:
        return Output("", "", "cannot be run: this Python is in a browser, which starts no programs")
    program = _Program(command, env, cwd)
    try:
        return await in_daemon(lambda: program.run(seconds), seconds + ENDING_SECONDS)
    except TimeoutError:  # what it has left behind keeps its output open
        return Output("", "", f"did not end within {seconds:g} s, and was ended", is_late=True)
    except (OSError, ValueError) as error:
        return Output("", "", f"cannot be started: {getattr(error, 'strerror', None) or type(error).__name__}")
    finally:
        program.end()


ENDING_SECONDS = 5.0  # seconds that the end of a program may take, beside its time

REST_SECONDS = 1.0  # seconds to read what is in the pipes of a program that has ended


class _Program:
    """A program in a process group of its own, which a thread waits for."""

    def __init__(self, command: Sequence[str] | str, env: Mapping[str, str] | None, cwd: Any) -> None:
        self._command = command
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def run(self, seconds: float) -> Output:
        with self._lock:
            if self._is_over:  # it was cancelled before it began
                return Output("", "", "was not started")
            group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
            process = self._process = subprocess.Popen(
                self._command,
                shell=isinstance(self._command, str),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                **group,
            )
        assert process.stdout is not None
        assert process.stderr is not None
        output, errors = _Pipe(process.stdout, self.end), _Pipe(process.stderr)
        is_late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            is_late = True
        self.end()
        process.wait()
        text, stderr = output.text(), errors.text()
        problem = ""
        if output.is_full:
            problem = f"wrote more than {MAX_OUTPUT:,} bytes, and was ended"
        elif is_late:
            problem = f"did not end within {seconds:g} s, and was ended"
        elif process.returncode:
            problem = f"failed (exit code {process.returncode})"
        return Output(text, stderr, problem, is_late)

    def end(self) -> None:
        """End it and its children. Idempotent."""
        with self._lock:
            if self._is_over:
                return
            self._is_over, process = True, self._process
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()


class _Pipe:
    """Reads the output of a program in a thread; keeps its beginning, and throws the rest away."""

    def __init__(self, pipe: IO[bytes], on_full: Callable[[], None] = lambda: None) -> None:
        self.is_full = False
        self._pipe = pipe
        self._on_full = on_full
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read, name="mcp_magic secret", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError), self._pipe:
            while chunk := os.read(self._pipe.fileno(), 65536):
                self._data += chunk[: MAX_OUTPUT + 1 - len(self._data)]
                if len(self._data) > MAX_OUTPUT and not self.is_full:
                    self.is_full = True
                    self._on_full()

    def text(self) -> str:
        """Return what was read; what a child has left open is not waited for."""
        self._thread.join(REST_SECONDS)
        return bytes(self._data[:MAX_OUTPUT]).decode("utf-8", "replace")
