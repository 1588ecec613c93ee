"""The kernel's end of one app: sends a tool's view to the pages that show it, and answers what the view asks for.

An app is a program of the server's author that runs in a sandboxed frame. All that it asks for arrives here as a
JSON-RPC request: consent decides about it, the audit records it, and the connection carries it out. Source: MCP Apps
(2026-01-26), "Communication Protocol".

While consent decides, `near_asker` makes the notebook ask in the bar above the view instead of below a cell. The bar is
part of the page: the frame can neither cover nor draw it, and its buttons take no click in the first 0.6 s. Links,
files and permissions always take a click; rules and the policy can only refuse them.

`App` knows no widget. It talks to a `Channel`: `AppWidget` is one over a comm, and `host.js` is the other end of any.
`Pages` sends to the pages, `Bar` asks above the view, `Requests` answers what the app asks for.
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
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from mcp_magic.apps.view import PERMISSIONS, View, can_show, is_for_apps, view_of, view_uri, within_reach
from mcp_magic.ask.question import EDIT, NOT_ANSWERED, Choice, Question, Reply, near_asker
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import PERSON, Consent, Decision, Request, record_of
from mcp_magic.display.arguments import value_text
from mcp_magic.display.document import Part, parts_text, show_parts
from mcp_magic.display.json import brief
from mcp_magic.display.text import one_line, shorten
from mcp_magic.display.visible import in_line, visible
from mcp_magic.errors import DeniedError, MCPMagicError, UnknownToolError
from mcp_magic.flight.deadline import Unanswered, in_time
from mcp_magic.results.handles import Handles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from mcp_types import CallToolResult, Tool

    from mcp_magic.session.connection import Connection

MAX_PENDING = 32  # requests of one app that wait for their answer

MAX_PAGES = 8
"""Most pages that show one app. A reloaded page counts as a new one."""

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

_DENIED, _INVALID, _NO_METHOD, _INTERNAL = -32000, -32602, -32601, -32603


class Channel(Protocol):
    """What carries messages to the pages that show an app. What a page sends is given to `App.receive`."""

    def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message, from the event loop of the session."""


class _Refused(Exception):
    """A request of an app that is answered by an error."""

    def __init__(self, text: str, code: int = _DENIED) -> None:
        super().__init__(text)
        self.code = code


class _Tasks:
    """Tasks of an app, which end with it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._running:
            task.cancel()


class Pages:
    """The pages that show one app, by their names, each with its channel."""

    def __init__(self, log: Callable[[str, str], None], on_change: Callable[[bool], None]) -> None:
        self._log = log
        self._on_change = on_change  # called when the first page appears, and when the last one goes
        self._channels: dict[str, Channel] = {}
        self._tasks = _Tasks()

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, page: str) -> bool:
        return page in self._channels

    def add(self, page: str, channel: Channel) -> None:
        """Add a page. If there are more than `MAX_PAGES`, the oldest is dropped."""
        self._set({**self._channels, page: channel})

    def drop(self, page: str) -> None:
        """Forget a page that was closed."""
        self._set({name: channel for name, channel in self._channels.items() if name != page})

    def detach(self, channel: Channel) -> None:
        """Forget the pages of a channel that has closed."""
        self._set({page: old for page, old in self._channels.items() if old is not channel})

    def end_in(self, channel: Channel) -> None:
        """End the view in the pages of a channel that is about to close."""
        for page in [page for page, old in self._channels.items() if old is channel]:
            self.send(page, kind="teardown", reason="closed")
        self.detach(channel)

    def close(self, reason: str) -> None:
        """End the view in all pages."""
        self.send_all(kind="teardown", reason=reason)
        self._set({})
        self._tasks.cancel()

    def _set(self, channels: dict[str, Channel]) -> None:
        is_change = bool(channels) != bool(self._channels)
        self._channels = dict(list(channels.items())[-MAX_PAGES:])
        if is_change:
            self._on_change(bool(channels))

    def send_all(self, **message: Any) -> None:
        """Send a message to all pages."""
        for page in list(self._channels):
            self.send(page, **message)

    def send(self, page: str, /, **message: Any) -> None:
        """Send a message to a page; a large one is compressed, and sent in parts."""
        if page not in self._channels:
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
            self._tasks.start(self._deliver_slowly(page, parts[FREE_PARTS:]))

    async def _deliver_slowly(self, page: str, parts: Sequence[tuple[dict[str, Any], bytes]]) -> None:
        for part, piece in parts:
            await asyncio.sleep(PART_SECONDS)
            self._deliver(page, part, piece)

    def _deliver(self, page: str, message: dict[str, Any], *buffers: bytes) -> None:
        """Hand a message to the page's channel; a channel that fails shows the app no more."""
        channel = self._channels.get(page)
        if channel is None:
            return
        try:
            channel.send({**message, "view": page}, buffers)
        except Exception as error:
            self.detach(channel)
            self._log("warning", f"its view is lost: {type(error).__name__}: {error}")


class Bar:
    """The bar above the view: asks the questions about an app, in all pages that show it."""

    def __init__(self, label: str, pages: Pages) -> None:
        self._label = label
        self._pages = pages
        self._questions: dict[str, tuple[asyncio.Future[dict[str, Any]], dict[str, Any]]] = {}  # and what pages show

    def can_ask(self, question: Question) -> bool:
        """Whether the bar has what a question needs: it has no forms that must be filled in."""
        must_fill_in = question.form is not None and question.form.must_open
        return bool(self._pages) and question.elsewhere is None and not must_fill_in

    async def ask(self, question: Question, **members: Any) -> Reply:
        """Ask a question and wait for the reply; `members` are added to the message that pages get."""
        name, values = secrets.token_hex(8), question.values
        cut = question.reveal.cut(values) if question.reveal is not None else []
        unseen = question.reveal.unseen(values, set()) if question.reveal is not None else []
        message = {
            "kind": "ask",
            "id": name,
            "label": self._label,
            "text": question.about(values).plain,
            "choices": [
                {"name": choice.name, "label": choice.label, "tooltip": choice.tooltip}
                for choice in question.choices
                if choice.label and choice.name != EDIT
            ],
            "extra": [{**asdict(extra), "is_text": extra.is_text} for extra in question.extra],
            "long": list({title: visible(value_text(value)) for title, value in [*cut, *unseen]}.items()),
            "must_open": bool(unseen),
            **members,
        }
        answer = asyncio.get_running_loop().create_future()
        self._questions[name] = (answer, message)
        self._pages.send_all(**message)
        try:
            reply = await answer
        finally:
            del self._questions[name]
            self._pages.send_all(kind="answered", id=name)
        if "choice" not in reply:
            return Reply(reason=reply["reason"], by="default")
        extra = reply.get("extra")
        return Reply(str(reply["choice"]), values, extra if isinstance(extra, dict) else {})

    def answer(self, message: Mapping[str, Any]) -> None:
        """Take the answer of a page."""
        answer, _ = self._questions.get(str(message.get("id")), (None, None))
        if answer is not None and not answer.done():
            answer.set_result(dict(message))

    def dismiss(self, reason: str) -> None:
        """Leave all questions unanswered."""
        for answer, _ in self._questions.values():
            if not answer.done():
                answer.set_result({"reason": reason})

    def show(self, page: str) -> None:
        """Show the open questions in a page that came later."""
        for _, message in self._questions.values():
            self._pages.send(page, **message)


@dataclass
class Message:
    """What an app would like you to say to the model; it is not sent unless you say so."""

    text: str
    id: str
    is_used: bool = False  # whether you want it sent with the next turn of an agent

    def to_page(self) -> dict[str, Any]:
        """Return it as a page shows it: hidden characters are written out."""
        return {"id": self.id, "text": visible(self.text), "used": self.is_used}


class Requests:
    """Answers the requests of one app, as rules, the policy and you decide.

    Attributes:
        context: See `App`.
        messages: See `App`.
        permissions: What you let the view use (`PERMISSIONS`).
    """

    def __init__(self, name: str, connection: Connection, pages: Pages) -> None:
        self.context = ""
        self.messages: list[Message] = []
        self.permissions: set[str] = set()
        self.bar = Bar(name, pages)
        self._name = name
        self._connection = connection
        self._consent = connection.consent or Consent()
        self._pages = pages
        self._tasks = _Tasks()
        self._open: dict[tuple[str, str], asyncio.Task[None]] = {}  # by page and id
        self._pending = 0
        self._one_by_one = asyncio.Lock()
        self._methods: dict[str, Callable[[Mapping[str, Any], str], Awaitable[dict[str, Any]]]] = {
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

    def take(self, page: str, kind: str, message: Mapping[str, Any]) -> None:
        """Take a message of a page: a request of the app, its cancellation, or what you clicked in the bar."""
        key = page, json.dumps(message.get("id"))  # 1 and "1" are two ids
        match kind:
            case "request":
                self._open[key] = self._tasks.start(self._answer(page, key, message))
            case "cancel" if (request := self._open.pop(key, None)) is not None:
                request.cancel()  # its question goes, its call is cancelled, and there is no answer
            case "answer":
                self.bar.answer(message)
            case "message":
                self._handle(message.get("id"), message.get("how"))

    def close(self) -> None:
        """Cancel all requests."""
        self._tasks.cancel()

    async def _answer(self, page: str, key: tuple[str, str], message: Mapping[str, Any]) -> None:
        id_, method = message.get("id"), str(message.get("method"))
        params, state = message.get("params"), str(self._connection.state)
        self._pending += 1
        try:
            if self._pending > MAX_PENDING:
                raise _Refused(f"{MAX_PENDING} requests are pending; wait for their answers")
            if method not in self._methods:
                raise _Refused(f"Method not found: {one_line(method, 100)}", _NO_METHOD)
            if state in ("closed", "lost") and not method.startswith("ui/"):
                raise _Refused(f"the session of {self._connection.name} is {state}")
            if not isinstance(params, dict | None):
                raise _Refused("params must be an object", _INVALID)
            result = await self._methods[method](params or {}, page)
        except (_Refused, MCPMagicError) as error:
            code = _DENIED if isinstance(error, DeniedError) else getattr(error, "code", _INTERNAL)
            code = code if isinstance(code, int) else _INTERNAL
            text = error.whole if isinstance(error, MCPMagicError) else str(error)
            self._pages.send(page, kind="reply", id=id_, error={"code": code, "message": shorten(text, 20_000)})
        else:
            self._pages.send(page, kind="reply", id=id_, result=result)
        finally:
            self._pending -= 1
            self._open.pop(key, None)

    # Requests that go to the server

    async def _call_tool(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise _Refused("tools/call needs a name and an object of arguments", _INVALID)
        try:
            tool = await self._connection.find_tool(name)
        except UnknownToolError:
            tool = None
        if tool is None or not is_for_apps(tool):
            raise _Refused(f"{self._connection.name} offers no tool {one_line(name, 100)!r} to apps", _INVALID)
        caller = self._connection.caller
        call = await caller.prepare(Call(self._connection, name, arguments, asker=self._name, is_shown=False))
        call = replace(call, decision=await self._reviewed(call.request))
        return _json((await caller.call(call)).raw)  # checks the arguments by the present schema

    async def _read(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise _Refused("resources/read needs a uri", _INVALID)
        request = self._request("resources/read", {"uri": uri})
        decision = await self._reviewed(request)
        if not decision.approved:
            raise self._consent.refusal(request, decision)
        return _json((await self._connection.read(uri)).raw)

    async def _list(self, kind: str, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        member = {"templates": "resourceTemplates"}.get(kind, kind)
        offers = await self._connection.listing(kind)
        return {member: [_json(offer) for offer in offers if kind != "tools" or is_for_apps(offer)]}

    async def _reviewed(self, request: Request) -> Decision:
        """Decide about a request: by rules and policy, else by you, in the bar above the view; one by one."""
        turn = self._one_by_one if self._consent.verdict(request) == "ask" else nullcontext()
        async with turn:
            before = near_asker.set(self.bar)
            try:
                [decision] = await self._connection.caller.decide([request])
            finally:
                near_asker.reset(before)  # what the call itself asks is not about the view
        return decision

    # Requests that go to you

    async def _set_context(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        texts = _texts(params.get("content"))
        if (structured := params.get("structuredContent")) is not None:
            texts.append(json.dumps(structured, ensure_ascii=False))
        method, text = "ui/update-model-context", shorten("\n".join(texts), MAX_CONTEXT)
        self._record(method, {"text": text}, self._decision_by_rules(method, {"text": text}))
        self.context = text
        return {}

    async def _message(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        text = "\n".join(_texts(params.get("content"))).strip()
        if not text:
            raise _Refused("ui/message needs text", _INVALID)
        if len(text) > MAX_MESSAGE or len(self.messages) >= MAX_MESSAGES:
            raise _Refused("too many messages, or too long a message")
        if not (decision := self._decision_by_rules("ui/message", {"text": text})).approved:
            self._record("ui/message", {"text": text}, decision)
        message = Message(text, secrets.token_hex(4))
        self.messages.append(message)
        self._pages.send_all(kind="message", **message.to_page())
        return {}

    def _handle(self, id_: object, action: object) -> None:
        """Do what you want done with a message of the app: `"use"` or `"dismiss"`."""
        for message in [message for message in self.messages if message.id == id_]:
            message.is_used = action == "use"
            with suppress(_Refused):
                self._record("ui/message", {"text": message.text}, Decision(message.is_used))
            if not message.is_used:
                self.forget(message)

    def forget(self, message: Message) -> None:
        """Take a message off the list."""
        self.messages = [item for item in self.messages if item is not message]
        self._pages.send_all(kind="forgotten", id=message.id)

    async def _open_link(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        url = _link(params.get("url"))
        await self._ask("ui/open-link", {"url": url}, f"open {in_line(url, MAX_LINK)}", "Open", link=url)
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
            await self._ask("ui/download-file", {"name": name, "bytes": len(data)}, about, "Save")
            mime = str(resource.get("mimeType") or "application/octet-stream")[:100]
            self._pages.send(page, kind="download", name=name, mime=mime, data=base64.b64encode(data).decode())
        return {}

    async def grant(self, view: View) -> bool:
        """Ask about the permissions that a view wants; return whether it has more of them than before."""
        names = [name for name in view.permissions if name not in self.permissions]
        if not names:
            return False
        about = f"use your {', '.join(PERMISSIONS[name] for name in names)}"
        try:
            await self._ask("ui/permissions", {"permissions": names}, about, "Allow")
        except _Refused:
            return False
        self.permissions.update(names)
        return True

    async def _ask(self, method: str, arguments: Mapping[str, Any], about: str, verb: str, **members: Any) -> None:
        """Ask you about what is never done without a click; _Refused if you or a rule refuse."""
        started = time.perf_counter()
        decision = self._decision_by_rules(method, arguments)
        if decision.approved:
            question = _yes_or_no(f"{self._name} wants to {about}", verb)
            async with self._one_by_one:
                reply = await in_time(self.bar.ask(question, **members), self._consent.timeout)
            if isinstance(reply, Unanswered):
                reply = Reply(reason=NOT_ANSWERED, by="time-out")
            decision = Decision(reply.choice == "yes", reason=reply.reason, by=reply.by)
        self._record(method, arguments, decision, time.perf_counter() - started)

    def _request(self, method: str, arguments: Mapping[str, Any]) -> Request:
        return Request(self._connection.name, method, arguments, self._name, None, self._connection.spec.trust)

    def _decision_by_rules(self, method: str, arguments: Mapping[str, Any]) -> Decision:
        """Return the decision about what needs no answer of yours; rules and the policy can refuse it."""
        decision = self._consent.decide_by_rules(self._request(method, arguments))
        return Decision(True, by="default") if decision is None or decision.approved else decision

    def _record(self, method: str, arguments: Mapping[str, Any], decision: Decision, seconds: float = 0.0) -> None:
        """Write a decision into the audit; _Refused if it is a refusal."""
        self._consent.audit.add(record_of(self._request(method, arguments), decision, seconds))
        if not decision.approved:
            by = "the user" if decision.by == PERSON else decision.by
            raise _Refused(": ".join(filter(None, (f"{method} was denied by {by}", decision.reason))))


class App:
    """The view of one call. Show it again by `result.app`; it lives until its session is closed.

    Attributes:
        tool: The tool's definition.
        arguments: The arguments of the call.
        is_whole: Whether these are all of them: False while a model writes the call, which has not gone out yet.
        pages: The pages that show it.
    """

    def __init__(self, server: Connection, tool: Tool, arguments: Mapping[str, Any], *, is_whole: bool = True) -> None:
        self._server = server
        self.tool = tool
        self.arguments = dict(arguments)
        self.is_whole = is_whole
        self._outcome: dict[str, Any] = {}  # what the view gets when the call ends
        self._title = one_line(f"{server.name}:{tool.name}", 100)
        self._event = ""  # the name in the session's events
        self._view: asyncio.Task[View] | None = None
        self._state = str(server.state)
        self._height: object = None  # pixels of the view in a page, which a reload begins with
        self._is_closed = False
        self._tasks = _Tasks()
        self.pages = Pages(self._log, self._on_pages)
        self._requests = Requests(self.name, server, self.pages)

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
    def context(self) -> str:
        """What the app wants a model to know, as text; "" if nothing. It is the app's, and not to be trusted."""
        return self._requests.context

    @property
    def messages(self) -> list[Message]:
        """What the app would like you to say, until it is sent or you dismiss it."""
        return self._requests.messages

    def forget(self, message: Message) -> None:
        """Take a message off the list, because an agent has sent it."""
        self._requests.forget(message)

    @property
    def is_shown(self) -> bool:
        """Whether a page shows it now."""
        return bool(self.pages)

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

    def receive(self, message: Mapping[str, Any], channel: Channel) -> None:
        """Take a message of a page; from any thread."""
        self._call_soon(self._take, message, channel)

    def _call_soon(self, work: Callable[..., object], *arguments: Any) -> None:
        loop = self._server.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(work, *arguments)

    def _take(self, message: Mapping[str, Any], channel: Channel) -> None:
        page, kind = str(message.get("view"))[:64], str(message.get("kind"))
        if kind == "hello":
            self.pages.add(page, channel)
        if page not in self.pages:
            return
        match kind:
            case "hello":
                self._tasks.start(self._greet(page))
            case "grant":
                self._tasks.start(self._grant(page))
            case "size":
                self._height = message.get("height")
            case "log" if isinstance(params := message.get("params"), dict):
                self._log(str(params.get("level", "info"))[:20], shorten(str(params.get("data")), 2000))
            case "gone":
                self.pages.drop(page)
            case _:
                self._requests.take(page, kind, message)

    def _log(self, level: str, text: str) -> None:
        self._server.notices.log(level, f"{self.name}: {text}")

    def _on_pages(self, is_shown: bool) -> None:
        """Report in the session's events whether the view is shown."""
        if is_shown:
            self._event = f"{self.tool.name} {brief(self.arguments, 60)}" if self.arguments else self.tool.name
        self._server.publish("app", self._event, "shown" if is_shown else "hidden", ended=not is_shown)
        if not is_shown:
            self._requests.bar.dismiss("the view was closed")

    def close(self, reason: str = "closed") -> None:
        """End the view wherever it is shown. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self.pages.close(reason)
            self._requests.close()
            self._tasks.cancel()

    # Showing the view

    def _load(self) -> asyncio.Task[View]:
        if self._view is None or (self._view.done() and (self._view.cancelled() or self._view.exception())):
            self._view = asyncio.get_running_loop().create_task(self._read_view(), name=f"mcp_magic view {self.uri}")
            self._view.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._view

    async def _read_view(self) -> View:
        result = await self._server.read(self.uri)
        meta = None
        if not any((content.meta or {}).get("ui") for content in result.contents):
            with suppress(MCPMagicError):
                resources = await self._server.listing("resources")
                meta = next((resource.meta for resource in resources if str(resource.uri) == self.uri), None)
        view = await within_reach(view_of(self.uri, result.contents, meta))
        if view.refused:
            text = f"{self.uri}: its view may not load from {', '.join(view.refused[:5])}"
            self._server.notices.log("warning", text)
        return view

    async def _greet(self, page: str) -> None:
        """Send a page all that it needs to show the view."""
        try:
            view = await asyncio.shield(self._load())
        except MCPMagicError as error:
            self.pages.send(page, kind="failed", text=one_line(str(error), 400), label=self.name)
            return
        self.pages.send(page, kind="view", **self._view_message(view))
        self._requests.bar.show(page)

    async def _grant(self, page: str) -> None:
        """Ask about the permissions that the view wants; if you agree, show it again with them."""
        view = await self._load()
        if await self._requests.grant(view):
            self.pages.send(page, kind="view", again=True, **self._view_message(view))

    def _view_message(self, view: View) -> dict[str, Any]:
        from mcp_magic import __version__

        permissions = [name for name in view.permissions if name in self._requests.permissions]
        return {
            "label": self.name,
            "title": self._title,
            "html": view.html,
            "policy": view.policy,
            "allow": "; ".join(PERMISSIONS[name] for name in permissions),
            "wants": [name for name in view.permissions if name not in permissions],
            "sources": sorted({source for sources in view.domains.values() for source in sources}),
            "border": view.border,
            "host": {"name": "mcp_magic", "version": __version__},
            "capabilities": _capabilities(view, permissions),
            "tool": _json(self.tool),
            **self._input(),
            "outcome": self._outcome,
            "height": self._height,
            "messages": [message.to_page() for message in self.messages],
        }

    # The state of the call, and of the session

    def _input(self) -> dict[str, Any]:
        return {"arguments": self.arguments, "partial": not self.is_whole}

    def draft(self, arguments: Mapping[str, Any]) -> None:
        """Give the view the arguments that a model has written so far; nothing after the call was sent or ended."""
        if not (self.is_whole or self._outcome) and arguments != self.arguments:
            self.arguments = dict(arguments)
            self.pages.send_all(kind="input", **self._input())

    def begin(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Give the view the final arguments, because the call goes out. Return False if they are of another call."""
        if self.is_whole or self._outcome or tool != self.tool:
            return False
        self.arguments, self.is_whole = dict(arguments), True
        self.pages.send_all(kind="input", **self._input())
        return True

    def finish(self, raw: CallToolResult) -> None:
        """Give the view the result of the call."""
        self._end("ui/notifications/tool-result", _json(raw))

    def cancel(self, reason: str) -> None:
        """Tell the view that the call has no result."""
        self._end("ui/notifications/tool-cancelled", {"reason": one_line(reason, 400) or "interrupted"})

    def _end(self, method: str, params: dict[str, Any]) -> None:
        self._outcome = {"method": method, "params": params}
        self.pages.send_all(kind="outcome", **self._outcome)

    def session_changed(self) -> None:
        """Show the state of the session in the view."""
        state = str(self._server.state)
        if state == self._state or self._is_closed:
            return
        self._state = state
        text = "" if state == "open" else f"the session of {self._server.name} is {state}"
        self.pages.send_all(kind="status", text=text)


APPS: Handles[App] = Handles(most=50)  # that the results of agents can show again


def _capabilities(view: View, permissions: Sequence[str]) -> dict[str, Any]:
    """Return what the host offers to an app (`hostCapabilities`)."""
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
            "permissions": {name: {} for name in permissions},
        },
    }


def _json(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


def _yes_or_no(text: str, verb: str) -> Question:
    return Question(
        about=lambda values: Part.prose(text),
        choices=(Choice("yes", verb, tooltip=f"{verb.lower()} it"), Choice("no", "Deny", tooltip="do nothing")),
        outcome=lambda reply, seconds: None,
    )


def _texts(content: object) -> list[str]:
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


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
