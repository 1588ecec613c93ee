"""What is written of a session is run: tests live and from cassettes, clients on both SDKs; and texts stay texts."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest

from mcp_magic import Host
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import CommandError, ProtocolError, ToolError
from mcp_magic.server.clients import schema_of, write_tests
from mcp_magic.server.exchange import Exchange, Recording
from mcp_magic.server.targets import Target
from tests.environments import needs_node
from tests.support.exporting import KEY, TOKEN, node_project, node_run, pytest_run, ran, shop
from tests.support.protected_server import logged_in
from tests.support.stall_server import HOSTILE, make


@pytest.fixture
async def host():
    async with Host() as host:
        yield host


@pytest.fixture(params=["stdio", "http"])
def how(request):
    return request.param


@pytest.fixture
def protocol(how):
    """Over each transport the requests are of another protocol era."""
    return "handshake" if how == "stdio" else "auto"


async def visit(connection):
    """Make requests of all kinds."""
    await connection.call("search", text="tea")
    await connection.call("login", user="ann", password="sesame-4711")
    await connection.call("ticket")
    await connection.call("ticket")
    if connection.spec.transport == "stdio":  # where each test starts a server
        return
    await connection.call("search", text="tea")
    await connection.call("order", item="tea")
    await connection.call("picture")
    await connection.call(HOSTILE.replace("\n", " "), text="a\n'\"`${b}</script>")
    with suppress(ToolError):
        await connection.call("fail", why="no \"tea\" in 'stock'")
    await connection.read("shop://opening")
    with suppress(ProtocolError):
        await connection.read("shop://nowhere")
    await connection.prompt("advert", item="tea")


ANSWERS = ("tea 2", "welcome ann", "9 to 5", "Praise tea.", "Unknown", "stock", "process.exit(3)")


async def test_tests_pass_live_and_from_their_cassettes(host, how, tmp_path):
    file = tmp_path / "tests" / "test_shop.py"
    file.parent.mkdir()
    async with shop(host, how) as (connection, variables):
        await visit(connection)
        count = 10 if how == "http" else 3
        written = await host.export("shop", "pytest", file)
        assert len(written.tests) == count
        assert written.remarks == ()
        assert set(written.variables) == {"SHOP_PASSWORD", *variables}
        secrets = {"SHOP_PASSWORD": "sesame-4711", **variables}
        assert await pytest_run(file, "--mcp-record=once", **secrets) == f"{count} passed"
        assert len(list(file.parent.rglob("cassettes/test_shop/*.jsonl"))) == count
        await host.disconnect("shop")
    assert await pytest_run(file) == f"{count} passed"
    text = file.read_text()
    for secret in (TOKEN, KEY, "sesame-4711"):
        assert secret not in text
    assert 'await server.call("search", text="tea")' in text
    assert 'assert result.data == [{"name": "tea 1", "price": 2.5, "left": None}, {"name": "tea 2",' in text
    assert 'jsonschema.validate(result.data, {"type": "integer"})' in text, "ticket had two answers"
    if how == "http":
        assert '"properties": {"id": {"type": "string"}' in text, "an order has an id and a time of its own"


async def test_tests_run_where_pytest_asyncio_runs_all(host, tmp_path):
    async with shop(host, "stdio") as (connection, variables):
        await connection.call("where")
        await host.export("shop", "pytest", tmp_path / "test_shop.py")
    auto = ("--mcp-record=once", "-o", "asyncio_mode=auto")
    assert await pytest_run(tmp_path / "test_shop.py", *auto, **variables) == "1 passed"


async def test_python_client_gets_the_answers(host, how, protocol, tmp_path):
    file = tmp_path / "client.py"
    async with shop(host, how, protocol=protocol) as (connection, variables):
        await visit(connection)
        assert (await host.export("shop", "client", file)).remarks == ()
        secrets = {"SHOP_PASSWORD": "sesame-4711", **variables}
        status, output = await ran(sys.executable, str(file), folder=tmp_path, **secrets)
        assert status == 0, output
        for answer in ANSWERS[: 2 if how == "stdio" else None]:
            assert answer in output
        status, output = await ran(sys.executable, str(file), folder=tmp_path)
        assert status == 1
        assert "KeyError" in output


@needs_node
async def test_typescript_client_gets_the_answers(host, how, protocol, tmp_path):
    node_project(tmp_path)
    file = tmp_path / "client.ts"
    async with shop(host, how, protocol=protocol) as (connection, variables):
        await visit(connection)
        assert (await host.export("shop", "client", file)).remarks == ()
        output = await node_run(file, SHOP_PASSWORD="sesame-4711", **variables)
        for answer in ANSWERS[: 2 if how == "stdio" else None]:
            assert answer in output


async def test_client_of_a_server_with_a_log_in_reads_a_token(host, tmp_path, own_data):
    async with logged_in(host) as (protected, connection, _):
        await connection.call("whoami")
        written = await host.export("notes", "client", tmp_path / "client.py")
        assert written.variables == ("NOTES_TOKEN",)
        token = protected.tokens[-1]
        assert token not in (tmp_path / "client.py").read_text()
        status, output = await ran(sys.executable, "client.py", folder=tmp_path, NOTES_TOKEN=token)
        assert status == 0, output
        assert ": read" in output
        assert (await host.export("notes", "pytest", tmp_path / "test_notes.py")).variables == ()


async def test_calls_of_an_agent_and_what_cannot_be_repeated_stay_out(host, tmp_path):
    connection = await host.connect([sys.executable, "-m", "tests.support.stall_server"], name="shop")
    await connection.call("search", text="tea")
    await connection.call("long", length=10_000)
    host.consent.add(Rule("allow", "shop:*"))
    await connection.call_tool("search", {"text": "milk"}, asker="agent")
    written = await host.export("shop", "pytest", tmp_path / "test_shop.py")
    assert written.tests == ("test_search_tea",)
    [remark] = written.remarks
    assert remark.startswith("left out: 1 request: too long for the trace, which cuts messages")
    await connection.call("search", text="cake")
    assert (await host.export("shop", "pytest", tmp_path / "test_last.py", last=1)).tests == ("test_search_cake",)


async def test_server_of_the_kernel_is_refused_with_what_to_do(host, tmp_path):
    await (await host.connect(make(), name="shop")).call("search", text="tea")
    with pytest.raises(CommandError, match=r"`%mcp export shop shop.py` writes a server of a cell as a program"):
        await host.export("shop", "client", tmp_path / "client.py")


def test_schema_of_several_values_holds_what_they_share():
    values = [{"a": 1, "b": None, "c": [1, "x"]}, {"a": 2.5, "c": []}]
    assert schema_of(values) == {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "null"},
            "c": {"type": "array", "items": {"type": ["integer", "string"]}},
        },
        "required": ["a", "c"],
    }


@pytest.mark.parametrize(("value", "is_compared"), [(1795898637.338, False), (1795898637, True), (4.5, True)])
def test_time_on_a_cassette_is_not_compared(tmp_path, value, is_compared):
    answer = {"result": {"content": [{"type": "text", "text": json.dumps({"at": value})}]}}
    recording = Recording("shop", [Exchange("tools/call", {"name": "status"}, answer)], "stdio", "shop")
    text = write_tests(recording, Target("stdio", ["python", "shop.py"]), tmp_path / "test_shop.py").text
    assert (f'assert result.data == {{"at": {value}}}' in text) == is_compared
