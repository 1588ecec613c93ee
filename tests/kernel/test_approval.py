"""Consent in real kernels: by clicks where they are delivered to a running cell, by `input()` where not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.frontends import Frontend, Person
from tests.support.started_kernels import started
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.kernels import Kernel

SERVER = """
from mcp.server.mcpserver import MCPServer

weather = MCPServer("weather", log_level="ERROR")
called = []

@weather.tool()
def forecast(location: str, days: int = 1) -> str:
    "Tells the weather."
    called.append(location)
    return f"{location} {days}"

@weather.tool()
def login(password: str) -> str:
    "Logs in."
    return f"{len(password)} characters"
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect weather", "from mcp_magic import host\nimport asyncio")
CALL = "r = await host['weather'].call_tool('forecast', {'location': 'London'}, asker='agent')\nr.text"
NESTED = (
    "def f():\n"
    "    loop = asyncio.get_running_loop()\n"
    "    return get_ipython().run_line_magic('mcp', 'call weather:forecast location=Oslo')\n"
    "f().text"
)


@pytest.fixture(scope="module", params=["this kernel", "kernel72", "kernel630"])
def person(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Somebody before a frontend that shows widgets; ipykernel 7.2 is used through a subshell, 6.30 by input()."""
    with started(tmp_path_factory.mktemp(request.param.replace(" ", "-")), SETUP, request.param) as running:
        yield Person(running, clicks=request.param != "kernel630")


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test starts without rules, and leaves no widget behind."""
    asked = [name for name in ("person", "frontend") if name in request.fixturenames]
    kernels = [
        value.frontend.kernel if isinstance(value, Person) else value.kernel
        for value in map(request.getfixturevalue, asked)
    ]
    for kernel in kernels:
        kernel.ok("host.consent.rules.clear(); called.clear(); host.consent.audit.records.clear()")
    yield
    for kernel in kernels:
        kernel.ok("%config MCPMagics.approval_timeout = 300.0")
        kernel.ok("%config MCPMagics.ask_with = 'auto'")
        assert kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


def test_a_call_that_is_approved_goes_out_while_the_cell_waits(person: Person) -> None:
    cell = person.frontend.start(CALL)
    person.approve(cell)
    person.frontend.finish(cell)

    assert "'London 1'" in cell.lines
    assert person.frontend.kernel.ok("called").text == "['London']"
    if person.clicks:
        assert cell.lines[0].startswith("✓ approved weather:forecast(location=London) by you, ")


def test_a_denial_reaches_the_asker_with_its_reason(person: Person) -> None:
    cell = person.frontend.start(CALL)
    person.deny(cell, "too far")
    person.frontend.finish(cell)

    assert cell.ename == "DeniedError"
    assert cell.evalue == "weather:forecast was not called; denied by the user: too far."
    assert person.frontend.kernel.ok("called").text == "[]"


def test_call_goes_out_with_edited_arguments(person: Person) -> None:
    cell = person.frontend.start(CALL)
    person.approve_changed(cell, {"location": "Paris", "days": 3})
    person.frontend.finish(cell)

    assert "'Paris 3'" in cell.lines
    record = person.frontend.kernel.ok("a = host.consent.audit.records[-1]\n(a.decision, a.by, a.changed)").text
    assert record == "('edit', 'person', ('location', 'days'))"


def test_what_is_always_approved_is_not_asked_again(person: Person) -> None:
    cell = person.frontend.start(CALL)
    person.approve_always(cell)
    person.frontend.finish(cell)

    again = person.frontend.run(CALL)

    assert again.lines == ["'London 1'"]
    assert person.frontend.kernel.ok("[str(r) for r in host.consent.rules]").text == "['allow weather:forecast']"


def test_several_calls_wait_at_the_same_time(person: Person) -> None:
    cell = person.frontend.start(
        "both = await asyncio.gather(*(host['weather'].call_tool('forecast', {'location': l}, asker='agent')\n"
        "                              for l in ('Oslo', 'Rome')))\n[r.text for r in both]"
    )
    person.approve_two(cell)
    person.frontend.finish(cell)

    assert "['Oslo 1', 'Rome 1']" in cell.lines
    assert person.frontend.kernel.ok("sorted(called)").text == "['Oslo', 'Rome']"


def test_nobody_answers_in_time(person: Person) -> None:
    person.frontend.kernel.ok("%config MCPMagics.approval_timeout = 0.3")
    cell = person.frontend.start(CALL)
    question = person.sees(cell)
    person.frontend.finish(cell)

    assert "agent wants to call weather:forecast" in question
    said = "weather:forecast was not called; denied by time-out: you did not answer within 0.3 s."
    assert cell.evalue.startswith(said)
    assert person.frontend.kernel.ok("called").text == "[]"
    if person.clicks:
        assert cell.lines[0].startswith("… not answered weather:forecast(location=London)")


@pytest.mark.timed
@tried_again
def test_interrupt_ends_the_wait(person: Person) -> None:
    cell = person.frontend.start(CALL)
    person.sees(cell)
    started = time.monotonic()
    person.frontend.kernel.interrupt()
    person.frontend.finish(cell)

    soon(time.monotonic() - started, 2)
    assert cell.ename == ("CancelledError" if person.clicks else "DeniedError")
    assert len(cell.shown_error.splitlines()) == 1
    if person.clicks:
        assert cell.shown_error == "CancelledError: interrupted"
    assert person.frontend.kernel.ok("called").text == "[]"
    if person.clicks:
        assert cell.lines[0].startswith("… interrupted weather:forecast(location=London)")
    again = person.frontend.start(CALL)
    person.approve(again)
    assert "'London 1'" in person.frontend.finish(again).lines


def test_a_magic_waits_as_well_and_stops_on_interrupt(person: Person) -> None:
    person.frontend.kernel.ok("%mcp ask weather:*")
    cell = person.frontend.start("%mcp call weather:forecast location=Oslo")
    if person.clicks:
        person.frontend.panel(cell)
        assert next(iter(cell.displays.values()))["text/plain"].startswith("You are about to call weather:forecast")
        person.frontend.click("Approve", cell=cell)
        assert "Oslo 1" in person.frontend.finish(cell).lines
        cell = person.frontend.start("%mcp call weather:forecast location=Oslo")
        person.frontend.panel(cell)
    else:
        person.frontend.answer("y")
        assert "Oslo 1" in person.frontend.finish(cell).lines
        cell = person.frontend.start("%mcp call weather:forecast location=Oslo")
        person.frontend.awaits_input()
    person.frontend.kernel.interrupt()

    assert person.frontend.finish(cell).ename == "KeyboardInterrupt"


def test_a_nested_magic_asks_by_input(person: Person) -> None:
    person.frontend.kernel.ok("%mcp ask weather:*")
    cell = person.frontend.start(NESTED)

    [prompt] = person.frontend.answer("y")

    assert prompt == "Approve weather:forecast? [y]es, [n]o, [e]dit, [a]lways, [d]eny always: "
    assert person.frontend.finish(cell).lines == ["'Oslo 1'"]


def test_what_was_viewed_of_a_hidden_value_is_in_no_output(frontend: Frontend) -> None:
    frontend.kernel.ok("%config MCPMagics.ask_with = 'input'")
    sent = "{'password': 'hunter' + '22'}"
    cell = frontend.start(f"r = await host['weather'].call_tool('login', {sent}, asker='agent')\nr.text")
    assert frontend.answer("v", "") == [
        "Approve weather:login? [y]es, [n]o, [e]dit, [a]lways, [d]eny always, [v]iew hidden: ",
        "Enter hides it again: ",
    ]
    frontend.answer("y")
    frontend.finish(cell)

    assert "'8 characters'" in cell.lines
    assert "hidden again" in cell.lines
    assert not any("hunter22" in line for line in cell.lines)


def test_without_input_a_call_is_denied_at_once(person: Person) -> None:
    cell = person.frontend.start(CALL, stdin=False)
    person.frontend.finish(cell)

    assert cell.evalue == (
        "weather:forecast was not called; denied by default: you cannot be asked here, where no input is allowed; "
        "MCP_MAGIC_APPROVAL=auto allows what no rule asks about. `%mcp allow weather:forecast --first` would allow it."
    )
    assert not cell.live
    person.frontend.kernel.ok("%mcp allow weather:forecast --first")
    assert person.frontend.run(CALL, stdin=False).lines == ["'London 1'"]


def test_a_task_that_outlives_its_cell_asks_below_it(person: Person) -> None:
    cell = person.frontend.run(
        "go = asyncio.Event()\nasync def later():\n    await go.wait()\n"
        "    r = await host['weather'].call_tool('forecast', {'location': 'Bonn'}, asker='agent')\n"
        "task = asyncio.create_task(later())"
    )
    opener = person.frontend.run("go.set()")
    person.frontend.read_until(lambda: bool(cell.live or opener.live), what="a panel")
    person.frontend.click("Approve")
    person.frontend.read_until(lambda: not (cell.live or opener.live), what="the panel is gone")

    person.frontend.run("await task")
    assert person.frontend.kernel.ok("called").text == "['Bonn']"
    if person.clicks:  # ipykernel 6 shows what a task shows below the latest cell
        assert cell.lines[0].startswith("✓ approved weather:forecast(location=Bonn) by you")


BACKGROUND = (
    "both = [asyncio.create_task(host['weather'].call_tool('forecast', {'location': l}, asker='agent'))\n"
    "        for l in ('Bonn', 'Ulm')]"
)


def test_cells_have_their_own_panels_and_lines(person: Person) -> None:
    """The calls of a cell's tasks wait while the next cell asks, and are decided apart from that one."""
    frontend = person.frontend
    earlier = frontend.run(BACKGROUND)
    frontend.panel(earlier, 2)
    later = frontend.start(CALL)
    if person.clicks:
        frontend.panel(later)
        frontend.panel(earlier, 2)
        frontend.click("Approve all", cell=earlier)
        frontend.read_until(lambda: not earlier.live, what="the first panel is gone")
        assert later.live
        frontend.click("Deny", cell=later)
    else:
        frontend.answer("n", "")
        frontend.finish(later)
        frontend.click("Approve all", cell=earlier)
    frontend.finish(later)
    frontend.read_until(lambda: not earlier.live, what="the first panel is gone")

    assert frontend.run("[(await task).text for task in both]").lines == ["['Bonn 1', 'Ulm 1']"]
    assert later.evalue == "weather:forecast was not called; denied by the user."
    [both] = earlier.lines
    assert [line.split(" by ")[0] for line in both.splitlines()] == [
        "✓ approved weather:forecast(location=Bonn)",
        "✓ approved weather:forecast(location=Ulm)",
    ]
    assert [line.split(" by ")[0] for line in later.lines] == (
        ["⊘ denied weather:forecast(location=London)"] if person.clicks else []
    )


def test_later_call_is_asked_in_panel_of_its_cell(person: Person) -> None:
    """Decided one by one, in any order, while the last cell is another one."""
    if not person.clicks:
        pytest.skip("ipykernel 6 shows what a task asks below the latest cell, not below its own")
    frontend = person.frontend
    earlier = frontend.run(
        "go = asyncio.Event()\n" + BACKGROUND + f"\nasync def third():\n    await go.wait()\n"
        f"    {CALL.splitlines()[0]}\n    return r.text\nlast = asyncio.create_task(third())"
    )
    frontend.panel(earlier, 2)
    latest = frontend.run("go.set()")
    frontend.panel(earlier, 3)
    assert not latest.live
    frontend.click("Deny", 1, cell=earlier)
    frontend.panel(earlier, 2)
    frontend.click("Approve", 1, cell=earlier)
    frontend.panel(earlier, 1)
    frontend.click("Approve", cell=earlier)
    frontend.read_until(lambda: not earlier.live, what="the panel is gone")

    assert frontend.run("await last, (await both[0]).text").lines == ["('London 1', 'Bonn 1')"]
    assert frontend.run("await both[1]").ename == "DeniedError"
    assert [line.split(" by ")[0] for line in earlier.lines[0].splitlines()] == [
        "⊘ denied weather:forecast(location=Ulm)",
        "✓ approved weather:forecast(location=London)",
        "✓ approved weather:forecast(location=Bonn)",
    ]


def test_call_caused_by_a_click_is_asked_below_latest_cell(frontend: Frontend) -> None:
    frontend.run(
        "import ipywidgets\nbutton = ipywidgets.Button(description='Go')\n"
        "def go(_):\n    global task\n"
        "    task = asyncio.create_task(host['weather'].call_tool('forecast', {'location': 'Ulm'}, asker='agent'))\n"
        "button.on_click(go)"
    )
    latest = frontend.run("'the latest'")
    frontend.click("Go")
    frontend.panel(latest)
    frontend.click("Approve")
    frontend.read_until(lambda: not latest.live, what="the panel is gone")

    assert latest.lines[1].startswith("✓ approved weather:forecast(location=Ulm) by you")
    assert frontend.run("(await task).text").lines == ["'Ulm 1'"]
    frontend.run("for one in (button, button.layout, button.style): one.close()")


def test_a_console_is_asked_by_input(frontend: Frontend) -> None:
    cell = frontend.start(CALL, cell=False)
    frontend.answer("y")

    assert frontend.finish(cell).lines == ["'London 1'"]
    assert "agent wants to call weather:forecast" in cell.stdout


@pytest.mark.parametrize("way", ["panel", "input"])
def test_a_setting_says_how_to_ask(frontend: Frontend, way: str) -> None:
    frontend.kernel.ok(f"%config MCPMagics.ask_with = '{way}'")
    cell = frontend.start(CALL, cell=way == "input", stdin=way == "input")

    Person(frontend, clicks=way == "panel").approve(cell)

    assert "'London 1'" in frontend.finish(cell).lines


def test_panel_leaves_lines_that_need_no_kernel(frontend: Frontend) -> None:
    cell = frontend.start(
        "both = await asyncio.gather(*(host['weather'].call_tool('forecast', {'location': l}, asker='agent')\n"
        "                              for l in ('Oslo', '<b>Rome</b>')), return_exceptions=True)"
    )
    frontend.panel(cell, 2)
    frontend.click("Deny", 0, cell=cell)
    frontend.panel(cell, 1)
    frontend.click("Approve", cell=cell)
    frontend.finish(cell)

    [bundle] = cell.displays.values()
    first, second = bundle["text/plain"].splitlines()
    assert first.startswith("⊘ denied weather:forecast(location=Oslo) by you")
    assert second.startswith('✓ approved weather:forecast(location="<b>Rome</b>") by you')
    assert "&lt;b&gt;Rome" in bundle["text/html"]
    assert "<b>Rome" not in bundle["text/html"]
    assert set(bundle) == {"text/plain", "text/html"}
    assert not frontend.models


def test_the_persons_own_approver_is_kept(frontend: Frontend) -> None:
    frontend.kernel.ok(
        "from mcp_magic.consent.consent import Decision\nasked, before = [], host.approver\n"
        "async def mine(request):\n    asked.append(request.name)\n    return Decision.deny('mine')\n"
        "host.approver = mine"
    )
    frontend.kernel.ok("%mcp")
    cell = frontend.run(CALL)
    frontend.kernel.ok("host.approver = before")

    assert cell.evalue == "weather:forecast was not called; denied by the user: mine."
    assert frontend.kernel.ok("asked").text == "['weather:forecast']"


@pytest.mark.timed
@tried_again
def test_ipykernel_7_2_without_subshells_asks_by_input(tmp_path: Path) -> None:
    with started(tmp_path, SETUP, "kernel72") as running:
        frontend = Frontend(running.kernel, subshells=False)
        cell = frontend.start(CALL)
        frontend.answer("y")
        assert frontend.finish(cell).lines == ["'London 1'"]

        begun = time.monotonic()
        cell = frontend.start(CALL)
        frontend.answer("y")
        frontend.finish(cell)
        soon(time.monotonic() - begun, 1.5)  # it is not tried again


def test_first_import_of_host_is_ready_to_ask(start: Callable[..., Kernel]) -> None:
    kernel = start(plain=True)
    kernel.ok("%load_ext mcp_magic")
    kernel.ok("%config MCPMagics.approval_timeout = 7.0")
    assert kernel.ok("import sys\n'mcp_magic.notebook' in sys.modules").text == "False"
    kernel.ok("from mcp_magic import host")
    assert kernel.ok("(host.approver is not None, host.consent.timeout)").text == "(True, 7.0)"

    kernel.ok("%unload_ext mcp_magic")
    assert kernel.ok("host.approver is None").text == "True"
    kernel.ok("%load_ext mcp_magic")
    assert kernel.ok("host.approver is not None").text == "True"
