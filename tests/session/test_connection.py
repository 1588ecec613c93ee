"""A connection as its user sees it: its card, its tools as Python functions, and what its calls take and say."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server

from mcp_magic import errors, schema
from tests.support.bundled import load
from tests.support.lowlevel import serving_tools
from tests.support.walks import modules, walk


@pytest.fixture
async def show(host):
    return await host.connect(load("showcase_server").server, name="show")


async def test_connection_info_is_a_value_that_does_not_change(host):
    connection = await host.connect(load("math_server").server, name="math")
    shown: dict[str, Any] = connection._repr_mimebundle_()
    assert shown["text/plain"].startswith("math: open\n  in-process MCPServer 'math'")
    assert "%mcp tools math" in shown["text/html"]
    await connection.call("add", a=1, b=2)
    info = connection.info()
    await connection.close()
    assert (info.state, info.calls, info.failures, info.problem) == ("open", connection.calls, 0, "")
    assert (info.counts["tools"], info.row(why="asked")["tools"], info.row(why="asked")["why"]) == (8, 8, "asked")
    assert info._repr_mimebundle_()["text/plain"].startswith("math: open\n")
    assert connection.info().state == "closed"
    assert "%mcp reconnect math" in connection._repr_mimebundle_()["text/plain"]


# Tools as functions


async def test_tool_is_awaitable_with_signature_and_documentation(show):
    enums = show.tools.enums
    assert inspect.iscoroutinefunction(type(enums).__call__)
    parameters = inspect.signature(enums).parameters
    assert parameters, "the signature comes from the schema"
    hints = [parameter.annotation for parameter in parameters.values()]
    assert any(getattr(hint, "__origin__", None) is Literal for hint in hints)
    assert "Args:" in (enums.__doc__ or "")
    assert enums.__name__ == "enums"
    assert (await show.tools.large(kilobytes=3)).text
    assert (await show.tools["one_text"](text="hello")).text == "hello"


async def test_signatures_accept_the_examples_of_their_schemas(show):
    for name in ("enums", "nullable", "union", "tree", "defaults", "formats"):
        tool = show.tools[name]
        example = schema.example_arguments(tool.definition.input_schema)
        tool.__signature__.bind(**{k: v for k, v in example.items() if k in tool.__signature__.parameters})
        assert not (await tool(**example)).is_error


async def test_missing_and_unknown_arguments_are_refused_unsent(show):
    sent = show.calls
    with pytest.raises(errors.ArgumentsError):
        await show.tools.slow()
    with pytest.raises(errors.ArgumentsError, match="Did you mean 'seconds'"):
        await show.tools.slow(second=1)
    with pytest.raises(errors.ArgumentsError):
        await show.tools.slow(seconds="soon")
    with pytest.raises(errors.ArgumentsError) as caught:
        await show.call("slow", seconds=1, timeout="x")
    assert str(caught.value) == (
        "unknown argument 'timeout'. It takes seconds\n"
        "  `timeout` is an option of call_tool: `await host['show'].call_tool('slow', arguments, timeout=...)`"
    )
    assert show.calls == sent


async def test_the_namespace_completes_counts_and_iterates(show):
    assert "slow" in dir(show.tools)
    assert "slow" in show.tools
    assert len(show.tools) == len(list(show.tools)) > 50
    assert "slow" in show.tools._ipython_key_completions_()
    assert "tools of 'show'" in repr(show.tools)
    assert repr(show.tools.slow).startswith("<tool show:slow(seconds: float")
    with pytest.raises(AttributeError, match=r"show has no tool 'slo'\. Did you mean 'slow'"):
        show.tools.slo
    with pytest.raises(errors.UnknownToolError):
        show.tools["slo"]
    assert not hasattr(show.tools, "_repr_html_")
    before = show.tools.slow
    assert show.tools.slow is before
    await show.listing("tools", refresh=True)
    assert show.tools.slow is not before, "a definition that may have changed has a new function"


async def test_underscore_reaches_a_hyphenated_tool_where_unambiguous(host):
    names = ["get-sum", "a-b", "a.b", "c_d", "c-d", "class", "3d"]
    wide = {"type": "object", "properties": {"max-width": {"type": "integer"}}, "required": ["max-width"]}
    server = serving_tools(*(types.Tool(name=name, input_schema=wide) for name in names))
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


# Calls


async def test_all_ways_to_call_accept_any_argument_name(host):
    names = ("self", "tool", "name", "arguments", "timeout", "server", "connection", "args", "kwargs", "named", "class")
    texts = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
    connection = await host.connect(serving_tools(types.Tool(name="f", input_schema=texts)), name="any")
    all_named: dict[str, Any] = {name: name.upper() for name in names}
    for answer in (
        await connection.tools.f(**all_named),
        await connection.call("f", **all_named),
        await connection.call("f", {"self": "x"}, **all_named),
        await host.call("any:f", **all_named),
        await host.call("any:f", all_named),
    ):
        assert answer.text == repr(sorted(all_named.items()))


async def test_call_refused_before_listing_is_sent_again_once(host):
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


async def test_a_call_goes_straight_to_its_transport(show, monkeypatch):
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)  # a test before this one may have set one
    await show.call_tool("one_text", {"text": "warm"})
    with walk() as entries:
        await show.call_tool("one_text", {"text": "hello"})
    way = entries[: next(at for at, (module, _) in enumerate(entries) if module == "session/streams.py")]
    # three of them ask whether this is the loop of the session, four are the observers
    assert len(way) <= 45, "\n".join(map(str, way))
    assert len(modules(way)) <= 18, way


async def test_a_protocol_error_has_its_code_and_what_it_means(show):
    with pytest.raises(errors.ProtocolError) as failed:
        await show.call("fail_protocol")
    said = "show:fail_protocol: This tool always refuses its parameters (-32602, invalid params; fault: the caller)"
    assert str(failed.value) == said
    assert (failed.value.code, failed.value.data) == (-32602, {"reason": "showcase"})
