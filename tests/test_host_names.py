"""Names of tools and resources are resolved over all sessions of a host."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from tests.support import SUPPORT
from tests.support.bundled import load
from tests.support.processes import children
from tests.support.waiting import until


async def test_names_are_resolved_with_and_without_the_server(host):
    server = MCPServer("other")
    server.add_tool(lambda: 1, name="add")
    server.add_tool(lambda: "odd", name="odd:name")
    await host.connect(load("math_server").server, name="math")
    assert (await host.resolve("divide"))[0].name == "math"
    await host.connect(server, name="other")
    assert (await host.resolve("odd:name"))[1].name == "odd:name"
    assert (await host.resolve("other:odd:name"))[1].name == "odd:name"
    with pytest.raises(errors.AmbiguousNameError) as caught:
        await host.resolve("add")
    assert str(caught.value) == "2 servers have 'add'; say which: math:add, other:add"
    with pytest.raises(errors.UnknownServerError) as unknown:
        await host.resolve("mth:add")
    assert str(unknown.value) == "no server 'mth' for the tool 'add'. Did you mean 'math'? Connected: math, other"
    with pytest.raises(errors.UnknownToolError, match=r"no server has a tool 'dvide'\. Did you mean 'divide'\?"):
        await host.resolve("dvide")


async def test_a_missing_tool_names_a_lost_session_that_has_it(host):
    pages = json.dumps({"tools/list": {"tools": [{"name": "t1", "inputSchema": {"type": "object"}}]}})
    half = await host.connect([sys.executable, str(SUPPORT / "sick_server.py"), pages], name="half")
    await host.connect(load("math_server").server, name="math")
    children("sick_server.py")[0].kill()
    await until(lambda: half.state == "lost")
    with pytest.raises(errors.UnknownToolError) as caught:
        await host.resolve("t1")
    assert str(caught.value) == "no open session has a tool 't1'. half (lost) has it: `%mcp reconnect half`"


async def test_a_tool_is_resolved_while_another_server_leaves(host):
    for name in ("first", "second", "third"):
        server = MCPServer(name)
        server.add_tool(lambda name=name: name, name=f"of_{name}")
        await host.connect(server)
    looking = asyncio.create_task(host.resolve("of_second"))
    await asyncio.sleep(0)
    await host.disconnect("first")
    connection, tool = await looking
    assert (connection.name, tool.name) == ("second", "of_second")


async def test_a_resource_is_read_from_the_server_that_has_it(host):
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("showcase_server").server, name="show")
    assert (await host.read("math://constants")).server == "math"
    assert (await host.read("math://table/3")).server == "math"
    with pytest.raises(errors.AmbiguousNameError) as caught:
        await host.read("math://constnts")
    assert str(caught.value) == (
        "no server lists 'math://constnts'. Did you mean 'math://constants'? "
        "It could be on math, show; say which with --server NAME"
    )


async def test_a_resource_is_read_by_a_template_that_matches(host):
    days, months = MCPServer("days"), MCPServer("months")
    days.resource("notes://{day}{?lang}", name="day")(lambda day, lang="en": f"{day} in {lang}")
    months.resource("notes://{year}/{month}", name="month")(lambda year, month: f"{month} of {year}")
    await host.connect(days, name="days")
    await host.connect(months, name="months")
    assert (await host.read("notes://2024/01")).text == "01 of 2024"
    assert (await host.read("notes://today?lang=no")).text == "today in no"
