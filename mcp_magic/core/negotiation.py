"""How a session begins: with `server/discover` of 2026-07-28, or with the handshake (`initialize`) of older versions.

The SDK asks for `server/discover` first, the *probe*, and for `initialize` where that is refused. Servers of older SDKs
do not refuse: their process or their stream ends, or they stay silent (Python's `mcp` up to 1.8.1, Rust's `rmcp`). Such
a server is started again and asked for `initialize` only. What worked is remembered.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.foreign import has_ended, is_mcp_error, is_transport_error, is_unreachable, leaf
from mcp_magic.core.stdio_process import has_read
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from mcp import Client

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.errlog import ErrorLog

__all__ = ["NOISE", "KnownProtocols", "Negotiation", "Probe", "discover_only"]

SILENT_SECONDS = 0.75
"""Seconds for which a process that has read the probe may be silent before it is asked for `initialize`. One that
answers later loses nothing: the SDK then asks it again."""

NOISE = re.compile(rb"(?m)^.*(?:Failed to validate request|server/discover)")
"""Where a server's complaints about the probe begin, on its stderr."""

_UNSUPPORTED = -32022
"""JSON-RPC code of a server that speaks none of the versions that it was asked for (specification 2026-07-28)."""


class KnownProtocols:
    """The specs whose servers take the handshake only."""

    def __init__(self) -> None:
        self._handshake: list[Spec] = []

    def __contains__(self, spec: Spec) -> bool:
        return spec in self._handshake

    def add(self, spec: Spec) -> None:
        """Remember that a server took the handshake only."""
        if spec not in self._handshake:
            self._handshake.append(spec)

    def discard(self, spec: Spec) -> None:
        """Forget it."""
        if spec in self._handshake:
            self._handshake.remove(spec)


class Negotiation:
    """By which way the sessions of one connection begin.

    Args:
        spec: Where the server is, and which way you want.
        known: What is known of other sessions.

    Attributes:
        way: `"auto"`, `"handshake"` or `"2026-07-28"`: how the next session begins.
    """

    def __init__(self, spec: Spec, known: KnownProtocols) -> None:
        self._spec = spec
        self._known = known
        self._free = spec.protocol == "auto"
        self._tries = 0
        self.way = "handshake" if self._free and spec in known else spec.protocol

    def probe(self, errlog: ErrorLog | None) -> Probe:
        """Return what watches the beginning of a session.

        Args:
            errlog: The stderr of the server's process, if it has one of ours.
        """
        return Probe(errlog if self.way == "auto" else None)

    def opened(self, client: Client) -> None:
        """Remember how a session was opened."""
        self._tries = 0
        if self._free:
            modern = client.session.discover_result is not None
            self.way = "auto" if modern else "handshake"
            (self._known.discard if modern else self._known.add)(self._spec)

    def another(self, error: BaseException, probe: Probe) -> bool:
        """Whether a session that could not be opened is to be begun once more, by the other way, which is `way` then.

        Args:
            error: Why it could not be opened.
            probe: What became of the probe.
        """
        found = leaf(error)
        self._tries += 1
        if not self._free or self._tries > 1 or isinstance(found, MCPMagicError) or is_unreachable(found):
            return False
        if self.way == "handshake":
            self._known.discard(self._spec)
            self.way = "auto"
            return probe.begun and (is_mcp_error(found) or is_transport_error(found))
        refused = is_mcp_error(found) and getattr(found, "code", None) != _UNSUPPORTED
        if self._spec.transport == "http":  # there the probe left nothing behind that `initialize` could stumble over
            refused = has_ended(found)
        if not probe.sent or probe.discovered or not (refused or is_transport_error(found)):
            return False
        self.way = "handshake"
        return True


class Probe:
    """The first question of a session, and whether it will be answered.

    Args:
        errlog: The stderr of the server's process, if it has one of ours.

    Attributes:
        begun: Whether anything was sent.
        sent: Whether the probe was sent.
        discovered: Whether it was answered with a result.
    """

    def __init__(self, errlog: ErrorLog | None = None) -> None:
        self._errlog = errlog
        self._number: Any = None
        self._read_at = 0.0
        self._given_up = False
        self.begun = self.sent = self.discovered = False

    @property
    def unanswered(self) -> bool:
        """Whether the session has not begun, or its probe was not answered."""
        return not self.begun or self._number is not None

    @property
    def watched(self) -> bool:
        """Whether it is a process of ours that has not answered."""
        return self._errlog is not None and self.unanswered

    def asked(self, message: Any) -> None:
        """Take note of a message that is sent."""
        self.begun = True
        fields = message.__dict__
        if fields.get("method") == "server/discover" and not self.sent:
            self.sent = True
            self._number = fields["id"]

    def came(self, message: Any) -> None:
        """Take note of a message that came; what the server wrote about the probe is kept out of its log."""
        fields = message.__dict__
        mine = fields.get("id") == self._number and "method" not in fields
        if self._number is None or not (mine or self._given_up):
            return
        self._number = None
        self.discovered = mine and "result" in fields
        if self._errlog is not None and not self.discovered:
            self._errlog.hide(NOISE)

    def refusal(self) -> Any:
        """Return what the session is told in place of an answer, where the server has read the probe and is silent."""
        if self._errlog is None or self._number is None or self._given_up:
            return None
        if not self._read_at:
            self._read_at = time.monotonic() if has_read(self._errlog.file) else 0.0
        if not self._read_at or time.monotonic() - self._read_at < SILENT_SECONDS:
            return None
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError

        self._given_up = True
        error = ErrorData(code=-32001, message=f"no answer in {SILENT_SECONDS:g} s")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=self._number, error=error))


async def discover_only(client: Client) -> None:
    """Begin a session of a client whose `mode` is a version: the SDK would take it for begun without asking.

    Raises:
        MCPError: The server does not take that version.
    """
    from mcp_types import DiscoverResult

    session = client.session
    session.adopt(DiscoverResult.model_validate(await session.send_discover(client.protocol_version)))
