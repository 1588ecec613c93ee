"""Servers as modules: their names, stubs and texts in programs, and programs as cells."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool

from mcp_magic.agent.graph import cell_of
from mcp_magic.agent.modules import Names, as_cell, interface, modules_of, parse, server_module
from mcp_magic.agent.program import Programs
from mcp_magic.consent.consent import Decision
from mcp_magic.errors import ArgumentsError
from mcp_magic.server.stubs import SHORT_HEAD, short_stubs
from tests.support.agents import add_server, answers, ask, coder
from tests.support.lowlevel import serving_tools

pytest.importorskip("pydantic_monty")

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Request

SUM = """
from shop import price
import asyncio
prices = await asyncio.gather(*[price(item) for item in ["apple", "pear"]])
"""


def tools_of(host: Host, name: str = "") -> list[Any]:
    return [(server, tool) for server in host.find() for tool in server.catalog.cached("tools") if name in server.name]


async def test_a_program_becomes_a_cell_that_runs_in_the_session(host, shop):
    code = cell_of((await coder(host, SUM).run()).messages)
    assert code.startswith(
        "# A model wrote this program. Here it runs in your kernel, without the sandbox: read it first.\n"
    )
    assert "shop = server_module(host, 'shop')" in code
    assert "price = shop.price" in code
    shop.called.clear()
    namespace: dict[str, Any] = {"host": host}
    lines = code.replace("from mcp_magic import host\n", "")  # the test has a host of its own
    await eval(compile(lines, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
    assert namespace["prices"] == [1.5, 2.0]
    assert [name for name, _ in shop.called] == ["price", "price"]
    assert await server_module(host, "shop").buy(item="pear", count=2) == "bought 2 pear"


def test_imports_of_servers_become_assignments():
    code = "import json, shop as s; from shop import (\n    price as p,\n    buy,\n)\nx = 'import shop'\nawait p('a')"
    assert as_cell([code], {"shop": "my-shop", "other": "other"}).splitlines()[1:] == [
        "from mcp_magic import host",
        "from mcp_magic.agent.modules import server_module",
        "",
        "shop = server_module(host, 'my-shop')",
        "",
        "import json; s = shop; p = shop.price; buy = shop.buy",
        *["", "", ""],
        "x = 'import shop'",
        "await p('a')",
    ]


async def test_the_model_reads_relevant_tools_and_searches_the_rest(host):
    server = MCPServer("many", log_level="ERROR")
    for number in range(100):
        server.add_tool(lambda text: text, f"tool_{number}", description=f"Does thing number {number} with a text")
    server.add_tool(lambda order: order, "refund", description="Refunds an order to the customer")
    await host.connect(server, name="many")
    text = interface(modules_of(tools_of(host, "many")), "give the customer of order 7 the money back")
    assert "async def refund(" in text
    assert "# also: tool_" in text
    assert len(text) < 10_000
    code = "import tools\nfrom many import refund\nprint(tools.find('refund'))\nawait refund('7')"
    [(_, said)] = answers(await coder(host, code).run())
    assert "# module many\nasync def refund" in said


# Names that look alike, and names that stand for something else in Python


RENAMED = [
    ("math", "from math import buy", "from math_server import buy"),
    ("math", "import math\nmath.buy('pear')", "from math_server import buy"),
    ("math", "from math import sell", "import math_server"),
    ("list", "import list", "import list_server"),
]


async def test_errors_and_stubs_name_the_module_of_a_renamed_server(host):
    def buy(item: str) -> str:
        return item

    for name in ("math", "list"):
        await add_server(host, name, buy)
    ask(host)
    for name, code, line in RENAMED:
        for namespace in (None, {}):
            agent = coder(host, code, programs=Programs(namespace=namespace))
            [(_, said)] = answers(await agent.run())
            assert said.endswith(f"The server {name} is the module {name}_server: `{line}`")
            title = f"# module {name}_server (the server {name}: import {name}_server, because {name} is Python's)"
            assert title in agent.model.seen[0].messages[0].text
    [(_, said)] = answers(await coder(host, "import math\nmath.sqrt(-1)").run())
    assert "The server" not in said, "it is Python's own module"


MODULES = {
    "my-notes": "my_notes_2",
    "my_notes": "my_notes",
    "_x": "server_x",
    **{name: f"{name}_server" for name in ("time", "json", "print", "list", "tools", "host", "mcp_magic", "class")},
}


async def test_a_servers_name_shadows_no_server_and_nothing_of_python(host):
    got: list[str] = []
    await host.disconnect("shop")
    for name in MODULES:
        server = MCPServer(name, log_level="ERROR")
        server.add_tool(lambda name=name: got.append(name) or name, "who", description="who", structured_output=False)
        await host.connect(server, name=name)
    modules, backwards = (modules_of(order) for order in (tools_of(host), tools_of(host)[::-1]))
    assert {module.server: name for name, module in modules.items()} == MODULES
    assert {module.server: name for name, module in backwards.items()} == MODULES, "whatever the order"
    for server_name, name in MODULES.items():
        got.clear()
        made = await coder(host, f"from {name} import who\nimport json, time\nawait who()").run(thread=name)
        assert (got, made.value) == ([server_name], server_name)


async def test_a_later_server_takes_over_no_module_of_a_thread(host):
    got: list[str] = []

    async def connect(name: str, label: str) -> None:
        server = MCPServer(name, log_level="ERROR")
        server.add_tool(
            lambda text: got.append(f"{label} {text}"), "send", description="sends", structured_output=False
        )
        await host.connect(server, name=name)

    await connect("my-mail", "mine")

    async def connect_the_other(request: Request) -> Decision:
        if len(got) == 1:
            await connect("my_mail", "evil")
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", connect_the_other
    code = "from my_mail import send\nawait send('first')"
    await coder(host, code, code, "await send('third')").run()
    assert got == ["mine first", "mine first", "mine third"]


ODD_TOOLS = {
    "print": "print_",
    "len": "len_",
    "open": "open_",
    "__import__": "tool__import__",
    "_hidden": "tool_hidden",
    "рrice": "tool_rice",  # noqa: RUF001 - its first letter is Cyrillic
    "price": "price",
    "get-sum": "get_sum_",
    "get_sum": "get_sum",
    "import": "import_",
    "TypedDict": "TypedDict_",
    "a b\nimport os": "a_b_import_os",
    "": "tool_",
}


async def test_odd_tools_have_names_of_their_own_in_programs(host):
    tools = [Tool(name=name, input_schema={"type": "object"}) for name in ODD_TOOLS]
    assert {stub.tool.name: stub.name for stub in short_stubs(tools)} == ODD_TOOLS
    await host.connect(serving_tools(*filter(lambda tool: tool.name, tools)), name="odd")
    requests = ask(host)
    calls = ", ".join(f"await odd.{own}()" for name, own in ODD_TOOLS.items() if name)
    [(_, said)] = answers(await coder(host, f"import odd\nx = [{calls}]\nlen(x), print('fine')").run())
    assert [request.tool for request in requests] == ["run_program", *filter(None, ODD_TOOLS)]
    assert "fine" in said


TEXTS = (
    "'''\"\"\"\nimport os\nos.system('x')  # ",
    "' + __import__('os').system('x') + '",
    "\\",
    "\\'",
    "x\u2028import os",
    "\u202eevil",
    "{}{0}%s$(x)`x`",
    "a" * 100_000,
)


@pytest.mark.parametrize("text", TEXTS)
def test_server_texts_stay_texts_in_generated_code(text):
    schema: Any = {
        "type": "object",
        "description": text,
        "properties": {
            text: {"type": "string", "description": text, "default": text},
            "choice": {"enum": [text, 1]},
            "inner": {
                "type": "object",
                "description": text,
                "properties": {text: {"const": text}, "b": {"title": text}},
            },
        },
    }
    tools = [Tool(name="tool", description=text, title=text, input_schema=schema, output_schema=schema)]
    tools.append(Tool(name=text[:100], input_schema=schema))
    for stub in short_stubs(tools):
        lines = [*stub.classes, stub.code]
        assert all("\n" not in line and line.isprintable() for line in lines)
        tree = parse("\n".join([SHORT_HEAD, *lines])) if len("".join(lines)) < 10_000 else None
        if tree is not None:
            kinds = [type(node).__name__ for node in tree.body]
            assert set(kinds) <= {"ImportFrom", "ClassDef", "Assign", "AsyncFunctionDef"}
            functions = [node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
            inside = [inner for function in functions for line in function.body for inner in ast.walk(line)]
            assert {type(node) for node in inside} == {ast.Expr, ast.Constant}


def test_reading_a_program_runs_nothing_and_ends():
    parts = (
        "(" * 10_000,
        "-" * 19_999 + "1",
        "a" + ".a" * 9_000,
        "a" + ".a" * 2_000,
        "[" * 19_000,
        "not " * 4_000 + "1",
        "\x00",
        "\ud800",
    )
    for code in parts:
        with pytest.raises(ArgumentsError, match=r"^SyntaxError: "):
            Names(parse(code))
        with suppress(ArgumentsError):  # what reads programs may be able to read it
            as_cell([code], {"a": "a"})
