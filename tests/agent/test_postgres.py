from __future__ import annotations

import sys
from typing import Any

import pytest

from mcp_magic.agent.threads import list_threads, open_threads
from mcp_magic.errors import MissingDependencyError
from tests.support.agents import BUY
from tests.support.postgres import PASSWORD, cluster
from tests.support.threads_in import SAID, kept, run

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def port():
    pytest.importorskip("psycopg")
    with cluster() as port:
        yield port


@pytest.fixture
def url(port):
    return f"postgresql://tester:{PASSWORD.replace('/', '%2F').replace('@', '%40')}@127.0.0.1:{port}/postgres"


async def test_threads_resume_and_are_listed_pruned_and_deleted(host, url):
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
        saver: Any = opened._saver
        rows = await (await saver.conn.execute("SELECT count(*) AS n FROM checkpoints")).fetchone()
        assert rows["n"] == 1
        await opened.adelete_thread("t")
        assert await list_threads(opened) == []


async def test_a_database_lost_during_a_run_does_not_stop_it(host, url):
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
    "wrong password": ("postgresql://tester:hunter-22@{place}/postgres", 'authentication failed for user "tester"'),
    "nothing listens": ("postgresql://me:hunter-22@127.0.0.1:9/db", "onnection"),
    "no such host": ("postgresql://me:hunter-22@no.such.host.invalid/db", "no.such.host.invalid"),
    "no URL": ("postgresql://me:hunter/22@127.0.0.1/db", "no URL of PostgreSQL"),
    "no port": ("postgresql://me:hunter-22@127.0.0.1:port/db", "no URL of PostgreSQL"),
    "password parameter": ("postgres://127.0.0.1:9/db?user=me&password=hunter-22", "onnection"),
}


@pytest.mark.parametrize(("url", "words"), UNREACHABLE.values(), ids=UNREACHABLE)
async def test_an_unreachable_database_is_told_without_password(host, port, url, words):
    place = f"127.0.0.1:{port}"
    made, problem = await run(host, url.format(place=place), ["done"])
    assert made.answer == "done"
    assert words in problem
    assert "hunter" not in problem
    assert "\n" not in problem
    if "{place}" in url:
        assert problem.startswith(f"threads cannot be kept in postgresql://***@{place}/postgres: ")


async def test_without_its_package_the_error_names_the_command(host, monkeypatch):
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres.aio", None)
    monkeypatch.delitem(sys.modules, "mcp_magic.agent.postgres", raising=False)
    with pytest.raises(MissingDependencyError) as caught:
        await run(host, "postgresql://me:hunter-22@127.0.0.1/db", ["done"])
    assert str(caught.value) == (
        "postgresql://***@127.0.0.1/db needs PostgreSQL's checkpointer: `pip install 'mcp-magic[postgres]'`"
    )
