"""The inserted cassette: its modes, its recording, and errors as its lines store them."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import errors
from mcp_magic._text import did_you_mean, join_names
from mcp_magic.cassette.file import LARGEST, CassetteFile
from mcp_magic.cassette.match import LISTEN, MEMBERS, Content, read
from mcp_magic.config.masking import Masker, named_secrets, to_json
from mcp_magic.errors import CassetteError
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.protocol import is_mistakable
from mcp_magic.session.failures import connect_error
from mcp_magic.session.wire import ErrorContext
from mcp_magic.trace.trace import OUT, Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.session.wire import Wire


# A cassette in use. Requests and turns of models are masked, and written as they happen.

MODES: dict[str, str] = {
    "once": "replays if the file exists, else records",
    "replay": "only replays: a request that is not in the file is an error",
    "record": "records everything again",
    "auto": "replays recorded requests, and adds the others",
}
"""Mode -> description. pytest-recording calls them once, none, all and new_episodes."""


class Commands(NamedTuple):
    """What to type to make a cassette, to add what is missing, and to allow more bytes (`{bytes}`)."""

    make: str = "`%mcp record FILE`"
    add: str = "`%mcp record FILE --mode auto`"
    allow: str = "`%config MCPMagics.cassette_bytes = {bytes}`"


COMMANDS = Commands()


@dataclass(frozen=True)
class CassetteOptions:
    """How a cassette is used.

    Attributes:
        pauses: Whether recorded pauses are kept.
        in_process: Whether servers in the kernel itself run (`"live"`) or are replayed (`"replay"`).
        here: The folder whose path is written as `«here»`, so that the cassette plays in other folders.
        largest: The most bytes that the file may have; the recording ends there.
        commands: What to type, for messages.
        asks: Whether the user can be asked the servers' questions; otherwise the recorded answers are used.
        tell: Called with the line for the user when the recording ends before its session.

    Raises:
        CassetteError: There is no such `in_process`.
    """

    pauses: bool = False
    in_process: str = "live"
    here: Path | None = None
    largest: int = LARGEST
    commands: Commands = COMMANDS
    asks: Callable[[], bool] = lambda: False
    tell: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        _check_choice("in-process", self.in_process, ("live", "replay"))


LIKE_KEYS = 8  # minimum length of a secret-looking environment variable's value for it to be masked


class Cassette:
    """A cassette in use; `mode` is a key of `MODES`.

    Raises:
        CassetteError: It cannot be read, or there is no such mode.
    """

    def __init__(self, path: Path, mode: str = "once", options: CassetteOptions | None = None) -> None:
        _check_choice("mode", mode, tuple(MODES))
        self.path = path
        self.mode = mode
        self.options = options = options or CassetteOptions()
        self.masker = Masker({value for value in named_secrets(dict(os.environ)) if len(value) >= LIKE_KEYS})
        self.file = CassetteFile(path, options.here, options.largest)
        self.recorded = self.played = 0
        self.ejected = self.full = False
        self.book: Any = None
        self.content = Content()
        self._written: dict[str, dict[str, None]] = {"server": {}, "model": {}}
        there = path.exists()
        if mode == "replay" and not there:
            raise CassetteError(f"there is no cassette {path}; {options.commands.make} makes it.")
        if there and mode != "record":
            self.content = read(self.file.read())
        self.replays = mode in ("replay", "auto") or (mode == "once" and there)
        self.records = mode in ("record", "auto") or (mode == "once" and not there)

    def __repr__(self) -> str:
        return f"<Cassette {str(self.path)!r}: {self.doing}>"

    @property
    def doing(self) -> str:
        """Whether it is replaying or recording, in words."""
        if self.full:
            return f"full ({self.file.largest:,} bytes): nothing more is recorded"
        if self.replays and self.records:
            return "replaying, and recording what is not in it"
        return "replaying" if self.replays else "recording"

    @property
    def recording(self) -> bool:
        """Whether what is sent and received still gets into the file."""
        return not (self.ejected or self.full)

    @property
    def more(self) -> str:
        """What to type to have more bytes recorded."""
        return f"{self.options.commands.allow.format(bytes=2 * self.file.largest)} allows more"

    def adds(self, missing: str) -> str:
        """Return what to type to get into the cassette what is missing."""
        if self.content.cut and not self.records:
            return f"its recording ended at {self.content.cut:,} bytes; {self.more} when it is recorded again"
        return f"{self.options.commands.add} adds {missing}"

    @property
    def servers(self) -> list[str]:
        """The names of its servers."""
        return list(dict.fromkeys([*self.content.servers, *self._written["server"]]))

    @property
    def models(self) -> list[str]:
        """The names of its models."""
        recorded = [line["model"] for line in self.content.turns if "model" in line]
        return list(dict.fromkeys([*recorded, *self._written["model"]]))

    def write(self, entry: dict[str, Any]) -> None:
        """Write a line at once, unless it is ejected or full; end the recording if the file would become too large."""
        if not self.recording:
            return
        if not self.file.begun:
            from mcp_magic import __version__

            self.file.begin(f"mcp_magic {__version__}")
        if not self.file.append(entry):
            self.end()
            return
        self.recorded += 1
        for kind, names in self._written.items():
            if kind in entry:
                names[entry[kind]] = None

    def eject(self) -> None:
        """End its use; other kernels may write to the file again."""
        self.ejected = True
        self.file.close()

    def end(self) -> None:
        """End the recording, because a larger file could not be played, and tell the user. Idempotent."""
        if self.full:
            return
        self.full = True
        self.file.cut()
        with suppress(Exception):  # an error of the display must not end the call
            self.options.tell(
                f"The recording on {self.path} has ended: a cassette has at most {self.file.largest:,} bytes. It plays "
                f"up to here; {self.more}."
            )


def tenths(since: float) -> tuple[dict[str, float], float]:
    """Return the `pause` member for a line, to a tenth of a second, and the current time."""
    now = time.monotonic()
    pause = round(now - since, 1) if since else 0.0
    return ({"pause": pause} if pause else {}), now


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise CassetteError(
            f"{value!r} is not a {name} of a cassette.{did_you_mean(value, choices)} There are {join_names(choices)}."
        )


# The deck: one cassette for all hosts of this process. The environment variables `MCP_MAGIC_CASSETTE` and
# `MCP_MAGIC_CASSETTE_MODE` insert one in notebooks that papermill, nbclient or nbval execute.

VARIABLE = "MCP_MAGIC_CASSETTE"
"""Environment variable with the file; with the suffixes `_MODE`, `_IN_PROCESS` and `_PAUSES`, the options."""


class Deck:
    """Holds the inserted cassette, and what the next ones get (`asks`, `tell` and `largest` of their options)."""

    def __init__(self) -> None:
        self._cassette: Cassette | None = None
        self._looked = False
        self.asks: Callable[[], bool] = lambda: False
        self.tell: Callable[[str], None] = lambda text: None
        self.largest = LARGEST

    @property
    def cassette(self) -> Cassette | None:
        """The inserted cassette, or None; at the first access the one that the environment names."""
        if not self._looked:
            self._cassette = self._from_environment(os.environ)
            self._looked = True
        return self._cassette

    def insert(self, path: Path | str, mode: str = "once", **options: Any) -> Cassette:
        """Insert a cassette in place of the current one, which stays if the new one cannot be used.

        `options` are those of `CassetteOptions`.
        """
        cassette = self._opened(path, mode, **options)
        self.eject()
        self._cassette = cassette
        return cassette

    def _opened(self, path: Path | str, mode: str, **options: Any) -> Cassette:
        options = {"largest": self.largest, "tell": lambda text: self.tell(text), **options}
        return Cassette(Path(path).expanduser(), mode, CassetteOptions(asks=lambda: self.asks(), **options))

    @contextmanager
    def holding(self, path: Path | str, mode: str = "once", **options: Any) -> Iterator[Cassette]:
        """Insert a cassette for the duration of the context; see `insert`."""
        before, looked = self._cassette, self._looked
        self._cassette = None
        try:
            yield self.insert(path, mode, **options)
        finally:
            self.eject()
            self._cassette, self._looked = before, looked

    def eject(self) -> Cassette | None:
        """Remove the cassette and return it; from now on requests go to the real servers."""
        cassette, self._cassette, self._looked = self._cassette, None, True
        if cassette is not None:
            cassette.eject()
        return cassette

    def _from_environment(self, environ: Mapping[str, str]) -> Cassette | None:
        path = environ.get(VARIABLE, "").strip()
        if not path:
            return None
        options: dict[str, Any] = {}
        for name in ("mode", "in_process", "pauses"):
            if value := environ.get(f"{VARIABLE}_{name.upper()}", "").strip().lower():
                options[name] = value
        if "pauses" in options:
            options["pauses"] = options["pauses"] not in ("0", "false", "no", "off")
        return self._opened(path, options.pop("mode", "once"), **options)


deck = Deck()  # the deck of this process


# Errors as lines of a cassette store them: `{"failed": "ServerExitedError", "message": "..."}`.
#
# Foreign errors below HTTP are `{"lost": "..."}`, with `"refused": true` if nothing was sent.


def error_members(error: BaseException, masker: Masker) -> dict[str, Any]:
    """Return an error's class, message (secrets masked), status and code as members of a line."""
    if not isinstance(error, errors.MCPMagicError):
        return {"lost": masker.text(str(error).strip() or type(error).__name__)}
    members: dict[str, Any] = {"failed": type(error).__name__, "message": masker.text(str(error))}
    if isinstance(error, errors.HTTPStatusError):
        members["status"] = error.status
    if isinstance(error, errors.ProtocolError):
        members["code"] = error.code
    return members


def recorded_error(entry: dict[str, Any], stderr: str = "") -> errors.MCPMagicError:
    """Return the recorded error; a class unknown to this version becomes a `ConnectError`."""
    kind: Any = getattr(errors, str(entry["failed"]), None)
    text = str(entry.get("message", ""))
    options: dict[str, Any] = {}
    if not isinstance(kind, type) or not issubclass(kind, errors.MCPMagicError):
        kind = errors.ConnectError
    if kind is errors.HTTPStatusError:
        options["status"] = int(entry.get("status") or 0)
    elif kind is errors.ProtocolError:
        options["code"] = int(entry.get("code") or 0)
    elif issubclass(kind, errors.ConnectError):
        options["stderr"] = stderr
    error: errors.MCPMagicError = kind(text, **options)
    return error


def http_error(http: dict[str, Any]) -> Exception | None:
    """Return the recorded error of an HTTP request that failed below HTTP or at the log-in, or None."""
    if "failed" in http:
        return recorded_error(http)
    if "lost" in http:
        kind = ConnectionError if http.get("refused") else EOFError
        return kind(str(http["lost"]))
    return None


# Recording one session.

SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages contain JSON Schemas, where "password" is the name of a property and no secret follows."""

GARBAGE = 4000  # maximum number of characters to keep of a line that is no message

_NOISE = ("traceparent", "tracestate", "baggage")
_SAID_EACH_TIME = "io.modelcontextprotocol/"


class SessionRecorder(Tap):
    """Records one session of a server; `marks` are further members of its first line: `added`."""

    reads_stderr = True

    def __init__(
        self,
        cassette: Cassette,
        server: str,
        spec: Spec,
        wire: Wire | None = None,
        *,
        secrets: Iterable[str] = (),
        **marks: Any,
    ) -> None:
        self.is_open = self._has_ended = False
        self._cassette = cassette
        cassette.content.sessions += 1
        self._number = cassette.content.sessions
        self._place = ErrorContext(server, spec, wire)
        self._methods: dict[str, str] = {}
        self._attempts: dict[str, Attempt] = {}
        self._statuses: dict[str, int] = {}
        self._last = 0.0
        self._busy = 0
        cassette.masker.know({*spec.secrets, *secrets})
        where = cassette.masker.text(spec.where)
        self._write({"server": server, "transport": spec.transport, "where": where, **marks})

    def _write(self, members: dict[str, Any]) -> None:
        self._cassette.write({"session": self._number, **members})

    def _pause(self) -> dict[str, float]:
        pause, self._last = tenths(self._last)
        return pause

    def opened(self) -> None:
        """Note that the session is open."""
        self.is_open = True

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these secrets from now on."""
        self._cassette.masker.know(secrets)

    def set_cookie(self, value: str) -> None:
        """Mask a cookie that the server has set."""
        self._cassette.masker.learn_cookies("set-cookie", value)

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Keep values that the user entered for a server out of the cassette."""
        self._cassette.masker.conceal(answered)

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Write a JSON-RPC message, while the cassette is inserted."""
        if not self._cassette.recording:
            return
        method, number = message.get("method"), message.get("id")
        http: dict[str, Any] = {}
        if method and number is not None:
            if direction == OUT and (attempt := current_attempt.get()) is not None:
                self._attempts[str(number)] = attempt
            self._methods[f"{direction}{number}"] = method
        elif not method:
            back = f"{'←' if direction == OUT else '→'}{number}"
            method = self._methods.pop(back, "")
            http = self._http(str(number)) if direction != OUT else {}
            if direction != OUT and is_mistakable(message.get("error"), http.get("status")):
                http["said"] = True
        members = masked(self._cassette, {name: message[name] for name in MEMBERS if name in message}, method or "")
        if direction == OUT:
            _without_noise(members)
        pause = self._pause()
        if direction == OUT:  # how long the user was idle does not matter
            pause = pause if self._busy else {}
            self._busy += "id" in members and members.get("method", LISTEN) != LISTEN
        elif "method" not in members and method != LISTEN:
            self._busy -= 1
        to = "server" if direction == OUT else "client"
        self._write({"to": to, **members, **({"http": http} if http else {}), **pause})

    def answered(self, number: Any, status: int) -> None:
        """Note the HTTP status of a request."""
        self._statuses[str(number)] = status

    def _http(self, number: str) -> dict[str, Any]:
        attempt, status = self._attempts.pop(number, None), self._statuses.pop(number, None)
        error: BaseException | None = attempt.error if attempt is not None else None
        members: dict[str, Any] = {"status": status} if status not in (None, 200) or (status and error) else {}
        if attempt is not None and attempt.retry_after is not None:
            members["retry_after"] = attempt.retry_after
        if attempt is not None and attempt.refused and not attempt.written:
            members["refused"] = True
        if error is not None:
            members |= error_members(error, self._cassette.masker)
        return members

    def stderr(self, line: str) -> None:
        """Write a line of the server's stderr."""
        self._write({"stderr": self._cassette.masker.text(line), **self._pause()})

    def garbage(self, text: str, instead: dict[str, Any] | None) -> None:
        """Write output that is no message, and the error that its request got if it was meant as an answer."""
        answer = {name: instead[name] for name in ("id", "error")} if instead is not None else {}
        self._busy -= bool(answer)
        self._write({"garbage": self._cassette.masker.text(text[:GARBAGE]), **answer, **self._pause()})

    def ended(self) -> None:
        """Write that the server has ended the session."""
        self._write({"ended": True, **self._pause()})
        self._has_ended = True

    def exited(self, how: str) -> None:
        """Write how the server's process ended, if known and if the server has ended the session."""
        if how and self._has_ended:
            self._write({"exited": how})

    def record_failure(self, error: BaseException) -> None:
        """Write why the session could not be opened."""
        self._write(error_members(connect_error(error, self._place), self._cassette.masker))


def masked(cassette: Cassette, value: Any, method: str) -> Any:
    """Return a value as plain JSON data, secrets masked."""
    plain = json.loads(to_json(value) or b"null")
    return cassette.masker.mask_value(plain, schemas=method in SCHEMAS)


def _without_noise(message: dict[str, Any]) -> None:
    """Remove from a request's `_meta` trace contexts and what each request of a session repeats."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return
    for name in list(meta):
        if name.startswith(_SAID_EACH_TIME) or name in _NOISE:
            del meta[name]
    if not meta:
        del params["_meta"]
