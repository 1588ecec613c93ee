"""Recorded sessions, and the search for the recorded answer to a request."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from mcp_magic.display.text import one_line
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Scenes, the units of replay.
#
# A scene is a request or notification of the client and everything that the server did because of it: its answer, and
# its messages and questions before and after. Except for progress, the protocol does not tell which of several pending
# requests caused a message; it is assigned to the latest.

LISTEN = "subscriptions/listen"

MEMBERS = ("id", "method", "params", "result", "error")  # the members of a message that are recorded

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@dataclass
class Step:
    """One action of the server."""

    kind: str  # answer, stray (an answer without a pending request), notification, request, stderr, garbage or ended
    message: dict[str, Any]
    pause: float = 0.0  # seconds since the previous event of the scene
    reply: dict[str, Any] | None = None  # the client's answer to a request
    http: dict[str, Any] = field(default_factory=dict)  # how HTTP answered, if that was unusual
    order: int = 0  # its position among all steps of the session


@dataclass(eq=False)
class Scene:
    """A request or notification of the client (secrets masked), and the server's reaction."""

    id: Any  # None for a notification
    method: str
    params: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    cancelled: bool = False
    used: int = 0  # how often it has been replayed
    key: str = ""
    clock: float = 0.0  # the recorded time of its last event, in seconds

    @property
    def answered(self) -> bool:
        """Whether the server answered, even with an unreadable answer."""
        return any(step.kind == "answer" or "error" in step.message for step in self.steps)

    @property
    def is_final(self) -> bool:
        """Whether nothing follows: it was answered (even with a wrong id) or cancelled, or the session ended."""
        return self.answered or self.cancelled or any(step.kind in ("ended", "stray") for step in self.steps)


@dataclass
class Session:
    """A recorded session, or an attempt to open one."""

    scenes: list[Scene]
    lines: list[dict[str, Any]]
    head: dict[str, Any]  # its first line: `server`, `transport`, `where`
    failure: dict[str, Any] | None = None  # the line with the error why it could not be opened
    early: list[Step] = field(default_factory=list)  # the server's output before the first message

    @property
    def in_process(self) -> bool:
        """Whether the server ran in the kernel itself."""
        return self.head.get("transport") == "in-process"

    @property
    def http(self) -> bool:
        """Whether its transport is HTTP, so that there are HTTP statuses."""
        return self.head.get("transport") in ("http", "sse")

    @property
    def exited(self) -> str:
        """How the server's process ended, or ""."""
        return next((str(line["exited"]) for line in self.lines if "exited" in line), "")

    @property
    def says_something(self) -> bool:
        """Whether it can be replayed: it has an answer, or an error at its opening, or the server ended it."""
        has_end = any("ended" in line for line in self.lines)
        return self.failure is not None or has_end or any(scene.answered for scene in self.scenes)


def subscription_of(message: dict[str, Any]) -> Any:
    """Return the id of the `subscriptions/listen` request that a notification belongs to, or None."""
    return _meta(message).get(_SUBSCRIPTION)


def with_subscription(message: dict[str, Any], number: Any) -> dict[str, Any]:
    """Return a copy of a notification for another `subscriptions/listen` request."""
    meta = {**_meta(message), _SUBSCRIPTION: number}
    return {**message, "params": {**message["params"], "_meta": meta}}


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    meta = (message.get("params") or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


class _Reading:
    """Builds the scenes of a session from its lines; lines of unknown kinds are ignored."""

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self.early: list[Step] = []
        self._clock = 0.0
        self._count = 0
        self._open: dict[str, Scene] = {}
        self._listening: dict[str, Scene] = {}
        self._last: Scene | None = None
        self._all: dict[str, Scene] = {}
        self._asked: dict[str, Step] = {}

    def read(self, entry: dict[str, Any]) -> None:
        self._clock += float(entry.get("pause", 0.0))
        message: dict[str, Any] = {name: entry[name] for name in MEMBERS if name in entry}
        kind = next((kind for kind in ("stderr", "garbage", "ended") if kind in entry), "")
        if kind:
            self._wrote(kind, {"text": entry[kind], **message})
        elif entry.get("to") == "server":
            self._add_scene(message)
        elif entry.get("to") != "client":
            return  # from a later version
        elif "method" not in message:
            scene = self._close_scene(message["id"])
            step = Step("answer" if scene is not None else "stray", message, http=entry.get("http") or {})
            self._step(scene or self._latest(), step)
        elif "id" in message:
            self._asked[str(message["id"])] = step = Step("request", message)
            self._step(self._latest(), step)
        else:
            self._step(self._cause(message), Step("notification", message))

    def _wrote(self, kind: str, message: dict[str, Any]) -> None:
        """Take output that is no message; an unreadable answer has its request's id and the error that replaced it."""
        scene = self._close_scene(message["id"]) if "id" in message else self._latest()
        if scene is not None and scene.steps and scene.steps[-1].kind == "ended":
            scene.steps.insert(-1, Step(kind, message, order=scene.steps[-1].order))  # last output of the process
            return
        self._step(scene, Step(kind, message))

    def _add_scene(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            if (step := self._asked.pop(str(message.get("id")), None)) is not None:
                step.reply = message
            return
        params = message.get("params") or {}
        if message["method"] == "notifications/cancelled":
            number = str(params.get("requestId"))
            if (cancelled := self._open.get(number) or self._listening.get(number)) is not None:
                cancelled.cancelled = True
            return
        scene = Scene(message.get("id"), message["method"], params, clock=self._clock)
        self.scenes.append(scene)
        listens = scene.method == LISTEN
        if not listens:
            self._last = scene
        if scene.id is not None:
            (self._listening if listens else self._open)[str(scene.id)] = self._all[str(scene.id)] = scene

    def _close_scene(self, number: Any) -> Scene | None:
        return self._open.pop(str(number), None) or self._listening.pop(str(number), None)

    def _cause(self, message: dict[str, Any]) -> Scene | None:
        params = message.get("params") or {}
        if message["method"] == "notifications/progress" and "progressToken" in params:
            return self._all.get(str(params["progressToken"])) or self._latest()
        if message["method"] == _ACKNOWLEDGED:
            return self._all.get(str(subscription_of(message))) or next(
                reversed(self._listening.values()), self._latest()
            )
        return self._latest()

    def _latest(self) -> Scene | None:
        return next(reversed(self._open.values()), self._last)

    def _step(self, scene: Scene | None, step: Step) -> None:
        self._count += 1
        step.order = self._count
        if scene is None:
            if not self.scenes and step.kind in ("stderr", "garbage"):
                self.early.append(step)
        else:
            step.pause = max(0.0, self._clock - scene.clock)
            scene.clock = self._clock
            scene.steps.append(step)


# Matching requests with recorded ones.
#
# Requests are equal if they have the same method and parameters, with secrets masked and without `_meta` (ids, progress
# tokens, trace contexts). Each recorded request is replayed once, in recorded order. Only requests that a client may
# repeat freely, listings and other reads, replay the last recording again.

_AGAIN = frozenset(
    (
        *("initialize", "server/discover", "ping", "logging/setLevel", "completion/complete"),
        *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
        *("resources/read", "prompts/get", "resources/subscribe", "resources/unsubscribe"),
    )
)
"""Methods that change nothing: requested more often than recorded, they replay the last recording."""

_BY_METHOD = ("initialize", "server/discover", LISTEN)
"""Methods whose parameters describe the client and do not identify the request."""

COMPARED = 100  # maximum number of requests to compare for the nearest one
LONGEST = 80  # maximum number of characters of a value in a message


def response_of(result: Any) -> dict[str, Any]:
    """Return what of an answer to a question must be as recorded: all of a form, and nothing of other questions."""
    members = result if isinstance(result, dict) and "action" in result else {}
    return {name: members[name] for name in ("action", "content") if members.get(name) is not None}


def key_of(method: str, params: dict[str, Any], *, responses: bool = True) -> str:
    """Return a key that is equal for equal requests; without `responses`, also if the user's answers differ."""
    members = {} if method in _BY_METHOD else {name: value for name, value in params.items() if name != "_meta"}
    if not responses and "inputResponses" in members:
        members["inputResponses"] = True
    elif isinstance(inputs := members.get("inputResponses"), dict):
        members["inputResponses"] = {name: response_of(answer) or True for name, answer in inputs.items()}
    if members.get("arguments") == {}:
        del members["arguments"]
    return json.dumps([method, members], sort_keys=True, ensure_ascii=False)


def _equal_but_masks(here: str, there: str) -> bool:
    """Whether two keys differ only in masked values: older versions knew other names of secrets."""
    return (f'"{MASK}"' in here or f'"{MASK}"' in there) and _fits(json.loads(here), json.loads(there))


def _fits(here: Any, there: Any) -> bool:
    if isinstance(here, dict) and isinstance(there, dict):
        return here.keys() == there.keys() and all(_fits(here[name], there[name]) for name in here)
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        return all(map(_fits, here, there))
    return MASK in (here, there) or (type(here) is type(there) and here == there)


class Server:
    """The recorded sessions of one server: first the `opened` ones, then those that only complete others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions: list[Session] = []
        self.opened = 0
        self._begun: dict[bool, int] = {}

    def add(self, session: Session, *, added: bool = False) -> None:
        """Add a session, or one that only completes others (`added`)."""
        for scene in session.scenes:
            scene.key = key_of(scene.method, scene.params)
        self.sessions.insert(len(self.sessions) if added else self.opened, session)
        self.opened += not added

    def rewound(self) -> Server:
        """Return it with nothing replayed yet, as a server at a URL: there each message comes for its request."""
        server = Server(self.name)
        server.opened = self.opened
        for session in self.sessions:
            scenes = [replace(scene, used=0) for scene in session.scenes]
            server.sessions.append(replace(session, scenes=scenes, head={**session.head, "transport": "http"}))
        return server

    def begin(self, *, in_process: bool) -> int:
        """Return the index of the session or failed opening that is replayed next, in recorded order.

        A server in this kernel may also be served at a URL; sessions through that URL have the same name.
        """
        every = range(self.opened)
        candidates = [n for n in every if self.sessions[n].in_process is in_process] or list(every)
        number = self._begun.get(in_process, 0)
        self._begun[in_process] = number + 1
        if number < len(candidates):
            return candidates[number]
        return next((n for n in reversed(candidates) if self.sessions[n].failure is None), candidates[-1])

    def find(
        self,
        session: int,
        method: str,
        params: dict[str, Any],
        *,
        responses: bool = True,
        own: bool = False,
    ) -> Scene | None:
        """Return the scene of a request, first of this session, then, unless `own`, of later and earlier ones."""
        key = key_of(method, params, responses=responses)
        scenes = self.sessions[session].scenes if own else self._from(session)
        keys = [(s.key if responses else key_of(s.method, s.params, responses=False), s) for s in scenes]
        matches = [scene for its, scene in keys if its == key] or [s for its, s in keys if _equal_but_masks(its, key)]
        scene = next((scene for scene in matches if not scene.used), None)
        if scene is None and method in _AGAIN:
            own_scenes = self.sessions[session].scenes if session < len(self.sessions) else []
            scene = next(iter(([scene for scene in matches if scene in own_scenes] or matches)[-1:]), None)
        if scene is not None:
            scene.used += 1
        return scene

    def _from(self, session: int) -> Iterator[Scene]:
        for number in [*range(session, len(self.sessions)), *reversed(range(min(session, len(self.sessions))))]:
            if self.sessions[number].failure is None:
                yield from self.sessions[number].scenes

    def explain(self, method: str, params: dict[str, Any]) -> str:
        """Say which request is missing, and which recorded request is nearest."""
        key, request = key_of(method, params), request_text(method, params)
        scenes = [scene for scene in self._from(0) if scene.id is not None]
        equal = [scene for scene in scenes if scene.key == key]
        if equal:
            times = "once" if len(equal) == 1 else f"{len(equal)} times"
            return f"{request} was recorded {times}, and was sent once more"
        alike = [scene for scene in scenes if scene.method == method]
        if not alike:
            others = sorted({scene.method for scene in scenes} - set(_BY_METHOD))
            return f"{request} is not in it; it has {', '.join(others[:8]) or 'nothing of this server'}"

        def likeness(scene: Scene) -> tuple[bool, float]:
            same = all(params.get(name) == scene.params.get(name) for name in ("name", "uri"))
            return same, SequenceMatcher(None, key[:2000], scene.key[:2000], autojunk=False).quick_ratio()

        nearest = max(alike[:COMPARED], key=likeness)
        mine, its = ({k: v for k, v in pair.items() if k != "_meta"} for pair in (params, nearest.params))
        differs = difference(mine, its)
        return f"{request} is not in it; the nearest is {request_text(method, nearest.params)}: {differs}"


def request_text(method: str, params: dict[str, Any]) -> str:
    """Return a request as readable text."""
    if method == "tools/call":
        arguments = params.get("arguments")
        values_by_name = arguments if isinstance(arguments, dict) else {}
        values = ", ".join(f"{name}={_value(value)}" for name, value in values_by_name.items())
        return one_line(f"{params.get('name')}({values})", 200)
    target = params.get("name", params.get("uri"))
    return one_line(f"{method} {target}" if target is not None else method, 200)


def difference(here: Any, there: Any) -> str:
    """Return the values in which two requests differ, at most three."""
    differences = list(_differences(here, there, ""))
    more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
    return "; ".join(differences[:3]) + more or "they do not differ"


def _differences(here: Any, there: Any, path: str) -> Iterator[str]:
    if isinstance(here, dict) and isinstance(there, dict):
        for name in [*here, *(name for name in there if name not in here)]:
            inner = f"{path}.{name}".lstrip(".")
            if name not in there:
                yield f"{inner} is {_value(here[name])} here, missing there"
            elif name not in here:
                yield f"{inner} is missing here, {_value(there[name])} there"
            else:
                yield from _differences(here[name], there[name], inner)
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for number, (mine, its) in enumerate(zip(here, there, strict=True)):
            yield from _differences(mine, its, f"{path}[{number}]")
    elif here != there or type(here) is not type(there):
        yield f"{path or 'it'} is {_value(here)} here, {_value(there)} there"


def _value(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), LONGEST)


@dataclass
class Content:
    """The content of a cassette: servers and their sessions, turns of models, the doctor's reports.

    Replays do not use `again`, the later answers to recorded requests, and `masks`, what varies between answers.
    """

    servers: dict[str, Server] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)
    examined: list[dict[str, Any]] = field(default_factory=list)
    again: list[dict[str, Any]] = field(default_factory=list)
    masks: list[dict[str, Any]] = field(default_factory=list)
    sessions: int = 0
    cut: int = 0  # the bytes at which the recording ended before its sessions


def read(entries: Iterable[dict[str, Any]]) -> Content:
    """Return the content of lines without the header; lines of unknown kinds are ignored."""
    content = Content()
    lines: dict[int, list[dict[str, Any]]] = {}
    heads: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if "turn" in entry:
            content.turns.append(entry)
        elif "server" in entry:
            heads[entry["session"]] = entry
        elif "session" in entry:
            lines.setdefault(entry["session"], []).append(entry)
        elif "steps" in entry:
            content.examined.append(entry)
        elif "again" in entry or "mask" in entry:
            (content.again if "again" in entry else content.masks).append(entry)
        content.cut = entry.get("cut", content.cut)
    content.sessions = max(heads, default=0)
    for number, head in heads.items():
        own, reading = lines.get(number, []), _Reading()
        for entry in own:
            reading.read(entry)
        failure = next((entry for entry in own if "failed" in entry and "to" not in entry), None)
        session = Session(reading.scenes, own, head, failure, reading.early)
        if session.says_something and "doctor" not in head:  # older versions recorded the doctor's sessions too
            server = content.servers.setdefault(head["server"], Server(head["server"]))
            server.add(session, added=bool(head.get("added")))
    return content
