"""Calls of tools over one session: the request, or the task that it becomes, and the check of the answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import duration
from mcp_magic.calls.call import progress_of, task_is_left, tell
from mcp_magic.calls.task import FINAL, LONGEST_SECONDS, MAX_QUESTIONS, TaskState
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    CallCancelledError,
    InvalidResponseError,
    ProtocolError,
    RequestTimeoutError,
    SessionError,
)
from mcp_magic.flight.client import AnyResult, call_tool
from mcp_magic.flight.progress import Reports
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.flight.retry import is_repeatable
from mcp_magic.protocol import INTERNAL_ERROR, METHOD_NOT_FOUND, OutputCheck, check_output
from mcp_magic.results.reasons import note_refusal
from mcp_magic.results.results import ToolResult
from mcp_magic.session.failures import clue, request_error
from mcp_magic.session.requests import RequestSender, Sending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp import Client
    from mcp_types import CallToolResult, Tool

    from mcp_magic.calls.call import Call, CallObserver
    from mcp_magic.flight.attempt import Attempt
    from mcp_magic.session.catalog import Catalog
    from mcp_magic.session.notifications import Notices
    from mcp_magic.session.supervisor import Supervisor
    from mcp_magic.session.wire import ErrorContext


# Tasks: calls that a server goes on with by itself, and is asked about until they end (extension of 2026-07-28).
#
# Specification: https://github.com/modelcontextprotocol/ext-tasks (SEP-2663). Each request of a session declares the
# extension, so a server may answer any `tools/call` with a task instead of a result.
#
# The SDK writes one set of capabilities into all requests of a session, and a server that runs a tool only as a task
# refuses a client that does not declare the extension. So any call may become a task, and `CallSender.send` waits
# for its end.

GET, UPDATE, CANCEL = "tasks/get", "tasks/update", "tasks/cancel"

FIRST_SECONDS = 0.05
"""Seconds before the first question after a task; each pause is twice as long, up to the server's interval. So a quick
task is noticed at once, although servers name intervals of seconds."""

REQUEST_SECONDS = 30.0  # seconds that the server has for one answer about a task

CANCEL_SECONDS = 0.3  # seconds that an interrupted cell waits for the answer to `tasks/cancel`

FAILURES = 3  # errors in a row after which the server is no longer asked

UNKNOWN = -32602  # JSON-RPC error code: the server has no such task (any more)

_LASTING = (UNKNOWN, METHOD_NOT_FOUND, -32021)  # codes of errors that another question would not end


class Tasks:
    """The tasks of one connection: follows each to its end."""

    def __init__(
        self,
        place: ErrorContext,
        supervisor: Supervisor,
        sender: RequestSender,
        reports: Reports,
        calls: list[InFlightRequest],
    ) -> None:
        self.place = place
        self._supervisor = supervisor
        self._sender = sender
        self._reports = reports
        self._calls = calls
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def comes_back(self) -> bool:
        """Whether the session is open or will be, so that it is worth to ask again after an error."""
        return self._supervisor.client is not None or self._supervisor.comes_back

    async def follow(self, call: Call, state: TaskState, observers: Sequence[CallObserver]) -> Mapping[str, Any]:
        """Wait for the end of the task that a call has become, also over reconnects; return its result as it came.

        Raises:
            CallCancelledError: The server, or the user, has cancelled it.
            ProtocolError: It failed, or the server no longer knows it.
            SessionError: The session has ended.
        """
        tool, title = call.tool, call.name

        def on_change(state: TaskState) -> None:
            for observer in observers:
                tell(observer.task_changed, call, state)

        task = _Following(self, tool, state, on_change)
        request = InFlightRequest(
            title,
            self.place.name,
            self._reports if call.is_shown else Reports(),
            limits=Limits(max_total=call.limits.max_total),
            answerers=call.answerers,
            look=Look(
                self.place.masked, detail=lambda: task.state.message or f"task {task.state.status.replace('_', ' ')}"
            ),
        )
        with request if call.is_shown and self._reports.reporter is not None else nullcontext():
            try:
                last = await request.wait(task.run(), self._calls)
            except (asyncio.CancelledError, RequestTimeoutError, InvalidResponseError, CallCancelledError) as error:
                is_left = task_is_left(observers)
                if not (is_left and isinstance(error, asyncio.CancelledError)):
                    await self._cancel(tool, state.id)
                raise
        if last.status == "completed":
            return last.result
        message = one_line(self.place.masked(last.message), 200)
        if last.status == "cancelled":
            raise CallCancelledError(f"{title}: the server has cancelled the task{message and f': {message}'}.")
        failure = request_error(_failure(last), self.place, title)
        note_refusal(failure)
        raise failure

    async def state(self, tool: str, task: str) -> TaskState:
        """Ask the server about a task, by its id."""
        try:
            state = await self.send(tool, task, GET, {})
        except ProtocolError as error:
            raise (unknown(f"{self.place.name}:{tool}", error) if error.code == UNKNOWN else error) from None
        assert state is not None
        return state

    async def send(self, tool: str, task: str, method: str, params: dict[str, Any]) -> TaskState | None:
        """Send a request about a task; return its state for `tasks/get`."""
        request = _request_type()(method=method, params={"taskId": task, **params})

        async def send(client: Client) -> TaskState | None:
            async with asyncio.timeout(REQUEST_SECONDS):
                raw: Any = await client.session.send_request(request, AnyResult)
            return TaskState.read(raw, task) if method == GET else None

        title = f"{self.place.name}:{tool}"
        how = Sending(Limits(REQUEST_SECONDS), is_harmless=True, is_counted=False, is_shown=False)
        return await self._sender.send(title, send, how)

    async def answer(self, tool: str, question: Any) -> dict[str, Any]:
        """Have a question of a task answered, as if the server had asked it during a call."""
        from mcp.client.session import ClientRequestContext
        from mcp_types import ErrorData, InputRequest
        from pydantic import TypeAdapter

        title = f"{self.place.name}:{tool}"
        adapter: Any = TypeAdapter(InputRequest)
        try:
            request = adapter.validate_python(question, by_name=False)
        except ValueError as error:
            failure: Exception = request_error(error, self.place, title)
        else:
            session = (await self._sender.open_client()).session
            context = ClientRequestContext(session=session, request_id="task")
            answer = await session.dispatch_input_request(context, request)
            if not isinstance(answer, ErrorData):
                content: dict[str, Any] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
                return content
            why = one_line(answer.message, 200)
            failure = CallCancelledError(f"{title}: cancelled: a question of the task has no answer: {why}")
        raise failure

    async def _cancel(self, tool: str, task: str) -> None:
        """Tell the server to cancel a task, and wait a moment for its answer."""

        async def tell() -> None:
            with suppress(Exception):  # the call has ended here, whatever the server answers
                await self.send(tool, task, CANCEL, {})

        telling = asyncio.create_task(tell(), name="mcp_magic tasks/cancel")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        await asyncio.wait({telling}, timeout=CANCEL_SECONDS)


class _Following:
    """A task that is asked about until it ends; what it wants to know is asked of the user meanwhile."""

    def __init__(self, tasks: Tasks, tool: str, state: TaskState, on_change: Callable[[TaskState], None]) -> None:
        self.state = state
        self._tasks = tasks
        self._tool = tool
        self._title = f"{tasks.place.name}:{tool}"
        self._changed = on_change
        self._asked: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._answered: set[str] = set()
        self._next = FIRST_SECONDS
        self._failures = 0
        self._unsent = False  # whether the server did not take the answers that are there
        self._began = asyncio.get_running_loop().time()

    async def run(self) -> TaskState:
        """Wait for the end of the task, and return its last state."""
        self._changed(self.state)
        try:
            while self.state.status not in FINAL:
                self._ask()
                await self._pause()
                await self._update()
                if await self._send(GET, {}):
                    self._changed(self.state)
        finally:
            for question in self._asked.values():
                question.cancel()
        return self.state

    def _ask(self) -> None:
        """Begin to ask what was not asked before; stop asking what the server no longer wants to know."""
        open_questions = self.state.questions if self.state.status == "input_required" else {}
        for key, question in open_questions.items():
            if key not in self._answered and key not in self._asked:
                self._asked[key] = asyncio.ensure_future(self._tasks.answer(self._tool, question))
        for key in [key for key in self._asked if key not in open_questions]:
            self._asked.pop(key).cancel()
            self._answered.add(key)

    async def _pause(self) -> None:
        seconds = min(self._next, self.state.pause)
        self._next = min(self._next * 2, LONGEST_SECONDS)
        if self._asked and not self._unsent and len(self._answered) <= MAX_QUESTIONS:
            await asyncio.wait(self._asked.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)

    async def _update(self) -> None:
        """Send the answers that are there."""
        answers = {key: question.result() for key, question in self._asked.items() if question.done()}
        self._unsent = bool(answers) and not await self._send(UPDATE, {"inputResponses": answers})
        if answers and not self._unsent:
            for key in answers:
                del self._asked[key]
            self._answered.update(answers)
            if len(self._answered) <= MAX_QUESTIONS:  # endless questions that need no user get pauses
                self._next = FIRST_SECONDS

    async def _send(self, method: str, params: dict[str, Any]) -> bool:
        """Send a request about the task; return whether it was answered. Raises if there is no hope."""
        try:
            state = await self._tasks.send(self._tool, self.state.id, method, params)
        except ProtocolError as error:
            if error.code == UNKNOWN:
                raise unknown(self._title, error, self._expiry()) from None
            self._failures += 1
            if error.code in _LASTING or self._failures >= FAILURES:
                raise
        except InvalidResponseError:
            raise
        except SessionError:
            if not self._tasks.comes_back:
                raise
        else:
            self._failures = 0
            self.state = state or self.state
            return True
        return False

    def _expiry(self) -> str:
        """Say for how long the server keeps tasks, if that time is over."""
        ttl = self.state.ttl
        over = ttl is not None and asyncio.get_running_loop().time() - self._began >= ttl
        return f": it keeps tasks for {duration(ttl)}, which are over" if ttl is not None and over else ""


def unknown(title: str, error: ProtocolError, why: str = "") -> ProtocolError:
    """Say that the server has no such task (any more)."""
    return ProtocolError(f"{title}: the server no longer knows the task{why}.", error.code, error.data)


def _failure(state: TaskState) -> Exception:
    """Return the JSON-RPC error of a failed task."""
    from mcp import MCPError

    code, text = state.error.get("code"), state.error.get("message") or state.message or "the task failed"
    return MCPError(code if isinstance(code, int) else INTERNAL_ERROR, str(text), state.error.get("data"))


@cache
def _request_type() -> Any:
    """Return the type of a request about a task, whose id is also in the HTTP header `Mcp-Name`."""
    from mcp_types import Request

    class TaskRequest(Request[Any, str]):
        name_param = "taskId"

    return TaskRequest


# Calls.

FILES_CHECK_SECONDS = 1.0  # least seconds between two checks of the files of a server's programs


class CallSender:
    """Sends the calls of one connection, which `Caller` has authorized.

    `outdated` returns which programs of the server have changed since it was started, or "".
    """

    def __init__(
        self,
        place: ErrorContext,
        sender: RequestSender,
        tasks: Tasks,
        catalog: Catalog,
        notices: Notices,
        outdated: Callable[[], str],
    ) -> None:
        self._place = place
        self._sender = sender
        self._tasks = tasks
        self._catalog = catalog
        self._notices = notices
        self._outdated = outdated
        self._changed_programs = ""
        self._look_at = 0.0
        self._unfit: set[str] = set()  # tools of which an answer did not fit

    async def send(self, call: Call, observers: Sequence[CallObserver] = ()) -> ToolResult:
        """Send a call and return its result."""
        definition, task, offset, output = call.definition, None, None, OutputCheck()

        def check(raw: CallToolResult, attempt: Attempt) -> None:
            nonlocal task, offset, output
            task, offset = attempt.task, attempt.stderr_offset
            if task is None:
                output = self._check_output(raw, definition or self._catalog.tools.get(call.tool))

        started, spec = time.perf_counter(), self._place.spec
        raw: CallToolResult = await self._sender.send(
            call.name,
            partial(call_tool, tool=call.tool, arguments={**call.arguments}),  # the caller may change its own meanwhile
            Sending(
                call.limits,
                call.answerers,
                progress_of(call, observers),
                is_call=True,
                is_harmless=call.limits.may_repeat and spec.trust and is_repeatable(spec, definition),
                is_shown=call.is_shown,
            ),
            check,
        )
        if task is not None:
            answer = await self._tasks.follow(call, task, observers)
            raw, output = self._read_task(call.tool, definition or self._catalog.tools.get(call.tool), answer)
        unchecked = schema.unchecked_arguments(call.arguments, definition.input_schema) if definition else ""
        why = clue(self._place, call.tool, offset) if raw.is_error else ""
        return self._result(
            call,
            definition,
            raw,
            OutputCheck(output.unfit, "; ".join(filter(None, (unchecked, output.unchecked)))),
            started,
            clue=why,
            refused=self._place.refusal("\n".join((*_texts(raw), why))) if raw.is_error else "",
            filled=dict(call.filled),
            outdated=self._recently_outdated(),
        )

    async def resume(self, call: Call, task: str, observers: Sequence[CallObserver]) -> ToolResult:
        """Wait for the task that an earlier call has become, and return its result."""
        started = time.perf_counter()
        await self._catalog.settle("tools")
        definition = self._catalog.tools.get(call.tool)
        answer = await self._tasks.follow(call, await self._tasks.state(call.tool, task), observers)
        return self._result(call, definition, *self._read_task(call.tool, definition, answer), started)

    def _result(
        self,
        call: Call,
        definition: Tool | None,
        raw: CallToolResult,
        output: OutputCheck,
        started: float,
        **details: Any,
    ) -> ToolResult:
        return ToolResult(
            raw,
            server=self._place.name,
            tool=call.tool,
            seconds=time.perf_counter() - started,
            output_schema=getattr(definition, "output_schema", None),
            unfit=output.unfit,
            unchecked=output.unchecked,
            **details,
        )

    def _read_task(
        self, tool: str, definition: Tool | None, answer: Mapping[str, Any]
    ) -> tuple[CallToolResult, OutputCheck]:
        """Read the result of a task. Raises InvalidResponseError if it is none."""
        try:
            result: CallToolResult = self._notices.reader.task_result(tool, answer)
        except ValueError as error:
            failure = request_error(error, self._place, f"{self._place.name}:{tool}")
        else:
            return result, self._check_output(result, definition)
        raise failure

    def _check_output(self, raw: CallToolResult, tool: Tool | None) -> OutputCheck:
        """Check a result by the tool's output schema; a tool whose answer does not fit is remarked once."""
        if tool is None or tool.output_schema is None:
            return OutputCheck()
        output = check_output(raw, tool)
        if output.unchecked:
            self._notices.logs.log("warning", one_line(f"{tool.name}: {output.unchecked}", 400), once=True)
        if output.unfit and tool.name not in self._unfit:
            self._unfit.add(tool.name)
            self._notices.remarks.add(f"the tool `{tool.name}`: {output.unfit}")
        return output

    def _recently_outdated(self) -> str:
        """Return which programs have changed, but look once a second at most: there may be thousands of calls."""
        now = time.monotonic()
        if now >= self._look_at:
            self._changed_programs = self._outdated()
            self._look_at = now + FILES_CHECK_SECONDS
        return self._changed_programs


def _texts(raw: CallToolResult) -> list[str]:
    """Return the texts of a result."""
    return [block.text for block in raw.content if block.type == "text"]
