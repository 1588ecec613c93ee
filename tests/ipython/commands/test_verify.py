"""`%mcp verify` and `%mcp record --again` as lines."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from mcp_magic import host
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import ArgumentsError, CassetteError, CommandError, ConfigError, UnknownServerError
from mcp_magic.ipython.completion import candidates
from mcp_magic.results.results import CheckFailedError
from tests.support.shop_server import READ_ONLY, shop_server
from tests.support.waiting import until


@pytest.fixture
async def shop(magic):
    """A recording of the shop, `shop.jsonl`, which is connected."""
    await magic("disconnect math")
    await magic("record shop.jsonl")
    connection = await host.connect(shop_server(), name="shop")
    for tool, arguments in (("price", {"item": "tea"}), ("status", {}), ("buy", {"item": "tea"})):
        await connection.call_tool(tool, arguments)
    await magic("record --stop")
    yield connection
    deck.eject()


def statuses(verification) -> dict[str, str]:
    return {row["request"]: row["status"] for row in verification if "/list" not in row["request"]}


async def test_second_recording_and_paths_make_a_line_succeed(magic, shop):
    assert "status(): changed value" in await magic.error(CheckFailedError, "verify shop.jsonl")
    ignored = await magic("verify shop.jsonl --ignore text.at --ignore content[0].text.visit --ignore text.id")
    assert statuses(ignored) == {'price(item="tea")': "same", "status()": "ignored", 'buy(item="tea")': "skipped"}
    varies = await magic("record shop.jsonl --again")
    assert [row["path"].rpartition(".")[2] for row in varies] == ["at", "visit", "id"]
    assert varies.note == "2 answers added; 1 request left out: `%mcp verify` says why"
    assert statuses(await magic("verify shop.jsonl shop --timeout 30")) == statuses(ignored)
    assert statuses(await magic("verify $tape", tape="shop.jsonl")) == statuses(ignored)


async def test_failure_writes_the_outcomes_before_it_is_raised(magic, shop):
    await magic("record shop.jsonl --again")
    await host.connect(shop_server(2), name="shop_next")
    with pytest.raises(CheckFailedError) as failed:
        await magic("verify shop.jsonl shop=shop_next --junit junit.xml")
    text = "2 of 7 requests of shop.jsonl: 1 changed schema, 1 changed value"
    assert str(failed.value).startswith(text)
    assert failed.value.result.df["status"].tolist()[4] == "changed value"
    [suite] = ElementTree.parse(magic.folder / "junit.xml").getroot()
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("2", "1")


async def test_all_calls_need_an_approval(magic, shop):
    await magic("record shop.jsonl --again")
    text = await magic.error(CheckFailedError, "verify shop.jsonl --all")
    assert 'buy(item="tea"): denied: shop:buy was not called; denied by default: you cannot be asked here' in text
    await magic("allow shop:buy")
    assert statuses(await magic("verify shop.jsonl --all"))['buy(item="tea")'] == "same"
    assert (await magic("record shop.jsonl --again --all")).note == "3 answers added"


async def test_interrupt_or_cancel_keeps_the_outcomes_so_far(magic, monkeypatch):
    server, reached = shop_server(), asyncio.Event()
    is_live = False

    @server.tool(annotations=READ_ONLY)
    async def think() -> str:
        if is_live:
            reached.set()
            await asyncio.Event().wait()
        return "done"

    await magic("disconnect math")
    await magic("record shop.jsonl")
    connection = await host.connect(server, name="shop")
    for tool, arguments in (("price", {"item": "tea"}), ("think", {}), ("price", {"item": "milk"})):
        await connection.call_tool(tool, arguments)
    await magic("record --stop")
    is_live = True
    shown = []
    monkeypatch.setattr(host.reports, "progress", True)
    monkeypatch.setattr(host.reports, "reporter", lambda report: shown.append(report))
    running = asyncio.create_task(magic("verify shop.jsonl"))
    await asyncio.wait_for(reached.wait(), 30)
    await until(lambda: shown)
    shown[0].cancel()
    verification = await running
    assert statuses(verification) == {
        'price(item="tea")': "same",
        "think()": "not sent",
        'price(item="milk")': "not sent",
    }
    assert not verification.ok
    assert verification.note == "cancelled: the other requests were not sent"


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        pytest.param("verify", CommandError, "the following arguments are required: FILE", id="no file"),
        pytest.param("verify nope.jsonl", CassetteError, "there is no cassette", id="missing"),
        pytest.param("verify shop.jsonl shap=x", CassetteError, "Did you mean 'shop'?", id="server"),
        pytest.param("verify shop.jsonl shop=x", UnknownServerError, "x is not connected; `%mcp connect", id="session"),
        pytest.param("verify shop.jsonl --ignore a[", ArgumentsError, "'a[' is no path in an answer", id="path"),
        pytest.param("verify shop.jsonl --set token", CommandError, "--set takes NAME=VALUE", id="set"),
        pytest.param("verify shop.jsonl --junit no/j.xml", ConfigError, "no; nothing was sent", id="junit"),
        pytest.param("record --again", CommandError, "--again needs FILE", id="again"),
        pytest.param("record shop.jsonl --again --pauses", CommandError, "--again needs FILE, and", id="pauses"),
        pytest.param("record shop.jsonl shop", CommandError, "SERVER and --all need --again", id="record one"),
    ],
)
async def test_wrong_lines_say_what_is_right(magic, shop, line, error, text):
    assert text in await magic.error(error, line)


async def test_file_in_use_is_not_recorded_again(magic, shop):
    await magic("record shop.jsonl --mode auto")
    text = "shop.jsonl is in use; `%mcp record --stop` first"
    assert text in await magic.error(CommandError, "record shop.jsonl --again")


async def test_tab_offers_servers_of_the_cassette_and_sessions(magic, shop):
    assert candidates("verify sh", {}).texts == ["shop.jsonl"]
    assert candidates("verify shop.jsonl ", {}).texts == ["shop"]
    assert candidates("verify shop.jsonl shop=", {}).texts == ["shop=shop"]
    assert candidates("verify nope.jsonl ", {}).texts == []
