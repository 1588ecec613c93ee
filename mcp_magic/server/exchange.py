"""The requests that you sent to a server with their answers, from the trace or from a cassette, to be written out.

Both are read by the rules of a replay (`cassette/match.py`), which say what of the server's messages belongs to which
request. A recording can be written as a cassette, from which what was written out is run.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_types import SERVER_INFO_META_KEY

from mcp_magic._text import plural
from mcp_magic.cassette.file import CassetteFile
from mcp_magic.cassette.match import MEMBERS, key_of, read
from mcp_magic.cassette.requests import LISTS, answer_of, opening_of, pick_server
from mcp_magic.cassette.requests import Recording as CassetteRecording
from mcp_magic.config.masking import KEPT_BYTES
from mcp_magic.errors import CassetteError, CommandError, MCPMagicError
from mcp_magic.protocol import UNCACHED
from mcp_magic.schema.resolve import object_of
from mcp_magic.session.catalog import KINDS
from mcp_magic.trace.trace import IN, OUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mcp_magic.cassette.match import Scene
    from mcp_magic.config.specs import Spec
    from mcp_magic.session.connection import Connection
    from mcp_magic.trace.trace import Entry

METHODS = ("tools/call", "resources/read", "prompts/get")

MOST = 200  # most different requests that are written out: a map or a benchmark may have sent thousands

_QUESTIONS = ("elicitation/create", "sampling/createMessage", "roots/list")


@dataclass(frozen=True, eq=False)
class Exchange:
    """A request, secrets masked, and what came of it.

    Attributes:
        method: One of `METHODS`.
        params: Its parameters without `_meta`.
        answer: The members `result` or `error` of the answer; empty without one.
        messages: The server's other messages until then: progress, log messages, questions.
        seconds: From the request to the answer, or until nobody waited for it any more.
        time: When it was sent (`time.time()`); None on a cassette.
        number: Its number in the trace, or None.
        problem: Why it has no answer, or not the whole; "" if it has.
    """

    method: str
    params: dict[str, Any]
    answer: dict[str, Any]
    messages: tuple[dict[str, Any], ...] = ()
    seconds: float | None = None
    time: float | None = None
    number: int | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The tool, the URI or the prompt."""
        return str(self.params.get("uri" if self.method == "resources/read" else "name", ""))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool or of a prompt."""
        return object_of(self.params.get("arguments"))

    @property
    def key(self) -> str:
        """What is equal for equal requests."""
        return key_of(self.method, self.params)

    @property
    def is_failure(self) -> bool:
        """Whether the answer is an error, also of a tool."""
        return "error" in self.answer or self.answer.get("result", {}).get("isError") is True

    @property
    def hindrance(self) -> str:
        """Why a program cannot send the request and get the same answer; "" if it can."""
        kind = self.answer.get("result", {}).get("resultType", "complete")
        if self.problem:
            return self.problem
        if kind == "input_required" or any(message.get("method") in _QUESTIONS for message in self.messages):
            return "asked a question"
        return "" if kind == "complete" else f"became a {kind}"


@dataclass(frozen=True)
class Recording:
    """What was sent to one server.

    Attributes:
        server: The name of its session.
        exchanges: The requests, oldest first.
        transport: How the server was reached, as `"stdio"`.
        where: Its command line, URL or object, secrets masked.
        spec: How to reach it, or None if only `where` is known.
        opening: What it said of itself: `serverInfo`, `protocolVersion`, `capabilities`, `instructions`.
        listings: Its definitions by kind, as the server wrote them.
        cassette: The file that it comes from, or None.
        has_log_in: Whether the session has a token that its spec does not have.
        odd: What was wrong with lines of the cassette, which are left out.
    """

    server: str
    exchanges: list[Exchange]
    transport: str = ""
    where: str = ""
    spec: Spec | None = None
    opening: dict[str, Any] = field(default_factory=dict)
    listings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    cassette: Path | None = None
    has_log_in: bool = False
    odd: tuple[str, ...] = ()

    def output_schema(self, tool: str) -> dict[str, Any] | None:
        """Return the output schema of a tool, or None."""
        schema = (self.definition("tools", tool) or {}).get("outputSchema")
        return schema if isinstance(schema, dict) else None

    def definition(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the definition of a tool or a prompt, or None."""
        return next((entry for entry in self.listings.get(kind, ()) if entry.get("name") == name), None)

    def groups(self) -> tuple[list[list[Exchange]], list[str]]:
        """Return the exchanges that a program can repeat, equal requests together, and remarks on the others."""
        groups: dict[str, list[Exchange]] = {}
        hindrances = Counter(exchange.hindrance for exchange in self.exchanges if exchange.hindrance)
        for exchange in self.exchanges:
            if not exchange.hindrance:
                groups.setdefault(exchange.key, []).append(exchange)
        remarks = [f"left out: {plural(count, 'requests')}: {why}" for why, count in hindrances.items()]
        remarks += self.odd
        if (more := len(groups) - MOST) > 0:
            remarks.append(f"left out: the first {more:,} of {len(groups):,} different requests")
        return list(groups.values())[-MOST:], remarks

    def save(self, path: Path) -> None:
        """Write it as a cassette that replays the opening, the definitions and all answers, with paths as they are."""
        file = CassetteFile(path, path.parent)
        file.begin("mcp_magic")
        head = {"server": self.server, "transport": self.transport, "where": self.where}
        for line in (head, *self._messages()):
            if not file.append({"session": 1, **line}):
                break
        file.close()

    def _messages(self) -> Iterable[dict[str, Any]]:
        requests: list[tuple[str, dict[str, Any], dict[str, Any]]]
        requests = [(method, {}, {"result": result}) for method, result in self._openings()]
        for kind, entries in self.listings.items():
            result = {KINDS[kind].member: entries, "resultType": "complete", **UNCACHED}
            requests.append((KINDS[kind].request, {}, {"result": result}))
        answered = [exchange for exchange in self.exchanges if not exchange.hindrance]
        requests += [(exchange.method, exchange.params, exchange.answer) for exchange in answered]
        for number, (method, params, answer) in enumerate(requests, 1):
            yield {"to": "server", "id": number, "method": method, "params": params}
            yield {"to": "client", "id": number, **answer}

    def _openings(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield the answers to both ways to open a session: the one of another era is not asked for."""
        version, info = self.opening.get("protocolVersion") or "", self.opening.get("serverInfo") or {}
        capabilities: dict[str, Any] = {kind: {} for kind in ("tools", "resources", "prompts")}
        if version >= _MODERN:
            meta = {SERVER_INFO_META_KEY: info} if info else {}
            result = {"supportedVersions": [version], "capabilities": capabilities, "_meta": meta}
            yield "server/discover", {"resultType": "complete", **UNCACHED, **result}
        else:
            info = info or {"name": self.server, "version": ""}
            result = {"protocolVersion": version or "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            yield "initialize", result


_MODERN = "2026"


# From the trace.


async def traced(connection: Connection, entries: Iterable[Entry], last: int | None = None) -> Recording:
    """Return the requests that you sent to a connected server, of which the trace has `entries`.

    Those of agents and other programs are left out. `last` is how many to take, from the newest.

    Raises:
        CommandError: There are none.
    """
    messages = list(entries)
    exchanges = _last(list(_exchanges_of(messages)), last)
    name = connection.name
    if not exchanges:
        raise CommandError(
            f"%mcp export: the trace has no request of yours to {name} yet: a call, a read or a prompt. "
            f"`%mcp call {name}:TOOL` makes one; `%mcp trace {name}` lists what it has."
        )
    info, capabilities = connection.server_info, connection.capabilities
    opening: dict[str, Any] = {"protocolVersion": connection.protocol_version}
    for member, value in (("serverInfo", info), ("capabilities", capabilities)):
        opening[member] = value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else {}
    listings = {}
    for kind in KINDS:
        with suppress(MCPMagicError):  # an exchange can be written without its definition
            definitions = await connection.listing(kind)
            listings[kind] = [
                definition.model_dump(mode="json", by_alias=True, exclude_none=True) for definition in definitions
            ]
    spec = connection.spec
    has_log_in = bool(connection.trace.secrets - spec.secrets)
    where = (spec.transport, spec.where, spec)
    return Recording(name, exchanges, *where, opening, listings, has_log_in=has_log_in)


def _exchanges_of(entries: Sequence[Entry]) -> Iterable[Exchange]:
    lines: list[dict[str, Any]] = [{"session": 1, "server": "x"}]
    requests: list[Entry] = []
    for entry in entries:
        message = entry.message if entry.direction in (OUT, IN) and entry.kind != "garbage" else None
        if isinstance(message, dict):
            members = {name: message[name] for name in MEMBERS if name in message}
            lines.append({"session": 1, "to": "server" if entry.direction == OUT else "client", **members})
            if entry.direction == OUT and "method" in message and message["method"] != "notifications/cancelled":
                requests.append(entry)
    numbered = {entry.number: entry for entry in entries}
    lines.append({"session": 1, "ended": True})  # so that a session without answers is one, too
    [server] = read(lines).servers.values()
    for entry, scene in zip(requests, server.sessions[0].scenes, strict=True):
        if scene.method in METHODS and entry.kind == "request" and not entry.asker:
            yield _traced(entry, scene, numbered.get(entry.pair or 0))


def _traced(entry: Entry, scene: Scene, answer: Entry | None) -> Exchange:
    problem = entry.unanswered
    if answer is None and not problem:
        problem = f"HTTP {entry.status}" if (entry.status or 0) >= 400 else "no answer"
    elif answer is not None and max(entry.size, answer.size) > KEPT_BYTES:
        problem = "too long for the trace, which cuts messages; a cassette keeps them (`%mcp record FILE`)"
    at = {"seconds": entry.seconds, "time": entry.time, "number": entry.number}
    return _exchange(scene, problem=problem, **at)


def _exchange(scene: Scene, *, problem: str = "", seconds: float | None = None, **at: Any) -> Exchange:
    params = {name: value for name, value in scene.params.items() if name != "_meta"}
    if "inputResponses" in params:
        problem = "answered a question"
    answer: dict[str, Any] = {}
    messages = []
    for step in scene.steps:
        if step.kind in ("notification", "request"):
            messages.append(step.message)
        elif step.kind in ("answer", "garbage"):
            answer = answer_of(step.message)
    if not isinstance(answer.get("result", {}), dict):
        answer = {}
    problem = problem or ("" if answer else "no answer")
    return Exchange(scene.method, params, answer, tuple(messages), seconds=seconds, problem=problem, **at)


def _last(exchanges: list[Exchange], last: int | None) -> list[Exchange]:
    return exchanges if last is None else exchanges[-last:]


# From a cassette.


def recorded(path: Path, name: str | None = None, last: int | None = None) -> Recording:
    """Return the requests to a server on a cassette; `name` is one of several in it.

    Raises:
        CassetteError: The file cannot be read, does not say which server is meant, or has no request to it.
    """
    cassette = CassetteRecording(path)
    server = pick_server(path, cassette.servers, name, "name one before it, as in `%mcp export SERVER FILE ...`")
    exchanges, opening, listings = _read([scene for session in server.sessions for scene in session.scenes])
    if not exchanges:
        raise CassetteError(f"{path} has no call, read or prompt of {server.name}: there is nothing to export.")
    head = server.sessions[0].head
    where = (str(head.get("transport", "")), str(head.get("where", "")))
    return Recording(
        server.name, _last(exchanges, last), *where, None, opening, listings, path, odd=tuple(cassette.odd)
    )


def _read(scenes: Sequence[Scene]) -> tuple[list[Exchange], dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the exchanges, the opening and the definitions of a cassette."""
    exchanges: list[Exchange] = []
    listings: dict[str, list[dict[str, Any]]] = {}
    for scene in scenes:
        answers = [step.message["result"] for step in scene.steps if isinstance(step.message.get("result"), dict)]
        if scene.method in METHODS:
            seconds = sum(step.pause for step in scene.steps) if scene.steps else None
            exchanges.append(_exchange(scene, seconds=seconds))
        elif (kind := LISTS.get(scene.method)) is not None and answers:
            if "cursor" not in scene.params:
                listings[kind] = []
            entries = answers[-1].get(KINDS[kind].member)
            entries = entries if isinstance(entries, list) else []
            listings.setdefault(kind, []).extend(entry for entry in entries if isinstance(entry, dict))
    return exchanges, opening_of(scenes), listings
