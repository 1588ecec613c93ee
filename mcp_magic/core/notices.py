"""What a server says unasked: log messages and changes.

A session of the handshake era sends notifications on its own; one of 2026-07-28 sends them on a
`subscriptions/listen` stream that the client opens. Both arrive here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp import Client

    from mcp_magic.core.elicitation import Questions
    from mcp_magic.core.roots import Roots

__all__ = ["LogMessage", "Notices"]

MAX_MESSAGES = 1000
"""Log messages kept per connection; `%mcp logs` shows the last."""

_CHANGES = {
    "ToolListChangedNotification": ("tools",),
    "PromptListChangedNotification": ("prompts",),
    "ResourceListChangedNotification": ("resources", "templates"),
    "ToolsListChanged": ("tools",),
    "PromptsListChanged": ("prompts",),
    "ResourcesListChanged": ("resources", "templates"),
}


class LogMessage(NamedTuple):
    """A log notification: when it came (`time.time()`), its level, its logger and its data."""

    time: float
    level: str
    logger: str
    data: Any


class Notices:
    """The client callbacks of one connection, and what they kept.

    Args:
        changed: Called with the kind of a listing that changed.
        roots: Answers the server that asks for roots.

    Attributes:
        messages: The last log messages, oldest first.
        questions: Answers the server that asks the person; None where it must not ask.
    """

    def __init__(self, changed: Callable[[str], None], roots: Roots) -> None:
        self.messages: deque[LogMessage] = deque(maxlen=MAX_MESSAGES)
        self.questions: Questions | None = None
        self._changed = changed
        self._roots = roots

    @asynccontextmanager
    async def session(
        self, server: Any, timeout: float, prepare: Callable[[Client], None] = lambda client: None
    ) -> AsyncIterator[Client]:
        """Enter an `mcp.Client` for `server` that reports here; the handshake may take `timeout` seconds.

        Args:
            server: What the client takes.
            timeout: Seconds.
            prepare: Called with the client before it is entered.
        """
        from mcp import Client
        from mcp_types import Implementation

        from mcp_magic import __version__

        client = Client(
            server,
            client_info=Implementation(name="mcp_magic", version=__version__),
            message_handler=self._on_message,
            list_roots_callback=self._roots,
            elicitation_callback=self.questions if self.questions and self.questions.announced else None,
            logging_callback=self._on_log,
            log_level="info",  # since 2026-07-28 log messages come only to whoever asks for them
        )
        prepare(client)
        stack = AsyncExitStack()
        async with asyncio.timeout(timeout):
            await stack.enter_async_context(client)
        async with stack:
            # Only cancelled here, not awaited: where the transport failed this task's own scope is
            # cancelled, and an await would keep the client from being left.
            listening = asyncio.create_task(self._listen(client), name="mcp_magic listen")
            try:
                yield client
            finally:
                listening.cancel()

    def log(self, level: str, text: str) -> None:
        """Keep a message of our own among those of the server."""
        self.messages.append(LogMessage(time.time(), level, "mcp_magic", text))

    async def _on_log(self, params: Any) -> None:
        self.messages.append(LogMessage(time.time(), params.level, params.logger or "", params.data))

    async def _on_message(self, message: Any) -> None:
        self._note(message)

    async def _listen(self, client: Client) -> None:
        """Follow the change events of a 2026-07-28 session, where the server announces any."""
        capabilities = client.server_capabilities
        tools = _announces(capabilities.tools)
        prompts = _announces(capabilities.prompts)
        resources = _announces(capabilities.resources)
        if client.session.discover_result is None or not (tools or prompts or resources):
            return
        with suppress(Exception):  # a server that ends the stream announces no more; nothing else is lost
            async with client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as events:
                async for event in events:
                    self._note(event)

    def _note(self, event: Any) -> None:
        for kind in _CHANGES.get(type(event).__name__, ()):
            self._changed(kind)


def _announces(capability: Any) -> bool:
    return capability is not None and bool(capability.list_changed)
