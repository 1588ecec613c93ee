"""Runs the graph for one request, updates the transcript, and repairs the thread after any failure."""

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
"""Turns after which LangGraph's copies of the thread, one for each step, are dropped."""

UNASKED = ("rule ", "approval ", "default")
"""Prefixes of the `by` of decisions that show no question."""

INTERRUPTED = "the person interrupted the run before this call had an answer"


class Screen(Protocol):
    """A display for the growing transcript."""

    def changed(self, transcript: Transcript) -> None:
        """Show the changes soon."""

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
    """Run an agent on a request.

    Args:
        graph: The result of `build_graph`, with a checkpointer.
        host: The host whose tools the agent uses.
        request: The user's text.
        thread: The name of the thread; the agent knows its earlier messages.
        model: The model's name.
        asker: The name of the caller, as consent shows it.
        show: `"full"`, `"answer"` or `"none"`.
        screen: The display of the running transcript, or None.
        notes: Notes before the run begins, each with its level: `"info"` or `"warning"`.
        over: Called with the run when it ends; also with an interrupted or failed run, before the error is raised.

    Returns:
        The run. An interrupted or failed run raises instead; the thread keeps all that was done.

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
    """Run the graph to its end, and pass its events on."""
    modes: Any = ["custom", "messages"]
    steps = 0
    # "sync" stores each step before the next begins, because a kernel may end at any time.
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
    """The transcript of a running agent and the screen that shows it."""

    def __init__(self, transcript: Transcript, screen: Screen | None) -> None:
        self.transcript = transcript
        self._screen = screen
        self._announced: set[str] = set()
        self._told = asyncio.Event()

    def tell(self, event: dict[str, Any]) -> None:
        """Add an event to the transcript and show it."""
        self.transcript.on_event(event)
        if event["kind"] == "call":
            self._announced.add(event["id"])
            self._told.set()
        if self._screen is not None:
            self._screen.changed(self.transcript)
        if event["kind"] == "decided" and not event["by"].startswith(UNASKED):
            self.transcript.new_segment()  # the question was shown below, so the next entries belong below the question

    async def seen(self, calls: set[str]) -> None:
        """Wait until calls are displayed: a question about them belongs below them."""
        while not calls <= self._announced:
            self._told.clear()
            await self._told.wait()
        self.flush()

    def finish(self) -> None:
        """End the transcript and show it."""
        self.transcript.finish()
        self.flush()

    def interrupted(self) -> None:
        """Mark the transcript as interrupted and show it."""
        self.transcript.interrupted()
        self.flush()

    def flush(self) -> None:
        """Show the changes now."""
        if self._screen is not None:
            self._screen.flush(self.transcript)


def _text(event: Any) -> dict[str, Any] | None:
    """Convert LangGraph's event of a streamed token to ours; None for other messages."""
    chunk, metadata = event
    if metadata.get("langgraph_node") != "think" or not isinstance(chunk, AIMessage) or not chunk.text:
        return None
    if type(chunk).__name__ != "AIMessageChunk":  # a model that does not stream sends its whole turn
        return None
    return {"kind": "text", "id": chunk.id, "text": chunk.text}


def _explain(error: BaseException, made: AgentRun, live: _Live) -> None:
    """Note in the transcript why a run broke off, and how to go on with the thread if anything was done."""
    on = f"`--thread {shlex.quote(made.thread)}` goes on from there" if len(made.messages) > 1 else ""
    if made.stopped == "interrupted":
        live.tell({"kind": "note", "text": "; ".join(filter(None, ("interrupted", on))), "level": "warning"})
    else:
        live.tell({"kind": "note", "text": _said(error), "level": "error"})
        if on and "--thread" not in _said(error):
            _add_line(error, on)
    live.flush()


def _said(error: BaseException) -> str:
    """Return an error's own text, without the added line: a scripted model may raise the same object again."""
    if not isinstance(error, MCPMagicError):
        return type(error).__name__  # other errors may quote secrets
    return str(error).partition("\n`--thread ")[0]


def _add_line(error: BaseException, line: str) -> None:
    if isinstance(error, MCPMagicError):
        error.args = (f"{_said(error)}\n{line}",)
    else:
        error.add_note(line)


async def _keep(graph: CompiledStateGraph[Any, Any, Any, Any], config: Any, run: RunContext) -> list[Any]:
    """Repair the thread and return its messages; [] if it cannot be read."""
    with suppress(Exception):  # the cause may have damaged the file as well; the first error counts
        await _mend(graph, config, run.done)
        messages: list[Any] = (await graph.aget_state(config)).values.get("messages", [])
        return messages
    return []


async def _mend(graph: CompiledStateGraph[Any, Any, Any, Any], config: Any, done: dict[str, ToolMessage]) -> None:
    """Answer the calls that a run left open: no provider continues a thread with unanswered calls."""
    state = await graph.aget_state(config)
    said = state.values.get("messages", [])
    waiting = unanswered(said)
    if not waiting and not state.tasks:
        return
    # `aupdate_state` drops pending writes, such as those of the last step of a run that broke off, although
    # `aget_state` shows them. So all messages are written again.
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
    """Return the messages from a request on; [] if the request is not among them."""
    index = next((i for i, message in enumerate(messages) if message.id == request), len(messages))
    return messages[index:]
