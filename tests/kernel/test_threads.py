"""Calls from threads: where the cell awaits them, where it waits for them without awaiting, and in forked children."""

import importlib.util

import pytest

from tests.support.kernel_servers import LOAD
from tests.support.processes import PLAIN as PLAIN_SERVER

PLAIN = True
SERVER = """
import asyncio, multiprocessing, threading, time
from concurrent.futures import ThreadPoolExecutor
from mcp.server.mcpserver import MCPServer
from mcp_magic import host
from mcp_magic import loops

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
VISIT = f"""
host.consent.policy = "auto"
tools = {{tool.name.partition("__")[2]: tool for tool in host.langchain_tools()}}
answers, errors = [], []

def magic(tool, n):
    return get_ipython().run_line_magic("mcp", f"call keeper:{{tool}} n={{n}}").data

def method(tool, n):
    return asyncio.run(host.call(f"keeper:{{tool}}", n=n)).data

def langchain(tool, n):
    return int(tools[tool].invoke({{"n": n}}))

def opens(tool, n):
    async def connects():
        return await (await host.connect({PLAIN_SERVER!r}, name="plain")).call("add", a=n, b=2)
    return asyncio.run(connects()).data

def visit(n):
    print("begins", flush=True)
    try:
        answers.append(door(tool, n))
    except Exception as error:
        errors.append(str(error))
"""
SETUP = [LOAD, SERVER, "%mcp connect keeper", VISIT]
DOORS = pytest.mark.parametrize("door", ["magic", "method", "langchain"])
"""How a thread calls a tool: functions of VISIT."""

START = "threads = [threading.Thread(target=visit, args=(n,)) for n in range(4)]\nfor t in threads: t.start()"
WAITS = {
    "join": ("method", f"{START}\nfor t in threads: t.join()"),
    "pool": ("magic", "with ThreadPoolExecutor(2) as pool:\n    list(pool.map(visit, range(4)))"),
    "polling": ("langchain", f"{START}\nwhile any(t.is_alive() for t in threads):\n    time.sleep(0.01)"),
    "joblib": (
        "method",
        "import joblib\njoblib.Parallel(2, backend='threading')(joblib.delayed(visit)(n) for n in range(4))",
    ),
}
POOL = "with ThreadPoolExecutor(2) as pool:\n    "
INTERRUPTED = {
    "waits": ("begins", f"{POOL}list(pool.map(visit, range(4)))"),
    "awaits": (
        "held",
        f"{POOL}loop = asyncio.get_running_loop()\n"
        "    await asyncio.gather(*(loop.run_in_executor(pool, visit, n) for n in range(4)))",
    ),
}
FORKS = {
    "multiprocessing": "with multiprocessing.get_context('fork').Pool(1) as pool:\n    pool.map(visited, [1])",
    # one call: a pool that is given up ends its workers, also one that holds the lock by which the pool ends
    "joblib": "import joblib\njoblib.Parallel(2, backend='multiprocessing')(joblib.delayed(visited)(n) for n in 'a')",
}
JOBLIB = pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="joblib is not installed")


@pytest.fixture(autouse=True)
def nothing_so_far(kernel):
    kernel.ok("for seen in (called, cancelled, answers, errors): seen.clear()\ngate.clear()")


@pytest.fixture
def brief(kernel):
    """Threads wait less long for the loop."""
    kernel.ok("usual = loops.BUSY_SECONDS, loops.BLOCKED_SECONDS\nloops.BUSY_SECONDS = loops.BLOCKED_SECONDS = 0.5")
    yield
    kernel.ok("loops.BUSY_SECONDS, loops.BLOCKED_SECONDS = usual")


@DOORS
def test_threads_that_the_cell_awaits_get_answers(kernel, door):
    kernel.ok(f"door, tool = {door}, 'ping'\nawait asyncio.gather(*(asyncio.to_thread(visit, n) for n in range(4)))")
    assert kernel.ok("sorted(answers), errors").text == "([0, 1, 2, 3], [])"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("wait", ["join", "pool", "polling", pytest.param("joblib", marks=JOBLIB)])
def test_threads_that_the_cell_waits_for_get_an_error(kernel, wait):
    door, code = WAITS[wait]
    kernel.ok(f"door, tool = {door}, 'ping'\n{code}")
    text = kernel.ok("error, = set(errors)\nprint(error)").stdout
    assert "is busy, most likely with the code that waits for this call; nothing was sent." in text
    assert "`await asyncio.gather(*(asyncio.to_thread(f, x) for x in xs))` instead of a pool" in text
    assert kernel.ok("await host.call('keeper:ping', n=9)\nlen(errors), called").text == "(4, [9])"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("form", "door"), [("waits", "magic"), ("awaits", "magic"), ("awaits", "method"), ("awaits", "langchain")]
)
def test_interrupt_releases_a_pool(kernel, form, door):
    text, code = INTERRUPTED[form]
    cell = kernel.start(f"door, tool = {door}, 'hold'\n{code}")
    kernel.until_stream(cell, text)
    assert kernel.stop(cell).ename in ("KeyboardInterrupt", "CancelledError")
    assert kernel.ok("await host.call('keeper:ping', n=9)\nanswers").text == "[]"
    assert kernel.ok("while set(called) - {9} != set(cancelled): await asyncio.sleep(0.01)").status == "ok"
    assert kernel.ok("bool(errors), len(called) > 1").text == f"(True, {form == 'awaits'})"


@pytest.mark.usefixtures("brief")
@DOORS
def test_calls_that_were_sent_say_that_they_may_have_run(kernel, door):
    kernel.ok(
        f"door, tool = {door}, 'hold'\npool = ThreadPoolExecutor(2)\nwork = [pool.submit(visit, n) for n in range(4)]\n"
        "while len(called) < 2: await asyncio.sleep(0)\nfor one in work: one.result()"
    )
    kernel.ok("while len(cancelled) < 2: await asyncio.sleep(0.01)")
    errors = kernel.ok("print(*errors, sep='\\n')").stdout
    assert errors.count("this call is cancelled, and may have run") == errors.count("nothing was sent") == 2
    assert kernel.ok("sorted(called) == sorted(cancelled), len(called)").text == "(True, 2)"


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not sent"])
def test_a_call_outlives_a_cell_that_computes(request, kernel, sent):
    if sent:
        request.getfixturevalue("brief")
    until_then = "end = time.monotonic() + loops.BLOCKED_SECONDS + 1\nwhile time.monotonic() < end:"
    # no flood of output: ZeroMQ would drop the message that the cell has ended
    computes = f"{until_then}\n    print('.', end='', flush=True)\n    beat = time.monotonic() + 0.02"
    computes += "\n    while time.monotonic() < beat: pass"
    waits = "while not called: await asyncio.sleep(0)\n" if sent else ""
    kernel.ok(
        f"door, tool = magic, {'hold' if sent else 'ping'!r}\nthread = threading.Thread(target=visit, args=(1,))\n"
        f"thread.start()\n{waits}{computes}\ngate.set()"
    )
    assert kernel.ok("await asyncio.to_thread(thread.join)\nanswers, errors").text == "([1], [])"


@pytest.mark.parametrize(
    ("fork", "door"),
    [
        *(("multiprocessing", door) for door in ("magic", "method", "langchain")),
        pytest.param("joblib", "method", marks=JOBLIB),
    ],
)
def test_a_forked_child_is_refused_at_once(kernel, fork, door):
    kernel.ok(f"def visited(n):\n    return {door}('ping', 1)")
    cell = kernel.run(FORKS[fork])
    assert "forked child" in cell.evalue
    assert 'multiprocessing.get_context("spawn")' in cell.evalue
    assert kernel.ok("await host.call('keeper:ping', n=9)\ncalled").text == "[9]"


def test_a_session_that_a_thread_opened_lives_on(kernel):
    kernel.ok("door, tool = opens, ''\nawait asyncio.to_thread(visit, 1)")
    assert kernel.ok("answers, errors").text == "([3], [])"
    assert kernel.ok("(await host['plain'].call('add', a=2, b=3)).data").text == "5"
    kernel.ok("door, tool = method, 'ping'\nthread = threading.Thread(target=visit, args=(5,))\nthread.start()")
    assert kernel.ok("await asyncio.to_thread(thread.join)\nanswers").text == "[3, 5]", "the kernel was idle"
