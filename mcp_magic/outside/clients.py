"""The clients of the kernel: their names, which are what they say, and their limits.

A name tells the person who asks; it proves nothing, because each program of this user can say any name. So it is
bounded, deceptive characters in it are written out, a second client of one name gets a number, and a question says that
the name is a claim. What a client may read and what is counted of it hangs on its key, which it does not choose.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration
from mcp_magic.consent.rules import OUTSIDE
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import visible
from mcp_magic.errors import DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_NAME = 40  # characters of a client's name
MAX_CLIENTS = 64  # clients at a time; above it, one that has made no call for the longest time is forgotten
MAX_CALLS = 16  # calls of one client that run or wait at a time
MAX_STARTS = 600  # calls that one client begins within a minute
MINUTE = 60.0  # seconds

UNNAMED = "unnamed"  # the name of a client that says none


def claimed_name(name: str) -> str:
    r"""Return the name that a client claims, cut, on one line, and with deceptive characters written out.

    >>> claimed_name(" claude-code "), claimed_name("agent\u202e\nx"), claimed_name("")
    ('claude-code', 'agent\\u202e x', 'unnamed')
    """
    short = visible(one_line(name[: 4 * MAX_NAME], MAX_NAME))  # what is written out takes more room
    return one_line(short, 2 * MAX_NAME) or UNNAMED


@dataclass(eq=False)
class Client:
    """A client that is connected, or was and may come back.

    Attributes:
        key: What tells it from others: the id of its session, or of its proxy.
        name: Its own name, with a number if another client has it.
        version: The version that it says it has.
        since: When it came first, in seconds since the epoch.
        calls: How many calls it has begun.
        running: How many of them run or wait.
        last: When one began or ended last, in seconds of the clock of `Clients`.
    """

    key: str
    name: str
    version: str
    since: float
    calls: int = 0
    running: int = 0
    last: float = 0.0
    starts: float = field(default=0.0, repr=False)  # calls of the last minute, falling evenly
    as_of: float = field(default=0.0, repr=False)  # when `starts` was counted

    @property
    def asker(self) -> str:
        """Who asks, for consent and the audit."""
        return f"{OUTSIDE} {self.name}"


class Clients:
    """The clients of a kernel's server, by their keys. All methods may be called from any thread.

    Args:
        on_forget: Is called with a client that is gone, on the thread that notes it.
        clock: Returns seconds.
    """

    def __init__(
        self,
        on_forget: Callable[[Client], None] = lambda client: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_forget = on_forget
        self._clock = clock
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Client]:
        """Iterate over the clients, in the order in which they came."""
        with self._lock:
            return iter([*self._clients.values()])

    def client(self, key: str, name: str = "", version: str = "") -> Client:
        """Return the client of a key, which is noted if it is new.

        Raises:
            DeniedError: There are too many that are busy.
        """
        with self._lock:
            client, idlest = self._clients.get(key), None
            if client is None:
                if len(self._clients) >= MAX_CLIENTS:
                    idlest = self._idlest()
                    del self._clients[idlest.key]
                client = Client(
                    key,
                    self._free_name(claimed_name(name)),
                    one_line(visible(version[:MAX_NAME]), MAX_NAME),
                    time.time(),
                )
                client.last = self._clock()
                self._clients[key] = client
        if idlest is not None:
            self._on_forget(idlest)
        return client

    def leave(self, key: str) -> None:
        """Forget a client: its session has ended. Idempotent."""
        with self._lock:
            client = self._clients.pop(key, None)
        if client is not None:
            self._on_forget(client)

    @contextmanager
    def call(self, client: Client) -> Iterator[None]:
        """Count a call of a client within this block.

        Raises:
            DeniedError: It makes too many calls; nothing was called.
        """
        with self._lock:
            self._begin(client)
        try:
            yield
        finally:
            with self._lock:
                client.running -= 1
                client.last = self._clock()

    def _begin(self, client: Client) -> None:
        if client.running >= MAX_CALLS:
            reason = (
                f"{MAX_CALLS} calls of yours run or wait already; wait until one of them has ended, then call again"
            )
            raise DeniedError(f"nothing was called: {reason}", reason)
        now = self._clock()
        client.starts = max(0.0, client.starts - (now - client.as_of) * MAX_STARTS / MINUTE)
        client.last = client.as_of = now
        if client.starts + 1 > MAX_STARTS:
            seconds = (client.starts + 1 - MAX_STARTS) * MINUTE / MAX_STARTS
            reason = f"you made {MAX_STARTS} calls within a minute; call again in {duration(max(1, round(seconds)))}"
            raise DeniedError(f"nothing was called: {reason}", reason)
        client.starts += 1
        client.calls += 1
        client.running += 1

    def _idlest(self) -> Client:
        idle = [client for client in self._clients.values() if not client.running]
        if not idle:
            reason = f"{MAX_CLIENTS} agents are at work in this kernel; connect again when one of them has ended"
            raise DeniedError(reason, reason)
        return min(idle, key=lambda client: client.last)

    def _free_name(self, name: str) -> str:
        """Return a name that no other client has, however it is written."""
        names = {client.name.casefold() for client in self._clients.values()}
        free, number = name, 1
        while free.casefold() in names:
            number += 1
            free = f"{name} ({number})"
        return free

    def listing(self) -> Listing:
        """Return the clients as a table."""
        rows: list[dict[str, Any]] = [
            {
                "agent": client.name,
                "version": client.version or None,
                "asks as": client.asker,
                "calls": client.calls,
                "running": client.running,
                "since": time.strftime("%H:%M:%S", time.localtime(client.since)),
            }
            for client in self
        ]
        return Listing(
            rows,
            title="Agents outside, at this kernel",
            empty="no agent is connected",
            note="names are what the agents call themselves; `%mcp audit` has what they did",
            kind="agents",
        )
