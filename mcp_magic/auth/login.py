"""A log-in by a user: the message, the callback page for the browser, and the deadline."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp_magic._text import clean, duration, join_names
from mcp_magic.ask.elicitation import link_to
from mcp_magic.ask.question import Choice, Extra, Outcome, Question, Reply
from mcp_magic.auth.errors import refusal
from mcp_magic.auth.store import Store, make_store
from mcp_magic.display.document import Markup, Part, joined, page, tag
from mcp_magic.display.text import host_of, one_line
from mcp_magic.errors import AuthorizationError
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.flight.request import current_call, person_asked

# The messages of a log-in. They show the host of the authorization server, because the MCP server chose it, and
# nothing opens by itself. The message that stays in the notebook afterwards has no URL.

SIGNS = {"done": "✓ came back", "refused": "✗ refused", "cancelled": "… cancelled", "": "… not answered"}

ELSEWHERE = (
    "If your browser runs on another machine than the kernel, the last page of the log-in does not open. Copy its "
    "address, which begins with {uri}, and paste it here."
)


def login_html(login: LogIn) -> str:
    """Return the question with its link: who asks for which log-in, and where. Shown as a page of its own."""
    server, where = tag("b", one_line(login.server, 100)), tag("code", one_line(login.where, 200))
    host = tag("b", login.host, style="font-size:1.15em")
    parts: list[object] = [tag("p", joined(["Server ", server, " (", where, ") wants you to log in at ", host]))]
    parts.append(tag("p", f"It asks for: {_scopes(login)}"))
    parts.append(tag("p", link_to(login.url)))
    parts.append(tag("p", ELSEWHERE.format(uri=login.redirect_uri), style="max-width:60em;opacity:.8"))
    return page([joined(parts)])


def login_text(login: LogIn) -> str:
    """Return the question for a terminal, with the full URL."""
    first = f"Server {one_line(login.server, 100)} ({one_line(login.where, 200)}) wants you to log in at {login.host}."
    return "\n".join([first, f"It asks for: {_scopes(login)}", f"Open  {clean(login.url)}"])


def login_question(login: LogIn) -> Question:
    """Return the question to the user. It ends when the browser comes back, the address is pasted, or you cancel."""

    def outcome(reply: Reply, seconds: float) -> Outcome:
        end = f" at {login.host} ({_scopes(login)}), {duration(seconds)}"
        return Outcome(SIGNS[login.outcome], (": log-in to ", ("b", one_line(login.server, 100)), end))

    def take(reply: Reply) -> str:
        if reply.choice == "cancel":
            login.cancel()
            return ""
        return login.pasted(reply.extra["address"])

    return Question(
        about=lambda values: Part(login_text(login), Markup(login_html(login))),
        saved=f"log-in at {login.host}",  # without the address
        choices=(
            Choice("paste", "Use this address", "paste", "go on with the address that is pasted here"),
            Choice("cancel", "Cancel", "times", "do not log in", "[c]ancel"),
        ),
        extra=(
            Extra(
                "address",
                label=f"{login.redirect_uri}?code=…",
                tooltip="the address of the page that the browser was sent to",
                beside="paste",
                is_secret=True,
            ),
        ),
        prompt="Press Enter when the browser says that you can close the window, or paste the address that it shows; ",
        help="Waiting for the browser to come back. If it runs on another machine, paste the address of its last page "
        "here; c cancels.",
        outcome=outcome,
        waits_for="log-in",
        take=take,
        elsewhere=login.answered,
    )


def _scopes(login: LogIn) -> str:
    return join_names(one_line(scope, 60) for scope in login.scopes) if login.scopes else "no scope in particular"


# One log-in: the authorization server sends the browser back to a page on this machine (RFC 8252, section 7.3). If the
# browser runs on another machine, the user copies the address of that page and pastes it.

T = TypeVar("T")

LOGIN_SECONDS = 300.0  # deadline of the user's log-in, in seconds

GIVEN_UP_SECONDS = 0.1  # interval in seconds at which a log-in checks whether the request that needs it was cancelled

FAREWELL_SECONDS = 2.0  # seconds that the authorizer has to remove its output after the answer

SILENT_SECONDS = 10.0  # seconds a connection may stay without a request; browsers open some in advance

MOST_CONNECTIONS = 32  # most connections at a time, each with a thread; the oldest is closed for one more

CALLBACK_PATH = "/callback"  # the path of the redirect URI

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mcp_magic</title><style>
body{{font-family:system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em;color-scheme:light dark}}
</style></head><body><h1>{title}</h1><p>{text}</p></body></html>"""

ARRIVED = ("Logged in", "You can close this window and go back to your notebook.")
REFUSED = ("Not logged in", "You can close this window; the notebook says what was wrong.")
STALE = ("An older log-in", "This is the answer to another log-in. Use the link that the notebook shows now.")
NOTHING = ("Nothing here", "This address only waits for the end of a log-in.")


@dataclass(frozen=True)
class Redirected:
    """The authorization response, which the browser brings (RFC 6749, section 4.1.2; RFC 9207)."""

    code: str = field(repr=False)
    state: str = field(repr=False)
    issuer: str | None = None


class LogIn:
    """A log-in to the MCP server `server` at `where` that waits for a user.

    `url` is the log-in page of the authorization server, which sends the browser to `redirect_uri`. `comes_from` says
    whether an answer with this issuer (RFC 9207), or with None, is from the authorization server: a code is checked
    when it is exchanged, and an error from another issuer is not even shown.
    """

    def __init__(
        self,
        server: str,
        where: str,
        url: str,
        redirect_uri: str,
        seconds: float,
        comes_from: Callable[[str | None], bool] = lambda issuer: True,
    ) -> None:
        self.server = server
        self.where = where
        self.url = url
        self.redirect_uri = redirect_uri
        self.seconds = seconds
        self._comes_from = comes_from
        self.stale = 0  # how many answers belonged to other log-ins
        self.outcome = ""  # while it waits, then "done", "refused" or "cancelled"
        query = parse_qs(urlsplit(url).query)
        self._state = query.get("state", [""])[0]
        self._scope = query.get("scope", [""])[0]
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Redirected] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<LogIn to {self.server!r} at {self.host} {self.outcome or 'waits'}>"

    @property
    def host(self) -> str:
        """The host (and port) of the authorization server."""
        return host_of(self.url)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The requested scopes."""
        return tuple(self._scope.split())

    def pasted(self, text: str) -> str:
        """Take the redirect address that the user pasted. Thread-safe.

        Returns:
            `""` if it answers this log-in, else what is wrong with it.
        """
        text = text.strip().strip("'\"<>")
        query = parse_qs(urlsplit(text).query) if "?" in text else {}
        if urlsplit(text).path != CALLBACK_PATH or not ("code" in query or "error" in query):
            return f"this is not the address that the browser was sent to; it begins with {self.redirect_uri}?"
        if self._take(query) == "stale":
            return "this address belongs to another log-in; open the link that is shown here"
        return ""

    def redirected(self, url: str) -> str:
        """Take the URL that the browser requested from the callback server. Thread-safe.

        Returns:
            `"done"`, `"refused"`, or `"stale"` if it does not answer this log-in.
        """
        return self._take(parse_qs(urlsplit(url).query))

    def cancel(self) -> None:
        """End the log-in because the user cancels it. Thread-safe."""
        self._settle("cancelled", AuthorizationError(f"{self.server}: the log-in at {self.host} was cancelled."))

    async def answered(self) -> None:
        """Wait until there is an answer of any kind."""
        await asyncio.wait({self._answer})

    def _take(self, query: dict[str, list[str]]) -> str:
        reply = {name: values[0] for name, values in query.items()}
        foreign = "error" in reply and not self._comes_from(reply.get("iss"))
        if not self._state or reply.get("state") != self._state or foreign:
            self.stale += 1
            return "stale"
        if "error" in reply:
            why = one_line(reply.get("error_description", ""), 200)
            problem = refusal(self.host, one_line(reply["error"], 40), why)
            self._settle("refused", AuthorizationError(f"{self.server}: {problem}"))
            return "refused"
        if "code" not in reply:
            return "stale"
        self._settle("done", Redirected(reply["code"], reply["state"], reply.get("iss")))
        return "done"

    def _settle(self, outcome: str, answer: Redirected | AuthorizationError) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._set_answer, outcome, answer)

    def _set_answer(self, outcome: str, answer: Redirected | AuthorizationError) -> None:
        if self._answer.done():
            return
        self.outcome = outcome
        if isinstance(answer, Redirected):
            self._answer.set_result(answer)
        else:
            self._answer.set_exception(answer)
            self._answer.exception()  # marks it as retrieved, in case the waiting call has ended

    def result(self) -> Redirected:
        """Return the answer. Raises AuthorizationError if the log-in was refused or cancelled."""
        return self._answer.result()


class CallbackServer(ThreadingHTTPServer):
    """The page on 127.0.0.1 to which the browser returns after a log-in; port 0 means a free one.

    It runs on a thread, so that it answers the browser even while `input()` blocks the event loop.

    Raises:
        OSError: The port is taken.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, port: int = 0) -> None:
        self._judge: Callable[[str], str] = lambda url: "stale"
        self._open: dict[socket.socket, None] = {}
        super().__init__(("127.0.0.1", port), _CallbackPage)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="mcp_magic callback", daemon=True
        )
        self._thread.start()

    @property
    def redirect_uri(self) -> str:
        """The URL of the page."""
        return f"http://127.0.0.1:{self.server_port}{CALLBACK_PATH}"

    def expect(self, judge: Callable[[str], str]) -> None:
        """Pass the URL of each later request of the page to a function like `LogIn.redirected`, on a thread."""
        self._judge = judge

    def judge(self, query: str) -> str:
        """Return the judgement on a request of the page."""
        return self._judge(f"{self.redirect_uri}?{query}")

    def close(self) -> None:
        """Close the socket and all connections, and wait for the thread. Idempotent."""
        self.shutdown()
        for connection in list(self._open):
            self._hang_up(connection)
        self.server_close()
        self._thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; close the oldest connection if there are too many."""
        if len(self._open) >= MOST_CONNECTIONS:
            self._hang_up(next(iter(self._open)))
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed its connection."""

    def _hang_up(self, connection: socket.socket) -> None:
        self._open.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _CallbackPage(BaseHTTPRequestHandler):
    server: CallbackServer
    server_version = "mcp_magic"
    sys_version = ""
    timeout = SILENT_SECONDS

    def do_GET(self) -> None:
        port, url = self.server.server_port, urlsplit(self.path)
        if url.path != CALLBACK_PATH or self.headers.get("host", "") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self._answer(404, *NOTHING)
            return
        match self.server.judge(url.query):
            case "done":
                self._answer(200, *ARRIVED)
            case "refused":
                self._answer(200, *REFUSED)
            case _:
                self._answer(400, *STALE)

    def _answer(self, status: int, title: str, text: str) -> None:
        body = PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the URL holds the code."""


Authorizer = Callable[[LogIn], Awaitable[None]]
"""Shows a log-in to the user and returns when it is answered: any `async def (login) -> None`."""


@dataclass
class LogIns:
    """The way in which the sessions of a host log in."""

    authorizer: Authorizer | None = None  # shows a log-in to the user; None if no user can be asked
    possible: Callable[[], Awaitable[bool]] | None = None
    # asks the user before this program registers; None if no user can be asked. Without it the user is not asked
    confirm: Callable[[str], Coroutine[Any, Any, bool | None]] | None = None
    seconds: float = LOGIN_SECONDS  # deadline of a log-in
    where: str = "auto"  # where tokens are kept: auto, keyring, file or memory
    _stores: dict[str, Store] = field(default_factory=dict, repr=False)

    def store(self) -> Store:
        """Return the store of tokens; MissingDependencyError if the setting asks for a keyring that is missing."""
        if self.where not in self._stores:
            self._stores[self.where] = make_store(self.where)
        return self._stores[self.where]

    def ask_with(
        self,
        authorizer: Authorizer | None,
        possible: Callable[[], Awaitable[bool]] | None = None,
        confirm: Callable[[str], Coroutine[Any, Any, bool | None]] | None = None,
    ) -> None:
        """Set how to ask the user from now on; without an authorizer the user is not asked."""
        self.authorizer, self.possible, self.confirm = authorizer, possible, confirm

    async def can_ask(self) -> bool:
        """Whether a user can be asked."""
        return self.authorizer is not None and (self.possible is None or await self.possible())

    async def ask(self, login: LogIn) -> Redirected:
        """Let the user log in; AuthorizationError if they do not. The deadline of the call pauses."""
        return await _ask_person(self._show(login), f"{login.server}: the log-in at {login.host} was interrupted.")

    async def permits(self, text: str, interrupted: str) -> bool | None:
        """Ask the user for a yes; None if no user can be asked. Raises AuthorizationError if there is no answer."""
        if self.confirm is None:
            return True
        try:
            return await _ask_person(self.confirm(text), interrupted)
        except TimeoutError:
            late = f"you did not answer in time: {text.partition(chr(10))[0]}"
        raise AuthorizationError(late)

    async def _show(self, login: LogIn) -> Redirected:
        assert self.authorizer is not None
        showing = asyncio.ensure_future(self.authorizer(login))
        answered = asyncio.ensure_future(login.answered())
        try:
            await asyncio.wait({showing, answered}, timeout=login.seconds, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # an answer that the authorizer has just handed over is on its way
            if login.outcome:
                await asyncio.wait({showing}, timeout=FAREWELL_SECONDS)
                return login.result()
            failure = showing.exception() if showing.done() and not showing.cancelled() else None
            if failure is not None and not isinstance(failure, TimeoutError):
                raise failure
            late = not showing.done() or failure is not None
        finally:
            for task in (showing, answered):
                task.cancel()
            await asyncio.wait({showing, answered}, timeout=FAREWELL_SECONDS)
        if not late:
            raise AuthorizationError(f"{login.server}: the log-in at {login.host} was not answered.")
        again = f" ({login.stale} answers to other log-ins were rejected)" if login.stale else ""
        raise AuthorizationError(
            f"{login.server}: you did not log in at {login.host} within {login.seconds:g} s{again}. "
            "Try again; MCPMagics.login_timeout gives more time."
        )


async def _ask_person(question: Coroutine[Any, Any, T], interrupted: str) -> T:
    """Ask below the cell that called, and return the answer. The deadline of the call pauses meanwhile."""
    with person_asked():
        call, attempt = current_call(), current_attempt.get()
        asking = asyncio.ensure_future(question) if call is None else call.ask(question)
        try:
            while not asking.done() and not (attempt is not None and attempt.given_up):
                await asyncio.wait({asking}, timeout=GIVEN_UP_SECONDS)
        finally:
            asking.cancel()
    if not asking.done() or asking.cancelled():  # in the handshake era the request goes on
        raise AuthorizationError(interrupted)
    return asking.result()
