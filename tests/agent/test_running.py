"""Runs: the thread stays whole whatever happens, and the transcript tells it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from mcp.server.mcpserver import ElicitationResult, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError

import mcp_magic
from mcp_magic.agent.graph import build_graph, run_agent, turns_taken, unanswered
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.errors import ModelError
from tests.support.eliciting_server import Trip, where_to
from tests.support.telling import html

if TYPE_CHECKING:
    from types import FrameType

    from mcp_magic._host import Host
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.inflight import Report
    from tests.agent.conftest import Shop


class Screen:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.flushed: list[str] = []

    def changed(self, transcript: Transcript) -> None:
        self.shown.append(str(transcript))

    def flush(self, transcript: Transcript) -> None:
        self.flushed.append(str(transcript))


class Agent:
    """Runs requests in one thread."""

    def __init__(self, host: Host, turns: list[Any], **options: Any) -> None:
        self.host = host
        self.model = ScriptedModel(turns)
        self.saver = InMemorySaver()
        self.graph = build_graph(self.model, host, checkpointer=self.saver, **options)
        self.screen: Screen | None = Screen()
        self.over: list[AgentRun] = []

    async def run(self, request: str, thread: str = "t", **options: Any) -> AgentRun:
        told: Any = {"model": "scripted", "screen": self.screen, "over": self.over.append, **options}
        return await run_agent(self.graph, self.host, request, thread=thread, **told)

    async def messages(self, thread: str = "t") -> list[Any]:
        return list((await self.graph.aget_state({"configurable": {"thread_id": thread}})).values["messages"])


async def test_the_way_of_one_call_is_short(host: Host) -> None:
    agent = Agent(host, [[("shop:price", {"item": "apple"})], "It costs 1.5."] * 5)
    agent.screen = None
    for thread in ("first", "second"):
        await agent.run("What does an apple cost?", thread)
    package = str(Path(mcp_magic.__file__).parent)
    entered = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code.co_filename.startswith(package)

    taken = []
    for thread in ("third", "fourth", "fifth"):
        entered = 0
        sys.setprofile(count)
        try:
            await agent.run("What does an apple cost?", thread)
        finally:
            sys.setprofile(None)
        taken.append(entered)

    # 28 more when each node planned the call again; about 30 ask whether this is the session's loop; on a busy machine
    # timers add some
    assert min(taken) < 825


async def test_run_has_answer_messages_calls_and_usage(host: Host) -> None:
    usage: Any = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    agent = Agent(host, [[("shop:price", {"item": "apple"})], AIMessage("It costs **1.5**.", usage_metadata=usage)])

    run = await agent.run("What does an apple cost?")

    assert run.answer == "It costs **1.5**."
    assert [m.type for m in run.messages] == ["human", "ai", "tool", "ai"]
    [row] = run.calls.to_dict("records")
    assert (row["turn"], row["server"], row["tool"], row["arguments"]) == (1, "shop", "price", {"item": "apple"})
    assert row["approved by"] == "approval = 'auto'"
    assert run.usage["total_tokens"] == 30
    assert run.seconds > 0
    assert repr(run).startswith("<AgentRun t: 1 call, ")
    assert {"text/plain", "text/html"} <= set(run._repr_mimebundle_())
    assert "It costs" in run._repr_mimebundle_()["text/plain"]


async def test_text_is_told_as_it_comes(host: Host) -> None:
    agent = Agent(host, ["one two three four"])

    await agent.run("count")

    growing = [text for text in agent.screen.shown if "one" in text]
    assert "two" not in growing[0]
    assert "four" in growing[-1]
    assert len(growing) >= 4


async def test_a_thread_goes_on_and_a_run_has_only_its_own_messages(host: Host) -> None:
    agent = Agent(host, ["first", "second"])

    await agent.run("one")
    run = await agent.run("two")

    assert [m.text for m in run.messages] == ["two", "second"]
    assert [m.text for m in await agent.messages()] == ["one", "first", "two", "second"]
    assert [m.text for m in agent.model.seen[1].messages[1:]] == ["one", "first", "two"]


async def test_threads_know_nothing_of_each_other(host: Host) -> None:
    agent = Agent(host, ["first", "second"])

    await agent.run("one", "a")
    await agent.run("two", "b")

    assert [m.text for m in agent.model.seen[1].messages[1:]] == ["two"]


@pytest.mark.timed
async def test_interrupt_cancels_the_call_and_keeps_finished_work(host: Host, shop: Shop) -> None:
    calls = [("shop:price", {"item": "apple"}), ("shop:wait", {"name": "a"})]
    agent = Agent(host, [calls, "going on"])
    running = asyncio.ensure_future(agent.run("go"))
    await shop.started.wait()
    while not any("1.5" in text for text in agent.screen.shown):
        await asyncio.sleep(0.01)
    loop = asyncio.get_running_loop()
    started = loop.time()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert loop.time() - started < 0.5
    await asyncio.wait_for(shop.cancelled.wait(), 60)
    answers = [m for m in await agent.messages() if isinstance(m, ToolMessage)]
    assert [(m.status, m.text) for m in answers] == [
        ("success", "1.5"),
        ("error", "the user interrupted the run before this call had an answer"),
    ]
    assert "interrupted" in agent.screen.flushed[-1]

    run = await agent.run("go on")
    assert run.answer == "going on"
    assert unanswered(await agent.messages()) == []


async def test_interrupt_during_a_question_keeps_the_thread_usable(host: Host) -> None:
    asked = asyncio.Event()

    async def approver(request: Request) -> Decision:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    host.consent.policy, host.consent.approver = "ask", approver
    agent = Agent(host, [[("shop:buy", {"item": "pear"})], "going on"])
    running = asyncio.ensure_future(agent.run("go"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert unanswered(await agent.messages()) == []
    assert (await agent.run("and now?")).answer == "going on"


async def test_an_interrupt_while_the_model_thinks_keeps_the_request(host: Host) -> None:
    thinking = asyncio.Event()

    async def think(messages: list[Any]) -> str:
        thinking.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(host, [think, "going on"])
    running = asyncio.ensure_future(agent.run("go"))
    await thinking.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [m.text for m in await agent.messages()] == ["go"]
    assert (await agent.run("and now?")).answer == "going on"


async def test_stop_ends_the_model_turn_and_the_thread_goes_on(host: Host) -> None:
    titles: list[str] = []

    def stop(report: Report) -> None:
        titles.append(f"{report.title} [{report.button}]")
        report.cancel()

    async def think(messages: list[Any]) -> str:
        host.reports.reporter = stop
        await asyncio.Event().wait()
        return ""

    host.reports.reporter = lambda report: None
    agent = Agent(host, [[("shop:price", {"item": "pear"})], think, "going on"])
    run = await agent.run("go")

    assert titles == ["model thinking [Stop]"]
    assert (run.stopped, run.answer, len(run.calls)) == ("stopped", "", 1)
    assert "stopped by you; `--thread t` goes on from there" in str(run.transcript)
    assert [m.type for m in await agent.messages()] == ["human", "ai", "tool"]
    host.reports.reporter = None
    assert (await agent.run("go on")).answer == "going on"
    assert unanswered(await agent.messages()) == []


async def test_a_greeting_is_shown_once_a_thread(host: Host) -> None:
    agent = Agent(host, ["one", "two"])
    first = await agent.run("go", greeting="a demo answers")
    second = await agent.run("and?", greeting="a demo answers")
    assert "(a demo answers)" in str(first.transcript)
    assert "a demo answers" not in str(second.transcript)


async def test_calls_left_by_a_dead_kernel_are_answered_on_resume(host: Host) -> None:
    agent = Agent(host, ["ok"])
    left = AIMessage("", tool_calls=[{"name": "shop__price", "args": {"item": "pear"}, "id": "c1"}])
    await agent.graph.aupdate_state({"configurable": {"thread_id": "t"}}, {"messages": ["hi", left]}, as_node="think")

    await agent.run("go on")

    kinds = [(m.type, m.text) for m in agent.model.seen[0].messages[1:]]
    assert kinds[2] == ("tool", "the user interrupted the run before this call had an answer")
    assert kinds[3] == ("human", "go on")


async def test_model_failure_is_one_line_and_the_thread_goes_on(host: Host) -> None:
    class RateLimitError(Exception):
        status_code = 429

    agent = Agent(host, [RateLimitError("slow down, sk-abcdefghijklmnop"), "ok"])

    with pytest.raises(ModelError) as caught:
        await agent.run("go")
    assert str(caught.value) == (
        "scripted: the rate limit or the quota is used up; wait, or choose another model (HTTP 429): slow down, ***"
    )
    assert (await agent.run("again")).answer == "ok"


async def test_failed_run_is_kept_and_says_how_to_go_on(host: Host) -> None:
    agent = Agent(host, ["before", [("shop:buy", {"item": "pear"})], RuntimeError("overloaded"), "going on"])
    await agent.run("hi")
    agent.over.clear()

    with pytest.raises(ModelError) as caught:
        await agent.run("buy")
    assert str(caught.value) == "scripted: overloaded\n`--thread t` goes on from there"

    [made] = agent.over
    assert (made.stopped, made.answer, made.thread) == ("error", "", "t")
    assert [m.text for m in made.messages] == ["buy", "", "bought 1 pear"]
    assert made.calls["tool"].tolist() == ["buy"]
    assert made.seconds > 0
    assert "bought 1 pear" in str(made.transcript)
    assert "(error: scripted: overloaded)" in str(made.transcript)
    assert (await agent.run("go on")).answer == "going on"


async def test_an_error_that_is_raised_twice_says_once_how_to_go_on(host: Host) -> None:
    error, buy = ModelError("overloaded"), [("shop:buy", {"item": "pear"})]
    agent = Agent(host, [buy, error, buy, error])

    for thread in ("one", "my trip"):
        with pytest.raises(ModelError):
            await agent.run("buy", thread)

    assert str(error) == "overloaded\n`--thread 'my trip'` goes on from there"
    assert "(error: overloaded)" in str(agent.over[1].transcript)


async def test_run_that_fails_at_once_names_no_thread(host: Host) -> None:
    agent = Agent(host, [RuntimeError("overloaded")])

    with pytest.raises(ModelError) as caught:
        await agent.run("go")

    assert str(caught.value) == "scripted: overloaded"
    assert [m.text for m in agent.over[0].messages] == ["go"]


async def test_transcript_names_a_model_bug_without_its_message(host: Host) -> None:
    agent = Agent(host, [[("shop:buy", {"item": "pear"})], TypeError("sk-abcdefghijklmnop")])

    with pytest.raises(TypeError) as caught:
        await agent.run("buy")

    assert "(error: TypeError)" in str(agent.over[0].transcript)
    assert "sk-" not in str(agent.over[0].transcript)
    assert caught.value.__notes__[-1] == "`--thread t` goes on from there"


async def test_an_interrupted_run_is_a_run_with_what_was_said_and_done(host: Host) -> None:
    streaming = asyncio.Event()

    async def turn(messages: list[Any]) -> str:
        streaming.set()
        return "one " + "more " * 1000

    agent = Agent(host, [[("shop:buy", {"item": "pear"})], turn])
    agent.model.pause = 0.01
    running = asyncio.ensure_future(agent.run("buy"))
    await streaming.wait()
    while "more more" not in agent.screen.shown[-1]:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    [made] = agent.over
    assert made.stopped == "interrupted"
    assert repr(made).endswith("s, interrupted>")
    assert [m.text for m in made.messages] == ["buy", "", "bought 1 pear"]
    assert "more more" in agent.screen.flushed[-1]
    assert "■ interrupted" in agent.screen.flushed[-1]
    assert "(warning: interrupted; `--thread t` goes on from there)" in agent.screen.flushed[-1]
    assert agent.screen.flushed[-1] == str(made.transcript)


async def test_a_run_that_comes_to_its_end_is_told_once_as_over(host: Host) -> None:
    agent = Agent(host, ["done"])

    made = await agent.run("go")

    assert agent.over == [made]
    assert (made.stopped, made.answer) == ("", "done")


async def test_a_run_that_is_out_of_steps_says_so(host: Host) -> None:
    agent = Agent(host, [[("shop:price", {"item": "pear"})]], max_turns=1)

    run = await agent.run("go")

    assert run.stopped == "max_turns"
    assert "max_turns" in repr(run)
    assert str(run.transcript).count("Stopped after 1 turn") == 1


async def test_the_turns_that_are_counted_are_those_that_were_allowed(host: Host) -> None:
    agent = Agent(host, [[("shop:price", {"item": "pear"})]] * 3, max_turns=3)

    run = await agent.run("go")

    assert run.transcript.summary.startswith("3 turns · 2 calls ·")
    assert str(run.transcript).count("Stopped after 3 turns") == 1
    assert turns_taken(run.messages) == 3
    assert repr(run).startswith("<AgentRun t: 2 calls, ")


async def test_only_the_transcript_hides_secret_arguments_in_an_answer(host: Host) -> None:
    password = "hunter2 & <co>"  # as HTML and JSON write it, too

    bank = MCPServer("bank", log_level="ERROR")

    @bank.tool()
    def login(user: str, password: str) -> dict[str, str]:
        """Logs in."""
        return {"said": f"{user} came in with {password}", password: user}

    await host.connect(bank, name="bank")
    agent = Agent(host, [[("bank:login", {"user": "Ann", "password": password})], "ok"])
    run = await agent.run("log in")

    shown = str(run.transcript) + html(run.transcript)
    assert "hunter2" not in shown
    assert "Ann came in with ***" in shown
    assert password in agent.model.seen[1].messages[-1].text
    assert run.results[0] is not None
    assert run.results[0].data == {"said": f"Ann came in with {password}", password: "Ann"}


async def test_a_secret_that_is_a_common_word_hides_nothing_else(host: Host) -> None:
    bank = MCPServer("bank", log_level="ERROR")

    @bank.tool()
    def login(password: str, token: str) -> str:
        """Logs in."""
        return f"a {password} {token} b"

    await host.connect(bank, name="bank")
    run = await Agent(host, [[("bank:login", {"password": "a", "token": "none"})], "ok"]).run("log in")

    assert "a a none b" in str(run.transcript)


async def test_call_error_hides_secret_arguments(host: Host) -> None:
    bank = MCPServer("bank", log_level="ERROR")

    @bank.tool()
    def login(password: str) -> str:
        """Logs in."""
        raise ToolError(f"wrong password {password}")

    await host.connect(bank, name="bank")
    run = await Agent(host, [[("bank:login", {"password": "hunter2hunter2"})], "ok"]).run("log in")

    assert "wrong password ***" in str(run.transcript)
    assert "hunter2" not in str(run.transcript) + html(run.transcript) + run.calls["error"][0]


async def test_model_without_tool_support_says_so_and_answers(host: Host) -> None:
    agent = Agent(host, [])
    agent.model = FakeListChatModel(responses=["hello"])
    agent.graph = build_graph(agent.model, host, checkpointer=agent.saver)

    with pytest.raises(ModelError) as caught:
        await agent.run("hi")
    assert str(caught.value) == (
        "FakeListChatModel cannot be given tools (it has no bind_tools); choose a model that can, "
        "or `%mcp disconnect --all`: without tools it answers"
    )

    await host.disconnect("shop")
    assert (await agent.run("hi")).answer == "hello"


async def test_what_was_approved_for_a_run_holds_for_that_run_only(host: Host, shop: Shop) -> None:
    asked: list[str] = []

    async def approver(request: Request) -> Decision:
        asked.append(request.tool)
        return Decision.approve(always="run")

    host.consent.policy, host.consent.approver = "ask", approver
    buy = [("shop:buy", {"item": "pear"})]
    agent = Agent(host, [buy, buy, "ok", buy, "ok"])

    await agent.run("twice")
    assert asked == ["buy"]
    await agent.run("once more")
    assert asked == ["buy", "buy"]
    assert host.consent.rules == []


async def test_cancelling_one_question_ends_the_others_of_the_run(host: Host) -> None:
    ended: list[str] = []

    async def approver(request: Request) -> Decision:
        if request.arguments["item"] == "pear":
            raise asyncio.CancelledError  # as Interrupt does where it finds the loop busy
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.arguments["item"])
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    agent = Agent(host, [[("shop:buy", {"item": item}) for item in ("apple", "pear", "plum")], "ok"])
    with pytest.raises(NodeCancelledError):
        await agent.run("go")

    assert ended == ["apple", "plum"]


async def test_a_question_is_shown_after_the_call_that_it_is_about(host: Host) -> None:
    seen: list[str] = []

    async def approver(request: Request) -> Decision:
        seen.append(agent.screen.flushed[-1])
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    agent = Agent(host, ["hello", [("shop:buy", {"item": "pear"})], "ok"])
    await agent.run("hi")
    await agent.run("buy")

    assert "shop:buy" in seen[0]
    assert "pear" in seen[0]


async def test_progress_of_a_call_is_told(host: Host, shop: Shop) -> None:
    agent = Agent(host, [[("shop:wait", {"name": "a"})], "ok"])
    running = asyncio.ensure_future(agent.run("go"))
    await shop.started.wait()
    while not any("half" in text for text in agent.screen.shown):
        await asyncio.sleep(0.01)
    shop.go_on.set()

    assert (await running).answer == "ok"


@pytest.mark.parametrize("protocol", ["handshake", "2026-07-28"])
async def test_no_clock_of_a_call_runs_while_its_server_asks_you(
    host: Host, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips, usual, clocks = MCPServer("trips"), time.perf_counter, []

    @trips.tool()
    async def plan(trip: Annotated[ElicitationResult[Trip], Resolve(where_to)]) -> str:
        return trip.action

    async def elicitor(asked: Elicitation) -> Answer:
        while (clock := screen.transcript.calls[0].clock) is None:
            await asyncio.sleep(0)
        before = clock.seconds
        monkeypatch.setattr(time, "perf_counter", lambda: usual() + 60)
        clocks.append((clock.asks, clock.seconds - before))
        return Answer.accept({"city": "Oslo"})

    class Watching(Screen):
        transcript: Transcript

        def changed(self, transcript: Transcript) -> None:
            self.transcript = transcript

    host.elicitation.elicitor = elicitor
    await host.connect(trips, name="trips", protocol=protocol)
    agent = Agent(host, [[("trips:plan", {})], "done"])
    agent.screen = screen = Watching()
    run = await agent.run("plan a trip")

    assert clocks == [(True, 0.0)]
    assert [each.text for each in run.results] == ["accept"]
    assert run.calls["seconds"][0] < 30
