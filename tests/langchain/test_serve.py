"""LangChain tools served as an MCP server: what is listed, called, answered, and what cannot be served."""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel, ConfigDict, Field

import mcp_magic
from mcp_magic.config.targets import is_server
from mcp_magic.errors import ArgumentsError, MCPMagicError, RequestTimeoutError
from mcp_magic.langchain.calls import MCPToolException
from mcp_magic.langchain.content import to_content
from mcp_magic.langchain.serve import serve_langchain
from mcp_magic.notebook import NotebookHost
from mcp_magic.notebook import host as the_host
from tests.support.asgi import serving
from tests.support.bundled import load

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Route(BaseModel):
    """A route."""

    start: str
    stops: list[str] = Field(default_factory=list, description="Where to stop")


@dataclass
class Point:
    x: int
    y: float


@tool
def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


class TravelArguments(BaseModel):
    route: Route
    mode: Literal["train", "foot"] = Field("train", description="How to travel")
    days: int = Field(ge=1, le=30)


class Travel(BaseTool):
    name: str = "travel"
    description: str = "Plan a journey."
    args_schema: type[BaseModel] = TravelArguments

    def _run(self, route: Route, mode: str, days: int) -> dict[str, Any]:
        return {"from": route.start, "mode": mode, "days": days}


@pytest.fixture
async def host():
    async with NotebookHost() as host:
        yield host


@pytest.fixture
def serve(host):
    async def serve(*tools: BaseTool) -> Connection:
        return await host.connect(serve_langchain(list(tools)), name="lc")

    return serve


async def answer(served: BaseTool, **arguments: Any) -> CallToolResult:
    """Return what the served tool answers."""
    result = await serve_langchain([served]).call_tool(served.name, arguments)
    assert isinstance(result, CallToolResult)
    return result


def returning(value: Any, **options: Any) -> StructuredTool:
    """A tool that answers with a value."""
    return StructuredTool.from_function(lambda: value, name="give", description="Give it.", **options)


def raising(error: BaseException, **options: Any) -> StructuredTool:
    """A tool that fails."""

    def fail() -> str:
        raise error

    return StructuredTool.from_function(fail, name="fail", description="Fail.", **options)


# What is listed


async def test_a_served_tool_has_the_name_and_schema_a_model_sees(serve):
    @tool
    def look() -> str:
        """Look."""
        return ""

    class Range(BaseModel):
        start: int = Field(alias="from")

    def plan(**arguments: Any) -> str:
        return ""

    look.metadata = {"annotations": {"title": "Look around", "read_only_hint": False, "openWorldHint": False}}
    made = StructuredTool.from_function
    structured = made(plan, name="plan", description="Plan.", args_schema=TravelArguments)
    at = made(lambda start: start, name="at", description="At.", args_schema=Range)
    tools = [add, Travel(), structured, look, at]
    connection = await serve(*tools)
    listed = connection.catalog.cached("tools")
    assert [(tool.name, tool.description) for tool in listed[:3]] == [
        ("add", "Add two integers."),
        ("travel", "Plan a journey."),
        ("plan", "Plan."),
    ]
    schemas = [listing.input_schema for listing in listed]
    assert schemas[:4] == [tool.tool_call_schema.model_json_schema() for tool in tools[:4]]
    assert schemas[1]["properties"]["days"] == {"maximum": 30, "minimum": 1, "title": "Days", "type": "integer"}
    hints = listed[3].annotations.model_dump(exclude_none=True)
    assert hints == {"title": "Look around", "read_only_hint": False, "open_world_hint": False}
    assert listed[0].annotations is None
    assert list(schemas[4]["properties"]) == ["from"], "a schema with aliases is served as it validates"
    assert (await connection.call_tool("at", {"from": 5})).data == 5
    schemas[0]["properties"].clear()
    assert set(add.tool_call_schema.model_json_schema()["properties"]) == {"a", "b"}, "it is no part of the tool"


async def test_tools_of_texts_and_runnables_are_served(serve):
    class Pair(BaseModel):
        left: int
        right: int

    pair = RunnableLambda(lambda pair: pair["left"] * pair["right"])
    with pytest.warns(LangChainBetaWarning):
        times = pair.as_tool(args_schema=Pair, name="times", description="Multiply.")
    connection = await serve(Tool("shout", lambda text: text.upper(), "Shout."), times)
    schema = connection.catalog.cached("tools")[0].input_schema
    assert schema == {"type": "object", "properties": {"tool_input": {"type": "string"}}, "required": ["tool_input"]}
    assert (await connection.call("shout", tool_input="hey")).text == "HEY"
    assert (await connection.call("times", left=6, right=7)).data == 42


# What is called


async def test_arguments_arrive_validated_and_exact(serve):
    seen: list[Any] = []

    @tool
    def keep(number: int, text: str, route: Route, free: dict[str, Any], type: str = "x") -> str:
        """Keep them."""
        seen.append((number, text, route, free, type))
        return "kept"

    connection = await serve(keep, add, Travel())
    free = {"n": 2**200, "f": 0.1, "none": None, "deep": [{"ß": "🙂"}]}
    quoted = '{"not": "parsed"} é\u2028'
    await connection.call("keep", number=-(2**90), text=quoted, route={"start": "[1]"}, free=free, type="tool_call")
    assert seen == [(-(2**90), quoted, Route(start="[1]"), free, "tool_call")]
    assert (await connection.call("add", a=2)).data == 3, "defaults are LangChain's"
    travel = (await connection.call("travel", route={"start": "Bern"}, days=3)).data
    assert travel == {"from": "Bern", "mode": "train", "days": 3}


async def test_misfit_arguments_are_refused_in_one_line():
    result = await answer(Travel(), route={}, days=99)
    said = "route.start: Field required; days: Input should be less than or equal to 30"
    assert result.is_error
    assert result.content == [TextContent(text=f"TravelArguments cannot take these values: {said}")]
    own = add.model_copy(update={"handle_validation_error": "two integers, please"})
    result = await answer(own, a="x")
    assert (result.is_error, result.content) == (True, [TextContent(text="two integers, please")])


async def test_the_tool_is_the_one_in_the_notebook(serve):
    class Counter(Travel):
        times: int = 0

        def _run(self, **arguments: Any) -> None:
            self.times += 1

    counter = Counter(handle_tool_error=True)
    connection = await serve(counter)
    for _ in range(2):
        await connection.call("travel", route={"start": "Bern"}, days=3)
    assert counter.times == 2


# What comes back


ROUTE = {"start": "a", "stops": []}
IMAGE = {"type": "image", "size": 3}


@pytest.mark.parametrize(
    ("value", "texts", "structured"),
    [
        ("plain", ["plain"], None),
        ("", [""], None),
        (None, [], None),
        (3, ["3"], {"result": 3}),
        (2**80, [str(2**80)], {"result": 2**80}),
        (True, ["true"], {"result": True}),
        (1.5, ["1.5"], {"result": 1.5}),
        (float("nan"), ["NaN"], None),
        ({"a": "é", "n": None}, ['{"a": "é", "n": null}'], {"a": "é", "n": None}),
        ({"type": "text", "text": "a"}, ['{"type": "text", "text": "a"}'], {"type": "text", "text": "a"}),
        (["one", "two"], ["one", "two"], None),
        ([1, "a"], ['[1, "a"]'], {"result": [1, "a"]}),
        ([], ["[]"], {"result": []}),
        ([{"a": 1}, {"a": 2}], ['[{"a": 1}, {"a": 2}]'], {"result": [{"a": 1}, {"a": 2}]}),
        ([IMAGE], ['[{"type": "image", "size": 3}]'], {"result": [IMAGE]}),
        (Route(start="a"), ['{"start": "a", "stops": []}'], ROUTE),
        ([Route(start="a")], ['[{"start": "a", "stops": []}]'], {"result": [ROUTE]}),
        (Point(1, 2.5), ['{"x": 1, "y": 2.5}'], {"x": 1, "y": 2.5}),
        (pd.DataFrame({"n": [1, 2]}), ['[{"n": 1}, {"n": 2}]'], {"result": [{"n": 1}, {"n": 2}]}),
        (1 + 2j, ["(1+2j)"], None),
        (TextContent(text="mcp"), ["mcp"], None),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_values_come_as_text_or_json(value, texts, structured):
    result = await answer(returning(value))
    assert result.content == [TextContent(text=text) for text in texts]
    assert result.structured_content == structured
    assert not result.is_error


SPELLINGS = [  # LangChain 1 and 0, MCP, Anthropic, OpenAI, and MCP's own class
    {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
    {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ImageContent(data=PIXEL, mime_type="image/png"),
]


async def test_images_of_every_spelling_come_as_images():
    for block in SPELLINGS:
        result = await answer(returning(["a pixel", block]))
        assert result.content == [TextContent(text="a pixel"), ImageContent(data=PIXEL, mime_type="image/png")]
        assert result.structured_content is None


async def test_audio_files_and_links_come_as_their_blocks():
    served = [
        {"type": "audio", "base64": PIXEL, "mime_type": "audio/wav"},
        {"type": "file", "base64": PIXEL, "mime_type": "application/pdf"},
        {"type": "image", "url": "https://example.org/a.png", "mime_type": "image/png"},
    ]
    pdf = {"uri": "attachment:2", "mime_type": "application/pdf", "blob": PIXEL}
    result = await answer(returning(served))
    assert [block.model_dump(exclude_none=True) for block in result.content] == [
        {"type": "audio", "data": PIXEL, "mime_type": "audio/wav"},
        {"type": "resource", "resource": pdf},
        {"type": "resource_link", "name": "image 3", "uri": served[2]["url"], "mime_type": "image/png"},
    ]


ARTIFACTS = [
    (None, None),
    ({"rows": [1, 2]}, {"rows": [1, 2]}),
    ([1, 2], {"result": [1, 2]}),
    (Route(start="a"), ROUTE),
    (threading.Lock(), None),  # it is no JSON
]


async def test_a_json_artifact_becomes_structured_content():
    for artifact, structured in ARTIFACTS:
        result = await answer(returning(("read this", artifact), response_format="content_and_artifact"))
        assert result.content == [TextContent(text="read this")]
        assert result.structured_content == structured
    message = ToolMessage("not today", artifact={"code": 7}, status="error", tool_call_id="1")
    result = await answer(returning(message))
    assert result.content == [TextContent(text="not today")]
    assert (result.is_error, result.structured_content) == (True, {"code": 7})


@pytest.mark.parametrize("how", ["result", "message"])
async def test_results_of_other_mcp_tools_pass_whole(host, serve, how):
    math = await host.connect(load("math_server").server, name="math")

    @tool(response_format="content_and_artifact")
    async def divide(a: float, b: float) -> Any:
        """Divide through the host."""
        result = await math.call_tool("divide", {"a": a, "b": b})
        if how == "result":
            return result.text, result
        content, artifact = to_content(result)
        if result.is_error:
            raise MCPToolException(content, artifact)
        return content, artifact

    connection = await serve(divide)
    for b in (4, 0) if how == "message" else (4,):
        direct = (await math.call_tool("divide", {"a": 1, "b": b})).raw
        through = (await connection.call_tool("divide", {"a": 1, "b": b})).raw
        assert through.content == direct.content
        assert through.structured_content == direct.structured_content
        assert through.is_error == direct.is_error == (b == 0)


# What fails


@pytest.mark.parametrize(
    ("served", "says"),
    [
        (raising(ToolException("no such city")), "no such city"),
        (raising(ToolException("no such city"), handle_tool_error=True), "no such city"),
        (raising(ToolException("no such city"), handle_tool_error="try again"), "try again"),
        (raising(ToolException("no such city"), handle_tool_error=lambda e: f"sorry: {e}"), "sorry: no such city"),
        (raising(KeyError("x")), "KeyError: 'x'"),
        (raising(ValueError()), "ValueError"),
        (raising(StopIteration("over")), "StopIteration"),
        (raising(ExceptionGroup("many", [ExceptionGroup("inner", [OSError("disk full")])])), "OSError: disk full"),
        (returning("no pair", response_format="content_and_artifact"), "two-tuple"),
        (returning(Command(goto="x")), "the tool answered with a Command for a LangGraph graph"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_failing_tool_answers_with_its_text(served, says):
    result = await answer(served)
    assert result.is_error
    [block] = result.content
    assert isinstance(block, TextContent)
    assert says in block.text
    assert "Traceback" not in block.text
    assert "\n" not in block.text


async def test_the_session_survives_errors_and_timeouts(serve):
    cancelled = asyncio.Event()

    @tool
    async def hang() -> None:
        """Never answer."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    connection = await serve(add, raising(RuntimeError("out of ink")), hang)
    with pytest.raises(MCPMagicError, match="lc:fail failed: RuntimeError: out of ink"):
        await connection.call("fail")
    with pytest.raises(RequestTimeoutError):
        await connection.call_tool("hang", {}, timeout=0.3)
    await asyncio.wait_for(cancelled.wait(), 60)
    assert (await connection.call("add", a=1)).data == 2


# What runs at the same time


async def test_async_tools_run_at_the_same_time(serve):
    meeting = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait for the others."""
        await meeting.wait()
        return name

    connection = await serve(meet)
    results = await asyncio.wait_for(asyncio.gather(*(connection.call("meet", name=name) for name in "abc")), 60)
    assert [result.text for result in results] == ["a", "b", "c"]


async def test_a_function_that_blocks_does_not_block_the_loop(serve):
    opened = threading.Event()
    ran: list[int] = []

    @tool
    def wait() -> str:
        """Wait in a thread."""
        ran.append(threading.get_ident())
        return str(opened.wait(60))

    class Wait(Travel):
        def _run(self, **arguments: Any) -> str:  # type: ignore[override]
            return wait.func()  # type: ignore[attr-defined,no-any-return]

    @tool
    async def open_it() -> str:
        """Let them go."""
        while len(ran) < 2:
            await asyncio.sleep(0)
        opened.set()
        return "opened"

    connection = await serve(wait, Wait(), open_it)
    days: Any = {"route": {"start": "Bern"}, "days": 3}
    calls = [connection.call("wait"), connection.call("travel", **days), connection.call("open_it")]
    results = await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert [result.text for result in results] == ["True", "True", "opened"]
    assert threading.get_ident() not in ran


# What cannot be served


class Text(BaseModel):
    text: str


taking = tool(description="Take an injected argument.")


@taking
def by_user(text: str, user: Annotated[str, InjectedToolArg] = "x") -> str:
    return text


@taking
def by_state(text: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    return text


@taking
def by_call(text: str, call: Annotated[str, InjectedToolCallId]) -> str:
    return text


@taking
def by_runtime(text: str, runtime: ToolRuntime) -> str:
    return text


@tool(args_schema=Text, description="Take the runtime, which the schema does not mention.")
def by_hidden_runtime(text: str, runtime: ToolRuntime) -> str:
    return text


class ByRun(BaseTool):
    name: str = "by_run"
    description: str = "Take the runtime in the method."
    args_schema: type[BaseModel] = Text

    def _run(self, text: str, runtime: ToolRuntime) -> str:
        return text


@pytest.mark.parametrize(
    ("served", "argument"),
    [
        (by_user, "user"),
        (by_state, "state"),
        (by_call, "call"),
        (by_runtime, "runtime"),
        (by_hidden_runtime, "runtime"),
        (ByRun(), "runtime"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_injected_arguments_are_an_error_that_names_the_tool(served, argument):
    with pytest.raises(TypeError, match=rf"'{served.name}' takes injected arguments \({argument}\)") as raised:
        serve_langchain([add, served])
    assert isinstance(raised.value, MCPMagicError)


def undecorated(a: int) -> int:
    return a


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    lock: asyncio.Lock


NO_TOOL = "undecorated is not a LangChain tool; decorate it with langchain_core.tools.tool."
LOOSE = StructuredTool(name="loose", description="x", args_schema={"type": "object", "properties": {}}, func=lambda: "")
ODD = StructuredTool.from_function(lambda lock: "", name="odd", description="Odd.", args_schema=Odd)
PERHAPS = add.model_copy(update={"metadata": {"annotations": {"read_only_hint": "perhaps"}}})


@pytest.mark.parametrize(
    ("served", "message"),
    [
        ([undecorated], NO_TOOL),
        (undecorated, NO_TOOL),
        ([Travel], "Travel is not a LangChain tool; make an instance of it."),
        ([{"name": "x"}], "an object of type dict is not a LangChain tool."),
        ("add", "an object of type str is not a LangChain tool."),
        (None, "an object of type NoneType is not a LangChain tool."),
        ([add, Travel(), add], "more than one tool is named 'add'; rename it."),
        ([LOOSE], "the args_schema of 'loose' is a dict, ... pydantic model, or connect to "),
        ([ODD], "the arguments of 'odd' have no JSON schema"),
        ([PERHAPS], "metadata['annotations'] of 'add' ... read_only_hint, destructive_hint"),
    ],
)
def test_an_unservable_tool_is_an_error_that_says_what_to_do(served, message):
    with pytest.raises(TypeError) as raised:
        serve_langchain(served)
    if message.endswith("."):
        assert str(raised.value) == f"serve_langchain: {message}"
    for part in message.split("..."):
        assert part in str(raised.value)


async def test_a_tool_of_an_mcp_server_is_an_error(host):
    await host.connect(load("math_server").server, name="math")
    said = r"args_schema of 'math__\w+' is a dict, .*connect to the MCP server that it comes from\.$"
    with pytest.raises(TypeError, match=said):
        serve_langchain(host.langchain_tools())


# How it is connected


async def test_mcp_connect_takes_the_variable(monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.ipython.extension import MCPMagics

    server = mcp_magic.serve_langchain(add)
    assert isinstance(server, MCPServer)
    assert is_server(server)
    assert server.name == "langchain"
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    magics = MCPMagics(InteractiveShell())
    try:
        await magics.run(None, "connect my_tools", None, {"my_tools": server})
        assert (await magics.run(None, "call my_tools:add a=40 b=2", None, {})).data == 42
        with pytest.raises(ArgumentsError):
            await magics.run(None, "call my_tools:add a=forty", None, {})
    finally:
        await the_host.close()


DEFINITIONS = """
from langchain_core.tools import tool
from mcp_magic import serve_langchain

@tool
async def power(base: int, exponent: int) -> int:
    "Raise to a power."
    return base**exponent

@tool
def greet(name: str) -> str:
    "Greet."
    if not name:
        raise ValueError("whom?")
    return f"Grüezi {name} 🙂"
"""


async def answers_as_it_should(connection: Connection) -> None:
    """The same over every transport."""
    assert [tool.name for tool in connection.catalog.cached("tools")] == ["power", "greet"]
    assert (await connection.call("power", base=7, exponent=100)).data == 7**100
    assert (await connection.call("greet", name="Zoë\n")).text == "Grüezi Zoë\n 🙂"
    with pytest.raises(MCPMagicError, match="ValueError: whom"):
        await connection.call("greet", name="")


async def test_it_serves_over_stdio(host, tmp_path):
    script = tmp_path / "served.py"
    script.write_text(DEFINITIONS + 'serve_langchain([power, greet], name="served").run("stdio")\n', encoding="utf-8")
    await answers_as_it_should(await host.connect(script))


async def test_it_serves_over_streamable_http(host):
    namespace: dict[str, Any] = {}
    exec(DEFINITIONS, namespace)
    server = serve_langchain([namespace["power"], namespace["greet"]])
    async with serving(server.streamable_http_app()) as url:
        await answers_as_it_should(await host.connect(f"{url}/mcp"))
        await host.close()


async def test_a_program_imports_no_notebook_and_prints_no_failure(tmp_path):
    code = DEFINITIONS + (
        "import asyncio, sys\n"
        "result = asyncio.run(serve_langchain([greet]).call_tool('greet', {'name': ''}))\n"
        "print([name for name in ('IPython', 'ipywidgets', 'pandas', 'langgraph') if name in sys.modules])\n"
        "print(result.content[0].text)\n"
    )
    pipe = asyncio.subprocess.PIPE  # in a Python of its own, where nobody has set up logging
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe, stderr=pipe, cwd=tmp_path)
    stdout, stderr = await process.communicate()
    assert (stdout.decode().splitlines(), stderr) == (["[]", "ValueError: whom?"], b"")
