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

NAMES = "list list_ str dict int float bool object tuple TypedDict Literal Any NotRequired host annotations _call"
NAMES += (
    " _NAMES _UNSET __getattr__ __all__ __ result typed not 3d Typed2 \ufb01x fix x\u00bd self tool ListResult class"
)
ARGUMENTS = "dict list str tool self _call _UNSET _NAMES given class class_ a-b a_b host \ufb01x __class__ required Any"
TEXT = {"type": "string"}
THINGS = {"type": "array", "items": {"type": "object", "properties": {"str": TEXT, "id": TEXT}}}
WORDS = {"type": "object", "properties": {key: {"type": "array", "items": TEXT} for key in ARGUMENTS.split()}}


def shadow(name):
    """Return a tool whose name, arguments and results mean something else in a module."""
    arguments = ARGUMENTS.split() if name in ("list", "3d") else ["dict", "items"]
    schema = {"type": "object", "properties": dict.fromkeys(arguments, THINGS), "required": ["dict"]}
    output = {**WORDS, "properties": {**WORDS["properties"], "ListResultItem": WORDS}} if name == "list" else None
    return types.Tool(name=name, input_schema=schema, output_schema=output)


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
    shadows = [shadow(name) for name in [*NAMES.split(), ""]]

    async def tools(context, params):
        return types.ListToolsResult(tools=[tool.model_copy(update={"output_schema": None}) for tool in shadows])

    async def called(context, params):
        return types.CallToolResult(content=[types.TextContent(text=json.dumps([params.name, params.arguments]))])

    await notebook_host.connect(Server("shadows", on_list_tools=tools, on_call_tool=called), name="shadows")
    made = module(tmp_path, stubs("shadows", shadows))
    assert len(set(made.__all__)) == len(shadows)
    for name, tool in zip(made.__all__, shadows, strict=True):
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
