"""Calls of tools over one session: the request, or the task that it becomes, and the check of the answer."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.calls.call import progress_of
from mcp_magic.display.text import one_line
from mcp_magic.flight.client import call_tool
from mcp_magic.flight.retry import is_repeatable
from mcp_magic.protocol import OutputCheck, check_output
from mcp_magic.results.results import ToolResult
from mcp_magic.session.failures import clue, request_error
from mcp_magic.session.requests import RequestSender, Sending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_types import CallToolResult, Tool

    from mcp_magic.calls.call import Call, CallObserver
    from mcp_magic.flight.attempt import Attempt
    from mcp_magic.session.catalog import Catalog
    from mcp_magic.session.notifications import Notices
    from mcp_magic.session.tasks import Tasks
    from mcp_magic.session.wire import ErrorContext

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
            task, offset = attempt.task, attempt.begun
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
        return self._result(
            call,
            definition,
            raw,
            OutputCheck(output.unfit, "; ".join(filter(None, (unchecked, output.unchecked)))),
            started,
            clue=clue(self._place, call.tool, offset) if raw.is_error else "",
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
