"""What a server logs, and how much it is asked to log.

A server of the handshake era is told once (`logging/setLevel`); since 2026-07-28 each request says what it wants to
hear, and nothing comes to whoever does not ask.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from mcp_magic.core.loglevels import LogMessage, checked
from mcp_magic.core.trace.cut import Cut
from mcp_magic.core.underway import CallUnderWay, caused_by, current_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client
    from mcp_types import LoggingLevel

__all__ = ["USUAL", "Logs", "request_level"]

MAX_MESSAGES = 1000
"""Log messages kept per connection; `%mcp logs` shows the last."""

MAX_BYTES = 4_000_000
"""About how many bytes they may take; of a single message 20,000 characters are kept, and its size."""

MAX_LOGGER = 200
"""Characters kept of a logger's name."""

USUAL: LoggingLevel = "info"
"""The level that a server of 2026-07-28 is asked for where the person has not said another."""

_REPORTING = frozenset(("tools/call", "resources/read", "prompts/get"))
"""Requests whose progress somebody may want to see."""


class Logs:
    """The log messages of one connection.

    Args:
        calls: The calls under way on the session, the latest last.
        masked: Takes secrets out of a text that is cut.

    Attributes:
        messages: The last ones, oldest first; long ones are cut.
        level: The least severe level that the person wants; None for what is usual.
        watchers: Called with each message.
    """

    def __init__(self, calls: list[CallUnderWay] | None = None, masked: Callable[[str], str] = str) -> None:
        self.messages: deque[LogMessage] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self._masked = masked
        self.level: str | None = None
        self.watchers: list[Callable[[LogMessage], None]] = []
        self._calls = calls if calls is not None else []
        self._said_once: set[str] = set()

    def log(self, level: str, text: str, *, shown: bool = False, once: bool = False) -> None:
        """Keep a message of our own among those of the server.

        Args:
            level: How severe it is.
            text: The message.
            shown: Whether it is shown below the call under way, if there is one and no other.
            once: Whether it is left out if the same was said before in this session.
        """
        if once and text in self._said_once:
            return
        if once:
            self._said_once.add(text)
        message = self._keep(level, "mcp_magic", text)
        if shown and len(self._calls) == 1:
            self._calls[0].logged(message)

    async def __call__(self, params: Any) -> None:
        """Take a log notification; it concerns the call that caused it."""
        message = self._keep(params.level, (params.logger or "")[:MAX_LOGGER], params.data)
        if found := caused_by(self._calls):
            found[-1].logged(message, others=len(found) - 1)

    def _keep(self, level: str, logger: str, data: Any) -> LogMessage:
        cut = Cut(self._masked)
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
        """Ask for this level in all sessions to come."""
        self.level = level

    def keep(self, before: Logs) -> None:
        """Want what was wanted in the session before."""
        self.level = before.level

    async def begin(self, client: Client) -> None:
        """Let a session that has just been opened report: each request asks for logs, and for progress if it is a call.

        A server that does not take the level that the person wants is used all the same.
        """
        self._attend(client.session)
        if self.level is None:
            return
        try:
            await request_level(client, self.level)
        except Exception as error:
            self.log("warning", f"the server does not take the level {self.level!r}: {error}")

    def _attend(self, session: Any) -> None:
        """Have what every request is sent with say what it wants to hear.

        `Client.read_resource` and `get_prompt` of the SDK have no argument for progress, and its level of logging is
        fixed when the client is made.
        """
        send = session.send_request

        async def send_request(request: Any, *arguments: Any, **options: Any) -> Any:
            if self.level is not None and session.discover_result is not None:
                _stamp(request, self.level)
            if request.method in _REPORTING and options.get("progress_callback") is None:
                call = current_call()
                if call is not None and call in self._calls and (told := call.on_progress) is not None:
                    options["progress_callback"] = told
            return await send(request, *arguments, **options)

        session.send_request = send_request


async def request_level(client: Client, level: str) -> bool:
    """Tell a server of the handshake era what to log; one of 2026-07-28 is told with each request.

    Returns:
        Whether the server says that it logs at all; one that does not is told nothing.

    Raises:
        MCPError: It refuses.
    """
    logs = client.server_capabilities.logging is not None
    if client.session.discover_result is None and logs:
        from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

        asked = SetLevelRequest(params=SetLevelRequestParams(level=checked(level)))
        await client.session.send_request(asked, EmptyResult)
    return logs


def _stamp(request: Any, level: str) -> None:
    """Ask for a level with this request, unless it asks for one itself."""
    from mcp_types import LOG_LEVEL_META_KEY

    params: Any = getattr(request, "params", None)
    if hasattr(params, "meta"):
        params.meta = {LOG_LEVEL_META_KEY: level, **(params.meta or {})}
