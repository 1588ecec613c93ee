"""The explorer, over real sessions."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import time
from contextlib import closing
from typing import Any

import ipywidgets
import psutil
import pytest
from ipywidgets.widgets.widget import _instances as alive
from mcp_types import ListResourcesResult, ListResourceTemplatesResult, ResourceTemplate, Tool

from benchmarks.explorer import many_servers
from mcp_magic.activity import REST_SECONDS
from mcp_magic.config.parsing import Variables
from mcp_magic.config.servers import make_spec
from mcp_magic.config.specs import InProcessSpec, StdioSpec
from mcp_magic.errors import UnknownServerError
from mcp_magic.ipython.cells import CellRun, close_previous, keep
from mcp_magic.ui.explorer import Explorer, Index, about, make_item, search
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support import bundled
from tests.support.clocks import jump
from tests.support.explorers import choose, explored, rows, server_rows, silent, text
from tests.support.odd_server import TOOL, connected
from tests.support.waiting import until
from tests.support.widgets import receive

# What is shown at first


async def test_servers_and_kinds_are_counted(explorer, host):
    shown = server_rows(explorer)
    assert list(shown) == ["showcase", "math"]
    assert shown["math"][0].startswith("● open in-process MCPServer 'math'")
    assert "1 resource, 1 template, 1 prompt" in shown["math"][0]
    assert [button.description for button in shown["math"][1]] == ["Reconnect", "Disconnect"]
    counts = {k: sum(len(c.catalog.cached(k)) for c in host.find()) for k in ("tools", "resources", "prompts")}
    labels = [label for label, _ in explorer.filter.kinds.options]
    assert labels[0] == f"tools ({counts['tools']})"
    assert labels[1] == f"resources ({counts['resources']})"
    assert labels[3] == f"prompts ({counts['prompts']})"
    assert len(rows(explorer)) == 25
    assert text(explorer.items.label) == f"1\u201325 of {counts['tools']} tools"
    explorer.filter.search.value = "math:add"
    badges = explorer.items.box.children[0].children[1].value
    assert "○ read-only" in badges
    assert "the server, which you trust, says that it changes nothing" in badges


async def test_one_server_can_be_asked_for_or_clicked(explorer, host):
    total = len(explorer.matches)
    explorer.servers.pages.box.children[1].children[0].click()
    assert {item.server for item in explorer.matches} == {"math"}
    assert text(explorer.items.label) == f"{len(explorer.matches)} tools of math"
    explorer.servers.pages.box.children[1].children[0].click()
    assert len(explorer.matches) == total
    with explored(host, "math") as one:
        assert {item.server for item in one.matches} == {"math"}
        assert "▸ math" in server_rows(one)
    with pytest.raises(UnknownServerError, match="Did you mean 'math'"):
        Explorer(host, "maht")


async def test_what_cannot_be_used_is_in_the_row_of_its_server(host):
    async with connected(host, {"tools/list": {"tools": [TOOL, {"name": 5}]}}) as connection:
        await connection.listing("tools")
        with explored(host) as explorer:
            assert "1 unusable (5: its name is 5, not a text)" in server_rows(explorer)["odd"][0]
            assert rows(explorer) == ["good"]


async def test_without_servers_one_is_connected_by_what_is_typed(host):
    with explored(host) as explorer:
        assert text(explorer.servers.pages.label) == "No server is connected yet."
        assert "no server is connected" in explorer._repr_mimebundle_()["text/plain"]
        explorer.servers.target.value = "no_such_file.py"
        receive(explorer.servers.target, {"event": "submit"})
        await explorer.wait()
        assert "no_such_file.py" in text(explorer.status)
        explorer.servers.target.value = bundled.command("math_server")[1]
        explorer.servers.button.click()
        assert explorer.servers.button.description == "Cancel"
        await explorer.wait()
        assert "● open" in next(iter(server_rows(explorer).values()))[0]
        assert explorer.servers.target.value == text(explorer.status) == ""
        assert "add" in rows(explorer), "the only server is not named in each row"


async def test_connecting_is_seen_with_its_time_and_can_be_cancelled(host):
    waits = asyncio.Event()

    async def never(target: str) -> None:
        waits.set()
        await asyncio.sleep(600)

    with explored(host, connect=never) as explorer:
        explorer.servers.target.value = "slow"
        explorer.servers.button.click()
        await waits.wait()
        await until(lambda: re.match(r"slow · \d", text(explorer.status)) is not None)
        explorer.servers.button.click()
        await explorer.wait()
        assert text(explorer.status) == ""
        assert explorer.servers.button.description == "Connect"


# Searching


async def test_each_keystroke_narrows_the_list_and_makes_no_widget(explorer):
    before = set(alive)
    seen = []
    for typed in ("f", "fa", "fact", "factorial"):
        explorer.filter.search.value = typed
        seen.append(len(explorer.matches))
        assert rows(explorer) == [item.label for item in explorer.items.page]
    assert seen == sorted(seen, reverse=True)
    assert rows(explorer)[0] == "math:factorial"
    explorer.filter.search.value = "constants"
    assert rows(explorer) == []
    total = text(explorer.items.label).split()[2]
    assert text(explorer.items.label) == (
        f"0 of {total} tools: no name, title or description has all words of 'constants'. "
        "It matches 1 resource. Delete the text in Search to see all."
    )
    explorer.filter.search.value = ""
    explorer.items.next.click()
    assert set(alive) == before


REPORT = "export_the_quarterly_report_of_all_customers_in_region_{}_to_the_archive_of_invoices"
LINES = [f"synchronise_customer_{letter}_records_with_stock" for letter in "ab"]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param(LINES, LINES, id="two lines"),
        pytest.param([REPORT], ["export_the_quarterly_report_of…{}_to_the_archive_of_invoices"], id="too long"),
        pytest.param(
            [f"{REPORT.format(region)}_and_of_all_other_papers" for region in ("north", "south", "south_2")],
            [
                "export_the_q…egion_north_to_the_archive_of_invo…other_papers",
                "export_the_q…egion_south_to_the_archive_of_invo…other_papers",
                "export_the_q…egion_south_2_to_the_archive_of_in…other_papers",
            ],
            id="alike at both ends",
        ),
        pytest.param(["", "  ", "\t", " a"], ["''", r"'\x20\x20'", r"'\t'", "' a'"], id="white space"),
    ],
)
async def test_names_read_apart(host, names, shown):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    async with connected(host, {"tools/list": {"tools": tools}}):
        with explored(host) as explorer:
            buttons = [row.children[0] for row in explorer.items.box.children]
            assert [button.description for button in buttons] == shown
            assert all(name in button.tooltip for name, button in zip(names, buttons, strict=True) if name.strip())


async def test_full_garbage_collections_wait_until_the_person_pauses(explorer):
    young, middle, old = normal = gc.get_threshold()
    explorer.filter.search.value = "f"
    explorer.filter.search.value = "fa"
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > old
    await until(lambda: gc.get_threshold() == normal)
    try:
        explorer.filter.search.value = "f"
        gc.set_threshold(5000, 7, 9)
        explorer.filter.search.value = "fa"
        await until(lambda: gc.get_threshold() == (5000, 7, 9))
        explorer.filter.search.value = "fac"
        gc.set_threshold(6000, 7, 9)
        jump(2 * REST_SECONDS)
        await asyncio.sleep(0.01)
        assert gc.get_threshold() == (6000, 7, 9), "what is set while the person types stays"
    finally:
        gc.set_threshold(*normal)
    gc.collect()
    explorer.filter.search.value = "f"
    held = [[] for _ in range(400_000)]  # more than a quarter of what there is: Python collects all
    runs = gc.get_stats()[2]["collections"]
    await until(lambda: gc.get_stats()[2]["collections"] > runs)
    assert held


async def test_search_covers_titles_and_descriptions_in_any_case(servers):
    index = Index()
    index.update(servers.connections.values())
    tools = index.items("tools")
    described = next(i for i in tools if i.definition.description and i.server == "showcase")
    words = described.definition.description.split()[:4]
    assert described in search(tools, " ".join(reversed(words)).upper())
    assert described in search(tools, f"showcase:{described.key}")
    assert search(tools, "  ") == list(tools)
    named = (("a", "", "sends mail"), ("mail", "", ""), ("b", "Mail it", ""))
    mails = [Tool(name=name, title=title, description=said, input_schema={}) for name, title, said in named]
    items = [make_item("tools", "s", tool) for tool in mails]
    assert [item.key for item in search(items, "mail")] == ["mail", "b", "a"], "names before titles before the rest"


async def test_pages_are_turned_and_a_new_search_begins_at_the_first(explorer):
    first = rows(explorer)
    assert explorer.items.previous.disabled
    explorer.items.next.click()
    assert not set(first) & set(rows(explorer))
    assert text(explorer.items.label).startswith("26\u201350 of ")
    while not explorer.items.next.disabled:
        explorer.items.next.click()
    assert rows(explorer)[-1] == explorer.matches[-1].label
    explorer.items.next.click()  # a click that comes late
    assert rows(explorer)[-1] == explorer.matches[-1].label
    explorer.filter.search.value = "s"
    assert rows(explorer)[0] == explorer.matches[0].label
    explorer.filter.search.value = ""
    assert rows(explorer) == first


# Choosing


async def test_choosing_a_tool_shows_its_card_and_marks_its_row(explorer):
    explorer.filter.search.value = "math:divide"
    choose(explorer, "math:divide")
    card = text(explorer.detail.card)
    tool = explorer.matches[0].definition
    shown = (tool.description.split("\n")[0], *tool.input_schema["properties"], "%mcp call math:divide", "returns")
    assert [part for part in shown if part not in card] == []
    assert rows(explorer)[0] == "▸ math:divide"
    explorer.detail.hide.click()
    assert rows(explorer)[0] == "math:divide"
    assert explorer.detail.widget.children == ()


@pytest.mark.parametrize(
    ("kind", "typed", "label", "line"),
    [
        ("tools", "math:add", "math:add", "%mcp call math:add"),
        ("resources", "math://c", "math://constants", "%mcp read math://constants --server math"),
        ("templates", "math://t", "math://table/{n}", "%mcp read 'math://table/{n}' --server math"),
        ("prompts", "explain", "math:explain", "%mcp prompt math:explain topic="),
    ],
)
async def test_each_kind_is_searched_and_has_its_line_and_form(explorer, kind, typed, label, line):
    explorer.filter.kinds.value, explorer.filter.search.value = kind, typed
    assert rows(explorer) == [label]
    choose(explorer, label)
    assert line in explorer.detail.card.value.replace("&#x27;", "'")
    if kind == "resources":
        return
    before = set(alive)
    explorer.detail.open.click()
    form = explorer.detail.form
    assert form.widget in explorer.detail.widget.children
    assert set(alive) > before
    if kind == "tools":
        form.set_arguments({"a": 2, "b": 40})
        await form.run()
        assert form.result.data == 42
    explorer.detail.back.click()
    assert set(alive) == before
    assert explorer.detail.card in explorer.detail.widget.children


async def test_invalid_template_keeps_its_card_and_says_why(host):
    from mcp.server import Server

    async def list_templates(context: Any, params: Any) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[ResourceTemplate(name="bad", uri_template="bad://{a")])

    async def list_resources(context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    server = Server("silent", on_list_resources=list_resources, on_list_resource_templates=list_templates)
    await host.connect_spec(InProcessSpec(server=server), "silent")
    await host["silent"].listing("templates")
    with explored(host) as explorer:
        explorer.filter.kinds.value = "templates"
        choose(explorer, "bad://{a")
        explorer.detail.open.click()
        assert "bad://{a cannot be filled in" in text(explorer.detail.note)
        assert explorer.detail.card in explorer.detail.widget.children


async def test_a_resource_is_read_in_place_or_says_why_not(explorer, host):
    explorer.only("math")
    explorer.filter.kinds.value = "resources"
    choose(explorer, "math://constants")
    explorer.detail.read.click()
    form = explorer.detail.form
    assert form.running
    await until(lambda: not form.running)
    assert '"pi"' in form.result.text
    assert form.code == "%mcp read math://constants --server math"
    before = set(alive)
    form.start()  # again: the new result takes the place of the old one
    await until(lambda: not form.running)
    assert len(alive) == len(before)
    await host["math"].close()
    form.start()
    await until(lambda: not form.running)
    assert "%mcp reconnect" in str(form.error)
    explorer.update()
    assert "The session of math is closed; Connect in its row" in text(explorer.detail.note)


async def test_what_a_hostile_server_says_is_text(explorer):
    for kind in ("tools", "resources", "templates", "prompts"):
        explorer.filter.kinds.value = kind
        for item in explorer.matches:
            explorer.choose(item)
            assert not re.search(r"<(script|img|iframe|h1|textarea)", explorer.detail.card.value), item.label
    explorer.filter.kinds.value, explorer.filter.search.value = "tools", "hostile"
    shown = [row.children[1].value for row in explorer.items.box.children]
    assert any("&lt;" in about for about in shown)
    assert not any(re.search(r"<(script|img)", about) for about in shown)
    definition = Tool(name="a", description="Reads `x<b>` & <i>more</i>", input_schema={"type": "object"})
    row = about(make_item("tools", "s", definition), None)
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;more&lt;/i&gt;" in row, "what stands in backticks is code"
    assert "`" not in row


# Following


async def test_a_tool_that_a_server_announces_shows_up(explorer, host):
    explorer.filter.search.value = "extra_seen"
    assert rows(explorer) == []
    async with asyncio.timeout(60):
        number = 0
        while not rows(explorer):  # a notice before the stream of changes is open is not repeated
            number += 1
            await host["showcase"].call("add_tool", name=f"seen_{number}")
            await asyncio.sleep(0.1)
    assert rows(explorer)[0] == "showcase:extra_seen_1"
    assert text(explorer.items.label).startswith(f"{len(explorer.matches)} of ")


async def test_a_server_that_comes_or_goes_shows_up(explorer, host):
    await host.connect_spec(many_servers(1, 30)["server0"], "late")
    await until(lambda: "late" in server_rows(explorer))
    explorer.filter.search.value = "late:"
    await until(lambda: len(explorer.matches) == 30)
    await host.disconnect("late")
    await until(lambda: "late" not in server_rows(explorer))
    assert explorer.matches == []


async def test_ended_server_shows_lost_and_can_reconnect(host):
    before = set(psutil.Process().children(recursive=True))
    spec = StdioSpec(command=sys.executable, args=(bundled.command("math_server")[1],))
    await host.connect_many({"process": spec, "other": many_servers(1, 1)["server0"]})
    with explored(host) as explorer:
        explorer.filter.search.value = "process:add"
        await until(lambda: rows(explorer) == ["process:add"])
        choose(explorer, "process:add")
        for child in set(psutil.Process().children(recursive=True)) - before:
            child.kill()
        await until(lambda: "✗ lost" in server_rows(explorer)["process"][0])
        over = "The session of process is lost; Connect in its row or %mcp reconnect process opens it again."
        assert rows(explorer) == ["▸ process:add"]
        assert text(explorer.detail.note) == f"✗ {over}"
        assert text(explorer.items.label).endswith(f" tools\n{over}")
        explorer.detail.clear()
        for label in ("process:subtract", "process:add"):
            explorer.filter.search.value = label
            choose(explorer, label)
            assert text(explorer.detail.note) == f"✗ {over}"
        button = server_rows(explorer)["process"][1][0]
        assert button.description == "Connect"
        button.click()
        assert "working" in server_rows(explorer)["process"][0]
        await explorer.wait()
        assert "● open" in server_rows(explorer)["process"][0]
        assert rows(explorer) == ["▸ process:add"]
        assert text(explorer.detail.note) == ""
        assert "The session" not in text(explorer.items.label)


async def test_disconnected_server_can_be_connected_in_explorer(explorer, host):
    server_rows(explorer)["math"][1][1].click()
    await explorer.wait()
    assert "math" not in host
    shown, buttons = server_rows(explorer)["math"]
    assert shown.startswith("○ not connected")
    assert [button.description for button in buttons] == ["Connect"]
    buttons[0].click()
    await explorer.wait()
    assert host["math"].state == "open"
    assert server_rows(explorer)["math"][0].startswith("● open")


async def test_configured_server_is_offered_and_failure_is_told(host):
    with explored(host, offered={"broken": StdioSpec(command="no-such-command-anywhere")}) as explorer:
        server_rows(explorer)["broken"][1][0].click()
        await explorer.wait()
        assert "no-such-command-anywhere" in text(explorer.status)
        assert not server_rows(explorer)["broken"][1][0].disabled


async def test_row_says_what_is_isolated_and_where_secrets_are(host):
    table = {"command": "server", "env": {"TOKEN": "${keyring:acme/db}"}, "sandbox": {"net": ["a.b:443"]}}
    with explored(host, offered={"box": make_spec(table, variables=Variables({}, None))}) as explorer:
        row = server_rows(explorer)["box"][0]
    assert row.endswith("isolated: read nothing, write nothing, net a.b:443 · secrets: TOKEN from keyring acme/db")


async def test_refresh_asks_the_servers_again_and_changes_the_card(host):
    one, two = (Tool(name=name, description="old words", input_schema={"type": "object"}) for name in ("one", "two"))
    tools = await silent(host, one)
    with explored(host, "silent") as explorer:
        assert rows(explorer) == ["one"]
        choose(explorer, "silent:one")
        tools[:] = [one.model_copy(update={"description": "new words"}), two]
        explorer.refresh_button.click()
        await explorer.wait()
        await until(lambda: rows(explorer) == ["▸ one", "two"])
        await until(lambda: "new words" in text(explorer.detail.card))


async def test_clicks_and_keystrokes_may_come_from_another_thread(explorer):
    def type_and_click() -> None:
        explorer.filter.search.value = "math:add"
        explorer.refresh_button.click()

    thread = threading.Thread(target=type_and_click)
    thread.start()
    await until(lambda: rows(explorer)[:1] == ["math:add"])
    thread.join()
    await explorer.wait()


@pytest.mark.timed
async def test_ten_thousand_tools_stay_usable(host):
    await host.connect_many(many_servers(50, 200))
    before = len(alive)
    started = time.thread_time()
    with explored(host) as explorer:
        assert time.thread_time() - started < 1.0
        made = len(alive) - before
        assert made < 250, "widgets are made for what is shown"
        assert text(explorer.items.label) == "1\u201325 of 10,000 tools"
        for typed in ("w", "weather", "weather 4", "server49 weather", "zzz", ""):
            started = time.thread_time()
            explorer.filter.search.value = typed
            assert time.thread_time() - started < 0.1, typed
        assert len(alive) - before == made
        explorer.filter.search.value = "server7:weather_8"
        assert rows(explorer) == ["server7:weather_8", "server7:weather_80", "server7:weather_88"]
        assert text(explorer.items.label) == "3 of 10,000 tools"
        assert text(explorer.servers.pages.label) == "1\u20138 of 50 servers"


# Display and closing


async def test_explorer_is_a_widget_whose_buttons_have_tooltips(explorer):
    bundle = explorer._repr_mimebundle_()
    assert bundle[WIDGET_VIEW]["model_id"] == explorer.widget.model_id
    assert re.search(r"showcase +open +in-process", bundle["text/plain"])
    assert "<table" in bundle["text/html"]
    assert "%mcp ui" in bundle["text/html"]
    assert list(explorer._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    explorer.choose(explorer.matches[0])
    buttons = [widget for widget in alive.values() if isinstance(widget, ipywidgets.Button)]
    assert len(buttons) > 30
    assert [button for button in buttons if not button.description or not button.tooltip] == []
    assert all(button.tabbable is not False for button in buttons)
    assert explorer.filter.search.description == "Search"


async def test_a_closed_explorer_has_no_comm_and_still_shows_text(servers):
    before = set(alive)
    with closing(Explorer(servers)) as explorer:
        explorer.filter.search.value = "math:add"
        choose(explorer, "math:add")
        explorer.detail.open.click()
        explorer.close()
    assert set(alive) == before
    assert WIDGET_VIEW not in explorer._repr_mimebundle_()
    await servers.disconnect("math")
    assert "math" not in explorer._repr_mimebundle_()["text/plain"]
    assert repr(explorer) == "<Explorer of 1 server (closed)>"
    assert not explorer.matches  # IPython keeps it in `Out`, but its items are not kept with it
    assert servers.registry._callbacks == {}


async def test_runs_of_a_cell_leave_one_explorer_and_deleting_none(servers):
    before = set(alive)
    sizes, explorers = set(), []
    for run in range(3):
        explorers.append(keep(Explorer(servers), CellRun("cell", f"run {run}")))
        explorers[-1].filter.search.value = "add"
        explorers[-1].choose(explorers[-1].matches[0])
        explorers[-1].detail.open.click()
        sizes.add(len(alive))
        assert [each.closed for each in explorers] == [True] * run + [False]
    assert len(sizes) == 1
    close_previous(CellRun(deleted=("cell",)))
    assert set(alive) == before
    first, second = (keep(Explorer(servers), CellRun("cell", "run")) for _ in range(2))
    assert not first.closed
    other = keep(Explorer(servers), CellRun("other", "run", deleted=("cell",)))
    assert (first.closed, second.closed, other.closed) == (True, True, False)
    nowhere = [keep(Explorer(servers), CellRun()) for _ in range(2)]
    assert not any(explorer.closed for explorer in nowhere)
    for explorer in (other, *nowhere):
        explorer.close()
    close_previous(CellRun(deleted=("other",)))
