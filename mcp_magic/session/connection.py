"""The connection: one MCP server as users see it, with its tools, resources and prompts."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import clean, join_names, plural
from mcp_magic.calls.call import Call, Progress
from mcp_magic.calls.task import EXTENSION
from mcp_magic.config.specs import StdioSpec
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.document import show_parts
from mcp_magic.errors import (
    ArgumentsError,
    UnknownToolError,
    on_one_line,
)
from mcp_magic.flight.client import CALL, AnyResult
from mcp_magic.flight.questions import QuestionQueue
from mcp_magic.flight.request import InFlightRequest, Limits
from mcp_magic.loops import on_own_loop, on_own_loop_unless_closed
from mcp_magic.protocol import checked, until_answered
from mcp_magic.results.cards import ConnectionInfo, edited
from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult
from mcp_magic.session.calls import CallSender, Tasks
from mcp_magic.session.catalog import KINDS, Catalog
from mcp_magic.session.listings import Listings
from mcp_magic.session.notifications import Logs, Notices, request_level
from mcp_magic.session.observation import Observation
from mcp_magic.session.requests import RequestSender, Sending
from mcp_magic.session.roots import Roots, tell_changed
from mcp_magic.session.services import HoldsConnections, Services
from mcp_magic.session.subscriptions import Subscription, check_announces
from mcp_magic.session.supervisor import State, Supervisor
from mcp_magic.session.wire import ErrorContext
from mcp_magic.trace.trace import Recorder

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Collection, Iterator, Mapping

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Implementation, Prompt, ServerCapabilities, Tool

    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.consent import Consent
    from mcp_magic.consent.definitions import Change
    from mcp_magic.lint import Findings
    from mcp_magic.session.events import EventStream


# Tools as awaitable Python functions, with the signature that their schema describes.


class ToolFunction:
    """One tool as an async function. Tab completes its arguments; Shift-Tab shows its documentation."""

    def __init__(self, connection: Connection, tool: Tool) -> None:
        self._connection = connection
        self.definition = tool
        self.__name__ = self.__qualname__ = tool.name
        self.__module__ = f"mcp_magic.{connection.name}"
        self.__doc__ = schema.make_docstring(
            tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema
        )
        self.__signature__: inspect.Signature = schema.make_signature(tool.input_schema)
        self.__annotations__ = {name: parameter.annotation for name, parameter in self.__signature__.parameters.items()}

    async def __call__(self, /, *args: Any, **kwargs: Any) -> ToolResult:
        """Call the tool. Its own docstring describes the arguments."""
        with self._connection.explain_misfits():
            arguments = schema.bind_arguments(self.__signature__, self.definition.input_schema, args, kwargs)
        return await self._connection.call(self.definition.name, arguments)

    def __repr__(self) -> str:
        return clean(f"<tool {self._connection.name}:{self.definition.name}{self.__signature__}>").replace("\n", "\\n")


class ToolNamespace:
    """The tools of one server: `tools.add(a=1, b=2)`, `tools["any name"]`, `len(tools)`, iteration over names.

    In attributes, underscores replace characters that Python names cannot have: `tools.get_sum` is `tools["get-sum"]`,
    unless another tool maps to the same name.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._functions: tuple[Any, dict[str, ToolFunction]] = ((), {})

    def __getattr__(self, name: str) -> ToolFunction:
        if name.startswith("_"):  # copy, pickle and IPython look for special names
            raise AttributeError(name)
        try:
            return self[name if name in self else self._attributes().get(name, name)]
        except UnknownToolError as error:
            raise on_one_line(AttributeError(), str(error)) from None

    def __getitem__(self, name: str) -> ToolFunction:
        definitions, functions = self._current()
        if name not in definitions:
            raise UnknownToolError(self._connection.listings.why_unknown("tools", name))
        if name not in functions:
            functions[name] = ToolFunction(self._connection, definitions[name])
        return functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current()[0])

    def __len__(self) -> int:
        return len(self._current()[0])

    def __contains__(self, name: object) -> bool:
        return name in self._current()[0]

    def __dir__(self) -> list[str]:
        return list(self._attributes())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        unusable = self._connection.catalog.unusable.get("tools")
        also = f"; unusable: {join_names(unusable)}" if unusable else ""
        return f"<tools of {self._connection.name!r}: {join_names(self)}{also}>"

    def _attributes(self) -> dict[str, str]:
        """Return attribute name -> tool name, without attribute names that fit several tools."""
        tools: dict[str, list[str]] = {}
        for name in self:
            tools.setdefault(schema.identifier(name), []).append(name)
        unique = {attribute: names[0] for attribute, names in tools.items() if len(names) == 1 or attribute in names}
        public = {attribute: name for attribute, name in unique.items() if attribute[0] != "_"}
        return {attribute: attribute if attribute in self else name for attribute, name in public.items()}

    def _current(self) -> tuple[dict[str, Tool], dict[str, ToolFunction]]:
        definitions = self._connection.catalog.tools
        if self._functions[0] is not definitions:
            self._functions = (definitions, {})
        return definitions, self._functions[1]


def _merge_arguments(arguments: Mapping[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of both. Raises ArgumentsError if the first are no mapping."""
    try:
        return {**arguments, **keywords}
    except TypeError:
        problem = f"expected arguments by name (a=1) or as a dict ({{'a': 1}}), got {type(arguments).__name__}"
    raise ArgumentsError(problem)


def _params(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a message as JSON. Raises ArgumentsError if it cannot be sent."""
    if not isinstance(method, str):
        raise ArgumentsError(f"expected a method such as 'tools/list', got {method!r}")
    return schema.json_arguments(_merge_arguments(params or {}, {}))


# The connection to one server.

_OPTIONS = ("timeout", "max_total_timeout", "on_progress")  # options of `call_tool` that `call` might be given


class Connection:
    """An open session to one MCP server.

    `Host.connect` makes it. It outlives the cell that opened it and closes with the kernel. It has many methods because
    they are what people type and what displays read; its parts do the work.

    Attributes:
        name: Its name in the host.
        spec: Where the server is.
        tools: The server's tools as awaitable functions: `await connection.tools.add(a=1, b=2)`.
        skills: The skills that the server publishes (`mcp_magic.skills.Skills`): `await connection.skills.list()`.
        caller: The way of its calls: `await connection.caller.call(Call(connection, "add", {"a": 1, "b": 2}))`.
        catalog: What the server offers, cached.
        listings: Fetches that, and searches it by name.
        supervisor: Opens, reconnects and closes the session.
        notices: The server's notifications: log messages, changes.
        roots: The directories that the server may ask for.
        trace: The messages in both directions; `.entries`.
        place: Name and spec of this connection, for error messages.
    """

    def __init__(self, name: str, spec: Spec, services: Services | None = None) -> None:
        self.name = name
        self.spec = spec
        self.place = ErrorContext(name, spec)
        self._services = services = services or Services()
        self.caller = services.caller
        self.trace = Recorder(name, spec, services.trace, services.taps(name, spec))
        if isinstance(spec, StdioSpec) and spec.observe:
            self.trace.add(Observation())
        self._callbacks: list[Callable[[], None]] = []
        self._published = State.CLOSED
        self.catalog = Catalog(
            lambda kind, is_counted: self.listings.fetch(kind, is_counted),
            self._on_listing,
            services.clock,
            lambda text: self.notices.remarks.add(text),
        )
        self.roots = Roots(self._roots_changed)
        calls: list[InFlightRequest] = []
        logs = Logs(calls, spec.masked)
        questions = QuestionQueue(calls, services.max_questions)
        self.notices = Notices(
            self.catalog.mark_changed,
            self.roots,
            logs,
            services.questions(self.place, questions, logs.log, self.trace.conceal),
            lambda why: self.supervisor.stream_cut(why),
            services.clock,
            lambda uri, missed: self.publish("resource", uri, "may have changed" if missed else "changed"),
        )
        if spec.unused_note:
            self.notices.remarks.add(spec.unused_note)
        self.supervisor = Supervisor(
            self.place,
            services,
            self.trace,
            self.notices,
            self.catalog,
            lambda seconds: self._sender.drained(seconds),
            lambda: self.is_held,
            self._tell,
        )
        self._sender = RequestSender(self.place, self.supervisor, questions, services.reports)
        self.listings = Listings(
            name, self.supervisor, self._sender, self.catalog, self.notices, services.clock, lambda: self.outdated
        )
        tasks = Tasks(self.place, self.supervisor, self._sender, services.reports, calls)
        call_sender = CallSender(self.place, self._sender, tasks, self.catalog, self.notices, lambda: self.outdated)
        # What `Caller` uses of a connection:
        self.define, self.send_call, self.resume_call = self.listings.define, call_sender.send, call_sender.resume
        self.tools = ToolNamespace(self)
        self.skills = services.skills(self)
        self._found_open: float | None = None

    # The session

    @on_own_loop_unless_closed
    async def open(self) -> None:
        """Open the session. On failure nothing is left running.

        Raises:
            ConnectError: The session could not be opened; the message says why.
        """
        await self.supervisor.open()

    @on_own_loop_unless_closed
    async def close(self) -> None:
        """Close the session, and end the server if this connection started it. Idempotent.

        Cancels a `reopen()` in progress, which raises SessionClosedError.
        """
        await self.supervisor.close()

    @on_own_loop_unless_closed
    async def reopen(self, *, by_hand: bool = True) -> None:
        """Close the session if it is open, and open it again at once. Settings such as roots and log level stay.

        `by_hand` says whether the user asked for it.

        Raises:
            ConnectError: It could not be opened; the state is then `"lost"`.
            SessionClosedError: It was closed meanwhile.
        """
        await self.supervisor.reopen(by_hand=by_hand)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the state changes or a listing was fetched."""
        self._callbacks.append(callback)

    def _tell(self) -> None:
        if self.state is not self._published:
            self._published = self.state
            self.publish("session", "", str(self.state))
        for callback in self._callbacks:
            callback()

    def _on_listing(self, kind: str) -> None:
        if kind == "tools":
            self.listings.remark_schemas()
        self.publish("listing", kind, plural(len(self.catalog.cached(kind)), kind))
        self._tell()

    def events(self) -> EventStream:
        """Return what happens in this session from now on: `async for event in connection.events()`."""
        return self._services.events.follow(self.name, self.loop)

    def publish(self, kind: str, name: str, text: str, *, ended: bool = False) -> None:
        """Pass a `SessionEvent` on to the streams of events and to `%mcp watch`."""
        self._services.events.publish(self.name, kind, name, text, ended=ended)

    def end_streams(self) -> None:
        """End the subscriptions and the streams of events: the host lets go of this connection."""
        self.notices.subscriptions.end()
        self._services.events.end(self.name)

    @property
    def host(self) -> HoldsConnections | None:
        """The host that made it, or None."""
        return self._services.host

    @property
    def is_held(self) -> bool:
        """Whether the host currently has this connection under its name."""
        return self.host is not None and self.host.connections.get(self.name) is self

    @property
    def consent(self) -> Consent | None:
        """The host's rules about who may call what; None where calls need no approval."""
        return self.caller.consent

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that opened the session, or None before, and in a forked child.

        Other loops may await the methods, which then run on this one.
        """
        return None if self.supervisor.is_of_other_process else self.supervisor.loop

    @property
    def state(self) -> State:
        """`"connecting"`, `"open"`, `"reconnecting"`, `"lost"` (the server ended it) or `"closed"`."""
        return State.LOST if self.supervisor.is_stranded else self.supervisor.state

    @property
    def problem(self) -> str:
        """Why the session is not open, and when the next attempt is; "" while it is open."""
        return self.supervisor.problem

    @property
    def opened_at(self) -> float | None:
        """When the session was opened (`time.time()`), or None before."""
        return self.supervisor.opened_at

    @property
    def reconnects(self) -> int:
        """How often the session has come back by itself."""
        return self.supervisor.reconnects

    def note_found_open(self) -> None:
        """Note that `connect` was asked for this session, which was already open."""
        self._found_open = self.opened_at

    @property
    def calls(self) -> int:
        """Requests sent, without those that the host made on its own."""
        return self._sender.traffic.calls

    @property
    def failures(self) -> int:
        """How many of `calls` failed. An error that a tool reports does not count."""
        return self._sender.traffic.failures

    @property
    def in_flight(self) -> int:
        """Pending requests."""
        return self._sender.traffic.in_flight

    @property
    def last_seen(self) -> float | None:
        """When the server last answered (`time.time()`), or None."""
        return self._sender.traffic.last_seen

    @property
    def client(self) -> Client:
        """The SDK's client, for what this class does not offer.

        Raises:
            SessionClosedError: The session is not open.
        """
        if self.supervisor.client is None:
            raise self.supervisor.unavailable()
        return self.supervisor.client

    @property
    def protocol_version(self) -> str | None:
        """The negotiated protocol version; while reconnecting, that of the last session; None without a session."""
        facts = self.supervisor.facts
        return facts.protocol_version if facts else None

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """The capabilities that the server announces, or None."""
        facts = self.supervisor.facts
        return facts.capabilities if facts else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, or None."""
        facts = self.supervisor.facts
        return facts.server_info if facts else None

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models, or None."""
        facts = self.supervisor.facts
        return facts.instructions if facts else None

    def info(self) -> ConnectionInfo:
        """Return the current facts about the connection, without a request."""
        catalog = self.catalog
        return ConnectionInfo(
            name=self.name,
            spec=self.spec,
            state=self.state,
            problem=self.problem,
            server=self.server_info,
            protocol_version=self.protocol_version,
            instructions=self.instructions,
            opened_at=self.opened_at,
            found_open=self._found_open,
            counts={kind: len(catalog.cached(kind)) if catalog.has(kind) else None for kind in KINDS},
            unlisted={kind: why.removeprefix(f"{self.name}: {kind}: ") for kind, why in catalog.problems.items()},
            kept=catalog.seconds_left(),
            kept_reads=len(self.notices.reads),
            last_seen=self.last_seen,
            latency=self._sender.traffic.latency,
            calls=self.calls,
            failures=self.failures,
            reconnects=self.reconnects,
            remarks=self.notices.remarks.texts,
        )

    def change_of(self, tool: Tool) -> Change | None:
        """Return how a tool has changed since this kernel first saw it, or None."""
        return self.consent.definitions.change(f"{self.name}:{tool.name}") if self.consent else None

    def stderr(self) -> str:
        """Return the end of a stdio server's standard error, secrets masked."""
        self.trace.stderr()  # so that the trace and the cassette have what is returned here
        return self.place.stderr()

    # Requests

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **keywords: Any) -> ToolResult:
        """Call a tool.

        Args:
            tool: Its name on this server.
            arguments: Its arguments, objects that convert to JSON (DataFrames, dates, ...; see
                `schema.to_json_value`).
            **keywords: Further arguments by name.

        Returns:
            The result, which displays itself.

        Raises:
            ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
            ToolError: The tool reported an error.
            SessionError: The session failed.
        """
        try:
            values = _merge_arguments(arguments, keywords) if arguments else keywords
            result = await self.caller.call(Call(self, tool, values))
        except ArgumentsError as error:
            option, definition = next(filter(keywords.__contains__, _OPTIONS), None), self.catalog.tool(tool)
            if option is None or definition is None or option in definition.input_schema.get("properties", {}):
                raise
            line = f"await host[{self.name!r}].call_tool({tool!r}, arguments, {option}=...)"
            raise ArgumentsError(f"{error}\n  `{option}` is an option of call_tool: `{line}`") from None
        return result.raise_for_error() if result.is_error else result

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        on_progress: ProgressFnT | None = None,
        validate: bool = True,
        asker: str = PERSON,
    ) -> ToolResult:
        """Call a tool and return its result, also one that reports an error.

        Of a call that the server makes a task, the result comes when the task has ended. Interrupting the wait cancels
        the task.

        Args:
            tool: Its name on this server.
            arguments: Its arguments; see `call`.
            timeout: Seconds to wait for the answer; None waits without limit. The clock stops while the server asks the
                user something, and restarts with each progress notification.
            max_total_timeout: Seconds that the call may take in all; None for `reports.max_total_timeout`.
            on_progress: Awaited with (progress, total, message) for each progress notification, which then is not
                shown below the cell.
            validate: Whether to check the arguments against the tool's schema first, and fill in its defaults for
                required arguments that were left out.
            asker: Who makes the call, for consent: you, `"agent"`, `"server NAME"`, `"app NAME"`.

        Raises:
            ArgumentsError: The arguments cannot be sent; nothing was sent.
            CallCancelledError: The server has cancelled the task.
            DeniedError: Consent refused the call; nothing was sent.
            InvalidResponseError: The answer does not fit the tool's output schema, and `host.outputs.strict` is set;
                its `.result` is the result.
            ProtocolError: The server refused the call.
            SessionError: The session failed.
        """
        call = Call(self, tool, arguments, asker=asker, limits=Limits(timeout, max_total_timeout))
        observers = () if on_progress is None else (Progress(on_progress),)
        return await self.caller.call(call, *observers, validate=validate)

    @property
    def makes_tasks(self) -> bool:
        """Whether the server announces that it makes tasks of calls."""
        capabilities = self.capabilities
        return capabilities is not None and EXTENSION in (capabilities.extensions or {})

    @property
    def outdated(self) -> str:
        """Which programs of the server have changed since it was started, and what to type; "" if none."""
        return edited(self.name, self.spec, self.opened_at)

    @contextmanager
    def explain_misfits(self) -> Iterator[None]:
        """Add to an ArgumentsError that the server's programs have changed: the new ones may take the arguments."""
        try:
            yield
        except ArgumentsError as error:
            raise self.explained(error) from None

    def explained(self, error: ArgumentsError) -> ArgumentsError:
        """Return an error that also says if the server's programs have changed: the new ones may take the arguments."""
        return ArgumentsError(f"{error}\n  {self.outdated}") if self.outdated else error

    @on_own_loop
    async def read(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        wait_if_busy: bool = True,
        refresh: bool = False,
    ) -> ResourceResult:
        """Read a resource. The time-outs and `wait_if_busy` are those of `call_tool`.

        As long as its server lets an answer be kept, it is returned again without a request, unless `refresh` is true.

        Raises:
            ProtocolError: The server has no such resource, or refused.
            RequestTimeoutError: The server did not answer in time.
        """
        started = time.perf_counter()
        schema.check_text(str(uri), "the URI")
        is_open = self.supervisor.client is not None
        if is_open and not refresh and (entry := self.notices.reads.find(str(uri))) is not None:
            age = max(0.0, self._services.clock() - entry.since)
            self.trace.kept("resources/read", {"uri": str(uri)}, age)
            seconds = time.perf_counter() - started
            return ResourceResult(entry.result, server=self.name, uri=str(uri), seconds=seconds, age=age)
        raw = await self._sender.send(
            f"{self.name}: {uri}",
            lambda client: client.read_resource(str(uri), cache_mode="refresh"),
            Sending(Limits(timeout, max_total_timeout, waits_if_busy=wait_if_busy), is_call=True, is_harmless=True),
        )
        return ResourceResult(raw, server=self.name, uri=str(uri), seconds=time.perf_counter() - started)

    @on_own_loop
    async def subscribe(self, uri: str) -> Subscription:
        """Watch a resource: `async for update in await connection.subscribe(uri)`.

        The subscription survives reconnects under this name, until it is closed or the server is disconnected.

        Raises:
            NotOfferedError: The server does not announce changes of this resource.
            SessionError: The session failed, or the server refused.
        """
        schema.check_text(str(uri), "the URI")
        title, adding = f"{self.name}: subscription to {uri}", self.notices.subscriptions.add
        check_announces(await self._sender.open_client(), self.name, uri)
        how = Sending(Limits(self.spec.timeout), is_call=True)
        return await self._sender.send(title, lambda client: adding(client, str(uri)), how)

    @on_own_loop
    async def prompt(
        self,
        prompt: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        **keywords: str,
    ) -> PromptResult:
        """Get a prompt's messages. The time-outs are those of `call_tool`.

        Args:
            prompt: Its name on this server.
            arguments: Its arguments, as text.
            timeout: In seconds. Pass a prompt argument of this name in `arguments`.
            max_total_timeout: In seconds; likewise.
            **keywords: Further arguments by name.

        Raises:
            RequestTimeoutError: The server did not answer in time.
        """
        texts = _merge_arguments(arguments or {}, keywords)
        definition = await self.find_prompt(prompt)
        schema.check_prompt_arguments(texts, definition.arguments or ())
        schema.check_text(texts, prompt)
        started = time.perf_counter()
        title = f"{self.name}:{prompt}"
        raw = await self._sender.send(
            title,
            lambda client: client.get_prompt(prompt, texts),
            Sending(Limits(timeout, max_total_timeout), is_call=True, is_harmless=True),
        )
        return PromptResult(
            raw, server=self.name, prompt=prompt, arguments=texts, seconds=time.perf_counter() - started
        )

    @on_own_loop
    async def complete(
        self,
        ref: Any,
        argument: str,
        value: str,
        context: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> list[str]:
        """Ask the server for completions of an argument; an empty list if it offers none.

        Args:
            ref: A `PromptReference` or a `ResourceTemplateReference`.
            argument: The argument's name.
            value: The text typed so far.
            context: The other arguments.
            timeout: Seconds to wait for the answer; None waits without limit.

        Raises:
            RequestTimeoutError: The server did not answer in time.
        """
        schema.check_text([argument, value, context or {}], "completion")
        title = f"{self.name}: completion"
        client = await self._sender.open_client(title, timeout)
        if client.server_capabilities.completions is None:
            return []
        partial_argument = {"name": argument, "value": value}

        async def send(client: Client) -> Any:
            async with asyncio.timeout(timeout):
                return await client.complete(ref, partial_argument, context or None)

        answer = await self._sender.send(title, send, Sending(Limits(timeout), is_harmless=True))
        return list(answer.completion.values)

    @on_own_loop
    async def _roots_changed(self) -> None:
        # Without a session nothing needs to be sent: the next one asks for the roots itself.
        if self.supervisor.client is not None or self.supervisor.comes_back:
            await self._sender.send(f"{self.name}: roots", tell_changed)

    @on_own_loop
    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        *,
        is_shown: bool = True,
    ) -> dict[str, Any]:
        """Send any request and return the `result` of its answer, unchecked and unconverted.

        The session adds to `_meta` what its protocol version requires. `tools/call` goes through consent as the user's
        own call. The parameters are objects that convert to JSON; the time-outs are those of `call_tool`. `is_shown`
        says whether it is shown while it waits.

        Raises:
            ArgumentsError: The parameters cannot be sent.
            DeniedError: Consent refused the call; nothing was sent.
            ProtocolError: The answer is a JSON-RPC error.
            SessionError: The session failed.
        """
        from mcp_types import Request as AnyRequest

        content = _params(method, params)
        if method == CALL and isinstance(name := content.get("name"), str):
            sent_arguments = content.get("arguments")
            arguments: dict[str, Any] = sent_arguments if isinstance(sent_arguments, dict) else {}
            call = await self.caller.authorize(Call(self, name, arguments, self.catalog.tools.get(name)))
            if isinstance(sent_arguments, dict):
                content = {**content, "arguments": dict(call.arguments)}
        request: Any = AnyRequest[Any, str](method=method, params=content)

        def send(client: Any) -> Any:
            return client.session.send_request(request, AnyResult)

        title = f"{self.name}: {method}"
        how = Sending(Limits(timeout, max_total_timeout), is_call=True, is_shown=is_shown)
        answer: dict[str, Any] = await self._sender.send(title, send, how)
        return answer

    @on_own_loop
    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification. There is no answer.

        Raises:
            ArgumentsError: The parameters cannot be sent.
            SessionError: The session failed.
        """
        from mcp_types import Notification

        notification: Any = Notification[Any, str](method=method, params=_params(method, params))
        await self._sender.send(f"{self.name}: {method}", lambda c: c.session.send_notification(notification))

    @on_own_loop
    async def ping(self, timeout: float | None = None) -> float:
        """Return the seconds until the server answers a `ping`, or since 2026-07-28, which has none, `server/discover`.

        An error answer counts too. The default deadline is `reconnection.ping`.

        Raises:
            RequestTimeoutError: The server did not answer in time.
            SessionError: The session has ended.
        """
        seconds = self._services.reconnection.ping if timeout is None else timeout

        async def send(client: Client) -> float:
            started = time.perf_counter()
            async with asyncio.timeout(seconds):
                await until_answered(client)
            return time.perf_counter() - started

        return await self._sender.send(f"{self.name}: ping", send, Sending(Limits(seconds), is_harmless=True))

    @on_own_loop
    async def set_log_level(self, level: str) -> bool:
        """Ask the server for log messages of this level and above, now and after each reconnect.

        Args:
            level: `"debug"`, `"info"`, `"notice"`, `"warning"`, `"error"`, `"critical"`, `"alert"` or `"emergency"`.

        Returns:
            Whether the server announces logging at all.

        Raises:
            ArgumentsError: There is no such level.
            SessionError: The server refused; the level stays as it was.
        """
        logs = await self._sender.send(f"{self.name}: logging/setLevel", partial(request_level, level=checked(level)))
        self.notices.logs.want(level)
        return logs

    # What the server offers

    @on_own_loop
    async def find_tool(self, name: str) -> Tool:
        """Return a tool's definition, from the cache if possible.

        Raises:
            UnknownToolError: The server has no such tool, even after its tools were listed again.
        """
        return await self.listings.tool(name)

    @on_own_loop
    async def find_prompt(self, name: str) -> Prompt:
        """Return a prompt's definition.

        Raises:
            UnknownPromptError: The server has no such prompt.
        """
        return await self.listings.prompt(name)

    @on_own_loop
    async def listing(self, kind: str, *, refresh: bool = False, timeout: float | None = None) -> tuple[Any, ...]:
        """Return all pages of `"tools"`, `"resources"`, `"templates"` or `"prompts"`; empty if the server has none.

        With `refresh` the server is asked even if it has not announced a change. `timeout` is in seconds, for all pages
        together; None waits without limit.

        Raises:
            RequestTimeoutError: The pages took longer.
            InvalidResponseError: The listing is too long, or breaks the protocol.
            SessionError: The session failed.
        """
        return await self.listings.get(kind, refresh=refresh, timeout=timeout)

    @on_own_loop
    async def lint(self) -> Findings:
        """Check the definitions of everything that the server offers; see `mcp_magic.lint`.

        Raises:
            SessionError: A listing could not be fetched.
        """
        from mcp_magic.lint import lint_offers

        offers = {kind: await self.listing(kind) for kind in KINDS}
        info = self.server_info
        texts = [*(getattr(info, name, None) for name in ("name", "title", "version")), self.instructions]
        return await lint_offers(self.name, offers, [("server", text) for text in texts if text], self.catalog.unread)

    def __repr__(self) -> str:
        return f"<Connection {self.name!r} {self.state}: {self.spec.transport} {self.spec.where}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return show_parts(self.info(), include, exclude)
