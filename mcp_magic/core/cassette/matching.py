"""Which recorded request a request is, and what is said where it is none.

Requests are equal that have the same method and the same parameters, secrets masked and without `_meta` (ids, progress
tokens, trace contexts). Each recorded one is played once, in the order in which they were recorded; only what a client
may ask as often as it likes, listings and other reads, gives the last one again.
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.scenes import LISTEN
from mcp_magic.results.safe import one_line
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.core.cassette.scenes import Scene, Session

__all__ = ["COMPARED", "Server", "difference", "key_of", "shown"]

_AGAIN = frozenset(
    (
        *("initialize", "server/discover", "ping", "logging/setLevel", "completion/complete"),
        *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
        *("resources/read", "prompts/get", "resources/subscribe", "resources/unsubscribe"),
    )
)
"""Methods that change nothing: asked more often than recorded, the last one is given again."""

_BY_METHOD = ("initialize", "server/discover", LISTEN)
"""Methods whose parameters say what this client can do, and not what is asked."""

COMPARED = 100
"""Requests among which the nearest is looked for."""

LONGEST = 80
"""Characters of a value in a message."""


def key_of(method: str, params: dict[str, Any], *, responses: bool = True) -> str:
    """Return what requests that are equal have in common.

    Args:
        method: The method.
        params: The parameters, secrets masked.
        responses: Whether what a person answered in the course of a call (`inputResponses`) counts.
    """
    kept = {} if method in _BY_METHOD else {name: value for name, value in params.items() if name != "_meta"}
    if not responses and "inputResponses" in kept:
        kept["inputResponses"] = True
    if kept.get("arguments") == {}:
        del kept["arguments"]
    return json.dumps([method, kept], sort_keys=True, ensure_ascii=False)


def _equal_but_masks(here: str, there: str) -> bool:
    """Whether two keys differ only in what one of them masks: an older version knew other names of secrets."""
    return (f'"{MASK}"' in here or f'"{MASK}"' in there) and _fits(json.loads(here), json.loads(there))


def _fits(here: Any, there: Any) -> bool:
    if isinstance(here, dict) and isinstance(there, dict):
        return here.keys() == there.keys() and all(_fits(here[name], there[name]) for name in here)
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        return all(map(_fits, here, there))
    return MASK in (here, there) or (type(here) is type(there) and here == there)


class Server:
    """The recorded sessions of one server.

    Args:
        name: Its name.

    Attributes:
        sessions: Those that only complete others come last.
        opened: How many of them do not.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions: list[Session] = []
        self.opened = 0
        self._begun: dict[bool, int] = {}

    def add(self, session: Session, *, added: bool = False) -> None:
        """Add a session.

        Args:
            session: It.
            added: Whether it only completes others.
        """
        for scene in session.scenes:
            scene.key = key_of(scene.method, scene.params)
        self.sessions.insert(len(self.sessions) if added else self.opened, session)
        self.opened += not added

    def begin(self, *, in_process: bool) -> int:
        """Return which of the sessions, or of the attempts to open one, the next is: they are played in their order.

        Args:
            in_process: Whether the server is in this kernel; sessions of one that is not have the same name where a
                served one is connected to.
        """
        every = range(self.opened)
        chosen = [n for n in every if self.sessions[n].in_process is in_process] or list(every)
        number = self._begun.get(in_process, 0)
        self._begun[in_process] = number + 1
        if number < len(chosen):
            return chosen[number]
        return next((n for n in reversed(chosen) if self.sessions[n].failed is None), chosen[-1])

    def find(
        self,
        session: int,
        method: str,
        params: dict[str, Any],
        *,
        responses: bool = True,
        own: bool = False,
    ) -> Scene | None:
        """Return the scene of a request, or None.

        Args:
            session: Which session of this server it is, from 0; its own scenes come first, then later ones.
            method: The method.
            params: The parameters, secrets masked.
            responses: See `key_of`.
            own: Whether other sessions are left out.
        """
        key = key_of(method, params, responses=responses)
        known = self.sessions[session].scenes if own else self._from(session)
        keys = [(s.key if responses else key_of(s.method, s.params, responses=False), s) for s in known]
        found = [scene for its, scene in keys if its == key] or [s for its, s in keys if _equal_but_masks(its, key)]
        scene = next((scene for scene in found if not scene.used), None)
        if scene is None and method in _AGAIN:
            scene = _last(found, session, self)
        if scene is not None:
            scene.used += 1
        return scene

    def _from(self, session: int) -> Iterator[Scene]:
        for number in [*range(session, len(self.sessions)), *reversed(range(min(session, len(self.sessions))))]:
            if self.sessions[number].failed is None:
                yield from self.sessions[number].scenes

    def explain(self, method: str, params: dict[str, Any]) -> str:
        """Say what is asked for in vain, and what is nearest to it."""
        key, asked = key_of(method, params), shown(method, params)
        known = [scene for scene in self._from(0) if scene.id is not None]
        equal = [scene for scene in known if scene.key == key]
        if equal:
            times = "once" if len(equal) == 1 else f"{len(equal)} times"
            return f"{asked} was recorded {times}, and is asked for once more"
        alike = [scene for scene in known if scene.method == method]
        if not alike:
            others = sorted({scene.method for scene in known} - set(_BY_METHOD))
            return f"{asked} is not in it; it has {', '.join(others[:8]) or 'nothing of this server'}"
        nearest = max(alike[:COMPARED], key=lambda scene: _likeness(key, params, scene))
        differs = difference(_plain(params), _plain(nearest.params))
        return f"{asked} is not in it; the nearest is {shown(method, nearest.params)}: {differs}"


def _last(found: list[Scene], session: int, server: Server) -> Scene | None:
    """Return the last of equal scenes that belongs to a session, or else the last of all."""
    own = server.sessions[session].scenes if session < len(server.sessions) else []
    mine = [scene for scene in found if any(scene is each for each in own)]
    return next(iter((mine or found)[-1:]), None)


def _likeness(key: str, params: dict[str, Any], scene: Scene) -> tuple[bool, float]:
    same = params.get("name", params.get("uri")) == scene.params.get("name", scene.params.get("uri"))
    return same, SequenceMatcher(None, key[:2000], scene.key[:2000], autojunk=False).quick_ratio()


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "_meta"}


def shown(method: str, params: dict[str, Any]) -> str:
    """Return a request as a person would write it.

    >>> shown("tools/call", {"name": "add", "arguments": {"a": 1}})
    'add(a=1)'
    >>> shown("resources/read", {"uri": "math://constants"})
    'resources/read math://constants'
    """
    if method == "tools/call":
        arguments = params.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        values = ", ".join(f"{name}={_value(value)}" for name, value in given.items())
        return one_line(f"{params.get('name')}({values})", 200)
    target = params.get("name", params.get("uri"))
    return one_line(f"{method} {target}" if target is not None else method, 200)


def difference(here: Any, there: Any) -> str:
    """Return in which values two requests differ, three at most.

    >>> difference({"arguments": {"a": 1, "b": 3}}, {"arguments": {"a": 1, "b": 2}})
    'arguments.b is 3 here, 2 there'
    """
    found = list(_differences(here, there, ""))
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more or "they differ in nothing"


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
