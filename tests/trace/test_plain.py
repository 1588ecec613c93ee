"""Messages of the usual form are recorded as fast as they can be: as they were, whatever came before or comes after."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import StdioSpec
from mcp_magic.trace.plain import SHORT
from mcp_magic.trace.trace import IN, OUT, Recorder

META = {"io.modelcontextprotocol/serverInfo": {"name": "box", "version": "1"}}
CALLS: list[dict[str, Any]] = [
    {"name": "add", "arguments": {"a": 1, "b": 2.0}},
    {"name": "add", "arguments": {"a": True, "b": None}},
    {"name": "say", "arguments": {"text": 'é "quoted"\n'}},
    {"name": "say", "arguments": {"text": "x" * (SHORT + 1)}},
    {"name": "say", "arguments": {}},
    {"name": "add", "arguments": {"a": 10**400}},
    {"name": "add", "arguments": {"a": [1, 2]}},
    {"name": "add", "arguments": {"a": 1}, "task": {}},
    {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": 7}},
    {"name": "add"},
]


def says(text: Any, **members: Any) -> dict[str, Any]:
    """Return a result; a member that is `...` is left out."""
    content = [] if text is None else [{"type": "text", "text": text}]
    whole = {"content": content, "structuredContent": {"result": 3}, "isError": False, "_meta": META, **members}
    return {key: value for key, value in whole.items() if value is not ...}


ANSWERS = [
    says("3"),
    says("4", structuredContent={"result": 4.5}),
    says("5", structuredContent={"result": None}),
    says("5", structuredContent={"result": [1]}),
    says("no", isError=True),
    says("3", structuredContent=None),
    says("3", isError=0),
    says("3", isError=1),
    says("3", _meta={"a": 1}),
    says(["3"], structuredContent={"a": 3}),
    says(None, content=[{"type": "html", "text": "3"}], structuredContent={"a": 3}),
    says("3", structuredContent=..., resultType="complete"),
    says(None),
    says("3", structuredContent=..., isError=..., _meta=...),
    {},
]


def recorder() -> Recorder:
    return Recorder("box", StdioSpec(command="box"))


@pytest.mark.parametrize("key", ["params", "result"])
@pytest.mark.parametrize("number", [5, "five"])
def test_messages_are_recorded_independently_of_earlier_ones(key, number):
    direction = OUT if key == "params" else IN
    start = {"jsonrpc": "2.0", **({"method": "tools/call"} if key == "params" else {})}
    for pair in itertools.product(CALLS if key == "params" else ANSWERS, repeat=2):
        made = recorder()
        messages = [{**start, "id": id_, key: values} for id_, values in zip((1, number), pair, strict=True)]
        for message in messages:
            made.message(direction, deepcopy(message))
        errors = ["error" if values.get("isError") is True else "answer" for values in pair]
        entries = made.entries
        assert [json.dumps(entry.message) for entry in entries] == [json.dumps(message) for message in messages]
        assert [entry.kind for entry in entries] == (["request"] * 2 if key == "params" else errors)
        assert all(entry.whole and len(entry.text) == entry.size for entry in entries)


@pytest.mark.parametrize("value", [1, "x" * 2 * SHORT, {"inside": [1]}], ids=["plain", "long", "nested"])
async def test_values_are_recorded_before_later_changes(host, value):
    server = MCPServer("box")

    async def change(context: Any, call_next: Any) -> Any:
        answer = await call_next(context)
        if context.method == "tools/call":
            arguments = context.params["arguments"]
            (arguments["value"] if isinstance(arguments["value"], dict) else arguments).clear()
        return answer

    @server.tool()
    def give(value: Any) -> dict[str, Any]:
        return {"value": value}

    server.middleware.append(change)
    connection = await host.connect(server, name="box")
    sent = {"value": value}
    result = await connection.call("give", sent)
    assert result.data == sent
    for changed in (result.data, result.raw.structured_content, sent):
        changed["value"] = "changed"
    request, answer = connection.trace.entries[-2:]
    shown = "x" * SHORT if isinstance(value, str) else value
    assert str(shown) in str(request.message["params"]["arguments"])
    assert str(shown) in str(answer.message["result"]["structuredContent"])


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_infinity_is_recorded_apart_from_null(value):
    made, values = recorder(), [value, 1.0, value]
    for number, a in enumerate(values):
        params = {"name": "add", "arguments": {"a": a, "b": None}}
        made.message(OUT, {"jsonrpc": "2.0", "method": "tools/call", "id": number, "params": params})
    shown = [str(entry.message["params"]["arguments"]["a"]) for entry in made.entries]
    assert shown == [str(a) for a in values]
    assert all(entry.size == len(entry.text) for entry in made.entries)


def test_a_secret_learned_later_is_masked_in_a_shared_part():
    made = recorder()
    for number in range(4):
        result = {"content": [{"type": "text", "text": str(number)}], "_meta": {"build": "sesame4711"}}
        made.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
        if number == 2:
            assert b"sesame4711" in made.entries[-1].text
            made.know(["sesame4711"])
    last = made.entries[-1]
    assert last.message["result"] == {"content": [{"type": "text", "text": "3"}], "_meta": {"build": "***"}}
    assert not last.whole


UNUSUAL: list[tuple[Any, Any]] = [
    ({"value": 2**70}, {}),
    ({"value": -0.0, "all": 1.5e300}, {}),
    ({"value": float("inf")}, {}),
    ({"value": "half \ud800"}, {}),
    ({"value": '{"id":7},"\\u001e",{"id":8}'}, {}),
    ({"value": "a,\x1e,b"}, {}),
    ({"value": 1}, {"between": [{}, "\x1e", {}]}),
    ({"value": 1}, {"much": ["x"] * 30_000}),
]


@pytest.mark.parametrize(("structured", "meta"), UNUSUAL)
def test_unusual_values_are_recorded_beside_usual_ones(structured, meta):
    made = recorder()
    rows = [({"value": 1}, {}), (structured, meta), ({"value": 3}, {"by": "math"})]
    messages = []
    for number, (values, about) in enumerate(rows, 1):
        content = [{"type": "text", "text": str(number)}]
        messages.append({"id": number, "result": {"content": content, "structuredContent": values, "_meta": about}})
        made.message(IN, messages[-1])
    first, unusual, last = (entry.message for entry in made.entries)
    assert [first, last] == [messages[0], messages[2]]
    if "much" in meta:
        assert unusual["id"] == 2
        assert not made.entries[1].whole
    else:
        assert unusual == messages[1]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.parametrize("member", ["_meta", "resultType", "structuredContent"])
@pytest.mark.parametrize("levels", [200, 300, 400, 900, 2000])
def test_answers_of_many_levels_are_recorded_beside_others(levels, member):
    made = recorder()
    for number, value in enumerate([nested(levels), {"by": "math"}, nested(levels), {"by": "math"}]):
        result = {"content": [{"type": "text", "text": "x"}], member: value}
        made.message(IN, {"jsonrpc": "2.0", "id": number, "result": result})
    assert [entry.message["id"] for entry in made.entries] == [0, 1, 2, 3]
    assert made.entries[3].message["result"][member] == {"by": "math"}
