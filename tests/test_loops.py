"""Sessions that are used from another event loop than the one that opened them."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from inspect import CORO_CLOSED, getcoroutinestate, iscoroutinefunction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from mcp_magic import loops
from mcp_magic._host import Host
from mcp_magic.errors import SessionClosedError, SessionError, UnknownToolError
from mcp_magic.jobs import Job
from mcp_magic.session.connection import Connection
from mcp_magic.session.events import Events
from mcp_magic.session.subscriptions import Subscription
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.changing_server import URI, Changing
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    Made = tuple[Any, Callable[[], None]]

TWO_ROWS = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
MATH = load("math_server").server


async def elsewhere(work: Callable[[], Awaitable[Any]]) -> Any:
    """Await on the loop of another thread, while this loop runs."""

    async def main() -> Any:
        async with asyncio.timeout(60):
            return await work()

    return await asyncio.to_thread(asyncio.run, main())


def blocking(work: Callable[[], Coroutine[Any, Any, Any]]) -> str:
    """Await on the loop of another thread, while this thread waits without awaiting; return the error."""
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(lambda: asyncio.run(work())).exception(60)
    assert isinstance(error, SessionError)
    return str(error)


@pytest.fixture
async def math(host):
    return await host.connect(MATH, name="math")


@pytest.fixture
async def plain(host):
    host.reports.reporter = lambda report: None  # so that `slow` may report
    return await host.connect(PLAIN, name="plain")


async def rows(host: Host) -> list[Any]:
    return sorted([item.result.data async for item in host.map_iter("math:add", TWO_ROWS)])


async def background(host: Host) -> Any:
    job = await host.start("math:add", a=1, b=2)
    assert await job.wait()
    return await job


async def again(host: Host) -> Any:
    return len((await (await host.map("math:add", TWO_ROWS)).retry()).df)


USES: dict[str, tuple[Callable[[Host], Awaitable[Any]], Callable[[Any], bool]]] = {
    "call": (lambda host: host["math"].call("add", a=1, b=2), lambda result: result.data == 3),
    "call-by-name": (lambda host: host.call("math:add", a=1, b=2), lambda result: result.data == 3),
    "function": (lambda host: host["math"].tools.add(a=1, b=2), lambda result: result.data == 3),
    "listing": (lambda host: host["math"].listing("tools", refresh=True), bool),
    "catalog": (lambda host: host["math"].catalog.get("tools", refresh=True), bool),
    "read": (lambda host: host.read("math://constants"), lambda result: bool(result.text)),
    "ping": (lambda host: host["math"].ping(), lambda seconds: seconds > 0),
    "request": (lambda host: host["math"].request("tools/list"), lambda result: bool(result["tools"])),
    "roots": (lambda host: host["math"].roots.set("/"), lambda result: result is None),
    "map": (lambda host: host.map("math:add", TWO_ROWS), lambda run: len(run.df) == 2),
    "map-iter": (rows, lambda found: found == [3, 7]),
    "retry": (again, lambda count: count == 2),
    "job": (background, lambda result: result.data == 3),
    "reconnect": (lambda host: host.reconnect("math"), lambda connection: connection.name == "math"),
    "disconnect": (lambda host: host.disconnect("math"), lambda result: result is None),
    "close": (lambda host: host.close(), lambda result: result is None),
}


@pytest.mark.usefixtures("math")
async def test_another_loop_awaits_whatever_a_host_does(host):
    for name, (does, fits) in USES.items():
        again = await elsewhere(lambda: host.connect(MATH, name="math"))
        assert fits(await elsewhere(lambda: does(host))), name  # noqa: B023
        assert again.loop is host.loop is asyncio.get_running_loop()
    again = await elsewhere(lambda: host.connect(MATH, name="math"))
    assert (await again.call("add", a=1, b=2)).data == 3
    with pytest.raises(UnknownToolError, match="no tool 'ad'"):
        await elsewhere(lambda: again.call("ad", a=1, b=2))
    opened = await elsewhere(lambda: host.connect(PLAIN, name="second"))
    assert opened.loop is again.loop, "it outlives the loop on which it was opened"
    assert (await opened.call("add", a=1, b=2)).data == 3
    answers = await asyncio.gather(*(elsewhere(lambda n=n: opened.call("add", a=n, b=n)) for n in range(8)))
    assert [answer.data for answer in answers] == [2 * n for n in range(8)]
    made = opened.call("add", a=1, b=2)
    assert (await elsewhere(lambda: made)).data == 3, "a coroutine begins where it is awaited"


async def test_servers_over_http_answer_another_loop(host):
    host.loop = asyncio.get_running_loop()  # as `%load_ext` does, so that the first session may be opened elsewhere
    async with serving(load("math_server").server.streamable_http_app()) as url:
        opened = await elsewhere(lambda: host.connect(f"{url}/mcp", name="web"))
        assert (await elsewhere(lambda: opened.call("add", a=1, b=2))).data == 3
        await elsewhere(opened.close)


async def with_timeout(wait: Callable[[], Awaitable[Any]], begun: asyncio.Future[None]) -> bool:
    try:
        async with asyncio.timeout(None) as limit:
            begun.add_done_callback(lambda _: limit.reschedule(0))
            await wait()
    except TimeoutError:
        return True
    return False


async def with_scope(wait: Callable[[], Awaitable[Any]], begun: asyncio.Future[None]) -> bool:
    with anyio.move_on_after(60) as scope:
        begun.add_done_callback(lambda _: scope.cancel())
        await wait()
    return scope.cancelled_caught


async def with_cancel(wait: Callable[[], Awaitable[Any]], begun: asyncio.Future[None]) -> bool:
    task = asyncio.ensure_future(wait())
    await begun
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


@pytest.mark.parametrize("give_up", [with_timeout, with_scope, with_cancel])
async def test_what_another_loop_gives_up_is_cancelled(host, plain, give_up):
    reported = threading.Event()
    host.reports.reporter = lambda report: reported.set()

    async def visit() -> Any:
        begun = asyncio.ensure_future(asyncio.to_thread(reported.wait))
        return await give_up(lambda: plain.call("slow"), begun)

    assert await elsewhere(visit)
    await until(lambda: not plain.in_flight)
    async with asyncio.timeout(60):
        while not (await plain.call("cancellations")).data:
            await asyncio.sleep(0)


WAITS: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "call": lambda host: host["plain"].call("slow"),
    "host-call": lambda host: host.call("plain:slow"),
    "connect": lambda host: host.connect(["python3", "-c", "import sys; sys.stdin.read()"], name="silent"),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_scopes_of_anyio_end_a_wait(host, plain, wait):
    with anyio.move_on_after(0.3) as scope:
        await wait(host)
    assert scope.cancelled_caught
    with pytest.raises(TimeoutError), anyio.fail_after(0.3):
        await wait(host)
    assert (await plain.call("add", a=1, b=2)).data == 3


async def test_a_call_runs_in_the_context_of_its_awaiter(host, plain):
    cell: ContextVar[str] = ContextVar("cell", default="")
    seen: list[str] = []
    host.reports.reporter = lambda report: seen.append(cell.get())

    async def visit() -> None:
        cell.set("of the other loop")
        await plain.call("work", text="half")

    await elsewhere(visit)
    assert set(seen) == {"of the other loop"}


async def test_another_loop_follows_events_and_a_resource(host, math):
    events = math.events()
    async with asyncio.timeout(60):
        follows = asyncio.ensure_future(elsewhere(lambda: anext(events)))
        while not follows.done():
            math.publish("job", "1", "working")
            await asyncio.sleep(0)
        assert (await follows).kind == "job"

    changing = await host.connect(Changing(handshake=True).server, name="changing", protocol="handshake")

    async def following() -> int:
        subscription = await changing.subscribe(URI)
        await changing.call("set_text", text="two")
        update = await anext(subscription)
        subscription.close()
        return update.changes

    assert await elsewhere(following) == 1
    await until(lambda: not changing.notices.subscriptions.uris)


# Loops that are busy, stopped or closed


async def test_a_loop_that_waits_for_the_caller_is_told(host, plain, monkeypatch):
    monkeypatch.setattr(loops, "BUSY_SECONDS", 0.2)
    before = len(plain.trace.entries)
    for work in (lambda: plain.call("add", a=1, b=2), lambda: host.connect(PLAIN, name="second")):
        text = blocking(work)
        assert "is busy" in text
        assert "`await asyncio.to_thread(function)`" in text
    await plain.ping()
    assert "tools/call" not in [entry.method for entry in plain.trace.entries[before:]], "nothing is sent later"
    assert "second" not in host


async def test_a_call_that_has_begun_may_take_its_time(plain, monkeypatch):
    monkeypatch.setattr(loops, "BUSY_SECONDS", 0.1)
    waiting = asyncio.ensure_future(elsewhere(lambda: plain.call("slow")))
    await asyncio.wait({waiting}, timeout=0.5)
    assert not waiting.done()
    await plain.close()
    with pytest.raises(SessionClosedError):
        await waiting


def test_a_loop_that_does_not_run_is_told():
    loop, host = asyncio.new_event_loop(), Host()
    plain = loop.run_until_complete(host.connect(PLAIN, name="plain"))
    try:
        for work in (plain.call("add", a=1, b=2), host.connect(PLAIN, name="second"), host.close()):
            with pytest.raises(SessionError, match="does not run now"):
                asyncio.run(work)
    finally:
        loop.run_until_complete(host.close())
        loop.close()


@pytest.mark.parametrize("way", [lambda host: host.connect(PLAIN, name="plain"), lambda host: host.reconnect("plain")])
def test_a_new_loop_follows_one_that_has_stopped(way):
    host = Host()
    plain = asyncio.run(host.connect(PLAIN, name="plain"))
    with pytest.raises(SessionError, match="has stopped"):
        asyncio.run(plain.call("add", a=1, b=2))

    async def anew() -> Any:
        opened = await way(host)
        results = [(await opened.call("add", a=1, b=2)).data for _ in range(2)]
        await host.close()
        return results

    assert asyncio.run(anew()) == [3, 3]


AFTER_A_CLOSED_LOOP: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "connect": lambda host: host.connect(PLAIN, name="plain"),
    "reconnect": lambda host: host.reconnect("plain"),
    "reopen": lambda host: host["plain"].reopen(),
    "replace": lambda host: host.connect(MATH, name="plain"),
    "close": lambda host: host.close(),
}


def under_a_closed_loop(target: Any, way: str) -> list[Any]:
    """Close the loop of a session; return the answers of one that is opened in that way afterwards."""
    host, loop = Host(), asyncio.new_event_loop()
    lost = loop.run_until_complete(host.connect(target, name="plain"))
    job = loop.run_until_complete(host.start("plain:add", a=1, b=2))
    loop.close()
    assert lost.state == "lost"
    job.cancel()

    async def anew() -> list[Any]:
        await AFTER_A_CLOSED_LOOP[way](host)
        opened = await host.connect(target, name="plain")
        results = [(await opened.call("add", a=1, b=2)).data for _ in range(2)]
        gc.collect()  # what the closed loop had does not end the new session
        results.append((await opened.call("add", a=1, b=2)).data)
        await host.close()
        return results

    return asyncio.run(anew())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("target", [PLAIN, MATH], ids=["stdio", "in-process"])
def test_a_session_is_lost_with_a_loop_closed_under_it(target):
    gc.freeze()  # what there is by now has nothing to do with it
    for way in AFTER_A_CLOSED_LOOP:
        assert under_a_closed_loop(target, way) == [3, 3, 3], way
    gc.collect()  # Python warns of what the closed loops had here, and not in another test


def test_a_loop_that_ends_meanwhile_is_told():
    opened: list[Connection] = []
    ends = threading.Event()

    async def owning() -> None:
        host = Host()
        host.reports.reporter = lambda report: None  # so that `slow` may report
        opened.append(await host.connect(PLAIN, name="plain"))
        await until(lambda: bool(opened[0].in_flight))
        ends.set()

    owner = threading.Thread(target=asyncio.run, args=(owning(),))
    owner.start()
    while not opened:
        assert owner.is_alive()
        owner.join(0.01)
    with pytest.raises(SessionError, match="the event loop of the sessions has stopped before the answer came"):
        asyncio.run(opened[0].call("slow"))
    assert ends.is_set()
    owner.join(60)


async def test_code_on_trio_is_told(host, plain, monkeypatch):
    lowlevel = SimpleNamespace(current_task=lambda: "a task of trio")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "trio", SimpleNamespace(lowlevel=lowlevel))
        for work in (plain.call("add", a=1, b=2), host.connect(PLAIN)):
            with pytest.raises(SessionError, match="`%autoawait asyncio` goes back"):
                await work


@pytest.mark.parametrize("owner", [Host, Connection, Job])
def test_each_public_coroutine_method_runs_on_its_loop(owner):
    methods = {name: method for name, method in vars(owner).items() if iscoroutinefunction(method) and name[0] != "_"}
    by_caller = {"call", "call_tool"}  # `Caller` runs these on the loop
    inside = {Job: {"started", "answered", "progressed"}, Connection: by_caller}  # what the call itself awaits
    assert {name for name, method in methods.items() if not hasattr(method, "__wrapped__")} == inside.get(owner, set())


async def test_an_error_that_comes_too_late_is_read():
    own, raised = asyncio.get_running_loop(), threading.Event()
    logged: list[dict[str, Any]] = []

    async def failing() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: own.call_soon(raised.set))
        raise ValueError("late")

    async def visit() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        waiting = asyncio.ensure_future(loops.run_on(own, failing()))
        await asyncio.sleep(0)
        assert raised.wait(60)
        waiting.cancel()  # the error has arrived, and the loop has not come round
        await asyncio.wait({waiting})
        del waiting
        gc.collect()

    await elsewhere(visit)
    assert not logged


async def test_a_cancelled_step_ends_before_the_generator_is_closed():
    own, begun, ended = asyncio.get_running_loop(), threading.Event(), threading.Event()

    async def slowly() -> AsyncGenerator[int, None]:
        begun.set()
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.set()

    async def visit() -> bool:
        waiting = asyncio.ensure_future(asyncio.to_thread(begun.wait))
        items = loops.iterate_on(own, slowly())
        return await with_timeout(lambda: anext(items), waiting)

    assert await elsewhere(visit)
    assert ended.is_set()


# Streams


def made_stream() -> Made:
    events = Events()
    stream = events.follow("math", asyncio.get_running_loop())
    return stream, lambda: events.publish("math", "job", "1", "working", ended=False)


def made_subscription() -> Made:
    subscription = Subscription(URI, lambda _: None)
    return subscription, subscription.tell


@pytest.mark.parametrize("made", [made_stream, made_subscription])
def test_events_reach_a_new_loop(made):
    async def begin() -> Made:
        items, tell = made()
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        return items, tell

    async def go_on() -> None:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        assert not waiting.done()
        tell()
        async with asyncio.timeout(60):
            await waiting

    items, tell = asyncio.run(begin())
    asyncio.run(go_on())


@pytest.mark.parametrize("made", [made_stream, made_subscription])
async def test_events_survive_a_cancelled_wait(made):
    items, tell = made()
    own, handed = asyncio.get_running_loop(), threading.Event()

    async def telling() -> None:
        tell()
        for _ in range(20):
            await asyncio.sleep(0)
        handed.set()

    async def visit() -> None:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        asyncio.run_coroutine_threadsafe(telling(), own)
        assert handed.wait(60)
        waiting.cancel()  # the news is on its way
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        await anext(items)

    await elsewhere(visit)


def test_streams_are_added_while_events_happen():
    events = Events()
    streams = [events.follow("math") for _ in range(1000)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        adding = threading.Thread(target=lambda: streams.extend(events.follow("math") for _ in range(3000)))
        adding.start()
        while adding.is_alive():
            events.publish("math", "job", "1", "working", ended=False)
    finally:
        sys.setswitchinterval(interval)
    adding.join(60)
    assert len(streams) == 4000


# Work from threads


async def test_a_loop_that_cannot_be_nested_is_told(monkeypatch):
    def refuse(loop: asyncio.AbstractEventLoop) -> None:
        raise ValueError("Can't patch loop of type uvloop.Loop")

    monkeypatch.setattr("nest_asyncio2.apply", refuse)
    work = asyncio.sleep(0)
    with pytest.raises(SessionError, match=r"`await tool\.ainvoke\(\.\.\.\)`"):
        loops.run_blocking(None, work)
    assert getcoroutinestate(work) == CORO_CLOSED


@pytest.fixture
def idle():
    """A loop that runs only while somebody waits for work on it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_threads_share_an_idle_loop_and_wait_for_more_work(idle):
    together = asyncio.Barrier(4)

    async def meet() -> int:
        async with asyncio.timeout(60):
            return await together.wait()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: loops.run_blocking(idle, meet()), range(4)))
    assert sorted(answers) == [0, 1, 2, 3]

    async def outer() -> int:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(lambda: loops.run_blocking(idle, asyncio.sleep(0, 3)))

    assert loops.run_blocking(idle, outer()) == 3


def test_another_thread_goes_on_with_an_idle_loop(idle):
    begun = threading.Event()

    async def first() -> None:
        async with asyncio.timeout(60):
            while not begun.is_set():
                await asyncio.sleep(0)

    async def second() -> bool:
        begun.set()
        async with asyncio.timeout(60):
            while runs.is_alive():
                await asyncio.sleep(0)
        return True

    runs = threading.Thread(target=lambda: loops.run_blocking(idle, first()))
    runs.start()
    assert loops.run_blocking(idle, second())


@pytest.mark.parametrize("wait", [loops.hand_over, lambda work, loop: asyncio.run(loops.run_on(loop, work))])
def test_work_under_way_on_a_loop_that_stops_is_told(idle, monkeypatch, wait):
    monkeypatch.setattr(loops, "BUSY_SECONDS", 0.2)

    async def stopping() -> None:
        idle.stop()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        ready = threading.Event()
        idle.call_soon(ready.set)
        runs = pool.submit(idle.run_forever)
        assert ready.wait(60)
        with pytest.raises(SessionError, match="what was sent may have run"):
            wait(stopping(), idle)
        runs.result(60)
    idle.run_until_complete(asyncio.gather(*asyncio.all_tasks(idle), return_exceptions=True))
