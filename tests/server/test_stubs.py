"""A server as a typed module, whose functions call it, whatever its tools are called and say."""

import ast
import importlib.util
import inspect
import json

import mcp_types as types
from mcp.server import Server

from mcp_magic.notebook import host as notebook_host
from mcp_magic.server.stubs import stubs
from tests.support.bundled import load
from tests.support.hostile_texts import hidden_in, hostile_texts, hostile_tool
from tests.support.shadows import SHADOWS


def module(folder, code):
    file = folder / "made.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


async def test_stubs_call_the_session_of_their_name(tmp_path):
    connection = await notebook_host.connect(load("math_server").server, name="math")
    tools = await connection.listing("tools")
    made = module(tmp_path, stubs("math", tools))
    assert len(made.__all__) == len(tools)
    assert await made.add(3, 4) == 7
    assert await made.primes(10) == [2, 3, 5, 7]
    assert (await made.statistics([1, 2, 3]))["mean"] == 2
    assert "a (integer or number): The left number" in made.add.__doc__
    assert "n (integer, 0 to 1000): A whole number" in made.factorial.__doc__
    await notebook_host.close()


async def test_stubs_of_tools_that_are_called_like_python_call_them(tmp_path):
    async def tools(context, params):
        return types.ListToolsResult(tools=[tool.model_copy(update={"output_schema": None}) for tool in SHADOWS])

    async def called(context, params):
        return types.CallToolResult(content=[types.TextContent(text=json.dumps([params.name, params.arguments]))])

    await notebook_host.connect(Server("shadows", on_list_tools=tools, on_call_tool=called), name="shadows")
    made = module(tmp_path, stubs("shadows", SHADOWS))
    assert len(set(made.__all__)) == len(SHADOWS)
    for name, tool in zip(made.__all__, SHADOWS, strict=True):
        function = getattr(made, name)
        empty = {argument: [] for argument in inspect.signature(function).parameters}
        assert await function(**empty) == [tool.name, {key: [] for key in tool.input_schema["properties"]}]
    await notebook_host.close()


@hostile_texts
def test_stubs_are_a_module_of_one_function_and_what_it_needs(text):
    code = stubs("s", [hostile_tool(text)])
    assert hidden_in(code) == []
    namespace = {"__name__": "written"}
    exec(compile(code, "written.py", "exec", dont_inherit=True), namespace)
    assert len(namespace["__all__"]) == 1
    assert "OWNED" not in namespace
    usual = {ast.Expr, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AsyncFunctionDef, ast.ClassDef}
    assert {type(node) for node in ast.parse(code).body} <= usual
