"""What `%mcp stubs`, `%mcp docs`, `%mcp export` and `%mcp trace --export` write stays data, whatever text is in it."""

from __future__ import annotations

import ast
import json
from typing import Any

import mcp_types as types
import pytest
from markdown_it import MarkdownIt
from mcp.server.mcpserver import MCPServer

from mcp_magic._text import HIDDEN
from mcp_magic.config.specs import StdioSpec
from mcp_magic.server.cell import CellServer, Marks, make_server
from mcp_magic.server.docs import page
from mcp_magic.server.export import program
from mcp_magic.server.stubs import stubs
from mcp_magic.trace.trace import IN, OUT, Recorder

WORST = {
    "controls": "\x00\x01\x1b[31m\x7f\x85\x0c\x0b\x1c",
    "quotes": "\"'\\",
    "docstring's end": '"""\nOWNED = 1\n"""',
    "other docstring's end": "'''\nOWNED = 1\n'''",
    "escaped docstring's end": '\\"""\nOWNED = 1\n"""',
    "quote at the end": 'a"',
    "backslash at the end": "a\\",
    "escapes": "\\N{BULLET} \\N{no such} \\x \\u12",
    "bidirectional": "\u202e\u2066x\u2069",
    "line ends": "a\rb\r\nc\u2028d\u2029e\x85f",
    "fences": "```\n~~~\n# A heading\n| a |\n|---|",
    "surrogate": "\ud83d x",
    "templates": "{server} {0} {} %s %(prog)s $a",
    "future": "a\nfrom __future__ import annotations\nOWNED = 1",
    "invisible": "\ufeff\u200b\U000e0041",
    "a megabyte": "x" * 1_000_000,
}


@pytest.fixture(params=WORST)
def text(request: pytest.FixtureRequest) -> str:
    return WORST[request.param]


def tool(text: str) -> types.Tool:
    field = {"type": "string", "title": text, "description": text, "default": text, "enum": [text, "b"]}
    inner = {"type": "object", "description": text, "properties": {text[:300]: field, "c": {"const": text}}}
    schema = {"type": "object", "description": text, "properties": {"a": field, text[:300]: field, "o": inner}}
    plain = {"type": "object", "description": text, "properties": {"z": {"type": "string", "description": text}}}
    result = {"type": "object", "properties": {"p": plain, text[:300]: inner}}
    return types.Tool(name=text[:300], title=text, description=text, input_schema=schema, output_schema=result)


def hidden_in(text: str) -> list[str]:
    return [ascii(hidden[0]) for hidden in HIDDEN.finditer(text)]


def executed(code: str, run_as: str = "written") -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": run_as}
    exec(compile(code, "written.py", "exec", dont_inherit=True), namespace)
    return namespace


def test_stubs_are_a_module_of_one_function_and_what_it_needs(text: str) -> None:
    code = stubs("s", [tool(text)])
    assert hidden_in(code) == []
    namespace = executed(code)
    assert len(namespace["__all__"]) == 1
    assert "OWNED" not in namespace
    allowed = {ast.Expr, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AsyncFunctionDef, ast.ClassDef}
    assert {type(node) for node in ast.parse(code).body} <= allowed


class Offers:
    """A connection to a server that gives one text everywhere."""

    name = "s"
    protocol_version = "2026-07-28"

    def __init__(self, text: str) -> None:
        argument = types.PromptArgument(name=text, description=text, required=True)
        self.instructions = text
        self.server_info = types.Implementation(name=text, title=text, version=text)
        self._listings: dict[str, Any] = {
            "tools": [tool(text)],
            "prompts": [types.Prompt(name=text, title=text, description=text, arguments=[argument])],
            "resources": [types.Resource(uri=text, name=text, description=text, mime_type=text)],
            "templates": [types.ResourceTemplate(uri_template=text, name=text, description=text, mime_type=text)],
        }

    async def listing(self, kind: str) -> Any:
        return self._listings[kind]


async def test_a_page_of_documentation_has_its_own_headings_only(text: str) -> None:
    connection: Any = Offers(text)
    written = await page(connection)
    assert hidden_in(written) == []
    headings = [token.tag for token in MarkdownIt("commonmark").parse(written) if token.type == "heading_open"]
    assert headings == ["h1", "h2", "h3", "h2", "h3", "h2", "h2"]


def test_exported_trace_entry_is_one_visible_line(text: str) -> None:
    recorder = Recorder("s", StdioSpec(command="s"))
    recorder.message(OUT, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": text, "a": [text]}})
    recorder.message(IN, {"jsonrpc": "2.0", "id": 1, "result": {text[:300]: text}})
    recorder.garbage(text)
    for entry in recorder.entries:
        line = entry.as_json()
        assert len(line.splitlines()) == 1
        assert hidden_in(line) == []
        assert json.loads(line)["message"] == entry.message


def cell_server(source: str, **options: Any) -> CellServer:
    namespace: dict[str, Any] = {}
    exec(compile(source, "cell", "exec", dont_inherit=True), namespace)
    functions = [value for name, value in namespace.items() if callable(value) and name != "__builtins__"]
    return make_server("s", functions, Marks(), source=source, **options)


def exported(
    server: CellServer,
    names: dict[str, Any] | None = None,
    *,
    cells: tuple[str, ...] = (),
    file: str = "s.py",
    run_as: str = "",
) -> dict[str, Any]:
    code = program(server, names or {}, cells, file)
    assert hidden_in(code.replace("\r", "")) == []
    return executed(code, run_as)


def server_of(namespace: dict[str, Any]) -> MCPServer:
    (server,) = [value for value in namespace.values() if isinstance(value, MCPServer)]
    return server


def needed(source: str) -> Any:
    """The function g of a cell that ran before."""
    written: dict[str, Any] = {"__name__": "__main__"}
    exec(source, written)
    return written["g"]


async def test_text_of_an_exported_program_is_what_it_was(text: str) -> None:
    small = text[:10_000]
    source = f"def f(a: str) -> str:\n    {small!r}\n    return {small!r} + DATA + a\n"
    namespace = exported(cell_server(source, instructions=small), {"DATA": small}, file=f"{small[:99]}.py")
    assert "OWNED" not in namespace
    assert namespace["f"]("") == 2 * small
    assert server_of(namespace).instructions == small
    assert [tool.name for tool in await server_of(namespace).list_tools()] == ["f"]


def test_a_line_of_a_text_is_no_line_of_the_program() -> None:
    data = '"""\nfrom __future__ import annotations\nimport os; OWNED = 1\n"""'
    source = f"from __future__ import (\n    annotations,\n)\nDATA = {data}\n\ndef f() -> str:\n    return DATA\n"
    namespace = exported(cell_server(source))
    assert "OWNED" not in namespace
    assert namespace["f"]() == ast.literal_eval(data)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=ascii)
async def test_a_cell_may_have_any_ends_of_lines(end: str) -> None:
    docs = '"""Counts.\n\n    Args:\n        a: All.\n    """'
    source = f"import os\n\ndef f(a: bytes) -> int:\n    {docs}\n    return g(a)\n"
    cell = "x = 1\n\ndef g(a):\n    return len(a)\n\ny = 2\n"
    server = cell_server(source.replace("\n", end))
    namespace = exported(server, {"g": needed(cell)}, cells=(cell.replace("\n", end),))
    (tool,) = await server_of(namespace).list_tools()
    assert tool.input_schema["properties"]["a"]["description"] == "All."
    assert namespace["f"](b"ab") == 2


def test_cells_that_never_ran_are_passed_over() -> None:
    cell = "def g():\n    return 1\n"
    cells = (cell, "a\x00b", "\ud83d", "(" * 10_000, "%magic")
    namespace = exported(cell_server("def f() -> int:\n    return g()\n"), {"g": needed(cell)}, cells=cells)
    assert namespace["f"]() == 1


@pytest.mark.parametrize("name", ["server", "MCPServer", "parser", "port", "main"])
async def test_a_function_may_have_a_name_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(MCPServer, "run", lambda server, *transport, **options: ran.append(server.name))
    monkeypatch.setattr("sys.argv", ["s.py", "--http", "8000"])
    source = f"def {name}() -> str:\n    return {name!r}\n\ndef other() -> int:\n    return 1\n"
    namespace = exported(cell_server(source), run_as="__main__")
    assert [tool.name for tool in await server_of(namespace).list_tools()] == [name, "other"]
    assert namespace[name]() == name
    assert ran == ["s"]


def test_notebook_variable_may_share_the_server_name() -> None:
    namespace = exported(cell_server("def f() -> str:\n    return server\n"), {"server": "a text"})
    assert namespace["f"]() == "a text"
