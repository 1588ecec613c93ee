"""Where threads are kept, and what happens where they cannot be: the run goes on, and says why."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
import stat
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from mcp_magic.agent import threads
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import default_file, list_threads, messages_of, open_threads, thread_names
from mcp_magic.errors import MissingDependencyError, ThreadError
from mcp_magic.langchain.content import result_of
from tests.support.postgres import PASSWORD, cluster
from tests.support.threads_in import BUY, kept, locked, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_magic._host import Host

CALL = {"name": "shop__buy", "args": {"item": "pear"}, "id": "1", "type": "tool_call"}
SAID = [("human", "go"), ("ai", ""), ("tool", "bought 1 pear"), ("ai", "done")]


@pytest.fixture(autouse=True)
def nothing_in_memory() -> Iterator[None]:
    """Each test starts with an empty memory, and leaves no connection and no thread of one behind."""
    threads.memory_threads.cache_clear()
    before = threading.active_count()
    yield
    gc.collect()  # an unclosed connection warns, and warnings are errors
    until = time.monotonic() + 30  # the thread of a closed connection is about to end
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "threads.sqlite"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    pytest.importorskip("psycopg")
    with cluster() as port:
        yield port


@pytest.fixture
def url(port: int) -> str:
    return f"postgresql://tester:{PASSWORD.replace('/', '%2F').replace('@', '%40')}@127.0.0.1:{port}/postgres"


@pytest.mark.lowest
async def test_thread_in_a_file_resumes_with_its_tool_messages(host: Host, file: Path) -> None:
    await run(host, file, [BUY, "done"])
    second, problem = await run(host, str(file), ["again"], "and?")
    assert problem == ""
    assert [m.text for m in second.messages] == ["and?", "again"]
    assert await kept(file) == [*SAID, ("human", "and?"), ("ai", "again")]
    async with open_threads(file) as opened:
        answer = (await messages_of(opened, "t"))[2]
    assert answer.name == "shop__buy"
    assert (answer.artifact["server"], answer.artifact["arguments"]) == ("shop", {"item": "pear"})
    assert result_of(answer).text == "bought 1 pear"


async def test_only_its_owner_may_read_the_file(host: Host, file: Path) -> None:
    async with open_threads(file):
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in file.parent.iterdir()}
    assert modes["threads.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_the_default_is_a_file_in_jupyters_data_directory(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    async with open_threads() as opened:
        assert opened.where == str(tmp_path / "mcp_magic" / "threads.sqlite") == str(default_file())
    assert default_file().is_file()


async def test_threads_in_memory_are_there_for_the_next_run(host: Host) -> None:
    await run(host, ":memory:", [BUY, "done"])
    await run(host, ":memory:", ["again"], "and?")
    assert await kept(":memory:") == [*SAID, ("human", "and?"), ("ai", "again")]


async def test_any_checkpointer_keeps_threads_and_their_history(host: Host) -> None:
    saver = InMemorySaver()
    await run(host, saver, [BUY, "done"])
    assert await kept(saver) == SAID
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) > 3


async def test_what_is_no_place_is_refused(host: Host) -> None:
    with pytest.raises(ThreadError) as caught:
        async with open_threads(42, fall_back=False):
            pass
    expected = "a file, :memory:, postgresql://..., or a LangGraph checkpointer is expected"
    assert str(caught.value) == f"threads cannot be kept in 42: {expected}"


async def test_a_checkpointer_that_fails_lets_the_run_go_on_in_memory(host: Host) -> None:
    saver = SqliteSaver(sqlite3.connect(":memory:"))  # the one that is not asynchronous
    made, problem = await run(host, saver, [BUY, "done"])
    saver.conn.close()
    assert made.answer == "done"
    assert problem.startswith("threads cannot be kept in SqliteSaver: The SqliteSaver does not support async methods.")
    assert await kept(":memory:") == SAID


# Files that cannot be used


def _text(file: Path) -> str:
    file.write_bytes(os.urandom(20_000))
    return "it is damaged, or no SQLite file; move it away, and a new one is made"


def _truncated(file: Path) -> str:
    _database(file)
    file.write_bytes(file.read_bytes()[:6000])
    return "it is damaged"


def _overwritten(file: Path) -> str:
    _database(file)
    whole = bytearray(file.read_bytes())
    whole[4096:12288] = os.urandom(8192)
    file.write_bytes(whole)
    return "it is damaged"


def _folder(file: Path) -> str:
    file.mkdir()
    return "Is a directory; `%config MCPMagics.threads` names another file"


def _below_a_file(file: Path) -> str:
    file.parent.rmdir()
    file.parent.write_text("a file")
    return "; `%config MCPMagics.threads` names another file"


def _read_only(file: Path) -> str:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file.parent.chmod(0o500)
    return "Permission denied; `%config MCPMagics.threads` names another file"


def _other_tables(file: Path) -> str:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE checkpoints (name TEXT)")
    connection.close()
    return "; `%config MCPMagics.threads` names another file"


def _database(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE checkpoints (name TEXT PRIMARY KEY, more BLOB)")
    connection.executemany("INSERT INTO checkpoints VALUES (?, ?)", [(str(n), b"x" * 999) for n in range(50)])
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "spoil",
    [_text, _truncated, _overwritten, _folder, _below_a_file, _read_only, _other_tables],
    ids=lambda f: f.__name__,
)
async def test_unusable_file_is_one_line_and_the_run_uses_memory(
    host: Host, file: Path, spoil: Callable[[Path], str]
) -> None:
    file.parent.mkdir()
    expected = spoil(file)
    made, problem = await run(host, file, [BUY, "done"])
    assert made.answer == "done"
    assert problem.startswith(f"threads cannot be kept in {file}: ")
    assert expected in problem
    assert "\n" not in problem
    with pytest.raises(ThreadError) as caught:
        await kept(file)
    assert str(caught.value) == problem
    assert await kept(":memory:") == SAID


@pytest.mark.timed
async def test_a_file_that_another_process_locks_costs_two_seconds(host: Host, file: Path) -> None:
    await run(host, file, [BUY, "done"])
    with locked(file):
        started = time.monotonic()
        made, problem = await run(host, file, ["alone"], "and?")
        seconds = time.monotonic() - started
        with pytest.raises(ThreadError, match="another process has locked it"):
            await kept(file)
    assert made.answer == "alone"
    assert problem == (
        f"threads cannot be kept in {file}: another process has locked it; "
        "`%config MCPMagics.threads` names another file"
    )
    assert 1.5 < seconds < 3.5
    assert await kept(file) == SAID


async def test_file_locked_during_a_run_does_not_stop_it(host: Host, file: Path) -> None:
    with ExitStack() as stack:

        async def lock(messages: list[Any]) -> str:
            await asyncio.to_thread(stack.enter_context, locked(file))
            return "done"

        made, problem = await run(host, file, [BUY, lock])
    assert made.answer == "done"
    assert [m.text for m in made.messages] == [text for _, text in SAID]
    assert "another process has locked it" in problem
    second, problem = await run(host, file, ["again"], "and?")
    assert problem == ""
    assert await kept(file) == [*SAID, ("human", "and?"), ("ai", "again")], "what was in memory has moved into the file"
    assert second.answer == "again"


async def test_thread_begun_in_memory_moves_to_the_file(host: Host, file: Path) -> None:
    file.parent.mkdir()
    file.mkdir()
    await run(host, file, [BUY, "done"])
    file.rmdir()
    await run(host, file, ["again"], "and?")
    assert await kept(file) == [*SAID, ("human", "and?"), ("ai", "again")]
    with pytest.raises(ThreadError):
        await kept(":memory:")


async def test_memory_thread_does_not_replace_a_file_thread(host: Host, file: Path) -> None:
    await run(host, file, [BUY, "done"])
    with locked(file):
        await run(host, file, ["elsewhere"], "begin")
    await run(host, file, ["again"], "and?")
    assert await kept(file) == [*SAID, ("human", "and?"), ("ai", "again")]


async def test_damaged_thread_does_not_affect_others(host: Host, file: Path) -> None:
    await run(host, file, [BUY, "done"], thread="good")
    await run(host, file, [BUY, "done"], thread="bad")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE checkpoints SET checkpoint = ? WHERE thread_id = 'bad'", (os.urandom(500),))
    connection.close()
    with pytest.raises(ThreadError) as caught:
        await kept(file, "bad")
    assert str(caught.value) == ("the thread 'bad' cannot be read: it is damaged; `%mcp agent --delete bad` deletes it")
    made, problem = await run(host, file, ["fresh"], "hi", thread="bad")
    assert (made.answer, problem) == ("fresh", str(caught.value))
    assert await kept(file, "good") == SAID
    async with open_threads(file) as opened:
        assert [summary.thread for summary in await list_threads(opened)] == ["bad", "good"]


async def test_a_file_from_somebody_else_runs_no_code(host: Host, file: Path, tmp_path: Path) -> None:
    await run(host, file, ["done"])
    witness = tmp_path / "witness"
    async with open_threads(file) as opened:
        saver: Any = opened
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        found = await saver.aget_tuple(config)
        found.checkpoint["channel_values"]["messages"] = [_Touch(witness)]
        type_, blob = saver.serde.dumps_typed(found.checkpoint)
    witness.unlink(missing_ok=True)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (type_, blob))
    connection.close()
    with pytest.raises(ThreadError, match="it is damaged"):
        await kept(file)
    assert not witness.exists()


class _Touch:
    """Leaves a file behind when it is made: LangGraph's serializer stores it by name and makes it again."""

    def __init__(self, path: Any) -> None:
        self.path = str(path)
        Path(self.path).touch()

    def model_dump(self) -> dict[str, str]:
        return {"path": self.path}


async def test_concurrent_kernel_loses_nothing_of_a_thread(host: Host, file: Path) -> None:
    await run(host, file, [BUY, "done"])

    async def meanwhile(messages: list[Any]) -> str:
        await run(host, file, ["theirs"], "from there")
        return "mine"

    made, problem = await run(host, file, [meanwhile], "from here")
    assert made.answer == "mine"
    assert problem == "another kernel has gone on with the thread 't' meanwhile"
    assert ("ai", "theirs") in await kept(file)
    assert ("ai", "mine") not in await kept(file)
    assert ("ai", "mine") in await kept(":memory:")


@pytest.mark.parametrize(
    "said", [AIMessage("the end", id="a"), AIMessage("", id="a", tool_calls=[CALL])], ids=["an answer", "a call"]
)
async def test_last_writes_of_a_dead_kernel_stay_in_the_thread(host: Host, file: Path, said: AIMessage) -> None:
    async with open_threads(file) as opened:
        graph = build_graph(ScriptedModel([]), host, checkpointer=opened)
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        await graph.aupdate_state(place, {"messages": [HumanMessage("go")]}, as_node="__start__")
        state = await graph.aget_state(place)
        await opened.aput_writes(state.config, [("messages", [said])], state.tasks[0].id)  # and no checkpoint
    await run(host, file, ["going on"], "and?")
    answers = ["tool"] * len(said.tool_calls)
    assert [kind for kind, _ in await kept(file)] == ["human", "ai", *answers, "human", "ai"]
    assert (await kept(file))[1] == ("ai", said.text)


async def test_runs_in_several_threads_of_a_file_at_the_same_time(host: Host, file: Path) -> None:
    await asyncio.gather(*(run(host, file, [BUY, BUY, "done"], thread=f"t{number}") for number in range(6)))
    for number in range(6):
        assert len(await kept(file, f"t{number}")) == 6


async def test_a_new_file_is_made_by_several_at_the_same_time(tmp_path: Path) -> None:
    async def opened(file: Path) -> str:
        async with open_threads(file) as place:
            return place.problem

    for number in range(40):  # SQLite refuses in one of some twenty rounds, at once and whatever its time-out
        problems = await asyncio.gather(*(opened(tmp_path / f"{number}.sqlite") for _ in range(8)))
        assert set(problems) == {""}


# Size


async def test_a_run_of_many_steps_leaves_a_small_file_and_no_warnings(
    host: Host, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = 40
    calls = [[("shop:buy", {"item": f"{number} {'x' * 10_000}"})] for number in range(turns)]
    with caplog.at_level(logging.WARNING):
        await run(host, file, [*calls, "done"], max_turns=turns + 1)
        messages = await kept(file)
    size = sum(len(text) for _, text in messages) + turns * 10_000  # the arguments are kept as well, twice
    assert len(messages) == 2 * turns + 2
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert file.stat().st_size < 3 * size
    assert caplog.records == []


async def test_a_step_writes_its_own_messages_and_not_the_conversation(
    host: Host, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def counted(self: Any, value: Any) -> tuple[str, bytes]:
        kind, data = dumps(self, value)
        written.append(len(data))
        return kind, data

    dumps = JsonPlusSerializer.dumps_typed
    monkeypatch.setattr(JsonPlusSerializer, "dumps_typed", counted)
    await run(host, file, [*[BUY] * 20, "done"])
    tenth = len(written) // 10
    assert sum(written[-tenth:]) < 2 * sum(written[tenth : 2 * tenth])
    assert len(await kept(file)) == 42


async def test_checkpoint_with_all_messages_is_read_and_continued(host: Host, file: Path) -> None:
    file.parent.mkdir()
    said = [HumanMessage("before", id="1"), AIMessage("answered", id="2")]
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph = build_graph(ScriptedModel([]), host, checkpointer=saver)
        graph.update_state({"configurable": {"thread_id": "t"}}, {"messages": said}, as_node="act")
    assert await kept(file) == [("human", "before"), ("ai", "answered")]
    await run(host, file, [BUY, "done"])
    assert await kept(file) == [("human", "before"), ("ai", "answered"), *SAID]


async def test_a_run_of_many_steps_leaves_little_in_memory(host: Host) -> None:
    await run(host, ":memory:", [*[BUY] * 20, "done"])
    saver = threads.memory_threads()
    assert len(saver.storage["t"][""]) == 1
    assert len([blob for blob in saver.blobs if blob[2] == "messages"]) == 1
    assert len(saver.writes) <= 1


@pytest.mark.timed
async def test_a_listing_does_not_read_the_conversations(host: Host, file: Path) -> None:
    turns = [HumanMessage("question " * 50), AIMessage("answer " * 50)] * 25
    async with open_threads(file) as opened:
        graph = build_graph(ScriptedModel([]), host, checkpointer=opened)
        for number in range(200):
            messages = [message.model_copy(update={"id": None}) for message in turns]
            place: Any = {"configurable": {"thread_id": f"t{number:03}"}}
            await graph.aupdate_state(place, {"messages": messages}, as_node="act")
    read: list[int] = []
    async with open_threads(file, fall_back=False) as opened:
        serde: Any = opened._saver.serde
        serde.loads_typed = lambda data: read.append(1)
        started = time.perf_counter()
        listing = await list_threads(opened)
        seconds = time.perf_counter() - started
    assert [summary.thread for summary in listing] == [f"t{number:03}" for number in reversed(range(200))]
    assert (listing[0].requests, listing[0].turns, listing[0].last[:8]) == (25, 25, "question")
    assert read == []
    assert seconds < 0.5
    started = time.perf_counter()
    assert thread_names(file) == [summary.thread for summary in listing]
    assert time.perf_counter() - started < 0.1


async def test_names_of_threads_are_known_wherever_they_are(host: Host, file: Path) -> None:
    saver = InMemorySaver()
    for where in (file, ":memory:", saver):
        assert thread_names(where) == [] or where == ":memory:"
        await run(host, where, ["done"], thread="trip")
        assert "trip" in thread_names(where)
    assert thread_names("/nowhere/at/all.sqlite") == []


# PostgreSQL


async def test_postgresql_threads_resume_list_prune_and_delete(host: Host, url: str) -> None:
    await run(host, url, [*[BUY] * 20, "done"], max_turns=30)
    made, problem = await run(host, url, ["again"], "and?")
    assert (made.answer, problem) == ("again", "")
    messages = await kept(url)
    assert messages[:3] == SAID[:3]
    assert messages[-2:] == [("human", "and?"), ("ai", "again")]
    async with open_threads(url, fall_back=False) as opened:
        assert opened.where.startswith("postgresql://***@127.0.0.1:")
        [summary] = await list_threads(opened)
        assert (summary.thread, summary.requests, summary.turns, summary.last) == ("t", 2, 22, "and?")
        rows = await (await opened._saver.conn.execute("SELECT count(*) AS n FROM checkpoints")).fetchone()
        assert rows["n"] == 1
        await opened.adelete_thread("t")
        assert await list_threads(opened) == []


async def test_wrong_password_is_not_shown_and_the_run_goes_on(host: Host, port: int) -> None:
    made, problem = await run(host, f"postgresql://tester:hunter-22@127.0.0.1:{port}/postgres", ["done"])
    assert made.answer == "done"
    assert problem.startswith(f"threads cannot be kept in postgresql://***@127.0.0.1:{port}/postgres: ")
    assert 'password authentication failed for user "tester"' in problem
    assert "hunter" not in problem
    assert "\n" not in problem


async def test_database_lost_during_a_run_does_not_stop_it(host: Host, url: str) -> None:
    import psycopg

    async def end(messages: list[Any]) -> str:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            await other.execute(query + "AND backend_type = 'client backend'")
        return "done"

    made, problem = await run(host, url, [BUY, end], thread="cut")
    assert [m.text for m in made.messages] == [text for _, text in SAID]
    assert problem.startswith("threads cannot be kept in postgresql://***@127.0.0.1:")
    assert "terminat" in problem


UNREACHABLE = {
    "nothing listens": ("postgresql://me:hunter-22@127.0.0.1:9/db", "onnection"),
    "no such host": ("postgresql://me:hunter-22@no.such.host.invalid/db", "no.such.host.invalid"),
    "no URL": ("postgresql://me:hunter/22@127.0.0.1/db", "no URL of PostgreSQL"),
    "no port": ("postgresql://me:hunter-22@127.0.0.1:port/db", "no URL of PostgreSQL"),
    "a password as a parameter": ("postgres://127.0.0.1:9/db?user=me&password=hunter-22", "onnection"),
}


@pytest.mark.timed
@pytest.mark.parametrize(("url", "words"), UNREACHABLE.values(), ids=UNREACHABLE)
async def test_unreachable_database_is_one_line_without_the_password(host: Host, url: str, words: str) -> None:
    pytest.importorskip("psycopg")
    started = time.monotonic()
    made, problem = await run(host, url, ["done"])
    assert made.answer == "done"
    assert words in problem
    assert "hunter" not in problem
    assert "\n" not in problem
    assert time.monotonic() - started < 6


async def test_without_its_package_postgresql_says_what_to_install(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres.aio", None)
    monkeypatch.delitem(sys.modules, "mcp_magic.agent.postgres", raising=False)
    with pytest.raises(MissingDependencyError) as caught:
        await run(host, "postgresql://me:hunter-22@127.0.0.1/db", ["done"])
    assert str(caught.value) == (
        "postgresql://***@127.0.0.1/db needs PostgreSQL's checkpointer: `pip install 'mcp-magic[postgres]'`"
    )
