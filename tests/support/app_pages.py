"""A page that shows an app, without a browser: it sends what `host.js` sends and keeps what the kernel answers."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.apps.app import App


class Page:
    """A channel of an app, and the one view in it."""

    def __init__(self, app: App, name: str = "page") -> None:
        self._app = app
        self.name = name
        self.messages: list[dict[str, Any]] = []
        self._parts: list[bytes] = []
        self._came = asyncio.Event()
        self._last = 0

    def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Take a message of the kernel."""
        json.dumps(message)  # as a comm does
        if message["kind"] == "packed":
            self._parts += buffers
            if len(self._parts) < message["of"]:
                return
            message = json.loads(gzip.decompress(b"".join(self._parts)))
            self._parts = []
        self.messages.append(message)
        self._came.set()

    def tell(self, **message: Any) -> None:
        """Send the kernel a message."""
        self._app.receive({**message, "view": self.name}, self)

    async def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message that fits, once it is here."""
        async with asyncio.timeout(20):
            while (found := next((each for each in self.messages if fits(each)), None)) is None:
                self._came.clear()
                await self._came.wait()
        return found

    async def kind(self, kind: str) -> dict[str, Any]:
        """Return the first message of a kind, and forget it."""
        found = await self.until(lambda each: each["kind"] == kind)
        self.messages.remove(found)
        return found

    async def shown(self) -> dict[str, Any]:
        """Ask for the view, and return it."""
        self.tell(kind="hello")
        return await self.kind("view")

    def begin(self, method: str, **params: Any) -> int:
        """Send a request of the app; return its id."""
        self._last += 1
        self.tell(kind="request", id=self._last, method=method, params=params)
        return self._last

    async def reply(self, id_: int) -> dict[str, Any]:
        """Return the answer to a request: its result, or its error."""
        return await self.until(lambda each: each["kind"] == "reply" and each["id"] == id_)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request of the app, and return its answer."""
        return await self.reply(self.begin(method, **params))

    async def answer(self, choice: str, **extra: Any) -> dict[str, Any]:
        """Answer the question in the bar; return the question."""
        question = await self.kind("ask")
        self.tell(kind="answer", id=question["id"], choice=choice, extra=extra)
        return question
