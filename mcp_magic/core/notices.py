"""What a server says unasked: log messages and changes.

A session of the handshake era sends notifications on its own; one of 2026-07-28 sends them on a
`subscriptions/listen` stream that the client opens. Both arrive here.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.core.catalog import KINDS
from mcp_magic.core.listening import follow_changes
from mcp_magic.core.loglevels import LogMessage
from mcp_magic.core.logs import USUAL, Logs
from mcp_magic.core.negotiation import discover_only
from mcp_magic.core.outputs import leave_outputs_to_us
from mcp_magic.core.subscriptions import Subscriptions
from mcp_magic.core.underway import CallUnderWay

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncIterator, Callable

    from mcp import Client

    from mcp_magic.core.elicitation import Questions
    from mcp_magic.core.roots import Roots
    from mcp_magic.core.sampling.requests import SamplingQuestions

__all__ = ["LogMessage", "Notices"]

_CHANGES = {
    "ToolListChangedNotification": ("tools",),
    "PromptListChangedNotification": ("prompts",),
    "ResourceListChangedNotification": ("resources", "templates"),
    "ToolsListChanged": ("tools",),
    "PromptsListChanged": ("prompts",),
    "ResourcesListChanged": ("resources", "templates"),
}


class Notices:
    """The client callbacks of one connection, and what they kept.

    Args:
        changed: Called with the kind of a listing that changed.
        roots: Answers the server that asks for roots.
        logs: Keeps what the server logs.
        questions: Answers the server that asks the person; None where it must not ask.
        sampling: Answers the server that asks for a model's words; None where it must not ask.
        doubted: Told that a stream of notices was cut.

    Attributes:
        logs: The log messages, and how much the server is asked to log.
        questions: Answers the server that asks the person; None where it must not ask.
        subscriptions: The resources whose changes the server announces.
    """

    def __init__(
        self,
        changed: Callable[[str], None],
        roots: Roots,
        logs: Logs,
        questions: Questions | None = None,
        sampling: SamplingQuestions | None = None,
        doubted: Callable[[BaseException], None] = lambda why: None,
    ) -> None:
        self.logs = logs
        self.questions = questions
        self._sampling = sampling
        self._changed = changed
        self._roots = roots
        self._doubted = doubted
        self.subscriptions = Subscriptions(self.log)

    @asynccontextmanager
    async def session(
        self,
        server: Any,
        timeout: float,
        prepare: Callable[[Client], None] = lambda client: None,
        protocol: str = "auto",
    ) -> AsyncIterator[Client]:
        """Enter an `mcp.Client` for `server` that reports here; the handshake may take `timeout` seconds.

        Args:
            server: What the client takes.
            timeout: Seconds.
            prepare: Called with the client before it is entered.
            protocol: How the session begins: `"auto"`, `"handshake"` or a version that is asked for with
                `server/discover`.
        """
        client = self._client(server, protocol)
        prepare(client)
        stack = AsyncExitStack()

        async def enter() -> None:
            async with AsyncExitStack() as opening:
                await opening.enter_async_context(client)
                leave_outputs_to_us(client.session)
                if protocol not in ("auto", "handshake"):
                    await discover_only(client)
                await self.logs.begin(client)
                stack.push_async_exit(opening.pop_all())

        await CallUnderWay(timeout, what="the handshake").wait(enter(), [])  # its clock stands still during a log-in
        async with stack:
            # Only cancelled here, not awaited: where the transport failed this task's own scope is
            # cancelled, and an await would keep the client from being left.
            following = follow_changes(client, self._note, self._missed, self._doubted)
            listening = asyncio.create_task(following, name="mcp_magic listen")
            try:
                with self.subscriptions.session(client):
                    yield client
            finally:
                listening.cancel()

    def _client(self, server: Any, protocol: str) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        from mcp_magic import __version__

        modes = {"auto": {}, "handshake": {"mode": "legacy"}}
        options: dict[str, Any] = dict(modes.get(protocol, {"mode": protocol}))
        if self._sampling is not None:
            options |= self._sampling.options
        return Client(
            server,
            client_info=Implementation(name="mcp_magic", version=__version__),
            message_handler=self._on_message,
            list_roots_callback=self._roots,
            elicitation_callback=self.questions if self.questions and self.questions.announced else None,
            **options,
            logging_callback=self.logs,
            log_level=USUAL,  # since 2026-07-28 log messages come only to whoever asks for them
        )

    @property
    def messages(self) -> deque[LogMessage]:
        """The last log messages, oldest first."""
        return self.logs.messages

    def log(self, level: str, text: str) -> None:
        """Keep a message of our own among those of the server."""
        self.logs.log(level, text)

    def warn(self, text: str) -> None:
        """Keep a warning of our own, and show it below the call under way, if there is one and no other."""
        self.logs.log("warning", text, shown=True)

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
