"""Log messages of a server during the call of an outside agent: they go to the client whose call caused them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mcp_magic.config.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.outside.exchange import Exchange
    from mcp_magic.protocol import LogMessage
    from mcp_magic.session.connection import Connection

OWN = "mcp_magic"  # the logger of what mcp_magic itself notes about a session, for the person

_exchange: ContextVar[Exchange | None] = ContextVar("mcp_magic_exchange", default=None)


@contextmanager
def passed_on(connection: Connection, exchange: Exchange) -> Iterator[None]:
    """Pass the log messages of a session on to an exchange as far as its call has caused them, secrets masked.

    Over stdio a message does not name its call. If other requests are under way in the session, nobody gets it: it may
    be about the call of another client, or of the person.
    """
    masker = Masker(connection.spec.secrets)

    def take(message: LogMessage) -> None:
        cause = _exchange.get()
        if message.logger != OWN and (cause is exchange or (cause is None and connection.in_flight == 1)):
            exchange.log(message.level, masker.hide(message.logger), masker.mask_value(message.data))

    watchers = connection.notices.logs.watchers
    token = _exchange.set(exchange)
    watchers.append(take)
    try:
        yield
    finally:
        watchers.remove(take)
        _exchange.reset(token)
