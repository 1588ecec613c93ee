"""What one session adds to a cassette: its messages, masked, as they go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette import tenths
from mcp_magic.core.cassette.scenes import LISTEN, MEMBERS
from mcp_magic.core.trace.mask import to_json
from mcp_magic.core.trace.trace import OUT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette import Cassette

__all__ = ["Take", "masked"]

SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas, in which "password" names a property."""

_NOISE = ("traceparent", "tracestate", "baggage")
_SAID_EACH_TIME = "io.modelcontextprotocol/"


class Take:
    """One session on a cassette.

    Args:
        cassette: Where it is written to.
        server: The server's name.
        spec: Where it is.
        added: Whether it completes a session that is replayed.
        secrets: What else is to be masked: tokens.
    """

    def __init__(
        self, cassette: Cassette, server: str, spec: Spec, *, added: bool = False, secrets: Iterable[str] = ()
    ) -> None:
        self._cassette = cassette
        self._number = cassette.next_session()
        self._methods: dict[str, str] = {}
        self._last = 0.0
        self._busy = 0
        cassette.masker.know({*spec.secrets, *secrets})
        head: dict[str, Any] = {"session": self._number, "server": server}
        where = cassette.masker.text(spec.where)
        cassette.write({**head, "transport": spec.transport, "where": where, **({"added": True} if added else {})})

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these wherever they turn up."""
        self._cassette.masker.know(secrets)

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Write a JSON-RPC message, as long as the cassette is in."""
        if self._cassette.ejected:
            return
        method, number = message.get("method"), message.get("id")
        if method and number is not None:
            self._methods[f"{direction}{number}"] = method
        elif not method:
            back = f"{'←' if direction == OUT else '→'}{number}"
            method = self._methods.pop(back, "")
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
        self._cassette.write({"session": self._number, "to": to, **kept, **pause})

    def stderr(self, text: str) -> None:
        """Write what a server wrote to its stderr."""
        if self._cassette.ejected:
            return
        pause, self._last = tenths(self._last)
        self._cassette.write({"session": self._number, "stderr": self._cassette.masker.text(text), **pause})


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
