"""Drives the graph through one request, tells the transcript, and keeps the thread whole whatever happens."""

from __future__ import annotations

import asyncio
import shlex
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mcp_magic.agent.models import agent_span
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.state import RunContext, unanswered
from mcp_magic.agent.threads import prune
from mcp_magic.agent.transcript.entries import is_stop
from mcp_magic.agent.transcript.transcript import Transcript
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langgraph.graph.state import CompiledStateGraph

    from mcp_magic._host import Host

__all__ = ["Screen", "run_agent"]

PRUNE_STEPS = 20
"""Turns after which the copies of the thread that LangGraph keeps of each step are dropped."""

UNASKED = ("rule ", "approval ", "nobody")
"""How the names begin of what decides without showing a question."""

INTERRUPTED = "the person interrupted the run before this call had an answer"


class Screen(Protocol):
    """What the transcript is shown on while it grows."""

    def changed(self, transcript: Transcript) -> None:
        """Show what changed, soon."""

    def flush(self, transcript: Transcript) -> None:
        """Show it now."""


async def run_agent(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    host: Host,
    request: str,
    *,
    thread: str,
    model: str = "",
    asker: str = "agent",
    show: str = "full",
    screen: Screen | None = None,
    notes: Iterable[tuple[str, str]] = (),
    over: Callable[[AgentRun], None] = lambda _: None,
) -> AgentRun:
    """Let an agent work on a request.

    Args:
        graph: What `build_graph` returned, with a checkpointer.
        host: Whose tools it uses.
        request: What the person wrote.
        thread: The thread that it belongs to; what was said there before is known.
        model: The model's name.
        asker: Who calls, as consent shows it.
        show: `"full"`, `"answer"` or `"none"`.
        screen: What it is shown on while it goes on.
        notes: What is said before it begins, each with its level: `"info"` or `"warning"`.
        over: Is given the run when it has ended: one that was interrupted or failed, too, before that is raised.

    Returns:
        The run. One that is interrupted or fails raises, and the thread keeps what was done.

    Raises:
        ModelError: The provider refused or failed.
    """
    live = _Live(Transcript(show=show), screen)
    run = RunContext(run=uuid.uuid4().hex, asker=asker, before_asking=live.seen)
    config: Any = {"configurable": {"thread_id": thread}}
    started = time.perf_counter()
    await _mend(graph, config, {})
    asked = HumanMessage(request, id=uuid.uuid4().hex)
    live.tell({"kind": "asked", "text": request})
    for text, level in notes:
        live.tell({"kind": "note", "text": text, "level": level})
    made = AgentRun(request, thread, model, live.transcript)
    try:
        with agent_span(asker, model):
            await _follow(graph, asked, config, run, live)
        live.finish()
        made.messages = _since(asked.id, (await graph.aget_state(config)).values["messages"])
        made.stopped = "max_steps" if any(map(is_stop, made.messages[-1:])) else ""
        await prune(graph.checkpointer, thread)
    except BaseException as error:
        made.stopped = "error" if isinstance(error, Exception) else "interrupted"
        live.interrupted()
        made.messages = _since(asked.id, await asyncio.shield(_keep(graph, config, run)))
        _explain(error, made, live)
        raise
    finally:
        host.consent.forget_run(run.run or "")
        made.seconds = time.perf_counter() - started
        over(made)
    return made


async def _follow(
    graph: CompiledStateGraph[Any, Any, Any, Any], asked: HumanMessage, config: Any, run: RunContext, live: _Live
) -> None:
    """Run the graph to its end, and tell what happens."""
    modes: Any = ["custom", "messages"]
    steps = 0
    # Each step is kept before the next begins: a kernel may end at any time.
    told = graph.astream({"messages": [asked]}, config, context=run, stream_mode=modes, durability="sync")
    async for mode, event in told:
        known: Any = event if mode == "custom" else _text(event)
        if known is None:
            continue
        live.tell(known)
        steps += known["kind"] == "said"
        if known["kind"] == "said" and steps % PRUNE_STEPS == 0:
            await prune(graph.checkpointer, config["configurable"]["thread_id"])


class _Live:
    """The transcript of a run that goes on, and the screen that shows it."""

    def __init__(self, transcript: Transcript, screen: Screen | None) -> None:
        self.transcript = transcript
        self._screen = screen
        self._announced: set[str] = set()
        self._told = asyncio.Event()

    def tell(self, event: dict[str, Any]) -> None:
        """Take an event."""
        self.transcript.on_event(event)
        if event["kind"] == "call":
            self._announced.add(event["id"])
            self._told.set()
        if self._screen is not None:
            self._screen.changed(self.transcript)
        if event["kind"] == "decided" and not event["by"].startswith(UNASKED):
            self.transcript.new_segment()  # the question was shown below: what comes next belongs below that

    async def seen(self, calls: set[str]) -> None:
        """Wait until calls have been shown: a question about them belongs below them."""
        while not calls <= self._announced:
            self._told.clear()
            await self._told.wait()
        self.flush()

    def finish(self) -> None:
        """Say that the run is over."""
        self.transcript.finish()
        self.flush()

    def interrupted(self) -> None:
        """Say that what goes on will not come to an end."""
        self.transcript.interrupted()
        self.flush()

    def flush(self) -> None:
        """Show what changed now."""
        if self._screen is not None:
            self._screen.flush(self.transcript)


def _text(event: Any) -> dict[str, Any] | None:
    """Turn LangGraph's event of a streamed token into ours."""
    chunk, metadata = event
    if metadata.get("langgraph_node") != "think" or not isinstance(chunk, AIMessage) or not chunk.text:
        return None
    if type(chunk).__name__ != "AIMessageChunk":  # the whole turn again, of a model that did not stream
        return None
    return {"kind": "text", "id": chunk.id, "text": chunk.text}


def _explain(error: BaseException, made: AgentRun, live: _Live) -> None:
    """Say in the transcript why a run broke off, and how its thread is gone on with, if anything was done."""
    on = f"`--thread {shlex.quote(made.thread)}` goes on from there" if len(made.messages) > 1 else ""
    if made.stopped == "interrupted":
        live.tell({"kind": "note", "text": "; ".join(filter(None, ("interrupted", on))), "level": "warning"})
    else:
        live.tell({"kind": "note", "text": _said(error), "level": "error"})
        if on and "--thread" not in _said(error):
            _add_line(error, on)
    live.flush()


def _said(error: BaseException) -> str:
    """Return an error's own words: one that is raised again, by a scripted model, has a line of the last time."""
    if not isinstance(error, MCPMagicError):
        return type(error).__name__  # others may quote anything
    return str(error).partition("\n`--thread ")[0]


def _add_line(error: BaseException, line: str) -> None:
    if isinstance(error, MCPMagicError):
        error.args = (f"{_said(error)}\n{line}",)
    else:
        error.add_note(line)


async def _keep(graph: CompiledStateGraph[Any, Any, Any, Any], config: Any, run: RunContext) -> list[Any]:
    """Mend the thread and return its messages; none where it cannot be read."""
    with suppress(Exception):  # what broke the run may have broken the file as well; the first error counts
        await _mend(graph, config, run.done)
        messages: list[Any] = (await graph.aget_state(config)).values.get("messages", [])
        return messages
    return []


async def _mend(graph: CompiledStateGraph[Any, Any, Any, Any], config: Any, done: dict[str, ToolMessage]) -> None:
    """Answer the calls that a run left without an answer: no provider goes on with a thread that has any."""
    state = await graph.aget_state(config)
    said = state.values.get("messages", [])
    waiting = unanswered(said)
    if not waiting and not state.tasks:
        return
    # What the last step of a run that ended in the middle has written is shown, but `aupdate_state` drops it: so all
    # messages are written again.
    messages = [*said, *(done.get(call["id"]) or _not_answered(call) for call in waiting)]
    await graph.aupdate_state(config, {"messages": messages, "approvals": {}}, as_node="act")


def _not_answered(call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(
        INTERRUPTED,
        tool_call_id=call["id"],
        name=call["name"] or "unknown",
        status="error",
        artifact={"interrupted": True},
    )


def _since(request: str | None, messages: list[Any]) -> list[Any]:
    """Return the messages from a request on; none if it is not among them."""
    index = next((i for i, message in enumerate(messages) if message.id == request), len(messages))
    return messages[index:]
