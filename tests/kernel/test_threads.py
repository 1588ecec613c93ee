"""Calls from threads: where the cell awaits them, where it waits for them without awaiting, and in forked children."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kernels import Kernel

PLAIN = True
SERVER = """
import asyncio, multiprocessing, threading, time
from concurrent.futures import ThreadPoolExecutor
from mcp.server.mcpserver import MCPServer
from mcp_magic import host
from mcp_magic.session import loops

keeper = MCPServer("keeper", log_level="ERROR")
called, cancelled, gate = [], [], asyncio.Event()

@keeper.tool()
async def ping(n: int) -> int:
    "Answers at once."
    called.append(n)
    return n

@keeper.tool()
async def hold(n: int) -> int:
    "Answers when the gate is open."
    called.append(n)
    print("held", flush=True)
    try:
        await gate.wait()
    except asyncio.CancelledError:
        cancelled.append(n)
        raise
    return n
"""
VISIT = """
host.consent.policy = "auto"
tools = {tool.name.partition("__")[2]: tool for tool in host.langchain_tools()}
answers, errors = [], []

def magic(tool, n):
    return get_ipython().run_line_magic("mcp", f"call keeper:{tool} n={n}").data

def method(tool, n):
    return asyncio.run(host.call(f"keeper:{tool}", n=n)).data

def langchain(tool, n):
    return int(tools[tool].invoke({"n": n}))

def visit(n):
    print("begins", flush=True)
    try:
        answers.append(door(tool, n))
    except Exception as error:
        errors.append(str(error))
"""
DOORS = ["magic", "method", "langchain"]
"""How a thread calls a tool: functions of VISIT."""

COMPUTE = "end = time.monotonic() + {}\nwhile time.monotonic() < end:\n    print('.', end='', flush=True)"
START = "threads = [threading.Thread(target=visit, args=(n,)) for n in range(4)]\nfor t in threads: t.start()"
WAITS = {
    "join": f"{START}\nfor t in threads: t.join()",
    "pool": "with ThreadPoolExecutor(2) as pool:\n    list(pool.map(visit, range(4)))",
    "polling": f"{START}\nwhile any(t.is_alive() for t in threads):\n    time.sleep(0.01)",
    "joblib": "import joblib\njoblib.Parallel(2, backend='threading')(joblib.delayed(visit)(n) for n in range(4))",
}
POOL = "with ThreadPoolExecutor(2) as pool:\n    "
INTERRUPTED = {
    "waits": ("begins", POOL + "list(pool.map(visit, range(4)))"),
    "awaits": (
        "held",
        POOL + "loop = asyncio.get_running_loop()\n"
        "    await asyncio.gather(*(loop.run_in_executor(pool, visit, n) for n in range(4)))",
    ),
}
FORKS = {
    "multiprocessing": "with multiprocessing.get_context('fork').Pool(1) as pool:\n    pool.map(visited, [1])",
    "joblib": "import joblib\njoblib.Parallel(2, backend='multiprocessing')(joblib.delayed(visited)(n) for n in 'ab')",
}


@pytest.fixture(scope="module", autouse=True)
def server(kernel: Kernel) -> None:
    kernel.ok(SERVER)
    kernel.ok("%mcp connect keeper")
    kernel.ok(VISIT)


@pytest.fixture(autouse=True)
def nothing_so_far(kernel: Kernel, server: None) -> None:
    kernel.ok("for seen in (called, cancelled, answers, errors): seen.clear()\ngate.clear()")


@pytest.fixture
def brief(kernel: Kernel, server: None) -> Iterator[None]:
    """Threads wait less long for the loop."""
    kernel.ok("usual = loops.BUSY_SECONDS, loops.BLOCKED_SECONDS\nloops.BUSY_SECONDS = loops.BLOCKED_SECONDS = 0.5")
    yield
    kernel.ok("loops.BUSY_SECONDS, loops.BLOCKED_SECONDS = usual")


def with_joblib(name: str) -> str:
    """Skip the test if it needs joblib and this environment has none."""
    if name == "joblib":
        pytest.importorskip("joblib")
    return name


@pytest.mark.parametrize("door", DOORS)
def test_threads_that_the_cell_awaits_get_answers(kernel: Kernel, door: str) -> None:
    kernel.ok(f"door, tool = {door}, 'ping'\nawait asyncio.gather(*(asyncio.to_thread(visit, n) for n in range(4)))")

    assert kernel.ok("sorted(answers), errors").text == "([0, 1, 2, 3], [])"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wait", WAITS)
def test_threads_that_the_cell_waits_for_get_an_error(kernel: Kernel, wait: str, door: str) -> None:
    kernel.ok(f"door, tool = {door}, 'ping'\n{WAITS[with_joblib(wait)]}")

    text = kernel.ok("error, = set(errors)\nprint(error)").stdout
    assert "is busy, most likely with the code that waits for this call; nothing was sent." in text
    assert "`await asyncio.gather(*(asyncio.to_thread(f, x) for x in xs))` instead of a pool" in text
    assert kernel.ok("await host.call('keeper:ping', n=9)\nlen(errors), called").text == "(4, [9])"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", INTERRUPTED)
def test_interrupt_releases_a_pool(kernel: Kernel, form: str, door: str) -> None:
    text, code = INTERRUPTED[form]
    cell = kernel.start(f"door, tool = {door}, 'hold'\n{code}")
    kernel.until_stream(cell, text)
    kernel.interrupt()

    assert kernel.finish(cell).ename in ("KeyboardInterrupt", "CancelledError")
    assert kernel.ok("await host.call('keeper:ping', n=9)\nanswers").text == "[]"
    assert kernel.ok("while set(called) - {9} != set(cancelled): await asyncio.sleep(0.01)").status == "ok"
    assert kernel.ok("bool(errors), len(called) > 1").text == f"(True, {form == 'awaits'})"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("door", DOORS)
def test_calls_that_were_sent_say_that_they_may_have_run(kernel: Kernel, door: str) -> None:
    kernel.ok(
        f"door, tool = {door}, 'hold'\npool = ThreadPoolExecutor(2)\nwork = [pool.submit(visit, n) for n in range(4)]\n"
        "while len(called) < 2: await asyncio.sleep(0)\nfor one in work: one.result()"
    )
    kernel.ok("while len(cancelled) < 2: await asyncio.sleep(0.01)")

    errors = kernel.ok("print(*errors, sep='\\n')").stdout
    assert len(re.findall("this call is cancelled, and may have run", errors)) == 2
    assert len(re.findall("nothing was sent", errors)) == 2
    assert kernel.ok("sorted(called) == sorted(cancelled), len(called)").text == "(True, 2)"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("door", DOORS)
def test_a_call_that_was_sent_outlives_a_cell_that_computes(kernel: Kernel, door: str) -> None:
    kernel.ok(
        f"door, tool = {door}, 'hold'\nthread = threading.Thread(target=visit, args=(1,))\nthread.start()\n"
        f"while not called: await asyncio.sleep(0)\n{COMPUTE.format('3 * loops.BUSY_SECONDS')}\ngate.set()"
    )

    assert kernel.ok("await asyncio.to_thread(thread.join)\nanswers, errors").text == "([1], [])"


def test_a_thread_waits_for_a_cell_that_computes(kernel: Kernel) -> None:
    start = "door, tool = magic, 'ping'\nthread = threading.Thread(target=visit, args=(1,))\nthread.start()"
    kernel.ok(f"{start}\n{COMPUTE.format('loops.BLOCKED_SECONDS + 1')}")

    assert kernel.ok("await asyncio.to_thread(thread.join)\nanswers, errors").text == "([1], [])"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("fork", FORKS)
def test_a_forked_child_is_refused_at_once(kernel: Kernel, fork: str, door: str) -> None:
    kernel.ok(f"def visited(n):\n    return {door}('ping', 1)")
    cell = kernel.run(FORKS[with_joblib(fork)])

    assert "forked child" in cell.evalue
    assert 'multiprocessing.get_context("spawn")' in cell.evalue
    assert kernel.ok("await host.call('keeper:ping', n=9)\ncalled").text == "[9]"
