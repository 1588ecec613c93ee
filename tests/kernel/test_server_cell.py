"""`%%mcp_server` in a real kernel: a server of the cell's functions, its errors, and what becomes of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from mcp_magic._host import Host
from mcp_magic.errors import ConnectError, HTTPStatusError
from mcp_magic.server.docs import compared, interface_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.kernels import Cell, Kernel

NOTEBOOK = """
import math
import statistics as st
from dataclasses import dataclass
from datetime import date as day
prices = {"apple": 1.5, "pear": 2.0}
api_token = "hunter22-hunter22"

@dataclass
class Deal:
    item: str
    price: float

def rounded(value):
    return math.floor(value * FACTOR) / FACTOR

FACTOR = 100
"""
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


@pytest.fixture(scope="module")
def shop(kernel: Kernel) -> Kernel:
    """A kernel with a server of its own."""
    kernel.ok(NOTEBOOK)
    return kernel


@pytest.fixture
def cell(shop: Kernel) -> Cell:
    """The server's cell, run."""
    return shop.ok(SHOP)


def words(text: str) -> str:
    return " ".join(text.split())


def test_functions_become_tools_or_follow_their_decorators(shop: Kernel, cell: Cell) -> None:
    for row in (
        "tool shop:best Finds the cheapest item.",
        "tool shop:price Tells the price of items.",
        "prompt shop:haggle Asks for less.",
        "resource shop://prices All prices.",
        "template shop://price/{item} One price.",
    ):
        assert row in words(cell.text)
    assert "_unit" not in cell.text
    card = words(shop.ok("%mcp tool shop:price").text)
    assert "item string yes What is bought." in card
    assert "count integer no 1 How many." in card
    assert "Args:" not in card


def test_tools_see_current_notebook_variables(shop: Kernel, cell: Cell) -> None:
    assert shop.ok("%mcp call shop:price item=pear count=3").text == "6.0"
    assert shop.ok("prices['plum'] = 0.333\n%mcp call shop:price item=plum").text == "0.33"
    assert shop.ok("%mcp call shop:mean").text.startswith("1.2")
    assert json.loads(
        shop.ok("r = %mcp call shop:best until=2026-01-01\nimport json\nprint(json.dumps(r.data))").stdout
    )
    assert shop.ok("%mcp read shop://price/apple").text == "1.5"
    assert "a pear?" in shop.ok("%mcp prompt shop:haggle item=pear").text
    assert shop.ok("price('apple', 2), rounded(1.239)").text == "(3.0, 1.23)"


def test_decorators_vanish_after_cell_and_variables_return(shop: Kernel) -> None:
    shop.ok("tool = 'mine'")
    shop.ok(SHOP)
    assert shop.ok("tool").text == "'mine'"
    assert shop.run("resource").ename == "NameError"
    shop.ok("del tool")


def test_tool_error_shows_its_cell_lines_and_debug_stops_there(shop: Kernel, cell: Cell) -> None:
    failed = shop.run("%mcp call shop:price item=melon")
    assert failed.ename == "ToolCrashError"
    assert failed.evalue == "shop:price failed: KeyError: 'melon'"
    shown = failed.shown_error
    assert "---> 12     return prices[item]" in shown
    assert "in _unit(item)" in shown
    assert "site-packages" not in shown
    assert "mcp_magic/" not in shown
    frame = "import sys\ntb = sys.last_traceback\nwhile tb.tb_next: tb = tb.tb_next\n"
    assert shop.ok(f"{frame}tb.tb_frame.f_code.co_name, tb.tb_frame.f_locals").text == "('_unit', {'item': 'melon'})"


def test_sys_exit_in_tool_shows_lines_and_spares_kernel(shop: Kernel) -> None:
    shop.ok("from mcp_magic import host\nkept = 7")
    leaving = (
        "import sys\nasync def leave() -> str:\n    sys.exit('enough')\ndef stop(n: int) -> int:\n    sys.exit(n)\n"
    )
    shop.ok(f"%%mcp_server leaving\n{leaving}")
    failed = shop.run("%mcp call leaving:leave")
    assert (failed.ename, failed.evalue) == ("ToolCrashError", "leaving:leave failed: SystemExit: enough")
    assert "----> 4     sys.exit('enough')" in failed.shown_error
    assert "mcp_magic/" not in failed.shown_error
    own = "from mcp.server.mcpserver import MCPServer\nown = MCPServer('own', log_level='CRITICAL')"
    shop.ok(f"{own}\n@own.tool()\nasync def halt() -> str:\n    raise KeyboardInterrupt\n%mcp connect own")
    failed = shop.run("await host['own'].call('halt')")
    assert (failed.ename, failed.evalue) == ("ToolCrashError", "own:halt failed: KeyboardInterrupt")
    assert shop.run("%mcp call leaving:stop n=3").evalue == "leaving:stop failed: SystemExit: 3"
    assert shop.ok("kept").text == "7"
    shop.ok("%mcp disconnect leaving own")


def test_parameter_asks_and_request_in_call_gets_advice(shop: Kernel, folder: Path) -> None:
    section = (Path(__file__).parents[2] / "docs" / "servers.md").read_text().partition("### A tool that asks")[2]
    cell = section.split("```")[1].strip()
    by_request = "from mcp.server.mcpserver import Context\nasync def ask(ctx: Context) -> str:\n"
    shop.ok(f"{cell}\n\n{by_request}    return (await ctx.elicit('Where to?', Trip)).action\n")
    (folder / "answers.json").write_text('[{"city": "Oslo"}]')
    assert shop.ok("%mcp call trips:plan --answers answers.json").text == "3 days in Oslo"
    failed = shop.run("%mcp call trips:ask")
    assert failed.evalue.startswith("trips:ask: the server asks the user by `ctx.elicit` in the middle of the call")
    assert "`answer: Annotated[ElicitationResult[Model], Resolve(ask)]`" in failed.evalue
    shop.ok("%mcp export trips trips.py")
    assert (
        "3 days in Oslo"
        in shop.ok("%mcp connect trips.py --name exported\n%mcp call exported:plan --answers answers.json").text
    )
    shop.ok("%mcp disconnect trips exported")


def test_tool_error_is_content_if_not_raised(shop: Kernel, cell: Cell) -> None:
    code = (
        "from mcp_magic import host\nr = await host['shop'].call_tool('price', {'item': 'melon'})\nr.is_error, r.text"
    )
    assert shop.ok(code).text == "(True, \"Error executing tool price: KeyError: 'melon'\")"


def test_rerun_cell_replaces_server_and_lists_changes(shop: Kernel, cell: Cell) -> None:
    again = shop.ok(SHOP)
    assert "its interface is the same" in words(again.text)
    changed = shop.ok(
        "%%mcp_server shop\n"
        "def price(item: str, currency: str, count: int = 1) -> float:\n"
        "    return prices[item]\n"
        "def sell(item: str) -> str:\n"
        "    return item\n"
    )
    text = words(changed.text)
    assert "tool shop:price breaking: currency is new and required (string)" in text
    assert "tool shop:sell is new" in text
    assert "tool mean breaking: is gone" in text
    assert "breaking." in text.rpartition("It replaced the earlier one: ")[2]
    assert shop.ok("%mcp call shop:sell item=x").text == "x"
    assert len(shop.ok("from mcp_magic import host\nlist(host)").text.split(",")) == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("%%mcp_server shop\n", "%%mcp_server: the cell is empty. Begin it with `%%mcp_server shop`"),
        ("%%mcp_server shop\nx = 1\n", "the cell defines no function"),
        ("%%mcp_server\ndef f(): pass\n", "NAME"),
        ("%%mcp_server two words\ndef f(): pass\n", "unrecognized arguments: words"),
        ("%%mcp_server shöp\ndef f(): pass\n", "is not a server name"),
        ("%%mcp_server shop\nx = \n", "line 2: invalid syntax: x =. The earlier server 'shop' is still live."),
        (
            "%%mcp_server shop\nreturn 1\n",
            "'return' outside function: return 1. The earlier server 'shop' is still live.",
        ),
        ("%%mcp_server shop\nclass Odd: pass\ndef f(a: Odd): pass\n", "cannot be offered"),
        ("%%mcp_server shop\n@resource\ndef f(): pass\n", "@resource needs a URI"),
    ],
)
def test_invalid_server_cell_says_why_and_keeps_old_server(shop: Kernel, cell: Cell, code: str, said: str) -> None:
    failed = shop.run(code)
    assert failed.status == "error"
    assert said in failed.evalue, failed.evalue
    assert "\n" not in failed.evalue
    assert "Traceback" not in failed.shown_error or failed.ename != "CommandError"
    assert shop.ok("%mcp call shop:price item=apple").text == "1.5"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import asyncio\nawait asyncio.sleep(0)\n{}['x']", "KeyError: 'x'"),
        ("def sell(item: Nope) -> int:\n    return 1", "NameError: name 'Nope' is not defined"),
    ],
)
def test_cell_error_shows_its_lines_and_keeps_server(shop: Kernel, cell: Cell, code: str, said: str) -> None:
    failed = shop.run(f"%%mcp_server shop\ndef price(item: str) -> int:\n    return 1\n{code}\n")
    assert failed.ename == "CellCrashError"
    assert failed.evalue == f"%%mcp_server: the cell raised {said}. The earlier server 'shop' is still live."
    shown = failed.shown_error
    assert re.search(rf"-> \d+ {re.escape(code.splitlines()[0 if 'def' in code else -1])}", shown), shown
    for hidden in ("\\x00", "run_cell_magic", "skipping hidden", "asyncio/", "mcp_magic/", "site-packages"):
        assert hidden not in shown
    assert shop.ok("%mcp tool shop:price").text.count("count")
    last = "import sys\ntb = sys.last_traceback\nwhile tb.tb_next: tb = tb.tb_next\n"  # where `%debug` stops
    assert shop.ok(f"{last}tb.tb_frame.f_globals is globals()").text == "True"


def test_cell_error_without_server_mentions_none(shop: Kernel) -> None:
    assert shop.run("%%mcp_server fresh\n1 / 0\n").evalue == (
        "%%mcp_server: the cell raised ZeroDivisionError: division by zero."
    )


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


async def test_a_dataframe_or_series_is_given_as_rows(shop: Kernel, folder: Path) -> None:
    shop.ok(TABLES)
    assert shop.ok("r = %mcp call tables:named count=2\nr.data").text == (
        "[{'n': 0, 'x': 0.30000000000000004}, {'n': 1, 'x': None}]"
    )
    assert shop.ok("r.output_schema['properties']['result']['items']['type']").text == "'object'"
    assert shop.ok("r.df.shape").text == "(2, 2)"
    assert shop.ok("r = %mcp call tables:unnamed\nr.data").text == "[{'day': '2026-01-02T00:00:00', 'n': 1}]"
    assert (
        shop.ok("r = %mcp call tables:grouped\nr.df.to_dict('list')").text == "{'city': ['Oslo', 'Rome'], 'n': [1, 5]}"
    )
    assert shop.ok("r = %mcp call tables:both\n{k: v.shape for k, v in r.frames.items()}").text == (
        "{'left': (1, 2), 'right': (2, 2)}"
    )
    assert shop.ok("%mcp call tables:word").text == "no table"
    assert shop.ok("named.__annotations__['return'] is pd.DataFrame").text == "True"
    shop.ok("%mcp snapshot tables -o tables.json\n%mcp export tables tables_server.py")
    async with hosted() as host:
        server = await host.connect([sys.executable, str(folder / "tables_server.py")], name="tables")
        changes = compared(json.loads((folder / "tables.json").read_text()), await interface_of(server))
        assert [str(change) for change in changes if change.kind != "server"] == []
        assert (await server.call("named", count=1)).data == [{"n": 0, "x": 0.1 + 0.2}]
        assert (await server.call("unnamed")).data == [{"day": "2026-01-02T00:00:00", "n": 1}]
    shop.ok("%mcp disconnect tables")


def test_server_object_tool_shows_lines_and_whole_long_error(
    shop: Kernel,
) -> None:
    shop.ok(
        "import json\nfrom mcp.server.mcpserver import MCPServer\nown = MCPServer('own')\n"
        "@own.tool()\ndef look(item: str) -> str:\n    return {}[item]\n"
        "@own.tool()\ndef many() -> str:\n    raise ToolError('\\n'.join(f'line {n}' for n in range(40)))\n"
        "from mcp.server.mcpserver.exceptions import ToolError\n%mcp connect own"
    )
    failed = shop.run("%mcp call own:look item=melon")
    assert (failed.ename, failed.evalue) == ("ToolCrashError", "own:look failed: KeyError: 'melon'")
    assert "----> 6     return {}[item]" in failed.shown_error
    assert "Traceback" not in str(failed.streams)
    for hidden in ("site-packages", "mcp_magic/", "Error executing"):
        assert hidden not in failed.shown_error
    failed = shop.run("%mcp call own:many")
    assert failed.evalue.splitlines()[5:] == [
        "line 5",
        "… (`%mcp last` shows all of it; in Python it is `error.result`)",
    ]
    line = re.findall(r"`(%mcp .*?)`", failed.evalue)[0]
    assert "line 39" in shop.ok(line).text
    assert shop.ok(f"r = {line}\nr.is_error, len(r.text.splitlines())").text == "(True, 40)"
    shop.ok("%mcp disconnect own")


def test_cell_does_not_replace_other_connected_server(shop: Kernel) -> None:
    shop.ok("from mcp.server.mcpserver import MCPServer\nother = MCPServer('other')\n%mcp connect other")
    failed = shop.run("%%mcp_server other\ndef f() -> int:\n    return 1\n")
    assert "'other' is connected, and is not a server of this notebook" in failed.evalue
    shop.ok("%mcp disconnect other")


@pytest.fixture
def exported(shop: Kernel, cell: Cell, folder: Path) -> Iterator[Path]:
    shop.ok("%mcp export shop shop_server.py")
    file = folder / "shop_server.py"
    yield file
    file.unlink()


async def test_exported_server_has_same_interface_and_answers(shop: Kernel, exported: Path, folder: Path) -> None:
    shop.ok("%mcp snapshot shop -o shop.json")
    code = exported.read_text()
    assert "hunter22" not in code
    assert 'os.environ["api_token"]' in code
    assert "mcp_magic" not in code
    async with hosted() as host:
        server = await host.connect([sys.executable, str(exported)], name="shop", env={"api_token": "abc"})
        changes = compared(json.loads((folder / "shop.json").read_text()), await interface_of(server))
        assert [str(change) for change in changes if change.kind != "server"] == []
        assert (await server.call("price", item="pear", count=2)).data == 4.0
        assert (await server.call("signed")).data == 3
        assert (await server.call("best", until="2026-01-01")).data["item"] in ("apple", "plum")


def hosted() -> Hosted:
    return Hosted()


class Hosted:
    """A host for one test."""

    async def __aenter__(self) -> Host:
        self.host = Host()
        return self.host

    async def __aexit__(self, *_: object) -> None:
        await self.host.close()


def test_export_names_unwritable_values_and_overwrites_nothing(shop: Kernel, exported: Path) -> None:
    assert "is there already; --force writes over it" in shop.run("%mcp export shop shop_server.py").evalue
    shop.ok("handle = open('shop_server.py')\nclass Odd: pass\nodd = Odd()")
    shop.ok("%%mcp_server files\ndef first() -> str:\n    return handle.readline()")
    failed = shop.run("%mcp export files files.py")
    assert "first uses 'handle', a TextIOWrapper of the notebook; make or load it in the cell" in failed.evalue
    shop.ok("handle.close()\n%mcp disconnect files")
    shop.ok("from mcp.server.mcpserver import MCPServer\nplain = MCPServer('plain')\n%mcp connect plain")
    assert "was not made by `%%mcp_server`" in shop.run("%mcp export plain p.py").evalue
    shop.ok("%mcp disconnect plain")


async def test_a_server_is_served_to_whoever_has_the_token(shop: Kernel, cell: Cell) -> None:
    listing = shop.ok("%mcp serve shop").text
    served = "get_ipython().magics_manager.registry['MCPMagics'].state.served['shop']"
    url, token, file = (shop.ok(f"print({served}.{name})").stdout.strip() for name in ("url", "token", "token_file"))
    assert token not in listing
    assert url in listing
    assert token not in shop.ok(served).text
    assert token not in shop.ok("%mcp serve").data["text/html"]
    async with hosted() as host:
        with pytest.raises(ConnectError, match=r"log-in|401"):
            await host.connect(url, name="shop")
        with pytest.raises(HTTPStatusError, match="401"):
            await host.connect(url, name="shop", headers={"Authorization": "Bearer wrong"})
        server = await host.connect(url, name="shop", headers={"Authorization": f"Bearer {token}"})
        assert (await server.call("price", item="pear")).data == 2.0
        shop.ok(SHOP.replace("_unit(item) * count", "_unit(item) * count * 10"))  # at the same place
        assert (await server.call("price", item="pear")).data == 20.0
    shop.ok("%mcp serve shop --stop")
    assert shop.ok(f"import os; os.path.exists({file!r})").text == "False"
    with pytest.raises(httpx2.ConnectError):
        httpx2.post(url)
    assert "'shop' is not served" in shop.run("%mcp serve shop --stop").evalue


def test_serving_ends_with_extension_and_reports_bad_port(shop: Kernel, cell: Cell) -> None:
    shop.ok("import socket\ntaken = socket.create_server(('127.0.0.1', 0))\nport = taken.getsockname()[1]")
    port = shop.ok("port").text
    before = shop.ok("%mcp serve shop").text
    failed = shop.run(f"%mcp serve shop --port {port}")
    assert f"port {port} on 127.0.0.1: Address already in use" in failed.evalue
    assert shop.ok("%mcp serve").text == before, "it is still served where it was"
    shop.ok("taken.close()")
    assert "which server?" in shop.run("%mcp serve --stop").evalue


def test_a_snapshot_is_compared_with_what_the_server_offers_now(shop: Kernel, cell: Cell, folder: Path) -> None:
    assert "4 tools, 1 prompt, 1 resource, 1 template" in shop.ok("%mcp snapshot shop").text
    assert "nothing has changed" in shop.ok("%mcp diff shop").text
    shop.ok(SHOP.replace("count: int = 1", "count: int"))
    text = words(shop.ok("%mcp diff shop").text)
    assert "breaking tool price count is required now" in text
    failed = shop.run("%mcp diff shop --check")
    assert "1 breaking change since shop.mcp.json: tool price: count is required now" in failed.evalue
    (folder / "odd.json").write_text("{}")
    assert "is not a snapshot of a server" in shop.run("%mcp diff shop odd.json").evalue
    assert "No such file" in shop.run("%mcp diff shop none.json").evalue


def test_what_is_served_ends_with_its_kernel(start: Callable[..., Kernel]) -> None:
    kernel = start()
    kernel.ok("%load_ext mcp_magic")
    kernel.ok("%%mcp_server one\ndef f() -> int:\n    return 1\n")
    kernel.ok("%mcp serve one")
    url = kernel.ok("get_ipython().magics_manager.registry['MCPMagics'].state.served['one'].url").text.strip("'")
    assert httpx2.post(url).status_code == 401
    kernel.ok("%unload_ext mcp_magic")
    with pytest.raises(httpx2.ConnectError):
        httpx2.post(url)
