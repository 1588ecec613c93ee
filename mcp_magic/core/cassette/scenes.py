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

__all__ = ["LISTEN", "Scene", "Step", "scenes_of", "subscription_of"]

LISTEN = "subscriptions/listen"

MEMBERS = ("id", "method", "params", "result", "error")
"""What is kept of a message."""

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@dataclass
class Step:
    """One thing that the server did.

    Attributes:
        kind: `"answer"`, `"told"` (a notification), `"asked"` (a request) or `"stderr"`.
        message: The members of the message; of stderr the text.
        pause: Seconds since what was before it in the scene.
        reply: What the client answered to a request, or None.
    """

    kind: str
    message: dict[str, Any]
    pause: float = 0.0
    reply: dict[str, Any] | None = None


@dataclass
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
        """Whether the server answered."""
        return any(step.kind == "answer" for step in self.steps)


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


def scenes_of(entries: Iterable[dict[str, Any]]) -> list[Scene]:
    """Return the scenes of the lines of one session."""
    reading = _Reading()
    for entry in entries:
        reading.read(entry)
    return reading.scenes


class _Reading:
    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self._clock = 0.0
        self._open: dict[str, Scene] = {}
        self._all: dict[str, Scene] = {}
        self._asked: dict[str, Step] = {}

    def read(self, entry: dict[str, Any]) -> None:
        self._clock += float(entry.get("pause", 0.0))
        message: dict[str, Any] = {name: entry[name] for name in MEMBERS if name in entry}
        if "stderr" in entry:
            self._step(self._latest(), Step("stderr", {"text": entry["stderr"]}))
        elif entry.get("to") == "server":
            self._sent(message)
        elif "method" not in message:
            self._step(self._open.pop(str(message.get("id")), None), Step("answer", message))
        elif "id" in message:
            self._asked[str(message["id"])] = step = Step("asked", message)
            self._step(self._latest(), step)
        else:
            self._step(self._cause(message), Step("told", message))

    def _sent(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            if (asked := self._asked.pop(str(message.get("id")), None)) is not None:
                asked.reply = message
            return
        params = message.get("params") or {}
        if message["method"] == "notifications/cancelled":
            if (scene := self._open.get(str(params.get("requestId")))) is not None:
                scene.cancelled = True
            return
        scene = Scene(message.get("id"), message["method"], params, clock=self._clock)
        self.scenes.append(scene)
        if scene.id is not None:
            self._open[str(scene.id)] = self._all[str(scene.id)] = scene

    def _cause(self, message: dict[str, Any]) -> Scene | None:
        params = message.get("params") or {}
        if message["method"] == "notifications/progress" and "progressToken" in params:
            return self._all.get(str(params["progressToken"])) or self._latest()
        if message["method"] == _ACKNOWLEDGED:
            return self._all.get(str(subscription_of(message))) or self._latest(LISTEN)
        return self._latest()

    def _latest(self, method: str = "") -> Scene | None:
        """Return the latest request under way, or what was sent last."""
        found = [s for s in self._open.values() if (s.method == method if method else s.method != LISTEN)]
        sent = [scene for scene in self.scenes if scene.method != LISTEN]
        return next(iter([*reversed(found), *sent[-1:]]), None)

    def _step(self, scene: Scene | None, step: Step) -> None:
        if scene is not None:
            step.pause = max(0.0, self._clock - scene.clock)
            scene.clock = self._clock
            scene.steps.append(step)
