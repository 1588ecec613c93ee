"""Calls, reads, prompts, raw requests, completions and listings have time-outs, on both eras."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import PromptReference

from mcp_magic import OfflineModel, build_graph
from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.errors import ArgumentsError, RequestTimeoutError
from mcp_magic.langchain.tools import langchain_tools
from tests.support import SUPPORT
from tests.support.processes import PLAIN
from tests.support.waiting import until
from tests.support.waiting_server import Waiting, waiting_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

HANDSHAKE = [sys.executable, str(SUPPORT / "waiting_server.py"), "--era", "handshake"]
SHORT, PATIENT, LONG = 0.2, 0.8, 30.0
TOLD = "The call was cancelled."
NEVER = PromptReference(type="ref/prompt", name="never")


def asking(connection: Connection, name: str) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return the ways to ask for the same, by what errors call them."""
    asked = {"name": name, "arguments": {}}
    return {
        f"waiting: waiting://{name}": lambda **limits: connection.read(f"waiting://{name}", **limits),
        f"waiting:{name}": lambda **limits: connection.prompt(name, **limits),
        "waiting: tools/call": lambda **limits: connection.request("tools/call", asked, **limits),
    }


@pytest.fixture(params=["in process, modern", "stdio, handshake"])
async def waiting(request, host):
    return await slow_to_answer(host, waiting_server(Waiting()) if "process" in request.param else HANDSHAKE)


async def slow_to_answer(host: Host, target: Any) -> Connection:
    """Connect; whoever is asked takes longer than any of the time-outs."""

    async def elicitor(asked: Elicitation) -> Answer:
        loop = asyncio.get_running_loop()
        end = loop.time() + 1.3 * PATIENT
        while loop.time() < end:
            await asyncio.wait({loop.create_future()}, timeout=0.05)
        return Answer.decline()

    host.elicitation.elicitor = elicitor
    return await host.connect(target, name="waiting")


async def ask_all(connection: Connection, name: str, **limits: float) -> list[str]:
    """Ask in all ways at once, and return what each comes to."""

    async def outcome(ask: Callable[..., Awaitable[Any]]) -> str:
        try:
            await ask(**limits)
        except RequestTimeoutError as error:
            return str(error)
        return "answered"

    return await asyncio.gather(*(outcome(ask) for ask in asking(connection, name).values()))


async def test_unanswered_request_times_out_and_session_goes_on(waiting):
    names = asking(waiting, "never")
    said = await ask_all(waiting, "never", timeout=SHORT)
    assert said == [f"{name}: timed out: no answer within 0.2 s. {TOLD}" for name in names]

    def told() -> int:
        return sum(entry.method == "notifications/cancelled" for entry in waiting.trace.entries)

    if waiting.spec.transport != "in-process":
        await until(lambda: told() >= 3)
    assert told() == (0 if waiting.spec.transport == "in-process" else 3)
    assert await waiting.ping(LONG) < LONG


async def test_slow_call_times_out_and_server_is_told(host):
    connection = await host.connect(PLAIN, name="show")
    with pytest.raises(RequestTimeoutError) as caught:
        await connection.call_tool("slow", {}, timeout=1)
    assert str(caught.value) == f"show:slow: timed out: no progress for 1 s. {TOLD}"
    async with asyncio.timeout(60):
        while (await connection.call("cancellations")).data == 0:
            await asyncio.sleep(0.02)


@pytest.mark.timed
async def test_progress_restarts_the_time_out_up_to_the_maximum(waiting):
    assert await ask_all(waiting, "steady", timeout=PATIENT) == ["answered"] * 3
    assert (await waiting.call_tool("steady", {}, timeout=PATIENT)).text == "done"
    late = f"timed out: no answer within 0.4 s in total (--max-total-timeout S waits longer). {TOLD}"
    said = await ask_all(waiting, "steady", timeout=PATIENT, max_total_timeout=0.4)
    assert said == [f"{name}: {late}" for name in asking(waiting, "steady")]


@pytest.mark.timed
async def test_the_time_stands_still_while_a_person_is_asked(waiting):
    ways = asking(waiting, "asks")
    if waiting.protocol_version == "2026-07-28":
        raw = await ways.pop("waiting: tools/call")(timeout=LONG)
        assert raw["resultType"] == "input_required", "raw answers are as they came"
    answers = await asyncio.gather(*(ask(timeout=PATIENT) for ask in ways.values()))
    assert all("done" in str(answer) for answer in answers), answers


@pytest.mark.timed
async def test_time_out_stands_still_if_asking_call_is_unclear(host):
    connection = await slow_to_answer(host, HANDSHAKE)
    asks = asyncio.create_task(connection.call_tool("asks", {}, timeout=PATIENT))
    latest = asyncio.create_task(connection.call("never"))
    assert (await asks).text == "done"
    latest.cancel()
    await asyncio.wait({latest})


async def test_completions_listings_and_the_host_end_in_time(host):
    handlers = Waiting()
    connection = await host.connect(waiting_server(handlers), name="waiting")
    handlers.stuck = True
    said = rf"^waiting: completion: timed out: no answer within 0\.2 s\. {TOLD}"
    with pytest.raises(RequestTimeoutError, match=said):
        await connection.complete(NEVER, "a", "b", timeout=SHORT)
    with pytest.raises(RequestTimeoutError, match=r"^waiting: prompts: not listed within 0\.2 s; --timeout S waits"):
        await connection.listing("prompts", refresh=True, timeout=SHORT)
    handlers.stuck = False
    assert len(await connection.listing("prompts", timeout=LONG)) == 3
    with pytest.raises(RequestTimeoutError, match=r"within 0\.2 s"):
        await host.read("waiting://never", timeout=SHORT)
    with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.2 s in total"):
        await host.prompt("waiting:never", timeout=LONG, max_total_timeout=SHORT)


@pytest.mark.parametrize("limit", ["x", 0, -1, math.nan, True])
async def test_invalid_time_out_is_explained_and_nothing_is_sent(host, limit):
    connection = await host.connect(waiting_server(Waiting()), name="waiting")
    sent = len(connection.trace.entries)
    ways: list[Callable[..., Awaitable[Any]]] = [
        *asking(connection, "never").values(),
        lambda timeout: connection.ping(timeout),
        lambda timeout: connection.listing("tools", timeout=timeout),
        lambda timeout: connection.complete(NEVER, "a", "b", timeout=timeout),
    ]
    for ask in ways:
        with pytest.raises(ArgumentsError) as caught:
            await ask(timeout=limit)
        expected = f": timeout={limit!r}: expected seconds above 0 (timeout=2.5), or None for no limit"
        assert str(caught.value).endswith(expected)
    with pytest.raises(ArgumentsError, match=r"waiting:never: max_total_timeout=.*: expected seconds above 0"):
        await connection.call_tool("never", {}, max_total_timeout=limit)
    with pytest.raises(ArgumentsError, match=r"timeout=.*: expected seconds above 0"):
        langchain_tools(connection, timeout=limit)
    with pytest.raises(ArgumentsError, match=r"timeout=.*: expected seconds above 0"):
        build_graph(OfflineModel(), host, timeout=limit)
    assert len(connection.trace.entries) == sent
