"""The stream of an HTTP+SSE session: its endpoint is checked, and answers that came with a POST are added."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx2

from mcp_magic.display.text import one_line
from mcp_magic.results.reasons import MAX_LINE, of_body
from mcp_magic.session.bodies import data_of, failed_event, name_of, whole_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.session.reader import Remark

_EVENTS = 100  # most events that wait to be read

_NO_ENDPOINT = "the stream ended before it named its endpoint"


class Inbox(httpx2.AsyncByteStream):
    """The stream on which all answers of a session come.

    It fails with the reason as an `httpx2.SSEError` if it names no usable endpoint: the SDK would wait for one.
    """

    def __init__(self, response: httpx2.Response, url: str, remark: Remark) -> None:
        self._stream: Any = response.stream
        self._url = url
        self._remark = remark
        self._is_named = False  # whether the endpoint was named
        self._events: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_EVENTS)
        self._reading: asyncio.Task[None] | None = None

    async def add(self, message: dict[str, Any]) -> None:
        """Add a message as if it came on the stream."""
        await self._events.put(f"data: {json.dumps(message)}\n\n".encode())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._reading = asyncio.create_task(self._read())
        try:
            while (event := await self._events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self._reading.cancel()

    async def aclose(self) -> None:
        """Close it."""
        if self._reading is not None:
            self._reading.cancel()
        await self._stream.aclose()

    async def _read(self) -> None:
        """Take the events of the server, and at last why they ended, or None."""
        why: Exception | None = None
        try:
            async for event in whole_events(aiter(self._stream), self._remark):
                self._check(event)
                await self._events.put(failed_event(event, None))
            if not self._is_named:
                raise httpx2.SSEError(_NO_ENDPOINT)
        except httpx2.SSEError as error:
            why = error
        except Exception as error:
            why = error if self._is_named else httpx2.SSEError(f"{_NO_ENDPOINT}: {error}".removesuffix(": "))
        await self._events.put(why)

    def _check(self, event: bytes) -> None:
        """Raise SSEError if an event says that there is no usable endpoint."""
        kind, text = name_of(event), data_of(event).decode("utf-8", "replace")
        if kind == "endpoint":
            there, here = urlsplit(urljoin(self._url, text)), urlsplit(self._url)
            if (there.scheme, there.netloc) != (here.scheme, here.netloc):
                address = one_line(f"{there.scheme}://{there.netloc.rpartition('@')[2]}{there.path}", MAX_LINE)
                raise httpx2.SSEError(f"its endpoint {address} is of another origin and is refused")
            self._is_named = True
        elif kind == "error" and not self._is_named:
            reason = one_line(of_body(text), MAX_LINE)
            raise httpx2.SSEError(f"{_NO_ENDPOINT}: {reason}".removesuffix(": "))
