"""The log-in of a session's HTTP client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcp_magic.session.wire import Authenticator, Event, Wire

if TYPE_CHECKING:
    import httpx2

    from mcp_magic.auth.login import LogIns
    from mcp_magic.config.specs import HttpSpec, SseSpec


def authenticator(logins: LogIns) -> Authenticator:
    """Return the function that adds the log-in to the HTTP client of a session."""

    def authenticate(client: httpx2.AsyncClient, spec: HttpSpec | SseSpec, wire: Wire) -> None:
        from mcp_magic.auth.client import AuthContext, log_in_with

        about, logged_in = wire.recorder, partial(wire.report, Event.LOGGED_IN)
        hooks = (about.know, about.hide, lambda: wire.open, logged_in, wire.remark)
        log_in_with(client, AuthContext(about.server, spec, logins, *hooks))

    return authenticate
