"""Conversations that are kept: listed, read, forked, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from mcp_magic.agent import threads
from mcp_magic.agent.graph import unanswered
from mcp_magic.agent.threads import delete_thread, fork_thread, list_threads, messages_of, open_threads
from mcp_magic.errors import ThreadError
from tests.support.threads_in import BUY, kept, run

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

PRICES = [("shop:price", {"item": "apple"}), ("shop:price", {"item": "pear"})]


@pytest.fixture(params=["file", "memory", "checkpointer"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each kind of place that needs no server."""
    threads.memory_threads.cache_clear()
    return {"file": tmp_path / "threads.sqlite", "memory": ":memory:", "checkpointer": InMemorySaver()}[request.param]


@pytest.fixture
async def trip(host: Host, where: Any) -> Any:
    """A place with a thread `trip`: two requests, five turns."""
    await run(host, where, [PRICES, BUY, "first"], "buy\n a   pear", thread="trip")
    await run(host, where, [BUY, "second"], "and another", thread="trip")
    return where


async def test_listing_shows_last_request_and_counts_latest_first(host: Host, trip: Any) -> None:
    await run(host, trip, ["hello"], "x" * 300, thread="other")
    async with open_threads(trip, fall_back=False) as opened:
        other, found = await list_threads(opened)
    assert (found.thread, found.requests, found.turns, found.last) == ("trip", 2, 5, "and another")
    assert (other.thread, other.requests, other.turns) == ("other", 1, 1)
    assert len(other.last) <= 80
    assert other.changed > found.changed > "2020-01-01T"


async def test_without_threads_a_listing_is_empty(host: Host, where: Any) -> None:
    async with open_threads(where, fall_back=False) as opened:
        assert await list_threads(opened) == []
        with pytest.raises(ThreadError) as caught:
            await messages_of(opened, "trip")
    assert str(caught.value) == "no thread 'trip'. `%%mcp_agent` begins one."


async def test_missing_thread_error_suggests_the_nearest_name(host: Host, trip: Any) -> None:
    async with open_threads(trip, fall_back=False) as opened:
        for act in (messages_of, delete_thread):
            with pytest.raises(ThreadError) as caught:
                await act(opened, "trp")
            assert str(caught.value) == "no thread 'trp'. Did you mean 'trip'? There are: trip"


@pytest.mark.parametrize(
    ("turn", "texts"),
    [
        (1, ["buy\n a   pear", "", "1.5", "2.0"]),
        (2, ["buy\n a   pear", "", "1.5", "2.0", "", "bought 1 pear"]),
        (3, ["buy\n a   pear", "", "1.5", "2.0", "", "bought 1 pear", "first"]),
        (None, None),
    ],
)
async def test_a_fork_has_the_steps_up_to_one_and_goes_on_alone(
    host: Host, trip: Any, turn: int | None, texts: list[str] | None
) -> None:
    whole = await kept(trip, "trip")
    async with open_threads(trip, fall_back=False) as opened:
        turns = await fork_thread(opened, "trip", turn, "copy")
        copy = await messages_of(opened, "copy")
    assert turns == (turn or 5)
    assert [m.text for m in copy] == (texts or [text for _, text in whole])
    assert unanswered(copy) == []
    await run(host, trip, ["elsewhere"], "go on", thread="copy")
    assert (await kept(trip, "copy"))[-2:] == [("human", "go on"), ("ai", "elsewhere")]
    assert await kept(trip, "trip") == whole


async def test_a_fork_keeps_names_artifacts_and_ids(host: Host, trip: Any) -> None:
    async with open_threads(trip, fall_back=False) as opened:
        await fork_thread(opened, "trip", 1, "copy")
        originals, copies = await messages_of(opened, "trip"), await messages_of(opened, "copy")
    assert copies == originals[:4]
    assert copies[2].artifact["tool"] == "price"


@pytest.mark.parametrize(("turn", "words"), [(0, "has no turn 0; it has the turns 1 to 5"), (6, "has no turn 6")])
async def test_a_turn_that_is_not_there_is_told(host: Host, trip: Any, turn: int, words: str) -> None:
    async with open_threads(trip, fall_back=False) as opened:
        with pytest.raises(ThreadError, match=words):
            await fork_thread(opened, "trip", turn, "copy")
        assert [summary.thread for summary in await list_threads(opened)] == ["trip"]


async def test_the_words_of_a_stopped_run_are_no_turn(host: Host, where: Any) -> None:
    await run(host, where, [BUY, BUY], "buy two", thread="trip", max_turns=2)
    async with open_threads(where, fall_back=False) as opened:
        [listed] = await list_threads(opened)
        assert listed.turns == 2
        assert await fork_thread(opened, "trip", 2, "copy") == 2
        assert [m.type for m in await messages_of(opened, "copy")] == ["human", "ai", "tool", "ai", "tool"]
        with pytest.raises(ThreadError, match="it has the turns 1 to 2"):
            await fork_thread(opened, "trip", 3, "other")


async def test_a_fork_takes_no_name_that_is_taken(host: Host, trip: Any) -> None:
    async with open_threads(trip, fall_back=False) as opened:
        with pytest.raises(ThreadError) as caught:
            await fork_thread(opened, "trip", 1, "trip")
    assert str(caught.value) == "there is a thread 'trip' already; `%mcp agent --delete trip` deletes it"


async def test_a_deleted_thread_is_gone_and_its_name_free(host: Host, trip: Any) -> None:
    await run(host, trip, ["hello"], "hi", thread="other")
    async with open_threads(trip, fall_back=False) as opened:
        await delete_thread(opened, "trip")
        assert [summary.thread for summary in await list_threads(opened)] == ["other"]
    await run(host, trip, ["anew"], "hi", thread="trip")
    assert await kept(trip, "trip") == [("human", "hi"), ("ai", "anew")]


async def test_a_deleted_thread_gives_its_space_back(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "threads.sqlite"
    calls = [[("shop:buy", {"item": "x" * 200_000})] for _ in range(8)]
    await run(host, file, [*calls, "done"], thread="long")
    before = file.stat().st_size
    async with open_threads(file, fall_back=False) as opened:
        await delete_thread(opened, "long")
    assert file.stat().st_size < 1_200_000 < 1_500_000 < before


async def test_threads_of_a_foreign_graph_are_listed_and_shown() -> None:
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
