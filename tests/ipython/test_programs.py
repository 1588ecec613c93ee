"""`run_code`: asked each time, seen whole, with outputs of its own, and ended by Interrupt and by its bound of time."""

from __future__ import annotations

import asyncio
import signal
import sys
from types import SimpleNamespace

import pytest
from mcp_types import ImageContent

from mcp_magic.agent.program import Printed
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, DeniedError, SessionError
from mcp_magic.ipython import programs
from mcp_magic.ipython.cells import Cells
from mcp_magic.ipython.programs import RunCode, capture
from mcp_magic.outside.clients import Clients
from mcp_magic.values.shared import SharedValues
from tests.support.hosts import host as host


@pytest.fixture
def answers():
    """What the person answers; by default that the program may run."""
    return []


@pytest.fixture
def asked(host, answers):
    """The requests that the person got."""
    requests = []

    async def approver(request):
        requests.append(request)
        return answers.pop(0) if answers else Decision.approve()

    host.consent.policy = "auto"
    host.consent.approver = approver
    return requests


@pytest.fixture
def cells(shell):
    return Cells(shell)


@pytest.fixture
def values(shell):
    return SharedValues(shell.user_ns).of("1", "codex")


@pytest.fixture
def run(host, shell, cells, values, asked):
    tool, client = RunCode(host, shell, cells), Clients().client("1", "codex")

    async def run(code):
        result = await tool.call({"code": code}, client, values)
        run.images = [block for block in result.content if isinstance(block, ImageContent)]
        run.is_error = result.is_error
        return result.content[0].text

    return run


async def test_it_is_asked_whatever_rules_and_policy_say(host, run, asked, answers):
    host.consent.rules[:] = [Rule("allow", "*"), Rule("allow", ":run_code", asker="outside")]
    answers += [Decision.approve(always="tool"), Decision.deny("not now")]
    assert await run("1 + 1") == "value: 2"
    with pytest.raises(DeniedError, match="denied by the user: not now"):
        await run("1 + 1")
    assert [(request.asker, request.program, request.arguments) for request in asked] == [
        ("outside codex", "kernel", {"code": "1 + 1"})
    ] * 2
    assert [record.asker for record in host.consent.audit.records] == ["outside codex"] * 2


async def test_without_anybody_to_ask_nothing_runs(host, run, shell):
    host.consent.approver = None
    with pytest.raises(DeniedError, match="the person cannot be asked here"):
        await run("ran = 1")
    assert "ran" not in shell.user_ns


async def test_it_runs_like_a_cell(run, shell, capsys):
    shell.user_ns["items"] = [1, 2]
    code = "import asyncio, sys\nawait asyncio.sleep(0)\nprint('out')\nprint('err', file=sys.stderr)\n"
    code += "total = sum(items)\ntotal"
    assert await run(code) == "out\nerr\nvalue: 3\nvariables: total (int)"
    assert shell.user_ns["total"] == 3
    assert "outside codex runs the program that you approved:" in capsys.readouterr().out


async def test_the_person_sees_code_and_outcome(run, monkeypatch):
    bundles = []
    monkeypatch.setattr(programs, "show_below", bundles.append)
    await run("print('<b>hi</b>')\n21 * 2")
    [shown] = bundles
    assert shown["text/plain"] == (
        "outside codex runs the program that you approved:\nprint('<b>hi</b>')\n21 * 2\n\n"
        "What it reads:\n\n<b>hi</b>\nvalue: 42"
    )
    assert "<b>hi" not in shown["text/html"]


async def test_a_failure_says_where_and_why(run):
    assert await run("a = 1\nb = a / 0") == "line 2: ZeroDivisionError: division by zero"
    assert run.is_error
    assert await run("print('before')\nraise KeyboardInterrupt") == "line 2: KeyboardInterrupt: \nIt printed:\nbefore"
    assert (await run("raise SystemExit(3)")).startswith("line 1: SystemExit: 3")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def", "The program was not run, and nothing was called:\nSyntaxError: line 1"),
        ("%pip install x", "Plain Python only: no %magic and no !command."),
        ("", "code is a text"),
        (3, "code is a text"),
        ("x" * 30_000, "the program has 30,000 characters; at most 20,000 are valid"),
    ],
)
async def test_what_is_no_program_is_not_asked_about(run, asked, code, problem):
    with pytest.raises(ArgumentsError) as caught:
        await run(code)
    assert problem in str(caught.value)
    assert asked == []


async def test_what_the_person_changes_is_what_runs(run, answers):
    answers.append(Decision.approve({"code": "1 + 2"}))
    assert await run("1 + 1") == "[the person changed the code to]\n1 + 2\n[end of the code]\nvalue: 3"


async def test_a_large_value_becomes_a_variable_of_the_client(run, shell, values):
    text = await run("[{'n': n} for n in range(5_000)]")
    assert len(text) < 11_000
    assert text.endswith('[result_1 is this value: `read_value` reads it, and {"$value": "result_1"} passes it on]')
    assert len(values.get("result_1")) == 5_000
    assert SharedValues(shell.user_ns).of("2").names() == ()


async def test_the_variable_of_the_client_is_a_copy(run, shell, values):
    shell.user_ns["mine"] = mine = {"rows": ["x"] * 20_000}
    assert "result_1 is this value" in await run("mine")
    mine["rows"][0] = "a secret of later"
    shell.user_ns["result_1"]["rows"][1] = "another"
    assert values.get("result_1")["rows"][1] == "x"
    assert values.get("result_1")["rows"][0] == "x"


async def test_a_number_of_numpy_is_a_number(run, values):
    assert await run("import numpy as np\nnp.int64(42)") == "value: 42"
    assert values.names() == ()


async def test_a_table_is_read_in_its_lines(run):
    text = await run("import pandas as pd\npd.DataFrame({'city': ['Oslo', 'Rome']})")
    assert text.startswith("value:\n   city\n0  Oslo\n1  Rome\n[result_1 is this value: ")


async def test_a_client_that_goes_ends_its_program(host, shell, cells, values, asked, monkeypatch):
    shown = []
    monkeypatch.setattr(programs, "show_below", shown.append)
    shell.user_ns["here"] = here = asyncio.Event()
    code = "import asyncio\nhere.set()\nawait asyncio.sleep(60)"
    call = RunCode(host, shell, cells).call({"code": code}, Clients().client("1", "codex"), values)
    running = asyncio.create_task(call)
    await here.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shown[-1]["text/plain"].endswith("[nothing: it has gone, and the program was ended]")


async def test_output_is_bounded_and_masked(run):
    text = await run("print('API_KEY=hunter2222')\nprint('x' * 300_000)")
    assert len(text) < 11_000
    assert "hunter2222" not in text


async def test_an_image_goes_with_the_text(run):
    await run("class Plot:\n    def _repr_png_(self):\n        return b'png'\nPlot()")
    assert [(image.mime_type, image.data.strip()) for image in run.images] == [("image/png", "cG5n")]


async def test_one_runs_at_a_time(run, shell):
    shell.user_ns["log"] = log = []
    code = "import asyncio\nlog.append('begin')\nfor _ in range(5):\n    await asyncio.sleep(0)\nlog.append('end')"
    await asyncio.gather(run(code), run(code))
    assert log == ["begin", "end"] * 2


async def test_what_others_print_meanwhile_is_not_its_output(run, shell, capsys):
    shell.user_ns["go"] = go = asyncio.Event()
    shell.user_ns["here"] = here = asyncio.Event()
    running = asyncio.create_task(run("print('mine')\nhere.set()\nawait go.wait()\nprint('done')"))
    await here.wait()
    print("the person's")
    go.set()
    assert await running == "mine\ndone"
    assert "the person's" in capsys.readouterr().out
    assert not isinstance(sys.stdout, programs._Stream)


async def test_it_waits_for_the_cell_that_runs(run, cells, monkeypatch):
    monkeypatch.setattr(Cells, "parent", lambda self: {"header": {"msg_type": "execute_request", "msg_id": "1"}})
    cells._starts()
    running = asyncio.create_task(run("'ran'"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    cells._ends()
    assert "ran" in await running
    cells._starts()
    monkeypatch.setattr(programs, "TURN_SECONDS", 0.01)
    with pytest.raises(SessionError, match=r"a cell has been running .* Nothing was run: call again when it has ended"):
        await run("'ran'")


async def test_interrupt_ends_it(run):
    send = "asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)"
    text = await run(f"import asyncio, signal\nprint('so far')\n{send}\nawait asyncio.sleep(9)")
    assert text == (
        "KeyboardInterrupt: the person interrupted it. What it had done until then stays.\nIt printed:\nso far"
    )
    assert await run("1") == "value: 1"


@pytest.mark.parametrize("code", ["await asyncio.sleep(9)", "for _ in range(10**8): pass", "time.sleep(9)"])
async def test_it_ends_when_its_time_is_over(run, monkeypatch, code):
    monkeypatch.setattr(programs, "SECONDS", 0.05)
    monkeypatch.setattr(programs, "AGAIN_SECONDS", 0.05)
    before = signal.getsignal(signal.SIGINT)
    assert "and was ended. What it had done" in await run(f"import asyncio, time\n{code}")
    assert signal.getsignal(signal.SIGINT) == before


async def test_what_is_displayed_in_a_kernel_is_taken(shell):
    hooks = []
    publisher = SimpleNamespace(register_hook=hooks.append, unregister_hook=hooks.remove)
    printed = Printed()
    with capture(SimpleNamespace(display_pub=publisher), printed):
        [take] = hooks
        assert take({"content": {"data": {"text/plain": "a table", "text/html": "<table>"}}}) is None
        assert take({"content": {"data": {"text/plain": "<Figure>", "image/png": "cG5n\n"}}}) is None
        assert take({"content": {"data": {"text/plain": "<Figure>", "image/png": "cG5n"}}}) is None
    assert str(printed) == "a table\n"
    assert [image.base64 for image in printed.images] == ["cG5n"]
    assert take({"content": {}}) == {"content": {}}
    assert hooks == []
