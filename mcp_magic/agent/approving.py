"""The node that approves: each call of a turn goes through consent before any goes out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from mcp_magic import schema
from mcp_magic.agent.exactness import kept, sent
from mcp_magic.agent.functions import own_arguments
from mcp_magic.agent.state import AgentState, RunContext, calls_of, context, steps_taken
from mcp_magic.core.consent.consent import Decision, Request
from mcp_magic.errors import ArgumentsError, did_you_mean, listed
from mcp_magic.results.diff import diff_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.agent.registry import Offer, Registry
    from mcp_magic.core.consent.consent import Approver
    from mcp_magic.core.definitions import Definitions

__all__ = ["Approving", "decided_call"]

SAME_ID = "another call of this turn has the same id, and what is decided about one could be taken for the other's"


@dataclass(frozen=True)
class Wanted:
    """A call that the model wants.

    Attributes:
        id: The tool call's.
        name: The tool's, as the model says it.
        arguments: What it gives.
        offer: The tool, or None if there is none of that name.
        problem: Why the call cannot go out, for the model, or "".
    """

    id: str
    name: str
    arguments: dict[str, Any]
    offer: Offer | None
    problem: str


class Approving:
    """Decides about the calls of a turn.

    Args:
        registry: The tools.
        policy: What decides where no rule matches; None: the host's policy.
        ask: `"host"`: the host's approver; `"interrupt"`: whoever resumes the graph.
    """

    def __init__(self, registry: Registry, *, policy: str | None, ask: str) -> None:
        self._registry = registry
        self._policy = policy
        self._ask = ask
        self._shown: dict[str, dict[str, tuple[str, str]]] = {}

    def asks(self, state: AgentState) -> bool:
        """Whether somebody is to be asked about a call of the last turn."""
        consent, offers, run = self._registry.host.consent, self._registry.offers, context()
        wanted = [self._wanted(call, offers) for call in calls_of(state["messages"][-1])]
        return any(consent.verdict(_request(one, run), self._policy) == "ask" for one in wanted if not one.problem)

    async def approve(self, state: AgentState) -> dict[str, Any]:
        """Return what was decided about each call of the last turn; all of them wait at the same time."""
        offers = self._registry.offers or await self._registry.refresh()
        turn = state["messages"][-1]
        wanted = self._all_wanted(calls_of(turn), offers)
        for connection in {one.offer.connection.name: one.offer.connection for one in wanted if one.offer}.values():
            await connection.catalog.settle("tools")  # what is approved is the tool as it is now
        run = context()
        approver = self._by_interrupt(wanted, run, turn) if self._ask == "interrupt" else None
        self._announce(wanted, steps_taken(state["messages"]))
        if run.before_asking is not None:
            await run.before_asking({one.id for one in wanted})
        decided = await asyncio.gather(*(self._decide(one, run, approver) for one in wanted))
        told = zip(wanted, calls_of(turn), decided, strict=True)
        return {"approvals": {one.id: {**d, "of": decided_call(turn, call, one.offer)} for one, call, d in told}}

    def _all_wanted(self, calls: list[dict[str, Any]], offers: Mapping[str, Offer]) -> list[Wanted]:
        """Return the calls of a turn. Those of a model have ids of their own; a state may be written from outside."""
        wanted = [self._wanted(call, offers) for call in calls]
        times = Counter(call.id for call in wanted)
        return [replace(call, problem=SAME_ID) if times[call.id] > 1 else call for call in wanted]

    def _wanted(self, call: Mapping[str, Any], offers: Mapping[str, Offer]) -> Wanted:
        name, given = str(call.get("name") or ""), call["args"]
        offer = offers.get(name)
        if not isinstance(given, dict):
            problem = f"the arguments are not a JSON object: {str(given)[:200]}"
            return Wanted(str(call["id"]), name, {}, offer, problem)
        if offer is None:
            names = list(offers)
            problem = f"there is no tool {name!r}.{did_you_mean(name, names)} There are: {listed(names)}"
            return Wanted(str(call["id"]), name, given, None, problem)
        given = sent(own_arguments(given, offer.renamed), offer.tool.input_schema)
        try:
            given, _ = schema.prepare_arguments(given, offer.tool.input_schema)
        except ArgumentsError as error:
            return Wanted(str(call["id"]), name, given, offer, str(error))
        return Wanted(str(call["id"]), name, given, offer, "")

    def _announce(self, wanted: list[Wanted], step: int) -> None:
        write = get_stream_writer()
        for planned in wanted:
            server, _, tool = self._registry.person_name(planned.name).rpartition(":")
            definition = planned.offer.tool if planned.offer else None
            if planned.offer:
                server, tool = planned.offer.connection.name, planned.offer.tool.name
            known = {
                "server": server,
                "tool": tool,
                "arguments": planned.arguments,
                "definition": definition,
                "trusted": planned.offer is not None and planned.offer.connection.spec.trust,
            }
            write({"kind": "call", "id": planned.id, "step": step, **known})

    async def _decide(self, one: Wanted, run: RunContext, approver: Approver | None) -> dict[str, Any]:
        if one.problem:
            return {"problem": one.problem}
        consent = self._registry.host.consent
        decision = await consent.review(_request(one, run), policy=self._policy, approver=approver)
        arguments = decision.arguments if decision.arguments is not None else one.arguments
        changed = dict(arguments) != one.arguments
        verdict = ("edit" if changed else "approve") if decision.approved else "deny"
        told = {"approved": decision.approved, "by": decision.by, "reason": decision.reason}
        get_stream_writer()(
            {"kind": "decided", "id": one.id, **told, "arguments": dict(arguments) if changed else None}
        )
        told = {"by": decision.by, "reason": decision.reason, "definition": decision.definition}
        return {"decision": verdict, "arguments": kept(arguments), **told}

    def _by_interrupt(self, wanted: list[Wanted], run: RunContext, turn: Any) -> Approver | None:
        """Interrupt the graph with the calls that somebody must decide about; return an approver that has the answers.

        Nothing may happen before it: the node runs again from its beginning when the graph is resumed. Which tools were
        asked about is noted, as one may be another by then; a kernel that has started anew does not know.
        """
        consent = self._registry.host.consent
        asked = [
            one for one in wanted if not one.problem and consent.verdict(_request(one, run), self._policy) == "ask"
        ]
        if not asked:
            return None
        known = consent.definitions
        now = {one.id: (name, known.digest(name)) for one in asked if one.offer and (name := one.offer.person_name)}
        try:
            answers = interrupt({"kind": "approval", "calls": [_described(one, known) for one in asked]})
        except GraphInterrupt:
            self._shown[turn.id] = now
            raise
        shown = self._shown.get(turn.id, now)
        ids = {id(one.arguments): one.id for one in asked}
        single = isinstance(answers, dict) and "decision" in answers and not answers.keys() & now.keys()

        async def approver(request: Request) -> Decision:
            call = ids[id(request.arguments)]
            if shown.get(call) != now[call]:
                return Decision.deny("the tool is not as it was when it was asked about", by="check")
            return _decision(answers if single else _answer_for(answers, call))

        return approver


def decided_call(turn: Any, call: Mapping[str, Any], offer: Offer | None) -> dict[str, Any]:
    """Return what a decision is about: the turn, the tool and the arguments as the model gives them."""
    return {"turn": turn.id, "tool": offer.person_name if offer else call["name"], "arguments": call["args"]}


def _request(one: Wanted, run: RunContext) -> Request:
    assert one.offer is not None
    connection, tool = one.offer.connection, one.offer.tool
    return Request(connection.name, tool.name, one.arguments, run.asker, tool, connection.spec.trust, run.run)


def _described(one: Wanted, definitions: Definitions) -> dict[str, Any]:
    """Return what whoever resumes the graph needs to know about a call; JSON can hold it."""
    assert one.offer is not None
    tool = definitions.latest(one.offer.person_name) or one.offer.tool
    change = definitions.change(one.offer.person_name)
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return {
        "id": one.id,
        "server": one.offer.connection.name,
        "tool": tool.name,
        "arguments": one.arguments,
        "description": tool.description or "",
        "annotations": hints,
        "schema": tool.input_schema,
        **({"changed": diff_text(change.lines)} if change else {}),
    }


def _answer_for(answers: Any, call: str) -> Any:
    if isinstance(answers, dict):
        return answers.get(call, {"decision": "deny", "reason": f"no decision was given for {call}"})
    return answers


def _decision(answer: Any) -> Decision:
    """Turn what the graph was resumed with into a decision.

    >>> _decision("approve").approved, _decision({"decision": "deny", "reason": "no"}).reason
    (True, 'no')
    >>> _decision({"decision": "edit", "arguments": {"a": 1}}).arguments
    {'a': 1}
    """
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        answer = "approve" if answer else "deny"
    if isinstance(answer, str):
        answer = {"decision": answer}
    verdict = answer.get("decision") if isinstance(answer, dict) else None
    if verdict == "approve":
        return Decision.approve(always=str(answer.get("always", "")))
    if verdict == "edit" and isinstance(answer.get("arguments"), dict):
        return Decision.approve(answer["arguments"], always=str(answer.get("always", "")))
    if verdict == "deny":
        return Decision.deny(str(answer.get("reason", "")))
    shown = json.dumps(answer, default=str)[:100]
    return Decision.deny(f"resumed with {shown}; valid are approve, edit (with arguments) and deny", by="check")
