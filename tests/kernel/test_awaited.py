"""A magic at the top level of a cell is awaited, so that the kernel's loop goes on; elsewhere the loop is nested."""

import pytest

from tests.support.kernel_servers import LOAD

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
SETUP = [LOAD, SERVER, "%mcp connect probe"]
PYTHON = "get_ipython().run_line_magic('mcp', 'call how x=1')"

AWAITED = {
    "alone": "%mcp call how x=1",
    "assigned": "r = %mcp call how x=1\nr",
    "cell magic": '%%mcp call how\n{"x": 1}',
    "for": "for i in range(2):\n    r = %mcp call how x=$i\nr",
    "if": "if True:\n    r = %mcp call how x=1\nr",
    "with": "with open(os.devnull):\n    r = %mcp call how x=1\nr",
    "try": "try:\n    r = %mcp call how x=1\nfinally:\n    pass\nr",
    "while": "r = None\nwhile r is None:\n    r = %mcp call how x=1\nr",
    "match": "match 1:\n    case 1:\n        r = %mcp call how x=1\nr",
    "except": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    r = %mcp call how x=1\nr",
    "not ASCII": f"'ä€😀'; r = {PYTHON}; r",
    "several": f"a, r = get_ipython().run_line_magic('mcp', 'call how'), {PYTHON}\nr",
    "Python": 'get_ipython().run_line_magic("mcp", "call how x=1")',
    "variable": "number = 1\nr = %mcp call how x=$number\nr",
}
NESTED = {
    "%time": f"%time r = {PYTHON}\nr",
    "%time of a magic": "%time %mcp call how x=1",
    "%%time": "%%time\nr = %mcp call how x=1\nr",
    "%%capture": "%%capture said\nr = %mcp call how x=1",
    "%timeit": f"%timeit -n1 -r1 seen.append({PYTHON})\nr = seen[-1]",
    "function": "def f():\n    r = %mcp call how x=1\n    return r\nf()",
    "its variable": "def f(x):\n    r = %mcp call how x=$x\n    return r\nf(1)",
    "expression": "def f(x):\n    r = %mcp call how x={x*2}\n    return r\nf(0.5 and 1/2)",
    "async function": "async def f(x):\n    r = %mcp call how x=$x\n    return r\nawait f(1)",
    "lambda": f"f = lambda: {PYTHON}\nf()",
    "comprehension": f"[{PYTHON} for _ in range(2)][1]",
    "generator": f"next({PYTHON} for _ in range(1))",
    "class body": "class C:\n    r = %mcp call how x=1\nC.r",
    "eval": f"eval({PYTHON!r})",
}


def test_at_top_level_the_magic_is_awaited_and_nothing_patched(kernel):
    for form, code in AWAITED.items():
        cell = kernel.ok(code)
        assert kernel.ok("_.data").text == "{'how': 'awaited', 'x': 1}", form
        assert ("awaited" in cell.text, cell.streams) == (True, {}), form
    assert kernel.ok("r = %mcp call how x=1").outputs == []
    patched = "'nest_asyncio2' in sys.modules, hasattr(asyncio.get_running_loop(), '_nest_patched')"
    assert kernel.ok(patched).text == "(False, False)"


def test_click_and_task_go_on_while_a_magic_waits(kernel):
    made = kernel.ok(
        "import ipywidgets\nclicked = asyncio.Event()\nbutton = ipywidgets.Button()\n"
        "button.on_click(lambda _: clicked.set())\nbutton.model_id"
    )
    waiting = kernel.start("print('waiting', flush=True)\n%mcp call until_done name=clicked")
    kernel.until_stream(waiting, "waiting")
    click = {"method": "custom", "content": {"event": "click"}}
    kernel.send("comm_msg", {"comm_id": made.text.strip("'"), "data": click})
    assert kernel.finish(waiting).text == "clicked is set"
    later = "finished = asyncio.Event()\nasync def work():\n    await asyncio.sleep(0.05)\n    finished.set()\n"
    kernel.ok(f"{later}task = asyncio.create_task(work())")
    assert kernel.ok("%mcp call until_done name=finished").text == "finished is set"
    kernel.ok(f"{later}def f():\n    r = %mcp call until_done name=finished\n    return r")
    assert kernel.ok("task = asyncio.create_task(work())\nf()").text == "finished is set"


def test_magic_nests_the_loop_where_await_is_not_allowed(kernel):
    for form, code in NESTED.items():
        kernel.ok("r, seen = None, []")
        value = "_" if kernel.ok(code).outputs else "r"
        assert kernel.ok(f"{value}.data").text == "{'how': 'nested', 'x': 1}", form
    assert "Wall time" in kernel.ok(NESTED["%%time"]).stdout
    kernel.ok("r = %mcp call how")
    assert kernel.ok("r.data['how']").text == "'awaited'", "after nested ones, too"


def test_without_autoawait_the_loop_is_nested(kernel):
    kernel.ok("%autoawait off")
    try:
        kernel.ok("r = %mcp call how x=1")
        assert kernel.ok("r.data['how']").text == "'nested'"
    finally:
        kernel.ok("%autoawait asyncio")


@pytest.mark.parametrize(("kind", "how"), [("def", "awaited"), ("async def", "nested")])
def test_a_tool_in_the_notebook_may_use_the_magic_itself(kernel, kind, how):
    # the SDK runs a plain function in a thread, from which the coroutine goes to the kernel's loop
    kernel.ok(
        f"@probe.tool()\n{kind} {how}_one() -> str:\n"
        "    return get_ipython().run_line_magic('mcp', 'call how x=7').data['how']\n"
    )
    kernel.ok("%mcp tools probe --refresh")
    assert kernel.ok(f"%mcp call {how}_one").text == how


def test_values_go_from_cell_to_cell_and_to_plain_python(kernel):
    kernel.ok("first = %mcp call how x=3")
    assert kernel.ok("r = %mcp call how x={first.data['x'] + 1}\nr.data['x']").text == "4"
    kernel.ok("c = %mcp connect probe")
    assert kernel.ok("type(c).__name__, c.name, c.state").text == "('Connection', 'probe', 'open')"
    kernel.ok("from mcp_magic import host")
    assert kernel.ok("(await host.call('probe:how', x=2)).data").text == "{'how': 'awaited', 'x': 2}"
    assert kernel.ok("(await host['probe'].tools.how(x=2)).data['x']").text == "2"


def test_every_form_shows_one_value_unless_a_semicolon_ends_it(kernel):
    for line in ("%mcp", "%mcp --help", "%mcp call --help", "%mcp tools", "%mcp tool how"):
        cell = kernel.ok(line)
        assert (bool(cell.text), cell.streams) == (True, {}), line
    reply = kernel.client.execute("%mcp?", reply=True, timeout=60)
    assert "%mcp call SERVER:TOOL name=value" in str(reply["content"]["payload"])
    assert kernel.ok("%mcp call probe:how x=5;").outputs == []
    assert kernel.ok("value = %mcp call probe:how x=5;\nvalue.data['x']").text == "5"
