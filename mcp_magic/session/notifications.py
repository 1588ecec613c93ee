"""A server's notifications: changes of listings, log messages and progress."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic._sdk import skip_output_check
from mcp_magic.calls.task import tasks_extension
from mcp_magic.config.masking import Cut
from mcp_magic.display.text import one_line
from mcp_magic.flight.backoff import Backoff
from mcp_magic.flight.client import ExtendedRequests
from mcp_magic.flight.request import InFlightRequest, Limits, caused_by
from mcp_magic.protocol import VIEW_TYPE, VIEWS, LogMessage, checked, has_ended, is_transport_error
from mcp_magic.session.cache import ReadStore
from mcp_magic.session.catalog import KINDS
from mcp_magic.session.negotiation import discover_only
from mcp_magic.session.reader import Reader
from mcp_magic.session.subscriptions import Subscriptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp import Client
    from mcp_types import LoggingLevel

    from mcp_magic.session.roots import Roots
    from mcp_magic.session.services import Questions


# The stream on which a 2026-07-28 server announces changes of its listings; reopened whenever it ends.

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""First and longest pause before an ended stream is reopened; doubles each time."""

_REFUSED = (-32601, -32602, -32600)
"""Error codes of a server that has no such stream, whatever its capabilities announce."""


async def follow_changes(
    client: Client, note: Callable[[Any], None], missed: Callable[[], None], doubted: Callable[[BaseException], None]
) -> None:
    """Follow the change events of a 2026-07-28 session until cancelled; return at once if the server has none.

    `note` gets each event. `missed` is called when the stream is open again: changes meanwhile were not announced.
    `doubted` gets the error when the connection to the server is lost.
    """
    filters = _announced(client)
    if client.session.discover_result is None or not any(filters.values()):
        return
    backoff, again = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), False
    while True:
        started = time.monotonic()
        try:
            async with client.listen(**filters) as events:
                if again:
                    missed()
                async for event in events:
                    note(event)
        except Exception as error:
            why = error.__cause__ or error
            if getattr(why, "code", None) in _REFUSED:
                return
            if has_ended(why) or is_transport_error(why):
                doubted(why)
        again = True
        await asyncio.sleep(backoff.pause(time.monotonic() - started))


def _announced(client: Client) -> dict[str, Any]:
    filters = {}
    for kind in ("tools", "prompts", "resources"):
        capability = getattr(client.server_capabilities, kind)
        filters[f"{kind}_list_changed"] = bool(capability is not None and capability.list_changed)
    return filters


# Log messages of a server.
#
# Handshake versions set the level once (`logging/setLevel`). Since 2026-07-28 each request names its level, and a
# server sends no log messages for requests without one.

MAX_MESSAGES = 1000  # maximum number of log messages kept per connection, for `%mcp logs`

MAX_BYTES = 4_000_000
"""Approximate maximum of their bytes. Of a single message 20,000 characters and its size are kept."""

MAX_LOGGER = 200  # maximum number of characters kept of a logger's name

USUAL: LoggingLevel = "info"  # the default level that requests to a 2026-07-28 server name


class Logs:
    """The log messages of one connection; `level` is the least severe that the user wants, None for the default."""

    def __init__(self, calls: list[InFlightRequest] | None = None, masked: Callable[[str], str] = str) -> None:
        self.messages: deque[LogMessage] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self.masked = masked
        self.level: str | None = None
        self.watchers: list[Callable[[LogMessage], None]] = []
        self.calls = calls if calls is not None else []
        self._said_once: set[str] = set()

    def log(self, level: str, text: str, *, is_shown: bool = False, once: bool = False) -> None:
        """Keep a message of mcp_magic among those of the server.

        `is_shown` shows it below the pending call, if there is exactly one; `once` drops it if it was logged before.
        """
        if once and text in self._said_once:
            return
        if once:
            self._said_once.add(text)
        message = self._keep(level, "mcp_magic", text)
        if is_shown and len(self.calls) == 1:
            self.calls[0].log(message)

    async def __call__(self, params: Any) -> None:
        """Take a log notification, and report it to the call that caused it."""
        message = self._keep(params.level, (params.logger or "")[:MAX_LOGGER], params.data)
        if causes := caused_by(self.calls):
            causes[-1].log(message, others=len(causes) - 1)

    def _keep(self, level: str, logger: str, data: Any) -> LogMessage:
        cut = Cut(self.masked)
        message = LogMessage(time.time(), level, logger, cut.value(data))
        self.messages.append(message)
        self._sizes.append(cut.size)
        self._size += cut.size
        while len(self.messages) > MAX_MESSAGES or self._size > MAX_BYTES:
            self.messages.popleft()
            self._size -= self._sizes.popleft()
        for watcher in list(self.watchers):
            watcher(message)
        return message

    def want(self, level: str) -> None:
        """Set the level for all sessions from now on."""
        self.level = level

    async def begin(self, client: Client) -> None:
        """Set the level of a new session; log if it is refused."""
        if self.level is None:
            return
        try:
            await request_level(client, self.level)
        except Exception as error:
            self.log("warning", f"the server does not take the level {self.level!r}: {error}")


async def request_level(client: Client, level: str) -> bool:
    """Set the log level of a handshake session; in a 2026-07-28 session each request names it. Raises MCPError.

    Returns whether the server announces logging; if not, nothing is sent.
    """
    logs = client.server_capabilities.logging is not None
    if client.session.discover_result is None and logs:
        from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

        request = SetLevelRequest(params=SetLevelRequestParams(level=checked(level)))
        await client.session.send_request(request, EmptyResult)
    return logs


# Remarks: what was odd in a server's messages, and was understood all the same.

MAX_REMARKS = 50  # maximum number of remarks kept per connection: a server must not fill the memory with new ones

MAX_REMARK = 400  # maximum number of characters of a remark


class Remarks:
    """The remarks about one server. Each is logged once, as a warning, and is a finding of the doctor.

    `log` takes a level and a text; `masked` hides secrets.

    >>> lines = []
    >>> remarks = Remarks(lambda level, text: lines.append(text))
    >>> remarks.add("the icons of serverInfo have a form of 2025-06-18")
    >>> remarks.add("the icons of serverInfo have a form of 2025-06-18")
    >>> lines == list(remarks.texts)
    True
    """

    def __init__(self, log: Callable[[str, str], None], masked: Callable[[str], str] = str) -> None:
        self._log = log
        self._masked = masked
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The remarks, oldest first."""
        return tuple(self._texts)

    def add(self, text: str, *, logged: bool = True) -> None:
        """Keep a remark, and log it unless it is of no harm; one that was made before, or one too many, is dropped."""
        text = one_line(self._masked(text), MAX_REMARK)
        if text in self._texts or len(self._texts) >= MAX_REMARKS:
            return
        self._texts[text] = None
        if logged:
            self._log("warning", text)


# The callbacks of a client.
#
# A handshake session sends notifications on its own; a 2026-07-28 session sends them on a `subscriptions/listen` stream
# that the client opens. Both arrive here.

_CHANGES = {
    "ToolListChangedNotification": ("tools",),
    "PromptListChangedNotification": ("prompts",),
    "ResourceListChangedNotification": ("resources", "templates"),
    "ToolsListChanged": ("tools",),
    "PromptsListChanged": ("prompts",),
    "ResourcesListChanged": ("resources", "templates"),
}


class Notices:
    """The client callbacks of one connection, and what they have collected; `reads` are the session's kept reads."""

    def __init__(
        self,
        on_change: Callable[[str], None],
        roots: Roots,
        logs: Logs,
        questions: Questions,
        doubted: Callable[[BaseException], None],
        clock: Callable[[], float],
        updated: Callable[[str, bool], None],
    ) -> None:
        self.logs = logs
        self.remarks = Remarks(logs.log, logs.masked)
        self.reader = Reader(self.remarks.add)
        self.questions = questions
        self._changed = on_change
        self._roots = roots
        self._doubted = doubted
        self._clock = clock
        self.reads = ReadStore(clock)
        self._updated = updated
        self.subscriptions = Subscriptions(self.log, self._resource_changed)

    @asynccontextmanager
    async def session(
        self, server: Any, timeout: float, prepare: Callable[[Client], None], protocol: str
    ) -> AsyncIterator[Client]:
        """Enter an `mcp.Client` for `server` with these callbacks; `timeout` in seconds is for the handshake.

        `protocol` is `"auto"`, `"handshake"` or a version to request with `server/discover`.
        """
        self.reads = ReadStore(self._clock)  # the server may be another one, and notices were missed
        client = self._client(server, protocol)
        prepare(client)
        stack = AsyncExitStack()

        async def enter() -> None:
            async with AsyncExitStack() as opening:
                await opening.enter_async_context(client)
                skip_output_check(client.session)
                if protocol not in ("auto", "handshake"):
                    await discover_only(client)
                ExtendedRequests(client, self.logs.calls, self.logs, self.reader, self.questions.visited)
                await self.logs.begin(client)
                stack.push_async_exit(opening.pop_all())

        await InFlightRequest(limits=Limits(timeout)).wait(enter(), [])  # its clock stops during a log-in
        async with stack:
            # Only cancelled, not awaited: if the transport failed, this task's own scope is cancelled, and an await
            # would keep the client from being left.
            following = follow_changes(client, self._note, self._missed, self._doubted)
            listening = asyncio.create_task(following, name="mcp_magic listen")
            try:
                with self.subscriptions.session(client):
                    yield client
            finally:
                listening.cancel()

    def _client(self, server: Any, protocol: str) -> Client:
        from mcp import Client
        from mcp.client.extension import advertise
        from mcp_types import Implementation

        from mcp_magic import __version__

        mode: dict[str, Any] = {"auto": {}, "handshake": {"mode": "legacy"}}.get(protocol, {"mode": protocol})
        return Client(
            server,
            client_info=Implementation(name="mcp_magic", version=__version__),
            cache=self.reads.config(),
            message_handler=self._on_message,
            list_roots_callback=self._roots,
            **mode,
            **self.questions.client_options(),
            logging_callback=self.logs,
            extensions=[advertise(VIEWS, {"mimeTypes": [VIEW_TYPE]}), tasks_extension()],
            log_level=USUAL,  # since 2026-07-28 servers log only for requests that name a level
        )

    @property
    def messages(self) -> deque[LogMessage]:
        """The last log messages, oldest first."""
        return self.logs.messages

    def log(self, level: str, text: str) -> None:
        """Keep a message of mcp_magic among those of the server."""
        self.logs.log(level, text)

    def warn(self, text: str) -> None:
        """Keep a warning of mcp_magic, and show it below the pending call, if there is exactly one."""
        self.logs.log("warning", text, is_shown=True)

    def _resource_changed(self, uri: str, missed: bool) -> None:
        self.reads.drop(uri)
        self._updated(uri, missed)

    async def _on_message(self, message: Any) -> None:
        self._note(message)

    def _missed(self) -> None:
        for kind in KINDS:
            self._changed(kind)

    def _note(self, event: Any) -> None:
        for kind in _CHANGES.get(type(event).__name__, ()):
            self._changed(kind)
        if type(event).__name__ == "ResourceUpdatedNotification":
            self.subscriptions.updated(str(event.params.uri))
