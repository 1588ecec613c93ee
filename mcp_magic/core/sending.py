"""Requests in the course of which the server may ask and report something."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mcp_magic.core.attempts import Attempts
from mcp_magic.core.eras import ping
from mcp_magic.core.foreign import is_closed
from mcp_magic.core.loglevels import LogMessage, checked
from mcp_magic.core.logs import request_level
from mcp_magic.core.progress import Reports
from mcp_magic.core.repeating import METHOD_NOT_FOUND
from mcp_magic.core.underway import CallUnderWay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.core.answering import QuestionQueue
    from mcp_magic.core.elicitation import Elicitor
    from mcp_magic.core.notices import Notices
    from mcp_magic.core.sampling.sampling import Prepared

__all__ = ["METHOD_NOT_FOUND", "Sending"]

T = TypeVar("T")
PAGES_FIRST = -32042


class Sending(Attempts):
    """What `Connection` makes calls with.

    Attributes:
        reports: What is done with progress and log messages that come in the course of a call.
    """

    notices: Notices
    _questions: QuestionQueue

    def __init__(self) -> None:
        super().__init__()
        self._may_ask: list[CallUnderWay] = []
        self.reports = Reports()

    async def ping(self, timeout: float | None = None) -> float:
        """Ask the server whether it is there: `ping`, or since 2026-07-28, which has none, `server/discover`.

        Args:
            timeout: Seconds it has to answer; None for `reconnection.ping`.

        Returns:
            Seconds until it answered; an error that it answers shows as well that it is there.

        Raises:
            RequestTimeoutError: It did not.
            SessionError: The session has ended.
        """
        seconds = self.reconnection.ping if timeout is None else timeout

        async def send(client: Client) -> float:
            started = time.perf_counter()
            async with asyncio.timeout(seconds):
                try:
                    await ping(client)
                except Exception as error:
                    if is_closed(error) or not isinstance(getattr(error, "code", None), int):
                        raise
            return time.perf_counter() - started

        return await self._send(f"{self.name}: ping", send, seconds, harmless=True)

    async def set_log_level(self, level: str) -> bool:
        """Ask the server for its log messages of this level and above, now and whenever the session is opened again.

        Args:
            level: `"debug"`, `"info"`, `"notice"`, `"warning"`, `"error"`, `"critical"`, `"alert"` or `"emergency"`.

        Returns:
            Whether the server says that it logs at all.

        Raises:
            ArgumentsError: There is no such level.
            SessionError: The server refused; all is as it was.
        """
        logs = await self._send(f"{self.name}: logging/setLevel", partial(request_level, level=checked(level)))
        self.notices.logs.level = level
        return logs

    async def _send_call(
        self,
        what: str,
        send: Callable[[Client], Awaitable[T]],
        timeout: float | None = None,
        elicitor: Elicitor | None = None,
        *,
        prepared: Prepared | None = None,
        on_progress: ProgressFnT | None = None,
        max_total: float | None = None,
        harmless: bool = False,
        pages: bool = True,
        wait_if_busy: bool = True,
    ) -> T:
        """Send a request in the course of which the server may ask the person; meanwhile its clock stands still.

        With each report of progress the clock begins anew, until `max_total` seconds are over. With `pages` a server
        that wants pages visited first is obeyed.
        """
        call = CallUnderWay(
            timeout,
            elicitor,
            what=what,
            server=self.name,
            reports=self.reports,
            on_progress=on_progress,
            max_total=max_total,
            masked=self._place.masked,
            prepared=prepared,
        )

        def once(client: Client) -> Awaitable[T]:
            return self._questions.wait(
                call, client, lambda: self._after_pages(client, send) if pages else send(client)
            )

        def tell(at_once: int, waiting: int) -> None:
            text = f"{at_once} calls of {self.name} are under way; {waiting} wait for their turn"
            self.notices.log("warning", text)
            call.logged(LogMessage(time.time(), "warning", "mcp_magic", text))

        return await self._send(what, once, timeout, harmless=harmless, patient=wait_if_busy, queue=tell)

    async def _after_pages(self, client: Client, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send; where the server did nothing because pages have to be visited first, ask for them, and send once more.

        Source: specification 2025-11-25, "URL Elicitation Required Error".
        """
        try:
            return await send(client)
        except Exception as error:
            questions = self.notices.questions if getattr(error, "code", None) == PAGES_FIRST else None
            if questions is None or not await questions.visited(getattr(error, "data", None)):
                raise
        return await send(client)
