"""Runs: the thread stays whole whatever happens, and the transcript tells it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from mcp.server.mcpserver import ElicitationResult, Resolve

from mcp_magic.agent.graph import unanswered
from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.errors import ModelError
from tests.support.agents import BUY, PRICE, THREAD, Agent, Screen, add_server, answers, interrupt
from tests.support.eliciting_server import Trip, where_to
from tests.support.telling import html
from tests.support.waiting import until
from tests.support.walks import walk

if TYPE_CHECKING:
    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.flight.progress import Report

GO_ON = "`--thread t` goes on from there"
UNANSWERED = "the user interrupted the run before this call had an answer"


async def test_one_agent_call_enters_few_functions(host):
    agent = Agent(host, *[[("shop:price", {"item": "apple"})], "It costs 1.5."] * 5)
    agent.screen = None
    for thread in ("first", "second"):
        await agent.run("What does an apple cost?", thread)
    lengths = []
    for thread in ("third", "fourth", "fifth"):
        with walk() as entries:
            await agent.run("What does an apple cost?", thread)
        # the trace settles what it has recorded from time to time, so that a busy machine sees it in each of these
        lengths.append(len([name for _, name in entries if ".settle" not in name]))
    # 28 more when each node planned the call again; about 30 ask whether this is the session's loop
    assert min(lengths) < 755


async def test_a_run_has_its_answer_messages_calls_and_usage(host):
    usage: Any = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    agent = Agent(host, PRICE, AIMessage("It costs **2**.", usage_metadata=usage))
    run = await agent.run("What does a pear cost?")
    assert run.answer == "It costs **2**."
    assert [m.type for m in run.messages] == ["human", "ai", "tool", "ai"]
    [row] = run.calls.to_dict("records")
    assert (row["turn"], row["server"], row["tool"], row["arguments"]) == (1, "shop", "price", {"item": "pear"})
    assert row["approved by"] == "approval = 'auto'"
    assert run.usage["total_tokens"] == 30
    assert run.seconds > 0
    assert repr(run).startswith("<AgentRun t: 1 call, ")
    assert {"text/plain", "text/html"} <= set(run._repr_mimebundle_())
    assert "It costs" in run._repr_mimebundle_()["text/plain"]
    assert (agent.over, run.stopped) == ([run], "")


async def test_a_thread_goes_on_and_others_know_nothing_of_it(host):
    agent = Agent(host, "first", "second", "third")
    first = await agent.run("one", greeting="a demo answers")
    run = await agent.run("two", greeting="a demo answers")
    await agent.run("three", "other")
    assert [m.text for m in run.messages] == ["two", "second"]
    assert [m.text for m in await agent.messages()] == ["one", "first", "two", "second"]
    told = [[m.text for m in seen.messages[1:]] for seen in agent.model.seen]
    assert told == [["one"], ["one", "first", "two"], ["three"]]
    assert "(a demo answers)" in str(first.transcript)
    assert "a demo answers" not in str(run.transcript), "once a thread"


async def test_progress_of_a_call_is_shown(host, shop):
    agent = Agent(host, [("shop:wait", {"name": "a"})], "ok")
    running = asyncio.ensure_future(agent.run())
    await until(lambda: any("half" in text for text in agent.screen.shown))
    shop.go_on.set()
    assert (await running).answer == "ok"


@pytest.mark.parametrize("protocol", ["handshake", "2026-07-28"])
async def test_no_clock_of_a_call_runs_while_its_server_asks(host, protocol, monkeypatch):
    usual, clocks = time.perf_counter, []

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

        def update(self, transcript: Transcript) -> None:
            self.transcript = transcript

    host.elicitation.elicitor = elicitor
    trips = await add_server(host, "trips", plan)
    await host.disconnect("trips")
    await host.connect(trips, name="trips", protocol=protocol)
    agent = Agent(host, [("trips:plan", {})], "done")
    agent.screen = screen = Watching()
    run = await agent.run("plan a trip")
    assert clocks == [(True, 0.0)]
    assert [result and result.text for result in run.results] == ["accept"]
    assert run.calls["seconds"][0] < 30


# Interrupts


async def test_an_interrupt_ends_the_call_and_keeps_the_work(host, shop):
    agent = Agent(host, [*PRICE, ("shop:wait", {"name": "a"})], "going on")
    running = asyncio.ensure_future(agent.run())
    await shop.started.wait()
    await until(lambda: any("2.0" in text for text in agent.screen.shown))
    await interrupt(running)  # the call would wait for ever
    await asyncio.wait_for(shop.cancelled.wait(), 60)
    assert answers(await agent.messages()) == [("success", "2.0"), ("error", UNANSWERED)]
    [made] = agent.over
    assert (made.stopped, repr(made)[-15:]) == ("interrupted", "s, interrupted>")
    assert f"(warning: interrupted; {GO_ON})" in agent.screen.flushed[-1]
    assert (await agent.run("go on")).answer == "going on"
    assert unanswered(await agent.messages()) == []


@pytest.mark.parametrize("during", ["a question", "a thought"])
async def test_an_interrupted_thread_stays_usable(host, during):
    begun = asyncio.Event()

    async def block(_: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    host.consent.policy, host.consent.approver = "ask", block
    agent = Agent(host, BUY if during == "a question" else block, "going on")
    running = asyncio.ensure_future(agent.run())
    await begun.wait()
    await interrupt(running)
    assert unanswered(await agent.messages()) == []
    assert [m.type for m in await agent.messages()] == ["human", "ai", "tool"][: 3 if during == "a question" else 1]
    assert (await agent.run("and now?")).answer == "going on"


async def test_stop_ends_a_thought_and_the_thread_goes_on(host):
    titles: list[str] = []

    def stop(report: Report) -> None:
        titles.append(f"{report.title} [{report.button}]")
        report.cancel()

    async def think(_: Any) -> Any:
        host.reports.reporter = stop
        await asyncio.Event().wait()

    host.reports.reporter = lambda _: None
    agent = Agent(host, PRICE, think, "going on")
    run = await agent.run()
    assert titles == ["model thinking [Stop]"]
    assert (run.stopped, run.answer, len(run.calls)) == ("stopped", "", 1)
    assert f"stopped by you; {GO_ON}" in str(run.transcript)
    assert [m.type for m in await agent.messages()] == ["human", "ai", "tool"]
    host.reports.reporter = None
    assert (await agent.run("go on")).answer == "going on"
    assert unanswered(await agent.messages()) == []


async def test_calls_left_by_a_dead_kernel_are_answered(host):
    agent = Agent(host, "ok")
    left = AIMessage("", tool_calls=[{"name": "shop__price", "args": {"item": "pear"}, "id": "c1"}])
    await agent.graph.aupdate_state(THREAD, {"messages": ["hi", left]}, as_node="think")
    await agent.run("go on")
    told = [(m.type, m.text) for m in agent.model.seen[0].messages[3:]]
    assert told == [("tool", UNANSWERED), ("human", "go on")]


# Failures


async def test_a_failed_model_is_one_line_and_the_thread_goes_on(host):
    class RateLimitError(Exception):
        status_code = 429

    agent = Agent(host, RateLimitError("slow down, sk-abcdefghijklmnop"), "ok")
    with pytest.raises(ModelError) as caught:
        await agent.run()
    used_up = (
        "scripted: the rate limit or the quota is used up; wait, or choose another model (HTTP 429): slow down, ***"
    )
    assert str(caught.value) == used_up, "and no thread: nothing was done in it"
    assert [m.text for m in agent.over[0].messages] == ["go"]
    assert (await agent.run("again")).answer == "ok"


async def test_an_error_raised_twice_says_once_how_to_go_on(host):
    error = ModelError("overloaded")
    agent = Agent(host, BUY, error, BUY, error)
    for thread in ("one", "my trip"):
        with pytest.raises(ModelError):
            await agent.run("buy", thread)
    assert str(error) == "overloaded\n`--thread 'my trip'` goes on from there"
    assert "(error: overloaded)" in str(agent.over[1].transcript)


async def test_a_bug_of_a_model_is_named_without_its_message(host):
    agent = Agent(host, BUY, TypeError("sk-abcdefghijklmnop"))
    with pytest.raises(TypeError) as caught:
        await agent.run("buy")
    [made] = agent.over
    assert (made.stopped, made.answer, made.thread) == ("error", "", "t")
    assert made.calls["tool"].tolist() == ["buy"]
    assert made.seconds > 0
    assert "(error: TypeError)" in str(made.transcript)
    assert "sk-" not in str(made.transcript)
    assert caught.value.__notes__[-1] == GO_ON


# Secrets


async def test_only_the_transcript_hides_secrets_of_an_answer(host):
    password = "hunter2 & <co>"  # as HTML and JSON write it, too

    def login(user: str, password: str) -> dict[str, str]:
        return {"said": f"{user} came in with {password}", password: user}

    await add_server(host, "bank", login)
    agent = Agent(host, [("bank:login", {"user": "Ann", "password": password})], "ok")
    run = await agent.run("log in")
    shown = str(run.transcript) + html(run.transcript)
    assert "hunter2" not in shown
    assert "Ann came in with ***" in shown
    assert password in agent.model.seen[1].messages[-1].text
    assert run.results[0] is not None
    assert run.results[0].data == {"said": f"Ann came in with {password}", password: "Ann"}


@pytest.mark.parametrize(
    ("password", "shown"),
    [
        pytest.param("a", "a b a none", id="a common word hides nothing"),
        pytest.param("hunter2hunter2", "a b *** none", id="in an error"),
    ],
)
async def test_secrets_in_text_and_errors_are_hidden(host, password, shown):
    def login(password: str, token: str) -> str:
        if len(password) > 5:
            raise ValueError(f"a b {password} {token}")
        return f"a b {password} {token}"

    await add_server(host, "bank", login)
    run = await Agent(host, [("bank:login", {"password": password, "token": "none"})], "ok").run("log in")
    assert shown in str(run.transcript)
    assert "hunter2" not in str(run.transcript) + html(run.transcript) + str(run.calls["error"][0])
