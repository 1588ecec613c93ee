"""The way of a call: its arguments are prepared, consent is asked, and it is sent.

Whoever calls a tool goes this way: a cell, a form, an agent, a program, a map, a view, a job, the doctor.

No path leads around consent: it is asked here only. The call says who makes it (`asker`). A decision is sealed to the
tool's definition, and the seal is checked when the call goes out. Consent writes its record into the audit before that.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from mcp_magic import schema
from mcp_magic.calls.call import tell
from mcp_magic.consent.consent import PERSON, Consent, Decision
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, InvalidResponseError, SessionClosedError
from mcp_magic.loops import run_on, together
from mcp_magic.trace.trace import asker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from mcp_magic.calls.call import Call, CallObserver
    from mcp_magic.consent.consent import Approver, Request
    from mcp_magic.results.results import ToolResult

_OUTDATED = Decision.deny("the tool, or its server, has changed since it was approved", by="check")
_DENIED_SINCE = Decision.deny("a rule denies it that came after the approval", by="check")
_UNASKED = Decision.deny("nobody was asked about it", by="check")


@dataclass
class Outputs:
    """How answers of tools are checked, and passed on.

    Attributes:
        strict: Whether an answer that does not fit its tool's output schema is an `InvalidResponseError`, whose
            `.result` has it; else it is kept, with a remark.
        spill: Tokens of an answer above which an outside agent gets its head and a handle; None: it gets all of it.
    """

    strict: bool = False
    spill: int | None = 4000


def no_observers(call: Call, others: Sequence[CallObserver]) -> Iterable[CallObserver]:
    """Return no observer of a call."""
    return ()


@dataclass(frozen=True)
class Caller:
    """Prepares, authorizes and sends the calls of tools.

    Attributes:
        consent: Decides whether a call may run; None where calls need no approval.
        outputs: How answers are checked.
        observers: Returns the observers of each call, given those that its sender has.
    """

    consent: Consent | None = None
    outputs: Outputs = field(default_factory=Outputs)
    observers: Callable[[Call, Sequence[CallObserver]], Iterable[CallObserver]] = no_observers

    async def call(self, call: Call, *observers: CallObserver, validate: bool = True) -> ToolResult:
        """Prepare, authorize and send a call. Raises what these raise."""

        async def work() -> ToolResult:
            prepared = await self._prepare(call, validate=validate)
            return await self._send(await self._authorize(prepared), *observers)

        return await run_on(call.connection.loop, work())

    async def prepare(self, call: Call, *, validate: bool = True) -> Call:
        """Return a call with its definition and its arguments as JSON.

        The arguments are checked by the tool's schema, and required ones that are left out are filled in; without
        `validate` they are only converted. Of a call that is decided about already nothing changes: if the tool has
        another schema since, the arguments are checked by it.

        Raises:
            ArgumentsError: The arguments cannot be sent.
            UnknownToolError: The server has no such tool.
            SessionError: The session failed. Nothing was sent.
        """
        return await run_on(call.connection.loop, self._prepare(call, validate=validate))

    async def _prepare(self, call: Call, *, validate: bool) -> Call:
        connection = call.connection
        tool, arguments = cast("tuple[Any, Any]", (call.tool, call.arguments))
        if not isinstance(arguments, Mapping) or not (validate or isinstance(tool, str)):
            problem = f"expected a tool's name and a dict of arguments, got {tool!r} and {arguments!r}"
            raise ArgumentsError(one_line(problem, 300))
        try:
            definition = await connection.define(call.tool, call.limits.timeout, must_be_there=validate)
        except SessionClosedError as error:
            error.sent = False  # only the list of tools was asked for
            raise
        if not validate:
            return replace(call, definition=definition, arguments=schema.json_arguments(call.arguments))
        assert definition is not None
        try:
            if call.decision is None:
                arguments, filled = schema.prepare_arguments(call.arguments, definition.input_schema)
                return replace(call, definition=definition, arguments=arguments, filled=filled)
            if call.decision.arguments is not None:
                schema.check_arguments(call.decision.arguments, definition.input_schema)
            elif call.definition is None or call.definition.input_schema != definition.input_schema:
                schema.check_arguments(call.arguments, definition.input_schema)
        except ArgumentsError as error:
            raise connection.explained(error) from None
        return replace(call, definition=definition)

    async def authorize(self, call: Call, *, policy: str | None = None, approver: Approver | None = None) -> Call:
        """Return a prepared call with the decision about it, and the arguments that it allows.

        Raises:
            DeniedError: It is denied; the message says by whom, why, and what would allow it.
        """
        return await run_on(call.connection.loop, self._authorize(call, policy=policy, approver=approver))

    async def _authorize(self, call: Call, *, policy: str | None = None, approver: Approver | None = None) -> Call:
        decision = call.decision
        if decision is None:
            if self.consent is None or (call.asker == PERSON and not self.consent.rules):
                return call
            call = replace(call, arguments=copy.deepcopy(call.arguments))  # what is approved stays as it was seen
            [decision] = await self.decide([call.request], policy=policy, approver=approver)
        return self._decided(replace(call, decision=decision))

    def _decided(self, call: Call) -> Call:
        """Return a call with the arguments that its decision allows. Raises DeniedError if that is a denial."""
        decision = call.decision
        assert decision is not None
        if not decision.approved:
            raise (self.consent or Consent()).refusal(call.request, decision)
        if decision.arguments is None:
            return call
        return replace(call, arguments=schema.json_arguments(decision.arguments), filled={})

    async def decide(
        self,
        requests: Sequence[Request],
        *,
        policy: str | None = None,
        approver: Approver | None = None,
        is_plan: bool = False,
    ) -> list[Decision]:
        """Decide about requests, each by itself; of a plan with one question about all that need an answer.

        It is for those who keep decisions: a graph, whose state has them, and views, which ask for more than calls.
        """
        consent = self.consent or Consent()
        if is_plan:
            return await consent.review_plan(requests, policy=policy)
        if len(requests) == 1:
            return [await consent.review(requests[0], policy=policy, approver=approver)]
        return await together(consent.review(request, policy=policy, approver=approver) for request in requests)

    async def approval(self, request: Request) -> Decision:
        """Decide about something that is no call of a session, and return the decision, which approves it.

        Raises:
            DeniedError: It is denied; the message says by whom, why, and what would allow it.
        """
        [decision] = await self.decide([request])
        if not decision.approved:
            raise (self.consent or Consent()).refusal(request, decision)
        return decision

    async def decide_set(self, requests: Sequence[Request], **how: Any) -> Decision:
        """Decide once about calls of one tool that are made together; `how` is as for `Consent.review_set`."""
        return await (self.consent or Consent()).review_set(requests, **how)

    async def send(self, call: Call, *observers: CallObserver) -> ToolResult:
        """Send an authorized call, wait for its end, also as a task of the server, and return its result.

        A tool that reports an error has a result, too. Interrupting the wait cancels the call, and the task unless an
        observer leaves it.

        Raises:
            CallCancelledError: The server has cancelled the task.
            DeniedError: Nobody has approved the call, or the tool or the rules have changed since; nothing was sent.
            InvalidResponseError: The answer does not fit the tool's output schema, and `outputs.strict` is set; its
                `.result` is the result.
            ProtocolError: The server refused the call.
            SessionError: The session failed.
        """
        return await run_on(call.connection.loop, self._send(call, *observers))

    async def _send(self, call: Call, *observers: CallObserver) -> ToolResult:
        consent, decision = self.consent, call.decision
        if decision is not None:
            if consent is not None and decision.definition not in ("", consent.definitions.seal(call.name)):
                raise consent.refusal(call.request, _OUTDATED)
            call = self._decided(call)
            if consent is not None and consent.rules and consent.denies(call.request):
                raise consent.refusal(call.request, _DENIED_SINCE)
        elif consent is not None and (call.asker != PERSON or consent.rules):
            raise consent.refusal(call.request, _UNASKED)
        observers = (*self.observers(call, observers), *observers)
        token = asker.set("" if call.asker == PERSON else call.asker)
        try:
            return self._checked(await _observed(call, observers, call.connection.send_call(call, observers)))
        finally:
            asker.reset(token)

    async def resume(self, call: Call, task: str, *observers: CallObserver) -> ToolResult:
        """Wait for the task that an earlier call of the tool has become, by the task's id; return its result.

        Raises:
            ProtocolError: The server does not know the task.
            SessionError: The session failed.
        """

        async def work() -> ToolResult:
            return await _observed(call, observers, call.connection.resume_call(call, task, observers))

        return self._checked(await run_on(call.connection.loop, work()))

    def _checked(self, result: ToolResult) -> ToolResult:
        if result.unfit and self.outputs.strict:
            text = f"{result.server}:{result.tool}: {result.unfit}\n  The tool has run: `error.result` has its answer"
            raise InvalidResponseError(text, result)
        return result


async def _observed(call: Call, observers: Sequence[CallObserver], work: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Await the result of a call, and tell its observers; what they do wrong is logged, and fails no call."""
    try:
        for observer in observers:
            tell(observer.sent, call)
        result = await work
    except BaseException as error:
        work.close()  # where an observer was interrupted it has not begun
        for observer in observers:
            tell(observer.ended, call, error)
        raise
    for observer in observers:
        tell(observer.ended, call, result)
    return result
