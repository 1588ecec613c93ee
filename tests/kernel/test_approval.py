"""Consent in real kernels: by clicks where they are delivered to a running cell, by `input()` where not."""

import pytest

from tests.support.frontends import Frontend, Person
from tests.support.kernel_servers import ASKS_FORECAST, FORECASTS, LOAD
from tests.support.started_kernels import THIS_KERNEL, started

SETUP = (LOAD, FORECASTS, "%mcp connect weather", "from mcp_magic import host\nimport asyncio")
CALL = ASKS_FORECAST
BACKGROUND = (
    "both = [asyncio.create_task(host['weather'].call_tool('forecast', {'location': l}, asker='agent'))\n"
    "        for l in ('Bonn', 'Ulm')]"
)
subshells = pytest.mark.parametrize("person", [THIS_KERNEL, "kernel72", "kernel630"], indirect=True, scope="module")


@pytest.fixture(scope="module", params=[THIS_KERNEL, "kernel630"])
def person(request, tmp_path_factory):
    """Somebody before a frontend that shows widgets; ipykernel 7.2 is used through a subshell, 6.30 by input()."""
    if request.param == THIS_KERNEL:
        yield Person(request.getfixturevalue("frontend"), clicks=True)
        return
    with started(tmp_path_factory.mktemp(request.param), SETUP, request.param) as running:
        yield Person(running, clicks=request.param != "kernel630")


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """Each test starts without rules, and leaves no widget behind."""
    fixture = request.getfixturevalue("person" if "person" in request.fixturenames else "frontend")
    kernel = (fixture.frontend if isinstance(fixture, Person) else fixture).kernel
    kernel.ok("host.consent.rules.clear()\ncalled.clear()\nhost.consent.audit.records.clear()")
    yield
    kernel.ok("%config MCPMagics.approval_timeout = 300.0\n%config MCPMagics.ask_with = 'auto'")
    assert kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"


def decisions(text):
    return [line.split(" by ")[0] for line in text.splitlines()]


@subshells
def test_a_call_that_is_approved_goes_out_while_the_cell_waits(person):
    cell = person.frontend.start(CALL)
    person.approve(cell)
    person.frontend.finish(cell)
    assert "'London 1'" in cell.lines
    assert person.frontend.line("called") == "['London']"
    if person.clicks:
        assert cell.lines[0].startswith("✓ approved weather:forecast(location=London) by you, ")


@subshells
def test_several_calls_wait_at_the_same_time(person):
    cell = person.frontend.start(f"{BACKGROUND}\n[r.text for r in await asyncio.gather(*both)]")
    person.approve_two(cell)
    assert "['Bonn 1', 'Ulm 1']" in person.frontend.finish(cell).lines


@subshells
def test_interrupt_ends_the_wait(person):
    cell = person.frontend.start(CALL)
    person.sees(cell)
    person.frontend.stop(cell)
    assert person.frontend.line("called") == "[]"
    if person.clicks:
        assert cell.shown_error == "CancelledError: interrupted"
        assert cell.lines[0].startswith("… interrupted weather:forecast(location=London)")
    else:
        assert (cell.ename, len(cell.shown_error.splitlines())) == ("DeniedError", 1)
    again = person.frontend.start(CALL)
    person.approve(again)
    assert "'London 1'" in person.frontend.finish(again).lines


def test_a_call_is_denied_if_nobody_answers_in_time(person):
    person.frontend.kernel.ok("%config MCPMagics.approval_timeout = 0.3")
    cell = person.frontend.start(CALL)
    person.sees(cell)
    person.frontend.finish(cell)
    said = "weather:forecast was not called; denied by time-out: you did not answer within 0.3 s."
    assert cell.evalue.startswith(said)
    assert person.frontend.line("called") == "[]"
    if person.clicks:
        assert cell.lines[0].startswith("… not answered weather:forecast(location=London)")


def test_a_magic_waits_as_well_and_stops_on_interrupt(person):
    line, frontend = "%mcp call weather:forecast location=Oslo", person.frontend
    frontend.kernel.ok("%mcp ask weather:*")
    cell = frontend.start(line)
    if person.clicks:
        assert frontend.asks(cell, "Approve").startswith("You are about to call weather:forecast")
    person.approve(cell)
    assert "Oslo 1" in frontend.finish(cell).lines
    cell = frontend.start(line)
    frontend.panel(cell) if person.clicks else frontend.awaits_input()
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    nested = frontend.start("def f():\n    r = %mcp call weather:forecast location=Oslo\n    return r\nf().text")
    assert frontend.answer("y") == ["Approve weather:forecast? [y]es, [n]o, [e]dit, [a]lways, [d]eny always: "]
    assert frontend.finish(nested).lines == ["'Oslo 1'"]


def test_what_was_viewed_of_a_hidden_value_is_in_no_output(frontend):
    frontend.kernel.ok("%config MCPMagics.ask_with = 'input'")
    sent = "{'password': 'hunter' + '22'}"
    cell = frontend.start(f"r = await host['weather'].call_tool('login', {sent}, asker='agent')\nr.text")
    assert frontend.answer("v", "", "y")[:2] == [
        "Approve weather:login? [y]es, [n]o, [e]dit, [a]lways, [d]eny always, [v]iew hidden: ",
        "Enter hides it again: ",
    ]
    frontend.finish(cell)
    assert {"'8 characters'", "hidden again"} <= {*cell.lines}
    assert not any("hunter22" in line for line in cell.lines)


def test_without_input_a_call_is_denied_at_once(person):
    cell = person.frontend.run(CALL, stdin=False)
    assert cell.evalue == (
        "weather:forecast was not called; denied by default: you cannot be asked here, where no input is allowed; "
        "MCP_MAGIC_APPROVAL=auto allows what no rule asks about. `%mcp allow weather:forecast` would allow it."
    )
    assert not cell.live
    person.frontend.kernel.ok("%mcp allow weather:forecast --first")
    assert person.frontend.run(CALL, stdin=False).lines == ["'London 1'"]


@subshells
def test_a_task_that_outlives_its_cell_asks_below_it(person):
    frontend, asking = person.frontend, CALL.splitlines()[0]
    cell = frontend.run(
        f"go = asyncio.Event()\nasync def later():\n    await go.wait()\n    {asking}\n"
        "task = asyncio.create_task(later())"
    )
    opener = frontend.run("go.set()")
    frontend.read_until(lambda: bool(cell.live or opener.live), what="a panel")
    frontend.click("Approve")
    frontend.read_until(lambda: not (cell.live or opener.live), what="the panel is gone")
    frontend.run("await task")
    assert frontend.line("called") == "['London']"
    if person.clicks:  # ipykernel 6 shows what a task shows below the latest cell
        assert cell.lines[0].startswith("✓ approved weather:forecast(location=London) by you")


@subshells
def test_cells_have_their_own_panels_and_lines(person):
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
    assert frontend.line("[(await task).text for task in both]") == "['Bonn 1', 'Ulm 1']"
    assert later.evalue == "weather:forecast was not called; denied by the user."
    approved = "✓ approved weather:forecast"
    assert decisions("\n".join(earlier.lines)) == [f"{approved}(location=Bonn)", f"{approved}(location=Ulm)"]
    denied = ["⊘ denied weather:forecast(location=London)"] if person.clicks else []
    assert decisions("\n".join(later.lines)) == denied


def test_later_call_is_asked_in_panel_of_its_cell(frontend):
    """Decided one by one, in any order, while the last cell is another one."""
    earlier = frontend.run(
        f"go = asyncio.Event()\n{BACKGROUND}\nasync def third():\n    await go.wait()\n    {CALL.splitlines()[0]}\n"
        "    return r.text\nlast = asyncio.create_task(third())"
    )
    frontend.panel(earlier, 2)
    latest = frontend.run("go.set()")
    frontend.panel(earlier, 3)
    assert not latest.live
    for button, number, left in (("Deny", 1, 2), ("Approve", 1, 1), ("Approve", 0, 0)):
        frontend.click(button, number, cell=earlier)
        frontend.panel(earlier, left)
    frontend.read_until(lambda: not earlier.live, what="the panel is gone")
    assert frontend.line("await last, (await both[0]).text") == "('London 1', 'Bonn 1')"
    assert frontend.run("await both[1]").ename == "DeniedError"
    assert decisions(earlier.lines[0]) == [
        "⊘ denied weather:forecast(location=Ulm)",
        "✓ approved weather:forecast(location=London)",
        "✓ approved weather:forecast(location=Bonn)",
    ]


def test_call_caused_by_a_click_is_asked_below_latest_cell(frontend):
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
    assert frontend.line("(await task).text") == "'Ulm 1'"
    frontend.run("for one in (button, button.layout, button.style): one.close()")


def test_a_console_is_asked_by_input_and_a_setting_says_how(frontend):
    console = frontend.start(CALL, cell=False)
    frontend.answer("y")
    assert frontend.finish(console).lines == ["'London 1'"]
    assert "agent wants to call weather:forecast" in console.stdout
    for way in ("panel", "input"):
        frontend.kernel.ok(f"%config MCPMagics.ask_with = '{way}'")
        cell = frontend.start(CALL, cell=way == "input", stdin=way == "input")
        Person(frontend, clicks=way == "panel").approve(cell)
        assert "'London 1'" in frontend.finish(cell).lines, way


def test_the_persons_own_approver_is_kept(frontend):
    frontend.kernel.ok(
        "from mcp_magic.consent.consent import Decision\nasked, before = [], host.approver\n"
        "async def mine(request):\n    asked.append(request.name)\n    return Decision.deny('mine')\n"
        "host.approver = mine"
    )
    frontend.kernel.ok("%mcp")
    cell = frontend.run(CALL)
    frontend.kernel.ok("host.approver = before")
    assert cell.evalue == "weather:forecast was not called; denied by the user: mine."
    assert frontend.line("asked") == "['weather:forecast']"


def test_ipykernel_7_2_without_subshells_asks_by_input(tmp_path):
    counts = (
        "import ipywidgets\nmade, usual = [], ipywidgets.Layout.open\n"
        "ipywidgets.Layout.open = lambda layout: (made.append(1), usual(layout))[1]"
    )
    with started(tmp_path, (*SETUP, counts), "kernel72") as running:
        frontend = Frontend(running.kernel, subshells=False)
        for _ in range(2):
            cell = frontend.start(CALL)
            frontend.answer("y")
            assert frontend.finish(cell).lines == ["'London 1'"]
        assert frontend.line("len(made)") == "1", "a subshell is looked for once"


def test_first_import_of_host_is_ready_to_ask(start):
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
