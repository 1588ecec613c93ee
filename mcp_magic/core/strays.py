"""Answers with an id that nobody asked: whose they may be, and what the request is told that waits in vain.

The SDK takes "7" for 7 and drops every other answer that it does not expect. Here such an answer is remembered by the
requests that wait, and one that is certainly meant for one of them ends it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.core.malformed import instead_of_strange, whole_answer
from mcp_magic.core.outcome import Awaited, current
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

__all__ = ["Strays"]

WAITING = 10_000
"""Requests without an answer that are remembered; a server that never answers must not fill the memory."""

TOLD = 10
"""Strays of a session that are told; more of them say nothing new."""

_SPELT = re.compile(r"[^\w]*0*(\d+)(\.0+)?[^\w]*", re.ASCII)
"""Ids that are a number, spelt as they must not be: `7.0`, `"#7"`, `[7]`."""

_NOTHING: dict[str, Any] = {}


class Strays:
    """The requests of one session that wait for their answers, and the answers that are nobody's.

    Args:
        told: Told of each stray, in words.
        masked: Takes secrets out of a text.
    """

    def __init__(self, told: Callable[[str], None], masked: Callable[[str], str] = str) -> None:
        self._told = told
        self._masked = masked
        self._waiting: dict[int | str, Awaited] = {}
        self._highest = 0
        self._count = 0

    def sent(self, message: Any) -> None:
        """Take note of what is sent, in the context of whoever sends it."""
        fields = message.__dict__
        number = fields.get("id")
        if number is None or "method" not in fields:
            return
        awaited = self._waiting[number] = Awaited(number)
        if isinstance(number, int) and number > self._highest:
            self._highest = number
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]
        if (outcome := current.get()) is not None:
            outcome.sends(awaited)

    def came(self, message: Any, stream: Any) -> Any:
        """Take note of a message that came.

        Args:
            message: It.
            stream: Where it came from; over HTTP it has the context in which the request was posted.

        Returns:
            The `SessionMessage` that the session is to see in its place, or None.
        """
        fields = message.__dict__
        if "method" in fields:
            return None
        if (awaited := self._waiting.pop(fields["id"], None)) is not None:
            awaited.result = fields.get("result")
            return None
        return self._stray(fields["id"], fields.get("error"), stream)

    def unreadable(self, problem: Exception, stream: Any) -> Any:
        """Take note of what is no message, but may be an answer whose id is none; returns the same."""
        whole = whole_answer(problem)
        if whole is None or not whole.keys() & {"result", "error"}:
            return None
        return self._stray(whole.get("id", _NOTHING), None, stream)

    def _stray(self, number: Any, error: Any, stream: Any) -> Any:
        try:
            known = self._waiting.pop(int(number), None) if isinstance(number, str) else None
        except ValueError:
            known = None
        if known is not None:  # the SDK reads it so, too
            return None
        said = self._masked(_said(number, error, already=isinstance(number, int) and 0 < number <= self._highest))
        self._count += 1
        if self._count <= TOLD:
            self._told(f"The server answered {said}")
        meant = self._meant(number, getattr(stream, "last_context", None))
        if meant is not None:
            del self._waiting[meant.number]
            return instead_of_strange(meant.number, said)
        for awaited in self._waiting.values():
            awaited.stray(said)
        return None

    def _meant(self, number: Any, context: Context | None) -> Awaited | None:
        """Return the request that an answer is certainly meant for."""
        outcome = context.get(current) if context is not None else None
        posted = outcome.awaited if outcome is not None else None
        if posted is not None and self._waiting.get(posted.number) is posted:
            return posted
        spelt = _SPELT.fullmatch(str(number)) if not isinstance(number, int) else None
        return self._waiting.get(int(spelt[1])) if spelt is not None else None


def _said(number: Any, error: Any, *, already: bool) -> str:
    """Say with which id something was answered.

    >>> _said("x", None, already=False), _said(3, None, already=True)
    ('with id "x", which nobody asked', 'with id 3, which had its answer already')
    >>> _said(_NOTHING, None, already=False)
    'without an id'
    """
    if number is _NOTHING:
        return "without an id"
    shown = one_line(json.dumps(number, ensure_ascii=False, default=str), 40)
    what = f" (the error {one_line(error.message, 100)!r}, {error.code})" if error is not None else ""
    return f"with id {shown}{what}, which {'had its answer already' if already else 'nobody asked'}"
