"""The kernel's end of one app: sends a tool's view to the pages that show it, and answers what the view asks for.

An app is a program of the server's author that runs in a sandboxed frame. All that it asks for arrives here as a
JSON-RPC request: consent decides about it, the audit records it, and the connection carries it out. Source: MCP Apps
(2026-01-26), "Communication Protocol".

While consent decides, `near_asker` makes the notebook ask in the bar above the view instead of below a cell. The bar is
part of the page: the frame can neither cover nor draw it, and its buttons take no click in the first 0.6 s. Links,
files and permissions always take a click; rules and the policy can only refuse them.

`App` knows no widget. It talks to a `Channel`: `AppWidget` is one over a comm, and `host.js` is the other end of any.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import json
import re
import secrets
import time
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from mcp_magic.apps.view import PERMISSIONS, View, can_show, is_for_apps, view_of, view_uri, within_reach
from mcp_magic.ask.question import EDIT, NOT_ANSWERED, Choice, Question, Reply, near_asker
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import Consent, Decision, Request, record_of
from mcp_magic.display.arguments import written
from mcp_magic.display.document import Part, parts_text, show_parts
from mcp_magic.display.json import brief
from mcp_magic.display.text import one_line, shorten
from mcp_magic.display.visible import in_line, visible
from mcp_magic.errors import DeniedError, MCPMagicError, UnknownToolError
from mcp_magic.flight.deadline import Unanswered, in_time
from mcp_magic.results.handles import Handles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_types import CallToolResult, Tool

    from mcp_magic.session.connection import Connection

VERSION = "2026-01-26"

MAX_PENDING = 32  # requests of one app that wait for their answer

MAX_PAGES = 8
"""Pages that show one app. A page that is loaded again does not say that it was there before."""

MAX_CONTEXT = 20_000  # characters kept of what an app wants a model to know

MAX_MESSAGES = 20  # messages of an app that wait for you

MAX_MESSAGE = 20_000  # characters of one

MAX_DOWNLOAD = 50_000_000  # bytes of a file that an app offers

MAX_LINK = 2000  # characters of an address

PACKED = 50_000  # bytes of a message above which it is compressed

PART = 500_000  # bytes of a compressed message that are sent at once

FREE_PARTS = 4
"""Parts sent without a pause. Jupyter's server drops what a kernel sends above a megabyte a second over three seconds
(`iopub_data_rate_limit`)."""

PART_SECONDS = 0.7  # seconds between two further parts

_DENIED, _INVALID, _NO_METHOD, _FAILED = -32000, -32602, -32601, -32603


class Channel(Protocol):
    """What carries messages to the pages that show an app. What a page sends is given to `App.receive`."""

    def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message, from the event loop of the session."""


class _Refused(Exception):
    """A request of an app that is answered by an error."""

    def __init__(self, text: str, code: int = _DENIED) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Message:
    """What an app would like you to say to the model; it is not sent unless you say so."""

    text: str
    id: str
    is_used: bool = False  # whether you want it sent with the next turn of an agent

    def shown(self) -> dict[str, Any]:
        """Return it as a page shows it: hidden characters are written out."""
        return {"id": self.id, "text": visible(self.text), "used": self.is_used}


class App:
    """The view of one call. Show it again by `result.app`; it lives until its session is closed.

    Attributes:
        tool: The tool's definition.
        arguments: The arguments of the call.
        is_whole: Whether these are all of them: False while a model writes the call, which has not gone out yet.
        context: What the app wants a model to know, as text; "" if nothing. It is the app's, and not to be trusted.
        messages: What the app would like you to say, until it is sent or you dismiss it.
    """

    def __init__(self, server: Connection, tool: Tool, arguments: Mapping[str, Any], *, is_whole: bool = True) -> None:
        self._server = server
        self.tool = tool
        self.arguments = dict(arguments)
        self.is_whole = is_whole
        self.context = ""
        self.messages: list[Message] = []
        self._consent = server.consent or Consent()
        self._raw: CallToolResult | None = None
        self._cancelled = ""  # why there is no result
        self._shown_as = ""  # its name in the session's events
        self._view: asyncio.Task[View] | None = None
        self._pages: dict[str, Channel] = {}
        self._granted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[tuple[str, str], asyncio.Task[None]] = {}  # of the app, by page and id
        self._questions: dict[str, tuple[asyncio.Future[dict[str, Any]], dict[str, Any]]] = {}  # and what pages show
        self._one_by_one = asyncio.Lock()
        self._state = str(server.state)
        self._height: object = None  # pixels of the view in a page, which a reload begins with
        self._is_closed = False
        self._pending = 0
        self._kinds: dict[str, Callable[[str, Mapping[str, Any]], object]] = {  # what a page sends, by kind
            "hello": lambda page, message: self._start(self._greet(page)),
            "request": self._on_request,
            "cancel": self._on_cancel,
            "grant": lambda page, message: self._start(self._grant(page)),
            "answer": self._on_answer,
            "message": self._on_message,
            "size": self._on_size,
            "log": self._on_log,
            "gone": lambda page, message: self._keep_pages({p: c for p, c in self._pages.items() if p != page}),
        }
        self._methods: dict[str, Callable[[Mapping[str, Any], str], Awaitable[dict[str, Any]]]] = {  # of the app
            "tools/call": self._call_tool,
            "tools/list": partial(self._list, "tools"),
            "resources/read": self._read,
            "resources/list": partial(self._list, "resources"),
            "resources/templates/list": partial(self._list, "templates"),
            "prompts/list": partial(self._list, "prompts"),
            "ui/message": self._message,
            "ui/update-model-context": self._set_context,
            "ui/open-link": self._open_link,
            "ui/download-file": self._download,
        }

    # What it is

    @property
    def name(self) -> str:
        """Who asks, in questions, rules and the audit: `app SERVER`."""
        return f"app {self._server.name}"

    @property
    def uri(self) -> str:
        """The URI of the view."""
        return view_uri(self.tool)

    @property
    def _title(self) -> str:
        return one_line(f"{self._server.name}:{self.tool.name}", 100)

    @property
    def shown(self) -> bool:
        """Whether a page shows it now."""
        return bool(self._pages)

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of a result, or one on another machine, has no view

    def __repr__(self) -> str:
        return f"<App {self._title}: {one_line(self.uri, 100)}>"

    def parts(self) -> list[Part]:
        """Return the parts to display where the view cannot be shown."""
        install = "" if can_show() else "; with anywidget (pip install 'mcp-magic[apps]') it is below the call"
        return [Part.note(f"{self._title} has a view: `%mcp view` opens it in a tab of the browser{install}")]

    # The pages that show it

    def prefetch(self) -> None:
        """Begin to read the view, so that it is here when a page asks for it; from any thread."""
        self._call_soon(self._load)

    def _call_soon(self, work: Callable[..., object], *given: Any) -> None:
        loop = self._server.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(work, *given)

    def _load(self) -> asyncio.Task[View]:
        if self._view is None or (self._view.done() and (self._view.cancelled() or self._view.exception())):
            self._view = asyncio.get_running_loop().create_task(self._read_view(), name=f"mcp_magic view {self.uri}")
            self._view.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._view

    async def _read_view(self) -> View:
        result = await self._server.read(self.uri)
        meta = None
        if not any((content.meta or {}).get("ui") for content in result.contents):
            with suppress(MCPMagicError):
                resources = await self._server.listing("resources")
                meta = next((each.meta for each in resources if str(each.uri) == self.uri), None)
        view = await within_reach(view_of(self.uri, result.contents, meta))
        if view.refused:
            text = f"{self.uri}: its view may not load from {', '.join(view.refused[:5])}"
            self._server.notices.log("warning", text)
        return view

    def receive(self, message: Mapping[str, Any], channel: Channel) -> None:
        """Take a message of a page; from any thread."""
        self._call_soon(self._take, message, channel)

    def _take(self, message: Mapping[str, Any], channel: Channel) -> None:
        page, kind = str(message.get("view"))[:64], str(message.get("kind"))
        if kind == "hello":
            self._keep_pages({**self._pages, page: channel})
        if page in self._pages and kind in self._kinds:
            self._kinds[kind](page, message)

    def _on_request(self, page: str, message: Mapping[str, Any]) -> None:
        self._requests[_key(page, message)] = self._start(self._answer(page, message))

    def _on_cancel(self, page: str, message: Mapping[str, Any]) -> None:
        """Cancel a request of the app: its question goes, its call is cancelled, and there is no answer."""
        if (request := self._requests.pop(_key(page, message), None)) is not None:
            request.cancel()

    def _on_size(self, page: str, message: Mapping[str, Any]) -> None:
        self._height = message.get("height")

    def _on_log(self, page: str, message: Mapping[str, Any]) -> None:
        params = message.get("params")
        if isinstance(params, dict):
            text = f"{self.name}: {shorten(str(params.get('data')), 2000)}"
            self._server.notices.log(str(params.get("level", "info"))[:20], text)

    def _on_answer(self, page: str, message: Mapping[str, Any]) -> None:
        answer, _ = self._questions.get(str(message.get("id")), (None, None))
        if answer is not None and not answer.done():
            answer.set_result(dict(message))

    def _keep_pages(self, pages: dict[str, Channel]) -> None:
        """Set the pages that show it, and tell whether it is shown."""
        if bool(pages) != self.shown:
            if pages:
                self._shown_as = f"{self.tool.name} {brief(self.arguments, 60)}" if self.arguments else self.tool.name
            self._server.publish("app", self._shown_as, "shown" if pages else "hidden", ended=not pages)
        self._pages = dict(list(pages.items())[-MAX_PAGES:])
        for answer, _ in [] if pages else self._questions.values():
            if not answer.done():
                answer.set_result({"reason": "the view was closed"})

    def detach(self, channel: Channel) -> None:
        """Forget the pages of a channel that has closed."""
        self._keep_pages({page: each for page, each in self._pages.items() if each is not channel})

    def end_in(self, channel: Channel) -> None:
        """End the view in the pages of a channel that is about to close."""
        for page in [page for page, each in self._pages.items() if each is channel]:
            self._send(page, kind="teardown", reason="closed")
        self.detach(channel)

    def close(self, reason: str = "closed") -> None:
        """End the view wherever it is shown. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._tell(kind="teardown", reason=reason)
        self._keep_pages({})
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _send(self, page: str, /, **message: Any) -> None:
        if page not in self._pages:
            return
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        if len(text) < PACKED:
            self._deliver(page, message)
            return
        packed, name = gzip.compress(text.encode("utf-8", "replace"), 1), secrets.token_hex(4)
        pieces = [packed[at : at + PART] for at in range(0, len(packed), PART)]
        parts = [
            ({"kind": "packed", "id": name, "part": number, "of": len(pieces)}, piece)
            for number, piece in enumerate(pieces)
        ]
        for part, piece in parts[:FREE_PARTS]:
            self._deliver(page, part, piece)
        if parts[FREE_PARTS:]:
            self._start(self._deliver_slowly(page, parts[FREE_PARTS:]))

    async def _deliver_slowly(self, page: str, parts: Sequence[tuple[dict[str, Any], bytes]]) -> None:
        for part, piece in parts:
            await asyncio.sleep(PART_SECONDS)
            self._deliver(page, part, piece)

    def _deliver(self, page: str, message: dict[str, Any], *buffers: bytes) -> None:
        """Hand a message to the page's channel; a channel that fails shows the app no more."""
        channel = self._pages.get(page)
        if channel is None:
            return
        try:
            channel.send({**message, "view": page}, buffers)
        except Exception as error:
            self.detach(channel)
            self._server.notices.log("warning", f"{self.name}: its view is lost: {type(error).__name__}: {error}")

    def _tell(self, **message: Any) -> None:
        """Send a message to all pages."""
        for page in list(self._pages):
            self._send(page, **message)

    # Showing the view

    async def _greet(self, page: str) -> None:
        """Send a page all that it needs to show the view."""
        try:
            view = await asyncio.shield(self._load())
        except MCPMagicError as error:
            self._send(page, kind="failed", text=one_line(str(error), 400), label=self.name)
            return
        self._send(page, kind="view", **self._shown_view(view))
        for _, question in self._questions.values():
            self._send(page, **question)

    def _shown_view(self, view: View) -> dict[str, Any]:
        from mcp_magic import __version__

        granted = [name for name in view.permissions if name in self._granted]
        wanted = [name for name in view.permissions if name not in self._granted]
        return {
            "label": self.name,
            "title": self._title,
            "html": view.html,
            "policy": view.policy,
            "allow": "; ".join(PERMISSIONS[name] for name in granted),
            "wants": wanted,
            "sources": sorted({each for kind in view.domains.values() for each in kind}),
            "border": view.border,
            "host": {"name": "mcp_magic", "version": __version__},
            "capabilities": self._capabilities(view, granted),
            "tool": _wire(self.tool),
            **self._input(),
            "outcome": self._outcome(),
            "height": self._height,
            "messages": [each.shown() for each in self.messages],
        }

    def _capabilities(self, view: View, granted: Sequence[str]) -> dict[str, Any]:
        """Return what the host offers to the app (`hostCapabilities`)."""
        return {
            "openLinks": {},
            "downloadFile": {},
            "serverTools": {},
            "serverResources": {},
            "logging": {},
            "message": {"text": {}},
            "updateModelContext": {"text": {}, "structuredContent": {}},
            "sandbox": {
                "csp": {kind: list(sources) for kind, sources in view.domains.items() if sources},
                "permissions": {name: {} for name in granted},
            },
        }

    def _input(self) -> dict[str, Any]:
        return {"arguments": self.arguments, "partial": not self.is_whole}

    def draft(self, arguments: Mapping[str, Any]) -> None:
        """Give the view what a model has written of the arguments so far; nothing once the call is over or out."""
        if not (self.is_whole or self._cancelled) and arguments != self.arguments:
            self.arguments = dict(arguments)
            self._tell(kind="input", **self._input())

    def begin(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Give the view all arguments: the call that was written goes out. Return False if it is another call's."""
        if self.is_whole or self._cancelled or tool != self.tool:
            return False
        self.arguments, self.is_whole = dict(arguments), True
        self._tell(kind="input", **self._input())
        return True

    def _outcome(self) -> dict[str, Any]:
        """Return what the view is told about the end of the call; {} before it."""
        if self._cancelled:
            return {"method": "ui/notifications/tool-cancelled", "params": {"reason": self._cancelled}}
        if self._raw is None:
            return {}
        return {"method": "ui/notifications/tool-result", "params": _wire(self._raw)}

    def finish(self, raw: CallToolResult) -> None:
        """Give the view the result of the call."""
        self._raw = raw
        self._tell(kind="outcome", **self._outcome())

    def cancel(self, reason: str) -> None:
        """Tell the view that the call has no result."""
        self._cancelled = one_line(reason, 400) or "interrupted"
        self._tell(kind="outcome", **self._outcome())

    def session_changed(self) -> None:
        """Say in the view what became of the session."""
        state = str(self._server.state)
        if state == self._state or self._is_closed:
            return
        self._state = state
        text = "" if state == "open" else f"the session of {self._server.name} is {state}"
        self._tell(kind="status", text=text)

    # What the app asks for

    async def _answer(self, page: str, message: Mapping[str, Any]) -> None:
        id_, method = message.get("id"), str(message.get("method"))
        params = message.get("params")
        self._pending += 1
        try:
            if self._pending > MAX_PENDING:
                raise _Refused(f"{MAX_PENDING} requests are pending; wait for their answers")
            if method not in self._methods:
                raise _Refused(f"Method not found: {one_line(method, 100)}", _NO_METHOD)
            if self._state in ("closed", "lost") and not method.startswith("ui/"):
                raise _Refused(f"the session of {self._server.name} is {self._state}")
            if not isinstance(params, dict | None):
                raise _Refused("params must be an object", _INVALID)
            result = await self._methods[method](params or {}, page)
        except (_Refused, MCPMagicError) as error:
            code = _DENIED if isinstance(error, DeniedError) else getattr(error, "code", _FAILED)
            code = code if isinstance(code, int) else _FAILED
            whole = error.whole if isinstance(error, MCPMagicError) else str(error)
            self._send(page, kind="reply", id=id_, error={"code": code, "message": shorten(whole, 20_000)})
        else:
            self._send(page, kind="reply", id=id_, result=result)
        finally:
            self._pending -= 1
            self._requests.pop(_key(page, message), None)

    async def _call_tool(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise _Refused("tools/call needs a name and an object of arguments", _INVALID)
        try:
            tool = await self._server.find_tool(name)
        except UnknownToolError:
            tool = None
        if tool is None or not is_for_apps(tool):
            raise _Refused(f"{self._server.name} offers no tool {one_line(name, 100)!r} to apps", _INVALID)
        caller = self._server.caller
        call = await caller.prepare(Call(self._server, name, arguments, asker=self.name, is_shown=False))
        call = replace(call, decision=await self._reviewed(call.request))
        return _wire((await caller.call(call)).raw)  # by the present schema: a question may have stood long

    async def _reviewed(self, request: Request) -> Decision:
        """Decide about a request: by rules and policy, else by you, in the bar above the view; one by one."""
        context = copy_context()
        context.run(near_asker.set, self)
        caller = self._server.caller
        if self._consent.verdict(request) != "ask":
            return (await caller.decide([request]))[0]
        async with self._one_by_one:
            deciding = asyncio.create_task(caller.decide([request]), context=context)
            try:
                return (await deciding)[0]
            finally:
                deciding.cancel()

    async def _read(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise _Refused("resources/read needs a uri", _INVALID)
        request = self._request("resources/read", {"uri": uri})
        decision = await self._reviewed(request)
        if not decision.approved:
            raise self._consent.refusal(request, decision)
        return _wire((await self._server.read(uri)).raw)

    async def _list(self, kind: str, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        member = {"templates": "resourceTemplates"}.get(kind, kind)
        offers = await self._server.listing(kind)
        return {member: [_wire(each) for each in offers if kind != "tools" or is_for_apps(each)]}

    async def _set_context(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        texts = _texts(params.get("content"))
        if (structured := params.get("structuredContent")) is not None:
            texts.append(json.dumps(structured, ensure_ascii=False))
        what, text = "ui/update-model-context", shorten("\n".join(texts), MAX_CONTEXT)
        self._record(what, {"text": text}, self._ruled(what, {"text": text}))
        self.context = text
        return {}

    async def _message(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        text = "\n".join(_texts(params.get("content"))).strip()
        if not text:
            raise _Refused("ui/message needs text", _INVALID)
        if len(text) > MAX_MESSAGE or len(self.messages) >= MAX_MESSAGES:
            raise _Refused("too many messages, or too long a message")
        if not (decision := self._ruled("ui/message", {"text": text})).approved:
            self._record("ui/message", {"text": text}, decision)
        message = Message(text, secrets.token_hex(4))
        self.messages.append(message)
        self._tell(kind="message", **message.shown())
        return {}

    def _on_message(self, page: str, message: Mapping[str, Any]) -> None:
        """Take what you want done with a message of the app: `"use"` or `"dismiss"`."""
        for each in [each for each in self.messages if each.id == message.get("id")]:
            each.is_used = message.get("how") == "use"
            with suppress(_Refused):
                self._record("ui/message", {"text": each.text}, Decision(each.is_used))
            if not each.is_used:
                self.forget(each)

    def forget(self, message: Message) -> None:
        """Take a message off the list: an agent has sent it, or you dismissed it."""
        self.messages = [each for each in self.messages if each is not message]
        self._tell(kind="forgotten", id=message.id)

    async def _open_link(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        url = _link(params.get("url"))
        await self._ask_in_bar("ui/open-link", {"url": url}, f"open {in_line(url, MAX_LINK)}", "Open", link=url)
        return {}

    async def _download(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        contents = params.get("contents")
        if not isinstance(contents, list) or not 0 < len(contents) <= 10:
            raise _Refused("ui/download-file needs contents", _INVALID)
        for content in contents:
            resource = content.get("resource") if isinstance(content, dict) else None
            if not isinstance(resource, dict):
                raise _Refused("only embedded resources can be downloaded", _INVALID)
            data, name = _file_of(resource)
            about = f"save the file {name} ({len(data):,} bytes)"
            await self._ask_in_bar("ui/download-file", {"name": name, "bytes": len(data)}, about, "Save")
            mime = str(resource.get("mimeType") or "application/octet-stream")[:100]
            self._send(page, kind="download", name=name, mime=mime, data=base64.b64encode(data).decode())
        return {}

    async def _grant(self, page: str) -> None:
        """Ask about the permissions that the view wants; if you agree, show it again with them."""
        view = await self._load()
        names = [name for name in view.permissions if name not in self._granted]
        if not names:
            return
        about = f"use your {', '.join(PERMISSIONS[name] for name in names)}"
        with suppress(_Refused):
            await self._ask_in_bar("ui/permissions", {"permissions": names}, about, "Allow")
            self._granted.update(names)
            self._send(page, kind="view", again=True, **self._shown_view(view))

    # Asking

    def _request(self, what: str, arguments: Mapping[str, Any], tool: Tool | None = None) -> Request:
        return Request(self._server.name, what, arguments, self.name, tool, self._server.spec.trust)

    def _ruled(self, what: str, arguments: Mapping[str, Any]) -> Decision:
        """Return the decision about what needs no answer of yours; rules and the policy can refuse it."""
        request = self._request(what, arguments)
        if self._consent.denies(request):
            return Decision.deny(by=f"rule `{self._consent.rule_for(request)}`")
        if self._consent.policy == "deny":
            return Decision.deny(by="approval = 'deny'")
        return Decision(True, by="default")

    def _record(self, what: str, arguments: Mapping[str, Any], decision: Decision, seconds: float = 0.0) -> None:
        """Write a decision into the audit; _Refused if it is a refusal."""
        self._consent.audit.add(record_of(self._request(what, arguments), decision, seconds))
        if not decision.approved:
            raise _Refused(f"{what} was denied by {'the user' if decision.by == 'person' else decision.by}")

    async def _ask_in_bar(self, what: str, arguments: Mapping[str, Any], about: str, verb: str, **extra: Any) -> None:
        """Ask you about what is never done without a click; _Refused if you or a rule refuse."""
        started = time.perf_counter()
        decision = self._ruled(what, arguments)
        if decision.approved:
            question = _yes_or_no(f"{self.name} wants to {about}", verb)
            async with self._one_by_one:
                reply = await in_time(self.ask(question, **extra), self._consent.timeout)
            if isinstance(reply, Unanswered):
                reply = Reply(reason=NOT_ANSWERED, by="time-out")
            decision = Decision(reply.choice == "yes", reason=reply.reason, by=reply.by)
        self._record(what, arguments, decision, time.perf_counter() - started)

    def can_ask(self, question: Question) -> bool:
        """Whether the bar above the view has what a question needs: it has no forms that must be filled in."""
        must_fill_in = question.form is not None and question.form.must_open
        return self.shown and question.settled is None and not must_fill_in

    async def ask(self, question: Question, **extra: Any) -> Reply:
        """Ask a question in the bar above the view, in all pages that show it, and wait for the reply."""
        name, values = secrets.token_hex(8), question.values
        cut = question.reveal.cut(values) if question.reveal is not None else []
        unseen = question.reveal.unseen(values, set()) if question.reveal is not None else []
        message = {
            "kind": "ask",
            "id": name,
            "label": self.name,
            "text": question.about(values).plain,
            "choices": [
                {"name": each.name, "label": each.label, "tooltip": each.tooltip}
                for each in question.choices
                if each.label and each.name != EDIT
            ],
            "extra": [{**asdict(extra), "is_text": extra.is_text} for extra in question.extra],
            "long": list({title: visible(written(value)) for title, value in [*cut, *unseen]}.items()),
            "must_open": bool(unseen),
            **extra,
        }
        answer = asyncio.get_running_loop().create_future()
        self._questions[name] = (answer, message)
        self._tell(**message)
        try:
            reply = await answer
        finally:
            del self._questions[name]
            self._tell(kind="answered", id=name)
        if "choice" not in reply:
            return Reply(reason=reply["reason"], by="default")
        given = reply.get("extra")
        return Reply(str(reply["choice"]), values, given if isinstance(given, dict) else {})


APPS: Handles[App] = Handles(most=50)  # that the results of agents can show again


def _key(page: str, message: Mapping[str, Any]) -> tuple[str, str]:
    return page, json.dumps(message.get("id"))  # 1 and "1" are two ids


def _wire(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _yes_or_no(text: str, verb: str) -> Question:
    return Question(
        about=lambda values: Part.prose(text),
        choices=(Choice("yes", verb, tooltip=f"{verb.lower()} it"), Choice("no", "Deny", tooltip="do nothing")),
        outcome=lambda reply, seconds: None,
    )


def _texts(content: object) -> list[str]:
    blocks = content if isinstance(content, list) else [content]
    found = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return [text for text in found if isinstance(text, str)]


def _link(url: object) -> str:
    if not isinstance(url, str) or len(url) > MAX_LINK:
        raise _Refused(f"ui/open-link needs a url of at most {MAX_LINK} characters", _INVALID)
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and url.isprintable():
            return url
    raise _Refused("only http and https addresses can be opened", _INVALID)


def _file_of(resource: Mapping[str, Any]) -> tuple[bytes, str]:
    blob, text = resource.get("blob"), resource.get("text")
    try:
        data = base64.b64decode(blob, validate=True) if isinstance(blob, str) else str(text or "").encode()
    except (binascii.Error, ValueError):
        raise _Refused("the file's blob is not base64", _INVALID) from None
    if len(data) > MAX_DOWNLOAD:
        raise _Refused(f"a file has at most {MAX_DOWNLOAD:,} bytes", _INVALID)
    name = re.sub(r"[^\w.-]+", "_", str(resource.get("uri", "")).rsplit("/", 1)[-1]).strip("._")[-80:]
    return data, name or "file"
