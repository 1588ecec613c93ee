from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import MATH, connect_in_process

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

SERVER = """
import asyncio, os, sys
from mcp.server.mcpserver import MCPServer

probe = MCPServer("probe", log_level="ERROR")

@probe.tool()
async def how(x: int = 0) -> dict:
    "Says whether the loop that runs this was nested by the magic."
    await asyncio.sleep(0)
    frame, names = sys._getframe(), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return {"how": "nested" if "run_nested" in names else "awaited", "x": x}

@probe.tool()
async def until_done(name: str) -> str:
    "Waits for an asyncio.Event of the notebook."
    await asyncio.wait_for(globals()[name].wait(), 20)
    return f"{name} is set"
"""

PATCHED = "'nest_asyncio2' in sys.modules, hasattr(asyncio.get_running_loop(), '_nest_patched')"


@pytest.fixture(scope="module", autouse=True)
def probe(kernel: Kernel) -> None:
    kernel.ok(SERVER)
    kernel.ok("%mcp connect probe")


AWAITED = {
    "alone": "%mcp call how x=1",
    "assigned": "r = %mcp call how x=1\nr",
    "cell magic with a body": '%%mcp call how\n{"x": 1}',
    "in a for loop": "for i in range(2):\n    r = %mcp call how x=$i\nr",
    "in an if": "if True:\n    r = %mcp call how x=1\nr",
    "in a with": "with open(os.devnull):\n    r = %mcp call how x=1\nr",
    "in a try": "try:\n    r = %mcp call how x=1\nfinally:\n    pass\nr",
    "in a while": "r = None\nwhile r is None:\n    r = %mcp call how x=1\nr",
    "in a match": "match 1:\n    case 1:\n        r = %mcp call how x=1\nr",
    "in an except block": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    r = %mcp call how x=1\nr",
    "after text that is not ASCII": "'ä€😀'; r = get_ipython().run_line_magic('mcp', 'call how x=1'); r",
    "several in a line of Python": (
        "a, r = get_ipython().run_line_magic('mcp', 'call how'), get_ipython().run_line_magic('mcp', 'call how x=1')\nr"
    ),
    "written in Python": 'get_ipython().run_line_magic("mcp", "call how x=1")',
    "with a variable": "number = 1\nr = %mcp call how x=$number\nr",
}

NESTED = {
    "%time": "%time r = get_ipython().run_line_magic('mcp', 'call how x=1')\nr",
    "%time of a magic": "%time %mcp call how x=1",
    "%%time": "%%time\nr = %mcp call how x=1\nr",
    "%%capture": "%%capture said\nr = %mcp call how x=1",
    "%timeit": "%timeit -n1 -r1 seen.append(get_ipython().run_line_magic('mcp', 'call how x=1'))\nr = seen[-1]",
    "function": "def f():\n    r = %mcp call how x=1\n    return r\nf()",
    "function with its own variable": "def f(x):\n    r = %mcp call how x=$x\n    return r\nf(1)",
    "function with an expression": "def f(x):\n    r = %mcp call how x={x*2}\n    return r\nf(0.5 and 1/2)",
    "async function": "async def f(x):\n    r = %mcp call how x=$x\n    return r\nawait f(1)",
    "lambda": "f = lambda: get_ipython().run_line_magic('mcp', 'call how x=1')\nf()",
    "list comprehension": "[get_ipython().run_line_magic('mcp', 'call how x=1') for _ in range(2)][1]",
    "generator": "next(get_ipython().run_line_magic('mcp', 'call how x=1') for _ in range(1))",
    "class body": "class C:\n    r = %mcp call how x=1\nC.r",
    "code in a string": "eval(\"get_ipython().run_line_magic('mcp', 'call how x=1')\")",
}


def test_until_something_nests_the_loop_is_not_patched(kernel: Kernel) -> None:
    for code in AWAITED.values():
        kernel.ok(code)

    assert kernel.ok(PATCHED).text == "(False, False)"


@pytest.mark.parametrize("code", AWAITED.values(), ids=AWAITED)
def test_at_top_level_the_magic_is_awaited(kernel: Kernel, code: str) -> None:
    kernel.ok(code)

    assert kernel.ok("_.data").text == "{'how': 'awaited', 'x': 1}"


def test_a_cell_shows_an_awaited_value_once_and_prints_nothing(kernel: Kernel) -> None:
    cell = kernel.ok("%mcp call how x=1")

    assert "awaited" in cell.text
    assert cell.streams == {}


def test_an_assigned_value_is_not_shown(kernel: Kernel) -> None:
    assert kernel.ok("r = %mcp call how x=1").outputs == []


def test_button_click_is_answered_while_a_magic_waits(kernel: Kernel) -> None:
    made = kernel.ok(
        "import ipywidgets\nclicked = asyncio.Event()\nbutton = ipywidgets.Button()\n"
        "button.on_click(lambda _: clicked.set())\nbutton.model_id"
    )
    waiting = kernel.start("print('waiting', flush=True)\n%mcp call until_done name=clicked")
    kernel.until_stream(waiting, "waiting")

    click = {"method": "custom", "content": {"event": "click"}}
    kernel.send("comm_msg", {"comm_id": made.text.strip("'"), "data": click})
    cell = kernel.finish(waiting)

    assert cell.text == "clicked is set"


def test_a_task_of_another_cell_goes_on_while_a_magic_waits(kernel: Kernel) -> None:
    kernel.ok(
        "finished = asyncio.Event()\nasync def work():\n    for _ in range(100):\n        await asyncio.sleep(0.001)\n"
        "    finished.set()\ntask = asyncio.create_task(work())"
    )

    assert kernel.ok("%mcp call until_done name=finished").text == "finished is set"


@pytest.mark.parametrize("code", NESTED.values(), ids=NESTED)
def test_where_no_await_may_stand_the_loop_is_nested(kernel: Kernel, code: str) -> None:
    kernel.ok("r, seen = None, []")
    shown = kernel.ok(code).outputs

    value = "_" if shown else "r"
    assert kernel.ok(f"{value}.data").text == "{'how': 'nested', 'x': 1}"


def test_after_a_nested_one_top_level_magics_are_still_awaited(kernel: Kernel) -> None:
    kernel.ok("(lambda: get_ipython().run_line_magic('mcp', 'call how'))()")
    kernel.ok("r = %mcp call how")

    assert kernel.ok("r.data['how']").text == "'awaited'"


def test_time_measures_the_call(kernel: Kernel) -> None:
    assert "Wall time" in kernel.ok("%%time\nr = %mcp call how x=1").stdout


def test_without_autoawait_the_loop_is_nested(kernel: Kernel) -> None:
    kernel.ok("%autoawait off")
    try:
        kernel.ok("r = %mcp call how x=1")
        assert kernel.ok("r.data['how']").text == "'nested'"
    finally:
        kernel.ok("%autoawait asyncio")


def test_a_task_goes_on_while_a_nested_magic_waits(kernel: Kernel) -> None:
    kernel.ok(
        "later = asyncio.Event()\nasync def work():\n    await asyncio.sleep(0.01)\n    later.set()\n"
        "task = asyncio.create_task(work())\ndef f():\n    r = %mcp call until_done name=later\n    return r"
    )

    assert kernel.ok("f()").text == "later is set"


@pytest.mark.parametrize(("kind", "how"), [("def", "awaited"), ("async def", "nested")])
def test_a_tool_in_the_notebook_may_use_the_magic_itself(kernel: Kernel, kind: str, how: str) -> None:
    # the SDK runs a plain function in a thread, from which the coroutine goes to the kernel's loop
    kernel.ok(
        f"@probe.tool()\n{kind} {how}_one() -> str:\n"
        "    return get_ipython().run_line_magic('mcp', 'call how x=7').data['how']\n"
    )
    kernel.ok("%mcp tools probe --refresh")

    assert kernel.ok(f"%mcp call {how}_one").text == how


def test_a_value_of_one_cell_is_there_in_the_next(kernel: Kernel) -> None:
    kernel.ok("first = %mcp call how x=3")

    assert kernel.ok("r = %mcp call how x={first.data['x'] + 1}\nr.data['x']").text == "4"


def test_connect_returns_the_connection(kernel: Kernel) -> None:
    kernel.ok("connection = %mcp connect probe")

    assert kernel.ok("type(connection).__name__, connection.name, connection.state").text == (
        "('Connection', 'probe', 'open')"
    )


def test_plain_python_shares_the_host_with_the_magic(kernel: Kernel) -> None:
    kernel.ok("from mcp_magic import host")

    assert kernel.ok("(await host.call('probe:how', x=2)).data").text == "{'how': 'awaited', 'x': 2}"
    assert kernel.ok("(await host['probe'].tools.how(x=2)).data['x']").text == "2"


@pytest.mark.parametrize("line", ["%mcp", "%mcp --help", "%mcp call --help", "%mcp tools", "%mcp tool how"])
def test_every_form_shows_one_value(kernel: Kernel, line: str) -> None:
    cell = kernel.ok(line)

    assert cell.text
    assert cell.streams == {}


def test_question_mark_shows_help(kernel: Kernel) -> None:
    reply = kernel.client.execute("%mcp?", reply=True, timeout=60)

    assert "%mcp call SERVER:TOOL name=value" in str(reply["content"]["payload"])


def test_semicolon_silences_output_and_is_not_in_the_value(kernel: Kernel) -> None:
    connect_in_process(kernel, MATH, "math")
    assert kernel.ok("%mcp call math:add a=1 b=2;").outputs == []
    assert kernel.ok("value = %mcp call math:add a=1 b=2;\nvalue.data").text == "3"
