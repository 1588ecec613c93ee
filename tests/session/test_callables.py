"""Tools as Python functions: what Tab and Shift-Tab see is what the schema says."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Literal

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server

from mcp_magic import errors
from tests.support.bundled import load
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from types import FrameType

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


@pytest.fixture
async def show(host: Host) -> Connection:
    return await host.connect(load("showcase_server").server, name="show")


async def test_tool_is_awaitable_with_signature_and_documentation(show: Connection) -> None:
    enums = show.tools.enums
    assert inspect.iscoroutinefunction(type(enums).__call__)
    parameters = inspect.signature(enums).parameters
    assert parameters, "the signature comes from the schema"
    hints = [parameter.annotation for parameter in parameters.values()]
    assert any(getattr(hint, "__origin__", None) is Literal for hint in hints)
    assert "Args:" in (enums.__doc__ or "")
    assert enums.__name__ == "enums"


async def test_a_tool_is_called_with_python_values(show: Connection) -> None:
    assert (await show.tools.large(kilobytes=3)).text
    assert (await show.tools["one_text"](text="hello")).text == "hello"


@pytest.mark.parametrize("name", ["enums", "nullable", "union", "tree", "defaults", "formats"])
async def test_signatures_accept_the_examples_of_their_schemas(show: Connection, name: str) -> None:
    from mcp_magic import schema

    tool = show.tools[name]
    example = schema.example_arguments(tool.definition.input_schema)
    tool.__signature__.bind(**{k: v for k, v in example.items() if k in tool.__signature__.parameters})
    assert not (await tool(**example)).is_error


async def test_missing_and_unknown_arguments_are_refused_unsent(show: Connection) -> None:
    sent = show.calls
    with pytest.raises(errors.ArgumentsError):
        await show.tools.slow()
    with pytest.raises(errors.ArgumentsError, match="Did you mean 'seconds'"):
        await show.tools.slow(second=1)
    with pytest.raises(errors.ArgumentsError):
        await show.tools.slow(seconds="soon")
    assert show.calls == sent


async def test_the_namespace_completes_counts_and_iterates(show: Connection) -> None:
    assert "slow" in dir(show.tools)
    assert "slow" in show.tools
    assert len(show.tools) == len(list(show.tools)) > 50
    assert "slow" in show.tools._ipython_key_completions_()
    assert "tools of 'show'" in repr(show.tools)
    assert repr(show.tools.slow).startswith("<tool show:slow(seconds: float")


async def test_underscore_reaches_a_hyphenated_tool_where_unambiguous(host: Host) -> None:
    names = ["get-sum", "a-b", "a.b", "c_d", "c-d", "class", "3d"]
    schema = {"type": "object", "properties": {"max-width": {"type": "integer"}}, "required": ["max-width"]}
    server = serving_tools(*(types.Tool(name=name, input_schema=schema) for name in names))
    tools = (await host.connect(server, name="s")).tools
    assert dir(tools) == ["c_d", "class_", "get_sum"]
    assert (tools.get_sum.__name__, tools.c_d.__name__, tools.class_.__name__) == ("get-sum", "c_d", "class")
    with pytest.raises(AttributeError, match=r"s has no tool 'a_b'\. Did you mean 'a"):
        tools.a_b
    assert "get_sum" not in tools
    assert (await tools.get_sum(**{"max-width": 3})).text == "[('max-width', 3)]"
    assert "give **{'max-width': ...}" in (tools.get_sum.__doc__ or "")
    with pytest.raises(errors.ArgumentsError, match=r"missing: max-width \(integer\); give it as \*\*"):
        await tools.get_sum()


async def test_unknown_tool_is_attribute_error_with_suggestion(show: Connection) -> None:
    with pytest.raises(AttributeError, match=r"show has no tool 'slo'\. Did you mean 'slow'"):
        show.tools.slo
    with pytest.raises(errors.UnknownToolError):
        show.tools["slo"]
    assert not hasattr(show.tools, "_repr_html_")


async def test_a_tool_whose_definition_changes_gets_a_new_function(show: Connection) -> None:
    before = show.tools.slow
    assert show.tools.slow is before
    await show.listing("tools", refresh=True)
    assert show.tools.slow is not before


async def test_a_connection_shows_who_it_is_and_what_it_offers(show: Connection) -> None:
    shown: dict[str, Any] = show._repr_mimebundle_()
    assert shown["text/plain"].startswith("show: open\n  in-process MCPServer 'showcase'")
    assert "%mcp tools show" in shown["text/html"]


async def test_calls_take_arguments_that_are_named_like_options(show: Connection) -> None:
    result = await show.call("one_text", {"text": "a"})
    assert result.text == "a"
    assert (await show.call("one_text", {"text": "a"}, text="b")).text == "b"


async def test_all_ways_to_call_accept_any_argument_name(host: Host) -> None:
    names = ("self", "tool", "name", "arguments", "timeout", "server", "connection", "args", "kwargs", "named", "class")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}

    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="f", input_schema=schema)])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=repr(params.arguments))])

    connection = await host.connect(Server("any", on_list_tools=tools, on_call_tool=called), name="any")
    given: dict[str, Any] = {name: name.upper() for name in names}
    for answer in (
        await connection.tools.f(**given),
        await connection.call("f", **given),
        await host.call("any:f", **given),
        await host.call("any:f", given),
    ):
        assert answer.text == repr(given)


async def test_call_refused_before_listing_is_sent_again_once(host: Host) -> None:
    entered: list[str] = []

    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        entered.append("list")
        return types.ListToolsResult(tools=[types.Tool(name="f", input_schema={"type": "object"})])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        entered.append("call")
        if entered.count("call") == 1:
            raise MCPError(types.HEADER_MISMATCH, "the Mcp-Param-* headers do not match the arguments")
        return types.CallToolResult(content=[types.TextContent(text="done")])

    connection = await host.connect(Server("strict", on_list_tools=tools, on_call_tool=called), name="strict")
    await connection.listing("tools")
    entered.clear()
    assert (await connection.call("f")).text == "done"
    assert entered == ["call", "list", "call"]


async def test_a_call_goes_straight_to_its_transport(show: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)  # a test before this one may have set one
    await show.call_tool("one_text", {"text": "warm"})
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/mcp_magic/" in file:
            entered.append((file.rpartition("/mcp_magic/")[2], frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await show.call_tool("one_text", {"text": "hello"})
    finally:
        sys.setprofile(before)
    way = entered[: next(at for at, (module, _) in enumerate(entered) if module == "session/streams.py")]
    # three of them, in `session/loops.py`, ask whether this is the loop of the session
    assert len(way) <= 19, "\n".join(map(str, way))
    assert len({module for module, _ in way}) <= 7, way
