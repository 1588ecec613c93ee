"""`%mcp docs`, `stubs`, `snapshot`, `diff` and `record` as lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import host
from mcp_magic.errors import CassetteError, CommandError, ConfigError, UnknownServerError, UnreachableError
from mcp_magic.ipython.completion import candidates
from mcp_magic.results.results import CheckFailedError
from tests.support.asgi import serving

TUTORIAL = Path(__file__).parents[3] / "notebooks" / "cassettes" / "quickstart.jsonl"


async def test_page_and_module_are_shown_or_written(magic):
    shown = (await magic("docs math"))._repr_mimebundle_()
    assert "### `add`" in shown["text/markdown"]
    assert "text/html" not in shown
    assert "math.md: " in str(await magic("docs math -o math.md"))
    assert (magic.folder / "math.md").read_text() == shown["text/markdown"]
    assert "async def add(" in str(await magic("stubs math"))
    await magic("stubs math -o made.py")
    assert (magic.folder / "made.py").read_text() == str(await magic("stubs math"))
    assert "math.md cannot be written: No such file" in await magic.error(ConfigError, "docs math -o nowhere/math.md")


async def test_snapshot_and_diff_name_the_line_that_goes_with_them(magic):
    assert "`%mcp snapshot math -o math.mcp.json` writes one" in await magic.error(ConfigError, "diff math")
    assert "8 tools, 1 prompt, 1 resource, 1 template; " in str(await magic("snapshot math -o math.mcp.json"))
    assert len(await magic("diff math")) == 0
    for line in ("snapshot math", "snapshot math -o api.json", "snapshot math -o 'my api.json'"):
        told = re.search(r"`%mcp (diff .*)`", str(await magic(line)))
        assert told is not None
        assert len(await magic(told[1])) == 0
    text = " ".join(str(await magic("diff --help")).split())
    assert "Without FILE it compares with SERVER.mcp.json, which `%mcp snapshot SERVER` wrote in the working" in text


def next_server() -> MCPServer:
    """Return a later version of "shop"."""
    server = MCPServer("shop", log_level="ERROR")

    @server.tool(description="Finds items by their name.")
    def search(words: str) -> str:
        return words

    return server


@pytest.fixture
async def shop(magic):
    """The session "shop"; its tool `buy` is gone in the next version."""
    server = MCPServer("shop", log_level="ERROR")

    @server.tool(description="Finds items by name.")
    def search(words: str) -> str:
        return words

    @server.tool()
    def buy() -> str:
        return "bought"

    return await host.connect(server, name="shop")


async def test_diff_compares_two_servers_or_a_server_and_a_url(magic, shop):
    await host.connect(next_server(), name="shop_next")
    changes = await magic("diff shop shop_next")
    assert changes.title == "from shop to shop_next"
    assert [(row["effect"], row["name"], row["change"]) for row in changes] == [
        ("breaking", "buy", "is gone"),
        ("routing", "search", "changed"),
    ]
    assert list(await magic("diff shop $later", later=next_server())) == list(changes)
    assert list(await host.diff("shop", "shop_next")) == list(changes)
    app = next_server().streamable_http_app(transport_security=None)
    async with serving(app) as url:
        over_http = await magic(f"diff shop {url}/mcp")
        assert over_http.title == f"from shop to {url}/mcp"
        assert list(over_http) == list(changes)
        assert list(host) == ["math", "shop", "shop_next"]
    assert "nothing listens at" in await magic.error(UnreachableError, f"diff shop {url}/mcp")


async def test_check_fails_for_the_effects_that_are_named(magic, shop):
    await host.connect(next_server(), name="shop_next")
    failed = "%mcp diff: 1 breaking change from shop to shop_next: tool buy: is gone"
    assert await magic.error(CheckFailedError, "diff shop shop_next --check") == failed
    both = await magic.error(CheckFailedError, "diff shop shop_next --check breaking,routing")
    assert both.startswith("%mcp diff: 1 breaking and 1 routing change from shop to shop_next: tool buy: is gone; tool")
    assert len(await magic("diff shop shop_next --check behaviour")) == 2
    assert "or several of them (--check breaking,routing), not 'shop_next'; SERVER and FILE come before it" in (
        await magic.error(CommandError, "diff shop --check shop_next")
    )


async def test_diff_says_what_a_word_could_be(magic, shop):
    await host.connect(next_server(), name="shop_next")
    error = await magic.error(UnknownServerError, "diff shop shop_nxt")
    assert error == (
        "'shop_nxt' is neither a connected server nor a file. Did you mean 'shop_next'? `%mcp connect TARGET --name "
        "shop_nxt` opens a session, `%mcp snapshot shop -o shop_nxt` writes the file."
    )
    await magic("snapshot shop -o shop_next")
    assert (await magic("diff shop ./shop_next")).title == "shop since shop_next"
    assert (await host.diff("shop", Path("shop_next"))).title == "shop since shop_next"
    texts = candidates("diff shop ", {}).texts
    assert {"shop_next", "math"} <= set(texts)
    assert candidates("diff shop shop_next --check breaking,r", {}).texts == ["breaking,routing"]


async def test_cassette_may_be_called_stop(magic):
    (row,) = await magic("record ./stop")
    assert row["cassette"] == "stop"
    await magic("record --stop")


async def test_export_writes_the_session_or_a_cassette(magic, shop):
    usage = await magic.error(CommandError, "export shop")
    assert "`NAME FILE.py` writes a server of a cell; --pytest, --client or --report FILE writes the" in usage
    assert "`%mcp call shop:TOOL` makes one" in await magic.error(CommandError, "export shop --report shop.html")
    await magic("call shop:search words=tea")
    shown = str(await magic("export shop --report shop.html"))
    assert shown == "shop.html: 1 request; read it before you pass it on"
    assert "1. tools/call search" in (magic.folder / "shop.html").read_text()
    assert "shop.html is there already; --force" in await magic.error(CommandError, "export shop --report shop.html")
    assert "1 request" in str(await magic("export shop --report shop.html --force --last 1"))
    assert "--last takes a number from 1 on" in await magic.error(CommandError, "export shop --report s.html --last 0")
    assert "ends in .py, not 't.ts'" in await magic.error(CommandError, "export shop --pytest t.ts")
    assert "shop runs in this kernel" in await magic.error(CommandError, "export shop --client c.py")
    assert "`%mcp export FILE.jsonl ...`" in await magic.error(UnknownServerError, "export shp --report s.html")
    assert "not allowed with argument" in await magic.error(CommandError, "export shop --report a.html --pytest t.py")
    (magic.folder / "tutorial.jsonl").write_bytes(TUTORIAL.read_bytes())
    assert "name one before it" in await magic.error(CassetteError, "export tutorial.jsonl --report t.html")
    shown = str(await magic("export math tutorial.jsonl --report t.html"))
    assert shown.startswith("t.html: ")
    assert "the cassette tutorial.jsonl" in (magic.folder / "t.html").read_text()
    assert {*candidates("export shop --", {}).texts} >= {"--pytest", "--client", "--report", "--last"}


async def test_export_writes_tests_with_the_users_names_of_secrets(magic):
    environment = "--env SHOP_KEY=$KEY --cwd {folder} --name stall"
    folder = str(Path(__file__).parents[3])
    command = f"connect {environment} -- {sys.executable} -m tests.support.stall_server"
    await magic(command, KEY="key-stall-0123456789", folder=folder)
    await magic("call stall:search text=tea")
    shown = str(await magic("export stall --pytest test_stall.py", KEY="key-stall-0123456789"))
    assert shown.splitlines() == [
        "test_stall.py: 1 test, run once as recorded; `pytest test_stall.py --mcp-record=once` records their cassettes",
        "it reads from the environment: KEY",
    ]
    text = (magic.folder / "test_stall.py").read_text()
    assert 'env={"SHOP_KEY": os.environ["KEY"]},' in text
    assert "0123456789" not in text
