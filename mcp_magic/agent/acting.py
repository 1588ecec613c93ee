"""The node that acts: the approved calls of a turn, at the same time. And the one that stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_stream_writer

from mcp_magic.agent.approving import decided_call
from mcp_magic.agent.exactness import sent
from mcp_magic.agent.state import AgentState, RunContext, calls_of, context
from mcp_magic.core.calltext import call_line
from mcp_magic.core.consent.consent import Decision
from mcp_magic.errors import CassetteError, DeniedError, MCPMagicError
from mcp_magic.langchain.calls import MCPToolException, call
from mcp_magic.results.safe import one_line
from mcp_magic.schema.merge import json_equal
from mcp_magic.wording import counted, sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.language_models import BaseChatModel

    from mcp_magic.agent.approving import Approving
    from mcp_magic.agent.registry import Offer, Registry

__all__ = ["Acting", "takes_images"]

OTHER_CALL = "not called: what was decided is about another tool or other arguments; call it again"

KNOWN_CHARACTERS = 500
"""Characters of each of the last results in the words with which a stopped run ends."""


def takes_images(model: Any) -> bool:
    """Whether a model says that a tool's answer may hold images."""
    profile = getattr(model, "profile", None) or {}
    return bool(profile.get("image_tool_message"))


class Acting:
    """Calls tools.

    Args:
        registry: The tools.
        approving: Decides about calls that did not come by the approve node, as nobody is asked about them.
        model: Who reads the results.
        limit: Characters of a result that it reads.
        timeout: Seconds that a call has, or None.
        max_steps: Turns of the model for one request.
    """

    def __init__(
        self,
        registry: Registry,
        approving: Approving,
        *,
        model: BaseChatModel,
        limit: int,
        timeout: float | None,
        max_steps: int,
    ) -> None:
        self._registry = registry
        self._approving = approving
        self._images = takes_images(model)
        self._limit = limit
        self._timeout = timeout
        self._max_steps = max_steps

    async def act(self, state: AgentState) -> dict[str, Any]:
        """Make the calls of the last turn, and return what they answer in the order of the turn."""
        if not self._registry.offers:
            await self._registry.refresh()
        run, write = context(), get_stream_writer()
        turn = state["messages"][-1]
        calls = calls_of(turn)
        approvals = state.get("approvals") or {}
        if any(not _is_of(approvals.get(call["id"]), turn) for call in calls):
            approvals = (await self._approving.approve(state))["approvals"]

        async def make(call: dict[str, Any]) -> ToolMessage:
            message = await self._answer(call, self._approval(turn, call, approvals), run, write)
            run.done[call["id"]] = message
            write({"kind": "result", "id": call["id"], "message": message})
            return message

        messages = await _together([make(call) for call in calls])
        return {"messages": messages, "approvals": {}}

    async def stop(self, state: AgentState) -> dict[str, Any]:
        """Answer the calls of a model that has had all its turns, and end with what is known."""
        turns = counted(self._max_steps, "turns")
        reason = f"not called: the run ends after {turns}"
        refused = [
            ToolMessage(reason, tool_call_id=wanted["id"], name=wanted["name"], status="error")
            for wanted in calls_of(state["messages"][-1])
        ]
        known = _what_is_known(state["messages"], turns, self._registry.person_name)
        message = AIMessage(known, response_metadata={"stopped": "max_steps"})
        write = get_stream_writer()
        write({"kind": "note", "text": f"stopped after {turns}", "level": "warning"})
        write({"kind": "said", "message": message})
        return {"messages": [*refused, message]}

    def _approval(
        self, turn: Any, wanted: dict[str, Any], approvals: dict[str, dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Return what was decided about a call; what was decided about another is a problem."""
        approval = approvals.get(wanted["id"])
        offer = self._registry.offers.get(wanted["name"] or "")
        if approval is None or offer is None or approval.get("problem"):
            return approval
        same = json_equal(approval.get("of"), decided_call(turn, wanted, offer))
        return approval if same else {"problem": OTHER_CALL}

    async def _answer(
        self, wanted: dict[str, Any], approval: dict[str, Any] | None, run: RunContext, write: Callable[[Any], None]
    ) -> ToolMessage:
        """Return the message that answers a call, whatever comes of it."""
        offer = self._registry.offers.get(wanted["name"] or "")
        problem = (approval or {}).get("problem", "")
        if problem or offer is None or approval is None:
            return _refused(wanted, problem or f"the tool {wanted['name']!r} is not there any more", None)
        arguments = sent(approval["arguments"], offer.tool.input_schema)
        definition = approval.get("definition", "")
        decision = Decision(
            approval["decision"] != "deny", arguments, approval["reason"], approval["by"], definition=definition
        )
        if not decision.approved:
            return _refused(wanted, _denied(offer, decision), _artifact(offer, approval))
        write({"kind": "started", "id": wanted["id"]})
        content, artifact, failed = await self._call(offer, wanted, decision, run, write)
        if approval["decision"] == "edit":
            content = _with_note(
                content, f"[the person changed the arguments to {call_line(approval['arguments'], offer.tool)}]"
            )
        told = {name: approval[name] for name in ("decision", "by", "reason")}
        return ToolMessage(
            content,
            tool_call_id=wanted["id"],
            name=wanted["name"],
            status="error" if failed else "success",
            artifact={**artifact, "approval": told},
        )

    async def _call(
        self, offer: Offer, wanted: dict[str, Any], decision: Decision, run: RunContext, write: Callable[[Any], None]
    ) -> tuple[Any, dict[str, Any], bool]:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            write({"kind": "progress", "id": wanted["id"], **told})

        try:
            content, artifact = await call(
                offer.connection,
                offer.tool.name,
                dict(decision.arguments or {}),
                asker=run.asker,
                run=run.run,
                decision=decision,
                on_progress=on_progress,
                images=self._images,
                limit=self._limit,
                timeout=self._timeout,
            )
        except MCPToolException as error:
            return error.content, error.artifact, True
        except CassetteError:  # nothing that a model could do about
            raise
        except (MCPMagicError, DeniedError) as error:
            return str(error), _artifact(offer, {"arguments": decision.arguments}), True
        return content, artifact, False


async def _together(work: list[Any]) -> list[Any]:
    """Run coroutines at the same time; if this is cancelled all of them have ended before it goes on."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _denied(offer: Offer, decision: Decision) -> str:
    denied = sentence(f"{offer.person_name} was not called; denied by {decision.by}", decision.reason)
    return f"{denied} Do not try the same again."


def _refused(wanted: dict[str, Any], text: str, artifact: dict[str, Any] | None) -> ToolMessage:
    return ToolMessage(
        text, tool_call_id=wanted["id"], name=wanted["name"] or "unknown", status="error", artifact=artifact
    )


def _artifact(offer: Offer, approval: dict[str, Any]) -> dict[str, Any]:
    """Return the artifact of a call that has no result."""
    told = {name: approval[name] for name in ("decision", "by", "reason") if name in approval}
    return {
        "server": offer.connection.name,
        "tool": offer.tool.name,
        "seconds": 0.0,
        "is_error": True,
        "content": [{"type": "text"}],
        "structured_content": None,
        "meta": None,
        "arguments": dict(approval.get("arguments") or {}),
        **({"approval": told} if told else {}),
    }


def _with_note(content: Any, note: str) -> Any:
    if isinstance(content, str):
        return f"{note}\n{content}"
    return [note, *content]


def _what_is_known(messages: list[Any], turns: str, person_name: Callable[[str], str]) -> str:
    """Say where a run was stopped, and what it had found out: the last results."""
    since = max((i for i, message in enumerate(messages) if message.type == "human"), default=0)
    results = [m for m in messages[since:] if m.type == "tool" and m.status == "success"]
    lines = [f"- {person_name(m.name or '')}: {one_line(m.text, KNOWN_CHARACTERS)}" for m in results[-5:]]
    known = "Known so far:\n\n" + "\n".join(lines) if lines else "Nothing is known yet."
    return f"Stopped after {turns}, before the work was done. {known}"


def _is_of(approval: dict[str, Any] | None, turn: Any) -> bool:
    """Whether something was decided in this turn, and not in one that came to no end."""
    return approval is not None and approval.get("of", {}).get("turn") == turn.id
