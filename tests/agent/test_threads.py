"""Threads: kept wherever they may be, listed, read, forked and deleted; a run goes on where they cannot be kept."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from mcp_magic.agent import threads
from mcp_magic.agent.graph import build_graph, unanswered
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import (
    default_file,
    delete_thread,
    fork_thread,
    list_threads,
    messages_of,
    open_threads,
    thread_names,
)
from mcp_magic.errors import ThreadError
from mcp_magic.langchain.content import result_of
from tests.support.agents import BUY
from tests.support.threads_in import SAID, kept, run

pytestmark = pytest.mark.usefixtures("nothing_left")
PRICES = [("shop:price", {"item": "apple"}), ("shop:price", {"item": "pear"})]
AGAIN = [("human", "and?"), ("ai", "again")]
FIRST = ["buy\n a   pear", "", "1.5", "2.0", "", "bought 1 pear", "first"]


@pytest.fixture(params=["file", "memory", "checkpointer"])
def where(request, tmp_path):
    """Each kind of place that needs no server."""
    return {"file": tmp_path / "threads.sqlite", "memory": ":memory:", "checkpointer": InMemorySaver()}[request.param]


@pytest.mark.lowest
async def test_a_thread_goes_on_with_its_messages(host, where):
    assert thread_names(where) == [] or where == ":memory:", "memory has seen those of other tests"
    await run(host, where, [BUY, "done"])
    second, problem = await run(host, where, ["again"], "and?")
    assert problem == ""
    assert [m.text for m in second.messages] == ["and?", "again"]
    assert await kept(where) == [*SAID, *AGAIN]
    async with open_threads(where) as opened:
        answer: Any = (await messages_of(opened, "t"))[2]
    assert answer.name == "shop__buy"
    assert (answer.artifact["server"], answer.artifact["arguments"]) == ("shop", {"item": "pear"})
    assert result_of(answer).text == "bought 1 pear"
    assert "t" in thread_names(where)
    assert thread_names("/nowhere/at/all.sqlite") == []
    if isinstance(where, InMemorySaver):
        assert len(list(where.list({"configurable": {"thread_id": "t"}}))) > 3, "your own keeps its history"


async def test_the_default_is_a_file_in_jupyters_data_directory(host, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    async with open_threads() as opened:
        assert opened.where == str(tmp_path / "mcp_magic" / "threads.sqlite") == str(default_file())
    assert default_file().is_file()


async def test_an_invalid_thread_store_is_refused(host):
    with pytest.raises(ThreadError) as caught:
        async with open_threads(42, fall_back=False):
            pass
    expected = "a file, :memory:, postgresql://..., or a LangGraph checkpointer is expected"
    assert str(caught.value) == f"threads cannot be kept in 42: {expected}"


async def test_a_checkpointer_that_fails_lets_the_run_go_on(host):
    saver = SqliteSaver(sqlite3.connect(":memory:"))  # the one that is not asynchronous
    made, problem = await run(host, saver, [BUY, "done"])
    saver.conn.close()
    assert made.answer == "done"
    assert problem.startswith("threads cannot be kept in SqliteSaver: The SqliteSaver does not support async methods.")
    assert await kept(":memory:") == SAID


async def test_a_thread_begun_in_memory_moves_to_the_file(host, tmp_path):
    file = tmp_path / "threads.sqlite"
    file.mkdir()
    await run(host, file, [BUY, "done"])
    file.rmdir()
    await run(host, file, ["again"], "and?")
    assert await kept(file) == [*SAID, *AGAIN]
    with pytest.raises(ThreadError):
        await kept(":memory:")


async def test_a_run_of_many_turns_leaves_little_in_memory(host):
    await run(host, ":memory:", [*[BUY] * 20, "done"])
    saver = threads.memory_threads()
    assert len(saver.storage["t"][""]) == 1
    assert len([blob for blob in saver.blobs if blob[2] == "messages"]) == 1
    assert len(saver.writes) <= 1


CALL = {"name": "shop__buy", "args": {"item": "pear"}, "id": "1", "type": "tool_call"}


@pytest.mark.parametrize(
    "said", [AIMessage("the end", id="a"), AIMessage("", id="a", tool_calls=[CALL])], ids=["answer", "call"]
)
async def test_the_last_writes_of_a_dead_kernel_stay(host, tmp_path, said):
    file = tmp_path / "threads.sqlite"
    async with open_threads(file) as opened:
        graph = build_graph(ScriptedModel([]), host, checkpointer=opened)
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        await graph.aupdate_state(place, {"messages": [HumanMessage("go")]}, as_node="__start__")
        state = await graph.aget_state(place)
        await opened.aput_writes(state.config, [("messages", [said])], state.tasks[0].id)  # and no checkpoint
    await run(host, file, ["going on"], "and?")
    messages = await kept(file)
    assert [kind for kind, _ in messages] == ["human", "ai", *["tool"] * len(said.tool_calls), "human", "ai"]
    assert messages[1] == ("ai", said.text)


# What is done with threads


@pytest.fixture
async def trip(host, where):
    """A place with a thread `trip`: two requests, five turns."""
    await run(host, where, [PRICES, BUY, "first"], "buy\n a   pear", thread="trip")
    await run(host, where, [BUY, "second"], "and another", thread="trip")
    return where


async def test_a_listing_has_last_requests_and_counts(host, trip):
    await run(host, trip, ["hello"], "x" * 300, thread="other")
    async with open_threads(trip, fall_back=False) as opened:
        other, summary = await list_threads(opened)
    assert (summary.thread, summary.requests, summary.turns, summary.last) == ("trip", 2, 5, "and another")
    assert (other.thread, other.requests, other.turns) == ("other", 1, 1)
    assert len(other.last) <= 80
    assert other.changed_at > summary.changed_at > "2020-01-01T"


async def test_without_threads_a_listing_is_empty(host, where):
    async with open_threads(where, fall_back=False) as opened:
        assert await list_threads(opened) == []
        with pytest.raises(ThreadError) as caught:
            await messages_of(opened, "trip")
    assert str(caught.value) == "no thread 'trip'. `%%mcp_agent` begins one."


async def test_a_fork_has_the_turns_up_to_one_and_goes_on_alone(host, trip):
    whole = await kept(trip, "trip")
    async with open_threads(trip, fall_back=False) as opened:
        originals = await messages_of(opened, "trip")
        for turn, length in ((1, 4), (2, 6), (3, 7), (None, len(whole))):
            assert await fork_thread(opened, "trip", turn, f"copy{turn}") == (turn or 5)
            copy = await messages_of(opened, f"copy{turn}")
            assert copy == originals[:length], "with names, artifacts and ids"
            assert [m.text for m in copy][:7] == FIRST[:length]
            assert unanswered(copy) == []
        assert copy[2].artifact["tool"] == "price"  # type: ignore[attr-defined]
    await run(host, trip, ["elsewhere"], "go on", thread="copy1")
    assert (await kept(trip, "copy1"))[-2:] == [("human", "go on"), ("ai", "elsewhere")]
    assert await kept(trip, "trip") == whole


async def test_a_wrong_thread_turn_or_name_is_told(host, trip):
    async with open_threads(trip, fall_back=False) as opened:
        for act in (messages_of, delete_thread):
            with pytest.raises(ThreadError) as caught:
                await act(opened, "trp")
            assert str(caught.value) == "no thread 'trp'. Did you mean 'trip'? There are: trip"
        for turn, words in ((0, "has no turn 0; it has the turns 1 to 5"), (6, "has no turn 6")):
            with pytest.raises(ThreadError, match=words):
                await fork_thread(opened, "trip", turn, "copy")
        with pytest.raises(ThreadError) as caught:
            await fork_thread(opened, "trip", 1, "trip")
        assert str(caught.value) == "there is a thread 'trip' already; `%mcp agent --delete trip` deletes it"
        assert [summary.thread for summary in await list_threads(opened)] == ["trip"]


async def test_the_closing_text_of_a_stopped_run_is_no_turn(host, where):
    await run(host, where, [BUY, BUY], "buy two", thread="trip", max_turns=2)
    async with open_threads(where, fall_back=False) as opened:
        [summary] = await list_threads(opened)
        assert summary.turns == 2
        assert await fork_thread(opened, "trip", 2, "copy") == 2
        assert [m.type for m in await messages_of(opened, "copy")] == ["human", "ai", "tool", "ai", "tool"]
        with pytest.raises(ThreadError, match="it has the turns 1 to 2"):
            await fork_thread(opened, "trip", 3, "other")


async def test_a_deleted_thread_is_gone_and_its_name_free(host, trip):
    await run(host, trip, ["hello"], "hi", thread="other")
    async with open_threads(trip, fall_back=False) as opened:
        await delete_thread(opened, "trip")
        assert [summary.thread for summary in await list_threads(opened)] == ["other"]
    await run(host, trip, ["anew"], "hi", thread="trip")
    assert await kept(trip, "trip") == [("human", "hi"), ("ai", "anew")]


async def test_threads_of_a_foreign_graph_are_listed_and_shown():
    saver = InMemorySaver()
    graph: Any = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {"messages": [AIMessage("hello")]})
    graph.add_edge(START, "say")
    compiled = graph.compile(checkpointer=saver)
    await compiled.ainvoke({"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": "theirs"}})
    async with open_threads(saver, fall_back=False) as opened:
        [summary] = await list_threads(opened)
        assert (summary.thread, summary.requests, summary.turns, summary.last) == ("theirs", 1, 1, "hi")
    assert await kept(saver, "theirs") == [("human", "hi"), ("ai", "hello")]
