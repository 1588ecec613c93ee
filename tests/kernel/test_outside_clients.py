"""Clients that others wrote, at a kernel: each lists, reads, calls, refers to a value, and answers a question."""

import asyncio
import json
import os
import re
import shutil
import sys

import pytest

from tests.environments import (
    ROOT,
    TYPESCRIPT_PACKAGES,
    cache,
    folder_of,
    make_adapters,
    make_clients,
    make_mcp1,
    make_mcporter,
    make_node,
    make_sdk,
    needs_node,
)
from tests.support.outside_kernel import CELLS, Bare, served

SETUP = CELLS

SUPPORT = ROOT / "tests" / "support"
PROXY = [sys.executable, "-m", "mcp_magic", "proxy"]
OUTPUT = "\n".join(f"{n},item {n},{n * 1.5}" for n in range(5))

STEPS = {
    "tools": ["tools"],
    "resources": ["resources"],
    "prompts": ["prompts"],
    "resource": ["read", "shop://prices"],
    "prompt": ["prompt", "shop__haggle", {"item": "pear"}],
    "values": ["call", "list_values", {}],
    "value": ["call", "read_value", {"name": "df", "rows": "0:2"}],
    "unshared": ["call", "read_value", {"name": "hidden"}],
    "call": ["call", "shop__add", {"a": 19, "b": 23}],
    "wrong": ["call", "shop__add", {"a": "x", "b": 23}],
    "reference": ["call", "shop__total", {"rows": {"$value": "df"}, "column": "price"}],
    "large": ["call", "shop__many", {"count": 3000}],
    "progress": ["call", "shop__slow", {"steps": 3}],
    "question": ["call", "shop__plan", {}],
}
"""What each client does, by what it shows."""

LANGCHAIN = ("tools", "values", "value", "call", "reference", "large")
"""The steps of an agent, which has tools alone and answers no question."""


@pytest.fixture(scope="module")
def served_at(kernel):
    return served(kernel)


def program(client):
    """Return the command of a client's program, and install what it needs."""
    node, kind = shutil.which("node") or "node", client.partition(" ")[0]
    python = str(SUPPORT / "outside_client.py")
    if client == "mcp 1":
        make_mcp1()
        return [str(cache() / "mcp1" / "bin" / "python"), python, "mcp 1", ""]
    if kind == "mcp":
        return [sys.executable, python, client, ""]
    if kind == "fastmcp":
        make_sdk(client)
        return [sys.executable, "-S", python, "fastmcp", str(cache() / folder_of(client))]
    if kind == "langchain":
        make_adapters()
        return [str(cache() / "adapters" / "bin" / "python"), python, "langchain", ""]
    if client == "typescript 1":
        make_node("typescript", TYPESCRIPT_PACKAGES)
        sdk = cache() / "typescript" / "node_modules" / "sdk-1"
    else:
        make_clients()
        sdk = cache() / "clients" / "node_modules" / "@modelcontextprotocol" / "client"
    return [node, str(SUPPORT / "outside_client.mjs"), client.partition(" ")[2], str(sdk)]


async def run(command, folder, text=""):
    """Run a program in the kernel's folder; return what it prints."""
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder,
    )
    output, errors = await process.communicate(text.encode())
    assert output, errors.decode()
    return output.decode()


def check(outcomes):
    """Check what the steps came to."""
    text = {
        step: outcome["text"] for step, outcome in outcomes.items() if isinstance(outcome, dict) and "text" in outcome
    }
    assert not [outcome for outcome in outcomes.values() if isinstance(outcome, dict) and "failed" in outcome]
    assert {"list_values", "read_value", "describe_value", "put_value", "shop__add"} <= {*outcomes["tools"]}
    assert "df" in text["values"]
    assert "hidden" not in text["values"]
    assert ("Oslo" in text["value"], "Bonn" in text["value"]) == (True, False)
    assert text["call"] == "42"
    assert text["reference"] == "42.5"
    assert "result_" in text["large"]
    assert len(text["large"]) < 3000
    for step, expected in {
        "resources": ["shop://prices"],
        "prompts": ["shop__haggle"],
        "resource": "apple 1.5",
        "prompt": "What would you take for a pear?",
    }.items():
        assert outcomes.get(step, expected) == expected
    for step in ("unshared", "wrong"):
        assert step not in outcomes or outcomes[step]["error"]
    if "progress" in outcomes:
        assert text["progress"] == "3 steps"
        assert outcomes["progress"]["progress"] == 3
    if "question" in outcomes:
        assert text["question"] == "accept Oslo 2"


EVERY = bool(os.environ.get("MCP_MAGIC_ALL_CLIENTS"))

FIRST = ["mcp 2/auto", "fastmcp 4.1.0", "langchain", "typescript 1", "typescript auto", "mcp 1"]
"""Clients that are always tried, over HTTP and the proxy by turns."""

SECOND = ["mcp 2/legacy", "fastmcp 3.4.10", "typescript legacy"]
"""Clients that are tried, and everything over both transports, with MCP_MAGIC_ALL_CLIENTS=1: that takes a minute."""


def pairs():
    for number, client in enumerate([*FIRST, *SECOND] if EVERY else FIRST):
        for place, transport in enumerate(("http", "stdio")):
            if EVERY or number % 2 == place:
                yield pytest.param(client, transport, marks=needs_node if client.startswith("typescript") else ())


@pytest.mark.parametrize(("client", "transport"), [*pairs()])
async def test_clients_of_others_use_the_kernel(served_at, folder, client, transport):
    steps = {name: STEPS[name] for name in STEPS if client != "langchain" or name in LANGCHAIN}
    url, token = served_at
    target = {"command": PROXY} if transport == "stdio" else {"url": url, "token": token}
    if client.startswith("typescript"):  # its SDKs lose reports that come together with the answer
        steps["progress"] = ["call", "shop__slow", {"steps": 3, "until_heard": True}]
    plan = {**target, "steps": [*steps.values()]}
    answer = json.loads((await run(program(client), folder, json.dumps(plan))).splitlines()[-1])
    check(dict(zip(steps, answer["outcomes"], strict=True)))
    era = {"mcp 2/auto": "2026-07-28", "typescript auto": "2026-07-28", "typescript legacy": "2025-11-25"}
    assert answer["version"] == era.get(client, answer["version"])


@needs_node
@pytest.mark.parametrize("transport", ["stdio", "http"][: 1 + EVERY])
async def test_inspector_uses_the_kernel(served_at, folder, transport):
    make_clients()
    launcher = cache() / "clients/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    url, token = served_at
    where = [url, "--transport", "http", "--header", f"Authorization: Bearer {token}"] if transport == "http" else []
    words = [] if where else ["--", *PROXY]

    async def inspect(*options):
        return json.loads(
            await run(["node", str(launcher), "--cli", "--connect-timeout", "120000", *where, *options, *words], folder)
        )

    names = [tool["name"] for tool in (await inspect("--method", "tools/list"))["tools"]]
    assert {"list_values", "shop__add"} <= {*names}
    total = ["--tool-name", "shop__total", "--tool-arg", 'rows={"$value": "df"}', "column=price"]
    answer = await inspect("--method", "tools/call", *total)
    assert answer["content"][0]["text"] == "42.5"


@needs_node
@pytest.mark.parametrize("transport", ["http", "stdio"][: 1 + EVERY])
async def test_mcporter_uses_the_kernel(served_at, folder, transport):
    make_mcporter()
    script = cache() / "mcporter" / "node_modules" / "mcporter" / "dist" / "cli.js"
    url, token = served_at
    headers = {"Authorization": f"Bearer {token}"}
    entry = {"url": url, "headers": headers} if transport == "http" else {"command": PROXY[0], "args": PROXY[1:]}
    (folder / "mcporter.json").write_text(json.dumps({"mcpServers": {"kernel": entry}}))

    async def port(*options):
        return json.loads(await run(["node", str(script), "--config", "mcporter.json", *options], folder))

    names = [tool["name"] for tool in (await port("list", "kernel", "--json"))["tools"]]
    assert {"list_values", "shop__add"} <= {*names}
    arguments = json.dumps({"rows": {"$value": "df"}, "column": "price"})
    assert "42.5" in json.dumps(await port("call", "kernel.shop__total", "--args", arguments, "--output", "json"))


TABLES = """
from typing import Any
from mcp.server.mcpserver import MCPServer
cities = ["Oslo", "Rome", "Bonn", "Lyon"]
crm, sales, tables = (MCPServer(name, log_level="ERROR") for name in ("crm", "sales", "tables"))

@crm.tool()
def customers() -> list[dict[str, Any]]:
    "All customers."
    return [{"id": n, "name": f"Customer {n}", "city": cities[n % 4], "since": 2000 + n % 25} for n in range(10_000)]

@sales.tool()
def orders() -> list[dict[str, Any]]:
    "All orders."
    return [{"order": 50_000 + n, "id": n * 7 % 10_000, "amount": n % 97 * 1.25} for n in range(10_000)]

@tables.tool()
def join(left: list[dict[str, Any]], right: list[dict[str, Any]], on: str) -> list[dict[str, Any]]:
    "Joins two tables on a column."
    rows = {row[on]: row for row in left}
    return [{**rows[row[on]], **row} for row in right if row[on] in rows]
"""


async def test_joining_tables_of_two_servers_costs_few_tokens(kernel, served_at):
    for code in (
        TABLES,
        *(f"%mcp connect {name}\n%mcp allow '{name}:*' --for outside" for name in ("crm", "sales", "tables")),
    ):
        kernel.ok(code)
    read = []
    with Bare(*served_at, "joiner") as client:
        client.begin()

        def call(tool, **arguments):
            failed, text = client.call(tool, **arguments)
            assert not failed, text
            read.extend([json.dumps({"name": tool, "arguments": arguments}), text])
            return text

        def handle(text):
            return re.search(r"result_\d+", text)[0]

        left, right = handle(call("crm__customers")), handle(call("sales__orders"))
        joined = handle(call("tables__join", left={"$value": left}, right={"$value": right}, on="id"))
        assert "10,000" in call("describe_value", name=joined)
        top = call("read_value", name=joined, query="amount == 120 and city == 'Oslo'", columns=["name", "amount"])
        assert "Customer" in top
        definitions = json.dumps(client.request("tools/list")["result"]["tools"])
    characters = sum(map(len, read))
    assert characters / 4 < 1000  # tokens; 697 when it was written, and 3,240 with the definitions of all 16 tools
    assert (characters + len(definitions)) / 4 < 4000
