"""The callback of one session for `sampling/createMessage`.

A session of the handshake era asks by a request of its own; one of 2026-07-28 answers the call with `input_required`.
Both end here: rules and the person decide, a model answers, and the person may look at the reply. A refusal is answered
with the protocol's error; nothing that fails here ends the session.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.answering import NotAskedError, Unanswered, answered, in_time
from mcp_magic.core.consent.consent import Consent, Decision, Request, record_of
from mcp_magic.core.pacing import Pace
from mcp_magic.core.sampling.reading import read_request, recorded, senseless, wire_result
from mcp_magic.core.sampling.sampling import Expected, Review, Sampled, expected_of
from mcp_magic.core.sampling.telling import Problem, failed, is_round, said, told, wire_error
from mcp_magic.errors import DeniedError, MCPMagicError, ModelError
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.answering import QuestionQueue
    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.core.sampling.sampling import Samplers, SamplingRequest
    from mcp_magic.core.underway import CallUnderWay

__all__ = ["SAMPLING", "SamplingQuestions"]

SAMPLING = "sampling"
"""What follows the server's name in rules and in the audit: `deny trips:sampling`."""

REJECTED, REJECTED_TEXT = -1, "User rejected sampling request"
"""The protocol's error for a refusal (specification, "Sampling", "Error Handling")."""

FAILED_TEXT = "Sampling failed: no model could answer"

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603

NOBODY = "nobody can be asked: host.sampling.reviewer is None"


class SamplingQuestions:
    """Answers what the server of one session asks models for.

    Args:
        server: The server's name.
        spec: Has the mode, and masks the server's secrets.
        samplers: Who answers.
        consent: Whose rules hold, and whose audit has the record.
        queue: The questions of the session's server.
        log: Told what was asked for and what came of it, never the texts.
    """

    def __init__(
        self,
        server: str,
        spec: Spec,
        samplers: Samplers,
        consent: Consent | None,
        queue: QuestionQueue,
        log: Callable[[str, str], None],
    ) -> None:
        self._server = server
        self._spec = spec
        self._samplers = samplers
        self._consent = consent or Consent()
        self._queue = queue
        self._log = log
        self._takes_tools = False
        self._pace = Pace()

    @property
    def options(self) -> dict[str, Any]:
        """What a client that is made now is given: nothing where the server must not ask."""
        if self._spec.sampling == "off" or self._samplers.sampler is None:
            return {}
        from mcp_types import SamplingCapability, SamplingToolsCapability

        self._takes_tools = self._samplers.takes_tools
        tools = SamplingToolsCapability() if self._takes_tools else None
        return {"sampling_callback": self, "sampling_capabilities": SamplingCapability(tools=tools)}

    async def __call__(self, context: Any, params: Any) -> Any:
        """Answer a request of the server (`CreateMessageRequestParams`), with a result or the protocol's error."""
        started = time.perf_counter()
        asked = read_request(self._server, params)
        asked = replace(asked, unasked=self._spec.sampling == "auto" and self._rule() is None)
        found = await self._found(asked)
        seconds = time.perf_counter() - started
        if isinstance(found, Problem):
            if found.is_logged:
                self._log("warning", f"{said(asked)}: {found.why} ({duration(seconds)})")
            return wire_error(found, local=is_round(context))
        self._log("info", f"{said(asked)}: {told(asked, found)} ({duration(seconds)})")
        return wire_result(asked, found)

    async def _found(self, asked: SamplingRequest) -> Sampled | Problem:
        nonsense = senseless(asked, takes_tools=self._takes_tools)
        if nonsense:
            return Problem(INVALID_PARAMS, nonsense, nonsense)
        with self._queue.asking() as call:
            found = await answered(call, self._sendable(asked, call))
        if isinstance(found, Sampled):
            return found
        if found.error is None:
            return Problem(REJECTED, REJECTED_TEXT, "the call has ended")
        if isinstance(found.error, NotAskedError):
            return Problem(REJECTED, str(found.error), str(found.error), is_logged=found.error.is_first)
        if isinstance(found.error, DeniedError):
            because = f": {found.error.reason}" if found.error.reason else ""
            return Problem(REJECTED, REJECTED_TEXT, f"{found.error}{because}")
        why = str(found.error) if isinstance(found.error, MCPMagicError) else failed(found.error)
        return Problem(INTERNAL_ERROR, FAILED_TEXT, self._spec.masked(why))

    async def _sendable(self, asked: SamplingRequest, call: CallUnderWay) -> Sampled:
        """Return an answer that can be sent.

        Raises:
            ArgumentsError: A text of it has a lone surrogate.
        """
        reply = await self._answer(asked, call)
        schema.check_text([block.model_dump() for block in reply.content], "the reply")
        return reply

    async def _answer(self, asked: SamplingRequest, call: CallUnderWay) -> Sampled:
        """Let the person and the model answer, or what was prepared.

        Raises:
            DeniedError: A rule or the person refuses.
            MCPMagicError: No model can answer, or the audit cannot be written.
        """
        review = await self._reviewed(asked, call)
        if not review.approved:
            raise DeniedError(f"denied by {review.by}", review.reason)
        if review.reply is not None:
            return review.reply
        asked = review.request or asked
        assert self._samplers.sampler is not None
        reply = await in_time(self._samplers.sampler(asked), self._samplers.timeout)
        if isinstance(reply, Unanswered):
            raise ModelError(f"the model did not answer within {self._samplers.timeout:g} s")
        if not isinstance(reply, Sampled):
            raise TypeError(f"it gave back {type(reply).__name__}, no Sampled")
        return await self._looked_at(asked, reply, call) if review.show_reply else reply

    async def _reviewed(self, asked: SamplingRequest, call: CallUnderWay) -> Review:
        """Decide about a request, and put the decision on record."""
        started = time.perf_counter()
        review, expected = self._forbidden(), Expected()
        if review is None and call.prepared is not None:
            review = await call.prepared(asked)
            expected = Expected(review.reply.model) if review is not None and review.reply is not None else expected
        if review is None:
            expected = expected_of(self._samplers.sampler, asked)
            review = await self._decided(asked, expected, call)
        before = recorded(asked, expected.model, self._spec.masked)
        after = recorded(review.request, expected.model, self._spec.masked) if review.request is not None else None
        request = Request(self._server, SAMPLING, before, asker=f"server {self._server}")
        decision = Decision(review.approved, after, review.reason, review.by)
        self._consent.audit.add(record_of(request, decision, time.perf_counter() - started))
        return review

    def _forbidden(self) -> Review | None:
        """Return what refuses whatever is asked for, or None."""
        rule = self._rule()
        if rule is not None:
            return Review.deny(rule.reason, by=f"rule `{rule}`") if rule.action == "deny" else None
        forbidden = self._consent.policy == "deny" and self._spec.sampling != "auto"
        return Review.deny(by="approval = 'deny'") if forbidden else None

    async def _decided(self, asked: SamplingRequest, expected: Expected, call: CallUnderWay) -> Review:
        """Let the person decide, where they want to be asked."""
        if asked.unasked:
            most = self._samplers.per_minute
            if self._pace.allows(most):
                return Review(True, by="sampling = 'auto'")
            return Review.deny(f"more than {most} requests within a minute", by="sampling = 'auto'")
        reviewer = self._samplers.reviewer
        if reviewer is None:
            return Review.deny(NOBODY, by="nobody")
        async with self._queue.turn(call):
            review = await in_time(reviewer.request(asked, expected), self._samplers.timeout)
        if isinstance(review, Unanswered):
            return Review.deny(f"nobody answered within {self._samplers.timeout:g} s", by="time-out")
        nonsense = senseless(review.request, takes_tools=self._takes_tools) if review.request is not None else ""
        return Review.deny(f"as it was changed: {nonsense}", by="check") if nonsense else review

    async def _looked_at(self, asked: SamplingRequest, reply: Sampled, call: CallUnderWay) -> Sampled:
        """Return a reply as the person lets it go.

        Raises:
            DeniedError: They do not.
        """
        assert self._samplers.reviewer is not None
        async with self._queue.turn(call, is_new=False):
            review = await in_time(self._samplers.reviewer.reply(asked, reply), self._samplers.timeout)
        if isinstance(review, Unanswered):
            raise DeniedError("the reply was not sent", f"nobody looked at it within {self._samplers.timeout:g} s")
        if not review.approved:
            raise DeniedError("the reply was not sent", review.reason)
        return review.reply or reply

    def _rule(self) -> Rule | None:
        """Return the first rule that asks about sampling or denies it; one that allows tools never allows this."""
        name = f"{self._server}:{SAMPLING}"
        rules = (rule for rule in self._consent.rules if rule.action != "allow" and rule.run is None)
        return next((rule for rule in rules if not rule.arguments and rule.matches(name, {})), None)
