"""The explorer, over real sessions."""

from __future__ import annotations

import asyncio
import gc
import html
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ipywidgets.widgets.widget import _instances as alive
from mcp_types import Tool

from benchmarks.explorer import many_servers
from mcp_magic._host import Host
from mcp_magic.activity import REST_SECONDS
from mcp_magic.config.specs import InProcessSpec, StdioSpec
from mcp_magic.errors import UnknownServerError
from mcp_magic.ipython.cells import CellRun, close_previous, keep
from mcp_magic.ui.explorer import Explorer, Index, about, make_item, search
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support import bundled
from tests.support.odd_server import TOOL, connected
from tests.support.widgets import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def host(host: Host) -> Host:
    await host.connect_many(
        {
            "showcase": InProcessSpec(server=bundled.load("showcase_server").server),
            "math": InProcessSpec(server=bundled.load("math_server").server, trust=True),
        }
    )
    return host


@pytest.fixture
async def explorer(host: Host) -> AsyncIterator[Explorer]:
    explorer = Explorer(host)
    yield explorer
    explorer.close()


def text(widget: Any) -> str:
    """What an HTML widget reads."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", widget.value, flags=re.DOTALL)).strip()


def rows(explorer: Explorer) -> list[str]:
    """The names on the page of items that is shown."""
    return [row.children[0].description for row in explorer.items.box.children]


def server_rows(explorer: Explorer) -> dict[str, tuple[str, list[Any]]]:
    """What is shown of each server: name, text, buttons."""
    return {
        row.children[0].description: (text(row.children[1]), list(row.children[2:]))
        for row in explorer.servers.pages.box.children
    }


def choose(explorer: Explorer, label: str) -> None:
    """Click the row of an item; of one server alone the rows have no prefix."""
    names = (label, label.partition(":")[2])
    next(row for row in explorer.items.box.children if row.children[0].description in names).children[0].click()


def enter(field: Any) -> None:
    """Press Enter in a text field, as the page does it."""
    field._handle_custom_msg({"event": "submit"}, [])


# What is shown at first


async def test_servers_show_state_transport_and_counts(explorer: Explorer) -> None:
    shown = server_rows(explorer)
    assert list(shown) == ["showcase", "math"]
    assert shown["math"][0].startswith("● open in-process MCPServer 'math'")
    assert "1 resource, 1 template, 1 prompt" in shown["math"][0]
    assert [button.description for button in shown["math"][1]] == ["Reconnect", "Disconnect"]


async def test_kinds_show_counts_and_a_page_of_tools(explorer: Explorer, host: Host) -> None:
    counts = {k: sum(len(c.catalog.cached(k)) for c in host.find()) for k in ("tools", "resources", "prompts")}
    labels = [label for label, _ in explorer.kinds.options]
    assert labels[0] == f"tools ({counts['tools']})"
    assert labels[1] == f"resources ({counts['resources']})"
    assert labels[3] == f"prompts ({counts['prompts']})"
    assert len(rows(explorer)) == 25
    assert text(explorer.items.label) == f"1\u201325 of {counts['tools']} tools"


async def test_rows_have_the_badges_with_their_explanations(explorer: Explorer) -> None:
    explorer.search.value = "math:add"
    about = explorer.items.box.children[0].children[1].value
    assert "○ read-only" in about
    assert "the server, which you trust, says that it changes nothing" in about


async def test_one_server_can_be_asked_for(host: Host) -> None:
    explorer = Explorer(host, "math")
    assert {item.server for item in explorer.found} == {"math"}
    assert "▸ math" in server_rows(explorer)
    explorer.close()
    with pytest.raises(UnknownServerError, match="Did you mean 'math'"):
        Explorer(host, "maht")


async def test_server_click_filters_and_second_click_shows_all(explorer: Explorer) -> None:
    total = len(explorer.found)
    explorer.servers.pages.box.children[1].children[0].click()
    assert {item.server for item in explorer.found} == {"math"}
    assert text(explorer.items.label) == f"{len(explorer.found)} tools of math"
    explorer.servers.pages.box.children[1].children[0].click()
    assert len(explorer.found) == total


async def test_what_cannot_be_used_is_in_the_row_of_its_server() -> None:
    async with Host() as host, connected(host, {"tools/list": {"tools": [TOOL, {"name": 5}]}}) as connection:
        await connection.listing("tools")
        explorer = Explorer(host)
        assert "1 unusable (5: its name is 5, not a text)" in server_rows(explorer)["odd"][0]
        assert rows(explorer) == ["good"]
        explorer.close()


async def test_without_servers_one_is_connected_by_what_is_typed() -> None:
    host = Host()
    explorer = Explorer(host)
    assert text(explorer.servers.pages.label) == "No server is connected yet."
    assert "no server is connected" in explorer._repr_mimebundle_()["text/plain"]
    explorer.servers.target.value = "no_such_file.py"
    enter(explorer.servers.target)
    await explorer.settled()
    assert "no_such_file.py" in text(explorer.status)
    explorer.servers.target.value = bundled.command("math_server")[1]
    explorer.servers.button.click()
    assert explorer.servers.button.description == "Cancel"
    await explorer.settled()
    assert "● open" in next(iter(server_rows(explorer).values()))[0]
    assert explorer.servers.target.value == text(explorer.status) == ""
    assert "add" in rows(explorer), "the only server is not named in each row"
    explorer.close()
    await host.close()


async def test_connecting_is_seen_with_its_time_and_can_be_cancelled(host: Host) -> None:
    waits = asyncio.Event()

    async def never(target: str) -> None:
        waits.set()
        await asyncio.sleep(600)

    explorer = Explorer(host, connect=never)
    explorer.servers.target.value = "slow"
    explorer.servers.button.click()
    await waits.wait()
    await until(lambda: re.match(r"slow · \d", text(explorer.status)) is not None)
    explorer.servers.button.click()
    await explorer.settled()
    assert text(explorer.status) == ""
    assert explorer.servers.button.description == "Connect"
    explorer.close()


# Searching


async def test_each_keystroke_narrows_the_list(explorer: Explorer) -> None:
    seen = []
    for typed in ("f", "fa", "fact", "factorial"):
        explorer.search.value = typed
        seen.append(len(explorer.found))
        assert rows(explorer) == [item.label for item in explorer.items.shown]
    assert seen == sorted(seen, reverse=True)
    assert rows(explorer)[0] == "math:factorial"
    explorer.search.value = "constants"
    assert rows(explorer) == []
    total = text(explorer.items.label).split()[2]
    assert text(explorer.items.label) == (
        f"0 of {total} tools: no name, title or description has all words of 'constants'. "
        "It matches 1 resource. Delete the text in Search to see all."
    )


REPORT = "export_the_quarterly_report_of_all_customers_in_region_{}_to_the_archive_of_invoices"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param(
            ["synchronise_customer_a_records_with_stock", "synchronise_customer_b_records_with_stock"],
            ["synchronise_customer_a_records_with_stock", "synchronise_customer_b_records_with_stock"],
            id="two lines",
        ),
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
async def test_names_read_apart(names: list[str], shown: list[str]) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    async with Host() as host, connected(host, {"tools/list": {"tools": tools}}):
        explorer = Explorer(host)
        buttons = [row.children[0] for row in explorer.items.box.children]
        assert [button.description for button in buttons] == shown
        assert all(name in button.tooltip for name, button in zip(names, buttons, strict=True) if name.strip())
        explorer.close()


async def test_full_garbage_collections_wait_until_the_person_pauses(explorer: Explorer) -> None:
    young, middle, old = normal = gc.get_threshold()
    explorer.search.value = "f"
    explorer.search.value = "fa"
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > old
    await until(lambda: gc.get_threshold() == normal)


async def test_a_threshold_that_is_set_while_the_person_types_stays(explorer: Explorer) -> None:
    normal = gc.get_threshold()
    try:
        explorer.search.value = "f"
        gc.set_threshold(5000, 7, 9)
        explorer.search.value = "fa"
        await until(lambda: gc.get_threshold() == (5000, 7, 9))
        explorer.search.value = "fac"
        gc.set_threshold(6000, 7, 9)
        await asyncio.sleep(2 * REST_SECONDS)
        assert gc.get_threshold() == (6000, 7, 9)
    finally:
        gc.set_threshold(*normal)


async def test_a_collection_that_is_due_runs_when_the_person_pauses(explorer: Explorer) -> None:
    gc.collect()
    explorer.search.value = "f"
    held = [[] for _ in range(400_000)]  # more than a quarter of what there is: Python collects all
    runs = gc.get_stats()[2]["collections"]
    await until(lambda: gc.get_stats()[2]["collections"] > runs)
    assert held


async def test_search_covers_titles_and_descriptions_in_any_case(host: Host) -> None:
    index = Index()
    index.update(host.connections.values())
    tools = index.items("tools")
    described = next(i for i in tools if i.definition.description and i.server == "showcase")
    words = described.definition.description.split()[:4]
    assert described in search(tools, " ".join(reversed(words)).upper())
    assert described in search(tools, f"showcase:{described.key}")
    assert search(tools, "  ") == list(tools)


def test_what_has_the_words_in_its_name_comes_first() -> None:
    from mcp_types import Tool

    tools = [
        Tool(name="a", description="sends mail", input_schema={}),
        Tool(name="mail", description="", input_schema={}),
        Tool(name="b", title="Mail it", input_schema={}),
    ]
    items = [make_item("tools", "s", tool) for tool in tools]
    assert [item.key for item in search(items, "mail")] == ["mail", "b", "a"]


async def test_the_other_kinds_are_searched_too(explorer: Explorer) -> None:
    explorer.kinds.value = "resources"
    explorer.search.value = "math://"
    assert rows(explorer) == ["math://constants"]
    explorer.kinds.value = "templates"
    assert rows(explorer) == ["math://table/{n}"]
    explorer.kinds.value, explorer.search.value = "prompts", "explain"
    assert rows(explorer) == ["math:explain"]


async def test_pages_are_turned_and_a_new_search_begins_at_the_first(explorer: Explorer) -> None:
    first = rows(explorer)
    assert explorer.items.previous.disabled
    explorer.items.next.click()
    assert not set(first) & set(rows(explorer))
    assert text(explorer.items.label).startswith("26\u201350 of ")
    while not explorer.items.next.disabled:
        explorer.items.next.click()
    assert rows(explorer)[-1] == explorer.found[-1].label
    explorer.items.next.click()  # a click that comes late
    assert rows(explorer)[-1] == explorer.found[-1].label
    explorer.search.value = "s"
    assert rows(explorer)[0] == explorer.found[0].label
    explorer.search.value = ""
    assert rows(explorer) == first


async def test_keystroke_reuses_widgets(explorer: Explorer) -> None:
    before = set(alive)
    for typed in ("t", "ta", "zzz", "", "math"):
        explorer.search.value = typed
    explorer.items.next.click()
    assert set(alive) == before


# Choosing


async def test_choosing_a_tool_shows_its_card_and_marks_its_row(explorer: Explorer) -> None:
    explorer.search.value = "math:divide"
    choose(explorer, "math:divide")
    card = text(explorer.detail.card)
    tool = explorer.found[0].definition
    assert tool.description.split("\n")[0] in card
    assert all(name in card for name in tool.input_schema["properties"])
    assert "%mcp call math:divide" in card
    assert "returns" in card
    assert rows(explorer)[0] == "▸ math:divide"
    explorer.detail.hide.click()
    assert rows(explorer)[0] == "math:divide"
    assert explorer.detail.widget.children == ()


async def test_resource_template_and_prompt_cards_show_their_line(explorer: Explorer) -> None:
    lines = {
        "resources": ("math://constants", "%mcp read math://constants --server math"),
        "templates": ("math://table/{n}", "%mcp read 'math://table/{n}' --server math"),
        "prompts": ("math:explain", "%mcp prompt math:explain topic="),
    }
    explorer.only("math")
    for kind, (label, line) in lines.items():
        explorer.kinds.value = kind
        choose(explorer, label)
        assert line in explorer.detail.card.value.replace("&#x27;", "'")


@pytest.mark.parametrize(
    ("kind", "label"), [("tools", "math:add"), ("templates", "math://table/{n}"), ("prompts", "math:explain")]
)
async def test_form_is_made_on_demand_and_closed_with_card(explorer: Explorer, kind: str, label: str) -> None:
    explorer.kinds.value, explorer.search.value = kind, label
    choose(explorer, label)
    before = set(alive)
    explorer.detail.open.click()
    form = explorer.detail.form
    assert form.widget in explorer.detail.widget.children
    assert set(alive) > before
    explorer.detail.back.click()
    assert set(alive) == before
    assert explorer.detail.card in explorer.detail.widget.children


async def test_the_form_runs_the_tool(explorer: Explorer) -> None:
    explorer.search.value = "math:add"
    choose(explorer, "math:add")
    explorer.detail.open.click()
    form = explorer.detail.form
    form.set_arguments({"a": 2, "b": 40})
    await form.run()
    assert form.result.data == 42


async def test_choosing_something_else_closes_the_form(explorer: Explorer) -> None:
    explorer.only("math")
    choose(explorer, "math:add")
    before = set(alive)
    explorer.detail.open.click()
    choose(explorer, "math:power")
    assert explorer.detail.form is None
    assert set(alive) == before


async def test_invalid_template_keeps_its_card_and_says_why(host: Host) -> None:
    from mcp.server import Server
    from mcp_types import ListResourcesResult, ListResourceTemplatesResult, ResourceTemplate

    async def list_templates(context: Any, params: Any) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[ResourceTemplate(name="bad", uri_template="bad://{a")])

    async def list_resources(context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    server = Server("silent", on_list_resources=list_resources, on_list_resource_templates=list_templates)
    await host.connect_spec(InProcessSpec(server=server), "silent")
    await host["silent"].listing("templates")
    explorer = Explorer(host, "silent")
    explorer.kinds.value = "templates"
    choose(explorer, "bad://{a")
    explorer.detail.open.click()
    assert "bad://{a cannot be filled in" in text(explorer.detail.note)
    assert explorer.detail.card in explorer.detail.widget.children
    explorer.close()


async def test_a_resource_is_read_in_place(explorer: Explorer) -> None:
    explorer.only("math")
    explorer.kinds.value = "resources"
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


async def test_a_resource_that_cannot_be_read_says_why(explorer: Explorer, host: Host) -> None:
    explorer.kinds.value, explorer.search.value = "resources", "math://"
    choose(explorer, "math://constants")
    await host["math"].close()
    explorer.detail.read.click()
    await until(lambda: not explorer.detail.form.running)
    assert "%mcp reconnect" in str(explorer.detail.form.error)
    explorer.update()
    assert "The session of math is closed; Connect in its row" in text(explorer.detail.note)


async def test_what_a_hostile_server_says_is_text(explorer: Explorer) -> None:
    for kind in ("tools", "resources", "templates", "prompts"):
        explorer.kinds.value = kind
        for item in explorer.found:
            explorer.choose(item)
            assert not re.search(r"<(script|img|iframe|h1|textarea)", explorer.detail.card.value), item.label
    explorer.kinds.value, explorer.search.value = "tools", "hostile"
    shown = [row.children[1].value for row in explorer.items.box.children]
    assert any("&lt;" in about for about in shown)
    assert not any(re.search(r"<(script|img)", about) for about in shown)


# Following


def test_a_row_shows_what_stands_in_backticks_as_code() -> None:
    definition = Tool(name="a", description="Reads `x<b>` & <i>more</i>", input_schema={"type": "object"})
    shown = about(make_item("tools", "s", definition), None)
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;more&lt;/i&gt;" in shown
    assert "`" not in shown


async def test_a_tool_that_a_server_announces_shows_up(explorer: Explorer, host: Host) -> None:
    explorer.search.value = "extra_seen"
    assert rows(explorer) == []
    async with asyncio.timeout(60):
        number = 0
        while not rows(explorer):  # a notice before the stream of changes is open is not repeated
            number += 1
            await host["showcase"].call("add_tool", name=f"seen_{number}")
            await asyncio.sleep(0.1)
    assert rows(explorer)[0] == "showcase:extra_seen_1"
    assert text(explorer.items.label).startswith(f"{len(explorer.found)} of ")


async def test_a_server_that_comes_or_goes_shows_up(explorer: Explorer, host: Host) -> None:
    spec = many_servers(1, 30)["server0"]
    await host.connect_spec(spec, "late")
    await until(lambda: "late" in server_rows(explorer))
    explorer.search.value = "late:"
    await until(lambda: len(explorer.found) == 30)
    await host.disconnect("late")
    await until(lambda: "late" not in server_rows(explorer))
    assert explorer.found == []


async def test_ended_server_shows_lost_and_can_reconnect(explorer: Explorer, host: Host) -> None:
    known = set(psutil.Process().children(recursive=True))
    spec = StdioSpec(command=sys.executable, args=(bundled.command("math_server")[1],))
    await host.connect_spec(spec, "process")
    await until(lambda: "open" in server_rows(explorer).get("process", ("",))[0])
    explorer.search.value = "process:add"
    await until(lambda: rows(explorer) == ["process:add"])
    choose(explorer, "process:add")
    for child in set(psutil.Process().children(recursive=True)) - known:
        child.kill()
    await until(lambda: "✗ lost" in server_rows(explorer)["process"][0])
    over = "The session of process is lost; Connect in its row or %mcp reconnect process opens it again."
    assert rows(explorer) == ["▸ process:add"]
    assert text(explorer.detail.note) == f"✗ {over}"
    assert text(explorer.items.label).endswith(f" tools\n{over}")
    explorer.detail.clear()
    explorer.search.value = "process:subtract"
    choose(explorer, "process:subtract")
    assert text(explorer.detail.note) == f"✗ {over}"
    explorer.search.value = "process:add"
    choose(explorer, "process:add")
    button = server_rows(explorer)["process"][1][0]
    assert button.description == "Connect"
    button.click()
    assert "working" in server_rows(explorer)["process"][0]
    await explorer.settled()
    assert "● open" in server_rows(explorer)["process"][0]
    assert rows(explorer) == ["▸ process:add"]
    assert text(explorer.detail.note) == ""
    assert "The session" not in text(explorer.items.label)


async def test_disconnected_server_can_be_connected_in_explorer(explorer: Explorer, host: Host) -> None:
    server_rows(explorer)["math"][1][1].click()
    await explorer.settled()
    assert "math" not in host
    shown, buttons = server_rows(explorer)["math"]
    assert shown.startswith("○ not connected")
    assert [button.description for button in buttons] == ["Connect"]
    buttons[0].click()
    await explorer.settled()
    assert host["math"].state == "open"
    assert server_rows(explorer)["math"][0].startswith("● open")


async def test_configured_server_is_offered_and_failure_is_told(host: Host) -> None:
    offered = {"broken": StdioSpec(command="no-such-command-anywhere")}
    explorer = Explorer(host, offered=offered)
    server_rows(explorer)["broken"][1][0].click()
    await explorer.settled()
    assert "no-such-command-anywhere" in text(explorer.status)
    assert not server_rows(explorer)["broken"][1][0].disabled
    explorer.close()


async def test_refresh_asks_the_servers_again(host: Host) -> None:
    from mcp.server import Server
    from mcp_types import ListToolsResult, Tool

    tools = [Tool(name="one", input_schema={"type": "object"})]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(tools))

    await host.connect_spec(InProcessSpec(server=Server("silent", on_list_tools=list_tools)), "silent")
    explorer = Explorer(host, "silent")
    assert rows(explorer) == ["one"]
    tools.append(Tool(name="two", input_schema={"type": "object"}))  # and it tells nobody
    explorer.refresh_button.click()
    await explorer.settled()
    await until(lambda: rows(explorer) == ["one", "two"])
    explorer.close()


async def test_a_definition_that_changes_changes_the_card_that_is_open(host: Host) -> None:
    from mcp.server import Server
    from mcp_types import ListToolsResult, Tool

    said = ["old words"]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="one", description=said[0], input_schema={"type": "object"})])

    await host.connect_spec(InProcessSpec(server=Server("silent", on_list_tools=list_tools)), "silent")
    explorer = Explorer(host, "silent")
    choose(explorer, "silent:one")
    said[0] = "new words"
    await host["silent"].listing("tools", refresh=True)
    await until(lambda: "new words" in text(explorer.detail.card))
    explorer.close()


async def test_clicks_and_keystrokes_may_come_from_another_thread(explorer: Explorer) -> None:
    def type_and_click() -> None:
        explorer.search.value = "math:add"
        explorer.refresh_button.click()

    thread = threading.Thread(target=type_and_click)
    thread.start()
    await until(lambda: rows(explorer)[:1] == ["math:add"])
    thread.join()
    await explorer.settled()


# Ten thousand tools


@pytest.fixture
async def crowd() -> AsyncIterator[Host]:
    host = Host()
    await host.connect_many(many_servers(50, 200))
    yield host
    await host.close()


@pytest.mark.timed
async def test_ten_thousand_tools_stay_usable(crowd: Host) -> None:
    before = len(alive)
    started = time.thread_time()
    explorer = Explorer(crowd)
    assert time.thread_time() - started < 1.0
    made = len(alive) - before
    assert made < 250, "widgets are made for what is shown"
    assert text(explorer.items.label) == "1\u201325 of 10,000 tools"
    for typed in ("w", "weather", "weather 4", "server49 weather", "zzz", ""):
        started = time.thread_time()
        explorer.search.value = typed
        assert time.thread_time() - started < 0.1, typed
    assert len(alive) - before == made
    explorer.search.value = "server7:weather_8"
    assert rows(explorer) == ["server7:weather_8", "server7:weather_80", "server7:weather_88"]
    assert text(explorer.items.label) == "3 of 10,000 tools"
    assert text(explorer.servers.pages.label) == "1\u20138 of 50 servers"
    explorer.close()


# Display and closing


async def test_it_is_a_live_widget_and_reads_without_one(explorer: Explorer) -> None:
    bundle = explorer._repr_mimebundle_()
    assert bundle[WIDGET_VIEW]["model_id"] == explorer.widget.model_id
    assert re.search(r"showcase +open +in-process", bundle["text/plain"])
    assert "<table" in bundle["text/html"]
    assert "%mcp ui" in bundle["text/html"]
    assert list(explorer._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]


async def test_closed_it_has_no_comm_follows_nothing_and_still_reads(host: Host) -> None:
    before = set(alive)
    explorer = Explorer(host)
    explorer.search.value = "math:add"
    choose(explorer, "math:add")
    explorer.detail.open.click()
    explorer.close()
    explorer.close()
    assert set(alive) == before
    assert WIDGET_VIEW not in explorer._repr_mimebundle_()
    await host.disconnect("math")
    assert "math" not in explorer._repr_mimebundle_()["text/plain"]
    assert repr(explorer) == "<Explorer of 1 server (closed)>"
    assert not explorer.found  # IPython keeps it in `Out`, but its items are not kept with it
    assert host._watchers._callbacks == {}


async def test_ten_runs_of_a_cell_leave_one_explorer(host: Host) -> None:
    before = set(alive)
    sizes, explorers = set(), []
    for run in range(10):
        explorer = keep(Explorer(host), CellRun("cell", f"run {run}"))
        explorer.search.value = "add"
        explorer.choose(explorer.found[0])
        explorer.detail.open.click()
        sizes.add(len(alive))
        explorers.append(explorer)
        assert [each for each in explorers if not each.closed] == [explorer]
    assert len(sizes) == 1
    close_previous(CellRun(deleted=("cell",)))
    assert set(alive) == before


async def test_explorers_of_one_run_stay_and_of_deleted_cells_close(host: Host) -> None:
    first, second = (keep(Explorer(host), CellRun("cell", "run")) for _ in range(2))
    assert not first.closed
    other = keep(Explorer(host), CellRun("other", "run", deleted=("cell",)))
    assert first.closed
    assert second.closed
    assert not other.closed
    nowhere = [keep(Explorer(host), CellRun()) for _ in range(2)]
    assert not any(explorer.closed for explorer in nowhere)
    for explorer in (other, *nowhere):
        explorer.close()
    close_previous(CellRun(deleted=("other",)))


async def test_everything_that_can_be_clicked_says_what_it_does(explorer: Explorer) -> None:
    import ipywidgets

    explorer.choose(explorer.found[0])
    buttons = [widget for widget in alive.values() if isinstance(widget, ipywidgets.Button)]
    assert len(buttons) > 30
    assert [button for button in buttons if not button.description or not button.tooltip] == []
    assert all(button.tabbable is not False for button in buttons)
    assert explorer.search.description == "Search"
