"""What one session adds to a cassette: its messages, masked, as they go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.core.border_connect import connect_error
from mcp_magic.core.cassette import tenths
from mcp_magic.core.cassette.failures import told
from mcp_magic.core.cassette.scenes import LISTEN, MEMBERS
from mcp_magic.core.outcome import Outcome, current
from mcp_magic.core.place import Place
from mcp_magic.core.trace.mask import to_json
from mcp_magic.core.trace.record import Tap
from mcp_magic.core.trace.trace import OUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.wire import Wire

__all__ = ["Take", "masked"]

SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas, in which "password" names a property."""

GARBAGE = 4000
"""Characters that are kept of a line that is no message."""

_NOISE = ("traceparent", "tracestate", "baggage")
_SAID_EACH_TIME = "io.modelcontextprotocol/"


class Take(Tap):
    """One session on a cassette.

    Args:
        cassette: Where it is written to.
        server: The server's name.
        spec: Where it is.
        wire: The way to it; knows what HTTP answered.
        secrets: What else is to be masked: tokens.
        **marks: What else its first line says: `added` where it completes a session that is replayed, `doctor`.

    Attributes:
        is_open: Whether it is a session by now; else what fails is the attempt to open one.
    """

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
        self._number = cassette.next_session()
        self._place = Place(server, spec, wire)
        self._methods: dict[str, str] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._statuses: dict[str, int] = {}
        self._last = 0.0
        self._busy = 0
        cassette.masker.know({*spec.secrets, *secrets})
        head: dict[str, Any] = {"session": self._number, "server": server}
        cassette.write({**head, "transport": spec.transport, "where": cassette.masker.text(spec.where), **marks})

    def opened(self) -> None:
        """Note that it is a session."""
        self.is_open = True

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these wherever they turn up."""
        self._cassette.masker.know(secrets)

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Keep values that a person entered for a server out of the cassette."""
        self._cassette.masker.conceal(answered)

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Write a JSON-RPC message, as long as the cassette is in."""
        if self._cassette.ejected:
            return
        method, number = message.get("method"), message.get("id")
        http: dict[str, Any] = {}
        if method and number is not None:
            if direction == OUT and (made := current.get()) is not None:
                self._outcomes[str(number)] = made
            self._methods[f"{direction}{number}"] = method
        elif not method:
            back = f"{'←' if direction == OUT else '→'}{number}"
            method = self._methods.pop(back, "")
            http = self._http(str(number)) if direction != OUT else {}
        kept = masked(self._cassette, {name: message[name] for name in MEMBERS if name in message}, method or "")
        if direction == OUT:
            _without_noise(kept)
        pause, self._last = tenths(self._last)
        if direction == OUT:  # how long the person was away says nothing
            pause = pause if self._busy else {}
            self._busy += "id" in kept and kept.get("method", LISTEN) != LISTEN
        elif "method" not in kept and method != LISTEN:
            self._busy -= 1
        to = "server" if direction == OUT else "client"
        self._cassette.write({"session": self._number, "to": to, **kept, **({"http": http} if http else {}), **pause})

    def answered(self, number: Any, status: int) -> None:
        """Take note of the HTTP status that answers a request."""
        self._statuses[str(number)] = status

    def _http(self, number: str) -> dict[str, Any]:
        """Return what HTTP had to say about a request, beyond its answer, where that was not as usual."""
        made, status = self._outcomes.pop(number, None), self._statuses.pop(number, None)
        error: BaseException | None = made.error if made is not None else None
        found: dict[str, Any] = {"status": status} if status not in (None, 200) or (status and error) else {}
        if made is not None and made.retry_after is not None:
            found["retry_after"] = made.retry_after
        if made is not None and made.refused and not made.written:
            found["refused"] = True
        if error is not None:
            found |= told(error, self._cassette.masker)
        return found

    def stderr(self, line: str) -> None:
        """Write what a server wrote to its stderr."""
        if self._cassette.ejected:
            return
        pause, self._last = tenths(self._last)
        self._cassette.write({"session": self._number, "stderr": self._cassette.masker.text(line), **pause})

    def garbage(self, text: str, instead: dict[str, Any] | None) -> None:
        """Write what a server wrote that is no message.

        Args:
            text: It.
            instead: The error that a request got in its place, if it was to be an answer.
        """
        if self._cassette.ejected:
            return
        pause, self._last = tenths(self._last)
        kept = self._cassette.masker.text(text[:GARBAGE])
        answer = {name: instead[name] for name in ("id", "error")} if instead is not None else {}
        self._busy -= bool(answer)
        self._cassette.write({"session": self._number, "garbage": kept, **answer, **pause})

    def ended(self) -> None:
        """Write that the server has ended the session."""
        if not self._cassette.ejected:
            pause, self._last = tenths(self._last)
            self._cassette.write({"session": self._number, "ended": True, **pause})
            self._has_ended = True

    def exited(self, how: str) -> None:
        """Write how the process of a server ended that has ended the session, if that is known."""
        if how and self._has_ended and not self._cassette.ejected:
            self._cassette.write({"session": self._number, "exited": how})

    def failed(self, error: BaseException) -> None:
        """Write why there was no session."""
        if not self._cassette.ejected:
            failure = told(connect_error(error, self._place), self._cassette.masker)
            self._cassette.write({"session": self._number, **failure})


def masked(cassette: Cassette, value: Any, method: str) -> Any:
    """Return a value as JSON has it, secrets masked."""
    plain = json.loads(to_json(value) or b"null")
    return cassette.masker.whole(plain, schemas=method in SCHEMAS)


def _without_noise(message: dict[str, Any]) -> None:
    """Leave out of a request what is different each time, and what each request of a session says again."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return
    for name in list(meta):
        if name.startswith(_SAID_EACH_TIME) or name in _NOISE:
            del meta[name]
    if not meta:
        del params["_meta"]
