"""`%%mcp_server` in a real kernel: a server of the cell's functions, its errors, and what becomes of it."""

import json
import re
import sys

import httpx2
import pytest

from mcp_magic import Host
from mcp_magic.errors import ConnectError, HTTPStatusError
from mcp_magic.server.snapshot import interface_changes, interface_of
from tests.support.kernel_servers import LOAD, ROOT

NOTEBOOK = """
import math, json, re, sys
import statistics as st
from dataclasses import dataclass
from datetime import date as day
from mcp.server.mcpserver import MCPServer
from mcp_magic import host
prices = {"apple": 1.5, "pear": 2.0}
api_token = "hunter22-hunter22"

@dataclass
class Deal:
    item: str
    price: float

def rounded(value):
    return math.floor(value * FACTOR) / FACTOR

def last_frame():
    tb = sys.last_traceback
    while tb.tb_next: tb = tb.tb_next
    return tb.tb_frame

FACTOR = 100
"""
SETUP = [LOAD, NOTEBOOK]
SHOP = '''%%mcp_server shop --instructions 'Ask for prices first.'
def price(item: str, count: int = 1) -> float:
    """Tells the price of items.

    Args:
        item: What is bought.
        count: How many.
    """
    return rounded(_unit(item) * count)

def _unit(item):
    return prices[item]

async def mean() -> float:
    "Tells the mean of all prices."
    return st.mean(prices.values())

@tool(title="Best deal", read_only=True)
def best(until: day) -> Deal:
    "Finds the cheapest item."
    item = min(prices, key=prices.get)
    return Deal(item, prices[item])

def signed() -> int:
    "Uses a secret."
    return len(api_token)

@resource("shop://prices", mime_type="application/json")
def listed() -> dict[str, float]:
    "All prices."
    return prices

@resource("shop://price/{item}")
def one(item: str) -> str:
    "One price."
    return str(prices[item])

@prompt
def haggle(item: str) -> str:
    "Asks for less."
    return f"What would you take for a {item}?"
'''
HIDDEN = ("\\x00", "run_cell_magic", "skipping hidden", "asyncio/", "mcp_magic/", "site-packages", "Error executing")


@pytest.fixture
def cell(kernel):
    """The server's cell, run."""
    return kernel.ok(SHOP)


def words(text):
    return " ".join(text.split())


def fails(kernel, code, ename, evalue):
    """Run a cell that fails in the person's own code; return the error, which shows lines of that alone."""
    failed = kernel.run(code)
    assert (failed.ename, failed.evalue) == (ename, evalue)
    assert [text for text in HIDDEN if text in failed.shown_error] == []
    assert "Traceback" not in str(failed.streams)
    return failed.shown_error


def test_functions_become_tools_or_follow_their_decorators(kernel, cell):
    for row in (
        "tool shop:best Finds the cheapest item.",
        "tool shop:price Tells the price of items.",
        "prompt shop:haggle Asks for less.",
        "resource shop://prices All prices.",
        "template shop://price/{item} One price.",
    ):
        assert row in words(cell.text)
    assert "_unit" not in cell.text
    card = words(kernel.ok("%mcp tool shop:price").text)
    assert "item string yes What is bought." in card
    assert "count integer no 1 How many." in card
    assert "Args:" not in card
    kernel.ok("tool = 'mine'")
    kernel.ok(SHOP)
    assert kernel.ok("tool").text == "'mine'"
    assert kernel.run("resource").ename == "NameError"
    kernel.ok("del tool")


def test_tools_see_current_notebook_variables(kernel, cell):
    assert kernel.ok("%mcp call shop:price item=pear count=3").text == "6.0"
    assert kernel.ok("prices['plum'] = 0.333\n%mcp call shop:price item=plum").text == "0.33"
    assert kernel.ok("%mcp call shop:mean").text.startswith("1.2")
    best = kernel.ok("r = %mcp call shop:best until=2026-01-01\nprint(json.dumps(r.data))").stdout
    assert json.loads(best) == {"item": "plum", "price": 0.333}
    assert kernel.ok("%mcp read shop://price/apple").text == "1.5"
    assert "a pear?" in kernel.ok("%mcp prompt shop:haggle item=pear").text
    assert kernel.ok("price('apple', 2), rounded(1.239)").text == "(3.0, 1.23)"


def test_tool_error_shows_its_cell_lines_and_debug_stops_there(kernel, cell):
    shown = fails(kernel, "%mcp call shop:price item=melon", "ToolCrashError", "shop:price failed: KeyError: 'melon'")
    assert "---> 12     return prices[item]" in shown
    assert "in _unit(item)" in shown
    frame = "last_frame().f_code.co_name, last_frame().f_locals"
    assert kernel.ok(frame).text == "('_unit', {'item': 'melon'})"
    call = "r = await host['shop'].call_tool('price', {'item': 'melon'})\nr.is_error, r.text"
    assert kernel.ok(call).text == "(True, \"Error executing tool price: KeyError: 'melon'\")"


def test_sys_exit_in_tool_shows_lines_and_spares_kernel(kernel):
    kernel.ok(
        "%%mcp_server leaving\nimport sys\nasync def leave() -> str:\n    sys.exit('enough')\n"
        "def stop(n: int) -> int:\n    sys.exit(n)\n"
    )
    said = "leaving:leave failed: SystemExit: enough"
    assert "----> 4     sys.exit('enough')" in fails(kernel, "%mcp call leaving:leave", "ToolCrashError", said)
    kernel.ok(
        "own = MCPServer('own', log_level='CRITICAL')\n@own.tool()\nasync def halt() -> str:\n"
        "    raise KeyboardInterrupt\n%mcp connect own"
    )
    fails(kernel, "await host['own'].call('halt')", "ToolCrashError", "own:halt failed: KeyboardInterrupt")
    fails(kernel, "%mcp call leaving:stop n=3", "ToolCrashError", "leaving:stop failed: SystemExit: 3")
    assert kernel.ok("FACTOR").text == "100"
    kernel.ok("%mcp disconnect leaving own")


def test_parameter_asks_and_request_in_call_gets_advice(kernel, folder):
    section = (ROOT / "docs" / "servers.md").read_text().partition("### A tool that asks")[2]
    by_request = "from mcp.server.mcpserver import Context\nasync def ask(ctx: Context) -> str:\n"
    asks = f"{by_request}    return (await ctx.elicit('Where to?', Trip)).action\n"
    kernel.ok(f"{section.split('```')[1].strip()}\n\n{asks}")
    (folder / "answers.json").write_text('[{"city": "Oslo"}]')
    assert kernel.ok("%mcp call trips:plan --answers answers.json").text == "3 days in Oslo"
    failed = kernel.run("%mcp call trips:ask")
    assert failed.evalue.startswith("trips:ask: the server asks the user by `ctx.elicit` in the middle of the call")
    assert "`answer: Annotated[ElicitationResult[Model], Resolve(ask)]`" in failed.evalue
    kernel.ok("%mcp export trips trips.py\n%mcp connect trips.py --name exported")
    assert kernel.ok("%mcp call exported:plan --answers answers.json").text == "3 days in Oslo"
    kernel.ok("%mcp disconnect trips exported")


def test_rerun_cell_replaces_server_and_lists_changes(kernel, cell):
    assert "its interface is the same" in words(kernel.ok(SHOP).text)
    changed = kernel.ok(
        "%%mcp_server shop\ndef price(item: str, currency: str, count: int = 1) -> float:\n    return prices[item]\n"
        "def sell(item: str) -> str:\n    return item\n"
    )
    text = words(changed.text)
    assert "tool shop:price breaking: currency is new and required (string)" in text
    assert "tool shop:sell is new" in text
    assert "tool mean breaking: is gone" in text
    assert "breaking." in text.rpartition("It replaced the earlier one: ")[2]
    assert kernel.ok("%mcp call shop:sell item=x").text == "x"
    assert kernel.ok("[*host].count('shop')").text == "1"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("shop\n", "%%mcp_server: the cell is empty. Begin it with `%%mcp_server shop`"),
        ("shop\nx = 1\n", "the cell defines no function"),
        ("\ndef f(): pass\n", "NAME"),
        ("two words\ndef f(): pass\n", "unrecognized arguments: words"),
        ("shöp\ndef f(): pass\n", "is not a server name"),
        ("shop\nx = \n", "line 2: invalid syntax: x =. The earlier server 'shop' is still live."),
        ("shop\nreturn 1\n", "'return' outside function: return 1. The earlier server 'shop' is still live."),
        ("shop\nclass Odd: pass\ndef f(a: Odd): pass\n", "cannot be offered"),
        ("shop\n@resource\ndef f(): pass\n", "@resource needs a URI"),
        ("other\ndef f() -> int:\n    return 1\n", "'other' is connected, and is not a server of this notebook"),
    ],
    ids=["empty", "no function", "no name", "words", "name", "syntax", "return", "type", "resource", "other"],
)
def test_invalid_server_cell_says_why_and_keeps_old_server(kernel, cell, code, said):
    kernel.ok("other = MCPServer('other')\n%mcp connect other")
    failed = kernel.run(f"%%mcp_server {code}")
    assert failed.status == "error"
    assert said in failed.evalue, failed.evalue
    assert "\n" not in failed.evalue
    assert "Traceback" not in failed.shown_error
    assert kernel.ok("%mcp call shop:price item=apple").text == "1.5"
    kernel.ok("%mcp disconnect other")


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("1 / 0", "1 / 0", "ZeroDivisionError: division by zero"),
        ("import asyncio\nawait asyncio.sleep(0)\n{}['x']", "{}['x']", "KeyError: 'x'"),
        (
            "def sell(item: Nope) -> int:\n    return 1",
            "def sell(item: Nope) -> int:",
            "NameError: name 'Nope' is not defined",
        ),
    ],
    ids=["line", "awaited", "type"],
)
def test_cell_error_shows_its_lines_and_keeps_server(kernel, cell, code, line, said):
    raised = f"%%mcp_server: the cell raised {said}."
    body = f"def price(item: str) -> int:\n    return 1\n{code}\n"
    still = f"{raised} The earlier server 'shop' is still live."
    shown = fails(kernel, f"%%mcp_server shop\n{body}", "CellCrashError", still)
    assert re.search(rf"-> \d+ {re.escape(line)}", shown), shown
    assert kernel.ok("%mcp tool shop:price").text.count("count")
    assert kernel.ok("last_frame().f_globals is globals()").text == "True"  # where `%debug` stops
    fails(kernel, f"%%mcp_server fresh\n{body}", "CellCrashError", raised)


TABLES = """%%mcp_server tables
import pandas as pd
def named(count: int) -> pd.DataFrame:
    "Rows of a DataFrame."
    return pd.DataFrame({"n": range(count), "x": [0.1 + 0.2, float("nan")][:count]})
def unnamed():
    return pd.DataFrame({"day": pd.to_datetime(["2026-01-02"]), "n": [1]})
async def grouped() -> "pd.Series":
    return pd.DataFrame({"city": ["Oslo", "Rome", "Rome"], "n": [1, 2, 3]}).groupby("city")["n"].sum()
def both() -> dict[str, pd.DataFrame] | None:
    return {"left": named(1), "right": named(2)}
def word():
    return "no table"
"""


async def same_interface(kernel, folder, name, host, **env):
    """Export a server, and connect to the program, which offers the same."""
    kernel.ok(f"%mcp snapshot {name} -o {name}.json\n%mcp export {name} {name}_server.py --force")
    server = await host.connect([sys.executable, str(folder / f"{name}_server.py")], name=name, env=env)
    changes = interface_changes(json.loads((folder / f"{name}.json").read_text()), await interface_of(server))
    assert [str(change) for change in changes if change.kind != "server"] == []
    return server


async def test_a_dataframe_or_series_is_given_as_rows(kernel, folder):
    kernel.ok(TABLES)
    for tool, look, text in (
        ("named count=2", "r.data", "[{'n': 0, 'x': 0.30000000000000004}, {'n': 1, 'x': None}]"),
        ("named count=2", "r.output_schema['properties']['result']['items']['type'], r.df.shape", "('object', (2, 2))"),
        ("unnamed", "r.data", "[{'day': '2026-01-02T00:00:00', 'n': 1}]"),
        ("grouped", "r.df.to_dict('list')", "{'city': ['Oslo', 'Rome'], 'n': [1, 5]}"),
        ("both", "{k: v.shape for k, v in r.frames.items()}", "{'left': (1, 2), 'right': (2, 2)}"),
        ("word", "r.text", "'no table'"),
    ):
        assert kernel.ok(f"r = %mcp call tables:{tool}\n{look}").text == text
    assert kernel.ok("named.__annotations__['return'] is pd.DataFrame").text == "True"
    async with Host() as host:
        server = await same_interface(kernel, folder, "tables", host)
        assert (await server.call("named", count=1)).data == [{"n": 0, "x": 0.1 + 0.2}]
        assert (await server.call("unnamed")).data == [{"day": "2026-01-02T00:00:00", "n": 1}]
    kernel.ok("%mcp disconnect tables")


def test_server_object_tool_shows_lines_and_whole_long_error(kernel):
    kernel.ok(
        "own = MCPServer('own')\n@own.tool()\ndef look(item: str) -> str:\n    return {}[item]\n"
        "@own.tool()\ndef many() -> str:\n    raise ToolError('\\n'.join(f'line {n}' for n in range(40)))\n"
        "from mcp.server.mcpserver.exceptions import ToolError\n%mcp connect own"
    )
    shown = fails(kernel, "%mcp call own:look item=melon", "ToolCrashError", "own:look failed: KeyError: 'melon'")
    assert "----> 4     return {}[item]" in shown
    failed = kernel.run("%mcp call own:many")
    last = "… (`%mcp last` shows all of it; in Python it is `error.result`)"
    assert failed.evalue.splitlines()[5:] == ["line 5", last]
    assert "line 39" in kernel.ok("%mcp last").text
    assert kernel.ok("r = %mcp last\nr.is_error, len(r.text.splitlines())").text == "(True, 40)"
    kernel.ok("%mcp disconnect own")


async def test_exported_server_has_same_interface_and_answers(kernel, cell, folder):
    async with Host() as host:
        server = await same_interface(kernel, folder, "shop", host, api_token="abc")
        assert (await server.call("price", item="pear", count=2)).data == 4.0
        assert (await server.call("signed")).data == 3
        assert (await server.call("best", until="2026-01-01")).data["item"] in ("apple", "plum")
    code = (folder / "shop_server.py").read_text()
    assert 'os.environ["api_token"]' in code
    assert "hunter22" not in code
    assert "mcp_magic" not in code
    assert "is there already; --force writes over it" in kernel.run("%mcp export shop shop_server.py").evalue
    kernel.ok("handle = open('shop_server.py')")
    kernel.ok("%%mcp_server files\ndef first() -> str:\n    return handle.readline()")
    failed = kernel.run("%mcp export files files.py")
    assert "first uses 'handle', a TextIOWrapper of the notebook; make or load it in the cell" in failed.evalue
    kernel.ok("handle.close()\nplain = MCPServer('plain')\n%mcp connect plain")
    assert "was not made by `%%mcp_server`" in kernel.run("%mcp export plain p.py").evalue
    kernel.ok("%mcp disconnect plain files")


async def test_a_server_is_served_to_whoever_has_the_token(kernel, cell):
    listing = kernel.ok("%mcp serve shop").text
    served = "get_ipython().magics_manager.registry['MCPMagics'].state.served['shop']"
    url, token, file = (kernel.ok(f"print({served}.{name})").stdout.strip() for name in ("url", "token", "token_file"))
    assert url in listing
    shown = (listing, kernel.ok(served).text, kernel.ok("%mcp serve").data["text/html"])
    assert [text for text in shown if token in text] == []
    async with Host() as host:
        with pytest.raises(ConnectError, match=r"log-in|401"):
            await host.connect(url, name="shop")
        with pytest.raises(HTTPStatusError, match="401"):
            await host.connect(url, name="shop", headers={"Authorization": "Bearer wrong"})
        server = await host.connect(url, name="shop", headers={"Authorization": f"Bearer {token}"})
        assert (await server.call("price", item="pear")).data == 2.0
        kernel.ok(SHOP.replace("_unit(item) * count", "_unit(item) * count * 10"))  # at the same place
        assert (await server.call("price", item="pear")).data == 20.0
    port = kernel.ok(
        "import socket\ntaken = socket.create_server(('127.0.0.1', 0))\nport = taken.getsockname()[1]\nport"
    )
    before = kernel.ok("%mcp serve").text
    failed = kernel.run(f"%mcp serve shop --port {port.text}")
    assert f"port {port.text} on 127.0.0.1: Address already in use" in failed.evalue
    assert kernel.ok("%mcp serve").text == before, "it is still served where it was"
    assert "No longer served: shop." in kernel.ok("taken.close()\n%mcp serve --stop").text
    assert kernel.ok(f"import os; os.path.exists({file!r})").text == "False"
    with pytest.raises(httpx2.ConnectError):
        httpx2.post(url)
    assert "'shop' is not served" in kernel.run("%mcp serve shop --stop").evalue


def test_a_snapshot_is_compared_with_what_the_server_offers_now(kernel, cell, folder):
    assert "4 tools, 1 prompt, 1 resource, 1 template" in kernel.ok("%mcp snapshot shop").text
    assert "nothing has changed" in kernel.ok("%mcp diff shop").text
    kernel.ok(SHOP.replace("count: int = 1", "count: int"))
    assert "breaking tool price count is required now" in words(kernel.ok("%mcp diff shop").text)
    failed = kernel.run("%mcp diff shop --check")
    assert "1 breaking change since shop.mcp.json: tool price: count is required now" in failed.evalue
    (folder / "odd.json").write_text("{}")
    assert "is not a snapshot of a server" in kernel.run("%mcp diff shop odd.json").evalue
    assert "No such file" in kernel.run("%mcp diff shop none.json").evalue
