"""What a recorded session is played from: scenes.

A scene is what the client sent, a request or a notification, and what the server did because of it: its answer,
and what it said and asked before and after that. Which of several requests under way caused something, the protocol
does not say except for progress; it is taken for the latest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LISTEN", "MEMBERS", "Scene", "Session", "Step", "session_of", "subscription_of", "with_subscription"]

LISTEN = "subscriptions/listen"

MEMBERS = ("id", "method", "params", "result", "error")
"""What is kept of a message."""

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@dataclass
class Step:
    """One thing that the server did.

    Attributes:
        kind: `"answer"`, `"stray"` (an answer that nobody waited for), `"told"` (a notification), `"asked"` (a
            request), `"stderr"`, `"garbage"` (what is no message) or `"ended"` (the server has ended the session).
        message: The members of the message; of stderr and garbage the text.
        pause: Seconds since what was before it in the scene.
        reply: What the client answered to a request, or None.
        http: How HTTP answered, where that was not as usual.
        order: Where it was among all that happened in the session.
    """

    kind: str
    message: dict[str, Any]
    pause: float = 0.0
    reply: dict[str, Any] | None = None
    http: dict[str, Any] = field(default_factory=dict)
    order: int = 0


@dataclass(eq=False)
class Scene:
    """What the client sent, and what came of it.

    Attributes:
        id: The id of the request; None for a notification.
        method: Its method.
        params: Its parameters, secrets masked.
        steps: What the server did.
        cancelled: Whether the client gave it up.
        used: How often it was played.
        key: What it has in common with equal requests.
    """

    id: Any
    method: str
    params: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    cancelled: bool = False
    used: int = 0
    key: str = ""
    clock: float = 0.0

    @property
    def answered(self) -> bool:
        """Whether the server answered, be it with something that could not be read."""
        return any(step.kind == "answer" or "error" in step.message for step in self.steps)

    @property
    def settled(self) -> bool:
        """Whether it is known what became of it: answered, also with another id, given up, or the session ended."""
        return self.answered or self.cancelled or any(step.kind in ("ended", "stray") for step in self.steps)


@dataclass
class Session:
    """A recorded session, or an attempt to open one.

    Attributes:
        scenes: What is played.
        lines: What it is made of.
        head: The line that begins it: `server`, `transport`, `where`.
        failed: The line that says why it could not be opened, or None.
        early: What the server wrote before anything was sent.
    """

    scenes: list[Scene]
    lines: list[dict[str, Any]]
    head: dict[str, Any]
    failed: dict[str, Any] | None = None
    early: list[Step] = field(default_factory=list)

    @property
    def in_process(self) -> bool:
        """Whether the server was in the kernel itself."""
        return self.head.get("transport") == "in-process"

    @property
    def http(self) -> bool:
        """Whether there are HTTP statuses."""
        return self.head.get("transport") in ("http", "sse")

    @property
    def exited(self) -> str:
        """How the server's process ended, or ""."""
        return next((str(line["exited"]) for line in self.lines if "exited" in line), "")

    @property
    def says_something(self) -> bool:
        """Whether it was a session, or is known why it was none, or that the server ended it."""
        ended = any("ended" in line for line in self.lines)
        return self.failed is not None or ended or any(scene.answered for scene in self.scenes)


def subscription_of(message: dict[str, Any]) -> Any:
    """Return the id of the `subscriptions/listen` request that a notification belongs to, or None."""
    return _meta(message).get(_SUBSCRIPTION)


def with_subscription(message: dict[str, Any], number: Any) -> dict[str, Any]:
    """Return a notification that belongs to another `subscriptions/listen` request."""
    meta = {**_meta(message), _SUBSCRIPTION: number}
    return {**message, "params": {**message["params"], "_meta": meta}}


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    meta = (message.get("params") or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def session_of(head: dict[str, Any], entries: Iterable[dict[str, Any]]) -> Session:
    """Return what the lines of one session say; those of kinds that are not known are passed over."""
    lines = list(entries)
    reading = _Reading()
    for entry in lines:
        reading.read(entry)
    failed = next((entry for entry in lines if "failed" in entry and "to" not in entry), None)
    return Session(reading.scenes, lines, head, failed, reading.early)


class _Reading:
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
            self._sent(message)
        elif entry.get("to") != "client":
            return  # of a later version
        elif "method" not in message:
            scene = self._settled(message["id"])
            step = Step("answer" if scene is not None else "stray", message, http=entry.get("http") or {})
            self._step(scene or self._latest(), step)
        elif "id" in message:
            self._asked[str(message["id"])] = step = Step("asked", message)
            self._step(self._latest(), step)
        else:
            self._step(self._cause(message), Step("told", message))

    def _wrote(self, kind: str, message: dict[str, Any]) -> None:
        """Take what is no message; an answer that could not be read has the id of its request, and what that got."""
        scene = self._settled(message["id"]) if "id" in message else self._latest()
        if scene is not None and scene.steps and scene.steps[-1].kind == "ended":
            scene.steps.insert(-1, Step(kind, message, order=scene.steps[-1].order))  # its last words
            return
        self._step(scene, Step(kind, message))

    def _sent(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            if (asked := self._asked.pop(str(message.get("id")), None)) is not None:
                asked.reply = message
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

    def _settled(self, number: Any) -> Scene | None:
        """Return the request under way that has this id, and is under way no longer."""
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
        """Return the latest request under way, or what was sent last."""
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
