"""Threads in a file: shared, locked, damaged, or made by a stranger."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import delete_thread, list_threads, open_threads, thread_names
from mcp_magic.errors import ThreadError
from tests.support.agents import BUY
from tests.support.damage import ENDLESS, circle_pages
from tests.support.threads_in import SAID, kept, locked, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


pytestmark = pytest.mark.usefixtures("nothing_left")
AGAIN = [("human", "and?"), ("ai", "again")]
ANOTHER = "; `%config MCPMagics.threads` names another file"
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "threads.sqlite"


def execute(file: Path, script: str, insert: str = "", rows: Iterable[Any] = ()) -> None:
    """Run statements in a file, and insert rows."""
    file.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
        if insert:
            connection.executemany(insert, rows)
        connection.commit()


async def listed(file: Path) -> list[str]:
    async with open_threads(file, fall_back=False) as opened:
        return [summary.thread for summary in await list_threads(opened)]


async def test_only_its_owner_may_read_the_file(file):
    async with open_threads(file):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes["threads.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_runs_in_several_threads_of_a_file_go_together(host, file):
    await asyncio.gather(*(run(host, file, [BUY, BUY, "done"], thread=f"t{number}") for number in range(6)))
    for number in range(6):
        assert len(await kept(file, f"t{number}")) == 6


async def test_a_new_file_is_made_by_several_at_once(tmp_path):
    async def opened(file: Path) -> str:
        async with open_threads(file) as place:
            return place.problem

    for number in range(40):  # SQLite refuses in one of some twenty rounds, at once and whatever its time-out
        problems = await asyncio.gather(*(opened(tmp_path / f"{number}.sqlite") for _ in range(8)))
        assert set(problems) == {""}


async def test_another_kernel_loses_nothing_of_a_thread(host, file):
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


# Files that cannot be used


def database(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Make a file with pages, and change its bytes."""
    rows = [(str(n), b"x" * 999) for n in range(50)]
    script = "CREATE TABLE checkpoints (name TEXT PRIMARY KEY, more BLOB)"
    execute(file, script, "INSERT INTO checkpoints VALUES (?, ?)", rows)
    file.write_bytes(change(file.read_bytes()))


def below_a_file(file: Path) -> None:
    file.parent.rmdir()
    file.parent.write_text("a file")


def read_only(file: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file.parent.chmod(0o500)


NO_FILE = "it is damaged, or no SQLite file; move it away, and a new one is made"
SPOILED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "random": (lambda file: file.write_bytes(os.urandom(20_000)), NO_FILE),
    "truncated": (lambda file: database(file, lambda data: data[:6000]), "it is damaged"),
    "overwritten": (
        lambda file: database(file, lambda data: data[:4096] + os.urandom(8192) + data[12288:]),
        "it is damaged",
    ),
    "folder": (lambda file: file.mkdir(), f"Is a directory{ANOTHER}"),
    "below a file": (below_a_file, ANOTHER),
    "read only": (read_only, f"Permission denied{ANOTHER}"),
    "other tables": (lambda file: execute(file, "CREATE TABLE checkpoints (name TEXT)"), ANOTHER),
}


@pytest.mark.parametrize("case", SPOILED)
async def test_an_unusable_file_is_one_line_and_the_run_goes_on(host, file, case):
    file.parent.mkdir()
    spoil, expected = SPOILED[case]
    spoil(file)
    made, problem = await run(host, file, [BUY, "done"])
    assert made.answer == "done"
    assert problem.startswith(f"threads cannot be kept in {file}: ")
    assert expected in problem
    assert "\n" not in problem
    with pytest.raises(ThreadError) as caught:
        await kept(file)
    assert str(caught.value) == problem
    assert await kept(":memory:") == SAID


async def test_a_locked_file_is_waited_for_and_then_left(host, file, monkeypatch):
    monkeypatch.setattr("mcp_magic.agent.sqlite.LOCKED_SECONDS", 0.3)
    await run(host, file, [BUY, "done"])
    with locked(file):
        started = time.monotonic()
        made, problem = await run(host, file, ["alone"], "begin")
        assert time.monotonic() - started >= 0.3
        with pytest.raises(ThreadError, match="another process has locked it"):
            await kept(file)
    assert made.answer == "alone"
    assert problem == f"threads cannot be kept in {file}: another process has locked it{ANOTHER}"
    assert await kept(file) == SAID
    await run(host, file, ["again"], "and?")
    assert await kept(file) == [*SAID, *AGAIN], "and what went on in memory replaces nothing"


async def test_a_file_locked_during_a_run_does_not_stop_it(host, file, monkeypatch):
    monkeypatch.setattr("mcp_magic.agent.sqlite.LOCKED_SECONDS", 0.3)
    with ExitStack() as stack:

        async def lock(messages: list[Any]) -> str:
            await asyncio.to_thread(stack.enter_context, locked(file))
            return "done"

        made, problem = await run(host, file, [BUY, lock])
    assert made.answer == "done"
    assert [m.text for m in made.messages] == [text for _, text in SAID]
    assert "another process has locked it" in problem
    second, problem = await run(host, file, ["again"], "and?")
    assert (second.answer, problem) == ("again", "")
    assert await kept(file) == [*SAID, *AGAIN], "what was in memory has moved into the file"


async def test_a_damaged_thread_does_not_affect_others(host, file):
    for thread in ("good", "bad"):
        await run(host, file, [BUY, "done"], thread=thread)
    execute(file, "", "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = 'bad'", [(os.urandom(500),)])
    with pytest.raises(ThreadError) as caught:
        await kept(file, "bad")
    assert str(caught.value) == "the thread 'bad' cannot be read: it is damaged; `%mcp agent --delete bad` deletes it"
    made, problem = await run(host, file, ["fresh"], "hi", thread="bad")
    assert (made.answer, problem) == ("fresh", str(caught.value))
    assert await kept(file, "good") == SAID
    assert await listed(file) == ["bad", "good"]


# Size


async def test_a_run_of_many_turns_leaves_a_small_file(host, file, caplog):
    turns = 40
    calls = [[("shop:buy", {"item": f"{number} {'x' * 10_000}"})] for number in range(turns)]
    with caplog.at_level(logging.WARNING):
        await run(host, file, [*calls, "done"], max_turns=turns + 1)
        messages = await kept(file)
    size = sum(len(text) for _, text in messages) + turns * 10_000  # the arguments are kept as well, twice
    assert len(messages) == 2 * turns + 2
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    before = file.stat().st_size
    assert before < 3 * size
    assert caplog.records == []
    async with open_threads(file, fall_back=False) as opened:
        await delete_thread(opened, "t")
    assert file.stat().st_size < 1_200_000, "the space is given back"
    assert before > 1_200_000


async def test_a_turn_writes_its_own_messages_only(host, file, monkeypatch):
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


async def test_a_checkpoint_with_all_messages_is_continued(host, file):
    file.parent.mkdir()
    said = [HumanMessage("before", id="1"), AIMessage("answered", id="2")]
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph = build_graph(ScriptedModel([]), host, checkpointer=saver)
        graph.update_state(PLACE, {"messages": said}, as_node="act")
    assert await kept(file) == [("human", "before"), ("ai", "answered")]
    await run(host, file, [BUY, "done"])
    assert await kept(file) == [("human", "before"), ("ai", "answered"), *SAID]


async def test_a_listing_does_not_read_the_conversations(host, file):
    names = [f"t{number:03}" for number in reversed(range(30))]
    async with open_threads(file) as opened:
        graph = build_graph(ScriptedModel([]), host, checkpointer=opened)
        for name in reversed(names):
            messages = [HumanMessage("question " * 50), AIMessage("answer " * 50)] * 25
            unnamed = [message.model_copy(update={"id": None}) for message in messages]
            await graph.aupdate_state({"configurable": {"thread_id": name}}, {"messages": unnamed}, as_node="act")
    read: list[int] = []
    async with open_threads(file, fall_back=False) as opened:
        serde: Any = opened._saver.serde
        serde.loads_typed = lambda data: read.append(1)
        listing = await list_threads(opened)
    assert [summary.thread for summary in listing] == names
    assert (listing[0].requests, listing[0].turns, listing[0].last[:8]) == (25, 25, "question")
    assert read == []
    assert thread_names(file) == names


# Files that a stranger made: tables that have no end, that do something, or that hold more than threads


COLUMNS = (
    "thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, "
    "parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB"
)
TABLE = f"CREATE TABLE checkpoints ({COLUMNS}, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));"
INSERT = "INSERT INTO checkpoints VALUES (?, '', ?, NULL, ?, ?, ?)"
VIEW = (
    f"CREATE VIEW checkpoints AS {ENDLESS} SELECT 't' || x AS thread_id, '' AS checkpoint_ns, x AS checkpoint_id, "
    "'' AS parent_checkpoint_id, 'msgpack' AS type, x'80' AS checkpoint, x'7b7d' AS metadata FROM n"
)
SCHEMAS = {
    "view": VIEW,
    "view of writes": f"{TABLE} CREATE VIEW writes AS {ENDLESS} SELECT x AS thread_id FROM n",
    "trigger": f"{TABLE} CREATE TRIGGER t AFTER INSERT ON checkpoints BEGIN "
    "INSERT INTO checkpoints SELECT new.thread_id || value, '', '1', '', '', '', '' FROM json_each('[1,2]'); END",
    "computed column": f"CREATE TABLE checkpoints ({COLUMNS}, more AS (zeroblob(60000000)))",
    "virtual table": f"{TABLE} CREATE VIRTUAL TABLE search USING fts5(a)",
    "view as a table": f"{TABLE} PRAGMA writable_schema = ON; "
    f"UPDATE sqlite_master SET sql = '{VIEW.replace(chr(39), chr(39) * 2)}'; PRAGMA writable_schema = OFF",
}


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_a_file_with_more_than_plain_tables_is_refused(kind, file):
    execute(file, SCHEMAS[kind])
    assert thread_names(file) == [], "Tab does not read an endless table"
    async with asyncio.timeout(60):
        with pytest.raises(ThreadError) as caught:
            await listed(file)
        assert str(caught.value).removeprefix(f"threads cannot be kept in {file}: ") in (
            "it has more than plain tables, a view or a trigger, which no file of threads has; "
            "move it away, and a new one is made",
            NO_FILE,
        )
        async with open_threads(file) as opened:  # a run goes on in memory
            assert opened.where == "memory"


async def test_pages_in_a_circle_are_no_endless_table(file):
    rows = [("t" * 100, f"{number:04}", "", b"", b"") for number in range(2000)]
    execute(file, f"PRAGMA page_size = 512; {TABLE}", INSERT, rows)
    circle_pages(file, "checkpoints")
    async with asyncio.timeout(60):
        with pytest.raises(ThreadError, match="it is damaged"):
            await listed(file)


async def test_a_file_from_somebody_else_runs_no_code(host, file, tmp_path):
    await run(host, file, ["done"])
    witness = tmp_path / "witness"
    async with open_threads(file) as opened:
        saver: Any = opened
        stored = await saver.aget_tuple(PLACE)
        stored.checkpoint["channel_values"]["messages"] = [_Touch(witness)]
        values = saver.serde.dumps_typed(stored.checkpoint)
    witness.unlink(missing_ok=True)
    execute(file, "", "UPDATE checkpoints SET type = ?, checkpoint = ?", [values])
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


def packed(messages: Any) -> bytes:
    return ormsgpack.packb({"id": "1", "channel_values": {"messages": messages}})


def made_by(*parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(0, ormsgpack.packb(parts))


def nested(levels: int) -> Any:
    inner: Any = [1]
    for _ in range(levels):
        inner = made_by("builtins", "set", inner)
    return inner


MESSAGE = (
    b'{"id": "1", "channel_values": {"messages": [{"lc": 1, "type": "constructor", '
    b'"id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "x"}}]}}'
)
CONTENTS: dict[str, tuple[str, bytes]] = {
    "an object of LangChain": ("json", MESSAGE),
    "a pickle": ("pickle", b"cos\nsystem\n(S'exit 1'\ntR."),
    "a command": ("msgpack", packed([made_by("os", "system", "exit 1")])),
    "endless levels": ("msgpack", packed(nested(2000))),
    "endless lists": ("msgpack", b"\x91" * 100_000),
    "half a value": ("msgpack", b"\x92\x01"),
    "no map": ("msgpack", b"\x01"),
    "no kind": ("?", b""),
}


@pytest.mark.parametrize("kind", CONTENTS)
async def test_a_conversation_that_is_none_is_one_plain_error(kind, file):
    execute(file, TABLE, INSERT, [("t", "1", *CONTENTS[kind], b"{}")])
    async with open_threads(file, fall_back=False) as opened:
        with pytest.raises(ThreadError) as caught:
            await opened.aget_tuple(PLACE)
    assert str(caught.value) == "the thread 't' cannot be read: it is damaged; `%mcp agent --delete t` deletes it"


async def test_large_values_metadata_and_names_are_not_loaded(file):
    rows = [("t", "1", "msgpack", b"\x80", b"[" * 200_000), ("n" * 1_000_000, "1", "msgpack", b"\x80", b"{}")]
    execute(file, TABLE, INSERT, rows)
    assert thread_names(file) == await listed(file) == ["t"]
    execute(file, "UPDATE checkpoints SET checkpoint = zeroblob(70000000), metadata = x'7b7d' WHERE thread_id = 't'")
    assert thread_names(file) == await listed(file) == ["t"]
    async with open_threads(file, fall_back=False) as opened:
        with pytest.raises(ThreadError, match="too big"):
            await opened.aget_tuple(PLACE)
