"""A server of a cell as a program: it offers the same, and its text stays text; a kernel has the cell itself."""

import ast

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.server.cell import Marks, make_server
from mcp_magic.server.export import program
from tests.support.hostile_texts import hidden_in, hostile_texts


def executed(code, run_as="written"):
    namespace = {"__name__": run_as}
    exec(compile(code, "written.py", "exec", dont_inherit=True), namespace)
    return namespace


def cell_server(source, **options):
    namespace = executed(source)
    functions = [value for name, value in namespace.items() if callable(value) and name != "__builtins__"]
    return make_server("s", functions, Marks(), source=source, **options)


def exported(server, names=None, cells=(), file="s.py", run_as=""):
    code = program(server, names or {}, cells, file)
    assert hidden_in(code.replace("\r", "")) == []
    return executed(code, run_as)


def server_in(namespace):
    [server] = [value for value in namespace.values() if isinstance(value, MCPServer)]
    return server


@hostile_texts
async def test_text_of_an_exported_program_is_what_it_was(text):
    small = text[:10_000]
    source = f"def f(a: str) -> str:\n    {small!r}\n    return {small!r} + DATA + a\n"
    namespace = exported(cell_server(source, instructions=small), {"DATA": small}, file=f"{small[:99]}.py")
    assert "OWNED" not in namespace
    assert namespace["f"]("") == 2 * small
    assert server_in(namespace).instructions == small
    assert [tool.name for tool in await server_in(namespace).list_tools()] == ["f"]


def test_a_line_of_a_text_is_no_line_of_the_program():
    data = '"""\nfrom __future__ import annotations\nimport os; OWNED = 1\n"""'
    source = f"from __future__ import (\n    annotations,\n)\nDATA = {data}\n\ndef f() -> str:\n    return DATA\n"
    namespace = exported(cell_server(source))
    assert "OWNED" not in namespace
    assert namespace["f"]() == ast.literal_eval(data)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
async def test_a_cell_may_have_any_ends_of_lines(end):
    source = (
        'import os\n\ndef f(a: bytes) -> int:\n    """Counts.\n\n    Args:\n        a: All.\n    """\n    return g(a)\n'
    )
    needed = "x = 1\n\ndef g(a):\n    return len(a)\n\ny = 2\n"
    cells = (needed.replace("\n", end), "a\x00b", "\ud83d", "(" * 10_000, "%magic")  # what never ran is passed over
    namespace = exported(cell_server(source.replace("\n", end)), {"g": executed(needed, "__main__")["g"]}, cells)
    [tool] = await server_in(namespace).list_tools()
    assert tool.input_schema["properties"]["a"]["description"] == "All."
    assert namespace["f"](b"ab") == 2


@pytest.mark.parametrize("name", ["server", "MCPServer", "parser", "port", "main"])
async def test_a_function_may_have_a_name_that_the_program_uses_itself(name, monkeypatch):
    ran = []
    monkeypatch.setattr(MCPServer, "run", lambda server, *transport, **options: ran.append(server.name))
    monkeypatch.setattr("sys.argv", ["s.py", "--http", "8000"])
    source = f"def {name}() -> str:\n    return {name!r}\n\ndef other() -> int:\n    return 1\n"
    namespace = exported(cell_server(source), run_as="__main__")
    assert [tool.name for tool in await server_in(namespace).list_tools()] == [name, "other"]
    assert namespace[name]() == name
    assert ran == ["s"]


def test_notebook_variable_may_share_the_server_name():
    namespace = exported(cell_server("def f() -> str:\n    return server\n"), {"server": "a text"})
    assert namespace["f"]() == "a text"
