"""The requests of a trace or of a cassette: what belongs to each, and what a program cannot repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_magic import Host
from mcp_magic.cassette.cassette import Cassette
from mcp_magic.errors import CassetteError, CommandError
from mcp_magic.server.exchange import MOST, Exchange, Recording, recorded, traced
from tests.support.cassettes import written
from tests.support.stall_server import make

TUTORIAL = Path(__file__).parents[2] / "notebooks" / "cassettes" / "quickstart.jsonl"
HEAD = ({"cassette": 1}, {"session": 1, "server": "shop", "transport": "stdio", "where": "shop"})


@pytest.fixture
async def host():
    async with Host() as host:
        yield host


def call(number, **answer):
    params = {"name": "add", "arguments": {"a": number}, "_meta": {"x": 1}}
    request = {"session": 1, "to": "server", "id": number, "method": "tools/call", "params": params}
    return [request, {"session": 1, "to": "client", "id": number, **answer}] if answer else [request]


async def test_trace_has_the_requests_with_progress_and_answer(host):
    connection = await host.connect(make(), name="shop")
    await connection.call("search", text="tea")
    await connection.call_tool("pack", {"steps": 2}, on_progress=lambda *_: nothing())
    await connection.read("shop://opening")
    await connection.prompt("advert", item="tea")
    recording = await traced(connection, host.trace.entries("shop"))
    assert [exchange.name for exchange in recording.exchanges] == ["search", "pack", "shop://opening", "advert"]
    pack = recording.exchanges[1]
    assert [message["params"]["message"] for message in pack.messages] == ["box 1", "box 2"]
    assert pack.number is not None
    assert recording.opening["serverInfo"]["name"] == "shop"
    assert recording.output_schema("search")["type"] == "object"
    only = await traced(connection, host.trace.entries("shop"), 1)
    assert [exchange.name for exchange in only.exchanges] == ["advert"]


async def nothing():
    """Take progress."""


async def test_trace_without_requests_names_what_makes_one(host):
    connection = await host.connect(make(), name="shop")
    with pytest.raises(CommandError, match=r"`%mcp call shop:TOOL` makes one"):
        await traced(connection, host.trace.entries("shop"))


async def test_recording_of_a_trace_is_saved_as_a_cassette(host, tmp_path):
    connection = await host.connect(make(), name="shop")
    await connection.call("search", text="tea")
    (await traced(connection, host.trace.entries("shop"))).save(tmp_path / "shop.jsonl")
    again = recorded(tmp_path / "shop.jsonl")
    assert again.exchanges[0].params == {"name": "search", "arguments": {"text": "tea"}}
    assert [tool["name"] for tool in again.listings["tools"]][:2] == ["search", "order"]
    assert list(Cassette(tmp_path / "shop.jsonl", "replay").content.servers) == ["shop"]


def test_cassette_has_the_requests_of_one_of_its_servers():
    with pytest.raises(CassetteError, match=r"several servers, .*: name one before it, as in `%mcp export \w+ FILE"):
        recorded(TUTORIAL)
    with pytest.raises(CassetteError, match=r"^mth is not in .* Did you mean 'math'\?"):
        recorded(TUTORIAL, "mth")
    recording = recorded(TUTORIAL, "math")
    assert recording.where == "python servers/math_server.py"
    assert {exchange.method for exchange in recording.exchanges} <= {"tools/call", "resources/read", "prompts/get"}


def test_requests_that_a_program_cannot_repeat_are_named(tmp_path):
    question = {"session": 1, "to": "client", "id": "q", "method": "elicitation/create", "params": {}}
    asks = call(2, result={"content": []})
    lines = [
        *call(1, result={"content": []}),
        *[asks[0], question, {"session": 1, "to": "server", "id": "q", "result": {"action": "decline"}}, asks[1]],
        *call(3, result={"resultType": "task", "taskId": "t"}),
        *call(4),
    ]
    groups, remarks = recorded(written(tmp_path / "shop.jsonl", *HEAD, *lines)).groups()
    assert [group[0].arguments for group in groups] == [{"a": 1}]
    assert remarks == [
        "left out: 1 request: asked a question",
        "left out: 1 request: became a task",
        "left out: 1 request: no answer",
    ]


def test_odd_lines_of_a_cassette_throw_nothing_away(tmp_path):
    odd = {"session": 1, "to": "server", "id": 8, "method": "tools/call", "params": {"name": 5, "arguments": [1]}}
    lines = [*call(1, result={"content": []}), odd, {"session": 1, "to": "client", "id": 8, "result": {}}]
    exchanges = recorded(written(tmp_path / "shop.jsonl", *HEAD, *lines)).exchanges
    assert [(exchange.name, exchange.arguments) for exchange in exchanges] == [("add", {"a": 1}), ("5", {})]
    damaged = recorded(written(tmp_path / "shop.jsonl", *HEAD, *call(1, result={"content": []}), "no object"))
    assert len(damaged.exchanges) == 1
    assert "not a JSON object" in damaged.groups()[1][0]
    with pytest.raises(CassetteError, match="has no server"):
        recorded(written(tmp_path / "none.jsonl", {"cassette": 1}))
    with pytest.raises(CassetteError, match="there is no cassette"):
        recorded(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("odd", [5, "x", [1], {"a": 1}, True])
def test_odd_opening_and_listing_are_passed_over(tmp_path, odd):
    openings = {
        "initialize": {"protocolVersion": odd, "serverInfo": odd},
        "server/discover": {"supportedVersions": [odd], "_meta": odd},
        "tools/list": {"tools": odd},
    }
    for method, result in openings.items():
        question = {"session": 1, "to": "server", "id": 7, "method": method, "params": {}}
        lines = [question, {"session": 1, "to": "client", "id": 7, "result": result}]
        recording = recorded(written(tmp_path / "shop.jsonl", *HEAD[:2], *lines, *call(8, result={"content": []})))
        recording.save(tmp_path / "again.jsonl")
        assert recorded(tmp_path / "again.jsonl").exchanges[0].arguments == {"a": 8}


def test_thousands_of_requests_are_cut_to_the_newest():
    answer = {"result": {"content": []}}
    exchanges = [Exchange("tools/call", {"name": "add", "arguments": {"a": n}}, answer) for n in range(MOST + 5)]
    groups, remarks = Recording("shop", [*exchanges, exchanges[-1]]).groups()
    assert len(groups) == MOST
    assert len(groups[-1]) == 2
    assert remarks == ["left out: the first 5 of 205 different requests"]
