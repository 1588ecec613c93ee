"""An app in a tab of the browser: a page on 127.0.0.1, for frontends that show no widgets.

The page has the same host as a notebook (`host.js`). What it sends comes as a POST, what the kernel sends goes out as
server-sent events.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.display.document import Part, escape, joined, parts_text, show_parts, tag
from mcp_magic.display.text import one_line
from mcp_magic.loopback import HOST, LoopbackServer, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from mcp_magic.apps.app import App

LARGEST_MESSAGE = 16 * 1024 * 1024  # most bytes of a message from the page

MOST_WAITING = 1000  # most messages kept for a tab that does not read them; more are dropped

GONE_SECONDS = 3.0  # seconds without a tab after which the page counts as closed; a reload takes less

RETRY_MS = 500  # milliseconds between attempts of a browser to connect again

FILES = {"host.js": "text/javascript", "host.css": "text/css", "page.js": "text/javascript"}

HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; object-src 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Of every answer. No page may frame this one: it could steal a click on an approval."""

DOCUMENT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="host.css"><style>
:root{{color-scheme:light dark}} body{{font-family:system-ui,sans-serif;margin:1em auto;max-width:72em;padding:0 1em}}
</style></head><body><main id="view"></main><script type="module" src="page.js"></script></body></html>"""

REFUSED = "There is no view here: an address opens once, and ends with its kernel. `%mcp view` gives another.\n"


class AppPage:
    """The page of an app, which a browser on this machine opens by an address that works once.

    Attributes:
        app: What it shows.
        address: What to open; "" after it was opened, so that a saved notebook holds no address that works.
        closed: Set while no tab has the page.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.address = ""
        self.closed = asyncio.Event()
        self._token, self._ticket = secrets.token_urlsafe(32), ""
        self._port = 0
        self._tabs: list[asyncio.Queue[str]] = []
        self._server = LoopbackServer(self._application(), self._refusal, f"mcp_magic shows {app.uri}")

    @property
    def running(self) -> bool:
        """Whether the page can be opened."""
        return self._server.running

    @property
    def _name(self) -> str:
        return f"{self.app.name}: {one_line(self.app.tool.name, 100)}"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def __repr__(self) -> str:
        return f"<AppPage of {self.app!r}>"

    def parts(self) -> list[Part]:
        """Return the parts to display."""
        if not self.running:
            return [Part.note(f"The page of {self._name} has ended.")]
        if not self.address:
            return [Part.note(f"{self._name} is open in a tab of your browser.")]
        link = tag("a", self.address, href=self.address, target="_blank", rel="noopener noreferrer")
        where = f"It shows {self._name}, opens once, on the kernel's machine only, and ends with the kernel."
        return [Part(f"Open  {self.address}", tag("p", joined(["Open ", link]))), Part.note(where)]

    async def start(self) -> None:
        """Listen on a free port."""
        listening = listen()
        self._port = listening.getsockname()[1]
        await self._server.start(listening)

    async def stop(self) -> None:
        """End the page. Idempotent."""
        self.app.pages.detach(self)
        await self._server.stop()

    def invite(self) -> None:
        """Make a new address. An earlier one that was not opened stops working."""
        self._ticket = secrets.token_urlsafe(32)
        self.address = f"http://{HOST}:{self._port}/{self._ticket}/"

    def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message to all tabs that have the page."""
        texts = [base64.b64encode(buffer).decode("ascii") for buffer in buffers]
        event = json.dumps({"message": message, "buffers": texts})
        for tab in self._tabs:
            if tab.qsize() < MOST_WAITING:
                tab.put_nowait(event)

    # The application: the page, its files, its messages, and the kernel's

    def _application(self) -> Any:
        from starlette.routing import Route, Router

        return Router(
            [
                Route("/{secret}/", self._document),
                Route("/{secret}/events", self._events),
                Route("/{secret}/messages", self._message, methods=["POST"]),
                *(Route(f"/{{secret}}/{name}", partial(_file, name)) for name in FILES),
            ]
        )

    def _refusal(self, scope: Any) -> Response | None:
        """Return the answer to a request without a token or from another page; None if the request may pass."""
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        request = Request(scope)
        secret = request.url.path.lstrip("/").partition("/")[0].encode()
        matches = [hmac.compare_digest(secret, token.encode()) for token in (self._token, self._ticket) if token]
        here = f"{HOST}:{self._port}"  # a page elsewhere can have a name that leads here (DNS rebinding)
        is_ours = request.headers.get("host") == here and request.headers.get("origin") in (None, f"http://{here}")
        return None if is_ours and any(matches) else PlainTextResponse(REFUSED, 404, HEADERS)

    async def _document(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse, RedirectResponse

        if request.path_params["secret"] != self._token:
            self._ticket = self.address = ""
            return RedirectResponse(f"/{self._token}/", 303, HEADERS)
        return HTMLResponse(DOCUMENT.format(title=escape(self._name)), headers=HEADERS)

    async def _message(self, request: Request) -> Response:
        from starlette.responses import Response

        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_MESSAGE:
                return Response(status_code=413, headers=HEADERS)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            return Response(status_code=400, headers=HEADERS)
        self.app.receive(message, self)
        return Response(status_code=204, headers=HEADERS)

    async def _events(self, request: Request) -> Response:
        from starlette.responses import StreamingResponse

        return StreamingResponse(self._for_one_tab(), headers=HEADERS, media_type="text/event-stream")

    async def _for_one_tab(self) -> AsyncIterator[str]:
        tab: asyncio.Queue[str] = asyncio.Queue()
        self._tabs.append(tab)
        self.closed.clear()
        try:
            yield f"retry: {RETRY_MS}\n\n"
            while True:
                yield f"data: {await tab.get()}\n\n"
        finally:
            self._tabs.remove(tab)
            asyncio.get_running_loop().call_later(GONE_SECONDS, self._look_for_tabs)

    def _look_for_tabs(self) -> None:
        if not self._tabs:
            self.app.pages.detach(self)
            self.closed.set()


async def _file(name: str, request: Request) -> Response:
    from starlette.responses import FileResponse

    return FileResponse(Path(__file__).with_name(name), headers=HEADERS, media_type=FILES[name])
