"""The sessions of a host that are being opened just now."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_magic.core.lookup import numbered
from mcp_magic.errors import MCPMagicError, SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.connection import Connection

__all__ = ["Arrival", "Arrivals"]


class Arrival:
    """A session that is being opened.

    Args:
        spec: Of which server.
        name: What it is to be called.

    Attributes:
        connection: It, once it has been begun.
        unwanted: Whether the host was closed meanwhile.
    """

    def __init__(self, spec: Spec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.connection: Connection | None = None
        self.unwanted = False
        self._done: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()

    def wanted(self) -> None:
        """Do nothing while it is to be opened.

        Raises:
            SessionClosedError: The host was closed meanwhile.
        """
        if self.unwanted:
            raise SessionClosedError(f"{self.name}: all sessions were closed while this one was being opened.")

    async def joined(self) -> Connection | None:
        """Wait for what somebody else opens; None if that was interrupted.

        Raises:
            MCPMagicError: Why it could not be opened.
        """
        return await asyncio.shield(self._done)

    def done(self, connection: Connection | None = None) -> None:
        """Hand it to whoever has joined."""
        if not self._done.done():
            self._done.set_result(connection)

    def failed(self, error: MCPMagicError) -> None:
        """Tell why there is none to whoever has joined."""
        self._done.set_exception(error)
        self._done.exception()  # seen, should nobody have joined


class Arrivals:
    """All of them. A name that one of them is to have is taken; a second wish for the same server joins the first."""

    def __init__(self) -> None:
        self._under_way: list[Arrival] = []

    def names(self) -> list[str]:
        """Return the names that are taken by them."""
        return [arrival.name for arrival in self._under_way]

    def find(self, spec: Spec, name: str) -> Arrival | None:
        """Return the one to the same server under the same name, or that name with a number."""
        same = (one for one in self._under_way if one.name == name or numbered(one.name, name))
        return next((one for one in same if one.spec == spec and not one.unwanted), None)

    @contextmanager
    def add(self, spec: Spec, name: str) -> Iterator[Arrival]:
        """Count one more as long as this lasts."""
        arrival = Arrival(spec, name)
        self._under_way.append(arrival)
        try:
            yield arrival
        except MCPMagicError as error:
            arrival.failed(error)
            raise
        finally:
            self._under_way.remove(arrival)
            arrival.done()

    def refuse(self) -> list[Connection]:
        """Let none of them arrive; return those that have been begun."""
        for arrival in self._under_way:
            arrival.unwanted = True
        return [arrival.connection for arrival in self._under_way if arrival.connection is not None]
