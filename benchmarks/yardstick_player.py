"""Plays the gold calls of a task with a scripted model, through the agent: `benchmarks.yardsticks` starts it.

As a program it reads a task as JSON from stdin, and writes what the model read as JSON to stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic import Decision, Host, ScriptedModel
from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.threads import messages_of, open_threads
from mcp_magic.agent.transcript import Transcript

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from mcp_magic import Request
    from mcp_magic.agent.threads import FallbackSaver

MAX_TURNS = 100

EVERYTHING = 10**8  # characters of a result: nothing is cut, so that it can be compared


@dataclass
class Task:
    """A task: requests of a user, each with its gold calls.

    Attributes:
        id: The name of its thread.
        servers: The URLs of the servers, by name.
        requests: The text of each request, and its calls: `server:tool` and arguments.
        threads: The file of the threads.
        disturb: The number of the call at which it is disturbed while the call waits for approval, or None.
        restarted: Whether the process was killed there before. It is interrupted there first, and then killed.
    """

    id: str
    servers: dict[str, str]
    requests: list[tuple[str, list[tuple[str, dict[str, Any]]]]]
    threads: str
    disturb: int | None = None
    restarted: bool = False


@dataclass
class Played:
    """What came of a task.

    Attributes:
        answers: What the model read of each call, and whether it was an error.
        cards: The number of cards in the transcript of the thread, of calls with and without an answer.
        approved: The number of approvals on record in this process.
    """

    answers: list[tuple[str, bool]]
    cards: int
    approved: int


def answered(messages: list[BaseMessage]) -> list[Any]:
    """Return the answers to calls that went out."""
    tools: list[Any] = [message for message in messages if message.type == "tool"]
    return [message for message in tools if not (message.artifact or {}).get("interrupted")]


class Player:
    """One process that plays a task, from where its thread stands."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._calls = [call for _, calls in task.requests for call in calls]
        self._last = 0  # the number of calls up to the end of the present request
        self._run: asyncio.Task[Any] | None = None
        self._interrupted = task.restarted
        self._out = 0

    async def play(self) -> Played:
        """Play what is left of the task."""
        async with Host() as host, open_threads(self._task.threads, fall_back=False) as saver:
            host.consent.policy, host.approver = "ask", self._approve
            for name, url in self._task.servers.items():
                await host.connect(url, name=name)
            model = ScriptedModel([self._turn] * (2 * len(self._calls) + 2 * len(self._task.requests) + 10))
            graph = build_graph(model, host, checkpointer=saver, max_turns=MAX_TURNS, result_limit=EVERYTHING)
            for number, (text, calls) in enumerate(self._task.requests):
                self._last, done = self._last + len(calls), f"Request {number} is done."
                request = text
                while not any(message.text == done for message in await self._messages(saver)):
                    self._said = done
                    self._run = asyncio.ensure_future(run_agent(graph, host, AgentRun(request, self._task.id)))
                    try:
                        await self._run
                    except asyncio.CancelledError:
                        request = "Go on."
            messages = await messages_of(saver, self._task.id)
            records = host.consent.audit.records
        html = Transcript.from_messages(messages)._repr_mimebundle_()["text/html"]
        return Played(
            [(message.text, message.status == "error") for message in answered(messages)],
            cards=len(re.findall(r'class="mcp-call mcp-call-', html)),
            approved=sum(record.decision == "approve" for record in records),
        )

    async def _messages(self, saver: FallbackSaver) -> list[BaseMessage]:
        held = await saver.aget_tuple({"configurable": {"thread_id": self._task.id}})
        return list(held.checkpoint["channel_values"].get("messages", [])) if held is not None else []

    def _turn(self, messages: list[BaseMessage]) -> Any:
        """Return the next gold call of the present request, or say that it is done."""
        self._out = len(answered(messages))
        return [self._calls[self._out]] if self._out < self._last else self._said

    async def _approve(self, request: Request) -> Decision:
        """Approve a call; at the call that is to be disturbed be interrupted, and then killed, while it waits."""
        if self._out == self._task.disturb and not self._task.restarted:
            if self._interrupted:
                os.kill(os.getpid(), signal.SIGKILL)
            self._interrupted = True
            assert self._run is not None
            self._run.cancel()  # as Interrupt does
            await asyncio.Event().wait()
        return Decision.approve()


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(Player(Task(**json.load(sys.stdin))).play()))))
